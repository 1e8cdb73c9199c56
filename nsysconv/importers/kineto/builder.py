"""The events of a part of a piece: their times as they are spelled, and the processes they belong to.

Nothing heavy is imported here.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, groupby
from operator import itemgetter
from struct import pack
from typing import Any

from nsysconv.importers.kineto.events import (
    COMMUNICATION_OPERATOR,
    DRIVER_OVERHEAD,
    NO_ARGS,
    PEER,
    Args,
    Event,
    Words,
    by_kind,
    distinct,
    hashable,
)
from nsysconv.importers.kineto.packed import (
    CELL_BYTES,
    MISSING,
    OPERATOR,
    PYTHON_FUNCTION,
    Cells,
    Piece,
    Times,
    cells,
    constant,
    first_whole,
    times,
    triples,
    whole,
)

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


_RUNTIME, _DRIVER = 0, 1
_CALL, _KERNEL = 0, 1
_PUSH_POP = 0
_PROFILER, _DRIVER_WORK = 0, 1
_MOST_SMS = 10_000
_ON_THREADS = ("runtime", "driver", "operator", "annotation")


class Builder(Rows):
    """Fills a piece of a trace with the rows of its events, some events at a time."""

    def add(self, batch: Batch, *, python_functions: bool) -> None:
        """Add the rows of a batch of events; Python functions only if asked for."""
        self._batch = batch
        self._piece.event_count += len(batch.events)
        kinds = by_kind(batch.events, self._piece, batch.place)
        on_threads = [kinds[kind] for kind in _ON_THREADS]
        seen, self._process = batch.assign_processes(on_threads, self._process)
        self._piece.processes_seen = list(dict.fromkeys([*self._piece.processes_seen, *seen]))
        self._api_calls(kinds["runtime"], _RUNTIME)
        self._api_calls(kinds["driver"], _DRIVER)
        self._kernels(kinds["kernel"])
        self._copies(kinds["memcpy"])
        self._sets(kinds["memset"])
        self._syncs(kinds["sync"])
        self._operators(kinds["operator"], OPERATOR)
        if python_functions:
            self._operators(kinds["python"], PYTHON_FUNCTION)
        elif kinds["python"]:
            self._piece.counts["python functions"] += len(kinds["python"])
            self._piece.left_out_starts += batch.starts(kinds["python"])
        self._annotations(kinds["annotation"])
        self._overhead(kinds["overhead"])
        self._memory_events(kinds["instant"])
        del self._batch  # which would keep the events

    def _api_calls(self, events: list[Event], layer: int) -> None:
        if not events:
            return
        args = [event.args for event in events]
        columns = self._put(
            "api_call",
            events,
            {
                **self._on_thread(events),
                "correlation_id": whole([a.correlation for a in args]),
                "layer": constant(layer, len(events)),
                "name_id": self._numbers_of([event.name for event in events]),
            },
        )
        # ROCm tells the bytes of a copy on its API call.
        sizes = [a.bytes if a.bytes is not None else a.size for a in args]
        if sizes.count(None) < len(sizes):
            found = (columns["pid"], columns["correlation_id"], whole(sizes))
            for pid, number, count in zip(*map(cells, found), strict=True):
                if count != MISSING and number not in (MISSING, 0):
                    self._piece.sizes[pid, number] = count

    def _kernels(self, events: list[Event]) -> None:
        if not events:
            return
        args = [event.args for event in events]
        grid = triples([a.grid if a.grid is not None else a.grid_dim for a in args])
        block = triples([a.block if a.block is not None else a.block_dim for a in args])
        columns = {
            **self._on_gpu(events, args),
            "name_id": self._numbers_of([event.name for event in events]),
            **dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True)),
            **dict(zip(("block_x", "block_y", "block_z"), block, strict=True)),
            "registers_per_thread": whole([a.registers for a in args]),
            "shared_bytes": whole(
                [a.shared if a.shared is not None else a.shared_size for a in args]
            ),
            "occupancy_pct": whole([a.occupancy for a in args]),
            "graph_node_id": whole([a.graph_node for a in args]),
        }
        self._sm_counts(events, self._put("kernel", events, columns))
        said = [event for event in events if event.args.collective is not None]
        if said:
            self._collectives(said, _KERNEL)

    def _sm_counts(self, events: list[Event], columns: Columns) -> None:
        """How many SMs a device has, out of blocks per SM: for traces that do not describe it."""
        devices = cells(columns["device_id"])
        if self._piece.sm_counts.keys() >= set(devices):
            return
        grid = [cells(columns[f"grid_{axis}"]) for axis in "xyz"]
        for row, (event, device) in enumerate(zip(events, devices, strict=True)):
            if device in self._piece.sm_counts:
                continue
            per_sm = event.args.blocks_per_sm
            if isinstance(per_sm, int | float) and 0 < per_sm < float("inf"):
                blocks = [axis[row] for axis in grid]
                with contextlib.suppress(OverflowError):
                    count = blocks[0] * blocks[1] * blocks[2] / float(per_sm)
                    # A few digits of blocks per SM tell the count only where many blocks ran.
                    near = 1 <= count < _MOST_SMS and abs(count - round(count)) < 1e-3
                    if near and MISSING not in blocks:
                        self._piece.sm_counts[device] = round(count)

    def _collectives(self, events: list[Event], kind: int) -> None:
        args = [event.args for event in events]
        unknown = constant(MISSING, len(events))
        if kind == _CALL:
            where = {**dict.fromkeys(ON_GPU, unknown), **self._on_thread(events)}
        else:
            where = {**self._on_gpu(events, args), "tid": unknown}
        self._put(
            "collective",
            events,
            {
                **where,
                "kind": constant(kind, len(events)),
                "name_id": self._optional_numbers_of([a.collective for a in args]),
                "dtype_id": self._optional_numbers_of([a.dtype for a in args]),
                "in_elements": whole([_first(a.in_elements, a.in_elements_then) for a in args]),
                "out_elements": whole([_first(a.out_elements, a.out_elements_then) for a in args]),
                "group_id": self._optional_numbers_of([a.group for a in args]),
                "group_size": whole([a.group_size for a in args]),
                "group_ranks_id": self._optional_numbers_of([a.group_ranks for a in args]),
                "sequence_number": whole([a.collective_number for a in args]),
            },
        )

    def _copies(self, events: list[Event]) -> None:
        if not events:
            return
        args = [event.args for event in events]
        told = [self._words.copy(hashable(event.name)) for event in events]
        peers = [a if t[0] == PEER else NO_ARGS for a, t in zip(args, told, strict=True)]
        self._put(
            "memcpy",
            events,
            {
                **self._on_gpu(events, args),
                "bytes": whole([a.bytes for a in args]),
                "direction": whole([t[0] for t in told]),
                "src_kind": whole([t[1] for t in told]),
                "dst_kind": whole([t[2] for t in told]),
                "from_device": whole([a.from_device for a in peers]),
                "to_device": whole([a.to_device for a in peers]),
                "graph_node_id": whole([a.graph_node for a in args]),
            },
        )

    def _sets(self, events: list[Event]) -> None:
        if not events:
            return
        args = [event.args for event in events]
        self._put(
            "memset",
            events,
            {
                **self._on_gpu(events, args),
                "bytes": whole([a.bytes for a in args]),
                "memory_kind": whole([self._words.memory_kind(event.name) for event in events]),
                "graph_node_id": whole([a.graph_node for a in args]),
            },
        )

    def _syncs(self, events: list[Event]) -> None:
        if not events:
            return
        args = [event.args for event in events]
        self._put(
            "sync",
            events,
            {
                **self._on_gpu(events, args),
                "event_id": whole([a.event_id for a in args]),
                "sync_type": whole([self._words.sync_type(event.name) for event in events]),
            },
        )

    def _operators(self, events: list[Event], kind: int) -> None:
        if not events:
            return
        args = [event.args for event in events]
        self._put(
            "operator",
            events,
            {
                **self._on_thread(events),
                "kind": constant(kind, len(events)),
                "name_id": self._numbers_of([event.name for event in events]),
                "sequence_number": whole([a.sequence for a in args]),
                "shapes_id": self._spelled_numbers_of(
                    [a.shapes if a.shapes is not None else a.shapes_then for a in args]
                ),
                "types_id": self._spelled_numbers_of([a.types for a in args]),
            },
        )
        said = [
            event
            for event in events
            if event.args.collective is not None and event.name == COMMUNICATION_OPERATOR
        ]
        if said:
            self._collectives(said, _CALL)

    def _annotations(self, events: list[Event]) -> None:
        if not events:
            return
        self._put(
            "range",
            events,
            {
                **self._on_thread(events),
                "kind": constant(_PUSH_POP, len(events)),
                "domain_id": constant(0, len(events)),
                "name_id": self._numbers_of([event.name for event in events]),
            },
        )

    def _overhead(self, events: list[Event]) -> None:
        if not events:
            return
        # They stand under process -1 and thread 0, which are none.
        where = {"tid": constant(MISSING, len(events))}
        kind = [_DRIVER_WORK if event.name in DRIVER_OVERHEAD else _PROFILER for event in events]
        self._put(
            "overhead",
            events,
            {
                **where,
                "kind": whole(kind),
                "name_id": self._numbers_of([event.name for event in events]),
            },
        )

    def _memory_events(self, events: list[Event]) -> None:
        events = [event for event in events if event.name == "[memory]"]
        if not events:
            return
        args = [event.args for event in events]
        self._put(
            "memory_event",
            events,
            {
                **self._on_thread(events),
                "memory_type": whole([a.memory_type for a in args]),
                "device_id": whole([a.memory_device for a in args]),
                "address": whole([a.address for a in args]),
                "bytes": whole([a.memory_bytes for a in args]),
                "allocated_bytes": whole([a.allocated for a in args]),
                "reserved_bytes": whole([a.reserved for a in args]),
            },
            instants=True,
        )


def _first(value: Any, other: Any) -> Any:
    return value if value is not None else other
