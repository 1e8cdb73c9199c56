"""The distinct rows of a table's columns, where millions of rows hold a handful of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsysconv.report import MISSING

Array = np.ndarray
Columns = Sequence[Array]
Combination = tuple[int | None, ...]

# With many more, rows push each other out of their buckets, and SQLite is as quick.
_MOST = 10_000
_BUCKET_BITS = 14
# Odd, so that no two numbers have one product.
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


class Distinct:
    """Each combination of values that a row has, once, in the order in which they come."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, ...], None] = {}
        # Two that push each other out of the first, row after row, hardly meet again in the second.
        self._recent = [_Recent(factor) for factor in _FACTORS]

    def add(self, columns: Columns) -> bool:
        """Look at more rows: whole numbers, MISSING for null; at least one column, all of one length.

        Returns False where there are too many combinations to find them this way.
        """
        for recent in self._recent:
            columns = recent.others(columns)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self._found.update(dict.fromkeys(rows))
        return len(self._found) <= _MOST

    def combinations(self) -> list[Combination]:
        """Those found until now; null is None."""
        return [tuple(None if cell == MISSING else cell for cell in row) for row in self._found]


class _Recent:
    """Of the combinations that fall into one of many buckets, the last that came."""

    def __init__(self, factor: int) -> None:
        self._factor = np.uint64(factor)
        self._held: list[Array] = []

    def others(self, columns: Columns) -> Columns:
        """The rows that are not held; of these, the last in each bucket is held from now on. So whatever
        is held has been handed on before.
        """
        buckets = self._buckets(columns)
        others = np.zeros(len(buckets), bool)
        if not self._held and len(buckets):
            # Each bucket holds something from the beginning on: the first row, which is handed on.
            self._held = [np.full(1 << _BUCKET_BITS, column[0], np.int64) for column in columns]
            others[0] = True
        for column, held in zip(columns, self._held, strict=False):
            others |= held.take(buckets) != column
        at = np.flatnonzero(others)
        columns = [column[at] for column in columns]
        for column, held in zip(columns, self._held, strict=False):
            held[buckets[at]] = column
        return columns

    def _buckets(self, columns: Columns) -> Array:
        """The bucket of each row: the upper bits of a number in which all of its cells are mixed."""
        mixed = np.zeros(len(columns[0]), np.uint64)
        for column in columns:
            mixed ^= column.astype(np.int64).view(np.uint64)
            mixed *= self._factor
        mixed >>= np.uint64(64 - _BUCKET_BITS)
        return mixed.view(np.int64)
