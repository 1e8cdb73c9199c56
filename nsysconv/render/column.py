"""Columns of text as the console of `nsys stats` has them, for programs that know these and for eyes that
do. Notes go to `notes_text`.

A column is as wide as its header and its first 100 rows need, and not wider than 100 characters; what is
longer is cut at its right end. Numbers stand right, with commas between thousands. Values of reports of
our own are base units, unrounded; an empty cell is null (not recorded), and also an empty name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TextIO

from nsysconv.names import escaped
from nsysconv.render import display
from nsysconv.render.contract import Options, encodable
from nsysconv.report import Report, Value

# The suffix of text: a file of that name is text unless this format is asked for.
SUFFIX = ".txt"

_WIDEST = 100
_LOOKED_AT = 100


def render(reports: Sequence[Report], out: TextIO, options: Options) -> None:
    """Write the reports, an empty line between two."""
    for i, report in enumerate(reports):
        if i:
            out.write("\n")
        for line in _lines(report, _cut_mark(out)):
            out.write(encodable(line, out, "backslashreplace") + "\n")


def _cut_mark(out: TextIO) -> str:
    return "…" if encodable("…", out, "backslashreplace") == "…" else "..."


def _lines(report: Report, mark: str) -> Iterator[str]:
    name = escaped(report.name)
    yield f" ** {escaped(report.title)} ({name}):" if report.title else f" ** {name}:"
    yield ""
    if report.table is None:
        yield from (f" {sentence}" for sentence in display.unrecorded_sentences(report))
        return
    headers = display.column_headers(report)
    cells = _cells(report)
    first = list(islice(cells, _LOOKED_AT))
    widths = [
        min(max(len(header), *(len(row[i]) for row in first), 1), _WIDEST)
        for i, header in enumerate(headers)
    ]
    right = [column.kind != "text" for column in report.columns]
    yield _line(headers, widths, "^" * len(widths), mark)
    yield _line(["-" * width for width in widths], widths, "<" * len(widths), mark)
    sides = "".join(">" if number else "<" for number in right)
    for row in chain(first, cells):
        yield _line(row, widths, sides, mark)


def _line(cells: Sequence[str], widths: Sequence[int], sides: str, mark: str) -> str:
    placed = (
        f"{_cut(text, width, mark):{side}{width}}"
        for text, width, side in zip(cells, widths, sides, strict=True)
    )
    return " " + "  ".join(placed)


def _cut(text: str, width: int, mark: str) -> str:
    return text if len(text) <= width else text[: width - len(mark)] + mark


def _cells(report: Report) -> Iterator[list[str]]:
    numbers = [column.kind != "text" for column in report.columns]
    text_rows = (
        display.printed_rows(report) if report.is_printed else map(_spelled, report.tuples())
    )
    for row in text_rows:
        yield [
            display.with_separators(text) if number else escaped(text)
            for text, number in zip(row, numbers, strict=True)
        ]


def _spelled(row: tuple[Value, ...]) -> tuple[str, ...]:
    return tuple("" if value is None else str(value) for value in row)
