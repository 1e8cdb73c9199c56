"""A run's collectives together: which ranks met in each, on one clock (docs/definitions)."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array
from nsysconv.timeline.clock_offsets import ClockOffset, clock_offsets
from nsysconv.timeline.collective_messages import Message
from nsysconv.timeline.collectives import NUMBERS, CollectiveCalls, Series

_WORDS = 5


@dataclass(frozen=True)
class Participant:
    """A process with one device, or without one, of the profile of that number; `recorded`: from when to
    when, in ns since the profile's zero.
    """

    profile: int
    rank: int | None
    pid: int | None
    device: int | None
    place: int
    count: int
    recorded: tuple[int, int]


@dataclass(frozen=True)
class CollectiveGroups:
    """Per collective: how many came, when the first and the last did (ns on the run's clock) and who
    that was (numbers of participants, the first of several), and how long all others waited for the last.
    `shown`: whether it belongs to the slice of one of them; `at_edge`: whether one came while others were
    not recorded yet, or any more.
    """

    series: tuple[Series, ...]
    series_of: Array
    number: Array
    count: Array
    first: Array
    last: Array
    first_who: Array
    last_who: Array
    wait_sum: Array
    shown: Array
    at_edge: Array


class CollectiveGrouper:
    """Gathers a run's collectives."""

    def __init__(self) -> None:
        """Begin without profiles."""
        self._file = tempfile.TemporaryFile(prefix="nsysconv-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._series: dict[Series, int] = {}
        self._messages: dict[Message, int] = {}
        self._codes = np.empty(0, np.int64)
        self._utc: list[int | None] = []
        self._cycles: Sequence[int] = ()
        self._together: dict[int, tuple[int, int]] = {}
        self.least_covered = 1.0
        """The least part of a recording that the others of its cycle cover. Set by `clocks`."""
        self.participants: list[Participant] = []
        self._words = 0

    @property
    def series(self) -> tuple[Series, ...]:
        """Return all that were added."""
        return tuple(self._series)

    @property
    def profiles(self) -> set[int]:
        """Return the numbers of those that have collectives."""
        return {one.profile for one in self.participants}

    def add(self, utc: int | None, found: Sequence[CollectiveCalls]) -> None:
        """Add the collectives of one profile; `utc` is the time of day of its zero."""
        profile = len(self._utc)
        self._utc.append(utc)
        for each in found:
            numbers = [self._series.setdefault(name, len(self._series)) for name in each.names]
            code = np.array(numbers, np.int64)[each.series] * NUMBERS + each.number
            places = [self._messages.setdefault(m, len(self._messages)) for m in each.messages]
            message = np.array(places, np.int64)[each.message]
            rows = np.stack((code, each.start, each.end, each.shown.astype(np.int64), message))
            self._file.write(rows.tobytes())
            self.participants.append(
                Participant(
                    profile, each.rank, each.pid, each.device, self._words, len(code), each.recorded
                )
            )
            self._words += rows.size
            self._codes = np.union1d(self._codes, code)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return all that were added."""
        return tuple(self._messages)

    @property
    def series_of(self) -> Array:
        """Return the place of each collective's series; collectives are ordered by series and number."""
        return self._codes // NUMBERS

    def rows(self, one: Participant) -> Array:
        """Return five rows on a participant's collectives: the place of each, when it came and left (ns
        since the profile's zero), whether it is in the slice, and the place of its message.
        """
        self._file.seek(8 * one.place)
        rows = np.frombuffer(self._file.read(8 * _WORDS * one.count), np.int64)
        rows = rows.reshape(_WORDS, one.count).copy()
        rows[0] = np.searchsorted(self._codes, rows[0])
        return rows

    def clocks(self) -> list[ClockOffset | None]:
        """Return per profile its clock; those of low ranks tie the others."""
        synchronizing = np.array([series.synchronizes for series in self._series], bool)
        lowest: dict[int, tuple[bool, int, int]] = {}
        of_profile: dict[int, list[Participant]] = {i: [] for i in range(len(self._utc))}
        for one in self.participants:
            rank = (one.rank is None, one.rank or 0, one.profile)
            lowest[one.profile] = min(rank, lowest.get(one.profile, rank))
            of_profile[one.profile].append(one)
        order = sorted(range(len(self._utc)), key=lambda i: lowest.get(i, (True, 0, i)))

        def ends(place: int) -> tuple[Array, Array]:
            latest = np.empty(0, np.int64), np.empty(0, np.int64)
            for one in of_profile[order[place]]:
                which, _, end, _, _ = self.rows(one)
                useful = synchronizing[self._codes[which] // NUMBERS]
                latest = _later_ends(*latest, which[useful], end[useful])
            return latest

        found = clock_offsets([self._utc[i] for i in order], ends, len(self._codes))
        clock_of = dict(zip(order, found, strict=True))
        clocks = [clock_of[profile] for profile in range(len(order))]
        self._set_together(clocks)
        return clocks

    def _set_together(self, clocks: Sequence[ClockOffset | None]) -> None:
        by_cycle: dict[int, list[tuple[int, int]]] = {}
        for one in self.participants:
            if clock := clocks[one.profile]:
                begin, end = clock.of(np.array(one.recorded)).tolist()
                by_cycle.setdefault(self._cycle(one.profile), []).append((begin, end))
        self._together = {
            cycle: (max(begin for begin, _ in spans), min(end for _, end in spans))
            for cycle, spans in by_cycle.items()
        }
        for cycle, (low, high) in self._together.items():
            longest = max(end - begin for begin, end in by_cycle[cycle])
            covered = max(0, high - low) / longest if longest > 0 else 1.0
            self.least_covered = min(self.least_covered, covered)

    def _cycle(self, profile: int) -> int:
        return self._cycles[profile] if self._cycles else 0

    def together(self, profile: int, times: Array) -> Array:
        """Return times on the run's clock, moved into what the recordings of all ranks cover, of the
        profile's cycle: outside of it nobody knows who waited. Asked for after `clocks`.
        """
        low, high = self._together[self._cycle(profile)]
        moved: Array = np.clip(times, low, max(low, high))
        return moved

    def times(self, one: Participant, clock: ClockOffset) -> tuple[Array, Array, Array, Array]:
        """Return the place of each of a participant's collectives, when it came and left (`together`, of
        its `clock`), and whether it is in the slice.
        """
        which, start, end, shown, _ = self.rows(one)
        came, left = (self.together(one.profile, clock.of(times)) for times in (start, end))
        return which, came, left, shown != 0

    def met(self, clocks: Sequence[ClockOffset | None]) -> CollectiveGroups:
        """Return all collectives, by series and number. Of equal times the earlier participant counts."""
        total = len(self._codes)
        count = np.zeros(total, np.int64)
        first, last = np.full(total, np.iinfo(np.int64).max), np.full(total, MISSING)
        first_who, last_who = np.full(total, -1), np.full(total, -1)
        base, since_base = np.zeros(total, np.int64), np.zeros(total, np.int64)
        shown, at_edge = np.zeros((2, total), bool)
        for index, one in enumerate(self.participants):
            clock = clocks[one.profile]
            if clock is None:
                continue
            which, start, _, mine, _ = self.rows(one)
            came = clock.of(start)
            start = self.together(one.profile, came)
            at_edge[which] |= start != came
            fresh = count[which] == 0
            base[which[fresh]] = start[fresh]
            # Sums of times themselves would not fit in 64 bits.
            since_base[which] += start - base[which]
            count[which] += 1
            shown[which] |= mine != 0
            earlier, later = start < first[which], start > last[which]
            first[which[earlier]], first_who[which[earlier]] = start[earlier], index
            last[which[later]], last_who[which[later]] = start[later], index
        series_of, number = np.divmod(self._codes, NUMBERS)
        waits = count * (last - base) - since_base
        return CollectiveGroups(
            *(
                self.series,
                series_of,
                number,
                count,
                first,
                last,
                first_who,
                last_who,
                waits,
                shown,
            ),
            at_edge,
        )

    def part(self, cycles: Sequence[int]) -> None:
        """Separate the collectives of different cycles, which `cycles` has by profile. Call it once."""
        if not any(cycles):
            return
        self._cycles = cycles
        self._codes = np.empty(0, np.int64)
        series = [*self._series]
        for one in self.participants:
            self._file.seek(8 * one.place)
            code = np.frombuffer(self._file.read(8 * one.count), np.int64)
            places, of = np.unique(code // NUMBERS, return_inverse=True)
            own = [replace(series[place], cycle=cycles[one.profile]) for place in places.tolist()]
            numbers = [self._series.setdefault(each, len(self._series)) for each in own]
            code = np.array(numbers, np.int64)[of] * NUMBERS + code % NUMBERS
            self._file.seek(8 * one.place)
            self._file.write(code.tobytes())
            self._codes = np.union1d(self._codes, code)
        self._file.seek(0, os.SEEK_END)

    def sort(self, labels: Sequence[str]) -> None:
        """Put participants in the order of ranks, then of their profiles' labels."""

        def order(one: Participant) -> tuple[bool, int, str, int, int]:
            device = -1 if one.device is None else one.device
            return one.rank is None, one.rank or 0, labels[one.profile], one.pid or 0, device

        self.participants.sort(key=order)


def _later_ends(which: Array, end: Array, more: Array, more_end: Array) -> tuple[Array, Array]:
    places = np.union1d(which, more)
    latest = np.full(len(places), MISSING)
    latest[np.searchsorted(places, which)] = end
    at = np.searchsorted(places, more)
    latest[at] = np.maximum(latest[at], more_end)
    return places, latest
