"""Communication, computation and how far they overlap, per device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nsysconv.facts import Fact
from nsysconv.queries import kernel_categories
from nsysconv.queries.columns import BY_DEVICE, WINDOW, duration_column, values_by_column
from nsysconv.queries.contract import Array, ColumnValues, Query, Request
from nsysconv.report import Column, Unit
from nsysconv.timeline.arrays import percent
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import window
from nsysconv.timeline.timeline import Timeline

COLUMNS = (
    *BY_DEVICE,
    duration_column("window_ns", "Length of the window. " + WINDOW),
    Column("busy_ns", Unit.NS, "Union of the GPU operations inside the window.", brief=False),
    replace(kernel_categories.COMPUTATION, better=None),
    kernel_categories.COMMUNICATION,
    Column(
        "overlap_ns",
        Unit.NS,
        "Part of the communication time that overlaps computation.",
        better="more",
    ),
    Column(
        "overlap_pct",
        Unit.PCT,
        "That part as a share of the communication time; 0 without communication.",
        better="more",
    ),
    duration_column(
        "exposed_communication_ns",
        "Part of the communication time that does not overlap computation.",
    ),
    duration_column("memcpy_union_ns", "Time with an explicit copy running.", brief=False),
    duration_column(
        "exposed_memcpy_ns",
        "Part of the copy time that overlaps neither computation nor communication.",
    ),
    duration_column(
        "exposed_memset_ns",
        "Time of memsets that overlaps none of the preceding columns.",
        brief=False,
    ),
    duration_column(
        "exposed_um_ns",
        "Time of unified memory migrations that overlaps none of the preceding columns.",
        brief=False,
    ),
    duration_column(
        "idle_ns",
        "Window minus busy time. Computation, the exposed times and idle time add up to the "
        "window.",
    ),
)

_FACTS = {
    "memcpy_union_ns": Fact.MEMCPYS,
    "exposed_memcpy_ns": Fact.MEMCPYS,
    "exposed_memset_ns": Fact.MEMSETS,
    "exposed_um_ns": Fact.UNIFIED_MEMORY,
}


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per device with GPU operations."""
    rules = request.options["rules"]
    rows = [
        _row(timeline, d, kernel_categories.communicates_on(timeline, d, rules))
        for d in timeline.devices
    ]
    for name, fact in _FACTS.items():
        if fact not in timeline.profile.facts:
            for row in rows:
                row[name] = None
    return values_by_column(rows, COLUMNS[1:])


COMM_OVERLAP = Query(options=(kernel_categories.RULES,), columns=COLUMNS, compute=compute)


def _row(timeline: Timeline, device: int, talks: Array) -> dict[str, Any]:
    ops = timeline.ops_on(device)
    row = {"rank": timeline.rank_of(timeline.pids_on(device)), "device_id": device}
    span = window(timeline, device, ops)
    if span is None:
        return row

    def measure(which: Array) -> int:
        return span.measure(ops.start[which], ops.end[which])

    works = kernel_categories.computes(ops, talks)
    computation, communication = measure(works), measure(talks)
    # The exposed part of each kind is what it adds to the union of all kinds before it.
    so_far = works
    union_ns = computation
    exposed = {}
    for name, more in (
        ("communication", talks),
        ("memcpy", ops.kind == OpKind.MEMCPY),
        ("memset", ops.kind == OpKind.MEMSET),
        ("um", ops.kind == OpKind.MIGRATION),
    ):
        so_far = so_far | more
        before, union_ns = union_ns, measure(so_far)
        exposed[f"exposed_{name}_ns"] = union_ns - before
    overlap = communication - exposed["exposed_communication_ns"]
    return {
        **row,
        "window_ns": span.length,
        "busy_ns": union_ns,
        "computation_union_ns": computation,
        "communication_union_ns": communication,
        "overlap_ns": overlap,
        "overlap_pct": float(percent(overlap, communication or 1)),
        "memcpy_union_ns": measure(ops.kind == OpKind.MEMCPY),
        **exposed,
        "idle_ns": span.length - union_ns,
    }
