"""Real exports of Nsight Systems, against what is known of them from elsewhere."""

from __future__ import annotations

import csv
import hashlib
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    REAL,
    REAL_FILES,
    Row,
    Shelf,
    all_columns,
    event_rows,
    few,
    name_of,
    provenance,
    real,
)

from nsysconv.report import MISSING

HOLDS = re.compile(r"kernels (\d+), memcpy (\d+) \((\d+) B\)(?:.*kernel sum (\d+) ns)?")
CLOVERLEAF = REAL / "nsys_sqlite" / "hpcgroup+pipit__perlmutter-cloverleaf-cuda.sqlite"
EXPECTED = REAL / "expected" / "pipit__cloverleaf"
BY_NAME = {path.name: path for path in REAL_FILES}
every_real_file = pytest.mark.parametrize("path", few(REAL_FILES, 2), ids=name_of)


@real
def test_the_files_are_those_of_the_list() -> None:
    rows = provenance("nsys_sqlite")
    assert {row["file"] for row in rows} == {
        f"nsys_sqlite/{path.name}" for path in (REAL / "nsys_sqlite").iterdir()
    }
    for row in rows:
        assert hashlib.sha256((REAL / row["file"]).read_bytes()).hexdigest() == row["sha256"]


@real
@every_real_file
def test_counts_bytes_and_kernel_time_are_those_of_the_list(shelf: Shelf, path: Path) -> None:
    (row,) = (row for row in provenance("nsys_sqlite") if row["file"].endswith(path.name))
    match = HOLDS.search(row["holds"])
    assert match, row["holds"]
    profile = shelf.profile(path)
    kernels, copies = all_columns(profile, "kernel"), all_columns(profile, "memcpy")
    migrations = all_columns(profile, "unified_memory_event")
    found = (
        len(kernels["dur_ns"]),
        # The list counts migrations as copies, as the source does.
        len(copies["bytes"]) + len(migrations["bytes"]),
        int(copies["bytes"].sum()) + int(migrations["bytes"].sum()),
        int(kernels["dur_ns"].sum()),
    )
    assert found == tuple(int(number) for number in match.groups("0"))


@real
@every_real_file
def test_every_row_of_the_source_is_there(shelf: Shelf, path: Path) -> None:
    """Against plain counts in the source; marks, names and backtraces are no rows of ours."""
    profile = shelf.profile(path)
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    present = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    wanted = {
        "api_call": ("CUPTI_ACTIVITY_KIND_RUNTIME", "eventClass IN (0, 1)"),
        "kernel": ("CUPTI_ACTIVITY_KIND_KERNEL", "1"),
        "memcpy": ("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind <= 10"),
        "unified_memory_event": ("CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind > 10"),
        "memset": ("CUPTI_ACTIVITY_KIND_MEMSET", "1"),
        "sync": ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "1"),
        "range": ("NVTX_EVENTS", "eventType IN (34, 59, 60, 70, 71)"),
        "graph_launch": ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "1"),
    }
    for ours, (theirs, where) in wanted.items():
        count = 0
        if theirs in present:
            sql = f"SELECT count(*) FROM {theirs} WHERE {where}"
            count = connection.execute(sql).fetchone()[0]
        assert (ours, profile.row_count(ours)) == (ours, count)
    connection.close()


@real
@every_real_file
def test_every_name_has_a_text(shelf: Shelf, path: Path) -> None:
    profile = shelf.profile(path)
    for table in ("kernel", "api_call", "range", "overhead"):
        nameless = [r for r in event_rows(profile, table) if str(r["name"]).startswith("[name ")]
        assert nameless == []


@real
@every_real_file
def test_links_stay_within_their_process(shelf: Shelf, path: Path) -> None:
    """The same join of GPU work and calls in plain SQL on the source, by process and id."""
    profile = shelf.profile(path)
    calls: dict[tuple[int, int], set[tuple[int, int]]] = {}
    call = all_columns(profile, "api_call")
    for pid, correlation, start, tid in zip(
        call["pid"].tolist(), call["correlation_id"].tolist(), call["start_ns"].tolist(),
        call["tid"].tolist(), strict=True,
    ):  # fmt: skip
        calls.setdefault((pid, correlation), set()).add((start, tid))
    ours: Counter[tuple[int, ...]] = Counter()
    for table in ("kernel", "memcpy", "unified_memory_event", "memset"):
        op = all_columns(profile, table)
        for pid, correlation, start in zip(
            op["pid"].tolist(), op["correlation_id"].tolist(), op["start_ns"].tolist(), strict=True
        ):
            if correlation not in (0, MISSING):
                ours.update((pid, start, *found) for found in calls.get((pid, correlation), ()))
    assert ours == _links_in(path)


def _links_in(path: Path) -> Counter[tuple[int, ...]]:
    """(pid, start of the op, start of the call, thread) of every link in the source."""
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    present = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    links: Counter[tuple[int, ...]] = Counter()
    for kind in ("KERNEL", "MEMCPY", "MEMSET"):
        if {f"CUPTI_ACTIVITY_KIND_{kind}", "CUPTI_ACTIVITY_KIND_RUNTIME"} <= present:
            links.update(
                connection.execute(f"""
                SELECT (op.globalPid >> 24) & 16777215, op.start, call.start,
                    call.globalTid & 16777215
                FROM CUPTI_ACTIVITY_KIND_{kind} op JOIN CUPTI_ACTIVITY_KIND_RUNTIME call
                ON call.correlationId = op.correlationId
                    AND call.globalTid / 16777216 = op.globalPid / 16777216
                WHERE op.correlationId <> 0 AND call.eventClass IN (0, 1)""")
            )
    connection.close()
    return links


@real
def test_ids_of_two_processes_collide(shelf: Shelf) -> None:
    """So that the test above can fail: whoever joins by id alone makes 287 links too many."""
    profile = shelf.profile(BY_NAME["GindaChen+nsys-ai__mfu_2gpu_after.sqlite"])
    call, kernel = all_columns(profile, "api_call"), all_columns(profile, "kernel")
    ids = {pid: call["correlation_id"][call["pid"] == pid].tolist() for pid in (148, 149)}
    assert len(set(ids[148]) & set(ids[149])) == 311
    other = {148: Counter(ids[149]), 149: Counter(ids[148])}
    pairs = zip(kernel["pid"].tolist(), kernel["correlation_id"].tolist(), strict=True)
    assert sum(other[pid][correlation] for pid, correlation in pairs if correlation) == 287


@real
def test_gpu_work_of_cloverleaf_is_event_by_event_that_of_pipit(shelf: Shelf) -> None:
    profile = shelf.profile(CLOVERLEAF)
    ours = [
        (row["short_name"], row["stream_id"], row["start_ns"], row["start_ns"] + row["dur_ns"], "")
        for row in event_rows(profile, "kernel")
    ] + [
        (f"CUDA_MEMCPY_KIND_{row['direction'].upper()}", row["stream_id"], row["start_ns"],
         row["start_ns"] + row["dur_ns"], str(row["bytes"]))
        for row in event_rows(profile, "memcpy")
    ]  # fmt: skip
    theirs = [
        (row["Name"], int(row["streamId"]), int(row["Timestamp (ns)"]),
         int(row["_matching_timestamp"]), row["bytes"])
        for row in _entered("cloverleaf_gpu_trace.csv")
    ]  # fmt: skip
    assert len(theirs) == 1312 + 279
    assert sorted(ours) == sorted(theirs)


@real
def test_api_calls_of_cloverleaf_are_event_by_event_those_of_pipit(shelf: Shelf) -> None:
    profile = shelf.profile(CLOVERLEAF)
    ours = [
        (row["name"], row["pid"], row["tid"], row["start_ns"], row["start_ns"] + row["dur_ns"])
        for row in event_rows(profile, "api_call")
    ]
    theirs = [
        (row["Name"], int(row["Process"]), int(row["Thread"]), int(row["Timestamp (ns)"]),
         int(row["_matching_timestamp"]))
        for row in _entered("cloverleaf-cuda_api_trace.csv")
    ]  # fmt: skip
    assert len(theirs) == 3048
    assert sorted(ours) == sorted(theirs)


def _entered(name: str) -> list[dict[str, str]]:
    with (EXPECTED / name).open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["Event Type"] == "Enter"]


def _devices(shelf: Shelf, name: str) -> list[tuple[Any, ...]]:
    rows: list[Row] = shelf.profile(BY_NAME[name]).rows("device")
    return [(row["device_id"], row["ordinal"], row["pid"], row["name"]) for row in rows]


@real
def test_devices_without_a_description_are_kept_apart_by_process(shelf: Shelf) -> None:
    """A container's export that describes no GPU. Process 112 only waits for its device 0."""
    assert _devices(shelf, "GindaChen+nsys-ai__h100_2gpu_1s.sqlite") == [
        (0, 0, 111, None), (1, 1, 112, None), (2, 0, 112, None),
    ]  # fmt: skip


@real
def test_four_gpus_of_one_model_are_one_device_of_that_model(shelf: Shelf) -> None:
    """One process on a node of four equal GPUs, and nothing says which of them it used."""
    assert _devices(shelf, CLOVERLEAF.name) == [(0, 0, None, "NVIDIA A100-SXM4-80GB")]
