"""The commands that look something up: info, runs, history, why, find, sql, schema."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nsysconv import api, queries
from nsysconv.cli import flags
from nsysconv.cli.commands import brief_form, parse_destination, write
from nsysconv.cli.runtime import begin_work, print_line, say
from nsysconv.document import Section, Text
from nsysconv.errors import InputError, NotRecorded, UsageError
from nsysconv.queries import ROWS_FOR_PEOPLE
from nsysconv.queries.registry import view
from nsysconv.render.json import columns_schema
from nsysconv.report import Column
from nsysconv.store.checksums import NOT_RECORDED
from nsysconv.store.location import redacted_target, split_target

_LIST_WIDTH = 80


def info(
    target: str,
    format_name: str | None,
    output: str | None,
    limit: int | None,
    *,
    check: bool,
    brief: bool = False,
) -> int:
    """Run `nsysconv info`; return the exit status."""
    names = ("check",) if check else ("profile", "facts")
    destination = parse_destination(format_name, output, names)
    draw = brief_form(brief, destination, limit)
    begin_work()
    rows = (ROWS_FOR_PEOPLE if destination.for_people else 0) if limit is None else limit
    if check:
        found = api.check(target, limit=rows)
        write([found], destination, target, draw=draw)
        # What differs comes before what is not recorded.
        first = next((row["result"] for row in found.rows()), None)
        damaged = InputError.exit_status if first else 0
        return NotRecorded.exit_status if first == NOT_RECORDED else damaged
    write(api.info(target, limit=rows, say=say), destination, target, draw=draw)
    return 0


def show(
    make: Callable[[], Section],
    format_name: str | None,
    output: str | None,
    source: str | None,
    *,
    narrow: bool = False,
    brief: bool = False,
    limit: int | None = None,
) -> int:
    """Make and write the one report of a command such as `nsysconv sql`; return the exit status.

    `narrow`: text is for people alone, in 80 columns if there is no terminal. `limit`: asked for, of
    brief rows.
    """
    destination = parse_destination(format_name, output)
    draw = brief_form(brief, destination, limit)
    begin_work()
    # A pipe gets all columns, because a program reads it.
    wide = not narrow and not sys.stdout.isatty()
    write([make()], destination, source, draw=draw, wide=wide, elsewhere=_LIST_WIDTH)
    return 0


def schema(report: str) -> int:
    """Run `nsysconv schema`; return the exit status."""
    is_report = report.partition(":")[0] in queries.REPORTS
    tables = {} if is_report else _tables_of_commands()
    if report in tables:
        found = columns_schema(report, *tables[report])
    elif report.startswith("diff_") or "examples" in flags.words().get(report, ()):
        what = "a comparison" if report.startswith("diff_") else "a command"
        hint = (
            "With -f json, without --brief, an answer has a sentence on each column (docs/json.md)."
        )
        raise UsageError(f"{report!r} is {what}, not a report", hint=hint)
    else:
        shown = view(queries.parse_spec(report))
        found = columns_schema(report, shown.title, shown.columns)
    # A column is a line.
    columns = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.pop("properties").items()]
    print_line(f'{json.dumps(found)[:-1]}, "properties": {{')
    for column in columns[:-1]:
        print_line(f"{column},")
    print_line(f"{columns[-1]}}}}}")
    return 0


def _tables_of_commands() -> Mapping[str, tuple[str, Sequence[Column]]]:
    # Tables of commands, of comparisons and of histories, which `report` does not have.
    from nsysconv.diff.account import ACCOUNT_COLUMNS, CONTRIBUTOR_COLUMNS
    from nsysconv.diff.change import ANSWER_COLUMNS
    from nsysconv.diff.gate import LIMIT_COLUMNS
    from nsysconv.diff.history import CHANGE_COLUMNS, RUN_COLUMNS, SERIES_COLUMNS
    from nsysconv.queries.find import COLUMNS, COUNT_COLUMNS
    from nsysconv.queries.why.columns import COLUMNS as WHY_COLUMNS

    beside = "its tables are limits, account, contributors and diff_REPORT"
    return {
        "why": ("Why an event started when it did, or why the GPU was idle", WHY_COLUMNS),
        "find": ("Events by name; how many of each kind are in find_counts", COLUMNS),
        "find_counts": ("How many events of each kind have the name", COUNT_COLUMNS),
        "diff": (f"The answer of a comparison; {beside}", ANSWER_COLUMNS),
        "limits": ("Limits of a comparison", LIMIT_COLUMNS),
        "account": ("Breakdown of the change", ACCOUNT_COLUMNS),
        "contributors": ("Largest contributors to the change", CONTRIBUTOR_COLUMNS),
        "history": (
            "Series; their changes are in change_points, runs in history_runs",
            SERIES_COLUMNS,
        ),
        "change_points": ("Changes in a history", CHANGE_COLUMNS),
        "history_runs": ("Each run of a history", RUN_COLUMNS),
    }


_MOST_NEXT = 10


def history(
    make: Callable[[], Sequence[Section]],
    source: str,
    format_name: str | None,
    output: str | None,
    *,
    limit: int | None,
    wide: bool,
    brief: bool,
) -> int:
    """Run `nsysconv history`; return the exit status."""
    destination = parse_destination(
        format_name, output, ("history", "change_points", "history_runs")
    )
    draw = brief_form(brief, destination, limit)
    begin_work()
    rows = (ROWS_FOR_PEOPLE if destination.for_people else 0) if limit is None else limit
    levels, changes, each_run = make()
    lines = _next(source, changes)
    if lines and destination.is_page:
        changes = replace(changes, texts=(Text("", tuple(lines[:_MOST_NEXT])),))
    # In words the runs are the column `trend`.
    made = (levels, changes) if destination.for_people else (levels, changes, each_run)
    found = [each.limited(rows) for each in made]
    if destination.for_people:
        found = found if wide else [each.briefly() for each in found]
        if lines:
            from nsysconv.present.answer import words

            found.append(words("next", [f"→ {lines[0]}"]))
    write(found, destination, source, draw=draw, wide=wide)
    return 0


def _next(store: str, changes: Section) -> list[str]:
    # A line on what to ask about each change that is one of the program, the largest ones first.
    found = [row for row in changes.rows() if row["base_run"] is not None]
    found.sort(key=lambda row: -abs(row["change_pct"] or 0.0))
    place = redacted_target(split_target(store)[0])
    pairs = ([f"{place}@{row[name]}" for name in ("base_run", "run")] for row in found)
    sides = dict.fromkeys(" ".join(map(shlex.quote, pair)) for pair in pairs)
    return [f"what changed: nsysconv diff {pair} contributors" for pair in sides]


def find(
    target: str,
    pattern: str,
    place: tuple[str | None, str | None],
    limit: int | None,
    *,
    options: Mapping[str, Any],
    brief: bool,
) -> int:
    """Run `nsysconv find`, with -f and -o as `place`; return the exit status."""
    destination = parse_destination(*place, ("find_counts", "find"))
    draw = brief_form(brief, destination, limit)
    begin_work()
    rows = (ROWS_FOR_PEOPLE if destination.for_people or brief else 0) if limit is None else limit
    with api.open(target, say=say) as profile:
        found = profile.find(pattern, limit=rows, **options)
    write(found, destination, target, draw=draw)
    return 0


def why(
    target: str,
    event: str,
    format_name: str | None,
    output: str | None,
    *,
    kernel_names: str,
    steps: Mapping[str, Any],
    brief: bool = False,
) -> int:
    """Run `nsysconv why`; return the exit status."""
    destination = parse_destination(format_name, output)
    draw = brief_form(brief, destination)
    begin_work()
    with api.open(target, say=say) as profile:
        report = profile.why(event, kernel_names=kernel_names, **steps)
    # The lines of the report name its notes, so text does not repeat them.
    shown = replace(report, notes=()) if destination.for_people else report
    write([shown], destination, target, draw=draw)
    return 0
