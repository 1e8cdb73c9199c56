"""The account of each device over time: piece by piece, and in equal parts of the time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from nsysconv.queries.columns import BY_DEVICE, WINDOW, duration_column
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.queries.idle_gaps import GapNames, activities_of, longest_of
from nsysconv.queries.timeline_events import asked_parts
from nsysconv.queries.timeline_tiles import FACTOR, TILE_OPTIONS, Grid, levels_that_fit
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline import host_activity, idle
from nsysconv.timeline.account_pieces import (
    PIECE_CLASSES,
    AccountPieces,
    account_pieces,
    concatenated,
)
from nsysconv.timeline.arrays import among, distinct
from nsysconv.timeline.events import event_id
from nsysconv.timeline.intervals import Union
from nsysconv.timeline.tiles import Tiles, coarser, cut_into_tiles, joined
from nsysconv.timeline.timeline import Timeline

_CLASS = f"Class of the breakdown: {', '.join(PIECE_CLASSES)}."

# -- piece by piece

COLUMNS = (
    *BY_DEVICE,
    Column("start_ns", Unit.NS, f"Start of the piece. {WINDOW}", key=True),
    duration_column("dur_ns", "Length of the piece.", adds=True),
    Column("time_class", Unit.TEXT, _CLASS, key=True),
    Column("gap", Unit.TEXT, "Id of the gap that contains the piece; null: none."),
    Column("gap_start_ns", Unit.NS, "Start of that gap.", brief=False),
    Column(
        "during",
        Unit.TEXT,
        "What the launching thread did for most of the CPU-bound part of the gap.",
    ),
    duration_column("during_ns", "Time spent in that activity.", brief=False),
    Column("next_op", Unit.TEXT, "GPU operation that ended the gap."),
    Column("event", Unit.TEXT, "Id of that operation.", brief=False),
    Column(
        "call",
        Unit.TEXT,
        "Id of the API call that launched it (for a page migration the last call before it).",
        brief=False,
    ),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per piece of the account: by device, in the order of time.

    With `parts`, only pieces that share time with them, and those of the longest gaps.
    """
    shown, most = asked_parts(request), request.options["gaps"]
    of_device = {each.device: each for each in idle.gaps(timeline, "no_op")}
    shortest = None
    if shown is not None and most:
        durations = np.sort(np.concatenate([np.empty(0), *(g.dur for g in of_device.values())]))
        shortest = int(durations[-most]) if len(durations) > most else 0
    described = _Described(timeline, request)
    columns: dict[str, list[Any]] = {column.name: [] for column in COLUMNS[1:]}
    for device in timeline.devices:
        found = of_device.get(device)
        pieces = concatenated(
            [
                _shown(each, found, shown, shortest)
                for each in account_pieces(timeline, device, found)
            ]
        )
        for name, values in described.rows(device, found, pieces).items():
            columns[name] += values
    count = len(columns["start_ns"])
    if request.limit:
        columns = {name: values[: request.limit] for name, values in columns.items()}
    return Result(columns, count)


def _shown(
    pieces: AccountPieces, found: idle.Gaps | None, shown: Union | None, shortest: int | None
) -> AccountPieces:
    # Those that share time with what is asked for, and those of gaps that are not shorter.
    if shown is None:
        return pieces
    kept, is_idle = shown.meets(pieces.start, pieces.end), pieces.gap != MISSING
    if shortest is not None and found is not None and len(found):
        kept |= is_idle & (found.dur.take(np.maximum(pieces.gap, 0)) >= shortest)
    # A gap is there with all of its parts.
    kept |= is_idle & among(pieces.gap, distinct(pieces.gap[kept & is_idle]))
    return pieces.take(np.flatnonzero(kept))


TIMELINE_ACCOUNT = Query(
    options=(
        Option(
            "parts",
            None,
            "Only pieces that overlap one of these intervals: START:END in ns, separated by "
            "commas.",
        ),
        Option("gaps", 0, "With parts: also show this many of the longest gaps completely."),
    ),
    columns=COLUMNS,
    compute=compute,
)


class _Described:
    # The values of pieces.

    def __init__(self, timeline: Timeline, request: Request) -> None:
        self._timeline = timeline
        self._names = GapNames(timeline)
        self._activities = host_activity.host_activity(timeline, request.range_names)

    def rows(
        self, device: int, found: idle.Gaps | None, pieces: AccountPieces
    ) -> dict[str, list[Any]]:
        count = len(pieces)
        values = {
            "rank": [self._timeline.rank_of(self._timeline.pids_on(device))] * count,
            "device_id": [device] * count,
            "start_ns": pieces.start.tolist(),
            "dur_ns": (pieces.end - pieces.start).tolist(),
            "time_class": [PIECE_CLASSES[place] for place in pieces.place.tolist()],
        }
        shown = distinct(pieces.gap[pieces.gap != MISSING])
        of_gaps = {} if found is None else self._gaps(found.take(shown))
        number = np.searchsorted(shown, pieces.gap)
        place = np.where(pieces.gap == MISSING, len(shown), number).tolist()
        for column in COLUMNS[len(BY_DEVICE) + 3 :]:
            known = [*of_gaps.get(column.name, ()), None]
            values[column.name] = [known[min(each, len(known) - 1)] for each in place]
        return values

    def _gaps(self, found: idle.Gaps) -> dict[str, list[Any]]:
        timeline = self._timeline
        on_thread = idle.drop_threadless_host_parts(timeline, found)
        during, during_ns = longest_of(activities_of(on_thread, self._activities))
        ended_by = found.ended_by.tolist()
        calls = idle.launched(timeline, found)[0].tolist()
        rows = timeline.calls.row
        return {
            "gap": [idle.gap_id(number) for number in idle.gap_numbers(timeline, found).tolist()],
            "gap_start_ns": found.start.tolist(),
            "during": during,
            "during_ns": during_ns,
            "next_op": [self._names.operation(op) for op in ended_by],
            "event": [timeline.ops.event_id(op) if op >= 0 else None for op in ended_by],
            "call": [event_id("api_call", int(rows[c])) if c >= 0 else None for c in calls],
        }


# -- in equal parts

_TILE_COLUMNS = (
    *BY_DEVICE,
    Column("dur_ns", Unit.NS, "Length of the tile.", key=True),
    Column("start_ns", Unit.NS, "Start of the tile.", key=True),
    Column("time_class", Unit.TEXT, _CLASS, key=True),
    duration_column("class_ns", "Time of that class in the tile.", adds=True),
)


def _tiles(timeline: Timeline, request: Request) -> Result:
    """Return one row per device, tile and class that occurs in it: the widest tiles first."""
    grid = Grid.of(timeline, request)
    levels: list[list[tuple[int, Tiles]]] = [[] for _ in grid.widths]
    of_device = {each.device: each for each in idle.gaps(timeline, "no_op")}
    for device in timeline.devices:
        pieces = account_pieces(timeline, device, of_device.get(device))
        for level, tiles in zip(levels, _levels(pieces, grid), strict=True):
            level.append((device, tiles))
    widest_first = list(zip(grid.widths, levels, strict=True))[::-1]
    sizes = [sum(len(tiles) for _, tiles in level) for _, level in widest_first]
    values: dict[str, list[Any]] = {column.name: [] for column in _TILE_COLUMNS[1:]}
    for width, level in widest_first[: levels_that_fit(sizes, request.limit)]:
        for device, tiles in level:
            rank = timeline.rank_of(timeline.pids_on(device))
            values["rank"] += [rank] * len(tiles)
            values["device_id"] += [device] * len(tiles)
            values["dur_ns"] += [width] * len(tiles)
            values["start_ns"] += (grid.first + tiles.tile.astype(np.int64) * width).tolist()
            values["time_class"] += [PIECE_CLASSES[place] for place in tiles.label.tolist()]
            values["class_ns"] += tiles.time.tolist()
    if request.limit:
        values = {name: column[: request.limit] for name, column in values.items()}
    return Result(values, sum(sizes))


def _levels(parts: Iterable[AccountPieces], grid: Grid) -> Iterator[Tiles]:
    # The tiles of each width, the narrowest first.
    tiles = joined([_narrowest(pieces, grid) for pieces in parts])
    yield tiles
    for _ in grid.widths[1:]:
        tiles = coarser(tiles, FACTOR)
        yield tiles


def _narrowest(pieces: AccountPieces, grid: Grid) -> Tiles:
    # Migrations may lie outside of all other events.
    start, end = (np.clip(each, *grid.ends) for each in (pieces.start, pieces.end))
    kept: Array = np.flatnonzero(end > start)
    return cut_into_tiles(start[kept], end[kept], pieces.place[kept], grid.ends, grid.widths[0])


ACCOUNT_TILES = Query(options=TILE_OPTIONS, columns=_TILE_COLUMNS, compute=_tiles)
