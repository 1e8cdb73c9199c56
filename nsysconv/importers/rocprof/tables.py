"""Tables of rocprof: their columns in databases and CSV, and how a file is recognized."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from nsysconv.importers.printed.lines import LogLines
from nsysconv.importers.printed.text import RejectedLines, csv_cells, encoding_of
from nsysconv.importers.probe import Probe

MAIN = ("KERN", "A")
"""What the table of kernels is called, in most databases and in the oldest."""
HIP, HSA, OPS, COPY, ROCTX = "HIP", "HSA", "OPS", "COPY", "rocTX"


class Layout(Enum):
    """The tables that are printed as CSV, by how their headers begin."""

    V1 = ("Index", "KernelName")
    V2 = ("Dispatch_ID", "GPU_ID", "Queue_ID")
    # Those of rocprofv3 have further columns.
    TOTALS = ("Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage")


# Our word for a column of kernels -> its names.
KERNEL_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "start": ("BeginNs", "Start_Timestamp"),
    "end": ("EndNs", "End_Timestamp"),
    "device": ("gpu-id", "GPU_ID"),
    "queue": ("queue-id", "Queue_ID"),
    "pid": ("pid", "PID"),
    "name": ("KernelName", "Kernel_Name"),
    "grid": ("grd", "Grid_Size"),
    "block": ("wgr", "Workgroup_Size"),
    "shared": ("lds", "LDS_Per_Workgroup"),
    "local": ("scr", "Scratch_Per_Workitem"),
    "vgpr": ("arch_vgpr", "vgpr", "Arch_VGPR"),
    "accum": ("accum_vgpr", "Accum_VGPR"),
}
_OTHERS = frozenset(
    {
        "Index",
        "queue-index",
        "tid",
        "sgpr",
        "wave_size",
        "fbar",
        "sig",
        "obj",
        "DispatchNs",
        "CompleteNs",
    }
    | {"DurationNs", "Dispatch_ID", "Queue_Index", "TID", "SGPR", "Wave_Size", "Correlation_ID"}
)
_KNOWN = _OTHERS.union(*KERNEL_COLUMNS.values())
# SQ_WAVES, TCC_HIT[0], TCC_HIT_sum, GPUBusy.
_COUNTER = re.compile(r"[A-Za-z]\w{1,60}(?:\[\d{1,3}\])?$")
# Columns at the end of a line whose cut value does no harm.
_NEEDLESS = frozenset({"DurationNs", "Percentage", "Correlation_ID"})


def counters(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return those columns of a table of kernels that are hardware counters."""
    return tuple(name for name in columns if name not in _KNOWN and _COUNTER.match(name))


def main_table(probe: Probe) -> str | None:
    """Return the table of kernels of a database; None: it is not rocprof's."""
    for name in MAIN:
        if name in probe.tables and set(Layout.V1.value) <= set(probe.tables[name].columns):
            return name
    return None


def layout_of(probe: Probe) -> Layout | None:
    """Return which table a text is; None: it begins with no header of rocprof."""
    encoding = encoding_of(probe.head) or "utf-8"
    text = probe.head.decode(encoding, "replace").lstrip("\ufeff \t\r\n")
    return _layout(header_cells(text.partition("\n")[0]))


def header_cells(line: str) -> tuple[str, ...]:
    """Return the names of columns in a line."""
    return tuple(cell.strip() for cell in csv_cells(line.strip("\ufeff \t\r\n"), ",") or ())


def _layout(cells: tuple[str, ...]) -> Layout | None:
    for layout in Layout:
        if cells[: len(layout.value)] == layout.value:
            if layout is Layout.TOTALS and len(cells) != len(layout.value):
                return None
            return None if layout is Layout.V2 and "Kernel_Name" not in cells else layout
    return None


@dataclass
class CsvTable:
    """A printed table: `rows` reads it; `rejected` and `cut_line` are what it left out the last time."""

    path: Path
    header: tuple[str, ...] = ()
    cut_line: int = 0

    def __post_init__(self) -> None:
        """Read the header."""
        self.rejected = RejectedLines()
        for line in LogLines(self.path):
            self.header = header_cells(line.decode("utf-8", "replace"))
            if self.header:
                return

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of the line and the cells of each row."""
        self.rejected, self.cut_line = RejectedLines(), 0
        lines = LogLines(self.path)
        is_started = False
        for data in lines:
            text = data.decode("utf-8", "replace").strip("\ufeff\r\n")
            if not text.strip():
                continue
            cells = csv_cells(text, ",")
            if cells is not None and tuple(cell.strip() for cell in cells) == self.header:
                is_started = True
            elif not is_started:
                continue
            elif not data.endswith(b"\n") and self._is_cut(cells):
                self.cut_line = lines.line
            elif cells is None or len(cells) != len(self.header):
                self.rejected.add(lines.line)
            else:
                yield lines.line, cells

    def _is_cut(self, cells: list[str] | None) -> bool:
        whole = cells is not None and len(cells) == len(self.header)
        return not whole or self.header[-1] not in _NEEDLESS
