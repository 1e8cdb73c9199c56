"""Collectives of a run: who is late into them, and how long the others wait; and each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import (
    DEVICE,
    DIMENSIONS,
    PROCESS_RANK,
    PROFILE,
    count_column,
    dimensions_by_process,
    duration_column,
    key_column,
    sum_column,
    values_by_column,
)
from nsysconv.queries.contract import Array, OverRanks, Query, Request, Result
from nsysconv.queries.cycles import Cycles, cycles_of
from nsysconv.queries.kernel_categories import RULES
from nsysconv.report import MISSING, Column, ProfileRef, Unit
from nsysconv.timeline.arrays import percent, sums
from nsysconv.timeline.clock_offsets import ClockOffset, time_of_day
from nsysconv.timeline.collective_groups import CollectiveGrouper, CollectiveGroups
from nsysconv.timeline.collectives import (
    BY_ORDER,
    MPI,
    CollectiveCalls,
    collective_calls,
    foreign_communicators,
    sends_and_receives,
)
from nsysconv.timeline.steps import Steps, steps, uncut_by_slice
from nsysconv.timeline.timeline import Timeline

COLUMNS = (
    PROFILE,
    PROCESS_RANK,
    Column("pid", Unit.ID, "The process.", key=True, brief=False),
    DEVICE,
    DIMENSIONS,
    count_column(
        "collective_count", "Number of collectives that the rank and another rank took part in."
    ),
    count_column(
        "last_count",
        "Number of these in which the rank arrived last (ties go to the lowest rank).",
        better="less",
    ),
    Column(
        "last_pct",
        Unit.PCT,
        "Share of its collectives in which the rank arrived last.",
        better="less",
    ),
    sum_column(
        "late_sum_ns",
        "Total delay of its arrivals behind the first rank.",
        "collective_count",
    ),
    duration_column("late_avg_ns", "Mean delay of its arrivals.", real=True),
    duration_column("late_med_ns", "Median delay of its arrivals.", real=True),
    duration_column("late_max_ns", "Maximum delay of its arrivals."),
    Column(
        "wait_sum_ns",
        Unit.NS,
        "Total time it waited for the last rank to arrive.",
        counted_by="collective_count",
    ),
    duration_column(
        "caused_wait_ns",
        "Total time all other ranks waited in collectives in which this rank arrived last. Over "
        "all ranks it equals their total waiting time.",
        adds=True,
    ),
    Column(
        "worst_step_count",
        Unit.COUNT,
        "Number of steps in which the others waited longest for this rank; null: no steps.",
        better="less",
        optional=True,
    ),
    Column(
        "worst_step_pct",
        Unit.PCT,
        "Share of the steps with waiting in which the others waited longest for this rank. A "
        "high share means a systematic cause.",
        better="less",
        optional=True,
    ),
    Column(
        "clock_offset_ns",
        Unit.NS,
        "Clock offset from the first rank, estimated from the ends of collectives and subtracted "
        "before comparing; null: one of the two has no time of day.",
        brief=False,
    ),
    Column(
        "clock_uncertainty_ns",
        Unit.NS,
        "Uncertainty of the clock offset: half the interquartile range of the remaining "
        "differences between ends of collectives; null: fewer than four ends.",
    ),
    Column(
        "clock_drift_ppm",
        Unit.REAL,
        "Clock drift from the first rank in parts per million, subtracted as well; 0: not "
        "detectable; null: fewer than twelve ends.",
        brief=False,
    ),
    count_column(
        "alone_count",
        "Number of collectives of this rank that no other rank recorded.",
        brief=False,
    ),
)

Unmatched = tuple[int, int]
"""Collectives that cannot be matched by number: those of MPI, and kernels that send and receive."""


@dataclass(frozen=True)
class Partial:
    """The collectives of one profile, and by process its steps and its place in the parallel program.

    `utc` is the time of day of its zero.
    """

    utc: int | None
    arrived: list[CollectiveCalls]
    unmatched: Unmatched
    steps: Mapping[int, Steps]
    dimensions: Mapping[int, str | None]


def partial(timeline: Timeline, request: Request) -> Partial:
    """Return the collectives of a profile, and what cannot be matched."""
    rules = request.options["rules"]
    return Partial(
        time_of_day(timeline),
        collective_calls(timeline, rules),
        (foreign_communicators(timeline), sends_and_receives(timeline, rules)),
        {mine.pid: mine for mine in uncut_by_slice(timeline, steps(timeline, request.steps))},
        dimensions_by_process(timeline),
    )


class _Collectives:
    """Gathers the collectives of the profiles of a run."""

    def __init__(self, request: Request) -> None:
        """Start without a profile."""
        self.limit = request.limit
        self.meetings = CollectiveGrouper()
        self._profiles: list[ProfileRef] = []
        self._partials: list[tuple[Mapping[int, Steps], Mapping[int, str | None]]] = []
        self._unmatched = (0, 0)

    def add(self, ref: ProfileRef, partial: Partial) -> None:
        """Add one profile's collectives."""
        calls, kernels = partial.unmatched
        self._profiles.append(ref)
        self._partials.append((partial.steps, partial.dimensions))
        self.meetings.add(partial.utc, partial.arrived)
        self._unmatched = self._unmatched[0] + calls, self._unmatched[1] + kernels

    @cached_property
    def cycles(self) -> Cycles:
        """Return the cycles of the profiles, in the order in which these were added."""
        return cycles_of(self._profiles)

    def matched(self) -> tuple[CollectiveGroups, list[ClockOffset | None], tuple[Note, ...]]:
        """Return all collectives, the profiles' clocks, and notes on how both were found."""
        self.meetings.part([*self.cycles.numbers.values()])
        self.meetings.sort([*self.cycles.numbers])
        clocks = self.meetings.clocks()
        matched = self.meetings.met(clocks)
        return matched, clocks, tuple(_notes(self.meetings, matched, clocks, self._unmatched))

    def processes(self) -> Iterator[tuple[dict[str, Any], list[int]]]:
        """Yield the processes, each with its devices' own keys and its participants' numbers."""
        labels = [*self.cycles.numbers]
        members = [
            {"profile": labels[member.profile], "rank": member.rank, "pid": member.pid,
             "device_id": member.device, "number": number,
             "dimensions": self._partials[member.profile][1].get(member.pid or MISSING)}
            for number, member in enumerate(self.meetings.participants)
        ]  # fmt: skip
        for row, *further in self.cycles.by_process(members, "rank", "pid", "device_id"):
            yield row, [each.pop("number") for each in (row, *further)]


class _Stragglers(_Collectives):
    def result(self) -> Result:
        """Return one row per process and device; the one that came latest in all first."""
        matched, clocks, notes = self.matched()
        rows, worst = [], self._worst_steps(matched)
        for row, numbers in self.processes():
            of_cycles = [self.meetings.participants[number] for number in numbers]
            known = [(each, clock) for each in of_cycles if (clock := clocks[each.profile])]
            if known:
                found = [self.meetings.times(each, clock) for each, clock in known]
                collectives, start, _, shown = map(np.concatenate, zip(*found, strict=True))
                alone = shown & (matched.count[collectives] < 2)
                clock = known[0][1]
                row |= {
                    "alone_count": int(np.count_nonzero(alone)),
                    **_lateness(matched, numbers, collectives[shown], start[shown]),
                    **worst.get(numbers[0], {}),
                    "clock_offset_ns": clock.offset,
                    "clock_uncertainty_ns": clock.uncertainty,
                    "clock_drift_ppm": clock.drift_ppm,
                }
            rows.append(row)
        rows.sort(key=lambda row: -(row.get("late_sum_ns") or 0))
        return Result(values_by_column(rows, COLUMNS), notes=notes)

    def _worst_steps(self, matched: CollectiveGroups) -> dict[int, dict[str, Any]]:
        # By a participant's number in how many steps the others waited longest for it. Ranks go through
        # their steps together, so the n-th step of each is one.
        caused: dict[int, Array] = {}
        for number, one in enumerate(self.meetings.participants):
            mine = self._partials[one.profile][0].get(one.pid or MISSING)
            if mine is None:
                continue
            which, start, _, shown, _ = self.meetings.rows(one)
            place = np.searchsorted(mine.start, start, side="right") - 1
            last = (matched.last_who[which] == number) & (matched.count[which] > 1) & (shown != 0)
            last &= (place >= 0) & (start < mine.end[place])
            caused[number] = sums(place[last], matched.wait_sum[which[last]], len(mine))
        length = max(map(len, caused.values()), default=0)
        by_step = np.zeros((len(caused), length), np.int64)
        for row, waits in zip(by_step, caused.values(), strict=True):
            row[: len(waits)] = waits
        waited = by_step.max(axis=0, initial=0) > 0
        worst = by_step.argmax(axis=0)[waited] if len(caused) else np.empty(0, np.int64)
        times = np.bincount(worst, minlength=len(caused)).tolist()
        return {
            number: {
                "worst_step_count": count,
                "worst_step_pct": float(percent(count, int(waited.sum()) or 1)),
            }
            for number, count in zip(caused, times, strict=True)
        }


def _notes(
    meetings: CollectiveGrouper,
    matched: CollectiveGroups,
    clocks: list[ClockOffset | None],
    unmatched: Unmatched,
) -> Iterator[Note]:
    calls, kernels = unmatched
    if calls:
        text = (
            "MPI collectives on communicators other than the first of their process were left "
            "out: it is unknown which ranks share one"
        )
        yield Note("collectives-left-out", Severity.APPROXIMATED, text, calls)
    if kernels:
        text = (
            "communication kernels that send and receive (as in all-to-all) were left out: it is unknown "
            "which of them are one collective"
        )
        yield Note("collectives-left-out", Severity.APPROXIMATED, text, kernels)
    yield from order_notes(meetings)
    most = np.zeros(len(matched.series), np.int64)
    np.maximum.at(most, matched.series_of, matched.count)
    fewer = int(np.count_nonzero(matched.shown & (matched.count < most[matched.series_of])))
    if fewer:
        text = "collectives that fewer ranks recorded than others of their kind"
        yield Note("collectives-partial", Severity.INFO, text, fewer)
    cut = int(np.count_nonzero(matched.shown & matched.at_edge & (matched.count > 1)))
    if cut:
        text = (
            "collectives that ranks entered while others were not recorded; waits count only in the time "
            "that all recordings cover"
        )
        yield Note("waits-at-edges", Severity.INFO, text, cut)
    profiles = meetings.profiles
    untied = sum(clocks[i] is None for i in profiles)
    if untied:
        text = "profiles whose clock cannot be aligned with the others: their delay is unknown"
        yield Note("clock-unknown", Severity.APPROXIMATED, text, untied)
    unchecked = sum(
        1 for i in profiles if (clock := clocks[i]) is not None and clock.uncertainty is None
    )
    if unchecked:
        text = (
            "profiles whose clock is aligned only by the time of day, or by fewer than four "
            "collectives: its accuracy is unknown"
        )
        yield Note("clock-unchecked", Severity.APPROXIMATED, text, unchecked)


def order_notes(meetings: CollectiveGrouper) -> Iterator[Note]:
    """Yield the note on collectives that are matched by their order on each rank, if any are."""
    methods = {series.how for series in meetings.series}
    if methods & {BY_ORDER, MPI} and len(meetings.participants) > 1:
        text = (
            "collectives are matched by their order on each rank because their numbers are not recorded; "
            "if groups of ranks communicate separately, and groups are not recorded either, some matches "
            "may be wrong"
        )
        yield Note("collectives-by-order", Severity.APPROXIMATED, text)


def _lateness(
    matched: CollectiveGroups, numbers: list[int], collectives: Array, start: Array
) -> dict[str, Any]:
    together = matched.count[collectives] > 1
    collectives, start = collectives[together], start[together]
    last = np.isin(matched.last_who[collectives], numbers)
    row: dict[str, Any] = {
        "collective_count": len(collectives),
        "last_count": int(np.count_nonzero(last)),
    }
    if not len(collectives):
        return row
    late = start - matched.first[collectives]
    return {
        **row,
        "last_pct": float(percent(row["last_count"], len(collectives))),
        "late_sum_ns": int(late.sum()),
        "late_avg_ns": int(late.sum()) / len(collectives),
        "late_med_ns": float(np.median(late)),
        "late_max_ns": int(late.max()),
        "wait_sum_ns": int((matched.last[collectives] - start).sum()),
        "caused_wait_ns": int(matched.wait_sum[collectives[last]].sum()),
    }


@dataclass(frozen=True)
class Waits:
    """Who waited for whom in a run's collectives: `by_last[i, j]` is how long process j waited where
    process i came last, `most[i]` what all waited for it in one collective, `lasted` how long the
    collectives of all ran (ns). `who` are the processes, with the columns of their rows.
    """

    who: list[dict[str, Any]]
    by_last: Array
    most: Array
    lasted: int


class CollectiveWaits(_Collectives):
    """Gathers who waited for whom."""

    @cached_property
    def _found(self) -> tuple[CollectiveGroups, list[ClockOffset | None], tuple[Note, ...]]:
        return self.matched()

    @cached_property
    def moves(self) -> Mapping[str, Callable[[Array], Array]]:
        """Return, by label of profile, a function that maps its times to the run's clock (`together`)."""
        _, clocks, _ = self._found
        tied = {p: clock for p in self.meetings.profiles if (clock := clocks[p]) is not None}

        def mover(profile: int, clock: ClockOffset) -> Callable[[Array], Array]:
            return lambda times: self.meetings.together(profile, clock.of(times))

        labels = [*self.cycles.numbers]
        return {labels[profile]: mover(profile, clock) for profile, clock in tied.items()}

    @property
    def least_covered(self) -> float:
        """Return the least part of a recording that those of the other ranks cover."""
        _ = self._found
        return self.meetings.least_covered

    def waits(self) -> Waits:
        """Return it for all profiles that were added."""
        matched, clocks, _ = self._found
        found = [*self.processes()]
        who_of = np.zeros(len(self.meetings.participants), np.int64)
        for place, (_, numbers) in enumerate(found):
            who_of[numbers] = place
        count = len(found)
        by_last, most, lasted = np.zeros((count, count), np.int64), np.zeros(count, np.int64), 0
        joint = (matched.count > 1) & matched.shown
        np.maximum.at(most, who_of[matched.last_who[joint]], matched.wait_sum[joint])
        for number, one in enumerate(self.meetings.participants):
            if (clock := clocks[one.profile]) is None:
                continue
            collectives, came, left, shown = self.meetings.times(one, clock)
            lasted += int((left - came)[shown].sum())
            shown &= matched.count[collectives] > 1
            collectives, came = collectives[shown], came[shown]
            last = who_of[matched.last_who[collectives]]
            by_last[:, who_of[number]] += sums(last, matched.last[collectives] - came, count)
        return Waits([row for row, _ in found], by_last, most, lasted)


STRAGGLERS = Query(options=(RULES,), columns=COLUMNS, over_ranks=OverRanks(partial, _Stragglers))

# -- each collective

_ARRIVAL_COLUMNS = (
    key_column("operation", "Operation of the collective, such as allreduce."),
    key_column("group", "Group of ranks; null: not recorded."),
    Column(
        "index",
        Unit.ID,
        "Number of the collective in its group as recorded, else among those of the same "
        "operation on each rank, from 0.",
        key=True,
    ),
    Column(
        "repeat",
        Unit.ID,
        "Number among collectives with the same index, from 0.",
        key=True,
        brief=False,
    ),
    Column(
        "start_ns",
        Unit.NS,
        "Arrival of the first rank, on the clock of the run's reference profile.",
    ),
    duration_column("spread_ns", "Delay of the last rank behind the first."),
    count_column("rank_count", "Number of ranks, or devices of ranks, with a known arrival."),
    Column(
        "first_rank",
        Unit.ID,
        "Rank that arrived first; null: a process without a rank.",
        brief=False,
    ),
    Column("last_rank", Unit.ID, "Rank that arrived last."),
    duration_column(
        "wait_sum_ns", "Total time all other ranks waited for the last one.", adds=True
    ),
)


class _Arrivals(_Collectives):
    def result(self) -> Result:
        """Return one row per collective of several ranks; those first in which others waited longest."""
        matched, _, notes = self.matched()
        ranks = [member.rank for member in self.meetings.participants]
        joint = np.flatnonzero((matched.count > 1) & matched.shown)
        joint = joint[np.lexsort((matched.first[joint], -matched.wait_sum[joint]))]
        shown = joint[: self.limit or None]
        return Result(_arrival_values(matched, shown, ranks), len(joint), notes)


def _arrival_values(
    matched: CollectiveGroups, places: Array, ranks: list[int | None]
) -> dict[str, Any]:
    series = [matched.series[i] for i in matched.series_of[places].tolist()]
    return {
        "operation": [each.operation for each in series],
        "group": [each.group or None for each in series],
        "index": matched.number[places],
        "repeat": [each.repeat for each in series],
        "start_ns": matched.first[places],
        "spread_ns": matched.last[places] - matched.first[places],
        "rank_count": matched.count[places],
        "first_rank": [ranks[i] for i in matched.first_who[places].tolist()],
        "last_rank": [ranks[i] for i in matched.last_who[places].tolist()],
        "wait_sum_ns": matched.wait_sum[places],
    }


COLLECTIVE_ARRIVALS = Query(
    options=(RULES,), columns=_ARRIVAL_COLUMNS, over_ranks=OverRanks(partial, _Arrivals)
)
