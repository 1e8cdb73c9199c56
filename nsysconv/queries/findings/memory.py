"""Rules on memory: allocated and freed while the device waits, and migrated."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from nsysconv.queries.findings.contract import Found, Measure, Scene, counted, uncovered
from nsysconv.report import Unit, human
from nsysconv.timeline.arrays import blocks
from nsysconv.timeline.events import ApiCalls, OpKind
from nsysconv.timeline.intervals import union

_ALLOCATION = re.compile(
    r"cuda(?:Malloc|Free|HostAlloc|HostRegister|HostUnregister)"
    r"|cuMem(?:Alloc|Free|HostAlloc|HostRegister|HostUnregister|Create|Map|Unmap|Release|AddressReserve)"
    r"|hip(?:Malloc|Free|ExtMalloc|Host(?:Malloc|Free|Alloc|Register|Unregister))"
)
# Calls that only ask or load do not make a context.
_QUERY = re.compile(r"Get|Query|Version|Attribute|Load|Register(?:Fat|Function|Var)|cuInit")
_GIVES_BACK = re.compile(r"Free")


def allocation(scene: Scene) -> Found | None:
    """Measure the idle time, also before and after the window, in calls that take or give back memory.

    What makes a context counts for start-up: a process's first call that does something, and what gives
    memory back before any was taken.
    """
    which = scene.calls_named(_ALLOCATION.match)
    which = which[~np.isin(which, _makes_context(scene))]
    low, high = scene.span.start, scene.span.end
    time = uncovered(scene.calls_at(which), scene.busy, low, high)
    details = {"during": scene.during(which, low, high)}
    return Found(scene.of_span(time), time, details)


def _makes_context(scene: Scene) -> list[int]:
    calls, names = scene.timeline.calls, scene.timeline.call_names
    found = []
    for pid in scene.timeline.pids_on(scene.device).tolist():
        is_first = True
        # The first ones are enough: calls are in the order of their starts.
        for i in _in_order(calls, pid):
            name = names[int(calls.name_id[i])]
            if _QUERY.search(name):
                continue
            if not (is_first or _GIVES_BACK.search(name)):
                break
            found.append(i)
            is_first = False
    return found


def _in_order(calls: ApiCalls, pid: int) -> Iterator[int]:
    for block in blocks(len(calls)):
        mine = (calls.pid[block] == pid) & calls.outermost[block]
        yield from (np.flatnonzero(mine) + block.start).tolist()


def page_migration(scene: Scene) -> Found | None:
    """Measure the time in which pages of unified memory migrated and nothing else ran on the device.

    Pages travel before and after the window, too.
    """
    ops, pages = scene.ops, scene.ops.kind == OpKind.MIGRATION
    others = union(ops.start, ops.end, ~pages)
    migrated = union(ops.start, ops.end, pages)
    time = uncovered(migrated, others, scene.span.start, scene.span.end)
    moved = scene.timeline.profile.columns("unified_memory_event", ("bytes",))["bytes"]
    details = {
        "bytes": human(int(np.maximum(moved[scene.ops.row[pages]], 0).sum()), Unit.BYTES),
        "count": counted(int(np.count_nonzero(pages)), "migration", "migrations"),
    }
    return Found(scene.of_span(time), time, details)


RULES: dict[str, Measure] = {"allocation": allocation, "page_migration": page_migration}
