"""One clock for the profiles of a run: times of day, refined by collectives that end together.

Definitions, with a worked example: docs/definitions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray
Ends = Callable[[int], tuple[Array, Array]]
"""Of the profile of a number: its synchronising collectives by number, and when they ended."""

# Of fewer differences nobody can say how much they scatter, and of fewer yet no line is drawn.
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
    """How a profile's times become the run's: t + shift, less a drift of `slope` ns per ns from `origin`.

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
    """Return per profile its clock.

    None for one that neither time of day nor a collective ties to the others.

    `utc` are the times of day of the profiles' zeros, `collectives` how many there are in the run. The
    reference is the first profile whose time of day is known, else the first.
    """
    found: list[ClockOffset | None] = [None] * len(utc)
    if not utc:
        return found
    reference = next((i for i, zero in enumerate(utc) if zero is not None), 0)
    common = _Common(collectives)
    found[reference] = ClockOffset(0, 0 if utc[reference] is not None else None, 0, 0.0)
    common.add(found[reference], *ends(reference))
    rest = [i for i in range(len(utc)) if i != reference]
    while rest:
        tied = [i for i in rest if _tie(found, i, utc, reference, common, ends)]
        if not tied:
            by_day = next((i for i in rest if None not in (utc[i], utc[reference])), None)
            if by_day is None:
                break
            found[by_day] = ClockOffset(_by_day(utc, by_day, reference) or 0)
            common.add(found[by_day], *ends(by_day))
            tied = [by_day]
        rest = [i for i in rest if i not in set(tied)]
    return found


class _Common:
    """When the collectives of the run ended, by the clocks that are known so far."""

    def __init__(self, count: int) -> None:
        self.end = np.full(count, MISSING)
        self.uncertainty = np.zeros(count, np.int64)

    def add(self, clock: ClockOffset | None, which: Array, ends: Array) -> None:
        assert clock is not None
        fresh = self.end[which] == MISSING
        self.end[which[fresh]] = clock.of(ends[fresh])
        uncertainty = clock.uncertainty
        self.uncertainty[which[fresh]] = MISSING if uncertainty is None else uncertainty


def _by_day(utc: Sequence[int | None], one: int, other: int) -> int | None:
    a, b = utc[one], utc[other]
    return None if a is None or b is None else a - b


def _tie(
    found: list[ClockOffset | None],
    place: int,
    utc: Sequence[int | None],
    reference: int,
    common: _Common,
    ends: Ends,
) -> bool:
    """Return whether the profile shares a collective with those whose clocks are known.

    Then its clock is.
    """
    which, mine = ends(place)
    shared = common.end[which] != MISSING
    if not shared.any():
        return False
    clock = _fitted(
        mine[shared],
        common.end[which[shared]],
        _by_day(utc, place, reference),
        common.uncertainty[which[shared]],
    )
    found[place] = clock
    common.add(clock, which, mine)
    return True


def _fitted(mine: Array, theirs: Array, by_day: int | None, theirs_off: Array) -> ClockOffset:
    """Return the clock that lays the ends `mine` on `theirs`, which are uncertain by `theirs_off`."""
    start = by_day if by_day is not None else int(theirs[0] - mine[0])
    apart = mine + start - theirs
    slope, origin = _line(mine, apart)
    left = apart - np.rint(slope * (mine - origin)).astype(np.int64)
    offset = _median(left)
    uncertainty = None
    if len(left) >= _FEWEST and int(theirs_off.min()) != MISSING:
        uncertainty = _scatter(left) + int(theirs_off.max())
    return ClockOffset(
        start - offset,
        offset if by_day is not None else None,
        uncertainty,
        slope * 1e6 if len(left) >= _FEWEST_FOR_A_LINE else None,
        slope,
        origin,
    )


def _line(times: Array, values: Array) -> tuple[float, int]:
    """Return slope and origin of the resistant line through the medians of the outer thirds (Tukey).

    No slope where it does not stand out of the scatter around it.
    """
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


def _median(values: Array) -> int:
    ordered = np.sort(values)
    low, high = int(ordered[(len(ordered) - 1) // 2]), int(ordered[len(ordered) // 2])
    return (low + high + 1) // 2


def _scatter(values: Array) -> int:
    low, high = np.percentile(values - values[0], (25, 75))
    return int(np.ceil((high - low) / 2))
