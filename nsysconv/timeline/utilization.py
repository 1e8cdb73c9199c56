"""How far kernels fill a device: utilisation, SM efficiency and occupancy, as far as a profile tells.

Definitions, with worked examples: docs/definitions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.intervals import capped_sum, intersecting_sums, union
from nsysconv.timeline.occupancy import SMS, Sm, achieved, resident_blocks
from nsysconv.timeline.ops import Kind
from nsysconv.timeline.statistics import percent
from nsysconv.timeline.timeline import Timeline, cached, cached_small

Array = np.ndarray

_GRID = ("grid_x", "grid_y", "grid_z")
_BLOCK = ("block_x", "block_y", "block_z")
_SHARED = ("shared_bytes", "static_shared_bytes", "dynamic_shared_bytes")
_OTHER = ("registers_per_thread", "occupancy_pct")

# Graphs recorded as one interval do not say what ran in them; a little of that is put up with.
_UNKNOWN_SHARE = 0.05


@dataclass(frozen=True)
class Utilization:
    """Figures of one device, one entry per window; NaN where not recorded.

    `rounded` is how often a kernel entered an occupancy with a recorded value of whole percent.
    """

    union_ns: Array
    utilization_pct: Array
    sm_efficiency_pct: Array
    occupancy_pct: Array
    rounded: int

    @property
    def columns(self) -> tuple[Array, Array, Array, Array]:
        """The figures, in order."""
        return self.union_ns, self.utilization_pct, self.sm_efficiency_pct, self.occupancy_pct


@dataclass(frozen=True)
class _Kernels:
    """The kernels of a device that have a length, in the order of their starts.

    `blocks` is the grid and `occupancy` a share (0..1) of the warps; NaN where not recorded.
    """

    start: Array
    end: Array
    blocks: Array
    occupancy: Array
    rounded: Array


def utilization(timeline: Timeline, device: int, low: Array, high: Array) -> Utilization:
    """How far the kernels of a device fill each window [low, high)."""
    kernels = _kernels(timeline, device)
    ops = timeline.ops_on(device)
    graphs = ops.timed & (ops.kind == Kind.GRAPH)
    starts, ends = ops.start[graphs], ops.end[graphs]
    work = union(np.concatenate((kernels.start, starts)), np.concatenate((kernels.end, ends)))
    union_ns = work.covered(low, high)
    length = np.where(high > low, high - low, np.nan)
    # As for every statistic, what intersects a window counts whole; only unions and integrals are cut.
    (hidden,) = intersecting_sums(starts, ends, (ends - starts)[np.newaxis], low, high)
    dur = kernels.end - kernels.start
    rows = (
        dur,
        np.isnan(kernels.blocks),
        np.isnan(kernels.occupancy),
        np.nan_to_num(kernels.occupancy) * dur,
        kernels.rounded,
    )
    found = intersecting_sums(kernels.start, kernels.end, np.array(rows, float), low, high)
    spent, no_blocks, no_occupancy, weighted, rounded = found
    told = hidden <= _UNKNOWN_SHARE * spent
    sm_count = _sm_count(timeline, device)
    occupied = told & (no_occupancy == 0) & (spent > 0)
    efficiency = np.full(len(low), np.nan)
    if sm_count is not None:
        blocks = np.minimum(np.nan_to_num(kernels.blocks), sm_count).astype(np.int64)
        filled = capped_sum(kernels.start, kernels.end, blocks, sm_count).integral(low, high)
        known = told & (no_blocks == 0)
        efficiency = np.where(known, percent(filled, sm_count * length), np.nan)
    return Utilization(
        union_ns,
        percent(union_ns, length),
        efficiency,
        np.where(occupied, percent(weighted, np.where(occupied, spent, 1.0)), np.nan),
        int(rounded[occupied].sum()),
    )


@cached
def _kernels(timeline: Timeline, device: int) -> _Kernels:
    ops = timeline.ops_on(device)
    mine = np.flatnonzero((ops.kind == Kind.KERNEL) & (ops.end > ops.start))
    rows = ops.row[mine]
    names = (*_GRID, *_BLOCK, *_SHARED, *_OTHER)
    column = {k: v[rows] for k, v in timeline.profile.columns("kernel", names).items()}
    blocks = _product(*(column[name] for name in _GRID))
    threads = _product(*(column[name] for name in _BLOCK))
    threads = np.where(np.isnan(threads) | (threads > 1 << 20), MISSING, threads).astype(np.int64)
    recorded = column["occupancy_pct"]
    rounded = np.where(recorded == MISSING, np.nan, recorded / 100.0)
    occupancy = np.full(len(rows), np.nan)
    sm, sm_count = _sm(timeline, device), _sm_count(timeline, device)
    if sm is not None and sm_count is not None:
        resident = resident_blocks(sm, threads, column["registers_per_thread"], _shared(column))
        occupancy = achieved(sm, threads, resident, blocks / sm_count)
    fallback = np.isnan(occupancy) & ~np.isnan(rounded)
    return _Kernels(
        ops.start[mine],
        ops.end[mine],
        blocks,
        np.where(fallback, rounded, occupancy),
        fallback,
    )


def _product(*columns: Array) -> Array:
    """What grids or blocks hold; NaN where one of their sizes is not recorded."""
    result = np.ones(len(columns[0]))
    for column in columns:
        result = result * np.where(column > 0, column, np.nan)
    return result


def _shared(column: dict[str, Array]) -> Array:
    """Shared memory of a block: as one number, else of its two kinds together."""
    one, static, dynamic = (column[name].astype(np.int64) for name in _SHARED)
    both = (static != MISSING) & (dynamic != MISSING)
    two = np.where(both, static + dynamic, MISSING)
    return np.where(one == MISSING, two, one)


@cached_small
def _devices_by_id(timeline: Timeline) -> dict[int, dict[str, Any]]:
    return {row["device_id"]: row for row in timeline.profile.rows("device")}


def _sm_count(timeline: Timeline, device: int) -> int | None:
    count = _devices_by_id(timeline).get(device, {}).get("sm_count")
    return int(count) if count else None


def _sm(timeline: Timeline, device: int) -> Sm | None:
    """The device's SM; None where CUDA's rule does not hold for it, or nobody says what it is."""
    row = _devices_by_id(timeline).get(device, {})
    major, minor = row.get("compute_major"), row.get("compute_minor")
    sm = None if major is None or minor is None else SMS.get((major, minor))
    # GPUs of other makers number their architectures as well; their warps tell them apart.
    if sm is None or row.get("max_warps_per_sm") not in (None, sm.warps):
        return None
    return sm
