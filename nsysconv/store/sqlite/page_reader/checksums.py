"""Checksums of rows as the pages of a SQLite file hold them (docs/decisions/0027).

SQLite fills a leaf page with rows from its end. So the bytes in use on a table's leaves, from the last
leaf to the first, are its rows from the last to the first, whatever pages these are: most pages cost one
call. A page where rows were changed or deleted, or that profiles share, is taken row by row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from nsysconv.store.sqlite.page_reader.pages import Array, Pages, UnreadableError, varints

_LENGTH = np.dtype("<u2")
_LOWEST_ID = -(1 << 63)
_POINTER_BYTES = 4


def checksums(
    descriptor: int | None, root: int, spans: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return for each span of ids how many rows of a table have such ids, and a checksum of these rows.

    `root` is the page on which the table's tree has its root. A span is a first and a last id; spans
    ascend and have no id in common. The checksum is one of ids and records: the same rows have it on
    whatever pages they are. Raises UnreadableError where the pages are damaged, or not read here.
    """
    # Three times as fast as zlib's.
    from isal.isal_zlib import crc32

    if descriptor is None or any(low[1] >= high[0] for low, high in pairwise(spans)):
        raise UnreadableError
    starts, ends = ([span[side] for span in spans] for side in (0, 1))
    sums = [(0, 0, 0)] * len(spans)
    for span, lengths, rows in _RowPages(descriptor).rows_of(root, starts, ends):
        # Lengths say where rows begin, which nothing else of a page's head is needed for.
        count, of_lengths, of_rows = sums[span]
        of_lengths = crc32(lengths.astype(_LENGTH).tobytes(), of_lengths)
        for some in rows:
            of_rows = crc32(some, of_rows)
        sums[span] = count + len(lengths), of_lengths, of_rows
    return [(count, of_lengths ^ of_rows) for count, of_lengths, of_rows in sums]


class _RowPages(Pages):
    def rows_of(
        self, root: int, starts: Sequence[int], ends: Sequence[int]
    ) -> Iterator[tuple[int, Array, Sequence[bytes | memoryview]]]:
        # Each result has some rows of one span, the last ones first: the number of the span, the
        # lengths of the rows, and the rows.
        leaves, highs = self._leaves(root, starts[0], ends[-1])
        lows = np.concatenate(([_LOWEST_ID], highs[:-1]))
        step, room = self._room(len(leaves))
        data, view = room.bytes, room.bytes.data
        for at in reversed(range(0, len(leaves), step)):
            part = slice(at, at + step)
            page, counts, places = self._cells(leaves[part], room)
            if not counts.all():
                if len(leaves) > 1:
                    raise UnreadableError
                return  # an empty table
            cells = np.concatenate(([0], np.cumsum(counts)))
            edges = np.concatenate((page + places[cells[:-1]], page + places[cells[1:] - 1]))
            ids = varints(data, edges + varints(data, edges)[1])[0]
            first, last = ids[: len(page)], ids[len(page) :]
            if (first <= lows[part]).any() or (last > highs[part]).any():
                raise UnreadableError
            lengths, packed = self._packed(data, page, places, cells)
            span = np.searchsorted(ends, last)
            packed &= (span < len(ends)) & (np.array([*starts, 0])[span] <= first)
            span[~packed] = -1 - np.flatnonzero(~packed)  # each for itself
            runs = [0, *(np.flatnonzero(np.diff(span)) + 1).tolist(), len(span)]
            for low, high in reversed(list(pairwise(runs))):
                if packed[low]:
                    begin = edges[len(page) + low : len(page) + high].tolist()
                    end = (page[low:high] + self._usable).tolist()
                    rows = [view[a:b] for a, b in zip(begin, end, strict=True)]
                    yield int(span[low]), lengths[cells[low] : cells[high]][::-1], rows[::-1]
                else:
                    yield from self._single_rows(int(leaves[at + low]), starts, ends)

    def _packed(self, data: Array, page: Array, places: Array, cells: Array) -> tuple[Array, Array]:
        # The results are the lengths of rows if there is no gap between them, and, per page, whether
        # that is so.
        begin, start = cells[:-1], places[cells[1:] - 1]
        lengths = np.empty_like(places)
        np.subtract(places[:-1], places[1:], out=lengths[1:])
        lengths[begin] = (self._usable - places[begin].astype(np.int64)).astype(np.uint16)
        packed = (data[page + 1] | data[page + 2] | data[page + 7]) == 0  # no room given back
        packed &= (data[page + 5].astype(np.uint16) << 8 | data[page + 6]) == start
        if lengths.max() >= self._least_here:
            # Rows that go on on other pages have no less here. It is more where places do not descend.
            packed &= np.maximum.reduceat(lengths, begin) < self._least_here
        return lengths, packed

    def _single_rows(
        self, number: int, starts: Sequence[int], ends: Sequence[int]
    ) -> Iterator[tuple[int, Array, Sequence[bytes]]]:
        _, room = self._room(1)
        places = self._cells(np.array([number]), room)[2].astype(np.int64)
        sizes, ahead = varints(room.bytes, places)
        numbers, more = varints(room.bytes, places + ahead)
        ids, page = numbers.tolist(), room.bytes.tobytes()
        if (numbers[1:] <= numbers[:-1]).any():
            raise UnreadableError
        edges = zip(places.tolist(), (places + ahead + more).tolist(), sizes.tolist(), strict=True)
        rows = [self._row(page, *edge) for edge in edges]
        for span in range(bisect_left(ends, ids[0]), bisect_right(starts, ids[-1])):
            own = rows[bisect_left(ids, starts[span]) : bisect_right(ids, ends[span])][::-1]
            yield span, np.array([len(row) & 0xFFFF for row in own], _LENGTH), own

    @property
    def _least_here(self) -> int:
        return (self._usable - 12) * 32 // 255 - 23

    def _row(self, page: bytes, begin: int, record: int, size: int) -> bytes:
        # The row includes the part of the record that is on overflow pages.
        here = size
        if size > self._usable - 35:
            here = self._least_here + (size - self._least_here) % (self._usable - _POINTER_BYTES)
            here = here if here <= self._usable - 35 else self._least_here
        end = record + here
        if not 0 <= size <= self._count * self._size or end > self._usable:
            raise UnreadableError
        parts, left = [page[begin:end]], size - here
        while left:
            page = self._page(int.from_bytes(page[end : end + _POINTER_BYTES], "big")).tobytes()
            parts.append(page[_POINTER_BYTES : self._usable][:left])
            left, end = left - len(parts[-1]), 0
        return b"".join(parts)
