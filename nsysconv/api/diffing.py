"""Two sides compared: what changed, whether it can be trusted, and whether a limit is exceeded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from nsysconv import queries
from nsysconv.api.comparing import Comparing
from nsysconv.api.open_profile import ShownReport, check_limit, check_sides, open_side, shown_report
from nsysconv.api.targets import Say, Target, Words, several, silent
from nsysconv.diff import gate, limits_file
from nsysconv.diff.names import MATCHES, Match, vendors_differ
from nsysconv.diff.steps import steps_per_rank
from nsysconv.errors import UsageError, available_hint
from nsysconv.phases import phase
from nsysconv.report import Column, Report
from nsysconv.timeline.slices import Slice

ACCOUNT, CULPRITS = "account", "culprits"
_OF_CULPRITS = ("kernels", "api_vs_kernel", "idle_host")
DEFAULT = (
    ACCOUNT,
    CULPRITS,
    "overview",
    "kernels",
    "api_vs_kernel",
    "transfers",
    "idle_summary",
    "idle_host",
    "steps",
)
"""The reports that are compared where none is named."""

_COMPARABLE = tuple(
    name
    for name in queries.OWN
    if name not in ("idle_gaps", "timeline_events", *queries.OVER_RANKS)
)
_LIMIT_FOR_PEOPLE = 20
_FAIL, _PASS = "fail", "pass"
_RUN_NOISE = re.compile(r"\s*([0-9]{1,2}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})\s*%\s*")


@dataclass(frozen=True)
class DiffResult:
    """What a comparison says.

    `answer` is one line: slower, faster, same or cannot tell, of what and by how much; `headline` the
    same as a report of one row. `reports` are those of changes, then, where there are limits, that of
    verdicts. `exit_status` is 0, 1 or 4: within all limits, one exceeded, or none exceeded and one that
    nothing can be said of.
    """

    answer: str
    headline: ShownReport
    reports: tuple[ShownReport, ...]
    exit_status: int


def compare(
    base: Target,
    other: Target,
    reports: Words | None = None,
    *,
    match: str | None = None,
    fail_on: Words = (),
    limits: str | Path | None = None,
    run_noise: str | None = None,
    cannot_tell: str | None = None,
    limit: int | None = None,
    for_people: bool = False,
    slice: Slice | None = None,  # noqa: A002 - what it is
    step_range: str | None = None,
    say: Say = silent,
) -> DiffResult:
    """Says what changed from base to other.

    A side is a store, STORE@LABEL, a profile file, a folder or a glob; profiles of one run are its
    ranks, all others repeats. `reports` are those with keys (None: the most useful). `match` says how
    kernels' names are matched: exact, signature or name (None: exact between profiles of one source,
    else signature). `fail_on` are limits, `report.column:3%` or `report[/regex/].column:2ms`; `limits`
    names a TOML file of such. `run_noise` is the standard deviation of a run, such as `0.3%`, for those
    who know it (None: 1 % or 3 % are assumed where a side is one run). `cannot_tell` says what a limit
    of which nothing can be said makes of the exit status: `fail` (the default) or `pass`.
    `for_people` leaves out what few look at. `slice` says what of both sides to look at; `step_range`
    what steps are called. `limit` cuts rows (0: none cut, None: 20 for people, else none). Raises
    UsageError for words that are not known, InputError where a side cannot be read. What a side did not
    record is in the reports.
    """
    chosen = list(DEFAULT if reports is None else several(reports))
    check_limit(limit)
    can_be = (ACCOUNT, CULPRITS, *_COMPARABLE)
    unknown = [name for name in chosen if name not in can_be]
    if unknown:
        raise UsageError(
            f"no report {unknown[0]!r} that can be compared",
            hint=available_hint(unknown[0], can_be),
        )
    file = None if limits is None else limits_file.read_limits_file(limits)
    columns = {name: _columns(name) for name in _COMPARABLE}
    wanted = [gate.parse_limit(text, columns) for text in several(fail_on)]
    if file is not None:
        wanted += [gate.parse_limit(text, columns, where) for text, where in file.limits]
        cannot_tell = cannot_tell or file.cannot_tell
    by_text: dict[str, gate.Limit] = {}
    for each in wanted:
        by_text.setdefault(each.text, each)
    wanted = list(by_text.values())
    noise = _run_noise(run_noise)
    if noise is None and file is not None:
        noise = _run_noise(file.run_noise, where=str(limits))
    passes = _passes(cannot_tell)
    matched = _match(match)
    with ExitStack() as stack, phase("diff"):
        check_sides(base, other)
        sides = open_side(base, stack, say), open_side(other, stack, say)
        if slice is not None:
            for side in sides:
                side.cut(replace(slice, step_range=slice.step_range or step_range))
        others = vendors_differ(*([p.timeline for p in s.profiles] for s in sides))
        if reports is None and others:
            # Of kernels of other makers hardly a name is the same.
            chosen.insert(chosen.index("kernels"), "kernel_categories")
        named = [name for name in chosen if name in _COMPARABLE]
        named = list(dict.fromkeys([*named, *(each.report for each in wanted)]))
        asked = [*named, *(_OF_CULPRITS if CULPRITS in chosen else ())]
        comparing = Comparing(
            sides, asked, matched, step_range, other_makers=others, run_noise=noise
        )
        compared = {name: comparing.report(name) for name in named}
        most = _LIMIT_FOR_PEOPLE if limit is None and for_people else limit or 0
        makers = {
            ACCOUNT: lambda: comparing.account(for_people=for_people),
            CULPRITS: comparing.culprits,
        }
        changes = [
            makers[name]() if name in makers else compared[name].report.limited(most)
            for name in chosen
        ]
        if for_people:
            changes = [report.briefly() for report in changes]
        verdicts = [
            comparing.verdict(each, columns[each.report], compared[each.report]) for each in wanted
        ]
        if verdicts:
            changes.append(gate.limits_report(verdicts))
        answer = comparing.answer()
        headline = answer.report([verdict.state for verdict in verdicts])
        status = gate.exit_status(verdicts)
        if status == gate.CANNOT_TELL and passes:
            status = 0
        return DiffResult(
            answer.line, shown_report(headline), tuple(map(shown_report, changes)), status
        )


def _run_noise(text: str | None, where: str = "") -> float | None:
    """The relative standard deviation that `0.3%` says."""
    if text is None:
        return None
    match = _RUN_NOISE.fullmatch(text)
    if match is None:
        hint = "Write how runs of the same program differ, as a share: 0.3%."
        raise UsageError(f"{text!r} is not the noise of a run", where=where, hint=hint)
    return float(match[1]) / 100


def _passes(word: str | None) -> bool:
    """Whether a limit of which nothing can be said passes."""
    if word not in (None, _FAIL, _PASS):
        raise UsageError(
            f"no way {word!r} to take what cannot be told", hint=f"{_FAIL} or {_PASS}."
        )
    return word == _PASS


def _match(text: str | None) -> Match | None:
    known = next((match for match in MATCHES if match == text), None)
    if text is not None and known is None:
        raise UsageError(f"no matching {text!r}", hint=f"There are: {', '.join(MATCHES)}")
    return known


@cache
def _columns(name: str) -> Sequence[Column]:
    """The columns of a report that can be compared, steps added up."""
    return steps_per_rank(_empty(name)).columns if name == "steps" else queries.query(name).columns


def _empty(name: str) -> Report:
    query = queries.query(name)
    return Report(name, query.title, query.columns, None)
