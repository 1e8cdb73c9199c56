"""Values as nvprof spells them: a number of few digits, with a unit of its own or of its column.

Sizes and rates have binary prefixes: 1 KB is 1024 bytes (docs/formats/nvprof-log.md). A spelled value
stands for all numbers that round to it; where several values tell the same quantity, what is left is what
they have in common.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from pathlib import Path

import numpy as np

from nsysconv.importers.nsys_stats.survey import has_table
from nsysconv.importers.printed.quantities import ValueRange
from nsysconv.importers.printed.text import RowSpan, csv_cells

_K = 1024
UNITS: dict[str, int] = {
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "µs": 10**3,
    "ns": 1,
    "B": 1,
    "KB": _K,
    "MB": _K**2,
    "GB": _K**3,
    "TB": _K**4,
    "B/s": 1,
    "KB/s": _K,
    "MB/s": _K**2,
    "GB/s": _K**3,
    "TB/s": _K**4,
    "%": 1,
}
"""Units -> how many ns, bytes, bytes per second or percent one of them is."""

_VALUE = re.compile(r"\s*(-?[0-9][0-9.,]*(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-zµ%/]*)\s*$")
_LARGEST = 1 << 62
_GROUP = 3


def step_of(text: str) -> Fraction | None:
    """What the last digit of a number is worth, in any language's spelling; None if it is none."""
    found = _digits(text)
    return None if found is None else Fraction(10) ** found[1]


def spelled(text: str, unit: str = "") -> ValueRange | None:
    """What a cell says; its own unit counts before its column's. None: no number of a known unit."""
    found = _scaled(text, unit)
    if found is None:
        return None
    digits, scale, parts = found
    return ValueRange(
        Fraction((2 * digits - 1) * scale, 2 * parts), Fraction((2 * digits + 1) * scale, 2 * parts)
    )


def measured(text: str, unit: str = "") -> tuple[float, float] | None:
    """The middle of the same, and its step: what traces of a million rows need of it."""
    found = _scaled(text, unit)
    if found is None:
        return None
    digits, scale, parts = found
    return digits * scale / parts, scale / parts


def _scaled(text: str, unit: str) -> tuple[int, int, int] | None:
    """The digits of a cell, what the last of them stands for, and in how many parts of one that is."""
    match = _VALUE.match(text)
    if match is None:
        return None
    unit = match.group(2) or unit
    scale = UNITS.get(unit, None if unit else 1)
    found = _digits(match.group(1))
    if scale is None or found is None:
        return None
    digits, exponent = found
    scale, parts = scale * 10 ** max(exponent, 0), 10 ** max(-exponent, 0)
    if max(abs(digits), 1) * scale > _LARGEST * parts:
        return None
    return digits, scale, parts


def _digits(text: str) -> tuple[int, int] | None:
    """The digits of a number, and the power of ten that the last of them stands for.

    Of `,` and `.` the last is the decimal sign, unless it stands there more than once.
    """
    digits, _, power = text.lower().partition("e")
    comma, point = digits.rfind(","), digits.rfind(".")
    sign = "," if comma > point else "."
    if digits.count(sign) > 1:
        sign = "." if sign == "," else ","
    grouping = "," if sign == "." else "."
    whole, _, decimals = digits.partition(sign)
    _, *groups = whole.split(grouping)
    if grouping in decimals or any(len(group) != _GROUP for group in groups):
        return None
    try:
        return int(whole.replace(grouping, "") + decimals), int(power or 0) - len(decimals)
    except ValueError:  # no digit, or thousands of them
        return None


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

    table: NvprofTable
    columns: tuple[str, ...]
    delimiter: str = ""


# In text some columns are called otherwise than in CSV, or are several in one.
_TEXT_COLUMNS = {
    "Regs*": "Registers Per Thread",
    "SSMem*": "Static SMem",
    "DSMem*": "Dynamic SMem",
}
_DELIMITERS = (",", ";", "\t")
_GAP = re.compile(r"\s{2,}")
_ON_GPU = {"Device", "Grid X", "Grid Size", "Size", "Stream"}


def of_csv(line: str) -> NvprofHeader | None:
    """The header that a line of CSV is, None if it is none."""
    for delimiter in _DELIMITERS:
        if delimiter in line:
            columns = tuple(cell.strip() for cell in csv_cells(line, delimiter) or ())
            table = _table(set(columns))
            if table is not None and len(set(columns)) == len(columns):
                return NvprofHeader(table, columns, delimiter)
    return None


def of_text(line: str) -> NvprofHeader | None:
    """The header that a line of text is, None if it is none."""
    columns = tuple(_TEXT_COLUMNS.get(word, word) for word in _GAP.split(line.strip()))
    if columns == ("Time(%)", "Time", "Name"):
        return NvprofHeader(NvprofTable.CPU_SAMPLES, columns)
    table = _table(set(columns)) if len(columns) > 1 else None
    return NvprofHeader(table, columns) if table is not None else None


def _table(columns: set[str]) -> NvprofTable | None:
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


def units_of(line: str, header: NvprofHeader) -> tuple[str, ...] | None:
    """The units below a header, one per column, empty for none; None if the line is a row of values."""
    row = csv_cells(line, header.delimiter)
    if row is None or len(row) > len(header.columns):
        return None
    row = [cell.strip() for cell in row]
    if not any(row) or any(cell and cell not in UNITS for cell in row):
        return None
    return tuple(row) + ("",) * (len(header.columns) - len(row))


# One process's lines are marked with its number, or with nothing while none is known.
_MARKED = re.compile(r"==(\d{1,10})== ?(.*)|={8} ?(.*)")
_PAYLOADS = (
    "NVPROF is profiling process|Profiling application:|Profiling result:|Unified Memory profiling "
    "result:|NVTX result:|Metric result:|Event result:|API calls:|Warning:|Error:|Generated result file:"
)
# What a program wrote without ending its line stands before the mark.
_MARKED_LATE = re.compile(rf"==(\d{{1,10}})== ((?:{_PAYLOADS}).*)|={{8}} ((?:{_PAYLOADS}).*)")
SIGNATURE = re.compile(
    (
        # Each begins with letters of its own: logs of gigabytes are looked through for them.
        rf"==(?:\d{{1,10}}==|={{6}}) (?:{_PAYLOADS})|"
        r'Start(?:"?[,;\t]"?Duration"?[,;\t]|\s+Duration\s+(?:Grid Size|Name)\s)|'
        r'Time\(%\)(?:"?[,;\t]"?Time"?[,;\t]"?Calls"?|\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name)|'
        r'"Device",(?:"Context","Stream",)?"Kernel"'
    ).encode()
)
"""What a log of nvprof holds and no other program writes, as far as is known."""
# Lines without any of these are no headers.
_HEADER_WORDS = re.compile(r"Start|Time\(%\)|Invocations|Total Size|Context")

_PROCESS = re.compile(r"NVPROF is profiling process (\d{1,10})")
_THREAD = re.compile(r'\s*Thread "(.*)" \(id = (\d{1,18})\)\s*$')
_DOMAIN = re.compile(r'\s*Domain "(.*)"\s*$')
_RANGE = re.compile(r'\s*Range "(.*)"\s*$')
_DEVICE = re.compile(r'\s*Device "(.*)"\s*$')
_KERNEL = re.compile(r"\s+Kernel: (.*\S)\s*$")
_FAULTS = re.compile(r"\s*Total CPU Page faults: (\d{1,18})\b")
_NOTHING = {
    "No kernels were profiled.": NvprofTable.GPU_TRACE,
    "No API activities were profiled.": NvprofTable.API_TRACE,
}
GPU, API = "GPU activities", "API calls"
_SECTIONS = {
    "Profiling result:": GPU,
    "API calls:": API,
    "OpenACC (excl):": "OpenACC (excl)",
    "OpenACC (incl):": "OpenACC (incl)",
    "OpenMP (incl):": "OpenMP (incl)",
    "Unified Memory profiling result:": "",
    "Event result:": "",
    "Metric result:": "",
    "NVTX result:": "",
}
_NOT_READ = ("CPU profiling result", "Dependency Analysis", "System profiling result")
# What a row of a small table of text looks like; whatever else stands there is the program's.
_ROWS = {
    NvprofTable.SUMMARY: re.compile(r".*\d%\s"),
    NvprofTable.UNIFIED_MEMORY: re.compile(r"\s*\d+\s{2,}"),
    NvprofTable.COUNTERS: re.compile(r"\s*\d+\s{2,}"),
}
_WRITTEN = "Generated result file:"
_MOST_WRITTEN = 20
_CHUNK_BYTES = 1 << 20
# Rows read at once, later.
_PIECE_BYTES = 8 << 20
# Whether a byte begins a row of a trace: in CSV, and in text.
_BEGINS_ROW = {
    is_csv: np.isin(np.arange(256), np.frombuffer(signs, np.uint8))
    for is_csv, signs in ((True, b"0123456789"), (False, b"0123456789 "))
}
_LONGEST_LINE = 1 << 20
_END_OF_LINE = ord("\n")


@dataclass(frozen=True)
class Within:
    """The thread, domain and range that a table of totals is about."""

    tid: int | None = None
    domain: str | None = None
    range: str | None = None


@dataclass
class PrintedTable:
    """A table: its header, units by column, and rows.

    `section` is what a line above the table called it, for tables that do not name the types of their
    rows. `lines` are the rows of small tables, with their numbers; lines that name a device or a kernel
    stand among them. `spans` are where the rows of traces are, in pieces of bounded size.
    """

    header: NvprofHeader
    line: int
    section: str = ""
    device: str | None = None
    within: Within | None = None
    units: tuple[str, ...] = ()
    lines: list[tuple[int, str]] = field(default_factory=list)
    spans: list[RowSpan] = field(default_factory=list)


@dataclass
class Run:
    """One run of one process. `nothing`: kinds of events of which, it is said, there were none."""

    pid: int | None
    line: int
    blocks: list[PrintedTable] = field(default_factory=list)
    messages: list[tuple[int, str]] = field(default_factory=list)
    nothing: set[NvprofTable] = field(default_factory=set)
    not_read: Counter[str] = field(default_factory=Counter)
    cpu_faults: int = 0


class LogSurvey:
    """What a log holds. `unfinished` is the number of the last line where it does not end.

    `has_nsys`: tables of nsys stats stand in it, too. `written`: files that profiles were written into,
    without their folders; not all where they are many.
    """

    def __init__(self, path: Path) -> None:
        self.written: list[str] = []
        self.runs: list[Run] = []
        self.unfinished: int | None = None
        self.has_nsys = False
        self._run: Run | None = None
        self._by_pid: dict[int, Run] = {}
        self._block: PrintedTable | None = None
        self._section = ""
        self._device: str | None = None
        self._within: Within | None = None
        self._keys: set[tuple[object, ...]] = set()
        self._line = 0
        with path.open("rb", buffering=0) as file:
            self._read(file)

    def _read(self, file: io.FileIO) -> None:
        """Takes the lines of a file; one buffer serves all of it, because fresh memory is slow."""
        buffer, held, start = bytearray(_CHUNK_BYTES), 0, 0
        while count := file.readinto(memoryview(buffer)[held:]):
            held += count
            cut = buffer.rfind(b"\n", 0, held) + 1
            if cut:
                self._take(buffer, cut, start)
                start, held = start + cut, held - cut
                buffer[:held] = buffer[cut : cut + held]
            elif held == len(buffer):
                buffer.extend(bytes(len(buffer)))
        if held:
            self._take(buffer, held, start)
            self.unfinished = self._line

    def _take(self, buffer: bytearray, limit: int, start: int) -> None:
        """Tells the lines in the buffer up to the limit apart; `start` is its place in the file."""
        text = np.frombuffer(buffer, np.uint8, limit)
        begins = np.concatenate([[0], np.flatnonzero(text[:-1] == _END_OF_LINE) + 1, [limit]])
        first, count = text[begins[:-1]], len(begins) - 1
        others = {
            is_csv: np.append(np.flatnonzero(~of_row[first]), count)
            for is_csv, of_row in _BEGINS_ROW.items()
        }
        line = 0
        while line < count:
            end, place = self._next_other(others, line), int(begins[line])
            if end > line:
                self._add(RowSpan(start + place, start + int(begins[end]), self._line + 1))
                self._line += end - line
            else:
                end = line + 1
                self._line += 1
                until = int(begins[end])
                self._one(bytes(buffer[place:until]), start + place, start + until)
            line = end

    def _next_other(self, others: Mapping[bool, np.ndarray], line: int) -> int:
        """The first line, from this one on, that is no row of the open trace."""
        block = self._block
        if block is None or block.header.table not in TRACES:
            return line
        found = others[bool(block.header.delimiter)]
        return int(found[np.searchsorted(found, line)])

    def _add(self, span: RowSpan) -> None:
        spans = self._block.spans if self._block is not None else []
        last = spans[-1] if spans else None
        if last and last.end == span.start and span.end - last.start <= _PIECE_BYTES:
            last.end = span.end
        else:
            spans.append(span)

    # -- one line

    def _one(self, raw: bytes, start: int, end: int) -> None:
        text = raw[:_LONGEST_LINE].decode("utf-8-sig", "replace").rstrip("\r\n")
        marked = (_MARKED.match(text) or _MARKED_LATE.search(text)) if "==" in text else None
        if marked is not None:
            pid, said, unmarked = marked.groups()
            # 0 is no process.
            self._marked(int(pid or 0) or None, said if pid else unmarked or "")
        elif not text.strip() or self._header(text):
            return
        elif text.strip() in _NOTHING:
            self._current().nothing.add(_NOTHING[text.strip()])
        elif has_table(raw):
            self.has_nsys, self._block = True, None
        elif named := _DEVICE.match(text):
            self._device = named.group(1)
            self._keep(text)
        elif faults := _FAULTS.match(text):
            self._current().cpu_faults += int(faults.group(1))
        elif self._block is not None:
            self._row(text, start, end)

    def _row(self, text: str, start: int, end: int) -> None:
        """A line below a header that is nothing else."""
        block = self._block
        if block is None:
            return
        header = block.header
        if header.delimiter:
            if not (block.lines or block.spans or block.units) and block.line == self._line - 1:
                block.units = units_of(text, header) or ()
                if block.units:
                    return
            if header.table in TRACES and text.count(header.delimiter) >= 2:
                self._add(RowSpan(start, end, self._line))
            elif header.delimiter in text:
                self._keep(text)
        elif _KERNEL.match(text) or (
            header.table in _ROWS and _ROWS[header.table].match(text) is not None
        ):
            self._keep(text)

    def _keep(self, text: str) -> None:
        if self._block is not None and self._block.header.table not in TRACES:
            self._block.lines.append((self._line, text))

    def _header(self, text: str) -> bool:
        if _HEADER_WORDS.search(text) is None:
            return False
        found = of_csv(text) or of_text(text)
        if found is None:
            return False
        run = self._current()
        if found.table is NvprofTable.CPU_SAMPLES:
            run.not_read["samples of the CPU"] += 1
            self._block = None
            return True
        device = self._device if found.table is NvprofTable.UNIFIED_MEMORY else None
        key = (found.table, self._section, device, self._within)
        if (id(run), *key) in self._keys:
            # The same again is another run of the program, whose banner is missing.
            self._run = run = self._new(run.pid)
        self._keys.add((id(run), *key))
        self._block = PrintedTable(found, self._line, self._section, self._device, self._within)
        run.blocks.append(self._block)
        return True

    # -- what the profiler says

    def _marked(self, pid: int | None, said: str) -> None:
        """A line of the profiler's own."""
        process = _PROCESS.match(said)
        if process:
            self._begin(int(process.group(1)) or None)
        elif said.strip() in _NOTHING:
            self._of(pid).nothing.add(_NOTHING[said.strip()])
        elif said.strip() in _SECTIONS:
            self._run = self._of(pid)
            self._block, self._device = None, None
            self._section = _SECTIONS[said.strip()]
            self._within = Within() if said.strip() == "NVTX result:" else None
        elif said.startswith(_NOT_READ):
            self._run = self._of(pid)
            self._run.not_read[said.partition(" (")[0].rstrip(":")] += 1
            self._block = None
        elif self._within is not None and self._narrow(said):
            self._block = None
        elif said.startswith("Profiling application:"):
            self._of(pid)  # a command, which is nobody's business
        elif said.startswith(_WRITTEN):
            self._of(pid)
            if len(self.written) < _MOST_WRITTEN:
                # Where on the machine it lies is nobody's business.
                name = re.split(r"[/\\]", said.removeprefix(_WRITTEN).strip())[-1]
                self.written = list(dict.fromkeys([*self.written, name]))
        elif said.strip():
            self._of(pid).messages.append((self._line, said.strip()))

    def _narrow(self, said: str) -> bool:
        """Whether a line says what range the tables below it are about."""
        within = self._within or Within()
        if match := _THREAD.match(said):
            self._within = Within(tid=int(match.group(2)))
        elif match := _DOMAIN.match(said):
            self._within = Within(within.tid, match.group(1))
        elif match := _RANGE.match(said):
            self._within = replace(within, range=match.group(1))
        return match is not None

    def _begin(self, pid: int | None) -> None:
        """A banner: a run begins, unless the one that is known has not begun to say anything."""
        known = None if pid is None else self._by_pid.get(pid)
        self._run = self._new(pid) if known is None or known.blocks or known.nothing else known
        self._block, self._section, self._within, self._device = None, "", None, None

    def _of(self, pid: int | None) -> Run:
        """The run that a line of this process belongs to."""
        if pid is None:
            return self._current()
        return self._by_pid.get(pid) or self._new(pid)

    def _current(self) -> Run:
        return self._run or self._new(None)

    def _new(self, pid: int | None) -> Run:
        last = self.runs[-1] if self.runs else None
        if pid is not None and last is not None and last.pid is None and not last.blocks:
            # What was said before the process had a number.
            run = last
            run.pid = pid
        else:
            run = Run(pid, self._line)
            self.runs.append(run)
        if pid is not None:
            self._by_pid[pid] = run
        self._run = self._run or run
        return run


def kernel_of(text: str) -> str | None:
    """The kernel that a line names, None where it names none."""
    found = _KERNEL.match(text)
    return found.group(1) if found else None


def device_of(text: str) -> str | None:
    """The device that a line names, None where it names none."""
    found = _DEVICE.match(text)
    return found.group(1) if found else None
