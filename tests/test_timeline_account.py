"""Where the time of a device went: by hand, against other reports, and instant by instant."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from slow_versions import Slow, instants
from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Overhead,
    Range,
    Row,
    Total,
    hand_computed,
    opened,
    step,
)
from test_timeline_properties import LAST, Choice

from nsysconv import Slice
from nsysconv.facts import Fact
from nsysconv.report import MISSING
from nsysconv.timeline.account import (
    CLASSES,
    OPERATION_CLASSES,
    Account,
    Accounts,
    TimeSpan,
    account,
    accounts,
    steps_span,
)
from nsysconv.timeline.slices import StepRule
from nsysconv.timeline.steps import extent
from nsysconv.timeline.timeline import Timeline

NCCL = "ncclDevKernel_AllReduce"


def times_on(timeline: Timeline, device: int = 0, span: TimeSpan | None = None) -> dict[str, int]:
    """The classes that have some time; that all add up is checked everywhere."""
    if span is None:  # that of the device's window
        (span,) = (each.span for each in accounts(timeline).of_window if each.device_id == device)
    found = account(timeline, device, span)
    assert_adds_up(found)
    return {name: time for name, time in found.times.items() if time}


def assert_adds_up(found: Account) -> None:
    assert tuple(found.times) == CLASSES
    assert all(type(time) is int and time >= 0 for time in found.times.values())
    assert sum(found.times.values()) == found.span.length


def times(*rows: Row, span: tuple[int, int] | None = None, **options: Any) -> dict[str, int]:
    with opened(*rows, **options) as profile:
        return times_on(profile.timeline, span=None if span is None else TimeSpan(*span))


# -- classes


EXAMPLE = (
    Kernel(0, 40, stream=1, name="K1"), Kernel(30, 60, stream=2, name="K2"),
    Kernel(50, 80, stream=3, name=NCCL),
    Call(95, 100, 4), Kernel(100, 120, 4, stream=1, name="K1"),
)  # fmt: skip


test_classes_by_hand = hand_computed(
    ("the example of the documentation", times, EXAMPLE,
     {"computation": 60 + 20, "communication": 20, "idle_host": 15, "idle_launch": 5}),
    ("an instant goes to the first class of what runs in it", times,
     (Migration(0, 60), Memset(10, 50), Memcpy(20, 45), Kernel(25, 40, name=NCCL), Kernel(30, 35)),
     {"computation": 5, "communication": 10, "memcpy": 10, "memset": 15}),
    ("an instant goes to the first class of what runs in it (2)", times,
     (Migration(0, 60), Memset(10, 50), Memcpy(20, 45), Kernel(25, 40, name=NCCL), Kernel(30, 35)),
     {"before": 10, "computation": 5, "communication": 10, "memcpy": 10, "memset": 15, "after": 10,},
     {"span": (0, 60)}),
    ("migrations between operations have time of their own", times,
     (Kernel(0, 10), Migration(5, 30), Kernel(40, 50)),
     {"computation": 20, "migration": 20, "idle_unknown": 10}),
    ("a graph recorded as one interval is computation", times,
     (Graph(0, 10), Kernel(5, 20, stream=8, name=NCCL)), {"computation": 10, "communication": 10}),
    ("a gap is unknown without links between calls and operations", times,
     (Kernel(10, 20), Call(50, 70, 2), Kernel(90, 110)), {"computation": 15, "idle_unknown": 70},
     {"span": (15, 100)}),
    ("a gap that a migration ends is the migration's", times,
     (Kernel(0, 10), Migration(30, 40), Kernel(40, 50)),
     {"idle_migration": 10, "migration": 10, "computation": 10}, {"span": (20, 50)}),
    ("operations without a time are nowhere", times, (Kernel(None, None), Kernel(10, 20)),
     {"computation": 10}),
)  # fmt: skip


def test_each_device_has_its_own_account() -> None:
    with opened(Kernel(0, 10), Kernel(5, 30, device=1), Memcpy(25, 40, device=1)) as profile:
        assert times_on(profile.timeline, 0) == {"computation": 10}
        assert times_on(profile.timeline, 1) == {"computation": 25, "memcpy": 10}


def test_operations_that_name_no_device_have_an_account() -> None:
    with opened(Kernel(0, 10, device=None)) as profile:
        found = account(profile.timeline, MISSING, TimeSpan(0, 12))
    assert found.device_id is None
    assert found.times["computation"] == 10


def test_the_rank_is_that_of_the_only_ranked_process() -> None:
    with opened(Kernel(0, 10), Kernel(0, 10, pid=2, device=1), ranks={1: 5, 2: 6}) as profile:
        assert [found.rank for found in accounts(profile.timeline).of_window] == [5, 6]


# -- spans


CUT = (
    Call(0, 5, 1), Kernel(10, 20, 1), Overhead(30, 36), Call(50, 70, 2), Kernel(90, 110, 2),
)  # fmt: skip
"""A gap [20, 90): host to 50 but for 6 of the profiler, launch to 70, then queue."""


@pytest.mark.parametrize(("span", "expected"), [
    ((10, 110), {"computation": 30, "idle_host": 24, "idle_profiler": 6, "idle_launch": 20,
                 "idle_queue": 20}),
    ((0, 120), {"before": 10, "computation": 30, "idle_host": 24, "idle_profiler": 6,
                "idle_launch": 20, "idle_queue": 20, "after": 10}),
    ((10, 33), {"computation": 10, "idle_host": 10, "idle_profiler": 3}),
    ((33, 60), {"idle_host": 14, "idle_profiler": 3, "idle_launch": 10}),
    ((60, 95), {"idle_launch": 10, "idle_queue": 20, "computation": 5}),
    ((65, 66), {"idle_launch": 1}),
    ((19, 21), {"computation": 1, "idle_host": 1}),
    ((0, 10), {"before": 10}),
    ((2, 8), {"before": 6}),
    ((110, 130), {"after": 20}),
    ((115, 130), {"after": 15}),
    ((50, 50), {}),
])  # fmt: skip
def test_a_span_cuts_operations_and_gaps(
    span: tuple[int, int], expected: dict[str, int]
) -> None:
    assert times(*CUT, span=span) == expected


FAR = 5_000_000_000


def test_clocks_that_disagree_leave_the_window_alone() -> None:
    rows = (
        Call(0, 5, 1), Call(6, 8, 2), step(1, 0, 9),
        Kernel(FAR, FAR + 10, 1), Kernel(FAR + 30, FAR + 40, 2),
    )  # fmt: skip
    with opened(*rows) as profile:
        assert profile.timeline.clocks_disagree
        assert times_on(profile.timeline) == {"computation": 20, "idle_unknown": 20}
        assert steps_span(profile.timeline) is None
        assert accounts(profile.timeline).of_steps is None


@pytest.mark.parametrize(("name", "direction", "disagree"), [
    ("cudaMemcpy", "DtoH", True), ("cudaMemcpy_v3020", "DtoH", True), ("cudaMemcpy2D", "DtoH", True),
    ("cuMemcpyDtoH_v2", "DtoH", True), ("hipMemcpy", "DtoH", True), ("hipMemcpyDtoH", "DtoH", True),
    ("hsa_memory_copy", "DtoH", True), ("cudaMemcpyAsync", "DtoH", False),
    ("hipMemcpyDtoHAsync", "DtoH", False), ("cudaMemcpy", "HtoD", False),
])  # fmt: skip
def test_a_copy_ends_within_the_call_that_waits_for_it(
    name: str, direction: str, disagree: bool
) -> None:
    """A millisecond later is no fault; one ns more, and its clock is another one."""
    copy = Memcpy(4, 1_000_007, 1, direction=direction)
    for end, disagrees in ((6, disagree), (7, False)):
        with opened(Call(0, end, 1, name=name), copy) as profile:
            assert profile.timeline.clocks_disagree is disagrees


def test_a_device_without_a_window_is_before_its_first_operation() -> None:
    with opened(Migration(5, 10), Kernel(0, 20, device=1)) as profile:
        assert times_on(profile.timeline, 0, TimeSpan(0, 20)) == {"before": 20}
        assert [found.device_id for found in accounts(profile.timeline).of_window] == [1]


def test_steps_are_counted_by_the_process_that_has_most() -> None:
    rows = (
        step(1, 10, 20), step(2, 20, 30), step(3, 35, 50), step(1, 5, 20, pid=2, tid=12),
        Call(11, 12, 1), Kernel(40, 70, 1),
    )  # fmt: skip
    with opened(*rows) as profile:
        assert steps_span(profile.timeline) == TimeSpan(5, 70, 3)
        assert steps_span(profile.timeline, StepRule("epoch *")) is None


def test_steps_that_a_slice_cuts_are_left_out() -> None:
    rows = [step(i, 10 * i, 10 * i + 10) for i in range(5)]
    with opened(*rows, Kernel(0, 50)) as profile:
        profile.narrow(Slice((5, 40)))
        assert steps_span(profile.timeline) == TimeSpan(10, 40, 3)
        profile.narrow(Slice((12, 18)))
        assert steps_span(profile.timeline) is None


def test_a_recording_lasts_from_the_first_to_the_last_thing_that_happened() -> None:
    with opened(Call(3, 5), Kernel(10, 20), Range(15, 44, "r"), Migration(0, 90)) as profile:
        assert extent(profile.timeline) == (3, 44)
        assert times_on(profile.timeline, 0, TimeSpan(3, 44)) == {
            "before": 7, "computation": 10, "after": 24}  # fmt: skip


def test_a_slice_is_the_window() -> None:
    with opened(*CUT) as profile:
        profile.narrow(Slice((5, 30)))
        assert [found.span for found in accounts(profile.timeline).of_window] == [TimeSpan(5, 30)]
        assert times_on(profile.timeline) == {"idle_queue": 5, "computation": 10, "idle_end": 10}


# -- works


def works(*rows: Row, span: tuple[int, int], **options: Any) -> dict[tuple[str, str], Any]:
    with opened(*rows, **options) as profile:
        found = account(profile.timeline, 0, TimeSpan(*span))
    return {(work.part, work.name): (work.count, work.sum_ns) for work in found.entries}


test_works_by_hand = hand_computed(
    ("works are by class and name and cut", works,
     (Kernel(0, 10, name="a"), Kernel(5, 30, stream=8, name="a"), Kernel(30, 50, name="b"),
      Kernel(20, 60, name=NCCL), Graph(35, 45), Memcpy(0, 20), Memset(0, 10), Migration(40, 99),
      Kernel(50, 60, name="late"), Kernel(10, 10, name="early")),
     {("computation", "a"): (1, 20), ("computation", "b"): (1, 20), ("computation", "early"): (1, 0),
      ("computation", "[graph launch]"): (1, 10), ("communication", NCCL): (1, 30),
      ("memcpy", "[memcpy]"): (1, 10), ("migration", "[UM]"): (1, 10),},
     {"span": (10, 50)}),
)  # fmt: skip


@pytest.mark.parametrize(("part", "count"), [(None, 2), (Slice((0, 100)), 1)])
def test_the_last_operation_counts_though_it_has_no_length(part: Slice | None, count: int) -> None:
    """A slice ends before the moment at which it ends."""
    with opened(Kernel(10, 100, name="a"), Kernel(100, 100, name="a")) as profile:
        if part is not None:
            profile.narrow(part)
        (found,) = accounts(profile.timeline).of_window
    assert [entry.count for entry in found.entries] == [count]


def test_a_migration_that_begins_after_the_window_does_not_count() -> None:
    with opened(Kernel(10, 100, name="a"), Migration(100, 120)) as profile:
        (found,) = accounts(profile.timeline).of_window
    assert [(entry.name, entry.count) for entry in found.entries] == [("a", 1)]


def test_the_time_of_a_class_is_its_durations_less_their_overlap() -> None:
    with opened(*EXAMPLE) as profile:
        (found,) = accounts(profile.timeline).of_window
    assert {part: found.overlap(part) for part in OPERATION_CLASSES} == {
        "computation": 10, "communication": 10, "memcpy": 0, "memset": 0, "migration": 0}  # fmt: skip


# -- what is not recorded


def test_without_kernels_there_is_no_account() -> None:
    with opened(Total("kernel", 5, 100, name="k"), holds={Fact.KERNEL_TOTALS}) as profile:
        assert accounts(profile.timeline) == Accounts((), None, (Fact.KERNELS,))


def test_what_is_not_recorded_is_not_nothing() -> None:
    with opened(Kernel(0, 10), without={Fact.MEMCPYS, Fact.UNIFIED_MEMORY}) as profile:
        (found,) = accounts(profile.timeline).of_window
    assert found.not_recorded == {"memcpy", "migration"}


def test_accounts_stay_when_events_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(*EXAMPLE) as profile:
        before = accounts(profile.timeline)
        profile.timeline.forget()
        assert accounts(profile.timeline) is before


def test_idle_time_before_a_migration_is_the_host_s_in_a_part_of_it() -> None:
    """The call at 2 is the last one before the migration at 3, also of [0, 2)."""
    rows = (
        Kernel(0, 1), Call(2, 2, 1, name="cudaMemcpyAsync"), Migration(3, 4), Kernel(4, 5),
    )  # fmt: skip
    with opened(*rows) as profile:
        found = account(profile.timeline, 0, TimeSpan(0, 2))
    assert (found.times["idle_host"], found.times["idle_migration"]) == (1, 0)


# -- against the slow version


def profiles() -> st.SearchStrategy[list[Row]]:
    """Random small profiles, all of whose rows have a time."""
    return st.integers(0, 2**32).map(lambda n: [row for row in Choice(n).rows if row.start is not None])


def slow_class(slow: Slow, device: int | None, t: int, parts: dict[int, str]) -> str:
    window = slow.window(device, None)
    if window is None or t < window[0]:
        return "before"
    if t >= window[1]:
        return "after"
    held = [op for op in slow.ops if op.device == device and op.start <= t < op.end]
    talks = [op for op in held if isinstance(op, Kernel) and op.name == NCCL]
    for name, those in (
        ("computation", [op for op in held if isinstance(op, Kernel | Graph) and op not in talks]),
        ("communication", talks),
        *((name, [op for op in held if isinstance(op, kind)]) for name, kind in
          (("memcpy", Memcpy), ("memset", Memset), ("migration", Migration))),
    ):  # fmt: skip
        if those:
            return name
    return f"idle_{parts[t]}"


@pytest.mark.usefixtures("small_blocks")
@examples(200)
@given(profiles(), st.tuples(st.integers(-2, 55), st.integers(-2, 55)).map(sorted))
def test_instant_by_instant(rows: list[Row], moments: list[int]) -> None:
    slow, span = Slow(rows, recording_ns=LAST), TimeSpan(*moments)
    with opened(*rows, recording_ns=LAST) as profile:
        for device in profile.timeline.devices:
            found = account(profile.timeline, device, span)
            assert_adds_up(found)
            parts = {t: part for gap in slow.gaps("no_op", None) if gap.device == device
                     for t, part in gap.part_at.items()}  # fmt: skip
            expected = Counter(slow_class(slow, device, t, parts) for t in range(*moments))
            assert Counter(found.times) == expected
            window = slow.window(device, None) or (0, 0)
            core = instants([window]) & set(range(*moments))
            spent = {part: sum(len(instants([(op.start, op.end)]) & core) for op in slow.ops
                               if op.device == device and slow_part(op) == part)
                     for part in OPERATION_CLASSES}  # fmt: skip
            assert {part: found.overlap(part) + found.times[part] for part in spent} == spent


def slow_part(op: Any) -> str:
    if isinstance(op, Kernel):
        return "communication" if op.name == NCCL else "computation"
    return {Graph: "computation", Memcpy: "memcpy", Memset: "memset", Migration: "migration"}[type(op)]
