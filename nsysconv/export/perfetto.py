"""Perfetto's own format: protobuf, by the definitions of the package `perfetto`.

The package builds all that repeats: descriptors, names, and what equal rows have in common. What differs
from row to row (times, single numbers, arrows) is put before that as bytes, for many rows at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from nsysconv import schema
from nsysconv.errors import UsageError
from nsysconv.export import cells, wire
from nsysconv.export.contract import Options, Written
from nsysconv.export.counters import Counter, Points
from nsysconv.export.drawing import Drawn, Track
from nsysconv.export.flows import NONE
from nsysconv.export.ordered import Coded
from nsysconv.export.places import Place
from nsysconv.export.telling import Json, Triple
from nsysconv.export.tracing import common_zero, draw
from nsysconv.report import MISSING
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray

TITLE = "Perfetto trace: protobuf for ui.perfetto.dev and trace_processor"
SUFFIXES: tuple[str, ...] = (".pftrace", ".perfetto-trace")

_SEQUENCE = 1
# Tracks of rows have their places for numbers, which are smaller.
_FIRST_PLACE = 1 << 40
_FIRST_THREAD = 1 << 41
_FIRST_COUNTER = 1 << 42
_BOOT, _UTC = 6, 1  # clocks by Perfetto's numbers
_MAX_PID = (1 << 31) - 1


def export(timelines: Sequence[Timeline], path: Path, options: Options) -> Written:
    """Writes one trace of all these profiles, or their slices. Raises UsageError without the package."""
    protos = _protos()
    if options.compressed:
        raise UsageError(
            "Perfetto's own traces are not compressed", hint="Name the file without .gz."
        )
    zero, shifts, notes = common_zero(timelines)
    # Times of a trace are not negative.
    base = max(-_earliest(timelines), 0) if zero is None else zero
    with path.open("wb") as file:
        pen = _Pen(file, protos)
        pen.begin(zero)
        written = draw(timelines, [shift + base for shift in shifts], pen)
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
    """The earliest time of any row, at its own profile's zero; 0 where none is negative."""
    least = 0
    for timeline in timelines:
        for table in schema.EVENT_TABLES:
            start = timeline.profile.columns(table, ("start_ns",))["start_ns"]
            least = min(least, int(start[start != MISSING].min(initial=0)))
            timeline.profile.release(table, ("start_ns",))
    return least


class _Fields:
    """Numbers and types of the fields that are written as bytes, as the definitions have them."""

    def __init__(self, protos: Any) -> None:
        packet, event = protos.TracePacket.DESCRIPTOR, protos.TrackEvent.DESCRIPTOR
        note = protos.DebugAnnotation.DESCRIPTOR

        def of(message: Any, name: str, kind: int) -> bytes:
            return wire.tag(message.fields_by_name[name].number, kind)

        self.packet = of(protos.Trace.DESCRIPTOR, "packet", wire.LENGTH)
        flags = protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        self.sequence = (
            of(packet, "trusted_packet_sequence_id", wire.VARINT) + bytes([_SEQUENCE])
            + of(packet, "sequence_flags", wire.VARINT) + bytes([flags])
        )  # fmt: skip
        self.timestamp = of(packet, "timestamp", wire.VARINT)
        self.event = of(packet, "track_event", wire.LENGTH)
        self.type = of(event, "type", wire.VARINT)
        self.track = of(event, "track_uuid", wire.VARINT)
        self.flow = of(event, "flow_ids", wire.FIXED64)
        self.last_flow = of(event, "terminating_flow_ids", wire.FIXED64)
        self.note = of(event, "debug_annotations", wire.LENGTH)
        self.note_name = of(note, "name_iid", wire.VARINT)
        self.note_int = of(note, "int_value", wire.VARINT)
        self.note_real = of(note, "double_value", wire.FIXED64)
        self.count = of(event, "counter_value", wire.VARINT)
        self.real_count = of(event, "double_counter_value", wire.FIXED64)


class _Interned:
    """Texts by number, each told to the reader once."""

    def __init__(self, field: str) -> None:
        self.field = field
        self._known: dict[str, int] = {}
        self.new: list[tuple[int, str]] = []

    def number(self, text: str) -> int:
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = len(self._known) + 1
            self.new.append((found, text))
        return found


class _Pen:
    """Writes packets. Everything is of one sequence, so that names need to be told once."""

    def __init__(self, file: BinaryIO, protos: Any) -> None:
        self._file = file
        self._protos = protos
        self._field = _Fields(protos)
        self._categories = _Interned("event_categories")
        self._names = _Interned("event_names")
        self._notes = _Interned("debug_annotation_names")
        self._places: set[int] = set()
        self._threads: dict[tuple[int, int], int] = {}
        self._counters: dict[tuple[Counter, int], int] = {}
        kinds = protos.TrackEvent
        self._begins, self._ends, self._instant, self._counts = (
            kinds.TYPE_SLICE_BEGIN, kinds.TYPE_SLICE_END, kinds.TYPE_INSTANT, kinds.TYPE_COUNTER,
        )  # fmt: skip

    def begin(self, zero: int | None) -> None:
        """The first packet, which also says what the trace's times are in UTC, where that is known."""
        packet = self._packet()
        packet.sequence_flags = self._protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        packet.timestamp = zero or 0
        if zero is not None:
            for clock in (_BOOT, _UTC):
                packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=zero)
        self._tell(packet)

    def place(self, place: Place) -> None:
        if place.number in self._places:
            return
        self._places.add(place.number)
        packet = self._packet()
        told = packet.track_descriptor
        told.uuid = _FIRST_PLACE + place.number
        if place.is_process and 0 < place.number <= _MAX_PID:
            told.process.pid = place.number
            told.process.process_name = _clean(place.name)
            told.process.process_labels.append(_clean(place.label))
        else:
            told.name = _clean(place.name)
            told.description = _clean(place.label)
        told.child_ordering = self._protos.TrackDescriptor.EXPLICIT
        told.sibling_order_rank = place.order
        self._tell(packet)

    def track(self, track: Track, place: Place, name: str) -> None:
        parent = _FIRST_PLACE + place.number
        if not track.kind.on_gpu and track.key["tid"] != MISSING:
            whole, name = name.partition(": ")[::2]
            parent = self._thread(place, track.key["tid"], whole)
        self._describe(track.place, parent, name, track.place)

    def _thread(self, place: Place, tid: int, name: str) -> int:
        key = (place.number, tid)
        if key not in self._threads:
            uuid = self._threads[key] = _FIRST_THREAD + len(self._threads)
            packet = self._packet()
            told = packet.track_descriptor
            told.uuid, told.parent_uuid = uuid, _FIRST_PLACE + place.number
            if 0 < place.number <= _MAX_PID:
                told.thread.pid, told.thread.tid = place.number, tid
                told.thread.thread_name = _clean(name)
            else:
                told.name = _clean(name)
            told.child_ordering = self._protos.TrackDescriptor.EXPLICIT
            self._tell(packet)
        return self._threads[key]

    def _describe(self, uuid: int, parent: int, name: str, rank: int) -> Any:
        packet = self._packet()
        told = packet.track_descriptor
        told.uuid, told.parent_uuid, told.name = uuid, parent, _clean(name)
        told.sibling_order_rank = rank
        # Two streams of one name are two streams.
        told.sibling_merge_behavior = self._protos.TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE
        self._tell(packet)

    def cells(self, drawn: Drawn) -> tuple[pa.Array, None]:
        field, told, count = self._field, drawn.told, len(drawn.start)
        first, place = cells.repeating(told, drawn.track)
        repeated = wire.spelled(self._repeated(drawn, first))
        parts = [self._single(k, v) for k, v in told.single.items() if cells.has_any(v)]
        if drawn.arriving is not None:
            parts.append(_flows(field.last_flow, drawn.arriving, (drawn.arriving != NONE) * 1))
        if drawn.leaving is not None:
            parts.append(_flows(field.flow, *drawn.leaving))
        parts.append(repeated.take(cells.indices(place)))
        self._tell_names()
        body = cells.joined_bytes(parts)
        kind = self._instant if drawn.kind.instant else self._begins
        begins = self._event(drawn.start, kind, cells.lengths(body))
        if drawn.kind.instant:
            return cells.joined_bytes([begins, body]), None
        track = wire.rows(wire.constant(field.track, count), wire.varints(drawn.track, wire.NUMBER))
        lengths = np.full(count, track.shape[1])
        ends = self._event(drawn.start + drawn.dur, self._ends, lengths)
        return cells.joined_bytes([begins, body, ends, wire.cells(track)]), None

    def _event(self, time: Array, kind: int, rest: Array) -> pa.Array:
        """A packet of an event up to what follows its type, which has so many bytes."""
        field, count = self._field, len(time)
        head = field.type + bytes([kind])
        inner = rest + len(head)
        before = wire.rows(
            wire.constant(field.timestamp, count), wire.varints(time, wire.TIME),
            wire.constant(field.sequence + field.event, count),
            wire.varints(inner, wire.COUNT), wire.constant(head, count),
        )  # fmt: skip
        outer = rest + before.shape[1]
        frame = wire.rows(wire.constant(field.packet, count), wire.varints(outer, wire.COUNT))
        return wire.cells(wire.rows(frame, before))

    def _single(self, label: str, values: Array) -> pa.Array:
        field = self._field
        real = values.dtype.kind == "f"
        known = np.isfinite(values) if real else values != MISSING
        some = values[known]
        begin = field.note_name + wire.varint(self._notes.number(label))
        value = (
            wire.rows(wire.constant(field.note_real, len(some)), wire.fixed(some))
            if real
            else wire.rows(
                wire.constant(field.note_int, len(some)), wire.varints(some, wire.NUMBER)
            )
        )
        head = field.note + bytes([len(begin) + value.shape[1]]) + begin
        return wire.cells(wire.rows(wire.constant(head, len(some)), value), known * 1)

    def _repeated(self, drawn: Drawn, rows: Array) -> list[bytes]:
        """The events of rows that stand for many, without what is each row's own."""
        told = drawn.told
        names, categories = told.name.take(rows), told.category.take(rows)
        columns = [(k, cells.taken(v, rows)) for k, v in told.repeated.items()]
        found = []
        for place, track in enumerate(drawn.track[rows].tolist()):
            event = self._protos.TrackEvent(track_uuid=track)
            name, category = _text(names, place), _text(categories, place)
            event.name_iid = self._names.number("[no name]" if name is None else name)
            event.category_iids.append(self._categories.number(category or drawn.kind.what))
            for label, values in columns:
                value = _value(values, place)
                if value is not None:
                    note = event.debug_annotations.add(name_iid=self._notes.number(label))
                    _fill(note, value)
            found.append(event.SerializeToString())
        return found

    def points(self, points: Points, places: Sequence[Place]) -> pa.Array:
        field, count = self._field, len(points.time)
        uuids = np.array(
            [self._counter(*each) for each in zip(points.counters, places, strict=True)]
        )
        real = points.value.dtype.kind == "f"
        value = (
            wire.rows(wire.constant(field.real_count, count), wire.fixed(points.value))
            if real
            else wire.rows(
                wire.constant(field.count, count), wire.varints(points.value, wire.NUMBER)
            )
        )
        track = wire.varints(uuids[points.which], wire.NUMBER)
        rest = wire.rows(wire.constant(field.track, count), track, value)
        event = self._event(points.time, self._counts, np.full(count, rest.shape[1]))
        return cells.joined_bytes([event, wire.cells(rest)])

    def _counter(self, counter: Counter, place: Place) -> int:
        key = (counter, place.number)
        if key not in self._counters:
            uuid = self._counters[key] = _FIRST_COUNTER + len(self._counters)
            packet = self._packet()
            told = packet.track_descriptor
            told.uuid, told.parent_uuid = uuid, _FIRST_PLACE + place.number
            told.name = _clean(counter.name)
            told.counter.unit_name = counter.unit
            self._tell(packet)
        return self._counters[key]

    def write(self, written: pa.Array) -> None:
        self._file.write(cells.content(written))

    def _packet(self) -> Any:
        return self._protos.TracePacket(trusted_packet_sequence_id=_SEQUENCE)

    def _tell(self, packet: Any) -> None:
        self._file.write(self._protos.Trace(packet=[packet]).SerializeToString())

    def _tell_names(self) -> None:
        """What rows that follow refer to, and was not told yet."""
        packet = self._packet()
        packet.sequence_flags = self._protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        for interned in (self._categories, self._names, self._notes):
            for number, text in interned.new:
                getattr(packet.interned_data, interned.field).add(iid=number, name=_clean(text))
            interned.new.clear()
        if packet.HasField("interned_data"):
            self._tell(packet)


def _flows(tag: bytes, first: Array, count: Array) -> pa.Array:
    """Per row so many arrows, from a number on."""
    rows = np.repeat(np.arange(len(count)), count)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    matrix = wire.rows(wire.constant(tag, len(rows)), wire.fixed(first[rows] + nth))
    return wire.cells(matrix, count)


def _text(texts: Coded, place: int) -> str | None:
    number = int(texts.numbers[place])
    return texts.texts[number] if number >= 0 else None


def _value(values: Any, place: int) -> Any:
    """A row's value of any kind of column; None: it has none."""
    if isinstance(values, Json):
        text = _text(values, place)
        return None if text is None else _plain(json.loads(text))
    if isinstance(values, Coded):
        return _text(values, place)
    if isinstance(values, Triple):
        each = [int(axis[place]) for axis in (values.x, values.y, values.z)]
        return None if MISSING in each else each
    value = values[place].item()
    return None if value == MISSING or value != value else value


def _plain(value: Any) -> Any:
    """Lists in lists as text, for which Perfetto has more room."""
    return value if isinstance(value, str | int | float) else json.dumps(value)


def _fill(note: Any, value: Any) -> None:
    if isinstance(value, list):
        for each in value:
            note.array_values.add(int_value=each)
    elif isinstance(value, str):
        note.string_value = _clean(value)
    elif isinstance(value, float):
        note.double_value = value
    else:
        note.int_value = value


def _clean(text: str) -> str:
    """The text without halves of characters, which no file can hold."""
    return text.encode("utf-8", "replace").decode()
