"""What profiles are and what they can answer, of one profile and of a run: `info`, `report --list`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import FIXTURES, NSYS
from golden_cases import run
from small_store import Call, Kernel, Memory, Operator, Range, write

from nsysconv import api
from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.queries import REPORTS

BASIC = NSYS / "basic-3.25.0.sqlite"
TRACE = FIXTURES / "kineto" / "basic-2.13.json"
FORMATS_FOR_PEOPLE = ("text", "markdown", "html")


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """A store of one run: rank 0 has a kernel and a step, rank 1 calls alone."""
    store = tmp_path / "job.db"
    step = Range(0, 100, text="ProfilerStep#1")
    first = {Fact.KERNELS, Fact.RANGES, Fact.RANKS}
    second = {Fact.API_CALLS, Fact.RANKS}
    write(store, Kernel(1, 5), step, label="r0", ranks={1: 0}, host="node0", run="job", holds=first)
    write(store, Call(1, 5), label="r1", ranks={1: 1}, host="node1", run="job", holds=second)
    return store


def many(store: Path, count: int, *, run_of_all: str | None) -> Path:
    for rank in range(count):
        known = {"run": run_of_all} if run_of_all else {}
        write(store, Kernel(1, 5), label=f"r{rank}", ranks={1: rank}, **known)
    return store


def words(outcome: str) -> str:
    return " ".join(outcome.split())


# -- one profile


def test_all_tables_of_events_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "p.db", Operator(0, 9, "aten::mm"), Kernel(1, 5), Call(0, 1), Memory(2, 8, 0x1))
    told = words(run("info", "p.db", cwd=tmp_path).out)
    assert "rows: 1 kernel, 1 api_call, 1 operator, 1 memory_event" in told


@pytest.mark.parametrize("form", FORMATS_FOR_PEOPLE)
def test_people_are_told_times_with_their_units(form: str, tmp_path: Path) -> None:
    told = words(run("info", BASIC, "-f", form, cwd=tmp_path).out).replace("`", "")
    assert "2026-01-01 00:00:00 UTC" in told
    assert "250.00 µs" in told
    assert "1767225600000000000" not in told


def test_programs_are_told_whole_numbers(tmp_path: Path) -> None:
    what, can = json.loads(run("info", BASIC, "-f", "json", cwd=tmp_path).out)["reports"]
    rows = {row["attribute"]: row["value"] for row in what["rows"]}
    assert (rows["recording_ns"], rows["zero_utc_ns"]) == ("250000", "1767225600000000000")
    assert {row["recorded"] for row in can["rows"]} == {"yes", "no"}


@pytest.mark.parametrize("form", FORMATS_FOR_PEOPLE)
def test_no_fact_is_said_twice(form: str, tmp_path: Path) -> None:
    told = words(run("info", BASIC, "-f", form, cwd=tmp_path, width=80).out)
    for fact in ("graph nodes", "memory allocations and frees", "device properties"):
        assert told.count(fact) == 1, fact


def test_advice_for_several_facts_is_given_once(tmp_path: Path) -> None:
    told = words(run("info", NSYS / "no_gpu-3.25.0.sqlite", cwd=tmp_path).out)
    assert told.count("`nsys profile --trace=cuda,nvtx …`") == 1


# -- the profiles of a run


def test_what_ranks_share_is_said_once(ranks: Path) -> None:
    told = run("info", ranks, cwd=ranks.parent).out
    assert told.count("source: ") == 1
    header = next(line for line in told.splitlines() if line.startswith("label"))
    assert "host" in header and "source" not in header


def test_a_row_per_rank_for_programs(ranks: Path) -> None:
    what, _ = api.info(ranks)
    rows = [(row["label"], row["ranks"], row["host"], row["kernel_count"], row["source"])
            for row in what.rows()]  # fmt: skip
    assert [row[:4] for row in rows] == [("r0", "0", "node0", 1), ("r1", "1", "node1", 0)]
    assert all(row[4] for row in rows)


def test_how_many_ranks_recorded_what(ranks: Path) -> None:
    _, can = api.info(ranks)
    rows = {row["fact"]: (row["recorded"], row["profile_count"]) for row in can.rows()}
    assert rows["kernel events"] == ("some", 1)
    assert rows["ranks of processes"] == ("yes", 2)
    assert "kernel events, API calls, ranges (NVTX, user annotations), by 1 of 2" in str(can)


def test_few_of_many_ranks_are_shown(tmp_path: Path) -> None:
    store = many(tmp_path / "job.db", 21, run_of_all="job")
    told = run("info", store, cwd=tmp_path).out
    assert len(re.findall(r"^r\d+ ", told, re.M)) == 20
    assert "20 of 21 rows" in told
    assert len(re.findall(r"^r\d+ ", run("info", store, "--limit", 0, cwd=tmp_path).out, re.M)) == 21
    assert api.info(store)[0].row_count == 21


def test_of_several_runs_one_has_to_be_named(ranks: Path) -> None:
    write(ranks, Kernel(1, 5), label="alone")
    for ask in (("info",), ("report", "--list"), ("report",)):
        outcome = run(ask[0], ranks, *ask[1:], cwd=ranks.parent)
        assert outcome.status == 2
        assert "the store holds 2 runs: name one" in outcome.err
        assert f"{ranks}@job" in outcome.err and f"{ranks}@alone" in outcome.err
    assert api.info(f"{ranks}@job")[0].row_count == 2


def test_few_of_many_runs_are_named(tmp_path: Path) -> None:
    store = many(tmp_path / "all.db", 25, run_of_all=None)
    outcome = run("info", store, cwd=tmp_path)
    assert outcome.status == 2
    assert len(outcome.err.splitlines()) == 22
    assert "and 5 more" in outcome.err and "nsysconv runs" in outcome.err
    with pytest.raises(UsageError, match="holds 25 profiles") as refused:
        api.open(store)
    assert len(refused.value.hint.splitlines()) == 21


# -- the list of reports


def test_the_list_says_what_any_rank_can_answer(ranks: Path) -> None:
    rows = {row["report"]: (row["answered"], row["missing"]) for row in api.reports(ranks).rows()}
    assert rows["kernels"] == ("yes", None)
    assert rows["cuda_api_sum"] == ("yes", None)
    assert rows["steps"] == ("yes", None)
    assert rows["stragglers"] == ("yes", None)
    # Ranges of a domain named MPI are calls, too.
    assert rows["mpi_event_sum"] == ("no", "MPI calls, ranges (NVTX, user annotations)")


def test_titles_of_the_list_are_whole_at_80_columns(tmp_path: Path) -> None:
    told = words(run("report", BASIC, "--list", cwd=tmp_path, width=80).out)
    piped = run("report", BASIC, "--list", cwd=tmp_path).out
    assert max(map(len, piped.splitlines())) <= 120, "as wide as $COLUMNS says"
    rows = api.reports(BASIC).rows()
    assert {row["report"] for row in rows} == set(REPORTS)
    for row in rows:
        assert f": {row['title']}" in told
        assert (f" {row['report']} (core" in f" {told}") == (row["core"] == "yes")


# -- what is kept


@pytest.mark.parametrize(
    "ask", [("info", "t.json"), ("report", "t.json", "--list"), ("sql", "t.json", "select 1")],
    ids=lambda ask: ask[0])  # fmt: skip
def test_an_answer_does_not_replace_the_profile(ask: tuple[str, ...], tmp_path: Path) -> None:
    shutil.copyfile(TRACE, tmp_path / "t.json")
    outcome = run(*ask, "-o", "t.json", cwd=tmp_path)
    assert outcome.status == 2
    assert "is not replaced by a report" in outcome.err
    assert (tmp_path / "t.json").read_bytes() == TRACE.read_bytes()


@pytest.mark.parametrize("name", ["r1.sqlite", "r1.nsys-rep", "a/node_results.db", "r.pt.trace.json"])
def test_an_empty_file_that_only_a_profiler_writes_is_a_lost_profile(tmp_path: Path, name: str) -> None:
    (tmp_path / "job" / "a").mkdir(parents=True)
    shutil.copyfile(BASIC, tmp_path / "job" / "rank0.sqlite")
    (tmp_path / "job" / name).write_bytes(b"")
    outcome = run("import", "job", "-o", "job.db", cwd=tmp_path)
    assert outcome.status == 3
    assert f"nsysconv: job/{name}: the file is empty" in outcome.err.splitlines()


def test_files_of_a_folder_that_nobody_knows_are_counted_in_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    shutil.copyfile(BASIC, folder / "rank0.sqlite")
    shutil.copyfile(FIXTURES / "odd" / "foreign.sqlite", folder / "a.sqlite")
    for name in ("b.log", "c.log"):
        (folder / name).write_bytes(b"")
    outcome = run("report", "job", "kernels", cwd=tmp_path)
    assert outcome.status == 0
    assert outcome.err.splitlines() == [
        "skipped: 3 files: the file is empty (2), a SQLite database of another program (job/a.sqlite)",
        "For details on a skipped file: nsysconv info FILE",
    ]
