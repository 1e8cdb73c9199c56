"""CUDA's occupancy rule: how many blocks of a kernel an SM can hold at once.

The rule and the granularities are those of NVIDIA's own calculator, `cuda_occupancy.h` of CUDA 13.0
(`cudaOccMaxActiveBlocksPerMultiprocessor`), the sizes of an SM those of the CUDA programming guide
("Technical specifications per compute capability"). Two things the calculator asks for are recorded
nowhere and are taken at their defaults: the split between cache and shared memory (as much shared
memory as there is), and one barrier per block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING

Array = np.ndarray

THREADS_PER_WARP = 32
# Registers are handed out to warps in units of this many.
_REGISTER_UNIT = 256


@dataclass(frozen=True)
class Sm:
    """What one SM of a compute capability holds.

    `partitions` share its registers evenly. A block's shared memory is rounded up to `shared_unit`
    after `reserved_bytes` are added, which the driver keeps for itself.
    """

    warps: int
    blocks: int
    registers: int
    shared_bytes: int
    shared_unit: int
    reserved_bytes: int = 0
    partitions: int = 4


_K = 1024
SMS: dict[tuple[int, int], Sm] = {
    (3, 0): Sm(64, 16, 64 * _K, 48 * _K, 256),
    (3, 2): Sm(64, 16, 64 * _K, 48 * _K, 256),
    (3, 5): Sm(64, 16, 64 * _K, 48 * _K, 256),
    (3, 7): Sm(64, 16, 128 * _K, 112 * _K, 256),
    (5, 0): Sm(64, 32, 64 * _K, 64 * _K, 256),
    (5, 2): Sm(64, 32, 64 * _K, 96 * _K, 256),
    (5, 3): Sm(64, 32, 64 * _K, 64 * _K, 256),
    (6, 0): Sm(64, 32, 64 * _K, 64 * _K, 256, partitions=2),
    (6, 1): Sm(64, 32, 64 * _K, 96 * _K, 256),
    (6, 2): Sm(64, 32, 64 * _K, 64 * _K, 256),
    (7, 0): Sm(64, 32, 64 * _K, 96 * _K, 256),
    (7, 2): Sm(64, 32, 64 * _K, 96 * _K, 256),
    (7, 5): Sm(32, 16, 64 * _K, 64 * _K, 256),
    (8, 0): Sm(64, 32, 64 * _K, 164 * _K, 128, 1 * _K),
    (8, 6): Sm(48, 16, 64 * _K, 100 * _K, 128, 1 * _K),
    (8, 7): Sm(48, 16, 64 * _K, 164 * _K, 128, 1 * _K),
    (8, 9): Sm(48, 24, 64 * _K, 100 * _K, 128, 1 * _K),
    (9, 0): Sm(64, 32, 64 * _K, 228 * _K, 128, 1 * _K),
    (10, 0): Sm(64, 32, 64 * _K, 228 * _K, 128, 1 * _K),
    (10, 3): Sm(64, 32, 64 * _K, 228 * _K, 128, 1 * _K),
    (11, 0): Sm(48, 24, 64 * _K, 228 * _K, 128, 1 * _K),
    (12, 0): Sm(48, 24, 64 * _K, 100 * _K, 128, 1 * _K),
    (12, 1): Sm(48, 24, 64 * _K, 100 * _K, 128, 1 * _K),
}
"""The SM by compute capability, major and minor."""


def resident_blocks(sm: Sm, threads: Array, registers: Array, shared_bytes: Array) -> Array:
    """How many blocks of each kernel an SM holds at once; MISSING where something is not recorded.

    Per kernel the threads of a block, the registers of a thread, and the shared memory of a block.
    MISSING, too, where a block does not fit at all: it ran, so what is recorded is not what ran.
    """
    told = (threads > 0) & (threads <= sm.warps * THREADS_PER_WARP)
    told &= (registers >= 0) & (registers <= sm.registers)
    told &= (shared_bytes >= 0) & (shared_bytes <= sm.shared_bytes)
    threads, registers, shared_bytes = (
        np.where(told, column, 1).astype(np.int64) for column in (threads, registers, shared_bytes)
    )
    warps = warps_of(threads)
    of_warp = _rounded_up(registers * THREADS_PER_WARP, _REGISTER_UNIT)
    of_block = _rounded_up(shared_bytes + sm.reserved_bytes, sm.shared_unit)
    # A warp's registers lie in one partition. What needs none of a kind is not limited by it.
    at_once = sm.registers // sm.partitions // np.maximum(of_warp, 1) * sm.partitions
    by_registers = np.where(of_warp > 0, at_once // warps, sm.blocks)
    by_shared = np.where(of_block > 0, sm.shared_bytes // np.maximum(of_block, 1), sm.blocks)
    limits = (by_registers, by_shared, sm.warps // warps)
    blocks = np.minimum.reduce([*limits, np.full(len(warps), sm.blocks)])
    return np.where(told & (blocks > 0), blocks, MISSING)


def achieved(sm: Sm, threads: Array, resident: Array, blocks_per_sm: Array) -> Array:
    """The share of an SM's warps, 0..1, that each kernel keeps resident; NaN where not known.

    `resident` as `resident_blocks` gives it, `blocks_per_sm` the kernel's grid over the SMs.
    """
    blocks = np.where(resident == MISSING, np.nan, np.minimum(resident, blocks_per_sm))
    result: Array = blocks * warps_of(threads) / sm.warps
    return result


def warps_of(threads: Array) -> Array:
    """The warps of a block of so many threads."""
    result: Array = -(-threads // THREADS_PER_WARP)
    return result


def _rounded_up(values: Array, unit: int) -> Array:
    result: Array = -(-values // unit) * unit
    return result
