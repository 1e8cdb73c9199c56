"""RPD recordings: the program of scripts/fixtures_rpd.py, what goes wrong with files, and real ones."""

from __future__ import annotations

import gzip
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL, changed, claimed_by, event_rows, name_of, real
from fixtures_rpd import GPU, OTHER_THREAD, PID, SESSION
from importing import imported, notes, rows_since, told

from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers import rpd
from nsysconv.importers.contract import No
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.notes import Severity
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "rpd"
SCHEMA_2, SCHEMA_3 = FOLDER / "schema-2.rpd", FOLDER / "schema-3.rpd"
# The first call begins so long after a whole second.
FIRST = 250
REDUCE = "_Z6reducePf"

rows = rows_since(FIRST)

Row = dict[str, Any]


@pytest.fixture(params=[SCHEMA_2, SCHEMA_3], ids=name_of)
def profile(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Profile]:
    with imported(request.param) as one:
        yield one


# -- what the rows become


def test_kernels_are_those_of_calls_and_of_graphs(profile: Profile) -> None:
    """Names without `.kd`; grids in blocks, as they are."""
    found = rows(profile, "kernel", "start_ns", "dur_ns", "name", "mangled_name", "grid_x", "block_x",
                 "device_id", "stream_id", "pid")  # fmt: skip
    where = (GPU, 0, PID)
    assert found[0] == (4000, 2000, "saxpy(float*, float)", None, 4, 256, *where)
    assert found[1][:2] == (6000, 1000)
    assert found[1][2] in ("reduce(float*)", REDUCE)
    assert found[1][3:] == (REDUCE, 1, 64, *where)
    assert found[2:] == [
        (start, dur, "scale(float*)", None, None, None, *where)
        for start, dur in ((9000, 100), (9100, 200), (9300, 300))
    ]


def test_what_a_tracer_writes_as_zero_is_not_recorded(profile: Profile) -> None:
    for row in event_rows(profile, "kernel"):
        assert row["shared_bytes"] is row["local_bytes_per_thread"] is row["dynamic_shared_bytes"] is None


def test_copies_have_bytes_and_directions(profile: Profile) -> None:
    """A size is the call's: of two copies of one call, neither has it."""
    assert rows(profile, "memcpy", "start_ns", "dur_ns", "bytes", "direction", "src_kind") == [
        (1000, 1500, 4096, "HtoD", None), (10000, 400, 512, "DtoH", None),
        (10500, 100, None, "DtoD", None), (10600, 200, None, "DtoD", None)]  # fmt: skip
    assert notes(profile)["copies-of-one-call"] == [(Severity.INFO, 2, "")]


def test_a_fill_is_a_memset(profile: Profile) -> None:
    assert rows(profile, "memset", "start_ns", "dur_ns", "bytes") == [(10400, 100, None)]


def test_calls_have_threads_and_names_and_no_arguments(profile: Profile) -> None:
    found = rows(profile, "api_call", "start_ns", "dur_ns", "name", "pid", "tid", "layer")
    assert found[:8] == [
        (start, end - start, name, PID, PID, "runtime")
        for name, start, end in (
            ("hipMemcpy", 0, 3000), ("hipLaunchKernel", 3000, 3500), ("hipLaunchKernel", 3500, 4000),
            ("hipGraphLaunch", 7000, 9000), ("hipMemcpyAsync", 9600, 9700),
            ("hipMemsetAsync", 9700, 9800), ("hipMemcpyAsync", 9800, 9900),
            ("hipDeviceSynchronize", 10000, 11000),
        )
    ]  # fmt: skip


def test_operations_are_linked_to_their_calls(profile: Profile) -> None:
    """Numbers of a session are beyond 32 bits; one call may have several operations."""
    calls = {row["correlation_id"]: row["name"] for row in event_rows(profile, "api_call")}
    assert min(calls) == SESSION + 1
    kernels = [calls[row["correlation_id"]] for row in event_rows(profile, "kernel")]
    assert kernels == ["hipLaunchKernel"] * 2 + ["hipGraphLaunch"] * 3
    copies = [calls[row["correlation_id"]] for row in event_rows(profile, "memcpy")]
    assert copies == ["hipMemcpy", *["hipMemcpyAsync"] * 3]


def test_markers_are_ranges_marks_or_operators(profile: Profile) -> None:
    ranges = rows(profile, "range", "start_ns", "dur_ns", "name", "kind", "tid")
    step = {"2": ("run_to_completion", 100, 10800), "3": ("ProfilerStep#1", 2000, 7500)}
    name, start, dur = step[str(profile.attributes["format_version"])]
    assert ranges == [
        (2000, 7000, "step 1", "push_pop", PID), (2500, None, "epoch", "mark", OTHER_THREAD),
        (start, dur, name, "push_pop", PID)]  # fmt: skip
    operators = rows(profile, "operator", "start_ns", "dur_ns", "name", "kind")
    assert operators[0] == (2900, 1300, "aten::mm", "operator")
    assert rows(profile, "overhead", "start_ns", "dur_ns", "name", "kind") == [
        (11000, 500, "ApiTable::writeRows", "profiler")]  # fmt: skip


def test_schema_3_has_domains_and_barriers() -> None:
    """Its arguments are in a table of their own, whose numbers are also those of names."""
    with imported(SCHEMA_3) as profile:
        assert rows(profile, "operator", "name", "kind") == [
            ("aten::mm", "operator"), ("miopenConvolutionForward", "library_call")]  # fmt: skip
        assert rows(profile, "sync", "start_ns", "dur_ns", "device_id") == [(10800, 100, GPU)]
        assert profile.facts >= {Fact.SYNCS, Fact.LIBRARY_CALLS}


def test_a_program_of_cuda_ran_on_no_gpu_of_amd(tmp_path: Path) -> None:
    path = tmp_path / "a.rpd"
    path.write_bytes(SCHEMA_2.read_bytes())
    changed(path, "UPDATE rocpd_string SET string = replace(string, 'hip', 'cuda')")
    with imported(path) as profile:
        assert [row["name"] for row in profile.rows("device")] == [None]


def test_facts_and_attributes() -> None:
    with imported(SCHEMA_2) as profile:
        assert profile.facts == {
            Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS,
            Fact.RANGES, Fact.OPERATORS, Fact.OVERHEAD}  # fmt: skip
        attributes = profile.attributes
        assert (attributes["format_version"], attributes["zero_utc_ns"]) == ("2", None)
        assert attributes["recording_ns"] == FIRST + 11500
        (device,) = profile.rows("device")
        assert (device["device_id"], device["ordinal"], device["name"]) == (GPU, None, "AMD GPU")
        assert [row["pid"] for row in profile.rows("process")] == [PID]
        assert sorted(row["tid"] for row in profile.rows("thread")) == [PID, OTHER_THREAD]


def test_times_beyond_the_limit_are_shifted_first() -> None:
    """The machine was up for more than 104 days."""
    with closing(sqlite3.connect(SCHEMA_2)) as sql:
        assert sql.execute("SELECT min(start) > (1 << 53) FROM rocpd_api").fetchone() == (1,)
    with imported(SCHEMA_2) as profile:
        assert {slug for slug, found in notes(profile).items() if found[0][0] != Severity.INFO} <= {
            "symbols-only"}  # fmt: skip
        assert notes(profile)["rows-not-read"] == [(Severity.INFO, 2, "rocpd_monitor")]


def test_the_kernels_of_a_runtime_that_copies_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.rpd"
    path.write_bytes(SCHEMA_2.read_bytes())
    changed(path, "UPDATE rocpd_string SET string = '__amd_rocclr_copyBuffer.kd' "
                  "WHERE string LIKE 'scale%'")  # fmt: skip
    with imported(path) as profile:
        assert notes(profile)["copies-as-kernels"] == [(Severity.INFO, 3, "")]
        assert "__amd_rocclr_copyBuffer" in [name for (name,) in rows(profile, "kernel", "name")]


# -- what is left out


def test_damage_is_counted_and_nothing_is_invented() -> None:
    with imported(FOLDER / "odd-damaged.rpd") as profile:
        # Of five kernels one has no time, one is of no device, and the first task is of the year 2006.
        assert rows(profile, "kernel", "start_ns", "dur_ns", "name") == [(None, None, "scale(float*)")]
        assert rows(profile, "memcpy", "start_ns", "bytes")[0] == (1000, None)
        dropped = {
            (note.slug, note.text.partition(": ")[2].partition(" were")[0]): (note.count, note.where)
            for note in profile.notes
            if note.severity == Severity.DROPPED
        }
        first = SESSION + 2
        assert dropped == {
            ("wrong-type", "rows whose start is not a whole number"): (1, f"rocpd_op row {first}"),
            ("negative-duration", "rows that end before they start"): (1, f"rocpd_op row {first + 1}"),
            ("impossible-time", "rows more than 104 days from the others"): (
                1, f"rocpd_op row {first + 2}"),
            ("wrong-type", "rows whose gpuId is not a whole number"): (1, f"rocpd_op row {first + 4}"),
            ("launches-without-work", "hipLaunchKernel of process 4711: 2 of 2"): (2, "api_call:2"),
            ("unknown-code", ""): (1, "rocpd_op"),
            ("wrong-type", "cells of pid without a number"): (1, f"rocpd_api row {SESSION + 4}"),
        }  # fmt: skip
        assert notes(profile)["nameless-id"] == [(Severity.INFO, 1, "")]
        # Names of rows that were left out stay where they are.
        texts = {row["text"] for row in profile.rows("name")}
        assert texts.isdisjoint({"saxpy(float*, float)", REDUCE, "reduce(float*)"})
        # Of an operation with two calls, the first is its own.
        assert event_rows(profile, "memcpy")[0]["correlation_id"] == SESSION + 1


def test_calls_without_operations_are_no_zero() -> None:
    with imported(FOLDER / "odd-no-operations.rpd") as profile:
        assert profile.facts.isdisjoint({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.API_LINKS})
        assert "gpu-activity-missing" in notes(profile)
        assert "runTracer.sh" in profile.advice[Fact.KERNELS]


def test_an_empty_recording_has_no_facts() -> None:
    with imported(FOLDER / "odd-empty.rpd") as profile:
        assert profile.facts == frozenset()
        assert set(notes(profile)) == {"no-gpu-work"}


def test_copies_without_their_table_have_no_bytes() -> None:
    with imported(FOLDER / "odd-no-copies.rpd") as profile:
        assert [size for (size,) in rows(profile, "memcpy", "bytes")] == [None] * 4
        assert len(rows(profile, "kernel", "start_ns")) == 5


@pytest.mark.parametrize(("table", "column", "lost"), [
    ("rocpd_op", "opType_id", Fact.KERNELS), ("rocpd_api", "apiName_id", Fact.API_CALLS)])  # fmt: skip
def test_a_table_without_a_column_is_not_read(
    table: str, column: str, lost: Fact, tmp_path: Path
) -> None:
    path = tmp_path / "run.rpd"
    path.write_bytes(SCHEMA_2.read_bytes())
    changed(path, f"ALTER TABLE {table} DROP COLUMN {column}")
    with imported(path) as profile:
        assert lost not in profile.facts
        assert notes(profile)["not-a-table"] == [(Severity.DROPPED, 1, table)]


def test_no_tables_of_rocpd_are_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(SCHEMA_2.read_bytes())
    assert claimed_by(path) == ["rpd"]
    changed(path, "CREATE TABLE rocpd_info_agent_0001 (id)")
    with Probe(path) as probe:
        assert isinstance(rpd.sniff(probe), No)


def test_a_table_that_is_missing_is_named() -> None:
    with Probe(FOLDER / "odd-no-strings.rpd") as probe, pytest.raises(InputError) as caught:
        detect(probe)
    assert caught.value.what == "an RPD recording without its table rocpd_string"


def test_a_recording_without_its_operations_is_one_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "trace.rpd"
    path.write_bytes(SCHEMA_2.read_bytes())
    changed(path, "DROP TABLE rocpd_op")
    with Probe(path) as probe, pytest.raises(InputError, match="without its table rocpd_op"):
        detect(probe)


def test_a_compressed_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.rpd.gz"
    path.write_bytes(gzip.compress(SCHEMA_2.read_bytes()))
    with Probe(path) as probe, pytest.raises(InputError) as caught:
        detect(probe)
    assert caught.value.what == f"{rpd.TITLE}, compressed with gzip"
    assert caught.value.hint.startswith("Unpack it first: gunzip ")


# -- real files


def total(found: list[Row]) -> tuple[int, int]:
    return len(found), sum(row["dur_ns"] or 0 for row in found)


DIRECTIONS = {"1": "HtoD", "2": "DtoH", "3": "DtoD"}
COPIES = {"CopyHostToDevice": "HtoD", "CopyDeviceToHost": "DtoH", "CopyDeviceToDevice": "DtoD"}


@real
@pytest.mark.parametrize("said", told("rpd/PROVENANCE_rpd.tsv"), ids=lambda said: said["file"])
def test_real_recordings_hold_what_their_origin_says(said: dict[str, str], tmp_path: Path) -> None:
    source = REAL / "rpd" / said["file"]
    path = tmp_path / "run.rpd"
    packed = source.read_bytes()
    path.write_bytes(gzip.decompress(packed) if source.suffix == ".gz" else packed)
    text = said["what it holds"]
    ops = {kind: (int(count), int(ns)) for kind, count, ns in re.findall(r"(\w+) (\d+)x (\d+) ns", text)}
    copied = {k: (int(n), int(b)) for k, n, b in re.findall(r"(\d): (\d+)x (\d+) B", text)}
    with imported(path) as profile:
        kernels = [ops.get(kind, (0, 0)) for kind in ("KernelExecution", "Task")]
        assert total(event_rows(profile, "kernel")) == tuple(map(sum, zip(*kernels, strict=True)))
        copies = event_rows(profile, "memcpy")
        for kind, direction in COPIES.items():
            own = [row for row in copies if row["direction"] == direction]
            assert total(own) == ops.get(kind, (0, 0))
        for kind, (count, size) in copied.items():
            sizes = [r["bytes"] for r in copies if r["direction"] == DIRECTIONS[kind] and r["bytes"]]
            assert (len(sizes), sum(sizes)) == (count, size)
        assert total(event_rows(profile, "memset")) == ops.get("FillBuffer", (0, 0))
        tables = ("api_call", "range", "operator", "overhead")
        sums = [total(event_rows(profile, table)) for table in tables]
        (calls,) = re.findall(r"api rows (\d+) \(of them UserMarker (\d+)\), sum (\d+) ns", text)
        assert tuple(map(sum, zip(*sums, strict=True))) == (int(calls[0]), int(calls[2]))
        (links,) = re.findall(r"links (\d+)", text)
        known = {row["correlation_id"] for row in event_rows(profile, "api_call")}
        linked = [r for table in ("kernel", "memcpy", "memset") for r in event_rows(profile, table)
                  if r["correlation_id"] in known]  # fmt: skip
        assert len(linked) == int(links)
        markers = sums[1][0] + sums[2][0]
        # Beside markers, one range that Python opened by its own name.
        assert markers - int(calls[1]) in (0, 1)
        assert {note.severity for note in profile.notes} == {Severity.INFO}
