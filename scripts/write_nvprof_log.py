"""Write a process of a workload as the logs that nvprof prints.

Functions give the whole text of a log, banners included. What nvprof cannot print is left out: waits,
results and threads of calls, overhead; ranges are in summaries only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from nvprof_rows import Line, call_lines, lines
from nvprof_spelling import (
    NAMED_BY,
    RATES,
    SIZES,
    TIMES,
    Units,
    banner,
    decimal,
    device,
    fitting,
    quoted,
    rate,
    size,
    suffixed,
    time,
)
from workload import Kernel, Process, Workload
from write_nvprof_summary import summary_csv as summary_csv
from write_nvprof_summary import summary_text as summary_text

LEGEND = """
Regs: Number of registers used per CUDA thread. This number includes registers used internally by \
the CUDA driver and/or tools and can be more than what the compiler shows.
SSMem: Static shared memory allocated per CUDA block.
DSMem: Dynamic shared memory allocated per CUDA block.
"""
KINDS_LEGEND = """\
SrcMemType: The type of source memory accessed by memory operation/copy
DstMemType: The type of destination memory accessed by memory operation/copy
"""


@dataclass(frozen=True)
class Column:
    """One column: its headings, how CSV and text spell a row's cell, and its width in text.

    `unit` is its word in the row of units. Grid and block are three columns in CSV, one in text.
    """

    csv: tuple[str, ...]
    unit: str
    cells: Callable[[Line], tuple[str, ...]]
    text: str = ""
    width: int = 0
    cell: Callable[[Line], str | None] = lambda line: None


def fitting_units(rows: Iterable[Line]) -> Units:
    """Return the units that nvprof takes by itself, one for each column."""
    found = list(rows)
    kernels = [line.kernel for line in found if line.kernel]
    return Units(
        fitting((line.start_ns for line in found), TIMES),
        fitting((line.dur_ns or 0 for line in found), TIMES),
        fitting((kernel.static_shared_bytes for kernel in kernels), SIZES),
        fitting((kernel.dynamic_shared_bytes for kernel in kernels), SIZES),
        fitting((line.bytes or 0 for line in found), SIZES),
        fitting((line.rate or 0 for line in found), RATES),
    )


def _columns(
    rows: list[Line], process: Process, units: Units, *, correlation: bool, kinds: bool,
    product: str | None = None,
) -> list[Column]:  # fmt: skip
    found = [*_time_columns(units), *_kernel_columns(units)]
    if any(line.bytes is not None for line in rows):
        found += _copy_columns(units, kinds=kinds)
    found += _place_columns(process, product)
    if any(line.peer for line in rows):
        found += _peer_columns(process, product)
    if any(line.address is not None for line in rows):
        found += _migration_columns(units)
    found.append(Column(("Name",), "", lambda line: (quoted(line.name),)))
    if correlation:
        # Migrations and faults have none.
        found.append(Column(("Correlation_ID",), "", lambda line: (_bare(line.correlation),)))
    return found


def _bare(value: object) -> str:
    return "" if value is None else str(value)


def _word(value: str | None) -> tuple[str, ...]:
    return ("" if value is None else quoted(value),)


def _time_columns(units: Units) -> list[Column]:
    start, duration = TIMES[units.start], TIMES[units.duration]
    return [
        Column(("Start",), units.start, lambda line: (decimal(line.start_ns, start),),
               "Start", 8, lambda line: time(line.start_ns)),
        Column(("Duration",), units.duration,
               lambda line: ("" if line.dur_ns is None else decimal(line.dur_ns, duration),),
               "Duration", 10, lambda line: None if line.dur_ns is None else time(line.dur_ns)),
    ]  # fmt: skip


def _kernel_columns(units: Units) -> list[Column]:
    def of(get: Callable[[Kernel], str]) -> Callable[[Line], str | None]:
        return lambda line: get(line.kernel) if line.kernel else None

    def numbers(get: Callable[[Kernel], tuple[object, ...]], count: int,
                ) -> Callable[[Line], tuple[str, ...]]:  # fmt: skip
        return lambda line: (
            tuple(str(n) for n in get(line.kernel)) if line.kernel else ("",) * count
        )

    static, dynamic = SIZES[units.static_shared], SIZES[units.dynamic_shared]
    return [
        Column(("Grid X", "Grid Y", "Grid Z"), "", numbers(lambda k: k.grid, 3),
               "Grid Size", 21, of(lambda k: "({} {} {})".format(*k.grid))),
        Column(("Block X", "Block Y", "Block Z"), "", numbers(lambda k: k.block, 3),
               "Block Size", 16, of(lambda k: "({} {} {})".format(*k.block))),
        Column(("Registers Per Thread",), "", numbers(lambda k: (k.registers,), 1),
               "Regs*", 10, of(lambda k: str(k.registers))),
        Column(("Static SMem",), units.static_shared,
               numbers(lambda k: (decimal(k.static_shared_bytes, static),), 1),
               "SSMem*", 10, of(lambda k: size(k.static_shared_bytes))),
        Column(("Dynamic SMem",), units.dynamic_shared,
               numbers(lambda k: (decimal(k.dynamic_shared_bytes, dynamic),), 1),
               "DSMem*", 10, of(lambda k: size(k.dynamic_shared_bytes))),
    ]  # fmt: skip


def _copy_columns(units: Units, *, kinds: bool) -> list[Column]:
    sizes, rates = SIZES[units.size], RATES[units.rate]
    found = [
        Column(("Size",), units.size,
               lambda line: ("" if line.bytes is None else decimal(line.bytes, sizes),),
               "Size", 10, lambda line: None if line.bytes is None else size(line.bytes)),
        Column(("Throughput",), units.rate,
               lambda line: ("" if line.rate is None else decimal(line.rate, rates),),
               "Throughput", 12, lambda line: None if line.rate is None else rate(line.rate)),
    ]  # fmt: skip
    if kinds:
        found += [
            Column(("SrcMemType",), "", lambda line: _word(line.kinds[0]),
                   "SrcMemType", 12, lambda line: line.kinds[0]),
            Column(("DstMemType",), "", lambda line: _word(line.kinds[1]),
                   "DstMemType", 12, lambda line: line.kinds[1]),
        ]  # fmt: skip
    return found


def _place_columns(process: Process, product: str | None) -> list[Column]:
    def devices(line: Line) -> tuple[str, ...]:
        return tuple(quoted(device(process, n, product)) for n in line.devices) or ("",)

    def shown(line: Line) -> str | None:
        names = [f"{device(process, n, product)[:NAMED_BY]:>{NAMED_BY}}" for n in line.devices]
        return "  ".join(names) or None

    def stream(line: Line, name: str) -> str | None:
        return str(getattr(line.stream, name)) if line.stream else None

    return [
        Column(("Device",), "", devices, "Device", 17, shown),
        Column(("Context",), "", lambda line: _word(stream(line, "context_id")),
               "Context", 10, lambda line: stream(line, "context_id")),
        Column(("Stream",), "", lambda line: _word(stream(line, "stream_id")),
               "Stream", 10, lambda line: stream(line, "stream_id")),
    ]  # fmt: skip


def _peer_columns(process: Process, product: str | None) -> list[Column]:
    return [*_peer_end("Src", 0, process, product), *_peer_end("Dst", 2, process, product)]


def _peer_end(heading: str, at: int, process: Process, product: str | None) -> list[Column]:

    def name(line: Line) -> str | None:
        return device(process, line.peer[at], product) if line.peer else None

    def short(line: Line) -> str | None:
        return (name(line) or "")[:NAMED_BY] or None

    def context(line: Line) -> str | None:
        return str(line.peer[at + 1]) if line.peer else None

    return [
        Column((f"{heading} Dev",), "", lambda line: _word(name(line)),
               f"{heading} Dev", 17, short),
        Column((f"{heading} Ctx",), "", lambda line: _word(context(line)),
               f"{heading} Ctx", 10, context),
    ]  # fmt: skip


def _migration_columns(units: Units) -> list[Column]:
    factor = SIZES[units.migrated]

    def cell(line: Line) -> tuple[str, ...]:
        value = line.migrated
        return (decimal(value, factor),) if isinstance(value, int) else _word(value)

    def shown(line: Line) -> str | None:
        value = line.migrated
        return suffixed(value, SIZES) if isinstance(value, int) else value

    def address(line: Line) -> str | None:
        return None if line.address is None else f"{line.address:#x}"

    return [
        Column(("Unified Memory",), units.migrated, cell, "Unified Memory", 22, shown),
        Column(("Virtual Address",), "", lambda line: _word(address(line)),
               "Virtual Address", 17, address),
    ]  # fmt: skip


# -- logs


def table_csv(columns: list[Column], rows: Iterable[Line]) -> str:
    """Return a table in CSV: header, row of units, rows."""
    header = ",".join(quoted(name) for column in columns for name in column.csv)
    units = ",".join(column.unit for column in columns for _ in column.csv)
    body = [",".join(cell for column in columns for cell in column.cells(line)) for line in rows]
    return "\n".join([header, units, *body]) + "\n"


def gpu_trace_csv(
    workload: Workload, process: Process, units: Units | None = None, *,
    correlation: bool = True, kinds: bool | None = None, calls: bool = False,
) -> str:  # fmt: skip
    """Return `--print-gpu-trace --csv`; with `calls` also `--print-api-trace`, in the same table.

    `units` None: those that nvprof takes by itself. `correlation` False: as of CUDA 8 and before,
    without kinds of memory unless `kinds` says otherwise.
    """
    rows = lines(workload, process, calls=calls)
    if not rows:
        return banner(workload, process) + "No kernels were profiled.\n"
    columns = _columns(rows, process, units or fitting_units(rows), correlation=correlation,
                       kinds=correlation if kinds is None else kinds)  # fmt: skip
    return banner(workload, process) + table_csv(columns, rows)


def api_trace_csv(
    workload: Workload, process: Process, units: Units | None = None, *, correlation: bool = True
) -> str:
    """Return `--print-api-trace --csv`; only start and duration of `units` matter."""
    rows = call_lines(workload, process)
    if not rows:
        return banner(workload, process) + "No API activities were profiled.\n"
    columns = _time_columns(units or fitting_units(rows))
    columns.append(Column(("Name",), "", lambda line: (quoted(line.name),)))
    if correlation:
        columns.append(Column(("Correlation_ID",), "", lambda line: (str(line.correlation),)))
    return banner(workload, process) + table_csv(columns, rows)


def table_text(columns: list[Column], rows: Iterable[Line]) -> str:
    """Return an aligned table; the name, which may be of any length, comes last."""
    shown = [column for column in columns if column.text]
    found = ["".join(f"{column.text:>{column.width}}" for column in shown) + "  Name"]
    for line in rows:
        cells = [(column.cell(line) or "-", column.width) for column in shown]
        # Two devices are longer than their column.
        found.append("".join(f"{cell:>{width}}" if len(cell) <= width else f"  {cell}"
                             for cell, width in cells) + f"  {line.name}")  # fmt: skip
    return "\n".join(found) + "\n"


def gpu_trace_text(
    workload: Workload, process: Process, *, kinds: bool = True, product: str | None = None,
    calls: bool = False,
) -> str:  # fmt: skip
    """Return `--print-gpu-trace`; with `calls` also `--print-api-trace`, in the same table.

    Devices are cut to 15 characters, number and all; `product` names them in place of their names.
    """
    rows = lines(workload, process, calls=calls)
    if not rows:
        return banner(workload, process) + "No kernels were profiled.\n"
    columns = _columns(rows, process, Units(), correlation=False, kinds=kinds, product=product)
    copied = kinds and any(line.bytes is not None for line in rows)
    table = table_text(columns, rows)
    return banner(workload, process) + table + LEGEND + (KINDS_LEGEND if copied else "")


def api_trace_text(workload: Workload, process: Process) -> str:
    """Return `--print-api-trace`."""
    rows = call_lines(workload, process)
    if not rows:
        return banner(workload, process) + "No API activities were profiled.\n"
    return banner(workload, process) + table_text(_time_columns(Units()), rows)


def write_log(path: Path, text: str) -> None:
    """Write the text to a file, with its line ends."""
    path.write_bytes(text.encode())
