"""The summaries of `nsys stats` of kernels, memory operations and API functions, alone and together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.contract import Array, ColumnValues, Query, Request, Result
from nsysconv.queries.stats.cuda_names import (
    AXES,
    KERNEL_OPTIONS,
    MEMORY_OPS,
    MEMSET_NUMBER,
    copy_numbers,
    function_name,
    kernel_names,
    launch_size,
)
from nsysconv.queries.stats.summaries import (
    SummaryRow,
    largest_first,
    size_columns,
    size_rows,
    size_table,
    summary_rows,
    time_columns,
    time_rows,
    time_table,
)
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import (
    API_CALL,
    GPU_KINDS,
    KERNEL,
    MEMCPY,
    MEMSET,
    MIGRATION,
    Total,
    totals,
)
from nsysconv.units import Unit

_MEMORY_KINDS = (MEMCPY, MIGRATION, MEMSET)
_MEMORY_FACTS = {Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.UNIFIED_MEMORY_TOTALS}


# -- rows


def _call_rows(timeline: Timeline) -> list[SummaryRow]:
    """Return one row per symbol, most time first, equal ones as the source numbers the symbols.

    Totals of two versions of a function may have the same name: they are not added up.
    """
    if Fact.API_CALLS in timeline.profile.facts:
        columns = timeline.columns("api_call", ("dur_ns", "name_id"))
        group, (name_ids,) = factorize(columns["name_id"])
        texts = timeline.profile.names(name_ids)
        labels = [(function_name(texts[i]),) for i in name_ids.tolist()]
        rows = summary_rows(group, columns["dur_ns"], labels)
    else:
        rows = [
            row
            for total in totals(timeline, API_CALL)
            for row in time_rows([total], lambda total: (function_name(total.symbol),))
        ]
    return sorted(rows, key=lambda row: -(row.total or 0))


def _kernel_rows(timeline: Timeline, request: Request) -> list[SummaryRow]:
    """Return one row per kernel name; totals have one spelling only."""
    if Fact.KERNELS not in timeline.profile.facts:
        return time_rows(totals(timeline, KERNEL), lambda total: (total.name,))
    names = kernel_names(timeline, request)
    dur = timeline.columns("kernel", ("dur_ns",))["dur_ns"]
    return summary_rows(names.number, dur, [(text,) for text in names.texts])


def _kernel_size_rows(timeline: Timeline, request: Request) -> list[SummaryRow]:
    names = kernel_names(timeline, request)
    columns = timeline.columns("kernel", ("dur_ns", *AXES))
    group, keys = factorize(names.number, *(columns[axis] for axis in AXES))
    labels = [
        (launch_size(*sizes[:3]), launch_size(*sizes[3:]), names.texts[name])
        for name, *sizes in zip(*(values.tolist() for values in keys), strict=True)
    ]
    return summary_rows(group, columns["dur_ns"], labels)


def _memory_time_rows(timeline: Timeline) -> list[SummaryRow]:
    if Fact.MEMCPYS not in timeline.profile.facts:
        return time_rows(totals(timeline, *_MEMORY_KINDS), _memory_labels)
    ops = _memory_ops(timeline)
    return summary_rows(ops.name, ops.dur, ops.labels)


def _memory_size_rows(timeline: Timeline) -> list[SummaryRow]:
    if Fact.MEMCPYS not in timeline.profile.facts:
        return size_rows(totals(timeline, *_MEMORY_KINDS), _memory_labels)
    ops = _memory_ops(timeline)
    return summary_rows(ops.name, ops.bytes, ops.labels)


@dataclass(frozen=True)
class _MemoryOps:
    """The slice's copies, migrations and memory sets; `name` numbers `labels`."""

    name: Array
    dur: Array
    bytes: Array
    labels: list[tuple[str]]


def _memory_ops(timeline: Timeline) -> _MemoryOps:
    names = ("dur_ns", "bytes")
    copies = timeline.columns("memcpy", (*names, "direction"))
    migrations = timeline.columns("unified_memory_event", (*names, "direction"))
    memsets = timeline.columns("memset", names)
    numbers = np.concatenate(
        (
            copy_numbers(copies["direction"]),
            copy_numbers(migrations["direction"], migration=True),
            np.full(len(memsets["dur_ns"]), MEMSET_NUMBER),
        )
    )
    group, (distinct,) = factorize(numbers)
    dur, size = (
        np.concatenate([table[name] for table in (copies, migrations, memsets)]) for name in names
    )
    return _MemoryOps(group, dur, size, [(MEMORY_OPS[i],) for i in distinct.tolist()])


def _memory_labels(total: Total) -> tuple[str]:
    if total.kind == MEMSET:
        return (MEMORY_OPS[MEMSET_NUMBER],)
    direction = np.array([MISSING if total.direction is None else total.direction])
    return (MEMORY_OPS[int(copy_numbers(direction, migration=total.kind == MIGRATION)[0])],)


def _with_category(category: str, rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    return [replace(row, labels=(category, *row.labels)) for row in rows]


def _gpu_rows(timeline: Timeline, request: Request) -> list[SummaryRow]:
    return [
        *_with_category("CUDA_KERNEL", _kernel_rows(timeline, request)),
        *_with_category("MEMORY_OPER", _memory_time_rows(timeline)),
    ]


def _missing_rows_notes(timeline: Timeline) -> tuple[Note, ...]:
    """Return the note that a table of several kinds has no rows of a kind that is not recorded."""
    facts = timeline.profile.facts
    missing = [
        name
        for name, events, summed in (
            ("kernels", Fact.KERNELS, Fact.KERNEL_TOTALS),
            ("memory operations", Fact.MEMCPYS, Fact.MEMORY_TOTALS),
        )
        if events not in facts and not (summed in facts and timeline.is_whole)
    ]
    if not missing:
        return ()
    text = f"{' and '.join(missing)} are not recorded: no row is of them"
    return (Note("activities-partial", Severity.INFO, text),)


# -- tables


def _time_summary(
    columns: tuple[Column, ...],
    rows: Callable[[Timeline, Request], list[SummaryRow]],
    notes: Callable[[Timeline], tuple[Note, ...]] = lambda timeline: (),
) -> Callable[[Timeline, Request], Result]:
    """Return the `compute` of a summary of times: one row per name, most time first."""

    def compute(timeline: Timeline, request: Request) -> Result:
        ordered = largest_first(rows(timeline, request))
        return Result(time_table(columns, ordered), notes=notes(timeline))

    return compute


_KERNEL_COUNT = Column("kernel_count", Unit.COUNT, "Executions.", printed=Printed("Instances"))
_KERNEL_NAME = Column("name", Unit.TEXT, "Name of the kernel.", key=True, printed=Printed("Name"))
_MEMORY_COUNT = Column("memory_op_count", Unit.COUNT, "Operations.", printed=Printed("Count"))
_MEMORY_NAME = Column(
    "operation", Unit.TEXT, "What it does.", key=True, printed=Printed("Operation")
)
_CATEGORY = Column(
    "category",
    Unit.TEXT,
    "CUDA_API, CUDA_KERNEL or MEMORY_OPER.",
    key=True,
    printed=Printed("Category"),
)
_OPERATION = Column(
    "operation",
    Unit.TEXT,
    "The function, the kernel or what the memory operation does.",
    key=True,
    printed=Printed("Operation"),
)

_API_COLUMNS = time_columns(
    "api",
    Column("call_count", Unit.COUNT, "Calls.", printed=Printed("Num Calls")),
    Column(
        "name",
        Unit.TEXT,
        "The function; two versions of one are two rows.",
        key=True,
        printed=Printed("Name"),
    ),
)


def _api_summary(timeline: Timeline, request: Request) -> ColumnValues:
    return time_table(_API_COLUMNS, _call_rows(timeline))


CUDA_API_SUM = Query(
    title="CUDA API Summary",
    needs={Fact.API_CALLS},
    totals={Fact.API_TOTALS},
    columns=_API_COLUMNS,
    compute=_api_summary,
)

_KERNEL_COLUMNS = time_columns("kernel", _KERNEL_COUNT, _KERNEL_NAME)
CUDA_GPU_KERN_SUM = Query(
    title="CUDA GPU Kernel Summary",
    needs={Fact.KERNELS},
    totals={Fact.KERNEL_TOTALS},
    options=KERNEL_OPTIONS,
    columns=_KERNEL_COLUMNS,
    compute=_time_summary(_KERNEL_COLUMNS, _kernel_rows),
)

_KERNEL_SIZE_COLUMNS = time_columns(
    "kernel",
    _KERNEL_COUNT,
    Column("grid", Unit.TEXT, "Blocks in x, y and z.", key=True, printed=Printed("GridXYZ")),
    Column(
        "block",
        Unit.TEXT,
        "Threads of a block in x, y and z.",
        key=True,
        printed=Printed("BlockXYZ"),
    ),
    _KERNEL_NAME,
)
CUDA_GPU_KERN_GB_SUM = Query(
    title="CUDA GPU Kernel/Grid/Block Summary",
    needs={Fact.KERNELS},
    options=KERNEL_OPTIONS,
    columns=_KERNEL_SIZE_COLUMNS,
    compute=_time_summary(_KERNEL_SIZE_COLUMNS, _kernel_size_rows),
)

_MEMORY_TIME_COLUMNS = time_columns("memory_op", _MEMORY_COUNT, _MEMORY_NAME)
CUDA_GPU_MEM_TIME_SUM = Query(
    title="CUDA GPU MemOps Summary (by Time)",
    needs={Fact.MEMCPYS},
    uses=_MEMORY_FACTS,
    totals={Fact.MEMORY_TOTALS},
    columns=_MEMORY_TIME_COLUMNS,
    compute=_time_summary(
        _MEMORY_TIME_COLUMNS, lambda timeline, request: _memory_time_rows(timeline)
    ),
)

_MEMORY_SIZE_COLUMNS = size_columns(_MEMORY_COUNT, _MEMORY_NAME)


def _memory_size_summary(timeline: Timeline, request: Request) -> ColumnValues:
    return size_table(_MEMORY_SIZE_COLUMNS, largest_first(_memory_size_rows(timeline)))


CUDA_GPU_MEM_SIZE_SUM = Query(
    title="CUDA GPU MemOps Summary (by Size)",
    needs={Fact.MEMCPYS},
    uses=_MEMORY_FACTS,
    totals={Fact.MEMORY_TOTALS},
    columns=_MEMORY_SIZE_COLUMNS,
    compute=_memory_size_summary,
)

_GPU_COLUMNS = time_columns(
    "gpu_op",
    Column("gpu_op_count", Unit.COUNT, "Kernels or operations.", printed=Printed("Instances")),
    _CATEGORY,
    _OPERATION,
)
CUDA_GPU_SUM = Query(
    title="CUDA GPU Summary (Kernels/MemOps)",
    needs={Fact.KERNELS},
    uses={Fact.MEMCPYS, *_MEMORY_FACTS},
    totals={Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS},
    options=KERNEL_OPTIONS,
    columns=_GPU_COLUMNS,
    compute=_time_summary(_GPU_COLUMNS, _gpu_rows, _missing_rows_notes),
)

_ACTIVITY_COLUMNS = time_columns(
    "activity",
    Column(
        "activity_count", Unit.COUNT, "Calls, kernels or operations.", printed=Printed("Instances")
    ),
    _CATEGORY,
    _OPERATION,
)


def _activity_rows(timeline: Timeline, request: Request) -> list[SummaryRow]:
    calls = _with_category("CUDA_API", _call_rows(timeline))
    return [*calls, *_gpu_rows(timeline, request)]


CUDA_API_GPU_SUM = Query(
    title="CUDA Summary (API/Kernels/MemOps)",
    needs={Fact.API_CALLS},
    uses={Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, *GPU_KINDS},
    totals={Fact.API_TOTALS},
    options=KERNEL_OPTIONS,
    columns=_ACTIVITY_COLUMNS,
    compute=_time_summary(_ACTIVITY_COLUMNS, _activity_rows, _missing_rows_notes),
)
