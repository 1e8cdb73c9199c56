"""Work of each rank, and the imbalance between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nsysconv.codes import DIRECTIONS
from nsysconv.facts import Fact
from nsysconv.queries import kernel_categories
from nsysconv.queries.columns import (
    DEVICE,
    DIMENSIONS,
    PROFILE,
    WINDOW,
    count_column,
    dimensions_by_process,
    duration_column,
    key_column,
    outer_call_time,
    sum_column,
    values_by_column,
    window_times,
)
from nsysconv.queries.contract import Array, OverRanks, Query, Request, Result
from nsysconv.queries.cycles import added_up, cycles_of
from nsysconv.report import MISSING, Column, ProfileRef, Unit
from nsysconv.timeline.arrays import OVER_RANKS, distinct, min_median_max, percent, take
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import window
from nsysconv.timeline.intervals import union
from nsysconv.timeline.timeline import Timeline

# What lies unevenly on the ranks, by its column; and in words.
_IMBALANCES = {
    "busy": ("busy_ns", "busy time"),
    "computation": ("computation_union_ns", "computation"),
    "communication": ("communication_union_ns", "communication"),
    "mpi": ("mpi_union_ns", "time in MPI"),
}


def _imbalance(name: str, what: str) -> Column:
    return Column(
        f"{name}_imbalance_pct",
        Unit.PCT,
        f"How far {what} is above the mean over all ranks; in the row `max` it is the load "
        "imbalance, (max / mean - 1) × 100 %. Null: the mean is 0.",
        brief=name == "computation",
    )


COLUMNS = (
    PROFILE,
    Column(
        "rank", Unit.ID, "Rank of the process; null: unknown, or a row over all ranks.", key=True
    ),
    Column("pid", Unit.ID, "Process; null: a row over all ranks.", key=True, brief=False),
    DEVICE,
    key_column(
        "over_ranks",
        "min, median or max over all ranks, for each column separately; null: a single rank.",
    ),
    count_column("rank_count", "Number of ranks, or devices of ranks, in the row.", brief=False),
    Column(
        "cycle_count",
        Unit.ID,
        "Number of successive recordings of the process, whose times are added up.",
        brief=False,
    ),
    Column("host", Unit.TEXT, "Host on which the process ran."),
    DIMENSIONS,
    duration_column(
        "window_ns", "Length of the window of this process's operations on the device. " + WINDOW
    ),
    Column(
        "busy_ns",
        Unit.NS,
        "Time in the window with any GPU operation of the process running.",
        brief=False,
        adds=True,
    ),
    duration_column("idle_ns", "Window minus busy time.", brief=False, adds=True),
    Column("idle_pct", Unit.PCT, "Idle time as a share of the window.", better="less"),
    count_column("kernel_count", "Number of kernels.", brief=False),
    sum_column("kernel_sum_ns", "Sum of the kernels' durations.", "kernel_count", brief=False),
    duration_column(
        "kernel_union_ns",
        "Union of the kernels' intervals: time with at least one kernel running.",
        brief=False,
    ),
    kernel_categories.COMPUTATION,
    replace(kernel_categories.COMMUNICATION, brief=False),
    duration_column(
        "exposed_communication_ns",
        "Part of the communication time that does not overlap computation.",
        adds=True,
    ),
    duration_column(
        "other_ns",
        "Window minus computation and exposed communication: copies and memsets alone, and idle time.",
        adds=True,
    ),
    Column("htod_bytes_sum", Unit.BYTES, "Bytes of explicit HtoD copies.", better="less"),
    duration_column("htod_sum_ns", "Sum of their durations.", brief=False, adds=True),
    Column("dtoh_bytes_sum", Unit.BYTES, "Bytes of explicit DtoH copies.", better="less"),
    duration_column("dtoh_sum_ns", "Sum of their durations.", brief=False, adds=True),
    duration_column(
        "api_sum_ns",
        "Total duration of the outermost API calls of the process, the same in each of its rows; "
        "null: threads are not recorded.",
    ),
    duration_column(
        "mpi_union_ns",
        "Time with a thread of the process in an MPI call, the same in each of its rows.",
    ),
    *(_imbalance(name, what) for name, (_, what) in _IMBALANCES.items()),
)

_OF_RANK = (
    "profile",
    "rank",
    "pid",
    "device_id",
    "over_ranks",
    "rank_count",
    "cycle_count",
    "host",
    "dimensions",
)

Row = dict[str, Any]


def partial(timeline: Timeline, request: Request) -> list[Row]:
    """Return the rows of one profile's ranks, without imbalances: one per process, or device of it.

    Where the profile knows ranks, processes without one have no row.
    """
    profile, ops = timeline.profile, timeline.ops
    processes = {int(row["pid"]): row for row in profile.rows("process")}
    pids = [pid for pid, row in processes.items() if row["rank"] is not None]
    if not pids:
        pids = _with_events(timeline) or sorted(processes)
    rows, dimensions = [], dimensions_by_process(timeline)
    for pid in sorted(pids):
        if not timeline.in_processes(np.array([pid])).all():
            continue
        process = processes.get(pid, {})
        process_values = {
            "rank": process.get("rank"),
            "pid": None if pid == MISSING else pid,
            "host": process.get("host") or profile.attributes["host"],
            "dimensions": dimensions.get(pid),
            "api_sum_ns": outer_call_time(timeline, pid),
            "mpi_union_ns": _mpi_time(timeline, pid),
        }
        own_ops = ops.pid == pid
        devices = distinct(take(ops.device, own_ops)).tolist() if own_ops.any() else []
        rows += [process_values | _on_device(timeline, pid, d, request) for d in devices] or [
            process_values | _without_ops(timeline)
        ]
    return rows


class _RankRows:
    def __init__(self, request: Request) -> None:
        self._rows: list[Row] = []
        self._profiles: list[ProfileRef] = []

    def add(self, ref: ProfileRef, partial: list[Row]) -> None:
        self._profiles.append(ref)
        self._rows += ({"profile": ref.label, **row} for row in partial)

    def result(self) -> Result:
        """Return the rows in the order of ranks; of several, least, median and greatest before them."""
        cycles = cycles_of(self._profiles).by_process(self._rows, "rank", "pid", "device_id")
        rows = sorted(map(_over_cycles, cycles), key=_rank_order)
        for name, (quantity, _) in _IMBALANCES.items():
            known = [row[quantity] for row in rows if row.get(quantity) is not None]
            mean = sum(known) / len(known) if known else 0
            for row in rows:
                value = row.get(quantity)
                percent_above = None if value is None or not mean else 100.0 * (value / mean - 1)
                row[f"{name}_imbalance_pct"] = percent_above
        shown = [*_over_all(rows), *rows] if len(rows) > 1 else rows
        return Result(values_by_column(shown, COLUMNS))


def _rank_order(row: Row) -> tuple[Any, ...]:
    device = row.get("device_id")
    rank, device = row["rank"], -1 if device is None else device
    return rank is None, rank or 0, row["profile"], row["pid"] or 0, device


def _over_cycles(rows: list[Row]) -> Row:
    whole = added_up(rows, COLUMNS) | {"cycle_count": len(rows)}
    if len(rows) > 1 and whole.get("window_ns"):
        whole["idle_pct"] = float(percent(whole["idle_ns"], whole["window_ns"]))
    return whole


def _over_all(rows: list[Row]) -> list[Row]:
    over_all: list[Row] = [{"over_ranks": word, "rank_count": len(rows)} for word in OVER_RANKS]
    for column in COLUMNS:
        if column.name in _OF_RANK:
            continue
        values = min_median_max([row.get(column.name) for row in rows])
        for row, value in zip(over_all, values, strict=True):
            row[column.name] = value
    return over_all


def _with_events(timeline: Timeline) -> list[int]:
    columns = [timeline.ops.pid, timeline.calls.pid]
    if Fact.MPI_CALLS in timeline.profile.facts:
        columns.append(timeline.columns("mpi_call", ("pid",))["pid"])
    return sorted({int(pid) for column in columns for pid in distinct(column)})


def _mpi_time(timeline: Timeline, pid: int) -> int | None:
    if Fact.MPI_CALLS not in timeline.profile.facts:
        return None
    column = timeline.columns("mpi_call", ("start_ns", "dur_ns", "pid"))
    start, dur = column["start_ns"], column["dur_ns"]
    own_calls = (column["pid"] == pid) & (start != MISSING) & (dur != MISSING)
    return union(start[own_calls], (start + dur)[own_calls]).measure


def _without_ops(timeline: Timeline) -> Row:
    if Fact.KERNELS not in timeline.profile.facts:
        return {}
    row: Row = dict.fromkeys(
        ("busy_ns", "kernel_count", "kernel_sum_ns", "kernel_union_ns", "computation_union_ns",
         "communication_union_ns", "exposed_communication_ns"), 0)  # fmt: skip
    return row | _copy_sums(timeline, np.empty(0, np.int64), np.empty(0, np.int64))


def _on_device(timeline: Timeline, pid: int, device: int, request: Request) -> Row:
    ops = timeline.ops_on(device)
    talks = kernel_categories.communicates_on(timeline, device, request.options["rules"])
    which = ops.pid == pid
    mine, talks = (ops, talks) if which.all() else (ops.take(which), talks[which])
    row: Row = {"device_id": None if device == MISSING else device}
    copies = mine.kind == OpKind.MEMCPY
    row |= _copy_sums(timeline, mine.row[copies], mine.dur[copies])
    if Fact.KERNELS not in timeline.profile.facts:
        return row
    kernels = mine.kind == OpKind.KERNEL
    row |= {
        "kernel_count": int(np.count_nonzero(kernels)),
        "kernel_sum_ns": int(mine.dur[kernels].sum()),
    }
    span = window(timeline, device, mine)
    if span is None:
        return row
    works = kernel_categories.computes(mine, talks)
    either = works | talks
    computation = span.measure(mine.start[works], mine.end[works])
    in_kernels = span.measure(mine.start[either], mine.end[either])
    return row | {
        **window_times(mine, span),
        "computation_union_ns": computation,
        "communication_union_ns": span.measure(mine.start[talks], mine.end[talks]),
        "exposed_communication_ns": in_kernels - computation,
        "other_ns": span.length - in_kernels,
    }


def _copy_sums(timeline: Timeline, rows: Array, dur: Array) -> Row:
    """Return bytes and time by direction of the copies in these rows of their table."""
    if Fact.MEMCPYS not in timeline.profile.facts:
        return {}
    column = timeline.profile.columns("memcpy", ("direction", "bytes"))
    direction, sizes = column["direction"][rows], column["bytes"][rows]
    values: Row = {}
    for word in ("HtoD", "DtoH"):
        in_direction = direction == DIRECTIONS.index(word)
        known = sizes[in_direction & (sizes != MISSING)]
        is_recorded = len(known) or not in_direction.any()
        total = int(known.sum(dtype=np.int64)) if is_recorded else None
        values[f"{word.lower()}_bytes_sum"] = total
        values[f"{word.lower()}_sum_ns"] = int(dur[in_direction].sum())
    return values


RANK_SUMMARY = Query(
    options=(kernel_categories.RULES,), columns=COLUMNS, over_ranks=OverRanks(partial, _RankRows)
)
