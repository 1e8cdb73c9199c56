"""The least, the middle and the greatest of a few values, as reports over ranks tell them."""

from __future__ import annotations

from collections.abc import Sequence

Number = int | float

OVER_RANKS = ("min", "median", "max")
"""What the three rows in place of many ranks are called."""


def spread(values: Sequence[Number | None]) -> tuple[Number | None, Number | None, Number | None]:
    """Least, median and greatest of the values that there are; None where there is none.

    The median of an even number is the mean of the middle two; of integers rounded to a whole one, a
    half up, so that it is of their kind.
    """
    known = sorted(value for value in values if value is not None)
    if not known:
        return None, None, None
    low, high = known[(len(known) - 1) // 2], known[len(known) // 2]
    both = low + high
    middle = (both + 1) // 2 if isinstance(both, int) else both / 2
    return known[0], middle, known[-1]
