"""Of call stacks and of values of inputs only what has a known form is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import import_file

from nsysconv.facts import Fact
from nsysconv.importers.kineto.allowed import allowed_stack, allowed_values, has_values
from nsysconv.store.location import reading

STACKS = {
    "a function": ("torch/nn/linear.py(134): forward", "torch/nn/linear.py(134): forward"),
    "a function of no name": ("net.py(3): <lambda>", "net.py(3): <lambda>"),
    "of a package, wherever it was installed": (
        "/home/user/env/lib/python3.7/site-packages/torch/tensor.py(7): backward",
        "torch/tensor.py(7): backward"),
    "of the language": ("/usr/lib/python3.11/threading.py(5): run", "threading.py(5): run"),
    "of a folder of the machine": ("/home/user/secret/train.py(9): main", "train.py(9): main"),
    "of a folder of a machine with letters": ("C:\\Users\\me\\train.py(9): main", "train.py(9): main"),
    "of a folder above": ("../secret/train.py(9): main", "train.py(9): main"),
    "of a home": ("~/secret/train.py(9): main", "train.py(9): main"),
    "a built-in method of an object": (
        "<built-in method zero_ of Tensor object at 0x7fc565>", "<built-in method zero_ of Tensor>"),
    "a built-in function": ("<built-in function linear>", "<built-in function linear>"),
    "a module": ("nn.Module: Linear_0", "nn.Module: Linear_0"),
    "a text": ("token", None),
    "a text behind a function": ("train.py(9): main token", None),
    "a line that is not a number": ("train.py(token): main", None),
    "no Python file": ("token(9): main", None),
}  # fmt: skip


@pytest.mark.parametrize("what", STACKS)
def test_entries_of_a_stack(what: str) -> None:
    entry, kept = STACKS[what]
    assert allowed_stack(json.dumps(f"{entry};a.py(1): f").encode()) == (f"{kept};" if kept else "") + (
        "a.py(1): f;"
    )


@pytest.mark.parametrize("text", [b"3", b'["a.py(1): f"]', b'"a.py(1): f', b'"token"', b'""'])
def test_what_is_no_stack_is_not_kept(text: bytes) -> None:
    assert allowed_stack(text) is None


def test_values_are_numbers_truths_and_lists_of_numbers() -> None:
    given = ["", "[1, -2]", "token", "True", "False", "1e-05", "[[1]]", "[token]", "[]", 3, "0.5", "7",
             "[True, False]"]  # fmt: skip
    kept = [None, [1, -2], None, True, False, 1e-05, None, None, [], None, 0.5, 7, [True, False]]
    found = allowed_values(json.dumps(given).encode())
    assert found is not None
    assert json.loads(found) == kept
    assert allowed_values(b'{"a": "1"}') is None
    assert allowed_values(b'["1"') is None


def test_values_are_those_of_convolutions_and_attention() -> None:
    names = ("aten::conv2d", "aten::convolution_backward", "aten::_convolution.deprecated",
             "aten::_scaled_dot_product_flash_attention", "aten::mm", "aten::conv2dx",
             "my::conv2d", 3)  # fmt: skip
    assert [has_values(name) for name in names] == [True, True, True, True, False, False, False, False]


def test_columns_of_an_operator(tmp_path: Path) -> None:
    events = [
        {"name": "aten::conv2d", "args": {
            "Concrete Inputs": ["", "", "", "[2, 2]"], "Call stack": "/x/a.py(1): f;b/c.py(2): g;",
            "Fwd thread id": 0, "Record function id": 17}},
        {"name": "aten::mm", "args": {"Concrete Inputs": ["1"], "Fwd thread id": 2, "finished": False,
                                      "Record function id": 0, "Input Strides": [[4, 1]]}},
        {"name": "aten::copy_", "args": {"Input Strides": [[4, 1], [1, 3], []]}},
    ]  # fmt: skip
    for place, event in enumerate(events):
        event |= {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 10 * place + 1, "dur": 5}
    source = tmp_path / "trace.json"
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    import_file(source, tmp_path / "a.db")
    with reading(tmp_path / "a.db") as store:
        (profile,) = store.profiles()
        rows = next(iter(profile.batches("operator", 10))).to_pylist()
        ids = ("arguments_id", "stack_id", "strides_id")
        names = profile.names(row[key] for row in rows for key in ids if row[key])
        assert [names.get(row["arguments_id"]) for row in rows] == [
            "[null, null, null, [2, 2]]", None, None]  # fmt: skip
        assert [names.get(row["stack_id"]) for row in rows] == [
            "a.py(1): f;b/c.py(2): g;", None, None]  # fmt: skip
        assert [names.get(row["strides_id"]) for row in rows] == [None, None, "[[4, 1], [1, 3], []]"]
        assert [row["forward_thread"] for row in rows] == [None, 2, None]
        assert [row["is_open"] for row in rows] == [None, 1, None]
        assert [row["op_id"] for row in rows] == [17, None, None]
        assert {Fact.STACKS, Fact.FORWARD_LINKS} <= profile.facts
        assert {Fact.INPUT_SHAPES, Fact.INPUT_TYPES} <= profile.missing
