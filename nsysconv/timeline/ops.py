"""GPU operations of all kinds in one set of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from nsysconv import schema
from nsysconv.report import MISSING
from nsysconv.store.read import Profile
from nsysconv.timeline.groups import blocks
from nsysconv.timeline.statistics import number

Array = np.ndarray


class Kind(IntEnum):
    """The kinds of GPU operations, in the order of schema.GPU_OP_TABLES."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    MIGRATION = 3
    GRAPH = 4


@dataclass(frozen=True)
class GpuOps:
    """Columns of equal length, sorted by (start, stream, kind, id); operations without time come first.

    `start` and `end` are MISSING where an operation has no time; `row` is the operation's place among
    its table's rows.
    """

    kind: Array
    row: Array
    start: Array
    end: Array
    device: Array
    stream: Array
    pid: Array
    correlation: Array

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, which: Array) -> GpuOps:
        """The operations of a mask or of indices."""
        return GpuOps(*(taken(getattr(self, field.name), which) for field in fields(self)))

    @property
    def timed(self) -> Array:
        """Which operations have a time."""
        result: Array = self.start != MISSING
        return result

    @property
    def dur(self) -> Array:
        """Durations; 0 where there is no time, so that sums hold."""
        result: Array = self.end - self.start
        return result


_COLUMNS = ("start_ns", "dur_ns", "device_id", "stream_id", "pid", "correlation_id")

# Read along where several reports will be made, because nearly every one asks for them: a second pass
# over a table costs more than a further column.
_ALONG = {"kernel": ("name_id",), "memcpy": ("direction", "bytes")}
# The rest of the kernels' columns is not asked for again.
_KERNELS_KEEP = frozenset({"dur_ns", "device_id", "pid"})


def gpu_ops(profile: Profile, *, along: bool) -> GpuOps:
    """All GPU operations of a profile. `along`: with columns that other reports will ask for."""
    tables = schema.GPU_OP_TABLES
    more = _ALONG if along else {}
    parts = [profile.columns(table, (*_COLUMNS, *more.get(table, ()))) for table in tables]
    sizes = [len(part["start_ns"]) for part in parts]

    def column(name: str) -> Array:
        """All tables' rows of a column, their own columns given back where they are many."""
        result = joined([part.pop(name) for part in parts])
        if name not in _KERNELS_KEEP:
            profile.release("kernel", (name,))
        return result

    start, dur, stream = column("start_ns"), column("dur_ns"), column("stream_id")
    untimed = (start == MISSING) | (dur == MISSING)
    if untimed.any():
        start = np.where(untimed, MISSING, start)
    order = _order(start, stream)
    # One after the other: each spent column makes room for the next.
    start, dur = taken(start, order), taken(dur, order)
    end = start + dur
    end[start == MISSING] = MISSING
    del dur, untimed
    stream = taken(stream, order)
    return GpuOps(
        kind=taken(np.repeat(np.arange(len(sizes), dtype=np.int8), sizes), order),
        row=taken(np.concatenate([np.arange(size, dtype=np.int32) for size in sizes]), order),
        start=start,
        end=end,
        device=taken(column("device_id"), order),
        stream=stream,
        pid=taken(column("pid"), order),
        correlation=taken(column("correlation_id"), order),
    )


def streams_of(ops: GpuOps) -> list[tuple[int, int, int]]:
    """The (device_id, pid, stream_id) of these operations, in order, but for migrations and what has no
    time."""
    working = np.flatnonzero(ops.timed & (ops.kind != Kind.MIGRATION))
    _, found = number(*(taken(column, working) for column in (ops.device, ops.pid, ops.stream)))
    return list(zip(*(column.tolist() for column in found), strict=True))


def taken(column: Array, which: Array) -> Array:
    """`column[which]`, without spelling out a column that is one value everywhere.

    The column itself where a mask leaves nothing out.
    """
    if column.strides == (0,) and len(column):
        count = np.count_nonzero(which) if which.dtype == bool else len(which)
        return np.broadcast_to(column[0], int(count))
    if which.dtype == bool:
        result: Array = column if which.all() else column[which]
        return result
    result = np.empty(len(which), column.dtype)
    # A block at a time: numpy makes all indices int64 before it uses them.
    for block in blocks(len(which)):
        result[block] = column.take(which[block])
    return result


def joined(columns: Sequence[Array]) -> Array:
    """The columns one after the other; one value everywhere stays one value."""
    filled = [column for column in columns if len(column)]
    if filled and all(column.strides == (0,) and column[0] == filled[0][0] for column in filled):
        return np.broadcast_to(filled[0][0], sum(len(column) for column in filled))
    # What has no rows has no say in how wide the numbers are.
    return np.concatenate(filled or columns)


def _order(start: Array, stream: Array) -> Array:
    """Indices by (start, stream), equal ones as they stand."""
    order = np.argsort(start, kind="stable").astype(np.int32)
    sorted_start = taken(start, order)
    same = sorted_start[1:] == sorted_start[:-1]
    del sorted_start
    if same.any():
        # Sort the runs of equal starts only: among millions of operations they are few.
        in_run = np.concatenate((same, [False])) | np.concatenate(([False], same))
        places = np.flatnonzero(in_run)
        tied = order[places]
        order[places] = tied[np.lexsort((tied, stream[tied], start[tied]))]
    return order
