"""The time account of a device: each instant in one class, and what ran (docs/definitions)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nsysconv import schema
from nsysconv.facts import Fact, in_order
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, blocks, counts, sums
from nsysconv.timeline.events import GpuOps, OpKind, row_times
from nsysconv.timeline.idle import PARTS, Gaps, gaps, parts, window
from nsysconv.timeline.kernel_categories import communicates, kernel_names
from nsysconv.timeline.slices import ANY_STEPS, StepRule
from nsysconv.timeline.steps import extent, extents, steps, uncut_by_slice
from nsysconv.timeline.timeline import (
    Timeline,
    cached,
    cached_small,
    cached_whole_small,
)
from nsysconv.timeline.windows import Window

OPERATION_CLASSES = ("computation", "communication", "memcpy", "memset", "migration")
"""Classes of operations, in the order that decides where several run at once."""

IDLE_CLASSES = tuple(f"idle_{part}" for part in PARTS)
"""The parts of the gaps in which no operation runs."""

CLASSES = ("before", *OPERATION_CLASSES, *IDLE_CLASSES, "after")
"""Classes of an instant of a span, in the order that decides."""

NEEDS = frozenset({Fact.KERNELS})
"""Facts without which there is no account."""

_SESSION_TO_RECORDED = 10
"""A session that is longer than what was recorded in it by more than this was not recorded as a whole."""

_COMPUTATION, _COMMUNICATION = 0, 1
_CLASS_OF_KIND = np.zeros(len(OpKind), np.int8)
_CLASS_OF_KIND[[OpKind.MEMCPY, OpKind.MEMSET, OpKind.MIGRATION]] = 2, 3, 4
_FACTS = {"memcpy": Fact.MEMCPYS, "memset": Fact.MEMSETS, "migration": Fact.UNIFIED_MEMORY}
GRAPH_LAUNCH = "[graph launch]"
"""The name of graphs recorded as one interval."""

_NAMELESS = "[no name]"
_NAMES = {
    OpKind.MEMCPY: "[memcpy]",
    OpKind.MEMSET: "[memset]",
    OpKind.MIGRATION: "[UM]",
    OpKind.GRAPH: GRAPH_LAUNCH,
}


@dataclass(frozen=True)
class TimeSpan(Window):
    """The time that an account is of, and how many steps lie in it; None: it is not that of steps."""

    steps: int | None = None


@dataclass(frozen=True)
class AccountEntry:
    """The operations of one class and name that intersect a span, and their durations in it, added up."""

    part: str
    name: str
    count: int
    sum_ns: int


@dataclass(frozen=True)
class Account:
    """The time account of one device, in ns. `times` has each of CLASSES; they add up to the span.

    `entries` are the operations by class and name. The time of a class of operations is what they add to
    the classes before: `overlap` is the rest of their durations. Classes of which the profile records
    nothing are in `not_recorded`: their time is 0, and part of the idle time.
    """

    device_id: int | None
    rank: int | None
    span: TimeSpan
    times: Mapping[str, int]
    entries: tuple[AccountEntry, ...]
    not_recorded: frozenset[str]

    def overlap(self, part: str) -> int:
        """Return the ns that a class's operations ran beside others of it, or of a class before it."""
        return sum(work.sum_ns for work in self.entries if work.part == part) - self.times[part]


@dataclass(frozen=True)
class Accounts:
    """The accounts of a profile's devices, which stay when its events are dropped.

    `of_steps`: over the extent of the steps; None where there are none, or where CPU and GPU times are
    not on one clock. Both are empty where `missing` names facts that an account needs.
    """

    of_window: tuple[Account, ...]
    of_steps: tuple[Account, ...] | None
    missing: tuple[Fact, ...] = ()


@cached_small
def accounts(timeline: Timeline, rule: StepRule = ANY_STEPS) -> Accounts:
    """Return the accounts of each device that has a window, over it and over the steps."""
    missing = NEEDS - timeline.profile.facts
    if missing:
        return Accounts((), None, tuple(in_order(missing)))
    in_steps = steps_span(timeline, rule)
    of_window, of_steps = [], []
    for device in timeline.devices:
        mine = _Device.of(timeline, device)
        if mine.window is None:
            continue
        of_window.append(mine.account(timeline, span_of(mine.window)))
        if in_steps is not None:
            of_steps.append(mine.account(timeline, in_steps))
    return Accounts(tuple(of_window), None if in_steps is None else tuple(of_steps))


def account(timeline: Timeline, device: int, span: TimeSpan) -> Account:
    """Return where the time of a span went on a device (MISSING: that of operations that name none).

    The parts of a gap lie one after the other in time; of a gap and of an operation that the span cuts
    what is inside counts. A device that has no window is all the time before its first operation.
    """
    return account_of_each(timeline, device, [span])[0]


def account_of_each(timeline: Timeline, device: int, spans: Sequence[TimeSpan]) -> list[Account]:
    """Return the same of several spans."""
    mine = _Device.of(timeline, device)
    return [mine.account(timeline, span) for span in spans]


def steps_span(timeline: Timeline, rule: StepRule = ANY_STEPS) -> TimeSpan | None:
    """Return the time from the first step to the last, of all processes, and the most steps that one has.

    Steps that a slice cuts are left out. None where there is none, or where the clocks disagree.
    """
    if timeline.clocks_disagree:
        return None
    whole = uncut_by_slice(timeline, steps(timeline, rule))
    if not whole:
        return None
    start, end = min(mine.start.min() for mine in whole), max(mine.end.max() for mine in whole)
    of_slice = timeline.window(np.empty(0, np.int64)) or Window(int(start), int(end))
    return span_of(of_slice.cut(int(start), int(end)), max(map(len, whole)))


def span_of(window: Window, steps: int | None = None) -> TimeSpan:
    """Return a window as the time that an account is of."""
    return TimeSpan(window.start, window.end, steps, parts=window.parts)


def account_span(timeline: Timeline, device: int) -> TimeSpan | None:
    """Return the time that a device's account is of by default: the slice, else the recording.

    Where there is no such time, because the clocks disagree, it is the device's window; None without one.
    """
    of_slice = timeline.window(timeline.pids_on(device))
    if of_slice is not None:
        return span_of(of_slice)
    recorded = recording(timeline)
    if recorded is not None:
        return recorded
    own = window(timeline, device, timeline.ops_on(device))
    return None if own is None else span_of(own)


@cached_small
def default_account(timeline: Timeline, device: int) -> Account | None:
    """Return the account of a device over `account_span`; None where there is no such time."""
    span = account_span(timeline, device)
    return None if span is None else account(timeline, device, span)


@cached_whole_small
def recording(timeline: Timeline) -> TimeSpan | None:
    """Return the time that the recording is of (docs/definitions); None where the clocks disagree.

    It is the profiler's session, where the source says when that was. But recorders are switched on and
    off within sessions, and exports cut: where a tenth of the session at most is between the first and
    the last thing that was recorded, it is that.
    """
    if timeline.clocks_disagree:
        return None
    recorded = extent(timeline)
    if recorded is None:
        return None
    begin, length = (
        timeline.profile.attributes[name] for name in ("recording_start_ns", "recording_ns")
    )
    if begin is None or length is None:
        return TimeSpan(*recorded)
    overhead = timeline.whole.overhead.values()
    first = min([recorded[0], *(int(each.starts[0]) for each in overhead)])
    last = max([recorded[1], *(int(each.ends[-1]) for each in overhead)])
    if (last - first) * _SESSION_TO_RECORDED < length - begin:
        return TimeSpan(*recorded)
    return TimeSpan(min(first, begin), max(last, length))


@cached_whole_small
def recorded_by_process(timeline: Timeline) -> Mapping[int, TimeSpan]:
    """Return by process the time that its recording is of; none where the clocks disagree.

    A session is of all processes; without one each was recorded from its first event to its last.
    """
    recorded = recording(timeline)
    if recorded is None:
        return {}
    if (recorded.start, recorded.end) != extent(timeline):
        return dict.fromkeys(extents(timeline), recorded)
    return {pid: TimeSpan(*own) for pid, own in extents(timeline).items()}


def recorded_around(timeline: Timeline, low: int, high: int) -> tuple[int, int] | None:
    """Return a start and an end between which the profile has rows, containing [low, high) if possible.

    They cover the recording and all rows with a time. Only operations are read if [low, high) lies
    between the first and the last of them. None if no row has a time.
    """
    ops = timeline.whole.ops
    if ops.timed.any() and int(ops.start[np.argmax(ops.timed)]) <= low < high <= int(ops.end.max()):
        return low, high
    recorded = recording(timeline)
    if recorded is not None and recorded.start <= low < high <= recorded.end:
        return low, high
    return _recorded(timeline)


@cached_whole_small
def _recorded(timeline: Timeline) -> tuple[int, int] | None:
    # Migrations and samples are no part of the recording, and where clocks disagree there is none.
    recorded = recording(timeline)
    found = [] if recorded is None else [(recorded.start, recorded.end)]
    for table in schema.EVENT_TABLES.keys() - set(schema.SYSTEM_TABLES):
        start, end = row_times(timeline.profile, table)
        timed = start != MISSING
        if timed.any():
            # A moment without a length is in a slice that starts with it.
            found.append((int(start[timed].min()), int(np.maximum(end, start + 1)[timed].max())))
    return (min(low for low, _ in found), max(high for _, high in found)) if found else None


@dataclass(frozen=True)
class _Device:
    # All spans of one device share these. `place` is the class of each operation, as a place in
    # OPERATION_CLASSES; `group` numbers its class and name, which are in `kinds`.

    device: int
    ops: GpuOps
    place: Array
    group: Array
    kinds: list[tuple[str, str]]
    window: Window | None
    gaps: Gaps | None

    @classmethod
    def of(cls, timeline: Timeline, device: int) -> _Device:
        ops = timeline.ops_on(device)
        place = operation_classes(timeline, device)
        group, kinds = _named(timeline, ops, place)
        span, idle = window(timeline, device, ops), _gaps_by_device(timeline).get(device)
        return cls(device, ops, place, group, kinds, span, idle)

    def account(self, timeline: Timeline, span: TimeSpan) -> Account:
        low = high = span.end
        if self.window is not None:
            # [low, high) is the part of the span that lies in the window. If no part does, it is empty,
            # at the end of the span that is nearer to the window.
            low = min(max(self.window.start, span.start), span.end)
            high = min(max(self.window.end, low), span.end)
        inside = span.cut(low, high)
        times = {"before": span.cut(span.start, low).length}
        times |= zip(OPERATION_CLASSES, self._exclusive(inside), strict=True)
        times |= zip(IDLE_CLASSES, self._idle(timeline, inside), strict=True)
        times["after"] = span.cut(high, span.end).length
        facts, pids = timeline.profile.facts, timeline.pids_on(self.device)
        # An operation without length may be the last of a window that no slice cuts.
        is_last = self.window is not None and high == self.window.end
        may_end = is_last and timeline.window(pids) is None
        return Account(
            None if self.device == MISSING else self.device,
            timeline.rank_of(pids),
            span,
            times,
            tuple(self._entries(inside, may_end)),
            frozenset(part for part, fact in _FACTS.items() if fact not in facts),
        )

    def _exclusive(self, inside: Window) -> list[int]:
        # The result has, per class of operations, how much of the time it covers and no earlier class
        # does.
        count, low, high = len(OPERATION_CLASSES), inside.start, inside.end
        covered = [0] * count
        latest = [low] * count
        starts, ends, places = self._parts_in(inside)
        for block in blocks(len(starts)):
            start, place = starts[block], places[block]
            if start[0] >= high:
                break
            end = np.clip(ends[block], low, high)
            there = np.bincount(place, minlength=count)
            before: int | None = None
            added, reach = 0, low
            for i in range(count):
                # Where neither this block nor any before adds of this class, all is as without it.
                if there[i] or latest[i] != before:
                    which = place <= i
                    s, e = (start, end) if which.all() else (start[which], end[which])
                    reaches = np.maximum.accumulate(np.append(latest[i], e))
                    added = int(np.maximum(e - np.maximum(s, reaches[:-1]), 0).sum())
                    reach = int(reaches[-1])
                before, latest[i] = latest[i], reach
                covered[i] += added
        return [covered[0], *(covered[i] - covered[i - 1] for i in range(1, count))]

    def _parts_in(self, inside: Window) -> tuple[Array, Array, Array]:
        # The result has when operations run, by their starts, and their classes; of several windows, what
        # lies in each.
        if inside.parts is None:
            return self.ops.start, self.ops.end, self.place
        pieces = inside.pieces(self.ops.start, self.ops.end)
        order = np.argsort(pieces.starts, kind="stable")
        pieces = pieces.take(order)
        return pieces.starts, pieces.ends, self.place[pieces.interval]

    def _idle(self, timeline: Timeline, inside: Window) -> list[int]:
        result = np.zeros(len(PARTS), np.int64)
        if self.gaps is None or inside.end <= inside.start:
            return list(map(int, result))
        first = int(np.searchsorted(self.gaps.end, inside.start, side="right"))
        last = int(np.searchsorted(self.gaps.start, inside.end, side="left"))
        met = self.gaps.take(slice(first, max(first, last)))
        for block in blocks(len(met)):
            mine = met.take(block)
            pieces = inside.pieces(mine.start, mine.end)
            # A gap's parts follow from moments: those of what is left of it from these moments, cut.
            mine, start, end = mine.take(pieces.interval), pieces.starts, pieces.ends
            cut = replace(mine, start=start, end=end, host_end=np.clip(mine.host_end, start, end))
            result += parts(timeline, cut).sum(axis=1)
        return list(map(int, result))

    def _entries(self, inside: Window, may_end: bool) -> Iterator[AccountEntry]:
        # The operations that intersect the time, and those without length that begin in it (or, if they
        # may, as it ends), by class and name, most time first.
        ops, count, low, high = self.ops, len(self.kinds), inside.start, inside.end
        launches, spent = np.zeros((2, count), np.int64)
        for block in blocks(len(ops)):
            start, end = ops.start[block], ops.end[block]
            if start[0] > high:
                break
            begins = start < high
            if may_end:
                begins |= (start == high) & (end == start)
            met = begins & (np.maximum(end, start + 1) > low)
            if inside.parts is not None:
                met &= inside.parts.meets(start, end)
            which = np.flatnonzero(met)
            members = self.group[block].take(which)
            cut = inside.lengths(
                np.maximum(start.take(which), low), np.minimum(end.take(which), high)
            )
            launches += counts(members, count)
            spent += sums(members, cut, count)
        totals: dict[tuple[str, str], list[int]] = {}
        for i in np.flatnonzero(launches).tolist():
            # Two ids may stand for one name.
            entry = totals.setdefault(self.kinds[i], [0, 0])
            entry[0] += int(launches[i])
            entry[1] += int(spent[i])
        entries = [AccountEntry(*kind, several, time) for kind, (several, time) in totals.items()]
        yield from sorted(entries, key=lambda entry: (-entry.sum_ns, entry.part, entry.name))


def operation_classes(timeline: Timeline, device: int) -> Array:
    """Return the class of each operation of a device, as a place in OPERATION_CLASSES."""
    ops = timeline.ops_on(device)
    talks = communicates(timeline)
    if ops is not timeline.ops:
        talks = talks[timeline.places_on(device)]
    place = _CLASS_OF_KIND.take(ops.kind)
    if talks.any():
        place[talks] = _COMMUNICATION
    return place


def _named(timeline: Timeline, ops: GpuOps, place: Array) -> tuple[Array, list[tuple[str, str]]]:
    # The result has a number per operation, and the class and name by number: kernels by their names,
    # then the other kinds.
    rows, known = kernel_names(timeline)
    texts = [_NAMELESS if text is None else text for text in known]
    names = [*texts, *(_NAMES.get(kind, "") for kind in OpKind)]
    group = np.empty(len(ops), np.int32)
    for block in blocks(len(ops)):
        kind = ops.kind[block]
        group[block] = kind
        group[block] += len(texts)
        kernels = np.flatnonzero(kind == OpKind.KERNEL)
        group[block][kernels] = rows.take(ops.row[block].take(kernels))
    class_of = np.zeros(len(names), np.int8)
    class_of[group] = place
    classes = [OPERATION_CLASSES[i] for i in class_of.tolist()]
    return group, list(zip(classes, names, strict=True))


def op_name(timeline: Timeline, place: int) -> str:
    """Return the name of an operation by its place in `Timeline.ops`: a kernel's, else what it is."""
    kind = OpKind(int(timeline.ops.kind[place]))
    if kind is not OpKind.KERNEL:
        return _NAMES[kind]
    rows, texts = kernel_names(timeline)
    text = texts[int(rows[timeline.ops.row[place]])]
    return _NAMELESS if text is None else text


@cached
def _gaps_by_device(timeline: Timeline) -> dict[int, Gaps]:
    return {found.device: found for found in gaps(timeline, "no_op")}
