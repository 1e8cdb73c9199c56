"""Protocol Buffers' wire format without a description: fields of one message, and of many at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

Array = np.ndarray

VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
_LONGEST_VARINT = 10
_AT_ONCE = 1 << 18
# No message that is read with others has more fields; call chains have some hundreds of them.
_MOST_FIELDS = 1 << 13
_CONTINUED = np.uint64(0x8080808080808080)
# Bits of two neighbours of 7, 14 and 28 bits, the second of which moves beside the first.
_HALVES = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_ONE_PER_BYTE, _TO_BYTES = np.uint64(0x0101010101010101), np.uint64(56)
_ONE, _ZERO = np.uint64(1), np.uint64(0)
PADDING = bytes(16)
"""What has to follow a buffer that many messages are read from at once."""


class WireError(Exception):
    """Bytes that are no message."""


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, and the place behind it."""
    value = 0
    for place in range(at, min(at + _LONGEST_VARINT, len(data))):
        value |= (data[place] & 0x7F) << 7 * (place - at)
        if data[place] < 0x80:
            return value & ((1 << 64) - 1), place + 1
    raise WireError


def fields(message: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the fields of one message: its number, and a number of 64 bits with a sign or where a text or
    a message lies. What is in these is neither looked at nor copied.
    """
    data, at = memoryview(message), 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == VARINT:
            value, at = varint(data, at)
            yield tag >> 3, value - (value >> 63 << 64)
            continue
        length = {EIGHT_BYTES: 8, FOUR_BYTES: 4}.get(tag & 7, len(data) + 1)
        if tag & 7 == BYTES:
            length, at = varint(data, at)
        if length > len(data) - at:
            raise WireError
        yield tag >> 3, data[at : at + length]
        at += length


def numbers(data: bytes | memoryview) -> dict[int, int]:
    """Return the numbers of a message by field, the last of each."""
    return {number: value for number, value in fields(data) if isinstance(value, int)}


def messages(data: bytes | memoryview, *path: int) -> list[memoryview]:
    """Return where the messages or texts at a path of fields lie, each time that they are there."""
    found = [memoryview(data)]
    for wanted in path:
        inner = [value for outer in found for number, value in fields(outer) if number == wanted]
        found = [value for value in inner if isinstance(value, memoryview)]
    return found


def text(data: bytes | memoryview, number: int) -> str | None:
    """Return a field of a message as text, the first of several; None where it is not there."""
    found = messages(data, number)
    return bytes(found[0]).decode("utf-8", "replace") if found else None


# -- many messages at once


@dataclass(frozen=True)
class Spans:
    """Messages or texts in a buffer: where each begins and ends."""

    start: Array
    end: Array

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.start)

    def take(self, which: Array) -> Spans:
        """Return some of them."""
        return Spans(self.start[which], self.end[which])


@dataclass(frozen=True)
class Column:
    """One field of many messages: `which` of them have it here, and what: numbers as int64, or spans."""

    number: int
    which: Array
    value: Array | Spans


class Buffer:
    """Bytes that many messages lie in."""

    def __init__(self, data: bytes) -> None:
        """Take the bytes, behind which PADDING has been put."""
        self.bytes = np.frombuffer(data, np.uint8)
        self.length = len(data) - len(PADDING)
        # Eight bytes from each place on, as one number.
        self._words = np.ndarray((self.length + 8,), "<u8", data, strides=(1,))

    def _varints(self, at: Array, *, short: bool = False) -> tuple[Array, Array]:
        # The number that begins at each place, and the place behind it. `short`: longer ones are -1.
        first = self.bytes[at]
        if len(first) and first.max() < 0x80:  # most fields, and what most hold
            return first.astype(np.int64), at + 1
        word = self._words[at]
        stop = ~word & _CONTINUED
        mask = stop ^ (stop - _ONE)
        word &= mask & ~_CONTINUED
        for low, high, shift in _HALVES:
            word = (word & low) | ((word & high) >> shift)
        length = ((mask & _ONE_PER_BYTE) * _ONE_PER_BYTE) >> _TO_BYTES
        value, behind = word.view(np.int64), at + length.view(np.int64)
        long = np.flatnonzero(stop == _ZERO)
        if short:
            value[long] = -1
        elif len(long):
            value[long], behind[long] = self._long_varints(at[long])
        return value, behind

    def _long_varints(self, at: Array) -> tuple[Array, Array]:
        # Those of 9 and 10 bytes: the first 8 have 56 bits, and a tenth the last one.
        ninth, tenth = (self.bytes[np.minimum(at + n, len(self.bytes) - 1)] for n in (8, 9))
        if (tenth[ninth >= 0x80] >= 0x80).any():
            raise WireError
        value = self._words[at] & ~_CONTINUED
        for low, high, shift in _HALVES:
            value = (value & low) | ((value & high) >> shift)
        value |= (ninth & 0x7F).astype(np.uint64) << np.uint64(56)
        value |= np.where(ninth < 0x80, 0, tenth).astype(np.uint64) << np.uint64(63)
        return value.view(np.int64), at + 9 + (ninth >= 0x80)

    def fields(self, spans: Spans) -> Iterator[Column]:
        """Yield the fields of messages, those of one number together where they come in one order.

        Raises WireError where one is no message.
        """
        which = np.flatnonzero(spans.end > spans.start)
        at, end = spans.start[which], spans.end[which]
        tag, at = self._varints(at)
        for _ in range(_MOST_FIELDS):
            if not len(which):
                return
            # Numbers ascend: who has the least one has it now, and the others wait.
            now = tag.min()
            mine = np.flatnonzero(tag == now) if tag.max() != now else slice(None)
            who, place, limit = which[mine], at[mine], end[mine]
            wire_type = int(now) & 7
            value: Array | Spans
            if wire_type == VARINT:
                value, place = self._varints(place)
            elif wire_type == BYTES:
                length, place = self._varints(place)
                if ((length < 0) | (length > limit - place)).any():
                    raise WireError
                value = Spans(place, place + length)
                place = value.end
            elif wire_type in (EIGHT_BYTES, FOUR_BYTES):
                # Nothing that is read here has them.
                value = Spans(place, place + (8 if wire_type == EIGHT_BYTES else 4))
                place = value.end
            else:
                raise WireError
            if (place > limit).any():
                raise WireError
            yield Column(int(now) >> 3, who, value)
            more = place < limit
            if isinstance(mine, slice):
                which, at, end = which[more], place[more], end[more]
                tag, at = self._varints(at)
                continue
            tag[mine], at[mine] = np.iinfo(np.int64).max, place
            again = mine[more]
            tag[again], at[again] = self._varints(place[more])
            if not more.all():
                left = np.ones(len(which), bool)
                left[mine[~more]] = False
                which, at, end, tag = which[left], at[left], end[left], tag[left]
        if len(which):
            raise WireError

    def repeated(self, number: int) -> Spans:
        """Return the messages of one field that the buffer begins with, one behind the other.

        No message is looked at by itself: each byte that could be the field's tag is followed to where
        its message would end, and from the first one on in steps of 1, 2, 4, 8 … messages.
        """
        places = np.flatnonzero(self.bytes[: self.length] == (number << 3 | BYTES)).astype(np.int32)
        count = len(places)
        begin, end = np.zeros((2, count), np.int32)
        place_of = np.full(self.length + 1, -1, np.int32)
        place_of[places], place_of[self.length] = np.arange(count), count
        for low in range(0, count, _AT_ONCE):
            part = slice(low, low + _AT_ONCE)
            length, first = self._varints(places[part].astype(np.int64) + 1, short=True)
            whole = (length >= 0) & (length <= self.length - first)
            begin[part], end[part] = first, np.where(whole, first + length, -1)
        # The last one is behind all; what ends where no other begins leads to itself.
        following = np.append(np.where(end < 0, -1, place_of[end]), count)
        following = np.where(following < 0, np.arange(count + 1), following)
        reached = place_of[:1] if count and places[0] == 0 else np.array([count])
        while following[reached[-1]] != reached[-1]:
            reached = np.concatenate((reached, following[reached]))
            following = following[following]
        reached = np.unique(reached[reached < count])
        if (end[reached] < 0).any():
            raise WireError
        return Spans(begin[reached].astype(np.int64), end[reached].astype(np.int64))
