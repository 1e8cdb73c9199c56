"""Tables of metrics and events, which hardware counters measured in kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from nsysconv import codes
from nsysconv.importers.nvprof_log.cells import without_number
from nsysconv.importers.nvprof_log.gathered import Gathered
from nsysconv.importers.nvprof_log.headers import NvprofTable
from nsysconv.importers.nvprof_log.quantities import spelled
from nsysconv.importers.nvprof_log.survey import PrintedTable, device_of, kernel_of
from nsysconv.importers.printed.quantities import parse_digits

Row = dict[str, Any]
Cells = Mapping[str, str]

_GAP = re.compile(r"\s{2,}")
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
            cells = text.csv_cells(text, block.header.delimiter) if block.header.delimiter else None
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
            cells = text.csv_cells(text, header.delimiter) if header.delimiter else split
            if cells is None or len(cells) != len(header.columns):
                yield line, None
                continue
            row = dict(zip(header.columns, (cell.strip() for cell in cells), strict=True))
            yield line, {**above, **row}
