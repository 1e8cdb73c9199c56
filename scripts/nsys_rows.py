"""A workload's events as rows of Nsight Systems' tables."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from nsys_tables import Age
from workload import (
    Events,
    Kernel,
    Memcpy,
    NcclPayload,
    Process,
    Range,
    Stream,
    SyncKind,
    Thread,
    Workload,
    records_before,
)

Cell = int | str | float | bytes | None
Row = dict[str, Cell]

VM = 1 << 48
NOT_APPLICABLE = 4294967295
SESSION_RAW_NS = 5_000_000_000

DIRECTIONS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9, "PtoP": 10}
MIGRATIONS = {"HtoD": 11, "DtoH": 12, "DtoD": 13}
MEMORY = {"pageable": 0, "pinned": 1, "device": 2, "managed": 4, "unknown": 7}
ACCESSES = {"unknown": 0, "read": 1, "write": 2, "atomic": 3, "prefetch": 4}
CAUSES = {"prefetch": 1, "page_fault": 2, "speculative": 3, "eviction": 4}
SEVERITIES = {"info": 1, "warning": 2, "error": 3}
REPORTERS = {"injection": 1, "daemon": 2, "analysis": 3}
# name of the text in StringIds (until 3.23, since 3.24), overheadType.
OVERHEADS = {
    "buffer_flush": ("CUPTI: Buffer flush", "CUPTI Buffer flush", 3),
    "instrumentation": ("CUPTI: Instrumentation", "CUPTI Instrumentation", 4),
    "resource": ("CUPTI: Resource Management", "CUPTI Resource Management", 5),
}


# NCCL's payloads: schema, size, fields as type (5 int, 18 uint64, 22 size) and name, as real exports have
# them; an operation of a reduction has a type of its own.
_COMMUNICATOR = (18, "NCCL communicator ID")
_SIZE = (22, "Message size [bytes]")
NCCL_SCHEMAS = {
    "init": (16777218, 24, (_COMMUNICATOR, (5, "No. of ranks"), (5, "Rank"), (5, "CUDA device"))),
    "message": (16777220, 16, (_COMMUNICATOR, _SIZE)),
    "peer": (16777226, 24, (_COMMUNICATOR, _SIZE, (5, "Peer rank"))),
    "reduction": (16777223, 24, (_COMMUNICATOR, _SIZE, (16777232, "Reduction operation"))),
    "root": (16777222, 24, (_COMMUNICATOR, _SIZE, (5, "Root"))),
}
_LONG = {18: 8, 22: 8}


def global_pid(process: Process) -> int:
    """Return the process as exports write it: hardware 0, VM 1, pid, and 24 bits for the thread."""
    return VM | process.pid << 24


def global_tid(thread: Thread) -> int:
    """Return the thread as exports write it."""
    return global_pid(thread.process) | thread.tid


def sync_type(age: Age, kind: SyncKind) -> int:
    """Return the number that exports of that age hold; no two ages agree on what it means."""
    if age.version < (3, 16, 0):
        return {"device": 1, "event": 2, "stream_wait_event": 3, "stream": 3}[kind]
    if age.version < (3, 17, 0):
        return 0
    if (3, 24, 0) <= age.version < (3, 25, 0):
        return {"device": 3, "event": 1, "stream_wait_event": 2, "stream": 2}[kind]
    return {"device": 4, "event": 1, "stream_wait_event": 2, "stream": 3}[kind]


@dataclass
class Export:
    """Rows by table, as they grow. `string` numbers the string table in order of first use."""

    age: Age
    rows: dict[str, list[Row]] = field(default_factory=dict)
    strings: dict[str, int] = field(default_factory=dict)

    def add(self, table: str, **cells: Cell) -> None:
        """Add a row; columns that the age does not have are left out when the table is written."""
        self.rows.setdefault(table, []).append(cells)

    def string(self, text: str) -> int:
        """Return the text's id, a new one at first use."""
        return self.strings.setdefault(text, len(self.strings))

    def green_context(self, number: int | None = None) -> int | None:
        """Return "no green context": NULL where the column is new, later 0."""
        none = 0 if self.age.version >= (3, 17, 0) else None
        return none if number is None else number


def add_events(out: Export, workload: Workload) -> None:
    """Add everything that happened, in the order of the description."""
    events = workload.events
    _add_calls(out, events)
    for number, kernel in enumerate(events.kernels, 1):
        _add_kernel(out, kernel, number)
    for memcpy in events.memcpys:
        _add_memcpy(out, memcpy)
    _add_memsets_and_syncs(out, events)
    _add_graphs(out, events)
    _add_unified_memory(out, events)
    _add_annotations(out, events)
    _add_overheads(out, events)


def _add_calls(out: Export, events: Events) -> None:
    for call in events.calls:
        out.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=call.start_ns, end=call.end_ns, eventClass=int(call.layer == "driver"),
            globalTid=global_tid(call.thread), correlationId=call.correlation_id,
            nameId=out.string(call.symbol), returnValue=call.result,
        )  # fmt: skip


def _op(stream: Stream, correlation_id: int | None, start_ns: int, end_ns: int) -> Row:
    return {
        "start": start_ns,
        "end": end_ns,
        "deviceId": stream.ordinal,
        "contextId": stream.context_id,
        "streamId": stream.stream_id,
        "correlationId": correlation_id,
        "globalPid": global_pid(stream.process),
    }


def _add_kernel(out: Export, kernel: Kernel, number: int) -> None:
    function = kernel.function
    out.add(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        **_op(kernel.stream, kernel.correlation_id, kernel.start_ns, kernel.end_ns),
        greenContextId=out.green_context(kernel.green_context_id),
        mangledName=out.string(function.mangled), demangledName=out.string(function.demangled),
        shortName=out.string(function.short), launchType=1, cacheConfig=1,
        registersPerThread=kernel.registers, gridX=kernel.grid[0], gridY=kernel.grid[1],
        gridZ=kernel.grid[2], blockX=kernel.block[0], blockY=kernel.block[1],
        blockZ=kernel.block[2], staticSharedMemory=kernel.static_shared_bytes,
        dynamicSharedMemory=kernel.dynamic_shared_bytes, localMemoryPerThread=0,
        localMemoryTotal=127401984, gridId=number, sharedMemoryExecuted=32768,
        graphNodeId=kernel.graph_node_id, sharedMemoryLimitConfig=0, clusterX=0, clusterY=0,
        clusterZ=0, clusterSchedulingPolicy=0, maxPotentialClusterSize=0, maxActiveClusters=0,
        tensorSizeMinusOneElements="[]",
    )  # fmt: skip


def _context(ordinal: int | None) -> int | None:
    return None if ordinal is None else ordinal + 1


def _add_memcpy(out: Export, memcpy: Memcpy) -> None:
    out.add(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        **_op(memcpy.stream, memcpy.correlation_id, memcpy.start_ns, memcpy.end_ns),
        greenContextId=out.green_context(memcpy.green_context_id), bytes=memcpy.bytes,
        copyKind=DIRECTIONS[memcpy.direction], srcKind=MEMORY[memcpy.src_kind],
        dstKind=MEMORY[memcpy.dst_kind], srcDeviceId=memcpy.src_ordinal,
        srcContextId=_context(memcpy.src_ordinal), dstDeviceId=memcpy.dst_ordinal,
        dstContextId=_context(memcpy.dst_ordinal), graphNodeId=memcpy.graph_node_id, copyCount=1,
    )  # fmt: skip


def _add_memsets_and_syncs(out: Export, events: Events) -> None:
    for memset in events.memsets:
        out.add(
            "CUPTI_ACTIVITY_KIND_MEMSET",
            **_op(memset.stream, memset.correlation_id, memset.start_ns, memset.end_ns),
            greenContextId=out.green_context(memset.green_context_id), value=memset.value,
            bytes=memset.bytes, graphNodeId=memset.graph_node_id, memKind=MEMORY[memset.kind],
        )  # fmt: skip
    for sync in events.syncs:
        row = _op(sync.stream, sync.correlation_id, sync.start_ns, sync.end_ns)
        if sync.kind == "device":
            row["streamId"] = NOT_APPLICABLE
        records = records_before(events, sync)
        absent = 0 if out.age.version >= (3, 25, 0) else NOT_APPLICABLE
        out.add(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            **row, syncType=sync_type(out.age, sync.kind),
            eventId=NOT_APPLICABLE if sync.event_id is None else sync.event_id,
            eventSyncId=events.event_records.index(records[-1]) + 1 if records else absent,
        )  # fmt: skip
    for number, record in enumerate(events.event_records, 1):
        where = _op(record.stream, record.correlation_id, 0, 0)
        out.add(
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
            **{name: cell for name, cell in where.items() if name not in ("start", "end")},
            timestamp=0, greenContextId=out.green_context(), eventId=record.event_id,
            eventSyncId=number,
        )  # fmt: skip


def _add_graphs(out: Export, events: Events) -> None:
    for launch in events.graph_launches:
        out.add(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            **_op(launch.stream, launch.correlation_id, launch.start_ns, launch.end_ns),
            greenContextId=out.green_context(), graphId=launch.graph_id,
            graphExecId=launch.graph_exec_id,
        )  # fmt: skip
    by_node = out.age.version < (3, 0, 0)
    for graph in () if by_node else events.graphs:
        whole = graph.graph_exec_id is None
        out.add(
            "CUDA_GRAPH_EVENTS",
            start=graph.time_ns, end=graph.time_ns, eventClass=95 if whole else 94,
            globalTid=global_tid(graph.thread), graphId=graph.graph_id,
            nameId=out.string("Graph Creation" if whole else "GraphExec Creation"),
            graphExecId=graph.graph_exec_id,
        )  # fmt: skip
    for node in events.graph_nodes:
        out.add(
            "CUDA_GRAPH_EVENTS" if by_node else "CUDA_GRAPH_NODE_EVENTS",
            start=node.time_ns, end=node.time_ns, eventClass=77,
            globalTid=global_tid(node.thread), nameId=out.string("Graph Node Creation"),
            graphNodeId=node.node_id, originalGraphNodeId=node.original_node_id,
        )  # fmt: skip


def _add_unified_memory(out: Export, events: Events) -> None:
    for migration in events.migrations:
        out.add(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            start=migration.start_ns, end=migration.end_ns, deviceId=migration.ordinal,
            contextId=0, streamId=0, correlationId=migration.correlation_id,
            globalPid=global_pid(migration.process), bytes=migration.bytes,
            copyKind=MIGRATIONS[migration.direction], srcKind=MEMORY["unknown"],
            dstKind=MEMORY["unknown"], migrationCause=CAUSES[migration.cause],
            virtualAddress=migration.address,
        )  # fmt: skip
    for fault in events.page_faults:
        process = global_pid(fault.process)
        if fault.ordinal is None:
            out.add(
                "CUDA_UM_CPU_PAGE_FAULT_EVENTS",
                start=fault.start_ns, globalPid=process, address=fault.address,
                originalFaultPc=0x401000, CpuInstruction=out.string(fault.instruction),
                module=out.string(fault.module), unresolvedFaultPc=1,
                sourceFile=out.string(fault.source[0]) if fault.source else None,
                sourceLine=fault.source[1] if fault.source else None,
            )  # fmt: skip
        else:
            out.add(
                "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
                start=fault.start_ns, end=fault.end_ns, globalPid=process,
                deviceId=fault.ordinal, address=fault.address, numberOfPageFaults=fault.count,
                faultAccessType=ACCESSES[fault.access],
            )  # fmt: skip


def _add_annotations(out: Export, events: Events) -> None:
    # New exporters place the creation of a domain at the clock's raw zero.
    created = -SESSION_RAW_NS if out.age.version >= (3, 4, 0) else 100
    for domain in events.domains:
        out.add(
            "NVTX_EVENTS",
            start=created, eventType=75, text=domain.name, domainId=domain.domain_id,
            globalTid=global_pid(domain.process) | domain.process.pid,
        )  # fmt: skip
    for category in events.categories:
        out.add(
            "NVTX_EVENTS",
            start=200, eventType=33, text=category.name, category=category.category_id,
            domainId=category.domain_id, globalTid=global_tid(category.thread),
        )  # fmt: skip
    for item in events.ranges:
        _add_range(out, item)
    of_nccl = {item.thread.process.pid: item.domain_id for item in events.ranges if item.payload}
    for domain_id in of_nccl.values():
        _add_nccl_schemas(out, domain_id)


def _add_nccl_schemas(out: Export, domain_id: int) -> None:
    # A set for each process, which no row names.
    for number, size, fields in NCCL_SCHEMAS.values():
        out.add("NVTX_PAYLOAD_SCHEMAS", domainId=domain_id, schemaId=number, type=1,
                numEntries=len(fields), payloadSize=size)  # fmt: skip
        offset = 0
        for place, (kind, name) in enumerate(fields):
            out.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=domain_id, schemaId=number, idx=place,
                    type=kind, name=name, offset=offset or None)  # fmt: skip
            offset += _LONG.get(kind, 4)


def nccl_blob(payload: NcclPayload, domain_id: int) -> bytes:
    """Return a payload as `binaryData` holds it."""
    number, size, fields = NCCL_SCHEMAS[payload.schema]
    form = "<" + "".join("Q" if kind in _LONG else "i" for kind, _ in fields)
    content = struct.pack(form, *payload.values).ljust(size, b"\0")
    return struct.pack("<IIIIQQ", domain_id, 0, number, 0, size, 32 + size) + content


def _add_range(out: Export, item: Range) -> None:
    out.add(
        "NVTX_EVENTS",
        start=item.start_ns, end=item.end_ns,
        eventType={"mark": 34, "push_pop": 59, "start_end": 60}[item.style],
        rangeId=item.range_id, category=item.category_id, color=item.color,
        text=None if item.registered else item.text,
        textId=out.string(item.text) if item.registered else None,
        globalTid=global_tid(item.thread), domainId=item.domain_id,
        endGlobalTid=global_tid(item.end_thread) if item.end_thread else None,
        binaryData=nccl_blob(item.payload, item.domain_id) if item.payload else None,
    )  # fmt: skip


def _add_overheads(out: Export, events: Events) -> None:
    for overhead in events.overheads:
        cells: Row = {
            "start": overhead.start_ns,
            "end": overhead.end_ns,
            "globalTid": global_tid(overhead.thread),
            "correlationId": overhead.correlation_id,
        }
        if overhead.kind == "lazy_loading":
            # CUDA's own, not the profiler's; no table for it before 3.24.
            out.add("CUPTI_ACTIVITY_KIND_OVERHEAD", **cells, eventClass=103, overheadType=7,
                    nameId=out.string("Lazy Function Loading"))  # fmt: skip
        else:
            old, new, number = OVERHEADS[overhead.kind]
            name = out.string(new if out.age.version >= (3, 24, 0) else old)
            out.add("PROFILER_OVERHEAD", **cells, nameId=name, returnValue=0, overheadType=number)


def ranked(processes: Iterable[Process]) -> list[tuple[Process, int]]:
    """Return the processes that have a rank, each with its rank."""
    return [(process, process.rank) for process in processes if process.rank is not None]
