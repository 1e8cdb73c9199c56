"""Who allocated memory, by call stacks; allocations that failed; what an allocator held at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from nsysconv import codes
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    DEVICE,
    PID,
    PROCESS_RANK,
    PROFILE,
    bytes_column,
    code_name,
    count_column,
    key_column,
    values_by_column,
)
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import Array, counts, sums
from nsysconv.timeline.memory import NO_FRAME, Part, Pool, frame_of, holders, parts
from nsysconv.timeline.timeline import Timeline

KEYS = (
    PROFILE,
    PROCESS_RANK,
    PID,
    replace(DEVICE, doc="Device that has the memory; null: host memory."),
    key_column("memory", "Kind of memory; Host or Device if no more is known."),
)
"""The columns that name a pool."""

BEFORE = "[before the recording]"
"""The row of what was in use before the events, and has not been seen to be allocated."""

_LONGEST_STACK = 1000
_FRAMES = (
    key_column(
        "name",
        "Python function that allocated the memory: the innermost outside the framework. {NO_FRAME}: "
        "no such function, after the node of the backward pass if recorded. {BEFORE}: allocated "
        "before the first event.",
    ),
    bytes_column("live_at_peak_bytes", "Size of its blocks held at the peak.", adds=True),
    count_column("live_at_peak_count", "Number of its blocks held at the peak."),
    bytes_column(
        "live_at_oom_bytes",
        "Size of its blocks held when the last allocation failed; null: no allocation failed.",
        adds=True,
    ),
    bytes_column("end_bytes", "Size of its blocks held at the end.", adds=True),
    count_column("allocation_count", "Number of blocks it allocated in the recording."),
    bytes_column("allocation_bytes", "Total size of the allocated blocks.", adds=True),
    Column("stack", Unit.TEXT, "Call stack of its largest block.", brief=False),
)
OOMS = (
    Column("start_ns", Unit.NS, "Time of the failure; null: not recorded.", key=True),
    Column("oom", Unit.ID, "Number of the failure on the device, from 0.", key=True, brief=False),
    Column("name", Unit.TEXT, "Python function that made the request, as in memory_holders."),
    bytes_column("bytes", "Requested size."),
    bytes_column("in_use_bytes", "Memory in use at that time."),
    bytes_column(
        "reserved_bytes", "Memory reserved by the allocator at that time; null: not recorded."
    ),
    bytes_column("unused_bytes", "Reserved memory that was not in use."),
    bytes_column("free_bytes", "Free device memory at that time; null: not recorded."),
    Column("stack", Unit.TEXT, "Call stack of the request.", brief=False),
)


def pool_keys(timeline: Timeline, pool: Pool) -> dict[str, Any]:
    """Return the values of KEYS, without the profile."""
    on_host = pool.device == MISSING
    kind = code_name(codes.MEMORY_KINDS, pool.kind)
    return {
        "rank": timeline.ranks.get(pool.pid),
        "pid": pool.pid,
        "device_id": None if on_host else pool.device,
        "memory": kind or ("Host" if on_host else "Device"),
    }


def frame_names(timeline: Timeline, stacks: Array) -> list[str]:
    """Return by call stack, the id of a name or MISSING, the function that allocated."""
    ids, of = np.unique(stacks, return_inverse=True)
    texts = timeline.profile.names(ids[ids != MISSING])
    names = [frame_of(texts[i]) if i in texts else NO_FRAME for i in ids.tolist()]
    return [names[i] for i in of.tolist()]


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per pool and function that allocated, what was held at the peak first."""
    rows = [row for part in parts(timeline) for row in _frame_rows(timeline, part)]
    rows.sort(
        key=lambda row: (
            -(row.get("live_at_peak_bytes") or 0),
            -row["end_bytes"],
            -(row.get("allocation_bytes") or 0),
            row["name"],
        )
    )
    return Result(values_by_column(rows, MEMORY_HOLDERS.columns[1:]))


def _frame_rows(timeline: Timeline, part: Part) -> list[dict[str, Any]]:
    keys = pool_keys(timeline, part.pool)
    pool, events = part.pool, part.events
    if not pool.has_addresses:
        return []
    held = holders(timeline, pool)
    names = np.array(frame_names(timeline, held.stack), object)
    names[~held.is_seen] = BEFORE
    # What addresses do not explain was there before, too.
    kinds = [BEFORE, *sorted({*names.tolist()} - {BEFORE})]
    numbers = {name: number for number, name in enumerate(kinds)}
    group = np.array([numbers[name] for name in names.tolist()], np.int64)
    mine = np.isin(held.taken, part.places)
    values: dict[str, Array] = {
        "end_bytes": _held(held.size, group, held.held_at(_last(part)), kinds, events.end),
    }
    if len(events):
        at_peak = held.held_at(_place(part, events.peak_place))
        peak = _held(held.size, group, at_peak, kinds, events.peak)
        number = counts(group[at_peak], len(kinds))
        values |= {
            "live_at_peak_bytes": peak,
            "live_at_peak_count": number,
            "allocation_count": counts(group[mine], len(kinds)),
            "allocation_bytes": sums(group[mine], held.size[mine], len(kinds)),
        }
    failed = np.flatnonzero(events.failed)
    if len(failed):
        then = int(failed[-1])
        at_oom, level = held.held_at(_place(part, then)), int(events.in_use[then])
        values["live_at_oom_bytes"] = _held(held.size, group, at_oom, kinds, level)
    shown = np.flatnonzero(np.any(np.stack([*values.values()]) != 0, axis=0))
    stacks = _largest_stacks(timeline, group, held.stack, held.size)
    return [
        {
            **keys,
            "name": kinds[i],
            "stack": stacks.get(i),
            **{name: int(each[i]) for name, each in values.items()},
        }
        for i in shown.tolist()
    ]


def _place(part: Part, place: int) -> int:
    # The place in the whole pool of an event, or of what was before them all.
    return int(part.places[place]) if place >= 0 else int(part.places[0]) - 1


def _last(part: Part) -> int:
    return int(part.places[-1]) if len(part.places) else -1


def _held(size: Array, group: Array, which: Array, kinds: list[str], level: int) -> Array:
    found = sums(group[which], size[which], len(kinds))
    found[0] += level - int(found.sum())
    return found


def _largest_stacks(timeline: Timeline, group: Array, stack: Array, size: Array) -> dict[int, str]:
    known = np.flatnonzero(stack != MISSING)
    known = known[np.argsort(size[known], kind="stable")]
    # The last of a group is its largest block.
    largest = dict(zip(group[known].tolist(), stack[known].tolist(), strict=True))
    texts = timeline.profile.names(largest.values())
    return {number: _shown(texts[i]) for number, i in largest.items()}


def _shown(stack: str) -> str:
    return stack[:_LONGEST_STACK].rstrip(";").replace(";", " < ")


def failed_rows(timeline: Timeline, found: Iterable[Part]) -> list[dict[str, Any]]:
    """Return a row per allocation that failed, in order. Raises NotRecorded where none could be seen."""
    lacking = {Fact.MEMORY_BLOCKS, Fact.MEMORY_EVENTS} - timeline.profile.facts
    if lacking:
        advice = [
            timeline.profile.advice[fact] for fact in lacking if fact in timeline.profile.advice
        ]
        raise NotRecorded("memory:by=oom", sorted(lacking), advice)
    return [row for part in found for row in _failed_rows(timeline, part)]


def _failed_rows(timeline: Timeline, part: Part) -> list[dict[str, Any]]:
    keys, events = pool_keys(timeline, part.pool), part.events
    places = np.flatnonzero(events.failed)
    columns = timeline.profile.columns("memory_event", ("free_bytes", "stack_id"))
    free, stack = (columns[name][events.row[places]] for name in ("free_bytes", "stack_id"))
    texts = timeline.profile.names(stack[stack != MISSING])
    cells = zip(
        frame_names(timeline, stack), places.tolist(), free.tolist(), stack.tolist(), strict=True
    )
    rows = []
    for number, (name, place, free_bytes, stack_id) in enumerate(cells):
        start, in_use, held = (
            int(each[place]) for each in (events.start, events.in_use, events.reserved)
        )
        rows.append({
            **keys, "oom": number, "start_ns": None if start == MISSING else start, "name": name,
            "bytes": int(events.failed[place]), "in_use_bytes": in_use,
            "reserved_bytes": None if held == MISSING else held,
            "unused_bytes": None if held == MISSING else held - in_use,
            "free_bytes": None if free_bytes == MISSING else free_bytes,
            "stack": _shown(texts[stack_id]) if stack_id in texts else None,
        })  # fmt: skip
    return rows


def final_values(timeline: Timeline, part: Part) -> dict[str, Any]:
    """Return the columns on the end of a whole recording, and on failed allocations, where recorded."""
    final, values = part.pool.final, {}
    if final is None:
        return {}
    if Fact.MEMORY_EVENTS in timeline.profile.facts:
        values["oom_count"] = int(np.count_nonzero(part.events.failed))
    if timeline.is_whole:
        inactive, in_use = final.size[~final.in_use], final.in_use
        values |= {
            "end_reserved_bytes": final.reserved_bytes,
            "inactive_bytes": int(inactive.sum()),
            "largest_inactive_bytes": int(inactive.max(initial=0)),
            "rounding_bytes": int((final.size - final.requested)[in_use].sum()),
        }
    return values


MEMORY_HOLDERS = Query(columns=(*KEYS, *_FRAMES), compute=compute)
