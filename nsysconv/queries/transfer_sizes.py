"""How large the copies are: a distribution by powers of ten."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import DEVICE, PROFILE, RANK, Data, Option, Request, ranks_by_group
from nsysconv.queries.copies import direction_names, moved
from nsysconv.report import Column, Picture
from nsysconv.timeline.arrays import decade, grouped_statistics, number
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

TITLE = "Transfers by size"
NEEDS = frozenset({Fact.MEMCPYS})
USES = frozenset({Fact.UNIFIED_MEMORY, Fact.DEVICES})
TOTALS: frozenset[Fact] = frozenset()
OPTIONS: tuple[Option, ...] = ()
COLUMNS = (
    PROFILE,
    RANK,
    DEVICE,
    Column(
        "direction",
        Unit.TEXT,
        "From where to where; `UM ` marks migrations of unified memory.",
        key=True,
    ),
    Column(
        "bucket_min_bytes",
        Unit.BYTES,
        "Copies of at least this size and less than the next bucket's (0, 1,000, 10,000, …).",
        key=True,
    ),
    Column("memcpy_count", Unit.COUNT, "Copies."),
    Column("bytes_sum", Unit.BYTES, "Bytes copied.", better="less", counted_by="memcpy_count"),
    Column(
        "memcpy_sum_ns",
        Unit.NS,
        "Sum of their durations.",
        better="less",
        counted_by="memcpy_count",
    ),
)
PICTURE = Picture(
    "histogram",
    x=("bucket_min_bytes",),
    values=("bytes_sum",),
    by=("rank", "device_id", "direction"),
)


def compute(timeline: Timeline, request: Request) -> Data:
    """One row per device, direction and bucket with copies, by size."""
    copies = moved(timeline)
    group, (device, direction, bucket) = number(
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
