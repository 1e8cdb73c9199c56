"""The events of a part of a piece: their times as they are spelled, and the processes they belong to.

Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from nsysconv.importers.kineto.cells import constant, times, whole
from nsysconv.importers.kineto.events import Event
from nsysconv.importers.kineto.piece import MISSING, Times
from nsysconv.importers.kineto.sorting import distinct

Spelled = Callable[[Sequence[Event], str], Sequence[bytes]]
"""How events' `ts` or `dur` are spelled."""

_PROCESS_LIMIT = 1 << 62


class Batch:
    """Events in the order of the text, which begins at byte `place` of the trace."""

    def __init__(self, events: Sequence[Event], spelled: Spelled, place: int) -> None:
        self.events = events
        self.place = place
        self._spelled = spelled
        self._process = MISSING
        self._process_of: dict[int, int] | None = None

    def assign_processes(
        self, on_threads: Sequence[Sequence[Event]], process: int
    ) -> tuple[list[int], int]:
        """Give each event the process that was named last before it, by itself or an earlier event.

        Only the events `on_threads` name a process. `process` is the last one named before this batch,
        MISSING if none was. Returns the processes in the order in which they come first, none of them
        where all are `process`; and the last one named.
        """
        self._process = process
        named = set[Any]().union(*(distinct([event.pid for event in part]) for part in on_threads))
        if {number for number in map(_process_number, named) if number is not None} <= {process}:
            return [], process
        naming = {id(event) for event in chain.from_iterable(on_threads)}
        seen: dict[int, None] = {}
        self._process_of = {}
        for event in self.events:
            number = _process_number(event.pid) if id(event) in naming else None
            if number is not None:
                process = number
                seen[number] = None
            self._process_of[id(event)] = process
        return list(seen), process

    def processes(self, events: Sequence[Event]) -> bytes:
        """Return the processes assigned to some of the events, packed."""
        if self._process_of is None:
            return constant(self._process, len(events))
        return whole([self._process_of[id(event)] for event in events])

    def starts(self, events: Sequence[Event]) -> Times:
        """Return when some of the events begin."""
        return times([event.ts for event in events], lambda: self._spelled(events, "ts"))

    def durations(self, events: Sequence[Event]) -> Times:
        """Return how long some of the events last."""
        return times([event.dur for event in events], lambda: self._spelled(events, "dur"))


def _process_number(value: Any) -> int | None:
    """Return a number that can be a process's, else None."""
    return value if isinstance(value, int) and 0 < abs(value) < _PROCESS_LIMIT else None
