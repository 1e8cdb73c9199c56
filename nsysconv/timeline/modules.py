"""Modules of a network (`nn.Module`), as the Python functions of a recording show them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nsysconv.threads import cached_property
from nsysconv.timeline.annotations import PYTHON_FUNCTION, operators
from nsysconv.timeline.arrays import Array, counts
from nsysconv.timeline.events import Spans
from nsysconv.timeline.forward_links import is_backward
from nsysconv.timeline.nesting import (
    Tree,
    build_tree,
    covered,
    innermost_of,
    without_crossing,
)
from nsysconv.timeline.operator_calls import API_CALL, OperatorCalls
from nsysconv.timeline.timeline import Timeline

_PREFIX = "nn.Module: "
IN_BACKWARD = " [in backward]"
"""Behind the name of a module that a call of the backward pass holds, and no module inside that."""


@dataclass(frozen=True)
class ModuleCalls:
    """Calls of modules, and what lies in them on their threads.

    `tree` has the modules alone. Its `paths` lead through modules only: one that is used in two places
    has two paths. `of_node` is per node of the operators the innermost module around it, -1 for none.
    Of the operators and modules that are directly in a module, by start, `above` is that module, `start`
    and `end` their times, and `is_operator` says which are operators.
    """

    tree: Tree
    of_node: Array
    above: Array
    start: Array
    end: Array
    is_operator: Array

    @cached_property
    def self_ns(self) -> Array:
        """Return the durations of the calls without the time of operators and modules directly inside."""
        own = self.tree.spans.end - self.tree.spans.start
        result: Array = own - covered(self.above, self.start, self.end, len(self.tree))
        return result

    @cached_property
    def operator_count(self) -> Array:
        """Return how many operators are directly in each call: in no other operator or module."""
        return counts(self.above[self.is_operator], len(self.tree))


def module_spans(timeline: Timeline) -> Spans:
    """Return the calls of modules, named by their class and number (`Linear_0`)."""
    run = operators(timeline)
    is_module = np.array([name.startswith(_PREFIX) for name in run.names], bool)
    run = run.take(is_module[run.name] & (run.kind == PYTHON_FUNCTION))
    names = tuple(name.removeprefix(_PREFIX) for name in run.names)
    return Spans(
        run.start, run.end, run.pid, run.tid, run.kind, run.domain, run.row, run.name, names
    )


def module_calls(timeline: Timeline, calls: OperatorCalls) -> ModuleCalls:
    """Return the calls of modules of a profile, those outside a slice, too."""
    modules, spans = module_spans(timeline), calls.spans
    count = len(modules)
    # A module before the operator that begins and ends with it.
    both = replace(modules.followed_by(spans), row=np.arange(count + len(spans)))
    combined = without_crossing(build_tree(both))
    is_module = combined.spans.row < count
    inner = innermost_of(combined.parent, is_module)
    outer = np.append(inner, -1)[combined.parent]
    places = np.flatnonzero(is_module)
    nodes = combined.spans.row[~is_module] - count
    in_backward = np.zeros(len(combined), bool)
    in_backward[~is_module] = is_backward(timeline, calls)[nodes]
    nearest = np.append(innermost_of(combined.parent, is_module | in_backward), -1)[combined.parent]
    again = (nearest[places] >= 0) & in_backward[nearest[places]]
    # `number` maps a node's place to the number of its module call, or to -1. The extra last element is
    # what index -1 selects.
    number = np.full(len(combined) + 1, -1)
    number[places] = np.arange(count)
    parent = number[outer[places]]
    tree = Tree(_marked(modules.take(combined.spans.row[places]), again), parent)
    of_node = np.full(len(spans), -1)
    of_node[nodes] = number[inner[~is_module]]
    is_row = np.zeros(len(combined), bool)
    is_row[~is_module] = (calls.kept & (spans.kind != API_CALL))[nodes]
    # A node in an API call counts as lying in the node around that call.
    is_around = is_module | (combined.spans.kind != API_CALL)
    around = np.append(innermost_of(combined.parent, is_around), -1)[combined.parent]
    direct = np.flatnonzero((around >= 0) & (is_module | is_row))
    direct = direct[is_module[around[direct]]]
    both, above = combined.spans.take(direct), number[around[direct]]
    return ModuleCalls(tree, of_node, above, both.start, both.end, ~is_module[direct])


def _marked(modules: Spans, again: Array) -> Spans:
    # Modules that the backward pass calls get another name, and so have paths of their own.
    names = (*modules.names, *(name + IN_BACKWARD for name in modules.names))
    return replace(modules, name=modules.name + len(modules.names) * again, names=names)
