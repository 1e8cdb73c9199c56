"""What is usual of values, and which times are far from most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsysconv.timeline.arrays import Array, among, by_group, distinct

APART_NS, APART_SPANS = 1_000_000_000, 100
"""How far from all others, in ns and in multiples of their span, an event is apart."""


def medians(keys: Array, which: Array, values: Array, fewest: int) -> Array:
    """Return, per place, the median of the values with its key, or NaN if fewer than `fewest` have it."""
    wanted = distinct(keys[which])
    members = np.flatnonzero(among(keys, wanted))
    each = by_group(np.searchsorted(wanted, keys[members]), len(wanted), values[members])
    medians = np.array([np.median(v) if len(v) >= fewest else np.nan for v in each])
    result: Array = medians[np.searchsorted(wanted, keys[which])]
    return result


def main_part(
    starts: Sequence[Array], ends: Sequence[Array], low: int, high: int
) -> tuple[int, int]:
    """Return the first and last start of events that are not far from most, all of [low, high]."""
    sample = np.sort(np.concatenate([each[:: max(1, len(each) // 1000)] for each in starts]))
    middle = int(sample[3 * len(sample) // 4] - sample[len(sample) // 4])
    if high - low <= max(APART_NS, APART_SPANS * middle):
        return low, high
    every = np.concatenate(starts)
    order = np.argsort(every, kind="stable")
    every = every[order]
    first, last = len(every) // 4, 3 * len(every) // 4
    gaps = every[1:] - np.maximum.accumulate(np.concatenate(ends)[order])[:-1]
    far = np.flatnonzero(gaps > max(APART_NS, APART_SPANS * int(every[last] - every[first])))
    while True:
        before, after = far[far < first], far[far >= last]
        # The main part reaches to the nearest far gaps. A longer span raises the limit, so this repeats
        # until all remaining gaps exceed it.
        span = int(
            every[after[0] if len(after) else -1] - every[before[-1] + 1 if len(before) else 0]
        )
        limit = max(APART_NS, APART_SPANS * span)
        met = far[gaps[far] > limit]
        if len(met) == len(far):
            return (
                int(every[before[-1] + 1]) if len(before) else low,
                int(every[after[0]]) if len(after) else high,
            )
        far = met
