"""How busy each device was as time went by."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.queries.columns import BY_DEVICE, WINDOW
from nsysconv.queries.contract import GPU_OP_FACTS, ColumnValues, Option, Query, Request
from nsysconv.report import Column, Picture
from nsysconv.timeline.arrays import percent
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import window
from nsysconv.timeline.intervals import equal_parts, union
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

_MAX_BINS = 100_000
COLUMNS = (
    *BY_DEVICE,
    Column("bin", Unit.ID, "Number of the bin, from 0. " + WINDOW, key=True),
    Column("start_ns", Unit.NS, "When the bin begins."),
    Column("dur_ns", Unit.NS, "How long it is.", brief=False, adds=True),
    Column("busy_ns", Unit.NS, "Union of the GPU operations inside the bin.", adds=True),
    Column("busy_pct", Unit.PCT, "Busy as a share of the bin.", better="more"),
    Column(
        "kernel_graph_union_ns",
        Unit.NS,
        "Union of the kernels, and of graphs recorded as one interval, inside the bin.",
        brief=False,
        adds=True,
    ),
    Column("gpu_utilization_pct", Unit.PCT, "That union as a share of the bin.", better="more"),
    Column(
        "memcpy_union_ns",
        Unit.NS,
        "Union of the explicit copies inside the bin.",
        brief=False,
        adds=True,
    ),
    Column("memcpy_pct", Unit.PCT, "That union as a share of the bin."),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per device and bin, in the order of time; a device without a window has one row."""
    bins = request.options["bins"]
    if not 1 <= bins <= _MAX_BINS:
        raise UsageError(f"bins={bins}: there are 1 to {_MAX_BINS} bins")
    data: dict[str, list[Any]] = {column.name: [] for column in COLUMNS[1:]}
    for device in timeline.devices:
        for name, values in _rows(timeline, device, bins).items():
            data[name] += values
    return data


UTILIZATION_OVER_TIME = Query(
    title="Utilisation over time",
    needs={Fact.KERNELS},
    uses=GPU_OP_FACTS,
    options=(
        Option(
            "bins",
            60,
            "In how many bins of equal length (but for 1 ns) each device's window is cut, "
            f"{_MAX_BINS} at most.",
        ),
    ),
    columns=COLUMNS,
    picture=Picture(
        "strip", x=("start_ns",), width="dur_ns", values=("busy_pct",), by=("rank", "device_id")
    ),
    compute=compute,
)


def _rows(timeline: Timeline, device: int, bins: int) -> dict[str, list[Any]]:
    ops = timeline.ops_on(device)
    span = window(timeline, device, ops)
    edges = equal_parts(span.start, span.end, bins) if span is not None else np.zeros(2, np.int64)
    low, high = edges[:-1], edges[1:]
    count = len(low)
    values = {"bin": np.arange(count), "start_ns": low, "dur_ns": high - low}
    for time, share, mask in (
        ("busy_ns", "busy_pct", ops.timed),
        (
            "kernel_graph_union_ns",
            "gpu_utilization_pct",
            ops.timed & np.isin(ops.kind, (OpKind.KERNEL, OpKind.GRAPH)),
        ),
        ("memcpy_union_ns", "memcpy_pct", ops.timed & (ops.kind == OpKind.MEMCPY)),
    ):
        values[time] = union(ops.start[mask], ops.end[mask]).covered(low, high)
        values[share] = percent(values[time], high - low)
    missing = set(values) if span is None else set()
    if Fact.MEMCPYS not in timeline.profile.facts:
        missing |= {"memcpy_union_ns", "memcpy_pct"}
    return {
        "rank": [timeline.rank_of(timeline.pids_on(device))] * count,
        "device_id": [device] * count,
        **{name: [None] * count if name in missing else values[name].tolist() for name in values},
    }
