"""Folders: what is damaged does not go unnoticed, no profile is skipped, a copy is read once."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from conftest import NSYS, ODD, with_slow
from golden_cases import FIXTURES, Outcome, run

from nsysconv import api
from nsysconv.api.importing import import_files
from nsysconv.api.inputs import SkippedFile, inputs_to_read, passed_lines

BASIC = NSYS / "basic-3.25.0.sqlite"
TRACE = FIXTURES / "kineto" / "operators-2.13.json"
SKIPPED = (
    "skipped: 3 files: a SQLite database of another program (job/bookmarks.sqlite), "
    "the file is empty (job/empty.err), a text file, but not a profile (job/job.log)"
)
CUT_OFF = "nsysconv: job/half.sqlite: the file is cut off: "
LIMIT = "overview.kernel_sum_ns:50%"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a profile, a copy that was cut off, and what a job leaves beside profiles."""
    job = tmp_path / "job"
    job.mkdir()
    shutil.copyfile(BASIC, job / "whole.sqlite")
    shutil.copyfile(ODD / "truncated.sqlite", job / "half.sqlite")
    shutil.copyfile(ODD / "foreign.sqlite", job / "bookmarks.sqlite")
    (job / "job.log").write_text("step 1\n")
    (job / "empty.err").write_bytes(b"")
    return tmp_path


# And whether it is of a class of its own.
COMMANDS = [
    (("job",), True),
    (("job", "-f", "json"), False),
    (("job", "-f", "json", "--brief"), False),
    (("report", "job"), False),
    (("report", "job", "overview"), True),
    (("report", "job", "overview", "--strict"), False),
    (("report", "job", "overview", "--jobs", "2"), True),
    (("report", "job", "overview", "-f", "csv"), False),
    (("report", "job", "metrics"), True),
    (("import", "job"), True),
    (("import", "job", "--strict"), False),
    (("diff", "job", "job", "overview"), False),
    (("diff", "job", BASIC, "overview", "--fail-on", LIMIT), True),
    (("diff", BASIC, "job", "overview", "--fail-on", LIMIT, "--inconclusive", "pass"), False),
]


@pytest.mark.parametrize("number", with_slow((n, own) for n, (_, own) in enumerate(COMMANDS)))
def test_a_damaged_profile_is_an_input_that_could_not_be_read(number: int, folder: Path) -> None:
    """The others are done; without the damaged one the status is as ever."""
    words, _ = COMMANDS[number]
    outcome = run(*words, cwd=folder)
    assert outcome.status == 3, outcome
    assert outcome.out, "the rest is done"
    assert CUT_OFF in outcome.err
    others = [line for line in outcome.err.splitlines() if line.startswith("skipped: ")]
    assert others == [SKIPPED] * words.count("job"), outcome.err
    if "--jobs" in words:
        return  # by others as by one
    (folder / "job" / "half.sqlite").unlink()
    again = run(*words, cwd=folder) if words[0] != "import" else _imported_anew(words, folder)
    assert again.status == (4 if "metrics" in words else 0), again


def _imported_anew(words: tuple[str, ...], folder: Path) -> Outcome:
    (folder / "job.db").unlink()
    return run(*words, cwd=folder)


def test_a_folder_without_profiles_is_refused_in_a_line(folder: Path) -> None:
    for name in ("whole.sqlite", "half.sqlite"):
        (folder / "job" / name).unlink()
    (folder / "job" / "other.log").write_text("step 2\n")
    shutil.copyfile(folder / "job" / "other.log", folder / "job" / "copy.log")
    outcome = run("job", cwd=folder)
    assert (outcome.status, outcome.out) == (3, "")
    (line,) = outcome.err.splitlines()
    assert line.startswith(
        "nsysconv: job: no profile in it; 4 files skipped: a text file, but not a profile (2), "
    )


def test_copies_in_another_form_are_a_line(tmp_path: Path) -> None:
    files = [SkippedFile(Path(f"job/r{n}.nsys-rep"), f"its export r{n}.sqlite is read") for n in range(9)]
    older = SkippedFile(Path("job/s.sqlite"), "an export older than s.nsys-rep, which is read instead")
    assert [*passed_lines([*files, older])] == [
        "9 files, such as job/r0.nsys-rep: its export r0.sqlite is read",
        "job/s.sqlite: an export older than s.nsys-rep, which is read instead",
    ]


def test_a_limit_that_is_exceeded_is_still_shown(folder: Path) -> None:
    outcome = run("diff", "job", NSYS / "basic-3.28.1.sqlite", "overview",
                  "--fail-on", "overview.kernel_sum_ns:0%", cwd=folder)  # fmt: skip
    assert outcome.status == 3
    assert "limits: " in outcome.out


def test_reports_say_that_a_file_is_left_out(folder: Path) -> None:
    (found,) = json.loads(run("report", "job", "overview", "-f", "json", cwd=folder).out)["reports"]
    (note,) = [note for note in found["notes"] if note["slug"] == "files-unread"]
    assert (note["severity"], note["count"], note["where"]) == ("dropped", 1, "job/half.sqlite")
    assert "! dropped: unreadable files were left out" in run("job", cwd=folder).out
    result = api.compare(folder / "job", BASIC, ["overview"])
    assert result.exit_status == 3
    assert [note.text for note in result.headline.notes if note.slug == "files-unread"] == [
        "base: unreadable files were left out"
    ]


def test_an_import_counts_a_damaged_profile_as_an_error(folder: Path) -> None:
    result = import_files([folder / "job"], folder / "job.db")
    assert [error.where for error in result.errors] == [str(folder / "job" / "half.sqlite")]
    skipped = {file.path.name for file in result.files if file.skipped}
    assert skipped == {"bookmarks.sqlite", "job.log", "empty.err"}


def test_what_nvprof_printed_beside_its_profile_is_skipped(folder: Path) -> None:
    (folder / "job" / "half.sqlite").unlink()
    (folder / "job" / "nvprof.log").write_text(
        "==77== NVPROF is profiling process 77, command: ./a\n"
        "==77== Generated result file: /scratch/a.nvvp\n"
    )
    for words in (("import", "job"), ("report", "job", "overview"), ("diff", "job", "job", "steps")):
        outcome = run(*words, cwd=folder)
        assert outcome.status == 0, outcome
        assert "skipped: 4 files: " in outcome.err
        assert "the log holds no table: the profile was" in outcome.err
        assert "(job/nvprof.log)" in outcome.err


def test_the_last_line_of_an_import_counts_what_did_not_come_in(folder: Path) -> None:
    """Of a folder as of files that are named; what is no profile counts in a folder for nothing."""
    wanted = "job.db: 1 profile of 2 files, 1 not imported, 1 run"
    assert wanted in run("import", "job", cwd=folder).out.splitlines()
    (folder / "job.db").unlink()
    named = run("import", "job/half.sqlite", "job/whole.sqlite", "-o", "job.db", cwd=folder)
    assert wanted in named.out.splitlines()


# -- a file that is there twice


@pytest.fixture
def twice(tmp_path: Path) -> Path:
    """A folder with a trace, its copy, another of the same length, and an empty file twice."""
    job = tmp_path / "job"
    job.mkdir()
    for name in ("a.json", "b.json"):
        shutil.copyfile(TRACE, job / name)
    text = TRACE.read_text(encoding="utf-8")
    (job / "c.json").write_text(text.replace("gemm", "gemv"), encoding="utf-8")
    for name in ("d.log", "e.log"):
        (job / name).write_bytes(b"")
    return tmp_path


COPY = "skipped: job/b.json: the same bytes as job/a.json"


def test_a_copy_in_a_folder_is_read_once(twice: Path) -> None:
    """As by an import, which finds that it has the bytes already."""
    outcome = run("report", "job", "overview", "-f", "json", cwd=twice)
    assert [line for line in outcome.err.splitlines() if "same bytes" in line] == [COPY]
    (found,) = json.loads(outcome.out)["reports"]
    imported = run("import", "job", cwd=twice).out
    assert "job.db@a: already imported, nothing changed" in imported
    assert [profile["label"] for profile in found["profiles"]] == ["a", "c"]


@pytest.mark.parametrize("side", ["job", "job/*.json"])
def test_a_copy_is_no_second_run_of_a_side(side: str, twice: Path) -> None:
    outcome = run("diff", side, "job/c.json", "overview", cwd=twice)
    assert outcome.status == 0, outcome
    assert "2 runs vs. 1 run" in " ".join(outcome.out.split())
    assert COPY in outcome.err.splitlines()


def test_files_whose_journals_differ_are_no_copies(tmp_path: Path) -> None:
    """What SQLite has not yet moved out of the journal beside a file is part of its content."""
    for name in ("a", "b"):
        shutil.copyfile(BASIC, tmp_path / f"{name}.sqlite")
    with contextlib.closing(sqlite3.connect(tmp_path / "b.sqlite")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.commit()
        shutil.copyfile(tmp_path / "b.sqlite", tmp_path / "a.sqlite")
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
        connection.commit()
        assert (tmp_path / "a.sqlite").read_bytes() == (tmp_path / "b.sqlite").read_bytes()
        said: list[str] = []
        files = [*inputs_to_read([tmp_path], "", said.append)]
    names = [item.path.name for item in files]
    assert [name for name in names if name.endswith(".sqlite")] == ["a.sqlite", "b.sqlite"]
    assert not [line for line in said if "same bytes" in line]
