"""Flame graphs: trees of rows as data for the page's script, which draws, zooms and searches them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from nsysconv.document import Section
from nsysconv.names import WHOLE, shorten
from nsysconv.render.page.markup import anchor, column_words, data_element, escape
from nsysconv.render.pictures import Panel, panels

_MOST_GRAPHS = 4
_KEYS = (
    ("click, Enter", "zoom"),
    ("↑ ↓ ← →", "another box"),
    ("Esc", "all of it"),
)


def flame_graphs(report: Section) -> Iterator[str]:
    """Yield a flame graph of each panel of a report whose picture is one, as canvases and their data."""
    picture = report.picture
    if picture is None or report.drawn is None:
        return
    columns = {column.name: column for column in report.columns}
    count = columns[picture.values[0]].counted_by
    values = (*picture.values, *((count,) if count else ()))
    shown = panels(replace(report, picture=replace(picture, values=values)))
    drawn = [panel for panel in shown if any(any(panel.values[name]) for name in picture.values)]
    for number, panel in enumerate(drawn[:_MOST_GRAPHS]):
        yield from _graph(panel, picture.values, count, f"{anchor(report.name)}-flame-{number}")
    if len(drawn) > _MOST_GRAPHS:
        yield f'<p class="quiet">The first {_MOST_GRAPHS} of {len(drawn):,} flame graphs.</p>'
    rows = len(report.drawn)
    if rows < report.row_count:
        yield (
            f'<p class="quiet">Drawn are the first {rows:,} of {report.row_count:,} rows: all is the '
            "sum of these.</p>"
        )


def _graph(panel: Panel, weights: tuple[str, ...], count: str, ident: str) -> Iterator[str]:
    used = [name for name in weights if any(panel.values[name])]
    words = [column_words(name) for name in used]
    title = panel.title or "Flame graph"
    yield from flame_markup(title, words, _data(panel, used, words, count), ident)


def flame_markup(
    title: str,
    widths: Sequence[str],
    data: dict[str, Any],
    ident: str,
    legend: Sequence[tuple[str, str]] = (),
) -> Iterator[str]:
    """Yield a canvas, a button for each width of the boxes, and the data for the page's script.

    `legend` are colors of the style sheet, and what boxes of that color are.
    """
    yield f'<div class="flame" hidden><p class="tools"><b>{escape(title)}</b>'
    yield '<span role="group" aria-label="Width of the boxes">'
    yield "".join(
        f'<button type="button" data-weight="{number}" aria-pressed="false">{escape(word)}</button>'
        for number, word in enumerate(widths)
    )
    yield '</span><label>Search <input type="search"></label>'
    yield '<span class="found quiet" aria-live="polite"></span></p>'
    if legend:
        keys = "".join(f'<li><i class="k {color}"></i>{escape(each)}' for color, each in legend)
        yield f'<ul class="legend">{keys}</ul>'
    yield '<p class="crumbs"></p><p class="event" aria-live="polite"></p>'
    yield '<div class="scroll"><canvas class="boxes" tabindex="0" role="application" '
    yield f'aria-label="flame graph: {escape(title)}" aria-describedby="{ident}-keys"></canvas></div>'
    keys = "; ".join(f"<kbd>{escape(key)}</kbd> {escape(words)}" for key, words in _KEYS)
    yield f'<p class="quiet"><span class="drawn"></span> <span id="{ident}-keys">{keys}.</span></p></div>'
    yield data_element(data, ident)
    yield "<noscript><p>The flame graph needs the page's script.</p></noscript>"


def _data(panel: Panel, weights: list[str], words: list[str], count: str) -> dict[str, Any]:
    names: dict[str, int] = {}
    # A tree's names may be set in.
    numbers = [names.setdefault(label.lstrip() or "-", len(names)) for label in panel.labels]
    return {
        "names": [shorten(name, WHOLE) for name in names],
        "name": numbers,
        "level": panel.level,
        "calls": panel.values[count] if count else None,
        "call": count.removesuffix("_count") or None,
        "weights": [
            {"word": word, "values": panel.values[name]}
            for name, word in zip(weights, words, strict=True)
        ],
    }
