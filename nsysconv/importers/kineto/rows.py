"""What all tables' rows share: times, names, threads, and where on a GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from nsysconv.importers.kineto.cells import MISSING, nanoseconds, whole
from nsysconv.importers.kineto.events import Args, Event
from nsysconv.importers.kineto.piece import Columns, Piece
from nsysconv.importers.kineto.sorting import distinct, hashable
from nsysconv.importers.kineto.words import Words

Array = np.ndarray
Spelled = Callable[[Sequence[Event], str], Sequence[bytes]]
"""How events' `ts` or `dur` are spelled."""

ON_GPU = ("pid", "device_id", "context_id", "stream_id", "correlation_id")
"""The columns that say where work ran."""

UNSPELLED: Spelled = lambda events, name: []  # noqa: E731 - has a type
"""Of no events."""

_TIME_LIMIT_NS = 1 << 53
_PROCESS_LIMIT = 1 << 62


class _Names(dict[Any, int]):
    """Numbers texts in the order of their appearance."""

    def __missing__(self, text: Any) -> int:
        if text is None:
            raise TypeError("no name")
        if not isinstance(text, str | bytes):
            return self[str(text)]
        self[text] = number = len(self)
        return number


class Rows:
    """Rows on their way into a piece of a trace, some events at a time."""

    def __init__(self, piece: Piece, words: Words) -> None:
        self._piece = piece
        self._words = words
        self._names = _Names()
        self._parts: dict[str, list[Columns]] = defaultdict(list)
        self._process = MISSING  # the process whose rows were met last
        self._owner_of: dict[int, int] | None = None
        # Of the events being added:
        self._spelled = UNSPELLED
        self._place = self._zero = 0

    def finish(self) -> None:
        """Puts all rows added into the piece."""
        self._piece.names = [
            name if isinstance(name, str) else name.decode("utf-8", "replace")
            for name in self._names
        ]
        self._piece.tables = {
            table: {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            for table, parts in self._parts.items()
        }

    def _owners(self, events: Sequence[Event], kinds: dict[str, list[Event]]) -> None:
        """Which processes have rows; and, where several, whose stood before each row of a GPU."""
        on_threads = [*kinds["runtime"], *kinds["driver"], *kinds["operator"], *kinds["annotation"]]
        numbers = map(_process_number, distinct([event.pid for event in on_threads]))
        pids = {number for number in numbers if number is not None}
        seen = self._piece.processes_seen
        self._owner_of = None
        if pids <= {self._process}:
            return
        if len(pids) == 1 and self._process == MISSING:
            self._process = pids.pop()
            seen.append(self._process)
            return
        threads = {id(event) for event in on_threads}
        self._owner_of = {}
        for event in events:
            number = _process_number(event.pid) if id(event) in threads else None
            if number is not None:
                self._process = number
                if number not in seen:
                    seen.append(number)
            self._owner_of[id(event)] = self._process

    def _process_of(self, events: list[Event]) -> Array:
        """The process of rows that do not name it; MISSING before the piece's first that does."""
        if self._owner_of is None:
            return np.full(len(events), self._process)
        return np.array([self._owner_of[id(event)] for event in events], np.int64)

    def _put(self, table: str, events: list[Event], columns: Columns) -> None:
        """Adds rows with their times; what cannot be placed in time is left out and counted."""
        # One release spells all its times alike.
        self._piece.has_fractions |= not isinstance(events[0].ts, int)
        start = nanoseconds([event.ts for event in events], lambda: self._spelled(events, "ts"))
        if self._all_are_plain(start, columns.get("dur_ns")):
            self._parts[table].append({"start_ns": start - self._zero, **columns})
            return
        kept = start != MISSING
        self._left_out("no time stamp", ~kept)
        timeless, start = start == 0, start - self._zero
        far = np.abs(start) > _TIME_LIMIT_NS
        if "dur_ns" in columns:
            dur = columns["dur_ns"]
            far |= dur > _TIME_LIMIT_NS
            if (dur == MISSING).any():
                beyond = np.array([_is_number(event.dur) for event in events], bool)
                self._left_out("no duration", (dur == MISSING) & ~beyond & kept)
                kept &= (dur != MISSING) | beyond
                far |= dur == MISSING
            negative = (dur < 0) & (dur != MISSING)
            self._left_out("negative duration", negative & kept)
            kept &= ~negative
            # Profilers write 0 and 0 where they have no time; a store has null there.
            timeless = (timeless | (start == 0)) & (dur == 0)
            start = np.where(timeless, MISSING, start)
            columns["dur_ns"] = np.where(timeless, MISSING, dur)
            far &= ~timeless
        self._left_out("impossible time", far & kept)
        kept &= ~far
        columns = {"start_ns": start, **columns}
        if not kept.all():
            columns = {name: values[kept] for name, values in columns.items()}
        if not len(columns["start_ns"]):
            return
        self._parts[table].append(columns)

    def _all_are_plain(self, start: Array, dur: Array | None) -> bool:
        """Whether all rows stand behind the zero, and none is too far or too long to be kept."""
        if not 0 <= self._zero < start.min() <= start.max() <= self._zero + _TIME_LIMIT_NS:
            return False
        return dur is None or bool(0 <= dur.min() <= dur.max() <= _TIME_LIMIT_NS)

    def _left_out(self, what: str, which: Array) -> None:
        self._piece.note(what, int(np.count_nonzero(which)), self._place)

    def _durations(self, events: list[Event]) -> Array:
        return nanoseconds([event.dur for event in events], lambda: self._spelled(events, "dur"))

    def _numbers_of(self, texts: list[Any]) -> Array:
        names = self._names
        try:
            return np.fromiter([names[text] for text in texts], np.int64, len(texts))
        except TypeError:  # a name that is a list or an object, or none
            return self._optional_numbers_of(texts)

    def _optional_numbers_of(self, texts: list[Any]) -> Array:
        if texts[0] is None and texts.count(None) == len(texts):
            return np.full(len(texts), MISSING)
        names = self._names
        return np.fromiter(
            [MISSING if text is None else names[hashable(text)] for text in texts],
            np.int64,
            len(texts),
        )

    def _spelled_numbers_of(self, texts: list[Any]) -> Array:
        """As above, for JSON that is stored as it is spelled."""
        if texts[0] is None and texts.count(None) == len(texts):
            return np.full(len(texts), MISSING)
        names = self._names
        # To add to nothing makes bytes of it in a third of the time that bytes() takes.
        return np.fromiter(
            [MISSING if text is None else names[b"" + text] for text in texts], np.int64, len(texts)
        )

    def _on_thread(self, events: list[Event]) -> Columns:
        pid = whole([event.pid for event in events])
        return {
            "pid": np.where(pid == 0, MISSING, pid),  # made-up traces; no process has that number
            "tid": whole([event.tid for event in events]),
        }

    def _on_gpu(self, events: list[Event], args: list[Args]) -> Columns:
        device = whole([a.device for a in args])
        if (device == MISSING).any():
            # A peer copy tells where it ran; the first releases told the device by the row only.
            inside = whole([a.in_device for a in args])
            device = np.where(device == MISSING, inside, device)
            row = whole([event.pid for event in events])
            device = np.where(device == MISSING, row, device)
        context = whole([a.context for a in args])
        if (context == MISSING).any():
            context = np.where(context == MISSING, whole([a.in_context for a in args]), context)
        stream = whole([a.stream for a in args])
        if (stream == MISSING).any():
            stream = np.where(stream == MISSING, whole([event.tid for event in events]), stream)
        correlation = whole([a.correlation for a in args])
        where = (self._process_of(events), device, context, stream, correlation)
        return dict(zip(ON_GPU, where, strict=True))


def _is_number(value: Any) -> bool:
    """Whether it is a number in any spelling."""
    try:
        return Decimal(str(value)).is_finite()
    except InvalidOperation:
        return False


def _process_number(value: Any) -> int | None:
    """A number that can be a process's, else None."""
    return value if isinstance(value, int) and 0 < abs(value) < _PROCESS_LIMIT else None
