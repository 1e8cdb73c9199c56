"""Traces of several ranks in one file, told apart by texts in place of numbers of processes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, by_turns, event_rows, real, small_rows
from golden_cases import run

import nsysconv
from nsysconv.importers.kineto.packed import part_text
from nsysconv.store.location import reading

RANKS = 2
Spell = Callable[[int, int], Any]
SPELLINGS: dict[str, Spell] = {
    "before": lambda rank, number: f"[TP{rank:02}] {number}",
    "behind": lambda rank, number: f"{number}_rank{rank}",
    "words": lambda rank, number: f"rank {rank}: pid {number}",
    "slash": lambda rank, number: f"rank{rank}/{number}",
    "two dimensions": lambda rank, number: f"[TP{rank:02}-DP00] {number}",
    "no number": lambda rank, number: f"{'ab'[rank]}:{number}",
}


@pytest.mark.parametrize(
    ("text", "number", "name"),
    [("[TP00] 83", 83, "TP00"), ("83_rank0", 83, "rank0"), ("rank_1_83", 83, "rank 1"),
     ("rank 0 pid 83", 83, "rank 0"), ("pid 83 (rank 0)", 83, "rank 0"), ("[1] 0", 0, "1"),
     ("10.0.0.1:83", 83, "10.0.0.1"), ("stream 7", 7, ""), ("thread 25738 (python)", 25738, "python"),
     ("-1_rank0", -1, "rank0"), (" 83 ", 83, ""), ("worker83", 83, "worker"), ("(83)", 83, "")],
)  # fmt: skip
def test_number_and_name_of_a_text(text: str, number: int, name: str) -> None:
    found = part_text(text)
    assert found is not None
    assert (found.number, found.name) == (number, name)


@pytest.mark.parametrize("text", ["Spans", "CPU functions", "", "9" * 40])
def test_a_text_without_a_number(text: str) -> None:
    assert part_text(text) is None


def _ranks(
    spell: Spell, pids: tuple[int, int] = (83, 84), launches: int = 3
) -> list[dict[str, Any]]:
    """Each rank launches kernels of its own length, correlations alike, and says who it is."""
    events: list[dict[str, Any]] = []
    for rank, pid in enumerate(pids):
        on_thread = {"ph": "X", "pid": spell(rank, pid), "tid": spell(rank, pid)}
        on_gpu = {"ph": "X", "pid": spell(rank, rank), "tid": 7}
        for name in ("process_name", "thread_name", "process_labels"):
            args = {"name": "python", "labels": "CPU"}
            events.append({**on_thread, "ph": "M", "name": name, "ts": 0, "args": args})
        for i in range(launches):
            place = {"device": rank, "context": 1, "stream": 7, "correlation": i + 1}
            ts = 5000 + 200 * i + rank
            call = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts, "dur": 4}
            events += [
                {**on_thread, **call, "args": {"correlation": i + 1, "cbid": 211}},
                {**on_thread, "cat": "cpu_op", "name": "aten::mm", "ts": ts - 1, "dur": 9},
                {**on_gpu, "cat": "kernel", "name": f"k{rank}", "ts": ts + 10,
                 "dur": 100 + 50 * rank, "args": place},
                {**on_gpu, "cat": "gpu_memset", "name": "Memset (Device)", "ts": ts + 170, "dur": 2,
                 "args": {**place, "bytes": 8 + rank}},
            ]  # fmt: skip
    return events


def _write(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=1))
    return path


def _by_time(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(events, key=lambda event: event["ts"])


def _gpu_first(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(events, key=lambda event: event.get("cat") not in ("kernel", "gpu_memset"))


# The order of events, two processes or one number in two containers, and one chunk or many.
WAYS = [*product([list, _by_time, _gpu_first], [(83, 84), (83, 83)], [False, True])]


@pytest.mark.parametrize(("spelling", "way"), by_turns(SPELLINGS, WAYS, 16))
def test_ranks_told_apart_by_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str, way: tuple[Any, ...]
) -> None:
    """Two processes in one run, whose operations are linked to none but their own calls."""
    order, pids, small = way
    if small:
        monkeypatch.setattr("nsysconv.importers.kineto.trace.FIRST_BYTES", 1 << 10)
        monkeypatch.setattr("nsysconv.importers.kineto.trace.BLOCK_BYTES", 1 << 10)
    events = _ranks(SPELLINGS[spelling], pids)
    path = _write(tmp_path / "merged.json", order(events))
    nsysconv.import_files([path], tmp_path / "store.db")
    with reading(tmp_path / "store.db") as store:
        assert len(store.runs()) == 1
        found = {event_rows(profile, "kernel")[0]["name"]: profile for profile in store.profiles()}
        assert found.keys() == {"k0", "k1"}
        for rank, pid in enumerate(pids):
            profile = found[f"k{rank}"]
            assert Counter((row["name"], row["pid"], row["device_id"], row["dur_ns"])
                           for row in event_rows(profile, "kernel")) == {
                (f"k{rank}", pid, rank, 100_000 + 50_000 * rank): 3}  # fmt: skip
            assert {row["bytes"] for row in event_rows(profile, "memset")} == {8 + rank}
            assert {(row["pid"], row["tid"]) for row in event_rows(profile, "api_call")} == {
                (pid, pid)}  # fmt: skip
            (process,), (thread,) = (small_rows(profile, name) for name in ("process", "thread"))
            numbered = spelling not in ("two dimensions", "no number")
            assert (process["pid"], process["rank"]) == (pid, rank if numbered else None)
            assert process["name"].endswith("python") and process["name"] != "python"
            assert (thread["pid"], thread["tid"], thread["name"]) == (pid, pid, "python")
            (note,) = (note for note in profile.notes if note.slug == "process-assumed")
            assert note.count == RANKS
    reports = nsysconv.report_on(path, ["processes", "launch_stats"])
    assert sorted(row["pid"] for row in reports[0].rows()) == list(pids)
    assert sorted((row["launch_count"], row["queue_count"])
                  for row in reports[1].rows()) == [(3, 3)] * RANKS  # fmt: skip


@real
def test_the_file_of_the_report() -> None:
    processes, launches = nsysconv.report_on(
        REAL / "bug_reports" / "b15.json", ["processes", "launch_stats"]
    )
    assert [(row["rank"], row["pid"]) for row in processes.rows()] == [(0, 83), (1, 84)]
    assert [(row["launch_count"], row["gpu_op_sum_ns"]) for row in launches.rows()] == [
        (2, 200_000), (2, 300_000)]  # fmt: skip


def test_the_answer_says_which_rank_to_ask_why(tmp_path: Path) -> None:
    path = _write(tmp_path / "merged.json", _ranks(SPELLINGS["before"]))
    answered = run(path, cwd=tmp_path)
    (line,) = (line for line in answered.out.splitlines() if "nsysconv why" in line)
    assert f"{path}@merged-pid8" in line or f"{path}@1 gap:" in line


def test_one_rank_alone_is_a_process_and_no_merger(tmp_path: Path) -> None:
    events = [each for each in _ranks(SPELLINGS["before"]) if "TP00" in each["pid"]]
    with nsysconv.open(_write(tmp_path / "alone.json", events)) as opened:
        assert [row["pid"] for row in opened.report("processes").rows()] == [83]
        assert "process-assumed" not in {note.slug for note in opened.notes}
        assert opened.report("launch_stats").rows()[0]["gpu_op_sum_ns"] == 306_000


def test_ranks_without_rows_on_threads(tmp_path: Path) -> None:
    """Nothing says the number of the process, and the rest of the texts whose the work is."""
    events = [each for each in _ranks(SPELLINGS["before"]) if each.get("cat") == "kernel"]
    nsysconv.import_files([_write(tmp_path / "gpu.json", events)], tmp_path / "store.db")
    with reading(tmp_path / "store.db") as store:
        found = [{row["name"] for row in event_rows(each, "kernel")} for each in store.profiles()]
        assert sorted(map(sorted, found)) == [["k0"], ["k1"]]
        assert {row["pid"] for p in store.profiles() for row in event_rows(p, "kernel")} == {None}


def test_rows_of_a_gpu_named_by_a_text(tmp_path: Path) -> None:
    """Processes are numbers, and `GPU 0` is no process: its work is of the process that there is."""
    events = _ranks(lambda rank, number: number)[:15]
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memset"):
            event["pid"] = "GPU 0"
    with nsysconv.open(_write(tmp_path / "one.json", events)) as opened:
        assert {row["pid"] for row in opened.events("kernel").to_pylist()} == {83}


def test_texts_with_one_number_are_one_thread_of_their_process(tmp_path: Path) -> None:
    """So lanes of a thread are: its calls, its ranges."""
    call = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "ts": 100, "dur": 9}
    events = [{**call, "tid": tid} for tid in ("7 (main)", "7 (data)", "8 (data)")]
    with nsysconv.open(_write(tmp_path / "threads.json", events)) as opened:
        threads = [(row["tid"], row["name"]) for row in small_rows(opened.profile, "thread")]
        assert opened.events("operator").column("tid").to_pylist() == [7, 7, 8]
    assert [tid for tid, _ in threads] == [7, 8]
    assert threads[0][1] in ("main", "data") and threads[1][1] == "data"
