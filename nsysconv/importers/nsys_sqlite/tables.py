"""Which column of an nsys export becomes which of ours, for every age of the export.

A mapping is written once against a column lookup that answers NULL for a column that this age does not
have. Column sets by version: docs/formats/nsys.md.
"""

from __future__ import annotations

import sqlalchemy as sa

from nsysconv.facts import Fact
from nsysconv.importers.nsys_sqlite import cpu_side, gpu_metrics, memory
from nsysconv.importers.nsys_sqlite.mapping import (
    Context,
    Mapping,
    interval,
    moment,
    on_gpu,
    on_thread,
    process,
    tid_of,
)
from nsysconv.importers.sqlite_columns import Columns, Expression, known_code
from nsysconv.importers.sqlite_mapping import Watch
from nsysconv.store.recording import SOURCE

_NOT_APPLICABLE = 0xFFFFFFFF

RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
GRAPH_NODES = "CUDA_GRAPH_NODE_EVENTS"
SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
NVTX = "NVTX_EVENTS"
PROFILER_OVERHEAD = "PROFILER_OVERHEAD"
CUPTI_OVERHEAD = "CUPTI_ACTIVITY_KIND_OVERHEAD"

RUNTIME_CLASS, DRIVER_CLASS, BACKTRACE_CLASS = 0, 1, 67
MIGRATION_KINDS = (11, 12, 13)
# Their copyKind -> the code of codes.DIRECTIONS; 0..10 are the same numbers in both.
_MIGRATION_DIRECTION = {11: 1, 12: 2, 13: 8}
RANGE_KINDS = {59: 0, 70: 0, 60: 1, 71: 1, 34: 2}
MARK = 34
OTHER_KINDS = frozenset({33, 39, *range(64, 70), *range(72, 77)})
"""What is no range in the same table: categories, names of threads, domains, and those of nvtxt."""
NAMES_OF_KERNELS = ("demangledName", "shortName", "mangledName")
"""The columns of a kernel's names, the best first."""
_STRINGS = sa.table("StringIds", sa.column("id"), sa.column("value"), schema=SOURCE)
_TEXTS = sa.select(_STRINGS.c.id).where(sa.func.typeof(_STRINGS.c.value) == "text")
# overheadType: JIT compilation, module loading, lazy loading and a full command buffer are the
# driver's work for the program; everything else is the profiler's.
_DRIVER_OVERHEAD = (2, 6, 7, 8)


def _api_call(c: Columns, context: Context) -> dict[str, Expression]:
    layer = c["eventClass"]
    if context.driver_names is not None:
        layer = sa.case((c["nameId"].in_(context.driver_names), DRIVER_CLASS), else_=RUNTIME_CLASS)
    return {
        **interval(c, context),
        **on_thread(c, context),
        "correlation_id": c["correlationId"],
        "layer": layer,
        "name_id": c["nameId"],
        "result": c["returnValue"],
    }


def _kernel(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        **interval(c, context),
        **on_gpu(c, context),
        "green_context_id": c["greenContextId"],
        "name_id": name_at_hand(c) if context.nameless else c["demangledName"],
        "short_name_id": _other_name(c, "shortName") if context.nameless else c["shortName"],
        "mangled_name_id": _other_name(c, "mangledName") if context.nameless else c["mangledName"],
        "grid_x": c["gridX"],
        "grid_y": c["gridY"],
        "grid_z": c["gridZ"],
        "block_x": c["blockX"],
        "block_y": c["blockY"],
        "block_z": c["blockZ"],
        "registers_per_thread": c["registersPerThread"],
        "static_shared_bytes": c["staticSharedMemory"],
        "dynamic_shared_bytes": c["dynamicSharedMemory"],
        "local_bytes_per_thread": c["localMemoryPerThread"],
        "graph_node_id": c["graphNodeId"],
    }


def name_at_hand(c: Columns) -> Expression:
    """Of a kernel's names the first whose text the file holds; its full name where it holds none."""
    names = [c[name] for name in NAMES_OF_KERNELS]
    return sa.case(*((name.in_(_TEXTS), name) for name in names), else_=sa.func.coalesce(*names))


def _other_name(c: Columns, column: str) -> Expression:
    """One of a kernel's further names; none where the file lacks its text and holds another's.

    Reports show the kernel's name where there is none: kernels that differ stay apart.
    """
    return sa.case((c[column].in_(_TEXTS), c[column]), (name_at_hand(c).not_in(_TEXTS), c[column]))


def _memcpy(c: Columns, context: Context) -> dict[str, Expression]:
    pid = process(c, context)
    peer = sa.case((c["srcDeviceId"] == c["deviceId"], c["dstDeviceId"]), else_=c["srcDeviceId"])
    return {
        **interval(c, context),
        **on_gpu(c, context),
        "green_context_id": c["greenContextId"],
        "bytes": c["bytes"],
        "direction": known_code(c["copyKind"], 10, 0),
        "src_kind": known_code(c["srcKind"], 7, 7),
        "dst_kind": known_code(c["dstKind"], 7, 7),
        "peer_device_id": sa.case((c["copyKind"] == 10, context.device(pid, peer))),
        "copy_count": c["copyCount"],
        "graph_node_id": c["graphNodeId"],
    }


def _no_migration(c: Columns, context: Context) -> Expression:
    return sa.func.coalesce(c["copyKind"], 0).not_in(MIGRATION_KINDS)


def _migration(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        **interval(c, context),
        **on_gpu(c, context),
        "bytes": c["bytes"],
        "direction": sa.case(_MIGRATION_DIRECTION, value=c["copyKind"]),
        "cause": c["migrationCause"],
        "address": c["virtualAddress"],
    }


def _only_migrations(c: Columns, context: Context) -> Expression:
    return c["copyKind"].in_(MIGRATION_KINDS)


def _memset(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        **interval(c, context),
        **on_gpu(c, context),
        "green_context_id": c["greenContextId"],
        "bytes": c["bytes"],
        "memory_kind": known_code(c["memKind"], 7, 7),
        "value": c["value"],
        "graph_node_id": c["graphNodeId"],
    }


def _graph_launch(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        **interval(c, context),
        **on_gpu(c, context),
        "graph_id": c["graphId"],
        "graph_exec_id": c["graphExecId"],
    }


def _graph_node(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        "start_ns": moment(c["start"], context),
        **on_thread(c, context),
        "graph_node_id": c["graphNodeId"],
        "original_graph_node_id": c["originalGraphNodeId"],
        "name_id": c["nameId"],
    }


def _sync(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        **interval(c, context),
        **on_gpu(c, context),
        "stream_id": sa.func.nullif(c["streamId"], _NOT_APPLICABLE),
        "event_id": sa.func.nullif(c["eventId"], _NOT_APPLICABLE),
        "sync_type": c["syncType"],
    }


def _range(c: Columns, context: Context) -> dict[str, Expression]:
    end_tid = tid_of(c["endGlobalTid"])
    start = c["start"]
    return {
        "start_ns": moment(start, context),
        "dur_ns": sa.case((c["eventType"] != MARK, c["end"] - start)),
        **on_thread(c, context),
        "end_tid": sa.case((c["endGlobalTid"] != c["globalTid"], end_tid)),
        "kind": sa.case(RANGE_KINDS, value=c["eventType"]),
        "domain_id": sa.func.coalesce(c["domainId"], 0),
        "category_id": sa.func.nullif(c["category"], 0),
        "color": c["color"],
        "name_id": c["textId"],
        "text": sa.case((c["textId"].is_(None), sa.cast(c["text"], sa.Text))),
    }


def _only_ranges(c: Columns, context: Context) -> Expression:
    return c["eventType"].in_(tuple(RANGE_KINDS))


def _profiler_overhead(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        **interval(c, context),
        **on_thread(c, context),
        "kind": sa.literal_column("0"),
        "name_id": c["nameId"],
    }


def _cupti_overhead(c: Columns, context: Context) -> dict[str, Expression]:
    kind = sa.case((c["overheadType"].in_(_DRIVER_OVERHEAD), 1), else_=0)
    return {**interval(c, context), **on_thread(c, context), "kind": kind, "name_id": c["nameId"]}


# API calls first: while they are copied, other threads survey the GPU tables.
MAPPINGS = (
    Mapping(
        "api_call",
        RUNTIME,
        _api_call,
        needs=frozenset({"start", "end", "globalTid"}),
        classes=frozenset({RUNTIME_CLASS, DRIVER_CLASS}),
    ),
    Mapping("kernel", KERNEL, _kernel, needs=frozenset({"start", "end", "deviceId"})),
    Mapping("memcpy", MEMCPY, _memcpy, _no_migration, frozenset({"start", "end", "deviceId"})),
    Mapping("memset", MEMSET, _memset, needs=frozenset({"start", "end", "deviceId"})),
    Mapping(
        "unified_memory_event",
        MEMCPY,
        _migration,
        _only_migrations,
        frozenset({"start", "end", "deviceId", "copyKind"}),
    ),
    Mapping(
        "graph_launch", GRAPH_TRACE, _graph_launch, needs=frozenset({"start", "end", "deviceId"})
    ),
    Mapping("graph_node", GRAPH_NODES, _graph_node, needs=frozenset({"start", "globalTid"})),
    Mapping("sync", SYNCS, _sync, needs=frozenset({"start", "end", "deviceId"})),
    Mapping(
        "range", NVTX, _range, _only_ranges, frozenset({"start", "end", "eventType", "globalTid"})
    ),
    Mapping(
        "overhead",
        PROFILER_OVERHEAD,
        _profiler_overhead,
        needs=frozenset({"start", "end", "globalTid"}),
    ),
    Mapping(
        "overhead", CUPTI_OVERHEAD, _cupti_overhead, needs=frozenset({"start", "end", "globalTid"})
    ),
    *memory.MAPPINGS,
    *cpu_side.MAPPINGS,
    *gpu_metrics.MAPPINGS,
)

WATCH = Watch(
    placing=frozenset(
        {
            "start",
            "end",
            "timestamp",
            "globalTid",
            "globalPid",
            "deviceId",
            "typeId",
        }
    ),
    # Rows whose kind is no number are none of the kinds that are read, and are counted as such.
    no_numbers=frozenset({"text", "eventType", "eventClass"}),
)

EVENT_SOURCES = tuple(dict.fromkeys(mapping.source for mapping in MAPPINGS))
"""The source tables that hold events, each once."""

TIMES = {mapping.source: mapping.time for mapping in MAPPINGS}
"""The column of each that says when a row began."""

CLASSES = {mapping.source: mapping.classes for mapping in MAPPINGS if mapping.classes}
"""Of tables with event classes, those that are rows of ours."""

REALS = {gpu_metrics.SAMPLES: frozenset({"value"})}
"""Columns that hold numbers which need not be whole."""

ON_REQUEST = {cpu_side.OSRT: Fact.OSRT_CALLS, gpu_metrics.SAMPLES: Fact.METRICS}
"""Source tables that are read only where the user includes their fact: they can be most of a file."""
