"""`cuda_kern_exec_trace` of `nsys stats`: every kernel with the call that launched it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import Array, ColumnValues, Query, Request
from nsysconv.queries.stats.api_calls import shown_name
from nsysconv.queries.stats.kernels import AXES, OPTIONS, xyz
from nsysconv.queries.stats.launched import launched, ordinals
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    Column(
        "api_start_ns", Unit.NS, "When the call began.", key=True, printed=Printed("API Start (ns)")
    ),
    Column(
        "api_dur_ns",
        Unit.NS,
        "How long the call took.",
        better="less",
        printed=Printed("API Dur (ns)"),
    ),
    Column(
        "queue_start_ns",
        Unit.NS,
        "When the call returned; null: the kernel ran by then.",
        brief=False,
        printed=Printed("Queue Start (ns)"),
    ),
    Column(
        "queue_dur_ns",
        Unit.NS,
        "From then to the start of the kernel.",
        better="less",
        printed=Printed("Queue Dur (ns)"),
    ),
    Column(
        "start_ns",
        Unit.NS,
        "When the kernel began.",
        key=True,
        brief=False,
        printed=Printed("Kernel Start (ns)"),
    ),
    Column(
        "dur_ns",
        Unit.NS,
        "How long the kernel took.",
        better="less",
        printed=Printed("Kernel Dur (ns)"),
    ),
    Column(
        "total_dur_ns",
        Unit.NS,
        "From the start of the call to the end of both.",
        better="less",
        printed=Printed("Total Dur (ns)"),
    ),
    Column("pid", Unit.ID, "The process.", key=True, printed=Printed("PID")),
    Column("tid", Unit.ID, "The thread that launched it.", key=True, printed=Printed("TID")),
    Column("ordinal", Unit.ID, "CUDA ordinal of the device.", key=True, printed=Printed("DevId")),
    Column(
        "api",
        Unit.TEXT,
        "The function that launched it.",
        key=True,
        printed=Printed("API Function"),
    ),
    Column("grid", Unit.TEXT, "Blocks in x, y and z.", brief=False, printed=Printed("GridXYZ")),
    Column(
        "block",
        Unit.TEXT,
        "Threads of a block in x, y and z.",
        brief=False,
        printed=Printed("BlockXYZ"),
    ),
    Column("name", Unit.TEXT, "Name of the kernel.", key=True, printed=Printed("Kernel Name")),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per kernel whose call is recorded, by the start of the call."""
    found, calls = launched(timeline, request), timeline.calls
    call = found.call
    place, (name_ids,) = factorize(calls.name_id[call])
    symbols = timeline.profile.names(name_ids)
    ordinal = ordinals(timeline)
    devices, (device_ids,) = factorize(found.device)
    threads = np.array(calls.threads, np.int64).reshape(-1, 2)[calls.thread[call]]
    queued = found.queue != MISSING
    column = timeline.profile.columns("kernel", AXES)
    sizes, found_sizes = factorize(*(column[axis][found.row] for axis in AXES))
    each = list(zip(*(values.tolist() for values in found_sizes), strict=True))
    return {
        "api_start_ns": calls.start[call],
        "api_dur_ns": calls.end[call] - calls.start[call],
        "queue_start_ns": np.where(queued, calls.end[call], MISSING),
        "queue_dur_ns": found.queue,
        "start_ns": found.start,
        "dur_ns": found.end - found.start,
        "total_dur_ns": found.total,
        "pid": threads[:, 0],
        "tid": threads[:, 1],
        "ordinal": np.array([ordinal.get(d, MISSING) for d in device_ids.tolist()], np.int64)[
            devices
        ],
        "api": _texts([shown_name(symbols[i]) for i in name_ids.tolist()], place),
        "grid": _texts([xyz(*size[:3]) for size in each], sizes),
        "block": _texts([xyz(*size[3:]) for size in each], sizes),
        "name": _texts(found.names, found.name),
    }


CUDA_KERN_EXEC_TRACE = Query(
    title="CUDA Kernel Launch & Exec Time Trace",
    needs={Fact.KERNELS, Fact.API_CALLS, Fact.API_LINKS},
    uses={Fact.THREADS},
    options=OPTIONS,
    columns=COLUMNS,
    compute=compute,
)


def _texts(texts: Sequence[str | None], places: Array) -> Array:
    result: Array = np.array([*texts, None], object)[places]
    return result
