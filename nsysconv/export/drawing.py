"""A profile as a trace: which tracks it has, and its rows on them, streamed in the order of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from nsysconv.export.told import Told
from nsysconv.report import MISSING
from nsysconv.store.read import Profile
from nsysconv.timeline.calls import by_group
from nsysconv.timeline.ops import joined, taken
from nsysconv.timeline.statistics import number
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray


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
        found = [self._placed(kind, pid) for kind in kinds]
        sizes = [len(rows) for rows, *_ in found]
        rows_of, starts, durs, groups_of = (list(each) for each in zip(*found, strict=True))
        found.clear()
        start, dur = joined(starts), joined(durs)
        starts.clear()
        durs.clear()
        group, keys = number(*(joined(columns) for columns in zip(*groups_of, strict=True)))
        groups_of.clear()
        track, tracks = self._tracks(kinds[0], start, dur, group, keys)
        del group
        order = time_order(start, dur)
        del start, dur
        if len(kinds) == 1:
            none = np.broadcast_to(np.int8(0), len(order))
            return Section(kinds, [rows_of[0][order]], [track[order]], none, tracks)
        kind_of = np.repeat(np.arange(len(kinds), dtype=np.int8), sizes)[order]
        edges = np.cumsum([0, *sizes]).tolist()
        rows, tracks_of = [], []
        for place, (low, high) in enumerate(pairwise(edges)):
            mine = order[kind_of == place]
            rows.append(rows_of[place][mine - low])
            tracks_of.append(track[low:high][mine - low])
        return Section(kinds, rows, tracks_of, kind_of, tracks)

    def blocks(self, section: Section) -> Iterator[tuple[list[Drawn], Array]]:
        """The rows of a section, some at a time: per kind what there is of it, and the place of each
        row of all kinds, one kind after the other, in the order of time.
        """
        readers = [
            Reader(self.profile, kind.table, rows)
            for kind, rows in zip(section.kinds, section.rows, strict=True)
        ]
        done = [0] * len(readers)
        for chunk in chunks(len(section)):
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
        told = kind.tells(rows, self.about)
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

    def _placed(self, kind: Kind, pid: int) -> tuple[Array, Array, Array, list[Array]]:
        """Of a kind's rows that have a time: places in the table, start, duration, and group columns."""
        has_length = "dur_ns" in schema.metadata.tables[kind.table].c
        names = ("start_ns", "pid", *kind.groups, *kind.reads, *(("dur_ns",) * has_length))
        columns = self.profile.columns(kind.table, names)
        kept = columns["pid"] == pid
        mask = self.mask(kind.table)
        if mask is not None:
            kept &= mask
        if kind.of is not None:
            kept &= kind.of(columns)
        timed = columns["start_ns"] != MISSING
        closing = kind.table == "range"
        if has_length and not closing:
            timed &= columns["dur_ns"] != MISSING
        self.untimed[kind.what] += int(np.count_nonzero(kept & ~timed))
        chosen = kept & timed
        rows = np.flatnonzero(chosen).astype(np.int32)
        start, *groups = (
            columns[name] if len(rows) == len(chosen) else taken(columns[name], rows)
            for name in ("start_ns", *kind.groups)
        )
        dur = np.broadcast_to(np.int64(0), len(rows))
        if has_length and not kind.instant:
            dur = taken(columns["dur_ns"], rows)
            if closing:
                last = (
                    start if self.about.closing is None else np.maximum(self.about.closing, start)
                )
                dur = np.where(dur == MISSING, last - start, dur)
        self.profile.release(kind.table, names)
        return rows, start, dur, groups

    def _tracks(
        self, kind: Kind, start: Array, dur: Array, group: Array, keys: list[Array]
    ) -> tuple[Array, list[Track]]:
        """Per row the place of its track, and the tracks."""
        tracks: list[Track] = []
        place_of = np.empty(len(start), np.int32)
        count = len(keys[0])
        members: list[Any] = [slice(None)] if count == 1 else by_group(group, count)
        for which, mine in enumerate(members):
            key = {name: int(k[which]) for name, k in zip(kind.groups, keys, strict=True)}
            # Of what happened on no thread, two at a time may be of two threads.
            nests = kind.nests and key.get("tid", 0) != MISSING
            if kind.instant:
                lane = np.zeros(len(start[mine]), np.int32)
            else:
                lane = spread(nested if nests else apart, start[mine], dur[mine])
            place_of[mine] = lane + self.next_track
            title = kind.title(self.about, key)
            for number_ in range(int(lane.max(initial=-1)) + 1):
                tracks.append(Track(self.next_track, kind, title, key, number_))
                self.next_track += 1
        return place_of, tracks

    def _flows(self, first: int) -> Flows | None:
        """The arrows between calls and operations that are drawn; None where there are no calls."""
        if not self.profile.row_count("api_call"):
            return None
        names = ("start_ns", "dur_ns", "pid", "tid", "layer", "correlation_id")
        columns = self.profile.columns("api_call", names)
        kept = (columns["start_ns"] != MISSING) & (columns["dur_ns"] != MISSING)
        mask = self.mask("api_call")
        if mask is not None:
            kept &= mask
        rows = np.flatnonzero(kept).astype(np.int32)
        chosen = {n: column if kept.all() else taken(column, rows) for n, column in columns.items()}
        calls = Calls(
            rows, chosen["start_ns"], chosen["dur_ns"], chosen["pid"], chosen["tid"],
            chosen["layer"], chosen["correlation_id"],
        )  # fmt: skip
        self.profile.release("api_call", names)
        del columns
        return Flows(calls, [self._launched(table) for table in schema.GPU_OP_TABLES], first)

    def _launched(self, table: str) -> tuple[Array, Array]:
        names = ("start_ns", "dur_ns", "pid", "correlation_id")
        columns = self.profile.columns(table, names)
        kept = (columns["start_ns"] != MISSING) & (columns["dur_ns"] != MISSING)
        mask = self.mask(table)
        if mask is not None:
            kept &= mask
        self.profile.release(table, names)
        whole = bool(kept.all())
        return tuple(columns[n] if whole else taken(columns[n], kept) for n in names[2:])  # type: ignore[return-value]


def in_order(written: Sequence[pa.Array], places: Array) -> pa.Array:
    """The cells of several kinds, each cell what one row is written as, in the order of time."""
    if len(written) == 1:
        result: pa.Array = written[0]
        return result
    return pa.concat_arrays(written).take(cells.indices(places))
