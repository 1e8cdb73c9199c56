"""The slow, careful way to copy a table in which something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.importers.nsys_sqlite import tables
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import SourceRows

_TEXT_COLUMNS = frozenset({"text"})
# Without these a row cannot be placed: it is left out. Other cells that hold no number are not recorded.
_PLACING = frozenset(
    {"start", "end", "globalTid", "globalPid", "deviceId", "eventType", "eventClass"}
)


def guarded(
    probe: Probe,
    mapping: tables.Mapping,
    columns: tables.Columns,
    context: tables.Context,
    rows: SourceRows,
) -> tuple[SourceRows, list[Note]]:
    """The same rows without those that cannot be placed in time, process or device; and notes."""
    facts = frozenset({schema.EVENT_TABLES[mapping.ours].fact})
    table, row_id = mapping.source, columns.source.row_id
    conditions: list[Callable[[tables.Columns], sa.ColumnElement[bool]]] = []
    notes: list[Note] = []
    damaged: set[str] = set()

    def found(slug: str, text: str, good: str) -> bool:
        count, first = probe.select(
            f"SELECT count(*), min({row_id}) FROM {table} WHERE NOT ({good})"
        )[0]
        if count:
            where = f"{table} row {first}"
            notes.append(Note(slug, Severity.DROPPED, f"{table}: {text}", count, where, facts))
        return bool(count)

    for name in sorted(columns.used - _TEXT_COLUMNS):
        good = f"typeof({name}) IN ('integer', 'null')"
        if name in _PLACING:
            if found("wrong-type", f"rows whose {name} is no whole number were left out", good):
                conditions.append(partial(_is_whole, name))
        elif found(
            "wrong-type", f"cells of {name} that hold no whole number are not recorded", good
        ):
            damaged.add(name)
    if "end" in columns:
        types = "typeof(start) = 'integer' AND typeof(end) IN ('integer', 'null')"
        if found(
            "negative-duration",
            "rows that end before they start were left out",
            f"NOT ({types}) OR end IS NULL OR end >= start",
        ):
            conditions.append(lambda c: c["end"].is_(None) | (c["end"] >= c["start"]))
        low, high = context.zero - tables.TIME_LIMIT, context.zero + tables.TIME_LIMIT
        if found(
            "impossible-time",
            "rows more than 104 days away from the recording's zero were left out",
            f"NOT ({types}) OR (start BETWEEN {low} AND {high} "
            f"AND coalesce(end, start) BETWEEN {low} AND {high})",
        ):
            conditions.append(
                lambda c: (
                    c["start"].between(low, high)
                    & sa.func.coalesce(c["end"], c["start"]).between(low, high)
                )
            )
    whole = tables.Columns(columns.source, frozenset(damaged))
    select = tables.select(mapping, whole, replace(context, careful=True))
    for condition in conditions:
        select = select.where(condition(whole))
    return replace(rows, select=select, suspect=lambda: False, constants=dict), notes


def _is_whole(name: str, columns: tables.Columns) -> sa.ColumnElement[bool]:
    return sa.func.typeof(columns[name]).in_(("integer", "null"))
