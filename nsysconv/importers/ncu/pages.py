"""Launches of a table that `ncu --csv` prints: details or raw page, or a summary; around it is a log.

Details and summaries have a row for each metric, the raw page a column, with units in the row below the
header. Columns are found by their names: options add further ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from nsysconv.importers.ncu.launches import (
    ATTRIBUTE,
    DURATION,
    GPU_NAME,
    Launch,
    Metric,
    counter,
    scale,
)
from nsysconv.importers.printed.lines import LogLines
from nsysconv.importers.printed.text import RejectedLines, csv_cells, parse_digits

_ID, _PID, _KERNEL, _INVOCATIONS = "ID", "Process ID", "Kernel Name", "Invocations"
_NAME, _UNIT, _VALUE, _SECTION = "Metric Name", "Metric Unit", "Metric Value", "Section Name"
_AVERAGE, _LEAST, _MOST = "Average", "Minimum", "Maximum"
# What says which launch a row is of, and the metrics that reports have in its place.
_OF_LAUNCH: Mapping[str, tuple[str, ...]] = {
    _ID: (), _PID: (), _KERNEL: (), "Context": ("launch__context_id",),
    "Stream": ("launch__stream_id",), "Device": ("launch__device_id",),
    "CC": tuple(f"{ATTRIBUTE}compute_capability_{part}" for part in ("major", "minor")),
    "Grid Size": tuple(f"launch__grid_dim_{axis}" for axis in "xyz"),
    "Block Size": tuple(f"launch__block_dim_{axis}" for axis in "xyz"),
}  # fmt: skip
# Columns of metrics; those of NVTX ranges have blanks and slashes.
_RAW_METRIC = re.compile(r"[a-z][\w.:]*")
# Rules are advice of several lines; a quote that damage opened ends with the next row.
_MOST_LINES = 100
_ROW = re.compile(r'("?)(?:\d*|ID|Process ID)\1,')
_LOG, _NS = "==", "ns"
# What is between thousands beside a dot or a comma: in French and Swiss.
_BETWEEN = "'\u2019\u00a0\u202f"
_NUMBER = re.compile(rf"[+-]?\d[\d.,{_BETWEEN}]*(?:[eE][+-]?\d{{1,3}})?")
# Values of parts of the GPU or of the code follow in brackets.
_OF_PARTS = re.compile(r"(\S+) \(.*\)", re.DOTALL)


@dataclass
class Decimals:
    """How numbers are spelled: the sign before decimals, once one shows it.

    `ambiguous` counts numbers such as 1,234 that may have either; without a sign known they have none.
    """

    point: str = ""
    ambiguous: int = 0

    def learn(self, cell: str) -> None:
        """Look at a number."""
        signs = [sign for sign in cell if sign in ".,"]
        if self.point or not signs or not _NUMBER.fullmatch(cell):
            return
        whole, _, rest = cell.partition(signs[0])
        if len(set(signs)) > 1:
            self.point = signs[-1]
        elif len(signs) > 1:
            self.point = "." if signs[0] == "," else ","
        elif len(rest) != 3 or whole.lstrip("+-") in ("", "0") or len(whole.lstrip("+-")) > 3:
            self.point = signs[0]
        else:
            self.ambiguous += 1

    def value(self, cell: str) -> float | None:
        """Return the number in a cell; None for other texts."""
        if not _NUMBER.fullmatch(cell):
            return None
        point = self.point or "."
        for sign in {*".,", *_BETWEEN} - {point}:
            cell = cell.replace(sign, "")
        if cell.count(point) > 1:
            return None
        value = float(cell.replace(point, "."))
        return value if isfinite(value) else None

    def step(self, cell: str) -> float:
        """Return how far apart numbers are that are spelled like this one."""
        _, _, rest = cell.partition(self.point or ".")
        return 10.0 ** -len(rest)


@dataclass
class Table:
    """A table in a text: `launches` reads it; `rejected` and `cut_line` are what it left out."""

    path: Path
    decimals: Decimals = field(default_factory=Decimals)
    rejected: RejectedLines = field(default_factory=RejectedLines)
    cut_line: int = 0
    rows: int = 0

    def launches(self) -> Iterator[Launch]:
        """Yield the launches, in order."""
        for _, row in self._rows():
            for *_, cells in _metrics(row, {}):
                self.decimals.learn(cells[0])
        self.rejected = RejectedLines()
        last: tuple[object, ...] = ()
        launch: Launch | None = None
        units: dict[str, str] = {}
        for line, row in self._rows():
            if not row.get(_KERNEL):  # the raw page's units, or damage
                is_units = _NAME not in row and not row.get(_PID)
                units = row if is_units else units
                if not is_units:
                    self.rejected.add(line)
                continue
            self.rows += 1
            key = tuple(map(row.get, _OF_LAUNCH))
            if launch is None or key != last or _NAME not in row:
                if launch is not None:
                    yield launch
                last, launch = key, _launch(row)
            for name, unit, cells in _metrics(row, units):
                self._add(launch, name, unit, cells)
            launch.counts["text"] += row.get(_NAME) == ""  # what a rule advises
        if launch is not None:
            yield launch

    def _add(self, launch: Launch, name: str, unit: str, cells: list[str]) -> None:
        kind, spelled, factor = scale(unit)
        values = [value for value in map(self.decimals.value, cells) if value is not None]
        # What 10.5 of no unit are in ns is not known.
        if len(values) == len(cells) and (name != DURATION or spelled == _NS):
            launch.metrics[name] = Metric(kind, spelled, *(value * factor for value in values))
            if name == DURATION:
                launch.step_ns = self.decimals.step(cells[0]) * factor
        else:
            launch.counts["unreadable" if cells[0][:1].isdigit() else "text"] += 1
            if name == GPU_NAME:
                launch.gpu = cells[0]

    def _rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        # The number of the line and the cells of each row by the column's name.
        header: list[str] = []
        for line, text in self._texts():
            cells = csv_cells(text.rstrip("\r\n").replace("\r", ""), ",")
            if cells is not None and cells[:1] in ([_ID], [_PID]) and _KERNEL in cells:
                header = cells
            elif not header:
                continue
            elif cells is not None and _fits(cells, header):
                yield line, dict(zip(header, cells, strict=False))
            elif text.endswith("\n"):
                self.rejected.add(line)
            else:
                self.cut_line = line

    def _texts(self) -> Iterator[tuple[int, str]]:
        # Rows, which may be several lines, and all other lines but those of the log.
        lines, text, first, count = LogLines(self.path), "", 0, 0
        for data in lines:
            part = data.decode("utf-8", "replace").lstrip("\ufeff")
            if text and (_ROW.match(part) or count == _MOST_LINES):
                yield first, text
                text = ""
            if not text and (part.startswith(_LOG) or not part.strip()):
                continue
            first, count = (first, count + 1) if text else (lines.line, 1)
            text += part
            if not _ROW.match(text) or text.count('"') % 2 == 0:
                yield first, text
                text = ""
        if text:
            yield first, text


def _fits(cells: list[str], header: list[str]) -> bool:
    # Rows of metrics lack the cells of rules, and have an empty one in their place.
    least = header.index(_VALUE) + 1 if _VALUE in header else len(header)
    return least <= len(cells) <= len(header)


def _metrics(
    row: Mapping[str, str], units: Mapping[str, str]
) -> Iterator[tuple[str, str, list[str]]]:
    # Name, unit, and the cells of mean, least and greatest.
    if _NAME not in row:
        for name, cell in row.items():
            if _RAW_METRIC.fullmatch(name):
                yield name, units.get(name, ""), [_OF_PARTS.sub(r"\1", cell.strip())] * 3
    elif row[_NAME]:
        cells = [row.get(name, row.get(_VALUE, "")).strip() for name in (_AVERAGE, _LEAST, _MOST)]
        yield counter(row.get(_SECTION, ""), row[_NAME]), row.get(_UNIT, "").strip(), cells


def _launch(row: Mapping[str, str]) -> Launch:
    pid, invocations = (
        parse_digits(row.get(name, "").replace(",", "")) for name in (_PID, _INVOCATIONS)
    )
    launch = Launch(row[_KERNEL], pid=pid or None, invocations=invocations)
    for column, metrics in _OF_LAUNCH.items():
        numbers = re.findall(r"\d{1,10}", row.get(column, ""))
        if len(numbers) == len(metrics):
            for metric, number in zip(metrics, map(float, numbers), strict=True):
                launch.metrics[metric] = Metric("number", "", number, number, number)
    return launch
