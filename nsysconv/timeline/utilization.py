"""CUDA's occupancy rule: how many blocks of a kernel an SM can hold at once.

The rule and the granularities are those of NVIDIA's own calculator, `cuda_occupancy.h` of CUDA 13.0
(`cudaOccMaxActiveBlocksPerMultiprocessor`); the sizes of an SM are in sm_sizes.toml. Two things the
calculator asks for are recorded nowhere and are taken at their defaults: the split between cache and
shared memory (as much shared memory as there is), and one barrier per block.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, factorize, percent, take
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.intervals import capped_sum, intersecting_sums, lasting, union
from nsysconv.timeline.timeline import Timeline, cached, cached_small
from nsysconv.timeline.windows import Window

THREADS_PER_WARP = 32
# Registers are handed out to warps in units of this many.
_REGISTER_UNIT = 256


@dataclass(frozen=True)
class Sm:
    """The capacities of one SM of a compute capability.

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


@cache
def sms() -> Mapping[str, Sm]:
    """Return the SM by compute capability, such as `9.0`."""
    text = Path(__file__).with_name("sm_sizes.toml").read_text(encoding="utf-8")
    return {capability: Sm(**sizes) for capability, sizes in tomllib.loads(text).items()}


LIMITS = ("registers", "shared memory", "warps", "blocks")
"""What limits the blocks that an SM holds, in the order of `block_limits`."""


def block_limits(sm: Sm, threads: Array, registers: Array, shared_bytes: Array) -> Array:
    """Return how many blocks of each kernel an SM holds by each of LIMITS alone, a row for each of them.

    MISSING where something is not recorded, and where a block does not fit at all: it ran, so what is
    recorded is not what ran.
    """
    recorded = (threads > 0) & (threads <= sm.warps * THREADS_PER_WARP)
    recorded &= (registers >= 0) & (registers <= sm.registers)
    recorded &= (shared_bytes >= 0) & (shared_bytes <= sm.shared_bytes)
    threads, registers, shared_bytes = (
        np.where(recorded, column, 1).astype(np.int64)
        for column in (threads, registers, shared_bytes)
    )
    warps = warps_of(threads)
    of_warp = _rounded_up(registers * THREADS_PER_WARP, _REGISTER_UNIT)
    of_block = _rounded_up(shared_bytes + sm.reserved_bytes, sm.shared_unit)
    # A warp's registers lie in one partition. What needs none of a kind is not limited by it.
    at_once = sm.registers // sm.partitions // np.maximum(of_warp, 1) * sm.partitions
    by_registers = np.where(of_warp > 0, at_once // warps, sm.blocks)
    by_shared = np.where(of_block > 0, sm.shared_bytes // np.maximum(of_block, 1), sm.blocks)
    by_blocks = np.full(len(threads), sm.blocks)
    limits = np.array((by_registers, by_shared, sm.warps // warps, by_blocks))
    return np.where(recorded & (limits.min(axis=0) > 0), limits, MISSING)


def resident_blocks(sm: Sm, threads: Array, registers: Array, shared_bytes: Array) -> Array:
    """Return how many blocks of each kernel an SM holds at once: the least of `block_limits`."""
    result: Array = block_limits(sm, threads, registers, shared_bytes).min(axis=0)
    return result


def achieved(sm: Sm, threads: Array, resident: Array, blocks_per_sm: Array) -> Array:
    """Return the share of an SM's warps, 0..1, that each kernel keeps resident; NaN where not known."""
    blocks = np.where(resident == MISSING, np.nan, np.minimum(resident, blocks_per_sm))
    result: Array = blocks * warps_of(threads) / sm.warps
    return result


def warps_of(threads: Array) -> Array:
    """Return the warps of a block of so many threads."""
    result: Array = -(-threads // THREADS_PER_WARP)
    return result


def _rounded_up(values: Array, unit: int) -> Array:
    result: Array = -(-values // unit) * unit
    return result


GRID = ("grid_x", "grid_y", "grid_z")
"""Columns of a kernel that have its blocks."""
BLOCK = ("block_x", "block_y", "block_z")
"""Columns of a kernel that have a block's threads."""
SHARED = ("shared_bytes", "static_shared_bytes", "dynamic_shared_bytes")
"""Columns of a kernel that `shared_memory` takes."""

_OTHER = ("registers_per_thread", "occupancy_pct")

# Graphs recorded as one interval do not say what ran in them; a little of that is put up with.
_UNKNOWN_SHARE = 0.05


@dataclass(frozen=True)
class Utilization:
    """Figures of one device, one entry per window; NaN where not recorded.

    `rounded` is how often a kernel entered an occupancy with a recorded value of whole percent.
    """

    length_ns: Array
    union_ns: Array
    utilization_pct: Array
    sm_efficiency_pct: Array
    occupancy_pct: Array
    rounded: int

    @property
    def columns(self) -> tuple[Array, Array, Array, Array, Array]:
        """Return the figures, in order."""
        return (
            self.length_ns,
            self.union_ns,
            self.utilization_pct,
            self.sm_efficiency_pct,
            self.occupancy_pct,
        )


@dataclass(frozen=True)
class KernelFill:
    """The kernels of a device that have a length, in the order of their starts, and how they fill it.

    `row` is the place in the kernels' table, `blocks` the size of the grid and `occupancy` a share (0..1)
    of the warps, `resident` the blocks that an SM holds at once; NaN where not recorded. `rounded`: its
    occupancy is a recorded value of whole percent.
    """

    row: Array
    start: Array
    end: Array
    blocks: Array
    occupancy: Array
    rounded: Array
    resident: Array


def utilization(
    timeline: Timeline, device: int, low: Array, high: Array, within: Window | None = None
) -> Utilization:
    """Return how far the kernels of a device fill each window [low, high), or what of it is `within`."""
    within = within or Window(int(low.min(initial=0)), int(high.max(initial=0)))
    kernels = kernel_fill(timeline, device)
    ops = timeline.ops_on(device)
    graphs = ops.timed & (ops.kind == OpKind.GRAPH)
    starts, ends = ops.start[graphs], ops.end[graphs]
    work = union(np.concatenate((kernels.start, starts)), np.concatenate((kernels.end, ends)))
    union_ns, lengths = within.added(work.covered, low, high), within.lengths(low, high)
    length = np.where(lengths > 0, lengths, np.nan)
    # Like in every statistic, what intersects a window counts whole; only unions and integrals are cut.
    (hidden,) = intersecting_sums(starts, ends, (ends - starts)[np.newaxis], low, high)
    dur = kernels.end - kernels.start
    weighted = np.nan_to_num(kernels.occupancy) * dur
    no_blocks, no_occupancy = np.isnan(kernels.blocks), np.isnan(kernels.occupancy)
    rows = np.array((dur, no_blocks, no_occupancy, weighted, kernels.rounded), float)
    found = intersecting_sums(kernels.start, kernels.end, rows, low, high)
    spent, no_blocks, no_occupancy, weighted, rounded = found
    enough = hidden <= _UNKNOWN_SHARE * spent
    multiprocessors = sm_count(timeline, device)
    occupied = enough & (no_occupancy == 0) & (spent > 0)
    efficiency = np.full(len(low), np.nan)
    if multiprocessors is not None:
        blocks = np.minimum(np.nan_to_num(kernels.blocks), multiprocessors).astype(np.int64)
        filled = capped_sum(kernels.start, kernels.end, blocks, multiprocessors)
        known = enough & (no_blocks == 0)
        whole = multiprocessors * length
        efficiency = np.where(
            known, percent(within.added(filled.integral, low, high), whole), np.nan
        )
    return Utilization(
        lengths,
        union_ns,
        percent(union_ns, length),
        efficiency,
        np.where(occupied, percent(weighted, np.where(occupied, spent, 1.0)), np.nan),
        int(rounded[occupied].sum()),
    )


@cached
def kernel_fill(timeline: Timeline, device: int, shortest_ns: int = 1) -> KernelFill:
    """Return how the kernels of a device that are not shorter fill it."""
    ops = timeline.ops_on(device)
    mine = np.flatnonzero((ops.kind == OpKind.KERNEL) & lasting(ops.start, ops.end, shortest_ns))
    rows = ops.row[mine]
    names = (*GRID, *BLOCK, *SHARED, *_OTHER)
    read = timeline.profile.columns("kernel", names)
    # Millions of launches have a few sizes.
    size, found = factorize(*(take(read[name], rows) for name in names))
    column = dict(zip(names, found, strict=True))
    blocks = _product(*(column[name] for name in GRID))
    threads = _product(*(column[name] for name in BLOCK))
    threads = np.where(np.isnan(threads) | (threads > 1 << 20), MISSING, threads).astype(np.int64)
    recorded = column["occupancy_pct"]
    rounded = np.where(recorded == MISSING, np.nan, recorded / 100.0)
    occupancy = np.full(len(recorded), np.nan)
    held = np.full(len(recorded), np.nan)
    sm, multiprocessors = sm_of(timeline, device), sm_count(timeline, device)
    if sm is not None and multiprocessors is not None:
        resident = resident_blocks(
            sm, threads, column["registers_per_thread"], shared_memory(column)
        )
        occupancy = achieved(sm, threads, resident, blocks / multiprocessors)
        held = np.where(resident == MISSING, np.nan, resident)
    fallback = np.isnan(occupancy) & ~np.isnan(rounded)
    occupancy = np.where(fallback, rounded, occupancy)
    fills = (take(values, size) for values in (blocks, occupancy, fallback, held))
    return KernelFill(rows, ops.start[mine], ops.end[mine], *fills)


def _product(*columns: Array) -> Array:
    result = np.ones(len(columns[0]))
    for column in columns:
        result = result * np.where(column > 0, column, np.nan)
    return result


def shared_memory(column: Mapping[str, Array]) -> Array:
    """Return the shared memory of a block: recorded as one number, else its two kinds together."""
    one, static, dynamic = (column[name].astype(np.int64) for name in SHARED)
    both = (static != MISSING) & (dynamic != MISSING)
    two = np.where(both, static + dynamic, MISSING)
    return np.where(one == MISSING, two, one)


@cached_small
def _devices_by_id(timeline: Timeline) -> dict[int, dict[str, Any]]:
    return {row["device_id"]: row for row in timeline.profile.rows("device")}


def sm_count(timeline: Timeline, device: int) -> int | None:
    """Return how many SMs the device has; None: not recorded."""
    count = _devices_by_id(timeline).get(device, {}).get("sm_count")
    return int(count) if count else None


def compute_capability(timeline: Timeline, device: int) -> tuple[int, int] | None:
    """Return the device's compute capability, major and minor; None: not recorded."""
    row = _devices_by_id(timeline).get(device, {})
    major, minor = row.get("compute_major"), row.get("compute_minor")
    return None if major is None else (int(major), int(minor or 0))


def device_name(timeline: Timeline, device: int) -> str | None:
    """Return the name of the device's model; None: not recorded."""
    name = _devices_by_id(timeline).get(device, {}).get("name")
    return str(name) if name else None


def sm_of(timeline: Timeline, device: int) -> Sm | None:
    """Return the device's SM; None: CUDA's rule does not apply to it, or its model is not known."""
    row = _devices_by_id(timeline).get(device, {})
    major, minor = row.get("compute_major"), row.get("compute_minor")
    sm = sms().get(f"{major}.{minor}")
    # GPUs of other makers number their architectures as well; their warps distinguish them.
    if sm is None or row.get("max_warps_per_sm") not in (None, sm.warps):
        return None
    return sm
