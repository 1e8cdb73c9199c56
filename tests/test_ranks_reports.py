"""Reports over the profiles of a run: rows below each other, the three over ranks, hosts and devices."""

from __future__ import annotations

import json
import math
import shutil
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import NSYS, few
from golden_cases import run as command
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Memcpy, Row, counted, write

from nsysconv import api, queries
from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.ranks.job import JobAggregator
from nsysconv.ranks.over_ranks import (
    BY_BUS,
    BY_ORDINAL,
    BY_UUID,
    Gpu,
    RankAggregator,
    RankProfile,
    are_ranks_of_one_job,
    rank_profile,
)
from nsysconv.report import Column, ProfileRef, Report, Unit, build_table

Ranks = Sequence[Sequence[Row]]


def make(store: Path, *ranks: Sequence[Row], **options: Any) -> Path:
    """A store of one run with these ranks' rows; ranks 2k and 2k + 1 ran on host k."""
    for rank, rows in enumerate(ranks):
        known = {"label": f"r{rank}", "ranks": {1: rank}, "host": f"node{rank // 2}", "run": "job"}
        write(store, *rows, **{**known, **options})
    return store


def report(target: Any, name: str, **options: Any) -> Report:
    (found,) = api.report_on(target, [name], **options)
    return found


def picked(found: Report, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in found.rows()]


def kernels(*durs: int, name: str = "k") -> tuple[Row, ...]:
    return tuple(Kernel(1000 * i + 1, 1000 * i + 1 + dur, name=name) for i, dur in enumerate(durs))


# A report on kernels by name whose rows of ranks are not added up by default.
SUMS = "cuda_gpu_kern_sum"
TEN = [kernels(10 * (rank + 1)) for rank in range(10)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Ranks], Path]:
    """Gives the store of these ranks, which is made once, to be read only."""
    known: dict[str, Path] = {}

    def store(ranks: Ranks) -> Path:
        if (key := repr(ranks)) not in known:
            known[key] = make(tmp_path_factory.mktemp("ranks") / "job.db", *ranks)
        return known[key]

    return store


@pytest.fixture(scope="module")
def ten(stored: Callable[[Ranks], Path]) -> Path:
    """The store of TEN."""
    return stored(TEN)


# -- below each other, or three

OTHER = [(*kernels(5), Kernel(10**6, 10**6 + dur, name="other")) for dur in (20, 30)]
COPIES = (Memcpy(0, 10, bytes=10), Memcpy(20, 30, bytes=20_000), Memcpy(50, 60, bytes=20_000))
# On rank 0 a takes 90 and b 10, on the eight others a 10 and b 50.
UNLIKE = [(Kernel(0, 90, name="a"), Kernel(100, 110, name="b"), *COPIES),
          *[(Kernel(0, 10, name="a"), Kernel(100, 150, name="b"), *COPIES)] * 8]  # fmt: skip


def words(*rows: str) -> list[tuple[Any, ...]]:
    """Rows of words and numbers, as they are read."""
    return [tuple(int(w) if w.isdigit() else w for w in row.split()) for row in rows]


def first(count: int) -> dict[str, Any]:
    """What is asked for so many ranks alone."""
    return {"slice": api.Slice(ranks=tuple(range(count)))}


# What each rank ran, the report, what is asked for, columns of it, and their rows.
ROWS: dict[str, tuple[Ranks, str, dict[str, Any], str, list[tuple[Any, ...]]]] = {
    "rows of a few ranks stand below each other": (
        TEN, SUMS, first(8), "profile rank kernel_sum_ns",
        [(f"r{rank}", rank, 10 * (rank + 1)) for rank in range(8)]),
    # 10, 20, … 90: the middle one is 50.
    "of many ranks there are three rows": (
        TEN, SUMS, first(9), "name over_ranks rank_count kernel_sum_ns med_ns",
        words("k min 9 10 10", "k median 9 50 50", "k max 9 90 90")),
    "the middle of an even number is the mean of two": (
        TEN, SUMS, {}, "kernel_sum_ns avg_ns", [(10, 10.0), (55, 55.0), (100, 100.0)]),
    "by rank all rows stay": (TEN, "kernels", {"by": "rank"}, "rank", [(rank,) for rank in range(10)]),
    # Two more ranks have a kernel `other`: its least time is not 0.
    "a rank without such a row adds nothing": (
        [*TEN[:7], *OTHER], SUMS, {}, "name over_ranks rank_count kernel_sum_ns",
        words("k min 9 5", "k median 9 30", "k max 9 70",
              "other min 2 20", "other median 2 25", "other max 2 30")),
    "reports in time stay by rank": (
        [(Kernel(0, 10), Kernel(20 + rank, 40)) for rank in range(9)], "idle_gaps", {}, "rank dur_ns",
        [(rank, 10 + rank) for rank in range(9)]),
    "the order of size is that of the medians": (
        UNLIKE, SUMS, {}, "name over_ranks kernel_sum_ns",
        words("b min 10", "b median 50", "b max 50", "a min 10", "a median 10", "a max 90")),
    "rows in another order stay as first met": (
        UNLIKE, "transfer_sizes", {}, "bucket_min_bytes", [(0,)] * 3 + [(10_000,)] * 3),
    "devices without a UUID are told apart by their place": (
        TEN, "kernels", {"by": "device", **first(2)}, "gpu",
        [("node0 rank 0 GPU 0",)] * 3 + [("node0 rank 1 GPU 0",)] * 3),
    "by device a report without devices is as ever": (
        [(Call(0, 5),)] * 2, "api_vs_kernel", {"by": "device"}, "rank api_sum_ns", [(0, 5), (1, 5)]),
    "the summary of ranks by host": (
        TEN, "rank_summary", {"by": "host", **first(4)}, "host over_ranks busy_ns",
        words("node0 min 10", "node0 median 15", "node0 max 20",
              "node1 min 30", "node1 median 35", "node1 max 40")),
    "a slice by rank looks at those profiles": (
        TEN, SUMS, {"slice": api.Slice(ranks=(2, 4))}, "rank", [(2,), (4,)]),
}  # fmt: skip


@pytest.mark.parametrize(("ranks", "name", "asked", "columns", "rows"), ROWS.values(), ids=ROWS)
def test_rows_over_ranks(
    ranks: Ranks, name: str, asked: dict[str, Any], columns: str,
    rows: list[tuple[Any, ...]], stored: Callable[[Ranks], Path],
) -> None:  # fmt: skip
    found = report(stored(ranks), name, **asked)
    assert picked(found, *columns.split()) == rows
    assert len(found.profiles) == (len(asked["slice"].ranks) if "slice" in asked else len(ranks))


def test_the_first_columns_of_rows_over_ranks(ten: Path) -> None:
    columns = [column.name for column in report(ten, SUMS).columns]
    assert columns[:3] == ["name", "over_ranks", "rank_count"]


def test_ranks_come_in_their_order_however_they_were_imported(tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    for rank in (2, 10, 1):
        write(store, *kernels(5), label=f"r{rank}", ranks={1: rank}, run="job")
    assert picked(report(store, SUMS), "rank") == [(1,), (2,), (10,)]
    assert picked(report(store, "rank_summary"), "rank")[3:] == [(1,), (2,), (10,)]


def test_what_a_rank_did_not_record_is_left_out_and_counted(tmp_path: Path) -> None:
    store = make(
        tmp_path / "job.db", *([Kernel(0, 10), Memcpy(10, 10 + rank)] for rank in range(1, 10))
    )
    write(store, Kernel(0, 10), label="r9", ranks={1: 9}, run="job", without=[Fact.MEMCPYS])
    found = report(store, "overview")
    assert picked(found, "over_ranks", "rank_count", "memcpy_sum_ns") == [
        ("min", 10, 1), ("median", 10, 5), ("max", 10, 9)]  # fmt: skip
    assert counted(found)["values-left-out"] == 2, "memcpy_count and memcpy_sum_ns"


def test_ranks_that_cannot_answer_are_counted(tmp_path: Path) -> None:
    store = make(tmp_path / "job.db", *TEN[:2])
    write(
        store, Call(0, 5), label="cpu", ranks={1: 2}, run="job", holds={Fact.API_CALLS, Fact.RANKS}
    )
    found = report(store, SUMS)
    assert picked(found, "profile") == [("r0",), ("r1",)]
    assert counted(found) == {"not-recorded-by-some": 1}


def test_a_report_that_no_rank_recorded_is_not_recorded(tmp_path: Path) -> None:
    store = make(
        tmp_path / "job.db", *TEN[:2], without=[Fact.KERNELS, Fact.API_CALLS, Fact.MPI_CALLS]
    )
    for name in (SUMS, "stragglers"):
        found = report(store, name)
        assert found.table is None
        assert "kernel events" in found.not_recorded
    assert command("report", store, "kernels", cwd=tmp_path).status == 4


def test_missing_ranks_are_told(tmp_path: Path) -> None:
    store = make(tmp_path / "job.db", *TEN[:3], processes={1: {"world_size": 5}})
    found = report(store, SUMS)
    assert [(note.slug, note.count) for note in found.notes] == [("ranks-missing", 2)]


# -- rows of the job

# Rank 0 runs a for 10 + 30 and b for 50, rank 1 runs a for 20, rank 4 for 5.
JOB = {
    0: (Kernel(0, 10, name="a"), Kernel(100, 130, name="a"), Kernel(200, 250, name="b")),
    1: (Kernel(0, 20, name="a"),),
    4: (Kernel(0, 5, name="a"),),
}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of JOB, to be read only."""
    store = tmp_path_factory.mktemp("job") / "job.db"
    for rank, rows in JOB.items():
        write(store, *rows, label=f"r{rank}", ranks={1: rank}, run="job")
    return store


def test_kernels_of_a_job_have_one_row_over_all_ranks(job: Path) -> None:
    found = report(job, "kernels")
    columns = ("name", "kernel_count", "kernel_sum_ns", "avg_ns", "min_ns", "max_ns")
    assert picked(found, *columns) == [("a", 4, 65, 65 / 4, 5, 30), ("b", 1, 50, 50.0, 50, 50)]
    shares = [row["kernel_pct"] for row in found.rows()]
    assert shares == pytest.approx([100 * 65 / 115, 100 * 50 / 115])
    assert found.title == "Kernels by name, all ranks"
    assert "med_ns" not in {column.name for column in found.columns}


def test_rows_of_a_job_name_the_ranks_with_most_and_least(job: Path) -> None:
    columns = ("name", "rank_count", "max_rank", "rank_max_sum_ns", "min_rank", "rank_min_sum_ns")
    assert picked(report(job, "kernels"), *columns) == [
        ("a", 3, 0, 40, 4, 5), ("b", 1, 0, 50, 0, 50)]  # fmt: skip


@pytest.mark.parametrize("asked", [{"by": "rank"}, {"split": "rank"}, {"split": "device"}], ids=str)
def test_rows_by_rank_are_there_on_request(job: Path, asked: dict[str, Any]) -> None:
    rows = picked(report(job, "kernels", **asked), "rank", "name", "kernel_sum_ns")
    assert rows == [(0, "b", 50), (0, "a", 40), (1, "a", 20), (4, "a", 5)]


@pytest.mark.parametrize("ranks", [(None, None), (0, None), (0, 0)], ids=str)
def test_profiles_that_are_not_ranks_of_one_job_are_not_added_up(
    ranks: tuple[int | None, ...], tmp_path: Path
) -> None:
    """Two runs of a program, say, before and after a change."""
    store = tmp_path / "job.db"
    for number, rank in enumerate(ranks):
        write(store, Kernel(0, 10, name="a"), label=f"p{number}", ranks={1: rank}, run="job")
    assert picked(report(store, "kernels"), "profile", "kernel_sum_ns") == [("p0", 10), ("p1", 10)]
    assert picked(report(store, "kernels", by="job"), "kernel_sum_ns") == [(20,)]


def test_ranks_of_two_sources_are_no_job() -> None:
    zero, one = RankProfile("a", (0,)), RankProfile("b", (1,))
    assert are_ranks_of_one_job([(zero, "nsys"), (one, "nsys")])
    assert not are_ranks_of_one_job([(zero, "nsys"), (one, "kineto")])


def test_many_profiles_that_are_not_ranks_of_one_job_become_three_rows(tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    for number in range(9):
        write(store, Kernel(0, 10 + number, name="a"), label=f"p{number}", run="job")
    assert picked(report(store, "kernels"), "over_ranks", "kernel_sum_ns") == [
        ("min", 10), ("median", 14), ("max", 18)]  # fmt: skip


def test_any_report_with_sums_has_rows_of_the_job(job: Path) -> None:
    found = report(job, "overview", by="job")
    assert picked(found, "kernel_count", "kernel_sum_ns", "rank_count") == [(5, 115, 3)]
    assert "rank" in {column.name for column in report(job, "idle_gaps", by="job").columns}


def test_a_limit_cuts_rows_of_the_job_after_they_were_added_up(tmp_path: Path) -> None:
    """On each rank another kernel is the largest, and a, the second of each, is the job's."""
    ranks = [(Kernel(0, 50, name=f"k{rank}"), Kernel(100, 140, name="a")) for rank in range(3)]
    found = report(make(tmp_path / "job.db", *ranks), "kernels", limit=1)
    assert picked(found, "name", "kernel_sum_ns") == [("a", 120)]
    assert found.row_count == 4


def test_two_recordings_of_one_process_are_one_rank_of_the_job(tmp_path: Path) -> None:
    """Cycles of a worker: the same host, rank and process at two times."""
    store = tmp_path / "job.db"
    for begin in (0, 10**9):
        write(store, Kernel(begin, begin + 10, name="a"), label=f"at{begin}", ranks={1: 3},
              host="n", run="job", utc=0)  # fmt: skip
    columns = ("rank_count", "rank_max_sum_ns", "rank_min_sum_ns")
    assert picked(report(store, "kernels"), *columns) == [(1, 20, 20)]


def test_what_a_rank_did_not_record_is_not_in_sums_and_counted(tmp_path: Path) -> None:
    store = make(tmp_path / "job.db", *([Kernel(0, 10), Memcpy(10, 15)] for _ in range(2)))
    write(store, Kernel(0, 10), label="r2", ranks={1: 2}, run="job", without=[Fact.MEMCPYS])
    found = report(store, "overview", by="job")
    assert picked(found, "kernel_sum_ns", "memcpy_count", "memcpy_sum_ns") == [(30, 2, 10)]
    assert counted(found)["values-left-out"] == 2, "memcpy_count and memcpy_sum_ns"


# -- limits


def test_a_limit_is_that_of_all_rows(tmp_path: Path) -> None:
    ranks = [tuple(Kernel(100 * i, 100 * i + 50 - i, name=f"k{i}") for i in range(9))] * 9
    few, many = make(tmp_path / "few.db", *ranks[:3]), make(tmp_path / "many.db", *ranks)
    assert picked(report(few, SUMS, limit=7), "rank", "name") == [
        (rank, name) for rank in range(3) for name in ("k0", "k1")]  # fmt: skip
    assert report(few, SUMS, limit=7).row_count == 27
    assert picked(report(many, SUMS, limit=7), "name", "over_ranks")[::3] == [
        ("k0", "min"),
        ("k1", "min"),
    ]
    assert len(report(few, SUMS, limit=1).rows()) == 3, "one of each rank at least"
    assert len(report(few, SUMS, for_people=True).rows()) == 3 * 6
    assert len(report(many, SUMS).rows()) == 27


# -- hosts and devices


def test_three_rows_of_each_host(tmp_path: Path) -> None:
    """node0 has 10 and 20, node1 30 and 40, node10 100."""
    store = make(tmp_path / "job.db", *TEN[:4])
    write(store, *kernels(100), label="r4", ranks={1: 4}, host="node10", run="job")
    found = report(store, "kernels", by="host")
    assert picked(found, "host", "over_ranks", "rank_count", "kernel_sum_ns") == [
        ("node0", "min", 2, 10), ("node0", "median", 2, 15), ("node0", "max", 2, 20),
        ("node1", "min", 2, 30), ("node1", "median", 2, 35), ("node1", "max", 2, 40),
        ("node10", "min", 1, 100), ("node10", "median", 1, 100), ("node10", "max", 1, 100),
    ]  # fmt: skip


def test_devices_are_the_same_by_their_uuid(tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    for rank, uuid in enumerate(("GPU-b", "GPU-a", "GPU-b")):
        write(store, *kernels(10 * (rank + 1)), label=f"r{rank}", ranks={1: rank}, run="job",
              gpus={0: {"uuid": uuid}})  # fmt: skip
    found = report(store, "kernels", by="device")
    assert picked(found, "gpu", "rank_count", "kernel_sum_ns") == [
        ("GPU-a", 1, 20), ("GPU-a", 1, 20), ("GPU-a", 1, 20),
        ("GPU-b", 2, 10), ("GPU-b", 2, 20), ("GPU-b", 2, 30),
    ]  # fmt: skip
    assert counted(found) == {}


def test_that_devices_are_told_apart_by_their_place_is_a_note(ten: Path) -> None:
    found = report(ten, "kernels", by="device", **first(2))
    assert counted(found) == {"devices-by-place": 2}


@pytest.mark.parametrize(("row", "host", "gpu"), [
    ({"uuid": "GPU-1", "bus_id": "0:1"}, "n", Gpu("GPU-1", BY_UUID)),
    ({"bus_id": "0:1"}, "n", Gpu("n 0:1", BY_BUS)),
    ({"bus_id": "0:1", "ordinal": 2}, None, Gpu("rank 7 GPU 2", BY_ORDINAL)),
    ({"ordinal": None}, "n", Gpu("n rank 7 GPU 3", BY_ORDINAL)),
])  # fmt: skip
def test_what_a_device_is_told_by(row: dict[str, Any], host: str | None, gpu: Gpu) -> None:
    known = {"uuid": None, "bus_id": None, "ordinal": 0, "pid": None, "device_id": 3, **row}
    process = {"pid": 1, "rank": 7, "host": None, "world_size": None}
    assert rank_profile("p", host, [process], [known]).gpus == {3: gpu}


def test_one_profile_by_host(tmp_path: Path) -> None:
    store = tmp_path / "one.db"
    write(store, Kernel(0, 10), Kernel(0, 30, pid=2, device=1), ranks={1: 0, 2: 1},
          processes={1: {"host": "a"}, 2: {"host": "b"}})  # fmt: skip
    found = report(store, "kernels", by="host")
    assert picked(found, "host", "over_ranks", "kernel_sum_ns")[::3] == [
        ("a", "min", 10),
        ("b", "min", 30),
    ]


# -- tables of nsys stats


def test_printed_tables_say_whose_rows_they_are(tmp_path: Path) -> None:
    store = make(tmp_path / "job.db", *TEN[:2])
    done = command("report", store, "cuda_gpu_kern_sum", "-f", "csv", cwd=tmp_path)
    assert done.out.splitlines()[0].startswith("Profile,Rank,Time (%),Total Time (ns),Instances")
    assert [line[:9] for line in done.out.splitlines()[1:]] == ["r0,0,100.", "r1,1,100."]


def test_printed_tables_of_many_ranks(ten: Path, tmp_path: Path) -> None:
    done = command("report", ten, "cuda_gpu_kern_sum", "-f", "csv", cwd=tmp_path)
    assert done.out.splitlines()[0].startswith(
        "Name,Over ranks,Ranks,Time (%),Total Time (ns),Instances"
    )
    assert done.out.splitlines()[2].startswith("k,median,10,100.0,55,1,55.0")


# -- the command


@pytest.mark.parametrize(
    "format_name", few(["json", "csv", "tsv", "text", "markdown", "column"], 2)
)
def test_every_format(ten: Path, tmp_path: Path, format_name: str) -> None:
    done = command("report", ten, "kernel_categories", "-f", format_name, cwd=tmp_path)
    assert done.status == 0, done.err
    if format_name == "json":
        (found,) = json.loads(done.out)["reports"]
        assert [row["kernel_sum_ns"] for row in found["rows"]] == [10, 55, 100]
        assert len(found["profiles"]) == 10
    else:
        assert "median" in done.out


def test_prose_that_there_are_not(ten: Path) -> None:
    with pytest.raises(UsageError, match="no rows by 'day'"):
        api.report_on(ten, ["kernels"], by="day")
    with pytest.raises(UsageError, match="none of these reports has rows by step"):
        api.report_on(ten, ["transfers"], by="step")
    with pytest.raises(UsageError, match="no profile of rank 17"):
        api.report_on(ten, ["kernels"], slice=api.Slice(ranks=(17,)))


def test_a_folder_is_a_run(tmp_path: Path) -> None:
    """Stores and files together; what is no profile is skipped with a word."""
    folder = tmp_path / "prof"
    folder.mkdir()
    write(folder / "a.db", *kernels(10), label="same", ranks={1: 0})
    write(folder / "b.db", *kernels(20), label="same", ranks={1: 1})
    shutil.copy(NSYS / "basic-3.25.0.sqlite", folder / "rank7.sqlite")
    (folder / "notes.txt").write_text("nothing of a profile")
    done = command("report", folder, "overview", "-f", "json", cwd=tmp_path)
    assert done.status == 0, done.err
    (found,) = json.loads(done.out)["reports"]
    assert [(row["profile"], row["rank"]) for row in found["rows"]][:2] == [
        ("same", 0),
        ("same-2", 1),
    ]
    assert {row["profile"] for row in found["rows"]} == {"same", "same-2", "rank7"}
    assert "notes.txt" in done.err


def test_a_store_in_a_folder_may_hold_many_ranks(tmp_path: Path) -> None:
    """On five ranks a takes most, on five b; no row is cut off before all are there."""
    ranks = [(Kernel(0, 50, name=first), Kernel(100, 110, name=second))
             for first, second in [("a", "b")] * 5 + [("b", "a")] * 5]  # fmt: skip
    make(tmp_path / "job.db", *ranks)
    found = report(tmp_path, SUMS, limit=1)
    assert picked(found, "name", "rank_count", "kernel_sum_ns")[1] == ("a", 10, 30)


def test_ranks_of_a_folder_come_in_their_order(tmp_path: Path) -> None:
    for name, rank in (("a", 5), ("b", 3)):
        write(tmp_path / f"{name}.db", *kernels(10), label=name, ranks={1: rank})
    assert picked(report(tmp_path, SUMS), "rank", "profile") == [(3, "b"), (5, "a")]


def test_who_does_the_work_changes_nothing(ten: Path) -> None:
    names = ["kernels", "stragglers", "gpu_time_util_map"]
    alone, beside = (api.report_on(ten, names, workers=count, **first(3)) for count in (1, 2))
    assert [found.rows() for found in alone] == [found.rows() for found in beside]
    assert alone == beside


def test_one_profile_is_answered_as_ever(tmp_path: Path) -> None:
    store = make(tmp_path / "job.db", *TEN[:1])
    names = [*queries.CORE, *queries.OVER_RANKS]
    with api.open(store) as profile:
        assert api.report_on(store, names) == profile.reports(names)


def test_the_page_of_a_run(ten: Path) -> None:
    names = ["rank_summary", "gpu_time_util_map", "kernels"]
    reports = {each.name: each for each in api.page(ten, names)}
    assert [row["rank"] for row in reports["rank_summary"].rows()] == [None] * 3 + list(range(10))
    assert reports["rank_summary"].rows()[2]["busy_ns"] == 100
    assert len({row["bin"] for row in reports["gpu_time_util_map"].rows()}) > 1
    assert len(reports["kernels"].rows()) == 10


# -- the three values, against the obvious

COLUMNS = (
    Column("profile", Unit.TEXT, "", key=True),
    Column("rank", Unit.ID, "", key=True),
    Column("name", Unit.TEXT, "", key=True),
    Column("time_ns", Unit.NS, "", adds=True),
    Column("share_pct", Unit.PCT, ""),
    Column("device", Unit.TEXT, ""),
)
values = st.one_of(st.none(), st.integers(-9, 9))
cells = st.tuples(st.sampled_from("ab"), values, values, st.sampled_from(["x", "y"]))
Cell = tuple[str, int | None, int | None, str]
of_ranks = st.lists(
    st.lists(cells, max_size=4, unique_by=lambda cell: cell[0]), min_size=1, max_size=6
)


def of_rank(rank: int, rows: list[Cell]) -> Report:
    data = {"profile": ["p"] * len(rows), "rank": [rank] * len(rows), "name": [r[0] for r in rows],
            "time_ns": [r[1] for r in rows], "share_pct": [r[2] for r in rows],
            "device": [r[3] for r in rows]}  # fmt: skip
    table = build_table(COLUMNS, data)
    return Report("t", "", COLUMNS, table, (ProfileRef(rank, f"r{rank}", "", ""),))


@given(of_ranks)
def test_extremes_against_sorting(ranks: list[list[Cell]]) -> None:
    fold = None
    for rank, rows in enumerate(ranks):
        one = of_rank(rank, rows)
        fold = fold or RankAggregator(one, None)
        fold.add(one, {f"r{rank}": RankProfile(f"r{rank}")})
    found = {(row["name"], row["over_ranks"]): row for row in fold.report(0).rows()}
    told = [row for rows in ranks for row in rows]
    assert {name for name, _ in found} == {row[0] for row in told}
    for name in {row[0] for row in told}:
        mine = [row for row in told if row[0] == name]
        for column, place in (("time_ns", 1), ("share_pct", 2)):
            known = sorted(v for row in mine if (v := row[place]) is not None)
            low, middle, high = (found[name, word][column] for word in ("min", "median", "max"))
            assert (low, high) == ((known[0], known[-1]) if known else (None, None))
            if known:
                exact = statistics.median(known)
                assert middle == (exact if column == "share_pct" else math.floor(exact + 0.5))
        devices = {row[3] for row in mine}
        assert found[name, "min"]["device"] == (devices.pop() if len(devices) == 1 else None)
        assert found[name, "max"]["rank_count"] == len(mine)


@given(of_ranks)
def test_sums_of_a_job_against_adding(ranks: list[list[Cell]]) -> None:
    job = None
    for rank, rows in enumerate(ranks):
        one = of_rank(rank, rows)
        job = job or JobAggregator(one)
        job.add(one, {"": RankProfile(f"r{rank}")})
    found = {row["name"]: row for row in job.report(0).rows()}
    told = [(rank, *row) for rank, rows in enumerate(ranks) for row in rows]
    assert found.keys() == {row[1] for row in told}
    for name, row in found.items():
        mine = [each for each in told if each[1] == name]
        known = {rank: time for rank, _, time, *_ in mine if time is not None}
        assert row["rank_count"] == len(mine)
        assert row["time_ns"] == (sum(known.values()) if known else None)
        assert row["rank_max_sum_ns"] == max(known.values(), default=None)
        assert row["rank_min_sum_ns"] == min(known.values(), default=None)
        devices = {each[4] for each in mine}
        assert row["device"] == (devices.pop() if len(devices) == 1 else None)
        assert "share_pct" not in row, "a share of one rank's whole adds up to nothing"


@pytest.mark.parametrize("part", few(range(3), 1))
def test_every_report_joins_its_profiles(ten: Path, part: int) -> None:
    """All reports over ten ranks: as declared, or said to be not recorded."""
    for found in api.report_on(ten, [*queries.REPORTS][part::3]):
        assert (found.table is None) == bool(found.not_recorded)
        if found.table is not None:
            assert found.table.column_names == [column.name for column in found.columns]
            traits = [*map(queries.reports_that_are, ("in-time", "by-job"))]
            combined = {*traits[0], *traits[1], *queries.OVER_RANKS}
            if queries.parse_spec(found.name).name not in combined:
                assert set(found.to_arrow()["over_ranks"].to_pylist()) <= {"min", "median", "max"}
