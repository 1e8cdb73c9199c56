"""Cycles: one process that left several recordings, one after the other, is one rank."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, few, real

import nsysconv
from nsysconv.queries.cycles import Member, Session, are_ranks, cycles_of
from nsysconv.store.location import reading

BASE = 1_752_000_000_000_000_000
CYCLE_US = 5_000


def _write(
    folder: Path, rank: int, cycle: int, *, late: int = 0, skew: int = 0, host: str | None = "host",
    ranked: bool = True, ranks: int = 2, named: str = "{rank}.{cycle}",
) -> Path:  # fmt: skip
    """A step of a rank in a cycle: a product, then an all-reduce to which odd ranks come 50 us early."""
    begin = 1000 + CYCLE_US * cycle + late
    events: list[dict[str, Any]] = []
    for i, (name, at, dur) in enumerate(
        [("gemm", 10, 700), ("ncclDevKernel_AllReduce_Sum_f32", 800 - 50 * (rank % 2),
                             100 + 50 * (rank % 2))]
    ):  # fmt: skip
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 700 + rank,
                "tid": 1, "ts": begin + at - 8, "dur": 4, "args": {"correlation": i + 1}}  # fmt: skip
        kernel = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": begin + at,
                  "dur": dur, "args": {"device": 0, "stream": 7, "correlation": i + 1}}  # fmt: skip
        events += [call, kernel]
    trace = {"schemaVersion": 1, "baseTimeNanoseconds": BASE + skew, "traceEvents": events}
    trace |= {"host_name": host} if host else {}
    trace |= {"distributedInfo": {"rank": rank, "world_size": ranks}} if ranked else {}
    path = folder / f"w_{named.format(rank=rank, cycle=cycle)}.pt.trace.json"
    path.write_text(json.dumps(trace, indent=1))
    return path


def _reports(target: Path, *names: str) -> list[list[dict[str, Any]]]:
    return [report.rows() for report in nsysconv.report_on(target, names)]


def _slugs(target: Path, name: str = "rank_summary") -> set[str]:
    return {note.slug for note in nsysconv.report_on(target, name)[0].notes}


def test_cycles_of_a_rank_are_one_rank() -> None:
    """Process 7 recorded from 0 to 10 and from 20 to 30; process 8, all the while."""
    times = {"a": (7, 0, 10), "b": (7, 20, 30), "c": (8, 0, 30)}
    members = [Member(n, label, "kineto", label, Session(frozenset({("host", None, pid)}), start, end))
               for n, (label, (pid, start, end)) in enumerate(times.items())]  # fmt: skip
    assert are_ranks(members, [("a", 0), ("b", 0), ("c", 1)])
    assert not are_ranks(members, [("a", 0), ("b", 0), ("c", 0)])
    assert not are_ranks(members, [("a", 0), ("b", 0), ("c", None)])


@pytest.mark.parametrize(
    ("cycles", "named"), few([(2, "{cycle}.{rank}"), (3, "{rank}.{cycle}"), (7, "{rank}.{cycle}")], 1)
)
def test_each_rank_is_one_with_its_cycles(tmp_path: Path, cycles: int, named: str) -> None:
    for rank in range(2):
        for cycle in range(cycles):
            _write(tmp_path, rank, cycle, named=named)
    summary, late, collectives = _reports(tmp_path, "rank_summary", "stragglers", "collectives")
    of_ranks = [row for row in summary if row["over_ranks"] is None]
    assert [(row["rank"], row["device_id"], row["cycle_count"]) for row in of_ranks] == [
        (0, 0, cycles), (1, 0, cycles)]  # fmt: skip
    assert [row["kernel_sum_ns"] for row in of_ranks] == [800_000 * cycles, 850_000 * cycles]
    assert {row["idle_pct"] for row in of_ranks} == {
        100 * 90 / 890, 100 * 40 / 890}  # fmt: skip
    assert {row["rank_count"] for row in summary if row["over_ranks"]} == {2}
    assert [(row["rank"], row["collective_count"], row["late_sum_ns"], row["wait_sum_ns"])
            for row in late] == [
        (0, cycles, 50_000 * cycles, 0), (1, cycles, 0, 50_000 * cycles)]  # fmt: skip
    assert [(row["rank_count"], row["collective_count"], row["kernel_count"], row["wait_sum_ns"])
            for row in collectives] == [(2, cycles, 2 * cycles, 50_000 * cycles)]  # fmt: skip
    assert "rank-cycles" in _slugs(tmp_path) and "rank-repeated" not in _slugs(tmp_path)


def test_the_answer_counts_no_cycle_as_a_gpu(tmp_path: Path) -> None:
    for rank in range(2):
        for cycle in range(3):
            _write(tmp_path, rank, cycle)
    summary, findings = nsysconv.report_on(tmp_path, ["summary", "findings"])
    assert [(row["rank"], row["device_id"], row["kernel_count"]) for row in summary.rows()] == [
        (0, 0, 6), (1, 0, 6)]  # fmt: skip
    assert {row["device_count"] for row in findings.rows()} <= {1, 2}
    for row in summary.rows():
        assert row["busy_ns"] == row["kernel_sum_ns"]
        assert row["busy_pct"] == pytest.approx(100 * row["busy_ns"] / row["span_ns"])


@pytest.mark.parametrize(("gone",), few([((0, 0),), ((1, 0),), ((0, 2),), ((1, 1),)], 1))
def test_a_lost_cycle_moves_no_other(tmp_path: Path, gone: tuple[int, int]) -> None:
    for rank in range(2):
        for cycle in range(3):
            if (rank, cycle) != gone:
                _write(tmp_path, rank, cycle)
    ((row,),) = _reports(tmp_path, "collectives")
    assert (row["collective_count"], row["alone_count"], row["wait_sum_ns"]) == (3, 1, 100_000)


def test_one_process_without_a_rank(tmp_path: Path) -> None:
    for cycle in range(9):
        _write(tmp_path, 0, cycle, ranked=False)
    (summary,), kernels = _reports(tmp_path, "rank_summary", "kernels")
    assert (summary["pid"], summary["cycle_count"], summary["over_ranks"]) == (700, 9, None)
    assert {row["rank_count"] for row in kernels} == {1}


@pytest.mark.parametrize("host", [None, "host"])
def test_a_number_alone_is_no_process(tmp_path: Path, host: str | None) -> None:
    """Without a host nothing says that one number is one process; with one it does."""
    for cycle in range(2):
        _write(tmp_path, 0, cycle, host=host, ranked=False)
    (rows,) = _reports(tmp_path, "rank_summary")
    assert sum(row["over_ranks"] is None for row in rows) == (2 if host is None else 1)


def test_recordings_at_one_time_are_no_cycles(tmp_path: Path) -> None:
    _write(tmp_path, 0, 0)
    _write(tmp_path, 0, 0, late=100, named="again")
    assert "rank-repeated" in _slugs(tmp_path) and "rank-cycles" not in _slugs(tmp_path)


def test_ranks_that_were_recorded_apart_once_are_no_cycles(tmp_path: Path) -> None:
    """One recording each, at disjoint times: as before, they are one run."""
    _write(tmp_path, 0, 0)
    _write(tmp_path, 1, 0, skew=60_000_000_000)
    ((row,),) = _reports(tmp_path, "collectives")
    assert (row["collective_count"], row["rank_count"]) == (1, 2)
    assert "rank-cycles" not in _slugs(tmp_path)


def _refs(*of: tuple[str, int, int, int]) -> Iterable[Member]:
    for i, (host, rank, start, end) in enumerate(of):
        session = Session(frozenset({(host, rank, 7)}), start, end)
        yield Member(i, f"p{i}", "kineto", "", session)


@pytest.mark.parametrize(
    ("of", "cycles"),
    [
        ([("a", 0, 0, 9), ("a", 0, 10, 19), ("a", 1, 1, 9), ("a", 1, 11, 19)], [0, 1, 0, 1]),
        # The second cycle of rank 0 begins before the first of rank 1 ends.
        ([("a", 0, 0, 9), ("a", 0, 10, 19), ("a", 1, 1, 12), ("a", 1, 13, 20)], [0, 1, 0, 1]),
        # Rank 1's first is lost.
        ([("a", 1, 11, 19), ("a", 0, 0, 9), ("a", 0, 10, 19)], [1, 0, 1]),
        # Clocks a thousand apart: the order decides.
        ([("a", 0, 0, 9), ("a", 0, 10, 19), ("b", 1, 1000, 1009), ("b", 1, 1010, 1019)], [0, 1, 0, 1]),
        # Nobody was recorded twice.
        ([("a", 0, 0, 9), ("a", 1, 100, 109)], [0, 0]),
        # At one time: no cycles.
        ([("a", 0, 0, 9), ("a", 0, 5, 19)], [0, 0]),
    ],
)
def test_cycles_by_time(of: list[tuple[str, int, int, int]], cycles: list[int]) -> None:
    assert [*cycles_of([*_refs(*of)]).numbers.values()] == cycles


@pytest.mark.parametrize(("gone",), few([((0, 0),), (None,), ((1, 0),), ((0, 2),), ((1, 1),)], 1))
def test_an_import_makes_a_run_of_each_cycle(tmp_path: Path, gone: tuple[int, int] | None) -> None:
    folder = tmp_path / "cycles"
    folder.mkdir()
    for rank in range(2):
        for cycle in range(3):
            if (rank, cycle) != gone:
                _write(folder, rank, cycle)
    nsysconv.import_files([folder], tmp_path / "store.db")
    of_run: dict[int, set[int]] = {}
    with reading(tmp_path / "store.db") as store:
        for profile in store.profiles():
            run = profile.attributes["run_id"]
            of_run.setdefault(run, set()).add(int(profile.ref.label.rpartition(".")[2]))
    assert sorted(map(sorted, of_run.values())) == [[0], [1], [2]]


@real
def test_the_folder_of_the_report(tmp_path: Path) -> None:
    summary, late, collectives = _reports(
        REAL / "bug_reports" / "b79", "rank_summary", "stragglers", "collectives"
    )
    assert [row["cycle_count"] for row in summary if row["over_ranks"] is None] == [2, 2]
    assert [row["collective_count"] for row in late] == [4, 4]
    assert [(row["collective_count"], row["rank_count"]) for row in collectives] == [(4, 2)]
    nsysconv.import_files([REAL / "bug_reports" / "b79"], tmp_path / "store.db")
    with reading(tmp_path / "store.db") as store:
        assert len(store.runs()) == 2


def _imbalance(target: Path) -> list[tuple[int, int]]:
    (findings,) = _reports(target, "findings:rank_imbalance=1")
    return [(row["rank"], row["saving_ns"]) for row in findings if row["rule"] == "rank_imbalance"]


def test_a_cycle_that_one_rank_lacks_is_no_unequal_work(tmp_path: Path) -> None:
    """Rank 1 lacks the second cycle: not recorded, not idle. Only equal cycles are compared."""
    for rank, cycle in ((0, 0), (0, 1), (1, 0)):
        _write(tmp_path, rank, cycle)
    assert _imbalance(tmp_path) == []
    trace = json.loads((tmp_path / "w_1.0.pt.trace.json").read_text())
    gemm = next(e for e in trace["traceEvents"] if e["name"] == "gemm")
    gemm["dur"] -= 300
    (tmp_path / "w_1.0.pt.trace.json").write_text(json.dumps(trace))
    assert _imbalance(tmp_path) == [(0, 150_000)]  # 700 and 400 us


def test_what_a_late_recording_lacks_is_no_unequal_work(tmp_path: Path) -> None:
    """Six steps of one recording; rank 1's begins with the fourth. Rank 0 computes 4.2 ms, rank 1 2.1."""
    for rank in (0, 1):
        steps = []
        for step in range(6):
            path = _write(tmp_path, rank, 0, late=1000 * step)
            trace = json.loads(path.read_text())
            for event in trace["traceEvents"]:
                event["args"]["correlation"] += 10 * step
            steps.append(trace["traceEvents"])
        trace["traceEvents"] = [event for step in steps[3 * rank :] for event in step]
        path.write_text(json.dumps(trace))
    assert _imbalance(tmp_path) == []
    # If all is covered, it is unequal work.
    trace["traceEvents"] = [event for step in steps for event in step]
    for event in trace["traceEvents"]:
        event["dur"] -= 350 if event["name"] == "gemm" else 0
    path.write_text(json.dumps(trace))
    assert _imbalance(tmp_path) == [(0, 1_050_000)]
