"""Traces piece by piece: read, cut into cells in the background, and what is no row told."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from nsysconv.importers.nvprof_log.cells import Cells, Spelling, is_row, row_of
from nsysconv.importers.nvprof_log.survey import Block
from nsysconv.importers.printed.lines import Refused, Span
from nsysconv.importers.probe import Probe

_PIECES_AHEAD = 3
_SAMPLE_BYTES = 1 << 20


@dataclass
class Reader:
    """Reads the rows of one trace, a few pieces ahead in the background of the probe.

    `refused` and `unitless`, how many times have no unit, are complete once all rows are read.
    """

    probe: Probe
    path: Path
    block: Block
    refused: Refused = field(default_factory=Refused)
    unitless: int = 0

    def cells(self) -> Iterator[tuple[Cells, int]]:
        """Rows, and how far they are read in bytes."""
        rows = Spelling(self.block)
        ahead: deque[tuple[Future[list[Cells]], int]] = deque()
        for span in self.block.spans:
            if rows.has_to_learn:
                rows.learn_steps(self._text(span, _SAMPLE_BYTES))
            if len(ahead) == _PIECES_AHEAD and not ahead[0][0].done():
                # Rather than wait.
                made: Future[list[Cells]] = Future()
                made.set_result(self._piece(rows, span))
            else:
                made = self.probe.submit(self._piece, rows, span)
            ahead.append((made, span.end))
            if len(ahead) > _PIECES_AHEAD:
                yield from _of_piece(*ahead.popleft())
        while ahead:
            yield from _of_piece(*ahead.popleft())

    def _text(self, span: Span, most: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(span.start)
            return file.read(min(most, span.end - span.start))

    def _piece(self, rows: Spelling, span: Span) -> list[Cells]:
        data, found, odd = _as_utf8(self._text(span, span.end)), [], list[str]()
        many = rows.many(data, odd) if self.block.header.delimiter else None
        lines: Iterable[tuple[int, str]]
        if many is None:
            lines = enumerate(data.decode().split("\n"))
        else:
            found.append(many)
            lines = _found_again(odd, data)
        cut = self._cut((span.line + before, line) for before, line in lines)
        return [*found, rows.one_by_one(cut)]

    def _cut(self, lines: Iterable[tuple[int, str]]) -> Iterator[dict[str, str]]:
        """Rows, cell by cell; lines that are none are refused."""
        no_units = bool(self.block.header.delimiter) and not self.block.units
        for number, line in lines:
            if not line.strip():
                continue
            row = row_of(line.rstrip("\r"), self.block.header)
            if row is None or not is_row(row, self.block):
                self.refused.add(number)
            else:
                self.unitless += no_units and not row["Start"][-1:].isalpha()
                yield row


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
