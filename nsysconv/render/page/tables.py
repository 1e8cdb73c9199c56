"""Reports as tables: sorted and searched by the page's script, and plain tables without it."""

from __future__ import annotations

from collections.abc import Iterator

from nsysconv.names import shorten
from nsysconv.render import sentences
from nsysconv.render.columns import Shown, telling_columns
from nsysconv.render.page.marks import WHOLE, anchor, holds_kernels, shortened, text
from nsysconv.report import Report

_FEW = 8
"""So few rows need no search."""


def table(report: Report) -> Iterator[str]:
    """The rows, and what is to be said below them; columns that are not brief can be hidden."""
    for said in report.said:
        yield from (f"<p>{text(said.head)}</p>",) if said.head else ()
        yield f"<ul>{''.join(f'<li>{text(line)}' for line in said.lines)}</ul>"
    if not report.in_rows:
        yield from (f"<p>{text(line)}</p>" for line in sentences.below(report, ()))
        return
    found = telling_columns(report)
    ident = f"t{anchor(report.name)[1:]}"
    minor = [i for i, shown in enumerate(found.shown, 1) if not shown.column.brief]
    long = any(len(cell) > len(short) for shown in found.shown
               for cell, short in _shortened(shown))  # fmt: skip
    if minor:
        places = ",".join(f":nth-child({i})" for i in minor)
        yield f"<style>#{ident}:not(.full) :is(td,th):is({places}){{display:none}}</style>"
    hint = ' data-more="1"' if minor or long else ""
    search = ' data-search="1"' if report.table is not None and report.table.num_rows > _FEW else ""
    yield f'<div class="scroll" role="region" tabindex="0" aria-label="{text(report.title)}">'
    yield f'<table id="{ident}" class="full"{hint}{search}><thead><tr>'
    yield "".join(map(_header, found.shown))
    yield "</tr></thead><tbody>"
    columns = [list(map(_cell, _shortened(s), [s] * len(s.cells))) for s in found.shown]
    for cells in zip(*columns, strict=True):
        yield f"<tr>{''.join(cells)}"
    yield "</table></div>"
    unrecorded = [column.name for column in found.unrecorded]
    for line in sentences.below(report, unrecorded):
        yield f'<p class="quiet">{text(line)}</p>'


def _header(shown: Shown) -> str:
    kind = "" if shown.right else ' class="t"'
    unit = f" <small>{text(shown.unit)}</small>" if shown.unit else ""
    words = text(shown.name).replace("_", "_<wbr>")
    return f'<th scope="col"{kind} title="{text(shown.column.doc)}">{words}{unit}</th>'


def _shortened(shown: Shown) -> list[tuple[str, str]]:
    """Per cell its text, and what is shown of it at first."""
    if shown.right:
        return [(cell, cell) for cell in shown.cells]
    kernel = holds_kernels(shown.column)
    known = {cell: (shorten(cell, WHOLE), shortened(cell, kernel)) for cell in set(shown.cells)}
    return [known[cell] for cell in shown.cells]


def _cell(cell: tuple[str, str], shown: Shown) -> str:
    full, short = cell
    if shown.right:
        return f"<td>{text(full)}"
    if full == short:
        return f'<td class="t">{text(full)}'
    return f'<td class="t"><span class="s">{text(short)}</span><span class="l">{text(full)}</span>'
