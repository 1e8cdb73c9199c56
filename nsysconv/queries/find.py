"""Events of any kind by their names: how many of each kind, and which took longest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from nsysconv.queries.columns import DEVICE, PID, PROFILE, RANK, TID, count_column, duration_column
from nsysconv.queries.contract import Array, Request
from nsysconv.queries.event_lanes import KINDS, Labels, labels, op_labels
from nsysconv.regex import regular_expression
from nsysconv.report import MISSING, Column, Report, Unit, report_table
from nsysconv.timeline.annotations import operators, ranges, shown_operators, shown_ranges
from nsysconv.timeline.arrays import Columns, indices
from nsysconv.timeline.events import event_id
from nsysconv.timeline.range_names import EXACT
from nsysconv.timeline.steps import step_names_at
from nsysconv.timeline.timeline import Timeline

NAME, COUNTS = "find", "find_counts"

_KIND = Column("kind", Unit.TEXT, f"The kind of event: {', '.join(KINDS)}.", key=True)
COLUMNS = (
    PROFILE,
    Column("event", Unit.TEXT, "Its id: kind and number, as `why` takes it."),
    Column("name", Unit.TEXT, "Its name; what has no name of its own has one in brackets."),
    duration_column("dur_ns", "How long it took."),
    Column("start_ns", Unit.NS, "When it began."),
    Column("step", Unit.TEXT, "The step in which it began, or was launched; null: in none."),
    RANK,
    PID,
    DEVICE,
    Column("stream_id", Unit.ID, "The stream; null: not on a GPU, or not recorded.", key=True),
    TID,
)
COUNT_COLUMNS = (
    PROFILE,
    _KIND,
    count_column("event_count", "Events whose name matches."),
    count_column("name_count", "Different names of these."),
    duration_column("sum_ns", "Sum of their durations, which may overlap.", adds=True),
    duration_column("max_ns", "The longest of them."),
)


@dataclass(frozen=True)
class _Events(Columns):
    # `launched` is when the host launched an operation, else when the event began.
    kind: Array
    row: Array
    label: Array
    start: Array
    end: Array
    pid: Array
    device: Array
    stream: Array
    tid: Array
    launched: Array


def find(pattern: str, timeline: Timeline, request: Request) -> tuple[Report, Report]:
    """Return the timed events whose name matches a regular expression, and how many of each kind.

    The longest come first, at most `request.limit` (0: all). Ranges and operators have their own names.
    Raises UsageError for what is no regular expression.
    """
    fits = regular_expression(pattern).search
    request = replace(request, range_names=EXACT)
    named = labels(timeline, request)
    fitting = np.array([bool(fits(text)) for text in named.texts], bool)
    parts = [
        part.take(np.flatnonzero(fitting[part.label]) if len(part) else np.empty(0, np.int64))
        for part in _parts(timeline, request, named)
    ]
    names = list(_Events.__dataclass_fields__)
    found = _Events(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    dur = found.end - found.start
    order = np.lexsort((found.row, found.start, -dur))[: request.limit or None]
    shown = found.take(order)
    rows = {
        "profile": [timeline.profile.ref.label] * len(shown),
        "event": [event_id(KINDS[k], r) for k, r in zip(shown.kind, shown.row, strict=True)],
        "name": [named.texts[i] for i in shown.label.tolist()],
        "dur_ns": dur[order],
        "start_ns": shown.start,
        "step": _steps(timeline, request, shown),
        "rank": [timeline.ranks.get(pid) for pid in shown.pid.tolist()],
        "pid": shown.pid,
        "device_id": shown.device,
        "stream_id": shown.stream,
        "tid": shown.tid,
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
    return base, _counts(base, found, dur)


def _parts(timeline: Timeline, request: Request, named: Labels) -> Iterator[_Events]:
    ops, owner, calls = timeline.ops, timeline.owner, timeline.calls
    timed = indices(ops.timed)
    ops, owner = ops.take(timed), owner[timed]
    label, nothing = op_labels(timeline, request, named)(ops), np.full(len(ops), MISSING)
    launched = np.where(owner >= 0, _at(calls.start, owner), ops.start)
    yield _Events(
        ops.kind, ops.row, label, ops.start, ops.end, ops.pid, ops.device, ops.stream, nothing,
        launched,
    )  # fmt: skip
    calls = calls.take(indices(timeline.calls_in_slice))
    tids = np.array([tid for _, tid in calls.threads], np.int64)
    yield _on_host(
        "api_call", named, calls.name_id, calls.row, (calls.start, calls.end),
        (calls.pid, _at(tids, calls.thread)),
    )  # fmt: skip
    for kind, spans, exact in (
        ("range", ranges(timeline), shown_ranges(timeline, EXACT)),
        ("operator", operators(timeline), shown_operators(timeline, EXACT)),
    ):
        which = indices(timeline.holds(spans))
        mine = spans.take(which)
        times, thread = (mine.start, mine.end), (mine.pid, mine.tid)
        yield _on_host(kind, named, exact.name[which], mine.row, times, thread)


def _on_host(
    kind: str,
    named: Labels,
    ids: Array,
    rows: Array,
    times: tuple[Array, Array],
    thread: tuple[Array, Array],
) -> _Events:
    number, nothing = KINDS.index(kind), np.full(len(ids), MISSING)
    label = named.of(number, ids) if len(ids) else np.empty(0, np.int32)
    kinds = np.full(len(ids), number, np.int8)
    return _Events(kinds, rows, label, *times, thread[0], nothing, nothing, thread[1], times[0])


def _at(values: Array, places: Array) -> Array:
    # What has no place, -1, has the last value, if there is any.
    return values[places] if len(values) else np.full(len(places), MISSING)


def _steps(timeline: Timeline, request: Request, events: _Events) -> list[str | None]:
    found = np.full(len(events), None, object)
    for pid in np.unique(events.pid).tolist():
        mine = np.flatnonzero(events.pid == pid)
        found[mine] = step_names_at(timeline, request.steps, pid, events.launched[mine])
    return list(found)


def _counts(base: Report, found: _Events, dur: Array) -> Report:
    rows: dict[str, list[object]] = {column.name: [] for column in COUNT_COLUMNS}
    for kind in np.unique(found.kind).tolist():
        mine = found.kind == kind
        values: Mapping[str, object] = {
            "profile": base.profiles[0].label,
            "kind": KINDS[kind],
            "event_count": int(mine.sum()),
            "name_count": len(np.unique(found.label[mine])),
            "sum_ns": int(dur[mine].sum()),
            "max_ns": int(dur[mine].max()),
        }
        for name, value in values.items():
            rows[name].append(value)
    return replace(
        base,
        name=COUNTS,
        title="How many of each kind",
        columns=COUNT_COLUMNS,
        table=report_table(COUNT_COLUMNS, rows),
        row_count=len(rows["kind"]),
    )
