"""HTML: one page that needs nothing else, or for notebooks a fragment per report, which has no script.

Every text from a report is escaped. Units are scaled as in text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TextIO

from nsysconv.document import Section
from nsysconv.names import encodable, escaped
from nsysconv.render import display, page
from nsysconv.render.contract import Options
from nsysconv.render.display import DisplayColumn, informative_columns

SUFFIX = ".html"

# Inline, for a notebook keeps no style sheet of ours; colors are the surroundings', dark or light.
# The table's own style is inherited, so that a number, the most common cell, needs none.
_TABLE = (
    "border-collapse:separate;border-spacing:1em 0.2em;text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums"
)
_CAPTION = "caption-side:top;text-align:left;font-weight:bold;white-space:normal"
_TEXT = "text-align:left;white-space:normal;max-width:48em;overflow-wrap:anywhere"
_NUMBER = "text-align:right"
_RULE = "border-bottom:1px solid currentColor"


def render(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write a page with the reports."""
    for line in page.document(reports):
        out.write(encodable(line, out, "xmlcharrefreplace") + "\n")


def fragment(report: Section) -> str:
    """Return the report as a `<div>` for any page: a table if there are rows, and notes."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Section) -> Iterator[str]:
    heading = escape(display.heading(report))
    unrecorded: tuple[str, ...] = ()
    yield '<div class="nsysconv-report">'
    if report.in_rows:
        table = informative_columns(report)
        unrecorded = table.unrecorded
        yield f'<table style="{_TABLE}">'
        yield f'<caption style="{_CAPTION}">{heading}</caption>'
        yield f"<thead><tr>{''.join(map(_header, table.columns))}</tr></thead>"
        yield '<tbody style="vertical-align:top">'
        for cells in zip(*(shown.cells for shown in table.columns), strict=True):
            pairs = zip(table.columns, cells, strict=True)
            yield f"<tr>{''.join(_cell(shown, text) for shown, text in pairs)}</tr>"
        yield "</tbody>"
        yield "</table>"
    else:
        yield f"<p><strong>{heading}</strong></p>"
    for said in report.texts:
        yield from (f"<p>{escape(escaped(said.head))}</p>",) if said.head else ()
        if said.laid_out:
            lines = "\n".join(escape(escaped(line)) for line in said.lines)
            yield f'<pre style="white-space:pre-wrap">{lines}</pre>'
        else:
            items = (f"<li>{escape(escaped(line))}</li>" for line in said.lines)
            yield f"<ul>{''.join(items)}</ul>"
    for sentence in display.sentences_below(report, unrecorded):
        yield f"<p>{escape(sentence)}</p>"
    notes = [f"<li>{escape(text)}</li>" for _, text in display.note_sentences([report])]
    if notes:
        yield f"<ul>{''.join(notes)}</ul>"
    yield "</div>"


def _header(shown: DisplayColumn) -> str:
    style = f"{_NUMBER if shown.right else _TEXT};{_RULE}"
    doc, text = escape(shown.column.doc), escape(shown.header)
    return f'<th scope="col" title="{doc}" style="{style}">{text}</th>'


def _cell(shown: DisplayColumn, text: str) -> str:
    start = "<td>" if shown.right else f'<td style="{_TEXT}">'
    return f"{start}{escape(text)}</td>"
