"""The definitions, word by word and slowly: instant by instant, over the rows of small_store.

Nothing here is clever. Times have to be small.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Op,
    Operator,
    Overhead,
    Range,
    Row,
)

OPS = (Kernel, Memcpy, Memset, Migration, Graph)
PARTS = ("host", "launch", "queue", "migration", "profiler", "unknown", "end")

Interval = tuple[int, int]


# -- intervals


def instants(intervals: Iterable[Interval]) -> set[int]:
    """The instants that any of the intervals [start, end) holds."""
    return {t for start, end in intervals for t in range(start, end)}


def runs(held: set[int]) -> list[Interval]:
    """A set of instants as maximal intervals."""
    starts = sorted(t for t in held if t - 1 not in held)
    ends = sorted(t + 1 for t in held if t + 1 not in held)
    return list(zip(starts, ends, strict=True))


def innermost(intervals: Sequence[tuple[int, int, int]]) -> dict[int, int]:
    """Per instant the label of the innermost interval: the last to begin, of two the shorter."""
    inside: dict[int, int] = {}
    for start, end, label in sorted(intervals, key=lambda one: (one[0], -one[1])):
        inside.update(dict.fromkeys(range(start, end), label))
    return inside


def outermost(calls: Sequence[Interval]) -> list[bool]:
    """Which calls of one thread are outermost; the later of two that cross is cut and is not."""
    result = [False] * len(calls)
    reach = None
    for i in sorted(range(len(calls)), key=lambda i: (calls[i][0], -calls[i][1])):
        start, end = calls[i]
        if reach is None or start >= reach:
            result[i], reach = True, end
    return result


# -- groups


def numbered(*columns: Sequence[int]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Each row's place among the distinct rows, and those in order."""
    rows = list(zip(*columns, strict=True))
    distinct = sorted(set(rows))
    return [distinct.index(row) for row in rows], distinct


@dataclass(frozen=True)
class Figures:
    """Statistics of one group, None where no value is recorded."""

    count: int
    total: int | None
    mean: float | None
    median: float | None
    minimum: int | None
    maximum: int | None
    deviation: float | None


def figures(values: Sequence[int | None]) -> Figures:
    """Statistics of one group."""
    known = [value for value in values if value is not None]
    if not known:
        return Figures(len(values), None if values else 0, None, None, None, None, None)
    spread = statistics.stdev(known) if len(known) > 1 else 0.0
    return Figures(len(values), sum(known), statistics.fmean(known), statistics.median(known),
                   min(known), max(known), spread)  # fmt: skip


# -- profiles


@dataclass(frozen=True)
class Gap:
    """A gap, its parts, for every host instant what the launching thread did, and each instant's part."""

    device: int | None
    stream: str | None
    start: int
    dur: int
    parts: dict[str, int]
    during: list[tuple[str, str]] = field(default_factory=list)
    part_at: dict[int, str] = field(default_factory=dict)

    @property
    def cause(self) -> str:
        return max(PARTS, key=lambda part: (self.parts[part], -PARTS.index(part)))


class Slow:
    """A profile's rows, and the definitions on them."""

    def __init__(self, rows: Sequence[Row], recording_ns: int | None = None) -> None:
        # Ids are given table by table; of two tables, the order is that of OPS.
        self.ops: list[Any] = [row for kind in OPS for row in rows if isinstance(row, kind)]
        self.calls = [row for row in rows if isinstance(row, Call)]
        self.ranges = [row for row in rows if isinstance(row, Range)]
        self.operators = [row for row in rows if isinstance(row, Operator)]
        self.overheads = [row for row in rows if isinstance(row, Overhead)]
        self.recording_ns = recording_ns

    def devices(self) -> list[int | None]:
        return sorted({op.device for op in self.ops})

    def owner(self, op: Op) -> Call | None:
        """The call that launched an op."""
        if not op.correlation:
            return None
        sharing = [call for call in self.calls if call.start is not None
                   and (call.pid, call.correlation) == (op.pid, op.correlation)]  # fmt: skip
        free = [call for call in sharing if not any(_encloses(other, call) for other in sharing)]
        layer = "runtime" if any(call.layer == "runtime" for call in free) else "driver"
        rivals = sorted((call for call in free if call.layer == layer),
                        key=lambda call: (call.start, -call.end))  # fmt: skip
        if len(rivals) < 2 or op.start is None:
            return next(iter(rivals), None)
        return next(call for other, call in self._matched(rivals) if other is op)

    def _matched(self, rivals: list[Call]) -> Iterator[tuple[Op, Call]]:
        """Ops and the calls that share an id: no call is left out that could have one."""
        ops = sorted(
            (op for op in self.ops if op.start is not None
             and (op.pid, op.correlation) == (rivals[0].pid, rivals[0].correlation)),
            key=lambda op: (op.start, op.stream))  # fmt: skip
        unused = list(range(len(rivals)))
        enough = len(ops) >= len(rivals)
        for op in ops if enough else reversed(ops):
            begun = [i for i, call in enumerate(rivals) if call.start <= op.start] or [0]
            without = [i for i in unused if i in begun]
            chosen = begun[-1] if not without else without[0] if enough else without[-1]
            yield op, rivals[chosen]
            # From the last on, those behind the chosen one stay without.
            unused = [i for i in unused if (i > chosen if enough else i < chosen)] if without else unused

    def window(self, device: int | None, time: Interval | None) -> Interval | None:
        if time is not None:
            return time
        counting = [op for op in self.ops if op.device == device and op.start is not None
                    and not isinstance(op, Migration)]  # fmt: skip
        if not counting:
            return None
        return min(op.start for op in counting), max(op.end for op in counting)

    def busy(self, device: int | None, time: Interval | None) -> set[int]:
        """The instants of the window in which any op ran."""
        span = self.window(device, time)
        mine = [op for op in self.ops if op.device == device and op.start is not None]
        return instants((op.start, op.end) for op in mine) & set(range(*(span or (0, 0))))

    def gaps(self, kind: str, time: Interval | None) -> list[Gap]:
        found = []
        for device in self.devices():
            span = self.window(device, time)
            if span is None:
                continue
            mine = [op for op in self.ops if op.device == device and op.start is not None]
            several = len({op.pid for op in self.ops if op.device == device}) > 1
            for stream, members in self._groups(kind, mine, several):
                idle = set(range(*span)) - instants((op.start, op.end) for op in members)
                found += [self._gap(device, stream, gap, members, span, time is not None)
                          for gap in runs(idle)]  # fmt: skip
        return found

    @staticmethod
    def _groups(
        kind: str, mine: list[Any], several: bool
    ) -> list[tuple[str | None, list[Any]]]:
        if kind == "no_op":
            return [(None, mine)]
        if kind == "no_kernel":
            return [(None, [op for op in mine if isinstance(op, Kernel | Graph)])]
        own = [op for op in mine if not isinstance(op, Migration)]
        return [
            (f"{stream}@{pid}" if several else str(stream),
             [op for op in own if (op.pid, op.stream) == (pid, stream)])
            for pid, stream in sorted({(op.pid, op.stream) for op in own})
        ]  # fmt: skip

    def _gap(
        self, device: int | None, stream: str | None, gap: Interval, members: list[Any],
        span: Interval, explicit: bool,
    ) -> Gap:  # fmt: skip
        begin, end = gap
        inside = [op for op in members if op.start == end and (
            end < span[1] or (op.end == end and not explicit))]  # fmt: skip
        # What is on no stream comes behind all streams.
        inside.sort(key=lambda op: (op.stream is None, op.stream or 0))
        call = self.owner(inside[0]) if inside else None
        if inside and isinstance(inside[0], Migration):
            # The host caused it: its thread is that of the last call of the process that had begun.
            begun = [(c.start, place) for place, c in enumerate(self.calls)
                     if c.pid == inside[0].pid and c.start is not None and c.start < end]  # fmt: skip
            call = self.calls[max(begun)[1]] if begun else None
        parts = dict.fromkeys(PARTS, 0)
        during, part_at = [], {}
        for t in range(begin, end):
            part = part_at[t] = self._part(t, inside, call)
            parts[part] += 1
            if part == "host" and call is not None:
                during.append(self._activity(t, call))
        return Gap(device, stream, begin, end - begin, parts, during, part_at)

    def _part(self, t: int, enders: list[Any], call: Call | None) -> str:
        if not enders:
            return "end"
        of_pages = isinstance(enders[0], Migration)
        if of_pages and call is None:
            return "migration"
        if call is None or call.start is None or call.end is None:
            return "unknown"
        if t >= call.end and not of_pages:
            return "queue"
        if t >= call.start and not of_pages:
            return "launch"
        at_work = any(o.kind == "profiler" and o.pid == call.pid and o.start <= t < o.end
                      for o in self.overheads)  # fmt: skip
        return "profiler" if at_work else "host"

    def _activity(self, t: int, call: Call) -> tuple[str, str]:
        mine = [c for c in self.calls if (c.pid, c.tid) == (call.pid, call.tid)]
        outer = outermost([(c.start or 0, c.end or 0) for c in mine])
        for other, is_outer in zip(mine, outer, strict=True):
            if is_outer and (other.start or 0) <= t < (other.end or 0):
                return "api_call", other.name
        for word, named in (
            *((kind, [(o.start or 0, o.end or 0, o.name) for o in self.operators
                      if o.kind == kind and (o.pid, o.tid) == (call.pid, call.tid)])
              for kind in ("operator", "python_function")),
            ("range", [(r.start, self._end(r), r.text) for r in self.ranges
                       if r.kind == "push_pop" and (r.pid, r.tid) == (call.pid, call.tid)]),
        ):  # fmt: skip
            label = innermost([(start, end, i) for i, (start, end, _) in enumerate(named)]).get(t)
            if label is not None:
                return word, named[label][2]
        return "outside", "[nothing recorded]"

    def _end(self, r: Range) -> int:
        return max(r.start, self.recording_ns or 0) if r.end is None else r.end

    def annotations(self, pid: int) -> list[tuple[int, int, str]]:
        """Ranges and operators of a process: start, end, name."""
        return [(r.start, self._end(r), r.text) for r in self.ranges
                if r.pid == pid and r.kind != "mark"] + [
            (o.start or 0, o.end or 0, o.name) for o in self.operators
            if o.pid == pid and o.kind == "operator"]  # fmt: skip

    def steps(self, pid: int) -> list[tuple[str, int, int]]:
        """Name, start and end of the steps of a process, in time order."""
        found: list[tuple[str, int, int]] = []
        for start, end, name in self.annotated_steps(pid):
            last = end
            for op in self.ops:
                call = self.owner(op)
                if call and call.pid == pid and op.start is not None and (
                        start <= (call.start or 0) < end):  # fmt: skip
                    last = max(last, op.end)
            first = max([start, *(other for _, _, other in found)])
            found.append((name, first, max(first, last)))
        return found

    def annotated_steps(self, pid: int) -> list[tuple[int, int, str]]:
        """Start, end and name of the steps of a process as annotated."""
        return sorted(one for one in self.annotations(pid) if one[2].startswith("ProfilerStep#"))

    def step_at(self, pid: int, moment: int) -> int | None:
        """Which of the annotated steps of a process began last at a moment, if that holds it."""
        begun = [place for place in enumerate(self.annotated_steps(pid)) if place[1][0] <= moment]
        return begun[-1][0] if begun and moment < begun[-1][1][1] else None

    def class_at(self, pid: int, t: int) -> str:
        """What an instant of a process goes to."""
        ops = [op for op in self.ops if op.pid == pid and op.start is not None
               and op.start <= t < op.end]  # fmt: skip
        names = [name for start, end, name in self.annotations(pid)
                 if start <= t < end and not name.startswith("ProfilerStep#")]  # fmt: skip
        talking = [op for op in ops if isinstance(op, Kernel) and "nccl" in op.name]
        for name, holds in (
            ("kernel", [op for op in ops if isinstance(op, Kernel | Graph) and op not in talking]),
            ("memcpy", [op for op in ops if isinstance(op, Memcpy)]),
            ("memset", [op for op in ops if isinstance(op, Memset)]),
            ("communication", talking + [n for n in names if n.startswith("gloo:")]),
            ("runtime", [c for c in self.calls
                         if c.pid == pid and (c.start or 0) <= t < (c.end or 0)]),
            ("data_loader", [n for n in names if n.startswith("enumerate(DataLoader)#")]),
            ("cpu", names),
        ):  # fmt: skip
            if holds:
                return name
        return "other"

    def sm_efficiency(self, device: int | None, span: Interval, sm_count: int) -> Fraction:
        """Part of the SMs that blocks can reach, as the mean over the instants of a window."""
        mine = [op for op in self.ops if isinstance(op, Kernel) and op.device == device
                and op.start is not None]  # fmt: skip
        filled = [sum(op.grid[0] * op.grid[1] * op.grid[2] for op in mine
                      if op.grid and op.start <= t < op.end) for t in range(*span)]  # fmt: skip
        return sum((min(Fraction(blocks, sm_count), Fraction(1)) for blocks in filled),
                   Fraction(0)) / (span[1] - span[0])  # fmt: skip

    def occupancy(self, device: int | None, span: Interval) -> Fraction | None:
        """Mean of the recorded occupancies of the kernels that intersect a window, by duration."""
        timed = [op for op in self.ops if isinstance(op, Kernel) and op.device == device
                 and op.start is not None]  # fmt: skip
        mine = [op for op in timed if instants([(op.start, op.end)]) & set(range(*span))]
        spent = sum(op.end - op.start for op in mine)
        if not spent:
            return None
        return Fraction(sum(op.occupancy * (op.end - op.start) for op in mine), spent)


def _encloses(outer: Call, inner: Call) -> bool:
    if (outer.pid, outer.tid) != (inner.pid, inner.tid) or outer is inner:
        return False
    a, b = (outer.start or 0, outer.end or 0), (inner.start or 0, inner.end or 0)
    return a != b and a[0] <= b[0] and b[1] <= a[1]


def edges(intervals: Sequence[Interval]) -> bool:
    """Whether intervals are sorted, disjoint, apart and of some length."""
    return all(s < e for s, e in intervals) and all(a[1] < b[0] for a, b in pairwise(intervals))


# -- occupancy


def resident_blocks(
    warps: int, blocks: int, registers: int, shared: int, shared_unit: int, reserved: int,
    partitions: int, *, threads: int, thread_registers: int, block_shared: int,
) -> int:  # fmt: skip
    """How many blocks an SM holds: one after the other is put there, until one does not fit."""
    free_warps, free_blocks, free_shared = warps, blocks, shared
    needed_warps = len(range(0, threads, 32))
    needed_shared = len(range(0, block_shared + reserved, shared_unit)) * shared_unit
    needed_registers = len(range(0, 32 * thread_registers, 256)) * 256
    places = 0  # for warps, by the registers of each partition
    for _ in range(partitions):
        free = registers // partitions
        while needed_registers and free >= needed_registers:
            free, places = free - needed_registers, places + 1
    held = 0
    while (free_warps >= needed_warps and free_blocks and free_shared >= needed_shared
           and (not needed_registers or places >= needed_warps)):  # fmt: skip
        free_warps, free_blocks = free_warps - needed_warps, free_blocks - 1
        free_shared, places = free_shared - needed_shared, places - needed_warps
        held += 1
    return held
