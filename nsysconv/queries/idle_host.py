"""What the host did while a device waited for it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import BY_DEVICE, WINDOW, gap_keys, sum_column, values_by_column
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
    *BY_DEVICE,
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
    sum_column("host_sum_ns", "Its share of those host parts.", "gap_count"),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per device, activity and name, most time first: all host parts of the gaps."""
    activities = host_activity(timeline)
    rows: list[dict[str, object]] = []
    for device_gaps in gaps(timeline, "no_op"):
        on_thread = drop_threadless_host_parts(timeline, device_gaps)
        by_label: dict[int, list[int]] = {}
        for pieces in activities.split(on_thread):
            label_number, (labels,) = factorize(pieces.label)
            times = sums(label_number, pieces.time, len(labels))
            # A gap counts once for a label, however many pieces of it bear the label.
            pairs = distinct(label_number.astype(np.int64) * len(on_thread) + pieces.gap)
            gap_counts = counts(pairs // len(on_thread), len(labels))
            _add(by_label, zip(labels.tolist(), gap_counts.tolist(), times.tolist(), strict=True))
        keys = gap_keys(timeline, device_gaps)
        merged: dict[tuple[str, str], list[int]] = {}
        for label, (count, time) in sorted(by_label.items()):
            _add(merged, [(activities.name(label), count, time)])
        merged.update(
            _without_thread(timeline, device_gaps.take(device_gaps.host_end > on_thread.host_end))
        )
        for (kind, name), (count, total) in merged.items():
            rows.append(
                {
                    "rank": keys["rank"],
                    "device_id": keys["device_id"],
                    "activity": kind,
                    "name": name,
                    "gap_count": count,
                    "host_sum_ns": total,
                }
            )
    rows.sort(key=lambda row: -int(str(row["host_sum_ns"])))
    return values_by_column(rows, COLUMNS[1:])


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


def _add(totals: dict[K, list[int]], entries: Iterable[tuple[K, int, int]]) -> None:
    for key, count, time in entries:
        entry = totals.setdefault(key, [0, 0])
        entry[0] += count
        entry[1] += time


def _without_thread(timeline: Timeline, device_gaps: Gaps) -> dict[tuple[str, str], list[int]]:
    """Return the host parts of gaps that were ended by calls of no recorded thread."""
    hosts = parts(timeline, device_gaps)[PARTS.index("host")]
    hosts = hosts[hosts > 0]
    if not len(hosts):
        return {}
    return {("outside", "[thread not recorded]"): [len(hosts), int(hosts.sum())]}
