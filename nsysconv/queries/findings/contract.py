"""The contract of rules: what a rule looks at, what it returns, and the words it has in rules.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np

from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.names import shorten_kernel
from nsysconv.queries.contract import Array, Request
from nsysconv.report import MISSING, Unit, human
from nsysconv.store.text_tests import begins
from nsysconv.threads import ThreadSafeCache, cached_property
from nsysconv.timeline.account import Account, account_span, default_account
from nsysconv.timeline.arrays import among, blocks, counts, distinct, factorize, indices, take
from nsysconv.timeline.events import GpuOps, OpKind, event_id
from nsysconv.timeline.idle import Gaps, gaps, in_use, known_part, window
from nsysconv.timeline.intervals import Union, difference, longest, union, union_with, united
from nsysconv.timeline.kernel_categories import kernel_names
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.vendors import is_of_amd
from nsysconv.timeline.windows import Window

_CALLER = 40
_OF_COPIES = ("direction", "bytes", "src_kind", "dst_kind")

SAVING, COST, RISK = "saving", "cost", "risk"
"""The kinds of findings: what could go, where time goes, and what may end a run."""
EXPOSED = "exposed_communication"
CAUSES = ("stragglers", "collective_wait")
"""The rules that explain why communication is exposed."""
AROUND = ("start_up", "tear_down")
"""The rules on what is before and after the work."""
NAMES_NOTHING, NAMES_CALL, NAMES_VALUE, NAMES_RANGE = range(4)
"""What a finding names: an effect alone, a call, a value that the host reads, or a range."""


@dataclass(frozen=True)
class Words:
    """What rules.toml says of one rule."""

    kind: str
    threshold: float
    unit: str
    cause: str
    finding: str
    advice: Mapping[str, str]
    report: str
    on: bool = True
    once: bool = False
    one: str = "event"
    if_small: str = ""
    needs: frozenset[Fact] = frozenset()
    any_of: frozenset[Fact] = frozenset()


@cache
def words() -> Mapping[str, Words]:
    """Return the words of each rule, in the order of the file."""
    text = Path(__file__).with_name("rules.toml").read_text(encoding="utf-8")
    return {name: _words(table) for name, table in tomllib.loads(text).items()}


def _words(table: dict[str, Any]) -> Words:
    needs, any_of = (frozenset(map(Fact, table.pop(key, ()))) for key in ("needs", "any_of"))
    return Words(**table, needs=needs, any_of=any_of)


@dataclass(frozen=True)
class Found:
    """What a rule measured on one device, whether or not its value is above the threshold.

    `time_ns` is the saving of a rule of the kind saving, else the cost: a union clipped to the time of
    the account; a risk has none. `details` are the values of the finding's words, which a rule may leave
    out where it does not speak. `before` and `after` name the operations around the gap that costs most.
    `event`: what ended that gap, or the longest of what the rule is about, by its id; None: it has none.
    `gap`: the id of that gap, of rules on idle time.
    `part`: the slice to look at, as flags. `most_ns`: how much of the time one event makes; 0: not asked.
    `case`: which advice of rules.toml fits better than that for the framework. `when` makes the union
    that `time_ns` is the measure of; None: it has no place on one device. `names`: how well the sentence
    says what to change, see NAMES_NOTHING. `is_small`: the grids are too small for the GPU, which
    `if_small` of rules.toml is about.
    """

    value: float
    time_ns: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    device: int | None = None
    rank: int | None = None
    stream: int | None = None
    step: str | None = None
    before: str | None = None
    after: str | None = None
    event: str | None = None
    gap: str | None = None
    part: str = ""
    most_ns: int = 0
    case: str = ""
    when: Callable[[], Union] | None = None
    names: int = 0
    is_small: bool = False


Measure = Callable[["Scene"], Found | None]
"""A rule: what it measured on a device; None where there is nothing to measure."""


class Scene:
    """One device of a profile as the rules look at it. Times are ns of the profile."""

    def __init__(self, timeline: Timeline, device: int, request: Request) -> None:
        """Take the device; its window and the time of its account must exist."""
        span = account_span(timeline, device)
        own = window(timeline, device, timeline.ops_on(device))
        assert span is not None and own is not None
        self.timeline = timeline
        self.device = device
        self.request = request
        self.measured = ThreadSafeCache()
        """What rules found that other rules ask, too."""
        self.span: Window = span
        self.window = own

    @property
    def account(self) -> Account:
        """Return the device's time account."""
        made = default_account(self.timeline, self.device)
        assert made is not None
        return made

    def speaks(self, rule: str, measured: Found | None) -> bool:
        """Return whether there is a finding of a rule with what it measured."""
        limit = threshold(self.request, rule)
        return limit is not None and measured is not None and measured.value > limit

    def has(self, rule: str, measure: Measure) -> bool:
        """Return whether there is a finding of a rule; one that could not run has none."""
        try:
            return self.speaks(rule, measure(self))
        except NotRecorded:
            return False

    @property
    def times(self) -> Mapping[str, int]:
        """Return the time account: ns by class."""
        return self.account.times

    def of_window(self, time: int) -> float:
        """Return a time as a share of the window, in per cent."""
        return 100 * time / self.window.length if self.window.length else 0.0

    def of_span(self, time: int) -> float:
        """Return a time as a share of the time of the account, in per cent."""
        return 100 * time / self.span.length if self.span.length else 0.0

    @cached_property
    def ops(self) -> GpuOps:
        """Return the device's operations that have a time, in the order of their starts."""
        ops = self.timeline.ops_on(self.device)
        return ops if ops.timed.all() else ops.take(indices(ops.timed))

    @property
    def owner(self) -> Array:
        """Return per operation of `ops` the index of its call, -1 for none."""
        return self.of_ops(self.timeline.owner)

    def of_ops(self, values: Array) -> Array:
        """Return the values of the operations in `ops`, of values per operation of the time line."""
        ops = self.timeline.ops_on(self.device)
        if ops is not self.timeline.ops:
            values = take(values, self.timeline.places_on(self.device))
        return values if ops is self.ops else take(values, ops.timed)

    @property
    def is_kernel(self) -> Array:
        """Return which operations of `ops` are kernels, as a mask."""
        result: Array = self.ops.kind == OpKind.KERNEL
        return result

    @cached_property
    def copies(self) -> tuple[GpuOps, Mapping[str, Array]]:
        """Return the device's copies, and by name of column what the table says of each."""
        copies = self.ops.take(self.ops.kind == OpKind.MEMCPY)
        read = self.timeline.profile.columns("memcpy", _OF_COPIES)
        return copies, {name: take(values, copies.row) for name, values in read.items()}

    @cached_property
    def busy(self) -> Union:
        """Return when the device was busy, or may have been: work was launched that is not recorded."""
        busy, whole = in_use(self.timeline, self.device), self._whole_gaps
        if whole is None or whole is self.gaps or self.gaps is None:
            return busy
        known = union(self.gaps.start, self.gaps.end)
        unknown = difference(union(whole.start, whole.end), known)
        return union_with(busy, unknown.starts, unknown.ends)

    @cached_property
    def computing(self) -> Union:
        """Return when a kernel or a graph ran on the device."""
        kernels = (self.ops.kind == OpKind.KERNEL) | (self.ops.kind == OpKind.GRAPH)
        return union(self.ops.start, self.ops.end, kernels)

    @cached_property
    def profiler(self) -> Union:
        """Return when the profiler itself was at work in the device's processes."""
        result = union(np.empty(0, np.int64), np.empty(0, np.int64))
        for pid in self.timeline.pids_on(self.device).tolist():
            if pid in self.timeline.overhead:
                own = self.timeline.overhead[pid]
                result = union_with(result, own.starts, own.ends)
        return result

    @cached_property
    def gaps(self) -> Gaps | None:
        """Return the device's gaps, as far as it is known what ran; None where there is no window."""
        whole = self._whole_gaps
        return None if whole is None else known_part(self.timeline, whole)

    @property
    def _whole_gaps(self) -> Gaps | None:
        return next((g for g in gaps(self.timeline, "no_op") if g.device == self.device), None)

    @cached_property
    def outermost(self) -> Array:
        """Return which calls are outermost ones of the device's processes, as a mask."""
        calls = self.timeline.calls
        result: Array = calls.of_processes(self.timeline.pids_on(self.device)) & calls.outermost
        return result

    def calls_named(self, fits: Callable[[str], object], shortest_ns: int = 0) -> Array:
        """Return the outermost calls of the device's processes with such a name, as indices.

        `shortest_ns`: those that are not shorter.
        """
        names, calls = self.timeline.call_names, self.timeline.calls
        wanted = np.array(sorted(i for i, name in names.items() if fits(name)), np.int64)
        found = [np.empty(0, np.int32)]
        for block in blocks(len(calls)):
            here = among(calls.name_id[block], wanted) & self.outermost[block]
            if shortest_ns:
                here &= calls.end[block] - calls.start[block] >= shortest_ns
            found.append((np.flatnonzero(here) + block.start).astype(np.int32))
        return np.concatenate(found)

    def longest_op(self, which: Array) -> str | None:
        """Return the id of the longest of these operations of `ops`, a mask; None where there is none."""
        best = longest(self.ops.start, self.ops.end, which)
        return None if best is None else self.ops.event_id(best)

    def longest_call(self, which: Array) -> str | None:
        """Return the id of the longest of these calls; None where there is none."""
        if not len(which):
            return None
        calls = self.timeline.calls
        call = which[np.argmax(take(calls.end, which) - take(calls.start, which))]
        return event_id("api_call", int(calls.row[call]))

    def calls_at(self, which: Array) -> Union:
        """Return when one of these calls ran, which are in their order."""
        calls = self.timeline.calls
        parts = (which[block] for block in blocks(len(which)))
        return united(((calls.start.take(p), calls.end.take(p)) for p in parts), len(which))

    def names_of(self, which: Array) -> str:
        """Return the names of calls, those with most calls first, at most two, and who called them."""
        group, (ids,) = factorize(self.timeline.calls.name_id.take(which))
        most = ids[np.argsort(-counts(group, len(ids)), kind="stable")].tolist()
        names = ", ".join(list(dict.fromkeys(self.timeline.call_names[i] for i in most))[:2])
        return f"{names}{self._called_by(which)}"

    def _called_by(self, which: Array) -> str:
        # The clause names the function of the program that made most of these calls, if that is recorded.
        profile = self.timeline.profile
        column = profile.columns("api_call", ("caller_name_id",))["caller_name_id"]
        callers = take(column, self.timeline.calls.row.take(which))
        group, (ids,) = factorize(callers[callers != MISSING])
        if not len(ids):
            return ""
        most = int(ids[counts(group, len(ids)).argmax()])
        return f" called by {shorten_kernel(profile.names(np.array([most]))[most], _CALLER)}"

    def most_idle(
        self, which: Array, window: Window, taken: Union | None = None
    ) -> tuple[str, int, Array]:
        """Return the name under whose calls, of these, the device was idle most of a window.

        With it come how long that was, and the calls of that name; of no such time an empty name.
        `taken`: what does not count, in place of the time when the device was busy.
        """
        taken = self.busy if taken is None else taken
        found = "", 0, which[:0]
        ids = take(self.timeline.calls.name_id, which)
        by_name: dict[str, list[int]] = {}
        for i in distinct(ids).tolist():
            by_name.setdefault(self.timeline.call_names[i], []).append(i)
        for name, of_name in by_name.items():
            mine = which[np.isin(ids, of_name)]
            time = uncovered(self.calls_at(mine), taken, window)
            if time > found[1]:
                found = name, time, mine
        return found

    def during(self, which: Array, window: Window) -> tuple[str, str | None]:
        """Return in which of these calls the device was idle most of the time, as a clause.

        With it comes the id of the longest call of that name; None where there is no such time.
        """
        name, time, calls = self.most_idle(which, window)
        name = f"{name}{self._called_by(calls)}" if name else ""
        clause = f", {human(time, Unit.NS)} of it in {name}" if name else ""
        return clause, self.longest_call(calls)


def threshold(request: Request, rule: str) -> float | None:
    """Return above which value a rule speaks, as the request or else rules.toml says; None: it is off."""
    text = request.options.get(rule)
    if text is None:
        return words()[rule].threshold if words()[rule].on else None
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not 0 <= value < inf:
        raise UsageError(f"findings:{rule}={text}", hint=f"A number of {words()[rule].unit}.")
    return value


def uncovered(one: Union, other: Union, window: Window) -> int:
    """Return how much of a window the first union covers and the second does not."""
    time = 0
    for block in blocks(len(one.starts)):
        pieces = window.pieces(one.starts[block], one.ends[block])
        time += int((pieces.ends - pieces.starts).sum())
        time -= int(other.covered(pieces.starts, pieces.ends).sum())
    return time


def remaining(one: Union, other: Union, window: Window) -> Union:
    """Return the part of a window that the first union covers and the second does not."""
    return window.inside(difference(one.between(window.start, window.end), other))


def clipped(starts: Array, ends: Array, window: Window, which: Array | None = None) -> Union:
    """Return the part of a window that intervals cover, which are given as for `union`."""
    if window.parts is not None:
        return window.inside(union(starts, ends, which))
    low, high = window.start, window.end
    return union(np.clip(starts, low, high), np.clip(ends, low, high), which)


def counted(count: int, one: str, several: str) -> str:
    """Return a number of things in words: `1 copy`, `12 copies`."""
    return f"{count:,} {one if count == 1 else several}"


def frameworks(timeline: Timeline) -> tuple[str, ...]:
    """Return whose words fit, as names in the profile show, the nearest first: pytorch, hip, cuda."""
    profile = timeline.profile
    _, kernels = kernel_names(timeline)
    is_pytorch = profile.names_that(begins("aten::")) or any(
        "at::native" in (name or "") for name in kernels
    )
    is_hip = any(name.startswith("hip") for name in timeline.call_names.values())
    is_hip = is_hip or is_of_amd(timeline)
    return (*(["pytorch"] if is_pytorch else []), *(["hip"] if is_hip else []), "cuda")


# A finding of a smaller share is of no account.
SMALL_PCT = 1.0


def is_minor(row: Mapping[str, Any]) -> bool:
    """Return whether a finding is below 1 % of the time of the account."""
    return row["share_pct"] is not None and row["share_pct"] < SMALL_PCT
