"""CUDA's occupancy rule by hand: each limit that can be the one that counts, on several GPUs.

The block counts are also what cuda_occupancy.h of CUDA 13.0 gives for these launches.
"""

from __future__ import annotations

import numpy as np
import pytest

from nsysconv.report import MISSING
from nsysconv.timeline.utilization import achieved, resident_blocks, sms

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
