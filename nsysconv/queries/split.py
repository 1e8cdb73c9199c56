"""Rows over devices, or with `--split` a row for each device, or for each rank."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from nsysconv.queries.columns import DEVICE, PROFILE, RANK, ranks_by_group
from nsysconv.queries.contract import Array
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import counts, distinct, factorize, sums, take
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import CombinedTotal, Total, combine_by, device_order, rank_of

K = TypeVar("K", bound=Hashable)

SPLIT_RANK = replace(
    RANK,
    doc="Rank of the process; null: no rank or several. In a profile of several ranks it is set "
    "only with `--split`.",
)
BY_SPLIT = (
    PROFILE,
    SPLIT_RANK,
    replace(
        DEVICE,
        doc="Number of the device in the profile; only with `--split device`, else null.",
        optional=True,
    ),
)
"""The first columns of reports that have their rows over devices unless they are split."""


def spread_columns(total: str, unit: Unit = Unit.NS) -> tuple[Column, ...]:
    """Return the columns of how a row's devices differ in column `total`."""
    nulls = "null: every row has one device"
    least, greatest = (f"device_{end}_sum_{unit.value}" for end in ("min", "max"))
    count_doc = f"Number of devices on which the row's operations ran; {nulls}."
    of_one = f"`{total}` of a single device; {nulls}."
    return (
        Column("device_count", Unit.COUNT, count_doc, brief=False, optional=True, distinct=True),
        Column(greatest, unit, f"Greatest {of_one}", better="less", brief=False, optional=True),
        Column(least, unit, f"Least {of_one}", brief=False, optional=True),
    )


@dataclass(frozen=True)
class SplitRows:
    """The rows of a report: the row of each event, and by row its place and its keys.

    `place` is the device or the rank that rows are split by; MISSING: none known, or over devices.
    A cell is what one row has of one device: `cell` of each event, `row_of_cell`, `device_of_cell`.
    """

    row: Array
    place: Array
    keys: tuple[Array, ...]
    rank: list[int | None]
    device_id: Array
    cell: Array
    row_of_cell: Array
    device_of_cell: Array

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.place)

    @property
    def is_of_several_devices(self) -> bool:
        """Return whether a row is."""
        return _has_several(self.row_of_cell, self.device_of_cell, len(self))

    def spread(self, values: Array, unit: Unit = Unit.NS) -> dict[str, Array]:
        """Return the values of `spread_columns` for the sums of the events' values."""
        spent = np.full(len(self.row_of_cell), MISSING)
        if self.is_of_several_devices:
            known = values != MISSING
            if known.all():
                spent = sums(self.cell, values, len(spent))
            else:
                cell = self.cell[known]
                spent = sums(cell, values[known], len(spent))
                spent[counts(cell, len(spent)) == 0] = MISSING
        return spread(self.row_of_cell, self.device_of_cell, spent, len(self), unit)


def split_rows(
    timeline: Timeline, split: str | None, device: Array, pid: Array, *keys: Array
) -> SplitRows:
    """Return the rows of events by their keys, in the order of place and keys."""
    cell, (devices, *values) = factorize(device, ranks_of(timeline, split, pid), *keys)
    if split == "device" or not len(devices) or devices[0] == devices[-1]:
        row, row_of_cell = cell, np.arange(len(devices))
    else:
        row_of_cell, values = factorize(*values)
        row = take(row_of_cell, cell)
    count = len(values[0])
    ranks, *others = values
    return SplitRows(
        row,
        devices if split == "device" else ranks,
        tuple(others),
        row_ranks(timeline, split, pid, row, count),
        devices if split == "device" else np.full(count, MISSING),
        cell,
        row_of_cell,
        devices,
    )


def row_ranks(
    timeline: Timeline, split: str | None, pids: Array, row: Array, count: int
) -> list[int | None]:
    """Return the values of SPLIT_RANK for `count` rows, given the process and the row of each event."""
    if _are_over_ranks(timeline, split):
        return [None] * count
    return ranks_by_group(timeline, pids, row, count)


def _are_over_ranks(timeline: Timeline, split: str | None) -> bool:
    # Whether to name no rank: one in some rows only would make other keys in a run of other ranks.
    if split is not None or not timeline.ranks:
        return False
    pids, ranks = (
        np.array(list(each), np.int64) for each in zip(*timeline.ranks.items(), strict=True)
    )
    return len(distinct(ranks[timeline.in_processes(pids)])) > 1


def ranks_of(timeline: Timeline, split: str | None, pids: Array) -> Array:
    """Return the rank of each process where rows are split by it; MISSING: none known, or not split."""
    if split != "rank" or not timeline.ranks:
        return np.broadcast_to(np.int64(MISSING), len(pids))
    result = np.full(len(pids), MISSING)
    for pid, rank in timeline.ranks.items():
        result[pids == pid] = rank
    return result


def _has_several(row_of_cell: Array, devices: Array, count: int) -> bool:
    return bool((counts(row_of_cell[devices != MISSING], count) > 1).any())


def spread(
    row_of_cell: Array, devices: Array, spent: Array, count: int, unit: Unit = Unit.NS
) -> dict[str, Array]:
    """Return the values of `spread_columns` of `count` rows, given each cell's row, device and sum."""
    names = ("device_count", *(f"device_{end}_sum_{unit.value}" for end in ("min", "max")))
    if not _has_several(row_of_cell, devices, count):
        return {name: np.full(count, MISSING) for name in names}
    known = (devices != MISSING) & (spent != MISSING)
    row, of_device = row_of_cell[known], spent[known]
    some = counts(row, count) > 0
    least, greatest = np.full(count, np.iinfo(np.int64).max), np.full(count, MISSING)
    np.minimum.at(least, row, of_device)
    np.maximum.at(greatest, row, of_device)
    number = counts(row_of_cell[devices != MISSING], count)
    values = (np.where(number, number, MISSING), np.where(some, least, MISSING), greatest)
    return dict(zip(names, values, strict=True))


# -- rows of gaps


class DeviceSums:
    """Rows that add up what devices have by key, such as their gaps."""

    def __init__(self, timeline: Timeline, split: str | None, *columns: str) -> None:
        """Begin without rows; `columns` are those of the amounts, the main one first."""
        self._timeline, self._split, self._columns = timeline, split, columns
        self._numbers: dict[tuple[int, Hashable], int] = {}
        self._sums: list[list[int]] = []
        self._cells: dict[tuple[int, int], int] = {}

    def add(self, device: int, key: Hashable, amounts: Sequence[int]) -> None:
        """Add amounts of a device to the row of the key."""
        row = self._numbers.setdefault((self._place(device), key), len(self._numbers))
        if row == len(self._sums):
            self._sums.append([0] * len(amounts))
        self._sums[row] = [a + b for a, b in zip(self._sums[row], amounts, strict=True)]
        self._cells[row, device] = self._cells.get((row, device), 0) + amounts[0]

    def _place(self, device: int) -> int:
        if self._split == "device":
            return device
        rank = self._rank_on([device]) if self._split == "rank" else None
        return MISSING if rank is None else rank

    def _rank_on(self, devices: Iterable[int]) -> int | None:
        return self._timeline.rank_of(np.concatenate([*map(self._timeline.pids_on, devices)]))

    @property
    def keys(self) -> list[tuple[int, Any]]:
        """Return place and key of each row, as first met."""
        return list(self._numbers)

    def values(self) -> dict[str, Any]:
        """Return the values of rank and device of the rows, of their amounts, and of `spread_columns`."""
        row = np.array([row for row, _ in self._cells], np.int64)
        devices = [device for _, device in self._cells]
        of_rows: list[list[int]] = [[] for _ in self._sums]
        for number, device in self._cells:
            of_rows[number].append(device)
        ranks = [*map(self._rank_on, of_rows)]
        if _are_over_ranks(self._timeline, self._split):
            ranks = [None] * len(ranks)
        by_device = self._split == "device"
        spent = np.array(list(self._cells.values()), np.int64)
        return {
            "rank": ranks,
            "device_id": np.array(
                [each[0] if by_device else MISSING for each in of_rows], np.int64
            ),
            **{name: [of[i] for of in self._sums] for i, name in enumerate(self._columns)},
            **spread(row, np.array(devices, np.int64), spent, len(ranks)),
        }


# -- rows of totals


def place_of_totals(timeline: Timeline, split: str | None) -> Callable[[Total], int]:
    """Return the function that gives the place of a total, as of events; MISSING: none or unknown."""
    ranks = timeline.ranks
    if split == "device":
        return lambda total: device_order(total.device_id)
    if split == "rank":
        return lambda total: MISSING if total.pid is None else ranks.get(total.pid, MISSING)
    return lambda total: MISSING


def place_values(
    timeline: Timeline,
    split: str | None,
    places: Sequence[int],
    combined: Sequence[CombinedTotal],
) -> dict[str, list[int | None]]:
    """Return rank and device of rows of totals, given the place of each."""
    ranks = [rank_of(timeline, total) for total in combined]
    if _are_over_ranks(timeline, split):
        ranks = [None] * len(ranks)
    devices = [place if split == "device" and place != MISSING else None for place in places]
    return {"rank": ranks, "device_id": devices}


def spread_of_totals(
    found: Iterable[Total],
    row_of: Callable[[Total], K],
    rows: Iterable[K],
    figure: str,
    unit: Unit = Unit.NS,
) -> dict[str, Array]:
    """Return the values of `spread_columns` of rows of totals: the sums of a figure by device."""
    numbers = {row: number for number, row in enumerate(rows)}
    cells = combine_by(found, lambda total: (row_of(total), device_order(total.device_id)))
    spent = [getattr(total, figure) for total in cells.values()]
    return spread(
        np.array([numbers[row] for row, _ in cells], np.int64),
        np.array([device for _, device in cells], np.int64),
        np.array([MISSING if each is None else each for each in spent], np.int64),
        len(numbers),
        unit,
    )
