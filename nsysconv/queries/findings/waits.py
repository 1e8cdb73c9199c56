"""Rules on waits: the host waits for each kernel or small copy, the GPU for what was launched before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from nsysconv.names import WAITS, called, shorten_kernel
from nsysconv.queries.findings.contract import NAMES_CALL, NAMES_VALUE, Found, Scene, counted
from nsysconv.report import MISSING, Unit, human
from nsysconv.threads import cached_in
from nsysconv.timeline.account import op_name
from nsysconv.timeline.arrays import Array, blocks, factorize, places_of, sums, take
from nsysconv.timeline.dependencies import blocked_by
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import PARTS, Gaps, gap_id, gap_numbers, parts
from nsysconv.timeline.intervals import Union, union, united

_QUEUE, _UNKNOWN = PARTS.index("queue"), PARTS.index("unknown")
_SMALL_COPY_BYTES = 65_536
_DTOH = 2
_NAME = 40


def gap_at(scene: Scene, found: Gaps, place: int | None) -> dict[str, Any]:
    """Return where one of these gaps is: its id, the operations around it, its stream; None: no gap."""
    if place is None:
        return {}
    ended_by = int(found.ended_by[place])
    low = int(found.start[place])
    # The whole recording is used and not the slice, because the operation that ends a gap may lie
    # outside of the slice.
    (number,) = gap_numbers(scene.timeline, found.take(slice(place, place + 1))).tolist()
    where: dict[str, Any] = {"gap": gap_id(number)}
    ops = scene.timeline.ops
    if ended_by >= 0:
        where["after"] = op_name(scene.timeline, ended_by)
        where["event"] = ops.event_id(ended_by)
        stream = int(ops.stream[ended_by])
        where["stream"] = None if stream == MISSING else stream
    here = np.flatnonzero((ops.device == scene.device) & (ops.end == low) & ops.timed)
    if len(here):
        where["before"] = op_name(scene.timeline, int(here[0]))
    return where


def costliest_gap(scene: Scene, found: Gaps, cost: Array) -> dict[str, Any]:
    """Return where the gap is that costs most, as `gap_at` does."""
    return gap_at(scene, found, int(cost.argmax()) if len(cost) else None)


@dataclass(frozen=True)
class GapsAfterWaits:
    """The gaps that began while the host was in one of the given calls, and what they cost.

    Without the wait the host would have continued earlier, by the time that it waited at most: so much
    of a gap counts. `outlasting`: how many ended after the wait; the operation that ended another one
    had been launched before. `costliest`: the place of the gap that costs most; None if there is none.
    """

    count: int = 0
    outlasting: int = 0
    time: int = 0
    costliest: int | None = None


def gaps_after(
    scene: Scene, waits: Array, *, which: Array | None = None, outlasting: bool = False
) -> GapsAfterWaits:
    """Return what the gaps cost that began while the host was in one of these calls.

    `which`: only these of the device's gaps, as indices; None: all. `outlasting`: only those that ended
    after the wait.
    """
    count = outlasted = time = most = 0
    costliest = None
    for begin, _, cost, outlasts in _costs(scene, waits, which, outlasting):
        count += int(np.count_nonzero(cost))
        outlasted += int(np.count_nonzero(outlasts))
        time += int(cost.sum())
        if cost.max(initial=0) > most:
            most, costliest = int(cost.max()), begin + int(cost.argmax())
    if which is not None and costliest is not None:
        costliest = int(which[costliest])
    return GapsAfterWaits(count, outlasted, time, costliest)


def after_waits(
    scene: Scene, waits: Array, *, which: Array | None = None, outlasting: bool = False
) -> Union:
    """Return the time that `gaps_after` counts, from the start of each gap."""
    count = 0 if scene.gaps is None else len(scene.gaps)
    costs = _costs(scene, waits, which, outlasting)
    return united(((low, low + cost) for _, low, cost, _ in costs), count)


def _costs(
    scene: Scene, waits: Array, which: Array | None, outlasting: bool
) -> Iterator[tuple[int, Array, Array, Array]]:
    # Blocks of gaps: the place of the first one, when each starts, what it costs, and which of those
    # that began in a wait outlasted it.
    found = scene.gaps
    waiting = scene.calls_at(waits)
    if found is None or not len(waiting.starts):
        return
    for block in blocks(len(found) if which is None else len(which)):
        here = block if which is None else which[block]
        low, high = found.start[here], found.end[here]
        place = np.searchsorted(waiting.starts, low, side="right") - 1
        until = waiting.ends.take(place, mode="clip")
        # A window begins with no gap, a slice may: nothing ran before.
        mine = (place >= 0) & (until > low) & (low > scene.window.start)
        outlasts = mine & (high >= until)
        if outlasting:
            mine = outlasts
        waited = until - waiting.starts.take(place, mode="clip")
        yield block.start, low, np.where(mine, np.minimum(high - low, waited), 0), outlasts


@cached_in("measured")
def sync_each_kernel(scene: Scene) -> Found | None:
    """Measure the gaps that began while the host waited for the device, and outlasted it, by kernel."""
    waits = scene.calls_named(called(*WAITS))
    after = gaps_after(scene, waits, outlasting=True)
    kernels = int(np.count_nonzero(scene.ops.kind == OpKind.KERNEL))
    if not kernels or scene.gaps is None:
        return None
    when = partial(after_waits, scene, waits, outlasting=True)
    measured = Found(after.count / kernels, after.time, when=when, names=NAMES_CALL)
    if not scene.speaks("sync_each_kernel", measured):
        return measured
    details = {
        "kernels": counted(kernels, "kernel", "kernels"),
        "count": counted(after.count, "gap", "gaps"),
        "calls": scene.names_of(waits),
    }
    return replace(measured, details=details, **gap_at(scene, scene.gaps, after.costliest))


@cached_in("measured")
def sync_small_copies(scene: Scene) -> Found | None:
    """Measure the gaps that began as a small copy to the host ended which the host waited for."""
    copies, column = scene.copies
    size = column["bytes"]
    small = (column["direction"] == _DTOH) & (size >= 0) & (size <= _SMALL_COPY_BYTES)
    ended = copies.end[small]
    if scene.gaps is None or not len(ended):
        return None
    begun = places_of(ended, scene.gaps.start)
    most = int((take(scene.gaps.end, begun) - take(scene.gaps.start, begun)).sum())
    # The finding cannot exceed all of these gaps.
    if not scene.speaks("sync_small_copies", at_most := Found(scene.of_window(most), most)):
        return at_most
    waits = scene.calls_named(called(*WAITS, "blocking_copy"))
    after = gaps_after(scene, waits, which=begun)
    details = {"count": counted(after.count, "blocking copy", "blocking copies")}
    where = gap_at(scene, scene.gaps, after.costliest)
    when = partial(after_waits, scene, waits, which=begun)
    share = scene.of_window(after.time)
    return Found(share, after.time, details, when=when, names=NAMES_VALUE, **where)


def queue_wait(scene: Scene) -> Found | None:
    """Measure the idle time in which the next operation had been launched."""
    time = scene.times["idle_queue"]
    measured = Found(scene.of_window(time), time)
    if scene.gaps is None or not scene.speaks("queue_wait", measured):
        return measured
    gaps, of_gaps = scene.gaps, parts(scene.timeline, scene.gaps)
    cost, until = of_gaps[_QUEUE], gaps.end - of_gaps[_UNKNOWN]
    when = partial(union, until - cost, until)
    details = {
        "stream": _stream_of(scene, gaps, cost),
        "call": _call_meanwhile(scene, when(), time),
        "blocked": _blocker(scene, gaps, of_gaps),
    }
    return replace(measured, details=details, when=when, **costliest_gap(scene, gaps, cost))


def _call_meanwhile(scene: Scene, queued: Union, time: int) -> str:
    # The clause names the function that ran for half of the time or more, of those that wait for other
    # work, or make it wait.
    calls = scene.timeline.calls
    which = scene.calls_named(called("blocking_copy", "allocation", "free"))
    group, (names,) = factorize(calls.name_id[which])
    spent = sums(group, queued.covered(calls.start[which], calls.end[which]), len(names))
    if not len(names) or 2 * int(spent.max()) < time:
        return ""
    top = int(spent.argmax())
    name = scene.timeline.call_names[int(names[top])]
    return f"; {human(int(spent[top]), Unit.NS)} of it during {name}"


def _blocker(scene: Scene, gaps: Gaps, of_gaps: Array) -> str:
    # The clause names the operations for which was waited longest, where events say so: of another
    # device, because of this one none ran.
    blocked = blocked_by(scene.timeline, gaps, of_gaps)
    known = np.flatnonzero(blocked.time)
    if not len(known):
        return ""
    whole, on = scene.timeline.whole, blocked.on[known]
    names = [op_name(whole, op) for op in on.tolist()]
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    number = np.array([place[name] for name in names])
    spent = sums(number, blocked.time[known], len(place))
    top = int(spent.argmax())
    first = int(on[int(np.flatnonzero(number == top)[0])])
    name = shorten_kernel(list(place)[top], _NAME)
    where = f"{name} of GPU {int(whole.ops.device[first])}"
    return f"; {human(int(spent[top]), Unit.NS)} of it waiting for {where}"


def _stream_of(scene: Scene, gaps: Gaps, cost: Array) -> str:
    # The clause names the stream whose operations were late for most of the time.
    ended = np.flatnonzero((gaps.ended_by >= 0) & (cost > 0))
    group, (streams,) = factorize(scene.timeline.ops.stream[gaps.ended_by[ended]])
    if not len(streams):
        return ""
    spent = sums(group, cost[ended], len(streams))
    top = int(spent.argmax())
    if int(streams[top]) == MISSING:
        return ""
    return (
        f"; {human(int(spent[top]), Unit.NS)} of it before operations of stream {int(streams[top])}"
    )
