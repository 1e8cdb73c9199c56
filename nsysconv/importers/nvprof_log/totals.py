"""Who appears in one recording: beside names and devices the streams, threads and domains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers.nvprof_log.survey import (
    API,
    GPU,
    NvprofTable,
    PrintedTable,
    Within,
    device_of,
    kernel_of,
    spelled,
)
from nsysconv.importers.nvprof_log.trace import without_number
from nsysconv.importers.printed.quantities import (
    GPU_TOTALS,
    RoundedSums,
    ValueRange,
    intersection,
    parse_digits,
    shares_incomplete,
    totals_fact,
)
from nsysconv.importers.printed.registry import IdRegistry, Row, api_layer, is_api_name
from nsysconv.importers.printed.text import csv_cells

_DEFAULT_DOMAIN = "<unnamed>"


class Gathered(IdRegistry):
    """Numbers of one recording, of the process `pid`; None: the log does not say which it is."""

    def __init__(self, pid: int | None, demangled: Callable[[str], str] | None) -> None:
        super().__init__(demangled)
        self.pid = pid
        self.threads: set[int] = set()
        self._streams: dict[tuple[int, int], str | None] = {}
        self._labels: dict[str, int] = {}
        self._domains: dict[str, int] = {_DEFAULT_DOMAIN: 0}

    def label(self, text: str) -> int:
        """The number of a context or a stream; those that the program named count down from -1."""
        number = parse_digits(text)
        return self._labels.setdefault(text, -1 - len(self._labels)) if number is None else number

    def stream(self, context: int, stream: int) -> None:
        """A stream that something ran on."""
        named = {number: text for text, number in self._labels.items()}
        self._streams.setdefault((context, stream), named.get(stream))

    def domain(self, text: str) -> int:
        """The number of a domain of ranges."""
        return self._domains.setdefault(text, len(self._domains))

    # -- rows of the small tables

    def process_rows(self) -> list[Row]:
        """The process. Its name is a command line, which is nobody's business."""
        return [] if self.pid is None else [{"pid": self.pid, "name": None}]

    def thread_rows(self) -> list[Row]:
        """The threads of ranges."""
        return [{"pid": self.pid, "tid": tid} for tid in sorted(self.threads) if self.pid]

    def stream_rows(self) -> list[Row]:
        """The streams that something ran on."""
        return [
            {"pid": self.pid, "context_id": context, "stream_id": stream, "name": name}
            for (context, stream), name in sorted(self._streams.items())
            if self.pid is not None
        ]

    def domain_rows(self) -> list[Row]:
        """The named domains of ranges."""
        return [
            {"pid": self.pid, "domain_id": number, "name": text}
            for text, number in self._domains.items()
            if number and self.pid is not None
        ]


Cells = Mapping[str, str]

# A line of text: type, share, total, calls, average, least, most, name.
_VALUE = r"(\S+)"
_LINE = re.compile(
    rf"\s*(?:([A-Za-z][A-Za-z() ]*):)?\s*([0-9][0-9.,eE+-]*)%\s+{_VALUE}\s+(\d+)\s+{_VALUE}\s+{_VALUE}"
    rf"\s+{_VALUE}\s+(\S.*?)\s*$"
)
_COLUMNS = ("Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")
_GAP = re.compile(r"\s{2,}")
_COPY = re.compile(r"\[CUDA memcpy (\w+)\]$")
_CONSTRUCTS = {
    "OpenACC (excl)": "openacc_exclusive",
    "OpenACC (incl)": "openacc_inclusive",
    "OpenMP (incl)": "openmp_inclusive",
}
_MOVED = {"Host To Device": "HtoD", "Device To Host": "DtoH", "Device To Device": "DtoD"}


@dataclass
class Totals:
    """Rows of `aggregate` of one recording, and what has to be said of them.

    `unread` are lines that look like rows and are none; `missing` the headers' lines of tables whose
    shares do not add up: rows of them are not in the log.
    """

    gathered: Gathered
    rows: list[Row] = field(default_factory=list)
    facts: set[Fact] = field(default_factory=set)
    times: dict[Fact, RoundedSums] = field(default_factory=dict)
    sizes: RoundedSums = field(default_factory=RoundedSums)
    unread: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    unknown_types: Counter[str] = field(default_factory=Counter)

    def summary(self, block: PrintedTable) -> None:
        """Adds a summary's rows."""
        kind, shares = block.section, dict[str, list[ValueRange | None]]()
        for line, cells in self._cells(block):
            kind = cells.get("Type", "") or kind
            row = self._row(kind, cells, block.within)
            if row is None:
                self.unread.append(line)
                continue
            if row:
                self._put(row, block)
            shares.setdefault(kind, []).append(spelled(cells.get("Time(%)", ""), "%"))
        self.missing += [block.line for of_kind in shares.values() if shares_incomplete(of_kind)]

    def _cells(self, block: PrintedTable) -> Iterator[tuple[int, Cells]]:
        header = block.header
        for line, text in block.lines:
            if header.delimiter:
                cells = csv_cells(text, header.delimiter)
                if cells is None or len(cells) != len(header.columns):
                    self.unread.append(line)
                    continue
                units = dict(zip(header.columns, block.units, strict=False))
                # Of each cell the unit of its own comes first, then its column's.
                yield (
                    line,
                    {
                        name: cell.strip() + (units.get(name, "") if _is_bare(cell) else "")
                        for name, cell in zip(header.columns, cells, strict=True)
                    },
                )
            elif match := _LINE.match(text):
                yield (
                    line,
                    dict(zip(_COLUMNS, (cell or "" for cell in match.groups()), strict=True)),
                )
            elif text.count("%") and block.header.columns[-1] == "Name" and _is_row(text):
                self.unread.append(line)

    def _row(self, kind: str, cells: Cells, within: Within | None) -> Row | None:
        """A row of totals; None where the cells are no numbers, empty where its kind is unknown."""
        told = {name: spelled(cells.get(name, "")) for name in ("Time", "Avg", "Min", "Max")}
        name, count = cells.get("Name", ""), parse_digits(cells.get("Calls", ""))
        if not name or count is None or told["Time"] is None:
            return None
        row = self._what(kind, name)
        if row is None:
            self.unknown_types[kind] += 1
            return {}
        fact = totals_fact(str(row["kind"]))
        sums = [told["Time"]] + ([_total(told["Avg"], count)] if told["Avg"] else [])
        if count == 1:
            sums += [each for each in (told["Min"], told["Max"]) if each]
        rounding = self.times.setdefault(fact, RoundedSums())
        total = intersection(sums)
        self.facts |= GPU_TOTALS if fact in GPU_TOTALS else {fact}
        return {
            **row,
            "pid": self.gathered.pid,
            "range_name_id": None,
            "count": count,
            "sum_ns": None if total is None else rounding.add(total),
            "min_ns": told["Min"].whole if told["Min"] else None,
            "max_ns": told["Max"].whole if told["Max"] else None,
            **self._inside(row, within),
        }

    def _what(self, kind: str, name: str) -> Row | None:
        """What a row adds up; None for a kind that is not known."""
        if kind in _CONSTRUCTS:
            return {"kind": _CONSTRUCTS[kind], "name_id": self.gathered.name(name)}
        if kind == "Range":
            return {"kind": "range", "name_id": self.gathered.name(name)}
        if kind == API or (not kind and is_api_name(name)):
            return {
                "kind": "api_call",
                "layer": api_layer(name),
                "name_id": self.gathered.api_name(name),
            }
        if kind not in (GPU, ""):
            return None
        if copy := _COPY.match(name):
            word = copy.group(1)
            known = word in codes.DIRECTIONS
            return {"kind": "memcpy", "direction": codes.DIRECTIONS.index(word) if known else 0}
        if name == "[CUDA memset]":
            return {"kind": "memset"}
        return {"kind": "kernel", "name_id": self.gathered.kernel(name)[0]}

    def _inside(self, row: Row, within: Within | None) -> Row:
        """Where a row is about a range: which."""
        if within is None:
            return {}
        result: Row = {"tid": within.tid}
        if within.tid is not None:
            self.gathered.threads.add(within.tid)
        if within.domain is not None:
            result["domain_id"] = self.gathered.domain(within.domain)
        if row["kind"] != "range" and within.range is not None:
            result["range_name_id"] = self.gathered.name(within.range)
        return result

    def unified_memory(self, block: PrintedTable) -> int:
        """Adds rows of totals of unified memory; gives the number of those that are no migrations."""
        others = 0
        device = block.device
        for line, cells in self._moves(block):
            device = cells.get("Device") or device
            what = cells.get("Name") or cells.get("", "")
            count = parse_digits(cells.get("Count", ""))
            if what not in _MOVED:
                others += 1
                continue
            total = spelled(cells.get("Total Size", ""))
            time = _with_unit(cells.get("Total Time", ""))
            if count is None or total is None:
                self.unread.append(line)
                continue
            average = spelled(cells.get("Avg Size", ""))
            sizes = [total] + ([average.times(count)] if average else [])
            least, most = (spelled(cells.get(name, "")) for name in ("Min Size", "Max Size"))
            whole = intersection(sizes)
            rounding = self.times.setdefault(Fact.UNIFIED_MEMORY_TOTALS, RoundedSums())
            row = {
                "kind": "unified_memory",
                "pid": self.gathered.pid,
                "device_id": None if device is None else self.gathered.device(device),
                "direction": codes.DIRECTIONS.index(_MOVED[what]),
                "count": count,
                "sum_ns": None if time is None else rounding.add(time),
                "bytes_sum": None if whole is None else self.sizes.add(whole),
                "bytes_min": None if least is None else least.whole,
                "bytes_max": None if most is None else most.whole,
            }
            self._put(row, block)
        self.facts.add(Fact.UNIFIED_MEMORY_TOTALS)
        return others

    def _moves(self, block: PrintedTable) -> Iterator[tuple[int, Cells]]:
        header = block.header
        for line, text in block.lines:
            if header.delimiter:
                cells = csv_cells(text, header.delimiter)
            else:
                cells = _GAP.split(text.strip(), len(header.columns) - 1)
            if cells is None or len(cells) != len(header.columns):
                self.unread.append(line)
                continue
            yield line, dict(zip(header.columns, (cell.strip() for cell in cells), strict=True))

    def _put(self, row: Row, block: PrintedTable) -> None:
        if block.device is not None and "device_id" not in row:
            row["device_id"] = self.gathered.device(block.device)
        row["kind"] = codes.AGGREGATE_KINDS.index(row["kind"])
        self.rows.append({"id": len(self.rows) + 1, **row})


def _total(average: ValueRange, count: int) -> ValueRange:
    """What an average says of the sum: before it is spelled, its fraction of a ns is cut off."""
    return ValueRange(average.low, average.high + 1).times(count)


def _with_unit(cell: str) -> ValueRange | None:
    """A time with its unit; None for a number without, of which nobody says what it counts."""
    return None if _is_bare(cell) else spelled(cell)


def _is_bare(cell: str) -> bool:
    """Whether a cell is a number without a unit."""
    return cell.strip()[-1:].isdigit() and spelled(cell) is not None


def _is_row(text: str) -> bool:
    """Whether a line that does not read as a row begins like one."""
    return re.match(r"\s*(?:[A-Za-z() ]+:)?\s*[0-9.,]+%\s+[0-9]", text) is not None


# How much a part of the device was used: in words, and from 0 to 10.
_LEVEL = re.compile(r"(?:Idle|Low|Mid|High|Max) \((\d{1,2})\)$")
_VALUES = {"value_min": "Min", "value_max": "Max", "value_avg": "Avg", "value_sum": "Total"}
_NUMBER, _PERCENT, _BYTES, _RATE, _LEVELS = (
    codes.METRIC_UNITS.index(word) for word in ("number", "%", "bytes", "bytes/s", "level")
)
_METRIC, _EVENT = range(len(codes.METRIC_KINDS))
_OF_LAUNCHES = ("Device", "Context", "Stream", "Kernel", "Correlation_ID")


class Counters:
    """Rows of `metric_sample` of one recording. `unread`: lines that are no rows; `overflows`: values
    that the counters could not hold."""

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self.rows: list[Row] = []
        self.unread: list[int] = []
        self.overflows = 0

    def add(self, block: PrintedTable) -> None:
        """Adds a table's rows."""
        if block.header.table is NvprofTable.COUNTER_TRACE:
            self._of_launches(block)
            return
        kind = _METRIC if "Metric Name" in block.header.columns else _EVENT
        word = "Metric Name" if kind == _METRIC else "Event Name"
        for line, cells in _rows(block):
            count = None if cells is None else parse_digits(cells["Invocations"])
            if cells is None or not cells.get(word) or count is None:
                self.unread.append(line)
                continue
            values = {name: cells[column] for name, column in _VALUES.items() if column in cells}
            self._put(kind, cells, cells[word], count, values)

    def _of_launches(self, block: PrintedTable) -> None:
        """Rows with a column for each metric or event."""
        names = [name for name in block.header.columns if name not in _OF_LAUNCHES]
        for line, text in block.lines:
            cells = csv_cells(text, block.header.delimiter) if block.header.delimiter else None
            if cells is None or len(cells) != len(block.header.columns):
                self.unread.append(line)
                continue
            row = dict(zip(block.header.columns, cells, strict=True))
            for name in names:
                value = row[name]
                if value.strip():
                    values = {"value_min": value, "value_max": value, "value_avg": value}
                    self._put(_METRIC, row, name, 1, values)

    def _put(self, kind: int, cells: Cells, name: str, count: int, spellings: Cells) -> None:
        found = {column: self._value(text) for column, text in spellings.items()}
        unit = next((unit for unit, value in found.values() if value is not None), _NUMBER)
        kernel, number = without_number(cells.get("Kernel", ""))
        told = parse_digits(cells.get("Correlation_ID", "").strip())
        description = cells.get("Metric Description")
        device = cells.get("Device")
        self.rows.append(
            {
                "pid": self._gathered.pid,
                "device_id": self._gathered.device(device) if device else None,
                "context_id": self._label(cells.get("Context")),
                "stream_id": self._label(cells.get("Stream")),
                "correlation_id": number if told is None else told,
                "name_id": self._gathered.name(name),
                "description_id": self._gathered.name(description) if description else None,
                "kernel_name_id": self._gathered.kernel(kernel)[0] if kernel else None,
                "kind": kind,
                "unit": unit,
                "execution_count": count,
                **{column: found.get(column, (0, None))[1] for column in _VALUES},
            }
        )

    def _label(self, text: str | None) -> int | None:
        return self._gathered.label(text.strip()) if text and text.strip() else None

    def _value(self, text: str) -> tuple[int, float | None]:
        """The code of the unit, and the value in it; None for what is no number."""
        text = text.strip()
        level = _LEVEL.match(text)
        if level:
            return _LEVELS, float(level.group(1))
        quantity = spelled(text)
        if quantity is None:
            self.overflows += "OVERFLOW" in text.upper()
            return _NUMBER, None
        value = float(quantity.middle)
        if text.endswith("%"):
            return _PERCENT, value
        if text.endswith("/s"):
            return _RATE, value
        return (_BYTES if text.endswith("B") else _NUMBER), value


def _rows(block: PrintedTable) -> Iterator[tuple[int, Cells | None]]:
    """The rows of a table by kernel, None for lines that are none; text names device and kernel above."""
    header = block.header
    above: dict[str, str] = {}
    if block.device:
        above["Device"] = block.device
    for line, text in block.lines:
        if (device := device_of(text)) is not None:
            above = {"Device": device}
        elif (kernel := kernel_of(text)) is not None:
            above = {**above, "Kernel": kernel}
        else:
            split = _GAP.split(text.strip())
            cells = csv_cells(text, header.delimiter) if header.delimiter else split
            if cells is None or len(cells) != len(header.columns):
                yield line, None
                continue
            row = dict(zip(header.columns, (cell.strip() for cell in cells), strict=True))
            yield line, {**above, **row}
