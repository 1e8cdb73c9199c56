"""Rows of one side: what they are called on both sides, and several of one name as one."""

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
    """The columns that say what a row is about, the profile apart."""
    return [column.name for column in columns if column.key and column.name != "profile"]


@dataclass(frozen=True)
class RowMatcher:
    """How rows of two sides are called alike.

    `dropped`: keys that one side does not tell, or tells of otherwise many: rows are added up over them.
    `places`: by side and key, the place of each number among those of the side. `spelling` makes one of
    all spellings of a name.
    """

    keys: tuple[str, ...]
    dropped: tuple[str, ...]
    places: tuple[Mapping[str, Mapping[Any, int]], Mapping[str, Mapping[Any, int]]]
    spelling: Mapping[str, NameKey]

    def named(self, side: int, rows: Sequence[Row]) -> list[Key]:
        """What each row of a side is called."""
        parts = [self._parts(side, name, [row[name] for row in rows]) for name in self.keys]
        return list(zip(*parts, strict=True)) if parts else [()] * len(rows)

    def _parts(self, side: int, name: str, values: list[Any]) -> list[Any]:
        if name in self.places[side]:
            return list(map(self.places[side][name].get, values))
        if name in self.spelling:
            spelling = self.spelling[name]
            return [None if value is None else spelling(value) for value in values]
        return values


def row_matcher(
    columns: Sequence[Column],
    sides: tuple[Iterable[Row], Iterable[Row]],
    spelling: Mapping[str, NameKey],
) -> RowMatcher:
    """How the rows of these sides are called alike."""
    kept, dropped = [], []
    places: tuple[dict[str, dict[Any, int]], dict[str, dict[Any, int]]] = ({}, {})
    tables = tuple(list(side) for side in sides)
    for name in key_names(columns):
        told = [{row[name] for row in rows} for rows in tables]
        if all(told) and _cannot_match(name, *told):
            dropped.append(name)
        elif name in _RENUMBERED and told[0] != told[1] and all(told):
            if len(told[0]) != len(told[1]):
                dropped.append(name)
                continue
            kept.append(name)
            for side, values in enumerate(told):
                places[side][name] = {v: i for i, v in enumerate(sorted(values, key=_order))}
        else:
            kept.append(name)
    return RowMatcher(tuple(kept), tuple(dropped), places, spelling)


def _cannot_match(name: str, base: set[Any], other: set[Any]) -> bool:
    """Whether a key cannot be matched: one side does not tell it, or no rank is on both."""
    if base == other:
        return False
    if name == "rank":
        return not (base & other) - {None}
    return {None} in (base, other)


def _order(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


@dataclass
class SummedRow:
    """Rows of one side under one key: the first's spelling, their values, and names spelled otherwise."""

    spelled: Row
    values: dict[str, Any] = field(default_factory=dict)
    also: list[str] = field(default_factory=list)


def sum_by_key(
    rows: Sequence[Row], measures: Sequence[Column], names: RowMatcher, side: int
) -> dict[Key, SummedRow]:
    """The rows of a run by key. Values of several are added up where that means something."""
    found: dict[Key, SummedRow] = {}
    of_measures = [column.name for column in measures]
    for key, row in zip(names.named(side, rows), rows, strict=True):
        if key not in found:
            found[key] = SummedRow(row, {name: row[name] for name in of_measures})
            continue
        into = found[key].values
        found[key].also += [
            str(row[name]) for name in names.spelling if row[name] != found[key].spelled[name]
        ]
        for column in measures:
            into[column.name] = (
                _sum(into[column.name], row[column.name]) if column.adds_up else None
            )
    return found


def _sum(first: Any, second: Any) -> Any:
    return None if first is None or second is None else first + second


BOTH, ONLY_BASE, ONLY_OTHER = "both", "only in base", "only in other"
PER_STEP = "per_step_ns"
"""The column that is a report's first sum divided by the number of steps."""


class RowPair(NamedTuple):
    """What two sides' rows of one kind are: values by measure, and what can be said of the change.

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
        """What may be said of a measure; None where nothing is to be."""
        change = self.change(column.name) if column.name in self.judged else None
        # Of what is counted, more is more to do.
        better: Better | None = "less" if column.unit is Unit.COUNT else None
        return None if change is None else change.verdict(column.better or better)


def measures_of(columns: Sequence[Column]) -> list[Column]:
    """The columns that are no keys and no texts."""
    return [column for column in columns if not column.key and column.unit is not Unit.TEXT]


def main_measure(columns: Sequence[Column]) -> Column:
    """What rows are sorted and judged by: the first sum, else the first that can get worse."""
    measures = [column for column in columns if not column.key]
    return next(
        (column for column in measures if column.counted_by),
        next((column for column in measures if column.better), measures[0]),
    )


def template_argument_notes(rows: Iterable[RowPair]) -> list[Note]:
    """That kernels of one side differ from kernels of the other in their template arguments alone."""
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
