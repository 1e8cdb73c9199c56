"""Two sides' reports into one: what changed, by how much, and whether it is more than noise."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

from nsysconv.diff.change import UNCERTAIN, Change, change_of
from nsysconv.diff.names import NameKey
from nsysconv.diff.noise import RunNoise
from nsysconv.diff.rows import (
    BOTH,
    ONLY_BASE,
    ONLY_OTHER,
    PER_STEP,
    STEP_COUNT,
    Key,
    Row,
    RowMatcher,
    RowPair,
    SummedRow,
    main_measure,
    measures_of,
    row_matcher,
    sum_by_key,
)
from nsysconv.notes import Note, Severity
from nsysconv.notes import merged as merged_notes
from nsysconv.report import Column, Report, Unit, common_slice, report_table

_FEW_REPEATS = 4
# The share of 95 % intervals that miss the true value.
_BY_CHANCE = 0.05
_REL_TOL = 1e-9

HalfWidths = Callable[[RowMatcher], Mapping[Key, Mapping[str, float]]]
"""Half the width of the interval of the logarithm of a ratio, by row and measure, for sides that are
one run each; rows and measures without values by step are left out."""


@dataclass(frozen=True)
class Comparison:
    """A report of changes, and all rows, changed or not; `rows` None where it could not be made.

    The report has an interval for each cell, and takes far longer than the rows: limits and contributors,
    which only look at these, do without it.
    """

    make_report: Callable[[], Report]
    rows: tuple[RowPair, ...] | None

    @cached_property
    def report(self) -> Report:
        """Return the report, made when it is asked for."""
        return self.make_report()


@dataclass(frozen=True)
class CompareOptions:
    """Rules for matching and judging the rows of two sides.

    `name_keys` give the keys of key columns' texts. Columns that are not `comparable` have no verdict;
    without `one_sided`, nor has a row that is on one side only. `half_widths` and `noise` are for sides
    that are one run each. `notes` are put before those of the comparison itself. `renamed`: keys of rows
    that are taken for another one.
    """

    name_keys: Mapping[str, NameKey] = field(default_factory=dict)
    half_widths: HalfWidths = lambda matcher: {}
    notes: Sequence[Note] = ()
    comparable: Callable[[Column], bool] = lambda column: True
    one_sided: bool = True
    noise: RunNoise = field(default_factory=RunNoise)
    renamed: Mapping[Key, Key] = field(default_factory=dict)


def compare_reports(
    base: Sequence[Report], other: Sequence[Report], options: CompareOptions
) -> Comparison:
    """Compare the same report of two sides, given once for each run; of several runs the means.

    Rows are sorted by the change of the main measure. Rows that did not change are counted in a note
    and left out. Rows of one side only are kept: what adds up is 0 on the other.
    """
    columns = base[0].columns
    incomplete = [
        (name, reports)
        for name, reports in (("base", base), ("other", other))
        if any(report.table is None for report in reports)
    ]
    if incomplete:
        missing = [
            f"{fact} ({name})"
            for name, reports in incomplete
            for fact in dict.fromkeys(fact for report in reports for fact in report.not_recorded)
        ]
        main = main_measure(columns)
        return Comparison(
            partial(
                _changes_report, base, other, main, notes=options.notes, not_recorded=tuple(missing)
            ),
            None,
        )
    measures = measures_of(columns)
    matcher, sides, rows = _match_rows(base, other, options)
    main = _main_of(columns, rows, options.comparable)

    def report() -> Report:
        changed = _changed(rows, measures, main)
        notes = [
            *options.notes,
            *_notes_on_sides(sides, matcher, len(rows) - len(changed)),
            *_notes_on_rows(rows, measures, main),
        ]
        whole = _changes_report(base, other, main, matcher.keys, changed, merged_notes(notes))
        return whole if options.one_sided else _with_both_spellings(whole)

    return Comparison(report, tuple(rows))


def _changed(rows: Iterable[RowPair], measures: Iterable[Column], main: Column) -> list[RowPair]:
    # A share of a whole changes with every other row, so it does not make its row a changed one.
    own = [c.name for c in measures if not (c.unit is Unit.PCT and c.adds)]
    changed = [row for row in rows if row.where != BOTH or any(map(row.differences.get, own))]
    return sorted(changed, key=lambda row: (-abs(row.differences[main.name] or 0), repr(row.key)))


def _match_rows(
    base: Sequence[Report], other: Sequence[Report], options: CompareOptions
) -> tuple[RowMatcher, list[_SideRows], list[RowPair]]:
    runs_of_sides = [[report.rows() for report in reports] for reports in (base, other)]
    columns = base[0].columns
    base_rows, other_rows = (list(chain(*runs)) for runs in runs_of_sides)
    matcher = row_matcher(columns, (base_rows, other_rows), options.name_keys)
    matcher = replace(matcher, renamed=options.renamed)
    measures = measures_of(columns)
    sides = [
        _SideRows(
            [_run_rows(sum_by_key(rows, measures, matcher, i), measures) for rows in runs],
            measures,
        )
        for i, runs in enumerate(runs_of_sides)
    ]
    halves = options.half_widths(matcher) if len(base) == len(other) == 1 else {}
    judged = frozenset(column.name for column in measures if options.comparable(column))
    by_name = {column.name: column for column in measures}
    noise = partial(options.noise.of, base[0].name)
    rows = [
        _row_pair(by_name, key, sides[0], sides[1], halves.get(key, {}), noise, judged)
        for key in dict.fromkeys(key for side in sides for run in side.runs for key in run.rows)
    ]
    if not options.one_sided:
        rows = [row if row.where == BOTH else row._replace(judged=frozenset()) for row in rows]
    return matcher, sides, rows


def _main_of(
    columns: Sequence[Column], rows: Sequence[RowPair], comparable: Callable[[Column], bool]
) -> Column:
    main = main_measure(columns)
    name = "avg_ns" if main.counted_by == STEP_COUNT else PER_STEP
    per_step = next((column for column in columns if column.name == name), None)
    if comparable(main) or per_step is None or not comparable(per_step):
        return main
    has_steps = any(row.differences[name] is not None for row in rows)
    return per_step if has_steps else main


@dataclass(frozen=True)
class _RunRows:
    # These are the rows of one run by key. A measure that adds up is 0 if the run has other rows but
    # not this one.
    rows: Mapping[Key, SummedRow]
    absent: Mapping[str, Any]


def _run_rows(rows: Mapping[Key, SummedRow], measures: Sequence[Column]) -> _RunRows:
    recorded = {
        column.name
        for column in measures
        if not rows or any(row.values[column.name] is not None for row in rows.values())
    }
    absent = {c.name: 0 if c.adds_up and c.name in recorded else None for c in measures}
    return _RunRows(rows, absent)


@dataclass(frozen=True)
class _SideRows:
    runs: Sequence[_RunRows]
    measures: Sequence[Column]

    def row(self, key: Key) -> tuple[Row | None, Mapping[str, Any]]:
        # The row is spelled as in the first run that has it. Its measures are means over the runs.
        if len(self.runs) == 1:
            (run,) = self.runs
            row = run.rows.get(key)
            return (None, run.absent) if row is None else (row.spelled, row.values)
        rows_of_runs = [run.rows.get(key) for run in self.runs]
        spelled = next((row.spelled for row in rows_of_runs if row is not None), None)
        values = {column.name: self.values(key, column.name) for column in self.measures}
        return spelled, {n: None if None in v else sum(v) / len(v) for n, v in values.items()}

    def values(self, key: Key, name: str) -> list[Any]:
        rows = ((run.rows.get(key), run.absent) for run in self.runs)
        return [absent[name] if row is None else row.values[name] for row, absent in rows]


def _row_pair(
    measures: Mapping[str, Column],
    key: Key,
    base: _SideRows,
    other: _SideRows,
    halves: Mapping[str, float],
    noise: Callable[..., float | None],
    judged: frozenset[str],
) -> RowPair:
    (base_row, before), (other_row, after) = base.row(key), other.row(key)
    where = ONLY_OTHER if base_row is None else ONLY_BASE if other_row is None else BOTH
    differences = {name: _difference(value, after[name]) for name, value in before.items()}

    def change(name: str) -> Change | None:
        values = (side.values(key, name) for side in (base, other))
        half = halves.get(name)
        assumed = noise(name, by_step=half is not None, row=base_row or other_row)
        if assumed is not None and where == BOTH:
            # If one replaces the other, either may wait.
            assumed = noise(name, by_step=half is not None, row=other_row)
        return change_of(measures[name], *values, noise=assumed, half_width=half)

    return RowPair(
        key, where, base_row or {}, other_row or {}, before, after, differences, change, judged
    )


def _difference(before: Any, after: Any) -> Any:
    if before is None or after is None:
        return None
    if isinstance(before, float) and math.isclose(before, after, rel_tol=_REL_TOL, abs_tol=0.0):
        return 0.0  # the rest is rounding
    return after - before


def _notes_on_sides(
    sides: Sequence[_SideRows], matcher: RowMatcher, unchanged: int
) -> Iterator[Note]:
    merged_rows = [r for side in sides for run in side.runs for r in run.rows.values() if r.also]
    if merged_rows:
        first = merged_rows[0].also[0]
        text = f"rows with matching names are added up, such as {first}"
        yield Note("names-merged", Severity.INFO, text, len(merged_rows))
    if matcher.summed_over:
        text = f"rows are added up over {', '.join(matcher.summed_over)}, which differ between the sides"
        yield Note("rows-combined", Severity.INFO, text)
    if unchanged:
        yield Note("rows-unchanged", Severity.INFO, "unchanged rows", unchanged)
    base_runs, other_runs = (len(side.runs) for side in sides)
    if base_runs + other_runs > 2 and min(base_runs, other_runs) < _FEW_REPEATS:
        text = f"few runs ({base_runs} and {other_runs}): intervals are wide"
        yield Note("few-repeats", Severity.INFO, text)


def _notes_on_rows(
    rows: Sequence[RowPair], measures: Sequence[Column], main: Column
) -> Iterator[Note]:
    counted = [c.name for c in measures if c.unit in (Unit.COUNT, Unit.BYTES) and not c.real]
    changes = ([row.change(name) for name in counted] for row in rows)
    vary = sum(any(c is not None and c.basis == "repeats" for c in of_row) for of_row in changes)
    if vary:
        text = "rows whose counts or bytes vary between runs of one side"
        yield Note("counts-vary", Severity.INFO, text, vary)
    verdicts = [
        row.verdict(main)
        for row in rows
        if (change := row.judged_change(main.name)) is not None
        and change.basis in ("repeats", "within run")
    ]
    by_chance = round(_BY_CHANCE * len(verdicts))
    if by_chance:
        differ = sum(verdict not in ("same", UNCERTAIN) for verdict in verdicts)
        text = f"rows tested for noise; {differ} differ, {by_chance} expected by chance"
        yield Note("rows-tested", Severity.INFO, text, len(verdicts))


_OF_ONE_NAME = ("name", "path")
_OTHER_NAME = "other_name"
_UNIT = re.compile(r"(?:_bytes_per_s|_ns|_bytes)$")

_Cells = tuple[Column, list[Any]]
"""A column of the report of changes, and its cells."""


def _changes_report(
    base: Sequence[Report],
    other: Sequence[Report],
    main: Column,
    keys: Sequence[str] = (),
    rows: Sequence[RowPair] | None = None,
    notes: Sequence[Note] = (),
    not_recorded: tuple[str, ...] = (),
) -> Report:
    # `main` is the measure that rows are judged by. `rows` None: the comparison could not be made.
    several = len(base) > 1 or len(other) > 1
    cells = list(_columns(base[0].columns, main, keys, rows or (), several=several))
    columns = tuple(column for column, _ in cells)
    by_name = {column.name: values for column, values in cells}
    return Report(
        name=f"diff_{base[0].name}",
        title=f"What changed: {base[0].title}",
        columns=columns,
        table=None if rows is None else report_table(columns, by_name),
        profiles=tuple(ref for report in (*base, *other) for ref in report.profiles),
        slice=common_slice((*base, *other)),
        notes=tuple(notes),
        not_recorded=not_recorded,
        advice=tuple(dict.fromkeys(a for report in (*base, *other) for a in report.advice)),
        row_count=len(rows or ()),
    )


def _with_both_spellings(report: Report) -> Report:
    # People see how either side spells a name, HIP's and CUDA's, one beside the other.
    place = next((i for i, column in enumerate(report.columns) if column.name == "name"), None)
    spelled = [replace(c, brief=True) for c in report.columns if c.name == _OTHER_NAME]
    if place is None or not spelled:
        return report
    rest = [column for column in report.columns if column.name != _OTHER_NAME]
    columns = (*rest[: place + 1], *spelled, *rest[place + 1 :])
    table = report.table and report.table.select([column.name for column in columns])
    return replace(report, columns=columns, table=table)


def _columns(
    columns: Sequence[Column],
    main: Column,
    keys: Sequence[str],
    rows: Sequence[RowPair],
    *,
    several: bool,
) -> Iterator[_Cells]:
    spelled = [row.base or row.other for row in rows]
    for column in columns:
        if column.name in keys:
            yield replace(column, brief=True), [row[column.name] for row in spelled]
    where = [row.where for row in rows]
    doc = "Sides that have the row: both, or only one of them."
    is_brief = any(each != BOTH for each in where)
    yield Column("where", Unit.TEXT, doc, brief=is_brief), where
    doc = (
        f"better or worse for {main.name} (more or less if neither is better); same: changed by "
        "less than 3 %; ~: noise alone can explain the change."
    )
    yield (
        Column("verdict", Unit.TEXT, doc, optional=True),
        [row.verdict(main) for row in rows],
    )
    yield from _of_main(columns, main, rows, several=several)
    for column in measures_of(columns):
        if column is not main:
            yield from _of_measure(column, rows, several=several)
        if column.better is not None or column.unit is Unit.COUNT:
            doc, optional = "The verdict on this column.", column.optional
            verdict = Column(
                f"verdict_{column.name}", Unit.TEXT, doc, brief=False, optional=optional
            )
            yield verdict, [row.verdict(column) for row in rows]
            for end, cells in _ratio_ends(column, rows):
                name = f"ratio_{end}_{_without_unit(column)}"
                doc = f"ratio_{end} of this column."
                yield Column(name, Unit.REAL, doc, brief=False, optional=optional), cells
    doc = (
        "Basis of the verdict: exact (counted), repeats (Student's t over runs), within run "
        "(variation of steps plus assumed run-to-run noise), single run (assumed noise only)."
    )
    changes = [row.judged_change(main.name) for row in rows]
    yield Column("basis", Unit.TEXT, doc, brief=False), [each and each.basis for each in changes]
    docs = {
        "low": f"Lower end of the 95 % interval of the ratio of {main.name}.",
        "high": "Upper end of that interval.",
    }
    for end, cells in _ratio_ends(main, rows):
        yield Column(f"ratio_{end}", Unit.REAL, docs[end], brief=False), cells
    if "name" in keys:
        doc = "The name on the other side, if it differs."
        names = [row.other.get("name") if row.base else None for row in rows]
        yield (
            Column(_OTHER_NAME, Unit.TEXT, doc, brief=False, optional=True),
            [n if n != row["name"] else None for n, row in zip(names, spelled, strict=True)],
        )


def _of_main(
    columns: Sequence[Column], main: Column, rows: Sequence[RowPair], *, several: bool
) -> Iterator[_Cells]:
    base, other, difference, ratio = _of_measure(main, rows, several=several, brief=True)
    yield difference
    shares = [None if by is None else 100 * by for by in difference[1]]
    doc = "The change as a share of base."
    yield Column("diff_pct", Unit.PCT, doc, real=True), _quotients(shares, base[1])
    doc = "95 % interval of that share, and its basis."
    interval = Column("interval", Unit.TEXT, doc, optional=True)
    yield interval, [_interval(row, main) for row in rows]
    yield from (base, other, (replace(ratio[0], optional=False), ratio[1]))
    counted_by = _counted_by(main, columns)
    if counted_by:
        whole = main_measure(columns).name
        by_count = [_from_count(row, main.name, whole, counted_by) for row in rows]
        by_mean = [
            None if part is None or all_of_it is None else all_of_it - part
            for part, all_of_it in zip(by_count, difference[1], strict=True)
        ]
        doc = f"Part of the difference due to a different {counted_by}, at base's mean."
        real = main.real or several
        yield Column(f"by_count_{main.name}", main.unit, doc, real=real), by_count
        doc = "Part of the difference due to a different mean."
        yield Column(f"by_mean_{main.name}", main.unit, doc, real=real), by_mean


def _of_measure(
    column: Column, rows: Sequence[RowPair], *, several: bool, brief: bool = False
) -> tuple[_Cells, _Cells, _Cells, _Cells]:
    # The result is four cells: base, other, their difference and their ratio.
    plain = replace(column, real=column.real or several, brief=brief)

    def named(which: str, words: str) -> Column:
        return replace(plain, name=f"{which}_{column.name}", doc=f"{words}: {column.doc}")

    base = [row.base_values[column.name] for row in rows]
    other = [row.other_values[column.name] for row in rows]
    difference = [row.differences[column.name] for row in rows]
    name, doc = f"ratio_{_without_unit(column)}", "Other divided by base."
    ratio = Column(name, Unit.REAL, doc, brief=False, optional=column.optional)
    return (
        (named("base", "Base"), base),
        (named("other", "Other"), other),
        (named("diff", "Other minus base"), difference),
        (ratio, _quotients(other, base)),
    )


def _without_unit(column: Column) -> str:
    return _UNIT.sub("", column.name)


def _quotients(values: Sequence[Any], divisors: Sequence[Any]) -> list[Any]:
    pairs = zip(values, divisors, strict=True)
    return [value / by if by and value is not None else None for value, by in pairs]


def _ratio_ends(column: Column, rows: Sequence[RowPair]) -> Iterator[tuple[str, list[Any]]]:
    changes = [row.judged_change(column.name) for row in rows]
    ratios = [None if change is None else change.ratio for change in changes]
    yield "low", [ratio and ratio.low for ratio in ratios]
    yield "high", [ratio and ratio.high for ratio in ratios]


def _counted_by(main: Column, columns: Sequence[Column]) -> str:
    # The result is the column that counts the operations of the main sum, or "" if the sum is not
    # split. Only rows with a single name are split: if a row holds several kernels, the mean changes
    # with how often each runs.
    of_one_name = any(each.key and each.name in _OF_ONE_NAME for each in columns)
    first = main_measure(columns)
    is_split = of_one_name and (main.name == PER_STEP or main is first)
    return first.counted_by if is_split else ""


def _interval(row: RowPair, main: Column) -> str | None:
    change = row.judged_change(main.name)
    if change is None:
        return None
    # If only one side has the row, there is no ratio, and the words only name what the row rests on.
    return change.interval_words(main.unit) if row.where == BOTH else change.basis_words


def _from_count(row: RowPair, main: str, whole: str, counted_by: str) -> Any:
    # The result is the part of a sum's difference that another count makes at base's mean: (n1 - n0) *
    # sum0 / n0, an integer if the sums are. If one side has no operation, it is the whole difference.
    # Sums per step go with counts per step.
    difference = row.differences[main]
    spent, spent_after = row.base_values[main], row.other_values[main]
    before, after = row.base_values.get(counted_by), row.other_values.get(counted_by)
    if difference is None or before is None or after is None:
        return None
    if not before or not after:
        return difference
    if main != whole:
        # The number of steps is the sum divided by the sum per step.
        sum_before, sum_after = row.base_values[whole], row.other_values[whole]
        if not sum_before or not sum_after:
            return None
        before, after = before * spent / sum_before, after * spent_after / sum_after
    if isinstance(spent, int) and isinstance(before, int) and isinstance(after, int):
        twice = 2 * (after - before) * spent + before
        return twice // (2 * before)
    return (after - before) * spent / before
