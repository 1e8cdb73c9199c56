"""Rules on the host: it launches late, launches much, loads data; others are at work."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from nsysconv.facts import Fact
from nsysconv.names import called, shorten
from nsysconv.queries.findings.calls import slow, without_other_rules
from nsysconv.queries.findings.communication import ON_THE_HOST
from nsysconv.queries.findings.contract import (
    NAMES_NOTHING,
    NAMES_RANGE,
    Found,
    Measure,
    Scene,
    counted,
    remaining,
    uncovered,
)
from nsysconv.queries.findings.copies import is_pageable
from nsysconv.queries.findings.host_waits import named_waits, waits
from nsysconv.queries.findings.operators import host_sync
from nsysconv.queries.findings.waits import costliest_gap, sync_each_kernel, sync_small_copies
from nsysconv.report import MISSING, Unit, human
from nsysconv.threads import cached_in
from nsysconv.timeline.annotations import shown_ranges, which_named
from nsysconv.timeline.arrays import Array, among, blocks, counts, distinct, factorize, sums, take
from nsysconv.timeline.events import OpKind, event_id
from nsysconv.timeline.host_activity import HostActivity, host_activity, most_sampled
from nsysconv.timeline.host_threads import BLOCKED, OFF_CPU, READY, RUNNING
from nsysconv.timeline.idle import (
    PARTS,
    Gaps,
    drop_threadless_host_parts,
    gap_id,
    gap_numbers,
    parts,
)
from nsysconv.timeline.intervals import Union, difference, lasting, union, united
from nsysconv.timeline.range_names import GROUPED
from nsysconv.timeline.steps import waits_for_input

_HOST, _LAUNCH, _UNKNOWN = (PARTS.index(name) for name in ("host", "launch", "unknown"))
_SHORT_GAP_NS, _LONG_GAP_NS = 200_000, 1_000_000
_SHORT_KERNEL_NS = 20_000
_MOST_GAPS = 100_000
_MOST_PCT = 80
# From this share on one gap is what the finding is about.
_MOST_OF_ONE_PCT = 80
_NAME, _FUNCTION = 36, 60
# Functions of the kernel that give a process memory where it touches it first.
_PAGE_FAULT = re.compile(r"page_fault|handle_mm_fault|clear_(?:huge_)?page|do_anonymous_page")
_STATES = {
    RUNNING: "on a CPU",
    READY: "ready, without a CPU",
    BLOCKED: "blocked",
    OFF_CPU: "off the CPU",
}


@cached_in("measured")
def launch_bound(scene: Scene) -> Found | None:
    """Measure the idle time of host and launches in gaps below 200 µs, where kernels are short."""
    kernels = spent = 0
    for block in blocks(len(scene.ops)):
        mine = scene.ops.kind[block] == OpKind.KERNEL
        kernels += int(np.count_nonzero(mine))
        spent += int((scene.ops.end[block] - scene.ops.start[block]).sum(where=mine))
    if not kernels or scene.gaps is None:
        return None
    mean = spent / kernels
    if mean >= _SHORT_KERNEL_NS:
        return None
    time = count = 0
    most, event, gap = 0, None, None
    for short, late in _short_gaps(scene, scene.gaps):
        time += int(late.sum())
        count += int(np.count_nonzero(late))
        if late.max(initial=0) > most:
            most = int(late.max())
            worst = short.take(np.array([late.argmax()]))
            event = scene.timeline.ops.event_id(int(worst.ended_by[0]))
            gap = gap_id(int(gap_numbers(scene.timeline, worst)[0]))
    details = {"mean_kernel": human(mean, Unit.NS), "gaps": counted(count, "gap", "gaps")}
    gaps = scene.gaps

    def when() -> Union:
        found = ((each.start, each.start + late) for each, late in _short_gaps(scene, gaps))
        return united(found, len(gaps))

    return Found(scene.of_window(time), time, details, event=event, gap=gap, when=when)


def _short_gaps(scene: Scene, gaps: Gaps) -> Iterator[tuple[Gaps, Array]]:
    # Gaps below 200 µs, some at a time, and how much of each the host and its launch take.
    for block in blocks(len(gaps)):
        short = gaps.take(block)
        short = short.take(np.flatnonzero(short.dur < _SHORT_GAP_NS))
        yield short, parts(scene.timeline, short)[[_HOST, _LAUNCH]].sum(axis=0)


# These rules measure causes of short gaps.
_SHORT_GAPS: dict[str, Measure] = {
    "launch_bound": launch_bound,
    "host_sync": host_sync,
    "sync_each_kernel": sync_each_kernel,
    "sync_small_copies": sync_small_copies,
}


def host_bound(scene: Scene) -> Found | None:
    """Measure the host parts of gaps in which the launching thread was in no API call, or in a slow one.

    What other rules say is left out: gaps below 200 µs where `launch_bound` or a rule on waits speaks,
    and the time of the data loader where `data_loader` does.
    """
    if scene.gaps is None:
        return None
    found = drop_threadless_host_parts(scene.timeline, scene.gaps)
    if any(scene.has(rule, measure) for rule, measure in _SHORT_GAPS.items()):
        found = found.take(np.flatnonzero(lasting(found.start, found.end, _SHORT_GAP_NS)))
    # A sentence needs no number of an operator's call, so calls are grouped, however tables name
    # ranges.
    activity = host_activity(scene.timeline, GROUPED)
    slow_time, most_of_slow = _in_slow_calls(scene, found)
    when = partial(_waited, scene, activity, found, slow_time)
    waited = when()
    time = waited.measure
    measured = Found(scene.of_window(time), time)
    if not scene.speaks("host_bound", measured):
        return measured
    doing, place, case = _doing(scene, activity, found, time)
    if 2 * slow_time.measure > time:
        name, spent = most_of_slow
        doing, place = f", {human(spent, Unit.NS)} of it in {name}", f" in {name}"
        case = _slow_case(scene, name)
    names = NAMES_RANGE if place else NAMES_NOTHING
    within = waited.covered(found.start, found.end)
    where, most = costliest_gap(scene, found, within), int(within.max(initial=0))
    if not case and _MOST_OF_ONE_PCT * time < 100 * most:
        case = "once"
    # Larger batches make fewer gaps, which helps where many short ones are the cost.
    many = 2 * int(within.sum(where=found.dur < _LONG_GAP_NS)) >= time
    case = case or ("" if many else "long")
    measured = replace(measured, names=names, case=case, most_ns=most, when=when)
    also = " or in slow ones (100 µs or more)" if slow_time.measure else ""
    details = {"doing": f"{also}{doing}", "place": place}
    return replace(measured, details=details, **where)


def _in_slow_calls(scene: Scene, found: Gaps) -> tuple[Union, tuple[str, int]]:
    # When the GPU waited in these gaps for slow calls that no other rule is about, if that alone is a
    # finding, and the name under which most of that is, with its time.
    which, calls = slow(scene), scene.timeline.calls
    nothing = scene.calls_at(which[:0]), ("", 0)
    if not len(which):
        return nothing
    (waited, _), during = waits(scene), scene.calls_at(which)
    inside = difference(during, difference(during, union(found.start, found.end)))
    inside = without_other_rules(scene, difference(difference(inside, named_waits(scene)), waited))
    if not scene.speaks("host_bound", Found(scene.of_window(inside.measure))):
        return nothing
    place, (names,) = factorize(take(calls.name_id, which))
    spent = inside.covered(take(calls.start, which), take(calls.end, which))
    by_name = sums(place, spent, len(names))
    top = int(by_name.argmax())
    return inside, (scene.timeline.call_names[int(names[top])], int(by_name[top]))


def _slow_case(scene: Scene, name: str) -> str:
    # The advice on slow calls. The host itself copies pageable memory alone.
    if not called("copy", "kernel_launch")(name):
        return "call"
    copies = scene.owner[scene.ops.kind == OpKind.MEMCPY]
    mine = among(copies, scene.calls_named(lambda other: other == name))
    pageable = int(np.count_nonzero(is_pageable(scene.copies[1]) & mine))
    return "copy" if 2 * pageable > int(np.count_nonzero(mine)) else "delayed"


def _waited(scene: Scene, activity: HostActivity, found: Gaps, slow_time: Union) -> Union:
    outside = [*_outside(scene, activity, found), slow_time]
    starts, ends = ([getattr(each, name) for each in outside] for name in ("starts", "ends"))
    return union(np.concatenate(starts), np.concatenate(ends))


def _outside(scene: Scene, activity: HostActivity, found: Gaps) -> Iterator[Union]:
    # The host parts of gaps outside calls, without the waits that are findings of their own.
    own, (waited, _) = named_waits(scene), waits(scene)
    for each in activity.outside_calls(found):
        yield difference(difference(each, own), waited)


def _doing(scene: Scene, activity: HostActivity, found: Gaps, whole: int) -> tuple[str, str, str]:
    # The result is a clause on what the host did most of the time in the longest gaps, without calls
    # and waits for input; the place in words if that is a cause, a range that takes half of the whole
    # and does not fill the window; and the case of the advice.
    capturing = _capturing(scene)
    captured = sum(
        int(capturing.covered(each.starts, each.ends).sum())
        for each in (_outside(scene, activity, found) if len(capturing.starts) else ())
    )
    if 2 * captured > whole:
        clause = f", {human(captured, Unit.NS)} of it while it captured CUDA graphs"
        begun, replayed = (
            scene.calls_named(called(role)) for role in ("begin_capture", "graph_launch")
        )
        case = "recapture" if 2 * len(begun) > len(replayed) > 1 else "capture"
        return clause, " that captures CUDA graphs", case
    _, named = waits(scene)
    most = mostly(
        activity,
        found,
        lambda name: name in named or waits_for_input(name) or ON_THE_HOST.match(name) is not None,
    )
    if most is None:
        return "", "", ""
    clause = f", {human(most.time, Unit.NS)} of it {most.words}"
    if most.kind == "thread":
        return clause, "", _case(scene, most.name, most.function)
    is_cause = most.kind == "range" and 2 * most.time > whole and not _encloses(scene, most.name)
    return (clause, f" {most.words}", "range") if is_cause else (clause, "", "")


class Most(NamedTuple):
    """What a thread did for most of some time, in ns, outside of API calls, and the words for it.

    `function`: that of most samples, of a thread that ran; empty where it is not known.
    """

    time: int
    kind: str
    name: str
    words: str
    function: str = ""


def mostly(
    activity: HostActivity, found: Gaps, is_left_out: Callable[[str], bool] = lambda name: False
) -> Most | None:
    """Return what launching threads did most of the time in the longest of these gaps; None: nothing."""
    if len(found) > _MOST_GAPS:
        found = found.take(np.sort(np.argpartition(-found.dur, _MOST_GAPS)[:_MOST_GAPS]))
    by_name: dict[tuple[str, str], int] = {}
    for pieces in activity.split(found):
        group, (labels,) = factorize(pieces.label)
        spent = sums(group, pieces.time, len(labels))
        for label, time in zip(labels.tolist(), spent.tolist(), strict=True):
            kind, name = activity.name(label)
            if kind != "api_call" and not is_left_out(name):
                by_name[kind, name] = by_name.get((kind, name), 0) + time
    if not by_name:
        return None
    kind, name = top = max(by_name, key=lambda key: by_name[key])
    if kind == "thread":
        function = most_sampled(_samples(activity, found)) if name == RUNNING else None
        ran = "" if function is None else f", most samples in {shorten(function, _FUNCTION)}"
        return Most(by_name[top], kind, name, f"{_STATES[name]}{ran}", function or "")
    words = {"outside": "in unrecorded host code", "os_call": f"in {name}"}
    place = f"in {kind.replace('_', ' ')} {shorten(name, _NAME)}"
    return Most(by_name[top], kind, name, words.get(kind, place))


def _samples(activity: HostActivity, found: Gaps) -> Counter[tuple[str, str | None]]:
    seen: Counter[tuple[str, str | None]] = Counter()
    for pieces in activity.split(found):
        seen.update(activity.sampled_in(pieces).get(activity.label_of(RUNNING), {}))
    return seen


def _case(scene: Scene, state: str, function: str) -> str:
    # The advice for a thread that ran on no CPU depends on whether its calls were recorded.
    if state == RUNNING:
        return "faults" if _PAGE_FAULT.search(function) else ""
    return "blocked" if Fact.OSRT_CALLS in scene.timeline.profile.facts else "waits"


def _capturing(scene: Scene) -> Union:
    # From the begin of each capture of a stream to the end that its thread calls next.
    calls = scene.timeline.calls
    begin, end = (scene.calls_named(called(f"{what}_capture")) for what in ("begin", "end"))
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for thread in distinct(calls.thread[begin]).tolist():
        begun, ended = (each[calls.thread[each] == thread] for each in (begin, end))
        place = np.searchsorted(ended, begun)
        begun, place = begun[place < len(ended)], place[place < len(ended)]
        starts.append(calls.start[begun])
        ends.append(calls.end[ended[place]])
    return union(np.concatenate(starts), np.concatenate(ends))


def _encloses(scene: Scene, name: str) -> bool:
    # The result is true for ranges that fill the window: they are steps, or hold the whole work.
    spans = shown_ranges(scene.timeline, GROUPED)
    mine = spans.take(which_named(spans, name.__eq__))
    filled = scene.window.measure(mine.start, mine.end)
    return filled * 100 >= scene.window.length * _MOST_PCT


def idle_unknown(scene: Scene) -> Found | None:
    """Measure the idle time of which no cause is recorded."""
    if len(scene.timeline.whole.lost_launches):
        return None  # its advice would be wrong: a note says what is missing
    time = scene.times["idle_unknown"]
    measured = Found(scene.of_window(time), time)
    if scene.gaps is None or not scene.speaks("idle_unknown", measured):
        return measured
    gaps, lost = scene.gaps, parts(scene.timeline, scene.gaps)[_UNKNOWN]
    when = partial(union, gaps.end - lost, gaps.end)
    return replace(measured, when=when, **costliest_gap(scene, gaps, gaps.dur))


# What a call may return that is not a failure, beside 0: not ready, peer access or registered memory that
# is there already, and, at the end of a process, that its context is gone (docs/definitions/findings.md).
# 29 and 50 said so before CUDA 10.1.
_NO_FAILURES = np.array([4, 29, 50, 600, 704, 709, 712])
_FAILURES = {
    1: "invalid value", 2: "out of memory", 98: "invalid device function",
    209: "no kernel image for this GPU", 222: "PTX of a newer compiler", 700: "illegal address",
    701: "too many resources", 719: "launch failure",
}  # fmt: skip
_MOST_NAMED = 2


def failed_calls(scene: Scene) -> Found | None:
    """Count the calls that failed, by function and result."""
    calls, names = scene.timeline.calls, scene.timeline.call_names
    result = scene.timeline.profile.columns("api_call", ("result",))["result"]
    rows = np.flatnonzero((result != 0) & (result != MISSING))  # few, of millions
    rows = rows[~among(result[rows], _NO_FAILURES)]
    failed = np.flatnonzero(among(calls.row, rows) & scene.outermost) if len(rows) else rows
    asks = called("query")
    asking = np.array(sorted(i for i, name in names.items() if asks(name)), np.int64)
    failed = failed[~among(calls.name_id[failed], asking)]
    if not len(failed):
        return Found(0.0)
    group, (ids, codes) = factorize(calls.name_id[failed], result[calls.row[failed]])
    most = np.argsort(-counts(group, len(ids)), kind="stable")[:_MOST_NAMED].tolist()
    said = []
    for i in most:
        these, of = (int(np.count_nonzero(each)) for each in (group == i, calls.name_id == ids[i]))
        code = int(codes[i])
        why = f" ({_FAILURES[code]})" if code in _FAILURES else ""
        share = f"all {of:,}" if these == of > 1 else f"{these:,} of {of:,}"
        said.append(f"{share} of {names[int(ids[i])]} with {code}{why}")
    event = event_id("api_call", int(calls.row[failed[0]]))
    details = {
        "count": counted(len(failed), "call", "calls"),
        "results": ", ".join(said),
        "first": event,
    }
    return Found(float(len(failed)), 0, details, event=event)


def profiler_overhead(scene: Scene) -> Found | None:
    """Measure the idle time in the window in which the profiler itself was at work."""
    time = uncovered(scene.profiler, scene.busy, scene.window)
    when = partial(remaining, scene.profiler, scene.busy, scene.window)
    return Found(scene.of_window(time), time, {}, when=when)


def shared_gpu(scene: Scene) -> Found | None:
    """Measure the time in which another process than the one with most operations used the device."""
    pids = distinct(scene.ops.pid)
    if len(pids) < 2:
        return None
    times = []
    for pid in pids.tolist():
        mine = scene.ops.pid == pid
        times.append(union(take(scene.ops.start, mine), take(scene.ops.end, mine)).measure)
    largest = pids[int(np.argmax(times))]
    others = scene.ops.pid != largest
    time = scene.window.measure(scene.ops.start, scene.ops.end, others)
    event = scene.longest_op(others)
    return Found(scene.of_window(time), time, {"process_count": len(pids)}, event=event)
