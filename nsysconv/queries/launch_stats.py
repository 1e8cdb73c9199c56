"""Costs of launching: how long calls take, how long what they launch runs, and how long it waits."""

from __future__ import annotations

import numpy as np

from nsysconv.queries.api_vs_kernel import LAUNCH_LATENCY, LAYER, QUEUE_COUNT
from nsysconv.queries.columns import (
    call_groups,
    count_column,
    duration_column,
    key_column,
    rows_at,
    sum_column,
)
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request
from nsysconv.queries.split import BY_SPLIT, split_rows, spread_columns
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import counts, grouped_statistics
from nsysconv.timeline.timeline import Timeline, launches

COLUMNS = (
    *BY_SPLIT,
    LAYER,
    key_column("name", "Documented name of the function."),
    count_column("launch_count", "Number of calls that launched GPU operations."),
    sum_column("api_sum_ns", "Total duration of these calls.", "launch_count"),
    duration_column("api_med_ns", "Median duration of these calls.", real=True),
    duration_column("api_max_ns", "Longest of these calls.", brief=False),
    sum_column("gpu_op_sum_ns", "Total duration of the launched operations.", "launch_count"),
    duration_column(
        "gpu_op_med_ns",
        "Median, over calls, of the duration of the launched operations.",
        real=True,
    ),
    LAUNCH_LATENCY,
    duration_column(
        "launch_latency_med_ns", "Median of the launch latencies.", real=True, brief=False
    ),
    QUEUE_COUNT,
    sum_column(
        "queue_sum_ns",
        "Total time from the end of those calls to the start of their first operation.",
        "queue_count",
        brief=False,
    ),
    duration_column("queue_avg_ns", "Mean of these queue times.", real=True, brief=False),
    duration_column("queue_med_ns", "Median of these queue times.", real=True),
    duration_column("queue_max_ns", "Longest of these queue times.", brief=False),
    count_column(
        "short_op_count",
        "Number of calls, long ones excluded, that took longer than the operations they launched.",
        better="less",
    ),
    count_column(
        "long_call_count", "Number of calls longer than the option long_call_ns.", better="less"
    ),
    count_column(
        "long_queue_count",
        "Number of calls with a queue time above the option long_queue_ns.",
        better="less",
    ),
    *spread_columns("api_sum_ns"),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per function that launched something, most calls' time first."""
    launched, calls = launches(timeline), timeline.calls
    api = calls.end[launched.call] - calls.start[launched.call]
    layer, name_id = calls.layer[launched.call], calls.name_id[launched.call]
    function, (layers, names) = call_groups(timeline, layer, name_id)
    rows = split_rows(timeline, request.split, launched.device, launched.pid, function)
    group, count = rows.row, len(rows)
    layers, names = ([each[i] for i in rows.keys[0].tolist()] for each in (layers, names))
    api_time = grouped_statistics(group, api, count)
    op_time = grouped_statistics(group, launched.op_sum, count)
    latency = grouped_statistics(group, launched.latency, count)
    queue = grouped_statistics(group, launched.queue, count)
    long_call = api > request.options["long_call_ns"]
    # MISSING is less than any limit.
    long_queue = launched.queue > max(request.options["long_queue_ns"], -1)
    clocks_disagree = timeline.clocks_disagree
    values = {
        "rank": rows.rank,
        "device_id": rows.device_id,
        "layer": layers,
        "name": names,
        "launch_count": api_time.count,
        "api_sum_ns": api_time.total,
        "api_med_ns": api_time.median,
        "api_max_ns": api_time.maximum,
        "gpu_op_sum_ns": op_time.total,
        "gpu_op_med_ns": op_time.median,
        "launch_latency_avg_ns": latency.mean,
        "launch_latency_med_ns": latency.median,
        "queue_count": _unless(clocks_disagree, counts(group[launched.queue != MISSING], count)),
        "queue_sum_ns": _unless(clocks_disagree, np.where(queue.total == MISSING, 0, queue.total)),
        "queue_avg_ns": queue.mean,
        "queue_med_ns": queue.median,
        "queue_max_ns": queue.maximum,
        "short_op_count": counts(group[~long_call & (launched.op_sum < api)], count),
        "long_call_count": counts(group[long_call], count),
        "long_queue_count": _unless(clocks_disagree, counts(group[long_queue], count)),
        **rows.spread(api),
    }
    order = sorted(
        range(count),
        key=lambda i: (-int(api_time.total[i]), names[i], layers[i] or "", int(rows.place[i])),
    )
    return rows_at(values, order)


LAUNCH_STATS = Query(
    options=(
        Option("long_call_ns", 50_000, "Calls longer than this are counted as long."),
        Option("long_queue_ns", 100_000, "Queue times above this are counted as long."),
    ),
    columns=COLUMNS,
    compute=compute,
)


def _unless(clocks_disagree: bool, values: Array) -> Array:
    return np.full(len(values), MISSING) if clocks_disagree else values
