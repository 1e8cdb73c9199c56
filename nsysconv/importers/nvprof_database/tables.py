"""Mappings of the columns of an nvprof database to ours, for every version of the database.

A mapping is written once, over a column lookup that gives NULL for a column that this version lacks.
Column sets by version: docs/formats/nvprof.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers import directives, sqlite_mapping
from nsysconv.importers.nvprof_database.names import NameIds
from nsysconv.importers.sqlite_columns import (
    TIME_LIMIT,
    Expression,
    SourceColumns,
    code,
    known_code,
)
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
MARKER_DATA = _PREFIX + "MARKER_DATA"
OVERHEAD = _PREFIX + "OVERHEAD"
DEVICE = _PREFIX + "DEVICE"
DEVICE_ATTRIBUTE = _PREFIX + "DEVICE_ATTRIBUTE"
CONTEXT = _PREFIX + "CONTEXT"
STREAM = _PREFIX + "STREAM"
OBJECT_NAME = _PREFIX + "NAME"

LAYERS = {RUNTIME: 0, DRIVER: 1}
KERNELS = (CONCURRENT_KERNEL, SERIAL_KERNEL, DEVICE_KERNEL)
GPU_SOURCES = (*KERNELS, MEMCPY, PEER_COPY, MEMSET)
"""Tables of GPU work, which are recorded together."""
PTOP = 10
"""The copyKind of copies between devices."""
# The kind of a counter of unified memory maps to the code of codes.DIRECTIONS. Other counters count
# faults, throttling and mappings, which are not GPU work.
MIGRATIONS = {1: 1, 2: 2, 8: 8}
DTOH = 2
# Kinds of memory are numbered from 1, and 0 is unknown.
LAST_MEMORY_KIND, _UNKNOWN_MEMORY = 7, 7
# Only the compiler's work is the driver's; buffers, instrumentation and resources are the profiler's.
_DRIVER_COMPILER = 1
_LOW_32_BITS = 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True)
class DatabaseContext(sqlite_mapping.MappingContext):
    """Decisions of the survey of a database for its mappings.

    `pid`: the file's only process. `repeated_peers`: some peer copies are in two tables.
    `has_looks`: ranges have colors and categories.
    """

    pid: int | None
    names: NameIds
    repeated_peers: bool = False
    has_looks: bool = False


DatabaseMapping = sqlite_mapping.TableMapping[DatabaseContext]


_Columns = dict[str, Expression]


def _interval(c: SourceColumns, context: DatabaseContext) -> _Columns:
    return sqlite_mapping.interval(c, _moment(c["start"], context), context)


def _moment(time: Expression, context: DatabaseContext) -> Expression:
    return time - context.zero if context.zero else time


# -- GPU work


def _on_gpu(c: SourceColumns, context: DatabaseContext) -> _Columns:
    return {
        **_interval(c, context),
        "pid": _own_process(context),
        **c.renamed(device_id="deviceId", context_id="contextId", stream_id="streamId"),
        "correlation_id": c["correlationId"],
    }


def _own_process(context: DatabaseContext) -> Expression:
    return sa.null() if context.pid is None else sa.literal_column(str(context.pid))


def _kernel(c: SourceColumns, context: DatabaseContext) -> _Columns:
    names = context.names
    symbol = names.text(c["name"], careful=context.careful)
    return {
        **_on_gpu(c, context),
        "name_id": symbol + names.base if names.demangles else symbol,
        "mangled_name_id": symbol,
        **c.renamed(**sqlite_mapping.LAUNCH_COLUMNS),
        "graph_node_id": sa.func.nullif(c["graphNodeId"], 0),
    }


def _memory_kind(number: Expression) -> Expression:
    return sa.case(
        (number.between(1, LAST_MEMORY_KIND), number - 1), (number.is_not(None), _UNKNOWN_MEMORY)
    )


def _memcpy(c: SourceColumns, context: DatabaseContext) -> _Columns:
    return {
        **_on_gpu(c, context),
        "bytes": c["bytes"],
        "direction": known_code(c["copyKind"], PTOP, 0),
        "src_kind": _memory_kind(c["srcKind"]),
        "dst_kind": _memory_kind(c["dstKind"]),
        "peer_device_id": sqlite_mapping.peer_device(c),
        "graph_node_id": sa.func.nullif(c["graphNodeId"], 0),
    }


def _is_not_repeated(c: SourceColumns, context: DatabaseContext) -> Expression | None:
    # Peer copies have a table of their own; those that are in both are taken from there.
    if not context.repeated_peers:
        return None
    columns = ("correlationId", "start", "end")
    peers = sa.table(PEER_COPY, *(sa.column(name) for name in columns), schema=SOURCE)
    copy = sa.tuple_(*(c[name] for name in columns))
    return (sa.func.coalesce(c["copyKind"], 0) != PTOP) | copy.not_in(
        sa.select(*(peers.c[name] for name in columns))
    )


def _memset(c: SourceColumns, context: DatabaseContext) -> _Columns:
    return {
        **_on_gpu(c, context),
        "bytes": c["bytes"],
        "memory_kind": _memory_kind(c["memoryKind"]),
        "value": c["value"],
        "graph_node_id": sa.func.nullif(c["graphNodeId"], 0),
    }


def _migration(c: SourceColumns, context: DatabaseContext) -> _Columns:
    kind = c["counterKind"]
    return {
        **_interval(c, context),
        "pid": sa.func.nullif(c["processId"], 0),
        "device_id": sa.case((kind == DTOH, c["srcId"]), else_=c["dstId"]),
        "bytes": c["value"],
        "direction": sa.case(MIGRATIONS, value=kind),
        # The flags of a migration to or from the host are its cause.
        "cause": sa.case((kind.in_((1, DTOH)), c["flags"])),
        "address": c["address"],
    }


def _is_migration(c: SourceColumns, context: DatabaseContext) -> Expression:
    return c["counterKind"].in_(tuple(MIGRATIONS))


def _sync(c: SourceColumns, context: DatabaseContext) -> _Columns:
    return {
        **_interval(c, context),
        "pid": _own_process(context),
        "stream_id": _unless_unused(c["streamId"]),
        "event_id": _unless_unused(c["cudaEventId"]),
        **sqlite_mapping.record_columns(context),
        **c.renamed(context_id="contextId", correlation_id="correlationId", sync_type="type"),
    }


def _unless_unused(number: Expression) -> Expression:
    # An absent number is written as -1, with or without its sign.
    return sa.case((number.not_in((-1, _LOW_32_BITS)), number))


# -- API calls


def _api_call(c: SourceColumns, context: DatabaseContext) -> _Columns:
    layer = LAYERS[c.source.name]
    return {
        **_interval(c, context),
        "pid": sa.func.nullif(c["processId"], 0),
        # Stored as a signed number of 32 bits, what is left of a pthread_t.
        "tid": c["threadId"].op("&")(_LOW_32_BITS),
        "layer": sa.literal_column(str(layer)),
        "name_id": context.names.call(c["cbid"], layer, careful=context.careful),
        **c.renamed(correlation_id="correlationId", result="returnValue"),
    }


# -- objects
#
# Processes and threads are objects whose numbers are packed in a blob. `objectKind` 1 is a process (a pid
# of 32 bits), 2 a thread (the pid, then a thread id of 64 bits whose upper half may be garbage), 5 a
# stream (device, context and stream, 32 bits each). Bytes are in the order of the machines that ran
# nvprof: lowest first.

PROCESS_OBJECT, THREAD_OBJECT, STREAM_OBJECT = 1, 2, 5
_NUMBER_BYTES = 4
_ALL_BYTES: Expression = sa.literal_column(f"x'{bytes(range(256)).hex()}'")


def object_numbers(blob: bytes, count: int) -> tuple[int, ...] | None:
    """Return the first `count` numbers in an object's blob, or None if it is too short."""
    if len(blob) < count * _NUMBER_BYTES:
        return None
    return tuple(
        int.from_bytes(blob[at : at + _NUMBER_BYTES], "little")
        for at in range(0, count * _NUMBER_BYTES, _NUMBER_BYTES)
    )


def _object_number(blob: Expression, place: int, kind: Expression) -> Expression:
    # The SQL reads a number in an object's blob. It gives NULL if objects of the kind have no number at
    # this place.
    kinds = (PROCESS_OBJECT, THREAD_OBJECT) if place == 0 else (THREAD_OBJECT,)
    offset = place * _NUMBER_BYTES
    value = _byte(blob, offset)
    for at in range(1, _NUMBER_BYTES):
        value = value + _byte(blob, offset + at) * _literal(1 << 8 * at)
    enough = sa.func.length(blob) >= _literal(offset + _NUMBER_BYTES)
    is_blob = sa.func.typeof(blob) == sa.literal_column("'blob'")
    return sa.case((kind.in_(kinds) & is_blob & enough, value))


def _byte(blob: Expression, place: int) -> Expression:
    # SQLite has no function for the value of a byte, but it finds a byte among all of them.
    byte = sa.func.substr(blob, _literal(place + 1), _literal(1))
    return sa.func.instr(_ALL_BYTES, byte, type_=sa.BigInteger) - _literal(1)


def _literal(number: int) -> Expression:
    return sa.literal_column(str(number), sa.BigInteger)


# -- ranges and marks
#
# They are made of markers: a row where a range begins, another where it ends, with the same `id`.
# The rows do not say whether a range was pushed or started: one that another thread ended was started,
# all others are taken for pushed.

MARK, BEGIN, END = 1, 2, 4
"""Bits of a marker's flags."""
_HAS_COLOR = 2
_PUSH_POP, _START_END, _MARK = 0, 1, 2


def _integers(*names: str) -> list[sa.ColumnClause[int]]:
    return [sa.column(name, sa.BigInteger) for name in names]


# One row for each id, so that a number that is used twice does not double a range.
_ENDS = (
    sa.text(
        f"""SELECT id, min(timestamp) AS ended_at, objectId AS object, objectKind AS kind
        FROM {SOURCE}.{MARKER}
        WHERE flags & {END} AND typeof(timestamp) = 'integer' GROUP BY id"""
    )
    .columns(*_integers("id", "ended_at", "kind"), sa.column("object", sa.LargeBinary))
    .subquery("ending")
)
_LOOKS = (
    sa.text(
        f"""SELECT id, max(CASE WHEN flags & {_HAS_COLOR} AND typeof(color) = 'integer'
            THEN color & 4294967295 END) AS color,
        max(CASE WHEN typeof(category) = 'integer' THEN category END) AS category
        FROM {SOURCE}.{MARKER_DATA} GROUP BY id"""
    )
    .columns(*_integers("id", "color", "category"))
    .subquery("looks")
)


def _range(c: SourceColumns, context: DatabaseContext) -> _Columns:
    # By the row where it begins, joined with the one where it ends.
    careful, looks = context.careful, _LOOKS.c if context.has_looks else None
    time, kind, ending = c["timestamp"], c["objectKind"], _ENDS.c
    start = _moment(time, context)
    has_end = c["flags"].op("&")(BEGIN) != 0
    tid = _object_number(c["objectId"], 1, kind)
    end_tid = _object_number(ending.object, 1, ending.kind)
    other_thread = has_end & (_thread(ending.object) != _thread(c["objectId"]))
    closed = has_end & (ending.ended_at >= time)
    if careful:
        closed &= (time != 0) & (ending.ended_at - time <= TIME_LIMIT)
    return {
        "start_ns": sa.case((time != 0, start)) if careful else start,
        "dur_ns": sa.case((closed, ending.ended_at - time)),
        "pid": sa.func.nullif(_object_number(c["objectId"], 0, kind), 0),
        "tid": tid,
        "end_tid": sa.case((other_thread, end_tid)),
        "kind": sa.case((~has_end, _MARK), (other_thread, _START_END), else_=_PUSH_POP),
        "domain_id": sa.func.coalesce(c["domain"], 0),
        "category_id": sa.func.nullif(looks.category, 0) if looks else sa.null(),
        "color": looks.color if looks else sa.null(),
        "name_id": context.names.text(c["name"], careful=careful),
    }


def _thread(blob: Expression) -> Expression:
    # Process and thread without the upper half of the thread's number, which may be garbage.
    return sa.func.substr(blob, sa.literal_column("1"), sa.literal_column("8"))


def _is_beginning(c: SourceColumns, context: DatabaseContext) -> Expression:
    return c["flags"].op("&")(MARK | BEGIN) != 0


def _with_ends(c: SourceColumns, context: DatabaseContext) -> sa.FromClause:
    both = sa.outerjoin(c.table, _ENDS, _ENDS.c.id == c["id"])
    return both.outerjoin(_LOOKS, _LOOKS.c.id == c["id"]) if context.has_looks else both


# -- directives and overhead


def _directive(c: SourceColumns, context: DatabaseContext) -> _Columns:
    return {
        **_interval(c, context),
        "pid": sa.func.nullif(c["cuProcessId"], 0),
        # `threadId` is the number of the directives' own runtime, which API calls do not know.
        "tid": sa.func.nullif(c["cuThreadId"].op("&")(_LOW_32_BITS), 0),
        "kind": code(codes.OPERATOR_KINDS, "directive"),
        "name_id": directives.name_id_column(c, context.construct_ids),
    }


def _momentary_directive(c: SourceColumns, context: DatabaseContext) -> _Columns:
    values = _directive(c, context)
    dur: Expression = sa.literal_column("0")
    if not context.careful:
        return {**values, "dur_ns": dur}
    timed = c["start"] != 0
    start = c["start"] - context.zero
    return {**values, "start_ns": sa.case((timed, start)), "dur_ns": sa.case((timed, dur))}


def _overhead(c: SourceColumns, context: DatabaseContext) -> _Columns:
    kind, owner = c["overheadKind"], c["objectKind"]
    return {
        **_interval(c, context),
        "pid": sa.func.nullif(_object_number(c["objectId"], 0, owner), 0),
        "tid": _object_number(c["objectId"], 1, owner),
        "kind": sa.case((kind == _DRIVER_COMPILER, 1), else_=0),
        "name_id": context.names.overhead(kind),
    }


# -- all tables

EVENTS = {
    UNIFIED_MEMORY: f"counterKind IN ({', '.join(map(str, MIGRATIONS))})",
    MARKER: f"flags & {MARK | BEGIN | END}",
}
"""Source table -> which of its rows are of events, if not every one is, as SQL."""

_CALL_NEEDS = frozenset({"start", "end", "processId", "threadId", "cbid"})
_GPU_NEEDS = frozenset({"start", "end", "deviceId"})
_OVERHEAD_NEEDS = frozenset({"start", "end", "overheadKind", "objectKind", "objectId"})

_DIRECTIVES = DatabaseMapping(
    "operator",
    directives.OPENACC_DATA,
    _directive,
    frozenset({"start", "end", "eventKind", "cuProcessId", "cuThreadId"}),
    join=lambda c, context: directives.join_names(c, context.construct_ids),
    alias=directives.ALIAS,
    own_fact=Fact.DIRECTIVES,
)

MAPPINGS = (
    *(DatabaseMapping("api_call", source, _api_call, _CALL_NEEDS) for source in LAYERS),
    *(DatabaseMapping("kernel", source, _kernel, _GPU_NEEDS) for source in KERNELS),
    DatabaseMapping("memcpy", MEMCPY, _memcpy, _GPU_NEEDS, _is_not_repeated),
    DatabaseMapping("memcpy", PEER_COPY, _memcpy, _GPU_NEEDS),
    DatabaseMapping("memset", MEMSET, _memset, _GPU_NEEDS),
    DatabaseMapping(
        "unified_memory_event",
        UNIFIED_MEMORY,
        _migration,
        frozenset({"start", "end", "counterKind", "srcId", "dstId", "processId"}),
        _is_migration,
        events=EVENTS[UNIFIED_MEMORY],
    ),
    DatabaseMapping("sync", SYNCS, _sync, join=sqlite_mapping.with_records, alias="wait"),
    DatabaseMapping(
        "range",
        MARKER,
        _range,
        frozenset({"flags", "timestamp", "id", "objectKind", "objectId"}),
        _is_beginning,
        _with_ends,
        alias="beginning",
        start="timestamp",
        end="timestamp",
        events=EVENTS[MARKER],
    ),
    DatabaseMapping("overhead", OVERHEAD, _overhead, _OVERHEAD_NEEDS),
    *(
        replace(_DIRECTIVES, source=source)
        for source in directives.SOURCES
        if source != directives.OPENACC_DATA
    ),
    replace(
        _DIRECTIVES,
        where=lambda c, context: ~directives.is_moment(c),
        events=f"NOT ({directives.MOMENTS})",
    ),
    replace(
        _DIRECTIVES,
        columns=_momentary_directive,
        where=lambda c, context: directives.is_moment(c),
        events=directives.MOMENTS,
        end="start",
    ),
)

EVENT_SOURCES = tuple(dict.fromkeys(mapping.source for mapping in MAPPINGS))
"""The source tables that hold events, each once."""

FACTS = {mapping.source: mapping.fact for mapping in MAPPINGS}
"""Source table -> what a profile holds if it was recorded."""

CHECKS = sqlite_mapping.CellChecks(
    required=frozenset((
        "start", "end", "timestamp", "processId", "threadId", "cuProcessId", "cuThreadId", "deviceId",
        "counterKind", "srcId", "dstId", "flags", "id",
    )),
    not_numbers=frozenset({"objectId"}),
)  # fmt: skip
