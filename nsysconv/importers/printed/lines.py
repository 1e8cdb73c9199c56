"""Lines of printed tables: the cells of one, and those of traces piece by piece."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PIECE_BYTES = 8 << 20


@dataclass
class Span:
    """Rows of a trace: bytes from `start` to `end`, the first in this line."""

    start: int
    end: int
    line: int


@dataclass
class Refused:
    """Lines that are no rows of the trace they stand in: how many, the first, and the last."""

    count: int = 0
    first: int = 0
    last: int = 0

    def add(self, line: int) -> None:
        """One more."""
        self.count += 1
        self.first = min(self.first or line, line)
        self.last = max(self.last, line)

    def take(self, others: Refused) -> None:
        """Those that others are, which come behind these."""
        if others.count:
            self.count += others.count
            self.first = self.first or others.first
            self.last = others.last


def cells(line: str, delimiter: str) -> list[str] | None:
    """The cells of one line of CSV; None where it is none, such as when its quotes do not close."""
    if line.count('"') % 2:
        return None
    try:
        found = list(csv.reader([line], delimiter=delimiter))
    except csv.Error:  # a lone carriage return, or a cell longer than any
        return None
    return found[0] if len(found) == 1 else None


def pieces(path: Path, spans: Iterable[Span]) -> Iterator[tuple[bytes, int, int]]:
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
