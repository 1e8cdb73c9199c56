"""Two sides compared: what changed, whether it can be trusted, and whether a limit is exceeded."""

from __future__ import annotations

import filecmp
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Unpack, cast

from nsysconv import queries
from nsysconv.api.diff_page import DRAWN, aligned_reports, drawn_reports
from nsysconv.api.inputs import Input, UnreadFiles, check_existing, inputs_to_read
from nsysconv.api.last_runs import names_last_runs, open_last_runs, source_hash
from nsysconv.api.open_profile import OpenProfile, open_all, shown_section
from nsysconv.api.options import DiffKeywords, DiffOptions, check_word, options_of
from nsysconv.api.shown_report import ShownReport
from nsysconv.api.targets import Files, Say, Target, Words, silent
from nsysconv.diff import (
    account,
    comparability,
    comparison,
    gate,
    limits_file,
    names,
    rows,
    same_work,
)
from nsysconv.diff.compare import Comparison
from nsysconv.diff.step_pairs import STEP_PAIRS
from nsysconv.diff.step_timelines import STEP_TIMELINES
from nsysconv.diff.trees import TREES, says_nothing
from nsysconv.document import Section
from nsysconv.errors import InputError, UsageError, available_hint
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.phases import phase
from nsysconv.present import tables
from nsysconv.present.without_gpu import HOST
from nsysconv.queries.columns import has_per_step
from nsysconv.queries.contract import GPU_OP_FACTS, Request
from nsysconv.report import Column, Report
from nsysconv.store.location import (
    Location,
    Url,
    globbed,
    local_path,
    redacted_target,
    split_target,
)
from nsysconv.store.read import Profile
from nsysconv.timeline.account import accounts
from nsysconv.timeline.step_rules import resolved
from nsysconv.timeline.steps import in_slice, lost_in_steps
from nsysconv.timeline.steps import steps as steps_of
from nsysconv.timeline.vendors import vendors_differ

ACCOUNT, CONTRIBUTORS = "account", "contributors"
DEFAULT = (
    ACCOUNT,
    CONTRIBUTORS,
    "overview",
    "kernels",
    "api_vs_kernel",
    "transfers",
    "idle_summary",
    "idle_host",
    "steps",
)
"""The reports that are compared if none is named."""

_NOT_COMPARED = {*queries.reports_that_are("events"), *queries.OVER_RANKS}
_COMPARABLE = tuple(name for name in queries.OWN if name not in _NOT_COMPARED)
COMPARABLE = (ACCOUNT, CONTRIBUTORS, *DRAWN, *_COMPARABLE)
"""The reports that can be compared."""

_WITHOUT_WORK = (*HOST, "memory", "memory_holders")
_LIMIT_FOR_PEOPLE = 20
_FAIL, _PASS = "fail", "pass"
_WINDOW_FACTS = frozenset({Fact.KERNELS, Fact.KERNEL_TOTALS, *GPU_OP_FACTS})
_ON_GPU = ("kernel", "memcpy", "memset", "graph_launch")
_RUN_NOISE = re.compile(r"\s*([0-9]{1,2}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})\s*%\s*")


@dataclass(frozen=True)
class DiffResult:
    """The result of a comparison.

    `answer` is one line: slower, faster, same or inconclusive, of what and by how much; `headline` the
    same as a report of one row. `reports` are those of changes, then, where there are limits, that of
    verdicts. `exit_status` is 0, 1 or 4: within all limits, one exceeded, or none exceeded and one that
    nothing can be said of; or 3 where a file of a folder could not be read.
    """

    answer: str
    headline: ShownReport
    reports: tuple[ShownReport, ...]
    exit_status: int

    def __repr__(self) -> str:
        """Return the answer, on one line."""
        return f"<{type(self).__name__} {self.answer}>"


def compare(
    base: Target,
    other: Target,
    reports: Words | None = None,
    *,
    say: Say = silent,
    **options: Unpack[DiffKeywords],
) -> DiffResult:
    """Compare two sides: what changed from base to other.

    A side is a store, STORE@LABEL, a profile file, a folder or a glob; profiles of one run are its
    ranks, all others repeats. `STORE@last:20` as base is the newest 20 runs of a store, and
    `STORE@best:steps.period_ns` up to 20 of those in which a metric was best (`history`), both without
    those of the other side. `reports` are those with keys (None: the most useful). Raises UsageError
    for words that are not known, InputError where a side cannot be read. What a side did not record is
    in the reports.
    """
    return compare_targets(
        base, other, options_of(DiffOptions, {"reports": reports, **options}), say
    )


def compare_targets(
    base: Target, other: Target, options: DiffOptions, say: Say = silent
) -> DiffResult:
    """Compare two sides as `compare` does, with the options as a value."""
    file = None
    if options.limits is not None:
        file = limits_file.read_limits_file(local_path(options.limits), options.in_files())
        options = options.with_those_of(file)
    wanted = list(DEFAULT if options.reports is None else options.reports)
    for name in wanted:
        if name not in COMPARABLE:
            hint = available_hint(name, COMPARABLE)
            raise UsageError(f"no report {name!r} that can be compared", hint=hint)
    limits = _limits(options, file)
    places = dict.fromkeys(file.options if file else (), str(options.limits))
    run_noise = _run_noise(options.run_noise, places.get("run_noise", ""))
    check_word("matching", options.match, names.MATCHES, places.get("match", ""))
    ways = (_FAIL, _PASS)
    check_word("inconclusive", options.inconclusive, ways, places.get("inconclusive", ""))
    in_rows = [name for name in wanted if name in _COMPARABLE]
    options.check_part([*in_rows, *(limit.report for limit in limits)])
    with phase("diff"):
        with ExitStack() as stack:
            sides = open_sides(base, other, stack, say)
            other_makers = vendors_differ(*([p.timeline for p in s.profiles] for s in sides))
            if options.reports is None and other_makers:
                # Kernels of different vendors share hardly any names, so their categories are compared
                # as well.
                wanted.insert(wanted.index("kernels"), "kernel_categories")
            profiles = [profile for side in sides for profile in side.profiles]
            if options.reports is None and not any(map(_has_gpu_work, profiles)):
                wanted = [
                    name for name in _WITHOUT_WORK if all(_answer(name, p) for p in profiles)
                ] or wanted
            if options.reports is None and options.for_page:
                wanted += drawn_reports(profiles)
            named = [TREES.get(name, name) for name in wanted if name in (*_COMPARABLE, *TREES)]
            needed = (*named, *(limit.report for limit in limits), "kernels", "transfers")
            if CONTRIBUTORS in wanted:
                needed += account.CONTRIBUTOR_REPORTS
            needed = tuple(dict.fromkeys(needed))
            # The profiles are read one after the other, because all of them together might not fit in
            # memory.
            answers = {
                profile: _answers(profile, needed, options, with_samples=len(profiles) == 2)
                for profile in profiles
            }
            asked = _asked(sides, answers, options, run_noise)
            if {STEP_PAIRS, STEP_TIMELINES} & set(wanted):
                aligned = aligned_reports(sides[0].runs, sides[1].runs, asked.steps)
                asked = replace(asked, aligned=aligned)
        return _result(comparison.judge(asked), wanted, options, limits)


def _result(
    judged: comparison.Judgement,
    wanted: Sequence[str],
    options: DiffOptions,
    limits: Sequence[gate.Limit],
) -> DiffResult:
    compared = cache(partial(comparison.compare, judged))
    changes = list(_changes(judged, wanted, compared, options))
    verdicts = [comparison.verdict(judged, each, compared(each.report)) for each in limits]
    status = 0
    if verdicts:
        status = gate.exit_status(verdicts, passes_undecided=options.inconclusive == _PASS)
    if judged.asked.unread:
        # Whatever the rest shows, a rank or a run that is lost passes no gate.
        status = InputError.exit_status
    answer = comparison.answer(judged)
    if answer.is_one_recording and options.for_people and not options.for_page:
        changes = []  # in no table is anything
    if verdicts and (changes or status):
        changes.append(tables.section(gate.limits_report(verdicts)))
    states = [verdict.state for verdict in verdicts]
    headline = answer.report(states, gate.gate_word(status) if verdicts else None)
    shown = tuple(map(shown_section, changes))
    return DiffResult(answer.line, shown_section(tables.headline(headline)), shown, status)


def _changes(
    judged: comparison.Judgement,
    wanted: Sequence[str],
    compared: Callable[[str], Comparison],
    options: DiffOptions,
) -> Iterator[Section]:
    is_default = options.limit is None and options.for_people
    row_limit = _LIMIT_FOR_PEOPLE if is_default else options.limit or 0
    change = cache(partial(comparison.change_account, judged))
    for name in wanted:
        if name in DRAWN:
            report = (
                comparison.tree_report(judged, name, change())
                if name in TREES
                else judged.asked.aligned[name]
            )
            if options.for_page:
                # A picture shows all rows and columns, so no row limit applies.
                if name in (options.reports or ()) or not says_nothing(report):
                    yield tables.section(report)
                continue
            section = tables.section(report).limited(row_limit)
        elif name == ACCOUNT:
            # Small parts are joined only in output for people.
            whole = change()
            moved = account.with_minor_parts_joined(whole) if options.for_people else whole
            moved_report = account.account_report(moved, judged.asked.refs, judged.work_notes)
            section = tables.section(moved_report)
        elif name == CONTRIBUTORS:
            section = tables.section(comparison.contributors_report(judged, change(), compared))
        else:
            changes = comparison.changes_report(judged, name, compared(name))
            section = tables.section(changes).limited(row_limit)
        yield section.briefly() if options.for_people else section


def _limits(options: DiffOptions, file: limits_file.LimitsFile | None) -> list[gate.Limit]:
    # Each limit counts once.
    columns = compared_columns()
    listed = [(text, "") for text in options.fail_on] + list(file.limits if file else ())
    by_text: dict[str, gate.Limit] = {}
    for text, where in listed:
        limit = gate.parse_limit(text, columns, where)
        by_text.setdefault(limit.text, limit)
    return list(by_text.values())


def _run_noise(text: str | None, where: str = "") -> float | None:
    # The result is the relative standard deviation: 0.003 for "0.3%".
    if text is None:
        return None
    match = _RUN_NOISE.fullmatch(text)
    if match is None:
        hint = "Write how runs of the same program differ, as a share: 0.3%."
        raise UsageError(f"{text!r} is not the noise of a run", where=where, hint=hint)
    return float(match[1]) / 100


def compared_columns() -> dict[str, Sequence[Column]]:
    """Return the columns of every report with rows that can be compared, by its name."""
    return {name: _columns(name) for name in _COMPARABLE}


@cache
def _columns(name: str) -> Sequence[Column]:
    # A comparison adds up steps, so `steps` has the columns of one row per rank.
    query = queries.query(name)
    if name == "steps":
        return rows.steps_per_rank(Report(name, query.title, query.columns, None)).columns
    return query.columns


def _kind(name: str) -> comparison.ReportKind:
    query = queries.query(name)
    facts = queries.needed_facts(query) | query.uses | query.totals
    return comparison.ReportKind(_columns(name), facts, has_per_step(query))


# -- what the sides answer


def _has_gpu_work(profile: OpenProfile) -> bool:
    has_totals = Fact.KERNEL_TOTALS in profile.profile.facts
    return has_totals or any(profile.profile.row_count(table) for table in _ON_GPU)


def _answer(name: str, profile: OpenProfile) -> bool:
    return not queries.missing_facts(name, profile.timeline)


def _answers(
    profile: OpenProfile, wanted: Sequence[str], options: DiffOptions, *, with_samples: bool
) -> comparison.ProfileAnswers:
    if options.part is not None:
        profile.narrow(options.part)
    timeline, steps = profile.timeline, options.step_rule
    request = Request(steps=steps, range_names=options.range_names, split=options.split)
    reports = profile.answers([(name, request) for name in wanted])
    answers = comparison.ProfileAnswers(
        profile.profile.ref,
        reports=dict(zip(wanted, reports, strict=True)),
        samples=rows.samples_of((*wanted, "steps"), timeline, steps) if with_samples else {},
        accounts=accounts(timeline, steps),
        slice_notes=timeline.slice_notes,
        properties=comparability.properties_of(
            timeline, in_slice(timeline, steps_of(timeline, steps)), lost_in_steps(timeline, steps)
        ),
        sizes=same_work.sizes_of(timeline),
        step_names=resolved(timeline, steps).range,
    )
    profile.forget()
    return answers


def _asked(
    sides: tuple[Side, Side],
    answers: Mapping[OpenProfile, comparison.ProfileAnswers],
    options: DiffOptions,
    run_noise: float | None,
) -> comparison.Asked:
    base, other = (
        comparison.SideAnswers(
            name,
            tuple(tuple(map(answers.__getitem__, run)) for run in side.runs),
            side.unread,
            side.in_order,
        )
        for name, side in zip(("base", "other"), sides, strict=True)
    )
    timelines = [[profile.timeline for profile in side.profiles] for side in sides]
    sources = {each.ref.source for each in answers.values()}
    match = cast(names.Match, options.match or ("exact" if len(sources) == 1 else "signature"))
    symbols = names.symbols_only_notes(*timelines)
    by_symbol: dict[str, str] = {}
    for timeline in (*timelines[0], *timelines[1]) if symbols else ():
        by_symbol |= names.names_by_symbol(timeline)
    asked = next(iter(answers.values())).reports
    identical = same_recordings(*sides)
    return comparison.Asked(
        (base, other),
        kinds={name: _kind(name) for name in asked if name in _COMPARABLE},
        steps=options.step_rule,
        kernel_key=names.kernel_name_key(by_symbol, match),
        other_makers=vendors_differ(*timelines),
        identical=identical,
        run_noise=run_noise,
        window_facts=_WINDOW_FACTS,
        notes=[*symbols, *(() if identical else _on_both(*sides))],
    )


# -- the sides of a comparison


@dataclass(frozen=True)
class Side:
    """A side of a comparison: its runs. A run is a profile, or the profiles of its ranks.

    `unread` are notes on files of a folder that could not be read; `in_order`: the runs are a series.
    """

    runs: tuple[tuple[OpenProfile, ...], ...]
    unread: tuple[Note, ...] = ()
    in_order: bool = False

    @property
    def profiles(self) -> tuple[OpenProfile, ...]:
        """Return all profiles of all runs."""
        return tuple(profile for run in self.runs for profile in run)


def open_sides(base: Target, other: Target, stack: ExitStack, say: Say) -> tuple[Side, Side]:
    """Open both sides, such as STORE@LABEL, a file, a folder or a glob, for as long as the stack is open.

    Profiles of one run of a store or file are its ranks, and so are files of different ranks; all others
    are repeats. As base, STORE@last:N is the newest N runs of a store, and STORE@best:METRIC those of its
    best level, without those of the other side. Raises UsageError or InputError if nothing is there, or a
    file that was named cannot be read.
    """
    is_last = re.search("@(?:last|best):", str(base))
    if is_last and (last := names_last_runs(base)) is not None:
        of_other = list(_files_of(other, say))
        check_existing(place for place, *_ in of_other)
        newest = _opened(other, of_other, stack, say)
        of_last = tuple(open_last_runs(*last, newest.profiles, stack))
        return Side(of_last, in_order=True), newest
    of_base, of_other = list(_files_of(base, say)), list(_files_of(other, say))
    check_existing(place for place, *_ in (*of_base, *of_other))
    return _opened(base, of_base, stack, say), _opened(other, of_other, stack, say)


def _files_of(target: Target, say: Say) -> Iterator[tuple[Location, str | None, Input | None]]:
    # A side names stores and files; each has its `@WORD` or None, and its files if they are several. A
    # folder names all files below it, a glob those that match.
    files = target.paths if isinstance(target, Files) else globbed(target)
    if files is None:
        where, word = split_target(target)
        if word is not None or isinstance(where, Url) or not where.is_dir():
            yield where, word, None
            return
        files = [where]
    if not files:
        raise UsageError("no file matches", where=str(target))
    for item in inputs_to_read(files, str(target), say):
        yield item.path, None, item if len(item.paths) > 1 else None


def _opened(
    target: Target,
    files: Sequence[tuple[Location, str | None, Input | None]],
    stack: ExitStack,
    say: Say,
) -> Side:
    runs: dict[tuple[str, object], list[OpenProfile]] = {}
    in_folder, unread = not isinstance(target, Url) and Path(target).is_dir(), UnreadFiles(say)
    for source, selector, item in files:
        try:
            for profile in open_all(source, selector, stack, say, item=item):
                run = (str(source), profile.profile.attributes["run_id"])
                runs.setdefault(run, []).append(profile)
        except InputError as error:
            if not in_folder:
                raise
            unread.add(error)
    if not runs:
        raise unread.nothing(redacted_target(target))
    unread.end()
    return Side(tuple(_runs_by_rank(list(runs.values()))), tuple(unread.notes()))


def _runs_by_rank(runs: Sequence[Sequence[OpenProfile]]) -> Iterator[tuple[OpenProfile, ...]]:
    # Files of different ranks form one run: the first file of each rank is the first run, the second of
    # each the next.
    ranks = [frozenset(run[0].timeline.ranks.values()) for run in runs]
    if any(len(run) > 1 for run in runs) or not all(ranks) or len(set(ranks)) == 1:
        yield from map(tuple, runs)
        return
    repeats: dict[int, list[OpenProfile]] = {}
    seen: Counter[frozenset[int]] = Counter()
    for rank, (profile,) in zip(ranks, runs, strict=True):
        repeats.setdefault(seen[rank], []).append(profile)
        seen[rank] += 1
    yield from map(tuple, repeats.values())


def same_recordings(base: Side, other: Side) -> bool:
    """Return whether both sides are the same recordings, in the same order: the same bytes were read."""
    pairs = list(zip(base.profiles, other.profiles, strict=False))
    alike = len(base.profiles) == len(other.profiles)
    return alike and all(_is_same(one.profile, another.profile) for one, another in pairs)


def _on_both(base: Side, other: Side) -> list[Note]:
    if base.in_order:
        return []  # the last runs are without those of the other side
    count = len(_identities(base) & _identities(other))
    if count == len(base.profiles) == len(other.profiles) or not base.runs[1:] + other.runs[1:]:
        return []
    # Files that are read in place have a path; they are only hashed for a store, which knows hashes.
    known = {_recording(p, p.profile.attributes["sha256"]) for p in base.profiles}
    is_stored = any(p.profile.attributes["sha256"] for p in base.profiles)
    for placed in (p for p in other.profiles if not p.profile.attributes["identity"]):
        own = _recording(placed, ""), _recording(placed, source_hash(placed) if is_stored else "")
        count += not known.isdisjoint(own)
    text = "recordings that are on both sides make every change look smaller"
    return [Note("on-both-sides", Severity.APPROXIMATED, text, count)] if count else []


def _identities(side: Side) -> set[str]:
    return {p.profile.attributes["identity"] for p in side.profiles} - {""}


def _recording(opened: OpenProfile, sha256: str) -> tuple[str, tuple[int, ...]]:
    pids = tuple(row["pid"] for row in opened.profile.rows("process"))
    return sha256 or opened.profile.ref.path, pids


def _is_same(one: Profile, other: Profile) -> bool:
    # A file that is read in place has no hash, so its bytes are compared. Profiles in one file differ
    # in their processes.
    hashes = {one.attributes["sha256"], other.attributes["sha256"]}
    processes = [[row["pid"] for row in profile.rows("process")] for profile in (one, other)]
    if processes[0] != processes[1]:
        return False
    if "" not in hashes:
        return len(hashes) == 1
    try:
        return filecmp.cmp(one.ref.path, other.ref.path, shallow=False)
    except OSError:
        return False
