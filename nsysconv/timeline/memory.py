"""Memory that a program allocated and freed: how much was in use when, by whom (docs/definitions)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nsysconv.report import MISSING
from nsysconv.threads import cached_property
from nsysconv.timeline.arrays import Array, by_group, factorize, take
from nsysconv.timeline.operator_calls import OperatorCalls, node_at
from nsysconv.timeline.timeline import Timeline, cached_whole

_COLUMNS = (
    *("start_ns", "pid", "device_id", "memory_kind"),
    *("address", "bytes", "allocated_bytes", "reserved_bytes"),
)


@dataclass(frozen=True)
class Pool:
    """The events of one allocator, in order: of a process, in a device's memory or the host's.

    `device` is MISSING for the host's memory; `kind` is a code of MEMORY_KINDS, MISSING where none is
    recorded. `row` is the place among the table's rows; a negative `size` was freed. `in_use` and
    `reserved` are bytes after the event; `reserved` is MISSING where no allocator said what it holds:
    then `in_use` is the sum of what was recorded.
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

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.row)

    @property
    def before(self) -> int:
        """Return the bytes that were in use before the first event."""
        return int(self.in_use[0] - self.size[0])

    @property
    def unseen(self) -> int:
        """Return after how many events another amount is in use than the one before and the size say."""
        return int(np.count_nonzero(np.diff(self.in_use) != self.size[1:]))

    @property
    def peak(self) -> int:
        """Return the most bytes in use at a time."""
        return max(self.before, int(self.in_use.max()))

    @property
    def peak_place(self) -> int:
        """Return the first event after which the peak was in use, -1 if it was before them all."""
        return -1 if self.peak == self.before else int(self.in_use.argmax())

    @property
    def most_reserved(self) -> int | None:
        """Return the most bytes that the allocator held at a time, None where that is not recorded."""
        return int(self.reserved.max()) if (self.reserved > 0).any() else None

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
        if len(places):
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

    Events without a time or a size are left out.
    """
    column = timeline.profile.columns("memory_event", _COLUMNS)
    rows = np.flatnonzero((column["start_ns"] != MISSING) & (column["bytes"] != MISSING))
    start, pid, device, kind, address, size, allocated, reserved = (
        take(column[name], rows) for name in _COLUMNS
    )
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
        found.append(
            Pool(
                process, place, sort, rows[order], start[order], sizes, address[order], in_use, held
            )
        )
    return sorted(found, key=lambda pool: (pool.device, pool.kind, pool.pid))


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
