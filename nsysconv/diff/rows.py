"""Rows of two sides matched by their keys, which rows of one key are added up, and pairs of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nsysconv.diff.change import Change
from nsysconv.diff.names import NameKey, kernel_key
from nsysconv.notes import Note, Severity
from nsysconv.report import Better, Column
from nsysconv.units import Unit

Key = tuple[Any, ...]
Row = Mapping[str, Any]

_RENUMBERED = frozenset({"device_id", "peer_device_id", "pid"})
"""Keys whose numbers mean nothing on another machine or in another run: their order does."""


def key_names(columns: Sequence[Column]) -> list[str]:
    """Return the columns that say what a row is about, the profile apart."""
    return [column.name for column in columns if column.key and column.name != "profile"]


@dataclass(frozen=True)
class RowMatcher:
    """The keys by which rows of two sides are matched.

    Rows are added up over the keys in `summed_over`: one side does not record them, or has another
    number of values. `ordinals`: by side and key, the rank of each number among those of the side.
    `name_keys`: the function that makes the key of a column's texts.
    """

    keys: tuple[str, ...]
    summed_over: tuple[str, ...]
    ordinals: tuple[Mapping[str, Mapping[Any, int]], Mapping[str, Mapping[Any, int]]]
    name_keys: Mapping[str, NameKey]

    def keys_of(self, side: int, rows: Sequence[Row]) -> list[Key]:
        """Return the key of each row of a side (0 or 1)."""
        parts = [self._parts(side, name, [row[name] for row in rows]) for name in self.keys]
        return list(zip(*parts, strict=True)) if parts else [()] * len(rows)

    def _parts(self, side: int, name: str, values: list[Any]) -> list[Any]:
        if name in self.ordinals[side]:
            return list(map(self.ordinals[side][name].get, values))
        if name in self.name_keys:
            name_key = self.name_keys[name]
            return [None if value is None else name_key(value) for value in values]
        return values


def row_matcher(
    columns: Sequence[Column],
    sides: tuple[Iterable[Row], Iterable[Row]],
    name_keys: Mapping[str, NameKey],
) -> RowMatcher:
    """Decide by which keys the rows of these sides are matched."""
    matched, summed_over = [], []
    ordinals: tuple[dict[str, dict[Any, int]], dict[str, dict[Any, int]]] = ({}, {})
    tables = tuple(list(side) for side in sides)
    for name in key_names(columns):
        values_of_sides = [{row[name] for row in rows} for rows in tables]
        if all(values_of_sides) and _cannot_match(name, *values_of_sides):
            summed_over.append(name)
        elif (
            name in _RENUMBERED
            and values_of_sides[0] != values_of_sides[1]
            and all(values_of_sides)
        ):
            if len(values_of_sides[0]) != len(values_of_sides[1]):
                summed_over.append(name)
                continue
            matched.append(name)
            for side, values in enumerate(values_of_sides):
                ordinals[side][name] = {v: i for i, v in enumerate(sorted(values, key=_order))}
        else:
            matched.append(name)
    return RowMatcher(tuple(matched), tuple(summed_over), ordinals, name_keys)


def _cannot_match(name: str, base: set[Any], other: set[Any]) -> bool:
    """Return whether one side does not record a key, or no rank is on both."""
    if base == other:
        return False
    if name == "rank":
        return not (base & other) - {None}
    return {None} in (base, other)


def _order(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


@dataclass
class SummedRow:
    """Rows of one side under one key: the first's spelling, their values, and other spellings."""

    spelled: Row
    values: dict[str, Any] = field(default_factory=dict)
    also: list[str] = field(default_factory=list)


def sum_by_key(
    rows: Sequence[Row], measures: Sequence[Column], matcher: RowMatcher, side: int
) -> dict[Key, SummedRow]:
    """Return the rows of a run by key; several of one key are added up where that means something."""
    summed: dict[Key, SummedRow] = {}
    measure_names = [column.name for column in measures]
    for key, row in zip(matcher.keys_of(side, rows), rows, strict=True):
        if key not in summed:
            summed[key] = SummedRow(row, {name: row[name] for name in measure_names})
            continue
        sums = summed[key].values
        summed[key].also += [
            str(row[name]) for name in matcher.name_keys if row[name] != summed[key].spelled[name]
        ]
        for column in measures:
            sums[column.name] = (
                _sum(sums[column.name], row[column.name]) if column.adds_up else None
            )
    return summed


def _sum(first: Any, second: Any) -> Any:
    return None if first is None or second is None else first + second


BOTH, ONLY_BASE, ONLY_OTHER = "both", "only in base", "only in other"
PER_STEP = "per_step_ns"
"""The column that is a report's first sum divided by the number of steps."""


class RowPair(NamedTuple):
    """A matched pair of rows: both sides' values by measure, and the change of each measure.

    `differences` are those of the values, other less base; None where one is not known. `change` gives
    what became of a measure, and its interval; None where a value is missing. `judged`: the measures of
    which there may be a verdict.
    """

    key: Key
    where: str
    base: Row
    other: Row
    base_values: Mapping[str, Any]
    other_values: Mapping[str, Any]
    differences: Mapping[str, Any]
    change: Callable[[str], Change | None]
    judged: frozenset[str]

    def verdict(self, column: Column) -> str | None:
        """Return the verdict on a measure; None where there is to be none."""
        change = self.change(column.name) if column.name in self.judged else None
        # Of what is counted, more is more to do.
        better: Better | None = "less" if column.unit is Unit.COUNT else None
        return None if change is None else change.verdict(column.better or better)


def measures_of(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that are neither keys nor texts."""
    return [column for column in columns if not column.key and column.unit is not Unit.TEXT]


def main_measure(columns: Sequence[Column]) -> Column:
    """Return what rows are sorted and judged by: the first sum, else the first that can get worse."""
    measures = [column for column in columns if not column.key]
    return next(
        (column for column in measures if column.counted_by),
        next((column for column in measures if column.better), measures[0]),
    )


def template_argument_notes(rows: Iterable[RowPair]) -> list[Note]:
    """Return a note where kernels of the two sides differ in their template arguments alone."""
    alone: dict[str, dict[str, list[str]]] = {ONLY_BASE: {}, ONLY_OTHER: {}}
    for row in rows:
        name = (row.base or row.other).get("name")
        if row.where in alone and name is not None:
            alone[row.where].setdefault(kernel_key(name, "name"), []).append(name)
    base, other = alone.values()
    shared = [function for function in base if function in other]
    if not shared:
        return []
    text = (
        "kernels of one side only are functions that the other side has with other template arguments; "
        "--match name takes them for the same"
    )
    count = sum(len(side[function]) for side in (base, other) for function in shared)
    return [Note("template-arguments-differ", Severity.INFO, text, count, shared[0])]
