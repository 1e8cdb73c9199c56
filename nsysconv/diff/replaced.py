"""What replaces is not new: rows that took over work, set against those before them.

A kernel under another name, another algorithm of a library, a copy from pinned memory in place of one
from pageable: none of them is slower for being new, and no limit on rows exceeded. What is set against
what, with worked examples: docs/definitions/comparing.md, "Limits".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nsysconv.diff.change import Change
from nsysconv.diff.gate import Limit, LimitRow
from nsysconv.diff.rows import BOTH, ONLY_BASE, ONLY_OTHER, Key, RowPair, main_measure
from nsysconv.names import WORK, called, role_of
from nsysconv.report import Column

Compared = Callable[[Mapping[Key, Key]], Sequence[RowPair]]
"""Returns the rows of a report, matched with some keys taken for others."""

_CATEGORY = "category"
# What does the same work: kernels of one category, copies of one direction, calls of one role.
_KINDS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "kernels": lambda row: row[_CATEGORY],
    "transfers": lambda row: row["direction"],
    "api_vs_kernel": lambda row: _work_of(row["name"]),
    "launch_stats": lambda row: _work_of(row["name"]),
}
_PLACES = ("rank", "device_id")
# A count that changed by less is that of a program that does not do the same every time.
_LITTLE = 0.01
# Kernels that are fused into others are launched this many times as often as those, at least.
_FUSED = 2
_NAMED = 2


@dataclass(frozen=True)
class Limited:
    """The rows of a report, as a limit on one of its columns sees them.

    `compared` matches them anew. `per` are the numbers of steps of the sides, or of runs. `identical`:
    both sides are the same recordings, so that nothing changed.
    """

    limit: Limit
    columns: Sequence[Column]
    rows: Sequence[RowPair]
    compared: Compared
    per: tuple[float, float]
    identical: bool

    def limit_rows(self) -> list[LimitRow]:
        """Return the rows; those that may replace each other stand together, with these as their parts.

        Of the rows that the limit chooses, such are those of one kind, rank and device of which some do
        more on the other side, and some less. Kernels of all kinds are set against each other, too, if
        what is only on the other side is launched half as often as what is only on base, or less: they
        may be fused.
        """
        moved: defaultdict[tuple[Any, ...], list[RowPair]] = defaultdict(list)
        seen, adds_up = [], self._adds_up()
        for row in self.rows:
            if adds_up and self._moves(row) and self.limit.chooses(self._words(row)):
                place = tuple((row.base or row.other).get(name) for name in _PLACES)
                moved[place].append(row)
            else:
                seen.append(self._row(row))
        groups = [group for rows in moved.values() for group in self._of_one_kind(rows)]
        together = self._together([group for group in groups if self._is_replaced(group)])
        parts = {
            group[0].key: [together[group[0].key]]
            if self._is_replaced(group)
            else [*map(self._row, group)]
            for group in groups
        }
        fused = [rows for rows in moved.values() if self._is_fused(rows)]
        as_one = self._together(fused)
        for rows in moved.values():
            inside = [part for row in rows for part in parts.get(row.key, ())]
            seen += [replace(as_one[rows[0].key], parts=tuple(inside))] if rows in fused else inside
        return seen

    def of_category(self, keys: str) -> LimitRow | None:
        """Return all kernels of the category of a row, of these text keys, as one row; None: no other."""
        if self.limit.report != "kernels":
            return None
        row = next((row for row in self.rows if self._words(row) == keys), None)
        kind = (row.base or row.other)[_CATEGORY] if row is not None else None
        rows = [row for row in self.rows if kind and (row.base or row.other)[_CATEGORY] == kind]
        if len(rows) < 2:
            return None
        return replace(self._together([rows])[rows[0].key], keys=str(kind), parts=())

    def _adds_up(self) -> bool:
        # Values of rows that do not add up, and have nothing to do with each other, are not compared.
        (column,) = (column for column in self.columns if column.name == self.limit.column)
        return column.adds_up or self.limit.report in _KINDS

    def _of_one_kind(self, rows: Iterable[RowPair]) -> Iterator[list[RowPair]]:
        kind = _KINDS.get(self.limit.report)
        groups: defaultdict[Any, list[RowPair]] = defaultdict(list)
        for row in rows:
            groups[kind(row.base or row.other) if kind else None].append(row)
        yield from groups.values()

    def _is_replaced(self, rows: Iterable[RowPair]) -> bool:
        return {self._moves(row) for row in rows} == {-1, 1}

    def _is_fused(self, rows: Sequence[RowPair]) -> bool:
        if self.limit.report != "kernels":
            return False
        before, after = (
            sum(values["kernel_count"] or 0 for values in side) / per
            for side, per in zip(
                (
                    [row.base_values for row in rows if row.where == ONLY_BASE],
                    [row.other_values for row in rows if row.where == ONLY_OTHER],
                ),
                self.per,
                strict=True,
            )
        )
        return 0 < _FUSED * after <= before

    def _moves(self, row: RowPair) -> int:
        # 1: it does more on the other side, or is only there; -1: less.
        if row.where != BOTH:
            return 1 if row.where == ONLY_OTHER else -1
        count = main_measure(self.columns).counted_by
        before, after = row.base_values.get(count), row.other_values.get(count)
        if not before or not after:
            return 0
        share = float(after / self.per[1] / (before / self.per[0]) - 1)
        return (share > _LITTLE) - (share < -_LITTLE)

    def _together(self, groups: Sequence[list[RowPair]]) -> dict[Key, LimitRow]:
        # The rows of each group as one, by the key of its first.
        taken = {row.key: group[0].key for group in groups for row in group}
        rows = {row.key: row for row in self.compared(taken)} if taken else {}
        found = {}
        for group in groups:
            sides = (
                [self._words(row) for row in group if self._moves(row) == way] for way in (-1, 1)
            )
            names = " → ".join(_listed(side) for side in sides)
            parts = tuple(map(self._row, group))
            key = group[0].key
            found[key] = replace(self._row(rows[key]), keys=names, parts=parts)
        return found

    def _words(self, row: RowPair) -> str:
        keys = (c for c in self.columns if c.key and c.name != "profile" and c.kind == "text")
        values = ((row.base or row.other).get(column.name) for column in keys)
        return " ".join(str(value) for value in values if value)

    def _row(self, row: RowPair) -> LimitRow:
        name = self.limit.column
        value = row.base_values[name]
        same = Change((value,), (value,), "exact") if self.identical and value is not None else None
        return LimitRow(self._words(row), value, row.other_values[name], same or row.change(name))


def _work_of(call: str) -> str | None:
    # A copy is one whether its call waits for it or not.
    return next((role for role in WORK if called(role)(call)), None) or role_of(call)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
