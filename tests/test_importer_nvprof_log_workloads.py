"""The made-up workloads as logs of nvprof: totals of summaries, and reports of them beside nsys.

Rows of traces are compared in test_workloads.py, and their reports in test_queries_workloads.py.
"""

from __future__ import annotations

from typing import Any

import machine
import pytest
from conftest import FIXTURES, Row, in_any_order
from fixtures_nvprof_log import LOGS
from importing import profiles as imported
from importing import slugs, totals_of
from scenarios import WORKLOADS
from workload_rows import NvprofLog, newest_export
from write_nvprof_database import thread_number

from nsysconv import api
from nsysconv.facts import Fact
from nsysconv.notes import Severity

FOLDER = FIXTURES / "nvprof_log"
SUMMARIES = [name for name in LOGS if "summary" in name]
every_summary = pytest.mark.parametrize("name", SUMMARIES)


# -- traces


def test_traces_of_nanoseconds_and_kilobytes_are_exact() -> None:
    with imported(FOLDER / "basic-gpu-trace.csv") as (profile,):
        assert not slugs(profile) & {"rounded-times", "rounded-bytes"}
    for coarse in ("basic-gpu-trace-cuda8.csv", "basic-gpu-trace.txt", "basic-api-trace.txt"):
        with imported(FOLDER / coarse) as (profile,):
            (note,) = (note for note in profile.notes if note.slug == "rounded-times")
            assert note.severity is Severity.APPROXIMATED


# -- summaries


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


def _wanted_totals(expected: NvprofLog) -> set[tuple[Any, ...]]:
    """The same of the rows that a trace of the workload gives."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for table in ("kernel", "memcpy", "memset", "api_call"):
        for row in expected.rows(table):
            word = None if table == "memset" else row.get("direction") or row["name"]
            found.setdefault((table, row.get("layer"), word), []).append(row["dur_ns"])
    return {(*key, len(v), sum(v), min(v), max(v)) for key, v in found.items()}


@every_summary
def test_totals_are_those_of_the_workload(name: str) -> None:
    """All times of these workloads have no more digits than nvprof prints."""
    workload = LOGS[name].workload
    with imported(FOLDER / name) as profiles:
        for profile, process in zip(profiles, LOGS[name].processes, strict=True):
            rows, expected = totals_of(profile), NvprofLog(name, process)
            assert {row["pid"] for row in rows} == {process.pid}
            assert _gpu_and_calls(rows) == _wanted_totals(expected)
            wanted = {Fact.API_TOTALS}
            if workload != "no_gpu":
                wanted |= {Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS}
            wanted |= {Fact.UNIFIED_MEMORY_TOTALS} if workload == "unified_memory" else set()
            if "cuda8" not in name and expected.own("ranges"):
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
    def rows(profile: api.OpenProfile, report: str, *columns: str) -> list[Row]:
        return in_any_order([{c: row[c] for c in columns} for row in profile.report(report).rows()])

    shared = ("name", "kernel_count", "kernel_sum_ns", "kernel_pct", "min_ns", "max_ns")
    with api.open(FOLDER / name) as ours, api.open(newest_export("basic")) as theirs:
        assert rows(ours, "kernels", *shared) == rows(theirs, "kernels", *shared)
        assert {(r["device_id"], r["med_ns"], r["stddev_ns"])
                for r in ours.report("kernels").rows()} == {(None, None, None)}  # fmt: skip
        calls = ("layer", "name", "call_count", "api_sum_ns")
        theirs_by_call = [r for r in rows(theirs, "api_vs_kernel", *calls)
                          if r["layer"] is not None]  # fmt: skip
        assert rows(ours, "api_vs_kernel", *calls) == theirs_by_call
        sums = ("kernel_count", "kernel_sum_ns", "memcpy_count", "memcpy_sum_ns", "memset_count",
                "memset_sum_ns")  # fmt: skip
        assert rows(ours, "overview", *sums) == rows(theirs, "overview", *sums)
