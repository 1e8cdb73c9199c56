"""Pictures made of characters, for terminals: a strip over time, bars beside the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from nsysconv.names import shorten
from nsysconv.render.pictures import Panel, largest_value, panels, with_unit
from nsysconv.render.text import text_width
from nsysconv.report import Report
from nsysconv.units import Unit

Encode = Callable[[str], str]

# The first is nothing, the others equal shares of the largest.
_LEVELS, _PLAIN_LEVELS = "▁▂▃▄▅▆▇█", "_.-:=+*#"
_BAR, _PLAIN_BAR = "█", "#"
# A strip of fewer cells shows nothing.
_FEWEST_CELLS = 12
ROOM, MOST = 24, 40
"""The cells for which a table gives up columns that are not brief, to show bars; and the longest bar."""

_LONGEST_TITLE = 30


def strip_lines(report: Report, width: int, spell: Encode) -> Iterator[str]:
    """A line per panel of a strip: its value over time, all on one time axis; then what it is."""
    picture, shown = report.picture, panels(report)
    if picture is None or picture.kind != "strip" or not shown:
        return
    titles = [spell(shorten(panel.title, _LONGEST_TITLE)) for panel in shown]
    beside = max(map(text_width, titles)) + 2
    room = min(width - beside, max(len(panel.start) for panel in shown))
    begin = min(t for panel in shown for t in panel.start if t is not None)
    end = max(int(t) for panel in shown for t in _ends(panel))
    if width - beside < _FEWEST_CELLS or end <= begin:
        return
    name = picture.values[0]
    unit = next(column.unit for column in report.columns if column.name == name)
    top = 100.0 if unit is Unit.PCT else float(largest_value(shown, name))
    levels = _LEVELS if spell(_LEVELS) == _LEVELS else _PLAIN_LEVELS
    edges = begin + (end - begin) * np.arange(room + 1) / room
    for title, panel in zip(titles, shown, strict=True):
        cells = (_level(value, top, levels) for value in _means(panel, name, edges))
        yield f"{title}{' ' * (beside - text_width(title))}{''.join(cells)}"
    scale = f"{levels[0]} 0, {levels[-1]} {with_unit(top, unit)}"
    yield spell(
        f"{name} from {with_unit(begin, Unit.NS)} to {with_unit(end, Unit.NS)}, "
        f"{with_unit(float(edges[1] - edges[0]), Unit.NS)} each: {scale}"
    )


def _ends(panel: Panel) -> Iterator[float]:
    for start, width in zip(panel.start, panel.width, strict=True):
        if start is not None and width is not None:
            yield start + width


def _means(panel: Panel, name: str, edges: np.ndarray) -> Iterator[float | None]:
    """Per cell between two edges the mean of the bins in it, by time; None where there is none."""
    rows = zip(panel.start, panel.width, panel.values[name], strict=True)
    told = [row for row in rows if None not in row]
    start, width, value = np.array(told, float).reshape(-1, 3).T
    moments = np.stack((start, start + width), axis=1).ravel()
    nothing = np.zeros(len(width))
    covered, spent = (
        np.interp(edges, moments, np.cumsum(np.stack((nothing, each), axis=1)))
        for each in (width, width * value)
    )
    for time, much in zip(np.diff(covered).tolist(), np.diff(spent).tolist(), strict=True):
        yield much / time if time > 0 else None


def _level(value: float | None, top: float, levels: str) -> str:
    if value is None:
        return " "
    share = value / top if top else 0.0
    # Just above a step is rounding; what is not nothing has a level of its own.
    return levels[min(int(np.ceil(share * (len(levels) - 1) - 1e-9)), len(levels) - 1)]


def bar_cells(report: Report, cells: int, spell: Encode) -> tuple[str, list[str]]:
    """What stands beside a histogram's table: a header, and a bar per row of at most `cells`.

    Several parts have a letter each, which the header explains as far as it has room; a row that is
    not 0 has a sign at least. No bars where there is no histogram, or nothing in it.
    """
    picture = report.picture
    if picture is None or picture.kind != "histogram" or report.table is None:
        return "", []
    columns = [column.name for column in report.columns]
    values = dict(zip(columns, report.by_column(), strict=True))
    rows = [
        [value if isinstance(value, int) else 0 for value in row]
        for row in zip(*(values[name] for name in picture.values), strict=True)
    ]
    longest = max(map(sum, rows), default=0)
    if longest <= 0:
        return "", []
    if len(picture.values) == 1:
        sign = _BAR if spell(_BAR) == _BAR else _PLAIN_BAR
        return picture.values[0], [_bar(row, Fraction(cells, longest), [sign]) for row in rows]
    words = [name.partition("_")[0] for name in picture.values]
    drawn = [_bar(row, Fraction(cells, longest), [word[0] for word in words]) for row in rows]
    used = " ".join(word for word in words if any(word[0] in bar for bar in drawn))
    return shorten(used, cells), drawn


def _bar(parts: Sequence[int], scale: Fraction, signs: Sequence[str]) -> str:
    """The parts end to end, together as long as their sum; what rounding takes goes to the largest."""
    total = sum(parts)
    length = max(round(total * scale), 1 if total else 0)
    if not length:
        return ""
    shares = [Fraction(part * length, total) for part in parts]
    counts = [int(share) for share in shares]
    rest = sorted(range(len(parts)), key=lambda i: counts[i] - shares[i])
    for i in rest[: length - sum(counts)]:
        counts[i] += 1
    return "".join(sign * count for sign, count in zip(signs, counts, strict=True))
