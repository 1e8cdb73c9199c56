"""The rules about API calls: those that wait, and those that copy and set memory (docs/rules.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv import codes
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.names import called
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import (
    DEVICE,
    PROFILE,
    RANK,
    direction_names,
    duration_column,
    memory_kind_names,
)
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.queries.rules.answers import counted, duration, found, none_of, nothing_found
from nsysconv.report import MISSING, Column, Unit, human
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.timeline import Timeline

_PID = Column("pid", Unit.ID, "The process.")
_FUNCTION = Column("name", Unit.TEXT, "Documented name of the function.")
_WAIT_COLUMNS = (
    PROFILE,
    RANK,
    _PID,
    Column("tid", Unit.ID, "The thread; null: not recorded."),
    Column("call_id", Unit.ID, "The call, `api_call.id`.", key=True),
    Column("start_ns", Unit.NS, "Start of the call."),
    duration_column("dur_ns", "Duration of the event."),
    _FUNCTION,
)


def _call_ids(timeline: Timeline, which: Array) -> Array:
    ids: Array = timeline.calls.row[which] + timeline.whole.profile.first_id("api_call")
    return ids


def _waiting_calls(timeline: Timeline, request: Request) -> Result:
    calls = timeline.calls
    is_wait = called("wait")
    functions = [i for i, name in timeline.call_names.items() if is_wait(name)]
    waits = timeline.calls_in_slice & calls.outermost & np.isin(calls.name_id, functions)
    waiting = np.flatnonzero(waits)
    dur, ids = (calls.end - calls.start)[waiting], _call_ids(timeline, waiting)
    order = np.lexsort((ids, calls.start[waiting], -dur))
    count = len(order)
    order = order[: request.limit or None]
    shown = waiting[order]
    threads = [calls.threads[place] for place in calls.thread[shown].tolist()]
    values = {
        "rank": [timeline.ranks.get(pid) for pid, _ in threads],
        "pid": [pid for pid, _ in threads],
        "tid": [tid for _, tid in threads],
        "call_id": ids[order],
        "start_ns": calls.start[shown],
        "dur_ns": dur[order],
        "name": [timeline.call_names[i] for i in calls.name_id[shown].tolist()],
    }
    return Result(values, count, (_waits_in_words(dur, int(timeline.calls_in_slice.sum())),))


def _waits_in_words(dur: Array, call_count: int) -> Note:
    if not len(dur):
        return none_of(call_count, "API call", "waits for a device or a stream")
    return found(
        f"{counted(len(dur), 'call')} waited {duration(int(dur.sum()))} in total",
        "Remove those that only guard what stream order guarantees anyway; wait for an event "
        "instead of everything: cudaEventSynchronize, cudaStreamWaitEvent.",
    )


CUDA_API_SYNC = Query(columns=_WAIT_COLUMNS, compute=_waiting_calls)

# -- copies and memsets

_TABLES = {OpKind.MEMCPY: "memcpy", OpKind.MEMSET: "memset"}
_UNKNOWN, _PAGEABLE = (codes.MEMORY_KINDS.index(name) for name in ("Unknown", "Pageable"))
_PINNED_OR_MANAGED = [
    codes.MEMORY_KINDS.index(name) for name in ("Pinned", "Managed", "Managed Static")
]
_TO_DEVICE = codes.DIRECTIONS.index("HtoD")
_COPY_KINDS = ("src_kind", "dst_kind")


@dataclass(frozen=True)
class _LaunchedOps:
    """Operations of one table: the row of each in it, and the index of its call."""

    timeline: Timeline
    table: str
    row: Array
    call: Array

    def __len__(self) -> int:
        return len(self.row)

    def take(self, which: Array) -> _LaunchedOps:
        return _LaunchedOps(self.timeline, self.table, self.row[which], self.call[which])

    def column(self, name: str) -> Array:
        result: Array = self.timeline.profile.columns(self.table, (name,))[name][self.row]
        return result


def _launched_by(
    timeline: Timeline, kind: OpKind, role: str, *, asynchronous: bool
) -> _LaunchedOps:
    """Return the operations of a kind that functions of a role launched, with or without `Async`."""
    ops, calls, owner = timeline.ops, timeline.calls, timeline.owner
    fits = called(role)
    functions = [
        i
        for i, name in timeline.call_names.items()
        if fits(name) and ("async" in name.lower()) == asynchronous
    ]
    linked = np.flatnonzero((ops.kind == kind) & (owner >= 0))
    linked = linked[np.isin(calls.name_id[owner[linked]], functions)]
    return _LaunchedOps(timeline, _TABLES[kind], ops.row[linked], owner[linked])


def _findings(
    ops: _LaunchedOps,
    columns: Sequence[Column],
    request: Request,
    kind: str,
    advice: str,
    nothing: Note,
    notes: Iterable[Note] = (),
) -> Result:
    """Return one row per operation, longest first, then in time order; those without a time come last.

    `kind` and `advice` say what they are and what to do about them, `nothing` that there are none.
    """
    dur, start = np.maximum(ops.column("dur_ns"), -1), ops.column("start_ns")
    order = np.lexsort((ops.row, start, -dur))
    shown = ops.take(order[: request.limit or None])
    values = {column.name: _values(shown, column.name) for column in columns[1:]}
    answer = found(_in_all(ops, kind), advice) if len(ops) else nothing
    return Result(values, len(ops), (answer, *notes))


def _in_all(ops: _LaunchedOps, kind: str) -> str:
    # One call may launch several.
    calls, which = ops.timeline.calls, distinct(ops.call)
    dur = ops.column("dur_ns")
    spent = duration(int(dur[dur != MISSING].sum()))
    held = duration(int((calls.end[which] - calls.start[which]).sum()))
    return f"{counted(len(ops), kind)}: {spent} in total, their calls {held}"


def _values(ops: _LaunchedOps, name: str) -> Sequence[Any] | Array:
    timeline, calls = ops.timeline, ops.timeline.calls
    if name == "rank":
        return [timeline.ranks.get(pid) for pid in ops.column("pid").tolist()]
    if name == f"{ops.table}_id":
        return ops.row.astype(np.int64) + timeline.profile.first_id(ops.table)
    if name == "call_id":
        return _call_ids(timeline, ops.call)
    if name == "call_dur_ns":
        return np.asarray(calls.end[ops.call] - calls.start[ops.call])
    if name == "name":
        return [timeline.call_names[i] for i in calls.name_id[ops.call].tolist()]
    if name == "direction":
        return direction_names(ops.column("direction"))
    if name.endswith("_kind"):
        return memory_kind_names(ops.column(name))
    return ops.column(name)


def _unknown_kind_notes(
    report: str, ops: _LaunchedOps, columns: Sequence[str], guilty: Array
) -> list[Note]:
    """Return the note on operations whose kind of memory, in `columns`, is not known.

    `guilty` is the mask of those that the rule finds fault with whatever else they are. Raises
    NotRecorded where there are operations, and the rule can judge none of them.
    """
    unknown = np.zeros(len(ops), bool)
    for name in columns:
        kinds = ops.column(name)
        unknown |= (kinds == MISSING) | (kinds == _UNKNOWN)
    count = int(np.count_nonzero(unknown & ~guilty))
    if not count:
        return []
    plural = {"memcpy": "copies", "memset": "memsets"}[ops.table]
    if count == len(ops):
        raise NotRecorded(report, [f"memory kinds of {plural}"])
    text = f"{plural} with an unknown memory kind; they may belong to the findings"
    fact = Fact.MEMCPYS if ops.table == "memcpy" else Fact.MEMSETS
    return [
        Note("memory-kind-unknown", Severity.APPROXIMATED, text, count, facts=frozenset({fact}))
    ]


_KEYS = (PROFILE, RANK, _PID, DEVICE)
_DUR = duration_column("dur_ns", "Duration of the copy; null: not recorded.")
_COPY = (
    *_KEYS,
    Column("memcpy_id", Unit.ID, "The copy, `memcpy.id`.", key=True),
    Column("start_ns", Unit.NS, "Start of the copy."),
    _DUR,
    Column("bytes", Unit.BYTES, "Bytes copied."),
)
_KINDS = (
    Column("src_kind", Unit.TEXT, "Kind of memory read; null: not recorded."),
    Column("dst_kind", Unit.TEXT, "Kind of memory written; null: not recorded."),
)
_CALL = (
    Column("context_id", Unit.ID, "CUDA context of the process.", brief=False),
    Column("green_context_id", Unit.ID, "The green context; 0 or null: none.", brief=False),
    Column("stream_id", Unit.ID, "The stream.", brief=False),
    _FUNCTION,
    Column("call_id", Unit.ID, "The call, `api_call.id`.", brief=False),
    duration_column("call_dur_ns", "Duration of the call.", brief=False),
)

# -- asynchronous copies from or to pageable memory, which are not asynchronous

_ASYNC_COLUMNS = (*_COPY, *_KINDS, *_CALL)


def _async_copies(timeline: Timeline, request: Request) -> Result:
    copies = _launched_by(timeline, OpKind.MEMCPY, "copy", asynchronous=True)
    pageable = np.zeros(len(copies), bool)
    for kind in _COPY_KINDS:
        pageable |= copies.column(kind) == _PAGEABLE
    notes = _unknown_kind_notes("cuda_memcpy_async", copies, _COPY_KINDS, pageable)
    return _findings(
        copies.take(pageable),
        _ASYNC_COLUMNS,
        request,
        "asynchronous copy of pageable memory",
        "Use pinned memory: cudaMallocHost or cudaHostRegister; in PyTorch, pin_memory=True.",
        none_of(len(copies), "asynchronous copy", "is from or to pageable memory"),
        notes,
    )


CUDA_MEMCPY_ASYNC = Query(columns=_ASYNC_COLUMNS, compute=_async_copies)

# -- copies by functions that make the host wait for them

_SYNC_COLUMNS = (
    *_COPY,
    Column("direction", Unit.TEXT, "Direction of the copy, such as HtoD.", brief=False),
    *_KINDS,
    *_CALL,
)


def _sync_copies(timeline: Timeline, request: Request) -> Result:
    copies = _launched_by(timeline, OpKind.MEMCPY, "copy", asynchronous=False)
    size = copies.column("bytes")
    small = (size != MISSING) & (size < request.options["min_bytes"])
    waiting = ~(small & (copies.column("direction") == _TO_DEVICE))
    if len(copies):
        smallest, largest = (
            human(value, Unit.BYTES) for value in (request.options["min_bytes"], int(size.max()))
        )
        nothing = nothing_found(
            f"no synchronous copy but {len(copies):,} to the device of less than {smallest} "
            f"(largest: {largest})"
        )
    else:
        nothing = none_of(_copy_count(timeline), "copy", "is synchronous")
    return _findings(
        copies.take(waiting),
        _SYNC_COLUMNS,
        request,
        "synchronous copy",
        "Use cudaMemcpyAsync with pinned memory on a non-default stream.",
        nothing,
    )


def _copy_count(timeline: Timeline) -> int:
    # Those that have a call.
    return int(np.count_nonzero((timeline.ops.kind == OpKind.MEMCPY) & (timeline.owner >= 0)))


CUDA_MEMCPY_SYNC = Query(
    options=(
        Option(
            "min_bytes",
            65_537,
            "Do not list HtoD copies of fewer bytes: for 64 KiB or less the host does not wait.",
        ),
    ),
    columns=_SYNC_COLUMNS,
    compute=_sync_copies,
)

# -- sets of host or managed memory by functions that make the host wait for them

_SET_COLUMNS = (
    *_KEYS,
    Column("memset_id", Unit.ID, "The memset, `memset.id`.", key=True),
    Column("start_ns", Unit.NS, "Start of the memset."),
    _DUR,
    Column("bytes", Unit.BYTES, "Bytes set."),
    Column("memory_kind", Unit.TEXT, "Kind of memory."),
    *_CALL,
)


def _sync_sets(timeline: Timeline, request: Request) -> Result:
    sets = _launched_by(timeline, OpKind.MEMSET, "set", asynchronous=False)
    waited_for = np.isin(sets.column("memory_kind"), _PINNED_OR_MANAGED)
    notes = _unknown_kind_notes("cuda_memset_sync", sets, ("memory_kind",), waited_for)
    return _findings(
        sets.take(waited_for),
        _SET_COLUMNS,
        request,
        "synchronous memset of pinned or managed memory",
        "Use cudaMemsetAsync, or set host memory on the host.",
        none_of(len(sets), "synchronous memset", "is of pinned or managed memory"),
        notes,
    )


CUDA_MEMSET_SYNC = Query(columns=_SET_COLUMNS, compute=_sync_sets)
