"""Metrics of many runs in the order of their recording: a series per row, and where it changed.

Which change is of which kind, with an example: docs/definitions/comparing.md, "History".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from statistics import median
from typing import Any, Literal

from nsysconv.diff.change_points import LEAST_SEGMENT, change_points, outliers
from nsysconv.diff.metrics import ESCAPES, METRIC, metric_parts
from nsysconv.diff.rows import measures_of
from nsysconv.errors import UsageError, available_hint
from nsysconv.report import Column, Report, Unit, human, report_table, utc

Kind = Literal["real", "environment", "machine", "noise", "appears", "vanishes"]

_GRAMMAR = (
    f"Write REPORT.COLUMN, for example overview.kernel_sum_ns or kernels[/gemm/].avg_ns; {ESCAPES}"
)
_LEVELS = "▁▂▃▄▅▆▇█"
TREND_WIDTH = 32
# So many rows of a metric have to change alike before it is the machine that did.
_FEWEST_ROWS = 4
_MOST_ROWS_SHARE = 0.8
_ALIKE = 2.0


@dataclass(frozen=True)
class Metric:
    """A column of a report, of the rows whose text keys the pattern matches (None: all)."""

    text: str
    report: str
    column: Column
    pattern: re.Pattern[str] | None = None

    @property
    def is_per_step(self) -> bool:
        """Return whether it is divided by the number of steps: a sum, a count or the window."""
        summed = self.column.adds_up or self.column.name == "window_ns"
        return self.report != "steps" and summed and "per_step" not in self.column.name


@dataclass(frozen=True)
class Run:
    """A run as a history knows it. `environment`: GPU, driver, and tool with version, in words."""

    label: str
    recorded_ns: int | None
    environment: tuple[str, ...]
    hosts: frozenset[str] = frozenset()


Values = Mapping[tuple[str, str], float]
"""The values of a run: by metric in words and row in words."""


@dataclass(frozen=True)
class Series:
    """Hold the values of one row of a metric in one environment; `places` are its runs', in order."""

    metric: str
    column: Column
    row: str
    environment: tuple[str, ...]
    places: tuple[int, ...]
    values: tuple[float, ...]

    @cached_property
    def points(self) -> list[int]:
        """Return where the values step, as `change_points`."""
        return change_points(self.values)

    @property
    def levels(self) -> list[tuple[int, int]]:
        """Return the first place of each level, and that behind its last."""
        return list(pairwise([0, *self.points, len(self.values)]))

    @property
    def spread(self) -> float:
        """Return how far values usually are from the median of their level, as a share of it."""
        far = [
            abs(value / middle - 1)
            for low, high in self.levels
            if (middle := median(self.values[low:high]))
            for value in self.values[low:high]
        ]
        return 1.4826 * median(far) if far else 0.0


@dataclass(frozen=True)
class LevelChange:
    """A change of a series at the run at `place`, or that run alone if it is noise.

    `counts` are the runs before and after; `before` is None where the row appears, `after` where it
    vanishes. `base` is the place of the last run before, if the program changed.
    """

    series: Series
    kind: Kind
    place: int
    before: float | None
    after: float | None
    counts: tuple[int, int]
    why: str = ""
    base: int | None = None


def parse_metric(text: str, columns: Mapping[str, Sequence[Column]]) -> Metric:
    """Parse `REPORT.COLUMN` or `REPORT[/regex/].COLUMN`; raise UsageError for the rest."""
    match = re.fullmatch(METRIC, text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a metric", hint=_GRAMMAR)
    report, name, pattern = metric_parts(match, columns)
    measures = {column.name: column for column in measures_of(columns[report])}
    if name not in measures:
        hint = available_hint(name, list(measures))
        raise UsageError(f"{report} has no column of numbers {name!r}", hint=hint)
    return Metric(text.strip(), report, measures[name], pattern)


def values_of(
    metric: Metric,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Mapping[str, Any]]],
    steps: Sequence[int | None],
) -> dict[tuple[str, str], float]:
    """Return the values of a metric in one run: of its report's rows by profile, and the profiles' steps.

    Rows of one key are added up, or left out where that means nothing. Sums of a profile with steps are
    those of one step.
    """
    pairs = [(row, n) for mine, n in zip(rows, steps, strict=True) for row in mine]
    found: dict[tuple[str, str], float | None] = {}
    for (row, count), (words, texts) in zip(pairs, _words(columns, pairs), strict=True):
        value = row[metric.column.name]
        if metric.pattern is not None and not metric.pattern.search(texts):
            continue
        key = (metric.text, words)
        if metric.is_per_step and count:
            key = (f"{metric.text} per step", words)
            value = None if value is None else value / count
        if key in found:
            old = found[key]
            can_add = metric.column.adds_up and None not in (old, value)
            value = old + value if can_add else None
        found[key] = value
    return {key: float(value) for key, value in found.items() if value is not None}


def _words(
    columns: Sequence[Column], pairs: Sequence[tuple[Mapping[str, Any], int | None]]
) -> Iterator[tuple[str, str]]:
    # What a row is called, and its texts alone. Numbers are left out if all rows have the same; those of
    # devices and processes mean nothing in another run, but their order does.
    keys = [column for column in columns if column.key and column.name != "profile"]
    numbers = {}
    for column in keys:
        if column.unit is not Unit.TEXT:
            values = sorted({row[column.name] for row, _ in pairs} - {None})
            is_own = column.name == "rank"
            numbers[column.name] = {v: v if is_own else i for i, v in enumerate(values)}
    for row, _ in pairs:
        texts = [str(row[c.name]) for c in keys if c.unit is Unit.TEXT and row[c.name] is not None]
        counted = [
            f"{name.removesuffix('_id')} {places[row[name]]}"
            for name, places in numbers.items()
            if len(places) > 1 and row[name] is not None
        ]
        yield " ".join((*counted, *texts)), " ".join(texts)


def series_of(
    metrics: Sequence[Metric], runs: Sequence[Run], values: Sequence[Values]
) -> list[Series]:
    """Return the series of runs in order, each with its values; another environment is another series."""
    columns = {text: m.column for m in metrics for text in (m.text, f"{m.text} per step")}
    order = {text: place for place, text in enumerate(columns)}
    found: dict[tuple[str, str, tuple[str, ...]], list[tuple[int, float]]] = {}
    for place, (run, of_run) in enumerate(zip(runs, values, strict=True)):
        for (metric, row), value in of_run.items():
            found.setdefault((metric, row, run.environment), []).append((place, value))
    series = [
        Series(metric, columns[metric], row, environment, *zip(*pairs, strict=True))
        for (metric, row, environment), pairs in found.items()
    ]
    return sorted(series, key=lambda each: order[each.metric])


def changes_of(series: Sequence[Series], runs: Sequence[Run]) -> list[LevelChange]:
    """Return all changes of these series, in their order and that of the runs; noise comes last."""
    groups: dict[tuple[str, str], list[Series]] = {}
    beside: dict[tuple[str, tuple[str, ...]], list[Series]] = {}
    for each in series:
        groups.setdefault((each.metric, each.row), []).append(each)
        beside.setdefault((each.metric, each.environment), []).append(each)
    changes: list[LevelChange] = []
    for each in series:
        changes += _border(each, groups[each.metric, each.row])
        others = [o for o in beside[each.metric, each.environment] if o is not each]
        changes += [
            _step(each, low, place, high, runs, others)
            for (low, place), (_, high) in pairwise(each.levels)
        ]
        changes += _comings(each, others)
        changes += _noise(each)
    return sorted(changes, key=lambda change: change.kind == "noise")


def _border(each: Series, of_row: Sequence[Series]) -> Iterator[LevelChange]:
    # Where the first run of an environment follows one of another.
    first = each.places[0]
    earlier = [o for o in of_row if o.places[0] < first]
    if not earlier:
        return
    last = max(earlier, key=lambda other: max(p for p in other.places if p < first))
    known = [value for p, value in zip(last.places, last.values, strict=True) if p < first]
    low = max((point for point in last.points if point < len(known)), default=0)
    high = each.levels[0][1]
    pairs = zip(last.environment, each.environment, strict=True)
    why = "; ".join(f"{old} to {new}" for old, new in pairs if old != new)
    yield LevelChange(
        each,
        "environment",
        first,
        median(known[low:]),
        median(each.values[:high]),
        (len(known) - low, high),
        why,
    )


def _step(
    each: Series, low: int, place: int, high: int, runs: Sequence[Run], others: Sequence[Series]
) -> LevelChange:
    before, after = each.values[low:place], each.values[place:high]
    kind, why = _kind(each, (low, place, high), runs, others)
    counts, base = (len(before), len(after)), each.places[place - 1]
    return LevelChange(
        each,
        kind,
        each.places[place],
        median(before),
        median(after),
        counts,
        why,
        base if kind in ("real", "machine") else None,
    )


def _kind(
    each: Series, level: tuple[int, int, int], runs: Sequence[Run], others: Sequence[Series]
) -> tuple[Kind, str]:
    low, place, high = level
    near = range(max(low, place - LEAST_SEGMENT), min(high, place + LEAST_SEGMENT))
    hosts = [runs[each.places[i]].hosts for i in near]
    old, new = (
        frozenset().union(*some) for some in (hosts[: place - near[0]], hosts[place - near[0] :])
    )
    if old and new and not old & new:
        return "environment", f"host {_listed(old)} to {_listed(new)}"
    own = _ratio(each, each.places[low], each.places[place], each.places[high - 1])
    ratios = [
        _ratio(o, each.places[low], each.places[place], each.places[high - 1]) for o in others
    ]
    known = [ratio for ratio in ratios if ratio is not None]
    if own and len(known) + 1 >= _FEWEST_ROWS:
        alike = 1 + sum(1 / _ALIKE <= ratio / own <= _ALIKE for ratio in known)
        if alike >= _MOST_ROWS_SHARE * (len(known) + 1):
            return "machine", f"{alike} of {len(known) + 1} rows change alike"
    return "real", ""


def _ratio(each: Series, low: int, place: int, last: int) -> float | None:
    # The logarithm of the change of a row between the same runs.
    pairs = list(zip(each.places, each.values, strict=True))
    before = [value for at, value in pairs if low <= at < place]
    after = [value for at, value in pairs if place <= at <= last]
    if not before or not after or min(median(before), median(after)) <= 0:
        return None
    return math.log(median(after) / median(before))


def _comings(each: Series, others: Sequence[Series]) -> Iterator[LevelChange]:
    # Where the row appears or vanishes, while others of its metric are there: for some runs, not one.
    values = dict(zip(each.places, each.values, strict=True))
    every = sorted({place for series in (each, *others) for place in series.places})
    stretches = [list(places) for _, places in groupby(every, key=values.__contains__)]
    for old, new in pairwise(stretches):
        counts = len(old), len(new)
        if min(counts) >= LEAST_SEGMENT:
            before, after = (
                median(values[p] for p in places) if places[0] in values else None
                for places in (old, new)
            )
            kind: Kind = "appears" if before is None else "vanishes"
            yield LevelChange(each, kind, new[0], before, after, counts, base=old[-1])


def _noise(each: Series) -> Iterator[LevelChange]:
    for place in outliers(each.values, each.points):
        low, high = next((a, b) for a, b in each.levels if a <= place < b)
        middle = median(each.values[low:high])
        yield LevelChange(
            each, "noise", each.places[place], middle, each.values[place], (high - low, 1)
        )


def _listed(words: frozenset[str]) -> str:
    return ", ".join(sorted(words))


# -- as reports


def trend(values: Sequence[float]) -> str:
    """Return values as a line of blocks, at most 32: each is the median of as many runs as the others."""
    width = min(len(values), TREND_WIDTH)
    edges = [len(values) * i // width for i in range(width + 1)] if width else []
    heights = [median(values[low:high]) for low, high in pairwise(edges)]
    low, high = min(heights, default=0.0), max(heights, default=0.0)
    # What varies by less than 5 % of its value looks flat.
    scale = max(high - low, 0.05 * abs(high)) or 1.0
    middle, top = (low + high) / 2, len(_LEVELS) - 1
    return "".join(_LEVELS[round(((h - middle) / scale + 0.5) * top)] for h in heights)


_ROW = Column(
    "row",
    Unit.TEXT,
    "The row, by its keys; null: the report has a single row.",
    key=True,
    optional=True,
)
_METRIC_COLUMN = Column("metric", Unit.TEXT, "The column of a report; sums are per step.", key=True)
_UNIT = Column("unit", Unit.TEXT, "The unit of the values.", brief=False)
SERIES_COLUMNS = (
    _METRIC_COLUMN,
    _ROW,
    Column("environment", Unit.TEXT, "GPU; driver; tool and version.", key=True),
    Column("run_count", Unit.COUNT, "Runs with a value."),
    Column("level", Unit.TEXT, "Median of the runs since the last change."),
    Column("spread_pct", Unit.PCT, "Typical deviation of runs from the median of their level."),
    Column(
        "since",
        Unit.TEXT,
        "First run of this level; null: the first run of the series.",
        optional=True,
    ),
    Column("trend", Unit.TEXT, "The values from the first run to the last, as a bar chart."),
    Column("first_run", Unit.TEXT, "The first run.", brief=False),
    Column("last_run", Unit.TEXT, "The last run.", brief=False),
    Column("level_med", Unit.REAL, "The level as a number.", brief=False),
    _UNIT,
)
CHANGE_COLUMNS = (
    _METRIC_COLUMN,
    _ROW,
    Column("run", Unit.TEXT, "The first run after the change.", key=True),
    Column(
        "kind",
        Unit.TEXT,
        "real; environment: GPU, driver, tool or host changed; machine: most rows of the metric change "
        "alike; noise: this run alone is far from its level; appears, vanishes: runs before, or after, "
        "lack the row.",
    ),
    Column("verdict", Unit.TEXT, "worse, better, more or less; null: of other kinds."),
    Column("change", Unit.TEXT, "Medians before and after, and the change as a share."),
    Column("runs", Unit.TEXT, "Runs before and after, to the next change."),
    Column(
        "why",
        Unit.TEXT,
        "What changed in the environment, or the number of rows that changed.",
        optional=True,
    ),
    Column("recorded", Unit.TEXT, "When the run was recorded; null: not recorded.", brief=False),
    Column(
        "base_run", Unit.TEXT, "Last run before the change; null: noise, environment.", brief=False
    ),
    Column("change_pct", Unit.PCT, "The change as a share of the median before.", brief=False),
    Column("before_med", Unit.REAL, "Median before; null: it appears.", brief=False),
    Column("after_med", Unit.REAL, "Median after; null: it vanishes.", brief=False),
    _UNIT,
)

RUN_COLUMNS = (
    _METRIC_COLUMN,
    _ROW,
    Column("environment", Unit.TEXT, "GPU; driver; tool and version.", key=True),
    Column("run", Unit.TEXT, "Run, in the order of recording.", key=True),
    Column("recorded", Unit.TEXT, "When the run was recorded; null: not recorded."),
    Column("value", Unit.REAL, "Value of the metric in this run."),
    Column("level_med", Unit.REAL, "Median of the runs between the changes around it."),
    Column("usual_low", Unit.REAL, "That median less the series' spread."),
    Column("usual_high", Unit.REAL, "That median plus the series' spread."),
    _UNIT,
)


def history_report(series: Sequence[Series], runs: Sequence[Run]) -> Report:
    """Return a row per series."""
    rows: list[tuple[Any, ...]] = []
    for each in series:
        low, high = each.levels[-1]
        level, places = median(each.values[low:high]), each.places
        keys = each.metric, each.row or None, "; ".join(each.environment)
        now = human(level, each.column.unit), 100 * each.spread
        since = runs[places[low]].label if low else None
        ends = runs[places[0]].label, runs[places[-1]].label
        shown = since, trend(each.values), *ends, level, each.column.unit.value
        rows.append((*keys, len(each.values), *now, *shown))
    return _report("history", "History", SERIES_COLUMNS, rows)


def runs_report(series: Sequence[Series], runs: Sequence[Run]) -> Report:
    """Return a row per series and run, with the level that the run is on."""
    rows: list[tuple[Any, ...]] = []
    for each in series:
        keys, unit = (each.metric, each.row or None, "; ".join(each.environment)), each.column.unit
        for low, high in each.levels:
            level = median(each.values[low:high])
            far = abs(level) * each.spread
            usual = level, level - far, level + far
            for place, value in zip(each.places[low:high], each.values[low:high], strict=True):
                at = runs[place].recorded_ns
                recorded = None if at is None else utc(at)
                rows.append((*keys, runs[place].label, recorded, value, *usual, unit.value))
    return _report("history_runs", "Each run", RUN_COLUMNS, rows)


def changes_report(changes: Sequence[LevelChange], runs: Sequence[Run]) -> Report:
    """Return a row per change."""
    rows: list[tuple[Any, ...]] = []
    for each in changes:
        run, unit = runs[each.place], each.series.column.unit
        values = each.before, each.after
        share = (
            100 * (each.after / each.before - 1) if each.before and each.after is not None else None
        )
        words = " → ".join("none" if value is None else human(value, unit) for value in values)
        words += "" if share is None else f" ({share:+.1f} %)"
        keys = each.series.metric, each.series.row or None, run.label
        shown = each.kind, _verdict(each), words, "{}:{}".format(*each.counts), each.why or None
        recorded = None if run.recorded_ns is None else utc(run.recorded_ns)
        base = None if each.base is None else runs[each.base].label
        rows.append((*keys, *shown, recorded, base, share, *values, unit.value))
    return _report("change_points", "Changes", CHANGE_COLUMNS, rows)


def _report(
    name: str, title: str, columns: tuple[Column, ...], rows: Sequence[tuple[Any, ...]]
) -> Report:
    data = {c.name: [row[i] for row in rows] for i, c in enumerate(columns)}
    return Report(name, title, columns, report_table(columns, data), row_count=len(rows))


def _verdict(change: LevelChange) -> str | None:
    if change.kind not in ("real", "machine") or change.before is None or change.after is None:
        return None
    up = change.after > change.before
    better = change.series.column.better
    if better is None:
        return "more" if up else "less"
    return "worse" if up == (better == "less") else "better"
