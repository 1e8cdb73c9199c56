"""The answer to "is it slower?": one line, of one figure, before all tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from nsysconv.diff.change import UNCERTAIN, Change
from nsysconv.diff.gate import State
from nsysconv.diff.noise import minimum_detectable_change
from nsysconv.notes import Note, Severity
from nsysconv.report import Column, Report, Said, report_table
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit, human

STEP, WINDOW = "step", "window"
_WORDS = {"worse": "slower", "better": "faster", "same": "same"}
_WHAT = {STEP: "time from step to step", WINDOW: "window of GPU work"}
_CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Answer:
    """Whether the other side is slower, and how much can be made of it.

    `what` is the figure: the time of a step, with what lies between steps, where both sides have steps;
    else the window from the first to the last GPU operation; of several devices and ranks the longest.
    `change` is None where it is not recorded. `runs` are those of each side. `unlike` says in words why
    the work of the sides differs, `empty` that one holds no GPU work; `notes` name what may have
    disturbed the runs.
    """

    what: str
    change: Change | None
    runs: tuple[int, int]
    unlike: Sequence[str] = ()
    empty: bool = False
    notes: tuple[Note, ...] = ()

    @property
    def word(self) -> str:
        """Return `slower`, `faster`, `same`, or `cannot tell`."""
        if self.change is None or self.empty or (self.unlike and self.what == WINDOW):
            return _CANNOT_TELL
        return _WORDS.get(self.change.verdict("less"), _CANNOT_TELL)

    @property
    def line(self) -> str:
        """Return the answer in one line."""
        return f"{self.word}: {'; '.join(self._parts())}"

    def _parts(self) -> Iterable[str]:
        base, other = ("1 run" if count == 1 else f"{count} runs" for count in self.runs)
        if self.empty:
            yield "a side holds no GPU work"
            return
        if self.change is None:
            yield "times of GPU operations are not recorded on both sides"
            yield f"{base} against {other}"
            return
        other_work = f"not the same work ({'; '.join(self.unlike)})"
        if self.unlike and self.what == WINDOW:
            yield other_work
        before, after = self.change.means
        moved = f" ({100 * (after - before) / before:+.1f} %)" if before else ""
        yield f"{_WHAT[self.what]} {human(before, Unit.NS)} → {human(after, Unit.NS)}{moved}"
        yield f"{base} against {other}, {self._interval()}"
        if self.unlike and self.what == STEP:
            yield f"{other_work}, compared per step"

    def _interval(self) -> str:
        change, ratio = self.change, None if self.change is None else self.change.ratio
        if change is None or ratio is None:
            return "no interval"
        low, high = (f"{100 * (end - 1):+.1f}" for end in (ratio.low, ratio.high))
        text = f"interval {low} … {high} %"
        if change.basis != "repeats":
            text += f" if runs differ by {100 * change.noise:.2g} %"
        visible = self.smallest_visible
        if change.verdict("less") == UNCERTAIN and visible is not None:
            text += f", no change below ±{visible:.2g} % can be seen"
        return text

    @property
    def smallest_visible(self) -> float | None:
        """Return the minimum detectable change in percent; None without interval."""
        ratio = None if self.change is None else self.change.ratio
        if self.change is None or ratio is None:
            return None
        before, after = self.change.means
        return 100 * minimum_detectable_change(ratio.high / (after / before) - 1)

    def report(self, limits: Sequence[State] = ()) -> Report:
        """Return the answer as a report of one row, with counts of the states of limits."""
        change = None if self.empty else self.change
        before, after = (None, None) if change is None else change.means
        ratio = None if change is None else change.ratio
        counted = Counter(limits)
        states: tuple[State, ...] = ("exceeded", "within", "cannot tell")
        row = {
            "answer": self.word,
            "figure": self.what,
            "base_ns": before,
            "other_ns": after,
            "diff_pct": 100 * (after - before) / before if before and after is not None else None,
            "ratio_low": None if ratio is None else ratio.low,
            "ratio_high": None if ratio is None else ratio.high,
            "basis": None if change is None else change.basis,
            "smallest_visible_pct": self.smallest_visible,
            "base_runs": self.runs[0],
            "other_runs": self.runs[1],
            "unlike": "; ".join(self.unlike) or None,
            **{
                f"limits_{state.replace(' ', '_')}": counted[state] if limits else None
                for state in states
            },
        }
        lines = [f"limits: {', '.join(f'{counted[state]} {state}' for state in states)}"]
        return Report(
            "answer",
            self.line,
            _COLUMNS,
            report_table(_COLUMNS, {name: [value] for name, value in row.items()}),
            row_count=1,
            notes=self.notes,
            headline=True,
            said=(Said("", tuple(lines)),) if limits else (),
        )


_COLUMNS = tuple(
    Column(name, unit, doc, said=True, real=unit is Unit.NS)
    for name, unit, doc in (
        ("answer", Unit.TEXT, "slower, faster, same, or cannot tell."),
        ("figure", Unit.TEXT, "step: time per step; window: from the first GPU operation to the last."),
        ("base_ns", Unit.NS, "Its value on base, of the device or rank where it is the longest."),
        ("other_ns", Unit.NS, "Its value on the other side."),
        ("diff_pct", Unit.PCT, "Other minus base as a share of base."),
        ("ratio_low", Unit.REAL, "Least ratio of other and base that noise allows."),
        ("ratio_high", Unit.REAL, "Greatest."),
        ("basis", Unit.TEXT, "What the interval rests on: repeats, within run, single run."),
        ("smallest_visible_pct", Unit.PCT, "The smallest change that would probably have been seen."),
        ("base_runs", Unit.COUNT, "Runs of base."),
        ("other_runs", Unit.COUNT, "Runs of the other side."),
        ("unlike", Unit.TEXT, "Why the sides did not do the same work; null where nothing says so."),
        ("limits_exceeded", Unit.COUNT, "Limits that are exceeded; null: none was given."),
        ("limits_within", Unit.COUNT, "Limits that hold."),
        ("limits_cannot_tell", Unit.COUNT, "Limits of which it cannot be told."),
    )
)  # fmt: skip


# 1.4826 times the median distance from the median is the standard deviation of normal noise.
_FAR = 5 * 1.4826
_FAR_SHARE = 0.03
_SLOW_SHARE = 0.2
_FEWEST_RUNS = 4


def outlier_run_notes(side: str, values: Sequence[float], names: Sequence[str]) -> Iterator[Note]:
    """Yield a note on runs that are far from the others of their side, of four at least."""
    if len(values) < _FEWEST_RUNS:
        return
    middle = median(values)
    usual = median(abs(value - middle) for value in values)
    far = [
        (name, value)
        for name, value in zip(names, values, strict=True)
        if abs(value - middle) > max(_FAR * usual, _FAR_SHARE * middle)
    ]
    if far:
        name, value = far[0]
        text = (
            f"{side}: runs far from the others, {name} by {100 * (value - middle) / middle:+.1f} %"
        )
        yield Note("run-outlier", Severity.INFO, text, len(far), of=len(values))


def run_order_notes(
    base: Sequence[Sequence[Timeline]], other: Sequence[Sequence[Timeline]]
) -> Iterator[Note]:
    """Yield a note where all runs of one side were recorded before the other's, of four at least."""
    if len(base) + len(other) < _FEWEST_RUNS:
        return
    starts = [[_recorded_at(run) for run in side] for side in (base, other)]
    recorded = [[moment for moment in side if moment is not None] for side in starts]
    if [*map(len, recorded)] != [len(base), len(other)]:
        return
    for first, last, words in ((0, 1, "base first"), (1, 0, "the other side first")):
        if max(recorded[first]) < min(recorded[last]):
            text = (
                f"runs were recorded one side after the other, {words}; in turns drift would cancel"
            )
            yield Note("runs-not-in-turns", Severity.INFO, text)


def _recorded_at(run: Sequence[Timeline]) -> int | None:
    moments = [timeline.profile.attributes["zero_utc_ns"] for timeline in run]
    return None if None in moments else min(moments)


def slow_step_notes(side: str, durations: np.ndarray) -> Iterator[Note]:
    """Yield notes on steps (durations in ns) much slower than the usual one, the first ones apart."""
    middle = float(np.median(durations))
    far = _FAR * float(np.median(np.abs(durations - middle)))
    first = durations[: len(durations) // 4]
    slow = np.flatnonzero(durations > middle + far)
    if len(slow) and slow[-1] < len(first) and far:
        text = (
            f"{side}: the slowest steps are the first; --skip-first {slow[-1] + 1} leaves them out"
        )
        yield Note("slow-first-steps", Severity.INFO, text, len(slow), of=len(durations))
        return
    slow = np.flatnonzero(durations > middle + max(far, _SLOW_SHARE * middle))
    if len(slow):
        share = 100 * float(durations[slow].sum()) / float(durations.sum())
        text = f"{side}: steps much slower than the usual one, {share:.0f} % of the time of all"
        yield Note("slow-steps", Severity.INFO, text, len(slow), of=len(durations))
