"""How long events of one name took: their number by length, and the longest of each length."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv.codes import COMMUNICATION
from nsysconv.queries.columns import PROFILE, count_column, duration_column, key_column, sum_column
from nsysconv.queries.contract import Array, Query, Request, Result
from nsysconv.queries.event_lanes import (
    COLOR,
    KIND,
    KINDS,
    Labels,
    Lane,
    LaneEvents,
    event_colors,
    event_ids,
    kernel_ids_of,
    labels,
    lanes,
)
from nsysconv.report import Column, Unit
from nsysconv.timeline.arrays import ROUND_ENDS, bucket_of, counts, distinct, factorize, sums
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.kernel_categories import communicates
from nsysconv.timeline.timeline import Timeline

COLUMNS = (
    PROFILE,
    KIND,
    key_column("name", "Name of the events; ranges and operators by their group."),
    Column(
        "time_class",
        Unit.TEXT,
        "Class of the breakdown: computation, communication, memcpy, memset or migration; null: "
        "not on a GPU.",
        brief=False,
    ),
    Column(
        "bucket_min_ns",
        Unit.NS,
        "Lower limit of the bucket: events of at least this duration and below the next bucket "
        "(0, 1, 2, 5, 10, 20, 50, …).",
        key=True,
    ),
    count_column("event_count", "Number of events."),
    sum_column("event_sum_ns", "Total duration of the events.", "event_count"),
    Column(
        "max_id", Unit.ID, "Number of the longest event among the profile's events of that kind."
    ),
    duration_column("max_ns", "Duration of the event.", brief=False),
    Column("max_start_ns", Unit.NS, "Start of the event."),
    Column("pid", Unit.ID, "Process of the longest event.", brief=False),
    Column(
        "device_id",
        Unit.ID,
        "Device of the longest event; null: not on a GPU, or not recorded.",
        brief=False,
    ),
    Column(
        "stream_id",
        Unit.ID,
        "Stream of the longest event; null: not on a GPU, or not recorded.",
        brief=False,
    ),
    Column(
        "tid", Unit.ID, "Thread of the longest event; null: on a GPU, or not recorded.", brief=False
    ),
    replace(COLOR, doc="Color that the program gave the longest event, `#rrggbb`; null: none."),
)


@dataclass
class _Bucket:
    count: int = 0
    time: int = 0
    longest: int = -1
    start: int = 0
    place: int = 0
    lane: Lane | None = None


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per kind, name and length; in the order of kinds, then most time first."""
    named = labels(timeline, request)
    buckets: dict[tuple[int, int], _Bucket] = defaultdict(_Bucket)
    for lane, events in lanes(timeline, request, named):
        _add(buckets, lane, events)
    total: dict[int, int] = defaultdict(int)
    for (label, _), bucket in buckets.items():
        total[label] += bucket.time
    kinds = named.kinds.tolist()
    order = sorted(buckets, key=lambda key: (kinds[key[0]], -total[key[0]], key))
    shown = [
        (label, place, buckets[label, place]) for label, place in order[: request.limit or None]
    ]
    talking = _communicating(timeline, request, named)
    lanes_of = [bucket.lane for *_, bucket in shown]
    shown_kinds = [KINDS[kinds[label]] for label, *_ in shown]
    longest = event_ids(
        timeline,
        named.kinds[[label for label, *_ in shown]],
        np.array([bucket.place for *_, bucket in shown], np.int64),
    )
    values: dict[str, Any] = {
        "kind": shown_kinds,
        "name": [named.texts[label] for label, *_ in shown],
        "time_class": [_time_class(kinds[label], label in talking) for label, *_ in shown],
        "bucket_min_ns": ROUND_ENDS[[place for _, place, _ in shown]],
        "event_count": [bucket.count for *_, bucket in shown],
        "event_sum_ns": [bucket.time for *_, bucket in shown],
        "max_id": longest,
        "max_ns": [bucket.longest for *_, bucket in shown],
        "max_start_ns": [bucket.start for *_, bucket in shown],
        "pid": [lane.pid for lane in lanes_of if lane],
        "device_id": [lane.device for lane in lanes_of if lane],
        "stream_id": [lane.stream for lane in lanes_of if lane],
        "tid": [lane.tid for lane in lanes_of if lane],
        "color": event_colors(timeline, shown_kinds, longest),
    }
    return Result(values, len(order))


EVENT_DURATIONS = Query(columns=COLUMNS, compute=compute)


def _communicating(timeline: Timeline, request: Request, named: Labels) -> set[int]:
    # The result is the labels of kernels that communicate. The whole name decides, as in the account,
    # however names are shown.
    rows = timeline.ops.row[communicates(timeline)]
    ids = distinct(kernel_ids_of(timeline, request)[rows])
    return set(named.of(OpKind.KERNEL, ids).tolist())


def _time_class(kind: int, is_communicating: bool) -> str | None:
    if kind >= len(OpKind):
        return None
    if is_communicating:
        return COMMUNICATION
    return "computation" if kind in (OpKind.KERNEL, OpKind.GRAPH) else KINDS[kind]


def _add(buckets: dict[tuple[int, int], _Bucket], lane: Lane, events: LaneEvents) -> None:
    dur = events.end - events.start
    group, (label, of_length) = factorize(events.label, bucket_of(dur, ROUND_ENDS))
    size = len(label)
    count, time = counts(group, size), sums(group, dur, size)
    longest = np.full(size, -1, np.int64)
    np.maximum.at(longest, group, dur)
    first = _first_of(group, dur == longest[group], size)
    rows = zip(label.tolist(), of_length.tolist(), count.tolist(), time.tolist(), longest.tolist(),
               events.start[first].tolist(), events.place[first].tolist(), strict=True)  # fmt: skip
    for of_label, length, number, spent, most, start, place in rows:
        bucket = buckets[of_label, length]
        bucket.count += number
        bucket.time += spent
        # Among equally long events the earliest counts, then the event of the first lane.
        if (most, -start) > (bucket.longest, -bucket.start):
            bucket.longest, bucket.start, bucket.place, bucket.lane = most, start, place, lane


def _first_of(group: Array, which: Array, count: int) -> Array:
    places = np.flatnonzero(which)[::-1]
    result = np.zeros(count, np.int64)
    result[group[places]] = places  # written backwards, the first one stays
    return result
