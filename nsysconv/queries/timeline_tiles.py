"""The time line in equal parts: what was busiest on each lane in each of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import count_column, duration_column
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.queries.event_lanes import (
    KIND,
    KINDS,
    LANE_COLUMNS,
    Lane,
    LaneEvents,
    extent,
    labels,
    lane_values,
    lanes,
)
from nsysconv.report import Column, Unit
from nsysconv.timeline.tiles import (
    NO_ROW,
    Rows,
    Tiles,
    coarser,
    cut_into_tiles,
    dominating,
    joined,
)
from nsysconv.timeline.timeline import Timeline

FACTOR = 4
"""Tiles of a level are so many times as wide as those of the next."""
MOST_ROWS = 24
"""Events of a lane that overlap are in at most so many rows."""
MOST_BINS = 1 << 20
"""The time is cut in so many parts at most."""

COLUMNS = (
    *LANE_COLUMNS,
    Column(
        "row",
        Unit.ID,
        "Row within the lane, from 0: an overlapping event goes to the first row with room.",
        key=True,
    ),
    Column("dur_ns", Unit.NS, "Length of the tile.", key=True),
    Column("start_ns", Unit.NS, "Start of the tile.", key=True),
    duration_column("busy_ns", "Time in the tile with an event of this row."),
    count_column("event_count", "Number of events that began in the tile."),
    KIND,
    Column(
        "name",
        Unit.TEXT,
        "Name with the most time in the tile; ranges and operators by their group.",
    ),
    duration_column("name_ns", "Time in the tile of events of that name."),
)


TILE_OPTIONS = (
    Option("bins", 1000, f"Number of parts of the time, {MOST_BINS} at most."),
    Option(
        "levels",
        1,
        f"Number of levels, each with parts {FACTOR} times as long as the previous one.",
    ),
)
"""The options of a report in equal parts of the time."""


@dataclass(frozen=True)
class Grid:
    """How the time from `first` to `last` is cut into tiles: of which widths, the narrowest first."""

    first: int
    last: int
    widths: tuple[int, ...]

    @classmethod
    def of(cls, timeline: Timeline, request: Request) -> Grid:
        """Return what TILE_OPTIONS ask for; raise UsageError for numbers that cannot be."""
        bins, level_count = request.options["bins"], request.options["levels"]
        if not 1 <= bins <= MOST_BINS:
            raise UsageError(f"bins={bins}: there are 1 to {MOST_BINS} bins")
        if level_count < 1:
            raise UsageError(f"levels={level_count}: there is at least 1 level")
        first, last = extent(timeline, request) or (0, 1)
        last = max(last, first + 1)
        width = -(-(last - first) // bins)
        return cls(first, last, tuple(width * FACTOR**level for level in range(level_count)))

    @property
    def ends(self) -> tuple[int, int]:
        """Return when the time begins, and when it ends."""
        return self.first, self.last


def levels_that_fit(sizes: Sequence[int], limit: int) -> int:
    """Return how many levels of tiles a limit leaves, of the first what there is room for; 0: all."""
    fitting = [size for size in accumulate(sizes) if size <= limit]
    return max(len(fitting), 1) if limit else len(sizes)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per lane, row and tile with an event: the widest tiles first.

    A limit leaves out the narrower tiles, all of a width together.
    """
    named, grid = labels(timeline, request), Grid.of(timeline, request)
    cut = _Cut(grid)
    for lane, events in lanes(timeline, request, named):
        cut.add(lane, events)
    levels = cut.levels()
    sizes = [sum(len(rows["row"]) for _, rows in level) for level in levels]
    fitting = levels[: levels_that_fit(sizes, request.limit)]
    shown = [of_lane for level in fitting for of_lane in level]
    values: dict[str, Any] = {
        name: np.concatenate([np.empty(0, np.int64), *(rows[name] for _, rows in shown)])
        for name in _NUMBERS
    }
    label = values.pop("label")
    values["kind"] = np.array(KINDS, object)[named.kinds[label]].tolist()
    values["name"] = np.array(named.texts, object)[label].tolist()
    values |= lane_values(timeline, [(lane, len(rows["row"])) for lane, rows in shown])
    if request.limit:
        values = {name: column[: request.limit] for name, column in values.items()}
    return Result(values, sum(sizes), _notes(cut.left_out))


_NUMBERS = ("row", "dur_ns", "start_ns", "busy_ns", "event_count", "label", "name_ns")

TIMELINE_TILES = Query(
    options=TILE_OPTIONS,
    columns=COLUMNS,
    compute=compute,
)


class _Cut:
    """The lanes, cut into tiles of several widths one after the other, for their events are many."""

    def __init__(self, grid: Grid) -> None:
        """Cut into the tiles of a grid."""
        self._ends, self._widths = grid.ends, grid.widths
        self._levels: list[list[tuple[Lane, Mapping[str, Array]]]] = [[] for _ in self._widths]
        self._lane: Lane | None = None
        self._rows = Rows(MOST_ROWS)
        self._parts: dict[int, list[Tiles]] = defaultdict(list)
        self.left_out = 0

    def add(self, lane: Lane, events: LaneEvents) -> None:
        """Add the next events of a lane; all of a lane come one after the other."""
        if lane != self._lane:
            self._close()
            self._lane, self._rows = lane, Rows(MOST_ROWS)
        # Calls of a slice may be outside it: what they launched is in it.
        first, last = self._ends
        events = events.take((events.end >= first) & (events.start <= last))
        if not len(events):
            return
        in_row = self._rows.fit(events.start, events.end)
        self.left_out += int(np.count_nonzero(in_row == NO_ROW))
        for row in range(int(in_row.max()) + 1):
            mine = events.take(in_row == row)
            start, end = np.clip(mine.start, *self._ends), np.clip(mine.end, *self._ends)
            tiles = cut_into_tiles(start, end, mine.label, self._ends, self._widths[0])
            self._parts[row].append(tiles)

    def levels(self) -> list[list[tuple[Lane, Mapping[str, Array]]]]:
        """Return the values of the tiles of each width, the widest first, by lane and row."""
        self._close()
        return self._levels[::-1]

    def _close(self) -> None:
        for row, parts in sorted(self._parts.items()):
            tiles = joined(parts)
            for number, (width, level) in enumerate(zip(self._widths, self._levels, strict=True)):
                if number:
                    tiles = coarser(tiles, FACTOR)
                assert self._lane is not None
                level.append((self._lane, self._values(tiles, row, width)))
        self._parts.clear()

    def _values(self, tiles: Tiles, row: int, width: int) -> dict[str, Array]:
        best, busy, begun = dominating(tiles)
        return {
            "row": np.full(len(best), row),
            "dur_ns": np.full(len(best), width),
            "start_ns": self._ends[0] + best.tile.astype(np.int64) * width,
            "busy_ns": busy,
            "event_count": begun,
            "label": best.label,
            "name_ns": best.time,
        }


def _notes(left_out: int) -> tuple[Note, ...]:
    if not left_out:
        return ()
    text = f"events that overlap {MOST_ROWS} others in their lane were left out of the tiles"
    return (Note("deep-events", Severity.APPROXIMATED, text, left_out),)
