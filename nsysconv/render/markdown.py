"""Markdown for issues and wikis: a heading, a pipe table, a list of notes. Units as in text.

Whatever a name holds, it shows as it is: it opens no column, no markup and no HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TextIO

from nsysconv.render import sentences
from nsysconv.render.columns import telling_columns
from nsysconv.render.contract import Options, encodable
from nsysconv.report import Report

SUFFIX = ".md"

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# An underscore inside a word means nothing to Markdown: `kernel_count` stays readable as it is.
_SIGNS = re.compile(r"[\\`*\[\]|~$#!]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")


def render(reports: Sequence[Report], out: TextIO, options: Options) -> None:
    """Write the reports, each under a heading of the second level."""
    for i, report in enumerate(reports):
        lines = _lines(report) if i == 0 else ("", *_lines(report))
        for line in lines:
            out.write(encodable(line, out, "xmlcharrefreplace") + "\n")


def _lines(report: Report) -> Iterator[str]:
    yield f"## {_escaped(sentences.heading(report))}"
    unrecorded: Sequence[str] = ()
    if report.table is not None and report.table.num_rows:
        table = telling_columns(report)
        unrecorded = [column.name for column in table.unrecorded]
        yield ""
        yield _row([_escaped(shown.header) for shown in table.shown])
        yield _row(["---:" if shown.right else "---" for shown in table.shown])
        for cells in zip(*(shown.cells for shown in table.shown), strict=True):
            yield _row([_escaped(cell) for cell in cells])
    for sentence in sentences.below(report, unrecorded):
        yield ""
        yield _escaped(sentence)
    notes = [f"* {_escaped(text)}" for _, text in sentences.notes(report)]
    yield from ("", *notes) if notes else ()


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return _SIGNS.sub(r"\\\g<0>", text).translate(_ENTITIES)
