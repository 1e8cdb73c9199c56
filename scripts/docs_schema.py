"""docs/schema.md: tables, columns, views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from docs_markdown import NO_UNIT, lower, markdown_table

from nsysconv import schema
from nsysconv.report import Unit
from nsysconv.store.user_sql import OF_STEPS, VIEW_DOCS, views, with_steps


def schema_page() -> Iterator[str]:
    """Yield the lines of docs/schema.md."""
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
    yield from markdown_table(("version", "what changed"), schema.VERSIONS.items())
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
    yield "place of its number and with the word in place of each code; `end_ns`; its process's `rank`."
    yield ""
    yield "`step` and `occurrence`: the [step](definitions/steps.md#step) in which an event was launched"
    yield "or began, as `kernels:by=step` and `find` say; null: none. They are found when a query of"
    yield "`nsysconv sql` or of the library names one of them; other programs, and `*`, do not see them."
    yield ""
    yield "    select step, occurrence, name, sum(dur_ns) from v_kernel group by 1, 2, 3"
    for name, statement in views().items():
        table = name.removeprefix("v_")
        yield ""
        yield f"### {name}"
        yield ""
        yield VIEW_DOCS.get(name, f"As [{table}](#{table}), with names and words.")
        yield ""
        names = [column.name for column in statement.selected_columns]
        yield ", ".join(f"`{each}`" for each in (*names, *(OF_STEPS if name in with_steps() else ())))


def _schema_table(table: sa.Table) -> Iterator[str]:
    yield ""
    yield f"## {table.name}"
    yield ""
    yield f"One row: {lower(table.comment or '')}"
    if table.name in schema.EVENT_TABLES:
        fact = schema.EVENT_TABLES[table.name]
        yield ""
        yield f"Recorded if the profile holds the fact `{fact}` ({fact.label})."
    yield ""
    yield from markdown_table(
        ("column", "type", "unit", "what it is"), (_schema_row(column) for column in table.columns)
    )


def _schema_row(column: sa.Column[Any]) -> tuple[str, str, str, str]:
    unit = column.info["unit"]
    kind = {Unit.TEXT: "text", Unit.REAL: "real"}.get(unit, "integer")
    extra = ", key" if column.primary_key else "" if column.nullable else ", never null"
    doc = column.comment or ""
    codes = column.info.get("codes")
    if codes and f"0 {codes[0]}" not in doc:
        doc += " Codes: " + ", ".join(f"{number} {word}" for number, word in enumerate(codes)) + "."
    return f"`{column.name}`", kind + extra, "" if unit in NO_UNIT else unit.value, doc
