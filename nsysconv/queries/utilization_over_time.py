"""Utilization of devices over time: each by itself, and those of all ranks on one time axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nsysconv.codes import COMMUNICATION, TIME_CLASS_COLUMNS
from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import BY_DEVICE, WINDOW
from nsysconv.queries.contract import Array, ColumnValues, Option, OverRanks, Query, Request, Result
from nsysconv.report import MISSING, Column, ProfileRef, Unit
from nsysconv.timeline.account import OPERATION_CLASSES, operation_classes
from nsysconv.timeline.arrays import percent
from nsysconv.timeline.clock_offsets import time_of_day
from nsysconv.timeline.events import GpuOps, OpKind
from nsysconv.timeline.idle import window
from nsysconv.timeline.intervals import equal_parts, measures
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.windows import Window

_MAX_BINS = 100_000


def _bins(request: Request) -> int:
    bins: int = request.options["bins"]
    if not 1 <= bins <= _MAX_BINS:
        raise UsageError(f"bins={bins}: there are 1 to {_MAX_BINS} bins")
    return bins


_CLASSES = {
    "computation": "Time in the bin with a computation kernel running, or a graph recorded as one "
    "interval.",
    "communication": "Time of communication kernels that overlaps no computation.",
    "memcpy": "Time of explicit copies that overlaps neither computation nor communication.",
    "memset": "Time of memsets that overlaps none of the preceding columns.",
    "migration": "Time of unified memory migrations that overlaps none of the preceding columns.",
}
"""The classes of the time account that are operations, in the order that decides."""

_TIME_OF_DAY = Column(
    "start_utc_ns",
    Unit.ID,
    "Time of day of start_ns (UTC, ns since 1970); null: not recorded.",
    brief=False,
)

COLUMNS = (
    *BY_DEVICE,
    Column("bin", Unit.ID, "Number of the time bin, from 0. " + WINDOW, key=True),
    Column("start_ns", Unit.NS, "Start of the bin."),
    Column("dur_ns", Unit.NS, "Length of the bin.", brief=False, adds=True),
    Column("busy_ns", Unit.NS, "Time in the bin with any GPU operation running.", adds=True),
    Column("busy_pct", Unit.PCT, "Busy time as a share of the bin.", better="more"),
    Column(
        "kernel_graph_union_ns",
        Unit.NS,
        "Time in the bin with a kernel running, or a graph recorded as one interval.",
        brief=False,
        adds=True,
    ),
    Column("gpu_utilization_pct", Unit.PCT, "That time as a share of the bin.", better="more"),
    Column(
        "memcpy_union_ns",
        Unit.NS,
        "Time in the bin with an explicit copy running.",
        brief=False,
        adds=True,
    ),
    Column("memcpy_pct", Unit.PCT, "That time as a share of the bin."),
    *(Column(TIME_CLASS_COLUMNS[name], Unit.NS, doc, brief=False, adds=True)
      for name, doc in _CLASSES.items()),
    Column(
        "idle_ns",
        Unit.NS,
        "Bin minus busy time. Computation, the exposed times and idle time add up to the bin.",
        brief=False,
        adds=True,
    ),
    _TIME_OF_DAY,
)  # fmt: skip


_FACTS = {
    Fact.MEMCPYS: {"memcpy_union_ns", "memcpy_pct", "exposed_memcpy_ns"},
    Fact.MEMSETS: {"exposed_memset_ns"},
    Fact.UNIFIED_MEMORY: {"exposed_um_ns"},
}


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per device and bin, in the order of time; a device without a window has one row."""
    bins = _bins(request)
    data: dict[str, list[Any]] = {column.name: [] for column in COLUMNS[1:]}
    for device in timeline.devices:
        for name, values in _rows(timeline, device, bins).items():
            data[name] += values
    return data


UTILIZATION_OVER_TIME = Query(
    options=(
        Option(
            "bins",
            60,
            "Number of bins of equal length (to 1 ns) for each device's window, "
            f"{_MAX_BINS} at most.",
        ),
    ),
    columns=COLUMNS,
    compute=compute,
)


def _rows(timeline: Timeline, device: int, bins: int) -> dict[str, list[Any]]:
    ops, zero = timeline.ops_on(device), time_of_day(timeline)
    span = window(timeline, device, ops)
    edges = equal_parts(span.start, span.end, bins) if span is not None else np.zeros(2, np.int64)
    low, high = edges[:-1], edges[1:]
    within = span or Window(0, 0)
    number, dur = np.arange(len(low)), within.lengths(low, high)
    if within.parts is not None:  # bins between its parts are none of it
        number, low, high, dur = (each[dur > 0] for each in (number, low, high, dur))
    count = len(low)
    # What each class adds to all before it; the first two are the kernels, and all are the busy time.
    classes = operation_classes(timeline, device)
    exposed, kernels, busy = [], np.zeros(count, np.int64), np.zeros(count, np.int64)
    for place, name in enumerate(OPERATION_CLASSES):
        before = busy
        if (classes == place).any():
            which = ops.timed & (classes <= place)
            busy = _covered(ops, which, low, high, within)
        exposed.append(busy - before)
        if name == COMMUNICATION:
            kernels = busy
    is_copy = ops.timed & (ops.kind == OpKind.MEMCPY)
    copies = _covered(ops, is_copy, low, high, within)
    values = {
        "bin": number,
        "start_ns": low,
        "dur_ns": dur,
        "busy_ns": busy,
        "busy_pct": percent(busy, dur),
        "kernel_graph_union_ns": kernels,
        "gpu_utilization_pct": percent(kernels, dur),
        "memcpy_union_ns": copies,
        "memcpy_pct": percent(copies, dur),
        **{TIME_CLASS_COLUMNS[n]: part for n, part in zip(OPERATION_CLASSES, exposed, strict=True)},
        "idle_ns": dur - busy,
        "start_utc_ns": low + (zero or 0),
    }
    missing = set(values) if span is None else set()
    if zero is None:
        missing.add("start_utc_ns")
    for fact, columns in _FACTS.items():
        if fact not in timeline.profile.facts:
            missing |= columns
    return {
        "rank": [timeline.rank_of(timeline.pids_on(device))] * count,
        "device_id": [device] * count,
        **{name: [None] * count if name in missing else values[name].tolist() for name in values},
    }


def _covered(ops: GpuOps, which: Array | None, low: Array, high: Array, within: Window) -> Array:
    # How much of each bin operations of a mask cover, of what of it lies in the window.
    return within.added(partial(measures, ops.start, ops.end, which=which), low, high)


# -- the devices of all ranks, on one time axis


_MAP_COLUMNS = (
    *BY_DEVICE,
    Column("bin", Unit.ID, "Number of the bin, from 0, the same time for all ranks.", key=True),
    Column(
        "start_ns",
        Unit.NS,
        "Start of the bin, or of the device's window within it, since the start of the first "
        "bin. " + WINDOW,
    ),
    Column(
        "dur_ns",
        Unit.NS,
        "Length of the part of the bin that lies in the window.",
        brief=False,
        adds=True,
    ),
    Column("busy_ns", Unit.NS, "Time with any GPU operation running.", adds=True),
    Column("busy_pct", Unit.PCT, "Busy time as a share of that part of the bin.", better="more"),
    Column(
        "kernel_graph_union_ns",
        Unit.NS,
        "Time in that part with a kernel running, or a graph recorded as one interval.",
        brief=False,
        adds=True,
    ),
    Column(
        "gpu_utilization_pct",
        Unit.PCT,
        "That time as a share of that part of the bin.",
        better="more",
    ),
    _TIME_OF_DAY,
)


@dataclass(frozen=True)
class Strip:
    """One device of one profile: its window [start, end), in ns since 1970 or, where `utc` is not known,
    since the window began. `measured`: how long it was busy and how long kernels ran (two rows) in bins
    of 2^`shift` ns that begin at multiples of it, from bin `first` on.
    """

    rank: int | None
    device: int | None
    utc: bool
    start: int
    end: int
    shift: int
    first: int
    measured: Array


def _partial(timeline: Timeline, request: Request) -> list[Strip]:
    """Return the strips of one profile; a device without a window has none."""
    bins = _bins(request)
    zero = time_of_day(timeline)
    strips = []
    for device in timeline.devices:
        ops = timeline.ops_on(device)
        ops = ops.take(ops.timed)
        span = window(timeline, device, ops)
        if span is None:
            continue
        shift_to_utc = -span.start if zero is None else zero
        start, end = span.start + shift_to_utc, span.end + shift_to_utc
        shift = _shift(start, end, bins)
        first = start >> shift
        edges = _edges(start, end, shift, _count(start, end, shift)) - shift_to_utc
        kernels = np.isin(ops.kind, (OpKind.KERNEL, OpKind.GRAPH))
        low, high = edges[:-1], edges[1:]
        measured = [_covered(ops, which, low, high, span) for which in (None, kernels)]
        strips.append(
            Strip(
                timeline.rank_of(timeline.pids_on(device)),
                None if device == MISSING else device,
                zero is not None,
                start,
                end,
                shift,
                first,
                np.stack(measured),
            )
        )
    return strips


class _Strips:
    def __init__(self, request: Request) -> None:
        self._bins = request.options["bins"]
        self._strips: list[tuple[str, Strip]] = []

    def add(self, ref: ProfileRef, partial: list[Strip]) -> None:
        self._strips += ((ref.label, strip) for strip in partial)

    def result(self) -> Result:
        """Return one row per device and bin in which its window lies, rank by rank."""
        strips = sorted(self._strips, key=_rank_order)
        # Those without a time of day begin with the first that has one, else all together.
        begin = min((strip.start for _, strip in strips if strip.utc), default=0)
        values: dict[str, list[Any]] = {column.name: [] for column in _MAP_COLUMNS}
        if not strips:
            return Result(values)
        end = max(strip.end + (0 if strip.utc else begin) for _, strip in strips)
        shift = _shift(begin, end, self._bins)
        # Moved by whole bins: by anything else, what was measured in bins would have to be cut anew.
        origin = begin >> shift << shift
        for label, strip in strips:
            for name, column in _strip_rows(label, strip, shift, origin).items():
                values[name] += column
        return Result(values, notes=_notes([strip for _, strip in strips]))


def _rank_order(labeled: tuple[str, Strip]) -> tuple[Any, ...]:
    label, strip = labeled
    device = -1 if strip.device is None else strip.device
    return strip.rank is None, strip.rank or 0, label, device


def _notes(strips: list[Strip]) -> tuple[Note, ...]:
    unknown = sum(not strip.utc for strip in strips)
    if not unknown or len(strips) < 2:
        return ()
    text = "devices without a recorded time of day; their window is shown from the first bin on"
    return (Note("windows-aligned", Severity.APPROXIMATED, text, unknown),)


def _strip_rows(label: str, strip: Strip, shift: int, origin: int) -> dict[str, list[Any]]:
    """Return a strip's values by column, its bins added up to those of 2^`shift` ns."""
    moved = 0 if strip.utc else origin
    start, end = strip.start + moved, strip.end + moved
    place = (np.arange(strip.measured.shape[1]) + strip.first) >> (shift - strip.shift)
    place += moved >> shift
    count = _count(start, end, shift)
    first = start >> shift
    measured = np.zeros((2, count), np.int64)
    for whole, pieces in zip(measured, strip.measured, strict=True):
        np.add.at(whole, place - first, pieces)
    edges = _edges(start, end, shift, count)
    dur = np.diff(edges)
    share = percent(measured, dur)
    return {
        "profile": [label] * count,
        "rank": [strip.rank] * count,
        "device_id": [strip.device] * count,
        "bin": (first + np.arange(count) - (origin >> shift)).tolist(),
        "start_ns": (edges[:-1] - origin).tolist(),
        "dur_ns": dur.tolist(),
        "busy_ns": measured[0].tolist(),
        "busy_pct": share[0].tolist(),
        "kernel_graph_union_ns": measured[1].tolist(),
        "gpu_utilization_pct": share[1].tolist(),
        "start_utc_ns": edges[:-1].tolist() if strip.utc else [None] * count,
    }


def _shift(start: int, end: int, bins: int) -> int:
    """Return the least power of two with which there are no more bins."""
    shift = 0
    while _count(start, end, shift) > bins:
        shift += 1
    return shift


def _count(start: int, end: int, shift: int) -> int:
    """Return how many bins hold a part of [start, end); a window without length is in one."""
    return (max(end - 1, start) >> shift) - (start >> shift) + 1


def _edges(start: int, end: int, shift: int, count: int) -> Array:
    """Return the edges of the bins of [start, end), whose first and last are cut."""
    edges = ((start >> shift) + np.arange(count + 1, dtype=np.int64)) << shift
    edges[0], edges[-1] = start, end
    return edges


GPU_TIME_UTIL_MAP = Query(
    options=(
        Option(
            "bins",
            60,
            f"Maximum number of bins, up to {_MAX_BINS}. The bin length is the smallest power of "
            "two, in ns, that gives no more.",
        ),
    ),
    columns=_MAP_COLUMNS,
    over_ranks=OverRanks(_partial, _Strips),
)
