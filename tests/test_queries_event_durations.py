"""event_durations: how many events of a name took how long, and which is the longest of each length."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Memcpy, Operator, Range, Row, answers, opened

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
    (row,) = answers("event_durations", *rows)
    assert (row["max_id"], row["max_start_ns"], row["stream_id"]) == (2, 20, 2)


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
