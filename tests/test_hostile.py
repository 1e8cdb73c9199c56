"""Files that are made to hang, fill or steer whoever opens them, and what is no file at all."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from bounds import within
from conftest import CHILD_ENVIRONMENT, NSYS, few
from filelock import FileLock
from golden_cases import run
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nsysconv.api.importing import import_files
from nsysconv.errors import InputError
from nsysconv.importers.kineto.events import copy_codes
from nsysconv.importers.nsys_sqlite import small_tables
from nsysconv.importers.nsys_stats import survey
from nsysconv.importers.nvprof_log import reader
from nsysconv.importers.probe import Probe
from nsysconv.names import escaped
from nsysconv.store.filesystem import private_folder
from nsysconv.store.location import is_store

BASIC = NSYS / "basic-3.25.0.sqlite"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """export.sqlite in the folder, open for changes, its schema too."""
    shutil.copyfile(BASIC, tmp_path / "export.sqlite")
    with closing(sqlite3.connect(tmp_path / "export.sqlite")) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        yield connection


# -- SQLite


def test_virtual_table_is_not_read(
    source: sqlite3.Connection, tmp_path: Path
) -> None:
    source.execute("CREATE VIRTUAL TABLE spatial USING rtree(id, low, high)")
    source.execute("UPDATE sqlite_master SET sql = 'CREATE/**/VIRTUAL TABLE spatial "
                   "USING rtree(id, low, high)' WHERE name = 'spatial'")  # fmt: skip
    source.commit()
    with Probe(tmp_path / "export.sqlite") as probe:
        assert "spatial" not in probe.tables
        assert "spatial" in probe.view_names
        assert "StringIds" in probe.tables


def test_a_view_that_says_it_is_a_table_is_refused(
    source: sqlite3.Connection, tmp_path: Path
) -> None:
    source.execute("DROP TABLE StringIds")
    source.execute(
        "INSERT INTO sqlite_master VALUES ('table', 'StringIds', 'StringIds', 0, 'CREATE VIEW "
        "StringIds AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS id, ''x'' AS value FROM n')"
    )
    source.commit()
    for words in (("report", "export.sqlite"), ("import", "export.sqlite", "-o", "job.db")):
        outcome = run(*words, cwd=tmp_path)
        assert outcome.status == 3
        assert "SQLite cannot read it" in outcome.err


def test_a_computed_column_is_not_computed(source: sqlite3.Connection, tmp_path: Path) -> None:
    """It would take a gigabyte a row."""
    names = [row[1] for row in source.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")]
    plain = [name for name in names if name != "gridX"]
    source.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO before")
    source.execute(
        f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL AS SELECT {', '.join(plain)} FROM before"
    )
    # Afterwards, or SQLite would compute it now.
    source.execute(
        "UPDATE sqlite_master SET sql = substr(sql, 1, length(sql) - 1) || "
        "', gridX AS (length(hex(zeroblob(500000000)))))' WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
    )
    outcome = run("report", "export.sqlite", "kernels", "-f", "csv", cwd=tmp_path)
    assert outcome.status == 0
    assert outcome.out == run("report", BASIC, "kernels", "-f", "csv", cwd=tmp_path).out.replace(
        "basic-3.25.0", "export")  # fmt: skip


def test_an_error_has_no_control_characters() -> None:
    error = InputError("no \x01data\nof it", where="a\nb\x1b[31m.csv", hint="Do\x07 this.\nThen that.")
    assert str(error) == "a\\nb\\x1b[31m.csv: no \\x01data\nof it\nDo\\x07 this.\nThen that."


# What any of these could do where a terminal or a page takes it for its own.
EVIL = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e<script>alert(1)</script>|[x](http://x)\r\n# no heading"


@pytest.fixture
def evil(source: sqlite3.Connection, tmp_path: Path) -> Path:
    """A folder with export.sqlite, in which every text is evil, and its store job.db."""
    with source:
        source.execute("UPDATE StringIds SET value = value || ?", (EVIL,))
        for table, column in (("TARGET_INFO_GPU", "name"), ("PROCESSES", "name"),
                              ("NVTX_EVENTS", "text"), ("TARGET_INFO_SYSTEM_ENV", "value"),
                              ("DIAGNOSTIC_EVENT", "text")):  # fmt: skip
            source.execute(f"UPDATE {table} SET {column} = {column} || ?", (EVIL,))
    assert run("import", "export.sqlite", "-o", "job.db", cwd=tmp_path).status == 0
    return tmp_path


@pytest.mark.parametrize(
    ("words",),
    few([
        (("report", "job.db", "-f", "markdown"),),
        (("report", "export.sqlite"),),
        (("report", "job.db", "ranges", "processes", "cuda_gpu_kern_sum", "cuda_api_trace"),),
        (("import", "export.sqlite", "-o", "again.db"),),
        (("report", "job.db", "--list"),),
        (("diff", "export.sqlite", "job.db"),),
        (("report", "job.db", "--name", "saxpy", "--range", EVIL),),
        (("info", "job.db"),),
        (("sql", "job.db", "select value from name"),),
        (("runs", "job.db"),),
        (("export", "job.db", "--to", "chrome", "-o", "out.json"),),
    ], 3),
    ids=lambda words: " ".join(words[::2])[:40],
)  # fmt: skip
def test_no_name_in_a_profile_steers_a_terminal_or_markdown(words: tuple[str, ...], evil: Path) -> None:
    outcome = run(*words, cwd=evil)
    for line in (outcome.out + outcome.err).split("\n"):
        assert line.isprintable(), line
        assert not line.startswith("# no heading")
    if "markdown" in words:
        shown = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(outcome.out)
        assert "&lt;script&gt;" in shown
        assert "<script>" not in shown


def test_a_name_as_long_as_its_file(source: sqlite3.Connection, tmp_path: Path) -> None:
    (number,) = source.execute("SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    source.execute("UPDATE StringIds SET value = ? WHERE id = ?", ("<\x1b\u202e" * 100_000, number))
    source.commit()
    outcome = run("report", "export.sqlite", "kernels", cwd=tmp_path, width=80)
    assert outcome.status == 0
    assert all(len(line) <= 80 and line.isprintable() for line in outcome.out.splitlines())


@given(st.text(st.characters(), max_size=40))
def test_visible_spells_out_what_cannot_be_printed_and_nothing_else(text: str) -> None:
    spelled = [c if c.isprintable() else c.encode("unicode_escape").decode() for c in text]
    assert escaped(text) == "".join(spelled)
    assert escaped(text * 400) == "".join(spelled) * 400


# -- other files


def _refused_in_little_memory(tmp_path: Path, text: Iterable[bytes]) -> None:
    with gzip.open(tmp_path / "bomb.json.gz", "wb", compresslevel=1) as file:
        file.write(b'{"schemaVersion": 1, "traceEvents": [')
        file.writelines(text)
    line = 'ulimit -v 2500000; exec "$0" -m nsysconv report bomb.json.gz'
    done = subprocess.run(["/bin/sh", "-c", line, sys.executable], cwd=tmp_path, text=True,
                          env=CHILD_ENVIRONMENT, capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "no event ends for a long time" in done.stderr


@pytest.mark.slow
def test_endless_compressed_trace_is_refused_in_little_memory(tmp_path: Path) -> None:
    _refused_in_little_memory(tmp_path, (b" " * (1 << 20) for _ in range(512)))


def test_a_compressed_event_of_any_length_is_refused_in_little_memory(tmp_path: Path) -> None:
    """It is whole, but to see what is wrong with it would take 20 times its size: a character that takes
    four bytes makes all of them take as much, and each backslash would be fixed.
    """
    filling = [b"\\z" * (1 << 19)] * 120
    _refused_in_little_memory(
        tmp_path, [b'{"ph": "X", "name": ', "\U0001f600".encode(), *filling, b"}]}"]
    )


@pytest.mark.parametrize("command", ["report", "info", "import"])
def test_special_file_is_refused_without_waiting(tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("missing")
    for target in ("pipe", "loop", "nowhere", "/dev/zero"):
        outcome = run(command, target, cwd=tmp_path)
        assert outcome.status == 3, outcome
        assert outcome.err.startswith(f"nsysconv: {target}: ")


@pytest.mark.parametrize("target", ["pipe", "folder", "/dev/null"])
def test_special_file_is_no_store(tmp_path: Path, target: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert run("import", BASIC, "-o", target, cwd=tmp_path).status == 3
    assert run("runs", target, cwd=tmp_path).status == 3
    outcome = run("export", BASIC, "--to", "chrome", "-o", target, cwd=tmp_path)
    assert (outcome.status, outcome.err.splitlines()[0]) == (
        2,
        f"nsysconv: {target}: it exists already",
    )


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of open files")
def test_opening_special_file_as_store_leaves_no_file_open(tmp_path: Path) -> None:
    """A folder may hold 100,000 logs beside its profiles."""
    (tmp_path / "job.log").write_text("no database\n" * 100)
    is_store(tmp_path / "job.log")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        assert not is_store(tmp_path / "job.log")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_list_of_skipped_files_stays_small(tmp_path: Path) -> None:
    """Where an error was raised its file's first bytes are at hand: 10 KB for each of 100,000 files."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "job.log").write_text("no profile\n")
    (skipped,) = import_files([tmp_path / "logs"], tmp_path / "job.db").files
    assert skipped.error.__traceback__ is None
    assert skipped.error.__cause__ is skipped.error.__context__ is None


# -- paths that a recording names


def test_paths_in_a_recording_are_not_opened(tmp_path: Path) -> None:
    """Neither opened nor made: files of a program, a report, a trace that the metadata speak of."""
    outside = tmp_path / "outside"
    outside.write_text("secret")
    names = ["../outside", str(outside), "~/.ssh/id_rsa", "file:///etc/passwd", "../../made"]
    folder = tmp_path / "job" / "run"
    folder.mkdir(parents=True)
    call = {"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": 1, "ts": 1.5, "dur": 1}
    trace = {
        "schemaVersion": 1, "traceName": names[0], "host_name": names[1],
        "baseTimeNanoseconds": 1767225600000000000,
        "distributedInfo": {"backend": names[2], "rank": 0, "world_size": 1},
        "traceEvents": [{**call, "name": name, "args": {"file": name}} for name in names],
    }  # fmt: skip
    (folder / "trace.json").write_text(json.dumps(trace))
    shutil.copyfile(BASIC, folder / "export.sqlite")
    with closing(sqlite3.connect(folder / "export.sqlite")) as database:
        database.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = ?", (names[0],))
        database.execute("UPDATE StringIds SET value = ? || id", (names[0],))
        database.commit()
    program = (
        "import sys\n"
        "seen = []\n"
        "sys.addaudithook(lambda what, of: seen.append(str(of[0])) if what in "
        "('open', 'os.rename', 'os.mkdir', 'sqlite3.connect') else None)\n"
        "from nsysconv import api\n"
        "import pathlib\n"
        "files = api.import_files(sorted(pathlib.Path('.').iterdir()), pathlib.Path('job.db')).files\n"
        "assert not any(file.error for file in files), files\n"
        "print(*seen, sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, text=True, check=False,
                          env=CHILD_ENVIRONMENT, capture_output=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "trace.json" in done.stdout
    assert not any(
        word in done.stdout for word in ("outside", "id_rsa", "/etc/passwd", "../made")
    )
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "export.sqlite", "job", "job.db", "outside", "run", "trace.json"]  # fmt: skip


# -- temporary folders


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_private_folder_is_unreadable_to_others_and_removed(temporary: Path) -> None:
    with private_folder() as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "copy").write_text("secret")
    assert list(temporary.iterdir()) == []


def test_folders_of_killed_processes_are_swept(temporary: Path) -> None:
    old = time.time() - 3600
    names = ("nsysconv-private-dead", "nsysconv-private-alive", "nsysconv-private-young", "other")
    for name in names:
        (temporary / name).mkdir()
        (temporary / name / "copy").write_text("rows")
        if name != "nsysconv-private-young":
            os.utime(temporary / name, (old, old))
    with (temporary / "nsysconv-private-link").open("w"):
        pass
    with FileLock(temporary / "nsysconv-private-alive" / ".lock"):
        os.utime(temporary / "nsysconv-private-alive", (old, old))
        with private_folder():
            pass
    assert sorted(path.name for path in temporary.iterdir()) == sorted(
        [*names[1:], "nsysconv-private-link"])  # fmt: skip


def test_a_source_that_cannot_be_copied_says_why(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    shutil.copyfile(BASIC, tmp_path / "export.sqlite")
    (tmp_path / "export.sqlite-wal").write_bytes(b"hot")
    monkeypatch.setattr(shutil, "copyfile", full)
    with (
        Probe(tmp_path / "export.sqlite") as probe,
        pytest.raises(InputError, match="the disk is full") as caught,
    ):
        probe.tables  # noqa: B018
    assert "TMPDIR" in caught.value.hint
    assert list(temporary.iterdir()) == []


# -- texts of any length

LONG = 200_000


def said(text: str) -> list[object]:
    """What nsys stats says in a line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stats.txt"
        path.write_text(text, encoding="utf-8")
        return survey.LogSurvey(path).items


LOOKED_AT: dict[str, tuple[Callable[[str], object], str, str]] = {
    "number of a message": (lambda text: list(reader.message_notes([(1, text)])), "", "1"),
    "copy of a trace": (copy_codes, "Memcpy HtoD (", " "),
    "second kind of a copy": (copy_codes, "Memcpy HtoD (a -> ", "\t"),
    "unit of a metric": (small_tables.PERCENT.search, "", "[a%0"),
    "construct of OpenACC": (survey.CONSTRUCT.match, "", "a@:9"),
    "announcement": (said, "", "Processing [a] with [ "),
    "older announcement": (said, "", "Running [a.py a"),
    "heading": (said, "", "** a (a: "),
    "what is skipped": (said, "", "SKIPPED:  "),
}


@pytest.mark.parametrize("what", LOOKED_AT)
def test_patterns_take_linear_time(what: str) -> None:
    """Else these take minutes: damaged files have lines of any length."""
    look, first, again = LOOKED_AT[what]
    with within(20):
        look(first + again * (LONG // len(again)) + "\0")
