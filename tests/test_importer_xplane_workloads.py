"""The made-up workloads as profiles of XLA: rows and core reports beside the exports of nsys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Row, event_rows
from scenarios import WORKLOADS
from workload_rows import newest_export
from write_xplane import plain_name, write_xplane

import nsysconv
from nsysconv import api
from nsysconv.store.location import reading

GPU = ("start_ns", "dur_ns", "pid", "stream_id", "context_id", "correlation_id")
SHAPE = (
    *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
    *("registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes", "graph_node_id"),
)
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "kernel": (*GPU, "name", *SHAPE),
    "memcpy": (*GPU, "bytes", "direction", "src_kind", "dst_kind", "peer_device_id"),
    "memset": (*GPU, "bytes", "memory_kind", "graph_node_id"),
    "api_call": ("start_ns", "dur_ns", "pid", "tid", "correlation_id", "layer", "name"),
    "range": ("start_ns", "dur_ns", "pid", "tid", "kind", "name"),
}
"""What both record of a row."""


def written(workload: str, folder: Path) -> list[Path]:
    """A file of each process, as XLA writes them."""
    paths = []
    for number, process in enumerate(WORKLOADS[workload].processes):
        paths.append(folder / f"host{number}.xplane.pb")
        write_xplane(WORKLOADS[workload], paths[-1], process)
    return paths


def found_rows(paths: list[Path], store: Path, table: str) -> Counter[tuple[Any, ...]]:
    result = api.import_files(paths, store)
    assert not result.errors, result.errors
    with reading(store) as content:
        rows = [row for profile in content.profiles() for row in event_rows(profile, table)]
    return Counter(
        tuple(plain_name(row[c]) if c == "name" else row[c] or None for c in COLUMNS[table])
        for row in rows
        if table != "range" or (row["kind"] == "push_pop" and row["dur_ns"])
    )


@pytest.mark.parametrize("table", COLUMNS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_rows_are_those_of_the_export_of_nsys(workload: str, table: str, tmp_path: Path) -> None:
    found = found_rows(written(workload, tmp_path), tmp_path / "a.db", table)
    assert found == found_rows([newest_export(workload)], tmp_path / "b.db", table)


def reported(path: Path, report: str) -> list[Row]:
    with nsysconv.open(path) as profile:
        return list(profile.report(report).rows())


def keyed(rows: list[Row], keys: tuple[str, ...], columns: tuple[str, ...]) -> dict[Any, Any]:
    return {tuple(row[k] for k in keys): [row[c] for c in columns] for row in rows}


REPORTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "kernels": (("device_id", "name"), ("kernel_count", "kernel_sum_ns")),
    "transfers": (
        ("device_id", "direction", "src_kind", "dst_kind"),
        ("memcpy_count", "memcpy_sum_ns", "bytes_sum"),
    ),
    "api_vs_kernel": (
        ("layer", "name"),
        ("api_sum_ns", "call_count", "gpu_op_count", "gpu_op_sum_ns", "queue_count"),
    ),
    "gpu_utilization": (
        ("device_id",),
        ("window_start_ns", "window_ns", "kernel_graph_union_ns", "est_achieved_occupancy_pct"),
    ),
    "idle_gaps": (
        ("device_id", "start_ns"),
        ("dur_ns", "cause", "launch_ns", "queue_ns", "unknown_ns", "next_op"),
    ),
    "summary": (
        ("device_id",),
        (
            *("window_start_ns", "window_ns", "busy_ns", "computation_union_ns", "api_sum_ns"),
            *("exposed_memcpy_ns", "idle_launch_ns", "idle_queue_ns", "kernel_count"),
            *("top_kernel", "top_call", "top_gap_start_ns"),
        ),
    ),
}
"""Keys, and figures that do not depend on what only nsys records: domains, and its own overhead."""


@pytest.mark.parametrize("report", REPORTS)
def test_core_reports_answer_as_with_nsys(report: str, tmp_path: Path) -> None:
    (path,) = written("basic", tmp_path)
    found = keyed(reported(path, report), *REPORTS[report])
    assert found
    assert found == keyed(reported(newest_export("basic"), report), *REPORTS[report])
