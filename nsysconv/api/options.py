"""Options of reports and comparisons: sets of keywords, and the values that they become.

A keyword is documented where its set is. `options_of` makes a value of a set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from nsysconv import queries
from nsysconv.api.targets import Words
from nsysconv.arguments import normalize
from nsysconv.diff.limits_file import LimitsFile
from nsysconv.document import Section
from nsysconv.errors import UsageError, available_hint
from nsysconv.present import tables
from nsysconv.queries.contract import Request
from nsysconv.timeline.idle import IDLE_KINDS
from nsysconv.timeline.range_names import RANGE_NAMES
from nsysconv.timeline.slices import Slice, StepRule

KERNEL_NAMES = ("demangled", "short", "mangled")
BY = ("step",)
"""Kinds of rows that a report on one profile can have."""

SPLITS = ("device", "rank")

# If `by` is one of these and `split` is not given, the rows are split by the value.
_SPLIT_OF = {"device": "device", "rank": "rank", "host": "rank"}

_OF_SLICE = frozenset(each.name for each in fields(Slice))


class SliceKeywords(TypedDict, total=False):
    """Keywords for a slice, in place of `slice`: what `Slice` takes, such as `step=3` and `devices=0`."""

    time: object
    range: str | None
    step: str | int | None
    skip_first: int
    phase: str | None
    steady: bool
    projected: bool
    devices: int | Sequence[int]
    streams: int | Sequence[int]
    ranks: int | Sequence[int]
    processes: int | Sequence[int]
    threads: int | Sequence[int]
    name: str | re.Pattern[str] | None


class PartKeywords(SliceKeywords, total=False):
    """Keywords for the part of the profiles to look at, and for how many rows are kept.

    `slice` says what of the profiles to look at (None: all of it). `step_range` names the ranges that are
    steps, `*` standing for anything (None: those of a framework, or of a word with a number that rises);
    `step_kernel` is a regular expression: a step ends where a kernel of such a name ends; with
    `step_graph` it ends where the replay of a graph ends. `grammar` is a file of rules on annotations, by
    which phases are known. `range_names` "grouped" takes ranges and
    operators for one whose names differ only in which of many they are (ProfilerStep#7, op_id = 12),
    "exact" does not. `split` gives reports that have their rows over devices otherwise a row for each
    "device" or "rank". `for_people` leaves out what few look at. `limit` cuts each report's rows (0: none
    cut; None: 20 for people, else 1000 gaps and all of the rest).
    """

    slice: Slice | None
    step_range: str | None
    step_kernel: str | None
    step_graph: bool
    grammar: str | None
    range_names: str
    split: str | None
    for_people: bool
    limit: int | None


class ProfileKeywords(PartKeywords, total=False):
    """Keywords of reports on an opened profile.

    `idle` is one or more kinds of idle time (no_op, no_kernel, stream); `kernel_names` says how kernels
    are called (demangled, short, mangled); `by` "step" gives gpu_utilization a row per step; `ignore`
    names rules that `findings` leaves out.
    """

    idle: Words
    kernel_names: str
    by: str | None
    ignore: Words


class ReportKeywords(ProfileKeywords, total=False):
    """Keywords of reports on whatever holds profiles.

    `by` may be "rank" here, which keeps all rows of a run below each other, and "host" or "device"
    (physical GPU), which give three rows for each of these. `include` is as for `open`. Profiles are
    looked at by `workers` processes at a time (None: automatic), or by the workers of a Dask cluster
    (`dask`: its scheduler's address or file, or "local"); what is answered depends on neither.
    """

    include: Words
    workers: int | None
    dask: str | None


class DiffKeywords(PartKeywords, total=False):
    """Keywords of a comparison; a `limit` of None cuts no report but for people.

    `match` says how kernels' names are matched: exact, signature or name (None: exact between profiles
    of one source, else signature). `fail_on` are limits, `report.column:3%` or
    `report[/regex/].column:2ms`; `limits` names a TOML file of such, and of options that are one text.
    `run_noise` is the standard deviation of a run, such as `0.3%`, for those who know it (None: 1 % or
    3 % are assumed where a side is one run, 10 % of the host's times, and nothing of waits).
    `inconclusive` says what a limit of which nothing can be said makes of the exit status: `fail` (the
    default) or `pass`. `for_page` adds what a page draws, if no report is named: trees, and steps of both
    sides on one axis.
    """

    match: str | None
    fail_on: Words
    limits: str | Path | None
    run_noise: str | None
    inconclusive: str | None
    for_page: bool


@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """The value of PartKeywords, and of what has them, too."""

    slice: Slice | None = None
    step_range: str | None = None
    step_kernel: str | None = None
    step_graph: bool = False
    grammar: str | None = None
    range_names: str = "grouped"
    split: str | None = None
    for_people: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        """Normalize the fields; words become a tuple, since an iterator gives them once."""
        normalize(self, {"Slice": _slice})

    @property
    def part(self) -> Slice | None:
        """Return the slice, with what makes steps in it; None for the whole profile."""
        return None if self.slice is None else self.slice.with_steps(self.step_rule)

    @property
    def step_rule(self) -> StepRule:
        """Return what makes steps, as the options or else their slice say."""
        rule = StepRule(self.step_range, self.step_kernel, self.step_graph, self.grammar)
        of_slice = self.slice.step_rule if self.slice else rule
        if rule:
            return rule if self.grammar else replace(rule, grammar=of_slice.grammar)
        return replace(of_slice, grammar=self.grammar or of_slice.grammar)

    @property
    def form(self) -> Callable[[Section], Section]:
        """Return what makes the form asked for of a section."""
        return tables.for_people if self.for_people else lambda section: section

    def check_part(self, names: Sequence[str]) -> None:
        """Raise UsageError for unknown words, and a split that changes none of these reports."""
        check_limit(self.limit)
        check_word("range names", self.range_names, RANGE_NAMES)
        check_word("split", self.split, SPLITS)
        if self.split is not None:
            _check_any(names, "split", "over devices")


@dataclass(frozen=True, kw_only=True)
class ProfileOptions(PartOptions):
    """The value of ProfileKeywords."""

    idle: Words = ("no_op",)
    kernel_names: str = "demangled"
    by: str | None = None
    ignore: Words = ()

    def checked(self, names: Sequence[str], by: Sequence[str] = BY) -> tuple[str, ...]:
        """Return reports as they are asked for: `findings` without the rules of `ignore`.

        Raises UsageError for words that are not known, rather than let them change nothing, and for what
        none of these reports has.
        """
        check_word("rows by", self.by, by)
        names = self._without_ignored(names)
        if self.by in BY:
            _check_any(names, "by-step", "by step")
            have = queries.reports_that_are("by-step")
            names = [f"{name}:by={self.by}" if name in have else name for name in names]
        self.check_part(names)
        for name in names:
            queries.parse_spec(name)
        for kind in self.idle:
            check_word("kind of idle time", kind, IDLE_KINDS)
        check_word("kernel names", self.kernel_names, KERNEL_NAMES)
        return tuple(names)

    def _without_ignored(self, names: Sequence[str]) -> Sequence[str]:
        if not self.ignore:
            return names
        rules = ",".join(self.ignore)
        of_findings = [queries.parse_spec(name).name == "findings" for name in names]
        if not any(of_findings):
            raise UsageError(f"ignore {rules}: of what?", hint="It goes with the report findings.")
        pairs = zip(names, of_findings, strict=True)
        return [f"{name}:ignore={rules}" if is_it else name for name, is_it in pairs]

    def row_limit(self, spec: str) -> int:
        """Return how many rows a report has at most (0: all)."""
        default = queries.default_limit(spec, for_people=self.for_people)
        return default if self.limit is None else self.limit

    def request(self, limit: int) -> Request:
        """Return a request for at most `limit` rows (0: all)."""
        return Request(
            limit,
            tuple(self.idle),
            self.kernel_names,
            self.step_rule,
            self.range_names,
            self.split or _SPLIT_OF.get(self.by or ""),
        )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(ProfileOptions):
    """The value of ReportKeywords, and the reports that are asked for; None: those by default."""

    names: Words | None = None
    include: Words = ()
    workers: int | None = None
    dask: str | None = None


@dataclass(frozen=True, kw_only=True)
class DiffOptions(PartOptions):
    """The value of DiffKeywords, and the reports to be compared; None: the most useful."""

    reports: Words | None = None
    match: str | None = None
    fail_on: Words = ()
    limits: str | Path | None = None
    run_noise: str | None = None
    inconclusive: str | None = None
    for_page: bool = False

    @classmethod
    def in_files(cls) -> dict[str, type]:
        """Return the options that a file of limits may have, with the type of each."""
        texts = {each.name: str for each in fields(cls) if each.type in ("str", "str | None")}
        return {**texts, "step_graph": bool}

    def with_those_of(self, file: LimitsFile) -> DiffOptions:
        """Return the options with those of a file of limits for what is as it is by default."""
        defaults = {each.name: each.default for each in fields(self)}
        mine = {
            name: value
            for name, value in file.options.items()
            if getattr(self, name) == defaults[name]
        }
        return replace(self, **mine)  # type: ignore[arg-type]


Options = TypeVar("Options", bound=PartOptions)


def options_of(kind: type[Options], keywords: Mapping[str, Any]) -> Options:
    """Return the options that keywords give; what belongs to a slice makes one.

    Raises UsageError for unknown keywords, and for a slice beside what belongs to one.
    """
    known = {each.name for each in fields(kind)}
    of_slice = {name: value for name, value in keywords.items() if name in _OF_SLICE - known}
    others = {name: value for name, value in keywords.items() if name not in of_slice}
    for name in others.keys() - known:
        hint = available_hint(name, sorted(known | _OF_SLICE))
        raise UsageError(f"no keyword {name!r}", hint=hint)
    if of_slice:
        if others.get("slice") is not None:
            which = ", ".join(of_slice)
            raise UsageError(f"a slice, and {which} beside it", hint=f"slice=Slice({which}=…)")
        others["slice"] = Slice(**of_slice)
    return kind(**others)


def _slice(name: str, value: object) -> Slice:
    if not isinstance(value, Slice):
        hint = "For example: slice=nsysconv.Slice(time='1s:2s'), or time='1s:2s'"
        raise UsageError(f"{name}={value!r} is no Slice", hint=hint)
    return value


def _check_any(names: Sequence[str], trait: str, rows: str) -> None:
    have = queries.reports_that_are(trait)
    if not {queries.parse_spec(name).name for name in names} & set(have):
        hint = f"Reports that have: {', '.join(have)}"
        raise UsageError(f"none of these reports has rows {rows}", hint=hint)


def check_word(what: str, word: str | None, words: Sequence[str], where: str = "") -> None:
    """Raise UsageError for a word, read from `where`, that is not among these; None is no word."""
    if word is not None and word not in words:
        raise UsageError(f"no {what} {word!r}", where=where, hint=f"There are: {', '.join(words)}")


def check_limit(limit: int | None) -> None:
    """Raise UsageError for a negative number of rows."""
    if limit is not None and limit < 0:
        raise UsageError(f"limit {limit} is negative", hint="0 stands for all rows.")
