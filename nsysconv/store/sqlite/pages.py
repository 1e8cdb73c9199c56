"""Whole numbers straight from the pages of a SQLite file, many rows at a time.

SQLite hands out a row's values one by one, each in two calls that take a lock; a large report asks for
sixty million. The file's format is documented and promised to stay (https://www.sqlite.org/fileformat2.html,
whose terms are used here; section 1.6 tells of trees, 2.1 of records), so numpy takes the values of
thousands of rows in a few operations. What it does not expect, damage above all, it leaves to SQLite:
NotPlainError.

Nothing here takes a lock. Whoever reads a file that others may write to holds SQLite's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from nsysconv.report import MISSING
from nsysconv.store.sqlite.records import Array, NotPlainError, Records, Room

# Bytes of pages at a time: with fewer, threads wait for each other between operations. Large reports took
# a tenth longer with 2 MB, a quarter with 1 MB.
_BATCH_BYTES = 1 << 22
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"
_ROLLBACK = 1  # the format's read version; that of a write-ahead log is 2
_INTERIOR, _LEAF = 5, 13
_LEAF_HEADER, _INTERIOR_HEADER = 8, 12
_DEEPEST = 20
_LONGEST_VARINT = 9
# Of eight bytes at a cell's beginning, what is left where its size took two.
_BYTES_OF_IDS = 6
# Headers of damaged records may point so far beyond the last page: 127 types of 57 bytes, and eight more.
_SLACK = 1 << 13


def are_stored_as_read(declared: str, *, is_key: bool) -> bool:
    """Whether whole numbers in a column of this declared type are stored as they are read: what is
    declared real is stored as whole numbers where it can be, and the row's number is not stored twice.
    """
    return "INT" in declared.upper() and not is_key


class Pages:
    """The pages of a SQLite file behind a descriptor. Threads may share it."""

    def __init__(self, descriptor: int, batch_bytes: int | None = None) -> None:
        """Columns come of so many bytes of pages at a time, a few MB if nothing is said. Raises
        NotPlainError where there is a write-ahead log, no SQLite file, or no `preadv`.
        """
        if not hasattr(os, "preadv"):  # pragma: no cover - Windows
            raise NotPlainError
        self._descriptor = descriptor
        self._batch_bytes = batch_bytes or _BATCH_BYTES
        header = self._read(_HEADER_BYTES, 0)
        if header[:16] != _MAGIC or header[19] != _ROLLBACK:
            raise NotPlainError
        size = int.from_bytes(header[16:18], "big")
        self._size = 65_536 if size == 1 else size
        self._usable = self._size - header[20]
        if self._size < 512 or self._size & (self._size - 1) or self._usable < 480:
            raise NotPlainError
        self._count = os.fstat(descriptor).st_size // self._size

    def rows(
        self, root: int, places: Sequence[int], first: int, last: int
    ) -> Iterator[tuple[int, list[Array]]]:
        """Columns of the table whose tree has its root on page `root`: per batch of rows in the order of
        their ids the last id, and per place (0 for a table's first column) an array of int64, or of int32
        where all its values fit, one value broadcast where all are equal; null is MISSING; of ID the ids.
        Rows have ids from `first` to `last`.

        Raises NotPlainError: what was given until then stands.
        """
        leaves = self._leaves(root, first, last)
        step = max(1, self._batch_bytes // self._size)
        room = Room(np.zeros(step * self._size + _SLACK, np.uint8))
        before: int | None = None
        for low in range(0, len(leaves), step):
            records = self._records(leaves[low : low + step], room)
            if not len(records.ids):
                continue
            if before is not None and int(records.ids[0]) <= before:
                raise NotPlainError
            before = int(records.ids[-1])
            # At the ends of a range others stand beside the wanted ones.
            begin = int(np.searchsorted(records.ids, first))
            end = int(np.searchsorted(records.ids, last, side="right"))
            several = records.part(begin, end).columns(places) if begin < end else []
            # What is not kept by whoever takes the values makes room for what comes of them.
            del records
            while several:
                yield several.pop(0)

    def _read(self, size: int, begin: int) -> bytes:
        try:
            found = os.pread(self._descriptor, size, begin)
        except OSError as error:
            raise NotPlainError from error
        if len(found) != size:
            raise NotPlainError
        return found

    def _page(self, number: int) -> Array:
        if not 2 <= number <= self._count:  # the first is no table of a profile
            raise NotPlainError
        found = self._read(self._size, (number - 1) * self._size)
        return np.frombuffer(found + bytes(_SLACK), np.uint8)

    def _leaves(self, root: int, first: int, last: int) -> Array:
        """The numbers of the pages that hold the rows with ids from `first` to `last`, in order."""
        if not 2 <= root <= self._count:
            raise NotPlainError
        level = np.array([root], np.uint32)
        met = np.zeros(self._count + 1, bool)  # a page has one place in a tree
        met[root] = True
        for _ in range(_DEEPEST):
            if self._page(int(level[0]))[0] == _LEAF:
                return level
            below = list[Array]()
            for number in level.tolist():
                children = self._children(number, first, last)
                if (
                    len(set(children.tolist())) != len(children)
                    or met.take(children, mode="clip").any()
                ):
                    raise NotPlainError
                met[children[children <= self._count]] = True
                below.append(children)
            level = np.concatenate(below)
            if not len(level):
                raise NotPlainError
        raise NotPlainError

    def _children(self, number: int, first: int, last: int) -> Array:
        """The pages below an interior one on which rows with these ids may stand."""
        page = self._page(number)
        count = int(page[3]) << 8 | int(page[4])
        if page[0] != _INTERIOR or _INTERIOR_HEADER + 2 * count > self._usable:
            raise NotPlainError
        places = page[_INTERIOR_HEADER : _INTERIOR_HEADER + 2 * count].view(">u2").astype(np.int64)
        if count and int(places.max()) + 4 > self._usable:
            raise NotPlainError
        pages = np.zeros(count, np.int64)
        for byte in range(4):
            pages = pages << 8 | page[places + byte]
        # A key is the largest id to the left of it; to the right of the last is one more page.
        keys, _ = _varints(page, places + 4)
        least = np.concatenate(([MISSING], keys))
        pages = np.append(pages, int.from_bytes(page[8:12].tobytes(), "big"))
        wanted = least < last
        wanted[:-1] &= keys >= first
        # A large file has hundreds of thousands.
        children: Array = pages[wanted].astype(np.uint32)
        return children

    def _records(self, pages: Array, room: Room) -> Records:
        """The rows on these leaves, which are read into `room`."""
        if pages.min() < 2 or pages.max() > self._count:
            raise NotPlainError
        edges = [0, *(np.flatnonzero(np.diff(pages) != 1) + 1).tolist(), len(pages)]
        for low, high in pairwise(edges):
            part = room.bytes[low * self._size : high * self._size].data
            begin = (int(pages[low]) - 1) * self._size
            try:
                got = os.preadv(self._descriptor, [part], begin)
            except OSError as error:
                raise NotPlainError from error
            if got != len(part):
                raise NotPlainError
        page = np.arange(len(pages)) * self._size
        counts = room.bytes[page + 3].astype(np.int64) << 8 | room.bytes[page + 4]
        tops = _LEAF_HEADER + 2 * counts
        if (room.bytes[page] != _LEAF).any() or (tops > self._usable).any():
            raise NotPlainError
        pointers = (page + _LEAF_HEADER) // 2
        places = room.pairs[_following(pointers, counts)].astype(np.int64)
        if (places < np.repeat(tops, counts)).any() or (places >= self._usable).any():
            raise NotPlainError
        places += np.repeat(page, counts)
        sizes, places, eight = self._sizes(places, room)
        ids, lengths = _ids(places, eight, room)
        begin = places + lengths
        end = begin + sizes
        if (end > np.repeat(page + self._usable, counts)).any() or (ids[1:] <= ids[:-1]).any():
            raise NotPlainError
        return Records(room, ids, begin, end)

    def _sizes(self, places: Array, room: Room) -> tuple[Array, Array, Array]:
        """The sizes of the records whose cells begin at these places, where their ids stand, and the
        eight bytes that stand there, of which the first `_BYTES_OF_IDS` are right.
        """
        eight = room.eights[places]
        sizes = (eight & np.uint64(255)).view(np.int64)
        long = sizes >= 128
        if long.any():
            if ((eight & np.uint64(0x8080)) == np.uint64(0x8080)).any():
                raise NotPlainError
            second = (eight >> np.uint64(8)).view(np.int64) & 127
            sizes = np.where(long, (sizes & 127) << 7 | second, sizes)
            eight >>= long.astype(np.uint64) << np.uint64(3)
            places = places + long
        if len(sizes) and int(sizes.max()) > self._usable - 35:  # the rest stands on other pages
            raise NotPlainError
        eight >>= np.uint64(8)
        return sizes, places + 1, eight


def _ids(places: Array, eight: Array, room: Room) -> tuple[Array, Array]:
    """The ids at these places, where `eight` stand, and how many bytes each takes."""
    length = int(_varints(room.bytes, places[:1])[1].sum())
    if 0 < length <= _BYTES_OF_IDS:
        # Ids of one batch are nearly always of one length: all bytes but the last have the upper bit.
        upper = np.uint64(int.from_bytes(bytes([128] * length), "little"))
        wanted = np.uint64(int.from_bytes(bytes([128] * (length - 1)), "little"))
        if ((eight & upper) == wanted).all():
            ids = eight & np.uint64(127)
            for _ in range(length - 1):
                eight >>= np.uint64(8)
                ids <<= np.uint64(7)
                ids |= eight & np.uint64(127)
            return ids.view(np.int64), np.broadcast_to(length, places.shape)
    return _varints(room.bytes, places)


def _following(begin: Array, counts: Array) -> Array:
    """The numbers begin, begin + 1, … as many as counted, one after the other."""
    shift = begin - np.concatenate(([0], np.cumsum(counts)[:-1]))
    result: Array = np.arange(int(counts.sum())) + np.repeat(shift, counts)
    return result


def _varints(data: Array, places: Array) -> tuple[Array, Array]:
    """The variable-length integers that begin at these places, and how many bytes each takes."""
    values, lengths = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
    more = np.ones(len(places), bool)
    for byte in range(_LONGEST_VARINT):
        found = data[places + byte].astype(np.int64)
        last = byte == _LONGEST_VARINT - 1
        grown = values << 8 | found if last else values << 7 | found & 127
        values = np.where(more, grown, values)
        lengths += more
        more &= found >= 128
        if not more.any():
            break
    return values, lengths
