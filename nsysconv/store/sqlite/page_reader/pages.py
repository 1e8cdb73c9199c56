"""The pages of a SQLite file and the whole numbers in their records, thousands of rows at a time.

The file's format is documented and promised to stay (https://www.sqlite.org/fileformat2.html, whose terms
are used here): section 1.6 describes the trees that tables are, 2.1 their records. A record begins with a
header: its own size, and a serial type for each column, from which the bytes of the value follow. The
values come next. Where rows have the same types, a column is at one place in all of their records, and
numpy takes it from all of them in a few operations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, pairwise
from pathlib import Path
from threading import Lock

import numpy as np

from nsysconv.report import MISSING

Array = np.ndarray

ID = -1
"""The place of what is the row's id: its record holds null there."""

# A value has so many bytes by its serial type: integers, reals, short blobs and texts. No value has
# types 10 and 11.
_UNUSED = 255
_BYTES = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, _UNUSED, _UNUSED]
_BYTES += [(kind - 12) // 2 for kind in range(12, 128)]
_LENGTHS = np.array(_BYTES, np.int64)
_LARGEST_NUMBER, _REAL, _ZERO, _ONE, _UNUSED_TYPES = 6, 7, 8, 9, (10, 11)
# A text has an odd one; from 128 on a type takes two bytes.
_SHORTEST_TEXT, _LONG_TYPES = 13, 128
# A value without bytes has this value, by serial type.
_WITHOUT_BYTES = np.array([MISSING, *[0] * (_ONE - 1), 1], np.int64)
# So many bits of eight bytes that begin with a value do not belong to it, by serial type. A value
# without bytes has 63, all but the sign.
_SPARE_BITS = np.minimum(64 - 8 * _LENGTHS[: _ONE + 1], 63)
# A value's length in bytes determines the type as which it is read, and how many bits of that belong to
# the next value.
_READ_AS = {
    1: (">i1", 0),
    2: (">i2", 0),
    3: (">i4", 8),
    4: (">i4", 0),
    6: (">i8", 16),
    8: (">i8", 0),
}

_LONG_HEADER = 128  # its size takes two bytes
_WORD = 8
# At most so many bytes of a record's beginning are gathered; the records of our tables and of Nsight
# Systems need no more.
_WIDEST = 256
# Rows laid out differently in turns are read together, a few long runs one after the other.
_MOST_RUNS = 4

# Bytes of pages at a time: with fewer, threads wait for each other between operations. Large reports took
# a tenth longer with 2 MB, a quarter with 1 MB.
BATCH_BYTES = 1 << 22
_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"
_ROLLBACK = 1  # the format's read version; that of a write-ahead log is 2
_UTF_8 = b"\0\0\0\1"
_INTERIOR, _LEAF = 5, 13
_LEAF_HEADER, _INTERIOR_HEADER = 8, 12
_DEEPEST = 20
_LONGEST_VARINT = 9
_LARGEST_ID = (1 << 63) - 1
# So many of a cell's first eight bytes are left for its id if its size takes two.
_BYTES_OF_IDS = 6
# Headers of damaged records may point so far beyond the last page: 127 types of 57 bytes, and eight more.
_SLACK = 1 << 13


_moving = Lock()


def open_bytes(path: Path) -> int:
    """Return a descriptor for reading a file's bytes. Raises OSError."""
    # Windows would change the ends of lines.
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))


def bytes_at(descriptor: int, size: int, begin: int) -> bytes:
    """Return so many bytes of a file from `begin` on, fewer at its end. Raises OSError."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, begin)
    # Windows reads where the descriptor is, which is one place for all threads.
    with _moving:
        os.lseek(descriptor, begin, os.SEEK_SET)
        return os.read(descriptor, size)


def read_at(descriptor: int, buffer: memoryview, begin: int) -> int:
    """Fill a buffer with a file's bytes from `begin` on; return how many there were. Raises OSError."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], begin)
    found = bytes_at(descriptor, len(buffer), begin)
    buffer[: len(found)] = found
    return len(found)


class UnreadableError(Exception):
    """The pages hold what is not read here."""


def read(
    descriptor: int,
    root: int,
    places: Sequence[int | Texts],
    first: int,
    last: int,
    batch_bytes: int | None = None,
) -> Iterator[tuple[int, list[Array]]]:
    """Yield columns of the rows with ids from `first` to `last`, in that order, some rows at a time.

    `root` is the page on which the table's tree has its root. `places` are the columns' numbers in a
    record, from 0, ID for the ids, or Texts. Each batch comes with the id from which reading goes on; its
    columns are arrays of int64, or of int32 where all values fit, broadcast where all are equal;
    null is MISSING. A batch comes from `batch_bytes` of pages, and takes six times as much memory; None:
    from as many as is fastest.

    Ends early where the pages hold what is not read here, damage above all: SQLite has to go on from the
    last id that was given, or from `first`. Where all is read, that id is `last` + 1. Takes no lock: the
    caller holds SQLite's where others may write to the file.
    """
    following = first
    try:
        for following, columns in Pages(descriptor, batch_bytes).rows(root, places, first, last):
            yield following, columns
    except UnreadableError:
        return
    if following <= last:
        # No rows have the last of these ids.
        yield last + 1, [np.empty(0, np.int64)] * len(places)


class Pages:
    """The pages of a SQLite file behind a descriptor. Threads may share it."""

    def __init__(self, descriptor: int, batch_bytes: int | None = None) -> None:
        """Raise UnreadableError where there is a write-ahead log, or no SQLite file."""
        self._descriptor, self._batch_bytes = descriptor, batch_bytes or BATCH_BYTES
        header = self._read(_HEADER_BYTES, 0)
        if header[:16] != _MAGIC or header[19] != _ROLLBACK:
            raise UnreadableError
        size = int.from_bytes(header[16:18], "big")
        self._size = 65_536 if size == 1 else size
        self._usable = self._size - header[20]
        self._has_utf8 = header[56:60] == _UTF_8
        if self._size < 512 or self._size & (self._size - 1) or self._usable < 480:
            raise UnreadableError
        self._count = os.fstat(descriptor).st_size // self._size

    def rows(
        self, root: int, places: Sequence[int | Texts], first: int, last: int
    ) -> Iterator[tuple[int, list[Array]]]:
        """Yield as `read`. Raises UnreadableError; the batches before it are right."""
        if not self._has_utf8 and any(isinstance(place, Texts) for place in places):
            raise UnreadableError
        leaves, _ = self._leaves(root, first, last)
        step, room = self._room(len(leaves))
        before: int | None = None
        for low in range(0, len(leaves), step):
            records = self._records(leaves[low : low + step], room)
            if not len(records.ids):
                continue
            if before is not None and int(records.ids[0]) <= before:
                raise UnreadableError
            before = int(records.ids[-1])
            # The first and the last page also hold rows outside of the range.
            begin = int(np.searchsorted(records.ids, first))
            end = int(np.searchsorted(records.ids, last, side="right"))
            several = records.part(begin, end).columns(places) if begin < end else []
            # What is not kept by whoever takes the values makes room for what comes of them.
            del records
            while several:
                row, columns = several.pop(0)
                yield row + 1, columns
                del columns

    def _room(self, count: int) -> tuple[int, Room]:
        # The result is the number of pages to read at a time, of `count` in total, and the room for them.
        step = max(1, min(self._batch_bytes // self._size, count))
        return step, Room(np.zeros(step * self._size + _SLACK, np.uint8))

    def _read(self, size: int, begin: int) -> bytes:
        try:
            data = bytes_at(self._descriptor, size, begin)
        except OSError as error:
            raise UnreadableError from error
        if len(data) != size:
            raise UnreadableError
        return data

    def _page(self, number: int) -> Array:
        if not 2 <= number <= self._count:  # the first is no table of a profile
            raise UnreadableError
        data = self._read(self._size, (number - 1) * self._size)
        return np.frombuffer(data + bytes(_SLACK), np.uint8)

    def _leaves(self, root: int, first: int, last: int) -> tuple[Array, Array]:
        # The results are the numbers of the leaves, and, per leaf, an upper bound of its ids, which the
        # ids of the next leaf exceed.
        if not 2 <= root <= self._count:
            raise UnreadableError
        level, highs = np.array([root], np.uint32), np.array([_LARGEST_ID])
        met = np.zeros(self._count + 1, bool)  # a page has one place in a tree
        met[root] = True
        for _ in range(_DEEPEST):
            if self._page(int(level[0]))[0] == _LEAF:
                return level, highs
            below, keys = list[Array](), list[Array]()
            for number, high in zip(level.tolist(), highs, strict=True):
                children, greatest = self._children(number, first, last, high)
                if (
                    len(set(children.tolist())) != len(children)
                    or met.take(children, mode="clip").any()
                ):
                    raise UnreadableError
                met[children[children <= self._count]] = True
                below.append(children)
                keys.append(greatest)
            level, highs = np.concatenate(below), np.concatenate(keys)
            if not len(level):
                raise UnreadableError
        raise UnreadableError

    def _children(self, number: int, first: int, last: int, high: int) -> tuple[Array, Array]:
        page = self._page(number)
        count = int(page[3]) << 8 | int(page[4])
        if page[0] != _INTERIOR or _INTERIOR_HEADER + 2 * count > self._usable:
            raise UnreadableError
        places = page[_INTERIOR_HEADER : _INTERIOR_HEADER + 2 * count].view(">u2").astype(np.int64)
        if count and int(places.max()) + 4 > self._usable:
            raise UnreadableError
        pages = np.zeros(count, np.int64)
        for byte in range(4):
            pages = pages << 8 | page[places + byte]
        # A key is the largest id to the left of it; to the right of the last is one more page.
        keys, _ = varints(page, places + 4)
        least = np.concatenate(([MISSING], keys))
        pages = np.append(pages, int.from_bytes(page[8:12].tobytes(), "big"))
        wanted = least < last
        wanted[:-1] &= keys >= first
        # A large file has hundreds of thousands.
        return pages[wanted].astype(np.uint32), np.append(keys, high)[wanted]

    def _cells(self, pages: Array, room: Room) -> tuple[Array, Array, Array]:
        # The results are where in the room each page begins, how many cells it has, and where on it
        # each of them is.
        if pages.min() < 2 or pages.max() > self._count:
            raise UnreadableError
        edges = [0, *(np.flatnonzero(np.diff(pages) != 1) + 1).tolist(), len(pages)]
        for low, high in pairwise(edges):
            part = room.bytes[low * self._size : high * self._size].data
            begin = (int(pages[low]) - 1) * self._size
            try:
                got = read_at(self._descriptor, part, begin)
            except OSError as error:
                raise UnreadableError from error
            if got != len(part):
                raise UnreadableError
        page = np.arange(len(pages)) * self._size
        counts = room.bytes[page + 3].astype(np.int64) << 8 | room.bytes[page + 4]
        tops = _LEAF_HEADER + 2 * counts
        if (room.bytes[page] != _LEAF).any() or (tops > self._usable).any():
            raise UnreadableError
        pointers = zip(((page + _LEAF_HEADER) // 2).tolist(), counts.tolist(), strict=True)
        parts = [room.pairs[begin : begin + count] for begin, count in pointers]
        places = np.concatenate(parts).astype(np.uint16)
        tops = tops.astype(np.uint16)
        if (places < np.repeat(tops, counts)).any() or int(places.max(initial=0)) >= self._usable:
            raise UnreadableError
        return page, counts, places

    def _records(self, pages: Array, room: Room) -> _Records:
        page, counts, places = self._cells(pages, room)
        places = places + np.repeat(page, counts)
        sizes, places, eight = self._sizes(places, room)
        ids, lengths = _ids(places, eight, room)
        begin = places + lengths
        end = begin + sizes
        if (end > np.repeat(page + self._usable, counts)).any() or (ids[1:] <= ids[:-1]).any():
            raise UnreadableError
        return _Records(room, ids, begin, end)

    def _sizes(self, places: Array, room: Room) -> tuple[Array, Array, Array]:
        eight = room.eights[places]
        sizes = (eight & np.uint64(255)).view(np.int64)
        long = sizes >= 128
        if long.any():
            if ((eight & np.uint64(0x8080)) == np.uint64(0x8080)).any():
                raise UnreadableError
            second = (eight >> np.uint64(8)).view(np.int64) & 127
            sizes = np.where(long, (sizes & 127) << 7 | second, sizes)
            eight >>= long.astype(np.uint64) << np.uint64(3)
            places = places + long
        if len(sizes) and int(sizes.max()) > self._usable - 35:  # the rest is on overflow pages
            raise UnreadableError
        eight >>= np.uint64(8)
        return sizes, places + 1, eight


def _ids(places: Array, eight: Array, room: Room) -> tuple[Array, Array]:
    length = int(varints(room.bytes, places[:1])[1].sum())
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
    return varints(room.bytes, places)


def varints(data: Array, places: Array) -> tuple[Array, Array]:
    """Return the numbers of variable length at these offsets, and how many bytes each has."""
    values, lengths = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
    more = np.ones(len(places), bool)
    for byte in range(_LONGEST_VARINT):
        byte_values = data[places + byte].astype(np.int64)
        last = byte == _LONGEST_VARINT - 1
        grown = values << 8 | byte_values if last else values << 7 | byte_values & 127
        values = np.where(more, grown, values)
        lengths += more
        more &= byte_values >= 128
        if not more.any():
            break
    return values, lengths


class Room:
    """Bytes that pages are read into, and what of them eight and two make at any place."""

    def __init__(self, room: Array) -> None:
        """Make views of the bytes as words of two and eight bytes at any offset."""
        self.bytes = room
        self.pairs = room.view(">u2")
        self.eights = np.lib.stride_tricks.as_strided(
            room[:_WORD].view("<u8"), (len(room) - _WORD + 1,), (1,), writeable=False
        )

    def taken(self, places: Array, width: int) -> Array:
        """Return `width` bytes from each of these offsets, one line per offset."""
        everywhere = np.ndarray((len(self.bytes) - width + 1,), f"V{width}", self.bytes, 0, (1,))
        lines: Array = everywhere[places].view(np.uint8).reshape(len(places), width)
        return lines

    def holding(self, signs: bytes, places: Array) -> Array:
        """Return those of these offsets where these bytes are."""
        for low in range(0, len(signs), _WORD):
            word = signs[low : low + _WORD]
            mask = np.uint64((1 << 8 * len(word)) - 1)
            places = places[self.eights[places + low] & mask == int.from_bytes(word, "little")]
        return places


@dataclass(frozen=True)
class _Records:
    """Rows, one at least: ascending ids, and where in `room` their records begin and end."""

    room: Room
    ids: Array
    begin: Array
    end: Array

    def part(self, low: int, high: int) -> _Records:
        rows = slice(low, high)
        return _Records(self.room, self.ids[rows], self.begin[rows], self.end[rows])

    def columns(self, places: Sequence[int | Texts]) -> list[tuple[int, list[Array]]]:
        # The result has runs of rows with the same layout: the last id of each, and its columns as
        # `read` yields them.
        wanted = {_number(place): place for place in places if place != ID}
        count = max(wanted, default=-1) + 1
        tops = _tops(self, count)
        runs, differing = _runs(tops, count)
        several = []
        for low, high in runs:
            rows = self.part(low, high)
            found = dict(_columns(rows, tops[low:high], count, wanted, differing))
            columns = [found.get(_number(place), rows.ids) for place in places]
            several.append((int(rows.ids[-1]), columns))
        return several


@dataclass(frozen=True)
class Texts:
    """The column at a place, of texts, the parts of which `number` numbers.

    A part follows the first `after`, up to the end of the first separator; nothing of a text without
    `after`. `number` takes where each part begins in some bytes, with the end of the last, and the bytes.
    """

    place: int
    number: Callable[[Array, Array], Array]
    separators: Sequence[bytes] = ()
    after: bytes = b""

    def numbers(self, records: _Records, begin: Array, kinds: Array) -> Array:
        """Return the number of each row's text, MISSING for null; raise where there is something else."""
        room, present, end = records.room, kinds != 0, begin + _lengths(kinds)
        is_text = (kinds >= _SHORTEST_TEXT) & (kinds & 1 == 1) & (end <= records.end)
        if not (is_text | ~present).all():
            raise UnreadableError
        begin, end = begin[present], end[present]
        if self.after:
            begin = _ends(room, begin, end, [self.after])
        lengths = _ends(room, begin, end, self.separators) - begin
        edges = np.concatenate(([0], np.cumsum(lengths)))
        data = room.bytes[np.repeat(begin - edges[:-1], lengths) + np.arange(edges[-1])]
        numbers = self.number(edges.astype(np.int32), data)
        if present.all():
            return numbers
        every = np.full(len(present), MISSING)
        every[present] = numbers
        return every


def _ends(room: Room, begin: Array, end: Array, signs: Sequence[bytes]) -> Array:
    # Where the first of these ends between two places, else the second place.
    first, last = end, end
    for sign, several in groupby(signs, lambda each: each[0]):
        places = np.flatnonzero(room.bytes[:-_SLACK] == sign)
        for each in several:
            at = room.holding(each, places)
            found = np.append(at, len(room.bytes))[np.searchsorted(at, begin)]
            earlier = (found + len(each) <= end) & (found < first)
            first = np.where(earlier, found, first)
            last = np.where(earlier, found + len(each), last)
    return last


def _number(place: int | Texts) -> int:
    return place.place if isinstance(place, Texts) else place


def repeated(value: int, count: int) -> Array:
    """Return a read-only array of `count` equal numbers that takes the memory of a single number."""
    numbers: Array = np.broadcast_to(np.int64(value), count)
    return numbers


def _tops(records: _Records, count: int) -> Array:
    at, room = int(records.begin[0]), records.room.bytes
    header = int(room[at])
    values = _LENGTHS.take(room[at + 1 : at + 1 + count], mode="clip").sum()
    words = -(-min(header + int(values), _WIDEST) // _WORD) + 1
    return records.room.taken(records.begin, words * _WORD)


def _runs(tops: Array, count: int) -> tuple[list[tuple[int, int]], list[int]]:
    words = tops.view("<u8").T[: count // _WORD + 1]
    masks = [(1 << 64) - 1] * (len(words) - 1) + [(1 << 8 * (count % _WORD + 1)) - 1]
    heads = [word & np.uint64(mask) for word, mask in zip(words, masks, strict=True)]
    changed = reduce(np.logical_or, (head[1:] != head[:-1] for head in heads))
    edges = np.flatnonzero(changed)[: _MOST_RUNS + 1] + 1
    if len(edges) < _MOST_RUNS:
        return list(pairwise([0, *edges.tolist(), len(tops)])), []
    differences = b"".join(np.bitwise_or.reduce(head ^ head[0]).tobytes() for head in heads)
    return [(0, len(tops))], [place for place, bits in enumerate(differences) if bits]


def _columns(
    records: _Records,
    tops: Array,
    count: int,
    wanted: Mapping[int, int | Texts],
    differing: Sequence[int],
) -> Iterator[tuple[int, Array]]:
    header, first = tops[:, 0], tops[0].tolist()
    # A shorter header leaves out columns that were added later.
    if not count < int(header.min()) <= int(header.max()) < _LONG_HEADER:
        raise UnreadableError
    # A value is `at` bytes behind a base. As long as that is a record's begin, it is in `tops`.
    base, at, in_tops = records.begin, first[0], True
    if 0 in differing:
        base, at, in_tops = base + header, 0, False
    # By how many bytes types are behind their places, because some before them take two.
    shift: Array | None = None
    for place in range(count):
        asked = wanted.get(place)
        if shift is not None or 1 + place in differing or first[1 + place] >= _LONG_TYPES:
            if shift is None:
                kinds = tops[:, 1 + place].copy()
            else:
                kinds = records.room.bytes[records.begin + (1 + place) + shift]
            if (kinds >= _LONG_TYPES).any():
                kinds, shift = _long_kinds(records, kinds, 1 + place, shift)
            _check_kinds(kinds)
            base, at, in_tops = base + at, 0, False
            lengths = _lengths(kinds)
            if shift is not None:
                _check_room(records, base + lengths, header < 2 + place + shift)
            if isinstance(asked, Texts):
                yield place, asked.numbers(records, base, kinds)
            elif asked is not None:
                yield place, _mixed(records.room, base, kinds, lengths)
            base += lengths
        else:
            kind = first[1 + place]
            if kind in _UNUSED_TYPES:
                raise UnreadableError
            if asked is None:
                pass
            elif isinstance(asked, Texts):
                yield place, asked.numbers(records, base + at, repeated(kind, len(base)))
            elif kind > _LARGEST_NUMBER and kind not in (_ZERO, _ONE):
                raise UnreadableError
            elif not _BYTES[kind]:
                yield place, repeated(int(_WITHOUT_BYTES[kind]), len(base))
            elif in_tops and at + _WORD <= tops.shape[1]:
                yield place, _of_equal_length(tops, at, _BYTES[kind])
            else:
                taken = records.room.taken(base + at, _WORD)
                yield place, _of_equal_length(taken, 0, _BYTES[kind])
            at += _BYTES[kind]
    if (base + at > records.end).any():
        raise UnreadableError


def _long_kinds(
    records: _Records, kinds: Array, at: int, shift: Array | None
) -> tuple[Array, Array]:
    # The types whose first bytes these are, where some take two, and by how many bytes the next are
    # behind their places.
    before = np.zeros(len(kinds), np.int64) if shift is None else shift
    long = kinds >= _LONG_TYPES
    second = records.room.bytes[records.begin + at + 1 + before]
    if (long & (second >= 128)).any():
        raise UnreadableError
    kinds = kinds.astype(np.int64)
    return np.where(long, (kinds & 127) << 7 | second, kinds), before + long


def _check_room(records: _Records, end: Array, is_short: Array) -> None:
    # Values end in their records, and types in headers.
    if ((end > records.end) | is_short).any():
        raise UnreadableError


def _check_kinds(kinds: Array) -> None:
    low, high = _UNUSED_TYPES
    if int(kinds.max()) >= low and ((kinds == low) | (kinds == high)).any():
        raise UnreadableError


def _lengths(kinds: Array) -> Array:
    if int(kinds.max(initial=0)) < _LONG_TYPES:
        return _LENGTHS.take(kinds)
    return np.where(kinds < 12, _LENGTHS.take(kinds, mode="clip"), kinds - 12 >> 1)


def _of_equal_length(lines: Array, at: int, length: int) -> Array:
    kind, spare = _READ_AS[length]
    raw: Array = np.ndarray((len(lines),), kind, lines, at, lines.strides[:1])
    values: Array = raw.astype(np.int32 if length <= 4 else np.int64)
    if spare:
        np.right_shift(values, spare, out=values)
    if length == _WORD:
        _check(values)
    one_value = values[0] == values[-1] and (values == values[0]).all()
    return repeated(int(values[0]), len(values)) if one_value else values


def _mixed(room: Room, begin: Array, kinds: Array, lengths: Array) -> Array:
    if int(kinds.max()) > _LARGEST_NUMBER and ((kinds == _REAL) | (kinds > _ONE)).any():
        raise UnreadableError
    longest = int(lengths.max())
    if longest == 0:
        return _WITHOUT_BYTES.take(kinds)
    if longest == 1:
        values: Array = room.bytes[begin].view(np.int8)
    else:
        values = room.eights[begin].byteswap(inplace=True).view(np.int64)
        values >>= _SPARE_BITS.take(kinds)
        if longest == _WORD:
            _check(values)
    if int(lengths.min()) == 0:
        values = np.where(lengths == 0, _WITHOUT_BYTES.take(kinds, mode="clip"), values)
    small = longest <= 4 and int(kinds.min()) > 0
    return values.astype(np.int32 if small else np.int64, copy=False)


def _check(values: Array) -> None:
    if int(values.min()) == MISSING:
        raise UnreadableError
