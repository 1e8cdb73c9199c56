"""Sums divided by the number of steps, for the reports that have sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsysconv.queries.contract import Answer, Array, Data, Query, Request
from nsysconv.report import MISSING, Column
from nsysconv.timeline.steps import STEP_FACTS, step_count
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

_UNITS = {"per_step_ns": Unit.NS, "bytes_per_step": Unit.BYTES}


def per_step(name: str, of: str) -> Column:
    """The column of that name (`per_step_ns`, `bytes_per_step`): the sum in column `of` per step."""
    return Column(
        name,
        _UNITS[name],
        f"`{of}` divided by the number of steps: the most that one process has in the slice "
        "(`--step-range` says what steps are called); null where no step is annotated.",
        better="less",
        real=True,
        brief=False,
        adds=True,
        optional=True,
    )


def with_sums_per_step(
    data: Data, timeline: Timeline, request: Request, sums: dict[str, str]
) -> Answer:
    """The answer with a column more for each of `sums`, which says per name the column that it divides.

    Where these are null, nothing is said of what tells steps.
    """
    count = step_count(timeline, request.step_pattern)
    divided = {name: _divided(data[of], count) for name, of in sums.items()}
    known = any(np.isfinite(values).any() for values in divided.values())
    return Answer({**data, **divided}, unused=frozenset() if known else STEP_FACTS)


def has_sums_per_step(query: Query) -> bool:
    """Whether sums per step are what a report looks at steps for."""
    return any(column.name in _UNITS for column in query.COLUMNS)


def _divided(values: Sequence[int | None] | Array, count: int) -> Array:
    sums = np.array([MISSING if value is None else value for value in values], np.int64)
    return np.where(sums == MISSING, np.nan, sums / (count or np.nan))
