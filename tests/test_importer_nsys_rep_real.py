"""Real reports of Nsight Systems, beside NVIDIA's own exports of the same runs."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    EVENTS,
    NSYS,
    SMALL_TABLES,
    all_name_ids,
    event_rows,
    few,
    in_any_order,
    real,
    small_rows,
)
from nsys_pairs import PAIRS, REPORTS, Pair, completed, differences, exported, is_later
from one_answer import said
from run_command import run

import nsysconv
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

BASIC = NSYS / "basic-3.25.0.sqlite"

every_pair = pytest.mark.parametrize("pair", few(PAIRS, 1), ids=str)

# Notes on what no table is for.
OF_REPORTS = frozenset({"report-not-read"})
# Some exports lack states of threads, and those here lack chains of calls.
NOT_EXPORTED = {"cpu_switch": {"state"}, "cpu_sample": {"name", "library"}}
SAMPLED = re.compile(r", most samples in .*?\)(?=[;,.])")
OF_THE_FILE = frozenset({"id", "run_id", "label", "identity", "source", "path", "sha256"})
# Of the tables that are written, and of whichever build exported the report.
OF_THE_EXPORTER = frozenset({"format_version", "tool_version"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where reports are exported to, each once."""
    return tmp_path_factory.mktemp("exported")


@pytest.fixture
def theirs(pair: Pair, folder: Path, tmp_path: Path) -> Path:
    """NVIDIA's export of a pair, with what its age leaves out."""
    assert pair.export is not None
    ours = exported(pair.report, folder)
    # Of the same name: reports show it.
    return completed(pair.export, ours, pair.build, tmp_path / f"{pair.report.stem}.sqlite")


@real
@every_pair
def test_the_rows_are_those_of_nvidias_export(pair: Pair, folder: Path) -> None:
    assert pair.export is not None
    found = differences(exported(pair.report, folder), pair.export, pair.build)
    assert {name: (str(each), *each.examples) for name, each in found.items()} == {}


@real
@every_pair
def test_the_store_is_that_of_nvidias_export(pair: Pair, theirs: Path, tmp_path: Path) -> None:
    ours, other = (imported(path, tmp_path) for path in (pair.report, theirs))
    if is_later("TARGET_INFO_GPU.uuid", pair.build):
        ours["device"] = [row | {"uuid": None} for row in ours["device"]]
    # An export has tables that nobody reads, which are not decoded.
    other["notes"] = [note for note in other["notes"] if note.slug != "tables-not-read"]
    assert {name: ours[name] for name in ours if ours[name] != other[name]} == {
        name: other[name] for name in ours if ours[name] != other[name]
    }


@real
@every_pair
def test_the_reports_are_those_of_nvidias_export(pair: Pair, theirs: Path) -> None:
    ours, other = (
        {name: without_notes_of_one(each) for name, each in said(path).items()}
        for path in (pair.report, theirs)
    )
    assert ours.keys() == other.keys()
    for told in (ours, other):
        del told["host_functions"]
        for row in told["findings"]["rows"] or ():
            row["finding"] = SAMPLED.sub(")", row["finding"])
        told["idle_host"]["rows"] = [row | {"function": None} for row in told["idle_host"]["rows"] or ()]
    assert [name for name in ours if ours[name] != other[name]] == []


@real
@pytest.mark.parametrize("pair", few(REPORTS, 1), ids=str)
def test_every_report_is_answered(pair: Pair, tmp_path: Path) -> None:
    outcome = run(pair.report, cwd=tmp_path)
    assert (outcome.status, outcome.err) == (0, "")


@real
@pytest.mark.parametrize("pair", few(REPORTS, 2), ids=str)
def test_the_build_is_that_of_the_list(pair: Pair) -> None:
    with nsysconv.open(pair.report) as profile:
        version = profile.profile.attributes["tool_version"]
    # Older reports say it in the folder where nsys was installed, if at all.
    assert version is None or f"{pair.build}.".startswith(f"{version}.")


# -- the comparison itself, on made-up exports

CHANGES = {
    "a cell": ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = gridX + 1 WHERE rowid = 1",
               {"CUPTI_ACTIVITY_KIND_KERNEL": "+1 -1"}),
    "a null": ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = 0 WHERE rowid = 1",
               {"CUPTI_ACTIVITY_KIND_KERNEL": "+1 -1"}),
    "a text": ("UPDATE StringIds SET value = value || ' ' WHERE id = (SELECT max(id) FROM StringIds)",
               {"StringIds": "+1 -1"}),
    "a row twice": ("INSERT INTO ThreadNames SELECT * FROM ThreadNames LIMIT 1",
                    {"ThreadNames": "+1 -0"}),
    "a row that is not there": ("DELETE FROM CUPTI_ACTIVITY_KIND_MEMSET WHERE rowid = 1",
                                {"CUPTI_ACTIVITY_KIND_MEMSET": "+0 -1"}),
    "a table that is not there": ("DROP TABLE TARGET_INFO_CUDA_STREAM",
                                  {"TARGET_INFO_CUDA_STREAM": "+0 -{rows}"}),
    "a name that is not there": ("DELETE FROM StringIds WHERE id = 1", {}),
    "an option that is not to be read": ("DELETE FROM META_DATA_CAPTURE WHERE name GLOB '*ENVIRON*'", {}),
    "what the program printed": ("INSERT INTO ProcessStreams VALUES (1, 1, 1)",
                                 {"ProcessStreams": "+1 -0"}),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_differs_is_found(change: str, tmp_path: Path) -> None:
    """So that the tests above can fail."""
    statement, wanted = CHANGES[change]
    base, changed = tmp_path / "base.sqlite", tmp_path / "changed.sqlite"
    rows = 0
    for path in (base, changed):
        shutil.copyfile(BASIC, path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DELETE FROM ProcessStreams")
            table = "TARGET_INFO_CUDA_STREAM"
            rows = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            if path is changed:
                connection.execute(statement)
            connection.commit()
    found = {name: str(each) for name, each in differences(changed, base, "2025.5").items()}
    assert found == {name: each.format(rows=rows) for name, each in wanted.items()}


# -- all that a store holds of a file


def imported(path: Path, tmp_path: Path) -> dict[str, Any]:
    """All that a store holds of a file, but for what says which file it was."""
    store = tmp_path / f"{path.name}.db"
    nsysconv.import_files([path], store=store)
    with reading(store) as opened:
        (profile,) = opened.profiles()
        return dict(_contents(profile))


def _contents(profile: Profile) -> Iterator[tuple[str, Any]]:
    # Events in any order: a report's are in another than its export's.
    for table in EVENTS:
        left_out = NOT_EXPORTED.get(table, set())
        rows = [{n: v for n, v in row.items() if n not in left_out} for row in event_rows(profile, table)]
        yield table, in_any_order(rows)
    frames = profile.columns("cpu_sample", ("name_id", "library_id")).values()
    ids = all_name_ids(profile) - {int(each) for column in frames for each in column}
    for table in SMALL_TABLES:
        rows = small_rows(profile, table)
        yield table, [row for row in rows if table != "name" or row["id"] in ids]
    yield "names", profile.names(ids)
    yield "plain names", profile.names(ids, plain=True)
    yield "facts", profile.facts
    yield "missing facts", profile.missing
    yield "notes", in_any_order([note for note in profile.notes if note.slug not in OF_REPORTS])
    for name in profile.attributes.keys() - OF_THE_FILE - OF_THE_EXPORTER:
        yield f"profile.{name}", profile.attributes[name]


def without_notes_of_one(told: dict[str, Any]) -> dict[str, Any]:
    """What a report says, but for notes that only one of two files can have, and the exporter's build."""
    rows = told["rows"] and [{**row, "tool": None} if "tool" in row else row for row in told["rows"]]
    return told | {"rows": rows, "notes": [note for note in told["notes"] if note[0] not in OF_REPORTS]}
