"""The columns of the report on one event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nsysconv.queries.columns import (
    DEVICE,
    PID,
    PROCESS_RANK,
    PROFILE,
    TID,
    bytes_column,
    count_column,
    duration_column,
)
from nsysconv.queries.idle_gaps import PART_DOCS
from nsysconv.report import Column, Unit
from nsysconv.timeline import idle
from nsysconv.timeline.events import EVENT_KINDS
from nsysconv.timeline.idle import GAP

PARTS = tuple(part for part in idle.PARTS if part != "end")
"""The parts of a gap that an event ended."""


def _event(name: str, doc: str) -> Column:
    return Column(name, Unit.TEXT, f"{doc}, by its id.")


def _columns() -> Iterator[Column]:
    yield PROFILE
    yield Column("event", Unit.TEXT, "The event, by its id: kind and number.")
    yield Column("kind", Unit.TEXT, f"What it is: {', '.join(EVENT_KINDS)}, {GAP}.")
    yield Column("name", Unit.TEXT, "What it is called; what has no name has one in brackets.")
    yield Column(
        "sort",
        Unit.TEXT,
        "Of ranges and operators what sort: push_pop, python_function, …; else null.",
    )
    yield from (PROCESS_RANK, PID, DEVICE)
    yield Column("device", Unit.TEXT, "The device's name.")
    yield Column("stream_id", Unit.ID, "The stream; null: not on a GPU, or not recorded.")
    yield TID
    yield Column("thread", Unit.TEXT, "The thread's name.")
    yield Column("start_ns", Unit.NS, "When it began.")
    yield duration_column("dur_ns", "How long it took.")
    yield bytes_column("bytes", "What a copy, a set or a migration moved or set.")
    # -- among those of its name
    yield count_column(
        "name_count", "Events of its kind and name that have a time, itself among them."
    )
    yield duration_column("name_med_ns", "The median of their durations.", real=True)
    yield duration_column("name_max_ns", "The longest of their durations.")
    # -- what it came from
    yield _event("call", "The API call that launched an operation")
    yield Column("call_name", Unit.TEXT, "That call's name.")
    yield Column("call_start_ns", Unit.NS, "When it began.")
    yield duration_column("call_dur_ns", "How long it took.")
    yield Column("caller", Unit.TEXT, "The function of the program that made the call.")
    yield _event("outer_call", "The outermost API call that a call lies in; null: itself")
    yield _event("operator", "The innermost operator that it, or its call, lies in")
    yield Column("operator_name", Unit.TEXT, "That operator's name.")
    yield _event("range", "The innermost push/pop range that it, or its call, lies in")
    yield Column(
        "path", Unit.TEXT, "The names of all these ranges, the outermost first, with / between."
    )
    yield Column("step", Unit.TEXT, "The annotation of the step in which it, or its call, began.")
    yield duration_column("latency_ns", "From the call's begin to that of the (first) operation.")
    yield duration_column(
        "queue_time_ns", "From the call's end to that; null where it began before."
    )
    # -- what ran before it
    for where in ("stream", "device"):
        yield _event(
            f"before_on_{where}", f"The operation of its {where} that ended last before it began"
        )
        yield Column(f"before_on_{where}_name", Unit.TEXT, "That operation's name.")
        yield Column(
            f"since_on_{where}_ns",
            Unit.NS,
            f"From its end to the start of the event; negative: they overlap on the {where}.",
        )
    yield _event("depends_on", "The operation for which its stream was made to wait by an event")
    yield Column("depends_on_name", Unit.TEXT, "That operation's name.")
    yield duration_column("since_depends_on_ns", "From its end to the start of the event.")
    yield _event("gap", "The gap of the device that ended as it began; null: none; of a gap itself")
    yield duration_column("gap_ns", "How long that gap was.")
    yield _event("gap_ended_by", "What is taken to have ended that gap, of what began then")
    yield Column("gap_ended_by_name", Unit.TEXT, "That operation's name.")
    yield Column("cause", Unit.TEXT, "The largest part of the gap.")
    for part in PARTS:
        yield duration_column(f"{part}_ns", f"{PART_DOCS[part]}.")
    yield Column("during", Unit.TEXT, "What the launching thread did longest in the host part.")
    yield duration_column("during_ns", "How long it did that.")
    yield Column(
        "host_did", Unit.TEXT, "Of a gap: the same with up to three more, longest first, in words."
    )
    # -- what came of it
    yield _event("waited_by", "The call that waited until an operation ended")
    yield Column("waited_by_name", Unit.TEXT, "That call's name.")
    yield duration_column("waited_by_after_ns", "How long after the operation's end it returned.")
    yield _event("next", "The next operation of the stream, if it was queued behind this one")
    yield Column("next_name", Unit.TEXT, "That operation's name.")
    yield duration_column("next_after_ns", "How long after this one's end it began.")
    yield _event("waited_for", "The last operation that ended while a waiting call was under way")
    yield Column("waited_for_name", Unit.TEXT, "That operation's name.")
    yield duration_column("waited_for_before_ns", "How long before the call's return it ended.")
    # -- what it launched, and what ran meanwhile
    yield count_column("op_count", "Operations that a call, a range or an operator launched.")
    yield count_column("launch_count", "Calls that launched these.")
    yield duration_column(
        "op_sum_ns", "The durations of these operations, added up; null: no times."
    )
    yield _event("first_op", "The first of these operations, of those with a time if there are any")
    yield Column("first_op_name", Unit.TEXT, "That operation's name.")
    yield duration_column("busy_ns", "For how long of it the process kept a GPU busy.")
    yield _event("busy_with", "The operation that ran longest meanwhile")
    yield Column("busy_with_name", Unit.TEXT, "That operation's name.")
    yield Column(
        "profile_command",
        Unit.TEXT,
        "The command line of Nsight Compute that profiles this launch of a kernel: its function, and how "
        "many kernels of this name its process launched before, in the recording.",
    )
    # -- what is not known
    yield Column(
        "not_recorded", Unit.TEXT, "What would say more and is not recorded; null: nothing."
    )
    yield Column("advice", Unit.TEXT, "How to record it.")


COLUMNS = tuple(
    replace(column, key=column.name in ("profile", "kind", "name")) for column in _columns()
)
