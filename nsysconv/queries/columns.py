"""Columns that several reports have: how they are declared, and where their values come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nsysconv.codes import API_LAYERS, DIRECTIONS, MEMORY_KINDS
from nsysconv.facts import Fact
from nsysconv.launch import dimensions_in
from nsysconv.notes import Note, Severity
from nsysconv.queries.contract import Array, ColumnValues, Query, Request, Result
from nsysconv.report import MISSING, Better, Column, Unit
from nsysconv.timeline.arrays import Statistics, blocks, factorize, percent, take
from nsysconv.timeline.events import GpuOps, OpKind
from nsysconv.timeline.steps import STEP_FACTS, step_count
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.windows import Window


def key_column(name: str, doc: str) -> Column:
    """Return a column of texts that belong to what identifies a row."""
    return Column(name, Unit.TEXT, doc, key=True)


def count_column(
    name: str, doc: str, *, better: Better | None = None, brief: bool = True
) -> Column:
    """Return the column of a number of things."""
    return Column(name, Unit.COUNT, doc, better=better, brief=brief)


def sum_column(
    name: str,
    doc: str,
    counted_by: str,
    *,
    unit: Unit = Unit.NS,
    brief: bool = True,
) -> Column:
    """Return the column of a sum, of which less is better; column `counted_by` counts its summands."""
    return Column(name, unit, doc, better="less", brief=brief, counted_by=counted_by)


def duration_column(
    name: str,
    doc: str,
    *,
    real: bool = False,
    brief: bool = True,
    adds: bool = False,
) -> Column:
    """Return the column of a time in ns, of which less is better."""
    return Column(name, Unit.NS, doc, better="less", real=real, brief=brief, adds=adds)


def bytes_column(name: str, doc: str, *, brief: bool = True, adds: bool = False) -> Column:
    """Return the column of an amount of memory, of which less is better."""
    return Column(name, Unit.BYTES, doc, better="less", brief=brief, adds=adds)


PROFILE = key_column("profile", "Label of the profile.")
RANK = Column(
    "rank",
    Unit.ID,
    "Rank of the process; null: the row has no rank, or several.",
    key=True,
)
PROCESS_RANK = Column("rank", Unit.ID, "Rank of the process; null: none known.", key=True)
DIMENSIONS = Column(
    "dimensions",
    Unit.TEXT,
    "Parallel dimensions and role of the process, such as TP0 PP1 or DP3 decode; null: unknown.",
    brief=False,
    optional=True,
)
PID = Column("pid", Unit.ID, "The process.", key=True)
TID = Column("tid", Unit.ID, "The thread.", key=True)
DEVICE = Column("device_id", Unit.ID, "Number of the device in the profile.", key=True)
BY_DEVICE = (PROFILE, RANK, DEVICE)
"""The first columns of reports that have their rows by device."""

WINDOW = (
    "The window is the slice, or the time from the device's first GPU operation to its last "
    "(page migrations do not extend it)."
)

# -- tables of nsys stats, and statistics


def statistics_docs(what: str = "", *, of: str = "", one: str = "one") -> dict[str, str]:
    """Return what the columns of statistics of a quantity are described as."""
    return {
        "avg": f"Mean{what}{of}.",
        "med": f"Median{what}{of} (mean of the middle two if even).",
        "min": f"Shortest{of}.",
        "max": f"Longest{of}.",
        "stddev": f"Sample standard deviation{of}; 0 for {one}.",
    }


DURATION_DOCS = statistics_docs(" duration", one="one row")


def statistics_columns(
    docs: Mapping[str, str], *, prefix: str = "", brief: Iterable[str] = ("avg",)
) -> tuple[Column, ...]:
    """Return columns of durations, PREFIXavg_ns and so on, for those statistics that `docs` describes."""
    return tuple(
        duration_column(
            f"{prefix}{name}_ns", doc, real=name not in ("min", "max"), brief=name in brief
        )
        for name, doc in docs.items()
    )


def dimensions_by_process(timeline: Timeline) -> dict[int, str | None]:
    """Return the values of DIMENSIONS by pid: as the source or its name says, else the process's name."""
    return {
        int(row["pid"]): row["dimensions"] or dimensions_in(row["name"] or "")
        for row in timeline.profile.rows("process")
    }


# -- per step

_PER_STEP_UNITS = {"per_step_ns": Unit.NS, "bytes_per_step": Unit.BYTES}


def per_step(name: str, total: str) -> Column:
    """Return the column of that name (`per_step_ns`, `bytes_per_step`): column `total` per step."""
    return Column(
        name,
        _PER_STEP_UNITS[name],
        f"`{total}` divided by the number of steps of the process with most of them "
        "(`--step-range` names the steps); null: no steps.",
        better="less",
        real=True,
        brief=False,
        adds=True,
        optional=True,
    )


def has_per_step(query: Query) -> bool:
    """Return whether a report has columns per step, and looks at steps for nothing else."""
    return any(column.name in _PER_STEP_UNITS for column in query.columns)


# -- values

KERNEL_NAME_COLUMNS = {
    "demangled": "name_id",
    "short": "short_name_id",
    "mangled": "mangled_name_id",
}
"""Column of the table of kernels for each spelling of their names."""


def values_by_column(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[Column]
) -> dict[str, list[Any]]:
    """Return the values of rows by column; None where a row has no such value."""
    rows = list(rows)
    return {column.name: [row.get(column.name) for row in rows] for column in columns}


def rows_at(values: Mapping[str, Any], order: Sequence[int] | Array) -> dict[str, Any]:
    """Return the values of the rows at these places, in this order."""
    at = np.asarray(order, np.int64)
    return {
        name: column[at] if isinstance(column, np.ndarray) else [column[i] for i in at.tolist()]
        for name, column in values.items()
    }


def ranks_by_group(timeline: Timeline, pids: Array, groups: Array, count: int) -> list[int | None]:
    """Return the values of RANK for `count` groups, given the process and the group of each member."""
    ranks = timeline.ranks
    if not ranks or not count:
        return [None] * count
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    for pid, rank in ranks.items():
        members = groups[pids == pid]
        low[members] = np.minimum(low[members], rank)
        high[members] = np.maximum(high[members], rank)
    return [
        int(h) if h >= 0 and h == lo else None
        for lo, h in zip(low.tolist(), high.tolist(), strict=True)
    ]


def call_groups(
    timeline: Timeline, layers: Array, name_ids: Array, *others: Array
) -> tuple[Array, list[list[Any]]]:
    """Return the group of each call by layer, plain name, which versions share, and other numbers.

    Each group's layer, name and other numbers are three or more lists.
    """
    by_symbol, keys = factorize(*others, layers, name_ids)
    places: dict[tuple[Any, ...], int] = {}
    group_by_symbol = [
        places.setdefault((*other, layer, timeline.call_names[name_id]), len(places))
        for *other, layer, name_id in zip(*(key.tolist() for key in keys), strict=True)
    ]
    *numbers, codes, names = ([key[i] for key in places] for i in range(len(keys)))
    group = take(np.array(group_by_symbol, np.int32), by_symbol)
    return group, [[code_name(API_LAYERS, code) for code in codes], names, *numbers]


def kernel_name_ids(columns: Mapping[str, Array], spelling: str) -> Array:
    """Return the name ids of kernels in a spelling, the demangled name's where it is not recorded."""
    ids = columns[KERNEL_NAME_COLUMNS[spelling]]
    if spelling == "demangled":
        return ids
    return np.where(ids == MISSING, columns["name_id"].astype(np.int64), ids)


def outer_call_time(timeline: Timeline, pid: int) -> int | None:
    """Return the sum of a process's outermost API calls; None: calls or threads are not recorded."""
    # Calls without a thread do not say which of them lie inside others.
    if not {Fact.API_CALLS, Fact.THREADS} <= timeline.profile.facts:
        return None
    calls = timeline.calls
    outer = (calls.pid == pid) & timeline.calls_in_slice & calls.outermost
    return sum(
        int((calls.end[block] - calls.start[block]).sum(where=outer[block]))
        for block in blocks(len(calls))
    )


def window_times(ops: GpuOps, span: Window | None) -> dict[str, Any]:
    """Return the values of window_ns, busy_ns, idle_ns, idle_pct and kernel_union_ns of operations
    in their window; none without a window.
    """
    if span is None:
        return {}
    busy_ns = span.measure(ops.start, ops.end)
    idle_ns = span.length - busy_ns
    return {
        "window_ns": span.length,
        "busy_ns": busy_ns,
        "idle_ns": idle_ns,
        "idle_pct": float(percent(idle_ns, span.length or 1)),
        "kernel_union_ns": span.measure(ops.start, ops.end, ops.kind == OpKind.KERNEL),
    }


# -- copies

_MIGRATION = len(DIRECTIONS)  # the first code of a migration's direction
_DIRECTION_NAMES = (*DIRECTIONS, *(f"UM {name}" for name in DIRECTIONS))


def direction_code(direction: int | None, *, migration: bool) -> int:
    """Return one code for the direction of a copy or a migration; what is not recorded is Unknown."""
    return (direction or 0) + (_MIGRATION if migration else 0)


def direction_codes(directions: Array, *, migration: bool) -> Array:
    """Return the codes of many directions, as `direction_code` does."""
    if not migration:
        return directions
    return np.where(directions == MISSING, 0, directions) + _MIGRATION


def direction_names(codes: Array) -> list[str]:
    """Return the names of directions by their codes; `UM ` marks migrations."""
    return [code_name(_DIRECTION_NAMES, code) or "Unknown" for code in codes.tolist()]


def memory_kind_names(codes: Array) -> list[str | None]:
    """Return the names of kinds of memory; None: not recorded."""
    return [code_name(MEMORY_KINDS, code) for code in codes.tolist()]


def code_name(names: Sequence[str], code: int | None) -> str | None:
    """Return the name behind a code; None where the code has none."""
    return names[code] if code is not None and 0 <= code < len(names) else None


# -- statistics

_STATISTICS = {
    "avg": "mean",
    "med": "median",
    "min": "minimum",
    "max": "maximum",
    "stddev": "deviation",
}


def statistics_values(statistics: Statistics, prefix: str = "") -> dict[str, Array]:
    """Return the values of PREFIXavg_ns to PREFIXstddev_ns."""
    return {f"{prefix}{name}_ns": getattr(statistics, field) for name, field in _STATISTICS.items()}


# -- per step


def with_per_step(
    values: ColumnValues, timeline: Timeline, request: Request, totals: Mapping[str, str]
) -> Result:
    """Return the result with the columns that `totals` names, each with the column that it divides.

    Where no step is annotated, the facts that describe steps are unused; steps that somebody asked for,
    and that are not there, are a note.
    """
    count, absent = step_count(timeline, request.steps), tuple[Note, ...]()
    if request.steps and not count and not step_count(timeline.whole, request.steps):
        text = f"nothing is per step: {request.steps.absent}"
        absent = (Note("steps-not-found", Severity.APPROXIMATED, text),)
    divided = {name: _divided(values[total], count) for name, total in totals.items()}
    known = any(np.isfinite(each).any() for each in divided.values())
    unused = frozenset() if known else STEP_FACTS
    return Result({**values, **divided}, notes=absent, unused=unused)


def _divided(values: Sequence[int | None] | Array, count: int) -> Array:
    totals = np.array([MISSING if value is None else value for value in values], np.int64)
    return np.where(totals == MISSING, np.nan, totals / (count or np.nan))
