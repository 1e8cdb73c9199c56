"""Who appears in one recording: beside names and devices the streams, threads and processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers.nsys_stats.survey import PrintedTable
from nsysconv.importers.nsys_stats.tables import (
    LARGEST,
    SIZES,
    TIMES,
    CellKind,
    Layout,
    NsysTable,
    NumberFormat,
    SpelledNumber,
    number_format,
)
from nsysconv.importers.printed.quantities import (
    GPU_TOTALS,
    RoundedSums,
    ValueRange,
    intersection,
    shares_incomplete,
    totals_fact,
)
from nsysconv.importers.printed.registry import IdRegistry, Row, api_layer, is_api_name

_MIGRATION = re.compile(r"\[CUDA (?:memcpy Unified|Unified Memory memcpy) (.+)\]$")
_COPY = re.compile(r"\[CUDA memcpy (.+)\]$")
_ENDS = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}
SHORTENED = "\u2026"
"""What stands at the end of a name that was cut."""


class NsysIds(IdRegistry):
    """Numbers of one recording.

    `pids` are the processes that rows name; `shortened` counts names that were cut.
    """

    def __init__(self, demangled: Callable[[str], str] | None) -> None:
        super().__init__(demangled)
        self.unknown_directions = 0
        self.pids: set[int] = set()
        self.shortened: set[str] = set()
        self._streams: set[tuple[int, int]] = set()
        self._threads: dict[tuple[int, int], str | None] = {}

    @property
    def pid(self) -> int | None:
        """The only process that rows name, None for none or several."""
        return next(iter(self.pids)) if len(self.pids) == 1 else None

    def name(self, text: str) -> int:
        """The number of a name."""
        if text.endswith(SHORTENED):
            self.shortened.add(text)
        return super().name(text)

    def kernel(self, text: str) -> tuple[int, int | None]:
        """The numbers of a kernel's name and of its symbol, where the table spells that in full."""
        return (self.name(text), None) if text.endswith(SHORTENED) else super().kernel(text)

    def direction(self, words: str) -> int:
        """The code of codes.DIRECTIONS for `HtoD` or `Host-to-Device`; 0 for what is not known."""
        start, _, end = words.partition("-to-")
        word = f"{_ENDS.get(start, '')}to{_ENDS.get(end, '')}" if end else words
        if word not in codes.DIRECTIONS:
            self.unknown_directions += 1
            return 0
        return codes.DIRECTIONS.index(word)

    def stream(self, context: int, stream: int) -> None:
        """A stream that something ran on."""
        self._streams.add((context, stream))

    def thread(self, pid: int, tid: int, name: str | None) -> None:
        """A thread that called something."""
        self.pids.add(pid)
        self._threads[pid, tid] = name or self._threads.get((pid, tid))

    # -- rows of the small tables

    def process_rows(self) -> list[Row]:
        """The processes."""
        return [{"pid": pid} for pid in sorted(self.pids)]

    def thread_rows(self) -> list[Row]:
        """The threads."""
        return [
            {"pid": pid, "tid": tid, "name": name}
            for (pid, tid), name in sorted(self._threads.items(), key=lambda item: item[0])
        ]

    def stream_rows(self) -> list[Row]:
        """The streams that something ran on."""
        return [
            {"pid": self.pid, "context_id": context, "stream_id": stream}
            for context, stream in sorted(self._streams)
            if self.pid is not None
        ]


def memory_operation(name: str) -> tuple[str, str] | None:
    """The kind of aggregate, and the direction's words, of `[CUDA memcpy HtoD]` and the like."""
    if match := _MIGRATION.match(name):
        return "unified_memory", match.group(1)
    if match := _COPY.match(name):
        return "memcpy", match.group(1)
    return ("memset", "") if name == "[CUDA memset]" else None


MEASURES = ("total", "avg", "med", "min", "max", "stddev")
"""Columns of times or sizes."""
_WHOLE = ("total", "min", "max")
# What is used as it is spelled: no bound is made of it.
_AS_SPELLED = ("med", "stddev", "share", "count")
# By how much a mean with one decimal is rounded at most.
_ROUNDED = Fraction(1, 20)


@dataclass(frozen=True)
class TotalsRow:
    """One row of a table: how often and how much, as far as its cells tell."""

    line: int
    name: str
    category: str
    style: str
    count: int
    told: Mapping[str, ValueRange]

    def total(self) -> ValueRange | None:
        """The sum, as exact as sum and mean, and of one also least and greatest, leave it together."""
        of_one = [
            self.told[role] for role in ("min", "max") if self.count == 1 and role in self.told
        ]
        means = [self.told["avg"].times(self.count)] if "avg" in self.told else []
        return intersection(
            [*([self.told["total"]] if "total" in self.told else []), *means, *of_one]
        )

    def whole(self, role: str) -> int | None:
        """A figure as the integer in the middle of what it may be."""
        return self.told[role].whole if role in self.told else None

    def real(self, role: str) -> float | None:
        """A figure as it is spelled."""
        return float(self.told[role].middle) if role in self.told else None


class TotalsCells:
    """The cells of one table as quantities in ns, bytes, percent or rows."""

    def __init__(self, block: PrintedTable) -> None:
        self._header = block.header
        self.are_sizes = block.header.place("share") is None
        self._place = {column.role: place for place, column in enumerate(block.header.columns)}
        self._unit = block.unit
        found = [(row[i], self._holds(role)) for role, i in self._place.items() if self._is_number(role)
                 for _, row in block.rows]  # fmt: skip
        # nsys writes points there, whatever the locale.
        has_points = block.header.form in (Layout.DELIMITED, Layout.JSON)
        self._spelling: NumberFormat = number_format(found, has_points=has_points)
        self._decimals = self._most_decimals(block)
        self._is_cut = self._spelling.has_commas and self._tells_cut(block)

    def text(self, row: Sequence[str], role: str) -> str:
        """A cell; empty where there is no such column."""
        return row[self._place[role]].strip() if role in self._place else ""

    def quantity(self, row: Sequence[str], role: str) -> ValueRange | None:
        """What a cell says; None where it is empty or no number."""
        number = self._number(row, role)
        if number is None:
            return None
        if role == "count" or (self._holds(role) is CellKind.WHOLE and not number.decimals):
            return ValueRange(number.value, number.value)
        if self._is_cut and number.decimals and role not in _AS_SPELLED:
            found = number.cut(self._scale(role))
            return found if abs(found.high) <= LARGEST else None
        found = number.quantity(
            self._scale(role), max(number.decimals, self._decimals.get(role, 0))
        )
        return found if abs(found.high) <= LARGEST else None

    def is_ambiguous(self, row: Sequence[str], role: str) -> bool:
        """Whether a cell could be several numbers, and nothing tells which."""
        text = self.text(row, role)
        return bool(text) and self._spelling.is_ambiguous(text, self._holds(role))

    def cut(self, row: Sequence[str]) -> int:
        """How many cells of a row that are kept were cut; a mean tells nothing beside its exact sum."""
        if not self._is_cut:
            return 0
        found = {role: self._number(row, role) for role in MEASURES}
        total, count = found["total"], self._number(row, "count")
        needless = set()
        if total is not None and not total.decimals:
            needless.add("avg")
        if count is not None and count.value == 1:
            needless.add("stddev")
        return sum(
            number is not None and number.decimals > 0 and role not in needless
            for role, number in found.items()
        )

    def _tells_cut(self, block: PrintedTable) -> bool:
        """Whether decimals are cut: all of them are 0, and nsys is old or a mean is less than it is.

        Releases with medians print all decimals, as far as is known.
        """
        decimals = [number for _, row in block.rows for role in (*MEASURES, "share")
                    if (number := self._number(row, role)) is not None and number.decimals]  # fmt: skip
        if not decimals or any(number.value.denominator > 1 for number in decimals):
            return False
        return "med" not in self._place or any(self._falls_short(row) for _, row in block.rows)

    def _falls_short(self, row: Sequence[str]) -> bool:
        """Whether a mean is less than the sum tells by more than rounding, and by less than 1."""
        total, mean, count = (self._number(row, role) for role in ("total", "avg", "count"))
        if total is None or mean is None or count is None or count.value <= 0 or not mean.decimals:
            return False
        return _ROUNDED < total.value / count.value - mean.value < 1

    def _number(self, row: Sequence[str], role: str) -> SpelledNumber | None:
        """The number of a cell as it is spelled; None where there is none."""
        text = self.text(row, role)
        return self._spelling.number(text, self._holds(role)) if text else None

    def _is_number(self, role: str) -> bool:
        return role in MEASURES or role in ("count", "share")

    def _holds(self, role: str) -> CellKind:
        if role == "count" or (role in _WHOLE and not self.are_sizes and self._scale(role) == 1):
            return CellKind.WHOLE
        if role in MEASURES and self.are_sizes:
            return CellKind.THOUSANDTHS
        return CellKind.ANY

    def _scale(self, role: str) -> int:
        if role in ("share", "count"):
            return 1
        unit = self._header.columns[self._place[role]].unit
        total = self._header.place("total")
        unit = unit or (self._header.columns[total].unit if total is not None else "")
        if self.are_sizes:
            return SIZES.get(unit or self._unit or "KiB", 1)
        return TIMES.get(unit, 1)

    def _most_decimals(self, block: PrintedTable) -> dict[str, int]:
        """How many decimals the cells of a column are rounded to: ends that are 0 may not be spelled."""
        most: dict[str, int] = {}
        for role, place in self._place.items():
            if role not in MEASURES or self._holds(role) is CellKind.WHOLE:
                continue
            numbers = (
                self._spelling.number(row[place], self._holds(role)) for _, row in block.rows
            )
            own = max((number.decimals for number in numbers if number is not None), default=0)
            if not self.are_sizes:
                most[role] = max(own, 1)
            elif self._unit and self._header.columns[place].unit == "":
                most[role] = 0  # the oldest have as many decimals as fit: each cell its own
            else:
                most[role] = max(own, 3)
        if not self.are_sizes and any(self._scale(role) > 1 for role in most):
            return dict.fromkeys(most, max(most.values()))
        return most


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
