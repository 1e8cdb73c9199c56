"""Rows of one side only, set against those of the other side only before a limit on rows speaks.

A kernel that a compiler numbers anew, or that got another name, is no slower for it. What is set against
what, with a worked example: docs/definitions/comparing.md, "Limits".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nsysconv.diff.change import Change
from nsysconv.diff.gate import Limit, LimitRow
from nsysconv.diff.rows import BOTH, ONLY_OTHER, Key, RowPair
from nsysconv.report import Column

Compared = Callable[[Mapping[Key, Key]], Sequence[RowPair]]
"""Returns the rows of a report, matched with some keys taken for others."""

_CATEGORY = "category"
_GROUPED_BY = (_CATEGORY, "rank", "device_id")
_NAMED = 2


def limit_rows(
    limit: Limit,
    columns: Sequence[Column],
    rows: Sequence[RowPair],
    compared: Compared,
    *,
    identical: bool,
) -> list[LimitRow]:
    """Return the rows of a report as the limit sees them.

    Of the rows that the limit chooses, those on one side only stand together as one row, if there are
    some on each side: of one category of kernels (in other tables of any), rank and device. `identical`:
    both sides are the same recordings, so that nothing changed.
    """
    column = next(column for column in columns if column.name == limit.column)
    texts = [c.name for c in columns if c.key and c.name != "profile" and c.kind == "text"]

    def words(row: RowPair) -> str:
        return " ".join(str(v) for name in texts if (v := (row.base or row.other).get(name)))

    def limit_row(row: RowPair) -> LimitRow:
        value = row.base_values[column.name]
        same = Change((value,), (value,), "exact") if identical and value is not None else None
        other = row.other_values[column.name]
        return LimitRow(words(row), value, other, same or row.change(column.name))

    groups = _groups(row for row in rows if limit.chooses(words(row)))
    if not column.adds_up and not any(each.name == _CATEGORY for each in columns):
        groups = []  # values of rows that have nothing to do with each other
    taken = {row.key: base[0].key for base, other in groups for row in (*base, *other)}
    together = {row.key: row for row in compared(taken)} if taken else {}
    seen = [limit_row(row) for row in rows if row.key not in taken]
    for base, other in groups:
        names = " → ".join(_listed([words(row) for row in side]) for side in (base, other))
        parts = tuple(limit_row(row) for row in (*base, *other))
        seen.append(replace(limit_row(together[base[0].key]), keys=names, parts=parts))
    return seen


def _groups(rows: Iterable[RowPair]) -> list[tuple[list[RowPair], list[RowPair]]]:
    # Each group has rows that are only in base and rows that are only in other.
    alone: dict[tuple[Any, ...], tuple[list[RowPair], list[RowPair]]] = {}
    for row in rows:
        if row.where != BOTH:
            group = tuple((row.base or row.other).get(name) for name in _GROUPED_BY)
            alone.setdefault(group, ([], []))[row.where == ONLY_OTHER].append(row)
    return [group for group in alone.values() if all(group)]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
