"""Tables of CSV under one header: rows by column, many at once, and lines that were left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.importers.printed.lines import LogLines
from nsysconv.importers.printed.text import (
    UNREADABLE,
    RejectedLines,
    csv_cells,
    encoding_of,
    truncation_note,
)
from nsysconv.importers.sqlite_columns import in_lists
from nsysconv.notes import Note, Severity

# Columns of texts. rocprofv3 writes a quote within them as it is.
_TEXTS = frozenset({"kernel_name", "kernelname", "function", "name"})
_PLAIN_CELL = re.compile(r'"?[^",]*"?')


def header_of(head: bytes) -> tuple[str, ...]:
    """Return the names of columns with which a text begins; its first line may hold anything."""
    text = head.decode(encoding_of(head) or "utf-8", "replace").lstrip("\ufeff \t\r\n")
    line = text.partition("\n")[0].rstrip("\r")
    return tuple(cell.strip() for cell in csv_cells(line, ",") or ())


@dataclass(frozen=True)
class Cells:
    """Hold rows of a table by column, named in lower case; cells of an absent column are None."""

    line: np.ndarray
    columns: Mapping[str, Sequence[str]]

    def __getitem__(self, name: str) -> Sequence[Any]:
        """Return the cells of a column, None for empty ones."""
        cells = self.columns.get(name)
        if cells is None:
            return [None] * len(self.line)
        return [cell.strip() or None for cell in cells]


@dataclass
class CsvTable:
    """Read a file with columns of these names; keep which lines the last reading left out.

    `needless`: columns that a file may end within; None: any that it seems to have whole.
    """

    path: Path
    names: tuple[str, ...]
    needless: frozenset[str] | None = None
    rejected: RejectedLines = field(default_factory=RejectedLines)
    cut_line: int = 0

    def __post_init__(self) -> None:
        """Name the columns in lower case, too."""
        self.columns = tuple(name.lower() for name in self.names)
        self._text_at = next((i for i, name in enumerate(self.columns) if name in _TEXTS), None)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each row; the header may come again, where files were put together."""
        self.rejected, self.cut_line = RejectedLines(), 0
        lines, is_started = LogLines(self.path), False
        for data in lines:
            text = data.decode("utf-8", "replace").strip("\ufeff\r\n")
            if not text.strip():
                continue
            cells = self._cells(text)
            if cells and cells[0].strip() == self.names[0] and self._is_header(cells):
                is_started = True
            elif not is_started:
                continue
            elif not data.endswith(b"\n") and (cells is None or not self._may_end_here):
                self.cut_line = lines.line
            elif cells is None:
                self.rejected.add(lines.line)
            else:
                yield lines.line, cells

    def batches(self) -> Iterator[Cells]:
        """Yield the rows by column, in batches of bounded size."""
        for rows in in_lists(self.rows()):
            lines, cells = zip(*rows, strict=True)
            columns = dict(zip(self.columns, zip(*cells, strict=True), strict=True))
            yield Cells(np.array(lines, np.int64), columns)

    def notes(self, name: str = "", facts: frozenset[Fact] = frozenset()) -> Iterator[Note]:
        """Yield notes on the lines that are left out; `name`: the file's, if there are several."""
        found = [truncation_note(self.cut_line)] if self.cut_line else []
        if count := self.rejected.count:
            where = f"line {self.rejected.first}"
            found.append(Note("line-unreadable", Severity.DROPPED, UNREADABLE, count, where, facts))
        for note in found:
            yield replace(note, where=f"{name} {note.where}".lstrip())

    def _is_header(self, cells: Sequence[str]) -> bool:
        return tuple(cell.strip() for cell in cells) == self.names

    @property
    def _may_end_here(self) -> bool:
        return self.needless is None or self.columns[-1] in self.needless

    def _cells(self, line: str) -> list[str] | None:
        cells, count, place = csv_cells(line, ","), len(self.names), self._text_at
        is_whole = cells is not None and len(cells) == count
        if place is None or (is_whole and '"' not in cells[place]):  # type: ignore[index]
            return cells if is_whole else None
        if is_whole and '"' + cells[place].replace('"', '""') + '"' in line:  # type: ignore[index]
            return cells
        # A text with quotes that were not doubled: the cells around it hold neither quotes nor commas.
        *left, rest = line.split(",", place)
        text, *right = rest.rsplit(",", count - place - 1)
        others, is_closed = [*left, *right], text.startswith('"') == text.endswith('"')
        if len(others) != count - 1 or not (is_closed and all(map(_PLAIN_CELL.fullmatch, others))):
            return None
        return [cell.removeprefix('"').removesuffix('"') for cell in (*left, text, *right)]
