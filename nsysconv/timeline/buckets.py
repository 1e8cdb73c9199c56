"""Buckets for distributions of sizes and durations."""

from __future__ import annotations

import numpy as np

from nsysconv.report import MISSING

Array = np.ndarray


def decade(values: Array) -> Array:
    """The bucket of each value: 0, 1,000, 10,000, …: the largest of them that is not above it.

    MISSING stays MISSING.
    """
    edges = np.concatenate(([0], 10 ** np.arange(3, 18, dtype=np.int64)))
    place = np.searchsorted(edges, np.maximum(values, 0), side="right") - 1
    result: Array = np.where(values == MISSING, MISSING, edges[place])
    return result
