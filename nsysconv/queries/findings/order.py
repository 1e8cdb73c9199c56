"""The order of findings, and which of them have their time in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from nsysconv.queries.findings.contract import (
    AROUND,
    CAUSES,
    COST,
    EXPOSED,
    RISK,
    SAVING,
    SMALL_PCT,
    Found,
    words,
)
from nsysconv.queries.findings.overlap import Overlap, Place, places

_FAILED = "failed_calls"
_LARGE_PCT = 10.0
# The share of a recording below which the work itself is next to nothing.
_SHORT_WINDOW_PCT = 2


@dataclass(frozen=True)
class Candidate:
    """What a rule measured on a device of a profile, with the times of its account and window, in ns."""

    label: str
    found: Found
    span_ns: int
    window_ns: int
    frameworks: tuple[str, ...]
    overlap: Overlap | None = None

    @property
    def share_pct(self) -> float | None:
        """Return its time as a share of the time of the account; None for totals, which have none."""
        return 100 * self.found.time_ns / self.span_ns if self.span_ns else None


def whose_time(best: Mapping[str, Candidate]) -> Mapping[str, Place]:
    """Return where each finding belongs, by the time that two share on the device of the larger one."""

    def shared_ns(one: str, other: str) -> int:
        if EXPOSED in (one, other) and (one in CAUSES or other in CAUSES):
            return min(best[one].found.time_ns, best[other].found.time_ns)
        shared = max((best[one], best[other]), key=lambda each: each.found.time_ns).overlap
        return shared.shared_ns.get((min(one, other), max(one, other)), 0) if shared else 0

    return places({name: each.found for name, each in best.items()}, shared_ns)


def together(best: Mapping[str, Candidate]) -> float:
    """Return what all savings together are at most, in per cent.

    It is that of the device where they are most, and in addition what only ranks together show: the
    same ranks and collectives, so the largest, and no more than exposed communication where there is any.
    """
    savings = {name: each for name, each in best.items() if words()[name].kind == SAVING}
    of_device, of_ranks = [0.0], [0.0]
    for each in savings.values():
        if each.overlap and each.span_ns:
            of_device.append(100 * each.overlap.savings_ns / each.span_ns)
        elif EXPOSED not in savings:
            of_ranks.append(each.share_pct or 0.0)
    return min(max(of_device) + max(of_ranks), 100.0)


def ranked(best: Mapping[str, Candidate], where: Mapping[str, Place]) -> list[str]:
    """Return the findings in the order of the report.

    Calls that failed come before all. Then savings, if one of them is a large part of its window, else
    costs; of each kind the largest. Risks follow, then what is around the work, unless the work is
    next to nothing of the recording. Findings below 1 % come last. One that has the time of another
    follows it.
    """
    number_of = {name: number for number, name in enumerate(words())}
    works = any(e.window_ns * 100 >= e.span_ns * _SHORT_WINDOW_PCT for e in best.values())
    around = {name for name in AROUND if name in best and works}
    savings = [
        each for name, each in best.items()
        if words()[name].kind == SAVING and name not in around
    ]  # fmt: skip
    is_large = any(e.found.time_ns * 100 >= e.window_ns * _LARGE_PCT for e in savings)
    first = SAVING if is_large else COST

    share = {name: each.share_pct or 0.0 for name, each in best.items()}
    for name, place in where.items():
        if place.same_as:
            share[place.same_as] = max(share[place.same_as], share[name])
    for cause in share.keys() & set(CAUSES):
        if 2 * share[cause] >= share.get(EXPOSED, inf):
            share[cause] = max(share[cause], share[EXPOSED])  # it comes before what it explains

    def key(name: str) -> tuple[Any, ...]:
        kind, own = words()[name].kind, best[name].share_pct
        is_small = kind != RISK and own is not None and own < SMALL_PCT
        return (
            name != _FAILED,
            is_small,
            name in around,
            kind == RISK,
            kind != first,
            -share[name],
            name not in CAUSES,
            number_of[name],
        )

    first_of = sorted((name for name in best if not where[name].same_as), key=key)
    others = sorted((name for name in best if where[name].same_as), key=key)
    return [
        name
        for first in first_of
        for name in (first, *(other for other in others if where[other].same_as == first))
    ]
