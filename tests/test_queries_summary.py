"""The time account adds up, and says what other reports say of the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    NSYS_FILES,
    REAL_FILES,
    REAL_TRACES,
    Shelf,
    by_turns,
    few,
    name_of,
    real,
)
from one_answer import EXAMPLES
from small_store import Call, Kernel, Memcpy, Memset, Overhead, Range, Total, answers, asked, cell

from nsysconv import api
from nsysconv.codes import TIME_CLASS_COLUMNS
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.present.answer import where_time_went

PARTS = ("host", "launch", "queue", "migration", "profiler", "unknown", "end")
every_fixture = pytest.mark.parametrize(
    "path", [*few(NSYS_FILES, 5), *EXAMPLES], ids=name_of
)
every_real_file = pytest.mark.parametrize(
    "path", [*few(REAL_FILES, 2), *few(REAL_TRACES, 1)], ids=name_of
)


def rows(profile: api.OpenProfile, name: str, **options: Any) -> list[dict[str, Any]]:
    try:
        return profile.report(name, **options).rows()
    except NotRecorded:
        return []


def check_account(profile: api.OpenProfile, **options: Any) -> None:
    """The classes add up to the span, and to the window what other reports say of it."""
    overview, overlap = (
        {row["device_id"]: row for row in rows(profile, name, **options)}
        for name in ("overview", "comm_overlap")
    )
    gaps = {
        (row["device_id"], part): 0 for row in rows(profile, "overview", **options) for part in PARTS
    }
    for row in rows(profile, "idle_summary", split="device", **options):
        for part in PARTS:
            gaps[row["device_id"], part] += row[f"{part}_sum_ns"] or 0
    for row in rows(profile, "summary", **options):
        if row["span_ns"] is None:
            continue
        device = row["device_id"]
        assert sum(row[column] or 0 for column in TIME_CLASS_COLUMNS.values()) == row["span_ns"]
        assert row["window_ns"] == overview[device]["window_ns"]
        if row["window_ns"] is None:
            continue
        assert row["before_ns"] + row["window_ns"] + row["after_ns"] == row["span_ns"]
        assert row["busy_ns"] == overview[device]["busy_ns"]
        for column in TIME_CLASS_COLUMNS.values():
            if column in overlap[device]:
                assert row[column] == overlap[device][column], column
        idle = sum(row[f"idle_{part}_ns"] or 0 for part in PARTS)
        assert idle == overview[device]["idle_ns"] == overlap[device]["idle_ns"]
        for part in PARTS:
            assert (row[f"idle_{part}_ns"] or 0) == gaps[device, part], part
        if options:
            continue
        assert row["kernel_count"] == overview[device]["kernel_count"]
        assert row["kernel_sum_ns"] == overview[device]["kernel_sum_ns"]


@every_fixture
def test_the_account_of_a_fixture(path: Path, shelf: Shelf) -> None:
    check_account(shelf.opened(path))


@real
@every_real_file
def test_the_account_of_a_real_file(path: Path, shelf: Shelf) -> None:
    check_account(shelf.opened(path))


SLICES = [{"time": ("25 %", "60 %")}, {"step": "2"}, {"skip_first": 1}, {"devices": (0,)}]


@pytest.mark.parametrize(("path", "part"), by_turns([*NSYS_FILES, *EXAMPLES], SLICES, 16), ids=name_of)
def test_the_account_of_a_slice(path: Path, part: dict[str, Any], shelf: Shelf) -> None:
    if "time" in part:
        part = {"time": (api.Percent(25), api.Percent(60))}
    profile = shelf.opened(path)
    try:
        check_account(profile, slice=api.Slice(**part))
    except UsageError as error:
        pytest.skip(f"no such part of it: {error}")


# The span of docs/definitions/idle.md with a session around it: 20 before, the rest as there, 30 after.
EXAMPLE = (
    Kernel(20, 60, name="K1"),
    Kernel(50, 80, stream=8, name="K2"),
    Kernel(70, 100, stream=9, name="ncclAllReduce"),
    Call(115, 120, 5),
    Kernel(120, 130, 5, name="K1"),
)


def test_the_classes_of_a_recording_by_hand() -> None:
    (row,) = answers("summary", *EXAMPLE, recording_start_ns=0, recording_ns=160)
    times = {name: row[column] for name, column in TIME_CLASS_COLUMNS.items() if row[column]}
    assert times == {
        "before": 20, "computation": 70, "communication": 20, "idle_host": 15, "idle_launch": 5,
        "after": 30,
    }  # fmt: skip
    assert (row["span_ns"], row["window_ns"], row["busy_ns"]) == (160, 110, 90)
    assert row["busy_pct"] == pytest.approx(100 * 90 / 160)
    assert row["launch_bound_pct"] == pytest.approx(100 * (15 + 5) / 110)
    # That is 40 and 10.
    assert (row["top_kernel"], row["top_kernel_sum_ns"]) == ("K1", 50)
    assert (row["top_gap_start_ns"], row["top_gap_ns"]) == (100, 20)


def test_without_a_session_the_recording_is_what_was_recorded() -> None:
    (row,) = answers("summary", *EXAMPLE, Call(5, 8), recording_ns=160)
    assert (row["span_start_ns"], row["span_ns"], row["before_ns"], row["after_ns"]) == (5, 125, 15, 0)


def test_a_session_of_which_a_tenth_was_recorded_is_not_the_recording() -> None:
    """Recorded are [20, 130), 110: a session of 1100 counts, one of 1101 does not."""
    for session, span in ((1100, 1100), (1101, 110)):
        assert cell("summary span_ns", *EXAMPLE, recording_start_ns=0, recording_ns=session) == span
    # The profiler's own work counts as recorded.
    assert cell("summary span_ns", *EXAMPLE, Overhead(0, 10), recording_start_ns=0,
                recording_ns=1300) == 1300  # fmt: skip


def test_copies_calls_and_rates() -> None:
    (row,) = answers(
        "summary",
        Call(0, 10, 1, name="cudaMemcpyAsync"),
        Memcpy(10, 110, 1, bytes=1000),
        Memcpy(110, 160, bytes=4000),
        Memcpy(160, 260, direction="DtoH", bytes=600),
        Kernel(260, 300),
        Call(12, 40, 2, name="cudaMalloc"),
        Call(15, 20, 3, name="cuMemAlloc", layer="driver"),
    )
    assert (row["htod_bytes_sum"], row["htod_bytes_per_s"]) == (5000, pytest.approx(5000 / 150e-9))
    assert (row["dtoh_bytes_sum"], row["dtoh_bytes_per_s"]) == (600, pytest.approx(600 / 100e-9))
    assert (row["htod_sum_ns"], row["dtoh_sum_ns"]) == (150, 100)
    assert (row["top_copy"], row["top_copy_bytes"], row["top_copy_ns"]) == ("HtoD", 4000, 50)
    # Outermost calls: 10 and 28; cuMemAlloc lies in cudaMalloc.
    assert (row["api_sum_ns"], row["top_call"], row["top_call_sum_ns"]) == (38, "cudaMalloc", 28)


def test_what_is_not_recorded_is_null() -> None:
    (row,) = answers("summary", Kernel(0, 10), Memset(10, 20), without={Fact.MEMSETS, Fact.API_LINKS})
    assert row["exposed_memset_ns"] is None
    assert row["launch_bound_pct"] is None


def test_totals_have_no_account() -> None:
    (row,) = answers(
        "summary",
        Total("kernel", 3, 60, name="add"),
        Total("kernel", 1, 100, name="scale"),
        Total("api_call", 2, 70, name="cudaMalloc"),
        Total("memcpy", 1, 5, direction="HtoD", bytes=800),
        holds={Fact.KERNEL_TOTALS, Fact.API_TOTALS, Fact.MEMORY_TOTALS},
    )
    assert row["span_ns"] is None
    assert (row["kernel_count"], row["kernel_sum_ns"]) == (4, 160)
    assert (row["top_kernel"], row["top_call"], row["htod_bytes_sum"]) == ("scale", "cudaMalloc", 800)


def test_totals_of_copies_and_migrations_are_said() -> None:
    """Sizes are not recorded, times are."""
    (said,) = asked(
        "summary", Total("kernel", 3, 60, name="add"), Total("memcpy", 1, 5000, direction="HtoD"),
        Total("memcpy", 2, 700, direction="DtoH"), Total("unified_memory", 2, 9000),
        holds={Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS, Fact.UNIFIED_MEMORY_TOTALS},
    ).texts  # fmt: skip
    assert said.lines[2] == "kernels 60 ns (3); HtoD 5.00 µs; DtoH 700 ns; page migrations 9.00 µs"


def test_a_bar_has_a_sign_for_each_class() -> None:
    """Cells of 60 for 160 ns: 20 before are 7.5, 70 of computation end at 90, that is at cell 34."""
    (said,) = asked("summary", *EXAMPLE, recording_start_ns=0, recording_ns=160).texts
    bar = said.lines[2]
    assert len(bar) == 60
    ends = [round(60 * moment / 160) for moment in (20, 90, 110, 130)]
    assert bar == "·" * ends[0] + "█" * (ends[1] - ends[0]) + "▓" * (ends[2] - ends[1]) + "░" * (
        ends[3] - ends[2]
    ) + "·" * (60 - ends[3])


def test_of_many_devices_three_are_said() -> None:
    """Busy for 10 to 80 of 100: the least, the fourth (the lower middle) and the most."""
    kernels = [Kernel(0, 10 * (i + 1), device=i) for i in range(8)]
    report = asked("summary", *kernels, Range(0, 100, "all"))
    (said,) = report.texts
    named = [line for line in said.lines if " busy for " in line]
    assert [line[31:] for line in named] == [
        "least busy: GPU 0: busy for 10.0 % of 100 ns",
        "median: GPU 3: busy for 40.0 % of 100 ns",
        "most busy: GPU 7: busy for 80.0 % of 100 ns",
    ]
    assert said.lines == where_time_went(report)[0].lines


def test_of_devices_that_are_equally_busy_three_are_said() -> None:
    (said,) = asked("summary", *(Kernel(0, 50, device=i) for i in range(5)), Range(0, 100, "all")).texts
    named = [re.search(r"\w+ ?\w*: GPU \d", line) for line in said.lines if " busy for " in line]
    found = [match[0] for match in named if match]
    assert found == ["least busy: GPU 0", "median: GPU 2", "most busy: GPU 4"]


def test_of_several_devices_the_largest_of_each_is_said() -> None:
    """The longest kernel is on device 0, the longest gap, of 60, on device 1."""
    rows = (Kernel(0, 80), Kernel(90, 100), Kernel(0, 20, device=1), Kernel(80, 100, device=1))
    (said,) = asked("summary", *rows).texts
    assert said.lines[-1] == "largest on one: kernel kernel 90 ns, gap 60 ns"


def test_a_recording_of_one_moment() -> None:
    (said,) = asked("summary", Kernel(5, 5)).texts
    assert said.lines[1].startswith("All recorded events have the same timestamp")


def test_figures_lose_the_count_of_kernels_before_rates() -> None:
    copies = [
        Memcpy(0, 11_310_000, direction=direction, bytes=123_456_789) for direction in ("HtoD", "DtoH")
    ]
    long = [Call(0, 123_456_789), Kernel(0, 123_456_789, stream=8)]
    (said,) = asked("summary", *copies, *long).texts
    (line,) = (line for line in said.lines if "HtoD" in line and line.startswith("API calls"))
    assert line == (
        "API calls 123.46 ms; kernels 123.46 ms; "
        "HtoD 123.46 MB at 10.92 GB/s; DtoH 123.46 MB at 10.92 GB/s"
    )
