"""The events of a share of a piece, and the rows that they stand for: here, one each.

Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Protocol

from nsysconv.importers.kineto.cells import constant, times, whole
from nsysconv.importers.kineto.events import Event
from nsysconv.importers.kineto.piece import MISSING, Times
from nsysconv.importers.kineto.sorting import distinct

Columns = dict[str, bytes]
Spelled = Callable[[Sequence[Event], str], Sequence[bytes]]
"""How events' `ts` or `dur` are spelled."""

_PROCESS_LIMIT = 1 << 62


class RowsOf(Protocol):
    """The rows of some events, in the order of the text. `count`: how many.

    `has_fractions`: their times are not all whole microseconds.
    """

    count: int
    has_fractions: bool

    def start(self) -> Times:
        """When they begin."""

    def dur(self) -> Times:
        """How long they last."""

    def spread(self, table: str, columns: Columns) -> Columns:
        """Columns of the rows of a table, out of columns of their events."""

    def owners(self) -> bytes:
        """The process whose rows stood before each; MISSING before the first that names one."""

    def firsts(self) -> Iterable[int]:
        """The first row of each event."""


class Share(Protocol):
    """Events of a text. `count`: how many rows they stand for, with those that are passed over."""

    count: int

    @property
    def events(self) -> Sequence[Event]:
        """The events, in the order of the text."""

    def follow(self, on_threads: list[list[Event]], process: int) -> tuple[list[int], int]:
        """Takes note of events that name their process; `process` is the one before the first of them.

        Returns the processes in the order in which they come first, and the last one.
        """

    def rows(self, events: list[Event]) -> RowsOf:
        """The rows of some of the events."""


class Each:
    """Events that are a row each, with their times as they are `spelled`."""

    def __init__(self, events: Sequence[Event], spelled: Spelled) -> None:
        self.events = events
        self.count = len(events)
        self.spelled = spelled
        self.process = MISSING
        self.owner_of: dict[int, int] | None = None

    def follow(self, on_threads: list[list[Event]], process: int) -> tuple[list[int], int]:
        """As Share's."""
        told = [distinct([event.pid for event in rows]) for rows in on_threads]
        numbers = map(process_number, set[Any]().union(*told))
        self.process = process
        if {number for number in numbers if number is not None} <= {process}:
            return [], process
        threads = {id(event) for event in chain.from_iterable(on_threads)}
        seen: dict[int, None] = {}
        self.owner_of = {}
        for event in self.events:
            number = process_number(event.pid) if id(event) in threads else None
            if number is not None:
                process = number
                seen[number] = None
            self.owner_of[id(event)] = process
        return list(seen), process

    def rows(self, events: list[Event]) -> EachRow:
        """As Share's."""
        return EachRow(self, events)


class EachRow:
    """The rows of events that are one each."""

    def __init__(self, share: Each, events: list[Event]) -> None:
        self._share = share
        self._events = events
        self.count = len(events)
        # One release spells all its times alike.
        self.has_fractions = not isinstance(events[0].ts, int)

    def start(self) -> Times:
        """As those of RowsOf."""
        values = [event.ts for event in self._events]
        return times(values, lambda: self._share.spelled(self._events, "ts"))

    def dur(self) -> Times:
        """As those of RowsOf."""
        values = [event.dur for event in self._events]
        return times(values, lambda: self._share.spelled(self._events, "dur"))

    def spread(self, table: str, columns: Columns) -> Columns:
        """As those of RowsOf."""
        return columns

    def owners(self) -> bytes:
        """As those of RowsOf."""
        owner_of = self._share.owner_of
        if owner_of is None:
            return constant(self._share.process, self.count)
        return whole([owner_of[id(event)] for event in self._events])

    def firsts(self) -> Iterable[int]:
        """As those of RowsOf."""
        return range(self.count)


def process_number(value: Any) -> int | None:
    """A number that can be a process's, else None."""
    return value if isinstance(value, int) and 0 < abs(value) < _PROCESS_LIMIT else None
