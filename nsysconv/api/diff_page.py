"""The pictures of a comparison's page: two runs on one axis, and trees of both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nsysconv.api.open_profile import OpenProfile
from nsysconv.diff.step_pairs import STEP_PAIRS, match_steps, step_pairs_report
from nsysconv.diff.step_timelines import STEP_TIMELINES, step_timelines_report
from nsysconv.diff.trees import TREES
from nsysconv.notes import Note, Severity
from nsysconv.report import Report
from nsysconv.timeline.slices import StepRule

DRAWN = (STEP_PAIRS, STEP_TIMELINES, *TREES)
"""The reports that the page of a comparison draws, where none is named."""

LONG = 2_000_000
"""Two sides with more kernels and API calls get no trees on the page: they would take too long."""


def drawn_reports(profiles: Iterable[OpenProfile]) -> tuple[str, ...]:
    """Return which of DRAWN the page of two sides with these profiles has, by their size."""
    tables = "kernel", "api_call"
    count = sum(each.profile.row_count(table) for each in profiles for table in tables)
    return DRAWN if count <= LONG else tuple(name for name in DRAWN if name not in TREES)


def aligned_reports(
    base_runs: Sequence[Sequence[OpenProfile]],
    other_runs: Sequence[Sequence[OpenProfile]],
    step_rule: StepRule,
) -> Mapping[str, Report]:
    """Return the reports `step_pairs` and `step_timelines`, on a profile of each side.

    It is a profile of the side's first run: the first rank that both sides have.
    """
    base, other = _profiles_to_align([base_runs[0], other_runs[0]])
    refs = base.profile.ref, other.profile.ref
    pairs = match_steps(base.timeline, other.timeline, step_rule)
    steps = step_pairs_report(pairs, refs)
    lanes = step_timelines_report(base.timeline, other.timeline, pairs, refs)
    for profile in (base, other):
        profile.forget()
    count = sum(map(len, (*base_runs, *other_runs)))
    notes = []
    if count > len(refs):
        text = f"only {refs[0].label} and {refs[1].label} of {count:,} profiles are on one axis"
        notes.append(Note("profiles-not-aligned", Severity.INFO, text))
    return {r.name: replace(r, notes=(*r.notes, *notes)) for r in (steps, lanes)}


def _profiles_to_align(runs: Sequence[Sequence[OpenProfile]]) -> tuple[OpenProfile, OpenProfile]:
    by_rank = [
        {rank: profile for profile in reversed(run) for rank in profile.timeline.ranks.values()}
        for run in runs
    ]
    shared = sorted(by_rank[0].keys() & by_rank[1].keys())
    if shared:
        return by_rank[0][shared[0]], by_rank[1][shared[0]]
    return runs[0][0], runs[1][0]
