"""Ranges that cross each other, as those of two domains of one thread may: each moment is one range's."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import REAL, examples, real
from hypothesis import given
from hypothesis import strategies as st
from slow_versions import innermost, instants
from small_store import Call, Kernel, Operator, Range, answers

import nsysconv

# docs/definitions/ranges-and-operators.md, Nesting of ranges: of two domains, whose ranges end
# independently of each other. A kernel of 1 ns is launched in each, and one where outer is over and
# lib:io is not.
CROSSING = (
    Range(0, 100, "outer"), Range(50, 250, "io", domain=1), Range(150, 200, "next"),
    Call(10, 11, 1), Call(60, 61, 2), Call(160, 161, 3), Call(120, 121, 4),
    *(Kernel(300 + i, 301 + i, i) for i in range(1, 5)),
)  # fmt: skip
DOMAINS = {(1, 1): "lib"}


def columns(rows: list[dict[str, Any]], *names: str) -> dict[str, list[Any]]:
    return {row["path"]: [row[name] for name in names] for row in rows}


def test_the_example_of_the_definitions() -> None:
    rows = answers("ranges", *CROSSING, domains=DOMAINS)
    assert columns(rows, "range_sum_ns", "self_sum_ns", "kernel_sum_ns", "self_kernel_sum_ns") == {
        "outer": [100, 50, 2, 1],
        "outer/lib:io": [200, 150, 3, 2],
        "outer/lib:io/next": [50, 50, 1, 1],
    }


def test_what_reaches_beyond_a_child_is_not_its_parents_own() -> None:
    # b [10, 20) and, in it, c [15, 50): outer [0, 100) is alone in [0, 10) and [50, 100).
    rows = (Range(0, 100, "outer"), Range(10, 20, "b", domain=1), Range(15, 50, "c", domain=2),
            Call(30, 31, 1), Kernel(200, 207, 1), Call(60, 61, 2), Kernel(210, 215, 2))  # fmt: skip
    found = {row["tree"].strip(): row for row in answers("ranges", *rows)}
    assert {name: row["self_sum_ns"] for name, row in found.items()} == {"outer": 60, "b": 5, "c": 35}
    assert {name: row["self_kernel_sum_ns"] for name, row in found.items()} == {
        "outer": 5, "b": 0, "c": 7}  # fmt: skip


@real
def test_ranges_of_a_library_that_cross_those_of_the_program() -> None:
    (report,) = nsysconv.report_on(REAL / "bug_reports" / "b35.sqlite", "ranges")
    assert columns(report.rows(), "self_sum_ns", "self_kernel_sum_ns") == {
        "A": [500_000, 50_000],
        "A/libd:B": [2_000_000, 100_000],
        "A/libd:B/C": [500_000, 100_000],
    }


moment = st.integers(1, 30)
drawn_ranges = st.lists(st.tuples(moment, moment, st.integers(0, 2), st.integers(1, 2)), max_size=8)


@pytest.mark.parametrize("spec", ["ranges", "ranges:any-thread"])
@given(drawn=drawn_ranges, launches=st.lists(st.tuples(moment, st.integers(1, 2)), max_size=8))
@examples(100)
def test_self_times_are_those_of_each_moment(spec: str, drawn: Any, launches: Any) -> None:
    ranges = [
        Range(min(a, b), max(a, b), f"r{i}", domain=domain, tid=tid)
        for i, (a, b, domain, tid) in enumerate(drawn)
    ]
    # Kernels of 1, 2, 4, … ns: a sum says which they were.
    events = [each for i, (start, tid) in enumerate(launches)
              for each in (Call(start, start + 1, i + 1, tid=tid),
                           Kernel(1000 * i + 50, 1000 * i + 50 + (1 << i), i + 1))]  # fmt: skip
    rows = answers(spec, *ranges, *events)
    found = {int(row["tree"].split("r")[-1]): row for row in rows}
    assert found.keys() == set(range(len(ranges)))
    for thread in (1, 2):
        mine = [i for i, each in enumerate(ranges) if each.tid == thread]
        owner = innermost([(ranges[i].start, ranges[i].end or 0, i) for i in mine])
        for i in mine:
            assert found[i]["self_sum_ns"] == sum(each == i for each in owner.values())
            assert found[i]["self_kernel_sum_ns"] == sum(
                1 << place for place, (start, tid) in enumerate(launches)
                if owner.get(start) == i and (tid == thread or spec != "ranges")
            )  # fmt: skip
        spent = sum(found[i]["self_sum_ns"] for i in mine)
        assert spent == len(instants([(ranges[i].start, ranges[i].end or 0) for i in mine]))


@given(drawn=drawn_ranges, launches=st.lists(st.tuples(moment, st.integers(1, 3)), max_size=8))
@examples(100)
def test_launches_of_other_threads_are_those_of_the_definition(drawn: Any, launches: Any) -> None:
    ranges = [Range(min(a, b), max(a, b), f"r{i}", domain=domain, tid=tid)
              for i, (a, b, domain, tid) in enumerate(drawn)]  # fmt: skip
    events = [each for i, (start, tid) in enumerate(launches)
              for each in (Call(start, start + 1, i + 1, tid=tid),
                           Kernel(1000 * i + 50, 1000 * i + 50 + (1 << i), i + 1))]  # fmt: skip
    open_at = [{each.tid for each in ranges if each.start <= start < (each.end or 0)}
               for start, _ in launches]  # fmt: skip
    outside = any(inside and tid not in inside
                  for (_, tid), inside in zip(launches, open_at, strict=True))  # fmt: skip
    expected = {i: [1 << place for place, (start, tid) in enumerate(launches)
                    if tid != each.tid and each.start <= start < (each.end or 0)]
                for i, each in enumerate(ranges)}  # fmt: skip
    found = {int(row["tree"].split("r")[-1]): [row[f"other_thread_{name}"] for name in
                                               ("launch_count", "kernel_sum_ns")]
             for row in answers("ranges", *ranges, *events)}  # fmt: skip
    assert found == {i: [len(mine), sum(mine)] if outside else [None, None]
                     for i, mine in expected.items()}  # fmt: skip


def test_time_in_two_children_is_taken_off_once() -> None:
    # a [10, 70) and b [30, 90), which crosses it, lie in outer [0, 100), of which 20 are left.
    ranges = [Range(0, 100, "outer"), Range(10, 70, "a"), Range(30, 90, "b", domain=1)]
    found = {row["name"]: row for row in answers("nvtx_pushpop_trace", *ranges)}
    assert (found[":outer"]["child_sum_ns"], found[":outer"]["self_ns"]) == (120, 20)
    operators = [Operator(r.start, r.end, f"aten::{r.text}") for r in ranges]
    named = {row["name"]: row["host_self_sum_ns"] for row in answers("operators", *operators)}
    assert named == {"aten::outer": 20, "aten::a": 60, "aten::b": 60}
    modules = [
        Operator(r.start, r.end, f"nn.Module: {r.text}", kind="python_function") for r in ranges
    ]
    by_path = {row["path"]: row["host_self_sum_ns"] for row in answers("modules", *modules)}
    assert by_path == {"outer": 20, "outer/a": 60, "outer/b": 60}
