"""The account of a device over time: by hand, instant by instant, and its tiles against its pieces."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from slow_versions import Slow
from small_store import Call, Kernel, Memcpy, Overhead, Range, Row, answers, opened
from test_timeline_account import profiles, slow_class

from nsysconv import Slice
from nsysconv.errors import UsageError
from nsysconv.timeline.account import account, span_of
from nsysconv.timeline.idle import window

NCCL = "ncclDevKernel_AllReduce"

# Two streams, one of which communicates; the gap [90, 200) is ended by a kernel that is called at 150.
ROWS: tuple[Row, ...] = (
    Kernel(10, 50, name="gemm"),
    Kernel(40, 70, name=NCCL, stream=8),
    Memcpy(60, 90, stream=9),
    Overhead(110, 120),
    Range(100, 140, "load"),
    Call(150, 170, 5),
    Kernel(200, 210, 5, name="gemm"),
)


def pieces(*rows: Row, **asked: Any) -> list[tuple[Any, ...]]:
    """Start, end, class and gap of each piece of the account."""
    return [(row["start_ns"], row["start_ns"] + row["dur_ns"], row["time_class"], row["gap"])
            for row in answers("timeline_account", *rows, **asked)]  # fmt: skip


def test_by_hand() -> None:
    assert pieces(*ROWS) == [
        (10, 50, "computation", None),
        (50, 70, "communication", None),  # its first 10 ns lie beside computation
        (70, 90, "memcpy", None),
        (90, 110, "idle_host", "gap:1"),
        (110, 120, "idle_profiler", "gap:1"),
        (120, 150, "idle_host", "gap:1"),
        (150, 170, "idle_launch", "gap:1"),
        (170, 200, "idle_queue", "gap:1"),
        (200, 210, "computation", None),
    ]


def test_a_piece_of_a_gap_says_what_the_host_did_and_what_ended_it() -> None:
    row = answers("timeline_account", *ROWS)[3]
    found = [row[name] for name in ("gap_start_ns", "during", "during_ns", "next_op", "event", "call")]
    # In its 50 ns without the profiler the host is in the range for [100, 110) and [120, 140).
    assert found == [90, "load", 30, "gemm", "kernel:3", "api_call:1"]


def test_a_slice_cuts_pieces() -> None:
    assert pieces(*ROWS, part=Slice((45, 130))) == [
        (45, 50, "computation", None),
        (50, 70, "communication", None),
        (70, 90, "memcpy", None),
        (90, 130, "idle_end", "gap:1"),
    ]


def test_parts_and_the_longest_gaps() -> None:
    rows = [Kernel(100 * i, 100 * i + 90 - 10 * (i == 3), name="k") for i in range(6)]
    # Gaps of 10 ns, but after the fourth kernel one of 20: [380, 400).
    with opened(*rows) as profile:
        def starts(spec: str) -> list[int]:
            return [row["start_ns"] for row in profile.report(spec).rows()]

        assert starts("timeline_account:parts=95:105") == [90, 100]
        assert starts("timeline_account:parts=95:105:gaps=1") == [90, 100, 380]
        assert starts("timeline_account:parts=95:105:gaps=9") == [90, 100, 190, 290, 380, 490]


def test_a_gap_is_there_with_all_its_parts() -> None:
    with opened(*ROWS) as profile:
        found = profile.report("timeline_account:parts=160:161").rows()
    assert [row["start_ns"] for row in found] == [90, 110, 120, 150, 170]


@pytest.mark.parametrize("spec", ["account_tiles:bins=0", "account_tiles:levels=0"])
def test_what_cannot_be_cut_is_refused(spec: str) -> None:
    with opened(*ROWS) as profile, pytest.raises(UsageError):
        profile.report(spec)


@pytest.mark.usefixtures("small_blocks")
@examples(150)
@given(profiles(), st.integers(1, 40))
def test_instant_by_instant(rows: list[Row], bins: int) -> None:
    slow = Slow(rows)
    with opened(*rows) as profile:
        found = profile.report("timeline_account").rows()
        tiles = profile.report(f"account_tiles:bins={bins}:levels=2").rows()
        for device in profile.timeline.devices:
            parts = {t: part for gap in slow.gaps("no_op", None) if gap.device == device
                     for t, part in gap.part_at.items()}  # fmt: skip
            low, high = slow.window(device, None) or (0, 0)
            expected = {t: slow_class(slow, device, t, parts) for t in range(low, high)}
            mine = [row for row in found if row["device_id"] == device]
            at = [(t, row["time_class"]) for row in mine
                  for t in range(row["start_ns"], row["start_ns"] + row["dur_ns"])]  # fmt: skip
            assert at == list(expected.items())
            for width in {row["dur_ns"] for row in tiles}:
                cut = [row for row in tiles if (row["dur_ns"], row["device_id"]) == (width, device)]
                in_tiles: dict[Any, int] = {
                    (row["start_ns"], row["time_class"]): row["class_ns"] for row in cut}
                begin = min((row["start_ns"] for row in cut), default=0)
                slowly = Counter((begin + (t - begin) // width * width, name)
                                 for t, name in expected.items())  # fmt: skip
                assert in_tiles == slowly


@pytest.mark.usefixtures("small_blocks")
@examples(60)
@given(profiles())
def test_pieces_add_up_to_the_account(rows: list[Row]) -> None:
    with opened(*rows) as profile:
        found = profile.report("timeline_account").rows()
        for device in profile.timeline.devices:
            own = window(profile.timeline, device, profile.timeline.ops_on(device))
            times = account(profile.timeline, device, span_of(own)).times if own else {}
            added = Counter[str]()
            for row in found:
                if row["device_id"] == device:
                    added[row["time_class"]] += row["dur_ns"]
            assert added == {name: time for name, time in times.items() if time}
