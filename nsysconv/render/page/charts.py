"""Pictures of reports as markup: bars, parts of a whole, time, heat maps of many profiles.

They are lists, tables and SVG of the page itself, colored by its style sheet: so they follow dark and
light, print, are read out, and need no script. Which picture a report has is the report's to say. The
time line (`lanes.py`) and flame graphs (`flame.py`) are data for the page's scripts, which draw and zoom
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from nsysconv.codes import COMMUNICATION
from nsysconv.document import Picture, Section
from nsysconv.render.page.colors import COLOURS, OUTSIDE, class_words, colors_of
from nsysconv.render.page.flame import flame_graphs
from nsysconv.render.page.markup import (
    amount,
    column_words,
    compared_column,
    escape,
    has_own_ranks,
    natural,
    places,
    rows,
    shortened,
    shortened_apart,
    tooltip,
)
from nsysconv.render.page.series import series_charts
from nsysconv.render.pictures import Number, Panel, panels
from nsysconv.report import Column, Unit

# What has room beside a bar.
_LABEL = 36
_LABELS = 90
"""The same of several names in one label, which may take two lines."""
_MOST_BARS = 12
_MOST_STACKS = 40
_MOST_PANELS = 4
_MOST_STRIPS = 4
_MOST_MATRIX = 16
_LEVELS = 10
_CELLS = 16_000
_MIN_SPREAD = 0.1
_KERNEL_CLASSES = ("computation", COMMUNICATION)
_COMPARED = ("window_ns", "busy_ns", "idle_pct", "kernel_count", "kernel_sum_ns", "memcpy_sum_ns",
             "um_sum_ns")  # fmt: skip


def picture_of(report: Section) -> Picture | None:
    """Return what a report is drawn as: its own picture; a comparison as bars of both sides."""
    main = compared_column(report)
    if report.picture is not None or main is None:
        return report.picture
    by = tuple(c.name for c in report.columns if c.key and c.name in ("rank", "device_id"))
    keys = tuple(c.name for c in report.columns if c.key and c.name not in by)
    if not keys and not by:
        return None  # of one row, which nothing distinguishes
    return Picture("bars", keys or by, (f"before_{main}", f"after_{main}"), by if keys else ())


def picture_figures(report: Section, late: Collection[int] = ()) -> Iterator[str]:
    """Yield the pictures of a report; nothing where it has none. `late`: ranks that others wait for."""
    picture = picture_of(report)
    if picture is None:
        return
    if picture.kind == "flame":
        yield from flame_graphs(report)
        return
    if picture.kind == "series":
        yield from series_charts(report, picture)
        return
    columns = {column.name: column for column in report.columns}
    # A comparison has no rows of one profile; where ranks label the rows they need no profile.
    by_rank = "rank" in picture.x and has_own_ranks(report)
    profiles = report.profiles if "profile" in columns and not by_rank else ()
    shown = panels(replace(report, picture=picture, profiles=profiles))
    shown = sorted(shown, key=lambda panel: natural(panel.title))
    if len(shown) <= max(_MOST_PANELS, _MOST_STRIPS):
        titles = zip(shown, _titles(shown), strict=True)
        shown = [replace(panel, title=title or panel.title) for panel, title in titles]
    values = [columns[name] for name in picture.values]
    if not shown:
        return
    if picture.kind == "strip":
        parts = [columns[name] for name in picture.parts]
        if parts and len(report.profiles) > 1 and len(shown) > 1:
            yield from _classes_over_time(shown, values[0], parts, late)
        else:
            yield from _strips(shown, values[0], parts, picture.shared)
        return
    if len(shown) > 1 and all(len(panel.labels) == 1 for panel in shown):
        shown = [_joined(shown)]
    if len(shown) > _MOST_PANELS:
        yield from _matrix(shown, values)
        return
    stacked = picture.kind in ("stacked", "histogram")
    if (
        len(shown) == 1
        and len(shown[0].labels) == 1
        and (len(values) == 1 or picture.kind == "histogram")
    ):
        return  # one bar has nothing beside it
    # One scale for all panels: what is longer is more.
    longest = max(max(_lengths(panel, values, stacked)) for panel in shown)
    top = 100.0 if values[0].unit is Unit.PCT and not stacked else longest
    for panel in shown if top > 0 else ():
        yield from _bars(panel, values, stacked, top, picture.between)


def _lengths(panel: Panel, columns: Sequence[Column], stacked: bool) -> Iterator[float]:
    for row in zip(*(panel.values[column.name] for column in columns), strict=True):
        numbers = [value or 0 for value in row]
        yield sum(numbers) if stacked else max(numbers)


def _joined(shown: Sequence[Panel]) -> Panel:
    values = {name: tuple(p.values[name][0] for p in shown) for name in shown[0].values}
    titles = zip(_titles(shown), shown, strict=True)
    return Panel("", tuple(title or panel.labels[0] for title, panel in titles), values)


def _titles(shown: Sequence[Panel]) -> list[str]:
    # What distinguishes panels: no part that all share, and the rank alone where it does.
    parts = [panel.title.split(", ") for panel in shown]
    if len(shown) < 2 or len({len(other) for other in parts}) > 1:
        return [panel.title for panel in shown]
    varying = [column for column in zip(*parts, strict=True) if len(set(column)) > 1]
    ranks = [c for c in varying if c[0].startswith("rank ") and len(set(c)) == len(shown)]
    varying = ranks or varying
    for column in varying[:-1]:
        others = [other for other in varying if other is not column]
        if len(set(zip(*others, strict=True))) == len(shown):
            varying = others
    return [", ".join(row) for row in zip(*varying, strict=True)]


def _legend(words: Iterable[str], colors: Iterable[str]) -> str:
    keys = (
        f'<li><i class="k {color}"></i>{escape(each)}'
        for each, color in zip(words, colors, strict=True)
    )
    return f'<ul class="legend">{"".join(keys)}</ul>'


def _series_words(column: Column) -> str:
    return class_words(column.name) or column_words(column.name)


def _short_labels(labels: Sequence[str], between: str) -> dict[str, str]:
    # Several names share the room, or the last would never be seen.
    parts = {label: label.split(between) for label in labels}
    most = max(map(len, parts.values()), default=1)
    if between == Picture.between or most == 1:
        return shortened_apart(parts, _LABEL)
    names = dict.fromkeys(name for each in parts.values() for name in each)
    short = shortened_apart(names, _LABELS // most)
    return {label: between.join(short[name] for name in each) for label, each in parts.items()}


def _bars(
    panel: Panel, columns: Sequence[Column], stacked: bool, top: float, between: str
) -> Iterator[str]:
    # A bar that none has says nothing.
    there = [c for c in columns if any(v is not None for v in panel.values[c.name])] or columns
    drawn = [c for c in columns if any(panel.values[c.name])] if stacked else list(there)
    with_communication = any(panel.communicates)
    count = min(len(panel.labels), _MOST_STACKS if stacked else _MOST_BARS)
    unit, colors = columns[0].unit, _colors(drawn)
    used = [[panel.values[c.name][i] or 0 for c in drawn] for i in range(len(panel.labels))]
    title = panel.title or ("" if len(drawn) > 1 else column_words(drawn[0].name))
    yield f'<figure class="bars"><figcaption>{escape(title)}</figcaption>'
    if len(drawn) > 1:
        yield _legend(map(_series_words, drawn), colors)
    elif with_communication:
        yield _legend(_KERNEL_CLASSES, (COLOURS[name] for name in _KERNEL_CLASSES))
    yield "<ol>"
    short = _short_labels(panel.labels[:count], between)
    for i in range(count):
        label = panel.labels[i]
        names = "" if between == Picture.between else " names"
        yield f'<li><span class="lb{names}" title="{tooltip(label)}">{escape(short[label])}</span>'
        if stacked:
            parts = "".join(
                _part(color, value, top) for color, value in zip(colors, used[i], strict=True)
            )
            yield f'<span class="tr">{parts}</span><span class="vl">{amount(sum(used[i]), unit)}</span>'
            continue
        for column, color in zip(drawn, colors, strict=True):
            if with_communication and panel.communicates[i]:
                color = COLOURS[COMMUNICATION]
            value = panel.values[column.name][i]
            yield f'<span class="tr">{_part(color, value, top)}</span>'
            yield f'<span class="vl">{amount(value, unit)}</span>'
    yield "</ol>"
    if count < len(panel.labels):
        yield f'<p class="quiet">The first {count} of {len(panel.labels):,}.</p>'
    yield "</figure>"


def _colors(columns: Sequence[Column]) -> list[str]:
    return colors_of([column.name for column in columns])


def _part(color: str, value: Number, top: float) -> str:
    return f'<i class="{color}" style="width:{100 * value / top:.2f}%"></i>' if value else ""


# -- time


def _strips(
    shown: Sequence[Panel], column: Column, parts: Sequence[Column], shared: bool
) -> Iterator[str]:
    if len(shown) > _MOST_STRIPS:
        yield from _heat_over_time(shown, column, shared=shared)
        return
    drawn = [part for part in parts if any(any(panel.values[part.name]) for panel in shown)]
    if drawn:
        yield _legend(map(_series_words, drawn), _colors(drawn))
    for panel in shown:
        values = [value or 0 for value in panel.values[column.name]]
        top = 100.0 if column.unit is Unit.PCT else max(values, default=0) or 1
        count = len(values)
        mean = sum(values) / count
        summary = (f"{column_words(column.name)} over time: {amount(mean, column.unit)} on average, from "
                f"{amount(min(values), column.unit)} to {amount(max(values), column.unit)}")  # fmt: skip
        paths = _areas(panel, drawn) if drawn else [("", [100 * v / top for v in values])]
        yield '<figure class="strip">'
        yield f"<figcaption>{escape(panel.title or 'GPU')}: {escape(summary)}</figcaption>"
        yield (
            f'<div class="plot"><span class="y">{amount(top, column.unit)}</span>'
            f'<svg viewBox="0 0 {count} 100" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(summary)}">{"".join(_area(*path) for path in paths)}</svg></div>'
        )
        yield from _axis(panel)
        yield "</figure>"


def _areas(panel: Panel, parts: Sequence[Column]) -> list[tuple[str, list[float]]]:
    # From the last part to the first, each with all before it below: what is drawn later covers that.
    so_far = [0.0] * len(panel.width)
    areas = []
    for part, color in zip(parts, _colors(parts), strict=True):
        values = zip(so_far, panel.values[part.name], panel.width, strict=True)
        so_far = [before + 100 * (value or 0) / (width or 1) for before, value, width in values]
        areas.append((color, so_far))
    return [area for area in reversed(areas) if area[0] != OUTSIDE]


def _area(color: str, heights: Sequence[float]) -> str:
    # Equal bins side by side are one line; a height in per cent of the picture's.
    steps = "".join(
        f"V{100 - float(height):g}h{len(list(run))}"
        for height, run in groupby(f"{height:.1f}" for height in heights)
    )
    kind = f' class="{color}"' if color else ""
    return f'<path{kind} d="M0 100{steps}V100z"/>'


def _axis(panel: Panel) -> Iterator[str]:
    low, high = min(t for t in panel.start if t is not None), panel.end
    moments = (low + (high - low) * part // 4 for part in range(5))
    yield f'<div class="x">{"".join(f"<span>{amount(t, Unit.NS)}</span>" for t in moments)}</div>'


def _heat_over_time(shown: Sequence[Panel], column: Column, *, shared: bool) -> Iterator[str]:
    values_of_panels = [_on_one_axis(panel, shown, column) if shared else panel.values[column.name]
            for panel in shown]  # fmt: skip
    bins = max(map(len, values_of_panels))
    step = next((n for n in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 60)
                 if len(shown) * bins / n <= _CELLS), bins)  # fmt: skip
    yield '<figure class="heat"><figcaption>'
    axis = "" if shared else ", each row from the start to the end of its own window"
    yield f"{escape(column_words(column.name))} over time{axis}"
    yield f"</figcaption>{_scale('0 %', '100 %')}<ol>"
    for title, panel, values in zip(_titles(shown), shown, values_of_panels, strict=True):
        groups = [values[i : i + step] for i in range(0, len(values), step)]
        levels = [_mean_level(group) for group in groups]
        recorded = [v for v in values if v is not None]
        mean = sum(recorded) / max(len(recorded), 1)
        marks, place = [], 0
        for level, run in groupby(levels):
            width = len(list(run))
            if level is not None:
                marks.append(f'<rect class="h{level}" x="{place}" width="{width}" height="1"/>')
            place += width
        summary = f"{title}: {amount(mean, column.unit)} on average"
        yield (
            f'<li><span class="lb" title="{tooltip(panel.title)}">{escape(shortened(title))}</span>'
            f'<svg viewBox="0 0 {len(levels)} 1" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(summary)}">{"".join(marks)}</svg>'
            f'<span class="vl">{amount(mean, column.unit)}</span>'
        )
    yield "</ol></figure>"


_LOW = 8
"""More strips than these are lower."""


def _classes_over_time(
    shown: Sequence[Panel], column: Column, parts: Sequence[Column], late: Collection[int]
) -> Iterator[str]:
    # Devices one below the other, each bin filled by what it consisted of.
    drawn = [part for part in parts if any(any(panel.values[part.name]) for panel in shown)]
    step = -(-sum(len(panel.start) for panel in shown) // _CELLS)
    begins, axis = _begins(shown)
    of = (
        ", all from the first one's start by their times of day"
        if axis
        else ", each row from the start to the end of its own window"
    )
    size = "low" if len(shown) > _LOW else "high"
    title = f"{column_words(column.name)} over time{of}"
    yield f'<figure class="heat classes {size}"><figcaption>{escape(title)}</figcaption>'
    yield f"{_legend(map(_series_words, drawn), _colors(drawn))}<ol>"
    for title, panel, begin in zip(_titles(shown), shown, begins, strict=True):
        length = panel.end - _begin(panel)
        values = zip(panel.values[column.name], panel.width, strict=True)
        busy = sum((value or 0) * (width or 0) for value, width in values) / length
        bins = _coarser(panel, step)
        paths = "".join(_area(*path) for path in _areas(bins, drawn))
        is_late = any(f"rank {rank}" in panel.title.split(", ") for rank in late)
        words = f"{title}: {amount(busy, column.unit)} on average{', late' if is_late else ''}"
        left, wide = (100 * time / (axis or length) for time in (begin, length))
        yield (
            f'<li{" class=late" if is_late else ""}><span class="lb" title="{tooltip(panel.title)}">'
            f"{escape(shortened(title))}{' <b>late</b>' if is_late else ''}</span>"
            f'<span class="over"><svg style="margin-left:{left:.2f}%;width:{wide:.2f}%" '
            f'viewBox="0 0 {len(bins.start)} 100" preserveAspectRatio="none" '
            f'role="img" aria-label="{escape(words)}">{paths}</svg></span>'
            f'<span class="vl">{amount(busy, column.unit)}</span>'
        )
    yield "</ol>"
    if axis:
        moments = "".join(f"<span>{amount(axis * part // 4, Unit.NS)}</span>" for part in range(5))
        yield f'<div class="x">{moments}</div>'
    yield "</figure>"


def _begin(panel: Panel) -> int:
    return min(int(t) for t in panel.start if t is not None)


def _begins(shown: Sequence[Panel]) -> tuple[list[int], int]:
    # When each begins on an axis of all, and how long that is; 0 where a time of day is missing, or
    # windows lie so far apart that all would be narrow.
    lengths = [panel.end - _begin(panel) for panel in shown]
    starts = [panel.clock[0] if panel.clock else None for panel in shown]
    known = [int(start) for start in starts if start is not None]
    if len(known) == len(shown):
        first = min(known)
        whole = max(start - first + length for start, length in zip(known, lengths, strict=True))
        if whole <= 2 * max(lengths):
            return [start - first for start in known], whole
    return [0] * len(shown), 0


def _coarser(panel: Panel, step: int) -> Panel:
    # So many bins side by side become one.
    def summed(values: Sequence[Number]) -> tuple[Number, ...]:
        groups = (values[i : i + step] for i in range(0, len(values), step))
        return tuple(sum(value or 0 for value in group) for group in groups)

    values = {name: summed(each) for name, each in panel.values.items()}
    return replace(panel, values=values, start=panel.start[::step], width=summed(panel.width))


def _on_one_axis(panel: Panel, shown: Sequence[Panel], column: Column) -> tuple[Number, ...]:
    width = max(w for each in shown for w in each.width if w is not None) or 1
    last = max(int(t // width) for each in shown for t in each.start if t is not None)
    binned: list[Number] = [None] * (last + 1)
    for start, value in zip(panel.start, panel.values[column.name], strict=True):
        if start is not None:
            binned[int(start // width)] = value
    return tuple(binned)


def _mean_level(group: Sequence[Number]) -> int | None:
    recorded = [value for value in group if value is not None]
    return _level(sum(recorded) / len(recorded), 100) if recorded else None


def _level(value: float, top: float) -> int:
    return round(_LEVELS * value / top) if top > 0 else 0


def _differ(values: Iterable[float]) -> bool:
    # Colors are for what to look at.
    recorded = list(values)
    return max(recorded) - min(recorded) > _MIN_SPREAD * max(recorded)


def _heat_cell(value: Number, unit: Unit, top: float | None) -> str:
    # Without a color where there is no top of a scale.
    level = "" if value is None or top is None else f' class="h{_level(value, top)}"'
    return f"<td{level}>{amount(value, unit)}"


def _scale(low: str, high: str) -> str:
    marks = "".join(f'<i class="h{level}"></i>' for level in range(_LEVELS + 1))
    return f'<p class="scale">{low} <span>{marks}</span> {high}</p>'


# -- many profiles


def _matrix(shown: Sequence[Panel], columns: Sequence[Column]) -> Iterator[str]:
    main = columns[:1] if columns[0].name.startswith(("before_", "api_")) else columns
    sums: dict[str, dict[int, float]] = {}
    for column_index, panel in enumerate(shown):
        for i, label in enumerate(panel.labels):
            row = sums.setdefault(label, {})
            total = sum(panel.values[column.name][i] or 0 for column in main)
            row[column_index] = row.get(column_index, 0) + total
    if all(panel.start and not panel.width for panel in shown):
        bins = {label: start for p in shown for label, start in zip(p.labels, p.start, strict=True)}
        ranked = sorted(sums, key=lambda label: bins[label] or 0)
    else:
        ranked = sorted(sums, key=lambda label: -sum(sums[label].values()))
    ranked = ranked[:_MOST_MATRIX]
    unit = columns[0].unit
    # One scale for all rows: what is darker is more.
    top = max(max(sums[label].values()) for label in ranked)
    what = column_words(main[0].name) if len(main) == 1 else "sum of all parts"
    yield (
        f'<figure class="matrix"><figcaption>{escape(what)}: '
        f"colored are rows whose values differ by more than {100 * _MIN_SPREAD:.0f} %"
    )
    yield f'</figcaption>{_scale("0", amount(top, unit))}<div class="scroll" role="region" '
    yield 'tabindex="0" aria-label="heat map"><table><thead><tr><th class="t">'
    yield "".join(f'<th scope="col">{escape(title)}' for title in _titles(shown))
    yield "</tr></thead><tbody>"
    for label in ranked:
        row_top = top if _differ(sums[label].get(i, 0) for i in range(len(shown))) else None
        yield f'<tr><th scope="row" class="t" title="{tooltip(label)}">{escape(shortened(label))}</th>'
        yield "".join(_heat_cell(sums[label].get(i), unit, row_top) for i in range(len(shown)))
    yield "</table></div>"
    if len(sums) > len(ranked):
        yield f'<p class="quiet">The first {len(ranked)} of {len(sums):,}.</p>'
    yield "</figure>"


def device_matrix(overview: Section) -> Iterator[str]:
    """Yield a heat map of devices and what was measured on each; nothing for a single device."""
    devices, place = list(rows(overview)), places(overview)
    columns = [c for c in overview.columns if c.name in _COMPARED
               and any(row[c.name] for row in devices)]  # fmt: skip
    if len(devices) < 2 or not columns:
        return
    yield '<figure class="matrix"><figcaption>GPUs side by side. Colored: columns '
    yield f"whose values differ by more than {100 * _MIN_SPREAD:.0f} %</figcaption>"
    yield _scale("0", "the most of a column, or 100 %")
    yield '<div class="scroll" role="region" tabindex="0" aria-label="GPUs side by side">'
    yield '<table><thead><tr><th class="t">'
    yield "".join(f'<th scope="col">{escape(column_words(column.name))}' for column in columns)
    yield "</tr></thead><tbody>"
    tops: dict[str, float | None] = {}
    for column in columns:
        recorded = [row[column.name] for row in devices if row[column.name] is not None]
        top = 100.0 if column.unit is Unit.PCT else max(recorded)
        tops[column.name] = top if _differ(recorded) else None
    for row in devices:
        yield f'<tr><th scope="row" class="t">{escape(place(row))}</th>'
        yield from (_heat_cell(row[c.name], c.unit, tops[c.name]) for c in columns)
    yield "</table></div></figure>"
