"""The time account of each device, and the largest of everything beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nsysconv.codes import DIRECTIONS, TIME_CLASS_COLUMNS, TIME_CLASSES
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    BY_DEVICE,
    WINDOW,
    count_column,
    direction_names,
    duration_column,
    outer_call_time,
    sum_column,
    values_by_column,
)
from nsysconv.queries.contract import Array, OverRanks, Query, Request, Result
from nsysconv.queries.cycles import added_up, cycles_of
from nsysconv.report import MISSING, Column, ProfileRef, Unit
from nsysconv.timeline.account import GRAPH_LAUNCH, OPERATION_CLASSES, Account, default_account
from nsysconv.timeline.arrays import blocks, counts, distinct, factorize, percent, sums, take
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import gaps, window
from nsysconv.timeline.intervals import longest
from nsysconv.timeline.kernel_categories import ANSWERS, UNKNOWN, YES, uses_tensor_cores
from nsysconv.timeline.phase_steps import phases_in_words
from nsysconv.timeline.step_rules import resolved
from nsysconv.timeline.steps import step_count
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import (
    API_CALL,
    KERNEL,
    MEMCPY,
    MIGRATION,
    Total,
    combine,
    rank_of,
    totals,
)

_SPAN = (
    "The breakdown covers the time slice if one is selected, else the recording; if the clocks "
    "disagree, the window."
)
_DIRECTIONS = {"htod": "HtoD", "dtoh": "DtoH"}
COLUMNS = (
    *BY_DEVICE,
    Column("device", Unit.TEXT, "Name of the GPU; null: not recorded."),
    Column("tool", Unit.TEXT, "Source and version of the profiler.", brief=False),
    count_column(
        "step_count",
        "Number of steps of the process with most of them; null: no steps.",
        brief=False,
    ),
    Column(
        "steps",
        Unit.TEXT,
        "What counts as a step: the name of the ranges that are steps, or what ends a step; "
        "null: no steps.",
        brief=False,
    ),
    Column(
        "phases",
        Unit.TEXT,
        "Phases of an inference server's steps, most time first, each with its number of steps "
        "and their median duration; null: no phases.",
        brief=False,
    ),
    Column("span_start_ns", Unit.NS, f"Where the breakdown begins. {_SPAN}"),
    Column("span_ns", Unit.NS, "Length of the breakdown: the sum of its classes."),
    Column("window_start_ns", Unit.NS, f"Where the window begins. {WINDOW}"),
    duration_column("window_ns", "Length of the window."),
    Column("busy_ns", Unit.NS, "Union of the GPU operations inside the window."),
    Column(
        "busy_pct", Unit.PCT, "Busy time as a share of the breakdown (`span_ns`).", better="more"
    ),
    *(
        Column(column, Unit.NS, f"Class of the account: {TIME_CLASSES[name]}.")
        for name, column in TIME_CLASS_COLUMNS.items()
    ),
    Column(
        "launch_bound_pct",
        Unit.PCT,
        "Idle time before and during the call that launched the next operation, as a share of "
        "the window; null: causes are not recorded.",
        better="less",
    ),
    sum_column(
        "api_sum_ns",
        "Total duration of the outermost API calls of the device's processes; null: threads are "
        "not recorded.",
        "",
    ),
    count_column("kernel_count", "Kernels in the breakdown."),
    sum_column(
        "kernel_sum_ns", "Total duration of these kernels within the breakdown.", "kernel_count"
    ),
    Column(
        "tensor_core_pct",
        Unit.PCT,
        "Share of kernel time on Tensor Cores, judged by kernel names.",
        better="more",
    ),
    Column(
        "tensor_core_unknown_pct",
        Unit.PCT,
        "Share of kernel time in kernels whose name does not show whether they use Tensor Cores.",
    ),
    *(
        column
        for name, words in _DIRECTIONS.items()
        for column in (
            Column(f"{name}_bytes_sum", Unit.BYTES, f"Bytes of {words} copies.", better="less"),
            Column(
                f"{name}_bytes_per_s",
                Unit.BYTES_PER_S,
                f"Bytes of {words} copies divided by their total duration.",
                better="more",
            ),
            duration_column(f"{name}_sum_ns", f"Total duration of {words} copies."),
        )
    ),
    duration_column("um_sum_ns", "Total duration of page migrations."),
    Column("top_kernel", Unit.TEXT, "Name of the kernel with the most time in the breakdown."),
    duration_column("top_kernel_sum_ns", "Total duration of that kernel within the breakdown."),
    Column("top_call", Unit.TEXT, "Name of the API function with the most time."),
    duration_column("top_call_sum_ns", "Sum of its durations."),
    Column("top_copy", Unit.TEXT, "Direction of the largest copy."),
    Column("top_copy_bytes", Unit.BYTES, "Bytes of the largest copy."),
    duration_column("top_copy_ns", "Duration of the largest copy."),
    Column("top_gap_start_ns", Unit.NS, "Start of the longest idle gap."),
    duration_column("top_gap_ns", "Length of the longest idle gap."),
)

Row = dict[str, Any]


def partial(timeline: Timeline, request: Request) -> list[Row]:
    """Return one row per device with GPU operations; of totals alone one row, without an account."""
    profile = timeline.profile
    version = profile.attributes["tool_version"]
    tool = " ".join(filter(None, (profile.ref.source.partition("_")[0], version)))
    if Fact.KERNELS not in profile.facts:
        return [row | {"tool": tool} for row in _rows_of_totals(timeline)]
    names = {row["device_id"]: row["name"] for row in profile.rows("device")}
    calls = _Calls(timeline)
    shared: Row = {"tool": tool}
    if count := step_count(timeline, request.steps):
        shared |= {"step_count": count, "steps": resolved(timeline, request.steps).words}
        shared["phases"] = phases_in_words(timeline, request.steps)
    return [_row(timeline, device, names, calls) | shared for device in timeline.devices]


class Rows:
    """Puts the rows of several profiles below each other."""

    def __init__(self, request: Request) -> None:
        """Start without rows."""
        self._rows: list[Row] = []
        self._profiles: list[ProfileRef] = []

    def add(self, ref: ProfileRef, partial: list[Row]) -> None:
        """Add the rows of one profile."""
        self._profiles.append(ref)
        self._rows += [{"profile": ref.label, **row} for row in partial]

    def result(self) -> Result:
        """Return all rows, in the order of their ranks."""
        by_process = cycles_of(self._profiles).by_process(self._rows, "rank", "device_id")
        rows = list(map(_over_cycles, by_process))
        rows.sort(key=lambda row: (row["rank"] is None, row["rank"] or 0))
        return Result(values_by_column(rows, COLUMNS))


# Shares and rates are of the sum of what they are measured by; of the largest one cycle's is shown.
_MEASURED_BY = {
    "busy_pct": "span_ns",
    "launch_bound_pct": "window_ns",
    "tensor_core_pct": "kernel_sum_ns",
    "tensor_core_unknown_pct": "kernel_sum_ns",
    **{f"{name}_bytes_per_s": f"{name}_sum_ns" for name in _DIRECTIONS},
}
_LARGEST = {
    "top_kernel_sum_ns": "top_kernel",
    "top_call_sum_ns": "top_call",
    "top_copy_bytes": "top_copy",
    "top_copy_ns": "top_copy",
    "top_gap_ns": "top_gap_start_ns",
}


def _over_cycles(rows: list[Row]) -> Row:
    whole = added_up(rows, COLUMNS)
    if len(rows) == 1:
        return whole
    for share, of in _MEASURED_BY.items():
        known = [row for row in rows if row.get(share) is not None and row.get(of)]
        if known:
            weight = sum(row[of] for row in known)
            whole[share] = sum(row[share] * row[of] for row in known) / weight
    for size, what in _LARGEST.items():
        largest = max(rows, key=lambda row: row.get(size) or 0)
        whole |= {size: largest.get(size), what: largest.get(what)}
    return whole | {name: rows[0].get(name) for name in ("span_start_ns", "window_start_ns")}


def _row(timeline: Timeline, device: int, names: Mapping[Any, Any], calls: _Calls) -> Row:
    pids = timeline.pids_on(device)
    row: Row = {
        "rank": timeline.rank_of(pids),
        "device_id": device,
        "device": names.get(device),
        **_transfers(timeline, device),
        **_migrations(timeline, device),
        **calls.figures(pids),
        **_longest_gap(timeline, device),
    }
    own, made = window(timeline, device, timeline.ops_on(device)), default_account(timeline, device)
    if made is None:
        return row
    span = made.span
    row |= {"span_start_ns": span.start, "span_ns": span.length, **_account_values(timeline, made)}
    if own is not None:
        row |= {"window_start_ns": own.start, "window_ns": own.length}
        if Fact.API_LINKS in timeline.profile.facts and not timeline.clocks_disagree:
            waited = made.times["idle_host"] + made.times["idle_launch"]
            row["launch_bound_pct"] = float(percent(waited, own.length or 1))
    return row


def _account_values(timeline: Timeline, made: Account) -> Row:
    busy = sum(made.times[name] for name in OPERATION_CLASSES)
    kernels = [
        entry for entry in made.entries if entry.part in ("computation", "communication")
        and entry.name != GRAPH_LAUNCH
    ]  # fmt: skip
    by_name: dict[str, int] = {}
    for entry in kernels:
        by_name[entry.name] = by_name.get(entry.name, 0) + entry.sum_ns
    top = max(by_name, key=lambda name: by_name[name], default=None)
    whole = sum(by_name.values())
    by_use = dict.fromkeys(ANSWERS, 0)
    uses = uses_tensor_cores(timeline, list(by_name))
    for use, spent in zip(uses, by_name.values(), strict=True):
        by_use[use] += spent
    return {
        **{
            column: None if name in made.not_recorded else made.times[name]
            for name, column in TIME_CLASS_COLUMNS.items()
        },
        "busy_ns": busy,
        "busy_pct": float(percent(busy, made.span.length or 1)),
        "kernel_count": sum(entry.count for entry in kernels),
        "kernel_sum_ns": whole,
        "tensor_core_pct": float(percent(by_use[ANSWERS[YES]], whole)),
        "tensor_core_unknown_pct": float(percent(by_use[ANSWERS[UNKNOWN]], whole)),
        "top_kernel": top,
        "top_kernel_sum_ns": None if top is None else by_name[top],
    }


def _transfers(timeline: Timeline, device: int) -> Row:
    if Fact.MEMCPYS not in timeline.profile.facts:
        return {}
    ops = timeline.ops_on(device)
    copies = ops.take(ops.kind == OpKind.MEMCPY)
    column = timeline.profile.columns("memcpy", ("direction", "bytes"))
    direction, size = (column[name][copies.row] for name in ("direction", "bytes"))
    size = np.where(size == MISSING, 0, size)
    row: Row = {}
    for name, words in _DIRECTIONS.items():
        mine = direction == DIRECTIONS.index(words)
        moved, took = int(size[mine].sum()), int(copies.dur[mine].sum())
        row[f"{name}_bytes_sum"] = moved
        row[f"{name}_bytes_per_s"] = moved * 1e9 / took if took else None
        row[f"{name}_sum_ns"] = took
    if len(size):
        top = int(size.argmax())
        row["top_copy"] = direction_names(direction[top : top + 1])[0]
        row["top_copy_bytes"], row["top_copy_ns"] = int(size[top]), int(copies.dur[top])
    return row


def _migrations(timeline: Timeline, device: int) -> Row:
    if Fact.UNIFIED_MEMORY not in timeline.profile.facts:
        return {}
    ops = timeline.ops_on(device)
    return {"um_sum_ns": int(ops.dur.sum(where=ops.kind == OpKind.MIGRATION))}


def _longest_gap(timeline: Timeline, device: int) -> Row:
    for found in gaps(timeline, "no_op"):
        top = longest(found.start, found.end) if found.device == device else None
        if top is not None:
            start, end = int(found.start[top]), int(found.end[top])
            return {"top_gap_start_ns": start, "top_gap_ns": end - start}
    return {}


class _Calls:
    # Sums of API calls of processes; the same for all devices of a process.
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._known: dict[tuple[int, ...], Row] = {}

    def figures(self, pids: Array) -> Row:
        processes = tuple(map(int, distinct(pids)))
        if processes not in self._known:
            self._known[processes] = self._figures(processes)
        return self._known[processes]

    def _figures(self, pids: Sequence[int]) -> Row:
        timeline = self._timeline
        if Fact.API_CALLS not in timeline.profile.facts:
            return {}
        times = [outer_call_time(timeline, pid) for pid in pids]
        row: Row = {"api_sum_ns": None if None in times else sum(t for t in times if t is not None)}
        calls = timeline.calls
        mine = timeline.calls_in_slice & calls.of_processes(np.array(pids))
        if mine.any():
            group, (ids,) = factorize(calls.name_id)
            count, spent = np.zeros((2, len(ids)), np.int64)
            for block in blocks(len(calls)):
                members = take(group[block], mine[block])
                lasted = take(calls.end[block] - calls.start[block], mine[block])
                count += counts(members, len(ids))
                spent += sums(members, lasted, len(ids))
            by_name: dict[str, int] = {}
            for i in np.flatnonzero(count).tolist():
                name = timeline.call_names[int(ids[i])]
                by_name[name] = by_name.get(name, 0) + int(spent[i])
            row["top_call"] = max(by_name, key=lambda name: by_name[name])
            row["top_call_sum_ns"] = by_name[row["top_call"]]
        return row


def _rows_of_totals(timeline: Timeline) -> list[Row]:
    # Totals have no time in which they ran: no account, no gap.
    row: Row = {"rank": None}
    recorded = {kind: totals(timeline, kind) for kind in (KERNEL, API_CALL, MEMCPY, MIGRATION)}
    if any(recorded.values()):
        row["rank"] = rank_of(timeline, combine(t for each in recorded.values() for t in each))
    if kernels := recorded[KERNEL]:
        whole = combine(kernels)
        row |= {"kernel_count": whole.count, "kernel_sum_ns": whole.sum_ns}
        row |= _top("top_kernel", kernels)
    if recorded[API_CALL]:
        row |= _top("top_call", recorded[API_CALL])
    for name, words in _DIRECTIONS.items():
        mine = [t for t in recorded[MEMCPY] if t.direction == DIRECTIONS.index(words)]
        if mine:
            whole = combine(mine)
            row |= {f"{name}_bytes_sum": whole.bytes_sum, f"{name}_sum_ns": whole.sum_ns}
    if recorded[MIGRATION]:
        row["um_sum_ns"] = combine(recorded[MIGRATION]).sum_ns
    return [row] if len(row) > 1 else []


def _top(prefix: str, recorded: Sequence[Total]) -> Row:
    by_name: dict[str, int] = {}
    for each in recorded:
        if each.sum_ns is not None:
            by_name[each.name] = by_name.get(each.name, 0) + each.sum_ns
    if not by_name:
        return {}
    top = max(by_name, key=lambda name: by_name[name])
    return {prefix: top, f"{prefix}_sum_ns": by_name[top]}


SUMMARY = Query(columns=COLUMNS, over_ranks=OverRanks(partial, Rows))
