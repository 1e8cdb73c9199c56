"""One row per event on a lane: GPU operations by stream; calls, ranges and operators by thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    DEVICE,
    KERNEL_NAME_COLUMNS,
    PID,
    PROFILE,
    RANK,
    direction_codes,
    direction_names,
    duration_column,
    kernel_name_ids,
    key_column,
)
from nsysconv.queries.contract import CALL_FACTS, GPU_OP_FACTS, Array, Query, Request, Result
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.annotations import operators, ranges
from nsysconv.timeline.events import OpKind, Spans
from nsysconv.timeline.timeline import Timeline

COLUMNS = (
    PROFILE,
    RANK,
    PID,
    DEVICE,
    Column("stream_id", Unit.ID, "The stream; null: not on a GPU, or not recorded.", key=True),
    Column("tid", Unit.ID, "The thread; null: on a GPU, or not recorded.", key=True),
    Column("thread", Unit.TEXT, "The thread's name.", brief=False),
    key_column(
        "kind",
        "What it is: kernel, memcpy, memset, migration, graph_launch, api_call, range or operator.",
    ),
    Column("start_ns", Unit.NS, "When it began.", key=True),
    duration_column("dur_ns", "How long it took."),
    Column("name", Unit.TEXT, "What it is called; what has no name stands in brackets."),
)

_KINDS = ("kernel", "memcpy", "memset", "migration", "graph_launch")
_OP_NAMES = ("[kernel]", "[memcpy]", "[memset]", "[UM]", "[graph launch]")


@dataclass(frozen=True)
class _Events:
    """The first events of one kind by their starts, of `count` in all.

    `device` and `stream` are MISSING for what is on no GPU, `tid` for what is on one. `names` returns
    the names of the events at these indices: only those that are shown are looked up.
    """

    count: int
    start: Array
    end: Array
    pid: Array
    device: Array
    stream: Array
    tid: Array
    kinds: Sequence[str]
    kind: Array
    names: Callable[[Array], Sequence[str]]

    def __len__(self) -> int:
        return len(self.start)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per event in the order of time, what contains others before them.

    Events without a time are left out. Ranges that were never closed end with the recording.
    """
    parts = [
        _operations(timeline, request),
        _calls(timeline, request.limit),
        _spans(timeline, ranges(timeline), "range", request.limit),
        _spans(timeline, operators(timeline), "operator", request.limit),
    ]
    names = ("start", "end", "pid", "tid", "device", "stream")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    starts, ends = columns["start"], columns["end"]
    order = np.lexsort((-ends, starts))[: request.limit or None]
    kinds, texts = np.empty((2, len(order)), object)
    first = 0
    for part in parts:
        rows = np.flatnonzero((order >= first) & (order < first + len(part)))
        events = order[rows] - first
        kinds[rows] = np.array(part.kinds, object)[part.kind[events]]
        texts[rows] = np.array(part.names(events), object)
        first += len(part)
    pid, tid = columns["pid"][order], columns["tid"][order]
    threads = {(row["pid"], row["tid"]): row["name"] for row in timeline.profile.rows("thread")}
    values = {
        "rank": [timeline.ranks.get(i) for i in pid.tolist()],
        "pid": pid,
        "device_id": columns["device"][order],
        "stream_id": columns["stream"][order],
        "tid": tid,
        "thread": [threads.get(key) for key in zip(pid.tolist(), tid.tolist(), strict=True)],
        "kind": kinds.tolist(),
        "start_ns": starts[order],
        "dur_ns": (ends - starts)[order],
        "name": texts.tolist(),
    }
    return Result(values, sum(part.count for part in parts))


TIMELINE_EVENTS = Query(
    title="Time line: events in the order of time",
    needs={Fact.KERNELS},
    uses={*(GPU_OP_FACTS - {Fact.DEVICES}), *CALL_FACTS, Fact.RANGES, Fact.OPERATORS, Fact.THREADS},
    columns=COLUMNS,
    compute=compute,
)


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


def _operations(timeline: Timeline, request: Request) -> _Events:
    ops = timeline.ops.take(_first(timeline.ops.timed, timeline.ops.start, request.limit))

    def names(events: Array) -> list[str]:
        kinds, rows = ops.kind[events], ops.row[events]
        result = np.array(_OP_NAMES, object)[kinds]
        kernels = np.flatnonzero(kinds == OpKind.KERNEL)
        result[kernels] = _kernel_names(timeline, rows[kernels], request)
        for kind, table in ((OpKind.MEMCPY, "memcpy"), (OpKind.MIGRATION, "unified_memory_event")):
            copies = np.flatnonzero(kinds == kind)
            column = timeline.profile.columns(table, ("direction",))["direction"]
            directions = direction_codes(column[rows[copies]], migration=kind == OpKind.MIGRATION)
            prefix = "" if kind == OpKind.MIGRATION else "memcpy "
            result[copies] = [f"[{prefix}{name}]" for name in direction_names(directions)]
        return list(result)

    return _Events(
        count=int(np.count_nonzero(timeline.ops.timed)),
        start=ops.start,
        end=ops.end,
        pid=ops.pid,
        device=ops.device,
        stream=ops.stream,
        tid=np.full(len(ops), MISSING),
        kinds=_KINDS,
        kind=ops.kind,
        names=names,
    )


def _kernel_names(timeline: Timeline, rows: Array, request: Request) -> list[str]:
    profile = timeline.profile
    wanted = dict.fromkeys(("name_id", KERNEL_NAME_COLUMNS[request.kernel_names]))
    columns = profile.columns("kernel", tuple(wanted))
    ids = kernel_name_ids(
        {name: column[rows].astype(np.int64) for name, column in columns.items()},
        request.kernel_names,
    )
    texts = profile.names(np.unique(ids[ids != MISSING]))
    return [texts.get(i, "[no name]") for i in ids.tolist()]


def _calls(timeline: Timeline, limit: int) -> _Events:
    calls = timeline.calls
    shown = _first(timeline.calls_in_slice, calls.start, limit)
    tids = np.array([tid for _, tid in calls.threads], np.int64)
    ids = calls.name_id[shown]
    return _on_host(
        "api_call",
        int(np.count_nonzero(timeline.calls_in_slice)),
        (calls.start[shown], calls.end[shown]),
        (calls.pid[shown], tids[calls.thread[shown]] if len(shown) else np.empty(0, np.int64)),
        lambda events: [timeline.call_names.get(i, "[no name]") for i in ids[events].tolist()],
    )


def _spans(timeline: Timeline, spans: Spans, kind: str, limit: int) -> _Events:
    selected = timeline.holds(spans)
    shown = spans.take(_first(selected, spans.start, limit))
    return _on_host(
        kind,
        int(np.count_nonzero(selected)),
        (shown.start, shown.end),
        (shown.pid, shown.tid),
        lambda events: [shown.names[i] for i in shown.name[events].tolist()],
    )


def _on_host(
    kind: str,
    count: int,
    times: tuple[Array, Array],
    thread: tuple[Array, Array],
    names: Callable[[Array], Sequence[str]],
) -> _Events:
    no_device = np.full(len(times[0]), MISSING)
    kinds = np.zeros(len(no_device), np.int8)
    pid, tid = thread
    return _Events(count, *times, pid, no_device, no_device, tid, (kind,), kinds, names)
