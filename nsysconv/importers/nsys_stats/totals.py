"""Tables of totals: by function, kernel, operation and range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers.nsys_stats.gathered import Gathered, memory_operation
from nsysconv.importers.nsys_stats.numbers import LARGEST, Holds, Spelling, spelling
from nsysconv.importers.nsys_stats.survey import Block
from nsysconv.importers.nsys_stats.tables import SIZES, TIMES, Table
from nsysconv.importers.printed.aggregates import GPU_SUMS, fact_of
from nsysconv.importers.printed.quantity import Quantity, Rounding, common
from nsysconv.importers.printed.registry import is_api, layer

Row = dict[str, Any]

FIGURES = ("total", "avg", "med", "min", "max", "stddev")
_WHOLE = ("total", "min", "max")
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
_CONSTRUCTS = {Table.OPENACC: "openacc_inclusive", Table.OPENMP: "openmp_inclusive"}
_WHOLE_PCT = 100


@dataclass(frozen=True)
class Figures:
    """One row of a table: how often and how much, as far as its cells tell."""

    line: int
    name: str
    category: str
    style: str
    count: int
    told: Mapping[str, Quantity]

    def total(self) -> Quantity | None:
        """The sum, as exact as sum and mean, and of one also least and greatest, leave it together."""
        of_one = [
            self.told[role] for role in ("min", "max") if self.count == 1 and role in self.told
        ]
        means = [self.told["avg"].times(self.count)] if "avg" in self.told else []
        return common([*([self.told["total"]] if "total" in self.told else []), *means, *of_one])

    def whole(self, role: str) -> int | None:
        """A figure as the integer in the middle of what it may be."""
        return self.told[role].whole if role in self.told else None

    def real(self, role: str) -> float | None:
        """A figure as it is spelled."""
        return (
            float((self.told[role].low + self.told[role].high) / 2) if role in self.told else None
        )


@dataclass
class Totals:
    """Rows of `aggregate` of one recording, and what has to be said of them.

    `unread` are lines that look like rows and are none, `no_numbers` cells that are no numbers, `guessed`
    cells whose decimal sign nothing tells; `missing` the headers' lines of tables whose shares do not
    add up; `disagreeing` lines of sizes whose number of operations is not that of the times; `repeated`
    tables that tell again what another one told.
    """

    gathered: Gathered
    rows: list[Row] = field(default_factory=list)
    facts: set[Fact] = field(default_factory=set)
    times: dict[Fact, Rounding] = field(default_factory=dict)
    sizes: dict[Fact, Rounding] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)
    no_numbers: list[int] = field(default_factory=list)
    guessed: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    disagreeing: list[int] = field(default_factory=list)
    repeated: list[Table] = field(default_factory=list)
    _read: dict[int, list[Figures]] = field(default_factory=dict)

    def add(self, blocks: Mapping[Table, Block]) -> None:
        """Adds the rows of a recording's tables."""
        used: set[Table] = set()
        for what, sources in _SOURCES.items():
            table = next(
                (t for t in sources if t in blocks and self._tells(blocks[t], t, what)), None
            )
            if table is not None:
                used.add(table)
                self._operations(table, what, blocks)
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
        for row in found:
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
            }
        if time is None:
            self._keep(kind, {**numbers, "count": row.count})
        else:
            self._put(kind, time, numbers)

    def _others(self, blocks: Mapping[Table, Block]) -> set[Table]:
        """Ranges, constructs, and sizes without times; the tables that were read."""
        used: set[Table] = set()
        if Table.RANGES in blocks:
            used.add(Table.RANGES)
        else:
            used |= {table for table in _RANGES if table in blocks}
        for table in sorted(used, key=lambda table: table.value):
            self.facts.add(Fact.RANGE_TOTALS)
            for row in self._figures(blocks[table]):
                self._put("range", row, self._range(row, _RANGES.get(table)))
        for table, kind in _CONSTRUCTS.items():
            if table in blocks:
                used.add(table)
                self.facts.add(Fact.DIRECTIVE_TOTALS)
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
        cells = _Cells(block)
        shares: list[Quantity] = []
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
                elif text:
                    self.no_numbers.append(line)
                self.guessed += [line] * cells.is_guess(row, role)
            if share := cells.quantity(row, "share"):
                shares.append(share)
            category, style = (cells.text(row, role) for role in ("category", "style"))
            yield Figures(line, name, category, style, count.whole, told)
        most = sum(share.high for share in shares)
        # No time at all is spelled as shares of 0.
        if any(share.low > 0 for share in shares) and most < _WHOLE_PCT:
            self.missing.append(block.line)


_COPIED = {codes.AGGREGATE_KINDS.index(kind) for kind in ("memcpy", "memset", "unified_memory")}


class _Cells:
    """The cells of one table as quantities in ns, bytes, percent or rows."""

    def __init__(self, block: Block) -> None:
        self._header = block.header
        self._sized = block.header.place("share") is None
        self._place = {column.role: place for place, column in enumerate(block.header.columns)}
        self._unit = block.unit
        found = [(row[i], self._holds(role)) for role, i in self._place.items() if self._is_number(role)
                 for _, row in block.rows]  # fmt: skip
        self._spelling: Spelling = spelling(found)
        self._decimals = self._most_decimals(block)

    def text(self, row: Iterable[str], role: str) -> str:
        """A cell; empty where there is no such column."""
        return list(row)[self._place[role]].strip() if role in self._place else ""

    def quantity(self, row: Iterable[str], role: str) -> Quantity | None:
        """What a cell says; None where it is empty or no number."""
        text = self.text(row, role)
        number = self._spelling.number(text, self._holds(role)) if text else None
        if number is None:
            return None
        if role == "count" or (self._holds(role) is Holds.WHOLE and not number.decimals):
            return Quantity(number.value, number.value)
        found = number.quantity(
            self._scale(role), max(number.decimals, self._decimals.get(role, 0))
        )
        return found if abs(found.high) <= LARGEST else None

    def is_guess(self, row: Iterable[str], role: str) -> bool:
        """Whether nothing tells what the decimal sign of a cell is. CSV and JSON have points."""
        text = self.text(row, role)
        return (
            bool(text)
            and self._header.delimiter == ""
            and self._spelling.is_guess(text, self._holds(role))
        )

    def _is_number(self, role: str) -> bool:
        return role in FIGURES or role in ("count", "share")

    def _holds(self, role: str) -> Holds:
        if role == "count" or (role in _WHOLE and not self._sized and self._scale(role) == 1):
            return Holds.WHOLE
        if role in FIGURES and self._sized:
            return Holds.THOUSANDTHS
        return Holds.ANY

    def _scale(self, role: str) -> int:
        if role in ("share", "count"):
            return 1
        unit = self._header.columns[self._place[role]].unit
        total = self._header.place("total")
        unit = unit or (self._header.columns[total].unit if total is not None else "")
        if self._sized:
            return SIZES.get(unit or self._unit or "KiB", 1)
        return TIMES.get(unit, 1)

    def _most_decimals(self, block: Block) -> dict[str, int]:
        """How many decimals the cells of a column are rounded to: ends that are 0 may not be spelled."""
        most: dict[str, int] = {}
        for role, place in self._place.items():
            if role not in FIGURES or self._holds(role) is Holds.WHOLE:
                continue
            numbers = (
                self._spelling.number(row[place], self._holds(role)) for _, row in block.rows
            )
            own = max((number.decimals for number in numbers if number is not None), default=0)
            if not self._sized:
                most[role] = max(own, 1)
            elif self._unit and self._header.columns[place].unit == "":
                most[role] = 0  # the oldest have as many decimals as fit: each cell its own
            else:
                most[role] = max(own, 3)
        if not self._sized and any(self._scale(role) > 1 for role in most):
            return dict.fromkeys(most, max(most.values()))
        return most
