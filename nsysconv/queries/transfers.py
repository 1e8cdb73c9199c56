"""Bytes and time of copies, by device, direction and memory kind at both ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    BY_DEVICE,
    direction_code,
    direction_codes,
    direction_names,
    key_column,
    memory_kind_names,
    per_step,
    ranks_by_group,
    rows_at,
    sum_column,
    with_per_step,
)
from nsysconv.queries.contract import Array, ColumnValues, Query, Request, Result
from nsysconv.report import MISSING, Column, Picture
from nsysconv.timeline.arrays import factorize, grouped_statistics
from nsysconv.timeline.steps import STEP_FACTS
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import (
    MEMCPY,
    MIGRATION,
    CombinedTotal,
    combine_by,
    device_order,
    rank_of,
    totals,
)
from nsysconv.units import Unit

COLUMNS = (
    *BY_DEVICE,
    Column("peer_device_id", Unit.ID, "The other device of a peer copy.", key=True),
    key_column("direction", "From where to where; `UM ` marks migrations of unified memory."),
    key_column("src_kind", "Kind of memory read; null: not recorded."),
    key_column("dst_kind", "Kind of memory written; null: not recorded."),
    Column("memcpy_count", Unit.COUNT, "Copies."),
    sum_column("bytes_sum", "Bytes copied.", "memcpy_count", unit=Unit.BYTES),
    per_step("bytes_per_step", "bytes_sum"),
    Column("bytes_avg", Unit.BYTES, "Mean size.", real=True, brief=False),
    Column("bytes_med", Unit.BYTES, "Median size.", real=True, brief=False),
    Column("bytes_min", Unit.BYTES, "Smallest.", brief=False),
    Column("bytes_max", Unit.BYTES, "Largest.", brief=False),
    sum_column("memcpy_sum_ns", "Sum of the copies' durations.", "memcpy_count"),
    per_step("per_step_ns", "memcpy_sum_ns"),
    Column(
        "throughput_bytes_per_s",
        Unit.BYTES_PER_S,
        "Sum of bytes over sum of durations; null where no time passed.",
        better="more",
    ),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per device, peer, direction and kinds; most bytes first within a device."""
    recorded = Fact.MEMCPYS in timeline.profile.facts
    values = _from_events(timeline) if recorded else _from_totals(timeline)
    sums = {"bytes_per_step": "bytes_sum", "per_step_ns": "memcpy_sum_ns"}
    return with_per_step(values, timeline, request, sums)


TRANSFERS = Query(
    title="Transfers by direction and memory kind",
    needs={Fact.MEMCPYS},
    uses={Fact.UNIFIED_MEMORY, Fact.DEVICES, Fact.UNIFIED_MEMORY_TOTALS, *STEP_FACTS},
    totals={Fact.MEMORY_TOTALS},
    columns=COLUMNS,
    picture=Picture(
        "bars",
        x=("direction", "peer_device_id", "src_kind", "dst_kind"),
        values=("bytes_sum",),
        by=("rank", "device_id"),
    ),
    compute=compute,
)


@dataclass(frozen=True)
class Copies:
    """Columns of equal length. `direction` numbers what `direction_names` spells."""

    device: Array
    peer: Array
    direction: Array
    src_kind: Array
    dst_kind: Array
    bytes: Array
    dur: Array
    pid: Array


def all_copies(timeline: Timeline) -> Copies:
    """Return the copies and migrations."""
    shared = ("device_id", "direction", "bytes", "dur_ns", "pid")
    copy = timeline.columns("memcpy", (*shared, "peer_device_id", "src_kind", "dst_kind"))
    migration = timeline.columns("unified_memory_event", shared)
    nothing = np.full(len(migration["pid"]), MISSING)
    directions = direction_codes(migration["direction"], migration=True)

    def both(name: str, other: Array | None = None) -> Array:
        return np.concatenate((copy[name], migration[name] if other is None else other))

    return Copies(
        device=both("device_id"),
        peer=both("peer_device_id", nothing),
        direction=both("direction", directions),
        src_kind=both("src_kind", nothing),
        dst_kind=both("dst_kind", nothing),
        bytes=both("bytes"),
        dur=both("dur_ns"),
        pid=both("pid"),
    )


def _from_events(timeline: Timeline) -> ColumnValues:
    copies = all_copies(timeline)
    group, (device, peer, direction, src, dst) = factorize(
        copies.device, copies.peer, copies.direction, copies.src_kind, copies.dst_kind
    )
    count = len(device)
    sizes = grouped_statistics(group, copies.bytes, count)
    times = grouped_statistics(group, copies.dur, count)
    with np.errstate(invalid="ignore", divide="ignore"):
        throughput = np.where(
            (times.total > 0) & (sizes.total != MISSING), sizes.total * 1e9 / times.total, np.nan
        )
    values = {
        "rank": ranks_by_group(timeline, copies.pid, group, count),
        "device_id": device,
        "peer_device_id": peer,
        "direction": direction_names(direction),
        "src_kind": memory_kind_names(src),
        "dst_kind": memory_kind_names(dst),
        "memcpy_count": sizes.count,
        "bytes_sum": sizes.total,
        "bytes_avg": sizes.mean,
        "bytes_med": sizes.median,
        "bytes_min": sizes.minimum,
        "bytes_max": sizes.maximum,
        "memcpy_sum_ns": times.total,
        "throughput_bytes_per_s": throughput,
    }
    return rows_at(values, np.lexsort((direction, -np.maximum(sizes.total, 0), device)))


def _from_totals(timeline: Timeline) -> ColumnValues:
    """Return the values from totals, which have no kinds of memory and, of copies, no bytes."""
    by_direction = combine_by(
        totals(timeline, MEMCPY, MIGRATION),
        lambda total: (
            device_order(total.device_id),
            direction_code(total.direction, migration=total.kind == MIGRATION),
        ),
    )
    rows = sorted(
        by_direction.items(),
        key=lambda item: (item[0][0], -(item[1].bytes_sum or 0), item[0][1]),
    )
    sums = [copies for _, copies in rows]
    figures = ("bytes_sum", "bytes_avg", "bytes_min", "bytes_max")
    return {
        "rank": [rank_of(timeline, copies) for copies in sums],
        "device_id": [device for (device, _), _ in rows],
        "direction": direction_names(np.array([code for (_, code), _ in rows], np.int64)),
        "memcpy_count": [copies.count for copies in sums],
        **{name: [getattr(copies, name) for copies in sums] for name in figures},
        "memcpy_sum_ns": [copies.sum_ns for copies in sums],
        "throughput_bytes_per_s": [_throughput(copies) for copies in sums],
        **dict.fromkeys(
            ("peer_device_id", "src_kind", "dst_kind", "bytes_med"), [None] * len(sums)
        ),
    }


def _throughput(copies: CombinedTotal) -> float | None:
    if copies.bytes_sum is None or not copies.sum_ns:
        return None
    return copies.bytes_sum * 1e9 / copies.sum_ns
