"""All reports on slices of profiles of every source: the declared columns, or a reason in words."""

from __future__ import annotations

from itertools import product

import pytest
from conftest import FIXTURES, Shelf, few
from test_queries_contract import TYPES

from nsysconv import api
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.queries import REPORTS, query
from nsysconv.report import Report

EXAMPLES = (
    "nsys/ranges-3.28.1.sqlite",
    "nsys/two_processes_two_gpus-3.24.7.sqlite",
    "nsys/unified_memory-3.25.0.sqlite",
    "nsys/graphs-3.28.1.sqlite",
    "nsys/cpu_side-3.28.1.sqlite",
    "nsys/no_gpu-3.25.0.sqlite",
    "kineto/training-2.13.json",
    "kineto/recorded-training.json.gz",
    "nvprof_database/ranges-12.nvvp",
    "nvprof_database/unified_memory-9.nvprof",
    "nvprof_log/basic-both-traces.csv",
    "nvprof_log/odd-no-process.txt",
    "nvprof_log/basic-summary.txt",
    "nsys_stats/basic-2022-traces.txt",
    "nsys_stats/basic-2025.txt",
    "odd/clocks-disagree.sqlite",
    "odd/crossing-calls.sqlite",
    "odd/zero-times.sqlite",
)
SLICES = {
    "time": api.Slice((20_000, 100_000)),
    "long before": api.Slice((-20, -10)),
    "middle": api.Slice((api.Percent(25), api.Percent(75))),
    "open": api.Slice((api.Percent(40), None)),
    "range": api.Slice(range="*"),
    "projected": api.Slice(range="*#2", projected=True),
    "step": api.Slice(step="2", step_range="*"),
    "skipped": api.Slice(skip_first=1, step_range="*"),
    "device": api.Slice(devices=(0,)),
    "name": api.Slice(name="(?i)memcpy|gemm|add|step"),
}
# A profile may hold the same twice, of what these list one by one.
TRACES = ("idle_gaps", "nvtx_pushpop_trace")
# What a profile may not have, of what these slices ask for.
REFUSALS = ("no range", "no step", "too few steps", "no device", "no GPU operation was launched",
            "not on one clock", "the slice is empty")  # fmt: skip


def asked(profile: api.OpenProfile, name: str, part: api.Slice | None) -> Report | str:
    """The report, or why there is none."""
    try:
        return profile.report(name, slice=part)
    except NotRecorded as error:
        assert set(error.missing), "what is missing"
        return error.what
    except UsageError as error:
        assert part is not None
        assert error.what.startswith(REFUSALS) or "not on one clock" in error.what, error
        return error.what


@pytest.mark.parametrize(("example", "which"), few(product(EXAMPLES, SLICES), 3))
def test_reports_on_slices(example: str, which: str, shelf: Shelf) -> None:
    """All of them: none fails, keys stay keys, and no figure is less than nothing."""
    profile, part = shelf.opened(FIXTURES / example), SLICES[which]
    for name in REPORTS:
        report = asked(profile, name, part)
        if isinstance(report, str):
            continue
        columns = query(name).columns
        assert [(f.name, f.type) for f in report.table.schema] == [
            (column.name, TYPES[column.kind]) for column in columns]  # fmt: skip
        assert report.slice is not None
        rows = report.rows()
        keys = [column.name for column in columns if column.key]
        if keys:
            ids = [tuple(row[key] for key in keys) for row in rows]
            assert len(set(ids)) == len(ids) or name in TRACES, name
        # An imbalance is how far from the mean, to either side.
        counts = [c.name for c in columns if c.name.endswith(("_count", "_sum_ns", "_pct"))
                  and not c.name.endswith("_imbalance_pct")]  # fmt: skip
        assert [row for row in rows for c in counts if row[c] is not None and row[c] < 0] == [], (
            name
        )
