"""Instances of a name over time: its n-th execution, and the time since the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, Columns, among, counts, factorize, sums


@dataclass(frozen=True)
class Events(Columns):
    """Kernels or ranges of a whole profile: `name` numbers `names`, and `is_held` says which a slice has.

    `start` and `dur` are MISSING where there is no time.
    """

    names: tuple[str, ...]
    name: Array
    pid: Array
    device: Array
    start: Array
    dur: Array
    is_held: Array

    def named(self, wanted: Sequence[int] | Array) -> Self:
        """Return those with a time and one of these names, which are in order."""
        timed = (self.start != MISSING) & (self.dur != MISSING)
        return self.take(timed & among(self.name, np.array(wanted, np.int64)))

    @property
    def longest(self) -> Array:
        """Return the name whose events take most time together, of those with several where there are."""
        count, timed = len(self.names), self.take(self.dur != MISSING)
        spent, size = sums(timed.name, timed.dur, count), counts(timed.name, count)
        return np.lexsort((-np.arange(count), spent, size > 1))[-1:]


@dataclass(frozen=True)
class Instances(Columns):
    """Executions by name, process, device and start; `name` numbers `names`.

    `instance` counts those of one name, process and device from 1. `delta` is the time since the start
    of the one before, MISSING for the first, and `elapsed` since the start of the first.
    """

    names: tuple[str, ...]
    name: Array
    rank: Array
    pid: Array
    device: Array
    instance: Array
    start: Array
    dur: Array
    delta: Array
    elapsed: Array


def instances(events: Events, ranks: Mapping[int, int]) -> Instances:
    """Return the instances in the slice of events with a time, numbered in the whole profile."""
    shown, (places,) = factorize(events.name)
    group, (name, pid, device) = factorize(shown, events.pid, events.device)
    order = np.lexsort((events.start, group))
    group, start = group[order], events.start[order]
    size = counts(group, len(name))
    first = np.repeat(np.cumsum(size) - size, size)
    instance = np.arange(len(group)) - first + 1
    rank = np.array([ranks.get(each, MISSING) for each in pid.tolist()], np.int64)
    return Instances(
        tuple(events.names[i] for i in places.tolist()),
        name[group],
        rank[group],
        pid[group],
        device[group],
        instance,
        start,
        events.dur[order],
        np.where(instance == 1, MISSING, np.diff(start, prepend=start[:1])),
        start - start[first],
    ).take(events.is_held[order])


def merged(parts: Sequence[Instances]) -> Instances:
    """Return the instances of several profiles, one profile's after the other's, with names in order."""
    names = sorted({name for part in parts for name in part.names})
    number = {name: place for place, name in enumerate(names)}
    own = [np.array([number[name] for name in part.names], np.int64)[part.name] for part in parts]
    rest = ([getattr(part, each.name) for part in parts] for each in fields(Instances)[2:])
    return Instances(tuple(names), np.concatenate(own), *map(np.concatenate, rest))
