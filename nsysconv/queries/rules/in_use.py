"""When each process used each device, for the rules about unused time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nsysconv import schema
from nsysconv.queries.contract import Array
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.events import GpuOps
from nsysconv.timeline.idle import Window, window
from nsysconv.timeline.intervals import Union, union
from nsysconv.timeline.timeline import Timeline


@dataclass(frozen=True)
class Use:
    """A process on a device: its operations that have a time, in the order of GpuOps; the window; and
    the union of these operations and of the profiler's own work in that process.
    """

    pid: int
    device: int
    ops: GpuOps
    window: Window
    in_use: Union


def uses(timeline: Timeline) -> Iterator[Use]:
    """Each process on each device that it used, also where nothing of that is in the slice's time."""
    whole, devices_used = timeline.whole.ops, set(timeline.devices)
    _, (pids, devices) = factorize(whole.pid, whole.device)
    for pid, device in zip(pids.tolist(), devices.tolist(), strict=True):
        process = np.array([pid])
        if device not in devices_used or not timeline.in_processes(process).all():
            continue
        mine = timeline.ops_on(device)
        mine = mine.take(mine.timed & (mine.pid == pid))
        limits = timeline.limits(process)
        span = window(timeline, device, mine) if limits is None else Window(*limits)
        if span is not None and span.length:
            yield Use(pid, device, mine, span, _in_use(timeline, pid, mine))


def _in_use(timeline: Timeline, pid: int, ops: GpuOps) -> Union:
    found = union(ops.start, ops.end)
    own = timeline.overhead.get(pid)
    # The profiler's work is told in CPU time.
    if own is None or timeline.clocks_disagree:
        return found
    return union(np.concatenate((found.starts, own.starts)), np.concatenate((found.ends, own.ends)))


def named(timeline: Timeline, ops: GpuOps, places: Array) -> tuple[list[str | None], Array]:
    """The tables of the operations at these places and their ids there; None and MISSING for -1."""
    tables: list[str | None] = [None] * len(places)
    ids = np.full(len(places), MISSING)
    if not len(ops):
        return tables, ids
    kinds = np.where(places < 0, -1, ops.kind[places])
    for code, table in enumerate(schema.GPU_OP_TABLES):
        mine = np.flatnonzero(kinds == code)
        if len(mine):
            rows = ops.row[places[mine]].astype(np.int64)
            ids[mine] = rows + timeline.profile.first_id(table)
        for place in mine.tolist():
            tables[place] = table
    return tables, ids
