"""Where the host's time goes by source line, as a line profiler recorded it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import (
    bytes_column,
    count_column,
    duration_column,
    key_column,
    values_by_column,
)
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.queries.operators import NO_OPERATOR
from nsysconv.report import Column, Unit
from nsysconv.timeline.line_operators import Line, LineOperators, line_operators
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
    replace(
        duration_column(
            "device_sum_ns",
            "Total duration of the GPU operations launched by operators whose call stack, in the "
            "joined timeline, names the line.",
        ),
        optional=True,
    ),
    Column(
        "operators",
        Unit.TEXT,
        "Names of these operators, most GPU time first, then most host time; [no operator]: a "
        "Python function launched the work.",
        optional=True,
    ),
    Column(
        "named_by",
        Unit.TEXT,
        "What call stacks name: the line, or its function, whose lines all have the same operators.",
        optional=True,
    ),
)
# A line of which none is above zero did not run.
_QUANTITIES = ("sum_ns", "hits", "gpu_pct", "alloc_bytes", "peak_bytes", "gpu_peak_bytes")
_NAMES = ("file_id", "function_id")
_MOST_OPERATORS = 3
_ADVICE = "torch.profiler records them with `with_stack=True`."
_IN_PART = "which lines ran in a part of the recording"


def compute(timeline: Timeline, request: Request) -> Result:
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
    joined, notes = _operators(timeline, every, names)
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
            **joined.get(row["id"], {}),
        })  # fmt: skip
    rows.sort(key=lambda row: (-(row["host_sum_ns"] or 0), row["file"], row["line"], row["id"]))
    return Result(values_by_column(rows, COLUMNS[1:]), notes=notes)


def _operators(
    timeline: Timeline, every: list[dict[str, Any]], names: Mapping[int, str]
) -> tuple[dict[int, dict[str, Any]], tuple[Note, ...]]:
    # The columns of operators, by the row's id, where a timeline was joined.
    if not timeline.profile.facts & {Fact.KERNELS, Fact.OPERATORS, Fact.API_CALLS}:
        return {}, ()
    lines = [
        Line(
            names[row["file_id"]], row["line"], names.get(row["function_id"]), row["function_line"]
        )
        for row in every
    ]
    found = line_operators(timeline, lines, any(row["includes_calls"] for row in every))
    if found is None:
        advice = timeline.profile.advice.get(Fact.PYTHON_FUNCTIONS, _ADVICE)
        text = f"the timeline has no call stacks, which name lines. {advice}"
        return {}, (Note("lines-without-stacks", Severity.INFO, text),)
    if not found:
        text = "no call stack names one of these lines: the timeline may be of another program"
        return {}, (Note("lines-not-in-stacks", Severity.INFO, text, len(every)),)
    return {every[place]["id"]: _values(each) for place, each in found.items()}, ()


def _values(of: LineOperators) -> dict[str, Any]:
    def order(name: str) -> tuple[int, int, str]:
        return -of.device_ns[name], -of.host_ns[name], name

    first = sorted(of.device_ns, key=order)[:_MOST_OPERATORS]
    more = len(of.device_ns) - len(first)
    listed = [*(name or NO_OPERATOR for name in first), *([f"{more} more"] if more else [])]
    return {
        "device_sum_ns": sum(of.device_ns.values()),
        "operators": ", ".join(listed),
        "named_by": of.level,
    }


def _function(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["file_id"], row["function_id"], row["function_line"]


def _percent(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


CPU_LINES = Query(columns=COLUMNS, compute=compute)
