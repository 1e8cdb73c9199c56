"""Memory that a program took and gave back, and page faults on unified memory."""

from __future__ import annotations

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.importers.nsys_sqlite.mapping import (
    Context,
    Mapping,
    code,
    interval,
    moment,
    pid,
    process,
)
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import Columns, Expression, has, known_code

USAGE = "CUDA_GPU_MEMORY_USAGE_EVENTS"
CPU_FAULTS = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
GPU_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"

_ALLOCATION, _RELEASE = 0, 1
LAST_KIND = 7
"""The highest code of a kind of memory that is known; it means Unknown."""
LAST_ACCESS = 4
OPERATIONS = (_ALLOCATION, _RELEASE)
_HOST_KINDS = tuple(codes.MEMORY_KINDS.index(kind) for kind in ("Pageable", "Pinned"))
_DEVICE_KINDS = tuple(
    codes.MEMORY_KINDS.index(kind) for kind in ("Device", "Array", "Device Static")
)
_BLOCK = "block"
_RUNNING = "running"


def _signed(c: Columns) -> Expression:
    operation, size = c["memoryOperationType"], c["bytes"]
    return sa.case((operation == _ALLOCATION, size), (operation == _RELEASE, -size))


def _memory_event(c: Columns, context: Context) -> dict[str, Expression]:
    own, kind = process(c, context), c["memKind"]
    device = context.device(own, c["deviceId"])
    return {
        # Some releases write 0 for all of them.
        "start_ns": moment(sa.func.nullif(c["start"], 0), context),
        "pid": own,
        "device_id": sa.case((sa.func.coalesce(kind, LAST_KIND).not_in(_HOST_KINDS), device)),
        "context_id": c["contextId"],
        "memory_kind": known_code(kind, LAST_KIND, LAST_KIND),
        "address": c["address"],
        "bytes": _signed(c),
        "allocated_bytes": sa.literal_column(f"{_RUNNING}.in_use", sa.BigInteger)
        if _adds_up(context)
        else sa.null(),
    }


def _adds_up(context: Context) -> bool:
    # Rows that are left out for what is wrong with them would be missing in the sum.
    return context.balanced and not context.careful


def _with_running_sum(c: Columns, context: Context) -> sa.FromClause:
    if not _adds_up(context):
        return c.table
    every = Columns(c.source, alias="every")
    device = context.device(process(every, context), every["deviceId"])
    order = (every["start"], every.row_id)
    in_use = sa.func.sum(_signed(every)).over(partition_by=device, order_by=order, rows=(None, 0))
    running = (
        sa.select(every.row_id.label("place"), in_use.label("in_use"))
        .select_from(every.table)
        .where(every["memKind"].in_(_DEVICE_KINDS))
        .subquery(_RUNNING)
    )
    return sa.outerjoin(c.table, running, running.c.place == c.row_id)


def is_balanced(probe: Probe) -> bool:
    """Whether every release of device memory gives back a block as it was taken, and none is taken twice:
    then the sum of all rows so far is what is in use."""
    needed = ("memKind", "memoryOperationType", "bytes", "address", "deviceId", "globalPid")
    if not has(probe, USAGE, "start", *needed) or probe.tables[USAGE].row_id is None:
        return False
    row_id = probe.tables[USAGE].row_id
    kinds = ", ".join(map(str, _DEVICE_KINDS))
    odd = (
        "SELECT 1 FROM (SELECT memoryOperationType AS operation, bytes, "
        "lag(memoryOperationType) OVER block AS operation_before, lag(bytes) OVER block AS bytes_before "
        f"FROM {USAGE} WHERE memKind IN ({kinds}) "
        f"WINDOW block AS (PARTITION BY globalPid, deviceId, address ORDER BY start, {row_id})) "
        f"WHERE CASE operation WHEN {_ALLOCATION} THEN operation_before IS {_ALLOCATION} "
        f"OR typeof(bytes) <> 'integer' WHEN {_RELEASE} THEN operation_before IS NOT {_ALLOCATION} "
        "OR bytes_before IS NOT bytes ELSE 1 END"
    )
    return not probe.select(f"SELECT EXISTS ({odd})")[0][0]


def _cpu_fault(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        "start_ns": moment(c["start"], context),
        "pid": pid(c, "globalPid", context),
        "kind": code(codes.PAGE_FAULT_KINDS, "cpu"),
        "address": c["address"],
        "count": sa.literal_column("1"),
        "instruction_id": c["CpuInstruction"],
        "module_id": c["module"],
        "source_file_id": c["sourceFile"],
        "source_line": c["sourceLine"],
    }


def _gpu_fault(c: Columns, context: Context) -> dict[str, Expression]:
    own = process(c, context)
    return {
        **interval(c, context),
        "pid": own,
        "device_id": context.device(own, c["deviceId"]),
        "kind": code(codes.PAGE_FAULT_KINDS, "gpu"),
        "address": c["address"],
        "count": c["numberOfPageFaults"],
        "access": known_code(c["faultAccessType"], LAST_ACCESS, 0),
    }


MAPPINGS = (
    Mapping(
        "memory_event",
        USAGE,
        _memory_event,
        needs=frozenset({"start", "deviceId", "memoryOperationType", "bytes"}),
        rows=_with_running_sum,
        alias=_BLOCK,
    ),
    Mapping("page_fault", CPU_FAULTS, _cpu_fault, needs=frozenset({"start", "globalPid"})),
    Mapping("page_fault", GPU_FAULTS, _gpu_fault, needs=frozenset({"start", "end", "deviceId"})),
)
