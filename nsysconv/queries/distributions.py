"""How durations are distributed: histograms of kernels, and instances of a name over time and ranks.

The reports have the names of the recipes of nsys that answer the same questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.queries.columns import (
    DEVICE,
    KERNEL_NAME_COLUMNS,
    PID,
    PROCESS_RANK,
    PROFILE,
    count_column,
    duration_column,
    kernel_name_ids,
    key_column,
    rows_at,
    sum_column,
)
from nsysconv.queries.contract import ColumnValues, Option, OverRanks, Query, Request, Result, View
from nsysconv.queries.event_lanes import kernel_ids_of
from nsysconv.queries.split import BY_SPLIT, split_rows, spread_columns
from nsysconv.regex import regular_expression
from nsysconv.report import MISSING, Column, ProfileRef, Unit
from nsysconv.timeline.annotations import START_END, shown_ranges
from nsysconv.timeline.arrays import (
    ROUND_ENDS,
    among,
    bucket_of,
    counts,
    distinct,
    factorize,
    grouped_percentiles,
    grouped_statistics,
    percent,
    sums,
    take,
)
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.pace import Events, Instances, instances, merged
from nsysconv.timeline.projection import projection
from nsysconv.timeline.timeline import Timeline

_NAME = "A regular expression that names of {} contain; without one {}."


def _kernels(timeline: Timeline, request: Request) -> Events:
    ops, (of_row, (ids,)) = timeline.whole.ops, factorize(kernel_ids_of(timeline, request))
    which = np.flatnonzero(ops.kind == OpKind.KERNEL)
    kernels, held = ops.take(which), take(timeline.ops_in_slice, which)
    texts = timeline.profile.names(ids)
    names = tuple(texts[i] for i in ids.tolist())
    dur = np.where(kernels.timed, kernels.dur, MISSING)
    name = take(of_row, kernels.row)
    return Events(names, name, kernels.pid, kernels.device, kernels.start, dur, held)


def _ranges(timeline: Timeline, request: Request, *, projected: bool) -> Events:
    spans = shown_ranges(timeline.whole, request.range_names)
    start, end = spans.start, spans.end
    if projected:
        found = projection(timeline.whole, spans, spans.kind == START_END)
        start, end = found.start, found.end
    dur, nowhere = np.where(start == MISSING, MISSING, end - start), np.full(len(spans), MISSING)
    held = timeline.holds(spans)
    return Events(spans.names, spans.name, spans.pid, nowhere, start, dur, held)


def _of_names(events: Events, request: Request, *, every: bool) -> Events:
    # Those of the names that were asked for; of none, all or those of the longest.
    if request.options["name"] is not None:
        fits = regular_expression(request.options["name"]).search
        return events.named([i for i, text in enumerate(events.names) if fits(text)])
    return events.named(np.arange(len(events.names)) if every else events.longest)


# -- a histogram

_HISTOGRAM = (
    *BY_SPLIT,
    key_column("name", "Demangled kernel name (`--names` selects other spellings)."),
    Column(
        "bucket_min_ns",
        Unit.NS,
        "Lower limit of the bucket: executions of at least this duration and below the next bucket "
        "(0, 1, 2, 5, 10, 20, 50, …).",
        key=True,
    ),
    count_column("kernel_count", "Number of executions."),
    Column(
        "bucket_pct",
        Unit.PCT,
        "Share of the executions of that name, or of its part with `--split`.",
    ),
    sum_column("kernel_sum_ns", "Sum of their durations.", "kernel_count"),
    duration_column(
        "med_ns", "Median of all durations of the name (mean of the middle two if even).", real=True
    ),
    duration_column("p90_ns", "90th percentile of the durations of the name."),
    duration_column("p99_ns", "99th percentile of the durations of the name."),
    *spread_columns("kernel_sum_ns"),
)


def _histogram(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per name and length, the name with most time first."""
    spelling = request.kernel_names
    columns = timeline.columns(
        "kernel",
        ("start_ns", "dur_ns", "device_id", "pid", "name_id", KERNEL_NAME_COLUMNS[spelling]),
    )
    ids = kernel_name_ids(columns, spelling)
    shown = (columns["start_ns"] != MISSING) & (columns["dur_ns"] != MISSING)
    texts = timeline.profile.names(distinct(ids))
    if request.options["name"] is not None:
        fits = regular_expression(request.options["name"]).search
        shown &= among(
            ids, np.array(sorted(i for i, text in texts.items() if fits(text)), np.int64)
        )
    device, pid, ids, dur = (
        take(each, shown) for each in (columns["device_id"], columns["pid"], ids, columns["dur_ns"])
    )
    bucket = bucket_of(dur, ROUND_ENDS)
    rows = split_rows(timeline, request.split, device, pid, ids, bucket)
    (names, buckets), number = rows.keys, counts(rows.row, len(rows))
    of_row, (places, _) = factorize(rows.place, names)
    group, count = take(of_row, rows.row), len(places)
    of_name = grouped_statistics(group, dur, count)
    p90, p99 = grouped_percentiles(group, dur, count, 90, 99)
    values: dict[str, Any] = {
        "rank": rows.rank,
        "device_id": rows.device_id,
        "name": [texts[i] for i in names.tolist()],
        "bucket_min_ns": ROUND_ENDS[buckets],
        "kernel_count": number,
        "bucket_pct": percent(number, of_name.count[of_row]),
        "kernel_sum_ns": sums(rows.row, dur, len(rows)),
        "med_ns": of_name.median[of_row],
        "p90_ns": p90[of_row],
        "p99_ns": p99[of_row],
        **rows.spread(dur),
    }
    return rows_at(values, np.lexsort((buckets, rows.place, names, -of_name.total[of_row])))


CUDA_GPU_KERN_HIST = Query(
    options=(Option("name", None, _NAME.format("kernels", "all")),),
    columns=_HISTOGRAM,
    compute=_histogram,
)

# -- instances over time

_NAMED = (
    key_column("name", "Name of the event."),
    Column(
        "instance",
        Unit.ID,
        "Number, from 1, among events of the same name, process and device in the whole profile.",
        key=True,
    ),
)
_TIMES = {
    "dur": "Duration of the event.",
    "delta": "Time since the start of the previous one; null: the first.",
    "elapsed": "Time since the start of the first one.",
}
_BY_RANK = (
    *(PROFILE, PROCESS_RANK, PID, DEVICE, *_NAMED),
    Column("start_ns", Unit.NS, "Start of the event."),
    *(duration_column(f"{each}_ns", doc) for each, doc in _TIMES.items()),
)
_BY_INSTANCE = (
    *_NAMED,
    count_column("instance_count", "Processes and devices that have one of that number."),
    *(
        duration_column(
            f"{each}_{end}_ns", f"{word} of `{each}_ns`.", real=end == "med", brief=end != "med"
        )
        for each in _TIMES
        for end, word in (("min", "Least"), ("med", "Median"), ("max", "Greatest"))
    ),
    Column("longest_rank", Unit.ID, "Rank of the one that took longest; null: none known."),
)


class _Rows:
    def __init__(self, request: Request) -> None:
        self._by = request.options["by"]
        if self._by not in ("rank", "instance"):
            raise UsageError(f"by={self._by}: no such view", hint="There are: rank, instance.")
        self._parts: list[tuple[str, Instances]] = []

    def add(self, ref: ProfileRef, partial: Instances) -> None:
        self._parts.append((ref.label, partial))

    def result(self) -> Result:
        """Return one row per instance, by name and number, and rank by rank or over ranks."""
        found = merged([part for _, part in self._parts])
        if self._by == "instance":
            return Result(_by_instance(found))
        place = np.repeat(np.arange(len(self._parts)), [len(part) for _, part in self._parts])
        order = np.lexsort((found.device, place, found.rank, found.instance, found.name))
        found = found.take(order)
        values: dict[str, Any] = {
            "profile": [self._parts[i][0] for i in place[order].tolist()],
            "rank": found.rank,
            "pid": found.pid,
            "device_id": found.device,
            "name": [found.names[i] for i in found.name.tolist()],
            "instance": found.instance,
        }
        return Result(
            {**values, **{f"{each}_ns": getattr(found, each) for each in ("start", *_TIMES)}}
        )


def _by_instance(found: Instances) -> dict[str, Any]:
    group, (name, instance) = factorize(found.name, found.instance)
    count, longest = len(name), np.full(len(name), MISSING)
    order = np.lexsort((-found.rank, found.dur))
    longest[group[order]] = found.rank[order]  # of a group the last stays: the longest
    values: dict[str, Any] = {
        "name": [found.names[i] for i in name.tolist()],
        "instance": instance,
        "instance_count": counts(group, count),
        "longest_rank": longest,
    }
    for each in _TIMES:
        of = grouped_statistics(group, getattr(found, each), count)
        ends = {"min": of.minimum, "med": of.median, "max": of.maximum}
        values |= {f"{each}_{end}_ns": column for end, column in ends.items()}
    return values


def _pace(events: Callable[..., Events], timeline: Timeline, request: Request) -> Instances:
    found = _of_names(events(timeline, request), request, every=False)
    return instances(found, timeline.ranks)


_MOST = "the name that takes most time of those that ran several times"
_BY = Option(
    "by",
    "rank",
    "Rows per rank and instance (rank), or per instance with the spread over ranks (instance).",
)
_OVER_RANKS = {"instance": View("Pace over ranks", _BY_INSTANCE)}
CUDA_GPU_KERN_PACE = Query(
    options=(Option("name", None, _NAME.format("kernels", _MOST)), _BY),
    columns=_BY_RANK,
    views={"rank": View("Pace of kernels", _BY_RANK), **_OVER_RANKS},
    over_ranks=OverRanks(partial(_pace, _kernels), _Rows),
)
NVTX_PACE = replace(
    CUDA_GPU_KERN_PACE,
    views={"rank": View("Pace of ranges", _BY_RANK), **_OVER_RANKS},
    options=(Option("name", None, _NAME.format("ranges", _MOST)), _BY),
    over_ranks=OverRanks(partial(_pace, partial(_ranges, projected=False)), _Rows),
)
NVTX_GPU_PROJ_PACE = replace(
    NVTX_PACE,
    views={"rank": View("Pace of ranges on the GPU", _BY_RANK), **_OVER_RANKS},
    over_ranks=OverRanks(partial(_pace, partial(_ranges, projected=True)), _Rows),
)
