"""Call stacks of operators, as PyTorch's tables have them."""

from __future__ import annotations

import re

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, by_group, factorize
from nsysconv.timeline.forward_links import EVALUATE, first_forward, is_backward
from nsysconv.timeline.nesting import levels
from nsysconv.timeline.operator_calls import (
    ANNOTATION,
    FUNCTION,
    OperatorCalls,
    node_at,
    operator_calls,
)
from nsysconv.timeline.timeline import Timeline

# Entries that are left out of stacks: of what starts the backward pass, and of PyTorch's own tests.
_LEFT_OUT = re.compile(
    r"autograd/__init__\.py\(\d+\): (?:_make_grads|backward)\b"
    r"|torch/testing/_internal/common_utils\.py|unittest/"
)
_ACCUMULATE = "AccumulateGrad"
# `group_name` writes addresses in this way.
_ADDRESS = " object at 0x…"
SEPARATOR = " < "
"""Between the entries of a stack that is shown, the innermost first."""


def stacks(timeline: Timeline, calls: OperatorCalls, deepest: int) -> tuple[Array, tuple[str, ...]]:
    """Return per node the number of its stack, MISSING for none, and the stacks by number.

    Of each, the `deepest` innermost entries (0: all): the Python functions around it, if `calls` has
    them, else those of the stack that was recorded. A call in the backward pass has the stack of the
    first forward call with its number, none without a number.
    """
    if (calls.spans.kind == FUNCTION).any():
        place, entries = _functions_around(timeline, calls)
    else:
        place, (ids,) = factorize(calls.column(timeline, "stack_id"))
        names = timeline.profile.names(ids[ids != MISSING])
        entries = [tuple(names[i].split(";")) if i in names else () for i in ids.tolist()]
    numbers: dict[str, int] = {}
    texts = [_shown(each, deepest) for each in entries]
    of = [numbers.setdefault(text, len(numbers)) if text else MISSING for text in texts]
    number = np.array(of, np.int64)[place]
    source = _source(timeline, calls)
    return np.where(source >= 0, number[source], MISSING), tuple(numbers)


def _shown(entries: tuple[str, ...], deepest: int) -> str:
    kept = [entry for entry in entries if entry and not _LEFT_OUT.search(entry)]
    return SEPARATOR.join(kept[: deepest or None])


def _functions_around(
    timeline: Timeline, calls: OperatorCalls
) -> tuple[Array, list[tuple[str, ...]]]:
    # The result has, per node, the number of its stack of functions, innermost first. A range may begin
    # in one function and end in another, so ranges do not separate functions; a range has the functions
    # in which it begins.
    rows = timeline.profile.row_count("operator")
    without_ranges = operator_calls(timeline, False, True)
    own, inside, entries = _functions_by_node(without_ranges)
    by_row = np.zeros(rows + 1, np.int64)  # the last, which -1 is, has the stack without entries
    known = without_ranges.operator_row >= 0
    by_row[without_ranges.operator_row[known]] = own[known]
    result = by_row[np.maximum(calls.operator_row, -1)]
    ranges = np.flatnonzero(calls.spans.kind == ANNOTATION)
    pid, tid, start = (
        each[ranges] for each in (calls.spans.pid, calls.spans.tid, calls.spans.start)
    )
    functions = np.flatnonzero(without_ranges.spans.kind == FUNCTION)
    result[ranges] = np.append(inside, 0)[node_at(without_ranges, functions, pid, tid, start)]
    return result, entries


def _functions_by_node(calls: OperatorCalls) -> tuple[Array, Array, list[tuple[str, ...]]]:
    # The result has, by node, the number of its own stack and of the stack for its children, and the
    # stacks.
    is_function = calls.spans.kind == FUNCTION
    texts = [name.replace(_ADDRESS, "") for name in calls.spans.names]
    known: dict[tuple[int, int], int] = {}
    stacks_: list[tuple[str, ...]] = [()]
    # A parent comes before its children.
    inside = [0] * len(calls.parent)
    own = np.zeros(len(calls.parent), np.int64)
    rows = zip(calls.parent.tolist(), calls.spans.name.tolist(), is_function.tolist(), strict=True)
    for node, (above, name, is_one) in enumerate(rows):
        number = inside[above] if above >= 0 else 0
        own[node] = number
        if is_one:
            key = (number, name)
            if key not in known:
                known[key] = len(stacks_)
                stacks_.append((texts[name], *stacks_[number]))
            number = known[key]
        inside[node] = number
    return own, np.array(inside, np.int64), stacks_


def _source(timeline: Timeline, calls: OperatorCalls) -> Array:
    # The result has, per node, the node whose stack it gets, or -1.
    names = calls.spans.names
    engine = np.array([name.startswith(EVALUATE) for name in names], bool)[calls.spans.name]
    adding = np.array([_ACCUMULATE in name for name in names], bool)[calls.spans.name]
    first = first_forward(timeline, calls)
    backward = (is_backward(timeline, calls) | adding) & calls.kept & ~engine
    # A node inside such a call gets the stack of that call.
    source = np.where(backward, first, np.arange(len(calls.parent)))
    inside = ~backward & (calls.parent >= 0) & calls.kept
    level = levels(calls.parent)
    is_within = backward.copy()
    for here in by_group(level, int(level.max(initial=-1)) + 1)[1:]:
        mine = here[inside[here] & is_within[calls.parent[here]]]
        source[mine] = source[calls.parent[mine]]
        is_within[mine] = True
    return source
