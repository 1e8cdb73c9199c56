"""Bytes and time of copies: by direction and memory kind at both ends; and by size."""

from __future__ import annotations

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    count_column,
    direction_code,
    direction_codes,
    direction_names,
    key_column,
    memory_kind_names,
    per_step,
    rows_at,
    sum_column,
    with_per_step,
)
from nsysconv.queries.contract import Array, ColumnValues, Query, Request, Result
from nsysconv.queries.split import (
    BY_SPLIT,
    place_of_totals,
    place_values,
    split_rows,
    spread_columns,
    spread_of_totals,
)
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import DECADES, bucket_of, grouped_statistics
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import MEMCPY, MIGRATION, CombinedTotal, Total, combine_by, totals

_DIRECTION = key_column(
    "direction", "Direction of the copy, such as HtoD; `UM ` marks unified-memory page migrations."
)
COLUMNS = (
    *BY_SPLIT,
    Column(
        "peer_device_id",
        Unit.ID,
        "Other device of a peer-to-peer copy; only with `--split device`, else null.",
        key=True,
        optional=True,
    ),
    _DIRECTION,
    key_column("src_kind", "Kind of memory read; null: not recorded."),
    key_column("dst_kind", "Kind of memory written; null: not recorded."),
    count_column("memcpy_count", "Number of copies."),
    sum_column("bytes_sum", "Total bytes copied.", "memcpy_count", unit=Unit.BYTES),
    per_step("bytes_per_step", "bytes_sum"),
    Column("bytes_avg", Unit.BYTES, "Mean copy size.", real=True, brief=False),
    Column("bytes_med", Unit.BYTES, "Median copy size.", real=True, brief=False),
    Column("bytes_min", Unit.BYTES, "Smallest copy.", brief=False),
    Column("bytes_max", Unit.BYTES, "Largest copy.", brief=False),
    sum_column("memcpy_sum_ns", "Total duration of the copies.", "memcpy_count"),
    per_step("per_step_ns", "memcpy_sum_ns"),
    Column(
        "throughput_bytes_per_s",
        Unit.BYTES_PER_S,
        "Total bytes divided by total duration; null: the duration is zero.",
        better="more",
    ),
    *spread_columns("bytes_sum", Unit.BYTES),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per direction and kinds, most bytes first; split by device, also per peer, and by
    device first.
    """
    recorded = Fact.MEMCPYS in timeline.profile.facts
    values = (_from_events if recorded else _from_totals)(timeline, request.split)
    sums = {"bytes_per_step": "bytes_sum", "per_step_ns": "memcpy_sum_ns"}
    return with_per_step(values, timeline, request, sums)


TRANSFERS = Query(columns=COLUMNS, compute=compute)


def _all_copies(timeline: Timeline) -> dict[str, Array]:
    """Return the columns of copies and migrations; `direction` numbers what `direction_names` spells."""
    shared = ("device_id", "direction", "bytes", "dur_ns", "pid")
    copies = timeline.columns("memcpy", (*shared, "peer_device_id", "src_kind", "dst_kind"))
    migrations = {**timeline.columns("unified_memory_event", shared)}
    migrations["direction"] = direction_codes(migrations["direction"], migration=True)
    nothing = np.full(len(migrations["pid"]), MISSING)
    return {
        name: np.concatenate((column, migrations.get(name, nothing)))
        for name, column in copies.items()
    }


def _from_events(timeline: Timeline, split: str | None) -> ColumnValues:
    copies = _all_copies(timeline)
    peers = copies["peer_device_id"]
    if split != "device":
        peers = np.broadcast_to(np.int64(MISSING), len(peers))
    kinds = (copies[key] for key in ("direction", "src_kind", "dst_kind"))
    rows = split_rows(timeline, split, copies["device_id"], copies["pid"], peers, *kinds)
    (peer, direction, src, dst), group, count = rows.keys, rows.row, len(rows)
    sizes = grouped_statistics(group, copies["bytes"], count)
    times = grouped_statistics(group, copies["dur_ns"], count)
    with np.errstate(invalid="ignore", divide="ignore"):
        throughput = np.where(
            (times.total > 0) & (sizes.total != MISSING), sizes.total * 1e9 / times.total, np.nan
        )
    values = {
        "rank": rows.rank,
        "device_id": rows.device_id,
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
        **rows.spread(copies["bytes"], Unit.BYTES),
    }
    return rows_at(values, np.lexsort((direction, -np.maximum(sizes.total, 0), rows.place)))


def _from_totals(timeline: Timeline, split: str | None) -> ColumnValues:
    """Return the values from totals, which have no kinds of memory and, of copies, no bytes."""
    found, place = totals(timeline, MEMCPY, MIGRATION), place_of_totals(timeline, split)

    def row_of(total: Total) -> tuple[int, int]:
        return place(total), direction_code(total.direction, migration=total.kind == MIGRATION)

    by_row = combine_by(found, row_of)
    rows = sorted(by_row, key=lambda row: (row[0], -(by_row[row].bytes_sum or 0), row[1]))
    sums = [by_row[row] for row in rows]
    figures = ("bytes_sum", "bytes_avg", "bytes_min", "bytes_max")
    return {
        **place_values(timeline, split, [place for place, _ in rows], sums),
        "direction": direction_names(np.array([code for _, code in rows], np.int64)),
        "memcpy_count": [copies.count for copies in sums],
        **{name: [getattr(copies, name) for copies in sums] for name in figures},
        "memcpy_sum_ns": [copies.sum_ns for copies in sums],
        "throughput_bytes_per_s": [_throughput(copies) for copies in sums],
        **dict.fromkeys(
            ("peer_device_id", "src_kind", "dst_kind", "bytes_med"), [None] * len(sums)
        ),
        **spread_of_totals(found, row_of, rows, "bytes_sum", Unit.BYTES),
    }


def _throughput(copies: CombinedTotal) -> float | None:
    if copies.bytes_sum is None or not copies.sum_ns:
        return None
    return copies.bytes_sum * 1e9 / copies.sum_ns


# -- by size

_SIZE_COLUMNS = (
    *BY_SPLIT,
    _DIRECTION,
    Column(
        "bucket_min_bytes",
        Unit.BYTES,
        "Lower limit of the bucket: copies of at least this size and below the next bucket (0, "
        "1,000, 10,000, …).",
        key=True,
    ),
    count_column("memcpy_count", "Number of copies."),
    sum_column("bytes_sum", "Total bytes copied.", "memcpy_count", unit=Unit.BYTES),
    sum_column("memcpy_sum_ns", "Sum of their durations.", "memcpy_count"),
    *spread_columns("bytes_sum", Unit.BYTES),
)


def _sizes(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per direction and bucket with copies, by size."""
    copies = _all_copies(timeline)
    keys = copies["direction"], bucket_of(copies["bytes"], DECADES)
    rows = split_rows(timeline, request.split, copies["device_id"], copies["pid"], *keys)
    (direction, bucket), group, count = rows.keys, rows.row, len(rows)
    sizes = grouped_statistics(group, copies["bytes"], count)
    times = grouped_statistics(group, copies["dur_ns"], count)
    return {
        "rank": rows.rank,
        "device_id": rows.device_id,
        "direction": direction_names(direction),
        "bucket_min_bytes": np.where(bucket < 0, MISSING, DECADES[bucket]),
        "memcpy_count": sizes.count,
        "bytes_sum": sizes.total,
        "memcpy_sum_ns": times.total,
        **rows.spread(copies["bytes"], Unit.BYTES),
    }


TRANSFER_SIZES = Query(columns=_SIZE_COLUMNS, compute=_sizes)
