"""Rows of operators and modules: which calls they are of, and trees of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import Array, factorize
from nsysconv.timeline.modules import module_calls
from nsysconv.timeline.nesting import Paths, Tree, path_texts
from nsysconv.timeline.operator_calls import OperatorCalls, input_shapes
from nsysconv.timeline.operator_stacks import stacks
from nsysconv.timeline.range_names import group_name
from nsysconv.timeline.timeline import Timeline

TREE = (
    Column(
        "path",
        Unit.TEXT,
        "Names of the enclosing operators and of this one, outermost first.",
        key=True,
        brief=False,
    ),
    Column("level", Unit.ID, "Number of operators around it."),
)
"""Columns of the rows of a tree."""


@dataclass(frozen=True)
class Groups:
    """The group of each of some calls, the key columns of the groups, and the paths of a tree."""

    of: Array
    count: int
    keys: Mapping[str, Sequence[Any]]
    paths: Paths | None = None


Numbered = tuple[Array, Sequence[str]]
"""Per node a number, MISSING for none, and the texts by number."""


def grouped(
    timeline: Timeline, calls: OperatorCalls, shown: Array, by: str, deepest: int
) -> Groups:
    """Return the groups of the nodes `shown`; stacks keep the `deepest` innermost entries (0: all).

    Raises UsageError if `by` is not in GROUPS, and NotRecorded if the property to group by was not
    recorded.
    """
    if by not in GROUPS:
        raise UsageError(
            f"operators have no rows by {by!r}", hint=f"There are: {', '.join(GROUPS)}"
        )
    name: Array = calls.spans.name
    names: Sequence[str] = calls.spans.names
    if by == "path":
        tree = _subtree(calls, shown)
        return Groups(tree.paths.of, len(tree.paths), tree_keys(tree.paths, names), tree.paths)
    if by == "overload":
        name, names = _with_overloads(timeline, calls)
    if by not in _TEXTS:
        group, (which,) = factorize(name[shown])
        return Groups(group, len(which), {"name": [names[i] for i in which.tolist()]})
    numbers, texts = _TEXTS[by](timeline, calls, deepest)
    group, (which, others) = factorize(name[shown], numbers[shown])
    return Groups(
        group,
        len(which),
        {
            "name": [names[i] for i in which.tolist()],
            by: [None if i == MISSING else texts[i] for i in others.tolist()],
        },
    )


def tree_keys(paths: Paths, names: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Return the key columns of the rows of a tree, by path, and their levels."""
    last = [names[i] for i in paths.name.tolist()]
    texts = path_texts(paths.parent, last.__getitem__, np.arange(len(paths)))
    return {"name": last, "path": texts, "level": paths.level.tolist()}


def tree_order(paths: Paths, total: Any, limit: int) -> Array:
    """Return the paths with the greatest totals, `limit` of them (0: all), each before those inside it.

    The total of a path is at least that of each inside, so that all that a row lies in is there.
    """
    totals = np.asarray(total)
    order = paths.depth_first(totals)
    if not limit or limit >= len(paths):
        return order
    kept = np.zeros(len(paths), bool)
    kept[np.lexsort((np.arange(len(paths)), -totals))[:limit]] = True
    largest: Array = order[kept[order]]
    return largest


def not_recorded(timeline: Timeline, report: str, fact: Fact) -> NotRecorded:
    """Return the error of a report that needs a fact, with how to record it, as the source has it."""
    advice = timeline.profile.advice.get(fact, _ADVICE.get(fact))
    return NotRecorded(report, [fact], [advice] if advice else [])


# How to record what a source cannot know to be missing: its operators are named ranges.
_ADVICE = {
    Fact.INPUT_SHAPES: "Record with `record_shapes=True`, or with `autograd-shapes-nvtx`.",
}


def _subtree(calls: OperatorCalls, shown: Array) -> Tree:
    # The nodes alone. Of what begins before a slice only the parts in it are there.
    place = np.full(len(calls.parent) + 1, -1)
    place[shown] = np.arange(len(shown))
    parent = place[calls.parent[shown]]
    return Tree(calls.spans.take(shown), parent)


def _shapes(timeline: Timeline, calls: OperatorCalls, _: int) -> Numbered:
    shapes, texts = input_shapes(timeline, calls.asked)
    if not texts:
        raise not_recorded(timeline, "operators:by=shapes", Fact.INPUT_SHAPES)
    return shapes, texts


def _modules(timeline: Timeline, calls: OperatorCalls, _: int) -> Numbered:
    modules = module_calls(timeline, calls)
    paths = modules.tree.paths
    texts = tree_keys(paths, modules.tree.spans.names)["path"]
    return np.append(paths.of, MISSING)[modules.of_node], texts


def _with_overloads(timeline: Timeline, calls: OperatorCalls) -> tuple[Array, Sequence[str]]:
    # Overloads are behind a dot of the names as recorded, where they were.
    ids = calls.column(timeline, "name_id")
    own, (known,) = factorize(ids)
    texts = timeline.profile.names(known[known != MISSING])
    numbers = {name: number for number, name in enumerate(calls.spans.names)}
    found = np.array([
        numbers.setdefault(group_name(texts[i], overloads=True), len(numbers)) if i in texts else MISSING
        for i in known.tolist()], np.int64)[own]  # fmt: skip
    return np.where(found == MISSING, calls.spans.name, found), tuple(numbers)


_TEXTS: Mapping[str, Callable[[Timeline, OperatorCalls, int], Numbered]] = {
    "shapes": _shapes,
    "stack": stacks,
    "module": _modules,
}
GROUPS = ("name", *_TEXTS, "overload", "path")
"""Ways to group calls of operators."""
