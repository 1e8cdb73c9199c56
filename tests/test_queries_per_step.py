"""Sums per step: how steps are counted, and what is divided by them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, Shelf, changed, few, name_of
from hypothesis import given
from hypothesis import strategies as st
from small_store import (
    Call,
    Kernel,
    Memcpy,
    Operator,
    Range,
    Row,
    Total,
    answers,
    asked,
    cell,
    hand_computed,
    opened,
    step,
    write,
)
from test_render import rendered

from nsysconv import api
from nsysconv.api import Slice
from nsysconv.facts import Fact
from nsysconv.render import Options
from nsysconv.timeline.annotations import count_named
from nsysconv.timeline.sliced import sliced
from nsysconv.timeline.slices import StepRule
from nsysconv.timeline.steps import step_count, steps

REPORTS = ("kernels", "api_vs_kernel", "transfers", "idle_summary")


# Three steps of process 1 and two of process 2, so that sums are divided by three. Kernels a: 20 + 40
# and 30 of process 2 (device 0), calls 5 + 5 + 4, copies 12 ns of 3,000 bytes.
STEPS = (step(1, 0, 100), step(2, 100, 200), step(3, 200, 300),
         step(1, 0, 150, pid=2), step(2, 150, 300, pid=2))  # fmt: skip
WORK = (Call(10, 15, 1), Kernel(20, 40, 1, name="a"), Call(110, 115, 2), Kernel(120, 160, 2, name="a"),
        Kernel(160, 190, pid=2, name="a"), Call(210, 214, 3, name="cudaMemcpyAsync"),
        Memcpy(220, 232, 3, bytes=3000))  # fmt: skip


# -- what is divided


def test_api_calls() -> None:
    rows = {row["name"]: row["per_step_ns"] for row in answers("api_vs_kernel", *STEPS, *WORK)}
    assert rows == {"cudaLaunchKernel": 10 / 3, "cudaMemcpyAsync": 4 / 3, "[no API call]": None}


@pytest.mark.parametrize("report", REPORTS)
def test_without_steps_it_is_null(report: str) -> None:
    rows = (*WORK, Range(0, 300, "epoch"))
    assert {row["per_step_ns"] for row in answers(report, *rows)} == {None}
    assert {row["per_step_ns"] for row in answers(report, *STEPS, *rows, time=(210, 232))} != {None}


test_what_is_divided_by_hand = hand_computed(
    ("kernels", "kernels kernel_sum_ns per_step_ns", (*STEPS, *WORK),
     [(20 + 40 + 30, (20 + 40 + 30) / 3)]),
    ("copies", "transfers per_step_ns bytes_per_step", (*STEPS, *WORK), [(4.0, 1000.0)]),
    ("a copy whose size is not recorded has none per step", "transfers per_step_ns bytes_per_step",
     (*STEPS, Memcpy(0, 30, bytes=None)), [(10.0, None)]),
    # Gaps [40, 120) and [190, 220), of 80 and 30 ns.
    ("idle time", "idle_summary gap_sum_ns per_step_ns", (*STEPS, *WORK), [(80 + 30, (80 + 30) / 3)]),
    ("totals are divided by steps too", "kernels per_step_ns",
     (*STEPS, Total("kernel", 4, 120, name="a")), [120 / 3],
     {"holds": {Fact.KERNEL_TOTALS, Fact.RANGES}}),
    ("steps of another name", "kernels per_step_ns",
     (*STEPS, *WORK, Range(0, 50, "a b"), Range(60, 90, "a c")), [90 / 2], {"step_range": "a *"}),
)  # fmt: skip


# -- slices


@pytest.mark.parametrize(("part", "count", "total"), [
    (Slice(step="2"), 1, 40 + 30), (Slice(skip_first=1), 2, 40 + 30), (Slice(step="1:2"), 2, 90),
    (Slice((0, 100)), 1, 20), (Slice((150, 210)), 2, 40 + 30), (Slice(processes=(2,)), 2, 30),
    (Slice(devices=(0,)), 3, 90), (Slice(name="^a$"), 3, 90),
])  # fmt: skip
def test_steps_of_a_slice_divide_its_sums(part: Slice, count: int, total: int) -> None:
    assert cell("kernels kernel_sum_ns per_step_ns", *STEPS, *WORK, part=part) == (total, total / count)


def test_a_step_whose_work_is_not_done_is_in_a_slice_that_begins_after_its_annotation() -> None:
    """Step 1 lasts until its kernel has run, to 170: [160, 250) holds a part of it."""
    rows = (step(1, 0, 100), step(2, 100, 300), Call(90, 95, 1), Kernel(110, 170, 1))
    with opened(*rows) as profile:
        assert step_count(sliced(profile.timeline, Slice((160, 250)))) == 2
        assert step_count(sliced(profile.timeline, Slice((170, 250)))) == 1


def test_where_no_step_is_in_the_slice_it_is_null() -> None:
    assert cell("kernels per_step_ns", step(1, 0, 10), Kernel(50, 60), time=(40, 70)) is None


# -- counting


WITH_STEPS = [path for source in ("kineto", "nsys", "nvprof_database")
              for path in sorted((FIXTURES / source).glob("ranges-*"))]  # fmt: skip
SPELLED = ("ProfilerStep#1", "ProfilerStep#2", "profilerstep#3", "ProfilerStep", "a_b", "a%b", "aXb",
           "[no text]")  # fmt: skip
PATTERNS = ("ProfilerStep#*", "ProfilerStep#2", "*", "*Step*", "a_b", "a%b", "a*", "[no text]", "",
            "none")  # fmt: skip
moments = st.integers(0, 20)
annotation = st.one_of(
    st.builds(
        lambda start, end, name, kind, pid: Range(start, end, name, kind, pid=pid),
        moments, st.none() | st.just(30), st.sampled_from(SPELLED),
        st.sampled_from(("push_pop", "start_end", "mark")), st.sampled_from((1, 2)),
    ),
    st.builds(
        lambda start, end, name, kind, pid: Operator(start, end, name, kind, pid=pid),
        moments, st.none() | st.just(30), st.sampled_from(SPELLED),
        st.sampled_from(("operator", "python_function")), st.sampled_from((1, 2)),
    ),
)  # fmt: skip


@given(st.lists(annotation, max_size=8), st.sampled_from(PATTERNS))
def test_as_many_are_counted_as_are_in_the_report_of_steps(rows: list[Row], pattern: str) -> None:
    with opened(*rows) as profile:
        expected = {mine.pid: len(mine) for mine in steps(profile.timeline, StepRule(pattern))}
        assert count_named(profile.timeline, pattern) == expected
        assert step_count(profile.timeline, StepRule(pattern)) == max(expected.values(), default=0)


@pytest.mark.parametrize("path", few(WITH_STEPS, 2), ids=name_of)
def test_steps_of_a_file_are_counted_in_place_and_in_a_store(path: Path, shelf: Shelf) -> None:
    for target in (path, shelf.store(path)):
        with api.open(target) as profile:
            named = [row["pid"] for row in profile.report("steps").rows() if row["step"][0] != "["]
            assert step_count(profile.timeline) == max(map(named.count, named))
            # Of a name that one step has: other capitals are another name.
            assert step_count(profile.timeline, StepRule("ProfilerStep#2")) == 1
            assert step_count(profile.timeline, StepRule("profilerstep#2")) == 0


def test_marks_functions_and_what_has_no_time_are_no_steps() -> None:
    """Of operators, as of ranges, only what may be a step counts."""
    rows = (Range(0, 10, "s"), Range(10, None, "s", "mark"), Operator(0, 10, "s"),
            Operator(10, 20, "s", pid=2), Operator(20, 30, "s", "python_function"),
            Operator(30, None, "s"))  # fmt: skip
    with opened(*rows) as profile:
        assert count_named(profile.timeline, "s") == {1: 2, 2: 1}


def tables_read(monkeypatch: pytest.MonkeyPatch, *rows: Row) -> set[str]:
    """The tables of which columns are read to count steps."""
    found: set[str] = set()
    with opened(*rows, examined=True) as profile:
        columns = profile.profile.columns

        def noting(table: str, names: Collection[str]) -> Any:
            found.add(table)
            return columns(table, list(names))

        monkeypatch.setattr(profile.profile, "columns", noting)
        step_count(profile.timeline)
    return found


def test_counting_reads_no_launches_and_without_a_step_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (*WORK, Operator(0, 10, "aten::mm"), Range(0, 10, "epoch"))
    assert tables_read(monkeypatch, *rows) == set()
    assert tables_read(monkeypatch, *rows, *STEPS) == {"range"}


# -- what people see


def shown(name: str, width: int | None, *rows: Row, **options: Any) -> str:
    report = asked("kernels", *rows, **options)
    return rendered(name, report, options=Options(width=width)).replace("<wbr>", "")


@pytest.mark.parametrize(("name", "width"), [
    ("text", None), ("text", 80), ("text", 250), ("markdown", None), ("html", None)])  # fmt: skip
def test_per_step_column_is_shown_only_where_there_are_steps(name: str, width: int | None) -> None:
    assert "per_step" not in shown(name, width, *WORK)
    assert "per_step" in shown(name, width, *WORK, *STEPS)


def test_programs_always_have_the_column() -> None:
    assert ",per_step_ns," in shown("csv", None, *WORK).splitlines()[0]


def test_notes_on_ranges_are_said_only_where_steps_are_counted(tmp_path: Path) -> None:
    def slugs(name: str, *rows: Row) -> set[str]:
        write(tmp_path / name, *rows)
        note = "'range-unclosed', 'info', 1, '', 'ranges', 'ranges'"
        columns = "profile_id, slug, severity, count, place, text, facts"
        changed(tmp_path / name, f"INSERT INTO note ({columns}) SELECT id, {note} FROM profile")
        with api.open(tmp_path / name) as profile:
            return {found.slug for found in profile.report("kernels").notes}

    assert "range-unclosed" not in slugs("without.db", *WORK)
    assert "range-unclosed" in slugs("steps.db", *WORK, *STEPS)
