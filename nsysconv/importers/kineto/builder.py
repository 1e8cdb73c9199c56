"""How an event of a trace becomes a row.

`RowBuilder.add` takes a batch of decoded events: they are classified, each gets the process it belongs
to, and per kind one method says from which attributes the columns of its table are made. Columns are
built for all events of a kind at once; times, names and the place on a GPU are common to several
tables.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
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
    classify,
    copy_codes,
    distinct,
    hashable,
    memset_kind,
    sync_type,
)
from nsysconv.importers.kineto.packed import (
    MISSING,
    OPERATOR,
    PYTHON_FUNCTION,
    VALUE_BYTES,
    Chunk,
    PackedRows,
    PackedTimes,
    pack_constant,
    pack_first_integers,
    pack_integers,
    pack_times,
    pack_triples,
    unpack,
)

SpelledBy = Callable[[Sequence[Event], str], Sequence[bytes]]
"""Returns the JSON text of the `ts` or `dur` of events."""
PackedColumns = dict[str, bytes]

_RUNTIME, _DRIVER = 0, 1
_CALL, _KERNEL = 0, 1
_PUSH_POP = 0
_PROFILER, _DRIVER_WORK = 0, 1
_KINDS_ON_THREADS = ("runtime", "driver", "operator", "annotation")
_GPU_COLUMNS = ("pid", "device_id", "context_id", "stream_id", "correlation_id")
_INSTANT_TABLES = ("memory_event",)
_MOST_SMS = 10_000
_PID_LIMIT = 1 << 62


class EventBatch:
    """Events in the order of their text, which begins at byte `offset` of the trace."""

    def __init__(self, events: Sequence[Event], spelled: SpelledBy, offset: int) -> None:
        """Take events; `spelled` returns the text of their times."""
        self.events = events
        self.offset = offset
        self._spelled = spelled
        self._pid = MISSING
        self._pid_of: dict[int, int] | None = None  # by id(event); None: all events have _pid

    def assign_pids(self, on_threads: Sequence[Sequence[Event]], pid: int) -> tuple[list[int], int]:
        """Assign to each event the process that was named last, by itself or by an event before it.

        Only the events `on_threads` name a process; rows of a GPU do not. `pid` is the last one named
        before this batch, MISSING if none was. Return the processes in the order of their first event,
        an empty list if all are `pid`; and the last one named.
        """
        self._pid = pid
        named = set[Any]().union(*(distinct([event.pid for event in part]) for part in on_threads))
        if {number for value in named if (number := _valid_pid(value)) is not None} <= {pid}:
            return [], pid
        naming = {id(event) for event in chain.from_iterable(on_threads)}
        seen: dict[int, None] = {}
        self._pid_of = {}
        for event in self.events:
            number = _valid_pid(event.pid) if id(event) in naming else None
            if number is not None:
                pid = number
                seen[number] = None
            self._pid_of[id(event)] = pid
        return list(seen), pid

    def pids(self, events: Sequence[Event]) -> bytes:
        """Return the processes assigned to some of the events, packed."""
        if self._pid_of is None:
            return pack_constant(self._pid, len(events))
        return pack_integers([self._pid_of[id(event)] for event in events])

    def starts(self, events: Sequence[Event]) -> PackedTimes:
        """Return when some of the events begin."""
        return pack_times([event.ts for event in events], lambda: self._spelled(events, "ts"))

    def durations(self, events: Sequence[Event]) -> PackedTimes:
        """Return how long some of the events last."""
        return pack_times([event.dur for event in events], lambda: self._spelled(events, "dur"))


class RowBuilder:
    """Builds the rows of a chunk of a trace, a batch of events at a time."""

    def __init__(self, chunk: Chunk) -> None:
        """Start without rows; `finish` stores them in `chunk`."""
        self._chunk = chunk
        self._name_ids = _NameIds()
        self._tables: dict[str, _TableParts] = defaultdict(_TableParts)
        self._pid = MISSING  # the process that was named last
        self._batch: EventBatch

    def add(self, batch: EventBatch, *, python_functions: bool) -> None:
        """Add the rows of a batch of events; Python functions only if asked for."""
        self._batch = batch
        self._chunk.event_count += len(batch.events)
        kinds = classify(batch.events, self._chunk, batch.offset)
        on_threads = [kinds[kind] for kind in _KINDS_ON_THREADS]
        seen, self._pid = batch.assign_pids(on_threads, self._pid)
        self._chunk.pids = list(dict.fromkeys([*self._chunk.pids, *seen]))
        if not python_functions:
            self._leave_out(kinds.pop("python", []))
        for events, table, columns_of in (
            (kinds["runtime"], "api_call", partial(self._api_calls, layer=_RUNTIME)),
            (kinds["driver"], "api_call", partial(self._api_calls, layer=_DRIVER)),
            (kinds["kernel"], "kernel", self._kernels),
            (_collectives(kinds["kernel"]), "collective", self._collective_kernels),
            (kinds["memcpy"], "memcpy", self._copies),
            (kinds["memset"], "memset", self._sets),
            (kinds["sync"], "sync", self._syncs),
            (kinds["operator"], "operator", partial(self._operators, kind=OPERATOR)),
            (_collective_calls(kinds["operator"]), "collective", self._collective_calls),
            (kinds["python"], "operator", partial(self._operators, kind=PYTHON_FUNCTION)),
            (_collective_calls(kinds["python"]), "collective", self._collective_calls),
            (kinds["annotation"], "range", self._ranges),
            (kinds["overhead"], "overhead", self._overhead),
            (_memory_events(kinds["instant"]), "memory_event", self._memory_events),
        ):
            if events:
                self._add_rows(table, events, columns_of(events, [event.args for event in events]))
        del self._batch  # which would keep the events in memory

    def finish(self) -> None:
        """Store all rows that were added in the chunk."""
        self._chunk.names = [
            name if isinstance(name, str) else name.decode("utf-8", "replace")
            for name in self._name_ids
        ]
        self._chunk.last_pid = self._pid
        self._chunk.tables = {table: parts.join() for table, parts in self._tables.items()}

    def _leave_out(self, functions: list[Event]) -> None:
        if functions:
            self._chunk.counts["python functions"] += len(functions)
            self._chunk.left_out_starts += self._batch.starts(functions)

    def _add_rows(self, table: str, events: list[Event], columns: PackedColumns) -> None:
        # Rows of a GPU do not name their process.
        if "pid" not in columns:
            columns["pid"] = self._batch.pids(events)
        # One release spells all its times in the same way.
        self._chunk.has_fractions |= not isinstance(events[0].ts, int)
        parts = self._tables[table]
        parts.starts += self._batch.starts(events)
        if table not in _INSTANT_TABLES:
            parts.durations += self._batch.durations(events)
        for name, values in columns.items():
            parts.columns[name].append(values)
        parts.batches.append((parts.count, self._batch.offset))
        parts.count += len(events)

    # -- the columns of each table

    def _api_calls(self, events: list[Event], args: list[Args], layer: int) -> PackedColumns:
        columns = {
            **self._on_thread(events),
            "correlation_id": pack_integers([a.correlation for a in args]),
            "layer": pack_constant(layer, len(events)),
            "name_id": self._names([event.name for event in events]),
        }
        # ROCm gives the bytes of a copy on its API call.
        sizes = [a.bytes if a.bytes is not None else a.size for a in args]
        if sizes.count(None) < len(sizes):
            rows = (columns["pid"], columns["correlation_id"], pack_integers(sizes))
            for pid, correlation, size in zip(*map(unpack, rows), strict=True):
                if size != MISSING and correlation not in (MISSING, 0):
                    self._chunk.copy_bytes[pid, correlation] = size
        return columns

    def _kernels(self, events: list[Event], args: list[Args]) -> PackedColumns:
        grid = pack_triples([a.grid if a.grid is not None else a.grid_old for a in args])
        block = pack_triples([a.block if a.block is not None else a.block_old for a in args])
        columns = {
            **self._on_gpu(events, args),
            "name_id": self._names([event.name for event in events]),
            **dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True)),
            **dict(zip(("block_x", "block_y", "block_z"), block, strict=True)),
            "registers_per_thread": pack_integers([a.registers for a in args]),
            "shared_bytes": pack_integers(
                [a.shared if a.shared is not None else a.shared_old for a in args]
            ),
            "occupancy_pct": pack_integers([a.occupancy for a in args]),
            "graph_node_id": pack_integers([a.graph_node for a in args]),
        }
        self._derive_sm_counts(args, columns)
        return columns

    def _derive_sm_counts(self, args: list[Args], columns: PackedColumns) -> None:
        """Derive how many SMs a device has from blocks per SM: not all traces describe their devices."""
        devices = unpack(columns["device_id"])
        if self._chunk.sm_counts.keys() >= set(devices):
            return
        grid = [unpack(columns[f"grid_{axis}"]) for axis in "xyz"]
        for row, (device, per_sm) in enumerate(
            zip(devices, (a.blocks_per_sm for a in args), strict=True)
        ):
            if device in self._chunk.sm_counts:
                continue
            if isinstance(per_sm, int | float) and 0 < per_sm < float("inf"):
                blocks = [axis[row] for axis in grid]
                with contextlib.suppress(OverflowError):
                    count = blocks[0] * blocks[1] * blocks[2] / float(per_sm)
                    # Blocks per SM have a few digits: enough only where many blocks ran.
                    is_whole = 1 <= count < _MOST_SMS and abs(count - round(count)) < 1e-3
                    if is_whole and MISSING not in blocks:
                        self._chunk.sm_counts[device] = round(count)

    def _collective_kernels(self, events: list[Event], args: list[Args]) -> PackedColumns:
        return {
            **self._on_gpu(events, args),
            "tid": pack_constant(MISSING, len(events)),
            "kind": pack_constant(_KERNEL, len(events)),
            **self._collective(args),
        }

    def _collective_calls(self, events: list[Event], args: list[Args]) -> PackedColumns:
        return {
            **dict.fromkeys(_GPU_COLUMNS, pack_constant(MISSING, len(events))),
            **self._on_thread(events),
            "kind": pack_constant(_CALL, len(events)),
            **self._collective(args),
        }

    def _collective(self, args: list[Args]) -> PackedColumns:
        sent = [_first(a.in_elements, a.in_elements_old) for a in args]
        received = [_first(a.out_elements, a.out_elements_old) for a in args]
        return {
            "name_id": self._optional_names([a.collective for a in args]),
            "dtype_id": self._optional_names([a.dtype for a in args]),
            "in_elements": pack_integers(sent),
            "out_elements": pack_integers(received),
            "group_id": self._optional_names([a.group for a in args]),
            "group_size": pack_integers([a.group_size for a in args]),
            "group_ranks_id": self._optional_names([a.group_ranks for a in args]),
            "sequence_number": pack_integers([a.collective_number for a in args]),
        }

    def _copies(self, events: list[Event], args: list[Args]) -> PackedColumns:
        codes = [copy_codes(hashable(event.name)) for event in events]
        peers = [a if code[0] == PEER else NO_ARGS for a, code in zip(args, codes, strict=True)]
        return {
            **self._on_gpu(events, args),
            "bytes": pack_integers([a.bytes for a in args]),
            "direction": pack_integers([direction for direction, _, _ in codes]),
            "src_kind": pack_integers([source for _, source, _ in codes]),
            "dst_kind": pack_integers([target for _, _, target in codes]),
            "from_device": pack_integers([a.from_device for a in peers]),
            "to_device": pack_integers([a.to_device for a in peers]),
            "graph_node_id": pack_integers([a.graph_node for a in args]),
        }

    def _sets(self, events: list[Event], args: list[Args]) -> PackedColumns:
        return {
            **self._on_gpu(events, args),
            "bytes": pack_integers([a.bytes for a in args]),
            "memory_kind": pack_integers([memset_kind(event.name) for event in events]),
            "graph_node_id": pack_integers([a.graph_node for a in args]),
        }

    def _syncs(self, events: list[Event], args: list[Args]) -> PackedColumns:
        return {
            **self._on_gpu(events, args),
            "event_id": pack_integers([a.event_id for a in args]),
            "sync_type": pack_integers([sync_type(event.name) for event in events]),
        }

    def _operators(self, events: list[Event], args: list[Args], kind: int) -> PackedColumns:
        shapes = [a.shapes if a.shapes is not None else a.shapes_old for a in args]
        return {
            **self._on_thread(events),
            "kind": pack_constant(kind, len(events)),
            "name_id": self._names([event.name for event in events]),
            "sequence_number": pack_integers([a.sequence for a in args]),
            "shapes_id": self._raw_names(shapes),
            "types_id": self._raw_names([a.types for a in args]),
        }

    def _ranges(self, events: list[Event], args: list[Args]) -> PackedColumns:
        return {
            **self._on_thread(events),
            "kind": pack_constant(_PUSH_POP, len(events)),
            "domain_id": pack_constant(0, len(events)),
            "name_id": self._names([event.name for event in events]),
        }

    def _overhead(self, events: list[Event], args: list[Args]) -> PackedColumns:
        kinds = [_DRIVER_WORK if event.name in DRIVER_OVERHEAD else _PROFILER for event in events]
        return {
            # Their process is written as -1 and their thread as 0, which are none.
            "tid": pack_constant(MISSING, len(events)),
            "kind": pack_integers(kinds),
            "name_id": self._names([event.name for event in events]),
        }

    def _memory_events(self, events: list[Event], args: list[Args]) -> PackedColumns:
        return {
            **self._on_thread(events),
            "memory_type": pack_integers([a.memory_type for a in args]),
            "device_id": pack_integers([a.memory_device for a in args]),
            "address": pack_integers([a.address for a in args]),
            "bytes": pack_integers([a.memory_bytes for a in args]),
            "allocated_bytes": pack_integers([a.allocated for a in args]),
            "reserved_bytes": pack_integers([a.reserved for a in args]),
        }

    # -- columns that several tables have

    def _on_thread(self, events: list[Event]) -> PackedColumns:
        return {
            "pid": pack_integers([event.pid for event in events]),
            "tid": pack_integers([event.tid for event in events]),
        }

    def _on_gpu(self, events: list[Event], args: list[Args]) -> PackedColumns:
        return {
            # Copies between devices say where they ran; in the first releases only `pid` is the device.
            "device_id": pack_first_integers(
                lambda: [a.device for a in args],
                lambda: [a.in_device for a in args],
                lambda: [event.pid for event in events],
            ),
            "context_id": pack_first_integers(
                lambda: [a.context for a in args], lambda: [a.in_context for a in args]
            ),
            "stream_id": pack_first_integers(
                lambda: [a.stream for a in args], lambda: [event.tid for event in events]
            ),
            "correlation_id": pack_integers([a.correlation for a in args]),
        }

    def _names(self, texts: list[Any]) -> bytes:
        try:
            return pack(f"{len(texts)}q", *map(self._name_ids.__getitem__, texts))
        except TypeError:  # a name that is a list or an object, or none
            return self._optional_names(texts)

    def _optional_names(self, texts: list[Any]) -> bytes:
        if texts[0] is None and texts.count(None) == len(texts):
            return pack_constant(MISSING, len(texts))
        ids = self._name_ids
        return pack_integers([MISSING if text is None else ids[hashable(text)] for text in texts])

    def _raw_names(self, texts: list[Any]) -> bytes:
        """Return the ids of raw JSON texts, which are stored as they are spelled."""
        if texts[0] is None and texts.count(None) == len(texts):
            return pack_constant(MISSING, len(texts))
        ids = self._name_ids
        # `b"" + text` makes bytes of a Raw in a third of the time that bytes(text) takes.
        return pack_integers([MISSING if text is None else ids[b"" + text] for text in texts])


class _NameIds(dict[Any, int]):
    """Ids of texts, given in the order of their first use."""

    def __missing__(self, text: Any) -> int:
        if text is None:
            raise TypeError("no name")
        if not isinstance(text, str | bytes):
            return self[str(text)]
        self[text] = number = len(self)
        return number


class _TableParts:
    """Rows of one table, a part per batch."""

    def __init__(self) -> None:
        self.starts: PackedTimes = []
        self.durations: PackedTimes = []
        self.columns: dict[str, list[bytes]] = defaultdict(list)
        self.batches: list[tuple[int, int]] = []
        self.count = 0

    def join(self) -> PackedRows:
        columns = {name: _join_column(parts) for name, parts in self.columns.items()}
        starts, durations = _join_times(self.starts), _join_times(self.durations)
        return PackedRows(self.count, starts, durations, columns, self.batches)


def _join_column(parts: list[bytes]) -> bytes:
    """Return the joined column; only its first value where all rows have the same."""
    column = b"".join(parts)
    first = column[:VALUE_BYTES]
    return first if column == first * (len(column) // VALUE_BYTES) else column


def _join_times(times: PackedTimes) -> PackedTimes:
    return [
        (unit, b"".join(map(itemgetter(1), parts))) for unit, parts in groupby(times, itemgetter(0))
    ]


def _collectives(events: list[Event]) -> list[Event]:
    return [event for event in events if event.args.collective is not None]


def _collective_calls(events: list[Event]) -> list[Event]:
    return [
        event
        for event in events
        if event.args.collective is not None and event.name == COMMUNICATION_OPERATOR
    ]


def _memory_events(events: list[Event]) -> list[Event]:
    return [event for event in events if event.name == "[memory]"]


def _first(value: Any, old: Any) -> Any:
    return value if value is not None else old


def _valid_pid(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < abs(value) < _PID_LIMIT else None
