"""The made-up workloads as Kineto traces: what is special of them, odd files, recorded ones.

Rows, facts and notes of the workloads are compared in test_workloads.py, reports in
test_queries_workloads.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from conftest import FIXTURES, Row, Shelf, event_rows, in_any_order
from scenarios import WORKLOADS
from workload_rows import KINETO_TRACES, File, Kineto, same

import nsysconv
from nsysconv import api
from nsysconv.facts import Fact
from nsysconv.store.location import reading

KINETO = FIXTURES / "kineto"
TABLES = ("api_call", "kernel", "memcpy", "memset", "sync", "range", "overhead")


def traces_of(name: str, age: str) -> list[tuple[File, Kineto]]:
    """Each trace of a workload in one age, and what is expected of it."""
    found = [(file, each) for file in KINETO_TRACES for each in file.expected
             if isinstance(each, Kineto) and (each.name, each.age_name) == (name, age)]  # fmt: skip
    assert found
    return found


@pytest.mark.parametrize("age", ["2.5", "2.13"])
def test_python_functions_on_request(tmp_path: Path, age: str) -> None:
    ((trace, expected),) = traces_of("training", age)
    api.import_files([trace.path], tmp_path / "store.db", include=["python_functions"])
    with reading(tmp_path / "store.db") as store:
        (profile,) = store.profiles()
        found = [row for row in expected.found(profile, "operator")
                 if row["kind"] == "python_function"]  # fmt: skip
        notes = {note.slug for note in profile.notes}
    assert sorted((row["start_ns"], row["dur_ns"], row["tid"], row["name"]) for row in found) == [
        (item.start_ns, item.end_ns - item.start_ns, item.thread.tid, item.name)
        for item in expected.framework.functions]  # fmt: skip
    assert "python-functions-left-out" not in notes


# -- odd files


def _basic(path: Path) -> tuple[list[Row], ...]:
    """All events of a file as in `basic`, with times since its zero of day."""
    ((_, expected),) = traces_of("basic", "2.13")
    with nsysconv.open(path) as opened:
        return tuple(in_any_order(expected.found(opened.profile, table)) for table in TABLES)


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
    """Kernels and calls up to number 109, in the order of the file."""
    profile = shelf.profile(KINETO / name)
    found = {row["correlation_id"] for row in event_rows(profile, "kernel")}
    assert found >= {105, 106, 107}
    assert (profile.attributes["zero_utc_ns"] is None) == (name == "odd-truncated-no-base.json")


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


def test_two_ranks_in_one_file_are_two_profiles(tmp_path: Path) -> None:
    api.import_files([KINETO / "odd-merged-ranks.json.gz"], tmp_path / "store.db")
    with reading(tmp_path / "store.db") as store:
        found = {profile.rows("process")[0]["pid"]: profile for profile in store.profiles()}
        assert found.keys() == {5001, 5002}
        for _, expected in traces_of("two_processes_one_gpu", "2.13"):
            profile = found[expected.processes[0].pid]
            for table in TABLES:
                same(expected.found(profile, table), expected.rows(table), table)
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
    # The copy at 0 does not move the zero to 1970.
    first = WORKLOADS["basic"].zero_utc_ns
    assert 0 <= first - profile.attributes["zero_utc_ns"] <= 1_000_000_000


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
