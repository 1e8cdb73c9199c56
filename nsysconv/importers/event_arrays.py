"""Events of small importers as arrays: cells, rows of a SQLite source in batches, places in time.

For sources whose rows become several of our tables, or are not in SQLite. `sqlite_mapping` is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

import numpy as np

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.importers.probe import Probe, quoted
from nsysconv.importers.sqlite_columns import (
    TIME_LIMIT,
    as_whole_number,
    has_columns,
    in_lists,
    row_count,
)
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.store.recording import ArrayRows

Array = np.ndarray
Row = Sequence[Any] | Array

_SECOND = 1_000_000_000
_SAMPLES = (1, 2, 3)
# So that no difference of two times is beyond 64 bits.
_LARGEST = 1 << 61


# -- cells


def whole_numbers(cells: Row) -> tuple[Array, Array]:
    """Return cells as whole numbers, null and others as MISSING, and which hold something else."""
    if isinstance(cells, np.ndarray):
        return cells, np.zeros(len(cells), bool)
    if set(map(type, cells)) <= {int, type(None)}:  # all but damaged ones
        found = [MISSING if cell is None else cell for cell in cells]
        return np.array(found, np.int64), np.zeros(len(found), bool)
    values: list[int] = []
    odd: list[int] = []
    for place, cell in enumerate(cells):
        number = cell if type(cell) is int else None if cell is None else as_whole_number(cell)
        values.append(MISSING if number is None else number)
        if number is None and cell is not None:
            odd.append(place)
    is_odd = np.zeros(len(values), bool)
    is_odd[odd] = True
    return np.array(values, np.int64), is_odd


def numbers(cells: Row) -> Array:
    """Return cells as whole numbers, all others as MISSING."""
    return whole_numbers(cells)[0]


def without(values: Array, *unwanted: int) -> Array:
    """Return numbers with MISSING in place of these."""
    return np.where(np.isin(values, unwanted), MISSING, values)


def coalesced(values: Array, *others: Array | int) -> Array:
    """Return numbers, with the first of the others that is known in place of MISSING."""
    for other in others:
        values = np.where(values == MISSING, other, values)
    return values


def above_zero(values: Array) -> Array:
    """Return numbers with MISSING in place of 0 and negative ones."""
    return np.where(values > 0, values, MISSING)


# -- SQL


def column_sql(probe: Probe, table: str, name: str, alias: str) -> str:
    """Return a column as SQL text, or NULL where the file lacks it."""
    return f"{alias}.{quoted(name)}" if has_columns(probe, table, name) else "NULL"


def row_id_sql(probe: Probe, table: str, alias: str) -> str:
    """Return the row number of a table as SQL text, or NULL for a table without."""
    row_id = probe.tables[table].row_id
    return f"{alias}.{row_id}" if row_id else "NULL"


def read_rows(
    probe: Probe, table: str, columns: Mapping[str, str], joins: str = ""
) -> Iterator[tuple[Array, dict[str, list[Any]]]]:
    """Yield rows of a table `t` in batches: their numbers, and their cells by our word.

    `columns` are SQL by our word, `joins` what the table is joined with.
    """
    selected = ", ".join([row_id_sql(probe, table, "t"), *columns.values()])
    for rows in in_lists(probe.iterate(f"SELECT {selected} FROM {quoted(table)} t {joins}")):
        row, *cells = map(list, zip(*rows, strict=True))
        yield numbers(row), dict(zip(columns, cells, strict=True))


# -- times


@dataclass(frozen=True)
class ArrayClock:
    """The zero of a source's times, and how long after it the last row ends; None: there are none."""

    zero: int = 0
    recording_ns: int | None = None


def read_clock(probe: Probe, tables: Mapping[str, tuple[str, str]]) -> ArrayClock:
    """Return the clock of a SQLite file, given by table its columns of starts and ends.

    The zero is the last whole second before the first event, so that no event is at it. One damaged
    cell must not move it away from all others: times count that are near the middle of the rows.
    """
    present = {t: c for t, c in tables.items() if has_columns(probe, t, *c)}
    samples: list[int] = []
    for table, (start, _) in present.items():
        count = row_count(probe, table)
        for part in _SAMPLES if count else ():
            place = count * part // (len(_SAMPLES) + 1)
            sql = f"SELECT {quoted(start)} FROM {quoted(table)} LIMIT 1 OFFSET {place}"
            samples += [time for (time,) in probe.select(sql) if type(time) is int and time > 0]
    if not samples:
        return ArrayClock()
    anchor = median_low(samples)
    extremes = [
        probe.select(
            f"SELECT min(CASE WHEN {_near(start, anchor)} THEN {quoted(start)} END), "
            f"max(CASE WHEN {_near(end, anchor)} THEN {quoted(end)} END) FROM {quoted(table)}"
        )[0]
        for table, (start, end) in present.items()
    ]
    times = [anchor, *(time for pair in extremes for time in pair if time is not None)]
    return clock_of(np.array(times, np.int64), anchor)


def _near(column: str, anchor: int) -> str:
    low, high = max(anchor - TIME_LIMIT, 1), anchor + TIME_LIMIT
    name = quoted(column)
    return f"typeof({name}) = 'integer' AND {name} BETWEEN {low} AND {high}"


def clock_of(times: Array, anchor: int | None = None) -> ArrayClock:
    """Return the clock of a file by times of its events, without those too far from `anchor`."""
    times = times[(times > 0) & (times < _LARGEST)]
    if not len(times):
        return ArrayClock()
    if anchor is None:
        anchor = int(np.partition(times, len(times) // 2)[len(times) // 2])
    times = times[(times >= anchor - TIME_LIMIT) & (times <= anchor + TIME_LIMIT)]
    zero = (int(times.min()) - 1) // _SECOND * _SECOND
    return ArrayClock(zero, int(times.max()) - zero)


@dataclass(frozen=True)
class PlacedRows:
    """A batch of rows of `source` placed in time, and which of them a store does not admit, and why."""

    source: str
    row: Array
    """Numbers of the rows in the source."""
    start_ns: Array
    dur_ns: Array
    faults: tuple[tuple[str, str, Array], ...]
    """Slug, words, and the rows."""

    @property
    def sound(self) -> Array:
        """Return which rows a store admits; of the others, no name is kept."""
        result: Array = ~np.logical_or.reduce([faulty for _, _, faulty in self.faults])
        return result


# What is left out: slug, words, source, and the fact, if it is a whole row.
_Key = tuple[str, str, str, Fact | None]


class EventRows:
    """Makes rows of events: those that a store does not admit are left out and counted.

    `where_is` says where in a source the row of a number is.
    """

    def __init__(self, zero: int, where_is: Callable[[str, int], str]) -> None:
        """Start without rows; times count from `zero`."""
        self._zero = zero
        self._where_is = where_is
        self._left_out: dict[_Key, list[int]] = {}

    def place(self, source: str, row: Array, required: Mapping[str, Row]) -> PlacedRows:
        """Return a batch of rows placed in time, given the cells of required columns by their name.

        The first two are starts and ends, which may be null. The others may not, such as a device.
        """
        (start, odd_start), (end, odd_end), *others = map(whole_numbers, required.values())
        odd = [odd_start, odd_end, *(values == MISSING for values, _ in others)]
        timeless = (start == 0) & (end == 0)
        has_start = (start != MISSING) & ~timeless
        has_both = has_start & (end != MISSING)
        low, high = self._zero - TIME_LIMIT, self._zero + TIME_LIMIT
        far = has_start & ((start < low) | (start > high))
        far |= has_both & ((end < low) | (end > high))
        # Times beyond the limits stay out of differences, which could overflow.
        near = has_both & ~far
        dur = np.where(near, end, 0) - np.where(near, start, 0)
        start_ns = np.where(has_start & ~far, start, self._zero) - self._zero
        return PlacedRows(
            source,
            row,
            np.where(has_start, start_ns, MISSING),
            np.where(has_both, dur, MISSING),
            (
                *(
                    ("wrong-type", f"rows whose {name} is not a whole number", bad)
                    for name, bad in zip(required, odd, strict=True)
                ),
                ("negative-duration", "rows that end before they start", has_both & (end < start)),
                (
                    "impossible-time",
                    "rows more than 104 days from the others",
                    far | (dur > TIME_LIMIT),
                ),
            ),
        )

    def cells(self, placed: PlacedRows, name: str, cells: Row) -> Array:
        """Return a column that may lack cells; those that hold something else are counted."""
        values, odd = whole_numbers(cells)
        self._count(
            ("wrong-type", f"cells of {name} without a number", placed.source, None), placed, odd
        )
        return values

    def rows(
        self, table: str, placed: PlacedRows, which: Array, columns: Mapping[str, Array]
    ) -> ArrayRows:
        """Return rows of one of our tables: those of a batch that the mask `which` chooses."""
        fact = schema.EVENT_TABLES[table]
        keep = which.copy()
        for slug, text, faulty in placed.faults:
            self._count((slug, text, placed.source, fact), placed, keep & faulty)
            keep &= ~faulty
        columns = {"start_ns": placed.start_ns, "dur_ns": placed.dur_ns, **columns}
        return ArrayRows(table, {name: values[keep] for name, values in columns.items()})

    def _count(self, key: _Key, placed: PlacedRows, bad: Array) -> None:
        if bad.any():
            tally = self._left_out.setdefault(key, [0, int(placed.row[bad][0])])
            tally[0] += int(bad.sum())

    def notes(self) -> Iterator[Note]:
        """Yield notes that count the rows and cells that were left out, and name the first."""
        for (slug, text, source, fact), (count, first) in self._left_out.items():
            words = f"{source}: {text} were left out" if source else f"{text} were left out"
            where = self._where_is(source, first)
            facts = frozenset() if fact is None else frozenset({fact})
            yield Note(slug, Severity.DROPPED, words, count, where, facts)
