"""timeline_events: what is on which lane, in which order, and what a limit leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
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
    opened,
    write,
)

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


def test_events_without_a_time_are_left_out() -> None:
    assert events(Kernel(None, None), Kernel(5, 6, name="k"), Call(None, None)) == [
        ("kernel", 5, 1, "k")
    ]


def test_a_range_that_was_never_closed_ends_with_the_recording() -> None:
    rows = (Kernel(0, 10, name="k"), Range(5, None, "open"))
    assert events(*rows, recording_ns=70)[1] == ("range", 5, 65, "open")


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 8, 20])
def test_a_limit_leaves_the_first(limit: int) -> None:
    with opened(*reversed(ROWS)) as profile:
        whole = profile.report("timeline_events").rows()
        part = profile.report("timeline_events", limit=limit)
    assert part.rows() == whole[:limit]
    assert part.row_count == len(ROWS)


def test_of_many_that_start_together_the_longest_are_first() -> None:
    # The limit falls among kernels that all start at 0, on threads that are not in order.
    rows = [Kernel(0, length, stream=length, name=f"k{length}") for length in (3, 9, 1, 7, 5)]
    with opened(*rows, Kernel(20, 30, name="late")) as profile:
        found = profile.report("timeline_events", limit=2).rows()
    assert [row["name"] for row in found] == ["k9", "k7"]


def test_calls_of_threads_that_take_turns() -> None:
    # Per thread in order, but not together: the first two are of both threads.
    rows = (
        Kernel(0, 1),
        Call(30, 31, tid=1),
        Call(40, 41, tid=1),
        Call(10, 11, tid=2),
        Call(20, 21, tid=2),
    )
    with opened(*rows) as profile:
        found = profile.report("timeline_events", limit=3).rows()
    assert [row["start_ns"] for row in found] == [0, 10, 20]


def test_a_slice_takes_what_it_touches() -> None:
    assert [kind for kind, *_ in events(*ROWS, time=(32, 36))] == [
        "range",
        "operator",
        "memcpy",
        "memset",
    ]


def test_names_of_kernels_are_spelled_as_asked(tmp_path: Path) -> None:
    write(
        tmp_path / "s.db",
        Kernel(0, 1, name="void a::b(int)", short="b", mangled="_Zb"),
        Kernel(2, 3, name="c"),
    )
    with api.open(tmp_path / "s.db") as profile:
        short, mangled = ([row["name"] for row in profile.report("timeline_events", names=names).rows()]
                          for names in ("short", "mangled"))  # fmt: skip
    assert (short, mangled) == (["b", "c"], ["_Zb", "c"])
