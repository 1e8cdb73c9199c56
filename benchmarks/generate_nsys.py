"""Write a large, made-up Nsight Systems export (SQLite, schema 3.25.0) for benchmarks.

    python benchmarks/generate_nsys.py OUT.sqlite --kernels 5000000 [--seed 1]

The file looks like the export of a training job (`training_job.py`). What it promises:

* exactly `--kernels` kernel rows; each has one API row (same process, same correlation id);
* an op starts after its API call's start; ops of one stream do not overlap;
* push/pop ranges of a thread nest properly, API calls of a thread nest or are disjoint;
* same arguments, same rows (the bytes may differ between SQLite versions);
* correlation ids of different processes collide; rows are not in time order.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import training_job as job
from training_job import Chunk, Flags, Ints, Names, Strings, Thread

# A column of an INSERT: an array or list gives one value per row, a scalar is the same in all.
Column = Ints | list[str] | int | str | None
Columns = dict[str, Column]


SESSION_RAW_NS = 40_000_000_000
UTC_NS = 1_767_225_600_000_000_000
NOT_APPLICABLE = 4294967295
# table: columns; a type is INTEGER unless given, `!` is NOT NULL.
SCHEMA = {
    "StringIds": "id!pk value:TEXT!",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start! end! eventClass! globalTid correlationId nameId! "
    "returnValue! callchainId",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start! end! deviceId! contextId! greenContextId streamId! "
    "correlationId globalPid demangledName! shortName! mangledName launchType cacheConfig "
    "registersPerThread! gridX! gridY! gridZ! blockX! blockY! blockZ! staticSharedMemory! "
    "dynamicSharedMemory! localMemoryPerThread! localMemoryTotal! gridId! sharedMemoryExecuted "
    "graphNodeId sharedMemoryLimitConfig qmdBulkReleaseDone qmdPreexitDone qmdLastCtaDone "
    "graphId clusterX clusterY clusterZ clusterSchedulingPolicy maxPotentialClusterSize "
    "maxActiveClusters sharedMemoryRequestedPercentage tensorSizeMinusOneElements:TEXT!",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start! end! deviceId! contextId! greenContextId streamId! "
    "correlationId globalPid bytes! copyKind! deprecatedSrcId srcKind dstKind srcDeviceId "
    "srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress copyCount",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start! end! deviceId! contextId! greenContextId streamId! "
    "correlationId globalPid value! bytes! graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start! end! deviceId! contextId! greenContextId "
    "streamId! correlationId globalPid deprecatedSyncType syncType! eventId! eventSyncId",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "timestamp deviceId! contextId! greenContextId streamId! "
    "correlationId globalPid eventId! eventSyncId",
    "NVTX_EVENTS": "start! end eventType! rangeId category color text:TEXT globalTid endGlobalTid "
    "textId domainId uint64Value int64Value doubleValue:REAL uint32Value int32Value "
    "floatValue:REAL jsonTextId jsonText:TEXT binaryData:TEXT",
    "PROFILER_OVERHEAD": "start! end! globalTid nameId! overheadType!",
    "DIAGNOSTIC_EVENT": "timestamp! timestampType! source! severity! text:TEXT! globalPid",
    "ThreadNames": "nameId! priority globalTid",
    "PROCESSES": "globalPid pid name:TEXT",
    "ProcessStreams": "globalPid! filenameId! contentId!",
    "ANALYSIS_FILE": "id!pk filename:TEXT contentId globalPid!",
    "ANALYSIS_DETAILS": "globalVid! duration! startTime! stopTime!",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:TEXT localTime:TEXT systemClockNs",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName:TEXT! name:TEXT! nameEnum! value:TEXT!",
    "TARGET_INFO_GPU": "vmId! id! name:TEXT busLocation:TEXT isDiscrete l2CacheSize totalMemory "
    "memoryBandwidth clockRate smCount pwGpuId uuid:TEXT luid chipName:TEXT cuDevice "
    "ctxswDevPath:TEXT ctrlDevPath:TEXT revision nodeMask constantMemory maxIPC "
    "maxRegistersPerBlock maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm maxRegistersPerSm "
    "threadsPerWarp asyncEngines maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX "
    "maxBlockDimY maxBlockDimZ maxGridDimX maxGridDimY maxGridDimZ computeMajor computeMinor "
    "smMajor smMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId! pid! uuid:TEXT numMultiprocessors",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "nullStreamId! hwId! vmId! processId! deviceId! contextId! "
    "parentContextId isGreenContext numMultiprocessors",
    "TARGET_INFO_CUDA_STREAM": "streamId! hwId! vmId! processId! contextId! priority! flag!",
    "META_DATA_CAPTURE": "name:TEXT! value:TEXT",
    "META_DATA_EXPORT": "name:TEXT! value:TEXT",
}
# The ranges of a step: (level, first call, call after the last, text). Level 1 is the step
# itself, `step <n>`. The texts in `REGISTERED` go by string id, the others as plain text.
RANGES: tuple[tuple[tuple[int, int, int, str], ...], ...] = (
    ((2, 0, 14, "load_batch"), (2, 14, 66, "forward"), (3, 16, 40, "layer_0"),
     (4, 18, 28, "attention"), (5, 20, 24, "softmax"), (3, 40, 64, "layer_1"),
     (4, 42, 52, "mlp"), (2, 66, 104, "backward"), (3, 70, 90, "layer_1"),
     (2, 104, job.CALLS, "optimizer")),
    ((2, 0, 10, "load_batch"), (2, 10, 70, "forward"), (3, 12, 40, "embedding"),
     (3, 41, 68, "layer_0"), (4, 44, 56, "attention"), (2, 70, 100, "backward"),
     (3, 72, 85, "layer_0"), (3, 85, 98, "embedding"), (2, 100, job.CALLS, "optimizer")),
    ((2, 0, 20, "load_batch"), (3, 4, 16, "augment"), (2, 20, 90, "forward"),
     (3, 22, 44, "block"), (4, 24, 42, "conv"), (5, 26, 32, "im2col"), (5, 32, 40, "gemm"),
     (3, 44, 66, "block"), (4, 46, 60, "conv"), (3, 66, 88, "block"),
     (2, 90, job.CALLS, "evaluate")),
)  # fmt: skip
REGISTERED = ("forward", "backward", "optimizer", "evaluate", "attention", "mlp", "conv")


class Writer:
    """Inserts columns into tables. Scalars become part of the SQL: far fewer values to bind."""

    def __init__(self, path: Path) -> None:
        """Open the export to be written."""
        path.unlink(missing_ok=True)
        self.connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("page_size=4096", "journal_mode=OFF", "synchronous=OFF",
                       "locking_mode=EXCLUSIVE", "cache_size=-65536"):  # fmt: skip
            self.connection.execute(f"PRAGMA {pragma}")
        for table, columns in SCHEMA.items():
            self._create(table, columns)
        self.connection.execute("BEGIN")

    def _create(self, table: str, columns: str) -> None:
        parts = []
        for column in columns.split():
            name, _, kind = column.removesuffix("pk").replace("!", "").partition(":")
            null = " NOT NULL" if "!" in column else ""
            key = " PRIMARY KEY" if column.endswith("!pk") else ""
            parts.append(f"{name} {kind or 'INTEGER'}{null}{key}")
        self.connection.execute(f"CREATE TABLE {table} ({', '.join(parts)})")

    def insert(self, table: str, columns: Mapping[str, Column]) -> int:
        """Add rows; columns that are not given are NULL. At least one column is an array."""
        names = list(columns)
        values: list[str] = []
        arrays: list[list[str] | list[int]] = []
        for value in columns.values():
            if isinstance(value, np.ndarray):
                arrays.append(value.ravel().tolist())
                values.append("?")
            elif isinstance(value, list):
                arrays.append(value)
                values.append("?")
            elif value is None:
                values.append("NULL")
            else:
                values.append(str(value) if isinstance(value, int) else f"'{value}'")
        sql = f"INSERT INTO {table} ({','.join(names)}) VALUES ({','.join(values)})"
        self.connection.executemany(sql, zip(*arrays, strict=True))
        return len(arrays[0])

    def rows(self, table: str, rows: Iterable[Sequence[object]]) -> None:
        """Add a few whole rows, given in the order of the table's columns."""
        for row in rows:
            self.connection.execute(
                f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", tuple(row)
            )

    def close(self) -> None:
        """Commit and close the file."""
        self.connection.execute("COMMIT")
        self.connection.close()


def write_calls(out: Writer, thread: Thread, chunk: Chunk, names: Names) -> int:
    """Return the chunk's API rows, the nested driver calls among them."""
    fixed: Columns = {"globalTid": thread.global_tid}
    # 600 is cudaErrorNotReady: the usual answer to a query.
    result = np.where((chunk.kind == job.QUERY) & (chunk.bytes % 3 > 0), 600, 0)
    count = out.insert("CUPTI_ACTIVITY_KIND_RUNTIME", fixed | {
        "start": chunk.start, "end": chunk.end, "returnValue": result,
        "eventClass": (chunk.kind == job.LAUNCH_EX).astype(np.int64),
        "correlationId": chunk.correlation, "nameId": names.api[chunk.kind],
    })  # fmt: skip
    at = chunk.kind == job.MALLOC
    return count + out.insert("CUPTI_ACTIVITY_KIND_RUNTIME", fixed | {
        "start": chunk.start[at] + 30, "end": chunk.end[at] - 30, "returnValue": 0,
        "eventClass": 1, "correlationId": chunk.correlation[at] + thread.id_stride,
        "nameId": int(names.api[job.INNER]),
    })  # fmt: skip


def op_columns(thread: Thread, chunk: Chunk, at: Flags, start: Ints, end: Ints) -> Columns:
    """Return the columns that rows of kernels, copies, memsets and synchronisations share."""
    return {
        "start": start[at], "end": end[at], "deviceId": thread.device,
        "contextId": thread.context, "greenContextId": None, "streamId": chunk.stream[at],
        "correlationId": chunk.correlation[at], "globalPid": thread.global_pid,
    }  # fmt: skip


def write_ops(out: Writer, thread: Thread, chunk: Chunk, names: Names, most: int) -> int:
    """Return the chunk's GPU work, at most `most` kernels of it; returns the number of kernels."""
    at = chunk.kind <= job.LAUNCH_EX
    at &= np.cumsum(at).reshape(at.shape) <= most
    ids, shape = names.kernels[chunk.kernel[at]], names.shape[chunk.kernel[at]]
    kernels = out.insert("CUPTI_ACTIVITY_KIND_KERNEL", op_columns(
        thread, chunk, at, chunk.op_start, chunk.op_end) | {
        "demangledName": ids[:, 0], "shortName": ids[:, 1], "mangledName": ids[:, 2],
        "launchType": 1, "cacheConfig": 1, "registersPerThread": shape[:, 0],
        "gridX": shape[:, 1], "gridY": 1, "gridZ": 1, "blockX": shape[:, 2], "blockY": 1,
        "blockZ": 1, "staticSharedMemory": shape[:, 3], "dynamicSharedMemory": shape[:, 4],
        "localMemoryPerThread": 0, "localMemoryTotal": 250871808,
        "gridId": chunk.correlation[at] // 2, "sharedMemoryExecuted": 32768,
        "sharedMemoryLimitConfig": 0, "clusterX": 0, "clusterY": 0, "clusterZ": 0,
        "clusterSchedulingPolicy": 1, "maxPotentialClusterSize": 0, "maxActiveClusters": 0,
        "tensorSizeMinusOneElements": "[]",
    })  # fmt: skip
    at = chunk.kind == job.COPY
    ends = job.COPIES[chunk.copy[at]]
    out.insert("CUPTI_ACTIVITY_KIND_MEMCPY", op_columns(
        thread, chunk, at, chunk.op_start, chunk.op_end) | {
        "bytes": chunk.bytes[at], "copyKind": ends[:, 0], "srcKind": ends[:, 1],
        "dstKind": ends[:, 2], "copyCount": 1,
    })  # fmt: skip
    at = chunk.kind == job.SET
    out.insert("CUPTI_ACTIVITY_KIND_MEMSET", op_columns(
        thread, chunk, at, chunk.op_start, chunk.op_end) | {
        "value": 0, "bytes": chunk.bytes[at], "memKind": 2,
    })  # fmt: skip
    for kind, sync_type in ((job.SYNC, 3), (job.WAIT, 2)):
        at = chunk.kind == kind
        out.insert("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", op_columns(
            thread, chunk, at, chunk.start + 200, chunk.end - 100) | {
            "syncType": sync_type, "eventId": NOT_APPLICABLE if kind == job.SYNC else 1,
            "eventSyncId": 0,
        })  # fmt: skip
    at = chunk.kind == job.RECORD
    columns = op_columns(thread, chunk, at, chunk.start, chunk.end)
    del columns["start"], columns["end"]
    out.insert("CUPTI_ACTIVITY_KIND_CUDA_EVENT", columns | {
        "timestamp": 0, "eventId": 1, "eventSyncId": chunk.correlation[at]})  # fmt: skip
    return kernels


def write_ranges(out: Writer, thread: Thread, chunk: Chunk, strings: Strings) -> int:
    """Return the chunk's push/pop ranges, and the profiler's overhead between some steps.

    Ranges of outer levels begin earlier and end later by 40 ns per level; calls are at least
    600 ns apart, so neighbours of one level stay apart.
    """
    fixed: Columns = {"eventType": 59, "globalTid": thread.global_tid}
    first, last = chunk.start[:, 0], chunk.end[:, -1]
    numbers = range(thread.step, thread.step + len(first))
    count = out.insert("NVTX_EVENTS", fixed | {
        "start": first - 200, "end": last + 200, "domainId": 0,
        "text": [f"step {number}" for number in numbers],
    })  # fmt: skip
    for index, ranges in enumerate(RANGES):
        at = np.arange(index, len(first), len(RANGES))
        for level, begin, stop, text in ranges if len(at) else ():
            margin = 40 * (6 - level)
            by_id = text in REGISTERED
            count += out.insert("NVTX_EVENTS", fixed | {
                "start": chunk.start[at, begin] - margin,
                "end": chunk.end[at, stop - 1] + margin, "color": 0xFF76B900 + level,
                "domainId": int(level > 2), "textId": strings.id_of(text) if by_id else None,
                "text": None if by_id else text,
            })  # fmt: skip
    flushed = last[::50]
    out.insert("PROFILER_OVERHEAD", {
        "start": flushed + 1000, "end": flushed + 4000, "globalTid": thread.global_tid,
        "nameId": strings.id_of("CUPTI: Buffer flush"), "overheadType": 3,
    })  # fmt: skip
    return count


def write_session(out: Writer, threads: Sequence[Thread], strings: Strings) -> None:
    """Write everything that is not an event: machine, processes, threads, GPUs, metadata, strings."""
    end = max(thread.now for thread in threads) + 1_000_000
    out.rows("ANALYSIS_DETAILS", [(job.VM, end, SESSION_RAW_NS, SESSION_RAW_NS + end)])
    date = "2026-01-01T00:00:00"
    out.rows("TARGET_INFO_SESSION_START_TIME", [(UTC_NS, date, date, SESSION_RAW_NS)])
    out.rows("TARGET_INFO_SYSTEM_ENV", [
        (job.VM, "Local (CLI)", "CpuCores", 1, "64"),
        (job.VM, "Local (CLI)", "NvDriverVersion", 205, "580.95.05"),
        (job.VM, "Local (CLI)", "CudaDriverVersion", 611, "13000"),
        (job.VM, "Local (CLI)", "Hostname", 619, "benchmark"),
    ])  # fmt: skip
    out.rows("META_DATA_CAPTURE", [
        ("CAPTURE_EVENT_TYPE", "NvtxEvents"), ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Graph"), ("PROCESS_0:COMMAND", "python"),
    ])  # fmt: skip
    out.rows("META_DATA_EXPORT", [
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        ("EXPORT_PRODUCT_VERSION", "2026.2.1.210"), ("EXPORT_SCHEMA_VERSION", "3.25.0"),
        ("EXPORT_SCHEMA_VERSION_MAJOR", "3"), ("EXPORT_SCHEMA_VERSION_MINOR", "25"),
        ("EXPORT_SCHEMA_VERSION_MICRO", "0"), ("EXPORT_TIME_UTC", date),
        ("EXPORT_PARAM_LAZY", "true"), ("EXPORT_CONFIG_TIME_SHIFT", "0"),
    ])  # fmt: skip
    out.rows("DIAGNOSTIC_EVENT", [(0, 1, 3, 1, "Profiling has started.", None)])
    gpus: dict[tuple[int, int], int] = {}
    for thread in threads:
        main = thread.pid == thread.tid
        name = strings.id_of("python" if main else "pt_autograd_0")
        out.rows("ThreadNames", [(name, 20, thread.global_tid)])
        if main:
            out.rows("PROCESSES", [(thread.global_pid, thread.pid, "python")])
            out.rows("NVTX_EVENTS", [(-SESSION_RAW_NS, None, 75, None, None, None, "model",
                                      thread.global_tid, None, None, 1, *[None] * 9)])  # fmt: skip
        flags = [(7, 3)] if (thread.pid, thread.device) not in gpus else []
        for stream, flag in [*flags, *((int(stream), 2) for stream in thread.streams)]:
            row = (stream, 0, 1, thread.pid, thread.context, 0, flag)
            out.rows("TARGET_INFO_CUDA_STREAM", [row])
        if flags:
            gpu = gpus[thread.pid, thread.device] = len(gpus)
            uuid = f"00000000-0000-4000-8000-{gpu:012d}"
            write_gpu(out, gpu, uuid)
            out.rows("TARGET_INFO_CUDA_DEVICE", [(gpu, thread.device, thread.pid, uuid, 132)])
            out.rows("TARGET_INFO_CUDA_CONTEXT_INFO", [
                (7, 0, 1, thread.pid, thread.device, thread.context, 0, 0, 132)])  # fmt: skip
    out.rows("StringIds", ((number, text) for text, number in strings.rows.items()))


def write_gpu(out: Writer, gpu: int, uuid: str) -> None:
    """Write the row of a GPU; all have the same model."""
    out.rows("TARGET_INFO_GPU", [(
        job.VM, gpu, "NVIDIA H100 80GB HBM3", f"0000:{gpu + 16:02x}:00.0", 1, 52428800, 85024112640,
        3352320000000, 1980000000, 132, gpu, uuid, 0, "GH100", gpu, "", "", 161, 0, 65536, 4,
        65536, 49152, 232448, 233472, 65536, 32, 3, 64, 32, 1024, 1024, 1024, 64, 2147483647,
        65535, 65535, 9, 0, 9, 0,
    )])  # fmt: skip


def generate(path: Path, kernels: int, seed: int, processes: int, devices: int) -> dict[str, int]:
    """Write the export; returns rows written of the large tables."""
    rng = np.random.default_rng(seed)
    strings = Strings()
    names = job.make_names(strings, rng)
    threads = job.make_threads(kernels, processes, devices)
    out = Writer(path)
    written = {"kernels": 0, "api calls": 0, "ranges": 0}
    # Thread by thread within a round: rows come in runs, as in real exports, not in time order.
    while pending := [thread for thread in threads if thread.step < thread.steps]:
        for thread in pending:
            steps = min(job.STEPS_PER_CHUNK, thread.steps - thread.step)
            chunk = job.make_chunk(thread, steps, names, rng)
            most = kernels - written["kernels"]
            written["api calls"] += write_calls(out, thread, chunk, names)
            written["kernels"] += write_ops(out, thread, chunk, names, most)
            written["ranges"] += write_ranges(out, thread, chunk, strings)
            thread.step += steps
    write_session(out, threads, strings)
    out.close()
    return written


def main() -> None:
    """Read the command line, write the file, say what is in it."""
    parser = argparse.ArgumentParser(description="write a large made-up Nsight Systems export")
    parser.add_argument("out", type=Path)
    parser.add_argument("--kernels", type=int, default=5_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--devices", type=int, default=1, help="devices of each process")
    options = parser.parse_args()
    written = generate(
        options.out, options.kernels, options.seed, options.processes, options.devices
    )
    print(", ".join(f"{count} {what}" for what, count in written.items()))


if __name__ == "__main__":
    main()
