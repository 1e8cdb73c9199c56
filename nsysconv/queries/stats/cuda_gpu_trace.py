"""`cuda_gpu_trace` of `nsys stats`: every kernel and memory operation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsysconv import schema
from nsysconv.codes import MEMORY_KINDS
from nsysconv.facts import Fact
from nsysconv.queries.contract import Array, ColumnValues, Query, Request
from nsysconv.queries.stats.kernels import AXES, OPTIONS, kernel_names
from nsysconv.queries.stats.memory_ops import NAMES, copy_numbers
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.events import GpuOps, OpKind
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit


def _size(name: str, doc: str, header: str) -> Column:
    return Column(
        name, Unit.BYTES, doc, brief=False, printed=Printed(f"{header} (MB)", 3, 1_000_000)
    )


def _axis(name: str) -> Column:
    what, letters = ("Blocks", "Grd") if name.startswith("grid") else ("Threads of a block", "Blk")
    header, doc = f"{letters}{name[-1].upper()}", f"{what} in {name[-1]}."
    return Column(name, Unit.COUNT, doc, brief=False, printed=Printed(header))


COLUMNS = (
    Column("start_ns", Unit.NS, "When it began.", key=True, printed=Printed("Start (ns)")),
    Column("dur_ns", Unit.NS, "How long it took.", better="less", printed=Printed("Duration (ns)")),
    Column(
        "correlation_id",
        Unit.ID,
        "Shared with the API call that launched it.",
        brief=False,
        printed=Printed("CorrId"),
    ),
    *(_axis(name) for name in AXES),
    Column(
        "registers_per_thread",
        Unit.COUNT,
        "Registers of a thread.",
        brief=False,
        printed=Printed("Reg/Trd"),
    ),
    _size("static_shared_bytes", "Shared memory of a block fixed at compile time.", "StcSMem"),
    _size("dynamic_shared_bytes", "Shared memory of a block asked for at launch.", "DymSMem"),
    _size("bytes", "Bytes that a memory operation moved or set.", "Bytes"),
    Column(
        "throughput_bytes_per_s",
        Unit.BYTES_PER_S,
        "Bytes times how often the duration fits into a second, in whole numbers.",
        better="more",
        brief=False,
        printed=Printed("Throughput (MB/s)", 3, 1_000_000),
    ),
    Column(
        "src_kind",
        Unit.TEXT,
        "Kind of memory read, or set.",
        brief=False,
        printed=Printed("SrcMemKd"),
    ),
    Column(
        "dst_kind", Unit.TEXT, "Kind of memory written.", brief=False, printed=Printed("DstMemKd")
    ),
    Column(
        "device", Unit.TEXT, "Product name and CUDA ordinal.", key=True, printed=Printed("Device")
    ),
    Column("context_id", Unit.ID, "The context.", brief=False, printed=Printed("Ctx")),
    Column(
        "green_context_id",
        Unit.ID,
        "The green context; null: none.",
        brief=False,
        printed=Printed("GreenCtx"),
    ),
    Column("stream_id", Unit.ID, "The stream.", key=True, printed=Printed("Strm")),
    Column(
        "name",
        Unit.TEXT,
        "The kernel, or what the memory operation does.",
        key=True,
        printed=Printed("Name"),
    ),
)

_KERNEL = (*AXES, "registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes")
_UNKNOWN = MEMORY_KINDS.index("Unknown")
_NO_GREEN_CONTEXT = (0, (1 << 32) - 1)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per operation, by start."""
    ops = timeline.ops.take(timeline.ops.kind != OpKind.GRAPH)
    told = {
        name: np.full(len(ops), MISSING)
        for name in ("context_id", "green_context_id", *_KERNEL, "bytes", "src_kind", "dst_kind")
    }
    name = np.empty(len(ops), object)
    for kind in (OpKind.KERNEL, OpKind.MEMCPY, OpKind.MEMSET, OpKind.MIGRATION):
        mine = np.flatnonzero(ops.kind == kind)
        if len(mine):
            _fill(timeline, kind, mine, ops.row[mine], told)
            name[mine] = _names(timeline, request, kind, ops.row[mine])
    for none in _NO_GREEN_CONTEXT:
        told["green_context_id"][told["green_context_id"] == none] = MISSING
    dur = np.where(ops.timed, ops.dur, MISSING)
    kinds = {end: _words(told.pop(end)) for end in ("src_kind", "dst_kind")}
    return {
        "start_ns": ops.start,
        "dur_ns": dur,
        "correlation_id": ops.correlation,
        **told,
        "throughput_bytes_per_s": _throughput(told["bytes"], dur),
        **kinds,
        "device": _devices(timeline, ops),
        "stream_id": ops.stream,
        "name": name,
    }


CUDA_GPU_TRACE = Query(
    title="CUDA GPU Trace",
    needs={Fact.KERNELS},
    uses={Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.DEVICES},
    options=OPTIONS,
    columns=COLUMNS,
    compute=compute,
)


def _fill(
    timeline: Timeline, kind: OpKind, places: Array, rows: Array, told: dict[str, Array]
) -> None:
    """Copies what one table tells of its rows to their places."""
    table = schema.GPU_OP_TABLES[kind]
    own = {"memory_kind": "src_kind"}
    has = [c for c in schema.event_columns(schema.metadata.tables[table]) if own.get(c, c) in told]
    for column, values in timeline.profile.columns(table, has).items():
        told[own.get(column, column)][places] = values[rows]
    if kind is OpKind.MIGRATION:
        for end in ("src_kind", "dst_kind"):
            told[end][places] = _UNKNOWN


def _names(timeline: Timeline, request: Request, kind: OpKind, rows: Array) -> Array:
    if kind is OpKind.KERNEL:
        names = kernel_names(timeline, request)
        # The rows of the slice are numbered among all rows of the table.
        place = np.cumsum(timeline.rows("kernel")) - 1
        return _texts(names.texts, names.number[place[rows]])
    if kind is OpKind.MEMSET:
        return np.full(len(rows), NAMES[-1], object)
    table = schema.GPU_OP_TABLES[kind]
    direction = timeline.profile.columns(table, ("direction",))["direction"][rows]
    return _texts(NAMES, copy_numbers(direction, migration=kind is OpKind.MIGRATION))


def _words(codes: Array) -> Array:
    known = (codes >= 0) & (codes < len(MEMORY_KINDS))
    return _texts([*MEMORY_KINDS, None], np.where(known, codes, len(MEMORY_KINDS)))


def _texts(texts: Sequence[str | None], places: Array) -> Array:
    result: Array = np.array([*texts, None], object)[places]
    return result


def _throughput(size: Array, dur: Array) -> Array:
    known = (size != MISSING) & (dur > 0)
    times = 1_000_000_000 // np.where(known, dur, 1)
    return np.where(known, np.where(known, size, 0) * times.astype(np.float64), np.nan)


def _devices(timeline: Timeline, ops: GpuOps) -> Array:
    """Per operation `NAME (ORDINAL)`; the ordinal alone where the name is not known."""
    known = {row["device_id"]: row for row in timeline.profile.rows("device")}
    place, (devices,) = factorize(ops.device)
    labels = []
    for device in devices.tolist():
        row = known.get(device, {})
        ordinal = row.get("ordinal")
        parts = [row.get("name"), None if ordinal is None else f"({ordinal})"]
        labels.append(" ".join(part for part in parts if part) or None)
    return _texts(labels, place)
