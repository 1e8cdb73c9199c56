"""Where the host's time goes by source line, as a line profiler recorded it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nsysconv.errors import NotRecorded
from nsysconv.queries.columns import (
    bytes_column,
    count_column,
    duration_column,
    key_column,
    values_by_column,
)
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.report import Column, Unit
from nsysconv.timeline.timeline import Timeline

COLUMNS = (
    key_column("profile", "Label of the profile."),
    key_column("file", "Source file; folders of absolute paths are removed."),
    Column("line", Unit.ID, "Line number.", key=True),
    key_column("function", "Function that contains the line; null: not recorded."),
    duration_column("host_sum_ns", "Host time spent in the line."),
    Column("function_pct", Unit.PCT, "Share of the host time of all lines in the function."),
    Column(
        "program_pct",
        Unit.PCT,
        "Share of the host time of all lines; null: times include called functions.",
    ),
    count_column("hit_count", "Number of times the line ran; null: not recorded."),
    duration_column("host_avg_ns", "Mean host time per execution of the line.", real=True),
    Column("gpu_pct", Unit.PCT, "Share of the GPU utilization measured while lines ran."),
    duration_column("python_ns", "Part of the host time in the Python interpreter.", brief=False),
    duration_column("native_ns", "Part of the host time in native code.", brief=False),
    duration_column(
        "system_ns",
        "Part of the host time in the operating system, including waiting.",
        brief=False,
    ),
    bytes_column("alloc_bytes", "Host memory allocated by the line."),
    bytes_column(
        "peak_bytes", "Peak host memory in use from allocations of the line.", brief=False
    ),
    bytes_column("gpu_peak_bytes", "Peak GPU memory in use while the line ran.", brief=False),
)
# A line of which none is above zero did not run.
_QUANTITIES = ("sum_ns", "hits", "gpu_pct", "alloc_bytes", "peak_bytes", "gpu_peak_bytes")
_NAMES = ("file_id", "function_id")
_IN_PART = "which lines ran in a part of the recording"


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per line that ran, most time first. Raises NotRecorded for a slice."""
    if not timeline.is_whole:
        raise NotRecorded("cpu_lines", [_IN_PART])
    profile = timeline.profile
    every = profile.rows("cpu_line")
    names = profile.names({row[name] for row in every for name in _NAMES if row[name] is not None})
    of_function: Counter[tuple[Any, ...]] = Counter()
    for row in every:
        of_function[_function(row)] += row["sum_ns"] or 0
    program = sum(of_function.values())
    rows = []
    for row in every:
        if not any(row[name] for name in _QUANTITIES):
            continue
        time, hits = row["sum_ns"], row["hits"]
        in_function = None if row["function_id"] is None else of_function[_function(row)]
        in_program = None if row["includes_calls"] else program
        rows.append({
            **row, "file": names[row["file_id"]], "function": names.get(row["function_id"]),
            "host_sum_ns": time, "function_pct": _percent(time, in_function),
            "program_pct": _percent(time, in_program), "hit_count": hits,
            "host_avg_ns": None if time is None or not hits else time / hits,
        })  # fmt: skip
    rows.sort(key=lambda row: (-(row["host_sum_ns"] or 0), row["file"], row["line"], row["id"]))
    return values_by_column(rows, COLUMNS[1:])


def _function(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["file_id"], row["function_id"], row["function_line"]


def _percent(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


CPU_LINES = Query(columns=COLUMNS, compute=compute)
