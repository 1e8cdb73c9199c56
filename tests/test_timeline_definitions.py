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
    asked,
    by_hand,
    cells,
    hand_computed,
    opened,
)

from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact

PARTS = ("host", "launch", "queue", "migration", "profiler", "unknown", "end")


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
MIGRATIONS_ALONE = (Kernel(10, 20), Migration(0, 50, device=1), Migration(80, 90, device=1))
UNTIMED = (Kernel(None, None), Kernel(100, 150))
OF_NO_LENGTH = (Kernel(100, 200), Kernel(250, 250), Kernel(300, 400))


test_overview = hand_computed(
    ("sums count overlaps twice and unions once", "overview kernel_sum_ns kernel_union_ns", PICTURE,
     [(200 + 200 + 300, 300 + 300)]),
    ("busy is the union", "overview window_start_ns window_ns busy_ns", PICTURE, [(100, 900, 300 + 400)]),
    ("idle is the rest of the window", "overview idle_ns idle_pct", PICTURE,
     [(900 - 700, pytest.approx(100 * 200 / 900))]),
    ("a slice counts whole rows", "overview kernel_count kernel_sum_ns", PICTURE, [(2, 200 + 300)],
     {"time": (350, 700)}),
    ("a slice clips unions", "overview kernel_union_ns window_start_ns window_ns idle_ns", PICTURE,
     [((400 - 350) + (700 - 600), 350, 350, 600 - 400)], {"time": (350, 700)}),
    # -- slices
    ("a row that ends where the slice begins is outside", "overview kernel_count",
     (Kernel(100, 300), Kernel(400, 450)), [1], {"time": (300, 500)}),
    ("a row that begins where the slice ends is outside", "overview kernel_count",
     (Kernel(100, 300), Kernel(500, 600)), [1], {"time": (50, 500)}),
    *((f"a row without length at {moment} belongs to the slice it starts in", "overview kernel_count",
       (Kernel(moment, moment),), [inside], {"time": (300, 500)})
      for moment, inside in ((300, 1), (499, 1), (299, 0), (500, 0))),
    # -- windows
    ("migrations do not extend the window", "overview window_start_ns window_ns idle_ns",
     (Migration(0, 50), Kernel(100, 200), Migration(900, 1000)), [(100, 100, 0)]),
    ("a migration inside the window is busy time", "overview window_ns busy_ns",
     (Kernel(100, 200), Migration(220, 250), Kernel(300, 400)), [(300, 100 + 30 + 100)]),
    ("of a migration that reaches into the window the part inside is busy", "overview busy_ns",
     (Kernel(100, 110), Migration(50, 130), Memset(150, 160)), [(130 - 100) + 10]),
    ("with a slice the window is the slice, also for migrations alone",
     "overview window_start_ns window_ns busy_ns", (Migration(0, 50),), [(40, 60, 10)],
     {"time": (40, 100)}),
    ("a device with nothing but migrations has no window",
     "overview device_id um_count um_sum_ns window_ns busy_ns idle_ns idle_pct", MIGRATIONS_ALONE,
     [(0, 0, 0, 10, 10, 0, 0), (1, 2, 60, None, None, None, None)]),
    ("nor a gap", "idle_gaps", MIGRATIONS_ALONE, []),
    ("operations without a call count in window and busy time", "overview window_ns busy_ns",
     (Kernel(100, 200, 0), Kernel(300, 400, None), Kernel(500, 600, 999), Call(1, 2, 5)), [(500, 300)]),
    ("devices have windows of their own", "overview device_id device window_start_ns window_ns",
     (Kernel(100, 200), Kernel(300, 450, device=1)), [(0, "GPU 0", 100, 100), (1, "GPU 1", 300, 150)]),
    # -- kinds of operations
    *((f"a {type(op).__name__} keeps a device busy", "overview window_ns busy_ns", (op,), [(20, 20)])
      for op in (Kernel(10, 30), Memcpy(10, 30), Memset(10, 30), Graph(10, 30))),
    ("waits and overhead are no GPU work", "overview window_ns busy_ns",
     (Kernel(10, 30), Sync(30, 100), Overhead(40, 90), Range(0, 100, "r")), [(20, 20)]),
    ("a graph interval is no kernel in counts and sums",
     "overview kernel_count kernel_sum_ns kernel_union_ns graph_launch_count graph_launch_sum_ns",
     (Graph(10, 30), Kernel(40, 45)), [(1, 5, 5, 1, 20)]),
    ("migrations have columns of their own",
     "overview memcpy_count memcpy_sum_ns um_count um_sum_ns um_bytes_sum",
     (Memcpy(10, 20), Migration(12, 15, bytes=64), Migration(16, 18, bytes=36)), [(1, 10, 2, 5, 100)]),
    ("an operation without time counts", "overview kernel_count kernel_sum_ns", UNTIMED, [(2, 50)]),
    ("and is in no union", "overview kernel_union_ns window_start_ns window_ns busy_ns", UNTIMED,
     [(50, 100, 50, 50)]),
    ("operations of no length count and add nothing", "overview kernel_count kernel_sum_ns busy_ns",
     OF_NO_LENGTH, [(3, 200, 200)]),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "expected"), [
    ("no_op", [(None, 400, 200)]),
    ("no_kernel", [(None, 400, 200), (None, 900, 100)]),
    ("stream", [("1", 300, 300), ("1", 900, 100), ("2", 100, 100), ("2", 400, 450)]),
])  # fmt: skip
def test_three_kinds_of_idle_time(kind: str, expected: list[tuple[str | None, int, int]]) -> None:
    found = cells("idle_gaps kind stream start_ns dur_ns", *PICTURE, idle=(kind,))
    assert sorted(found, key=str) == [(kind, *each) for each in expected]


@by_hand(
    ("gaps are clipped to a slice inside", "no_op", (Kernel(100, 200), Kernel(600, 700)), [(300, 400)],
     {"time": (300, 400)}),
    ("gaps are clipped to a slice around", "no_op", (Kernel(100, 200), Kernel(600, 700)),
     [(50, 100), (200, 600)], {"time": (50, 650)}),
    ("a graph interval is kernel work where idle time without kernels is looked for", "no_kernel",
     (Kernel(10, 20), Memcpy(20, 50), Graph(50, 60)), [(20, 50)]),
    ("operations of no length split no gap", "no_op", OF_NO_LENGTH, [(200, 300)]),
    ("operations that touch leave no gap", "no_op", (Kernel(100, 300), Kernel(300, 400)), []),
)  # fmt: skip
def test_gaps(ask: str, rows: tuple[Row, ...], expected: list[Any], options: Any) -> None:
    """By kind of idle time: (start, end) of every gap, in order of time."""
    found = cells("idle_gaps start_ns dur_ns", *rows, idle=(ask,), **options)
    assert sorted((start, start + dur) for start, dur in found) == expected


def test_a_graph_interval_is_named_under_kernels_and_transfers() -> None:
    for name in ("kernels", "transfers"):
        slugs = [note.slug for note in asked(name, Graph(10, 30), Memcpy(40, 45)).notes]
        assert slugs == ["graph-intervals"]


def test_an_operation_without_time_is_noted() -> None:
    notes = {note.slug: note.count for note in asked("overview", *UNTIMED).notes}
    assert notes["no-time"] == 1


# -- parts of a gap: [400, 600) between two kernels, ended by what call 1 launched


BEFORE, AFTER = Kernel(300, 400, 0), Kernel(600, 700, 1)
CALL = Call(490, 520, 1)
THE_GAP = (BEFORE, AFTER, CALL)
PARTS_OF_IT = {"host": 90, "launch": 30, "queue": 80}
LATE = 3_000_000_000
HIGH = 1 << 32
NO_LINKS = {"without": (Fact.API_CALLS, Fact.API_LINKS)}
# Neither the earlier of the two calls nor the later may win; one without an operation is nothing missing.
OF_TWO = (Call(410, 420, 1, name="cudaMemcpyAsync"), Call(490, 520, 1, pid=2, name="cudaMemcpyAsync"))


@by_hand(
    ("the example of the documentation", "no_op", (*THE_GAP, Overhead(430, 450)),
     {"host": 490 - 400 - 20, "profiler": 20, "launch": 30, "queue": 80}),
    # host: 100 → 3e9; launch: → 3e9 + 10; queue: → 3e9 + 30.
    ("a gap of more nanoseconds than 32 bits hold", "no_op",
     (Call(-20, -10, 1), Kernel(0, 100, 1), Call(LATE, LATE + 10, 7), Kernel(LATE + 30, LATE + 40, 7)),
     {"host": LATE - 100, "launch": 10, "queue": 20}),
    ("a call from before the gap leaves no host part", "no_op", (BEFORE, AFTER, Call(350, 420, 1)),
     {"launch": 20, "queue": 180}),
    ("a call that returned before the gap leaves queue only", "no_op",
     (BEFORE, AFTER, Call(300, 320, 1)), {"queue": 200}),
    ("a call that returns after the gap leaves no queue part", "no_op",
     (BEFORE, AFTER, Call(450, 650, 1)), {"host": 50, "launch": 150}),
    ("a call that begins after its operation leaves host only", "no_op",
     (BEFORE, AFTER, Call(610, 620, 1)), {"host": 200}),
    # As nodes of one graph do: after the call's return it is queue by the same arithmetic.
    ("operations that share a call wait in the queue", "no_op",
     (Kernel(300, 400, 1), AFTER, Call(280, 290, 1)), {"queue": 200}),
    ("operations that share a call wait for its return", "no_op",
     (Kernel(300, 400, 1), AFTER, Call(280, 410, 1)), {"launch": 10, "queue": 190}),
    # It is on no stream, though a number was recorded that is lower than the kernel's.
    ("a migration that begins with a kernel does not end the gap", "no_op",
     (Kernel(0, 10, 1), Call(20, 25, 2), Kernel(50, 60, 2), Migration(50, 55, stream=0)),
     {"host": 10, "launch": 5, "queue": 25}),
    ("a gap ended by a migration is all the host's", "no_op",
     (BEFORE, Migration(600, 650, 1), Kernel(650, 700), CALL), {"host": 200}),
    ("without a call before it, it is migration", "no_op",
     (BEFORE, Migration(600, 650, 1), Kernel(650, 700)), {"migration": 200}),
    ("profiler work outside the host part changes nothing", "no_op",
     (*THE_GAP, Overhead(300, 400), Overhead(490, 700)), PARTS_OF_IT),
    ("profiler work is counted once where it overlaps", "no_op",
     (*THE_GAP, Overhead(390, 430), Overhead(420, 440, tid=12), Overhead(480, 500)),
     {"host": 90 - 50, "profiler": 40 + 10, "launch": 30, "queue": 80}),
    ("work of the driver is not the profiler's", "no_op", (*THE_GAP, Overhead(430, 450, "driver")),
     PARTS_OF_IT),
    ("profiler work in another process does not count", "no_op", (*THE_GAP, Overhead(430, 450, pid=2)),
     PARTS_OF_IT),
    *((f"without the call, as with {id_}, the gap is unknown", "no_op",
       (BEFORE, Kernel(600, 700, id_), CALL, Call(530, 540, 0)), {"unknown": 200})
      for id_ in (0, None, 999)),
    ("after the last operation of a slice it is the end", "no_op", (BEFORE, CALL), {"end": 200},
     {"time": (300, 600)}),
    ("an operation that starts where the slice ends does not end the gap", "no_op", THE_GAP,
     {"end": 200}, {"time": (300, 600)}),
    ("without a kernel after it a gap without kernels runs to the end", "no_kernel",
     (Kernel(300, 400), Memcpy(500, 600, 1), CALL), {"end": 200}),
    ("an operation of no length that is the last ends its gap", "no_op",
     (BEFORE, Memset(600, 600, 1), CALL), PARTS_OF_IT),
    # The migration lies outside the window, which the memset ends: it cannot end the gap.
    ("such an operation ends its gap also beside a migration that begins there", "no_op",
     (BEFORE, Memset(600, 600, 1), Migration(600, 650), CALL), PARTS_OF_IT),
    ("of operations that start together the lowest stream ended the gap", "no_op",
     (BEFORE, Kernel(600, 700, 1, stream=9), Kernel(600, 700, 2, stream=8), CALL, Call(410, 420, 2)),
     {"host": 10, "launch": 10, "queue": 180}),
    ("on one stream the first row ended the gap", "no_op",
     (BEFORE, Kernel(600, 700, 1), Kernel(600, 650, 2), CALL, Call(410, 420, 2)), PARTS_OF_IT),
    ("the parts of a stream go by the operation of that stream", "stream",
     (Kernel(300, 400), Kernel(600, 700, 1), Kernel(300, 700, stream=8), CALL), PARTS_OF_IT),
    ("the call of process 1 is not the one of process 2", "no_op", (BEFORE, AFTER, *OF_TWO),
     {"host": 10, "launch": 10, "queue": 180}),
    ("the call of process 2 is not the one of process 1", "no_op",
     (BEFORE, Kernel(600, 700, 1, pid=2), *OF_TWO), PARTS_OF_IT),
    ("parts without recorded links are unknown", "no_op", (BEFORE, Kernel(600, 700, None)),
     {"unknown": 200}, NO_LINKS),
    # -- one operation, one owner
    ("of two calls that share an id the outer one owns", "no_op",
     (BEFORE, AFTER, Call(450, 550, 1, "driver"), Call(500, 520, 1, "runtime")),
     {"host": 50, "launch": 100, "queue": 50}),
    ("the outer one owns also where a third call holds both", "no_op",
     (BEFORE, AFTER, Call(410, 590, 7), Call(450, 550, 1, "driver"), Call(500, 520, 1)),
     {"host": 50, "launch": 100, "queue": 50}),
    # 2^32 + 5 in 32 bits is 5: that is not a call of the kernel's.
    ("ids of calls may be larger than those of operations", "no_op",
     (Call(0, 10, HIGH + 5), Call(12, 14, HIGH + 6), Kernel(20, 30, 5), Kernel(40, 50, 6)),
     {"unknown": 10}),
    ("of two calls side by side the runtime's owns", "no_op",
     (BEFORE, AFTER, Call(410, 420, 1, "driver"), Call(500, 520, 1, "runtime")),
     {"host": 100, "launch": 20, "queue": 80}),
    ("of two runtime calls side by side the later owns", "no_op",
     (BEFORE, AFTER, Call(500, 520, 1), Call(410, 420, 1), Call(650, 660, 1)),
     {"host": 100, "launch": 20, "queue": 80}),
)  # fmt: skip
def test_parts_of_the_only_gap(
    ask: str, rows: tuple[Row, ...], expected: dict[str, int], options: Any
) -> None:
    """By kind of idle time: the parts other than 0."""
    assert parts(*rows, idle=(ask,), **options) == expected


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
    assert "clocks-disagree" not in {n.slug for n in asked("idle_gaps", *rows).notes}


# -- sizes of gaps


def test_gaps_by_length_fall_into_the_bucket_they_reach() -> None:
    starts = [0]
    for length in (999, 1_000, 9_999, 10_000):
        starts.append(starts[-1] + 1 + length)
    ask = "idle_summary bucket_min_ns gap_count gap_sum_ns"
    rows = cells(ask, *(Kernel(start, start + 1) for start in starts))
    assert rows == [
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
    report = asked("idle_gaps", *rows, limit=2)
    assert [(r["start_ns"], r["dur_ns"]) for r in report.rows()] == [(30, 30), (10, 10)]
    assert report.row_count == 3


# -- calls of which no thread is recorded


def nowhere(*rows: Row) -> tuple[Row, ...]:
    """The rows, calls of them without a thread."""
    return tuple(row._replace(tid=None) if isinstance(row, Call) else row for row in rows)


NO_THREADS = {"without": (Fact.THREADS,)}
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
    report = asked("api_vs_kernel", *nowhere(*rows), **NO_THREADS)
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
