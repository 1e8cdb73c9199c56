"""Many files at a time: the outcome is that of one after the other, whoever is killed meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pieces
import pytest
from conftest import CHILD_ENVIRONMENT, FIXTURES, NSYS, ODD, dump, few
from here import Here
from ranked_files import of_rank
from test_import_merge import told
from test_import_ranks import binary, runs_of

import nsysconv
from nsysconv.api import importing, workers
from nsysconv.api.importing import ImportResult, Work, work_of, worthwhile
from nsysconv.api.inputs import Input

KINETO = FIXTURES / "kineto"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ranks, traces, a store, doubtful and damaged files, and what is no profile."""
    folder = tmp_path_factory.mktemp("results") / "prof"
    for rank in range(3):
        of_rank(folder / f"t{rank}.sqlite", rank, 4, 77)
    for path in (
        KINETO / "training-2.5.json.gz",
        KINETO / "odd-merged-ranks.json.gz",
        ODD / "bad-cells.sqlite",
        ODD / "truncated.sqlite",
        ODD / "lfs-pointer.sqlite",
        NSYS / "basic-3.25.0.sqlite",
    ):
        shutil.copyfile(path, folder / path.name)
    shutil.copyfile(NSYS / "basic-3.25.0.sqlite", folder / "the-same.sqlite")
    nsysconv.import_files([NSYS / "graphs-3.28.1.sqlite"], folder / "graphs.db")
    return folder


def outcome(result: ImportResult) -> list[tuple[Any, ...]]:
    """What a caller is told, but for the place of the store."""
    return [(file.path, file.imported, str(file.error), file.skipped) for file in result.files] + [
        (run.label, run.census) for run in result.runs
    ]


@pytest.mark.parametrize("jobs", few([2, 3], 1))
def test_many_at_a_time_are_as_one_by_one(folder: Path, tmp_path: Path, jobs: int) -> None:
    one = nsysconv.import_files([folder], tmp_path / "one.db", workers=1)
    several = nsysconv.import_files([folder], tmp_path / "several.db", workers=jobs)
    assert outcome(several) == outcome(one)
    assert dump(tmp_path / "several.db") == dump(tmp_path / "one.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.db", "several.db"]


@pytest.mark.slow
def test_nothing_again(folder: Path, tmp_path: Path) -> None:
    nsysconv.import_files([folder], tmp_path / "job.db", workers=1)
    before = dump(tmp_path / "job.db")
    result = nsysconv.import_files([folder], tmp_path / "job.db", workers=2)
    assert all(each.existing for file in result.files for each in file.imported)
    assert dump(tmp_path / "job.db") == before


@pytest.mark.slow
def test_replaced(folder: Path, tmp_path: Path) -> None:
    for jobs in (1, 2):
        store = tmp_path / f"{jobs}.db"
        nsysconv.import_files([folder], store)
        nsysconv.import_files([folder], store, label="new", replace=True, workers=jobs)
    assert dump(tmp_path / "2.db") == dump(tmp_path / "1.db")


def test_options_reach_the_workers(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "Processes", Here)
    names = ("t0.sqlite", "training-2.5.json.gz")
    for jobs in (1, 2):
        nsysconv.import_files(
            [folder / name for name in names], tmp_path / f"{jobs}.db", workers=jobs,
            label="x", tags={"a": "b"}, run="r", include=["python_functions"],
            rank_from=r"t(\d)\.sqlite", strict=True,
        )  # fmt: skip
    assert dump(tmp_path / "2.db") == dump(tmp_path / "1.db")
    assert list(runs_of(tmp_path / "2.db")) == ["r"]


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command of that name that exports, or does what the report's name says, and its folder."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    export = NSYS / "basic-3.25.0.sqlite"
    (bin_folder / "nsys").write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && { echo version 1; exit; }\n'
        'case "$6" in\n'
        "*kills*) kill -9 $PPID; sleep 1 ;;\n"
        f'*hangs*) echo $$ > "{tmp_path}/hanging"; exec sleep 60 ;;\n'
        "esac\n"
        f'cp "{export}" "$5"\n'
    )
    (bin_folder / "nsys").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    return bin_folder


def test_a_worker_that_is_killed(folder: Path, tmp_path: Path, nsys: Path) -> None:
    """Its file is an error; all others are in."""
    others = [folder / f"t{rank}.sqlite" for rank in range(3)]
    paths = [others[0], binary(tmp_path / "kills.nsys-rep"), *others[1:]]
    result = nsysconv.import_files(paths, tmp_path / "job.db", workers=2)
    (lost,) = result.errors
    assert "kills" in lost.where
    assert "was killed" in str(lost)
    assert [bool(file.imported) for file in result.files] == [True, False, True, True]
    assert len(told(tmp_path / "job.db")) == len(others)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_interrupted_it_leaves_nothing(tmp_path: Path, nsys: Path) -> None:
    for name in ("a", "hangs", "z"):
        binary(tmp_path / f"{name}.nsys-rep")
    hanging = tmp_path / "hanging"
    before = {*tmp_path.iterdir(), hanging}
    process = subprocess.Popen(
        [sys.executable, "-m", "nsysconv", "import", "a.nsys-rep", "hangs.nsys-rep", "z.nsys-rep",
         "-o", "job.db", "--jobs", "2"],
        cwd=tmp_path, env={**CHILD_ENVIRONMENT, "PATH": os.environ["PATH"]},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        while not (hanging.exists() and hanging.read_text()) and process.poll() is None:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
        _, err = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    assert {*tmp_path.iterdir()} == before
    assert not pieces.running({int(hanging.read_text())})


# -- when it pays


def test_what_reading_asks_for(tmp_path: Path, folder: Path) -> None:
    report = binary(tmp_path / "t.nsys-rep")
    found = [work_of(Input((path,))) for path in (
        folder / "t0.sqlite", folder / "training-2.5.json.gz", report, tmp_path / "missing")]  # fmt: skip
    assert found == [Work.COPYING, Work.DECODING, Work.EXPORTING, Work.COPYING]


@pytest.mark.parametrize(
    ("cores", "size", "expected"),
    [
        (1, 1 << 30, set()),
        (2, 1 << 30, {Work.EXPORTING}),
        (4, 1 << 30, {Work.EXPORTING, Work.DECODING}),
        (4, 1 << 10, {Work.EXPORTING}),
    ],
)
def test_what_pays(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    cores: int, size: int, expected: set[Work],
) -> None:  # fmt: skip
    monkeypatch.setattr(importing, "cores", lambda: cores)
    reports = [binary(tmp_path / f"{name}.nsys-rep") for name in "ab"]
    for trace in folder.glob("*.json.gz"):
        shutil.copyfile(trace, tmp_path / trace.name)
        os.truncate(tmp_path / trace.name, size)  # with a hole, that takes no room
    paths = [*reports, *tmp_path.glob("*.json.gz"), *folder.glob("*.sqlite")]
    assert worthwhile([Input((path,)) for path in paths]) == expected


def test_one_file_is_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "cores", lambda: 16)
    assert worthwhile([Input((binary(tmp_path / "a.nsys-rep"),))]) == frozenset()
