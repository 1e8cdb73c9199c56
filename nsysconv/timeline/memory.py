"""Memory that a program allocated and freed: how much was in use when, by whom (docs/definitions)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from nsysconv import codes
from nsysconv.report import MISSING
from nsysconv.threads import cached_property
from nsysconv.timeline.arrays import Array, by_group, factorize, take
from nsysconv.timeline.operator_calls import OperatorCalls, node_at
from nsysconv.timeline.timeline import Timeline, cached_whole

_COLUMNS = (
    *("start_ns", "pid", "device_id", "memory_kind"),
    *("address", "bytes", "allocated_bytes", "reserved_bytes", "kind"),
)
_SEGMENT, _OOM = map(codes.MEMORY_EVENT_KINDS.index, ("segment", "oom"))
_INACTIVE = codes.MEMORY_BLOCK_STATES.index("inactive")

NO_FRAME = "[no Python frame]"
"""Who allocated where no Python function is in the call stack."""


@dataclass(frozen=True)
class Pool:
    """The events of one allocator, in order: of a process, in a device's memory or the host's.

    `device` is MISSING for the host's memory; `kind` is a code of MEMORY_KINDS, MISSING where none is
    recorded. `row` is the place among the table's rows; a negative `size` was freed. `in_use` and
    `reserved` are bytes after the event; `reserved` is MISSING where no allocator said what it holds:
    then `in_use` is the sum of what was recorded. `failed` is what an allocation asked for that failed,
    else 0; such events, and those of segments, have the size 0. `start` is MISSING throughout where the
    order of events is recorded and their times are not. There may be no events, and only `final`.
    """

    pid: int
    device: int
    kind: int
    row: Array
    start: Array
    size: Array
    address: Array
    in_use: Array
    reserved: Array
    failed: Array
    final: FinalBlocks | None = None

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.row)

    @property
    def before(self) -> int:
        """Return the bytes that were in use before the first event."""
        if len(self):
            return int(self.in_use[0] - self.size[0])
        return 0 if self.final is None else self.final.in_use_bytes

    @property
    def end(self) -> int:
        """Return the bytes that were in use after the last event."""
        return int(self.in_use[-1]) if len(self) else self.before

    @property
    def unseen(self) -> int:
        """Return after how many events another amount is in use than the one before and the size say."""
        return int(np.count_nonzero(np.diff(self.in_use) != self.size[1:]))

    @property
    def peak(self) -> int:
        """Return the most bytes in use at a time."""
        return max(self.before, int(self.in_use.max(initial=0)))

    @property
    def peak_place(self) -> int:
        """Return the first event after which the peak was in use, -1 if it was before them all."""
        return -1 if self.peak == self.before else int(self.in_use.argmax())

    @property
    def most_reserved(self) -> int | None:
        """Return the most bytes that the allocator held at a time, None where that is not recorded."""
        if (self.reserved > 0).any():
            return int(self.reserved.max())
        return None if len(self) or self.final is None else self.final.reserved_bytes

    @property
    def has_times(self) -> bool:
        """Return whether it is recorded when events happened."""
        return bool((self.start != MISSING).any())

    @property
    def has_addresses(self) -> bool:
        """Return whether the addresses of all blocks are recorded."""
        return bool(((self.address != MISSING) | (self.size == 0)).all())

    @property
    def reserved_at_peak(self) -> int | None:
        """Return the bytes that the allocator held at the peak, None where that is not recorded."""
        place = self.peak_place
        return None if place < 0 or self.most_reserved is None else int(self.reserved[place])

    def take(self, which: Array) -> Pool:
        """Return the events at these places."""
        return replace(
            self,
            row=take(self.row, which),
            start=take(self.start, which),
            size=take(self.size, which),
            address=take(self.address, which),
            in_use=take(self.in_use, which),
            reserved=take(self.reserved, which),
            failed=take(self.failed, which),
        )

    @cached_property
    def blocks(self) -> Blocks:
        """Return the blocks that the events took and freed, by their addresses."""
        return _blocks(self)


@dataclass(frozen=True)
class Blocks:
    """Blocks of memory, in the order in which they were taken, those from before the recording first.

    `taken` and `ended` are places of events: -1 where the block was there before the first, or was still
    there after the last. `lost`: it ended because another block was taken at its address.
    """

    taken: Array
    ended: Array
    size: Array
    lost: Array

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self.size)

    def held_at(self, place: int) -> Array:
        """Return which blocks that events took were held after an event, as a mask; -1: before all."""
        still = (self.ended < 0) | (self.ended > place)
        result: Array = (self.taken >= 0) & (self.taken <= place) & still
        return result


@dataclass(frozen=True)
class FinalBlocks:
    """The blocks that an allocator held when the recording ended, in use or not.

    `requested` is what the program asked for, MISSING for blocks that are not in use; `size` is what
    they take. `segment` is the address of the segment they lie in; `stack` the id of a name, or MISSING.
    """

    address: Array
    segment: Array
    size: Array
    requested: Array
    state: Array
    stack: Array

    @property
    def in_use(self) -> Array:
        """Return which blocks the program has, or another stream still uses, as a mask."""
        result: Array = self.state != _INACTIVE
        return result

    @property
    def in_use_bytes(self) -> int:
        """Return what the program had asked for and not given back."""
        return int(self.requested[self.in_use].sum())

    @property
    def reserved_bytes(self) -> int:
        """Return what the allocator held."""
        return int(self.size.sum())

    def held_throughout(self, pool: Pool) -> Array:
        """Return which blocks were held from before the pool's first event to the end, as a mask."""
        blocks = pool.blocks
        still = pool.address[blocks.taken[(blocks.taken >= 0) & (blocks.ended < 0)]]
        result: Array = self.in_use & ~np.isin(self.address, still)
        return result


@dataclass(frozen=True)
class Part:
    """What a slice has of a pool: its events, and their places among those of the whole `pool`."""

    pool: Pool
    places: Array
    events: Pool

    @property
    def blocks(self) -> Array:
        """Return the blocks of the whole pool that one of the events allocated or freed, by number."""
        blocks = self.pool.blocks
        mine = np.isin(blocks.taken, self.places) | np.isin(blocks.ended, self.places)
        return np.flatnonzero(mine)

    @property
    def held_at_peak(self) -> Array:
        """Return which blocks of the whole pool were held at the peak of the events, as a mask."""
        place = self.events.peak_place
        before = int(self.places[0]) - 1
        return self.pool.blocks.held_at(before if place < 0 else int(self.places[place]))


def parts(timeline: Timeline) -> list[Part]:
    """Return what the slice has of each pool (without one, all), the largest peaks first."""
    whole = pools(timeline)
    kept = None if timeline.is_whole else timeline.rows("memory_event")
    found = []
    for pool in whole:
        places = np.arange(len(pool)) if kept is None else np.flatnonzero(kept[pool.row])
        if len(places) or (kept is None and pool.final is not None):
            found.append(Part(pool, places, pool if kept is None else pool.take(places)))
    found.sort(key=lambda part: -part.events.peak)
    return found


def left_out(timeline: Timeline) -> int:
    """Return how many events of a profile have no time or no size."""
    counted = sum(map(len, pools(timeline)))
    return int(timeline.profile.row_count("memory_event")) - counted


@cached_whole
def pools(timeline: Timeline) -> list[Pool]:
    """Return the pools of a profile, those outside a slice, too.

    Events without a time or a size are left out, unless no event has a time, and their order shows in
    what was in use after each.
    """
    column = timeline.profile.columns("memory_event", _COLUMNS)
    has_place = column["start_ns"] != MISSING
    if not has_place.any():
        has_place = column["allocated_bytes"] != MISSING
    rows = np.flatnonzero(has_place & (column["bytes"] != MISSING))
    start, pid, device, kind, address, size, allocated, reserved, event = (
        take(column[name], rows) for name in _COLUMNS
    )
    failed = np.where(event == _OOM, size, 0)
    size = np.where((event == _OOM) | (event == _SEGMENT), 0, size)
    final = _final_blocks(timeline)
    group, keys = factorize(pid, device, kind)
    found = []
    for number, members in enumerate(by_group(group, len(keys[0]))):
        order = members[np.argsort(start[members], kind="stable")]
        sizes, held = size[order], reserved[order]
        in_use = allocated[order]
        if (held == MISSING).any() or (in_use == MISSING).any():
            # What was freed and not taken in the recording was there before.
            in_use = np.cumsum(sizes)
            in_use -= min(int(in_use.min()), 0)
            held = np.full(len(order), MISSING)
        process, place, sort = (int(key[number]) for key in keys)
        each = rows[order], start[order], sizes, address[order], in_use, held, failed[order]
        found.append(Pool(process, place, sort, *each, final.pop((process, place), None)))
    none = np.empty(0, np.int64)
    for (process, place), blocks in final.items():
        nothing = none, none, none, none, none, none, none
        found.append(Pool(process, place, MISSING, *nothing, blocks))
    return sorted(found, key=lambda pool: (pool.device, pool.kind, pool.pid))


def _final_blocks(timeline: Timeline) -> dict[tuple[int, int], FinalBlocks]:
    names = ("pid", "device_id", "address", "segment_address", "bytes", "requested_bytes", "state",
             "stack_id")  # fmt: skip
    rows = timeline.profile.rows("memory_block")
    cells = [[MISSING if row[name] is None else row[name] for name in names] for row in rows]
    pid, device, *columns = np.array(cells, np.int64).reshape(-1, len(names)).T
    group, keys = factorize(pid, device)
    return {
        (int(keys[0][number]), int(keys[1][number])): FinalBlocks(*(each[of] for each in columns))
        for number, of in enumerate(by_group(group, len(keys[0])))
    }


def _blocks(pool: Pool) -> Blocks:
    known = np.flatnonzero((pool.address != MISSING) & (pool.size != 0))
    order = known[np.argsort(pool.address[known], kind="stable")]
    is_take = pool.size[order] > 0
    same = np.zeros(len(order) + 1, bool)  # whether an event is at the address of the one before
    same[1:-1] = pool.address[order][1:] == pool.address[order][:-1]
    # A block ends with the next event at its address.
    has_end = same[1:] & is_take
    after = np.append(order[1:], -1)
    taken, ended = order[is_take], np.where(has_end, after, -1)[is_take]
    lost = np.append(is_take[1:], False) & has_end
    # What is freed without having been taken was there before.
    follows_take = np.append(False, is_take[:-1]) & same[:-1]
    early = order[~is_take & ~follows_take]
    by_time = np.argsort(taken, kind="stable")
    early.sort()
    return Blocks(
        np.concatenate((np.full(len(early), -1), taken[by_time])),
        np.concatenate((early, ended[by_time])),
        np.concatenate((-pool.size[early], pool.size[taken[by_time]])),
        np.concatenate((np.zeros(len(early), bool), lost[is_take][by_time])),
    )


@dataclass(frozen=True)
class Holders:
    """All blocks that are known of a pool, with who allocated them.

    `stack` is the id of a name, MISSING where none is recorded; `is_seen`: whether the allocation, or
    the block at the end, was recorded, and not only its free. Blocks are held after the events from
    `taken` (-1: before all) to the one before `ended` (the number of events: still at the end).
    """

    stack: Array
    is_seen: Array
    size: Array
    taken: Array
    ended: Array

    def held_at(self, place: int) -> Array:
        """Return which blocks were held after an event, as a mask; -1: before all."""
        result: Array = (self.taken <= place) & (self.ended > place)
        return result


def holders(timeline: Timeline, pool: Pool) -> Holders:
    """Return the blocks that events took or freed, and those that the allocator held throughout."""
    blocks, count = pool.blocks, len(pool)
    stacks = timeline.profile.columns("memory_event", ("stack_id",))["stack_id"][pool.row]
    is_taken = blocks.taken >= 0
    stack = np.where(is_taken, np.append(stacks, MISSING)[blocks.taken], MISSING)
    ended = np.where(blocks.ended < 0, count, blocks.ended)
    found = Holders(stack, is_taken, blocks.size, blocks.taken, ended)
    if pool.final is None:
        return found
    final, kept = pool.final, pool.final.held_throughout(pool)
    more = int(np.count_nonzero(kept))
    return Holders(
        np.append(found.stack, final.stack[kept]),
        np.append(found.is_seen, np.ones(more, bool)),
        np.append(found.size, final.requested[kept]),
        np.append(found.taken, np.full(more, -1)),
        np.append(found.ended, np.full(more, count)),
    )


# The framework's own code, whose callers are asked for.
_OF_FRAMEWORK = ("torch/", "torch\\", "<eval_with_key>")
# What follows the file in an entry of a Python function: its line.
_PYTHON = re.compile(r"\(\d+\): ")


def frame_of(stack: str) -> str:
    """Return who allocated, by a call stack: the innermost Python function outside the framework.

    If all are the framework's, its innermost; without one, NO_FRAME, after the node of the backward
    pass where the stack names it.
    """
    entries = [entry for entry in stack.split(";") if entry]
    python = [entry for entry in entries if _PYTHON.search(entry)]
    own = (entry for entry in python if not entry.startswith(_OF_FRAMEWORK))
    nodes = [f"{entry} {NO_FRAME}" for entry in entries if not entry.startswith(("<", "nn."))]
    return next(own, (python or nodes or [NO_FRAME])[0])


def node_of_events(timeline: Timeline, calls: OperatorCalls, pool: Pool) -> Array:
    """Return per event of a pool the innermost operator, range or function on its thread, -1 for none."""
    column = timeline.profile.columns("memory_event", ("pid", "tid"))
    pid, tid = column["pid"][pool.row], column["tid"][pool.row]
    return node_at(calls, calls.rows, pid, tid, pool.start)


def any_thread_sizes(calls: OperatorCalls, pool: Pool) -> tuple[Array, Array]:
    """Return per node the bytes taken less those freed from its start to its end, on any thread of
    its process, and the same without those of the nodes directly inside: the memory columns of PyTorch's
    table.
    """
    spans = calls.spans
    sums = np.append(0, np.cumsum(pool.size))
    first = np.searchsorted(pool.start, spans.start, side="left")
    last = np.searchsorted(pool.start, spans.end, side="right")
    total = np.where(spans.pid == pool.pid, sums[last] - sums[first], 0)
    inside = np.flatnonzero(calls.kept & (calls.holder >= 0))
    own = total.copy()
    np.subtract.at(own, calls.holder[inside], total[inside])
    return total, own
