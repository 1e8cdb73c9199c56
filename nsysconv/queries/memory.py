"""Memory that a program allocated and freed: its peak, who held it, and what was never freed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import (
    bytes_column,
    count_column,
    key_column,
    rows_at,
    values_by_column,
)
from nsysconv.queries.contract import Array, Option, Query, Request, Result, View
from nsysconv.queries.memory_holders import (
    BEFORE,
    KEYS,
    OOMS,
    failed_rows,
    final_values,
    frame_names,
    pool_keys,
)
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import counts, sums
from nsysconv.timeline.intervals import equal_parts
from nsysconv.timeline.memory import Part, any_thread_sizes, left_out, node_of_events, parts
from nsysconv.timeline.operator_calls import OperatorCalls, may_have_operators, operator_calls
from nsysconv.timeline.steps import step_names_at
from nsysconv.timeline.timeline import Timeline

NO_OPERATOR = "[no operator]"
"""The row of what was taken and freed in no operator."""

_MAX_BINS = 100_000


_NAME = key_column(
    "name",
    "Innermost operator on the thread that allocated or freed the memory; "
    f"{NO_OPERATOR}: none. {BEFORE}: allocated before the first event.",
)
_START = Column("start_ns", Unit.NS, "Start of the bin, or time of the allocation.", key=True)
_DUR = Column(
    "dur_ns",
    Unit.NS,
    "Length of the bin, or time the block was held; null: it was not freed.",
)
_OF_POOLS = (
    bytes_column(
        "peak_bytes",
        "Peak memory in use: handed out by the framework's allocator, or, if that is not "
        "recorded, allocated minus freed.",
    ),
    Column(
        "peak_start_ns",
        Unit.NS,
        "Time at which the peak was first reached; null: before the first event.",
    ),
    bytes_column(
        "peak_reserved_bytes",
        "Peak memory reserved by the framework's allocator; null: not recorded.",
    ),
    Column(
        "device_pct",
        Unit.PCT,
        "Peak reserved memory (else the peak in use) as a share of the device memory; null: "
        "device memory size not recorded.",
        better="less",
    ),
    bytes_column("before_bytes", "Memory in use before the first event."),
    bytes_column("end_bytes", "Memory in use after the last event."),
    bytes_column(
        "reserved_at_peak_bytes", "Memory reserved at the peak; null: not recorded.", brief=False
    ),
    Column(
        "fragmented_pct",
        Unit.PCT,
        "Share of the memory reserved at the peak that was not in use: cached, or in blocks that "
        "are too small.",
        better="less",
        brief=False,
    ),
    count_column("allocation_count", "Number of blocks allocated."),
    bytes_column("allocation_bytes", "Total size of the allocated blocks.", adds=True),
    count_column("open_count", "Number of allocated blocks that were never freed.", brief=False),
    bytes_column("open_bytes", "Total size of these blocks.", brief=False, adds=True),
    count_column(
        "oom_count", "Number of allocations that failed for lack of memory; null: not recorded."
    ),
    bytes_column("end_reserved_bytes", "Memory reserved by the allocator at the end.", brief=False),
    bytes_column("inactive_bytes", "Memory reserved at the end but not in use."),
    bytes_column(
        "largest_inactive_bytes",
        "Largest reserved block not in use; a larger request needs new device memory.",
    ),
    bytes_column(
        "rounding_bytes",
        "Memory that blocks in use at the end take beyond the requested sizes.",
        brief=False,
    ),
)
_OF_OPERATORS = (
    count_column("call_count", "Number of calls of the operator."),
    bytes_column(
        "live_at_peak_bytes",
        "Size of the blocks it allocated that were held at the peak; null: addresses are not recorded.",
        adds=True,
    ),
    count_column(
        "self_allocation_count",
        "Number of blocks allocated by the operator itself, not by operators inside.",
    ),
    bytes_column("self_allocation_bytes", "Total size of these blocks.", adds=True),
    bytes_column(
        "self_increase_bytes",
        "Bytes allocated minus bytes freed by the operator itself.",
        adds=True,
    ),
    count_column(
        "allocation_count",
        "Number of blocks allocated by the operator and operators inside.",
        brief=False,
    ),
    bytes_column("allocation_bytes", "Total size of these blocks.", brief=False, adds=True),
    bytes_column(
        "increase_bytes",
        "Bytes allocated minus bytes freed by the operator and operators inside.",
        brief=False,
        adds=True,
    ),
    bytes_column(
        "any_thread_bytes",
        "Bytes allocated minus bytes freed by any thread during a call, summed over calls, as in the "
        "memory columns of `key_averages()`.",
        brief=False,
        adds=True,
    ),
    bytes_column(
        "any_thread_self_bytes",
        "The same without the operators and API calls directly inside.",
        brief=False,
        adds=True,
    ),
)
_OF_BLOCKS = (
    replace(
        _NAME,
        doc=f"{_NAME.doc} Without operators, the Python function that allocated it, if recorded.",
        key=False,
    ),
    Column("address", Unit.ID, "Start address of the block.", key=True, brief=False),
    _START,
    bytes_column("bytes", "Size of the block."),
    _DUR,
    Column("step", Unit.TEXT, "Step in which the block was allocated; null: none."),
    Column(
        "state",
        Unit.TEXT,
        "freed; open: never freed; before: allocated before the first event, or at an unrecorded time; "
        "lost: another block was allocated at its address.",
    ),
)
_OVER_TIME = (
    Column("bin", Unit.ID, "Number of the bin, from 0, the same time for all.", key=True),
    replace(_START, key=False),
    replace(_DUR, brief=False),
    bytes_column("max_bytes", "Peak memory in use in the bin."),
    bytes_column("end_bytes", "Memory in use at the end of the bin."),
    bytes_column("max_reserved_bytes", "Peak memory reserved in the bin; null: not recorded."),
)

VIEWS = {
    "device": View("Memory by device", (*KEYS, *_OF_POOLS)),
    "operator": View(
        "Memory by operator, largest at the peak first", (*KEYS, _NAME, *_OF_OPERATORS)
    ),
    "block": View("Blocks of memory, largest first", (*KEYS, *_OF_BLOCKS)),
    "time": View("Memory over time", (*KEYS, *_OVER_TIME)),
    "oom": View("Allocations that failed", (*KEYS, *OOMS)),
}


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per pool of memory, or per operator, block or bin of time and pool."""
    by = request.options["by"]
    if by not in VIEWS:
        raise UsageError(f"memory has no rows by {by!r}", hint=f"There are: {', '.join(VIEWS)}")
    found = parts(timeline)
    rows, notes = _COMPUTE[by](timeline, request, found), _notes(timeline, found)
    count = _block_count(timeline, found) if by == "block" else None
    title = ""
    if by == "operator" and all(row["live_at_peak_bytes"] is None for row in rows):
        title = "Memory by operator, most allocated first"
    return Result(values_by_column(rows, VIEWS[by].columns[1:]), count, notes, title=title)


def _notes(timeline: Timeline, found: Iterable[Part]) -> tuple[Note, ...]:
    notes = []
    if untimed := left_out(timeline):
        text = "allocations and frees without a time or size were left out"
        notes.append(Note("memory-events-incomplete", Severity.DROPPED, text, untimed))
    pools = [part.pool for part in found]
    if unseen := sum(pool.unseen for pool in pools):
        text = (
            "memory in use changed between two events by more or less than they record: some allocations "
            "or frees are missing"
        )
        of = sum(map(len, pools))
        notes.append(Note("memory-events-unseen", Severity.APPROXIMATED, text, unseen, of=of))
    lost = sum(int(np.count_nonzero(pool.blocks.lost)) for pool in pools)
    if lost:
        text = "blocks allocated at the address of a held one, whose free was not recorded"
        notes.append(Note("memory-blocks-lost", Severity.APPROXIMATED, text, lost))
    return tuple(notes)


# -- by device


def _by_device(timeline: Timeline, request: Request, found: list[Part]) -> list[dict[str, Any]]:
    sizes = {row["device_id"]: row["memory_bytes"] for row in timeline.profile.rows("device")}
    return [_pool_row(timeline, part, sizes.get(part.pool.device)) for part in found]


def _pool_row(timeline: Timeline, part: Part, device_bytes: int | None) -> dict[str, Any]:
    events = part.events
    row = {
        **pool_keys(timeline, part.pool),
        **final_values(timeline, part),
        "end_bytes": events.end,
    }
    if not len(events):
        return row  # the peak is not recorded
    place, taken = events.peak_place, events.size > 0
    most_reserved, at_peak = events.most_reserved, events.reserved_at_peak
    has_time = place >= 0 and events.has_times
    row |= {
        "peak_bytes": events.peak,
        "peak_start_ns": int(events.start[place]) if has_time else None,
        "peak_reserved_bytes": most_reserved,
        "before_bytes": events.before,
        "reserved_at_peak_bytes": at_peak,
        "allocation_count": int(np.count_nonzero(taken)),
        "allocation_bytes": int(events.size[taken].sum()),
    }
    if at_peak:
        row["fragmented_pct"] = 100 * (at_peak - events.peak) / at_peak
    if device_bytes:
        row["device_pct"] = 100 * (most_reserved or events.peak) / device_bytes
    if events.has_addresses:
        blocks = part.pool.blocks
        still = (blocks.ended < 0) & np.isin(blocks.taken, part.places)
        row["open_count"] = int(np.count_nonzero(still))
        row["open_bytes"] = int(blocks.size[still].sum())
    return row


# -- by operator


def _by_operator(timeline: Timeline, request: Request, found: list[Part]) -> list[dict[str, Any]]:
    calls = _operator_calls(timeline, request)
    rows = [
        row for part in found if len(part.events) for row in _operator_rows(timeline, calls, part)
    ]
    rows.sort(
        key=lambda row: (
            -(row["live_at_peak_bytes"] or 0),
            -(row["self_allocation_bytes"] or 0),
            row["name"],
        )
    )
    return rows


def _operator_calls(timeline: Timeline, request: Request) -> OperatorCalls:
    if not may_have_operators(timeline):
        advice = timeline.profile.advice.get(Fact.OPERATORS)
        raise NotRecorded("memory:by=operator", [Fact.OPERATORS], [advice] if advice else [])
    return operator_calls(timeline, request.options["annotations"], request.options["functions"])


def _operator_rows(timeline: Timeline, calls: OperatorCalls, part: Part) -> list[dict[str, Any]]:
    spans, events = calls.spans, part.events
    of_event = node_of_events(timeline, calls, part.pool)
    node = of_event[part.places]
    own, nested = _taken_by_node(calls, node, events.size)
    any_thread, any_thread_self = any_thread_sizes(calls, events)
    nodes = calls.rows
    nodes = nodes[timeline.holds(spans)[nodes]]
    group, count = spans.name[nodes], len(spans.names)
    live = _live_at_peak(part, of_event, spans.name, count)
    values = {
        "call_count": counts(group, count),
        **{f"self_{name}": sums(group, each[nodes], count) for name, each in own.items()},
        **{name: sums(group, each[nodes], count) for name, each in nested.items()},
        "any_thread_bytes": sums(group, any_thread[nodes], count),
        "any_thread_self_bytes": sums(group, any_thread_self[nodes], count),
        **({} if live is None else {"live_at_peak_bytes": live[:-1]}),
    }
    # Calls in whose time other threads took memory have a row of their own only if they took some.
    some = [np.asarray(each) for name, each in values.items() if name != "call_count"]
    shown = np.flatnonzero(np.any(np.stack(some) != 0, axis=0))
    keys = pool_keys(timeline, part.pool)
    listed = rows_at(values, shown)
    rows = [
        {
            **keys,
            "name": spans.names[number],
            **{name: int(each[i]) for name, each in listed.items()},
        }
        for i, number in enumerate(shown.tolist())
    ]
    rows = [{"live_at_peak_bytes": None, **row} for row in rows]
    return [*rows, *_other_rows(part, keys, node, None if live is None else int(live[-1]))]


def _taken_by_node(
    calls: OperatorCalls, node: Array, size: Array
) -> tuple[dict[str, Array], dict[str, Array]]:
    # The results have, per node, the allocations made in it, and those made in it or in the nodes
    # inside.
    in_one, taken = node >= 0, (node >= 0) & (size > 0)
    count = len(calls.parent)
    own = {
        "allocation_count": counts(node[taken], count),
        "allocation_bytes": sums(node[taken], size[taken], count),
        "increase_bytes": sums(node[in_one], size[in_one], count),
    }
    return own, {name: calls.with_nested(each) for name, each in own.items()}


def _live_at_peak(part: Part, of_event: Array, names: Array, count: int) -> Array | None:
    # The result has the bytes by name and, last, those that no operator allocated. It is None if
    # addresses are missing.
    blocks = part.pool.blocks
    if not part.pool.has_addresses:
        return None
    held = part.held_at_peak
    node = of_event[blocks.taken[held]]
    return sums(np.where(node < 0, count, names[node]), blocks.size[held], count + 1)


def _other_rows(
    part: Part, keys: Mapping[str, Any], node: Array, live: int | None
) -> list[dict[str, Any]]:
    # These rows are for allocations that were made in no operator, and for what was allocated before
    # the first event.
    events, outside = part.events, node < 0
    taken = outside & (events.size > 0)
    rows: list[dict[str, Any]] = []
    if outside.any() or live:
        rows.append(
            {
                **keys,
                "name": NO_OPERATOR,
                "live_at_peak_bytes": live,
                "self_allocation_count": int(np.count_nonzero(taken)),
                "self_allocation_bytes": int(events.size[taken].sum()),
                "self_increase_bytes": int(events.size[outside].sum()),
            }
        )
    if live is not None:
        blocks = part.pool.blocks
        unknown = events.peak - int(blocks.size[part.held_at_peak].sum())
        if unknown:
            empty = {"self_allocation_bytes": None}
            rows.append({**keys, **empty, "name": BEFORE, "live_at_peak_bytes": unknown})
    return rows


# -- by block


def _by_block(timeline: Timeline, request: Request, found: list[Part]) -> list[dict[str, Any]]:
    has_operators = may_have_operators(timeline)
    calls = _operator_calls(timeline, request) if has_operators else None
    rows = [row for part in found for row in _block_rows(timeline, calls, part, request)]
    rows += [row for part in found for row in _kept_rows(timeline, part, request)]
    rows.sort(key=lambda row: (-row["bytes"], row["start_ns"] or 0))
    return rows


def _block_count(timeline: Timeline, found: Iterable[Part]) -> int:
    return sum(len(part.blocks) + len(_kept_blocks(timeline, part)) for part in found)


def _kept_blocks(timeline: Timeline, part: Part) -> Array:
    # The blocks that no event took or freed, and that were there at the end, by number.
    final = part.pool.final
    if final is None or not timeline.is_whole:
        return np.empty(0, np.int64)
    return np.flatnonzero(final.held_throughout(part.pool))


def _kept_rows(timeline: Timeline, part: Part, request: Request) -> list[dict[str, Any]]:
    final, shown = part.pool.final, _kept_blocks(timeline, part)
    if final is None:
        return []
    shown = shown[np.argsort(-final.requested[shown], kind="stable")[: request.limit or None]]
    has_stacks = Fact.STACKS in timeline.profile.facts
    names = frame_names(timeline, final.stack[shown]) if has_stacks else [None] * len(shown)
    cells = zip(names, final.address[shown].tolist(), final.requested[shown].tolist(), strict=True)
    return [
        {**pool_keys(timeline, part.pool), "name": name, "address": at, "start_ns": None, "bytes": size,
         "state": "before"}
        for name, at, size in cells
    ]  # fmt: skip


def _block_rows(
    timeline: Timeline, calls: OperatorCalls | None, part: Part, request: Request
) -> list[dict[str, Any]]:
    pool, blocks = part.pool, part.pool.blocks
    # There may be millions: only those that will be shown are described.
    shown = part.blocks
    largest = np.lexsort((blocks.taken[shown], -blocks.size[shown]))
    shown = shown[largest[: request.limit or None]]
    taken, ended = blocks.taken[shown], blocks.ended[shown]
    is_taken, is_ended = taken >= 0, ended >= 0
    names: list[str | None] = [None] * len(taken)
    if calls is not None:
        node = node_of_events(timeline, calls, pool)[taken]
        names = [
            calls.spans.names[calls.spans.name[i]] if i >= 0 else NO_OPERATOR
            for i in np.where(is_taken, node, -1).tolist()
        ]
    else:
        of_event = timeline.profile.columns("memory_event", ("stack_id",))["stack_id"][pool.row]
        stack = np.where(is_taken, np.append(of_event, MISSING)[taken], MISSING)
        if (stack != MISSING).any():
            kinds = zip(frame_names(timeline, stack), is_taken.tolist(), strict=True)
            names = [name if is_one else BEFORE for name, is_one in kinds]
    starts = np.where(is_taken, pool.start[taken], MISSING)
    has_end = is_taken & is_ended & pool.has_times
    held = np.where(has_end, pool.start[ended] - pool.start[taken], MISSING)
    address = pool.address[np.where(is_taken, taken, ended)]
    states = np.select([blocks.lost[shown], ~is_taken, ~is_ended], [0, 1, 2], 3)
    step = step_names_at(timeline, request.steps, pool.pid, starts)
    keys = pool_keys(timeline, pool)
    columns = zip(
        names, address.tolist(), starts.tolist(), blocks.size[shown].tolist(), held.tolist(), step,
        states.tolist(), strict=True,
    )  # fmt: skip
    return [
        {
            **keys,
            "name": BEFORE if start == MISSING and calls is not None else name,
            "address": at,
            "start_ns": None if start == MISSING else start,
            "bytes": size,
            "dur_ns": None if dur == MISSING else dur,
            "step": in_step,
            "state": _STATES[state],
        }
        for name, at, start, size, dur, in_step, state in columns
    ]


_STATES = ("lost", "before", "open", "freed")


# -- over time


def _over_time(timeline: Timeline, request: Request, found: list[Part]) -> list[dict[str, Any]]:
    bins = request.options["bins"]
    if not 1 <= bins <= _MAX_BINS:
        raise UsageError(
            f"memory:bins={bins}: not so many", hint=f"There are 1 to {_MAX_BINS} bins."
        )
    found = [part for part in found if len(part.events) and part.events.has_times]
    if not found:
        return []
    first = min(int(part.events.start[0]) for part in found)
    last = max(int(part.events.start[-1]) for part in found)
    edges = equal_parts(first, last + 1, bins)
    return [row for part in found for row in _bin_rows(timeline, part, edges)]


def _bin_rows(timeline: Timeline, part: Part, edges: Array) -> list[dict[str, Any]]:
    events = part.events
    low, high = edges[:-1], edges[1:]
    # The memory in use at an edge is that after the last event before it.
    levels = np.append(events.before, events.in_use)
    before = np.searchsorted(events.start, low, side="left")
    after = np.searchsorted(events.start, high, side="left")
    # Before the first event what is held is not recorded.
    is_reserved = events.most_reserved is not None
    keys = pool_keys(timeline, part.pool)
    return [
        {
            **keys,
            "bin": number,
            "start_ns": start,
            "dur_ns": end - start,
            "max_bytes": int(levels[one : other + 1].max()),
            "end_bytes": int(levels[other]),
            "max_reserved_bytes": int(events.reserved[max(one - 1, 0) : other].max())
            if is_reserved and other
            else None,
        }
        for number, (start, end, one, other) in enumerate(
            zip(low.tolist(), high.tolist(), before.tolist(), after.tolist(), strict=True)
        )
    ]


def _by_oom(timeline: Timeline, request: Request, found: list[Part]) -> list[dict[str, Any]]:
    return failed_rows(timeline, found)


_COMPUTE = {
    "device": _by_device,
    "operator": _by_operator,
    "block": _by_block,
    "time": _over_time,
    "oom": _by_oom,
}
MEMORY = Query(
    options=(
        Option(
            "by",
            "device",
            "Rows per process and device (device), per operator with its memory at the peak (operator), "
            "per block (block), per time bin (time), or per failed allocation (oom).",
        ),
        Option("bins", 60, f"With by=time: number of time bins, {_MAX_BINS} at most."),
        Option("annotations", False, "With by=operator: include other ranges."),
        Option("functions", False, "With by=operator: include Python functions, if imported."),
    ),
    columns=VIEWS["device"].columns,
    views=VIEWS,
    compute=compute,
)
