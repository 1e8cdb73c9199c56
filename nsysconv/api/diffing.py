"""Two sides compared: what changed, whether it can be trusted, and whether a limit is exceeded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from nsysconv import queries
from nsysconv.api.comparing import Comparing
from nsysconv.api.open_profile import (
    ShownReport,
    check_limit,
    check_sides,
    open_side,
    shown_report,
)
from nsysconv.api.targets import Say, Target, Words, several, silent
from nsysconv.diff import gate, limits_file
from nsysconv.diff.compare import Comparison
from nsysconv.diff.names import MATCHES, Match, vendors_differ
from nsysconv.diff.steps import steps_per_rank
from nsysconv.errors import UsageError, available_hint
from nsysconv.phases import phase
from nsysconv.report import Column, Report
from nsysconv.timeline.slices import Slice

ACCOUNT, CULPRITS = "account", "culprits"
_CULPRIT_REPORTS = ("kernels", "api_vs_kernel", "idle_host")
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
"""The reports that are compared if none is named."""

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
    """Compare two sides: what changed from base to other.

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
    options = DiffOptions(
        reports=None if reports is None else several(reports),
        match=match,
        fail_on=several(fail_on),
        limits=limits,
        run_noise=run_noise,
        cannot_tell=cannot_tell,
        limit=limit,
        for_people=for_people,
        slice=slice,
        step_range=step_range,
    )
    return compare_targets(base, other, options, say)


@dataclass(frozen=True)
class DiffOptions:
    """What is asked of a comparison; the fields mean what the parameters of `compare` mean."""

    reports: tuple[str, ...] | None = None
    match: str | None = None
    fail_on: tuple[str, ...] = ()
    limits: str | Path | None = None
    run_noise: str | None = None
    cannot_tell: str | None = None
    limit: int | None = None
    for_people: bool = False
    slice: Slice | None = None
    step_range: str | None = None


@dataclass(frozen=True)
class _Gate:
    """The limits of a comparison, from flags and from a file, and what the file says beside them."""

    limits: tuple[gate.Limit, ...]
    run_noise: float | None
    passes_undecided: bool


def compare_targets(
    base: Target, other: Target, options: DiffOptions, say: Say = silent
) -> DiffResult:
    """Compare two sides as `compare` does, with the options as a value."""
    names = list(DEFAULT if options.reports is None else options.reports)
    check_limit(options.limit)
    comparable = (ACCOUNT, CULPRITS, *_COMPARABLE)
    for name in names:
        if name not in comparable:
            raise UsageError(
                f"no report {name!r} that can be compared", hint=available_hint(name, comparable)
            )
    limits = _gate(options)
    match = _match(options.match)
    with ExitStack() as stack, phase("diff"):
        check_sides(base, other)
        sides = open_side(base, stack, say), open_side(other, stack, say)
        if options.slice is not None:
            step_range = options.slice.step_range or options.step_range
            for side in sides:
                side.cut(replace(options.slice, step_range=step_range))
        other_makers = vendors_differ(*([p.timeline for p in s.profiles] for s in sides))
        if options.reports is None and other_makers:
            # Of kernels of other makers hardly a name is the same.
            names.insert(names.index("kernels"), "kernel_categories")
        named = [name for name in names if name in _COMPARABLE]
        named = list(dict.fromkeys([*named, *(limit.report for limit in limits.limits)]))
        needed = [*named, *(_CULPRIT_REPORTS if CULPRITS in names else ())]
        comparer = Comparing(
            sides,
            needed,
            match,
            options.step_range,
            other_makers=other_makers,
            run_noise=limits.run_noise,
        )
        compared = {name: comparer.report(name) for name in named}
        changes = list(_changes(names, comparer, compared, options))
        verdicts = [
            comparer.verdict(limit, _columns(limit.report), compared[limit.report])
            for limit in limits.limits
        ]
        status = 0
        if verdicts:
            changes.append(gate.limits_report(verdicts))
            status = gate.exit_status(verdicts)
        answer = comparer.answer()
        headline = answer.report([verdict.state for verdict in verdicts])
        if status == gate.CANNOT_TELL and limits.passes_undecided:
            status = 0
        shown = tuple(map(shown_report, changes))
        return DiffResult(answer.line, shown_report(headline), shown, status)


def _changes(
    names: Sequence[str],
    comparer: Comparing,
    compared: Mapping[str, Comparison],
    options: DiffOptions,
) -> Iterator[Report]:
    is_default = options.limit is None and options.for_people
    rows = _LIMIT_FOR_PEOPLE if is_default else options.limit or 0
    for name in names:
        if name == ACCOUNT:
            report = comparer.account(for_people=options.for_people)
        elif name == CULPRITS:
            report = comparer.culprits()
        else:
            report = compared[name].report.limited(rows)
        yield report.briefly() if options.for_people else report


def _gate(options: DiffOptions) -> _Gate:
    # What a flag says comes before what the file says; each limit counts once.
    file = None if options.limits is None else limits_file.read_limits_file(options.limits)
    columns = {name: _columns(name) for name in _COMPARABLE}
    limits = [gate.parse_limit(text, columns) for text in options.fail_on]
    cannot_tell = options.cannot_tell
    if file is not None:
        limits += [gate.parse_limit(text, columns, where) for text, where in file.limits]
        cannot_tell = cannot_tell or file.cannot_tell
    by_text: dict[str, gate.Limit] = {}
    for limit in limits:
        by_text.setdefault(limit.text, limit)
    noise = _run_noise(options.run_noise)
    if noise is None and file is not None:
        noise = _run_noise(file.run_noise, where=str(options.limits))
    if cannot_tell not in (None, _FAIL, _PASS):
        raise UsageError(
            f"no way {cannot_tell!r} to take what cannot be told", hint=f"{_FAIL} or {_PASS}."
        )
    return _Gate(tuple(by_text.values()), noise, cannot_tell == _PASS)


def _run_noise(text: str | None, where: str = "") -> float | None:
    # The relative standard deviation: 0.003 of "0.3%".
    if text is None:
        return None
    match = _RUN_NOISE.fullmatch(text)
    if match is None:
        hint = "Write how runs of the same program differ, as a share: 0.3%."
        raise UsageError(f"{text!r} is not the noise of a run", where=where, hint=hint)
    return float(match[1]) / 100


def _match(text: str | None) -> Match | None:
    match = next((match for match in MATCHES if match == text), None)
    if text is not None and match is None:
        raise UsageError(f"no matching {text!r}", hint=f"There are: {', '.join(MATCHES)}")
    return match


@cache
def _columns(name: str) -> Sequence[Column]:
    # Of a report that can be compared; steps are added up.
    return steps_per_rank(_empty(name)).columns if name == "steps" else queries.query(name).columns


def _empty(name: str) -> Report:
    query = queries.query(name)
    return Report(name, query.title, query.columns, None)
