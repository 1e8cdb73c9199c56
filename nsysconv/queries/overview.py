"""One row per device: how long it was busy, and with what."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    BY_DEVICE,
    WINDOW,
    count_column,
    duration_column,
    sum_column,
    values_by_column,
    window_times,
)
from nsysconv.queries.contract import Array, ColumnValues, Query, Request
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import blocks, counts, sums
from nsysconv.timeline.events import GpuOps, OpKind
from nsysconv.timeline.idle import window
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import (
    KERNEL,
    MEMCPY,
    MEMSET,
    MIGRATION,
    Total,
    combine,
    device_order,
    rank_of,
    totals,
)

COLUMNS = (
    *BY_DEVICE,
    Column(
        "device",
        Unit.TEXT,
        "Name of the GPU; `[all devices of the process]`: totals over all devices; null: not "
        "recorded.",
    ),
    Column(
        "recording_ns",
        Unit.NS,
        "Length of the profiler's session; null: not recorded in the source.",
        brief=False,
    ),
    Column("window_start_ns", Unit.NS, "Where the window begins. " + WINDOW, brief=False),
    duration_column("window_ns", "Length of the window."),
    Column("busy_ns", Unit.NS, "Union of the GPU operations inside the window."),
    duration_column("idle_ns", "Window minus busy time.", brief=False),
    Column("idle_pct", Unit.PCT, "Idle time as a share of the window.", better="less"),
    count_column("kernel_count", "Number of kernels.", brief=False),
    sum_column("kernel_sum_ns", "Sum of the kernels' durations.", "kernel_count"),
    duration_column(
        "kernel_union_ns",
        "Union of the kernels' intervals: time with at least one kernel running.",
        brief=False,
    ),
    count_column("memcpy_count", "Number of explicit copies.", brief=False),
    sum_column("memcpy_sum_ns", "Sum of their durations.", "memcpy_count"),
    count_column("memset_count", "Number of memsets.", brief=False),
    sum_column("memset_sum_ns", "Sum of their durations.", "memset_count", brief=False),
    count_column("um_count", "Number of unified-memory page migrations.", brief=False),
    sum_column("um_sum_ns", "Sum of their durations.", "um_count", brief=False),
    sum_column(
        "um_bytes_sum", "Bytes moved by page migrations.", "um_count", unit=Unit.BYTES, brief=False
    ),
    count_column(
        "graph_launch_count", "Graph launches recorded as one interval each.", brief=False
    ),
    sum_column("graph_launch_sum_ns", "Sum of their durations.", "graph_launch_count", brief=False),
)

_OPTIONAL = {"memcpy": Fact.MEMCPYS, "memset": Fact.MEMSETS, "um": Fact.UNIFIED_MEMORY}


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per device with GPU operations."""
    profile = timeline.profile
    names = {row["device_id"]: row["name"] for row in profile.rows("device")}
    if Fact.KERNELS not in profile.facts:
        rows = _rows_from_totals(timeline, names)
        return values_by_column(rows, COLUMNS[1:])
    rows = [_row(timeline, device, names) for device in timeline.devices]
    for prefix, fact in _OPTIONAL.items():
        if fact not in profile.facts:
            for row in rows:
                row.update({name: None for name in row if name.startswith(f"{prefix}_")})
    return values_by_column(rows, COLUMNS[1:])


OVERVIEW = Query(columns=COLUMNS, compute=compute)


def _row(timeline: Timeline, device: int, names: dict[Any, Any]) -> dict[str, Any]:
    ops = timeline.ops_on(device)
    span = window(timeline, device, ops)
    op_counts, op_sums = counts(ops.kind, len(OpKind)), np.zeros(len(OpKind), np.int64)
    for block in blocks(len(ops)):
        op_sums += sums(ops.kind[block], ops.end[block] - ops.start[block], len(OpKind))
    row: dict[str, Any] = {
        "rank": timeline.rank_of(timeline.pids_on(device)),
        "device_id": device,
        "device": names.get(device),
        "recording_ns": timeline.profile.session_ns,
        "window_start_ns": None if span is None else span.start,
        **window_times(ops, span),
        "um_bytes_sum": _migrated_bytes(timeline, ops),
    }
    # In the order of OpKind.
    for kind, prefix in enumerate(("kernel", "memcpy", "memset", "um", "graph_launch")):
        row[f"{prefix}_count"] = int(op_counts[kind])
        row[f"{prefix}_sum_ns"] = int(op_sums[kind])
    return row


def _migrated_bytes(timeline: Timeline, ops: GpuOps) -> int:
    rows: Array = ops.row[ops.kind == OpKind.MIGRATION]
    if not len(rows):
        return 0
    sizes = timeline.profile.columns("unified_memory_event", ("bytes",))["bytes"][rows]
    return int(np.where(sizes == MISSING, 0, sizes).sum())


_TOTALS = {
    "kernel": (KERNEL, Fact.KERNEL_TOTALS),
    "memcpy": (MEMCPY, Fact.MEMORY_TOTALS),
    "memset": (MEMSET, Fact.MEMORY_TOTALS),
    "um": (MIGRATION, Fact.UNIFIED_MEMORY_TOTALS),
}


def _rows_from_totals(timeline: Timeline, names: dict[Any, Any]) -> list[dict[str, Any]]:
    """Return counts, sums and bytes from totals, which have no time in which they ran."""
    recorded = totals(timeline, *(kind for kind, _ in _TOTALS.values()))
    by_device_id = all(total.device_id is not None for total in recorded)
    by_device: dict[int | None, list[Total]] = {}
    for total in recorded:
        by_device.setdefault(total.device_id if by_device_id else None, []).append(total)
    rows = []
    for device in sorted(by_device, key=device_order):
        device_totals = by_device[device]
        row: dict[str, Any] = {
            "rank": rank_of(timeline, combine(device_totals)),
            "device_id": device,
            "device": names.get(device) if by_device_id else _all_devices(device_totals),
            "recording_ns": timeline.profile.session_ns,
        }
        for prefix, (kind, fact) in _TOTALS.items():
            if fact in timeline.profile.facts:
                whole = combine(total for total in device_totals if total.kind == kind)
                row[f"{prefix}_count"], row[f"{prefix}_sum_ns"] = whole.count, whole.sum_ns
                row[f"{prefix}_bytes_sum"] = whole.bytes_sum
        rows.append(row)
    return rows


def _all_devices(device_totals: list[Total]) -> str:
    processes = len({total.pid for total in device_totals})
    return f"[all devices of the process{'es' if processes > 1 else ''}]"
