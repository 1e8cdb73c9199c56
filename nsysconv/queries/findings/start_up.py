"""Rules on the time around the work: start-up, loading, first steps, tear-down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nsysconv.facts import Fact
from nsysconv.names import LAUNCHES, called
from nsysconv.queries.columns import step_pattern
from nsysconv.queries.findings.contract import Found, Measure, Scene, uncovered
from nsysconv.report import Unit, human
from nsysconv.timeline.annotations import operators, ranges
from nsysconv.timeline.arrays import Array, distinct
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.intervals import Union, union_with
from nsysconv.timeline.steps import annotated, steps

# No launch takes as long; what does loads code first.
_LONG_LAUNCH_NS = 1_000_000
_FEWEST_STEPS = 4


def start_up(scene: Scene) -> Found | None:
    """Measure the time before the first GPU operation, but for the profiler's own."""
    low, high = scene.span.start, scene.window.start
    time, profiler = _of_the_program(scene, low, high)
    calls = scene.timeline.calls
    before = int(np.searchsorted(calls.start, high))
    early = np.flatnonzero(scene.outermost[:before])
    part = f"--time :{scene.window.start}ns"
    if _loses_work(scene, slice(0, before)):
        return None
    first = np.flatnonzero(scene.ops.kind != OpKind.MIGRATION)[:1].tolist()
    event = scene.ops.event_id(first[0]) if first else None
    details = {**_during(scene, early, low, high), "profiler": profiler}
    return Found(scene.of_span(time), time, details, event=event, part=part)


def tear_down(scene: Scene) -> Found | None:
    """Measure the time after the last GPU operation until the host did nothing more that is recorded."""
    calls = scene.timeline.calls
    low = min(scene.window.end, scene.span.end)
    ends = [calls.end.max(where=scene.outermost, initial=low)]
    ends += [each(scene.timeline).end.max(initial=low) for each in (ranges, operators)]
    high = min(int(max(ends)), scene.span.end)
    late = np.flatnonzero(scene.outermost & (calls.end > low))
    last = scene.owner.max(initial=-1)
    if _loses_work(scene, slice(last + 1, None)):
        return None
    time, profiler = _of_the_program(scene, low, max(high, low))
    part = f"--time {low}ns:"
    details = {**_during(scene, late, low, high), "profiler": profiler}
    measured = Found(scene.of_span(time), time, details, part=part)
    if not scene.speaks("tear_down", measured):
        return measured
    return replace(measured, event=scene.longest_call(late))


def _loses_work(scene: Scene, calls: slice) -> bool:
    # The result is true if the work of some of these calls was not recorded, because the GPU may have
    # been busy then.
    lost = scene.timeline.whole.lost_launches
    some = np.zeros(len(scene.timeline.calls), bool)
    some[lost] = True
    return bool((some & scene.outermost)[calls].any())


def _of_the_program(scene: Scene, low: int, high: int) -> tuple[int, str]:
    # The result is the length of [low, high) without the profiler's own work, and a clause on that
    # work.
    own = uncovered(scene.profiler, scene.busy, low, high)
    return high - low - own, _own_work(own)


def _own_work(time: int) -> str:
    return f", and {human(time, Unit.NS)} of the profiler's own work" if time else ""


def _during(scene: Scene, which: Array, low: int, high: int) -> dict[str, str]:
    # The words name the call in which most of [low, high) was spent, and the time outside of calls, if
    # each is a tenth at least.
    name, inside, _ = scene.most_idle(which, low, high)
    parts = [(inside, f"in {name}")]
    if Fact.API_CALLS in scene.timeline.profile.facts:
        recorded = union_with(scene.calls_at(which), scene.profiler.starts, scene.profiler.ends)
        outside = high - low - uncovered(recorded, scene.busy, low, high)
        parts.append((outside, "outside of the API's calls"))
    said = sorted((part for part in parts if part[0] * 10 >= high - low > 0), reverse=True)
    clause = ""
    for time, where in said:
        clause += f", {'all' if time == high - low else human(time, Unit.NS)} of it {where}"
    return {"during": clause}


def module_loading(scene: Scene) -> Found | None:
    """Measure the idle time in the window in which code was loaded or a launch took very long."""
    loading = scene.calls_named(called("initialisation"))
    long = scene.calls_named(called(*LAUNCHES), _LONG_LAUNCH_NS)
    which = distinct(np.concatenate((loading, long)))
    low, high = scene.window.start, scene.window.end
    time = uncovered(scene.calls_at(which), scene.busy, low, high)
    measured = Found(scene.of_window(time), time)
    if not scene.speaks("module_loading", measured):
        return measured
    clause, event = scene.during(which, low, high)
    return replace(measured, details={"during": clause}, event=event)


def warm_up(scene: Scene) -> Found | None:
    """Measure the idle time of the first step, if it is longer than the others, but for the profiler."""
    pattern = step_pattern(scene.request)
    if not annotated(scene.timeline, pattern):
        return None
    pids = set(scene.timeline.pids_on(scene.device).tolist())
    mine = [each for each in steps(scene.timeline, pattern) if each.pid in pids]
    if not mine or len(mine[0]) < _FEWEST_STEPS:
        return None
    own = scene.profiler.covered(mine[0].start, mine[0].end)
    length = mine[0].end - mine[0].start - own
    median = float(np.median(length[1:]))
    if not median or int(mine[0].start[0]) < scene.span.start:
        return None
    first = Union(mine[0].start[:1], mine[0].end[:1])
    low, high = scene.window.start, scene.window.end
    time = uncovered(
        first, union_with(scene.busy, scene.profiler.starts, scene.profiler.ends), low, high
    )
    details = {
        "first_step": mine[0].name[0],
        "first": human(int(length[0]), Unit.NS),
        "median": human(median, Unit.NS),
        "profiler": _own_work(int(own[0])),
    }
    return Found(float(length[0]) / median, time, details, step=mine[0].name[0])


RULES: dict[str, Measure] = {
    "start_up": start_up,
    "tear_down": tear_down,
    "module_loading": module_loading,
    "warm_up": warm_up,
}
