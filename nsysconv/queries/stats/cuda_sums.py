"""The summaries of `nsys stats` of kernels, memory operations and API functions, alone and together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import count_column, key_column
from nsysconv.queries.contract import Request
from nsysconv.queries.stats import cuda_names, summaries
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import API_CALL, KERNEL, MEMCPY, MEMSET, MIGRATION, Total, totals

_MEMORY_KINDS = (MEMCPY, MIGRATION, MEMSET)


# -- rows


def _call_rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
    """Return one row per symbol, most time first, equal ones as the source numbers the symbols.

    Totals of two versions of a function may have the same name: they are not added up.
    """
    if Fact.API_CALLS in timeline.profile.facts:
        columns = timeline.columns("api_call", ("dur_ns", "name_id"))
        group, (name_ids,) = factorize(columns["name_id"])
        texts = timeline.profile.names(name_ids)
        labels = [(cuda_names.function_name(texts[i]),) for i in name_ids.tolist()]
        rows = summaries.event_rows(group, columns["dur_ns"], labels)
    else:
        rows = [
            row
            for total in totals(timeline, API_CALL)
            for row in summaries.total_rows(
                [total], lambda total: (cuda_names.function_name(total.symbol),)
            )
        ]
    return sorted(rows, key=lambda row: -(row.total or 0))


def _kernel_rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
    """Return one row per kernel name; totals have one spelling only."""
    if Fact.KERNELS not in timeline.profile.facts:
        return summaries.total_rows(totals(timeline, KERNEL), lambda total: (total.name,))
    names = cuda_names.kernel_names(timeline, request)
    dur = timeline.columns("kernel", ("dur_ns",))["dur_ns"]
    return summaries.event_rows(names.number, dur, [(text,) for text in names.texts])


def _kernel_size_rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
    names = cuda_names.kernel_names(timeline, request)
    columns = timeline.columns("kernel", ("dur_ns", *cuda_names.AXES))
    group, keys = factorize(names.number, *(columns[axis] for axis in cuda_names.AXES))
    labels = [
        (cuda_names.launch_size(*sizes[:3]), cuda_names.launch_size(*sizes[3:]), names.texts[name])
        for name, *sizes in zip(*(values.tolist() for values in keys), strict=True)
    ]
    return summaries.event_rows(group, columns["dur_ns"], labels)


def _memory_rows(timeline: Timeline, quantity: str, figures: Sequence[str]) -> list[summaries.Row]:
    if Fact.MEMCPYS not in timeline.profile.facts:
        return summaries.total_rows(totals(timeline, *_MEMORY_KINDS), _memory_labels, figures)
    copies = timeline.columns("memcpy", (quantity, "direction"))
    migrations = timeline.columns("unified_memory_event", (quantity, "direction"))
    memsets = timeline.columns("memset", (quantity,))
    numbers = np.concatenate(
        (
            cuda_names.copy_numbers(copies["direction"]),
            cuda_names.copy_numbers(migrations["direction"], migration=True),
            np.full(len(memsets[quantity]), cuda_names.MEMSET_NUMBER),
        )
    )
    values = np.concatenate([table[quantity] for table in (copies, migrations, memsets)])
    group, (distinct,) = factorize(numbers)
    return summaries.event_rows(
        group, values, [(cuda_names.MEMORY_OPS[i],) for i in distinct.tolist()]
    )


def _memory_time_rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
    return _memory_rows(timeline, "dur_ns", summaries.TIMES)


def _memory_size_rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
    return _memory_rows(timeline, "bytes", summaries.SIZES)


def _memory_labels(total: Total) -> tuple[str]:
    if total.kind == MEMSET:
        return (cuda_names.MEMORY_OPS[cuda_names.MEMSET_NUMBER],)
    direction = np.array([MISSING if total.direction is None else total.direction])
    return (
        cuda_names.MEMORY_OPS[
            int(cuda_names.copy_numbers(direction, migration=total.kind == MIGRATION)[0])
        ],
    )


def _with_category(category: str, rows: Sequence[summaries.Row]) -> list[summaries.Row]:
    return [replace(row, labels=(category, *row.labels)) for row in rows]


def _gpu_rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
    return [
        *_with_category("CUDA_KERNEL", _kernel_rows(timeline, request)),
        *_with_category("MEMORY_OPER", _memory_time_rows(timeline, request)),
    ]


def _activity_rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
    calls = _with_category("CUDA_API", _call_rows(timeline, request))
    return [*calls, *_gpu_rows(timeline, request)]


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
    text = f"{' and '.join(missing)} are not recorded and have no rows"
    return (Note("activities-partial", Severity.INFO, text),)


# -- tables


_KERNEL_COUNT = count_column("kernel_count", "Number of executions.")
_KERNEL_NAME = key_column("name", "Name of the kernel.")
_MEMORY_COUNT = count_column("memory_op_count", "Number of operations.")
_MEMORY_NAME = key_column("operation", "Memory operation: direction of the copies, or memset.")
_CATEGORY = key_column("category", "CUDA_API, CUDA_KERNEL or MEMORY_OPER.")
_OPERATION = key_column("operation", "Name of the function or kernel, or the memory operation.")

CUDA_API_SUM = summaries.table(
    summaries.time_columns(
        "api",
        count_column("call_count", "Number of calls."),
        key_column("name", "Name of the function; versions have rows of their own."),
    ),
    _call_rows,
    order=list,  # `_call_rows` has an order of its own
)
CUDA_GPU_KERN_SUM = summaries.table(
    summaries.time_columns("kernel", _KERNEL_COUNT, _KERNEL_NAME),
    _kernel_rows,
    options=cuda_names.KERNEL_OPTIONS,
)
CUDA_GPU_KERN_GB_SUM = summaries.table(
    summaries.time_columns(
        "kernel",
        _KERNEL_COUNT,
        key_column("grid", "Grid size in blocks, in x, y and z."),
        key_column("block", "Block size in threads, in x, y and z."),
        _KERNEL_NAME,
    ),
    _kernel_size_rows,
    options=cuda_names.KERNEL_OPTIONS,
)
CUDA_GPU_MEM_TIME_SUM = summaries.table(
    summaries.time_columns("memory_op", _MEMORY_COUNT, _MEMORY_NAME), _memory_time_rows
)
CUDA_GPU_MEM_SIZE_SUM = summaries.table(
    summaries.size_columns(_MEMORY_COUNT, _MEMORY_NAME), _memory_size_rows
)
CUDA_GPU_SUM = summaries.table(
    summaries.time_columns(
        "gpu_op",
        count_column("gpu_op_count", "Number of kernels or memory operations."),
        _CATEGORY,
        _OPERATION,
    ),
    _gpu_rows,
    notes=_missing_rows_notes,
    options=cuda_names.KERNEL_OPTIONS,
)
CUDA_API_GPU_SUM = summaries.table(
    summaries.time_columns(
        "activity",
        count_column("activity_count", "Number of calls, kernels or operations."),
        _CATEGORY,
        _OPERATION,
    ),
    _activity_rows,
    notes=_missing_rows_notes,
    options=cuda_names.KERNEL_OPTIONS,
)
