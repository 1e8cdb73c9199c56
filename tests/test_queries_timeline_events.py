"""timeline_events: what is on which lane, in which order, and what a limit leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import NSYS
from hypothesis import given
from hypothesis import strategies as st
from small_store import (
    PID,
    STREAM,
    TID,
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Operator,
    Range,
    Row,
    answers,
    cell,
    cells,
    hand_computed,
    opened,
    write,
)

import nsysconv
from nsysconv import api

ROWS: tuple[Row, ...] = (
    Range(0, 100, "step"),
    Operator(0, 40, "aten::mm"),
    Call(10, 15, 1, name="cudaLaunchKernel_v7000"),
    Kernel(20, 30, 1, name="gemm"),
    Memcpy(30, 35, direction="DtoH", stream=8),
    Memset(35, 36),
    Migration(40, 45, direction="HtoD"),
    Graph(50, 60),
)


def events(*rows: Row, **options: Any) -> list[tuple[Any, ...]]:
    found = answers("timeline_events", *rows, **options)
    return [(row["kind"], row["start_ns"], row["dur_ns"], row["name"]) for row in found]


def test_every_kind_of_event_in_the_order_of_time() -> None:
    assert events(*ROWS) == [
        ("range", 0, 100, "step"),
        ("operator", 0, 40, "aten::mm"),  # inside the range, so after it
        ("api_call", 10, 5, "cudaLaunchKernel"),
        ("kernel", 20, 10, "gemm"),
        ("memcpy", 30, 5, "[memcpy DtoH]"),
        ("memset", 35, 1, "[memset]"),
        ("migration", 40, 5, "[UM HtoD]"),
        ("graph_launch", 50, 10, "[graph launch]"),
    ]


def test_gpu_work_is_on_streams_and_the_rest_on_threads() -> None:
    threads = {(PID, TID): {"name": "main"}}
    found = {
        row["kind"]: row
        for row in answers("timeline_events", *ROWS, ranks={PID: 3}, threads=threads)
    }
    lanes = {kind: (row["device_id"], row["stream_id"], row["tid"], row["thread"])
             for kind, row in found.items()}  # fmt: skip
    assert lanes["kernel"] == (0, STREAM, None, None)
    assert lanes["memcpy"] == (0, 8, None, None)
    assert lanes["api_call"] == lanes["range"] == lanes["operator"] == (None, None, TID, "main")
    assert {(row["pid"], row["rank"]) for row in found.values()} == {(PID, 3)}


def test_migrations_are_on_no_stream_whatever_was_recorded() -> None:
    rows = (Migration(0, 10, stream=0), Kernel(5, 20, stream=STREAM))
    found = {row["kind"]: row["stream_id"] for row in answers("timeline_events", *rows)}
    assert found == {"migration": None, "kernel": STREAM}


def test_a_range_that_was_never_closed_ends_with_the_recording() -> None:
    rows = (Kernel(0, 10, name="k"), Range(5, None, "open"))
    assert events(*rows, recording_ns=70)[1] == ("range", 5, 65, "open")


def test_of_many_that_start_together_the_longest_are_first() -> None:
    # The limit falls among kernels that all start at 0, on threads that are not in order.
    rows = [Kernel(0, length, stream=length, name=f"k{length}") for length in (3, 9, 1, 7, 5)]
    assert cells("timeline_events name", *rows, Kernel(20, 30, name="late"), limit=2) == ["k9", "k7"]


def test_calls_of_threads_that_take_turns() -> None:
    # Per thread in order, but not together: the first two are of both threads.
    rows = (
        Kernel(0, 1),
        Call(30, 31, tid=1),
        Call(40, 41, tid=1),
        Call(10, 11, tid=2),
        Call(20, 21, tid=2),
    )
    assert cells("timeline_events start_ns", *rows, limit=3) == [0, 10, 20]


def test_a_slice_takes_what_it_touches() -> None:
    assert [kind for kind, *_ in events(*ROWS, time=(32, 36))] == [
        "range",
        "operator",
        "memcpy",
        "memset",
    ]


def test_what_takes_the_same_time_is_listed_from_the_outside() -> None:
    rows = (Call(5, 9), Operator(5, 9, "op"), Range(5, 9, "r"), Kernel(20, 30))
    assert [kind for kind, *_ in events(*rows)][:3] == ["range", "operator", "api_call"]


test_by_hand = hand_computed(
    ("events without a time are left out", events,
     (Kernel(None, None), Kernel(5, 6, name="k"), Call(None, None)), [("kernel", 5, 1, "k")]),
    ("ranges and operators have a sort", "timeline_events sort",
     (Kernel(0, 1), Range(5, 9, "r"), Range(6, 7, "s", kind="start_end"),
      Operator(7, 9, "f", kind="python_function")), [None, "push_pop", "start_end", "python_function"]),
)


def test_names_of_kernels_are_spelled_as_asked(tmp_path: Path) -> None:
    write(
        tmp_path / "s.db",
        Kernel(0, 1, name="void a::b(int)", short="b", mangled="_Zb"),
        Kernel(2, 3, name="c"),
    )
    with api.open(tmp_path / "s.db") as profile:
        reports = [profile.report("timeline_events", kernel_names=names)
                   for names in ("short", "mangled")]  # fmt: skip
    short, mangled = ([row["name"] for row in report.rows()] for report in reports)
    assert (short, mangled) == (["b", "c"], ["_Zb", "c"])


def test_an_event_is_numbered_among_its_kind_in_the_order_of_rows() -> None:
    rows = (
        Kernel(50, 60, 2, name="late"),
        Kernel(10, 20, 1, name="early"),
        Call(45, 46, 2),
        Call(None, None),
        Call(5, 6, 1),
    )
    found = {(row["kind"], row["start_ns"]): row for row in answers("timeline_events", *rows)}
    ids = {key: row["id"] for key, row in found.items()}
    # The second call has no time, and is the second all the same.
    assert ids == {("kernel", 50): 1, ("kernel", 10): 2, ("api_call", 45): 1, ("api_call", 5): 3}
    launched_by = {key: row["call_id"] for key, row in found.items()}
    assert launched_by == {
        ("kernel", 50): 1,
        ("kernel", 10): 3,
        ("api_call", 45): None,
        ("api_call", 5): None,
    }


def names_in(parts: str, *rows: Row) -> list[str]:
    return [row["name"] for row in answers(f"timeline_events:parts={parts}", *rows)]


def test_only_what_runs_in_parts_of_the_time() -> None:
    rows = [Kernel(at, at + 10, name=f"k{at}") for at in range(0, 100, 10)]
    # 20 begins where the first part ends; 70 ends where the second begins.
    assert names_in("10:20,80:81", *rows) == ["k10", "k80"]
    assert names_in("15:25", *rows) == ["k10", "k20"]
    assert names_in("80:81,5:6,4:7", *rows) == ["k0", "k80"]


def test_with_what_launched_it_and_what_that_lies_in() -> None:
    rows = (
        Range(1, 100, "step"),
        Operator(5, 30, "aten::mm"),
        Operator(40, 50, "aten::add"),  # launched nothing in the part
        Call(10, 15, 1, name="cudaLaunchKernel"),
        Call(10, 15, 9, name="cudaFree", tid=77),  # at the same time on another thread
        Kernel(500, 510, 1, name="gemm"),
        Kernel(600, 610, name="other"),
    )
    assert names_in("505:506", *rows) == ["step", "aten::mm", "cudaLaunchKernel", "gemm"]


# -- colors


def test_a_range_has_the_color_that_the_program_gave_it() -> None:
    """Of ARGB the first byte, which says how opaque a color is, is often 0."""
    rows = (Kernel(0, 5, name="gemm"), Range(0, 9, "a", color=0xFF76B900), Range(1, 2, "b", color=0xFF),
            Range(3, 4, "b"), Range(4, 5, "c", color=0))  # fmt: skip
    found = [(row["kind"], row["name"], row["color"]) for row in answers("timeline_events", *rows)]
    assert found == [
        ("range", "a", "#76b900"),
        ("kernel", "gemm", None),
        ("range", "b", "#0000ff"),
        ("range", "b", None),
        ("range", "c", "#000000"),
    ]
    by_name = {(row["kind"], row["name"]): row["color"] for row in answers("event_durations", *rows)}
    assert by_name["range", "a"] == "#76b900"
    assert by_name["range", "b"] == "#0000ff"  # of equally long ones the earliest's
    assert by_name["kernel", "gemm"] is None


@pytest.mark.parametrize("report", ["timeline_events", "event_durations"])
def test_colors_are_the_same_in_place_and_in_a_store(report: str, tmp_path: Path) -> None:
    file, store = NSYS / "ranges-3.28.1.sqlite", tmp_path / "run.db"
    nsysconv.import_files([file], store)
    in_place, stored = ([row["color"] for row in nsysconv.report_on(target, report)[0].rows()]
                        for target in (file, store))  # fmt: skip
    assert in_place == stored
    assert set(in_place) == {"#76b900", None}  # the blue one is a mark


# -- event_durations: how many events of a name took how long, and which is the longest of each length


ENDS = [0, *(int(f"{digit}{'0' * power}") for power in range(9) for digit in (1, 2, 5))]
SHOWN = ("kind", "name", "bucket_min_ns", "event_count", "event_sum_ns", "max_id", "max_start_ns")


def durations(*rows: Row, **options: Any) -> list[tuple[Any, ...]]:
    found = answers("event_durations", *rows, **options)
    return [tuple(row[name] for name in SHOWN) for row in found]


def test_events_are_counted_by_name_and_length() -> None:
    rows = (
        Kernel(10, 14, name="a"),  # kernel:1
        Kernel(20, 27, name="a"),  # kernel:2
        Kernel(30, 38, name="a"),  # kernel:3, the longest of 5 to 9 ns
        Kernel(40, 40, name="b"),
        Memcpy(50, 51, direction="HtoD"),
    )
    assert durations(*rows) == [
        ("kernel", "a", 2, 1, 4, 1, 10),
        ("kernel", "a", 5, 2, 15, 3, 30),
        ("kernel", "b", 0, 1, 0, 4, 40),
        ("memcpy", "[memcpy HtoD]", 1, 1, 1, 1, 50),
    ]


def test_names_of_a_kind_come_by_their_time() -> None:
    rows = (Kernel(10, 11, name="a"), Kernel(20, 29, name="b"), Range(1, 99, "r"), Call(1, 50))
    assert [(row[0], row[1]) for row in durations(*rows)] == [
        ("kernel", "b"),
        ("kernel", "a"),
        ("api_call", "cudaLaunchKernel"),
        ("range", "r"),
    ]


def test_of_several_as_long_the_earliest_is_named() -> None:
    rows = (Kernel(50, 55, name="a", stream=1), Kernel(20, 25, name="a", stream=2))
    assert cell("event_durations max_id max_start_ns stream_id", *rows) == (2, 20, 2)


def test_ranges_and_operators_are_of_their_group() -> None:
    rows = (
        Kernel(1, 2),
        Range(10, 20, "aten::add, op_id = 1"),
        Range(30, 40, "aten::add, op_id = 2"),
        Operator(10, 12, "aten::mul"),
    )
    assert [row[:4] for row in durations(*rows)[1:]] == [
        ("range", "aten::add", 10, 2),
        ("operator", "aten::mul", 2, 1),
    ]


def test_a_kernel_communicates_however_its_name_is_spelled() -> None:
    whole = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    rows = (Kernel(1, 9, name=whole, short="AllReduce"), Kernel(10, 12, name="gemm", short="nccl"))
    with opened(*rows) as profile:
        for spelling in ("demangled", "short"):
            found = profile.report("event_durations", kernel_names=spelling).rows()
            assert [row["time_class"] for row in found] == ["communication", "computation"]


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**5), st.sampled_from("ab"),
                          st.integers(1, 3)), min_size=1, max_size=30))  # fmt: skip
def test_buckets_equal_a_count_of_the_events(events: list[tuple[int, int, str, int]]) -> None:
    rows = [Kernel(at, at + dur, name=name, stream=lane) for at, dur, name, lane in events]
    with opened(*rows) as profile:
        listed = profile.report("timeline_events").rows()
        found = profile.report("event_durations").rows()
    assert sum(row["event_count"] for row in found) == len(events)
    assert {row["bucket_min_ns"] for row in found} <= set(ENDS)
    for row in found:
        low = row["bucket_min_ns"]
        mine = [e for e in listed if e["name"] == row["name"]
                and low <= e["dur_ns"] < next(end for end in ENDS if end > low)]  # fmt: skip
        longest = max(mine, key=lambda event: (event["dur_ns"], -event["start_ns"]))
        assert row["event_count"] == len(mine)
        assert row["event_sum_ns"] == sum(event["dur_ns"] for event in mine)
        assert (row["max_ns"], row["max_start_ns"]) == (longest["dur_ns"], longest["start_ns"])
        assert row["max_id"] in [e["id"] for e in mine if e["start_ns"] == longest["start_ns"]]
