"""`nsysconv forget`: what goes, what stays as it was, and what a kill leaves."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT, NSYS
from postgres import programs, server
from run_command import run
from small_store import Kernel, write

from nsysconv import api
from nsysconv.errors import NsysconvError, UsageError
from nsysconv.store.checksums import check
from nsysconv.store.location import Location, reading, writing

DAY_NS = 86_400 * 10**9
NOW_NS = 20_000 * DAY_NS
BASIC, OTHER = NSYS / "basic-3.25.0.sqlite", NSYS / "basic-3.4.0.sqlite"


def labels(store: Location) -> list[str]:
    return [row["label"] for row in api.runs(store).rows()]


def keep_checksums(store: Location) -> None:
    with writing(store) as writer:
        assert writer.keep_checksums() == ""


def write_run(store: Location, label: str, age_days: int | None, **options: object) -> None:
    utc = None if age_days is None else NOW_NS - age_days * DAY_NS
    kernels = [Kernel(10 * i, 10 * i + 5, i) for i in range(1, 21)]
    write(store, *kernels, label=label, utc=utc, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def five_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five runs, imported in another order than they were recorded in; the last one has two ranks."""
    path = tmp_path_factory.mktemp("five") / "runs.db"
    for label, age in (("c", 30), ("a", 100), ("b", 60), ("baseline-2", 90)):
        write_run(path, label, age)
    for rank in range(2):
        write_run(path, f"d{rank}", 10, run="d", ranks={1: rank})
    keep_checksums(path)
    return path


@pytest.fixture
def store(five_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of these."""
    monkeypatch.setattr("nsysconv.api.forgetting.time.time_ns", lambda: NOW_NS)
    return Path(shutil.copyfile(five_runs, tmp_path / "runs.db"))


def test_what_is_named_goes_and_the_rest_stays_as_it_was(store: Path) -> None:
    gone = api.forget(store, ["a", "d"]).rows()
    assert [(row["run"], row["label"]) for row in gone] == [("a", "a"), ("d", "d0"), ("d", "d1")]
    assert [row["row_count"] for row in gone] == [20, 20, 20]
    assert gone[0]["recorded"] == "2024-06-26 00:00:00 UTC"
    assert labels(store) == ["c", "b", "baseline-2"]
    assert check(store) == []
    with reading(store) as opened:
        assert [run["label"] for run in opened.runs()] == ["c", "b", "baseline-2"]


def test_a_rank_of_a_run(store: Path) -> None:
    api.forget(f"{store}@d0")
    assert labels(store) == ["c", "a", "b", "baseline-2", "d1"]
    assert check(store) == []
    assert [row["run"] for row in api.runs(store).rows()][-1] == "d"


@pytest.mark.parametrize(("options", "left"), [
    # Recorded 100, 90, 60, 30 and 10 days ago: a, baseline-2, b, c, d.
    ({"older_than": "45d"}, ["c", "baseline-2", "d0", "d1"]),
    ({"older_than": "9w"}, ["c", "b", "baseline-2", "d0", "d1"]),
    ({"older_than": "1000h"}, ["c", "baseline-2", "d0", "d1"]),
    ({"keep": 2}, ["c", "baseline-2", "d0", "d1"]),
    ({"keep": 1, "older_than": "20d"}, ["baseline-2", "d0", "d1"]),
    ({"keep": 4, "older_than": "45d"}, ["c", "b", "baseline-2", "d0", "d1"]),
    ({"keep": 0}, ["baseline-2"]),
    ({"keep": 2, "never": ("a",)}, ["c", "a", "d0", "d1"]),
    ({"which": ["a", "c"], "keep": 1}, ["c", "b", "baseline-2", "d0", "d1"]),
    ({"which": "last:2"}, ["a", "b", "baseline-2"]),
    ({"which": "2"}, ["c", "b", "baseline-2", "d0", "d1"]),
])  # fmt: skip
def test_by_age_and_number(store: Path, options: dict[str, object], left: list[str]) -> None:
    dry = api.forget(store, dry_run=True, **options).rows()  # type: ignore[arg-type]
    assert len(labels(store)) == 6
    assert api.forget(store, **options).rows() == dry  # type: ignore[arg-type]
    assert labels(store) == left
    assert check(store) == []


def test_by_tag(tmp_path: Path) -> None:
    path = tmp_path / "job.db"
    api.import_files(BASIC, path, tags={"branch": "x"})
    api.import_files(OTHER, path, tags={"branch": "y"})
    assert [row["label"] for row in api.forget(path, "branch=x").rows()] == ["basic-3.25.0"]
    assert labels(path) == ["basic-3.4.0"]
    assert check(path) == []


def test_what_is_kept_is_said(store: Path) -> None:
    report = api.forget(store, older_than="80d")
    assert [(note.slug, note.count) for note in report.notes] == [("kept-by-label", 1)]
    assert labels(store) == ["c", "b", "baseline-2", "d0", "d1"]


def test_without_times(store: Path) -> None:
    write_run(store, "e", None)
    report = api.forget(store, older_than="80d", keep=0, dry_run=True)
    assert [note.slug for note in report.notes] == [
        "no-recording-time", "in-order-of-import", "kept-by-label"]  # fmt: skip
    assert [row["label"] for row in report.rows()] == ["a"]
    # The newest are those imported last.
    kept = [row["label"] for row in api.forget(store, keep=3, dry_run=True).rows()]
    assert kept == ["c", "a", "b"]


def test_a_dry_run_writes_nothing(store: Path) -> None:
    before = store.read_bytes()
    outcome = run("forget", store.name, "--keep", "1", "--dry-run", cwd=store.parent)
    assert outcome.status == 0
    assert outcome.out.startswith("To be removed from runs.db\nprofiles: 3, with 60 rows of events;")
    assert store.read_bytes() == before


@pytest.mark.parametrize("words", [
    (), ("nobody",), ("a", "nobody"), ("last:0",), ("--older-than", "soon"), ("--keep", "-1"),
])  # fmt: skip
def test_mistakes_remove_nothing(store: Path, words: tuple[str, ...]) -> None:
    before = store.read_bytes()
    assert run("forget", store.name, *words, cwd=store.parent).status == 2
    assert store.read_bytes() == before


def test_no_store_is_made(tmp_path: Path) -> None:
    assert run("forget", "new.db", "--keep", "1", cwd=tmp_path).status == 3
    shutil.copyfile(BASIC, tmp_path / "report1.sqlite")
    assert run("forget", "report1.sqlite", "--keep", "1", cwd=tmp_path).status == 3
    assert [path.name for path in tmp_path.iterdir()] == ["report1.sqlite"]


def test_what_was_replaced_meanwhile_stays(five_runs: Path, store: Path) -> None:
    with writing(store) as writer:
        assert writer.forget({2: "another", 3: f"{five_runs} b"}) == {3}
    assert labels(store) == ["c", "a", "baseline-2", "d0", "d1"]


def test_space_that_is_not_given_back_is_said(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object) -> int:
        raise NsysconvError("the disk is full")

    monkeypatch.setattr("nsysconv.store.sqlite.writer.SqliteWriter.give_back_space", full)
    report = api.forget(store, "a")
    assert [note.slug for note in report.notes] == ["space-not-given-back"]
    assert "the disk is full" in report.notes[0].text
    assert "a" not in labels(store)


# -- the file

KERNELS = 3_000
# A page of each table is needed for any run.
WITHOUT_RUNS = 1_000_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve runs of 3,000 kernels each."""
    path = tmp_path_factory.mktemp("large") / "runs.db"
    for number in range(12):
        kernels = [Kernel(10 * i, 10 * i + 5 + i % 7, i) for i in range(1, KERNELS + 1)]
        write(path, *kernels, label=f"run{number}", utc=NOW_NS + number)
    keep_checksums(path)
    return path


def of_three(bytes_of_twelve: int) -> float:
    """More than three of twelve runs need, and less than four."""
    return WITHOUT_RUNS + 0.3 * (bytes_of_twelve - WITHOUT_RUNS)


def test_the_file_becomes_smaller(large: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shutil.copyfile(large, path)
    before = path.stat().st_size
    outcome = run("forget", path, "--keep", "3", cwd=tmp_path)
    assert "given back: " in outcome.out
    assert path.stat().st_size < of_three(before)
    assert labels(path) == ["run9", "run10", "run11"]
    assert check(path) == []
    write_run(path, "next", 0)
    assert labels(path)[-1] == "next"


def test_what_a_killed_one_did_not_cut_off_is_given_back(large: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shutil.copyfile(large, path)
    api.forget(path, keep=3)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(large.stat().st_size - size))
    assert check(path) == []
    api.forget(path, keep=3)
    assert path.stat().st_size == size
    assert check(path) == []


# Says when it begins to write.
_FORGETS = """
import sys
import nsysconv.api as api
from nsysconv.store.write import Writer
forget = Writer.forget
def beginning(self, identities):
    print(flush=True)
    return forget(self, identities)
Writer.forget = beginning
api.forget(sys.argv[1], keep=3)
"""


def test_a_kill_at_any_moment_leaves_the_store_whole(large: Path, tmp_path: Path) -> None:
    path, numbers, ends, wait = tmp_path / "runs.db", random.Random(1), set(), 0.03
    command = [sys.executable, "-c", _FORGETS]
    # As often as it takes to see both, on a busy machine too.
    for turn in range(20):
        if turn > 2 and {count for _, count, _ in ends} == {12, 3}:
            break
        shutil.copyfile(large, path)
        with subprocess.Popen([*command, path], stdout=subprocess.PIPE, env=CHILD_ENVIRONMENT) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(wait)
            os.kill(child.pid, signal.SIGKILL)
        left = labels(path)
        assert left in ([f"run{i}" for i in range(12)], ["run9", "run10", "run11"])
        assert check(path) == []
        size = path.stat().st_size
        ends.add((child.returncode, len(left), size < large.stat().st_size))
        # Later where it came before the commit, earlier where after.
        wait *= numbers.uniform(1.5, 3) if len(left) == 12 else numbers.uniform(0.3, 0.7)
        # The next one does the rest.
        api.forget(path, keep=3)
        assert path.stat().st_size < of_three(large.stat().st_size)
        assert check(path) == []
    # Before it is committed, between that and the file's being written anew, and after.
    assert {12, 3} == {count for _, count, _ in ends}, ends


# -- in PostgreSQL


@pytest.fixture(scope="module")
def database() -> Iterator[Location]:
    if programs() is None:
        pytest.skip("no PostgreSQL")
    with server() as started:
        yield started.database()


@pytest.mark.system
def test_in_postgresql(database: Location) -> None:
    for label, age in (("a", 100), ("b", 60), ("c", 30)):
        write_run(database, label, age)
    keep_checksums(database)
    with pytest.raises(UsageError, match="forget what"):
        api.forget(database)
    assert [row["label"] for row in api.forget(database, keep=1, never="b").rows()] == ["a"]
    assert labels(database) == ["b", "c"]
    assert check(database) == []
    assert {row["run_count"] for row in api.history(database)[0].rows()} == {2}


@pytest.mark.system
def test_reports_kept_in_postgresql(database: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsysconv.api.kept_reports.FEWEST_RUNS", 1)
    write_run(database, "computed", 20)
    api.import_files(BASIC, database)  # which keeps those of all profiles
    kept = [report.rows() for report in api.history(database)]
    monkeypatch.setattr("nsysconv.queries.compute_reports", None)
    assert [report.rows() for report in api.history(database)] == kept
