"""What an importer did not foresee in one file is that file's refusal: the others are read."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FIXTURES, NSYS, few, with_slow
from each_place import CELLS, VALUES, columns, places, with_cells, with_values
from run_command import run

import nsysconv
from nsysconv.api import profile_file
from nsysconv.errors import NsysconvError
from nsysconv.importers import nsys_sqlite
from nsysconv.importers.contract import No, Options, Yes
from nsysconv.importers.detection import DefectError
from nsysconv.importers.probe import Probe
from nsysconv.store.read import Examination, Profile
from nsysconv.store.recording import Batches, Recording

GOOD = 3
BROKEN = "rank2.sqlite"
_SAID = "not read, because of a defect of nsysconv: KeyError: 'planted'"


def _is_broken(probe: Probe) -> bool:
    return probe.path.name == BROKEN


PARTS = ["sniff", "read", "batches"]


@pytest.fixture(params=PARTS)
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Four exports, of which the importer breaks on one, while it does what the parameter names."""
    place = tmp_path / "job"
    place.mkdir()
    ages = sorted(NSYS.glob("basic-*.sqlite"))
    for rank in range(GOOD + 1):
        shutil.copy(ages[rank], place / f"rank{rank}.sqlite")
    sniff, read = nsys_sqlite.sniff, nsys_sqlite.read

    def broken_sniff(probe: Probe) -> Yes | No:
        if _is_broken(probe):
            raise KeyError("planted")
        return sniff(probe)

    def broken_read(probes: Sequence[Probe], options: Options) -> Iterator[Recording]:
        if request.param == "read" and _is_broken(probes[0]):
            raise KeyError("planted")
        for recording in read(probes, options):
            if _is_broken(probes[0]):
                recording = replace(recording, batches=broken(recording.batches))
            yield recording

    def broken(batches: Batches) -> Batches:
        with closing(batches):
            yield next(batches)
        raise KeyError("planted")

    if request.param == "sniff":
        monkeypatch.setattr(nsys_sqlite, "sniff", broken_sniff)
    else:
        monkeypatch.setattr(nsys_sqlite, "read", broken_read)
    return place


COMMANDS = {
    "answer": ("job",),
    "report": ("report", "job", "kernels"),
    "by rank": ("report", "job", "kernels", "--by", "rank"),
    "import": ("import", "job", "-o", "job.db"),
    "diff": ("diff", "job", "job"),
}
TRIED = {("answer", "sniff"), ("by rank", "read"), ("import", "batches")}


@pytest.mark.parametrize(
    ("command", "folder"),
    with_slow(((command, part), (command, part) in TRIED) for command in COMMANDS for part in PARTS),
    indirect=["folder"],
)
def test_other_files_of_a_folder_are_read(command: str, folder: Path) -> None:
    done = run(*COMMANDS[command], cwd=folder.parent)
    assert done.status in ((3,) if command == "import" else (0, 3, 4)), done.err
    assert _SAID in done.err
    assert "Traceback" not in done.err or command == "import"
    if command == "import":
        assert len(nsysconv.runs(folder.parent / "job.db").rows()) == GOOD
    elif command == "by rank":
        assert {line.split()[0] for line in done.out.splitlines() if "rank" in line} >= {
            f"rank{rank}" for rank in range(GOOD + 1) if f"rank{rank}.sqlite" != BROKEN
        }


@pytest.mark.parametrize("is_new", [True, False])
def test_what_cannot_be_examined_is_refused_alone(
    is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are in the store by then: they are taken out again."""
    files = [NSYS / "basic-3.0.0.sqlite", NSYS / "graphs-3.24.0.sqlite", NSYS / "basic-2021.sqlite"]
    store = tmp_path / "job.db"
    if not is_new:
        nsysconv.import_files([NSYS / "basic-3.1.2.sqlite"], store)
    examine = profile_file.examine

    def broken(profile: Profile) -> Examination:
        if profile.ref.label.startswith("graphs"):
            raise KeyError("planted")
        return examine(profile)

    monkeypatch.setattr(profile_file, "examine", broken)
    result = nsysconv.import_files(files, store)
    (error,) = result.errors
    assert _SAID in f"{error.what}" and "graphs-3.24.0" in error.where
    assert [bool(each.imported) for each in result.files] == [True, False, True]
    labels = [row["label"] for row in nsysconv.runs(store).rows()]
    assert labels == [*([] if is_new else ["basic-3.1.2"]), "basic-3.0.0", "basic-2021"]
    assert not nsysconv.api.check(store).rows()


def test_what_was_there_stays_if_it_cannot_be_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import that was killed before it looked left the profile so."""
    file, store = NSYS / "basic-3.0.0.sqlite", tmp_path / "job.db"
    assert not nsysconv.import_files([file], store).errors
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE profile SET examined = NULL")
        connection.execute("DELETE FROM checksum")

    def broken(profile: Profile) -> Examination:
        raise KeyError("planted")

    monkeypatch.setattr(profile_file, "examine", broken)
    assert nsysconv.import_files([file], store).errors
    assert len(nsysconv.runs(store).rows()) == 1


def test_file_alone_is_refused_with_what_to_report(folder: Path) -> None:
    done = run("report", folder / BROKEN, cwd=folder)
    assert done.status == 3
    assert f"{BROKEN}: {_SAID}" in done.err
    assert "Please report it" in done.err
    assert 'raise KeyError("planted")' in done.err
    with pytest.raises(DefectError):
        nsysconv.open(folder / BROKEN)


# -- bytes and types that are wrong, in every column and every argument

def _look(path: Path, store: Path) -> None:
    """Import a file, and read it in place; only its refusal in words may keep it from being read."""
    (file,) = nsysconv.import_files([path], store).files
    assert not isinstance(file.error, DefectError), file.error
    store.unlink(missing_ok=True)
    if path.suffix != ".json":  # which is read as it is imported
        try:
            nsysconv.open(path).close()
        except NsysconvError as error:
            assert not isinstance(error, DefectError), error


DATABASES = (
    NSYS / "basic-3.25.0.sqlite", NSYS / "cpu_side-3.28.1.sqlite", NSYS / "operators-3.28.1.sqlite",
    FIXTURES / "nvprof_database" / "basic-12.nvvp",
)  # fmt: skip
WRONG_COLUMNS = {column: source for source in DATABASES for column in columns(source)}
TRACE = json.loads((FIXTURES / "kineto" / "training-2.13.json").read_bytes())
WRONG_ARGUMENTS = places(TRACE)


@pytest.mark.parametrize(("table", "column"), few(WRONG_COLUMNS, 1))
def test_no_cell_breaks_an_importer(table: str, column: str, tmp_path: Path) -> None:
    source = WRONG_COLUMNS[table, column]
    for cells in (CELLS, CELLS[::-1], ()):
        with_cells(source, tmp_path / source.name, table, column, cells)
        _look(tmp_path / source.name, tmp_path / "store.db")


@pytest.mark.parametrize("number", few(range(len(WRONG_ARGUMENTS)), 1))
def test_no_argument_breaks_an_importer(number: int, tmp_path: Path) -> None:
    path, ways = tmp_path / "trace.json", [*WRONG_ARGUMENTS.values()][number]
    for first in range(0, len(VALUES), len(ways)):
        path.write_bytes(with_values(TRACE, ways, VALUES[first:]))
        _look(path, tmp_path / "store.db")


@pytest.mark.parametrize(
    ("key", "operator"), [("Call stack", "aten::mm"), ("Concrete Inputs", "aten::convolution")]
)
@pytest.mark.parametrize(
    "value",
    [b'"a.py(3): f;b\xed"', b'["\xed", "[1]"]', b'["007"]', b'["[1, 007]"]', b'["1e999"]'],
)
def test_text_that_is_none_costs_one_argument(
    key: str, operator: str, value: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(
        b'{"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"%b","pid":1,"tid":1,"ts":1,'
        b'"dur":2,"args":{"%b":%b}},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,'
        b'"args":{"device":0,"stream":7,"correlation":1}}]}' % (operator.encode(), key.encode(), value)
    )
    with nsysconv.open(path) as profile:
        assert [row["name"] for row in profile.report("kernels").rows()] == ["k"]
        (row,) = profile.events("operator", "stack").to_pylist()
    assert row["stack"] == ("a.py(3): f;" if key == "Call stack" and value[:2] == b'"a' else None)


@pytest.mark.parametrize(
    ("source", "table", "key"),
    [(DATABASES[0], "StringIds", "id"), (DATABASES[-1], "StringTable", "_id_")],
)
def test_names_with_ids_that_are_texts_are_found(
    source: Path, table: str, key: str, tmp_path: Path
) -> None:
    with_cells(source, tmp_path / source.name, table, key, ())
    with nsysconv.open(source) as whole, nsysconv.open(tmp_path / source.name) as damaged:
        assert damaged.report("kernels").rows()[0]["name"] == whole.report("kernels").rows()[0]["name"]
