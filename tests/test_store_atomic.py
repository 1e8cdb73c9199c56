"""All of an import or none of it: killed, refused, run twice, or at the same time as another."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import repeat_export
from conftest import CHILD_ENVIRONMENT, NSYS, ODD, ROOT, add, dump, few, import_file

from nsysconv import schema
from nsysconv.errors import NsysconvError, UsageError
from nsysconv.importers.contract import Options
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.partials import building, pid_namespace
from nsysconv.store.location import reading, writing
from nsysconv.store.recording import Recording
from nsysconv.store.sqlite import connection
from nsysconv.store.sqlite.connection import SqliteConnection, sqlite_uri
from nsysconv.store.write import Origin, Writer

BASIC = NSYS / "basic-3.25.0.sqlite"
OTHER = NSYS / "graphs-3.24.0.sqlite"
KILLS = 10
# Ends by itself, in order of the import; what a kill there has to leave of a new store.
PLACES = {"schema": 0, "extents": 0, "profile": 0, "publish": 0, "link": 1}


class Worker:
    """A process whose children import and die."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, ROOT / "tests" / "crash_worker.py"], env=CHILD_ENVIRONMENT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def run(
        self, source: Path, store: Path, identity: str, *, die: str | None = None,
        kill_after_s: float | None = None,
    ) -> int:  # fmt: skip
        """Imports in a child, killed after a while or at a place; its exit status, -9 if killed."""
        assert self._process.stdin
        job = {"source": str(source), "store": str(store), "identity": identity, "die": die}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        child = int(self._line())
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            with suppress(ProcessLookupError):
                # Not yet waited for by its parent, or gone: never another process's number.
                os.kill(child, signal.SIGKILL)
        return int(self._line())

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export that takes long enough to be killed in the middle of its import."""
    path = tmp_path_factory.mktemp("large") / "large.sqlite"
    repeat_export.generate(path, NSYS / "two_processes_one_gpu-3.24.14.sqlite", 6_000)
    return path


@pytest.fixture(scope="module")
def seconds(worker: Worker, large: Path, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long an import of the large file takes when nobody kills it."""
    begin = time.monotonic()
    assert worker.run(large, tmp_path_factory.mktemp("timed") / "store.db", "timed") == 0
    return time.monotonic() - begin


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_sound(store: Path, identities: list[str]) -> None:
    """Opens as a store, is intact, and holds exactly these profiles with all of their rows."""
    with reading(store) as opened:
        assert [p.attributes["identity"] for p in opened.profiles()] == identities
    with SqliteConnection(sqlite_uri(store, "rw"), str(store)) as opened_again:
        assert opened_again.value("PRAGMA integrity_check") == "ok"
        for name in schema.EVENT_TABLES:
            told = f"SELECT coalesce(sum(row_count), 0) FROM extent WHERE table_name = '{name}'"
            assert opened_again.value(f'SELECT count(*) FROM "{name}"') == opened_again.value(told), name


# -- kill -9


@pytest.mark.parametrize("number", few(range(KILLS), 1))
def test_a_killed_import_leaves_no_new_store(
    worker: Worker, large: Path, seconds: float, tmp_path: Path, number: int
) -> None:
    store, when = tmp_path / "store.db", random.Random(number).uniform(0, seconds)
    ended = worker.run(large, store, "killed", kill_after_s=when)
    assert ended in (0, -signal.SIGKILL)
    if ended == 0:
        assert store.exists()
    if store.exists():
        assert_sound(store, ["killed"])
        store.unlink()
    import_file(BASIC, store, identity="next")
    assert_sound(store, ["next"])
    assert names(tmp_path) == ["store.db"]


@pytest.mark.parametrize("number", few(range(KILLS), 1))
def test_a_killed_import_leaves_an_old_store_as_it_was(
    worker: Worker, large: Path, seconds: float, tmp_path: Path, number: int
) -> None:
    store, when = tmp_path / "store.db", random.Random(100 + number).uniform(0, seconds)
    import_file(BASIC, store, identity="old")
    before = dump(store)
    ended = worker.run(large, store, "killed", kill_after_s=when)
    with reading(store) as opened:  # this is what rolls back
        found = [p.attributes["identity"] for p in opened.profiles()]
    assert found in (["old"], ["old", "killed"])
    if ended == 0:
        assert found == ["old", "killed"]
    assert_sound(store, found)
    if found == ["old"]:
        assert dump(store) == before
    import_file(OTHER, store, identity="next")
    assert_sound(store, [*found, "next"])
    assert names(tmp_path) == ["store.db"]


def test_a_new_store_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it: a power cut leaves a whole store, or none."""
    store, synced, sync = tmp_path / "store.db", list[tuple[int, int]](), os.fsync

    def noted(descriptor: int) -> None:
        assert not store.exists()
        sync(descriptor)
        about = os.fstat(descriptor)
        synced.append((about.st_ino, about.st_size))

    monkeypatch.setattr(os, "fsync", noted)
    import_file(BASIC, store)
    about = store.stat()
    assert synced == [(about.st_ino, about.st_size)]


@pytest.mark.parametrize("place", PLACES)
def test_a_new_store_killed_at(worker: Worker, tmp_path: Path, place: str) -> None:
    store = tmp_path / "store.db"
    assert worker.run(BASIC, store, "killed", die=place) == -signal.SIGKILL
    assert [name for name in names(tmp_path) if not name.startswith(".")] == (
        ["store.db"] if PLACES[place] else [])  # fmt: skip
    assert len(names(tmp_path)) == 1 + PLACES[place], "the kill came at another place"
    if store.exists():
        assert_sound(store, ["killed"])
    found = ["killed"] * PLACES[place]
    import_file(OTHER, store, identity="next")
    assert_sound(store, [*found, "next"])
    assert names(tmp_path) == ["store.db"]


@pytest.mark.parametrize("place", ["extents", "profile"])
def test_an_old_store_killed_at(worker: Worker, tmp_path: Path, place: str) -> None:
    store = tmp_path / "store.db"
    import_file(BASIC, store, identity="old")
    before = dump(store)
    assert worker.run(OTHER, store, "killed", die=place) == -signal.SIGKILL
    assert_sound(store, ["old"])
    assert dump(store) == before
    import_file(OTHER, store, identity="next")
    assert_sound(store, ["old", "next"])
    assert names(tmp_path) == ["store.db"]


def test_a_killed_import_can_be_looked_at_where_nothing_may_be_written(
    worker: Worker, tmp_path: Path
) -> None:
    """The journal of a killed import in a folder of somebody else's: an answer, not a traceback."""
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    store = tmp_path / "store.db"
    import_file(BASIC, store, identity="old")
    worker.run(OTHER, store, "killed", die="profile")
    tmp_path.chmod(0o500)
    try:
        with reading(store) as opened:
            assert [p.attributes["identity"] for p in opened.profiles()] == ["old"]
    except NsysconvError as error:
        assert str(store) in str(error)
    finally:
        tmp_path.chmod(0o700)


# -- what killed imports left


def _partial(store: Path, pid: int, beside: str = "") -> Path:
    """Where process `pid` would build the store; `beside`: the ending of a file next to it."""
    with building(store) as partial:
        ours = partial.name
    assert f"-{os.getpid()}-" in ours
    return store.with_name(ours.replace(f"-{os.getpid()}-", f"-{pid}-") + beside)


@pytest.mark.parametrize(("name", "old", "endings"), [
    ("run [1]*.db", False, [""]), ("store.db", True, [""]),
    # A kill while the tables were made leaves the file and its journal.
    ("store.db", False, ["", "-journal"]),
], ids=["of a new store", "of an old store", "with its journal"])  # fmt: skip
def test_leftovers_are_swept(
    tmp_path: Path, dead_pid: int, name: str, old: bool, endings: list[str]
) -> None:
    store = tmp_path / name
    if old:
        import_file(BASIC, store)
    for ending in endings:
        _partial(store, dead_pid, ending).write_bytes(b"half a store")
    import_file(OTHER, store)
    assert names(tmp_path) == [name]


def test_a_leftover_under_our_own_number_is_no_obstacle(tmp_path: Path) -> None:
    """In containers every run has the same host name and the same small process number."""
    store = tmp_path / "store.db"
    with writing(tmp_path / "other.db") as writer:
        add(writer, BASIC)
    (tmp_path / "other.db").rename(_partial(store, os.getpid()))
    import_file(OTHER, store, identity="new")
    assert_sound(store, ["new"])
    assert names(tmp_path) == ["store.db"]


def test_what_is_not_a_leftover_of_this_store_stays(tmp_path: Path, dead_pid: int) -> None:
    """Of a running import, of another store, of another host, of nobody."""
    store = tmp_path / "store.db"
    host, space = socket.gethostname(), pid_namespace()
    kept = [
        _partial(store, os.getppid()), _partial(tmp_path / "other.db", dead_pid),
        _partial(store, 10**30),
        tmp_path / f".store.db.not-{host}-{space}-{dead_pid}-00000000.partial",
        tmp_path / f".store.db.{host}-{space}-x{dead_pid}-00000000.partial",
        tmp_path / "store.db.partial",
    ]  # fmt: skip
    for path in kept:
        path.write_bytes(b"somebody's")
    import_file(BASIC, store)
    assert names(tmp_path) == sorted(["store.db", *(path.name for path in kept)])


# -- an import that fails on its own

FAILURES: dict[str, Callable[[], Any]] = {
    "an error of ours": lambda: (_ for _ in ()).throw(UsageError("no")),
    "an error of Python's": lambda: 1 / 0,
    "Ctrl-C": lambda: (_ for _ in ()).throw(KeyboardInterrupt),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("old", [False, True], ids=["new store", "in place of an old profile"])
def test_a_failing_import_leaves_nothing(tmp_path: Path, failure: str, old: bool) -> None:
    store = tmp_path / "store.db"
    if old:
        import_file(BASIC, store)
        before = dump(store)

    def fail() -> None:
        with writing(store) as writer:
            add_failing(writer, FAILURES[failure], replacing=1 if old else None)

    with pytest.raises((UsageError, ZeroDivisionError, KeyboardInterrupt)):
        fail()
    assert names(tmp_path) == (["store.db"] if old else [])
    if old:
        with reading(store) as opened:
            assert [p.ref.label for p in opened.profiles()] == [BASIC.name]
        assert dump(store) == before


def add_failing(writer: Writer, fail: Callable[[], Any], replacing: int | None = None) -> None:
    with Probe(OTHER) as probe:
        (recording,) = detect(probe).read([probe], Options())

        def recordings() -> Iterator[Recording]:
            yield recording
            fail()

        writer.add(recordings(), Origin("a", "b", "c", "d", "e"), lambda table, rows: None,
                   replacing=() if replacing is None else (replacing,))  # fmt: skip


def test_after_a_failure_the_same_writer_goes_on(tmp_path: Path) -> None:
    """One damaged file of many must not cost the others."""
    store = tmp_path / "store.db"
    with writing(store) as writer:
        add(writer, BASIC, identity="first")
        with pytest.raises(ZeroDivisionError):
            add_failing(writer, lambda: 1 / 0)
        with pytest.raises(NsysconvError):
            add(writer, ODD / "truncated.sqlite")
        add(writer, ODD / "bad-cells.sqlite", identity="guarded")
        add(writer, OTHER, identity="last")
    assert_sound(store, ["first", "guarded", "last"])
    alone = tmp_path / "alone.db"
    import_file(OTHER, alone)
    with reading(store) as many, reading(alone) as one:
        counts = [[p.row_count(t) for t in schema.EVENT_TABLES]
                  for p in (many.profiles()[2], one.profiles()[0])]  # fmt: skip
    assert counts[0] == counts[1]


def test_a_full_disk(tmp_path: Path) -> None:
    """SQLite's own limit on pages stands for the disk's."""
    store = tmp_path / "store.db"
    import_file(BASIC, store, identity="old")
    before = dump(store)
    large = tmp_path / "large.sqlite"
    repeat_export.generate(large, BASIC, 3_000)
    with pytest.raises(UsageError, match="full"), writing(store) as writer:
        pages = writer._connection.value("PRAGMA page_count")
        assert isinstance(pages, int)
        writer._connection.execute(f"PRAGMA max_page_count={pages + 4}")
        add(writer, large)
    assert_sound(store, ["old"])
    assert dump(store) == before


# -- the same again


def test_the_same_again_changes_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    first = import_file(BASIC, store)
    before, modified = store.read_bytes(), dump(store)
    again = import_file(BASIC, store, label="another name")
    assert (first.existing, again.existing) == (False, True)
    assert (again.profile_id, again.label) == (first.profile_id, first.label)
    assert again.row_counts == {name: n for name, n in first.row_counts.items() if n}
    assert dump(store) == modified
    assert store.read_bytes() == before
    assert names(tmp_path) == ["store.db"]


def test_a_copy_under_another_name_is_the_same(tmp_path: Path) -> None:
    store, copy = tmp_path / "store.db", tmp_path / "copy.sqlite"
    shutil.copyfile(BASIC, copy)
    import_file(BASIC, store)
    assert import_file(copy, store).existing


# -- at the same time


def test_two_imports_make_the_same_new_store(worker: Worker, tmp_path: Path) -> None:
    """Whoever is done last is told; the first one's store stays."""
    store = tmp_path / "store.db"
    with pytest.raises(UsageError, match="appeared") as caught, writing(store) as writer:
        add(writer, BASIC, identity="ours")
        assert worker.run(OTHER, store, "theirs") == 0
    assert caught.value.where == str(store)
    assert_sound(store, ["theirs"])
    assert names(tmp_path) == ["store.db"]


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
connection.close()
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A store with one profile, and another process that is about to write to it."""
    store = tmp_path / "store.db"
    import_file(BASIC, store, identity="old")
    process = subprocess.Popen([sys.executable, "-c", HOLD, store], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout
    assert process.stdin
    assert process.stdout.readline() == "held\n"
    yield store, process
    process.stdin.close()
    process.wait()
    process.stdout.close()


def test_a_second_writer_is_told_who_is_first(
    held: tuple[Path, subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = held
    monkeypatch.setattr(connection, "BUSY_MS", 100)
    with pytest.raises(UsageError, match="in use") as caught:
        import_file(OTHER, store)
    assert caught.value.where == str(store)
    assert caught.value.hint


def test_a_second_writer_waits(held: tuple[Path, subprocess.Popen[str]]) -> None:
    store, process = held
    # Lets go half a second after the import began to wait.
    waiter = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(0.5); print(flush=True)"],
        stdout=process.stdin,
    )
    import_file(OTHER, store, identity="second")
    waiter.wait()
    assert_sound(store, ["old", "second"])


def test_a_store_can_be_read_while_another_is_about_to_write(
    held: tuple[Path, subprocess.Popen[str]],
) -> None:
    with reading(held[0]) as opened:
        (profile,) = opened.profiles()
        assert len(profile.columns("kernel", ("start_ns",))["start_ns"]) == 8
