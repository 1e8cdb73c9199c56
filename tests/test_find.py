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


def test_views_have_the_steps_that_find_says() -> None:
    """Also of a file, and of what began between the runs of rows that are in one step."""
    with opened(*ROWS) as profile:
        for view, kind in (("v_gpu_op", "v.kind"), ("v_kernel", "'kernel'"), ("v_api_call", "'api_call'"),
                           ("v_range", "'range'"), ("v_operator", "'operator'")):  # fmt: skip
            rows = profile.sql(f"select {kind} as kind, id, v.step, OCCURRENCE,"
                               f" (select count(*) from {view}) as n from {view} v")  # fmt: skip
            step_of = {row["event"]: row["step"] for row in profile.find(".")[1]}
            assert {f"{row['kind']}:{row['id']}": row["step"] for row in rows}.items() <= step_of.items()
            assert {row["occurrence"] for row in rows} == {1}
            assert {row["n"] for row in rows} == {len(rows)}


STEPS: tuple[Row, ...] = (
    Range(0, 40, "ProfilerStep#1", pid=2), Range(10, 20, "ProfilerStep#1", pid=2),
    *(Call(at, at + 1, at, pid=2) for at in (5, 15, 35, 45)), Kernel(50, 60, 35, pid=2),
    Kernel(70, 71, pid=2), Call(5, 6, pid=1), Kernel(5, 6, pid=1),
)  # fmt: skip
QUERIES = {
    "select occurrence, step from v_api_call order by pid, start_ns":
        [(None, None), (1, "ProfilerStep#1"), (2, "ProfilerStep#1"), (1, "ProfilerStep#1"), (None, None)],
    "select occurrence, step from v_gpu_op order by pid, start_ns":
        [(None, None), (1, "ProfilerStep#1"), (None, None)],
    "select k.step, count(*) as n from v_kernel k join v_api_call c on c.step = k.step group by k.step":
        [("ProfilerStep#1", 3)],
}  # fmt: skip
"""What is asked of STEPS, and the rows: of steps that overlap, the one that began last counts."""


@pytest.mark.parametrize("query", QUERIES)
def test_steps_of_views_repeat_and_overlap(query: str) -> None:
    with opened(*STEPS) as profile:
        assert [tuple(row.values()) for row in profile.sql(query)] == QUERIES[query]


def test_names_of_steps_are_kept_as_they_are() -> None:
    name = "ProfilerStep#1's \"?%s\" \\ $1; --"
    with opened(Range(0, 40, name), Call(5, 6, 1), Kernel(7, 8, 1)) as profile:
        assert profile.sql("select step from v_kernel").rows() == [{"step": name}]


def test_a_query_without_steps_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        pytest.fail("nothing asks for a step")

    monkeypatch.setattr("nsysconv.timeline.steps.steps_of_rows", fail)
    with opened(*ROWS) as profile:
        assert len(profile.sql("select * from v_kernel")) == 3
        assert len(profile.sql("select 1 as step from kernel")) == 3
        with pytest.raises(UsageError) as error:
            profile.sql("select stepp from v_kernel")
    assert "Did you mean step?" in error.value.hint


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
