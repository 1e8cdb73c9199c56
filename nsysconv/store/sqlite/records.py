"""Whole numbers from the records of SQLite's rows, those of thousands of rows in a few operations.

The terms are those of https://www.sqlite.org/fileformat2.html, section 2.1. A record begins with a
header: its own size, and a serial type for each column, from which follow the bytes of the value. The
values come next. Where rows have the same types, a column stands at one place in all of their records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from nsysconv.report import MISSING

Array = np.ndarray

ID = -1
"""The place of what is the row's id: its record holds null there."""

# Bytes of a value by its serial type: whole numbers, reals, short blobs and texts. None has types 10, 11.
_UNUSED = 255
_BYTES = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, _UNUSED, _UNUSED]
_BYTES += [(kind - 12) // 2 for kind in range(12, 128)]
_LENGTHS = np.array(_BYTES, np.int64)
_LARGEST_NUMBER, _REAL, _ZERO, _ONE, _UNUSED_TYPES, _LONG_TYPES = 6, 7, 8, 9, (10, 11), 128
# What values without bytes are, by serial type.
_WITHOUT_BYTES = np.array([MISSING, *[0] * (_ONE - 1), 1], np.int64)
# What of eight bytes that begin with a value is not its, in bits; all but the sign where it has none.
_SPARE_BITS = np.minimum(64 - 8 * _LENGTHS[: _ONE + 1], 63)
# As what a value of so many bytes is read, and the bits that are not its.
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
# Of a record's beginning no more is taken at once: all that a table of ours or of Nsight Systems has.
_WIDEST = 256
# Rows laid out differently in turns are read together, a few long runs one after the other.
_MOST_RUNS = 4


class NotPlainError(Exception):
    """The pages hold what is not read here; SQLite knows what it is."""


class Room:
    """Bytes that pages are read into, and what of them eight and two make at any place."""

    def __init__(self, room: Array) -> None:
        self.bytes = room
        self.pairs = room.view(">u2")
        self.eights = np.lib.stride_tricks.as_strided(
            room[:_WORD].view("<u8"), (len(room) - _WORD + 1,), (1,), writeable=False
        )

    def taken(self, places: Array, width: int) -> Array:
        """As many bytes from each of these places, a line for each."""
        everywhere = np.ndarray((len(self.bytes) - width + 1,), f"V{width}", self.bytes, 0, (1,))
        lines: Array = everywhere[places].view(np.uint8).reshape(len(places), width)
        return lines


@dataclass(frozen=True)
class Records:
    """Rows of a table, one at least: their ids, which ascend, and where in `room` each one's record
    begins and ends.
    """

    room: Room
    ids: Array
    begin: Array
    end: Array

    def part(self, low: int, high: int) -> Records:
        """The rows from one to before another."""
        rows = slice(low, high)
        return Records(self.room, self.ids[rows], self.begin[rows], self.end[rows])

    def columns(self, places: Sequence[int]) -> list[tuple[int, list[Array]]]:
        """Of some rows after the other the last id, and the values in columns of these places as
        `Pages.rows` tells them.
        """
        wanted = set(places) - {ID}
        count = max(wanted, default=-1) + 1
        tops = _tops(self, count)
        runs, differing = _runs(tops, count)
        several = []
        for low, high in runs:
            rows = self.part(low, high)
            found = dict(_numbers(rows, tops[low:high], count, wanted, differing))
            columns = [found.get(place, rows.ids) for place in places]
            several.append((int(rows.ids[-1]), columns))
        return several


def alike(value: int, count: int) -> Array:
    """An array of so many equal numbers, which takes no room; they cannot be changed."""
    numbers: Array = np.ndarray((count,), np.int64, np.array([value]), 0, (0,))
    numbers.flags.writeable = False
    return numbers


def _tops(records: Records, count: int) -> Array:
    """The first bytes of all records: as many as the first `count` columns take in the first one, a word
    more, and whole words.
    """
    at, room = int(records.begin[0]), records.room.bytes
    header = int(room[at])
    values = _LENGTHS.take(room[at + 1 : at + 1 + count], mode="clip").sum()
    words = -(-min(header + int(values), _WIDEST) // _WORD) + 1
    return records.room.taken(records.begin, words * _WORD)


def _runs(tops: Array, count: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Where rows begin and end that are read together; and which bytes of their headers, up to that of
    the last of `count` columns, are not the same in all of them.
    """
    words = tops.view("<u8").T[: count // _WORD + 1]
    masks = [(1 << 64) - 1] * (len(words) - 1) + [(1 << 8 * (count % _WORD + 1)) - 1]
    heads = [word & np.uint64(mask) for word, mask in zip(words, masks, strict=True)]
    changed = reduce(np.logical_or, (head[1:] != head[:-1] for head in heads))
    edges = np.flatnonzero(changed)[: _MOST_RUNS + 1] + 1
    if len(edges) < _MOST_RUNS:
        return list(pairwise([0, *edges.tolist(), len(tops)])), []
    differences = b"".join(np.bitwise_or.reduce(head ^ head[0]).tobytes() for head in heads)
    return [(0, len(tops))], [place for place, bits in enumerate(differences) if bits]


def _numbers(
    records: Records, tops: Array, count: int, wanted: Set[int], differing: Sequence[int]
) -> Iterator[tuple[int, Array]]:
    """The values of whole numbers in the wanted ones of the first columns, by place."""
    header, first = tops[:, 0], tops[0].tolist()
    # A longer header has varints for lengths; a shorter one leaves out columns that were added later.
    if not count < int(header.min()) <= int(header.max()) < _LONG_HEADER:
        raise NotPlainError
    # Values stand so many bytes behind a base: as long as that is where records begin, in their tops.
    base, at, in_tops = records.begin, first[0], True
    if 0 in differing:
        base, at, in_tops = base + header, 0, False
    for place in range(count):
        if 1 + place in differing:
            kinds = _sound(tops[:, 1 + place].copy())
            base = base + at
            lengths = _LENGTHS.take(kinds)
            if place in wanted:
                yield place, _mixed(records.room, base, kinds, lengths)
            base += lengths
            at, in_tops = 0, False
        else:
            kind = first[1 + place]
            if kind >= _LONG_TYPES or kind in _UNUSED_TYPES:
                raise NotPlainError
            if place not in wanted:
                pass
            elif kind > _LARGEST_NUMBER and kind not in (_ZERO, _ONE):
                raise NotPlainError
            elif not _BYTES[kind]:
                yield place, alike(int(_WITHOUT_BYTES[kind]), len(base))
            elif in_tops and at + _WORD <= tops.shape[1]:
                yield place, _of_equal_length(tops, at, _BYTES[kind])
            else:
                taken = records.room.taken(base + at, _WORD)
                yield place, _of_equal_length(taken, 0, _BYTES[kind])
            at += _BYTES[kind]
    if (base + at > records.end).any():
        raise NotPlainError


def _sound(kinds: Array) -> Array:
    """Serial types. Raises NotPlainError where one takes more than a byte, or is none."""
    most = int(kinds.max())
    if most >= _LONG_TYPES or (most >= _UNUSED_TYPES[0] and _is_any(kinds, _UNUSED_TYPES)):
        raise NotPlainError
    return kinds


def _is_any(kinds: Array, listed: Sequence[int]) -> bool:
    return any(bool((kinds == one).any()) for one in listed)


def _of_equal_length(lines: Array, at: int, length: int) -> Array:
    """The values of so many bytes that stand at one place in all lines; eight bytes can be read there."""
    kind, spare = _READ_AS[length]
    found: Array = np.ndarray((len(lines),), kind, lines, at, lines.strides[:1])
    values: Array = found.astype(np.int32 if length <= 4 else np.int64)
    if spare:
        np.right_shift(values, spare, out=values)
    if length == _WORD:
        _check(values)
    return _narrow(values)


def _mixed(room: Room, begin: Array, kinds: Array, lengths: Array) -> Array:
    """The values that begin at these places, of these serial types and lengths in bytes."""
    if int(kinds.max()) > _LARGEST_NUMBER and ((kinds == _REAL) | (kinds > _ONE)).any():
        raise NotPlainError
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
    """Raises NotPlainError where there is the number that stands for null here, but not in a file."""
    if int(values.min()) == MISSING:
        raise NotPlainError


def _narrow(values: Array) -> Array:
    """The values, or one for all where they are equal."""
    first = values[0]
    if first == values[-1] and (values == first).all():
        return alike(int(first), len(values))
    return values
