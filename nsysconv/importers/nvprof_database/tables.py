"""Which column of an nvprof database becomes which of ours, for every version of the database.

A mapping is written once against a column lookup that answers NULL for a column that this version does
not have. Column sets by version: docs/formats/nvprof.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from nsysconv import codes, schema
from nsysconv.facts import Fact
from nsysconv.importers import directives
from nsysconv.importers.nvprof_database import markers
from nsysconv.importers.nvprof_database.name_ids import NameIds
from nsysconv.importers.nvprof_database.objects import number_at
from nsysconv.importers.sqlite_columns import Columns, Expression, known_code
from nsysconv.store.recording import SOURCE

_PREFIX = "CUPTI_ACTIVITY_KIND_"
RUNTIME = _PREFIX + "RUNTIME"
DRIVER = _PREFIX + "DRIVER"
CONCURRENT_KERNEL = _PREFIX + "CONCURRENT_KERNEL"
SERIAL_KERNEL = _PREFIX + "KERNEL"
DEVICE_KERNEL = _PREFIX + "CDP_KERNEL"
MEMCPY = _PREFIX + "MEMCPY"
PEER_COPY = _PREFIX + "MEMCPY2"
MEMSET = _PREFIX + "MEMSET"
UNIFIED_MEMORY = _PREFIX + "UNIFIED_MEMORY_COUNTER"
SYNCS = _PREFIX + "SYNCHRONIZATION"
MARKER = _PREFIX + "MARKER"
OVERHEAD = _PREFIX + "OVERHEAD"
DEVICE = _PREFIX + "DEVICE"
CONTEXT = _PREFIX + "CONTEXT"
STREAM = _PREFIX + "STREAM"
OBJECT_NAME = _PREFIX + "NAME"

LAYERS = {RUNTIME: 0, DRIVER: 1}
KERNELS = (CONCURRENT_KERNEL, SERIAL_KERNEL, DEVICE_KERNEL)
PTOP = 10
# What a counter of unified memory counted -> the code of codes.DIRECTIONS. The others count faults,
# throttling and mappings, which are no GPU work.
MIGRATIONS = {1: 1, 2: 2, 8: 8}
_DTOH = 2
# Kinds of memory are numbered from 1, and 0 is unknown.
LAST_MEMORY_KIND, _UNKNOWN_MEMORY = 7, 7
# Only the compiler's work is the driver's; buffers, instrumentation and resources are the profiler's.
DRIVER_COMPILER = 1
_LOW_32_BITS = 0xFFFFFFFF
_DIRECTIVE = codes.OPERATOR_KINDS.index("directive")


@dataclass(frozen=True)
class Context:
    """What the survey of a file decides for all its mappings.

    `zero`: subtracted from every time. `pid`: the file's only process. `repeated_peers`: some peer
    copies stand in two tables. `looks`: ranges have colours. `constructs`: numbers of names of OpenACC
    and OpenMP. `careful`: rows without a time and names that cannot be are looked for.
    """

    zero: int
    pid: int | None
    names: NameIds
    repeated_peers: bool = False
    looks: bool = False
    constructs: directives.Numbers = field(default_factory=dict)
    careful: bool = False


@dataclass(frozen=True)
class Mapping:
    """One of our event tables made from one source table: expressions by our column, and a filter.

    `rows` gives the table itself or what it is joined with; then `alias` names it. `events`: which of its
    rows are meant, as SQL, where that is not the same for all mappings of the table. `momentary`: their
    end is not looked at. `told`: the fact that they are, where it is not that of our table.
    """

    ours: str
    source: str
    columns: Callable[[Columns, Context], dict[str, Expression]]
    where: Callable[[Columns, Context], Expression | None] = lambda c, context: None
    needs: frozenset[str] = frozenset({"start", "end"})
    rows: Callable[[Columns, Context], sa.FromClause] = lambda c, context: c.table
    alias: str = ""
    events: str = ""
    momentary: bool = False
    told: Fact | None = None

    @property
    def fact(self) -> Fact:
        """What a profile holds if these rows were recorded."""
        return self.told or schema.EVENT_TABLES[self.ours].fact


def _interval(c: Columns, context: Context) -> dict[str, Expression]:
    start, end = c["start"], c["end"]
    values = {"start_ns": start - context.zero if context.zero else start, "dur_ns": end - start}
    if not context.careful:
        return values
    # A row that starts and ends at 0 has no time.
    timeless = (start == 0) & (end == 0)
    return {name: sa.case((timeless, sa.null()), else_=value) for name, value in values.items()}


def _own_process(context: Context) -> Expression:
    return sa.null() if context.pid is None else sa.literal_column(str(context.pid))


def _on_gpu(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        "pid": _own_process(context),
        "device_id": c["deviceId"],
        "context_id": c["contextId"],
        "stream_id": c["streamId"],
        "correlation_id": c["correlationId"],
    }


def _api_call(c: Columns, context: Context) -> dict[str, Expression]:
    layer = LAYERS[c.source.name]
    return {
        **_interval(c, context),
        "pid": sa.func.nullif(c["processId"], 0),
        # Stored as a signed number of 32 bits, what is left of a pthread_t.
        "tid": c["threadId"].op("&")(_LOW_32_BITS),
        "correlation_id": c["correlationId"],
        "layer": sa.literal_column(str(layer)),
        "name_id": context.names.call(c["cbid"], layer, careful=context.careful),
        "result": c["returnValue"],
    }


def _kernel(c: Columns, context: Context) -> dict[str, Expression]:
    names = context.names
    symbol = names.text(c["name"], careful=context.careful)
    return {
        **_interval(c, context),
        **_on_gpu(c, context),
        "name_id": names.demangled(symbol) if names.demangles else symbol,
        "mangled_name_id": symbol,
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
        "graph_node_id": sa.func.nullif(c["graphNodeId"], 0),
    }


def _memory_kind(code: Expression) -> Expression:
    return sa.case(
        (code.between(1, LAST_MEMORY_KIND), code - 1), (code.is_not(None), _UNKNOWN_MEMORY)
    )


def _memcpy(c: Columns, context: Context) -> dict[str, Expression]:
    peer = sa.case((c["srcDeviceId"] == c["deviceId"], c["dstDeviceId"]), else_=c["srcDeviceId"])
    return {
        **_interval(c, context),
        **_on_gpu(c, context),
        "bytes": c["bytes"],
        "direction": known_code(c["copyKind"], PTOP, 0),
        "src_kind": _memory_kind(c["srcKind"]),
        "dst_kind": _memory_kind(c["dstKind"]),
        "peer_device_id": peer,
        "graph_node_id": sa.func.nullif(c["graphNodeId"], 0),
    }


def _told_once(c: Columns, context: Context) -> Expression | None:
    """Peer copies have a table of their own; those that stand in both are taken from there."""
    if not context.repeated_peers:
        return None
    names = ("correlationId", "start", "end")
    peers = sa.table(PEER_COPY, *(sa.column(name) for name in names), schema=SOURCE)
    here = sa.tuple_(*(c[name] for name in names))
    return (sa.func.coalesce(c["copyKind"], 0) != PTOP) | here.not_in(
        sa.select(*(peers.c[name] for name in names))
    )


def _memset(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        **_interval(c, context),
        **_on_gpu(c, context),
        "bytes": c["bytes"],
        "memory_kind": _memory_kind(c["memoryKind"]),
        "value": c["value"],
        "graph_node_id": sa.func.nullif(c["graphNodeId"], 0),
    }


def _migration(c: Columns, context: Context) -> dict[str, Expression]:
    kind = c["counterKind"]
    return {
        **_interval(c, context),
        "pid": sa.func.nullif(c["processId"], 0),
        "device_id": sa.case((kind == _DTOH, c["srcId"]), else_=c["dstId"]),
        "bytes": c["value"],
        "direction": sa.case(MIGRATIONS, value=kind),
        # The flags of a migration to or from the host are its cause.
        "cause": sa.case((kind.in_((1, _DTOH)), c["flags"])),
        "address": c["address"],
    }


def _only_migrations(c: Columns, context: Context) -> Expression:
    return c["counterKind"].in_(tuple(MIGRATIONS))


def _unless_unused(number: Expression) -> Expression:
    """A number whose absence is written as -1, with or without its sign."""
    return sa.case((number.not_in((-1, _LOW_32_BITS)), number))


def _sync(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        **_interval(c, context),
        "pid": _own_process(context),
        "context_id": c["contextId"],
        "stream_id": _unless_unused(c["streamId"]),
        "correlation_id": c["correlationId"],
        "event_id": _unless_unused(c["cudaEventId"]),
        "sync_type": c["type"],
    }


def _range(c: Columns, context: Context) -> dict[str, Expression]:
    return markers.columns(
        c, context.zero, context.names, careful=context.careful, looks=context.looks
    )


def _only_beginnings(c: Columns, context: Context) -> Expression:
    return markers.beginnings(c)


def _with_ends(c: Columns, context: Context) -> sa.FromClause:
    return markers.joined(c, looks=context.looks)


def _directive(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        **_interval(c, context),
        "pid": sa.func.nullif(c["cuProcessId"], 0),
        # `threadId` is the number of the directives' own runtime, which API calls do not know.
        "tid": sa.func.nullif(c["cuThreadId"].op("&")(_LOW_32_BITS), 0),
        "kind": sa.literal_column(str(_DIRECTIVE)),
        "name_id": directives.name_id(c, context.constructs),
    }


def _momentary_directive(c: Columns, context: Context) -> dict[str, Expression]:
    values = _directive(c, context)
    dur: Expression = sa.literal_column("0")
    if not context.careful:
        return {**values, "dur_ns": dur}
    timed = c["start"] != 0
    start = c["start"] - context.zero
    return {**values, "start_ns": sa.case((timed, start)), "dur_ns": sa.case((timed, dur))}


def _only_lasting(c: Columns, context: Context) -> Expression:
    return ~directives.is_moment(c)


def _only_moments(c: Columns, context: Context) -> Expression:
    return directives.is_moment(c)


def _with_names(c: Columns, context: Context) -> sa.FromClause:
    return directives.joined(c, context.constructs)


def _overhead(c: Columns, context: Context) -> dict[str, Expression]:
    kind, owner = c["overheadKind"], c["objectKind"]
    return {
        **_interval(c, context),
        "pid": sa.func.nullif(number_at(c["objectId"], 0, owner), 0),
        "tid": number_at(c["objectId"], 4, owner),
        "kind": sa.case((kind == DRIVER_COMPILER, 1), else_=0),
        "name_id": context.names.overhead(kind),
    }


_CALL = frozenset({"start", "end", "processId", "threadId", "cbid"})
_ON_GPU = frozenset({"start", "end", "deviceId"})

_DIRECTIVES = Mapping(
    "operator",
    directives.OPENACC_DATA,
    _directive,
    needs=frozenset({"start", "end", "eventKind", "cuProcessId", "cuThreadId"}),
    rows=_with_names,
    alias=directives.ALIAS,
    told=Fact.DIRECTIVES,
)

MAPPINGS = (
    *(Mapping("api_call", source, _api_call, needs=_CALL) for source in LAYERS),
    *(Mapping("kernel", source, _kernel, needs=_ON_GPU) for source in KERNELS),
    Mapping("memcpy", MEMCPY, _memcpy, _told_once, _ON_GPU),
    Mapping("memcpy", PEER_COPY, _memcpy, needs=_ON_GPU),
    Mapping("memset", MEMSET, _memset, needs=_ON_GPU),
    Mapping(
        "unified_memory_event",
        UNIFIED_MEMORY,
        _migration,
        _only_migrations,
        frozenset({"start", "end", "counterKind", "srcId", "dstId", "processId"}),
    ),
    Mapping("sync", SYNCS, _sync),
    Mapping(
        "range",
        MARKER,
        _range,
        _only_beginnings,
        frozenset({"flags", "timestamp", "id", "objectKind", "objectId"}),
        _with_ends,
        markers.ALIAS,
    ),
    Mapping(
        "overhead",
        OVERHEAD,
        _overhead,
        needs=frozenset({"start", "end", "overheadKind", "objectKind", "objectId"}),
    ),
    *(
        replace(_DIRECTIVES, source=source)
        for source in directives.SOURCES
        if source != directives.OPENACC_DATA
    ),
    replace(_DIRECTIVES, where=_only_lasting, events=f"NOT ({directives.MOMENTS})"),
    replace(
        _DIRECTIVES,
        columns=_momentary_directive,
        where=_only_moments,
        events=directives.MOMENTS,
        momentary=True,
    ),
)

EVENT_SOURCES = tuple(dict.fromkeys(mapping.source for mapping in MAPPINGS))
"""The source tables that hold events, each once."""

EVENTS = {
    UNIFIED_MEMORY: f"counterKind IN ({', '.join(map(str, MIGRATIONS))})",
    MARKER: f"flags & {markers.MARK | markers.BEGIN | markers.END}",
}
"""Which rows of a source table are of events at all, where not every one is, as SQL."""

FACTS = {mapping.source: mapping.fact for mapping in MAPPINGS}
"""What a profile holds if a source table was recorded."""

GPU_SOURCES = (*KERNELS, MEMCPY, PEER_COPY, MEMSET)
"""Those that hold GPU work which is recorded together."""

PLACING = frozenset(
    {
        "start",
        "end",
        "timestamp",
        "processId",
        "threadId",
        "cuProcessId",
        "cuThreadId",
        "deviceId",
        "counterKind",
        "srcId",
        "dstId",
        "flags",
        "id",
    }
)
"""Without these a row cannot be placed in time, process or device."""


def columns_of(mapping: Mapping, columns: Columns, context: Context) -> sa.Select[Any]:
    """The rows of one mapping as a select over the attached source, columns named as ours."""
    expressions = mapping.columns(columns, context)
    labelled = [e.label(name) for name, e in expressions.items()]
    rows = sa.select(*labelled).select_from(mapping.rows(columns, context))
    where = mapping.where(columns, context)
    return rows if where is None else rows.where(where)
