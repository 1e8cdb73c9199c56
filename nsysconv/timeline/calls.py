"""API calls, their nesting on each thread, and the GPU operations each of them launched."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nsysconv.report import MISSING
from nsysconv.store.read import Profile
from nsysconv.timeline.ops import GpuOps, taken
from nsysconv.timeline.statistics import number

Array = np.ndarray

RUNTIME, DRIVER = 0, 1


@dataclass(frozen=True)
class ApiCalls:
    """Columns of equal length, sorted by start; calls without a time are left out.

    `thread` numbers the (pid, tid) pairs of `threads`. `outermost`: no other call of the thread
    contains it. `crossing`: how many calls overlap an earlier one without being inside it; for
    nesting such a call is cut where the earlier one ends.
    """

    start: Array
    end: Array
    pid: Array
    thread: Array
    correlation: Array
    layer: Array
    name_id: Array
    outermost: Array
    crossing: int
    threads: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        return len(self.start)


def api_calls(profile: Profile) -> ApiCalls:
    """All API calls of a profile."""
    column = profile.columns(
        "api_call", ("start_ns", "dur_ns", "pid", "tid", "correlation_id", "layer", "name_id")
    )
    start, dur = column["start_ns"], column["dur_ns"]
    keep = (start != MISSING) & (dur != MISSING)
    if not keep.all():
        column = {name: taken(values, keep) for name, values in column.items()}
        start, dur = column["start_ns"], column["dur_ns"]
    if len(start) > 1 and (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        column = {name: taken(values, order) for name, values in column.items()}
        start, dur = column["start_ns"], column["dur_ns"]
    thread, threads = number_threads(column["pid"], column["tid"])
    outermost, crossing = _nesting(start, start + dur, thread, len(threads))
    return ApiCalls(
        start,
        start + dur,
        column["pid"],
        thread,
        column["correlation_id"],
        column["layer"],
        column["name_id"],
        outermost,
        crossing,
        threads,
    )


def number_threads(pid: Array, tid: Array) -> tuple[Array, tuple[tuple[int, int], ...]]:
    """Numbers 0.. for the (pid, tid) pairs, and the pairs by number."""
    numbers, (pids, tids) = number(pid, tid)
    return numbers, tuple(zip(pids.tolist(), tids.tolist(), strict=True))


def _nesting(start: Array, end: Array, thread: Array, thread_count: int) -> tuple[Array, int]:
    """Which calls are outermost on their thread, and how many cross an earlier one."""
    outermost = np.ones(len(start), bool)
    crossing = 0
    for places in by_group(thread, thread_count):
        s, e = start[places], end[places]
        # Of two that start together the longer contains the other.
        if (s[1:] == s[:-1]).any():
            order = np.lexsort((-e, s))
            places, s, e = places[order], s[order], e[order]
        reach = np.maximum.accumulate(e)[:-1]
        inside = s[1:] < reach
        crosses = inside & (e[1:] > reach)
        if crosses.any():
            mask, crossed = _nesting_of_crossing(s.tolist(), e.tolist())
            outermost[places] = mask
            crossing += crossed
        else:
            outermost[places[1:]] = ~inside
    return outermost, crossing


def _nesting_of_crossing(starts: list[int], ends: list[int]) -> tuple[list[bool], int]:
    """As `_nesting` for one thread whose calls cross: each is cut before it is compared with the next."""
    mask, crossed, reach = [], 0, None
    for start, end in zip(starts, ends, strict=True):
        inside = reach is not None and start < reach
        mask.append(not inside)
        if inside and reach is not None and end > reach:
            crossed += 1
        if not inside:
            reach = end
    return mask, crossed


def by_group(groups: Array, count: int) -> list[Array]:
    """Per group number 0..count-1 the indices of its members, in order."""
    if count == 0:
        return []
    if count == 1:
        return [np.arange(len(groups))]
    # numpy sorts 16-bit keys by radix: linear, and stable.
    keys = groups.astype(np.uint16) if count < 1 << 16 else groups
    order = np.argsort(keys, kind="stable")
    edges = np.searchsorted(groups[order], np.arange(count + 1))
    return [order[low:high] for low, high in pairwise(edges)]


def owners(ops: GpuOps, calls: ApiCalls) -> Array:
    """Per GPU operation the index of the call that launched it, -1 for none.

    Joined on (pid, correlation). Where calls share both, the outermost owns the operations, then the
    runtime's before the driver's, then the earlier.
    """
    owner = np.full(len(ops), -1, np.int64)
    linked = has_correlation(calls.correlation)
    # Later writes win: least entitled first, and within a class the latest first.
    classes = [
        linked
        & (calls.outermost == outer)
        & (calls.layer == layer if layer == DRIVER else calls.layer != DRIVER)
        for outer in (False, True)
        for layer in (DRIVER, RUNTIME)
    ]
    candidates = np.concatenate([np.flatnonzero(c)[::-1] for c in classes]).astype(np.int64)
    for pid in np.unique(ops.pid):
        mine = candidates[calls.pid[candidates] == pid] if (calls.pid != pid).any() else candidates
        wanted = np.flatnonzero((ops.pid == pid) & has_correlation(ops.correlation))
        if len(mine) and len(wanted):
            owner[wanted] = _looked_up(ops.correlation[wanted], calls.correlation[mine], mine)
    return owner


def has_correlation(ids: Array) -> Array:
    """Which correlation ids name a call: 0 and null name none."""
    result: Array = (ids != MISSING) & (ids != 0)
    return result


def _looked_up(wanted: Array, keys: Array, values: Array) -> Array:
    """Per wanted key the value of its last occurrence among `keys`, -1 for none."""
    low, high = int(keys.min()), int(keys.max())
    if high - low <= 8 * len(keys) + 1024:
        table = np.full(high - low + 1, -1, np.int64)
        table[keys - low] = values
        found = np.where((wanted >= low) & (wanted <= high), wanted - low, 0)
        return np.where((wanted >= low) & (wanted <= high), table[found], -1)
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], wanted, side="right") - 1
    hit = (place >= 0) & (keys[order][place] == wanted)
    return np.where(hit, values[order][place], -1)
