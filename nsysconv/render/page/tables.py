"""Reports as tables: sorted and searched by the page's script, and plain tables without it."""

from __future__ import annotations

from collections.abc import Iterator

from nsysconv.names import shorten
from nsysconv.render import sentences
from nsysconv.render.columns import DisplayColumn, informative_columns
from nsysconv.render.page.marks import WHOLE, anchor, escape, holds_kernels, shortened
from nsysconv.report import Report

_FEW = 8
"""So few rows need no search."""


def report_table_html(report: Report) -> Iterator[str]:
    """The rows, and what is to be said below them; columns that are not brief can be hidden."""
    for said in report.said:
        yield from (f"<p>{escape(said.head)}</p>",) if said.head else ()
        yield f"<ul>{''.join(f'<li>{escape(line)}' for line in said.lines)}</ul>"
    if not report.in_rows:
        yield from (f"<p>{escape(line)}</p>" for line in sentences.sentences_below(report, ()))
        return
    found = informative_columns(report)
    ident = f"t{anchor(report.name)[1:]}"
    minor = [i for i, shown in enumerate(found.columns, 1) if not shown.column.brief]
    long = any(len(cell) > len(short) for shown in found.columns
               for cell, short in _shortened(shown))  # fmt: skip
    if minor:
        places = ",".join(f":nth-child({i})" for i in minor)
        yield f"<style>#{ident}:not(.full) :is(td,th):is({places}){{display:none}}</style>"
    hint = ' data-more="1"' if minor or long else ""
    search = ' data-search="1"' if report.table is not None and report.table.num_rows > _FEW else ""
    yield f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(report.title)}">'
    yield f'<table id="{ident}" class="full"{hint}{search}><thead><tr>'
    yield "".join(map(_header, found.columns))
    yield "</tr></thead><tbody>"
    columns = [list(map(_cell, _shortened(s), [s] * len(s.cells))) for s in found.columns]
    for cells in zip(*columns, strict=True):
        yield f"<tr>{''.join(cells)}"
    yield "</table></div>"
    unrecorded = [column.name for column in found.unrecorded]
    for line in sentences.sentences_below(report, unrecorded):
        yield f'<p class="quiet">{escape(line)}</p>'


def _header(shown: DisplayColumn) -> str:
    kind = "" if shown.right else ' class="t"'
    unit = f" <small>{escape(shown.unit)}</small>" if shown.unit else ""
    words = escape(shown.name).replace("_", "_<wbr>")
    return f'<th scope="col"{kind} title="{escape(shown.column.doc)}">{words}{unit}</th>'


def _shortened(shown: DisplayColumn) -> list[tuple[str, str]]:
    """Per cell its text, and what is shown of it at first."""
    if shown.right:
        return [(cell, cell) for cell in shown.cells]
    kernel = holds_kernels(shown.column)
    known = {cell: (shorten(cell, WHOLE), shortened(cell, kernel)) for cell in set(shown.cells)}
    return [known[cell] for cell in shown.cells]


def _cell(cell: tuple[str, str], shown: DisplayColumn) -> str:
    full, short = cell
    if shown.right:
        return f"<td>{escape(full)}"
    if full == short:
        return f'<td class="t">{escape(full)}'
    return (
        f'<td class="t"><span class="s">{escape(short)}</span><span class="l">{escape(full)}</span>'
    )
