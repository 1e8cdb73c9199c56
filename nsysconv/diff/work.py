"""Whether two sides did the same amount of work: only then may their sums be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nsysconv.diff.compared import BOTH, RowPair
from nsysconv.notes import Note, Severity

# Launches that differ by a smaller share are those of a program that does not do the same every time.
_LITTLE = 0.01
# A program is the same as far as it runs the same kernels, for this share of their time at least.
_MOST = 0.5
_STEPS = "steps-differ"
_UNLIKE = ("gpu-differs", "capture-options-differ")


def work_differences(notes: Iterable[Note], *, have_steps: bool) -> list[str]:
    """What of the comparability of two sides makes their sums incomparable, in words.

    Other numbers of steps, where both sides have steps; another GPU, other options of the profiler.
    """
    slugs = (_STEPS, *_UNLIKE) if have_steps else _UNLIKE
    return [work_note.text for work_note in notes if work_note.slug in slugs]


def kernel_mix_difference(kernels: Sequence[RowPair]) -> str | None:
    """That the sides run other kernels for more than half of their time, in words; else None.

    To be asked where no steps say how much was done. `kernels` are the rows of that report.
    """
    shares = []
    for side in ("base_values", "other_values"):
        spent = [(row.where == BOTH, getattr(row, side)["kernel_sum_ns"] or 0) for row in kernels]
        whole = sum(each for _, each in spent)
        shares.append(sum(each for both, each in spent if both) / whole if whole else 1.0)
    if min(shares) >= _MOST:
        return None
    return f"only {100 * min(shares):.0f} % of the kernel time is of kernels that both sides run"


def launch_count_difference(kernels: Sequence[RowPair]) -> str | None:
    """That one side launched most of its kernels less often than the other, in words; else None.

    So it is where a recording was stopped after some time: it holds more of a program that became
    faster. A changed program launches some kernels more or less often, and the others as before. Most are
    more than half of the names that both sides have, and of base's time. To be asked where no steps say
    how much was done. `kernels` are the rows of that report.
    """
    rows = [row for row in kernels if row.where == BOTH and row.base_values["kernel_sum_ns"]]
    whole = sum(row.base_values["kernel_sum_ns"] or 0 for row in kernels)
    for sign, word in ((-1, "fewer"), (1, "more")):
        other = [row for row in rows if sign * _share(row) > _LITTLE]
        spent = sum(row.base_values["kernel_sum_ns"] for row in other)
        if 2 * len(other) > len(rows) and 2 * spent > whole:
            before, after = (
                sum(values["kernel_count"] or 0 for values in side)
                for side in zip(*((r.base_values, r.other_values) for r in kernels), strict=True)
            )
            return f"{100 * abs(after - before) / before:.1f} % {word} launches, of most kernels"
    return None


def _share(row: RowPair) -> float:
    before, after = row.base_values["kernel_count"], row.other_values["kernel_count"]
    return (after - before) / before if before and after is not None else 0.0


def work_note(reasons: Sequence[str]) -> Note:
    """That sums are not comparable, and why."""
    text = f"not the same work ({'; '.join(reasons)}): sums and counts have no verdict"
    return Note("work-differs", Severity.APPROXIMATED, text)
