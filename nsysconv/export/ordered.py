"""Rows of tables in the order of time, some at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nsysconv.report import MISSING, values_of
from nsysconv.store.read import Profile

Array = np.ndarray

_ROWS = 1 << 13
"""Rows that are read, and written, at a time: what is made of them stays in the cache."""
_CHARACTERS = 1 << 26
"""Of names, in rows that are written at a time: what is made of them is a few times as large."""
_STEP = 1 << 12


@dataclass(frozen=True)
class Coded:
    """Texts of rows: `numbers` says per row which of `texts` is its own, -1 that it has none."""

    numbers: Array
    texts: Sequence[str]

    def take(self, which: Array) -> Coded:
        """The rows of a mask or of indices."""
        return Coded(self.numbers[which], self.texts)


Rows = dict[str, Any]
"""Columns of equal length: int64 arrays with MISSING for null, float64 with NaN, Coded texts."""


class Reader:
    """Reads rows of a table in an order of ours: close to its own, or it keeps what it passes by."""

    def __init__(self, profile: Profile, table: str, order: Array, names: Sequence[str]) -> None:
        constants = profile.constants(table)
        self._read_names = [name for name in names if name not in constants]
        self._constants = {name: constants[name] for name in names if name in constants}
        self._batches = _ahead(profile.batches(table, _ROWS, self._read_names))
        self._order = order
        self._at = 0
        self._read = 0
        self._kept: list[tuple[int, int, Rows]] = []
        if len(order):
            least = np.minimum.reduceat(order, np.arange(0, len(order), _STEP))
            self._needed_from = np.minimum.accumulate(least[::-1])[::-1]

    def next(self, count: int) -> Rows:
        """The next so many rows, with `row`, their places in the table."""
        rows = self._order[self._at : self._at + count]
        needed_from = int(self._needed_from[self._at // _STEP])
        self._at += count
        self._kept = [part for part in self._kept if part[0] + part[1] > needed_from]
        last = int(rows.max())
        while self._read <= last:
            batch = next(self._batches)
            count = len(batch[self._read_names[0]])
            if self._read + count > needed_from:
                self._kept.append((self._read, count, batch))
            self._read += count
        of = np.searchsorted([first for first, _, _ in self._kept], rows, "right") - 1
        parts = []
        for number, (first, _, columns) in enumerate(self._kept):
            places = np.flatnonzero(of == number)
            if len(places):
                parts.append((places, rows[places] - first, columns))
        found = {name: _gathered(name, parts) for name in self._read_names}
        for name, value in self._constants.items():
            found[name] = np.broadcast_to(np.int64(value), len(rows))
        return {**found, "row": rows}


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
    """The rows of batches, of which the next is read while one is worked on."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(_next_of, batches)
        while (rows := coming.result()) is not None:
            coming = pool.submit(_next_of, batches)
            yield rows


def _next_of(batches: Iterator[pa.RecordBatch]) -> Rows | None:
    batch = next(batches, None)
    if batch is None:
        return None
    return dict(zip(batch.schema.names, map(_column, batch.columns), strict=True))


def _gathered(name: str, parts: list[tuple[Array, Array, Rows]]) -> Any:
    """A column of rows that stand in several batches: places in the result, rows in the batch."""
    columns = [(places, rows, batch[name]) for places, rows, batch in parts]
    if len(columns) == 1:
        _, rows, column = columns[0]
        return column.take(rows) if isinstance(column, Coded) else column[rows]
    count = sum(len(places) for places, _, _ in columns)
    if isinstance(columns[0][2], Coded):
        texts: dict[str, int] = {}
        numbers = np.full(count, -1)
        for places, rows, column in columns:
            ours = np.array([*(texts.setdefault(t, len(texts)) for t in column.texts), -1])
            numbers[places] = ours[column.numbers[rows]]
        return Coded(numbers, list(texts))
    result = np.empty(count, columns[0][2].dtype)
    for places, rows, column in columns:
        result[places] = column[rows]
    return result


def _column(values: pa.Array) -> Array | Coded:
    """An Arrow column as numpy has it."""
    if values.type == pa.string():
        coded = values.dictionary_encode()
        numbers = values_of(coded.indices.cast(pa.int64()), -1)
        return Coded(numbers, coded.dictionary.to_pylist())
    return values_of(values, np.nan if values.type == pa.float64() else MISSING)


def firsts(values: Array) -> tuple[Array, Array]:
    """The rows at which different whole numbers stand first, and per row the place of its own there."""
    plain = np.ascontiguousarray(values, np.int64)
    coded = pa.Array.from_buffers(
        pa.int64(), len(plain), [None, pa.py_buffer(plain)]
    ).dictionary_encode()
    numbers = np.frombuffer(coded.indices.buffers()[1], np.int32, len(plain)).astype(np.int64)
    first = np.empty(len(coded.dictionary), np.int64)
    # Of several rows the last that is put is the first.
    first[numbers[::-1]] = np.arange(len(plain) - 1, -1, -1)
    return first, numbers


def chunks(length: int, longest_name: int = 0) -> Iterator[slice]:
    """Slices that cover 0..length-1 in order, as many rows each as are written at a time.

    `longest_name`: how many characters the name of a row may have.
    """
    rows = max(min(_ROWS, _CHARACTERS // max(longest_name, 1)), 1)
    for low in range(0, length, rows):
        yield slice(low, min(low + rows, length))
