"""NVTX ranges by name, and how long the GPU work that they launched took."""

from __future__ import annotations

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats import nvtx
from nsysconv.queries.stats.nvtx_gpu_proj_trace import projected
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import factorize, grouped_statistics, sums
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

_PROJECTION = "from the start of the first operation launched in a range to the end of the last"
COLUMNS = (
    Column("name", Unit.TEXT, nvtx.NAME, key=True, printed=Printed("Range")),
    Column("style", Unit.TEXT, nvtx.STYLE, key=True, printed=Printed("Style")),
    Column(
        "projected_sum_ns",
        Unit.NS,
        f"Sum of the projected times: {_PROJECTION}. Ranges inside are not taken off.",
        better="less",
        printed=Printed("Total Proj Time (ns)"),
    ),
    Column(
        "range_sum_ns",
        Unit.NS,
        "Sum of the ranges' own durations.",
        better="less",
        counted_by="range_count",
        printed=Printed("Total Range Time (ns)"),
    ),
    Column(
        "range_count",
        Unit.COUNT,
        "Ranges in which an operation was launched.",
        printed=Printed("Range Instances"),
    ),
    Column(
        "avg_ns",
        Unit.NS,
        "Mean projected time.",
        better="less",
        real=True,
        printed=Printed("Proj Avg (ns)", 1),
    ),
    Column(
        "med_ns",
        Unit.NS,
        "Median projected time (mean of the middle two).",
        better="less",
        real=True,
        printed=Printed("Proj Med (ns)", 1),
    ),
    Column("min_ns", Unit.NS, "Shortest.", better="less", printed=Printed("Proj Min (ns)")),
    Column("max_ns", Unit.NS, "Longest.", better="less", printed=Printed("Proj Max (ns)")),
    Column(
        "stddev_ns",
        Unit.NS,
        "Sample standard deviation; 0 for one range.",
        better="less",
        real=True,
        printed=Printed("Proj StdDev (ns)", 1),
    ),
    Column(
        "launch_count",
        Unit.COUNT,
        "Calls in them that launched operations; the launch of a graph is one.",
        printed=Printed("Total GPU Ops"),
    ),
    Column("launch_avg", Unit.REAL, "The same per range.", printed=Printed("Avg GPU Ops", 1)),
    Column(
        "level_avg",
        Unit.REAL,
        "Ranges of its thread that a range lies in, on average.",
        printed=Printed("Avg Range Lvl", 1),
    ),
    Column(
        "child_avg",
        Unit.REAL,
        "Ranges directly inside a range that launched operations, on average.",
        printed=Printed("Avg Num Child", 1),
    ),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per name and style, most projected time first."""
    found = projected(timeline)
    tree, rows, spans = found.tree, found.rows, found.tree.spans
    group, (names, kinds) = factorize(spans.name[rows], spans.kind[rows])
    count = len(names)
    stats = grouped_statistics(group, found.dur[rows], count)
    launches, own, level, children = (
        sums(group, values[rows], count)
        for values in (
            found.on_gpu.launch_count,
            spans.end - spans.start,
            tree.level,
            found.child_count,
        )
    )
    texts = [spans.names[i] for i in names.tolist()]
    styles = [nvtx.STYLES[kind] for kind in kinds.tolist()]
    total = np.where(stats.total == MISSING, 0, stats.total)
    order = sorted(range(count), key=lambda i: (-int(total[i]), texts[i], styles[i]))
    at = np.array(order, np.int64)
    size = np.maximum(stats.count, 1)
    return {
        "name": [texts[i] for i in order],
        "style": [styles[i] for i in order],
        "projected_sum_ns": stats.total[at],
        "range_sum_ns": own[at],
        "range_count": stats.count[at],
        "avg_ns": stats.mean[at],
        "med_ns": stats.median[at],
        "min_ns": stats.minimum[at],
        "max_ns": stats.maximum[at],
        "stddev_ns": stats.deviation[at],
        "launch_count": launches[at],
        "launch_avg": (launches / size)[at],
        "level_avg": (level / size)[at],
        "child_avg": (children / size)[at],
    }


NVTX_GPU_PROJ_SUM = Query(
    title="NVTX GPU Projection Summary",
    needs={Fact.RANGES, Fact.API_LINKS},
    uses={Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.GRAPH_LAUNCHES, Fact.API_CALLS},
    columns=COLUMNS,
    compute=compute,
)
