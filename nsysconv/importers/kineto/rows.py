"""What all tables' rows share: times, names, threads, and where on a GPU."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from operator import itemgetter
from struct import pack
from typing import Any

from nsysconv.importers.kineto.batch import Batch
from nsysconv.importers.kineto.cells import constant, first_whole, whole
from nsysconv.importers.kineto.events import Args, Event
from nsysconv.importers.kineto.piece import CELL_BYTES, MISSING, Cells, Piece, Times
from nsysconv.importers.kineto.sorting import hashable
from nsysconv.importers.kineto.words import Words

Columns = dict[str, bytes]
"""Packed cells by column."""
ON_GPU = ("pid", "device_id", "context_id", "stream_id", "correlation_id")
"""The columns that say where work ran."""


class _Names(dict[Any, int]):
    """Numbers texts in the order of their appearance."""

    def __missing__(self, text: Any) -> int:
        if text is None:
            raise TypeError("no name")
        if not isinstance(text, str | bytes):
            return self[str(text)]
        self[text] = number = len(self)
        return number


class _Parts:
    """Rows of one table, some events at a time."""

    def __init__(self) -> None:
        self.start: Times = []
        self.dur: Times = []
        self.columns: dict[str, list[bytes]] = defaultdict(list)
        self.begins: list[tuple[int, int]] = []
        self.count = 0

    def joined(self) -> Cells:
        """All rows in one."""
        columns = {name: _column(parts) for name, parts in self.columns.items()}
        return Cells(self.count, _times(self.start), _times(self.dur), columns, self.begins)


class Rows:
    """Rows on their way into a piece of a trace, some events at a time."""

    def __init__(self, piece: Piece, words: Words) -> None:
        self._piece = piece
        self._words = words
        self._names = _Names()
        self._parts: dict[str, _Parts] = defaultdict(_Parts)
        self._process = MISSING  # the process whose rows were met last
        self._batch: Batch  # what is being added

    def finish(self) -> None:
        """Puts all rows added into the piece."""
        self._piece.names = [
            name if isinstance(name, str) else name.decode("utf-8", "replace")
            for name in self._names
        ]
        self._piece.last_process = self._process
        self._piece.tables = {table: parts.joined() for table, parts in self._parts.items()}

    def _put(
        self, table: str, events: list[Event], columns: Columns, *, instants: bool = False
    ) -> Columns:
        """Adds the rows of events with their times; `instants` last none. Returns the rows' columns.

        Rows of a GPU do not name their process: they are of the one whose rows stood before.
        """
        if "pid" not in columns:
            columns["pid"] = self._batch.processes(events)
        # One release spells all its times alike.
        self._piece.has_fractions |= not isinstance(events[0].ts, int)
        parts = self._parts[table]
        parts.start += self._batch.starts(events)
        if not instants:
            parts.dur += self._batch.durations(events)
        for name, values in columns.items():
            parts.columns[name].append(values)
        parts.begins.append((parts.count, self._batch.place))
        parts.count += len(events)
        return columns

    def _numbers_of(self, texts: list[Any]) -> bytes:
        try:
            return pack(f"{len(texts)}q", *map(self._names.__getitem__, texts))
        except TypeError:  # a name that is a list or an object, or none
            return self._optional_numbers_of(texts)

    def _optional_numbers_of(self, texts: list[Any]) -> bytes:
        if texts[0] is None and texts.count(None) == len(texts):
            return constant(MISSING, len(texts))
        names = self._names
        return whole([MISSING if text is None else names[hashable(text)] for text in texts])

    def _spelled_numbers_of(self, texts: list[Any]) -> bytes:
        """As above, for JSON that is stored as it is spelled."""
        if texts[0] is None and texts.count(None) == len(texts):
            return constant(MISSING, len(texts))
        names = self._names
        # To add to nothing makes bytes of it in a third of the time that bytes() takes.
        return whole([MISSING if text is None else names[b"" + text] for text in texts])

    def _on_thread(self, events: list[Event]) -> Columns:
        return {
            "pid": whole([event.pid for event in events]),
            "tid": whole([event.tid for event in events]),
        }

    def _on_gpu(self, events: list[Event], args: list[Args]) -> Columns:
        return {
            # A peer copy tells where it ran; the first releases told the device by the row only.
            "device_id": first_whole(
                lambda: [a.device for a in args],
                lambda: [a.in_device for a in args],
                lambda: [event.pid for event in events],
            ),
            "context_id": first_whole(
                lambda: [a.context for a in args], lambda: [a.in_context for a in args]
            ),
            "stream_id": first_whole(
                lambda: [a.stream for a in args], lambda: [event.tid for event in events]
            ),
            "correlation_id": whole([a.correlation for a in args]),
        }


def _column(parts: list[bytes]) -> bytes:
    """A column of several parts in one; its first cell where all cells are alike."""
    column = b"".join(parts)
    first = column[:CELL_BYTES]
    return first if column == first * (len(column) // CELL_BYTES) else column


def _times(times: Times) -> Times:
    """The same in as few parts as there can be: mostly one."""
    return [
        (unit, b"".join(map(itemgetter(1), parts))) for unit, parts in groupby(times, itemgetter(0))
    ]
