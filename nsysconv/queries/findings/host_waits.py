"""Rules on what the host waits for meanwhile: its data loader, input, locks, threads, CPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from nsysconv.names import os_role, shorten
from nsysconv.queries.findings.communication import exchanging
from nsysconv.queries.findings.contract import (
    NAMES_CALL,
    NAMES_RANGE,
    Found,
    Scene,
    counted,
    remaining,
    uncovered,
    words,
)
from nsysconv.queries.findings.waits import costliest_gap
from nsysconv.report import Unit, human
from nsysconv.threads import cached_in
from nsysconv.timeline.annotations import operators, ranges, which_named
from nsysconv.timeline.arrays import Array, distinct
from nsysconv.timeline.events import Spans, event_id
from nsysconv.timeline.host_activity import host_activity
from nsysconv.timeline.host_threads import (
    READY,
    Thread,
    cpus_in_use,
    running_threads,
)
from nsysconv.timeline.idle import drop_threadless_host_parts
from nsysconv.timeline.intervals import Union, difference, union, union_with
from nsysconv.timeline.range_names import GROUPED
from nsysconv.timeline.steps import waits_for_input

# What the launching thread waits for, in words; by role of the functions of the operating system
# (names.os_role), and for a CPU.
_FOR = {
    "input": "for input or files",
    "lock": "for a lock",
    "thread": "for another thread or process",
    "sleep": "for a time to pass",
    "core": "for a CPU",
}
_NAME = 36
_MOST_NAMED = 2


@cached_in("measured")
def data_loader(scene: Scene) -> Found | None:
    """Measure the idle time in the window while the program waited for its data loader."""
    loading = _loader(scene)
    time = uncovered(loading, scene.busy, scene.window)
    inside = int(np.count_nonzero(scene.window.union.meets(loading.starts, loading.ends)))
    details, event = {"count": counted(inside, "time", "times")}, _longest_load(scene)
    when = partial(remaining, loading, scene.busy, scene.window)
    share = scene.of_window(time)
    return Found(share, time, details, event=event, when=when, names=NAMES_RANGE)


def named_waits(scene: Scene) -> Union:
    """Return when the program waited for its data loader or other ranks, as far as these are findings."""
    found = exchanging(scene)
    if scene.speaks("data_loader", data_loader(scene)):
        loading = _loader(scene)
        found = union_with(found, loading.starts, loading.ends)
    return found


def _loader(scene: Scene) -> Union:
    # The program waited for its data loader in this union.
    loads = list(_loads(scene).values())
    starts, ends = ([getattr(each, name) for each in loads] for name in ("start", "end"))
    return union(np.concatenate(starts), np.concatenate(ends))


@cached_in("measured")
def _loads(scene: Scene) -> dict[str, Spans]:
    # The result has, by kind, the ranges and operators that wait for input.
    pids = scene.timeline.pids_on(scene.device)
    kinds = {"range": ranges(scene.timeline), "operator": operators(scene.timeline)}
    return {
        kind: spans.take(which_named(spans, waits_for_input) & np.isin(spans.pid, pids))
        for kind, spans in kinds.items()
    }


def _longest_load(scene: Scene) -> str | None:
    longest, event = -1, None
    for kind, spans in _loads(scene).items():
        dur = spans.end - spans.start
        if dur.max(initial=-1) > longest:
            longest, event = int(dur.max()), event_id(kind, int(spans.row[dur.argmax()]))
    return event


@dataclass
class _Wait:
    # When the launching threads waited for something, and how long in which function or state.
    starts: list[Array] = field(default_factory=list)
    ends: list[Array] = field(default_factory=list)
    times: dict[str, int] = field(default_factory=dict)
    threads: set[Thread] = field(default_factory=set)

    def union(self) -> Union:
        return _joined([Union(*each) for each in zip(self.starts, self.ends, strict=True)])


def _joined(unions: Iterable[Union]) -> Union:
    none, found = np.empty(0, np.int64), list(unions)
    starts, ends = (
        np.concatenate((none, *(getattr(u, n) for u in found))) for n in ("starts", "ends")
    )
    return union(starts, ends)


@cached_in("measured")
def _waits(scene: Scene) -> dict[str, _Wait]:
    # The waits in the host parts of gaps by what for: outside of API calls, and of those that have a
    # finding of their own.
    found = {what: _Wait() for what in _FOR}
    if scene.gaps is None or not scene.timeline.profile.facts & words()["host_wait"].any_of:
        return found
    activity, named = host_activity(scene.timeline, GROUPED), named_waits(scene)
    for pieces in activity.system(drop_threadless_host_parts(scene.timeline, scene.gaps)):
        for label in distinct(pieces.label).tolist():
            kind, name = activity.name(label)
            what = "core" if name == READY else os_role(name) if kind == "os_call" else None
            if what is None:
                continue
            mine, wait = pieces.take(pieces.label == label), found[what]
            waited = difference(union(mine.start, mine.end), named)
            wait.starts.append(waited.starts)
            wait.ends.append(waited.ends)
            wait.times[name] = wait.times.get(name, 0) + waited.measure
            wait.threads.add(scene.timeline.calls.threads[pieces.thread])
    return found


def waits(scene: Scene) -> tuple[Union, set[str]]:
    """Return when the launching threads waited, and in which calls and states, if that is a finding."""
    if not scene.has("host_wait", host_wait):
        return _joined(()), set()
    found = _waits(scene).values()
    return _joined(wait.union() for wait in found), {name for wait in found for name in wait.times}


@cached_in("measured")
def host_wait(scene: Scene) -> Found | None:
    """Measure the idle time in which the launching thread waited for something that is not the GPU."""
    if scene.gaps is None:
        return None
    found = _waits(scene)
    when = _joined(wait.union() for wait in found.values())
    measured = Found(
        scene.of_window(when.measure), when.measure, when=lambda: when, names=NAMES_CALL
    )
    if not scene.speaks("host_wait", measured):
        return measured
    what = max(found, key=lambda what: sum(found[what].times.values()))
    wait, mine = found[what], found[what].union()
    said = _FOR[what]
    if what == "core":
        threads, cpus = cpus_in_use(scene.timeline)
        said += f" ({counted(threads, 'thread', 'threads')} on {counted(cpus, 'CPU', 'CPUs')})"
    else:
        said += f" ({', '.join(sorted(wait.times, key=lambda n: -wait.times[n])[:_MOST_NAMED])})"
    if 10 * mine.measure < 9 * when.measure:
        said += f", {human(mine.measure, Unit.NS)} of it"
    others = "" if what in ("input", "sleep") else _others(scene, wait, mine)
    inside = when.covered(scene.gaps.start, scene.gaps.end)
    measured = replace(measured, case=what, most_ns=int(inside.max(initial=0)))
    where = costliest_gap(scene, scene.gaps, inside)
    return replace(measured, details={"what": said, "others": others}, **where)


def _others(scene: Scene, wait: _Wait, when: Union) -> str:
    # The clause says which other thread of the recording ran most of that time; "" if none is known to.
    ran = running_threads(scene.timeline, when)
    others = {thread: time for thread, time in ran.items() if thread not in wait.threads and time}
    if not others:
        return ""
    top = max(others, key=lambda thread: others[thread])
    rows = scene.timeline.profile.rows("thread")
    name = next((row["name"] for row in rows if (row["pid"], row["tid"]) == top), None)
    shown = f"{top[1]} {shorten(name, _NAME)}" if name else str(top[1])
    return f"; meanwhile thread {shown} ran for {human(others[top], Unit.NS)}"
