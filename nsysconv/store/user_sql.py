"""People's own SQL on a store: views with names resolved, and errors that suggest names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import sqlalchemy as sa

from nsysconv import codes, schema
from nsysconv.errors import UsageError
from nsysconv.report import MISSING


def views() -> dict[str, sa.SelectBase]:
    """Return the statements of views: events with words and names, and all GPU operations."""
    result: dict[str, sa.SelectBase] = {
        f"v_{name.rstrip('_')}": _resolved(schema.metadata.tables[name])
        for name in schema.EVENT_TABLES
    }
    result["v_sync"] = _sync()
    result["v_gpu_op"] = _gpu_ops()
    return result


OF_STEPS = ("step", "occurrence")
"""Columns that a view has for a query that names one of them."""
STEPS_TABLE = "step_of_event"
"""A query's own table: from event `first_id` of a table and process on, events are in this step."""
_AT_ONCE = 10_000

FindSteps = Callable[[Sequence[str]], Sequence[tuple[Any, ...]]]
"""Returns the rows of STEPS_TABLE for tables of events."""


def statements_before(sql: str, find_steps: FindSteps, store: str = "") -> list[str]:
    """Return what makes the steps of events columns of the views in a query; nothing if it names none.

    `store` is what the names of its views begin with where a temporary view hides them.
    """
    words = {word.lower() for word in _WORD.findall(sql)}
    views = {view: tables for view, tables in with_steps().items() if view in words}
    if not views or not words.intersection(OF_STEPS):
        return []
    rows = find_steps([*{table for tables in views.values() for table in tables}])
    values = [f"({', '.join(map(_literal, row))})" for row in rows]
    return [
        f"CREATE TEMP TABLE {STEPS_TABLE} (kind TEXT, profile_id BIGINT, pid BIGINT, first_id BIGINT, "
        f"step TEXT, occurrence BIGINT, PRIMARY KEY (kind, profile_id, pid, first_id))",
        *(
            f"INSERT INTO {STEPS_TABLE} VALUES {', '.join(values[low : low + _AT_ONCE])}"
            for low in range(0, len(values), _AT_ONCE)
        ),
        *(_with_steps(view, tables, store) for view, tables in views.items()),
    ]


def _literal(value: str | int | None) -> str:
    if isinstance(value, str):
        value = "'{}'".format(value.replace("'", "''").replace("\0", ""))
    return "NULL" if value is None else str(value)


def with_steps() -> dict[str, tuple[str, ...]]:
    """Return the views of GPU operations and of events of threads, with the tables of each."""
    tables = schema.metadata.tables.items()
    of_threads = [name for name, table in tables if {"tid", "start_ns"} <= {*table.c.keys()}]
    # Collectives have times of threads or of GPUs; a synchronization is a thread's.
    of_threads = [
        *(name for name in of_threads if name != schema.collective.name),
        schema.sync.name,
    ]
    alone = (*schema.GPU_OP_TABLES, *of_threads)
    return {f"v_{name}": (name,) for name in alone} | {"v_gpu_op": schema.GPU_OP_TABLES}


def _with_steps(view: str, tables: Sequence[str], store: str) -> str:
    kind = "v.kind" if len(tables) > 1 else f"'{tables[0]}'"
    found = (
        f"(SELECT s.{name} FROM {STEPS_TABLE} s WHERE s.kind = {kind} AND s.profile_id = v.profile_id "
        f"AND s.pid = coalesce(v.pid, {MISSING}) AND s.first_id <= v.id "
        f"ORDER BY s.first_id DESC LIMIT 1) AS {name}"
        for name in OF_STEPS
    )
    return f"CREATE TEMP VIEW {view} AS SELECT v.*, {', '.join(found)} FROM {store}{view} v"


VIEW_DOCS = {
    "v_gpu_op": "Every GPU operation: kernels, copies, memsets, migrations and graph launches.",
    "v_sync": "As `sync`, with the API call that waited, which tells the kind of wait.",
}
"""Selects of the views that are more than their table with names in place of numbers."""


def _name(
    table: sa.FromClause, column: sa.ColumnElement[Any], label: str, *, plain: bool = False
) -> sa.ColumnElement[Any]:
    names = schema.name.alias()
    text = sa.func.coalesce(names.c.plain, names.c.text) if plain else names.c.text
    return (
        sa.select(text)
        .where(names.c.profile_id == table.c.profile_id, names.c.id == column)
        .scalar_subquery()
        .label(label)
    )


def _word(column: sa.ColumnElement[Any], words: tuple[str, ...]) -> sa.ColumnElement[Any]:
    return sa.case(dict(enumerate(words)), value=column)


def _resolved(table: sa.Table) -> sa.Select[Any]:
    columns: list[sa.ColumnElement[Any]] = []
    for column in table.columns:
        if column.name.endswith("name_id") or (
            table is schema.page_fault and column.name in codes.PAGE_FAULT_NAMES
        ):
            columns.append(_name_of(table, column))
        elif column.info.get("codes"):
            columns.append(_word(column, column.info["codes"]).label(column.name))
        elif not (table is schema.range_ and column.name == "text"):
            columns.append(column)
    return sa.select(*columns, *_added(table))


def _added(table: sa.Table) -> list[sa.ColumnElement[Any]]:
    """Return what a view has that its table has not: when the event ended, and its process's rank."""
    found: list[sa.ColumnElement[Any]] = []
    if "dur_ns" in table.c:
        found.append((table.c.start_ns + table.c.dur_ns).label("end_ns"))
    if "pid" in table.c:
        process = schema.process.alias()
        mine = (process.c.profile_id == table.c.profile_id) & (process.c.pid == table.c.pid)
        found.append(
            sa.select(sa.func.max(process.c.rank)).where(mine).scalar_subquery().label("rank")
        )
    return found


def _name_of(table: sa.Table, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    label = column.name.removesuffix("_id")
    if table is schema.range_:
        return sa.func.coalesce(_name(table, column, "registered"), table.c.text).label(label)
    return _name(table, column, label, plain=table is schema.api_call)


def _sync() -> sa.Select[Any]:
    sync, call, names = schema.sync, schema.api_call, schema.name
    # Two calls may share a correlation id: the first is the one that waited.
    by_id = (call.c.profile_id, call.c.pid, call.c.correlation_id)
    first_ids = sa.select(*by_id, sa.func.min(call.c.id).label("id")).group_by(*by_id).subquery()
    first = (
        sa.select(*by_id, call.c.name_id)
        .join(
            first_ids, (first_ids.c.profile_id == call.c.profile_id) & (first_ids.c.id == call.c.id)
        )
        .subquery("first")
    )
    return sa.select(
        *sync.columns,
        sa.func.coalesce(names.c.plain, names.c.text).label("api_call"),
        *_added(sync),
    ).select_from(
        sync.outerjoin(
            first,
            (first.c.profile_id == sync.c.profile_id)
            & (first.c.pid == sync.c.pid)
            & (first.c.correlation_id == sync.c.correlation_id)
            & (sync.c.correlation_id != 0),
        ).outerjoin(
            names, (names.c.profile_id == first.c.profile_id) & (names.c.id == first.c.name_id)
        )
    )


def _gpu_ops() -> sa.CompoundSelect[Any]:
    shared = "id profile_id start_ns dur_ns pid device_id context_id stream_id correlation_id"
    parts = []
    for kind in schema.GPU_OP_TABLES:
        table = schema.metadata.tables[kind]
        size = table.c.bytes if "bytes" in table.c else sa.null()
        parts.append(
            sa.select(
                sa.literal(kind, sa.Text).label("kind"),
                *(table.c[name] for name in shared.split()),
                size.label("bytes"),
                _op_name(table),
                *_added(table),
            )
        )
    return sa.union_all(*parts)


def _op_name(table: sa.Table) -> sa.ColumnElement[Any]:
    if table is schema.kernel:
        return _name(table, table.c.name_id, "name")
    if "direction" in table.c:
        prefix = "UM " if table is schema.unified_memory_event else "memcpy "
        return (sa.literal(prefix) + _word(table.c.direction, codes.DIRECTIONS)).label("name")
    return sa.literal(table.name, sa.Text).label("name")


ONLY_SELECTS = "only selects on tables and views are run: a store is changed by imports alone"

# These are the words of SQLite, or of its Python module, and of PostgreSQL.
_SEVERAL = re.compile("one statement at a time|multiple commands into a prepared statement")
_NO_TABLE = re.compile(r'no such table: (?:\w+\.)?(\w+)|relation "(?:\w+\.)?(\w+)" does not exist')
_NO_COLUMN = re.compile(
    r'no such column: "?(?:\w+\.)*(\w+)|column "?(?:\w+\.)*(\w+)"? does not exist'
)
_WORD = re.compile(r"\w+")


def misunderstood(database: str, words: str, sql: str, listing: str) -> UsageError:
    """Return the error for a query that cannot be run; its hint has names close to a wrong one."""
    if _SEVERAL.search(words):
        return UsageError("there are several statements: only one select is run at a time")
    near = _near(words, sql)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return UsageError(f"{database} cannot run the query: {words}", hint=f"{meant}{listing}")


def _near(words: str, sql: str) -> list[str]:
    columns = {name: list(table.columns.keys()) for name, table in schema.metadata.tables.items()}
    columns |= {
        name: [*view.selected_columns.keys(), *(OF_STEPS if name in with_steps() else ())]
        for name, view in views().items()
    }
    if table := _NO_TABLE.search(words):
        return _close(table, columns)
    if column := _NO_COLUMN.search(words):
        mentioned = columns.keys() & {word.lower() for word in _WORD.findall(sql)}
        return _close(column, (name for table in mentioned or columns for name in columns[table]))
    return []


def _close(match: re.Match[str], names: Iterable[str]) -> list[str]:
    name = next(group for group in match.groups() if group)
    # What has this very name is of a later version than the store.
    return get_close_matches(name.lower(), sorted(set(names) - {name.lower()}))
