"""The registry of reports: by name, with aliases and the options that a user gives."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.queries.contract import FACT_GROUPS, Option, Query, View


@dataclass(frozen=True)
class Entry:
    """The place of a report among others: one table of reports.toml, which says what the fields mean."""

    title: str
    about: str
    facts: Mapping[str, Any]
    module: str = ""
    section: str = ""
    traits: frozenset[str] = frozenset()
    page: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    page_needs: str = ""
    limit: int = 0
    formerly: str = ""


def _entry(name: str, section: str = "", **others: Any) -> Entry:
    page = tuple(others.pop("page", (name,) if section else ()))
    beside, traits = tuple(others.pop("beside", page)), frozenset(others.pop("is", ()))
    facts = {key: _facts(others.pop(key)) for key in _FACTS if key in others}
    return Entry(section=section, page=page, beside=beside, traits=traits, facts=facts, **others)


_FACTS = ("needs", "any_of", "uses", "totals")


def _facts(words: Iterable[str]) -> frozenset[Fact]:
    return frozenset().union(*(FACT_GROUPS.get(word) or {Fact(word)} for word in words))


_TABLES = tomllib.loads(Path(__file__).with_name("reports.toml").read_text(encoding="utf-8"))
ENTRIES: Mapping[str, Entry] = {name: _entry(name, **table) for name, table in _TABLES.items()}
"""All reports by name, in the order of lists."""


def reports_that_are(trait: str) -> tuple[str, ...]:
    """Return the names of the reports that have this trait in reports.toml."""
    return tuple(name for name, entry in ENTRIES.items() if trait in entry.traits)


REPORTS = tuple(ENTRIES)
"""All reports by name."""

RULES = tuple(name for name, entry in ENTRIES.items() if entry.module.startswith("rules."))
"""Those that look for a known way to waste time, as `nsys analyze` does."""

NSYS_TABLES = tuple(name for name, entry in ENTRIES.items() if entry.module.startswith("stats."))
"""The tables that `nsys stats` prints."""

OWN = tuple(name for name in REPORTS if name not in (*RULES, *NSYS_TABLES))
"""Reports that no other tool has."""

CORE = reports_that_are("core")
"""The usual tables, which answer for every source."""

ANSWER = ("summary", "findings")
"""The reports of the answer: where the time went, and what holds a run back."""

DEFAULT = (*ANSWER, *CORE)
"""The reports made where none is named."""

OVER_RANKS = reports_that_are("over-ranks")
"""The reports on all profiles of a run together."""

GROUPS = {
    "core": CORE,
    "all": tuple(name for name in OWN if "by-name" not in ENTRIES[name].traits),
}
"""Words for several reports. Those that list the time line are asked for by name."""

ROWS_FOR_PEOPLE = 20
"""Rows of a table in text by default."""

_NEW_NAMES = {entry.formerly: name for name, entry in ENTRIES.items() if entry.formerly}


def query(name: str) -> Query:
    """Return the report of that name. Raises UsageError with the names that are close to it."""
    if "=" in name:
        hint = f"Options follow their report, after a colon: operators:by=shapes, memory:{name}."
        raise UsageError(f"no report {name!r}", hint=hint)
    if "," in name and all(each in ENTRIES for each in name.split(",")):
        hint = f"Put spaces between them: {name.replace(',', ' ')}"
        raise UsageError(f"no report {name!r}", hint=hint)
    if name not in ENTRIES:
        close = get_close_matches(name, [*REPORTS, *_NEW_NAMES], 5, 0.6)
        hint = f"Close to it: {', '.join(close)}. " if close else ""
        raise UsageError(
            f"no report {name!r}", hint=f"{hint}`nsysconv report --list` names them all."
        )
    return _declared(name)


@cache
def _declared(name: str) -> Query:
    # The one place where modules are imported by a name in a string: a command loads only the reports
    # that it shows. A module declares its report under the report's name in upper case.
    entry = ENTRIES[name]
    module = importlib.import_module(f"nsysconv.queries.{entry.module or name}")
    declared: Query = getattr(module, name.upper())
    return replace(declared, title=entry.title, **entry.facts)


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
    alias, *pieces = str(text).split(":")
    name = _NEW_NAMES.get(alias, alias)
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


def needed_facts(declared: Query, options: Mapping[str, Any] | None = None) -> frozenset[Fact]:
    """Return the facts that a report needs with these options (None: with any)."""
    if callable(declared.needs):
        return frozenset() if options is None else frozenset(declared.needs(options))
    return frozenset(declared.needs)


def view(spec: ReportSpec) -> View:
    """Return what a report shows with its options."""
    declared = query(spec.name)
    return declared.views.get(view_name(spec), View(declared.title, declared.columns))


def view_name(spec: ReportSpec) -> str:
    """Return the option of a view that is on, else the value of the option `by`, "" without one."""
    views = query(spec.name).views
    on = (name for name, value in spec.options.items() if value is True and name in views)
    return next(on, spec.options.get("by", ""))


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
    return ROWS_FOR_PEOPLE if for_people else ENTRIES[parse_spec(text).name].limit
