"""Calls of a framework's operators as a tree: who lies in whom, and what each launched."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from nsysconv.facts import Fact
from nsysconv.report import MISSING
from nsysconv.threads import cached_property
from nsysconv.timeline.annotations import (
    OPERATOR,
    PUSH_POP,
    PYTHON_FUNCTION,
    operators,
    range_arguments,
    ranges,
    which_named,
)
from nsysconv.timeline.arrays import Array, counts, factorize, indices, sums, take
from nsysconv.timeline.events import OpKind, Spans
from nsysconv.timeline.intervals import innermost
from nsysconv.timeline.kernel_categories import YES, eligible, tensor_core_use
from nsysconv.timeline.nesting import (
    Tree,
    added_up,
    build_tree,
    covered,
    innermost_of,
    inside_out,
    without_crossing,
)
from nsysconv.timeline.range_names import SEQUENCE, SIZES, group_spans
from nsysconv.timeline.timeline import Timeline, cached_whole

ANNOTATION, CALLED, API_CALL, FUNCTION = range(4)
"""Kinds of nodes: ranges of the program, operators, API calls, Python functions."""

# PyTorch's profiler leaves these out of its tables: it calls them itself, or they only ask.
_UTILITIES = frozenset(
    (
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    )
)
_WHOLE = re.compile(r"\d{1,18}")
# All API calls have this name, which no operator has, because nothing here depends on their names.
_NO_NAME = "\0"


@dataclass(frozen=True)
class OperatorCalls:
    """Calls of operators, with ranges and functions on request, and the API calls in them, as nodes.

    A node's `parent` is the innermost operator, range or function that holds it on its thread, and its
    `holder` the innermost node, which may be an API call; -1 for none. Left out are a call that is all
    that a call of the same name holds, and an API call directly in another: what they hold lies in that.
    `spans` are all of them, operators with the names of their groups; `kept` says which are nodes.
    A node's row is a call's place in `calls`, a range's in `ranges`, or -1 less the row of `operator`.
    `asked` are the annotations and functions that were asked for.
    """

    spans: Spans
    parent: Array
    holder: Array
    kept: Array
    asked: tuple[bool, bool]
    node_of_call: Array
    """Per API call the innermost operator, range or function that it lies in, -1 for none."""

    @cached_property
    def operator_row(self) -> Array:
        """Return the row of the table `operator` that each node is, -1 for none."""
        return np.where(self.spans.row < 0, -1 - self.spans.row, -1)

    @cached_property
    def range_place(self) -> Array:
        """Return the place in `ranges` of each node, -1 for others."""
        return np.where(self.spans.kind == API_CALL, -1, np.maximum(self.spans.row, -1))

    @property
    def rows(self) -> Array:
        """Return the nodes that are calls of operators, ranges or functions, as indices."""
        return np.flatnonzero(self.kept & (self.spans.kind != API_CALL))

    @cached_property
    def dur(self) -> Array:
        """Return the durations of the nodes."""
        result: Array = self.spans.end - self.spans.start
        return result

    @cached_property
    def self_ns(self) -> Array:
        """Return the durations without the time of the nodes directly inside, API calls among them."""
        inside = np.flatnonzero(self.kept & (self.holder >= 0))
        start, end = self.spans.start[inside], self.spans.end[inside]
        result: Array = self.dur - covered(self.holder[inside], start, end, len(self.parent))
        return result

    @cached_property
    def api_ns(self) -> Array:
        """Return the self times of the API calls in each node and in no other, added up."""
        mine = self.kept & (self.parent >= 0) & (self.spans.kind == API_CALL)
        inside = np.flatnonzero(mine)
        return sums(self.parent[inside], self.self_ns[inside], len(self.parent))

    def named(self, names: frozenset[str]) -> Array:
        """Return which nodes are calls of operators with one of these names, as a mask."""
        fitting = np.array([name in names for name in self.spans.names], bool)
        result: Array = fitting[self.spans.name] & (self.spans.kind == CALLED)
        return result

    def with_nested(self, values: Array) -> Array:
        """Return per node its value and those of the rows inside, added up."""
        return added_up(self.parent, values, self._inside_out)

    @cached_property
    def _inside_out(self) -> list[Array]:
        return inside_out(self.parent, self.rows)

    def innermost(self, mask: Array) -> Array:
        """Return per node the innermost node of a mask that it is, or lies in, -1 for none."""
        return innermost_of(self.parent, mask)

    def column(self, timeline: Timeline, name: str) -> Array:
        """Return a column of the table `operator` by node, MISSING for what is not one of its rows."""
        result = np.full(len(self.parent), MISSING)
        there = np.flatnonzero(self.operator_row >= 0)
        values = timeline.profile.columns("operator", (name,))[name]
        result[there] = take(values, self.operator_row[there])
        return result


@cached_whole
def may_have_operators(timeline: Timeline) -> bool:
    """Return whether operators were recorded, as far as the source and the names of ranges say."""
    return Fact.OPERATORS in timeline.profile.facts or bool(ranges(timeline).called.any())


@cached_whole
def operator_calls(
    timeline: Timeline, annotations: bool = False, functions: bool = False
) -> OperatorCalls:
    """Return the calls of operators of a profile, those outside a slice, too.

    Operators are rows of `operator`, and ranges whose names have the arguments that PyTorch's `emit_nvtx`
    writes (`aten::mm, seq = 7, op_id = 12, sizes = [[2, 3], [3, 4]]`). `annotations`: other ranges of
    threads are nodes, too; `functions`: so are Python functions.
    """
    calls = timeline.calls
    row = indices(calls.on_a_thread(np.arange(len(calls))))
    pids, tids = np.array(calls.threads or [(0, 0)], np.int64).T
    thread, zero = take(calls.thread, row), np.broadcast_to(np.int8(0), len(row))
    inner = Spans(
        start=take(calls.start, row),
        end=take(calls.end, row),
        pid=take(pids, thread),
        tid=take(tids, thread),
        kind=np.broadcast_to(np.int8(API_CALL), len(row)),
        domain=zero,
        row=row,
        name=zero,
        names=(_NO_NAME,),
    )
    nodes = _nodes(timeline, annotations, functions).followed_by(inner)
    tree = without_crossing(build_tree(nodes))
    del nodes, inner  # which take as much memory again
    spans = tree.spans
    is_call = spans.kind == API_CALL
    kept = _without_doubles(tree, is_call)
    holder, parent = (
        np.append(innermost_of(tree.parent, mask), -1)[tree.parent]
        for mask in (kept, kept & ~is_call)
    )
    node_of_call = np.full(len(calls), -1)
    node_of_call[spans.row[is_call]] = parent[is_call]
    asked = annotations, functions
    return OperatorCalls(spans, parent, holder, kept, asked, node_of_call)


@cached_whole
def input_shapes(timeline: Timeline, asked: tuple[bool, bool]) -> tuple[Array, tuple[str, ...]]:
    """Return the number of the shapes of inputs of each node, MISSING: not recorded, and the shapes.

    `asked` is that of the tree of operators.
    """
    calls = operator_calls(timeline, *asked)
    shapes = np.full(len(calls.parent), MISSING)
    texts: dict[str, int] = {}
    of_range, of_row = (np.flatnonzero(at >= 0) for at in (calls.range_place, calls.operator_row))
    if len(of_range):
        number, sizes = range_arguments(timeline, SIZES)
        known = [texts.setdefault(each, len(texts)) if each else MISSING for each in sizes]
        shapes[of_range] = np.array(known, np.int64)[number[calls.range_place[of_range]]]
    if len(of_row):
        shapes[of_row] = _shapes(timeline, calls.operator_row[of_row], texts)
    return shapes, tuple(texts)


@cached_whole
def sequence_numbers(timeline: Timeline, asked: tuple[bool, bool]) -> Array:
    """Return the number that a forward operator and its backward share, MISSING: not recorded.

    `asked` is that of the tree of operators.
    """
    calls = operator_calls(timeline, *asked)
    result = np.full(len(calls.parent), MISSING)
    of_range, of_row = (np.flatnonzero(at >= 0) for at in (calls.range_place, calls.operator_row))
    if len(of_range):
        number, texts = range_arguments(timeline, SEQUENCE)
        known = [int(each) if _WHOLE.fullmatch(each) else MISSING for each in texts]
        result[of_range] = np.array(known, np.int64)[number[calls.range_place[of_range]]]
    if len(of_row):
        numbered = timeline.profile.columns("operator", ("sequence_number",))["sequence_number"]
        result[of_row] = take(numbered, calls.operator_row[of_row])
    return result


def node_at(calls: OperatorCalls, nodes: Array, pid: Array, tid: Array, moments: Array) -> Array:
    """Return per moment of a thread the innermost of these nodes that is under way on it, -1 for none."""
    spans = calls.spans
    result = np.full(len(moments), -1)
    group, _ = factorize(
        np.concatenate((spans.pid[nodes], pid)), np.concatenate((spans.tid[nodes], tid))
    )
    of_node, of_moment = group[: len(nodes)], group[len(nodes) :]
    for thread in np.unique(of_moment[tid != MISSING]).tolist():
        mine, here = nodes[of_node == thread], np.flatnonzero(of_moment == thread)
        result[here] = innermost(spans.start[mine], spans.end[mine], mine).at(moments[here])
    return result


def node_of_ops(timeline: Timeline, calls: OperatorCalls, nodes: Array) -> Array:
    """Return per GPU operation of a time line which of these nodes launched it, -1 for none."""
    owner = timeline.owner
    result = np.full(len(owner), -1)
    linked = np.flatnonzero(owner >= 0)
    result[linked] = calls.node_of_call[owner[linked]]
    among = np.zeros(len(calls.parent) + 1, bool)
    among[nodes] = True
    result[~among[result]] = -1
    return result


def eligible_calls(timeline: Timeline, calls: OperatorCalls, node: Array) -> Array:
    """Return which nodes are calls whose work could run on Tensor Cores, as a mask.

    By their names, those of operators inside, or a kernel that one of these launched: `node` is per GPU
    operation the node that launched it, -1 for none.
    """
    could = calls.named(eligible())
    kernels = np.flatnonzero((timeline.ops.kind == OpKind.KERNEL) & (node >= 0))
    uses = tensor_core_use(timeline)[timeline.ops.row[kernels]] == YES
    could[node[kernels[uses]]] = True
    result: Array = calls.with_nested(could.astype(np.int64)) > 0
    return result


def eligible_names(timeline: Timeline, calls: OperatorCalls, nodes: Array, node: Array) -> Array:
    """Return by number of a name whether any of `nodes` with it is such a call, as a mask."""
    could = nodes[eligible_calls(timeline, calls, node)[nodes]]
    return counts(calls.spans.name[could], len(calls.spans.names)) > 0


def _without_doubles(tree: Tree, is_call: Array) -> Array:
    # The mask is true for nodes that are kept. An API call inside another is dropped: the outer call
    # has the time, and both launch for the same operator.
    name = tree.spans.name
    inside = np.flatnonzero(tree.parent >= 0)
    above = tree.parent[inside]
    same = (name[above] == name[inside]) & (tree.child_count[above] == 1) & ~is_call[inside]
    kept = np.ones(len(tree), bool)
    kept[inside[same | (is_call[above] & is_call[inside])]] = False
    return kept


def _nodes(timeline: Timeline, annotations: bool, functions: bool) -> Spans:
    # The nodes are operators and, on request, ranges and functions. Ranges come first, because they
    # are outer if both begin and end together.
    around = ranges(timeline)
    own = np.array([text not in _UTILITIES for text in around.names], bool)
    place = indices((around.kind == PUSH_POP) & own[around.name] & (around.called | annotations))
    kind = np.where(take(around.called, place), np.int8(CALLED), np.int8(ANNOTATION))
    of_ranges = replace(group_spans(around.take(place)), kind=kind, row=place)
    run = operators(timeline)
    is_row = run.kind == OPERATOR
    if functions:
        is_row |= run.kind == PYTHON_FUNCTION
    run = run.take(is_row & ~which_named(run, _UTILITIES.__contains__))
    kind = np.where(run.kind == PYTHON_FUNCTION, np.int8(FUNCTION), np.int8(CALLED))
    found = of_ranges.followed_by(replace(group_spans(run), kind=kind, row=-1 - run.row))
    # Functions come before the operators that they call.
    return found.take(np.argsort(found.kind != FUNCTION, kind="stable")) if functions else found


def _shapes(timeline: Timeline, rows: Array, texts: dict[str, int]) -> Array:
    # The result numbers the shapes of operators by `texts`, to which it adds new ones.
    ids = timeline.profile.columns("operator", ("shapes_id",))["shapes_id"]
    place, (known,) = factorize(take(ids, rows))
    named = timeline.profile.names(known[known != MISSING])
    number = [
        texts.setdefault(without_lists_of_tensors(named[i]), len(texts)) if i in named else MISSING
        for i in known.tolist()
    ]
    result: Array = np.array(number, np.int64)[place]
    return result


def without_lists_of_tensors(text: str) -> str:
    """Return shapes of inputs as PyTorch's tables have them: a list of tensors is `[]`."""
    text = "".join(text.split())
    shapes: list[str] = []
    depth, begin = 0, 0
    is_list = False
    for place, sign in enumerate(text):
        if sign == "[":
            depth += 1
            if depth == 2:
                begin, is_list = place, False
            is_list = is_list or depth > 2
        elif sign == "]":
            if depth == 2:
                shapes.append("[]" if is_list else text[begin : place + 1].replace(",", ", "))
            depth -= 1
    return f"[{', '.join(shapes)}]"
