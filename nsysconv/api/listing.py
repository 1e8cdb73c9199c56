"""What is in a store or a profile: runs, info, sql."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from nsysconv import queries
from nsysconv.api.opening import OpenProfile, ShownReport
from nsysconv.api.opening import open as open_profile
from nsysconv.api.words import Say, Target, Words, several, silent
from nsysconv.facts import in_order
from nsysconv.notes import Note
from nsysconv.queries.contract import Query, any_of
from nsysconv.report import Column, build_table
from nsysconv.store.census import censuses, censuses_of_profiles, in_rows, spans
from nsysconv.store.places import place
from nsysconv.store.places import shown as shown_target
from nsysconv.store.profiles import tags_of
from nsysconv.store.read import Profile, reading
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit


def reports(
    target: Target | None = None, names: Words | None = None, *, say: Say = silent
) -> ShownReport:
    """Every report (or those named): what it shows and needs; and whether a target can answer it.

    What it lacks for that is named; `info` says how to record it. Raises UsageError for a name that there
    is not, and as `open` for the target.
    """
    wanted = [queries.wanted(name).name for name in several(names)] if names else queries.REPORTS
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
    title = "Reports" if target is None else f"Reports on {shown_target(target)}"
    return _report("reports", title, tuple(columns), rows)


def _needs(module: Query) -> str:
    enough = [fact.label for fact in in_order(any_of(module))]
    needs = [fact.label for fact in in_order(module.NEEDS)]
    return ", ".join([*needs, *([f"one of: {', '.join(enough)}"] if enough else [])])


def _listed(name: str, timeline: Timeline | None) -> dict[str, str | None]:
    module = queries.query(name)
    row: dict[str, str | None] = {
        "report": name,
        "title": module.TITLE,
        "needs": _needs(module) or None,
        "uses": ", ".join(fact.label for fact in in_order(module.USES)) or None,
        "options": ", ".join(option.name for option in module.OPTIONS) or None,
    }
    if timeline is not None:
        missing = queries.unrecorded(name, timeline)
        row["answered"] = "no" if missing else "yes"
        row["missing"] = ", ".join(fact.label for fact in missing) or None
    return row


def runs(store: Target) -> ShownReport:
    """The profiles of a store, one row each, with their runs, ranks and tags.

    Raises InputError where there is no store, UsageError where it is of another version.
    """
    with reading(place(store)) as opened:
        labels = {row["id"]: row["label"] for row in opened.runs()}
        told = censuses_of_profiles(opened)
        rows = [
            {
                "run": labels.get(p.attributes["run_id"]),
                "id": p.id,
                "label": p.ref.label,
                "source": p.ref.source,
                "path": p.ref.path,
                "ranks": spans(in_rows(told[p.id].ranks)) or None,
                "host": p.attributes["host"] or ", ".join(told[p.id].hosts) or None,
                "job": ", ".join(told[p.id].jobs) or None,
                "tags": _tags_text(tags_of(p)),
                "recording_ns": p.attributes["recording_ns"],
                "kernel_count": p.row_count("kernel"),
                "api_call_count": p.row_count("api_call"),
            }
            for p in opened.profiles()
        ]
        notes = [
            replace(note, text=f"run {labels.get(run_id)}: {note.text}")
            for run_id, of_run in censuses(opened).items()
            if len(of_run.profiles) > 1
            for note in of_run.notes()
        ]
    columns = (
        Column("run", Unit.TEXT, "The run."),
        Column("id", Unit.ID, "Number in the store."),
        Column("label", Unit.TEXT, "Name in the store; select it with STORE@LABEL."),
        Column("source", Unit.TEXT, "The importer that read it.", brief=False),
        Column("path", Unit.TEXT, "The file it came from.", brief=False),
        Column("ranks", Unit.TEXT, "The ranks of its processes, those of a row joined by -."),
        Column("host", Unit.TEXT, "The machine.", brief=False),
        Column("job", Unit.TEXT, "The batch job, where it is known.", brief=False),
        Column("tags", Unit.TEXT, "What was said of it with --tag, KEY=VALUE each."),
        Column("recording_ns", Unit.NS, "Length of the recording."),
        Column("kernel_count", Unit.COUNT, "Kernels."),
        Column("api_call_count", Unit.COUNT, "API calls."),
    )
    return _report("runs", "Profiles in the store", columns, rows, notes)


def _tags_text(tags: Mapping[str, str]) -> str | None:
    """The tags on one line, as a shell would split it."""
    return " ".join(f"{key}={_word(value)}" for key, value in tags.items()) or None


def _word(text: str) -> str:
    """The text as one word: in quotes where it has to be."""
    return shlex.quote(text) if set(text) & set(" '\"\\") else text


def info(target: Target, *, say: Say = silent) -> list[ShownReport]:
    """What a profile is, and what it can answer: its attributes, and its facts with advice.

    Two reports, `profile` and `facts`. Raises as `open`.
    """
    with open_profile(target, say=say) as opened:
        return about(opened)


def about(opened: OpenProfile) -> list[ShownReport]:
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


def sql(store: Target, text: str) -> ShownReport:
    """The rows of a query on a store, whose tables and views docs/schema.md describes; it is not changed.

    Raises UsageError, in the database's words, where the query is wrong, InputError where there is no
    store.
    """
    with reading(place(store)) as opened:
        table = opened.sql(text)
    units = {"int64": Unit.ID, "double": Unit.ID}
    columns = tuple(
        Column(
            field.name, units.get(str(field.type), Unit.TEXT), "", real=str(field.type) == "double"
        )
        for field in table.schema
    )
    return ShownReport("sql", "", columns, table, row_count=table.num_rows)


def _report(
    name: str,
    title: str,
    columns: tuple[Column, ...],
    rows: Sequence[dict[str, Any]],
    notes: Sequence[Note] = (),
) -> ShownReport:
    table = build_table(columns, {c.name: [row[c.name] for row in rows] for c in columns})
    return ShownReport(name, title, columns, table, notes=tuple(notes), row_count=len(rows))
