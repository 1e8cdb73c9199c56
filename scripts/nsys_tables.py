"""The tables of Nsight Systems' SQLite exports, for every schema age that we write.

A column is `name[:TYPE][!][pk][@since][<until]`: INTEGER unless a type is given, `!` is NOT NULL,
`pk` the primary key, and since/until are schema versions (until is the first without it).
Sources: exports found in public repositories, and NVIDIA's documentation where marked (doc).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Version = tuple[int, int, int]

# Exports before schema 2.7.0 carry no version; these stand for two states of that time.
_NO_VERSION: dict[str, Version] = {"2020": (0, 0, 0), "2021": (1, 0, 0)}
_PRODUCTS = {
    "2020": "2020.4.3.7",
    "2021": "2021.3.1.54",
    "2.7.0": "2021.5.2.53",
    "2.9.1": "2022.2.1.31",
    "3.0.0": "2022.4.2.1",
    "3.1.2": "2023.1.2.43",
    "3.4.0": "2023.3.1.92",
    "3.7.2": "2023.4.4.54",
    "3.13.2": "2024.5.1.113",
    "3.16.1": "2024.6.2.225",
    "3.17.2": "2025.1.3.140",
    "3.20.3": "2025.3.2.474",
    "3.24.0": "2025.5.2.266",
    "3.24.7": "2025.6.1.190",
    "3.24.14": "2026.1.1.204",
    "3.25.0": "2026.2.1.210",
    "3.28.1": "2026.4.1.100",
}


@dataclass(frozen=True)
class Age:
    """One schema version and how its exports were made."""

    name: str
    version: Version
    product: str

    @property
    def lazy(self) -> bool:
        """Return whether tables without rows are left out; 2.9.1 is as of `nsys export --lazy=false`."""
        return self.name != "2.9.1"

    @property
    def shuffled(self) -> bool:
        """Return whether the order of rows is not guaranteed, as since nsys 2025.6."""
        return self.version >= (3, 24, 7)

    @property
    def many_lines(self) -> bool:
        """Return whether the DDL has a line per column, as since 2021.5."""
        return self.version >= (2, 7, 0)


def _version(name: str) -> Version:
    major, minor, micro = [*(int(part) for part in name.split(".")), 0, 0][:3]
    return major, minor, micro


AGES: dict[str, Age] = {
    name: Age(name, _NO_VERSION.get(name) or _version(name), product)
    for name, product in _PRODUCTS.items()
}

_OP = "start! end! deviceId! contextId! greenContextId@3.7 streamId! correlationId globalPid "
_CALL = "start! end! eventClass! globalTid "
_MPI = "start! end globalTid textId "
_COMM = "commHandle commUid@3.24 "
_OPENMP = _CALL + "correlationId nameId! eventKind "
_OPENACC = (
    "start! end! nameId! globalTid eventKind! DeviceType! lineNo! cuDeviceId! cuContextId! "
    "cuStreamId! srcFile funcName "
)

# table: (since, until, columns); None: always there.
_TABLES: dict[str, tuple[str | None, str | None, str]] = {
    "StringIds": (None, None, "id!pk value:TEXT!"),
    "ThreadNames": (None, None, "nameId! priority globalTid"),
    "PROCESSES": ("2.7", None, "globalPid pid name:TEXT"),
    "ProcessStreams": (None, None, "globalPid! filenameId! contentId!"),
    "ANALYSIS_FILE": (
        "3.13", None,
        "id!pk filename:TEXT!<3.16 filename:TEXT@3.16 content:TEXT!<3.16 contentId@3.16 globalPid!",
    ),
    "ANALYSIS_DETAILS": ("2.7", None, "globalVid! duration! startTime! stopTime!"),
    "TARGET_INFO_SESSION_START_TIME": (
        "2.7", None,
        "utcEpochNs utcTime:TEXT localTime:TEXT systemClockNs@3.24.7 sessionStartCntVctNs@3.28",
    ),
    "TARGET_INFO_SYSTEM_ENV": (
        "2.7", None,
        "globalVid!<3.1 globalVid@3.1 devStateName:TEXT! name:TEXT! nameEnum! value:TEXT!",
    ),
    # One row per device *and process*: the only old table that maps ordinals.
    "TARGET_INFO_CUDA_GPU": (
        None, "1.0",
        "vmId! name:TEXT! pciBusId globalMemoryBandwidth globalMemorySize constantMemorySize "
        "l2CacheSize numThreadsPerWarp coreClockRate numMemcpyEngines numMultiprocessors maxIPC "
        "maxWarpsPerMultiprocessor maxBlocksPerMultiprocessor maxRegistersPerBlock "
        "maxSharedMemoryPerBlock maxThreadsPerBlock maxBlockDimX maxBlockDimY maxBlockDimZ "
        "maxGridDimX maxGridDimY maxGridDimZ computeCapabilityMajor computeCapabilityMinor "
        "deviceId! pid! maxSharedMemoryPerMultiprocessor maxRegistersPerMultiprocessor",
    ),
    "TARGET_INFO_GPU": (
        "1.0", None,
        "vmId! deviceId!<2.7 id!@2.7 name:TEXT busLocation:TEXT isDiscrete l2CacheSize@2.7 "
        "totalMemory@2.7 memoryBandwidth@2.7 clockRate@2.7 smCount@2.7 pwGpuId@2.7 uuid:TEXT@2.7 "
        "luid@2.7 chipName:TEXT@2.7 cuDevice@2.7 ctxswDevPath:TEXT@2.7 ctrlDevPath:TEXT@2.7 "
        "revision@2.7 nodeMask@2.7 constantMemory@2.7 maxIPC@2.7 maxRegistersPerBlock@2.7 "
        "maxShmemPerBlock@2.7 maxShmemPerBlockOptin@2.7 maxShmemPerSm@2.7 maxRegistersPerSm@2.7 "
        "threadsPerWarp@2.7 asyncEngines@2.7 maxWarpsPerSm@2.7 maxBlocksPerSm@2.7 "
        "maxThreadsPerBlock@2.7 maxBlockDimX@2.7 maxBlockDimY@2.7 maxBlockDimZ@2.7 "
        "maxGridDimX@2.7 maxGridDimY@2.7 maxGridDimZ@2.7 computeMajor@2.7 computeMinor@2.7 "
        "smMajor@2.7 smMinor@2.7 numaNodeId@3.28",
    ),
    "TARGET_INFO_CUDA_DEVICE": (
        "3.17", None, "gpuId cudaId! pid! uuid:TEXT@3.24.7 numMultiprocessors@3.24.7",
    ),
    "TARGET_INFO_CUDA_NULL_STREAM": (
        None, "3.7", "streamId! hwId! vmId! processId! deviceId! contextId!",
    ),
    "TARGET_INFO_CUDA_CONTEXT_INFO": (
        "3.7", None,
        "nullStreamId! hwId! vmId! processId! deviceId! contextId! parentContextId isGreenContext "
        "numMultiprocessors@3.24.7 numTpcs@3.28 tpcMask:TEXT@3.28",
    ),
    "TARGET_INFO_CUDA_STREAM": (
        None, None, "streamId! hwId! vmId! processId! contextId! priority! flag!",
    ),
    "EXPORT_META_DATA": ("2.7", "3.4", "name:TEXT! value:TEXT"),
    "META_DATA_CAPTURE": ("3.4", None, "name:TEXT! value:TEXT"),
    "META_DATA_EXPORT": ("3.4", None, "name:TEXT! value:TEXT"),
    "DIAGNOSTIC_EVENT": (
        "3.13", None, "timestamp! timestampType! source! severity! text:TEXT! globalPid",
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        None, None, _CALL + "correlationId nameId! returnValue! callchainId@1.0",
    ),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        None, None,
        _OP + "demangledName! shortName! mangledName@2.7 launchType cacheConfig "
        "registersPerThread! gridX! gridY! gridZ! blockX! blockY! blockZ! staticSharedMemory! "
        "dynamicSharedMemory! localMemoryPerThread! localMemoryTotal! gridId! "
        "sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig@1.0 qmdBulkReleaseDone@3.24 "
        "qmdPreexitDone@3.24 qmdLastCtaDone@3.24 graphId@3.24 clusterX@3.24 clusterY@3.24 "
        "clusterZ@3.24 clusterSchedulingPolicy@3.24 maxPotentialClusterSize@3.24 "
        "maxActiveClusters@3.24 sharedMemoryRequestedPercentage@3.24.14 "
        "tensorSizeMinusOneElements:TEXT!@3.25",
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        None, None,
        _OP + "bytes! copyKind! deprecatedSrcId srcKind dstKind srcDeviceId srcContextId "
        "dstDeviceId dstContextId migrationCause@1.0 graphNodeId virtualAddress@2.7 copyCount@3.17",
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        None, None,
        _OP + "value! bytes! graphNodeId memKind",
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        None, None, _OP + "deprecatedSyncType@3.17 syncType! eventId! eventSyncId@3.17",
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": (
        "3.0", None, f"timestamp@3.17 {_OP.removeprefix('start! end! ')}eventId! eventSyncId@3.17",
    ),
    # No export with these three was found before the versions given here.
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("3.1", None, _OP + "graphId! graphExecId!"),
    # Until 2.9 this name held the events of nodes, which then got a table of their own.
    "CUDA_GRAPH_EVENTS": (
        "1.0", None,
        _CALL + "nameId! graphNodeId!<3.0 originalGraphNodeId<3.0 graphId@3.0 "
        "originalGraphId@3.0 graphExecId@3.0",
    ),
    "CUDA_GRAPH_NODE_EVENTS": ("3.0", None, _CALL + "nameId! graphNodeId! originalGraphNodeId"),
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": (
        None, None,
        "start! globalPid! address! originalFaultPc CpuInstruction! module! unresolvedFaultPc "
        "sourceFile@3.28 sourceLine@3.28",
    ),
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": (
        None, None,
        "start! end! globalPid! deviceId! address! numberOfPageFaults! faultAccessType!",
    ),
    "PROFILER_OVERHEAD": (
        None, None,
        "start! end! globalTid correlationId<2.7 nameId! returnValue!<3.24 overheadType!@3.24",
    ),
    "CUPTI_ACTIVITY_KIND_OVERHEAD": (
        "3.24", None, _CALL + "correlationId nameId overheadType!",
    ),
    "NVTX_EVENTS": (
        None, None,
        "start! end eventType! rangeId category color text:TEXT globalTid endGlobalTid textId "
        "domainId uint64Value int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL "
        "jsonTextId jsonText:TEXT binaryData:TEXT@3.16 eventId!pk@3.28",
    ),
    "NVTX_PAYLOAD_SCHEMAS": (
        "3.25", None, "domainId schemaId name:TEXT type flags numEntries payloadSize alignTo",
    ),
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": (
        "3.25", None,
        "domainId! schemaId! idx! flags type name:TEXT description:TEXT arrayOrUnionDetail offset",
    ),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        None, None,
        "start! globalPid! deviceId! contextId! address! pc! bytes! memKind! memoryOperationType! "
        "name:TEXT correlationId streamId@3.16 localMemoryPoolAddress@3.16",
    ),
    "CUBLAS_EVENTS": (None, None, _CALL + "nameId!"),
    "CUDNN_EVENTS": (None, None, _CALL + "nameId!"),
    "CUPTI_ACTIVITY_KIND_OPENACC_DATA": (None, None, _OPENACC + "bytes varName"),
    "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH": (
        None, None, _OPENACC + "numGangs numWorkers vectorLength kernelName",
    ),
    "CUPTI_ACTIVITY_KIND_OPENACC_OTHER": (None, None, _OPENACC),
    # Two of eighteen.
    "OPENMP_EVENT_KIND_PARALLEL": (None, None, _OPENMP + "parallelId parentTaskId"),
    "OPENMP_EVENT_KIND_SYNC_REGION_WAIT": (None, None, _OPENMP + "parallelId taskId kind"),
    "OSRT_API": (
        None, None,
        _CALL + "correlationId<1.0 nameId! returnValue! nestingLevel callchainId! "
        "argumentsId@3.24",
    ),
    "SCHED_EVENTS": (None, None, "start! cpu! isSchedIn! globalTid threadState<3.14 threadBlock<3.14"),
    "COMPOSITE_EVENTS": (None, None, "id!pk start! cpu threadState globalTid cpuCycles!"),
    "SAMPLING_CALLCHAINS": (
        None, None,
        "id! symbol! module! kernelMode thumbCode unresolved specialEntry originalIP unwindMethod "
        "stackDepth!",
    ),
    "GPU_METRICS": (
        "2.9", None, "rawTimestamp!@3.16 timestamp! typeId! metricId! value!",
    ),
    "TARGET_INFO_GPU_METRICS": (
        "2.9", None, "typeId! sourceId! typeName:TEXT! metricId! metricName:TEXT!",
    ),
    "MPI_RANKS": ("3.0", None, "globalTid rank"),
    "MPI_P2P_EVENTS": ("3.0", None, _MPI + _COMM + "tag remoteRank size requestHandle"),
    "MPI_COLLECTIVES_EVENTS": ("3.0", None, _MPI + _COMM + "rootRank size recvSize requestHandle"),
    "MPI_START_WAIT_EVENTS": ("3.0", None, _MPI + "requestHandle"),
    "MPI_OTHER_EVENTS": ("3.0", None, _MPI),
    # Only here to be ignored: it names files of the user's.
    "OSRT_FILE_ACCESS_DESCRIPTORS": (
        "3.24", None, "fileAccessId! processId! openedAt! closedAt! filePath:TEXT!",
    ),
}  # fmt: skip

_COLUMN = re.compile(r"(\w+?)(?::(\w+))?(!)?(pk)?(?:@([\d.]+))?(?:<([\d.]+))?$")


@dataclass(frozen=True)
class Column:
    """One column of one age's table."""

    name: str
    type: str
    not_null: bool
    primary_key: bool


def _exists(age: Age, since: str | None, until: str | None) -> bool:
    return (since is None or age.version >= _version(since)) and (
        until is None or age.version < _version(until)
    )


def _columns(age: Age, text: str) -> list[Column]:
    columns = []
    for word in text.split():
        match = _COLUMN.match(word)
        if match is None:
            raise ValueError(f"not a column: {word!r}")
        name, kind, not_null, key, since, until = match.groups()
        if _exists(age, since, until):
            columns.append(Column(name, kind or "INTEGER", bool(not_null), bool(key)))
    return columns


def tables(age: Age) -> dict[str, list[Column]]:
    """Return the tables that an export of that age can have, with their columns."""
    return {
        name: _columns(age, text)
        for name, (since, until, text) in _TABLES.items()
        if _exists(age, since, until)
    }


def create_statement(age: Age, table: str, columns: list[Column]) -> str:
    """Return the DDL as that age's exporter writes it: one line until 2021, then a line per column."""
    parts = [
        f"{column.name:<27} {column.type:<9}"
        + (" NOT NULL" if column.not_null else "")
        + ("   PRIMARY KEY" if column.primary_key else "")
        for column in columns
    ]
    if not age.many_lines:
        return f"CREATE TABLE {table} ({', '.join(' '.join(part.split()) for part in parts)})"
    body = ",\n".join(f"    {part.rstrip()}" for part in parts)
    return f"CREATE TABLE {table} (\n{body}\n)"
