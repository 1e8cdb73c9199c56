"""One row per metric: what was measured in kernels, or sampled while the program ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nsysconv import codes
from nsysconv.queries.columns import (
    BY_DEVICE,
    code_name,
    count_column,
    key_column,
    ranks_by_group,
    rows_at,
)
from nsysconv.queries.contract import Array, ColumnValues, Query, Request
from nsysconv.report import MISSING, Column, Unit, values_of
from nsysconv.timeline.arrays import factorize, sums
from nsysconv.timeline.timeline import Timeline

METRIC = key_column("metric", "Name of the metric or event in the source.")
KIND = Column(
    "kind", Unit.TEXT, "metric, or event (a raw hardware counter).", key=True, brief=False
)
UNIT = key_column("unit", "Unit of the values; level: utilization level from 0 (idle) to 10 (max).")

COLUMNS = (
    *BY_DEVICE,
    METRIC,
    key_column(
        "kernel", "Kernel in which it was measured; null: sampled independently of kernels."
    ),
    KIND,
    UNIT,
    count_column(
        "sample_count", "Number of samples, or of measured executions for kernel metrics."
    ),
    Column("value_avg", Unit.REAL, "Mean over samples or executions, unweighted."),
    Column("value_min", Unit.REAL, "Minimum."),
    Column("value_max", Unit.REAL, "Maximum."),
)

MetricKey = tuple[int | None, str, str | None, str | None, str | None]

KEYS = ("pid", "device_id", "name_id", "kernel_name_id", "kind", "unit")
"""The columns that say of which metric a row is."""
_VALUES = ("value_avg", "value_min", "value_max")
_ROWS_AT_ONCE = 1 << 16


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per device, metric, kernel and unit, by name."""
    return values_of_metrics(timeline, None)


def values_of_metrics(timeline: Timeline, kept: Array | None) -> ColumnValues:
    """Return the values of the report for these samples of the time line, a mask; None: all of them."""
    columns = timeline.columns("metric_sample", (*KEYS, "execution_count"))
    average, least, greatest = sampled_values(timeline)
    if kept is not None:
        columns = {name: values[kept] for name, values in columns.items()}
        average, least, greatest = (values[kept] for values in (average, least, greatest))
    group, keys = metric_groups(timeline, columns)
    count = len(keys)
    executions = np.where(columns["execution_count"] == MISSING, 1, columns["execution_count"])
    known = ~np.isnan(average)
    weight = sums(group[known], executions[known], count)
    spent = np.bincount(group[known], average[known] * executions[known], count)
    with np.errstate(invalid="ignore"):
        mean = spent / np.where(weight > 0, weight, np.nan)
    low, high = np.full(count, np.nan), np.full(count, np.nan)
    np.fmin.at(low, group, least)
    np.fmax.at(high, group, greatest)
    order = in_order(keys)
    names = ("device_id", "metric", "kernel", "kind", "unit")
    values = {
        "rank": ranks_by_group(timeline, columns["pid"], group, count),
        **{name: [key[place] for key in keys] for place, name in enumerate(names)},
        "sample_count": sums(group, executions, count),
        "value_avg": mean,
        "value_min": low,
        "value_max": high,
    }
    return rows_at(values, order)


METRICS = Query(columns=COLUMNS, compute=compute)


def metric_groups(timeline: Timeline, samples: dict[str, Array]) -> tuple[Array, list[MetricKey]]:
    """Return the group of each row, and of each group its device, metric, kernel, kind and unit.

    `samples` are the columns KEYS of the rows.
    """
    by_ids, keys = factorize(*(samples[name] for name in KEYS[1:]))
    texts = timeline.profile.names(np.unique(np.concatenate(keys[1:3])))
    places: dict[MetricKey, int] = {}
    group_by_ids = []
    for device, name, kernel, kind, unit in zip(*(c.tolist() for c in keys), strict=True):
        key = (
            None if device == MISSING else device,
            texts[name],
            None if kernel == MISSING else texts[kernel],
            code_name(codes.METRIC_KINDS, kind),
            code_name(codes.METRIC_UNITS, unit),
        )
        group_by_ids.append(places.setdefault(key, len(places)))
    return np.array(group_by_ids, np.int64)[by_ids], list(places)


def in_order(keys: Sequence[MetricKey]) -> list[int]:
    """Return the places of groups by device, metric, kernel, kind and unit; those without come first."""
    return sorted(range(len(keys)), key=lambda i: [_null_first(value) for value in keys[i]])


def sampled_values(timeline: Timeline) -> Iterator[Array]:
    """Yield mean, least and greatest of each row (of one sample the same); NaN: not recorded."""
    parts = [
        [values_of(batch.column(name), np.nan).astype(np.float64) for name in _VALUES]
        for batch in timeline.profile.batches("metric_sample", _ROWS_AT_ONCE)
    ]
    average, least, greatest = (
        np.concatenate([np.empty(0), *column])
        for column in (zip(*parts, strict=True) if parts else ((),) * 3)
    )
    selected = slice(None) if timeline.is_whole else timeline.rows("metric_sample")
    for values in (average, least, greatest):
        yield np.where(np.isnan(values), average, values)[selected]


def _null_first(value: int | str | None) -> tuple[bool, int | str]:
    return (False, 0) if value is None else (True, value)
