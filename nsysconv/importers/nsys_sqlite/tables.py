"""Which tables of an export become which of ours, for every age of the export; here also the tables of
what threads did: API calls, ranges, overhead, OS runtime, MPI, libraries, OpenACC and OpenMP.

A mapping is written once, over a column lookup that gives NULL for a column that this age lacks.
Column sets by version: docs/formats/nsys.md.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers import directives
from nsysconv.importers.nsys_sqlite import gpu_tables
from nsysconv.importers.nsys_sqlite.columns import (
    ExportContext,
    ExportMapping,
    moment,
    thread_columns,
    tid_column,
    time_columns,
)
from nsysconv.importers.sqlite_columns import Expression, SourceColumns, code
from nsysconv.importers.sqlite_mapping import CellChecks

RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX = "NVTX_EVENTS"
PROFILER_OVERHEAD = "PROFILER_OVERHEAD"
CUPTI_OVERHEAD = "CUPTI_ACTIVITY_KIND_OVERHEAD"
OSRT = "OSRT_API"
LIBRARIES = ("CUBLAS_EVENTS", "CUDNN_EVENTS")
MPI_P2P = "MPI_P2P_EVENTS"
MPI_COLLECTIVES = "MPI_COLLECTIVES_EVENTS"
MPI_WAITS = "MPI_START_WAIT_EVENTS"
MPI_OTHER = "MPI_OTHER_EVENTS"
MPI = (MPI_P2P, MPI_COLLECTIVES, MPI_WAITS, MPI_OTHER)
OPENACC = directives.OPENACC_SOURCES
OPENMP = tuple(
    f"OPENMP_EVENT_KIND_{kind}"
    for kind in (
        "CANCEL",
        "CRITICAL_SECTION",
        "DISPATCH",
        "FLUSH",
        "LOCK_DESTROY",
        "LOCK_INIT",
        "MASTER",
        "MUTEX_RELEASED",
        "MUTEX_WAIT",
        "PARALLEL",
        "REDUCTION",
        "SYNC_REGION",
        "SYNC_REGION_WAIT",
        "TASK",
        "TASK_CREATE",
        "TASK_SCHEDULE",
        "THREAD",
        "WORKSHARE",
    )
)

# Values of eventClass.
_RUNTIME_CLASS, _DRIVER_CLASS, BACKTRACE_CLASS = 0, 1, 67
_OSRT_CLASS = 27
_LIBRARY_CLASSES = frozenset({28, 29})
_OPENMP_CLASS = 78
MARKER_CLASSES = frozenset({31, 32, 33, 34, 35, 36, 79, 80})
"""Rows that say when the tracing of a kind began and ended. They are no events of the program."""

# Values of NVTX's eventType.
MARK = 34
RANGE_KINDS = {59: 0, 70: 0, 60: 1, 71: 1, MARK: 2}
"""eventType -> kind of range."""
CATEGORY, THREAD_NAME, DOMAIN = 33, 39, 75
OTHER_KINDS = frozenset({CATEGORY, THREAD_NAME, *range(64, 70), *range(72, 77)})
"""What is no range in the same table: categories, names of threads, domains, and those of nvtxt."""

# overheadType: JIT compilation, module loading, lazy loading and a full command buffer are the
# driver's work for the program; everything else is the profiler's.
_DRIVER_OVERHEAD = (2, 6, 7, 8)

_ON_THREAD = frozenset({"start", "end", "globalTid"})


def _api_call(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    layer = c["eventClass"]
    if context.driver_names is not None:
        is_driver = c["nameId"].in_(context.driver_names)
        layer = sa.case((is_driver, _DRIVER_CLASS), else_=_RUNTIME_CLASS)
    return {
        **time_columns(c, context),
        **thread_columns(c, context),
        "correlation_id": c["correlationId"],
        "layer": layer,
        "name_id": c["nameId"],
        "result": c["returnValue"],
    }


def _range(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    end_tid = tid_column(c["endGlobalTid"])
    start = c["start"]
    return {
        "start_ns": moment(start, context),
        "dur_ns": sa.case((c["eventType"] != MARK, c["end"] - start)),
        **thread_columns(c, context),
        "end_tid": sa.case((c["endGlobalTid"] != c["globalTid"], end_tid)),
        "kind": sa.case(RANGE_KINDS, value=c["eventType"]),
        "domain_id": sa.func.coalesce(c["domainId"], 0),
        "category_id": sa.func.nullif(c["category"], 0),
        "color": c["color"],
        "name_id": c["textId"],
        "text": sa.case((c["textId"].is_(None), sa.cast(c["text"], sa.Text))),
    }


def _is_range(c: SourceColumns, context: ExportContext) -> Expression:
    return c["eventType"].in_(tuple(RANGE_KINDS))


def _profiler_overhead(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    return {
        **time_columns(c, context),
        **thread_columns(c, context),
        "kind": sa.literal_column("0"),
        "name_id": c["nameId"],
    }


def _cupti_overhead(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    kind = sa.case((c["overheadType"].in_(_DRIVER_OVERHEAD), 1), else_=0)
    return {**_profiler_overhead(c, context), "kind": kind}


def _osrt_call(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    return {
        **time_columns(c, context),
        **thread_columns(c, context),
        "name_id": c["nameId"],
        "result": c["returnValue"],
        "nesting_level": c["nestingLevel"],
    }


def _mpi_call(kind: str) -> Callable[[SourceColumns, ExportContext], dict[str, Expression]]:
    def columns(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
        return {
            **time_columns(c, context),
            **thread_columns(c, context),
            "kind": code(codes.MPI_KINDS, kind),
            "name_id": c["textId"],
            "tag": c["tag"],
            "remote_rank": c["remoteRank"],
            "root_rank": c["rootRank"],
            "bytes": c["size"],
            "recv_bytes": c["recvSize"],
            "communicator_id": c["commHandle"],
        }

    return columns


def _is_first_of_wait(c: SourceColumns, context: ExportContext) -> Expression:
    # A call that waits for several requests is a row for each of them, alike but for the request.
    same = [c[name] for name in ("start", "end", "globalTid", "textId") if name in c]
    first = sa.select(sa.func.min(c.row_id)).select_from(c.table).group_by(*same)
    return c.row_id.in_(first.correlate(None))


def _operator(kind: str) -> Callable[[SourceColumns, ExportContext], dict[str, Expression]]:
    def columns(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
        return {
            **time_columns(c, context),
            **thread_columns(c, context),
            "kind": code(codes.OPERATOR_KINDS, kind),
            "name_id": c["nameId"],
        }

    return columns


def _openacc(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    values = _operator("directive")(c, context)
    return {**values, "name_id": directives.name_id_column(c, context.construct_ids)}


def _with_names(c: SourceColumns, context: ExportContext) -> sa.FromClause:
    return directives.join_names(c, context.construct_ids)


# API calls first: while they are copied, other threads survey the GPU tables.
MAPPINGS = (
    ExportMapping(
        "api_call",
        RUNTIME,
        _api_call,
        _ON_THREAD,
        classes=frozenset({_RUNTIME_CLASS, _DRIVER_CLASS}),
    ),
    *gpu_tables.WORK_MAPPINGS,
    ExportMapping("range", NVTX, _range, _ON_THREAD | {"eventType"}, _is_range),
    ExportMapping("overhead", PROFILER_OVERHEAD, _profiler_overhead, _ON_THREAD),
    ExportMapping("overhead", CUPTI_OVERHEAD, _cupti_overhead, _ON_THREAD),
    *gpu_tables.MEMORY_MAPPINGS,
    ExportMapping("osrt_call", OSRT, _osrt_call, _ON_THREAD, classes=frozenset({_OSRT_CLASS})),
    ExportMapping("mpi_call", MPI_P2P, _mpi_call("p2p"), _ON_THREAD),
    ExportMapping("mpi_call", MPI_COLLECTIVES, _mpi_call("collective"), _ON_THREAD),
    ExportMapping("mpi_call", MPI_WAITS, _mpi_call("wait"), _ON_THREAD, _is_first_of_wait),
    ExportMapping("mpi_call", MPI_OTHER, _mpi_call("other"), _ON_THREAD),
    *(
        ExportMapping(
            "operator",
            source,
            _operator("library_call"),
            _ON_THREAD,
            classes=_LIBRARY_CLASSES,
            own_fact=Fact.LIBRARY_CALLS,
        )
        for source in LIBRARIES
    ),
    *(
        ExportMapping(
            "operator",
            source,
            _operator("directive"),
            _ON_THREAD,
            classes=frozenset({_OPENMP_CLASS}),
            own_fact=Fact.DIRECTIVES,
        )
        for source in OPENMP
    ),
    *(
        ExportMapping(
            "operator",
            source,
            _openacc,
            _ON_THREAD | {"eventKind"},
            join=_with_names,
            alias=directives.ALIAS,
            own_fact=Fact.DIRECTIVES,
        )
        for source in OPENACC
    ),
    *gpu_tables.METRIC_MAPPINGS,
)

CHECKS = CellChecks(
    required=frozenset(
        {"start", "end", "timestamp", "globalTid", "globalPid", "deviceId", "typeId"}
    ),
    # Rows whose kind is no number are none of the kinds that are read, and are counted as such.
    not_numbers=frozenset({"text", "eventType", "eventClass"}),
)

EVENT_SOURCES = tuple(dict.fromkeys(mapping.source for mapping in MAPPINGS))
"""The source tables that hold events, each once."""

TIMES = {mapping.source: mapping.start for mapping in MAPPINGS}
"""Source table -> the column that says when a row began."""

CLASSES = {mapping.source: mapping.classes for mapping in MAPPINGS if mapping.classes}
"""Source table -> the event classes that are rows of ours, if it has event classes."""

ON_REQUEST = {OSRT: Fact.OSRT_CALLS, gpu_tables.METRICS: Fact.METRICS}
"""Source tables that are read only if the user includes their fact: they can be most of a file."""


def facts_of(source: str) -> frozenset[Fact]:
    """Return the facts that a profile holds if a source table was recorded."""
    return frozenset(mapping.fact for mapping in MAPPINGS if mapping.source == source)
