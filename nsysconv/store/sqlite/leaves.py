"""Rows as the leaf pages of a table's tree in a SQLite file, many rows at a time.

The other way round from `pages.py`, in the terms of the same format
(https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1). SQLite makes a record of each row by
itself, and moves it twice; here all rows whose records are laid out alike are made by a few operations.
A column takes the least bytes that hold all its values in these rows, a null or 0 or 1 in all rows none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.store.sqlite.records import NotPlainError

Array = np.ndarray

_LEAF = 13
_PAGE_HEADER = 8
_POINTER = 2
_NULL, _REAL, _ZERO = 0, 7, 8  # serial types; that of 1 follows
# The serial types of whole numbers by their bytes, and as what numbers of such sizes they are written.
_KINDS = {1: 1, 2: 2, 3: 3, 4: 4, 6: 5, 8: 6}
_WRITTEN = {1: (1,), 2: (2,), 3: (1, 2), 4: (4,), 6: (2, 4), 8: (8,)}
# With more ways for nulls to fall than this, there are few rows alike.
_MOST_LAYOUTS = 64
# A way is a bit for each column that has some, in an int64 that is not negative.
_MOST_DIFFERING = 63


@dataclass(frozen=True)
class Leaves:
    """Whole pages, one after the other, and the last row's id on each."""

    pages: Array
    last_ids: Array


@dataclass(frozen=True)
class _Column:
    """What records hold of a column: a serial type, and as many bytes of each row's value.

    `values` None: all rows have `common`. `null`: rows whose records hold null instead.
    """

    kind: int
    size: int
    values: Array | None = None
    common: bytes = b""
    null: Array | None = None

    def of(self, rows: Array | slice) -> _Column:
        """What records of some rows hold, of which none holds null instead."""
        if self.values is None:
            return self
        return _Column(self.kind, self.size, self.values[rows])


def leaves(first_id: int, columns: Sequence[Array], page_size: int) -> Leaves:
    """The leaves that hold rows, at least one, with ids from `first_id`. `columns`, at most 100, hold
    whole numbers, null is MISSING, or real ones, null is NaN.

    Raises NotPlainError where nulls fall in too many ways.
    """
    described = [_described(values) for values in columns]
    ids = np.arange(first_id, first_id + len(columns[0]))
    layouts = _layouts(ids, described)
    if len(layouts) == 1:
        return _alike(ids, described, page_size)
    room = _Cells(page_size, len(ids))
    made = []
    for rows in layouts:
        cells = _cells(ids[rows], _laid_out(described, rows))
        room.sizes[rows] = cells.shape[1]
        made.append((rows, cells))
    places = room.arranged()
    for rows, cells in made:
        room.put(places[rows], cells)
    return Leaves(room.bytes[: room.pages * page_size], ids[room.edges[1:] - 1])


def _described(values: Array) -> _Column:
    if values.strides == (0,) and values.dtype != np.float64:
        return _constant(int(values[0]))
    if values.dtype == np.float64:
        null = np.isnan(values)
        return _Column(_NULL, 0) if null.all() else _Column(_REAL, 8, values, null=_if_any(null))
    least, most = int(values.min()), int(values.max())
    if least == most:
        return _constant(least)
    null = None
    if least == MISSING:
        null = values == MISSING
        least = int(values.min(initial=most, where=~null))
    size = _bytes_of(least, most)
    return _Column(_KINDS[size], size, values, null=null)


def _constant(value: int) -> _Column:
    if value == MISSING:
        return _Column(_NULL, 0)
    if value in (0, 1):
        return _Column(_ZERO + value, 0)
    size = _bytes_of(value, value)
    return _Column(_KINDS[size], size, common=value.to_bytes(size, "big", signed=True))


def _if_any(null: Array) -> Array | None:
    return null if null.any() else None


def _bytes_of(least: int, most: int) -> int:
    """In how many bytes records hold numbers from `least` to `most`."""
    bits = max(least if least >= 0 else ~least, most if most >= 0 else ~most).bit_length() + 1
    return next(size for size in _KINDS if bits <= 8 * size)


def _layouts(ids: Array, columns: Sequence[_Column]) -> list[Array | slice]:
    """The rows whose cells are laid out alike: as many bytes of id, null in the same columns."""
    differing = [column.null for column in columns if column.null is not None]
    if _varint_size(int(ids[0])) != _varint_size(int(ids[-1])):
        edge = 1 << 7 * _varint_size(int(ids[0]))
        differing.append(ids >= edge)
    if not differing:
        return [slice(None)]
    if len(differing) > _MOST_DIFFERING:
        raise NotPlainError
    pattern = np.zeros(len(ids), np.int64)
    for place, rows in enumerate(differing):
        pattern |= rows.astype(np.int64) << place
    # Not by np.unique, for which numpy loads its masked arrays.
    ordered = np.sort(pattern)
    patterns = ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]
    if len(patterns) > _MOST_LAYOUTS:
        raise NotPlainError
    return [np.flatnonzero(pattern == one) for one in patterns]


def _laid_out(columns: Sequence[_Column], rows: Array | slice) -> list[_Column]:
    """The columns of rows that are laid out alike."""
    none = _Column(_NULL, 0)
    return [
        none if column.null is not None and column.null[rows][0] else column.of(rows)
        for column in columns
    ]


def _cells(ids: Array, columns: Sequence[_Column]) -> Array:
    """Cells of rows that are laid out alike, a line of bytes each: size of the record, id, record."""
    same = _same(ids, columns)
    cells = np.empty((len(ids), len(same)), np.uint8)
    _write(cells, same, ids, columns)
    return cells


def _same(ids: Array, columns: Sequence[_Column]) -> bytes:
    """What cells of rows that are laid out alike share, and zeros for the rest."""
    header = bytes([len(columns) + 1, *(column.kind for column in columns)])
    record = header + b"".join(
        column.common if column.values is None else bytes(column.size) for column in columns
    )
    return varint(len(record)) + bytes(_varint_size(int(ids[-1]))) + record


def _write(cells: Array, same: bytes, ids: Array, columns: Sequence[_Column]) -> None:
    """Writes cells of rows that are laid out alike: lines of bytes, in an array of any form."""
    cells[...] = np.frombuffer(same, np.uint8)
    place = len(same)
    for column in reversed(columns):
        place -= column.size
        if column.values is not None:
            _write_numbers(cells, place, column, column.values.reshape(cells.shape[:-1]))
    place -= len(columns) + 1
    ids = ids.reshape(cells.shape[:-1])
    for byte in range(_varint_size(int(ids.flat[-1]))):
        place -= 1
        np.bitwise_or(
            ids >> 7 * byte & 127, 128 if byte else 0, cells[..., place], casting="unsafe"
        )


def _write_numbers(cells: Array, place: int, column: _Column, values: Array) -> None:
    """Writes a column's values into all cells."""
    if column.kind == _REAL:
        _numbers(cells, place, ">f8")[...] = values
        return
    left = column.size
    for size in _WRITTEN[column.size]:
        left -= size
        _numbers(cells, place, f">u{size}")[...] = values >> 8 * left if left else values
        place += size


def _numbers(cells: Array, place: int, kind: str) -> Array:
    """The bytes from `place` in all cells as numbers."""
    size = np.dtype(kind).itemsize
    numbers: Array = cells[..., place : place + size].view(kind)[..., 0]
    return numbers


def _varint_size(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def varint(number: int) -> bytes:
    """A number that is not negative, as records and cells hold it."""
    size = _varint_size(number)
    return bytes(number >> 7 * byte & 127 | (128 if byte else 0) for byte in reversed(range(size)))


def _alike(ids: Array, columns: Sequence[_Column], page_size: int) -> Leaves:
    """The leaves of rows that are laid out alike: as many on each page, but on the last."""
    same = _same(ids, columns)
    most = (page_size - _PAGE_HEADER) // (len(same) + _POINTER)
    edges = [*range(0, len(ids), most), len(ids)]
    full = len(ids) // most
    pages = np.zeros((len(edges) - 1, page_size), np.uint8)
    for some, rows in (
        (pages[:full], slice(0, full * most)),
        (pages[full:], slice(full * most, None)),
    ):
        if len(some):
            cells = _room(some, len(ids[rows]) // len(some), len(same))
            _write(cells, same, ids[rows], [column.of(rows) for column in columns])
    return Leaves(pages.reshape(-1), ids[np.array(edges[1:]) - 1])


def _room(pages: Array, count: int, size: int) -> Array:
    """Makes pages leaves with so many cells each, of this size, the last one first; where these stand."""
    top = pages.shape[1] - count * size
    places = (top + size * np.arange(count)[::-1]).astype(">u2")
    pages[:, _PAGE_HEADER : _PAGE_HEADER + _POINTER * count] = places.view(np.uint8)
    pages[:, 0] = _LEAF
    pages[:, 3:7] = np.array([count, top], ">u2").view(np.uint8)
    cells: Array = pages[:, top:].reshape(len(pages), count, size)[:, ::-1]
    return cells


class _Cells:
    """Rows' cells on pages, in order, each page as full as can be."""

    def __init__(self, page_size: int, count: int) -> None:
        self._page_size = page_size
        self.sizes = np.empty(count, np.int64)

    def arranged(self) -> Array:
        """Where each cell begins, once the sizes of all are known. Cells stand at a page's end, the last
        one first; after the page's header stand pointers to them.
        """
        taken = np.zeros(len(self.sizes) + 1, np.int64)
        np.cumsum(self.sizes + _POINTER, out=taken[1:])
        edges = [0]
        while edges[-1] < len(self.sizes):
            full = taken[edges[-1]] + self._page_size - _PAGE_HEADER
            edges.append(int(np.searchsorted(taken, full, side="right")) - 1)
        self.edges = np.array(edges)
        counts = np.diff(self.edges)
        self.pages = len(counts)
        self.bytes = np.zeros(self.pages * self._page_size + 8, np.uint8)
        starts = np.arange(self.pages) * self._page_size
        nth = np.arange(len(self.sizes)) - np.repeat(self.edges[:-1], counts)
        places: Array = self._page_size - taken[1:] + np.repeat(taken[self.edges[:-1]], counts)
        places += _POINTER * (nth + 1)
        pairs = self.bytes.view(">u2")
        pairs[np.repeat((starts + _PAGE_HEADER) // 2, counts) + nth] = places
        self.bytes[starts] = _LEAF
        for offset, numbers in ((3, counts), (5, places[self.edges[1:] - 1])):
            self.bytes[starts + offset] = numbers >> 8
            self.bytes[starts + offset + 1] = numbers & 255
        places += np.repeat(starts, counts)
        return places

    def put(self, places: Array, cells: Array) -> None:
        """Writes cells of one size, eight bytes or more, at these places."""
        size = cells.shape[1]
        eights = np.lib.stride_tricks.as_strided(
            self.bytes[:8].view("<u8"), (len(self.bytes) - 7,), (1,)
        )
        # The last eight bytes may be some of those before them again.
        for offset in (*range(0, size - 7, 8), size - 8):
            eights[places + offset] = _numbers(cells, offset, "<u8")
