"""The writer of nsys reports: bytes worked out by hand, and what it writes of every fixture."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from nsys_rep_wire import Report, numbers
from write_nsys_rep import write_report

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


# -- secrets
