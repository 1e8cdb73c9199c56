"""How large the copies are: a distribution by powers of ten."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    BY_DEVICE,
    direction_names,
    key_column,
    ranks_by_group,
    sum_column,
)
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.transfers import all_copies
from nsysconv.report import Column, Picture
from nsysconv.timeline.arrays import decade, factorize, grouped_statistics
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    *BY_DEVICE,
    key_column("direction", "From where to where; `UM ` marks migrations of unified memory."),
    Column(
        "bucket_min_bytes",
        Unit.BYTES,
        "Copies of at least this size and less than the next bucket's (0, 1,000, 10,000, …).",
        key=True,
    ),
    Column("memcpy_count", Unit.COUNT, "Copies."),
    sum_column("bytes_sum", "Bytes copied.", "memcpy_count", unit=Unit.BYTES),
    sum_column("memcpy_sum_ns", "Sum of their durations.", "memcpy_count"),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per device, direction and bucket with copies, by size."""
    copies = all_copies(timeline)
    group, (device, direction, bucket) = factorize(
        copies.device, copies.direction, decade(copies.bytes)
    )
    count = len(device)
    sizes = grouped_statistics(group, copies.bytes, count)
    times = grouped_statistics(group, copies.dur, count)
    return {
        "rank": ranks_by_group(timeline, copies.pid, group, count),
        "device_id": device,
        "direction": direction_names(direction),
        "bucket_min_bytes": bucket,
        "memcpy_count": sizes.count,
        "bytes_sum": sizes.total,
        "memcpy_sum_ns": times.total,
    }


TRANSFER_SIZES = Query(
    title="Transfers by size",
    needs={Fact.MEMCPYS},
    uses={Fact.UNIFIED_MEMORY, Fact.DEVICES},
    columns=COLUMNS,
    picture=Picture(
        "histogram",
        x=("bucket_min_bytes",),
        values=("bytes_sum",),
        by=("rank", "device_id", "direction"),
    ),
    compute=compute,
)
