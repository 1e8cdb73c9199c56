"""What is in a store or a profile: runs, info, sql."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nsysconv import queries
from nsysconv.api.opening import OpenProfile
from nsysconv.api.opening import open as open_profile
from nsysconv.api.words import Say, StrPath, silent
from nsysconv.errors import NsysconvError, UsageError
from nsysconv.facts import in_order
from nsysconv.notes import Note
from nsysconv.report import Column, Report, build_table
from nsysconv.store.profiles import tags_of
from nsysconv.store.read import Profile, reading
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit


def reports(
    target: StrPath | None = None, names: Sequence[str] | None = None, *, say: Say = silent
) -> Report:
    """Every report (or those named): what it shows and needs; and whether a target can answer it.

    What is missing is said with how to record it.
    """
    wanted = [queries.wanted(name).name for name in names] if names else queries.REPORTS
    with ExitStack() as stack:
        timeline = None
        if target is not None:
            timeline = stack.enter_context(open_profile(target, say=say)).timeline
        rows = [_listed(name, timeline) for name in wanted]
    columns = [
        Column("report", Unit.TEXT, "Name of the report."),
        Column("title", Unit.TEXT, "What it shows."),
        Column("needs", Unit.TEXT, "Facts without which there is no report.", brief=False),
        Column(
            "uses", Unit.TEXT, "Further facts, whose columns are null without them.", brief=False
        ),
        Column("options", Unit.TEXT, "Its own options.", brief=False),
    ]
    if timeline is not None:
        columns.append(
            Column("answered", Unit.TEXT, "Whether this profile can answer it: yes or no.")
        )
        columns.append(Column("missing", Unit.TEXT, "The facts that it lacks for that."))
    title = "Reports" if target is None else f"Reports on {target}"
    return _report("reports", title, tuple(columns), rows)


def _listed(name: str, timeline: Timeline | None) -> dict[str, str | None]:
    module = queries.query(name)
    row: dict[str, str | None] = {
        "report": name,
        "title": module.TITLE,
        "needs": ", ".join(fact.label for fact in in_order(module.NEEDS)) or None,
        "uses": ", ".join(fact.label for fact in in_order(module.USES)) or None,
        "options": ", ".join(option.name for option in module.OPTIONS) or None,
    }
    if timeline is not None:
        missing = queries.unrecorded(name, timeline)
        row["answered"] = "no" if missing else "yes"
        row["missing"] = ", ".join(fact.label for fact in missing) or None
    return row


def runs(store: StrPath) -> Report:
    """The profiles of a store, one row each."""
    path = Path(store)
    with reading(path) as opened:
        labels = {row["id"]: row["label"] for row in opened.runs()}
        rows = [
            {
                "run": labels.get(p.attributes["run_id"]),
                "id": p.id,
                "label": p.ref.label,
                "source": p.ref.source,
                "path": p.ref.path,
                "host": p.attributes["host"],
                "tags": _tags_text(tags_of(p)),
                "recording_ns": p.attributes["recording_ns"],
                "kernel_count": p.row_count("kernel"),
                "api_call_count": p.row_count("api_call"),
            }
            for p in opened.profiles()
        ]
    columns = (
        Column("run", Unit.TEXT, "The run."),
        Column("id", Unit.ID, "Number in the store."),
        Column("label", Unit.TEXT, "Name in the store; select it with STORE@LABEL."),
        Column("source", Unit.TEXT, "The importer that read it.", brief=False),
        Column("path", Unit.TEXT, "The file it came from.", brief=False),
        Column("host", Unit.TEXT, "The machine.", brief=False),
        Column("tags", Unit.TEXT, "What was said of it with --tag, KEY=VALUE each."),
        Column("recording_ns", Unit.NS, "Length of the recording."),
        Column("kernel_count", Unit.COUNT, "Kernels."),
        Column("api_call_count", Unit.COUNT, "API calls."),
    )
    return _report("runs", "Profiles in the store", columns, rows)


def _tags_text(tags: Mapping[str, str]) -> str | None:
    """The tags on one line, as a shell would split it."""
    return " ".join(f"{key}={_word(value)}" for key, value in tags.items()) or None


def _word(text: str) -> str:
    """The text as one word: in quotes where it has to be."""
    return shlex.quote(text) if set(text) & set(" '\"\\") else text


def info(target: StrPath, *, say: Say = silent) -> list[Report]:
    """What a profile is, and what it can answer: its attributes, and its facts with advice."""
    with open_profile(target, say=say) as opened:
        return about(opened)


def about(opened: OpenProfile) -> list[Report]:
    """The same of a profile that is open."""
    profile = opened.profile
    facts = [
        {
            "fact": fact.label,
            "recorded": "yes" if fact in profile.facts else "no",
            "advice": None if fact in profile.facts else profile.advice.get(fact),
        }
        for fact in in_order(profile.facts | profile.missing)
    ]
    what = _report(
        "profile",
        f"Profile {profile.ref.label}",
        (Column("attribute", Unit.TEXT, "What."), Column("value", Unit.TEXT, "Its value.")),
        _attributes(profile),
        profile.notes,
    )
    can = _report(
        "facts",
        "What it can answer",
        (
            Column("fact", Unit.TEXT, "A kind of information."),
            Column("recorded", Unit.TEXT, "Whether the profile holds it."),
            Column("advice", Unit.TEXT, "How to record it next time.", prose=True),
        ),
        facts,
    )
    return [what, can]


def _attributes(profile: Profile) -> list[dict[str, str]]:
    """What is known of a profile as a whole, then its rows by table."""
    shown = [
        ("source", profile.ref.source),
        ("path", profile.ref.path),
        *((key, profile.attributes[key]) for key in _ATTRIBUTES),
        # A tag may be called as an attribute is.
        *((f"tag {key}", value) for key, value in tags_of(profile).items()),
        *((f"{t} rows", f"{profile.row_count(t):,}") for t in _EVENTS if profile.row_count(t)),
    ]
    return [{"attribute": key, "value": str(value)} for key, value in shown if value is not None]


_ATTRIBUTES = (
    "tool_version",
    "format_version",
    "host",
    "driver_version",
    "graph_mode",
    "recording_ns",
    "zero_utc_ns",
)

_EVENTS = (
    "kernel",
    "memcpy",
    "memset",
    "unified_memory_event",
    "graph_launch",
    "api_call",
    "range",
    "sync",
    "overhead",
)


def sql(store: StrPath, text: str) -> Report:
    """The rows of a query on a store. Raises UsageError with SQLite's own words where it is wrong."""
    path = Path(store)
    with reading(path) as opened:
        try:
            table = opened.sql(text)
        except NsysconvError as error:
            reason = str(error.__cause__ or error).replace("\n", " ")
            if "readonly" in reason or "attempt to write" in reason:
                raise UsageError(
                    "only selects are run: a store is changed by imports alone", where=str(path)
                ) from error
            words = re.sub(r"^.*(?:query|statement): |\s*(?:\(|\. |query:).*$", "", reason)
            raise UsageError(
                f"SQLite does not understand the query: {words}",
                where=str(path),
                hint="`select name from sqlite_master` lists tables and views; docs/schema.md describes "
                "them.",
            ) from error
    units = {"int64": Unit.ID, "double": Unit.ID}
    columns = tuple(
        Column(
            field.name, units.get(str(field.type), Unit.TEXT), "", real=str(field.type) == "double"
        )
        for field in table.schema
    )
    return Report("sql", "", columns, table, row_count=table.num_rows)


def _report(
    name: str,
    title: str,
    columns: tuple[Column, ...],
    rows: Sequence[dict[str, Any]],
    notes: Sequence[Note] = (),
) -> Report:
    table = build_table(columns, {c.name: [row[c.name] for row in rows] for c in columns})
    return Report(name, title, columns, table, notes=tuple(notes), row_count=len(rows))
