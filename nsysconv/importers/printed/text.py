"""Text of a printed log: in UTF-8, in bounded pieces, in lines and cells, and lines that are rejected."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.store.filesystem import private_folder

# PowerShell redirects in UTF-16.
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_COPIED_CHARACTERS = 1 << 20
_CHUNK_BYTES = 1 << 20
_JSON_STARTS = (b'{"', b"{\n", b"[{", b"[\n")
# How Markdown marks what it quotes. No profiler prints it.
_FENCE = re.compile(rb"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_ROWS_OF_A_PROFILE = 2
_MOST_DIGITS = 18
UNREADABLE = "lines inside a table that are not table rows were left out"


# -- whole files


def encoding_of(head: bytes) -> str | None:
    """Return the encoding that a byte order mark names; None for UTF-8, with a mark or without."""
    return _UTF16.get(head[:2])


@contextmanager
def utf8_files(probes: Sequence[Probe]) -> Iterator[list[Path]]:
    """Yield a path to each file's text in UTF-8: its own, or a copy that is removed afterwards."""
    with private_folder() as folder:
        yield [_utf8_file(probe, folder / str(number)) for number, probe in enumerate(probes)]


def _utf8_file(probe: Probe, copy: Path) -> Path:
    encoding = encoding_of(probe.head)
    if encoding is None:
        return probe.readable
    with (
        probe.readable.open(encoding=encoding, errors="replace", newline="") as source,
        copy.open("w", encoding="utf-8", newline="") as target,
    ):
        source.read(1)  # the byte order mark
        while text := source.read(_COPIED_CHARACTERS):
            target.write(text)
    return copy


def text_chunks(probe: Probe, overlap: int) -> Iterator[bytes]:
    """Yield a text as UTF-8 in overlapping chunks; of binary files, JSON and UTF-16 only the head.

    A byte order mark is left out.
    """
    encoding = encoding_of(probe.head)
    if encoding is not None:
        # Its first kilobytes hold a banner or header, unless a program wrote more than that before.
        yield probe.head[2 : len(probe.head) // 2 * 2].decode(encoding, "replace").encode()
        return
    yield probe.head.removeprefix(codecs.BOM_UTF8)
    if b"\0" in probe.head or probe.head.lstrip()[:2] in _JSON_STARTS:
        return
    try:
        with probe.readable.open("rb") as file:
            tail = b""
            file.seek(len(codecs.BOM_UTF8) * probe.head.startswith(codecs.BOM_UTF8))
            while chunk := file.read(_CHUNK_BYTES):
                yield tail + chunk
                tail = chunk[-overlap:]
    except OSError:
        return


def refuse_quotations(probes: Sequence[Probe], rows: int) -> None:
    """Raise InputError for documents that quote a table: without a readable row, or with an example."""
    # A log may hold a single event, too; but then no Markdown is around it.
    is_quoted = not rows or any(_FENCE.search(probe.head) for probe in probes)
    if rows >= _ROWS_OF_A_PROFILE or not is_quoted:
        return
    content = "one row of it" if rows else "no row that can be read"
    raise InputError(
        f"the text quotes the header of a table, and holds {content}",
        where=str(probes[0].origin),
        hint="It is no profile. Import the file that the profiler wrote.",
    )


# -- lines


def csv_cells(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of one line of CSV, or None for other lines: quotes may not close."""
    if line.count('"') % 2:
        return None
    try:
        rows = list(csv.reader([line], delimiter=delimiter))
    except csv.Error:  # a lone carriage return, or a cell longer than the reader's limit
        return None
    return rows[0] if len(rows) == 1 else None


def parse_digits(text: str) -> int | None:
    """Return the number that digits spell; None for other text, and for more than a store can hold."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


@dataclass
class RejectedLines:
    """Lines that are not rows of the table around them: how many, the first, and the last."""

    count: int = 0
    first: int = 0
    last: int = 0

    def add(self, line: int) -> None:
        """Count a line; lines may come in any order."""
        self.count += 1
        self.first = min(self.first or line, line)
        self.last = max(self.last, line)

    def extend(self, later: RejectedLines) -> None:
        """Count lines that all come behind these."""
        if later.count:
            self.count += later.count
            self.first = self.first or later.first
            self.last = later.last

    def notes(self, unfinished: int | None) -> Iterator[Note]:
        """Yield notes on rejected lines; `unfinished` is the file's last line if no newline ends it."""
        count = self.count
        if count and self.last == unfinished:
            yield truncation_note(self.last)
            count -= 1
        if count:
            where = f"line {self.first}"
            yield Note("line-unreadable", Severity.DROPPED, UNREADABLE, count, where)


def line_notes(
    slug: str,
    severity: Severity,
    text: str,
    lines: Sequence[int],
    facts: frozenset[Fact] = frozenset(),
) -> Iterator[Note]:
    """Yield a note that counts these lines and names the first; none without lines."""
    if lines:
        yield Note(slug, severity, text, len(lines), f"line {lines[0]}", facts)


def unreadable_notes(lines: Sequence[int], facts: frozenset[Fact] = frozenset()) -> Iterator[Note]:
    """Yield the note on lines inside a table that are not rows of it."""
    yield from line_notes("line-unreadable", Severity.DROPPED, UNREADABLE, lines, facts)


def truncation_note(line: int) -> Note:
    """Return the note on a file that ends in the middle of a row."""
    text = f"the file ends in the middle of a row, in line {line:,}"
    return Note("trace-truncated", Severity.DROPPED, text, 1, f"line {line}")
