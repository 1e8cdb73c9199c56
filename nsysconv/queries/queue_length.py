"""Number of launches that wait on each stream."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.queries.columns import BY_DEVICE, count_column, duration_column, key_column
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import counts, grouped_statistics, percent
from nsysconv.timeline.idle import stream_label
from nsysconv.timeline.timeline import Queues, Timeline, queues

COLUMNS = (
    *BY_DEVICE,
    key_column(
        "stream", "The stream; followed by `@` and its process if several processes use the device."
    ),
    count_column("launch_count", "Number of calls with a launch latency on the stream."),
    duration_column(
        "span_ns",
        "Time from the first of these calls to the start of the last operation launched by them.",
        brief=False,
    ),
    Column(
        "waiting_avg",
        Unit.REAL,
        "Mean number of waiting launches over that time.",
        better="less",
    ),
    Column(
        "queue_length_avg",
        Unit.REAL,
        "Mean queue length over its changes (two per launch). Like the following columns, it is "
        "not weighted by time.",
        better="less",
    ),
    Column(
        "queue_length_stddev",
        Unit.REAL,
        "Sample standard deviation of the queue lengths.",
        better="less",
        brief=False,
    ),
    count_column("queue_length_min", "Minimum queue length.", better="less", brief=False),
    Column(
        "queue_length_p25",
        Unit.REAL,
        "25th percentile of the queue lengths, interpolated.",
        better="less",
        brief=False,
    ),
    Column("queue_length_med", Unit.REAL, "Median queue length.", better="less"),
    Column(
        "queue_length_p75",
        Unit.REAL,
        "75th percentile of the queue lengths, interpolated.",
        better="less",
        brief=False,
    ),
    count_column("queue_length_max", "Maximum queue length.", better="less"),
    duration_column(
        "full_ns",
        "Time with at least as many waiting launches as the option full.",
        adds=True,
    ),
    Column("full_pct", Unit.PCT, "That time as a share of span_ns.", better="less", brief=False),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per device and stream with launches, in that order.

    Lengths and times are null where the clocks disagree.
    """
    full = request.options["full"]
    if full < 1:
        raise UsageError(f"full={full} of queue_length", hint="It is a number of launches, from 1.")
    queue = queues(timeline)
    count = len(queue.stream)
    changes = counts(queue.group, count)
    used = changes > 0
    first = np.cumsum(changes) - changes
    span, full_ns = np.full(count, MISSING), np.full(count, MISSING)
    span[used] = queue.time[(first + changes - 1)[used]] - queue.time[first[used]]
    full_ns[used] = queue.at_least(full)[used]
    lengths = grouped_statistics(queue.group, queue.length, count)
    low, high = (_quantile(queue, first, changes, share) for share in (0.25, 0.75))
    streams = list(zip(queue.pid.tolist(), queue.stream.tolist(), strict=True))
    processes = Counter(
        d for d, _ in set(zip(queue.device.tolist(), queue.pid.tolist(), strict=True))
    )
    return {
        "rank": [timeline.ranks.get(pid) for pid in queue.pid.tolist()],
        "device_id": queue.device,
        "stream": [
            stream_label(stream, processes[device])
            for stream, device in zip(streams, queue.device.tolist(), strict=True)
        ],
        "launch_count": np.full(count, MISSING) if timeline.clocks_disagree else changes // 2,
        "span_ns": span,
        "waiting_avg": _share(queue.waited, span),
        "queue_length_avg": lengths.mean,
        "queue_length_stddev": lengths.deviation,
        "queue_length_min": lengths.minimum,
        "queue_length_p25": low,
        "queue_length_med": lengths.median,
        "queue_length_p75": high,
        "queue_length_max": lengths.maximum,
        "full_ns": full_ns,
        "full_pct": np.where(span == MISSING, np.nan, percent(full_ns, np.maximum(span, 1))),
    }


QUEUE_LENGTH = Query(
    options=(
        Option(
            "full",
            1024,
            "Number of waiting launches that counts as a full queue. Default: CUDA's limit.",
        ),
    ),
    columns=COLUMNS,
    compute=compute,
)


def _share(part: Array, span: Array) -> Array:
    """Return part / span; 0 of a span without length, NaN where there is none."""
    return np.where(span == MISSING, np.nan, part / np.where(span > 0, span, 1))


def _quantile(queue: Queues, first: Array, changes: Array, share: float) -> Array:
    """Return per stream what that share of the lengths is not above; NaN for a stream without changes.

    Between two lengths it is as far along as the share is between their places.
    """
    ordered = queue.length[np.lexsort((queue.length, queue.group))]
    result = np.full(len(changes), np.nan)
    used = changes > 0
    low, fraction = np.divmod(share * (changes[used] - 1), 1)
    below = first[used] + low.astype(np.int64)
    above = np.minimum(below + 1, (first + changes - 1)[used])
    result[used] = ordered[below] + fraction * (ordered[above] - ordered[below])
    return result
