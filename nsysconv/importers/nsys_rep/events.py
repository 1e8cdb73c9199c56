"""Blocks of events as rows of nsys' own tables, by tables.toml; whole columns at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nsysconv.importers.nsys_rep import schema
from nsysconv.importers.nsys_rep.schema import ColumnFields, EventTable, FieldPath
from nsysconv.importers.nsys_rep.wire import Array, Buffer, Column, Spans, WireError

_CALL, _ACTIVITY, _CLASS, _INNER = 108, 107, (6,), 100
_MOST_EVENTS = 1 << 16  # of a block; nsys writes 7,000 at most
_SAMPLE = (5,)  # of a CPU sample, without which it is no row


class _Found:
    # Fields of messages, gathered column by column.

    def __init__(self, buffer: Buffer, spans: Spans) -> None:
        self.buffer, self.count = buffer, len(spans)
        self.columns: dict[int, list[Column]] = {}
        for column in buffer.fields(spans):
            self.columns.setdefault(column.number, []).append(column)

    def numbers(self, path: FieldPath) -> tuple[Array, Array]:
        # Of each message the number at a path, and whether it is there.
        values, there = np.zeros(self.count, np.int64), np.zeros(self.count, bool)
        for column in self.columns.get(path[0], ()):
            if isinstance(column.value, Spans):
                if len(path) > 1:
                    found, known = _Found(self.buffer, column.value).numbers(path[1:])
                    which = column.which[known]
                    values[which], there[which] = found[known], True
            elif len(path) == 1:
                values[column.which], there[column.which] = column.value, True
        return values, there

    def spans(self, number: int) -> tuple[Spans, Array]:
        # The same of texts and messages: the first of several, for a flipped bit may make more of them.
        start, end = np.zeros((2, self.count), np.int64)
        there = np.zeros(self.count, bool)
        for column in reversed(self.columns.get(number, ())):
            if isinstance(column.value, Spans):
                start[column.which], end[column.which] = column.value.start, column.value.end
                there[column.which] = True
        return Spans(start, end), there


class Events:
    """Makes rows of blocks of events, and keeps count of what it does not know."""

    def __init__(self) -> None:
        """Begin with no block."""
        self.count = 0
        self.used: set[int] = set()
        """Which strings a row names."""
        self.doubts: dict[str, Counter[str]] = defaultdict(Counter)
        """How many there are of what is not known, not read or not sure, by slug of the note on it."""

    def rows(self, block: bytes) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows of a block by table, in the order of the events. Raises WireError."""
        buffer = Buffer(block)
        events = buffer.repeated(1)
        if not 0 < len(events) <= _MOST_EVENTS or int(events.end[-1]) != buffer.length:
            raise WireError
        self.count += len(events)
        found, of = _Found(buffer, events), 0
        for payload in sorted(number for number in found.columns if number >= _INNER):
            spans, there = found.spans(payload)
            of += int(np.count_nonzero(there))
            yield from self._of_payload(buffer, payload, spans.take(np.flatnonzero(there)))
        if of < len(events):
            self.doubts["report-unknown"]["events without a payload"] += len(events) - of

    def _of_payload(
        self, buffer: Buffer, payload: int, spans: Spans
    ) -> Iterator[tuple[str, pa.Table]]:
        tables = [table for table in schema.event_tables().values() if table.payload == payload]
        if not tables:
            if len(spans) and payload not in schema.read("tables")["not_needed"]["payloads"]:
                self.doubts["report-unknown"][f"payload {payload}"] += len(spans)
            return
        found, which = _Found(buffer, spans), np.arange(len(spans))
        if payload == _ACTIVITY:
            by_inner = {table.inner: table for table in tables}
            for number in [number for number in found.columns if number >= _INNER]:
                inner, there = found.spans(number)
                which = np.flatnonzero(there)
                if number in by_inner:
                    messages = _Found(buffer, inner.take(which))
                    yield from self._table(by_inner[number], found, which, messages)
                else:
                    self.doubts["report-unknown"][f"activity {number}"] += len(which)
        elif payload == _CALL:
            classes, _ = found.numbers(_CLASS)
            for table in tables:
                of_table = np.isin(classes, table.classes)
                yield from self._table(table, found, np.flatnonzero(of_table), None)
                classes = np.where(of_table, -1, classes)
            self._count_classes(classes[classes != -1])
        else:
            for number, what in schema.read("tables")["not_read"].get(tables[0].name, {}).items():
                if count := int(np.count_nonzero(found.spans(int(number))[1])):
                    self.doubts["report-not-read"][what] += count
            if tables[0].name == "COMPOSITE_EVENTS":
                which = np.flatnonzero(found.spans(*_SAMPLE)[1])
            yield from self._table(tables[0], found, which, None)

    def _count_classes(self, classes: Array) -> None:
        known, not_needed = (
            schema.read("tables")["classes_not_read"],
            schema.read("tables")["not_needed"]["classes"],
        )
        for number, count in Counter(classes.tolist()).items():
            if str(number) in known:
                self.doubts["report-not-read"][known[str(number)]] += count
            elif number not in not_needed:
                self.doubts["report-unknown"][f"class {number}"] += count

    def _table(
        self, table: EventTable, found: _Found, which: Array, inner: _Found | None
    ) -> Iterator[tuple[str, pa.Table]]:
        arrays = {}
        for column in table.columns if len(which) else ():
            array = self._array(column, found, which, inner)
            if array is None:
                continue
            arrays[column.name] = array
            if column.name in table.inferred and (count := pc.sum(pc.not_equal(array, 0)).as_py()):
                self.doubts["report-inferred"][f"{table.name}.{column.name}"] += count
        if table.name == "PROCESSES":
            arrays = _with_names(arrays) if "globalPid" in arrays else {}
        if arrays:
            yield table.name, pa.table(arrays)

    def _array(
        self, column: ColumnFields, found: _Found, which: Array, inner: _Found | None
    ) -> pa.Array | None:
        # None: all are null.
        if column.is_text:
            spans, there = found.spans(column.paths[0][0])
            return texts(found.buffer, spans.take(which), there[which])
        values = there = np.zeros(len(which), bool)
        for path in column.paths:
            more, known = _numbers(path, found, which, inner)
            values, there = np.where(there, values, more), there | known
        if not there.any():
            return None
        if column.names_string:
            self.used.update(np.unique(values[there]).tolist())
        return pa.array(values.astype(np.int64), mask=None if there.all() else ~there)


def _numbers(
    path: FieldPath, found: _Found, which: Array, inner: _Found | None
) -> tuple[Array, Array]:
    if path[0] == 0 and inner is not None:
        return inner.numbers(path[1:])
    values, there = found.numbers(path)
    return values[which], there[which]


def texts(buffer: Buffer, spans: Spans, there: Array) -> pa.Array | None:
    """Return texts of a buffer; what is not UTF-8 has signs that say so. None: there are none."""
    if not there.any():
        return None
    length = np.where(there, spans.end - spans.start, 0)
    offsets = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=offsets[1:])
    place = np.arange(offsets[-1]) + np.repeat(spans.start - offsets[:-1], length)
    data = buffer.bytes[place].tobytes()
    valid = np.packbits(there, bitorder="little").tobytes()
    parts = [pa.py_buffer(part) for part in (valid, offsets.tobytes(), data)]
    array = pa.Array.from_buffers(pa.large_binary(), len(length), parts)
    if data.isascii():
        return array.cast(pa.large_string())
    decoded = [cell and cell.decode("utf-8", "replace") for cell in array.to_pylist()]
    return pa.array(
        [cell if cell is None else str(cell or "") for cell in decoded], pa.large_string()
    )


def _with_names(arrays: dict[str, pa.Array]) -> dict[str, pa.Array]:
    # Of a program only its file's name is taken: what follows are its arguments.
    pid = arrays["globalPid"]
    none = pa.nulls(len(pid), pa.large_string())
    name, program = (arrays.get(word, none) for word in ("name", "program"))
    for pattern in (" .*", "^.*/"):
        program = pc.replace_substring_regex(program, f"(?s){pattern}", "")
    name = pc.coalesce(name, program)
    number = pc.bit_wise_and(pc.shift_right(pid, 24), 0xFFFFFF)
    columns = {"globalPid": pid, "pid": number, "name": name}
    return {each: column.filter(pc.is_valid(name)) for each, column in columns.items()}
