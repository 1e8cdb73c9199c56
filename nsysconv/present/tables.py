"""Tables as people see them.

looks.toml says which columns lead, what is drawn, and how other tools print them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from nsysconv import queries
from nsysconv.document import Picture, Printed, Section, Text
from nsysconv.notes import ANSWERS
from nsysconv.present import metrics
from nsysconv.report import Column, Report

_OVER_RANKS = "over_ranks"
_CHANGED = "diff_"
_LIMITS = "limits_"
# In another tool's format, rows of several profiles have these additional columns.
_BESIDE = {
    "profile": "Profile",
    "rank": "Rank",
    "host": "Host",
    "gpu": "GPU",
    _OVER_RANKS: "Over ranks",
    "rank_count": "Ranks",
}
# These reports are shown as sentences and not as rows. Each has the module that writes them, and the
# function.
_SENTENCES = {
    "summary": ("answer", "where_time_went"),
    "findings": ("answer", "what_holds_it_back"),
    "why": ("event", "sentences"),
    "devices": ("devices", "sentences"),
}


def section(report: Report) -> Section:
    """Return a report as people see it, with all its rows."""
    base = report.name.partition(":")[0]
    about = base.removeprefix(_CHANGED)
    look = look_of(report.name)
    in_words = base in _SENTENCES and report.table is not None
    seen = Section(
        **vars(report),
        texts=_sentences(base, report) if in_words else _answers(report),
        replaced=frozenset(column.name for column in report.columns if in_words),
        leads=tuple(look.get("leads", ())),
        words=frozenset(look.get("words", ())),
        prose=frozenset(look.get("prose", ())),
        part=queries.ENTRIES[about].section if about in queries.ENTRIES else look.get("part", ""),
        folded=report.name.startswith(_CHANGED),
    )
    printed = look.get("printed")
    if printed:
        seen = replace(seen, printed={c.name: _printed(c, printed) for c in report.columns})
    picture = look.get("picture")
    return replace(seen, picture=picture) if picture and _is_drawable(report, picture) else seen


def _is_drawable(report: Report, picture: Picture) -> bool:
    # Where rows are three of many ranks, some of the columns are gone, or it is another table.
    names = {column.name for column in report.columns}
    return names >= {*picture.columns} and (_OVER_RANKS in picture.x or _OVER_RANKS not in names)


def for_people(seen: Section) -> Section:
    """Return a section in the form that text and the page show; all others have the rows as they are."""
    is_pivot = seen.name.partition(":")[0] == "metrics" and seen.table is not None
    # Rows that are three of many ranks stay as they are.
    if not is_pivot or any(column.name == _OVER_RANKS for column in seen.columns):
        return seen
    return metrics.pivot(seen)


def _sentences(name: str, report: Report) -> tuple[Text, ...]:
    # Imported only here: most reports have none.
    module, function = _SENTENCES[name]
    write = getattr(import_module(f"nsysconv.present.{module}"), function)
    texts: tuple[Text, ...] = write(report)
    return texts


def headline(report: Report) -> Section:
    """Return the answer of a comparison as people see it: its title, and how many limits are exceeded."""
    row = report.rows()[0]
    counts = {n.removeprefix(_LIMITS): v for n, v in row.items() if n.startswith(_LIMITS)}
    words = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in counts.items())
    return replace(
        section(report),
        texts=() if None in counts.values() else (Text("", (f"limits: {words}",)),),
        replaced=frozenset(row),
        headline=True,
    )


def _answers(report: Report) -> tuple[Text, ...]:
    return tuple(Text("", (note.text,)) for note in report.notes if note.slug in ANSWERS)


def _printed(column: Column, headers: Mapping[str, str]) -> Printed:
    # Sizes in MB with three decimals, other fractions with one.
    header = {**_BESIDE, **headers}[column.name]
    if header.endswith(("(MB)", "(MB/s)")):
        return Printed(header, 3, 1_000_000)
    return Printed(header, 1 if column.kind == "float" else None)


@cache
def _looks() -> Mapping[str, Mapping[str, Any]]:
    tables = tomllib.loads(Path(__file__).with_name("looks.toml").read_text(encoding="utf-8"))
    for look in tables.values():
        if "picture" in look:
            look["picture"] = _picture(**look["picture"])
    return tables


def _picture(kind: Any, **fields: Any) -> Picture:
    given: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()}
    return Picture(kind, given.pop("x"), given.pop("values"), **given)


def look_of(name: str) -> Mapping[str, Any]:
    """Return what looks.toml says of a report as it was asked for, such as `memory:by=time`."""
    base = name.partition(":")[0]
    if name.startswith(_CHANGED):
        return _looks()["diff"]
    view = queries.view_name(queries.parse_spec(name)) if base in queries.ENTRIES else ""
    return _looks().get(f"{base}:{view}") or _looks().get(base) or {}
