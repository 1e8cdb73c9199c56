"""`kernels:by=step` and `kernels:by=range`: what takes most in each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Range, Row, Total, answers

from nsysconv.errors import NotRecorded

# The second kernel of step 1 runs in step 2; what was launched after the steps is in none.
ROWS: tuple[Row, ...] = (
    Range(0, 100, "ProfilerStep#1"),
    Range(100, 200, "ProfilerStep#2"),
    Range(10, 60, "forward"),
    Call(20, 25, 1), Kernel(30, 70, 1, name="gemm"),
    Call(70, 75, 2), Kernel(110, 120, 2, name="relu"),
    Call(130, 135, 3), Kernel(140, 150, 3, name="gemm"),
    Call(136, 139, 4), Kernel(150, 180, 4, name="relu"),
    Call(210, 215, 5), Kernel(220, 230, 5, name="gemm"),
)  # fmt: skip


def rows(spec: str, *given_rows: Row, **options: Any) -> list[dict[str, Any]]:
    return answers(spec, *(given_rows or ROWS), **options)


def test_kernels_of_each_step() -> None:
    shown = [(r["step"], r["name"], r["kernel_count"], r["kernel_sum_ns"], r["kernel_pct"])
             for r in rows("kernels:by=step")]  # fmt: skip
    assert shown == [
        ("ProfilerStep#1", "gemm", 1, 40, 80.0),
        ("ProfilerStep#1", "relu", 1, 10, 20.0),
        ("ProfilerStep#2", "relu", 1, 30, 75.0),
        ("ProfilerStep#2", "gemm", 1, 10, 25.0),
    ]
    assert [r["name"] for r in rows("kernels:by=step:top=1")] == ["gemm", "relu"]
    assert [r["name"] for r in rows("kernels", by="step", step=2)] == ["relu", "gemm"]


def test_kernels_of_each_range() -> None:
    shown = [(r["range"], r["name"], r["kernel_sum_ns"]) for r in rows("kernels:by=range")]
    assert shown == [
        ("ProfilerStep*", "relu", 40),
        ("ProfilerStep*", "gemm", 10),
        ("forward", "gemm", 40),
        ("[no range]", "gemm", 10),
    ]


def test_what_is_not_known() -> None:
    with pytest.raises(NotRecorded, match="steps"):
        rows("kernels:by=step", Kernel(0, 10))
    with pytest.raises(NotRecorded):
        rows("kernels:by=step", Total("kernel", 1, 10, name="k"))


LAUNCHES = st.tuples(st.integers(0, 39), st.integers(0, 9), st.sampled_from("abc"))


@given(st.lists(LAUNCHES, min_size=1, max_size=9))
def test_steps_add_up_to_the_kernels_in_steps(launched: list[tuple[int, int, str]]) -> None:
    """As adding up one by one: a kernel is of the step in which its call starts."""
    steps = [Range(10 * i, 10 * i + 10, f"ProfilerStep#{i}") for i in range(3)]
    kernels: list[Row] = []
    expected: dict[tuple[str, str], int] = {}
    for number, (moment, dur, name) in enumerate(launched, 1):
        kernel = Kernel(100, 100 + dur, number, name=name, stream=number)
        kernels += [Call(moment, moment + 1, number), kernel]
        if moment < 30:
            key = (f"ProfilerStep#{moment // 10}", name)
            expected[key] = expected.get(key, 0) + dur
    found = rows("kernels:by=step", *steps, *kernels)
    assert {(r["step"], r["name"]): r["kernel_sum_ns"] for r in found} == expected
