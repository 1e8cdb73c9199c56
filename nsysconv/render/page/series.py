"""Charts of values run by run: a point per run, its level in a band, and where the level changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

from nsysconv.document import Picture, Section
from nsysconv.render.page.markup import amount, escape, rows
from nsysconv.report import Unit

_MOST_CHARTS = 12
_WIDTH, _HEIGHT = 720, 120
_FLATTEST = 0.05
"""What varies by a smaller share of its value looks flat."""
_ROOM = 0.1
"""Above and below the values, as a share of their range."""

Row = dict[str, Any]


def series_charts(report: Section, picture: Picture) -> Iterator[str]:
    """Yield a chart for each series of a report, the first ones, each as a figure."""
    found = [
        (" · ".join(str(word) for word in key if word is not None), list(mine))
        for key, mine in groupby(rows(report), key=lambda row: [row[name] for name in picture.by])
    ]
    for title, mine in found[:_MOST_CHARTS]:
        yield from _chart(title, mine, picture)
    if len(found) > _MOST_CHARTS:
        yield f"<p>The first {_MOST_CHARTS} of {len(found)} series; the numbers have all.</p>"


def _chart(title: str, mine: Sequence[Row], picture: Picture) -> Iterator[str]:
    value, level, usual_low, usual_high = picture.values
    unit = Unit(mine[0][picture.unit]) if picture.unit else Unit.REAL
    names = [str(row[picture.x[0]]) for row in mine]
    least = min(min(row[value], row[usual_low]) for row in mine)
    most = max(max(row[value], row[usual_high]) for row in mine)
    shown = max(most - least, _FLATTEST * abs(most)) * (1 + 2 * _ROOM) or 1.0
    top = (most + least + shown) / 2

    def x(place: float) -> str:
        return f"{_WIDTH * (place + 0.5) / len(mine):.1f}"

    def y(height: float) -> str:
        return f"{_HEIGHT * (top - height) / shown:.1f}"

    starts = [0, *(i for i in range(1, len(mine)) if mine[i][level] != mine[i - 1][level])]
    last = amount(mine[-1][level], unit)
    steps = len(starts) - 1
    words = (
        f"{title}: {len(mine)} runs, {steps} {'change' if steps == 1 else 'changes'}, now {last}"
    )
    yield f'<figure class="series"><figcaption>{escape(title)}</figcaption>'
    yield (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(words)}">'
    )
    for low, high in pairwise([*starts, len(mine)]):
        left, right = x(low - 0.5), x(high - 0.5)
        upper, lower = y(mine[low][usual_high]), y(mine[low][usual_low])
        yield f'<path class="usual" d="M{left} {upper}H{right}V{lower}H{left}z"/>'
        yield f'<path class="level" d="M{left} {y(mine[low][level])}H{right}"/>'
    for i in starts[1:]:
        what = f"{names[i]}: {amount(mine[i - 1][level], unit)} → {amount(mine[i][level], unit)}"
        at = f"M{x(i - 0.5)} 0V{_HEIGHT}"
        yield f'<path class="step" d="{at}"><title>{escape(what)}</title></path>'
    points = "".join(f"M{x(i)} {y(row[value])}h0" for i, row in enumerate(mine))
    yield f'<path class="runs" d="{points}"/></svg>'
    edges = f"{amount(least, unit)} to {amount(most, unit)}"
    ends = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    yield f'<p class="ends"><span>{escape(ends)}</span><span>{edges}; now {last}</span></p></figure>'
