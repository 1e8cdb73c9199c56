"""What there is to ask, and to ask it of: reports, runs, sql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from nsysconv import queries
from nsysconv.api.about import report_of, row_of
from nsysconv.api.opening import OpenProfile, ShownReport, file_at, open_run
from nsysconv.api.words import Say, Target, Words, several, silent
from nsysconv.facts import in_order
from nsysconv.queries import rules, stats
from nsysconv.queries.contract import Query
from nsysconv.report import Column, Said
from nsysconv.store.census import censuses, censuses_of_profiles
from nsysconv.store.places import place, split
from nsysconv.store.places import shown as shown_target
from nsysconv.store.read import ask, reading
from nsysconv.timeline import steps as found_in
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

_ANSWERED = "Whether the profile, or one of the run's, can answer it: yes or no."


def reports(
    target: Target | None = None, names: Words | None = None, *, say: Say = silent
) -> ShownReport:
    """Every report (or those named): what it shows and needs; and whether a target can answer it.

    Of a run it is enough that one profile can. What is lacking for that is named; `info` says how to
    record it. Raises UsageError for a name that there is not, and as `info` for the target.
    """
    wanted = [queries.parse_spec(name).name for name in several(names)] if names else _BY_QUESTION
    columns = [
        Column("report", Unit.TEXT, "Name of the report.", said=True),
        Column("title", Unit.TEXT, "What it shows.", said=True),
        Column("about", Unit.TEXT, "What it is about.", said=True),
        Column(
            "core", Unit.TEXT, "Whether it is printed where none is named: yes or no.", said=True
        ),
        Column("needs", Unit.TEXT, "Facts without which there is no report.", said=True),
        Column("uses", Unit.TEXT, "Further facts, whose columns are null without them.", said=True),
        Column("options", Unit.TEXT, "Its own options.", said=True),
    ]
    rows = [_listed(name) for name in wanted]
    if target is None:
        return report_of("reports", "Reports", columns, rows, said=_in_words(rows))
    columns.insert(1, Column("answered", Unit.TEXT, _ANSWERED, said=True))
    columns.append(Column("missing", Unit.TEXT, "What it lacks for that.", said=True))
    where, selector = split(target)
    with ExitStack() as stack:
        missing = _missing(wanted, open_run(where, selector, stack, say))
    for row in rows:
        lacking = missing[str(row["report"])]
        row["answered"] = "no" if lacking else "yes"
        row["missing"] = ", ".join(lacking) or None
    title = f"Reports on {shown_target(target)}"
    return report_of("reports", title, columns, rows, said=_in_words(rows))


def _missing(names: Sequence[str], opened: Sequence[OpenProfile]) -> dict[str, list[str]]:
    """What profiles lack for each report; nothing where one of them can answer it."""
    ranks = {rank for one in opened for rank in one.timeline.ranks.values()}
    missing: dict[str, dict[str, None]] = {name: {} for name in names}
    pending = list(missing)
    for one in opened:
        for name in tuple(pending):
            lacking = [fact.label for fact in queries.missing_facts(name, one.timeline)]
            lacking = lacking or _not_there(name, one.timeline, len(ranks))
            missing[name].update(dict.fromkeys(lacking))
            if not lacking:
                missing[name] = {}
                pending.remove(name)
        one.forget()
        if not pending:
            break
    return {name: list(words) for name, words in missing.items()}


def _in_words(rows: Sequence[Mapping[str, str | None]]) -> list[Said]:
    """The reports for people, by what they are about."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        options = f"options {row['options']}" if row["options"] else ""
        marks = "; ".join(filter(None, ("core" if row["core"] == "yes" else "", options)))
        line = f"{row['report']}{f' ({marks})' if marks else ''}: {row['title']}"
        if row.get("missing"):
            line += f"; no answer without {row['missing']}"
        groups.setdefault(str(row["about"]), []).append(line)
    legend = (
        "core: printed where no report is named. --format csv also says what each needs and uses."
    )
    return [Said("", (legend,)), *(Said(about, tuple(lines)) for about, lines in groups.items())]


def _needs(module: Query) -> str:
    enough = [fact.label for fact in in_order(module.any_of)]
    needs = [fact.label for fact in in_order(module.needs)]
    return ", ".join([*needs, *([f"one of: {', '.join(enough)}"] if enough else [])])


def _listed(name: str) -> dict[str, str | None]:
    module = queries.query(name)
    return {
        "about": _about(name),
        "report": name,
        "title": module.title,
        "core": "yes" if name in queries.CORE else "no",
        "needs": _needs(module) or None,
        "uses": ", ".join(fact.label for fact in in_order(module.uses)) or None,
        "options": ", ".join(option.name for option in module.options) or None,
    }


_QUESTIONS = {
    "overview": ("overview", "processes", "gpu_utilization", "utilization_over_time"),
    "kernels": ("kernels", "kernel_categories", "metrics"),
    "idle time": ("idle_summary", "idle_host", "idle_gaps"),
    "transfers": ("transfers", "transfer_sizes"),
    "host": ("api_vs_kernel", "launch_stats", "queue_length", "timeline_events"),
    "ranges and steps": ("ranges", "steps"),
    "ranks": ("comm_overlap", *queries.OVER_RANKS),
    "rules": rules.REPORTS,
    "as nsys stats": stats.REPORTS,
}
"""What reports are about. Those in none of these stand last."""

_OTHERS = "others"
_LISTED = tuple(name for names in _QUESTIONS.values() for name in names)
_BY_QUESTION = (*_LISTED, *(name for name in queries.REPORTS if name not in _LISTED))
# One alone is neither late nor early.
_OF_SEVERAL_RANKS = ("stragglers", "collective_arrivals")


def _about(name: str) -> str:
    return next((about for about, names in _QUESTIONS.items() if name in names), _OTHERS)


def _not_there(name: str, timeline: Timeline, rank_count: int) -> list[str]:
    """What a report is about and the profile holds none of, although it was recorded."""
    if name in _OF_SEVERAL_RANKS and rank_count < 2:
        return ["several ranks: there is one"]
    if name == "steps" and not found_in.steps(timeline, found_in.STEP_RANGE):
        return [f"steps: no range is called {found_in.STEP_RANGE}"]
    return []


def runs(store: Target) -> ShownReport:
    """The profiles of a store, one row each, with their runs, ranks and tags.

    Raises InputError where there is no store, UsageError where it is of another version.
    """
    with reading(place(store)) as opened:
        labels = {row["id"]: row["label"] for row in opened.runs()}
        told = censuses_of_profiles(opened)
        rows = [
            {"run": labels.get(p.attributes["run_id"]), **row_of(p, told[p.id])}
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
    return report_of("runs", "Profiles in the store", columns, rows, notes=notes)


def sql(target: Target, text: str, *, say: Say = silent) -> ShownReport:
    """The rows of a query on a store or a profile file, whose tables and views docs/schema.md describes.

    Nothing is changed. A file is imported into a private store first, which is removed afterwards: for
    several queries import it once. Ctrl-C ends a query. Raises UsageError, in the database's words, where
    the query is wrong or no select, InputError where the file cannot be read.
    """
    where = place(target)
    with ExitStack() as stack:
        file = file_at(where)
        if file is not None:
            # Stores are opened without what reads files.
            from nsysconv.api.in_place import ProfileFile

            where = stack.enter_context(ProfileFile(file, say)).copy()
        table = ask(where, text)
    units = {"int64": Unit.ID, "double": Unit.ID}
    columns = tuple(
        Column(
            field.name, units.get(str(field.type), Unit.TEXT), "", real=str(field.type) == "double"
        )
        for field in table.schema
    )
    return ShownReport("sql", "", columns, table, row_count=table.num_rows)
