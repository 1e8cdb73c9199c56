"""Sampled metrics over time: of each the least, mean and greatest value in equal parts of the time."""

from __future__ import annotations

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.queries.columns import BY_DEVICE, count_column, ranks_by_group, rows_at
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request
from nsysconv.queries.event_lanes import extent
from nsysconv.queries.metrics import (
    KEYS,
    KIND,
    METRIC,
    UNIT,
    in_order,
    metric_groups,
    sampled_values,
)
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import counts, factorize
from nsysconv.timeline.intervals import equal_parts
from nsysconv.timeline.timeline import Timeline

MOST_BINS = 100_000

COLUMNS = (
    *BY_DEVICE,
    METRIC,
    KIND,
    UNIT,
    Column("bin", Unit.ID, "Number of the bin, from 0, the same time for all metrics.", key=True),
    Column("start_ns", Unit.NS, "Start of the bin."),
    Column("dur_ns", Unit.NS, "Length of the bin.", brief=False),
    count_column("sample_count", "Number of samples in the bin; bins without one have no row."),
    Column("value_avg", Unit.REAL, "Mean of the samples."),
    Column("value_min", Unit.REAL, "Least of the samples."),
    Column("value_max", Unit.REAL, "Greatest of the samples."),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per metric and bin with a sample, by metric and time; none of metrics of kernels."""
    columns = timeline.columns("metric_sample", (*KEYS, "start_ns"))
    group, keys = metric_groups(timeline, columns)
    average, least, greatest = sampled_values(timeline)
    start = columns["start_ns"]
    edges = _edges(timeline, request, start[start != MISSING])
    place = np.searchsorted(edges, start, side="right") - 1
    of_kernels = np.array([key[2] is not None for key in keys], bool)
    shown = (start != MISSING) & (place >= 0) & (place < len(edges) - 1) & ~np.isnan(average)
    shown &= ~of_kernels[group] if len(keys) else shown
    row, (metric, number) = factorize(group[shown], place[shown])
    count = len(metric)
    samples = counts(row, count)
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, row, least[shown])
    np.maximum.at(high, row, greatest[shown])
    rank = np.empty(len(keys), np.int64)
    rank[in_order(keys)] = np.arange(len(keys))
    order = np.lexsort((number, rank[metric]))
    of_metric = [keys[i] for i in metric.tolist()]
    values = {
        "rank": ranks_by_group(timeline, columns["pid"][shown], row, count),
        "device_id": [key[0] for key in of_metric],
        "metric": [key[1] for key in of_metric],
        "kind": [key[3] for key in of_metric],
        "unit": [key[4] for key in of_metric],
        "bin": number,
        "start_ns": edges[number],
        "dur_ns": edges[number + 1] - edges[number],
        "sample_count": samples,
        "value_avg": np.bincount(row, average[shown], count) / np.maximum(samples, 1),
        "value_min": low,
        "value_max": high,
    }
    return rows_at(values, order)


METRICS_OVER_TIME = Query(
    options=(
        Option("bins", 60, f"Number of equal bins of the time, {MOST_BINS} at most."),
        Option(
            "window",
            "samples",
            "Without a slice, what is cut into bins: the time from the first sample to the last "
            "(samples), or from the first event to the last (events).",
        ),
    ),
    columns=COLUMNS,
    compute=compute,
)


def _edges(timeline: Timeline, request: Request, sampled: Array) -> Array:
    bins, window = request.options["bins"], request.options["window"]
    if not 1 <= bins <= MOST_BINS:
        raise UsageError(f"bins={bins}: there are 1 to {MOST_BINS} bins")
    if window not in ("samples", "events"):
        raise UsageError(f"window={window}: no such time", hint="There are: samples, events.")
    when = timeline.slice_description or {}
    span = extent(timeline, request) if window == "events" or "start_ns" in when else None
    if span is None:
        span = (int(sampled.min()), int(sampled.max()) + 1) if len(sampled) else (0, 1)
    return equal_parts(*span, bins)
