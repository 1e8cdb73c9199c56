"""Columns of rows on their way into a trace: read in the order of time, selected, made Arrow arrays.

Arrow arrays are made from buffers throughout: `pa.array` and `pa.scalar` would import pandas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nsysconv.report import MISSING, numbers, values_of
from nsysconv.store.connection import prefetched
from nsysconv.store.read import Profile

Array = np.ndarray

ROWS_AT_ONCE = 1 << 13
"""Rows that are read, and written, at a time: what is made of them stays in the cache."""
_CHARACTERS = 1 << 26
"""Limit for the names in rows written at a time; what is made of them is a few times as large."""
_STEP = 1 << 12


@dataclass(frozen=True)
class Coded:
    """Texts of rows, dictionary-coded: `numbers` index `texts`, -1 where a row has none."""

    numbers: Array
    texts: Sequence[str]

    def take(self, rows: Array) -> Coded:
        """Return the rows of a mask or of indices."""
        return type(self)(self.numbers[rows], self.texts)


class Json(Coded):
    """Texts that are JSON themselves."""


@dataclass(frozen=True)
class Triple:
    """Three numbers per row: x, y, z."""

    x: Array
    y: Array
    z: Array


EventColumns = dict[str, Any]
"""Columns of equal length: int64 arrays with MISSING for null, float64 with NaN, Coded texts."""


def from_codes(codes: Array, texts: Iterable[str]) -> Coded:
    """Return the texts that codes stand for; none for null and unknown codes."""
    words = tuple(texts)
    return Coded(np.where((codes >= 0) & (codes < len(words)), codes, -1), words)


def repeat(text: str, count: int) -> Coded:
    """Return one text for all rows."""
    return Coded(np.zeros(count, np.int64), (text,))


def select(values: Any, rows: Array) -> Any:
    """Return the rows of a column of any kind."""
    if isinstance(values, Coded):
        return values.take(rows)
    if isinstance(values, Triple):
        return Triple(values.x[rows], values.y[rows], values.z[rows])
    return values[rows]


def has_any(values: Any) -> bool:
    """Return whether any row of a column of any kind has a value."""
    if isinstance(values, Coded):
        return bool((values.numbers >= 0).any())
    if isinstance(values, Triple):
        return has_any(values.x)
    has_value = np.isfinite(values) if values.dtype.kind == "f" else values != MISSING
    return bool(has_value.any())


def firsts(values: Array) -> tuple[Array, Array]:
    """Return the first row of each distinct whole number, and per row the index of its own there."""
    plain = np.ascontiguousarray(values, np.int64)
    # Arrow uses a hash table, whereas numpy's unique would sort.
    coded = int64_array(plain).dictionary_encode()
    numbers = np.frombuffer(coded.indices.buffers()[1], np.int32, len(plain)).astype(np.int64)
    first = np.empty(len(coded.dictionary), np.int64)
    # numpy assigns in order: of several rows with one number, the last that is put is the first.
    first[numbers[::-1]] = np.arange(len(plain) - 1, -1, -1)
    return first, numbers


def distinct_rows(columns: Iterable[Any]) -> tuple[Array, Array]:
    """Return the first row of each distinct combination of values, and per row the index of its own.

    `columns` of any kind, at least one. All rows are returned where hashes of combinations collide.
    """
    keys: list[Array] = []
    for values in columns:
        if isinstance(values, Coded):
            keys.append(values.numbers)
        elif isinstance(values, Triple):
            keys += [values.x, values.y, values.z]
        else:
            keys.append(values)
    count = len(keys[0])
    keys = [key for key in keys if len(key) and (key != key[0]).any()]
    if not keys:
        return np.zeros(min(1, count), np.int64), np.zeros(count, np.int64)
    # Each row has a 64-bit hash. Odd factors and shifts make equal hashes of different rows unlikely.
    mixed = np.zeros(count, np.uint64)
    for key in keys:
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        mixed += key.astype(np.int64).view(np.uint64)
    first, inverse = firsts(mixed.view(np.int64))
    if any((key != key[first][inverse]).any() for key in keys):
        every = np.arange(count)
        return every, every
    return first, inverse


# -- Arrow arrays


def strings(texts: Sequence[str]) -> pa.Array:
    """Return texts as an Arrow array; halves of surrogate pairs, which no file can hold, are replaced."""
    buffers = _joined_buffers([text.encode("utf-8", "replace") for text in texts])
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers)


def binaries(texts: Sequence[bytes]) -> pa.Array:
    """Return byte strings as an Arrow array."""
    return pa.Array.from_buffers(pa.large_binary(), len(texts), _joined_buffers(texts))


def _joined_buffers(texts: Sequence[bytes]) -> list[pa.Buffer | None]:
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]


def int64_array(values: Array, nulls: Array | None = None) -> pa.Array:
    """Return whole numbers as an Arrow array, null where the mask `nulls` is true."""
    valid = np.ones(0, bool) if nulls is None else ~nulls
    return numbers(np.ascontiguousarray(values, np.int64), valid, "int")


@cache
def scalar(text: str) -> pa.Scalar:
    """Return a text as an Arrow scalar."""
    return strings([text])[0]


def join_bytes(parts: Sequence[pa.Array]) -> pa.Array:
    """Return the bytes of each row joined."""
    return pc.binary_join_element_wise(*parts, scalar("").cast(pa.large_binary()))


def content(texts: pa.Array) -> memoryview:
    """Return all texts joined, without copying."""
    _, _, data = texts.buffers()
    offsets = _offsets(texts)
    return memoryview(data or b"")[int(offsets[0]) : int(offsets[-1])]


def lengths(texts: pa.Array) -> Array:
    """Return how many bytes each text has."""
    return np.diff(_offsets(texts))


def _offsets(texts: pa.Array) -> Array:
    if not len(texts):
        return np.zeros(1, np.int64)
    offsets = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + texts.offset + 1)
    return offsets[texts.offset :]


# -- reading in the order of time


def row_slices(length: int, longest_name: int = 0) -> Iterator[slice]:
    """Yield slices that cover 0..length-1, shorter where names may have many characters."""
    rows = max(min(ROWS_AT_ONCE, _CHARACTERS // max(longest_name, 1)), 1)
    for low in range(0, length, rows):
        yield slice(low, min(low + rows, length))


class TableReader:
    """Reads rows of a table in a given order, near to the table's own: batches in between are kept."""

    def __init__(self, profile: Profile, table: str, order: Array, names: Sequence[str]) -> None:
        """Begin to read columns `names` of the rows `order` indexes."""
        constants = profile.constants(table)
        self._names = [name for name in names if name not in constants]
        self._constants = {name: constants[name] for name in names if name in constants}
        self._batches = prefetched(
            map(_event_columns, profile.batches(table, ROWS_AT_ONCE, self._names))
        )
        self._order = order
        self._done = 0
        self._read = 0
        self._kept: list[tuple[int, int, EventColumns]] = []  # first row, number of rows, columns
        if len(order):
            # For each step of the order, this is the first row of the table that is needed from then
            # on.
            least = np.minimum.reduceat(order, np.arange(0, len(order), _STEP))
            self._needed_from = np.minimum.accumulate(least[::-1])[::-1]

    def next(self, count: int) -> EventColumns:
        """Return the next `count` rows, with `row`, their indices in the table."""
        rows = self._order[self._done : self._done + count]
        needed_from = int(self._needed_from[self._done // _STEP])
        self._done += count
        self._kept = [part for part in self._kept if part[0] + part[1] > needed_from]
        last = int(rows.max())
        while self._read <= last:
            batch = next(self._batches)
            size = len(batch[self._names[0]])
            if self._read + size > needed_from:
                self._kept.append((self._read, size, batch))
            self._read += size
        batch_of = np.searchsorted([first for first, _, _ in self._kept], rows, "right") - 1
        parts = []
        for number, (first, _, columns) in enumerate(self._kept):
            places = np.flatnonzero(batch_of == number)
            if len(places):
                parts.append((places, rows[places] - first, columns))
        columns = {name: _gather(name, parts) for name in self._names}
        for name, value in self._constants.items():
            columns[name] = np.broadcast_to(np.int64(value), len(rows))
        return {**columns, "row": rows}


def _event_columns(batch: pa.RecordBatch) -> EventColumns:
    return dict(zip(batch.schema.names, map(_from_arrow, batch.columns), strict=True))


def _from_arrow(values: pa.Array) -> Array | Coded:
    if values.type == pa.string():
        coded = values.dictionary_encode()
        numbers = values_of(coded.indices.cast(pa.int64()), -1)
        return Coded(numbers, coded.dictionary.to_pylist())
    return values_of(values, np.nan if values.type == pa.float64() else MISSING)


def _gather(name: str, parts: list[tuple[Array, Array, EventColumns]]) -> Any:
    columns = [(places, rows, batch[name]) for places, rows, batch in parts]
    if len(columns) == 1:
        _, rows, column = columns[0]
        return select(column, rows)
    count = sum(len(places) for places, _, _ in columns)
    if isinstance(columns[0][2], Coded):
        texts: dict[str, int] = {}
        numbers = np.full(count, -1)
        for places, rows, column in columns:
            shared = np.array([*(texts.setdefault(t, len(texts)) for t in column.texts), -1])
            numbers[places] = shared[column.numbers[rows]]
        return Coded(numbers, list(texts))
    result = np.empty(count, columns[0][2].dtype)
    for places, rows, column in columns:
        result[places] = column[rows]
    return result
