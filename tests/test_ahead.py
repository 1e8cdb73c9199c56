"""Large traces are decoded while the command still loads what it needs itself."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pieces
import pytest
from conftest import CHILD_ENVIRONMENT, FIXTURES, NSYS
from typer.testing import CliRunner

from nsysconv import cli
from nsysconv.cli.app import app
from nsysconv.importers import ahead, hashing
from nsysconv.importers.kineto import beside, decoding
from nsysconv.importers.kineto.decoding import Decoding, decoding_of

TRACE, PACKED = FIXTURES / "kineto/basic-2.13.json", FIXTURES / "kineto/basic-2.5.json.gz"
TESTS = Path(__file__).parent


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    """Nothing is begun before a test, nor after it."""
    assert not decoding._begun._works
    assert not hashing._begun._works
    yield
    ahead.end()


@pytest.fixture
def for_every_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces of any size are decoded by two processes."""
    monkeypatch.setattr(beside, "_ALONE_BYTES", 0)
    monkeypatch.setattr(beside, "cores", lambda: 2)


def begun() -> list[Path]:
    """The files that are being decoded."""
    return [each.trace.path for each in decoding._begun._works.values()]


@pytest.mark.usefixtures("for_every_trace")
@pytest.mark.parametrize("path", [TRACE, PACKED], ids=lambda path: path.name)
def test_a_trace_is_begun_once(path: Path) -> None:
    ahead.start([str(path)])
    assert begun() == [path]
    ahead.start([path])
    assert begun() == [path]


@pytest.mark.usefixtures("for_every_trace")
def test_of_several_traces_the_first_is_begun(tmp_path: Path) -> None:
    ahead.start([tmp_path / "missing", TRACE, PACKED])
    assert begun() == [TRACE]


@pytest.mark.usefixtures("for_every_trace")
def test_a_mark_and_space_may_stand_before_a_trace(tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(b"\xef\xbb\xbf \n" + TRACE.read_bytes())
    ahead.start([tmp_path / "trace"])
    assert begun() == [tmp_path / "trace"]


@pytest.mark.usefixtures("for_every_trace")
def test_what_is_no_trace_is_not_begun(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "log").write_text("==7== NVPROF is profiling process 7, command: ./a\n")
    (tmp_path / "other.json").write_text('{"model": [1, 2, 3]}')
    folder, missing = tmp_path, tmp_path / "missing"
    others = [tmp_path / name for name in ("empty", "log", "other.json")]
    names = ("job.db@main", "a\0b", "")
    ahead.start([*others, folder, missing, *names, NSYS / "basic-3.28.1.sqlite"])
    assert not begun()


def test_small_traces_are_not_begun() -> None:
    ahead.start([TRACE, PACKED])
    assert not begun()


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
    monkeypatch.setattr(beside, "cores", lambda: 4)
    assert beside.count(size, head, asked) == count


def test_where_one_core_is_to_be_used_none_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "cores", lambda: 1)
    assert beside.count(1 << 30, b"{") == 0


@pytest.mark.usefixtures("for_every_trace")
@pytest.mark.parametrize("path", [TRACE, PACKED], ids=lambda path: path.name)
def test_who_reads_a_trace_gets_what_was_begun(path: Path) -> None:
    ahead.start([path])
    (first,) = decoding._begun._works.values()
    with closing(decoding_of(path, 2, python_functions=False)) as found:
        assert found is first
        assert not begun()
        several = list(found.pieces())
    with closing(Decoding(path, 0, python_functions=False)) as alone:
        assert list(alone.pieces()) == several
    assert several[0].tables


@pytest.mark.usefixtures("for_every_trace")
def test_who_asks_for_other_rows_gets_others() -> None:
    path = FIXTURES / "kineto/training-2.13.json"
    ahead.start([path])
    with closing(decoding_of(path, 2, python_functions=True)) as found:
        assert begun() == [path]
        assert not any(piece.counts["python functions"] for piece in found.pieces())
    with closing(decoding_of(path, 2, python_functions=False)) as found:
        assert any(piece.counts["python functions"] for piece in found.pieces()), "left out"
    ahead.start([path], ["python_functions"])
    (first,) = decoding._begun._works.values()
    with closing(decoding_of(path, 2, python_functions=True)) as found:
        assert found is first


@pytest.mark.usefixtures("for_every_trace")
def test_a_file_that_was_written_meanwhile_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(TRACE.read_bytes())
    ahead.start([path])
    path.write_bytes(TRACE.read_bytes().replace(b"cudaLaunchKernel", b"cudaLaunchKernul"))
    with closing(decoding_of(path, 2, python_functions=False)) as found:
        assert begun() == [path]
        names = [name for piece in found.pieces() for name in piece.names]
    assert "cudaLaunchKernul" in names


# -- the hash of a file, begun before all else


@pytest.mark.usefixtures("for_every_trace")
def test_a_hash_is_begun_only_where_it_will_be_asked_for() -> None:
    ahead.start([TRACE])
    assert not hashing._begun._works
    ahead.start([TRACE], hashed=True)
    assert len(hashing._begun._works) == 1


def test_who_asks_for_a_hash_gets_the_one_that_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    hashing.begin(TRACE)
    monkeypatch.setattr(hashing, "_hashed", lambda path: "made anew")
    assert hashing.sha256(TRACE) == sha256(TRACE.read_bytes()).hexdigest()
    assert hashing.sha256(TRACE) == "made anew"


def test_a_hash_is_of_the_file_as_it_is_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b"first")
    hashing.begin(path)
    path.write_bytes(b"now longer")
    assert hashing.sha256(path) == sha256(b"now longer").hexdigest()


def test_a_hash_whose_process_was_killed_is_made_anew() -> None:
    hashing.begin(TRACE)
    (begun,) = hashing._begun._works.values()
    begun._process.kill()
    assert hashing.sha256(TRACE) == sha256(TRACE.read_bytes()).hexdigest()


def test_a_hash_that_nobody_asked_for_is_ended() -> None:
    hashing.begin(TRACE)
    (begun,) = hashing._begun._works.values()
    ahead.end()
    assert begun._process.stdin is not None
    assert begun._process.stdin.closed
    assert not hashing._begun._works


# -- copies of the process, in programs of their own: this one has threads, and is never copied


def run(code: str, *, status: int = 0) -> list[int]:
    """The numbers that a program prints, of which nothing else is heard."""
    begin = (
        "import os, signal, sys, threading; from functools import partial; import pieces; "
        "from nsysconv.processes import EndedEarly, Processes\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin + code],
        capture_output=True,
        text=True,
        timeout=60,
        env=CHILD_ENVIRONMENT | {"PYTHONPATH": str(TESTS)},
    )
    assert (done.returncode, done.stderr) == (status, "")
    return [int(word) for word in done.stdout.split()]


COPIES = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")


@COPIES
@pytest.mark.parametrize(
    ("before", "copied", "alike"),
    [("", "True", 1), ("", "False", 0), ("threading.Timer(5, print).start()\n", "True", 0)],
    ids=["alone", "not asked for", "another thread runs"],
)
def test_processes_are_copies_where_that_is_safe(before: str, copied: str, alike: int) -> None:
    """A copy has its program's own command line."""
    code = f"""
for thread in threading.enumerate()[1:]: raise SystemExit(f"{{thread}} runs already")
waits = threading.Event()
if {bool(before)}: threading.Thread(target=waits.wait, daemon=True).start()
own = open("/proc/self/cmdline", "rb").read()
with Processes(2, partial, pieces.pid, copied={copied}) as some:
    found = set(some.map(range(8)))
    print(*{{int(open(f"/proc/{{p}}/cmdline", "rb").read() == own) for p in found}})
assert os.getpid() not in found
waits.set()
"""
    assert run(code) == [alike]


@COPIES
def test_a_command_has_one_thread_when_it_is_copied() -> None:
    """Libraries start some where nobody tells them not to; a copy would have none of these."""
    code = """
import nsysconv.cli, nsysconv.importers.kineto.alike
print(len(os.listdir("/proc/self/task")))
"""
    assert run(code) == [1]


@COPIES
@pytest.mark.parametrize("ending", ["", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_copies_end_with_the_program(ending: str) -> None:
    """Also where it is killed: no copy holds the pipes of another open."""
    code = f"""
some = Processes(3, partial, pieces.pid, copied=True)
print(*(process._process.pid for process in some._processes), flush=True)
{ending}
"""
    started = run(code, status=-9 if ending else 0)
    assert len(started) == 3
    assert not pieces.running(set(started))


@COPIES
def test_a_copy_has_no_part_in_how_the_program_ends() -> None:
    """What the program makes of signals is its own: a copy ends, and says nothing."""
    code = """
signal.signal(signal.SIGTERM, lambda *_: print("heard", flush=True))
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with Processes(1, partial, pieces.pid_then_long, copied=True) as some:
    found = some.map([0, 1])
    pid = next(found)
    print(pid)
    os.kill(pid, signal.SIGHUP)
    os.kill(pid, signal.SIGINT)
    os.kill(pid, signal.SIGTERM)
    try:
        next(found)
    except EndedEarly:
        print(7)
"""
    pid, heard = run(code)
    assert heard == 7
    assert not pieces.running({pid})


@COPIES
def test_a_copy_that_was_killed_is_replaced() -> None:
    code = """
import tempfile; from pathlib import Path
with tempfile.TemporaryDirectory() as folder, Processes(
    1, partial, pieces.killed_once, Path(folder), copied=True
) as some:
    print(*some.map([1, 3, 3], lambda number: -number))
"""
    assert run(code) == [2, -3, 6]


# -- the command line


@pytest.mark.parametrize(
    ("words", "paths", "include"),
    [
        (["import", "a.json", "-o", "job.db"], ["a.json"], []),
        (["import", "a.json", "--include", "python_functions"], ["a.json"], ["python_functions"]),
        (["import", "a.json", "b.json", "-o", "job.db"], [], []),
        (["report", "a.json", "kernels"], ["a.json"], []),
        (["report", "--list"], [], []),
        (["diff", "a.json", "b.db"], ["a.json", "b.db"], []),
        (["info", "a.json"], ["a.json"], []),
        (["export", "a.json", "-o", "a.parquet"], ["a.json"], []),
    ],
)
def test_commands_that_read_traces_begin_first(
    monkeypatch: pytest.MonkeyPatch, words: list[str], paths: list[str], include: list[str]
) -> None:
    class FoundError(Exception):
        pass

    def start(named: list[str], asked: Sequence[str] = (), *, hashed: bool = False) -> None:
        assert (list(named), list(asked)) == (paths, include)
        assert hashed == (words[0] == "import")
        raise FoundError

    monkeypatch.setattr(ahead, "start", start)
    assert isinstance(CliRunner().invoke(app, words).exception, FoundError)


@pytest.mark.parametrize("words", [["--version"], ["info", "missing.json"]])
def test_every_command_ends_what_was_begun(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """By itself it would be decoded to the end before the program is left."""
    ended = []
    monkeypatch.setattr(ahead, "end", lambda: ended.append(True))
    monkeypatch.setattr(sys, "argv", ["nsysconv", *words])
    cli._run()
    assert ended


def test_a_command_that_needs_no_decoding_ends_it(tmp_path: Path) -> None:
    """The trace is in the store already; its processes are gone when the command is."""
    head, tail = TRACE.read_bytes().rsplit(b"]", 1)
    event = b',{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
    trace, store = tmp_path / "large.json", tmp_path / "job.db"
    trace.write_bytes(head + event * (25_000_000 // len(event)) + b"]" + tail)
    command = [sys.executable, "-m", "nsysconv", "import", str(trace), "-o", str(store)]
    first = subprocess.run(command, capture_output=True, text=True, env=CHILD_ENVIRONMENT)
    assert first.returncode == 0, first.stderr
    with closing(sqlite3.connect(store)) as opened:
        told = set(opened.execute("SELECT sha256 FROM profile"))
    assert told == {(sha256(trace.read_bytes()).hexdigest(),)}
    # Their processes would hold stderr open.
    again = subprocess.run(
        command, capture_output=True, text=True, env=CHILD_ENVIRONMENT, timeout=60
    )
    assert "already imported" in again.stderr + again.stdout
    assert again.returncode == 0
