"""The writer of nsys reports: bytes worked out by hand, and what it writes of every fixture."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import NSYS, by_turns, name_of, oldest_and_newest
from nsys_rep_wire import Report, numbers, read_fields
from write_nsys_rep import SECRETS, write_report

EXPORTS = sorted(NSYS.glob("*.sqlite"))
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
CALL = "start, end, eventClass, globalTid, correlationId, nameId, returnValue"


def _export(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in ("CREATE TABLE StringIds (id, value)", *statements):
            database.execute(statement)
    return path


def _written(export: Path, tmp_path: Path, **options: Any) -> bytes:
    write_report(export, tmp_path / "out.nsys-rep", **options)
    return (tmp_path / "out.nsys-rep").read_bytes()


def test_a_call_is_the_message_worked_out_by_hand(tmp_path: Path) -> None:
    export = _export(
        tmp_path / "a.sqlite", "INSERT INTO StringIds VALUES (1, 'cudaFree')",
        f"CREATE TABLE {CALLS} ({CALL})", f"INSERT INTO {CALLS} VALUES (-1, 300, 1, 5, 7, 1, 0)",
    )  # fmt: skip
    samples = Report.read(_written(export, tmp_path)).samples()
    call = "08" + "ff" * 9 + "01" + "10ac02" + "1807" + "3001" + "3801" + "4000" + "6805"
    (event,) = samples.events[0].fields(1)
    assert event.hex() == "0830" + "e206" + f"{len(call) // 2:02x}" + call  # kind 48, field 108
    assert samples.strings[0].fields(1) == [b"", b"cudaFree"]  # of id 0 there is none
    assert numbers(samples.counts) | {10: 1} == {1: 1, 3: 2, 5: 0, 10: 1, 12: 1, 15: 0}


@pytest.mark.parametrize("export", oldest_and_newest(EXPORTS), ids=name_of)
def test_every_fixture_can_be_a_report(export: Path, tmp_path: Path) -> None:
    once = _written(export, tmp_path)
    assert once == _written(export, tmp_path)
    samples = Report.read(once).samples()
    with closing(sqlite3.connect(export)) as database:
        strings = [text for (text,) in database.execute("SELECT value FROM StringIds ORDER BY id")]
        (threads,) = database.execute("SELECT count(*) FROM ThreadNames").fetchone()
    assert [text.decode() for text in samples.strings[0].fields(1)] == strings
    assert numbers(samples.counts)[5] == threads == len([*read_fields(samples.threads)])


# -- clocks

BASIC = NSYS / "basic-3.28.1.sqlite"


# -- secrets


def _unpacked(content: bytes) -> bytes:
    report = Report.read(content)
    samples = report.samples()
    blocks = [block.raw for block in (*samples.events, *samples.strings)]
    sections = [content for name, content in report.sections.items() if not name.startswith("Raw")]
    return b"\n".join((samples.head, samples.targets, samples.threads, *blocks, *sections))


@pytest.mark.parametrize(("place", "age"), by_turns(SECRETS, ["2020", "2.9.1", "3.28.1"], 3))
def test_a_secret_is_planted_in_its_place_only(place: str, age: str, tmp_path: Path) -> None:
    export = NSYS / f"basic-{age}.sqlite"
    found = _unpacked(_written(export, tmp_path, secrets={place: "CANARY-é"}))
    # The program's and somebody else's process.
    assert found.count("CANARY-é".encode()) == (2 if place.startswith("113") else 1)
    assert b"CANARY" not in _unpacked(_written(export, tmp_path))
