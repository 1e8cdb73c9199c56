"""Pictures of reports: rows sorted into panels for whoever draws them, in characters and with matplotlib.

Matplotlib is imported only here, and only when asked.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from nsysconv.codes import COMMUNICATION
from nsysconv.document import Picture, Section
from nsysconv.errors import UsageError
from nsysconv.names import cut_off, escaped, shorten, shorten_kernel, text_width
from nsysconv.render import display
from nsysconv.report import Column, Unit, Value, scale_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Number = int | float | None


@dataclass(frozen=True)
class Panel:
    """The rows of one picture, in the report's order.

    `title` is what they share (`rank 3, GPU 0`; empty where there is one panel), `labels` name each
    row, `values` are the picture's by column, and its parts. Of a strip and a histogram `start` is
    where each bin starts, and `width` how long a strip's bins are, `clock` the time of day as each
    starts; of a flame `level` is how deep each
    row lies; of bars of kernels `communicates` is which of them are communication. Texts hold no
    control character.
    """

    title: str
    labels: tuple[str, ...]
    values: Mapping[str, tuple[Number, ...]]
    start: tuple[Number, ...] = ()
    width: tuple[Number, ...] = ()
    level: tuple[int, ...] = ()
    communicates: tuple[bool, ...] = ()
    clock: tuple[Number, ...] = ()

    @property
    def end(self) -> int:
        """Return where the last bin of a strip ends."""
        bins = zip(self.start, self.width, strict=True)
        return max(int(t + width) for t, width in bins if t is not None and width is not None)


def panels(report: Section) -> list[Panel]:
    """Return the panels of a report's picture, by their first rows.

    Rows without a value are left out, but for those of a flame, in which others lie; so are the least,
    the median and the most over ranks, for parts of different ranks are not laid end to end.
    """
    picture, drawn = report.picture, report.drawn
    if picture is None or drawn is None:
        return []
    columns = {column.name: column for column in report.columns}
    values = dict(zip(columns, replace(report, table=drawn).by_column(), strict=True))
    over_ranks = values.get("over_ranks", [None] * len(drawn))
    panel_keys = ("profile", *picture.by) if len(report.profiles) > 1 else picture.by
    members: dict[tuple[Value, ...], list[int]] = {}
    for i in range(len(drawn)):
        has_value = picture.level or any(values[name][i] is not None for name in picture.values)
        if has_value and over_ranks[i] is None:
            members.setdefault(tuple(values[name][i] for name in panel_keys), []).append(i)
    binned = picture.kind in ("histogram", "strip")
    result = []
    for key, rows in members.items():
        shared = (_named(columns[name], v) for name, v in zip(panel_keys, key, strict=True))
        result.append(
            Panel(
                ", ".join(word for word in shared if word),
                _labels([columns[name] for name in picture.x], values, rows, picture.between),
                {n: _numbers(values[n], rows) for n in (*picture.values, *picture.parts)},
                _numbers(values[picture.x[0]], rows) if binned else (),
                _numbers(values[picture.width], rows) if picture.width else (),
                _levels(values[picture.level], rows) if picture.level else (),
                tuple(values[picture.category][i] == COMMUNICATION for i in rows)
                if picture.category
                else (),
                _numbers(values[picture.clock], rows) if picture.clock else (),
            )
        )
    return result


def largest_value(shown: Sequence[Panel], name: str) -> float:
    """Return the largest value of a column in these panels, 0 at least."""
    values = (panel.values.get(name, ()) for panel in shown)
    return max((v for each in values for v in each if v is not None), default=0)


def with_unit(value: float, unit: Unit) -> str:
    """Return a bound of a bin with its unit: `10 µs`, `0 ns`."""
    divisor, name = scale_for(unit, value)
    return f"{value / divisor:g} {name}".rstrip()


def _numbers(values: Sequence[Value], rows: Sequence[int]) -> tuple[Number, ...]:
    chosen = (values[i] for i in rows)
    return tuple(value if isinstance(value, int | float) else None for value in chosen)


def _levels(values: Sequence[Value], rows: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(value or 0) for value in _numbers(values, rows))


def _labels(
    columns: Sequence[Column],
    values: Mapping[str, Sequence[Value]],
    rows: Sequence[int],
    between: str,
) -> tuple[str, ...]:
    first, *others = columns
    labeling = [first, *(c for c in others if len({values[c.name][i] for i in rows}) > 1)]
    if all(values[first.name][i] is None for i in rows):
        some = {c.name for c in columns if values[c.name][rows[0]] is not None}
        labeling = [c for c in columns if c in labeling[1:] or c.name in some]
    words_of = ((_label(c, values[c.name][i]) for c in labeling) for i in rows)
    return tuple(between.join(filter(None, words)) or "-" for words in words_of)


def _label(column: Column, value: Value) -> str:
    if value is None or column.unit is Unit.ID:
        return _named(column, value)
    if column.unit is Unit.TEXT:
        return escaped(str(value))
    return f"≥ {with_unit(float(value), column.unit)}"


def _named(column: Column, value: Value) -> str:
    word = "GPU" if column.name == "device_id" else column.name.removesuffix("_id")
    return "" if value is None else f"{word} {escaped(str(value))}"


# More would not be legible: bars of a panel, labels along an axis, panels of a figure.
MOST_BARS = 20
_MOST_LABELS = 40
MOST_PANELS = 24
_LONGEST = 48

_WIDTH_INCHES = 9.0
_PANEL_INCHES = {"bars": 0.9, "stacked": 3.0, "histogram": 2.4, "strip": 1.4, "flame": 0.9,
                 "series": 1.4}  # fmt: skip
_BAR_INCHES = 0.26
_LEVEL_INCHES = 0.2
_MOST_LEVELS = 40
# A narrower box than the first share of a flame's width is not drawn, and one narrower than the second
# has no name.
_NARROWEST, _LEGIBLE = 1 / 2000, 1 / 30
_CHARACTERS = 130
_COLOURS = 10


@dataclass(frozen=True)
class _Scaled:
    names: tuple[str, ...]
    divisor: float
    label: str
    top: float | None  # where the axis ends, if not with the values
    time: tuple[float, str]  # divisor and unit

    def of(self, values: Sequence[Number]) -> np.ndarray:
        return np.array([0.0 if value is None else value / self.divisor for value in values])


def draw(report: Section, place: Axes | None = None) -> Figure:
    """Draw the report's picture, a part of the figure for each panel, one below the other; or in a place.

    A notebook shows the figure; elsewhere `savefig` writes it. Raises UsageError where a report has no
    picture, was not answered, or matplotlib is not installed.
    """
    if report.picture is None:
        hint = "`to_pandas()` gives its rows, to plot them."
        raise UsageError(f"{report.name} has no picture", hint=hint)
    if report.table is None:
        raise UsageError(f"nothing to draw: {' '.join(display.unrecorded_sentences(report))}")
    figure = _figure() if place is None else place.get_figure(root=True)
    assert figure is not None
    shown = panels(report)
    title = display.heading(report)
    if report.picture.kind == "flame":
        shown = [each for panel in shown for each in _by_value(panel)]
    if len(shown) > MOST_PANELS:
        title += f" (the first {MOST_PANELS} of {len(shown)})"
        shown = shown[:MOST_PANELS]
    if place is not None and len(shown) != 1:
        hint = "Ask for one of them, such as devices=0, or leave out ax."
        raise UsageError(f"{report.name} has {len(shown)} panels, and ax is one place", hint=hint)
    if place is not None:
        _PAINTERS[report.picture.kind](place, shown[0], _scaled(report, report.picture, shown))
        place.set_title(_plain(shown[0].title or title), fontsize="small", loc="left")
        return figure
    figure.suptitle(_plain(title), fontsize="medium")
    if not shown:
        figure.text(0.5, 0.5, display.empty_sentence(report) or "Nothing to draw.", ha="center")
        return figure
    scaled = _scaled(report, report.picture, shown)
    heights = [_height(report.picture, panel) for panel in shown]
    figure.set_size_inches(_WIDTH_INCHES, 0.7 + sum(heights))
    shared = report.picture.kind == "strip"
    ratios = {"height_ratios": heights}
    axes = figure.subplots(len(shown), squeeze=False, sharex=shared, gridspec_kw=ratios)[:, 0]
    for ax, panel in zip(axes, shown, strict=True):
        _PAINTERS[report.picture.kind](ax, panel, scaled)
        ax.set_title(_plain(panel.title), fontsize="small", loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize="small")
    has_parts = any(any(panel.communicates) for panel in shown)
    if (len(scaled.names) > 1 or has_parts) and report.picture.kind != "flame":
        handles, labels = axes[0].get_legend_handles_labels()
        style: dict[str, Any] = {"ncols": 4, "frameon": False, "fontsize": "small"}
        figure.legend(handles, labels, loc="outside lower center", **style)
    return figure


def _figure() -> Figure:
    # A notebook shows the figure; pyplot, which would keep it, has no part in it.
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = "Install it: pip install 'nsysconv[plot]'"
        raise UsageError("matplotlib is not installed", hint=hint) from error

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            out = io.BytesIO()
            self.savefig(out, format="png", metadata={"Software": None})
            return out.getvalue()

    return ShownFigure(figsize=(_WIDTH_INCHES, 2.0), layout="constrained")


def _scaled(report: Section, picture: Picture, shown: Sequence[Panel]) -> _Scaled:
    unit = next(column.unit for column in report.columns if column.name == picture.values[0])
    divisor, name = scale_for(unit, max(largest_value(shown, value) for value in picture.values))
    what = _word(picture.values[0]) if len(picture.values) == 1 else ""
    label = f"{what} ({name})" if what and name else what or name
    times = [abs(t) for panel in shown for t in panel.start if t is not None]
    top, time = 100.0 if unit is Unit.PCT else None, scale_for(Unit.NS, max(times, default=0))
    return _Scaled(picture.values, divisor, label, top, time)


def _height(picture: Picture, panel: Panel) -> float:
    inches = _PANEL_INCHES[picture.kind]
    if picture.kind == "bars":
        rows = max(min(len(panel.labels), MOST_BARS), 3)
        inches += _BAR_INCHES * rows * (1 + 0.5 * (len(picture.values) - 1))
    if picture.kind == "flame":
        inches += _LEVEL_INCHES * min(max(panel.level) + 1, _MOST_LEVELS)
    return inches


def _bars(ax: Axes, panel: Panel, scaled: _Scaled) -> None:
    count = min(len(panel.labels), MOST_BARS)
    place = np.arange(count)
    thick = 0.8 / len(scaled.names)
    for i, name in enumerate(scaled.names):
        shift = (i - (len(scaled.names) - 1) / 2) * thick
        values = scaled.of(panel.values[name][:count])
        for words, which in _parts(panel, count) or ((_word(name), slice(None)),):
            ax.barh(place[which] + shift, values[which], thick, label=_plain(words))
    ax.set_yticks(place, [_short(text) for text in panel.labels[:count]])
    # One lonely row is a bar, not a wall.
    ax.set_ylim(max(count, 3) - 0.5, -0.5)
    more = f"; {count} of {len(panel.labels)} rows" if count < len(panel.labels) else ""
    ax.set_xlabel(scaled.label + more, fontsize="small")
    if scaled.top is not None:
        ax.set_xlim(0, scaled.top)


def _parts(panel: Panel, count: int) -> list[tuple[str, np.ndarray]]:
    # Bars of kernels by what they are.
    communicates = np.array(panel.communicates[:count], bool)
    classes = {"computation": ~communicates, COMMUNICATION: communicates}
    return list(classes.items()) if panel.communicates else []


def _stacked(ax: Axes, panel: Panel, scaled: _Scaled) -> None:
    place = np.arange(len(panel.labels))
    below = np.zeros(len(place))
    for name in scaled.names:
        values = scaled.of(panel.values[name])
        ax.bar(place, values, 0.8, below, label=_plain(_word(name)))
        below += values
    if len(place) <= _MOST_LABELS:
        texts = [_short(text) for text in panel.labels]
        turned = 90 if sum(map(len, texts)) > 90 else 0
        ax.set_xticks(place, texts, rotation=turned)
    ax.set_xlim(-0.6, max(len(place), 6) - 0.4)
    ax.set_ylabel(scaled.label, fontsize="small")


def _strip(ax: Axes, panel: Panel, scaled: _Scaled) -> None:
    (name,) = scaled.names
    divisor, unit = scaled.time
    for edges, values in _runs(panel, name):
        times = np.array(edges) / divisor
        ax.stairs(scaled.of(values), times, fill=True, label=_plain(_word(name)))
    ax.set_xlabel(f"time ({unit})", fontsize="small")
    ax.label_outer()
    ax.set_ylabel(scaled.label, fontsize="small")
    ax.set_ylim(0, scaled.top)


def _runs(panel: Panel, name: str) -> Iterator[tuple[list[float], list[Number]]]:
    edges: list[float] = []
    values: list[Number] = []
    for start, width, value in zip(panel.start, panel.width, panel.values[name], strict=True):
        if start is None or width is None or value is None:
            continue
        if values and edges[-1] != start:  # bins without a value are in between
            yield edges, values
            edges, values = [], []
        edges += [start + width] if edges else [start, start + width]
        values.append(value)
    if values:
        yield edges, values


def _by_value(panel: Panel) -> Iterator[Panel]:
    # A panel for each value that any row has.
    for name, values in panel.values.items():
        if any(values):
            title = ", ".join(filter(None, (panel.title, _word(name))))
            yield replace(panel, title=title, values={name: values})


def _flame(ax: Axes, panel: Panel, scaled: _Scaled) -> None:
    (values,) = panel.values.values()
    left, size = flame_layout(panel.level, values)
    level = np.array(panel.level)
    total = sum(v or 0 for v, depth in zip(values, panel.level, strict=True) if not depth)
    seen = np.flatnonzero((size >= _NARROWEST) & (level < _MOST_LEVELS))
    names = [panel.labels[i].lstrip() for i in seen]
    colors = [f"C{crc32(name.encode('utf-8', 'replace')) % _COLOURS}" for name in names]
    length = total / scaled.divisor
    ax.barh(level[seen], size[seen] * length, 0.94, left[seen] * length, color=colors, alpha=0.55)
    for i, name in zip(seen, names, strict=True):
        if size[i] >= _LEGIBLE:
            words = _plain(cut_off(name, int(size[i] * _CHARACTERS)))
            ax.text((left[i] + 0.004) * length, level[i], words, va="center", fontsize="x-small")
    ax.set_xlim(0, length)
    ax.set_ylim(min(max(panel.level) + 1, _MOST_LEVELS) - 0.5, -0.5)
    ax.set_yticks([])
    ax.set_xlabel(scaled.label, fontsize="small")


def flame_layout(level: Sequence[int], values: Sequence[Number]) -> tuple[np.ndarray, np.ndarray]:
    """Return where each row of a flame begins, and how wide it is, as shares of all outermost rows.

    Those in a row are the largest first. Where they add up to more than the row, as of several threads,
    they are drawn the smaller, to fit into it.
    """
    inside: dict[int, list[int]] = {}
    around: list[int] = []
    for i, depth in enumerate(level):
        while around and level[around[-1]] >= depth:
            around.pop()
        inside.setdefault(around[-1] if around else -1, []).append(i)
        around.append(i)
    left, size = np.zeros((2, len(level)))
    for row in range(-1, len(level)):
        ordered = sorted(inside.get(row, ()), key=lambda i: (-(values[i] or 0), i))
        total = sum(values[i] or 0 for i in ordered)
        whole = total if row < 0 else max(total, values[row] or 0)
        if not whole:
            continue
        unit = (1.0 if row < 0 else size[row]) / whole
        at = 0.0 if row < 0 else left[row]
        for i in ordered:
            left[i], size[i] = at, (values[i] or 0) * unit
            at += size[i]
    return left, size


def _series(ax: Axes, panel: Panel, scaled: _Scaled) -> None:
    value, level, low, high = (scaled.of(panel.values[name]) for name in scaled.names)
    place = np.arange(len(value))
    ax.fill_between(place, low, high, step="mid", alpha=0.2, linewidth=0)
    ax.step(place, level, where="mid", label="level")
    ax.plot(place, value, ".", label="runs")
    ends = sorted({0, len(place) - 1})
    ax.set_xticks(ends, [_short(panel.labels[i]) for i in ends])


def _word(name: str) -> str:
    return name.removesuffix("_ns").removesuffix("_bytes").removesuffix("_pct")


def _short(text: str) -> str:
    # Only names of kernels have parameters and arguments to be shortened.
    return _plain((shorten_kernel if "(" in text or "<" in text else shorten)(text, _LONGEST))


def _plain(text: str) -> str:
    # For matplotlib `$` would begin a formula, and a `_` first hides a label.
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


_PAINTERS = {"bars": _bars, "stacked": _stacked, "histogram": _stacked, "strip": _strip,
             "flame": _flame, "series": _series}  # fmt: skip


# -- in characters

Encode = Callable[[str], str]

# The first is nothing, the others equal shares of the largest.
_LEVELS, _PLAIN_LEVELS = "▁▂▃▄▅▆▇█", "_.-:=+*#"
_BAR, _PLAIN_BAR = "█", "#"
# A strip of fewer cells shows nothing.
_FEWEST_CELLS = 12
BAR_ROOM, LONGEST_BAR = 24, 40
"""The cells for which a table gives up columns that are not brief, to show bars; and the longest bar."""

_LONGEST_TITLE = 30


def strip_lines(report: Section, width: int, spell: Encode) -> Iterator[str]:
    """Yield a line per panel of a strip: its value over time, on one time axis; then what it is."""
    picture, shown = report.picture, panels(report)
    if picture is None or picture.kind != "strip" or not shown:
        return
    titles = [spell(shorten(panel.title, _LONGEST_TITLE)) for panel in shown]
    beside = max(map(text_width, titles)) + 2
    room = min(width - beside, max(len(panel.start) for panel in shown))
    begin = min(t for panel in shown for t in panel.start if t is not None)
    end = max(panel.end for panel in shown)
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


def _means(panel: Panel, name: str, edges: np.ndarray) -> Iterator[float | None]:
    # Per cell between two edges the time-weighted mean of the bins in it, or None.
    rows = zip(panel.start, panel.width, panel.values[name], strict=True)
    complete = [row for row in rows if None not in row]
    start, width, value = np.array(complete, float).reshape(-1, 3).T
    moments = np.stack((start, start + width), axis=1).ravel()
    nothing = np.zeros(len(width))
    covered, spent = (
        np.interp(edges, moments, np.cumsum(np.stack((nothing, area), axis=1)))
        for area in (width, width * value)
    )
    for time, value in zip(np.diff(covered).tolist(), np.diff(spent).tolist(), strict=True):
        yield value / time if time > 0 else None


def _level(value: float | None, top: float, levels: str) -> str:
    if value is None:
        return " "
    share = value / top if top else 0.0
    # Just above a step is rounding; what is not nothing has a level of its own.
    return levels[min(int(np.ceil(share * (len(levels) - 1) - 1e-9)), len(levels) - 1)]


@dataclass(frozen=True)
class Bars:
    """A bar for each row of a histogram's table, the header above, and the legend of their letters."""

    header: str
    legend: str
    bars: tuple[str, ...]


def histogram_bars(report: Section, cells: int, spell: Encode) -> Bars | None:
    """Return bars of at most `cells`; None where there is no histogram, or nothing in it.

    Several parts have a letter each; a row that is not 0 has a sign at least.
    """
    picture = report.picture
    if picture is None or picture.kind != "histogram" or report.table is None:
        return None
    columns = [column.name for column in report.columns]
    values = dict(zip(columns, report.by_column(), strict=True))
    rows = [
        [value if isinstance(value, int) else 0 for value in row]
        for row in zip(*(values[name] for name in picture.values), strict=True)
    ]
    longest = max(map(sum, rows), default=0)
    if longest <= 0:
        return None
    words = [name.partition("_")[0] for name in picture.values]
    signs = [word[0] for word in words]
    if len(words) == 1:
        signs = [_BAR if spell(_BAR) == _BAR else _PLAIN_BAR]
    drawn = tuple(_bar(row, Fraction(cells, longest), signs) for row in rows)
    if len(words) == 1:
        return Bars(picture.values[0], "", drawn)
    used = [f"{word[0]} {word}" for word in words if any(word[0] in bar for bar in drawn)]
    return Bars("", f"bars: {', '.join(used)}", drawn)


def _bar(parts: Sequence[int], scale: Fraction, signs: Sequence[str]) -> str:
    # The parts end to end, as long as their sum; what rounding takes goes to the largest.
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
