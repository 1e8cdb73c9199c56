"""Tables of totals: by function, kernel, operation and range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers.nsys_stats.figures import MEASURES, TotalsCells, TotalsRow
from nsysconv.importers.nsys_stats.gathered import NsysIds, memory_operation
from nsysconv.importers.nsys_stats.survey import PrintedTable
from nsysconv.importers.nsys_stats.tables import NsysTable
from nsysconv.importers.printed.quantities import (
    GPU_TOTALS,
    RoundedSums,
    ValueRange,
    shares_incomplete,
    totals_fact,
)
from nsysconv.importers.printed.registry import api_layer, is_api_name

Row = dict[str, Any]
Traced = Mapping[str, Sequence[tuple[TotalsRow, TotalsRow | None]]]
"""What the rows of traces add up to, by kind: times, and sizes where all rows tell one."""

# Of tables that tell the same, the first that is there is read.
_SOURCES: Mapping[str, tuple[NsysTable, ...]] = {
    "api_call": (NsysTable.API, NsysTable.API_AND_GPU),
    "kernel": (NsysTable.KERNELS, NsysTable.KERNELS_BY_GRID, NsysTable.GPU, NsysTable.API_AND_GPU),
    "memory": (NsysTable.MEMORY_TIME, NsysTable.GPU, NsysTable.API_AND_GPU),
}
_CATEGORIES = {"CUDA_API": "api_call", "CUDA_KERNEL": "kernel", "MEMORY_OPER": "memory"}
_ONLY = {
    NsysTable.API: "api_call",
    NsysTable.KERNELS: "kernel",
    NsysTable.KERNELS_BY_GRID: "kernel",
    NsysTable.MEMORY_TIME: "memory",
}
_PUSH_POP, _START_END = (codes.RANGE_KINDS.index(kind) for kind in ("push_pop", "start_end"))
_RANGES = {NsysTable.PUSH_POP: _PUSH_POP, NsysTable.START_END: _START_END}
_STYLES = {"PushPop": _PUSH_POP, "StartEnd": _START_END}
# Tables whose rows have a name and nothing else.
_NAMED = {
    NsysTable.OPENACC: "openacc_inclusive",
    NsysTable.OPENMP: "openmp_inclusive",
    NsysTable.OSRT: "osrt_call",
}

SIZE_TOTALS = frozenset({Fact.MEMORY_TOTALS, Fact.UNIFIED_MEMORY_TOTALS})
"""What tables of sizes tell."""
TOTALS = SIZE_TOTALS | {
    Fact.KERNEL_TOTALS,
    Fact.API_TOTALS,
    Fact.RANGE_TOTALS,
    Fact.DIRECTIVE_TOTALS,
    Fact.OSRT_TOTALS,
}
"""What tables of totals tell."""


@dataclass
class Totals:
    """Rows of `aggregate` of one recording, and what has to be said of them.

    `unread` are lines that look like rows and are none, `no_numbers` cells that are no numbers,
    `ambiguous` cells that nothing tells how to read; `missing` the headers' lines of tables whose shares
    do not add up; `disagreeing` lines of sizes whose number of operations is not that of the times;
    `cut` lines of cells whose decimals were cut, `cut_facts` what they tell; `repeated` tables that tell
    again what another one told.
    """

    gathered: NsysIds
    rows: list[Row] = field(default_factory=list)
    facts: set[Fact] = field(default_factory=set)
    times: dict[Fact, RoundedSums] = field(default_factory=dict)
    sizes: dict[Fact, RoundedSums] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)
    no_numbers: list[int] = field(default_factory=list)
    ambiguous: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    disagreeing: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    cut_facts: set[Fact] = field(default_factory=set)
    repeated: list[NsysTable] = field(default_factory=list)
    _read: dict[int, list[TotalsRow]] = field(default_factory=dict)

    def add(self, blocks: Mapping[NsysTable, PrintedTable], traced: Traced) -> None:
        """Adds the rows of a recording's tables, and of its traces what no table tells."""
        used: set[NsysTable] = set()
        for what, sources in _SOURCES.items():
            table = next(
                (t for t in sources if t in blocks and self._tells(blocks[t], t, what)), None
            )
            if table is not None:
                used.add(table)
                self._operations(table, what, blocks)
            elif what in traced:
                self._traced(what, traced[what])
        if "kernel" in traced:
            self.facts |= GPU_TOTALS
        whole = [t for t in (NsysTable.GPU, NsysTable.API_AND_GPU) if t in blocks]
        if any(self._tells(blocks[t], t, what) for t in whole for what in ("kernel", "memory")):
            # They hold all of the GPU's work: of what is not in them, there was none.
            self.facts |= GPU_TOTALS
        used |= self._others(blocks)
        self.repeated += [table for table in blocks if table not in used | {NsysTable.MEMORY_SIZE}]
        for block in blocks.values():
            self.unread += block.unread

    def _tells(self, block: PrintedTable, table: NsysTable, what: str) -> bool:
        """Whether a table may hold this; one of several categories only where it does."""
        if table in _ONLY:
            return True
        place = block.header.place("category")
        return place is not None and any(
            _CATEGORIES.get(row[place]) == what for _, row in block.rows
        )

    def _operations(
        self, table: NsysTable, what: str, blocks: Mapping[NsysTable, PrintedTable]
    ) -> None:
        """Rows of API calls, of kernels, or of copies and sets with their sizes."""
        found = [
            row
            for row in self._figures(blocks[table])
            if table in _ONLY or _CATEGORIES.get(row.category) == what
        ]
        if what == "api_call":
            self.facts.add(Fact.API_TOTALS)
        elif what == "kernel":
            self.facts.add(Fact.KERNEL_TOTALS)
        else:
            self._memory(found, blocks.get(NsysTable.MEMORY_SIZE))
            return
        self._named(what, found)

    def _traced(self, what: str, rows: Sequence[tuple[TotalsRow, TotalsRow | None]]) -> None:
        """Rows of API calls, of kernels, or of copies and sets, as the rows of a trace add up."""
        if what == "memory":
            for time, size in rows:
                self._operation(time, size)
        else:
            if what == "api_call":
                self.facts.add(Fact.API_TOTALS)
            self._named(what, [time for time, _ in rows])

    def _named(self, what: str, rows: Iterable[TotalsRow]) -> None:
        """Rows of API calls or of kernels."""
        for row in rows:
            numbers: Row
            if what == "api_call":
                code = api_layer(row.name) if is_api_name(row.name) else None
                numbers = {"layer": code, "name_id": self.gathered.api_name(row.name)}
            else:
                numbers = {"name_id": self.gathered.kernel(row.name)[0]}
            self._put(what, row, numbers)

    def _memory(self, times: Iterable[TotalsRow], sized: PrintedTable | None) -> None:
        """Rows of copies, sets and migrations: times and sizes of one operation in one."""
        self.facts.add(Fact.MEMORY_TOTALS)
        sizes = {row.name: row for row in self._figures(sized)} if sized is not None else {}
        for row in times:
            size = sizes.pop(row.name, None)
            if size is not None and size.count != row.count:
                self.disagreeing.append(size.line)
                size = None
            self._operation(row, size)
        for size in sizes.values():
            self._operation(None, size)

    def _operation(self, time: TotalsRow | None, size: TotalsRow | None) -> None:
        row = time or size
        operation = memory_operation(row.name) if row is not None else None
        if row is None or operation is None:
            self.unread += [] if row is None else [row.line]
            return
        kind, words = operation
        numbers: Row = {"direction": self.gathered.direction(words)} if words else {}
        if size is not None:
            total, rounding = size.total(), self.sizes.setdefault(totals_fact(kind), RoundedSums())
            numbers |= {
                "bytes_sum": None if total is None else rounding.add(total),
                "bytes_min": size.whole("min"),
                "bytes_max": size.whole("max"),
                "bytes_med": size.real("med"),
                "bytes_stddev": size.real("stddev"),
            }
        if time is None:
            self._keep(kind, {**numbers, "count": row.count})
        else:
            self._put(kind, time, numbers)

    def _others(self, blocks: Mapping[NsysTable, PrintedTable]) -> set[NsysTable]:
        """Ranges, constructs, the OS runtime, and sizes without times; the tables that were read."""
        used: set[NsysTable] = set()
        if NsysTable.RANGES in blocks:
            used.add(NsysTable.RANGES)
        else:
            used |= {table for table in _RANGES if table in blocks}
        for table in sorted(used, key=lambda table: table.value):
            self.facts.add(Fact.RANGE_TOTALS)
            for row in self._figures(blocks[table]):
                self._put("range", row, self._range(row, _RANGES.get(table)))
        for table, kind in _NAMED.items():
            if table in blocks:
                used.add(table)
                self.facts.add(totals_fact(kind))
                for row in self._figures(blocks[table]):
                    self._put(kind, row, {"name_id": self.gathered.name(row.name)})
        timed = any(row["kind"] in _COPIED for row in self.rows)
        if (
            NsysTable.MEMORY_SIZE in blocks
            and not timed
            and not set(_SOURCES["memory"]) & blocks.keys()
        ):
            self._memory((), blocks[NsysTable.MEMORY_SIZE])
        return used

    def _range(self, row: TotalsRow, kind: int | None) -> Row:
        """Which range a row is about; the domain without a name is spelled by its colon alone.

        Where a named domain ends in a name, and where its text begins, nothing tells.
        """
        text = row.name.removeprefix(":")
        return {
            "name_id": self.gathered.name(text),
            "domain_id": 0 if text != row.name else None,
            "range_kind": _STYLES.get(row.style) if kind is None else kind,
        }

    def _put(self, kind: str, row: TotalsRow, numbers: Row) -> None:
        """One row of totals with its times."""
        rounding = self.times.setdefault(totals_fact(kind), RoundedSums())
        total = row.total()
        self._keep(
            kind,
            {
                **numbers,
                "count": row.count,
                "sum_ns": None if total is None else rounding.add(total),
                "min_ns": row.whole("min"),
                "max_ns": row.whole("max"),
                "med_ns": row.real("med"),
                "stddev_ns": row.real("stddev"),
            },
        )

    def _keep(self, kind: str, numbers: Row) -> None:
        self.facts.add(totals_fact(kind))
        code = codes.AGGREGATE_KINDS.index(kind)
        self.rows.append({"id": len(self.rows) + 1, "kind": code, **numbers})

    # -- cells

    def _figures(self, block: PrintedTable) -> list[TotalsRow]:
        """The rows of a table; those without a name or a number of times are none."""
        if id(block) not in self._read:
            self._read[id(block)] = list(self._rows(block))
        return self._read[id(block)]

    def _rows(self, block: PrintedTable) -> Iterator[TotalsRow]:
        cells = TotalsCells(block)
        shares: list[ValueRange | None] = []
        for line, row in block.rows:
            count = cells.quantity(row, "count")
            name = cells.text(row, "name")
            if not name or count is None or not count.is_exact or count.whole < 0:
                self.unread.append(line)
                continue
            told = {}
            for role in MEASURES:
                text = cells.text(row, role)
                value = cells.quantity(row, role)
                if value is not None and value.high >= 0:
                    told[role] = value
                elif cells.is_ambiguous(row, role):
                    self.ambiguous.append(line)
                elif text:
                    self.no_numbers.append(line)
            if cut := cells.cut(row):
                self.cut += [line] * cut
                self.cut_facts |= SIZE_TOTALS if cells.are_sizes else TOTALS
            shares.append(cells.quantity(row, "share"))
            category, style = (cells.text(row, role) for role in ("category", "style"))
            yield TotalsRow(line, name, category, style, count.whole, told)
        if shares_incomplete(shares):
            self.missing.append(block.line)


_COPIED = {codes.AGGREGATE_KINDS.index(kind) for kind in ("memcpy", "memset", "unified_memory")}
