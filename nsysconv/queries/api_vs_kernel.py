"""API time against the GPU time that the calls launched, per API function."""

from __future__ import annotations

import numpy as np

from nsysconv.codes import API_LAYERS
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    PROFILE,
    RANK,
    call_groups,
    code_name,
    count_column,
    duration_column,
    key_column,
    per_step,
    ranks_by_group,
    rows_at,
    sum_column,
    with_per_step,
)
from nsysconv.queries.contract import Array, ColumnValues, Query, Request, Result
from nsysconv.report import MISSING, Picture
from nsysconv.timeline.arrays import blocks, counts, sums, take
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.steps import STEP_FACTS
from nsysconv.timeline.timeline import Timeline, first_ops
from nsysconv.timeline.totals import API_CALL, combine_by, rank_of, totals

LAYER = key_column("layer", "runtime or driver.")
LAUNCH_LATENCY = duration_column(
    "launch_latency_avg_ns",
    "Mean time from a call's start to its first operation's start, over calls whose operation "
    "does not start before them.",
    real=True,
    brief=False,
)
QUEUE_COUNT = count_column(
    "queue_count", "Calls whose first operation starts after they return.", brief=False
)
COLUMNS = (
    PROFILE,
    RANK,
    LAYER,
    key_column(
        "name",
        "Documented name of the function; `[no API call]`: GPU operations without a recorded call.",
    ),
    count_column("call_count", "Calls."),
    sum_column(
        "api_sum_ns", "Sum of their durations, calls inside other calls included.", "call_count"
    ),
    per_step("per_step_ns", "api_sum_ns"),
    count_column("gpu_op_count", "GPU operations they launched.", brief=False),
    sum_column(
        "gpu_op_sum_ns",
        "Sum of these operations' durations: kernels, copies, sets, migrations and graphs.",
        "gpu_op_count",
        brief=False,
    ),
    count_column("kernel_count", "Kernels among those."),
    sum_column("kernel_sum_ns", "Sum of the kernels' durations.", "kernel_count"),
    duration_column("memcpy_sum_ns", "Sum of the copies' durations.", adds=True),
    duration_column("memset_sum_ns", "Sum of the sets' durations.", brief=False, adds=True),
    LAUNCH_LATENCY,
    QUEUE_COUNT,
    duration_column(
        "queue_avg_ns", "Mean time from those calls' end to that start.", real=True, brief=False
    ),
)

NO_CALL = "[no API call]"

# The columns of the operations that calls launched.
_OP_COLUMNS = COLUMNS[7:]


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per layer and function, most API time first; then operations without a call."""
    recorded = Fact.API_CALLS in timeline.profile.facts
    values = _from_events(timeline) if recorded else _from_totals(timeline)
    return with_per_step(values, timeline, request, {"per_step_ns": "api_sum_ns"})


API_VS_KERNEL = Query(
    title="API time against GPU time",
    needs={Fact.API_CALLS},
    uses={Fact.API_LINKS, Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, *STEP_FACTS},
    totals={Fact.API_TOTALS},
    columns=COLUMNS,
    picture=Picture(
        "bars", x=("layer", "name"), values=("api_sum_ns", "gpu_op_sum_ns"), by=("rank",)
    ),
    compute=compute,
)


def _from_events(timeline: Timeline) -> ColumnValues:
    calls, ops = timeline.calls, timeline.ops
    group, (layers, names) = call_groups(timeline, calls.layer, calls.name_id)
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
    linked = Fact.API_LINKS in timeline.profile.facts
    if linked:
        # Operations without a call form one more group.
        values = {name: np.append(values, MISSING) for name, values in values.items()}
        values.update(_gpu_sums(timeline, group, count + 1))
        values.update(_latencies(timeline, group, count + 1))
        values["queue_count"][-1] = MISSING  # without a call nothing waits from its end on
        layers, names = [*layers, None], [*names, NO_CALL]
    else:
        for column in _OP_COLUMNS:
            values[column.name] = np.full(count, np.nan if column.real else MISSING)
    called = timeline.calls_in_slice
    rank = ranks_by_group(timeline, take(calls.pid, called), take(group, called), count)
    rank += [timeline.rank_of(ops.pid[timeline.owner < 0])] if linked else []
    spent = values["api_sum_ns"].tolist()
    order = sorted(
        np.flatnonzero((values["call_count"] > 0) | (values["gpu_op_count"] > 0)).tolist(),
        key=lambda i: (names[i] == NO_CALL, -spent[i], names[i], layers[i] or ""),
    )
    return rows_at({"rank": rank, "layer": layers, "name": names, **values}, order)


def _from_totals(timeline: Timeline) -> ColumnValues:
    # Totals do not say what a call launched.
    by_name = combine_by(
        totals(timeline, API_CALL), lambda total: (code_name(API_LAYERS, total.layer), total.name)
    )
    rows = sorted(
        ((layer, name, calls) for (layer, name), calls in by_name.items()),
        key=lambda row: (-(row[2].sum_ns or 0), row[1], row[0] or ""),
    )
    return {
        "rank": [rank_of(timeline, calls) for _, _, calls in rows],
        "layer": [layer for layer, _, _ in rows],
        "name": [name for _, name, _ in rows],
        "call_count": [calls.count for _, _, calls in rows],
        "api_sum_ns": [calls.sum_ns for _, _, calls in rows],
        **{column.name: [None] * len(rows) for column in _OP_COLUMNS},
    }


def _gpu_sums(timeline: Timeline, group: Array, count: int) -> dict[str, Array]:
    """Return per group the operations that its calls launched; in the last one, those without a call."""
    ops, kinds = timeline.ops, len(OpKind)
    cells = count * kinds
    number_of, spent = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
    for block in blocks(len(ops)):
        start, end = ops.start[block], ops.end[block]
        owner = timeline.owner[block]
        group_of = np.where(owner < 0, count - 1, group.take(owner)) if len(group) else count - 1
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
