"""stragglers and collective_arrivals: examples by hand, and planted offsets that have to be found."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from small_store import Collective, Kernel, MpiCall, Range, Row, cells, counted, write

from nsysconv import api
from nsysconv.facts import Fact
from nsysconv.report import Report
from nsysconv.timeline.collective_messages import operation

UTC = 1_700_000_000_000_000_000
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(void*)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(void*)"

Rank = tuple[tuple[Row, ...], dict[str, Any]]


def ask(spec: str, *ranks: Rank, around: int = 1000, **options: Any) -> Report:
    """Return a report on ranks of which each was recorded for so long before and after its rows."""
    with TemporaryDirectory() as folder:
        store = Path(folder) / "job.db"
        for rank, (rows, of_rank) in enumerate(ranks):
            first, last = min(row.start for row in rows), max(row.end for row in rows)
            recorded = [Range(first - around, last + around, "run")] if around else []
            more = {"ranks": {1: rank}, **of_rank}
            write(store, *rows, *recorded, label=f"r{rank}", run="job", **more)
        (report,) = api.report_on(store, [spec], **options)
    return report


def by_rank(report: Report, columns: str) -> dict[int, Any]:
    """The cells of these columns, of one column without a tuple, by rank."""
    names = columns.split()
    return {row["rank"]: row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)
            for row in report.rows()}  # fmt: skip


def stragglers(columns: str, *ranks: Rank, **options: Any) -> dict[int, Any]:
    return by_rank(ask("stragglers", *ranks, **options), columns)


def at(utc: int | None, *rows: Row) -> Rank:
    """A rank whose clock is tied to the time of day, or not."""
    return rows, {"utc": utc} if utc else {}


def reduces(*spans: tuple[int, int]) -> tuple[Row, ...]:
    return tuple(Kernel(start, end, name=REDUCE) for start, end in spans)


CLOCK = "clock_offset_ns clock_uncertainty_ns"
EXAMPLE: tuple[Rank, ...] = (
    at(UTC, *reduces((100, 200), (310, 400), (500, 600), (700, 800))),
    at(UTC, *reduces((140, 200), (300, 400), (530, 600), (720, 800))),
    at(UTC, *reduces((110, 200), (360, 400), (500, 600), (700, 800))),
)
BROADCASTS = (Kernel(100, 110, name=BROADCAST), Kernel(105, 400, name=BROADCAST))


STEPS = (Range(90, 250, "ProfilerStep#0"), Range(290, 450, "ProfilerStep#1"),
         Range(490, 620, "ProfilerStep#2"), Range(690, 820, "ProfilerStep#3"))  # fmt: skip


def test_in_how_many_steps_a_rank_is_the_worst() -> None:
    """The others wait for rank 1 in the steps 0, 2 and 3, and for rank 2 in step 1."""
    ranks = [((*STEPS, *rows), options) for rows, options in EXAMPLE]
    assert stragglers("worst_step_count worst_step_pct", *ranks) == {0: (0, 0), 1: (3, 75), 2: (1, 25)}
    assert stragglers("worst_step_count", *EXAMPLE) == {0: None, 1: None, 2: None}


def test_of_two_collectives_in_a_step_their_waits_count_together() -> None:
    """In one step rank 1 comes 10 late, and then rank 0 comes 30 late."""
    ranks = [at(UTC, Range(90, 400, "ProfilerStep#0"), *reduces((100, 200), (330, 400))),
             at(UTC, Range(90, 400, "ProfilerStep#0"), *reduces((110, 200), (300, 400)))]  # fmt: skip
    assert stragglers("worst_step_count", *ranks) == {0: 1, 1: 0}


def test_the_example_of_the_documentation() -> None:
    """Arrivals 100 140 110, 310 300 360, 500 530 500, 700 720 700: firsts 100 300 500 700, lasts 140 360
    530 720.
    """
    report = ask("stragglers", *EXAMPLE)
    columns = "collective_count last_count late_sum_ns late_max_ns wait_sum_ns caused_wait_ns"
    found = by_rank(report, columns)
    assert found == {
        0: (4, 0, 0 + 10 + 0 + 0, 10, 40 + 50 + 30 + 20, 0),
        1: (4, 3, 40 + 0 + 30 + 20, 40, 0 + 60 + 0 + 0, (40 + 30) + (30 + 30) + (20 + 20)),
        2: (4, 1, 10 + 60 + 0 + 0, 60, 30 + 0 + 30 + 20, 50 + 60),
    }
    assert by_rank(report, "last_pct late_avg_ns late_med_ns")[1] == (75.0, 22.5, 25.0)
    assert list(found) == [1, 2, 0], "who came latest in all first"
    assert sum(each[4] for each in found.values()) == sum(each[5] for each in found.values())


def test_each_collective_of_the_example() -> None:
    report = ask("collective_arrivals", *EXAMPLE)
    names = ("operation", "index", "start_ns", "spread_ns", "rank_count", "first_rank", "last_rank",
             "wait_sum_ns")  # fmt: skip
    assert [tuple(row[name] for name in names) for row in report.rows()] == [
        ("allreduce", 1, 300, 60, 3, 1, 2, 110),
        ("allreduce", 0, 100, 40, 3, 0, 1, 70),
        ("allreduce", 2, 500, 30, 3, 0, 1, 60),
        ("allreduce", 3, 700, 20, 3, 0, 1, 40),
    ]
    assert ask("collective_arrivals", *EXAMPLE, limit=1).row_count == 4


def test_ends_correct_clocks_with_a_wrong_time_of_day() -> None:
    """Rank 1's clock is 1000 ns ahead of what its time of day says; its last arrival is 10 ns late."""
    found = stragglers(
        f"{CLOCK} late_sum_ns",
        at(UTC, *reduces((100, 200), (300, 400), (500, 600), (700, 800))),
        at(UTC, *reduces((1100, 1200), (1300, 1400), (1500, 1600), (1710, 1800))),
    )
    assert found == {0: (0, 0, 0), 1: (1000, 0, 10)}


def test_what_ends_differ_by_is_the_uncertainty() -> None:
    """They differ by 0, 10, 20, 30 and 40: median 20, quartiles 10 and 30, half their distance 10."""
    mine = [(i * 100 + 50, i * 100 + 90) for i in range(5)]
    theirs = [(start, end + late) for (start, end), late in zip(mine, (20, 0, 40, 10, 30), strict=True)]
    report = ask("stragglers", at(UTC, *reduces(*mine)), at(UTC, *reduces(*theirs)))
    assert by_rank(report, CLOCK)[1] == (20, 10)
    assert by_rank(report, "late_sum_ns")[0] == 5 * 20, "rank 1 was 20 ns ahead"


def test_fewer_than_four_ends_give_no_uncertainty() -> None:
    report = ask("stragglers", *(at(UTC, *reduces((i + 1, 9), (i + 11, 19))) for i in range(2)))
    assert [row["clock_uncertainty_ns"] for row in report.rows()] == [None, 0]
    assert counted(report)["clock-unchecked"] == 1


def test_ends_alone_tie_clocks_without_a_time_of_day() -> None:
    ranks = at(None, *reduces((100, 200), (300, 400))), at(None, *reduces((7_100, 7_200), (7_305, 7_400)))
    assert stragglers("late_sum_ns clock_offset_ns", *ranks) == {0: (0, None), 1: (5, None)}


def test_a_broadcast_s_root_may_leave_early() -> None:
    """Its ends are not taken for the same moment: the time of day alone tells."""
    report = ask("stragglers", *(at(UTC, each) for each in BROADCASTS))
    assert by_rank(report, "late_sum_ns") == {0: 0, 1: 5}
    assert "clock-unchecked" in counted(report)


def test_untied_clock_is_not_guessed() -> None:
    report = ask("stragglers", at(UTC, BROADCASTS[0]), at(None, BROADCASTS[1]))
    assert by_rank(report, "late_sum_ns collective_count") == {0: (None, 0), 1: (None, None)}
    assert counted(report)["clock-unknown"] == 1


def test_a_rank_is_tied_by_one_that_is_not_the_first() -> None:
    """Groups {0, 1} and {1, 2}: rank 2 shares nothing with rank 0; its clock is 50 ahead of rank 1's,
    which is 30 ahead of rank 0's.
    """

    def of(group: str, shift: int, *starts: int) -> tuple[Row, ...]:
        return tuple(Collective(start + shift, i * 100 + 90 + shift, "allreduce", group, i)
                     for i, start in enumerate(starts))  # fmt: skip

    found = stragglers(
        "late_sum_ns collective_count",
        at(None, *of("a", 0, 10, 110, 210, 310)),
        at(None, *of("a", 30, 15, 110, 210, 310), *of("b", 30, 20, 120, 220, 320)),
        at(None, *of("b", 80, 20, 127, 220, 320)),
    )
    assert found == {0: (0, 4), 1: (5, 8), 2: (7, 4)}


def test_numbers_find_what_the_order_would_not() -> None:
    """Rank 1's recording begins with collective 6: its first is rank 0's second."""

    def of(*numbered: tuple[int, int, int]) -> Rank:
        return at(None, *(Collective(start, end, "allreduce", "0", n) for n, start, end in numbered))

    report = ask("stragglers", of((5, 100, 110), (6, 200, 210), (7, 300, 310)),
                 of((6, 204, 210), (7, 300, 310)))  # fmt: skip
    assert by_rank(report, "collective_count alone_count late_sum_ns") == {0: (2, 1, 0), 1: (2, 0, 4)}
    assert counted(report) == {"clock-unchecked": 1, "collectives-partial": 1}


def test_collectives_under_one_number_are_counted() -> None:
    """Of several kernels of one number the second is the second everywhere; calls are none of them."""
    rows = (Collective(10, 20, "_allgather_base", "0", 3), Collective(30, 40, "_allgather_base", "0", 3),
            Collective(1, 2, "_allgather_base", "0", 3, kind="call"))  # fmt: skip
    found = ask("collective_arrivals", at(UTC, *rows), at(UTC, *rows)).rows()
    assert [(row["operation"], row["group"], row["index"], row["repeat"]) for row in found] == [
        ("allgather", "0", 3, 0), ("allgather", "0", 3, 1)]  # fmt: skip


def test_groups_of_one_name_and_other_ranks_are_two() -> None:
    ranks = [at(UTC, Collective(10, 20, "allreduce", "1", 0, members=f"[{i}, {i + 1}]")) for i in (0, 2)]
    assert stragglers("collective_count alone_count", *ranks) == {0: (0, 1), 1: (0, 1)}


def test_what_is_recorded_of_kernels_without_numbers_tells_what_they_do() -> None:
    """No kernel's name says all-reduce; that they end together ties the clocks, and rank 1 comes last."""

    def of(*spans: tuple[int, int]) -> Rank:
        return at(None, *(Kernel(*span, name="ncclDevKernel_Generic") for span in spans),
                  *(Collective(*span, "allreduce", "0") for span in spans))  # fmt: skip

    report = ask("stragglers", of((100, 150), (200, 250)), of((130, 150), (220, 250)))
    assert by_rank(report, "late_sum_ns") == {0: 0, 1: 50}
    assert "collectives-by-order" in counted(report)


def test_point_to_point_is_no_collective() -> None:
    sends = at(None, *(Kernel(0, 10, name="ncclDevKernel_SendRecv(void*)"),) * 3)
    report = ask("stragglers", sends, sends)
    assert report.rows() == []
    assert counted(report)["collectives-left-out"] == 6


CPU = {"holds": {Fact.MPI_CALLS, Fact.RANKS, Fact.UTC, Fact.RANGES}, "utc": UTC}


def test_mpi_by_order() -> None:
    def of(*starts: int) -> Rank:
        return tuple(MpiCall(start, i * 100 + 90, "MPI_Allreduce", "collective", communicator=7)
                     for i, start in enumerate(starts)), CPU  # fmt: skip

    report = ask("stragglers", of(10, 110), of(12, 110))
    assert by_rank(report, "late_sum_ns") == {0: 0, 1: 2}
    assert counted(report) == {"collectives-by-order": 1, "clock-unchecked": 1}


def test_of_mpi_the_first_communicator_is_all_ranks() -> None:
    """Handles of other communicators mean something on their own rank only."""
    rows = (MpiCall(0, 10, "MPI_Barrier", "collective", communicator=1),
            MpiCall(20, 30, "MPI_Barrier", "collective", communicator=2),
            MpiCall(40, 50, "MPI_Barrier", "collective", communicator=1),
            MpiCall(60, 70, "MPI_Send", "p2p", communicator=1))  # fmt: skip
    report = ask("stragglers", (rows, CPU), (rows, CPU))
    assert by_rank(report, "collective_count") == {0: 2, 1: 2}
    assert counted(report)["collectives-left-out"] == 2


def test_ranks_in_one_profile() -> None:
    recorded = [Range(0, 300, "run", pid=pid) for pid in (1, 2)]
    rows = (*reduces((100, 200)), Kernel(130, 200, pid=2, device=1, name=REDUCE), *recorded)
    found = cells("stragglers rank device_id late_sum_ns last_count", *rows, ranks={1: 0, 2: 1})
    assert found == [(1, 1, 30, 1), (0, 0, 0, 0)]


# -- a recording's edge


def test_what_a_rank_waits_before_others_are_recorded_is_no_wait() -> None:
    """Rank 1 was recorded from 1000 on, and rank 2 to 4000: rank 0 waited from there for 30, and in the
    last collective nobody knows for whom.
    """
    ranks = (
        at(UTC, *reduces((100, 1090), (2000, 2090), (3900, 5090))),
        at(UTC, Kernel(1000, 1010), *reduces((1030, 1090), (2040, 2090), (4070, 5090))),
        at(UTC, Kernel(50, 60), *reduces((900, 1090), (2000, 2090)), Kernel(3990, 4000)),
    )
    report = ask("stragglers", *ranks, around=0)
    assert by_rank(report, "collective_count late_sum_ns wait_sum_ns caused_wait_ns") == {
        0: (3, 0, 30 + 40 + 100, 0), 1: (3, 30 + 40 + 100, 0, 60 + 80 + 100), 2: (2, 0, 30 + 40, 0),
    }  # fmt: skip
    assert counted(report)["waits-at-edges"] == 2
    arrivals = ask("collective_arrivals", *ranks, around=0).rows()
    assert {row["index"]: (row["start_ns"], row["spread_ns"]) for row in arrivals} == {
        0: (1000, 30), 1: (2000, 40), 2: (3900, 100)}  # fmt: skip


def test_recordings_that_share_no_time_tell_no_wait() -> None:
    early, late = (at(UTC, *(Kernel(start, start + 90, name=BROADCAST) for start in (first, first + 100)))
                   for first in (0, 10**6))  # fmt: skip
    assert stragglers("late_sum_ns wait_sum_ns", early, late) == {0: (0, 0), 1: (0, 0)}


@pytest.mark.parametrize(("session", "lateness"), [
    ({}, 30), ({"recording_start_ns": -10, "recording_ns": 700}, 430),
])  # fmt: skip
def test_processes_of_one_profile_are_recorded_apart_where_it_tells_no_session(
    session: dict[str, int], lateness: int
) -> None:
    """Process 2 begins at 500; a session would be of both."""
    rows = (Kernel(0, 10), *reduces((100, 600)), Kernel(500, 510, pid=2, device=1),
            Kernel(530, 600, pid=2, device=1, name=REDUCE))  # fmt: skip
    found = cells("stragglers rank late_sum_ns", *rows, ranks={1: 0, 2: 1}, **session)
    assert dict(found) == {0: 0, 1: lateness}


def test_a_slice_keeps_collectives_that_one_rank_has_in_it() -> None:
    """[290, 450) has the second collective of each rank; the others still tie the clocks."""
    report = ask("stragglers", *EXAMPLE, slice=api.Slice((290, 450)))
    assert by_rank(report, "collective_count late_sum_ns") == {0: (1, 10), 1: (1, 0), 2: (1, 60)}
    assert by_rank(report, "clock_uncertainty_ns")[1] == 0


def test_a_rank_alone_is_not_late() -> None:
    found = cells("stragglers collective_count late_sum_ns alone_count", *reduces((0, 10)), ranks={1: 0})
    assert found == [(0, None, 1)]


@pytest.mark.parametrize(("name", "what"), [
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(void*)", "allreduce"),
    ("ncclKernel_AllGather_RING_LL_Sum_int8_t", "allgather"),
    ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
    ("_reduce_scatter_base", "reduce_scatter"), ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"),
    ("void vllm::cross_device_reduce_2stage<float, 2>()", "allreduce"), ("all_to_all", "alltoall"),
    ("MPI_Allreduce", "allreduce"), ("MPI_Iallreduce", "MPI_Iallreduce"),
    ("MPI_Ibarrier", "MPI_Ibarrier"),
    ("MPI_Bcast", "broadcast"), ("MPI_Barrier", "barrier"), ("MPI_Allreduce_init", "MPI_Allreduce_init"),
    ("ncclDevKernel_SendRecv", "point_to_point"), ("ncclDevKernel_Generic_4", "ncclDevKernel_Generic_4"),
])  # fmt: skip
def test_operation_of_a_collective_by_its_name(name: str, what: str) -> None:
    assert operation(name) == what


late = st.lists(st.integers(0, 40), min_size=3, max_size=3)


@given(
    st.lists(late, min_size=4, max_size=9),
    st.lists(st.integers(-(10**6), 10**6), min_size=3, max_size=3),
)
@examples(40)
def test_planted_offsets_and_lateness_are_found(
    arrivals: list[list[int]], offsets: list[int]
) -> None:
    """Collective i begins at 1000 (i + 1) or `late` ns later, and ends for all at 1000 (i + 1) + 100."""
    ranks = []
    for rank, offset in enumerate(offsets):
        moved = 10**7 + offset
        spans = [(1000 * (i + 1) + each[rank] + moved, 1000 * (i + 1) + 100 + moved)
                 for i, each in enumerate(arrivals)]  # fmt: skip
        ranks.append(at(UTC, *reduces(*spans)))
    columns = f"{CLOCK} late_sum_ns late_max_ns wait_sum_ns last_count"
    for rank, found in stragglers(columns, *ranks).items():
        mine = [each[rank] for each in arrivals]
        after_first = [each[rank] - min(each) for each in arrivals]
        assert found == (
            offsets[rank] - offsets[0], 0, sum(after_first), max(after_first),
            sum(max(each) - late for each, late in zip(arrivals, mine, strict=True)),
            sum(each.index(max(each)) == rank for each in arrivals),
        )  # fmt: skip


@given(st.integers(-80, 80), st.integers(-5, 5))
@examples(20)
def test_a_clock_that_runs_away_is_brought_back(ppm: int, noise: int) -> None:
    """Over 30 s a clock that is 80 ppm fast runs 2.4 ms away; arrivals differ by 7 ns in one of 31."""
    times = [10**9 * (i + 1) for i in range(31)]
    fast = [t + t * ppm // 10**6 + (noise if i % 2 else 0) for i, t in enumerate(times)]
    found = stragglers(
        "clock_drift_ppm clock_uncertainty_ns late_max_ns",
        at(UTC, *reduces(*((t - 100, t) for t in times))),
        at(UTC, *reduces(*((t - 100 + (7 if i == 15 else 0), t) for i, t in enumerate(fast)))),
    )
    assert found[1][0] == pytest.approx(ppm, abs=0.01)
    assert found[1][1] <= 6
    assert found[1][2] == pytest.approx(7, abs=12)
    assert found[0][2] <= 12
