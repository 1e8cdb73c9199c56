"""Modules: by hand, and as TensorBoard's plugin had them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, REAL_TRACES, few, name_of, real
from small_store import Call, Kernel, Operator, answers, asked, opened

import nsysconv
from nsysconv.errors import NotRecorded
from nsysconv.queries.modules import NO_MODULE

GOLD = REAL / "pytorch_gold"
# Those of the real traces that have calls of modules.
WITH_MODULES = [
    path for path in REAL_TRACES
    if path.name.startswith(("AMD-AGI", "sidnb13")) and not path.name.endswith("__trace.json.gz")
]  # fmt: skip
FORWARD, BACKWARD = 1, 2


def module(start: int, end: int, name: str, tid: int = FORWARD) -> Operator:
    return Operator(start, end, f"nn.Module: {name}", "python_function", tid)


def function(start: int, end: int, tid: int = FORWARD) -> Operator:
    return Operator(start, end, "net.py(3): forward", "python_function", tid)


# Net calls Linear_0 twice, once of them within Block, whose own operator does a copy.
EXAMPLE = (
    module(0, 1000, "Net_0"),
    function(5, 990),
    module(100, 300, "Linear_0"),
    Operator(150, 250, "aten::linear", tid=FORWARD, sequence=4),
    Operator(160, 240, "aten::addmm", tid=FORWARD, sequence=5),
    Call(200, 220, 1, tid=FORWARD),
    module(400, 800, "Block_0"),
    Operator(420, 450, "aten::to", tid=FORWARD),
    Call(430, 440, 2, tid=FORWARD),
    module(500, 700, "Linear_0"),
    Operator(600, 640, "aten::linear", tid=FORWARD, sequence=6),
    Call(610, 620, 3, tid=FORWARD),
    Call(900, 910, 4, tid=FORWARD),  # of no operator
    Call(1100, 1110, 5, tid=FORWARD),  # in no module
    Operator(1200, 1300, "LinearBackward0", tid=BACKWARD, sequence=6, forward_thread=1),
    Operator(1400, 1470, "AddmmBackward0", tid=BACKWARD, sequence=5, forward_thread=1),
    Call(1410, 1420, 6, tid=BACKWARD),
    Kernel(2000, 2100, 1),
    Kernel(2100, 2130, 2),
    Kernel(2200, 2250, 3, stream=8),
    Kernel(2300, 2307, 4),
    Kernel(2400, 2411, 5),
    Kernel(2500, 2513, 6),
)  # fmt: skip
COLUMNS = ("level", "path", "call_count", "operator_count", "host_sum_ns", "host_self_sum_ns",
           "device_sum_ns", "device_self_sum_ns", "gpu_op_count", "backward_host_sum_ns",
           "backward_device_sum_ns")  # fmt: skip


def test_by_hand() -> None:
    """Functions are no modules; what a function launched by itself is its module's."""
    rows = answers("modules", *EXAMPLE)
    assert [tuple(row[name] for name in COLUMNS) for row in rows] == [
        (0, "Net_0", 1, 0, 1000, 400, 187, 7, 4, 170, 13),
        (1, "Net_0/Linear_0", 1, 1, 200, 100, 100, 100, 1, 70, 13),
        (1, "Net_0/Block_0", 1, 1, 400, 170, 80, 30, 2, 100, 0),
        (2, "Net_0/Block_0/Linear_0", 1, 1, 200, 160, 50, 50, 1, 100, 0),
        (0, NO_MODULE, None, None, None, None, 24, 24, 2, None, None),
    ]  # fmt: skip
    assert [row["name"] for row in rows][1:3] == ["Linear_0", "Block_0"]


def test_operators_by_module() -> None:
    rows = answers("operators:by=module", *EXAMPLE)
    assert {(row["name"], row["module"]): row["host_sum_ns"] for row in rows if row["host_sum_ns"]} == {
        ("aten::linear", "Net_0/Linear_0"): 100, ("aten::addmm", "Net_0/Linear_0"): 80,
        ("aten::to", "Net_0/Block_0"): 30, ("aten::linear", "Net_0/Block_0/Linear_0"): 40,
        ("LinearBackward0", None): 100, ("AddmmBackward0", None): 70,
    }  # fmt: skip


def test_a_module_that_an_operator_calls_is_inside_both() -> None:
    """As recomputation calls it: Net [0, 100) > operator [10, 90) > Linear [20, 50)."""
    events = (module(0, 100, "Net_0"), Operator(10, 90, "CheckpointFunction", tid=FORWARD),
              module(20, 50, "Linear_0"))  # fmt: skip
    rows = answers("modules", *events)
    assert [(row["path"], row["host_self_sum_ns"], row["operator_count"]) for row in rows] == [
        ("Net_0", 20, 1), ("Net_0/Linear_0", 30, 0)]  # fmt: skip


def test_what_the_backward_pass_calls_again_is_a_row_of_its_own() -> None:
    """Block_0 takes 100 in the forward; checkpointing runs it again, with Linear_0 inside, for 70."""
    def backward(start: int, end: int, name: str) -> Operator:
        return Operator(start, end, name, tid=BACKWARD, sequence=4, forward_thread=1)

    events = (
        module(0, 100, "Block_0"), module(10, 60, "Linear_0"),
        Operator(20, 50, "aten::linear", tid=FORWARD, sequence=4),
        backward(200, 300, "autograd::engine::evaluate_function: CheckpointBackward"),
        backward(205, 295, "CheckpointBackward"), function(206, 294, BACKWARD),
        module(210, 280, "Block_0", BACKWARD), module(220, 260, "Linear_0", BACKWARD),
        Operator(230, 250, "aten::linear", tid=BACKWARD),
        module(400, 410, "Block_0", BACKWARD),
    )  # fmt: skip
    with opened(*events) as profile:
        rows = profile.report("modules").rows()
        operators = profile.report("operators:by=module").rows()
    assert [(row["path"], row["call_count"], row["host_sum_ns"]) for row in rows] == [
        ("Block_0", 2, 110), ("Block_0/Linear_0", 1, 50),
        ("Block_0 [in backward]", 1, 70), ("Block_0 [in backward]/Linear_0", 1, 40)]  # fmt: skip
    assert {(row["module"], row["call_count"]) for row in operators if row["name"] == "aten::linear"} == {
        ("Block_0/Linear_0", 1), ("Block_0 [in backward]/Linear_0", 1)}  # fmt: skip


def test_what_an_api_call_in_a_module_calls_is_directly_in_the_module() -> None:
    events = (module(0, 100, "Net_0"), Call(10, 90, tid=FORWARD), module(20, 40, "Linear_0"),
              Operator(50, 80, "aten::mm", tid=FORWARD))  # fmt: skip
    rows = answers("modules", *events)
    assert [(row["path"], row["host_self_sum_ns"], row["operator_count"]) for row in rows] == [
        ("Net_0", 50, 1), ("Net_0/Linear_0", 20, 0)]  # fmt: skip


def test_a_module_that_crosses_the_end_of_another_is_outside_of_it() -> None:
    rows = answers("modules", module(0, 60, "M_0"), module(30, 90, "N_0"))
    assert {row["path"]: row["host_self_sum_ns"] for row in rows} == {"M_0": 60, "N_0": 60}


def test_where_no_module_was_called_there_are_no_rows() -> None:
    assert answers("modules", function(0, 10), Call(2, 4, 1), Kernel(5, 9, 1)) == []


def test_what_is_cut_is_cut_last() -> None:
    report = asked("modules", *EXAMPLE, limit=2)
    assert [row["name"] for row in report.rows()] == ["Net_0", "Linear_0"]
    assert report.row_count == 5


def in_tree(nodes: list[dict[str, Any]], around: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for node in nodes:
        path = f"{around}/{node['name']}" if around else node["name"]
        yield path, node
        yield from in_tree(node["children"], path)


@real
def test_modules_of_the_tensorboard_plugin() -> None:
    """They have sums of doubles of microseconds."""
    text = gzip.decompress((GOLD / "tensorboard_plugin" / "mlp_train.views.json.gz").read_bytes())
    expected = dict(in_tree(json.loads(text)["module_stats"]))
    (report,) = nsysconv.report_on(GOLD / "recorded" / "mlp_train.pt.trace.json.gz", "modules")
    found = {row["path"]: row for row in report.rows()}
    assert found.keys() == expected.keys()
    assert len(expected) == 13
    for path, node in expected.items():
        row = found[path]
        assert (row["call_count"], row["operator_count"]) == (node["occurences"], node["operators"])
        assert row["host_sum_ns"] == pytest.approx(1000 * node["host_duration"], abs=2)
        assert row["host_self_sum_ns"] == pytest.approx(1000 * node["self_host_duration"], abs=2)


@real
def test_a_store_without_them_says_that_they_were_left_out(tmp_path: Path) -> None:
    source = GOLD / "recorded" / "mlp_train.pt.trace.json.gz"
    nsysconv.import_files([source], tmp_path / "a.db")
    with nsysconv.open(tmp_path / "a.db") as profile, pytest.raises(NotRecorded) as caught:
        profile.report("modules")
    assert "left out at the import" in caught.value.hint
    assert "--include python_functions" in caught.value.hint
    nsysconv.import_files([source], tmp_path / "b.db", include=["python_functions"])
    with nsysconv.open(tmp_path / "b.db") as profile:
        assert len(profile.report("modules").rows()) == 13


@real
@pytest.mark.parametrize("trace", few(WITH_MODULES, 2), ids=name_of)
def test_selfs_of_modules_add_up_to_the_work_of_the_gpu(trace: Path) -> None:
    with nsysconv.open(trace, include=["python_functions"]) as profile:
        rows = profile.report("modules").rows()
        kernels = profile.report("operators:by=path").rows()
    tops = [row for row in rows if row["level"] == 0 and row["path"] != NO_MODULE]
    for column in ("device_self_sum_ns", "host_self_sum_ns"):
        assert all(row[column] is None or row[column] >= 0 for row in rows)
    own = sum(row["device_self_sum_ns"] or 0 for row in rows)
    assert own == sum(row["device_self_sum_ns"] or 0 for row in kernels)
    inside = sum(row["device_sum_ns"] or 0 for row in tops)
    assert own - inside == sum(row["device_sum_ns"] or 0 for row in rows if row["path"] == NO_MODULE)
