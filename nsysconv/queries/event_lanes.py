"""All events by lane: GPU operations by stream; calls, ranges and operators by thread."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from nsysconv.queries.columns import (
    DEVICE,
    KERNEL_NAME_COLUMNS,
    PID,
    PROFILE,
    RANK,
    direction_codes,
    direction_names,
    kernel_name_ids,
    key_column,
)
from nsysconv.queries.contract import Array, Request
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.annotations import (
    operators,
    range_colors,
    ranges,
    shown_operators,
    shown_ranges,
)
from nsysconv.timeline.arrays import Columns, by_group, distinct, factorize, indices, take
from nsysconv.timeline.events import EVENT_KINDS, ApiCalls, GpuOps, OpKind, Spans
from nsysconv.timeline.idle import GAP, gap_of_number
from nsysconv.timeline.timeline import Timeline

KINDS = tuple(EVENT_KINDS)
"""The kinds of events, those on a GPU first."""

AT_ONCE = 1 << 17
"""About so many events of a lane are looked at together."""

CALL, _RANGE, _OPERATOR = range(len(OpKind), len(KINDS))
OP_NAMES = ("[kernel]", "[memcpy]", "[memset]", "[UM]", "[graph launch]")
"""What operations are called that have no name of their own, by OpKind."""

NO_NAME = "[no name]"

LANE_COLUMNS = (
    PROFILE,
    RANK,
    PID,
    DEVICE,
    Column("stream_id", Unit.ID, "Stream; null: not on a GPU, or not recorded.", key=True),
    Column("tid", Unit.ID, "Thread; null: on a GPU, or not recorded.", key=True),
    Column("thread", Unit.TEXT, "Name of the thread.", brief=False),
)
COLOR = Column(
    "color",
    Unit.TEXT,
    "Color that the program gave the range, `#rrggbb`; null: none.",
    brief=False,
)
KIND = key_column(
    "kind",
    "Kind of event: kernel, memcpy, memset, migration, graph_launch, api_call, range or operator.",
)


@dataclass(frozen=True)
class Lane:
    """A stream of a device, or a thread; MISSING for what it has not."""

    on_gpu: bool
    pid: int
    device: int
    stream: int
    tid: int


@dataclass(frozen=True)
class LaneEvents(Columns):
    """Events of one lane by their starts; of those that start together the longest comes first.

    `label` numbers the labels of `Labels`; of `place`, `event_ids` makes ids.
    """

    start: Array
    end: Array
    label: Array
    place: Array


@dataclass(frozen=True)
class Labels:
    """What events are called: kind and text by label, in the order of kinds and then of texts."""

    kinds: Array
    texts: Sequence[str]
    by_id: Sequence[tuple[Array, Array]]
    """Per kind the ids that its events bear, in order, and the label of each."""

    def of(self, kind: int, ids: Array) -> Array:
        """Return the labels of events of a kind by the ids that they bear."""
        known, label = self.by_id[kind]
        # Most ids repeat, so only the distinct ones are searched for.
        number, (values,) = factorize(ids)
        return take(label[np.searchsorted(known, values)], number)


def labels(timeline: Timeline, request: Request) -> Labels:
    """Return what the events of a time line are called.

    Kernels bear the id of their name, copies and migrations the code of their direction, calls the id of
    their name, ranges and operators its number; other events have one label.
    """
    texts = _op_texts(timeline, request)
    call_ids = distinct(timeline.calls.name_id)
    texts.append({i: timeline.call_names.get(i, NO_NAME) for i in call_ids.tolist()})
    texts += [dict(enumerate(spans.names)) for spans in _spans_of(timeline, request).values()]
    return _labels(texts)


def labels_of_ops(timeline: Timeline, request: Request) -> Labels:
    """Return what the GPU operations of a time line are called, as `labels` does."""
    return _labels(_op_texts(timeline, request))


def _op_texts(timeline: Timeline, request: Request) -> list[Mapping[int, str]]:
    kernel_ids = distinct(kernel_ids_of(timeline, request))
    kernel_names = timeline.profile.names(kernel_ids[kernel_ids != MISSING])
    texts: list[Mapping[int, str]] = [
        {i: kernel_names.get(i, NO_NAME) for i in kernel_ids.tolist()}
    ]
    for kind in (OpKind.MEMCPY, OpKind.MEMSET, OpKind.MIGRATION, OpKind.GRAPH):
        if kind in (OpKind.MEMCPY, OpKind.MIGRATION):
            codes = distinct(directions_of(timeline, kind))
            texts.append(dict(zip(codes.tolist(), copy_names(kind, codes), strict=True)))
        else:
            texts.append({0: OP_NAMES[kind]})
    return texts


def _labels(texts: Sequence[Mapping[int, str]]) -> Labels:
    kinds: list[int] = []
    all_texts: list[str] = []
    by_id: list[tuple[Array, Array]] = []
    for number_of_kind, names_by_id in enumerate(texts):
        ordered = sorted(set(names_by_id.values()))
        number = {name: len(all_texts) + place for place, name in enumerate(ordered)}
        ids = sorted(names_by_id)
        label = np.array([number[names_by_id[i]] for i in ids], np.int32)
        by_id.append((np.array(ids, np.int64), label))
        kinds += [number_of_kind] * len(ordered)
        all_texts += ordered
    return Labels(np.array(kinds, np.int8), all_texts, by_id)


def lanes(timeline: Timeline, request: Request, named: Labels) -> Iterator[tuple[Lane, LaneEvents]]:
    """Yield lanes with their events: streams by device, process and number, then threads.

    A lane with many events comes several times, each time with those that begin in the next part of the
    time. Events without a time are left out, and so are those outside the slice. Ranges that were never
    closed end with the recording.
    """
    yield from _streams(timeline, request, named)
    yield from _threads(timeline, request, named)


def event_ids(timeline: Timeline, kinds: Array, places: Array) -> Array:
    """Return the ids of events by their kinds and places."""
    ids = places.astype(np.int64) + 1
    of_calls = kinds == CALL
    if of_calls.any():  # whose places are those in Timeline.calls
        ids[of_calls] = timeline.calls.row[places[of_calls]] + 1
    return ids


def event_colors(timeline: Timeline, kinds: Sequence[str], ids: Array) -> list[str | None]:
    """Return the colors of events by their kinds and numbers; None but for ranges that have one."""
    result = np.full(len(ids), None, object)
    of_ranges = np.flatnonzero(np.array(kinds, object) == KINDS[_RANGE])
    result[of_ranges] = range_colors(timeline, ids[of_ranges] - 1)
    return list(result)


def event_time(timeline: Timeline, event: str) -> tuple[int, int] | None:
    """Return start and end of an event by its id, `kernel:5`; None where it has no time here."""
    kind, _, number = event.partition(":")
    if kind == GAP:
        gap = gap_of_number(timeline, int(number))
        return int(gap.start[0]), int(gap.end[0])
    row, place = int(number) - 1, KINDS.index(kind)
    ops, calls = timeline.ops, timeline.calls
    events: GpuOps | ApiCalls | Spans
    if place < CALL:
        events, which = ops, ops.timed & (ops.kind == place) & (ops.row == row)
    elif place == CALL:
        events, which = calls, calls.row == row
    else:
        events = ranges(timeline) if place == _RANGE else operators(timeline)
        which = events.row == row
    found = np.flatnonzero(which)
    return (int(events.start[found[0]]), int(events.end[found[0]])) if len(found) else None


def op_labels(timeline: Timeline, request: Request, named: Labels) -> Callable[[GpuOps], Array]:
    """Return what gives GPU operations their labels."""
    kernel_ids = kernel_ids_of(timeline, request)
    directions = {kind: directions_of(timeline, kind) for kind in (OpKind.MEMCPY, OpKind.MIGRATION)}

    def labels_of(ops: GpuOps) -> Array:
        label = np.zeros(len(ops), np.int32)
        for kind in distinct(ops.kind).tolist():
            mine = ops.kind == kind
            rows = ops.row[mine]
            if kind == OpKind.KERNEL:
                ids = kernel_ids[rows]
            elif kind in directions:
                ids = directions[OpKind(kind)][rows]
            else:
                ids = np.zeros(len(rows), np.int64)
            label[mine] = named.of(kind, ids)
        return label

    return labels_of


def _streams(
    timeline: Timeline, request: Request, named: Labels
) -> Iterator[tuple[Lane, LaneEvents]]:
    ops, labels_of = timeline.ops, op_labels(timeline, request, named)
    group, (device, pid, stream) = factorize(ops.device, ops.pid, ops.stream)
    for number, members in enumerate(by_group(group, len(device))):
        lane = Lane(True, int(pid[number]), int(device[number]), int(stream[number]), MISSING)
        timed = members[_place_of(MISSING + 1, ops.start, members) :]
        for (which,) in _in_parts([(ops.start, timed)]):
            here = ops.take(which)
            yield lane, _ordered(here.start, here.end, labels_of(here), here.row)


def _threads(
    timeline: Timeline, request: Request, named: Labels
) -> Iterator[tuple[Lane, LaneEvents]]:
    calls = timeline.calls
    shown = indices(timeline.calls_in_slice)
    of_calls = by_group(take(calls.thread, shown), len(calls.threads), shown)
    # Kinds that contain others come first, so that a container precedes its content if both start
    # together.
    events: dict[int, Spans | ApiCalls] = {}
    places: dict[int, Mapping[tuple[int, int], Array]] = {}
    for kind, spans in _spans_of(timeline, request).items():
        events[kind], places[kind] = spans, _by_thread(spans, timeline.holds(spans))
    events[CALL], places[CALL] = calls, dict(zip(calls.threads, of_calls, strict=True))
    for pid, tid in sorted({key for by_thread in places.values() for key in by_thread}):
        mine = {kind: of[pid, tid] for kind, of in places.items() if len(of.get((pid, tid), ()))}
        kinds = [(events[kind].start, which) for kind, which in mine.items()]
        for parts in _in_parts(kinds) if kinds else ():
            columns = [
                _columns(kind, events[kind], which, named)
                for kind, which in zip(mine, parts, strict=True)
            ]
            merged = (np.concatenate(column) for column in zip(*columns, strict=True))
            yield Lane(False, pid, MISSING, MISSING, tid), _ordered(*merged)


def _columns(
    kind: int, events: Spans | ApiCalls, which: Array, named: Labels
) -> tuple[Array, Array, Array, Array]:
    if isinstance(events, ApiCalls):
        ids, place = events.name_id[which], which
    else:
        ids, place = events.name[which], events.row[which].astype(np.int32)
    return events.start[which], events.end[which], named.of(kind, ids), place


def _in_parts(kinds: Sequence[tuple[Array, Array]]) -> Iterator[list[Array]]:
    # A kind has its starts and its indices, which are in the order of the starts. Each result has, by
    # kind, the indices of events that begin in the next part of the time. Events that begin together
    # are in one part.
    start, most = max(kinds, key=lambda each: len(each[1]))
    edges = start[most[AT_ONCE::AT_ONCE]]
    cuts = [
        [0, *(_place_of(edge, start, which) for edge in edges.tolist()), len(which)]
        for start, which in kinds
    ]
    for ends in zip(*map(pairwise, cuts), strict=True):
        parts = [which[low:high] for (low, high), (_, which) in zip(ends, kinds, strict=True)]
        if any(map(len, parts)):
            yield parts


def _place_of(moment: int, start: Array, which: Array) -> int:
    return bisect_left(which, moment, key=lambda i: int(start[i]))


def _by_thread(spans: Spans, shown: Array) -> dict[tuple[int, int], Array]:
    # The places of a thread are in the order of starts.
    order = indices(shown)
    start = spans.start[order]
    if (start[1:] < start[:-1]).any():
        order = order[np.argsort(start, kind="stable")]
    group, (pids, tids) = factorize(take(spans.pid, order), take(spans.tid, order))
    keys = zip(pids.tolist(), tids.tolist(), strict=True)
    return dict(zip(keys, by_group(group, len(pids), order), strict=True))


def _ordered(start: Array, end: Array, label: Array, place: Array) -> LaneEvents:
    events = LaneEvents(start, end, label, place)
    if (start[1:] < start[:-1]).any():
        events = events.take(np.argsort(start, kind="stable").astype(np.int32))
    start, end = events.start, events.end
    if ((start[1:] == start[:-1]) & (end[1:] > end[:-1])).any():
        events = events.take(np.lexsort((-end, start)).astype(np.int32))
    return events


def _spans_of(timeline: Timeline, request: Request) -> dict[int, Spans]:
    return {
        _RANGE: shown_ranges(timeline, request.range_names),
        _OPERATOR: shown_operators(timeline, request.range_names),
    }


def copy_names(kind: OpKind, codes: Array) -> list[str]:
    """Return what copies, or migrations, are called by the codes of their directions."""
    prefix = "memcpy " if kind is OpKind.MEMCPY else ""
    return [f"[{prefix}{name}]" for name in direction_names(codes)]


def kernel_ids_of(timeline: Timeline, request: Request) -> Array:
    """Return the id of each kernel's name in the spelling that was asked for, by its row."""
    wanted = dict.fromkeys(("name_id", KERNEL_NAME_COLUMNS[request.kernel_names]))
    return kernel_name_ids(timeline.profile.columns("kernel", tuple(wanted)), request.kernel_names)


def directions_of(timeline: Timeline, kind: OpKind) -> Array:
    """Return the code of the direction of each copy, or migration, by its row."""
    table = "memcpy" if kind is OpKind.MEMCPY else "unified_memory_event"
    column = timeline.profile.columns(table, ("direction",))["direction"]
    return direction_codes(column, migration=kind is OpKind.MIGRATION)


def extent(timeline: Timeline, request: Request) -> tuple[int, int] | None:
    """Return when the slice is, or when all events are; None: there is none with a time."""
    when = timeline.slice_description or {}
    if "start_ns" in when:
        return int(when["start_ns"]), int(when["end_ns"])
    ops, calls = timeline.ops, timeline.calls
    spans = [each.take(timeline.holds(each)) for each in _spans_of(timeline, request).values()]
    edges = [(each.start.min(), each.end.max()) for each in spans if len(each)]
    if ops.timed.any():
        first = int(np.argmax(ops.timed))  # those without a time come first
        edges.append((ops.start[first], ops.end.max()))
    if timeline.calls_in_slice.any():
        in_slice = timeline.calls_in_slice
        edges.append((take(calls.start, in_slice).min(), take(calls.end, in_slice).max()))
    if not edges:
        return None
    return min(int(low) for low, _ in edges), max(int(high) for _, high in edges)


def lane_values(timeline: Timeline, counted: Sequence[tuple[Lane, int]]) -> dict[str, list[Any]]:
    """Return the values of LANE_COLUMNS of rows that are by lane: of each lane so many."""
    threads = {(row["pid"], row["tid"]): row["name"] for row in timeline.profile.rows("thread")}
    count = [rows for _, rows in counted]
    columns: dict[str, list[Any]] = {
        "rank": [timeline.ranks.get(lane.pid) for lane, _ in counted],
        "pid": [lane.pid for lane, _ in counted],
        "device_id": [lane.device for lane, _ in counted],
        "stream_id": [lane.stream for lane, _ in counted],
        "tid": [lane.tid for lane, _ in counted],
        "thread": [threads.get((lane.pid, lane.tid)) for lane, _ in counted],
    }
    return {
        name: np.repeat(np.array(values, object), count).tolist()
        for name, values in columns.items()
    }
