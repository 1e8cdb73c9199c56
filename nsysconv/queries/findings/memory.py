"""Rules on memory: allocated and freed while the device waits, migrated, and running out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from nsysconv.codes import DIRECTIONS
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.names import called
from nsysconv.queries.findings.contract import (
    NAMES_CALL,
    Found,
    Scene,
    counted,
    remaining,
    uncovered,
)
from nsysconv.report import MISSING, Unit, human
from nsysconv.timeline.arrays import Array, blocks
from nsysconv.timeline.events import ApiCalls, OpKind
from nsysconv.timeline.intervals import Union, difference, union, union_with
from nsysconv.timeline.memory import Pool, parts
from nsysconv.timeline.steps import annotated

_HTOD = DIRECTIONS.index("HtoD")
_CASES = {
    "host": re.compile(r"\w*Host|hsa_amd_memory_(?:un)?lock").match,
    "pool": re.compile(r"\w*(?:Async|FromPool|PoolTrim)").match,
    "mapped": re.compile(r"(?:cu|hip)Mem(?:Create|Map|Unmap|Release|Address|SetAccess)").match,
}


def allocation(scene: Scene) -> Found | None:
    """Measure the idle time, also before and after the window, in calls that take or give back memory.

    What makes a context counts for start-up: a process's first call that does something, and what gives
    memory back before any was taken.
    """
    which = scene.calls_named(called("allocation"))
    which = which[~np.isin(which, _makes_context(scene))]
    span = scene.span
    during = scene.calls_at(which)
    time = uncovered(during, scene.busy, span)
    when = partial(remaining, during, scene.busy, span)
    # A short window is as little of a long recording as what it loses.
    inside = uncovered(during, scene.busy, scene.window)
    value = max(scene.of_span(time), scene.of_window(inside))
    measured = Found(value, time, when=when, names=NAMES_CALL)
    if not scene.speaks("allocation", measured):
        return measured
    clause, event = scene.during(which, span)
    name, _, _ = scene.most_idle(which, span)
    return replace(measured, details={"during": clause}, event=event, case=_case_of(name))


def _case_of(name: str) -> str:
    # The case of the advice: some of it is for other functions than this one.
    return next((case for case, fits in _CASES.items() if fits(name)), "")


def _makes_context(scene: Scene) -> list[int]:
    calls, names = scene.timeline.calls, scene.timeline.call_names
    found, gives_back, only_asks = [], called("free"), called("query", "load")
    for pid in scene.timeline.pids_on(scene.device).tolist():
        is_first = True
        # The first ones are enough: calls are in the order of their starts.
        for i in _in_order(calls, pid):
            name = names[int(calls.name_id[i])]
            if only_asks(name):
                continue
            if not (is_first or gives_back(name)):
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

    Pages travel before and after the window, too. Pages that come to the device beside a kernel count
    as well where the program prefetches none: the kernel's faults asked for them, and it waits.
    """
    ops, pages = scene.ops, scene.ops.kind == OpKind.MIGRATION
    if not pages.any():
        return None
    span = scene.span
    alone = span.measure(ops.start, ops.end)
    alone -= span.measure(ops.start, ops.end, ~pages)
    faulting = _fault_time(scene, pages)
    time = alone + faulting.measure
    moved = scene.timeline.profile.columns("unified_memory_event", ("bytes",))["bytes"]
    details = {
        "bytes": human(int(np.maximum(moved[scene.ops.row[pages]], 0).sum()), Unit.BYTES),
        "count": counted(int(np.count_nonzero(pages)), "migration", "migrations"),
        "beside": _beside(alone, faulting.measure),
    }

    def when() -> Union:
        travelling = union(ops.start, ops.end, pages)
        own = remaining(travelling, union(ops.start, ops.end, ~pages), span)
        return union_with(own, faulting.starts, faulting.ends)

    event, case = scene.longest_op(pages), "prefetched" if _prefetches(scene) else ""
    return Found(scene.of_span(time), time, details, event=event, when=when, case=case)


def _prefetches(scene: Scene) -> bool:
    return len(scene.calls_named(called("prefetch"))) > 0


def _fault_time(scene: Scene, pages: Array) -> Union:
    # When pages came to the device beside a kernel that needed them. Nothing where some are prefetched,
    # or that is not known.
    ops = scene.ops
    nothing = union(ops.start[:0], ops.end[:0])
    if Fact.API_CALLS not in scene.timeline.profile.facts or _prefetches(scene):
        return nothing
    direction = scene.timeline.profile.columns("unified_memory_event", ("direction",))["direction"]
    arriving = pages.copy()
    arriving[pages] = direction[ops.row[pages]] == _HTOD
    beside = union(ops.start, ops.end, arriving)
    span = scene.span
    return remaining(beside, difference(beside, scene.computing), span)


def _beside(alone: int, faulting: int) -> str:
    if not faulting:
        return " while the GPU ran nothing else"
    if not alone:
        return " beside kernels, which wait for their pages"
    times = (human(time, Unit.NS) for time in (alone, faulting))
    return (
        ", {} while the GPU ran nothing else, {} beside kernels, which wait for their pages".format(
            *times
        )
    )


# -- running out

# Below this share of the device's memory nobody lacks what an allocator keeps.
_MUCH_PCT = 50
_FEWEST_STEPS = 4


def memory_limit(scene: Scene) -> Found | None:
    """Measure how much of the device's memory an allocator held at most, or had in use."""
    pool = _largest_pool(scene)
    if pool is None:
        return None
    size, held = _device_bytes(scene), max(pool.peak, pool.most_reserved or 0)
    details = {"held": human(held, Unit.BYTES), "size": human(size, Unit.BYTES)}
    return Found(100 * held / size, details=details)


def memory_fragmentation(scene: Scene) -> Found | None:
    """Measure how much of what an allocator held at its peak was not in use."""
    pool = _largest_pool(scene)
    if pool is None:
        return None
    if pool.most_reserved is None:
        raise NotRecorded("findings", ["what allocators hold"])
    held = pool.reserved_at_peak or 0
    if not held or 100 * held < _MUCH_PCT * _device_bytes(scene):
        return None
    unused = held - pool.peak
    details = {"unused": human(unused, Unit.BYTES), "held": human(held, Unit.BYTES)}
    return Found(100 * unused / held, details=details)


def memory_growth(scene: Scene) -> Found | None:
    """Measure how much more is in use after the last step than after the first, if it grows with each.

    Steps as annotated: what takes memory is the host, which does not wait for the GPU.
    """
    pool = _largest_pool(scene)
    if pool is None:
        return None
    pattern = scene.request.steps
    mine = next((s for s in annotated(scene.timeline, pattern) if s.pid == pool.pid), None)
    if mine is None or len(mine) < _FEWEST_STEPS:
        return None
    if (pool.address == MISSING).any():
        raise NotRecorded("findings", ["addresses of memory"])
    place = np.searchsorted(pool.start, mine.end, side="left") - 1
    in_use = np.where(place < 0, pool.before, pool.in_use[place])
    begin = np.searchsorted(pool.start, mine.start, side="left")
    taken = pool.blocks.taken[pool.blocks.ended < 0]
    left = [
        ((taken >= low) & (taken <= high)).any() for low, high in zip(begin, place, strict=True)
    ]
    if not (np.diff(in_use) > 0).all() or not all(left[:-1]):
        return None
    growth = int(in_use[-1] - in_use[0])
    details = {
        "growth": human(growth, Unit.BYTES),
        "steps": counted(len(mine), "step", "steps"),
        "per_step": human(growth // (len(mine) - 1), Unit.BYTES),
    }
    return Found(100 * growth / pool.peak, details=details)


def _largest_pool(scene: Scene) -> Pool | None:
    mine = (part.events for part in parts(scene.timeline) if part.pool.device == scene.device)
    return next(mine, None)


def _device_bytes(scene: Scene) -> int:
    sizes = {row["device_id"]: row["memory_bytes"] for row in scene.timeline.profile.rows("device")}
    size = sizes.get(scene.device)
    if not size:
        raise NotRecorded("findings", ["sizes of GPUs' memories"])
    return int(size)
