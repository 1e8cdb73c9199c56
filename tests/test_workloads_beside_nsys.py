"""The made-up workloads as AMD's and XLA's profilers write them: rows and reports as of nsys' exports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, Row, Shelf, event_rows, few
from fixtures_rocpd import DATABASES
from scenarios import WORKLOADS
from workload_rows import newest_export
from write_rocpd import FILL, hip_name
from write_xplane import plain_name, write_xplane

import nsysconv
from nsysconv import api
from nsysconv.store.location import reading

_TIMES = ("start_ns", "dur_ns", "pid")
_SHAPE = (*(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
          "registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes")  # fmt: skip
_GPU = (*_TIMES, "stream_id", "correlation_id")
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Source:
    """What a source records of a row, by table; `own` and `theirs` give a row of it and of nsys as both
    would have it, None for one that the other has not.
    """

    files: Callable[[str, Path], list[Path]]
    columns: Mapping[str, tuple[str, ...]]
    own: Callable[[str, Row], Row | None]
    theirs: Callable[[str, Row], Row | None]


def _xplane_files(workload: str, folder: Path) -> list[Path]:
    """A file of each process."""
    paths = []
    for number, process in enumerate(WORKLOADS[workload].processes):
        paths.append(folder / f"host{number}.xplane.pb")
        write_xplane(WORKLOADS[workload], paths[-1], process)
    return paths


def _xplane_row(table: str, row: Row) -> Row | None:
    if table == "range" and (row["kind"] != "push_pop" or not row["dur_ns"]):
        return None
    return {**row, "name": plain_name(row["name"])} if "name" in row else row


def _rocpd_row(table: str, row: Row) -> Row | None:
    """Of AMD's: memory is set by kernels."""
    return None if table == "kernel" and row["name"] == FILL else row


def _rocpd_row_of_nsys(table: str, row: Row) -> Row | None:
    """CUDA's driver has calls of its own, HIP one API for both; no range stays open."""
    if table == "range" and not row["dur_ns"] and row["kind"] != "mark":
        return None
    return {**row, "name": hip_name(row["name"])} if table == "api_call" else row


ROCPD = Source(
    lambda name, folder: [FIXTURES / "rocpd" / name],
    {
        "kernel": (*_GPU, "name", "mangled_name", *_SHAPE),
        "memcpy": (*_GPU, "bytes", "direction"),
        "api_call": (*_TIMES, "tid", "correlation_id", "name"),
        "range": (*_TIMES, "tid", "kind", "name"),
    },
    _rocpd_row, _rocpd_row_of_nsys,
)  # fmt: skip
XPLANE = Source(
    _xplane_files,
    {
        "kernel": (*_GPU, "context_id", "name", *_SHAPE, "graph_node_id"),
        "memcpy": (*_GPU, "context_id", "bytes", "direction", "src_kind", "dst_kind", "peer_device_id"),
        "memset": (*_GPU, "context_id", "bytes", "memory_kind", "graph_node_id"),
        "api_call": (*_TIMES, "tid", "correlation_id", "layer", "name"),
        "range": (*_TIMES, "tid", "kind", "name"),
    },
    _xplane_row, _xplane_row,
)  # fmt: skip
CASES = [*((ROCPD, name, workload) for name, (workload, _) in DATABASES.items()),
         *((XPLANE, workload, workload) for workload in WORKLOADS)]  # fmt: skip


def all_rows(store: Path, table: str) -> list[Row]:
    with reading(store) as content:
        return [row for profile in content.profiles() for row in event_rows(profile, table)]


def rows_of(store: Path, source: Source, table: str, as_both: Callable[[str, Row], Row | None]) -> Rows:
    both = filter(None, (as_both(table, row) for row in all_rows(store, table)))
    return Counter(tuple(row[name] or None for name in source.columns[table]) for row in both)


@pytest.mark.parametrize(("source", "name", "workload"), few(CASES, 4))
def test_rows_are_those_of_the_export_of_nsys(
    source: Source, name: str, workload: str, shelf: Shelf, tmp_path: Path
) -> None:
    assert not api.import_files(source.files(name, tmp_path), tmp_path / "a.db").errors
    theirs = shelf.store(newest_export(workload))
    for table in source.columns:
        wanted = rows_of(theirs, source, table, source.theirs)
        assert rows_of(tmp_path / "a.db", source, table, source.own) == wanted, table
    if source is ROCPD:
        fills = [row for row in all_rows(tmp_path / "a.db", "kernel") if row["name"] == FILL]
        assert len(fills) == len(all_rows(theirs, "memset"))


@pytest.mark.parametrize("name", few(["basic-3.db", "two_processes_two_gpus-3.db", "basic-4.1.0.db"], 2))
def test_core_reports_of_rocpd_answer_as_with_nsys(name: str, shelf: Shelf, tmp_path: Path) -> None:
    """In all that both record: kernels and copies, by name and direction, and their idle time."""
    workload, _ = DATABASES[name]
    api.import_files(FIXTURES / "rocpd" / name, tmp_path / "a.db")

    def sums(store: Path, report: str, key: str, *columns: str) -> dict[tuple[str, str], int]:
        (found,) = nsysconv.report_on(store, [report])
        added: Counter[tuple[str, str]] = Counter()
        for row in found.rows():
            # Here memory is set by kernels, there it is not; copies have no kinds of host memory here.
            if row[key] not in (FILL, "memset"):
                added += Counter({(row[key], column): row[column] or 0 for column in columns})
        return dict(added)

    for report, *columns in (
        ("kernels", "name", "kernel_count", "kernel_sum_ns"),
        ("transfers", "direction", "memcpy_count", "memcpy_sum_ns", "bytes_sum"),
    ):
        theirs = sums(shelf.store(newest_export(workload)), report, *columns)
        assert sums(tmp_path / "a.db", report, *columns) == theirs, report


REPORTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "kernels": (("device_id", "name"), ("kernel_count", "kernel_sum_ns")),
    "transfers": (("device_id", "direction", "src_kind", "dst_kind"),
                  ("memcpy_count", "memcpy_sum_ns", "bytes_sum")),
    "api_vs_kernel": (("layer", "name"),
                      ("api_sum_ns", "call_count", "gpu_op_count", "gpu_op_sum_ns", "queue_count")),
    "gpu_utilization": (("device_id",), ("window_start_ns", "window_ns", "kernel_graph_union_ns",
                                         "est_achieved_occupancy_pct")),
    "idle_gaps": (("device_id", "start_ns"),
                  ("dur_ns", "cause", "launch_ns", "queue_ns", "unknown_ns", "next_op")),
    "summary": (("device_id",), (
        "window_start_ns", "window_ns", "busy_ns", "computation_union_ns", "api_sum_ns",
        "exposed_memcpy_ns", "idle_launch_ns", "idle_queue_ns", "kernel_count", "top_kernel",
        "top_call", "top_gap_start_ns")),
}  # fmt: skip
"""Keys, and figures that do not depend on what only nsys records: domains, and its own overhead."""


def test_core_reports_of_xla_answer_as_with_nsys(shelf: Shelf, tmp_path: Path) -> None:
    (path,) = _xplane_files("basic", tmp_path)
    with nsysconv.open(path) as ours, nsysconv.open(shelf.store(newest_export("basic"))) as theirs:
        for report, (keys, columns) in REPORTS.items():
            found, wanted = (
                {tuple(row[k] for k in keys): [row[c] for c in columns]
                 for row in profile.report(report).rows()} for profile in (ours, theirs)
            )  # fmt: skip
            assert found == wanted != {}, report
