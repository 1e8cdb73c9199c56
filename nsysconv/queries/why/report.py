"""One event: what it is, what launched it, what it waited for, and who waited for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from nsysconv import schema
from nsysconv.codes import OPERATOR_KINDS, RANGE_KINDS
from nsysconv.errors import NotRecorded, UsageError, available_hint
from nsysconv.facts import Fact, in_order
from nsysconv.names import WAITS, called
from nsysconv.queries.contract import Request
from nsysconv.queries.event_lanes import (
    NO_NAME,
    OP_NAMES,
    copy_names,
    directions_of,
    kernel_ids_of,
)
from nsysconv.queries.idle_gaps import activities_of
from nsysconv.queries.kernel_metrics import shares_of_peak
from nsysconv.queries.why.columns import COLUMNS, PARTS
from nsysconv.queries.why.nsight_compute import launch_command
from nsysconv.report import MISSING, Report, Unit, human, report_table
from nsysconv.timeline import host_activity, idle
from nsysconv.timeline.annotations import (
    OPERATOR,
    PUSH_POP,
    operators,
    own_text,
    ranges,
    shown_operators,
    shown_ranges,
)
from nsysconv.timeline.arrays import Array, among, distinct
from nsysconv.timeline.dependencies import last_dependency
from nsysconv.timeline.events import (
    EVENT_KINDS,
    OF_MOST,
    OpKind,
    Spans,
    event_id,
    has_time,
)
from nsysconv.timeline.idle import GAP, gap_count, gap_id, gap_numbers, gap_of_number, gaps
from nsysconv.timeline.measured import measured
from nsysconv.timeline.range_names import EXACT, GROUPED
from nsysconv.timeline.steps import STEP_FACTS, step_names_at
from nsysconv.timeline.surroundings import (
    NONE,
    around,
    at_work,
    last_before,
    launched_in,
    outer_call,
    place_of,
    queued_behind,
    wait_until,
    waited_for,
)
from nsysconv.timeline.timeline import Timeline

NAME = "why"

_EVENT = "api_call:77"
_DID = 4
_OP_KINDS = tuple(EVENT_KINDS)[: len(OpKind)]
_KINDS = (*EVENT_KINDS, GAP)
_ID = re.compile(r"([a-z_]+):([0-9]{1,18})")


class EventRef(NamedTuple):
    """An event of a profile: its kind and its place among those of the kind, from 0.

    Its place is that among the rows of the kind's table; gaps, which have none, are numbered.
    """

    kind: str
    row: int

    @property
    def table(self) -> str:
        """Return the table that it is a row of."""
        return EVENT_KINDS[self.kind]

    @property
    def fact(self) -> Fact:
        """Return what must be recorded for such events."""
        return Fact.KERNELS if self.kind == GAP else schema.EVENT_TABLES[self.table]


def parse_event(text: str, timeline: Timeline) -> EventRef:
    """Return the event that an id names.

    Raises UsageError for what is no id, or the id of no event, with those there are; NotRecorded where
    the profile lacks events of that kind.
    """
    profile = timeline.profile
    match = _ID.fullmatch(str(text))
    if match is None:
        raise UsageError(
            f"{text!r} is no event", hint=f"KIND:NUMBER, as in {_EVENT}. {_ids(timeline)}"
        )
    kind, number = match[1], int(match[2])
    if kind not in _KINDS:
        hint = available_hint(kind, list(_KINDS))
        raise UsageError(f"{text}: no kind of event {kind!r}", hint=hint)
    count, fact = _count(timeline, kind), EventRef(kind, 0).fact
    if not count and fact not in profile.facts:
        advice = profile.advice.get(fact)
        raise NotRecorded(f"{NAME} {text}", [fact], [advice] if advice else [])
    if not 1 <= number <= count:
        raise UsageError(f"no event {text}", hint=_ids(timeline))
    return EventRef(kind, number - 1)


def _count(timeline: Timeline, kind: str) -> int:
    if kind == GAP:
        return gap_count(timeline)
    return timeline.profile.row_count(EVENT_KINDS[kind])


def _ids(timeline: Timeline) -> str:
    counts = {kind: _count(timeline, kind) for kind in _KINDS}
    found = [
        f"{kind}:1" + (f" to {kind}:{count}" if count > 1 else "")
        for kind, count in counts.items()
        if count
    ]
    return f"There are: {', '.join(found)}" if found else "The profile holds no events."


def why(text: str, timeline: Timeline, request: Request) -> Report:
    """Return the report on one event of a profile: one row.

    Of the request, the spelling of kernels' names and the name of steps count. Raises as `parse_event`.
    """
    timeline = timeline.whole
    event = parse_event(text, timeline)
    timeline.read_ahead(OF_MOST)  # names and sizes will be asked for
    asked = _Asked(timeline, request)
    found: dict[str, Any] = {
        "event": event_id(*event),
        "kind": event.kind,
        "profile": timeline.profile.ref.label,
        **asked.about(event),
    }
    found |= _lacking(timeline, event, found)
    notes = (*timeline.profile.notes, *timeline.notes)
    used = {event.fact, Fact.API_CALLS, Fact.API_LINKS}
    kept = tuple(note for note in notes if note.facts & used)
    if event.kind == "kernel" and (seen := measured(timeline)) is not None:
        kept = (*kept, *seen.notes)
    table = report_table(COLUMNS, {column.name: [found.get(column.name)] for column in COLUMNS})
    return Report(
        name=NAME,
        title="Why the GPU was idle" if event.kind == GAP else "Why it started when it did",
        columns=COLUMNS,
        table=table,
        profiles=(timeline.profile.ref,),
        notes=kept,
        row_count=1,
    )


def _lacking(timeline: Timeline, event: EventRef, found: Mapping[str, Any]) -> dict[str, Any]:
    # What the profile does not record that this event's answer lacks.
    wanted: set[Fact] = set()
    is_op = event.kind in (*_OP_KINDS, GAP)
    if is_op and found.get("call") is None and event.kind != "migration":
        wanted |= {Fact.API_CALLS, Fact.API_LINKS}
    if event.kind == "api_call" or not is_op:
        wanted |= {Fact.KERNELS, Fact.API_LINKS}
    if found.get("tid") is None and event.kind != "migration":
        wanted |= {Fact.THREADS}
    facts = timeline.profile.facts
    if event.kind != "migration" and not STEP_FACTS & facts:
        wanted |= {Fact.RANGES}
    lacking = in_order(wanted - facts)
    advice = [timeline.profile.advice[fact] for fact in lacking if fact in timeline.profile.advice]
    return {
        "not_recorded": ", ".join(fact.label for fact in lacking) or None,
        "advice": " ".join(dict.fromkeys(advice)) or None,
    }


class _Asked:
    # What is known of events of a time line.

    def __init__(self, timeline: Timeline, request: Request) -> None:
        self.timeline = timeline
        self.request = request
        self.threads = {
            (row["pid"], row["tid"]): row["name"] for row in timeline.profile.rows("thread")
        }

    def about(self, event: EventRef) -> dict[str, Any]:
        if event.kind in _OP_KINDS:
            return self._operation(event)
        if event.kind == "api_call":
            return self._call(event)
        return self._gap(event) if event.kind == GAP else self._span(event)

    # -- GPU operations

    def _operation(self, event: EventRef) -> dict[str, Any]:
        timeline, ops = self.timeline, self.timeline.ops
        op = place_of(ops, OpKind(_OP_KINDS.index(event.kind)), event.row)
        is_timed = bool(ops.timed[op])
        call = int(timeline.owner[op])
        found = {
            "name": self._name(op),
            "rank": timeline.ranks.get(int(ops.pid[op])),
            "pid": int(ops.pid[op]),
            "device_id": int(ops.device[op]),
            "device": self._device_name(int(ops.device[op])),
            "stream_id": int(ops.stream[op]),
            "start_ns": int(ops.start[op]),
            "dur_ns": int(ops.dur[op]) if is_timed else MISSING,
            **self._among_operations(event),
        }
        if event.kind == "kernel":
            found["profile_command"] = launch_command(timeline, op)
            found |= shares_of_peak(timeline, event.row)
        if event.kind in ("memcpy", "memset", "migration"):
            found["bytes"] = int(self._column(event.table, "bytes")[event.row])
        if call >= 0:
            found |= self._launched_by(op, call)
        if is_timed:
            found |= {**self._before(op), **self._after(op)}
        return found

    def _launched_by(self, op: int, call: int) -> dict[str, Any]:
        calls = self.timeline.calls
        start, end = int(calls.start[call]), int(calls.end[call])
        return {
            "call": self._call_id(call),
            "call_name": self._call_name(call),
            "call_start_ns": start,
            "call_dur_ns": end - start,
            **self._on_thread(call),
            **self._latency(op, start, end),
        }

    def _latency(self, op: int, start: int, end: int) -> dict[str, int]:
        began = int(self.timeline.ops.start[op])
        if began == MISSING or began < start or self.timeline.clocks_disagree:
            return {}
        return {
            "latency_ns": began - start,
            "queue_time_ns": began - end if began >= end else MISSING,
        }

    def _before(self, op: int) -> dict[str, Any]:
        timeline, ops, found = self.timeline, self.timeline.ops, dict[str, Any]()
        wheres = ("device",) if ops.kind[op] == OpKind.MIGRATION else ("stream", "device")
        for where in wheres:
            before = last_before(timeline, op, on_stream=where == "stream")
            if before != NONE:
                found |= {
                    f"before_on_{where}": ops.event_id(before),
                    f"before_on_{where}_name": self._name(before),
                    f"since_on_{where}_ns": int(ops.start[op] - ops.end[before]),
                }
        blocker = last_dependency(timeline, op)
        if blocker != NONE:
            found |= {
                "depends_on": ops.event_id(blocker),
                "depends_on_name": self._name(blocker),
                "since_depends_on_ns": int(ops.start[op] - ops.end[blocker]),
            }
        gap = idle.gap_before(timeline, op)
        if gap is None:
            return found
        said = self._idle(gap)
        del said["host_did"]
        return found | said

    def _idle(self, gap: idle.Gaps) -> dict[str, Any]:
        # The parts of one gap, what ended it, and what the host did.
        timeline, ended_by = self.timeline, int(gap.ended_by[0])
        parts = idle.parts(timeline, gap)[:, 0]
        on_thread = idle.drop_threadless_host_parts(timeline, gap)
        activity = host_activity.host_activity(timeline, self.request.range_names)
        did = activities_of(on_thread, activity)[0]
        during, during_ns = did[0] if did else (None, None)
        return {
            "gap": gap_id(int(gap_numbers(timeline, gap)[0])),
            "gap_ns": int(gap.dur[0]),
            "gap_ended_by": timeline.ops.event_id(ended_by),
            "gap_ended_by_name": self._name(ended_by),
            "cause": idle.PARTS[int(parts.argmax())],
            **{f"{part}_ns": int(parts[idle.PARTS.index(part)]) for part in PARTS},
            "during": during,
            "during_ns": during_ns,
            "host_did": ", ".join(f"{name} {human(ns, Unit.NS)}" for name, ns in did[:_DID])
            or None,
        }

    # -- gaps

    def _gap(self, event: EventRef) -> dict[str, Any]:
        timeline, ops = self.timeline, self.timeline.ops
        gap = gap_of_number(timeline, event.row + 1)
        op = int(gap.ended_by[0])
        call = int(timeline.owner[op])
        of_device = next(g for g in gaps(timeline, gap.kind) if g.device == gap.device)
        found = {
            "name": "[idle]",
            "rank": timeline.ranks.get(int(ops.pid[op])),
            "pid": int(ops.pid[op]),
            "device_id": gap.device,
            "device": self._device_name(gap.device),
            "start_ns": int(gap.start[0]),
            "dur_ns": int(gap.dur[0]),
            **_statistics(of_device.dur),
            **self._idle(gap),
        }
        if call >= 0:
            found |= self._launched_by(op, call)
        before = last_before(timeline, op, on_stream=False)
        if before != NONE:
            found |= {
                "before_on_device": ops.event_id(before),
                "before_on_device_name": self._name(before),
                "since_on_device_ns": int(ops.start[op] - ops.end[before]),
            }
        return found

    def _after(self, op: int) -> dict[str, Any]:
        timeline, ops, calls = self.timeline, self.timeline.ops, self.timeline.calls
        found: dict[str, Any] = {}
        wait = wait_until(timeline, op, self._waits())
        if wait != NONE:
            found |= {
                "waited_by": self._call_id(wait),
                "waited_by_name": self._call_name(wait),
                "waited_by_after_ns": int(calls.end[wait] - ops.end[op]),
            }
        following = NONE if ops.kind[op] == OpKind.MIGRATION else queued_behind(timeline, op)
        if following != NONE:
            found |= {
                "next": ops.event_id(following),
                "next_name": self._name(following),
                "next_after_ns": int(ops.start[following] - ops.end[op]),
            }
        return found

    # -- API calls

    def _call(self, event: EventRef) -> dict[str, Any]:
        timeline, calls = self.timeline, self.timeline.calls
        found = np.flatnonzero(calls.row == event.row)
        if not len(found):
            return self._untimed(event)
        call = int(found[0])
        start, end = int(calls.start[call]), int(calls.end[call])
        pid = int(calls.pid[call])
        same = among(calls.name_id, np.array(self._ids_of_calls_named(self._call_name(call))))
        result = {
            "name": self._call_name(call),
            "rank": timeline.ranks.get(pid),
            "pid": pid,
            "start_ns": start,
            "dur_ns": end - start,
            **_statistics((calls.end - calls.start)[same]),
            **self._on_thread(call),
        }
        outer = outer_call(calls, call)
        if outer != NONE:
            result["outer_call"] = self._call_id(outer)
        launched = np.flatnonzero(timeline.owner == call)
        result |= self._launched(launched, int(bool(len(launched))))
        if len(timed := launched[timeline.ops.timed[launched]]):
            result |= self._latency(int(timed[0]), start, end)
        if self._waits()[call]:
            result |= self._end_of_wait(call)
        return {**result, **self._meanwhile(pid, start, end)}

    def _end_of_wait(self, call: int) -> dict[str, Any]:
        op = waited_for(self.timeline, call)
        if op == NONE:
            return {}
        return {
            "waited_for": self.timeline.ops.event_id(op),
            "waited_for_name": self._name(op),
            "waited_for_before_ns": int(self.timeline.calls.end[call] - self.timeline.ops.end[op]),
        }

    # -- ranges and operators

    def _span(self, event: EventRef) -> dict[str, Any]:
        is_range = event.kind == "range"
        spans = (ranges if is_range else operators)(self.timeline)
        found = np.flatnonzero(spans.row == event.row)
        if not len(found):
            return self._untimed(event)
        place = int(found[0])
        pid, tid = int(spans.pid[place]), int(spans.tid[place])
        start, end = int(spans.start[place]), int(spans.end[place])
        shown = shown_ranges if is_range else shown_operators
        exact, grouped = shown(self.timeline, EXACT), shown(self.timeline, GROUPED)
        same = (grouped.name == grouped.name[place]) & (spans.kind == spans.kind[place])
        words = RANGE_KINDS if is_range else OPERATOR_KINDS
        is_nested = not is_range or int(spans.kind[place]) == PUSH_POP
        launched, calls = launched_in(self.timeline, pid, tid if is_nested else None, start, end)
        return {
            "name": exact.names[int(exact.name[place])],
            "sort": words[int(spans.kind[place])],
            "rank": self.timeline.ranks.get(pid),
            "pid": pid,
            "tid": tid,
            "thread": self.threads.get((pid, tid)),
            "start_ns": start,
            "dur_ns": end - start,
            **_statistics((spans.end - spans.start)[same]),
            **(self._lies_in(pid, tid, (start, end), event.kind, place) if is_nested else {}),
            "step": self._step(pid, start),
            **self._launched(launched, calls),
            **self._meanwhile(pid, start, end),
        }

    def _untimed(self, event: EventRef) -> dict[str, Any]:
        # A mark, or what was recorded without a time.
        names = ("start_ns", "pid", "tid", "name_id")
        profile = self.timeline.profile
        column = {name: int(self._column(event.table, name)[event.row]) for name in names}
        pid, tid = column["pid"], column["tid"]
        name_id, text = column["name_id"], NO_NAME
        if name_id != MISSING:
            text = profile.names([name_id], plain=event.kind == "api_call")[name_id]
        elif event.kind == "range":
            text = own_text(profile, event.row)
        found = {
            "name": text,
            "rank": self.timeline.ranks.get(pid),
            "pid": pid,
            "tid": tid,
            "thread": self.threads.get((pid, tid)),
            "start_ns": column["start_ns"],
        }
        if event.kind != "api_call":
            words = RANGE_KINDS if event.kind == "range" else OPERATOR_KINDS
            found["sort"] = words[int(self._column(event.table, "kind")[event.row])]
        if column["start_ns"] != MISSING:
            start = column["start_ns"]
            found |= self._lies_in(pid, tid, (start, start), event.kind, 0)
            found["step"] = self._step(pid, start)
        return found

    # -- what they share

    def _on_thread(self, call: int) -> dict[str, Any]:
        calls = self.timeline.calls
        pid, tid = calls.threads[int(calls.thread[call])]
        start, end = int(calls.start[call]), int(calls.end[call])
        return {
            "tid": tid,
            "thread": self.threads.get((pid, tid)),
            "caller": self._caller(call),
            **self._lies_in(pid, tid, (start, end), "api_call", 0),
            "step": self._step(pid, start),
        }

    def _caller(self, call: int) -> str | None:
        names = self._column("api_call", "caller_name_id")
        caller = int(names[self.timeline.calls.row[call]])
        if caller == MISSING:
            return None
        return self.timeline.profile.names(np.array([caller])).get(caller)

    def _lies_in(
        self, pid: int, tid: int, time: tuple[int, int], kind: str, place: int
    ) -> dict[str, Any]:
        # `place`: of a range or an operator its place among those of its kind.
        timeline, found = self.timeline, dict[str, Any]()
        run, marked = operators(timeline), shown_ranges(timeline, EXACT)

        def equal(spans: Spans, of_kind: str) -> int:
            # If a range, an operator and a call take the same time, the range encloses the operator,
            # and that the call.
            if kind == of_kind:
                return place
            return 0 if kind == "range" else len(spans)

        inside = around(run, pid, tid, *time, equal(run, "operator"))
        inside = inside[run.kind[inside] == OPERATOR]
        if len(inside):
            innermost = int(inside[-1])
            found["operator"] = event_id("operator", int(run.row[innermost]))
            found["operator_name"] = run.names[int(run.name[innermost])]
        inside = around(marked, pid, tid, *time, equal(marked, "range"))
        inside = inside[marked.kind[inside] == PUSH_POP]
        if len(inside):
            found["range"] = event_id("range", int(marked.row[inside[-1]]))
            found["path"] = "/".join(marked.names[i] for i in marked.name[inside].tolist())
        return found

    def _step(self, pid: int, moment: int) -> str | None:
        return step_names_at(self.timeline, self.request.steps, pid, np.array([moment]))[0]

    def _launched(self, launched: Array, calls: int) -> dict[str, Any]:
        ops = self.timeline.ops
        if not {Fact.API_CALLS, Fact.API_LINKS} <= self.timeline.profile.facts:
            return {}
        timed = launched[ops.timed[launched]]
        found: dict[str, Any] = {
            "op_count": len(launched),
            "launch_count": calls,
            "op_sum_ns": int(ops.dur[timed].sum()) if len(timed) else None,
        }
        if len(launched):
            first = int((timed if len(timed) else launched)[0])
            found |= {"first_op": ops.event_id(first), "first_op_name": self._name(first)}
        return found

    def _meanwhile(self, pid: int, start: int, end: int) -> dict[str, Any]:
        timeline = self.timeline
        if Fact.KERNELS not in timeline.profile.facts or timeline.clocks_disagree:
            return {}
        busy, op = at_work(timeline, pid, start, end)
        found: dict[str, Any] = {"busy_ns": busy}
        if op != NONE:
            found |= {"busy_with": timeline.ops.event_id(op), "busy_with_name": self._name(op)}
        return found

    def _among_operations(self, event: EventRef) -> dict[str, Any]:
        column = self.timeline.profile.columns(event.table, ("start_ns", "dur_ns"))
        same = has_time(column)
        if event.kind == "kernel":
            ids = kernel_ids_of(self.timeline, self.request)
            texts = self.timeline.profile.names(distinct(ids))
            mine = texts[int(ids[event.row])]
            same &= among(ids, np.array(sorted(i for i, text in texts.items() if text == mine)))
        elif event.kind in ("memcpy", "migration"):
            directions = self._column(event.table, "direction")
            same &= directions == directions[event.row]
        return _statistics(column["dur_ns"][same])

    def _name(self, op: int) -> str:
        ops = self.timeline.ops
        kind, row = OpKind(int(ops.kind[op])), int(ops.row[op])
        if kind is OpKind.KERNEL:
            name_id = int(kernel_ids_of(self.timeline, self.request)[row])
            return self.timeline.profile.names([name_id]).get(name_id, NO_NAME)
        if kind in (OpKind.MEMCPY, OpKind.MIGRATION):
            (name,) = copy_names(kind, directions_of(self.timeline, kind)[row : row + 1])
            return name
        return OP_NAMES[kind]

    def _device_name(self, device: int) -> str | None:
        rows = self.timeline.profile.rows("device")
        return next((row["name"] for row in rows if row["device_id"] == device), None)

    def _column(self, table: str, name: str) -> Array:
        values: Array = self.timeline.profile.columns(table, (name,))[name]
        return values

    def _call_id(self, call: int) -> str:
        return event_id("api_call", int(self.timeline.calls.row[call]))

    def _call_name(self, call: int) -> str:
        return self.timeline.call_names[int(self.timeline.calls.name_id[call])]

    def _ids_of_calls_named(self, name: str) -> list[int]:
        return sorted(i for i, text in self.timeline.call_names.items() if text == name)

    def _waits(self) -> Array:
        # Which calls wait for the GPU, as a mask: outermost ones, by their names.
        names, waits = self.timeline.call_names, called(*WAITS, "blocking_copy")
        fitting = [i for i, t in names.items() if waits(t)]
        calls = self.timeline.calls
        mask: Array = among(calls.name_id, np.array(sorted(fitting), np.int64)) & calls.outermost
        return mask


def _statistics(durations: Array) -> dict[str, Any]:
    if not len(durations):
        return {"name_count": 0}
    return {
        "name_count": len(durations),
        "name_med_ns": float(np.median(durations)),
        "name_max_ns": int(durations.max()),
    }
