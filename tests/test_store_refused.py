"""What the system refuses to be written: told in its own words with status 2, and nothing is changed."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import copies
import pytest
import repeat_export
from conftest import CHILD_ENVIRONMENT, NSYS, few, import_file

from nsysconv import refusals
from nsysconv.api import import_files
from nsysconv.errors import InputError, UsageError
from nsysconv.store.location import writing
from nsysconv.store.sqlite import writer

BASIC = NSYS / "basic-3.25.0.sqlite"
LIMIT = "a limit on file size"


@dataclass(frozen=True)
class Outcome:
    """What became of a command."""

    status: int
    err: str


def limited(folder: Path, words: Sequence[str], size: int) -> Outcome:
    """Runs nsysconv where no file may be larger."""
    with tempfile.TemporaryFile("w+") as err, Path(os.devnull).open("r+b") as null:
        pid = copies.start(
            words, folder, [null.fileno(), null.fileno(), err.fileno()],
            before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))  # fmt: skip
        status = copies.ended(pid)
        err.seek(0)
        return Outcome(status, err.read())


def with_few_files(folder: Path, words: Sequence[str], files: int) -> Outcome:
    """Starts nsysconv where no more files may be open."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    done = subprocess.run(
        [sys.executable, "-m", "nsysconv", *words], cwd=folder, env=CHILD_ENVIRONMENT, text=True,
        capture_output=True, check=False, preexec_fn=limit,
    )  # fmt: skip
    return Outcome(done.returncode, done.stderr)


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of many pages, a store of it, and a small store."""
    folder = tmp_path_factory.mktemp("materials")
    repeat_export.generate(folder / "large.sqlite", NSYS / "two_processes_one_gpu-3.24.14.sqlite", 10_000)
    import_file(folder / "large.sqlite", folder / "full.db")
    import_files([BASIC], folder / "old.db")
    return folder


@pytest.fixture
def folder(materials: Path, tmp_path: Path) -> Path:
    """A folder with these in it."""
    shutil.copytree(materials, tmp_path / "work")
    return tmp_path / "work"


def contents(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, byte by byte."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(("words", "beyond"), few([
    (("import", "large.sqlite", "-o", "old.db"), 300_000),
    (("import", "large.sqlite", "-o", "old.db"), -300_000),
    (("import", "full.db", "-o", "old.db"), 300_000),
    (("import", "large.sqlite", "-o", "full.db", "--replace"), 60_000),
    (("import", "large.sqlite", "-o", "new.db"), 0),
    (("import", "full.db", "old.db", "-o", "new.db"), 0),
    (("export", "large.sqlite", "--to", "chrome", "-o", "out.json"), 0),
    (("export", "large.sqlite", "--to", "parquet", "-o", "out"), -900_000),
    (("report", "large.sqlite", "timeline_events", "-o", "out.csv"), 0),
    (("report", "full.db", "-o", "out.html"), -700_000),
], 1), ids=lambda each: " ".join(each) if isinstance(each, tuple) else str(each))  # fmt: skip
def test_a_limit_on_file_size(folder: Path, words: tuple[str, ...], beyond: int) -> None:
    """Of so many bytes beyond the size of the store that is added to."""
    before = contents(folder)
    grown = folder / ("full.db" if "--replace" in words else "old.db")
    outcome = limited(folder, words, grown.stat().st_size + beyond)
    assert (outcome.status, LIMIT in outcome.err) == (2, True), outcome.err
    assert outcome.err.startswith(f"nsysconv: {words[words.index('-o') + 1]}: ")
    assert contents(folder) == before


def test_importing_the_same_again_at_a_limit(folder: Path) -> None:
    """Nothing is written, so nothing is refused."""
    outcome = limited(folder, ("import", str(BASIC), "-o", "old.db"), 100_000)
    assert (outcome.status, outcome.err) == (0, "")


REASONS = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "over quota", errno.EFBIG: LIMIT}


@pytest.mark.parametrize("number", REASONS, ids=errno.errorcode.get)
def test_why_a_store_could_not_be_written_is_found_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """SQLite says `disk I/O error` for all of them."""
    before = contents(folder)

    def refuses(descriptor: int, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", refuses)
    error = failing(folder / "old.db")
    assert isinstance(error, UsageError)
    assert error.what.startswith(REASONS[number])
    assert contents(folder) == before


def test_what_cannot_be_found_out_is_not_guessed(folder: Path) -> None:
    error = failing(folder / "old.db")
    assert isinstance(error, UsageError)
    assert "disk I/O error" in error.what


def test_a_source_that_the_disk_cannot_read_is_an_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(source: Path) -> None:
        raise InputError("it cannot be read", where=str(source))

    monkeypatch.setattr(writer, "_require_readable", unreadable)
    with (
        pytest.raises(InputError, match=r"large\.sqlite"),
        writing(folder / "old.db") as ours,
        ours._attached(folder / "large.sqlite"),
    ):
        raise ours._connection.translated(OSError("IO: disk I/O error"))


def failing(store: Path) -> Exception:
    """What is said where SQLite cannot write to a store."""
    with pytest.raises(UsageError) as caught, writing(store) as ours:
        raise ours._connection.translated(OSError("IO: failed to execute query: disk I/O error"))
    return caught.value


def test_what_cannot_be_taken_back_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(connection: writer.ChangingConnection, sql: str) -> int:
        raise InputError("SQLite says: disk I/O error")

    left = folder / "left-journal"
    left.write_bytes(b"what was there")
    monkeypatch.setattr(writer, "_journal", lambda path: left)
    with pytest.raises(UsageError, match="cannot be taken back now") as caught, writing(
        folder / "old.db"
    ) as ours, ours._transaction():  # fmt: skip
        monkeypatch.setattr(writer.ChangingConnection, "number", fails)
        raise ZeroDivisionError
    assert "Keep left-journal beside it" in caught.value.hint


@pytest.mark.parametrize("words", [
    ("import", "small.sqlite", "-o", "new.db"),
    *(pytest.param(words, marks=pytest.mark.slow) for words in (
        ("report", "small.sqlite", "kernels"),
        ("export", "small.sqlite", "--to", "parquet", "-o", "out"))),
], ids=" ".join)  # fmt: skip
def test_too_few_open_files(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Whichever file is the next to be opened, such as a module of the program."""
    shutil.copyfile(BASIC, tmp_path / "small.sqlite")
    for files in (5, 7):
        outcome = with_few_files(tmp_path, words, files)
        if outcome.status:
            break
    assert outcome.status == 2, outcome.err
    assert "too few files may be open" in outcome.err
    assert ".py" not in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["small.sqlite"]


def test_all_that_refuses_everything_has_words() -> None:
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE):
        error = OSError(number, os.strerror(number))
        assert refusals.is_systemwide(error)
        assert refusals.reason_of(error) != error.strerror
    denied = OSError(errno.EACCES, os.strerror(errno.EACCES))
    assert str(refusals.refusal_error(denied, "job.db")) == "job.db: cannot be written: Permission denied"
