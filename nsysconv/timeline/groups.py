"""Counts and exact sums by group number, block by block: what they need in between fits in the cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

Array = np.ndarray

_BLOCK = 1 << 17
# A double counts integers exactly up to 2^53, and bincount is the fastest way to add.
_EXACT = (1 << 53) // _BLOCK


def blocks(length: int) -> Iterator[slice]:
    """Slices that cover 0..length-1 in order, each small enough for the cache."""
    for low in range(0, length, _BLOCK):
        yield slice(low, min(low + _BLOCK, length))


def indices(mask: Array) -> Array:
    """Where a mask of less than 2^31 places is true, as int32."""
    result = np.empty(np.count_nonzero(mask), np.int32)
    done = 0
    for block in blocks(len(mask)):
        found = np.flatnonzero(mask[block])
        result[done : done + len(found)] = found + block.start
        done += len(found)
    return result


def counts(groups: Array, count: int) -> Array:
    """How often each group number 0..count-1 occurs, as int64."""
    result = np.zeros(count, np.int64)
    for block in blocks(len(groups)):
        result += np.bincount(groups[block], minlength=count)
    return result


def sums(groups: Array, values: Array, count: int) -> Array:
    """Exact int64 sums of integer `values` per group number 0..count-1."""
    result = np.zeros(count, np.int64)
    for block in blocks(len(values)):
        group, value = groups[block], values[block]
        least, most = int(value.min()), int(value.max())
        if least == most == 0:
            continue
        if least >= 0 and most < _EXACT:
            result += np.bincount(group, value, count).astype(np.int64)
        else:
            np.add.at(result, group, value)
    return result


def arranged(groups: Array, values: Array, count: int) -> Array:
    """The values by group number 0..count-1, those of one group in the order in which they stand."""
    if count > 1 << 16:
        result: Array = values[np.argsort(groups, kind="stable")]
        return result
    result = np.empty(len(values), values.dtype)
    size = counts(groups, count)
    following = np.cumsum(size) - size
    for block in blocks(len(groups)):
        # numpy sorts 16-bit keys by radix: linear, and stable.
        order = np.argsort(groups[block].astype(np.uint16), kind="stable")
        group = groups[block][order]
        here = np.bincount(group, minlength=count)
        first = following - (np.cumsum(here) - here)
        result[first[group] + np.arange(len(group))] = values[block][order]
        following += here
    return result


def squares(ordered: Array, size: Array, means: Array, weights: Array | None = None) -> Array:
    """Per group the sum of the squared distances of its values from its mean, each as often as its
    weight says.

    The values stand by group and then by size, `size` of each group. They are added up in that order,
    from the group's first on: of the same values the sum is the same to the last digit, whatever order
    they had before and whatever other groups there are.
    """
    result = np.zeros(len(size))
    # Groups are added up in blocks of their own, as many at a time as fit in the cache.
    pieces = -(-size // _BLOCK)
    group, place = np.repeat(np.arange(len(size)), pieces), np.arange(int(pieces.sum()))
    within = place - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = np.repeat(np.cumsum(size) - size, pieces) + within * _BLOCK
    length = np.minimum(np.repeat(size, pieces) - within * _BLOCK, _BLOCK)
    until = np.cumsum(length)
    at = 0
    while at < len(group):
        done = int(first[at])
        following = max(int(np.searchsorted(until, done + _BLOCK, side="right")), at + 1)
        rows = slice(done, int(until[following - 1]))
        mine = slice(at, following)
        distance = ordered[rows] - np.repeat(means[group[mine]], length[mine])
        distance *= distance
        if weights is not None:
            distance *= weights[rows]
        np.add.at(result, group[mine], np.add.reduceat(distance, first[mine] - done))
        at = following
    return result
