"""Protocol Buffers' wire format without a description: fields of one message, and of many at once."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

import numpy as np

Array = np.ndarray

VARINT, BYTES = 0, 2
"""Wire types: a number, and what has a length."""
FIXED_BYTES = {1: 8, 5: 4}
"""Wire types that have so many bytes."""
_LONGEST_VARINT = 10
# No message that is read with others has more fields; call chains have some hundreds of them.
_MOST_FIELDS = 1 << 13
PADDING = bytes(16)
"""What has to follow a buffer that many messages are read from at once."""


class WireError(Exception):
    """Bytes that are not a message."""


def varint(data: bytes | memoryview | mmap, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, and the place behind it."""
    value = 0
    for shift in range(0, 7 * _LONGEST_VARINT, 7):
        if at >= len(data):
            break
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
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
        length = FIXED_BYTES.get(tag & 7, len(data) + 1)
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
        self.data = data
        self.length = len(data) - len(PADDING)
        self._bytes = np.frombuffer(data, np.uint8)

    def varints(self, at: Array) -> tuple[Array, Array]:
        """Return the number that begins at each place, and the place behind it.

        Raises WireError where one is longer than a number can be.
        """
        byte = self._bytes.take(at)
        value, at, goes_on = (byte & 0x7F).astype(np.uint64), at + 1, byte >> 7
        for shift in range(7, 7 * _LONGEST_VARINT + 1, 7):
            if not goes_on.any():
                return value.view(np.int64), at
            byte = self._bytes.take(at) * goes_on
            value |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            at, goes_on = at + goes_on, byte >> 7
        raise WireError

    def fields(self, spans: Spans) -> Iterator[Column]:
        """Yield the fields of messages, those of one number together where they come in one order.

        Raises WireError where one is no message.
        """
        which = np.flatnonzero(spans.end > spans.start)
        at, end = spans.start[which], spans.end[which]
        tag, at = self.varints(at)
        for _ in range(_MOST_FIELDS):
            if not len(which):
                return
            # Numbers ascend: who has the least one has it now, and the others wait.
            now = tag.min()
            mine = np.flatnonzero(tag == now) if tag.max() != now else slice(None)
            place, limit = at[mine], end[mine]
            wire_type = int(now) & 7
            value: Array | Spans
            if wire_type == VARINT:
                value, behind = self.varints(place)
            elif wire_type == BYTES:
                length, begin = self.varints(place)
                behind = begin + length
                value = Spans(begin, behind)
            elif wire_type in FIXED_BYTES:
                behind = place + FIXED_BYTES[wire_type]
                value = Spans(place.copy(), behind)
            else:
                raise WireError
            # What is longer than any place may lead before it.
            if ((behind < place) | (behind > limit)).any():
                raise WireError
            yield Column(int(now) >> 3, which[mine], value)
            # Behind the last field of a message lies no tag of its own: it is dropped.
            tag[mine], at[mine] = self.varints(behind)
            done = behind == limit
            if done.any():
                left = np.ones(len(which), bool)
                left[mine] = ~done
                which, at, end, tag = which[left], at[left], end[left], tag[left]
        if len(which):
            raise WireError

    def repeated(self, number: int, *, may_be_cut: bool = False) -> Spans:
        """Return the messages of one field that the buffer begins with, one behind the other.

        `may_be_cut`: the buffer may end within the last one, which is left out.
        """
        data, length, tag = self.data, self.length, number << 3 | BYTES
        at, sizes_at = 0, array("q")
        while at < length and data[at] == tag:
            at += 1
            sizes_at.append(at)
            size = data[at]
            if size < 0x80:
                at += 1
            else:
                size, at = varint(data, at)
            at += size
        if at > length:
            if not may_be_cut:
                raise WireError
            sizes_at.pop()
        sizes, begin = self.varints(np.array(sizes_at, np.int64))
        return Spans(begin, begin + sizes)
