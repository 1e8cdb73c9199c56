"""What launching costs: how long calls take, how long what they launch runs, and how long it waits."""

from __future__ import annotations

import numpy as np

from nsysconv.codes import API_LAYERS
from nsysconv.facts import Fact
from nsysconv.queries.columns import DEVICE, PROFILE, RANK, ranks_by_group
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request
from nsysconv.report import MISSING, Column, Picture
from nsysconv.timeline.arrays import counts, factorize, grouped_statistics
from nsysconv.timeline.timeline import Launches, Timeline, launches
from nsysconv.units import Unit

COLUMNS = (
    PROFILE,
    RANK,
    DEVICE,
    Column("layer", Unit.TEXT, "runtime or driver.", key=True),
    Column("name", Unit.TEXT, "Documented name of the function.", key=True),
    Column("launch_count", Unit.COUNT, "Calls that launched something."),
    Column(
        "api_sum_ns",
        Unit.NS,
        "Sum of these calls' durations.",
        better="less",
        counted_by="launch_count",
    ),
    Column("api_med_ns", Unit.NS, "Their median.", better="less", real=True),
    Column("api_max_ns", Unit.NS, "The longest.", better="less", brief=False),
    Column(
        "gpu_op_sum_ns",
        Unit.NS,
        "Sum of the durations of what they launched.",
        better="less",
        counted_by="launch_count",
    ),
    Column(
        "gpu_op_med_ns",
        Unit.NS,
        "Median over the calls of what each launched.",
        better="less",
        real=True,
    ),
    Column(
        "launch_latency_avg_ns",
        Unit.NS,
        "Mean time from a call's start to its first operation's start, over calls whose operation "
        "does not start before them.",
        better="less",
        real=True,
        brief=False,
    ),
    Column(
        "launch_latency_med_ns",
        Unit.NS,
        "Median of these times.",
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
        "queue_sum_ns",
        Unit.NS,
        "Sum of the times from those calls' end to that start.",
        better="less",
        brief=False,
        counted_by="queue_count",
    ),
    Column(
        "queue_avg_ns",
        Unit.NS,
        "Mean of these times.",
        better="less",
        real=True,
        brief=False,
    ),
    Column("queue_med_ns", Unit.NS, "Their median.", better="less", real=True),
    Column("queue_max_ns", Unit.NS, "The longest.", better="less", brief=False),
    Column(
        "short_op_count",
        Unit.COUNT,
        "Calls that are not long and took longer than what they launched.",
        better="less",
    ),
    Column(
        "long_call_count",
        Unit.COUNT,
        "Calls longer than the option long_call_ns.",
        better="less",
    ),
    Column(
        "long_queue_count",
        Unit.COUNT,
        "Calls with a queue time above the option long_queue_ns.",
        better="less",
    ),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per device and function that launched something there, most calls' time first."""
    found, calls = launches(timeline), timeline.calls
    api = calls.end[found.call] - calls.start[found.call]
    group, devices, layers, names = _groups(timeline, found)
    count = len(names)
    spent = grouped_statistics(group, api, count)
    ran = grouped_statistics(group, found.op_sum, count)
    latency = grouped_statistics(group, found.latency, count)
    queue = grouped_statistics(group, found.queue, count)
    long_call = api > request.options["long_call_ns"]
    # MISSING lies below every limit.
    long_queue = found.queue > max(request.options["long_queue_ns"], -1)
    unknown = timeline.clocks_disagree
    data = {
        "device_id": devices,
        "launch_count": spent.count,
        "api_sum_ns": spent.total,
        "api_med_ns": spent.median,
        "api_max_ns": spent.maximum,
        "gpu_op_sum_ns": ran.total,
        "gpu_op_med_ns": ran.median,
        "launch_latency_avg_ns": latency.mean,
        "launch_latency_med_ns": latency.median,
        "queue_count": _told(counts(group[found.queue != MISSING], count), unknown),
        "queue_sum_ns": _told(np.where(queue.total == MISSING, 0, queue.total), unknown),
        "queue_avg_ns": queue.mean,
        "queue_med_ns": queue.median,
        "queue_max_ns": queue.maximum,
        "short_op_count": counts(group[~long_call & (found.op_sum < api)], count),
        "long_call_count": counts(group[long_call], count),
        "long_queue_count": _told(counts(group[long_queue], count), unknown),
    }
    rank = ranks_by_group(timeline, found.pid, group, count)
    order = sorted(
        range(count),
        key=lambda i: (-int(spent.total[i]), names[i], layers[i] or "", int(devices[i])),
    )
    at = np.array(order, np.int64)
    return {
        "rank": [rank[i] for i in order],
        "layer": [layers[i] for i in order],
        "name": [names[i] for i in order],
        **{name: values[at] for name, values in data.items()},
    }


LAUNCH_STATS = Query(
    title="Launches by API function",
    needs={Fact.API_CALLS, Fact.API_LINKS},
    uses={Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.GRAPH_LAUNCHES, Fact.DEVICES},
    options=(
        Option("long_call_ns", 50_000, "Calls that take longer are counted as long."),
        Option("long_queue_ns", 100_000, "Queue times above this are counted as long."),
    ),
    columns=COLUMNS,
    picture=Picture(
        "bars",
        x=("layer", "name"),
        values=("api_sum_ns", "gpu_op_sum_ns"),
        by=("rank", "device_id"),
    ),
    compute=compute,
)


def _told(values: Array, unknown: bool) -> Array:
    return np.full(len(values), MISSING) if unknown else values


def _groups(
    timeline: Timeline, found: Launches
) -> tuple[Array, Array, list[str | None], list[str]]:
    """Per launch its group; per group the device, the layer and the plain name."""
    calls = timeline.calls
    fine, (devices, codes, ids) = factorize(
        found.device, calls.layer[found.call], calls.name_id[found.call]
    )
    places: dict[tuple[int, int, str], int] = {}
    # Two versions of a function have one plain name.
    merged = [
        places.setdefault((device, code, timeline.call_names[name_id]), len(places))
        for device, code, name_id in zip(
            devices.tolist(), codes.tolist(), ids.tolist(), strict=True
        )
    ]
    group = np.array(merged, np.int64)[fine]
    known = range(len(API_LAYERS))
    layers = [API_LAYERS[code] if code in known else None for _, code, _ in places]
    devices = np.array([device for device, _, _ in places], np.int64)
    return group, devices, layers, [name for _, _, name in places]
