"""The tables that nvprof prints, told by their headers: as CSV, and as text in columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from nsysconv.importers.nvprof_log.quantities import UNITS
from nsysconv.importers.printed import text


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
            columns = tuple(cell.strip() for cell in text.csv_cells(line, delimiter) or ())
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
    row = text.csv_cells(line, header.delimiter)
    if row is None or len(row) > len(header.columns):
        return None
    row = [cell.strip() for cell in row]
    if not any(row) or any(cell and cell not in UNITS for cell in row):
        return None
    return tuple(row) + ("",) * (len(header.columns) - len(row))
