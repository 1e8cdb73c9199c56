"""The bytes of Nsight Systems' reports (`.nsys-rep`): messages, packed blocks, sections, contents.

Integers and messages are as in Protocol Buffers; nothing of NVIDIA's was used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

SAMPLES, OFFSETS = "Raw Sampling Data", "Sampling Data Offsets"
MAGIC = b"QDTEXT00"
END = b"U3w[END]"
TITLE = b"NVIDIA Tegra Profiler Report "
COUNT_OF_EVENTS, COUNT_OF_STRINGS, COUNT_OF_THREADS, COUNT_OF_LAYOUTS = 1, 3, 5, 17
"""Fields of the message of counts."""

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
MASK = (1 << 64) - 1
_LZ4 = pa.Codec("lz4_raw")


# -- writing


def varint(value: int) -> bytes:
    """Return a number, a negative one as 64-bit two's complement."""
    value &= MASK
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | float | bytes | str) -> bytes:
    """Return a field with its key."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | EIGHT) + struct.pack("<d", value)
    return varint(number << 3 | BYTES) + sized(value.encode() if isinstance(value, str) else value)


def as_read(number: int, kind: int, value: Any) -> bytes:
    """Return a field as `read_fields` yields it."""
    content = varint(value) if kind == VARINT else sized(value) if kind == BYTES else value
    return varint(number << 3 | kind) + bytes(content)


def sized(content: bytes) -> bytes:
    """Return the content behind its length."""
    return varint(len(content)) + content


def packed(raw: bytes) -> bytes:
    """Return the bytes as an LZ4 block without sizes."""
    return bytes(_LZ4.compress(raw).to_pybytes())


# -- reading, of reports that are whole


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number there and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def read_fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of each field of a message. Raises ValueError for another."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, end = read_varint(data, at)
            yield key >> 3, kind, value
        elif kind in (EIGHT, BYTES, FOUR):
            length, at = read_varint(data, at) if kind == BYTES else (8 if kind == EIGHT else 4, at)
            end = at + length
            if end > len(data):
                raise ValueError("a field is longer than its message")
            yield key >> 3, kind, data[at:end]
        else:
            raise ValueError(f"there is no wire type {kind}")
        at = end


def read_sized(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the bytes behind the length there, and where they end."""
    length, at = read_varint(data, at)
    if at + length > len(data):
        raise ValueError("a message is longer than its section")
    return data[at : at + length], at + length


def numbers(message: bytes) -> dict[int, int]:
    """Return the last value of each field that is a varint."""
    return {number: value for number, kind, value in read_fields(message) if kind == VARINT}


# -- a report in parts


@dataclass
class Block:
    """A block, unpacked. `packed` and `size`: what is written in place of what follows from `raw`."""

    raw: bytes
    packed: bytes | None = None
    size: int | None = None

    @classmethod
    def of(cls, content: bytes) -> Block:
        """Return a block whose only message is the content."""
        return cls(sized(content))

    @classmethod
    def read(cls, data: bytes, at: int, most: int = 1 << 28) -> tuple[Block, int]:
        """Return the block there and where it ends. Raises ValueError if it is damaged or too large."""
        length, at = read_varint(data, at)
        size, at = read_varint(data, at)
        if size > most or at + length > len(data):
            raise ValueError("a block is too large")
        try:
            return cls(bytes(_LZ4.decompress(data[at : at + length], size).to_pybytes())), at + length
        except OSError as error:
            raise ValueError("a block cannot be unpacked") from error

    @property
    def content(self) -> bytes:
        """Return its message."""
        return read_sized(self.raw, 0)[0]

    def fields(self, number: int) -> list[bytes]:
        """Return the values of the message's fields of that number."""
        return [value for found, _, value in read_fields(self.content) if found == number]

    def written(self) -> bytes:
        """Return it as it is in a file."""
        inside = packed(self.raw) if self.packed is None else self.packed
        return varint(len(inside)) + varint(len(self.raw) if self.size is None else self.size) + inside


@dataclass
class Samples:
    """The section of events and strings. `rest` is behind the targets: layouts of payloads, if any."""

    head: bytes
    counts: bytes
    events: list[Block]
    strings: list[Block]
    threads: bytes
    targets: bytes
    rest: bytes = b""

    @classmethod
    def read(cls, data: bytes) -> Samples:
        """Take a section apart."""
        head, at = read_sized(data, len(MAGIC))
        counts, at = read_sized(data, at)
        blocks: dict[int, list[Block]] = {COUNT_OF_EVENTS: [], COUNT_OF_STRINGS: []}
        for kind, found in blocks.items():
            left = numbers(counts).get(kind, 0)
            while left > 0:
                block, at = Block.read(data, at)
                found.append(block)
                left -= len(block.fields(1))
        threads, at = read_sized(data, at)
        targets, at = read_sized(data, at)
        events, strings = blocks.values()
        return cls(head, counts, events, strings, threads, targets, data[at:])

    def pieces(self) -> list[bytes]:
        """Return what it is made of, as in a file, in order."""
        blocks = [block.written() for block in (*self.events, *self.strings)]
        messages = [sized(self.head), sized(self.counts)]
        return [MAGIC, *messages, *blocks, sized(self.threads), sized(self.targets), self.rest]

    def strings_at(self) -> int:
        """Return where the strings begin, counted from behind the magic."""
        return sum(map(len, self.pieces()[1 : 3 + len(self.events)]))


@dataclass
class Report:
    """A report: its title, its sections by name, and what else is in its table of contents."""

    title: bytes
    sections: dict[str, bytes]
    entries: tuple[bytes, ...] = ()

    @classmethod
    def read(cls, data: bytes) -> Report:
        """Take a file apart. Raises ValueError or IndexError where it is damaged."""
        if data[-len(END) :] != END:
            raise ValueError("there is no footer")
        (contents,) = struct.unpack_from("<Q", data, len(data) - 16)
        sections, first = {}, contents
        for _, _, entry in read_fields(data[contents:-16]):
            found = {number: value for number, _, value in read_fields(entry)}
            begin = found.get(2, 0)
            sections[found[1].decode()] = data[begin : begin + found.get(3, 0)]
            first = min(first, begin)
        return cls(data[:first], sections)

    def samples(self) -> Samples:
        """Take its events and strings apart."""
        return Samples.read(self.sections[SAMPLES])

    def with_samples(self, samples: Samples) -> Report:
        """Return the report with other events and strings."""
        offsets = field(1, "lz4") + field(2, samples.strings_at())
        own = {SAMPLES: b"".join(samples.pieces()), OFFSETS: offsets}
        return Report(self.title, {**self.sections, **own})

    def written(self) -> bytes:
        """Return the file."""
        out, entries = [self.title], list(self.entries)
        at = len(self.title)
        for name, content in self.sections.items():
            entries.append(field(1, name) + field(2, at) + field(3, len(content)))
            out.append(content)
            at += len(content)
        return b"".join((*out, footed(entries, at)))


def footed(entries: Iterable[bytes], at: int) -> bytes:
    """Return a table of contents that begins at this place, and the footer."""
    return b"".join(field(1, entry) for entry in entries) + struct.pack("<Q", at) + END
