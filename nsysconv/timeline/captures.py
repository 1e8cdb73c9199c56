"""Launches that a graph capture took: they became nodes of a graph and have no operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nsysconv.timeline.arrays import Array, among, distinct

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
