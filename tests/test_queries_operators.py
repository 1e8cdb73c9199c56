"""Operators: by hand, as PyTorch and others have them of recorded traces, and by a slow version."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, REAL_TRACES, few, name_of, real
from hypothesis import given
from hypothesis import strategies as st
from small_store import (
    Call,
    Kernel,
    Memcpy,
    Metric,
    Operator,
    Range,
    answers,
    asked,
    by_hand,
    cells,
    hand_computed,
    opened,
    picked,
)
from test_queries_operator_rates import TRACES

import nsysconv
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries.operators import NO_OPERATOR
from nsysconv.timeline.kernel_categories import tensor_cores_by_name
from nsysconv.timeline.operator_calls import without_lists_of_tensors
from nsysconv.timeline.range_names import group_name
from nsysconv.timeline.slices import Slice

GOLD = REAL / "pytorch_gold"
V100 = REAL / "kineto" / "IBM+kineto-spyre__worker0.1623212756351.pt.trace.json.gz"
NSYS_AI = REAL / "nsys_sqlite"

Row = dict[str, Any]


# -- by hand

FORWARD, BACKWARD = 1, 2
EXAMPLE = (
    Range(0, 1000, "ProfilerStep#1", tid=FORWARD),
    Operator(100, 400, "aten::linear", tid=FORWARD, sequence=7),
    Operator(150, 350, "aten::addmm", tid=FORWARD, shapes="[[8], [4, 16], [16, 8]]", sequence=8),
    Call(200, 240, 11, name="cudaLaunchKernel", tid=FORWARD),
    Operator(420, 520, "aten::to", tid=FORWARD),
    Operator(430, 510, "aten::to", tid=FORWARD),
    Call(450, 500, 12, name="cudaMemcpyAsync", tid=FORWARD),
    Call(900, 980, name="cudaDeviceSynchronize", tid=FORWARD),
    Operator(550, 800, "autograd::engine::evaluate_function: AddmmBackward0", tid=BACKWARD,
             sequence=8, forward_thread=1),
    Operator(560, 780, "AddmmBackward0", tid=BACKWARD, sequence=8, forward_thread=1),
    Operator(600, 700, "aten::mm", tid=BACKWARD, shapes="[[16, 4], [4, 8]]"),
    Call(640, 660, 13, name="cudaLaunchKernel", tid=BACKWARD),
    Operator(710, 770, "aten::mm", tid=BACKWARD, shapes="[[4, 16], [16, 8]]"),
    Call(720, 730, 14, name="cudaLaunchKernel", tid=BACKWARD),
    Kernel(300, 500, 11, name="fp16_gemm"),
    Memcpy(500, 560, 12, direction="DtoH"),
    Kernel(700, 800, 13, name="fp16_gemm"),
    Kernel(750, 870, 14, stream=20, name="sgemm"),
)
COLUMNS = ("call_count", "host_sum_ns", "host_self_sum_ns", "api_sum_ns", "device_sum_ns",
           "device_self_sum_ns")  # fmt: skip
EXPECTED = {
    "ProfilerStep*": (1, 1000, 520, 80, 260, 0),
    "aten::linear": (1, 300, 100, 0, 200, 0),
    "aten::addmm": (1, 200, 160, 40, 200, 200),
    "aten::to": (1, 100, 50, 50, 60, 60),
    "autograd::engine::evaluate_function: AddmmBackward0": (1, 250, 30, 0, 220, 0),
    "AddmmBackward0": (1, 220, 60, 0, 220, 0),
    "aten::mm": (2, 160, 130, 30, 220, 220),
}


def check_example(rows: list[Row]) -> None:
    assert {row["name"]: picked(row, *COLUMNS) for row in rows} == EXPECTED
    by_name = {row["name"]: row for row in rows}
    mm = by_name["aten::mm"]
    # Of 1250 in total: 1000 on one thread, 250 on the other. Of 480 on the GPU 220.
    assert mm["host_self_pct"] == pytest.approx(10.4)
    assert mm["device_self_pct"] == pytest.approx(100 * 220 / 480)
    # [700, 800) and [750, 870) together, and each by itself.
    assert picked(mm, "device_self_union_ns", "device_self_union_sum_ns") == (170, 220)
    assert picked(mm, "gpu_op_count", "kernel_count") == (2, 2)
    assert picked(by_name["aten::to"], "gpu_op_count", "kernel_count") == (1, 0)
    # The arrow goes from the innermost forward operator with a number to the innermost of its backward.
    backward = {name: picked(row, "backward_host_sum_ns", "backward_device_sum_ns")
                for name, row in by_name.items()}  # fmt: skip
    assert backward.pop("aten::addmm") == (220, 220)
    assert set(backward.values()) == {(None, None)}
    assert [row["name"] for row in rows][:3] == ["aten::mm", "aten::addmm", "aten::to"]


def test_the_tables_of_pytorch_by_hand() -> None:
    check_example(answers("operators:annotations", *EXAMPLE))


def test_without_other_ranges_the_rest_is_the_same() -> None:
    rows = answers("operators", *EXAMPLE)
    expected = {name: row for name, row in EXPECTED.items() if name != "ProfilerStep*"}
    assert {row["name"]: picked(row, *COLUMNS) for row in rows} == expected


def test_operators_of_ranges_are_operators() -> None:
    """The same as nsys has it of `emit_nvtx`: each call is a range with a name of its own."""
    as_ranges = [
        Range(row.start, row.end, row.name + (f", seq = {row.sequence}" if row.sequence else "")
              + f", op_id = {number}" + (f", sizes = {row.shapes}" if row.shapes else ""), tid=row.tid)
        if isinstance(row, Operator) else row
        for number, row in enumerate(EXAMPLE)
    ]  # fmt: skip
    check_example(answers("operators:annotations", *as_ranges))


def test_by_shapes() -> None:
    rows = answers("operators:by=shapes", *EXAMPLE)
    found = {(row["name"], row["shapes"]): row["host_self_sum_ns"] for row in rows}
    assert found["aten::mm", "[[16, 4], [4, 8]]"] == 80
    assert found["aten::mm", "[[4, 16], [16, 8]]"] == 50
    assert found["aten::linear", None] == 100


def test_floating_point_operations() -> None:
    """addmm: 2·4·16·8 in 200 ns; mm: 2·16·4·8 and 2·4·16·8, in 100 ns and 120 ns on two streams."""
    rows = {row["name"]: picked(row, "flop_sum", "flop_per_s") for row in answers("operators", *EXAMPLE)}
    assert rows["aten::addmm"] == rows["aten::linear"] == (1024, pytest.approx(5.12e9))
    assert rows["aten::mm"] == rows["AddmmBackward0"] == (2048, pytest.approx(2048e9 / 220))
    assert rows["aten::to"] == (None, None)


def test_work_that_a_slice_has_of_operators_outside_is_said() -> None:
    events = (Operator(0, 10, "aten::mm"), Call(2, 4, 1), Kernel(50, 60, 1), Kernel(70, 75))
    with opened(*events) as profile:
        assert "operators-outside" not in {note.slug for note in profile.report("operators").notes}
        report = profile.report("operators", slice=Slice(time=(40, 80)))
    counts = {note.slug: (note.count, note.of) for note in report.notes}
    assert counts["operators-outside"] == (1, 2)
    assert [row["name"] for row in report.rows()] == [NO_OPERATOR]


STACKS = (
    Operator(0, 10, "aten::mm", stack="a.py(1): f;a.py(2): g;a.py(3): h;"),
    Operator(20, 40, "aten::mm", stack="a.py(1): f;a.py(2): g;a.py(9): other;"),
    Operator(50, 90, "aten::mm"),
)
ENGINE = "run;torch/autograd/__init__.py(255): backward;a.py(7): step;"
PAIR = "[[2, 3], [3, 4]]"
# f [0, 100) calls mm [10, 40) and g [50, 90), which calls add [60, 70).
FUNCTIONS = (
    Operator(0, 100, "a.py(1): f", kind="python_function"), Operator(10, 40, "aten::mm"),
    Operator(50, 90, "a.py(2): g", kind="python_function"), Operator(60, 70, "aten::add"),
)  # fmt: skip
OVERLOADS = (Operator(0, 10, "aten::div_.Scalar"), Operator(20, 50, "aten::div_.Tensor"),
             Operator(60, 61, "aten::div_"))  # fmt: skip
EVALUATE = "autograd::engine::evaluate_function: AddmmBackward0"
# Stored in the other order.
EQUAL = (Operator(10, 15, "b"), Call(12, 13, 1), Operator(0, 5, "a"), Call(2, 3, 2),
         Kernel(20, 30, 1, name="z"), Kernel(30, 40, 2, name="y"))  # fmt: skip
IN_OPERATOR = (Operator(0, 10, "aten::relu"), Call(2, 4, 1))
# The driver's call, which launches, lies in the runtime's.
OF_TWO_LAYERS = (Call(10, 30, name="cudaLaunchKernel"), Call(12, 28, 7, name="cuLaunchKernel"),
                 Kernel(40, 90, 7))  # fmt: skip
# The host function that a call runs: of 100 the call takes 50 itself.
CALLED = (Call(100, 200, name="cudaLaunchHostFunc"), Operator(110, 160, "aten::mm"), Call(120, 140, 7),
          Kernel(300, 309, 7))  # fmt: skip
ALL = " ".join(COLUMNS)
DEVICE = "gpu_op_count device_self_sum_ns device_self_union_ns device_self_union_sum_ns"


@by_hand(
    ("by shapes of ranges", "operators:by=shapes name shapes call_count", (
        Range(0, 10, "aten::mm, op_id = 1, sizes = [[2, 3], [3, 4]]"),
        Range(20, 40, "aten::mm, seq = 4, op_id = 2, sizes = [[2, 3], [3, 4]], input_op_ids = [(1,0)]"),
        Range(50, 60, "aten::cat, op_id = 3, sizes = [[], []]")),
     [("aten::mm", PAIR, 2), ("aten::cat", "[[], []]", 1)]),
    # What calls another that does the work does none itself; without a GPU there is no rate.
    ("floating-point operations are those of the innermost", "operators name flop_sum flop_per_s",
     (Operator(0, 10, "aten::mm", shapes=PAIR), Operator(2, 8, "aten::bmm", shapes=f"[{PAIR[1:-1]}]"),
      Operator(20, 30, "aten::mm", shapes=PAIR), Operator(40, 50, "aten::mm")),
     [("aten::mm", 96, None), ("aten::bmm", 48, None)]),
    # 5·10^15 each: a thousand of them are 5·10^18, two thousand more than 2^62.
    *((f"a sum of {count} large ones", "operators flop_sum",
       [Operator(10 * i, 10 * i + 5, "aten::mm", shapes="[[5000000, 5000000], [5000000, 100]]")
        for i in range(count)], [expected]) for count, expected in ((3, 15 * 10**15), (2000, None))),
    ("without API calls their time is not zero", "operators host_self_sum_ns api_sum_ns",
     (Operator(0, 10, "aten::mm"),), [(10, None)], {"without": [Fact.API_CALLS, Fact.API_LINKS]}),
    ("of forward calls that begin together the first to end is linked",
     "operators name backward_host_sum_ns",
     (Operator(0, 30, "aten::linear", sequence=5), Operator(0, 8, "aten::t", sequence=5),
      Operator(50, 90, "TBackward0", tid=12, sequence=5, forward_thread=1)),
     [("TBackward0", None), ("aten::linear", None), ("aten::t", 40)]),
    ("by stack", "operators:by=stack stack host_sum_ns", STACKS,
     [(None, 40), ("a.py(1): f < a.py(2): g < a.py(9): other", 20),
      ("a.py(1): f < a.py(2): g < a.py(3): h", 10)]),
    ("by the outer of a stack", "operators:by=stack:stack=2 stack host_sum_ns", STACKS,
     [(None, 40), ("a.py(1): f < a.py(2): g", 30)]),
    # Also of what lies in it; the engine around it has its own, without PyTorch's `backward`.
    ("stacks of the backward are those of the first forward with the number",
     "operators:by=stack name stack",
     (Operator(0, 10, "aten::view", sequence=3, stack="a.py(1): first;"),
      Operator(20, 40, "aten::mm", sequence=3, stack="a.py(2): second;"),
      Operator(50, 90, "autograd::engine::evaluate_function: MmBackward0", tid=12, sequence=3,
               forward_thread=1, stack=ENGINE.replace("run", "a.py(6): run")),
      Operator(55, 85, "MmBackward0", tid=12, sequence=3, forward_thread=1, stack="a.py(8): no;"),
      Operator(60, 70, "aten::mul", tid=12, stack="a.py(8): no;"),
      Operator(100, 110, "torch::autograd::AccumulateGrad", tid=12, stack="a.py(8): no;")),
     [("MmBackward0", "a.py(1): first"), ("aten::mm", "a.py(2): second"),
      ("aten::mul", "a.py(1): first"), ("aten::view", "a.py(1): first"),
      ("autograd::engine::evaluate_function: MmBackward0", "a.py(6): run < a.py(7): step"),
      ("torch::autograd::AccumulateGrad", None)]),
    ("Python functions as rows and as stacks", "operators:functions:by=stack name stack host_self_sum_ns",
     FUNCTIONS, [("a.py(1): f", None, 30), ("a.py(2): g", "a.py(1): f", 30),
                 ("aten::add", "a.py(2): g < a.py(1): f", 10), ("aten::mm", "a.py(1): f", 30)]),
    ("a function that begins and ends with its operator is around it, in whatever order they are stored",
     "operators:functions:by=stack name stack",
     (Operator(0, 9, "aten::mm"), Operator(0, 9, "a.py(1): f", kind="python_function")),
     [("a.py(1): f", None), ("aten::mm", "a.py(1): f")]),
    ("Python functions are no rows of their own accord", "operators name", FUNCTIONS,
     ["aten::add", "aten::mm"]),
    ("overloads are one row", "operators name host_sum_ns", OVERLOADS, [("aten::div_", 41)]),
    ("by overload", "operators:by=overload name host_sum_ns", OVERLOADS,
     [("aten::div_", 1), ("aten::div_.Scalar", 10), ("aten::div_.Tensor", 30)]),
    ("objects are grouped with overloads too", "operators:by=overload:functions name call_count",
     (*(Operator(at, at + 5, f"<built-in method f of T object at 0x7fc5655{at:02x}>", "python_function")
        for at in (16, 32)), Operator(50, 60, "aten::div_.Scalar")),
     [("<built-in method f of T object at 0x…>", 2), ("aten::div_.Scalar", 1)]),
    # rec holds rec twice: a total of 100 + 40 + 30, and two calls that are in it twice.
    ("recursion counts each call and says so",
     "operators call_count nested_count host_sum_ns host_self_sum_ns",
     (Operator(0, 100, "rec"), Operator(10, 50, "rec"), Operator(60, 90, "rec")), [(3, 2, 170, 100)]),
    # Also one that ends with the one around it; not one that begins as another ends.
    ("recursion at the end", "operators name nested_count",
     (Operator(0, 90, "f"), Operator(10, 20, "g"), Operator(60, 90, "f"), Operator(90, 95, "f")),
     [("f", 1), ("g", 0)]),
    # Three in each other, the innermost with a launch: one call, which has what they all hold.
    ("an only call of the same name is the same call", f"operators name {ALL}",
     (*(Operator(i, 100 - i, f"aten::{name}") for i, name in enumerate(["to", "to.dtype", "to"])),
      Call(40, 60, 1), Kernel(70, 80, 1)), [("aten::to", 1, 100, 80, 20, 10, 10)]),
    ("with a call beside it, it is one of its own", "operators call_count host_sum_ns host_self_sum_ns",
     (Operator(0, 100, "a"), Operator(10, 40, "a"), Call(50, 60)), [(2, 130, 90)]),
    ("calls in calls are the outer one", f"operators {ALL}",
     (Operator(0, 100, "aten::mm"), *OF_TWO_LAYERS), [(1, 100, 80, 20, 50, 50)]),
    ("and launch for the operator around that alone", "operators name device_sum_ns",
     (Operator(0, 5, "aten::mm"), *OF_TWO_LAYERS), [(NO_OPERATOR, 50), ("aten::mm", 0)]),
    ("operators in an API call are rows and none of its time", f"operators name {ALL}", CALLED,
     [("aten::mm", 1, 50, 30, 20, 9, 9)]),
    ("an operator around such a call", f"operators name {ALL}", (Operator(50, 250, "mine::op"), *CALLED),
     [("aten::mm", 1, 50, 30, 20, 9, 9), ("mine::op", 1, 200, 100, 50, 9, 0)]),
    ("an operator in an API call is at the top", "operators:top-level name", CALLED, ["aten::mm"]),
    # `forward` begins in `__enter__` [5, 10) and ends long after; the operator is in `step` alone.
    ("an annotation has the stack in which it begins",
     "operators:by=stack:annotations:functions name stack",
     (*(Operator(*each, "python_function") for each in ((0, 100, "step"), (5, 10, "__enter__"))),
      Range(6, 90, "forward"), Operator(20, 40, "aten::mm")),
     [("__enter__", "step"), ("aten::mm", "step"), ("forward", "__enter__ < step"), ("step", None)]),
    ("top-level calls alone", "operators:top-level name", EXAMPLE,
     ["aten::linear", "aten::to", EVALUATE]),
    ("operators are recorded, and none ran", "operators name",
     (Range(0, 10, "train, batch 3"), Kernel(0, 5)), [NO_OPERATOR]),
    ("what the profiler calls is left out", "operators name host_self_sum_ns",
     (Operator(0, 10, "aten::mm"), Operator(2, 5, "aten::is_leaf")), [("aten::mm", 10)]),
    # Recorded as one number, as two, or not: 32, 8 + 24 and 8 + 16 bytes make two launches.
    ("shared memory is that of both kinds", "operator_kernels shared_bytes kernel_sum_ns",
     (Kernel(0, 7, name="a", shared=32), Kernel(10, 12, name="a", static=8, dynamic=24),
      Kernel(20, 21, name="a", static=8, dynamic=16), Kernel(30, 34, name="a")),
     [(24, 1), (32, 9), (None, 4)]),
    ("kernels of no operator are rows too",
     "operator_kernels operator name grid blocks_per_sm eligible", (Kernel(0, 10, name="a"),),
     [(NO_OPERATOR, "a", None, None, None)]),
    # Of kernels of a name whose use was measured; of samples nobody knows whose it was.
    ("hardware counters decide before names", "kernels name tensor_cores",
     (Kernel(0, 10, name="mine"), Kernel(10, 30, name="sgemm_nn"), Kernel(30, 70, name="h884gemm"),
      Kernel(70, 80, name="other"),
      Metric("tensor_precision_fu_utilization", "mine", 3.0),
      Metric("tensor_precision_fu_utilization", "sgemm_nn", 0.0),
      Metric("tensor_precision_fu_utilization", "h884gemm", 0.0),
      Metric("achieved_occupancy", "other", 0.5), Metric("sm__pipe_tensor_cycles_active", None, 7.0)),
     [("h884gemm", "no"), ("mine", "yes"), ("other", "no"), ("sgemm_nn", "no")]),
)  # fmt: skip
def test_rows_in_any_order(ask: str, rows: Any, expected: Any, options: Any) -> None:
    assert sorted(cells(ask, *rows, **options), key=repr) == sorted(expected, key=repr)


test_rows_in_their_order = hand_computed(
    # A tree: each row is followed by those inside it, most time first.
    ("by path", "operators:by=path level path device_sum_ns", EXAMPLE, [
        (0, EVALUATE, 220), (1, f"{EVALUATE}/AddmmBackward0", 220),
        (2, f"{EVALUATE}/AddmmBackward0/aten::mm", 220), (0, "aten::linear", 200),
        (1, "aten::linear/aten::addmm", 200), (0, "aten::to", 60)]),
    ("names of a tree are those of its leaves", "operators:by=path name", EXAMPLE,
     [EVALUATE, "AddmmBackward0", "aten::mm", "aten::linear", "aten::addmm", "aten::to"]),
    ("an operator in an API call is below the one around it", "operators:by=path path",
     (Operator(50, 250, "mine::op"), *CALLED), ["mine::op", "mine::op/aten::mm"]),
    ("equal times are in the order of names", "operators name", EQUAL, ["a", "b"]),
    ("equal times of kernels are in the order of names", "operator_kernels name", EQUAL, ["y", "z"]),
    # One launched outside, one without a call: 7 and 5.
    ("work of no operator is a row",
     "operators name call_count host_sum_ns device_self_sum_ns device_self_pct gpu_op_count",
     (*IN_OPERATOR, Kernel(5, 20, 1), Call(30, 32, 2), Kernel(40, 47, 2), Kernel(50, 55)),
     [("aten::relu", 1, 10, 15, pytest.approx(100 * 15 / 27), 1),
      (NO_OPERATOR, None, None, 12, pytest.approx(100 * 12 / 27), 2)]),
    # The call takes 2 of the operator's 10.
    ("and has no share of the host's time", "operators host_self_pct device_self_union_ns",
     (*IN_OPERATOR, Kernel(5, 20, 1), Call(30, 32, 2), Kernel(40, 47, 2), Kernel(50, 55)),
     [(80, 15), (None, 12)]),
    ("work without a time counts and takes none", f"operators {DEVICE}",
     (*IN_OPERATOR, Call(5, 6, 2), Kernel(5, 20, 1), Kernel(None, None, 2), Kernel(None, None)),
     [(2, 15, 15, 15), (1, 0, 0, None)]),
)  # fmt: skip


def test_shapes_that_no_operator_has_are_not_recorded() -> None:
    with pytest.raises(NotRecorded, match="input shapes of operators"):
        answers("operators:by=shapes", *STACKS)


def test_a_tree_that_is_cut_keeps_what_takes_most_time() -> None:
    events = (
        Operator(0, 100, "a"), Operator(0, 90, "b"), Operator(10, 20, "c"),
        Operator(200, 260, "d"), Operator(210, 250, "e"),
    )  # fmt: skip
    report = asked("operators:by=path", *events, limit=3)
    assert [row["path"] for row in report.rows()] == ["a", "a/b", "d"]
    assert report.row_count == 5


@pytest.mark.parametrize(("spec", "fact"), [
    ("operators:by=stack", Fact.STACKS), ("operators:by=module", Fact.PYTHON_FUNCTIONS),
    ("operators:functions", Fact.PYTHON_FUNCTIONS),
    ("operators:by=stack:functions", Fact.PYTHON_FUNCTIONS),
    ("operators:by=shapes", Fact.INPUT_SHAPES),
])  # fmt: skip
def test_what_was_not_recorded_is_not_grouped_by(spec: str, fact: Fact) -> None:
    with opened(Operator(0, 10, "aten::mm"), without=[fact]) as profile:
        with pytest.raises(NotRecorded) as caught:
            profile.report(spec)
        assert list(caught.value.missing) == [fact]


def test_shares_are_of_the_rows_of_the_report() -> None:
    """Calls at the top launched 60 themselves; a copy of 20 is of nobody."""
    rows = answers("operators:top-level", *EXAMPLE, Memcpy(900, 920))
    shares = {row["name"]: picked(row, "host_self_pct", "device_self_pct") for row in rows}
    # Selfs of 100, 50 and 30, and 50 in the API.
    assert shares["aten::to"] == (pytest.approx(100 * 50 / 230), pytest.approx(100 * 60 / 80))
    assert shares[NO_OPERATOR] == (None, pytest.approx(100 * 20 / 80))
    assert sum(share[1] for share in shares.values()) == pytest.approx(100)


def test_a_slice_has_calls_and_work_of_its_time() -> None:
    rows = answers("operators", *EXAMPLE, part=Slice(time=(550, 1000)))
    columns = ("call_count", "host_self_sum_ns", "device_self_sum_ns")
    found = {row["name"]: picked(row, *columns) for row in rows}
    # The kernel of `aten::mm` counts as a whole; the copy, of [500, 560), is that of a call before.
    assert found["aten::mm"] == (2, 130, 220)
    assert found[NO_OPERATOR] == (None, None, 60)
    assert "aten::linear" not in found


@pytest.mark.parametrize(("name", "group"), [
    ("aten::div_.Scalar", "aten::div_"), ("aten::div_", "aten::div_"),
    ("ProfilerStep#17", "ProfilerStep*"), ("record.py(3): f", "record.py(3): f"),
    ("Optimizer.step#SGD.step", "Optimizer.step#SGD.step"),
    ("vllm::unified_attention.out", "vllm::unified_attention"),
    *[("autograd::engine::evaluate_function: MmBackward0",) * 2],
    ("aten::to, seq = 3, op_id = 4", "aten::to"), ("a, b, op_id = 4, sizes = [[2]]", "a, b"),
    ("execute_context_1(888_788544)_generation_0(0)", "execute_context_*_generation_*"),
    ("execute_32_context_0(sq0sk0)_generation_32(sq32sk3)", "execute_context_*_generation_*"),
    ("step[DECODE bs=32]", "step[DECODE bs=*]"),
    ("## Call CompiledFxGraph ffu6ve6 ##", "## Call CompiledFxGraph * ##"),
    ("<built-in method zero_ of Tensor object at 0x7fc56554d590>",
     "<built-in method zero_ of Tensor object at 0x…>"),
])  # fmt: skip
def test_names_of_groups(name: str, group: str) -> None:
    assert group_name(name) == group


@pytest.mark.parametrize(("text", "shapes"), [
    ("[[2, 3], [], [4]]", "[[2, 3], [], [4]]"), ("[[[2, 3], [4]], [1]]", "[[], [1]]"), ("[]", "[]"),
    ("[[[]], []]", "[[], []]"), ("[[2,3],[4]]", "[[2, 3], [4]]"),
])  # fmt: skip
def test_lists_of_tensors_have_no_shape(text: str, shapes: str) -> None:
    assert without_lists_of_tensors(text) == shapes


# -- Tensor Cores, and kernels by operator

HALF, SINGLE = "ampere_fp16_s16816gemm_64x64_tn", "ampere_sgemm_128x64_nn"
CORES = (
    *(each for each in EXAMPLE if not isinstance(each, Kernel)),
    *(
        Kernel(start, end, number, stream, name=name, grid=(blocks, 1, 1), block=(128, 1, 1),
               occupancy=occupancy)
        for start, end, number, stream, name, blocks, occupancy in (
            (300, 500, 11, 7, HALF, 16, 50), (700, 800, 13, 7, HALF, 4, 20),
            (750, 870, 14, 20, SINGLE, 8, 10),
        )
    ),
)  # fmt: skip


def test_shares_of_tensor_cores() -> None:
    rows = {row["name"]: row for row in answers("operators", *CORES)}
    columns = ("eligible", "tensor_core_self_pct", "tensor_core_pct")
    share = {name: picked(row, *columns) for name, row in rows.items()}
    part = pytest.approx(100 * 100 / 220)
    assert share == {
        "aten::mm": ("yes", part, part), "aten::addmm": ("yes", 100, 100), "aten::to": ("no", 0, 0),
        "aten::linear": ("yes", None, 100), "AddmmBackward0": ("yes", None, part),
        "autograd::engine::evaluate_function: AddmmBackward0": ("yes", None, part),
    }  # fmt: skip
    (whole,) = answers("summary", *CORES)
    assert picked(whole, "tensor_core_pct", "tensor_core_unknown_pct") == (
        pytest.approx(100 * 300 / 420), 0)  # fmt: skip


def test_kernels_by_operator() -> None:
    """On 8 SMs; by kernel (2 × 200 + 0.5 × 100) / 300 blocks each, and occupancies of 50 and 20 %."""
    with opened(*CORES, gpus={0: {"sm_count": 8}}) as profile:
        by_launch = profile.report("operator_kernels").rows()
        by_kernel = profile.report("operator_kernels:by=kernel").rows()
    columns = ("operator", "name", "grid", "block", "kernel_count", "kernel_sum_ns", "tensor_cores",
               "eligible", "blocks_per_sm")  # fmt: skip
    assert [picked(row, *columns) for row in by_launch] == [
        ("aten::addmm", HALF, "16, 1, 1", "128, 1, 1", 1, 200, "yes", "yes", 2.0),
        ("aten::mm", SINGLE, "8, 1, 1", "128, 1, 1", 1, 120, "no", "yes", 1.0),
        ("aten::mm", HALF, "4, 1, 1", "128, 1, 1", 1, 100, "yes", "yes", 0.5),
    ]
    columns = ("operator", "name", "grid", "kernel_count", "avg_ns", "min_ns", "max_ns",
               "blocks_per_sm", "recorded_occupancy_pct")  # fmt: skip
    assert [picked(row, *columns) for row in by_kernel] == [
        (None, HALF, None, 2, 150, 100, 200, 1.5, pytest.approx(40)),
        (None, SINGLE, None, 1, 120, 120, 120, 1.0, pytest.approx(10)),
    ]


def test_an_operator_is_eligible_by_what_it_holds_or_launched_in_both_reports() -> None:
    """None is listed: one launched a product there, one holds a listed one, one has neither."""
    events = (
        Operator(0, 30, "CompiledFunction"), Call(2, 5, 1), Call(12, 15, 2),
        Operator(30, 60, "mine::around"), Call(31, 33, 3), Operator(40, 50, "aten::mm"),
        Operator(60, 90, "mine::other"), Call(62, 65, 4),
        Kernel(100, 101, 1, name="volta_h884gemm_64x128"), Kernel(101, 110, 2, name=SINGLE),
        Kernel(110, 120, 3, name="relu"), Kernel(120, 130, 4, name=SINGLE), Kernel(130, 140, name="a"),
    )  # fmt: skip
    with opened(*events) as profile:
        by_operator = {(row["name"], row["eligible"]) for row in profile.report("operators").rows()}
        by_launch = {(row["operator"], row["eligible"])
                     for row in profile.report("operator_kernels").rows()}  # fmt: skip
    assert by_launch == {("CompiledFunction", "yes"), ("mine::around", "yes"), ("mine::other", "no"),
                         (NO_OPERATOR, None)}  # fmt: skip
    assert by_operator == by_launch | {("aten::mm", "yes")}


@pytest.mark.parametrize(("name", "answer"), [
    ("ampere_fp16_s16816gemm_fp16_64x64_tn", "yes"), ("ampere_sgemm_128x64_nn", "no"),
    ("volta_h884gemm_64x128_ldg8_nn", "yes"), ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_ffma_x", "no"),
    ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n", "yes"), ("nvjet_tst_128x64_64x9_1x2_h_bz_TNT", "yes"),
    ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", "yes"),
    ("cutlass_80_tensorop_s1688gemm_128x64_nn", "yes"), ("cutlass_80_simt_sgemm_64x64_nn", "no"),
    ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN", "yes"),
    ("Cijk_Ailk_Bljk_SB_MT64x64x8_SN", "no"), ("void vectorized_elementwise_kernel<4>", "no"),
    ("triton_poi_fused_addmm_relu_0", "no"), ("triton_tem_fused_mm_3", "unknown"),
    ("_matmul_kernel", "no"), ("my_gemm", "unknown"), ("void implicit_convolve_sgemm<float>", "no"),
    ("fbgemm_gpu_lookup", "no"), ("attn_fwd", "yes"),
    ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2", "yes"),
    ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16", "yes"), ("bmm_small", "no"),
    ("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausal", "yes"),
    ("void cudnn::cnn::im2col4d_kernel<float, long>(cudnn::cnn::im2col4d_params, cudnnConvolutionStruct)",
     "no"),
    ("void my::scale<float>(cublasGemmParams<float>, float const*)", "no"),
])  # fmt: skip
def test_names_of_kernels_on_tensor_cores(name: str, answer: str) -> None:
    assert tensor_cores_by_name([name]) == [answer]


# -- a slow version

names = st.sampled_from("abc")


@st.composite
def nested(draw: st.DrawFn, low: int = 1, high: int = 120, depth: int = 0) -> list[Any]:
    """Operators and API calls in each other, some of 0 ns, each call launching at most one kernel."""
    events: list[Any] = []
    at = low
    while at + 1 < high and draw(st.booleans()):
        start = draw(st.integers(at, high - 2))
        end = draw(st.integers(start, high - 1))
        is_call = draw(st.booleans())
        events.append(Call(start, end) if is_call else Operator(start, end, draw(names)))
        events += draw(nested(start, end, depth + 1)) if depth < 4 else []
        at = end
    return events


def slow(events: list[Any], kernels: dict[int, int]) -> dict[str, tuple[int, ...]]:
    """By name: calls, host total and self, API time, device total and self; `kernels` by correlation."""

    def dur(each: Any) -> int:
        return int(each.end - each.start)

    def holders(each: Any) -> list[Any]:
        return sorted((o for o in events if o is not each and o.start <= each.start < o.end
                       and each.end <= o.end), key=dur)  # fmt: skip

    around = {id(each): holders(each) for each in events}
    inside = {id(o): [e for e in events if around[id(e)][:1] == [o] and around[id(e)][0] is o]
              for o in events}  # fmt: skip
    doubles = {id(held[0]) for o in events if isinstance(o, Operator) and len(held := inside[id(o)]) == 1
               and isinstance(held[0], Operator) and held[0].name == o.name}  # fmt: skip

    def operator_around(each: Any) -> Any:
        found = (o for o in around[id(each)] if isinstance(o, Operator) and id(o) not in doubles)
        return next(found, None)

    def held_by(outer: Any) -> list[Any]:
        """Directly: in an operator not what its only call of the same name holds, in a call no call."""
        left_out = [e for e in inside[id(outer)]
                    if id(e) in doubles or (isinstance(e, Call) and isinstance(outer, Call))]  # fmt: skip
        rest = [e for e in inside[id(outer)] if not any(e is other for other in left_out)]
        return rest + [e for other in left_out for e in held_by(other)]

    found: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for each in (e for e in events if isinstance(e, Operator) and id(e) not in doubles):
        held = held_by(each)
        own = [e for e in events if isinstance(e, Call) and operator_around(e) is each]
        below = [e for e in events if any(o is each for o in around[id(e)]) and isinstance(e, Call)]
        calls = [e for e in held if isinstance(e, Call)]
        found[each.name] = [sum(pair) for pair in zip(found[each.name], (
            1, dur(each), dur(each) - sum(map(dur, held)),
            sum(dur(call) - sum(map(dur, held_by(call))) for call in calls),
            sum(kernels.get(e.correlation or 0, 0) for e in below),
            sum(kernels.get(e.correlation or 0, 0) for e in own),
        ), strict=True)]  # fmt: skip
    return {name: tuple(values) for name, values in found.items()}


@given(nested(), st.data())
def test_a_slow_version_agrees(events: list[Any], data: st.DataObject) -> None:
    kernels: dict[int, int] = {}
    rows = []
    for number, each in enumerate(events, 1):
        if isinstance(each, Call) and data.draw(st.booleans()):
            kernels[number] = data.draw(st.integers(1, 9))
            each = each._replace(correlation=number)
        rows.append(each)
    work = [Kernel(200 + 10 * n, 200 + 10 * n + time, n) for n, time in kernels.items()]
    if not any(isinstance(each, Operator) for each in rows):
        return
    found = {row["name"]: picked(row, *COLUMNS) for row in answers("operators", *rows, *work)}
    found.pop(NO_OPERATOR, None)
    assert found == slow(rows, kernels)
    # What lies in no operator is made of all selfs, and of the API calls in them.
    outer = answers("operators:top-level", *rows, *work)
    parts = sum(each[2] + each[3] for each in found.values())
    assert parts == sum(row["host_sum_ns"] or 0 for row in outer)


# -- as others have them


_kept = ExitStack()


@cache
def kept(path: Path) -> nsysconv.OpenProfile:
    """A file, opened once for all that is asked of it."""
    return _kept.enter_context(nsysconv.open(path))


@pytest.fixture(scope="module", autouse=True)
def closed() -> Iterator[None]:
    yield
    kept.cache_clear()
    _kept.close()


def rows_by_name(path: Path, spec: str) -> dict[tuple[str, str], Row]:
    # Functions are read of a file where they are asked for.
    if ":functions" in spec:
        (report,) = nsysconv.report_on(path, spec)
    else:
        report = kept(path).report(spec)
    return {(row["name"], row["shapes"] or "[]"): row for row in report.rows()}


def recorded(name: str, by: str) -> Iterator[tuple[tuple[str, str], Row]]:
    """The rows of `key_averages()`, but for Python functions."""
    text = gzip.decompress((GOLD / "recorded" / f"{name}.key_averages.json.gz").read_bytes())
    for row in json.loads(text)[by]:
        if ".py(" not in row["key"] and not row["key"].startswith(("<built-in", "<frozen", "nn.Module")):
            shapes = row["input_shapes"] or []
            yield (row["key"], shapes if isinstance(shapes, str) else json.dumps(shapes)), row


# Where Python functions are recorded the table takes their time out of that of annotations; of what never
# ended it has the time until something inside began.
_OTHERWISE = {
    "mlp_train": {"ProfilerStep*", "Optimizer.zero_grad#SGD.zero_grad", "forward", "backward",
                  "Optimizer.step#SGD.step"},
    "threads": {"never closed"},
}  # fmt: skip


@real
@pytest.mark.parametrize("by", ["by_name", "by_name_and_input_shapes"])
@pytest.mark.parametrize("name", ["mlp_train", "conv_infer", "conv_overloads", "threads"])
def test_rows_of_pytorch_itself(name: str, by: str) -> None:
    spec = "operators:annotations" + (":by=shapes" if by != "by_name" else "")
    found = rows_by_name(GOLD / "recorded" / f"{name}.pt.trace.json.gz", spec)
    expected = dict(recorded(name, by))
    assert found.keys() == expected.keys()
    assert len(expected) > 30
    for key, row in expected.items():
        times = [round(row[column] * 1000) for column in ("cpu_time_total_us", "self_cpu_time_total_us")]
        mine = picked(found[key], "call_count", "host_sum_ns", "host_self_sum_ns")
        if key[0] in _OTHERWISE.get(name, ()):
            assert mine[0] == row["count"]
            assert mine[2] != times[1]
        else:
            assert mine == (row["count"], *times), key


@real
def test_rows_of_pytorch_itself_by_stack() -> None:
    """With Python functions as rows, as PyTorch has them; objects' addresses are no names."""
    (report,) = nsysconv.report_on(
        GOLD / "recorded" / "mlp_train.pt.trace.json.gz",
        "operators:annotations:functions:by=stack:stack=3",
    )
    text = gzip.decompress((GOLD / "recorded" / "mlp_train.key_averages.json.gz").read_bytes())
    expected: Counter[tuple[str, ...]] = Counter()
    for row in json.loads(text)["by_name_and_stack_3"]:
        stack = re.sub(" object at 0x[0-9a-f]+", "", " < ".join(row["stack"]))
        key = (group_name(row["key"]), stack)
        times = [round(row[column] * 1000) for column in ("cpu_time_total_us", "self_cpu_time_total_us")]
        for figure, value in zip(("count", "host", "self"), (row["count"], *times), strict=True):
            expected[*key, figure] += value
    found: Counter[tuple[str, ...]] = Counter()
    for row in report.rows():
        values = picked(row, "call_count", "host_sum_ns", "host_self_sum_ns")
        for figure, value in zip(("count", "host", "self"), values, strict=True):
            found[row["name"], row["stack"] or "", figure] += value
    assert len(expected) > 600
    assert found.keys() == expected.keys()
    # Where calls inside a call cross, the table takes their time off twice: less than none is left.
    otherwise = {key for key in expected if found[key] != expected[key]}
    assert otherwise == {key for key in expected if expected[key] < 0}
    assert all(key[-1] == "self" and found[key] >= 0 for key in otherwise)


@real
@pytest.mark.parametrize("functions", ["", ":functions"])
def test_annotations_of_pytorch_itself_where_functions_take_their_time(functions: str) -> None:
    path = GOLD / "recorded" / "mlp_train.pt.trace.json.gz"
    found = rows_by_name(path, f"operators:annotations{functions}")
    expected = dict(recorded("mlp_train", "by_name"))
    for name in _OTHERWISE["mlp_train"]:
        mine = found[name, "[]"]["host_self_sum_ns"]
        theirs = round(expected[name, "[]"]["self_cpu_time_total_us"] * 1000)
        # Functions that cross there take their time twice, and leave less than none.
        assert (mine == theirs) == (bool(functions) and theirs >= 0)
        assert mine >= 0


@real
def test_rows_of_pytorch_itself_by_overload() -> None:
    found = rows_by_name(
        GOLD / "recorded" / "conv_overloads.pt.trace.json.gz", "operators:annotations:by=overload")
    text = gzip.decompress((GOLD / "recorded" / "conv_overloads.key_averages.json.gz").read_bytes())
    expected = {
        row["key"] + (f".{row['overload_name']}" if row["overload_name"] else ""): row
        for row in json.loads(text)["by_name_and_overload"]
    }
    assert {name for name, _ in found} == expected.keys()
    for name, row in expected.items():
        times = [round(row[column] * 1000) for column in ("cpu_time_total_us", "self_cpu_time_total_us")]
        assert picked(found[name, "[]"], "call_count", "host_sum_ns", "host_self_sum_ns") == (
            row["count"], *times)  # fmt: skip


@real
@pytest.mark.parametrize("name", ["mlp_train", "conv_infer"])
def test_floating_point_operations_of_pytorch_itself(name: str) -> None:
    """PyTorch counts conv2d, mm, addmm, bmm, add and mul, each call by its own."""
    found = rows_by_name(GOLD / "recorded" / f"{name}.pt.trace.json.gz", "operators:by=shapes")
    rows = recorded(name, "by_name_and_input_shapes")
    expected = {key: row["flops"] for key, row in rows if row["flops"]}
    assert len(expected) >= 6
    assert {key: found[key]["flop_sum"] for key in expected} == expected


@real
def test_the_worked_example_as_a_trace() -> None:
    (report,) = nsysconv.report_on(
        GOLD / "made_up" / "worked_example.pt.trace.json", "operators:annotations"
    )
    check_example(report.rows())


@real
def test_rows_of_the_tensorboard_plugin() -> None:
    path = GOLD / "tensorboard_plugin" / "resnet50_num_workers_4.views.json.gz"
    expected = json.loads(gzip.decompress(path.read_bytes()))["operator_table"]["data"]
    found = rows_by_name(V100, "operators")
    assert found.keys() - {(NO_OPERATOR, "[]")} == {(row["name"], "[]") for row in expected}
    for row in expected:
        mine = found[row["name"], "[]"]
        assert mine["call_count"] == row["calls"]
        for column, theirs in (
            ("device_self_sum_ns", "device_self_duration"), ("device_sum_ns", "device_total_duration"),
            ("host_self_sum_ns", "host_self_duration"), ("host_sum_ns", "host_total_duration"),
        ):  # fmt: skip
            assert mine[column] == 1000 * row[theirs], (row["name"], column)
        assert mine["eligible"] == row["tc_eligible"].lower()
        # They write 0 where nothing was launched.
        assert (mine["tensor_core_self_pct"] or 0) == row["tc_self_ratio"]
        assert (mine["tensor_core_pct"] or 0) == row["tc_total_ratio"]


@real
def test_kernels_of_the_tensorboard_plugin() -> None:
    path = GOLD / "tensorboard_plugin" / "resnet50_num_workers_4.views.json.gz"
    expected = json.loads(gzip.decompress(path.read_bytes()))["kernel_table"]["data"]["rows"]
    found = {row["name"]: row for row in kept(V100).report("operator_kernels:by=kernel").rows()}
    assert found.keys() == {row[0] for row in expected}
    for name, cores, *numbers in expected:
        mine = found[name]
        assert mine["tensor_cores"] == cores.lower()
        count, spent, mean, longest, shortest, *means = numbers
        assert mine["kernel_count"] == count
        assert picked(mine, "kernel_sum_ns", "max_ns", "min_ns") == (
            1000 * spent, 1000 * longest, 1000 * shortest)  # fmt: skip
        # Rounded to whole microseconds, and to two decimals.
        assert mine["avg_ns"] == pytest.approx(1000 * mean, abs=500)
        assert picked(mine, "blocks_per_sm", "recorded_occupancy_pct") == tuple(
            pytest.approx(each, abs=0.00501) for each in means)  # fmt: skip


@real
@pytest.mark.parametrize(("folder", "trace"), TRACES.items())
def test_rows_of_tracelens(folder: str, trace: str) -> None:
    with (GOLD / "tracelens" / folder / "ops_summary.csv").open(encoding="utf-8") as file:
        expected = list(csv.DictReader(file))
    assert len(expected) > 8
    found = rows_by_name(REAL / "kineto" / f"AMD-AGI+TraceLens__{trace}.json.gz", "operators")
    for row in expected:
        mine = found[row["name"], "[]"]
        assert mine["call_count"] == int(row["Count"])
        # They add up 32-bit numbers.
        theirs = 1000 * float(row["total_direct_kernel_time_sum"])
        assert mine["device_self_union_sum_ns"] == pytest.approx(theirs, rel=1e-5, abs=2)


@real
@pytest.mark.parametrize(("name", "count", "without"), [
    ("mfu_2gpu_after", 84, 16), ("mfu_2gpu_before", 88, 31), ("h100_2gpu_1s", 176, 2276),
])  # fmt: skip
def test_operators_of_nsys(name: str, count: int, without: int) -> None:
    found = rows_by_name(NSYS_AI / f"GindaChen+nsys-ai__{name}.sqlite", "operators")
    assert found.pop((NO_OPERATOR, "[]"))["gpu_op_count"] == without
    assert len(found) == count
    if name == "mfu_2gpu_after":
        flash, addmm = found["flash_attn::_flash_attn_forward", "[]"], found["aten::addmm", "[]"]
        assert picked(flash, *COLUMNS[:3], "device_sum_ns") == (60, 8_444_142, 5_339_910, 240_755_667)
        assert picked(addmm, "call_count", "gpu_op_count", "host_self_sum_ns", "device_sum_ns") == (
            300, 540, 20_943_361, 52_391_380)  # fmt: skip


@real
def test_operators_that_calls_of_an_inference_runtime_hold() -> None:
    """`predictor_executor::run` is an API call that runs the model; 75 of 424 sums are all of another."""
    name = "facebookresearch+HolisticTraceAnalysis__mtia_inference_rank_0.json.gz"
    counts = {key: row["call_count"] for (key, _), row in
              rows_by_name(REAL / "defects" / name, "operators").items()}  # fmt: skip
    assert len(counts) == 21
    wanted = ("aten::sum", "aten::empty", "aten::diff", "aten::empty_like", "aten::item")
    assert [counts[key] for key in wanted] == [424 - 75, 1251, 270, 187, 75]


# -- what adds up


@real
@pytest.mark.parametrize("path", few([*REAL_TRACES, *sorted(NSYS_AI.glob("GindaChen*"))], 2), ids=name_of)
def test_selfs_add_up(path: Path) -> None:
    profile = kept(path)
    rows, outer = (profile.report(spec).rows() for spec in ("operators", "operators:top-level"))

    def total(column: str, rows: list[Row]) -> int:
        return sum(row[column] or 0 for row in rows)

    # What lies in no other operator is made of the selfs of all, and of the API calls in them.
    assert total("host_self_sum_ns", rows) + total("api_sum_ns", rows) == total("host_sum_ns", outer)
    ops = profile.timeline.ops
    every = Counter(ops.kind.tolist())
    if rows[0]["gpu_op_count"] is not None:
        assert total("device_self_sum_ns", rows) == int(ops.dur.sum())
        assert total("gpu_op_count", rows) == sum(every.values())
        inside = total("device_sum_ns", [row for row in outer if row["name"] != NO_OPERATOR])
        own = [row for row in rows if row["name"] != NO_OPERATOR]
        assert inside == total("device_self_sum_ns", own)
