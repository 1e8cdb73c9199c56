"""The slow, careful way to copy a table in which something is wrong: leave out the rows that are."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.importers.nsys_sqlite import tables
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import SourceRows

_TEXT_COLUMNS = frozenset({"text"})


def guarded(
    probe: Probe,
    mapping: tables.Mapping,
    columns: tables.Columns,
    context: tables.Context,
    rows: SourceRows,
) -> tuple[SourceRows, list[Note]]:
    """The same rows without those of wrong types or impossible times, and notes that count them."""
    facts = frozenset({schema.EVENT_TABLES[mapping.ours].fact})
    conditions: list[sa.ColumnElement[bool]] = []
    notes: list[Note] = []

    def leave_out(slug: str, text: str, good: sa.ColumnElement[bool], sql: str) -> None:
        count, first = probe.select(
            f"SELECT count(*), min(rowid) FROM {mapping.source} WHERE NOT ({sql})"
        )[0]
        if count:
            conditions.append(good)
            notes.append(
                Note(
                    slug,
                    Severity.DROPPED,
                    f"{mapping.source}: {text} were left out",
                    count,
                    f"{mapping.source} row {first}",
                    facts,
                )
            )

    for name in sorted(columns.used - _TEXT_COLUMNS):
        column = columns[name]
        leave_out(
            "wrong-type",
            f"rows whose {name} is no whole number",
            sa.func.typeof(column).in_(("integer", "null")),
            f"typeof({name}) IN ('integer', 'null')",
        )
    if "end" in columns:
        start, end = columns["start"], columns["end"]
        types = "typeof(start) = 'integer' AND typeof(end) IN ('integer', 'null')"
        leave_out(
            "negative-duration",
            "rows that end before they start",
            end.is_(None) | (end >= start),
            f"NOT ({types}) OR end IS NULL OR end >= start",
        )
        low, high, zero = -tables.TIME_LIMIT, tables.TIME_LIMIT, context.zero
        leave_out(
            "impossible-time",
            "rows more than 104 days away from the recording's zero",
            start.between(zero + low, zero + high)
            & sa.func.coalesce(end, start).between(zero + low, zero + high),
            f"NOT ({types}) OR (start BETWEEN {zero + low} AND {zero + high} AND "
            f"coalesce(end, start) BETWEEN {zero + low} AND {zero + high})",
        )
    select = tables.select(mapping, columns, replace(context, careful=True))
    for condition in conditions:
        select = select.where(condition)
    return replace(rows, select=select), notes
