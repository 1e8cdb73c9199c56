"""Tables of what GPUs did: kernels, copies, graphs, synchronisations, memory, page faults, metrics.

For each a function gives our columns as expressions over the export's; the mappings are at the end.
A column that this age of the export lacks is NULL. Column sets by version: docs/formats/nsys.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, fields
from typing import Any

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.importers.nsys_sqlite.columns import (
    ExportContext,
    ExportMapping,
    Metric,
    gpu_columns,
    gpu_pid_column,
    moment,
    pid_column,
    thread_columns,
    time_columns,
)
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import (
    Expression,
    SourceColumns,
    code,
    has_columns,
    has_rows,
    known_code,
    values_table,
)
from nsysconv.importers.sqlite_mapping import launch_columns, peer_device
from nsysconv.store.recording import SOURCE

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
GRAPH_NODES = "CUDA_GRAPH_NODE_EVENTS"
SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
MEMORY_USAGE = "CUDA_GPU_MEMORY_USAGE_EVENTS"
CPU_FAULTS = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
GPU_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"
METRICS = "GPU_METRICS"

GPU_WORK = (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE)
"""Tables of work on GPUs, all recorded by one switch."""
GPU_TABLES = (*GPU_WORK, SYNCS, MEMORY_USAGE, GPU_FAULTS)
"""Tables whose rows name a device by its CUDA ordinal."""

NO_DEVICE = 0xFFFFFFFF
"""The number for "not applicable"."""
PTOP = 10
"""The copyKind of copies between devices."""
MIGRATION_KINDS = (11, 12, 13)
# Their copyKind -> the code of codes.DIRECTIONS; 0..10 are the same numbers in both.
_MIGRATION_DIRECTION = {11: 1, 12: 2, 13: 8}

LAST_MEMORY_KIND = 7
"""The highest code of a kind of memory that is known; it means Unknown."""
LAST_ACCESS = 4
_ALLOCATION, _RELEASE = 0, 1
MEMORY_OPERATIONS = (_ALLOCATION, _RELEASE)
_HOST_KINDS = tuple(codes.MEMORY_KINDS.index(kind) for kind in ("Pageable", "Pinned"))
_DEVICE_KINDS = tuple(
    codes.MEMORY_KINDS.index(kind) for kind in ("Device", "Array", "Device Static")
)

_NEEDS = frozenset({"start", "end", "deviceId"})


# -- kernels

NAMES_OF_KERNELS = ("demangledName", "shortName", "mangledName")
"""The columns of a kernel's names, the best first."""
_STRINGS = sa.table("StringIds", sa.column("id"), sa.column("value"), schema=SOURCE)
_TEXTS = sa.select(_STRINGS.c.id).where(sa.func.typeof(_STRINGS.c.value) == "text")


def _kernel(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    nameless = context.nameless
    return {
        **time_columns(c, context),
        **gpu_columns(c, context),
        "green_context_id": c["greenContextId"],
        "name_id": _best_name(c) if nameless else c["demangledName"],
        "short_name_id": _other_name(c, "shortName") if nameless else c["shortName"],
        "mangled_name_id": _other_name(c, "mangledName") if nameless else c["mangledName"],
        **launch_columns(c),
        "graph_node_id": c["graphNodeId"],
    }


def _best_name(c: SourceColumns) -> Expression:
    # The first of a kernel's names whose text the file holds; its full name if it holds none.
    names = [c[name] for name in NAMES_OF_KERNELS]
    return sa.case(*((name.in_(_TEXTS), name) for name in names), else_=sa.func.coalesce(*names))


def _other_name(c: SourceColumns, column: str) -> Expression:
    # NULL if the file lacks its text and holds that of another name: reports show the kernel's name
    # instead, so that kernels which differ stay apart.
    return sa.case((c[column].in_(_TEXTS), c[column]), (_best_name(c).not_in(_TEXTS), c[column]))


# -- copies, memsets, graphs, synchronisations


def _memcpy(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    pid = gpu_pid_column(c, context)
    return {
        **time_columns(c, context),
        **gpu_columns(c, context),
        "green_context_id": c["greenContextId"],
        "bytes": c["bytes"],
        "direction": known_code(c["copyKind"], PTOP, 0),
        "src_kind": known_code(c["srcKind"], LAST_MEMORY_KIND, LAST_MEMORY_KIND),
        "dst_kind": known_code(c["dstKind"], LAST_MEMORY_KIND, LAST_MEMORY_KIND),
        "peer_device_id": sa.case((c["copyKind"] == PTOP, context.device(pid, peer_device(c)))),
        "copy_count": c["copyCount"],
        "graph_node_id": c["graphNodeId"],
    }


def _is_no_migration(c: SourceColumns, context: ExportContext) -> Expression:
    return sa.func.coalesce(c["copyKind"], 0).not_in(MIGRATION_KINDS)


def _migration(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    return {
        **time_columns(c, context),
        **gpu_columns(c, context),
        "bytes": c["bytes"],
        "direction": sa.case(_MIGRATION_DIRECTION, value=c["copyKind"]),
        "cause": c["migrationCause"],
        "address": c["virtualAddress"],
    }


def _is_migration(c: SourceColumns, context: ExportContext) -> Expression:
    return c["copyKind"].in_(MIGRATION_KINDS)


def _memset(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    return {
        **time_columns(c, context),
        **gpu_columns(c, context),
        "green_context_id": c["greenContextId"],
        "bytes": c["bytes"],
        "memory_kind": known_code(c["memKind"], LAST_MEMORY_KIND, LAST_MEMORY_KIND),
        "value": c["value"],
        "graph_node_id": c["graphNodeId"],
    }


def _graph_launch(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    return {
        **time_columns(c, context),
        **gpu_columns(c, context),
        "graph_id": c["graphId"],
        "graph_exec_id": c["graphExecId"],
    }


def _graph_node(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    return {
        "start_ns": moment(c["start"], context),
        **thread_columns(c, context),
        "graph_node_id": c["graphNodeId"],
        "original_graph_node_id": c["originalGraphNodeId"],
        "name_id": c["nameId"],
    }


def _sync(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    return {
        **time_columns(c, context),
        **gpu_columns(c, context),
        "stream_id": sa.func.nullif(c["streamId"], NO_DEVICE),
        "event_id": sa.func.nullif(c["eventId"], NO_DEVICE),
        "sync_type": c["syncType"],
    }


# -- memory that a program took and gave back


def _memory_event(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    pid, kind = gpu_pid_column(c, context), c["memKind"]
    device = context.device(pid, c["deviceId"])
    return {
        # Some releases write 0 for all of them.
        "start_ns": moment(sa.func.nullif(c["start"], 0), context),
        "pid": pid,
        "device_id": sa.case(
            (sa.func.coalesce(kind, LAST_MEMORY_KIND).not_in(_HOST_KINDS), device)
        ),
        "context_id": c["contextId"],
        "memory_kind": known_code(kind, LAST_MEMORY_KIND, LAST_MEMORY_KIND),
        "address": c["address"],
        "bytes": _signed_bytes(c),
        "allocated_bytes": sa.literal_column("running.in_use", sa.BigInteger)
        if _adds_up(context)
        else sa.null(),
    }


def _signed_bytes(c: SourceColumns) -> Expression:
    operation, size = c["memoryOperationType"], c["bytes"]
    return sa.case((operation == _ALLOCATION, size), (operation == _RELEASE, -size))


def _adds_up(context: ExportContext) -> bool:
    # Rows that are left out for what is wrong with them would be missing in the sum.
    return context.balanced and not context.careful


def _with_running_sum(c: SourceColumns, context: ExportContext) -> sa.FromClause:
    if not _adds_up(context):
        return c.table
    every = SourceColumns(c.source, alias="every")
    device = context.device(gpu_pid_column(every, context), every["deviceId"])
    order = (every["start"], every.row_id)
    in_use = sa.func.sum(_signed_bytes(every)).over(
        partition_by=device, order_by=order, rows=(None, 0)
    )
    running = (
        sa.select(every.row_id.label("place"), in_use.label("in_use"))
        .select_from(every.table)
        .where(every["memKind"].in_(_DEVICE_KINDS))
        .subquery("running")
    )
    return sa.outerjoin(c.table, running, running.c.place == c.row_id)


def is_balanced(probe: Probe) -> bool:
    """Return whether the running sum of all allocations and releases is the memory in use.

    It is if every release of device memory gives back a block as it was allocated, and none is allocated
    twice.
    """
    needed = ("memKind", "memoryOperationType", "bytes", "address", "deviceId", "globalPid")
    if not has_columns(probe, MEMORY_USAGE, "start", *needed):
        return False
    row_id = probe.tables[MEMORY_USAGE].row_id
    if row_id is None:
        return False
    kinds = ", ".join(map(str, _DEVICE_KINDS))
    blocks = (
        "(SELECT memoryOperationType AS operation, bytes, "
        "lag(memoryOperationType) OVER block AS operation_before, lag(bytes) OVER block AS bytes_before "
        f"FROM {MEMORY_USAGE} WHERE memKind IN ({kinds}) "
        f"WINDOW block AS (PARTITION BY globalPid, deviceId, address ORDER BY start, {row_id}))"
    )
    odd = (
        f"CASE operation WHEN {_ALLOCATION} THEN operation_before IS {_ALLOCATION} "
        f"OR typeof(bytes) <> 'integer' WHEN {_RELEASE} THEN operation_before IS NOT {_ALLOCATION} "
        "OR bytes_before IS NOT bytes ELSE 1 END"
    )
    return not has_rows(probe, blocks, odd)


# -- page faults on unified memory


def _cpu_fault(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    return {
        "start_ns": moment(c["start"], context),
        "pid": pid_column(c, "globalPid", context),
        "kind": code(codes.PAGE_FAULT_KINDS, "cpu"),
        "address": c["address"],
        "count": sa.literal_column("1"),
        "instruction_id": c["CpuInstruction"],
        "module_id": c["module"],
        "source_file_id": c["sourceFile"],
        "source_line": c["sourceLine"],
    }


def _gpu_fault(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    pid = gpu_pid_column(c, context)
    return {
        **time_columns(c, context),
        "pid": pid,
        "device_id": context.device(pid, c["deviceId"]),
        "kind": code(codes.PAGE_FAULT_KINDS, "gpu"),
        "address": c["address"],
        "count": c["numberOfPageFaults"],
        "access": known_code(c["faultAccessType"], LAST_ACCESS, 0),
    }


# -- samples of GPU metrics
#
# A row names its GPU in the lowest eight bits of `typeId`, by the number that the profiler's own library
# gives the GPU, and its metric by a number of that type; TARGET_INFO_GPU_METRICS has the metrics' names.

METRIC_NAMES = "TARGET_INFO_GPU_METRICS"
_GPU_BITS = 0xFF
_PERCENT = re.compile(r"\[[^\[\]%]*%[^\[\]]*\]\s*$")
_CLOCK = re.compile(r"\[MHz\]\s*$")
_HERTZ = 1_000_000

MetricIds = Collection[tuple[int, int]]
"""(typeId, metricId) of metrics that were sampled."""


def sampled_gpu(type_id: int) -> int:
    """Return the number of the GPU that samples of a type are of."""
    return type_id & _GPU_BITS


def metric_names(probe: Probe, ids: MetricIds) -> dict[tuple[int, int], str]:
    """Return the name of each of these metrics that has one."""
    if not has_columns(probe, METRIC_NAMES, "typeId", "metricId", "metricName"):
        return {}
    rows = probe.select(f"SELECT typeId, metricId, metricName FROM {METRIC_NAMES}")
    return {
        (type_id, metric_id): name
        for type_id, metric_id, name in rows
        if (type_id, metric_id) in ids and isinstance(name, str)
    }


def describe_metrics(
    ids: MetricIds,
    names: Mapping[tuple[int, int], str],
    devices: Mapping[int, int],
    name_id: Callable[[int], int],
) -> tuple[tuple[Metric, ...], list[dict[str, Any]]]:
    """Return the metrics, and rows of `name` for them; a metric has one name on all GPUs.

    `devices`: our number of each sampled GPU; `name_id`: the id for the name at a place among all.
    """
    texts = {pair: names.get(pair) or f"[metric {pair[1]}]" for pair in sorted(ids)}
    name_ids = {text: name_id(place) for place, text in enumerate(sorted(set(texts.values())))}
    metrics = tuple(
        Metric(
            *pair,
            name_id=name_ids[text],
            device_id=devices.get(sampled_gpu(pair[0])),
            unit=codes.METRIC_UNITS.index("%" if _PERCENT.search(text) else "number"),
            is_clock=bool(_CLOCK.search(text)),
        )
        for pair, text in texts.items()
    )
    # In the order of the metrics, not of their names.
    rows = [
        {"id": name_ids[text], "text": text, "plain": None}
        for text in dict.fromkeys(texts.values())
    ]
    return metrics, rows


def _sample(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    known = {
        name: sa.literal_column(f"known.{name}", sa.BigInteger) if context.metrics else sa.null()
        for name in ("device_id", "name_id", "unit", "is_clock")
    }
    # Numbers of one type, so that Arrow need not change a column's type half way through a view.
    number = c["value"]
    value: Expression = sa.case(
        (sa.func.typeof(number) == "integer", number.op("*")(sa.literal_column("1.0"))),
        else_=sa.case((sa.func.typeof(number) == "real", number)) if context.careful else number,
    )
    # Clocks are called MHz and stored as Hz: no clock has so many MHz.
    is_hertz = (known.pop("is_clock") == 1) & (number >= _HERTZ)
    return {
        "start_ns": moment(c["timestamp"], context),
        **known,
        "kind": code(codes.METRIC_KINDS, "metric"),
        "value_avg": sa.case(
            (is_hertz, number.op("/")(sa.literal_column(f"{_HERTZ}.0"))), else_=value
        ),
    }


def _with_metrics(c: SourceColumns, context: ExportContext) -> sa.FromClause:
    if not context.metrics:
        return c.table
    rows = [
        [int(cell) if cell is not None else None for cell in astuple(metric)]
        for metric in context.metrics
    ]
    known = values_table("known", [field.name for field in fields(Metric)], rows)
    same = (known.c.type_id == c["typeId"]) & (known.c.metric_id == c["metricId"])
    return sa.outerjoin(c.table, known, same)


WORK_MAPPINGS = (
    ExportMapping("kernel", KERNEL, _kernel, _NEEDS),
    ExportMapping("memcpy", MEMCPY, _memcpy, _NEEDS, _is_no_migration),
    ExportMapping("memset", MEMSET, _memset, _NEEDS),
    ExportMapping("unified_memory_event", MEMCPY, _migration, _NEEDS | {"copyKind"}, _is_migration),
    ExportMapping("graph_launch", GRAPH_TRACE, _graph_launch, _NEEDS),
    ExportMapping("graph_node", GRAPH_NODES, _graph_node, frozenset({"start", "globalTid"})),
    ExportMapping("sync", SYNCS, _sync, _NEEDS),
)
MEMORY_MAPPINGS = (
    ExportMapping(
        "memory_event",
        MEMORY_USAGE,
        _memory_event,
        frozenset({"start", "deviceId", "memoryOperationType", "bytes"}),
        join=_with_running_sum,
        alias="block",
    ),
    ExportMapping("page_fault", CPU_FAULTS, _cpu_fault, frozenset({"start", "globalPid"})),
    ExportMapping("page_fault", GPU_FAULTS, _gpu_fault, _NEEDS),
)
METRIC_MAPPINGS = (
    ExportMapping(
        "metric_sample",
        METRICS,
        _sample,
        frozenset({"timestamp", "typeId", "metricId", "value"}),
        join=_with_metrics,
        alias="sample",
        start="timestamp",
        reals=frozenset({"value"}),
    ),
)
