"""Two sides' reports into one: what changed, by how much, and whether it is more than noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from nsysconv.diff.change import UNCERTAIN, Change, change_of
from nsysconv.diff.compared import (
    BOTH,
    ONLY_BASE,
    ONLY_OTHER,
    PER_STEP,
    RowPair,
    main_measure,
    measures_of,
)
from nsysconv.diff.names import NameKey
from nsysconv.diff.noise import UNKNOWN_RUN_NOISE
from nsysconv.diff.rows import Key, Row, RowMatcher, SummedRow, row_matcher, sum_by_key
from nsysconv.diff.steps import STEP_COUNT
from nsysconv.diff.table import changes_report
from nsysconv.notes import Note, Severity
from nsysconv.notes import merged as merged_notes
from nsysconv.report import Column, Report
from nsysconv.units import Unit

_FEW_REPEATS = 4
# One of so many intervals at 95 % does not hold what is there.
_BY_CHANCE = 0.05
_REL_TOL = 1e-9

HalfWidths = Callable[[RowMatcher], Mapping[Key, Mapping[str, float]]]
"""Of sides that are one run each, per row and measure half the width of the interval of its ratio's
logarithm; rows and measures that have no values by step are left out."""


class RunNoise(NamedTuple):
    """What runs are assumed to differ by where each side is one: relative standard deviations.

    `stepped` where values by step show how the rest varies, `single` where nothing does.
    """

    stepped: float = UNKNOWN_RUN_NOISE
    single: float = UNKNOWN_RUN_NOISE


_ASSUMED = RunNoise()


@dataclass(frozen=True)
class Comparison:
    """A report of changes, and all rows, changed or not; `rows` None where it could not be made."""

    report: Report
    rows: tuple[RowPair, ...] | None


def compare_reports(
    base: Sequence[Report],
    other: Sequence[Report],
    *,
    spelling: Mapping[str, NameKey],
    half_widths: HalfWidths = lambda names: {},
    notes: Sequence[Note] = (),
    comparable: Callable[[Column], bool] = lambda column: True,
    one_sided: bool = True,
    noise: RunNoise = _ASSUMED,
) -> Comparison:
    """What changed from one side to the other, the greatest change of the main measure first.

    Each side gives the same report once for each of its runs; of several, the mean is compared. Rows
    that did not change are counted in a note and left out. Rows of one side only are there: what adds up
    is 0 on the other. `spelling` makes one of the spellings of a key column's texts.
    Columns that are not `comparable` have no verdict; without `one_sided`, nor has a row that is on one
    side only.
    """
    first = base[0]
    lacking = [
        f"{what} ({side})"
        for side, reports in (("base", base), ("other", other))
        for what in dict.fromkeys(fact for report in reports for fact in report.not_recorded)
        if any(report.table is None for report in reports)
    ]
    if any(report.table is None for report in (*base, *other)):
        main = main_measure(first.columns)
        report = changes_report(base, other, main, notes=notes, not_recorded=tuple(lacking))
        return Comparison(report, None)
    told = [[report.rows() for report in reports] for reports in (base, other)]
    names = row_matcher(first.columns, (list(chain(*told[0])), list(chain(*told[1]))), spelling)
    measures = measures_of(first.columns)
    of_base, of_other = sides = [
        _SideRows(
            [_RunRows.of(sum_by_key(rows, measures, names, i), measures) for rows in runs], measures
        )
        for i, runs in enumerate(told)
    ]
    halves = half_widths(names) if len(base) == len(other) == 1 else {}
    judged = frozenset(column.name for column in measures if comparable(column))
    by_name = {column.name: column for column in measures}
    rows = [
        _row_pair(by_name, key, of_base, of_other, halves.get(key, {}), noise, judged)
        for key in dict.fromkeys(key for side in sides for run in side.runs for key in run.rows)
    ]
    if not one_sided:
        rows = [row if row.where == BOTH else row._replace(judged=frozenset()) for row in rows]
    main = _main_of(first.columns, rows, comparable)
    # Shares of a whole change with every other row.
    own = [c.name for c in measures if not (c.unit is Unit.PCT and c.adds)]
    changed = [row for row in rows if row.where != BOTH or any(map(row.differences.get, own))]
    changed.sort(key=lambda row: (-abs(row.differences[main.name] or 0), repr(row.key)))
    said = [
        *notes,
        *_merged_name_notes(sides),
        *_notes(names, len(rows) - len(changed), len(base), len(other)),
        *_count_notes(rows, measures),
        *_false_positive_notes(rows, main),
    ]
    report = changes_report(base, other, main, names.keys, changed, merged_notes(said))
    return Comparison(report, tuple(rows))


def _main_of(
    columns: Sequence[Column], rows: Sequence[RowPair], comparable: Callable[[Column], bool]
) -> Column:
    """The measure that rows are sorted and judged by: of other amounts of work, what a step takes."""
    main = main_measure(columns)
    name = "avg_ns" if main.counted_by == STEP_COUNT else PER_STEP
    per_step = next((column for column in columns if column.name == name), None)
    if comparable(main) or per_step is None or not comparable(per_step):
        return main
    has_steps = any(row.differences[name] is not None for row in rows)
    return per_step if has_steps else main


@dataclass(frozen=True)
class _RunRows:
    """The rows of one run by key. What adds up is 0 where it has no such row but tells of others."""

    rows: Mapping[Key, SummedRow]
    absent: Mapping[str, Any]

    @classmethod
    def of(cls, rows: Mapping[Key, SummedRow], measures: Sequence[Column]) -> _RunRows:
        """The run with these rows, of columns with these measures."""

        def is_told(name: str) -> bool:
            return not rows or any(row.values[name] is not None for row in rows.values())

        return cls(rows, {c.name: 0 if c.adds_up and is_told(c.name) else None for c in measures})


@dataclass(frozen=True)
class _SideRows:
    """The runs of a side, which have these measures."""

    runs: Sequence[_RunRows]
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


def _row_pair(
    measures: Mapping[str, Column],
    key: Key,
    base: _SideRows,
    other: _SideRows,
    halves: Mapping[str, float],
    noise: RunNoise,
    judged: frozenset[str],
) -> RowPair:
    """A row of both sides."""
    (here, before), (there, after) = base.row(key), other.row(key)
    where = ONLY_OTHER if here is None else ONLY_BASE if there is None else BOTH
    differences = {name: _difference(value, after[name]) for name, value in before.items()}

    def change(name: str) -> Change | None:
        values = (side.told(key, name) for side in (base, other))
        half = halves.get(name)
        assumed = noise.single if half is None else noise.stepped
        return change_of(measures[name], *values, noise=assumed, half=half)

    return RowPair(key, where, here or {}, there or {}, before, after, differences, change, judged)


def _difference(before: Any, after: Any) -> Any:
    """After less before; 0 of floats that differ by what adding in another order makes."""
    if before is None or after is None:
        return None
    if isinstance(before, float) and math.isclose(before, after, rel_tol=_REL_TOL, abs_tol=0.0):
        return 0.0
    return after - before


def _merged_name_notes(sides: Sequence[_SideRows]) -> list[Note]:
    """What names of one profile are one here."""
    merged_rows = [r for side in sides for run in side.runs for r in run.rows.values() if r.also]
    if not merged_rows:
        return []
    first = merged_rows[0].also[0]
    text = f"rows of names that are one to the matching are added up, such as {first}"
    return [Note("names-merged", Severity.INFO, text, len(merged_rows))]


def _notes(names: RowMatcher, unchanged: int, base_runs: int, other_runs: int) -> list[Note]:
    notes = []
    if names.dropped:
        text = f"rows are added up over {', '.join(names.dropped)}, which the sides tell otherwise"
        notes.append(Note("rows-combined", Severity.INFO, text))
    if unchanged:
        notes.append(Note("rows-unchanged", Severity.INFO, "rows that did not change", unchanged))
    if base_runs + other_runs > 2 and min(base_runs, other_runs) < _FEW_REPEATS:
        text = f"few repeats ({base_runs} and {other_runs}): intervals are wide"
        notes.append(Note("few-repeats", Severity.INFO, text))
    return notes


def _count_notes(rows: Sequence[RowPair], measures: Sequence[Column]) -> list[Note]:
    """That what is counted differs between the runs of a side."""
    counted = [c.name for c in measures if c.unit in (Unit.COUNT, Unit.BYTES) and not c.real]
    vary = [
        row
        for row in rows
        if any((c := row.change(name)) is not None and c.basis != "exact" for name in counted)
    ]
    if not vary:
        return []
    text = "rows whose counts or bytes differ between the runs of a side"
    return [Note("counts-vary", Severity.INFO, text, len(vary))]


def _false_positive_notes(rows: Sequence[RowPair], main: Column) -> list[Note]:
    """How many rows were tested, and how many of them would differ though nothing changed."""
    verdicts = [
        row.verdict(main)
        for row in rows
        if main.name in row.judged
        and (change := row.change(main.name)) is not None
        and change.basis in ("repeats", "within run")
    ]
    by_chance = round(_BY_CHANCE * len(verdicts))
    if not by_chance:
        return []
    differ = sum(verdict not in ("same", UNCERTAIN) for verdict in verdicts)
    text = f"rows tested against noise; {differ} differ, {by_chance} would by chance"
    return [Note("rows-tested", Severity.INFO, text, len(verdicts))]
