"""Tables of totals: by function, kernel, operation and range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers.nsys_stats.figures import FIGURES, FigureCells, Figures
from nsysconv.importers.nsys_stats.gathered import Gathered, memory_operation
from nsysconv.importers.nsys_stats.survey import Block
from nsysconv.importers.nsys_stats.tables import Table
from nsysconv.importers.printed.aggregates import GPU_SUMS, fact_of
from nsysconv.importers.printed.quantity import Quantity, Rounding, falls_short
from nsysconv.importers.printed.registry import is_api, layer

Row = dict[str, Any]
Traced = Mapping[str, Sequence[tuple[Figures, Figures | None]]]
"""What the rows of traces add up to, by kind: times, and sizes where all rows tell one."""

# Of tables that tell the same, the first that is there is read.
_SOURCES: Mapping[str, tuple[Table, ...]] = {
    "api_call": (Table.API, Table.API_AND_GPU),
    "kernel": (Table.KERNELS, Table.KERNELS_BY_GRID, Table.GPU, Table.API_AND_GPU),
    "memory": (Table.MEMORY_TIME, Table.GPU, Table.API_AND_GPU),
}
_CATEGORIES = {"CUDA_API": "api_call", "CUDA_KERNEL": "kernel", "MEMORY_OPER": "memory"}
_ONLY = {
    Table.API: "api_call",
    Table.KERNELS: "kernel",
    Table.KERNELS_BY_GRID: "kernel",
    Table.MEMORY_TIME: "memory",
}
_PUSH_POP, _START_END = (codes.RANGE_KINDS.index(kind) for kind in ("push_pop", "start_end"))
_RANGES = {Table.PUSH_POP: _PUSH_POP, Table.START_END: _START_END}
_STYLES = {"PushPop": _PUSH_POP, "StartEnd": _START_END}
# Tables whose rows have a name and nothing else.
_NAMED = {
    Table.OPENACC: "openacc_inclusive",
    Table.OPENMP: "openmp_inclusive",
    Table.OSRT: "osrt_call",
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

    gathered: Gathered
    rows: list[Row] = field(default_factory=list)
    facts: set[Fact] = field(default_factory=set)
    times: dict[Fact, Rounding] = field(default_factory=dict)
    sizes: dict[Fact, Rounding] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)
    no_numbers: list[int] = field(default_factory=list)
    ambiguous: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    disagreeing: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    cut_facts: set[Fact] = field(default_factory=set)
    repeated: list[Table] = field(default_factory=list)
    _read: dict[int, list[Figures]] = field(default_factory=dict)

    def add(self, blocks: Mapping[Table, Block], traced: Traced) -> None:
        """Adds the rows of a recording's tables, and of its traces what no table tells."""
        used: set[Table] = set()
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
            self.facts |= GPU_SUMS
        whole = [t for t in (Table.GPU, Table.API_AND_GPU) if t in blocks]
        if any(self._tells(blocks[t], t, what) for t in whole for what in ("kernel", "memory")):
            # They hold all of the GPU's work: of what is not in them, there was none.
            self.facts |= GPU_SUMS
        used |= self._others(blocks)
        self.repeated += [table for table in blocks if table not in used | {Table.MEMORY_SIZE}]
        for block in blocks.values():
            self.unread += block.unread

    def _tells(self, block: Block, table: Table, what: str) -> bool:
        """Whether a table may hold this; one of several categories only where it does."""
        if table in _ONLY:
            return True
        place = block.header.place("category")
        return place is not None and any(
            _CATEGORIES.get(row[place]) == what for _, row in block.rows
        )

    def _operations(self, table: Table, what: str, blocks: Mapping[Table, Block]) -> None:
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
            self._memory(found, blocks.get(Table.MEMORY_SIZE))
            return
        self._named(what, found)

    def _traced(self, what: str, rows: Sequence[tuple[Figures, Figures | None]]) -> None:
        """Rows of API calls, of kernels, or of copies and sets, as the rows of a trace add up."""
        if what == "memory":
            for time, size in rows:
                self._operation(time, size)
        else:
            if what == "api_call":
                self.facts.add(Fact.API_TOTALS)
            self._named(what, [time for time, _ in rows])

    def _named(self, what: str, rows: Iterable[Figures]) -> None:
        """Rows of API calls or of kernels."""
        for row in rows:
            numbers: Row
            if what == "api_call":
                code = layer(row.name) if is_api(row.name) else None
                numbers = {"layer": code, "name_id": self.gathered.api_name(row.name)}
            else:
                numbers = {"name_id": self.gathered.kernel(row.name)[0]}
            self._put(what, row, numbers)

    def _memory(self, times: Iterable[Figures], sized: Block | None) -> None:
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

    def _operation(self, time: Figures | None, size: Figures | None) -> None:
        row = time or size
        operation = memory_operation(row.name) if row is not None else None
        if row is None or operation is None:
            self.unread += [] if row is None else [row.line]
            return
        kind, words = operation
        numbers: Row = {"direction": self.gathered.direction(words)} if words else {}
        if size is not None:
            total, rounding = size.total(), self.sizes.setdefault(fact_of(kind), Rounding())
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

    def _others(self, blocks: Mapping[Table, Block]) -> set[Table]:
        """Ranges, constructs, the OS runtime, and sizes without times; the tables that were read."""
        used: set[Table] = set()
        if Table.RANGES in blocks:
            used.add(Table.RANGES)
        else:
            used |= {table for table in _RANGES if table in blocks}
        for table in sorted(used, key=lambda table: table.value):
            self.facts.add(Fact.RANGE_TOTALS)
            for row in self._figures(blocks[table]):
                self._put("range", row, self._range(row, _RANGES.get(table)))
        for table, kind in _NAMED.items():
            if table in blocks:
                used.add(table)
                self.facts.add(fact_of(kind))
                for row in self._figures(blocks[table]):
                    self._put(kind, row, {"name_id": self.gathered.name(row.name)})
        timed = any(row["kind"] in _COPIED for row in self.rows)
        if (
            Table.MEMORY_SIZE in blocks
            and not timed
            and not set(_SOURCES["memory"]) & blocks.keys()
        ):
            self._memory((), blocks[Table.MEMORY_SIZE])
        return used

    def _range(self, row: Figures, kind: int | None) -> Row:
        """Which range a row is about; the domain without a name is spelled by its colon alone.

        Where a named domain ends in a name, and where its text begins, nothing tells.
        """
        text = row.name.removeprefix(":")
        return {
            "name_id": self.gathered.name(text),
            "domain_id": 0 if text != row.name else None,
            "range_kind": _STYLES.get(row.style) if kind is None else kind,
        }

    def _put(self, kind: str, row: Figures, numbers: Row) -> None:
        """One row of totals with its times."""
        rounding = self.times.setdefault(fact_of(kind), Rounding())
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
        self.facts.add(fact_of(kind))
        code = codes.AGGREGATE_KINDS.index(kind)
        self.rows.append({"id": len(self.rows) + 1, "kind": code, **numbers})

    # -- cells

    def _figures(self, block: Block) -> list[Figures]:
        """The rows of a table; those without a name or a number of times are none."""
        if id(block) not in self._read:
            self._read[id(block)] = list(self._rows(block))
        return self._read[id(block)]

    def _rows(self, block: Block) -> Iterator[Figures]:
        cells = FigureCells(block)
        shares: list[Quantity | None] = []
        for line, row in block.rows:
            count = cells.quantity(row, "count")
            name = cells.text(row, "name")
            if not name or count is None or not count.is_exact or count.whole < 0:
                self.unread.append(line)
                continue
            told = {}
            for role in FIGURES:
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
            yield Figures(line, name, category, style, count.whole, told)
        if falls_short(shares):
            self.missing.append(block.line)


_COPIED = {codes.AGGREGATE_KINDS.index(kind) for kind in ("memcpy", "memset", "unified_memory")}
