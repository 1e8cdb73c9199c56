"""What the import of a declared workload must give, once for all sources that write it.

`Expected` makes the rows of each table from the workload itself, not from a file, with all that any
source can say of an event. A source (a class below) declares what is special in it: the tables that it
records, the columns that it has no place for, how it rounds and spells, and what it does otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fixtures_kineto
import fixtures_nsys_sqlite
import fixtures_nvprof_database
import kineto_ages
import machine
import nsys_rows
import nsys_tables
import nvprof_tables
from conftest import FIXTURES, NSYS, NSYS_FILES, Row, event_rows, in_any_order, small_rows
from fixtures_nvprof_log import LOGS
from kineto_framework import NOTHING
from kineto_rows import occupancy, ranges_with_rows
from nvprof_spelling import function
from scenarios import WORKLOADS
from workload import (
    ApiCall,
    Function,
    Process,
    RangeStyle,
    Sync,
    SyncKind,
    Thread,
    Workload,
    records_before,
)
from write_nvprof_database import SYNCS, thread_number

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.store.read import Profile

KINDS = {"pinned": "Pinned", "pageable": "Pageable", "device": "Device", "managed": "Managed",
         "unknown": "Unknown"}  # fmt: skip
CAUSES = {"prefetch": 1, "page_fault": 2, "speculative": 3, "eviction": 4}
FUNCTIONS = [value for value in vars(machine).values() if isinstance(value, Function)]
GPU_TABLES = ("kernel", "memcpy", "memset", "unified_memory_event")
# All GPUs of the workloads are of one model.
LIMITS = {"max_warps_per_sm": 64, "max_blocks_per_sm": 32, "max_registers_per_sm": 65_536,
          "max_shared_bytes_per_sm": 167_936,
          "memory_bandwidth_bytes_per_s": 1_555_200_000_000}  # fmt: skip
# What sources of one process say, too.
ALSO = {"sm_clock_hz": 1_410_000_000, "threads_per_warp": 32, "max_threads_per_sm": 2048}
# Kind of an overhead -> ours and its name; what a source does not record is not there.
Overheads = Mapping[str, tuple[str, str]]


class Expected:
    """The rows of some processes of a workload, as they are where a source records everything."""

    # Event tables that the source may fill, and small tables that are compared.
    TABLES: frozenset[str] = frozenset()
    SMALL: tuple[str, ...] = ()
    # Columns that it has no place for: of all tables, or as TABLE.COLUMN of one.
    UNRECORDED: frozenset[str] = frozenset()
    # Facts that it knows of also where no row says so.
    KNOWN: frozenset[Fact] = frozenset()
    # The tables whose threads it lists; None for all threads.
    THREADS_OF: tuple[str, ...] | None = None
    # The columns whose devices it describes.
    DEVICES_OF: tuple[str, ...] = ("device_id", "peer_device_id")

    def __init__(self, workload: Workload, processes: Iterable[Process]) -> None:
        self.workload, self.processes = workload, tuple(processes)
        self.unrecorded = set(self.UNRECORDED)
        self.overheads: Overheads = {}

    def rows(self, table: str) -> list[Row]:
        """The rows of a table with the columns that the source records."""
        if table not in self.TABLES and table not in self.SMALL:
            return []
        rows: list[Row] = list(getattr(self, table)())
        return [{column: cell for column, cell in row.items()
                 if not {column, f"{table}.{column}"} & self.unrecorded} for row in rows]  # fmt: skip

    def found(self, profile: Profile, table: str) -> list[Row]:
        """The rows of a profile, spoken of as `rows` does."""
        return event_rows(profile, table) if table in schema.EVENT_TABLES else small_rows(profile, table)

    def own(self, kind: str) -> list[Any]:
        """The events of a kind in these processes, in order of start as traces are."""

        def process(event: Any) -> Process:
            holder = getattr(event, "stream", None) or getattr(event, "thread", None) or event
            found: Process = holder.process
            return found

        events = [e for e in getattr(self.workload.events, kind) if process(e) in self.processes]
        return sorted(events, key=lambda e: getattr(e, "start_ns", 0))

    # -- what sources spell differently

    def cut(self, ns: int) -> int:
        """A time as the source rounds it."""
        return ns

    def thread_of(self, thread: Thread) -> Row:
        return {"pid": thread.process.pid, "tid": thread.tid}

    def device_of(self, process: Process, ordinal: int) -> object:
        return ordinal

    def number(self, event: Any) -> int | None:
        """The correlation id."""
        number: int | None = event.correlation_id or None
        return number

    def symbol(self, call: ApiCall) -> str:
        return call.symbol

    def spelled(self, kernel: Function) -> str:
        return kernel.demangled

    def sync_type(self, kind: SyncKind) -> int:
        return SYNCS[kind]

    # -- tables of events

    def times(self, event: Any) -> Row:
        dur = None if event.end_ns is None else self.cut(event.end_ns - event.start_ns)
        return {"start_ns": self.cut(event.start_ns), "dur_ns": dur}

    def on(self, event: Any) -> Row:
        """Where and when GPU work was."""
        stream = event.stream
        return self.times(event) | {
            "pid": stream.process.pid, "device_id": self.device_of(stream.process, stream.ordinal),
            "context_id": stream.context_id, "stream_id": stream.stream_id,
            "correlation_id": self.number(event)}  # fmt: skip

    def api_call(self) -> Iterator[Row]:
        for call in self.own("calls"):
            yield self.times(call) | self.thread_of(call.thread) | {
                "correlation_id": call.correlation_id, "layer": call.layer,
                "name": self.symbol(call), "result": call.result}  # fmt: skip

    def kernel(self) -> Iterator[Row]:
        for kernel in self.own("kernels"):
            name, device = kernel.function, kernel.stream.process.devices[kernel.stream.ordinal]
            yield self.on(kernel) | {
                "name": self.spelled(name), "short_name": name.short, "mangled_name": name.mangled,
                **{f"{what}_{axis}": size for what in ("grid", "block")
                   for axis, size in zip("xyz", getattr(kernel, what), strict=True)},
                "registers_per_thread": kernel.registers, "local_bytes_per_thread": 0,
                "static_shared_bytes": kernel.static_shared_bytes,
                "dynamic_shared_bytes": kernel.dynamic_shared_bytes,
                "shared_bytes": kernel.static_shared_bytes + kernel.dynamic_shared_bytes,
                "occupancy_pct": int(occupancy(device, kernel)[0] + 0.5),
                "graph_node_id": kernel.graph_node_id, "green_context_id": 0}  # fmt: skip

    def memcpy(self) -> Iterator[Row]:
        for copy in self.own("memcpys"):
            peer = None
            if copy.direction == "PtoP":
                (ordinal,) = {copy.src_ordinal, copy.dst_ordinal} - {copy.stream.ordinal}
                peer = self.device_of(copy.stream.process, ordinal)
            yield self.on(copy) | {
                "bytes": copy.bytes, "direction": copy.direction, "peer_device_id": peer,
                "src_kind": KINDS[copy.src_kind], "dst_kind": KINDS[copy.dst_kind],
                "graph_node_id": copy.graph_node_id, "copy_count": 1,
                "green_context_id": 0}  # fmt: skip

    def memset(self) -> Iterator[Row]:
        for item in self.own("memsets"):
            yield self.on(item) | {
                "bytes": item.bytes, "memory_kind": KINDS[item.kind], "value": item.value,
                "graph_node_id": item.graph_node_id, "green_context_id": 0}  # fmt: skip

    def unified_memory_event(self) -> Iterator[Row]:
        for item in self.own("migrations"):
            yield self.times(item) | {
                "pid": item.process.pid, "device_id": self.device_of(item.process, item.ordinal),
                "context_id": 0, "stream_id": 0, "correlation_id": item.correlation_id,
                "bytes": item.bytes, "direction": item.direction, "cause": CAUSES[item.cause],
                "address": item.address}  # fmt: skip

    def page_fault(self) -> Iterator[Row]:
        for fault in self.own("page_faults"):
            row = {"start_ns": fault.start_ns, "pid": fault.process.pid, "address": fault.address,
                   "count": fault.count}  # fmt: skip
            if fault.ordinal is None:
                yield row | {"kind": "cpu", "instruction": fault.instruction, "module": fault.module}
            else:
                yield row | {"kind": "gpu", "device_id": self.device_of(fault.process, fault.ordinal),
                             "dur_ns": fault.end_ns - fault.start_ns,
                             "access": fault.access.title()}  # fmt: skip

    def graph_launch(self) -> Iterator[Row]:
        for item in self.own("graph_launches"):
            yield self.on(item) | {"graph_id": item.graph_id, "graph_exec_id": item.graph_exec_id}

    def graph_node(self) -> Iterator[Row]:
        for node in self.own("graph_nodes"):
            yield self.thread_of(node.thread) | {
                "start_ns": node.time_ns, "graph_node_id": node.node_id,
                "original_graph_node_id": node.original_node_id,
                "name": "Graph Node Creation"}  # fmt: skip

    def sync(self) -> Iterator[Row]:
        for item in self.own("syncs"):
            yield self.on(item) | {
                # A wait for the whole device is on no stream.
                "stream_id": None if item.kind == "device" else item.stream.stream_id,
                "event_id": item.event_id, "sync_type": self.sync_type(item.kind),
                **self.recorded(item)}  # fmt: skip

    def recorded(self, sync: Sync) -> Row:
        """The call that recorded the event of a wait."""
        records = records_before(self.workload.events, sync)
        return {
            "record_correlation_id": records[-1].correlation_id if records else None,
            "record_stream_id": records[-1].stream.stream_id if records else None,
        }

    def range(self) -> Iterator[Row]:
        for item in self.own("ranges"):
            yield self.times(item) | self.thread_of(item.thread) | {
                "end_tid": item.end_thread and self.thread_of(item.end_thread)["tid"],
                "kind": item.style, "domain_id": item.domain_id, "name": item.text,
                "category_id": item.category_id, "color": item.color}  # fmt: skip

    def overhead(self) -> Iterator[Row]:
        for item in self.own("overheads"):
            if item.kind in self.overheads:
                kind, name = self.overheads[item.kind]
                yield self.times(item) | self.thread_of(item.thread) | {"kind": kind, "name": name}

    # -- small tables

    def process(self) -> Iterator[Row]:
        for process in self.processes:
            yield {"pid": process.pid, "name": process.name, "rank": process.rank,
                   "host": self.workload.host}  # fmt: skip

    def thread(self) -> Iterator[Row]:
        tables = self.THREADS_OF or ()
        used = {row["tid"] for table in tables for row in self.rows(table)}
        for thread in self.workload.threads:
            row = self.thread_of(thread)
            if thread.process in self.processes and (row["tid"] in used or not tables):
                yield row | {"name": thread.name, "priority": thread.priority}

    def stream(self) -> Iterator[Row]:
        for stream in self.workload.streams:
            if stream.process in self.processes:
                yield {"pid": stream.process.pid, "context_id": stream.context_id,
                       "stream_id": stream.stream_id, "priority": 0}  # fmt: skip

    def device(self) -> Iterator[Row]:
        """The devices on which something ran, of a source with one process."""
        rows = [row for table in GPU_TABLES for row in self.rows(table)]
        used = {row.get(column) for row in rows for column in self.DEVICES_OF}
        for ordinal, device in enumerate(self.processes[0].devices):
            if ordinal in used:
                yield LIMITS | ALSO | {
                    "device_id": ordinal, "ordinal": ordinal, "name": device.name,
                    "uuid": device.uuid, "sm_count": device.sm_count,
                    "compute_major": device.compute[0], "compute_minor": device.compute[1],
                    "memory_bytes": device.memory_bytes}  # fmt: skip

    # -- facts and notes

    def facts(self) -> set[Fact]:
        """Those that a row says, and those known without one."""
        found = {fact for table, fact in schema.EVENT_TABLES.items() if self.rows(table)} | self.KNOWN
        if any(row.get("rank") is not None for row in self.rows("process")):
            found.add(Fact.RANKS)
        if any(self.rows(table) for table in GPU_TABLES):
            found.add(Fact.DEVICES)
            if self.rows("api_call"):
                found.add(Fact.API_LINKS)
        return found

    def notes(self) -> dict[str, int | None]:
        """How often each note counts; None where that is not a matter."""
        return {} if any(self.rows(table) for table in GPU_TABLES) else {"no-gpu-work": 1}


# -- exports of nsys

# (pid, ordinal) -> the GPU's number in the machine. Where a file does not say which GPU it is, the
# pair itself stands for it.
GPUS: dict[str, dict[tuple[int, int], int]] = {
    "basic": {(4242, 0): 0},
    "ranges": {(4300, 0): 0},
    "unified_memory": {(8001, 0): 0},
    "no_gpu": {},
    "graphs": {(7001, 0): 0, (7002, 1): 1},
    "two_processes_one_gpu": {(5001, 0): 0, (5002, 0): 0},
    "two_processes_two_gpus": {(6001, 0): 2, (6001, 1): 5, (6002, 0): 5, (6002, 1): 2},
}
# Several GPUs, and no table that says which of them a process calls 0.
NO_MAP = {("two_processes_two_gpus", "3.7.2"), ("graphs", "3.4.0"), ("graphs", "3.13.2")}


class Nsys(Expected):
    """An export of Nsight Systems, of all processes; devices are GPUs of the machine."""

    TABLES = frozenset({*GPU_TABLES, "api_call", "page_fault", "graph_launch", "graph_node", "sync",
                        "range", "overhead"})  # fmt: skip
    SMALL = ("process", "thread", "context", "stream", "domain", "category")
    UNRECORDED = frozenset({"shared_bytes", "occupancy_pct"})

    def __init__(self, name: str, age: str) -> None:
        super().__init__(WORKLOADS[name], WORKLOADS[name].processes)
        self.name, self.age_name, self.age = name, age, nsys_tables.AGES[age]
        tables = nsys_tables.tables(self.age)
        columns = {f"{table}.{c.name}" for table in tables for c in tables[table]}
        of_copies = "CUPTI_ACTIVITY_KIND_MEMCPY"
        for ours, theirs in (
            ("mangled_name", "CUPTI_ACTIVITY_KIND_KERNEL.mangledName"),
            ("copy_count", f"{of_copies}.copyCount"),
            ("cause", f"{of_copies}.migrationCause"),
            ("unified_memory_event.address", f"{of_copies}.virtualAddress"),
        ):
            if theirs not in columns:
                self.unrecorded.add(ours)
        if not self.since(3, 17, 0):
            self.unrecorded.add("green_context_id")
        if not self.since(2, 7, 0):
            self.unrecorded |= {"process.name", "rank", "local_rank", "host", "job"}
        spelling = 1 if self.since(3, 24, 0) else 0
        self.overheads = {
            **{kind: ("profiler", names[spelling]) for kind, names in nsys_rows.OVERHEADS.items()},
            **({"lazy_loading": ("driver", "Lazy Function Loading")} if spelling else {}),
        }
        self.gpus = GPUS[name]
        self.is_mapped = (name, age) not in NO_MAP

    def since(self, *version: int) -> bool:
        return self.age.version >= version

    def found(self, profile: Profile, table: str) -> list[Row]:
        single = len(self.workload.devices) == 1
        gpus = {row["device_id"]: gpu_of(row, single) for row in profile.rows("device")}
        columns = ("device_id", "peer_device_id")
        return [row | {column: row[column] if row[column] is None else gpus[row[column]]
                       for column in columns if column in row}
                for row in super().found(profile, table)]  # fmt: skip

    def device_of(self, process: Process, ordinal: int) -> object:
        pair = (process.pid, ordinal)
        return self.gpus[pair] if self.is_mapped else pair

    def number(self, event: Any) -> int | None:
        number: int | None = event.correlation_id
        return number

    def sync_type(self, kind: SyncKind) -> int:
        return nsys_rows.sync_type(self.age, kind)

    def process(self) -> Iterator[Row]:
        job = dict(self.workload.environment).get("SLURM_JOB_ID")
        for row in super().process():
            yield row | {"local_rank": {4242: 1}.get(row["pid"]), "job": job and f"slurm {job}"}

    def thread(self) -> Iterator[Row]:
        # Before 3.0 MPI gave its threads the name of their rank, in a row without a priority.
        ranks = {p.pid: p.rank for p in self.processes}
        for row in super().thread():
            if self.workload.mpi_traced and not self.since(3, 0, 0):
                row |= {"name": f"MPI Rank {ranks[row['pid']]}", "priority": 0}
            yield row

    def context(self) -> Iterator[Row]:
        for process, ordinal, context in {
            (s.process, s.ordinal, s.context_id) for s in self.workload.streams
        }:
            yield {"pid": process.pid, "context_id": context, "null_stream_id": 7,
                   "device_id": self.device_of(process, ordinal),
                   "is_green": 0 if self.since(3, 7, 0) else None}  # fmt: skip

    def domain(self) -> Iterator[Row]:
        for d in self.own("domains"):
            yield {"pid": d.process.pid, "domain_id": d.domain_id, "name": d.name}

    def category(self) -> Iterator[Row]:
        for c in self.own("categories"):
            yield {"pid": c.thread.process.pid, "domain_id": c.domain_id,
                   "category_id": c.category_id, "name": c.name}  # fmt: skip

    def facts(self) -> set[Fact]:
        wanted = super().facts() | {Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS}
        if Fact.DEVICES in wanted:
            # One switch of the profiler records all kinds of GPU work: none of a kind is known, too.
            wanted |= {schema.EVENT_TABLES[table] for table in GPU_TABLES}
        return wanted | ({Fact.UTC} if self.since(2, 7, 0) else set())

    def notes(self) -> dict[str, int | None]:
        wanted = super().notes()
        if wanted and self.since(3, 13, 0):
            wanted["profiler-diagnostic"] = 2
        if self.name == "ranges":
            wanted["range-unclosed"] = 1  # one range of that workload is never closed
        return wanted


def gpu_of(device: Row, single: bool) -> object:
    """The GPU's number in the machine as its uuid or bus id says it, else (pid, ordinal)."""
    if device["uuid"] is not None:
        return int(device["uuid"][-1])
    if device["bus_id"] is not None:
        # The writer puts GPU n on bus n + 1; the oldest exports hold the bare number of the bus.
        parts = device["bus_id"].split(":")
        return int(parts[1] if len(parts) > 1 else parts[0], 16) - 1
    return 0 if single else (device["pid"], device["ordinal"])


# -- traces of Kineto

# Names by which a file of 1.9 distinguishes an annotation from an operator.
_ANNOTATIONS_OF_1_9 = ("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#")


class Kineto(Expected):
    """A trace of one process; times are compared as time of day less the workload's zero."""

    TABLES = frozenset({"api_call", "kernel", "memcpy", "memset", "sync", "range", "operator",
                        "collective", "memory_event", "overhead"})  # fmt: skip
    SMALL = ("process", "thread", "stream", "device")
    UNRECORDED = frozenset({
        "result", "short_name", "mangled_name", "static_shared_bytes", "dynamic_shared_bytes",
        "local_bytes_per_thread", "green_context_id", "value", "copy_count", "priority", "uuid",
        "max_blocks_per_sm", "memory_bandwidth_bytes_per_s", "sm_clock_hz",
        "overhead.tid",  # a trace does not say on which thread
        "range.end_tid", "category_id", "color",
    })  # fmt: skip
    KNOWN = frozenset({Fact.UTC, Fact.API_CALLS, Fact.THREADS, Fact.KERNELS, Fact.MEMCPYS,
                       Fact.MEMSETS})  # fmt: skip
    THREADS_OF = ("api_call", "range", "operator", "memory_event")
    DEVICES_OF = ("device_id",)

    def __init__(self, name: str, age: str, process: Process) -> None:
        super().__init__(fixtures_kineto.KINETO_WORKLOADS[name], [process])
        self.name, self.age_name, self.age = name, age, kineto_ages.AGES[age]
        self.overheads = {
            "buffer_flush": ("profiler", "Buffer Flush"),
            "instrumentation": ("profiler", "Instrumentation"),
            "resource": ("profiler", "Resource"),
            "lazy_loading": ("driver", "Lazy Function Loading"),
        }
        self.framework = fixtures_kineto.KINETO_FRAMEWORKS.get(name, NOTHING)
        if not self.age.graph_nodes:
            self.unrecorded.add("graph_node_id")
        if not self.since(2, 0):
            self.unrecorded |= {"rank", "world_size", "address", "allocated_bytes", "reserved_bytes"}
        if not self.since(2, 10):
            self.unrecorded.add("collective.sequence_number")
        if not self.since(2, 13):
            self.unrecorded.add("host")

    def since(self, *version: int) -> bool:
        return self.age.version >= version

    def found(self, profile: Profile, table: str) -> list[Row]:
        """With words for all columns of names, and no correlation id in one spelling."""
        rows, zero = super().found(profile, table), profile.attributes["zero_utc_ns"]
        for row in rows:
            for column in [column for column in row if column.endswith("_id")]:
                if column.removesuffix("_id") in ("shapes", "types", "arguments", "stack", "dtype",
                                                  "group", "group_ranks"):  # fmt: skip
                    number = row.pop(column)
                    row[column.removesuffix("_id")] = number and profile.names({number})[number]
            if row.get("start_ns") is not None:
                row["start_ns"] += zero - self.workload.zero_utc_ns
            if "correlation_id" in row:
                row["correlation_id"] = row["correlation_id"] or None
            if table == "device":
                row["pid"] = None  # one process: whose ordinal it is need not be said
        return rows

    def cut(self, ns: int) -> int:
        return ns // self.age.resolution_ns() * self.age.resolution_ns()

    def symbol(self, call: ApiCall) -> str:
        return kineto_ages.plain(call.symbol)

    def spelled(self, kernel: Function) -> str:
        return kernel.itanium

    def own(self, kind: str) -> list[Any]:
        """Some calls are never recorded; older releases have no waits and no overheads."""
        if (kind == "syncs" and not self.age.syncs) or (kind == "overheads" and not self.age.overheads):
            return []
        events = super().own(kind)
        return [e for e in events if kind != "calls" or self.age.records(e)]

    def _annotations(self, *, are_ranges: bool) -> Iterator[Row]:
        for item in ranges_with_rows(self.workload, self.processes[0]):
            if are_ranges == (self.since(1, 10) or item.text.startswith(_ANNOTATIONS_OF_1_9)):
                # One that was never closed is written up to the end of the recording.
                end = self.workload.duration_ns if item.end_ns is None else item.end_ns
                yield {"start_ns": self.cut(item.start_ns), "dur_ns": self.cut(end - item.start_ns),
                       **self.thread_of(item.thread), "name": item.text}  # fmt: skip

    def range(self) -> Iterator[Row]:
        for row in self._annotations(are_ranges=True):
            yield row | {"kind": "push_pop", "domain_id": 0}

    def operator(self) -> Iterator[Row]:
        for row in self._annotations(are_ranges=False):
            yield row | {"kind": "operator"}
        for item in self.framework.operators:
            shaped = item.shapes != "[]"
            yield self.times(item) | self.thread_of(item.thread) | {
                "kind": "operator", "name": item.name, "sequence_number": item.sequence,
                "shapes": item.shapes if shaped else None,
                "types": item.types if shaped else None,
                "forward_thread": None if item.forward is None else 1}  # fmt: skip
        for call in self.framework.collectives:
            yield self.times(call) | self.thread_of(call.thread) | {
                "kind": "operator", "name": "record_param_comms"}  # fmt: skip

    def collective(self) -> Iterator[Row]:
        for item in self.framework.collectives:
            said = {
                "name": item.name, "dtype": item.dtype, "in_elements": item.elements,
                "out_elements": item.elements, "group": item.group,
                "group_size": len(item.ranks), "group_ranks": str(list(item.ranks)),
            }  # fmt: skip
            yield self.times(item) | self.thread_of(item.thread) | said | {
                "kind": "call", "sequence_number": item.sequence}  # fmt: skip
            for kernel in self.own("kernels") if self.since(2, 2) else ():
                if kernel.correlation_id == item.correlation_id:
                    yield self.on(kernel) | said | {"kind": "kernel"}

    def memory_event(self) -> Iterator[Row]:
        for item in self.framework.blocks:
            yield self.thread_of(item.thread) | {
                "start_ns": self.cut(item.time_ns), "device_id": item.ordinal, "bytes": item.bytes,
                "address": item.address, "allocated_bytes": item.allocated_bytes,
                "reserved_bytes": item.reserved_bytes}  # fmt: skip

    def process(self) -> Iterator[Row]:
        ranks = [p.rank for p in self.workload.processes if p.rank is not None]
        for row in super().process():
            yield row | {"world_size": None if row["rank"] is None else max(ranks) + 1}

    def stream(self) -> Iterator[Row]:
        used = {(row["context_id"], row["stream_id"])
                for table in GPU_TABLES for row in self.rows(table)}  # fmt: skip
        return (row for row in super().stream() if (row["context_id"], row["stream_id"]) in used)

    def facts(self) -> set[Fact]:
        """None of a kind is known, too, where one switch of the profiler records all of them."""
        wanted = super().facts()
        if wanted & {Fact.OPERATORS, Fact.RANGES}:
            wanted |= {Fact.OPERATORS, Fact.RANGES}
        for fact, word in ((Fact.INPUT_SHAPES, "shapes"), (Fact.INPUT_TYPES, "types"),
                           (Fact.FORWARD_LINKS, "forward_thread")):  # fmt: skip
            if any(row.get(word) for row in self.rows("operator")):
                wanted.add(fact)
        return wanted

    def notes(self) -> dict[str, int | None]:
        wanted = super().notes() | {"api-calls-partial": None}
        if not self.age.relative:
            wanted["coarse-times"] = None
        if (self.name, self.age_name) == ("basic", "1.9"):
            wanted["json-repaired"] = None  # a copy that took no time has the bandwidth N/A
        if self.name == "training" and self.since(2, 0):
            wanted["python-functions-left-out"] = None
        return wanted


# -- databases and logs of nvprof


class NvprofDatabase(Expected):
    """A database of one process. Its threads have numbers of their own."""

    TABLES = frozenset({*GPU_TABLES, "api_call", "sync", "range", "overhead"})
    SMALL = ("process", "thread", "device", "stream")
    UNRECORDED = frozenset({
        "shared_bytes", "occupancy_pct", "short_name", "green_context_id", "graph_node_id",
        "copy_count", "sync.device_id", "process.name", "host", "thread.priority",
        "max_threads_per_sm",
        *(f"unified_memory_event.{name}" for name in ("context_id", "stream_id", "correlation_id")),
    })  # fmt: skip
    KNOWN = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.API_CALLS, Fact.API_LINKS,
                       Fact.THREADS})  # fmt: skip
    THREADS_OF = ("api_call", "range")

    def __init__(self, name: str, age: str, process: Process) -> None:
        super().__init__(WORKLOADS[name], [process])
        self.name, self.age_name, self.age = name, age, nvprof_tables.AGES[age]
        self.overheads = {
            "buffer_flush": ("profiler", "Buffer flush"),
            "instrumentation": ("profiler", "Instrumentation"),
            "resource": ("profiler", "Resource"),
        }
        if self.age.version < 12:
            self.unrecorded.add("thread.name")
        if len(self.workload.processes) == 1:
            self.unrecorded.add("rank")

    def found(self, profile: Profile, table: str) -> list[Row]:
        """Domains have numbers of this importer: the name stands for them."""
        domains = {row["domain_id"]: row["name"] for row in profile.rows("domain")}
        return [row | {"domain_id": domains.get(row["domain_id"])} if table == "range" else row
                for row in super().found(profile, table)]  # fmt: skip

    def thread_of(self, thread: Thread) -> Row:
        return {"pid": thread.process.pid, "tid": thread_number(thread)}

    def number(self, event: Any) -> int | None:
        return event.correlation_id or 0

    def symbol(self, call: ApiCall) -> str:
        return re.sub(r"_v\d{4,}$", "", call.symbol)

    def unified_memory_event(self) -> Iterator[Row]:
        for row in super().unified_memory_event():
            yield row | ({"cause": None} if row["direction"] == "DtoD" else {})

    def range(self) -> Iterator[Row]:
        """Where they end says whether they were pushed."""
        domains = {d.domain_id: d.name for d in self.own("domains")}
        for row in super().range():
            kind: RangeStyle = "start_end" if row["end_tid"] is not None else "push_pop"
            yield row | {"kind": "mark" if row["kind"] == "mark" else kind,
                         "domain_id": domains.get(row["domain_id"])}  # fmt: skip

    def facts(self) -> set[Fact]:
        return super().facts() | ({Fact.UTC} if self.age.boot_ns is None else set())

    def notes(self) -> dict[str, int | None]:
        wanted = super().notes()
        if self.age.boot_ns is not None:
            wanted["no-time-base"] = 1
        ranges = self.rows("range")
        if ranges:
            wanted["range-style-assumed"] = 1
        if any(row["dur_ns"] is None and row["kind"] != "mark" for row in ranges):
            wanted["range-unclosed"] = 1
        return wanted


class NvprofLog(Expected):
    """A trace as nvprof prints it, of one process."""

    UNRECORDED = frozenset({
        "shared_bytes", "occupancy_pct", "short_name", "mangled_name", "green_context_id",
        "graph_node_id", "local_bytes_per_thread", "copy_count", "value", "tid", "result", "cause",
        *(f"unified_memory_event.{name}" for name in ("context_id", "stream_id", "correlation_id")),
    })  # fmt: skip

    def __init__(self, file: str, process: Process) -> None:
        super().__init__(WORKLOADS[LOGS[file].workload], [process])
        self.name = LOGS[file].workload
        self.has_gpu, self.has_calls = "api-trace" not in file, "gpu-trace" not in file
        self.TABLES = frozenset((*GPU_TABLES * self.has_gpu, *("api_call",) * self.has_calls))
        self.is_csv = file.endswith(".csv")
        # Times of `basic` have more digits than text and the units of CUDA 8 leave them.
        self.is_rounded = self.name == "basic" and (not self.is_csv or "cuda8" in file)
        if "cuda8" in file:
            self.unrecorded |= {"src_kind", "dst_kind", "memory_kind"}
        if not self.is_csv or "cuda8" in file:
            # Of kernels the number stands behind the name, too.
            self.unrecorded |= {"memcpy.correlation_id", "memset.correlation_id"}
        # In text, which device is which was cut off.
        cut_off = "two_gpus" in file and not self.is_csv
        self.unknown = {"device_id", "peer_device_id"} if cut_off else set()
        self.unrecorded |= self.unknown

    def found(self, profile: Profile, table: str) -> list[Row]:
        return [{column: cell for column, cell in row.items() if column not in self.unknown}
                for row in super().found(profile, table)]  # fmt: skip

    def symbol(self, call: ApiCall) -> str:
        return function(call.symbol)

    def api_call(self) -> Iterator[Row]:
        launched = {kernel.correlation_id for kernel in self.own("kernels")}
        for row in super().api_call():
            # Text names the launched kernel and its number in parentheses, else none.
            known = self.is_csv or row["correlation_id"] in launched
            yield row | ({} if known else {"correlation_id": None})

    def facts(self) -> set[Fact]:
        wanted = super().facts()
        if self.has_gpu:
            wanted |= {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}
        if self.has_calls:
            wanted |= {Fact.API_CALLS, *([Fact.API_LINKS] if self.has_gpu else [])}
        return wanted

    def notes(self) -> dict[str, int | None]:
        """In ms or us with few digits times are rounded; faults on pages have no table."""
        wanted: dict[str, int | None] = {}
        if self.is_rounded:
            wanted["rounded-times"] = sum(len(self.rows(table)) for table in self.TABLES)
        if self.own("page_faults"):
            wanted["rows-not-read"] = 2
        return wanted


# -- files


@dataclass(frozen=True)
class File:
    """A fixture, and what each profile in it must hold."""

    path: Path
    expected: tuple[Expected, ...]

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}"


def nsys_file(path: Path) -> File:
    name, _, age = path.stem.rpartition("-")
    return File(path, (Nsys(name, age),))


NSYS_EXPORTS = [nsys_file(path) for path in NSYS_FILES if path.stem.rpartition("-")[0] in WORKLOADS]
KINETO_TRACES = [
    File(FIXTURES / "kineto" / name, (Kineto(workload.name, age, process),))
    for name, (workload, age, process) in fixtures_kineto.TRACES.items()
]
DATABASES = [
    File(FIXTURES / "nvprof_database" / name, (NvprofDatabase(workload.name, age, process),))
    for name, (workload, age, process) in fixtures_nvprof_database.DATABASES.items()
]
LOG_TRACES = [
    File(FIXTURES / "nvprof_log" / name, tuple(NvprofLog(name, p) for p in log.processes))
    for name, log in LOGS.items() if "trace" in name
]  # fmt: skip


def demangle(symbol: str) -> str:
    """Spell as NVIDIA does, so that names in databases of nvprof are those of nsys."""
    return {each.mangled: each.demangled for each in FUNCTIONS}.get(symbol, symbol)


def newest_export(workload: str) -> Path:
    """The export of nsys with which the reports of other sources are compared."""
    return NSYS / f"{workload}-{fixtures_nsys_sqlite.NSYS_AGES[workload][-1]}.sqlite"


def same(found: list[Row], wanted: list[Row], what: object = None) -> None:
    """Equal rows in any order; what `wanted` does not speak of is not recorded."""
    assert in_any_order(found) == in_any_order(
        [dict.fromkeys(found[0] if found else (), None) | row for row in wanted]), what  # fmt: skip
