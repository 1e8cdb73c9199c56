"""What may have disturbed the runs of a comparison: named in notes, left out of nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from nsysconv.notes import Note, Severity
from nsysconv.timeline.timeline import Timeline

# 1.4826 times the median distance from the median is the standard deviation of normal noise.
_FAR = 5 * 1.4826
_FAR_SHARE = 0.03
_SLOW_SHARE = 0.2
_FEWEST_RUNS = 4


def outlier_run_notes(side: str, values: Sequence[float], names: Sequence[str]) -> Iterator[Note]:
    """A note on runs that are far from the others of their side, of four at least."""
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
    """A note where all runs of one side were recorded before all of the other, of four at least."""
    if len(base) + len(other) < _FEWEST_RUNS:
        return
    starts = [[_recorded_at(run) for run in side] for side in (base, other)]
    known = [[moment for moment in side if moment is not None] for side in starts]
    if [*map(len, known)] != [len(base), len(other)]:
        return
    for first, last, words in ((0, 1, "base first"), (1, 0, "the other side first")):
        if max(known[first]) < min(known[last]):
            text = (
                f"runs were recorded one side after the other, {words}; in turns drift would cancel"
            )
            yield Note("runs-not-in-turns", Severity.INFO, text)


def _recorded_at(run: Sequence[Timeline]) -> int | None:
    moments = [timeline.profile.attributes["zero_utc_ns"] for timeline in run]
    return None if None in moments else min(moments)


def slow_step_notes(side: str, durations: np.ndarray) -> Iterator[Note]:
    """Notes on steps of one run that are much slower than the usual one, the first apart."""
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
