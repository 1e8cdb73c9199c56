"""The collectives of a run: who came first, who came last, and how long the others waited.

Profiles are added one after the other. What is kept of each is on disk, and in memory only what there is
once per collective of the run, however many ranks took part in it.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrivals import Arrivals, Series
from nsysconv.timeline.clock_offsets import Clock, clocks

Array = np.ndarray

# A collective is its series and its number: both in one integer.
_NUMBERS = 1 << 40
_WORDS = 4


@dataclass(frozen=True)
class Participant:
    """A process with one device, or without one, of the profile of that number."""

    profile: int
    rank: int | None
    pid: int | None
    device: int | None
    place: int
    count: int


@dataclass(frozen=True)
class Meeting:
    """Per collective: how many came, when the first and the last did (ns on the run's clock) and who
    that was (numbers of participants, the first of several), and how long all others waited for the last.
    `shown`: whether it belongs to the slice of one of them.
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


class Meetings:
    """Gathers a run's collectives."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="nsysconv-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._series: dict[Series, int] = {}
        self._codes = np.empty(0, np.int64)
        self._utc: list[int | None] = []
        self.participants: list[Participant] = []
        self._words = 0

    @property
    def series(self) -> tuple[Series, ...]:
        """All that were added."""
        return tuple(self._series)

    def add(self, utc: int | None, found: Sequence[Arrivals]) -> None:
        """Adds what one profile tells; `utc` is the time of day of its zero."""
        profile = len(self._utc)
        self._utc.append(utc)
        for each in found:
            numbers = [self._series.setdefault(name, len(self._series)) for name in each.names]
            code = np.array(numbers, np.int64)[each.series] * _NUMBERS + each.number
            rows = np.stack((code, each.start, each.end, each.shown.astype(np.int64)))
            self._file.write(rows.tobytes())
            self.participants.append(
                Participant(profile, each.rank, each.pid, each.device, self._words, len(code))
            )
            self._words += rows.size
            self._codes = np.union1d(self._codes, code)

    def _rows(self, one: Participant) -> Array:
        """A participant's collectives by place in `_codes`, their starts, ends, and whether shown."""
        self._file.seek(8 * one.place)
        rows = np.frombuffer(self._file.read(8 * _WORDS * one.count), np.int64)
        rows = rows.reshape(_WORDS, one.count).copy()
        rows[0] = np.searchsorted(self._codes, rows[0])
        return rows

    def clocks(self) -> list[Clock | None]:
        """Per profile its clock; those of low ranks tie the others."""
        synchronising = np.array([series.synchronises for series in self._series], bool)
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
                which, _, end, _ = self._rows(one)
                useful = synchronising[self._codes[which] // _NUMBERS]
                latest = _latest(*latest, which[useful], end[useful])
            return latest

        found = clocks([self._utc[i] for i in order], ends, len(self._codes))
        result: list[Clock | None] = [None] * len(order)
        for place, profile in enumerate(order):
            result[profile] = found[place]
        return result

    def starts(self, one: Participant, clock: Clock | None) -> tuple[Array, Array, Array]:
        """Per collective of a participant its place, when it came to it on the run's clock, and whether
        it is in the slice. Nothing where its clock is not known.
        """
        which, start, _, shown = self._rows(one)
        if clock is None:
            return which[:0], start[:0], shown[:0] != 0
        return which, clock.of(start), shown != 0

    def met(self, told: Sequence[Clock | None]) -> Meeting:
        """All collectives, by series and number. Of equal times the earlier participant counts."""
        total = len(self._codes)
        count = np.zeros(total, np.int64)
        first, last = np.full(total, np.iinfo(np.int64).max), np.full(total, MISSING)
        first_who, last_who = np.full(total, -1), np.full(total, -1)
        base, since_base = np.zeros(total, np.int64), np.zeros(total, np.int64)
        shown = np.zeros(total, bool)
        for number, one in enumerate(self.participants):
            which, start, mine = self.starts(one, told[one.profile])
            fresh = count[which] == 0
            base[which[fresh]] = start[fresh]
            # Sums of times themselves would not fit in 64 bits.
            since_base[which] += start - base[which]
            count[which] += 1
            shown[which] |= mine
            earlier, later = start < first[which], start > last[which]
            first[which[earlier]], first_who[which[earlier]] = start[earlier], number
            last[which[later]], last_who[which[later]] = start[later], number
        return Meeting(
            self.series,
            self._codes // _NUMBERS,
            self._codes % _NUMBERS,
            count,
            first,
            last,
            first_who,
            last_who,
            count * (last - base) - since_base,
            shown,
        )

    def sort(self, labels: Sequence[str]) -> None:
        """Puts participants in the order of ranks, then of their profiles' labels."""
        self.participants.sort(
            key=lambda one: (
                one.rank is None,
                one.rank or 0,
                labels[one.profile],
                one.pid or 0,
                -1 if one.device is None else one.device,
            )
        )


def _latest(which: Array, end: Array, more: Array, more_end: Array) -> tuple[Array, Array]:
    """Per collective of two sets the later of its ends."""
    places = np.union1d(which, more)
    latest = np.full(len(places), MISSING)
    latest[np.searchsorted(places, which)] = end
    at = np.searchsorted(places, more)
    latest[at] = np.maximum(latest[at], more_end)
    return places, latest
