"""Tables and views of a store in PostgreSQL, and the mark that says that they are one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable, SetColumnComment, SetTableComment

from nsysconv import schema
from nsysconv.errors import UsageError
from nsysconv.store.database import check_version
from nsysconv.store.places import Url
from nsysconv.store.postgresql.connection import PostgresqlConnection
from nsysconv.store.views import views

_metadata = sa.MetaData()

MARK = sa.Table(
    "nsysconv_store",
    _metadata,
    sa.Column("schema_version", schema.INTEGER, nullable=False),
    comment="One row: these tables are a store of nsysconv, of this version of its schema.",
)

LOCK = f"SELECT pg_advisory_xact_lock({schema.APPLICATION_ID}, hashtext(current_schema()))"
"""Waits until no other writer of the store holds it; it is let go with the transaction."""

_HERE = "current_schema()::regnamespace"


def schema_version(url: Url) -> int | None:
    """The version of the schema of the store at an address; None where there is no store."""
    with PostgresqlConnection(url, read_only=True) as connection:
        return _version(connection)


def _version(connection: PostgresqlConnection) -> int | None:
    if connection.value(f"SELECT to_regclass('{MARK.name}')::text") is None:
        return None
    return connection.number(sa.select(MARK.c.schema_version))


def make_or_check(connection: PostgresqlConnection, url: Url) -> None:
    """Makes the tables where there are none of ours. Raises where others are in the way, or ours are of
    another version.
    """
    version = _version(connection)
    if version is None:
        connection.execute("BEGIN")
        try:
            connection.rows(LOCK)
            # Another process may have made them while this one waited.
            version = _version(connection)
            if version is None:
                _check_free(connection, url)
                connection.execute(";\n".join(statements()))
                version = schema.SCHEMA_VERSION
        except BaseException:
            connection.roll_back()
            raise
        connection.execute("COMMIT")
    check_version(version, url)


def _check_free(connection: PostgresqlConnection, url: Url) -> None:
    """Raises where names that the store needs are taken."""
    rows = connection.rows(f"SELECT relname::text FROM pg_class WHERE relnamespace = {_HERE}")
    ours = {table.name for table in _tables().sorted_tables} | set(views())
    taken = sorted(ours & {str(row["relname"]) for row in rows})
    if taken:
        raise UsageError(
            f"the database has tables of another program with names of ours: {', '.join(taken)}",
            where=str(url),
            hint="Make a database for nsysconv alone (createdb NAME), or a schema: CREATE SCHEMA "
            "nsysconv, and ?options=-csearch_path%3Dnsysconv behind the address.",
        )


@cache
def statements() -> tuple[str, ...]:
    """What makes tables, views and mark in an empty schema."""
    compiled = PostgresqlConnection.compiled
    tables = _tables().sorted_tables
    return (
        *(compiled(CreateTable(table)) for table in tables),
        *(f"CREATE VIEW {name} AS {compiled(select)}" for name, select in views().items()),
        *(compiled(comment) for table in tables for comment in _comments(table)),
        compiled(sa.insert(MARK).values(schema_version=schema.SCHEMA_VERSION)),
    )


@cache
def _tables() -> sa.MetaData:
    """The tables as PostgreSQL has them."""
    for table in schema.metadata.sorted_tables:
        # Rows are numbered per profile, by who writes them: no writer waits for another's numbers.
        is_event = table.name in schema.EVENT_TABLES
        key = ["profile_id", "id"] if is_event else [c.name for c in table.primary_key.columns]
        counted = key == ["id"]
        sa.Table(
            table.name,
            _metadata,
            *(_column(column, counted=counted and column.name == "id") for column in table.columns),
            sa.PrimaryKeyConstraint(*key),
            *_other_constraints(table),
            comment=table.comment,
        )
    return _metadata


def _column(column: sa.Column[Any], *, counted: bool) -> sa.Column[Any]:
    # Texts are compared by their bytes, as in a file.
    kind = sa.Text(collation="C") if isinstance(column.type, sa.Text) else column.type
    number = (sa.Identity(),) if counted else ()
    return sa.Column(
        column.name, kind, *number, nullable=bool(column.nullable), comment=column.comment
    )


def _other_constraints(table: sa.Table) -> Iterator[sa.Constraint]:
    for constraint in table.constraints:
        if isinstance(constraint, sa.CheckConstraint):
            yield sa.CheckConstraint(str(constraint.sqltext))
        elif isinstance(constraint, sa.UniqueConstraint):
            yield sa.UniqueConstraint(*(column.name for column in constraint.columns))


def _comments(table: sa.Table) -> Iterator[sa.schema.ExecutableDDLElement]:
    yield SetTableComment(table)
    yield from (SetColumnComment(column) for column in table.columns if column.comment)
