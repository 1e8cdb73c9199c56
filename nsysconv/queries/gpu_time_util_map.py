"""How busy the devices of all ranks were as time went by, on one time axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import DEVICE, PROFILE, RANK, WINDOW
from nsysconv.queries.contract import (
    Aggregator,
    Array,
    Option,
    Query,
    Request,
    Result,
    aggregate_one,
)
from nsysconv.report import MISSING, Column, Picture, ProfileRef
from nsysconv.timeline.arrays import percent
from nsysconv.timeline.clock_offsets import time_of_day
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import window
from nsysconv.timeline.intervals import union
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

_MOST = 100_000
COLUMNS = (
    PROFILE,
    RANK,
    DEVICE,
    Column("bin", Unit.ID, "Number of the bin, from 0, the same time for all ranks.", key=True),
    Column(
        "start_ns",
        Unit.NS,
        "When the bin begins, or in it the device's window, since the first bin began. " + WINDOW,
    ),
    Column("dur_ns", Unit.NS, "As much of the bin as lies in the window.", brief=False, adds=True),
    Column("busy_ns", Unit.NS, "Union of the GPU operations in it.", adds=True),
    Column("busy_pct", Unit.PCT, "Busy as a share of that part of the bin.", better="more"),
    Column(
        "kernel_graph_union_ns",
        Unit.NS,
        "Union of the kernels, and of graphs recorded as one interval, in it.",
        brief=False,
        adds=True,
    ),
    Column("gpu_utilization_pct", Unit.PCT, "That union as a share of it.", better="more"),
    Column(
        "start_utc_ns",
        Unit.ID,
        "The time of day (UTC, ns since 1970) of start_ns; null: the profile does not tell it.",
        brief=False,
    ),
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


def partial(timeline: Timeline, request: Request) -> list[Strip]:
    """The strips of one profile; a device without a window has none."""
    bins = request.options["bins"]
    if not 1 <= bins <= _MOST:
        raise UsageError(f"bins={bins}: there are 1 to {_MOST} bins")
    zero = time_of_day(timeline)
    found = []
    for device in timeline.devices:
        here = timeline.ops_on(device)
        here = here.take(here.timed)
        span = window(timeline, device, here)
        if span is None:
            continue
        moved = -span.start if zero is None else zero
        start, end = span.start + moved, span.end + moved
        shift = _shift(start, end, bins)
        first = start >> shift
        edges = _edges(start, end, shift, _count(start, end, shift)) - moved
        kernels = (here.kind == OpKind.KERNEL) | (here.kind == OpKind.GRAPH)
        found.append(
            Strip(
                timeline.rank_of(timeline.pids_on(device)),
                None if device == MISSING else device,
                zero is not None,
                start,
                end,
                shift,
                first,
                np.stack(
                    [
                        union(here.start[which], here.end[which]).covered(edges[:-1], edges[1:])
                        for which in (here.timed, kernels)
                    ]
                ),
            )
        )
    return found


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per device and bin in which its window lies."""
    return aggregate_one(aggregator(request), timeline, partial(timeline, request))


def aggregator(request: Request) -> Aggregator:
    """The same of all profiles of a run, rank by rank."""
    return _Strips(request.options["bins"])


GPU_TIME_UTIL_MAP = Query(
    title="Utilisation of all ranks over time",
    needs={Fact.KERNELS},
    uses={
        Fact.MEMCPYS,
        Fact.MEMSETS,
        Fact.UNIFIED_MEMORY,
        Fact.GRAPH_LAUNCHES,
        Fact.DEVICES,
        Fact.RANKS,
        Fact.UTC,
    },
    options=(
        Option(
            "bins",
            60,
            f"How many bins there are at most, {_MOST} at most. A bin is as long as the least power "
            "of two in ns with which there are no more.",
        ),
    ),
    columns=COLUMNS,
    picture=Picture(
        "strip",
        x=("start_ns",),
        width="dur_ns",
        values=("busy_pct",),
        by=("rank", "device_id"),
        shared=True,
    ),
    compute=compute,
    partial=partial,
    aggregator=aggregator,
)


class _Strips:
    def __init__(self, bins: int) -> None:
        self._bins = bins
        self._found: list[tuple[str, Strip]] = []

    def add(self, ref: ProfileRef, part: list[Strip]) -> None:
        self._found += ((ref.label, strip) for strip in part)

    def result(self) -> Result:
        return _map(self._found, self._bins)


def _map(strips: list[tuple[str, Strip]], bins: int) -> Result:
    strips.sort(key=lambda each: (each[1].rank is None, each[1].rank or 0, each[0],
                                  -1 if each[1].device is None else each[1].device))  # fmt: skip
    # Those without a time of day begin with the first that has one, else all together.
    begin = min((strip.start for _, strip in strips if strip.utc), default=0)
    data: dict[str, list[Any]] = {column.name: [] for column in COLUMNS}
    if not strips:
        return Result(data)
    end = max(strip.end + (0 if strip.utc else begin) for _, strip in strips)
    shift = _shift(begin, end, bins)
    # Moved by whole bins: by anything else, what was measured in bins would have to be cut anew.
    origin = begin >> shift << shift
    for label, strip in strips:
        _add(data, label, strip, shift, origin, 0 if strip.utc else origin)
    unknown = sum(not strip.utc for _, strip in strips)
    return Result(data, notes=_notes(unknown, len(strips)))


def _notes(unknown: int, total: int) -> tuple[Note, ...]:
    if not unknown or total < 2:
        return ()
    text = (
        "devices whose profile does not tell the time of day; their window is shown from the start of "
        "the first bin on"
    )
    return (Note("windows-aligned", Severity.APPROXIMATED, text, unknown),)


def _add(
    data: dict[str, list[Any]], label: str, strip: Strip, shift: int, origin: int, moved: int
) -> None:
    """Appends a strip's rows, its bins added up to those of 2^`shift` ns."""
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
    rows = {
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
    for name, values in rows.items():
        data[name] += values


def _shift(start: int, end: int, bins: int) -> int:
    """The least power of two with which there are no more bins."""
    shift = 0
    while _count(start, end, shift) > bins:
        shift += 1
    return shift


def _count(start: int, end: int, shift: int) -> int:
    """How many bins hold a part of [start, end); a window without length is in one."""
    return (max(end - 1, start) >> shift) - (start >> shift) + 1


def _edges(start: int, end: int, shift: int, count: int) -> Array:
    """The edges of the bins of [start, end), whose first and last are cut."""
    edges = ((start >> shift) + np.arange(count + 1, dtype=np.int64)) << shift
    edges[0], edges[-1] = start, end
    return edges
