"""Replays of CUDA and HIP graphs: which operations one launch replayed, and of which graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.names import called
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, Columns, counts, distinct, factorize, sums, take
from nsysconv.timeline.events import GpuOps, Lookup, OpKind, has_correlation
from nsysconv.timeline.operator_calls import node_at, operator_calls
from nsysconv.timeline.timeline import Timeline, cached_whole

# The number of a node has that of its instantiated graph in its upper half.
_HALF = 32
# Clones of clones that are followed back to the node that was captured.
_MOST_CLONES = 8
_TABLES = {OpKind.KERNEL: "kernel", OpKind.MEMCPY: "memcpy", OpKind.MEMSET: "memset"}
_ALIKE = ("name_id", "grid_x", "grid_y", "grid_z")


@dataclass(frozen=True)
class Replays(Columns):
    """One entry per replay of a graph, in the order of their first operations.

    `graph` numbers the graphs, `first` is the first operation in `Graphs.ops`, `call` the launch in
    `Timeline.calls`, -1 for none. `dur` is from the start of the first operation to the end of the last,
    MISSING where none has a time, and `op_sum` the sum of the operations' durations.
    """

    graph: Array
    first: Array
    call: Array
    dur: Array
    op_count: Array
    op_sum: Array


@dataclass(frozen=True)
class Graphs:
    """The graphs of a whole profile, by process and number, and their replays.

    `exec_id` is the number of the instantiated graph, MISSING where none is recorded: then graphs differ
    by the names and grids of their operations. `device` is MISSING for several. `is_whole`: recorded as
    one interval per replay. `node_count` is the number of operations of the replay with most. `ops` are
    the operations of replays, `place` is where in `Timeline.ops`, `replay` the replay of each, and `node`
    its graph node, MISSING where none is recorded.
    """

    pid: Array
    device: Array
    exec_id: Array
    is_whole: Array
    node_count: Array
    replays: Replays
    ops: GpuOps
    place: Array
    replay: Array
    node: Array


@cached_whole
def graphs(timeline: Timeline) -> Graphs:
    """Return the graphs of a profile. A replay is what a call launched, or an interval without a call."""
    owner, node = timeline.whole.owner, _nodes(timeline)
    launches = called("graph_launch")
    names = [i for i, name in timeline.call_names.items() if launches(name)]
    launched = np.append(np.isin(timeline.calls.name_id, names), False)[owner]
    every = timeline.whole.ops
    noted = (node != MISSING) & ((owner >= 0) | has_correlation(every.correlation))
    place = np.flatnonzero(launched | noted | (every.kind == OpKind.GRAPH))
    ops, call, node = every.take(place), owner[place], node[place]
    is_interval = ops.kind == OpKind.GRAPH
    # Without its call, a node shares the correlation id with the rest of its replay.
    other = np.where(is_interval, -1 - place, ops.correlation.astype(np.int64))
    replay, first = _by_first(factorize(ops.pid, call, np.where(call >= 0, 0, other))[0])
    count = len(first)
    exec_id = np.full(count, MISSING)
    np.maximum.at(exec_id, replay, np.where(node >> _HALF > 0, node >> _HALF, MISSING))
    own = timeline.profile.columns("graph_launch", ("graph_exec_id",))["graph_exec_id"]
    exec_id[replay[is_interval]] = own[ops.row[is_interval]]
    graph, (pid, ids, _) = factorize(
        ops.pid[first], exec_id, _contents(timeline, ops, replay, exec_id)
    )
    op_count = counts(replay, count)
    node_count = np.zeros(len(pid), np.int64)
    np.maximum.at(node_count, graph, op_count)
    is_whole = np.zeros(len(pid), bool)
    is_whole[graph[replay[is_interval]]] = True
    op_sum = sums(replay, ops.dur, count)
    replays = Replays(graph, first, call[first], _lengths(ops, replay, count), op_count, op_sum)
    device = _only(graph[replay], ops.device, len(pid))
    return Graphs(pid, device, ids, is_whole, node_count, replays, ops, place, replay, node)


def captured_in(timeline: Timeline, found: Graphs) -> tuple[Array, tuple[str, ...]]:
    """Return per operation of the replays in what its node was captured: numbers of texts, -1: unknown.

    It is what the program called that part of the capture, else the innermost operator or range that was
    open on the thread when the node was made.
    """
    ids = _columns(timeline, found.ops, "annotation_id")
    number, (values,) = factorize(ids)
    known = values[values != MISSING]
    texts = [*map(timeline.profile.names(known).__getitem__, known.tolist())]
    result = np.where(ids == MISSING, -1, number - (len(values) - len(texts)))
    names = ("start_ns", "pid", "tid", "graph_node_id", "original_graph_node_id")
    made = timeline.profile.columns("graph_node", names)
    row = _rows_of_nodes(made, found.ops.pid, found.node)
    asked = np.flatnonzero((row >= 0) & (result < 0))
    if not len(asked):
        return result, tuple(texts)
    calls = operator_calls(timeline.whole, True)
    which, (rows,) = factorize(row[asked])
    at = node_at(calls, calls.rows, *(made[each][rows] for each in ("pid", "tid", "start_ns")))
    # What the program called so and an operator of that name are one.
    numbers = {text: number for number, text in enumerate(texts)}
    of_name = [numbers.setdefault(text, len(numbers)) for text in calls.spans.names]
    named = np.append(np.array(of_name, np.int64)[calls.spans.name], -1)[at]
    result[asked] = named[which]
    return result, tuple(numbers)


def _columns(timeline: Timeline, ops: GpuOps, name: str) -> Array:
    # A column of the tables of kernels, copies and memsets, by operation.
    result = np.full(len(ops), MISSING)
    for kind, table in _TABLES.items():
        mine = np.flatnonzero(ops.kind == kind)
        if len(mine):
            result[mine] = take(timeline.profile.columns(table, (name,))[name], ops.row[mine])
    return result


def _nodes(timeline: Timeline) -> Array:
    node = _columns(timeline, timeline.whole.ops, "graph_node_id")
    node[node == 0] = MISSING
    return node


def _by_first(replay: Array) -> tuple[Array, Array]:
    # Replays are numbered anew by their first operations, which are the second result.
    first = np.zeros(int(replay.max(initial=-1)) + 1, np.int64)
    first[replay[::-1]] = np.arange(len(replay))[::-1]  # written backwards, the first one stays
    order = np.argsort(first)
    number = np.argsort(order)
    return number[replay], first[order]


def _lengths(ops: GpuOps, replay: Array, count: int) -> Array:
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, MISSING)
    np.minimum.at(low, replay[ops.timed], ops.start[ops.timed])
    np.maximum.at(high, replay, ops.end)
    return np.where(high == MISSING, MISSING, high - np.where(high == MISSING, 0, low))


def _contents(timeline: Timeline, ops: GpuOps, replay: Array, exec_id: Array) -> Array:
    # A number per replay without an id, the same for those with the same operations in whatever order.
    asked = np.flatnonzero(exec_id[replay] == MISSING)
    kernel = ops.kind[asked] == OpKind.KERNEL
    columns = timeline.profile.columns("kernel", _ALIKE)
    alike = np.zeros((len(_ALIKE), len(asked)), np.int64)
    alike[:, kernel] = [columns[name][ops.row[asked[kernel]]] for name in _ALIKE]
    label, _ = factorize(ops.kind[asked].astype(np.int64), *alike)
    order = np.lexsort((label, replay[asked]))
    of_replay, content = replay[asked[order]], label[order]
    edges = np.flatnonzero(np.diff(of_replay)) + 1
    numbers: dict[bytes, int] = {}
    result = np.zeros(len(exec_id), np.int64)
    for number, part in zip(distinct(of_replay).tolist(), np.split(content, edges), strict=False):
        result[number] = numbers.setdefault(part.tobytes(), len(numbers))
    return result


def _only(group: Array, values: Array, count: int) -> Array:
    # The value that all members of a group have, MISSING where they differ.
    _, (groups, different) = factorize(group, values)
    result = np.full(count, MISSING)
    result[groups] = different
    result[counts(groups, count) > 1] = MISSING
    return result


def _rows_of_nodes(made: dict[str, Array], pid: Array, node: Array) -> Array:
    # The row of `graph_node` in which each operation's node, or what it is a clone of, was made.
    result = np.full(len(node), -1)
    for process in distinct(made["pid"]).tolist():
        rows = np.flatnonzero(made["pid"] == process)
        lookup = Lookup(made["graph_node_id"][rows], np.arange(len(rows)))
        origin, original = np.arange(len(rows)), made["original_graph_node_id"][rows]
        for _ in range(_MOST_CLONES):
            above = lookup.of(original[origin])
            origin = np.where(above >= 0, above, origin)
        mine = np.flatnonzero((pid == process) & (node != MISSING))
        result[mine] = np.append(rows[origin], -1)[lookup.of(node[mine])]
    return result
