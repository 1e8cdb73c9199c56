"""Descriptions of profiles: `info`, `runs`, the list of `reports` and their needs; and `sql` queries."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import starmap
from pathlib import Path
from typing import Any

from nsysconv import queries, schema
from nsysconv.api import open_profile
from nsysconv.api.inputs import joined_input, only_recording
from nsysconv.api.open_profile import OpenProfile, profile_files
from nsysconv.api.options import check_limit
from nsysconv.api.shown_report import ShownReport, query_report
from nsysconv.api.targets import Say, Target, Words, several, silent
from nsysconv.document import Text
from nsysconv.errors import UsageError
from nsysconv.facts import Fact, in_order
from nsysconv.notes import Note, Severity, merged
from nsysconv.report import Column, Unit, human, report_table, utc
from nsysconv.store import checksums
from nsysconv.store import runs as stored_runs
from nsysconv.store.location import (
    only_match,
    parse_location,
    reading,
    redacted_target,
    split_target,
)
from nsysconv.store.read import Profile
from nsysconv.store.write import tags_of
from nsysconv.timeline import steps as found_in
from nsysconv.timeline.annotations import mpi_ranges
from nsysconv.timeline.operator_calls import may_have_operators
from nsysconv.timeline.slices import ANY_STEPS
from nsysconv.timeline.timeline import Timeline

_ATTRIBUTES = (
    "tool_version",
    "format_version",
    "host",
    "driver_version",
    "graph_mode",
    "recording_ns",
    "zero_utc_ns",
)
# GPU work comes first.
_EVENTS = tuple(dict.fromkeys((*schema.GPU_OP_TABLES, *schema.EVENT_TABLES)))
_PROFILES = (
    Column("label", Unit.TEXT, "Name in the store; select it with STORE@LABEL.", key=True),
    Column("ranks", Unit.TEXT, "Ranks of its processes, consecutive ones joined by -."),
    Column("host", Unit.TEXT, "Host on which it was recorded."),
    Column(
        "recording_ns",
        Unit.NS,
        "Length of the profiler's session; null: not recorded in the source.",
    ),
    Column("kernel_count", Unit.COUNT, "Number of kernels."),
    Column("api_call_count", Unit.COUNT, "Number of API calls."),
    Column("tags", Unit.TEXT, "Tags given with --tag, as KEY=VALUE."),
    Column("job", Unit.TEXT, "Batch job, if known.", brief=False),
    Column("source", Unit.TEXT, "Importer that read the file.", brief=False),
    Column("path", Unit.TEXT, "File it was imported from.", brief=False),
    Column("tool_version", Unit.TEXT, "Version of the profiler.", brief=False),
    Column("format_version", Unit.TEXT, "Version of the file format.", brief=False),
    Column("driver_version", Unit.TEXT, "Version of the driver.", brief=False),
    Column("graph_mode", Unit.TEXT, "Recording mode of graphs.", brief=False),
    Column("zero_utc_ns", Unit.NS, "Time of day (UTC, ns since 1970) of time zero.", brief=False),
)


_LISTED_OF_PROFILE = (
    *("label", "source", "path", "ranks", "host", "job", "tags"),
    *("recording_ns", "kernel_count", "api_call_count"),
)


def info(target: Target, *, limit: int = 0, say: Say = silent) -> list[ShownReport]:
    """Return what a profile is, and what it can answer: its attributes, and its facts with advice.

    Two reports, `profile` and `facts`; of a run of several profiles `profiles`, with a row for each
    (`limit` of them; 0: all), and `facts`, with how many recorded each. `target` is as for `open`, or a
    store of one run, or STORE@RUN. Raises UsageError if a store holds several runs and none was named,
    InputError if the file cannot be read.
    """
    check_limit(limit)
    place, selector = split_target(target)
    with ExitStack() as stack:
        opened = open_profile.open_all(place, selector, stack, say, one_run=True)
        if len(opened) == 1:
            return info_reports(opened[0])
        profiles = [each.profile for each in opened]
        run = _run(profiles, redacted_target(target)).limited(limit)
        return [run, _facts(profiles)]


def check(target: Target, *, limit: int = 0) -> ShownReport:
    """Compare what a store holds with the checksums that its imports kept.

    A row per table that is not what was imported, and per profile without checksums (`limit` of them; 0:
    all). Raises UsageError for what is no store, InputError where too little of it can be read.
    """
    check_limit(limit)
    store, selector = split_target(target)
    if selector is not None or profile_files(store) is not None:
        info(target)  # raises where the file is damaged: it may have been a store
        hint = "Name what `nsysconv import` made, without @: nsysconv info STORE --check"
        raise UsageError("only stores are checked, each as a whole", where=str(store), hint=hint)
    found = checksums.check(store)
    columns = (
        Column(
            "profile",
            Unit.TEXT,
            "Name of the profile in the store; null: the store itself.",
            key=True,
        ),
        Column("table", Unit.TEXT, "Table; null: all tables.", key=True),
        Column("result", Unit.TEXT, "differs, not recorded (no checksums were kept), or damaged."),
        Column("imported_count", Unit.COUNT, "Number of rows at import."),
        Column("row_count", Unit.COUNT, "Number of rows now."),
    )
    well = Text("", ("All tables hold what was imported: rows and checksums are the same.",))
    title = f"Check of {redacted_target(target)}"
    report = _report(
        "check", title, columns, [*map(asdict, found)], texts=() if found else [well], replaced=()
    )
    texts = {
        "store-damaged": "the store differs from what was imported: import the original files again",
        "checksums-missing": "a profile has no checksums; the next import into the store adds them",
    }
    missing = sum(each.result == checksums.NOT_RECORDED for each in found)
    counts = zip(texts.items(), (len(found) - missing, missing), strict=True)
    notes = [Note(slug, Severity.INFO, text, count) for (slug, text), count in counts if count]
    return replace(report, notes=tuple(notes)).limited(limit)


def info_reports(opened: OpenProfile) -> list[ShownReport]:
    """Return the two reports of `info` for one profile that is open."""
    return [_profile(opened.profile), _facts([opened.profile])]


def _row(profile: Profile, ranks: stored_runs.RankCoverage) -> dict[str, Any]:
    # The census is of this profile alone.
    return {
        **_attributes(profile),
        "id": profile.id,
        "label": profile.ref.label,
        "source": profile.ref.source,
        "path": profile.ref.path,
        "ranks": stored_runs.ranges_as_text(stored_runs.contiguous_ranges(ranks.ranks)) or None,
        "host": profile.attributes["host"] or ", ".join(ranks.hosts) or None,
        "job": ", ".join(ranks.jobs) or None,
        # The tags are on one line, quoted as a shell would split it.
        "tags": " ".join(f"{key}={_quoted(value)}" for key, value in tags_of(profile).items())
        or None,
        "kernel_count": profile.row_count("kernel"),
        "api_call_count": profile.row_count("api_call"),
    }


def _attributes(profile: Profile) -> dict[str, Any]:
    found = {name: profile.attributes[name] for name in _ATTRIBUTES}
    return {**found, "recording_ns": profile.session_ns}


def _quoted(text: str) -> str:
    return shlex.quote(text) if set(text) & set(" '\"\\") else text


# -- one profile


def _profile(profile: Profile) -> ShownReport:
    attributes = {
        "source": profile.ref.source,
        "path": profile.ref.path,
        **_attributes(profile),
        # A tag may be called as an attribute is.
        **{f"tag {key}": value for key, value in tags_of(profile).items()},
    }
    attributes = {key: value for key, value in attributes.items() if value is not None}
    counts = {table: profile.row_count(table) for table in _EVENTS}
    rows = {f"{table} rows": f"{count:,}" for table, count in counts.items() if count}
    return _report(
        "profile",
        f"Profile {profile.ref.label}",
        (
            _text("attribute", "Attribute of the recording.", key=True),
            _text("value", "Value of the attribute."),
        ),
        [{"attribute": key, "value": str(value)} for key, value in {**attributes, **rows}.items()],
        notes=profile.notes,
        texts=[Text("", (*starmap(_line, attributes.items()), *_row_counts(counts)))],
    )


# -- the profiles of a run


def _run(profiles: Sequence[Profile], target: str) -> ShownReport:
    # There is a row per profile. Text shows once what is the same in all rows.
    members = [(p.ref.label, p.rows("process")) for p in profiles]
    rows = [_row(p, stored_runs.rank_coverage([m])) for p, m in zip(profiles, members, strict=True)]
    same = {
        column.name: rows[0][column.name]
        for column in _PROFILES
        if len({row[column.name] for row in rows}) == 1
    }
    shared = [_line(name, value) for name, value in same.items() if value is not None]
    counts = {table: sum(p.row_count(table) for p in profiles) for table in _EVENTS}
    together = _row_counts(counts)
    # In a table it would be a length of time, in the unit of its column.
    zeros = [row["zero_utc_ns"] for row in rows if row["zero_utc_ns"] is not None]
    if zeros and "zero_utc_ns" not in same:
        together.append(f"zero_utc: {utc(min(zeros))} to {utc(max(zeros))}")
    texts = [Text("the same in all of them", tuple(shared)), Text("together", tuple(together))]
    notes = [note for profile in profiles for note in profile.notes]
    return _report(
        "profiles",
        f"{len(profiles):,} profiles of {target}",
        _PROFILES,
        rows,
        notes=merged([*stored_runs.rank_coverage(members).notes(), *notes]),
        texts=[lines for lines in texts if lines.lines],
        replaced={*same, "zero_utc_ns"},
    )


def _facts(profiles: Sequence[Profile]) -> ShownReport:
    of, rows = len(profiles), []
    for fact in in_order(fact for p in profiles for fact in p.facts | p.missing):
        count = sum(fact in profile.facts for profile in profiles)
        state = "no" if not count else "yes" if count == of else "some"
        advice = [p.advice[fact] for p in profiles if fact in p.advice and state != "yes"]
        rows.append(
            {
                "fact": fact.label,
                "recorded": state,
                "profile_count": count,
                "advice": advice[0] if advice else None,
            }
        )
    some = [row | {"share": f", by {row['profile_count']:,} of {of:,}"} for row in rows]
    whether = "Whether the profiles hold it: yes, some, no."
    return _report(
        "facts",
        "What they can answer" if of > 1 else "What it can answer",
        (
            _text("fact", "Kind of information.", key=True),
            _text("recorded", whether if of > 1 else "Whether the profile has it."),
            *(
                [Column("profile_count", Unit.COUNT, "Number of profiles that have it.")]
                if of > 1
                else []
            ),
            _text("advice", "How to record it next time."),
        ),
        rows,
        texts=[
            *_recorded("recorded by all" if of > 1 else "recorded", rows),
            *_unrecorded("recorded by some", "some", some),
            *_unrecorded("not recorded", "no", rows),
        ],
    )


# -- in words

_PART = "What was recorded"
_ON_PAGE = ("profile", "profiles", "facts")


def _text(name: str, doc: str, *, key: bool = False) -> Column:
    return Column(name, Unit.TEXT, doc, key=key)


def _line(name: str, value: Any) -> str:
    # Times are shown with their units; attributes are whole numbers of ns.
    if name == "zero_utc_ns":
        return f"zero_utc: {utc(value)}"
    if name == "recording_ns":
        return f"session: {human(value, Unit.NS)}"
    return f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}"


def _row_counts(counts: Mapping[str, int]) -> list[str]:
    text = ", ".join(f"{count:,} {table}" for table, count in counts.items() if count)
    return [f"rows: {text}"] if text else []


def _recorded(head: str, rows: Sequence[Mapping[str, Any]]) -> list[Text]:
    facts = [row["fact"] for row in rows if row["recorded"] == "yes"]
    return [Text(head, (", ".join(facts),))] if facts else []


def _unrecorded(head: str, state: str, rows: Sequence[Mapping[str, Any]]) -> list[Text]:
    # Facts with the same advice share a line.
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["recorded"] == state:
            advice = f": {row['advice']}" if row["advice"] else ""
            groups.setdefault((row.get("share", ""), advice), []).append(row["fact"])
    lines = [f"{', '.join(facts)}{share}{advice}" for (share, advice), facts in groups.items()]
    return [Text(head, tuple(lines))] if lines else []


def _report(
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
    *,
    notes: Sequence[Note] = (),
    texts: Sequence[Text] = (),
    replaced: Collection[str] | None = None,
) -> ShownReport:
    # In text, the lines of `texts` replace these columns (None: all columns, if there are lines).
    table = report_table(columns, {c.name: [row[c.name] for row in rows] for c in columns})
    if replaced is None:
        replaced = [column.name for column in columns] if texts else ()
    return ShownReport(
        name,
        title,
        tuple(columns),
        table,
        row_count=len(rows),
        notes=tuple(notes),
        texts=tuple(texts),
        replaced=frozenset(replaced),
        part=_PART if name in _ON_PAGE else "",
    )


def reports(
    target: Target | None = None, names: Words | None = None, *, say: Say = silent
) -> ShownReport:
    """List every report (or those named): what it shows and needs; and whether a target can answer it.

    Of a run it is enough that one profile can. What is lacking for that is named; `info` says how to
    record it. Raises UsageError for an unknown name, and as `info` for the target.
    """
    wanted = [queries.parse_spec(name).name for name in several(names)] if names else _by_subject()
    columns = [
        _text("report", "Name of the report.", key=True),
        _text("title", "What the report shows."),
        _text("about", "Subject of the report."),
        _text("core", "Whether the report is printed by default: yes or no."),
        _text("needs", "Facts that the report requires."),
        _text("uses", "Optional facts; without them their columns are null."),
        _text("options", "Options of the report."),
    ]
    rows = [_list_row(name) for name in wanted]
    # What is in a folder of several profiles is known only once they have been read.
    folder = Path(target) if isinstance(target, str | Path) and Path(target).is_dir() else None
    if target is None or (folder is not None and only_recording([folder]) is None):
        return _report("reports", "Reports", columns, rows, texts=_by_subject_in_words(rows))
    answered = "Whether the profile, or one of the run's, can answer it: yes or no."
    columns.insert(1, _text("answered", answered))
    columns.append(_text("missing", "Missing facts."))
    where, selector = split_target(target)
    with ExitStack() as stack:
        item = joined_input(target) if target is not None else None
        opened = open_profile.open_all(where, selector, stack, say, one_run=True, item=item)
        missing = _missing(wanted, opened)
    for row in rows:
        lacking = missing[str(row["report"])]
        row["answered"] = "no" if lacking else "yes"
        row["missing"] = ", ".join(lacking) or None
    title = f"Reports on {redacted_target(target)}"
    return _report("reports", title, columns, rows, texts=_by_subject_in_words(rows))


def _missing(names: Sequence[str], opened: Sequence[OpenProfile]) -> dict[str, list[str]]:
    # Nothing is missing for a report that one of the profiles can answer.
    ranks = {rank for profile in opened for rank in profile.timeline.ranks.values()}
    missing: dict[str, dict[str, None]] = {name: {} for name in names}
    pending = list(missing)
    for profile in opened:
        for name in tuple(pending):
            lacking = [fact.label for fact in queries.missing_facts(name, profile.timeline)]
            lacking = lacking or _not_in_profile(name, profile.timeline, len(ranks))
            missing[name].update(dict.fromkeys(lacking))
            if not lacking:
                missing[name] = {}
                pending.remove(name)
        profile.forget()
        if not pending:
            break
    return {name: list(words) for name, words in missing.items()}


def _by_subject_in_words(rows: Sequence[Mapping[str, str | None]]) -> list[Text]:
    groups: dict[str, list[str]] = {}
    for row in rows:
        line = f"{row['report']}{' (core)' if row['core'] == 'yes' else ''}: {row['title']}"
        if row.get("missing"):
            line += f"; missing: {row['missing']}"
        if row["options"]:
            line += f" [{row['options']}]"
        groups.setdefault(str(row["about"]), []).append(line)
    legend = "core: printed by default. [options]: REPORT:OPTION=VALUE. -f csv: more details."
    return [Text("", (legend,)), *(Text(about, tuple(lines)) for about, lines in groups.items())]


def _list_row(name: str) -> dict[str, str | None]:
    module = queries.query(name)
    needs = [fact.label for fact in in_order(queries.needed_facts(module))]
    if module.any_of:
        needs.append(f"one of: {', '.join(fact.label for fact in in_order(module.any_of))}")
    return {
        "about": queries.ENTRIES[name].about,
        "report": name,
        "title": module.title,
        "core": "yes" if name in queries.CORE else "no",
        "needs": ", ".join(needs) or None,
        "uses": ", ".join(fact.label for fact in in_order(module.uses)) or None,
        "options": ", ".join(option.name for option in module.options) or None,
    }


def _by_subject() -> list[str]:
    # Reports on one subject follow each other, and subjects keep the order of their first reports.
    subjects = [*dict.fromkeys(entry.about for entry in queries.ENTRIES.values())]
    return sorted(queries.REPORTS, key=lambda name: subjects.index(queries.ENTRIES[name].about))


# A rank alone is neither late nor early.
_OF_SEVERAL_RANKS = ("stragglers", "collective_arrivals")


def _not_in_profile(name: str, timeline: Timeline, rank_count: int) -> list[str]:
    # The result names what the report needs and the recording lacks, although the source could have
    # recorded it.
    if name in _OF_SEVERAL_RANKS and rank_count < 2:
        return ["several ranks: there is one"]
    if name == "steps" and not found_in.steps(timeline):
        return [f"steps: {ANY_STEPS.absent}"]
    if name == "operators" and not may_have_operators(timeline):
        return [Fact.OPERATORS.label]
    is_without_mpi = Fact.MPI_CALLS not in timeline.profile.facts
    if name == "mpi_event_sum" and is_without_mpi and not len(mpi_ranges(timeline)):
        return [Fact.MPI_CALLS.label]
    return []


def runs(store: Target) -> ShownReport:
    """List the profiles of a store, one row each, with their runs, ranks and tags.

    Raises InputError if there is no store, UsageError if it is of another version.
    """
    with reading(parse_location(store)) as opened, opened.snapshot():
        labels = {row["id"]: row["label"] for row in opened.runs()}
        ranks = stored_runs.coverage_by_profile(opened)
        rows = [
            {"run": labels.get(p.attributes["run_id"]), **_row(p, ranks[p.id])}
            for p in opened.profiles()
        ]
        notes = [
            replace(note, text=f"run {labels.get(run_id)}: {note.text}")
            for run_id, of_run in stored_runs.coverage_by_run(opened).items()
            if len(of_run.profiles) > 1
            for note in of_run.notes()
        ]
    of_profile = {column.name: column for column in _PROFILES}
    of_profile["host"] = replace(of_profile["host"], brief=False)
    columns = (
        Column("run", Unit.TEXT, "The run."),
        Column("id", Unit.ID, "Number in the store."),
        *map(of_profile.__getitem__, _LISTED_OF_PROFILE),
    )
    return _report("runs", "Profiles in the store", columns, rows, notes=notes)


def sql(target: Target, text: str, *, say: Say = silent) -> ShownReport:
    """Return the rows of a query on a store or a profile file; docs/schema.md describes the tables.

    Nothing is changed. A file is imported into a private store first, which is removed afterwards: for
    several queries import it once. Ctrl-C ends a query. Raises UsageError, in the database's words, if
    the query is wrong or is not a select, InputError if the file cannot be read.
    """
    where = only_match(target) or parse_location(target)
    with ExitStack() as stack:
        file = profile_files(where)
        if file is not None:
            from nsysconv.api.profile_file import ProfileFile

            where = stack.enter_context(ProfileFile(file, say)).copy()
        return query_report(where, text)
