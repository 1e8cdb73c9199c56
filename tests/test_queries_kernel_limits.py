"""What limits kernels: by their metrics, and by what an SM holds; beside figures made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, real
from small_store import Kernel, Metric, Row, answers, write

import nsysconv
from nsysconv.facts import Fact
from nsysconv.queries.kernel_metrics import Limits as _Limits

OCCUPANCY = ("occupancy_pct", "occupancy_limit")


def rows_of(*rows: Row, **how: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in answers("kernel_limits", *rows, **how)}


def values(row: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


# -- real files: three kernels each, from the lines of the file

NVPROF_CSV = "nvprof_csv/leimingyu+magus__metrics_rodinia_hybridsort.csv"
NVPROF_TEXT = "nvprof_text/xstupi00+N-Body-OpenACC__profile.out"
BY_HAND = {
    # cf, single precision: Low (1); issue slots 6.09 %; dram High (8), l2 Low (3), tex Low (1).
    (NVPROF_CSV, "mergeSortFirst(float4*, int)"):
        ("bandwidth", 10, 80, "dram_utilization", 83.5374, "memory dependency", 85.342166),
    # Issue slots 13.18 %, all units Low (1); dram and tex Low (2), l2 and shared Low (1).
    (NVPROF_CSV, "bucketcount(float*, int*, unsigned int*, int)"):
        ("latency", 13.181187, 20, "dram_utilization", 33.4615, "memory dependency", 81.638933),
    # Issue slots 7.56 %, cf, special and single precision Low (1); dram Low (2), l2, shared, tex Low (1).
    (NVPROF_CSV, "histogram1024Kernel(unsigned int*, float*, float, float, int)"):
        ("latency", 10, 20, "dram_utilization", 10.702, "memory dependency", 52.461465),
    # Arithmetic units Mid (5), FLOP efficiency 10.44 %; no memory's utilization is recorded.
    (NVPROF_TEXT, "calculate_velocity_34_gpu(Particles const &, Particles&, int, float)"):
        (None, 50, None, None, 48.3389, None, None),
    (NVPROF_TEXT, "centerOfMassGPU_101_gpu(Particles const &, float4*, int)"):
        (None, 10, None, None, 62.2217, None, None),
    (NVPROF_TEXT, "centerOfMassGPU_116_gpu(Particles const &, float4*, int)"):
        (None, 10, None, None, 1.5617, None, None),
}  # fmt: skip


@real
@pytest.mark.parametrize(("file", "kernel"), list(BY_HAND))
def test_kernels_of_real_files_by_hand(file: str, kernel: str) -> None:
    if not (REAL / file).exists():
        pytest.skip(f"{file} is not there")
    (report,) = nsysconv.report_on(REAL / file, "kernel_limits")
    row = next(row for row in report.rows() if row["name"] == kernel)
    names = ("limit", "compute_pct", "memory_pct", "memory_metric", "achieved_occupancy_pct",
             "stall_reason", "stall_pct")  # fmt: skip
    wanted = BY_HAND[file, kernel]
    assert values(row, names) == tuple(
        pytest.approx(each) if isinstance(each, float | int) else each for each in wanted
    )


COUNTERS = sorted((REAL / "rocprofv3_csv").glob("*counter_collection.csv")) or [REAL / "missing"]


@real
@pytest.mark.parametrize("path", COUNTERS, ids=lambda path: path.name)
def test_counters_that_are_no_shares_of_a_peak_say_nothing(path: Any) -> None:
    """Waves and bytes fetched: counts without a peak."""
    if not path.exists():
        pytest.skip("no counters are there")
    (report,) = nsysconv.report_on(path, "kernel_limits")
    assert {row["limit"] for row in report.rows()} <= {None}


# -- metrics


def metric(name: str, value: float, kernel: str = "k") -> Metric:
    return Metric(name, kernel, value)


def limits(*measured: tuple[str, float | None]) -> _Limits:
    """What these metrics say; one of None was not measured."""
    found = _Limits()
    for name, value in measured:
        if value is not None:
            found.add(name, value)
    return found


@pytest.mark.parametrize(("compute", "memory", "limit"), [
    (60, 59.9, "compute"), (60, 60, "compute"), (59.9, 60, "bandwidth"), (80, 90, "bandwidth"),
    (59.9, 59.9, "latency"), (60, None, "compute"), (59.9, None, None), (None, 60, "bandwidth"),
    (None, 59.9, None),
])  # fmt: skip
def test_the_larger_of_both_limits_from_60_percent_on(
    compute: float | None, memory: float | None, limit: str | None
) -> None:
    dram = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
    assert limits((SM_PCT, compute), (dram, memory)).limit == limit


def test_units_on_the_way_to_memory_do_not_compute() -> None:
    names = ("ldst_fu_utilization", "tex_fu_utilization", "sysmem_utilization")
    found = limits(*((name, 100) for name in names))
    assert (found.limit, found.compute[1], found.memory[1]) == (None, None, None)


SM_PCT = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY_PCT = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
L2_PCT = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
WAVES, DURATION = "launch__waves_per_multiprocessor", "gpu__time_duration.sum"


@pytest.mark.parametrize(("memory", "waves", "limit"), [
    (59.9, 0.99, "small grid"), (59.9, 1, "latency"), (59.9, None, "latency"), (60, 0.99, "bandwidth"),
])  # fmt: skip
def test_blocks_that_do_not_fill_the_gpu_once_are_a_small_grid(
    memory: float, waves: float | None, limit: str
) -> None:
    assert limits((SM_PCT, 3), (MEMORY_PCT, memory), (WAVES, waves)).limit == limit


@pytest.mark.parametrize("names", [(L2_PCT, MEMORY_PCT), (MEMORY_PCT, L2_PCT)])
def test_a_metric_of_all_memory_goes_before_those_of_parts(names: tuple[str, str]) -> None:
    found = limits(*((name, {L2_PCT: 84.7, MEMORY_PCT: 63.3}[name]) for name in names))
    assert found.memory == (63.3, MEMORY_PCT)


@pytest.mark.parametrize(("cycles", "wanted"), [
    ({"long_scoreboard": 6, "wait": 3, "selected": 1}, (60, "long scoreboard")),
    ({"wait": 1, "selected": 3}, (25, "wait")),
    ({"wait": 0, "selected": 0}, None), ({"selected": 1}, None),
])  # fmt: skip
def test_the_commonest_stall_is_a_share_of_all_cycles(
    cycles: dict[str, float], wanted: tuple[float, str] | None
) -> None:
    stalled = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    found = limits(*((stalled.format(reason), value) for reason, value in cycles.items()))
    assert found.commonest_stall[1] == (wanted and wanted[1])
    assert wanted is None or found.commonest_stall == wanted


def test_kernels_without_times_have_measured_durations() -> None:
    """Of kernels with times, theirs count: 100 ns."""
    row = rows_of(metric(DURATION, 1500))["k"]
    assert (row["kernel_count"], row["kernel_sum_ns"]) == (1, 1500)
    row = rows_of(metric(DURATION, 1500), launched(256, 16, 0))["k"]
    assert (row["kernel_count"], row["kernel_sum_ns"]) == (1, 100)


# -- metrics of another run


def test_stalls_of_several_launches_are_a_mean(tmp_path: Path) -> None:
    """Two launches of 5 and 1."""
    stalled = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    rows = [Metric(stalled.format("wait"), "k", value) for value in (5, 1)]
    rows.append(Metric(stalled.format("selected"), "k", 1))
    write(tmp_path / "run.db", Kernel(0, 100, name="k"), without={Fact.METRICS})
    write(tmp_path / "other.db", *rows, without={Fact.API_CALLS})
    with nsysconv.open(tmp_path / "run.db", join=str(tmp_path / "other.db")) as profile:
        (row,) = profile.report("kernel_limits").rows()
    # A mean of 3, and 1 that is no stall.
    assert (row["stall_reason"], row["stall_pct"]) == ("wait", 75)


def test_numbers_without_a_peak_are_no_shares() -> None:
    """The unit of these rows is a number: 90 of what is not known."""
    assert "k" not in rows_of(metric("flop_sp_efficiency", 90.0))
    assert rows_of(metric("achieved_occupancy", 0.25))["k"]["achieved_occupancy_pct"] == 25


# -- occupancy


H100 = {"sm_count": 132, "compute_major": 9, "compute_minor": 0}


def launched(threads: int, registers: int, shared: int, *, start: int = 0, end: int = 100) -> Kernel:
    return Kernel(start, end, name="k", grid=(1000, 1, 1), block=(threads, 1, 1),
                  registers=registers, shared=shared)  # fmt: skip


@pytest.mark.parametrize(("threads", "registers", "shared", "wanted"), [
    # 64 registers × 32 = 2048 a warp, 8 warps in each of 4 parts, 32 / 8 = 4 blocks of 8 warps: 32 of 64.
    (256, 64, 0, (50.0, "registers")),
    # 100 KiB and 1 KiB more: 2 blocks in 228 KiB, of 4 warps each: 8 of 64.
    (128, 16, 100 << 10, (12.5, "shared memory")),
    # One warp: 32 blocks, 32 of 64 warps.
    (32, 16, 0, (50.0, "blocks")),
    # 16 warps: 4 blocks have all 64; 32 registers allow 4 blocks, too.
    (512, 32, 0, (100.0, "registers, warps")),
    (512, 16, 0, (100.0, "warps")),
    # More than a block may have: it ran, so it is not what ran.
    (4096, 16, 0, (None, None)),
])  # fmt: skip
def test_what_limits_the_blocks_of_an_sm(
    threads: int, registers: int, shared: int, wanted: tuple[Any, ...]
) -> None:
    row = rows_of(launched(threads, registers, shared), gpus={0: H100})["k"]
    assert values(row, OCCUPANCY) == wanted
    assert (row["kernel_count"], row["kernel_sum_ns"], row["limit"]) == (1, 100, None)


def test_the_launch_size_with_most_time_counts() -> None:
    """Twice 100 ns with 64 registers, and 150 with 16."""
    rows = [launched(256, 64, 0), launched(256, 64, 0, start=100, end=200),
            launched(256, 16, 0, start=200, end=350)]  # fmt: skip
    row = rows_of(*rows, gpus={0: H100})["k"]
    assert values(row, OCCUPANCY) == (50.0, "registers")
    assert (row["kernel_count"], row["kernel_sum_ns"]) == (3, 350)


def test_without_a_capability_occupancy_is_not_known() -> None:
    assert values(rows_of(launched(256, 64, 0))["k"], OCCUPANCY) == (None, None)
