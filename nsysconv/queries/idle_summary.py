"""Idle time by the length of the gaps, and whose it was."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    BY_DEVICE,
    GAP_KIND,
    GAP_PART_DOCS,
    GAP_STREAM,
    duration_column,
    per_step,
    sum_column,
)
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.queries.values import gap_keys, with_per_step
from nsysconv.report import Column, Picture
from nsysconv.timeline import idle
from nsysconv.timeline.arrays import blocks, counts, decade, factorize, sums
from nsysconv.timeline.steps import STEP_FACTS
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    *BY_DEVICE,
    GAP_KIND,
    GAP_STREAM,
    Column(
        "bucket_min_ns",
        Unit.NS,
        "Gaps of at least this length and less than the next bucket's (0, 1,000, 10,000, …).",
        key=True,
    ),
    Column("gap_count", Unit.COUNT, "Gaps.", better="less"),
    sum_column("gap_sum_ns", "Their length together.", "gap_count"),
    per_step("per_step_ns", "gap_sum_ns"),
    *(
        duration_column(
            f"{part}_sum_ns",
            f"Part of it: {GAP_PART_DOCS[part]}.",
            brief=part in ("host", "launch", "queue"),
            adds=True,
        )
        for part in idle.PARTS
    ),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per device, kind, stream and bucket with gaps."""
    names = [column.name for column in COLUMNS[1:] if not column.optional]
    rows: dict[str, list[Any]] = {name: [] for name in names}
    for kind in request.idle_kinds:
        for device_gaps in idle.gaps(timeline, kind):
            _add(rows, timeline, device_gaps)
    return with_per_step(rows, timeline, request, {"per_step_ns": "gap_sum_ns"})


IDLE_SUMMARY = Query(
    title="Idle time by length of the gaps and cause",
    needs={Fact.KERNELS},
    uses={Fact.API_LINKS, Fact.DEVICES, Fact.OVERHEAD, *STEP_FACTS},
    columns=COLUMNS,
    picture=Picture(
        "histogram",
        x=("bucket_min_ns",),
        values=tuple(f"{part}_sum_ns" for part in idle.PARTS),
        by=("rank", "device_id", "kind", "stream"),
    ),
    compute=compute,
)


def _add(rows: dict[str, list[Any]], timeline: Timeline, device_gaps: idle.Gaps) -> None:
    group, (bucket,) = factorize(decade(device_gaps.dur))
    count = len(bucket)
    rows["bucket_min_ns"] += bucket.tolist()
    rows["gap_count"] += counts(group, count).tolist()
    rows["gap_sum_ns"] += sums(group, device_gaps.dur, count).tolist()
    in_parts = np.zeros((len(idle.PARTS), count), np.int64)
    for block in blocks(len(device_gaps)):
        for place, spent in enumerate(idle.parts(timeline, device_gaps.take(block))):
            in_parts[place] += sums(group[block], spent, count)
    for part, spent in zip(idle.PARTS, in_parts.tolist(), strict=True):
        rows[f"{part}_sum_ns"] += spent
    for name, value in gap_keys(timeline, device_gaps).items():
        rows[name] += [value] * count
