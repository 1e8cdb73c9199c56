"""Forward operators and the calls of the backward pass that belong to them."""

from __future__ import annotations

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, factorize
from nsysconv.timeline.operator_calls import CALLED, OperatorCalls, sequence_numbers
from nsysconv.timeline.timeline import Timeline

EVALUATE = "autograd::engine::evaluate_function"
"""How names begin of the calls around each call of the backward pass."""


def is_backward(timeline: Timeline, calls: OperatorCalls) -> Array:
    """Return which nodes are calls of the backward pass of an operator, or what is around one, as a mask.

    Where the source does not say so, these are the calls of autograd's engine and the calls directly in
    them that bear the same number.
    """
    result = calls.column(timeline, "forward_thread") > 0
    engine = np.array([name.startswith(EVALUATE) for name in calls.spans.names], bool)
    around = engine[calls.spans.name] & (calls.operator_row < 0)
    inside = np.flatnonzero(calls.parent >= 0)
    above, sequence = calls.parent[inside], sequence_numbers(timeline, calls.asked)
    same = around[above] & (sequence[above] == sequence[inside])
    result |= around
    result[inside[same]] = True
    numbered: Array = result & (sequence != MISSING)
    return numbered


def backward_of(timeline: Timeline, calls: OperatorCalls) -> Array:
    """Return per node the call of the backward pass that belongs to it, -1 for none.

    As PyTorch's profiler links them (`fwdbwd` in its traces): of the calls with one number, in the order
    of their ends, a forward call is remembered if it began later than the one remembered, and the next
    backward call is linked to it, which is then forgotten. So of nested calls the innermost are linked.
    """
    result = np.full(len(calls.parent), -1)
    numbered, backward, group = _by_number(timeline, calls)
    if not len(numbered):
        return result
    spans = calls.spans
    # If two calls end together, the inner one, which comes later in `calls`, ends first.
    order = np.lexsort((-numbered, spans.end[numbered], group))
    numbered, backward, group = numbered[order], backward[order], group[order]
    # What lies between two backward calls of a group belongs to the second.
    passed = np.cumsum(backward) - backward
    epoch, _ = factorize(group, passed)
    forward = np.flatnonzero(~backward)
    # If two forward calls begin together, `latest` keeps the one that ends first.
    by_start = forward[np.lexsort((-forward, spans.start[numbered[forward]], epoch[forward]))]
    latest = np.full(int(epoch.max()) + 1, -1)
    latest[epoch[by_start]] = numbered[by_start]
    linked = np.flatnonzero(backward & (latest[epoch] >= 0))
    result[latest[epoch[linked]]] = numbered[linked]
    return result


def first_forward(timeline: Timeline, calls: OperatorCalls) -> Array:
    """Return per call of the backward pass the first forward call with its number, -1 for others."""
    result = np.full(len(calls.parent), -1)
    numbered, backward, group = _by_number(timeline, calls)
    if len(numbered):
        forward = numbered[~backward]
        first = np.full(int(group.max()) + 1, -1)
        late_first = np.lexsort((-calls.spans.start[forward], group[~backward]))
        first[group[~backward][late_first]] = forward[late_first]
        result[numbered[backward]] = first[group[backward]]
    return result


def _by_number(timeline: Timeline, calls: OperatorCalls) -> tuple[Array, Array, Array]:
    # The calls with a number, which of them are of the backward pass, and the group of each: by its
    # number and the thread of the forward.
    sequence = sequence_numbers(timeline, calls.asked)
    numbered = np.flatnonzero(calls.kept & (calls.spans.kind == CALLED) & (sequence != MISSING))
    backward = is_backward(timeline, calls)[numbered]
    thread = _forward_threads(timeline, calls, numbered, backward)
    known = thread >= 0
    numbered = numbered[known]
    group, _ = factorize(thread[known], sequence[numbered])
    return numbered, backward[known], group


def _forward_threads(
    timeline: Timeline, calls: OperatorCalls, numbered: Array, backward: Array
) -> Array:
    # The result has, per call, the number of the forward's thread, or -1 if it is unknown. A source has
    # PyTorch's own number of the thread for a backward call. It is the thread whose forward calls have
    # the sequence numbers of such calls. If the source has no number, all forward calls of a process
    # must be on one thread.
    spans = calls.spans
    own, (pids, _) = factorize(spans.pid[numbered], spans.tid[numbered])
    result = own.copy()
    forward = ~backward
    process, _ = factorize(spans.pid[numbered])
    count, _ = factorize(process, calls.column(timeline, "forward_thread")[numbered])
    key, (_, _) = factorize(process, sequence_numbers(timeline, calls.asked)[numbered])
    # `only` has the thread of each sequence number that occurs in the forward of one thread alone.
    size = int(key.max(initial=-1)) + 1
    low, high = np.full(size, len(pids)), np.full(size, -1)
    np.minimum.at(low, key[forward], own[forward])
    np.maximum.at(high, key[forward], own[forward])
    only = np.where(low == high, low, -1)[key]
    for each in np.unique(count[backward]).tolist():
        members = backward & (count == each)
        threads = only[members][only[members] >= 0]
        usual = int(np.bincount(threads).argmax()) if len(threads) else -1
        result[members] = np.where(only[members] >= 0, only[members], usual)
    return result
