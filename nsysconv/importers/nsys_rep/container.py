"""A report's sections, and the blocks of events and strings in them (docs/formats/nsys-rep.md)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from nsysconv.errors import InputError
from nsysconv.importers.wire import PADDING, WireError, messages, numbers, text, varint

_FOOTER = b"U3w[END]"
_TAIL_BYTES = 16
_MAGIC = b"QDTEXT00"
EVENTS_SECTION, OFFSETS_SECTION = "Raw Sampling Data", "Sampling Data Offsets"
CLOCKS_SECTION = "Time Conversion Data"
# The build of newer reports has the form `2024@5@1@113-…`.
_BUILD = re.compile(rb"^[ -~]{0,64} (\d{4}(?:@\d+){2,3})[-v]")
# No block or message is larger, whatever the file says: those of events, and the head, have 1 or 2 MB.
_LARGEST_BYTES = 32 << 20
# LZ4 makes 255 times less of what it packs at best.
_BEST_PACKING = 255
_SIZES_BYTES = 20


class DamagedReportError(InputError):
    """A report that is cut off, or holds what none can."""


class Container:
    """The sections of an open report; of each only what is asked for is read."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        """Read the table of contents. Raises InputError where the file is cut off or damaged."""
        self._file, self._path = file, path
        self.size = os.fstat(file.fileno()).st_size
        header = self._read(0, min(self.size, 256))
        match = _BUILD.match(header)
        self.build = match.group(1).decode().replace("@", ".") if match else ""
        """The build that made it, `2024.5.1.113`; "" in old ones, whose header does not say."""
        tail = self._read(max(0, self.size - _TAIL_BYTES), min(self.size, _TAIL_BYTES))
        if len(tail) < _TAIL_BYTES or not tail.endswith(_FOOTER):
            raise self.damaged("the report is cut off: its last bytes are missing")
        contents = int.from_bytes(tail[:8], "little")
        with self.reading("table of contents"):
            if contents > self.size - _TAIL_BYTES:
                raise WireError
            table = self._read(contents, self.size - _TAIL_BYTES - contents)
            self._sections = dict(map(self._section, messages(table, 1)))

    def _section(self, entry: memoryview) -> tuple[str, tuple[int, int]]:
        place = numbers(entry)
        offset, size = place.get(2, 0), place.get(3, 0)
        if offset < 0 or not 0 <= size <= self.size - offset:
            raise WireError
        return text(entry, 1) or "", (offset, size)

    def _read(self, offset: int, size: int) -> bytes:
        if size > _LARGEST_BYTES:
            raise WireError
        self._file.seek(offset)
        return self._file.read(size)

    def damaged(self, what: str) -> DamagedReportError:
        """Return the error that says so; it repeats no bytes of the file."""
        by_hand = shlex.join(["nsys", "export", "--type", "sqlite", str(self._path)])
        hint = (
            "Copy it again; if that is how the profiler left it, the recording did not end well.\n"
            f"If nsys opens it, read its export instead: {by_hand}"
        )
        return DamagedReportError(what, where=str(self._path), hint=hint)

    @contextmanager
    def reading(self, part: str) -> Iterator[None]:
        """Raise the error for damage of this part where the block meets what cannot be read."""
        try:
            yield
        except WireError:
            raise self.damaged(f"the report is damaged: {part}") from None

    def section(self, name: str) -> bytes:
        """Return a whole section; nothing where there is none."""
        with self.reading(name):
            return self._read(*self._sections.get(name, (0, 0)))

    def recording(self) -> Recorded:
        """Return the section with the events. Raises InputError where there is none."""
        if EVENTS_SECTION not in self._sections:
            raise self.damaged("the report has no events: a section is missing")
        return Recorded(self, *self._sections[EVENTS_SECTION])


class Recorded:
    """The section with events and strings, read from its beginning to its end, once."""

    def __init__(self, container: Container, offset: int, size: int) -> None:
        """Read the head and the counts."""
        self._container = container
        self.at, self._end = offset, offset + size
        self._codec = pa.Codec("lz4_raw")
        with container.reading("the beginning of its events"):
            if self._take(len(_MAGIC)) != _MAGIC:
                raise WireError
            self.head = self._message()
            counts = self._message()
            said = numbers(counts)
            # What the report says that it holds.
            self.events, self.strings, self.thread_names = (said.get(n, 0) for n in (1, 3, 5))
            if text(counts, 9) not in (None, "lz4"):
                raise WireError
            self._begin = offset + len(_MAGIC)

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= self._end - self.at:
            raise WireError
        data = self._container._read(self.at, size)
        if len(data) < size:
            raise WireError
        self.at += size
        return data

    def _varint(self) -> int:
        data = self._container._read(self.at, min(_SIZES_BYTES, self._end - self.at))
        value, behind = varint(data, 0)
        self.at += behind
        return value

    def _message(self) -> bytes:
        return self._take(self._varint())

    def blocks(self, part: str) -> Iterator[bytes]:
        """Yield unpacked blocks, each its one message with PADDING behind it, until it is closed."""
        while True:
            with self._container.reading(part):
                packed_size, raw_size = self._varint(), self._varint()
                if raw_size > min(_LARGEST_BYTES, _BEST_PACKING * packed_size + 64):
                    raise WireError
                packed = self._take(packed_size)
                try:
                    raw = self._codec.decompress(packed, raw_size, asbytes=True)
                except (OSError, pa.ArrowException):  # what pyarrow says of bytes that are not LZ4
                    raise WireError from None
                length, begin = varint(raw, 0)
                if length != len(raw) - begin:
                    raise WireError
            yield raw[begin:] + PADDING

    def last_messages(self) -> tuple[bytes, bytes]:
        """Return the names of threads and the targets, which follow the strings."""
        with self._container.reading("names of threads and targets"):
            return self._message(), self._message()

    @property
    def rest(self) -> int:
        """Return how many bytes of the section have not been read."""
        return self._end - self.at

    def require_strings_here(self) -> None:
        """Raise InputError where the report says that its strings begin at another place."""
        with self._container.reading("where its strings begin"):
            said = numbers(self._container.section(OFFSETS_SECTION)).get(2)
            if said is not None and self.at != self._begin + said:
                raise WireError
