"""A row of two sides: its values on both, and what may be said of how they changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from nsysconv.diff.change import Change
from nsysconv.diff.names import kernel_key
from nsysconv.diff.rows import Key, Row
from nsysconv.notes import Note, Severity
from nsysconv.report import Better, Column
from nsysconv.units import Unit

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
