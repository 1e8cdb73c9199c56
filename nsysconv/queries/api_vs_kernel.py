"""API time against the GPU time that the calls launched, per API function."""

from __future__ import annotations

import numpy as np

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.queries.contract import PROFILE, RANK, Array, Data, Request, in_part, ranks_by_group
from nsysconv.report import MISSING, Column
from nsysconv.timeline.intervals import counts, sums
from nsysconv.timeline.ops import Kind
from nsysconv.timeline.statistics import number
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

TITLE = "API time against GPU time"
NEEDS = frozenset({Fact.API_CALLS})
USES = frozenset({Fact.API_LINKS, Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS})
COLUMNS = (
    PROFILE,
    RANK,
    Column("layer", Unit.TEXT, "runtime or driver.", key=True),
    Column(
        "name",
        Unit.TEXT,
        "Documented name of the function; `[no API call]`: GPU operations without a recorded call.",
        key=True,
    ),
    Column("call_count", Unit.COUNT, "Calls."),
    Column(
        "api_sum_ns",
        Unit.NS,
        "Sum of their durations, calls inside other calls included.",
        better="less",
    ),
    Column("gpu_op_count", Unit.COUNT, "GPU operations they launched.", brief=False),
    Column("kernel_count", Unit.COUNT, "Kernels among those."),
    Column("kernel_sum_ns", Unit.NS, "Sum of the kernels' durations.", better="less"),
    Column("memcpy_sum_ns", Unit.NS, "Sum of the copies' durations.", better="less"),
    Column("memset_sum_ns", Unit.NS, "Sum of the sets' durations.", better="less", brief=False),
    Column(
        "launch_latency_avg_ns",
        Unit.NS,
        "Mean time from a call's start to its first operation's "
        "start, over calls whose operation does not start before them.",
        better="less",
        real=True,
        brief=False,
    ),
    Column(
        "queue_count",
        Unit.COUNT,
        "Calls whose first operation starts after they return.",
        brief=False,
    ),
    Column(
        "queue_avg_ns",
        Unit.NS,
        "Mean time from those calls' end to that start.",
        better="less",
        real=True,
        brief=False,
    ),
)

NO_CALL = "[no API call]"


def compute(timeline: Timeline, request: Request) -> Data:
    """One row per layer and function, most API time first; then operations without a call."""
    calls, ops = timeline.calls, timeline.ops
    called = in_part(request, calls.start, calls.end)
    group, layers, names = _groups(timeline)
    count = len(layers)
    per_call = calls.end - calls.start
    data: dict[str, Array] = {
        "call_count": counts(group[called], count),
        "api_sum_ns": sums(group[called], per_call[called], count),
    }
    linked = Fact.API_LINKS in timeline.profile.facts
    if linked:
        ran = in_part(request, ops.start, ops.end)
        # Operations without a call form one more group.
        op_group = np.where(timeline.owner >= 0, group[timeline.owner] if len(group) else 0, count)
        data = {name: np.append(values, MISSING) for name, values in data.items()}
        data.update(_gpu_sums(timeline, op_group, ran, count + 1))
        data.update(_latencies(timeline, group, called, count + 1))
        layers, names = [*layers, None], [*names, NO_CALL]
    else:
        for column in COLUMNS[6:]:
            data[column.name] = np.full(count, np.nan if column.real else MISSING)
    rank = ranks_by_group(timeline, calls.pid[called], group[called], count)
    rank += [timeline.rank_of(ops.pid[timeline.owner < 0])] if linked else []
    order = [
        i
        for i in sorted(
            range(len(names)),
            key=lambda i: (
                names[i] == NO_CALL,
                -int(data["api_sum_ns"][i]),
                names[i],
                layers[i] or "",
            ),
        )
        if data["call_count"][i] > 0 or data["gpu_op_count"][i] > 0
    ]
    at = np.array(order, np.int64)
    return {
        "rank": [rank[i] for i in order],
        "layer": [layers[i] for i in order],
        "name": [names[i] for i in order],
        **{column.name: data[column.name][at] for column in COLUMNS[4:]},
    }


def _groups(timeline: Timeline) -> tuple[Array, list[str | None], list[str]]:
    """Per call its group; per group the layer and the plain name (two versions of one are one)."""
    calls = timeline.calls
    pair, (layer_codes, name_ids) = number(calls.layer, calls.name_id)
    places: dict[tuple[int, str], int] = {}
    merged = np.array(
        [
            places.setdefault((layer, timeline.call_names[name_id]), len(places))
            for layer, name_id in zip(layer_codes.tolist(), name_ids.tolist(), strict=True)
        ],
        np.int64,
    )
    layers: list[str | None] = [
        schema.API_LAYERS[layer] if layer in range(len(schema.API_LAYERS)) else None
        for layer, _ in places
    ]
    return merged[pair] if len(merged) else pair, layers, [name for _, name in places]


def _gpu_sums(timeline: Timeline, group: Array, ran: Array, count: int) -> dict[str, Array]:
    ops = timeline.ops
    dur = ops.dur
    result = {"gpu_op_count": counts(group[ran], count)}
    for name, kind in (("kernel", Kind.KERNEL), ("memcpy", Kind.MEMCPY), ("memset", Kind.MEMSET)):
        mine = ran & (ops.kind == kind)
        result[f"{name}_sum_ns"] = sums(group[mine], dur[mine], count)
        if kind is Kind.KERNEL:
            result["kernel_count"] = counts(group[mine], count)
    return result


def _latencies(timeline: Timeline, group: Array, called: Array, count: int) -> dict[str, Array]:
    """Means over calls: one call with many operations has one latency, that of the first."""
    calls, ops, owner = timeline.calls, timeline.ops, timeline.owner
    if timeline.clocks_disagree:
        nothing = np.full(count, np.nan)
        return {
            "launch_latency_avg_ns": nothing,
            "queue_count": np.full(count, MISSING),
            "queue_avg_ns": nothing,
        }
    # Operations are sorted by start: written backwards, the first of each call stays.
    first = np.full(len(calls), -1, np.int64)
    having = np.flatnonzero((owner >= 0) & ops.timed)[::-1]
    first[owner[having]] = having
    launching = np.flatnonzero((first >= 0) & called)
    start = ops.start[first[launching]]
    latency = start - calls.start[launching]
    queue = start - calls.end[launching]
    told, queued = latency >= 0, (queue >= 0) & (latency >= 0)

    def mean(values: Array, which: Array) -> tuple[Array, Array]:
        groups = group[launching[which]]
        number_of = counts(groups, count)
        with np.errstate(invalid="ignore"):
            return np.where(
                number_of > 0, sums(groups, values[which], count) / np.maximum(number_of, 1), np.nan
            ), number_of

    latency_mean, _ = mean(latency, told)
    queue_mean, queue_count = mean(queue, queued)
    return {
        "launch_latency_avg_ns": latency_mean,
        "queue_count": queue_count,
        "queue_avg_ns": queue_mean,
    }
