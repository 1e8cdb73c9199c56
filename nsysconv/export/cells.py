"""Columns as text of JSON, a cell per row, made by Arrow: no row passes through Python.

Arrays come from buffers throughout: `pa.array` would import pandas.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nsysconv.export.ordered import Coded, firsts
from nsysconv.export.telling import Json, Told, Triple
from nsysconv.report import MISSING

Array = np.ndarray


def strings(texts: Sequence[str]) -> pa.Array:
    """Texts as an Arrow array; halves of characters, which no file can hold, are replaced."""
    spelled = [text.encode("utf-8", "replace") for text in texts]
    offsets = np.zeros(len(spelled) + 1, np.int64)
    np.cumsum([len(text) for text in spelled], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(spelled))]
    return pa.Array.from_buffers(pa.large_string(), len(spelled), buffers)


@lru_cache(maxsize=1 << 14)
def quoted(text: str) -> str:
    """A text as JSON."""
    return json.dumps(text, ensure_ascii=False)


def indices(places: Array, none: Array | None = None) -> pa.Array:
    """Whole numbers as an Arrow array, null where `none` says so."""
    return _plain(np.ascontiguousarray(places, np.int64), pa.int64(), none)


def numbers(values: Array) -> pa.Array:
    """Whole numbers as text, null for MISSING; of other numbers those that are finite."""
    if values.dtype.kind == "f":
        none = ~np.isfinite(values)
        plain = np.where(none, 0.0, values) if none.any() else np.ascontiguousarray(values)
        return _text(_plain(plain, pa.float64(), none if none.any() else None))
    none = values == MISSING
    return _text(indices(values, none if none.any() else None))


def microseconds(ns: Array) -> tuple[pa.Array, pa.Array]:
    """Times as text, exactly: whole microseconds, and the point with three digits."""
    if len(ns) and int(ns.min()) < 0:
        whole = np.abs(ns) // 1000
        sign = strings(["", "-"]).take(indices(ns < 0))
        return join(sign, _text(indices(whole))), _fractions().take(indices(np.abs(ns) % 1000))
    whole = ns // 1000
    return _text(indices(whole)), _fractions().take(indices(ns - whole * 1000))


def join(*parts: pa.Array | str) -> pa.Array:
    """Parts of each row joined to one text; null where a part is null."""
    return pc.binary_join_element_wise(*map(_part, parts), _part(""))


def join_known(parts: Sequence[pa.Array], count: int) -> pa.Array:
    """Parts of each of so many rows joined by commas, those left out that are null."""
    if not parts:
        return strings([""] * count)
    # Arrow's own way to leave nulls out leaves rows out that have nothing else.
    joined = join(*(or_nothing(join(",", part)) for part in parts))
    return pc.binary_replace_slice(joined, start=0, stop=1, replacement="")


def arguments(label: str, values: Any) -> pa.Array:
    """`"label":value` per row; null where there is no value."""
    return join(f"{quoted(label)}:", _values(values))


def repeating(told: Told, track: Array) -> tuple[Array, Array]:
    """The rows that differ in what repeats (all but `single`): the first of each, and per row its place
    among those.
    """
    keys = [track, told.category.numbers, told.name.numbers]
    for values in told.repeated.values():
        if isinstance(values, Coded):
            keys.append(values.numbers)
        elif isinstance(values, Triple):
            keys += [values.x, values.y, values.z]
        else:
            keys.append(values)
    keys = [key for key in keys if len(key) and (key != key[0]).any()]
    if not keys:
        return np.zeros(min(1, len(track)), np.int64), np.zeros(len(track), np.int64)
    mixed = np.zeros(len(track), np.uint64)
    for key in keys:
        # Odd factors and shifts keep different rows different, but by accident: that is looked at.
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        mixed += key.astype(np.int64).view(np.uint64)
    first, inverse = firsts(mixed.view(np.int64))
    if any((key != key[first][inverse]).any() for key in keys):
        every = np.arange(len(track))
        return every, every
    return first, inverse


def taken(values: Any, which: Array) -> Any:
    """The rows of a column of any kind."""
    if isinstance(values, Json):
        return Json(values.numbers[which], values.texts)
    if isinstance(values, Coded):
        return values.take(which)
    if isinstance(values, Triple):
        return Triple(values.x[which], values.y[which], values.z[which])
    return values[which]


def _values(values: Any) -> pa.Array:
    if isinstance(values, Coded):
        texts = values.texts if isinstance(values, Json) else [quoted(t) for t in values.texts]
        none = values.numbers < 0
        return strings(texts).take(indices(values.numbers, none if none.any() else None))
    if isinstance(values, Triple):
        x, y, z = (numbers(v) for v in (values.x, values.y, values.z))
        return join("[", x, ",", y, ",", z, "]")
    return numbers(values)


def text_of(texts: Coded, otherwise: str) -> pa.Array:
    """The texts of rows as JSON."""
    spelled = strings([quoted(text) for text in (*texts.texts, otherwise)])
    return spelled.take(indices(np.where(texts.numbers < 0, len(texts.texts), texts.numbers)))


def has_any(values: Any) -> bool:
    """Whether any row has a value."""
    if isinstance(values, Coded):
        return bool((values.numbers >= 0).any())
    if isinstance(values, Triple):
        return has_any(values.x)
    known = np.isfinite(values) if values.dtype.kind == "f" else values != MISSING
    return bool(known.any())


def or_nothing(text: pa.Array) -> pa.Array:
    """The texts, empty where they are null."""
    return pc.coalesce(text, _part("")) if text.null_count else text


def or_null(text: pa.Array) -> pa.Array:
    """The texts, null where they are empty."""
    empty = lengths(text) == 0
    return text.take(indices(np.arange(len(text)), empty)) if empty.any() else text


def all_filled(text: pa.Array) -> bool:
    """Whether no text is empty."""
    return bool((lengths(text) > 0).all())


def content(text: pa.Array) -> memoryview:
    """All texts, one behind the other."""
    _, _, data = text.buffers()
    ends = _ends(text)
    return memoryview(data or b"")[int(ends[0]) : int(ends[-1])]


def _ends(text: pa.Array) -> Array:
    """Where texts begin in their buffer, and the last one ends."""
    if not len(text):
        return np.zeros(1, np.int64)
    return np.frombuffer(text.buffers()[1], np.int64, len(text) + text.offset + 1)[text.offset :]


def lengths(text: pa.Array) -> Array:
    """How many bytes each text has."""
    return np.diff(_ends(text))


def joined_bytes(parts: Sequence[pa.Array]) -> pa.Array:
    """Bytes of each row joined."""
    return pc.binary_join_element_wise(*parts, _scalar("").cast(pa.large_binary()))


@cache
def _fractions() -> pa.Array:
    return strings([f".{thousandth:03}" for thousandth in range(1000)])


def _plain(values: Array, kind: pa.DataType, none: Array | None) -> pa.Array:
    bitmap = None if none is None else pa.py_buffer(np.packbits(~none, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(values)])


def _text(values: pa.Array) -> pa.Array:
    return values.cast(pa.large_string())


def _part(part: pa.Array | str) -> pa.Array | pa.Scalar:
    return _scalar(part) if isinstance(part, str) else part


@cache
def _scalar(text: str) -> pa.Scalar:
    # `pa.scalar` would import pandas, too.
    return strings([text])[0]
