"""GPU operations of all kinds in one set of columns."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.report import MISSING
from nsysconv.store.read import MOST_BYTES, SIZES, Profile
from nsysconv.timeline.arrays import (
    Array,
    Columns,
    among,
    blocks,
    by_group,
    concatenate,
    distinct,
    factorize,
    indices,
    take,
)


class OpKind(IntEnum):
    """The kinds of GPU operations, in the order of schema.GPU_OP_TABLES."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    MIGRATION = 3
    GRAPH = 4


EVENT_KINDS: Mapping[str, str] = {
    **dict(
        zip(
            ("kernel", "memcpy", "memset", "migration", "graph_launch"),
            schema.GPU_OP_TABLES,
            strict=True,
        )
    ),
    "api_call": "api_call",
    "range": "range",
    "operator": "operator",
}
"""The kinds of events that have ids, GPU operations first, as OpKind has them; each with its table."""

_OP_WORDS = tuple(EVENT_KINDS)[: len(OpKind)]


def event_id(kind: str, row: int) -> str:
    """Return the id of an event, `kernel:5`: its kind, and its place among the table's rows, from 1."""
    return f"{kind}:{row + 1}"


@dataclass(frozen=True)
class GpuOps(Columns):
    """GPU operations, sorted by (start, stream, kind, id); those without time come first, of one start
    those without a stream last. Migrations have none.

    `start` and `end` are MISSING where there is no time; `row` is the place among the table's rows.
    """

    kind: Array
    row: Array
    start: Array
    end: Array
    device: Array
    stream: Array
    pid: Array
    correlation: Array

    @property
    def timed(self) -> Array:
        """Return which operations have a time."""
        result: Array = self.start != MISSING
        return result

    @property
    def dur(self) -> Array:
        """Return durations; 0 where there is no time, so that sums hold."""
        result: Array = self.end - self.start
        return result

    def event_id(self, place: int) -> str:
        """Return the id of the operation at this index."""
        return event_id(_OP_WORDS[int(self.kind[place])], int(self.row[place]))


_COLUMNS = ("start_ns", "dur_ns", "device_id", "stream_id", "pid", "correlation_id")
_OF_CALLS = ("start_ns", "dur_ns", "pid", "tid", "correlation_id", "layer", "name_id")

# An event is outside of a session that ended earlier than this, and than a tenth of itself, before it.
_OUTSIDE_NS, _OUTSIDE_PARTS = 1_000_000, 10
# Operations without a stream come last among those that start together.
_LAST_STREAM = np.iinfo(np.int64).max

Along = Mapping[str, tuple[str, ...]]
"""Columns by table that reports will ask for: a second pass over a table costs more than a column."""
OF_MOST: Along = {"kernel": ("name_id",), "memcpy": ("direction", "bytes")}
"""Those that nearly every report asks for."""
# The rest of the kernels' columns is not asked for again.
_KERNELS_KEEP = frozenset({"dur_ns", "device_id", "pid"})


def columns_of(table: str, along: Along) -> tuple[str, ...]:
    """Return the columns to read of a table of operations or calls, with those `along`."""
    own = _OF_CALLS if table == "api_call" else _COLUMNS
    return (*own, *along.get(table, ()))


def gpu_ops(profile: Profile, along: Along) -> GpuOps:
    """Return all GPU operations of a profile; columns `along` are read with theirs."""
    tables = schema.GPU_OP_TABLES
    parts = [profile.columns(table, columns_of(table, along)) for table in tables]
    sizes = [len(part["start_ns"]) for part in parts]
    if sizes[OpKind.MIGRATION]:
        # Sources write a number there; the driver makes them, on no stream of the program.
        parts[OpKind.MIGRATION]["stream_id"] = np.full(sizes[OpKind.MIGRATION], MISSING)

    def column(name: str) -> Array:
        result = concatenate([part.pop(name) for part in parts])
        if name not in _KERNELS_KEEP:  # kernels are many: their own column makes room
            profile.release("kernel", (name,))
        return result

    start, dur, stream = column("start_ns"), column("dur_ns"), column("stream_id")
    untimed = (start == MISSING) | (dur == MISSING)
    if untimed.any():
        start = np.where(untimed, MISSING, start)
    order = _order(start, stream)
    # The columns are reordered one after the other, so that each frees memory for the next.
    start, dur = take(start, order), take(dur, order)
    end = start + dur
    end[start == MISSING] = MISSING
    del dur, untimed
    stream = take(stream, order)
    return GpuOps(
        kind=take(np.repeat(np.arange(len(sizes), dtype=np.int8), sizes), order),
        row=take(np.concatenate([np.arange(size, dtype=np.int32) for size in sizes]), order),
        start=start,
        end=end,
        device=take(column("device_id"), order),
        stream=stream,
        pid=take(column("pid"), order),
        correlation=take(column("correlation_id"), order),
    )


def streams_of(ops: GpuOps) -> list[tuple[int, int, int]]:
    """Return the (device_id, pid, stream_id) of timed operations other than migrations, in order."""
    working = np.flatnonzero(ops.timed & (ops.kind != OpKind.MIGRATION))
    _, found = factorize(*(take(column, working) for column in (ops.device, ops.pid, ops.stream)))
    return list(zip(*(column.tolist() for column in found), strict=True))


def _order(start: Array, stream: Array) -> Array:
    order = np.argsort(start, kind="stable").astype(np.int32)
    sorted_start = take(start, order)
    same = sorted_start[1:] == sorted_start[:-1]
    del sorted_start
    if same.any():
        # Sort the runs of equal starts only: among millions of operations they are few.
        in_run = np.concatenate((same, [False])) | np.concatenate(([False], same))
        places = np.flatnonzero(in_run)
        tied = order[places]
        streams = stream[tied]
        streams = np.where(streams == MISSING, _LAST_STREAM, streams)
        order[places] = tied[np.lexsort((tied, streams, start[tied]))]
    return order


RUNTIME, DRIVER = 0, 1


@dataclass(frozen=True)
class Spans(Columns):
    """Named intervals, in the order of the table's rows; `name` numbers `names`.

    Ranges that were never closed end with the recording. `kind` is the table's own code, `row` the
    place among the table's rows, and `domain` is 0 for what has no domains.
    """

    start: Array
    end: Array
    pid: Array
    tid: Array
    kind: Array
    domain: Array
    row: Array
    name: Array
    names: tuple[str, ...]

    def followed_by(self, other: Spans) -> Spans:
        """Return these, then the others; equal names are one."""
        numbers: dict[str, int] = {}
        names = [
            take(
                np.array([numbers.setdefault(t, len(numbers)) for t in one.names], np.int32),
                one.name,
            )
            for one in (self, other)
        ]
        columns = ("start", "end", "pid", "tid", "kind", "domain", "row")
        both = {each: concatenate((getattr(self, each), getattr(other, each))) for each in columns}
        return Spans(**both, name=concatenate(names), names=tuple(numbers))


@dataclass(frozen=True)
class ApiCalls(Columns):
    """API calls, in the order of their starts; those without a time are left out.

    `row` is the place among the table's rows. `thread` numbers the (pid, tid) pairs of `threads`; those
    with a tid MISSING are not one thread, but calls of which no thread is recorded. `outermost`: no other
    call of the thread contains it; calls without a thread all are. `crossing`: how many calls overlap an
    earlier one of their thread without being inside it; for nesting such a call is cut where the earlier
    one ends.
    """

    start: Array
    end: Array
    pid: Array
    thread: Array
    correlation: Array
    layer: Array
    name_id: Array
    outermost: Array
    row: Array
    crossing: int
    threads: tuple[tuple[int, int], ...]

    def of_processes(self, pids: Array) -> Array:
        """Return which calls are of these processes, as a mask."""
        wanted = [pid in pids for pid, _ in self.threads]
        if all(wanted):
            return np.broadcast_to(np.True_, len(self))
        return take(np.array(wanted, bool), self.thread)

    def on_a_thread(self, which: Array) -> Array:
        """Return of the calls at these indices, those whose thread is recorded, as a mask."""
        recorded = np.array([tid != MISSING for _, tid in self.threads], bool)
        return take(recorded, self.thread[which])


def api_calls(profile: Profile, along: Along) -> ApiCalls:
    """Return all API calls of a profile; columns `along` are read with theirs."""
    read = profile.columns("api_call", columns_of("api_call", along))
    column = {name: read.pop(name) for name in _OF_CALLS}
    profile.release("api_call", _OF_CALLS)  # what else is asked of calls is asked of these
    column["row"] = np.arange(len(column["pid"]), dtype=np.int32)
    keep = has_time(column)
    if not keep.all():
        _take(column, keep)
    column["thread"], threads = number_threads(column["pid"], column.pop("tid"))
    for name in ("thread", "layer", "name_id"):
        column[name] = narrow(column[name])
    if (column["start_ns"][1:] < column["start_ns"][:-1]).any():
        _take(column, np.argsort(column["start_ns"], kind="stable"))
    end = column["start_ns"] + column.pop("dur_ns")
    start, pid, correlation, thread, layer, name_id, row = (
        column[each]
        for each in ("start_ns", "pid", "correlation_id", "thread", "layer", "name_id", "row")
    )
    outermost, crossing = _nesting(start, end, thread, threads)
    return ApiCalls(
        start, end, pid, thread, correlation, layer, name_id, outermost, row, crossing, threads
    )


def _take(column: dict[str, Array], which: Array) -> None:
    for name in column:  # one after the other: each column's memory is free for the next
        column[name] = take(column[name], which)


def narrow(codes: Array) -> Array:
    """Return codes as int8 or int16 if none is negative and all fit, as do differences of two then."""
    if not len(codes) or codes.strides == (0,) or codes.min() < 0:
        return codes
    most = int(codes.max())
    fitting = (each for each in (np.int8, np.int16) if most <= np.iinfo(each).max)
    return codes.astype(next(fitting, codes.dtype), copy=False)


def has_time(column: Mapping[str, Array]) -> Array:
    """Return which rows of a table have a start and a duration, as a mask."""
    result: Array = (column["start_ns"] != MISSING) & (column["dur_ns"] != MISSING)
    return result


def row_times(profile: Profile, table: str) -> tuple[Array, Array]:
    """Return when the rows of a table start and end; without a duration they end where they start."""
    start = end = profile.columns(table, ("start_ns",))["start_ns"]
    if "dur_ns" in schema.metadata.tables[table].columns:
        dur = profile.columns(table, ("dur_ns",))["dur_ns"]
        end = np.where((start == MISSING) | (dur == MISSING), start, start + dur)
    return start, end


def timed_tables(profile: Profile) -> list[str]:
    """Return the event tables of a profile that have times."""
    timed = [name for name in schema.EVENT_TABLES if "start_ns" in schema.metadata.tables[name].c]
    return [name for name in timed if name in profile.extents]


def are_linked(profile: Profile) -> bool:
    """Return whether a profile has calls, and says which of them launched an operation."""
    recorded = {Fact.API_CALLS, Fact.API_LINKS, Fact.KERNELS} <= profile.facts
    return recorded and "api_call" in profile.extents


def edges_of_session(profile: Profile) -> tuple[int, int] | None:
    """Return before and after which times events are outside of the session; None where it is unknown."""
    begin, end = (profile.attributes[name] for name in ("recording_start_ns", "recording_ns"))
    if begin is None or end is None or end <= begin:
        return None
    slack = max(_OUTSIDE_NS, (end - begin) // _OUTSIDE_PARTS)
    return begin - slack, end + slack


def have_impossible_sizes(table: str, columns: Mapping[str, Array]) -> Array:
    """Return which rows have sizes (SIZES), in bytes, that cannot be. MISSING may be."""
    odd = np.zeros(len(columns["bytes"]), bool)
    for name, least in SIZES[table].items():
        size = columns[name]
        odd |= (size != MISSING) & ((size < least) | (size > MOST_BYTES))
    return odd


def number_threads(pid: Array, tid: Array) -> tuple[Array, tuple[tuple[int, int], ...]]:
    """Return numbers 0.. for the (pid, tid) pairs, and the pairs by number."""
    numbers, (pids, tids) = factorize(pid, tid)
    return numbers, tuple(zip(pids.tolist(), tids.tolist(), strict=True))


def _nesting(
    start: Array, end: Array, thread: Array, threads: tuple[tuple[int, int], ...]
) -> tuple[Array, int]:
    outermost = np.ones(len(start), bool)
    crossing = 0
    for places, (_, tid) in zip(by_group(thread, len(threads)), threads, strict=True):
        # Without a thread, two calls that overlap may be of two.
        if tid == MISSING or _nested(start, end, places, outermost):
            continue
        # If two calls start together, the longer one contains the other.
        places = places[np.lexsort((-end[places], start[places]))]
        if not _nested(start, end, places, outermost):
            mask, crossed = _nesting_of_crossing(start[places].tolist(), end[places].tolist())
            outermost[places] = mask
            crossing += crossed
    return outermost, crossing


def _nested(start: Array, end: Array, places: Array, outermost: Array) -> bool:
    # Marks the outermost of a thread's calls, which are at these places. False where calls cross, or
    # where one comes before a longer one that starts with it.
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
    # Each call is cut before it is compared with the next.
    mask, crossed, reach = [], 0, MISSING
    for start, end in zip(starts, ends, strict=True):
        inside = start < reach
        mask.append(not inside)
        if not inside:
            reach = end
        elif end > reach:
            crossed += 1
    return mask, crossed


def owners(
    ops: GpuOps, calls: ApiCalls, names: Mapping[int, str] | None = None
) -> tuple[Array, int]:
    """Return per GPU operation the index of the call that launched it, -1 for none; and what is assumed.

    Joined on (pid, correlation). Where calls share both, the outermost owns the operations, then the
    runtime's before the driver's, then the earlier. With `names`, of functions by name id, calls of one
    id that only the start sets apart divide the operations among them, and surplus kernels of a launch
    go to one that has none: for how many operations the call is so assumed is the second value.
    """
    owner, rivals = np.full(len(ops), -1, np.int32), list[list[int]]()
    linked = has_correlation(calls.correlation)
    launched = has_correlation(ops.correlation)
    for pid in distinct(ops.pid).tolist():
        own = linked & (calls.pid == pid)
        wanted = launched & (ops.pid == pid)
        if own.any() and wanted.any():
            mine = indices(own)
            table = Lookup(take(calls.correlation, own), mine)
            if table.ambiguous:
                order, of_one_id = _by_entitlement(calls, mine)
                mine, rivals = mine[order], rivals + of_one_id
                table = Lookup(take(calls.correlation, mine), mine)
            for block in blocks(len(ops)):
                here = wanted[block]
                owner[block][here] = table.of(take(ops.correlation[block], here))
    return owner, _share_out(owner, rivals, ops, calls, names) if names else 0


def has_correlation(ids: Array) -> Array:
    """Return which correlation ids name a call: 0 and null name none."""
    result: Array = (ids != MISSING) & (ids != 0)
    return result


def _by_entitlement(calls: ApiCalls, mine: Array) -> tuple[Array, list[list[int]]]:
    # An order in which, of calls with one correlation id, the one that owns its operations is last; and
    # the rivals among these calls.
    order = np.lexsort((-calls.end[mine], calls.start[mine], calls.correlation[mine]))
    keys = calls.correlation[mine[order]]
    same = keys[1:] == keys[:-1]
    doubled = np.flatnonzero(np.concatenate((same, [False])) | np.concatenate(([False], same)))
    enclosed = np.zeros(len(mine), bool)
    # Only calls on one thread nest, so a call without a thread is not inside another.
    nesting = doubled[calls.on_a_thread(mine[order[doubled]])]
    by_key: dict[tuple[int, int], list[int]] = {}
    for place in order[nesting].tolist():
        call = int(mine[place])
        holders = by_key.setdefault((int(calls.correlation[call]), int(calls.thread[call])), [])
        enclosed[place] = any(calls.end[other] >= calls.end[call] for other in holders)
        holders.append(call)
    is_driver = calls.layer[mine] == DRIVER
    rivals: dict[int, dict[int, list[int]]] = {}
    for place in order[doubled].tolist():
        ranks = rivals.setdefault(int(calls.correlation[mine[place]]), {})
        ranks.setdefault(2 * enclosed[place] + is_driver[place], []).append(int(mine[place]))
    first = (ranks[min(ranks)] for ranks in rivals.values())
    in_order = np.lexsort((-calls.start[mine], ~is_driver, ~enclosed))
    return in_order, [group for group in first if len(group) > 1]


class Lookup:
    """Values by integer key; of equal keys the last counts. `ambiguous`: there are equal keys."""

    def __init__(self, keys: Array, values: Array) -> None:
        """Take the keys, one at least, and the value of each, a number from 0 below 2^31."""
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
        """Return the value of each of these keys, -1 for none."""
        wanted = wanted.astype(np.int64)  # the least key may not fit in what they are
        if self._dense is not None:
            inside = (wanted >= self._low) & (wanted <= self._high)
            found: Array = self._dense.take(wanted - self._low, mode="clip")
            found[~inside] = -1
            return found
        place = np.maximum(np.searchsorted(self._keys, wanted, side="right") - 1, 0)
        return np.where(self._keys[place] == wanted, self._values[place], -1)


# -- where correlation ids alone do not say which call launched an operation
#
# Recorders for AMD's GPUs give one id to several calls, or the id of one launch to the kernels of two. A
# call that launches a single kernel shows it by having two of them, or none.

# Functions that put work on a GPU, and those of which a call launches a single kernel.
_LAUNCHING = re.compile("Launch|Mem(?:cpy|set)")
_ONE_KERNEL = re.compile(r"Launch(?:Cooperative)?Kernel(?:ExC?)?(?:_spt)?$|^cudaLaunch$")


def _share_out(
    owner: Array, rivals: list[list[int]], ops: GpuOps, calls: ApiCalls, names: Mapping[int, str]
) -> int:
    # This changes `owner`. Rivals are calls, in the order of their starts, that could each own the same
    # operations.
    if not rivals and _launched_one_at_most(owner, ops, len(calls)):
        return 0
    launching = {i for i, name in names.items() if _LAUNCHING.search(name)}
    ids = sorted(i for i, name in names.items() if _ONE_KERNEL.search(name))
    single = among(calls.name_id, np.array(ids, np.int64))
    groups = {}  # the first of a group owns the operations so far
    for group in rivals:
        groups[group[0]] = [i for i in group if int(calls.name_id[i]) in launching] or group
    return _among_rivals(owner, groups, ops, calls, single) + _surplus(owner, ops, calls, single)


def _match(calls: Sequence[int], ops: Sequence[int], single: Sequence[bool]) -> list[int]:
    """Return per operation the index of its call; all are given by their starts, in order.

    It is the latest call that had begun, or an earlier one that would else have none. A call that
    launches one kernel is given one where others can take the rest.
    """
    found = [max(bisect_right(calls, start) - 1, 0) for start in ops]
    if len(ops) < len(calls):
        free = len(calls) - 1
        for i in reversed(range(len(ops))):
            found[i] = min(found[i], max(free, 0))
            free = found[i] - 1
        return found
    free = 0
    for i, latest in enumerate(found):
        if free <= latest:
            found[i], free = free, free + 1
        else:
            found[i] = next((j for j in range(latest, -1, -1) if not single[j]), latest)
    return found


def _among_rivals(
    owner: Array, groups: Mapping[int, Sequence[int]], ops: GpuOps, calls: ApiCalls, single: Array
) -> int:
    assumed = 0
    for first, places in (_owned(owner, list(groups), ops.timed) if groups else {}).items():
        group = np.array(groups[first])
        starts = calls.start[group].tolist()
        owner[places] = group[_match(starts, ops.start[places].tolist(), single[group].tolist())]
        assumed += len(places) if len(group) > 1 else 0
    return assumed


def _owned(owner: Array, which: Sequence[int], mask: Array) -> dict[int, list[int]]:
    # The result has, by call, the indices of its operations, which are in the order of their starts.
    result: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(np.isin(owner, which) & mask).tolist():
        result[int(owner[place])].append(place)
    return result


def _surplus(owner: Array, ops: GpuOps, calls: ApiCalls, single: Array) -> int:
    used = np.zeros(len(calls) + 1, np.int32)  # what no call launched is counted last
    kernels = used.copy()
    for block in blocks(len(ops)):
        np.add.at(used, owner[block], 1)
        np.add.at(kernels, owner[block], ops.kind[block] == OpKind.KERNEL)
    many = np.flatnonzero(single & (kernels[:-1] > 1)).tolist()
    if not many:
        return 0
    without = single & calls.outermost & (used[:-1] == 0)
    free = {
        pid: np.flatnonzero(without & (calls.pid == pid)).tolist()
        for pid in distinct(calls.pid[many]).tolist()
    }
    assumed = 0
    owned = _owned(owner, many, ops.timed & (ops.kind == OpKind.KERNEL))
    for call, places in sorted(owned.items()):
        nearest = _take_nearest(free[int(calls.pid[call])], call, places, calls.start, ops.start)
        if nearest:
            given = sorted([call, *nearest])
            owner[places[: len(given)]] = given
            assumed += len(places)
    return assumed


def _launched_one_at_most(owner: Array, ops: GpuOps, count: int) -> bool:
    # Whether no call launched two kernels: then as many did as there are kernels with a call.
    launched, of_calls = np.zeros(count, bool), 0
    for block in blocks(len(ops)):
        mine = owner[block][(ops.kind[block] == OpKind.KERNEL) & (owner[block] >= 0)]
        launched[mine] = True
        of_calls += len(mine)
    return int(np.count_nonzero(launched)) == of_calls


def _take_nearest(
    free: list[int], call: int, places: list[int], call_start: Array, op_start: Array
) -> list[int]:
    # The result has one call less than operations. They are the nearest free calls that began before
    # the last operation.
    at, more = bisect_left(free, call), len(places) - 1
    near = free[max(0, at - more) : at + more]
    near = [i for i in near if call_start[i] <= op_start[places[-1]]]
    near = sorted(near, key=lambda i: abs(int(call_start[i] - call_start[call])))[:more]
    for taken in near:
        del free[bisect_left(free, taken)]
    return near
