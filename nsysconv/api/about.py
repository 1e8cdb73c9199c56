"""What profiles are, and what they can answer: `info`, of one profile or of all profiles of a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from nsysconv.api.opening import OpenProfile, ShownReport, check_limit, open_run, shown
from nsysconv.api.words import Say, Target, silent
from nsysconv.facts import Fact, in_order
from nsysconv.notes import Note, merged
from nsysconv.report import Column, Said, report_table
from nsysconv.store.location import redacted_target as shown_target
from nsysconv.store.location import split_target
from nsysconv.store.read import Profile
from nsysconv.store.runs import ProfileProcesses, RankCoverage, in_rows, rank_coverage, spans
from nsysconv.store.write import tags_of
from nsysconv.units import Unit, human, utc

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
_PROFILES = (
    Column("label", Unit.TEXT, "Name in the store; select it with STORE@LABEL.", key=True),
    Column("ranks", Unit.TEXT, "The ranks of its processes, those of a row joined by -."),
    Column("host", Unit.TEXT, "The machine."),
    Column("recording_ns", Unit.NS, "Length of the recording."),
    Column("kernel_count", Unit.COUNT, "Kernels."),
    Column("api_call_count", Unit.COUNT, "API calls."),
    Column("tags", Unit.TEXT, "What was said of it with --tag, KEY=VALUE each."),
    Column("job", Unit.TEXT, "The batch job, where it is known.", brief=False),
    Column("source", Unit.TEXT, "The importer that read it.", brief=False),
    Column("path", Unit.TEXT, "The file it came from.", brief=False),
    Column("tool_version", Unit.TEXT, "Version of the profiler.", brief=False),
    Column("format_version", Unit.TEXT, "Version of the file's form.", brief=False),
    Column("driver_version", Unit.TEXT, "Version of the driver.", brief=False),
    Column("graph_mode", Unit.TEXT, "How graphs were recorded.", brief=False),
    Column("zero_utc_ns", Unit.NS, "Time of day (UTC, ns since 1970) of its zero.", brief=False),
)


def info(target: Target, *, limit: int = 0, say: Say = silent) -> list[ShownReport]:
    """What a profile is, and what it can answer: its attributes, and its facts with advice.

    Two reports, `profile` and `facts`; of a run of several profiles `profiles`, with a row for each
    (`limit` of them; 0: all), and `facts`, with how many recorded each. `target` is as for `open`, or a
    store of one run, or STORE@RUN. Raises UsageError where a store holds several runs and none was named,
    InputError where the file cannot be read.
    """
    check_limit(limit)
    place, selector = split_target(target)
    with ExitStack() as stack:
        opened = open_run(place, selector, stack, say)
        if len(opened) == 1:
            return about(opened[0])
        profiles = [one.profile for one in opened]
        run = _run(profiles, shown_target(target)).limited(limit)
        return [shown(run), _facts_of_run(profiles)]


def about(opened: OpenProfile) -> list[ShownReport]:
    """The same of one profile that is open."""
    profile = opened.profile
    return [_one(profile), _facts(profile)]


def row_of(profile: Profile, told: RankCoverage) -> dict[str, Any]:
    """One profile as a row among others; `told` is what its processes say."""
    return {
        **{name: profile.attributes[name] for name in _ATTRIBUTES},
        "id": profile.id,
        "label": profile.ref.label,
        "source": profile.ref.source,
        "path": profile.ref.path,
        "ranks": spans(in_rows(told.ranks)) or None,
        "host": profile.attributes["host"] or ", ".join(told.hosts) or None,
        "job": ", ".join(told.jobs) or None,
        "tags": _tags_text(tags_of(profile)),
        "kernel_count": profile.row_count("kernel"),
        "api_call_count": profile.row_count("api_call"),
    }


def _tags_text(tags: Mapping[str, str]) -> str | None:
    """The tags on one line, as a shell would split it."""
    return " ".join(f"{key}={_word(value)}" for key, value in tags.items()) or None


def _word(text: str) -> str:
    """The text as one word: in quotes where it has to be."""
    return shlex.quote(text) if set(text) & set(" '\"\\") else text


# -- one profile


def _one(profile: Profile) -> ShownReport:
    """What is known of a profile as a whole, then its rows by table."""
    known = {
        "source": profile.ref.source,
        "path": profile.ref.path,
        **{key: profile.attributes[key] for key in _ATTRIBUTES},
        # A tag may be called as an attribute is.
        **{f"tag {key}": value for key, value in tags_of(profile).items()},
    }
    known = {key: value for key, value in known.items() if value is not None}
    counts = {table: profile.row_count(table) for table in _EVENTS}
    rows = {f"{table} rows": f"{count:,}" for table, count in counts.items() if count}
    return report_of(
        "profile",
        f"Profile {profile.ref.label}",
        (
            Column("attribute", Unit.TEXT, "What.", said=True),
            Column("value", Unit.TEXT, "Its value.", said=True),
        ),
        [{"attribute": key, "value": str(value)} for key, value in {**known, **rows}.items()],
        notes=profile.notes,
        said=[Said("", (*(_line(key, value) for key, value in known.items()), *_counted(counts)))],
    )


def _facts(profile: Profile) -> ShownReport:
    rows = [
        {
            "fact": fact.label,
            "recorded": "yes" if fact in profile.facts else "no",
            "advice": None if fact in profile.facts else profile.advice.get(fact),
        }
        for fact in in_order(profile.facts | profile.missing)
    ]
    return report_of(
        "facts",
        "What it can answer",
        (
            Column("fact", Unit.TEXT, "A kind of information.", said=True),
            Column("recorded", Unit.TEXT, "Whether the profile holds it.", said=True),
            Column("advice", Unit.TEXT, "How to record it next time.", said=True),
        ),
        rows,
        said=[*_held("recorded", rows), *_lacking("not recorded", "no", rows)],
    )


# -- the profiles of a run


def _run(profiles: Sequence[Profile], target: str) -> ShownReport:
    """A row per profile. What is the same in all of them people are told once."""
    members: list[ProfileProcesses] = [(p.ref.label, p.rows("process")) for p in profiles]
    rows = [row_of(p, rank_coverage([m])) for p, m in zip(profiles, members, strict=True)]
    same = {
        column.name: rows[0][column.name]
        for column in _PROFILES
        if len({row[column.name] for row in rows}) == 1
    }
    known = [_line(name, value) for name, value in same.items() if value is not None]
    counts = {table: sum(p.row_count(table) for p in profiles) for table in _EVENTS}
    together = _counted(counts)
    # In a table it would be a length of time, in the unit of its column.
    zeros = [row["zero_utc_ns"] for row in rows if row["zero_utc_ns"] is not None]
    if zeros and "zero_utc_ns" not in same:
        together.append(f"zero_utc: {utc(min(zeros))} to {utc(max(zeros))}")
    said = [Said("the same in all of them", tuple(known)), Said("together", tuple(together))]
    columns = [replace(c, said=c.name in same or c.name == "zero_utc_ns") for c in _PROFILES]
    notes = [note for profile in profiles for note in profile.notes]
    return report_of(
        "profiles",
        f"{len(profiles):,} profiles of {target}",
        columns,
        rows,
        notes=merged([*rank_coverage(members).notes(), *notes]),
        said=[each for each in said if each.lines],
    )


def _facts_of_run(profiles: Sequence[Profile]) -> ShownReport:
    rows: list[dict[str, Any]] = []
    for fact in in_order(fact for p in profiles for fact in p.facts | p.missing):
        count = sum(fact in profile.facts for profile in profiles)
        state = "no" if not count else "yes" if count == len(profiles) else "some"
        rows.append(
            {
                "fact": fact.label,
                "recorded": state,
                "profile_count": count,
                "advice": None if state == "yes" else _advice(fact, profiles),
            }
        )
    of = f"{len(profiles):,}"
    some = [row | {"share": f", by {row['profile_count']:,} of {of}"} for row in rows]
    return report_of(
        "facts",
        "What they can answer",
        (
            Column("fact", Unit.TEXT, "A kind of information.", said=True),
            Column(
                "recorded", Unit.TEXT, "Whether the profiles hold it: yes, some, no.", said=True
            ),
            Column("profile_count", Unit.COUNT, "Profiles that hold it.", said=True),
            Column("advice", Unit.TEXT, "How to record it next time.", said=True),
        ),
        rows,
        said=[
            *_held("recorded by all", rows),
            *_lacking("recorded by some", "some", some),
            *_lacking("not recorded", "no", rows),
        ],
    )


def _advice(fact: Fact, profiles: Sequence[Profile]) -> str | None:
    """How to record a fact next time, as the first says of those that lack it."""
    return next((p.advice[fact] for p in profiles if fact in p.advice), None)


# -- in words


def _line(name: str, value: Any) -> str:
    """An attribute for people, times with their units; they are stored as whole numbers of ns."""
    if name == "zero_utc_ns":
        return f"zero_utc: {utc(value)}"
    if name == "recording_ns":
        return f"recording: {human(value, Unit.NS)}"
    if isinstance(value, int):
        return f"{name}: {value:,}"
    return f"{name}: {value}"


def _counted(counts: Mapping[str, int]) -> list[str]:
    """The rows by table, on one line; none where there are none."""
    told = ", ".join(f"{count:,} {table}" for table, count in counts.items() if count)
    return [f"rows: {told}"] if told else []


def _held(head: str, rows: Sequence[Mapping[str, Any]]) -> list[Said]:
    held = [row["fact"] for row in rows if row["recorded"] == "yes"]
    return [Said(head, (", ".join(held),))] if held else []


def _lacking(head: str, state: str, rows: Sequence[Mapping[str, Any]]) -> list[Said]:
    """What is not there, or not everywhere, and how to record it; each advice once."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["recorded"] == state:
            advice = f": {row['advice']}" if row["advice"] else ""
            groups.setdefault((row.get("share", ""), advice), []).append(row["fact"])
    lines = [f"{', '.join(facts)}{share}{advice}" for (share, advice), facts in groups.items()]
    return [Said(head, tuple(lines))] if lines else []


def report_of(
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    *,
    notes: Sequence[Note] = (),
    said: Sequence[Said] = (),
) -> ShownReport:
    """A report of rows, with what people are told in place of the columns that are said in words."""
    table = report_table(columns, {c.name: [row[c.name] for row in rows] for c in columns})
    return ShownReport(
        name,
        title,
        tuple(columns),
        table,
        notes=tuple(notes),
        row_count=len(rows),
        said=tuple(said),
    )
