"""When a slice is in each process: as its times, ranges, steps and phases say together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

import numpy as np

from nsysconv import schema
from nsysconv.errors import AbsentError, UsageError, available_hint
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING, Unit, human
from nsysconv.timeline import steps as found_in
from nsysconv.timeline.account import recorded_around
from nsysconv.timeline.annotations import exact_ranges, name_pattern, named, operators, ranges
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.intervals import Union, union
from nsysconv.timeline.phase_steps import phase_names, phase_steps
from nsysconv.timeline.range_names import split_name
from nsysconv.timeline.slices import Moment, Percent, Slice
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.windows import common

Interval = tuple[int, int]

_FIRST, _LAST = -schema.TIME_LIMIT_NS, schema.TIME_LIMIT_NS
# A step that takes so many times the median of its phase is not like the others.
_WARM_UP = 1.5
_LISTED_STEPS = "The report `steps` lists them."
STEP_HINT = (
    "Name what makes a step: --step-range NAME (* stands for anything) or --step-kernel REGEX."
)


@dataclass(frozen=True)
class SliceTimes:
    """When a slice is, by process, of operations (`own`) and of calls (`launched`); others are not in it.

    None of them is empty. Where an end is open, rows have none, and `ends` says where windows have
    theirs. `notes` say where the time that was asked for had to be cut to the recording.
    """

    own: Mapping[int, Union]
    launched: Mapping[int, Union]
    ends: Interval
    notes: tuple[Note, ...] = ()


def slice_times(timeline: Timeline, part: Slice) -> SliceTimes:
    """Return the slice's time in each process: where all that is asked for holds."""
    if part.by_range and not part.projected and timeline.clocks_disagree:
        what = "CPU and GPU times are not on one clock: when this was on the GPU is not recorded"
        raise UsageError(what, hint="--projected takes what was launched in it.")
    # Rows of which no process is recorded have MISSING for one.
    pids = {int(row["pid"]) for row in timeline.profile.rows("process")} | {MISSING}
    (low, high), ends, notes = _moments(timeline, part)
    times = dict.fromkeys(pids, _one(low, high))
    if part.skip_first:
        times = _meet(times, _after_steps(timeline, part))
    if part.step is not None:
        times = _meet(times, _of_steps(timeline, part, part.step))
    if part.range is not None:
        times = _meet(times, _of_range(timeline, part.range))
    if part.steady:
        steady, note = _steady(timeline, part)
        times, notes = _meet(times, steady), (*notes, note)
    elif part.phase is not None:
        times = _meet(times, _of_phase(timeline, part))
    launched = {pid: when for pid, when in times.items() if len(when.starts)}
    if not launched:
        hint = "What was asked for does not happen at one time, or takes none."
        raise UsageError("the slice is empty", hint=hint)
    own = _projected(timeline, launched) if part.projected else launched
    return SliceTimes(own, launched, ends, notes)


def _meet(times: Mapping[int, Union], more: Mapping[int, Union]) -> dict[int, Union]:
    return {pid: common(when, more[pid]) for pid, when in times.items() if pid in more}


def _one(low: int, high: int) -> Union:
    return union(np.array([low]), np.array([high]))


def _moments(timeline: Timeline, part: Slice) -> tuple[Interval, Interval, tuple[Note, ...]]:
    # The slice's time as far as `time` says it, for rows; and where windows begin and end at most.
    # From 0 % on, and up to 100 %, is an open end: it leaves nothing out.
    if part.time is None:
        return (_FIRST, _LAST), (_FIRST, _LAST), ()
    start, end = part.time
    start = None if start == Percent(0) else start
    end = None if end == Percent(100) else end
    ends = _FIRST, _LAST
    if not (isinstance(start, int) and isinstance(end, int)):
        if timeline.clocks_disagree:
            what = "CPU and GPU times are not on one clock: the profile has no one beginning or end"
            raise UsageError(what, hint="Say both ends of the time in ns, us, ms or s.")
        ends = found_in.extent(timeline) or (0, 0)
    low = _FIRST if start is None else _moment(start, ends)
    high = _LAST if end is None else _moment(end, ends)
    reach = max(low, ends[0]), min(high, ends[1])
    first, last = recorded_around(timeline, *reach) or (_FIRST, _LAST)
    if high <= max(low, ends[0], first) or low >= min(ends[1], last):
        first, last = (first, last) if first > _FIRST else ends
        hint = f"The profile is from {first} ns to {last} ns."
        raise AbsentError("the slice is empty: nothing was recorded then", hint=hint)
    kept = low if start is None else max(low, first), high if end is None else min(high, last)
    notes = () if kept == (low, high) else (_cut_to_recording(first, last),)
    return kept, (ends[0] if start is None else _FIRST, ends[1] if end is None else _LAST), notes


def _cut_to_recording(first: int, last: int) -> Note:
    when = " to ".join(human(moment, Unit.NS) for moment in (first, last))
    text = f"the requested time exceeds the recording and was cut to it: {when}"
    return Note("slice-beyond-recording", Severity.INFO, text)


def _moment(wanted: Moment, ends: Interval) -> int:
    if isinstance(wanted, Percent):
        return ends[0] + int((ends[1] - ends[0]) * Fraction(wanted.value) / 100)
    return min(max(wanted, _FIRST), _LAST)


def _after_steps(timeline: Timeline, part: Slice) -> dict[int, Union]:
    skipped, after = part.skip_first, {}
    for steps in _steps(timeline, part):
        if len(steps) > skipped:
            after[steps.pid] = _one(int(steps.end[skipped - 1]), int(steps.end.max()))
    if not after:
        raise UsageError(f"too few steps: no process has more than {skipped}", hint=_LISTED_STEPS)
    return after


def _of_steps(timeline: Timeline, part: Slice, wanted: str) -> dict[int, Union]:
    found = {}
    for steps in _steps(timeline, part):
        places = _places(steps, wanted)
        if places:
            found[steps.pid] = union(steps.start[places], steps.end[places])
    if not found:
        raise UsageError(f"no step {wanted!r}", hint=_LISTED_STEPS)
    return found


def _steps(timeline: Timeline, part: Slice) -> list[found_in.Steps]:
    found = (found_in.annotated if part.projected else found_in.steps)(timeline, part.step_rule)
    if not found:
        raise UsageError(f"no steps: {part.step_rule.absent}", hint=STEP_HINT)
    return found


def _of_phase(timeline: Timeline, part: Slice) -> dict[int, Union]:
    found = {}
    for steps, phases in _steps_of_phases(timeline, part):
        places = [place for place, phase in enumerate(phases) if phase == part.phase]
        if places:
            found[steps.pid] = union(steps.start[places], steps.end[places])
    if not found:
        names = phase_names(timeline, part.grammar)
        hint = available_hint(part.phase, names, "The report `phases` lists them.")
        raise UsageError(f"no phase {part.phase!r}", hint=hint)
    return found


def _steps_of_phases(timeline: Timeline, part: Slice) -> list[tuple[found_in.Steps, list[str]]]:
    # The steps of each process with their phases.
    found = phase_steps(timeline, part.grammar)
    steps = found.annotated if part.projected else found.steps
    return [(mine, [found.phase(name) for name in mine.name]) for mine in steps]


def _steady(timeline: Timeline, part: Slice) -> tuple[dict[int, Union], Note]:
    # The longest run of steps of one phase in each process, after those that are long as the first are.
    if part.phase is not None:
        _of_phase(timeline, part)  # which says what phases there are
    whole_steps = all(said.is_step for said in phase_steps(timeline, part.grammar).used)
    by_phase = part.phase is not None or (whole_steps and not part.step_rule)
    steps = _steps_of_phases(timeline, part) if by_phase else []
    steps = steps or [(mine, [""] * len(mine)) for mine in _steps(timeline, part)]
    times, kept, warm_up = {}, 0, 0
    for mine, phases in steps:
        first = _past_warm_up(mine, phases)
        run = _longest_run(phases[first:], part.phase)
        if run is not None:
            places = slice(first + run[0], first + run[1])
            times[mine.pid] = union(mine.start[places], mine.end[places])
            kept += run[1] - run[0]
        warm_up += first
    count = sum(len(mine) for mine, _ in steps)
    others = count - kept - warm_up
    text = (
        f"steady: {kept:,} of {count:,} steps, the longest run of one phase; left out: {warm_up:,} of "
        f"warm-up, {others:,} others"
    )
    return times, Note("steady-steps", Severity.INFO, text)


def _past_warm_up(steps: found_in.Steps, phases: list[str]) -> int:
    # How many steps at the beginning take much longer than the median of their phase.
    lengths, several = steps.lengths, np.array(phases)
    for place, phase in enumerate(phases):
        if lengths[place] <= _WARM_UP * np.median(lengths[several == phase]):
            return place
    return len(phases)


def _longest_run(phases: list[str], wanted: str | None) -> tuple[int, int] | None:
    # Where the most steps of one phase follow each other, the first of such; None: there is none.
    best: tuple[int, int] | None = None
    first = 0
    for phase, run in groupby(phases):
        past = first + len(list(run))
        if wanted in (None, phase) and (best is None or past - first > best[1] - best[0]):
            best = first, past
        first = past
    return best


def _places(steps: found_in.Steps, wanted: str) -> list[int]:
    # A number is the one in the names, as in `ProfilerStep#5`, where they have one; else it counts.
    fits = name_pattern(wanted).fullmatch
    if named := [place for place, name in enumerate(steps.name) if fits(name)]:
        return named
    match = re.fullmatch(r"(\d{1,18})(?::(\d{1,18}))?", wanted)
    if match is None:
        return []
    first, last = int(match[1]), int(match[2] or match[1])
    in_names = [re.search(r"(\d{1,18})\D*$", name) for name in steps.name]
    numbers = [int(m[1]) for m in in_names if m]
    if len(numbers) < len(steps) or len(set(numbers)) < len(numbers):
        numbers = list(range(1, len(steps) + 1))
    return [place for place, number in enumerate(numbers) if first <= number <= last]


def _of_range(timeline: Timeline, text: str) -> dict[int, Union]:
    for name, domain, occurrence in _readings(text):
        recorded = exact_ranges if split_name(name).has_arguments else ranges
        for spans in (recorded(timeline), operators(timeline)):
            mine = spans.take(named(timeline, spans, name, domain))
            times = {}
            for pid in distinct(mine.pid).tolist():
                here = mine.take(mine.pid == pid)
                if occurrence is None:
                    times[pid] = union(here.start, here.end)
                elif len(here) >= occurrence:
                    place = np.lexsort((here.end, here.start))[occurrence - 1]
                    times[pid] = union(here.start[[place]], here.end[[place]])
            if times:
                return times
    spans = ranges(timeline)
    named_by = spans if len(spans) else operators(timeline)
    names = sorted(named_by.names[i] for i in distinct(named_by.name).tolist())
    hint = available_hint(text, names, "The report `ranges` lists them all.")
    raise UsageError(f"no range {text!r}", hint=hint)


def _readings(text: str) -> Iterator[tuple[str, str | None, int | None]]:
    # Names, domains, and which of such a name; None: all of them.
    whole: list[tuple[str, int | None]] = [(text, 1)]
    match = re.fullmatch(r"(.*)#([1-9]\d{0,8}|\*)", text, re.DOTALL)
    if match is not None:
        whole.append((match[1], None if match[2] == "*" else int(match[2])))
    yield from ((name, None, occurrence) for name, occurrence in whole)
    for head, occurrence in whole:
        name, sign, domain = head.rpartition("@")
        if sign:
            yield name, domain, occurrence


def _projected(timeline: Timeline, launched: Mapping[int, Union]) -> dict[int, Union]:
    # What was launched in each interval lasts from its first operation to its last.
    ops, owner = timeline.ops, timeline.owner
    times = {}
    for pid, when in launched.items():
        mine = np.flatnonzero((owner >= 0) & ops.timed & (ops.pid == pid))
        called = timeline.calls.start[owner[mine]]
        place = np.searchsorted(when.starts, called, side="right") - 1
        inside = (place >= 0) & (called < when.ends[place])
        mine, place = mine[inside], place[inside]
        if len(mine):
            order = np.argsort(place, kind="stable")
            first = np.flatnonzero(np.diff(place[order], prepend=-1))
            mine = mine[order]
            starts = np.minimum.reduceat(ops.start[mine], first)
            times[pid] = union(starts, np.maximum.reduceat(ops.end[mine], first))
    if not times:
        hint = "Without --projected it has a time."
        raise UsageError("no GPU operation was launched in the range", hint=hint)
    return times
