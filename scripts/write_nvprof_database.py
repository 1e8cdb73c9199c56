"""Write a process of a workload as the database that `nvprof -o FILE` leaves."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nvprof_tables import AGES, Age, tables
from workload import (
    ApiCall,
    Kernel,
    Memcpy,
    Migration,
    Overhead,
    PageFault,
    Process,
    Range,
    Stream,
    Thread,
    Workload,
)
from write_nsys import new_database

Cell = int | str | bytes | None
Row = dict[str, Cell]

# Numbers of functions in each layer, by their symbols without version.
CALLS = {
    "runtime": {
        "cudaGetDeviceCount": 3, "cudaMalloc": 20, "cudaMemcpy": 31, "cudaMemcpyAsync": 41,
        "cudaMemsetAsync": 51, "cudaStreamSynchronize": 131, "cudaEventRecord": 135,
        "cudaStreamWaitEvent": 147, "cudaMemcpyPeerAsync": 161,
        "cudaDeviceSynchronize": 165, "cudaLaunchKernel": 211, "cudaLaunchKernel_ptsz": 214,
        "cudaGraphInstantiate": 443, "cudaGraphLaunch": 311, "cudaStreamBeginCapture": 315,
        "cudaStreamEndCapture": 319,
    },
    "driver": {"cuInit": 1, "cuMemAlloc_v2": 243, "cuLaunchKernel": 307, "cuLibraryLoadData": 678},
}  # fmt: skip
DIRECTIONS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9, "PtoP": 10}
MEMORY = {"unknown": 0, "pageable": 1, "pinned": 2, "device": 3, "managed": 5}
SYNCS = {"event": 1, "stream_wait_event": 2, "stream": 3, "device": 4}
MIGRATIONS = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
CPU_FAULT, GPU_FAULT = 3, 4
CAUSES = {"prefetch": 1, "page_fault": 2, "speculative": 3, "eviction": 4}
OVERHEADS = {"buffer_flush": 1 << 16, "instrumentation": 2 << 16, "resource": 3 << 16}
PROCESS, THREAD = 1, 2
HOST = -1
# What lies above the 32 bits that API rows keep of a thread's number.
THREAD_HIGH = 0x7F12
THREAD_LOW = 0xB0000000


@dataclass(frozen=True)
class Directive:
    """A construct of OpenACC or OpenMP; `subject` is the kernel or variable that it is about."""

    table: str
    kind: int
    start_ns: int
    end_ns: int
    thread: Thread
    file: str = ""
    line: int = 0
    subject: str = ""


def thread_number(thread: Thread) -> int:
    """Return the lower half of the thread's number, without sign: never the system's own."""
    return THREAD_LOW + thread.tid


@dataclass
class Database:
    """Rows by table, as they grow. `string` numbers the string table in order of first use."""

    age: Age
    zero: int
    process: Process
    rows: dict[str, list[Row]] = field(default_factory=dict)
    strings: dict[str, int] = field(default_factory=dict)

    def add(self, table: str, **cells: Cell) -> None:
        """Add a row; columns that the age does not have are left out when the table is written."""
        self.rows.setdefault(f"CUPTI_ACTIVITY_KIND_{table}", []).append(cells)

    def string(self, text: str) -> int:
        """Return the text's id, a new one at first use; 0 means none."""
        return self.strings.setdefault(text, len(self.strings) + 1)

    def at(self, time_ns: int) -> int:
        """Return a time as the file stores it."""
        return self.zero + time_ns

    def thread(self, thread: Thread) -> bytes:
        """Return the thread as an object: 32 bits of process, 64 of thread."""
        number = thread_number(thread)
        if self.age.version >= 12:
            number |= THREAD_HIGH << 32
        return self.process.pid.to_bytes(4, "little") + number.to_bytes(8, "little")


def write_nvprof_database(
    workload: Workload,
    process: Process,
    path: Path,
    age: str,
    directives: Iterable[Directive] = (),
) -> None:
    """Write one process to `path`, which is replaced, as a database of that version (see `AGES`).

    The same input gives the same bytes with the same SQLite. A database holds one process; what nvprof
    does not record is left out. `directives` are no part of workloads, which other profilers record, too.
    Raises ValueError for whole graphs, which it never has.
    """
    if any(launch.stream.process == process for launch in workload.events.graph_launches):
        raise ValueError(f"{workload.name}: nvprof records the nodes of graphs")
    release = AGES[age]
    zero = workload.zero_utc_ns if release.boot_ns is None else release.boot_ns
    out = Database(release, zero, process)
    _add_machine(out, workload)
    _add_events(out, workload)
    for directive in directives:
        _add_directive(out, directive)
    with new_database(path, page_size=512) as connection:
        _write_tables(connection, out)


def _add_machine(out: Database, workload: Workload) -> None:
    process = out.process
    for ordinal, device in enumerate(process.devices):
        out.add(
            "DEVICE",
            flags=1, globalMemoryBandwidth=1_555_200_000, globalMemorySize=device.memory_bytes,
            constantMemorySize=65536, l2CacheSize=41943040, numThreadsPerWarp=32,
            coreClockRate=1_410_000, numMemcpyEngines=3, numMultiprocessors=device.sm_count, maxIPC=4,
            maxWarpsPerMultiprocessor=64, maxBlocksPerMultiprocessor=32,
            maxSharedMemoryPerMultiprocessor=167_936, maxRegistersPerMultiprocessor=65_536,
            computeCapabilityMajor=device.compute[0], computeCapabilityMinor=device.compute[1],
            id=ordinal, eccEnabled=1, uuid=uuid.UUID(device.uuid).bytes, name=out.string(device.name),
        )  # fmt: skip
    streams = [stream for stream in workload.streams if stream.process == process]
    for stream in streams:
        flag = {"null": 3, "blocking": 1, "non_blocking": 2}[stream.kind]
        out.add("STREAM", contextId=stream.context_id, streamId=stream.stream_id, priority=0,
                flag=flag, correlationId=0)  # fmt: skip
    for context, ordinal in sorted({(s.context_id, s.ordinal) for s in streams}):
        out.add("CONTEXT", contextId=context, deviceId=ordinal, computeApiKind=1, nullStreamId=7)
    command = f"{workload.command} --token SECRET-command"
    if process.rank is not None and len(workload.processes) > 1:
        command = f"MPI Rank {process.rank}"
    # Eight bytes of a union of twelve: the rest is what was there before.
    out.add("NAME", objectKind=PROCESS, name=out.string(command),
            objectId=process.pid.to_bytes(8, "little") + b"SECR")  # fmt: skip
    if out.age.version >= 12:
        for thread in workload.threads:
            if thread.process == process:
                out.add("NAME", objectKind=THREAD, objectId=out.thread(thread),
                        name=out.string(thread.name))  # fmt: skip
    out.add("ENVIRONMENT", deviceId=0, timestamp=out.at(0), environmentKind=1,
            data=b"SECRET-environment")  # fmt: skip
    out.string("API_KEY=SECRET-string")


def _add_events(out: Database, workload: Workload) -> None:
    events, process = workload.events, out.process
    for call in events.calls:
        if call.thread.process == process:
            _add_call(out, call)
    for number, kernel in enumerate(events.kernels, 1):
        if kernel.stream.process == process:
            _add_kernel(out, kernel, number)
    for memcpy in events.memcpys:
        if memcpy.stream.process == process:
            _add_memcpy(out, memcpy)
    for memset in events.memsets:
        if memset.stream.process == process:
            out.add("MEMSET", **_op(out, memset.stream, memset.start_ns, memset.end_ns),
                    correlationId=memset.correlation_id or 0, value=memset.value,
                    bytes=memset.bytes, flags=1, memoryKind=MEMORY[memset.kind])  # fmt: skip
    for sync in events.syncs:
        if sync.stream.process == process:
            out.add("SYNCHRONIZATION", type=SYNCS[sync.kind], start=out.at(sync.start_ns),
                    end=out.at(sync.end_ns), correlationId=sync.correlation_id,
                    contextId=sync.stream.context_id,
                    streamId=-1 if sync.kind == "device" else sync.stream.stream_id,
                    cudaEventId=-1 if sync.event_id is None else sync.event_id)  # fmt: skip
    for record in events.event_records:
        if record.stream.process == process:
            out.add("CUDA_EVENT", correlationId=record.correlation_id,
                    contextId=record.stream.context_id, streamId=record.stream.stream_id,
                    eventId=record.event_id)  # fmt: skip
    for migration in events.migrations:
        if migration.process == process:
            _add_migration(out, migration)
    for fault in events.page_faults:
        if fault.process == process:
            _add_fault(out, fault)
    for number, item in enumerate(events.ranges, 1):
        if item.thread.process == process:
            _add_range(out, item, number, workload)
    for overhead in events.overheads:
        if overhead.thread.process == process and overhead.kind in OVERHEADS:
            _add_overhead(out, overhead)


def _add_call(out: Database, call: ApiCall) -> None:
    symbol = call.symbol
    numbers = CALLS[call.layer]
    number = numbers.get(symbol) or numbers[symbol.rpartition("_v")[0]]
    thread = thread_number(call.thread)
    out.add(call.layer.upper(), cbid=number, start=out.at(call.start_ns), end=out.at(call.end_ns),
            processId=out.process.pid, threadId=thread - (1 << 32) if thread >> 31 else thread,
            correlationId=call.correlation_id, returnValue=call.result)  # fmt: skip


def _op(out: Database, stream: Stream, start_ns: int, end_ns: int) -> Row:
    return {
        "start": out.at(start_ns),
        "end": out.at(end_ns),
        "deviceId": stream.ordinal,
        "contextId": stream.context_id,
        "streamId": stream.stream_id,
    }


def _add_kernel(out: Database, kernel: Kernel, number: int) -> None:
    out.add(
        "CONCURRENT_KERNEL",
        **_op(out, kernel.stream, kernel.start_ns, kernel.end_ns),
        cacheConfig=b"0", sharedMemoryConfig=0, registersPerThread=kernel.registers,
        partitionedGlobalCacheRequested=1, partitionedGlobalCacheExecuted=1,
        completed=out.at(kernel.end_ns), gridX=kernel.grid[0], gridY=kernel.grid[1],
        gridZ=kernel.grid[2], blockX=kernel.block[0], blockY=kernel.block[1],
        blockZ=kernel.block[2], staticSharedMemory=kernel.static_shared_bytes,
        dynamicSharedMemory=kernel.dynamic_shared_bytes, localMemoryPerThread=0,
        localMemoryTotal=127401984, correlationId=kernel.correlation_id or 0, gridId=number,
        name=out.string(kernel.function.mangled), queued=0, submitted=0, launchType=0,
        isSharedMemoryCarveoutRequested=0, sharedMemoryCarveoutRequested=0,
        sharedMemoryExecuted=32768,
    )  # fmt: skip


def _add_memcpy(out: Database, memcpy: Memcpy) -> None:
    cells: Row = {
        **_op(out, memcpy.stream, memcpy.start_ns, memcpy.end_ns),
        "copyKind": DIRECTIONS[memcpy.direction], "srcKind": MEMORY[memcpy.src_kind],
        "dstKind": MEMORY[memcpy.dst_kind], "flags": 0, "bytes": memcpy.bytes,
        "correlationId": memcpy.correlation_id or 0,
    }  # fmt: skip
    if memcpy.direction != "PtoP":
        out.add("MEMCPY", **cells, runtimeCorrelationId=0)
        return
    assert memcpy.src_ordinal is not None
    assert memcpy.dst_ordinal is not None
    out.add("MEMCPY2", **cells, srcDeviceId=memcpy.src_ordinal,
            srcContextId=memcpy.src_ordinal + 1, dstDeviceId=memcpy.dst_ordinal,
            dstContextId=memcpy.dst_ordinal + 1)  # fmt: skip


def _add_migration(out: Database, migration: Migration) -> None:
    ends = {"HtoD": (HOST, migration.ordinal), "DtoH": (migration.ordinal, HOST)}
    source, target = ends.get(migration.direction, (migration.ordinal, migration.ordinal))
    flags = 0 if migration.direction == "DtoD" else CAUSES[migration.cause]
    out.add("UNIFIED_MEMORY_COUNTER", counterKind=MIGRATIONS[migration.direction],
            value=migration.bytes, start=out.at(migration.start_ns), end=out.at(migration.end_ns),
            address=migration.address, srcId=source, dstId=target, streamId=0,
            processId=out.process.pid, flags=flags)  # fmt: skip


def _add_fault(out: Database, fault: PageFault) -> None:
    on_cpu = fault.ordinal is None
    out.add("UNIFIED_MEMORY_COUNTER", counterKind=CPU_FAULT if on_cpu else GPU_FAULT,
            value=fault.count, start=out.at(fault.start_ns), end=0 if on_cpu else out.at(fault.end_ns),
            address=fault.address, srcId=HOST if on_cpu else fault.ordinal, dstId=0, streamId=0,
            processId=out.process.pid, flags=1)  # fmt: skip


def _add_range(out: Database, item: Range, number: int, workload: Workload) -> None:
    domains = {d.domain_id: d.name for d in workload.events.domains if d.process == out.process}
    domain = out.string(domains[item.domain_id]) if item.domain_id else 0
    out.add("MARKER", flags=1 if item.style == "mark" else 2, timestamp=out.at(item.start_ns),
            id=number, objectKind=THREAD, objectId=out.thread(item.thread),
            name=out.string(item.text), domain=domain)  # fmt: skip
    if item.end_ns is not None:
        out.add("MARKER", flags=4, timestamp=out.at(item.end_ns), id=number, objectKind=THREAD,
                objectId=out.thread(item.end_thread or item.thread), name=0, domain=0)  # fmt: skip
    if item.color is not None or item.category_id is not None:
        out.add("MARKER_DATA", flags=1 if item.color is None else 2, id=number, payloadKind=0,
                payload=bytes(8), color=item.color or 0, category=item.category_id or 0)  # fmt: skip


def _add_overhead(out: Database, overhead: Overhead) -> None:
    out.add("OVERHEAD", overheadKind=OVERHEADS[overhead.kind], objectKind=THREAD,
            objectId=out.thread(overhead.thread), start=out.at(overhead.start_ns),
            end=out.at(overhead.end_ns))  # fmt: skip


def _add_directive(out: Database, directive: Directive) -> None:
    out.add(directive.table, eventKind=directive.kind, start=out.at(directive.start_ns),
            end=out.at(directive.end_ns), cuProcessId=out.process.pid, threadId=1,
            cuThreadId=THREAD_HIGH << 32 | thread_number(directive.thread), lineNo=directive.line,
            **{column: out.string(text) if text else 0 for column, text in (
                ("srcFile", directive.file), ("funcName", "SECRET_function"),
                ("varName", directive.subject), ("kernelName", directive.subject))})  # fmt: skip


def _write_tables(connection: sqlite3.Connection, out: Database) -> None:
    connection.execute(
        "CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL UNIQUE)"
    )
    if out.age.version >= 12:
        connection.execute("INSERT INTO StringTable VALUES (0, '-- null --')")
    connection.executemany(
        "INSERT INTO StringTable VALUES (?, ?)", [(n, text) for text, n in out.strings.items()]
    )
    connection.execute("CREATE TABLE Version (version INT NOT NULL)")
    connection.execute("INSERT INTO Version VALUES (?)", (out.age.version,))
    for table, columns in tables(out.age, out.rows).items():
        declared = ", ".join(f"{name} {kind} NOT NULL" for name, kind in columns)
        connection.execute(
            f"CREATE TABLE {table} (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, {declared})"
        )
        names = ", ".join(name for name, _ in columns)
        marks = ", ".join("?" * len(columns))
        connection.executemany(
            f"INSERT INTO {table} ({names}) VALUES ({marks})",
            [[row.get(name, 0) for name, _ in columns] for row in out.rows.get(table, [])],
        )
