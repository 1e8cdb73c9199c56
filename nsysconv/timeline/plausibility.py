"""Records that cannot be, and work that is not recorded (docs/definitions, what is not believed).

Profilers write records that are well spelled and impossible: a completion stamp that stalled, a time of
another clock. They drop others. Each is looked for once per profile, and nothing here speaks on a healthy
one: the thresholds are far beyond what real recordings hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.names import called
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING, Unit, human
from nsysconv.store.read import SIZES, Examination, Profile
from nsysconv.threads import ThreadSafeCache, cached_in
from nsysconv.timeline.arrays import (
    Array,
    among,
    by_group,
    distinct,
    equal_places,
    factorize,
    indices,
    repeated,
    take,
)
from nsysconv.timeline.captures import are_captured, missing_nodes
from nsysconv.timeline.events import (
    EVENT_KINDS,
    Along,
    Lookup,
    api_calls,
    are_linked,
    columns_of,
    edges_of_session,
    event_id,
    gpu_ops,
    has_correlation,
    have_impossible_sizes,
    owners,
    timed_tables,
)
from nsysconv.timeline.outliers import APART_NS, APART_SPANS, main_part, medians
from nsysconv.timeline.soundness import (
    EARLY_NS,
    GPU_TABLES,
    HOST_TABLES,
    OVERRUN_NS,
    doubtful_tables,
)

# An operation overruns the next start on its stream by so many times the median of its name.
_OVERRUN_MEDIANS = 10
# Fewer of one name have no median; the stream's has to do.
_FEWEST_OF_A_NAME = 3
# If more events than these, in number and as a part of all, are apart, the program had a pause.
_FEW_APART, _FEW_APART_PARTS = 3, 500
# If most operations are early, and some by this part of what is early, the clocks drift apart.
_DRIFT_PARTS = 10
# Operations before the first event of the host, from which it is that far, and this part of the rest.
_LEFT_NS, _LEFT_PARTS = 1_000_000, 10
# A note names so many functions.
_SHOWN = 3
# A profile of fewer rows is compared at once.
MANY_ROWS = 200_000

_TIMES = ("start_ns", "dur_ns")
_READ = (*_TIMES, "correlation_id", "pid")
_OF_CALLS = (*_READ, "name_id")
_OF_STREAMS = (*_READ, "device_id", "stream_id")
_OF_AN_OP = ("device_id", "stream_id", "name_id", "bytes")
# If operations or their calls are wrong, so are reports that need these facts.
_WORK = frozenset({Fact.KERNELS, Fact.API_CALLS, Fact.API_LINKS, Fact.RANGES, Fact.OPERATORS})
Facts = frozenset[Fact]
Names = Mapping[int, str]
Arrays = Mapping[str, Array]
_KIND_OF_TABLE = {table: kind for kind, table in EVENT_KINDS.items()}


def examine(profile: Profile) -> Examination:
    """Return what is not believed of a profile, and what was not recorded, with a note on each.

    Raises what reading its rows raises.
    """
    is_large = sum(map(profile.row_count, profile.extents)) >= MANY_ROWS
    tables = doubtful_tables(profile) if is_large else timed_tables(profile)
    if not tables:
        return Examination()
    look = _Look(profile, tables)
    one_clock = look.has_one_clock()
    notes = [
        *(look.outside() if one_clock else ()),
        *(look.late() if one_clock else ()),
        *(look.early() if one_clock else ()),
        *(look.left_over() if one_clock else ()),
        *look.recorded_again(),
        *look.overrunning(),
        *look.without_work(),
        *look.unequal_replays(),
        *look.impossible_sizes(),
    ]
    rows = {table: distinct(np.concatenate(found)) for table, found in look.places.items()}
    return Examination(rows, look.lost(), tuple(notes), look.sizes)


def examine_at_hand(profile: Profile, along: Along | None = None) -> Examination:
    """Return the same as `examine`, after reading the columns that it compares.

    With `along`, all columns of operations and calls are read, and those.
    """
    if along is not None:
        for table in (*GPU_TABLES, "api_call"):
            profile.columns(table, columns_of(table, along))
    _read_columns(profile, timed_tables(profile))
    return examine(profile)


def _read_columns(profile: Profile, tables: Sequence[str]) -> None:
    for table in tables:
        names = {"api_call": _OF_CALLS, **dict.fromkeys(schema.SYSTEM_TABLES, _TIMES)}.get(
            table, _OF_STREAMS if table in GPU_TABLES else _READ
        )
        known = schema.metadata.tables[table].c
        profile.columns(table, [name for name in names if name in known])


@dataclass(frozen=True)
class _Times:
    # The rows of a table that have a time and are believed are `row`, their times `start` and `end`.
    row: Array
    start: Array
    end: Array


class _Look:
    # Tables that are not given have nothing to find.
    def __init__(self, profile: Profile, tables: Sequence[str]) -> None:
        self._profile, self._tables = profile, tables
        self.places: dict[str, list[Array]] = {}
        self._gpu_tables = [name for name in GPU_TABLES if name in self._tables]
        self._cache, self._owner_cache = ThreadSafeCache(), ThreadSafeCache()
        self._lookups: dict[int, Lookup] = {}
        self._lost = np.empty(0, np.int64)
        self._again: dict[str, Array] = {}
        self.sizes: dict[str, Array] = {}
        _read_columns(profile, tables)

    @property
    def _calls(self) -> Arrays | None:
        # The result is None if calls and operations are not linked.
        if not are_linked(self._profile):
            return None
        found = self._profile.columns("api_call", _OF_CALLS)
        return found if len(found["pid"]) else None  # all rows may be left out

    @cached_in("_owner_cache")
    def _owners(self, table: str) -> Array:
        # The result has, per row, the row of the call that launched it, or -1.
        column = self._profile.columns(table, ("correlation_id", "pid"))
        calls, correlation = self._calls, column["correlation_id"]
        result = np.full(len(correlation), -1, np.int32)
        if calls is None:
            return result
        for pid in distinct(column["pid"]).tolist():
            if pid not in self._lookups:
                mine = np.flatnonzero(
                    (calls["pid"] == pid) & has_correlation(calls["correlation_id"])
                )
                if not len(mine):
                    continue
                self._lookups[pid] = Lookup(calls["correlation_id"][mine], mine)
            own = np.flatnonzero((column["pid"] == pid) & has_correlation(correlation))
            result[own] = self._lookups[pid].of(correlation[own])
        return result

    # -- times

    @cached_in("_cache")
    def _times(self, table: str) -> _Times:
        names = [n for n in _TIMES if n in schema.metadata.tables[table].c]
        column = self._profile.columns(table, names)
        start, dur = column["start_ns"], column.get("dur_ns")
        believed = start != MISSING
        if table in schema.GPU_OP_TABLES and dur is not None:
            believed &= dur != MISSING
        for places in self.places.get(table, ()):
            believed[places] = False
        row = indices(believed)
        start = take(start, believed)
        end = start if dur is None else start + np.maximum(take(dur, believed), 0)
        return _Times(row, start, end)

    @property
    def _every(self) -> dict[str, _Times]:
        every = {table: self._times(table) for table in self._tables}
        return {table: times for table, times in every.items() if len(times.row)}

    def _where(self, table: str, row: int) -> str:
        kind = _KIND_OF_TABLE.get(table)
        return event_id(kind, row) if kind else f"{table} {row + 1}"

    def _note_without(self, slug: str, text: str, found: Arrays, facts: Facts = _WORK) -> Note:
        # The times of these rows are left out from now on.
        for table in (table for table, rows in found.items() if len(rows)):
            self.places.setdefault(table, []).append(found[table])
            self._cache.clear()
        return self._note(slug, text, found, facts)

    def _note(self, slug: str, text: str, found: Arrays, facts: Facts) -> Note:
        count = sum(map(len, found.values()))
        of = sum(self._profile.row_count(table) for table in found)
        table, rows = next((t, rows) for t, rows in found.items() if len(rows))
        where = self._where(table, int(rows.min()))
        return Note(slug, Severity.DROPPED, text, count, where, facts, of)

    # -- events where none can be

    def outside(self) -> Iterator[Note]:
        """Yield a note on events outside of the session; of none known, far from all other events."""
        every = self._every
        if not every:
            return
        low = min(int(times.start.min()) for times in every.values())
        high = max(int(times.end.max()) for times in every.values())
        edges = edges_of_session(self._profile)
        has_session = edges is not None
        if edges is not None:
            until, since = (self._profile.attributes[f"recording_{n}ns"] for n in ("", "start_"))
            low_edge, high_edge = edges
            text = "events outside the session, which took " + human(until - since, Unit.NS)
        else:
            starts, ends = zip(*((t.start, t.end) for t in every.values()), strict=True)
            low_edge, high_edge = main_part(starts, ends, low, high)
            text = f"events far from all others, by {APART_SPANS} times their time span or more"
        stalled = None if has_session else self._ends_last(every, low)
        if low >= low_edge and high <= high_edge and stalled is None:
            return
        found = {
            table: times.row[
                (times.start < low_edge) | ((times.end if has_session else times.start) > high_edge)
            ]
            for table, times in every.items()
        }
        if stalled is not None:
            table, row = stalled
            found[table] = distinct(np.append(found[table], row))
        count = {table: len(times.row) for table, times in every.items()}
        for table in timed_tables(self._profile):
            if table not in self._tables:  # none of its rows is outside
                found[table], count[table] = np.empty(0, np.int64), self._profile.row_count(table)
        few = max(_FEW_APART, sum(count.values()) // _FEW_APART_PARTS)
        if not has_session and sum(map(len, found.values())) > few:
            return
        for tables in (schema.GPU_OP_TABLES, [t for t in found if t not in schema.GPU_OP_TABLES]):
            # If most events are outside, the tables use another clock, or the session is wrong.
            here = [table for table in tables if table in found]
            outside = sum(len(found[table]) for table in here)
            if 2 * outside > sum(count[table] for table in here) > _FEWEST_OF_A_NAME:
                for table in here:
                    del found[table]
        if any(map(len, found.values())):
            # What a recording is, all reports on it say.
            yield self._note_without("events-outside", text, found, frozenset())

    def _ends_last(self, every: Mapping[str, _Times], low: int) -> tuple[str, int] | None:
        # The table and row of an operation that ends long after all else, as no other of its name, or
        # None. Without calls, the host may have waited for it.
        ops = {table: times for table, times in every.items() if table in self._gpu_tables}
        if self._calls is None or not ops:
            return None
        last = {table: int(times.end.max()) for table, times in every.items()}
        table = max(ops, key=lambda each: last[each])
        end, times = last.pop(table), ops[table]
        before = max(last.values(), default=low)
        if end - before <= APART_NS:
            return None
        place = int(times.end.argmax())
        before = int(np.delete(times.end, place).max(initial=before))
        dur, name = times.end - times.start, self._of(table, "name_id", times.row)
        (usual,) = medians(name, np.array([place]), dur, _FEWEST_OF_A_NAME)
        is_far = end - before > max(APART_NS, APART_SPANS * (before - low))
        is_odd = dur[place] > _OVERRUN_MEDIANS * usual
        return (table, int(times.row[place])) if is_far and is_odd else None

    @cached_in("_cache")
    def _lags(self, table: str) -> tuple[Array, Array]:
        # The rows of operations with a call that has a time, and how long after its start they start.
        times, calls = self._times(table), self._calls
        called_at = np.full(len(times.row), MISSING)
        if calls is not None:
            mine, believed = take(self._owners(table), times.row), calls["start_ns"].copy()
            for places in self.places.get("api_call", ()):
                believed[places] = MISSING
            called_at = np.where(mine >= 0, believed.take(mine), MISSING)
        known = called_at != MISSING
        return take(times.row, known), take(times.start, known) - take(called_at, known)

    def has_one_clock(self) -> bool:
        """Return whether times of the GPU can be compared with those of the host (Clocks, ibid.)."""
        lags = [lag for table in self._gpu_tables if len(lag := self._lags(table)[1])]
        return not lags or (
            min(int(lag.min()) for lag in lags) <= APART_NS
            and max(int(lag.max()) for lag in lags) >= -APART_NS
        )

    def late(self) -> Iterator[Note]:
        """Yield a note on operations long after all else, and after their calls; of no known session."""
        every = self._every
        ops = {table: times for table, times in every.items() if table in self._gpu_tables}
        last = max((int(every[t].end.max()) for t in HOST_TABLES if t in every), default=None)
        if last is None or not ops or edges_of_session(self._profile) is not None:
            return
        after = {table: times.start > last for table, times in ops.items()}
        start, end = (
            np.concatenate([getattr(ops[table], name)[mine] for table, mine in after.items()])
            for name in ("start", "end")
        )
        low = min(int(times.start.min()) for times in every.values())
        reach = max(int(ops[t].end.max(initial=last, where=~mine)) for t, mine in after.items())
        order = np.argsort(start, kind="stable")
        reached = np.maximum.accumulate(np.append(reach, end[order]))[:-1]
        far = start[order] - reached > np.maximum(APART_NS, APART_SPANS * (reached - low))
        if not far.any():
            return
        since = int(start[order][far.argmax()])
        found = {table: times.row[times.start >= since] for table, times in every.items()}
        linked = sum(int(np.count_nonzero(self._owners(t)[found[t]] >= 0)) for t in ops)
        if 2 * linked > sum(len(found[table]) for table in ops):
            text = f"events long after all others, by {APART_SPANS} times their time span or more"
            yield self._note_without("events-outside", text, found, frozenset())

    def early(self) -> Iterator[Note]:
        """Yield a note on operations long before the calls that launched them."""
        found, count, drifts = {}, 0, False
        for table in self._gpu_tables:
            rows, lag = self._lags(table)
            found[table] = rows[lag < -EARLY_NS]
            count += len(rows)
            drifts |= bool(((lag >= -EARLY_NS) & (lag < -EARLY_NS // _DRIFT_PARTS)).any())
        early = sum(map(len, found.values()))
        if not early or (drifts and 2 * early > count):
            return
        text = "GPU operations more than a second before the calls that launched them"
        yield self._note_without("ops-before-launch", text, found)

    def left_over(self) -> Iterator[Note]:
        """Yield a note on operations that ended long before the host's first event."""
        host = [
            times for t in HOST_TABLES if t in self._tables and len((times := self._times(t)).row)
        ]
        if not host:
            return
        first = min(int(times.start.min()) for times in host)
        ops = {table: self._times(table) for table in self._gpu_tables}
        rest = (
            max(int(times.end.max()) for times in (*host, *ops.values()) if len(times.row)) - first
        )
        longest = max(_LEFT_NS, rest // _LEFT_PARTS)
        early = [
            times for times in ops.values() if len(times.row) and int(times.start.min()) < first
        ]
        if not early:
            return
        start = np.concatenate([t.start[t.start < first] for t in early])
        end = np.concatenate([t.end[t.start < first] for t in early])
        order = np.argsort(start, kind="stable")
        reach = np.maximum.accumulate(end[order])
        gaps = np.append(start[order][1:], first) - reach
        last = np.flatnonzero(gaps > longest)
        if not len(last):
            return
        until = int(reach[last[-1]])
        found = {t: times.row[times.end <= until] for t, times in ops.items()}
        found = {t: rows[self._owners(t)[rows] < 0] for t, rows in found.items()}
        if any(map(len, found.values())):
            text = "GPU operations left over from before the recording, without calls"
            yield self._note_without("leftover-ops", text, found)

    def recorded_again(self) -> Iterator[Note]:
        """Yield a note on operations that agree with an earlier one in call, stream, times and name."""
        self._again = {table: self._said_again(table) for table in self._gpu_tables}
        if any(map(len, self._again.values())):
            text = "GPU operations that are recorded more than once"
            yield self._note_without("repeated-ops", text, self._again)
            self.sizes = {t: rows for t, rows in self._again.items() if t in SIZES and len(rows)}

    def _said_again(self, table: str) -> Array:
        times, known = self._times(table), schema.metadata.tables[table].c
        lasting = np.flatnonzero(times.end > times.start)
        row, start, end = (take(each, lasting) for each in (times.row, times.start, times.end))
        places = equal_places(start)
        if not len(places):
            return places
        op = [self._of(table, name, row[places]) for name in _OF_AN_OP if name in known]
        pid, correlation = (self._of(table, name, row) for name in ("pid", "correlation_id"))
        call, _ = factorize(pid, correlation)
        again = repeated(places, [start[places], end[places], *op], call)
        return take(row, again & has_correlation(correlation))

    def overrunning(self) -> Iterator[Note]:
        """Yield a note on operations that end long after the next one on their stream has begun."""
        tables = self._gpu_tables
        times = [self._times(table) for table in tables]
        if not any((each.end - each.start > OVERRUN_NS).any() for each in times):
            return
        kind = np.repeat(np.arange(len(tables)), [len(each.row) for each in times])
        row, start, end = (
            np.concatenate([getattr(each, name) for each in times])
            for name in ("row", "start", "end")
        )
        both = list(zip(tables, times, strict=True))
        device, pid, stream, name = (
            np.concatenate([self._of(table, name, each.row) for table, each in both])
            for name in ("device_id", "pid", "stream_id", "name_id")
        )
        dur, (group, _) = end - start, factorize(device, pid, stream)
        some = distinct(group[(dur > OVERRUN_NS) & (stream != MISSING)])
        order = np.flatnonzero(among(group, some))
        order = order[np.lexsort((start[order], group[order]))]
        over = end[order[:-1]] - start[order[1:]]
        late = (group[order[:-1]] == group[order[1:]]) & (over > OVERRUN_NS)
        suspects, over = order[:-1][late], over[late]
        usual = medians(name, suspects, dur, _FEWEST_OF_A_NAME)
        usual = np.where(np.isnan(usual), medians(group, suspects, dur, 1), usual)
        stalled = suspects[over > _OVERRUN_MEDIANS * usual]
        if len(stalled):
            found = {t: row[stalled[kind[stalled] == place]] for place, t in enumerate(tables)}
            text = (
                "GPU operations that seem to end long after the next one on their stream has begun"
            )
            yield self._note_without("overrunning-ops", text, found)

    def _of(self, table: str, name: str, rows: Array) -> Array:
        # The result is a column at these rows. If the table lacks it, rows get distinct negative values.
        if name in schema.metadata.tables[table].c:
            return take(self._profile.columns(table, (name,))[name], rows)
        return -1 - rows.astype(np.int64)

    # -- work that is not there

    def without_work(self) -> Iterator[Note]:
        """Yield notes on launches of kernels and graphs without an operation: those lost, those failed.

        Where a stream is captured a launch becomes a node of a graph, and has none.
        """
        calls = self._calls
        if calls is None or not self._gpu_tables:
            return
        names = self._profile.names(distinct(calls["name_id"]), plain=True)
        launching = self._named(calls, names, "kernel_launch", "graph_launch")
        launches = np.flatnonzero(launching & has_correlation(calls["correlation_id"]))
        without = launches[~self._worked(calls, launches)[launches]]
        if not len(without):
            return
        column = self._profile.columns("api_call", ("dur_ns", "tid", "result"))
        result = column["result"][without]
        failed = (result != 0) & (result != MISSING)
        begin = np.flatnonzero(self._named(calls, names, "begin_capture"))
        begin = begin[(column["result"][begin] == 0) | (column["result"][begin] == MISSING)]
        ends = begin, np.flatnonzero(self._named(calls, names, "end_capture"))
        captured = np.zeros(len(without), bool)
        if len(begin):
            thread, _ = factorize(calls["pid"], column["tid"])
            worked = launches[~among(launches, without)]
            captured = are_captured(calls, thread, ends, worked, without) & ~failed
        lost = without[~failed & ~captured]
        lost = lost[~self._beside_others(calls, column, launches, lost)]
        lost = self._without_shared(names, lost)
        self._lost = lost
        missing, wrong = "launches whose work was not recorded", "launches that failed"
        for slug, severity, text, rows in (
            ("launches-without-work", Severity.DROPPED, missing, lost),
            ("launches-failed", Severity.INFO, wrong, without[failed]),
        ):
            if len(rows):
                where = self._where("api_call", int(rows[0]))
                text += f": {self._by_function(calls, names, launches, rows)}"
                yield Note(slug, severity, text, len(rows), where, _WORK, len(launches))

    def lost(self) -> Array:
        """Return calls without work, and those of whose work no time is recorded and believed."""
        found = [self._lost]
        for table in self._gpu_tables:
            untimed = np.ones(self._profile.row_count(table), bool)
            untimed[self._times(table).row] = untimed[self._again[table]] = False
            if untimed.any():
                found.append(self._owners(table)[untimed])
        every = distinct(np.concatenate(found))
        return every[every >= 0]

    def _named(self, calls: Arrays, names: Names, *roles: str) -> Array:
        fits = called(*roles)
        ids = np.array(sorted(i for i, name in names.items() if fits(name)), np.int64)
        mask: Array = among(calls["name_id"], ids) & (calls["start_ns"] != MISSING)
        return mask

    def _worked(self, calls: Arrays, launches: Array) -> Array:
        # The mask is true for calls that launched an operation. Calls may share a correlation id.
        worked = np.zeros(len(calls["pid"]) + 1, bool)
        for table in self._gpu_tables:
            worked[self._owners(table)] = True
        worked[-1] = False  # where operations without a call wrote
        rest = launches[~worked[launches]]
        if len(rest):
            pid, correlation = calls["pid"], calls["correlation_id"]
            both = np.concatenate((np.flatnonzero(worked), rest))
            group, keys = factorize(pid[both], correlation[both])
            shared = np.zeros(len(keys[0]), bool)
            shared[group[: len(both) - len(rest)]] = True
            worked[rest] = shared[group[len(both) - len(rest) :]]
        return worked[:-1]

    def _without_shared(self, names: Names, lost: Array) -> Array:
        # This removes launches whose work is recorded for another launch, which then has two kernels.
        calls_of = [self._owners(t) for t in self._gpu_tables if t == "kernel"]
        per_call = [np.bincount(each[each >= 0]) for each in calls_of]
        if not len(lost) or not any((each > 1).any() for each in per_call):
            return lost
        ops, calls = gpu_ops(self._profile, {}), api_calls(self._profile, {})
        owner, _ = owners(ops, calls, names)
        result: Array = lost[~among(lost, distinct(calls.row[owner[owner >= 0]]))]
        return result

    def _beside_others(self, calls: Arrays, column: Arrays, launches: Array, lost: Array) -> Array:
        # The mask is true for launches that lie in, or around, another launch on their thread that has
        # the operation. If neither has one, the outer launch counts.
        beside = np.zeros(len(calls["pid"]), bool)
        is_lost = np.zeros(len(calls["pid"]), bool)
        is_lost[lost] = True
        group, threads = factorize(calls["pid"][launches], column["tid"][launches])
        for members in by_group(group, len(threads[0]), launches):
            if not is_lost[members].any():
                continue
            start, dur = calls["start_ns"][members], column["dur_ns"][members]
            order = np.lexsort((-dur, start))
            members, start = members[order], start[order]
            end = start + np.maximum(dur[order], 0)
            reach = np.maximum.accumulate(np.append(MISSING, end[:-1]))
            nest = np.cumsum(start >= reach) - 1
            worked = np.bincount(nest, ~is_lost[members]) > 0
            beside[members] = worked[nest] | (start < reach)
        result: Array = beside[lost]
        return result

    def _by_function(self, calls: Arrays, names: Names, launches: Array, rows: Array) -> str:
        every, (pid, name) = factorize(calls["pid"][launches], calls["name_id"][launches])
        of = np.bincount(every, minlength=len(pid))
        mine = np.bincount(every[np.searchsorted(launches, rows)], minlength=len(pid))
        most = np.argsort(-mine, kind="stable")[:_SHOWN].tolist()
        if len(pid) == 1:
            return names[int(name[0])]
        one = len(distinct(pid)) == 1
        parts = [
            f"{names[int(name[i])]}{'' if one else f' of process {pid[i]}'}: {mine[i]:,} of {of[i]:,}"
            for i in most
            if mine[i]
        ]
        return "; ".join([*parts, *(["…"] if np.count_nonzero(mine) > _SHOWN else [])])

    def impossible_sizes(self) -> Iterator[Note]:
        """Yield a note on operations of a negative size, or of a size that no memory has."""
        found = {}
        for table in (each for each in SIZES if each in self._profile.extents):
            column = self._profile.columns(table, tuple(SIZES[table]))
            if len(odd := np.flatnonzero(have_impossible_sizes(table, column))):
                found[table] = odd
                self.sizes[table] = distinct(np.append(self.sizes.get(table, odd), odd))
        if found:
            facts = frozenset(schema.EVENT_TABLES[each] for each in found)
            text = "impossible sizes; these bytes count as not recorded"
            yield self._note("sizes-impossible", text, found, facts)

    def unequal_replays(self) -> Iterator[Note]:
        """Yield a note on nodes of graphs that were not recorded in each replay of their graph."""
        calls = self._calls
        if calls is None:
            return
        names = self._profile.names(distinct(calls["name_id"]), plain=True)
        if not any(map(called("graph_launch"), names.values())):
            return
        node, pid, call = ([np.empty(0, np.int64)] for _ in range(3))
        for table in self._gpu_tables:
            if "graph_node_id" in schema.metadata.tables[table].c:
                column = self._profile.columns(table, ("graph_node_id", "pid"))
                owner, own = self._owners(table), has_correlation(column["graph_node_id"])
                mine = np.flatnonzero(own & (owner >= 0))
                node.append(column["graph_node_id"][mine])
                pid.append(column["pid"][mine])
                call.append(owner[mine])
        missing, of, first = missing_nodes(*map(np.concatenate, (call, pid, node)))
        if missing:
            text = "graph nodes that are missing in some replays of their graph"
            where = self._where("api_call", first)
            yield Note("graph-replays-unequal", Severity.DROPPED, text, missing, where, _WORK, of)
