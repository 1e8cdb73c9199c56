"""What mappings of the tables of an export share: what its survey decided, times, threads, devices.

A `globalTid` or `globalPid` packs a virtual machine, a process (24 bits) and a thread (24 bits) into one
number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from nsysconv.importers import sqlite_mapping
from nsysconv.importers.nsys_sqlite import cpus
from nsysconv.importers.nsys_sqlite.call_chains import Callers
from nsysconv.importers.sqlite_columns import Expression, SourceColumns


class Metric(NamedTuple):
    """One metric of one GPU as `GPU_METRICS` numbers it, and what its samples become."""

    type_id: int
    metric_id: int
    name_id: int
    device_id: int | None
    unit: int
    is_clock: int


@dataclass(frozen=True, kw_only=True)
class ExportContext(sqlite_mapping.MappingContext):
    """Decisions of the survey of an export for a mapping.

    `device`: (pid, ordinal) as expressions -> our device_id. `only_pid`: the process of all rows of this
    table, if there is only one. `driver_names`: name ids of driver functions, for API tables that do not
    distinguish the layers; None for others. `metrics`: those that were sampled. `balanced`: every release
    of device memory has its allocation. `nameless`: the file lacks names of kernels. `own_pids`: the
    processes that are read of a table of CPUs; None: all. `frames`: where samples' functions are.
    `callers`: who made API calls; None: not recorded.
    """

    device: Callable[[Expression, Expression], Expression]
    only_pid: int | None
    driver_names: tuple[int, ...] | None
    metrics: tuple[Metric, ...] = ()
    balanced: bool = False
    nameless: bool = False
    own_pids: frozenset[int] | None = None
    frames: cpus.Frames = cpus.Frames.NONE
    callers: Callers | None = None


ExportMapping = sqlite_mapping.TableMapping[ExportContext]
Columns = dict[str, Expression]


_ID_MASK = 0xFFFFFF


def process_of(global_id: int) -> int | None:
    """Return the process of a global id; 0 names none."""
    return global_id >> 24 & _ID_MASK or None


def thread_of(global_tid: int) -> tuple[int, int]:
    """Return the process, 0 for none, and thread of a global id."""
    return global_tid >> 24 & _ID_MASK, global_tid & _ID_MASK


def tid(global_tid: Expression) -> Expression:
    """Return the thread of a global id."""
    return global_tid.op("&")(_ID_MASK)


def pid_of(global_id: Expression, context: ExportContext) -> Expression:
    """Return the process of a global id."""
    # 0 names no process, which is looked for only in careful selects.
    number = global_id.op(">>")(24).op("&")(_ID_MASK)
    return sa.func.nullif(number, 0) if context.careful else number


def gpu_pid(c: SourceColumns, context: ExportContext) -> Expression:
    """Return the process of a row of GPU work; NULL where that is not known."""
    if context.only_pid is not None:
        return sa.literal_column(str(context.only_pid))
    return pid_of(c["globalPid"], context) if "globalPid" in c else sa.null()


def moment(time: Expression, context: ExportContext) -> Expression:
    """Return a time as one since our zero."""
    if not context.zero:
        return time
    # Among times of day, 0 is no time.
    return (sa.func.nullif(time, 0) if context.careful else time) - context.zero


def of_thread(c: SourceColumns, context: ExportContext) -> Columns:
    """Return the columns that say on which thread a row was."""
    return {"pid": pid_of(c["globalTid"], context), "tid": tid(c["globalTid"])}


def on_thread(c: SourceColumns, context: ExportContext) -> Columns:
    """Return the columns that say when and on which thread a row was."""
    return sqlite_mapping.interval(c, moment(c["start"], context), context) | of_thread(c, context)


def on_gpu(c: SourceColumns, context: ExportContext) -> Columns:
    """Return the columns that say when and where a row of GPU work was."""
    pid = gpu_pid(c, context)
    return {
        **sqlite_mapping.interval(c, moment(c["start"], context), context),
        "pid": pid,
        "device_id": context.device(pid, c["deviceId"]),
        **c.renamed(context_id="contextId", stream_id="streamId", correlation_id="correlationId"),
    }
