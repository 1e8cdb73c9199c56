"""The traces of `nsys stats` of CUDA: API calls, GPU operations, and kernels with their calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nsysconv import schema
from nsysconv.codes import MEMORY_KINDS
from nsysconv.queries.columns import (
    PID,
    TID,
    count_column,
    duration_column,
    key_column,
    rows_at,
    statistics_columns,
    statistics_docs,
    statistics_values,
)
from nsysconv.queries.contract import Array, ColumnValues, Query, Request
from nsysconv.queries.stats import cuda_names
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import counts, factorize, grouped_statistics, take
from nsysconv.timeline.events import GpuOps, OpKind
from nsysconv.timeline.timeline import Timeline

# -- API calls

_API_COLUMNS = (
    Column("start_ns", Unit.NS, "Start of the call.", key=True),
    duration_column("dur_ns", "Duration of the event."),
    key_column("name", "The function."),
    Column("result", Unit.ID, "Return code of the call; 0 is success."),
    Column(
        "correlation_id", Unit.ID, "Correlation id shared with the launched operation.", brief=False
    ),
    PID,
    TID,
    Column("priority", Unit.ID, "Priority of the thread in the source.", brief=False),
    Column("thread", Unit.TEXT, "Name of the thread.", brief=False),
)


def _api_trace(timeline: Timeline, request: Request) -> ColumnValues:
    names = ("start_ns", "dur_ns", "name_id", "result", "correlation_id", "pid", "tid")
    columns = timeline.columns("api_call", names)
    order = np.argsort(columns["start_ns"], kind="stable")
    values = {name: take(column, order) for name, column in columns.items()}
    function, (name_ids,) = factorize(values.pop("name_id"))
    texts = timeline.profile.names(name_ids)
    thread, (pids, tids) = factorize(values["pid"], values["tid"])
    threads = {(row["pid"], row["tid"]): row for row in timeline.profile.rows("thread")}
    rows = [threads.get(key, {}) for key in zip(pids.tolist(), tids.tolist(), strict=True)]
    priorities = [row.get("priority") for row in rows]
    return {
        **values,
        "name": cuda_names.texts_at(
            [cuda_names.function_name(texts[i]) for i in name_ids.tolist()], function
        ),
        "priority": np.array([MISSING if p is None else p for p in priorities], np.int64)[thread],
        "thread": cuda_names.texts_at([row.get("name") for row in rows], thread),
    }


CUDA_API_TRACE = Query(columns=_API_COLUMNS, compute=_api_trace)

# -- GPU operations


def _size(name: str, doc: str) -> Column:
    return Column(name, Unit.BYTES, doc, brief=False)


def _axes(what: str, prefix: str) -> Iterator[Column]:
    for axis in "xyz":
        yield count_column(f"{prefix}_{axis}", f"{what} in {axis}.", brief=False)


_GPU_COLUMNS = (
    Column("start_ns", Unit.NS, "Start of the event.", key=True),
    duration_column("dur_ns", "Duration of the event."),
    Column(
        "correlation_id", Unit.ID, "Correlation id shared with the launching API call.", brief=False
    ),
    *_axes("Blocks", "grid"),
    *_axes("Threads of a block", "block"),
    count_column("registers_per_thread", "Registers per thread.", brief=False),
    _size("static_shared_bytes", "Static shared memory per block."),
    _size("dynamic_shared_bytes", "Dynamic shared memory per block."),
    _size("bytes", "Bytes moved or set by a memory operation."),
    Column(
        "throughput_bytes_per_s",
        Unit.BYTES_PER_S,
        "Bytes times the whole number of durations per second, as nsys computes it.",
        better="more",
        brief=False,
    ),
    Column("src_kind", Unit.TEXT, "Kind of memory read, or set.", brief=False),
    Column("dst_kind", Unit.TEXT, "Kind of memory written.", brief=False),
    key_column("device", "Product name and CUDA ordinal."),
    Column("context_id", Unit.ID, "The context.", brief=False),
    Column("green_context_id", Unit.ID, "The green context; null: none.", brief=False),
    Column("stream_id", Unit.ID, "The stream.", key=True),
    key_column("name", "Name of the kernel, or the memory operation."),
)

_TABLE_COLUMNS = (
    "context_id",
    "green_context_id",
    *cuda_names.AXES,
    "registers_per_thread",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "bytes",
    "src_kind",
    "dst_kind",
)
_UNKNOWN = MEMORY_KINDS.index("Unknown")
_NO_GREEN_CONTEXT = (0, (1 << 32) - 1)


def _gpu_trace(timeline: Timeline, request: Request) -> ColumnValues:
    ops = timeline.ops.take(timeline.ops.kind != OpKind.GRAPH)
    values = {name: np.full(len(ops), MISSING) for name in _TABLE_COLUMNS}
    name = np.empty(len(ops), object)
    for kind in (OpKind.KERNEL, OpKind.MEMCPY, OpKind.MEMSET, OpKind.MIGRATION):
        places = np.flatnonzero(ops.kind == kind)
        if len(places):
            _fill(timeline, kind, places, ops.row[places], values)
            name[places] = _names(timeline, request, kind, ops.row[places])
    green_context = values["green_context_id"]
    green_context[np.isin(green_context, _NO_GREEN_CONTEXT)] = MISSING
    dur = np.where(ops.timed, ops.dur, MISSING)
    memory_kinds = {end: _memory_kinds(values.pop(end)) for end in ("src_kind", "dst_kind")}
    return {
        "start_ns": ops.start,
        "dur_ns": dur,
        "correlation_id": ops.correlation,
        **values,
        "throughput_bytes_per_s": _throughput(values["bytes"], dur),
        **memory_kinds,
        "device": _devices(timeline, ops),
        "stream_id": ops.stream,
        "name": name,
    }


CUDA_GPU_TRACE = Query(options=cuda_names.KERNEL_OPTIONS, columns=_GPU_COLUMNS, compute=_gpu_trace)


def _fill(
    timeline: Timeline, kind: OpKind, places: Array, rows: Array, values: dict[str, Array]
) -> None:
    """Copy what the operations' own table has of `values`, at its `rows`, to their places."""
    table = schema.GPU_OP_TABLES[kind]
    renamed = {"memory_kind": "src_kind"}
    columns = schema.event_columns(schema.metadata.tables[table])
    names = [name for name in columns if renamed.get(name, name) in values]
    for name, column in timeline.profile.columns(table, names).items():
        values[renamed.get(name, name)][places] = column[rows]
    if kind is OpKind.MIGRATION:
        for end in ("src_kind", "dst_kind"):
            values[end][places] = _UNKNOWN


def _names(timeline: Timeline, request: Request, kind: OpKind, rows: Array) -> Array:
    if kind is OpKind.KERNEL:
        names = cuda_names.kernel_names(timeline, request)
        return cuda_names.texts_at(names.texts, names.number_at(timeline, rows))
    if kind is OpKind.MEMSET:
        return np.full(len(rows), cuda_names.MEMORY_OPS[cuda_names.MEMSET_NUMBER], object)
    table = schema.GPU_OP_TABLES[kind]
    direction = timeline.profile.columns(table, ("direction",))["direction"][rows]
    return cuda_names.texts_at(
        cuda_names.MEMORY_OPS,
        cuda_names.copy_numbers(direction, migration=kind is OpKind.MIGRATION),
    )


def _memory_kinds(codes: Array) -> Array:
    known = (codes >= 0) & (codes < len(MEMORY_KINDS))
    return cuda_names.texts_at(MEMORY_KINDS, np.where(known, codes, -1))


def _throughput(size: Array, dur: Array) -> Array:
    known = (size != MISSING) & (dur > 0)
    times = 1_000_000_000 // np.where(known, dur, 1)
    return np.where(known, np.where(known, size, 0) * times.astype(np.float64), np.nan)


def _devices(timeline: Timeline, ops: GpuOps) -> Array:
    """Return per operation `NAME (ORDINAL)`; the ordinal alone where the name is not recorded."""
    rows = {row["device_id"]: row for row in timeline.profile.rows("device")}
    place, (devices,) = factorize(ops.device)
    labels = []
    for device in devices.tolist():
        row = rows.get(device, {})
        ordinal = row.get("ordinal")
        parts = [row.get("name"), None if ordinal is None else f"({ordinal})"]
        labels.append(" ".join(part for part in parts if part) or None)
    return cuda_names.texts_at(labels, place)


# -- kernels with their launching calls, one by one and summed

_TID = Column("tid", Unit.ID, "Thread that launched the kernel.", key=True)
_ORDINAL = Column("ordinal", Unit.ID, "CUDA ordinal of the device.", key=True)
_KERNEL = key_column("name", "Name of the kernel.")


_FUNCTION = key_column("api", "API function that launched the kernel.")


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
    return _Launches(
        call=call,
        row=ops.row[kernels],
        start=start,
        end=end,
        queue=np.where(one_clock & (queue >= 0), queue, MISSING),
        total=np.where(one_clock, total, MISSING),
        device=ops.device[kernels],
        name=names.number_at(timeline, ops.row[kernels]),
        names=names.texts,
    )


def _ordinals(timeline: Timeline) -> dict[int, int]:
    rows = timeline.profile.rows("device")
    return {row["device_id"]: row["ordinal"] for row in rows if row["ordinal"] is not None}


_EXEC_SUM_COLUMNS = (
    PID,
    _TID,
    _ORDINAL,
    count_column("kernel_count", "Number of executions."),
    count_column("queue_count", "Number of kernels that started after their call returned."),
    *(
        column
        for name in ("total", "api", "queue", "kernel")
        for column in statistics_columns(
            statistics_docs(of=f" of the {name} times"), prefix=f"{name}_"
        )
    ),
    _FUNCTION,
    _KERNEL,
)


def _exec_summary(timeline: Timeline, request: Request) -> ColumnValues:
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
    options=cuda_names.KERNEL_OPTIONS, columns=_EXEC_SUM_COLUMNS, compute=_exec_summary
)

_EXEC_TRACE_COLUMNS = (
    Column("api_start_ns", Unit.NS, "Start of the call.", key=True),
    duration_column("api_dur_ns", "Duration of the call."),
    Column(
        "queue_start_ns",
        Unit.NS,
        "End of the call; null: the kernel had started before it.",
        brief=False,
    ),
    duration_column("queue_dur_ns", "Time from the end of the call to the start of the kernel."),
    Column("start_ns", Unit.NS, "Start of the kernel.", key=True, brief=False),
    duration_column("dur_ns", "Duration of the kernel."),
    duration_column(
        "total_dur_ns", "Time from the start of the call to the end of the call and the kernel."
    ),
    PID,
    _TID,
    _ORDINAL,
    _FUNCTION,
    Column("grid", Unit.TEXT, "Grid size in blocks, in x, y and z.", brief=False),
    Column("block", Unit.TEXT, "Block size in threads, in x, y and z.", brief=False),
    _KERNEL,
)


def _exec_trace(timeline: Timeline, request: Request) -> ColumnValues:
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
    options=cuda_names.KERNEL_OPTIONS, columns=_EXEC_TRACE_COLUMNS, compute=_exec_trace
)
