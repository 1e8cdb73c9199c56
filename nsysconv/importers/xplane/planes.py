"""The planes of an XSpace: where their parts lie in the file, and what events and stats are called.

Nothing is copied but names and some events at once: a plane may be larger than the memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from mmap import mmap
from typing import NamedTuple

import numpy as np

from nsysconv.errors import InputError
from nsysconv.importers.wire import (
    BYTES,
    FIXED_BYTES,
    PADDING,
    VARINT,
    Array,
    Buffer,
    Spans,
    WireError,
    fields,
    varint,
)

Span = tuple[int, int]
Value = int | float | str | None


class Field(NamedTuple):
    """A field: its number, the value of a number, else None and where it lies in the file."""

    number: int
    value: int | None
    span: Span


class Window(NamedTuple):
    """Events at once: the bytes that they lie in, where in these, and where these begin in the file."""

    buffer: Buffer
    events: Spans
    at: int


EVENT = 4
"""The field of a line that holds its events."""
_PLANE, _ERRORS, _WARNINGS, _HOSTS = 1, 2, 3, 4
_HEAD_BYTES = 1 << 16
WINDOW_BYTES = 4 << 20
# A metadata entry of more bytes holds a program, and no name.
_LONGEST_ENTRY = 1 << 20
_LONGEST_NUMBER = 10
_REPLACED = "\ufffd".encode()


@dataclass
class Line:
    """A line of a plane: its `span` in the file, its head, and where its events begin."""

    span: Span
    id: int = 0
    name: str = ""
    start_ns: int = 0
    events_at: int = 0


@dataclass
class Plane:
    """A plane: where its lines, the entries of its two maps, and its own stats lie."""

    name: str = ""
    lines: list[Span] = field(default_factory=list)
    event_entries: list[Span] = field(default_factory=list)
    stat_entries: list[Span] = field(default_factory=list)
    stats: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class Names:
    """The names of a plane's events in the order of their `ids`, and the stats that these share."""

    ids: Array
    texts: list[str]
    stats: list[dict[str, Value]]

    def places(self, ids: Array) -> Array:
        """Return the places of events' ids among the names; -1 where an id has no entry."""
        if not len(self.ids):
            return np.full(len(ids), -1)
        place = np.searchsorted(self.ids, ids).clip(max=len(self.ids) - 1)
        return np.where(self.ids[place] == ids, place, -1)


class Space:
    """A file in memory, as far as it is looked at: the planes in it, and what it says beside them."""

    def __init__(self, data: mmap, where: str) -> None:
        """Find the planes. Raises InputError where the file is damaged."""
        self._data, self.size, self.where = data, len(data), where
        self.hosts: list[str] = []
        self.messages = 0
        self.planes: list[Plane] = []
        for number, value, span in self.fields((0, self.size)):
            if value is None and number == _PLANE:
                self.planes.append(self._plane(span))
            elif value is None and number == _HOSTS:
                self.hosts.append(self.text(span))
            self.messages += number in (_ERRORS, _WARNINGS)

    def damage(self, at: int) -> InputError:
        """Return the error for bytes that are not protobuf."""
        return InputError(
            f"not valid protobuf at byte {at:,}: damaged, or copied as text",
            where=self.where,
            hint="Copy it again, in binary mode; nothing was imported.",
        )

    def text(self, span: Span) -> str:
        """Return a text; bytes that are not UTF-8 are replaced."""
        return self._data[slice(*span)].decode("utf-8", "replace")

    def _field(self, at: int, end: int) -> Field:
        value = None
        try:
            tag, begin = varint(self._data, at)
            length = FIXED_BYTES.get(tag & 7, 0)
            if tag & 7 == VARINT:
                value, begin = varint(self._data, begin)
                value -= value >> 63 << 64
            elif tag & 7 == BYTES:
                length, begin = varint(self._data, begin)
            elif tag & 7 not in FIXED_BYTES:
                raise WireError
        except WireError:
            if at + 2 * _LONGEST_NUMBER > self.size == end:
                raise self._cut_off(1) from None
            raise self.damage(at) from None
        if begin + length > end or tag >> 3 == 0:
            if begin + length > self.size and tag >> 3:
                raise self._cut_off(begin + length - self.size)
            raise self.damage(at)
        return Field(tag >> 3, value, (begin, begin + length))

    def _cut_off(self, missing: int) -> InputError:
        if (at := self._data.find(_REPLACED, 0, _HEAD_BYTES)) >= 0:
            return self.damage(at)
        return InputError(
            f"the file is cut off: {missing:,} bytes or more are missing",
            where=self.where,
            hint="Names are in them: nothing was imported. Copy or record the file again.",
        )

    def fields(self, span: Span) -> Iterator[Field]:
        """Yield the fields of a message."""
        at, end = span
        while at < end:
            found = self._field(at, end)
            yield found
            at = found.span[1]

    def _plane(self, span: Span) -> Plane:
        plane = Plane()
        parts = {
            3: plane.lines,
            4: plane.event_entries,
            5: plane.stat_entries,
            6: plane.stats,
        }
        for number, value, inner in self.fields(span):
            if value is None and number == 2:
                plane.name = self.text(inner)
            elif value is None and number in parts:
                parts[number].append(inner)
        return plane

    # -- lines

    def line(self, span: Span) -> Line:
        """Return a line with its head, which is before its events."""
        line, at = Line(span), span[0]
        for number, value, inner in self.fields(span):
            if number == EVENT:
                line.events_at = at
                break
            if number == 1 and value is not None:
                line.id = value
            elif number == 2 and value is None:
                line.name = self.text(inner)
            elif number == 3 and value is not None:
                line.start_ns = value
            at = inner[1]
        return line

    def windows(self, line: Line) -> Iterator[Window]:
        """Yield the events of a line, many at once."""
        at, (_, end) = line.events_at or line.span[1], line.span
        while at < end:
            found = self._field(at, end)
            if found.number > EVENT:  # what is behind the events says nothing more
                at = found.span[1]
                continue
            if found.number < EVENT:  # writers put the head first
                raise self.damage(at)
            size = max(WINDOW_BYTES, found.span[1] - at)
            buffer = Buffer(self._data[at : min(end, at + size)] + PADDING)
            try:
                events = buffer.repeated(EVENT, may_be_cut=at + size < end)
            except WireError:
                raise self.damage(at) from None
            if not len(events):  # spelled otherwise than writers do
                raise self.damage(at)
            yield Window(buffer, events, at)
            at += int(events.end[-1])

    # -- names and stats

    def stat_names(self, plane: Plane) -> dict[int, str]:
        """Return the names of a plane's stats, which texts refer to, too."""
        names = {}
        for span in plane.stat_entries:
            for key, entry in self._entry(span):
                names[key] = next((_text(value) for n, value in entry if n == 2), "")
        return names

    def names(self, plane: Plane, stat_names: dict[int, str]) -> Names:
        """Return the names of a plane's events, with the stats that all events of a name share."""
        found: dict[int, tuple[str, dict[str, Value]]] = {}
        for span in plane.event_entries:
            for key, entry in self._entry(span):
                text, stats = "", dict[str, Value]()
                for number, value in entry:
                    if number == 2:
                        text = _text(value)
                    elif number == 5 and isinstance(value, memoryview):
                        stats.update([self._stat(value, stat_names, span)])
                found[key] = text, stats
        ids = sorted(found)
        return Names(
            np.array(ids, np.int64), [found[i][0] for i in ids], [found[i][1] for i in ids]
        )

    def plane_stats(self, plane: Plane, stat_names: dict[int, str]) -> dict[str, Value]:
        """Return the stats of a plane by name; long ones, which hold programs, are null."""
        return dict(
            self._stat(memoryview(self._data[slice(*span)]), stat_names, span)
            for span in plane.stats
            if span[1] - span[0] < _LONGEST_ENTRY
        )

    def _entry(self, span: Span) -> Iterator[tuple[int, list[tuple[int, int | memoryview]]]]:
        # An entry of a map is a key and a message; the fields of that are the result.
        if span[1] - span[0] > _LONGEST_ENTRY:
            return
        try:
            parts = dict(fields(self._data[slice(*span)]))
            message, key = parts.get(2, b""), parts.get(1, 0)
            entry = [] if isinstance(message, int) else list(fields(message))
        except WireError:
            raise self.damage(span[0]) from None
        if isinstance(key, int):
            yield key, entry

    def _stat(self, data: memoryview, stat_names: dict[int, str], span: Span) -> tuple[str, Value]:
        name = ""
        result: Value = None
        try:
            for number, value in fields(data):
                if number == 1 and isinstance(value, int):
                    name = stat_names.get(value, "")
                elif number == 7 and isinstance(value, int):
                    result = stat_names.get(value)
                elif isinstance(value, int):
                    result = value
                elif number == 5:
                    result = _text(value)
                elif number == 2 and len(value) == 8:
                    (result,) = struct.unpack("<d", value)
        except WireError:
            raise self.damage(span[0]) from None
        return name, result


def _text(value: int | memoryview) -> str:
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")
