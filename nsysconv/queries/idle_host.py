"""What the host did while a device waited for it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import BY_DEVICE, HOST_FACTS, WINDOW, key_column, sum_column
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.values import gap_keys, values_by_column
from nsysconv.report import Column, Picture
from nsysconv.timeline import idle
from nsysconv.timeline.arrays import counts, distinct, factorize, sums
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

K = TypeVar("K", bound=Hashable)

COLUMNS = (
    *BY_DEVICE,
    key_column(
        "activity",
        "What the launching thread was in: its outermost API call (api_call), else its innermost "
        "operator, else directive (a construct of OpenACC or OpenMP), else python_function, else range; "
        "else outside of all.",
    ),
    key_column("name", "Name of the call, operator, construct, function or range."),
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
    activities = idle.host_activity(timeline)
    rows: list[dict[str, Any]] = []
    for device_gaps in idle.gaps(timeline, "no_op"):
        on_thread = idle.drop_threadless_host_parts(timeline, device_gaps)
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
        rows += (
            {**keys, "activity": kind, "name": name, "gap_count": count, "host_sum_ns": total}
            for (kind, name), (count, total) in merged.items()
        )
    rows.sort(key=lambda row: -row["host_sum_ns"])
    return values_by_column(rows, COLUMNS[1:])


IDLE_HOST = Query(
    title="What the host did while the device was idle",
    needs={Fact.KERNELS, Fact.API_LINKS, Fact.THREADS},
    uses=HOST_FACTS,
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


def _without_thread(timeline: Timeline, device_gaps: idle.Gaps) -> dict[tuple[str, str], list[int]]:
    """Return the host parts of gaps that were ended by calls of no recorded thread."""
    hosts = idle.parts(timeline, device_gaps)[idle.PARTS.index("host")]
    hosts = hosts[hosts > 0]
    if not len(hosts):
        return {}
    return {("outside", "[thread not recorded]"): [len(hosts), int(hosts.sum())]}
