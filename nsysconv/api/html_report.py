"""The reports that tell the whole story of a profile, or of several beside each other, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from nsysconv import queries
from nsysconv.api.open_profile import (
    OpenProfile,
    ShownReport,
    check_by,
    open_all,
    request_of,
    shown_report,
)
from nsysconv.api.profile_info import about
from nsysconv.api.targets import Say, Target, Words, several, silent
from nsysconv.notes import Note, Severity
from nsysconv.queries import rules
from nsysconv.queries.contract import Request
from nsysconv.report import Report, concatenated
from nsysconv.store.location import split_target
from nsysconv.timeline.slices import Slice
from nsysconv.timeline.steps import STEP_RANGE, steps

_BINS = 240
_OVER_TIME = f"utilization_over_time:bins={_BINS}"

BESIDE = (
    "overview",
    _OVER_TIME,
    "kernels",
    "kernel_categories",
    "api_vs_kernel",
    "transfers",
    "transfer_sizes",
    "idle_summary",
    "idle_host",
    "steps",
    "comm_overlap",
    "processes",
    *rules.REPORTS,
)
"""The reports on several profiles where none is named."""

PAGE = (
    *BESIDE[:2],
    "timeline_events",
    *(name for name in BESIDE[2:] if name not in rules.REPORTS),
    "idle_gaps",
    "ranges",
    "gpu_utilization",
    "launch_stats",
    "queue_length",
    *rules.REPORTS,
)
"""The reports on one profile where none is named."""

SLOW = (
    "kernel_categories",
    "ranges",
    "comm_overlap",
    "gpu_utilization",
    "launch_stats",
    "queue_length",
)
"""Those that take longest; where none is named they are left out of the page of a long recording."""

LONG = 2_000_000
"""A recording of more kernels and API calls is long."""

MOST_EVENTS = 50_000
"""A time line of more events is not drawn: nobody sees more on a screen, and the page stays small."""

_ROWS = 1000
_FEWEST_ROWS = 20
_MOST_BINS = 100_000
"""Of all devices; more take gigabytes, for a picture in which nobody can tell them apart."""
_FEWEST_BINS = 10


def page(
    target: Target,
    names: Words | None = None,
    *,
    limit: int | None = None,
    slice: Slice | None = None,  # noqa: A002 - what it is
    idle: Words = ("no_op",),
    kernel_names: str = "demangled",
    by: str | None = None,
    step_range: str | None = None,
    include: Words = (),
    say: Say = silent,
) -> list[ShownReport]:
    """The reports for a page: those named, else what tells the whole story, with what was recorded.

    `target` is as for `open`, but a store of several profiles gives the rows of all of them, each with
    its profile's label. `limit` cuts the rows of each report (0: none cut; None: 1000, of several
    profiles together); the time line has 50,000 events at most. A report that is not recorded says so in
    place of rows. The rest is as in `OpenProfile.report`, with what it raises.
    """
    place, selector = split_target(target)
    names, idle = several(names or ()), several(idle)
    with ExitStack() as stack:
        profiles = open_all(place, selector, stack, say, include=several(include))
        slow = () if names else _slow(profiles, step_range)
        wanted = names or tuple(name for name in _all(profiles) if name not in slow)
        rows = max(_ROWS // len(profiles), _FEWEST_ROWS) if limit is None else limit
        check_by(by, wanted)
        # Where the time went is told of gaps without any operation.
        kinds = idle if names else tuple(dict.fromkeys(("no_op", *idle)))

        step_range = step_range or (slice.step_range if slice else None)

        def asked(spec: str) -> tuple[str, Request]:
            name = queries.parse_spec(spec).name
            most = MOST_EVENTS if name == "timeline_events" else rows
            by_step = by if name in queries.BY_STEP else None
            return spec, request_of(most, kinds, kernel_names, by_step, step_range)

        request = request_of(rows, kinds, kernel_names, None, step_range)
        over_ranks = {
            spec: queries.CombinedReport(spec, request)
            for spec in wanted
            if len(profiles) > 1 and queries.parse_spec(spec).name in queries.OVER_RANKS
        }
        found: dict[str, list[Report]] = {spec: [] for spec in wanted}
        each = [spec for spec in wanted if spec not in over_ranks]
        for profile in profiles:
            if slice is not None:
                profile.narrow(replace(slice, step_range=slice.step_range or step_range))
            queries.prefetch(wanted, profile.timeline)
            for spec, gathering in over_ranks.items():
                gathering.add(queries.partial_report(spec, profile.timeline, request))
            # Who names a report gets it as it was named.
            fitting = each if names else _fitting(each, len(profiles), profile)
            answers = profile.answers([asked(spec) for spec in fitting])
            for spec, report in zip(each, answers, strict=True):
                found[spec].append(report)
            profile.forget()
        reports = [
            over_ranks[spec].report() if spec in over_ranks else concatenated(found[spec])
            for spec in wanted
        ]
        if slow:
            left_out = f"left out of the page of a long recording unless named: {', '.join(slow)}"
            say(left_out)
            # Who gets the page sees nothing else.
            note = Note("reports-left-out", Severity.INFO, left_out)
            reports[0] = replace(reports[0], notes=(*reports[0].notes, note))
        if names or len(profiles) > 1:
            return [shown_report(report) for report in reports]
        return [*about(profiles[0]), *map(shown_report, reports)]


def _all(profiles: Sequence[OpenProfile]) -> tuple[str, ...]:
    """The reports where none is named."""
    return PAGE if len(profiles) == 1 else BESIDE


def _fitting(specs: Sequence[str], count: int, profile: OpenProfile) -> list[str]:
    """A profile's reports, as one of so many: over time in fewer bins where devices are hundreds."""
    devices = count * len(profile.timeline.devices)
    bins = min(max(_MOST_BINS // max(devices, 1), _FEWEST_BINS), _BINS)
    return [f"utilization_over_time:bins={bins}" if s == _OVER_TIME else s for s in specs]


def _slow(profiles: Sequence[OpenProfile], step_range: str | None) -> tuple[str, ...]:
    """Those of them that a page of a long recording is without: the slow ones, and steps where none is
    annotated, for they would be all of each process.
    """
    if sum(p.profile.row_count(t) for p in profiles for t in ("kernel", "api_call")) <= LONG:
        return ()
    annotated = any(steps(p.timeline, step_range or STEP_RANGE) for p in profiles)
    return tuple(
        name for name in _all(profiles) if name in SLOW or (name == "steps" and not annotated)
    )
