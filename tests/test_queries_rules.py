"""Rules by hand: what each finds, what it leaves out, and the rows that its findings name."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import NSYS_FILES, REAL_FILES, few, import_file, looking, name_of, real
from hypothesis import given
from hypothesis import strategies as st
from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Op,
    Overhead,
    Row,
    answers,
    asked,
    hand_computed,
    only,
    opened,
    write,
)
from test_render import rendered

from nsysconv import api
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries import RULES

MS = 1_000_000


def pairs(report: str, *rows: Row, **options: Any) -> list[tuple[int, int]]:
    """Start and duration of each finding."""
    return [(row["start_ns"], row["dur_ns"]) for row in answers(report, *rows, **options)]


def notes(report: str, *rows: Row) -> list[tuple[str, int]]:
    found = asked(report, *rows).notes
    return [(note.slug, note.count) for note in found if note.slug != "rule-answer"]


def called(name: str, *ops: Memcpy | Memset, start: int = 0) -> tuple[Row, ...]:
    """Operations, each with a call of that name which ends where it begins."""
    calls = [Call(start, op.start or 5, i, name=name) for i, op in enumerate(ops, 1)]
    return (*calls, *(op._replace(correlation=i) for i, op in enumerate(ops, 1)))


# -- what a rule says above its rows


def said(report: str, *rows: Row, **options: Any) -> str:
    answered = asked(report, *rows, **options)
    (line,) = [note.text for note in answered.notes if note.slug == "rule-answer"]
    assert [each.lines for each in answered.texts] == [(line,)]
    return line


@pytest.mark.parametrize(("rule", "rows", "line"), [
    ("cuda_memcpy_async", ("cudaMemcpyAsync", Memcpy(10, 30, src="Pinned", dst="Device")),
     "none of 1 asynchronous copy is from or to pageable memory"),
    ("cuda_memcpy_async", ("cudaMemcpy", Memcpy(10, 30)), "there is no asynchronous copy"),
    ("cuda_memcpy_sync", ("cudaMemcpy", Memcpy(10, 30, bytes=500), Memcpy(30, 40, bytes=2_000)),
     "no synchronous copy but 2 to the device of less than 65.54 kB (largest: 2.00 kB)"),
    ("cuda_memcpy_sync", ("cudaMemcpyAsync", Memcpy(10, 30), Memcpy(30, 40)),
     "none of 2 copies is synchronous"),
    ("cuda_memset_sync", ("cudaMemset", Memset(10, 30, memory="Device"), Memset(30, 40, memory="Device")),
     "none of 2 synchronous memsets is of pinned or managed memory"),
    ("cuda_api_sync", ("cudaMemset", Memset(10, 30)),
     "none of 1 API call waits for a device or a stream"),
])  # fmt: skip
def test_a_rule_without_rows_says_what_it_looked_at(
    rule: str, rows: tuple[str, *tuple[Memcpy | Memset, ...]], line: str
) -> None:
    assert said(rule, *called(*rows)) == f"Nothing found: {line}."


def test_a_rule_on_times_without_rows_says_what_came_nearest() -> None:
    """Gaps of 200 and 300 ns; of the halves of 500 ns 300 and 200 are in use."""
    rows = (Kernel(0, 300), Kernel(500, 600), Kernel(900, 1000))
    assert said("gpu_gaps", *rows) == "Nothing found: no gap of 500 ms or more (longest: 300 ns)."
    assert said("gpu_gaps", Kernel(0, 9)) == "Nothing found: no gap of 500 ms or more (no gap at all)."
    assert said("gpu_gaps") == "Nothing found: no process used a device."
    lowest = "no part of 2 of the time in use for less than 40 % (lowest: 40.0 %)"
    assert said("gpu_time_util:chunks=2:threshold=40", *rows) == f"Nothing found: {lowest}."


@pytest.mark.parametrize("limit", [0, 1])
def test_a_rule_says_what_its_rows_cost_in_all(limit: int) -> None:
    """Copies of 20 and 30 ns, and one without a time; calls [0, 10), [0, 50) and [0, 5)."""
    copies = called("cudaMemcpyAsync", Memcpy(10, 30), Memcpy(50, 80), Memcpy(None, None))
    assert said("cuda_memcpy_async", *copies, limit=limit).startswith(
        "3 asynchronous copies of pageable memory: 50 ns in total, their calls 65 ns. Use pinned")
    waits = [Call(start, start + 20, name="cudaDeviceSynchronize") for start in (0, 50)]
    assert said("cuda_api_sync", *waits, limit=limit).startswith("2 calls waited 40 ns in total. ")
    kernels = (Kernel(0, 100), Kernel(2_000_100, 2_000_200), Kernel(4_000_200, 4_000_400))
    assert said("gpu_gaps:gap=1", *kernels, limit=limit).startswith(
        "2 gaps of 1 ms or more: 4.00 ms in total, 100.0 % of the time in which ")
    # Of [0, 500) 110 ns are in use.
    sparse = (Kernel(0, 100), Kernel(300, 310), Kernel(500, 1000))
    assert said("gpu_time_util:chunks=2:threshold=50", *sparse, limit=limit).startswith(
        "1 stretch of low use: 500 ns in total, the device unused for 390 ns of it. ")


def test_a_call_of_several_copies_counts_once() -> None:
    rows = (Call(0, 10, 1, name="cudaMemcpyAsync"), Memcpy(10, 30, 1), Memcpy(30, 40, 1))
    assert "2 asynchronous copies of pageable memory: 30 ns in total, their calls 10 ns." in said(
        "cuda_memcpy_async", *rows)  # fmt: skip


def test_what_a_rule_says_is_a_note_for_programs_only() -> None:
    report = asked("gpu_gaps", Kernel(0, 9))
    line = "Nothing found: no gap of 500 ms or more (no gap at all)."
    (found,) = json.loads(rendered("json", report))["reports"]
    first = found["notes"][0]
    assert (first["slug"], first["text"]) == ("rule-answer", line)
    assert line in rendered("text", report) and "rule-answer" not in rendered("text", report)
    assert line in rendered("markdown", report)


def test_each_profile_says_its_own_and_of_many_the_first(tmp_path: Path) -> None:
    for rank in range(10):
        rows = (Kernel(0, 9), Kernel(20 + rank, 40))
        write(tmp_path / "job.db", *rows, ranks={1: rank}, label=f"worker-{rank}", run="job")
    (report,) = api.report_on(tmp_path / "job.db", ["gpu_gaps"])
    lines = [line for each in report.texts for line in each.lines]
    assert lines[1] == "worker-1: Nothing found: no gap of 500 ms or more (longest: 12 ns)."
    assert len(lines) == 9
    assert lines[-1] == "and 2 more profiles"


EVERYTHING = (
    Call(300, 400, name="cudaFree"), Call(None, None, name="cudaFree"),
    Call(0, 10, 1, name="cudaMemcpyAsync"), Memcpy(20, 40, 1),
    Call(50, 90, 2, name="cudaMemcpy"), Memcpy(60, 85, 2, direction="DtoH"),
    Call(100, 150, 3, name="cudaMemset"), Memset(110, 130, 3, memory="Pinned"),
    Call(200, 290, 4, name="cudaDeviceSynchronize"),
    Kernel(500 * MS, 501 * MS), Kernel(900 * MS, 901 * MS),
)  # fmt: skip
"""One finding for each rule but gpu_time_util; calls neither in time order nor all with a time."""


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which another profile's rows stand before those of EVERYTHING."""
    path = tmp_path_factory.mktemp("second") / "both.db"
    import_file(next(file for file in NSYS_FILES if "basic" in file.name), path)
    write(path, *EVERYTHING)
    return path


def began(path: Path, table: str, row_id: int) -> int:
    """When the row with this id began, as the store tells."""
    with looking(path) as connection:
        ((start,),) = connection.execute(f"SELECT start_ns FROM {table} WHERE id = {row_id}")
    return int(start)


@pytest.mark.parametrize(("rule", "column", "table", "start"), [
    ("cuda_memcpy_async", "memcpy_id", "memcpy", 20),
    ("cuda_memcpy_async", "call_id", "api_call", 0),
    ("cuda_memcpy_sync", "memcpy_id", "memcpy", 60),
    ("cuda_memcpy_sync", "call_id", "api_call", 50),
    ("cuda_memset_sync", "memset_id", "memset", 110),
    ("cuda_memset_sync", "call_id", "api_call", 100),
    ("cuda_api_sync", "call_id", "api_call", 200),
    ("gpu_gaps:gap=450", "before_id", "memset", 110),
    ("gpu_gaps:gap=450", "after_id", "kernel", 500 * MS),
    ("gpu_time_util:chunks=1", "first_id", "memcpy", 20),
    ("gpu_time_util:chunks=1", "last_id", "kernel", 900 * MS),
])  # fmt: skip
def test_a_finding_names_its_rows(
    second: Path, rule: str, column: str, table: str, start: int
) -> None:
    with api.open(f"{second}@small") as profile:
        (row,) = profile.report(rule).rows()
    assert (
        began(second, row.get(f"{column.removesuffix('_id')}_table", table), row[column]) == start
    )
    assert row.get(f"{column.removesuffix('_id')}_table", table) == table


def test_in_place_ids_are_those_of_an_import(tmp_path: Path) -> None:
    """Where one table of the source holds rows of two tables of the store."""
    source = next(file for file in NSYS_FILES if "unified_memory" in file.name)
    import_file(source, tmp_path / "store.db")
    with api.open(source) as place, api.open(tmp_path / "store.db") as imported:
        for rule in RULES:
            found = [[{**row, "profile": None} for row in profile.report(rule).rows()]
                     for profile in (place, imported)]  # fmt: skip
            assert found[0] == found[1], rule


# -- copies and memsets with their calls

PAGEABLE = Memcpy(10, 30)


def each_called(*named: tuple[str, Memcpy | Memset]) -> list[Row]:
    """An operation after the other, each with a call of its own name."""
    rows: list[Row] = []
    for i, (name, op) in enumerate(named, 1):
        rows += [Call(100 * i, 100 * i + 10, i, name=name),
                 op._replace(start=100 * i + 10, end=100 * i + 30, correlation=i)]  # fmt: skip
    return rows


def in_time(report: str, rows: Sequence[Row], *columns: str) -> list[tuple[Any, ...]]:
    """Cells of the findings in the order in which they began."""
    found = sorted(answers(report, *rows), key=itemgetter("start_ns"))
    return [tuple(row[column] for column in columns) for row in found]


def test_pageable_memory_at_either_end_is_found() -> None:
    found = [("Pageable", "Device"), ("Device", "Pageable"), ("Pageable", None)]
    others = [("Pinned", "Device"), ("Managed", "Device"), ("Device", "Device")]
    rows = each_called(*(("cudaMemcpyAsync", Memcpy(0, 0, src=src, dst=dst))
                         for src, dst in (*found, *others)))  # fmt: skip
    assert in_time("cuda_memcpy_async", rows, "src_kind", "dst_kind") == found


NAMES = {
    "cudaMemcpyAsync": "async", "cudaMemcpy2DToArrayAsync": "async", "cudaMemcpyAsync_v7000": "async",
    "cuMemcpyHtoDAsync": "async", "hipMemcpyAsync": "async", "cudaMemcpy": "sync",
    "cudaMemcpyToSymbol": "sync", "cuMemcpyHtoD": "sync", "hipMemcpyWithStream": "sync",
    "cudaGraphLaunch": None, "cudaMemPrefetchAsync": None, "cudaMemset": None, "MycudaMemcpy": None,
}  # fmt: skip


def test_the_function_decides_which_rule_takes_a_copy() -> None:
    rows = each_called(*((name, Memcpy(0, 0, direction="DtoH")) for name in NAMES))
    for rule in ("async", "sync"):
        starts = [100 * i + 10 for i, each in enumerate(NAMES.values(), 1) if each == rule]
        assert in_time(f"cuda_memcpy_{rule}", rows, "start_ns") == [(start,) for start in starts]


def test_equal_correlation_ids_of_two_processes_are_not_mixed_up() -> None:
    """Both copies have the id 1; process 1 copied asynchronously, process 2 did not."""
    rows = (
        Call(0, 5, 1, name="cudaMemcpyAsync"), Memcpy(10, 30, 1, bytes=100_000),
        Call(0, 50, 1, name="cudaMemcpy", pid=2), Memcpy(12, 45, 1, pid=2, bytes=100_000),
    )  # fmt: skip
    for rule, pid, start, call_dur in (("async", 1, 10, 5), ("sync", 2, 12, 50)):
        row = only(f"cuda_memcpy_{rule}", *rows)
        assert (row["pid"], row["start_ns"], row["call_dur_ns"]) == (pid, start, call_dur)


def test_the_outer_of_two_calls_is_the_one_that_copied() -> None:
    rows = (Call(0, 50, 1, name="cudaMemcpy"), Call(5, 45, 1, "driver", name="cuMemcpyHtoDAsync"),
            Memcpy(10, 40, 1, bytes=100_000))  # fmt: skip
    assert answers("cuda_memcpy_async", *rows) == []
    assert only("cuda_memcpy_sync", *rows)["name"] == "cudaMemcpy"


@pytest.mark.parametrize(("rule", "copies"), [
    ("cuda_memcpy_async", called("cudaMemcpyAsync", PAGEABLE, Memcpy(50, 60, src=None),
                                 Memcpy(70, 80, src="Pinned", dst="Unknown"))),
    ("cuda_memset_sync", called("cudaMemset", Memset(10, 30, memory="Pinned"),
                                Memset(50, 60, memory=None), Memset(70, 80, memory="Unknown"))),
])  # fmt: skip
def test_ops_without_kind_of_memory_are_noted_and_no_finding(
    rule: str, copies: tuple[Row, ...]
) -> None:
    assert notes(rule, *copies) == [("memory-kind-unknown", 2)]
    assert pairs(rule, *copies) == [(10, 20)]


@pytest.mark.parametrize(("rule", "copies", "words"), [
    ("cuda_memcpy_async", called("cudaMemcpyAsync", Memcpy(10, 30, src=None, dst=None)),
     "memory kinds of copies"),
    ("cuda_memcpy_async", called("cudaMemcpyAsync", Memcpy(10, 30, src=None),
                                 Memcpy(50, 60, src="Unknown")), "memory kinds of copies"),
    ("cuda_memset_sync", called("cudaMemset", Memset(10, 30, memory=None)),
     "memory kinds of memsets"),
])  # fmt: skip
def test_rule_that_can_judge_no_op_is_not_recorded(
    rule: str, copies: tuple[Row, ...], words: str
) -> None:
    with opened(*copies) as profile:
        with pytest.raises(
            NotRecorded, match=f"{rule}: not recorded in this profile: {words}"
        ) as error:
            profile.report(rule)
        (report,) = profile.reports([rule])
    assert error.value.missing == (words,)
    assert (report.table, report.not_recorded) == (None, (words,))


@pytest.mark.parametrize(("rule", "rows"), [
    ("cuda_memcpy_async", called("cudaMemcpy", Memcpy(10, 30, src=None, dst=None))),
    ("cuda_memset_sync", called("cudaMemsetAsync", Memset(10, 30, memory=None))),
])  # fmt: skip
def test_without_such_a_call_no_kind_of_memory_is_needed(rule: str, rows: tuple[Row, ...]) -> None:
    assert answers(rule, *rows) == []
    assert notes(rule, *rows) == []


test_copies_by_hand = hand_computed(
    ("a copy without a call is no finding", pairs,
     ("cuda_memcpy_async", *called("cudaMemcpyAsync", PAGEABLE), Memcpy(50, 60, 99)), [(10, 20)]),
    ("longest first then in time order and those without a time last",
     "cuda_memcpy_async start_ns dur_ns",
     called("cudaMemcpyAsync", Memcpy(None, None), Memcpy(10, 20), Memcpy(50, 70), Memcpy(30, 40)),
     [(50, 20), (10, 10), (30, 10), (None, None)]),
    ("a slice takes whole copies that intersect it", pairs,
     ("cuda_memcpy_async", *called("cudaMemcpyAsync", Memcpy(10, 30), Memcpy(50, 70))), [(50, 20)],
     {"time": (60, 65)}),
    ("a finding with one kind of memory needs no note", notes,
     ("cuda_memcpy_async", *called("cudaMemcpyAsync", Memcpy(10, 30, dst=None))), []),
    ("a name is the documented one", "cuda_memcpy_async name",
     (*called("cudaMemcpyAsync_v7000", PAGEABLE),), ["cudaMemcpyAsync"]),
    ("synchronous copies need no kinds of memory", "cuda_memcpy_sync src_kind dst_kind",
     (*called("cudaMemcpy", Memcpy(10, 30, bytes=70_000, src=None, dst=None)),), [(None, None)]),
)  # fmt: skip


def test_copies_to_the_device_of_64_kib_do_not_count() -> None:
    found = [("HtoD", 65_537), ("HtoD", None), ("DtoH", 4), ("DtoD", 4), ("HtoH", 4)]
    rows = each_called(*(("cudaMemcpy", Memcpy(0, 0, direction=direction, bytes=size))
                         for direction, size in (("HtoD", 65_536), *found)))  # fmt: skip
    assert in_time("cuda_memcpy_sync", rows, "direction", "bytes") == found


@pytest.mark.parametrize(("smallest", "count"), [(0, 2), (1000, 2), (1001, 1), (2001, 0)])
def test_min_bytes_is_the_smallest_that_counts(smallest: int, count: int) -> None:
    rows = called("cudaMemcpy", Memcpy(10, 30, bytes=1000), Memcpy(50, 60, bytes=2000))
    assert len(answers(f"cuda_memcpy_sync:min_bytes={smallest}", *rows)) == count


KINDS = {"Pinned": True, "Managed": True, "Managed Static": True, "Device": False,
         "Pageable": False, "Device Static": False}  # fmt: skip


def test_sets_of_pinned_and_managed_memory_are_found() -> None:
    rows = each_called(*(("cudaMemset2D", Memset(0, 0, memory=kind)) for kind in KINDS))
    found = in_time("cuda_memset_sync", rows, "memory_kind")
    assert found == [(kind,) for kind, is_found in KINDS.items() if is_found]


def test_asynchronous_sets_are_no_findings() -> None:
    names = ("cudaMemset", "cuMemsetD8", "cudaMemsetAsync", "cuMemsetD8Async", "cudaMemcpy")
    rows = each_called(*((name, Memset(0, 0, memory="Pinned")) for name in names))
    assert in_time("cuda_memset_sync", rows, "name") == [("cudaMemset",), ("cuMemsetD8",)]


def test_finding_has_the_values_of_its_row() -> None:
    rows = called(
        "cudaMemcpy", Memcpy(10, 30, stream=9, device=3, direction="DtoH", bytes=5, pid=1)
    )
    row = only("cuda_memcpy_sync", *rows, ranks={1: 6})
    assert {key: row[key] for key in ("rank", "pid", "device_id", "stream_id", "direction", "bytes",
                                      "src_kind", "dst_kind")} == {
        "rank": 6, "pid": 1, "device_id": 3, "stream_id": 9, "direction": "DtoH", "bytes": 5,
        "src_kind": "Pageable", "dst_kind": "Device"}  # fmt: skip


# -- calls that wait


def test_calls_that_wait_for_a_device_or_stream_are_found() -> None:
    waiting = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaStreamSynchronize_ptsz",
               "cudaThreadSynchronize", "cuCtxSynchronize", "cuStreamSynchronize",
               "hipDeviceSynchronize", "hipStreamSynchronize")  # fmt: skip
    others = ("cudaEventSynchronize", "cudaStreamWaitEvent", "cudaMemcpy")
    calls = [Call(100 * i, 100 * i + 9, name=name) for i, name in enumerate((*waiting, *others))]
    found = in_time("cuda_api_sync", calls, "start_ns")
    assert found == [(100 * i,) for i in range(len(waiting))]


test_calls_that_wait_by_hand = hand_computed(
    ("call inside another is not listed", "cuda_api_sync name dur_ns",
     (Call(0, 100, name="cudaDeviceSynchronize"), Call(10, 90, 0, "driver", name="cuCtxSynchronize"),
      Call(200, 250, 0, "driver", name="cuCtxSynchronize")),
     [("cudaDeviceSynchronize", 100), ("cuCtxSynchronize", 50)]),
    ("waiting calls have their thread and process", "cuda_api_sync rank pid tid",
     (Call(0, 100, name="cudaDeviceSynchronize", pid=2, tid=22),
      Call(0, 90, name="cudaDeviceSynchronize", tid=None)), [(5, 2, 22), (None, 1, None)],
     {"ranks": {2: 5}}),
    ("a slice takes whole waiting calls", pairs,
     ("cuda_api_sync", Call(0, 100, name="cudaDeviceSynchronize"),
      Call(150, 200, name="cudaDeviceSynchronize")), [(0, 100)], {"time": (50, 60)}),
)


# -- gaps


def gaps(*rows: Row, **options: Any) -> list[tuple[int, int]]:
    """All gaps, however short."""
    return pairs("gpu_gaps:gap=0", *rows, **options)


def test_each_process_on_each_device_has_its_own_gaps() -> None:
    """Device 0 is never idle between 0 and 60, but each of its processes leaves it unused."""
    rows = (Kernel(0, 10), Kernel(40, 50), Kernel(10, 40, pid=2), Kernel(50, 60, pid=2),
            Kernel(0, 5, device=1), Kernel(25, 30, device=1))  # fmt: skip
    assert answers("idle_gaps", *rows[:4]) == []
    assert [(row["pid"], row["device_id"], row["start_ns"], row["dur_ns"])
            for row in answers("gpu_gaps:gap=0", *rows)] == [
        (1, 0, 10, 30), (1, 1, 5, 20), (2, 0, 40, 10)]  # fmt: skip


@pytest.mark.parametrize("overhead", [Overhead(30, 60, pid=2), Overhead(30, 60, kind="driver")])
def test_other_overhead_is_no_use(overhead: Overhead) -> None:
    assert gaps(Kernel(0, 10), Kernel(100, 110), overhead) == [(10, 90)]


LATE = 2_000_000_000


def neighbors(*rows: Row, **options: Any) -> list[tuple[object, ...]]:
    names = ("before_table", "before_id", "after_table", "after_id")
    found = answers("gpu_gaps:gap=0", *rows, **options)
    return [tuple(row[name] for name in names) for row in found]


def test_a_slice_of_a_process_has_no_gaps_of_another() -> None:
    rows = (Kernel(0, 10), Kernel(100, 110), Kernel(0, 10, pid=2), Kernel(30, 40, pid=2))
    assert gaps(*rows, part=api.Slice(processes=(2,))) == [(10, 20)]
    assert gaps(*rows, part=api.Slice((5, 50), processes=(2,))) == [(10, 20), (40, 10)]


test_gaps_by_hand = hand_computed(
    # 500 ms and a ns less: both are gaps, one is listed.
    ("a gap as long as the threshold is listed", pairs,
     ("gpu_gaps", Kernel(0, MS), Kernel(501 * MS, 502 * MS), Kernel(1002 * MS - 1, 1003 * MS)),
     [(MS, 500 * MS)]),
    ("the threshold is in milliseconds and may have decimals", pairs,
     ("gpu_gaps:gap=0.001501", Kernel(0, 100), Kernel(1_600, 1_700), Kernel(3_201, 3_300)),
     [(1_700, 1_501)]),
    ("equal gaps come in time order then by process", "gpu_gaps:gap=0 start_ns pid",
     (Kernel(0, 10, pid=2), Kernel(20, 30, pid=2), Kernel(40, 50, pid=2), Kernel(20, 30), Kernel(40, 50)),
     [(10, 2), (30, 1), (30, 2)]),
    # [10, 100) without [30, 60).
    ("profiler overhead is use and parts a gap", gaps,
     (Kernel(0, 10), Kernel(100, 110), Overhead(30, 60)), [(60, 40), (10, 20)]),
    ("overhead at the edge of a gap shortens it", gaps,
     (Kernel(0, 10), Kernel(100, 110), Overhead(5, 30), Overhead(90, 200)), [(30, 60)]),
    ("overhead beside the window makes no gap", gaps,
     (Kernel(100, 110), Overhead(0, 50), Overhead(300, 400)), []),
    # The operations start two seconds after their calls: the overhead's time is another clock's.
    ("where clocks disagree overhead is not taken out", gaps,
     (Call(0, 5, 1), Kernel(LATE, LATE + 10, 1), Kernel(LATE + 100, LATE + 110),
      Overhead(LATE + 30, LATE + 60)), [(LATE + 10, 90)]),
    # Migrations at the edges make the window no longer.
    ("every kind of operation is use", gaps,
     (Migration(0, 10), Kernel(100, 110), Memcpy(120, 130), Memset(140, 150), Graph(160, 170),
      Migration(180, 190), Kernel(200, 210), Migration(300, 310)),
     [(110, 10), (130, 10), (150, 10), (170, 10), (190, 10)]),
    ("a gap names the operations beside it", neighbors, (Kernel(0, 10), Kernel(1, 5), Memcpy(100, 110)),
     [("kernel", 1, "memcpy", 1)]),
    ("of several beside a gap the last to begin and the lowest stream count", neighbors,
     (Kernel(0, 10), Kernel(5, 10), Memcpy(100, 110, stream=9), Kernel(100, 105, stream=8)),
     [("kernel", 2, "kernel", 3)]),
    ("overhead between hides no neighbor", neighbors, (Kernel(0, 10), Kernel(100, 110), Overhead(30, 60)),
     [("kernel", 1, "kernel", 2)] * 2),
    ("a process that does nothing in a slice has one gap", gaps,
     (Kernel(0, 10), Kernel(100, 110), Kernel(0, 210, pid=2)), [(20, 70)], {"time": (20, 90)}),
    ("the example of the documentation", gaps, (Kernel(0, 100), Overhead(310, 390), Kernel(650, 800)),
     [(390, 260), (100, 210)]),
    ("the example of the documentation (2)", neighbors,
     (Kernel(0, 100), Overhead(310, 390), Kernel(650, 800)), [("kernel", 1, "kernel", 2)] * 2),
    ("an operation without length parts no gap and is not beside it", gaps,
     (Kernel(0, 10), Memset(50, 50), Kernel(100, 110)), [(10, 90)]),
    ("an operation without length parts no gap and is not beside it (2)", neighbors,
     (Kernel(0, 10), Memset(50, 50), Kernel(100, 110)), [("kernel", 1, "kernel", 2)]),
    ("gap cut by slice has no neighbor there", gaps,
     (Kernel(0, 10), Kernel(100, 110), Kernel(200, 210)), [(50, 50), (110, 40)], {"time": (50, 150)}),
    ("gap cut by slice has no neighbor there (2)", neighbors,
     (Kernel(0, 10), Kernel(100, 110), Kernel(200, 210)),
     [(None, None, "kernel", 2), ("kernel", 2, None, None),], {"time": (50, 150)}),
    ("operations without a time are no use", gaps, (Kernel(0, 10), Kernel(None, None), Kernel(30, 40)),
     [(10, 20)]),
    ("operations without a time are no use (2)", gaps, (Kernel(None, None),), []),
)  # fmt: skip


# -- low use


def low(options: str, *rows: Row, **more: Any) -> list[tuple[int, int, int, float]]:
    return [(row["start_ns"], row["dur_ns"], row["in_use_ns"], row["in_use_pct"])
            for row in answers(f"gpu_time_util:{options}", *rows, **more)]  # fmt: skip


def test_a_chunk_in_use_for_the_threshold_is_not_low() -> None:
    """Chunks of 100: [0, 100) 50 %, [100, 200) 49 %, [200, 300) 100 %."""
    rows = (Kernel(0, 50), Kernel(100, 149), Kernel(200, 300))
    assert low("chunks=3", *rows) == [(100, 100, 49, 49.0)]
    assert low("chunks=3:threshold=51", *rows) == [(0, 200, 99, 49.5)]


def test_the_last_chunk_ends_with_the_window() -> None:
    """100 ns in 3 chunks: ceil(100 / 3) = 34, so [0, 34) [34, 68) [68, 100); the last has 32 ns, of
    which the 8 from 92 on are in use, 25 %; of the middle one 2 of 34 ns.
    """
    rows = (Kernel(0, 36), Kernel(92, 100))
    assert low("chunks=3", *rows) == [(34, 66, 10, 100 * 10 / 66)]
    assert low("chunks=3:threshold=10", *rows) == [(34, 34, 2, 100 * 2 / 34)]


def test_lowest_first_then_longest_then_in_time_order() -> None:
    """Ten chunks of 10 ns; two of those without any use stand side by side."""
    used = (10, 2, 10, 0, 10, 0, 0, 10, 0, 10)
    rows = [Kernel(10 * i, 10 * i + use) for i, use in enumerate(used) if use]
    assert [row[:3] for row in low("chunks=10", *rows)] == [
        (50, 20, 0), (30, 10, 0), (80, 10, 0), (10, 10, 2)]  # fmt: skip


def evidence(*rows: Row, **more: Any) -> tuple[object, ...]:
    row = only("gpu_time_util:chunks=2", *rows, **more)
    return tuple(row[name] for name in (
        "gpu_op_count", "first_table", "first_id", "last_table", "last_id"))  # fmt: skip


test_low_use_by_hand = hand_computed(
    # The window [0, 1000) in chunks of 250:
    # [0, 250)      all in use
    # [250, 500)    K1 to 300: 50 of 250, 20 %
    # [500, 750)    nothing, 0 %
    # [750, 1000)   K2 from 800: 200 of 250, 80 %
    # The middle two: 50 of 500 ns, 10 %.
    ("low chunks that follow each other are one row", low,
     ("chunks=4", Kernel(0, 300), Kernel(800, 1000)), [(250, 500, 50, 10.0)]),
    # 11 ns in 10 chunks: ceil(11 / 10) = 2, so 6 chunks, the last [10, 11).
    ("chunks are fewer where their length is rounded up", low,
     ("chunks=10", Kernel(0, 6), Kernel(10, 11)), [(6, 4, 0, 0.0)]),
    # K1 and K2 cover 40 of the 100 ns together; added up they would be 80.
    ("operations that overlap count once", low,
     ("chunks=1", Kernel(0, 40), Kernel(0, 40, stream=8), Memset(100, 100)), [(0, 100, 40, 40.0)]),
    # [0, 100): the kernels 20, overhead [10, 30) and [90, 200) 20 + 5 more.
    ("overhead counts as use inside the window", low,
     ("chunks=1", Kernel(0, 10), Kernel(95, 100), Overhead(10, 30), Overhead(90, 200)),
     [(0, 100, 40, 40.0)]),
    ("each process on each device has its own chunks",
     "gpu_time_util:chunks=1 rank pid device_id in_use_pct",
     (Kernel(0, 10), Kernel(90, 100), Kernel(10, 90, pid=2), Kernel(0, 10, device=1),
      Kernel(40, 50, device=1)), [(4, 1, 0, 20.0), (4, 1, 1, 40.0)], {"ranks": {1: 4}}),
    # [50, 150) in two chunks: [50, 100) unused, [100, 150) 10 of 50.
    ("a slice is the window", low,
     ("chunks=2:threshold=20", Kernel(0, 10), Kernel(100, 110), Kernel(200, 210)), [(50, 50, 0, 0.0)],
     {"time": (50, 150)}),
    # [100, 200): the copy reaches 10 ns into it, the kernel [20, 30) was over before, the set has no
    # length and begins where it begins, the other kernel and the graph lie in it.
    ("a finding names the first and the last operation in it", evidence,
     (Memcpy(0, 110), Kernel(20, 30), Memset(100, 100), Kernel(150, 160), Graph(190, 200)),
     (4, "memcpy", 1, "graph_launch", 1)),
    ("a finding without operations names none", evidence, (Kernel(0, 60), Kernel(300, 310)),
     (0, None, None, None, None), {"time": (0, 200)}),
)


# -- against slow, obvious versions

LAST = 60


@st.composite
def operations(draw: st.DrawFn) -> tuple[list[Op], list[Overhead]]:
    """Some operations of two processes on two devices, and the profiler's work, within LAST ns."""

    def interval() -> tuple[int, int]:
        start = draw(st.integers(1, LAST - 1))  # [0, 0) stands for no time
        return start, draw(st.integers(start, min(start + 15, LAST)))

    where = st.sampled_from([(1, 0), (1, 1), (2, 0)])
    ops: list[Op] = []
    for _ in range(draw(st.integers(1, 8))):
        (start, end), (pid, device) = interval(), draw(where)
        kind = draw(st.sampled_from([Kernel, Memcpy, Memset, Graph]))
        ops.append(kind(start, end, pid=pid, device=device))
    overheads = [Overhead(*interval(), pid=draw(st.sampled_from([1, 2])))
                 for _ in range(draw(st.integers(0, 3)))]  # fmt: skip
    return ops, overheads


Used = dict[tuple[int, int], tuple[int, int, np.ndarray]]


def slowly(ops: list[Op], overheads: list[Overhead]) -> Used:
    """Per process and device the window, and per ns whether it is in use."""
    found: Used = {}
    for pid, device in sorted({(op.pid, op.device or 0) for op in ops}):
        mine = [op for op in ops if (op.pid, op.device) == (pid, device)]
        used = np.zeros(LAST + 2, bool)
        for row in (*mine, *(each for each in overheads if each.pid == pid)):
            used[row.start : row.end] = True
        low, high = min(op.start or 0 for op in mine), max(op.end or 0 for op in mine)
        if high > low:
            found[pid, device] = low, high, used
    return found


@given(operations(), st.integers(0, 20))
def test_gaps_are_those_of_a_slow_version(
    drawn: tuple[list[Op], list[Overhead]], shortest: int
) -> None:
    wanted = []
    for (pid, device), (low, high, used) in slowly(*drawn).items():
        start = None
        for moment in range(low, high + 1):
            idle = moment < high and not used[moment]
            if idle and start is None:
                start = moment
            elif not idle and start is not None:
                wanted.append((pid, device, start, moment - start))
                start = None
    found = answers(f"gpu_gaps:gap={shortest / MS:.6f}", *drawn[0], *drawn[1])
    assert sorted((row["pid"], row["device_id"], row["start_ns"], row["dur_ns"]) for row in found) == [
        gap for gap in sorted(wanted) if gap[3] >= shortest]  # fmt: skip


@given(operations(), st.integers(1, 12), st.integers(0, 100))
def test_low_use_is_that_of_a_slow_version(
    drawn: tuple[list[Op], list[Overhead]], chunks: int, threshold: int
) -> None:
    wanted = []
    for (pid, device), (low, high, used) in slowly(*drawn).items():
        size = next(n for n in range(1, LAST + 2) if n * chunks >= high - low)
        run: list[int] = []
        for start in [*range(low, high, size), high]:
            end = min(start + size, high)
            inside = used[start:end]
            if start < high and 100 * inside.sum() < threshold * len(inside):
                run += range(start, end)
            elif run:
                wanted.append((pid, device, run[0], len(run), int(used[run].sum())))
                run = []
    spec = f"gpu_time_util:chunks={chunks}:threshold={threshold}"
    rows = answers(spec, *drawn[0], *drawn[1])
    names = ("pid", "device_id", "start_ns", "dur_ns", "in_use_ns")
    assert sorted(tuple(row[name] for name in names) for row in rows) == sorted(wanted)
    for row in rows:
        start, end = row["start_ns"], row["start_ns"] + row["dur_ns"]
        here = [(op.start or 0, op.end or 0) for op in drawn[0]
                if (op.pid, op.device) == (row["pid"], row["device_id"])]  # fmt: skip
        touching = [(s, e) for s, e in here if s < end and (e > start or s >= start)]
        assert row["gpu_op_count"] == len(touching)
    assert [row["in_use_pct"] for row in rows] == sorted(row["in_use_pct"] for row in rows)


# -- plain SQL on the source

IN_ITS_PROCESS = """
    SELECT op."end" - op.start, op.bytes, name.value, {}
    FROM CUPTI_ACTIVITY_KIND_{} op
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME call ON call.correlationId = op.correlationId
        AND call.globalTid / 16777216 = op.globalPid / 16777216
    JOIN StringIds name ON name.id = call.nameId
    WHERE call.eventClass IN (0, 1) AND op.correlationId <> 0"""
PINNED_OR_MANAGED = (1, 4, 6)
HTOD = 1


@real
@pytest.mark.parametrize("path", few(REAL_FILES, 2), ids=name_of)
def test_copies_and_sets_against_sql(path: Path) -> None:
    def joined(table: str, *columns: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as source:
            known = {name for (name,) in source.execute("SELECT name FROM sqlite_master")}
            if not {f"CUPTI_ACTIVITY_KIND_{table}", "CUPTI_ACTIVITY_KIND_RUNTIME"} <= known:
                return []
            return list(source.execute(IN_ITS_PROCESS.format(", ".join(columns), table)))

    copies = joined("MEMCPY", "op.srcKind", "op.dstKind", "op.copyKind")
    sets = joined("MEMSET", "op.memKind")
    wanted = {
        "cuda_memcpy_async": [(dur, size) for dur, size, name, src, dst, _ in copies
                              if re.match("cu(da)?Memcpy.*Async", name) and 0 in (src, dst)],
        "cuda_memcpy_sync": [(dur, size) for dur, size, name, _, _, kind in copies
                             if re.match("cu(da)?Memcpy(?!.*Async)", name)
                             and (kind != HTOD or size > 65_536)],
        "cuda_memset_sync": [(dur, size) for dur, size, name, kind in sets
                             if re.match("cu(da)?Memset(?!.*Async)", name)
                             and kind in PINNED_OR_MANAGED],
    }  # fmt: skip
    with api.open(path) as profile:
        if not {Fact.MEMCPYS, Fact.API_LINKS} <= profile.profile.facts:
            pytest.skip("not recorded in this file")
        found = {rule: Counter((row["dur_ns"], row["bytes"]) for row in profile.report(rule).rows())
                 for rule in wanted}  # fmt: skip
    assert found == {rule: Counter(rows) for rule, rows in wanted.items()}
