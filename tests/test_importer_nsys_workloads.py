"""The made-up workloads in every age of the export: the rows are those of the description.

What the import must give is made from the workload itself, not from the export: `_Expected` says,
table by table, which rows each event becomes and which columns the age cannot hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import nsys_rows
import pytest
from conftest import (
    NSYS,
    NSYS_FILES,
    Row,
    Shelf,
    event_rows,
    in_any_order,
    name_of,
    oldest_and_newest,
    small_rows,
)
from nsys_tables import AGES, tables
from scenarios import EXPECTED, WORKLOADS
from workload import Process, Stream

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.store.read import Profile

FILES = [path for path in NSYS_FILES if path.stem.rpartition("-")[0] in WORKLOADS]
every_file = pytest.mark.parametrize("path", oldest_and_newest(FILES), ids=name_of)

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
# Several GPUs, and no table that tells which of them a process calls 0.
NO_MAP = {("two_processes_two_gpus", "3.7.2"), ("graphs", "3.4.0"), ("graphs", "3.13.2")}

_WORDS = {"pinned": "Pinned", "pageable": "Pageable", "device": "Device", "managed": "Managed",
          "unknown": "Unknown"}  # fmt: skip
_CAUSES = {"prefetch": 1, "page_fault": 2, "speculative": 3, "eviction": 4}
_PLAIN = {"cudaLaunchKernel_ptsz_v7000": "cudaLaunchKernel", "cuMemAlloc_v2": "cuMemAlloc"}


def workload_and_age(path: Path) -> tuple[str, str]:
    name, _, age = path.stem.rpartition("-")
    return name, age


class _Expected:
    """What the import of a workload in one age of the export must give."""

    def __init__(self, path: Path) -> None:
        self.name, self.age_name = workload_and_age(path)
        self.workload = WORKLOADS[self.name]
        self.age = AGES[self.age_name]
        self.events = self.workload.events
        self._columns = {table: {c.name for c in columns}
                         for table, columns in tables(self.age).items()}  # fmt: skip

    def has(self, table: str, column: str) -> bool:
        return column in self._columns.get(table, ())

    def since(self, *version: int) -> bool:
        return self.age.version >= version

    def gpu(self, process: Process, ordinal: int) -> object:
        pair = (process.pid, ordinal)
        return pair if (self.name, self.age_name) in NO_MAP else GPUS[self.name][pair]

    def _on(self, stream: Stream, event: Any) -> Row:
        return {
            "start_ns": event.start_ns, "dur_ns": event.end_ns - event.start_ns,
            "pid": stream.process.pid, "gpu": self.gpu(stream.process, stream.ordinal),
            "context_id": stream.context_id, "stream_id": stream.stream_id,
            "correlation_id": event.correlation_id,
        }  # fmt: skip

    @property
    def _green(self) -> Row:
        """No green context: null where the column is new, later 0."""
        return {"green_context_id": 0 if self.since(3, 17, 0) else None}

    @cached_property
    def api_call(self) -> list[Row]:
        return [
            {"start_ns": call.start_ns, "dur_ns": call.end_ns - call.start_ns,
             "pid": call.thread.process.pid, "tid": call.thread.tid,
             "correlation_id": call.correlation_id, "layer": call.layer, "name": call.symbol,
             "result": call.result}
            for call in self.events.calls
        ]  # fmt: skip

    @cached_property
    def kernel(self) -> list[Row]:
        mangled = self.has("CUPTI_ACTIVITY_KIND_KERNEL", "mangledName")
        return [
            self._on(kernel.stream, kernel) | self._green | {
                "name": kernel.function.demangled, "short_name": kernel.function.short,
                "mangled_name": kernel.function.mangled if mangled else None,
                "grid_x": kernel.grid[0], "grid_y": kernel.grid[1], "grid_z": kernel.grid[2],
                "block_x": kernel.block[0], "block_y": kernel.block[1],
                "block_z": kernel.block[2], "registers_per_thread": kernel.registers,
                "static_shared_bytes": kernel.static_shared_bytes,
                "dynamic_shared_bytes": kernel.dynamic_shared_bytes,
                "local_bytes_per_thread": 0, "graph_node_id": kernel.graph_node_id,
                "shared_bytes": None, "occupancy_pct": None}
            for kernel in self.events.kernels
        ]  # fmt: skip

    @cached_property
    def memcpy(self) -> list[Row]:
        rows = []
        for copy in self.events.memcpys:
            peer = None
            if copy.direction == "PtoP":
                here = copy.stream.ordinal
                there = copy.dst_ordinal if copy.src_ordinal == here else copy.src_ordinal
                assert there is not None
                peer = self.gpu(copy.stream.process, there)
            rows.append(self._on(copy.stream, copy) | self._green | {
                "bytes": copy.bytes, "direction": copy.direction,
                "src_kind": _WORDS[copy.src_kind], "dst_kind": _WORDS[copy.dst_kind],
                "peer_gpu": peer, "graph_node_id": copy.graph_node_id,
                "copy_count": 1 if self.has("CUPTI_ACTIVITY_KIND_MEMCPY", "copyCount") else None,
            })  # fmt: skip
        return rows

    @cached_property
    def memset(self) -> list[Row]:
        return [
            self._on(item.stream, item) | self._green | {
                "bytes": item.bytes, "memory_kind": _WORDS[item.kind], "value": item.value,
                "graph_node_id": item.graph_node_id}
            for item in self.events.memsets
        ]  # fmt: skip

    @cached_property
    def unified_memory_event(self) -> list[Row]:
        cause = self.has("CUPTI_ACTIVITY_KIND_MEMCPY", "migrationCause")
        address = self.has("CUPTI_ACTIVITY_KIND_MEMCPY", "virtualAddress")
        return [
            {"start_ns": item.start_ns, "dur_ns": item.end_ns - item.start_ns,
             "pid": item.process.pid, "gpu": self.gpu(item.process, item.ordinal),
             "context_id": 0, "stream_id": 0, "correlation_id": item.correlation_id,
             "bytes": item.bytes, "direction": item.direction,
             "cause": _CAUSES[item.cause] if cause else None,
             "address": item.address if address else None}
            for item in self.events.migrations
        ]  # fmt: skip

    @cached_property
    def page_fault(self) -> list[Row]:
        rows = []
        for fault in self.events.page_faults:
            row = {"start_ns": fault.start_ns, "pid": fault.process.pid, "address": fault.address,
                   "count": fault.count}  # fmt: skip
            if fault.ordinal is None:
                rows.append(row | {"kind": "cpu", "instruction": fault.instruction,
                                   "module": fault.module})  # fmt: skip
            else:
                rows.append(row | {"kind": "gpu", "gpu": self.gpu(fault.process, fault.ordinal),
                                   "dur_ns": fault.end_ns - fault.start_ns,
                                   "access": fault.access.title()})  # fmt: skip
        return rows

    @cached_property
    def graph_launch(self) -> list[Row]:
        return [
            self._on(item.stream, item)
            | {"graph_id": item.graph_id, "graph_exec_id": item.graph_exec_id}
            for item in self.events.graph_launches
        ]

    @cached_property
    def graph_node(self) -> list[Row]:
        return [
            {"start_ns": node.time_ns, "pid": node.thread.process.pid, "tid": node.thread.tid,
             "graph_node_id": node.node_id, "original_graph_node_id": node.original_node_id,
             "name": "Graph Node Creation"}
            for node in self.events.graph_nodes
        ]  # fmt: skip

    @cached_property
    def sync(self) -> list[Row]:
        return [
            self._on(item.stream, item) | {
                # A wait for the whole device is on no stream.
                "stream_id": None if item.kind == "device" else item.stream.stream_id,
                "event_id": item.event_id, "sync_type": nsys_rows.sync_type(self.age, item.kind)}
            for item in self.events.syncs
        ]  # fmt: skip

    @cached_property
    def range(self) -> list[Row]:
        return [
            {"start_ns": item.start_ns,
             "dur_ns": None if item.end_ns is None else item.end_ns - item.start_ns,
             "pid": item.thread.process.pid, "tid": item.thread.tid,
             "end_tid": item.end_thread.tid if item.end_thread else None, "kind": item.style,
             "domain_id": item.domain_id, "category_id": item.category_id, "color": item.color,
             "name": item.text}
            for item in self.events.ranges
        ]  # fmt: skip

    @cached_property
    def overhead(self) -> list[Row]:
        rows = []
        for item in self.events.overheads:
            driver = item.kind == "lazy_loading"
            if driver and not self.since(3, 24, 0):
                continue  # no table for it yet
            if driver:
                text = "Lazy Function Loading"
            else:
                text = nsys_rows.OVERHEADS[item.kind][1 if self.since(3, 24, 0) else 0]
            rows.append({
                "start_ns": item.start_ns, "dur_ns": item.end_ns - item.start_ns,
                "pid": item.thread.process.pid, "tid": item.thread.tid,
                "kind": "driver" if driver else "profiler", "name": text,
            })  # fmt: skip
        return rows

    # -- small tables

    @cached_property
    def process(self) -> list[Row]:
        named = self.since(2, 7, 0)
        ranks = {p.pid: p.rank for p in self.workload.processes} if named else {}
        local = {4242: 1} if named else {}
        job = dict(self.workload.environment).get("SLURM_JOB_ID") if named else None
        return [
            {"pid": p.pid, "name": p.name if named else None, "rank": ranks.get(p.pid),
             "local_rank": local.get(p.pid), "world_size": None,
             "host": self.workload.host if named else None,
             "job": f"slurm {job}" if job else None}
            for p in self.workload.processes
        ]  # fmt: skip

    @cached_property
    def thread(self) -> list[Row]:
        # Before 3.0 MPI gave its threads the name of their rank.
        named = self.workload.mpi_traced and not self.since(3, 0, 0)
        return [
            {"pid": t.process.pid, "tid": t.tid,
             "name": f"MPI Rank {t.process.rank}" if named else t.name,
             # The row that gives a thread its rank has no priority.
             "priority": 0 if named else t.priority}
            for t in self.workload.threads
        ]  # fmt: skip

    @cached_property
    def context(self) -> list[Row]:
        pairs = {(s.process, s.ordinal, s.context_id) for s in self.workload.streams}
        return [
            {"pid": process.pid, "context_id": context, "gpu": self.gpu(process, ordinal),
             "null_stream_id": 7, "parent_context_id": None,
             "is_green": 0 if self.since(3, 7, 0) else None}
            for process, ordinal, context in pairs
        ]  # fmt: skip

    @cached_property
    def stream(self) -> list[Row]:
        return [
            {"pid": s.process.pid, "context_id": s.context_id, "stream_id": s.stream_id,
             "priority": 0, "name": None}
            for s in self.workload.streams
        ]  # fmt: skip

    @cached_property
    def domain(self) -> list[Row]:
        return [{"pid": d.process.pid, "domain_id": d.domain_id, "name": d.name}
                for d in self.events.domains]  # fmt: skip

    @cached_property
    def category(self) -> list[Row]:
        return [{"pid": c.thread.process.pid, "domain_id": c.domain_id,
                 "category_id": c.category_id, "name": c.name}
                for c in self.events.categories]  # fmt: skip


def gpu_of(device: Row, single: bool) -> object:
    """The GPU's number in the machine as its uuid or bus id tells it, else (pid, ordinal)."""
    if device["uuid"] is not None:
        return int(device["uuid"][-1])
    if device["bus_id"] is not None:
        # The writer puts GPU n on bus n + 1; the oldest exports hold the bare number of the bus.
        parts = device["bus_id"].split(":")
        return int(parts[1] if len(parts) > 1 else parts[0], 16) - 1
    return 0 if single else (device["pid"], device["ordinal"])


def gpus_of(profile: Profile, single: bool) -> Callable[[int | None], object]:
    numbers = {row["device_id"]: gpu_of(row, single) for row in profile.rows("device")}
    return lambda device_id: None if device_id is None else numbers[device_id]


def with_gpus(rows: Iterable[Row], gpu: Callable[[int | None], object]) -> list[Row]:
    """The rows with GPUs in place of the store's own numbers of them."""
    words = {"device_id": "gpu", "peer_device_id": "peer_gpu"}
    return [{words.get(name, name): gpu(cell) if name in words else cell
             for name, cell in row.items()} for row in rows]  # fmt: skip


def _gpu_names(profile: Profile, path: Path) -> Callable[[int | None], object]:
    return gpus_of(profile, single=len(WORKLOADS[workload_and_age(path)[0]].devices) == 1)


@every_file
@pytest.mark.parametrize("table", schema.EVENT_TABLES)
def test_events_are_those_of_the_workload(shelf: Shelf, path: Path, table: str) -> None:
    profile = shelf.profile(path)
    found = with_gpus(event_rows(profile, table), _gpu_names(profile, path))
    assert in_any_order(found) == in_any_order(
        [dict.fromkeys(found[0] if found else (), None) | row
         for row in getattr(_Expected(path), table, [])])  # fmt: skip


@every_file
@pytest.mark.parametrize("table", ["process", "thread", "context", "stream", "domain", "category"])
def test_small_tables_are_those_of_the_workload(shelf: Shelf, path: Path, table: str) -> None:
    profile = shelf.profile(path)
    found = with_gpus(small_rows(profile, table), _gpu_names(profile, path))
    assert in_any_order(found) == in_any_order(
        [dict.fromkeys(found[0] if found else (), None) | row
         for row in getattr(_Expected(path), table)])  # fmt: skip


@every_file
def test_plain_names_are_the_documented_ones(shelf: Shelf, path: Path) -> None:
    profile = shelf.profile(path)
    wanted = {
        call.symbol: _PLAIN.get(call.symbol, re.sub(r"_v\d{4,}$", "", call.symbol))
        for call in WORKLOADS[workload_and_age(path)[0]].events.calls
    }
    ids = {int(i) for i in profile.columns("api_call", ("name_id",))["name_id"]}
    symbols, plain = profile.names(ids), profile.names(ids, plain=True)
    assert {symbols[i]: plain[i] for i in ids} == wanted


@every_file
def test_figures_are_those_worked_out_by_hand(shelf: Shelf, path: Path) -> None:
    """Counts, sums, bytes and names of scripts/scenario_*.py, per GPU of the machine."""
    name, age = workload_and_age(path)
    profile, expected = shelf.profile(path), EXPECTED[name]
    gpu = _gpu_names(profile, path)
    # Where the file does not tell, (pid, ordinal) -> the GPU it was.
    truth = GPUS[name] if (name, age) in NO_MAP else {}
    kernels: Counter[Any] = Counter()
    moved: Counter[Any] = Counter()
    for row in with_gpus(event_rows(profile, "kernel"), gpu):
        key = (truth.get(row["gpu"], row["gpu"]), row["name"])
        kernels.update({(*key, "count"): 1, (*key, "ns"): row["dur_ns"]})
    for table, prefix in (("memcpy", ""), ("unified_memory_event", "UM ")):
        for row in with_gpus(event_rows(profile, table), gpu):
            kinds = (row.get(end) for end in ("src_kind", "dst_kind"))
            key = (truth.get(row["gpu"], row["gpu"]), prefix + row["direction"],
                   *(kind and kind.lower() for kind in kinds))  # fmt: skip
            moved.update({(*key, "count"): 1, (*key, "bytes"): row["bytes"],
                          (*key, "ns"): row["dur_ns"]})  # fmt: skip
    assert kernels == Counter({
        (*key, what): number for key, answer in expected["kernels"].items()
        for what, number in (("count", answer.kernel_count), ("ns", answer.sum_ns))
    })  # fmt: skip
    assert moved == Counter({
        (*key, what): number for key, answer in expected["transfers"].items()
        for what, number in (("count", answer.memcpy_count), ("bytes", answer.bytes_sum),
                             ("ns", answer.sum_ns))
    })  # fmt: skip


@every_file
def test_api_figures_are_those_worked_out_by_hand(shelf: Shelf, path: Path) -> None:
    expected, profile = EXPECTED[workload_and_age(path)[0]], shelf.profile(path)
    plain = profile.names(profile.columns("api_call", ("name_id",))["name_id"], plain=True)
    texts = profile.names(plain)
    by_symbol = {texts[i]: plain[i] for i in plain}
    by_name: Counter[Any] = Counter()
    by_pid: Counter[Any] = Counter()
    for row in event_rows(profile, "api_call"):
        key = (row["layer"], by_symbol[row["name"]])
        by_name.update({(*key, "count"): 1, (*key, "ns"): row["dur_ns"]})
        by_pid.update({(row["pid"], "count"): 1, (row["pid"], "ns"): row["dur_ns"]})
    assert by_name == Counter({
        (*key, what): number for key, answer in expected["api"].items()
        for what, number in (("count", answer.call_count), ("ns", answer.api_sum_ns))
    })  # fmt: skip
    assert by_pid == Counter({
        (pid, what): number for what, answers in
        (("count", expected["api_call_count"]), ("ns", expected["api_sum_ns"]))
        for pid, number in answers.items()
    })  # fmt: skip


# -- devices


def _devices(shelf: Shelf, name: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = shelf.profile(NSYS / name).rows("device")
    return sorted(tuple(row[column] for column in columns) for row in rows)


@pytest.mark.parametrize("age", ["3.17.2", "3.24.7"])
def test_a_map_of_processes_ties_ordinals_to_gpus(shelf: Shelf, age: str) -> None:
    """Both processes have both GPUs, as 0, 1 and as 1, 0: two devices of no process's number."""
    found = _devices(shelf, f"two_processes_two_gpus-{age}.sqlite",
                     "device_id", "uuid", "bus_id", "ordinal", "pid")  # fmt: skip
    assert found == [
        (0, "a100a100-0000-4000-8000-000000000002", "0000:03:00.0", None, None),
        (1, "a100a100-0000-4000-8000-000000000005", "0000:06:00.0", None, None),
    ]


def test_the_oldest_map_goes_by_bus(shelf: Shelf) -> None:
    """TARGET_INFO_CUDA_GPU: a row for each process and ordinal, with the number of the bus."""
    profile = shelf.profile(NSYS / "two_processes_two_gpus-2020.sqlite")
    assert len(profile.rows("device")) == 2
    used = profile.columns("kernel", ("pid", "device_id"))
    by_pid = dict(zip(used["pid"].tolist(), used["device_id"].tolist(), strict=True))
    assert by_pid[6001] != by_pid[6002]


def test_without_a_map_every_pair_of_process_and_ordinal_stands_alone(shelf: Shelf) -> None:
    found = _devices(shelf, "two_processes_two_gpus-3.7.2.sqlite",
                     "pid", "ordinal", "uuid", "bus_id")  # fmt: skip
    assert found == [(6001, 0, None, None), (6001, 1, None, None), (6002, 0, None, None),
                     (6002, 1, None, None)]  # fmt: skip


@pytest.mark.parametrize("age", ["2.7.0", "3.13.2", "3.24.14", "3.28.1"])
def test_two_processes_share_the_only_gpu(shelf: Shelf, age: str) -> None:
    found = _devices(shelf, f"two_processes_one_gpu-{age}.sqlite",
                     "device_id", "ordinal", "pid", "uuid")  # fmt: skip
    assert found == [(0, 0, None, "a100a100-0000-4000-8000-000000000000")]


@every_file
def test_properties_of_devices(shelf: Shelf, path: Path) -> None:
    """All GPUs are of one model, so even a device that may be any of them has its properties."""
    expected = _Expected(path)
    limits = {"sm_count": 108, "compute_major": 8, "compute_minor": 0,
              "memory_bytes": 42_505_273_344, "max_warps_per_sm": 64, "max_blocks_per_sm": 32,
              "max_registers_per_sm": 65_536, "max_shared_bytes_per_sm": 167_936}  # fmt: skip
    if expected.age_name == "2021":
        limits = dict.fromkeys(limits)  # TARGET_INFO_GPU had name and bus only
    bandwidth = 1_555_200_000_000 if expected.since(2, 7, 0) else None
    for row in shelf.profile(path).rows("device"):
        assert {name: row[name] for name in limits} == limits
        assert row["memory_bandwidth_bytes_per_s"] == bandwidth
        assert row["name"] == "NVIDIA A100-SXM4-40GB"


# -- attributes, facts, notes


@every_file
def test_attributes_of_the_profile(shelf: Shelf, path: Path) -> None:
    expected = _Expected(path)
    found = shelf.profile(path).attributes
    told = expected.since(2, 7, 0)
    # The oldest ages tell no length: the last event's end.
    last = {"basic": 212_000, "ranges": 49_000, "unified_memory": 33_000,
            "two_processes_two_gpus": 22_000}  # fmt: skip
    wanted = {
        "source": "nsys_sqlite",
        "tool_version": expected.age.product if told else None,
        "format_version": expected.age_name if told else None,
        "zero_utc_ns": 1_767_225_600_000_000_000 if told else None,
        "recording_ns": expected.workload.duration_ns if told else last[expected.name],
        "driver_version": "580.95.05" if told else None,
        "host": "node01" if told else None,
        "graph_mode": None,
    }
    assert {name: found[name] for name in wanted} == wanted


_GPU_WORK = {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY}
_CALLS = {Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS}
_FACTS = {
    "basic": {Fact.SYNCS, Fact.RANGES, Fact.OVERHEAD},
    "two_processes_one_gpu": {Fact.SYNCS, Fact.RANGES, Fact.OVERHEAD, Fact.RANKS},
    "two_processes_two_gpus": set(),
    "graphs": {Fact.GRAPH_LAUNCHES, Fact.GRAPH_NODES},
    "unified_memory": {Fact.PAGE_FAULTS},
    "ranges": {Fact.RANGES},
    "no_gpu": {Fact.RANGES},
}


@every_file
def test_facts_of_the_profile(shelf: Shelf, path: Path) -> None:
    expected = _Expected(path)
    wanted = set(_CALLS | _FACTS[expected.name])
    if expected.name != "no_gpu":
        # One switch of the profiler records all kinds of GPU work: none of a kind is known, too.
        wanted |= {*_GPU_WORK, Fact.DEVICES}
    if expected.since(2, 7, 0):
        wanted.add(Fact.UTC)
        if expected.name == "basic":
            wanted.add(Fact.RANKS)  # from the launcher's environment
    assert shelf.profile(path).facts == wanted


@every_file
def test_missing_facts_come_with_advice(shelf: Shelf, path: Path) -> None:
    profile = shelf.profile(path)
    without = profile.missing - set(profile.advice)
    # Nothing can be recorded that would tell more of these.
    assert without <= {Fact.OVERHEAD}


@every_file
def test_notes_of_the_profile(shelf: Shelf, path: Path) -> None:
    expected = _Expected(path)
    wanted = []
    if expected.name == "no_gpu":
        wanted.append(("no-gpu-work", 1))
        if expected.since(3, 13, 0):
            wanted += [("profiler-diagnostic", 1)] * 2
    if expected.name == "ranges":
        wanted.append(("range-unclosed", 1))  # one range of that workload is never closed
    # Those of the import alone: who looked at the profile before may have had it examined.
    notes = shelf.profile(path).rows("note")
    assert sorted((row["slug"], row["count"]) for row in notes) == sorted(wanted)


def test_diagnostics_of_known_patterns_are_notes(shelf: Shelf) -> None:
    notes = shelf.profile(NSYS / "no_gpu-3.16.1.sqlite").notes
    texts = {note.text for note in notes if note.slug == "profiler-diagnostic"}
    assert texts == {
        "the profiler says: CUDA profiling might have not been started correctly.",
        "the profiler says: No CUDA events collected. Does the process use CUDA?",
    }


@every_file
def test_only_names_that_a_row_refers_to(shelf: Shelf, path: Path) -> None:
    """The string table also holds paths, output and environments."""
    events = WORKLOADS[workload_and_age(path)[0]].events
    allowed = {
        *(call.symbol for call in events.calls), "Graph Node Creation", "Lazy Function Loading",
        *(text for k in events.kernels for text in
          (k.function.demangled, k.function.short, k.function.mangled)),
        *(item.text for item in events.ranges),
        *(text for old, new, _ in nsys_rows.OVERHEADS.values() for text in (old, new)),
        *(text for fault in events.page_faults for text in (fault.instruction, fault.module)),
    }  # fmt: skip
    assert {row["text"] for row in shelf.profile(path).rows("name")} <= allowed
