"""Launches that a graph capture took, which became nodes of a graph, and nodes that replays lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nsysconv.timeline.arrays import Array, among, distinct, factorize

_NEVER = np.iinfo(np.int64).max


def are_captured(
    calls: Mapping[str, Array],
    thread: Array,
    ends: tuple[Array, Array],
    worked: Array,
    which: Array,
) -> Array:
    """Return which of these launches without an operation a graph capture took.

    A capture takes the launches of its thread, and of threads of its process all of whose launches
    during the capture lack an operation, as autograd's do. A capture whose end is not recorded ends
    before the next launch with an operation. `thread` numbers the threads of all calls, `ends` are the
    calls that begin and end captures, `worked` the launches with an operation.
    """
    pid, start = calls["pid"], calls["start_ns"]
    begin, end = ends
    result = np.zeros(len(which), bool)
    moment, of, with_work = start[which], thread[which], start[worked]
    order = np.argsort(moment, kind="stable")
    moment = moment[order]
    for own in distinct(thread[begin]).tolist():
        begun, ended, after = (
            np.sort(start[each[thread[each] == own]]) for each in (begin, end, worked)
        )
        process = pid[begin[thread[begin] == own][0]]
        for since, until, is_closed in _captures(begun, ended, after):
            during = order[slice(*np.searchsorted(moment, (since, until)).tolist())]
            result[during[of[during] == own]] = True
            others = during[~result[during] & (pid[which[during]] == process)]
            if is_closed and len(others):
                busy = thread[worked[(with_work >= since) & (with_work < until)]]
                result[others[~among(of[others], distinct(busy))]] = True
    return result


def _captures(begun: Array, ended: Array, worked: Array) -> Iterator[tuple[int, int, bool]]:
    # The captures of one thread: from when, to when, and whether their end is recorded.
    moments = np.concatenate((begun, ended))
    steps = np.repeat((1, -1), (len(begun), len(ended)))
    order = np.argsort(moments, kind="stable")
    depth, since = 0, 0
    for moment, step in zip(moments[order].tolist(), steps[order].tolist(), strict=True):
        if step > 0:
            if depth and (until := _next(worked, since)) < moment:
                yield since, until, False
                depth = 0
            since = since if depth else moment
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                yield since, moment, True
    if depth:
        yield since, _next(worked, since), False


def _next(moments: Array, since: int) -> int:
    place = int(np.searchsorted(moments, since))
    return int(moments[place]) if place < len(moments) else _NEVER


def missing_nodes(call: Array, pid: Array, node: Array) -> tuple[int, int, int]:
    """Return how many nodes replays lack that others of the graph have, of how many, and a call.

    Each row is an operation of a node in a replay, which a call launched; the result's call is the first
    that lacks one, 0 where none does.
    """
    if not len(call):
        return 0, 0, 0
    _, (calls_of, of_pid, of_node) = factorize(call, pid, node)
    # A node that a loop of the graph repeats is one in each replay.
    node_number, keys = factorize(of_pid, of_node)
    seen = np.bincount(node_number)
    each_call, _ = factorize(calls_of)
    replays = np.zeros(int(each_call.max()) + 1, np.int64)
    np.maximum.at(replays, each_call, seen[node_number])
    expected = np.zeros(len(keys[0]), np.int64)
    np.maximum.at(expected, node_number, replays[each_call])
    missing, of = int((expected - seen).sum()), int(expected.sum())
    if not missing:
        return 0, of, 0
    size, fullest = np.bincount(each_call), np.zeros(len(keys[0]), np.int64)
    np.maximum.at(fullest, node_number, size[each_call])
    fewer = calls_of[size[each_call] < fullest[node_number]]
    # If each replay lacks another node, none has fewer than the others.
    lacking = fewer if len(fewer) else calls_of[(expected > seen)[node_number]]
    return missing, of, int(lacking.min())
