"""Totals: how often and how long by name, of sources without events (docs/definitions/basics.md)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeVar

import numpy as np

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.report import MISSING
from nsysconv.timeline.timeline import Timeline, cached

K = TypeVar("K", bound=Hashable)

KERNEL, MEMCPY, MEMSET, API_CALL, MIGRATION = (
    codes.AGGREGATE_KINDS.index(kind)
    for kind in ("kernel", "memcpy", "memset", "api_call", "unified_memory")
)
RANGE, OPENACC, OPENACC_EXCLUSIVE, OSRT_CALL = (
    codes.AGGREGATE_KINDS.index(kind)
    for kind in ("range", "openacc_inclusive", "openacc_exclusive", "osrt_call")
)
GPU_KINDS: Mapping[Fact, tuple[int, ...]] = {
    Fact.KERNEL_TOTALS: (KERNEL,),
    Fact.MEMORY_TOTALS: (MEMCPY, MEMSET),
    Fact.UNIFIED_MEMORY_TOTALS: (MIGRATION,),
}
"""The kinds of GPU operations that each fact speaks of."""


@dataclass(frozen=True)
class Figures:
    """The totals of several events together; None: not recorded."""

    count: int
    sum_ns: int | None
    min_ns: int | None
    max_ns: int | None
    med_ns: float | None
    stddev_ns: float | None
    bytes_sum: int | None
    bytes_min: int | None
    bytes_max: int | None
    bytes_med: float | None
    bytes_stddev: float | None


@dataclass(frozen=True)
class Total(Figures):
    """One total as the source records it; None: not recorded.

    `device_id` None: all devices of the process. `name` is an API function's documented name, `symbol`
    the one that the source spells.
    """

    kind: int
    pid: int | None
    device_id: int | None
    domain_id: int | None
    range_kind: int | None
    layer: int | None
    direction: int | None
    name: str
    symbol: str


@dataclass(frozen=True)
class CombinedTotal(Figures):
    """Several totals as one; a figure that one of them lacks is None. Of no totals all are 0.

    Medians and deviations of several totals do not follow from theirs: None but for one total alone.
    """

    pids: frozenset[int | None]

    @property
    def avg_ns(self) -> float | None:
        """Return the mean duration."""
        return None if self.sum_ns is None or not self.count else self.sum_ns / self.count

    @property
    def bytes_avg(self) -> float | None:
        """Return the mean size."""
        return None if self.bytes_sum is None or not self.count else self.bytes_sum / self.count


def totals(timeline: Timeline, *kinds: int) -> list[Total]:
    """Return the totals of these kinds that count some and are no parts of others; none of a slice."""
    if not timeline.is_whole:
        return []
    return [total for total in _totals(timeline) if total.kind in kinds]


@cached
def _totals(timeline: Timeline) -> list[Total]:
    profile = timeline.profile
    every = profile.rows("aggregate")
    rows = [row for row in every if row["range_name_id"] is None and row["count"] > 0]
    plain = profile.names({_name_id(row) for row in rows if row["kind"] == API_CALL}, plain=True)
    full = profile.names(set(map(_name_id, rows)))
    same = [field.name for field in fields(Total) if field.name not in ("name", "symbol")]
    return [
        Total(
            name=(plain if row["kind"] == API_CALL else full)[_name_id(row)],
            symbol=full[_name_id(row)],
            **{column: row[column] for column in same},
        )
        for row in rows
    ]


def _name_id(row: dict[str, Any]) -> int:
    return MISSING if row["name_id"] is None else int(row["name_id"])


def combine_by(found: Iterable[Total], key: Callable[[Total], K]) -> dict[K, CombinedTotal]:
    """Return the totals added up by what `key` says of each."""
    members: dict[K, list[Total]] = {}
    for total in found:
        members.setdefault(key(total), []).append(total)
    return {group: combine(mine) for group, mine in members.items()}


_COMBINED: Mapping[str, Callable[[list[int]], int]] = {
    "sum_ns": sum,
    "min_ns": partial(min, default=0),
    "max_ns": partial(max, default=0),
    "bytes_sum": sum,
    "bytes_min": partial(min, default=0),
    "bytes_max": partial(max, default=0),
}
_OF_ONE_ALONE = ("med_ns", "stddev_ns", "bytes_med", "bytes_stddev")


def combine(found: Iterable[Total]) -> CombinedTotal:
    """Return totals as one: the sum of sums, the least of the least, the greatest of the greatest."""
    mine = list(found)
    figures: dict[str, Any] = {}
    for name, combined in _COMBINED.items():
        values = [getattr(total, name) for total in mine]
        figures[name] = None if None in values else combined(values)
    for name in _OF_ONE_ALONE:
        figures[name] = getattr(mine[0], name) if len(mine) == 1 else None
    count, pids = sum(total.count for total in mine), frozenset(total.pid for total in mine)
    return CombinedTotal(count=count, pids=pids, **figures)


def rank_of(timeline: Timeline, found: CombinedTotal) -> int | None:
    """Return the rank of the only ranked process behind a sum, else None."""
    return timeline.rank_of(np.array([pid for pid in found.pids if pid is not None], np.int64))


def device_order(device_id: int | None) -> int:
    """Return what devices are sorted by: as among events, unknown ones come first."""
    return MISSING if device_id is None else device_id
