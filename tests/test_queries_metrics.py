"""The report of metrics, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, NSYS

from nsysconv import api
from nsysconv.errors import NotRecorded
from nsysconv.queries.metrics import COLUMNS

VALUES = ("sample_count", "value_avg", "value_min", "value_max")


def metrics(path: Path, part: api.Slice | None = None) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    with api.open(path) as profile:
        rows = profile.report("metrics", slice=part).rows()
    return {(row["device_id"], row["metric"], row["kernel"], row["unit"]):
            tuple(row[name] for name in VALUES) for row in rows}  # fmt: skip


QUERY = FIXTURES / "nvidia_smi" / "query.csv"


def test_samples_count_the_same() -> None:
    """0, 100 and 50 %; 60, 120 and 90 W; 100, 300 and 200 MiB."""
    found = metrics(QUERY)
    assert found[0, "utilization.gpu", None, "%"] == (3, 50, 0, 100)
    assert found[0, "power.draw", None, "W"] == (3, 90, 60, 120)
    assert found[0, "memory.used", None, "bytes"] == (3, 200 * 2**20, 100 * 2**20, 300 * 2**20)
    assert found[1, "utilization.gpu", None, "%"] == (3, 20, 10, 30)
    assert (1, "power.draw", None, "W") not in found


def test_a_slice_has_its_samples() -> None:
    """From 1 s to 2 s there is the second of three."""
    found = metrics(QUERY, api.Slice((10**9, 2 * 10**9)))
    assert found[0, "utilization.gpu", None, "%"] == (1, 100, 100, 100)


def test_metrics_of_kernels_count_by_their_executions(tmp_path: Path) -> None:
    """Of one kernel 3 executions of 0.5 and 1 of 0.1: (3 x 0.5 + 0.1) / 4 = 0.4."""
    log = tmp_path / "metrics.csv"
    header = (
        '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
    )
    row = '"Tesla T4 (0)","k(int)",{},"ipc","Executed IPC",{},{},{}\n'
    log.write_text(
        "==1== NVPROF is profiling process 1, command: ./a\n"
        "==1== Profiling result:\n==1== Metric result:\n"
        + header + row.format(3, 0.25, 0.75, 0.5) + row.format(1, 0.1, 0.1, 0.1)
    )  # fmt: skip
    assert metrics(log) == {(0, "ipc", "k(int)", "number"): (4, pytest.approx(0.4), 0.1, 0.75)}


def test_each_row_has_its_own_numbers() -> None:
    """Of the second run alone, power: 120 and 90 W; of both, 0, 100 and 50 %."""
    found = metrics(FIXTURES / "nvidia_smi" / "odd-appended.csv")
    assert found[0, "power.draw", None, "W"] == (2, 105, 90, 120)
    assert found[0, "utilization.gpu", None, "%"] == (3, 50, 0, 100)


def test_the_order_is_by_device_and_name() -> None:
    with api.open(QUERY) as profile:
        rows = profile.report("metrics").rows()
    keys = [(row["device_id"], row["metric"]) for row in rows]
    assert keys == sorted(keys)
    assert len(keys) == 6 + 5


def test_samples_of_no_device_come_first_and_are_not_those_of_device_0() -> None:
    ((key, values),) = metrics(FIXTURES / "nvidia_smi" / "odd-no-gpu.csv").items()
    assert key == (None, "utilization.gpu", None, "%")
    assert values == (6, 35, 0, 100)


def test_metrics_of_another_profiler() -> None:
    """Of device 0, 0 and 75 %; see scripts/scenario_cpu_side.py."""
    found = metrics(NSYS / "cpu_side-3.28.1.sqlite")
    assert found[0, "SMs Active [Throughput %]", None, "%"] == (2, 37.5, 0, 75)


def test_no_metrics_are_not_recorded() -> None:
    with api.open(NSYS / "basic-3.25.0.sqlite") as profile, pytest.raises(NotRecorded):
        profile.report("metrics")


def test_keys_identify_rows() -> None:
    assert [column.name for column in COLUMNS if column.key] == [
        "profile", "rank", "device_id", "metric", "kernel", "kind", "unit"]  # fmt: skip
