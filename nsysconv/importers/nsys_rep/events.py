"""Blocks of events as rows of nsys' own tables, by tables.toml; whole columns at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from nsysconv.importers.nsys_rep import schema
from nsysconv.importers.nsys_rep.schema import ColumnFields, FieldPath, Table
from nsysconv.importers.wire import Array, Buffer, Column, Spans, WireError
from nsysconv.report import MISSING, Kind, array_of, numbers

Rows = Iterator[tuple[str, pa.Table]]
"""Rows by table, some at a time, columns named as nsys names them."""

_CALL, _ACTIVITY, _CLASS, _INNER = 108, 107, (6,), 100
_MOST_EVENTS = 1 << 16  # of a block; nsys writes 7,000 at most
# Blocks are joined to so many bytes: most steps on one alone take numpy longer to begin than to do.
_BYTES_AT_ONCE = 1 << 20


class _Found:
    # These are fields of messages, gathered column by column.

    def __init__(self, buffer: Buffer, spans: Spans) -> None:
        self.buffer, self.count = buffer, len(spans)
        self.columns: dict[int, list[Column]] = defaultdict(list)
        for column in buffer.fields(spans):
            self.columns[column.number].append(column)

    def numbers(self, path: FieldPath) -> tuple[Array, Array]:
        # The result has a number per message, which is at this path, and a mask of the messages that
        # have it. Of several numbers the last counts, of several messages around one the first.
        values, there = np.zeros(self.count, np.int64), np.zeros(self.count, bool)
        columns = self.columns.get(path[0], [])
        for column in columns if len(path) == 1 else reversed(columns):
            found, which = column.value, column.which
            if isinstance(found, Spans) != (len(path) > 1):
                continue
            if isinstance(found, Spans):
                found, known = _Found(self.buffer, found).numbers(path[1:])
                found, which = found[known], which[known]
            if len(which) == self.count:  # mostly, and then in the order of the messages
                values, there = found, np.ones(self.count, bool)
            else:
                values[which], there[which] = found, True
        return values, there

    def spans(self, number: int) -> tuple[Spans, Array]:
        # The result is as that of `numbers`, for texts and messages. The first of several counts,
        # because a flipped bit may make more of them.
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

    def rows(self, blocks: Iterator[bytes], last: int) -> Rows:
        """Yield the rows of the next blocks by table, in the order of the events; `last` is their count.

        Raises WireError.
        """
        taken, starts, ends, size = [], [], [], 0
        while size < _BYTES_AT_ONCE and self.count < last:
            block = Buffer(next(blocks))
            spans = block.repeated(1)
            if not 0 < len(spans) <= _MOST_EVENTS or int(spans.end[-1]) != block.length:
                raise WireError
            taken.append(block.data)
            starts.append(spans.start + size)
            ends.append(spans.end + size)
            size += len(block.data)
            self.count += len(spans)
        buffer = Buffer(b"".join(taken))
        events = Spans(np.concatenate(starts), np.concatenate(ends))
        found, of = _Found(buffer, events), 0
        for payload in sorted(number for number in found.columns if number >= _INNER):
            spans, there = found.spans(payload)
            which = np.flatnonzero(there)
            of += len(which)
            yield from self._of_payload(buffer, payload, spans.take(which))
        self._count("report-unknown", "events without a payload", len(events) - of)

    def _count(self, slug: str, what: str, count: int) -> None:
        if count:
            self.doubts[slug][what] += count

    def _of_payload(self, buffer: Buffer, payload: int, spans: Spans) -> Rows:
        tables = [table for table in schema.tables("tables").values() if table.payload == payload]
        if not any(table.columns for table in tables):
            self._count("report-unknown", f"payload {payload}", 0 if tables else len(spans))
            return
        found = _Found(buffer, spans)
        classes, _ = found.numbers(_CLASS)
        for table in tables:
            which = np.arange(len(spans))
            if table.inner:
                messages, there = found.spans(table.inner)
                which = np.flatnonzero(there)
            elif table.classes:
                which = np.flatnonzero(np.isin(classes, table.classes, kind="table"))
            if table.not_read:
                self._count("report-not-read", table.not_read, len(which))
            elif table.columns and len(which):
                inner = _Found(buffer, messages.take(which)) if table.inner else found
                if rows := self._columns(table, found, which, inner):
                    yield table.name, pa.table(rows)
        known = [number for table in tables for number in (table.inner, *table.classes)]
        if payload == _ACTIVITY:
            for number in [number for number in found.columns if number >= _INNER]:
                count = 0 if number in known else int(np.count_nonzero(found.spans(number)[1]))
                self._count("report-unknown", f"activity {number}", count)
        elif payload == _CALL:
            for number, count in Counter(
                classes[~np.isin(classes, known, kind="table")].tolist()
            ).items():
                self._count("report-unknown", f"class {number}", count)

    def _columns(
        self, table: Table, found: _Found, which: Array, inner: _Found
    ) -> dict[str, pa.Array]:
        # Columns that are null in all rows are left out.
        made = {}
        for column in table.columns:
            if column.kind == "text":
                spans, there = found.spans(column.paths[0][0])
                array = texts(found.buffer, spans.take(which), there[which])
            else:
                values, there = _numbers(column, found, which, inner)
                there = there & (values != MISSING)  # a store takes it for null
                array = numbers(values, there, "int") if there.any() else None
                if column.names_string:
                    self.used.update(values[there].tolist())
                if column.name in table.inferred.split():
                    count = int(np.count_nonzero(values[there]))
                    self._count("report-inferred", f"{table.name}.{column.name}", count)
            if array is not None:
                made[column.name] = array
        return _with_names(made) if table.name == "PROCESSES" else made


def _numbers(
    column: ColumnFields, found: _Found, which: Array, inner: _Found
) -> tuple[Array, Array]:
    # The result has a number per row, from the first path that the row has, and a mask of the rows that
    # have one.
    values, there = np.zeros(len(which), np.int64), np.zeros(len(which), bool)
    for path in reversed(column.paths):
        if path[0] == 0:
            more, known = inner.numbers(path[1:])
        else:
            more, known = (of[which] for of in found.numbers(path))
        if not known.all():
            more, known = np.where(known, more, values), there | known
        values, there = more, known
    return values, there


def texts(buffer: Buffer, spans: Spans, there: Array) -> pa.Array | None:
    """Return texts of a buffer; what is not UTF-8 has signs that say so. None: there are none."""
    if not there.any():
        return None
    places = zip(spans.start.tolist(), spans.end.tolist(), there.tolist(), strict=True)
    return array_of(
        [buffer.data[a:b].decode("utf-8", "replace") if known else None for a, b, known in places],
        "text",
    )


def _with_names(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    # Only the file name of a program is kept, because its arguments follow.
    rows = []
    for row in pa.table(columns).to_pylist():
        pid, name, program = map(row.get, ("globalPid", "name", "program"))
        if name is None and program is not None:
            name = program.partition(" ")[0].rpartition("/")[2]
        if pid is not None and name is not None:
            rows.append((pid, pid >> 24 & 0xFFFFFF, name))
    kinds: dict[str, Kind] = {"globalPid": "int", "pid": "int", "name": "text"}
    made = {word: array_of(of, kinds[word]) for word, *of in zip(kinds, *rows, strict=True)}
    return made if rows else {}
