"""Tables of nsys of 2020 and 2021 in locales with decimal commas, which cut their decimals."""

from __future__ import annotations

from random import Random

import pytest
from conftest import event_rows, few
from importing import only_note as note
from importing import read, slugs, totals_of

from nsysconv.facts import Fact
from nsysconv.notes import Severity

SIZES = """\
CUDA Memory Operation Statistics (by size in KiB):

 Total   Operations  Average  Minimum  Maximum      Operation
 ------  ----------  -------  -------  -------  ------------------
"""
TIMES = """\
 Time(%)  Total Time (ns)  Num Calls   Average   Minimum  Maximum  StdDev   Name
 -------  ---------------  ---------  ---------  -------  -------  ------  ----------
"""
TRACE = """\
 Start(sec)  Duration(nsec)  CorrId  GrdX    Bytes    Thru(MB/s)  Device   Ctx  Strm  Name
 ----------  --------------  ------  ----  ---------  ----------  -------  ---  ----  ------------------
"""
KERNELS = """\
   0,000000             400       1    32                         GPU (0)    1     7  k
   0,000000             500       2    32                         GPU (0)    1     7  k
   1,000000             100       3    16                         GPU (0)    1     7  j
"""
COPIES = """\
   1,000000           2.000       4        4.000.000   2.000,000  GPU (0)    1     7  [CUDA memcpy HtoD]
   2,000000           3.000       5        1.000.000     333,000  GPU (0)    1     7  [CUDA memcpy HtoD]
"""


def test_cut_sizes_are_known_to_their_last_digit() -> None:
    """5 copies of 4000 bytes: 19.53 KiB are printed as 19,000, and 3.9 as 3,000."""
    with read(SIZES + " 19,000           5    3,000    3,000    3,000  [CUDA memcpy HtoD]\n") as profile:
        (row,) = totals_of(profile)
        cut, rounded = note(profile, "decimals-cut"), note(profile, "rounded-bytes")
    assert (row["bytes_sum"], row["bytes_min"], row["bytes_max"]) == (19_968, 3_584, 3_584)
    assert (cut.severity, cut.count, cut.where) == (Severity.APPROXIMATED, 4, "line 5")
    assert cut.facts == {Fact.MEMORY_TOTALS, Fact.UNIFIED_MEMORY_TOTALS}
    assert "1,024 bytes" in rounded.text


def test_a_sum_that_was_cut_is_narrowed_by_its_mean() -> None:
    """4,000 of four is 4 to 5 KiB, as 1,000 each is 4 to 8."""
    with read(SIZES + "  4,000           4    1,000    0,000    1,000  [CUDA memcpy HtoD]\n") as profile:
        (row,) = totals_of(profile)
    assert (row["bytes_sum"], row["bytes_min"], row["bytes_max"]) == (4_608, 512, 1_536)


@pytest.mark.parametrize("cells", ["19,530           5    3,906    3,906    3,906",
                                   "19.000           5    3.000    3.000    3.000"])  # fmt: skip
def test_decimals_are_not_cut_if_one_is_printed_or_behind_points(cells: str) -> None:
    with read(f"{SIZES} {cells}  [CUDA memcpy HtoD]\n") as profile:
        assert "decimals-cut" not in slugs(profile)


def test_sums_of_times_stay_exact() -> None:
    rows = "    84,0          143.647          3   47.882,0    4.597  127.226     0,0  cudaMalloc\n"
    with read(TIMES + rows) as profile:
        (row,) = totals_of(profile)
        cut = note(profile, "decimals-cut")
    assert (row["sum_ns"], row["min_ns"], row["max_ns"]) == (143_647, 4_597, 127_226)
    assert (cut.count, "rounded-times" in slugs(profile)) == (1, False)  # the deviation


def test_a_sum_known_by_a_cut_mean_alone_is_not_exact() -> None:
    rows = "    84,0           143.6x          3   47.882,0    4.597  127.226     0,0  cudaMalloc\n"
    with read(TIMES + rows) as profile:
        (row,) = totals_of(profile)
        assert "3 ns" in note(profile, "rounded-times").text
    assert 143_646 <= row["sum_ns"] <= 143_649


MEDIAN = """\
 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  Name
 --------  ---------------  ---------  --------  --------  --------  --------  ----
"""


@pytest.mark.parametrize(("mean", "is_cut"), [("33,0", True), ("50,0", False)])
def test_of_releases_with_medians_a_mean_has_to_prove_it(mean: str, is_cut: bool) -> None:
    """100 / 3 is 33.3; 50 is no cut mean of it, whatever else it is."""
    rows = f"    100,0              100          3      {mean}      30,0        20        50  k\n"
    with read(MEDIAN + rows) as profile:
        assert ("decimals-cut" in slugs(profile)) == is_cut


def test_a_trace_whose_starts_were_cut_becomes_totals() -> None:
    with read(TRACE + KERNELS + COPIES) as profile:
        assert event_rows(profile, "kernel") == event_rows(profile, "memcpy") == []
        found = {row.get("name"): row for row in totals_of(profile)}
        cut = note(profile, "decimals-cut")
        assert {Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS} <= profile.facts
        assert not {Fact.KERNELS, Fact.MEMCPYS} & profile.facts
    assert (cut.severity, cut.count) == (Severity.DROPPED, 5)
    assert [found["k"][c] for c in ("count", "sum_ns", "min_ns", "max_ns")] == [2, 900, 400, 500]
    assert [found["j"][c] for c in ("count", "sum_ns")] == [1, 100]
    (copies,) = (row for row in found.values() if row["kind"] == "memcpy")
    assert [copies[c] for c in ("count", "sum_ns", "bytes_sum", "bytes_min", "bytes_max")] == [
        2, 5_000, 5_000_000, 1_000_000, 4_000_000]  # fmt: skip


def test_a_trace_with_decimals_in_its_starts_keeps_its_time_line() -> None:
    with read(TRACE + KERNELS.replace("1,000000", "1,000001")) as profile:
        assert [row["start_ns"] for row in event_rows(profile, "kernel")] == [0, 0, 1_000_001_000]
        assert "decimals-cut" not in slugs(profile)


def test_rows_that_become_one_total_are_more_than_a_quoted_row() -> None:
    rows = "".join(KERNELS.splitlines(True)[:2])
    with read(f"```\n{TRACE}{rows}```\n") as profile:
        assert [row["count"] for row in totals_of(profile)] == [2]


def test_calls_whose_starts_were_cut_become_totals() -> None:
    header = (" Start(sec)  Duration(nsec)  Name        Result  CorrID  Pid  Tid\n"
              " ----------  --------------  ----------  ------  ------  ---  ---\n")  # fmt: skip
    rows = "   0,000000             400  cudaMalloc       0       1   42   42\n"
    with read(header + rows * 2) as profile:
        (row,) = totals_of(profile)
        assert (row["kind"], row["name"], row["count"], row["sum_ns"]) == (
            "api_call", "cudaMalloc", 2, 800)  # fmt: skip
        assert Fact.API_CALLS not in profile.facts


@pytest.mark.parametrize("seed", few(range(5), 1))
def test_the_order_of_a_traces_rows_says_nothing(seed: int) -> None:
    """Starts count from the recording's, whichever row comes first."""
    rows = [row.replace("1,000000", "1,500000") for row in (KERNELS + COPIES).splitlines(True)]
    shuffled = Random(seed).sample(rows, len(rows))
    told = []
    for each in (rows, shuffled):
        with read(TRACE + "".join(each)) as profile:
            told.append([
                sorted((row["start_ns"], row["dur_ns"], row["correlation_id"])
                       for row in event_rows(profile, table)) for table in ("kernel", "memcpy")
            ])  # fmt: skip
    assert told[0] == told[1]
