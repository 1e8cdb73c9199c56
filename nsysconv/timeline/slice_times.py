"""When a slice is: what times, ranges and steps mean in a profile.

Definitions, with worked examples: docs/definitions.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from nsysconv import schema
from nsysconv.errors import UsageError, available_hint
from nsysconv.report import MISSING
from nsysconv.timeline import steps as found_in
from nsysconv.timeline.annotations import named, operators, ranges
from nsysconv.timeline.slices import Moment, Percent, Slice
from nsysconv.timeline.statistics import distinct
from nsysconv.timeline.timeline import Timeline

Interval = tuple[int, int]

_FIRST, _LAST = -schema.TIME_LIMIT_NS, schema.TIME_LIMIT_NS


@dataclass(frozen=True)
class Times:
    """When a slice is, per process; `launched` is when that is asked of calls instead of operations.

    A process that is in neither is not in the slice. Where an end is open, rows have none, and `ends`
    says where windows have theirs.
    """

    own: Mapping[int, Interval]
    launched: Mapping[int, Interval]
    ends: Interval


def times(timeline: Timeline, part: Slice) -> Times:
    """The slice's time in each process: where all that is asked for holds."""
    if part.by_range and not part.projected and timeline.clocks_disagree:
        raise UsageError(
            "CPU and GPU times are not on one clock: when this was on the GPU is not recorded",
            hint="--projected takes what was launched in it.",
        )
    # Rows of which no process is recorded have MISSING for one.
    pids = {int(row["pid"]) for row in timeline.profile.rows("process")} | {MISSING}
    (low, high), ends = _moments(timeline, part)
    times = dict.fromkeys(pids, (low, high))
    if part.skip_first:
        times = _meet(times, _after_steps(timeline, part))
    if part.step is not None:
        times = _meet(times, _of_steps(timeline, part))
    if part.range is not None:
        times = _meet(times, _of_range(timeline, part.range))
    launched = {pid: (low, high) for pid, (low, high) in times.items() if high > low}
    if not launched:
        raise UsageError(
            "the slice is empty",
            hint="What was asked for does not happen at one time, or takes none.",
        )
    return Times(_projected(timeline, launched) if part.projected else launched, launched, ends)


def _meet(times: Mapping[int, Interval], more: Mapping[int, Interval]) -> dict[int, Interval]:
    return {
        pid: (max(low, more[pid][0]), min(high, more[pid][1]))
        for pid, (low, high) in times.items()
        if pid in more
    }


def _moments(timeline: Timeline, part: Slice) -> tuple[Interval, Interval]:
    """The slice's time as far as `time` says it, for rows; and where windows begin and end at most.

    From 0 % on, and up to 100 %, is an open end: it leaves nothing out.
    """
    start, end = part.time or (None, None)
    start = None if start == Percent(0) else start
    end = None if end == Percent(100) else end
    ends = _FIRST, _LAST
    if part.time is not None and not (isinstance(start, int) and isinstance(end, int)):
        if timeline.clocks_disagree:
            raise UsageError(
                "CPU and GPU times are not on one clock: the profile has no one beginning or end",
                hint="Say both ends of the time in ns, us, ms or s.",
            )
        ends = found_in.extent(timeline) or (0, 0)
    low = _FIRST if start is None else _moment(start, ends)
    high = _LAST if end is None else _moment(end, ends)
    if high <= max(low, ends[0]) or low >= ends[1]:
        raise UsageError(
            "the slice is empty", hint=f"The profile is from {ends[0]} ns to {ends[1]} ns."
        )
    return (low, high), (ends[0] if start is None else _FIRST, ends[1] if end is None else _LAST)


def _moment(wanted: Moment, ends: Interval) -> int:
    if isinstance(wanted, Percent):
        return ends[0] + int((ends[1] - ends[0]) * Fraction(wanted.value) / 100)
    return min(max(wanted, _FIRST), _LAST)


def _after_steps(timeline: Timeline, part: Slice) -> dict[int, Interval]:
    """Per process from the end of the last step that is skipped to the end of its last step."""
    after = {}
    for steps in _steps(timeline, part):
        if len(steps) > part.skip_first:
            after[steps.pid] = (int(steps.end[part.skip_first - 1]), int(steps.end.max()))
    if not after:
        raise UsageError(
            f"too few steps: no process has more than {part.skip_first}",
            hint="The report `steps` lists them.",
        )
    return after


def _of_steps(timeline: Timeline, part: Slice) -> dict[int, Interval]:
    """Per process from the start of the first step that is asked for to the end of the last."""
    assert part.step is not None
    found = {}
    for steps in _steps(timeline, part):
        places = _places(steps, part.step)
        if places:
            found[steps.pid] = (int(steps.start[places[0]]), int(steps.end[places].max()))
    if not found:
        raise UsageError(f"no step {part.step!r}", hint="The report `steps` lists them.")
    return found


def _steps(timeline: Timeline, part: Slice) -> list[found_in.Steps]:
    """The steps of each process. What is launched in one is launched inside its annotation: its time
    goes on until all of that has run, when the program may be in the next.
    """
    pattern = found_in.STEP_RANGE if part.step_range is None else part.step_range
    found = (found_in.annotated if part.projected else found_in.steps)(timeline, pattern)
    if not found:
        raise UsageError(
            f"no steps: no range is called {pattern}",
            hint="--step-range NAME says what steps are called; * stands for anything.",
        )
    return found


def _places(steps: found_in.Steps, wanted: str) -> list[int]:
    """Which steps a name, a number or `FIRST:LAST` means.

    A number is the one in the names, as in `ProfilerStep#5`, where they have one; else it counts.
    """
    if wanted in steps.name:
        return [place for place, name in enumerate(steps.name) if name == wanted]
    match = re.fullmatch(r"(\d{1,18})(?::(\d{1,18}))?", wanted)
    if match is None:
        return []
    first, last = int(match[1]), int(match[2] or match[1])
    in_names = [re.search(r"(\d{1,18})\D*$", name) for name in steps.name]
    numbers = [int(m[1]) for m in in_names if m]
    if len(numbers) < len(steps) or len(set(numbers)) < len(numbers):
        numbers = list(range(1, len(steps) + 1))
    return [place for place, number in enumerate(numbers) if first <= number <= last]


def _of_range(timeline: Timeline, text: str) -> dict[int, Interval]:
    """Per process the range's own time: of that name, of that domain, and which of them, from 1."""
    for name, domain, occurrence in _readings(text):
        for spans in (ranges(timeline), operators(timeline)):
            mine = spans.take(named(timeline, spans, name, domain))
            times = {}
            for pid in distinct(mine.pid).tolist():
                here = mine.take(mine.pid == pid)
                if len(here) >= occurrence:
                    place = np.lexsort((here.end, here.start))[occurrence - 1]
                    times[pid] = (int(here.start[place]), int(here.end[place]))
            if times:
                return times
    spans = ranges(timeline)
    named_by = spans if len(spans) else operators(timeline)
    names = sorted(named_by.names[i] for i in distinct(named_by.name).tolist())
    raise UsageError(
        f"no range {text!r}",
        hint=available_hint(text, names, "The report `ranges` lists them all."),
    )


def _readings(text: str) -> Iterator[tuple[str, str | None, int]]:
    """What `NAME[@DOMAIN][#N]` may mean, most literal first: names may hold both signs themselves."""
    whole: list[tuple[str, int]] = [(text, 1)]
    match = re.fullmatch(r"(.*)#([1-9]\d{0,8})", text, re.DOTALL)
    if match is not None:
        whole.append((match[1], int(match[2])))
    for name, occurrence in whole:
        yield name, None, occurrence
    for head, occurrence in whole:
        name, sign, domain = head.rpartition("@")
        if sign:
            yield name, domain, occurrence


def _projected(timeline: Timeline, launched: Mapping[int, Interval]) -> dict[int, Interval]:
    """Per process from the first start to the last end of the operations launched in its time."""
    ops, owner = timeline.ops, timeline.owner
    times = {}
    for pid, (low, high) in launched.items():
        mine = np.flatnonzero((owner >= 0) & ops.timed & (ops.pid == pid))
        start = timeline.calls.start[owner[mine]]
        mine = mine[(start >= low) & (start < high)]
        if len(mine):
            times[pid] = (int(ops.start[mine].min()), int(ops.end[mine].max()))
    if not times:
        raise UsageError(
            "no GPU operation was launched in the range", hint="Without --projected it has a time."
        )
    return times
