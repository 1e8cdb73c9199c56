"""Events of a line, many at once, as columns: names, times, and the stats that are wanted."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from nsysconv.importers.wire import Array, Buffer, Spans, WireError, fields
from nsysconv.importers.xplane.planes import Names, Space, Value, Window
from nsysconv.report import MISSING

_DOUBLE, _TEXT, _REF = 2, 5, 7
_NUMBERS = (3, 4)
# The profiler marks numbers in texts with dollar signs, `$$2`.
_NUMBER_IN_TEXT = re.compile(r"\$*(-?\d{1,18})$")


def distinct(keys: Array) -> tuple[list[int], Array]:
    """Return the distinct numbers among many, MISSING among them, and the place of each in that list."""
    values, inverse = np.unique(keys, return_inverse=True)
    return values.tolist(), inverse


@dataclass(frozen=True)
class Events:
    """Events as columns; null is MISSING.

    `name` is a place among the plane's Names, -1 where the id has none. `stats`: numbers, or places in
    `texts`, by stat. `is_marked`: the event has one of the stats that were asked for as marks.
    """

    byte: Array
    name: Array
    offset_ps: Array
    duration_ps: Array
    is_aggregated: Array
    is_marked: Array
    stats: Mapping[str, Array]
    texts: list[str]

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.name)


class EventDecoder:
    """Decodes the events of one plane.

    `numbers` and `words` are the stats that are wanted, by what their values are taken for; `marks`
    those of which only the presence matters.
    """

    def __init__(
        self, space: Space, names: Names, stat_names: Mapping[int, str],
        numbers: Collection[str], words: Collection[str], marks: Collection[str],
    ) -> None:  # fmt: skip
        """Take the names of the plane."""
        self._space, self._names, self._stat_names = space, names, stat_names
        self._words = frozenset(words)
        self._ids = {
            name: [key for key, text in stat_names.items() if text == name]
            for name in (*numbers, *words)
        }
        ids = [key for key, text in stat_names.items() if text in marks]
        self._marks = np.array(sorted(ids), np.int64)
        self._texts: list[str] = []
        self._numbers_of: dict[str, int] = {}
        # Stats that all events of a name share, by the name's place; the last is of events without one.
        self._shared = {
            name: np.array([*(self._cell(name, each.get(name)) for each in names.stats), MISSING])
            for name in self._ids
            if any(name in each for each in names.stats)
        }

    def decode(self, window: Window) -> Events:
        """Return the events of a window. Raises InputError where one is damaged."""
        buffer, spans, at = window
        try:
            return self._decode(buffer, spans, at)
        except WireError:
            for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True):
                try:
                    for number, value in fields(buffer.data[start:end]):
                        if number == 4 and isinstance(value, memoryview):
                            list(fields(value))
                except WireError:
                    raise self._space.damage(at + start) from None
            raise self._space.damage(at) from None

    def _decode(self, buffer: Buffer, spans: Spans, at: int) -> Events:
        count = len(spans)
        ids, offset, duration = (np.zeros(count, np.int64) for _ in range(3))
        is_aggregated = np.zeros(count, bool)
        owners, starts, ends = [], [], []
        for column in buffer.fields(spans):
            value, number = column.value, column.number
            if isinstance(value, Spans):
                if number == 4:
                    owners.append(column.which)
                    starts.append(value.start)
                    ends.append(value.end)
            elif number == 1:
                ids[column.which] = value
            elif number == 2:
                offset[column.which] = value
            elif number == 3:
                duration[column.which] = value
            elif number == 5:
                is_aggregated[column.which] = True
        name = self._names.places(ids)
        stats = {key: shared[name] for key, shared in self._shared.items()}
        stats |= {key: np.full(count, MISSING) for key in self._ids if key not in stats}
        is_marked = np.zeros(count, bool)
        if owners:
            stat_spans = Spans(np.concatenate(starts), np.concatenate(ends))
            self._add_stats(buffer, np.concatenate(owners), stat_spans, stats, is_marked)
        return Events(
            spans.start + at, name, offset, duration, is_aggregated, is_marked, stats, self._texts
        )

    def _add_stats(
        self, buffer: Buffer, owner: Array, spans: Spans, stats: dict[str, Array], is_marked: Array
    ) -> None:
        ids, kind, value, end = (np.zeros(len(spans), np.int64) for _ in range(4))
        for column in buffer.fields(spans):
            which, found = column.which, column.value
            if isinstance(found, Spans):
                is_whole = column.number != _DOUBLE or found.end - found.start == 8
                kind[which] = np.where(is_whole, column.number * (column.number in (2, 5)), 0)
                value[which], end[which] = found.start, found.end
            elif column.number == 1:
                ids[which] = found
            elif column.number in (*_NUMBERS, _REF):
                kind[which], value[which] = column.number, found
        is_marked[owner[np.isin(ids, self._marks)]] = True
        for name, own in self._ids.items():
            which = np.flatnonzero(np.isin(ids, own) & (kind != 0))
            if len(which):
                cells = self._cells(buffer, name, kind[which], value[which], end[which])
                stats[name][owner[which]] = cells

    def _cells(self, buffer: Buffer, name: str, kind: Array, value: Array, end: Array) -> Array:
        # Values of one stat: a text may be there itself or by reference, a number as a real.
        if name in self._words:
            cells = np.full(len(kind), MISSING)
        else:
            cells = np.where(np.isin(kind, _NUMBERS), value, MISSING)
        for place in np.flatnonzero(kind == _TEXT).tolist():
            text = buffer.data[value[place] : end[place]].decode("utf-8", "replace")
            cells[place] = self._cell(name, text)
        refs = np.flatnonzero(kind == _REF)
        keys, inverse = distinct(value[refs])
        texts = [self._cell(name, self._stat_names.get(ref)) for ref in keys]
        cells[refs] = np.array(texts, np.int64)[inverse]
        reals = np.flatnonzero(kind == _DOUBLE)
        if len(reals) and name not in self._words:
            data = np.frombuffer(buffer.data, np.uint8)
            real = data[value[reals, None] + np.arange(8)].copy().view("<f8")[:, 0]
            is_number = np.abs(real) < 1 << 53  # nor NaN
            cells[reals] = np.where(is_number, np.rint(np.where(is_number, real, 0)), MISSING)
        return cells

    def _cell(self, name: str, value: Value) -> int:
        if name in self._words:
            if not isinstance(value, str):
                return MISSING
            number = self._numbers_of.setdefault(value, len(self._texts))
            if number == len(self._texts):
                self._texts.append(value)
            return number
        if isinstance(value, str):
            match = _NUMBER_IN_TEXT.match(value)
            return int(match[1]) if match else MISSING
        return round(value) if value is not None and abs(value) < 1 << 63 else MISSING  # nor NaN
