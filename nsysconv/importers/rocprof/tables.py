"""Tables of rocprof: their columns in databases and CSV, and how a file is recognized."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from nsysconv.importers.printed.csv_table import header_of
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


# Our word for a column of kernels -> its names; in CSV, their case does not matter.
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
_OTHERS = (
    *("index", "queue-index", "queue_index", "tid", "sgpr", "wave_size", "fbar", "sig", "obj"),
    *("dispatchns", "completens", "durationns", "dispatch_id", "correlation_id", "kernel_id"),
)
_KNOWN = {*_OTHERS, *(name.lower() for names in KERNEL_COLUMNS.values() for name in names)}
# SQ_WAVES, TCC_HIT[0], TCC_HIT_sum, GPUBusy.
_COUNTER = re.compile(r"[A-Za-z]\w{1,60}(?:\[\d{1,3}\])?$")
NEEDLESS = frozenset({"durationns", "percentage", "correlation_id"})
"""Columns at the end of a line whose cut value does no harm."""


def counters(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return those columns of a table of kernels that are hardware counters."""
    return tuple(name for name in columns if name.lower() not in _KNOWN and _COUNTER.match(name))


def main_table(probe: Probe) -> str | None:
    """Return the table of kernels of a database; None: it is not rocprof's."""
    for name in MAIN:
        if name in probe.tables and set(Layout.V1.value) <= set(probe.tables[name].columns):
            return name
    return None


def layout_of(probe: Probe) -> Layout | None:
    """Return which table a text is; None: it begins with no header of rocprof."""
    cells = header_of(probe.head)
    for layout in Layout:
        if cells[: len(layout.value)] == layout.value:
            if layout is Layout.TOTALS and len(cells) != len(layout.value):
                return None
            return None if layout is Layout.V2 and "Kernel_Name" not in cells else layout
    return None
