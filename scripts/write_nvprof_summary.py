"""Write a process of a workload as the summaries that nvprof prints when it is asked for nothing else.

Ranges stand in a block of their own, which repeats the GPU work and calls inside each of them;
migrations of managed memory in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nvprof_spelling import (
    SIZES,
    TIMES,
    TOTAL,
    SummaryUnits,
    banner,
    decimal,
    device,
    fitting,
    function,
    quoted,
    size,
    suffixed,
    time,
)
from workload import Kernel, Memcpy, Memset, Process, Range, Workload
from write_nvprof_database import thread_number

GPU, API, RANGE = "GPU activities", "API calls", "Range"
UNNAMED = "<unnamed>"
WAYS = {"HtoD": "Host To Device", "DtoH": "Device To Host", "DtoD": "Device To Device"}
HEADINGS = ("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")

# Durations by name, by group.
Groups = dict[str, dict[str, list[int]]]


@dataclass(frozen=True)
class Total:
    """One row of a summary. The mean is a whole number of ns."""

    percent: float
    time_ns: int
    calls: int
    avg_ns: int
    min_ns: int
    max_ns: int
    name: str


def totals(durations: dict[str, list[int]]) -> list[Total]:
    """Return the rows of one group, most time first; percentages are of the group."""
    whole = sum(sum(found) for found in durations.values())
    rows = [
        Total(100 * sum(found) / whole if whole else 0.0, sum(found), len(found),
              sum(found) // len(found), min(found), max(found), name)
        for name, found in durations.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row.time_ns)


def groups(workload: Workload, process: Process, within: Range | None = None) -> Groups:
    """Return the process's work; `within` a range: the calls that start in it, and their work."""
    events = workload.events
    gpu: dict[str, list[int]] = {}
    api: dict[str, list[int]] = {}
    numbers = set()
    for call in events.calls:
        if call.thread.process == process and (
            within is None or (call.thread == within.thread and _inside(call.start_ns, within))
        ):
            numbers.add(call.correlation_id)
            api.setdefault(function(call.symbol), []).append(call.end_ns - call.start_ns)
    named: list[tuple[str, Kernel | Memcpy | Memset]] = [
        *((kernel.function.demangled, kernel) for kernel in events.kernels),
        *((f"[CUDA memcpy {copy.direction}]", copy) for copy in events.memcpys),
        *(("[CUDA memset]", item) for item in events.memsets),
    ]
    for name, op in named:
        if op.stream.process == process and (within is None or op.correlation_id in numbers):
            gpu.setdefault(name, []).append(op.end_ns - op.start_ns)
    return {GPU: gpu, API: api}


def _inside(start_ns: int, item: Range) -> bool:
    return item.end_ns is not None and item.start_ns <= start_ns < item.end_ns


def merged(several: list[Groups]) -> Groups:
    """Return the groups together, as ranges of the same name are."""
    found: Groups = {}
    for each in several:
        for group, durations in each.items():
            rows = found.setdefault(group, {})
            for name, values in durations.items():
                rows.setdefault(name, []).extend(values)
    return found


# -- tables


def table_text(found: Groups) -> str:
    """Return the group as one aligned table, as from CUDA 9 on."""
    heading = "{:>16}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}  {}".format("Type", *HEADINGS)
    rows = [heading]
    for group, durations in found.items():
        for number, row in enumerate(totals(durations)):
            label = f"{group}:" if number == 0 else ""
            rows.append(f"{label:>16}{_row_text(row, 9)}")
    return "\n".join(rows) + "\n"


def old_table_text(durations: dict[str, list[int]]) -> str:
    """Return one group as a table, as up to CUDA 8."""
    rows = ["{:>7}{:>10}{:>10}{:>10}{:>10}{:>10}  {}".format(*HEADINGS)]
    rows += [_row_text(row, 7) for row in totals(durations)]
    return "\n".join(rows) + "\n"


def _row_text(row: Total, width: int) -> str:
    percent = f"{row.percent:.2f}%"
    return (f"{percent:>{width}}{time(row.time_ns):>10}{row.calls:>10}{time(row.avg_ns):>10}"
            f"{time(row.min_ns):>10}{time(row.max_ns):>10}  {row.name}")  # fmt: skip


def table_csv(found: Groups, units: SummaryUnits | None, *, types: bool = True) -> str:
    """Return the group as one table of CSV; without `types` it has no column of types."""
    rows = [(group, row) for group, durations in found.items() for row in totals(durations)]
    units = units or SummaryUnits(*(
        fitting((getattr(row, f"{name}_ns") for _, row in rows), TIMES)
        for name in ("time", "avg", "min", "max")
    ))  # fmt: skip
    type_cell = [quoted("Type")] if types else []
    lines = [
        ",".join([*type_cell, *map(quoted, HEADINGS)]),
        ",".join([*([""] if types else []), "%", units.time, "", units.avg, units.min,
                  units.max, ""]),
    ]  # fmt: skip
    for group, row in rows:
        cells = [f"{row.percent:.6f}", decimal(row.time_ns, TIMES[units.time]), str(row.calls),
                 decimal(row.avg_ns, TIMES[units.avg]), decimal(row.min_ns, TIMES[units.min]),
                 decimal(row.max_ns, TIMES[units.max]), quoted(row.name)]  # fmt: skip
        lines.append(",".join([*([quoted(group)] if types else []), *cells]))
    return "\n".join(lines) + "\n"


# -- blocks


def _main_block(
    workload: Workload, process: Process, table: Callable[[Groups], str], *, types: bool
) -> str:
    found = groups(workload, process)
    text = banner(workload, process)
    if not found[GPU]:
        text += "No kernels were profiled.\n"
    if not types:
        text += table({GPU: found[GPU]}) if found[GPU] else ""
        text += f"\n=={process.pid}== API calls:\n"
        return text + (table({API: found[API]}) if found[API] else _NO_CALLS)
    kept = {group: durations for group, durations in found.items() if durations}
    text += table(kept) if kept else ""
    return text + ("" if found[API] else _NO_CALLS)


_NO_CALLS = "No API activities were profiled.\n"


def _range_block(workload: Workload, process: Process, table: Callable[[Groups], str]) -> str:
    own = [item for item in workload.events.ranges if item.thread.process == process]
    closed = [item for item in own if item.end_ns is not None]
    if not closed:
        return ""
    prefix = f"=={process.pid}=="
    domains = {d.domain_id: d.name for d in workload.events.domains if d.process == process}
    text = f"\n{prefix} NVTX result:\n"
    if invalid := sum(item.end_ns is None and item.style != "mark" for item in own):
        text += f"{prefix} Warning: Found {invalid} invalid range marker(s)\n"
    for thread in dict.fromkeys(item.thread for item in closed):
        text += f'{prefix}   Thread "{UNNAMED}" (id = {thread_number(thread)})\n'
        there = [item for item in closed if item.thread == thread]
        # The domain without a name comes last.
        for domain in sorted({item.domain_id for item in there}, key=lambda n: (n == 0, n)):
            text += f'{prefix}     Domain "{domains.get(domain, UNNAMED)}"\n'
            names = sorted({item.text for item in there if item.domain_id == domain})
            text += "\n".join(
                _one_range(workload, process, name,
                           [i for i in there if (i.domain_id, i.text) == (domain, name)], table)
                for name in names
            )  # fmt: skip
            text += "\n"
    return text.rstrip("\n") + "\n"


def _one_range(
    workload: Workload, process: Process, name: str, ranges: list[Range],
    table: Callable[[Groups], str],
) -> str:  # fmt: skip
    durations = [item.end_ns - item.start_ns for item in ranges if item.end_ns is not None]
    inside = merged([groups(workload, process, item) for item in ranges])
    found = {RANGE: {name: durations}} | {k: v for k, v in inside.items() if v}
    return f'=={process.pid}==       Range "{name}"\n{table(found)}'


@dataclass(frozen=True)
class Moved:
    """One row about managed memory; `bytes` None for faults."""

    bytes: list[int] | None
    durations: list[int]
    name: str


def _moved(workload: Workload, process: Process) -> Iterator[tuple[int, list[Moved]]]:
    migrations = [item for item in workload.events.migrations if item.process == process]
    faults = [item for item in workload.events.page_faults if item.process == process]
    for ordinal in sorted({item.ordinal for item in migrations}):
        rows = []
        for way, name in WAYS.items():
            own = [m for m in migrations if (m.ordinal, m.direction) == (ordinal, way)]
            rows.append(Moved([m.bytes for m in own], [m.end_ns - m.start_ns for m in own], name))
        groups_of_faults = [f.end_ns - f.start_ns for f in faults if f.ordinal == ordinal]
        rows.append(Moved(None, groups_of_faults, "Gpu page fault groups"))
        yield ordinal, [row for row in rows if row.durations]


def _cpu_faults(workload: Workload, process: Process) -> str:
    count = sum(fault.count for fault in workload.events.page_faults
                if fault.process == process and fault.ordinal is None)  # fmt: skip
    return f"Total CPU Page faults: {count}\n" if count else ""


def _memory_text(workload: Workload, process: Process) -> str:
    text = ""
    for ordinal, rows in _moved(workload, process):
        text += f'Device "{device(process, ordinal)}"\n'
        text += "   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name\n"
        for row in rows:
            sizes = ["-"] * 4
            if row.bytes is not None:
                mean = sum(row.bytes) / len(row.bytes)
                sizes = [size(int(mean) if mean.is_integer() else mean), size(min(row.bytes)),
                         size(max(row.bytes)), size(sum(row.bytes), TOTAL)]  # fmt: skip
            text += (f"{len(row.durations):>8}{sizes[0]:>10}{sizes[1]:>10}{sizes[2]:>10}"
                     f"{sizes[3]:>12}{time(sum(row.durations), TOTAL):>12}  {row.name}\n")  # fmt: skip
    return _memory_block(process, text, _cpu_faults(workload, process))


def _memory_csv(workload: Workload, process: Process) -> str:
    found = list(_moved(workload, process))
    headings = ("Device", "Count", "Avg Size", "Min Size", "Max Size", "Total Size", "Total Time",
                "")  # fmt: skip
    text = ",".join(map(quoted, headings)) + "\n" if found else ""
    for ordinal, rows in found:
        for row in rows:
            if row.bytes is None:
                cells = [f"{len(row.durations)}B"] * 4 + ["0.000000"]
            else:
                mean = sum(row.bytes) / len(row.bytes)
                cells = [suffixed(value, SIZES) for value in
                         (mean, min(row.bytes), max(row.bytes), sum(row.bytes))]  # fmt: skip
                cells.append(suffixed(sum(row.durations), TIMES))
            text += ",".join([quoted(device(process, ordinal)), str(len(row.durations)), *cells,
                              quoted(row.name)]) + "\n"  # fmt: skip
    return _memory_block(process, text, _cpu_faults(workload, process))


def _memory_block(process: Process, table: str, faults: str) -> str:
    if not table and not faults:
        return ""
    return f"\n=={process.pid}== Unified Memory profiling result:\n{table}{faults}"


# -- logs


def summary_text(workload: Workload, process: Process, *, types: bool = True) -> str:
    """Return the summary; `types` False: two tables without that column, as up to CUDA 8."""

    def table(found: Groups) -> str:
        return table_text(found) if types else "\n".join(map(old_table_text, found.values()))

    return (
        _main_block(workload, process, table, types=types)
        + (_range_block(workload, process, table) if types else "")
        + _memory_text(workload, process)
    )


def summary_csv(
    workload: Workload, process: Process, units: SummaryUnits | None = None, *, types: bool = True
) -> str:
    """Return the summary with `--csv`; `units` None: for each table those that nvprof takes by itself."""

    def table(found: Groups) -> str:
        return table_csv(found, units, types=types)

    return (
        _main_block(workload, process, table, types=types)
        + (_range_block(workload, process, table) if types else "")
        + _memory_csv(workload, process)
    )
