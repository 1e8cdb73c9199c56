"""`cuda_kern_exec_sum` and `cuda_kern_exec_trace` of `nsys stats`: kernels with their launching calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    PID,
    duration_column,
    key_column,
    printed,
    statistics_by_header,
    statistics_docs,
)
from nsysconv.queries.contract import CALL_FACTS, Array, ColumnValues, Query, Request
from nsysconv.queries.stats import cuda_names
from nsysconv.queries.values import rows_at, statistics_values
from nsysconv.report import MISSING, Column
from nsysconv.timeline.arrays import counts, factorize, grouped_statistics
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

_PID = PID
_TID = Column("tid", Unit.ID, "The thread that launched it.", key=True)
_ORDINAL = Column("ordinal", Unit.ID, "CUDA ordinal of the device.", key=True)
_KERNEL = key_column("name", "Name of the kernel.")


_FUNCTION = key_column("api", "The function that launched it.")


@dataclass(frozen=True)
class _Launches:
    """The slice's kernels whose call is recorded, by the start of the call.

    `call` is an index of the calls, `row` one of the kernels' table; `name` numbers `names`. `queue` is
    the time from the end of the call to the start of the kernel, MISSING where it began before; `total`
    is from the start of the call to the end of both. Both are MISSING where the clocks disagree.
    """

    call: Array
    row: Array
    start: Array
    end: Array
    queue: Array
    total: Array
    device: Array
    name: Array
    names: list[str]


def _launches(timeline: Timeline, request: Request) -> _Launches:
    ops, calls = timeline.ops, timeline.calls
    kernels = np.flatnonzero((ops.kind == OpKind.KERNEL) & (timeline.owner >= 0) & ops.timed)
    kernels = kernels[np.lexsort((ops.start[kernels], calls.start[timeline.owner[kernels]]))]
    call, start, end = timeline.owner[kernels], ops.start[kernels], ops.end[kernels]
    one_clock = not timeline.clocks_disagree
    queue = start - calls.end[call]
    total = np.maximum(end, calls.end[call]) - calls.start[call]
    names = cuda_names.kernel_names(timeline, request)
    # Names are of the slice's rows, which this numbers by their rows in the whole table.
    place_in_slice = np.cumsum(timeline.rows("kernel")) - 1
    return _Launches(
        call=call,
        row=ops.row[kernels],
        start=start,
        end=end,
        queue=np.where(one_clock & (queue >= 0), queue, MISSING),
        total=np.where(one_clock, total, MISSING),
        device=ops.device[kernels],
        name=names.number[place_in_slice[ops.row[kernels]]],
        names=names.texts,
    )


def _ordinals(timeline: Timeline) -> dict[int, int]:
    """Return device_id -> the CUDA ordinal, where it is recorded."""
    rows = timeline.profile.rows("device")
    return {row["device_id"]: row["ordinal"] for row in rows if row["ordinal"] is not None}


_SUM_COLUMNS = printed(
    {
        "PID": _PID,
        "TID": _TID,
        "DevId": _ORDINAL,
        "Count": Column("kernel_count", Unit.COUNT, "Executions."),
        "QCount": Column(
            "queue_count", Unit.COUNT, "Those that did not start before their call returned."
        ),
        **{
            header: column
            for name in ("total", "api", "queue", "kernel")
            for header, column in statistics_by_header(
                f"{name[0].upper()}{{}} (ns)",
                statistics_docs(of=f" of the {name} times"),
                prefix=f"{name}_",
            ).items()
        },
        "API Name": _FUNCTION,
        "Kernel Name": _KERNEL,
    }
)


def _summary(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per thread, device, function and kernel, largest mean of the total first."""
    launches, calls = _launches(timeline, request), timeline.calls
    group, keys = factorize(
        calls.thread[launches.call], launches.device, calls.name_id[launches.call], launches.name
    )
    threads, devices, name_ids, kernels = keys
    count = len(threads)
    times = {
        "total": launches.total,
        "api": (calls.end - calls.start)[launches.call],
        "queue": launches.queue,
        "kernel": launches.end - launches.start,
    }
    statistics = {name: grouped_statistics(group, each, count) for name, each in times.items()}
    symbols, ordinals = timeline.profile.names(name_ids), _ordinals(timeline)
    pids, tids = np.array(calls.threads, np.int64).reshape(-1, 2)[threads].T
    names = {
        "pid": pids,
        "tid": tids,
        "ordinal": [ordinals.get(device, MISSING) for device in devices.tolist()],
        "api": [cuda_names.function_name(symbols[i]) for i in name_ids.tolist()],
        "name": [launches.names[i] for i in kernels.tolist()],
    }
    values = {
        **names,
        "kernel_count": statistics["total"].count,
        "queue_count": counts(group[launches.queue != MISSING], count),
    }
    for name, each in statistics.items():
        values |= statistics_values(each, f"{name}_")
    total = np.nan_to_num(statistics["total"].mean)
    order = sorted(range(count), key=lambda i: (-total[i], *(each[i] for each in names.values())))
    return rows_at(values, order)


CUDA_KERN_EXEC_SUM = Query(
    title="CUDA Kernel Launch & Exec Time Summary",
    needs={Fact.KERNELS, *CALL_FACTS},
    uses={Fact.THREADS},
    options=cuda_names.KERNEL_OPTIONS,
    columns=_SUM_COLUMNS,
    compute=_summary,
)

_TRACE_COLUMNS = printed(
    {
        "API Start (ns)": Column("api_start_ns", Unit.NS, "When the call began.", key=True),
        "API Dur (ns)": duration_column("api_dur_ns", "How long the call took."),
        "Queue Start (ns)": Column(
            "queue_start_ns",
            Unit.NS,
            "When the call returned; null: the kernel ran by then.",
            brief=False,
        ),
        "Queue Dur (ns)": duration_column("queue_dur_ns", "From then to the start of the kernel."),
        "Kernel Start (ns)": Column(
            "start_ns", Unit.NS, "When the kernel began.", key=True, brief=False
        ),
        "Kernel Dur (ns)": duration_column("dur_ns", "How long the kernel took."),
        "Total Dur (ns)": duration_column(
            "total_dur_ns", "From the start of the call to the end of both."
        ),
        "PID": _PID,
        "TID": _TID,
        "DevId": _ORDINAL,
        "API Function": _FUNCTION,
        "GridXYZ": Column("grid", Unit.TEXT, "Blocks in x, y and z.", brief=False),
        "BlockXYZ": Column("block", Unit.TEXT, "Threads of a block in x, y and z.", brief=False),
        "Kernel Name": _KERNEL,
    }
)


def _trace(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per kernel whose call is recorded, by the start of the call."""
    launches, calls = _launches(timeline, request), timeline.calls
    call = launches.call
    function, (name_ids,) = factorize(calls.name_id[call])
    symbols = timeline.profile.names(name_ids)
    ordinals = _ordinals(timeline)
    device, (device_ids,) = factorize(launches.device)
    device_ordinals = [ordinals.get(i, MISSING) for i in device_ids.tolist()]
    threads = np.array(calls.threads, np.int64).reshape(-1, 2)[calls.thread[call]]
    queued = launches.queue != MISSING
    axes = timeline.profile.columns("kernel", cuda_names.AXES)
    size, keys = factorize(*(axes[axis][launches.row] for axis in cuda_names.AXES))
    sizes = list(zip(*(values.tolist() for values in keys), strict=True))
    return {
        "api_start_ns": calls.start[call],
        "api_dur_ns": calls.end[call] - calls.start[call],
        "queue_start_ns": np.where(queued, calls.end[call], MISSING),
        "queue_dur_ns": launches.queue,
        "start_ns": launches.start,
        "dur_ns": launches.end - launches.start,
        "total_dur_ns": launches.total,
        "pid": threads[:, 0],
        "tid": threads[:, 1],
        "ordinal": np.array(device_ordinals, np.int64)[device],
        "api": cuda_names.texts_at(
            [cuda_names.function_name(symbols[i]) for i in name_ids.tolist()], function
        ),
        "grid": cuda_names.texts_at([cuda_names.launch_size(*xyz[:3]) for xyz in sizes], size),
        "block": cuda_names.texts_at([cuda_names.launch_size(*xyz[3:]) for xyz in sizes], size),
        "name": cuda_names.texts_at(launches.names, launches.name),
    }


CUDA_KERN_EXEC_TRACE = Query(
    title="CUDA Kernel Launch & Exec Time Trace",
    needs={Fact.KERNELS, *CALL_FACTS},
    uses={Fact.THREADS},
    options=cuda_names.KERNEL_OPTIONS,
    columns=_TRACE_COLUMNS,
    compute=_trace,
)
