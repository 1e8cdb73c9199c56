"""Events of any kind by their names: how many of each kind, and which took longest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nsysconv.queries.columns import DEVICE, PID, PROFILE, RANK, TID, count_column, duration_column
from nsysconv.queries.contract import Array, Request
from nsysconv.queries.event_lanes import (
    CALL,
    KINDS,
    Labels,
    Lane,
    LaneEvents,
    event_ids,
    labels,
    lanes,
)
from nsysconv.regex import regular_expression
from nsysconv.report import Column, Report, Unit, report_table
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.range_names import EXACT
from nsysconv.timeline.steps import annotated, places, steps_of_ops
from nsysconv.timeline.timeline import Timeline

NAME, COUNTS = "find", "find_counts"

_KIND = Column("kind", Unit.TEXT, f"The kind of event: {', '.join(KINDS)}.", key=True)
COLUMNS = (
    PROFILE,
    Column("event", Unit.TEXT, "Id of the event (kind and number) for `nsysconv why`."),
    Column("name", Unit.TEXT, "Name of the event; a description in brackets if it has no name."),
    duration_column("dur_ns", "Duration of the event."),
    Column("start_ns", Unit.NS, "Start of the event."),
    Column("step", Unit.TEXT, "Step in which the event began or was launched; null: none."),
    RANK,
    PID,
    DEVICE,
    Column("stream_id", Unit.ID, "Stream; null: not on a GPU, or not recorded.", key=True),
    TID,
)
COUNT_COLUMNS = (
    PROFILE,
    _KIND,
    count_column("event_count", "Number of events whose name matches."),
    count_column("name_count", "Number of different names among these."),
    duration_column("sum_ns", "Total duration of these events; overlaps count twice.", adds=True),
    duration_column("max_ns", "Duration of the longest event."),
)


def find(pattern: str, timeline: Timeline, request: Request) -> tuple[Report, Report]:
    """Return the timed events whose name matches a regular expression, and how many of each kind.

    The longest come first, at most `request.limit` (0: all). Ranges and operators have their own names.
    Raises UsageError for what is no regular expression.
    """
    fits = regular_expression(pattern).search
    request = replace(request, range_names=EXACT)
    named = labels(timeline, request)
    fitting = np.array([bool(fits(text)) for text in named.texts], bool)
    places: list[Lane] = []
    parts = [_NONE]
    for lane, events in lanes(timeline, request, named):
        places.append(lane)
        parts.append(events.take(np.flatnonzero(fitting[events.label])))
    of_lane = np.repeat(np.arange(-1, len(places)), [len(part) for part in parts])
    found = LaneEvents(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS)
    )
    dur = found.end - found.start
    order = np.lexsort((found.place, found.start, -dur))[: request.limit or None]
    shown, on = found.take(order), [places[i] for i in of_lane[order].tolist()]
    place = {
        column: np.array([getattr(lane, name) for lane in on], np.int64)
        for column, name in _PLACES.items()
    }
    kinds = named.kinds[shown.label]
    ids = event_ids(timeline, kinds, shown.place).tolist()
    rows = {
        "profile": [timeline.profile.ref.label] * len(shown),
        "event": [f"{KINDS[kind]}:{number}" for kind, number in zip(kinds, ids, strict=True)],
        "name": [named.texts[i] for i in shown.label.tolist()],
        "dur_ns": dur[order],
        "start_ns": shown.start,
        "step": _steps(timeline, request, kinds, shown, place["pid"]),
        "rank": [timeline.ranks.get(lane.pid) for lane in on],
        **place,
    }
    base = Report(
        NAME,
        f"Events named {pattern}, the longest first",
        COLUMNS,
        report_table(COLUMNS, rows),
        profiles=(timeline.profile.ref,),
        slice=timeline.slice_description,
        notes=(*timeline.profile.notes, *timeline.notes),
        row_count=len(found),
    )
    return base, _counts(base, named, found, dur)


_PLACES = {"pid": "pid", "device_id": "device", "stream_id": "stream", "tid": "tid"}
_COLUMNS = ("start", "end", "label", "place")
_NONE = LaneEvents(*(np.empty(0, np.int64) for _ in _COLUMNS))


def _steps(
    timeline: Timeline, request: Request, kinds: Array, events: LaneEvents, pid: Array
) -> list[str | None]:
    # The step in which each was launched, or began.
    of_host = annotated(timeline, request.steps)
    step = places(of_host, pid, events.start)
    for kind in distinct(kinds[kinds < CALL]).tolist():
        mine, which = np.flatnonzero(kinds == kind), np.flatnonzero(timeline.ops.kind == kind)
        op_of_row = np.empty(int(timeline.ops.row[which].max()) + 1, np.int64)
        op_of_row[timeline.ops.row[which]] = which
        step[mine] = steps_of_ops(timeline, request.steps, op_of_row[events.place[mine]])
    names = {each.pid: each.name for each in of_host}
    return [
        names[of][at] if at >= 0 else None
        for of, at in zip(pid.tolist(), step.tolist(), strict=True)
    ]


def _counts(base: Report, named: Labels, found: LaneEvents, dur: Array) -> Report:
    of_label = named.kinds[found.label]
    there = distinct(of_label).tolist()
    each = [of_label == kind for kind in there]
    rows: Mapping[str, list[object]] = {
        "profile": [base.profiles[0].label] * len(there),
        "kind": [KINDS[kind] for kind in there],
        "event_count": [int(mine.sum()) for mine in each],
        "name_count": [len(distinct(found.label[mine])) for mine in each],
        "sum_ns": [int(dur[mine].sum()) for mine in each],
        "max_ns": [int(dur[mine].max()) for mine in each],
    }
    return replace(
        base,
        name=COUNTS,
        title="How many of each kind",
        columns=COUNT_COLUMNS,
        table=report_table(COUNT_COLUMNS, rows),
        row_count=len(rows["kind"]),
    )
