"""One row per device: how long it was busy, and with what."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import DEVICE, PROFILE, RANK, WINDOW
from nsysconv.queries.contract import Array, ColumnValues, Query, Request
from nsysconv.report import MISSING, Column, Picture
from nsysconv.timeline.arrays import blocks, counts, percent, sums
from nsysconv.timeline.events import GpuOps, OpKind
from nsysconv.timeline.idle import busy, window
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import (
    GPU_KINDS,
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
from nsysconv.units import Unit

COLUMNS = (
    PROFILE,
    RANK,
    DEVICE,
    Column(
        "device",
        Unit.TEXT,
        "Name of the GPU; null: the profile does not say which it is; "
        "`[all devices of the process]`: totals that do not tell devices apart.",
    ),
    Column("recording_ns", Unit.NS, "Length of the recording.", brief=False),
    Column("window_start_ns", Unit.NS, "Where the window begins. " + WINDOW, brief=False),
    Column("window_ns", Unit.NS, "Length of the window.", better="less"),
    Column("busy_ns", Unit.NS, "Union of the GPU operations inside the window."),
    Column("idle_ns", Unit.NS, "Window minus busy.", better="less", brief=False),
    Column("idle_pct", Unit.PCT, "Idle as a share of the window.", better="less"),
    Column("kernel_count", Unit.COUNT, "Kernels."),
    Column(
        "kernel_sum_ns",
        Unit.NS,
        "Sum of the kernels' durations.",
        better="less",
        counted_by="kernel_count",
    ),
    Column("kernel_union_ns", Unit.NS, "Union of the kernels.", better="less", brief=False),
    Column("memcpy_count", Unit.COUNT, "Explicit copies."),
    Column(
        "memcpy_sum_ns",
        Unit.NS,
        "Sum of their durations.",
        better="less",
        counted_by="memcpy_count",
    ),
    Column("memset_count", Unit.COUNT, "Memory sets.", brief=False),
    Column(
        "memset_sum_ns",
        Unit.NS,
        "Sum of their durations.",
        better="less",
        brief=False,
        counted_by="memset_count",
    ),
    Column("um_count", Unit.COUNT, "Unified-memory migrations.", brief=False),
    Column(
        "um_sum_ns",
        Unit.NS,
        "Sum of their durations.",
        better="less",
        brief=False,
        counted_by="um_count",
    ),
    Column(
        "um_bytes_sum",
        Unit.BYTES,
        "Bytes they moved.",
        better="less",
        brief=False,
        counted_by="um_count",
    ),
    Column(
        "graph_launch_count",
        Unit.COUNT,
        "Graph launches recorded as one interval each.",
        brief=False,
    ),
    Column(
        "graph_launch_sum_ns",
        Unit.NS,
        "Sum of their durations.",
        better="less",
        brief=False,
        counted_by="graph_launch_count",
    ),
)

_OPTIONAL = {"memcpy": Fact.MEMCPYS, "memset": Fact.MEMSETS, "um": Fact.UNIFIED_MEMORY}


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per device with GPU operations."""
    profile = timeline.profile
    names = {row["device_id"]: row["name"] for row in profile.rows("device")}
    if Fact.KERNELS not in profile.facts:
        rows = _rows_of_totals(timeline, names)
        return {column.name: [row.get(column.name) for row in rows] for column in COLUMNS[1:]}
    rows = [_row(timeline, device, names) for device in timeline.devices]
    for prefix, fact in _OPTIONAL.items():
        if fact not in profile.facts:
            for row in rows:
                row.update({name: None for name in row if name.startswith(f"{prefix}_")})
    return {column.name: [row[column.name] for row in rows] for column in COLUMNS[1:]}


OVERVIEW = Query(
    title="Overview by device",
    needs={Fact.KERNELS},
    uses={Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.GRAPH_LAUNCHES, Fact.DEVICES},
    totals=frozenset(GPU_KINDS),
    columns=COLUMNS,
    picture=Picture("stacked", x=("rank", "device_id"), values=("busy_ns", "idle_ns")),
    compute=compute,
)


def _row(timeline: Timeline, device: int, names: dict[Any, Any]) -> dict[str, Any]:
    ops = timeline.ops_on(device)
    span = window(timeline, device, ops)
    op_counts, op_sums = counts(ops.kind, len(OpKind)), np.zeros(len(OpKind), np.int64)
    for block in blocks(len(ops)):
        op_sums += sums(ops.kind[block], ops.end[block] - ops.start[block], len(OpKind))
    row: dict[str, Any] = {
        "rank": timeline.rank_of(timeline.pids_on(device)),
        "device_id": None if device == MISSING else device,
        "device": names.get(device),
        "recording_ns": timeline.profile.attributes["recording_ns"],
        "window_start_ns": None,
        "window_ns": None,
        "busy_ns": None,
        "idle_ns": None,
        "idle_pct": None,
        "kernel_union_ns": None,
        "um_bytes_sum": _migrated_bytes(timeline, ops),
    }
    if span is not None:
        busy_ns = busy(ops.start, ops.end, span)
        row.update(
            window_start_ns=span.start,
            window_ns=span.length,
            busy_ns=busy_ns,
            idle_ns=span.length - busy_ns,
            kernel_union_ns=busy(ops.start, ops.end, span, ops.kind == OpKind.KERNEL),
            idle_pct=float(percent(span.length - busy_ns, span.length)) if span.length else 0.0,
        )
    for prefix, kind in (
        ("kernel", OpKind.KERNEL),
        ("memcpy", OpKind.MEMCPY),
        ("memset", OpKind.MEMSET),
        ("um", OpKind.MIGRATION),
        ("graph_launch", OpKind.GRAPH),
    ):
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


def _rows_of_totals(timeline: Timeline, names: dict[Any, Any]) -> list[dict[str, Any]]:
    """The same of totals: counts, sums and bytes, and no time in which they ran.

    One row for all devices unless every total names its own.
    """
    found = totals(timeline, *(kind for kind, _ in _TOTALS.values()))
    apart = all(total.device_id is not None for total in found)
    by_device: dict[int | None, list[Total]] = {}
    for total in found:
        by_device.setdefault(total.device_id if apart else None, []).append(total)
    rows = []
    for device in sorted(by_device, key=device_order):
        mine = by_device[device]
        row: dict[str, Any] = {
            "rank": rank_of(timeline, combine(mine)),
            "device_id": device,
            "device": names.get(device) if apart else _all_devices(mine),
            "recording_ns": timeline.profile.attributes["recording_ns"],
        }
        for prefix, (kind, fact) in _TOTALS.items():
            if fact in timeline.profile.facts:
                whole = combine(total for total in mine if total.kind == kind)
                row[f"{prefix}_count"], row[f"{prefix}_sum_ns"] = whole.count, whole.sum_ns
                row[f"{prefix}_bytes_sum"] = whole.bytes_sum
        rows.append(row)
    return rows


def _all_devices(found: list[Total]) -> str:
    processes = len({total.pid for total in found})
    return f"[all devices of the process{'es' if processes > 1 else ''}]"
