"""The made-up workloads in every file format and age: rows, facts and notes are those declared.

What the import must give is made from the workload itself (`workload_rows.py`); each source says there
what it records and how it rounds. That the workloads are what was worked out by hand is tested here.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fixtures_kineto
import pytest
from conftest import BETWEEN, Shelf, with_slow
from scenarios import EXPECTED, WORKLOADS
from workload import Stream
from workload_rows import (
    DATABASES,
    KINETO_TRACES,
    LOG_TRACES,
    NSYS_EXPORTS,
    Expected,
    File,
    Kineto,
    NvprofLog,
    demangle,
    same,
)

from nsysconv import api, schema
from nsysconv.facts import Fact
from nsysconv.importers.nvprof_database import reader
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

FILES = [*NSYS_EXPORTS, *KINETO_TRACES, *DATABASES, *LOG_TRACES]
# Notes of who looks at a profile after its import, and on tables that are not of the workload.
EXAMINED = {"launches-failed", "launches-without-work", "tables-not-read"}
# Names of calls of the driver without their version.
PLAIN = {"cuMemAlloc_v2": "cuMemAlloc"}


def test_every_workload_is_there() -> None:
    def names(files: list[File]) -> set[str]:
        assert all(file.path.exists() for file in files)
        return {each.workload.name for file in files for each in file.expected}

    assert names(NSYS_EXPORTS) == names(DATABASES) == {*EXPECTED} == {*WORKLOADS}
    assert names(KINETO_TRACES) == {*EXPECTED, *fixtures_kineto.KINETO_FRAMEWORKS}


def _events_are_those_of_the_workload(profile: Profile, expected: Expected) -> None:
    for table in schema.EVENT_TABLES:
        same(expected.found(profile, table), expected.rows(table), table)


def _small_tables_are_those_of_the_workload(profile: Profile, expected: Expected) -> None:
    for table in expected.SMALL:
        same(expected.found(profile, table), expected.rows(table), table)


def _plain_names_of_calls(profile: Profile, expected: Expected) -> None:
    """Those that are documented: without versions and the mode of the default stream."""
    wanted = {
        row["name"]: PLAIN.get(row["name"], re.sub(r"(_ptsz)?(_v\d{4,})?$", "", row["name"]))
        for row in expected.rows("api_call")
    }
    ids = set(profile.columns("api_call", ("name_id",))["name_id"].tolist())
    symbols, plain = profile.names(ids), profile.names(ids, plain=True)
    assert {symbols[number]: plain[number] for number in ids} == wanted


def _only_names_that_a_row_refers_to(profile: Profile, expected: Expected) -> None:
    """Files also hold paths, output and environments."""
    allowed = {cell for table in schema.EVENT_TABLES for row in expected.rows(table)
               for cell in row.values() if isinstance(cell, str)}  # fmt: skip
    assert {row["text"] for row in profile.rows("name")} <= allowed


def _facts_are_what_the_file_holds(profile: Profile, expected: Expected) -> None:
    # A log with several processes is of one set of tables; its short names of GPUs are none to find.
    unsure = {Fact.DEVICES} if isinstance(expected, NvprofLog) else set()
    assert profile.facts - unsure == expected.facts() - unsure
    # But for those of which no setting of the profiler would say more.
    assert profile.missing - set(profile.advice) <= {Fact.OVERHEAD}, expected


def _notes_of_the_import(profile: Profile, expected: Expected) -> None:
    found: Counter[str] = Counter()
    for row in (row for row in profile.rows("note") if row["slug"] not in EXAMINED):
        found[row["slug"]] += row["count"]
    wanted = expected.notes()
    assert found.keys() == wanted.keys()
    assert found == {slug: found[slug] if n is None else n for slug, n in wanted.items()}


def _zero_is_a_whole_second_before_the_first_event(profile: Profile, expected: Expected) -> None:
    """Of a trace. And its recording ends with its last event or later."""
    if not isinstance(expected, Kineto):
        return
    zero, first = profile.attributes["zero_utc_ns"], expected.workload.zero_utc_ns
    assert zero % 1_000_000_000 == 0
    assert 0 <= first - zero <= 1_000_000_000
    last = max(row["start_ns"] + (row["dur_ns"] or 0)
               for table in ("api_call", "kernel", "range") for row in expected.rows(table))  # fmt: skip
    assert last <= zero + profile.attributes["recording_ns"] - first <= expected.workload.duration_ns


CHECKS = (_events_are_those_of_the_workload, _small_tables_are_those_of_the_workload,
          _plain_names_of_calls, _only_names_that_a_row_refers_to, _facts_are_what_the_file_holds,
          _notes_of_the_import, _zero_is_a_whole_second_before_the_first_event)  # fmt: skip


def _is_first(file: File) -> bool:
    """Whether no other file is of the same workload in the same form, as that of its other process."""
    stem, suffix = file.path.stem, file.path.suffix
    return not stem.endswith(("-5002", "-6002")) and (suffix != ".txt" or stem.startswith("basic"))


@pytest.mark.parametrize("file", with_slow(
    (file, file.path not in BETWEEN and _is_first(file)) for file in FILES), ids=str)  # fmt: skip
def test_a_file_is_read_as_its_workload_was_declared(file: File, shelf: Shelf, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(reader, "demangler", lambda: demangle)
        if file in NSYS_EXPORTS or file in KINETO_TRACES:
            profiles = [shelf.profile(file.path)]
        else:
            assert not api.import_files([file.path], tmp_path / "store.db").errors
            profiles = stack.enter_context(reading(tmp_path / "store.db")).profiles()
        for profile, expected in zip(profiles, file.expected, strict=True):
            for check in CHECKS:
                check(profile, expected)


# -- by hand


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_are_those_worked_out_by_hand(name: str) -> None:
    """Counts, sums, bytes and names of scripts/scenario_*.py, per GPU of the machine."""
    events, expected = WORKLOADS[name].events, EXPECTED[name]

    def gpu(event: Any) -> int:
        stream: Stream = event.stream
        return stream.process.devices[stream.ordinal].gpu_id

    found: Counter[Any] = Counter()

    def count(event: Any, *key: object, size: int = 0) -> None:
        ns = event.end_ns - event.start_ns
        found.update({(*key, "count"): 1, (*key, "bytes"): size, (*key, "ns"): ns})

    for kernel in events.kernels:
        count(kernel, gpu(kernel), kernel.function.demangled)
    for copy in events.memcpys:
        count(copy, gpu(copy), copy.direction, copy.src_kind, copy.dst_kind, size=copy.bytes)
    for item in events.migrations:
        device = item.process.devices[item.ordinal].gpu_id
        count(item, device, f"UM {item.direction}", None, None, size=item.bytes)
    for call in events.calls:
        plain = re.sub(r"(_ptsz)?(_v\d{4,})?$", "", call.symbol)
        count(call, call.layer, PLAIN.get(plain, plain))
        count(call, call.thread.process.pid)
    wanted: Counter[Any] = Counter()
    for keys, ran in expected["kernels"].items():
        wanted.update({(*keys, "count"): ran.kernel_count, (*keys, "ns"): ran.sum_ns})
    for moves, moved in expected["transfers"].items():
        wanted.update({(*moves, "count"): moved.memcpy_count, (*moves, "bytes"): moved.bytes_sum,
                       (*moves, "ns"): moved.sum_ns})  # fmt: skip
    for function, of_api in expected["api"].items():
        wanted.update({(*function, "count"): of_api.call_count, (*function, "ns"): of_api.api_sum_ns})
    for pid, calls in expected["api_call_count"].items():
        wanted.update({(pid, "count"): calls, (pid, "ns"): expected["api_sum_ns"][pid]})
    assert +found == +wanted
