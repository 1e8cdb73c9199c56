"""A log as UTF-8: what PowerShell redirects is UTF-16."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nsysconv.errors import InputError
from nsysconv.importers.probe import Probe
from nsysconv.store.private import private_folder

_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CHARACTERS = 1 << 20
_CHUNK_BYTES = 1 << 20
_JSON = (b'{"', b"{\n", b"[{", b"[\n")


def encoding_of(head: bytes) -> str | None:
    """The encoding that a file's mark names; None for UTF-8, marked or not."""
    return _MARKS.get(head[:2])


@contextmanager
def utf8_files(probes: Sequence[Probe]) -> Iterator[list[Path]]:
    """Where the text of each file stands in UTF-8: in itself, or in a copy that is removed afterwards."""
    with private_folder() as folder:
        yield [as_utf8(probe, folder / str(place)) for place, probe in enumerate(probes)]


def as_utf8(probe: Probe, copy: Path) -> Path:
    """The file itself, or a copy in UTF-8."""
    encoding = encoding_of(probe.head)
    if encoding is None:
        return probe.readable
    with (
        probe.readable.open(encoding=encoding, errors="replace", newline="") as source,
        copy.open("w", encoding="utf-8", newline="") as target,
    ):
        source.read(1)  # the mark
        while text := source.read(_CHARACTERS):
            target.write(text)
    return copy


def text_chunks(probe: Probe, overlap: int) -> Iterator[bytes]:
    """The text in UTF-8, in pieces that overlap; of what is no log for sure, only its beginning."""
    encoding = encoding_of(probe.head)
    if encoding is not None:
        # Its first kilobytes hold a banner or header, unless a program wrote more than that before.
        yield probe.head[: len(probe.head) // 2 * 2].decode(encoding, "replace").encode()
        return
    yield probe.head
    if b"\0" in probe.head or probe.head.lstrip()[:2] in _JSON:
        return
    try:
        with probe.readable.open("rb") as file:
            rest = b""
            while chunk := file.read(_CHUNK_BYTES):
                yield rest + chunk
                rest = chunk[-overlap:]
    except OSError:
        return


_PIECE_BYTES = 8 << 20


@dataclass
class RowSpan:
    """Rows of a trace: bytes from `start` to `end`, the first in this line."""

    start: int
    end: int
    line: int


@dataclass
class RejectedLines:
    """Lines that are no rows of the trace they stand in: how many, the first, and the last."""

    count: int = 0
    first: int = 0
    last: int = 0

    def add(self, line: int) -> None:
        """One more."""
        self.count += 1
        self.first = min(self.first or line, line)
        self.last = max(self.last, line)

    def take(self, others: RejectedLines) -> None:
        """Those that others are, which come behind these."""
        if others.count:
            self.count += others.count
            self.first = self.first or others.first
            self.last = others.last


def csv_cells(line: str, delimiter: str) -> list[str] | None:
    """The cells of one line of CSV; None where it is none, such as when its quotes do not close."""
    if line.count('"') % 2:
        return None
    try:
        found = list(csv.reader([line], delimiter=delimiter))
    except csv.Error:  # a lone carriage return, or a cell longer than any
        return None
    return found[0] if len(found) == 1 else None


def span_chunks(path: Path, spans: Iterable[RowSpan]) -> Iterator[tuple[bytes, int, int]]:
    """Whole lines of these spans in pieces of bounded size, with the byte and the line of each."""
    with path.open("rb") as file:
        for span in spans:
            file.seek(span.start)
            place, line = span.start, span.line
            while place < span.end:
                data = file.read(min(_PIECE_BYTES, span.end - place))
                if place + len(data) < span.end:
                    data += file.readline()
                if not data:
                    return
                yield data, place, line
                place, line = place + len(data), line + data.count(b"\n")


# How Markdown marks what it quotes. No profiler prints it.
_FENCE = re.compile(rb"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_FEW = 2


def refuse_quotations(probes: Sequence[Probe], rows: int) -> None:
    """Raises InputError for texts of whose tables no row could be read, or one in a document.

    A log may tell of a single event; but then the text around it is not marked up.
    """
    if rows >= _FEW or (rows and not any(_FENCE.search(probe.head) for probe in probes)):
        return
    only = "one row of it" if rows else "no row that can be read"
    raise InputError(
        f"the text quotes the header of a table, and holds {only}",
        where=str(probes[0].origin),
        hint="It is no profile. Import the file that the profiler wrote.",
    )
