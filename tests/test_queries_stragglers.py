"""stragglers and collective_arrivals: examples by hand, and planted offsets that have to be found."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from small_store import Collective, Kernel, MpiCall, Range, Row, answers, opened, write

from nsysconv import api
from nsysconv.errors import NotRecorded
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
            write(
                store,
                *rows,
                *recorded,
                label=f"r{rank}",
                run="job",
                **{"ranks": {1: rank}, **of_rank},
            )
        (report,) = api.report_on(store, [spec], **options)
    return report


def stragglers(*ranks: Rank, **options: Any) -> dict[int, dict[str, Any]]:
    return {row["rank"]: row for row in ask("stragglers", *ranks, **options).rows()}


def slugs(report: Report) -> dict[str, int]:
    return {note.slug: note.count for note in report.notes}


def picked(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def reduces(*spans: tuple[int, int]) -> tuple[Row, ...]:
    return tuple(Kernel(start, end, name=REDUCE) for start, end in spans)


ENDS = (200, 400, 600, 800)
EXAMPLE: tuple[Rank, ...] = (
    (reduces((100, 200), (310, 400), (500, 600), (700, 800)), {"utc": UTC}),
    (reduces((140, 200), (300, 400), (530, 600), (720, 800)), {"utc": UTC}),
    (reduces((110, 200), (360, 400), (500, 600), (700, 800)), {"utc": UTC}),
)


def test_the_example_of_the_documentation() -> None:
    """Arrivals 100 140 110, 310 300 360, 500 530 500, 700 720 700: firsts 100 300 500 700, lasts 140 360
    530 720.
    """
    found = stragglers(*EXAMPLE)
    names = (
        "collective_count",
        "last_count",
        "late_sum_ns",
        "late_max_ns",
        "wait_sum_ns",
        "caused_wait_ns",
    )
    assert {rank: picked(row, *names) for rank, row in found.items()} == {
        0: (4, 0, 0 + 10 + 0 + 0, 10, 40 + 50 + 30 + 20, 0),
        1: (4, 3, 40 + 0 + 30 + 20, 40, 0 + 60 + 0 + 0, (40 + 30) + (30 + 30) + (20 + 20)),
        2: (4, 1, 10 + 60 + 0 + 0, 60, 30 + 0 + 30 + 20, 50 + 60),
    }  # fmt: skip
    assert picked(found[1], "last_pct", "late_avg_ns", "late_med_ns") == (75.0, 22.5, 25.0)
    assert list(found) == [1, 2, 0], "who came latest in all first"
    assert sum(row["wait_sum_ns"] for row in found.values()) == sum(
        row["caused_wait_ns"] for row in found.values()
    )


def test_each_collective_of_the_example() -> None:
    report = ask("collective_arrivals", *EXAMPLE)
    names = (
        "operation",
        "index",
        "start_ns",
        "spread_ns",
        "rank_count",
        "first_rank",
        "last_rank",
        "wait_sum_ns",
    )
    assert [picked(row, *names) for row in report.rows()] == [
        ("allreduce", 1, 300, 60, 3, 1, 2, 110),
        ("allreduce", 0, 100, 40, 3, 0, 1, 70),
        ("allreduce", 2, 500, 30, 3, 0, 1, 60),
        ("allreduce", 3, 700, 20, 3, 0, 1, 40),
    ]  # fmt: skip
    assert ask("collective_arrivals", *EXAMPLE, limit=1).row_count == 4


def test_ends_correct_clocks_with_a_wrong_time_of_day() -> None:
    """Rank 1's clock is 1000 ns ahead of what its time of day says; its last arrival is 10 ns late."""
    ahead = tuple(
        (start + 1000, end + 1000)
        for start, end in ((100, 200), (300, 400), (500, 600), (710, 800))
    )
    found = stragglers((reduces((100, 200), (300, 400), (500, 600), (700, 800)), {"utc": UTC}),
                       (reduces(*ahead), {"utc": UTC}))  # fmt: skip
    assert picked(found[1], "clock_offset_ns", "clock_uncertainty_ns", "late_sum_ns") == (
        1000,
        0,
        10,
    )
    assert picked(found[0], "clock_offset_ns", "clock_uncertainty_ns", "late_sum_ns") == (0, 0, 0)


def test_what_ends_differ_by_is_the_uncertainty() -> None:
    """They differ by 0, 10, 20, 30 and 40: median 20, quartiles 10 and 30, half their distance 10."""
    mine = [(i * 100 + 50, i * 100 + 90) for i in range(5)]
    theirs = [
        (start, end + late) for (start, end), late in zip(mine, (20, 0, 40, 10, 30), strict=True)
    ]
    found = stragglers((reduces(*mine), {"utc": UTC}), (reduces(*theirs), {"utc": UTC}))
    assert picked(found[1], "clock_offset_ns", "clock_uncertainty_ns") == (20, 10)
    assert found[0]["late_sum_ns"] == 5 * 20, "rank 1 was 20 ns ahead"


def test_fewer_than_four_ends_give_no_uncertainty() -> None:
    report = ask(
        "stragglers", *((reduces((i + 1, 9), (i + 11, 19)), {"utc": UTC}) for i in range(2))
    )
    assert [row["clock_uncertainty_ns"] for row in report.rows()] == [None, 0]
    assert slugs(report)["clock-unchecked"] == 1


def test_ends_alone_tie_clocks_without_a_time_of_day() -> None:
    found = stragglers(
        (reduces((100, 200), (300, 400)), {}), (reduces((7_100, 7_200), (7_305, 7_400)), {})
    )
    assert [picked(found[r], "late_sum_ns", "clock_offset_ns") for r in (0, 1)] == [
        (0, None),
        (5, None),
    ]


def test_a_broadcast_s_root_may_leave_early() -> None:
    """Its ends are not taken for the same moment: the time of day alone tells."""
    ranks = ((Kernel(100, 110, name=BROADCAST),), (Kernel(105, 400, name=BROADCAST),))
    report = ask("stragglers", *((rows, {"utc": UTC}) for rows in ranks))
    assert {row["rank"]: row["late_sum_ns"] for row in report.rows()} == {0: 0, 1: 5}
    assert "clock-unchecked" in slugs(report)


def test_untied_clock_is_not_guessed() -> None:
    ranks = ((Kernel(100, 110, name=BROADCAST),), (Kernel(105, 400, name=BROADCAST),))
    report = ask("stragglers", (ranks[0], {"utc": UTC}), (ranks[1], {}))
    assert [picked(r, "rank", "late_sum_ns", "collective_count") for r in report.rows()] == [
        (0, None, 0), (1, None, None)]  # fmt: skip
    assert slugs(report)["clock-unknown"] == 1


def test_a_rank_is_tied_by_one_that_is_not_the_first() -> None:
    """Groups {0, 1} and {1, 2}: rank 2 shares nothing with rank 0; its clock is 50 ahead of rank 1's,
    which is 30 ahead of rank 0's.
    """

    def of(group: str, shift: int, *starts: int) -> tuple[Row, ...]:
        return tuple(
            Collective(start + shift, i * 100 + 90 + shift, "allreduce", group, i)
            for i, start in enumerate(starts)
        )

    found = stragglers(
        (of("a", 0, 10, 110, 210, 310), {}),
        ((*of("a", 30, 15, 110, 210, 310), *of("b", 30, 20, 120, 220, 320)), {}),
        (of("b", 80, 20, 127, 220, 320), {}),
    )
    assert [found[rank]["late_sum_ns"] for rank in range(3)] == [0, 5, 7]
    assert [found[rank]["collective_count"] for rank in range(3)] == [4, 8, 4]


def test_numbers_find_what_the_order_would_not() -> None:
    """Rank 1's recording begins with collective 6: its first is rank 0's second."""
    report = ask(
        "stragglers",
        (
            tuple(
                Collective(s, s + 10, "allreduce", "0", n)
                for n, s in ((5, 100), (6, 200), (7, 300))
            ),
            {},
        ),
        (
            tuple(
                Collective(s, e, "allreduce", "0", n) for n, s, e in ((6, 204, 210), (7, 300, 310))
            ),
            {},
        ),
    )
    names = ("rank", "collective_count", "alone_count", "late_sum_ns")
    assert sorted(picked(row, *names) for row in report.rows()) == [(0, 2, 1, 0), (1, 2, 0, 4)]
    assert slugs(report) == {"clock-unchecked": 1, "collectives-partial": 1}


def test_collectives_under_one_number_are_counted() -> None:
    """Of several kernels of one number the second is the second everywhere; calls are none of them."""
    rows = (Collective(10, 20, "_allgather_base", "0", 3), Collective(30, 40, "_allgather_base", "0", 3),
            Collective(1, 2, "_allgather_base", "0", 3, kind="call"))  # fmt: skip
    report = ask("collective_arrivals", (rows, {"utc": UTC}), (rows, {"utc": UTC}))
    assert [picked(row, "operation", "group", "index", "repeat") for row in report.rows()] == [
        ("allgather", "0", 3, 0), ("allgather", "0", 3, 1)]  # fmt: skip


def test_groups_of_one_name_and_other_ranks_are_two() -> None:
    rows = [(Collective(10, 20, "allreduce", "1", 0, members=f"[{i}, {i + 1}]"),) for i in (0, 2)]
    report = ask("stragglers", *((each, {"utc": UTC}) for each in rows))
    assert [picked(row, "collective_count", "alone_count") for row in report.rows()] == [
        (0, 1),
        (0, 1),
    ]


def test_what_is_recorded_of_kernels_without_numbers_tells_what_they_do() -> None:
    """No kernel's name says all-reduce; that they end together ties the clocks, and rank 1 comes last."""
    kernels = [Kernel(s, e, name="ncclDevKernel_Generic") for s, e in ((100, 150), (200, 250))]
    late = [Kernel(s, e, name="ncclDevKernel_Generic") for s, e in ((130, 150), (220, 250))]
    report = ask(
        "stragglers",
        *(
            ((*rows, *(Collective(k.start, k.end, "allreduce", "0") for k in rows)), {})
            for rows in (kernels, late)
        ),
    )
    found = {row["rank"]: row for row in report.rows()}
    assert [found[rank]["late_sum_ns"] for rank in (0, 1)] == [0, 50]
    assert "collectives-by-order" in slugs(report)


def test_point_to_point_is_no_collective() -> None:
    sends = (Kernel(0, 10, name="ncclDevKernel_SendRecv(void*)"),) * 3
    report = ask("stragglers", (sends, {}), (sends, {}))
    assert report.rows() == []
    assert slugs(report)["collectives-left-out"] == 6


CPU = {"holds": {Fact.MPI_CALLS, Fact.RANKS, Fact.UTC, Fact.RANGES}, "utc": UTC}


def test_mpi_by_order() -> None:
    def of(*starts: int) -> tuple[Row, ...]:
        return tuple(MpiCall(start, i * 100 + 90, "MPI_Allreduce", "collective", communicator=7)
                     for i, start in enumerate(starts))  # fmt: skip

    report = ask("stragglers", (of(10, 110), CPU), (of(12, 110), CPU))
    assert {row["rank"]: row["late_sum_ns"] for row in report.rows()} == {0: 0, 1: 2}
    assert slugs(report) == {"collectives-by-order": 1, "clock-unchecked": 1}


def test_of_mpi_the_first_communicator_is_all_ranks() -> None:
    """Handles of other communicators mean something on their own rank only."""
    rows = (MpiCall(0, 10, "MPI_Barrier", "collective", communicator=1),
            MpiCall(20, 30, "MPI_Barrier", "collective", communicator=2),
            MpiCall(40, 50, "MPI_Barrier", "collective", communicator=1),
            MpiCall(60, 70, "MPI_Send", "p2p", communicator=1))  # fmt: skip
    report = ask("stragglers", (rows, CPU), (rows, CPU))
    assert [row["collective_count"] for row in report.rows()] == [2, 2]
    assert slugs(report)["collectives-left-out"] == 2


def test_ranks_in_one_profile() -> None:
    recorded = [Range(0, 300, "run", pid=pid) for pid in (1, 2)]
    rows = answers("stragglers", *reduces((100, 200)), Kernel(130, 200, pid=2, device=1, name=REDUCE),
                   *recorded, ranks={1: 0, 2: 1})  # fmt: skip
    assert [picked(row, "rank", "device_id", "late_sum_ns", "last_count") for row in rows] == [
        (1, 1, 30, 1), (0, 0, 0, 0)]  # fmt: skip


# -- a recording's edge


def test_what_a_rank_waits_before_others_are_recorded_is_no_wait() -> None:
    """Rank 1 was recorded from 1000 on, and rank 2 to 4000: rank 0 waited from there for 30, and in the
    last collective nobody knows for whom.
    """
    ranks = (
        (reduces((100, 1090), (2000, 2090), (3900, 5090)), {"utc": UTC}),
        ((Kernel(1000, 1010), *reduces((1030, 1090), (2040, 2090), (4070, 5090))), {"utc": UTC}),
        ((Kernel(50, 60), *reduces((900, 1090), (2000, 2090)), Kernel(3990, 4000)), {"utc": UTC}),
    )
    report = ask("stragglers", *ranks, around=0)
    found = {row["rank"]: row for row in report.rows()}
    names = ("collective_count", "late_sum_ns", "wait_sum_ns", "caused_wait_ns")
    assert {rank: picked(row, *names) for rank, row in found.items()} == {
        0: (3, 0, 30 + 40 + 100, 0),
        1: (3, 30 + 40 + 100, 0, 60 + 80 + 100),
        2: (2, 0, 30 + 40, 0),
    }
    assert slugs(report)["waits-at-edges"] == 2
    arrivals = {row["index"]: row for row in ask("collective_arrivals", *ranks, around=0).rows()}
    assert [arrivals[i]["start_ns"] for i in range(3)] == [1000, 2000, 3900]
    assert [arrivals[i]["spread_ns"] for i in range(3)] == [30, 40, 100]


def test_recordings_that_share_no_time_tell_no_wait() -> None:
    late = tuple(Kernel(start + 10**6, start + 10**6 + 90, name=BROADCAST) for start in (0, 100))
    early = (Kernel(0, 90, name=BROADCAST), Kernel(100, 190, name=BROADCAST))
    found = stragglers((early, {"utc": UTC}), (late, {"utc": UTC}))
    assert [picked(found[rank], "late_sum_ns", "wait_sum_ns") for rank in (0, 1)] == [
        (0, 0),
        (0, 0),
    ]


def test_processes_of_one_profile_are_recorded_apart_where_it_tells_no_session() -> None:
    """Process 2 begins at 500; a session would be of both."""
    rows = (Kernel(0, 10), *reduces((100, 600)), Kernel(500, 510, pid=2, device=1),
            Kernel(530, 600, pid=2, device=1, name=REDUCE))  # fmt: skip
    of_two = {"ranks": {1: 0, 2: 1}}
    late = {row["rank"]: row["late_sum_ns"] for row in answers("stragglers", *rows, **of_two)}
    assert late == {0: 0, 1: 30}
    session = {"recording_start_ns": -10, "recording_ns": 700}
    late = {
        row["rank"]: row["late_sum_ns"] for row in answers("stragglers", *rows, **of_two, **session)
    }
    assert late == {0: 0, 1: 430}


def test_a_slice_keeps_collectives_that_one_rank_has_in_it() -> None:
    """[290, 450) has the second collective of each rank; the others still tie the clocks."""
    found = stragglers(*EXAMPLE, slice=api.Slice((290, 450)))
    assert {rank: picked(row, "collective_count", "late_sum_ns") for rank, row in found.items()} == {
        0: (1, 10), 1: (1, 0), 2: (1, 60)}  # fmt: skip
    assert found[1]["clock_uncertainty_ns"] == 0


def test_a_rank_alone_is_not_late() -> None:
    (row,) = answers("stragglers", *reduces((0, 10)), ranks={1: 0})
    assert picked(row, "collective_count", "late_sum_ns", "alone_count") == (0, None, 1)


def test_profile_without_kernels_and_mpi_is_not_recorded() -> None:
    with opened(holds=set()) as profile, pytest.raises(NotRecorded):
        profile.report("stragglers")


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
        spans = [
            (1000 * (i + 1) + each[rank], 1000 * (i + 1) + 100) for i, each in enumerate(arrivals)
        ]
        moved = [(start + 10**7 + offset, end + 10**7 + offset) for start, end in spans]
        ranks.append((reduces(*moved), {"utc": UTC}))
    found = stragglers(*ranks)
    for rank, row in found.items():
        mine = [each[rank] for each in arrivals]
        after_first = [each[rank] - min(each) for each in arrivals]
        assert picked(row, "clock_offset_ns", "clock_uncertainty_ns") == (
            offsets[rank] - offsets[0],
            0,
        )
        assert row["late_sum_ns"] == sum(after_first)
        assert row["late_max_ns"] == max(after_first)
        assert row["wait_sum_ns"] == sum(
            max(each) - late for each, late in zip(arrivals, mine, strict=True)
        )
        assert row["last_count"] == sum(each.index(max(each)) == rank for each in arrivals)


@given(st.integers(-80, 80), st.integers(-5, 5))
@examples(20)
def test_a_clock_that_runs_away_is_brought_back(ppm: int, noise: int) -> None:
    """Over 30 s a clock that is 80 ppm fast runs 2.4 ms away; arrivals differ by 7 ns in one of 31."""
    times = [10**9 * (i + 1) for i in range(31)]
    fast = [t + t * ppm // 10**6 + (noise if i % 2 else 0) for i, t in enumerate(times)]
    found = stragglers(
        (reduces(*((t - 100, t) for t in times)), {"utc": UTC}),
        (
            reduces(*((t - 100 + (7 if i == 15 else 0), t) for i, t in enumerate(fast))),
            {"utc": UTC},
        ),
    )
    assert found[1]["clock_drift_ppm"] == pytest.approx(ppm, abs=0.01)
    assert found[1]["clock_uncertainty_ns"] <= 6
    assert found[1]["late_max_ns"] == pytest.approx(7, abs=12)
    assert found[0]["late_max_ns"] <= 12
