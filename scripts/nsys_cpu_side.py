"""Rows of Nsight Systems' tables beside kernels and copies, with planted secrets."""

from __future__ import annotations

from nsys_rows import MEMORY, VM, Cell, Export, Row, global_pid, global_tid
from workload import Construct, Events, MpiCall, Thread

# A metric sampled on a GPU: virtual machine, source, tag, and the GPU in the last eight bits.
METRICS_TYPE = VM | 5 << 32 | 1 << 8
_LIBRARIES = {"cublas": ("CUBLAS_EVENTS", 29, 35), "cudnn": ("CUDNN_EVENTS", 28, 33)}
_MPI = {
    "p2p": "MPI_P2P_EVENTS",
    "collective": "MPI_COLLECTIVES_EVENTS",
    "wait": "MPI_START_WAIT_EVENTS",
    "other": "MPI_OTHER_EVENTS",
}
# Kinds of OpenACC's events by the table that holds them; all others are in OTHER.
_LAUNCHES, _DATA = {4}, {5, 6, 13, 14, 15, 16}
_OPENMP = {
    "Parallel region": ("PARALLEL", 28),
    "Implicit barrier": ("SYNC_REGION_WAIT", 29),
}
# A thread that only the profiler's own rows name.
_PROFILERS_THREAD = 99


def add_cpu_side(out: Export, events: Events) -> None:
    """Add calls of other APIs, memory, and samples."""
    _add_osrt(out, events)
    _add_cpus(out, events)
    for call in events.mpi_calls:
        _add_mpi(out, call)
    _add_libraries(out, events)
    for construct in events.constructs:
        _add_construct(out, construct)
    _add_blocks(out, events)
    _add_samples(out, events)


def _marker(out: Export, table: str, event_class: int, text: str, thread: Thread) -> None:
    out.add(
        table, start=10, end=10, eventClass=event_class, nameId=out.string(text),
        globalTid=global_pid(thread.process) | _PROFILERS_THREAD, returnValue=0, callchainId=0,
    )  # fmt: skip


def _add_osrt(out: Export, events: Events) -> None:
    if events.osrt_calls:
        _marker(out, "OSRT_API", 31, "OS runtime libraries SECRET-marker started",
                events.osrt_calls[0].thread)  # fmt: skip
    for call in events.osrt_calls:
        out.add(
            "OSRT_API",
            start=call.start_ns, end=call.end_ns, eventClass=27,
            globalTid=global_tid(call.thread), nameId=out.string(call.name),
            returnValue=call.result, nestingLevel=call.level, callchainId=0,
            argumentsId=out.string("SECRET-argument"),
        )  # fmt: skip


def _add_cpus(out: Export, events: Events) -> None:
    for switch in events.cpu_switches:
        out.add(
            "SCHED_EVENTS", start=switch.time_ns, cpu=switch.cpu, isSchedIn=int(switch.runs),
            globalTid=global_tid(switch.thread), threadState=switch.state,
        )  # fmt: skip
    for number, sample in enumerate(events.cpu_samples, 1):
        out.add(
            "COMPOSITE_EVENTS", id=number, start=sample.time_ns, cpu=2, threadState=1,
            globalTid=global_tid(sample.thread), cpuCycles=1,
        )  # fmt: skip
        for depth, (function, module) in enumerate(sample.frames):
            out.add(
                "SAMPLING_CALLCHAINS", id=number, symbol=out.string(function),
                module=out.string(module), stackDepth=depth,
            )  # fmt: skip


def _add_mpi(out: Export, call: MpiCall) -> None:
    # A call that waits is a row for each request.
    for request in range(call.requests):
        out.add(
            _MPI[call.kind],
            start=call.start_ns, end=call.end_ns, globalTid=global_tid(call.thread),
            textId=out.string(call.name), commHandle=call.communicator, tag=call.tag,
            remoteRank=call.peer, rootRank=call.root, size=call.bytes,
            recvSize=call.received_bytes, requestHandle=request,
        )  # fmt: skip


def _add_libraries(out: Export, events: Events) -> None:
    begun = set()
    for call in events.library_calls:
        table, event_class, marker = _LIBRARIES[call.library]
        if table not in begun:
            begun.add(table)
            _marker(out, table, marker, f"{call.library} SECRET-marker started", call.thread)
        out.add(
            table, start=call.start_ns, end=call.end_ns, eventClass=event_class,
            globalTid=global_tid(call.thread), nameId=out.string(call.name),
        )  # fmt: skip


def _add_construct(out: Export, item: Construct) -> None:
    cells: Row = {
        "start": item.start_ns,
        "end": item.end_ns,
        "globalTid": global_tid(item.thread),
    }
    if isinstance(item.kind, str):
        table, number = _OPENMP[item.kind]
        out.add(f"OPENMP_EVENT_KIND_{table}", **cells, eventClass=78, eventKind=number,
                nameId=out.string(item.kind))  # fmt: skip
        return
    launch, data = item.kind in _LAUNCHES, item.kind in _DATA
    subject: Cell = None if item.subject is None else out.string(item.subject)
    path, line = item.source or (None, 0)
    out.add(
        "CUPTI_ACTIVITY_KIND_OPENACC_" + ("LAUNCH" if launch else "DATA" if data else "OTHER"),
        **cells, nameId=out.string("SECRET-event-name"), eventKind=item.kind, DeviceType=4,
        lineNo=line, cuDeviceId=0, cuContextId=1, cuStreamId=7,
        srcFile=None if path is None else out.string(path),
        funcName=out.string("SECRET-function-name"),
        varName=subject, kernelName=subject,
    )  # fmt: skip


def _add_blocks(out: Export, events: Events) -> None:
    for block in events.blocks:
        out.add(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            start=block.time_ns, globalPid=global_pid(block.process), deviceId=block.ordinal,
            contextId=block.context_id, address=block.address, pc=0x401000, bytes=block.bytes,
            memKind=MEMORY[block.kind], memoryOperationType=int(block.is_release),
            name="SECRET-variable-name",
        )  # fmt: skip


def _add_samples(out: Export, events: Events) -> None:
    gpus = list(dict.fromkeys(sample.device.gpu_id for sample in events.samples))
    numbers: dict[tuple[int, str], int] = {}
    for gpu in gpus:
        metrics = dict.fromkeys(s.metric for s in events.samples if s.device.gpu_id == gpu)
        # A metric's number is its GPU's own; the last one is never sampled.
        for number, metric in enumerate([*metrics, "SECRET-metric"]):
            numbers[gpu, metric] = number
            out.add("TARGET_INFO_GPU_METRICS", typeId=METRICS_TYPE | gpu, sourceId=5,
                    typeName="SECRET-type-name", metricId=number, metricName=metric)  # fmt: skip
    for sample in events.samples:
        gpu = sample.device.gpu_id
        out.add("GPU_METRICS", rawTimestamp=sample.time_ns, timestamp=sample.time_ns,
                typeId=METRICS_TYPE | gpu, metricId=numbers[gpu, sample.metric],
                value=sample.value)  # fmt: skip
