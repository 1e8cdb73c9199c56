"""The same operators as a trace of PyTorch's profiler and as ranges of `emit_nvtx`: the same tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, by_turns
from scenario_operators import EVENTS, WORKLOAD

import nsysconv

Row = dict[str, Any]

# Traces before 2.2 have whole microseconds, and no driver calls that launch.
TRACES = [FIXTURES / "kineto" / f"operators-{age}" for age in ("2.5.json.gz", "2.13.json")]
EXPORTS = [FIXTURES / "nsys" / f"operators-{age}.sqlite" for age in ("3.0.0", "3.28.1")]

# What a source cannot say, by column; everything else has to be equal.
APART = {
    "profile": "each file is a profile of its own name",
    "recorded_occupancy_pct": "nsys records no occupancy",
}
# NVIDIA's spelling of a kernel, as in exports -> that of c++filt, as in traces.
SPELLED = {each.function.demangled: each.function.itanium for each in EVENTS.kernels}
# Of `aten::cat` the tensors of the list: one input in a trace, as in PyTorch's tables; two in a range.
LIST_OF_TENSORS = {"[[16, 4], [16, 2], []]": "[[], []]"}
REPORTS = (
    "operators",
    "operators:by=shapes",
    "operators:top-level",
    "operators:annotations",
    "operator_kernels",
    "operator_kernels:by=kernel",
)


@cache
def rows_of(path: Path, spec: str) -> list[Row]:
    (report,) = nsysconv.report_on(path, spec, limit=0)
    return report.rows()


def comparable(row: Row) -> Row:
    """A row without what only one source can say, in the spelling of traces."""
    row = {column: value for column, value in row.items() if column not in APART}
    row["name"] = SPELLED.get(row["name"], row["name"])
    if "shapes" in row:
        row["shapes"] = LIST_OF_TENSORS.get(row["shapes"], row["shapes"])
    return row


@pytest.mark.parametrize(("path", "spec"), by_turns([*TRACES[1:], *EXPORTS], REPORTS, 6))
def test_all_traces_and_exports_say_the_same(path: Path, spec: str) -> None:
    of_first, found = rows_of(TRACES[0], spec), rows_of(path, spec)
    assert list(found[0]) == list(of_first[0])
    assert [comparable(row) for row in found] == [comparable(row) for row in of_first]


@pytest.mark.parametrize("path", [*TRACES, *EXPORTS], ids=lambda path: path.name)
def test_both_are_right(path: Path) -> None:
    """By hand from the times in scripts/scenario_operators.py."""
    columns = ("call_count", "host_sum_ns", "host_self_sum_ns", "api_sum_ns", "device_sum_ns",
               "device_self_sum_ns", "device_self_union_ns", "gpu_op_count", "kernel_count")  # fmt: skip
    found = {row["name"]: tuple(row[each] for each in columns) for row in rows_of(path, "operators")}
    assert found == {
        "aten::linear": (1, 10_002, 1_602, 0, 8_014, 0, 0, 0, 0),
        "aten::addmm": (1, 8_002, 6_502, 1_500, 8_014, 8_014, 8_014, 1, 1),
        "aten::t": (2, 504, 504, 0, 0, 0, 0, 0, 0),
        "aten::cat": (1, 2_502, 1_500, 1_002, 6_010, 6_010, 6_010, 1, 1),
        "triton_poi_fused_add_0": (1, 1_506, 1_000, 506, 1_020, 1_020, 1_020, 1, 1),
        # Once, though it lies in one of its name.
        "aten::to": (1, 6_006, 4_002, 2_004, 2_004, 2_004, 2_004, 1, 0),
        "autograd::engine::evaluate_function: AddmmBackward0": (
            1, 16_010, 1_016, 0, 13_608, 0, 0, 0, 0),
        "AddmmBackward0": (1, 14_994, 2_876, 0, 13_608, 0, 0, 0, 0),
        "aten::mm": (2, 12_012, 8_508, 3_504, 13_608, 13_608, 12_998, 3, 2),
        "torch::autograd::AccumulateGrad": (1, 1_008, 1_008, 0, 0, 0, 0, 0, 0),
        "[no operator]": (None, None, None, None, 1_314, 1_314, 1_314, 2, 2),
    }  # fmt: skip


def test_both_have_the_annotation_around() -> None:
    """59004 less 10002 + 2502 + 1506 + 6006 of operators and 8006 + 1004 of calls."""
    for path in (TRACES[0], EXPORTS[0]):
        rows = {row["name"]: row for row in rows_of(path, "operators:annotations")}
        around = rows[WORKLOAD.events.ranges[0].text]
        columns = ("host_sum_ns", "host_self_sum_ns", "api_sum_ns", "device_sum_ns", "gpu_op_count")
        assert [around[each] for each in columns] == [59_004, 29_978, 9_010, 17_844, 1]


def test_what_is_named_apart_is_said_by_one_source_alone() -> None:
    """Else it need not be named: and nothing of it is 0 where it is not recorded."""
    (of_trace, *_), (of_export, *_) = (
        rows_of(path, "operator_kernels") for path in (TRACES[0], EXPORTS[0])
    )
    assert of_trace["recorded_occupancy_pct"] == 13
    assert of_export["recorded_occupancy_pct"] is None
    shapes = [
        {row["shapes"] for row in rows_of(path, "operators:by=shapes") if row["name"] == "aten::cat"}
        for path in (EXPORTS[0], TRACES[0])
    ]
    assert shapes == [set(LIST_OF_TENSORS), set(LIST_OF_TENSORS.values())]
