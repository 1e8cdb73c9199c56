"""Processes that start while the command still loads what it needs itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pieces
import pytest
from conftest import FIXTURES, NSYS
from typer.testing import CliRunner

from nsysconv import processes
from nsysconv.cli.app import app
from nsysconv.importers import ahead
from nsysconv.importers.kineto import beside
from nsysconv.processes import Processes, start_ahead

TRACE, PACKED = FIXTURES / "kineto/basic-2.13.json", FIXTURES / "kineto/basic-2.5.json.gz"
WORKER = "nsysconv.importers.kineto.worker"


@pytest.fixture(autouse=True)
def none_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is at hand before a test, nor after it; what is started finds the module of pieces."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    assert not processes._ahead
    yield
    processes._dismiss()


@pytest.fixture
def for_every_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces of any size are decoded by two processes."""
    monkeypatch.setattr(beside, "_ALONE_BYTES", 0)
    monkeypatch.setattr(beside.os, "cpu_count", lambda: 2)


@pytest.mark.usefixtures("for_every_trace")
@pytest.mark.parametrize("path", [TRACE, PACKED], ids=lambda path: path.name)
def test_traces_have_processes_at_hand(path: Path) -> None:
    ahead.start([str(path)])
    assert len(processes._ahead) == 2
    ahead.start([path])
    assert len(processes._ahead) == 2, "they serve one file after the other"


@pytest.mark.usefixtures("for_every_trace")
def test_a_mark_and_space_may_stand_before_a_trace(tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(b"\xef\xbb\xbf \n" + TRACE.read_bytes())
    ahead.start([tmp_path / "trace"])
    assert len(processes._ahead) == 2


@pytest.mark.usefixtures("for_every_trace")
def test_what_is_no_trace_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "log").write_text("==7== NVPROF is profiling process 7, command: ./a\n")
    folder, missing = tmp_path, tmp_path / "missing"
    others = (tmp_path / "empty", tmp_path / "log", folder, missing, "job.db@main", "a\0b", "")
    ahead.start([*others, NSYS / "basic-3.28.1.sqlite"])
    assert not processes._ahead


def test_small_traces_start_nothing() -> None:
    ahead.start([TRACE, PACKED])
    assert not processes._ahead


@pytest.mark.parametrize(
    ("size", "head", "asked", "count"),
    [
        (24 << 20, b"{", None, 4),
        ((24 << 20) - 1, b"{", None, 0),
        (3 << 20, b"\x1f\x8b", None, 4),  # packed tenfold
        (2 << 20, b"\x1f\x8b", None, 0),
        (1 << 30, b"{", 1, 0),
        (1 << 30, b"{", 3, 3),
    ],
)
def test_the_size_of_the_content_tells_how_many(
    monkeypatch: pytest.MonkeyPatch, size: int, head: bytes, asked: int | None, count: int
) -> None:
    monkeypatch.setattr(beside.os, "cpu_count", lambda: 4)
    assert beside.count(size, head, asked) == count


def test_work_is_done_by_those_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    start_ahead(2, WORKER)
    started = {process.pid for process in processes._ahead}
    monkeypatch.setattr(subprocess, "Popen", None)  # no further one can be started
    with Processes[int, int](2, partial, pieces.pid) as some:
        assert set(some.map(range(8))) <= started
    assert not processes._ahead
    assert not pieces.running(started)


def test_what_they_will_need_is_loaded() -> None:
    """In the process itself nothing of it is."""
    code = (
        "import sys; from nsysconv import processes as p; p.start_ahead(1, 'fractions'); "
        "assert 'fractions' not in sys.modules; "
        "print(next(p.Processes(1, eval, '__import__(\"sys\").modules.__contains__')"
        ".map(['fractions'])))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "True\n"
    )


def test_those_that_nobody_asks_for_end_with_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while they load: they would notice only after that."""
    (tmp_path / "takes_long_to_load.py").write_text("import time; time.sleep(100)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = (
        "from nsysconv import processes as p; p.start_ahead(2, 'takes_long_to_load'); "
        "print(*(process.pid for process in p._ahead))"
    )
    # They hold its stderr open.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    started = set(map(int, done.stdout.split()))
    assert len(started) == 2
    assert not pieces.running(started)


def test_one_that_was_killed_meanwhile_is_replaced() -> None:
    start_ahead(1, WORKER)
    killed = processes._ahead[0]
    killed.kill()
    killed.wait()
    with Processes[int, int](1, partial, pieces.double) as some:
        assert list(some.map([1, 2])) == [2, 4]


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (["import", "a.json", "b.json", "-o", "job.db"], ["a.json", "b.json"]),
        (["report", "a.json", "kernels"], ["a.json"]),
        (["report", "--list"], []),
        (["diff", "a.json", "b.db"], ["a.json", "b.db"]),
        (["info", "a.json"], ["a.json"]),
        (["export", "a.json", "-o", "a.parquet"], ["a.json"]),
    ],
)
def test_commands_that_read_traces_start_them_first(
    monkeypatch: pytest.MonkeyPatch, words: list[str], paths: list[str]
) -> None:
    class FoundError(Exception):
        pass

    def start(named: list[str]) -> None:
        assert named == paths
        raise FoundError

    monkeypatch.setattr(ahead, "start", start)
    assert isinstance(CliRunner().invoke(app, words).exception, FoundError)
