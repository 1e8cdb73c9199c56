"""One clock for the profiles of a run: times of day, refined by collectives (docs/definitions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array
from nsysconv.timeline.timeline import Timeline

Ends = Callable[[int], tuple[Array, Array]]
"""A profile's synchronizing collectives by number, and when they ended, by the profile's number."""

# With fewer differences than the first number, their scatter is not estimated; with fewer than the
# second, no line is fitted.
_FEWEST, _FEWEST_FOR_A_LINE = 4, 12
# A drift is one where it moves the ends that much further than they scatter around it.
_CLEARLY = 4
_LATEST_UTC_NS = 1 << 62


def time_of_day(timeline: Timeline) -> int | None:
    """Return UTC in ns since 1970 of a profile's zero; None where it is not recorded, or nonsense."""
    zero = timeline.profile.attributes["zero_utc_ns"]
    return int(zero) if zero is not None and 0 <= zero < _LATEST_UTC_NS else None


@dataclass(frozen=True)
class ClockOffset:
    """The map from a profile's times to the run's: t + shift, less `slope` ns per ns from `origin`.

    `offset`: its time of day minus that of the reference; None where one of them has none.
    `uncertainty`: half the distance of the quartiles of what is left, with that of the clocks in between;
    None where fewer than four ends show it. `drift_ppm`: 0 where none shows.
    """

    shift: int
    offset: int | None = None
    uncertainty: int | None = None
    drift_ppm: float | None = None
    slope: float = 0.0
    origin: int = 0

    def of(self, times: Array) -> Array:
        """Return times of the profile on the run's clock."""
        shifted: Array = times + self.shift
        if self.slope:
            shifted -= np.rint(self.slope * (times - self.origin)).astype(np.int64)
        return shifted


def clock_offsets(
    utc: Sequence[int | None], ends: Ends, collectives: int
) -> list[ClockOffset | None]:
    """Return per profile its clock, None: neither time of day nor a collective ties it to the others.

    `utc` are the times of day of the profiles' zeros, `collectives` how many there are in the run. The
    reference is the first profile whose time of day is known, else the first.
    """
    if not utc:
        return []
    reference, zero = next(((i, t) for i, t in enumerate(utc) if t is not None), (0, None))
    by_day = [None if t is None or zero is None else t - zero for t in utc]
    common = _Common(collectives)
    clocks = {reference: ClockOffset(0, by_day[reference], 0, 0.0)}
    common.add(clocks[reference], *ends(reference))
    rest = [i for i in range(len(utc)) if i != reference]
    while rest:
        known = len(clocks)
        for i in rest:
            which, mine = ends(i)
            clock = common.fitted(by_day[i], which, mine)
            if clock is not None:
                clocks[i] = clock
                common.add(clock, which, mine)
        if len(clocks) == known:  # no collective ties any of the rest
            dated = next(((i, t) for i in rest if (t := by_day[i]) is not None), None)
            if dated is None:
                break
            i, shift = dated
            clocks[i] = ClockOffset(shift)
            common.add(clocks[i], *ends(i))
        rest = [i for i in rest if i not in clocks]
    return [clocks.get(i) for i in range(len(utc))]


class _Common:
    # This holds when the collectives of the run ended, by the clocks that are known so far.

    def __init__(self, count: int) -> None:
        self.end = np.full(count, MISSING)
        self.uncertainty = np.zeros(count, np.int64)

    def add(self, clock: ClockOffset, which: Array, ends: Array) -> None:
        fresh = self.end[which] == MISSING
        self.end[which[fresh]] = clock.of(ends[fresh])
        uncertainty = clock.uncertainty
        self.uncertainty[which[fresh]] = MISSING if uncertainty is None else uncertainty

    def fitted(self, by_day: int | None, which: Array, ends: Array) -> ClockOffset | None:
        # Lays the ends of a profile on those known; None: it has none of these collectives.
        shared = self.end[which] != MISSING
        if not shared.any():
            return None
        mine, theirs = ends[shared], self.end[which[shared]]
        start = by_day if by_day is not None else int(theirs[0] - mine[0])
        apart = mine + start - theirs
        slope, origin = _line(mine, apart)
        left = apart - np.rint(slope * (mine - origin)).astype(np.int64)
        offset = middle(left)
        uncertainties, uncertainty = self.uncertainty[which[shared]], None
        if len(left) >= _FEWEST and int(uncertainties.min()) != MISSING:
            uncertainty = _scatter(left) + int(uncertainties.max())
        drift = slope * 1e6 if len(left) >= _FEWEST_FOR_A_LINE else None
        day_offset = None if by_day is None else offset
        return ClockOffset(start - offset, day_offset, uncertainty, drift, slope, origin)


def _line(times: Array, values: Array) -> tuple[float, int]:
    # The result is the slope and the origin of the resistant line through the medians of the outer
    # thirds (Tukey). The slope is 0 if it is not clearly larger than the scatter around it.
    if len(times) < _FEWEST_FOR_A_LINE:
        return 0.0, 0
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    third = len(times) // 3
    origin = int(times[0])
    along = float(np.median(times[-third:] - origin) - np.median(times[:third] - origin))
    if along <= 0:
        return 0.0, 0
    rise = float(np.median(values[-third:] - values[0]) - np.median(values[:third] - values[0]))
    slope = rise / along
    rest = values - np.rint(slope * (times - origin)).astype(np.int64)
    moved = abs(slope) * float(times[-1] - origin)
    return (slope, origin) if moved > _CLEARLY * max(_scatter(rest), 1) else (0.0, 0)


def middle(values: Array) -> int:
    """Return the median of whole numbers; between two of them a half is rounded up."""
    ordered = np.sort(values)
    low, high = int(ordered[(len(ordered) - 1) // 2]), int(ordered[len(ordered) // 2])
    return (low + high + 1) // 2


def _scatter(values: Array) -> int:
    low, high = np.percentile(values - values[0], (25, 75))
    return int(np.ceil((high - low) / 2))
