"""What one piece of a trace holds, as workers hand it over. Nothing heavy is imported here."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from itertools import chain
from struct import error as StructError  # noqa: N812 - is a class
from struct import pack
from typing import Any

MISSING = -(1 << 63)
"""No value, in a column of int64."""
BEYOND = MISSING + 1
"""A time that is a number, and more than an int64 holds."""

OPERATOR, PYTHON_FUNCTION = 0, 1
"""Kinds of rows of the table of operators."""

ACCELERATOR = "accelerator "
"""How the counts of an accelerator's events begin; what such events are called follows."""

FURTHER_ARRAY = "further array"
"""How arrays of events are counted that follow another in its object."""

CELL_BYTES = 8
"""How long a packed cell is."""

NAMES = frozenset({"name_id", "shapes_id", "types_id", "dtype_id", "group_id", "group_ranks_id"})
"""Columns that hold places in a list of names."""


class TimeUnit(Enum):
    """How times are packed: nanoseconds and whole microseconds as int64, microseconds as double."""

    NS = "ns"
    WHOLE_US = "whole us"
    US = "us"


Times = list[tuple[TimeUnit, bytes]]
"""A column of times in several parts, each as it was spelled."""


@dataclass
class Cells:
    """`count` rows of one table as their events tell them.

    `columns`: packed int64, null as MISSING, and a single one where all rows have the same; those of
    NAMES hold places in the piece's names. `dur` is empty for rows that last no time. `begins`: how
    many rows stood before each batch of events, and at which byte of the trace that batch begins.
    """

    count: int
    start: Times
    dur: Times
    columns: dict[str, bytes]
    begins: list[tuple[int, int]]


@dataclass
class Piece:
    """What a piece of a trace holds.

    `tables`: rows by table. `names`: the texts that columns of names point to. `processes_seen`: the
    processes with rows, in the order in which they came first. `last_process`: the one that came last;
    rows of a GPU that begin the next piece are its. `threads` and `process_names`: names by (pid, tid)
    and by pid. `ranks`: by pid. `sizes`: bytes that API calls told of their copies, by
    (pid, correlation). `sm_counts`: by device. `left_out_starts`: when events began that are rows on
    request only. `counts` and `first`: how many of what was noted, and at which byte first.
    `has_fractions`: times are not all whole microseconds.
    """

    tables: dict[str, Cells] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    processes_seen: list[int] = field(default_factory=list)
    last_process: int = MISSING
    threads: dict[tuple[int, ...], str] = field(default_factory=dict)
    process_names: dict[int, str] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    sizes: dict[tuple[int, int], int] = field(default_factory=dict)
    sm_counts: dict[int, int] = field(default_factory=dict)
    left_out_starts: Times = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    event_count: int = 0
    has_fractions: bool = False

    def note(self, what: str, count: int, place: int) -> None:
        """Counts something, and remembers the first byte where it was met."""
        if count:
            self.counts[what] += count
            self.first[what] = min(place, self.first.get(what, place))


_LIMIT = 1 << 63
# Below this many microseconds (a hundred days) the double nearest to a time with three decimals lies
# closer to it than to any other such time: half its spacing is less than half a nanosecond.
_EXACT_US = float(1 << 43)
# The two highest bytes of a double hold its sign and exponent: first bytes of those below 2**33, of those
# between there and 2**49, and second bytes of such below 2**43.
_FIRST, _SECOND = (7, 6) if sys.byteorder == "little" else (0, 1)
_BELOW_33 = bytes(byte for byte in range(256) if byte & 0x7F < 0x42)
_FROM_33 = bytes((0x42, 0xC2))
_BELOW_43 = bytes(range(0xA0))
_THOUSAND = 1000
_NUMBER = re.compile(r"-?\d+")
_LONGEST = 20
# Threads and streams of a trace, which are in every event.
_FEW_TEXTS = 1024


def constant(value: int, count: int) -> bytes:
    """A column that holds the same everywhere."""
    return pack("q", value) * count


def cells(column: bytes) -> Sequence[int]:
    """The cells of a packed column."""
    return memoryview(column).cast("q")


def whole(values: Sequence[Any]) -> bytes:
    """Values as int64; what is no whole number in any spelling is MISSING."""
    column = _integers(values)
    if column is None:
        missing = values.count(None)
        if missing == len(values):
            return constant(MISSING, missing)
        if missing:
            column = _integers([MISSING if value is None else value for value in values])
    return _packed(numbers(values)) if column is None else column


def numbers(values: Sequence[Any]) -> list[int]:
    """As above, as numbers."""
    return list(map(_whole, values))


def first_whole(*choices: Callable[[], Sequence[Any]]) -> bytes:
    """As above, of the first of several values that is a whole number."""
    values = choices[0]()
    column = _integers(values)
    if column is not None:
        return column
    cells = numbers(values)
    for further in choices[1:]:
        if MISSING not in cells:
            break
        cells = [
            _whole(value) if cell == MISSING else cell
            for cell, value in zip(cells, further(), strict=True)
        ]
    return _packed(cells)


def triples(values: Sequence[Any]) -> tuple[bytes, bytes, bytes]:
    """Lists of three numbers as three columns."""
    try:
        lengths = set(map(len, values))
    except TypeError:  # a number, or none
        lengths = set()
    if lengths == {3}:
        cells = list(chain.from_iterable(values))
    else:
        cells = []
        for value in values:
            cells += value if isinstance(value, list) and len(value) == 3 else [None] * 3
    return whole(cells[0::3]), whole(cells[1::3]), whole(cells[2::3])


def times(values: Sequence[Any], spelled: Callable[[], Sequence[bytes]]) -> Times:
    """Microseconds, to be exact nanoseconds; MISSING for what is no number, BEYOND for what is too large.

    `spelled` gives the values' text; asked only where doubles do not hold them exactly.
    """
    # true is 1 here, and in JSON is no number.
    if values and not isinstance(values[0], bool):
        column = _integers(values)
        if column is not None:
            if -_LIMIT // _THOUSAND < min(values) <= max(values) < _LIMIT // _THOUSAND:
                return [(TimeUnit.WHOLE_US, column)]
        else:
            column = _doubles(values)
            if column is not None and _are_exact(column, values):
                return [(TimeUnit.US, column)]
    return [(TimeUnit.NS, _packed(list(map(_exact, spelled()))))]


def _packed(values: Sequence[int]) -> bytes:
    return pack(f"{len(values)}q", *values)


def _integers(values: Sequence[Any]) -> bytes | None:
    """Values as int64 where all are integers of 64 bits."""
    try:
        return pack(f"{len(values)}q", *values)
    except (StructError, OverflowError):
        return None


def _doubles(values: Sequence[Any]) -> bytes | None:
    """Values as float64 where all are numbers."""
    try:
        return pack(f"{len(values)}d", *values)
    except (StructError, OverflowError):
        return None


def _are_exact(column: bytes, values: Sequence[Any]) -> bool:
    """Whether all doubles of a packed column of microseconds are nearest to no other nanosecond."""
    # To look at the values themselves takes three times as long as to pack them.
    first = column[_FIRST::CELL_BYTES]
    if not first.translate(None, _BELOW_33):
        return True
    if not first.translate(None, _FROM_33):
        return not column[_SECOND::CELL_BYTES].translate(None, _BELOW_43)
    return bool(-_EXACT_US < min(values) <= max(values) < _EXACT_US)


def _whole(value: Any) -> int:
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    elif isinstance(value, str):
        value = _number_in(value)
    return value if isinstance(value, int) and -_LIMIT < value < _LIMIT else MISSING


@lru_cache(_FEW_TEXTS)
def _number_in(text: str) -> int | None:
    """Return the number in "7", "stream 7" or "thread 25738 (python)", as old releases wrote them."""
    digits = _NUMBER.search(text)
    return int(digits.group()) if digits and len(digits.group()) <= _LONGEST else None


def _exact(text: bytes) -> int:
    try:
        number = Decimal(text.decode().strip('"'))
        if not number.is_finite():
            return MISSING
        # As a whole number, 1e999999999 would fill the memory.
        if number.adjusted() >= _LONGEST:
            return BEYOND
        nearest = int((number * _THOUSAND).to_integral_value())
    except (ArithmeticError, ValueError):
        return MISSING
    return nearest if BEYOND < nearest < _LIMIT else BEYOND
