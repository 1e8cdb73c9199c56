"""Traces of known programs on a GPU: what is found in them, and what PyTorch says of the same runs."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import few, name_of
from test_findings_cases import RECORDED as LABELS

import nsysconv
from nsysconv.queries.findings.contract import is_minor
from nsysconv.timeline.utilization import achieved, resident_blocks, sms

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
TRACES = sorted(path for path in RECORDED.glob("*.json.gz") if ".table." not in path.name)
# PyTorch's names for the profiler's own work, which its table has as rows.
PROFILER = ("Activity Buffer Request", "Buffer Flush", "Lazy Function Loading",
            "Runtime Triggered Module Loading")  # fmt: skip

SMS = 132

Row = dict[str, Any]


@cache
def said(path: Path) -> dict[str, Any]:
    """What PyTorch says of the run."""
    name = path.name.replace(".json.gz", ".table.json.gz")
    found: dict[str, Any] = json.loads(gzip.decompress((RECORDED / name).read_bytes()))
    return found


def ns(us: float) -> int:
    return round(us * 1000)


# -- what is found


@pytest.mark.parametrize("label", few(LABELS, 2), ids=lambda label: str(label["path"]))
def test_findings_of_a_known_program(label: Row, tmp_path: Path) -> None:
    paths = [label["path"]] if isinstance(label["path"], str) else label["path"]
    nsysconv.import_files([RECORDED / path for path in paths], tmp_path / "a.db")
    (report,) = nsysconv.report_on(tmp_path / "a.db", "findings")
    rules = [row["rule"] for row in report.rows() if not is_minor(row)]
    assert set(label["expected"]) <= set(rules)
    assert not set(label["forbidden"]) & set(rules)
    assert "first" not in label or rules[0] in label["first"]


def test_every_trace_has_a_label_and_a_table() -> None:
    labeled = {path for label in LABELS
                for path in ([label["path"]] if isinstance(label["path"], str) else label["path"])}
    assert labeled == {path.name for path in TRACES}
    assert all(said(path)["by_name"] for path in TRACES)


# -- PyTorch's own table


@pytest.mark.parametrize("path", few(TRACES, 1), ids=name_of)
def test_operators_of_pytorchs_own_table(path: Path) -> None:
    """Calls, time on the host and time of what was launched are equal in all rows.

    PyTorch nests the profiler's own work in what the main thread was in at the time, and counts the
    kernel whose launch asked for it there once more; of ranges it counts others twice, too. What a
    range of NCCL launches it counts for the operator around it, and for the range on the GPU.
    """
    (report,) = nsysconv.report_on(path, "operators:annotations")
    found = {row["name"]: row for row in report.rows()}
    rows = [row for row in said(path)["by_name"] if row["device"] == "CPU"]
    profiler = [row for row in rows if row["name"] in PROFILER]
    more = ns(sum(row["self_device_us"] for row in profiler))
    of_nccl = {row["name"]: row["self_device_us"] for row in said(path)["by_name"]
               if row["device"] == "CUDA" and row["name"].startswith("nccl:")}  # fmt: skip
    operators = [row for row in rows if row["name"].startswith(("aten::", "autograd::"))
                 or (row["is_range"] and "CompiledFxGraph" not in row["name"])]  # fmt: skip
    assert operators or path.name == "cuda_graph.json.gz"
    for row in operators:
        mine = found[row["name"]]
        assert mine["call_count"] == row["count"]
        assert mine["host_sum_ns"] == ns(row["cpu_us"]), row["name"]
        launched = of_nccl.get(row["name"], row["self_device_us"])
        assert (mine["device_self_sum_ns"] or 0) == ns(launched), row["name"]
        if not row["is_range"]:
            assert 0 <= ns(row["device_us"]) - (mine["device_sum_ns"] or 0) <= more, row["name"]


@pytest.mark.parametrize("path", few(TRACES, 1), ids=name_of)
def test_kernels_of_pytorchs_own_table(path: Path) -> None:
    (report,) = nsysconv.report_on(path, "cuda_gpu_kern_sum")
    found = {row["name"]: (row["kernel_count"], row["kernel_sum_ns"]) for row in report.rows()}
    rows = [row for row in said(path)["by_name"]
            if row["device"] == "CUDA" and not row["is_range"]]
    kernels = {row["name"]: (row["count"], ns(row["self_device_us"])) for row in rows
               if not row["name"].startswith(("Memcpy", "Memset"))
               and row["name"] not in ("Context Sync", "Event Sync", "Stream Sync", "Stream Wait Event")}
    assert found == kernels


@pytest.mark.parametrize("name", [
    "training_all", "allocation_each_time", "nearly_full", "in_pieces", "graphs_kept"])
def test_peak_of_pytorchs_own_allocator(name: str) -> None:
    path = RECORDED / f"{name}.json.gz"
    (report,) = nsysconv.report_on(path, "memory")
    (row,) = (row for row in report.rows() if row["device_id"] == 0)
    assert row["peak_bytes"] == said(path)["peak_allocated_bytes"]
    assert row["peak_reserved_bytes"] == said(path)["peak_reserved_bytes"]


def test_floating_point_operations_of_pytorchs_own_table() -> None:
    path = RECORDED / "training_all.json.gz"
    (report,) = nsysconv.report_on(path, "operators")
    found = {row["name"]: row["flop_sum"] for row in report.rows()}
    expected = {row["name"]: row["flops"] for row in said(path)["by_name"] if row["flops"]}
    assert len(expected) == 3
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(("paths", "least"), few([(TRACES[::6], 1000), (TRACES, 7000)], 1))
def test_occupancy_that_pytorch_estimates(paths: list[Path], least: int) -> None:
    """In whole per cent; of kernels with more than 48 KiB of shared memory it writes 0."""
    sizes = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    names = (*sizes, "registers_per_thread", "shared_bytes", "occupancy_pct")
    compared = 0
    for path in paths:
        with nsysconv.open(path) as profile:
            column = profile.profile.columns("kernel", names)
        blocks, threads = (np.prod([column[n] for n in sizes[k : k + 3]], 0) for k in (0, 3))
        shared = column["shared_bytes"]
        sm = sms()["9.0"]
        resident = resident_blocks(sm, threads, column["registers_per_thread"], shared)
        ours = 100 * achieved(sm, threads, resident, blocks / SMS)
        theirs = column["occupancy_pct"]
        written = (theirs > 0) | (shared <= 48 * 1024)
        assert (np.abs(ours - theirs)[written] <= 1).all(), path.name
        compared += int(written.sum())
    assert compared > least
