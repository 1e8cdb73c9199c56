"""Write the pages of docs/ that follow from the code.

python scripts/generate_docs.py            write schema, sources, reports, cli and messages
python scripts/generate_docs.py --check    exit 1 and name the pages that are out of date
"""

from __future__ import annotations

import argparse
import enum
import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import typer

from nsysconv import errors, notes, queries, schema
from nsysconv.cli.app import app
from nsysconv.facts import Fact, in_order
from nsysconv.importers import nsys_report
from nsysconv.importers.contract import Importer
from nsysconv.importers.detection import all_importers
from nsysconv.queries import rules, stats
from nsysconv.queries.contract import Option, Query, picture_of
from nsysconv.report import Column
from nsysconv.store.views import VIEW_DOCS, views
from nsysconv.units import Unit

DOCS = Path(__file__).parent.parent / "docs"

EXIT_STATUSES = {
    0: "Done; also where a report has no rows, and where reports that you did not name are not recorded.",
    2: "The command cannot be carried out as given: an unknown option or report, no such file, a file "
    "in the way, a store of several profiles and none chosen.",
    3: "An input could not be read (the others are still done, and all are named), or `--strict` met "
    "something dropped or approximated.",
    4: "A report that you named is not recorded in this profile.",
    70: "An internal error, with a traceback: a defect of nsysconv.",
    130: "Interrupted (Ctrl-C).",
}

_NO_UNIT = (Unit.TEXT, Unit.ID, Unit.REAL)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(_cell(value) for value in row) + " |"


def _sentence(text: str) -> str:
    """A docstring's first paragraph on one line."""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


# -- schema


def schema_page() -> Iterator[str]:
    """docs/schema.md."""
    events, tables = list(schema.EVENT_TABLES), [t.name for t in schema.metadata.sorted_tables]
    yield "# The schema of a store"
    yield ""
    yield "A store is one SQLite file. It holds any number of profiles, from any source, in these tables."
    yield 'Open it with whatever reads SQLite, or ask `nsysconv sql STORE "select …"`. The views'
    yield "`v_…` have names and words where the tables have numbers."
    yield ""
    yield "* Times are integer nanoseconds since the profile's zero; `profile.zero_utc_ns` says when that"
    yield "  was, where the source knows."
    yield "* Null means *not recorded*."
    yield f"* No time is further than {schema.TIME_LIMIT_NS:,} ns (2^53, 104 days) from zero."
    yield "* A profile's rows in an event table are contiguous: `extent` has the first and last `id`."
    yield ""
    yield f"A store is marked by `PRAGMA application_id` = {schema.APPLICATION_ID:#x}. The version of its"
    yield f"schema, now {schema.SCHEMA_VERSION}, is in `PRAGMA user_version`."
    yield ""
    yield from _table(("version", "what changed"), schema.VERSIONS.items())
    yield ""
    yield "Events: " + " · ".join(f"[{name}](#{name})" for name in events)
    yield ""
    yield "Everything else: " + " · ".join(f"[{n}](#{n})" for n in tables if n not in events)
    yield ""
    yield "[Views](#views)"
    for name in (*events, *(n for n in tables if n not in events)):
        yield from _schema_table(schema.metadata.tables[name])
    yield ""
    yield "## Views"
    yield ""
    yield "For reading by hand. A view of an event table has its columns, with the text of each name in"
    yield "place of its number and with the word in place of each code."
    for name, statement in views().items():
        table = name.removeprefix("v_")
        yield ""
        yield f"### {name}"
        yield ""
        yield VIEW_DOCS.get(name, f"As [{table}](#{table}), with names and words.")
        yield ""
        yield ", ".join(f"`{column.name}`" for column in statement.selected_columns)


def _schema_table(table: sa.Table) -> Iterator[str]:
    yield ""
    yield f"## {table.name}"
    yield ""
    yield f"One row: {_lower(table.comment or '')}"
    if table.name in schema.EVENT_TABLES:
        fact = schema.EVENT_TABLES[table.name].fact
        yield ""
        yield f"Recorded if the profile holds the fact `{fact}` ({fact.label})."
    yield ""
    yield from _table(
        ("column", "type", "unit", "what it is"), (_schema_row(column) for column in table.columns)
    )


def _lower(text: str) -> str:
    head, _, rest = text.partition(" ")
    return f"{head.lower() if head.istitle() else head} {rest}"


def _schema_row(column: sa.Column[Any]) -> tuple[str, str, str, str]:
    unit = column.info["unit"]
    kind = {Unit.TEXT: "text", Unit.REAL: "real"}.get(unit, "integer")
    extra = ", key" if column.primary_key else "" if column.nullable else ", never null"
    doc = column.comment or ""
    codes = column.info.get("codes")
    if codes and f"0 {codes[0]}" not in doc:
        doc += " Codes: " + ", ".join(f"{number} {word}" for number, word in enumerate(codes)) + "."
    return f"`{column.name}`", kind + extra, "" if unit in _NO_UNIT else unit.value, doc


# -- sources


def sources_page() -> Iterator[str]:
    """docs/sources.md."""
    importers = all_importers()
    suffixes = " and ".join(f"`{suffix}`" for suffix in nsys_report.SUFFIXES)
    yield "# Sources"
    yield ""
    yield "What nsysconv reads, and what a profile of each kind holds. A file is recognised by its"
    yield "content; its name does not matter. What a *particular* file holds, `nsysconv info FILE` says."
    yield ""
    yield "*always*: every file of the source holds it · *may*: a file holds it if it was recorded ·"
    yield "*never*: the source cannot hold it."
    yield ""
    header = ("kind of information", "fact", *(importer.TITLE for importer in importers))
    yield from _table(
        header, ((f.label, f"`{f}`", *(_held(i, f) for i in importers)) for f in Fact)
    )
    yield ""
    yield f"Files of Nsight Systems itself ({suffixes}) can only be read by nsys. If nsys is on `PATH`,"
    yield "nsysconv runs its export into a temporary folder and reads that; otherwise it says which"
    yield "command to run where nsys is installed."
    for importer in importers:
        yield ""
        yield f"## {importer.TITLE}"
        yield ""
        yield f"Named `{importer.NAME}` in stores and in JSON."
        yield ""
        yield from _table(
            ("what", "how to record it next time"),
            ((fact.label, importer.ADVICE[fact]) for fact in in_order(importer.ADVICE)),
        )


def _held(importer: Importer, fact: Fact) -> str:
    if fact in importer.GUARANTEED:
        return "always"
    return "may" if fact in importer.POSSIBLE else "never"


# -- reports


def reports_page() -> Iterator[str]:
    """docs/reports.md."""
    yield "# Reports"
    yield ""
    yield "`nsysconv report TARGET` prints the core reports ("
    yield ", ".join(f"`{name}`" for name in queries.CORE) + "),"
    yield "`nsysconv report TARGET NAME…` those you name."
    yield "What the numbers mean is in [definitions.md](definitions.md)."
    yield ""
    yield "A report *needs* some facts: without them it is *not recorded*. It *uses* others: without them"
    yield "some of its columns are null. Units are those of JSON, CSV and TSV; text scales them. Columns"
    yield "marked *key* identify a row; *better* says which direction is an improvement."
    yield ""
    yield "`nsysconv report --list` prints these lists, `nsysconv report TARGET --list` what it tells."
    yield "Options of a report follow its name: `cuda_gpu_kern_sum:base`, `gpu_gaps:gap=10`."
    every = {name: queries.query(name) for name in queries.REPORTS}
    for title, names in (
        ("Reports", queries.OWN),
        ("Rules ([rules.md](rules.md))", rules.REPORTS),
        ("Tables of `nsys stats` ([nsys-stats.md](nsys-stats.md))", stats.REPORTS),
    ):
        yield from ("", f"**{title}**", "")
        yield from _table(
            ("report", "shows", "needs"),
            ((f"[{n}](#{n})", every[n].TITLE, _facts(every[n].NEEDS)) for n in names),
        )
    for name, query in every.items():
        yield from _report(name, query)


def _report(name: str, query: Query) -> Iterator[str]:
    yield ""
    yield f"## {name}"
    yield ""
    yield f"{query.TITLE}."
    yield ""
    yield f"Needs: {_facts(query.NEEDS)}. Uses: {_facts(query.USES)}."
    if query.TOTALS:
        yield ""
        yield (
            f"Where those are not recorded: {_facts(query.TOTALS)}, as far as totals go; what they "
            "do not tell is null. Of a slice they tell nothing."
        )
    if query.OPTIONS:
        yield ""
        rows = ((f"`{name}:{_spelled(o)}`", _default(o), o.doc) for o in query.OPTIONS)
        yield from _table(("option", "default", "what it does"), rows)
    yield ""
    yield from _table(
        ("column", "unit", "key", "better", "what it is"), (_report_row(c) for c in query.COLUMNS)
    )
    if picture := picture_of(query):
        yield ""
        kind, what = _PICTURES[picture.kind], _named(picture.values)
        yield f"`.plot()` draws {kind}: {what} by {_named(picture.x)}."


_PICTURES = {
    "bars": "bars",
    "stacked": "bars of parts",
    "histogram": "a histogram",
    "strip": "a strip over time",
}


def _named(columns: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in columns)


def _spelled(option: Option) -> str:
    return option.name if isinstance(option.default, bool) else f"{option.name}=…"


def _default(option: Option) -> str:
    return "" if option.default in (None, False) else str(option.default)


def _report_row(column: Column) -> tuple[str, str, str, str, str]:
    unit = "" if column.unit in _NO_UNIT else column.unit.value
    return f"`{column.name}`", unit, "key" if column.key else "", column.better or "", column.doc


def _facts(facts: Iterable[Fact]) -> str:
    return ", ".join(fact.label for fact in in_order(facts)) or "nothing"


# -- command line


def cli_page() -> Iterator[str]:
    """docs/cli.md."""
    root: Any = typer.main.get_command(app)  # typer's commands have no public type
    yield "# Command line"
    yield ""
    yield "Results go to stdout, everything else to stderr. Nothing ever uses the network."
    yield ""
    yield from _table(
        ("command", "what it does"),
        ((f"[{name}](#nsysconv-{name})", c.help) for name, c in root.commands.items()),
    )
    yield ""
    yield from _table(("option of nsysconv itself", "what it does"), _options(root, {}))
    for name, command in root.commands.items():
        yield ""
        yield f"## nsysconv {name}"
        yield ""
        yield from _command(name, command)
    yield ""
    yield "## Targets"
    yield ""
    yield "A target is a profile file or a profile in a store:"
    yield ""
    yield from _table(
        ("target", "means"),
        (
            ("`report1.sqlite`", "a profile file, read in place; nothing is left behind"),
            ("`job.db`", "the profile of a store that holds one"),
            ("`job.db@report1`", "the profile of that label; `nsysconv runs job.db` lists them"),
            ("`job.db@2`", "the profile of that number"),
            ("`job.db@rank=3`", "the profile that holds the process of that rank"),
        ),
    )
    yield ""
    yield "An existing file wins over a reading of `@`."
    yield ""
    yield "## Exit status"
    yield ""
    yield from _table(("status", "means"), EXIT_STATUSES.items())


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    usage = [p.metavar or p.name.upper() for p in arguments]
    yield f"    nsysconv {name} {' '.join(usage)} [OPTIONS]"
    yield ""
    yield command.help
    yield ""
    yield from _table(
        ("argument", "what it is"),
        ((f"`{word}`", p.help) for word, p in zip(usage, arguments, strict=True)),
    )
    choices = _choices(name)
    if any(p.opts[0].startswith("-") for p in command.params):
        yield ""
        yield from _table(("option", "what it does"), _options(command, choices))


def _options(command: Any, choices: dict[str, str]) -> Iterator[tuple[str, str]]:
    for option in command.params:
        if not option.opts[0].startswith("-"):
            continue
        value = option.metavar or choices.get(option.name, "")
        if not value and not getattr(option, "is_flag", False):
            value = option.name.upper()
        spelled = ", ".join(f"`{flag}`" for flag in option.opts)
        yield f"{spelled} {value}".strip(), option.help


def _choices(name: str) -> dict[str, str]:
    """Per parameter of a command the words it allows, from its type."""
    for registered in app.registered_commands:
        callback = registered.callback
        if callback is not None and (registered.name or callback.__name__) == name:
            hints = typing.get_type_hints(callback)
            return {key: words for key, hint in hints.items() if (words := _words(hint))}
    raise AssertionError(f"no command {name}")


def _words(hint: object) -> str:
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return " · ".join(str(member.value) for member in hint)
    return next(filter(None, map(_words, typing.get_args(hint))), "")


# -- messages


def messages_page() -> Iterator[str]:
    """docs/messages.md."""
    yield "# Messages"
    yield ""
    yield "## Errors"
    yield ""
    yield "An error says what is wrong, where, and what to do next, and ends with an exit status:"
    yield ""
    yield from _table(
        ("error", "status", "means"),
        ((f"`{e.__name__}`", e.exit_status, _sentence(e.__doc__ or "")) for e in _errors()),
    )
    yield ""
    yield "All statuses are listed under [command line](cli.md#exit-status). In Python these are"
    yield "exceptions of `nsysconv.errors`."
    yield ""
    yield "## Notes"
    yield ""
    yield "A note is a caveat about numbers: something in the source was dropped, guessed, repaired, or"
    yield "cannot be taken at its word. Notes are kept in the store (table `note`) and shown under every"
    yield "report that they touch, with how often and where first. How much a note weighs:"
    yield ""
    yield from _table(
        ("severity", "means"),
        (
            (f"`{notes.Severity.INFO}`", "a remark; the numbers hold"),
            (f"`{notes.Severity.APPROXIMATED}`", "some number is not exact; fatal with `--strict`"),
            (f"`{notes.Severity.DROPPED}`", "rows were left out; fatal with `--strict`"),
        ),
    )
    for slug, meaning in sorted(notes.MEANINGS.items()):
        yield ""
        yield f"### {slug}"
        yield ""
        yield meaning


def _errors() -> list[type[errors.NsysconvError]]:
    return list(errors.NsysconvError.__subclasses__())


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "schema.md": schema_page,
    "sources.md": sources_page,
    "reports.md": reports_page,
    "cli.md": cli_page,
    "messages.md": messages_page,
}

_MARK = "<!-- Written by scripts/generate_docs.py from the code. Do not edit; run `make docs`. -->"


def text_of(page: str) -> str:
    """The whole text of a generated page."""
    title, *rest = PAGES[page]()
    return "\n".join([title, "", _MARK, *rest]) + "\n"


def stale() -> list[str]:
    """The pages that are missing or out of date."""
    return [
        page
        for page in PAGES
        if not (DOCS / page).exists() or (DOCS / page).read_text("utf-8") != text_of(page)
    ]


def main() -> int:
    """Write or check; returns the exit status."""
    parser = argparse.ArgumentParser(description="write the generated pages of docs/")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    if not parser.parse_args().check:
        for page in PAGES:
            (DOCS / page).write_text(text_of(page), "utf-8")
        return 0
    old = stale()
    for page in old:
        print(f"docs/{page} is out of date; run: make docs")
    if not old:
        print("all generated pages are up to date")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
