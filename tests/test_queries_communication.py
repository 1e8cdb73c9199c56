"""comm_overlap: communication, computation and what is exposed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_versions import instants
from small_store import (
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Row,
    answers,
    hand_computed,
    picked,
)

from nsysconv.facts import Fact

NCCL = "ncclDevKernel_AllReduce_Sum_f32(void*)"
PARTS = ("exposed_communication_ns", "exposed_memcpy_ns", "exposed_memset_ns", "exposed_um_ns")


def only(*rows: Row, spec: str = "comm_overlap", **options: Any) -> dict[str, Any]:
    (row,) = answers(spec, *rows, **options)
    return row


EXAMPLE = (
    Kernel(100, 400, stream=1), Kernel(300, 600, stream=2, name=NCCL),
    Memcpy(550, 700, stream=3), Memset(680, 720, stream=3), Kernel(800, 1000, stream=1),
)  # fmt: skip


def test_the_example_of_the_documentation() -> None:
    row = only(*EXAMPLE)
    assert row == {
        "profile": row["profile"], "rank": None, "device_id": 0,
        "window_ns": 900, "busy_ns": 820,
        "computation_union_ns": 500, "communication_union_ns": 300,
        "overlap_ns": 100, "overlap_pct": pytest.approx(100 / 3),
        "exposed_communication_ns": 200,
        "memcpy_union_ns": 150, "exposed_memcpy_ns": 100,
        "exposed_memset_ns": 20, "exposed_um_ns": 0, "idle_ns": 80,
    }  # fmt: skip


def test_what_is_exposed_adds_up_with_computation_and_idle_to_the_window() -> None:
    row = only(*EXAMPLE, Migration(710, 790))
    assert picked(row, *PARTS) == (200, 100, 20, 70)
    parts = sum(row[name] for name in PARTS)
    assert row["computation_union_ns"] + parts + row["idle_ns"] == row["window_ns"] == 900


test_examples_by_hand = hand_computed(
    ("a graph recorded as one interval is computation",
     "comm_overlap computation_union_ns overlap_ns exposed_communication_ns",
     (Graph(0, 100), Kernel(50, 250, name=NCCL)), [(100, 50, 150)]),
    ("kernels that overlap count once", "comm_overlap communication_union_ns overlap_ns",
     (Kernel(0, 100, name=NCCL), Kernel(50, 150, stream=8, name=NCCL), Kernel(100, 120)), [(150, 20)]),
    ("overlap is zero without communication",
     "comm_overlap communication_union_ns overlap_ns overlap_pct", (Kernel(0, 10),), [(0, 0, 0.0)]),
    ("each device has its own row",
     "comm_overlap device_id window_ns overlap_ns exposed_communication_ns",
     (Kernel(0, 100), Kernel(20, 60, device=1), Kernel(50, 90, device=1, stream=8, name=NCCL)),
     [(0, 100, 0, 0), (1, 70, 10, 30)]),
    ("the rank is that of the only process", "comm_overlap rank", (Kernel(0, 100),), [5],
     {"ranks": {1: 5}}),
    # [350, 900): the kernel's [350, 400) and [800, 900), nccl's [350, 600), the copy from 600.
    ("a slice clips",
     "comm_overlap window_ns computation_union_ns overlap_ns exposed_communication_ns exposed_memcpy_ns "
     "exposed_memset_ns exposed_um_ns idle_ns",
     EXAMPLE, [(550, 150, 50, 200, 100, 20, 0, 80)], {"time": (350, 900)}),
    ("copies that were not recorded are not zero",
     "comm_overlap memcpy_union_ns exposed_memcpy_ns exposed_memset_ns", EXAMPLE,
     [(None, None, 40 - 20)], {"without": {Fact.MEMCPYS}}),
    ("kernels without a time have no window", "comm_overlap window_ns communication_union_ns idle_ns",
     (Kernel(None, None),), [(None, None, None)]),
)  # fmt: skip


def test_user_rules_decide_what_communicates(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[[rule]]\ncategory = 'communication'\npatterns = ['halo']\n")
    rows = (Kernel(0, 100, name="halo_exchange"), Kernel(60, 80, stream=8, name="stencil"))
    assert only(*rows)["communication_union_ns"] == 0
    assert picked(only(*rows, spec=f"comm_overlap:rules={mine}"), "communication_union_ns",
                  "overlap_ns") == (100, 20)  # fmt: skip


times = st.integers(1, 40)
spans = st.tuples(times, times).map(lambda pair: (min(pair), max(pair)))
kinds = st.sampled_from(("works", "talks", "graph", "memcpy", "memset", "um"))


def _op(kind: str, span: tuple[int, int]) -> Row:
    start, end = span
    return {
        "works": Kernel(start, end), "talks": Kernel(start, end, name=NCCL),
        "graph": Graph(start, end), "memcpy": Memcpy(start, end),
        "memset": Memset(start, end), "um": Migration(start, end),
    }[kind]  # fmt: skip


@given(st.lists(st.tuples(kinds, spans), min_size=1, max_size=12), spans)
def test_against_instants(ops: list[tuple[str, tuple[int, int]]], part: tuple[int, int]) -> None:
    part = (part[0], part[1] + 1)
    found = answers("comm_overlap", *(_op(*op) for op in ops), time=part)
    window = set(range(*part))

    def held(*wanted: str) -> set[int]:
        return instants(span for kind, span in ops if kind in wanted) & window

    works, talks, copies, sets = held("works", "graph"), held("talks"), held("memcpy"), held("memset")
    moves = held("um")
    (row,) = found
    assert picked(row, "window_ns", "computation_union_ns", "communication_union_ns", "overlap_ns",
                  "memcpy_union_ns", *PARTS) == (
        len(window), len(works), len(talks), len(works & talks), len(copies),
        len(talks - works), len(copies - works - talks), len(sets - works - talks - copies),
        len(moves - works - talks - copies - sets),
    )  # fmt: skip
    assert row["idle_ns"] == len(window - works - talks - copies - sets - moves)
