"""What the host did while a device waited for it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import DEVICE, PROFILE, RANK, WINDOW, gap_keys
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.report import Column, Picture
from nsysconv.timeline.arrays import counts, distinct, factorize, sums
from nsysconv.timeline.idle import (
    PARTS,
    Gaps,
    drop_threadless_host_parts,
    gaps,
    host_activity,
    parts,
)
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

K = TypeVar("K", bound=Hashable)

COLUMNS = (
    PROFILE,
    RANK,
    DEVICE,
    Column(
        "activity",
        Unit.TEXT,
        "What the launching thread was in: its outermost API call (api_call), else its innermost "
        "operator, else directive (a construct of OpenACC or OpenMP), else python_function, else range; "
        "else outside of all.",
        key=True,
    ),
    Column(
        "name", Unit.TEXT, "Name of the call, operator, construct, function or range.", key=True
    ),
    Column(
        "gap_count",
        Unit.COUNT,
        "Gaps without any GPU operation in whose host part it occurs. " + WINDOW,
        better="less",
    ),
    Column(
        "host_sum_ns",
        Unit.NS,
        "Its share of those host parts.",
        better="less",
        counted_by="gap_count",
    ),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per device, activity and name, most time first. Sums to the host part of the gaps."""
    doing = host_activity(timeline)
    rows: list[dict[str, object]] = []
    for found in gaps(timeline, "no_op"):
        told = drop_threadless_host_parts(timeline, found)
        by_label: dict[int, list[int]] = {}
        for pieces in doing.split(told):
            place, (labels,) = factorize(pieces.label)
            times = sums(place, pieces.time, len(labels))
            # A gap counts once for a label, however many pieces of it bear the label.
            pairs = distinct(place.astype(np.int64) * len(told) + pieces.gap)
            gap_counts = counts(pairs // len(told), len(labels))
            _add(by_label, zip(labels.tolist(), gap_counts.tolist(), times.tolist(), strict=True))
        shared = gap_keys(timeline, found)
        merged: dict[tuple[str, str], list[int]] = {}
        for label, (count, time) in sorted(by_label.items()):
            _add(merged, [(doing.name(label), count, time)])
        merged.update(_of_no_thread(timeline, found.take(found.host_end > told.host_end)))
        for (what, name), (count, total) in merged.items():
            rows.append(
                {
                    "rank": shared["rank"],
                    "device_id": shared["device_id"],
                    "activity": what,
                    "name": name,
                    "gap_count": count,
                    "host_sum_ns": total,
                }
            )
    rows.sort(key=lambda row: -int(str(row["host_sum_ns"])))
    return {column.name: [row[column.name] for row in rows] for column in COLUMNS[1:]}


IDLE_HOST = Query(
    title="What the host did while the device was idle",
    needs={Fact.KERNELS, Fact.API_LINKS, Fact.THREADS},
    uses={
        Fact.OPERATORS,
        Fact.DIRECTIVES,
        Fact.PYTHON_FUNCTIONS,
        Fact.RANGES,
        Fact.DEVICES,
        Fact.OVERHEAD,
    },
    columns=COLUMNS,
    picture=Picture(
        "bars", x=("activity", "name"), values=("host_sum_ns",), by=("rank", "device_id")
    ),
    compute=compute,
)


def _add(sums_of: dict[K, list[int]], more: Iterable[tuple[K, int, int]]) -> None:
    """Adds counts and times to those of their keys."""
    for key, count, time in more:
        entry = sums_of.setdefault(key, [0, 0])
        entry[0] += count
        entry[1] += time


def _of_no_thread(timeline: Timeline, found: Gaps) -> dict[tuple[str, str], list[int]]:
    """The host parts of gaps ended by calls of which no thread is recorded: what was done is not told."""
    hosts = parts(timeline, found)[PARTS.index("host")]
    hosts = hosts[hosts > 0]
    if not len(hosts):
        return {}
    return {("outside", "[thread not recorded]"): [len(hosts), int(hosts.sum())]}
