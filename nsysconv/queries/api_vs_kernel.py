"""API time against the GPU time that the calls launched, per API function."""

from __future__ import annotations

import numpy as np

from nsysconv.codes import API_LAYERS
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    PROFILE,
    call_groups,
    code_name,
    count_column,
    duration_column,
    key_column,
    per_step,
    rows_at,
    sum_column,
    with_per_step,
)
from nsysconv.queries.contract import Array, ColumnValues, Query, Request, Result
from nsysconv.queries.split import SPLIT_RANK, place_of_totals, place_values, ranks_of, row_ranks
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import blocks, counts, distinct, sums, take
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.timeline import Timeline, first_ops
from nsysconv.timeline.totals import API_CALL, combine_by, totals

LAYER = key_column("layer", "API layer: runtime or driver.")
LAUNCH_LATENCY = duration_column(
    "launch_latency_avg_ns",
    "Mean time from the start of a call to the start of its first operation. Calls whose "
    "operation starts before them are left out.",
    real=True,
    brief=False,
)
QUEUE_COUNT = count_column(
    "queue_count",
    "Number of calls whose first operation starts after the call returned.",
    brief=False,
)
COLUMNS = (
    PROFILE,
    SPLIT_RANK,
    LAYER,
    key_column(
        "name",
        "Documented name of the API function; `[no API call]`: GPU operations without a recorded "
        "call.",
    ),
    count_column("call_count", "Number of calls."),
    sum_column(
        "api_sum_ns",
        "Total duration of the calls, including calls inside other calls.",
        "call_count",
    ),
    per_step("per_step_ns", "api_sum_ns"),
    count_column("gpu_op_count", "Number of GPU operations launched by the calls.", brief=False),
    sum_column(
        "gpu_op_sum_ns",
        "Total duration of the launched operations: kernels, copies, memsets, page migrations "
        "and graphs.",
        "gpu_op_count",
        brief=False,
    ),
    count_column("kernel_count", "Number of kernels launched by the calls."),
    sum_column("kernel_sum_ns", "Sum of the kernels' durations.", "kernel_count"),
    duration_column("memcpy_sum_ns", "Total duration of the launched copies.", adds=True),
    duration_column(
        "memset_sum_ns", "Total duration of the launched memsets.", brief=False, adds=True
    ),
    LAUNCH_LATENCY,
    QUEUE_COUNT,
    duration_column(
        "queue_avg_ns",
        "Mean time from the end of those calls to the start of their first operation.",
        real=True,
        brief=False,
    ),
)

NO_CALL = "[no API call]"

# These are the columns of the operations that calls launched.
_OP_COLUMNS = COLUMNS[7:]
# The columns of one kind of operation need its fact.
_OF_KIND = {"kernel": Fact.KERNELS, "memcpy": Fact.MEMCPYS, "memset": Fact.MEMSETS}


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per layer and function, most API time first; then operations without a call."""
    recorded = Fact.API_CALLS in timeline.profile.facts
    values = (_from_events if recorded else _from_totals)(timeline, request.split)
    return with_per_step(values, timeline, request, {"per_step_ns": "api_sum_ns"})


API_VS_KERNEL = Query(columns=COLUMNS, compute=compute)


def _from_events(timeline: Timeline, split: str | None) -> ColumnValues:
    calls, ops = timeline.calls, timeline.ops
    ranks = ranks_of(timeline, split, calls.pid)
    group, (layers, names, places) = call_groups(timeline, calls.layer, calls.name_id, ranks)
    count = len(layers)
    values: dict[str, Array] = {
        "call_count": np.zeros(count, np.int64),
        "api_sum_ns": np.zeros(count, np.int64),
    }
    for block in blocks(len(calls)):
        called = timeline.calls_in_slice[block]
        in_group = take(group[block], called)
        values["call_count"] += counts(in_group, count)
        dur = take(calls.end[block], called) - take(calls.start[block], called)
        values["api_sum_ns"] += sums(in_group, dur, count)
    facts = timeline.profile.facts
    linked = Fact.API_LINKS in facts and not facts.isdisjoint(_OF_KIND.values())
    if linked:
        # Operations without a call form one more group, or one of each rank.
        ranks = ranks_of(timeline, split, ops.pid)
        without_call = distinct(ranks)
        alone = np.broadcast_to(np.int64(count), len(ops))
        if len(without_call) > 1:
            alone = count + np.searchsorted(without_call, ranks)
        more = len(without_call)
        filled = np.full(more, MISSING)
        values = {name: np.append(values, filled) for name, values in values.items()}
        values.update(_gpu_sums(timeline, group, alone, count + more))
        values.update(_latencies(timeline, group, count + more))
        values["queue_count"][count:] = MISSING  # without a call nothing waits from its end on
        layers, names = [*layers, *[None] * more], [*names, *[NO_CALL] * more]
        places = [*places, *without_call.tolist()]
    else:
        for column in _OP_COLUMNS:
            values[column.name] = np.full(count, np.nan if column.real else MISSING)
    for prefix, fact in _OF_KIND.items():
        if fact not in facts:
            values |= {
                name: np.full(len(names), MISSING)
                for name in values
                if name.startswith(f"{prefix}_")
            }
    called = timeline.calls_in_slice
    pids, rows = take(calls.pid, called), take(group, called)
    if linked and timeline.ranks:
        launched_by_none = timeline.owner < 0
        pids = np.concatenate((pids, ops.pid[launched_by_none]))
        rows = np.concatenate((rows, alone[launched_by_none]))
    rank = row_ranks(timeline, split, pids, rows, len(names))
    spent = values["api_sum_ns"].tolist()
    order = sorted(
        np.flatnonzero((values["call_count"] > 0) | (values["gpu_op_count"] > 0)).tolist(),
        key=lambda i: (names[i] == NO_CALL, -spent[i], names[i], layers[i] or "", places[i]),
    )
    return rows_at({"rank": rank, "layer": layers, "name": names, **values}, order)


def _from_totals(timeline: Timeline, split: str | None) -> ColumnValues:
    # Totals do not say what a call launched, nor on which device.
    place = place_of_totals(timeline, "rank" if split == "rank" else None)
    by_name = combine_by(
        totals(timeline, API_CALL),
        lambda total: (place(total), code_name(API_LAYERS, total.layer), total.name),
    )
    rows = sorted(
        by_name.items(),
        key=lambda row: (-(row[1].sum_ns or 0), row[0][2], row[0][1] or "", row[0][0]),
    )
    combined = [calls for _, calls in rows]
    return {
        "rank": place_values(timeline, split, [key[0] for key, _ in rows], combined)["rank"],
        "layer": [layer for (_, layer, _), _ in rows],
        "name": [name for (_, _, name), _ in rows],
        "call_count": [calls.count for calls in combined],
        "api_sum_ns": [calls.sum_ns for calls in combined],
        **{column.name: [None] * len(rows) for column in _OP_COLUMNS},
    }


def _gpu_sums(timeline: Timeline, group: Array, alone: Array, count: int) -> dict[str, Array]:
    """Return per group the operations that its calls launched; `alone` is the group of each operation
    if it has no call.
    """
    ops, kinds = timeline.ops, len(OpKind)
    cells = count * kinds
    number_of, spent = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    for block in blocks(len(ops)):
        start, end = ops.start[block], ops.end[block]
        owner = timeline.owner[block]
        group_of = alone[block]
        if len(group):
            group_of = np.where(owner < 0, group_of, group.take(owner))
        both = group_of * kinds + ops.kind[block]
        number_of += counts(both, cells)
        spent += sums(both, end - start, cells)
    return {
        "gpu_op_count": number_of.reshape(count, kinds).sum(axis=1),
        "gpu_op_sum_ns": spent.reshape(count, kinds).sum(axis=1),
        "kernel_count": number_of[OpKind.KERNEL :: kinds],
        "kernel_sum_ns": spent[OpKind.KERNEL :: kinds],
        "memcpy_sum_ns": spent[OpKind.MEMCPY :: kinds],
        "memset_sum_ns": spent[OpKind.MEMSET :: kinds],
    }


def _latencies(timeline: Timeline, group: Array, count: int) -> dict[str, Array]:
    """Return means over calls: one call with many operations has one latency, that of the first."""
    calls = timeline.calls
    if timeline.clocks_disagree:
        means = dict.fromkeys(("launch_latency_avg_ns", "queue_avg_ns"), np.full(count, np.nan))
        return {**means, "queue_count": np.full(count, MISSING)}
    first, called, started = first_ops(timeline), timeline.calls_in_slice, timeline.whole.ops.start
    latency_count, latency_sum, queued_count, queued_sum = np.zeros((4, count), np.int64)
    for block in blocks(len(calls)):
        linked = np.flatnonzero(called[block] & (first[block] >= 0)) + block.start
        start, in_group = started.take(first.take(linked)), group.take(linked)
        latency, queue = start - calls.start.take(linked), start - calls.end.take(linked)
        for times, count_of, sum_of in (
            (latency, latency_count, latency_sum),
            (queue, queued_count, queued_sum),
        ):
            late = times >= 0
            members, late_times = take(in_group, late), take(times, late)
            count_of += counts(members, count)
            sum_of += sums(members, late_times, count)
    return {
        "launch_latency_avg_ns": latency_sum / np.where(latency_count > 0, latency_count, np.nan),
        "queue_count": queued_count,
        "queue_avg_ns": queued_sum / np.where(queued_count > 0, queued_count, np.nan),
    }
