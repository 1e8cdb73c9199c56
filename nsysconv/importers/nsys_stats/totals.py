"""Tables of totals of nsys stats: by function, kernel, operation and range.

Cells become value ranges, as exact as they are printed; rows of several tables that are about the same
operation become one row of `aggregate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers.nsys_stats.survey import PrintedTable
from nsysconv.importers.nsys_stats.tables import (
    LARGEST,
    SIZES,
    TIMES,
    CellKind,
    NsysTable,
    SpelledNumber,
    number_format,
)
from nsysconv.importers.printed import quantities
from nsysconv.importers.printed.registry import (
    IdRegistry,
    Row,
    api_layer,
    is_api_name,
    memory_operation,
)
from nsysconv.importers.printed.text import line_notes, unreadable_notes
from nsysconv.importers.printed.trace import SIZES as SIZED_EVENTS
from nsysconv.notes import Note, Severity

# -- names and words

_ENDS = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}
_ELLIPSIS = "\u2026"


class NsysIds(IdRegistry):
    """Assign the ids of one recording; `shortened` are names that nsys cut and ended in an ellipsis."""

    def __init__(self, demangle: Callable[[str], str] | None) -> None:
        """Start without ids; processes are those that rows name."""
        super().__init__(demangle)
        self.unknown_directions = 0
        self.shortened: set[str] = set()

    def name(self, text: str) -> int:
        """Return the id of a name."""
        if text.endswith(_ELLIPSIS):
            self.shortened.add(text)
        return super().name(text)

    def kernel(self, text: str) -> tuple[int, int | None]:
        """Return the ids of a kernel's name and of its symbol, where the table spells that in full."""
        return (self.name(text), None) if text.endswith(_ELLIPSIS) else super().kernel(text)

    def direction(self, words: str) -> int:
        """Return the code of codes.DIRECTIONS for `HtoD` or `Host-to-Device`; 0 for unknown words."""
        start, _, end = words.partition("-to-")
        word = f"{_ENDS.get(start, '')}to{_ENDS.get(end, '')}" if end else words
        if word not in codes.DIRECTIONS:
            self.unknown_directions += 1
            return 0
        return codes.DIRECTIONS.index(word)

    def notes(self) -> Iterator[Note]:
        """Yield what names and words leave open."""
        kernels = frozenset({Fact.KERNELS, Fact.KERNEL_TOTALS})
        if self.shortened:
            text = (
                "names were cut in the text; those that begin alike are merged; CSV has whole names"
            )
            facts = frozenset({*kernels, Fact.RANGE_TOTALS, Fact.DIRECTIVE_TOTALS})
            yield Note("names-shortened", Severity.INFO, text, len(self.shortened), "", facts)
        if self.symbols_only:
            text = "the tables print kernel symbols, and no demangler is installed"
            facts = kernels
            yield Note("symbols-only", Severity.INFO, text, self.symbols_only, "", facts)
        if self.unknown_directions:
            text = "unknown copy directions are shown as Unknown"
            facts = SIZED_EVENTS | {Fact.MEMORY_TOTALS, Fact.UNIFIED_MEMORY_TOTALS}
            yield Note("unknown-code", Severity.INFO, text, self.unknown_directions, "", facts)


# -- cells

_MEASURES = ("total", "avg", "med", "min", "max", "stddev")
_WHOLE = ("total", "min", "max")
# These numbers are used as they are spelled, without bounds.
_AS_SPELLED = ("med", "stddev", "share", "count")
# Rounding changes a mean with one decimal by this much at most.
_MEAN_ROUNDING = Fraction(1, 20)


@dataclass(frozen=True)
class TotalsRow(quantities.Measured):
    """One row of a table."""

    line: int
    name: str
    category: str = ""
    style: str = ""


TraceSums = Mapping[str, Sequence[tuple[TotalsRow, TotalsRow | None]]]
"""Sums of the rows of traces by group (api_call, kernel, memory): times, and sizes if complete."""


class TotalsCells:
    """Read the cells of one table as value ranges in ns, bytes, percent or rows."""

    def __init__(self, table: PrintedTable) -> None:
        """Learn from all cells of the table how its numbers are spelled."""
        self._header = table.header
        self.are_sizes = table.header.place("share") is None
        self._places = {column.role: place for place, column in enumerate(table.header.columns)}
        self._size_unit = table.unit
        cells = [
            (row[place], self._cell_kind(role))
            for role, place in self._places.items()
            if role in (*_MEASURES, "count", "share")
            for _, row in table.rows
        ]
        self._format = number_format(cells, has_points=table.header.has_points)
        self._decimals = self._most_decimals(table)
        self._is_cut = self._format.has_commas and self._has_cut_decimals(table)

    def text(self, row: Sequence[str], role: str) -> str:
        """Return a cell; empty without such a column."""
        return row[self._places[role]].strip() if role in self._places else ""

    def value(self, row: Sequence[str], role: str) -> quantities.ValueRange | None:
        """Return the value of a cell; None if it is empty, no number, or too large."""
        number = self._number(row, role)
        if number is None:
            return None
        if role == "count" or (self._cell_kind(role) is CellKind.WHOLE and not number.decimals):
            return quantities.ValueRange(number.value, number.value)
        scale = self._scale(role)
        if self._is_cut and number.decimals and role not in _AS_SPELLED:
            value = number.cut(scale)
        else:
            value = number.rounded(scale, max(number.decimals, self._decimals.get(role, 0)))
        return value if abs(value.high) <= LARGEST else None

    def is_ambiguous(self, row: Sequence[str], role: str) -> bool:
        """Return whether a cell could be several numbers, and nothing decides which."""
        text = self.text(row, role)
        return bool(text) and self._format.is_ambiguous(text, self._cell_kind(role))

    def cut_cells(self, row: Sequence[str]) -> int:
        """Return how many cells of a row that matter were cut; a mean beside its exact sum does not."""
        if not self._is_cut:
            return 0
        numbers = {role: self._number(row, role) for role in _MEASURES}
        total, count = numbers["total"], self._number(row, "count")
        needless = set()
        if total is not None and not total.decimals:
            needless.add("avg")
        if count is not None and count.value == 1:
            needless.add("stddev")
        return sum(
            number is not None and number.decimals > 0 and role not in needless
            for role, number in numbers.items()
        )

    def _has_cut_decimals(self, table: PrintedTable) -> bool:
        # All decimals are 0, and nsys is old or a mean is too small. Releases with medians print all
        # decimals, as far as is known.
        numbers = (
            self._number(row, role) for _, row in table.rows for role in (*_MEASURES, "share")
        )
        decimals = [number for number in numbers if number is not None and number.decimals]
        if not decimals or any(number.value.denominator > 1 for number in decimals):
            return False
        return "med" not in self._places or any(self._mean_is_cut(row) for _, row in table.rows)

    def _mean_is_cut(self, row: Sequence[str]) -> bool:
        # It is less than the sum says by more than rounding, and by less than 1.
        total, mean, count = (self._number(row, role) for role in ("total", "avg", "count"))
        if total is None or mean is None or count is None or count.value <= 0 or not mean.decimals:
            return False
        return _MEAN_ROUNDING < total.value / count.value - mean.value < 1

    def _number(self, row: Sequence[str], role: str) -> SpelledNumber | None:
        text = self.text(row, role)
        return self._format.number(text, self._cell_kind(role)) if text else None

    def _cell_kind(self, role: str) -> CellKind:
        if role == "count" or (role in _WHOLE and not self.are_sizes and self._scale(role) == 1):
            return CellKind.WHOLE
        if role in _MEASURES and self.are_sizes:
            return CellKind.THOUSANDTHS
        return CellKind.ANY

    def _scale(self, role: str) -> int:
        if role in ("share", "count"):
            return 1
        unit = self._header.columns[self._places[role]].unit
        total = self._header.place("total")
        unit = unit or (self._header.columns[total].unit if total is not None else "")
        if self.are_sizes:
            return SIZES.get(unit or self._size_unit or "KiB", 1)
        return TIMES.get(unit, 1)

    def _most_decimals(self, table: PrintedTable) -> dict[str, int]:
        # The result is the number of decimals to which each column is rounded. A number may lack its
        # final zeros.
        most: dict[str, int] = {}
        for role, place in self._places.items():
            kind = self._cell_kind(role) if role in _MEASURES else CellKind.WHOLE
            if kind is CellKind.WHOLE:
                continue
            numbers = (self._format.number(row[place], kind) for _, row in table.rows)
            own = max((number.decimals for number in numbers if number is not None), default=0)
            if not self.are_sizes:
                most[role] = max(own, 1)
            elif self._size_unit and self._header.columns[place].unit == "":
                most[role] = 0  # the oldest have as many decimals as fit: each cell its own
            else:
                most[role] = max(own, 3)
        if not self.are_sizes and any(self._scale(role) > 1 for role in most):
            return dict.fromkeys(most, max(most.values()))
        return most


# -- tables

# Several tables may record the same; the first that is present is read.
_SOURCES: Mapping[str, tuple[NsysTable, ...]] = {
    "api_call": (NsysTable.API, NsysTable.API_AND_GPU),
    "kernel": (NsysTable.KERNELS, NsysTable.KERNELS_BY_GRID, NsysTable.GPU, NsysTable.API_AND_GPU),
    "memory": (NsysTable.MEMORY_TIME, NsysTable.GPU, NsysTable.API_AND_GPU),
}
_CATEGORIES = {"CUDA_API": "api_call", "CUDA_KERNEL": "kernel", "MEMORY_OPER": "memory"}
_OF_ONE_GROUP = {t for ts in _SOURCES.values() for t in ts} - {NsysTable.GPU, NsysTable.API_AND_GPU}
_PUSH_POP, _START_END = (codes.RANGE_KINDS.index(kind) for kind in ("push_pop", "start_end"))
_RANGE_TABLES = {NsysTable.PUSH_POP: _PUSH_POP, NsysTable.START_END: _START_END}
_RANGE_STYLES = {"PushPop": _PUSH_POP, "StartEnd": _START_END}
# The rows of these tables have a name and no other key.
_NAMED = {
    NsysTable.OPENACC: "openacc_inclusive",
    NsysTable.OPENMP: "openmp_inclusive",
    NsysTable.OSRT: "osrt_call",
}
_MEMORY_KINDS = {
    codes.AGGREGATE_KINDS.index(kind) for kind in ("memcpy", "memset", "unified_memory")
}
_SIZE_TOTALS = frozenset({Fact.MEMORY_TOTALS, Fact.UNIFIED_MEMORY_TOTALS})
TOTALS = _SIZE_TOTALS | {Fact.KERNEL_TOTALS, Fact.API_TOTALS, Fact.RANGE_TOTALS,
                         Fact.DIRECTIVE_TOTALS, Fact.OSRT_TOTALS}  # fmt: skip
"""Facts that tables of totals record."""
NO_NUMBERS = "non-numeric cells"
AMBIGUOUS = "cells whose separator may mark decimals or thousands were left out"


class Totals(quantities.PrintedTotals):
    """Collect rows of `aggregate` from the tables of one recording.

    By line: `no_numbers`, cells that are not numbers; `ambiguous`, cells that could be two; `cut`, cells
    whose decimals were cut; `disagreeing`, sizes of another number of operations than the times are of.
    `repeated` are tables that were not read because another one holds the same.
    """

    ids: NsysIds

    def __init__(self, ids: NsysIds) -> None:
        """Start without rows."""
        super().__init__(ids)
        self.no_numbers: list[int] = []
        self.ambiguous: list[int] = []
        self.disagreeing: list[int] = []
        self.cut: list[int] = []
        self.repeated: list[NsysTable] = []
        self._cut_facts: set[Fact] = set()
        self._read: dict[int, list[TotalsRow]] = {}

    def add(self, tables: Mapping[NsysTable, PrintedTable], sums: TraceSums) -> None:
        """Add the rows of a recording's tables, and of its traces' sums what no table records."""
        used: set[NsysTable] = set()
        for group, sources in _SOURCES.items():
            kind = next((t for t in sources if t in tables and _holds(tables[t], t, group)), None)
            if kind is not None:
                used.add(kind)
                self._add_table(kind, group, tables)
            elif group in sums:
                self._add_rows(group, sums[group])
                if group == "api_call":
                    self.facts.add(Fact.API_TOTALS)
        if "kernel" in sums:
            self.facts |= quantities.GPU_TOTALS
        whole = [t for t in (NsysTable.GPU, NsysTable.API_AND_GPU) if t in tables]
        if any(_holds(tables[t], t, group) for t in whole for group in ("kernel", "memory")):
            # These tables hold all GPU work, so work that is not in them did not happen.
            self.facts |= quantities.GPU_TOTALS
        used |= self._add_others(tables)
        self.repeated += [kind for kind in tables if kind not in used | {NsysTable.MEMORY_SIZE}]
        for table in tables.values():
            self.unread += table.unread

    def _add_table(
        self, kind: NsysTable, group: str, tables: Mapping[NsysTable, PrintedTable]
    ) -> None:
        rows = [
            row
            for row in self._rows(tables[kind])
            if kind in _OF_ONE_GROUP or _CATEGORIES.get(row.category) == group
        ]
        if group == "memory":
            pairs = self._with_sizes(rows, tables.get(NsysTable.MEMORY_SIZE))
        else:
            self.facts.add(quantities.totals_fact(group))
            pairs = ((row, None) for row in rows)
        self._add_rows(group, pairs)

    def _add_rows(
        self, group: str, rows: Iterable[tuple[TotalsRow | None, TotalsRow | None]]
    ) -> None:
        for times, sizes in rows:
            if group == "memory" or times is None:
                self._add_operation(times, sizes)
            elif group == "api_call":
                name = times.name
                layer = api_layer(name) if is_api_name(name) else None
                self._put_times(group, times, {"layer": layer, "name_id": self.ids.api_name(name)})
            else:
                self._put_times(group, times, {"name_id": self.ids.kernel(times.name)[0]})

    def _with_sizes(
        self, times: Iterable[TotalsRow], size_table: PrintedTable | None
    ) -> Iterator[tuple[TotalsRow | None, TotalsRow | None]]:
        # Times and sizes of one operation become one row.
        self.facts.add(Fact.MEMORY_TOTALS)
        sizes = {row.name: row for row in self._rows(size_table)} if size_table is not None else {}
        for row in times:
            size = sizes.pop(row.name, None)
            if size is not None and size.count != row.count:
                self.disagreeing.append(size.line)
                size = None
            yield row, size
        yield from ((None, size) for size in sizes.values())

    def _add_operation(self, times: TotalsRow | None, sizes: TotalsRow | None) -> None:
        row = times or sizes
        operation = memory_operation(row.name) if row is not None else None
        if row is None or operation is None:
            self.unread += [] if row is None else [row.line]
            return
        kind, words = operation
        values: Row = {"direction": self.ids.direction(words)} if words else {}
        if sizes is not None:
            values |= self.sizes_of(kind, sizes)
        if times is not None:
            values |= self.times_of(kind, times)
        self._put(kind, values)

    def _add_others(self, tables: Mapping[NsysTable, PrintedTable]) -> set[NsysTable]:
        # This reads ranges, constructs, the OS runtime, and sizes without times. The result is the
        # tables that were read.
        used = {NsysTable.RANGES} & tables.keys() or _RANGE_TABLES.keys() & tables.keys()
        for kind in sorted(used, key=lambda kind: kind.value):
            self.facts.add(Fact.RANGE_TOTALS)
            for row in self._rows(tables[kind]):
                self._put_times("range", row, self._range(row, _RANGE_TABLES.get(kind)))
        for kind, aggregate in _NAMED.items():
            if kind in tables:
                used.add(kind)
                self.facts.add(quantities.totals_fact(aggregate))
                for row in self._rows(tables[kind]):
                    self._put_times(aggregate, row, {"name_id": self.ids.name(row.name)})
        has_times = any(row["kind"] in _MEMORY_KINDS for row in self.rows) or bool(
            set(_SOURCES["memory"]) & tables.keys()
        )
        if NsysTable.MEMORY_SIZE in tables and not has_times:
            self._add_rows("memory", self._with_sizes((), tables[NsysTable.MEMORY_SIZE]))
        return used

    def _range(self, row: TotalsRow, kind: int | None) -> Row:
        # The domain without a name is spelled by its colon alone. Where the name of another one ends, and
        # where the range's begins, cannot be seen.
        text = row.name.removeprefix(":")
        return {
            "name_id": self.ids.name(text),
            "domain_id": 0 if text != row.name else None,
            "range_kind": _RANGE_STYLES.get(row.style) if kind is None else kind,
        }

    def _put_times(self, kind: str, row: TotalsRow, values: Row) -> None:
        self._put(kind, values | self.times_of(kind, row))

    def _put(self, kind: str, values: Row) -> None:
        self.facts.add(quantities.totals_fact(kind))
        self.put(kind, values)

    def _rows(self, table: PrintedTable) -> list[TotalsRow]:
        # Tables of several groups are asked for several times; what they lack is counted once.
        if id(table) not in self._read:
            self._read[id(table)] = list(self._parsed(table))
        return self._read[id(table)]

    def _parsed(self, table: PrintedTable) -> Iterator[TotalsRow]:
        cells = TotalsCells(table)
        shares: list[quantities.ValueRange | None] = []
        for line, row in table.rows:
            count = cells.value(row, "count")
            name = cells.text(row, "name")
            if not name or count is None or not count.is_exact or count.integer < 0:
                self.unread.append(line)
                continue
            measures = {}
            for role in _MEASURES:
                value = cells.value(row, role)
                if value is not None and value.high >= 0:
                    measures[role] = value
                elif cells.is_ambiguous(row, role):
                    self.ambiguous.append(line)
                elif cells.text(row, role):
                    self.no_numbers.append(line)
            if cut := cells.cut_cells(row):
                self.cut += [line] * cut
                self._cut_facts |= _SIZE_TOTALS if cells.are_sizes else TOTALS
            shares.append(cells.value(row, "share"))
            category, style = cells.text(row, "category"), cells.text(row, "style")
            yield TotalsRow(count.integer, measures, line, name, category, style)
        if quantities.shares_incomplete(shares):
            self.incomplete.append(table.line)

    def notes(self) -> Iterator[Note]:
        """Yield what was rounded, cut or left out."""
        yield from self.rounding_notes("{}: byte totals")
        cut = (
            "decimals were cut: numbers may be up to one unit larger than printed; "
            "nsys stats -f csv prints them in full"
        )
        cut_facts = frozenset(self._cut_facts)
        yield from line_notes("decimals-cut", Severity.APPROXIMATED, cut, self.cut, cut_facts)
        disagree = "sizes of operations with another count in another table were left out"
        for slug, text, lines in (
            ("cell-unreadable", NO_NUMBERS, self.no_numbers),
            ("tables-disagree", disagree, self.disagreeing),
            ("number-ambiguous", AMBIGUOUS, self.ambiguous),
        ):
            yield from line_notes(slug, Severity.DROPPED, text, lines, TOTALS)
        yield from unreadable_notes(self.unread)
        yield from self.incomplete_notes()
        for kind in self.repeated:
            yield not_read_note(f"{kind.value}, which another table of this file has in full,", 1)
        if self.rows:
            text = "the tables add up all processes and devices of the recording"
            yield Note("processes-merged", Severity.INFO, text, 1, "", TOTALS)


def _holds(table: PrintedTable, kind: NsysTable, group: str) -> bool:
    # A table of one group records that there was nothing even without rows.
    place = table.header.place("category")
    return kind in _OF_ONE_GROUP or (
        place is not None and any(_CATEGORIES.get(row[place]) == group for _, row in table.rows)
    )


def not_read_note(table: str, count: int) -> Note:
    """Return the note on a table that has no place in a store."""
    return Note("rows-not-read", Severity.INFO, f"the table {table} was not read", count)
