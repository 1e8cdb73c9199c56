"""Steps of two profiles, matched one by one: how long each took before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from nsysconv.notes import Note, Severity
from nsysconv.report import Column, ProfileRef, Report, Unit, report_table
from nsysconv.timeline.slices import StepRule
from nsysconv.timeline.steps import Steps, steps, uncut_by_slice
from nsysconv.timeline.timeline import Timeline

STEP_PAIRS = "step_pairs"
"""The name of the report."""

MEDIAN, GREATEST = "median", "greatest"
"""Which pairs are looked at more closely: that of the median difference, that of the greatest."""

_FITTING = 2
"""Names match steps if at least one of so many of the side with fewer is on the other, too."""


@dataclass(frozen=True)
class Step:
    """One step of a process: its name, which of that name it is, and its time in ns."""

    pid: int
    name: str
    occurrence: int
    start: int
    end: int


@dataclass(frozen=True)
class StepPair:
    """A step of base, and the step of other that is matched with it; `rank` is that of the process."""

    rank: int | None
    base: Step
    other: Step

    @property
    def difference(self) -> int:
        """Return how much longer other's step took, in ns."""
        return (self.other.end - self.other.start) - (self.base.end - self.base.start)


@dataclass(frozen=True)
class StepPairs:
    """The pairs of two profiles, process by process in time order; `missing`: who has no steps."""

    pairs: tuple[StepPair, ...]
    notes: tuple[Note, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def chosen(self) -> dict[str, StepPair]:
        """Return the pairs of MEDIAN and GREATEST difference; one alone if both are the same."""
        if not self.pairs:
            return {}
        ordered = sorted(self.pairs, key=lambda pair: pair.difference)
        found = {MEDIAN: ordered[(len(ordered) - 1) // 2]}
        greatest = max(self.pairs, key=lambda pair: abs(pair.difference))
        return found if greatest is found[MEDIAN] else {**found, GREATEST: greatest}


def match_steps(base: Timeline, other: Timeline, rule: StepRule) -> StepPairs:
    """Return the steps of two profiles in pairs; those that a slice cuts are left out.

    Processes are matched by their ranks if both sides know them, else by their order. Steps are matched
    by name and occurrence if at least half of the steps of the side with fewer have such a partner, else
    by their order. Notes say how, and count the steps without a partner.
    """
    sides = [uncut_by_slice(each, steps(each, rule)) for each in (base, other)]
    missing = [name for name, found in zip(("base", "other"), sides, strict=True) if not found]
    if missing:
        return StepPairs((), missing=tuple(missing))
    pairs: list[StepPair] = []
    by_order = 0
    for rank, mine, theirs in _match_processes((base, other), sides):
        matched = _by_name(mine, theirs)
        if matched is None:
            matched = list(zip(range(len(mine)), range(len(theirs)), strict=False))
            by_order += 1
        pairs += [StepPair(rank, _step(mine, i), _step(theirs, k)) for i, k in matched]
    notes = []
    if by_order:
        text = "steps are matched by order: their names differ between the sides"
        notes.append(Note("steps-by-order", Severity.INFO, text))
    counts = [sum(map(len, found)) for found in sides]
    alone = [count - len(pairs) for count in counts]
    if any(alone):
        text = (
            f"steps without a partner: {alone[0]:,} of {counts[0]:,} in base, {alone[1]:,} of "
            f"{counts[1]:,} in other"
        )
        notes.append(Note("steps-without-partner", Severity.INFO, text, sum(alone)))
    return StepPairs(tuple(pairs), tuple(notes))


def _match_processes(
    timelines: Sequence[Timeline], sides: Sequence[Sequence[Steps]]
) -> list[tuple[int | None, Steps, Steps]]:
    base, other = (
        {timeline.ranks.get(mine.pid): mine for mine in found}
        for timeline, found in zip(timelines, sides, strict=True)
    )
    ranks = [rank for rank in base if rank is not None and rank in other]
    if ranks:
        return [(rank, base[rank], other[rank]) for rank in ranks]
    in_order = zip(*sides, strict=False)
    return [(timelines[0].ranks.get(mine.pid), mine, theirs) for mine, theirs in in_order]


def _by_name(mine: Steps, theirs: Steps) -> list[tuple[int, int]] | None:
    places = {key: k for k, key in enumerate(zip(theirs.name, theirs.occurrence, strict=True))}
    keys = zip(mine.name, mine.occurrence, strict=True)
    matched = [(i, places[key]) for i, key in enumerate(keys) if key in places]
    enough = _FITTING * len(matched) >= min(len(mine), len(theirs))
    # Names that come in another order say nothing of which step is which.
    in_order = all(k < later for (_, k), (_, later) in pairwise(matched))
    return matched if enough and in_order else None


def _step(found: Steps, place: int) -> Step:
    return Step(
        found.pid,
        found.name[place],
        found.occurrence[place],
        int(found.start[place]),
        int(found.end[place]),
    )


COLUMNS = (
    Column("rank", Unit.ID, "Rank of the process; null: unknown.", key=True),
    Column("pid", Unit.ID, "Process id in the base.", key=True),
    Column("step", Unit.TEXT, "Name of the step.", key=True),
    Column(
        "occurrence",
        Unit.ID,
        "Number of the step among those of the same name in its process, from 1.",
        key=True,
    ),
    Column("diff_dur_ns", Unit.NS, "Other minus base.", better="less", adds=True),
    Column("diff_pct", Unit.PCT, "The change as a share of base.", real=True),
    Column("base_dur_ns", Unit.NS, "Duration of the step in base.", better="less", adds=True),
    Column(
        "other_dur_ns", Unit.NS, "Duration of the matching step in other.", better="less", adds=True
    ),
    Column("other_step", Unit.TEXT, "Name of the step in other, if it differs.", optional=True),
    Column("base_start_ns", Unit.NS, "Start of the step in base.", brief=False),
    Column("other_start_ns", Unit.NS, "Start of the matching step in other.", brief=False),
    Column(
        "drawn",
        Unit.TEXT,
        "median, greatest: the pair of which `step_timelines` has the time lines; null: none.",
        brief=False,
    ),
)


def step_pairs_report(found: StepPairs, profiles: Sequence[ProfileRef] = ()) -> Report:
    """Return the pairs as a report, in their order; not recorded where a side has no steps."""
    chosen = {pair: name for name, pair in found.chosen.items()}
    rows = [_row(pair, chosen.get(pair)) for pair in found.pairs]
    cells = {column.name: [row[i] for row in rows] for i, column in enumerate(COLUMNS)}
    return Report(
        name=STEP_PAIRS,
        title="Steps on both sides, one by one",
        columns=COLUMNS,
        table=None if found.missing else report_table(COLUMNS, cells),
        profiles=tuple(profiles),
        notes=found.notes,
        not_recorded=tuple(f"annotated steps ({name})" for name in found.missing),
        advice=(STEP_ADVICE,) if found.missing else (),
        row_count=len(rows),
    )


STEP_ADVICE = "Name the ranges that are steps: --step-range 'step *'."
"""What to do where a side has no steps."""


def _row(pair: StepPair, drawn: str | None) -> tuple[object, ...]:
    base, other = pair.base, pair.other
    before, after = base.end - base.start, other.end - other.start
    return (
        pair.rank,
        base.pid,
        base.name,
        base.occurrence,
        after - before,
        100 * (after - before) / before if before else None,
        before,
        after,
        other.name if other.name != base.name else None,
        base.start,
        other.start,
        drawn,
    )
