"""Writes workloads as rocprofv3 does: a rocpd database, one set of tables per process.

HIP has one API where CUDA has a runtime and a driver, sets memory with kernels and knows neither kinds of
host memory nor the time of day; none of that is written. Names are HIP's: hipMemcpyAsync.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workload import Direction, Process, Workload
from write_nsys import new_database

BOOT_NS = 1_071_423_114_000_000
"""When the recordings begin, since the machine started."""
AGES = ("3", "3.0.2", "4.1.0")
FILL = "__amd_rocclr_fillBufferAligned"
_UUID = "_0000{:04x}_88a3_78a3_98ca_18ea8b796f0d"
CPUS = 2
_REAL_MEMORY = 1

DIRECTIONS: Mapping[Direction, str] = {
    "HtoD": "HOST_TO_DEVICE",
    "DtoH": "DEVICE_TO_HOST",
    "DtoD": "DEVICE_TO_DEVICE",
    "PtoP": "DEVICE_TO_DEVICE",
    "HtoH": "HOST_TO_HOST",
}
_PLACE = "nid INTEGER, pid INTEGER, tid INTEGER"
_EVENT = 'start BIGINT, "end" BIGINT, event_id INTEGER, extdata JSONB DEFAULT "{}"'
_SIZES = ", ".join(
    f"{what}_size_{axis} INTEGER" for what in ("workgroup", "grid") for axis in "xyz"
)
TABLES = {
    "metadata": "tag TEXT, value TEXT",
    "string": "string TEXT NOT NULL UNIQUE",
    "info_node": "hash BIGINT, machine_id TEXT, system_name TEXT, hostname TEXT, release TEXT",
    "info_process": "nid INTEGER, ppid INTEGER, pid INTEGER, init BIGINT, fini BIGINT, start BIGINT, "
    '"end" BIGINT, command TEXT, environment JSONB, extdata JSONB',
    "info_thread": "nid INTEGER, ppid INTEGER, pid INTEGER, tid INTEGER, name TEXT, "
    'start BIGINT, "end" BIGINT',
    "info_agent": "nid INTEGER, pid INTEGER, type TEXT, absolute_index INTEGER, logical_index INTEGER, "
    "type_index INTEGER, uuid INTEGER, name TEXT, model_name TEXT, vendor_name TEXT, product_name TEXT, "
    "user_name TEXT, extdata JSONB",
    "info_queue": "nid INTEGER, pid INTEGER, name TEXT",
    "info_stream": "nid INTEGER, pid INTEGER, name TEXT",
    "info_pmc": "nid INTEGER, pid INTEGER, agent_id INTEGER, name TEXT, symbol TEXT, is_derived INTEGER",
    "info_code_object": "nid INTEGER, pid INTEGER, agent_id INTEGER, uri TEXT",
    "info_kernel_symbol": "nid INTEGER, pid INTEGER, code_object_id INTEGER, kernel_name TEXT, "
    "display_name TEXT, group_segment_size INTEGER, private_segment_size INTEGER, sgpr_count INTEGER, "
    "arch_vgpr_count INTEGER, accum_vgpr_count INTEGER",
    "track": f"{_PLACE}, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER, name_id INTEGER",
    "event": "category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, "
    "extdata JSONB",
    "arg": "event_id INTEGER, position INTEGER, type TEXT, name TEXT, value TEXT",
    "pmc_event": "event_id INTEGER, pmc_id INTEGER, value REAL",
    "region": f"{_PLACE}, name_id INTEGER, {_EVENT}",
    "sample": "track_id INTEGER, timestamp BIGINT, event_id INTEGER",
    "kernel_dispatch": f"{_PLACE}, agent_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER, "
    f"queue_id INTEGER, stream_id INTEGER, private_segment_size INTEGER, group_segment_size INTEGER, "
    f"{_SIZES}, region_name_id INTEGER, {_EVENT}",
    "memory_copy": f"{_PLACE}, name_id INTEGER, dst_agent_id INTEGER, dst_address INTEGER, "
    f"src_agent_id INTEGER, src_address INTEGER, size INTEGER, queue_id INTEGER, "
    f"stream_id INTEGER, {_EVENT}",
    "memory_allocate": f"{_PLACE}, agent_id INTEGER, type TEXT, level TEXT, address INTEGER, "
    f"size INTEGER, queue_id INTEGER, stream_id INTEGER, {_EVENT}",
}
"""Columns of each table beside id and guid, as schema 3 has them."""
_TRACKED = ("nid", "pid", "tid", "agent_id", "queue_id", "stream_id")
_ON_TRACKS = ("region", "kernel_dispatch", "memory_copy", "memory_allocate")


def hip_name(symbol: str) -> str:
    """Return HIP's name of a function of CUDA, without version and mode of the default stream."""
    plain = re.sub(r"(_ptsz)?(_v\d{4,})?$", "", symbol)
    return re.sub(r"^(cuda|cu)(?=[A-Z])", "hip", plain)


class RocpdWriter:
    """Writes rows of one process, of which each table has its own suffix."""

    def __init__(self, connection: sqlite3.Connection, suffix: str, age: str) -> None:
        """Make the tables."""
        self._connection, self._suffix, self.age = connection, suffix, age
        self._strings: dict[str, int] = {}
        self._tracks: dict[tuple[Any, ...], int] = {}
        for table, columns in TABLES.items():
            kept = columns
            if self._has_tracks(table):
                kept = ", ".join(c for c in columns.split(", ") if c.split()[0] not in _TRACKED)
                kept += ", track_id INTEGER"
            if age != "3" and table in ("kernel_dispatch", "memory_copy"):
                kept += ", graph_exec_id INTEGER, graph_node_id INTEGER"
            self._connection.execute(
                f'CREATE TABLE "rocpd_{table}{suffix}" '
                f'("id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "guid" TEXT, {kept})'
            )
        for tag, value in (("schema_version", age), ("uuid", suffix), ("guid", suffix[1:])):
            self.insert("metadata", tag=tag, value=value)
        self.string("")

    def _has_tracks(self, table: str) -> bool:
        return self.age.startswith("4") and table in _ON_TRACKS

    def insert(self, table: str, **cells: Any) -> int:
        """Insert a row and return its id."""
        if self._has_tracks(table):
            place = tuple(cells.pop(name, None) for name in _TRACKED)
            if place not in self._tracks:
                self._tracks[place] = self.insert(
                    "track", **dict(zip(_TRACKED, place, strict=True))
                )
            cells["track_id"] = self._tracks[place]
        names = ", ".join(f'"{name}"' for name in cells)
        marks = ", ".join("?" * len(cells))
        sql = f'INSERT INTO "rocpd_{table}{self._suffix}" ({names}) VALUES ({marks})'
        return self._connection.execute(sql, list(cells.values())).lastrowid or 0

    def string(self, text: str) -> int:
        """Return the id of a text."""
        if text not in self._strings:
            self._strings[text] = self.insert("string", string=text)
        return self._strings[text]

    def event(self, category: str, stack: int | None = None, **details: str) -> int:
        """Insert the event of a row and return its id."""
        return self.insert(
            "event",
            category_id=self.string(category),
            stack_id=stack or 0,
            parent_stack_id=0,
            correlation_id=0,
            extdata=json.dumps(details),
        )


def write_rocpd(
    workload: Workload,
    path: Path,
    *,
    age: str = "3",
    processes: Iterable[Process] | None = None,
    traces: Iterable[str] = (
        "KERNEL_TRACE",
        "MEMORY_COPY_TRACE",
        "HIP_RUNTIME_API_TRACE",
        "MARKER_API_TRACE",
    ),
) -> None:
    """Write the processes of a workload, by default all, as a new database, as `rocpd merge` does.

    `traces`: what rocprofv3 was asked to record, as it puts into the environment.
    """
    with new_database(path, page_size=1024) as connection:
        for number, process in enumerate(workload.processes if processes is None else processes):
            writer = RocpdWriter(connection, _UUID.format(number + 1), age)
            _write_process(writer, workload, process, traces)


def _write_process(
    writer: RocpdWriter, workload: Workload, process: Process, traces: Iterable[str]
) -> None:
    environment = {
        **dict(workload.environment),
        **{f"ROCPROF_{trace}": "1" for trace in traces},
        "API_KEY": "SECRET-IN-ENVIRONMENT",
    }
    times = {"init": BOOT_NS, "fini": BOOT_NS + workload.duration_ns}
    writer.insert("info_node", id=1, hash=1, machine_id="SECRET-MACHINE", hostname=workload.host)
    writer.insert(
        "info_process",
        id=process.pid,
        nid=1,
        pid=process.pid,
        **times,
        command=f"/home/SECRET-USER/{process.name} --token SECRET-IN-COMMAND",
        environment=json.dumps(environment),
        extdata="{}",
    )
    writer.insert("info_code_object", nid=1, pid=process.pid, uri="file:///home/SECRET-USER/a.so")
    writer.string("SECRET-UNUSED")
    for thread in workload.threads:
        if thread.process == process:
            writer.insert(
                "info_thread",
                id=thread.tid,
                nid=1,
                pid=process.pid,
                tid=thread.tid,
                name=thread.name,
            )
    for index in range(CPUS):
        writer.insert(
            "info_agent",
            id=index,
            nid=1,
            pid=process.pid,
            type="CPU",
            type_index=index,
            name="AMD EPYC",
            extdata="{}",
        )
    for index, device in enumerate(process.devices):
        major, minor = device.compute
        uuid = bytes.fromhex(device.uuid.replace("-", "")[:16])
        details = {
            "cu_count": device.sm_count,
            "gfx_target_version": major * 10_000 + minor * 100,
            "lds_size_in_kb": 64,
            "max_waves_per_cu": 32,
            "domain": 0,
            "location_id": int(device.bus_id.split(":")[1], 16) << 8,
            "mem_banks": [{"heap_type": _REAL_MEMORY, "size_in_bytes": device.memory_bytes}],
            "uuid": {"bytes": {f"value{i}": byte for i, byte in enumerate(reversed(uuid))}},
        }
        writer.insert(
            "info_agent",
            id=CPUS + index,
            nid=1,
            pid=process.pid,
            type="GPU",
            absolute_index=CPUS + index,
            type_index=index,
            name="gfx90a",
            product_name="AMD Instinct MI210",
            extdata=json.dumps(details),
        )
    _write_calls(writer, workload, process)
    _write_work(writer, workload, process)


def _write_calls(writer: RocpdWriter, workload: Workload, process: Process) -> None:
    for call in workload.events.calls:
        if call.thread.process != process:
            continue
        name = hip_name(call.symbol)
        event = writer.event("HIP_RUNTIME_API_EXT", call.correlation_id)
        writer.insert(
            "arg", event_id=event, position=0, type="char*", name="p", value="SECRET-IN-ARG"
        )
        place = {"nid": 1, "pid": process.pid, "tid": call.thread.tid}
        name_id = writer.string(name)
        if call.start_ns == call.end_ns:
            track = writer.insert("track", **place, name_id=name_id)
            writer.insert(
                "sample", track_id=track, timestamp=BOOT_NS + call.start_ns, event_id=event
            )
        else:
            writer.insert("region", **place, name_id=name_id, event_id=event, **_times(call))
    for item in workload.events.ranges:
        if item.thread.process != process or (item.end_ns is None and item.style != "mark"):
            continue  # the profiler writes a range when it is closed
        place = {"nid": 1, "pid": process.pid, "tid": item.thread.tid}
        event = writer.event("MARKER_CORE_RANGE_API", message=item.text)
        if item.style == "mark":
            track = writer.insert("track", **place, name_id=writer.string("roctxMarkA"))
            writer.insert(
                "sample", track_id=track, timestamp=BOOT_NS + item.start_ns, event_id=event
            )
            continue
        name = "roctxThreadRangeA" if item.style == "push_pop" else "roctxProcessRangeA"
        writer.insert(
            "region", **place, name_id=writer.string(name), event_id=event, **_times(item)
        )


def _write_work(writer: RocpdWriter, workload: Workload, process: Process) -> None:
    symbols: dict[tuple[str, int, int], int] = {}

    def symbol(shown: str, mangled: str, registers: int, shared: int) -> int:
        key = (mangled, registers, shared)
        if key not in symbols:
            symbols[key] = writer.insert(
                "info_kernel_symbol",
                nid=1,
                pid=process.pid,
                kernel_name=f"{mangled}.kd",
                display_name=shown,
                group_segment_size=shared,
                arch_vgpr_count=registers - 8,
                accum_vgpr_count=8,
            )
        return symbols[key]

    def on(item: Any) -> dict[str, Any]:
        stream = item.stream
        return {
            "nid": 1,
            "pid": process.pid,
            "tid": process.pid,
            "stream_id": stream.stream_id,
            "queue_id": 1,
            **_times(item),
        }

    events = workload.events
    for kernel in events.kernels:
        if kernel.stream.process == process:
            event = writer.event("KERNEL_DISPATCH", kernel.correlation_id)
            name, shared = kernel.function, kernel.static_shared_bytes
            axes = list(zip("xyz", kernel.grid, kernel.block, strict=True))
            sizes = {f"workgroup_size_{axis}": block for axis, _, block in axes}
            sizes |= {f"grid_size_{axis}": grid * block for axis, grid, block in axes}
            graph = {"graph_node_id": kernel.graph_node_id or 0} if writer.age != "3" else {}
            writer.insert(
                "kernel_dispatch",
                **on(kernel),
                **sizes,
                **graph,
                event_id=event,
                private_segment_size=0,
                agent_id=CPUS + kernel.stream.ordinal,
                kernel_id=symbol(name.demangled, name.mangled, kernel.registers, shared),
                group_segment_size=shared + kernel.dynamic_shared_bytes,
            )
    for each in events.memsets:
        if each.stream.process == process:
            event = writer.event("KERNEL_DISPATCH", each.correlation_id)
            ones = {f"{what}_size_{axis}": 1 for what in ("grid", "workgroup") for axis in "xyz"}
            writer.insert(
                "kernel_dispatch",
                **on(each),
                **ones,
                event_id=event,
                group_segment_size=0,
                agent_id=CPUS + each.stream.ordinal,
                kernel_id=symbol(FILL, FILL, 16, 0),
            )
    for copy in events.memcpys:
        if copy.stream.process == process:
            own = copy.stream.ordinal
            ends = {"src": copy.src_ordinal, "dst": copy.dst_ordinal}
            agents = {
                f"{end}_agent_id": 0
                if copy.direction[0 if end == "src" else -1] == "H"
                else CPUS + (own if ordinal is None else ordinal)
                for end, ordinal in ends.items()
            }
            name_id = writer.string(f"MEMORY_COPY_{DIRECTIONS[copy.direction]}")
            event = writer.event("MEMORY_COPY", copy.correlation_id)
            writer.insert(
                "memory_copy", **on(copy), **agents, name_id=name_id, size=copy.bytes, event_id=event
            )


def _times(item: Any) -> dict[str, int]:
    return {"start": BOOT_NS + item.start_ns, "end": BOOT_NS + item.end_ns}
