"""Metrics as people read them: of kernels as a pivot, of samples a row each, values with their unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nsysconv.document import Section, Text
from nsysconv.names import shorten_kernel
from nsysconv.report import Column, Unit, human, report_table

_Row = Mapping[str, Any]

_MOST_ACROSS = 8
_LONGEST_HEADER = 24
_LONG_NUMBER = 1000
_PLACE = ("profile", "rank", "device_id")
_SAMPLED = {
    "mean": ("value_avg", "Their mean."),
    "least": ("value_min", "The least."),
    "greatest": ("value_max", "The greatest."),
}


def pivot(report: Section) -> Section:
    """Return the report `metrics` as people read it.

    Metrics of kernels have a row per kernel and a column per metric, or the other way round: what there
    is less of goes across. Samples, which are of no kernel, have a row per metric.
    """
    rows = report.rows()
    if any(row["kernel"] is None for row in rows):
        return _samples(report, rows)
    return _of_kernels(report, rows) if rows else report


def _samples(report: Section, rows: Sequence[_Row]) -> Section:
    keys = ["metric", *(["kernel"] if any(row["kernel"] is not None for row in rows) else [])]
    columns = {
        header: Column(header, Unit.TEXT, doc)
        for header, doc in (("samples", "How many."), *((h, d) for h, (_, d) in _SAMPLED.items()))
    }
    values = {
        "samples": [f"{row['sample_count']:,}" for row in rows],
        **{h: [_in_words(row, name) for row in rows] for h, (name, _) in _SAMPLED.items()},
    }
    return _table(report, "Metrics, sampled", rows, keys, columns, values, ())


def _of_kernels(report: Section, rows: Sequence[_Row]) -> Section:
    labels = _labels(rows)
    names = [labels[_metric(row)] for row in rows]
    largest, executions = dict.fromkeys(names, 0.0), {row["kernel"]: 0 for row in rows}
    for row, name in zip(rows, names, strict=True):
        value = max(abs(row[each] or 0) for each in ("value_avg", "value_min", "value_max"))
        largest[name] = max(largest[name], value)
        executions[row["kernel"]] = max(executions[row["kernel"]], row["sample_count"] or 0)
    metrics = [name for name, value in largest.items() if value]
    kernels = sorted(executions, key=lambda name: (-executions[name], name))
    is_transposed = len(metrics) > len(kernels)
    across = kernels if is_transposed else metrics
    cells: dict[tuple[Any, ...], dict[str, str]] = {}
    first: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row, name in zip(rows, names, strict=True):
        if largest[name]:
            down, other = (name, row["kernel"]) if is_transposed else (row["kernel"], name)
            key = (*(row[place] for place in _PLACE), down)
            cells.setdefault(key, {})[other] = _in_words(row, "value_avg")
            first.setdefault(key, {**row, "metric": name})
    headers = _headers(across[:_MOST_ACROSS])
    left_out = []
    if zero := len(largest) - len(metrics):
        left_out.append(f"Left out: {zero:,} metrics that are 0 in every kernel.")
    if len(across) > _MOST_ACROSS:
        which = "kernels with the most executions" if is_transposed else "metrics"
        left_out.append(
            f"The first {_MOST_ACROSS} of {len(across):,} {which}; --format csv has all."
        )
    return _table(
        report,
        "Kernel metrics, averaged over executions",
        list(first.values()),
        ["metric" if is_transposed else "kernel"],
        {h: Column(h, Unit.TEXT, f"Mean over the executions: {n}.") for n, h in headers.items()},
        {h: [of_row.get(n, "-") for of_row in cells.values()] for n, h in headers.items()},
        left_out,
    )


def _table(
    report: Section,
    title: str,
    rows: Sequence[_Row],
    keys: Sequence[str],
    columns: Mapping[str, Column],
    values: Mapping[str, Sequence[str]],
    left_out: Sequence[str],
) -> Section:
    # Where all rows are of one device, that is not news.
    kept = [name for name in _PLACE if len({row[name] for row in rows}) > 1] + [*keys]
    declared = {column.name: column for column in report.columns}
    every = (*(declared[name] for name in kept), *columns.values())
    data: dict[str, Sequence[Any]] = {name: [row[name] for row in rows] for name in kept}
    data |= {header: _aligned(cells) for header, cells in values.items()}
    return replace(
        report,
        title=title,
        columns=every,
        table=report_table(every, data),
        row_count=len(rows),
        texts=(Text("", tuple(left_out)),) if left_out else (),
    )


def _metric(row: _Row) -> tuple[Any, ...]:
    return row["metric"], row["kind"], row["unit"]


def _labels(rows: Iterable[_Row]) -> dict[tuple[Any, ...], str]:
    # One name may be that of a metric and of an event, or have two units.
    metrics = dict.fromkeys(map(_metric, rows))
    names = [name for name, _, _ in metrics]
    return {
        key: key[0]
        if names.count(key[0]) == 1
        else f"{key[0]} ({', '.join(filter(None, key[1:]))})"
        for key in metrics
    }


def _headers(names: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name in names:
        short = shorten_kernel(name, _LONGEST_HEADER)
        taken = {*headers.values(), *_PLACE, "metric", "kernel"}
        headers[name] = short if short not in taken else f"{short} [{len(headers) + 1}]"
    return headers


def _in_words(row: _Row, name: str) -> str:
    value, unit = row[name], row["unit"]
    if value is None:
        return "-"
    if unit in (Unit.PCT, Unit.BYTES, Unit.BYTES_PER_S):
        return human(value, Unit(unit))
    if unit == "level":
        return f"{value:g} of 10"
    if unit == "Hz":
        return f"{value / 1e6:,.4g} MHz"
    is_whole = value == int(value) or abs(value) >= _LONG_NUMBER
    text = f"{value:,.0f}" if is_whole else f"{value:,.3f}"
    return text if unit in ("number", None) else f"{text} {unit}"


def _aligned(cells: Sequence[str]) -> list[str]:
    width = max(map(len, cells), default=0)
    return [cell.rjust(width) for cell in cells]
