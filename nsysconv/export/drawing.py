"""A profile as a trace: which tracks it has, and its rows on them, streamed in the order of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from nsysconv import schema
from nsysconv.export import cells
from nsysconv.export.about import About
from nsysconv.export.flows import Calls, Flows
from nsysconv.export.kinds import Kind
from nsysconv.export.lanes import apart, nested, spread, time_order
from nsysconv.export.ordered import Reader, Rows, chunks
from nsysconv.export.telling import Told
from nsysconv.report import MISSING
from nsysconv.store.read import Profile
from nsysconv.timeline.arrays import blocks, by_group, concatenate, factorize, take
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray

# Rows of a table whose columns are kept: five of so many take 50 MB.
_MOST_KEPT = 1 << 21
# Of so few groups, looking for each in all rows takes less memory than sorting, and no longer.
_FEW_GROUPS = 16


@dataclass(frozen=True)
class Track:
    """One line of a trace. `place` numbers a writer's tracks; `key` is what its rows have in common
    (MISSING for null), `lane` counts the lines that such rows need.
    """

    place: int
    kind: Kind
    title: str
    key: dict[str, int]
    lane: int


@dataclass(frozen=True)
class Drawn:
    """Rows of one kind, in the order of time, ready to be written. Columns of equal length.

    `track` are places of tracks, times are ns since the profile's zero. Of calls, `leaving` says at
    which number the arrows that begin there start, and how many there are; of operations, `arriving`
    is the number of the arrow that ends there, flows.NONE for none.
    """

    kind: Kind
    track: Array
    start: Array
    dur: Array
    told: Told
    leaving: tuple[Array, Array] | None = None
    arriving: Array | None = None


@dataclass(frozen=True)
class Section:
    """Rows of kinds that share tracks. Per kind the rows, in the order of time, and their tracks;
    `kind_of` says, in the order of time over all, of which kind the next row is.
    """

    kinds: Sequence[Kind]
    rows: list[Array]
    tracks_of: list[Array]
    kind_of: Array
    tracks: list[Track]

    def __len__(self) -> int:
        return len(self.kind_of)


@dataclass(frozen=True)
class _Placed:
    """Rows of a kind that are to be drawn: their places in the table (None: all of it), their times, and
    the places in `keys` of what tells their track.
    """

    rows: Array | None
    start: Array
    dur: Array
    groups: Array
    keys: Sequence[tuple[int, ...]]

    def groups_among(self, number_of: Mapping[tuple[int, ...], int]) -> Array:
        """The same as places in the keys of several kinds."""
        places = np.array([number_of[key] for key in self.keys], np.min_scalar_type(len(number_of)))
        if len(places) == 1:
            return np.broadcast_to(places[0], len(self.groups))
        return take(places, self.groups)


class Drawing:
    """The rows of one time line, cut to its slice. `first_track` is the place of its first track.

    `untimed` counts, by kind, rows that have no time and cannot be drawn.
    """

    def __init__(self, timeline: Timeline, first_track: int, first_flow: int) -> None:
        self.timeline = timeline
        self.profile: Profile = timeline.profile
        self.about = About(self.profile)
        self.untimed: Counter[str] = Counter()
        self.next_track = first_track
        self.flows = self._flows(first_flow)

    def section(self, kinds: Sequence[Kind], pid: int) -> Section:
        """The rows of these kinds that are a process's, on their tracks."""
        placed = [self._placed(kind, pid) for kind in kinds]
        keys = sorted({key for each in placed for key in each.keys})
        number_of = {key: number_ for number_, key in enumerate(keys)}
        group = _joined([each.groups_among(number_of) for each in placed])
        rows_of, sizes = [each.rows for each in placed], [len(each.groups) for each in placed]
        starts, durs = [each.start for each in placed], [each.dur for each in placed]
        placed.clear()
        # One after the other: what is joined makes room.
        start = _joined(starts)
        dur = _joined(durs)
        order = time_order(start, dur, sizes)
        group = take(group, order)
        track, tracks = self._tracks(kinds[0], start, dur, order, group, keys)
        del start, dur, group
        if len(kinds) == 1:
            none = np.broadcast_to(np.int8(0), len(order))
            return Section(kinds, [_at(rows_of[0], order)], [track], none, tracks)
        kind_of = np.repeat(np.arange(len(kinds), dtype=np.int8), sizes)[order]
        edges = np.cumsum([0, *sizes]).tolist()
        rows, tracks_of = [], []
        for place, low in enumerate(edges[:-1]):
            mine = kind_of == place
            rows.append(_at(rows_of[place], order[mine] - np.int32(low)))
            tracks_of.append(take(track, mine))
        return Section(kinds, rows, tracks_of, kind_of, tracks)

    def blocks(self, section: Section) -> Iterator[tuple[list[Drawn], Array]]:
        """The rows of a section, some at a time: per kind what there is of it, and the place of each
        row of all kinds, one kind after the other, in the order of time.
        """
        readers = [
            Reader(self.profile, kind.table, rows, kind.shows)
            for kind, rows in zip(section.kinds, section.rows, strict=True)
        ]
        done = [0] * len(readers)
        for chunk in chunks(len(section), self.about.longest_name):
            kind_of = section.kind_of[chunk]
            drawn, places = [], []
            for which in np.flatnonzero(np.bincount(kind_of)).tolist():
                mine = np.flatnonzero(kind_of == which)
                low, high = done[which], done[which] + len(mine)
                done[which] = high
                rows = readers[which].next(len(mine))
                track = section.tracks_of[which][low:high]
                drawn.append(self._drawn(section.kinds[which], rows, track))
                places.append(mine)
            yield drawn, np.argsort(np.concatenate(places))

    def mask(self, table: str) -> Array | None:
        """Which rows of a table are of the slice; None: all."""
        return None if self.timeline.is_whole else self.timeline.rows(table)

    def _drawn(self, kind: Kind, rows: Rows, track: Array) -> Drawn:
        told = kind.tells.tell(rows, self.about)
        start = rows["start_ns"]
        dur = np.zeros(len(start), np.int64) if kind.instant else rows["dur_ns"]
        if told.dur is not None:
            dur = told.dur
        leaving = arriving = None
        if self.flows is not None and kind.table == "api_call":
            leaving = self.flows.leaving(rows["pid"], rows["correlation_id"], rows["row"])
        elif self.flows is not None and kind.table in schema.GPU_OP_TABLES:
            arriving = self.flows.arriving(rows["pid"], rows["correlation_id"])
        return Drawn(kind, track, start, dur, told, leaving, arriving)

    def _placed(self, kind: Kind, pid: int) -> _Placed:
        """The rows of a kind that are a process's and have a time."""
        groups, keys, kept = self._grouped(kind, pid)
        start, dur = self._times(kind.table)
        timed = start != MISSING
        if kind.table != schema.range_.name:
            timed &= dur != MISSING
        self.untimed[kind.what] += int(np.count_nonzero(kept & ~timed))
        chosen = kept & timed
        rows = None if chosen.all() else np.flatnonzero(chosen).astype(np.int32)
        if rows is not None:
            start, dur, groups = take(start, rows), take(dur, rows), take(groups, rows)
        if kind.instant:
            dur = np.broadcast_to(np.int32(0), len(start))
        elif kind.table == schema.range_.name:
            dur = self.about.closed(start, dur)
        return _Placed(rows, start, dur, groups, keys)

    def _grouped(self, kind: Kind, pid: int) -> tuple[Array, list[tuple[int, ...]], Array]:
        """Of all rows of a kind's table: the places of their tracks' keys, these keys, and which rows are
        the kind's, the process's and the slice's.
        """
        names = ("pid", *kind.groups, *kind.reads)
        columns = self.profile.columns(kind.table, names)
        self._release(kind.table, names)
        kept = columns["pid"] == pid
        mask = self.mask(kind.table)
        if mask is not None:
            kept &= mask
        if kind.of is not None:
            kept &= kind.of(columns)
        return *_numbered([columns[name] for name in kind.groups]), kept

    def _times(self, table: str) -> tuple[Array, Array]:
        """Starts and durations of a table's rows, 0 where the table has none."""
        lasting = "dur_ns" in schema.metadata.tables[table].c
        names = ("start_ns", "dur_ns") if lasting else ("start_ns",)
        columns = self.profile.columns(table, names)
        self._release(table, names)
        start = columns["start_ns"]
        return start, columns["dur_ns"] if lasting else np.broadcast_to(np.int32(0), len(start))

    def _tracks(
        self, kind: Kind, start: Array, dur: Array, order: Array, group: Array,
        keys: Sequence[tuple[int, ...]],
    ) -> tuple[Array, list[Track]]:  # fmt: skip
        """The tracks, and per row, in the order of time, the place of its own; `group` are places in
        `keys` in that order.
        """
        tracks: list[Track] = []
        lanes = []
        for values, mine in zip(keys, _members(group, len(keys)), strict=True):
            key = dict(zip(kind.groups, values, strict=True))
            lane = _lanes(kind, key, start, dur, order[mine])
            lanes.append((lane, self.next_track))
            title = kind.title(self.about, key)
            for number_ in range(int(lane.max(initial=-1)) + 1):
                tracks.append(Track(self.next_track, kind, title, key, number_))
                self.next_track += 1
        place_of = np.empty(len(order), np.min_scalar_type(self.next_track))
        for mine, (lane, first) in zip(_members(group, len(keys)), lanes, strict=True):
            place_of[mine] = lane + first
        return place_of, tracks

    def _flows(self, first: int) -> Flows | None:
        """The arrows between calls and operations that are drawn; None where there are no calls."""
        if not self.profile.row_count("api_call"):
            return None
        kept = self._whole("api_call")
        rows = np.flatnonzero(kept).astype(np.int32)
        pid, correlation = self._links("api_call", kept)

        def others(which: Array) -> dict[str, Array]:
            names = ("start_ns", "dur_ns", "tid", "layer")
            columns = self.profile.columns("api_call", names)
            self._release("api_call", names)
            return {name: take(column, rows[which]) for name, column in columns.items()}

        calls = Calls(rows, pid, correlation, others)
        ops = [self._links(table, self._whole(table)) for table in schema.GPU_OP_TABLES]
        return Flows(calls, ops, first)

    def _release(self, table: str, names: Sequence[str]) -> None:
        """Lets go of columns of a large profile; others are kept, for they are asked for again."""
        if max(map(self.profile.row_count, ("api_call", table))) > _MOST_KEPT:
            self.profile.release(table, names)

    def _whole(self, table: str) -> Array:
        """Which rows of a table are drawn with a length: those of the slice that have one."""
        start, dur = self._times(table)
        kept: Array = (start != MISSING) & (dur != MISSING)
        mask = self.mask(table)
        if mask is not None:
            kept &= mask
        return kept

    def _links(self, table: str, kept: Array) -> tuple[Array, Array]:
        """Processes and correlation ids of some rows of a table."""
        names = ("pid", "correlation_id")
        columns = self.profile.columns(table, names)
        self._release(table, names)
        pid, correlation = (columns[name] for name in names)
        return (pid, correlation) if kept.all() else (take(pid, kept), take(correlation, kept))


def _numbered(columns: Sequence[Array]) -> tuple[Array, list[tuple[int, ...]]]:
    """Per row the place of what it has in these columns among all that rows have, and what that is."""
    known: dict[tuple[int, ...], int] = {}
    if all(column.strides == (0,) for column in columns):
        numbers, values = factorize(*columns)
        return numbers, list(zip(*(each.tolist() for each in values), strict=True))
    result = np.zeros(len(columns[0]), np.uint8)
    for block in blocks(len(result)):
        numbers, values = factorize(*(column[block] for column in columns))
        keys = zip(*(each.tolist() for each in values), strict=True)
        places = np.array([known.setdefault(key, len(known)) for key in keys])
        if np.min_scalar_type(len(known)) > result.dtype:
            result = result.astype(np.min_scalar_type(len(known)))
        result[block] = places[numbers]
    return result, list(known)


def _lanes(kind: Kind, key: Mapping[str, int], start: Array, dur: Array, rows: Array) -> Array:
    """The lanes of the rows of a track, which are in the order of time."""
    if kind.instant:
        return np.broadcast_to(np.int32(0), len(rows))
    # Of what happened on no thread, two at a time may be of two threads.
    nests = kind.nests and key.get("tid", 0) != MISSING
    return spread(nested if nests else apart, start, dur, rows)


def _members(group: Array, count: int) -> Iterable[Any]:
    """Per group number 0..count-1 what picks its members, in order."""
    if count == 1:
        return [slice(None)]
    if count <= _FEW_GROUPS:
        return (group == which for which in range(count))
    return by_group(group, count)


def _at(rows: Array | None, places: Array) -> Array:
    """Some of these rows; None: of all there are."""
    return places if rows is None else take(rows, places)


def _joined(columns: list[Array]) -> Array:
    """The columns one after the other, none of which is left in the list."""
    # Empty ones need not be of the others' type.
    filled = [column for column in columns if len(column)] or columns[:1]
    columns.clear()
    return filled[0] if len(filled) == 1 else concatenate(filled)


def in_order(written: Sequence[pa.Array], places: Array) -> pa.Array:
    """The cells of several kinds, each cell what one row is written as, in the order of time."""
    if len(written) == 1:
        result: pa.Array = written[0]
        return result
    return pa.concat_arrays(written).take(cells.indices(places))
