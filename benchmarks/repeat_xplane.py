"""Write a large profile of XLA: the events of a given one's lines, repeated.

What it promises: every event of every line as often as it takes to make the file so large, later from
copy to copy by the extent of them all; correlation ids repeat. Names and planes are there once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fixtures_xplane import item, varint

_LINES, _EVENTS, _OFFSET, _DURATION = 3, 4, 2, 3


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    # Number, value and bytes of each field.
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        value: int | bytes
        if tag & 7 == 0:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if tag & 7 == 2 else (8 if tag & 7 == 1 else 4, at)
            value, at = data[at : at + size], at + size
        yield tag >> 3, value, data[start:at]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def _later(event: bytes, by: int) -> bytes:
    offset, rest = 0, b""
    for number, value, whole in _fields(event):
        if number == _OFFSET and isinstance(value, int):
            offset = value - (value >> 63 << 64)
        else:
            rest += whole
    return rest + item(_OFFSET, offset + by)


def _end(event: bytes) -> int:
    values = {number: value for number, value, _ in _fields(event)}
    ends = (values.get(number, 0) for number in (_OFFSET, _DURATION))
    return sum(end for end in ends if isinstance(end, int) and end < 1 << 62)


def generate(path: Path, source: Path, size: int) -> None:
    """Write the profile."""
    planes = [(number, value, whole) for number, value, whole in _fields(source.read_bytes())]
    events = [
        event
        for number, plane, _ in planes if number == 1 and isinstance(plane, bytes)
        for part, line, _ in _fields(plane) if part == _LINES and isinstance(line, bytes)
        for what, event, _ in _fields(line) if what == _EVENTS and isinstance(event, bytes)
    ]  # fmt: skip
    extent = max(map(_end, events)) + 1
    copies = max(size // sum(len(event) + 8 for event in events), 2)
    with path.open("wb") as out:
        for number, plane, whole in planes:
            if number != 1 or not isinstance(plane, bytes):
                out.write(whole)
                continue
            parts = [
                item(_LINES, _repeated(part, copies, extent)) if which == _LINES else field
                for which, part, field in _fields(plane)
            ]
            out.write(varint(1 << 3 | 2) + varint(sum(map(len, parts))) + b"".join(parts))


def _repeated(line: int | bytes, copies: int, extent: int) -> bytes:
    assert isinstance(line, bytes)
    found = list(_fields(line))
    head = [whole for number, _, whole in found if number != _EVENTS]
    events = [value for number, value, _ in found if number == _EVENTS and isinstance(value, bytes)]
    later = (item(_EVENTS, _later(event, n * extent)) for n in range(copies) for event in events)
    return b"".join([*head, *later])
