"""Rules on the time around the work: start-up, loading, first steps, tear-down."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from nsysconv.facts import Fact
from nsysconv.names import LAUNCHES, WAITS, called, shorten
from nsysconv.queries.findings.calls import LONG_LAUNCH_NS, loading
from nsysconv.queries.findings.contract import (
    NAMES_CALL,
    Found,
    Scene,
    frameworks,
    remaining,
    uncovered,
)
from nsysconv.queries.findings.host import mostly
from nsysconv.report import Unit, human
from nsysconv.timeline.annotations import operators, ranges, which_named
from nsysconv.timeline.arrays import Array, among, distinct, factorize, sums, take
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.host_activity import OF_SYSTEM, host_activity
from nsysconv.timeline.idle import Gaps, drop_threadless_host_parts
from nsysconv.timeline.intervals import Union, union, union_with
from nsysconv.timeline.kernel_categories import kernel_name_ids
from nsysconv.timeline.range_names import GROUPED
from nsysconv.timeline.steps import Steps, annotated, steps
from nsysconv.timeline.windows import Window

_FEWEST_STEPS = 3
_MOST_PARTS = 3
_COMPILES = re.compile(r"compil(?:e(?!d)|ing|ation)|autotun|ptxas", re.IGNORECASE)
_LONGEST_NAME = 36


def start_up(scene: Scene) -> Found | None:
    """Measure the time until the first launch returned, without waits and the profiler's own work."""
    calls, owner = scene.timeline.calls, scene.owner
    launching = owner[owner >= 0]
    low, high = scene.span.start, scene.window.start
    if len(launching):
        high = min(high, int(calls.end[launching.min()]))
    high = max(high, low)
    early = slice(0, int(np.searchsorted(calls.start, high)))
    if _loses_work(scene, early):
        return None
    waits = scene.calls_named(called(*WAITS))
    waited = scene.calls_at(waits[: np.searchsorted(waits, early.stop)])
    # Nothing runs before the window but migrations: pages may travel before the work.
    taken = _joined(_joined(scene.busy.between(low, high), scene.profiler), waited)
    begun = max(_work_of_processes(scene).start, low)
    if begun < high:  # another device works: what readies this one still counts, all else is work
        loads = scene.calls_at(scene.calls_named(called("initialization", "allocation")))
        working = remaining(_all_of(begun, high), loads, Window(begun, high))
        taken = _joined(taken, working)
    whole = high - low - int(taken.covered(np.array([low]), np.array([high])).sum())
    which = np.flatnonzero(scene.outermost[early])
    first = np.flatnonzero(scene.ops.kind != OpKind.MIGRATION)[:1].tolist()
    event = scene.ops.event_id(first[0]) if first else None
    during, outside = _filled_by(scene, low, high, taken, whole), 0
    if not during:
        during, outside = _during(scene, which, low, high, taken, whole)
    is_own = 2 * outside > whole and "pytorch" not in frameworks(scene.timeline)
    details = {"during": during, "profiler": _own_work(scene, low, high)}
    part = f"--time :{scene.window.start}ns"
    when = partial(remaining, _all_of(low, high), taken, Window(low, high))
    measured = Found(scene.of_span(whole), whole, details, event=event, part=part, when=when)
    return replace(measured, case="program" if is_own else "")


def tear_down(scene: Scene) -> Found | None:
    """Measure the time in API calls after the last GPU operation, but for the profiler's own work."""
    calls = scene.timeline.calls
    low = min(_work_of_processes(scene).end, scene.span.end)
    high = min(int(calls.end.max(where=scene.outermost, initial=low)), scene.span.end)
    late = np.flatnonzero(scene.outermost & (calls.end > low))
    if _loses_work(scene, slice(scene.owner.max(initial=-1) + 1, None)):
        return None
    taken = _joined(scene.busy.between(low, high), scene.profiler)
    after = Window(low, max(low, high))
    time = uncovered(scene.calls_at(late), taken, after)
    when = partial(remaining, scene.calls_at(late), taken, after)
    measured = Found(scene.of_span(time), time, part=f"--time {low}ns:", when=when)
    if not scene.speaks("tear_down", measured):
        return measured
    name, inside, _ = scene.most_idle(late, after, taken)
    during = _clause(inside, time, f"in {name}") if name else ""
    details = {"during": during, "profiler": _own_work(scene, low, high)}
    return replace(measured, details=details, event=scene.longest_call(late))


def _work_of_processes(scene: Scene) -> Window:
    # It lasts from the first to the last operation of the device's processes, on whatever device.
    timeline, own = scene.timeline, scene.window
    if len(timeline.devices) == 1:
        return own
    ops = timeline.ops
    which = ops.timed & (ops.kind != OpKind.MIGRATION)
    which &= among(ops.pid, timeline.pids_on(scene.device))
    first = int(ops.start.min(where=which, initial=own.start))
    return Window(first, int(ops.end.max(where=which, initial=own.end)))


def _loses_work(scene: Scene, calls: slice) -> bool:
    # The result is true if the work of some of these calls was not recorded, because the GPU may have
    # been busy then.
    lost = scene.timeline.whole.lost_launches
    some = np.zeros(len(scene.timeline.calls), bool)
    some[lost] = True
    return bool((some & scene.outermost)[calls].any())


def _all_of(low: int, high: int) -> Union:
    return union(np.array([low]), np.array([high]))


def _joined(one: Union, other: Union) -> Union:
    return union_with(one, other.starts, other.ends)


def _own_work(scene: Scene, low: int, high: int) -> str:
    # The clause names what is not in the time before it.
    own = uncovered(scene.profiler, scene.busy, Window(low, high))
    return f"; profiler overhead adds {human(own, Unit.NS)}" if own else ""


def _clause(time: int, whole: int, where: str) -> str:
    return f", {'all' if time == whole else human(time, Unit.NS)} of it {where}"


def _during(
    scene: Scene, which: Array, low: int, high: int, taken: Union, whole: int
) -> tuple[str, int]:
    # The words name the call in which most of the time was spent, and the time outside of calls, if
    # each is a tenth of the whole at least. Neither holds what is `taken`, nor the other. With them
    # comes the time outside of calls, in ns.
    name, inside, _ = scene.most_idle(which, Window(low, high), taken)
    parts, outside = [(inside, f"in {name}")], 0
    if Fact.API_CALLS in scene.timeline.profile.facts:
        outside = whole - uncovered(scene.calls_at(which), taken, Window(low, high))
        did = _outside(scene, low) if 10 * outside >= whole > 0 else ""
        parts.append((outside, f"outside API calls{did}"))
    said = sorted((part for part in parts if part[0] * 10 >= whole > 0), reverse=True)
    return "".join(_clause(time, whole, where) for time, where in said), outside


def _outside(scene: Scene, low: int) -> str:
    # The words say what the thread of the first launch did for most of the time before that, where the
    # operating system's calls or the scheduling of threads were recorded.
    timeline, recorded = scene.timeline, scene.timeline.profile.facts
    linked = np.flatnonzero(scene.owner >= 0)
    if not ({Fact.OSRT_CALLS, Fact.SCHEDULING} & recorded and len(linked)):
        return ""
    call = scene.owner[linked].min()
    op = np.flatnonzero(timeline.owner == call)[:1]
    begun, until = np.array([low]), timeline.calls.start[[call]]
    before = Gaps(scene.device, "no_op", None, begun, timeline.ops.start[op], op, host_end=until)
    most = mostly(host_activity(timeline, GROUPED), drop_threadless_host_parts(timeline, before))
    if most is None or most.kind not in OF_SYSTEM:
        return ""
    return f" ({human(most.time, Unit.NS)} {most.words})"


def _filled_by(scene: Scene, low: int, high: int, taken: Union, whole: int) -> str:
    # The words name the range before the work that takes half of the time or more; of several, which
    # contain each other, the one that takes least.
    spans = ranges(scene.timeline)
    pids = scene.timeline.pids_on(scene.device)
    mine = np.flatnonzero(
        (spans.start < high)
        & (spans.end > low)
        & (spans.end <= scene.window.start)
        & np.isin(spans.pid, pids)
    )
    starts, ends = (np.clip(take(each, mine), low, high) for each in (spans.start, spans.end))
    group, (names,) = factorize(take(spans.name, mine))
    found: tuple[int, str] | None = None
    for number in np.flatnonzero(2 * sums(group, ends - starts, len(names)) >= whole).tolist():
        own = union(starts, ends, group == number)
        time = uncovered(own, taken, Window(low, high))
        if 2 * time >= whole > 0 and (found is None or time < found[0]):
            found = time, spans.names[int(names[number])]
    if found is None:
        return ""
    return _clause(found[0], whole, f"in range {shorten(found[1], _LONGEST_NAME)}")


def module_loading(scene: Scene) -> Found | None:
    """Measure the idle time in the window in which code was loaded or a call took very long, once."""
    which = loading(scene)
    during = scene.calls_at(which)
    time = uncovered(during, scene.busy, scene.window)
    when = partial(remaining, during, scene.busy, scene.window)
    measured = Found(scene.of_window(time), time, when=when, names=NAMES_CALL)
    if not scene.speaks("module_loading", measured):
        return measured
    clause, event = scene.during(which, scene.window)
    return replace(measured, details={"during": clause}, event=event)


def warm_up(scene: Scene) -> Found | None:
    """Measure what the first step is longer by than the others, in idle time and kernels tried out.

    It must be longer than each of the others by more than these differ. The profiler's work does not
    count.
    """
    rule = scene.request.steps
    if not annotated(scene.timeline, rule):
        return None
    pids = set(scene.timeline.pids_on(scene.device).tolist())
    mine = next((each for each in steps(scene.timeline, rule) if each.pid in pids), None)
    if mine is None or len(mine) < _FEWEST_STEPS or int(mine.start[0]) < scene.span.start:
        return None
    own = scene.profiler.covered(mine.start, mine.end)
    length = mine.end - mine.start - own
    others, median = length[1:], float(np.median(length[1:]))
    if not median or length[0] - others.max() <= np.ptp(others):
        return None
    excess = int(length[0] - median)
    when = partial(_lost_in_first, scene, mine, excess)
    measured = Found(float(length[0]) / median, when().measure, step=mine.name[0], when=when)
    if not scene.speaks("warm_up", measured):
        return measured
    details = {
        "first_step": mine.name[0],
        "first": human(int(length[0]), Unit.NS),
        "median": human(median, Unit.NS),
        "profiler": f", plus {human(int(own[0]), Unit.NS)} of profiler overhead" if own[0] else "",
        "parts": _longer_by(scene, mine, excess),
    }
    return replace(measured, details=details)


def _lost_in_first(scene: Scene, mine: Steps, most: int) -> Union:
    # The idle time of the first step in the window, and kernels that no later step runs, up to so much.
    first = Union(mine.start[:1], mine.end[:1])
    idle = remaining(first, _joined(scene.busy, scene.profiler), scene.window)
    found = _joined(idle, _tried_out(scene, mine))
    length = found.ends - found.starts
    left = most - (np.cumsum(length) - length)
    some = left > 0
    return Union(found.starts[some], (found.starts + np.minimum(length, left))[some])


def _tried_out(scene: Scene, mine: Steps) -> Union:
    # When kernels ran in the first step whose names do not come again, as those that are tried out do.
    ops, low, high = scene.ops, int(mine.start[0]), int(mine.end[0])
    here = np.flatnonzero(scene.is_kernel & (ops.start >= low) & (ops.end <= high))
    later = np.flatnonzero(scene.is_kernel & (ops.start >= high))
    names, _ = kernel_name_ids(scene.timeline)
    fresh = here[~among(take(names, ops.row[here]), distinct(take(names, ops.row[later])))]
    return union(ops.start[fresh], ops.end[fresh])


def _longer_by(scene: Scene, mine: Steps, excess: int) -> str:
    # The words name what makes the first step longer than the median of the others: the parts of a step
    # in turn, each without those before it.
    def during(fits: Callable[[str], object], shortest_ns: int = 0) -> Union:
        return scene.calls_at(scene.calls_named(fits, shortest_ns))

    launches = during(called(*LAUNCHES), LONG_LAUNCH_NS)
    parts = (
        ("in kernels that no later step runs", _tried_out(scene, mine)),
        ("in other GPU work", scene.busy),
        ("compiling", _compiling(scene)),
        ("loading code", _joined(during(called("initialization")), launches)),
        ("allocating memory", during(called("allocation"))),
        ("in other API calls", during(lambda name: True)),
        ("in host code outside API calls", Union(mine.start, mine.end)),
    )
    taken, longer = scene.profiler, []
    for words, when in parts:
        before, taken = taken, _joined(taken, when)
        time = taken.covered(mine.start, mine.end) - before.covered(mine.start, mine.end)
        longer.append((int(time[0] - np.median(time[1:])), words))
    said = sorted((each for each in longer if each[0] * 10 >= excess), reverse=True)[:_MOST_PARTS]
    listed = ", ".join(f"{human(time, Unit.NS)} {words}" for time, words in said)
    return f"; it is longer by {listed}" if said else ""


def _compiling(scene: Scene) -> Union:
    # When ranges or operators ran whose names say that they compile or tune code.
    found = Union(scene.ops.start[:0], scene.ops.end[:0])
    for spans in (ranges(scene.timeline), operators(scene.timeline)):
        mine = which_named(spans, _COMPILES.search)
        found = union_with(
            found, *(take(each, np.flatnonzero(mine)) for each in (spans.start, spans.end))
        )
    return found
