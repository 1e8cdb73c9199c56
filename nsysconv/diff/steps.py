"""Steps of a run as one row: how many there were, and how long they took together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nsysconv.report import Column, Report, report_table
from nsysconv.units import Unit

STEP_COUNT = "step_count"
_MEAN = Column("avg_ns", Unit.NS, "Mean duration of a step.", better="less", real=True)
_OF_A_STEP = ("pid", "step", "occurrence")


def in_all(report: Report) -> Report:
    """A report with a row per step as one with a row per rank: sums, counted by `step_count`.

    Steps of two runs have nothing in common but what they are called, and not always that.
    """
    measures = [column for column in report.columns if column.adds]
    keys = [c for c in report.columns if c.key and c.name not in _OF_A_STEP]
    columns = (
        *keys,
        Column(STEP_COUNT, Unit.COUNT, "Steps."),
        *(replace(column, counted_by=STEP_COUNT) for column in measures),
        _MEAN,
    )
    if report.table is None:
        return replace(report, columns=columns)
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    for step in report.rows():
        key = tuple(step[column.name] for column in keys)
        if key not in rows:
            rows[key] = {column.name: step[column.name] for column in (*keys, *measures)}
            rows[key][STEP_COUNT] = 1
            continue
        row = rows[key]
        row[STEP_COUNT] = _sum(row[STEP_COUNT], 1)
        for column in measures:
            row[column.name] = _sum(row[column.name], step[column.name])
    for row in rows.values():
        count, whole = row[STEP_COUNT], row["dur_ns"]
        row[_MEAN.name] = None if count is None or whole is None else whole / count
    table = report_table(columns, {c.name: [row[c.name] for row in rows.values()] for c in columns})
    return replace(report, columns=columns, table=table, row_count=len(rows))


def _sum(first: object, second: object) -> int | None:
    return first + second if isinstance(first, int) and isinstance(second, int) else None
