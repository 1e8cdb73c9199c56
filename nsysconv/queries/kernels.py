"""Time per kernel name."""

from __future__ import annotations

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import DEVICE, PROFILE, RANK, per_step, ranks_by_group, with_per_step
from nsysconv.queries.contract import ColumnValues, Query, Request, Result
from nsysconv.report import MISSING, Column, Picture
from nsysconv.timeline.arrays import factorize, grouped_statistics, percent
from nsysconv.timeline.steps import STEP_FACTS
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import KERNEL, combine_by, device_order, rank_of, totals
from nsysconv.units import Unit

COLUMNS = (
    PROFILE,
    RANK,
    DEVICE,
    Column(
        "name", Unit.TEXT, "Demangled name of the kernel (`--names` chooses another).", key=True
    ),
    Column("kernel_count", Unit.COUNT, "Executions."),
    Column(
        "kernel_sum_ns",
        Unit.NS,
        "Sum of their durations.",
        better="less",
        counted_by="kernel_count",
    ),
    per_step("per_step_ns", "kernel_sum_ns"),
    Column(
        "kernel_pct",
        Unit.PCT,
        "Share of the kernel time of all rows of this table.",
        better="less",
        adds=True,
    ),
    Column("avg_ns", Unit.NS, "Mean duration.", better="less", real=True),
    Column(
        "med_ns",
        Unit.NS,
        "Median duration (mean of the middle two).",
        better="less",
        real=True,
        brief=False,
    ),
    Column("min_ns", Unit.NS, "Shortest.", better="less", brief=False),
    Column("max_ns", Unit.NS, "Longest.", better="less", brief=False),
    Column(
        "stddev_ns",
        Unit.NS,
        "Sample standard deviation; 0 for one row.",
        better="less",
        real=True,
        brief=False,
    ),
)

_NAME_COLUMNS = {"demangled": "name_id", "short": "short_name_id", "mangled": "mangled_name_id"}


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per device and name, most kernel time first."""
    recorded = Fact.KERNELS in timeline.profile.facts
    data = _of_kernels(timeline, request) if recorded else _of_totals(timeline)
    return with_per_step(data, timeline, request, {"per_step_ns": "kernel_sum_ns"})


KERNELS = Query(
    title="Kernels by name",
    needs={Fact.KERNELS},
    uses={Fact.DEVICES, *STEP_FACTS},
    totals={Fact.KERNEL_TOTALS},
    columns=COLUMNS,
    picture=Picture("bars", x=("name",), values=("kernel_sum_ns",), by=("rank", "device_id")),
    compute=compute,
)


def _of_kernels(timeline: Timeline, request: Request) -> ColumnValues:
    profile = timeline.profile
    ids_column = _NAME_COLUMNS[request.kernel_names]
    column = timeline.columns("kernel", ("dur_ns", "device_id", "pid", "name_id", ids_column))
    names = column.pop(ids_column)
    if ids_column != "name_id":
        names = np.where(names == MISSING, column["name_id"].astype(np.int64), names)
    group, (devices, name_ids) = factorize(column["device_id"], names)
    count = len(devices)
    stats = grouped_statistics(group, column["dur_ns"], count)
    texts = profile.names(name_ids)
    rank = ranks_by_group(timeline, column["pid"], group, count)
    spent = np.where(stats.total == MISSING, 0, stats.total)
    whole = int(spent.sum())
    order = sorted(
        range(count), key=lambda i: (-int(spent[i]), texts[int(name_ids[i])], int(devices[i]))
    )
    at = np.array(order, np.int64)
    return {
        "rank": [rank[i] for i in order],
        "device_id": devices[at],
        "name": [texts[int(name_ids[i])] for i in order],
        "kernel_count": stats.count[at],
        "kernel_sum_ns": stats.total[at],
        "kernel_pct": percent(spent[at], whole) if whole else np.zeros(count),
        "avg_ns": stats.mean[at],
        "med_ns": stats.median[at],
        "min_ns": stats.minimum[at],
        "max_ns": stats.maximum[at],
        "stddev_ns": stats.deviation[at],
    }


def _of_totals(timeline: Timeline) -> ColumnValues:
    """The same of totals: a row without a device speaks of all, and several totals have no median."""
    by_name = combine_by(totals(timeline, KERNEL), lambda total: (total.device_id, total.name))
    found = sorted(
        by_name.items(),
        key=lambda item: (-(item[1].sum_ns or 0), item[0][1], device_order(item[0][0])),
    )
    spent = [kernels.sum_ns or 0 for _, kernels in found]
    whole = sum(spent)
    return {
        "rank": [rank_of(timeline, kernels) for _, kernels in found],
        "device_id": [device for (device, _), _ in found],
        "name": [name for (_, name), _ in found],
        "kernel_count": [kernels.count for _, kernels in found],
        "kernel_sum_ns": [kernels.sum_ns for _, kernels in found],
        "kernel_pct": [float(percent(ns, whole)) if whole else 0.0 for ns in spent],
        "avg_ns": [kernels.avg_ns for _, kernels in found],
        "med_ns": [kernels.med_ns for _, kernels in found],
        "min_ns": [kernels.min_ns for _, kernels in found],
        "max_ns": [kernels.max_ns for _, kernels in found],
        "stddev_ns": [kernels.stddev_ns for _, kernels in found],
    }
