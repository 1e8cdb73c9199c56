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

from nsysconv.document import Section
from nsysconv.names import encodable, escaped
from nsysconv.render import display
from nsysconv.render.contract import Options

# The suffix of text: a file of that name is text unless this format is asked for.
SUFFIX = ".txt"

_WIDEST = 100
_LOOKED_AT = 100


def render(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write the reports, an empty line between two."""
    mark = "…" if encodable("…", out, "backslashreplace") == "…" else "..."
    for i, report in enumerate(reports):
        if i:
            out.write("\n")
        for line in _lines(report, mark):
            out.write(encodable(line, out, "backslashreplace") + "\n")


def _lines(report: Section, mark: str) -> Iterator[str]:
    name = escaped(report.name)
    yield f" ** {escaped(report.title)} ({name}):" if report.title else f" ** {name}:"
    yield ""
    if report.table is None:
        yield from (f" {sentence}" for sentence in display.unrecorded_sentences(report))
        return
    headers = list(map(escaped, display.column_headers(report)))
    cells = _cells(report)
    first = list(islice(cells, _LOOKED_AT))
    widths = [
        min(max(len(header), *(len(row[i]) for row in first), 1), _WIDEST)
        for i, header in enumerate(headers)
    ]
    yield _line(headers, widths, "^" * len(widths), mark)
    yield _line(["-" * width for width in widths], widths, "<" * len(widths), mark)
    sides = "".join("<" if column.kind == "text" else ">" for column in report.columns)
    for row in chain(first, cells):
        yield _line(row, widths, sides, mark)


def _line(cells: Sequence[str], widths: Sequence[int], sides: str, mark: str) -> str:
    placed = []
    for text, width, side in zip(cells, widths, sides, strict=True):
        cut = text if len(text) <= width else text[: width - len(mark)] + mark
        placed.append(f"{cut:{side}{width}}")
    return " " + "  ".join(placed)


def _cells(report: Section) -> Iterator[list[str]]:
    numbers = [column.kind != "text" for column in report.columns]
    for row in display.printed_rows(report) if report.is_printed else report.tuples():
        texts = ("" if value is None else str(value) for value in row)
        yield [
            display.with_separators(text) if number else escaped(text)
            for text, number in zip(texts, numbers, strict=True)
        ]
