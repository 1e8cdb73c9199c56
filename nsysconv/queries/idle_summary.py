"""Idle time by the length of the gaps, and whose it was."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import DEVICE, PROFILE, RANK, WINDOW, Answer, Option, Request
from nsysconv.queries.per_step import per_step, with_sums_per_step
from nsysconv.report import MISSING, Column, Picture
from nsysconv.timeline.arrays import blocks, counts, decade, number, sums
from nsysconv.timeline.idle import PARTS, Gaps, gaps, parts, stream_label
from nsysconv.timeline.steps import STEP_FACTS
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

TITLE = "Idle time by length of the gaps and cause"
NEEDS = frozenset({Fact.KERNELS})
USES = frozenset({Fact.API_LINKS, Fact.DEVICES, Fact.OVERHEAD}) | STEP_FACTS
PART_DOCS = {
    "host": "before the launching call began",
    "launch": "while that call ran",
    "queue": "after it had returned",
    "migration": "ended by a migration of unified memory",
    "profiler": "while the profiler itself was at work in the process",
    "unknown": "no API call is recorded for what ended the gap",
    "end": "nothing of the kind follows in the window",
}
KIND = Column(
    "kind",
    Unit.TEXT,
    "no_op: no GPU operation; no_kernel: no kernel or graph; stream: none of one stream. " + WINDOW,
    key=True,
)
STREAM = Column(
    "stream",
    Unit.TEXT,
    "The stream, for kind stream; `@` its process where a device has several.",
    key=True,
)
TOTALS: frozenset[Fact] = frozenset()
OPTIONS: tuple[Option, ...] = ()
COLUMNS = (
    PROFILE,
    RANK,
    DEVICE,
    KIND,
    STREAM,
    Column(
        "bucket_min_ns",
        Unit.NS,
        "Gaps of at least this length and less than the next bucket's (0, 1,000, 10,000, …).",
        key=True,
    ),
    Column("gap_count", Unit.COUNT, "Gaps.", better="less"),
    Column("gap_sum_ns", Unit.NS, "Their length together.", better="less", counted_by="gap_count"),
    per_step("per_step_ns", "gap_sum_ns"),
    *(
        Column(
            f"{part}_sum_ns",
            Unit.NS,
            f"Part of it: {PART_DOCS[part]}.",
            better="less",
            brief=part in ("host", "launch", "queue"),
            adds=True,
        )
        for part in PARTS
    ),
)
PICTURE = Picture(
    "histogram",
    x=("bucket_min_ns",),
    values=tuple(f"{part}_sum_ns" for part in PARTS),
    by=("rank", "device_id", "kind", "stream"),
)


def compute(timeline: Timeline, request: Request) -> Answer:
    """One row per device, kind, stream and bucket with gaps."""
    names = [column.name for column in COLUMNS[1:] if not column.optional]
    rows: dict[str, list[Any]] = {name: [] for name in names}
    for kind in request.idle_kinds:
        for found in gaps(timeline, kind):
            _add(rows, timeline, found)
    return with_sums_per_step(rows, timeline, request, {"per_step_ns": "gap_sum_ns"})


def _add(rows: dict[str, list[Any]], timeline: Timeline, found: Gaps) -> None:
    group, (bucket,) = number(decade(found.dur))
    count = len(bucket)
    rows["bucket_min_ns"] += bucket.tolist()
    rows["gap_count"] += counts(group, count).tolist()
    rows["gap_sum_ns"] += sums(group, found.dur, count).tolist()
    in_parts = np.zeros((len(PARTS), count), np.int64)
    for block in blocks(len(found)):
        for place, spent in enumerate(parts(timeline, found.take(block))):
            in_parts[place] += sums(group[block], spent, count)
    for part, spent in zip(PARTS, in_parts.tolist(), strict=True):
        rows[f"{part}_sum_ns"] += spent
    for name, value in identity(timeline, found).items():
        rows[name] += [value] * count


def identity(timeline: Timeline, found: Gaps) -> dict[str, object]:
    """What the rows of one device, kind and stream share."""
    pids = timeline.pids_on(found.device)
    processes = len(pids) if found.stream is not None else 1
    return {
        "rank": timeline.rank_of(pids),
        "device_id": None if found.device == MISSING else found.device,
        "kind": found.kind,
        "stream": stream_label(found.stream, processes),
    }
