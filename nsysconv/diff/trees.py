"""Trees of two sides as one: the time of each path of names before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from heapq import heappop, heappush
from itertools import chain
from typing import Any

import numpy as np

from nsysconv.diff.names import NameKey
from nsysconv.notes import Note, Severity
from nsysconv.report import Column, Report, Unit, common_slice, report_table
from nsysconv.timeline.annotations import name_pattern
from nsysconv.timeline.nesting import path_texts

TREES = {
    "operators_tree": "operators:by=path",
    "modules_tree": "modules",
    "ranges_tree": "ranges",
}
"""Reports of trees of two sides, and the report on one profile that each is made of."""

# By report: the column of names, and the columns of times that include children.
_NAMES = {"ranges_tree": "tree"}
_TIMES = {"ranges_tree": ("range_sum_ns", "kernel_sum_ns")}
_OPERATOR_TIMES = ("host_sum_ns", "device_sum_ns")

MOST_NODES = 50_000
"""The report has at most this many nodes of a tree: those with the most time on both sides."""

_SIDES = "base", "other"
Runs = Sequence[Sequence[Report]]
"""The same report on a side: for each run on each of its profiles."""


@dataclass
class _Node:
    # `sums` has, by side, the values by measure, added up over all profiles of all runs.
    name: str
    sums: tuple[dict[str, int], dict[str, int]] = field(default_factory=lambda: ({}, {}))
    inside: dict[str, _Node] = field(default_factory=dict)


@dataclass(frozen=True)
class _Union:
    # The tree has the nodes of both sides. A measure in `widths` may set the width of a box; `per` are
    # factors of sums by side; `recorded` has the measures of a side.
    root: _Node
    widths: tuple[str, ...]
    per: tuple[Fraction, Fraction]
    recorded: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))

    @property
    def is_mean(self) -> bool:
        return any(per != 1 for per in self.per)

    def weight(self, node: _Node) -> float:
        sides = list(zip(node.sums, map(float, self.per), strict=True))
        return max(sum(sums.get(name, 0) * per for sums, per in sides) for name in self.widths)

    def values(self, node: _Node, side: int, column: Column) -> int | float | None:
        # A mean of times is a whole number of ns; one of counts is not.
        if column.name not in self.recorded[side]:
            return None
        value = node.sums[side].get(column.name, 0) * self.per[side]
        return float(value) if self.is_mean and column.unit is Unit.COUNT else round(value)


def compare_trees(
    name: str,
    base: Runs,
    other: Runs,
    *,
    name_key: NameKey = str,
    steps: tuple[Fraction, Fraction] | None = None,
    notes: Sequence[Note] = (),
) -> Report:
    """Return one row per path of names on either side, each followed by those inside, most time first.

    `name` is one of TREES. Names of one `name_key` are one name, which is spelled as that. Values are
    added up over the profiles of a run, means over the runs that answer, and, with `steps`, divided by
    those of a run of either side. What a side does not have is 0 there, and what it does not record null.
    Not recorded where a side lacks the report as a whole.
    """
    reports = list(chain(*base, *other))
    answered = [report for report in reports if report.table is not None]
    first = (answered or reports)[0]
    missing = [
        f"{fact} ({words})"
        for words, runs in zip(_SIDES, (base, other), strict=True)
        if all(report.table is None for report in chain(*runs))
        for fact in dict.fromkeys(fact for report in chain(*runs) for fact in report.not_recorded)
    ]
    header = Report(
        name=name,
        title=f"What changed: {first.title}{', per step' if steps else ''}",
        columns=_KEYS,
        table=None,
        profiles=tuple(ref for report in reports for ref in report.profiles),
        slice=common_slice(reports),
        notes=tuple(notes),
        not_recorded=tuple(missing),
        advice=tuple(dict.fromkeys(line for report in reports for line in report.advice)),
    )
    if missing:
        return header
    by_name = {column.name: column for column in first.columns}
    widths = _TIMES.get(name, _OPERATOR_TIMES)
    measures = [by_name[each] for each in (*widths, by_name[widths[0]].counted_by)]
    answering = [
        sum(any(report.table is not None for report in run) for run in runs)
        for runs in (base, other)
    ]
    per = [Fraction(1, max(count, 1)) for count in answering]
    if steps is not None:
        per = [each / (count or 1) for each, count in zip(per, steps, strict=True)]
    union = _Union(_Node(""), widths, (per[0], per[1]))
    for side, runs in enumerate((base, other)):
        of_side = [report for report in chain(*runs) if report.table is not None]
        for report in of_side:
            _add(union, report, side, measures, name_key, _NAMES.get(name, "name"))
        if not any(report.table.num_rows for report in of_side if report.table is not None):
            union.recorded[side].update(measure.name for measure in measures)
    return _with_rows(header, union, measures)


def _add(
    union: _Union,
    report: Report,
    side: int,
    measures: Sequence[Column],
    name_key: NameKey,
    label: str,
) -> None:
    above, names = [(-1, union.root)], [column.name for column in measures]
    for row in report.rows():
        # Where rows are left out by their names, it lies in the nearest one that is there.
        while above[-1][0] >= row["level"]:
            above.pop()
        # A tree's names may be set in.
        name = name_key(row[label].strip())
        inside = above[-1][1].inside
        node = inside.get(name)
        if node is None:
            node = inside[name] = _Node(name)
        sums = node.sums[side]
        for measure in names:
            if row[measure] is not None:
                union.recorded[side].add(measure)
                sums[measure] = sums.get(measure, 0) + row[measure]
        above.append((row["level"], node))


def _with_rows(header: Report, union: _Union, measures: Sequence[Column]) -> Report:
    most = list(_most(union))
    nodes, parent = [node for node, _ in most], [above for _, above in most]
    levels: list[int] = []
    for above in parent:
        levels.append(0 if above < 0 else levels[above] + 1)
    texts = path_texts(np.array(parent, np.int64), lambda i: nodes[i].name, np.arange(len(nodes)))
    cells: dict[str, list[Any]] = {
        "path": texts,
        "name": [node.name for node in nodes],
        "level": levels,
    }
    for column in measures:
        before, after = ([union.values(node, side, column) for node in nodes] for side in range(2))
        cells |= {f"base_{column.name}": before, f"other_{column.name}": after}
        cells[f"diff_{column.name}"] = list(map(_difference, before, after))
    columns = _columns(measures, is_mean=union.is_mean)
    notes = list(header.notes)
    left_out = _count(union.root) - len(nodes)
    if left_out:
        text = f"only the {len(nodes):,} paths with most time are shown"
        notes.append(Note("paths-left-out", Severity.INFO, text, left_out))
    table = report_table(columns, cells)
    return replace(header, columns=columns, table=table, notes=tuple(notes), row_count=len(nodes))


def _most(union: _Union) -> Iterator[tuple[_Node, int]]:
    # The nodes with most time are kept, each only if its parent is kept. They come as a tree, depth
    # first, each with the place of its parent, or -1.
    kept: set[int] = set()
    heap: list[tuple[float, int, _Node]] = []
    for number in range(MOST_NODES + 1):
        node = heappop(heap)[2] if heap else union.root
        if number and node is union.root:
            break
        kept.add(id(node))
        for place, each in enumerate(node.inside.values()):
            heappush(heap, (-union.weight(each), number << 32 | place, each))
    waiting = [(node, -1) for node in _kept(union, union.root, kept)]
    for place in range(len(kept) - 1):
        node, above = waiting.pop()
        yield node, above
        waiting += [(each, place) for each in _kept(union, node, kept)]


def _kept(union: _Union, node: _Node, kept: set[int]) -> list[_Node]:
    return sorted((n for n in node.inside.values() if id(n) in kept), key=union.weight)


def _count(root: _Node) -> int:
    count, waiting = 0, [root]
    while waiting:
        inside = waiting.pop().inside.values()
        count += len(inside)
        waiting += inside
    return count


def _difference(before: Any, after: Any) -> Any:
    return None if before is None or after is None else after - before


_KEYS = (
    Column(
        "path",
        Unit.TEXT,
        "Names of the enclosing ranges or operators and its own, outermost first.",
        key=True,
        brief=False,
    ),
    Column("name", Unit.TEXT, "Name of the range or operator."),
    Column("level", Unit.ID, "Number of ranges or operators around it."),
)


def _columns(measures: Sequence[Column], *, is_mean: bool) -> tuple[Column, ...]:
    shown = list(_KEYS)
    for column in measures:
        counts = column.unit is Unit.COUNT
        real = is_mean and counts
        plain = replace(column, brief=not counts, counted_by="", real=real)
        for which, words in (("diff", "Other minus base"), ("base", "Base"), ("other", "Other")):
            named = replace(plain, name=f"{which}_{column.name}", doc=f"{words}: {column.doc}")
            shown.append(named)
    return tuple(shown)


def says_nothing(report: Report) -> bool:
    """Return whether a tree has nothing that was called, on either side, or neither records such."""
    if report.name not in TREES:
        return False
    if report.table is None:
        return len({fact.rpartition(" (")[2] for fact in report.not_recorded}) > 1
    # What nothing called launched is a row, too.
    counts = [column.name for column in report.columns if column.unit is Unit.COUNT]
    return not any(row[name] for row in report.rows() for name in counts)


def step_key(*patterns: str) -> NameKey:
    """Return the key of names in trees: all steps are one, called as the first pattern of their names."""
    is_step = name_pattern(*patterns).fullmatch
    return cache(lambda name: patterns[0] if patterns and is_step(name) else name)
