"""Who is late into collectives, and how long the others wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import DEVICE, PROFILE
from nsysconv.queries.contract import Aggregator, Array, Query, Request, Result, aggregate_one
from nsysconv.queries.kernel_categories import RULES
from nsysconv.report import Column, Picture, ProfileRef
from nsysconv.timeline.arrays import percent
from nsysconv.timeline.clock_offsets import ClockOffset, time_of_day
from nsysconv.timeline.collectives import (
    BY_ORDER,
    MPI,
    CollectiveCalls,
    CollectiveGrouper,
    CollectiveGroups,
    collective_calls,
    foreign_communicators,
    sends_and_receives,
)
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

ANY_OF = {Fact.KERNELS, Fact.MPI_CALLS}
USES = {*ANY_OF, Fact.COLLECTIVES, Fact.RANKS, Fact.UTC}
MEMBER = Column("rank", Unit.ID, "Rank of the process; null: none known.", key=True)
COLUMNS = (
    PROFILE,
    MEMBER,
    Column("pid", Unit.ID, "The process.", key=True, brief=False),
    DEVICE,
    Column(
        "collective_count", Unit.COUNT, "Collectives that this rank and another one took part in."
    ),
    Column(
        "last_count",
        Unit.COUNT,
        "Of these, how often it came last (of several at one time the lowest rank did).",
        better="less",
    ),
    Column("last_pct", Unit.PCT, "That as a share of its collectives.", better="less"),
    Column(
        "late_sum_ns",
        Unit.NS,
        "How much later than the first rank it came, added up.",
        better="less",
        counted_by="collective_count",
    ),
    Column("late_avg_ns", Unit.NS, "Mean of that.", better="less", real=True),
    Column("late_med_ns", Unit.NS, "Median of that.", better="less", real=True),
    Column("late_max_ns", Unit.NS, "Most of that.", better="less"),
    Column(
        "wait_sum_ns",
        Unit.NS,
        "How long it waited for the last rank to come, added up.",
        counted_by="collective_count",
    ),
    Column(
        "caused_wait_ns",
        Unit.NS,
        "How long all others waited where it came last, added up over them. Over all ranks it is as much "
        "as they waited.",
        better="less",
        adds=True,
    ),
    Column(
        "clock_offset_ns",
        Unit.NS,
        "Its time of day less that of the first rank, as the ends of collectives tell it, taken off "
        "before anything is compared; null: one of them has no time of day.",
        brief=False,
    ),
    Column(
        "clock_uncertainty_ns",
        Unit.NS,
        "How exact its times are against the others': half the distance of the quartiles of what the "
        "ends of collectives still differ by; null: fewer than four tell it.",
    ),
    Column(
        "clock_drift_ppm",
        Unit.REAL,
        "How fast its clock runs away from the first rank's, in millionths, which is taken off as well; "
        "0: not enough to be seen; null: fewer than twelve ends.",
        brief=False,
    ),
    Column(
        "alone_count",
        Unit.COUNT,
        "Collectives of this rank that no other recorded.",
        brief=False,
    ),
)

LeftOut = tuple[int, int]
"""Of what cannot be matched: collectives of MPI, and kernels that send and receive."""
Part = tuple[int | None, list[CollectiveCalls], LeftOut]


def partial(timeline: Timeline, request: Request) -> Part:
    """What one profile tells: its zero's time of day, its collectives, and what cannot be matched."""
    return (
        time_of_day(timeline),
        collective_calls(timeline, request.options["rules"]),
        (
            foreign_communicators(timeline),
            sends_and_receives(timeline, request.options["rules"]),
        ),
    )


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per process and device that took part in collectives."""
    return aggregate_one(aggregator(request), timeline, partial(timeline, request))


def aggregator(request: Request) -> Aggregator:
    """The same of all profiles of a run; who came latest in all first."""
    return _Late()


STRAGGLERS = Query(
    title="Who is late into collectives",
    any_of=ANY_OF,
    uses=USES,
    options=(RULES,),
    columns=COLUMNS,
    picture=Picture("bars", x=("rank", "device_id"), values=("late_sum_ns", "wait_sum_ns")),
    compute=compute,
    partial=partial,
    aggregator=aggregator,
)


class Gathered:
    """The collectives of the profiles so far."""

    def __init__(self) -> None:
        self.meetings = CollectiveGrouper()
        self.labels: list[str] = []
        self._left_out = (0, 0)

    def add(self, ref: ProfileRef, part: Part) -> None:
        """Takes in one profile's."""
        utc, found, left_out = part
        self.labels.append(ref.label)
        self.meetings.add(utc, found)
        calls, kernels = self._left_out
        self._left_out = calls + left_out[0], kernels + left_out[1]

    def met(self) -> tuple[CollectiveGroups, list[ClockOffset | None], tuple[Note, ...]]:
        """All collectives, the profiles' clocks, and what has to be said of how both were found."""
        self.meetings.sort(self.labels)
        clocks = self.meetings.clocks()
        met = self.meetings.met(clocks)
        return met, clocks, tuple(_doubts(self.meetings, met, clocks, self._left_out))


class _Late(Gathered):
    def result(self) -> Result:
        met, clocks, notes = self.met()
        rows = []
        for number, one in enumerate(self.meetings.participants):
            clock = clocks[one.profile]
            which, start, shown = self.meetings.starts(one, clock)
            row: dict[str, Any] = {
                "profile": self.labels[one.profile],
                "rank": one.rank,
                "pid": one.pid,
                "device_id": one.device,
            }
            if clock is not None:
                row["alone_count"] = int(np.count_nonzero(shown & (met.count[which] < 2)))
                row |= _lateness(met, number, which[shown], start[shown])
                row |= _clock(clock)
            rows.append(row)
        rows.sort(key=lambda row: -(row.get("late_sum_ns") or 0))
        data = {column.name: [row.get(column.name) for row in rows] for column in COLUMNS}
        return Result(data, notes=notes)


def _doubts(
    meetings: CollectiveGrouper,
    met: CollectiveGroups,
    told: list[ClockOffset | None],
    left_out: LeftOut,
) -> Iterator[Note]:
    calls, kernels = left_out
    if calls:
        text = (
            "collectives of MPI on other communicators than the first of their process; they are left "
            "out, for nothing tells which ranks share one"
        )
        yield Note("collectives-left-out", Severity.APPROXIMATED, text, calls)
    if kernels:
        text = (
            "communication kernels that send and receive; they are left out, for nothing tells which of "
            "them are one collective (all-to-all is made of these)"
        )
        yield Note("collectives-left-out", Severity.APPROXIMATED, text, kernels)
    how = {series.how for series in met.series}
    if how & {BY_ORDER, MPI} and len(meetings.participants) > 1:
        text = (
            "collectives are matched by their order on each rank, for their groups and numbers are not "
            "recorded; where groups of ranks communicate among themselves, some may be matched wrongly"
        )
        yield Note("collectives-by-order", Severity.APPROXIMATED, text)
    most = np.zeros(len(met.series), np.int64)
    np.maximum.at(most, met.series_of, met.count)
    partial = int(np.count_nonzero(met.shown & (met.count < most[met.series_of])))
    if partial:
        text = "collectives that fewer ranks recorded than others of their kind"
        yield Note("collectives-partial", Severity.INFO, text, partial)
    profiles = {one.profile for one in meetings.participants}
    untied = sum(told[i] is None for i in profiles)
    if untied:
        text = "profiles whose clock nothing ties to the others': what they came late is not known"
        yield Note("clock-unknown", Severity.APPROXIMATED, text, untied)
    unchecked = sum(
        1 for i in profiles if (clock := told[i]) is not None and clock.uncertainty is None
    )
    if unchecked:
        text = (
            "profiles whose clock is tied to the others' by the time of day, or by fewer than four "
            "collectives: how exact it is nobody knows"
        )
        yield Note("clock-unchecked", Severity.APPROXIMATED, text, unchecked)


def _lateness(met: CollectiveGroups, number: int, which: Array, start: Array) -> dict[str, Any]:
    together = met.count[which] > 1
    which, start = which[together], start[together]
    last = met.last_who[which] == number
    row: dict[str, Any] = {
        "collective_count": len(which),
        "last_count": int(np.count_nonzero(last)),
    }
    if not len(which):
        return row
    late = start - met.first[which]
    return {
        **row,
        "last_pct": float(percent(row["last_count"], len(which))),
        "late_sum_ns": int(late.sum()),
        "late_avg_ns": int(late.sum()) / len(which),
        "late_med_ns": float(np.median(late)),
        "late_max_ns": int(late.max()),
        "wait_sum_ns": int((met.last[which] - start).sum()),
        "caused_wait_ns": int(met.wait_sum[which[last]].sum()),
    }


def _clock(clock: ClockOffset) -> dict[str, Any]:
    return {
        "clock_offset_ns": clock.offset,
        "clock_uncertainty_ns": clock.uncertainty,
        "clock_drift_ppm": clock.drift_ppm,
    }
