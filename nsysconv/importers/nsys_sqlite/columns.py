"""Columns that mean the same in many tables of an export: times, processes, threads and devices.

A `globalTid` or `globalPid` packs a virtual machine, a process (24 bits) and a thread (24 bits) into
one number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from nsysconv.importers.sqlite_columns import Expression, SourceColumns
from nsysconv.importers.sqlite_mapping import MappingContext, TableMapping, interval

_ID_MASK = 0xFFFFFF


@dataclass(frozen=True)
class Metric:
    """One metric of one GPU as `GPU_METRICS` numbers it, and what its samples become."""

    type_id: int
    metric_id: int
    name_id: int
    device_id: int | None
    unit: int
    is_clock: bool


@dataclass(frozen=True, kw_only=True)
class ExportContext(MappingContext):
    """What the survey of an export decides for a mapping.

    `device`: (pid, ordinal) as expressions -> our device_id. `only_pid`: the process of all rows of this
    table, if there is only one. `driver_names`: name ids of driver functions, for API tables that do not
    distinguish the layers; None for others. `metrics`: those that were sampled. `balanced`: every release
    of device memory has its allocation. `nameless`: the file lacks names of kernels.
    """

    device: Callable[[Expression, Expression], Expression]
    only_pid: int | None
    driver_names: tuple[int, ...] | None
    metrics: tuple[Metric, ...] = ()
    balanced: bool = False
    nameless: bool = False


ExportMapping = TableMapping[ExportContext]


def process_of(global_id: int) -> int | None:
    """Return the process of a global id; 0 names none."""
    return global_id >> 24 & _ID_MASK or None


def thread_of(global_tid: int) -> tuple[int, int]:
    """Return the process, 0 for none, and thread of a global id."""
    return global_tid >> 24 & _ID_MASK, global_tid & _ID_MASK


def tid_column(global_tid: Expression) -> Expression:
    """Return the thread of a global id."""
    return global_tid.op("&")(_ID_MASK)


def pid_column(c: SourceColumns, column: str, context: ExportContext) -> Expression:
    """Return the process of a global id; 0 names none, which is looked for only in careful selects."""
    number = c[column].op(">>")(24).op("&")(_ID_MASK)
    return sa.func.nullif(number, 0) if context.careful else number


def gpu_pid_column(c: SourceColumns, context: ExportContext) -> Expression:
    """Return the process of a row of GPU work."""
    if context.only_pid is not None:
        return sa.literal_column(str(context.only_pid))
    return pid_column(c, "globalPid", context) if "globalPid" in c else sa.null()


def moment(time: Expression, context: ExportContext) -> Expression:
    """Return a time of the source as ours."""
    if not context.zero:
        return time
    # Among times of day, 0 is no time.
    return (sa.func.nullif(time, 0) if context.careful else time) - context.zero


def time_columns(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    """Return when a row began and how long it took."""
    return interval(c, moment(c["start"], context), context)


def thread_columns(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    """Return the process and thread of a row."""
    return {"pid": pid_column(c, "globalTid", context), "tid": tid_column(c["globalTid"])}


def gpu_columns(c: SourceColumns, context: ExportContext) -> dict[str, Expression]:
    """Return where a row of GPU work ran, and the id of its call."""
    pid = gpu_pid_column(c, context)
    return {
        "pid": pid,
        "device_id": context.device(pid, c["deviceId"]),
        "context_id": c["contextId"],
        "stream_id": c["streamId"],
        "correlation_id": c["correlationId"],
    }
