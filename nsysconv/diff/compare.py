"""Two sides' reports into one: what changed, by how much, and whether it is more than noise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nsysconv.diff.noise import Interval, welch
from nsysconv.diff.rows import Key, Merged, Naming, Row, Spelling, adds, merged, naming
from nsysconv.notes import Note, Severity
from nsysconv.notes import merged as merged_notes
from nsysconv.report import Column, Report, build_table, common_slice
from nsysconv.units import Unit

BOTH, ONLY_BASE, ONLY_OTHER = "both", "only in base", "only in other"
UNCERTAIN = "~"
SINGLE, WITHIN, REPEATS = "single run", "within run", "repeats"
_WORSE = {"less": ("worse", "better"), "more": ("better", "worse"), None: ("more", "less")}

_FEW_REPEATS = 4
_UNIT = re.compile(r"(?:_bytes_per_s|_ns|_bytes)$")

Intervals = Callable[[Naming], Mapping[Key, Interval]]
"""Intervals of the ratio of a report's main measure by row, of sides that are one run each."""


@dataclass(frozen=True)
class Compared:
    """What two sides' rows of one kind are: values by measure, and what can be said of the change.

    `basis` is what a verdict rests on; None: there is to be none.
    """

    key: Key
    where: str
    base: Row
    other: Row
    base_values: Mapping[str, Any]
    other_values: Mapping[str, Any]
    interval: Interval | None
    basis: str | None

    @property
    def uncertain(self) -> bool:
        """Whether noise alone may have made the change of the main measure."""
        return self.interval is not None and not self.interval.excludes_no_change


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
) -> Comparison:
    """What changed from one side to the other, the greatest change of the main measure first.

    Each side gives the same report once for each of its runs; of several, the mean is compared. Rows
    that did not change are counted in a note and left out. Rows of one side only are there: what adds up
    is 0 on the other. `spelling` makes one of the spellings of a key column's texts.
    Without `judged` no row is called better or worse.
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
    names = naming(
        first.columns,
        ([row for r in base for row in r.rows()], [row for r in other for row in r.rows()]),
        spelling,
    )
    sides = [
        [merged(report, names, i) for report in reports] for i, reports in ((0, base), (1, other))
    ]
    single = len(base) == len(other) == 1
    known = intervals(names) if single else {}
    rows = [
        _compared(first.columns, names, key, sides, known.get(key))
        for key in dict.fromkeys(key for side in sides for run in side for key in run)
    ]
    if not judged:
        rows = [replace(row, basis=None) for row in rows]
    changed = [row for row in rows if _has_changed(first.columns, row)]
    main = main_measure(first.columns)
    changed.sort(key=lambda row: (-abs(_difference(row, main) or 0), repr(row.key)))
    told = [
        *notes,
        *_on_names(sides),
        *_notes(names, len(rows) - len(changed), single, len(base), len(other)),
    ]
    report = _report(first, names.keys, changed, merged_notes(told), (), base, other)
    return Comparison(report, tuple(rows))


def _has_changed(columns: Sequence[Column], row: Compared) -> bool:
    """Whether anything that both sides tell changed; shares of a whole change with every other row."""
    if row.where != BOTH:
        return True
    own = [c for c in _measures(columns) if not (c.unit is Unit.PCT and c.adds)]
    return any(_difference(row, column) for column in own)


def main_measure(columns: Sequence[Column]) -> Column:
    """What rows are sorted and judged by: the first sum, else the first that can get worse."""
    measures = [column for column in columns if not column.key]
    return next(
        (column for column in measures if column.counted_by),
        next((column for column in measures if column.better), measures[0]),
    )


def _compared(
    columns: Sequence[Column],
    names: Naming,
    key: Key,
    sides: Sequence[Sequence[Mapping[Key, Merged]]],
    interval: Interval | None,
) -> Compared:
    found = [[run[key] for run in side if key in run] for side in sides]
    where = BOTH if all(found) else ONLY_BASE if found[0] else ONLY_OTHER
    values = [
        {column.name: _value(column, key, side) for column in _measures(columns)} for side in sides
    ]
    spelled = [side[0].spelled if side else {} for side in found]
    basis = SINGLE if interval is None else WITHIN
    if len(sides[0]) > 1 or len(sides[1]) > 1:
        main = main_measure(columns).name
        per_run = [[float(_of_run(columns, main, key, run) or 0) for run in side] for side in sides]
        interval = welch(*per_run)
        basis = SINGLE if interval is None else REPEATS
    return Compared(key, where, spelled[0], spelled[1], values[0], values[1], interval, basis)


def _measures(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if not column.key and column.unit is not Unit.TEXT]


def _of_run(columns: Sequence[Column], name: str, key: Key, run: Mapping[Key, Merged]) -> Any:
    """A measure of one run; what adds up is 0 where the run has no such row but tells of others."""
    if key in run:
        return run[key].values[name]
    (column,) = (column for column in columns if column.name == name)
    recorded = not run or any(row.values[name] is not None for row in run.values())
    return 0 if adds(column) and recorded else None


def _value(column: Column, key: Key, runs: Sequence[Mapping[Key, Merged]]) -> Any:
    """A measure of a side: of one run as it is, of several their mean."""
    values = [_of_run([column], column.name, key, run) for run in runs]
    if len(values) == 1:
        return values[0]
    return None if None in values else sum(values) / len(values)


def _difference(row: Compared, column: Column) -> Any:
    base, other = row.base_values[column.name], row.other_values[column.name]
    return None if base is None or other is None else other - base


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
        cells = [_cells(first.columns, keys, row) for row in rows]
        table = build_table(columns, {c.name: [row[c.name] for row in cells] for c in columns})
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
        result += _of_measure(column, column is main, several=several)
    result += [
        Column(
            "basis",
            Unit.TEXT,
            "What the verdict rests on: single run (the values alone), within run (a block bootstrap "
            "over steps), repeats (Welch's interval over runs).",
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


def _of_measure(column: Column, is_main: bool, *, several: bool) -> list[Column]:
    """The columns of a measure: both values, the difference and the ratio; of sums its causes."""
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
    if column.counted_by:
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


def _cells(columns: Sequence[Column], keys: Sequence[str], row: Compared) -> dict[str, Any]:
    spelled = row.base or row.other
    cells: dict[str, Any] = {name: spelled[name] for name in keys}
    cells["where"] = row.where
    for column in _measures(columns):
        base, other = row.base_values[column.name], row.other_values[column.name]
        difference = _difference(row, column)
        cells[f"base_{column.name}"], cells[f"other_{column.name}"] = base, other
        cells[f"diff_{column.name}"] = difference
        cells[ratio_of(column)] = other / base if base and other is not None else None
        if column.counted_by:
            more = _from_count(row, column)
            cells[f"by_count_{column.name}"] = more
            cells[f"by_mean_{column.name}"] = (
                None if more is None or difference is None else difference - more
            )
    main = main_measure(columns)
    cells["verdict"], cells["basis"] = _verdict(row, main), row.basis
    cells["ratio_low"] = row.interval.low if row.interval else None
    cells["ratio_high"] = row.interval.high if row.interval else None
    if "name" in keys:
        there = row.other.get("name") if row.base else None
        cells["other_name"] = there if there != spelled["name"] else None
    return cells


def _from_count(row: Compared, column: Column) -> Any:
    """The part of a sum's difference that another count makes at base's mean.

    (n1 - n0) * sum0 / n0; where one side has none, all of the difference. Whole where the sums are.
    """
    difference = _difference(row, column)
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
    difference = _difference(row, main)
    if difference is None or row.basis is None:
        return None
    if row.uncertain:
        return UNCERTAIN
    if not difference:
        return "same"
    return _WORSE[main.better][0 if difference > 0 else 1]


def _on_names(sides: Sequence[Sequence[Mapping[Key, Merged]]]) -> list[Note]:
    """What names of one profile are one here."""
    merged_rows = [row for side in sides for run in side for row in run.values() if row.also]
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
