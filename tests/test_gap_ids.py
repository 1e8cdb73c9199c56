"""A gap is an event: it has an id, in the whole profile and in slices, and `why` explains it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from slow_versions import Slow
from small_store import Call, Kernel, Memcpy, Range, Row, answers, by_hand, opened
from test_timeline_account import profiles

from nsysconv import Slice
from nsysconv.errors import AbsentError, UsageError

# The example of docs/definitions/events.md.
TWO_DEVICES: tuple[Row, ...] = (
    *(Kernel(*at) for at in ((0, 10), (30, 40), (45, 60))),
    *(Kernel(*at, device=1, stream=8) for at in ((0, 20), (50, 60))),
)
# The host loads from 20 to 90; the call of the second kernel comes then.
LATE: tuple[Row, ...] = (
    Kernel(0, 10, 1, name="first"),
    Range(20, 90, "load batch"),
    Call(0, 2, 1),
    Call(100, 105, 2),
    Kernel(110, 150, 2, name="second"),
    Kernel(155, 160, name="third"),
)


def ids(*rows: Row, **asked: Any) -> dict[tuple[Any, ...], str | None]:
    """The id of each gap by device, start and length."""
    return {(row["device_id"], row["start_ns"], row["dur_ns"]): row["gap"]
            for row in answers("idle_gaps", *rows, **asked)}  # fmt: skip


def test_gaps_are_numbered_device_by_device_in_the_order_of_time() -> None:
    assert ids(*TWO_DEVICES) == {
        (0, 10, 20): "gap:1", (0, 40, 5): "gap:2", (1, 20, 30): "gap:3"}  # fmt: skip


def test_a_gap_that_a_slice_cuts_has_the_id_of_the_profiles_gap() -> None:
    assert ids(*TWO_DEVICES, part=Slice((15, 42))) == {
        (0, 15, 15): "gap:1", (0, 40, 2): "gap:2", (1, 20, 22): "gap:3"}  # fmt: skip


def test_gaps_that_lie_in_no_gap_of_the_profile_have_no_id() -> None:
    # Before the first operation, and where a slice leaves operations out.
    rows = (Kernel(20, 30), Kernel(40, 50, stream=9), Kernel(60, 70))
    found = ids(*rows, time=(0, 90))
    assert found == {(0, 0, 20): None, (0, 30, 10): "gap:1", (0, 50, 10): "gap:2", (0, 70, 20): None}
    assert ids(*rows, part=Slice(streams=(7,))) == {(0, 30, 30): None}


@pytest.mark.parametrize("kind", ["no_kernel", "stream"])
def test_gaps_of_other_kinds_have_no_id(kind: str) -> None:
    rows = (Kernel(0, 10), Memcpy(20, 30), Kernel(40, 50))
    assert set(ids(*rows, idle=(kind,)).values()) == {None}


def test_a_limit_does_not_change_ids() -> None:
    with opened(*TWO_DEVICES) as profile:
        (row,) = profile.report("idle_gaps", limit=1).rows()
    assert (row["dur_ns"], row["gap"]) == (30, "gap:3")


@given(profiles(), st.tuples(st.integers(0, 50), st.integers(1, 20)))
def test_ids_against_the_slow_version(rows: list[Row], at: tuple[int, int]) -> None:
    whole = Slow(rows).gaps("no_op", None)
    number = {(gap.device, gap.start, gap.dur): f"gap:{place}" for place, gap in enumerate(whole, 1)}
    with opened(*rows) as profile:
        found = {(row["device_id"], row["start_ns"], row["dur_ns"]): row["gap"]
                 for row in profile.report("idle_gaps").rows()}  # fmt: skip
        assert found == number
        for gap, name in number.items():
            (row,) = profile.why(name).rows()
            assert (row["device_id"], row["start_ns"], row["dur_ns"]) == gap
        low, high = at[0], sum(at)
        try:
            sliced = profile.report("idle_gaps", slice=Slice((low, high)))
        except AbsentError:
            assume(False)  # nothing was recorded then
        for row in sliced.rows():
            mine = range(row["start_ns"], row["start_ns"] + row["dur_ns"])
            inside = [name for (device, start, dur), name in number.items()
                      if device == row["device_id"]
                      and start <= mine.start and mine.stop <= start + dur]  # fmt: skip
            assert [row["gap"]] == (inside or [None])


# -- why


def why(event: str, *rows: Row) -> dict[str, Any]:
    with opened(*rows) as profile:
        (row,) = profile.why(event).rows()
    return row


@by_hand(
    ("where and how long", "gap:1 kind start_ns dur_ns device_id", LATE, ("gap", 10, 100, 0)),
    # The call began at 100 and returned at 105; the kernel began at 110.
    ("its parts", "gap:1 cause host_ns launch_ns queue_ns", LATE, ("host", 90, 5, 5)),
    ("what the host did", "gap:1 during during_ns host_did", LATE,
     ("load batch", 70, "load batch 70 ns, [nothing recorded] 20 ns")),
    ("which call came late", "gap:1 call call_start_ns tid", LATE, ("api_call:2", 100, 11)),
    ("what ended it", "gap:1 gap gap_ended_by gap_ended_by_name", LATE, ("gap:1", "kernel:2", "second")),
    ("what ran before it", "gap:1 before_on_device before_on_device_name", LATE, ("kernel:1", "first")),
    ("without a call the cause is not known", "gap:2 cause unknown_ns call", LATE, ("unknown", 5, None)),
    ("among the gaps of its device", "gap:3 name_count name_max_ns", TWO_DEVICES, (1, 30)),
    ("the operation after it names it", "kernel:2 gap gap_ns", LATE, ("gap:1", 100)),
)  # fmt: skip
def test_why(ask: str, rows: tuple[Row, ...], expected: Any, options: dict[str, Any]) -> None:
    event, *columns = ask.split()
    row = why(event, *rows)
    assert tuple(row[column] for column in columns) == expected


def test_the_words_of_a_gap() -> None:
    with opened(*LATE) as profile:
        (said,) = profile.why("gap:1").texts
    assert said.lines[3:-1] == (
        "   1 of 2 gaps of this GPU; median 52 ns (this one 1.90×); this is the longest",
        "   CPU-bound 90 ns, launch latency 5 ns, queued 5 ns",
        "   the host meanwhile: load batch 70 ns, [nothing recorded] 20 ns",
        "it began as kernel:1 first ended",
        "it ended as kernel:2 second began",
        "which was launched by api_call:2 cudaLaunchKernel on thread 11",
        "   at 100 ns for 5 ns; it started 10 ns after the call began, 5 ns after it returned",
    )


@pytest.mark.parametrize("number", [0, 3])
def test_a_gap_that_there_is_not(number: int) -> None:
    with opened(*LATE) as profile, pytest.raises(UsageError, match=f"no event gap:{number}") as caught:
        profile.why(f"gap:{number}")
    assert "gap:1 to gap:2" in str(caught.value.hint)


# -- findings


def test_a_finding_on_idle_time_leads_to_its_gap() -> None:
    ms = 1_000_000
    rows = (
        *(row for i in range(4) for row in (
            Call((10 * i) * ms, (10 * i) * ms + 9, i + 1),
            Kernel((10 * i) * ms + 10, (10 * i + 2) * ms, i + 1, name="k"))),
        # After gaps of 8 ms one of 20 ms.
        Call(52 * ms, 52 * ms + 9, 9), Kernel(52 * ms + 10, 54 * ms, 9, name="k"),
    )  # fmt: skip
    found = {row["rule"]: row for row in answers("findings", *rows)}
    assert (found["host_bound"]["gap"], found["host_bound"]["event"]) == ("gap:4", "kernel:5")
    with opened(*rows) as profile:
        (row,) = profile.why("gap:4").rows()
    assert row["dur_ns"] == 20 * ms + 10


def test_the_time_of_the_call_is_whole_however_long() -> None:
    rows = (Call(1, 5, 1), Kernel(10, 20, 1), Call(119_718_242, 119_722_352, 2),
            Kernel(119_990_696, 120_000_000, 2))  # fmt: skip
    with opened(*rows) as profile:
        (said,) = profile.why("gap:1").texts
    words = " ".join(line.strip() for line in said.lines)
    assert "it started 272.45 µs after the call began, 268.34 µs after it returned" in words
