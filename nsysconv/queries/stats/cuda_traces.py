"""`cuda_api_trace` and `cuda_gpu_trace` of `nsys stats`: every API call; every GPU operation."""

from __future__ import annotations

import numpy as np

from nsysconv import schema
from nsysconv.codes import MEMORY_KINDS
from nsysconv.facts import Fact
from nsysconv.queries.columns import PID, TID, duration_column, key_column, printed
from nsysconv.queries.contract import Array, ColumnValues, Query, Request
from nsysconv.queries.stats import cuda_names
from nsysconv.report import MISSING, Column
from nsysconv.timeline.arrays import factorize, take
from nsysconv.timeline.events import GpuOps, OpKind
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

# -- API calls

_API_COLUMNS = printed(
    {
        "Start (ns)": Column("start_ns", Unit.NS, "When the call began.", key=True),
        "Duration (ns)": duration_column("dur_ns", "How long it took."),
        "Name": key_column("name", "The function."),
        "Result": Column("result", Unit.ID, "What it returned; 0 is success."),
        "CorrID": Column("correlation_id", Unit.ID, "Shared with what it launched.", brief=False),
        "Pid": PID,
        "Tid": TID,
        "T-Pri": Column(
            "priority", Unit.ID, "Priority of the thread, as the source gives it.", brief=False
        ),
        "Thread Name": Column("thread", Unit.TEXT, "Name of the thread.", brief=False),
    }
)


def _api_trace(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per call, by start."""
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


CUDA_API_TRACE = Query(
    title="CUDA API Trace",
    needs={Fact.API_CALLS},
    uses={Fact.THREADS},
    columns=_API_COLUMNS,
    compute=_api_trace,
)

# -- GPU operations


def _size(name: str, doc: str) -> Column:
    return Column(name, Unit.BYTES, doc, brief=False)


def _axes(header: str, what: str, prefix: str) -> dict[str, Column]:
    return {
        f"{header}{axis.upper()}": Column(
            f"{prefix}_{axis}", Unit.COUNT, f"{what} in {axis}.", brief=False
        )
        for axis in "xyz"
    }


_GPU_COLUMNS = printed(
    {
        "Start (ns)": Column("start_ns", Unit.NS, "When it began.", key=True),
        "Duration (ns)": duration_column("dur_ns", "How long it took."),
        "CorrId": Column(
            "correlation_id", Unit.ID, "Shared with the API call that launched it.", brief=False
        ),
        **_axes("Grd", "Blocks", "grid"),
        **_axes("Blk", "Threads of a block", "block"),
        "Reg/Trd": Column(
            "registers_per_thread", Unit.COUNT, "Registers of a thread.", brief=False
        ),
        "StcSMem (MB)": _size(
            "static_shared_bytes", "Shared memory of a block fixed at compile time."
        ),
        "DymSMem (MB)": _size(
            "dynamic_shared_bytes", "Shared memory of a block asked for at launch."
        ),
        "Bytes (MB)": _size("bytes", "Bytes that a memory operation moved or set."),
        "Throughput (MB/s)": Column(
            "throughput_bytes_per_s",
            Unit.BYTES_PER_S,
            "Bytes times how often the duration fits into a second, in whole numbers.",
            better="more",
            brief=False,
        ),
        "SrcMemKd": Column("src_kind", Unit.TEXT, "Kind of memory read, or set.", brief=False),
        "DstMemKd": Column("dst_kind", Unit.TEXT, "Kind of memory written.", brief=False),
        "Device": key_column("device", "Product name and CUDA ordinal."),
        "Ctx": Column("context_id", Unit.ID, "The context.", brief=False),
        "GreenCtx": Column(
            "green_context_id", Unit.ID, "The green context; null: none.", brief=False
        ),
        "Strm": Column("stream_id", Unit.ID, "The stream.", key=True),
        "Name": key_column("name", "The kernel, or what the memory operation does."),
    }
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
    """Return one row per operation, by start."""
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


CUDA_GPU_TRACE = Query(
    title="CUDA GPU Trace",
    needs={Fact.KERNELS},
    uses={Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.DEVICES},
    options=cuda_names.KERNEL_OPTIONS,
    columns=_GPU_COLUMNS,
    compute=_gpu_trace,
)


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
        # Names are of the slice's rows, which this numbers by their rows in the whole table.
        place_in_slice = np.cumsum(timeline.rows("kernel")) - 1
        return cuda_names.texts_at(names.texts, names.number[place_in_slice[rows]])
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
