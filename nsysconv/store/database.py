"""A store's file: made, recognised, opened. SQL text is compiled here and nowhere else."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.schema import CreateTable

from nsysconv import schema
from nsysconv.errors import InputError, UsageError
from nsysconv.store.connection import Connection, sqlite_uri
from nsysconv.store.views import views

# 16 KiB pages: 15 % faster to fill and read than 4 KiB on event tables.
PAGE_SIZE = 16_384

_DIALECT = sqlite_dialect.dialect(paramstyle="named")
_HEADER = b"SQLite format 3\0"


def compiled(statement: sa.ClauseElement) -> str:
    """The SQL text of a statement, values written in."""
    return str(statement.compile(dialect=_DIALECT, compile_kwargs={"literal_binds": True}))


def create_schema(connection: Connection) -> None:
    """Makes tables, views and version marks in an empty database."""
    connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
    connection.execute("BEGIN")
    for table in schema.metadata.sorted_tables:
        connection.execute(str(CreateTable(table).compile(dialect=_DIALECT)))
    for name, statement in views().items():
        connection.execute(f"CREATE VIEW {name} AS {compiled(statement)}")
    connection.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={schema.SCHEMA_VERSION}")
    connection.execute("COMMIT")


def is_store(path: Path) -> bool:
    """Whether a file is a store of ours, of any version. Reads the header only."""
    try:
        with path.open("rb") as file:
            header = file.read(72)
    except OSError:
        return False
    return header.startswith(_HEADER) and header[68:72] == schema.APPLICATION_ID.to_bytes(4, "big")


def require_store(path: Path) -> None:
    """Raises unless the file is a store of the version this program reads and writes."""
    if not path.exists():
        raise InputError("no such file", where=str(path))
    if not is_store(path):
        raise InputError(
            "not an nsysconv store",
            where=str(path),
            hint="`nsysconv import FILE -o STORE` makes one; `nsysconv info FILE` tells what a file is.",
        )
    with path.open("rb") as file:
        version = int.from_bytes(file.read(64)[60:64], "big")
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
