"""Profiles into one trace, whatever its format: who comes first, on which clock, and what is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from nsysconv import schema
from nsysconv.export import counters
from nsysconv.export.behind import Behind
from nsysconv.export.contract import Written
from nsysconv.export.counters import Points
from nsysconv.export.drawing import Drawing, Drawn, Track, in_order
from nsysconv.export.kinds import ON_DEVICES, ON_THREADS, OPS, Kind
from nsysconv.export.places import Place, Places, words_of
from nsysconv.notes import Note, Severity, merged
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray


class Pen(Protocol):
    """What writes a trace in one format. Times it gets are ns since the trace's zero."""

    def place(self, place: Place) -> None:
        """A process or a device, before any of its tracks."""

    def track(self, track: Track, place: Place, name: str) -> None:
        """A track, before any of its rows."""

    def cells(self, drawn: Drawn) -> tuple[pa.Array, pa.Array | None]:
        """What rows are written as, one cell each, and the ends of arrows that stand behind the rows;
        None: none, or they are in the cells.
        """

    def points(self, points: Points, places: Sequence[Place]) -> pa.Array:
        """Values of counters, each of which is of the place with its number."""

    def write(self, cells: pa.Array) -> None:
        """Writes cells."""


def common_zero(timelines: Sequence[Timeline]) -> tuple[int | None, list[int], list[Note]]:
    """The trace's zero (UTC, ns), how much later each profile's zero is, and what to say of it."""
    zeros = [timeline.profile.attributes["zero_utc_ns"] for timeline in timelines]
    known = [zero for zero in zeros if zero is not None]
    if len(known) == len(zeros):
        return min(known), [zero - min(known) for zero in known], []
    if len(zeros) == 1:
        return None, [0], []
    text = (
        "profiles without a time of day: each begins at its own zero, so that they are not aligned"
    )
    note = Note("not-aligned", Severity.APPROXIMATED, text, len(zeros) - len(known))
    return None, [0] * len(zeros), [note]


def draw(timelines: Sequence[Timeline], shifts: Sequence[int], pen: Pen) -> Written:
    """Writes all rows, and counts them by kind."""
    counts: Counter[str] = Counter()
    notes: list[Note] = []
    places = Places(timelines)
    track = flow = 1
    for which, (timeline, shift) in enumerate(zip(timelines, shifts, strict=True)):
        _settle(timeline)
        drawing = Drawing(timeline, track, flow)
        for pid in _pids(timeline):
            for kinds in (
                *((kind,) for kind in ON_THREADS),
                OPS,
                *((kind,) for kind in ON_DEVICES),
            ):
                _draw_section(drawing, kinds, pid, which, shift, places, pen, counts)
        _draw_counters(drawing, which, shift, places, pen, counts)
        track = drawing.next_track
        flow = flow if drawing.flows is None else drawing.flows.next
        notes += [*counters.notes(drawing), *_not_drawn(drawing)]
        timeline.forget()
    return Written(dict(counts), tuple(merged(notes)))


def _draw_section(
    drawing: Drawing, kinds: Sequence[Kind], pid: int, which: int, shift: int,
    places: Places, pen: Pen, counts: Counter[str],
) -> None:  # fmt: skip
    if not any(drawing.profile.row_count(kind.table) for kind in kinds):
        return
    section = drawing.section(kinds, pid)
    timeline = drawing.timeline
    if kinds is OPS and len(section):
        # Rows of devices do not say whose they are: what stands before them does.
        pen.place(places.process(which, timeline, pid))
    for track in section.tracks:
        place = (
            places.device(which, timeline, track.key["device_id"])
            if track.kind.on_gpu
            else places.process(which, timeline, pid)
        )
        pen.place(place)
        pen.track(track, place, words_of(track, timeline))
    with Behind() as behind:
        for drawn, order in drawing.blocks(section):
            if shift:
                drawn = [replace(rows, start=rows.start + shift) for rows in drawn]
            for rows in drawn:
                counts[rows.kind.what] += len(rows.start)
            behind.do(partial(_write, pen, drawn, order))


def _write(pen: Pen, drawn: Sequence[Drawn], order: Array) -> None:
    """Writes rows, `order` saying where each stands among those of all kinds, and their arrows."""
    written, arrows = zip(*(pen.cells(rows) for rows in drawn), strict=True)
    pen.write(in_order(written, order))
    for each in arrows:
        if each is not None:
            pen.write(each)


def _draw_counters(
    drawing: Drawing, which: int, shift: int, places: Places, pen: Pen, counts: Counter[str]
) -> None:
    for points in counters.points(drawing):
        if not len(points.time):
            continue
        found = [
            places.process(which, drawing.timeline, c.pid)
            if c.device is None
            else places.device(which, drawing.timeline, c.device)
            for c in points.counters
        ]
        for place in found:
            pen.place(place)
        counts["counter"] += len(points.time)
        moved = Points(points.counters, points.which, points.time + shift, points.value)
        pen.write(pen.points(moved, found))


def _settle(timeline: Timeline) -> None:
    """Has the store decide which rows of damaged tables there are, before any of them is counted."""
    for table in schema.EVENT_TABLES:
        for _ in timeline.profile.batches(table, 1):
            break
    timeline.forget()


def _pids(timeline: Timeline) -> list[int]:
    """The processes that rows name; last, where some name none, MISSING."""
    profile = timeline.profile
    found = {int(row["pid"]) for row in profile.rows("process")}
    for table in schema.EVENT_TABLES:
        constant = profile.constants(table).get("pid")
        if constant is not None:
            found.add(constant)
        elif profile.row_count(table):
            found.update(distinct(profile.columns(table, ("pid",))["pid"]).tolist())
            profile.release(table, ("pid",))
    # MISSING is the least, and comes last.
    return [*sorted(found - {MISSING}), *sorted(found & {MISSING})]


def _not_drawn(drawing: Drawing) -> list[Note]:
    found = []
    for kind, count in drawing.untimed.items():
        if count:
            text = f"rows of {kind} without a time: a trace has no place for them"
            found.append(Note("not-drawn", Severity.DROPPED, text, count))
    return found
