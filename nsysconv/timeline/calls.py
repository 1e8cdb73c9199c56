"""API calls, their nesting on each thread, and the GPU operations each of them launched."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nsysconv.report import MISSING
from nsysconv.store.read import Profile
from nsysconv.timeline.groups import arranged, blocks, counts, indices
from nsysconv.timeline.ops import GpuOps, taken
from nsysconv.timeline.statistics import distinct, number

Array = np.ndarray

RUNTIME, DRIVER = 0, 1

# So many groups are looked for one by one faster than members are put in their order.
_FEW_GROUPS = 4


@dataclass(frozen=True)
class ApiCalls:
    """Columns of equal length, in the order of the calls' starts; those without a time are left out.

    `thread` numbers the (pid, tid) pairs of `threads`; those with a tid MISSING are not one thread, but
    calls of which no thread is recorded. `outermost`: no other call of the thread contains it; calls
    without a thread all are. `crossing`: how many calls overlap an earlier one of their thread without
    being inside it; for nesting such a call is cut where the earlier one ends.
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

    def on_a_thread(self, which: Array) -> Array:
        """Of the calls at these indices, those whose thread is recorded, as a mask."""
        recorded = np.array([tid != MISSING for _, tid in self.threads], bool)
        result: Array = recorded[self.thread[which]]
        return result


def api_calls(profile: Profile) -> ApiCalls:
    """All API calls of a profile."""
    names = ("start_ns", "dur_ns", "pid", "tid", "correlation_id", "layer", "name_id")
    column = profile.columns("api_call", names)
    profile.release("api_call", names)  # what else is asked of calls is asked of these
    keep = (column["start_ns"] != MISSING) & (column["dur_ns"] != MISSING)
    if not keep.all():
        _take(column, keep)
    column["thread"], threads = number_threads(column["pid"], column.pop("tid"))
    for name in ("thread", "layer", "name_id"):
        column[name] = _narrow(column[name])
    if (column["start_ns"][1:] < column["start_ns"][:-1]).any():
        _take(column, np.argsort(column["start_ns"], kind="stable"))
    start = column["start_ns"]
    end = start + column.pop("dur_ns")
    outermost, crossing = _nesting(start, end, column["thread"], threads)
    return ApiCalls(
        start,
        end,
        column["pid"],
        column["thread"],
        column["correlation_id"],
        column["layer"],
        column["name_id"],
        outermost,
        crossing,
        threads,
    )


def _take(column: dict[str, Array], which: Array) -> None:
    """The rows of a mask or of indices in place of all, each column's memory free for the next."""
    for name in column:
        column[name] = taken(column[name], which)


def _narrow(codes: Array) -> Array:
    """Numbers from 0 on as int8 or int16 where all fit; others as they are.

    Where none is negative, the difference of two fits as well.
    """
    if not len(codes) or codes.strides == (0,) or codes.min() < 0:
        return codes
    most = int(codes.max())
    fitting = (each for each in (np.int8, np.int16) if most <= np.iinfo(each).max)
    return codes.astype(next(fitting, codes.dtype), copy=False)


def call_ids(profile: Profile, calls: ApiCalls) -> Array:
    """Per call of `calls`, which are all of the profile, its id in the table api_call."""
    names = ("start_ns", "dur_ns")
    column = profile.columns("api_call", names)
    profile.release("api_call", names)
    rows = np.flatnonzero((column["start_ns"] != MISSING) & (column["dur_ns"] != MISSING))
    start = column["start_ns"][rows]
    if not np.array_equal(start, calls.start):  # then api_calls sorted them
        rows = rows[np.argsort(start, kind="stable")]
    result: Array = rows + profile.first_id("api_call")
    return result


def number_threads(pid: Array, tid: Array) -> tuple[Array, tuple[tuple[int, int], ...]]:
    """Numbers 0.. for the (pid, tid) pairs, and the pairs by number."""
    numbers, (pids, tids) = number(pid, tid)
    return numbers, tuple(zip(pids.tolist(), tids.tolist(), strict=True))


def _nesting(
    start: Array, end: Array, thread: Array, threads: tuple[tuple[int, int], ...]
) -> tuple[Array, int]:
    """Which calls are outermost on their thread, and how many cross an earlier one."""
    outermost = np.ones(len(start), bool)
    crossing = 0
    for places, (_, tid) in zip(by_group(thread, len(threads)), threads, strict=True):
        if tid == MISSING:
            continue  # two calls that overlap may be of two threads
        if _nested(start, end, places, outermost):
            continue
        # Of two that start together the longer contains the other.
        places = places[np.lexsort((-end[places], start[places]))]
        if not _nested(start, end, places, outermost):
            mask, crossed = _nesting_of_crossing(start[places].tolist(), end[places].tolist())
            outermost[places] = mask
            crossing += crossed
    return outermost, crossing


def _nested(start: Array, end: Array, places: Array, outermost: Array) -> bool:
    """Marks which of a thread's calls, at these places, are outermost; block by block.

    False where calls cross, or where one comes before a longer one that starts with it.
    """
    last, reach = MISSING, MISSING
    for block in blocks(len(places)):
        here = places[block]
        s, e = start[here], end[here]
        before, reaches = np.append(last, s), np.maximum.accumulate(np.append(reach, e))
        inside = s < reaches[:-1]
        if (inside & (e > reaches[:-1])).any() or ((s == before[:-1]) & ~inside & (e > s)).any():
            return False
        outermost[here] = ~inside
        last, reach = before[-1], reaches[-1]
    return True


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


def by_group(groups: Array, count: int, values: Array | None = None) -> list[Array]:
    """Per group number 0..count-1 the values of its members, in order; None: their indices, as int32."""
    if count == 0:
        return []
    if 1 < count <= _FEW_GROUPS:
        members = [indices(groups == number) for number in range(count)]
        return members if values is None else [taken(values, which) for which in members]
    if values is None:
        values = np.arange(len(groups), dtype=np.int32)
    if count == 1:
        return [values]
    order = arranged(groups, values, count)
    edges = np.concatenate(([0], np.cumsum(counts(groups, count)))).tolist()
    return [order[low:high] for low, high in pairwise(edges)]


def owners(ops: GpuOps, calls: ApiCalls) -> Array:
    """Per GPU operation the index of the call that launched it, -1 for none.

    Joined on (pid, correlation). Where calls share both, the outermost owns the operations, then the
    runtime's before the driver's, then the earlier.
    """
    owner = np.full(len(ops), -1, np.int32)
    linked = has_correlation(calls.correlation)
    launched = has_correlation(ops.correlation)
    for pid in distinct(ops.pid).tolist():
        own = linked & (calls.pid == pid)
        wanted = launched & (ops.pid == pid)
        if own.any() and wanted.any():
            mine = indices(own)
            table = _Lookup(taken(calls.correlation, own), mine)
            if table.ambiguous:
                mine = mine[_by_entitlement(calls, mine)]
                table = _Lookup(taken(calls.correlation, mine), mine)
            for block in blocks(len(ops)):
                here = wanted[block]
                owner[block][here] = table.of(taken(ops.correlation[block], here))
    return owner


def has_correlation(ids: Array) -> Array:
    """Which correlation ids name a call: 0 and null name none."""
    result: Array = (ids != MISSING) & (ids != 0)
    return result


def _by_entitlement(calls: ApiCalls, mine: Array) -> Array:
    """An order in which, of calls with one correlation id, the one that owns its operations is last."""
    order = np.lexsort((-calls.end[mine], calls.start[mine], calls.correlation[mine]))
    keys = calls.correlation[mine[order]]
    same = keys[1:] == keys[:-1]
    doubled = np.flatnonzero(np.concatenate((same, [False])) | np.concatenate(([False], same)))
    enclosed = np.zeros(len(mine), bool)
    # Calls nest on one thread: of those without one, none is known to be inside another.
    doubled = doubled[calls.on_a_thread(mine[order[doubled]])]
    by_key: dict[tuple[int, int], list[int]] = {}
    for place in order[doubled].tolist():
        call = int(mine[place])
        holders = by_key.setdefault((int(calls.correlation[call]), int(calls.thread[call])), [])
        enclosed[place] = any(calls.end[other] >= calls.end[call] for other in holders)
        holders.append(call)
    return np.lexsort((-calls.start[mine], calls.layer[mine] != DRIVER, ~enclosed))


class _Lookup:
    """Values by integer key; of equal keys the last counts. `ambiguous`: there are equal keys."""

    def __init__(self, keys: Array, values: Array) -> None:
        self._low, self._high = int(keys.min()), int(keys.max())
        self._dense: Array | None = None
        # Correlation ids are nearly consecutive: a table by id is ten times faster than sorting.
        if self._high - self._low <= 8 * len(keys) + 1024:
            self._dense = np.full(self._high - self._low + 1, -1, np.int32)
            for block in blocks(len(keys)):
                self._dense[(keys[block] - self._low).astype(np.intp)] = values[block]
            self.ambiguous = int(np.count_nonzero(self._dense >= 0)) < len(keys)
        else:
            order = np.argsort(keys, kind="stable")
            self._keys, self._values = keys[order], values[order]
            self.ambiguous = bool((self._keys[1:] == self._keys[:-1]).any())

    def of(self, wanted: Array) -> Array:
        """Per wanted key its value, -1 for none."""
        wanted = wanted.astype(np.int64)  # the least key may not fit in what they are
        if self._dense is not None:
            inside = (wanted >= self._low) & (wanted <= self._high)
            found: Array = self._dense.take(wanted - self._low, mode="clip")
            found[~inside] = -1
            return found
        place = np.maximum(np.searchsorted(self._keys, wanted, side="right") - 1, 0)
        return np.where(self._keys[place] == wanted, self._values[place], -1)
