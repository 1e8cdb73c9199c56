"""Steps of a run as one row: how many there were, and how long they took together.

Formulas, with a worked example: docs/definitions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nsysconv.notes import Note, Severity
from nsysconv.report import Column, Report, report_table
from nsysconv.timeline.steps import BETWEEN, WHOLE
from nsysconv.units import Unit

STEP_COUNT = "step_count"
_OF_A_STEP = ("pid", "step", "occurrence")
# Of this many steps the shortest and the longest are left out of the usual one.
_TRIMMED = 10
_OF_ALL = (
    Column("avg_ns", Unit.NS, "Mean duration of a step.", better="less", real=True),
    Column(
        "trimmed_ns",
        Unit.NS,
        "Mean duration of the usual step: without a tenth of the steps, rounded down, that are the "
        "shortest and as many that are the longest.",
        better="less",
        real=True,
    ),
    Column(
        "between_ns",
        Unit.NS,
        "Time between steps; 0 where one follows the other, null where none is annotated.",
        better="less",
        adds=True,
    ),
    Column(
        "period_ns",
        Unit.NS,
        "Mean time from the begin of a step to that of the next: steps and the time between them, "
        "divided by the number of steps.",
        better="less",
        real=True,
    ),
)


def has_no_annotated_steps(report: Report) -> bool:
    """Return whether a report per step has each process as a whole in place of annotated steps."""
    rows = report.rows()
    return bool(rows) and all(row["step"] == WHOLE for row in rows)


def without_unannotated(report: Report) -> Report:
    """Return the report as not recorded, where it has no annotated step; else as it is."""
    if not has_no_annotated_steps(report):
        return report
    return replace(report, table=None, not_recorded=("annotated steps",), row_count=0)


def unannotated_notes(base: Sequence[Report], other: Sequence[Report]) -> tuple[Note, ...]:
    """Return a note where the steps of two sides cannot be compared, else nothing.

    So it is where one has annotated steps, and the other has profiles that are a step as a whole.
    """
    without = [
        [has_no_annotated_steps(report) for report in side if report.rows()]
        for side in (base, other)
    ]
    all_profiles = [lacks_steps for side in without for lacks_steps in side]
    if all(all_profiles) or not any(all_profiles):
        return ()
    sides = [
        f"{'' if all(side) else 'a profile of '}{name} has no annotated steps"
        for name, side in zip(("base", "other"), without, strict=True)
        if any(side)
    ]
    text = f"{' and '.join(sides)}: --step-range names ranges that are steps"
    return (Note("steps-not-annotated", Severity.APPROXIMATED, text),)


@dataclass
class _StepTotals:
    """The steps of one rank, one at least: their durations, and the sums of each measure over them.

    `between` is the time between them, None where no step is annotated.
    """

    sums: dict[str, int | None]
    durations: list[int] = field(default_factory=list)
    between: int | None = None

    def add(self, step: dict[str, Any]) -> None:
        if step["step"] == BETWEEN:
            self.between = (self.between or 0) + step["dur_ns"]
            return
        if step["step"] != WHOLE:
            self.between = self.between or 0
        self.durations.append(step["dur_ns"])
        for name in self.sums:
            self.sums[name] = _sum(self.sums[name], step[name])

    def measures(self) -> dict[str, Any]:
        count = len(self.durations)
        if self.between is None:
            # Nothing says how many steps the whole process is.
            return {**self.sums, STEP_COUNT: count, **{column.name: None for column in _OF_ALL}}
        ends = count // _TRIMMED
        usual = sorted(self.durations)[ends : count - ends]
        return {
            **self.sums,
            STEP_COUNT: count,
            "avg_ns": sum(self.durations) / count,
            "trimmed_ns": sum(usual) / len(usual),
            "between_ns": self.between,
            "period_ns": (sum(self.durations) + self.between) / count,
        }


def steps_per_rank(report: Report) -> Report:
    """Return a report with a row per step as one with a row per rank: sums, counted by `step_count`.

    Steps of two runs have nothing in common but what they are called, and not always that.
    """
    measures = [column for column in report.columns if column.adds]
    keys = [c for c in report.columns if c.key and c.name not in _OF_A_STEP]
    columns = (
        *keys,
        Column(STEP_COUNT, Unit.COUNT, "Steps."),
        *(replace(column, counted_by=STEP_COUNT) for column in measures),
        *_OF_ALL,
    )
    if report.table is None:
        return replace(report, columns=columns)
    totals_by_key: dict[tuple[object, ...], _StepTotals] = {}
    for step in report.rows():
        key = tuple(step[column.name] for column in keys)
        if key not in totals_by_key:
            totals_by_key[key] = _StepTotals({column.name: 0 for column in measures})
        totals_by_key[key].add(step)
    names = [column.name for column in keys]
    rows = [
        dict(zip(names, key, strict=True)) | steps.measures()
        for key, steps in totals_by_key.items()
    ]
    table = report_table(columns, {c.name: [row[c.name] for row in rows] for c in columns})
    return replace(report, columns=columns, table=table, row_count=len(rows))


def _sum(first: Any, second: Any) -> int | None:
    return first + second if isinstance(first, int) and isinstance(second, int) else None
