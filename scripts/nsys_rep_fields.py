"""The fields of Nsight Systems' reports (`.nsys-rep`), by the columns of the exports that they become.

Numbers were found by comparing public reports with their exports; of graphs, device memory and layouts of
payloads, where no report with an export was found, by order and by use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nsys_rep_wire import field

Cell = int | float | bytes | None
Part = str | int | Mapping[int, "Part"]
"""A field's value: `column`, `column|column` (the first that is not NULL), `column=0` (0 if all are NULL;
else the field is left out), a number that never changes, or fields of a message, left out if empty."""
Spec = Mapping[int, Part]


def numbered(first: int, columns: str) -> dict[int, Part]:
    """Return fields with numbers that follow each other."""
    return dict(enumerate(columns.split(), first))


def fill(spec: Spec, row: Mapping[str, Cell]) -> bytes:
    """Return a row as a message."""
    out = []
    for number, part in spec.items():
        value: Cell
        if isinstance(part, str):
            names, _, default = part.partition("=")
            cells = (row.get(name) for name in names.split("|"))
            value = next((c for c in cells if c is not None), int(default) if default else None)
        else:
            value = part if isinstance(part, int) else fill(part, row) or None
        if value is not None:
            out.append(field(number, value))
    return b"".join(out)


def named(spec: Spec) -> Iterator[str]:
    """Yield the columns that a message is made of."""
    for part in spec.values():
        if isinstance(part, str):
            yield from part.partition("=")[0].split("|")
        elif not isinstance(part, int):
            yield from named(part)


# -- events

_ON_GPU: Spec = {
    1: "start=0", 2: "end|timestamp=0", 3: "correlationId=0", 4: "deviceId", 5: "contextId",
    6: "streamId", 7: 1, 8: "globalPid", 9: "greenContextId",
}  # fmt: skip
_CALL: Spec = {
    1: "start", 2: "end", 3: "correlationId=0", 6: "eventClass", 7: "nameId",
    8: "returnValue|overheadType=0", 13: "globalTid",
}  # fmt: skip
_KERNEL: Spec = {
    1: "demangledName", 2: "shortName", 3: "mangledName", 8: "demangledName",
    **numbered(10, "gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory "
               "localMemoryPerThread localMemoryTotal gridId registersPerThread sharedMemoryExecuted "
               "cacheConfig launchType"),
    26: 0, 27: "graphNodeId", 28: "sharedMemoryLimitConfig", 29: "graphId",
    **numbered(31, "clusterX clusterY clusterZ clusterSchedulingPolicy maxPotentialClusterSize "
               "maxActiveClusters"),
}  # fmt: skip
_COPY: Spec = {
    1: "bytes", 2: "copyKind", 4: "srcKind", 5: "dstKind", 6: "srcDeviceId", 7: "srcContextId",
    8: "dstDeviceId", 9: "dstContextId", 10: "migrationCause", 11: "graphNodeId",
    12: "virtualAddress", 16: "copyCount",
}  # fmt: skip
_NODE = numbered(1, "graphNodeId originalGraphNodeId")

# Names that begin with an underscore are not columns: `write_nsys_rep.derived` makes them.
EVENTS: dict[str, Spec] = {
    "PROCESSES": {1: 27, 113: {
        1: "_seen", 2: "globalPid", 4: "_old", 5: "_113-5|_launched", 6: "name", 7: "_113-7", 8: "_113-8",
        9: "_113-9", 12: 1}},
    "DIAGNOSTIC_EVENT": {1: 49, 110: {
        1: {1: "timestamp", 2: "timestampType", 3: 1}, 2: "source", 3: "severity", 4: "text",
        5: "globalPid"}},
    "SCHED_EVENTS": {1: 41, 106: {
        1: "start", 3: "cpu", 4: "isSchedIn", 5: "threadState=0", 6: "globalTid", 7: 1}},
    "COMPOSITE_EVENTS": {1: 31, 104: {
        1: "start", 3: "cpu", 5: {1: 1, 2: "cpuCycles"}, 6: "threadState", 11: "globalTid", 12: 1}},
    "NVTX_EVENTS": {1: "eventType", 102: {
        1: "eventType", 2: "start", 4: "rangeId", 5: "category", 6: "color", 7: "text",
        8: {9: {1: "_schema", 2: "_payload"}}, 9: "globalTid", 10: "end", 11: "endGlobalTid",
        12: "textId", 13: "domainId=0", 14: 1}},
    "PROFILER_OVERHEAD": {1: 48, 108: {**_CALL, 6: 3}},
    "CUPTI_ACTIVITY_KIND_RUNTIME": {1: 48, 108: _CALL},
    "CUPTI_ACTIVITY_KIND_OVERHEAD": {1: 48, 108: _CALL},
    "OSRT_API": {1: 48, 108: {**_CALL, 20: "nestingLevel", 42: "argumentsId"}},
    "CUBLAS_EVENTS": {1: 48, 108: _CALL},
    "CUDNN_EVENTS": {1: 48, 108: _CALL},
    "CUDA_GRAPH_NODE_EVENTS": {1: 113, 108: {**_CALL, 33: _NODE}},
    # A node (until 2022), a graph that is instantiated, a graph.
    "CUDA_GRAPH_EVENTS": {1: "_kind", 108: {
        **_CALL, 33: _NODE, 37: numbered(1, "_instantiated graphExecId"),
        38: numbered(1, "graphId originalGraphId")}},
    "CUPTI_ACTIVITY_KIND_KERNEL": {1: 79, 107: {**_ON_GPU, 101: _KERNEL}},
    "CUPTI_ACTIVITY_KIND_MEMCPY": {1: 80, 107: {**_ON_GPU, 102: _COPY}},
    "CUPTI_ACTIVITY_KIND_MEMSET": {1: 80, 107: {
        **_ON_GPU, 103: numbered(1, "bytes value graphNodeId memKind")}},
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": {1: 106, 107: {
        **_ON_GPU, 105: numbered(1, "eventId _oldType eventSyncId syncType")}},
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": {1: 127, 107: {**_ON_GPU, 106: numbered(1, "eventId eventSyncId")}},
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": {1: 130, 107: {
        **_ON_GPU, 107: numbered(1, "graphId graphExecId")}},
    "CUDA_GPU_MEMORY_USAGE_EVENTS": {1: 117, 123: {
        1: "start", 2: "start", **numbered(3, "deviceId contextId globalPid address pc bytes memKind "
                                           "memoryOperationType name correlationId=0"),
        13: numbered(1, "localMemoryPoolAddress localMemoryPoolReleaseThreshold localMemoryPoolSize "
                     "localMemoryPoolUtilizedSize"), 15: "streamId"}},
    "CUDA_GPU_MEMORY_POOL_EVENTS": {1: 129, 129: {
        **numbered(1, "start operationType poolType correlationId=0 globalPid deviceId address "
                   "minBytesToKeep"),
        9: numbered(9, "localMemoryPoolSize localMemoryPoolReleaseThreshold "
                    "localMemoryPoolUtilizedSize")}},
}  # fmt: skip
MODULE: Spec = {1: 28, 109: {1: "_seen", 4: "_string", 5: 0, 6: 0, 7: 0, 8: 4218880, 9: 4096, 10: 0,
                             15: "globalPid", 16: 1}}  # fmt: skip
"""A shared object of a process, which no table of an export has."""

# -- strings and targets

THREAD: Spec = numbered(2, "nameId priority globalTid")
STREAM: Spec = numbered(1, "globalPid filenameId contentId")
MACHINE: dict[str, tuple[int, Spec]] = {
    "TARGET_INFO_CUDA_GPU": (1, numbered(
        1, "name globalMemoryBandwidth globalMemorySize constantMemorySize l2CacheSize "
        "numThreadsPerWarp coreClockRate numMemcpyEngines numMultiprocessors maxIPC "
        "maxWarpsPerMultiprocessor maxBlocksPerMultiprocessor maxRegistersPerBlock "
        "maxSharedMemoryPerBlock maxThreadsPerBlock maxBlockDimX maxBlockDimY maxBlockDimZ "
        "maxGridDimX maxGridDimY maxGridDimZ computeCapabilityMajor computeCapabilityMinor deviceId "
        "pid pciBusId maxSharedMemoryPerMultiprocessor maxRegistersPerMultiprocessor")),
    "TARGET_INFO_GPU": (7, {
        **numbered(1, "id|deviceId name busLocation isDiscrete uuid luid chipName"),
        **numbered(9, "pwGpuId l2CacheSize totalMemory memoryBandwidth clockRate smCount cuDevice "
                   "ctxswDevPath ctrlDevPath"),
        **numbered(21, "revision nodeMask constantMemory maxIPC maxRegistersPerBlock maxShmemPerBlock "
                   "maxShmemPerBlockOptin maxShmemPerSm maxRegistersPerSm threadsPerWarp asyncEngines "
                   "maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX maxBlockDimY "
                   "maxBlockDimZ maxGridDimX maxGridDimY maxGridDimZ computeMajor computeMinor smMajor "
                   "smMinor")}),
    "TARGET_INFO_CUDA_DEVICE": (9, {**numbered(1, "gpuId cudaId pid"),
                                    **numbered(5, "uuid numMultiprocessors")}),
}  # fmt: skip
"""What is part of a machine."""
TARGETS: dict[str, tuple[int, Spec]] = {
    "TARGET_INFO_NVTX_CUDA_STREAM": (13, numbered(
        1, "name hwId vmId processId deviceId contextId streamId")),
    "TARGET_INFO_CUDA_NULL_STREAM": (14, numbered(1, "streamId hwId vmId processId deviceId contextId")),
    "TARGET_INFO_CUDA_CONTEXT_INFO": (14, numbered(
        1, "nullStreamId hwId vmId processId deviceId contextId parentContextId isGreenContext "
        "numMultiprocessors")),
    "TARGET_INFO_CUDA_STREAM": (15, numbered(1, "streamId hwId vmId processId contextId priority flag")),
}  # fmt: skip

# -- layouts of payloads

SCHEMA: Spec = numbered(1, "schemaId type")
SCHEMA_END: Spec = {9: "domainId"}
ENTRY: Spec = {1: "type", 3: "offset", 7: "name"}

# -- options of the recording, by names in META_DATA_CAPTURE

EVENT_TYPES = {"OSRuntime": 127, "Graphics": 124, "NvtxEvents": 12, "Cuda": 123}
OSRT_OPTIONS = {f"OS_RUNTIME_OPTIONS:{name}": number for number, name in enumerate(
    ("DURATION_THRESHOLD_NS", "COLLECT_BACKTRACES", "BACKTRACES_THRESHOLD_NS"), 1)}  # fmt: skip
CUDA_OPTIONS: dict[str, tuple[int, int, int | str]] = {
    "CUDA_FLUSH_PERIODICALLY": (40, 1, 1),
    "CUDA_FLUSH_PERIOD": (41, 2, 0),
    "CUDA_SKIP_SOME_API_CALLS": (42, 3, 1),
    "COLLECT_GPU_MEMORY_USAGE": (43, 4, "CUDA_GPU_MEMORY_USAGE_EVENTS"),
    "COLLECT_UVM_CPU_PAGE_FAULTS": (44, 5, "CUDA_UM_CPU_PAGE_FAULT_EVENTS"),
    "COLLECT_UVM_GPU_PAGE_FAULTS": (48, 7, "CUDA_UM_GPU_PAGE_FAULT_EVENTS"),
    "CUDA_FLUSH_ON_CUDA_PROFILER_STOP": (90, 12, 0),
}
"""Numbers until 2025.5 and since; the value where an export does not say: 1 if that table has rows."""
GRAPH_OPTIONS = ("CUDA_GRAPH_TRACE_OPTIONS:MODE", "CUDA_GRAPH_TRACE_OPTIONS:TRACE_DEVICE_GRAPH_LAUNCH")
GRAPH_OPTION = (49, 9)
VALUES = {"true": 1, "false": 0, "Node": 1, "Graph": 0, "ProcessTree": 2}
"""Words for values; others are numbers."""
