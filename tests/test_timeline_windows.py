"""Slices of several windows: by hand, instant by instant, and as the sum of their windows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import examples
from hypothesis import example, given
from hypothesis import strategies as st
from slow_versions import Slow, instants, runs
from small_store import (
    Call,
    Kernel,
    Memcpy,
    Memset,
    Overhead,
    Range,
    Row,
    answers,
    cell,
    cells,
    opened,
    write,
)

from nsysconv import api
from nsysconv.api import Slice
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.queries import REPORTS
from nsysconv.report import Report
from nsysconv.timeline.account import TimeSpan, account
from nsysconv.timeline.intervals import Union
from nsysconv.timeline.windows import window_of

# The windows [0, 40) and [60, 120), of which the second is two ranges that touch:
#
#   r         [0, 40)          [60, 100)[100, 120)
#   kernels      10-30  35-----70    90---------130
#   calls      2-4 A  20-22 B      80-85 C
RANGES = (Range(0, 40, "r"), Range(60, 100, "r"), Range(100, 120, "r"))
EXAMPLE: tuple[Row, ...] = (
    *RANGES, Call(2, 4, 1), Call(20, 22, 2), Call(80, 85, 3), Kernel(10, 30, 1, name="A"),
    Kernel(35, 70, 2, name="B"), Kernel(90, 130, 3, name="C"))  # fmt: skip
ALL = Slice(range="r#*")


def test_unions_are_of_both_windows_and_rows_count_whole() -> None:
    """Busy 20 + 5 in the first window, 10 + 30 in the second."""
    asked = "overview kernel_count kernel_sum_ns window_ns busy_ns idle_ns window_start_ns"
    assert cell(asked, *EXAMPLE, part=ALL) == (3, 20 + 35 + 40, 40 + 60, 25 + 40, 35, 0)


def test_a_gap_ends_where_its_window_does() -> None:
    """Without B."""
    rows = (*RANGES, Call(2, 4, 1), Call(80, 85, 3), Kernel(10, 30, 1), Kernel(90, 130, 3))
    found = cells("idle_gaps start_ns dur_ns cause", *rows, part=ALL)
    assert sorted(found) == [(0, 10, "queue"), (30, 10, "end"), (60, 30, "host")]


def test_parts_of_gaps_are_those_of_each_window() -> None:
    """[0, 10): host 2, call 2, queued 6. [30, 35): queued. [70, 90): host to 80, call to 85, queued."""
    parts = cell("idle_summary host_sum_ns launch_sum_ns queue_sum_ns gap_count", *EXAMPLE, part=ALL)
    assert parts == (2 + 10, 2 + 5, 6 + 5 + 5, 3)


def test_the_first_the_second_and_all_of_a_name() -> None:
    windows = {text: cell("overview window_start_ns window_ns", *EXAMPLE, part=Slice(range=text))
               for text in ("r", "r#1", "r#2", "r#3", "r#*", "*#*")}  # fmt: skip
    assert windows == {"r": (0, 40), "r#1": (0, 40), "r#2": (60, 40), "r#3": (100, 20),
                       "r#*": (0, 100), "*#*": (0, 100)}  # fmt: skip


def test_a_range_whose_name_ends_in_the_sign_for_all_comes_first() -> None:
    rows = (Range(0, 10, "r"), Range(20, 30, "r"), Range(40, 45, "r#*"), Kernel(0, 50))
    assert cell("overview window_ns", *rows, part=Slice(range="r#*")) == 5


def test_what_is_said_of_the_windows() -> None:
    with opened(*EXAMPLE) as profile:
        profile.narrow(ALL)
        assert profile.timeline.slice_description == {
            "start_ns": 0, "end_ns": 120, "window_count": 2, "window_ns": 100,
            "range": "r#*"}  # fmt: skip


def test_windows_of_what_was_launched_in_each_range() -> None:
    """A and B are launched in the first, from 10 to 70, C in the second."""
    part = Slice(range="r#*", projected=True)
    assert cell("overview window_ns busy_ns", *EXAMPLE, part=part) == (60 + 40, 55 + 40)


STEPS = tuple(Range(20 * i, 20 * i + 10, f"step {i}") for i in range(5))


def test_steps_without_the_time_between_them() -> None:
    """Steps of 10 ns each 20 ns; a kernel runs all the time."""
    rows = (*STEPS, Kernel(0, 90))
    windows = {text: cell("overview window_ns", *rows, part=Slice(step=text)) for text in
               ("1", "1:3", "*", "step 2", "step*")}  # fmt: skip
    assert windows == {"1": 10, "1:3": 30, "*": 50, "step 2": 10, "step*": 50}


def test_a_step_that_is_cut_in_two() -> None:
    """The step [0, 100) in the windows [10, 20) and [50, 60); the kernel covers 15 to 55."""
    rows = (Range(0, 100, "ProfilerStep#1"), Range(10, 20, "w"), Range(50, 60, "w"), Kernel(15, 55))
    (found,) = [row for row in _report("steps", *rows, part=Slice(range="w#*"))
                if row["step"] == "ProfilerStep#1"]  # fmt: skip
    assert (found["start_ns"], found["dur_ns"], found["kernel_ns"]) == (10, 20, 5 + 5)


def test_the_time_between_steps_is_cut_to_the_windows() -> None:
    """Between the steps is [10, 30), of which [20, 25) is in a window."""
    rows = (Range(0, 10, "ProfilerStep#1"), Range(30, 40, "ProfilerStep#2"), Range(5, 8, "w"),
            Range(20, 25, "w"), Range(30, 33, "w"), Kernel(0, 40))  # fmt: skip
    rows_of = _report("steps", *rows, part=Slice(range="w#*"))
    assert [(row["step"], row["dur_ns"]) for row in rows_of] == [
        ("ProfilerStep#1", 3), ("ProfilerStep#2", 3), ("[between steps]", 5)]  # fmt: skip


def test_bins_of_the_time_line_between_windows_are_left_out() -> None:
    """Ten bins of 12 ns; [40, 60) is no window, so that the fifth, [48, 60), is left out."""
    found = _report("utilization_over_time:bins=10", *EXAMPLE, part=ALL)
    assert [row["bin"] for row in found] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert (found[3]["dur_ns"], found[3]["busy_ns"]) == (40 - 36, 40 - 36)
    assert sum(row["dur_ns"] for row in found) == 100
    assert sum(row["busy_ns"] for row in found) == 65


def _report(name: str, *rows: Row, part: Slice) -> list[dict[str, Any]]:
    return answers(name, *rows, part=part, limit=0)


# -- against instants

moment = st.integers(1, 60)  # 0 with a length of 0 would be no time
spans = st.tuples(moment, st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@st.composite
def programs(draw: st.DrawFn) -> list[Row]:
    rows: list[Row] = []
    for number in range(draw(st.integers(1, 7))):
        start, end = draw(spans)
        kind = draw(st.sampled_from((Kernel, Kernel, Memcpy, Memset)))
        rows.append(kind(start, end, number + 1, draw(st.sampled_from((7, 8)))))
        if draw(st.booleans()):
            begun = draw(st.integers(1, start))
            rows.append(Call(begun, begun + draw(st.integers(0, 5)), number + 1))
    if draw(st.booleans()):
        rows.append(Overhead(*draw(spans)))
    return rows


windows = st.lists(spans.filter(lambda span: span[1] > span[0]), min_size=1, max_size=6)


@examples(100)
@given(programs(), windows)
def test_gaps_and_parts_are_those_of_each_window(rows: list[Row], several: list[Any]) -> None:
    slow, parts = Slow(rows), runs(instants(several))
    expected = sorted((gap.start, gap.dur, tuple(gap.parts.values()))
                      for part in parts for gap in slow.gaps("no_op", part))  # fmt: skip
    busy = sum(len(slow.busy(0, part)) for part in parts)
    with opened(*rows, *(Range(*span, "w") for span in several)) as profile:
        found = profile.report("idle_gaps", slice=Slice(range="w#*"), limit=0).rows()
        names = [column for column in found[0] if column.endswith("_ns")] if found else []
        of_parts = [f"{part}_ns" for part in
                    ("host", "launch", "queue", "migration", "profiler", "unknown", "end")]  # fmt: skip
        assert set(of_parts) <= set(names) or not found
        assert sorted((row["start_ns"], row["dur_ns"], tuple(row[name] for name in of_parts))
                      for row in found) == expected  # fmt: skip
        (row,) = profile.report("overview", slice=Slice(range="w#*")).rows()
        assert (row["window_ns"], row["busy_ns"]) == (sum(e - s for s, e in parts), busy)


@examples(80)
@given(programs(), windows)
@example([Kernel(1, 1, 1), Kernel(4, 4, 2)], [(2, 3), (4, 5)])
def test_the_account_of_windows_is_the_sum_of_theirs(rows: list[Row], several: list[Any]) -> None:
    """With a slice, and of the whole time line over the windows."""
    parts = runs(instants(several))
    several_at_once = window_of(Union(*(np.array(edge) for edge in zip(*parts, strict=True))))
    span = TimeSpan(several_at_once.start, several_at_once.end, parts=several_at_once.parts)
    with opened(*rows, *(Range(*each, "w") for each in several)) as profile:
        each = [account(profile.timeline, 0, TimeSpan(*part)) for part in parts]
        whole = account(profile.timeline, 0, span)
        assert whole.times == {name: sum(one.times[name] for one in each) for name in whole.times}
        assert sum(whole.times.values()) == span.length
        spent: dict[str, int] = defaultdict(int)
        for one in each:
            for entry in one.entries:
                spent[entry.name] += entry.sum_ns
        # What lasts 0 ns has an entry or none.
        found = {entry.name: entry.sum_ns for entry in whole.entries if entry.sum_ns}
        assert found == {name: ns for name, ns in spent.items() if ns}
        profile.narrow(Slice(range="w#*"))
        sliced = account(profile.timeline, 0, span)
        assert sum(sliced.times.values()) == span.length


# -- every report is the sum of its windows where nothing lies across an edge

# What of a report does not add up although it is a number of things, and why.
NO_SUM = {
    "thread_count": "a thread works in several windows",
    "process_count": "a process does, too",
    "step_count": "a profile's steps are those of all windows",
    "name_count": "a name comes in several windows",
    "level": "a place in the tree",
    "pid": "a number",
    "tid": "a number",
    "cycle_count": "a recording has its cycles in each window",
    "rank_count": "a rank communicates in several windows",
}
_EXTREME = re.compile(
    r"start_ns$|_id$|^top_|(?:^|_)(?:min|max|med|avg|p\d\d|per_step|stddev)_|_(?:min|max)$"
)
WHOLE_ONLY = {
    "timeline_tiles": "its tiles are cut from the whole slice",
    "utilization_over_time": "bins are of the whole slice",
    "gpu_time_util_map": "bins are of the whole slice",
    "gpu_time_util": "chunks are of the whole slice",
    "queue_length": "a level at moments",
    "findings": "what is a finding depends on its share",
    "memory": "blocks live across windows",
    "kernel_sequences": "a sequence may go on in the next window",
}


def _additive(report: Report) -> list[str]:
    return [
        column.name for column in report.columns
        if column.name not in NO_SUM and not column.key and (
            column.adds or column.counted_by is not None or column.name.endswith("_count"))
        and not _EXTREME.search(column.name)
    ]  # fmt: skip


def _sums(reports: list[Report]) -> dict[Any, dict[str, int]]:
    result: dict[Any, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for report in reports:
        keys = [column.name for column in report.columns if column.key]
        for row in report.rows() if report.table is not None else []:
            for name in _additive(report):
                value = row[name]
                if isinstance(value, int):
                    result[tuple(row[key] for key in keys)][name] += value
    return {key: dict(values) for key, values in result.items() if values}


def _of_windows(count: int) -> list[Row]:
    """In each window of 100 ns a range, calls, kernels and copies; the same between windows."""
    rows: list[Row] = []
    for number in range(2 * count):
        at, link = 100 * number, 10 * number
        name = "w" if number % 2 == 0 else "other"
        rows += [
            Range(at, at + 100, name), Range(at + 5, at + 60, "inner"), Call(at + 10, at + 14, link + 1),
            Call(at + 20, at + 24, link + 2), Call(at + 30, at + 35, link + 3, name="cudaMemcpyAsync"),
            Kernel(at + 16, at + 25 + number, link + 1, name="gemm"),
            Kernel(at + 50, at + 60, link + 2, name="ncclDevKernel_AllReduce", stream=8),
            Memcpy(at + 70, at + 80 + number, link + 3, bytes=1000 + number)]  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def of_two_windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[api.OpenProfile]:
    store = tmp_path_factory.mktemp("windows") / "small.db"
    write(store, *_of_windows(2))
    with api.open(store) as profile:
        yield profile


@pytest.mark.parametrize("name", sorted(set(REPORTS) - WHOLE_ONLY.keys()))
def test_every_report_adds_up_over_windows(name: str, of_two_windows: api.OpenProfile) -> None:
    try:
        whole, *parts = (of_two_windows.report(name, slice=Slice(range=f"w#{which}"), limit=0)
                         for which in "*12")  # fmt: skip
    except (NotRecorded, UsageError) as error:
        pytest.skip(f"not of this profile: {error.what}")
    assert _sums([whole]) == _sums(parts)
