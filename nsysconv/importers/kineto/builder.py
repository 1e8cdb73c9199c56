"""Rows out of the events of a trace.

`RowBuilder.add` takes a batch of decoded events: they are classified, each gets the process it belongs
to, and per kind one method says from which attributes the columns of its table are made. Columns are
built for all events of a kind at once; times, names and the place on a GPU are common to several
tables.
"""

from __future__ import annotations

import contextlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import Any

from nsysconv.importers.kineto.allowed import allowed_stack, allowed_values, has_values
from nsysconv.importers.kineto.events import (
    COMMUNICATION_OPERATOR,
    COPY_OPERATOR,
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
    Chunk,
    Integers,
    PackedRows,
    Times,
    constant,
    exact_times,
    first_integers,
    first_odd_rows,
    ids,
    integers,
    lane_of,
    parse_id,
    part_text,
    triples,
)

SpelledBy = Callable[[Sequence[Event], str], Sequence[bytes]]
"""Returns the JSON text of the `ts` or `dur` of events."""
Columns = dict[str, Integers]

_RUNTIME, _DRIVER = 0, 1
_CALL, _KERNEL = 0, 1
_PUSH_POP = 0
_PROFILER, _DRIVER_WORK = 0, 1
# Makes bytes of a Raw in a third of the time that bytes() takes.
_text_of_raw = b"".__add__
_KINDS_ON_THREADS = ("runtime", "driver", "operator", "annotation")
_KINDS_ON_GPU = ("kernel", "memcpy", "memset", "sync", "overhead")
_GPU_COLUMNS = ("pid", "device_id", "context_id", "stream_id", "correlation_id")
_MOST_SMS = 10_000
_PID_LIMIT = 1 << 62


@dataclass
class EventBatch:
    """Events, whose text begins at byte `offset` of the trace; `spelled` returns that of their times.

    `located` returns at which byte each of them begins, or nothing where that is not known.
    """

    events: Sequence[Event]
    spelled: SpelledBy
    offset: int
    located: Callable[[], Sequence[int]]
    _pid: int = MISSING
    _pid_of: dict[int, int] | None = None  # by id(event); None: all events have _pid

    def assign_pids(
        self, kinds: Mapping[str, Sequence[Event]], pid: int, chunk: Chunk
    ) -> tuple[list[int], int]:
        """Assign to each event the process that was named last, by itself or by an event before it.

        Only the events on threads name a process. Rows of a GPU name its number; where that is in a text,
        theirs is the process that was last named with the same rest, or the key of that rest.
        `pid` is the last one named before this batch, MISSING if none was. Return the processes in the
        order of their first event, an empty list if all are `pid`; and the last one named.
        """
        self._pid = pid
        on_threads = [kinds[kind] for kind in _KINDS_ON_THREADS]
        named = set[Any]().union(*(distinct([event.pid for event in part]) for part in on_threads))
        on_gpu = chain.from_iterable(kinds[kind] for kind in _KINDS_ON_GPU)
        texts = chunk.texts
        lanes = {
            id(event): lane_of(part_text(event.pid), texts)
            for event in on_gpu
            if isinstance(event.pid, str)
        }
        if not any(lanes.values()) and {_valid_pid(value, chunk) for value in named} <= {pid, None}:
            return [], pid
        naming = {id(event) for event in chain.from_iterable(on_threads)}
        seen: dict[int, None] = {}
        self._pid_of = {}
        for event in self.events:
            number = _valid_pid(event.pid, chunk) if id(event) in naming else None
            if number is not None:
                pid = number
                seen[number] = None
                if (own := lane_of(texts.get(number), texts)) is not None:
                    chunk.lanes[own] = pid
            lane = lanes.get(id(event))
            self._pid_of[id(event)] = pid if lane is None else chunk.lanes.get(lane, lane)
        return list(seen), pid

    def place(self, event: Event) -> int:
        """Return the byte of the trace at which an event begins, at least nearly."""
        return self._places.get(id(event), self.offset)

    @cached_property
    def _places(self) -> dict[int, int]:
        return dict(zip(map(id, self.events), self.located(), strict=False))

    def pids(self, events: Sequence[Event]) -> Integers:
        """Return the processes assigned to some of the events."""
        if self._pid_of is None:
            return constant(self._pid, len(events))
        return integers([self._pid_of[id(event)] for event in events])

    def starts(self, events: Sequence[Event]) -> Times:
        """Return when some of the events begin."""
        return exact_times([event.ts for event in events], lambda: self.spelled(events, "ts"))

    def durations(self, events: Sequence[Event]) -> Times:
        """Return how long some of the events last."""
        return exact_times([event.dur for event in events], lambda: self.spelled(events, "dur"))


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
        kinds = classify(batch.events, self._chunk, batch.place)
        seen, self._pid = batch.assign_pids(kinds, self._pid, self._chunk)
        self._chunk.pids = list(dict.fromkeys([*self._chunk.pids, *seen]))
        if not python_functions and (functions := kinds.pop("python", None)):
            self._chunk.counts["python functions"] += len(functions)
            self._chunk.left_out_starts += batch.starts(functions)
        for events, table, columns_of in (
            (kinds["runtime"], "api_call", partial(self._api_calls, layer=_RUNTIME)),
            (kinds["driver"], "api_call", partial(self._api_calls, layer=_DRIVER)),
            (kinds["kernel"], "kernel", self._kernels),
            (_with_collective(kinds["kernel"]), "collective", self._collective_kernels),
            (kinds["memcpy"], "memcpy", self._copies),
            (kinds["memset"], "memset", self._sets),
            (kinds["sync"], "sync", self._syncs),
            (kinds["operator"], "operator", partial(self._operators, kind=OPERATOR)),
            (_collective_calls(kinds["operator"]), "collective", self._collective_calls),
            (kinds["python"], "operator", partial(self._operators, kind=PYTHON_FUNCTION)),
            (_collective_calls(kinds["python"]), "collective", self._collective_calls),
            (kinds["annotation"], "range", self._ranges),
            (kinds["overhead"], "overhead", self._overhead),
            (_named("[memory]", kinds["instant"]), "memory_event", self._memory_events),
        ):
            if events:
                self._add_rows(table, events, columns_of(events, [event.args for event in events]))
        del self._batch  # which would keep the events in memory

    def finish(self) -> None:
        """Store all rows that were added in the chunk."""
        ids = self._name_ids
        self._chunk.names = [n if isinstance(n, str) else n.decode("utf-8", "replace") for n in ids]
        self._chunk.last_pid = self._pid
        self._chunk.tables = {table: parts.join() for table, parts in self._tables.items()}

    def _add_rows(self, table: str, events: list[Event], columns: Columns) -> None:
        # Rows of a GPU do not name their process.
        if "pid" not in columns:
            columns["pid"] = self._batch.pids(events)
        # One release spells all its times in the same way.
        self._chunk.has_fractions |= not isinstance(events[0].ts, int)
        parts = self._tables[table]
        starts = self._batch.starts(events)
        durations = self._batch.durations(events) if table != "memory_event" else []
        parts.starts += starts
        parts.durations += durations
        for name, values in columns.items():
            parts.columns[name] += values
        parts.batches.append((parts.count, self._batch.offset))
        for row in first_odd_rows(starts, durations):
            # What follows it may be odd in a way that is not known here.
            place = self._batch.place(events[row])
            parts.batches += (parts.count + row, place), (parts.count + row + 1, self._batch.offset)
        parts.count += len(events)

    # -- the columns of each table

    def _api_calls(self, events: list[Event], args: list[Args], layer: int) -> Columns:
        columns = {
            **self._on_thread(events),
            "correlation_id": integers([a.correlation for a in args]),
            "layer": constant(layer, len(events)),
            "name_id": self._names(events),
        }
        # ROCm gives the bytes of a copy on its API call.
        sizes = [a.bytes if a.bytes is not None else a.size for a in args]
        if sizes.count(None) < len(sizes):
            rows = (columns["pid"], columns["correlation_id"], integers(sizes))
            for pid, correlation, size in zip(*rows, strict=True):
                if size != MISSING and correlation not in (MISSING, 0):
                    self._chunk.copy_bytes[pid, correlation] = size
        return columns

    def _kernels(self, events: list[Event], args: list[Args]) -> Columns:
        grid = triples([a.grid if a.grid is not None else a.grid_old for a in args])
        block = triples([a.block if a.block is not None else a.block_old for a in args])
        shared = [a.shared if a.shared is not None else a.shared_old for a in args]
        columns = {
            **self._on_gpu(events, args),
            "name_id": self._names(events),
            **dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True)),
            **dict(zip(("block_x", "block_y", "block_z"), block, strict=True)),
            **_integers(args, registers_per_thread="registers", occupancy_pct="occupancy"),
            "shared_bytes": integers(shared),
            **self._of_node(args),
        }
        self._derive_sm_counts(args, columns)
        return columns

    def _of_node(self, args: list[Args]) -> Columns:
        texts = [(a.name if a.module is None else a.module) if a.graph_node else None for a in args]
        return {
            "graph_node_id": integers([a.graph_node for a in args]),
            "annotation_id": self._optional_names(texts),
        }

    def _derive_sm_counts(self, args: list[Args], columns: Columns) -> None:
        # Not all traces describe their devices.
        devices = columns["device_id"]
        if self._chunk.sm_counts.keys() >= set(devices):
            return
        grid = [columns[f"grid_{axis}"] for axis in "xyz"]
        for device, arg, *blocks in zip(devices, args, *grid, strict=True):
            per_sm = arg.blocks_per_sm
            if device in self._chunk.sm_counts:
                continue
            if isinstance(per_sm, int | float) and 0 < per_sm < float("inf"):
                with contextlib.suppress(OverflowError):
                    count = blocks[0] * blocks[1] * blocks[2] / float(per_sm)
                    # Blocks per SM have a few digits: enough only where many blocks ran.
                    is_whole = 1 <= count < _MOST_SMS and abs(count - round(count)) < 1e-3
                    if is_whole and MISSING not in blocks:
                        self._chunk.sm_counts[device] = round(count)

    def _collective_kernels(self, events: list[Event], args: list[Args]) -> Columns:
        return {
            **self._on_gpu(events, args),
            **_constants(events, tid=MISSING, kind=_KERNEL),
            **self._collective(args),
        }

    def _collective_calls(self, events: list[Event], args: list[Args]) -> Columns:
        return {
            **dict.fromkeys(_GPU_COLUMNS, constant(MISSING, len(events))),
            **self._on_thread(events),
            "kind": constant(_CALL, len(events)),
            **self._collective(args),
        }

    def _collective(self, args: list[Args]) -> Columns:
        sent = [a.in_elements_old if a.in_elements is None else a.in_elements for a in args]
        received = [a.out_elements_old if a.out_elements is None else a.out_elements for a in args]
        return {
            "name_id": self._optional_names([a.collective for a in args]),
            "dtype_id": self._optional_names([a.dtype for a in args]),
            "in_elements": integers(sent),
            "out_elements": integers(received),
            "group_id": self._optional_names([a.group for a in args]),
            "group_ranks_id": self._optional_names([a.group_ranks for a in args]),
            **_integers(args, group_size="group_size", sequence_number="collective_number"),
            **_integers(args, src_rank="src_rank", dst_rank="dst_rank", is_async="is_async"),
        }

    def _copies(self, events: list[Event], args: list[Args]) -> Columns:
        codes = [copy_codes(hashable(event.name)) for event in events]
        columns = map(integers, zip(*codes, strict=True))
        peers = [a if code[0] == PEER else NO_ARGS for a, code in zip(args, codes, strict=True)]
        return {
            **self._on_gpu(events, args),
            **_integers(args, bytes="bytes"),
            **self._of_node(args),
            **dict(zip(("direction", "src_kind", "dst_kind"), columns, strict=True)),
            **_integers(peers, from_device="from_device", to_device="to_device"),
        }

    def _sets(self, events: list[Event], args: list[Args]) -> Columns:
        return {
            **self._on_gpu(events, args),
            **_integers(args, bytes="bytes"),
            **self._of_node(args),
            "memory_kind": integers([memset_kind(event.name) for event in events]),
        }

    def _syncs(self, events: list[Event], args: list[Args]) -> Columns:
        return {
            **self._on_gpu(events, args),
            **_integers(args, event_id="event_id", record_correlation_id="record_correlation"),
            "record_stream_id": integers([a.record_stream for a in args]),
            "sync_type": integers([sync_type(event.name) for event in events]),
        }

    def _operators(self, events: list[Event], args: list[Args], kind: int) -> Columns:
        shapes = [a.shapes if a.shapes is not None else a.shapes_old for a in args]
        return {
            **self._on_thread(events),
            "kind": constant(kind, len(events)),
            "name_id": self._names(events),
            "sequence_number": integers([a.sequence for a in args]),
            "shapes_id": self._optional_names(shapes, _text_of_raw),
            "types_id": self._optional_names([a.types for a in args], _text_of_raw),
            "arguments_id": self._values(events, [a.values for a in args]),
            # The stack of a Python function repeats the functions around it, so it is not stored.
            "stack_id": constant(MISSING, len(events))
            if kind == PYTHON_FUNCTION
            else self._allowed_names([a.stack for a in args], allowed_stack),
            **_integers(args, forward_thread="forward_thread", op_id="op_id"),
            # Only those of copies are kept: they say whether a copy changes the order of dimensions.
            "strides_id": self._optional_names(
                [
                    a.strides if event.name == COPY_OPERATOR else None
                    for event, a in zip(events, args, strict=True)
                ],
                _text_of_raw,
            ),
            "is_open": integers([1 if a.finished is False else None for a in args]),
        }

    def _ranges(self, events: list[Event], args: list[Args]) -> Columns:
        return {
            **self._on_thread(events),
            **_constants(events, kind=_PUSH_POP, domain_id=0),
            "name_id": self._names(events),
        }

    def _overhead(self, events: list[Event], args: list[Args]) -> Columns:
        names = [event.name if isinstance(event.name, str) else "" for event in events]
        kinds = [_DRIVER_WORK if name in DRIVER_OVERHEAD else _PROFILER for name in names]
        return {
            # Their process is written as -1 and their thread as 0, which are none.
            "tid": constant(MISSING, len(events)),
            "kind": integers(kinds),
            "name_id": self._names(events),
        }

    def _memory_events(self, events: list[Event], args: list[Args]) -> Columns:
        return {
            **self._on_thread(events),
            **_integers(args, memory_type="memory_type", device_id="memory_device"),
            **_integers(args, address="address", bytes="memory_bytes"),
            **_integers(args, allocated_bytes="allocated", reserved_bytes="reserved"),
            "stack_id": self._allowed_names([a.stack for a in args], allowed_stack),
        }

    # -- columns that several tables have

    def _on_thread(self, events: list[Event]) -> Columns:
        # Most events of a trace are on threads, and comprehensions take less time than `_integers`.
        pids, tids = [event.pid for event in events], [event.tid for event in events]
        texts = self._chunk.texts
        return {"pid": ids(pids, texts), "tid": ids(tids, texts)}

    def _on_gpu(self, events: list[Event], args: list[Args]) -> Columns:
        return {
            # Copies between devices say where they ran; in the first releases only `pid` is the device.
            "device_id": first_integers(
                lambda: [a.device for a in args],
                lambda: [a.in_device for a in args],
                lambda: [event.pid for event in events],
            ),
            "context_id": first_integers(
                lambda: [a.context for a in args], lambda: [a.in_context for a in args]
            ),
            "stream_id": first_integers(
                lambda: [a.stream for a in args], lambda: [event.tid for event in events]
            ),
            "correlation_id": integers([a.correlation for a in args]),
        }

    def _names(self, events: list[Event]) -> Integers:
        texts = [event.name for event in events]
        try:
            return integers(list(map(self._name_ids.__getitem__, texts)))
        except TypeError:  # a name that is a list or an object, or none
            return self._optional_names(texts)

    def _optional_names(self, texts: list[Any], spell: Callable[[Any], Any] = hashable) -> Integers:
        if texts.count(None) == len(texts):
            return constant(MISSING, len(texts))
        id_of = self._name_ids
        return integers([MISSING if text is None else id_of[spell(text)] for text in texts])

    def _values(self, events: list[Event], texts: list[Any]) -> Integers:
        if texts.count(None) < len(texts):
            texts = [
                text if has_values(event.name) else None
                for event, text in zip(events, texts, strict=True)
            ]
        return self._allowed_names(texts, allowed_values)

    def _allowed_names(self, texts: list[Any], allowed: Callable[[bytes], str | None]) -> Integers:
        kept = [None if text is None else allowed(_text_of_raw(text)) for text in texts]
        return self._optional_names(kept)


class _NameIds(dict[Any, int]):
    def __missing__(self, text: Any) -> int:
        if text is None:
            raise TypeError("no name")
        if not isinstance(text, str | bytes):
            return self[str(text)]
        self[text] = number = len(self)
        return number


class _TableParts:
    def __init__(self) -> None:
        self.starts: Times = []
        self.durations: Times = []
        self.columns: dict[str, Integers] = defaultdict(partial(array, "q"))
        self.batches: list[tuple[int, int]] = []
        self.count = 0

    def join(self) -> PackedRows:
        columns = {name: _shortened(column) for name, column in self.columns.items()}
        return PackedRows(self.count, self.starts, self.durations, columns, self.batches)


def _shortened(column: Integers) -> Integers:
    first = column[:1]
    return first if column == first * len(column) else column


def _with_collective(events: list[Event]) -> list[Event]:
    return [event for event in events if event.args.collective is not None]


def _named(name: str, events: list[Event]) -> list[Event]:
    return [event for event in events if event.name == name]


def _collective_calls(events: list[Event]) -> list[Event]:
    return _with_collective(_named(COMMUNICATION_OPERATOR, events))


def _integers(args: list[Args], **attributes: str) -> Columns:
    # Attribute by column.
    return {
        column: integers([*map(attrgetter(attribute), args)])
        for column, attribute in attributes.items()
    }


def _constants(events: list[Event], **values: int) -> Columns:
    return {column: constant(value, len(events)) for column, value in values.items()}


def _valid_pid(value: Any, chunk: Chunk) -> int | None:
    number = parse_id(value, chunk.texts) if isinstance(value, str) else value
    return number if isinstance(number, int) and 0 < abs(number) < _PID_LIMIT else None
