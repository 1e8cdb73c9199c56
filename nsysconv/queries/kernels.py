"""Time per kernel name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    DURATION_DOCS,
    KERNEL_NAME_COLUMNS,
    count_column,
    kernel_name_ids,
    key_column,
    per_step,
    rows_at,
    statistics_columns,
    statistics_values,
    sum_column,
    with_per_step,
)
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request, Result, View
from nsysconv.queries.kernel_metrics import OF_METRICS, Limits, limits_by_name
from nsysconv.queries.kernels_by import VIEWS, by_range, by_step
from nsysconv.queries.split import (
    BY_SPLIT,
    place_of_totals,
    place_values,
    split_rows,
    spread_columns,
    spread_of_totals,
)
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import counts, factorize, grouped_statistics, percent
from nsysconv.timeline.kernel_categories import (
    ANSWERS,
    UNKNOWN,
    categories,
    rules,
    tensor_core_use,
    uses_tensor_cores,
)
from nsysconv.timeline.measured import measured
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import KERNEL, Total, combine_by, totals

KERNEL_PCT = Column(
    "kernel_pct",
    Unit.PCT,
    "Share of the kernel time of all rows in this table.",
    better="less",
    adds=True,
)
TENSOR_CORES = Column(
    "tensor_cores",
    Unit.TEXT,
    "Whether the kernel uses Tensor Cores, judged by its name: yes, no or unknown.",
    brief=False,
)
CATEGORY = Column(
    "category",
    Unit.TEXT,
    "Kind of work, as in `kernel_categories`; null: several kinds.",
    brief=False,
)
COLUMNS = (
    *BY_SPLIT,
    key_column("name", "Demangled kernel name (`--names` selects other spellings)."),
    count_column("kernel_count", "Number of executions."),
    sum_column("kernel_sum_ns", "Sum of their durations.", "kernel_count"),
    per_step("per_step_ns", "kernel_sum_ns"),
    KERNEL_PCT,
    *statistics_columns(DURATION_DOCS),
    TENSOR_CORES,
    CATEGORY,
    *spread_columns("kernel_sum_ns"),
    *(replace(column, optional=True) for column in OF_METRICS),
)


_VIEWS = {"name": View("Kernels by name", COLUMNS), **VIEWS}


def compute(timeline: Timeline, request: Request) -> Result | ColumnValues:
    """Return one row per name, most kernel time first; or per step or range, and name."""
    by = request.options["by"]
    if by not in _VIEWS:
        raise UsageError(f"kernels have no rows by {by!r}", hint=f"There are: {', '.join(_VIEWS)}")
    if by != "name":
        if Fact.KERNELS not in timeline.profile.facts:
            raise NotRecorded(f"kernels:by={by}", [Fact.KERNELS])
        return by_step(timeline, request) if by == "step" else by_range(timeline, request)
    recorded = Fact.KERNELS in timeline.profile.facts
    values = _from_events(timeline, request) if recorded else _from_totals(timeline, request)
    result = with_per_step(values, timeline, request, {"per_step_ns": "kernel_sum_ns"})
    seen = measured(timeline) if Fact.METRICS in timeline.profile.facts else None
    return replace(result, notes=(*result.notes, *seen.notes)) if seen else result


KERNELS = Query(
    options=(
        Option(
            "by",
            "name",
            "Rows per name; per step and name (step); per innermost range and name (range).",
        ),
        Option("top", 0, "With by=step and by=range: number of kernels for each; 0: all."),
    ),
    columns=COLUMNS,
    views=_VIEWS,
    compute=compute,
)


def _from_events(timeline: Timeline, request: Request) -> ColumnValues:
    spelling = request.kernel_names
    columns = timeline.columns(
        "kernel", ("dur_ns", "device_id", "pid", "name_id", KERNEL_NAME_COLUMNS[spelling])
    )
    rows = split_rows(
        timeline,
        request.split,
        columns["device_id"],
        columns["pid"],
        kernel_name_ids(columns, spelling),
    )
    (name_ids,), count = rows.keys, len(rows)
    statistics = grouped_statistics(rows.row, columns["dur_ns"], count)
    texts = timeline.profile.names(name_ids)
    names = [texts[i] for i in name_ids.tolist()]
    spent = np.where(statistics.total == MISSING, 0, statistics.total)
    values = {
        "rank": rows.rank,
        "device_id": rows.device_id,
        "name": names,
        "kernel_count": statistics.count,
        "kernel_sum_ns": statistics.total,
        "kernel_pct": percent(spent, int(spent.sum()) or 1),
        **statistics_values(statistics),
        "tensor_cores": _tensor_cores(timeline, rows.row, names, spelling),
        "category": _categories(timeline, rows.row, names, spelling),
        **rows.spread(columns["dur_ns"]),
        **_of_metrics(timeline, rows.row, count),
    }
    order = sorted(range(count), key=lambda i: (-int(spent[i]), names[i], int(rows.place[i])))
    return rows_at(values, order)


def _tensor_cores(timeline: Timeline, group: Array, names: list[str], spelling: str) -> list[str]:
    # Only demangled names show it. For other spellings, a row has the answer that all of its kernels
    # share.
    if spelling == "demangled":
        return uses_tensor_cores(timeline, names)
    use = _common(tensor_core_use(timeline)[timeline.rows("kernel")], group, len(names))
    return [ANSWERS[UNKNOWN if answer is None else answer] for answer in use]


def _of_metrics(timeline: Timeline, group: Array, count: int) -> dict[str, list[Any]]:
    # What metrics say of each row's kernel; of several kernels together they say nothing.
    has_metrics = Fact.METRICS in timeline.profile.facts
    if not has_metrics or not (limits := limits_by_name(timeline)):
        return {column.name: [None] * count for column in OF_METRICS}
    ids = _common(timeline.columns("kernel", ("name_id",))["name_id"], group, count)
    texts = timeline.profile.names([i for i in ids if i is not None])
    nothing = Limits()
    rows = [(nothing if i is None else limits.get(texts[i], nothing)).in_short() for i in ids]
    return {column.name: [row[column.name] for row in rows] for column in OF_METRICS}


def _categories(
    timeline: Timeline, group: Array, names: list[str], spelling: str
) -> list[str | None]:
    if spelling == "demangled":
        return [*rules().categories(names)]
    numbers, words = categories(timeline)
    of_groups = _common(numbers[timeline.rows("kernel")], group, len(names))
    return [None if number is None else words[number] for number in of_groups]


def _common(values: Array, group: Array, count: int) -> list[int | None]:
    # The result has the value of each group whose members all have the same, else None.
    _, (groups, different) = factorize(group, values)
    several = counts(groups, count)
    common: list[int | None] = [None] * count
    for place, value in zip(groups.tolist(), different.tolist(), strict=True):
        common[place] = value if several[place] == 1 else None
    return common


def _from_totals(timeline: Timeline, request: Request) -> ColumnValues:
    """Return the values from totals: without a device a row is of all devices, and several totals
    have no median together.
    """
    found, place = totals(timeline, KERNEL), place_of_totals(timeline, request.split)

    def row_of(total: Total) -> tuple[int, str]:
        return place(total), total.name

    by_row = combine_by(found, row_of)
    rows = sorted(by_row, key=lambda row: (-(by_row[row].sum_ns or 0), row[1], row[0]))
    kernels = [by_row[row] for row in rows]
    spent = [total.sum_ns or 0 for total in kernels]
    statistics = ("avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns")
    return {
        **place_values(timeline, request.split, [place for place, _ in rows], kernels),
        "name": [name for _, name in rows],
        "kernel_count": [total.count for total in kernels],
        "kernel_sum_ns": [total.sum_ns for total in kernels],
        "kernel_pct": percent(np.array(spent), sum(spent) or 1),
        **{name: [getattr(total, name) for total in kernels] for name in statistics},
        "tensor_cores": uses_tensor_cores(timeline, [name for _, name in rows]),
        "category": rules().categories([name for _, name in rows]),
        **spread_of_totals(found, row_of, rows, "sum_ns"),
        **{column.name: [None] * len(rows) for column in OF_METRICS},
    }
