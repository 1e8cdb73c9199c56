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
from nsysconv.queries.kernel_metrics import OF_METRICS
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
    yield Column("event", Unit.TEXT, "Id of the event: kind and number.")
    yield Column("kind", Unit.TEXT, f"Kind of event: {', '.join(EVENT_KINDS)}, {GAP}.")
    yield Column(
        "name", Unit.TEXT, "Name of the event; a description in brackets if it has no name."
    )
    yield Column(
        "sort",
        Unit.TEXT,
        "For ranges and operators: push_pop, python_function, …; else null.",
    )
    yield from (PROCESS_RANK, PID, DEVICE)
    yield Column("device", Unit.TEXT, "Name of the device.")
    yield Column("stream_id", Unit.ID, "Stream; null: not on a GPU, or not recorded.")
    yield TID
    yield Column("thread", Unit.TEXT, "Name of the thread.")
    yield Column("start_ns", Unit.NS, "Start of the event.")
    yield duration_column("dur_ns", "Duration of the event.")
    yield bytes_column("bytes", "Bytes moved or set by a copy, memset or page migration.")
    # -- among those of its name
    yield count_column(
        "name_count", "Number of timed events of the same kind and name, including this one."
    )
    yield duration_column("name_med_ns", "Median duration of these events.", real=True)
    yield duration_column("name_max_ns", "Longest duration of these events.")
    # -- what metrics say of it
    yield from OF_METRICS
    yield count_column(
        "measured_count",
        "Number of measured launches of the kernel's name that these shares are the mean of; null: they "
        "were measured in this launch.",
    )
    # -- what it came from
    yield _event("call", "API call that launched the operation")
    yield Column("call_name", Unit.TEXT, "Name of that call.")
    yield Column("call_start_ns", Unit.NS, "Start of the call.")
    yield duration_column("call_dur_ns", "Duration of the call.")
    yield Column("caller", Unit.TEXT, "Function of the program that made the call.")
    yield _event("outer_call", "Outermost API call around the call; null: the call itself")
    yield _event("operator", "Innermost operator around the event or its call")
    yield Column("operator_name", Unit.TEXT, "Name of that operator.")
    yield _event("range", "Innermost push/pop range around the event or its call")
    yield Column("path", Unit.TEXT, "Names of all these ranges, outermost first, separated by /.")
    yield Column(
        "step", Unit.TEXT, "Annotation of the step in which the event, or its call, began."
    )
    yield duration_column(
        "latency_ns", "Time from the start of the call to the start of its (first) operation."
    )
    yield duration_column(
        "queue_time_ns", "Time from the end of the call to that start; null: it started before."
    )
    # -- what ran before it
    for where in ("stream", "device"):
        yield _event(f"before_on_{where}", f"Last operation on the {where} before the event")
        yield Column(f"before_on_{where}_name", Unit.TEXT, "Name of that operation.")
        yield Column(
            f"since_on_{where}_ns",
            Unit.NS,
            f"Time from its end to the start of the event; negative: they overlap on the {where}.",
        )
    yield _event("depends_on", "Operation that the stream waited for, through a CUDA event")
    yield Column("depends_on_name", Unit.TEXT, "Name of that operation.")
    yield duration_column("since_depends_on_ns", "Time from its end to the start of the event.")
    yield _event(
        "gap",
        "Idle gap of the device that ended when the event started; for a gap the gap itself; null: none",
    )
    yield duration_column("gap_ns", "Length of that gap.")
    yield _event("gap_ended_by", "Operation that is considered to have ended that gap")
    yield Column("gap_ended_by_name", Unit.TEXT, "Name of that operation.")
    yield Column("cause", Unit.TEXT, "Cause with the largest part of the gap.")
    for part in PARTS:
        yield duration_column(f"{part}_ns", f"{PART_DOCS[part]}.")
    yield Column(
        "during", Unit.TEXT, "What the launching thread did for most of the CPU-bound part."
    )
    yield duration_column("during_ns", "Time spent in that activity.")
    yield Column(
        "host_did",
        Unit.TEXT,
        "For a gap: that activity and up to three more, longest first, in words.",
    )
    # -- what came of it
    yield _event("waited_by", "Call that waited until the operation ended")
    yield Column("waited_by_name", Unit.TEXT, "Name of that call.")
    yield duration_column(
        "waited_by_after_ns", "Time from the end of the operation to the return of that call."
    )
    yield _event("next", "Next operation on the stream, if it was queued behind this one")
    yield Column("next_name", Unit.TEXT, "Name of that operation.")
    yield duration_column("next_after_ns", "Time from the end of this operation to its start.")
    yield _event("waited_for", "Last operation that ended during a waiting call")
    yield Column("waited_for_name", Unit.TEXT, "Name of that operation.")
    yield duration_column("waited_for_before_ns", "Time from its end to the return of the call.")
    # -- what it launched, and what ran meanwhile
    yield count_column("op_count", "Number of operations launched by a call, range or operator.")
    yield count_column("launch_count", "Number of calls that launched these.")
    yield duration_column("op_sum_ns", "Total duration of these operations; null: not timed.")
    yield _event("first_op", "First of these operations, a timed one if there is any")
    yield Column("first_op_name", Unit.TEXT, "Name of that operation.")
    yield duration_column("busy_ns", "Time during the event in which the process kept a GPU busy.")
    yield _event("busy_with", "Operation that ran longest during the event")
    yield Column("busy_with_name", Unit.TEXT, "Name of that operation.")
    yield Column(
        "profile_command",
        Unit.TEXT,
        "Nsight Compute command line that profiles this kernel launch: its function, and the number of "
        "earlier launches of this name by the process in the recording.",
    )
    # -- what is not known
    yield Column("not_recorded", Unit.TEXT, "Missing data that would explain more; null: nothing.")
    yield Column("advice", Unit.TEXT, "How to record it.")


COLUMNS = tuple(
    replace(column, key=column.name in ("profile", "kind", "name")) for column in _columns()
)
