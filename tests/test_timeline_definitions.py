"""Windows, busy and idle time, gaps and their parts, by hand: the sum stands beside each test."""

from __future__ import annotations

from typing import Any

import pytest
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
    Sync,
    answers,
    opened,
)

from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact

PARTS = ("host", "launch", "queue", "migration", "profiler", "unknown", "end")


def overview(*rows: Row, **options: Any) -> dict[str, Any]:
    (row,) = answers("overview", *rows, **options)
    return row


def spans(*rows: Row, **options: Any) -> list[tuple[int, int]]:
    """(start, end) of every gap, in order of time."""
    found = answers("idle_gaps", *rows, **options)
    return sorted((row["start_ns"], row["start_ns"] + row["dur_ns"]) for row in found)


def the_gap(*rows: Row, **options: Any) -> dict[str, Any]:
    (gap,) = answers("idle_gaps", *rows, **options)
    return gap


def parts(*rows: Row, **options: Any) -> dict[str, int]:
    """The parts, other than 0, of the only gap."""
    gap = the_gap(*rows, **options)
    return {part: gap[f"{part}_ns"] for part in PARTS if gap[f"{part}_ns"]}


# -- the picture of the documentation: K1 and K3 on stream 1, K2 and C1 on stream 2


PICTURE = (
    Kernel(100, 300, stream=1), Kernel(200, 400, stream=2), Kernel(600, 900, stream=1),
    Memcpy(850, 1000, stream=2),
)  # fmt: skip


def test_sums_count_overlaps_twice_and_unions_once() -> None:
    row = overview(*PICTURE)
    assert (row["kernel_sum_ns"], row["kernel_union_ns"]) == (200 + 200 + 300, 300 + 300)


def test_busy_is_the_union_and_idle_the_rest_of_the_window() -> None:
    row = overview(*PICTURE)
    assert (row["window_start_ns"], row["window_ns"]) == (100, 900)
    assert (row["busy_ns"], row["idle_ns"]) == (300 + 400, 900 - 700)
    assert row["idle_pct"] == pytest.approx(100 * 200 / 900)


@pytest.mark.parametrize(("kind", "expected"), [
    ("no_op", [(None, 400, 200)]),
    ("no_kernel", [(None, 400, 200), (None, 900, 100)]),
    ("stream", [("1", 300, 300), ("1", 900, 100), ("2", 100, 100), ("2", 400, 450)]),
])  # fmt: skip
def test_three_kinds_of_idle_time(kind: str, expected: list[tuple[str | None, int, int]]) -> None:
    rows = answers("idle_gaps", *PICTURE, idle=(kind,))
    assert {row["kind"] for row in rows} == {kind}
    found = sorted(((r["stream"], r["start_ns"], r["dur_ns"]) for r in rows), key=str)
    assert found == expected


def test_a_slice_counts_whole_rows_and_clips_unions() -> None:
    row = overview(*PICTURE, time=(350, 700))
    assert (row["kernel_count"], row["kernel_sum_ns"]) == (2, 200 + 300)
    assert row["kernel_union_ns"] == (400 - 350) + (700 - 600)
    assert (row["window_start_ns"], row["window_ns"], row["idle_ns"]) == (350, 350, 600 - 400)


# -- slices


def test_a_row_that_ends_where_the_slice_begins_is_outside() -> None:
    assert overview(Kernel(100, 300), Kernel(400, 450), time=(300, 500))["kernel_count"] == 1


def test_a_row_that_begins_where_the_slice_ends_is_outside() -> None:
    assert overview(Kernel(100, 300), Kernel(500, 600), time=(50, 500))["kernel_count"] == 1


@pytest.mark.parametrize(("moment", "inside"), [(300, 1), (499, 1), (299, 0), (500, 0)])
def test_a_row_without_length_belongs_to_the_slice_it_starts_in(moment: int, inside: int) -> None:
    assert overview(Kernel(moment, moment), time=(300, 500))["kernel_count"] == inside


def test_gaps_are_clipped_to_the_slice() -> None:
    rows = (Kernel(100, 200), Kernel(600, 700))
    assert spans(*rows, time=(300, 400)) == [(300, 400)]
    assert spans(*rows, time=(50, 650)) == [(50, 100), (200, 600)]


# -- windows


def test_migrations_do_not_extend_the_window() -> None:
    row = overview(Migration(0, 50), Kernel(100, 200), Migration(900, 1000))
    assert (row["window_start_ns"], row["window_ns"], row["idle_ns"]) == (100, 100, 0)


def test_a_migration_inside_the_window_is_busy_time() -> None:
    row = overview(Kernel(100, 200), Migration(220, 250), Kernel(300, 400))
    assert (row["window_ns"], row["busy_ns"]) == (300, 100 + 30 + 100)


def test_of_a_migration_that_reaches_into_the_window_the_part_inside_is_busy() -> None:
    row = overview(Kernel(100, 110), Migration(50, 130), Memset(150, 160))
    assert row["busy_ns"] == (130 - 100) + 10


def test_a_device_with_nothing_but_migrations_has_no_window_and_no_gap() -> None:
    rows = (Kernel(10, 20), Migration(0, 50, device=1), Migration(80, 90, device=1))
    with opened(*rows) as profile:
        row = profile.report("overview").rows()[1]
        assert profile.report("idle_gaps").rows() == []
    assert (row["device_id"], row["um_count"], row["um_sum_ns"]) == (1, 2, 60)
    assert [row[name] for name in ("window_ns", "busy_ns", "idle_ns", "idle_pct")] == [None] * 4


def test_with_a_slice_the_window_is_the_slice_also_for_migrations_alone() -> None:
    row = overview(Migration(0, 50), time=(40, 100))
    assert (row["window_start_ns"], row["window_ns"], row["busy_ns"]) == (40, 60, 10)


def test_ops_without_a_call_count_in_window_and_busy_time() -> None:
    row = overview(
        Kernel(100, 200, 0), Kernel(300, 400, None), Kernel(500, 600, 999), Call(1, 2, 5)
    )
    assert (row["window_ns"], row["busy_ns"]) == (500, 300)


def test_devices_have_windows_of_their_own() -> None:
    rows = answers("overview", Kernel(100, 200), Kernel(300, 450, device=1))
    assert [(r["device_id"], r["device"], r["window_start_ns"], r["window_ns"]) for r in rows] == [
        (0, "GPU 0", 100, 100), (1, "GPU 1", 300, 150)]  # fmt: skip


# -- kinds of GPU ops


@pytest.mark.parametrize("op", [Kernel(10, 30), Memcpy(10, 30), Memset(10, 30), Graph(10, 30)])
def test_what_keeps_a_device_busy(op: Row) -> None:
    row = overview(op)
    assert (row["window_ns"], row["busy_ns"]) == (20, 20)


def test_waits_and_overhead_are_no_gpu_work() -> None:
    row = overview(Kernel(10, 30), Sync(30, 100), Overhead(40, 90), Range(0, 100, "r"))
    assert (row["window_ns"], row["busy_ns"]) == (20, 20)


def test_a_graph_interval_is_no_kernel_in_counts_and_sums() -> None:
    row = overview(Graph(10, 30), Kernel(40, 45))
    assert (row["kernel_count"], row["kernel_sum_ns"], row["kernel_union_ns"]) == (1, 5, 5)
    assert (row["graph_launch_count"], row["graph_launch_sum_ns"]) == (1, 20)


def test_a_graph_interval_is_kernel_work_where_idle_time_without_kernels_is_looked_for() -> None:
    rows = (Kernel(10, 20), Memcpy(20, 50), Graph(50, 60))
    assert spans(*rows, idle=("no_kernel",)) == [(20, 50)]


def test_a_graph_interval_is_named_under_kernels_and_transfers() -> None:
    with opened(Graph(10, 30), Memcpy(40, 45)) as profile:
        for name in ("kernels", "transfers"):
            slugs = [note.slug for note in profile.report(name).notes]
            assert slugs == ["graph-intervals"]


def test_migrations_have_columns_of_their_own() -> None:
    row = overview(Memcpy(10, 20), Migration(12, 15, bytes=64), Migration(16, 18, bytes=36))
    assert (row["memcpy_count"], row["memcpy_sum_ns"]) == (1, 10)
    assert (row["um_count"], row["um_sum_ns"], row["um_bytes_sum"]) == (2, 5, 100)


def test_an_op_without_time_counts_and_is_in_no_union() -> None:
    row = overview(Kernel(None, None), Kernel(100, 150))
    assert (row["kernel_count"], row["kernel_sum_ns"], row["kernel_union_ns"]) == (2, 50, 50)
    assert (row["window_start_ns"], row["window_ns"], row["busy_ns"]) == (100, 50, 50)


def test_an_op_without_time_is_noted() -> None:
    with opened(Kernel(None, None), Kernel(100, 150)) as profile:
        notes = {note.slug: note.count for note in profile.report("overview").notes}
    assert notes["no-time"] == 1


def test_ops_of_no_length_count_add_nothing_and_split_no_gap() -> None:
    rows = (Kernel(100, 200), Kernel(250, 250), Kernel(300, 400))
    row = overview(*rows)
    assert (row["kernel_count"], row["kernel_sum_ns"], row["busy_ns"]) == (3, 200, 200)
    assert spans(*rows) == [(200, 300)]


def test_ops_that_touch_leave_no_gap() -> None:
    assert spans(Kernel(100, 300), Kernel(300, 400)) == []


# -- parts of a gap: [400, 600) between two kernels, ended by what call 1 launched


BEFORE, AFTER = Kernel(300, 400, 0), Kernel(600, 700, 1)


def test_the_example_of_the_documentation() -> None:
    found = parts(BEFORE, AFTER, Call(490, 520, 1), Overhead(430, 450))
    assert found == {"host": 490 - 400 - 20, "profiler": 20, "launch": 30, "queue": 80}


def test_a_gap_of_more_nanoseconds_than_32_bits_hold() -> None:
    # host: 100 → 3e9; launch: → 3e9 + 10; queue: → 3e9 + 30.
    late = 3_000_000_000
    before, after = Kernel(0, 100, 1), Kernel(late + 30, late + 40, 7)
    rows = (Call(-20, -10, 1), before, Call(late, late + 10, 7), after)
    assert parts(*rows) == {"host": late - 100, "launch": 10, "queue": 20}


def test_a_call_from_before_the_gap_leaves_no_host_part() -> None:
    assert parts(BEFORE, AFTER, Call(350, 420, 1)) == {"launch": 20, "queue": 180}


def test_a_call_that_returned_before_the_gap_leaves_queue_only() -> None:
    assert parts(BEFORE, AFTER, Call(300, 320, 1)) == {"queue": 200}


def test_a_call_that_returns_after_the_gap_leaves_no_queue_part() -> None:
    assert parts(BEFORE, AFTER, Call(450, 650, 1)) == {"host": 50, "launch": 150}


def test_a_call_that_begins_after_its_op_leaves_host_only() -> None:
    assert parts(BEFORE, AFTER, Call(610, 620, 1)) == {"host": 200}


def test_ops_that_share_a_call_wait_in_the_queue() -> None:
    """As nodes of one graph do: after the call's return it is queue by the same arithmetic."""
    nodes = (Kernel(300, 400, 1), AFTER)
    assert parts(*nodes, Call(280, 290, 1)) == {"queue": 200}
    assert parts(*nodes, Call(280, 410, 1)) == {"launch": 10, "queue": 190}


def test_a_migration_that_begins_with_a_kernel_does_not_end_the_gap() -> None:
    """It is on no stream, though a number was recorded that is lower than the kernel's."""
    (row,) = answers("idle_gaps", Kernel(0, 10, 1), Call(20, 25, 2), Kernel(50, 60, 2),
                     Migration(50, 55, stream=0))  # fmt: skip
    assert (row["migration_ns"], row["host_ns"]) == (0, 10)


def test_a_gap_ended_by_a_migration_is_all_migration() -> None:
    rows = (BEFORE, Migration(600, 650, 1), Kernel(650, 700), Call(490, 520, 1))
    assert parts(*rows) == {"migration": 200}


def test_profiler_work_outside_the_host_part_changes_nothing() -> None:
    found = parts(BEFORE, AFTER, Call(490, 520, 1), Overhead(300, 400), Overhead(490, 700))
    assert found == {"host": 90, "launch": 30, "queue": 80}


def test_profiler_work_is_counted_once_where_it_overlaps() -> None:
    work = (Overhead(390, 430), Overhead(420, 440, tid=12), Overhead(480, 500))
    found = parts(BEFORE, AFTER, Call(490, 520, 1), *work)
    assert found == {"host": 90 - 50, "profiler": 40 + 10, "launch": 30, "queue": 80}


def test_work_of_the_driver_is_not_the_profilers() -> None:
    found = parts(BEFORE, AFTER, Call(490, 520, 1), Overhead(430, 450, "driver"))
    assert found == {"host": 90, "launch": 30, "queue": 80}


def test_profiler_work_in_another_process_does_not_count() -> None:
    found = parts(BEFORE, AFTER, Call(490, 520, 1), Overhead(430, 450, pid=2))
    assert found == {"host": 90, "launch": 30, "queue": 80}


@pytest.mark.parametrize("correlation", [0, None, 999])
def test_without_the_call_the_gap_is_unknown(correlation: int | None) -> None:
    rows = (BEFORE, Kernel(600, 700, correlation), Call(490, 520, 1), Call(530, 540, 0))
    assert parts(*rows) == {"unknown": 200}


def test_after_the_last_op_of_a_slice_it_is_the_end() -> None:
    assert parts(BEFORE, Call(490, 520, 1), time=(300, 600)) == {"end": 200}


def test_an_op_that_starts_where_the_slice_ends_does_not_end_the_gap() -> None:
    assert parts(BEFORE, AFTER, Call(490, 520, 1), time=(300, 600)) == {"end": 200}


def test_without_a_kernel_after_it_a_gap_without_kernels_runs_to_the_end() -> None:
    rows = (Kernel(300, 400), Memcpy(500, 600, 1), Call(490, 520, 1))
    assert parts(*rows, idle=("no_kernel",)) == {"end": 200}


def test_an_op_of_no_length_that_is_the_last_ends_its_gap() -> None:
    assert parts(BEFORE, Memset(600, 600, 1), Call(490, 520, 1)) == {
        "host": 90, "launch": 30, "queue": 80}  # fmt: skip


def test_such_an_op_ends_its_gap_also_beside_a_migration_that_begins_there() -> None:
    """The migration lies outside the window, which the memset ends: it cannot end the gap."""
    rows = (BEFORE, Memset(600, 600, 1), Migration(600, 650), Call(490, 520, 1))
    assert parts(*rows) == {"host": 90, "launch": 30, "queue": 80}


def test_of_ops_that_start_together_the_lowest_stream_ended_the_gap() -> None:
    rows = (BEFORE, Kernel(600, 700, 1, stream=9), Kernel(600, 700, 2, stream=8),
            Call(490, 520, 1), Call(410, 420, 2))  # fmt: skip
    assert parts(*rows) == {"host": 10, "launch": 10, "queue": 180}


def test_on_one_stream_the_first_row_ended_the_gap() -> None:
    rows = (BEFORE, Kernel(600, 700, 1), Kernel(600, 650, 2), Call(490, 520, 1), Call(410, 420, 2))
    assert parts(*rows) == {"host": 90, "launch": 30, "queue": 80}


def test_the_parts_of_a_stream_go_by_the_op_of_that_stream() -> None:
    rows = (Kernel(300, 400), Kernel(600, 700, 1), Kernel(300, 700, stream=8), Call(490, 520, 1))
    assert parts(*rows, idle=("stream",)) == {"host": 90, "launch": 30, "queue": 80}


def test_the_same_correlation_in_another_process_is_another_call() -> None:
    """Neither the earlier of the two calls nor the later may win."""
    name = "cudaMemcpyAsync"  # one without an operation is nothing that is missing
    calls = (Call(410, 420, 1, name=name), Call(490, 520, 1, pid=2, name=name))
    assert parts(BEFORE, AFTER, *calls) == {"host": 10, "launch": 10, "queue": 180}
    other = Kernel(600, 700, 1, pid=2)
    assert parts(BEFORE, other, *calls) == {"host": 90, "launch": 30, "queue": 80}


@pytest.mark.parametrize(("call", "cause"), [
    (Call(490, 520, 1), "host"),
    (Call(420, 580, 1), "launch"),
    (Call(410, 420, 1), "queue"),
    (Call(500, 600, 1), "host"),  # 100 and 100
    (Call(400, 500, 1), "launch"),  # 100 and 100
    (Call(460, 500, 1), "queue"),  # 60, 40 and 100
    (Call(475, 550, 1), "host"),  # 75, 75 and 50
])  # fmt: skip
def test_the_cause_is_the_largest_part_and_of_equal_ones_the_first(call: Call, cause: str) -> None:
    assert the_gap(BEFORE, AFTER, call)["cause"] == cause


def test_a_gap_where_the_profiler_and_the_queue_tie_is_of_the_queue() -> None:
    gap = the_gap(BEFORE, AFTER, Call(500, 500, 1), Overhead(400, 500))
    assert (gap["profiler_ns"], gap["queue_ns"], gap["cause"]) == (100, 100, "queue")


def test_parts_without_recorded_links_are_unknown() -> None:
    rows = (BEFORE, Kernel(600, 700, None))
    assert parts(*rows, without=(Fact.API_CALLS, Fact.API_LINKS)) == {"unknown": 200}


# -- one op, one owner


def test_of_two_calls_that_share_an_id_the_outer_one_owns() -> None:
    rows = (BEFORE, AFTER, Call(450, 550, 1, "driver"), Call(500, 520, 1, "runtime"))
    assert parts(*rows) == {"host": 50, "launch": 100, "queue": 50}


def test_the_outer_one_owns_also_where_a_third_call_holds_both() -> None:
    rows = (BEFORE, AFTER, Call(410, 590, 7), Call(450, 550, 1, "driver"), Call(500, 520, 1))
    assert parts(*rows) == {"host": 50, "launch": 100, "queue": 50}


def test_ids_of_calls_may_be_larger_than_those_of_operations() -> None:
    # 2^32 + 5 in 32 bits is 5: that is no call of the kernel's.
    high = 1 << 32
    rows = (Call(0, 10, high + 5), Call(12, 14, high + 6), Kernel(20, 30, 5), Kernel(40, 50, 6))
    assert parts(*rows) == {"unknown": 10}


def test_of_two_calls_side_by_side_the_runtimes_owns() -> None:
    rows = (BEFORE, AFTER, Call(410, 420, 1, "driver"), Call(500, 520, 1, "runtime"))
    assert parts(*rows) == {"host": 100, "launch": 20, "queue": 80}


def test_of_two_runtime_calls_side_by_side_the_later_owns() -> None:
    rows = (BEFORE, AFTER, Call(500, 520, 1), Call(410, 420, 1), Call(650, 660, 1))
    assert parts(*rows) == {"host": 100, "launch": 20, "queue": 80}


# -- clocks


SECOND = 1_000_000_000


def test_clocks_disagree_where_even_the_smallest_wait_exceeds_a_second() -> None:
    rows = (Kernel(2 * SECOND, 2 * SECOND + 10, 1), Kernel(2 * SECOND + 30, 2 * SECOND + 40, 2),
            Call(100, 110, 1), Call(200, 210, 2))  # fmt: skip
    with opened(*rows) as profile:
        report = profile.report("idle_gaps")
        (latency,) = profile.report("api_vs_kernel").rows()
        assert profile.report("overview").rows()[0]["busy_ns"] == 20
    assert [(r["cause"], r["unknown_ns"]) for r in report.rows()] == [("unknown", 20)]
    assert "clocks-disagree" in {note.slug for note in report.notes}
    names = ("launch_latency_avg_ns", "queue_count", "queue_avg_ns")
    assert [latency[name] for name in names] == [None] * 3
    assert (latency["gpu_op_count"], latency["kernel_sum_ns"]) == (2, 20)


def test_clocks_agree_where_one_wait_is_no_longer_than_a_second() -> None:
    rows = (Kernel(SECOND + 100, SECOND + 110, 1), Kernel(3 * SECOND, 3 * SECOND + 10, 2),
            Call(100, 110, 1), Call(200, 210, 2))  # fmt: skip
    with opened(*rows) as profile:
        assert "clocks-disagree" not in {n.slug for n in profile.report("idle_gaps").notes}


@pytest.mark.parametrize(("direction", "name", "late", "disagree"), [
    ("DtoH", "cudaMemcpy_v3020", 1_000_001, True),
    ("DtoH", "cudaMemcpy_v3020", 1_000_000, False),
    ("HtoD", "cudaMemcpy_v3020", 1_000_001, False),
    ("DtoH", "cudaMemcpyAsync_v3020", 1_000_001, False),
])  # fmt: skip
def test_clocks_disagree_where_a_synchronous_copy_ends_long_after_its_call(
    direction: str, name: str, late: int, disagree: bool
) -> None:
    rows = (Kernel(10, 20), Memcpy(120, 200 + late, 1, direction=direction),
            Call(100, 200, 1, name=name))  # fmt: skip
    with opened(*rows) as profile:
        slugs = {note.slug for note in profile.report("idle_gaps").notes}
    assert ("clocks-disagree" in slugs) == disagree


# -- sizes of gaps


def test_gaps_by_length_fall_into_the_bucket_they_reach() -> None:
    starts = [0]
    for length in (999, 1_000, 9_999, 10_000):
        starts.append(starts[-1] + 1 + length)
    rows = answers("idle_summary", *(Kernel(start, start + 1) for start in starts))
    assert [(r["bucket_min_ns"], r["gap_count"], r["gap_sum_ns"]) for r in rows] == [
        (0, 1, 999), (1_000, 2, 1_000 + 9_999), (10_000, 1, 10_000)]  # fmt: skip


def test_a_summary_adds_parts_and_not_causes() -> None:
    rows = (BEFORE, AFTER, Kernel(800, 900, 2), Call(490, 520, 1), Call(720, 790, 2))
    (row,) = answers("idle_summary", *rows)
    assert {p: row[f"{p}_sum_ns"] for p in PARTS} == dict.fromkeys(PARTS, 0) | {
        "host": 90 + 20, "launch": 30 + 70, "queue": 80 + 10}  # fmt: skip


def test_streams_of_two_processes_are_told_apart() -> None:
    rows = (Kernel(10, 20), Kernel(30, 40), Kernel(10, 40, pid=2))
    assert the_gap(*rows, idle=("stream",))["stream"] == "7@1"


def test_gaps_come_longest_first_and_a_limit_shortens_the_list_only() -> None:
    rows = (Kernel(0, 10), Kernel(20, 30), Kernel(60, 70), Kernel(80, 90))
    with opened(*rows) as profile:
        report = profile.report("idle_gaps", limit=2)
    assert [(r["start_ns"], r["dur_ns"]) for r in report.rows()] == [(30, 30), (10, 10)]
    assert report.row_count == 3


# -- calls of which no thread is recorded


def nowhere(*rows: Row) -> tuple[Row, ...]:
    """The rows, calls of them without a thread."""
    return tuple(row._replace(tid=None) if isinstance(row, Call) else row for row in rows)


NO_THREADS = {"without": (Fact.THREADS,)}
THE_GAP = (BEFORE, AFTER, Call(490, 520, 1))
# They hold [400, 490), if the thread that launched the end of the gap did these.
IN_THE_GAP = (Call(400, 470, 2, name="cudaMalloc"), Call(450, 490, 3, name="cudaFree"),
              Range(400, 490, "mm"))  # fmt: skip


def test_the_parts_of_a_gap_need_no_thread() -> None:
    """host 490 − 400, launch 520 − 490, queue 600 − 520."""
    rows = nowhere(*THE_GAP, *IN_THE_GAP)
    assert parts(*rows, **NO_THREADS) == {"host": 90, "launch": 30, "queue": 80}


def test_without_a_thread_nobody_knows_what_it_did_in_the_gap() -> None:
    names = ("thread", "during", "during_ns", "next_op")
    gap = the_gap(*nowhere(*THE_GAP, *IN_THE_GAP), **NO_THREADS)
    assert [gap[name] for name in names] == [None, None, None, "kernel"]
    gap = the_gap(*THE_GAP, *IN_THE_GAP)
    assert [gap[name] for name in names] == ["11", "cudaMalloc", 70, "kernel"]


def test_without_threads_what_the_host_did_is_not_recorded() -> None:
    with pytest.raises(NotRecorded) as error:
        answers("idle_host", *nowhere(*THE_GAP, *IN_THE_GAP), **NO_THREADS)
    assert error.value.missing == (Fact.THREADS,)


def test_what_is_told_of_some_threads_is_not_told_of_others() -> None:
    """The host parts are 90, of a call without a thread, and [700, 780), of one on thread 11."""
    rows = (*nowhere(*THE_GAP, *IN_THE_GAP), Kernel(800, 900, 4), Call(780, 790, 4),
            Call(650, 720, 5, name="cudaMemcpy"))  # fmt: skip
    found = answers("idle_host", *rows)
    assert [(r["activity"], r["name"], r["gap_count"], r["host_sum_ns"]) for r in found] == [
        ("outside", "[thread not recorded]", 1, 90), ("outside", "[nothing recorded]", 1, 60),
        ("api_call", "cudaMemcpy", 1, 20)]  # fmt: skip
    assert [(r["thread"], r["during"], r["during_ns"]) for r in answers("idle_gaps", *rows)] == [
        (None, None, None), ("11", "[nothing recorded]", 60)]  # fmt: skip


def test_the_profilers_share_of_a_host_part_is_nobodys_without_a_thread_too() -> None:
    """Of the first host part [400, 490) it covers all, of [700, 780) the first 30."""
    rows = (*nowhere(*THE_GAP, Call(780, 790, 4)), Kernel(800, 900, 4), Overhead(400, 490),
            Overhead(700, 730))  # fmt: skip
    assert [(r["name"], r["gap_count"], r["host_sum_ns"]) for r in answers("idle_host", *rows)] == [
        ("[thread not recorded]", 1, 50)]  # fmt: skip


def test_calls_without_a_thread_do_not_cross() -> None:
    rows = (Call(0, 100, 1), Call(50, 150, 2))
    with opened(*nowhere(*rows), **NO_THREADS) as profile:
        report = profile.report("api_vs_kernel")
    assert [note.slug for note in report.notes] == []
    assert [row["api_sum_ns"] for row in report.rows()] == [100 + 100]


def test_no_call_is_inside_another_where_no_thread_is_recorded() -> None:
    """Nobody knows that the driver's call is the runtime's, so no total of a process is told."""
    rows = nowhere(Call(0, 100, 1), Call(10, 90, 2, "driver"))
    (row,) = answers("processes", *rows, **NO_THREADS)
    assert (row["api_call_count"], row["api_sum_ns"], row["thread_count"]) == (2, None, None)
    (row,) = answers("processes", *rows, Call(0, 40, 3), Call(10, 20, 4))
    assert row["api_sum_ns"] == 100 + 80 + 40


@pytest.mark.parametrize(("tid", "owner"), [(None, "cudaLaunchKernel"), (11, "cuLaunchKernel")])
def test_of_calls_with_one_id_the_runtimes_owns_the_work_where_neither_is_inside(
    tid: int | None, owner: str
) -> None:
    rows = (Call(0, 100, 1, "driver", tid, name="cuLaunchKernel"), Call(10, 90, 1, tid=tid),
            Kernel(200, 230, 1))  # fmt: skip
    found = answers("api_vs_kernel", *rows)
    assert [row["name"] for row in found if row["kernel_sum_ns"] == 30] == [owner]
