"""The rules about times in which a process used a device little or not at all (docs/rules.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv import schema
from nsysconv.errors import UsageError
from nsysconv.notes import Note
from nsysconv.queries.columns import (
    DEVICE,
    PID,
    PROFILE,
    RANK,
    WINDOW,
    count_column,
    duration_column,
    values_by_column,
)
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.queries.rules.answers import counted, duration, found, nothing_found
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import distinct, factorize, percent
from nsysconv.timeline.events import GpuOps
from nsysconv.timeline.idle import window
from nsysconv.timeline.intervals import Union, union, union_with
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.windows import Window


@dataclass(frozen=True)
class _DeviceUse:
    """A process on a device: its operations that have a time, in the order of GpuOps; the window; and
    the union of these operations and of the profiler's own work in that process.
    """

    pid: int
    device: int
    ops: GpuOps
    window: Window
    in_use: Union


def _device_uses(timeline: Timeline) -> Iterator[_DeviceUse]:
    """Yield each process on each device that it used, in the slice's time or not."""
    whole, slice_devices = timeline.whole.ops, set(timeline.devices)
    _, (pids, devices) = factorize(whole.pid, whole.device)
    for pid, device in zip(pids.tolist(), devices.tolist(), strict=True):
        process = np.array([pid])
        if device not in slice_devices or not timeline.in_processes(process).all():
            continue
        ops = timeline.ops_on(device)
        ops = ops.take(ops.timed & (ops.pid == pid))
        span = timeline.window(process) or window(timeline, device, ops)
        if span is not None and span.length:
            yield _DeviceUse(pid, device, ops, span, _in_use(timeline, pid, ops))


def _in_use(timeline: Timeline, pid: int, ops: GpuOps) -> Union:
    busy = union(ops.start, ops.end)
    profiler = timeline.overhead.get(pid)
    # The profiler's work is recorded in CPU time.
    if profiler is None or timeline.clocks_disagree:
        return busy
    return union_with(busy, profiler.starts, profiler.ends)


def _tables_and_ids(timeline: Timeline, ops: GpuOps, places: Array) -> tuple[Array, Array]:
    """Return the tables of operations and their ids there; None and MISSING for the place -1."""
    kinds = np.full(len(places), -1)
    if len(ops):
        kinds = np.where(places < 0, -1, ops.kind[places])
    ids = np.full(len(places), MISSING)
    for code in distinct(kinds[kinds >= 0]).tolist():
        of_kind = kinds == code
        rows = ops.row[places[of_kind]].astype(np.int64)
        ids[of_kind] = rows + timeline.profile.first_id(schema.GPU_OP_TABLES[code])
    return np.array([*schema.GPU_OP_TABLES, None], object)[kinds], ids


def _op_columns(prefix: str, which: str, *, brief: bool = True) -> tuple[Column, ...]:
    return (
        Column(f"{prefix}_table", Unit.TEXT, f"Table of {which}.", brief=brief),
        Column(f"{prefix}_id", Unit.ID, "`id` of that operation in its table.", brief=brief),
    )


# -- times of no use

_GAP_COLUMNS = (
    PROFILE,
    RANK,
    PID,
    DEVICE,
    Column("start_ns", Unit.NS, "Start of the gap. " + WINDOW, key=True),
    duration_column(
        "dur_ns",
        "Time in which no operation of the process ran on the device and the profiler was not at "
        "work in the process.",
    ),
    *_op_columns("before", "the last operation before the gap; null: none"),
    *_op_columns("after", "the first operation after the gap; null: none"),
)


def _gaps(timeline: Timeline, request: Request) -> Result:
    shortest = request.options["gap"]
    if not shortest >= 0:
        raise UsageError(f"gap={shortest} of gpu_gaps", hint="Milliseconds, 0 or more.")
    uses = list(_device_uses(timeline))
    gaps = [_long_gaps(use, shortest * 1e6) for use in uses]
    use_of_gap = np.repeat(np.arange(len(uses)), [len(each.starts) for each in gaps])
    start = np.concatenate([np.empty(0, np.int64), *(each.starts for each in gaps)])
    end = np.concatenate([np.empty(0, np.int64), *(each.ends for each in gaps)])
    order = np.lexsort((use_of_gap, start, start - end))
    count = len(order)
    order = order[: request.limit or None]
    use_of_gap, start, end = use_of_gap[order], start[order], end[order]
    neighbors: dict[str, Any] = {}
    for side in ("before", "after"):
        neighbors[f"{side}_table"] = np.full(len(order), None, object)
        neighbors[f"{side}_id"] = np.full(len(order), MISSING)
    for i, use in enumerate(uses):
        rows = np.flatnonzero(use_of_gap == i)
        for side, places in _neighbors(use.ops, start[rows], end[rows]).items():
            tables, ids = _tables_and_ids(timeline, use.ops, places)
            neighbors[f"{side}_table"][rows] = tables
            neighbors[f"{side}_id"][rows] = ids
    use_by_row = [uses[i] for i in use_of_gap.tolist()]
    values = {
        "rank": [timeline.ranks.get(use.pid) for use in use_by_row],
        "pid": [use.pid for use in use_by_row],
        "device_id": [use.device for use in use_by_row],
        "start_ns": start,
        "dur_ns": end - start,
        **neighbors,
    }
    return Result(values, count, notes=(_gaps_in_words(uses, gaps, shortest),))


def _long_gaps(use: _DeviceUse, shortest: float) -> Union:
    low, high = use.window.gaps(use.in_use)
    long = high - low >= shortest
    return Union(low[long], high[long])


def _gaps_in_words(uses: Sequence[_DeviceUse], gaps: Sequence[Union], shortest: float) -> Note:
    if not uses:
        return nothing_found("no process used a device")
    lengths = np.concatenate([each.ends - each.starts for each in gaps])
    if not len(lengths):
        longest = max(int((each.ends - each.starts).max(initial=0)) for each in _all_gaps(uses))
        nearest = f"longest: {duration(longest)}" if longest else "no gap at all"
        return nothing_found(f"no gap of {shortest:g} ms or more ({nearest})")
    spent, span = int(lengths.sum()), sum(use.window.length for use in uses)
    return found(
        f"{counted(len(lengths), 'gap')} of {shortest:g} ms or more: {duration(spent)} in total, "
        f"{percent(spent, span):.1f} % of the time in which processes use devices",
        "Launch the next work before the device finishes the last; `idle_gaps` shows what the host did "
        "in each.",
    )


def _all_gaps(uses: Sequence[_DeviceUse]) -> Iterator[Union]:
    return (_long_gaps(use, 1) for use in uses)


def _neighbors(ops: GpuOps, low: Array, high: Array) -> dict[str, Array]:
    """Return the places of the operations before and after each gap [low, high); -1: there is none."""
    if not len(ops) or not len(low):
        return {side: np.full(len(low), -1) for side in ("before", "after")}
    by_end = np.argsort(ops.end, kind="stable")
    ended = np.searchsorted(ops.end, low, side="right", sorter=by_end) - 1
    began = np.searchsorted(ops.start, high, side="left")
    return {
        "before": np.where(ended >= 0, by_end[ended], -1),
        "after": np.where(began < len(ops), began, -1),
    }


GPU_GAPS = Query(
    options=(Option("gap", 500.0, "List gaps of at least this many milliseconds."),),
    columns=_GAP_COLUMNS,
    compute=_gaps,
)

# -- times of low use

_MAX_CHUNKS = 1000
_CHUNK_COLUMNS = (
    PROFILE,
    RANK,
    PID,
    DEVICE,
    Column("start_ns", Unit.NS, "Start of the first chunk. " + WINDOW, key=True),
    duration_column("dur_ns", "Total length of its consecutive chunks."),
    Column(
        "in_use_ns",
        Unit.NS,
        "Time with an operation of the process on the device, or the profiler at work in the "
        "process.",
        brief=False,
    ),
    Column("in_use_pct", Unit.PCT, "That time as a share of `dur_ns`.", better="more"),
    count_column("gpu_op_count", "Number of operations that overlap it."),
    *_op_columns("first", "the operation that began first; null: none", brief=False),
    *_op_columns("last", "the operation that began last; null: none", brief=False),
)


def _low_use(timeline: Timeline, request: Request) -> Result:
    """Return one row per run of chunks that are all below the threshold, lowest first."""
    threshold, chunks = request.options["threshold"], request.options["chunks"]
    if not threshold >= 0:
        raise UsageError(f"threshold={threshold} of gpu_time_util", hint="Per cent, 0 or more.")
    if not 1 <= chunks <= _MAX_CHUNKS:
        raise UsageError(f"chunks={chunks} of gpu_time_util", hint=f"From 1 to {_MAX_CHUNKS}.")
    uses = list(_device_uses(timeline))
    rows = [row for use in uses for row in _runs_of_chunks(timeline, use, threshold, chunks)]
    rows.sort(key=lambda row: (row["in_use_pct"], -row["dur_ns"], row["start_ns"]))
    answer = _low_use_in_words(uses, rows, threshold, chunks)
    return Result(values_by_column(rows, _CHUNK_COLUMNS[1:]), notes=(answer,))


def _low_use_in_words(
    uses: Sequence[_DeviceUse], rows: Sequence[Mapping[str, int]], threshold: float, chunks: int
) -> Note:
    if not uses:
        return nothing_found("no process used a device")
    if not rows:
        lowest = min(float(_shares_of_chunks(use, chunks).min()) for use in uses)
        return nothing_found(
            f"no part of {chunks} of the time in use for less than {threshold:g} % "
            f"(lowest: {lowest:.1f} %)"
        )
    spent = sum(row["dur_ns"] for row in rows)
    unused = spent - sum(row["in_use_ns"] for row in rows)
    return found(
        f"{counted(len(rows), 'stretch of low use')}: {duration(spent)} in total, the device unused for "
        f"{duration(unused)} of it",
        "Launch fewer and larger kernels, or use CUDA graphs or more streams; `idle_summary` of that "
        "time (--time START:END) shows why it is idle.",
    )


def _chunks(span: Window, chunks: int) -> tuple[Array, Array]:
    # Chunks are of one length but for the last; those between the parts of a window are none of it.
    size = -(-(span.end - span.start) // chunks)
    low = np.arange(span.start, span.end, size)
    high = np.minimum(low + size, span.end)
    inside = span.lengths(low, high) > 0
    return low[inside], high[inside]


def _shares_of_chunks(use: _DeviceUse, chunks: int) -> Array:
    low, high = _chunks(use.window, chunks)
    return percent(use.window.added(use.in_use.covered, low, high), use.window.lengths(low, high))


def _runs_of_chunks(
    timeline: Timeline, use: _DeviceUse, threshold: float, chunks: int
) -> Iterator[dict[str, Any]]:
    low, high = _chunks(use.window, chunks)
    used, lengths = use.window.added(use.in_use.covered, low, high), use.window.lengths(low, high)
    is_low = np.concatenate(([False], used * 100 < threshold * lengths, [False]))
    begins = np.flatnonzero(is_low[1:] & ~is_low[:-1])
    ends = np.flatnonzero(is_low[:-1] & ~is_low[1:])
    latest_end = np.maximum.accumulate(use.ops.end)
    for first, past in zip(begins.tolist(), ends.tolist(), strict=True):
        start, end, in_use = int(low[first]), int(high[past - 1]), int(used[first:past].sum())
        yield {
            "rank": timeline.ranks.get(use.pid),
            "pid": use.pid,
            "device_id": use.device,
            "start_ns": start,
            "dur_ns": (length := int(lengths[first:past].sum())),
            "in_use_ns": in_use,
            "in_use_pct": float(percent(in_use, length)),
            **_ops_inside(timeline, use.ops, latest_end, start, end),
        }


def _ops_inside(
    timeline: Timeline, ops: GpuOps, latest_end: Array, low: int, high: int
) -> dict[str, Any]:
    """Return how many operations intersect [low, high), and the first and last of them to begin.

    `latest_end` is, per operation, the latest end of it and those before it.
    """
    begin = min(np.searchsorted(latest_end, low, "right"), np.searchsorted(ops.start, low, "left"))
    end = np.searchsorted(ops.start, high, "left")
    near = slice(int(begin), int(end))
    inside = np.flatnonzero((ops.end[near] > low) | (ops.start[near] >= low)) + begin
    ends = inside[[0, -1]] if len(inside) else np.array([-1, -1])
    (first, last), ids = _tables_and_ids(timeline, ops, ends)
    return {
        "gpu_op_count": len(inside),
        "first_table": first,
        "first_id": int(ids[0]),
        "last_table": last,
        "last_id": int(ids[1]),
    }


GPU_TIME_UTIL = Query(
    options=(
        Option("threshold", 50.0, "List chunks with a utilization below this percentage."),
        Option(
            "chunks",
            30,
            f"Number of equal chunks of the window, 1 to {_MAX_CHUNKS}.",
        ),
    ),
    columns=_CHUNK_COLUMNS,
    compute=_low_use,
)
