"""Tables of totals and of counters: summaries by name, totals of unified memory, metrics and events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers.nvprof_log.survey import (
    API,
    DEVICE,
    GPU,
    KERNEL,
    NvprofTable,
    PrintedTable,
    spelled,
)
from nsysconv.importers.printed.quantities import (
    GPU_TOTALS,
    Measured,
    PrintedTotals,
    ValueRange,
    shares_incomplete,
    totals_fact,
)
from nsysconv.importers.printed.registry import (
    IdRegistry,
    Row,
    api_layer,
    is_api_name,
    memory_operation,
)
from nsysconv.importers.printed.text import csv_cells, parse_digits, unreadable_notes
from nsysconv.notes import Note, Severity

Cells = Mapping[str, str]

_GAP = re.compile(r"\s{2,}")


def _cells(text: str, table: PrintedTable, splits: int = 0) -> dict[str, str] | None:
    # None for a line without the header's columns. `splits`: how often a text is split; 0 for no limit.
    delimiter, columns = table.header.delimiter, table.header.columns
    if delimiter:
        cells = table.header.with_whole_name(csv_cells(text, delimiter))
    else:
        cells = _GAP.split(text.strip(), splits)
    if len(cells) != len(columns):
        return None
    return dict(zip(columns, (cell.strip() for cell in cells), strict=True))


# -- totals

# A line of text: type, share, total, calls, average, least, most, name.
_VALUE = r"(\S+)"
_LINE = re.compile(
    rf"\s*(?:([A-Za-z][A-Za-z() ]*):)?\s*([0-9][0-9.,eE+-]*)%\s+{_VALUE}\s+(\d+)\s+{_VALUE}\s+{_VALUE}"
    rf"\s+{_VALUE}\s+(\S.*?)\s*$"
)
_LINE_COLUMNS = ("Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")
# What does not read as a row, and begins like one.
_LIKE_A_ROW = re.compile(r"\s*(?:[A-Za-z() ]+:)?\s*[0-9.,]+%\s+[0-9]")
_CONSTRUCTS = {
    "OpenACC (excl)": "openacc_exclusive",
    "OpenACC (incl)": "openacc_inclusive",
    "OpenMP (incl)": "openmp_inclusive",
}
_MIGRATIONS = {"Host To Device": "HtoD", "Device To Host": "DtoH", "Device To Device": "DtoD"}


@dataclass
class Totals(PrintedTotals):
    """Collect rows of `aggregate` from the summaries of one recording."""

    _unknown_types: Counter[str] = field(default_factory=Counter)
    _gpu_rows_unread: bool = False

    def add_summary(self, table: PrintedTable) -> None:
        """Add a summary's rows."""
        section = table.section
        shares: dict[str, list[ValueRange | None]] = {}
        for line, cells in self._summary_cells(table):
            section = cells.get("Type", "") or section
            name, count = cells.get("Name", ""), parse_digits(cells.get("Calls", ""))
            total = spelled(cells.get("Time", ""))
            if not name or count is None or total is None:
                self.unread.append(line)
                self._gpu_rows_unread |= section != API
                continue
            if operation := self._operation(section, name):
                kind, columns = operation
                self._put(kind, columns | self._times(kind, cells, count, total), table)
            else:
                self._unknown_types[section] += 1
            shares.setdefault(section, []).append(spelled(cells.get("Time(%)", ""), "%"))
        self.incomplete += [
            table.line for of_section in shares.values() if shares_incomplete(of_section)
        ]

    def known_facts(self) -> set[Fact]:
        """Return what the tables record: where rows were not read, a kind without rows is not known."""
        return self.facts - (GPU_TOTALS - self.times.keys() if self._gpu_rows_unread else set())

    def _summary_cells(self, table: PrintedTable) -> Iterator[tuple[int, Cells]]:
        # Without cells: a line that looks like a row and cannot be read.
        columns = table.header.columns
        for line, text in table.lines:
            if table.header.delimiter:
                cells = _cells(text, table)
                if cells is None:
                    yield line, {}
                    continue
                # A cell's own unit goes before its column's.
                bare = {name: cell for name, cell in cells.items() if _is_bare(cell)}
                units = {name: cell + table.units.get(name, "") for name, cell in bare.items()}
                yield line, cells | units
            elif match := _LINE.match(text):
                groups = (cell or "" for cell in match.groups())
                yield line, dict(zip(_LINE_COLUMNS, groups, strict=True))
            elif text.count("%") and columns[-1] == "Name" and _LIKE_A_ROW.match(text):
                yield line, {}

    def _operation(self, section: str, name: str) -> tuple[str, Row] | None:
        # Kind of aggregate and what names the operation; None for a section that is not known.
        if section in _CONSTRUCTS:
            return _CONSTRUCTS[section], {"name_id": self.ids.name(name)}
        if section == "Range":
            return "range", {"name_id": self.ids.name(name)}
        if section == API or (not section and is_api_name(name)):
            return "api_call", {"layer": api_layer(name), "name_id": self.ids.api_name(name)}
        if section not in (GPU, ""):
            return None
        if (operation := memory_operation(name)) is None:
            return "kernel", {"name_id": self.ids.kernel(name)[0]}
        kind, word = operation
        is_known = word in codes.DIRECTIONS
        return kind, {"direction": codes.DIRECTIONS.index(word) if is_known else 0} if word else {}

    def _times(self, kind: str, cells: Cells, count: int, total: ValueRange) -> Row:
        measures = {"total": total, **_measures(cells, "")}
        if average := measures.get("avg"):
            # Before nvprof spells an average, it cuts off its fraction of a ns.
            measures["avg"] = ValueRange(average.low, average.high + 1)
        return self.times_of(kind, Measured(count, measures))

    def _put(self, kind: str, columns: Row, table: PrintedTable) -> None:
        fact = totals_fact(kind)
        self.facts |= GPU_TOTALS if fact in GPU_TOTALS else {fact}
        row = {**columns, "pid": self.ids.pid, "range_name_id": None}
        if (scope := table.scope) is not None:
            row["tid"] = scope.tid
            if scope.tid is not None and self.ids.pid is not None:
                self.ids.thread(self.ids.pid, scope.tid)
            if scope.domain is not None:
                row["domain_id"] = self.ids.domain(scope.domain)
            if kind != "range" and scope.range is not None:
                row["range_name_id"] = self.ids.name(scope.range)
        if table.device is not None:
            row["device_id"] = self.ids.device(table.device)
        self.put(kind, row)

    def add_unified_memory(self, table: PrintedTable) -> int:
        """Add rows of totals of unified memory; return how many rows are no migrations."""
        kind, others, device = "unified_memory", 0, table.device
        for line, text in table.lines:
            cells = _cells(text, table, len(table.header.columns) - 1)
            if cells is None:
                self.unread.append(line)
                continue
            device = cells.get("Device") or device
            name = cells.get("Name") or cells.get("", "")
            if name not in _MIGRATIONS:
                others += 1
                continue
            count, total = parse_digits(cells["Count"]), spelled(cells["Total Size"])
            if count is None or total is None:
                self.unread.append(line)
                continue
            time = cells.get("Total Time", "")
            # Without a unit, a number of time could be anything.
            total_ns = None if _is_bare(time) else spelled(time)
            times = Measured(count, {} if total_ns is None else {"total": total_ns})
            sizes = Measured(count, {"total": total, **_measures(cells, " Size")})
            row = {
                "pid": self.ids.pid,
                "device_id": None if device is None else self.ids.device(device),
                "direction": codes.DIRECTIONS.index(_MIGRATIONS[name]),
                **self.times_of(kind, times),
                **self.sizes_of(kind, sizes),
            }
            self.put(kind, row)
        self.facts.add(Fact.UNIFIED_MEMORY_TOTALS)
        return others

    def notes(self) -> Iterator[Note]:
        """Yield what was rounded or left out."""
        yield from self.rounding_notes("migrated bytes")
        for kind, count in self._unknown_types.items():
            text = f"totals of the unknown type {kind!r} were left out"
            yield Note("category-unknown", Severity.DROPPED, text, count)
        yield from self.incomplete_notes()
        yield from unreadable_notes(self.unread)


def _measures(cells: Cells, words: str) -> dict[str, ValueRange]:
    names = {role: f"{role.title()}{words}" for role in ("avg", "min", "max")}
    values = {role: spelled(cells.get(name, "")) for role, name in names.items()}
    return {role: value for role, value in values.items() if value is not None}


def _is_bare(cell: str) -> bool:
    # A number without a unit.
    return cell.strip()[-1:].isdigit() and spelled(cell) is not None


# -- metrics and events, which hardware counters measured in kernels

# At the end of a kernel's name is the number that it shares with its launch.
_NUMBERED = re.compile(r"^(.*) \[(\d{1,10})\]$", re.DOTALL)
# How much a part of the device was used: in words, and from 0 to 10.
_LEVEL = re.compile(r"(?:Idle|Low|Mid|High|Max) \((\d{1,2})\)$")
_VALUES = {"value_min": "Min", "value_max": "Max", "value_avg": "Avg", "value_sum": "Total"}
_NUMBER, _PERCENT, _BYTES, _RATE, _LEVELS = (
    codes.METRIC_UNITS.index(word) for word in ("number", "%", "bytes", "bytes/s", "level")
)
_UNITS_BY_END = {"%": _PERCENT, "/s": _RATE, "B": _BYTES}
_METRIC, _EVENT = range(len(codes.METRIC_KINDS))
_LAUNCH_COLUMNS = ("Device", "Context", "Stream", "Kernel", "Correlation_ID")


def split_number(name: str) -> tuple[str, int | None]:
    """Return a name without the ` [n]` at its end, and the n; None if it has none."""
    match = _NUMBERED.match(name)
    return (match.group(1), int(match.group(2))) if match else (name, None)


@dataclass
class Counters:
    """Collect rows of `metric_sample` of one recording; `ids` numbers their names and devices."""

    ids: IdRegistry
    rows: list[Row] = field(default_factory=list)
    _unread: list[int] = field(default_factory=list)
    _overflows: int = 0

    def add(self, table: PrintedTable) -> None:
        """Add a table's rows."""
        if table.header.kind is NvprofTable.COUNTER_TRACE:
            self._add_launches(table)
            return
        kind = _METRIC if "Metric Name" in table.header.columns else _EVENT
        name_column = "Metric Name" if kind == _METRIC else "Event Name"
        for line, cells in _rows_by_kernel(table):
            count = None if cells is None else parse_digits(cells["Invocations"])
            if cells is None or not cells.get(name_column) or count is None:
                self._unread.append(line)
                continue
            values = {name: cells[column] for name, column in _VALUES.items() if column in cells}
            self._put(kind, cells, cells[name_column], count, values)

    def _add_launches(self, table: PrintedTable) -> None:
        # A row per launch, with a column for each metric or event.
        columns, delimiter = table.header.columns, table.header.delimiter
        names = [name for name in columns if name not in _LAUNCH_COLUMNS]
        for line, text in table.lines:
            cells = table.header.with_whole_name(csv_cells(text, delimiter) if delimiter else None)
            if len(cells) != len(columns):
                self._unread.append(line)
                continue
            row = dict(zip(columns, cells, strict=True))
            for name in names:
                if row[name].strip():
                    values = dict.fromkeys(("value_min", "value_max", "value_avg"), row[name])
                    self._put(_METRIC, row, name, 1, values)

    def _put(self, kind: int, cells: Cells, name: str, count: int, texts: Cells) -> None:
        values = {column: self._value(text) for column, text in texts.items()}
        unit = next((unit for unit, value in values.values() if value is not None), _NUMBER)
        kernel, number = split_number(cells.get("Kernel", ""))
        correlation = parse_digits(cells.get("Correlation_ID", "").strip())
        description = cells.get("Metric Description")
        device = cells.get("Device")
        self.rows.append(
            {
                "pid": self.ids.pid,
                "device_id": self.ids.device(device) if device else None,
                "context_id": self._label(cells.get("Context")),
                "stream_id": self._label(cells.get("Stream")),
                "correlation_id": number if correlation is None else correlation,
                "name_id": self.ids.name(name),
                "description_id": self.ids.name(description) if description else None,
                "kernel_name_id": self.ids.kernel(kernel)[0] if kernel else None,
                "kind": kind,
                "unit": unit,
                "execution_count": count,
                **{column: values.get(column, (0, None))[1] for column in _VALUES},
            }
        )

    def _label(self, text: str | None) -> int | None:
        return self.ids.label(text.strip()) if text and text.strip() else None

    def _value(self, text: str) -> tuple[int, float | None]:
        # The code of the unit, and the value in it; None for what is no number.
        text = text.strip()
        level = _LEVEL.match(text)
        if level:
            return _LEVELS, float(level.group(1))
        value = spelled(text)
        if value is None:
            self._overflows += "OVERFLOW" in text.upper()
            return _NUMBER, None
        unit = next((code for end, code in _UNITS_BY_END.items() if text.endswith(end)), _NUMBER)
        return unit, float(value.middle)

    def notes(self) -> Iterator[Note]:
        """Yield what was left out."""
        facts = frozenset({Fact.METRICS})
        yield from unreadable_notes(self._unread, facts)
        if self._overflows:
            text = "values too large for the counters are not recorded"
            yield Note("counter-overflow", Severity.DROPPED, text, self._overflows, "", facts)


def _rows_by_kernel(table: PrintedTable) -> Iterator[tuple[int, Cells | None]]:
    # None for lines that are not rows. Text names device and kernel in lines above the rows.
    above = {"Device": table.device} if table.device else {}
    for line, text in table.lines:
        if device := DEVICE.match(text):
            above = {"Device": device[1]}
        elif kernel := KERNEL.match(text):
            above = {**above, "Kernel": kernel[1]}
        else:
            row = _cells(text, table)
            yield line, None if row is None else {**above, **row}
