"""The reports of an HTML page: all that matters of a profile, or of several side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

from nsysconv import queries
from nsysconv.api import inputs, open_profile
from nsysconv.api.importing import import_targets
from nsysconv.api.open_profile import OpenProfile, shown_beside, shown_report
from nsysconv.api.options import ReportKeywords, ReportOptions, options_of
from nsysconv.api.profile_file import ImportOptions
from nsysconv.api.profile_info import info_reports
from nsysconv.api.shown_report import ShownReport
from nsysconv.api.targets import Files, Joined, Say, Target, Words, silent, with_joined
from nsysconv.api.time_line_parts import time_line_parts
from nsysconv.errors import InputError, UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.present import tables
from nsysconv.present.answer import event_of
from nsysconv.queries.contract import Request
from nsysconv.queries.event_lanes import event_time
from nsysconv.queries.timeline_tiles import FACTOR
from nsysconv.report import Report
from nsysconv.store.location import globbed, split_target
from nsysconv.timeline.events import EVENT_KINDS
from nsysconv.timeline.kernel_categories import communicates
from nsysconv.timeline.operator_calls import may_have_operators
from nsysconv.timeline.slices import StepRule
from nsysconv.timeline.steps import steps

TIME_LINE = queries.ENTRIES["timeline_tiles"].page[0]
_OVER_TIME = queries.ENTRIES["utilization_over_time"].beside[0]
_BINS = queries.parse_spec(_OVER_TIME).options["bins"]
_METRICS = queries.ENTRIES["metrics_over_time"].page[0]
_HELD_BY_OPERATORS = "memory:by=operator"

PAGE = tuple(spec for entry in queries.ENTRIES.values() for spec in entry.page)
"""The reports on one profile where none is named, as far as what they need is there."""

BESIDE = tuple(spec for entry in queries.ENTRIES.values() for spec in entry.beside)
"""The same on several profiles."""

LONG = 2_000_000
"""A recording of more kernels and API calls is long."""

MOST_EVENTS = 50_000
"""Single events on a page at most, or about so many of its parts: it stays small."""

MOST_TILES = 150_000
MOST_GAPS = 2000
"""The longest gaps are drawn singly, wherever they are."""
MOST_SAMPLED = 60_000
"""Bins of all sampled metrics together."""
MOST_LENGTHS = 10_000
"""Rows of `event_durations`: a few of each name."""

MOST_BOXES = 50_000
"""Flame graphs are drawn of at most so many rows, for the same reason."""

TABLE_ROWS = 1000
FEWEST_TABLE_ROWS = 20
_MOST_BINS = 100_000
"""Limit over all devices; more take gigabytes, for a picture in which nobody can distinguish them."""
_FEWEST_BINS = 10


def page(
    target: Target,
    names: Words | None = None,
    *,
    join: Words = (),
    say: Say = silent,
    **options: Unpack[ReportKeywords],
) -> list[ShownReport]:
    """Return the reports for a page: those named, else what gives the whole picture of a recording.

    `target` and `join` are as for `open`, but a store of several profiles gives the rows of all of them,
    each with its profile's label; so does a folder, which is imported into a temporary store first. Rows
    are those for people; a `limit` of None is 1000, of several profiles together; the time line has
    50,000 events at most. A report that is not recorded says so in place of rows. Raises as
    `OpenProfile.report`, and UsageError for `workers` and `dask`, which make no page.
    """
    target = with_joined(target, join)
    return page_of(target, options_of(ReportOptions, {"names": names, **options}), say)


def page_of(target: Target, options: ReportOptions, say: Say = silent) -> list[ShownReport]:
    """Return the reports for a page as `page` does, with the options as a value."""
    if options.workers is not None or options.dask is not None:
        raise UsageError("a page is made by this process alone", hint="Omit --jobs and --dask.")
    with ExitStack() as stack:
        unread = inputs.UnreadFiles(say)
        folder = _store_of_folder(target, options, stack, unread)
        include = () if folder else tuple(options.include)
        place, selector = split_target(folder or target)
        profiles = open_profile.open_all(
            place, selector, stack, say, include=include, item=inputs.joined_input(target)
        )
        if len(profiles) == 1:
            # The tables of all reports are prefetched together; otherwise the choice of default reports
            # would read some of them first.
            queries.prefetch(tuple(options.names or PAGE), profiles[0].timeline)
        default = _default_reports(profiles)
        left_out = () if options.names else _slow_reports(default, profiles, options.step_rule)
        wanted = options.names or tuple(name for name in default if name not in left_out)
        names = options.checked(tuple(wanted))
        rows = TABLE_ROWS if options.limit is None else options.limit
        reports = _reports(profiles, names, options, rows)
        notes = unread.notes()
        if left_out:
            text = f"long recording; reports left out unless named: {', '.join(left_out)}"
            say(text)
            # The message on stderr is not part of the page, so the page has a note.
            notes.append(Note("reports-left-out", Severity.INFO, text))
        if notes:
            reports[0] = replace(reports[0], notes=(*reports[0].notes, *notes))
        if not options.names:
            reports = [report for report in reports if _has_what_it_is_about(report)]
        if options.names or len(profiles) > 1:
            return reports
        return [*info_reports(profiles[0]), *reports]


def _has_what_it_is_about(report: ShownReport) -> bool:
    # Rows in brackets are of all else: outside any phase or graph.
    if "if-any" not in _entry(report.name).traits:
        return True
    keys = [column.name for column in report.columns if column.key]
    return any(not str(row[keys[-1]]).startswith("[") for row in report.rows())


def _store_of_folder(
    target: Target, options: ReportOptions, stack: ExitStack, unread: inputs.UnreadFiles
) -> Path | None:
    # A page has its reports side by side, and looks twice at each profile: those of a folder or of a glob
    # are imported, for as long as the stack is open. None: the target is a store or one recording.
    if isinstance(target, Joined):
        return None
    named = target.paths if isinstance(target, Files) else globbed(target)
    where = split_target(target)[0]
    paths = [*(named or ())]
    if not paths and isinstance(where, Path) and where.is_dir():
        paths = [where]
    if not paths or inputs.only_recording(paths) is not None:
        return None
    say = unread.say
    store = Path(stack.enter_context(TemporaryDirectory(prefix="nsysconv-"))) / "run.db"
    result = import_targets(
        paths, store, ImportOptions(include=frozenset(options.include), say=say)
    )
    for file in result.files:
        if isinstance(file.error, InputError):
            unread.add(file.error)
    for line in inputs.passed_lines(result.passed):
        unread.say_at_end(f"skipped: {line}")
    for line in inputs.missing_rank_lines(result.lost, alone=False):
        say(line)
    if not any(file.imported for file in result.files):
        raise unread.nothing(str(target))
    unread.end()
    return store


def _default_reports(profiles: Sequence[OpenProfile]) -> tuple[str, ...]:
    there = {need for need, is_there in NEEDED.items() if any(map(is_there, profiles))}
    names = PAGE if len(profiles) == 1 else BESIDE
    wanted = [n for n in names if _entry(n).page_needs in ("", *there)]
    return tuple(n for n in wanted if n != _HELD_BY_OPERATORS or "operators" in there)


def _entry(spec: str) -> queries.Entry:
    return queries.ENTRIES[queries.parse_spec(spec).name]


def _communicates(opened: OpenProfile) -> bool:
    return Fact.KERNELS in opened.profile.facts and bool(communicates(opened.timeline).any())


def _has_operators(opened: OpenProfile) -> bool:
    # If operators were recorded and none ran, a report on operators would only have work that no
    # operator launched.
    profile = opened.profile
    none_ran = Fact.OPERATORS in profile.facts and not profile.row_count("operator")
    return may_have_operators(opened.timeline) and not none_ran


# reports.toml names these needs of reports.
NEEDED: Mapping[str, Callable[[OpenProfile], bool]] = {
    "metrics": lambda opened: opened.profile.row_count("metric_sample") > 0,
    "lines": lambda opened: Fact.CPU_LINES in opened.profile.facts,
    "memory": lambda opened: opened.profile.row_count("memory_event") > 0,
    "memory_blocks": lambda opened: Fact.MEMORY_BLOCKS in opened.profile.facts,
    "operators": _has_operators,
    "ranks": lambda opened: bool(opened.timeline.ranks),
    "communication": _communicates,
}


def _reports(
    profiles: Sequence[OpenProfile], names: Sequence[str], options: ReportOptions, limit: int
) -> list[ShownReport]:
    rows = (
        max(TABLE_ROWS // len(profiles), FEWEST_TABLE_ROWS)
        if options.limit is None
        else options.limit
    )

    boxes = max(rows, MOST_BOXES // len(profiles))

    def request(spec: str) -> tuple[str, Request]:
        name = queries.parse_spec(spec).name
        is_tree = "tree" in queries.ENTRIES[name].traits
        most = _MOST_ROWS.get(name, boxes if rows and is_tree else rows)
        return spec, options.request(most)

    combined_request = options.request(rows)
    combined = {
        spec: queries.CombinedReport(spec, combined_request)
        for spec in names
        if len(profiles) > 1 and queries.parse_spec(spec).name in queries.OVER_RANKS
    }
    single = [spec for spec in names if spec not in combined]
    beside: dict[str, list[Report]] = {spec: [] for spec in single}
    for profile in profiles:
        if options.part is not None:
            profile.narrow(options.part)
        queries.prefetch(names, profile.timeline)
        for spec, merged in combined.items():
            merged.add(queries.partial_report(spec, profile.timeline, combined_request))
        # A report that the user names keeps its options; only default reports get fewer bins.
        specs = single if options.names else _with_fewer_bins(single, profiles, profile)
        if options.names or _EVENTS not in specs:
            computed = profile.answers([request(spec) for spec in specs])
        else:
            computed = _with_time_line(profile, specs, request)
        for spec, report in zip(single, computed, strict=True):
            beside[spec].append(report)
        profile.forget()
    return [
        shown_report(combined[spec].report(), rows)
        if spec in combined
        else shown_beside(
            beside[spec],
            _MOST_ROWS.get(queries.parse_spec(spec).name, rows),
            limit,
            form=tables.for_people,
        )
        for spec in names
    ]


_EVENTS = "timeline_events"
_ACCOUNT, _ACCOUNT_TILES = "timeline_account", "account_tiles"
_MOST_POWER = 7
_MOST_ROWS = {
    _ACCOUNT: MOST_TILES,
    _ACCOUNT_TILES: MOST_TILES,
    _EVENTS: MOST_EVENTS,
    "timeline_tiles": MOST_TILES,
    "event_durations": MOST_LENGTHS,
    "metrics_over_time": MOST_SAMPLED,
}


def _with_time_line(
    profile: OpenProfile, specs: Sequence[str], request: Callable[[str], tuple[str, Request]]
) -> list[Report]:
    # The other reports decide which parts of the time line show single events, so they are computed
    # first.
    in_parts = [_EVENTS, *(s for s in specs if s.partition(":")[0] in (_ACCOUNT, _ACCOUNT_TILES))]
    others = [spec for spec in specs if spec not in in_parts]
    found = dict(zip(others, profile.answers([request(spec) for spec in others]), strict=True))
    by_name = {spec.partition(":")[0]: found[spec] for spec in reversed(found)}
    events = filter(None, map(event_of, shown_report(by_name["findings"]).rows()))
    times = [time for event in events if (time := event_time(profile.timeline, event)) is not None]
    parts = time_line_parts(by_name, times, MOST_EVENTS)
    which = ",".join(f"{low}:{high}" for low, high in parts or ())
    wanted = {spec: spec for spec in in_parts}
    if which:
        # All devices together have no more of the narrowest tiles than a single device may have.
        power = _power(profile)
        while power > 3 and FACTOR**power * len(profile.timeline.devices) > FACTOR**_MOST_POWER:
            power -= 1
        of_parts = {
            _EVENTS: f"{_EVENTS}:parts={which}",
            _ACCOUNT: f"{_ACCOUNT}:parts={which}:gaps={MOST_GAPS}",
            _ACCOUNT_TILES: f"{_ACCOUNT_TILES}:bins={FACTOR**power}:levels={power - 1}",
        }
        wanted = {spec: of_parts[spec.partition(":")[0]] for spec in in_parts}
    made = profile.answers([request(spec) for spec in wanted.values()])
    found |= dict(zip(in_parts, made, strict=True))
    return [found[spec] for spec in specs]


def _with_fewer_bins(
    specs: Sequence[str], profiles: Sequence[OpenProfile], profile: OpenProfile
) -> list[str]:
    # If there are hundreds of devices, each is drawn over time with fewer bins.
    devices = len(profiles) * len(profile.timeline.devices)
    bins = min(max(_MOST_BINS // max(devices, 1), _FEWEST_BINS), _BINS)
    fewer = {_OVER_TIME: f"utilization_over_time:bins={bins}", TIME_LINE: _tiles(profile)}
    if _METRICS in specs:
        fewer[_METRICS] = _sampled(profile)
    return [fewer.get(spec, spec) for spec in specs]


def _tiles(profile: OpenProfile) -> str:
    # There are as many of the narrowest tiles as events, rounded up to a power of FACTOR between 64 and
    # 16,384.
    power = _power(profile)
    return f"timeline_tiles:bins={FACTOR**power}:levels={power - 1}"


def _sampled(profile: OpenProfile) -> str:
    # No more bins than there are samples of a metric, or most would be empty.
    table, asked = "metric_sample", queries.parse_spec(_METRICS).options
    series = profile.profile.distinct(table, ("device_id", "name_id"))
    count = math.prod(max(len(ids), 1) for ids in series.values())
    samples = profile.profile.row_count(table) // count
    bins = max(min(asked["bins"], MOST_SAMPLED // count, samples), _FEWEST_BINS)
    return f"metrics_over_time:bins={bins}:window={asked['window']}"


def _power(profile: OpenProfile) -> int:
    tables = set(EVENT_KINDS.values())
    count = sum(profile.profile.row_count(table) for table in tables)
    powers = range(3, _MOST_POWER + 1)
    return next((power for power in powers if FACTOR**power >= count), _MOST_POWER)


def _slow_reports(
    names: Sequence[str], profiles: Sequence[OpenProfile], step_rule: StepRule
) -> tuple[str, ...]:
    # The page of a long recording omits slow reports. It omits steps, too, if none is annotated,
    # because each process would then be one step.
    if sum(p.profile.row_count(t) for p in profiles for t in ("kernel", "api_call")) <= LONG:
        return ()
    annotated = any(steps(p.timeline, step_rule) for p in profiles)
    return tuple(
        name
        for name in names
        if "slow" in _entry(name).traits or (name == "steps" and not annotated)
    )
