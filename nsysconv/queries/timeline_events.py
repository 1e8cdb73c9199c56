"""One row per event on a lane: GPU operations by stream; calls, ranges and operators by thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import DEVICE, PROFILE, RANK, direction_code, direction_names
from nsysconv.queries.contract import Array, Query, Request, Result
from nsysconv.report import MISSING, Column
from nsysconv.timeline.annotations import operators, ranges
from nsysconv.timeline.events import Kind, Spans
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    PROFILE,
    RANK,
    Column("pid", Unit.ID, "The process.", key=True),
    DEVICE,
    Column("stream_id", Unit.ID, "The stream; null: not on a GPU, or not recorded.", key=True),
    Column("tid", Unit.ID, "The thread; null: on a GPU, or not recorded.", key=True),
    Column("thread", Unit.TEXT, "The thread's name.", brief=False),
    Column(
        "kind",
        Unit.TEXT,
        "What it is: kernel, memcpy, memset, migration, graph_launch, api_call, range or operator.",
        key=True,
    ),
    Column("start_ns", Unit.NS, "When it began.", key=True),
    Column("dur_ns", Unit.NS, "How long it took.", better="less"),
    Column("name", Unit.TEXT, "What it is called; what has no name stands in brackets."),
)

_KINDS = ("kernel", "memcpy", "memset", "migration", "graph_launch")
_NAME_COLUMNS = {"demangled": "name_id", "short": "short_name_id", "mangled": "mangled_name_id"}


@dataclass(frozen=True)
class _Events:
    """Some events in the order of their starts, and how many there are in all; `words` spells the
    names of those at these indices.
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
    words: Callable[[Array], Sequence[str]]

    def __len__(self) -> int:
        return len(self.start)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per event in the order of time, what contains others before them.

    Events without a time are left out. Ranges that were never closed end with the recording.
    """
    parts = list(_parts(timeline, request))
    total = sum(part.count for part in parts)
    starts = np.concatenate([part.start for part in parts])
    ends = np.concatenate([part.end for part in parts])
    order = np.lexsort((-ends, starts))
    order = order[: request.limit] if request.limit else order
    data: dict[str, Any] = {
        name: np.concatenate([getattr(part, field) for part in parts])[order]
        for name, field in (("pid", "pid"), ("device_id", "device"), ("stream_id", "stream"),
                            ("tid", "tid"))
    }  # fmt: skip
    data["start_ns"], data["dur_ns"] = starts[order], (ends - starts)[order]
    kinds, names = np.empty(len(order), object), np.empty(len(order), object)
    first = 0
    for part in parts:
        rows = np.flatnonzero((order >= first) & (order < first + len(part)))
        mine = order[rows] - first
        kinds[rows] = np.array(part.kinds, object)[part.kind[mine]]
        names[rows] = np.array(part.words(mine), object)
        first += len(part)
    threads = {(row["pid"], row["tid"]): row["name"] for row in timeline.profile.rows("thread")}
    pairs = zip(data["pid"].tolist(), data["tid"].tolist(), strict=True)
    return Result(
        {
            "rank": [timeline.ranks.get(pid) for pid in data["pid"].tolist()],
            **data,
            "thread": [threads.get(pair) for pair in pairs],
            "kind": kinds.tolist(),
            "name": names.tolist(),
        },
        total,
    )


TIMELINE_EVENTS = Query(
    title="Events in the order of time",
    needs={Fact.KERNELS},
    uses={
        Fact.MEMCPYS,
        Fact.MEMSETS,
        Fact.UNIFIED_MEMORY,
        Fact.GRAPH_LAUNCHES,
        Fact.API_CALLS,
        Fact.API_LINKS,
        Fact.RANGES,
        Fact.OPERATORS,
        Fact.THREADS,
    },
    columns=COLUMNS,
    compute=compute,
)


def _parts(timeline: Timeline, request: Request) -> Iterator[_Events]:
    yield _operations(timeline, request)
    yield _calls(timeline, request.limit)
    for kind, spans in (("range", ranges(timeline)), ("operator", operators(timeline))):
        yield _spans(timeline, spans, kind, request.limit)


def _first(mask: Array, start: Array, limit: int) -> Array:
    """Of the events of a mask the first ones, as indices in the order of their starts."""
    indices = np.flatnonzero(mask)
    if limit and len(indices) > limit and (start[indices[1:]] >= start[indices[:-1]]).all():
        last = start[indices[limit - 1]]
        indices = indices[: np.searchsorted(start[indices], last, side="right")]
    elif limit and len(indices) > limit:
        # Events that start together stay together, for the longest of them comes first.
        last = np.partition(start[indices], limit - 1)[limit - 1]
        indices = indices[start[indices] <= last]
    result: Array = indices[np.argsort(start[indices], kind="stable")]
    return result


def _nowhere(count: int) -> Array:
    """The device or stream of what is on no GPU, the thread of what is on one."""
    return np.full(count, MISSING)


def _operations(timeline: Timeline, request: Request) -> _Events:
    ops = timeline.ops
    kept = _first(ops.timed, ops.start, request.limit)
    ours = ops.take(kept)

    def words(which: Array) -> list[str]:
        names = np.array(["[kernel]", "[memcpy]", "[memset]", "[UM]", "[graph launch]"], object)
        result = names[ours.kind[which]]
        kernels = np.flatnonzero(ours.kind[which] == Kind.KERNEL)
        result[kernels] = _kernel_names(timeline, ours.row[which[kernels]], request)
        for kind, table in ((Kind.MEMCPY, "memcpy"), (Kind.MIGRATION, "unified_memory_event")):
            mine = np.flatnonzero(ours.kind[which] == kind)
            codes = timeline.profile.columns(table, ("direction",))["direction"]
            found = codes[ours.row[which[mine]]]
            migration = kind == Kind.MIGRATION
            told = np.where(found == MISSING, 0, found) + direction_code(0, migration=migration)
            prefix = "" if migration else "memcpy "
            result[mine] = [f"[{prefix}{word}]" for word in direction_names(told)]
        return list(result)

    return _Events(
        int(np.count_nonzero(ops.timed)),
        ours.start,
        ours.end,
        ours.pid,
        ours.device,
        ours.stream,
        _nowhere(len(ours)),
        _KINDS,
        ours.kind,
        words,
    )


def _kernel_names(timeline: Timeline, rows: Array, request: Request) -> list[str]:
    profile = timeline.profile
    column = _NAME_COLUMNS[request.kernel_names]
    found = profile.columns("kernel", tuple(dict.fromkeys(("name_id", column))))
    ids = found[column][rows].astype(np.int64)
    ids = np.where(ids == MISSING, found["name_id"][rows], ids)
    known = profile.names(np.unique(ids[ids != MISSING]))
    return [known.get(i, "[no name]") for i in ids.tolist()]


def _calls(timeline: Timeline, limit: int) -> _Events:
    calls = timeline.calls
    kept = _first(timeline.called, calls.start, limit)
    tids = np.array([tid for _, tid in calls.threads], np.int64)

    def words(which: Array) -> list[str]:
        ids = calls.name_id[kept[which]].tolist()
        return [timeline.call_names.get(i, "[no name]") for i in ids]

    return _Events(
        int(np.count_nonzero(timeline.called)),
        calls.start[kept],
        calls.end[kept],
        calls.pid[kept],
        _nowhere(len(kept)),
        _nowhere(len(kept)),
        tids[calls.thread[kept]] if len(kept) else np.empty(0, np.int64),
        ("api_call",),
        np.zeros(len(kept), np.int8),
        words,
    )


def _spans(timeline: Timeline, spans: Spans, kind: str, limit: int) -> _Events:
    held = timeline.holds(spans)
    ours = spans.take(_first(held, spans.start, limit))
    return _Events(
        int(np.count_nonzero(held)),
        ours.start,
        ours.end,
        ours.pid,
        _nowhere(len(ours)),
        _nowhere(len(ours)),
        ours.tid,
        (kind,),
        np.zeros(len(ours), np.int8),
        lambda which: [ours.names[i] for i in ours.name[which].tolist()],
    )
