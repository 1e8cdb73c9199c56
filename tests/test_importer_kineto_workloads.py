"""The made-up workloads as Kineto traces of three ages: rows, and reports beside those of nsys.

What the import must give is made from the workload itself, not from the trace: `_Expected` says,
table by table, which rows each event becomes. Times are compared as time of day less the workload's
zero, since a trace does not say when its recording began.
"""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import make_fixtures
import pytest
from answers import NO_API_CALL
from conftest import (
    FIXTURES,
    NSYS,
    Row,
    Shelf,
    event_rows,
    in_any_order,
    name_of,
    oldest_and_newest,
    small_rows,
)
from kineto_ages import AGES, plain
from kineto_framework import NOTHING
from kineto_rows import events_of, occupancy, ranges_with_rows
from scenarios import EXPECTED
from workload import Process, Stream, Thread

import nsysconv
from nsysconv import api, schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.queries import reports_that_are
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

KINETO = FIXTURES / "kineto"
WORKLOADS = make_fixtures.KINETO_WORKLOADS
_WORDS = {"pinned": "Pinned", "pageable": "Pageable", "device": "Device", "managed": "Managed",
          "unknown": "Unknown"}  # fmt: skip
_SYNC_TYPES = {"event": 1, "stream_wait_event": 2, "stream": 3, "device": 4}
_OVERHEADS = {
    "buffer_flush": ("profiler", "Buffer Flush"),
    "instrumentation": ("profiler", "Instrumentation"),
    "resource": ("profiler", "Resource"),
    "lazy_loading": ("driver", "Lazy Function Loading"),
}
# Names by which a file of 1.9 distinguishes an annotation from an operator.
_ANNOTATIONS_OF_1_9 = ("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#")
# The exports of nsys that the reports are compared with: the newest of each workload.
NSYS_FILES = {
    name: NSYS / f"{name}-{make_fixtures.NSYS_AGES[name][-1]}.sqlite"
    for name in make_fixtures.NSYS_AGES
}


@dataclass(frozen=True)
class Trace:
    """One fixture: a process of a workload in one age."""

    name: str
    age_name: str
    process: Process

    @property
    def path(self) -> Path:
        return KINETO / make_fixtures.kineto_name(self.name, self.process, self.age_name)


TRACES = [
    Trace(name, age, process)
    for name, workload in WORKLOADS.items()
    for age in AGES
    for process in workload.processes
]
every_trace = pytest.mark.parametrize(
    "trace", oldest_and_newest(TRACES), ids=lambda trace: trace.path.name
)


class _Expected:
    """What the import of one trace must give."""

    def __init__(self, trace: Trace) -> None:
        self.workload = WORKLOADS[trace.name]
        self.process = trace.process
        self.age = AGES[trace.age_name]
        self.events = events_of(self.workload, self.process)
        self.framework = make_fixtures.KINETO_FRAMEWORKS.get(trace.name, NOTHING)
        self.ranges = ranges_with_rows(self.workload, self.process)

    def since(self, *version: int) -> bool:
        return self.age.version >= version

    def _cut(self, ns: int) -> int:
        return ns // self.age.resolution_ns() * self.age.resolution_ns()

    def _times(self, start_ns: int, end_ns: int) -> Row:
        return {"start_ns": self._cut(start_ns), "dur_ns": self._cut(end_ns - start_ns)}

    def _thread(self, thread: Thread) -> Row:
        return {"pid": thread.process.pid, "tid": thread.tid}

    def _on(self, stream: Stream, event: Any) -> Row:
        return self._times(event.start_ns, event.end_ns) | {
            "pid": self.process.pid, "device_id": stream.ordinal,
            "context_id": stream.context_id, "stream_id": stream.stream_id,
            "correlation_id": event.correlation_id or None,
        }  # fmt: skip

    def _node(self, op: Any) -> int | None:
        return op.graph_node_id if self.age.graph_nodes else None

    @cached_property
    def api_call(self) -> list[Row]:
        return [
            self._times(call.start_ns, call.end_ns) | self._thread(call.thread)
            | {"correlation_id": call.correlation_id, "layer": call.layer,
               "name": plain(call.symbol)}
            for call in self.events.calls if self.age.records(call)
        ]  # fmt: skip

    @cached_property
    def kernel(self) -> list[Row]:
        rows = []
        for kernel in self.events.kernels:
            device = self.process.devices[kernel.stream.ordinal]
            rows.append(self._on(kernel.stream, kernel) | {
                "name": kernel.function.itanium,
                "grid_x": kernel.grid[0], "grid_y": kernel.grid[1], "grid_z": kernel.grid[2],
                "block_x": kernel.block[0], "block_y": kernel.block[1],
                "block_z": kernel.block[2], "registers_per_thread": kernel.registers,
                "shared_bytes": kernel.static_shared_bytes + kernel.dynamic_shared_bytes,
                "occupancy_pct": int(occupancy(device, kernel)[0] + 0.5),
                "graph_node_id": self._node(kernel),
            })  # fmt: skip
        return rows

    @cached_property
    def memcpy(self) -> list[Row]:
        rows = []
        for copy in self.events.memcpys:
            ends = (copy.src_ordinal, copy.dst_ordinal)
            peer = None
            if copy.direction == "PtoP":
                (peer,) = {end for end in ends if end != copy.stream.ordinal}
            rows.append(self._on(copy.stream, copy) | {
                "bytes": copy.bytes, "direction": copy.direction,
                "src_kind": _WORDS[copy.src_kind], "dst_kind": _WORDS[copy.dst_kind],
                "peer_device_id": peer, "graph_node_id": self._node(copy),
            })  # fmt: skip
        return rows

    @cached_property
    def memset(self) -> list[Row]:
        return [
            self._on(item.stream, item) | {
                "bytes": item.bytes, "memory_kind": _WORDS[item.kind],
                "graph_node_id": self._node(item)}
            for item in self.events.memsets
        ]  # fmt: skip

    @cached_property
    def sync(self) -> list[Row]:
        return [
            self._on(item.stream, item) | {
                "stream_id": None if item.kind == "device" else item.stream.stream_id,
                "event_id": item.event_id, "sync_type": _SYNC_TYPES[item.kind]}
            for item in self.events.syncs if self.age.syncs
        ]  # fmt: skip

    def _is_range(self, text: str) -> bool:
        return self.since(1, 10) or text.startswith(_ANNOTATIONS_OF_1_9)

    def _annotation(self, item: Any) -> Row:
        # One that was never closed is written up to the end of the recording.
        end = self.workload.duration_ns if item.end_ns is None else item.end_ns
        return self._times(item.start_ns, end) | self._thread(item.thread) | {"name": item.text}

    @cached_property
    def range(self) -> list[Row]:
        return [self._annotation(item) | {"kind": "push_pop", "domain_id": 0}
                for item in self.ranges if self._is_range(item.text)]  # fmt: skip

    @cached_property
    def operator(self) -> list[Row]:
        rows = [self._annotation(item) | {"kind": "operator"}
                for item in self.ranges if not self._is_range(item.text)]  # fmt: skip
        for item in self.framework.operators:
            shaped = item.shapes != "[]"
            rows.append(self._times(item.start_ns, item.end_ns) | self._thread(item.thread) | {
                "kind": "operator", "name": item.name, "sequence_number": item.sequence,
                "shapes": item.shapes if shaped else None,
                "types": item.types if shaped else None,
                "forward_thread": None if item.forward is None else 1,
            })  # fmt: skip
        rows += [
            self._times(item.start_ns, item.end_ns) | self._thread(item.thread)
            | {"kind": "operator", "name": "record_param_comms"}
            for item in self.framework.collectives
        ]
        return rows

    @cached_property
    def collective(self) -> list[Row]:
        rows = []
        for item in self.framework.collectives:
            said = {
                "name": item.name, "dtype": item.dtype, "in_elements": item.elements,
                "out_elements": item.elements, "group": item.group,
                "group_size": len(item.ranks), "group_ranks": str(list(item.ranks)),
            }  # fmt: skip
            rows.append(self._times(item.start_ns, item.end_ns) | self._thread(item.thread) | said
                        | {"kind": "call",
                           "sequence_number": item.sequence if self.since(2, 10) else None})  # fmt: skip
            if self.since(2, 2):
                rows += [self._on(kernel.stream, kernel) | said | {"kind": "kernel"}
                         for kernel in self.events.kernels
                         if kernel.correlation_id == item.correlation_id]  # fmt: skip
        return rows

    @cached_property
    def memory_event(self) -> list[Row]:
        full = self.since(2, 0)
        return [
            {"start_ns": self._cut(item.time_ns), **self._thread(item.thread),
             "device_id": item.ordinal, "bytes": item.bytes,
             "address": item.address if full else None,
             "allocated_bytes": item.allocated_bytes if full else None,
             "reserved_bytes": item.reserved_bytes if full else None}
            for item in self.framework.blocks
        ]  # fmt: skip

    @cached_property
    def overhead(self) -> list[Row]:
        return [
            self._times(item.start_ns, item.end_ns)
            # The trace does not say on which thread.
            | {"pid": self.process.pid, "tid": None,
               "kind": _OVERHEADS[item.kind][0], "name": _OVERHEADS[item.kind][1]}
            for item in self.events.overheads if self.age.overheads
        ]  # fmt: skip

    # -- small tables

    @cached_property
    def process_rows(self) -> list[Row]:
        rank = self.process.rank if self.since(2, 0) else None
        size = None
        if rank is not None:
            ranks = [p.rank or 0 for p in self.workload.processes if p.rank is not None]
            size = max(ranks) + 1
        return [{"pid": self.process.pid, "name": self.process.name, "rank": rank,
                 "world_size": size, "local_rank": None,
                 "host": self.workload.host if self.since(2, 13) else None}]  # fmt: skip

    @cached_property
    def thread_rows(self) -> list[Row]:
        tables = (self.api_call, self.range, self.operator, self.memory_event)
        used = {row["tid"] for table in tables for row in table}
        return [{"pid": self.process.pid, "tid": thread.tid, "name": thread.name}
                for thread in self.workload.threads
                if thread.process == self.process and thread.tid in used]  # fmt: skip

    @cached_property
    def stream_rows(self) -> list[Row]:
        found = {(row["context_id"], row["stream_id"])
                 for row in (*self.kernel, *self.memcpy, *self.memset)}  # fmt: skip
        return [{"pid": self.process.pid, "context_id": context, "stream_id": stream}
                for context, stream in found]  # fmt: skip

    @cached_property
    def device_rows(self) -> list[Row]:
        used = {row["device_id"] for row in (*self.kernel, *self.memcpy, *self.memset)}
        return [
            {"device_id": ordinal, "ordinal": ordinal, "name": device.name,
             "sm_count": device.sm_count, "compute_major": device.compute[0],
             "compute_minor": device.compute[1], "memory_bytes": device.memory_bytes,
             "uuid": None, "bus_id": None, "max_warps_per_sm": 64,
             "max_registers_per_sm": 65_536, "max_shared_bytes_per_sm": 167_936}
            for ordinal, device in enumerate(self.process.devices) if ordinal in used
        ]  # fmt: skip


def _in_time_of_day(rows: list[Row], profile: Profile, zero_utc_ns: int) -> list[Row]:
    """The rows with times since the workload's zero, and no correlation id in one spelling."""
    zero = profile.attributes["zero_utc_ns"]
    for row in rows:
        if row["start_ns"] is not None:
            row["start_ns"] += zero - zero_utc_ns
        if "correlation_id" in row:
            row["correlation_id"] = row["correlation_id"] or None
    return rows


def _rows(profile: Profile, table: str, zero_utc_ns: int) -> list[Row]:
    """The rows of an event table, with words for all columns of names."""
    rows = event_rows(profile, table)
    for row in rows:
        for name in ("shapes_id", "types_id", "arguments_id", "stack_id", "dtype_id", "group_id",
                     "group_ranks_id"):  # fmt: skip
            if name in row:
                number = row.pop(name)
                row[name.removesuffix("_id")] = number and profile.names({number})[number]
    return _in_time_of_day(rows, profile, zero_utc_ns)


def _same(found: list[Row], wanted: list[Row]) -> None:
    """Equal rows in any order; what `wanted` does not speak of is not recorded."""
    assert in_any_order(found) == in_any_order(
        [dict.fromkeys(found[0] if found else (), None) | row for row in wanted])  # fmt: skip


# -- rows


def test_every_workload_is_there() -> None:
    assert {trace.name for trace in TRACES} == {*EXPECTED, *make_fixtures.KINETO_FRAMEWORKS}
    assert all(trace.path.exists() for trace in TRACES)


@every_trace
@pytest.mark.parametrize("table", schema.EVENT_TABLES)
def test_events_are_those_of_the_workload(shelf: Shelf, trace: Trace, table: str) -> None:
    profile, expected = shelf.profile(trace.path), _Expected(trace)
    found = _rows(profile, table, expected.workload.zero_utc_ns)
    _same(found, getattr(expected, table, []))


@every_trace
@pytest.mark.parametrize("table", ["process", "thread", "stream", "device"])
def test_small_tables_are_those_of_the_workload(shelf: Shelf, trace: Trace, table: str) -> None:
    wanted = getattr(_Expected(trace), f"{table}_rows")
    found = small_rows(shelf.profile(trace.path), table)
    if table == "device":
        # A trace holds one process: whose ordinal it is need not be said.
        found = [{**row, "pid": None} for row in found]
    _same(found, wanted)


@every_trace
def test_zero_is_a_whole_second_before_the_first_event(shelf: Shelf, trace: Trace) -> None:
    zero = shelf.profile(trace.path).attributes["zero_utc_ns"]
    first = WORKLOADS[trace.name].zero_utc_ns
    assert zero % 1_000_000_000 == 0
    assert 0 <= first - zero <= 1_000_000_000


@every_trace
def test_the_recording_ends_with_its_last_event_or_later(shelf: Shelf, trace: Trace) -> None:
    """Counted from the zero, which is up to a second before the first event."""
    attributes, expected = shelf.profile(trace.path).attributes, _Expected(trace)
    end = attributes["zero_utc_ns"] + attributes["recording_ns"] - expected.workload.zero_utc_ns
    last = max(row["start_ns"] + (row["dur_ns"] or 0)
               for table in (expected.api_call, expected.kernel, expected.range)
               for row in table)  # fmt: skip
    assert last <= end <= expected.workload.duration_ns


@every_trace
def test_links_are_those_of_the_workload(shelf: Shelf, trace: Trace) -> None:
    """Each GPU op has its call where the file has that call, and no other."""
    profile, expected = shelf.profile(trace.path), _Expected(trace)
    calls = {row["correlation_id"]: row["name"] for row in event_rows(profile, "api_call")}
    wanted = {row["correlation_id"]: row["name"] for row in expected.api_call}
    for table in ("kernel", "memcpy", "memset"):
        found = Counter(calls.get(row["correlation_id"]) for row in event_rows(profile, table))
        assert found == Counter(wanted.get(row["correlation_id"])
                                for row in getattr(expected, table))  # fmt: skip


@every_trace
def test_plain_names_of_calls(shelf: Shelf, trace: Trace) -> None:
    profile = shelf.profile(trace.path)
    ids = set(profile.columns("api_call", ("name_id",))["name_id"].tolist())
    assert set(profile.names(ids, plain=True).values()) == {
        row["name"].removesuffix("_ptsz") for row in _Expected(trace).api_call}  # fmt: skip


@every_trace
def test_only_names_that_a_row_refers_to(shelf: Shelf, trace: Trace) -> None:
    expected = _Expected(trace)
    tables = (expected.api_call, expected.kernel, expected.range, expected.operator,
              expected.overhead, expected.collective)  # fmt: skip
    words = ("name", "shapes", "types", "dtype", "group", "group_ranks")
    allowed = {row.get(word) for table in tables for row in table for word in words}
    assert {row["text"] for row in shelf.profile(trace.path).rows("name")} <= allowed


@every_trace
def test_facts_are_what_the_file_holds(shelf: Shelf, trace: Trace) -> None:
    """None of a kind is known, too, where one switch of the profiler records all of them."""
    expected = _Expected(trace)
    wanted = {Fact.UTC, Fact.API_CALLS, Fact.THREADS, Fact.OPERATORS, Fact.RANGES,
              Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}  # fmt: skip
    for fact, table in ((Fact.SYNCS, "sync"), (Fact.OVERHEAD, "overhead"),
                        (Fact.COLLECTIVES, "collective"), (Fact.MEMORY_EVENTS, "memory_event"),
                        (Fact.DEVICES, "device_rows"), (Fact.API_LINKS, "kernel")):  # fmt: skip
        if getattr(expected, table):
            wanted.add(fact)
    if expected.process_rows[0]["rank"] is not None:
        wanted.add(Fact.RANKS)
    for fact, word in ((Fact.INPUT_SHAPES, "shapes"), (Fact.INPUT_TYPES, "types"),
                       (Fact.FORWARD_LINKS, "forward_thread")):  # fmt: skip
        if any(row.get(word) for row in expected.operator):
            wanted.add(fact)
    if not expected.ranges and not expected.operator:
        wanted -= {Fact.OPERATORS, Fact.RANGES}
    assert shelf.profile(trace.path).facts == wanted


@every_trace
def test_notes(shelf: Shelf, trace: Trace) -> None:
    wanted = {"api-calls-partial"}
    if not AGES[trace.age_name].relative:
        wanted.add("coarse-times")
    if trace.name == "no_gpu":
        wanted.add("no-gpu-work")
    if trace.path.name == "basic-1.9.json":
        wanted.add("json-repaired")  # a copy that took no time has the bandwidth N/A
    if trace.name == "training" and trace.age_name != "1.9":
        wanted.add("python-functions-left-out")
    # Those of the import alone: who looked at the profile before may have had it examined.
    assert {row["slug"] for row in shelf.profile(trace.path).rows("note")} == wanted


@pytest.mark.parametrize("age", ["2.5", "2.13"])
def test_python_functions_on_request(tmp_path: Path, age: str) -> None:
    (trace,) = (t for t in TRACES if (t.name, t.age_name) == ("training", age))
    api.import_files([trace.path], tmp_path / "store.db", include=["python_functions"])
    with reading(tmp_path / "store.db") as store:
        (profile,) = store.profiles()
        found = [row for row in _rows(profile, "operator", WORKLOADS["training"].zero_utc_ns)
                 if row["kind"] == "python_function"]  # fmt: skip
        notes = {note.slug for note in profile.notes}
    wanted = make_fixtures.KINETO_FRAMEWORKS["training"].functions
    assert sorted((row["start_ns"], row["dur_ns"], row["tid"], row["name"]) for row in found) == [
        (item.start_ns, item.end_ns - item.start_ns, item.thread.tid, item.name)
        for item in wanted]  # fmt: skip
    assert "python-functions-left-out" not in notes


# -- reports, beside those of nsys


class ReportRows:
    """The reports of all traces of one workload and age, with GPUs as numbers of the machine."""

    def __init__(self, shelf: Shelf, name: str, age: str) -> None:
        self.name, self.age = name, age
        self._stores = {trace.process: shelf.store(trace.path) for trace in TRACES
                        if (trace.name, trace.age_name) == (name, age)}  # fmt: skip

    def rows(self, report: str, only: int | None = None) -> list[Row]:
        found = []
        for process, store in self._stores.items():
            if only not in (None, process.pid):
                continue
            with api.open(store) as profile:
                zero = profile.profile.attributes["zero_utc_ns"]
                for row in _by_device(profile, report):
                    if "device_id" in row:
                        row["gpu"] = process.devices[row["device_id"]].gpu_id
                    for column in ("start_ns", "window_start_ns"):
                        if column in row:
                            row[column] += zero - WORKLOADS[self.name].zero_utc_ns
                    found.append(row | {"pid": process.pid})
        return found


def _of_nsys(shelf: Shelf, name: str, report: str) -> list[Row]:
    with api.open(shelf.store(NSYS_FILES[name])) as profile:
        gpus = {row["device_id"]: row["uuid"] and int(row["uuid"][-1])
                for row in profile.profile.rows("device")}  # fmt: skip
        return [row | {"gpu": gpus[row["device_id"]]} if "device_id" in row else row
                for row in _by_device(profile, report)]  # fmt: skip


def _by_device(profile: api.OpenProfile, report: str) -> list[Row]:
    return profile.report(report, split="device" if report in reports_that_are("split") else None).rows()


both = pytest.mark.parametrize("age", list(AGES))
COMPARED = [name for name in EXPECTED if name != "no_gpu"]
every_workload = pytest.mark.parametrize("name", COMPARED)


def _itanium(name: str) -> dict[str, str]:
    """NVIDIA's spelling of each kernel of a workload -> that of c++filt."""
    kernels = WORKLOADS[name].events.kernels
    return {k.function.demangled: k.function.itanium for k in kernels}


def _sums(rows: list[Row], keys: tuple[str, ...], values: tuple[str, ...]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row in rows:
        found.update({(*(row[key] for key in keys), value): row[value] or 0 for value in values})
    return Counter({key: number for key, number in found.items() if number})


def _equal(found: Counter[Any], wanted: Counter[Any], age: str) -> None:
    """Equal; in whole microseconds a sum may lack up to one for each row."""
    if AGES[age].relative:
        assert found == wanted
        return
    for key in found | wanted:
        number = wanted[key]
        if str(key[-1]).endswith("_ns"):
            assert number - 10_000 < found[key] <= number
            assert found[key] % 1000 == 0
        else:
            assert found[key] == number


@both
@every_workload
def test_kernels_as_in_nsys(shelf: Shelf, name: str, age: str) -> None:
    values = ("kernel_count", "kernel_sum_ns", "min_ns", "max_ns")
    values = values if len(WORKLOADS[name].devices) > 1 or name == "basic" else values[:2]
    keys = ("gpu", "name")
    wanted = [row | {"name": _itanium(name)[row["name"]]}
              for row in _of_nsys(shelf, name, "kernels")]  # fmt: skip
    _equal(_sums(ReportRows(shelf, name, age).rows("kernels"), keys, values),
           _sums(wanted, keys, values), age)  # fmt: skip


@both
@every_workload
@pytest.mark.parametrize("report", ["transfers", "transfer_sizes"])
def test_transfers_as_in_nsys(shelf: Shelf, name: str, age: str, report: str) -> None:
    """But for migrations."""
    keys = ("gpu", "direction") + (("src_kind", "dst_kind") if report == "transfers" else ())
    values = ("memcpy_count", "bytes_sum", "memcpy_sum_ns")
    if report == "transfers" and not any(WORKLOADS[name].events.memcpys):
        assert ReportRows(shelf, name, age).rows(report) == []
        return
    wanted = [row for row in _of_nsys(shelf, name, report)
              if not row["direction"].startswith("UM ")]  # fmt: skip
    _equal(_sums(ReportRows(shelf, name, age).rows(report), keys, values),
           _sums(wanted, keys, values), age)  # fmt: skip


@both
@every_workload
def test_calls_as_in_nsys_but_for_what_kineto_omits(shelf: Shelf, name: str, age: str) -> None:
    """An omitted call's GPU work has no call, and is counted there."""
    release, workload = AGES[age], WORKLOADS[name]
    omitted = [call for call in workload.events.calls if not release.records(call)]
    keys = ("layer", "name")
    values = ("call_count", "api_sum_ns", "gpu_op_count", "kernel_sum_ns", "memcpy_sum_ns",
              "memset_sum_ns")  # fmt: skip
    wanted = _sums(_of_nsys(shelf, name, "api_vs_kernel"), keys, values)
    for call in omitted:
        key = (call.layer, plain(call.symbol).removesuffix("_v2"))
        wanted[*key, "call_count"] -= 1
        wanted[*key, "api_sum_ns"] -= call.end_ns - call.start_ns
        for value in values[2:]:
            wanted[*NO_API_CALL, value] += wanted.pop((*key, value), 0)
    events = workload.events
    # GPU work that is in no trace: migrations, and graphs as a whole.
    wanted[*NO_API_CALL, "gpu_op_count"] -= len(events.migrations)
    for graph in events.graph_launches:
        wanted["runtime", "cudaGraphLaunch", "gpu_op_count"] -= graph is not None
    wanted = Counter({key: number for key, number in wanted.items() if number})
    _equal(_sums(ReportRows(shelf, name, age).rows("api_vs_kernel"), keys, values), wanted, age)


@both
@every_workload
def test_processes_as_in_nsys(shelf: Shelf, name: str, age: str) -> None:
    release, events = AGES[age], WORKLOADS[name].events
    wanted = {row["pid"]: row for row in _of_nsys(shelf, name, "processes")}
    for row in ReportRows(shelf, name, age).rows("processes"):
        pid, nsys = row["pid"], wanted.pop(row["pid"])
        omitted = sum(not release.records(call) and call.thread.process.pid == pid
                      for call in events.calls)  # fmt: skip
        graphs = sum(item.stream.process.pid == pid for item in events.graph_launches)
        moved = sum(item.process.pid == pid for item in events.migrations)
        assert row["api_call_count"] == nsys["api_call_count"] - omitted
        assert row["gpu_op_count"] == nsys["gpu_op_count"] - graphs - moved
        assert row["thread_count"] == nsys["thread_count"]
        assert row["process"] == nsys["process"]
    assert not wanted


# GPU time in whole windows is the same only where one process alone has the GPU, and where no
# migration and no graph as a whole ran on it: (workload, pid).
ALONE = [("basic", 4242), ("ranges", 4300), ("two_processes_two_gpus", 6001),
         ("two_processes_two_gpus", 6002), ("graphs", 7002)]  # fmt: skip


@both
@pytest.mark.parametrize(("name", "pid"), ALONE)
def test_busy_and_idle_as_in_nsys(shelf: Shelf, name: str, pid: int, age: str) -> None:
    (row,) = ReportRows(shelf, name, age).rows("overview", pid)
    (wanted,) = (r for r in _of_nsys(shelf, name, "overview") if r["gpu"] == row["gpu"])
    for column in ("window_start_ns", "window_ns", "busy_ns", "idle_ns", "kernel_count",
                   "kernel_sum_ns", "kernel_union_ns", "memcpy_count", "memcpy_sum_ns",
                   "memset_count", "memset_sum_ns"):  # fmt: skip
        slack = 0 if AGES[age].relative else 1_000
        # A source that cannot hold memory sets has none; one that holds none has 0.
        assert abs((row[column] or 0) - (wanted[column] or 0)) <= slack, column
    assert row["um_count"] is None  # never recorded, so not known


@both
@pytest.mark.parametrize(("name", "pid"), ALONE)
def test_gaps_as_in_nsys(shelf: Shelf, name: str, pid: int, age: str) -> None:
    found = ReportRows(shelf, name, age).rows("idle_gaps", pid)
    gpus = {row["gpu"] for row in found}
    release, events = AGES[age], WORKLOADS[name].events
    parts = ("host_ns", "launch_ns", "queue_ns", "profiler_ns", "unknown_ns", "end_ns")
    wanted = {}
    for row in _of_nsys(shelf, name, "idle_gaps"):
        if row["gpu"] in gpus:
            wanted[row["start_ns"]] = [row["dur_ns"], *(row[part] for part in parts)]
    if name == "basic" and not release.overheads:
        # The profiler's own work is not in the file: it remains the host's.
        wanted[100_000] = [33_000, 30_000, 2_000, 1_000, 0, 0, 0]
    if name == "basic" and not release.driver_calls:
        wanted[191_000] = [2_000, 0, 0, 0, 0, 2_000, 0]  # a launch by the driver
    if not release.relative and name == "graphs":
        pytest.skip("gaps of half a microsecond")
    assert events.kernels
    assert {row["start_ns"]: [row["dur_ns"], *(row[part] for part in parts)]
            for row in found} == wanted  # fmt: skip


@pytest.mark.parametrize("age", ["2.5", "2.13"])
def test_unified_memory_leaves_its_gap_to_the_host(shelf: Shelf, age: str) -> None:
    """Without migrations: kernels 5-15 and 26-30, the second one launched at 24-25 us."""
    reports = ReportRows(shelf, "unified_memory", age)
    (row,) = reports.rows("overview")
    assert (row["window_ns"], row["busy_ns"], row["idle_ns"]) == (25_000, 14_000, 11_000)
    (gap,) = reports.rows("idle_gaps")
    assert (gap["start_ns"], gap["host_ns"], gap["launch_ns"], gap["queue_ns"]) == (
        15_000, 9_000, 1_000, 1_000)  # fmt: skip


@pytest.mark.parametrize("age", ["2.5", "2.13"])
def test_latencies_as_in_nsys(shelf: Shelf, age: str) -> None:
    columns = ("layer", "name", "launch_latency_avg_ns", "queue_count", "queue_avg_ns")
    found = {tuple(row[c] for c in columns)
             for row in ReportRows(shelf, "basic", age).rows("api_vs_kernel")}  # fmt: skip
    omitted = {"cuMemAlloc", "cuLibraryLoadData"}
    assert found == {tuple(row[c] for c in columns)
                     for row in _of_nsys(shelf, "basic", "api_vs_kernel")
                     if row["name"] not in omitted}  # fmt: skip


@both
def test_a_program_without_gpu(shelf: Shelf, age: str) -> None:
    reports = ReportRows(shelf, "no_gpu", age)
    found = {row["name"]: row["api_sum_ns"] for row in reports.rows("api_vs_kernel") if row["layer"]}
    assert found == {"cudaGetDeviceCount": 3_000, "cudaMalloc": 1_000}
    assert reports.rows("kernels") == []


# -- odd files


def _basic(path: Path) -> tuple[list[Row], ...]:
    """All events of a file as in `basic`, with times since its zero of day."""
    with nsysconv.open(path) as opened:
        profile = opened.profile
        zero = WORKLOADS["basic"].zero_utc_ns
        return tuple(in_any_order(_rows(profile, table, zero))
                     for table in ("api_call", "kernel", "memcpy", "memset", "sync", "range",
                                   "overhead"))  # fmt: skip


@pytest.mark.parametrize("name", [
    "odd-bare-inf.json", "odd-trailing-comma.json", "odd-compact.json", "odd-reprinted.json.gz",
    "odd-secrets.json", "odd-future.json",
])  # fmt: skip
def test_irrelevant_differences_change_no_row(name: str) -> None:
    assert _basic(KINETO / name) == _basic(KINETO / "basic-2.13.json")


@pytest.mark.parametrize(("name", "old", "new"), [
    ("odd-backslash.json", "load", r"load C:\Data\path"),
    ("odd-control-character.json", "saxpy step", "saxpy\tst\x01ep"),
    ("odd-quotes.json", "saxpy step", 'the "saxpy" step'),
    ("odd-quotes-old-layout.json", "saxpy step", 'the "saxpy" step'),
    ("odd-invalid-utf8.json", "load", "caf\N{REPLACEMENT CHARACTER}"),
])  # fmt: skip
def test_names_that_are_no_json(name: str, old: str, new: str) -> None:
    """The name is as meant, and nothing else differs from `basic`."""
    wanted = _basic(KINETO / "basic-2.13.json")
    *found, ranges, overheads = _basic(KINETO / name)
    for row in ranges:
        row["name"] = old if row["name"] == new else row["name"]
    assert (*found, in_any_order(ranges), overheads) == wanted
    with nsysconv.open(KINETO / name) as opened:
        assert "json-repaired" in {note.slug for note in opened.profile.notes}
        assert opened.profile.rows("device")[0]["name"] == WORKLOADS["basic"].devices[0].name


@pytest.mark.parametrize("name", [
    "odd-truncated.json", "odd-truncated-no-base.json", "odd-cut-short.json.gz",
])  # fmt: skip
def test_files_that_end_early(shelf: Shelf, name: str) -> None:
    """Kernels and calls up to number 109, copies up to 115, in the order of the file."""
    profile = shelf.profile(KINETO / name)
    assert "trace-truncated" in {note.slug for note in profile.notes}
    found = {row["correlation_id"] for row in event_rows(profile, "kernel")}
    assert found >= {105, 106, 107}
    assert len(event_rows(profile, "memcpy")) == 6
    lost = name == "odd-truncated-no-base.json"
    assert ("no-time-base" in {note.slug for note in profile.notes}) == lost
    assert (profile.attributes["zero_utc_ns"] is None) == lost


@pytest.mark.parametrize(("name", "word"), [
    ("odd-autograd.json", "autograd"), ("odd-browser.json", "Chrome"),
])  # fmt: skip
def test_files_that_are_no_gpu_profile(name: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        nsysconv.open(KINETO / name)


def test_a_bare_list_of_events(shelf: Shelf) -> None:
    profile = shelf.profile(KINETO / "odd-list.json.gz")
    wanted = shelf.profile(KINETO / "basic-2.13.json")
    for table in ("api_call", "kernel", "memcpy", "range"):
        found = [row["dur_ns"] for row in event_rows(profile, table)]
        assert found == [row["dur_ns"] for row in event_rows(wanted, table)]
    assert profile.attributes["zero_utc_ns"] is None
    assert {Fact.UTC, Fact.DEVICES, Fact.RANKS}.isdisjoint(profile.facts)
    # No properties, but blocks per SM say how many SMs there are.
    assert [row["sm_count"] for row in profile.rows("device")] == [108]


def test_no_event_at_all(shelf: Shelf) -> None:
    profile = shelf.profile(KINETO / "odd-no-events.json")
    assert [table for table in schema.EVENT_TABLES if event_rows(profile, table)] == []


def test_two_ranks_in_one_file_are_two_profiles(tmp_path: Path) -> None:
    api.import_files([KINETO / "odd-merged-ranks.json.gz"], tmp_path / "store.db")
    name = "two_processes_one_gpu"
    tables = ("api_call", "kernel", "memcpy", "memset", "sync", "range", "overhead")
    with reading(tmp_path / "store.db") as store:
        found = {profile.rows("process")[0]["pid"]: profile for profile in store.profiles()}
        assert found.keys() == {5001, 5002}
        for trace in (t for t in TRACES if (t.name, t.age_name) == (name, "2.13")):
            expected = _Expected(trace)
            profile = found[trace.process.pid]
            for table in tables:
                _same(_rows(profile, table, expected.workload.zero_utc_ns),
                      getattr(expected, table))  # fmt: skip
            assert Fact.RANKS not in profile.facts
            assert "process-assumed" in {note.slug for note in profile.notes}


def test_a_process_whose_number_is_that_of_a_gpu(shelf: Shelf) -> None:
    """Process 1, and GPU 1, whose rows have pid 1."""
    profile = shelf.profile(KINETO / "odd-small-pid.json")
    wanted = shelf.profile(KINETO / "graphs-2.13-7002.json")
    for table in ("api_call", "kernel", "memcpy", "memset"):
        assert event_rows(profile, table) == [
            {**row, "pid": 1, **({"tid": 1} if "tid" in row else {})}
            for row in event_rows(wanted, table)]  # fmt: skip
    assert [(row["pid"], row["name"]) for row in profile.rows("process")] == [(1, "infer")]
    assert [(row["tid"], row["name"]) for row in profile.rows("thread")] == [(1, "infer")]


def test_durations_that_cannot_be(shelf: Shelf) -> None:
    """Kernel 109 of -5 us, call 119 of 2^64 us, copy 103 at 0: not as they are, and said so."""
    profile = shelf.profile(KINETO / "odd-durations.json")
    assert 109 not in {row["correlation_id"] for row in event_rows(profile, "kernel")}
    assert 119 not in {row["correlation_id"] for row in event_rows(profile, "api_call")
                       if row["dur_ns"] is not None}  # fmt: skip
    known = [row for row in event_rows(profile, "memcpy") if row["start_ns"] is not None]
    assert 103 not in {row["correlation_id"] for row in known}
    assert {"negative-duration", "impossible-time"} <= {note.slug for note in profile.notes}
    # The copy at 0 does not move the zero to 1970.
    first = WORKLOADS["basic"].zero_utc_ns
    assert 0 <= first - profile.attributes["zero_utc_ns"] <= 1_000_000_000
    # None of the three has gone unsaid.
    said = sum(note.count for note in profile.notes
               if note.slug not in ("json-repaired", "coarse-times", "api-calls-partial"))  # fmt: skip
    assert said == 3


READABLE = sorted(path for path in KINETO.iterdir() if path.name not in (
    "odd-autograd.json", "odd-browser.json", "odd-merged-ranks.json.gz"))  # fmt: skip


@pytest.mark.parametrize("path", oldest_and_newest(READABLE), ids=name_of)
def test_no_secret_gets_into_a_store(shelf: Shelf, path: Path) -> None:
    data = path.read_bytes()
    if path.suffix == ".gz" and "cut-short" not in path.name:
        data = gzip.decompress(data)
    made_up = not path.name.startswith(("recorded", "odd-list", "odd-no-events", "odd-cut"))
    assert not made_up or data.count(b"SECRET-") >= 2
    assert b"SECRET-" not in shelf.store(path).read_bytes()


# -- recorded files


def test_the_recorded_training(shelf: Shelf) -> None:
    profile = shelf.profile(KINETO / "recorded-training.json.gz")
    ranges = Counter(row["name"] for row in event_rows(profile, "range"))
    assert ranges == {
        "ProfilerStep#2": 1, "ProfilerStep#3": 1, "load": 2, "forward": 2,
        "Optimizer.zero_grad#SGD.zero_grad": 2, "Optimizer.step#SGD.step": 2}  # fmt: skip
    operators = event_rows(profile, "operator")
    assert sum(row["name"] == "aten::addmm" for row in operators) == 4
    assert {row["kind"] for row in operators} == {"operator"}
    memory = event_rows(profile, "memory_event")
    assert {row["device_id"] for row in memory} == {None}
    assert any(row["bytes"] < 0 for row in memory)
    assert all(row["dur_ns"] > 0 for row in operators)


def test_the_recorded_names_with_quotes(shelf: Shelf) -> None:
    """PyTorch 2.13 escapes no quote, and writes `unknown` for a name with an accent."""
    profile = shelf.profile(KINETO / "recorded-quotes.json.gz")
    assert [row["name"] for row in event_rows(profile, "range")] == [
        'the "first" part', "unknown", "C:/data/part"]  # fmt: skip


@pytest.mark.parametrize("rank", [0, 1])
def test_the_recorded_ranks(shelf: Shelf, rank: int) -> None:
    profile = shelf.profile(KINETO / f"recorded-gloo-rank{rank}.json.gz")
    (process,) = profile.rows("process")
    assert (process["rank"], process["world_size"], process["host"]) == (rank, 2, "node01")
    assert process["pid"] == 31000 + 500 * rank
    names = Counter(row["name"] for row in event_rows(profile, "range"))
    assert (names["gloo:all_reduce"], names["gloo:broadcast"]) == (4, 1)
    assert len(profile.rows("thread")) == 3
