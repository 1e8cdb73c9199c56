"""Rows over devices, and split by device or rank.

`rows_by_device.json` holds rows as they were when these reports had no rows but those of each device.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL, by_turns, few, real
from small_store import (
    Call,
    Kernel,
    Memcpy,
    Range,
    Row,
    Total,
    answers,
    asked,
    cells,
    hand_computed,
    opened,
    write,
)

from nsysconv import api
from nsysconv.api import Slice
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.queries import reports_that_are

WERE = json.loads(Path(__file__).with_name("rows_by_device.json").read_text("utf-8"))
IDLE = ("no_op", "no_kernel", "stream")


def picked(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def spread(rows: list[dict[str, Any]], unit: str = "ns") -> list[tuple[Any, ...]]:
    """The columns of how devices differ."""
    return picked(rows, "device_count", f"device_min_sum_{unit}", f"device_max_sum_{unit}")


# -- split by device: as it was


def by_device(path: Path, report: str) -> list[dict[str, Any]] | None:
    """Rows by device without the columns that are of several devices, which are null."""
    with api.open(path) as profile:
        try:
            rows = profile.report(report, idle=IDLE, split="device").rows()
        except NotRecorded:
            return None
    for row in rows:
        for name in [name for name in row if name.startswith("device_") and name != "device_id"]:
            assert row.pop(name) is None, name
        for name in LATER.get(report, ()):
            row.pop(name)
    return rows


# Columns that came after the rows of rows_by_device.json, by report.
LATER = {"kernels": ("category", "limit", "compute_pct", "memory_pct"),
         "api_vs_kernel": ("gpu_op_sum_ns",), "idle_host": ("function",),
         "idle_summary": ("blocked_sum_ns",)}  # fmt: skip


# Later reports never had other rows.
OLD = [name for name in reports_that_are("split") if name != "cuda_gpu_kern_hist"]


@pytest.mark.parametrize(("name", "report"), by_turns(WERE["fixtures"], OLD, 8))
def test_split_by_device_every_value_is_what_it_was(name: str, report: str) -> None:
    table = WERE["fixtures"][name][report]
    rows = by_device(FIXTURES / name, report)
    if table is None:
        assert rows is None
        return
    assert rows == [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


@real
@pytest.mark.parametrize("report", few(OLD, 3))
@pytest.mark.parametrize("name", few(WERE["real"], 1))
def test_split_by_device_real_files_are_what_they_were(name: str, report: str) -> None:
    rows = by_device(REAL / name, report)
    digest = None if rows is None else hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    assert digest == WERE["real"][name][report]


# -- over devices


# The example of docs/definitions/basics.md, "Over devices".
EXAMPLE = (Kernel(0, 100, name="gemm"), Kernel(200, 300, name="gemm"),
           Kernel(0, 250, name="gemm", device=1), Kernel(300, 400, name="norm", device=1))  # fmt: skip


def test_twenty_rows_are_twenty_kernels() -> None:
    """On eight GPUs: kernel k00 takes 25 ns on each, k01 24 ns and so on."""
    rows = [Kernel(1000 * name, 1000 * name + 25 - name, name=f"k{name:02}", device=device)
            for name in range(25) for device in range(8)]  # fmt: skip
    with opened(*rows) as profile:
        (report,) = profile.reports("kernels", for_people=True)
    assert (report.row_count, len(report.rows())) == (25, 20)
    assert picked(report.rows(), "name", "kernel_count", "kernel_sum_ns") == [
        (f"k{name:02}", 8, 8 * (25 - name)) for name in range(20)]  # fmt: skip
    assert {row["device_id"] for row in report.rows()} == {None}


def test_kernels_of_the_example() -> None:
    gemm, norm = answers("kernels", *EXAMPLE)
    assert picked([gemm, norm], "name", "kernel_count", "kernel_sum_ns") == [
        ("gemm", 3, 100 + 100 + 250), ("norm", 1, 100)]  # fmt: skip
    # Of all operations 100 100 250; the median of the devices' would be 175, the mean of theirs too.
    assert picked([gemm], "med_ns", "avg_ns", "min_ns", "max_ns") == [(100, 150, 100, 250)]
    assert gemm["kernel_pct"] == pytest.approx(100 * 450 / 550)
    # 200 on device 0, 250 on device 1; norm ran on one of them.
    assert spread([gemm, norm]) == [(2, 200, 250), (1, 100, 100)]


def test_idle_time_of_the_example() -> None:
    """Device 0 waits during [100, 200), device 1 during [250, 300), none after its own window."""
    (row,) = answers("idle_summary", *EXAMPLE)
    assert picked([row], "bucket_min_ns", "gap_count", "gap_sum_ns") == [(0, 2, 100 + 50)]
    assert spread([row]) == [(2, 50, 100)]


def test_unions_of_the_example_are_added_up() -> None:
    (row, _) = answers("kernel_categories", *EXAMPLE)
    # Together they would be [0, 300) of 300 ns.
    assert (row["category"], row["kernel_union_ns"], row["name_count"]) == ("gemm", 200 + 250, 1)
    assert spread([row]) == [(2, 200, 250)]


COPIES = (Memcpy(0, 10, bytes=1000), Memcpy(20, 30, bytes=1000), Memcpy(0, 20, bytes=4000, device=1))


def test_transfers_are_over_devices() -> None:
    (row,) = answers("transfers", *COPIES)
    assert (row["memcpy_count"], row["bytes_sum"], row["bytes_med"]) == (3, 6000, 1000)
    assert row["throughput_bytes_per_s"] == 6000 / 40e-9
    assert spread([row], "bytes") == [(2, 2000, 4000)]


def test_peers_are_over_devices() -> None:
    copies = [Memcpy(0, 10, bytes=5, direction="PtoP", src="Device", device=device, peer=1 - device)
              for device in (0, 1)]  # fmt: skip
    assert picked(answers("transfers", *copies), "peer_device_id", "bytes_sum") == [(None, 10)]
    assert picked(answers("transfers", *copies, split="device"), "peer_device_id", "bytes_sum") == [
        (1, 5), (0, 5)]  # fmt: skip


TOTALS = (Total("kernel", 2, 20, 5, 15, "k", device=0), Total("kernel", 1, 40, 40, 40, "k", device=1),
          Total("kernel", 1, 7, 7, 7, "other", device=1))  # fmt: skip


test_over_devices = hand_computed(
    # Mean 20: (100 + 100 + 400) / 2 = 300. Each device has none of its own.
    ("the deviation is that of the operations", "kernels stddev_ns",
     (Kernel(0, 10), Kernel(100, 110), Kernel(0, 40, device=1)), [pytest.approx(300**0.5)]),
    ("a union of one device counts its overlaps once", "kernel_categories kernel_union_ns",
     (Kernel(0, 100, stream=1), Kernel(50, 150, stream=2), Kernel(0, 10, device=1)), [150 + 10]),
    ("streams of one number are one row", "idle_summary stream gap_count gap_sum_ns",
     (Kernel(0, 10, stream=7), Kernel(30, 40, stream=7), Kernel(0, 10, stream=7, device=1),
      Kernel(15, 20, stream=7, device=1)), [("7", 2, 20 + 5)], {"idle": ("stream",)}),
    # Device 0 has a gap of 5000 ns, device 1 one of 20 ns and one of 3000 ns.
    ("gaps are by length over devices", "idle_summary bucket_min_ns gap_count gap_sum_ns",
     (Kernel(0, 10), Kernel(5010, 5020), Kernel(0, 10, device=1), Kernel(30, 40, device=1),
      Kernel(3040, 3050, device=1)), [(0, 1, 20), (1000, 2, 8000)]),
    ("totals of copies are over devices", "transfers direction memcpy_count memcpy_sum_ns",
     (*[Total("memcpy", 1, 10 * (device + 1), direction="HtoD", device=device) for device in (0, 1)],),
     [("HtoD", 2, 30)], {"holds": {Fact.MEMORY_TOTALS}}),
)  # fmt: skip


def over(ask: str, *rows: Row, **options: Any) -> tuple[list[Any], list[Any]]:
    """Cells of a report's rows, and how far devices are apart in its main measure."""
    unit = "bytes" if ask.startswith("transfer") else "ns"
    return cells(ask, *rows, **options), spread(answers(ask.split()[0], *rows, **options), unit)


TWO = (Kernel(0, 10), Kernel(0, 20, device=1))
OF_TOTALS = {"holds": {Fact.KERNEL_TOTALS}}
test_spreads_by_hand = hand_computed(
    *(("one device has no spread", f"{report} kernel_sum_ns", EXAMPLE[:2], ([200], [(None,) * 3]))
      for report in ("kernels", "kernel_categories")),
    ("devices of no common kernel have no spread", "kernels name",
     (Kernel(0, 10, name="a"), Kernel(0, 20, name="b", device=1)), (["b", "a"], [(None,) * 3] * 2)),
    ("a slice of one device has no spread", "kernels name kernel_sum_ns", EXAMPLE,
     ([("gemm", 250), ("norm", 100)], [(None,) * 3] * 2), {"part": Slice(devices=(1,))}),
    ("operations of no known device are in the row and not in the spread",
     "kernels kernel_count kernel_sum_ns", (*TWO, Kernel(0, 40, device=None)),
     ([(3, 70)], [(2, 10, 20)])),
    ("a device without times is counted", "kernels kernel_count kernel_sum_ns",
     (*TWO, Kernel(None, None, device=2)), ([(3, 30)], [(3, 10, 20)])),
    # Device 0: [100, 110) before the call, device 1: [200, 215).
    ("what the host did is added up", "idle_host activity name gap_count host_sum_ns",
     (Range(0, 500, "load"), Call(110, 115, 2), Call(215, 220, 4), Kernel(0, 100, 1),
      Kernel(120, 130, 2), Kernel(0, 200, 3, device=1), Kernel(230, 240, 4, device=1)),
     ([("range", "load", 2, 10 + 15)], [(2, 10, 15)])),
    ("sizes of transfers are over devices", "transfer_sizes bucket_min_bytes memcpy_count bytes_sum",
     (*COPIES, Memcpy(0, 1, bytes=20_000, device=1)),
     ([(1000, 3, 6000), (10_000, 1, 20_000)], [(2, 2000, 4000), (1, 20_000, 20_000)])),
    ("launches are over devices", "launch_stats launch_count api_sum_ns api_med_ns queue_med_ns",
     (Call(0, 10, 1), Kernel(20, 30, 1), Call(40, 45, 2), Kernel(50, 60, 2), Call(100, 130, 3),
      Kernel(140, 150, 3, device=1)), ([(3, 10 + 5 + 30, 10, 10)], [(2, 15, 30)])),
    ("totals are over devices", "kernels device_id name kernel_count kernel_sum_ns avg_ns med_ns",
     TOTALS, ([(None, "k", 3, 60, 20, None), (None, "other", 1, 7, 7, None)],
              [(2, 20, 40), (1, 7, 7)]), OF_TOTALS),
    ("totals of kinds of work are over devices",
     "kernel_categories device_id kernel_count kernel_sum_ns name_count", TOTALS,
     ([(None, 4, 67, 2)], [(2, 20, 47)]), OF_TOTALS),
    by=over,
)  # fmt: skip


ADD_UP = {
    "kernels": (("name",), ("kernel_count", "kernel_sum_ns")),
    "transfers": (("direction", "src_kind", "dst_kind"), ("memcpy_count", "bytes_sum", "memcpy_sum_ns")),
    "transfer_sizes": (("direction", "bucket_min_bytes"), ("memcpy_count", "bytes_sum")),
    "idle_summary": (("kind", "stream", "bucket_min_ns"), ("gap_count", "gap_sum_ns", "queue_sum_ns")),
    "idle_host": (("activity", "name"), ("gap_count", "host_sum_ns")),
    "kernel_categories": (("category",), ("kernel_count", "kernel_sum_ns", "kernel_union_ns")),
    "launch_stats": (("layer", "name"), ("launch_count", "api_sum_ns", "long_queue_count")),
}


def made_up(seed: int) -> list[Row]:
    """Kernels and copies on three devices, two of which are of one process; some without a call."""
    draw = random.Random(seed)
    rows: list[Row] = []
    now = 0
    for number in range(1, 120):
        now += draw.randrange(1, 3000)
        device, stream = draw.randrange(3), draw.choice((7, 8))
        pid = 1 if device == 0 else 2
        start, end = now + draw.randrange(20, 40), now + draw.randrange(40, 4000)
        rows.append(Call(now, now + 15, number, pid=pid, tid=pid))
        of_no_call = draw.random() < 0.2
        who = {"correlation": 0 if of_no_call else number, "pid": pid, "device": device, "stream": stream}
        if draw.random() < 0.7:
            rows.append(Kernel(start, end, name=draw.choice(("gemm", "norm", "nccl")), **who))
        else:
            rows.append(Memcpy(start, end, bytes=draw.randrange(1, 50_000), **who))
    return rows


@pytest.mark.parametrize(("report", "split"), by_turns(ADD_UP, ["device", "rank"], 4))
def test_rows_that_are_split_add_up_to_the_others(report: str, split: str) -> None:
    keys, values = ADD_UP[report]
    for seed in range(3):
        with opened(*made_up(seed), ranks={1: 0, 2: 1}) as profile:
            whole, parts = (
                profile.report(report, idle=IDLE, split=each).rows() for each in (None, split)
            )
        added: Counter[Any] = Counter()
        for row in parts:
            added.update({(*(row[key] for key in keys), value): row[value] for value in values})
        assert +added == +Counter(
            {(*(row[key] for key in keys), value): row[value] for row in whole for value in values})
        assert len(whole) == len({tuple(row[key] for key in keys) for row in whole})
        assert len(parts) > len(whole)


@pytest.mark.parametrize("report", ADD_UP)
def test_the_spread_is_that_of_rows_by_device(report: str) -> None:
    keys = ADD_UP[report][0]
    unit = "bytes" if report.startswith("transfer") else "ns"
    with opened(*made_up(5)) as profile:
        whole, parts = (profile.report(report, idle=IDLE, split=each) for each in (None, "device"))
    main = next(column.name for column in whole.columns if column.counted_by)
    by_key: dict[Any, list[int]] = {}
    for row in parts.rows():
        by_key.setdefault(tuple(row[key] for key in keys), []).append(row[main])
    for row, found in zip(whole.rows(), spread(whole.rows(), unit), strict=True):
        mine = by_key[tuple(row[key] for key in keys)]
        assert found == (len(mine), min(mine), max(mine))


# -- ranks

TWO_RANKS = (Kernel(0, 10, name="gemm", pid=1), Kernel(0, 30, name="gemm", pid=2, device=1),
             Kernel(50, 55, name="log", pid=1), Kernel(60, 61, name="gemm", pid=3))  # fmt: skip
RANKS = {1: 4, 2: 5}


def test_gaps_split_by_rank_are_those_of_the_rank_s_devices() -> None:
    rows = (Kernel(0, 10, pid=1), Kernel(30, 40, pid=1), Kernel(0, 10, pid=2, device=1),
            Kernel(15, 20, pid=2, device=1), Kernel(0, 10, pid=2, device=2),
            Kernel(18, 20, pid=2, device=2))  # fmt: skip
    found = answers("idle_summary", *rows, ranks=RANKS, split="rank")
    assert picked(found, "rank", "gap_sum_ns") == [(4, 20), (5, 5 + 8)]
    assert spread(found) == [(1, 20, 20), (2, 5, 8)]
    assert picked(answers("idle_host", *rows, ranks=RANKS, split="rank", holds=set(Fact)), "rank") == []


test_ranks = hand_computed(
    # Also not where one rank alone ran a kernel: in a run of other ranks it would be another row.
    ("rows over ranks name none", "kernels rank name kernel_sum_ns", TWO_RANKS,
     [(None, "gemm", 41), (None, "log", 5)], {"ranks": RANKS}),
    ("split by rank", "kernels rank device_id name kernel_sum_ns", TWO_RANKS,
     [(5, None, "gemm", 30), (4, None, "gemm", 10), (4, None, "log", 5), (None, None, "gemm", 1)],
     {"ranks": RANKS, "split": "rank"}),
    ("a slice of one rank names it", "kernels rank name", TWO_RANKS, [(5, "gemm")],
     {"ranks": RANKS, "part": Slice(ranks=(5,))}),
    ("the only rank is named", "kernels rank", (*TWO_RANKS[:1],), [4], {"ranks": {1: 4}}),
    ("calls split by rank", "api_vs_kernel rank name api_sum_ns kernel_sum_ns",
     (Call(0, 10, 1, pid=1), Kernel(20, 25, 1, pid=1), Call(0, 30, 1, pid=2),
      Kernel(40, 47, 1, pid=2), Kernel(50, 53, pid=1), Kernel(50, 52, pid=2)),
     [(5, "cudaLaunchKernel", 30, 7), (4, "cudaLaunchKernel", 10, 5), (4, "[no API call]", None, 3),
      (5, "[no API call]", None, 2)], {"ranks": RANKS, "split": "rank"}),
    ("totals split by rank", "kernels rank kernel_sum_ns",
     (Total("kernel", 1, 10, 10, 10, "k", pid=1), Total("kernel", 1, 30, 30, 30, "k", pid=2)),
     [(5, 30), (4, 10)], {"holds": {Fact.KERNEL_TOTALS}, "ranks": RANKS, "split": "rank"}),
)  # fmt: skip


# -- findings


@pytest.mark.parametrize(("devices", "part"), [(1, None), (2, "--device 1")])
def test_a_finding_on_one_of_several_devices_is_in_the_rows_of_this_one(
    devices: int, part: str | None
) -> None:
    rows = [each for device in range(devices) for each in (
        Memcpy(0, 100_000 * (1 + device), device=device),
        Kernel(900_000, 1_000_000, device=device))]  # fmt: skip
    found = {row["rule"]: row for row in answers("findings:copy_bound=0", *rows)}
    assert (found["copy_bound"]["report"], found["copy_bound"]["slice"]) == ("transfers", part)


# -- comparisons


def test_diff_matches_runs_of_other_numbers_of_devices(tmp_path: Path) -> None:
    write(tmp_path / "one.db", Kernel(0, 100, name="gemm"), Kernel(100, 150, name="norm"))
    two = [Kernel(start, start + length, name=name, device=device) for device in (0, 1)
           for name, start, length in (("gemm", 0, 50), ("norm", 50, 30))]  # fmt: skip
    write(tmp_path / "two.db", *two)
    (report,) = api.compare(tmp_path / "one.db", tmp_path / "two.db", "kernels").reports
    assert picked(report.rows(), "name", "where", "base_kernel_sum_ns", "other_kernel_sum_ns") == [
        ("norm", "both", 50, 60), ("gemm", "both", 100, 100)]  # fmt: skip
    assert picked(report.rows(), "base_device_count", "other_device_count") == [(None, 2)] * 2


def test_diff_matches_a_profile_of_one_rank_with_one_of_two(tmp_path: Path) -> None:
    write(tmp_path / "one.db", Kernel(0, 100, name="gemm"), ranks={1: 0})
    write(tmp_path / "two.db", Kernel(0, 60, name="gemm"), Kernel(0, 60, name="gemm", pid=2, device=1),
          Kernel(70, 71, name="log"), ranks={1: 0, 2: 1})  # fmt: skip
    (report,) = api.compare(tmp_path / "one.db", tmp_path / "two.db", "kernels").reports
    assert picked(report.rows(), "name", "where", "base_kernel_sum_ns", "other_kernel_sum_ns") == [
        ("gemm", "both", 100, 120), ("log", "only in other", 0, 1)]  # fmt: skip


def test_devices_of_names_that_are_one_are_not_added_up(tmp_path: Path) -> None:
    rows = [Kernel(0, 10, name=f"void gemm<{number}>(int)", device=device)
            for number in (1, 2) for device in (0, 1)]  # fmt: skip
    write(tmp_path / "a.db", *rows)
    write(tmp_path / "b.db", *rows[:2])
    (report,) = api.compare(tmp_path / "a.db", tmp_path / "b.db", "kernels", match="name").reports
    assert picked(report.rows(), "base_kernel_count", "base_device_count", "other_device_count") == [
        (4, None, 2)]  # fmt: skip


def test_diff_split_by_device(tmp_path: Path) -> None:
    for label, end in (("a", 100), ("b", 150)):
        rows = Kernel(0, end, name="gemm"), Kernel(0, 100, name="gemm", device=1)
        write(tmp_path / f"{label}.db", *rows)
    sides = tmp_path / "a.db", tmp_path / "b.db"
    for split, expected in ((None, [(None, 50)]), ("device", [(0, 50)])):
        (report,) = api.compare(*sides, "kernels", split=split).reports
        assert picked(report.rows(), "device_id", "diff_kernel_sum_ns") == expected


def stepped(gain: int, devices: int) -> list[Row]:
    """Forty steps of 1000 ns, in each a kernel on each device."""
    rows: list[Row] = []
    for step in range(40):
        start = 1000 * step
        rows.append(Range(start, start + 990, f"ProfilerStep#{step}"))
        for device in range(devices):
            number = step * devices + device + 1
            length = 400 + 7 * (step % 3) - gain
            rows.append(Call(start + 10 + device, start + 11 + device, number))
            rows.append(Kernel(start + 20, start + 20 + length, number, name="gemm", device=device))
    return rows


def test_intervals_by_step_are_those_of_rows_over_devices(tmp_path: Path) -> None:
    for label, gain in (("a", 0), ("b", 100)):
        write(tmp_path / f"{label}.db", *stepped(gain, 2))
    sides = tmp_path / "a.db", tmp_path / "b.db"
    for split in (None, "device"):
        (report,) = api.compare(*sides, "kernels", split=split).reports
        assert {row["basis"] for row in report.rows()} == {"within run"}, split


# -- the choice


@pytest.mark.parametrize(("names", "split", "what"), [
    ("kernels", "gpu", "no split 'gpu'"),
    ("overview", "device", "none of these reports has rows over devices"),
])  # fmt: skip
def test_what_cannot_be_split_is_refused(tmp_path: Path, names: str, split: str, what: str) -> None:
    path = tmp_path / "a.db"
    write(path, *EXAMPLE)
    with api.open(path) as profile, pytest.raises(UsageError, match=what):
        profile.report(names, split=split)
    for ask in (lambda: api.report_on(path, names, split=split),
                lambda: api.page(path, names, split=split),
                lambda: api.compare(path, path, names, split=split)):  # fmt: skip
        with pytest.raises(UsageError, match=what):
            ask()


def test_people_see_no_empty_columns() -> None:
    text = str(asked("kernels", *EXAMPLE[:2]))
    assert "device" not in text


def test_by_device_and_by_host_find_their_rows(tmp_path: Path) -> None:
    """Three rows of each physical device need rows of each; of each host, those of its ranks."""
    write(tmp_path / "a.db", *TWO_RANKS[:2], ranks=RANKS, host="n1")
    for by, column, places in (("device", "gpu", 2), ("host", "host", 1)):
        (report,) = api.report_on(tmp_path / "a.db", "kernels", by=by)
        assert len({row[column] for row in report.rows()}) == places
        assert None not in {row[column] for row in report.rows()}
