"""Survey of a log of nvprof: values and headers as they are spelled, and where the runs' tables are.

A log is read twice. This is the first time: lines are classified, rows of small tables are kept, and of
traces only the places of their rows.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from pathlib import Path

from nsysconv.importers.nsys_stats.survey import count_tables, has_table
from nsysconv.importers.printed.lines import LogLines, RowSpan, add_spans
from nsysconv.importers.printed.quantities import ValueRange
from nsysconv.importers.printed.text import csv_cells

# -- values: a number of few digits, with a unit of its own or of its column
#
# Sizes and rates have binary prefixes: 1 KB is 1024 bytes (docs/formats/nvprof-log.md).

_SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
UNITS: dict[str, int] = {
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "µs": 10**3,
    "ns": 1,
    **_SIZES,
    **{f"{unit}/s": size for unit, size in _SIZES.items()},
    "%": 1,
}
"""Units -> how many ns, bytes, bytes per second or percent one of them is."""

_VALUE = re.compile(r"\s*(-?[0-9][0-9.,]*(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-zµ%/]*)\s*$")
LARGEST = 1 << 62
"""No larger value is a number."""
_GROUP = 3


def spelled(text: str, unit: str = "") -> ValueRange | None:
    """Return a cell's value in its own unit, or its column's; None for no number of a known unit."""
    scaled = _scaled(text, unit)
    if scaled is None:
        return None
    digits, scale, parts = scaled
    low, high = (Fraction((2 * digits + side) * scale, 2 * parts) for side in (-1, 1))
    return ValueRange(low, high)


def measured(text: str, unit: str = "") -> tuple[float, float] | None:
    """Return the middle and the step of the same: traces of a million rows need no fractions."""
    scaled = _scaled(text, unit)
    if scaled is None:
        return None
    digits, scale, parts = scaled
    return digits * scale / parts, scale / parts


def _scaled(text: str, unit: str) -> tuple[int, int, int] | None:
    # Digits, scale and parts: the cell means digits * scale / parts.
    match = _VALUE.match(text)
    if match is None:
        return None
    unit = match.group(2) or unit
    scale = UNITS.get(unit, None if unit else 1)
    number = _digits(match.group(1))
    if scale is None or number is None:
        return None
    digits, exponent = number
    scale, parts = scale * 10 ** max(exponent, 0), 10 ** max(-exponent, 0)
    if max(abs(digits), 1) * scale > LARGEST * parts:
        return None
    return digits, scale, parts


def _digits(text: str) -> tuple[int, int] | None:
    # The result is the digits of a number, and the power of ten of the last of them. If the number has
    # `,` and `.`, the last is the decimal sign, unless it occurs more than once.
    number, _, power = text.lower().partition("e")
    comma, point = number.rfind(","), number.rfind(".")
    sign = "," if comma > point else "."
    if number.count(sign) > 1:
        sign = "." if sign == "," else ","
    grouping = "," if sign == "." else "."
    whole, _, decimals = number.partition(sign)
    _, *groups = whole.split(grouping)
    if grouping in decimals or any(len(group) != _GROUP for group in groups):
        return None
    try:
        return int(whole.replace(grouping, "") + decimals), int(power or 0) - len(decimals)
    except ValueError:  # no digit, or thousands of them
        return None


# -- headers


class NvprofTable(Enum):
    """The kinds of tables; the value is what it holds, for people."""

    SUMMARY = "totals by name"
    GPU_TRACE = "GPU trace"
    API_TRACE = "API trace"
    UNIFIED_MEMORY = "totals of unified memory"
    COUNTERS = "metrics or events by kernel"
    COUNTER_TRACE = "metrics or events by launch"
    CPU_SAMPLES = "samples of the CPU"


TRACES = frozenset({NvprofTable.GPU_TRACE, NvprofTable.API_TRACE})
"""Tables with a row per event, which may be millions."""


@dataclass(frozen=True)
class NvprofHeader:
    """A table's kind and columns; `delimiter` is empty for text in columns."""

    kind: NvprofTable
    columns: tuple[str, ...]
    delimiter: str = ""

    def with_whole_name(self, cells: list[str] | None) -> list[str]:
        """Return the cells of a line of CSV; too many are the name's, whose commas are not quoted."""
        cells = cells or []
        too_many = len(cells) - len(self.columns)
        named = next((i for i, name in enumerate(self.columns) if name in _NAMES), None)
        if too_many <= 0 or named is None or not _BEGINS_NAME.match(cells[named]):
            return cells
        after = named + too_many + 1
        return [*cells[:named], self.delimiter.join(cells[named:after]), *cells[after:]]


# In text some columns have other names than in CSV, or are several in one.
_TEXT_COLUMNS = {
    "Regs*": "Registers Per Thread",
    "SSMem*": "Static SMem",
    "DSMem*": "Dynamic SMem",
}
_DELIMITERS = (",", ";", "\t")
_NAMES = {"Name", "Kernel"}
# Where the cells too many are not the name's, as where numbers have commas, a number is in its place.
_BEGINS_NAME = re.compile(r"\s*[^\W\d]|\s*[\[(<~:]")
_GAP = re.compile(r"\s{2,}")
_ON_GPU = {"Device", "Grid X", "Grid Size", "Size", "Stream"}
# Lines without any of these are not headers.
_HEADER_WORDS = re.compile(r"Start|Time\(%\)|Invocations|Total Size|Context")


def parse_header(line: str) -> NvprofHeader | None:
    """Return the header that a line of CSV or text is, None for other lines."""
    if _HEADER_WORDS.search(line) is None:
        return None
    for delimiter in _DELIMITERS:
        if delimiter in line:
            columns = tuple(cell.strip() for cell in csv_cells(line, delimiter) or ())
            kind = _kind_of(set(columns))
            if kind is not None and len(set(columns)) == len(columns):
                return NvprofHeader(kind, columns, delimiter)
    columns = tuple(_TEXT_COLUMNS.get(word, word) for word in _GAP.split(line.strip()))
    if columns == ("Time(%)", "Time", "Name"):
        return NvprofHeader(NvprofTable.CPU_SAMPLES, columns)
    kind = _kind_of(set(columns)) if len(columns) > 1 else None
    return NvprofHeader(kind, columns) if kind is not None else None


def _kind_of(columns: set[str]) -> NvprofTable | None:
    if columns >= {"Time(%)", "Time", "Calls", "Name"}:
        return NvprofTable.SUMMARY
    if columns >= {"Start", "Duration", "Name"}:
        return NvprofTable.GPU_TRACE if columns & _ON_GPU else NvprofTable.API_TRACE
    if columns >= {"Count", "Total Size", "Total Time"}:
        return NvprofTable.UNIFIED_MEMORY
    if "Invocations" in columns and columns & {"Metric Name", "Event Name"}:
        return NvprofTable.COUNTERS
    if columns >= {"Device", "Context", "Stream", "Kernel"}:
        return NvprofTable.COUNTER_TRACE
    return None


def _parse_units(line: str, header: NvprofHeader) -> dict[str, str]:
    # The line below a header names the units by column, unless it is a row of values.
    row = csv_cells(line, header.delimiter)
    if row is None or len(row) > len(header.columns):
        return {}
    row = [cell.strip() for cell in row]
    if not any(row) or any(cell and cell not in UNITS for cell in row):
        return {}
    row += [""] * (len(header.columns) - len(row))
    return dict(zip(header.columns, row, strict=True))


# -- lines of nvprof's own

# One process's lines are marked with its number, or with nothing while none is known.
_MARKED = re.compile(r"==(\d{1,10})== ?(.*)|={8} ?(.*)")
_PAYLOADS = (
    "NVPROF is profiling process|Profiling application:|Profiling result:|Unified Memory profiling "
    "result:|NVTX result:|Metric result:|Event result:|API calls:|Warning:|Error:|Generated result file:"
)
# What a program wrote without ending its line precedes the mark.
_MARKED_LATE = re.compile(rf"==(\d{{1,10}})== ((?:{_PAYLOADS}).*)|={{8}} ((?:{_PAYLOADS}).*)")
SIGNATURE = re.compile(
    (
        # Each begins with letters of its own: logs of gigabytes are searched for them.
        rf"==(?:\d{{1,10}}==|={{6}}) (?:{_PAYLOADS})|"
        r'Start(?:"?[,;\t]"?Duration"?[,;\t]|\s+Duration\s+(?:Grid Size|Name)\s)|'
        r'Time\(%\)(?:"?[,;\t]"?Time"?[,;\t]"?Calls"?|\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name)|'
        r'"Device",(?:"Context","Stream",)?"Kernel"'
    ).encode()
)
"""Texts that logs of nvprof hold and no other program writes, as far as is known."""

_PROCESS = re.compile(r"NVPROF is profiling process (\d{1,10})")
_THREAD = re.compile(r'\s*Thread "(.*)" \(id = (\d{1,18})\)\s*$')
_DOMAIN = re.compile(r'\s*Domain "(.*)"\s*$')
_RANGE = re.compile(r'\s*Range "(.*)"\s*$')
DEVICE = re.compile(r'\s*Device "(.*)"\s*$')
KERNEL = re.compile(r"\s+Kernel: (.*\S)\s*$")
"""Lines that name the device and the kernel of the rows below them."""
_FAULTS = re.compile(r"\s*Total CPU Page faults: (\d{1,18})\b")
_NO_DATA = {
    "No kernels were profiled.": NvprofTable.GPU_TRACE,
    "No API activities were profiled.": NvprofTable.API_TRACE,
}
GPU, API = "GPU activities", "API calls"
_SECTIONS = {
    "Profiling result:": GPU,
    **{f"{name}:": name for name in (API, "OpenACC (excl)", "OpenACC (incl)", "OpenMP (incl)")},
    **{f"{name} result:": "" for name in ("Unified Memory profiling", "Event", "Metric", "NVTX")},
}
_NOT_READ = ("CPU profiling result", "Dependency Analysis", "System profiling result")
# What a row of a small table of text looks like; whatever else comes there is the program's.
_TEXT_ROWS = {
    NvprofTable.SUMMARY: re.compile(r".*\d%\s"),
    NvprofTable.UNIFIED_MEMORY: re.compile(r"\s*\d+\s{2,}"),
    NvprofTable.COUNTERS: re.compile(r"\s*\d+\s{2,}"),
}
_WRITTEN = "Generated result file:"
_MOST_WRITTEN = 20
# How a line begins that is not a row of a trace: in CSV, and in text.
_OTHER_LINE = {True: re.compile(rb"\n[^0-9]"), False: re.compile(rb"\n[^0-9 ]")}


# -- what a log holds


@dataclass(frozen=True)
class RangeScope:
    """The thread, domain and range that a table of totals is about."""

    tid: int | None = None
    domain: str | None = None
    range: str | None = None


@dataclass
class PrintedTable:
    """A table: its header, units by column, and rows.

    `section` is the heading above the table, for tables without a column of types. `lines` are the rows
    of small tables, with their numbers, among lines that name a device or a kernel. `spans` are the
    places of a trace's rows, in pieces of bounded size.
    """

    header: NvprofHeader
    line: int
    section: str = ""
    device: str | None = None
    scope: RangeScope | None = None
    units: dict[str, str] = field(default_factory=dict)
    lines: list[tuple[int, str]] = field(default_factory=list)
    spans: list[RowSpan] = field(default_factory=list)


@dataclass
class Run:
    """One run of one process; `no_data` are the traces of which nvprof says that they are empty."""

    pid: int | None
    tables: list[PrintedTable] = field(default_factory=list)
    messages: list[tuple[int, str]] = field(default_factory=list)
    no_data: set[NvprofTable] = field(default_factory=set)
    not_read: Counter[str] = field(default_factory=Counter)


class LogSurvey:
    """The contents of a log.

    `unfinished` is the number of the last line if no newline ends it. `nsys_tables` counts tables of nsys
    stats, which are not read. `written` are files that nvprof wrote profiles into, without their folders;
    not all if they are many.
    """

    def __init__(self, path: Path) -> None:
        """Read a file in UTF-8."""
        self.written: list[str] = []
        self.runs: list[Run] = []
        self.nsys_tables: Counter[str] = Counter()
        self._has_nsys = False
        self._run: Run | None = None
        self._runs_by_pid: dict[int, Run] = {}
        self._table: PrintedTable | None = None
        self._section = ""
        self._device: str | None = None
        self._scope: RangeScope | None = None
        self._seen: set[tuple[object, ...]] = set()
        self._lines = LogLines(path)
        for raw in self._lines:
            if not self._read_rows():
                self._read_line(raw)
        self.unfinished = self._lines.unfinished
        if self._has_nsys:
            self.nsys_tables = count_tables(path)

    def _read_rows(self) -> bool:
        # This reads the rows of the open trace from the current line on.
        table = self._table
        if table is None or table.header.kind not in TRACES:
            return False
        other = _OTHER_LINE[bool(table.header.delimiter)]
        return add_spans(table.spans, self._lines.rows(other))

    # -- one line

    def _read_line(self, raw: bytes) -> None:
        text = raw.decode("utf-8-sig", "replace").rstrip("\r\n")
        marked = (_MARKED.match(text) or _MARKED_LATE.search(text)) if "==" in text else None
        if marked is not None:
            pid, message, without_pid = marked.groups()
            # 0 is no process.
            self._read_message(int(pid or 0) or None, message if pid else without_pid or "")
        elif not text.strip() or self._read_header(text):
            return
        elif text.strip() in _NO_DATA:
            self._run_of(None).no_data.add(_NO_DATA[text.strip()])
        elif has_table(raw):
            self._has_nsys, self._table = True, None
        elif device := DEVICE.match(text):
            self._device = device[1]
            self._keep(text)
        elif self._table is not None and not _FAULTS.match(text):
            self._read_row(self._table, text)

    def _read_row(self, table: PrintedTable, text: str) -> None:
        header = table.header
        if header.delimiter:
            if (
                not (table.lines or table.spans or table.units)
                and table.line == self._lines.line - 1
            ):
                table.units = _parse_units(text, header)
                if table.units:
                    return
            if header.kind in TRACES and text.count(header.delimiter) >= 2:
                add_spans(table.spans, [self._lines.span])
            elif header.delimiter in text:
                self._keep(text)
        elif KERNEL.match(text) or (
            header.kind in _TEXT_ROWS and _TEXT_ROWS[header.kind].match(text)
        ):
            self._keep(text)

    def _keep(self, text: str) -> None:
        if self._table is not None and self._table.header.kind not in TRACES:
            self._table.lines.append((self._lines.line, text))

    def _read_header(self, text: str) -> bool:
        header = parse_header(text)
        if header is None:
            return False
        run = self._run_of(None)
        if header.kind is NvprofTable.CPU_SAMPLES:
            run.not_read["samples of the CPU"] += 1
            self._table = None
            return True
        device = self._device if header.kind is NvprofTable.UNIFIED_MEMORY else None
        key = (header.kind, self._section, device, self._scope)
        if (id(run), *key) in self._seen:
            # The same again is another run of the program, whose banner is missing.
            self._run = run = self._new_run(run.pid)
        self._seen.add((id(run), *key))
        self._table = PrintedTable(
            header, self._lines.line, self._section, self._device, self._scope
        )
        run.tables.append(self._table)
        return True

    # -- messages

    def _read_message(self, pid: int | None, message: str) -> None:
        process, words = _PROCESS.match(message), message.strip()
        if process:
            self._begin_run(int(process.group(1)) or None)
        elif words in _NO_DATA:
            self._run_of(pid).no_data.add(_NO_DATA[words])
        elif words in _SECTIONS:
            self._run = self._run_of(pid)
            self._table, self._device = None, None
            self._section = _SECTIONS[words]
            self._scope = RangeScope() if words == "NVTX result:" else None
        elif message.startswith(_NOT_READ):
            self._run = self._run_of(pid)
            self._run.not_read[message.partition(" (")[0].rstrip(":")] += 1
            self._table = None
        elif self._scope is not None and self._narrow(self._scope, message):
            self._table = None
        elif message.startswith("Profiling application:"):
            self._run_of(pid)  # the command itself is private
        elif message.startswith(_WRITTEN):
            self._run_of(pid)
            if len(self.written) < _MOST_WRITTEN:
                # Its folder is private, and so is what a damaged line has after it.
                path = re.split(r"[\x00-\x1f\x7f]", message.removeprefix(_WRITTEN).strip())[0]
                name = re.split(r"[/\\]", path)[-1]
                self.written = list(dict.fromkeys([*self.written, name]))
        elif words:
            self._run_of(pid).messages.append((self._lines.line, words))

    def _narrow(self, scope: RangeScope, message: str) -> bool:
        # Lines between the tables of ranges say which thread, domain and range the next ones are about.
        if match := _THREAD.match(message):
            self._scope = RangeScope(tid=int(match.group(2)))
        elif match := _DOMAIN.match(message):
            self._scope = RangeScope(scope.tid, match.group(1))
        elif match := _RANGE.match(message):
            self._scope = replace(scope, range=match.group(1))
        return match is not None

    def _begin_run(self, pid: int | None) -> None:
        # A banner: a run begins, unless the process has one that is still empty.
        run = None if pid is None else self._runs_by_pid.get(pid)
        self._run = self._new_run(pid) if run is None or run.tables or run.no_data else run
        self._table, self._section, self._scope, self._device = None, "", None, None

    def _run_of(self, pid: int | None) -> Run:
        run = self._run if pid is None else self._runs_by_pid.get(pid)
        return run or self._new_run(pid)

    def _new_run(self, pid: int | None) -> Run:
        run = self.runs[-1] if self.runs else None
        if run is None or run.pid is not None or run.tables or pid is None:
            run = Run(pid)
            self.runs.append(run)
        if pid is not None:
            # What came before the process had a number is of the same run.
            run.pid = pid
            self._runs_by_pid[pid] = run
        self._run = self._run or run
        return run
