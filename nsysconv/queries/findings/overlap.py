"""What findings share: time that several of them explain is one time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from nsysconv.queries.findings.contract import AROUND, SAVING, Found, words
from nsysconv.timeline.intervals import Union, measure_of_all

_MOST_PCT = 80

Pair = tuple[str, str]
"""Two rules, in the order of their names."""


@dataclass(frozen=True)
class Overlap:
    """The time that two findings of one device share, and the time of all savings together."""

    shared_ns: Mapping[Pair, int] = field(default_factory=dict)
    savings_ns: int = 0


def overlap(found: Mapping[str, Found]) -> Overlap:
    """Return what findings of one device share. Those without a place on it share nothing."""
    when = {name: each.when() for name, each in found.items() if each.when and each.time_ns}
    shared = {
        (one, other): time
        for one, other in combinations(sorted(when.keys() - AROUND), 2)
        if words()[one].kind == words()[other].kind and (time := _shared(when[one], when[other]))
    }
    savings = [each for name, each in when.items() if words()[name].kind == SAVING]
    return Overlap(shared, measure_of_all(savings))


def _shared(one: Union, other: Union) -> int:
    few, many = sorted((one, other), key=lambda each: len(each.starts))
    return int(many.covered(few.starts, few.ends).sum())


@dataclass(frozen=True)
class Place:
    """Where a finding belongs: the one that has the same time and its cause, or that it is part of."""

    same_as: str | None = None
    part_of: str | None = None


def places(found: Mapping[str, Found], shared_ns: Callable[[str, str], int]) -> Mapping[str, Place]:
    """Return where each finding belongs.

    Findings are the same if they share more than 80 % of the larger one's time: the one that names what
    to change represents them, of several the largest. A finding is part of another one if it shares
    more than 80 % of its own time with it.
    """

    def is_most(of: str, other: str) -> bool:
        return 100 * shared_ns(of, other) > _MOST_PCT * found[of].time_ns

    groups: list[list[str]] = []
    for name in sorted(found, key=lambda name: (-found[name].time_ns, name)):
        same = next((g for g in groups if any(is_most(other, name) for other in g)), None)
        if same is None:
            groups.append([name])
        else:
            same.append(name)
    result: dict[str, Place] = {}
    leaders = [max(group, key=lambda name: found[name].names) for group in groups]
    for group, leader in zip(groups, leaders, strict=True):
        larger = (each for each in leaders if found[each].time_ns > found[leader].time_ns)
        holder = next((each for each in larger if is_most(leader, each)), None)
        result |= {name: Place(same_as=leader) for name in group}
        result[leader] = Place(part_of=holder)
    return result
