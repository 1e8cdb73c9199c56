"""collectives: the example by hand, planted transfer and waiting, and a slow, obvious version."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from conftest import REAL, examples, real
from hypothesis import given
from hypothesis import strategies as st
from small_store import Collective, Kernel, Row, answers, counted, picked, write

from nsysconv import api
from nsysconv.report import Report
from nsysconv.timeline.collective_messages import bus_factor, element_bytes

UTC = 1_700_000_000_000_000_000
GIGA = 1e9


def ask(*ranks: tuple[Row, ...], utc: int | None = UTC, **options: Any) -> Report:
    with TemporaryDirectory() as folder:
        store = Path(folder) / "job.db"
        for rank, rows in enumerate(ranks):
            write(store, *rows, label=f"r{rank}", run="job", ranks={1: rank}, utc=utc)
        (report,) = api.report_on(store, ["collectives"], **options)
    return report


def numbered(*spans: tuple[int, int], does: str = "allreduce", elements: int = 1000,
             size: int = 3, first: int = 0) -> tuple[Row, ...]:  # fmt: skip
    return tuple(
        Collective(start, end, does, "0", first + i, dtype="Float", in_elements=elements,
                   out_elements=elements, group_size=size)
        for i, (start, end) in enumerate(spans)
    )  # fmt: skip


def one(*ranks: tuple[Row, ...], **options: Any) -> dict[str, Any]:
    (row,) = ask(*ranks, **options).rows()
    return row


EXAMPLE = (
    numbered((100, 200), (310, 400), (500, 600), (700, 800)),
    numbered((140, 200), (300, 400), (530, 600), (720, 800)),
    numbered((110, 200), (360, 400), (500, 600), (700, 800)),
)


def test_the_example_of_the_documentation() -> None:
    """The last come at 140 360 530 720, the ends are 200 400 600 800: 60 + 40 + 70 + 80 on each rank."""
    row = one(*EXAMPLE)
    assert picked(row, "operation", "group", "group_size", "dtype", "bytes") == (
        "allreduce", "0", 3, "Float", 4000)  # fmt: skip
    assert picked(row, "collective_count", "kernel_count", "rank_count", "alone_count") == (4, 12, 3, 0)
    assert row["transfer_sum_ns"] == 3 * (60 + 40 + 70 + 80) == 750
    assert row["wait_sum_ns"] == 140 + 60 + 80
    assert row["kernel_sum_ns"] == 390 + 310 + 330 == 750 + 280
    assert row["wait_pct"] == pytest.approx(100 * 280 / 1030)
    assert row["algorithm_bytes_per_s"] == pytest.approx(4000 * 12 / 750 * GIGA)
    assert row["bus_bytes_per_s"] == pytest.approx(64 * GIGA * 4 / 3)
    assert row["kernel_bytes_per_s"] == pytest.approx(4000 * 12 / 1030 * GIGA)
    assert row["parted_by"] == "last arrival"


def test_kernels_without_another_rank_s_count_in_no_bandwidth() -> None:
    """Rank 0 has a fifth, which lasts 1000: 4000 bytes × 12 in 750 ns as before, 13 in 2030."""
    row = one((*EXAMPLE[0], *numbered((1000, 2000), first=4)), *EXAMPLE[1:])
    assert picked(row, "collective_count", "kernel_count", "alone_count") == (5, 13, 1)
    assert row["algorithm_bytes_per_s"] == pytest.approx(64 * GIGA)
    assert row["kernel_bytes_per_s"] == pytest.approx(4000 * 13 / 2030 * GIGA)


def test_one_rank_alone_has_neither_transfer_nor_bandwidth_but_a_lower_bound() -> None:
    report = ask(EXAMPLE[0])
    (row,) = report.rows()
    assert counted(report) == {}, "nothing was compared"
    names = ("transfer_sum_ns", "wait_sum_ns", "wait_pct", "algorithm_bytes_per_s", "bus_bytes_per_s")
    assert picked(row, *names, "parted_by") == (None,) * 6
    assert picked(row, "collective_count", "kernel_sum_ns", "alone_count") == (4, 390, 4)
    assert row["kernel_bytes_per_s"] == pytest.approx(4000 * 4 / 390 * GIGA)


def test_without_clocks_the_least_duration_is_the_transfer() -> None:
    """Two ends do not say how exact the clock is. Durations 100 90, 60 100: least 60 and 90."""
    report = ask(numbered((100, 200), (310, 400)), numbered((7140, 7200), (7300, 7400)), utc=None)
    (row,) = report.rows()
    assert picked(row, "transfer_sum_ns", "wait_sum_ns", "parted_by") == (
        2 * (60 + 90), 40 + 0 + 0 + 10, "least duration")  # fmt: skip
    assert counted(report)["clock-unchecked"] == 1


def test_of_a_broadcast_the_least_duration_counts_whatever_the_clocks() -> None:
    """All-reduces tie the clocks; the root leaves the broadcast before the other rank comes."""
    tied = [(100 * i, 100 * i + 50) for i in range(1, 6)]
    ranks = tuple(
        (*numbered(*tied, size=2), *numbered((start, end), does="broadcast", size=2))
        for start, end in ((600, 610), (620, 660))
    )
    row = next(row for row in ask(*ranks).rows() if row["operation"] == "broadcast")
    assert picked(row, "transfer_sum_ns", "wait_sum_ns", "parted_by") == (20, 30, "least duration")
    assert row["bus_bytes_per_s"] == row["algorithm_bytes_per_s"]


def test_ends_that_differ_are_transfer_from_the_last_arrival_on() -> None:
    """Rank 1 leaves its last 10 ns later; its arrival there, at 530, is the last: 70 and 80."""
    spans = [(100, 200), (300, 400), (700, 800), (900, 1000)]
    row = one(numbered(*spans, (500, 600)), numbered(*spans, (530, 610)))
    assert picked(row, "transfer_sum_ns", "wait_sum_ns") == (8 * 100 + 70 + 80, 30)


def test_all_to_all_is_parted_by_the_last_arrival_as_well() -> None:
    """All-reduces tie the clocks; its ends, 50 apart, do not: from 630 on 20 and 70."""
    tied = [(100 * i, 100 * i + 50) for i in range(1, 6)]
    ranks = tuple(
        (*numbered(*tied, size=2), *numbered(span, does="all_to_all", size=2))
        for span in ((600, 650), (630, 700))
    )
    row = next(row for row in ask(*ranks).rows() if row["operation"] == "alltoall")
    assert picked(row, "transfer_sum_ns", "wait_sum_ns", "parted_by") == (
        20 + 70, 30, "last arrival")  # fmt: skip


@pytest.mark.parametrize("sizes", [(500, 700), (700, 500)])
def test_sizes_that_ranks_have_unlike_are_the_largest(sizes: tuple[int, int]) -> None:
    ranks = [numbered((100, 200), elements=n, size=2) for n in sizes]
    assert picked(one(*ranks), "bytes", "kernel_count") == (2800, 2)


SIZES = [
    # What was done, elements taken and given on a rank, and those that count.
    ("allreduce", 100, 100, 100),
    ("_allgather_base", 100, 400, 400), ("_allgather_base", 100, 100, 400),
    ("_allgather_base", 100, None, 400),
    ("_reduce_scatter_base", 400, 100, 400), ("reduce_scatter_tensor_coalesced", None, 100, 400),
    ("all_gather_into_tensor_coalesced", 150, 600, 600),
    ("all_to_all", 400, 400, 400), ("all_to_allv", 300, 500, 300), ("all_to_allv", None, 500, None),
    ("broadcast", 100, 100, 100), ("send", 100, 100, 100), ("recv", None, 100, 100),
    ("gather", 100, 400, 400), ("scatter", 400, 100, 400), ("allreduce", None, None, None),
]  # fmt: skip
SIZES_IN_BYTES = [
    ("allreduce", 100, 100, 100), ("allgather", 100, None, 400), ("reduce_scatter", None, 100, 400),
    ("sendrecv", 100, 300, 300), ("allreduce", None, None, None),
]  # fmt: skip


def test_size_of_an_operation() -> None:
    """Of four ranks, two bytes each, in groups of their own. In place, both sides of an all-gather may
    be the part.
    """
    rows = [Collective(0, 10, does, str(n), 1, dtype="BFloat16", group_size=4, in_elements=given,
                       out_elements=gotten)
            for n, (does, given, gotten, _) in enumerate(SIZES)]  # fmt: skip
    found = {row["group"]: row["bytes"] for row in answers("collectives", *rows)}
    assert found == {str(n): None if elements is None else 2 * elements
                     for n, (*_, elements) in enumerate(SIZES)}  # fmt: skip


def test_sizes_may_be_recorded_in_bytes() -> None:
    rows = [Collective(0, 10, does, str(n), 1, group_size=4, in_bytes=given, out_bytes=gotten)
            for n, (does, given, gotten, _) in enumerate(SIZES_IN_BYTES)]  # fmt: skip
    found = {row["group"]: row["bytes"] for row in answers("collectives", *rows)}
    assert found == {str(n): size for n, (*_, size) in enumerate(SIZES_IN_BYTES)}


def test_elements_of_a_type_go_before_bytes() -> None:
    """Two bytes each: 200, not 7."""
    (row,) = answers("collectives", Collective(0, 10, "allreduce", "0", 1, dtype="Half", in_elements=100,
                                               out_elements=100, in_bytes=7, out_bytes=7))  # fmt: skip
    assert row["bytes"] == 200


@pytest.mark.parametrize(("elements", "size"), [(2**62, 4), (-5, 4), (10, 0), (10, -1)])
def test_sizes_that_cannot_be_are_not_recorded(elements: int, size: int) -> None:
    row = one(*[numbered((100, 200), elements=elements, size=size)] * 2)
    assert row["bytes"] == (40 if elements == 10 else None)
    assert row["group_size"] == (size if size > 0 else None)
    assert (row["bus_bytes_per_s"], row["kernel_sum_ns"]) == (None, 200)


@pytest.mark.parametrize(("does", "ranks", "factor"), [
    ("allreduce", 8, 1.75), ("allreduce", 1, 0), ("allgather", 4, 0.75), ("reduce_scatter", 4, 0.75),
    ("alltoall", 2, 0.5), ("gather", 4, 0.75), ("scatter", 4, 0.75), ("broadcast", 8, 1),
    ("reduce", 8, 1), ("point_to_point", 2, None), ("alltoallv", 4, None), ("barrier", 4, None),
    ("ncclDevKernel_Generic", 4, None),
])  # fmt: skip
def test_factor_of_the_bus_bandwidth(does: str, ranks: int, factor: float | None) -> None:
    assert bus_factor(does, ranks) == factor


@pytest.mark.parametrize(("name", "size"), [
    ("Float", 4), ("Int", 4), ("Double", 8), ("Long", 8), ("Half", 2), ("BFloat16", 2), ("Short", 2),
    ("Byte", 1), ("Char", 1), ("Bool", 1), ("Float8_e4m3fn", 1), ("ComplexFloat", 8),
    ("ComplexDouble", 16), ("c10::BFloat16", 2), ("unsigned char", 1), ("signed char", 1),
    ("Opaque", None),
])  # fmt: skip
def test_bytes_of_an_element(name: str, size: int | None) -> None:
    assert element_bytes(name) == size


def test_kernels_that_nothing_matches_have_a_row_without_transfer() -> None:
    """A kernel that is the recorded collective is not counted again; another library's all-reduce is."""
    rows = (
        *numbered((100, 200), size=2),
        Kernel(100, 200, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        Kernel(300, 340, name="multimem_all_reduce_kernel"),
        Kernel(400, 410, name="ncclDevKernel_SendRecv"), Kernel(420, 440, name="ncclDevKernel_SendRecv"),
    )  # fmt: skip
    found = {(row["operation"], row["bytes"]): row for row in ask(rows, rows).rows()}
    assert {key: picked(row, "kernel_count", "kernel_sum_ns", "collective_count", "transfer_sum_ns")
            for key, row in found.items()} == {
        ("allreduce", 4000): (2, 200, 1, 200), ("allreduce", None): (2, 80, None, None),
        ("point_to_point", None): (4, 60, None, None)}  # fmt: skip


@pytest.mark.parametrize("others", [(), numbered((100, 200), size=2)])
def test_sends_and_receives_are_not_matched_though_they_are_numbered(others: tuple[Row, ...]) -> None:
    """What rank 0 sends as its 7th need not be what rank 1 receives as its 7th."""
    ranks = [(*others, *numbered(span, does=does, size=2, first=7))
             for does, span in (("send", (300, 310)), ("recv", (300, 390)))]  # fmt: skip
    row = next(row for row in ask(*ranks).rows() if row["operation"] == "point_to_point")
    assert picked(row, "bytes", "kernel_count", "kernel_sum_ns", "transfer_sum_ns") == (
        4000, 2, 100, None)  # fmt: skip
    assert row["kernel_bytes_per_s"] == pytest.approx(8000 / 100 * GIGA)


def test_kernels_without_sizes_are_matched_by_order() -> None:
    def reduces(*spans: tuple[int, int]) -> tuple[Row, ...]:
        return tuple(Kernel(*span, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL") for span in spans)

    report = ask(reduces((0, 50), (100, 150)), reduces((10, 50), (130, 150)))
    (row,) = report.rows()
    assert picked(row, "bytes", "group_size", "transfer_sum_ns", "wait_sum_ns", "kernel_count") == (
        None, None, 2 * (40 + 20), 10 + 30, 4)  # fmt: skip
    assert "collectives-by-order" in counted(report)


def test_groups_without_numbers_are_matched_each_by_itself() -> None:
    """Rank 0 is in groups a and b, rank 1 in b only: its first is rank 0's second."""

    def of(group: str, start: int, end: int) -> Row:
        return Collective(start, end, "allreduce", group, dtype="Float", in_elements=10, out_elements=10)

    rows = ask((of("a", 0, 100), of("b", 200, 290)), (of("b", 260, 290),)).rows()
    assert {row["group"]: picked(row, "transfer_sum_ns", "wait_sum_ns") for row in rows} == {
        "a": (None, None), "b": (60, 60)}  # fmt: skip


def test_ranks_that_a_group_lacks_are_noted() -> None:
    ranks = [numbered((100, 200), size=8)] * 2
    assert counted(ask(*ranks))["collectives-partial"] == 1


def test_a_slice_counts_the_kernels_in_it() -> None:
    """[290, 450) has the second collective: the last comes at 360, the end is at 400."""
    row = one(*EXAMPLE, slice=api.Slice((290, 450)))
    assert picked(row, "collective_count", "kernel_count", "transfer_sum_ns", "wait_sum_ns") == (
        1, 3, 3 * 40, 50 + 60)  # fmt: skip


class Planted(NamedTuple):
    """A collective as planted: when each rank comes (None: it is not recorded there), and its data."""

    late: tuple[int | None, ...]
    does: str
    elements: int


planted = st.builds(
    Planted,
    st.tuples(*(st.one_of(st.none(), st.integers(0, 40)) for _ in range(3))),
    st.sampled_from(("allreduce", "_allgather_base", "all_to_all", "broadcast")),
    st.sampled_from((10, 1000)),
)


@given(
    st.lists(planted, min_size=1, max_size=8),
    st.lists(st.integers(-(10**6), 10**6), min_size=3, max_size=3),
)
@examples(60)
def test_planted_transfer_and_waiting_are_found(
    collectives: list[Planted], offsets: list[int]
) -> None:
    """Collective i begins at 1000 (i + 1) or `late` ns later and ends at 1000 (i + 1) + 100, a broadcast
    50 ns after each rank's own start; before them four all-reduces tie the clocks.
    """
    tie = [Planted((0, 0, 0), "allreduce", 1)] * 4
    ranks: list[list[Row]] = [[], [], []]
    wanted: dict[tuple[str, int], list[int]] = {}
    for i, each in enumerate((*tie, *collectives)):
        spans = {
            rank: (begin, begin + 50 + rank if each.does == "broadcast" else 1000 * (i + 1) + 100)
            for rank, late in enumerate(each.late) if late is not None
            for begin in (1000 * (i + 1) + late,)
        }  # fmt: skip
        for rank, (start, end) in spans.items():
            move = 10**7 + offsets[rank]
            gotten = each.elements * (3 if "gather" in each.does else 1)
            ranks[rank].append(Collective(
                start + move, end + move, each.does, "0", i, dtype="Byte", group_size=3,
                in_elements=each.elements, out_elements=gotten,
            ))  # fmt: skip
        _add(wanted, each, spans)
    names = ("collective_count", "kernel_count", "transfer_sum_ns", "wait_sum_ns")
    found = {
        (row["operation"], row["bytes"]): [row[name] or 0 for name in names]
        for row in ask(*map(tuple, ranks)).rows()
    }
    assert found == wanted


def _add(
    wanted: dict[tuple[str, int], list[int]], each: Planted, spans: dict[int, tuple[int, int]]
) -> None:
    # Each rank waits until the last one comes; of a broadcast it waits beyond the least duration.
    if not spans:
        return
    does = {"_allgather_base": "allgather", "all_to_all": "alltoall"}.get(each.does, each.does)
    row = wanted.setdefault((does, each.elements * (3 if does == "allgather" else 1)), [0, 0, 0, 0])
    row[0] += 1
    row[1] += len(spans)
    if len(spans) < 2:
        return
    last, least = max(s for s, _ in spans.values()), min(e - s for s, e in spans.values())
    for start, end in spans.values():
        wait = end - start - least if does == "broadcast" else last - start
        row[2] += end - start - wait
        row[3] += wait


# -- a real job

MERGED = REAL / "defects/amd+HPCTrainingExamples__merged_all_events.json.gz"


@real
@pytest.mark.slow
def test_four_real_ranks_as_a_walk_over_the_file_has_them() -> None:
    """The n-th collective of an operation is the same on all; all-reduces end within 10 µs."""
    with gzip.open(MERGED) as file:
        events = json.load(file)["traceEvents"]
    ranks: dict[tuple[int, str], list[tuple[int, int, int]]] = {}
    for event in sorted(events, key=lambda event: event.get("ts", 0)):
        args = event.get("args", {})
        if event.get("cat") == "kernel" and "Collective name" in args:
            start, dur = (round(1000 * event[name]) for name in ("ts", "dur"))
            size = args["In msg nelems"] * {"Float": 4, "Long": 8}[args["dtype"]]
            ranks.setdefault((event["pid"], args["Collective name"]), []).append((start, dur, size))
    wanted: dict[tuple[str, int], list[int]] = {}
    for name in ("allreduce", "broadcast"):
        for together in zip(*(v for (_, n), v in ranks.items() if n == name), strict=True):
            least = min(dur for _, dur, _ in together)
            row = wanted.setdefault((name, together[0][2]), [0, 0, 0, 0])
            row[0] += 1
            row[1] += len(together)
            row[2] += sum(dur for _, dur, _ in together)
            row[3] += len(together) * least
    (report,) = api.report_on(MERGED, ["collectives"])
    found = {(row["operation"], row["bytes"]): row for row in report.rows()}
    names = ("collective_count", "kernel_count", "kernel_sum_ns")
    assert {key: picked(row, *names) for key, row in found.items()} == {
        key: tuple(row[:3]) for key, row in wanted.items()}  # fmt: skip
    for (name, size), row in found.items():
        transfer = wanted[name, size][3]
        assert row["transfer_sum_ns"] + row["wait_sum_ns"] == row["kernel_sum_ns"]
        if name == "broadcast":
            assert row["transfer_sum_ns"] == transfer
        else:  # by arrivals
            assert row["transfer_sum_ns"] == pytest.approx(transfer, abs=12 * 10_000)
            assert row["parted_by"] == "last arrival"
            assert row["bus_bytes_per_s"] == pytest.approx(row["algorithm_bytes_per_s"] * 1.5)
            assert 80e9 < row["bus_bytes_per_s"] < 130e9, "what links of this machine can do"
