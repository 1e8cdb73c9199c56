"""Kernels by the operator that launched them, and by how they were launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.queries.columns import (
    BY_DEVICE,
    count_column,
    key_column,
    ranks_by_group,
    rows_at,
    statistics_columns,
    statistics_values,
    sum_column,
)
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request
from nsysconv.queries.kernels import KERNEL_PCT, TENSOR_CORES
from nsysconv.queries.operators import NO_OPERATOR
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import factorize, grouped_statistics, percent, weighted_mean
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.kernel_categories import ANSWERS, tensor_core_use
from nsysconv.timeline.operator_calls import eligible_names, node_of_ops, operator_calls
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.utilization import SHARED, kernel_fill, shared_memory, sm_count

_GROUPS = ("launch", "kernel")
_SIZES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_LAUNCH = ("registers_per_thread", "shared_bytes")
_RECORDED = ("name_id", "occupancy_pct", *_SIZES, "registers_per_thread", *SHARED)
_STATISTICS = {"avg": "Mean duration.", "min": "Shortest.", "max": "Longest."}
COLUMNS = (
    *BY_DEVICE,
    key_column(
        "operator",
        "Innermost operator that launched the kernel; [no operator]: none; null: all operators.",
    ),
    key_column("name", "Demangled kernel name."),
    Column(
        "grid",
        Unit.TEXT,
        "Grid size in blocks, per axis; null: not recorded, or all sizes.",
        key=True,
    ),
    Column("block", Unit.TEXT, "Block size in threads, per axis.", key=True, brief=False),
    Column("registers_per_thread", Unit.ID, "Registers per thread.", key=True, brief=False),
    Column("shared_bytes", Unit.BYTES, "Total shared memory per block.", key=True, brief=False),
    count_column("kernel_count", "Number of executions."),
    sum_column("kernel_sum_ns", "Sum of their durations.", "kernel_count"),
    KERNEL_PCT,
    *statistics_columns(_STATISTICS),
    replace(TENSOR_CORES, brief=True),
    Column(
        "eligible",
        Unit.TEXT,
        "Whether the operator's work could run on Tensor Cores, as in `operators`: yes or no; "
        "null: [no operator].",
        brief=False,
    ),
    Column(
        "blocks_per_sm",
        Unit.REAL,
        "Blocks of the grid per SM, mean weighted by kernel time; null: sizes are not recorded.",
        real=True,
    ),
    Column(
        "occupancy_pct",
        Unit.PCT,
        "Estimated achieved occupancy, mean weighted by kernel time; null: unknown.",
        better="more",
        brief=False,
    ),
    Column(
        "recorded_occupancy_pct",
        Unit.PCT,
        "Occupancy as recorded by the profiler: whole percent, 0 for kernels unknown to it.",
        better="more",
        brief=False,
    ),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per device, operator, kernel and way of launching it, most time first."""
    by = request.options["by"]
    if by not in _GROUPS:
        hint = f"There are: {', '.join(_GROUPS)}"
        raise UsageError(f"operator_kernels have no rows by {by!r}", hint=hint)
    ops = timeline.ops
    kernels = np.flatnonzero(ops.kind == OpKind.KERNEL)
    rows = ops.row[kernels]
    column = timeline.profile.columns("kernel", _RECORDED)
    dur = ops.dur[kernels]
    by_launch = by == "launch"
    operator, names, could = _operators(timeline, kernels)
    apart = []
    if by_launch:
        apart = [column[name][rows] for name in (*_SIZES, "registers_per_thread")]
        apart.append(shared_memory(column)[rows])
    found = [operator] if by_launch else []
    group, keys = factorize(ops.device[kernels], column["name_id"][rows], *found, *apart)
    count = len(keys[0])
    devices, name_ids = keys[:2]
    texts = timeline.profile.names(name_ids[name_ids != MISSING])
    statistics = grouped_statistics(group, dur, count)
    use = np.zeros(count, np.int64)
    use[group] = tensor_core_use(timeline)[rows]
    blocks, occupancy = _fill(timeline)
    values: dict[str, Any] = {
        "rank": ranks_by_group(timeline, ops.pid[kernels], group, count),
        "device_id": devices,
        "name": [texts.get(i, "[no name]") for i in name_ids.tolist()],
        "kernel_count": statistics.count,
        "kernel_sum_ns": statistics.total,
        "kernel_pct": percent(statistics.total, int(statistics.total.sum()) or 1),
        **{name: statistics_values(statistics)[name] for name in ("avg_ns", "min_ns", "max_ns")},
        "tensor_cores": [ANSWERS[i] for i in use.tolist()],
        "blocks_per_sm": weighted_mean(group, blocks[rows], dur, count),
        "occupancy_pct": 100 * weighted_mean(group, occupancy[rows], dur, count),
        "recorded_occupancy_pct": weighted_mean(group, _recorded(column, rows), dur, count),
    }
    if by_launch:
        sizes = [each.tolist() for each in keys[3:9]]
        values |= {
            "operator": [names[i] for i in keys[2].tolist()],
            "eligible": [could[i] for i in keys[2].tolist()],
            "grid": [_size(*each) for each in zip(*sizes[:3], strict=True)],
            "block": [_size(*each) for each in zip(*sizes[3:], strict=True)],
            "registers_per_thread": keys[9],
            "shared_bytes": keys[10],
        }
    else:
        empty = ("operator", "eligible", "grid", "block", *_LAUNCH)
        values |= {name: [None] * count for name in empty}
    # Names, and not their numbers, decide where times are equal: these depend on how it was stored.
    launches = list(zip(*(each.tolist() for each in keys[3:]), strict=True)) or [()] * count
    order = sorted(
        range(count),
        key=lambda i: (
            -int(statistics.total[i]),
            int(devices[i]),
            values["name"][i],
            values["operator"][i] or "",
            launches[i],
        ),
    )
    return rows_at(values, order)


def _operators(timeline: Timeline, kernels: Array) -> tuple[Array, list[str], list[str | None]]:
    # Per kernel the number of its operator's name, the names, and whether such operators are eligible.
    calls = operator_calls(timeline)
    nodes = calls.rows
    held = nodes[timeline.holds(calls.spans)[nodes]]
    node = node_of_ops(timeline, calls, held)
    could = [ANSWERS[each] for each in eligible_names(timeline, calls, held, node).tolist()]
    number = np.append(calls.spans.name, len(calls.spans.names))[node[kernels]]
    return number, [*calls.spans.names, NO_OPERATOR], [*could, None]


def _fill(timeline: Timeline) -> tuple[Array, Array]:
    # Blocks per SM and occupancy (0 to 1) of the rows of the kernels' table; NaN where not known.
    blocks, occupancy = np.full((2, timeline.profile.row_count("kernel")), np.nan)
    for device in timeline.devices:
        fill = kernel_fill(timeline, device)
        blocks[fill.row] = fill.blocks / (sm_count(timeline, device) or np.nan)
        occupancy[fill.row] = fill.occupancy
    return blocks, occupancy


def _recorded(column: Mapping[str, Array], rows: Array) -> Array:
    percents = column["occupancy_pct"][rows]
    return np.where(percents == MISSING, np.nan, percents)


def _size(x: int, y: int, z: int) -> str | None:
    return None if MISSING in (x, y, z) else f"{x}, {y}, {z}"


OPERATOR_KERNELS = Query(
    options=(
        Option(
            "by",
            "launch",
            "Rows per operator, kernel and launch size (launch), or per kernel (kernel).",
        ),
    ),
    columns=COLUMNS,
    compute=compute,
)
