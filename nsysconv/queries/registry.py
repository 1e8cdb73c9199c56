"""The registry of reports: by name, with aliases and the options that a user gives."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any

from nsysconv.errors import UsageError
from nsysconv.queries import rules, stats
from nsysconv.queries.contract import Option, Query, View

CORE = (
    "overview",
    "processes",
    "api_vs_kernel",
    "kernels",
    "transfers",
    "transfer_sizes",
    "idle_summary",
    "idle_host",
    "idle_gaps",
)
"""The usual tables, which answer for every source."""

ANSWER = ("summary", "findings")
"""The reports of the answer: where the time went, and what holds a run back."""

DEFAULT = (*ANSWER, *CORE)
"""The reports made where none is named."""

OVER_RANKS = (
    "summary",
    "findings",
    "rank_summary",
    "stragglers",
    "collective_arrivals",
    "collectives",
    "gpu_time_util_map",
)
"""The reports on all profiles of a run together."""

OWN = (
    *CORE,
    "gpu_utilization",
    "utilization_over_time",
    "timeline_events",
    "timeline_tiles",
    "event_durations",
    "steps",
    "ranges",
    "operators",
    "operator_kernels",
    "modules",
    "memory",
    "comm_overlap",
    "kernel_categories",
    "kernel_sequences",
    "launch_stats",
    "queue_length",
    "metrics",
    *OVER_RANKS,
)
"""Reports of this folder, each in the module of its name, or in one of _SHARED_MODULES. A new report is
one more word here."""

REPORTS = (*OWN, *rules.REPORTS, *stats.REPORTS)
"""All reports by name."""

GROUPS = {
    "core": CORE,
    "all": tuple(name for name in OWN if name not in ("timeline_events", "timeline_tiles")),
}
"""Words for several reports. Those that list the time line are asked for by name."""

BY_STEP = ("gpu_utilization",)
"""Reports that can give a row per step."""

SPLIT = (
    "api_vs_kernel",
    "kernels",
    "transfers",
    "transfer_sizes",
    "idle_summary",
    "idle_host",
    "kernel_categories",
    "launch_stats",
)
"""Reports with rows over devices, which can be split by device or rank."""

IN_TIME = (
    "idle_gaps",
    "utilization_over_time",
    "timeline_events",
    "timeline_tiles",
    "event_durations",
    "collective_arrivals",
    "gpu_time_util_map",
    *rules.REPORTS,
    *(name for name in stats.REPORTS if name.endswith("_trace")),
)
"""Reports that list what happened when: rows of many ranks are not combined to one."""

ROWS_FOR_PEOPLE = 20
"""Rows of a table in text by default."""

_DEFAULT_LIMITS = {"idle_gaps": 1000}

_SHARED_MODULES = {
    "findings": "findings.report",
    "transfer_sizes": "transfers",
    "idle_summary": "idle_gaps",
    "idle_host": "idle_gaps",
    "collective_arrivals": "stragglers",
    "gpu_time_util_map": "utilization_over_time",
}
_MODULES = {
    **{name: f"nsysconv.queries.{_SHARED_MODULES.get(name, name)}" for name in OWN},
    **{name: f"nsysconv.queries.rules.{module}" for name, module in rules.MODULES.items()},
    **{name: f"nsysconv.queries.stats.{module}" for name, module in stats.MODULES.items()},
}


def query(name: str) -> Query:
    """Return the report of that name. Raises UsageError with the names that are close to it."""
    if "=" in name:
        hint = f"Options follow their report, after a colon: operators:by=shapes, memory:{name}."
        raise UsageError(f"no report {name!r}", hint=hint)
    if name not in _MODULES:
        close = get_close_matches(name, [*REPORTS, *stats.ALIASES], 5, 0.6)
        hint = f"Close to it: {', '.join(close)}. " if close else ""
        raise UsageError(
            f"no report {name!r}", hint=f"{hint}`nsysconv report --list` names them all."
        )
    # The one place where modules are imported by a name in a string: a command loads only the reports
    # that it shows. A module declares its report under the report's name in upper case.
    declared: Query = getattr(importlib.import_module(_MODULES[name]), name.upper())
    return declared


def expanded(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of reports with each group replaced by its members, each name once."""
    return tuple(dict.fromkeys(each for name in names for each in GROUPS.get(name, (name,))))


@dataclass(frozen=True)
class ReportSpec:
    """A report as a user asked for it: its name, the value of each of its options, and the text."""

    name: str
    options: Mapping[str, Any]
    text: str


def parse_spec(text: str) -> ReportSpec:
    """Return what `REPORT[:OPTION[=VALUE]]...` asks for; older names of a report are understood.

    Raises UsageError for a report or an option that there is not, or a value of another type.
    """
    alias, *pieces = text.split(":")
    name = stats.ALIASES.get(alias, alias)
    options = {option.name: option for option in query(name).options}
    texts: dict[str, str | None] = {}
    for piece in pieces:
        key, sign, value = piece.partition("=")
        if key in texts:
            raise UsageError(f"option {key} of {name} is given twice", hint=_options_hint(name))
        if key in options:
            texts[key] = value if sign else None
            last = key
        elif texts and texts[last] is not None:
            texts[last] = f"{texts[last]}:{piece}"  # a value may hold a colon, as paths may
        else:
            raise UsageError(f"{name} has no option {key!r}", hint=_options_hint(name))
    values = {key: _option_value(name, options[key], value) for key, value in texts.items()}
    defaults = {option.name: option.default for option in options.values()}
    return ReportSpec(name, {**defaults, **values}, ":".join((name, *pieces)))


def view(spec: ReportSpec) -> View:
    """Return what a report shows with its options."""
    declared = query(spec.name)
    own = View(declared.title, declared.columns, declared.picture)
    on = (name for name, value in spec.options.items() if value is True and name in declared.views)
    return declared.views.get(next(on, spec.options.get("by", "")), own)


def _option_value(name: str, option: Option, text: str | None) -> Any:
    if isinstance(option.default, bool):
        if text is None:
            return True
        raise UsageError(f"option {option.name} of {name} has no value", hint=_options_hint(name))
    if text is None or text == "":
        raise UsageError(f"option {option.name} of {name} needs a value", hint=_options_hint(name))
    kind = str if option.default is None else type(option.default)
    try:
        value = kind(text)
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(text)
    except ValueError as error:
        raise UsageError(
            f"{option.name}={text} of {name} is no number", hint=_options_hint(name)
        ) from error
    return value


def _options_hint(name: str) -> str:
    options = query(name).options
    if not options:
        return f"{name} has no options."
    spelled = (
        option.name if option.default is False else f"{option.name}={option.default or '…'}"
        for option in options
    )
    return f"Options of {name}: {', '.join(spelled)}."


def default_limit(text: str, *, for_people: bool) -> int:
    """Return how many rows a report shows by default: 0 is all of them."""
    return ROWS_FOR_PEOPLE if for_people else _DEFAULT_LIMITS.get(parse_spec(text).name, 0)
