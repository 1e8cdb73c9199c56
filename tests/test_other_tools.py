"""Our reports on real traces against HolisticTraceAnalysis and TraceLens.

docs/other-tools.md says which of their columns is which of ours. What differs is named here with its
reason; everything else has to be equal.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL_TRACES, few, name_of, real
from test_importer_kineto_real import EXPECTED, TRACELENS

import nsysconv

# Printed by scripts/answers_of_hta.py.
ANSWERS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("hta_answers.json").read_text("utf-8"))["answers"]  # fmt: skip
# HTA computes with doubles of microseconds since 1970 or since boot.
NEAR_US = 0.05

NO_GPU_ROWS = {
    "facebookresearch+HolisticTraceAnalysis__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    # Several steps and no API calls: HTA keeps only what is linked to a call.
    "facebookresearch+HolisticTraceAnalysis__rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz",
}
LEFT_OUT = {
    # Several steps, and operations without a call: HTA leaves those out.
    "amd+HPCTrainingExamples__replay_trace.json": 9,
    "luatil+torch-profile__trace_06.json": 1,
}
TAKEN_IN = {
    # What has a stream is GPU work to HTA: here operators of compiled code, and a wait.
    "AMD-AGI+TraceLens__eager_trace.json.gz": 1,
    "AMD-AGI+TraceLens__trace.json.gz": 4,
    "facebookresearch+HolisticTraceAnalysis__event_sync_trace.json.gz": 1,
}
SAME = [path for path in REAL_TRACES if path.name not in {*NO_GPU_ROWS, *LEFT_OUT, *TAKEN_IN}]
WITH_GPU_ROWS = [path for path in REAL_TRACES if path.name not in NO_GPU_ROWS]
EAGER = [path for path in REAL_TRACES if path.name == "AMD-AGI+TraceLens__eager_trace.json.gz"]

# The functions that HTA takes for launches; its queues know some more than its launch statistics.
STATS_OF_HTA = {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"}
QUEUES_OF_HTA = STATS_OF_HTA | {
    "cuLaunchKernel", "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemsetAsync",
    "hipMemcpyAsync", "hipMemcpyWithStream",
}  # fmt: skip


def test_every_trace_was_put_to_hta() -> None:
    names = {path.name for path in REAL_TRACES if path.exists()}
    assert names <= ANSWERS.keys()
    assert {*NO_GPU_ROWS, *LEFT_OUT, *TAKEN_IN} <= ANSWERS.keys()


def told(path: Path) -> dict[str, Any]:
    return ANSWERS[path.name]


def us(ns: int) -> float:
    return ns / 1000


def only(path: Path, report: str) -> dict[str, Any]:
    with nsysconv.open(path) as profile:
        (row,) = profile.report(report).rows()
    return row


def times(row: dict[str, Any]) -> dict[str, float]:
    """A row of comm_overlap in HTA's words."""
    return {
        "idle": us(row["idle_ns"]),
        "compute": us(row["computation_union_ns"]),
        "non_compute": us(row["busy_ns"] - row["computation_union_ns"]),
        "total": us(row["window_ns"]),
    }


@real
@pytest.mark.parametrize("path", few(SAME, 2), ids=name_of)
def test_idle_and_compute_time_are_those_of_hta(path: Path) -> None:
    said = told(path)
    for name, ours in times(only(path, "comm_overlap")).items():
        assert ours == pytest.approx(said[name], abs=NEAR_US), name


@real
@pytest.mark.parametrize("path", few(WITH_GPU_ROWS, 2), ids=name_of)
def test_the_operations_are_those_of_hta(path: Path) -> None:
    """But for those it leaves out and the rows it takes for some."""
    row = only(path, "overview")
    ours = row["kernel_count"] + row["memcpy_count"] + row["memset_count"]
    rows, work = told(path)["gpu_rows"]
    assert (rows - work, ours - work) == (TAKEN_IN.get(path.name, 0), LEFT_OUT.get(path.name, 0))


@real
@pytest.mark.parametrize("path", few(SAME, 2), ids=name_of)
def test_overlap_and_kinds_are_those_of_hta(path: Path) -> None:
    """HTA cuts every piece of a kind's time to whole microseconds before it adds them up."""
    said, row = told(path), only(path, "comm_overlap")
    if said["overlap_pct"] is None:
        assert row["communication_union_ns"] == 0
    else:
        assert row["overlap_pct"] == pytest.approx(said["overlap_pct"], abs=0.006)
    kinds = said["kinds"]

    def sum_of(*words: str) -> int:
        return sum(us for kind, us in kinds.items() if all(word in kind for word in words))

    pieces = 2 * said["gpu_rows"][0] if row["window_ns"] % 1000 else 0
    for theirs, ours in (
        (sum_of("COMPUTATION"), row["computation_union_ns"]),
        (sum_of("COMMUNICATION"), row["communication_union_ns"]),
        (sum_of("COMPUTATION", "COMMUNICATION"), row["overlap_ns"]),
        (kinds.get("MEMORY", 0), row["exposed_memcpy_ns"] + row["exposed_memset_ns"]),
    ):
        assert theirs <= us(ours) + NEAR_US
        assert us(ours) - theirs <= pieces


@real
@pytest.mark.parametrize("path", few(WITH_GPU_ROWS, 2), ids=name_of)
def test_launches_are_those_of_hta(path: Path) -> None:
    with nsysconv.open(path) as profile:
        rows = profile.report("launch_stats").rows()
    found = {row["name"]: row for row in rows if row["name"] in STATS_OF_HTA}
    said = told(path)["launches"]
    assert found.keys() == said.keys()
    for name, (count, cpu, gpu, delay, short, long_calls, late) in said.items():
        row = found[name]
        assert row["launch_count"] == count
        assert us(row["api_sum_ns"]) == pytest.approx(cpu, abs=NEAR_US)
        assert us(row["gpu_op_sum_ns"]) == pytest.approx(gpu, abs=NEAR_US)
        assert us(row["queue_sum_ns"]) == pytest.approx(delay, abs=NEAR_US)
        assert (row["short_op_count"], row["long_call_count"], row["long_queue_count"]) == (
            short, long_calls, late)  # fmt: skip


def queues(path: Path) -> Iterator[tuple[dict[str, Any], list[float]]]:
    """Our rows of queue_length beside HTA's, of the streams that both tell."""
    with nsysconv.open(path) as profile:
        rows = {row["stream"]: row for row in profile.report("queue_length").rows()}
    for stream, said in told(path)["queues"].items():
        yield rows[stream], said


@real
@pytest.mark.parametrize("path", few(WITH_GPU_ROWS, 2), ids=name_of)
def test_queues_are_those_of_hta(path: Path) -> None:
    with nsysconv.open(path) as profile:
        launches = profile.report("launch_stats").rows()
    of_hta = sum(row["launch_count"] for row in launches if row["name"] in QUEUES_OF_HTA)
    assert sum(said[0] for _, said in queues(path)) == 2 * of_hta
    if {row["name"] for row in launches} > QUEUES_OF_HTA & {row["name"] for row in launches}:
        return  # functions that HTA does not know put more into the same queues
    columns = ("avg", "stddev", "min", "p25", "med", "p75", "max")
    for row, (count, *said) in queues(path):
        assert 2 * row["launch_count"] == count
        ours = [row[f"queue_length_{column}"] for column in columns]
        # Changes at one moment, where times are whole microseconds, HTA takes in any order.
        assert ours == pytest.approx(said, abs=0.01)


@real
@pytest.mark.parametrize("path", EAGER, ids=name_of)
def test_what_communicates_without_nccl_is_computation_to_hta(path: Path) -> None:
    """An all-reduce of symmetric memory, and an operator of compiled code that HTA takes for a kernel."""
    said, ours = told(path), times(only(path, "comm_overlap"))
    with nsysconv.open(path) as profile:
        kernels = profile.report("kernels").rows()
    (reduced,) = (
        us(row["kernel_sum_ns"]) for row in kernels if "multimem_all_reduce" in row["name"]
    )
    operator = ours["idle"] - said["idle"]
    assert said["compute"] == pytest.approx(ours["compute"] + reduced + operator, abs=NEAR_US)
    assert said["total"] == pytest.approx(ours["total"], abs=NEAR_US)


@real
@pytest.mark.parametrize("path", TRACELENS, ids=name_of)
def test_times_are_those_of_tracelens(path: Path) -> None:
    """Its times are doubles in milliseconds: 5 ns is what they can be off. Sets are computation there."""
    said = {}
    with (EXPECTED[path.name] / "gpu_timeline.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            said[row["type"]] = round(float(row["time ms"]) * 1e6)
    ours = only(path, "comm_overlap")
    for theirs, value in (
        ("computation_time", ours["computation_union_ns"] + ours["exposed_memset_ns"]),
        ("exposed_comm_time", ours["exposed_communication_ns"]),
        ("exposed_memcpy_time", ours["exposed_memcpy_ns"]),
        ("busy_time", ours["busy_ns"]),
        ("idle_time", ours["idle_ns"]),
        ("total_time", ours["window_ns"]),
        ("total_comm_time", ours["communication_union_ns"]),
        ("total_memcpy_time", ours["memcpy_union_ns"]),
    ):
        assert value == pytest.approx(said[theirs], abs=5), theirs
