"""What replaces is not new: rows that took over work, set against those before them.

A kernel under another name, another algorithm of a library, a copy from pinned memory in place of one
from pageable: none of them is slower for being new, and no limit on rows exceeded. What is set against
what, with worked examples: docs/definitions/comparing.md, "Limits".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from nsysconv.codes import COMMUNICATION
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
_KERNELS, _GRAPH = "kernel_launch", "graph_launch"
_PLACES = ("rank", "device_id")
_WORDS = {"rank": "rank", "device_id": "GPU"}
# A count that changed by less is that of a program that does not do the same every time.
_LITTLE = 0.01
# Kernels that are fused into others, or that others are split into, are launched this many times as
# often as those, at least.
_FUSED = 2
_NAMED, _ARROW = 2, " → "


def replaced_as_one(report: str, rows: Sequence[RowPair], compared: Compared) -> list[RowPair]:
    """Return the rows of a report, with those on one side only that replace each other as one.

    They are of one kind, rank and device. Its name has those of both: `gemm → gemm_v2`.
    """
    kind = _KINDS[report]
    groups: defaultdict[tuple[Any, ...], list[RowPair]] = defaultdict(list)
    for row in rows:
        values = row.base or row.other
        if row.where != BOTH and (of_row := kind(values)) is not None:
            groups[of_row, *(values.get(name) for name in _PLACES)].append(row)
    both = [g for g in groups.values() if {row.where for row in g} == {ONLY_BASE, ONLY_OTHER}]
    taken = {row.key: group[0].key for group in both for row in group}
    found = {row.key: row for row in compared(taken)} if taken else {}
    as_one = []
    for group in both:
        sides = (
            [str((row.base or row.other)["name"]) for row in group if row.where == where]
            for where in (ONLY_BASE, ONLY_OTHER)
        )
        row = found[group[0].key]
        names = _ARROW.join(_listed(side, 1) for side in sides)
        as_one.append(row._replace(base={**row.base, "name": names}))
    return [*(row for row in rows if row.key not in taken), *as_one]


@dataclass(frozen=True)
class Limited:
    """The rows of a report, as a limit on one of its columns sees them.

    `compared` matches them anew. `per` are the numbers of steps of a run of each side, 1 without steps.
    `identical`: both sides are the same recordings, so that nothing changed.
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
        more on the other side, and some less. Kernels of all kinds but communication are set against
        each other, too, if what is only on one side is launched half as often as what is only on the
        other, or less: they may be fused, or split.
        """
        moved: defaultdict[tuple[Any, ...], list[RowPair]] = defaultdict(list)
        seen, adds_up = [], self._adds_up()
        for row in self.rows:
            if adds_up and self._moves(row) and self.limit.chooses(self._words(row)):
                values = row.base or row.other
                waits = values.get(_CATEGORY) == COMMUNICATION
                moved[*(values.get(name) for name in _PLACES), waits].append(row)
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
        fused = [rows for place, rows in moved.items() if not place[-1] and self._is_fused(rows)]
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
        fewer, more = sorted((before, after))
        return 0 < _FUSED * fewer <= more

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
            names = _ARROW.join(map(_listed, sides))
            parts = tuple(map(self._row, group))
            key = group[0].key
            found[key] = replace(self._row(rows[key]), keys=names, parts=parts)
        return found

    def _words(self, row: RowPair) -> str:
        # As base spells it, unless the limit's pattern matches the other spelling alone.
        keys = [c.name for c in self.columns if c.key and c.name != "profile" and c.kind == "text"]
        spelled = [
            " ".join(str(side[name]) for name in keys if side.get(name))
            for side in (row.base, row.other)
            if side
        ]
        return next(filter(self.limit.chooses, spelled), spelled[0])

    def _row(self, row: RowPair) -> LimitRow:
        name = self.limit.column
        value = row.base_values[name]
        same = Change((value,), (value,), "exact") if self.identical and value is not None else None
        change = same or row.change(name)
        place = self._place(row)
        return LimitRow(self._words(row), value, row.other_values[name], change, place=place)

    def _place(self, row: RowPair) -> str:
        values = row.base or row.other
        known = [name for name in self._varying if values[name] is not None]
        return ", ".join(f"{_WORDS[name]} {values[name]}" for name in known)

    @cached_property
    def _varying(self) -> list[str]:
        # Ranks, devices, both or neither: those in which the rows differ.
        spelled = [row.base or row.other for row in self.rows]
        return [name for name in _PLACES if len({each.get(name) for each in spelled}) > 1]


def _work_of(call: str) -> str | None:
    # A copy is one whether its call waits for it or not; a graph is launched in place of its kernels.
    role = next((role for role in WORK if called(role)(call)), None)
    return _KERNELS if role == _GRAPH else role or role_of(call)


def _listed(names: Sequence[str], most: int = _NAMED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
