"""GPU operations of two profiles on one axis: those of a step and of its partner, lane by lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from nsysconv.diff.step_pairs import Step, StepPairs
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING, Column, ProfileRef, Report, Unit, report_table
from nsysconv.timeline.account import OPERATION_CLASSES, op_name, operation_classes
from nsysconv.timeline.arrays import Array, distinct
from nsysconv.timeline.boxes import Boxes, boxes, busy_alone
from nsysconv.timeline.intervals import union
from nsysconv.timeline.timeline import Timeline

STEP_TIMELINES = "step_timelines"
"""The name of the report."""

WINDOW = "window"
"""The pair of both windows, where a side has no steps."""

SIDES = "base", "other"
WHOLE = "whole"
"""The kind of the step itself, or of the window."""

ALONE = "alone"
"""The kind of the times in which one side is busy and the other is not."""

MOST_BOXES = 20_000
"""So many boxes are in the report at most, of all lanes and pairs."""

_MOST_STREAMS = 6
"""Devices that use more streams in a step have one lane for all."""

COLUMNS = (
    Column(
        "pair",
        Unit.TEXT,
        "Which steps: median, greatest (by their difference, as in `step_pairs`); window: there are no "
        "steps, and it is the slice, or all from the first GPU operation to the last.",
        key=True,
    ),
    Column(
        "lane",
        Unit.ID,
        "Number of the lane, from 1, the same on both sides; 0: the step itself.",
        key=True,
    ),
    Column("side", Unit.TEXT, "base or other.", key=True),
    Column("device_id", Unit.ID, "Number of the device on its side.", key=True),
    Column(
        "stream_id",
        Unit.ID,
        "The stream; null: all of the device, or where its streams have lanes what is on none "
        "(migrations) or of which none is recorded.",
        key=True,
    ),
    Column(
        "kind",
        Unit.TEXT,
        f"Class of the operation: {', '.join(OPERATION_CLASSES)}; {ALONE}: a time in which the lane is "
        f"busy on this side only; {WHOLE}: the step, or the window.",
        key=True,
    ),
    Column("start_ns", Unit.NS, "Start, relative to the step or to the window.", key=True),
    Column("dur_ns", Unit.NS, "Duration within the step, up to the end of the last operation."),
    Column(
        "busy_ns", Unit.NS, "Time in which any of these operations runs.", adds=True, brief=False
    ),
    Column("count", Unit.COUNT, "Number of operations; short ones close together share a row."),
    Column(
        "name",
        Unit.TEXT,
        "Name of the operation (of the longest, if there are several) or of the step.",
    ),
)


@dataclass(frozen=True)
class _Extent:
    # The operations of a process (None: of all) from `start` to `end` are drawn for a side.
    timeline: Timeline
    pid: int | None
    start: int
    end: int
    name: str | None = None

    def places(self) -> Array:
        # The operations that intersect the extent are in the order of their starts.
        ops = self.timeline.ops
        inside = (
            ops.timed & (ops.start < self.end) & (np.maximum(ops.end, ops.start + 1) > self.start)
        )
        if self.pid is not None:
            inside &= ops.pid == self.pid
        return np.flatnonzero(inside)

    def devices(self) -> list[int]:
        ops = self.timeline.ops
        mine = ops.timed if self.pid is None else ops.timed & (ops.pid == self.pid)
        found: list[int] = distinct(ops.device[mine]).tolist()
        return found


@dataclass(frozen=True)
class _Row:
    # These are the intervals of one side of a lane, counted from the start of the step. They are
    # operations, with `places` in the time line and classes, or else of the kind `kind`.
    pair: str
    lane: int
    side: int
    device: int | None
    stream: int | None
    start: Array
    end: Array
    places: Array | None = None
    classes: Array | None = None
    kind: str = ""
    name: str | None = None


def step_timelines_report(
    base: Timeline, other: Timeline, pairs: StepPairs, profiles: Sequence[ProfileRef] = ()
) -> Report:
    """Return what ran on both sides in the chosen pairs of steps, as rows of MOST_BOXES at most.

    Without steps on both sides it is what ran in the slices, from the start of each, or in the windows.
    Where there are too many operations, short ones that are close together are one row.
    """
    notes = [*_notes(pairs, base, other), *pairs.notes]
    rows: list[_Row] = []
    for name, extents in _extents(base, other, pairs):
        rows += _whole_rows(name, extents)
        for number, lane in enumerate(_lanes(extents, notes), 1):
            rows += _lane_rows(name, number, lane)
    drawn = _drawn(rows)
    merged = sum(
        int((each.count > 1).sum())
        for row, each in zip(rows, drawn, strict=True)
        if row.places is not None
    )
    if merged:
        text = "rows combine several operations, each short and close to the next"
        notes.append(Note("operations-merged", Severity.INFO, text, merged))
    cells = _cells(rows, drawn, (base, other))
    return Report(
        name=STEP_TIMELINES,
        title="Two runs on one axis",
        columns=COLUMNS,
        table=report_table(COLUMNS, cells),
        profiles=tuple(profiles),
        notes=tuple(dict.fromkeys(notes)),
        row_count=len(cells["lane"]),
    )


def _notes(pairs: StepPairs, base: Timeline, other: Timeline) -> Iterator[Note]:
    if pairs.pairs and not any(each.clocks_disagree for each in (base, other)):
        return
    if pairs.missing:
        have = "have" if len(pairs.missing) > 1 else "has"
        why = (
            f"{' and '.join(pairs.missing)} {have} no annotated steps (name them with --step-range)"
        )
    elif pairs.pairs:
        why = "CPU and GPU times are not on one clock"
    else:
        why = "no step has a partner"
    start = "slice" if all(map(_slice, (base, other))) else "window, the first GPU operation"
    text = f"aligned by the start of each {start}: {why}"
    yield Note("steps-not-aligned", Severity.APPROXIMATED, text)


def _extents(
    base: Timeline, other: Timeline, pairs: StepPairs
) -> Iterator[tuple[str, tuple[_Extent, _Extent]]]:
    timelines = base, other
    if pairs.pairs and not any(each.clocks_disagree for each in timelines):
        for name, pair in pairs.chosen.items():
            yield name, (_of_step(base, pair.base), _of_step(other, pair.other))
        return
    windows = [_window(each) for each in timelines]
    if None not in windows:
        first, second = (window for window in windows if window is not None)
        yield WINDOW, (first, second)


def _of_step(timeline: Timeline, step: Step) -> _Extent:
    return _Extent(timeline, step.pid, step.start, step.end, step.name)


def _window(timeline: Timeline) -> _Extent | None:
    part = _slice(timeline)
    if part is not None:
        # A slice has its time whether or not anything ran in it.
        return _Extent(timeline, None, *part, "[slice]")
    timed = timeline.ops.take(timeline.ops.timed)
    if not len(timed):
        return None
    return _Extent(timeline, None, int(timed.start[0]), int(timed.end.max()))


def _slice(timeline: Timeline) -> tuple[int, int] | None:
    # The result is None if there is no slice, or if the slice has no time.
    when = timeline.slice_description or {}
    return (when["start_ns"], when["end_ns"]) if "start_ns" in when else None


@dataclass(frozen=True)
class _Lane:
    # Each field has a value per side. The device or stream is None if the side has no such one, or if
    # the lane is of all streams.
    extents: tuple[_Extent, _Extent]
    devices: tuple[int | None, int | None]
    streams: tuple[int | None, int | None]
    places: tuple[Array, Array]


def _lanes(extents: tuple[_Extent, _Extent], notes: list[Note]) -> Iterator[_Lane]:
    ran = [each.places() for each in extents]
    base_devices, other_devices = (each.devices() for each in extents)
    matched = _matched(base_devices, other_devices)
    renamed = [(b, o) for b, o in matched if None not in (b, o) and b != o]
    if renamed:
        text = ", ".join(f"{b} of base with {o} of other" for b, o in renamed)
        notes.append(
            Note("devices-matched", Severity.INFO, f"devices are matched by their order: {text}")
        )
    for devices in matched:
        on_device = [
            places[each.timeline.ops.device[places] == device] if device is not None else places[:0]
            for each, places, device in zip(extents, ran, devices, strict=True)
        ]
        if not any(map(len, on_device)):
            continue
        stream_of = [
            each.timeline.ops.stream[places]
            for each, places in zip(extents, on_device, strict=True)
        ]
        base_streams, other_streams = (distinct(each).tolist() for each in stream_of)
        # What is on no stream does not count as one.
        counts = [len({*each} - {MISSING}) for each in (base_streams, other_streams)]
        if max(counts) > _MOST_STREAMS:
            yield _Lane(extents, devices, (None, None), (on_device[0], on_device[1]))
            continue
        for streams in _matched(base_streams, other_streams):
            on_stream = [
                places[of == stream] if stream is not None else places[:0]
                for places, of, stream in zip(on_device, stream_of, streams, strict=True)
            ]
            yield _Lane(extents, devices, streams, (on_stream[0], on_stream[1]))


def _matched(base: Sequence[int], other: Sequence[int]) -> list[tuple[int | None, int | None]]:
    # Equal numbers match. The others match by their order, because they mean nothing in another run.
    # MISSING comes last and matches MISSING.
    numbers = [[each for each in mine if each != MISSING] for mine in (base, other)]
    shared = [(each, each) for each in numbers[0] if each in numbers[1]]
    rest = [
        [each for each in mine if each not in theirs] for mine, theirs in (numbers, numbers[::-1])
    ]
    pairs: list[tuple[int | None, int | None]] = [*shared, *zip_longest(rest[0], rest[1])]
    pairs.sort(key=lambda pair: min(each for each in pair if each is not None))
    without = MISSING if MISSING in base else None, MISSING if MISSING in other else None
    return [*pairs, without] if without != (None, None) else pairs


def _whole_rows(pair: str, extents: tuple[_Extent, _Extent]) -> Iterator[_Row]:
    for side, each in enumerate(extents):
        start, end = np.array([0]), np.array([each.end - each.start])
        yield _Row(pair, 0, side, None, None, start, end, kind=WHOLE, name=each.name)


def _lane_rows(pair: str, number: int, lane: _Lane) -> Iterator[_Row]:
    times = []
    for side, (extent, places) in enumerate(zip(lane.extents, lane.places, strict=True)):
        ops = extent.timeline.ops
        start, end = (
            np.clip(each[places], extent.start, extent.end) - extent.start
            for each in (ops.start, ops.end)
        )
        times.append((start, end))
        classes = _classes(extent.timeline, lane.devices[side], places)
        where = pair, number, side, lane.devices[side], lane.streams[side]
        yield _Row(*where, start, end, places, classes)
    alone = busy_alone(*(union(start, end) for start, end in times))
    for side in range(len(SIDES)):
        mine = alone.take(alone.labels == side)
        where = pair, number, side, lane.devices[side], lane.streams[side]
        yield _Row(*where, mine.starts, mine.ends, kind=ALONE)


def _classes(timeline: Timeline, device: int | None, places: Array) -> Array:
    if device is None:
        return places
    found: Array = operation_classes(timeline, device)[
        np.searchsorted(timeline.places_on(device), places)
    ]
    return found


def _drawn(rows: Sequence[_Row]) -> list[Boxes]:
    # The shortest rows are drawn whole, and the others share the boxes that are left.
    left, drawn = MOST_BOXES, {}
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].start))
    for after, i in enumerate(order, 1):
        share = max(left // (len(rows) - after + 1), 1)
        drawn[i] = boxes(rows[i].start, rows[i].end, share)
        left -= len(drawn[i])
    return [drawn[i] for i in range(len(rows))]


def _cells(
    rows: Sequence[_Row], drawn: Sequence[Boxes], timelines: tuple[Timeline, Timeline]
) -> Mapping[str, list[Any]]:
    cells: dict[str, list[Any]] = {column.name: [] for column in COLUMNS}
    for row, mine in zip(rows, drawn, strict=True):
        count = len(mine)
        if row.places is None or row.classes is None:
            kinds: list[str] = [row.kind] * count
            names: list[str | None] = [row.name] * count
        else:
            kinds = [OPERATION_CLASSES[i] for i in row.classes[mine.longest].tolist()]
            places = row.places[mine.longest].tolist()
            names = [op_name(timelines[row.side], place) for place in places]
        for name, value in (
            ("pair", row.pair),
            ("lane", row.lane),
            ("side", SIDES[row.side]),
            ("device_id", None if row.device == MISSING else row.device),
            ("stream_id", None if row.stream == MISSING else row.stream),
        ):
            cells[name] += [value] * count
        cells["kind"] += kinds
        cells["start_ns"] += mine.start.tolist()
        cells["dur_ns"] += (mine.end - mine.start).tolist()
        cells["busy_ns"] += mine.busy.tolist()
        cells["count"] += mine.count.tolist()
        cells["name"] += names
    return cells
