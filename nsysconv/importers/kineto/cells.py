"""Columns out of events: whole numbers and exact nanoseconds, whatever spelling a file chose."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain
from struct import error as StructError  # noqa: N812 - is a class
from struct import pack
from typing import Any

import numpy as np

Array = np.ndarray

MISSING = int(np.iinfo(np.int64).min)
_LIMIT = 1 << 63
# Below this many microseconds (a hundred days) the double nearest to a time with three decimals lies
# closer to it than to any other such time: half its spacing is less than half a nanosecond.
_EXACT_US = float(1 << 43)
_THOUSAND = 1000
_NUMBER = re.compile(r"-?\d+")
_LONGEST = 20


def whole(values: list[Any]) -> Array:
    """Values as int64; what is no whole number in any spelling is MISSING."""
    if not len(values):
        return np.empty(0, np.int64)
    if values[0] is None and values.count(None) == len(values):
        return np.full(len(values), MISSING)
    column = _integers(values)
    if column is None:  # most columns lack no value, and looking for one costs
        column = _integers([MISSING if value is None else value for value in values])
    if column is None:
        column = np.fromiter((_whole(value) for value in values), np.int64, len(values))
    return column


def _integers(values: Sequence[Any]) -> Array | None:
    """Values as int64 where all are integers of 64 bits."""
    # Not np.array: of one long text among them it would make as many as there are values. And not
    # array: it takes twice as long.
    try:
        return np.frombuffer(pack(f"{len(values)}q", *values), np.int64)
    except (StructError, OverflowError):
        return None


def _floats(values: Sequence[Any]) -> Array | None:
    """Values as float64 where all are numbers."""
    try:
        return np.frombuffer(pack(f"{len(values)}d", *values), np.float64)
    except (StructError, OverflowError):
        return None


def _whole(value: Any) -> int:
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    elif isinstance(value, str):
        # "7", but also "stream 7" and "thread 25738 (python)" of the first releases.
        digits = _NUMBER.search(value)
        value = int(digits.group()) if digits and len(digits.group()) <= _LONGEST else None
    return value if isinstance(value, int) and -_LIMIT < value < _LIMIT else MISSING


def triples(values: Sequence[Any]) -> tuple[Array, Array, Array]:
    """Lists of three numbers as three columns."""
    try:
        lengths = set(map(len, values))
    except TypeError:  # a number, or none
        lengths = set()
    cells = _integers(list(chain.from_iterable(values))) if lengths == {3} else None
    if cells is None:
        rows = [
            value if isinstance(value, list) and len(value) == 3 else [None] * 3 for value in values
        ]
        return whole([r[0] for r in rows]), whole([r[1] for r in rows]), whole([r[2] for r in rows])
    return cells[0::3], cells[1::3], cells[2::3]


def nanoseconds(values: Sequence[Any], spelled: Callable[[], Sequence[bytes]]) -> Array:
    """Microseconds as exact int64 nanoseconds; MISSING for what is no number.

    `spelled` gives the values' text; asked only where doubles do not hold them exactly.
    """
    if not len(values):
        return np.empty(0, np.int64)
    if isinstance(values[0], bool):  # which is a number here, and in JSON is none
        return np.fromiter((_exact(text) for text in spelled()), np.int64, len(values))
    whole_us = _integers(values)
    if whole_us is not None:
        if abs(int(whole_us.min())) < _LIMIT // _THOUSAND > int(whole_us.max()):
            return whole_us * _THOUSAND
    elif (us := _floats(values)) is not None and -_EXACT_US < us.min() <= us.max() < _EXACT_US:
        below = np.floor(us)
        fraction = np.rint((us - below) * _THOUSAND)
        exact: Array = below.astype(np.int64) * _THOUSAND + fraction.astype(np.int64)
        return exact
    return np.fromiter((_exact(text) for text in spelled()), np.int64, len(values))


def _exact(text: bytes) -> int:
    try:
        number = Decimal(text.decode().strip('"'))
        # As a whole number, 1e999999999 would fill the memory.
        if not number.is_finite() or number.adjusted() >= _LONGEST:
            return MISSING
        nearest = int((number * _THOUSAND).to_integral_value())
    except (ArithmeticError, ValueError):
        return MISSING
    return nearest if -_LIMIT < nearest < _LIMIT else MISSING
