"""`nsysconv find`: events of any kind by name, the longest first, and how many of each kind."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from golden_cases import run
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Memcpy, Operator, Range, Row, opened, write

import nsysconv
from nsysconv.errors import UsageError

# The kernel of 40 ns was launched in step 1, and runs in step 2.
ROWS: tuple[Row, ...] = (
    Range(0, 100, "ProfilerStep#1"),
    Range(100, 300, "ProfilerStep#2"),
    Range(10, 20, "gemm setup"),
    Operator(90, 99, "aten::gemm"),
    Call(90, 95, 1, name="cudaLaunchKernel"),
    Kernel(110, 150, 1, name="gemm_nn"),
    Kernel(160, 170, name="gemm_tn", device=1),
    Kernel(180, 290, name="relu"),
    Memcpy(295, 298, direction="HtoD"),
)


def found(pattern: str, **options: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    with opened(*ROWS) as profile:
        counts, events = profile.find(pattern, **options)
    return counts.rows(), events.rows()


def test_all_kinds_by_name_the_longest_first() -> None:
    counts, events = found("gemm")
    shown = [(row["event"], row["name"], row["dur_ns"], row["step"]) for row in events]
    assert shown == [
        ("kernel:1", "gemm_nn", 40, "ProfilerStep#1"),
        ("range:3", "gemm setup", 10, "ProfilerStep#1"),
        ("kernel:2", "gemm_tn", 10, "ProfilerStep#2"),
        ("operator:1", "aten::gemm", 9, "ProfilerStep#1"),
    ]
    places = [(row["device_id"], row["tid"]) for row in events]
    assert places == [(0, None), (None, 11), (1, None), (None, 11)]
    kinds = [(r["kind"], r["event_count"], r["name_count"], r["sum_ns"], r["max_ns"]) for r in counts]
    assert kinds == [("kernel", 2, 2, 50, 40), ("range", 1, 1, 10, 10), ("operator", 1, 1, 9, 9)]


@pytest.mark.parametrize(("pattern", "options", "events"), [
    ("^cudaLaunch", {}, ["api_call:1"]),
    ("memcpy HtoD", {}, ["memcpy:1"]),
    ("ProfilerStep#2", {}, ["range:2"]),
    ("gemm", {"limit": 1}, ["kernel:1"]),
    ("gemm", {"devices": 1}, ["range:3", "kernel:2", "operator:1"]),
    ("(?i)RELU", {}, ["kernel:3"]),
    ("nosuch", {}, []),
])  # fmt: skip
def test_patterns_and_slices(pattern: str, options: dict[str, Any], events: list[str]) -> None:
    assert [row["event"] for row in found(pattern, **options)[1]] == events


def test_a_wrong_pattern_is_an_error() -> None:
    with pytest.raises(UsageError, match="not a regular expression"):
        found("(")


KERNELS = st.tuples(st.sampled_from(("gemm", "relu", "gelu")), st.integers(1, 50), st.integers(0, 9))


@given(st.lists(KERNELS, min_size=1, max_size=12))
def test_it_is_what_a_listing_says(kernels: list[tuple[str, int, int]]) -> None:
    """As `timeline_events`, of those whose name matches, ordered by length."""
    rows = [Kernel(start, start + dur, name=name, stream=stream)
            for stream, (name, start, dur) in enumerate(kernels)]  # fmt: skip
    with opened(*rows) as profile:
        counts, events = profile.find("e[lm]")
        listed = [row for row in profile.report("timeline_events") if re.search("e[lm]", row["name"])]
    expected = sorted((-row["dur_ns"], row["start_ns"], row["id"]) for row in listed)
    assert [(-row["dur_ns"], row["start_ns"], int(row["event"][7:])) for row in events] == expected
    assert sum(row["event_count"] for row in counts) == len(listed)


def test_the_command(tmp_path: Path) -> None:
    write(tmp_path / "run.db", *ROWS)
    brief = run("find", "run.db", "gemm", "-f", "json", "--brief", cwd=tmp_path)
    counts, events = json.loads(brief.out)["reports"]
    assert (counts["name"], events["name"], events["rows_total"]) == ("find_counts", "find", 4)
    event = events["rows"][0]["event"]
    assert run("why", "run.db", event, cwd=tmp_path).status == 0
    text = run("find", "run.db", "gemm", "--limit", "1", cwd=tmp_path).out
    assert "1 of 4 rows" in text
    with nsysconv.open(tmp_path / "run.db") as profile:
        assert [row["event"] for row in profile.find("gemm", limit=1)[1]] == [event]
