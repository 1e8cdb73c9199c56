"""Flame graphs of changes: the trees of both sides as one, colored by what became of each box."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nsysconv.document import Section
from nsysconv.names import WHOLE, escaped, shorten
from nsysconv.render.page.flame import flame_markup
from nsysconv.render.page.markup import anchor, column_words, rows
from nsysconv.report import Column, Unit

_WIDTHS = ("of both", "before", "after")
LEGEND = (("less", "less after"), ("more", "more after"), ("was", "the same"))
"""The colors of boxes; the stronger, the more of the greatest change that is shown."""


def flame_graph(report: Section) -> Iterator[str]:
    """Yield a flame graph of the paths of both sides: a canvas, and its data; nothing without rows."""
    nodes = list(rows(report))
    widths = [name for name in _measures(report.columns) if any(
        node[f"{side}_{name}"] for node in nodes for side in ("before", "after"))]  # fmt: skip
    if not widths:
        return
    count = next((name for name in _counts(report.columns)), "")
    names: dict[str, int] = {}
    measures = [
        {
            "word": column_words(name),
            **{side: [node[f"{side}_{name}"] for node in nodes] for side in ("before", "after")},
        }
        for name in widths
    ]
    data = {
        # A measure is the width of boxes in three ways: the buttons, in this order.
        "measures": measures,
        "name": [names.setdefault(node["name"] or "-", len(names)) for node in nodes],
        "names": [shorten(escaped(name), WHOLE) for name in names],
        "level": [node["level"] for node in nodes],
        "calls": [[node[f"{side}_{count}"] for node in nodes] for side in ("before", "after")],
        "call": count.removesuffix("_count"),
    }
    words = [f"{column_words(name)} {which}" for name in widths for which in _WIDTHS]
    ident = f"{anchor(report.name)}-flame"
    yield from flame_markup("Before and after in one", words, data, ident, LEGEND)


def _measures(columns: Sequence[Column]) -> list[str]:
    return _compared(columns, Unit.NS)


def _counts(columns: Sequence[Column]) -> list[str]:
    return _compared(columns, Unit.COUNT)


def _compared(columns: Sequence[Column], unit: Unit) -> list[str]:
    names = (column.name for column in columns if column.unit is unit)
    return [name.removeprefix("diff_") for name in names if name.startswith("diff_")]
