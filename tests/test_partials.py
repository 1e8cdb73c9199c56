"""What is being built: whose it is, also where process numbers say nothing, and when it is swept away."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT, NSYS, add

from nsysconv import partials
from nsysconv.partials import building, pid_namespace, sweep, sweep_folder
from nsysconv.store.location import writing

BASIC = NSYS / "basic-3.25.0.sqlite"
HOST = socket.gethostname()
OTHER_NAMESPACE = pid_namespace() + 1


@contextmanager
def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    """A clock that is so much ahead."""
    now = time.time
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time", lambda: now() + seconds)
        yield


def test_a_temporary_name_holds_host_namespace_and_pid(tmp_path: Path) -> None:
    with building(tmp_path / "job.db") as partial:
        assert partial.parent == tmp_path
        assert partial.name.startswith(f".job.db.{HOST}-{pid_namespace()}-{os.getpid()}-")
        assert partial.name.endswith(".partial")


def test_a_temporary_file_is_removed_at_the_end(tmp_path: Path) -> None:
    with building(tmp_path / "job.db") as partial:
        partial.write_text("half")
    with building(tmp_path / "job") as partial:
        partial.mkdir()
        (partial / "kernel.parquet").write_text("half")
    assert list(tmp_path.iterdir()) == []


def test_files_in_progress_are_not_swept(tmp_path: Path) -> None:
    with building(tmp_path / "job.db") as partial:
        partial.write_text("half")
        sweep(tmp_path / "job.db")
        sweep_folder(tmp_path)
        assert partial.exists()


def test_an_empty_folder_is_removed_where_no_more_files_may_be_open(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with building(tmp_path / "out") as partial:
        partial.mkdir()
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_folder", [False, True], ids=["a file", "a folder"])
def test_what_another_container_builds_stays_for_an_hour(
    tmp_path: Path, dead_pid: int, monkeypatch: pytest.MonkeyPatch, is_folder: bool
) -> None:
    """Its process is not to be seen here: one that lives looks like one that was killed."""
    theirs = tmp_path / f".job.db.{HOST}-{OTHER_NAMESPACE}-{dead_pid}-0123abcd.partial"
    if is_folder:
        theirs.mkdir()
    else:
        theirs.write_text("half")
    sweep(tmp_path / "job.db")
    assert theirs.exists()
    with later(monkeypatch, 2 * partials.OLD_S):
        sweep(tmp_path / "job.db")
    assert not theirs.exists()


def test_a_folder_in_which_another_container_writes_stays(
    tmp_path: Path, dead_pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table can take longer than an hour, and the folder is not changed by it."""
    theirs = tmp_path / f".job.{HOST}-{OTHER_NAMESPACE}-{dead_pid}-0123abcd.partial"
    theirs.mkdir()
    (theirs / "kernel.parquet").write_text("half")
    made = theirs.stat().st_ctime
    time.sleep(0.05)
    (theirs / "kernel.parquet").write_text("more than half")
    assert theirs.stat().st_ctime == made
    monkeypatch.setattr(time, "time", lambda: made + partials.OLD_S + 0.02)
    sweep(tmp_path / "job")
    assert theirs.exists()


def test_our_own_number_in_another_container_is_not_ours(tmp_path: Path) -> None:
    """In containers every run has the same small number."""
    theirs = tmp_path / f".job.db.{HOST}-{OTHER_NAMESPACE}-{os.getpid()}-0123abcd.partial"
    theirs.write_text("half")
    sweep(tmp_path / "job.db")
    assert theirs.exists()


def test_what_a_killed_capture_left_is_swept(
    tmp_path: Path, dead_pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pid_namespace(), OTHER_NAMESPACE
    of_killed = tmp_path / f".train.nsys-rep.{HOST}-{ours}-{dead_pid}-0123abcd.partial"
    in_doubt = {
        tmp_path / f".train.nsys-rep.{HOST}-{theirs}-{dead_pid}-0123abcd.partial",
        tmp_path / f".train.nsys-rep.{HOST}-{dead_pid}.partial",  # of nsysconv-rank.sh
    }
    kept = {
        tmp_path / f".train.nsys-rep.{HOST}-{ours}-{os.getppid()}-0123abcd.partial",
        tmp_path / f".train.nsys-rep.other-{HOST}-{ours}-{dead_pid}-0123abcd.partial",
        tmp_path / f"train.nsys-rep.{HOST}-{ours}-{dead_pid}-0123abcd.partial",
        tmp_path / "train.nsys-rep",
    }
    for path in (of_killed, *in_doubt, *kept):
        path.write_bytes(b"half")
    sweep_folder(tmp_path)
    assert set(tmp_path.iterdir()) == in_doubt | kept
    with later(monkeypatch, 2 * partials.OLD_S):
        sweep_folder(tmp_path)
    assert set(tmp_path.iterdir()) == kept
    sweep_folder(tmp_path / "nowhere")


SWEEPS = "import sys, pathlib; from nsysconv.partials import sweep; sweep(pathlib.Path(sys.argv[1]))"
_OWN_NUMBERS = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


def may_have_own_numbers() -> bool:
    """Whether a process can be started that has process numbers of its own, as in a container."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_OWN_NUMBERS, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_have_own_numbers(), reason="no process numbers of one's own here")
def test_another_container_sweeps_nothing_of_ours(tmp_path: Path) -> None:
    """Our number is that of no process there."""
    store = tmp_path / "job.db"
    with writing(store) as writer:
        add(writer, BASIC)
        (ours,) = tmp_path.glob(".job.db.*.partial")
        subprocess.run([*_OWN_NUMBERS, sys.executable, "-c", SWEEPS, store], env=CHILD_ENVIRONMENT,
                       check=True)  # fmt: skip
        assert ours.exists()
    assert list(tmp_path.iterdir()) == [store]
