"""What disturbed commands had shown, each with the least that shows it."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT, EVENTS, NSYS, profile_in_place
from golden_cases import run

from nsysconv.api import import_files, info
from nsysconv.importers.probe import Probe
from nsysconv.processes import Processes

SOURCE = NSYS / "basic-3.25.0.sqlite"
IN_A_CELL = 25074
"""A byte of the export that is read when rows are copied, and by no look at the file before."""


# -- signals


@pytest.mark.parametrize("loading", ["nsysconv.cli", "nsysconv.cli.runtime", "typer", "nsysconv.cli.app"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_modules_are_loaded_ends_the_command(
    folder: Path, number: signal.Signals, status: int, loading: str
) -> None:
    script = (
        "import os, runpy, signal, sys\n"
        # As in a shell; what is started in the background ignores Ctrl-C.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder:\n"
        "    def find_spec(name, path, target=None):\n"
        f"        if name == {loading!r}: os.kill(os.getpid(), {number.value})\n"
        "sys.meta_path.insert(0, Finder)\n"
        "sys.argv[0] = 'nsysconv'\n"
        "runpy.run_module('nsysconv', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "import", "report1.sqlite"], cwd=folder,
        env=CHILD_ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "nsysconv: interrupted\n")
    assert [path.name for path in folder.iterdir()] == ["report1.sqlite"]


def test_hardly_anything_is_loaded_before_signals_are_heard() -> None:
    script = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import nsysconv.__main__\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=CHILD_ENVIRONMENT,
                          capture_output=True, text=True, check=True)  # fmt: skip
    known = {"__future__", "_signal", "enum", "functools", "collections", "keyword", "operator",
             "reprlib", "types", "itertools", "_collections", "_functools", "_operator", "signal",
             "nsysconv", "nsysconv.__main__"}  # fmt: skip
    assert set(done.stdout.split()) <= known


def test_ctrl_c_is_for_the_command_and_not_for_what_works_for_it() -> None:
    """A terminal sends it to all of them, also to those whose Python has not started yet."""
    blocked = (partial, signal.pthread_sigmask, signal.SIG_BLOCK)
    with Processes[list[int], set[signal.Signals]](1, *blocked) as workers:
        assert list(workers.map([[]])) == [{signal.SIGINT}]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


# -- what is told


def test_a_damaged_source_is_named_in_the_error(tmp_path: Path) -> None:
    content = bytearray(SOURCE.read_bytes())
    content[IN_A_CELL] = 0x3F
    source = tmp_path / "export.sqlite"
    source.write_bytes(content)
    (result,) = import_files([source], tmp_path / "store.db").files
    assert str(result.error) == (
        f"{source}: the file is damaged: SQLite cannot read it\n"
        "Copy or export it again; a partial download is the usual cause."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["export.sqlite"]


@pytest.mark.parametrize("found", ["by its checksums", "while rows are copied"])
def test_a_damaged_store_is_not_taken_for_a_damaged_source(tmp_path: Path, found: str) -> None:
    store = tmp_path / "store.db"
    import_files([NSYS / "ranges-2021.sqlite"], store)
    connection = sqlite3.connect(store, isolation_level=None)
    if found != "by its checksums":
        connection.execute("DELETE FROM checksum")  # as a killed import leaves it
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'kernel'").fetchone()
    connection.close()
    content = bytearray(store.read_bytes())
    content[(root - 1) * page_size] = 0xFF  # no kind of page
    store.write_bytes(content)
    outcome = run("import", str(SOURCE), "-o", str(store), cwd=tmp_path)
    assert outcome.status == 3
    what = "store" if found == "by its checksums" else "file"
    assert f"{store}: the {what} is damaged" in outcome.err
    assert store.read_bytes() == content


@pytest.mark.parametrize("make", ["import", "export"])
def test_a_dangling_link_is_refused(folder: Path, make: str) -> None:
    (folder / "link.json").symlink_to("nowhere")
    words = (("import", "report1.sqlite", "-o", "link.json") if make == "import"
             else ("export", "report1.sqlite", "-o", "link.json", "--to", "chrome"))  # fmt: skip
    outcome = run(*words, cwd=folder)
    told = {"import": "link.json: a link to a file that does not exist", "export": "it exists already"}
    assert outcome.status == 2
    assert told[make] in outcome.err
    assert {path.name for path in folder.iterdir()} == {"report1.sqlite", "link.json"}


@pytest.mark.parametrize("change", [
    "end = start - 1", "start = -(1 << 62)", "start = 0, end = 0", "registersPerThread = 'many'",
])  # fmt: skip
def test_info_in_place_counts_what_an_import_does_and_says_why(tmp_path: Path, change: str) -> None:
    source = tmp_path / "export.sqlite"
    shutil.copyfile(NSYS / "basic-3.17.2.sqlite", source)
    connection = sqlite3.connect(source)
    connection.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {change} WHERE rowid = 2")
    connection.commit()
    connection.close()
    with profile_in_place(source) as ours:
        counts = {table: ours.row_count(table) for table in EVENTS}
    store = tmp_path / "store.db"
    import_files([source], store)
    (place, _), (stored, _) = info(source), info(store)
    assert {row["attribute"]: row["value"] for row in place.table.to_pylist()}["kernel rows"] == (
        {row["attribute"]: row["value"] for row in stored.table.to_pylist()}["kernel rows"])
    assert counts["kernel"] == (8 if "registers" in change else 7 if "0, end" not in change else 8)
    if "registers" not in change:  # `info` looks at times alone
        assert {note.slug for note in place.notes} == {note.slug for note in stored.notes}


# -- what is left


def test_no_probe_is_left_open_by_an_import_that_is_done_already(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    import_files(["report1.sqlite"])
    opened: list[Probe] = []
    enter = Probe.__enter__
    made = Probe.__init__

    def noted(probe: Probe, *arguments: object, **named: object) -> None:
        made(probe, *arguments, **named)  # type: ignore[arg-type]
        opened.append(probe)

    def entered(probe: Probe) -> Probe:
        opened.remove(probe)
        return enter(probe)

    monkeypatch.setattr(Probe, "__init__", noted)
    monkeypatch.setattr(Probe, "__enter__", entered)
    import_files(["report1.sqlite"])
    assert opened == []
