"""Gaps: one by one, by their length, and by what the host did meanwhile."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from nsysconv import schema
from nsysconv.codes import DIRECTIONS
from nsysconv.queries.columns import (
    BY_DEVICE,
    WINDOW,
    code_name,
    count_column,
    duration_column,
    key_column,
    per_step,
    rows_at,
    sum_column,
    with_per_step,
)
from nsysconv.queries.contract import ColumnValues, Query, Request, Result
from nsysconv.queries.split import BY_SPLIT, DeviceSums, spread_columns
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline import host_activity, idle
from nsysconv.timeline.arrays import (
    DECADES,
    Array,
    blocks,
    bucket_of,
    counts,
    distinct,
    factorize,
    sums,
)
from nsysconv.timeline.dependencies import Waits, blocked_by
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.timeline import Timeline

K = TypeVar("K", bound=Hashable)

_KIND = key_column(
    "kind",
    "Kind of gap: no_op (no GPU operation runs), no_kernel (no kernel or graph runs) or stream "
    "(nothing runs on this stream). " + WINDOW,
)
_STREAM = key_column(
    "stream",
    "The stream, for kind stream; followed by `@` and its process if several processes use "
    "the device.",
)
PART_DOCS = {
    "host": "CPU-bound: idle time before the launching call began",
    "launch": "Launch latency: idle time while the launching call ran",
    "queue": "Queued: idle time after the launching call had returned",
    "migration": "Page migration: idle time ended by a unified-memory page migration",
    "profiler": "Profiler overhead: idle time while the profiler was at work in the process",
    "unknown": "Cause not recorded: idle time ended by an operation without a recorded API call",
    "end": "Idle time at the end of the window, with no further operation of the kind",
}


_BLOCKED = "Part of the queued time until the operation that was waited for had ended"


def _gap_keys(timeline: Timeline, gaps: idle.Gaps) -> dict[str, Any]:
    pids = timeline.pids_on(gaps.device)
    processes = len(pids) if gaps.stream is not None else 1
    return {
        "rank": timeline.rank_of(pids),
        "device_id": gaps.device,
        "kind": gaps.kind,
        "stream": idle.stream_label(gaps.stream, processes),
    }


# -- the gaps themselves, longest first

COLUMNS = (
    *BY_DEVICE,
    replace(_KIND, brief=False),
    replace(_STREAM, brief=False),
    Column("start_ns", Unit.NS, "Start of the gap.", key=True),
    duration_column("dur_ns", "Length of the gap."),
    Column("cause", Unit.TEXT, "Cause with the largest part of the gap."),
    *(duration_column(f"{part}_ns", f"{PART_DOCS[part]}.", brief=False) for part in idle.PARTS),
    Column(
        "thread",
        Unit.TEXT,
        "Thread whose call launched the operation that ended the gap.",
        brief=False,
    ),
    Column("during", Unit.TEXT, "What that thread did for most of the CPU-bound part."),
    Column("during_ns", Unit.NS, "Time spent in that activity.", brief=False),
    Column("next_op", Unit.TEXT, "GPU operation that ended the gap."),
    Column(
        "gap",
        Unit.TEXT,
        "Id (for `nsysconv why`) of the gap of the profile that contains it; null: none.",
    ),
    Column("event", Unit.TEXT, "Id of the operation that ended the gap; null: none.", brief=False),
    Column(
        "blocked_by",
        Unit.TEXT,
        "What that operation waited for while queued: the previous operation on its stream, or "
        "an operation on another stream through an event; null: unknown.",
        optional=True,
    ),
    Column(
        "blocked_by_event",
        Unit.TEXT,
        "Id of the operation that was waited for.",
        brief=False,
        optional=True,
    ),
    replace(
        duration_column("blocked_ns", f"{_BLOCKED}; null: not known."), brief=False, optional=True
    ),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per gap of the requested kinds, longest first."""
    gap_lists = [each for kind in request.idle_kinds for each in idle.gaps(timeline, kind)]
    total = sum(len(each) for each in gap_lists)
    # There may be millions of gaps: only those that will be shown are described.
    if request.limit and total > request.limit:
        durations = np.concatenate([each.dur for each in gap_lists])
        shortest = int(np.partition(durations, total - request.limit)[total - request.limit])
        gap_lists = [each.take(each.dur >= shortest) for each in gap_lists]
    activities = host_activity.host_activity(timeline, request.range_names)
    names = GapNames(timeline)
    all_names = names if timeline.is_whole else GapNames(timeline.whole)
    columns: dict[str, list[Any]] = {column.name: [] for column in COLUMNS[1:]}
    for each in gap_lists:
        gap_parts = idle.parts(timeline, each)
        _add(columns, timeline, each, gap_parts, activities, names)
        _add_blocked(columns, timeline, blocked_by(timeline, each, gap_parts), all_names)
    start, dur = (np.array(columns[name], np.int64) for name in ("start_ns", "dur_ns"))
    return Result(rows_at(columns, np.lexsort((start, -dur))), total)


IDLE_GAPS = Query(columns=COLUMNS, compute=compute)


def _add(
    columns: dict[str, list[Any]],
    timeline: Timeline,
    device_gaps: idle.Gaps,
    gap_parts: Array,
    activities: host_activity.HostActivity,
    names: GapNames,
) -> None:
    columns["start_ns"] += device_gaps.start.tolist()
    columns["dur_ns"] += device_gaps.dur.tolist()
    columns["cause"] += [idle.PARTS[cause] for cause in gap_parts.argmax(axis=0).tolist()]
    for part, spent in zip(idle.PARTS, gap_parts.tolist(), strict=True):
        columns[f"{part}_ns"] += spent
    on_thread = idle.drop_threadless_host_parts(timeline, device_gaps)
    activity_names, activity_times = longest_of(activities_of(on_thread, activities))
    columns["during"] += activity_names
    columns["during_ns"] += activity_times
    columns["thread"] += [names.thread(op) for op in device_gaps.ended_by.tolist()]
    columns["next_op"] += [names.operation(op) for op in device_gaps.ended_by.tolist()]
    columns["event"] += [
        timeline.ops.event_id(op) if op >= 0 else None for op in device_gaps.ended_by.tolist()
    ]
    columns["gap"] += map(idle.gap_id, idle.gap_numbers(timeline, device_gaps).tolist())
    for name, value in _gap_keys(timeline, device_gaps).items():
        columns[name] += [value] * len(device_gaps)


def _add_blocked(
    columns: dict[str, list[Any]], timeline: Timeline, blocked: Waits, names: GapNames
) -> None:
    on, ops = blocked.on.tolist(), timeline.whole.ops
    columns["blocked_by"] += [names.operation(op) for op in on]
    columns["blocked_by_event"] += [ops.event_id(op) if op >= 0 else None for op in on]
    columns["blocked_ns"] += [
        time if op >= 0 else None for op, time in zip(on, blocked.time.tolist(), strict=True)
    ]


def longest_of(
    activities: Iterable[list[tuple[str, int]]],
) -> tuple[list[str | None], list[int | None]]:
    """Return per gap the activity with the largest share of its host part, and that share."""
    longest = [did[0] if did else (None, None) for did in activities]
    return [name for name, _ in longest], [time for _, time in longest]


def activities_of(
    device_gaps: idle.Gaps, activities: host_activity.HostActivity
) -> list[list[tuple[str, int]]]:
    """Return per gap what the host did in its host part, with how long it did that: longest first."""
    # Times are added up by name, because two symbols of one function are one activity.
    totals: list[dict[str, int]] = [{} for _ in range(len(device_gaps))]
    for pieces in activities.split(device_gaps):
        for gap, label, time in zip(
            pieces.gap.tolist(), pieces.label.tolist(), pieces.time.tolist(), strict=True
        ):
            name = activities.name(label)[1]
            totals[gap][name] = totals[gap].get(name, 0) + time
    return [sorted(of_gap.items(), key=lambda did: -did[1]) for of_gap in totals]


class GapNames:
    """The names of operations that end gaps, and of the threads that launched them."""

    def __init__(self, timeline: Timeline) -> None:
        """Read the names of kernels and threads."""
        self._timeline = timeline
        kernels = timeline.profile.columns("kernel", ("name_id",))["name_id"]
        self._kernel_names = timeline.profile.names(distinct(kernels[kernels != MISSING]))
        self._kernels = kernels
        self._threads = {
            (row["pid"], row["tid"]): row["name"] for row in timeline.profile.rows("thread")
        }

    def operation(self, op: int) -> str | None:
        """Return a kernel's name, or what kind of operation it is; None for -1."""
        if op < 0:
            return None
        ops = self._timeline.ops
        kind, row = OpKind(int(ops.kind[op])), int(ops.row[op])
        if kind is OpKind.KERNEL:
            return self._kernel_names.get(int(self._kernels[row]), "[no name]")
        if kind in (OpKind.MEMCPY, OpKind.MIGRATION):
            table = schema.GPU_OP_TABLES[kind]
            directions = self._timeline.profile.columns(table, ("direction",))["direction"]
            word = code_name(DIRECTIONS, int(directions[row])) or "Unknown"
            return f"[memcpy {word}]" if kind is OpKind.MEMCPY else f"[UM {word}]"
        return "[memset]" if kind is OpKind.MEMSET else "[graph launch]"

    def thread(self, op: int) -> str | None:
        """Return number and name of the thread that launched an operation; None: not recorded."""
        owner = int(self._timeline.owner[op]) if op >= 0 else -1
        if owner < 0:
            return None
        calls = self._timeline.calls
        pid, tid = calls.threads[int(calls.thread[owner])]
        if tid == MISSING:
            return None
        name = self._threads.get((pid, tid))
        return f"{tid} {name}" if name else str(tid)


# -- by their length, and whose they were

_SUMMARY_COLUMNS = (
    *BY_SPLIT,
    _KIND,
    _STREAM,
    Column(
        "bucket_min_ns",
        Unit.NS,
        "Lower limit of the bucket: gaps of at least this length and below the next bucket (0, "
        "1,000, 10,000, …).",
        key=True,
    ),
    count_column("gap_count", "Number of gaps.", better="less"),
    sum_column("gap_sum_ns", "Total length of the gaps.", "gap_count"),
    per_step("per_step_ns", "gap_sum_ns"),
    *(
        duration_column(
            f"{part}_sum_ns",
            f"{PART_DOCS[part]}.",
            adds=True,
        )
        for part in idle.PARTS
    ),
    replace(
        duration_column("blocked_sum_ns", f"{_BLOCKED}; null: of no gap.", adds=True), optional=True
    ),
    *spread_columns("gap_sum_ns"),
)


def _summary(timeline: Timeline, request: Request) -> Result:
    """Return one row per kind of idle time, stream and bucket with gaps, by length."""
    parts = (f"{part}_sum_ns" for part in (*idle.PARTS, "blocked"))
    rows = DeviceSums(timeline, request.split, "gap_sum_ns", "gap_count", *parts)
    for kind in request.idle_kinds:
        for device_gaps in idle.gaps(timeline, kind):
            _add_buckets(rows, timeline, device_gaps)
    keys = [(place, *key) for place, key in rows.keys]
    values = {
        "kind": [kind for _, kind, _, _ in keys],
        "stream": [stream for _, _, stream, _ in keys],
        "bucket_min_ns": [least for _, _, _, least in keys],
        **rows.values(),
    }
    if not any(values["blocked_sum_ns"]):
        values["blocked_sum_ns"] = [None] * len(keys)
    # Rows of one place, kind and stream stay together, ordered by length.
    first: dict[tuple[Any, ...], int] = {}
    for *together, _ in keys:
        first.setdefault(tuple(together), len(first))
    order = sorted(range(len(keys)), key=lambda i: (first[keys[i][:-1]], keys[i][-1]))
    return with_per_step(rows_at(values, order), timeline, request, {"per_step_ns": "gap_sum_ns"})


IDLE_SUMMARY = Query(columns=_SUMMARY_COLUMNS, compute=_summary)


def _add_buckets(rows: DeviceSums, timeline: Timeline, device_gaps: idle.Gaps) -> None:
    group, (place,) = factorize(bucket_of(device_gaps.dur, DECADES))
    count, bucket = len(place), DECADES[place]
    in_parts = np.zeros((len(idle.PARTS) + 1, count), np.int64)
    for block in blocks(len(device_gaps)):
        here = device_gaps.take(block)
        parts = idle.parts(timeline, here)
        blocked = blocked_by(timeline, here, parts).time
        for part, spent in enumerate((*parts, blocked)):
            in_parts[part] += sums(group[block], spent, count)
    amounts = (sums(group, device_gaps.dur, count), counts(group, count), *in_parts)
    keys = _gap_keys(timeline, device_gaps)
    for least, *of_bucket in zip(*(each.tolist() for each in (bucket, *amounts)), strict=True):
        rows.add(device_gaps.device, (keys["kind"], keys["stream"], least), of_bucket)


# -- what the host did while a device waited for it

_HOST_COLUMNS = (
    *BY_SPLIT,
    key_column(
        "activity",
        "What the launching thread was in. The first that applies: api_call (outermost API "
        "call), operator (innermost), directive (OpenACC or OpenMP construct), python_function, "
        "range, os_call (outermost call of an OS runtime library), thread (its scheduling "
        "state), else outside of all.",
    ),
    key_column(
        "name",
        "Name of the call, operator, construct, function or range, or the state of the thread.",
    ),
    count_column(
        "gap_count",
        "Number of gaps (without any GPU operation) whose CPU-bound part contains the activity. "
        + WINDOW,
        better="less",
    ),
    sum_column(
        "host_sum_ns", "Time of the activity within the CPU-bound parts of the gaps.", "gap_count"
    ),
    Column(
        "function",
        Unit.TEXT,
        "The function and library seen in most CPU samples of the thread during this time, over "
        "all devices; null: fewer than 10 samples, or no name.",
        optional=True,
    ),
    *spread_columns("host_sum_ns"),
)


def _host(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per activity and name, most time first: all host parts of the gaps."""
    activities = host_activity.host_activity(timeline, request.range_names)
    rows = DeviceSums(timeline, request.split, "host_sum_ns", "gap_count")
    seen: defaultdict[tuple[str, str], Counter[tuple[str, str | None]]] = defaultdict(Counter)
    for device_gaps in idle.gaps(timeline, "no_op"):
        on_thread = idle.drop_threadless_host_parts(timeline, device_gaps)
        by_label: dict[int, list[int]] = {}
        for pieces in activities.split(on_thread):
            for label, functions in activities.sampled_in(pieces).items():
                seen[activities.name(label)].update(functions)
            label_number, (labels,) = factorize(pieces.label)
            times = sums(label_number, pieces.time, len(labels))
            # A gap counts once for a label, however many pieces of it bear the label.
            pairs = distinct(label_number.astype(np.int64) * len(on_thread) + pieces.gap)
            gap_counts = counts(pairs // len(on_thread), len(labels))
            _add_totals(
                by_label, zip(labels.tolist(), gap_counts.tolist(), times.tolist(), strict=True)
            )
        merged: dict[tuple[str, str], list[int]] = {}
        for label, (count, time) in sorted(by_label.items()):
            _add_totals(merged, [(activities.name(label), count, time)])
        merged.update(
            _without_thread(timeline, device_gaps.take(device_gaps.host_end > on_thread.host_end))
        )
        for key, (count, total) in merged.items():
            rows.add(device_gaps.device, key, (total, count))
    values = {
        "activity": [kind for _, (kind, _) in rows.keys],
        "name": [name for _, (_, name) in rows.keys],
        "function": [host_activity.most_sampled(seen[key]) for _, key in rows.keys],
        **rows.values(),
    }
    order = sorted(range(len(rows.keys)), key=lambda i: -values["host_sum_ns"][i])
    return rows_at(values, order)


IDLE_HOST = Query(columns=_HOST_COLUMNS, compute=_host)


def _add_totals(totals: dict[K, list[int]], entries: Iterable[tuple[K, int, int]]) -> None:
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
