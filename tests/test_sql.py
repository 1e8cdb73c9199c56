"""Queries of people: they read and do nothing else, end when told to, and are answered of any source."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import imports
import pytest
from conftest import CHILD_ENVIRONMENT, NSYS, ODD, Shelf, few, import_file, name_of
from golden_cases import run
from here import Here
from one_answer import EXAMPLES

import nsysconv
from nsysconv.errors import InputError, InUseError, UsageError
from nsysconv.store import filesystem
from nsysconv.store.location import ask
from nsysconv.store.sqlite import query_process, user_query

BASIC = NSYS / "basic-3.25.0.sqlite"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
# One that gives rows all the time.
ENDLESS_ROWS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"

linux = pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="only Linux lists children"
)


@pytest.fixture
def store(tmp_path: Path, shelf: Shelf) -> Path:
    return Path(shutil.copy(shelf.store(BASIC), tmp_path / "job.db"))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries are run by this process. Its stores are nobody else's: no lock is missed."""
    monkeypatch.setattr(user_query, "Processes", Here)
    monkeypatch.setattr(query_process, "_end_with", lambda parent: None)


@contextmanager
def untouched(store: Path) -> Iterator[None]:
    """Nothing is written to a store, or beside it."""
    before, stamp = store.read_bytes(), store.stat().st_mtime_ns
    beside = sorted(store.parent.iterdir())
    yield
    assert store.read_bytes() == before
    assert store.stat().st_mtime_ns == stamp
    assert sorted(store.parent.iterdir()) == beside


def refused(store: Path, query: str) -> str:
    """What is said of a query that is the user's mistake."""
    with pytest.raises(UsageError) as caught:
        ask(store, query)
    return str(caught.value)


# -- what a query may do


NO_SELECTS = [
    "PRAGMA journal_mode=wal", "PRAGMA user_version=7", "PRAGMA writable_schema=1",
    "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA incremental_vacuum", "PRAGMA optimize",
    "PRAGMA query_only=0", "PRAGMA temp_store_directory='.'",
    "ATTACH 'new.db' AS x", "ATTACH ':memory:' AS x", "DETACH main", "VACUUM", "VACUUM INTO 'new.db'",
    "DELETE FROM kernel", "UPDATE run SET label = 'x'", "INSERT INTO run VALUES (7, 'x', NULL)",
    "INSERT INTO run SELECT * FROM run", "REPLACE INTO run VALUES (1, 'x', NULL)",
    "WITH n(i) AS (SELECT 7) INSERT INTO run SELECT i, 'x', NULL FROM n",
    "WITH n(i) AS (SELECT 7) DELETE FROM kernel WHERE id IN n", "DELETE FROM kernel RETURNING id",
    "EXPLAIN DELETE FROM kernel",
    "CREATE TABLE mine (a)", "CREATE TEMP TABLE mine (a)", "CREATE TEMP VIEW mine AS SELECT 1",
    "CREATE TEMP TRIGGER t INSERT ON run BEGIN SELECT 1; END", "CREATE INDEX i ON kernel (dur_ns)",
    "CREATE VIRTUAL TABLE mine USING fts5(a)", "DROP TABLE kernel", "DROP VIEW v_kernel",
    "ALTER TABLE kernel RENAME TO k", "ALTER TABLE kernel ADD COLUMN a", "ANALYZE", "REINDEX",
    "BEGIN", "BEGIN IMMEDIATE", "COMMIT", "SAVEPOINT s",
]  # fmt: skip


@pytest.mark.usefixtures("here")
def test_what_is_no_select_is_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.parent)
    with untouched(store):
        assert {query: refused(store, query) for query in NO_SELECTS} == dict.fromkeys(
            NO_SELECTS, "only selects on tables and views are run: a store is changed by imports alone"
        )


@pytest.mark.parametrize(("query", "count"), [
    ("SELECT * FROM kernel", 8), ("VALUES (1), (2)", 2), ("select id from V_KERNEL;", 8),
    ("WITH t AS (SELECT 1) SELECT count(*) FROM t", 1), ("SELECT 1 -- once", 1),
    ("SELECT row_number() OVER (ORDER BY id), abs(id) FROM main.kernel", 8),
    ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5) SELECT * FROM n", 5),
    ("SELECT name FROM sqlite_master WHERE name = 'v_kernel'", 1), ("PRAGMA table_info(run)", 3),
    ("SELECT a.id FROM kernel a JOIN kernel b USING (id) WHERE a.id IN (SELECT id FROM kernel)", 8),
])  # fmt: skip
@pytest.mark.usefixtures("here")
def test_what_reads_is_run(store: Path, query: str, count: int) -> None:
    with untouched(store):
        assert ask(store, query).num_rows == count


@pytest.mark.usefixtures("here")
def test_plans_are_shown(store: Path) -> None:
    assert ask(store, "EXPLAIN QUERY PLAN SELECT * FROM v_kernel").num_rows > 0
    assert ask(store, "EXPLAIN SELECT 1").num_rows > 0


@pytest.mark.parametrize("query", [
    "SELECT a FROM mine", "SELECT * FROM my_view", "SELECT (SELECT max(a) FROM mine) FROM run",
    "SELECT a FROM kernel, mine", "SELECT x.a FROM (SELECT a FROM mine) x",
])  # fmt: skip
@pytest.mark.usefixtures("here")
def test_tables_of_others_are_not_read(store: Path, query: str) -> None:
    """What the schema does not have nsysconv has not brought in: docs/decisions/0007."""
    with closing(sqlite3.connect(store)) as theirs:
        theirs.executescript("CREATE TABLE mine (a); INSERT INTO mine VALUES ('secret');"
                             "CREATE VIEW my_view AS SELECT a FROM mine")  # fmt: skip
    assert "is none of the schema's tables and views" in refused(store, query)


@pytest.mark.usefixtures("here")
def test_a_view_of_a_hostile_store_runs_nothing(store: Path) -> None:
    with closing(sqlite3.connect(store)) as theirs:
        theirs.execute("DROP VIEW v_kernel")
        theirs.execute("CREATE VIEW v_kernel AS SELECT load_extension('./evil.so') AS id")
    assert "unsafe use of load_extension" in refused(store, "SELECT id FROM v_kernel")


# -- the words for what is wrong


NO_READING = "is not run: it is not part of reading"
SEVERAL = "several statements: only one select"


@pytest.mark.parametrize(("query", "words"), [
    ("SELECT load_extension('./evil.so')", NO_READING), ("SELECT FTS3_Tokenizer('simple')", NO_READING),
    ("SELECT 1; DELETE FROM kernel", SEVERAL), ("SELECT 1; SELECT 2", SEVERAL), ("SELECT 1;;", SEVERAL),
    ("SELECT 1; PRAGMA journal_mode=wal", SEVERAL),
    ("", "the query is empty"), (" \n", "the query is empty"),
    ("-- nothing", "there is no statement in it"), (";", "there is no statement in it"),
    ("SELECT '\0'", "null character"), ("SELECT '\udcff'", "no text"),
    ("SELECT ?", "Incorrect number of bindings"),
    ("selec 1", 'SQLite cannot run the query: near "selec": syntax error'),
    ("select * from kernl", "no such table: kernl\nDid you mean kernel or v_kernel? "),
    ("select * from main.v_kernal", "no such table: main.v_kernal\nDid you mean v_kernel"),
    ("select strt_ns from kernel", "no such column: strt_ns\nDid you mean start_ns"),
    ("select k.grid_w from kernel k", "no such column: k.grid_w\nDid you mean grid_"),
    ("select * from zzzzz", "no such table: zzzzz\n`select name from sqlite_master`"),
    ("select frobnicate(1)", "no such function: frobnicate"),
    ("select sum(9223372036854775807) from kernel", "integer overflow"),
])  # fmt: skip
@pytest.mark.usefixtures("here")
def test_what_is_wrong_with_a_query_is_said(store: Path, query: str, words: str) -> None:
    with untouched(store):
        assert words in refused(store, query)


@pytest.mark.usefixtures("here")
def test_a_store_that_is_written_to_is_in_use(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that begins when this has opened it already."""

    def late(*_: object) -> Callable[[str], Any]:
        theirs.execute("BEGIN EXCLUSIVE")
        return query_process.answering(store.as_uri() + "?mode=ro", ["run"], 0)

    monkeypatch.setattr(query_process, "BUSY_S", 0.0)
    monkeypatch.setattr(user_query, "answering", late)
    theirs = sqlite3.connect(store, isolation_level=None)
    with closing(theirs), pytest.raises(InUseError, match="in use by another process"):
        ask(store, "SELECT 1 FROM run")


def test_a_damaged_store_is_no_mistake_of_the_query(store: Path) -> None:
    content = bytearray(store.read_bytes())
    with closing(sqlite3.connect(store)) as theirs:
        (root,) = theirs.execute("SELECT rootpage FROM sqlite_master WHERE name = 'kernel'").fetchone()
    size = int.from_bytes(content[16:18], "big")
    content[(root - 1) * size : root * size] = b"\xff" * size
    store.write_bytes(content)
    with pytest.raises(InputError, match="the file is damaged") as caught:
        ask(store, "SELECT * FROM kernel")
    assert caught.value.where == str(store)


# -- types


@pytest.mark.parametrize(("query", "kind", "values"), [
    ("SELECT 1", "int64", [1]), ("SELECT -9223372036854775808", "int64", [-(2**63)]),
    ("SELECT 2.5", "double", [2.5]), ("SELECT 'a\0ü'", "string", None),
    ("SELECT NULL", "int64", [None]), ("SELECT 1 WHERE 0", "int64", []),
    ("VALUES (1), (NULL), (3)", "int64", [1, None, 3]),
    ("VALUES (1), (2.5), (NULL)", "double", [1.0, 2.5, None]),
    ("VALUES (NULL), (2.5)", "double", [None, 2.5]),
    ("VALUES (1), (2.5), ('x'), (NULL)", "string", ["1", "2.5", "x", None]),
    ("SELECT x'00ff41'", "string", ["X'00FF41'"]), ("VALUES (1), (x'')", "string", ["1", "X''"]),
    ("SELECT cast(x'61ff' AS text)", "string", ["a\ufffd"]), ("SELECT ''", "string", [""]),
])  # fmt: skip
@pytest.mark.usefixtures("here")
def test_columns_have_one_type(store: Path, query: str, kind: str, values: list[object] | None) -> None:
    if "\0" in query:
        query, values = "SELECT 'a' || char(0, 252)", ["a\0ü"]
    (column,) = ask(store, query).columns
    assert (str(column.type), column.to_pylist()) == (kind, values)


@pytest.mark.parametrize(("last", "kind", "first"), [
    ("i", "int64", 1), ("i + 0.5", "double", 1.0), ("'x'", "string", "1"), ("NULL", "int64", 1),
])  # fmt: skip
def test_a_type_is_that_of_all_rows(store: Path, last: str, kind: str, first: object) -> None:
    """Also of those that come late: the rows are many more than come at once."""
    query = ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) "
             f"SELECT CASE WHEN i < 20000 THEN i ELSE {last} END FROM n")  # fmt: skip
    column = ask(store, query).column(0)
    assert (str(column.type), len(column), column[0].as_py()) == (kind, 20_000, first)


@pytest.mark.usefixtures("here")
def test_columns_of_one_name_stay_two(store: Path) -> None:
    assert ask(store, "SELECT 1 AS a, 'b' AS a").column_names == ["a", "a"]


@pytest.mark.usefixtures("here")
def test_bytes_are_shown_in_every_format(store: Path) -> None:
    for form in ("text", "csv", "tsv", "json", "markdown", "html", "column"):
        outcome = run("sql", store.name, "SELECT x'00ff' AS b", "-f", form, cwd=store.parent)
        assert "X'00FF'" in outcome.out.replace("&#x27;", "'"), outcome


# -- stores that are not as others


def test_the_process_that_asks_opens_nothing_with_pythons_library(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two libraries in one process would drop each other's locks: docs/decisions/0003."""
    monkeypatch.setattr(sqlite3, "connect", None)
    assert ask(store, "SELECT count(*) AS n FROM kernel").to_pylist() == [{"n": 8}]


def test_the_process_of_a_query_loads_nothing_large() -> None:
    done = imports.loaded_by("import nsysconv.store.sqlite.query_process", CHILD_ENVIRONMENT)
    assert not imports.third_party(done)
    assert "nsysconv.schema" not in done


def test_a_store_with_a_log_of_writes_is_read(store: Path) -> None:
    """Somebody has set it so; one row is in the log alone."""
    with closing(sqlite3.connect(store)) as theirs:
        theirs.execute("PRAGMA journal_mode=wal")
        theirs.execute("UPDATE run SET label = 'late'")
        theirs.commit()
        assert ask(store, "SELECT label FROM run").to_pylist() == [{"label": "late"}]


def test_what_a_killed_writer_left_is_rolled_back(store: Path, tmp_path: Path) -> None:
    """Its journal is beside a copy of a file in the middle of a transaction."""
    with closing(sqlite3.connect(store, isolation_level=None)) as theirs:
        theirs.execute("PRAGMA cache_size=1")
        theirs.execute("PRAGMA cache_spill=1")
        theirs.execute("BEGIN")
        theirs.execute("UPDATE run SET label = 'half'")
        theirs.execute("CREATE TABLE much AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                       "FROM n LIMIT 400) SELECT randomblob(4000) AS b FROM n")  # fmt: skip
        left = tmp_path / "left"
        left.mkdir()
        shutil.copy(store, left / "job.db")
        shutil.copy(f"{store}-journal", left / "job.db-journal")
        theirs.execute("ROLLBACK")
    found = ask(left / "job.db", "SELECT label FROM run").to_pylist()
    assert found == ask(store, "SELECT label FROM run").to_pylist()
    assert [path.name for path in left.iterdir()] == ["job.db"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_store_in_a_read_only_folder(store: Path) -> None:
    store.chmod(0o400)
    store.parent.chmod(0o500)
    try:
        assert ask(store, "SELECT count(*) AS n FROM kernel").to_pylist() == [{"n": 8}]
    finally:
        store.parent.chmod(0o700)


def test_a_store_on_a_network_file_system_is_read(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 1 0:1 / {tmp_path} rw - nfs4 server:/ rw")
    monkeypatch.setattr(filesystem, "MOUNTS", mounts)
    assert ask(store, "SELECT count(*) AS n FROM kernel").to_pylist() == [{"n": 8}]


@pytest.mark.parametrize(
    "name", ["with space.db", "50%.db", "what?mode=rw.db", "a#b&c.db", "caf\udce9.db"]
)
@pytest.mark.usefixtures("here")
def test_any_name_of_a_store(store: Path, name: str) -> None:
    named = store.rename(store.with_name(name))
    assert ask(named, "SELECT count(*) AS n FROM kernel").to_pylist() == [{"n": 8}]


# -- queries without end


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            found.update(map(int, (task / "children").read_text().split()))
    return found


def _eventually(what: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def _is_gone(pid: int) -> bool:
    """Whether a process has ended; where nobody waits for what was left, it stays listed as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


@contextmanager
def endless(store: Path, query: str = ENDLESS) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A command with a query that does not end, and the process that runs it."""
    with subprocess.Popen(
        [sys.executable, "-m", "nsysconv", "sql", store.name, query], cwd=store.parent,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CHILD_ENVIRONMENT,
        # As a shell starts what is in front, however these tests were started.
        preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in (1, 2, 15)],
    ) as command:  # fmt: skip
        try:
            _eventually(lambda: _children(command.pid))
            (child,) = _children(command.pid)
            yield command, child
        finally:
            command.kill()


@linux
@pytest.mark.parametrize(("number", "status", "query"), few([
    (signal.SIGTERM, 143, ENDLESS_ROWS), (signal.SIGINT, 130, ENDLESS), (signal.SIGHUP, 129, ENDLESS),
], 1))  # fmt: skip
def test_a_signal_ends_a_query_at_once(
    store: Path, number: signal.Signals, status: int, query: str
) -> None:
    with untouched(store), endless(store, query) as (command, child):
        time.sleep(0.1)
        command.send_signal(number)
        out, err = command.communicate(timeout=5)
        assert (command.returncode, out, err) == (status, "", "nsysconv: interrupted\n")
        assert _is_gone(child)


@linux
def test_a_query_ends_with_its_command(store: Path) -> None:
    """Also where that was killed, and could not end it."""
    with endless(store) as (command, child):
        time.sleep(0.1)
        command.kill()
        _eventually(lambda: _is_gone(child))


@linux
def test_a_query_whose_process_is_killed_is_told(store: Path) -> None:
    """As the system does where the memory has run out."""
    with endless(store) as (command, child):
        os.kill(child, signal.SIGKILL)
        _, err = command.communicate(timeout=20)
    assert command.returncode == UsageError.exit_status
    assert "its process was killed; the memory may have run out" in err


@linux
def test_ctrl_c_ends_a_query_of_the_library(store: Path) -> None:
    def interrupt() -> None:
        _eventually(lambda: _children(os.getpid()) - before)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    before = _children(os.getpid())
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        nsysconv.sql(store, ENDLESS)
    thread.join()
    assert _children(os.getpid()) == before
    assert nsysconv.sql(store, "SELECT 1 AS one").rows() == [{"one": 1}]


# -- profile files

@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("source", few(EXAMPLES, 2), ids=name_of)
def test_a_file_is_asked_as_its_store_is(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, folder = tmp_path / "temporary", tmp_path / "folder"
    temporary.mkdir()
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    file = Path(shutil.copy(source, folder))
    import_file(file, tmp_path / "job.db")
    with untouched(file):
        for query in ("SELECT source, recording_ns, extent.* FROM profile, extent ORDER BY 3, 4, 5",
                      "SELECT * FROM v_gpu_op ORDER BY kind, id"):  # fmt: skip
            found = nsysconv.sql(file, query).rows()
            assert found == nsysconv.sql(tmp_path / "job.db", query).rows(), query
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("here")
def test_of_a_file_the_tables_of_the_schema_are_seen(tmp_path: Path) -> None:
    """Its own hold more than is imported: docs/decisions/0007."""
    with pytest.raises(UsageError, match="no such table: StringIds"):
        nsysconv.sql(BASIC, "SELECT * FROM StringIds")


@pytest.mark.usefixtures("here")
def test_a_mistake_in_a_query_on_a_file_names_no_private_folder() -> None:
    with pytest.raises(UsageError) as caught:
        nsysconv.sql(BASIC, "SELECT nothing FROM kernel")
    assert "nsysconv-private" not in str(caught.value)


@pytest.mark.parametrize(("name", "error", "words"), [
    (ODD / "foreign.sqlite", InputError, "a SQLite database of another program"),
    (NSYS, UsageError, "a folder of several profiles"), (NSYS / "nowhere", InputError, "no such file"),
])  # fmt: skip
def test_what_is_no_profile_is_refused(name: Path, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        nsysconv.sql(name, "SELECT 1")
