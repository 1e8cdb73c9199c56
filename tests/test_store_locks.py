"""A write transaction is safe from other processes, whatever this process opens meanwhile.

SQLite's locks belong to the process, and closing any descriptor of a file drops all of them. One SQLite
library knows that and keeps count; Python's own and the driver's do not know of each other
(docs/decisions/0003).
"""

from __future__ import annotations

import ast
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import NSYS, ROOT, add, import_file

from nsysconv.errors import InUseError
from nsysconv.importers.contract import Options
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.store.location import is_store, reading, require_store, writing
from nsysconv.store.recording import Recording
from nsysconv.store.sqlite import connection as connecting
from nsysconv.store.sqlite.connection import SqliteConnection, sqlite_uri
from nsysconv.store.write import Origin

BASIC = NSYS / "basic-3.25.0.sqlite"

TRY_TO_WRITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
    print("wrote")
except sqlite3.OperationalError as error:
    print(error)
"""

READ = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM run").fetchone()
print("reads", flush=True)
sys.stdin.read()
"""


def another_process_writes(store: Path) -> str:
    """What another process is told that wants to write."""
    done = subprocess.run([sys.executable, "-c", TRY_TO_WRITE, store], capture_output=True,
                          text=True, check=True)  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    import_file(BASIC, tmp_path / "store.db")
    return tmp_path / "store.db"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source.sqlite").write_bytes(BASIC.read_bytes())
    return tmp_path / "source.sqlite"


@pytest.fixture
def transaction(store: Path, source: Path) -> Iterator[SqliteConnection]:
    """A write transaction as an import has it: the source attached, rows written."""
    with SqliteConnection(sqlite_uri(store, "rw"), str(store)) as connection:
        connection.attach_source(source, "source")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE run SET label = 'changed'")
        yield connection
        connection.execute("ROLLBACK")


def test_another_process_is_locked_out(transaction: SqliteConnection, store: Path) -> None:
    assert another_process_writes(store) == "database is locked"


def test_without_a_transaction_another_process_may_write(store: Path) -> None:
    """So that the other tests can fail."""
    with reading(store):
        assert another_process_writes(store) == "wrote"


@pytest.mark.skipif(sys.platform == "win32", reason="locks are the handle's there")
def test_python_sqlite_on_a_store_drops_its_locks(transaction: SqliteConnection, store: Path) -> None:
    """Why the rule is there. If this fails, the two libraries are one, and the rule may go."""
    connection = sqlite3.connect(store)
    connection.execute("SELECT count(*) FROM run").fetchall()
    connection.close()
    assert another_process_writes(store) == "wrote"


def _read_with_python(source: Path, store: Path) -> None:
    connection = sqlite3.connect(f"file:{source}?mode=ro&immutable=1", uri=True)
    connection.execute("SELECT count(*) FROM StringIds").fetchall()
    connection.close()


def _probe(source: Path, store: Path) -> None:
    with Probe(source) as probe:
        importer = detect(probe)
        probe.select("SELECT count(*) FROM StringIds")
        probe.sha256()
        for recording in importer.read([probe], Options()):
            list(recording.batches)


def _hash_bytes(source: Path, store: Path) -> None:
    source.read_bytes()


# What happens in this process while a transaction is open; the last three are about the store itself,
# as when a program reads a store while it adds to it.
MEANWHILE: dict[str, Callable[[Path, Path], object]] = {
    "the source is read with Python's SQLite": _read_with_python,
    "the source is probed, hashed and read": _probe,
    "the source's bytes are read": _hash_bytes,
    "is it a store?": lambda source, store: is_store(store),
    "is it a store of this version?": lambda source, store: require_store(store),
    "the store is opened for reading": lambda source, store: _open_and_close(store),
}


def _open_and_close(store: Path) -> None:
    with reading(store) as opened:
        opened.profiles()


@pytest.mark.parametrize("what", MEANWHILE)
def test_the_lock_holds_while(
    transaction: SqliteConnection, source: Path, store: Path, what: str
) -> None:
    MEANWHILE[what](source, store)
    assert another_process_writes(store) == "database is locked"


def test_who_reads_too_long_costs_one_import_and_not_the_next(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "BUSY_MS", 100)
    with writing(store) as writer:
        reader = subprocess.Popen([sys.executable, "-c", READ, store], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        assert reader.stdout is not None
        reader.stdout.readline()
        with pytest.raises(InUseError):
            add(writer, NSYS / "graphs-3.24.0.sqlite", identity="b")
        reader.communicate("enough")
        add(writer, NSYS / "ranges-3.28.1.sqlite", identity="c")
    with reading(store) as opened:
        labels = [profile.ref.label for profile in opened.profiles()]
    assert labels == ["basic-3.25.0.sqlite", "ranges-3.28.1.sqlite"]


def test_the_lock_holds_while_a_writer_adds(store: Path, source: Path) -> None:
    """In a real import, at the moment when it has written all and not committed."""
    told = []
    with Probe(source) as probe, writing(store) as writer:
        (recording,) = detect(probe).read([probe], Options())

        def recordings() -> Iterator[Recording]:
            yield recording
            told.append(another_process_writes(store))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            writer.add(recordings(), Origin("a", "b", "c", "d", "e"), lambda table, rows: None)
    assert told == ["database is locked"]


def test_the_store_never_imports_python_sqlite() -> None:
    """But in what a process of its own runs."""
    package = ROOT / "nsysconv"
    for path in package.rglob("*.py"):
        if path.is_relative_to(package / "importers"):
            continue
        if path == package / "store" / "sqlite" / "query_process.py":
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "sqlite3" in text else ():
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [n for n in names if n.split(".")[0] in ("sqlite3", "_sqlite3")], path
