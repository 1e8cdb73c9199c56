"""Mappings of the tables of an export to ours, for every age of the export.

For each table of events a function gives our columns as expressions over the export's; the mappings are
at the end. It is written once, over a column lookup that gives NULL for a column that this age lacks.
Column sets by version: docs/formats/nsys.md.
"""

from __future__ import annotations

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers import directives, sqlite_mapping
from nsysconv.importers.nsys_sqlite import cpus
from nsysconv.importers.nsys_sqlite.export_context import (
    Columns,
    ExportContext,
    ExportMapping,
    Metric,
    gpu_pid,
    moment,
    of_thread,
    on_gpu,
    on_thread,
    pid_of,
    tid,
)
from nsysconv.importers.sqlite_columns import (
    Expression,
    SourceColumns,
    code,
    known_code,
    values_table,
    whole_number,
)
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
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX = "NVTX_EVENTS"
PAYLOAD_SCHEMAS = "NVTX_PAYLOAD_SCHEMAS"
PAYLOAD_ENTRIES = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
PROFILER_OVERHEAD = "PROFILER_OVERHEAD"
CUPTI_OVERHEAD = "CUPTI_ACTIVITY_KIND_OVERHEAD"
OSRT = "OSRT_API"
LIBRARIES = ("CUBLAS_EVENTS", "CUDNN_EVENTS")
OPENACC = directives.OPENACC_SOURCES
_OPENMP_KINDS = (
    "CANCEL", "CRITICAL_SECTION", "DISPATCH", "FLUSH", "LOCK_DESTROY", "LOCK_INIT", "MASTER",
    "MUTEX_RELEASED", "MUTEX_WAIT", "PARALLEL", "REDUCTION", "SYNC_REGION", "SYNC_REGION_WAIT", "TASK",
    "TASK_CREATE", "TASK_SCHEDULE", "THREAD", "WORKSHARE",
)  # fmt: skip
OPENMP = tuple(f"OPENMP_EVENT_KIND_{kind}" for kind in _OPENMP_KINDS)
MPI_WAITS = "MPI_START_WAIT_EVENTS"
MPI = {
    "MPI_P2P_EVENTS": "p2p",
    "MPI_COLLECTIVES_EVENTS": "collective",
    MPI_WAITS: "wait",
    "MPI_OTHER_EVENTS": "other",
}
"""Source table -> the word of codes.MPI_KINDS for its calls."""

GPU_WORK = (KERNEL, MEMCPY, MEMSET, GRAPH_TRACE)
"""Tables of work on GPUs, all recorded by one switch."""
GPU_TABLES = (*GPU_WORK, SYNCS, MEMORY_USAGE, GPU_FAULTS)
"""Tables whose rows name a device by its CUDA ordinal."""

STRINGS = ("StringIds", "id")
"""The table of strings and the column of their ids."""

NO_DEVICE = 0xFFFFFFFF
"""The number for "not applicable"."""
PTOP = 10
"""The copyKind of copies between devices."""
MIGRATION_KINDS = (11, 12, 13)
# A migration's copyKind maps to the code of codes.DIRECTIONS; 0..10 are the same numbers in both.
_MIGRATION_DIRECTION = {11: 1, 12: 2, 13: 8}

LAST_MEMORY_KIND = 7
"""The highest code of a kind of memory that is known; it means Unknown."""
LAST_ACCESS = 4
MEMORY_OPERATIONS = ALLOCATION, RELEASE = (0, 1)
_HOST_KINDS = tuple(codes.MEMORY_KINDS.index(kind) for kind in ("Pageable", "Pinned"))
DEVICE_KINDS = tuple(
    codes.MEMORY_KINDS.index(kind) for kind in ("Device", "Array", "Device Static")
)

# Values of eventClass.
_RUNTIME_CLASS, _DRIVER_CLASS, BACKTRACE_CLASS = 0, 1, 67
_CALL_CLASSES = frozenset({_RUNTIME_CLASS, _DRIVER_CLASS})
_OSRT_CLASSES = frozenset({27})
_LIBRARY_CLASSES = frozenset({28, 29})
_OPENMP_CLASSES = frozenset({78})
MARKER_CLASSES = frozenset({31, 32, 33, 34, 35, 36, 79, 80})
"""Rows that say when the tracing of a kind began and ended. They are not events of the program."""

# Values of NVTX's eventType.
MARK = 34
RANGE_KINDS = {59: 0, 70: 0, 60: 1, 71: 1, MARK: 2}
"""eventType -> kind of range."""
CATEGORY, THREAD_NAME, DOMAIN = 33, 39, 75
OTHER_KINDS = frozenset({CATEGORY, THREAD_NAME, *range(64, 70), *range(72, 77)})
"""Event types in the same table that are not ranges: categories, names of threads, domains, nvtxt's."""

# overheadType: JIT compilation, module loading, lazy loading and a full command buffer are the
# driver's work for the program; everything else is the profiler's.
_DRIVER_OVERHEAD = (2, 6, 7, 8)


def _memory_kind(number: Expression) -> Expression:
    return known_code(number, LAST_MEMORY_KIND, LAST_MEMORY_KIND)


# -- kernels

NAMES_OF_KERNELS = ("demangledName", "shortName", "mangledName")
"""The columns of a kernel's names, the best first."""
_STRINGS = sa.table(STRINGS[0], sa.column("id"), sa.column("value"), schema=SOURCE)
_TEXTS = sa.select(_STRINGS.c.id).where(sa.func.typeof(_STRINGS.c.value) == "text")


def _kernel(c: SourceColumns, context: ExportContext) -> Columns:
    names = [c[name] for name in NAMES_OF_KERNELS]
    if context.nameless:
        # The best name is the first of a kernel's names whose text is in the file, or the full name if
        # there is none.
        with_text = ((name.in_(_TEXTS), name) for name in names)
        best: Expression = sa.case(*with_text, else_=sa.func.coalesce(*names))
        # A name is NULL if the file lacks its text and has the text of another name. Reports then show
        # the kernel's name, so that kernels which differ stay apart.
        names[1:] = (sa.case((n.in_(_TEXTS), n), (best.not_in(_TEXTS), n)) for n in names[1:])
        names[0] = best
    return {
        **on_gpu(c, context),
        **dict(zip(("name_id", "short_name_id", "mangled_name_id"), names, strict=True)),
        **c.renamed(**sqlite_mapping.LAUNCH_COLUMNS),
        **c.renamed(green_context_id="greenContextId", graph_node_id="graphNodeId"),
    }


# -- copies, memsets, graphs, synchronizations


def _memcpy(c: SourceColumns, context: ExportContext) -> Columns:
    peer = context.device(gpu_pid(c, context), sqlite_mapping.peer_device(c))
    return {
        **on_gpu(c, context),
        **c.renamed(green_context_id="greenContextId", bytes="bytes"),
        "direction": known_code(c["copyKind"], PTOP, 0),
        "src_kind": _memory_kind(c["srcKind"]),
        "dst_kind": _memory_kind(c["dstKind"]),
        "peer_device_id": sa.case((c["copyKind"] == PTOP, peer)),
        **c.renamed(copy_count="copyCount", graph_node_id="graphNodeId"),
    }


def _is_no_migration(c: SourceColumns, context: ExportContext) -> Expression:
    return sa.func.coalesce(c["copyKind"], 0).not_in(MIGRATION_KINDS)


def _migration(c: SourceColumns, context: ExportContext) -> Columns:
    direction = sa.case(_MIGRATION_DIRECTION, value=c["copyKind"])
    own = c.renamed(bytes="bytes", cause="migrationCause", address="virtualAddress")
    return {**on_gpu(c, context), **own, "direction": direction}


def _is_migration(c: SourceColumns, context: ExportContext) -> Expression:
    return c["copyKind"].in_(MIGRATION_KINDS)


def _memset(c: SourceColumns, context: ExportContext) -> Columns:
    return {
        **on_gpu(c, context),
        **c.renamed(green_context_id="greenContextId", bytes="bytes", value="value"),
        "memory_kind": _memory_kind(c["memKind"]),
        "graph_node_id": c["graphNodeId"],
    }


def _graph_launch(c: SourceColumns, context: ExportContext) -> Columns:
    return on_gpu(c, context) | c.renamed(graph_id="graphId", graph_exec_id="graphExecId")


def _graph_node(c: SourceColumns, context: ExportContext) -> Columns:
    return {
        "start_ns": moment(c["start"], context),
        **of_thread(c, context),
        **c.renamed(graph_node_id="graphNodeId", original_graph_node_id="originalGraphNodeId"),
        "name_id": c["nameId"],
    }


def _sync(c: SourceColumns, context: ExportContext) -> Columns:
    return {
        **on_gpu(c, context),
        "stream_id": sa.func.nullif(c["streamId"], NO_DEVICE),
        "event_id": sa.func.nullif(c["eventId"], NO_DEVICE),
        **sqlite_mapping.record_columns(context),
        "sync_type": c["syncType"],
    }


# -- memory that a program took and gave back


def _memory_event(c: SourceColumns, context: ExportContext) -> Columns:
    pid, kind = gpu_pid(c, context), c["memKind"]
    device = context.device(pid, c["deviceId"])
    is_on_host = sa.func.coalesce(kind, LAST_MEMORY_KIND).in_(_HOST_KINDS)
    in_use = sa.literal_column("running.in_use", sa.BigInteger)
    return {
        # Some releases write 0 for all of them.
        "start_ns": moment(sa.func.nullif(c["start"], 0), context),
        "pid": pid,
        "device_id": sa.case((~is_on_host, device)),
        **c.renamed(context_id="contextId", address="address"),
        "memory_kind": _memory_kind(kind),
        "bytes": _signed_bytes(c),
        "allocated_bytes": in_use if _adds_up(context) else sa.null(),
    }


def _signed_bytes(c: SourceColumns) -> Expression:
    operation, size = c["memoryOperationType"], c["bytes"]
    return sa.case((operation == ALLOCATION, size), (operation == RELEASE, -size))


def _adds_up(context: ExportContext) -> bool:
    # Rows that are left out for what is wrong with them would be missing in the sum.
    return context.balanced and not context.careful


def _with_running_sum(c: SourceColumns, context: ExportContext) -> sa.FromClause:
    if not _adds_up(context):
        return c.table
    every = SourceColumns(c.source, alias="every")
    device = context.device(gpu_pid(every, context), every["deviceId"])
    order = (every["start"], every.row_id)
    in_use = sa.func.sum(_signed_bytes(every)).over(
        partition_by=device, order_by=order, rows=(None, 0)
    )
    running = (
        sa.select(every.row_id.label("place"), in_use.label("in_use"))
        .select_from(every.table)
        .where(every["memKind"].in_(DEVICE_KINDS))
        .subquery("running")
    )
    return sa.outerjoin(c.table, running, running.c.place == c.row_id)


# -- page faults on unified memory


def _cpu_fault(c: SourceColumns, context: ExportContext) -> Columns:
    return {
        "start_ns": moment(c["start"], context),
        "pid": pid_of(c["globalPid"], context),
        "kind": code(codes.PAGE_FAULT_KINDS, "cpu"),
        "count": sa.literal_column("1"),
        **c.renamed(address="address", instruction_id="CpuInstruction", module_id="module"),
        **c.renamed(source_file_id="sourceFile", source_line="sourceLine"),
    }


def _gpu_fault(c: SourceColumns, context: ExportContext) -> Columns:
    pid = gpu_pid(c, context)
    return {
        **sqlite_mapping.interval(c, moment(c["start"], context), context),
        "pid": pid,
        "device_id": context.device(pid, c["deviceId"]),
        "kind": code(codes.PAGE_FAULT_KINDS, "gpu"),
        **c.renamed(address="address", count="numberOfPageFaults"),
        "access": known_code(c["faultAccessType"], LAST_ACCESS, 0),
    }


# -- samples of GPU metrics

_HERTZ = 1_000_000


def _sample(c: SourceColumns, context: ExportContext) -> Columns:
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
    megahertz = number.op("/")(sa.literal_column(f"{_HERTZ}.0"))
    return {
        "start_ns": moment(c["timestamp"], context),
        **known,
        "kind": code(codes.METRIC_KINDS, "metric"),
        "value_avg": sa.case((is_hertz, megahertz), else_=value),
    }


def _with_metrics(c: SourceColumns, context: ExportContext) -> sa.FromClause:
    if not context.metrics:
        return c.table
    known = values_table("known", Metric._fields, context.metrics)
    same = (known.c.type_id == c["typeId"]) & (known.c.metric_id == c["metricId"])
    return sa.outerjoin(c.table, known, same)


# -- what threads did: API calls, ranges, overhead, OS runtime, MPI, libraries, OpenACC and OpenMP


def _api_call(c: SourceColumns, context: ExportContext) -> Columns:
    layer = whole_number(c["eventClass"]) if context.careful else c["eventClass"]
    if context.driver_names is not None:
        is_driver = c["nameId"].in_(context.driver_names)
        layer = sa.case((is_driver, _DRIVER_CLASS), else_=_RUNTIME_CLASS)
    own = c.renamed(correlation_id="correlationId", name_id="nameId", result="returnValue")
    callers = {} if context.callers is None else context.callers.columns
    return {**on_thread(c, context), **own, "layer": layer, **callers}


def _range(c: SourceColumns, context: ExportContext) -> Columns:
    start, thread = c["start"], c["globalTid"]
    return {
        "start_ns": moment(start, context),
        "dur_ns": sa.case((c["eventType"] != MARK, c["end"] - start)),
        **of_thread(c, context),
        "end_tid": sa.case((c["endGlobalTid"] != thread, tid(c["endGlobalTid"]))),
        "kind": sa.case(RANGE_KINDS, value=c["eventType"]),
        "domain_id": sa.func.coalesce(c["domainId"], 0),
        "category_id": sa.func.nullif(c["category"], 0),
        **c.renamed(color="color", name_id="textId"),
        "text": sa.case((c["textId"].is_(None), sa.cast(c["text"], sa.Text))),
    }


def _is_range(c: SourceColumns, context: ExportContext) -> Expression:
    return c["eventType"].in_(tuple(RANGE_KINDS))


def _overhead(c: SourceColumns, context: ExportContext) -> Columns:
    kind: Expression = sa.literal_column("0")
    if c.source.name == CUPTI_OVERHEAD:
        kind = sa.case((c["overheadType"].in_(_DRIVER_OVERHEAD), 1), else_=0)
    return {**on_thread(c, context), "kind": kind, "name_id": c["nameId"]}


def _osrt_call(c: SourceColumns, context: ExportContext) -> Columns:
    own = c.renamed(name_id="nameId", result="returnValue", nesting_level="nestingLevel")
    return on_thread(c, context) | own


def _is_of_profile(c: SourceColumns, context: ExportContext) -> Expression | None:
    if context.own_pids is None:
        return None
    return pid_of(c["globalTid"], context).in_(sorted(context.own_pids))


def _mpi_call(c: SourceColumns, context: ExportContext) -> Columns:
    return {
        **on_thread(c, context),
        "kind": code(codes.MPI_KINDS, MPI[c.source.name]),
        **c.renamed(name_id="textId", tag="tag", remote_rank="remoteRank", root_rank="rootRank"),
        **c.renamed(bytes="size", recv_bytes="recvSize", communicator_id="commHandle"),
    }


def _is_first_of_wait(c: SourceColumns, context: ExportContext) -> Expression | None:
    if c.source.name != MPI_WAITS:
        return None
    # A call that waits for several requests is a row for each of them, alike but for the request.
    same = [c[name] for name in ("start", "end", "globalTid", "textId") if name in c]
    first = sa.select(sa.func.min(c.row_id)).select_from(c.table).group_by(*same)
    return c.row_id.in_(first.correlate(None))


def _operator(c: SourceColumns, context: ExportContext) -> Columns:
    kind = "library_call" if c.source.name in LIBRARIES else "directive"
    name = c["nameId"]
    if c.source.name in OPENACC:
        name = directives.name_id_column(c, context.construct_ids)
    return {**on_thread(c, context), "kind": code(codes.OPERATOR_KINDS, kind), "name_id": name}


# -- all tables

_ON_GPU = frozenset({"start", "end", "deviceId"})
_ON_THREAD = frozenset({"start", "end", "globalTid"})

# API calls first: while they are copied, other threads survey the GPU tables.
MAPPINGS = (
    ExportMapping(
        "api_call",
        RUNTIME,
        _api_call,
        _ON_THREAD,
        join=lambda c, context: context.callers.join(c) if context.callers else c.table,
        alias="call",
        classes=_CALL_CLASSES,
    ),
    ExportMapping("kernel", KERNEL, _kernel, _ON_GPU),
    ExportMapping("memcpy", MEMCPY, _memcpy, _ON_GPU, _is_no_migration),
    ExportMapping("memset", MEMSET, _memset, _ON_GPU),
    ExportMapping(
        "unified_memory_event", MEMCPY, _migration, _ON_GPU | {"copyKind"}, _is_migration
    ),
    ExportMapping("graph_launch", GRAPH_TRACE, _graph_launch, _ON_GPU),
    ExportMapping("graph_node", GRAPH_NODES, _graph_node, frozenset({"start", "globalTid"})),
    ExportMapping("sync", SYNCS, _sync, _ON_GPU, join=sqlite_mapping.with_records, alias="wait"),
    ExportMapping("range", NVTX, _range, _ON_THREAD | {"eventType"}, _is_range),
    ExportMapping("overhead", PROFILER_OVERHEAD, _overhead, _ON_THREAD),
    ExportMapping("overhead", CUPTI_OVERHEAD, _overhead, _ON_THREAD),
    ExportMapping(
        "memory_event",
        MEMORY_USAGE,
        _memory_event,
        frozenset({"start", "deviceId", "memoryOperationType", "bytes"}),
        join=_with_running_sum,
        alias="block",
    ),
    ExportMapping("page_fault", CPU_FAULTS, _cpu_fault, frozenset({"start", "globalPid"})),
    ExportMapping("page_fault", GPU_FAULTS, _gpu_fault, _ON_GPU),
    ExportMapping("osrt_call", OSRT, _osrt_call, _ON_THREAD, classes=_OSRT_CLASSES),
    ExportMapping(
        "cpu_switch",
        cpus.SCHEDULING,
        lambda c, context: cpus.switch(c, moment(c["start"], context), of_thread(c, context)),
        frozenset({"start", "globalTid", "isSchedIn"}),
        _is_of_profile,
    ),
    ExportMapping(
        "cpu_sample",
        cpus.SAMPLES,
        lambda c, context: cpus.sample(
            c, moment(c["start"], context), of_thread(c, context), context.frames
        ),
        frozenset({"start", "globalTid"}),
        _is_of_profile,
        join=lambda c, context: cpus.with_frame(c, context.frames),
        alias="sample",
    ),
    *(
        ExportMapping("mpi_call", source, _mpi_call, _ON_THREAD, _is_first_of_wait)
        for source in MPI
    ),
    *(
        ExportMapping("operator", source, _operator, _ON_THREAD, classes=classes, own_fact=fact)
        for sources, classes, fact in (
            (LIBRARIES, _LIBRARY_CLASSES, Fact.LIBRARY_CALLS),
            (OPENMP, _OPENMP_CLASSES, Fact.DIRECTIVES),
        )
        for source in sources
    ),
    *(
        ExportMapping(
            "operator",
            source,
            _operator,
            _ON_THREAD | {"eventKind"},
            join=lambda c, context: directives.join_names(c, context.construct_ids),
            alias=directives.ALIAS,
            own_fact=Fact.DIRECTIVES,
        )
        for source in OPENACC
    ),
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

CHECKS = sqlite_mapping.CellChecks(
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

ON_REQUEST = {METRICS: Fact.METRICS}
"""Source tables that are read only if the user includes their fact: they can be most of a file."""

NAMED_APART = {OSRT: Fact.OSRT_CALLS, cpus.SAMPLES: Fact.CPU_SAMPLES, METRICS: Fact.METRICS}
"""Source tables whose names are of no account to other events."""

NOT_OF_CLOCK = (OSRT, *cpus.TABLES, METRICS)
"""Source tables that do not say when a recording began and ended, if others have rows."""


def facts_of(source: str) -> frozenset[Fact]:
    """Return the facts that a profile holds if a source table was recorded."""
    return frozenset(mapping.fact for mapping in MAPPINGS if mapping.source == source)
