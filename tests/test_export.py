"""The command export and its formats: all or nothing, never over another's file, and what it says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import CHILD_ENVIRONMENT, FIXTURES, NSYS, by_turns, name_of
from golden_cases import run
from loading import loaded

import nsysconv
from nsysconv.api.exporting import export_profiles
from nsysconv.errors import InputError, UsageError
from nsysconv.export import FORMATS, exporter, tables
from nsysconv.partials import building
from nsysconv.store.connection import Connection

BASIC = NSYS / "basic-3.25.0.sqlite"
RANKS = [FIXTURES / "kineto" / f"recorded-gloo-rank{i}.json.gz" for i in (0, 1)]
PER_SOURCE = [BASIC, FIXTURES / "kineto" / "training-2.13.json",
              FIXTURES / "nvprof_database" / "basic-12.nvvp",
              FIXTURES / "nvprof_log" / "basic-both-traces.csv"]  # fmt: skip


# -- all or nothing


@pytest.fixture(scope="module")
def of_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two ranks."""
    path = tmp_path_factory.mktemp("ranks") / "job.db"
    nsysconv.import_files(RANKS, path)
    return path


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", ["file", "folder", "empty folder", "dead link"])
def test_existing_file_is_not_overwritten(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "out"
    if kind == "file":
        place.write_text("mine")
    elif kind == "dead link":
        place.symlink_to(tmp_path / "nowhere")
    else:
        place.mkdir()
        if kind == "folder":
            (place / "mine").write_text("mine")
    before = list(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="exists already") as error:
        export_profiles(BASIC, "parquet", place)
    assert str(place) in str(error.value)
    assert "-o" in error.value.hint
    assert list(tmp_path.rglob("*")) == before


def test_a_folder_that_appears_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "out"
    ours = tables.write

    def slowly(*arguments: Any) -> Any:
        place.mkdir()
        (place / "mine").write_text("mine")
        return ours(*arguments)

    monkeypatch.setattr(tables, "write", slowly)
    with pytest.raises(UsageError, match="appeared while it was being made"):
        export_profiles(BASIC, "parquet", place)
    assert listing(tmp_path) == ["out"]
    assert listing(place) == ["mine"]


@pytest.mark.parametrize(("error", "expected"), [
    (KeyboardInterrupt(), KeyboardInterrupt),
    (OSError(28, "No space left on device"), UsageError),
    (InputError("damaged"), InputError),
], ids=repr)  # fmt: skip
def test_failed_export_leaves_nothing(
    error: BaseException,
    expected: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, opened_files = Connection.batches, []

    def breaks(self: Connection, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        opened_files.append(sql)
        if len(opened_files) > 2:
            raise error
        return ours(self, sql, rows)

    monkeypatch.setattr(Connection, "batches", breaks)
    with pytest.raises(expected):
        export_profiles(BASIC, "parquet", tmp_path / "out")
    assert listing(tmp_path) == []
    assert len(opened_files) == 3


@pytest.mark.parametrize("is_running", [True, False])
def test_what_a_killed_export_left_is_removed_and_a_running_one_is_not(
    tmp_path: Path, dead_pid: int, is_running: bool
) -> None:
    place, owner = tmp_path / "out", os.getppid() if is_running else dead_pid
    with building(place) as ours:
        theirs = ours.with_name(ours.name.replace(f"-{os.getpid()}-", f"-{owner}-"))
    theirs.mkdir()
    (theirs / "kernel.parquet").write_text("half")
    export_profiles(BASIC, "parquet", place)
    assert listing(tmp_path) == sorted(["out", *([theirs.name] if is_running else [])])


# -- the formats, and the command


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_offers_what_the_contract_asks_for(name: str) -> None:
    module = exporter(name)
    assert module.TITLE
    assert isinstance(module.SUFFIXES, tuple)
    assert all(suffix.startswith(".") for suffix in module.SUFFIXES)
    assert callable(module.export)


def test_no_two_formats_claim_a_suffix() -> None:
    suffixes = [suffix for name in FORMATS for suffix in exporter(name).SUFFIXES]
    assert len(suffixes) == len(set(suffixes))


@pytest.mark.parametrize(("path", "name"), by_turns(PER_SOURCE, FORMATS, 8), ids=name_of)
def test_each_format_takes_each_source(path: Path, name: str, tmp_path: Path) -> None:
    made = export_profiles(path, name, tmp_path / "out")
    assert sum(made.written.counts.values()) > 0
    assert listing(tmp_path) == ["out"]


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    (tmp_path / "job.sqlite").write_bytes(BASIC.read_bytes())
    outcome = run("export", "job.sqlite", "--to", "parquet", cwd=tmp_path)
    assert outcome.status == 0, outcome.err
    assert outcome.out.startswith("job_parquet: ")
    assert " kernel" in outcome.out
    assert outcome.err == ""
    again = run("export", "job.sqlite", "--to", "parquet", cwd=tmp_path)
    assert (again.status, again.out) == (2, "")
    assert "job_parquet: it exists already" in again.err


@pytest.mark.parametrize(("arguments", "expected"), [
    (["job.db", "--to", "arrow"], "job_arrow"),
    (["job.db@rank=1", "--to", "parquet"], "job-rank1_parquet"),
    (["job.db", "--to", "parquet", "-o", "here/"], "here"),
])  # fmt: skip
def test_where_it_is_written(arguments: list[str], expected: str, of_ranks: Path, tmp_path: Path) -> None:
    shutil.copyfile(of_ranks, tmp_path / "job.db")
    outcome = run("export", *arguments, cwd=tmp_path)
    assert outcome.status == 0, outcome.err
    assert listing(tmp_path) == sorted(["job.db", expected])


@pytest.mark.parametrize(("arguments", "words"), [
    (["job.sqlite"], ["export to what?", "parquet"]),
    (["job.sqlite", "-o", "job.xyz"], ["export to what?", "parquet"]),
    (["job.sqlite", "--to", "xml"],
     ["no export format 'xml'", "parquet", "nsysconv report job.sqlite -f csv"]),
    (["job.sqlite", "--to", "parquet", "-o", "no/folder"], ["the folder does not exist"]),
    (["job.sqlite", "--to", "parquet", "--device", "7"], ["no device 7", "There are: 0"]),
    (["job.sqlite", "--to", "parquet", "--step-range", "epoch"], ["--step-range without steps"]),
])  # fmt: skip
def test_mistakes_are_usage_errors(arguments: list[str], words: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.sqlite").write_bytes(BASIC.read_bytes())
    outcome = run("export", *arguments, cwd=tmp_path)
    assert (outcome.status, outcome.out) == (2, ""), outcome
    for word in words:
        assert word in outcome.err
    assert listing(tmp_path) == ["job.sqlite"]


def test_names_are_there_unless_refused(tmp_path: Path) -> None:
    """And the flag that asked for them before they were always there is still understood."""
    found = {}
    for flags in ((), ("--names",), ("--no-names",)):
        made = tmp_path / f"out{''.join(flags)}"
        outcome = run("export", str(BASIC), "--to", "arrow", *flags, "-o", str(made), cwd=tmp_path)
        assert outcome.status == 0, outcome.err
        found[flags] = pa.ipc.open_file(made / "kernel.arrow").schema.names
    assert found[()] == found[("--names",)]
    assert set(found[()]) - set(found[("--no-names",)]) == {
        *("name", "short_name", "mangled_name", "annotation")
    }


@pytest.mark.slow  # that of Parquet is among the commands of test_start_up.py
def test_an_export_loads_no_pandas(tmp_path: Path) -> None:
    commands = [
        (to, ["export", str(BASIC), "--to", to, "--time", "0:90us", "-o", str(tmp_path / to)])
        for to in ("parquet", "arrow")
    ]
    found = loaded([commands], CHILD_ENVIRONMENT)
    assert found.keys() == {"parquet", "arrow"}
    assert [to for to, modules in found.items() if "pandas" in modules] == []
