"""A store's file: made, recognised, opened. SQL text is compiled here and nowhere else."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.schema import CreateTable

from nsysconv import schema
from nsysconv.errors import InputError, NsysconvError, UsageError
from nsysconv.store.connection import Connection, sqlite_uri
from nsysconv.store.views import views

# 16 KiB pages: 15 % faster to fill and read than 4 KiB on event tables.
PAGE_SIZE = 16_384

_DIALECT = sqlite_dialect.dialect(paramstyle="named")


def compiled(statement: sa.ClauseElement) -> str:
    """The SQL text of a statement, values written in."""
    return str(statement.compile(dialect=_DIALECT, compile_kwargs={"literal_binds": True}))


def create_schema(connection: Connection) -> None:
    """Makes tables, views and version marks in an empty database (whose page size is set)."""
    connection.execute("BEGIN")
    for statement in _schema_statements():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={schema.SCHEMA_VERSION}")
    connection.execute("COMMIT")


@cache
def _schema_statements() -> tuple[str, ...]:
    """What makes tables and views, compiled once: a process may make many stores."""
    tables = [
        str(CreateTable(table).compile(dialect=_DIALECT)) for table in schema.metadata.sorted_tables
    ]
    return (*tables, *(f"CREATE VIEW {name} AS {sql}" for name, sql in view_statements().items()))


@cache
def view_statements() -> dict[str, str]:
    """The SQL of the views by name."""
    return {name: compiled(statement) for name, statement in views().items()}


def is_store(path: Path) -> bool:
    """Whether a file is a store of ours, of any version."""
    return _marks(path)[0] == schema.APPLICATION_ID


def _marks(path: Path) -> tuple[int, int]:
    """Application id and schema version of a file; zeros where it is no SQLite database.

    Asked through the store's own library: opening and closing a file by any other way drops the locks
    that this process holds on it.
    """
    if not path.is_file():
        return 0, 0
    try:
        with Connection(sqlite_uri(path, "ro&immutable=1"), str(path)) as connection:
            application = connection.value("PRAGMA application_id")
            version = connection.value("PRAGMA user_version")
            return int(str(application)), int(str(version))
    except NsysconvError:
        return 0, 0


def require_store(path: Path) -> None:
    """Raises unless the file is a store of the version this program reads and writes."""
    if not path.exists():
        raise InputError("no such file", where=str(path))
    application, version = _marks(path)
    if application != schema.APPLICATION_ID:
        raise InputError(
            "not an nsysconv store",
            where=str(path),
            hint="`nsysconv import FILE -o STORE` makes one; `nsysconv info FILE` tells what a file is.",
        )
    if version != schema.SCHEMA_VERSION:
        newer = version > schema.SCHEMA_VERSION
        raise InputError(
            f"the store has schema version {version}, this nsysconv reads {schema.SCHEMA_VERSION}",
            where=str(path),
            hint="Upgrade it: pip install --upgrade nsysconv"
            if newer
            else "Import the original files again into a new store: nsysconv import FILE… -o NEW.db",
        )


def open_for_reading(path: Path) -> Connection:
    """A connection that changes nothing.

    Opened read-write where that is allowed: only then can SQLite roll back what a killed writer left.
    """
    require_store(path)
    try:
        connection = Connection(sqlite_uri(path, "rw"), str(path))
    except UsageError:
        connection = Connection(sqlite_uri(path, "ro"), str(path))
    connection.execute("PRAGMA query_only=ON")
    return connection


def attach_source(connection: Connection, path: Path, name: str) -> None:
    """Attaches a profiler's SQLite file; neither it nor its folder is ever written to."""
    uri = sqlite_uri(path, "ro&immutable=1").replace("'", "''")
    connection.execute(f"ATTACH '{uri}' AS {name}")
    # Its tables are read from end to end: a cache would hold pages that nobody asks for again.
    connection.execute(f"PRAGMA {name}.cache_size=-256")
