"""Kernel time by what kind of work kernels do, by rules on their names."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    WINDOW,
    count_column,
    duration_column,
    key_column,
    rows_at,
    sum_column,
)
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request
from nsysconv.queries.kernels import KERNEL_PCT
from nsysconv.queries.split import (
    BY_SPLIT,
    SplitRows,
    place_of_totals,
    place_values,
    split_rows,
    spread_columns,
    spread_of_totals,
)
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import by_group, counts, distinct, factorize, percent, sums, take
from nsysconv.timeline.events import GpuOps, OpKind
from nsysconv.timeline.idle import window
from nsysconv.timeline.kernel_categories import OTHER, categories, communicates, rules
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import KERNEL, Total, combine_by, totals

RULES = Option(
    "rules", None, "TOML file with rules for kernel kinds, tried before the built-in ones."
)
COMPUTATION = duration_column(
    "computation_union_ns",
    "Time with a computation kernel running, or a graph recorded as one interval.",
)
COMMUNICATION = duration_column(
    "communication_union_ns",
    "Time with a communication kernel running (category communication of `kernel_categories`).",
)
COLUMNS = (
    *BY_SPLIT,
    key_column(
        "category",
        f"Kind of work, from the first rule that matches the kernel name; `{OTHER}`: no rule matches.",
    ),
    count_column("kernel_count", "Number of executions."),
    sum_column("kernel_sum_ns", "Sum of their durations.", "kernel_count"),
    KERNEL_PCT,
    duration_column(
        "kernel_union_ns",
        "Time in the window with a kernel of this kind running, summed over devices. " + WINDOW,
        brief=False,
    ),
    count_column("name_count", "Number of different kernel names.", brief=False),
    Column("top_name", Unit.TEXT, "Kernel name with the most time."),
    *spread_columns("kernel_sum_ns"),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per category with kernels, most kernel time first."""
    path = request.options["rules"]
    if Fact.KERNELS not in timeline.profile.facts:
        return _from_totals(timeline, request.split, path)
    kernels = timeline.ops.take(timeline.ops.kind == OpKind.KERNEL)
    category, names = categories(timeline, path)
    rows = split_rows(timeline, request.split, kernels.device, kernels.pid, category[kernels.row])
    (category_numbers,), group, count = rows.keys, rows.row, len(rows)
    durations = kernels.dur
    spent = sums(group, durations, count)
    untimed = counts(group[~kernels.timed], count) == counts(group, count)
    name_count, top = _names(timeline, kernels, group, count)
    labels = [names[i] for i in category_numbers.tolist()]
    values = {
        "rank": rows.rank,
        "device_id": rows.device_id,
        "category": labels,
        "kernel_count": counts(group, count),
        "kernel_sum_ns": np.where(untimed, MISSING, spent),
        "kernel_pct": percent(spent, int(spent.sum()) or 1),
        "kernel_union_ns": _unions(timeline, kernels, rows),
        "name_count": name_count,
        "top_name": top,
        **rows.spread(np.where(kernels.timed, durations, MISSING)),
    }
    order = sorted(range(count), key=lambda i: (-int(spent[i]), labels[i], int(rows.place[i])))
    return rows_at(values, order)


KERNEL_CATEGORIES = Query(options=(RULES,), columns=COLUMNS, compute=compute)


def communicates_on(timeline: Timeline, device: int, path: str | None) -> Array:
    """Return which operations of a device communicate, as a mask; `path` is the value of RULES."""
    talks = communicates(timeline, path)
    return talks if len(timeline.devices) == 1 else take(talks, timeline.places_on(device))


def computes(ops: GpuOps, talks: Array) -> Array:
    """Return which operations are computation, as a mask: kernels that do not communicate, and graphs."""
    mask: Array = ((ops.kind == OpKind.KERNEL) & ~talks) | (ops.kind == OpKind.GRAPH)
    return mask


def _unions(timeline: Timeline, kernels: GpuOps, rows: SplitRows) -> Array:
    """Return per row the sum, over devices, of the union of its kernels inside a device's window;
    MISSING: no window.
    """
    devices = rows.device_of_cell
    result = np.full(len(rows), MISSING)
    spans = {d: window(timeline, d, timeline.ops_on(d)) for d in distinct(devices).tolist()}
    members = by_group(rows.cell, len(devices))
    places = zip(rows.row_of_cell.tolist(), devices.tolist(), members, strict=True)
    for row, device, mine in places:
        if (span := spans[device]) is not None:
            union = span.measure(kernels.start[mine], kernels.end[mine])
            result[row] = max(result[row], 0) + union
    return result


def _names(
    timeline: Timeline, kernels: GpuOps, group: Array, count: int
) -> tuple[Array, list[str | None]]:
    """Return per group how many names its kernels have, and which of them took the most time."""
    name_id = timeline.profile.columns("kernel", ("name_id",))["name_id"][kernels.row]
    pair, (groups, ids) = factorize(group, name_id)
    spent = sums(pair, kernels.dur, len(groups))
    texts = timeline.profile.names(ids)
    top: list[str | None] = [None] * count
    for i in sorted(range(len(groups)), key=lambda i: (-int(spent[i]), texts[int(ids[i])])):
        if top[int(groups[i])] is None:
            top[int(groups[i])] = texts[int(ids[i])]
    return counts(groups, count), top


def _from_totals(timeline: Timeline, split: str | None, path: str | None) -> ColumnValues:
    """Return the values from totals: without a device a row is of all devices; unions are unknown."""
    category_rules = rules(path)
    kernel_totals = totals(timeline, KERNEL)
    category = {total.name: category_rules.category(total.name) for total in kernel_totals}
    place = place_of_totals(timeline, split)

    def row_of(total: Total) -> tuple[int, str]:
        return place(total), category[total.name]

    groups = combine_by(kernel_totals, row_of)
    spent = {key: kernel.sum_ns or 0 for key, kernel in groups.items()}
    order = sorted(groups, key=lambda key: (-spent[key], key[1], key[0]))
    by_name: dict[tuple[int, str], Counter[str]] = {key: Counter() for key in groups}
    for total in kernel_totals:
        by_name[row_of(total)][total.name] += total.sum_ns or 0
    places, combined = [place for place, _ in order], [groups[key] for key in order]
    return {
        **place_values(timeline, split, places, combined),
        "category": [label for _, label in order],
        "kernel_count": [groups[key].count for key in order],
        "kernel_sum_ns": [groups[key].sum_ns for key in order],
        "kernel_pct": percent(np.array([spent[key] for key in order]), sum(spent.values()) or 1),
        "kernel_union_ns": [None] * len(order),
        "name_count": [len(by_name[key]) for key in order],
        "top_name": [
            min(by_name[key], key=lambda name: (-by_name[key][name], name)) for key in order
        ],
        **spread_of_totals(kernel_totals, row_of, order, "sum_ns"),
    }
