"""Half-open intervals [start, end) of int64 nanoseconds: unions, measures, gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Union:
    """Disjoint, sorted, non-empty intervals."""

    starts: Array
    ends: Array

    @property
    def measure(self) -> int:
        """The time covered."""
        return int((self.ends - self.starts).sum())

    def covered(self, low: Array, high: Array) -> Array:
        """Per interval [low, high): how much of it the union covers. An empty interval covers 0."""
        if not len(self.starts):
            return np.zeros(len(low), np.int64)
        return np.where(high > low, self._until(high) - self._until(low), 0)

    def _until(self, moments: Array) -> Array:
        """How much of the union lies before each moment."""
        before = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        index = np.searchsorted(self.starts, moments, side="right")
        last = np.maximum(index - 1, 0)
        beyond = np.where(index > 0, np.maximum(self.ends[last] - moments, 0), 0)
        return before[index] - beyond

    def gaps(self, low: int, high: int) -> tuple[Array, Array]:
        """The maximal intervals of [low, high) outside the union: starts and ends."""
        edges_low = np.concatenate(([low], np.clip(self.ends, low, high)))
        edges_high = np.concatenate((np.clip(self.starts, low, high), [high]))
        keep = edges_high > edges_low
        return edges_low[keep], edges_high[keep]


def union(starts: Array, ends: Array) -> Union:
    """The union of intervals in any order; those without length (or less) add nothing."""
    keep = ends > starts
    if not keep.all():
        starts, ends = starts[keep], ends[keep]
    if len(starts) == 0:
        return Union(np.empty(0, np.int64), np.empty(0, np.int64))
    if len(starts) > 1 and (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    fresh = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((np.flatnonzero(fresh)[1:] - 1, [len(starts) - 1]))
    return Union(starts[fresh], reach[last])
