"""Tables and columns of nvprof's databases, by the version that the file states."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

_PREFIX = "CUPTI_ACTIVITY_KIND_"


@dataclass(frozen=True)
class Age:
    """One version of the database. `boot_ns`: times count from the machine's start, not from 1970."""

    version: int
    product: str
    boot_ns: int | None


AGES = {
    "9": Age(9, "nvprof of CUDA 9.0, analysis or Windows clock", 56_500_000_000_000),
    "12": Age(12, "nvprof of CUDA 10.2", None),
}

_KERNEL = (
    "cacheConfig:BLOB sharedMemoryConfig registersPerThread partitionedGlobalCacheRequested "
    "partitionedGlobalCacheExecuted start end completed deviceId contextId streamId gridX gridY gridZ "
    "blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal "
    "correlationId gridId name"
)
_KERNEL_12 = (
    " queued submitted launchType isSharedMemoryCarveoutRequested sharedMemoryCarveoutRequested "
    "sharedMemoryExecuted"
)
_ON_GPU = "start end deviceId contextId streamId"
_CALL = "cbid start end processId threadId correlationId returnValue"

# All columns are INTEGER but those that say otherwise; most tables of a database are empty.
_COLUMNS = {
    "CONCURRENT_KERNEL": _KERNEL,
    "KERNEL": _KERNEL,
    "CDP_KERNEL": f"{_KERNEL} parentGridId queued submitted parentBlockX parentBlockY parentBlockZ",
    "MEMCPY": f"copyKind srcKind dstKind flags bytes {_ON_GPU} correlationId runtimeCorrelationId",
    "MEMCPY2": f"copyKind srcKind dstKind flags bytes {_ON_GPU} srcDeviceId srcContextId dstDeviceId "
    "dstContextId correlationId",
    "MEMSET": f"value bytes {_ON_GPU} correlationId flags memoryKind",
    "RUNTIME": _CALL,
    "DRIVER": _CALL,
    "MARKER": "flags timestamp id objectKind objectId:BLOB name domain",
    "MARKER_DATA": "flags id payloadKind payload:BLOB color category",
    "NAME": "objectKind objectId:BLOB name",
    "OVERHEAD": "overheadKind objectKind objectId:BLOB start end",
    "SYNCHRONIZATION": "type start end correlationId contextId streamId cudaEventId",
    "DEVICE": "flags globalMemoryBandwidth globalMemorySize constantMemorySize l2CacheSize "
    "numThreadsPerWarp coreClockRate numMemcpyEngines numMultiprocessors maxIPC "
    "maxWarpsPerMultiprocessor maxBlocksPerMultiprocessor maxSharedMemoryPerMultiprocessor "
    "maxRegistersPerMultiprocessor computeCapabilityMajor computeCapabilityMinor id eccEnabled "
    "uuid:BLOB name",
    "CONTEXT": "contextId deviceId computeApiKind nullStreamId",
    "STREAM": "contextId streamId priority flag",
    "UNIFIED_MEMORY_COUNTER": "counterKind value start end address srcId dstId streamId processId flags",
    "METRIC": "id value:BLOB correlationId flags",
    "EVENT": "id value domain correlationId",
    "ENVIRONMENT": "deviceId timestamp environmentKind data:BLOB",
}
_OPENACC = (
    "eventKind parentConstruct version implicit deviceType deviceNumber threadId async asyncMap lineNo "
    "endLineNo funcLineNo funcEndLineNo start end cuDeviceId cuContextId cuStreamId cuProcessId "
    "cuThreadId externalId srcFile funcName"
)
# Real databases have these, too, most often empty: here they are written where there are rows.
_MORE = {
    "CUDA_EVENT": "correlationId contextId streamId eventId",
    "OPENACC_DATA": f"{_OPENACC} bytes hostPtr devicePtr varName",
    "OPENACC_LAUNCH": f"{_OPENACC} numGangs numWorkers vectorLength kernelName",
    "OPENACC_OTHER": _OPENACC,
    "OPENMP": "eventKind version threadId start end cuProcessId cuThreadId",
}
_MORE_IN_12 = {"CONCURRENT_KERNEL": _KERNEL_12, "KERNEL": _KERNEL_12, "STREAM": " correlationId"}


def tables(age: Age, used: Collection[str] = ()) -> dict[str, list[tuple[str, str]]]:
    """Return per table its columns with their types, without the key `_id_`; `used` tables have rows."""
    result = {}
    more = {name: columns for name, columns in _MORE.items() if _PREFIX + name in used}
    for name, columns in (_COLUMNS | more).items():
        texts = columns + (_MORE_IN_12.get(name, "") if age.version >= 12 else "")
        pairs = [text.partition(":") for text in texts.split()]
        result[_PREFIX + name] = [(column, kind or "INTEGER") for column, _, kind in pairs]
    return result
