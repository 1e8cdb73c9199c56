"""Perfetto's own format: protobuf, by the definitions of the package `perfetto`.

The package builds all that repeats: descriptors, names, and what equal rows have in common. What
differs from row to row (times, single numbers, arrows) is put before that as bytes, for many rows at
once: arrays of bytes with a row per event. Varints are padded to one width there, which the encoding
allows, so that rows have equal lengths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from nsysconv import schema
from nsysconv.errors import UsageError
from nsysconv.export.columns import (
    Coded,
    Json,
    Triple,
    binaries,
    content,
    distinct_rows,
    has_any,
    int64_array,
    join_bytes,
    lengths,
    select,
)
from nsysconv.export.contract import Options, Written
from nsysconv.export.layout import NO_FLOW, EventBlock
from nsysconv.export.tracing import CounterTrack, CounterValues, common_zero, write_trace
from nsysconv.export.tracks import TraceProcess, Track
from nsysconv.report import MISSING
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray

TITLE = "Perfetto trace: protobuf for ui.perfetto.dev and trace_processor"
SUFFIXES: tuple[str, ...] = (".pftrace", ".perfetto-trace")

_SEQUENCE = 1
# The ids of tracks of rows are their numbers, which are smaller.
_FIRST_PROCESS = 1 << 40
_FIRST_THREAD = 1 << 41
_FIRST_COUNTER = 1 << 42
_BOOT, _UTC = 6, 1  # clocks by Perfetto's numbers
_MAX_PID = (1 << 31) - 1

# Protobuf's numbers of types map to the wire types of doubles, of 64-bit numbers and of messages.
_WIRE_TYPES = {1: 1, 6: 1, 11: 2}
_VARINT = 0
_TIME_BYTES, _NUMBER_BYTES, _COUNT_BYTES = 9, 10, 5
"""Widths of varints: of a time that is not negative, of any number of 64 bits, and of a small one."""


def export(timelines: Sequence[Timeline], path: Path, options: Options) -> Written:
    """Write one trace of all these profiles, or their slices. Raises UsageError without the package."""
    protos = _protos()
    if options.compressed:
        raise UsageError(
            "Perfetto's own traces are not compressed", hint="Name the file without .gz."
        )
    zero, shifts, notes = common_zero(timelines)
    # Times of a trace are not negative.
    base = max(-_earliest(timelines), 0) if zero is None else zero
    with path.open("wb") as file:
        writer = _PerfettoWriter(file, protos)
        writer.begin(zero)
        written = write_trace(timelines, [shift + base for shift in shifts], writer)
    return Written(written.counts, (*notes, *written.notes))


def _protos() -> Any:
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError as error:
        raise UsageError(
            "Perfetto's own format needs the package perfetto",
            hint="Install it with `pip install 'nsysconv[perfetto]'`, or export --to chrome, which "
            "ui.perfetto.dev opens as well.",
        ) from error
    return perfetto_trace_pb2


def _earliest(timelines: Sequence[Timeline]) -> int:
    least = 0
    for timeline in timelines:
        for table in schema.EVENT_TABLES:
            start = timeline.profile.columns(table, ("start_ns",))["start_ns"]
            least = min(least, int(start[start != MISSING].min(initial=0)))
            timeline.profile.release(table, ("start_ns",))
    return least


class _Interned:
    def __init__(self, field: str) -> None:
        self.field = field
        self._ids: dict[str, int] = {}
        self.new: list[tuple[int, str]] = []

    def id_of(self, text: str) -> int:
        number = self._ids.get(text)
        if number is None:
            number = self._ids[text] = len(self._ids) + 1
            self.new.append((number, text))
        return number


class _PerfettoWriter:
    """A TraceWriter. All packets are of one sequence, so that names are written once."""

    def __init__(self, file: BinaryIO, protos: Any) -> None:
        self._file = file
        self._protos = protos
        self._categories = _Interned("event_categories")
        self._names = _Interned("event_names")
        self._labels = _Interned("debug_annotation_names")
        self._sequence = protos.TracePacket(
            trusted_packet_sequence_id=_SEQUENCE,
            sequence_flags=protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,
        ).SerializeToString()
        self._threads: dict[tuple[int, int], int] = {}
        self._counters: dict[tuple[CounterTrack, int], int] = {}

    def _tag(self, field: str) -> bytes:
        message, name = field.split(".")
        declared = getattr(self._protos, message).DESCRIPTOR.fields_by_name[name]
        return _varint(declared.number << 3 | _WIRE_TYPES.get(declared.type, _VARINT))

    def begin(self, zero: int | None) -> None:
        packet = self._packet()
        packet.sequence_flags = self._protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        packet.timestamp = zero or 0
        if zero is not None:
            for clock in (_BOOT, _UTC):
                packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=zero)
        self._write_packet(packet)

    def add_process(self, process: TraceProcess) -> None:
        with self._track(_FIRST_PROCESS + process.number) as descriptor:
            if process.is_process and 0 < process.number <= _MAX_PID:
                descriptor.process.pid = process.number
                descriptor.process.process_name = _replace_surrogates(process.name)
                descriptor.process.process_labels.append(_replace_surrogates(process.label))
            else:
                descriptor.name = _replace_surrogates(process.name)
                descriptor.description = _replace_surrogates(process.label)
            descriptor.child_ordering = self._protos.TrackDescriptor.EXPLICIT
            descriptor.sibling_order_rank = process.order

    def add_track(self, track: Track, process: TraceProcess, name: str) -> None:
        parent = _FIRST_PROCESS + process.number
        if not track.kind.on_gpu and track.key["tid"] != MISSING:
            thread, name = name.partition(": ")[::2]
            parent = self._thread(process, track.key["tid"], thread)
        with self._track(track.number, parent) as descriptor:
            descriptor.name = _replace_surrogates(name)
            descriptor.sibling_order_rank = track.number
            # Two streams of one name are two streams.
            none = self._protos.TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE
            descriptor.sibling_merge_behavior = none

    def _thread(self, process: TraceProcess, tid: int, name: str) -> int:
        key = (process.number, tid)
        if key not in self._threads:
            uuid = self._threads[key] = _FIRST_THREAD + len(self._threads)
            with self._track(uuid, _FIRST_PROCESS + process.number) as descriptor:
                if 0 < process.number <= _MAX_PID:
                    descriptor.thread.pid, descriptor.thread.tid = process.number, tid
                    descriptor.thread.thread_name = _replace_surrogates(name)
                else:
                    descriptor.name = _replace_surrogates(name)
                descriptor.child_ordering = self._protos.TrackDescriptor.EXPLICIT
        return self._threads[key]

    @contextmanager
    def _track(self, uuid: int, parent: int | None = None) -> Iterator[Any]:
        packet = self._packet()
        packet.track_descriptor.uuid = uuid
        if parent is not None:
            packet.track_descriptor.parent_uuid = parent
        yield packet.track_descriptor
        self._write_packet(packet)

    def encode_events(self, block: EventBlock) -> tuple[pa.Array, None]:
        args, count = block.args, len(block.start)
        event_types = self._protos.TrackEvent
        first, inverse = distinct_rows(
            (block.track, args.category, args.name, *args.repeated.values())
        )
        repeated = binaries(self._repeated(block, first))
        parts = [self._single(k, v) for k, v in args.single.items() if has_any(v)]
        if block.flow_in is not None:
            ends_here = self._tag("TrackEvent.terminating_flow_ids")
            parts.append(_flows(ends_here, block.flow_in, (block.flow_in != NO_FLOW) * 1))
        if block.flows_out is not None:
            parts.append(_flows(self._tag("TrackEvent.flow_ids"), *block.flows_out))
        parts.append(repeated.take(int64_array(inverse)))
        self._write_new_names()
        body = join_bytes(parts)
        if block.kind.instant:
            begins = self._event(block.start, event_types.TYPE_INSTANT, lengths(body))
            return join_bytes([begins, body]), None
        begins = self._event(block.start, event_types.TYPE_SLICE_BEGIN, lengths(body))
        track = _numbers(self._tag("TrackEvent.track_uuid"), block.track)
        body_lengths = np.full(count, track.shape[1])
        ends = self._event(block.start + block.dur, event_types.TYPE_SLICE_END, body_lengths)
        return join_bytes([begins, body, ends, _binary_rows(track)]), None

    def _event(self, time: Array, event_type: int, body_lengths: Array) -> pa.Array:
        """Return packets of events up to their type; so many bytes of each event follow."""
        count = len(time)
        head = self._tag("TrackEvent.type") + bytes([event_type])
        inner = body_lengths + len(head)
        before = _beside(
            _constant(self._tag("TracePacket.timestamp"), count), _varints(time, _TIME_BYTES),
            _constant(self._sequence + self._tag("TracePacket.track_event"), count),
            _varints(inner, _COUNT_BYTES), _constant(head, count),
        )  # fmt: skip
        outer = body_lengths + before.shape[1]
        frame = _beside(_constant(self._tag("Trace.packet"), count), _varints(outer, _COUNT_BYTES))
        return _binary_rows(_beside(frame, before))

    def _single(self, label: str, values: Array) -> pa.Array:
        is_double = values.dtype.kind == "f"
        has_value = np.isfinite(values) if is_double else values != MISSING
        tag = self._tag(f"DebugAnnotation.{'double' if is_double else 'int'}_value")
        value = _numbers(tag, values[has_value])
        begin = self._tag("DebugAnnotation.name_iid") + _varint(self._labels.id_of(label))
        head = (
            self._tag("TrackEvent.debug_annotations") + bytes([len(begin) + value.shape[1]]) + begin
        )
        return _binary_rows(_beside(_constant(head, len(value)), value), has_value * 1)

    def _repeated(self, block: EventBlock, rows: Array) -> list[bytes]:
        args = block.args
        names, categories = args.name.take(rows), args.category.take(rows)
        columns = [(label, select(values, rows)) for label, values in args.repeated.items()]
        events = []
        for row, track in enumerate(block.track[rows].tolist()):
            event = self._protos.TrackEvent(track_uuid=track)
            name, category = _text(names, row), _text(categories, row)
            event.name_iid = self._names.id_of("[no name]" if name is None else name)
            event.category_iids.append(self._categories.id_of(category or block.kind.what))
            for label, values in columns:
                value = _value(values, row)
                if value is not None:
                    annotation = event.debug_annotations.add(name_iid=self._labels.id_of(label))
                    _set_value(annotation, value)
            events.append(event.SerializeToString())
        return events

    def encode_counters(self, values: CounterValues, processes: Sequence[TraceProcess]) -> pa.Array:
        count = len(values.time)
        uuids = np.array([self._counter(*c) for c in zip(values.counters, processes, strict=True)])
        is_double = values.value.dtype.kind == "f"
        tag = self._tag(f"TrackEvent.{'double_' if is_double else ''}counter_value")
        track = _numbers(self._tag("TrackEvent.track_uuid"), uuids[values.index])
        body = _beside(track, _numbers(tag, values.value))
        body_lengths = np.full(count, body.shape[1])
        event = self._event(values.time, self._protos.TrackEvent.TYPE_COUNTER, body_lengths)
        return join_bytes([event, _binary_rows(body)])

    def _counter(self, counter: CounterTrack, process: TraceProcess) -> int:
        key = (counter, process.number)
        if key not in self._counters:
            uuid = self._counters[key] = _FIRST_COUNTER + len(self._counters)
            with self._track(uuid, _FIRST_PROCESS + process.number) as descriptor:
                descriptor.name = _replace_surrogates(counter.name)
                descriptor.counter.unit_name = counter.unit
        return self._counters[key]

    def write(self, encoded: pa.Array) -> None:
        self._file.write(content(encoded))

    def _packet(self) -> Any:
        return self._protos.TracePacket(trusted_packet_sequence_id=_SEQUENCE)

    def _write_packet(self, packet: Any) -> None:
        self._file.write(self._protos.Trace(packet=[packet]).SerializeToString())

    def _write_new_names(self) -> None:
        packet = self._packet()
        packet.sequence_flags = self._protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        for interned in (self._categories, self._names, self._labels):
            for number, text in interned.new:
                entries = getattr(packet.interned_data, interned.field)
                entries.add(iid=number, name=_replace_surrogates(text))
            interned.new.clear()
        if packet.HasField("interned_data"):
            self._write_packet(packet)


def _text(texts: Coded, row: int) -> str | None:
    number = int(texts.numbers[row])
    return texts.texts[number] if number >= 0 else None


def _value(values: Any, row: int) -> Any:
    if isinstance(values, Json):
        text = _text(values, row)
        if text is None:
            return None
        value = json.loads(text)
        # Lists in lists become text, for which Perfetto has more room.
        return value if isinstance(value, str | int | float) else json.dumps(value)
    if isinstance(values, Coded):
        return _text(values, row)
    if isinstance(values, Triple):
        numbers = [int(axis[row]) for axis in (values.x, values.y, values.z)]
        return None if MISSING in numbers else numbers
    value = values[row].item()
    return None if value == MISSING or value != value else value


def _set_value(annotation: Any, value: Any) -> None:
    if isinstance(value, list):
        for number in value:
            annotation.array_values.add(int_value=number)
    elif isinstance(value, str):
        annotation.string_value = _replace_surrogates(value)
    elif isinstance(value, float):
        annotation.double_value = value
    else:
        annotation.int_value = value


def _replace_surrogates(text: str) -> str:
    # Halves of surrogate pairs are nothing that UTF-8 can hold.
    return text.encode("utf-8", "replace").decode()


# -- the wire format, for many rows at once


def _varint(number: int) -> bytes:
    spelled = bytearray()
    while number > 0x7F:
        spelled.append(number & 0x7F | 0x80)
        number >>= 7
    spelled.append(number)
    return bytes(spelled)


def _varints(values: Array, width: int) -> Array:
    """Return whole numbers as varints of `width` bytes each, which must be enough."""
    # A byte holds seven bits, the lowest first; its high bit says that another byte follows.
    left = values.astype(np.int64).view(np.uint64)
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    result = (left[:, None] >> shifts) & np.uint64(0x7F)
    result[:, :-1] |= np.uint64(0x80)
    return result.astype(np.uint8)


def _fixed(values: Array) -> Array:
    kind = "<f8" if values.dtype.kind == "f" else "<i8"
    return np.ascontiguousarray(values.astype(kind)).view(np.uint8).reshape(-1, 8)


def _numbers(tag: bytes, values: Array) -> Array:
    is_double = values.dtype.kind == "f"
    encoded = _fixed(values) if is_double else _varints(values, _NUMBER_BYTES)
    return _beside(_constant(tag, len(values)), encoded)


def _flows(tag: bytes, first: Array, count: Array) -> pa.Array:
    """Return, per row, `count` arrows numbered from `first` on."""
    rows = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    matrix = _beside(_constant(tag, len(rows)), _fixed(first[rows] + nth))
    return _binary_rows(matrix, count)


def _constant(text: bytes, count: int) -> Array:
    return np.broadcast_to(np.frombuffer(text, np.uint8), (count, len(text)))


def _beside(*parts: Array) -> Array:
    return np.concatenate(parts, axis=1)


def _binary_rows(matrix: Array, count: Array | None = None) -> pa.Array:
    """Return the rows of a matrix as an Arrow array; with `count`, each value joins so many rows."""
    length, width = matrix.shape
    ends = np.arange(length + 1) if count is None else np.append(0, np.cumsum(count))
    offsets = np.ascontiguousarray(ends * width, np.int64)
    data = np.ascontiguousarray(matrix)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
