"""Time by phase of a program, such as prefill and decode, and the steps of phases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv.codes import TIME_CLASS_COLUMNS, TIME_CLASSES
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    BY_DEVICE,
    PID,
    PROCESS_RANK,
    PROFILE,
    count_column,
    duration_column,
    key_column,
    values_by_column,
)
from nsysconv.queries.contract import Array, ColumnValues, Query, Request
from nsysconv.queries.steps import OCCURRENCE
from nsysconv.report import Column, Unit
from nsysconv.timeline.account import (
    OPERATION_CLASSES,
    Account,
    account_of_each,
    default_account,
    span_of,
)
from nsysconv.timeline.arrays import counts, distinct, percent, sums, take
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.grammars import grammar
from nsysconv.timeline.intervals import union
from nsysconv.timeline.kernel_categories import categories
from nsysconv.timeline.phase_steps import OUTSIDE, PhaseSteps, owned, phase_steps, step_numbers
from nsysconv.timeline.steps import Steps
from nsysconv.timeline.timeline import Timeline, launches
from nsysconv.timeline.windows import Window, window_of

_PHASE = "Phase, from the annotation of the step: prefill, decode, mixed; forward, backward, …"
_REQUESTS = count_column(
    "request_count", "Number of requests, from the annotations; null: not annotated."
)
_TOKENS = count_column(
    "token_count", "Number of tokens computed, from the annotations; null: not annotated."
)
_LAUNCHES = count_column("launch_count", "Number of API calls that launched GPU operations.")
_MOST_KINDS = 3

COLUMNS = (
    *BY_DEVICE,
    key_column("phase", f"{_PHASE} `{OUTSIDE}`: time outside all steps."),
    count_column("step_count",
        "Number of steps, over all processes, that lie completely in the slice."),
    replace(_REQUESTS, brief=False),
    replace(_TOKENS, brief=False),
    Column("requests_per_step", Unit.REAL, "Mean number of requests per step.", brief=False),
    Column("tokens_per_step", Unit.REAL, "Mean number of tokens per step."),
    Column(
        "tokens_per_s", Unit.REAL, "Tokens per second of step time.", better="more"
    ),
    duration_column("step_p50_ns", "Median step duration.", real=True),
    duration_column(
        "step_p99_ns", "99th percentile of the step duration, interpolated.", real=True
    ),
    duration_column(
        "span_ns",
        "Time of the device's breakdown in these steps. The rows of a device add up to its "
        "breakdown in `summary`.",
        adds=True,
    ),
    Column("busy_ns", Unit.NS, "Time with any GPU operation running.", adds=True, brief=False),
    Column("busy_pct", Unit.PCT, "Busy time as a share of `span_ns`.", better="more"),
    *(
        Column(column, Unit.NS, f"Class of the account: {TIME_CLASSES[name]}.", adds=True, brief=False)
        for name, column in TIME_CLASS_COLUMNS.items()
    ),
    replace(_LAUNCHES, brief=False),
    Column("launches_per_step", Unit.REAL, "Mean number of these calls per step.", better="less"),
    Column(
        "kernel_kinds",
        Unit.TEXT,
        f"The {_MOST_KINDS} kinds of kernels (`kernel_categories`) with the most time, each with its "
        "share of all kernel time.",
    ),
)  # fmt: skip
STEP_COLUMNS = (
    PROFILE,
    PROCESS_RANK,
    PID,
    key_column("step", "Text of the step's annotation."),
    OCCURRENCE,
    Column("phase", Unit.TEXT, _PHASE),
    Column("start_ns", Unit.NS, "Start of the step, not before the end of the previous step."),
    duration_column(
        "dur_ns", "Duration of the step up to the end of the last GPU operation launched in it."
    ),
    _REQUESTS,
    _TOKENS,
    Column("busy_ns", Unit.NS, "Time in the step with any GPU operation of the process running."),
    Column("busy_pct", Unit.PCT, "Busy time as a share of the step.", better="more"),
    _LAUNCHES,
)
_ADVICE = (
    "Annotate steps or phases as one of these does: {frameworks} (forward, decode_step_3). "
    "For others, write rules: `--grammar FILE`."
)
Row = dict[str, Any]


@dataclass(frozen=True)
class _Part:
    # The steps of a process that lie in the slice, cut to it, with their numbers over all processes, and
    # whether they are whole.
    steps: Steps
    number: Array
    whole: Array


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per device and phase, most time first, and one for the time outside of all steps."""
    found = _found(timeline, request, "phases")
    if timeline.clocks_disagree:
        raise NotRecorded("phases", ["times of CPU and GPU on one clock"])
    rows: list[Row] = []
    parts = list(_parts(timeline, found))
    for device in timeline.devices:
        account = default_account(timeline, device)
        if account is not None:
            rows += _Device(timeline, found, device, parts).rows(account)
    return values_by_column(rows, COLUMNS[1:])


class _Device:
    # The phases of a device. A phase has a number, and so have steps, over all processes; `OUTSIDE` is
    # the last phase, to which what is in no step belongs.
    def __init__(
        self, timeline: Timeline, found: PhaseSteps, device: int, parts: list[_Part]
    ) -> None:
        pids = timeline.pids_on(device)
        self.timeline, self.found, self.device = timeline, found, device
        self.parts = [part for part in parts if part.steps.pid in pids]
        self.rank = timeline.rank_of(pids)
        self.names = [name for mine in found.steps for name in mine.name]
        every = [found.phase(name) for name in self.names]
        self.phases = [*dict.fromkeys(every), OUTSIDE]
        self.phase_of_step = np.array([*map(self.phases.index, every), len(self.phases) - 1])

    def rows(self, account: Account) -> list[Row]:
        phase = self.phase_of_step[_joined([part.number for part in self.parts])]
        steps, count = [part.steps for part in self.parts], len(self.phases)
        spans = [window_of(each) or Window(account.span.start, account.span.start)
                 for each in owned(steps, account.span, phase, count)]  # fmt: skip
        accounts = account_of_each(self.timeline, self.device, list(map(span_of, spans)))
        launched, kinds = self._launched(), self._kinds()
        rows = []
        for number, name in enumerate(self.phases):
            own, length = accounts[number].times, spans[number].length
            busy = sum(own[key] for key in OPERATION_CLASSES)
            row = {"rank": self.rank, "device_id": self.device, "phase": name, "span_ns": length,
                   "busy_ns": busy, "busy_pct": float(percent(busy, length or 1)),
                   "kernel_kinds": kinds[number]}  # fmt: skip
            for key, column in TIME_CLASS_COLUMNS.items():
                row[column] = None if key in account.not_recorded else own[key]
            if launched is not None:
                row["launch_count"] = int(launched[self.phase_of_step == number].sum())
            figures = {} if name == OUTSIDE else self._steps(number, launched)
            if name == OUTSIDE or figures or length:
                rows.append(row | figures)
        return sorted(
            rows, key=lambda row: (row["phase"] == OUTSIDE, -row["span_ns"], row["phase"])
        )

    def _steps(self, phase: int, launched: Array | None) -> Row:
        # Figures of the whole steps of a phase; none where it has none.
        number = _joined([part.number[part.whole] for part in self.parts])
        lasted = _joined([part.steps.lengths[part.whole] for part in self.parts])
        mine = np.flatnonzero(self.phase_of_step[number] == phase)
        if not len(mine):
            return {}
        number, lasted = number[mine], lasted[mine]
        said = [self.found.said[self.names[i]] for i in number.tolist()]
        requests = [each.requests for each in said if each.requests is not None]
        known = [(each.tokens, spent) for each, spent in zip(said, lasted.tolist(), strict=True)
                 if each.tokens is not None]  # fmt: skip
        tokens, spent = sum(count for count, _ in known), sum(time for _, time in known)
        return {
            "step_count": len(mine),
            "request_count": sum(requests) if requests else None,
            "token_count": tokens if known else None,
            "requests_per_step": sum(requests) / len(requests) if requests else None,
            "tokens_per_step": tokens / len(known) if known else None,
            "tokens_per_s": 1e9 * tokens / spent if known and spent else None,
            "step_p50_ns": float(np.percentile(lasted, 50)),
            "step_p99_ns": float(np.percentile(lasted, 99)),
            "launches_per_step": None if launched is None else float(launched[number].mean()),
        }

    def _launched(self) -> Array | None:
        # How many calls launched something on the device, by number of the step, the last: in none.
        begun = launches(self.timeline)
        return _by_step(self.timeline, self.found, begun.call[begun.device == self.device])

    def _kinds(self) -> list[str | None]:
        timeline, ops = self.timeline, self.timeline.ops_on(self.device)
        which = np.flatnonzero((ops.kind == OpKind.KERNEL) & ops.timed)
        kernels, owner = ops.take(which), timeline.owner[timeline.places_on(self.device)[which]]
        # A kernel is of the step that launched it, and without a call of that in which it began.
        called = owner >= 0
        step = step_numbers(self.found.steps, kernels.pid, kernels.start)
        step[called] = step_numbers(
            self.found.annotated, kernels.pid[called], timeline.calls.start[owner[called]]
        )
        category, names = categories(timeline)
        cell = self.phase_of_step[step] * len(names) + category[kernels.row]
        spent = sums(cell, kernels.dur, len(self.phases) * len(names))
        return [_words(names, row) for row in spent.reshape(len(self.phases), -1).tolist()]


def _words(names: list[str], spent: list[int]) -> str | None:
    whole = sum(spent)
    largest = sorted(range(len(names)), key=lambda i: (-spent[i], names[i]))[:_MOST_KINDS]
    shares = (f"{names[i]} {100 * spent[i] / whole:.0f} %" for i in largest if spent[i])
    return ", ".join(shares) or None


def _joined(parts: Sequence[Array | list[int]]) -> Array:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _by_step(timeline: Timeline, found: PhaseSteps, calls: Array) -> Array | None:
    # How many of these calls each step made, and, last, how many none did; None: links are not recorded.
    if Fact.API_LINKS not in timeline.profile.facts:
        return None
    pid, start = (take(column, calls) for column in (timeline.calls.pid, timeline.calls.start))
    step = step_numbers(found.annotated, pid, start)
    count = sum(map(len, found.steps)) + 1
    return counts(np.where(step < 0, count - 1, step), count)


def _found(timeline: Timeline, request: Request, report: str) -> PhaseSteps:
    path = request.steps.grammar
    found = phase_steps(timeline, path)
    if not found.steps:
        frameworks = ", ".join(grammar(path).frameworks)
        advice = [
            timeline.profile.advice.get(Fact.RANGES, ""),
            _ADVICE.format(frameworks=frameworks),
        ]
        missing = ["annotations that name steps or phases"]
        raise NotRecorded(report, missing, list(filter(None, advice)))
    return found


def _parts(timeline: Timeline, found: PhaseSteps) -> Iterator[_Part]:
    first = 0
    for mine in found.steps:
        process = np.array([mine.pid])
        if timeline.in_processes(process).all():
            every = Window(int(mine.start.min()), int(mine.end.max()) + 1)
            window = timeline.window(process) or every
            which = distinct(window.pieces(mine.start, mine.end).interval)
            kept = mine.take(which)
            whole = window.holds(kept.start, kept.end)
            yield _Part(kept.clipped(window), first + which, whole)
        first += len(mine)


def compute_steps(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per process and step, in time order."""
    found = _found(timeline, request, "phase_steps")
    launched = _by_step(timeline, found, launches(timeline).call)
    ops, known, rows = timeline.ops, not timeline.clocks_disagree, []
    for part in _parts(timeline, found):
        steps = part.steps
        running = union(ops.start, ops.end, ops.timed & (ops.pid == steps.pid))
        busy, lasted = steps.added(running.covered), steps.lengths
        share = percent(busy, lasted)
        for i, name in enumerate(steps.name):
            said = found.said[name]
            rows.append({
                "rank": timeline.ranks.get(steps.pid), "pid": steps.pid, "step": name,
                "occurrence": steps.occurrence[i], "phase": said.phase,
                "start_ns": int(steps.start[i]), "dur_ns": int(lasted[i]),
                "request_count": said.requests, "token_count": said.tokens,
                "busy_ns": int(busy[i]) if known else None,
                "busy_pct": float(share[i]) if known else None,
                "launch_count": None if launched is None else int(launched[part.number[i]]),
            })  # fmt: skip
    return values_by_column(rows, STEP_COLUMNS[1:])


PHASES = Query(columns=COLUMNS, compute=compute)
PHASE_STEPS = replace(PHASES, columns=STEP_COLUMNS, compute=compute_steps)
