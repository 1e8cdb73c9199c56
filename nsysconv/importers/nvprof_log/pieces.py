"""Traces piece by piece: read, cut into cells in the background, and what is no row told."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from nsysconv.importers.nvprof_log.cells import Cells, Spelling, is_row, row_of
from nsysconv.importers.nvprof_log.survey import Block, Span
from nsysconv.importers.probe import Probe

_PIECE_BYTES = 8 << 20
_PIECES_AHEAD = 3

_Place = tuple[int, int]
"""Where a line stands: the byte where its piece of the file begins, and how many lines before it."""


@dataclass
class Refused:
    """Lines that are no rows of the trace they stand in: how many, the first, and the last."""

    places: list[_Place] = field(default_factory=list)
    count: int = 0

    def add(self, place: _Place) -> None:
        """One more."""
        self.count += 1
        self.places = [min([*self.places, place]), max([*self.places, place])]


@dataclass
class Reader:
    """Reads the rows of one trace, a few pieces ahead in the background of the probe.

    `refused` is complete once all rows are read.
    """

    probe: Probe
    path: Path
    block: Block
    refused: Refused = field(default_factory=Refused)

    def cells(self) -> Iterator[tuple[Cells, int]]:
        """Rows, and how far they are read in bytes."""
        rows = Spelling(self.block)
        ahead: deque[tuple[Future[list[Cells]], int]] = deque()
        for data, start in pieces(self.path, self.block.spans):
            rows.learn_steps(data)
            if len(ahead) == _PIECES_AHEAD and not ahead[0][0].done():
                # Rather than wait.
                made: Future[list[Cells]] = Future()
                made.set_result(self._piece(rows, data, start))
            else:
                made = self.probe.beside(self._piece, rows, data, start)
            ahead.append((made, start + len(data)))
            if len(ahead) > _PIECES_AHEAD:
                yield from _of_piece(*ahead.popleft())
        while ahead:
            yield from _of_piece(*ahead.popleft())

    def _piece(self, rows: Spelling, data: bytes, start: int) -> list[Cells]:
        data, found, odd = _as_utf8(data), [], list[str]()
        many = rows.many(data, odd) if self.block.header.delimiter else None
        lines: Iterable[tuple[int, str]]
        if many is None:
            lines = enumerate(data.decode().split("\n"))
        else:
            found.append(many)
            lines = _found_again(odd, data)
        cut = self._cut(((start, number), line) for number, line in lines)
        return [*found, rows.one_by_one(cut)]

    def _cut(self, lines: Iterable[tuple[_Place, str]]) -> Iterator[dict[str, str]]:
        """Rows, cell by cell; lines that are none are refused."""
        for place, line in lines:
            if not line.strip():
                continue
            row = row_of(line.rstrip("\r"), self.block.header)
            if row is None or not is_row(row, self.block):
                self.refused.add(place)
            else:
                yield row

    def refused_lines(self) -> tuple[int, int]:
        """The numbers of the first and the last line that were refused."""
        first, last = (self._line_at(*place) for place in self.refused.places)
        return first, last

    def _line_at(self, start: int, before: int) -> int:
        span = next(span for span in self.block.spans if span.start <= start < span.end)
        line = span.line + before
        for data, place in pieces(self.path, [span]):
            if place >= start:
                break
            line += data.count(b"\n")
        return line


def _as_utf8(data: bytes) -> bytes:
    """The same bytes, those that are no UTF-8 replaced."""
    if data.isascii():
        return data
    return data.decode("utf-8", "replace").encode()


def _found_again(lines: Iterable[str], data: bytes) -> Iterator[tuple[int, str]]:
    """Lines that stand in this order in a piece, and how many there are before each."""
    place = number = 0
    for line in lines:
        found = data.find(line.encode(), place)
        number += data.count(b"\n", place, found) if found >= 0 else 0
        place = max(place, found)
        yield number, line


def _of_piece(made: Future[list[Cells]], end: int) -> Iterator[tuple[Cells, int]]:
    return ((cells, end) for cells in made.result() if cells.count)


def pieces(path: Path, spans: Iterable[Span]) -> Iterator[tuple[bytes, int]]:
    """Whole lines of these spans in pieces of bounded size, and where each begins."""
    with path.open("rb") as file:
        for span in spans:
            file.seek(span.start)
            place = span.start
            while place < span.end:
                data = file.read(min(_PIECE_BYTES, span.end - place))
                if place + len(data) < span.end:
                    data += file.readline()
                if not data:
                    return
                yield data, place
                place += len(data)
