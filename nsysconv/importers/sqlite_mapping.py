"""The slow, careful way to copy a table of a SQLite source in which something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import TIME_LIMIT, Columns, whole_sql
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import SourceRows


@dataclass(frozen=True)
class Watch:
    """What to look at in the tables of a source.

    `placing`: without these a row cannot be placed and is left out; other cells that hold no number are
    not recorded. `no_numbers`: columns that hold something else by right. `start`, `end`: the columns
    of times. `zero`: what is subtracted from them. `events`: as SQL, which rows are looked at. `reals`:
    columns whose numbers need not be whole; the careful select has to look at their types itself.
    """

    placing: frozenset[str]
    no_numbers: frozenset[str] = frozenset()
    start: str = "start"
    end: str = "end"
    zero: int = 0
    events: str = "1"
    reals: frozenset[str] = frozenset()


def guarded(
    probe: Probe,
    rows: SourceRows,
    columns: Columns,
    watch: Watch,
    careful: Callable[[Columns], sa.Select[Any]],
) -> tuple[SourceRows, list[Note]]:
    """The same rows without those that cannot be placed in time, process or device; and notes.

    `columns` are those of the plain select and know which it used; `careful` gives the select anew.
    """
    facts = frozenset({schema.EVENT_TABLES[rows.table].fact})
    table, row_id = columns.source.name, columns.source.row_id
    conditions: list[Callable[[Columns], sa.ColumnElement[bool]]] = []
    notes: list[Note] = []
    damaged: set[str] = set()

    def found(slug: str, text: str, bad: str) -> bool:
        count, first = probe.select(
            f"SELECT count(*), min({row_id}) FROM {table} WHERE ({watch.events}) AND ({bad})"
        )[0]
        if count:
            where = f"{table} row {first}"
            notes.append(Note(slug, Severity.DROPPED, f"{table}: {text}", count, where, facts))
        return bool(count)

    for name in sorted(columns.used - watch.no_numbers):
        real = name in watch.reals
        numbers = "'integer', 'real', 'null'" if real else "'integer', 'null'"
        odd = f"typeof({name}) NOT IN ({numbers})"
        if not probe.select(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE {odd})")[0][0]:
            continue
        if not real:
            damaged.add(name)
        bad = odd if real else f"{odd} AND {whole_sql(name)} IS NULL"
        if name not in watch.placing:
            found("wrong-type", _no_number(name, real), bad)
        elif found("wrong-type", f"rows whose {name} is no whole number were left out", bad):
            conditions.append(partial(_is_whole, name))
    start = watch.start
    end = watch.end if watch.end in columns else start
    began, ended = whole_sql(start), whole_sql(end)
    if end != start and found(
        "negative-duration", "rows that end before they start were left out", f"{ended} < {began}"
    ):
        conditions.append(lambda c: c[start].is_(None) | c[end].is_(None) | (c[end] >= c[start]))
    low, high = watch.zero - TIME_LIMIT, watch.zero + TIME_LIMIT
    # 0 and 0 is no time, which is no impossible one.
    if found(
        "impossible-time",
        "rows more than 104 days away from the recording's zero were left out",
        f"NOT ({began} BETWEEN {low} AND {high} AND coalesce({ended}, {began}) BETWEEN {low} AND {high} "
        f"AND coalesce({ended} - {began}, 0) <= {TIME_LIMIT}) "
        f"AND NOT coalesce({began} = 0 AND {ended} = 0, 0)",
    ):
        conditions.append(
            lambda c: (
                c[start].is_(None)
                | (
                    c[start].between(low, high)
                    & sa.func.coalesce(c[end], c[start]).between(low, high)
                    & (sa.func.coalesce(c[end] - c[start], 0) <= TIME_LIMIT)
                )
                | ((c[start] == 0) & (c[end] == 0))
            )
        )
    whole = Columns(columns.source, frozenset(damaged), columns.alias)
    select = careful(whole)
    for condition in conditions:
        select = select.where(condition(whole))
    return replace(rows, select=select), notes


def _no_number(name: str, real: bool) -> str:
    number = "number" if real else "whole number"
    return f"cells of {name} that hold no {number} are not recorded"


def _is_whole(name: str, columns: Columns) -> sa.ColumnElement[bool]:
    return columns.raw(name).is_(None) | columns[name].is_not(None)
