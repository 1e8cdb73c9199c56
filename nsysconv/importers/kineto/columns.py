"""Events of one kind after the other into the columns of our tables.

Columns are int64 arrays, null as MISSING; columns of names hold places in the piece's own list of names.
Times are nanoseconds since the zero that was asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from nsysconv.importers.kineto.cells import MISSING, triples, whole
from nsysconv.importers.kineto.events import Args, Event
from nsysconv.importers.kineto.piece import Columns
from nsysconv.importers.kineto.rows import ON_GPU, UNSPELLED, Array, Rows, Spelled
from nsysconv.importers.kineto.sorting import by_kind, hashable
from nsysconv.importers.kineto.words import COMMUNICATION_OPERATOR, DRIVER_OVERHEAD

_NO_STREAM = (-1, 0xFFFFFFFF)
_HOST_MEMORY = 0
_RUNTIME, _DRIVER = 0, 1
_OPERATOR, _PYTHON_FUNCTION = 0, 1
_CALL, _KERNEL = 0, 1
_PUSH_POP = 0
_PROFILER, _DRIVER_WORK = 0, 1
# Wait rows stand on lines of their own since PyTorch 2.13.
_SYNC_TID = 1_000_000
_MOST_SMS = 10_000


class Builder(Rows):
    """Fills a piece of a trace with the rows of its events, some events at a time."""

    def add(
        self,
        events: Sequence[Event],
        spelled: Spelled,
        place: int,
        zero: int,
        *,
        python_functions: bool,
    ) -> None:
        """Adds the rows of events that stand at byte `place`; Python functions only if asked for.

        `zero` (ns) is subtracted from every time.
        """
        self._spelled, self._place, self._zero = spelled, place, zero
        kinds = by_kind(events, self._piece, place)
        self._owners(events, kinds)
        self._api_calls(kinds["runtime"], _RUNTIME)
        self._api_calls(kinds["driver"], _DRIVER)
        self._kernels(kinds["kernel"])
        self._copies(kinds["memcpy"])
        self._sets(kinds["memset"])
        self._syncs(kinds["sync"])
        self._operators(kinds["operator"], _OPERATOR)
        if python_functions:
            self._operators(kinds["python"], _PYTHON_FUNCTION)
        elif kinds["python"]:
            self._piece.counts["python functions"] += len(kinds["python"])
        self._annotations(kinds["annotation"])
        self._overhead(kinds["overhead"])
        self._memory_events(kinds["instant"])
        self._spelled = UNSPELLED  # which would keep the events

    def _api_calls(self, events: list[Event], layer: int) -> None:
        if not events:
            return
        args = [event.args for event in events]
        correlation = whole([a.correlation for a in args])
        # ROCm tells the bytes of a copy on its API call.
        sizes = [a.bytes if a.bytes is not None else a.size for a in args]
        if sizes.count(None) < len(sizes):
            for event, a, size in zip(events, args, sizes, strict=True):
                if size is not None:
                    pid, number, count = whole([event.pid, a.correlation, size]).tolist()
                    if count != MISSING:
                        self._piece.sizes[pid, number] = count
        self._put(
            "api_call",
            events,
            {
                "dur_ns": self._durations(events),
                **self._on_thread(events),
                "correlation_id": correlation,
                "layer": np.full(len(events), layer),
                "name_id": self._numbers_of([event.name for event in events]),
            },
        )

    def _kernels(self, events: list[Event]) -> None:
        if not events:
            return
        args = [event.args for event in events]
        grid = triples([a.grid if a.grid is not None else a.grid_dim for a in args])
        block = triples([a.block if a.block is not None else a.block_dim for a in args])
        columns = {
            "dur_ns": self._durations(events),
            **self._on_gpu(events, args),
            "name_id": self._numbers_of([event.name for event in events]),
            **dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True)),
            **dict(zip(("block_x", "block_y", "block_z"), block, strict=True)),
            "registers_per_thread": whole([a.registers for a in args]),
            "shared_bytes": whole(
                [a.shared if a.shared is not None else a.shared_size for a in args]
            ),
            "occupancy_pct": whole([a.occupancy for a in args]),
            "graph_node_id": _node(args),
        }
        self._sm_counts(args, columns)
        self._put("kernel", events, columns)
        said = [event for event in events if event.args.collective is not None]
        if said:
            self._collectives(said, _KERNEL)

    def _sm_counts(self, args: list[Args], columns: Columns) -> None:
        """How many SMs a device has, out of blocks per SM: for traces that do not describe it."""
        devices = columns["device_id"].tolist()
        if self._piece.sm_counts.keys() >= set(devices):
            return
        for place, (device, a) in enumerate(zip(devices, args, strict=True)):
            if device in self._piece.sm_counts:
                continue
            per_sm = a.blocks_per_sm
            if isinstance(per_sm, int | float) and 0 < per_sm < float("inf"):
                blocks = [int(columns[f"grid_{axis}"][place]) for axis in "xyz"]
                with contextlib.suppress(OverflowError):
                    count = blocks[0] * blocks[1] * blocks[2] / float(per_sm)
                    # A few digits of blocks per SM tell the count only where many blocks ran.
                    near = 1 <= count < _MOST_SMS and abs(count - round(count)) < 1e-3
                    if near and MISSING not in blocks:
                        self._piece.sm_counts[device] = round(count)

    def _collectives(self, events: list[Event], kind: int) -> None:
        args = [event.args for event in events]
        unknown = np.full(len(events), MISSING)
        if kind == _CALL:
            where = {**dict.fromkeys(ON_GPU, unknown), **self._on_thread(events)}
        else:
            where = {**self._on_gpu(events, args), "tid": unknown}
        self._put(
            "collective",
            events,
            {
                "dur_ns": self._durations(events),
                **where,
                "kind": np.full(len(events), kind),
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
        where = self._on_gpu(events, args)
        direction = np.array([t[0] for t in told], np.int64)
        target, source = whole([a.to_device for a in args]), whole([a.from_device for a in args])
        peer = np.where(where["device_id"] == source, target, source)
        self._put(
            "memcpy",
            events,
            {
                "dur_ns": self._durations(events),
                **where,
                "bytes": whole([a.bytes for a in args]),
                "direction": direction,
                "src_kind": np.array([t[1] for t in told], np.int64),
                "dst_kind": np.array([t[2] for t in told], np.int64),
                "peer_device_id": np.where(direction == self._words.peer, peer, MISSING),
                "graph_node_id": _node(args),
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
                "dur_ns": self._durations(events),
                **self._on_gpu(events, args),
                "bytes": whole([a.bytes for a in args]),
                "memory_kind": np.array(
                    [self._words.memory_kind(event.name) for event in events], np.int64
                ),
                "graph_node_id": _node(args),
            },
        )

    def _syncs(self, events: list[Event]) -> None:
        if not events:
            return
        where = self._on_gpu(events, [event.args for event in events])
        stream = where["stream_id"]
        stream = np.where(stream >= _SYNC_TID, stream - _SYNC_TID, stream)
        where["stream_id"] = np.where(np.isin(stream, _NO_STREAM), MISSING, stream)
        self._put(
            "sync",
            events,
            {
                "dur_ns": self._durations(events),
                **where,
                "event_id": whole([event.args.event_id for event in events]),
                "sync_type": np.array(
                    [self._words.sync_type(event.name) for event in events], np.int64
                ),
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
                "dur_ns": self._durations(events),
                **self._on_thread(events),
                "kind": np.full(len(events), kind),
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
                "dur_ns": self._durations(events),
                **self._on_thread(events),
                "kind": np.full(len(events), _PUSH_POP),
                "domain_id": np.zeros(len(events), np.int64),
                "name_id": self._numbers_of([event.name for event in events]),
            },
        )

    def _overhead(self, events: list[Event]) -> None:
        if not events:
            return
        # They stand under process -1 and thread 0, which are none.
        where = {"pid": self._process_of(events), "tid": np.full(len(events), MISSING)}
        kind = [_DRIVER_WORK if event.name in DRIVER_OVERHEAD else _PROFILER for event in events]
        self._put(
            "overhead",
            events,
            {
                "dur_ns": self._durations(events),
                **where,
                "kind": np.array(kind, np.int64),
                "name_id": self._numbers_of([event.name for event in events]),
            },
        )

    def _memory_events(self, events: list[Event]) -> None:
        events = [event for event in events if event.name == "[memory]"]
        if not events:
            return
        args = [event.args for event in events]
        kind, device = whole([a.memory_type for a in args]), whole([a.memory_device for a in args])
        self._put(
            "memory_event",
            events,
            {
                **self._on_thread(events),
                "device_id": np.where((kind == _HOST_MEMORY) | (device < 0), MISSING, device),
                "address": whole([a.address for a in args]),
                "bytes": whole([a.memory_bytes for a in args]),
                "allocated_bytes": whole([a.allocated for a in args]),
                "reserved_bytes": whole([a.reserved for a in args]),
            },
        )


def _node(args: list[Args]) -> Array:
    """The graph nodes; 0 is none."""
    node = whole([a.graph_node for a in args])
    return np.where(node == 0, MISSING, node)


def _first(value: Any, other: Any) -> Any:
    return value if value is not None else other
