"""How long collectives of a run moved data, and ranks waited in them (docs/definitions)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, counts, sums
from nsysconv.timeline.clock_offsets import ClockOffset
from nsysconv.timeline.collective_groups import CollectiveGrouper
from nsysconv.timeline.collective_messages import Message
from nsysconv.timeline.collectives import SYNCHRONIZING

# No rank leaves these before all have arrived. The ends of all-to-all are not close enough to each
# other to fit clocks to them.
_ALL_MEET = SYNCHRONIZING | {"alltoall"}


@dataclass(frozen=True)
class Transfers:
    """Collectives of a run with one message, as far as they are in the slice.

    `collectives`: how many; `kernels`: those of all ranks, which ran for `sum_ns` in total; `alone`:
    kernels of collectives that no other rank recorded. `transfer_ns` and `wait_ns` add up to the time of
    the others, of which `by_arrival` were parted at the last arrival, and the rest by the least duration.
    `ranks`: most that came to one collective; `partial`: collectives that fewer ranks recorded than their
    group has.
    """

    message: Message
    collectives: int
    kernels: int
    sum_ns: int
    alone: int
    transfer_ns: int
    wait_ns: int
    by_arrival: int
    ranks: int
    partial: int

    @property
    def matched(self) -> int:
        """Return how many of the kernels are of collectives that several ranks recorded."""
        return self.kernels - self.alone


def transfers(run: CollectiveGrouper, clocks: Sequence[ClockOffset | None]) -> Iterator[Transfers]:
    """Yield the collectives of a run by message, in the order of these; `clocks`: of its profiles."""
    messages = sorted(run.messages)
    met = _Met(run, clocks, messages)
    total = np.zeros((6, len(messages)), np.int64)
    for one in run.participants:
        which, start, end, shown, _ = run.rows(one)
        wait = met.wait(which, start, end, clocks[one.profile])
        shown = shown != 0
        which, lasted, wait = which[shown], (end - start)[shown], wait[shown]
        matched = met.count[which] > 1
        values = (
            *(np.ones(len(which), np.int64), lasted, ~matched, np.where(matched, lasted - wait, 0)),
            *(wait, matched & met.by_arrival[which]),
        )
        for row, value in zip(total, values, strict=True):
            row += sums(met.message[which], value.astype(np.int64), len(messages))
    collectives, ranks, partial = met.by_message(messages)
    for place, message in enumerate(messages):
        if collectives[place]:
            numbers = (*total[:, place], ranks[place], partial[place])
            yield Transfers(message, int(collectives[place]), *map(int, numbers))


class _Met:
    # This holds, per collective: how many ranks arrived, their least duration and last arrival (on the
    # run's clock), whether ranks wait until that arrival, and the message, which is the largest that a
    # rank recorded.

    def __init__(
        self,
        run: CollectiveGrouper,
        clocks: Sequence[ClockOffset | None],
        messages: Sequence[Message],
    ) -> None:
        series_of = run.series_of
        self.count = np.zeros(len(series_of), np.int64)
        self.least = np.full(len(series_of), np.iinfo(np.int64).max)
        self.last = np.full(len(series_of), MISSING)
        meets = np.array([each.operation in _ALL_MEET for each in run.series], bool)
        self.by_arrival = meets[series_of] if len(meets) else np.zeros(0, bool)
        self.message = np.full(len(series_of), -1)
        self.shown = np.zeros(len(series_of), bool)
        place = {message: i for i, message in enumerate(messages)}
        ordered = np.array([place[message] for message in run.messages], np.int64)
        for one in run.participants:
            which, start, end, shown, message = run.rows(one)
            self.count[which] += 1
            self.least[which] = np.minimum(self.least[which], end - start)
            self.message[which] = np.maximum(self.message[which], ordered[message])
            self.shown[which] |= shown != 0
            clock = clocks[one.profile]
            if clock is None or clock.uncertainty is None:
                self.by_arrival[which] = False
            else:
                self.last[which] = np.maximum(self.last[which], clock.of(start))

    def wait(self, which: Array, start: Array, end: Array, clock: ClockOffset | None) -> Array:
        # The result is how long a participant waited in each of its collectives; it is 0 where there
        # was no other participant.
        lasted = end - start
        by_arrival = self.by_arrival[which]
        wait = lasted - self.least[which]
        if clock is not None:
            until_last = np.clip(self.last[which] - clock.of(start), 0, lasted)
            wait = np.where(by_arrival, until_last, wait)
        return np.where(self.count[which] > 1, wait, 0)

    def by_message(self, messages: Sequence[Message]) -> tuple[Array, Array, Array]:
        # The result has, by message, the number of collectives in the slice, the most ranks at one of
        # them, and how many lack ranks of their group.
        message, count = self.message[self.shown], self.count[self.shown]
        ranks = np.zeros(len(messages), np.int64)
        np.maximum.at(ranks, message, count)
        group_size = np.array([each.group_size for each in messages], np.int64)
        lacking = counts(message[count < group_size[message]], len(messages))
        return counts(message, len(messages)), ranks, lacking
