"""Two sides' reports into one: what changed, by how much, and whether it is more than noise."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from nsysconv.diff.noise import Interval, repeats
from nsysconv.diff.rows import Key, Merged, Naming, Row, Spelling, merged, naming
from nsysconv.notes import Note, Severity
from nsysconv.notes import merged as merged_notes
from nsysconv.report import Column, Report, common_slice, report_table
from nsysconv.units import Unit

BOTH, ONLY_BASE, ONLY_OTHER = "both", "only in base", "only in other"
UNCERTAIN = "~"
SINGLE, WITHIN, REPEATS = "single run", "within run", "repeats"
_WORSE = {"less": ("worse", "better"), "more": ("better", "worse"), None: ("more", "less")}

_FEW_REPEATS = 4
_DUST = 1e-9
_OF_ONE_NAME = ("name", "path")
_UNIT = re.compile(r"(?:_bytes_per_s|_ns|_bytes)$")

Intervals = Callable[[Naming], Mapping[Key, Interval]]
"""Intervals of the ratio of a report's main measure by row, of sides that are one run each."""


class Compared(NamedTuple):
    """What two sides' rows of one kind are: values by measure, and what can be said of the change.

    `differences` are those of the values, other less base; None where one is not known. `interval_of`
    gives the interval of a measure's ratio, None where nothing tells how it varies; `interval` is that of
    the main measure. `basis` is what a verdict rests on; None: there is to be none.
    """

    key: Key
    where: str
    base: Row
    other: Row
    base_values: Mapping[str, Any]
    other_values: Mapping[str, Any]
    differences: Mapping[str, Any]
    interval: Interval | None
    interval_of: Callable[[str], Interval | None]
    basis: str | None

    def uncertain(self, name: str) -> bool:
        """Whether noise alone may have made the change of a measure."""
        interval = self.interval_of(name)
        return interval is not None and not interval.excludes_no_change


@dataclass(frozen=True)
class Comparison:
    """A report of changes, and all rows, changed or not; `rows` None where it could not be made."""

    report: Report
    rows: tuple[Compared, ...] | None


def compare_reports(
    base: Sequence[Report],
    other: Sequence[Report],
    *,
    spelling: Mapping[str, Spelling],
    intervals: Intervals = lambda names: {},
    notes: Sequence[Note] = (),
    judged: bool = True,
    one_sided: bool = True,
) -> Comparison:
    """What changed from one side to the other, the greatest change of the main measure first.

    Each side gives the same report once for each of its runs; of several, the mean is compared. Rows
    that did not change are counted in a note and left out. Rows of one side only are there: what adds up
    is 0 on the other. `spelling` makes one of the spellings of a key column's texts.
    Without `judged` no row is called better or worse; without `one_sided` none that is on one side only.
    """
    first = base[0]
    lacking = [
        f"{what} ({side})"
        for side, reports in (("base", base), ("other", other))
        for what in dict.fromkeys(fact for report in reports for fact in report.not_recorded)
        if any(report.table is None for report in reports)
    ]
    if any(report.table is None for report in (*base, *other)):
        return Comparison(_report(first, (), None, notes, tuple(lacking), base, other), None)
    told = [[report.rows() for report in reports] for reports in (base, other)]
    names = naming(first.columns, (list(chain(*told[0])), list(chain(*told[1]))), spelling)
    measures, main = _measures(first.columns), main_measure(first.columns)
    of_base, of_other = sides = [
        _Side([_Run.of(merged(rows, measures, names, i), measures) for rows in runs], measures)
        for i, runs in enumerate(told)
    ]
    single = len(base) == len(other) == 1
    known = intervals(names) if single else {}
    rows = [
        _compared(main.name, key, of_base, of_other, known.get(key))
        for key in dict.fromkeys(key for side in sides for run in side.runs for key in run.rows)
    ]
    rows = [
        row if judged and (one_sided or row.where == BOTH) else row._replace(basis=None)
        for row in rows
    ]
    # Shares of a whole change with every other row.
    own = [c.name for c in measures if not (c.unit is Unit.PCT and c.adds)]
    changed = [row for row in rows if row.where != BOTH or any(map(row.differences.get, own))]
    changed.sort(key=lambda row: (-abs(row.differences[main.name] or 0), repr(row.key)))
    said = [
        *notes,
        *_on_names(sides),
        *_notes(names, len(rows) - len(changed), single, len(base), len(other)),
    ]
    report = _report(first, names.keys, changed, merged_notes(said), (), base, other)
    return Comparison(report, tuple(rows))


def main_measure(columns: Sequence[Column]) -> Column:
    """What rows are sorted and judged by: the first sum, else the first that can get worse."""
    measures = [column for column in columns if not column.key]
    return next(
        (column for column in measures if column.counted_by),
        next((column for column in measures if column.better), measures[0]),
    )


def _is_split(column: Column, columns: Sequence[Column]) -> bool:
    """Whether a sum's change is split into what another count makes and what another mean does.

    Only of rows that are of one name each: where a row holds several kernels, the mean changes with how
    often each of them runs.
    """
    of_one_name = any(each.key and each.name in _OF_ONE_NAME for each in columns)
    return of_one_name and bool(column.counted_by) and column is main_measure(columns)


@dataclass(frozen=True)
class _Run:
    """The rows of one run by key. What adds up is 0 where it has no such row but tells of others."""

    rows: Mapping[Key, Merged]
    absent: Mapping[str, Any]

    @classmethod
    def of(cls, rows: Mapping[Key, Merged], measures: Sequence[Column]) -> _Run:
        """The run with these rows, of columns with these measures."""

        def is_told(name: str) -> bool:
            return not rows or any(row.values[name] is not None for row in rows.values())

        return cls(rows, {c.name: 0 if c.adds_up and is_told(c.name) else None for c in measures})


@dataclass(frozen=True)
class _Side:
    """The runs of a side, which have these measures."""

    runs: Sequence[_Run]
    measures: Sequence[Column]

    def row(self, key: Key) -> tuple[Row | None, Mapping[str, Any]]:
        """A row as the first run that has it spells it, None where none has; and its measures, of
        several runs their means.
        """
        if len(self.runs) == 1:
            (run,) = self.runs
            row = run.rows.get(key)
            return (None, run.absent) if row is None else (row.spelled, row.values)
        found = [run.rows.get(key) for run in self.runs]
        spelled = next((row.spelled for row in found if row is not None), None)
        values = {column.name: self.told(key, column.name) for column in self.measures}
        return spelled, {n: None if None in v else sum(v) / len(v) for n, v in values.items()}

    def told(self, key: Key, name: str) -> list[Any]:
        """One measure of a row in each run."""
        rows = ((run.rows.get(key), run.absent) for run in self.runs)
        return [absent[name] if row is None else row.values[name] for row, absent in rows]


def _compared(
    main: str, key: Key, base: _Side, other: _Side, interval: Interval | None
) -> Compared:
    """A row of both sides; `main` is the measure that is judged."""
    (here, before), (there, after) = base.row(key), other.row(key)
    where = ONLY_OTHER if here is None else ONLY_BASE if there is None else BOTH
    differences = {name: _difference(value, after[name]) for name, value in before.items()}
    by_step, repeated = interval, len(base.runs) > 1 or len(other.runs) > 1

    def interval_of(name: str) -> Interval | None:
        if repeated:
            return repeats(*([float(v or 0) for v in side.told(key, name)] for side in (base, other)))
        # Of other measures nothing is known by step.
        return by_step if name == main else None

    interval = interval_of(main)
    basis = SINGLE if interval is None else REPEATS if repeated else WITHIN
    return Compared(
        key, where, here or {}, there or {}, before, after, differences, interval, interval_of, basis
    )


def _difference(before: Any, after: Any) -> Any:
    """After less before; 0 of floats that differ by what adding in another order makes."""
    if before is None or after is None:
        return None
    if isinstance(before, float) and math.isclose(before, after, rel_tol=_DUST, abs_tol=0.0):
        return 0.0
    return after - before


def _measures(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if not column.key and column.unit is not Unit.TEXT]


# -- the report


def _report(
    first: Report,
    keys: Sequence[str],
    rows: Sequence[Compared] | None,
    notes: Sequence[Note],
    lacking: tuple[str, ...],
    base: Sequence[Report],
    other: Sequence[Report],
) -> Report:
    columns = _columns(first.columns, keys, several=len(base) > 1 or len(other) > 1)
    table = None
    if rows is not None:
        table = report_table(columns, _cells(first.columns, keys, rows))
    return Report(
        name=f"diff_{first.name}",
        title=f"What changed: {first.title}",
        columns=columns,
        table=table,
        profiles=tuple(ref for report in (*base, *other) for ref in report.profiles),
        slice=common_slice((*base, *other)),
        notes=tuple(notes),
        not_recorded=lacking,
        advice=tuple(dict.fromkeys(a for report in (*base, *other) for a in report.advice)),
        row_count=len(rows or ()),
    )


def _columns(
    columns: Sequence[Column], keys: Sequence[str], *, several: bool
) -> tuple[Column, ...]:
    main = main_measure(columns)
    result = [replace(column, brief=True) for column in columns if column.name in keys]
    result.append(
        Column("where", Unit.TEXT, "both; or only in base, only in other: rows of one side.")
    )
    result += [
        Column(
            "verdict",
            Unit.TEXT,
            f"better or worse by the declaration of {main.name} (more or less where neither is better); "
            "~: noise alone may have made the change.",
        ),
    ]
    for column in sorted(_measures(columns), key=lambda column: column is not main):
        split = _is_split(column, columns)
        result += _of_measure(column, column is main, several=several, split=split)
    result += [
        Column(
            "basis",
            Unit.TEXT,
            "What the verdict rests on: single run (the values alone), within run (how steps vary, "
            "and runs usually), repeats (Student's t over runs).",
            brief=False,
        ),
        Column(
            "ratio_low", Unit.REAL, f"Least ratio of {main.name} that noise allows.", brief=False
        ),
        Column("ratio_high", Unit.REAL, "Greatest.", brief=False),
    ]
    if "name" in keys:
        result.append(
            Column("other_name", Unit.TEXT, "How the other side spells the name, if otherwise.",
                   brief=False)
        )  # fmt: skip
    return tuple(result)


def ratio_of(column: Column) -> str:
    """What the ratio of a measure is called: without the unit, which it does not have."""
    return "ratio_" + _UNIT.sub("", column.name)


def _of_measure(column: Column, is_main: bool, *, several: bool, split: bool) -> list[Column]:
    """The columns of a measure: both values, the difference and the ratio, and its causes."""
    real = column.real or several
    shown = is_main
    said = {"base": "Base", "other": "Other", "diff": "Other minus base"}
    result = [
        replace(
            column,
            name=f"{which}_{column.name}",
            doc=f"{words}: {column.doc}",
            real=real,
            brief=shown,
        )
        for which, words in said.items()
    ]
    result.append(Column(ratio_of(column), Unit.REAL, "Other divided by base.", brief=shown))
    if split:
        result += [
            Column(
                f"by_count_{column.name}",
                column.unit,
                f"What of the difference comes from another {column.counted_by}, at base's mean.",
                real=real,
                brief=shown,
            ),
            Column(
                f"by_mean_{column.name}",
                column.unit,
                "The rest: what comes from another mean.",
                real=real,
                brief=shown,
            ),
        ]
    return result


def _cells(
    columns: Sequence[Column], keys: Sequence[str], rows: Sequence[Compared]
) -> dict[str, list[Any]]:
    """The report's columns."""
    spelled = [row.base or row.other for row in rows]
    cells: dict[str, list[Any]] = {name: [row[name] for row in spelled] for name in keys}
    cells["where"] = [row.where for row in rows]
    for column in _measures(columns):
        name = column.name
        base = [row.base_values[name] for row in rows]
        other = [row.other_values[name] for row in rows]
        difference = [row.differences[name] for row in rows]
        cells[f"base_{name}"], cells[f"other_{name}"] = base, other
        cells[f"diff_{name}"] = difference
        cells[ratio_of(column)] = [
            after / before if before and after is not None else None
            for before, after in zip(base, other, strict=True)
        ]
        if _is_split(column, columns):
            more = [_from_count(row, column) for row in rows]
            cells[f"by_count_{name}"] = more
            cells[f"by_mean_{name}"] = [
                None if part is None or whole is None else whole - part
                for part, whole in zip(more, difference, strict=True)
            ]
    main = main_measure(columns)
    cells["verdict"] = [_verdict(row, main) for row in rows]
    cells["basis"] = [row.basis for row in rows]
    cells["ratio_low"] = [row.interval.low if row.interval else None for row in rows]
    cells["ratio_high"] = [row.interval.high if row.interval else None for row in rows]
    if "name" in keys:
        there = [row.other.get("name") if row.base else None for row in rows]
        cells["other_name"] = [
            name if name != row["name"] else None for name, row in zip(there, spelled, strict=True)
        ]
    return cells


def _from_count(row: Compared, column: Column) -> Any:
    """The part of a sum's difference that another count makes at base's mean.

    (n1 - n0) * sum0 / n0; where one side has none, all of the difference. Whole where the sums are.
    """
    difference = row.differences[column.name]
    before, after = (
        values.get(column.counted_by) for values in (row.base_values, row.other_values)
    )
    if difference is None or before is None or after is None:
        return None
    if not before or not after:
        return difference
    spent = row.base_values[column.name]
    if isinstance(spent, int) and isinstance(before, int) and isinstance(after, int):
        twice = 2 * (after - before) * spent + before
        return twice // (2 * before)
    return (after - before) * spent / before


def _verdict(row: Compared, main: Column) -> str | None:
    difference = row.differences[main.name]
    if difference is None or row.basis is None:
        return None
    if row.uncertain(main.name):
        return UNCERTAIN
    if not difference:
        return "same"
    return _WORSE[main.better][0 if difference > 0 else 1]


def _on_names(sides: Sequence[_Side]) -> list[Note]:
    """What names of one profile are one here."""
    merged_rows = [r for side in sides for run in side.runs for r in run.rows.values() if r.also]
    if not merged_rows:
        return []
    first = merged_rows[0].also[0]
    text = f"rows of names that are one to the matching are added up, such as {first}"
    return [Note("names-merged", Severity.INFO, text, len(merged_rows))]


def _notes(
    names: Naming, unchanged: int, single: bool, base_runs: int, other_runs: int
) -> list[Note]:
    found = []
    if names.dropped:
        text = f"rows are added up over {', '.join(names.dropped)}, which the sides tell otherwise"
        found.append(Note("rows-combined", Severity.INFO, text))
    if unchanged:
        found.append(Note("rows-unchanged", Severity.INFO, "rows that did not change", unchanged))
    if not single and min(base_runs, other_runs) < _FEW_REPEATS:
        text = f"few repeats ({base_runs} and {other_runs}): intervals are wide"
        found.append(Note("few-repeats", Severity.INFO, text))
    return found
