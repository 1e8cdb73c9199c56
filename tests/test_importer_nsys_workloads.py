"""The made-up workloads in every age of the export: what is special of nsys.

Rows, facts and notes are compared in test_workloads.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import NSYS, Shelf, oldest_and_newest
from importing import changed_copy
from workload_rows import LIMITS, NSYS_EXPORTS, File, Nsys

from nsysconv import api

every_file = pytest.mark.parametrize("file", oldest_and_newest(NSYS_EXPORTS), ids=str)


def expected_of(file: File) -> Nsys:
    (expected,) = file.expected
    assert isinstance(expected, Nsys)
    return expected


# -- devices


def _devices(shelf: Shelf, name: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = shelf.profile(NSYS / name).rows("device")
    return sorted(tuple(row[column] for column in columns) for row in rows)


@pytest.mark.parametrize("age", ["3.17.2", "3.24.7"])
def test_a_map_of_processes_ties_ordinals_to_gpus(shelf: Shelf, age: str) -> None:
    """Both processes have both GPUs, as 0, 1 and as 1, 0: two devices of no process's number."""
    found = _devices(shelf, f"two_processes_two_gpus-{age}.sqlite",
                     "device_id", "uuid", "bus_id", "ordinal", "pid")  # fmt: skip
    assert found == [
        (0, "a100a100-0000-4000-8000-000000000002", "0000:03:00.0", None, None),
        (1, "a100a100-0000-4000-8000-000000000005", "0000:06:00.0", None, None),
    ]


def test_the_oldest_map_goes_by_bus(shelf: Shelf) -> None:
    """TARGET_INFO_CUDA_GPU: a row for each process and ordinal, with the number of the bus."""
    profile = shelf.profile(NSYS / "two_processes_two_gpus-2020.sqlite")
    assert len(profile.rows("device")) == 2
    used = profile.columns("kernel", ("pid", "device_id"))
    by_pid = dict(zip(used["pid"].tolist(), used["device_id"].tolist(), strict=True))
    assert by_pid[6001] != by_pid[6002]


def test_without_a_map_every_pair_of_process_and_ordinal_stands_alone(shelf: Shelf) -> None:
    found = _devices(shelf, "two_processes_two_gpus-3.7.2.sqlite",
                     "pid", "ordinal", "uuid", "bus_id")  # fmt: skip
    assert found == [(6001, 0, None, None), (6001, 1, None, None), (6002, 0, None, None),
                     (6002, 1, None, None)]  # fmt: skip


@pytest.mark.parametrize("age", ["2.7.0", "3.13.2", "3.24.14", "3.28.1"])
def test_two_processes_share_the_only_gpu(shelf: Shelf, age: str) -> None:
    found = _devices(shelf, f"two_processes_one_gpu-{age}.sqlite",
                     "device_id", "ordinal", "pid", "uuid")  # fmt: skip
    assert found == [(0, 0, None, "a100a100-0000-4000-8000-000000000000")]


@every_file
def test_properties_of_devices(shelf: Shelf, file: File) -> None:
    """All GPUs are of one model, so even a device that may be any of them has its properties."""
    expected = expected_of(file)
    wanted: dict[str, Any] = LIMITS | {"sm_count": 108, "compute_major": 8, "compute_minor": 0,
                                       "memory_bytes": 42_505_273_344}  # fmt: skip
    if expected.age_name == "2021":
        wanted = dict.fromkeys(wanted)  # TARGET_INFO_GPU had name and bus only
    for row in shelf.profile(file.path).rows("device"):
        assert {name: row[name] for name in wanted} == wanted
        assert row["name"] == "NVIDIA A100-SXM4-40GB"


# -- attributes, facts, notes


@every_file
def test_attributes_of_the_profile(shelf: Shelf, file: File) -> None:
    expected = expected_of(file)
    found = shelf.profile(file.path).attributes
    told = expected.since(2, 7, 0)
    # The oldest ages tell no length: the last event's end.
    last = {"basic": 212_000, "ranges": 49_000, "unified_memory": 33_000,
            "two_processes_two_gpus": 22_000}  # fmt: skip
    wanted = {
        "source": "nsys_sqlite",
        "tool_version": expected.age.product if told else None,
        "format_version": expected.age_name if told else None,
        "zero_utc_ns": 1_767_225_600_000_000_000 if told else None,
        "recording_ns": expected.workload.duration_ns if told else last[expected.name],
        "driver_version": "580.95.05" if told else None,
        "host": "node01" if told else None,
        "graph_mode": None,
    }
    assert {name: found[name] for name in wanted} == wanted


def test_diagnostics_of_known_patterns_are_notes(shelf: Shelf) -> None:
    notes = shelf.profile(NSYS / "no_gpu-3.16.1.sqlite").notes
    texts = {note.text for note in notes if note.slug == "profiler-diagnostic"}
    assert texts == {
        "the profiler says: CUDA profiling might have not been started correctly.",
        "the profiler says: No CUDA events collected. Does the process use CUDA?",
    }


def test_names_without_properties_leave_those_of_the_older_table(shelf: Shelf, tmp_path: Path) -> None:
    """A decoded report of 2020 has all columns of TARGET_INFO_GPU; only names and buses were recorded."""
    source = NSYS / "basic-2020.sqlite"
    path = changed_copy(
        source, tmp_path,
        "CREATE TABLE TARGET_INFO_GPU (vmId, id, name, busLocation, uuid, smCount, clockRate)",
        "INSERT INTO TARGET_INFO_GPU (vmId, id, name, busLocation) "
        "SELECT vmId, deviceId, name, pciBusId FROM TARGET_INFO_CUDA_GPU",
    )  # fmt: skip
    (before,) = shelf.profile(source).rows("device")
    assert before["sm_count"] == 108
    with api.open(path) as opened:
        (row,) = opened.profile.rows("device")
    assert {**row, "profile_id": before["profile_id"]} == before
