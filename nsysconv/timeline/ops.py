"""GPU operations of all kinds in one set of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from nsysconv import schema
from nsysconv.report import MISSING
from nsysconv.store.read import Profile

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

# Read along because nearly every report asks for them: a second pass over a table costs more than a
# further column.
_ALONG = {"kernel": ("name_id",), "memcpy": ("direction", "bytes")}


def gpu_ops(profile: Profile) -> GpuOps:
    """All GPU operations of a profile."""
    parts = [
        profile.columns(table, (*_COLUMNS, *_ALONG.get(table, ())))
        for table in schema.GPU_OP_TABLES
    ]
    sizes = [len(part["start_ns"]) for part in parts]
    column = {name: joined([part[name] for part in parts]) for name in _COLUMNS}
    start, dur = column["start_ns"], column["dur_ns"]
    end = start + dur
    untimed = (start == MISSING) | (dur == MISSING)
    if untimed.any():
        start[untimed] = end[untimed] = MISSING
    ops = GpuOps(
        kind=np.repeat(np.arange(len(sizes), dtype=np.int8), sizes),
        row=np.concatenate([np.arange(size, dtype=np.int32) for size in sizes]),
        start=start,
        end=end,
        device=column["device_id"],
        stream=column["stream_id"],
        pid=column["pid"],
        correlation=column["correlation_id"],
    )
    return ops.take(_order(ops.start, ops.stream))


def taken(column: Array, which: Array) -> Array:
    """`column[which]`, without spelling out a column that is one value everywhere."""
    if column.strides == (0,) and len(column):
        count = np.count_nonzero(which) if which.dtype == bool else len(which)
        return np.broadcast_to(column[0], int(count))
    result: Array = column[which]
    return result


def joined(columns: Sequence[Array]) -> Array:
    """The columns one after the other; one value everywhere stays one value."""
    filled = [column for column in columns if len(column)]
    if filled and all(column.strides == (0,) and column[0] == filled[0][0] for column in filled):
        return np.broadcast_to(filled[0][0], sum(len(column) for column in filled))
    return np.concatenate(columns)


def _order(start: Array, stream: Array) -> Array:
    """Indices by (start, stream), equal ones as they stand."""
    order = np.argsort(start, kind="stable")
    sorted_start = start[order]
    same = sorted_start[1:] == sorted_start[:-1]
    if same.any():
        # Sort the runs of equal starts only: among millions of operations they are few.
        in_run = np.concatenate((same, [False])) | np.concatenate(([False], same))
        places = np.flatnonzero(in_run)
        tied = order[places]
        order[places] = tied[np.lexsort((tied, stream[tied], start[tied]))]
    return order
