"""Utilization, SM efficiency and occupancy of devices, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Migration,
    Range,
    Row,
    answers,
    asked,
    hand_computed,
    opened,
)

from nsysconv.errors import UsageError
from nsysconv.report import MISSING
from nsysconv.store.read import Profile
from nsysconv.timeline.utilization import achieved, resident_blocks, sms

FIGURES = ("gpu_utilization_pct", "est_sm_efficiency_pct", "est_achieved_occupancy_pct")
HOPPER = {"sm_count": 132, "compute_major": 9, "compute_minor": 0, "max_warps_per_sm": 64}
HUNDRED = {0: {"sm_count": 100}}


def only(*rows: Row, **options: Any) -> dict[str, Any]:
    (row,) = answers("gpu_utilization", *rows, **options)
    return row


def figures(*rows: Row, **options: Any) -> list[float | None]:
    row = only(*rows, **options)
    return [row[name] for name in FIGURES]


def grid(start: int, end: int, blocks: int, **more: Any) -> Kernel:
    return Kernel(start, end, grid=(blocks, 1, 1), **more)


# -- utilization


def test_the_union_of_kernels_over_the_window() -> None:
    """[100, 400) and [600, 900) of [100, 1000): the copy extends the window and is no kernel."""
    row = only(Kernel(100, 300), Kernel(200, 400), Kernel(600, 900), Memcpy(850, 1000))
    assert (row["window_start_ns"], row["window_ns"]) == (100, 900)
    assert row["kernel_graph_union_ns"] == 300 + 300
    assert row["gpu_utilization_pct"] == pytest.approx(100 * 600 / 900)


def test_a_graph_recorded_as_one_interval_counts_as_kernels() -> None:
    row = only(Kernel(0, 100), Graph(50, 150), Memcpy(150, 200))
    assert row["gpu_utilization_pct"] == 100 * 150 / 200


def test_with_a_slice_the_window_is_the_slice() -> None:
    assert only(Kernel(100, 200), Kernel(250, 300), time=(150, 250))["gpu_utilization_pct"] == 50


def test_a_device_without_a_window_has_no_figures() -> None:
    rows = answers("gpu_utilization", Kernel(0, 10), Migration(5, 8, device=1))
    assert [rows[1][name] for name in ("device_id", "window_ns", *FIGURES)] == [1, *[None] * 4]


def test_no_kernels_is_no_utilisation_and_no_occupancy() -> None:
    assert figures(Memcpy(0, 10), gpus=HUNDRED) == [0, 0, None]


# -- SM efficiency


EXAMPLE = (grid(0, 400, 50), grid(200, 600, 80))


def efficiency(*rows: Row, **options: Any) -> float | None:
    return figures(*rows, **{"gpus": HUNDRED, **options})[1]


test_efficiency_by_hand = hand_computed(
    # 0.5 for 200 ns, then 1 (of 1.3), then 0.8: 100 + 200 + 160 of 1000.
    ("the example of the documentation", efficiency, EXAMPLE,
     pytest.approx(100 * (100 + 200 + 160) / 1000), {"time": (0, 1000)}),
    ("the integral is cut at the slice", efficiency, EXAMPLE,
     pytest.approx(100 * (100 * 1 + 100 * 0.8) / 200), {"time": (300, 500)}),
    ("a grid has three dimensions", efficiency, (Kernel(0, 10, grid=(5, 4, 3)),), 60),
    ("the largest grid there is fills the device", efficiency,
     (Kernel(0, 10, grid=(2**31 - 1, 65_535, 65_535)),), 100),
    *(("without a kernel's grid there is none", efficiency, rows, None) for rows in (
        (Kernel(0, 10),), (grid(0, 10, 5), Kernel(20, 30)), (Kernel(0, 10, grid=(1, 0, 1)),))),
    ("a kernel of no length needs no grid", efficiency, (grid(0, 10, 50), Kernel(5, 5)), 50),
    ("without the number of SMs there is none", efficiency, (grid(0, 10, 5),), None, {"gpus": None}),
)  # fmt: skip


@pytest.mark.parametrize(("length", "told"), [(5, True), (6, False)])
def test_graphs_of_more_than_a_twentieth_of_the_kernels_time_hide_too_much(
    length: int, told: bool
) -> None:
    """100 ns of kernels: 5 ns of graphs are 5 %."""
    rows = (grid(0, 100, 50, occupancy=40), Graph(200, 200 + length))
    utilization, efficiency, occupancy = figures(*rows, gpus=HUNDRED)
    window = 200 + length
    assert utilization == pytest.approx(100 * (100 + length) / window)
    assert efficiency == (pytest.approx(100 * 50 / window) if told else None)
    assert occupancy == (40 if told else None)


# -- occupancy


def launch(start: int, end: int, blocks: int = 10_000, **more: Any) -> Kernel:
    """256 threads of 64 registers: 4 blocks of 8 warps, 32 of Hopper's 64 warps."""
    launched = {"block": (64, 2, 2), "registers": 64, "static": 0, "dynamic": 0, **more}
    return grid(start, end, blocks, **launched)


def occupancy(*rows: Row, **options: Any) -> float | None:
    return figures(*rows, gpus={0: HOPPER}, **options)[2]


test_occupancy_by_hand = hand_computed(
    ("the rule of CUDA", occupancy, (launch(0, 10),), pytest.approx(100 * 4 * 8 / 64)),
    # 264 blocks on 132 SMs are 2 of the 4 that would fit.
    ("a grid smaller than what fits occupies less", occupancy, (launch(0, 10, 264),),
     pytest.approx(100 * 2 * 8 / 64)),
    # 90,000 + 10,000 + 1,024 of the driver's: 2 blocks in 233,472 bytes.
    ("shared memory is both kinds together", occupancy, (launch(0, 10, static=90_000, dynamic=10_000),),
     pytest.approx(100 * 16 / 64)),
    ("shared memory as one number", occupancy,
     (launch(0, 10, static=None, dynamic=None, shared=100_000),), pytest.approx(100 * 16 / 64)),
    # 50 % for 30 ns and 25 % for 10 ns; a slice takes whole kernels.
    ("the mean is weighted with durations", occupancy, (launch(0, 30), launch(100, 110, 264)),
     pytest.approx((50 * 30 + 25 * 10) / 40)),
    ("of a slice, too", occupancy, (launch(0, 30), launch(100, 110, 264), launch(200, 210, 132)),
     pytest.approx((50 * 30 + 25 * 10) / 40), {"time": (29, 101)}),
)  # fmt: skip


def rounded(*rows: Row, gpu: dict[str, Any]) -> tuple[float | None, list[tuple[str, int]]]:
    """The occupancy, and the notes that tell what it is made of."""
    report = asked("gpu_utilization", *rows, gpus={0: gpu})
    (row,) = report.rows()
    slugs = [(n.slug, n.count) for n in report.notes if n.slug.startswith("occupancy")]
    return row["est_achieved_occupancy_pct"], slugs


def test_the_rule_goes_before_a_recorded_value() -> None:
    assert rounded(launch(0, 10, occupancy=49), gpu=HOPPER) == (50, [])


@pytest.mark.parametrize("gpu", [
    {"sm_count": 132}, {**HOPPER, "sm_count": None}, {**HOPPER, "compute_minor": 4},
    # Another maker's GPU of this number: its SMs hold other numbers of warps.
    {**HOPPER, "max_warps_per_sm": 32},
])  # fmt: skip
def test_without_limits_a_recorded_value_is_taken_with_a_note(gpu: dict[str, Any]) -> None:
    kernel, other = launch(0, 10, occupancy=49), launch(20, 30, occupancy=51)
    assert rounded(kernel, other, gpu=gpu) == (50, [("occupancy-rounded", 2)])
    assert rounded(launch(0, 10), gpu=gpu) == (None, [])


@pytest.mark.parametrize("lacking", [
    {"registers": None}, {"dynamic": None}, {"block": None}, {"registers": 100_000}])  # fmt: skip
def test_without_a_launch_a_recorded_value_is_taken_with_a_note(lacking: dict[str, Any]) -> None:
    rows = (launch(0, 10, occupancy=40, **lacking), launch(20, 30))
    assert rounded(*rows, gpu=HOPPER) == (45, [("occupancy-rounded", 1)])


def test_a_kernel_of_unknown_occupancy_leaves_no_mean() -> None:
    assert rounded(launch(0, 10), launch(20, 30, registers=None), gpu=HOPPER) == (None, [])


# -- by step


STEPS = (
    Range(0, 100, "ProfilerStep#3"), Range(100, 180, "ProfilerStep#4"),
    Call(90, 95, 1), grid(95, 130, 50, correlation=1), Call(150, 155, 2),
    grid(160, 200, 25, correlation=2),
)  # fmt: skip


def test_by_step_the_windows_are_the_steps() -> None:
    """[0, 130) with 35 ns of kernels, [130, 200) with 40."""
    rows = answers("gpu_utilization", *STEPS, by="step", gpus=HUNDRED, ranks={1: 6})
    assert [(r["rank"], r["pid"], r["step"], r["occurrence"], r["window_start_ns"], r["window_ns"])
            for r in rows] == [(6, 1, "ProfilerStep#3", 1, 0, 130),
                               (6, 1, "ProfilerStep#4", 1, 130, 70)]  # fmt: skip
    assert [r["gpu_utilization_pct"] for r in rows] == [
        pytest.approx(100 * 35 / 130), pytest.approx(100 * 40 / 70)]  # fmt: skip
    assert [r["est_sm_efficiency_pct"] for r in rows] == [
        pytest.approx(50 * 35 / 130), pytest.approx(25 * 40 / 70)]  # fmt: skip


def test_by_step_there_is_a_row_for_every_device_of_the_process() -> None:
    rows = answers("gpu_utilization", *STEPS, Kernel(10, 23, device=1), Kernel(0, 9, pid=2, device=2),
                   by="step")  # fmt: skip
    assert sorted((r["device_id"], r["step"]) for r in rows) == [
        (device, f"ProfilerStep#{n}") for device in (0, 1) for n in (3, 4)]  # fmt: skip
    assert [r["gpu_utilization_pct"] for r in rows if r["device_id"] == 1] == [10, 0]


def test_a_step_without_length_has_no_share() -> None:
    """The only operation of the first step runs until after the second has ended."""
    rows = answers("gpu_utilization", Range(0, 10, "ProfilerStep#1"), Range(10, 20, "ProfilerStep#2"),
                   Call(1, 2, 1), Kernel(5, 50, 1), by="step")  # fmt: skip
    assert [(r["window_ns"], r["gpu_utilization_pct"]) for r in rows] == [(50, 90), (0, None)]


def test_clocks_that_disagree_leave_no_figures_of_steps() -> None:
    rows = answers("gpu_utilization", Range(0, 100, "ProfilerStep#1"), Call(10, 20, 1),
                   Kernel(9 * 10**9, 10**10, 1), by="step")  # fmt: skip
    assert [rows[0][name] for name in ("window_ns", *FIGURES)] == [None] * 4


# -- what is asked


def test_rows_by_something_else() -> None:
    with opened(Kernel(0, 10)) as profile:
        with pytest.raises(UsageError, match="no rows by 'rank'"):
            profile.report("gpu_utilization", by="rank")
        with pytest.raises(UsageError, match="none of these reports has rows by step"):
            profile.report("transfers", by="step")


def test_devices_are_looked_up_once_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    rows = Profile.rows

    def counted(profile: Profile, table: str) -> Any:
        asked.append(table)
        return rows(profile, table)

    def lookups(devices: int) -> int:
        asked.clear()
        rows = [Kernel(10 * d, 10 * d + 5, device=d) for d in range(devices)]
        found = answers("gpu_utilization", *rows)
        assert len(found) == devices
        return asked.count("device")

    monkeypatch.setattr(Profile, "rows", counted)
    assert lookups(2) == lookups(20)


# -- CUDA's occupancy rule: each limit that can be the one that counts, on several GPUs


K = 1024


def blocks(capability: str, threads: int, registers: int, shared: int) -> int:
    """Blocks of a launch that an SM holds."""
    columns = (np.array([value], np.int64) for value in (threads, registers, shared))
    (found,) = resident_blocks(sms()[capability], *columns).tolist()
    return int(found)


@pytest.mark.parametrize(("capability", "threads", "registers", "shared", "expected"), [
    # 7.0: 64 warps, 32 blocks, 64 K registers, 96 K of shared memory in units of 256 bytes.
    ("7.0", 256, 32, 0, 64 // 8),                       # warps: 8 warps a block
    ("7.0", 32, 32, 0, 32),                             # blocks: warps would allow 64
    ("7.0", 256, 64, 0, 4),      # 64 × 32 = 2048 a warp; 16384 / 2048 = 8 in each of 4 parts: 32 / 8
    ("7.0", 128, 16, 20_000, 4),                        # 98304 / 20224 (79 × 256) = 4.86
    # 8.0: 164 K in units of 128 bytes, of which each block gives 1 K to the driver.
    ("8.0", 256, 40, 0, 6),      # 1280 a warp; 16384 / 1280 = 12.8, 12 × 4 = 48 warps / 8
    ("8.0", 128, 32, 48 * K, 3),                        # 167936 / (49152 + 1024) = 3.3
    ("8.0", 1024, 32, 0, 2),                            # warps: 64 / 32
    ("8.0", 96, 168, 0, 4),      # 5376 a warp; 16384 / 5376 = 3 × 4 = 12 warps / 3
    # 8.6: 48 warps, 16 blocks, 100 K.
    ("8.6", 1024, 32, 0, 1),                            # 48 / 32 = 1.5
    ("8.6", 32, 16, 0, 16),
    ("8.6", 256, 32, 32 * K, 3),                        # 102400 / (32768 + 1024) = 3.03
    # 9.0: 228 K.
    ("9.0", 256, 64, 0, 4),
    ("9.0", 384, 168, 200 * K, 1),                      # 233472 / (204800 + 1024) = 1.1
    ("9.0", 128, 255, 0, 2),     # 8160 → 8192 a warp; 16384 / 8192 = 2 × 4 = 8 warps / 4
    # An SM of 6.0 has 2 partitions, one of 6.1 has 4.
    ("6.0", 32, 120, 0, 16),     # 3840 a warp; 32768 / 3840 = 8.5: 8 × 2 = 16
    ("6.1", 32, 120, 0, 16),     # 16384 / 3840 = 4.3: 4 × 4 = 16
    ("6.0", 32, 96, 0, 20),      # 3072 a warp; 32768 / 3072 = 10.7: 10 × 2
    ("6.1", 32, 96, 0, 20),      # 16384 / 3072 = 5.3: 5 × 4
    ("6.0", 32, 144, 0, 14),     # 4608 a warp; 32768 / 4608 = 7.1: 7 × 2
    ("6.1", 32, 144, 0, 12),     # 16384 / 4608 = 3.6: 3 × 4
    ("7.5", 256, 32, 0, 4),                             # 32 warps
    ("8.9", 32, 16, 0, 24),
    ("12.0", 32, 16, 0, 24),
    ("8.0", 33, 16, 0, 32),                             # 2 warps a block
    ("8.0", 256, 0, 0, 8),                              # no registers: no limit by them
    ("7.0", 64, 32, 0, 32),                             # no shared memory: no limit by it
])  # fmt: skip
def test_blocks_that_an_sm_holds(
    capability: str, threads: int, registers: int, shared: int, expected: int
) -> None:
    assert blocks(capability, threads, registers, shared) == expected


@pytest.mark.parametrize("launch", [
    (MISSING, 32, 0), (256, MISSING, 0), (256, 32, MISSING),  # not recorded
    (4096, 32, 0), (1024, 255, 0), (256, 32, 200 * K), (256, 1 << 40, 0), (0, 32, 0),  # cannot run
])  # fmt: skip
def test_what_cannot_be_told_is_missing(launch: tuple[int, int, int]) -> None:
    assert blocks("8.0", *launch) == MISSING


@pytest.mark.parametrize(("grid_per_sm", "expected"), [
    (100.0, 4 * 8 / 64), (4.0, 4 * 8 / 64), (2.0, 2 * 8 / 64), (0.5, 0.5 * 8 / 64),
])  # fmt: skip
def test_a_small_grid_does_not_fill_what_an_sm_could_hold(grid_per_sm: float, expected: float) -> None:
    """9.0, 256 threads (8 warps) and 64 registers: 4 blocks of the 64 / 8 that warps allow."""
    found = achieved(sms()["9.0"], np.array([256]), np.array([4]), np.array([grid_per_sm]))
    assert found.tolist() == [expected]
