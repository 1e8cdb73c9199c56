"""The made-up workloads as logs of nvprof: rows, totals, and reports beside those of nsys.

What the import must give is made from the workload itself. How far a figure may be off follows from
how it is spelled: half of one unit in its last place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import machine
import make_fixtures
import pytest
from conftest import FIXTURES, NSYS, Row, event_rows, in_any_order
from nvprof_logs import LOGS
from nvprof_spelling import MEMORY, function
from scenarios import EXPECTED, WORKLOADS
from workload import Process, Stream
from write_nvprof_database import thread_number

from nsysconv import api, schema
from nsysconv.facts import Fact
from nsysconv.notes import Severity
from nsysconv.report import Report
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "nvprof_log"
GPU_TABLES = ("kernel", "memcpy", "memset", "unified_memory_event")
TRACES = [name for name in LOGS if "trace" in name]
SUMMARIES = [name for name in LOGS if "summary" in name]
every_trace = pytest.mark.parametrize("name", TRACES)
every_summary = pytest.mark.parametrize("name", SUMMARIES)


@contextmanager
def imported(source: Path) -> Iterator[list[Profile]]:
    """The profiles of a file in a store of their own."""
    with TemporaryDirectory() as folder:
        result = api.import_files([source], Path(folder) / "store.db")
        assert not result.errors, result.errors
        with reading(Path(folder) / "store.db") as store:
            yield list(store.profiles())


def slugs(profile: Profile) -> set[str]:
    return {note.slug for note in profile.notes}


def own(name: str, process: Process, kind: str) -> list[Any]:
    """A workload's events of a kind in one process, in order of start as traces are."""

    def owner(event: Any) -> Process:
        holder = getattr(event, "stream", None) or getattr(event, "thread", None) or event
        found: Process = holder.process
        return found

    events = getattr(WORKLOADS[name].events, kind)
    return sorted((e for e in events if owner(e) == process), key=lambda event: event.start_ns)


# -- rows of traces


class _Expected:
    """The rows that a trace of one process must give."""

    def __init__(self, name: str, process: Process) -> None:
        log = LOGS[name]
        self.workload, self.process = log.workload, process
        self.has_kinds = "cuda8" not in name
        self.csv = name.endswith(".csv")
        self.gpu, self.calls = "api-trace" not in name, "gpu-trace" not in name

    def _times(self, event: Any) -> Row:
        return {"start_ns": event.start_ns, "dur_ns": event.end_ns - event.start_ns,
                "pid": self.process.pid}  # fmt: skip

    def _on(self, event: Any, *, numbered: bool) -> Row:
        stream: Stream = event.stream
        number = event.correlation_id or None
        return self._times(event) | {
            "device_id": stream.ordinal, "context_id": stream.context_id,
            "stream_id": stream.stream_id, "correlation_id": number if numbered else None,
        }  # fmt: skip

    def rows(self, table: str) -> list[Row]:
        if (self.gpu and table in GPU_TABLES) or (self.calls and table == "api_call"):
            found: list[Row] = getattr(self, table)()
            return found
        return []

    def kernel(self) -> list[Row]:
        return [
            # The number stands behind the name, too.
            self._on(kernel, numbered=True) | {
                "name": kernel.function.demangled,
                "grid_x": kernel.grid[0], "grid_y": kernel.grid[1], "grid_z": kernel.grid[2],
                "block_x": kernel.block[0], "block_y": kernel.block[1],
                "block_z": kernel.block[2], "registers_per_thread": kernel.registers,
                "static_shared_bytes": kernel.static_shared_bytes,
                "dynamic_shared_bytes": kernel.dynamic_shared_bytes}
            for kernel in own(self.workload, self.process, "kernels")
        ]  # fmt: skip

    def memcpy(self) -> list[Row]:
        rows = []
        for copy in own(self.workload, self.process, "memcpys"):
            peer = None
            if copy.direction == "PtoP":
                (peer,) = {copy.src_ordinal, copy.dst_ordinal} - {copy.stream.ordinal}
            kinds = [MEMORY[copy.src_kind], MEMORY[copy.dst_kind]]
            src, dst = kinds if self.has_kinds else (None, None)
            rows.append(self._on(copy, numbered=self._csv_numbers) | {
                "bytes": copy.bytes, "direction": copy.direction, "peer_device_id": peer,
                "src_kind": src, "dst_kind": dst})  # fmt: skip
        return rows

    @property
    def _csv_numbers(self) -> bool:
        """Only CSV has a column of correlation ids, and only from CUDA 9 on."""
        return self.csv and self.has_kinds

    def memset(self) -> list[Row]:
        return [
            self._on(item, numbered=self._csv_numbers) | {
                "bytes": item.bytes, "memory_kind": MEMORY[item.kind] if self.has_kinds else None}
            for item in own(self.workload, self.process, "memsets")
        ]  # fmt: skip

    def unified_memory_event(self) -> list[Row]:
        return [
            self._times(item) | {"device_id": item.ordinal, "bytes": item.bytes,
                                 "direction": item.direction, "address": item.address}
            for item in own(self.workload, self.process, "migrations")
        ]  # fmt: skip

    def api_call(self) -> list[Row]:
        launched = {k.correlation_id for k in own(self.workload, self.process, "kernels")}
        rows = []
        for call in own(self.workload, self.process, "calls"):
            # Text names the launched kernel and its number in parentheses, else none.
            known = self.csv or call.correlation_id in launched
            rows.append(self._times(call) | {
                "layer": call.layer, "name": function(call.symbol),
                "correlation_id": call.correlation_id if known else None})  # fmt: skip
        return rows


def _only(found: list[Row], wanted: list[Row]) -> list[Row]:
    """The wanted rows with null for what they do not speak of."""
    return [dict.fromkeys(found[0] if found else (), None) | row for row in wanted]


@every_trace
def test_rows_are_those_of_the_workload(name: str) -> None:
    with imported(FOLDER / name) as profiles:
        for profile, process in zip(profiles, LOGS[name].processes, strict=True):
            expected = _Expected(name, process)
            for table in (*GPU_TABLES, "api_call", "range", "sync", "overhead"):
                found = event_rows(profile, table)
                if "two_gpus" in name and not expected.csv:
                    # Which device is which was cut off.
                    for row in found:
                        for column in ("device_id", "peer_device_id"):
                            row.pop(column, None)
                wanted = [{k: v for k, v in row.items() if not found or k in found[0]}
                          for row in expected.rows(table)]  # fmt: skip
                # Rows with a cell too many come later than those around them.
                assert in_any_order(found) == in_any_order(_only(found, wanted)), table


@every_trace
def test_facts_of_traces(name: str) -> None:
    process = LOGS[name].processes[0]
    expected = _Expected(name, process)
    wanted = {Fact.API_CALLS} if expected.calls else set()
    if expected.gpu:
        wanted |= {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}
    if expected.gpu and own(LOGS[name].workload, process, "migrations"):
        wanted |= {Fact.UNIFIED_MEMORY}
    if expected.gpu and expected.calls:
        wanted |= {Fact.API_LINKS}
    with imported(FOLDER / name) as profiles:
        assert wanted <= profiles[0].facts
        assert not profiles[0].facts - wanted - {Fact.DEVICES}


def test_traces_of_nanoseconds_and_kilobytes_are_exact() -> None:
    with imported(FOLDER / "basic-gpu-trace.csv") as (profile,):
        assert not slugs(profile) & {"rounded-times", "rounded-bytes"}
    for coarse in ("basic-gpu-trace-cuda8.csv", "basic-gpu-trace.txt", "basic-api-trace.txt"):
        with imported(FOLDER / coarse) as (profile,):
            (note,) = (note for note in profile.notes if note.slug == "rounded-times")
            assert note.severity is Severity.APPROXIMATED


# -- beside nsys

_NOT_COMPARED = {"profile", "rank", "recording_ns", "process", "device"}


def _rows(report: Report, *columns: str) -> list[Row]:
    return in_any_order([
        {k: v for k, v in row.items() if k not in _NOT_COMPARED and (not columns or k in columns)}
        for row in report.rows()])  # fmt: skip


def _nsys(workload: str) -> Path:
    return NSYS / f"{workload}-{make_fixtures.NSYS_AGES[workload][-1]}.sqlite"


def _asked(profile: api.OpenProfile, name: str, *, kinds: bool) -> list[Row]:
    if name == "idle_gaps":
        return _rows(profile.report(name), "start_ns", "dur_ns", "device_id", "next_op")
    if name == "transfers" and not kinds:
        # Of copies alike but for the kinds of memory, only their sums are left.
        merged: dict[tuple[int, str], list[int]] = {}
        for row in profile.report(name).rows():
            into = merged.setdefault((row["device_id"], row["direction"]), [0, 0, 0])
            for place, column in enumerate(("memcpy_count", "bytes_sum", "memcpy_sum_ns")):
                into[place] += row[column]
        return in_any_order([{"of": k, "sums": v} for k, v in merged.items()])
    return _rows(profile.report(name))


COMPARED = [name for name in TRACES if "api-trace" not in name
            and LOGS[name].workload in ("basic", "unified_memory")]  # fmt: skip


@pytest.mark.parametrize("name", COMPARED)
def test_reports_are_those_of_nsys(name: str) -> None:
    """Times and sizes of these workloads survive the rounding."""
    workload, kinds = LOGS[name].workload, "cuda8" not in name
    reports = ["overview", "kernels", "transfers", "transfer_sizes", "idle_gaps"]
    # Text has numbers for launches only.
    if "both" in name and name.endswith(".csv"):
        reports.append("api_vs_kernel")
    with api.open(FOLDER / name) as ours, api.open(_nsys(workload)) as theirs:
        for report in reports:
            found, wanted = (_asked(p, report, kinds=kinds) for p in (ours, theirs))
            if report == "overview":
                # What is not recorded is null there, none here.
                for row in (*found, *wanted):
                    for column in [c for c in row if c.startswith(("um_", "graph_launch_"))]:
                        row[column] = row[column] or 0
            assert found == wanted, report


# -- summaries


def totals_of(profile: Profile) -> list[Row]:
    """The totals with words for codes, without what is null; those inside ranges apart."""
    domains = {row["domain_id"]: row["name"] for row in profile.rows("domain")}
    rows = []
    for row in profile.rows("aggregate"):
        ids = {i for i in (row["name_id"], row["range_name_id"]) if i is not None}
        names = profile.names(ids)
        told = {k: v for k, v in row.items() if v is not None and k not in ("id", "profile_id")}
        for column in ("kind", "layer", "direction"):
            if isinstance(told.get(column), int):
                codes = schema.metadata.tables["aggregate"].c[column].info["codes"]
                told[column] = codes[told[column]]
        for column, word in (("name_id", "name"), ("range_name_id", "within")):
            if column in told:
                told[word] = names[told.pop(column)]
        if "domain_id" in told:
            told["domain"] = domains.get(told.pop("domain_id"))
        rows.append(told)
    return rows


def _gpu_and_calls(rows: list[Row]) -> set[tuple[Any, ...]]:
    """What is in no range: kind, word, count and times."""
    found = [
        (row["kind"], row.get("layer"),
         None if row["kind"] == "memset" else row.get("direction") or row.get("name"), row["count"],
         row.get("sum_ns"), row.get("min_ns"), row.get("max_ns"))
        for row in rows
        if "within" not in row and row["kind"] in ("kernel", "memcpy", "memset", "api_call")
    ]  # fmt: skip
    assert len(found) == len(set(found))
    return set(found)


def _wanted_totals(name: str, process: Process) -> set[tuple[Any, ...]]:
    """The same of the workload, whose sums are those worked out by hand."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for kernel in own(name, process, "kernels"):
        key = ("kernel", None, kernel.function.demangled)
        found.setdefault(key, []).append(kernel.end_ns - kernel.start_ns)
    for copy in own(name, process, "memcpys"):
        key = ("memcpy", None, copy.direction)
        found.setdefault(key, []).append(copy.end_ns - copy.start_ns)
    for item in own(name, process, "memsets"):
        found.setdefault(("memset", None, None), []).append(item.end_ns - item.start_ns)
    for call in own(name, process, "calls"):
        key = ("api_call", call.layer, function(call.symbol))
        found.setdefault(key, []).append(call.end_ns - call.start_ns)
    if len(WORKLOADS[name].processes) == 1:
        for (_, kernel), answer in EXPECTED[name]["kernels"].items():
            assert sum(found["kernel", None, kernel]) == answer.sum_ns
        for (layer, function_name), of_api in EXPECTED[name]["api"].items():
            if layer is not None:
                assert sum(found["api_call", layer, function_name]) == of_api.api_sum_ns
    return {(*key, len(v), sum(v), min(v), max(v)) for key, v in found.items()}


@every_summary
def test_totals_are_those_of_the_workload(name: str) -> None:
    """All times of these workloads have no more digits than nvprof prints."""
    workload = LOGS[name].workload
    with imported(FOLDER / name) as profiles:
        for profile, process in zip(profiles, LOGS[name].processes, strict=True):
            rows = totals_of(profile)
            assert {row["pid"] for row in rows} == {process.pid}
            assert _gpu_and_calls(rows) == _wanted_totals(workload, process)
            wanted = {Fact.API_TOTALS}
            if workload != "no_gpu":
                wanted |= {Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS}
            wanted |= {Fact.UNIFIED_MEMORY_TOTALS} if workload == "unified_memory" else set()
            if "cuda8" not in name and own(workload, process, "ranges"):
                wanted |= {Fact.RANGE_TOTALS}
            assert wanted <= profile.facts


@pytest.mark.parametrize("name", ["unified_memory-summary.csv", "unified_memory-summary.txt"])
def test_totals_of_migrations(name: str) -> None:
    with imported(FOLDER / name) as (profile,):
        found = {
            row["direction"]: (row["device_id"], row["count"], row["bytes_sum"], row["bytes_min"],
                               row["bytes_max"], row["sum_ns"])
            for row in totals_of(profile) if row["kind"] == "unified_memory"
        }  # fmt: skip
    assert found == {
        "HtoD": (0, 3, 73_728, 4_096, 65_536, 4_000), "DtoH": (0, 3, 16_384, 4_096, 8_192, 5_000),
        "DtoD": (0, 1, 4_096, 4_096, 4_096, 500),
    }  # fmt: skip
    with api.open(FOLDER / name) as opened:
        (row,) = opened.report("overview").rows()
        assert (row["um_count"], row["um_bytes_sum"], row["um_sum_ns"]) == (7, 94_208, 9_500)


# Worked out from the table in scenario_ranges.py: name, domain and time of each range, and the kernel
# whose launches start in it on its own thread, how many and how long.
SAXPY, REDUCE = machine.SAXPY.demangled, machine.REDUCE.demangled
IN_RANGES = {
    ("epoch", 4300, None, 44_000): (SAXPY, 2, 6_000),
    ("ProfilerStep#1", 4300, None, 18_000): (SAXPY, 1, 3_000),
    ("forward", 4300, "nn", 6_500): (SAXPY, 1, 3_000),
    ("backward", 4301, "nn", 1_400): (REDUCE, 1, 3_000),
    ("prefetch", 4301, None, 2_000): (REDUCE, 1, 3_000),
    ("ProfilerStep#2", 4300, None, 20_000): (SAXPY, 1, 3_000),
}


@pytest.mark.parametrize("name", ["ranges-summary.csv", "ranges-summary.txt"])
def test_totals_of_ranges(name: str) -> None:
    """What they hold is a part of the totals and counts there only."""
    with imported(FOLDER / name) as (profile,):
        rows = totals_of(profile)
    threads = {thread_number(t): t.tid for t in WORKLOADS["ranges"].threads}
    ranges = {
        (row["name"], threads[row["tid"]], row.get("domain"), row["sum_ns"])
        for row in rows if row["kind"] == "range"
    }  # fmt: skip
    assert ranges == set(IN_RANGES)
    inside = {
        (row["within"], row["name"], row["count"], row["sum_ns"])
        for row in rows if row["kind"] == "kernel" and "within" in row
    }  # fmt: skip
    assert inside == {(key[0], *value) for key, value in IN_RANGES.items()}
    with api.open(FOLDER / name) as opened:
        kernels = {row["name"]: row["kernel_count"] for row in opened.report("kernels").rows()}
    assert kernels == {SAXPY: 2, REDUCE: 2, "stencil": 1}


@pytest.mark.parametrize("name", [n for n in SUMMARIES if LOGS[n].workload == "basic"])
def test_reports_of_totals(name: str) -> None:
    """What nsys says of the same, but for what needs events; all devices in one row."""
    shared = ("name", "kernel_count", "kernel_sum_ns", "kernel_pct", "min_ns", "max_ns")
    with api.open(FOLDER / name) as ours, api.open(_nsys("basic")) as theirs:
        assert _rows(ours.report("kernels"), *shared) == _rows(theirs.report("kernels"), *shared)
        assert {(r["device_id"], r["med_ns"], r["stddev_ns"])
                for r in ours.report("kernels").rows()} == {(None, None, None)}  # fmt: skip
        calls = ("layer", "name", "call_count", "api_sum_ns")
        theirs_by_call = [r for r in _rows(theirs.report("api_vs_kernel"), *calls)
                          if r["layer"] is not None]  # fmt: skip
        assert _rows(ours.report("api_vs_kernel"), *calls) == theirs_by_call
        sums = ("kernel_count", "kernel_sum_ns", "memcpy_count", "memcpy_sum_ns", "memset_count",
                "memset_sum_ns")  # fmt: skip
        assert _rows(ours.report("overview"), *sums) == _rows(theirs.report("overview"), *sums)
