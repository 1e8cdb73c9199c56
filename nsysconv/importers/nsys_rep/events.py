"""Blocks of events as rows of nsys' own tables, by tables.toml; whole columns at a time."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from nsysconv.importers.nsys_rep.wire import Array, Buffer, Column, Spans, WireError

CALL, ACTIVITY = 108, 107
_CLASS, _INNER = 6, 100
# Modules that were mapped, which no table of an export has, and calls that mark begin and end of tracing.
_NOT_NEEDED = frozenset({109})
_MARKERS = frozenset({6, 7, 8, 9, 10, 11, 30, 33, 34, 35, 36})
# Calls that exports have in tables of their own.
_KNOWN_CLASSES = {
    77: "creation of graph nodes", 94: "creation of graphs", 95: "creation of graphs",
    102: "compilation of kernels",
}  # fmt: skip
_PROGRAM = "program"  # of PROCESSES: what is taken for a name that is not there

Path_ = tuple[int, ...]
"""A field: of the event's payload `(5,)`, of a message in it `(5, 2)`, of its inner message `(0, 5)`."""


@dataclass(frozen=True)
class ColumnFields:
    """A column: its name, the fields of which the first that is there counts, and what it holds."""

    name: str
    paths: tuple[Path_, ...]
    is_text: bool = False
    names_string: bool = False


@dataclass(frozen=True)
class EventTable:
    """One table of events, as tables.toml describes it."""

    name: str
    payload: int
    inner: int
    classes: tuple[int, ...]
    columns: tuple[ColumnFields, ...]
    known: frozenset[Path_]
    inferred: frozenset[Path_]


def _path(words: str) -> Path_:
    outer, dot, inner = words.partition(".")
    return (int(outer or 0), int(inner)) if dot else (int(outer),)


def _column(words: str) -> ColumnFields:
    name, _, where = words.partition("=")
    paths = tuple(_path(each.rstrip("st")) for each in where.split("/")) if where else ()
    return ColumnFields(name, paths, where.endswith("t"), where.endswith("s"))


@cache
def event_tables() -> Mapping[str, EventTable]:
    """Return the tables of events by name."""
    text = Path(__file__).with_name("tables.toml").read_text(encoding="utf-8")
    tables = {}
    for name, given in tomllib.loads(text).items():
        columns = tuple(map(_column, given["columns"].split()))
        named = {path for column in columns for path in column.paths}
        ignored, inferred = (
            frozenset(map(_path, given.get(key, "").split())) for key in ("ignored", "inferred")
        )
        known = frozenset(named | ignored | {path[:1] for path in named})
        tables[name] = EventTable(
            name, given["payload"], given.get("inner", 0), tuple(given.get("classes", ())),
            columns, known, inferred,
        )  # fmt: skip
    return tables


class _Found:
    # Fields of messages, gathered column by column.

    def __init__(self, buffer: Buffer, spans: Spans) -> None:
        self._buffer, self.count = buffer, len(spans)
        self.columns: dict[int, list[Column]] = {}
        for column in buffer.fields(spans):
            self.columns.setdefault(column.number, []).append(column)

    def numbers(self, path: Path_) -> tuple[Array, Array]:
        # Of each message the number at a path, and whether it is there.
        values, present = np.zeros(self.count, np.int64), np.zeros(self.count, bool)
        for column in self.columns.get(path[0], ()):
            which, value = column.which, column.value
            if len(path) > 1:
                if not isinstance(value, Spans):
                    continue
                inner, there = _Found(self._buffer, value).numbers(path[1:])
                which, value = which[there], inner[there]
            if isinstance(value, Spans):
                continue
            values[which], present[which] = value, True
        return values, present

    def texts(self, path: Path_) -> tuple[Spans, Array]:
        start, end = np.zeros((2, self.count), np.int64)
        present = np.zeros(self.count, bool)
        for column in self.columns.get(path[0], ()):
            if isinstance(column.value, Spans):
                start[column.which], end[column.which] = column.value.start, column.value.end
                present[column.which] = True
        return Spans(start, end), present


class Events:
    """Makes rows of blocks of events, and keeps count of what it does not know."""

    def __init__(self, strings: int) -> None:
        """Begin; `strings`: how many there are."""
        self.count = 0
        self.used = np.zeros(strings, bool)
        """Which strings a row names."""
        self.unknown: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self.inferred: Counter[str] = Counter()
        self.unknown_fields: Counter[str] = Counter()

    def use(self, ids: Array) -> None:
        """Have these strings be named. Raises WireError where there are none of that number."""
        if len(ids) and not (0 <= int(ids.min()) <= int(ids.max()) < len(self.used)):
            raise WireError
        self.used[ids] = True

    def rows(self, block: bytes) -> Iterator[tuple[EventTable, pa.Table]]:
        """Yield the rows of a block by table, in the order of the events. Raises WireError."""
        buffer = Buffer(block)
        events = buffer.repeated(1, 0)
        if not len(events) or int(events.end[-1]) != buffer.length:
            raise WireError
        self.count += len(events)
        of_payload: dict[int, list[tuple[Array, Spans]]] = {}
        for column in buffer.fields(events):
            if column.number >= _INNER and isinstance(column.value, Spans):
                of_payload.setdefault(column.number, []).append((column.which, column.value))
        seen = 0
        for payload, parts in of_payload.items():
            order = np.argsort(np.concatenate([which for which, _ in parts]), kind="stable")
            spans = Spans(
                np.concatenate([each.start for _, each in parts])[order],
                np.concatenate([each.end for _, each in parts])[order],
            )
            seen += len(spans)
            yield from self._of_payload(buffer, payload, spans)
        if seen < len(events):
            self.unknown["events without a payload"] += len(events) - seen

    def _of_payload(
        self, buffer: Buffer, payload: int, spans: Spans
    ) -> Iterator[tuple[EventTable, pa.Table]]:
        tables = [table for table in event_tables().values() if table.payload == payload]
        if not tables:
            if payload not in _NOT_NEEDED:
                self.unknown[f"payload {payload}"] += len(spans)
            return
        found = _Found(buffer, spans)
        if payload == CALL:
            classes, _ = found.numbers((_CLASS,))
            for table in tables:
                which = np.flatnonzero(np.isin(classes, table.classes))
                yield from self._table(table, found, which, None)
            rest = classes[~np.isin(classes, [c for table in tables for c in table.classes])]
            self._count_classes(rest)
            return
        if payload != ACTIVITY:
            yield from self._table(tables[0], found, np.arange(len(spans)), None)
            return
        by_inner = {table.inner: table for table in tables}
        for number in [number for number in found.columns if number >= _INNER]:
            inner, there = found.texts((number,))
            which = np.flatnonzero(there)
            if number not in by_inner:
                self.unknown[f"activity {number}"] += len(which)
                continue
            messages = _Found(buffer, inner.take(which))
            yield from self._table(by_inner[number], found, which, messages)

    def _count_classes(self, classes: Array) -> None:
        numbers, counts = np.unique(classes, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number in _KNOWN_CLASSES:
                self.unread[_KNOWN_CLASSES[number]] += count
            elif number not in _MARKERS:
                self.unknown[f"class {number}"] += count

    def _table(
        self, table: EventTable, found: _Found, which: Array, inner: _Found | None
    ) -> Iterator[tuple[EventTable, pa.Table]]:
        if table.name == "COMPOSITE_EVENTS":
            which = which[found.texts((5,))[1][which]]
        if not len(which):
            return
        self._count_fields(table, found, which, inner)
        names, arrays = [], []
        for column in table.columns:
            array = self._array(column, found, which, inner)
            if array is not None:
                names.append(column.name)
                arrays.append(array)
        rows = pa.Table.from_arrays(arrays, names=names)
        yield table, _with_processes(rows) if table.name == "PROCESSES" else rows

    def _array(
        self, column: ColumnFields, found: _Found, which: Array, inner: _Found | None
    ) -> pa.Array | None:
        # None: all are null.
        if column.is_text:
            spans, there = found.texts(column.paths[0])
            return texts(found._buffer, spans.take(which), there[which])
        values = present = None
        for path in column.paths:
            if path[0] == 0 and inner is not None:
                more, there = inner.numbers(path[1:])
            else:
                more, there = (each[which] for each in found.numbers(path))
            if values is None or present is None:
                values, present = more, there
            else:
                values, present = np.where(present, values, more), present | there
        if values is None or present is None or not present.any():
            return None
        if column.names_string:
            self.use(values if present.all() else values[present])
        return pa.array(values, mask=None if present.all() else ~present)

    def _count_fields(
        self, table: EventTable, found: _Found, which: Array, inner: _Found | None
    ) -> None:
        of_all = len(which) == found.count
        for prefix, part in (((), found), ((0,), inner)):
            for number, columns in part.columns.items() if part is not None else ():
                path = (*prefix, number)
                if (path in table.known and path not in table.inferred) or (
                    not prefix and number >= _INNER
                ):
                    continue
                count = 0
                for each in columns:
                    mine = np.ones(len(each.which), bool)
                    if not (prefix or of_all):
                        mine = np.isin(each.which, which)
                    if path in table.inferred and not isinstance(each.value, Spans):
                        mine &= each.value != 0
                    count += int(np.count_nonzero(mine))
                if count:
                    name = f"{table.name} {'.'.join(map(str, path)).removeprefix('0.')}"
                    (self.inferred if path in table.inferred else self.unknown_fields)[name] += (
                        count
                    )


def texts(buffer: Buffer, spans: Spans, there: Array) -> pa.Array | None:
    """Return texts of a buffer; what is not UTF-8 has signs that say so. None: there are none."""
    if not there.any():
        return None
    length = np.where(there, spans.end - spans.start, 0)
    offsets = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=offsets[1:])
    place = np.arange(offsets[-1]) + np.repeat(spans.start - offsets[:-1], length)
    data = buffer.bytes[place].tobytes()
    valid = pa.py_buffer(np.packbits(there, bitorder="little").tobytes())
    parts = [valid, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.large_string(), len(length), parts)
    if data.isascii():
        return array
    cells = zip(offsets[:-1].tolist(), offsets[1:].tolist(), there.tolist(), strict=True)
    decoded = (
        data[low:high].decode("utf-8", "replace") if known else None for low, high, known in cells
    )
    return pa.array(decoded, pa.large_string())


def _with_processes(rows: pa.Table) -> pa.Table:
    # Of a program only its file's name is taken: what follows are its arguments.
    columns = {name: rows.column(name).to_pylist() for name in rows.column_names}
    names = columns.get("name") or [None] * rows.num_rows
    programs = columns.get(_PROGRAM) or [None] * rows.num_rows
    named = [
        name if name is not None else program and program.split(" ")[0].rpartition("/")[2]
        for name, program in zip(names, programs, strict=True)
    ]
    kept = [i for i, name in enumerate(named) if name is not None]
    pids = [columns["globalPid"][i] for i in kept]
    return pa.table({
        "globalPid": pa.array(pids, pa.int64()),
        "pid": pa.array([pid >> 24 & 0xFFFFFF for pid in pids], pa.int64()),
        "name": pa.array([named[i] for i in kept], pa.large_string()),
    })  # fmt: skip
