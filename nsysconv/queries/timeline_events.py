"""One row per event on a lane: GPU operations by stream; calls, ranges and operators by thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.codes import OPERATOR_KINDS, RANGE_KINDS
from nsysconv.errors import UsageError
from nsysconv.queries.columns import duration_column
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.queries.event_lanes import (
    COLOR,
    KIND,
    LANE_COLUMNS,
    NO_NAME,
    OP_NAMES,
    copy_names,
    directions_of,
    event_colors,
    kernel_ids_of,
)
from nsysconv.report import MISSING, Column, Unit
from nsysconv.threads import cached_property
from nsysconv.timeline.annotations import exact_ranges, operators, shown_operators, shown_ranges
from nsysconv.timeline.arrays import by_group, distinct, factorize, indices, take
from nsysconv.timeline.events import EVENT_KINDS, OpKind, Spans
from nsysconv.timeline.intervals import Union, union
from nsysconv.timeline.timeline import Timeline

COLUMNS = (
    *LANE_COLUMNS,
    KIND,
    Column("id", Unit.ID, "Number of the event among the profile's events of that kind, from 1."),
    Column("start_ns", Unit.NS, "Start of the event.", key=True),
    duration_column("dur_ns", "Duration of the event."),
    Column("name", Unit.TEXT, "Name of the event; a description in brackets if it has no name."),
    Column(
        "group",
        Unit.TEXT,
        "Name used in other reports; for ranges and operators the name of their group.",
        brief=False,
    ),
    Column(
        "sort",
        Unit.TEXT,
        f"For ranges {RANGE_KINDS[0]} or {RANGE_KINDS[1]}; for operators "
        f"{', '.join(OPERATOR_KINDS[:-1])} or {OPERATOR_KINDS[-1]}; else null.",
        brief=False,
    ),
    Column(
        "call_id",
        Unit.ID,
        "Id of the API call that launched the operation; null: not a GPU operation, or not "
        "recorded.",
        brief=False,
    ),
    COLOR,
)


@dataclass(frozen=True)
class _Events:
    """The events of one kind, or of the GPU, that are shown, by their starts, of `count` in total.

    `places` are those of _PLACES that they have. `kind` is theirs or, per event, each one's. `names`,
    where they differ `groups`, and where there are any `sorts` return these of the events at some
    indices: only those that are shown are looked up.
    """

    count: int
    start: Array
    end: Array
    places: Mapping[str, Array]
    kind: str | Array
    names: Callable[[Array], Sequence[str]]
    groups: Callable[[Array], Sequence[str]] | None = None
    sorts: Callable[[Array], Sequence[str]] | None = None

    def __len__(self) -> int:
        return len(self.start)

    def place(self, name: str) -> Array:
        """Return a column of _PLACES, MISSING where they have none."""
        return self.places.get(name, np.broadcast_to(np.int64(MISSING), len(self)))


_PLACES = ("pid", "device_id", "stream_id", "tid", "id", "call_id")


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per event in the order of time, what contains others before them.

    Events without a time are left out. Ranges that were never closed end with the recording.
    """
    shown = _Shown(timeline, asked_parts(request))
    parts = [
        _operations(timeline, shown, request),
        _spans(timeline, shown, "range", request),
        _spans(timeline, shown, "operator", request),
        _calls(timeline, shown, request.limit),
    ]
    starts, ends = (
        np.concatenate([getattr(part, side) for part in parts]) for side in ("start", "end")
    )
    order = np.lexsort((-ends, starts))[: request.limit or None]
    kinds, texts, groups, sorts = np.empty((4, len(order)), object)
    first = 0
    for part in parts:
        rows = np.flatnonzero((order >= first) & (order < first + len(part)))
        events = order[rows] - first
        kinds[rows] = part.kind if isinstance(part.kind, str) else part.kind[events]
        texts[rows] = np.array(part.names(events), object)
        groups[rows] = np.array(part.groups(events), object) if part.groups else texts[rows]
        if part.sorts:
            sorts[rows] = np.array(part.sorts(events), object)
        first += len(part)
    places = {name: np.concatenate([part.place(name) for part in parts])[order] for name in _PLACES}
    pid, tid = places["pid"], places["tid"]
    threads = {(row["pid"], row["tid"]): row["name"] for row in timeline.profile.rows("thread")}
    values = {
        **places,
        "rank": [timeline.ranks.get(i) for i in pid.tolist()],
        "thread": [threads.get(key) for key in zip(pid.tolist(), tid.tolist(), strict=True)],
        "kind": kinds.tolist(),
        "start_ns": starts[order],
        "dur_ns": (ends - starts)[order],
        "name": texts.tolist(),
        "group": groups.tolist(),
        "sort": sorts.tolist(),
        "color": event_colors(timeline, kinds.tolist(), places["id"]),
    }
    return Result(values, sum(part.count for part in parts))


TIMELINE_EVENTS = Query(
    options=(
        Option(
            "parts",
            None,
            "Only events that overlap one of these intervals: START:END in ns, separated by "
            "commas; also the calls that launched them, with what is around these calls.",
        ),
    ),
    columns=COLUMNS,
    compute=compute,
)


def asked_parts(request: Request) -> Union | None:
    """Return the times of the option `parts`; None: not given. Raises UsageError for what is no time."""
    text = request.options.get("parts")
    if text is None:
        return None
    try:
        pairs = [tuple(map(int, part.split(":"))) for part in text.split(",")]
        low, high = (np.array(edges, np.int64) for edges in zip(*pairs, strict=True))
    except (ValueError, OverflowError):
        hint = "It is START:END in whole ns, and several of these with commas between them: 0:10,50:60."
        raise UsageError(f"parts={text!r} is no list of times", hint=hint) from None
    if (high <= low).any():
        raise UsageError(f"parts={text!r}: each part ends after it begins")
    return union(low, high)


class _Shown:
    """Which events are shown: all of a slice, or those in some parts of it and what launched them."""

    def __init__(self, timeline: Timeline, parts: Union | None) -> None:
        self._timeline = timeline
        self._parts = parts
        if parts is not None:
            ops, owner = timeline.ops.take(self.ops), take(timeline.owner, self.ops)
            self._launching = distinct(owner[owner >= 0]) if len(ops) else owner

    @property
    def ops(self) -> Array:
        """Return which operations are shown, as a mask."""
        ops = self._timeline.ops
        result: Array = ops.timed & self._runs(ops.start, ops.end)
        return result

    @property
    def calls(self) -> Array:
        """Return which API calls are shown, as a mask."""
        calls, in_slice = self._timeline.calls, self._timeline.calls_in_slice
        if self._parts is None:
            return in_slice
        shown: Array = self._runs(calls.start, calls.end)
        for thread, launching in enumerate(self._by_thread):
            mine = indices(calls.thread == thread) if len(launching) else launching
            shown[mine] |= self._times(launching).meets(calls.start[mine], calls.end[mine])
        shown &= in_slice
        return shown

    def spans(self, spans: Spans) -> Array:
        """Return which named intervals are shown, as a mask."""
        in_slice = self._timeline.holds(spans)
        if self._parts is None:
            return in_slice
        shown: Array = self._runs(spans.start, spans.end)
        numbers = {key: number for number, key in enumerate(self._timeline.calls.threads)}
        group, (pids, tids) = factorize(spans.pid, spans.tid)
        keys = zip(pids.tolist(), tids.tolist(), strict=True)
        for key, mine in zip(keys, by_group(group, len(pids)), strict=True):
            launching = self._by_thread[numbers[key]] if key in numbers else None
            if launching is not None and len(launching):
                times = self._times(launching)
                shown[mine] |= times.meets(spans.start[mine], spans.end[mine])
        shown &= in_slice
        return shown

    def _runs(self, start: Array, end: Array) -> Array:
        return (
            np.broadcast_to(np.True_, len(start))
            if self._parts is None
            else self._parts.meets(start, end)
        )

    @cached_property
    def _by_thread(self) -> list[Array]:
        calls = self._timeline.calls
        return by_group(calls.thread[self._launching], len(calls.threads), self._launching)

    def _times(self, which: Array) -> Union:
        calls = self._timeline.calls
        return union(calls.start[which], np.maximum(calls.end[which], calls.start[which] + 1))


def _first(mask: Array, start: Array, limit: int) -> Array:
    """Return the first events of a mask, as indices in the order of their starts."""
    indices = np.flatnonzero(mask)
    if limit and len(indices) > limit:
        starts = start[indices]
        # Events that start together stay together, for the longest of them comes first.
        if (starts[1:] >= starts[:-1]).all():
            indices = indices[: np.searchsorted(starts, starts[limit - 1], side="right")]
        else:
            indices = indices[starts <= np.partition(starts, limit - 1)[limit - 1]]
    result: Array = indices[np.argsort(start[indices], kind="stable")]
    return result


def _operations(timeline: Timeline, shown: _Shown, request: Request) -> _Events:
    mask = shown.ops
    which = _first(mask, timeline.ops.start, request.limit)
    ops, call = timeline.ops.take(which), timeline.owner[which]
    launched = call >= 0
    call_id = np.full(len(ops), MISSING)
    if launched.any():
        call_id[launched] = timeline.calls.row[call[launched]] + 1

    def names(events: Array) -> list[str]:
        kinds, rows = ops.kind[events], ops.row[events]
        result = np.array(OP_NAMES, object)[kinds]
        kernels = np.flatnonzero(kinds == OpKind.KERNEL)
        ids = kernel_ids_of(timeline, request)[rows[kernels]]
        texts = timeline.profile.names(np.unique(ids[ids != MISSING]))
        result[kernels] = [texts.get(i, NO_NAME) for i in ids.tolist()]
        for kind in (OpKind.MEMCPY, OpKind.MIGRATION):
            copies = np.flatnonzero(kinds == kind)
            result[copies] = copy_names(kind, directions_of(timeline, kind)[rows[copies]])
        return list(result)

    places = {
        "pid": ops.pid,
        "device_id": ops.device,
        "stream_id": ops.stream,
        "id": ops.row.astype(np.int64) + 1,
        "call_id": call_id,
    }
    kinds = np.array(tuple(EVENT_KINDS), object)[ops.kind]
    return _Events(int(np.count_nonzero(mask)), ops.start, ops.end, places, kinds, names)


def _calls(timeline: Timeline, shown: _Shown, limit: int) -> _Events:
    calls = timeline.calls
    mask = shown.calls
    which = _first(mask, calls.start, limit)
    tids = np.array([tid for _, tid in calls.threads], np.int64)
    ids = calls.name_id[which]
    places = {
        "pid": calls.pid[which],
        "tid": tids[calls.thread[which]] if len(which) else np.empty(0, np.int64),
        "id": calls.row[which].astype(np.int64) + 1,
    }
    return _Events(
        int(np.count_nonzero(mask)), calls.start[which], calls.end[which], places, "api_call",
        lambda events: [timeline.call_names.get(i, NO_NAME) for i in ids[events].tolist()],
    )  # fmt: skip


def _spans(timeline: Timeline, shown: _Shown, kind: str, request: Request) -> _Events:
    spans, grouped = (
        (exact_ranges(timeline), shown_ranges(timeline, request.range_names))
        if kind == "range"
        else (operators(timeline), shown_operators(timeline, request.range_names))
    )
    mask = shown.spans(spans)
    order = _first(mask, spans.start, request.limit)
    which, group = spans.take(order), grouped.name[order]

    def names(events: Array) -> list[str]:
        return [which.names[i] for i in which.name[events].tolist()]

    def groups(events: Array) -> list[str]:
        return [grouped.names[i] for i in group[events].tolist()]

    def sorts(events: Array) -> list[str]:
        words = RANGE_KINDS if kind == "range" else OPERATOR_KINDS
        return [words[i] for i in which.kind[events].tolist()]

    count = int(np.count_nonzero(mask))
    places = {"pid": which.pid, "tid": which.tid, "id": which.row.astype(np.int64) + 1}
    return _Events(count, which.start, which.end, places, kind, names, groups, sorts)
