"""What a trace says of the profiler's options: no advice asks for one that was set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, by_turns, real

import nsysconv
from nsysconv.facts import Fact

EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 1,
     "args": {"correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 4, "dur": 5,
     "args": {"correlation": 1, "device": 0, "stream": 7}},
]  # fmt: skip
ABOUT = {
    "record_shapes": (Fact.INPUT_SHAPES, Fact.INPUT_TYPES, Fact.COLLECTIVES),
    "with_flops": (Fact.INPUT_SHAPES, Fact.INPUT_TYPES),
    "with_stack": (Fact.STACKS, Fact.PYTHON_FUNCTIONS),
    "profile_memory": (Fact.MEMORY_EVENTS,),
}


def advice(path: Path, text: str) -> dict[Fact, str]:
    path.write_text(text)
    with nsysconv.open(path) as profile:
        return dict(profile.profile.advice)


def trace(**metadata: Any) -> str:
    return json.dumps({"schemaVersion": 1, **metadata, "traceEvents": EVENTS}, indent=1)


@pytest.mark.parametrize(("option", "value"), by_turns(ABOUT, [1, True], 2))
def test_what_was_set_is_not_asked_for(option: str, value: Any, tmp_path: Path) -> None:
    before, after = (advice(tmp_path / "t.json", trace(**{option: each})) for each in (0, value))
    assert before == advice(tmp_path / "t.json", trace())
    assert {fact for fact in before if before[fact] != after[fact]} == set(ABOUT[option])
    for fact in ABOUT[option]:
        assert f"Record with `{option}=True`" not in after[fact]
        assert fact is Fact.COLLECTIVES or f"`{option}=True` was set, but " in after[fact]


def test_it_is_known_where_it_comes_last_or_the_rest_is_damaged(tmp_path: Path) -> None:
    """As releases before 2.8 write the metadata; and where a user's own key is no JSON."""
    events = json.dumps(EVENTS)
    last = f'{{"schemaVersion": 1,\n"traceEvents": {events},\n"profile_memory": 1\n}}'
    damaged = f'{{"schemaVersion": 1,\n"mine": "\\q,\n"profile_memory": 1,\n"traceEvents": {events}\n}}'
    for text in (last, damaged):
        assert "was set" in advice(tmp_path / "t.json", text)[Fact.MEMORY_EVENTS]


def test_python_functions_that_the_import_left_out_are_there(tmp_path: Path) -> None:
    function = {"ph": "X", "cat": "python_function", "name": "f", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
    text = json.dumps({"schemaVersion": 1, "with_stack": 1, "traceEvents": [*EVENTS, function]})
    assert "--include python_functions" in advice(tmp_path / "t.json", text)[Fact.PYTHON_FUNCTIONS]


@real
def test_a_real_trace_says_that_memory_was_recorded() -> None:
    (lines,) = (
        line for line in nsysconv.info(REAL / "bug_reports/b50.json")[1].rows()
        if line["fact"] == Fact.MEMORY_EVENTS.label
    )  # fmt: skip
    assert lines["advice"] == "`profile_memory=True` was set, but it is not in the trace."
