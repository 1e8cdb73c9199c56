"""A store in a SQLite file: connections, marks, tables.

Python's own `sqlite3` is a second copy of the SQLite library. Two copies in one process do not know of
each other's POSIX locks: whichever closes the file first drops the locks of both, and another process
can write into an open transaction. So nothing in nsysconv opens a store with `sqlite3`
(docs/decisions/0003).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path, PurePath
from threading import Lock
from typing import Any
from urllib.parse import quote
from zlib import crc32

import adbc_driver_sqlite
import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.schema import CreateTable

from nsysconv import schema
from nsysconv.errors import InputError, InUseError, NsysconvError, UsageError
from nsysconv.refusals import open_files_failure, refusal_error
from nsysconv.report import MISSING, Unit, values_of
from nsysconv.store.connection import (
    Connection,
    NumberedTexts,
    Row,
    check_version,
    rows_of_profiles,
    run_with,
    select_columns,
    to_schema_types,
)
from nsysconv.store.filesystem import lock_file, network_file_system
from nsysconv.store.sqlite import page_reader
from nsysconv.store.user_sql import views

# 16 KiB pages: 15 % faster to fill and read than 4 KiB on event tables.
PAGE_SIZE = 16_384

BUSY_MS = 5_000

# The schema name of the file that was opened, as opposed to one that is attached.
_MAIN = "main"

# How SQL writes a parameter.
_BOUND = "?"

# Rows are appended and read in order; a large page cache would only be memory.
_CACHE_KIB = 512


def sqlite_uri(path: Path, mode: str) -> str:
    """Return a SQLite URI for a file; `mode` follows `mode=`: ro, rw, rwc, ro&immutable=1."""
    return file_uri(path.absolute()) + f"?mode={mode}"


def file_uri(path: PurePath) -> str:
    """Return the URI by which SQLite opens an absolute path."""
    name = path.as_posix()
    # One with a drive, C:/runs.db, begins without a slash; that of a share has two of its own.
    return f"file://{'' if name[0] == '/' else '/'}{quote(os.fsencode(name))}"


class DamagedError(InputError):
    """SQLite cannot read a file that it had begun to read."""


class SqliteConnection(Connection):
    """A connection to a SQLite file, or to a database in memory."""

    DIALECT = sqlite_dialect.dialect(paramstyle="named")
    NUL = "\\x00"
    SNAPSHOT = "BEGIN"
    BATCH_OPTION = "adbc.sqlite.query.batch_rows"
    BATCH_ROW = 1

    def __init__(self, uri: str, place: str, *, reads_schema: bool = True) -> None:
        """Open the database at `uri`. With `reads_schema` false only the file's header is read."""
        self._descriptor: int | None = None
        self._path: Path | None = None
        self._uri = uri
        hold_descriptors()
        try:
            super().__init__(adbc_driver_sqlite._driver_path(), uri, place)
        except BaseException:
            release_descriptors()
            raise
        self._holds = True
        try:
            # Views and triggers of a hostile file must not call functions with side effects.
            self.execute("PRAGMA trusted_schema=OFF")
            self.execute(f"PRAGMA busy_timeout={BUSY_MS}")
            if reads_schema:
                self.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        except BaseException:
            self.close()
            raise

    @property
    def reading_uri(self) -> str:
        """Return the URI by which another process opens the same file read-only."""
        return self._uri.replace("?mode=rw", "?mode=ro")

    def close(self) -> None:
        """Close the connection, and release the descriptors that it kept open."""
        super().close()
        if self._holds:
            self._holds = False
            release_descriptors()

    def typed_batches(
        self, columns: Sequence[sa.Column[Any]], condition: sa.ColumnElement[bool], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns with the schema's types; here any cell can have any type, so each is checked."""
        statement = (
            select_columns(columns).where(condition).order_by(*columns[0].table.primary_key.columns)
        )
        return (to_schema_types(batch, columns) for batch in self.batches(statement, rows))

    def read_pages(self, descriptor: int | None, path: Path) -> None:
        """Let `columns` read pages through a descriptor that was taken before this connected to `path`.

        Not where another file has taken that name since.
        """
        self._path = path
        if descriptor is not None and is_open_on(descriptor, path):
            self._descriptor = descriptor

    def columns(
        self, columns: Sequence[sa.Column[Any]], profile_id: int, first_id: int, last_id: int
    ) -> Generator[list[np.ndarray]]:
        """Yield integer columns, straight from the pages where these can be read."""
        if self._descriptor is None or last_id - first_id + 1 < page_reader.WORTH_ROWS:
            return super().columns(columns, profile_id, first_id, last_id)
        return self._columns_from_pages(columns, profile_id, first_id, last_id)

    def _columns_from_pages(
        self, columns: Sequence[sa.Column[Any]], profile_id: int, first_id: int, last_id: int
    ) -> Generator[list[np.ndarray]]:
        for next_id, values in self.paged(columns, first_id, last_id):
            first_id = next_id
            if len(values[0]):
                yield values
        if first_id <= last_id:
            yield from super().columns(columns, profile_id, first_id, last_id)

    def texts_without_query(
        self, found: NumberedTexts, text: sa.Column[Any], first_id: int, last_id: int
    ) -> int:
        """Add texts straight from the pages, where these can be read."""
        if self._descriptor is not None and last_id - first_id + 1 >= page_reader.WORTH_ROWS:
            columns = [text.table.c.id, text]
            for next_id, (ids, numbers) in self.paged(columns, first_id, last_id, found):
                first_id = next_id
                is_text = numbers != MISSING
                found.add(ids[is_text], numbers[is_text])
        return first_id

    def paged(
        self,
        columns: Sequence[sa.Column[Any]],
        first_id: int,
        last_id: int,
        texts: NumberedTexts | None = None,
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        """Yield columns as `columns` does, each batch with the id of the row that follows.

        Those of texts become the numbers that `texts` gives them. Ends early where SQLite has to go on,
        from the last id that was given.
        """
        table = columns[0].table
        names = [
            None if c.primary_key else as_text(c.name) if c.info["unit"] is Unit.TEXT else c.name
            for c in columns
        ]
        return self._stored(_MAIN, table.name, names, first_id, last_id, texts)

    def _stored(
        self,
        database: str,
        table: str,
        names: Sequence[str | None],
        first: int,
        last: int,
        texts: NumberedTexts | None,
    ) -> Generator[tuple[int, list[np.ndarray]]]:
        # As `page_reader.read`; None among the names means the rows' numbers, the ids of our own tables;
        # those of texts are from `as_text`.
        # What is asked within a transaction leaves a lock: until its end nobody writes.
        with self.transaction():
            roots = self.rows(
                f"SELECT rootpage FROM {database}.sqlite_schema WHERE name = '{table}'"
            )
            declared = self.rows(f"PRAGMA {database}.table_xinfo('{table}')")
            if (
                self._descriptor is None
                or len(roots) != 1
                or any(row["hidden"] for row in declared)
            ):
                return
            # Only of a column so declared are the values the rows' numbers.
            keys = [(row["name"], row["type"]) for row in declared if row["pk"]]
            if database == _MAIN and keys != [("id", "INTEGER")]:
                return
            places: dict[str, int | page_reader.Texts] = {}
            for place, row in enumerate(declared):
                if page_reader.are_stored_as_read(row["type"], is_key=bool(row["pk"])):
                    places[row["name"]] = place
                elif texts is not None and page_reader.are_texts(row["type"]):
                    part, number = texts.part, texts.numbers_of_bytes
                    signs = [separator.encode() for separator in part.separators]
                    after = part.after.encode()
                    places[as_text(row["name"])] = page_reader.Texts(place, number, signs, after)
            if not places.keys() >= set(names) - {None}:
                return
            wanted = [page_reader.ID if name is None else places[name] for name in names]
            yield from page_reader.read(self._descriptor, roots[0]["rootpage"], wanted, first, last)

    def checksums(self, table: sa.Table, ids: Collection[int]) -> dict[int, tuple[int, int]]:
        """Return by profile how many rows a table has, and a checksum: of events by their pages."""
        owner, rows = rows_of_profiles(table, ids)
        if table.name in schema.EVENT_TABLES:
            of_extents = rows_of_profiles(schema.extent, ids)[1]
            extents = f"SELECT * {of_extents} AND table_name = '{table.name}' ORDER BY first_id"
            return self._checksums_of_pages(table.name, self.rows(extents))
        cells = " || ',' || ".join(
            # A text is quoted as far as its first character 0 alone.
            f"typeof(t.{name}) || hex(t.{name})"
            if c.info["unit"] is Unit.TEXT
            else f"quote(t.{name})"
            for name, c in table.c.items()
            if c not in self.lacking
        )
        order = ", ".join(f"t.{key.name}" for key in table.primary_key.columns)
        sums: dict[int, tuple[int, int]] = {}
        for batch in self.batches(
            f"SELECT {owner}, {cells} {rows} ORDER BY {owner}, {order}", 1 << 13
        ):
            for profile, text in zip(*map(pa.Array.to_pylist, batch.columns), strict=True):
                count, checksum = sums.get(profile, (0, 0))
                sums[profile] = count + 1, crc32(text.encode(), checksum)
        return sums

    def _checksums_of_pages(self, table: str, extents: Sequence[Row]) -> dict[int, tuple[int, int]]:
        if not extents:
            return {}
        root = self.value(f"SELECT rootpage FROM sqlite_schema WHERE name = '{table}'")
        if self._descriptor is None and self._path is not None:
            # Unlike a report it cannot go on without.
            self._descriptor = shared_descriptor(self._path, _MOST_FILES_OF_CHECKSUMS)
        try:
            spans = [(int(row["first_id"]), int(row["last_id"])) for row in extents]
            sums = page_reader.checksums(self._descriptor, int(root), spans)
        except (page_reader.UnreadableError, TypeError, ValueError):
            if self._descriptor is None or self.value("PRAGMA journal_mode") == "wal":
                raise UsageError(
                    "its pages cannot be read: it has a write-ahead log, or too many stores are open",
                    where=self.place,
                    hint="A log is ended by: PRAGMA journal_mode=DELETE",
                ) from None
            raise DamagedError(f"the table {table} cannot be read", where=self.place) from None
        return dict(zip((row["profile_id"] for row in extents), sums, strict=True))

    def integrity(self) -> str:
        """Return the first thing that SQLite finds damaged, or `ok`."""
        return str(self.value("PRAGMA integrity_check(1)"))

    def within(
        self, table: sa.Table, profile_id: int, first_id: int, last_id: int
    ) -> sa.ColumnElement[bool]:
        """Return the condition for rows with these ids: no other profile's rows have them."""
        return table.c.id.between(first_id, last_id)

    def ingest(self, table: str, rows: pa.Table) -> None:
        """Append Arrow rows to a table."""
        # A value that all rows share is written into the statement: for each bound value the driver
        # makes several calls, which take longer than SQLite takes for it.
        cells = {name: _common(rows.column(name)) for name in rows.column_names}
        names = ", ".join(f'"{name}"' for name in cells)
        sql = f'INSERT INTO "{table}" ({names}) VALUES ({", ".join(cells.values())})'
        with self._statement(sql) as statement:
            run_with(statement, rows.select([name for name in cells if cells[name] == _BOUND]))

    def translated(self, error: BaseException) -> NsysconvError:
        """Return the error to raise for what SQLite said."""
        text = str(error)
        if "locked" in text or "busy" in text:
            return InUseError(
                "the database is in use by another process",
                where=self.place,
                hint="Wait until that process is done, then try again.",
            )
        if "full" in text and "disk" in text:
            return refusal_error(OSError(errno.ENOSPC, text), self.place)
        if "out of memory" in text or "annot allocate memory" in text:
            return UsageError("not enough memory", where=self.place, hint="Raise the limit of it.")
        if "malformed" in text or "not a database" in text:
            return DamagedError(
                "the file is damaged: SQLite cannot read it",
                where=self.place,
                hint="Copy or export it again; a partial download is the usual cause.",
            )
        if "readonly" in text or "unable to open" in text or "failed to open" in text:
            if (few := open_files_failure()) is not None:
                return refusal_error(few, self.place)
            return UsageError(
                "the file cannot be opened for this",
                where=self.place,
                hint="Check that it exists and that you may read and write it and its folder.",
            )
        return InputError(
            f"SQLite says: {text.splitlines()[0] if text else type(error).__name__}",
            where=self.place,
        )

    def attach_source(self, path: Path, name: str) -> None:
        """Attach a profiler's SQLite file, or a store; neither it nor its folder is ever written to.

        Nobody writes to a profile any more; a store may be written to, so it is read under locks.
        """
        mode = "ro&immutable=1" if schema_version(path) is None else "ro"
        uri = sqlite_uri(path, mode).replace("'", "''")
        self.execute(f"ATTACH '{uri}' AS {name}")
        # Its tables are read from end to end: a cache would hold pages that nobody asks for again.
        self.execute(f"PRAGMA {name}.cache_size=-256")


def as_text(name: str) -> str:
    """Return the name by which a column of texts is asked for, and not one of numbers of that name."""
    return f"{name} as text"


def _common(column: pa.ChunkedArray) -> str:
    if column.null_count == len(column):
        return "NULL"
    if column.type != pa.int64() or column.num_chunks != 1:
        return _BOUND
    values = values_of(column.chunk(0))
    return str(values[0]) if (values == values[0]).all() else _BOUND


def create_schema(connection: SqliteConnection, *, with_views: bool = True) -> None:
    """Make tables, views and version marks in an empty database (whose page size is set)."""
    with connection.transaction():
        for statement in (*_table_statements(), *(_view_statements() if with_views else ())):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={schema.SCHEMA_VERSION}")


@cache
def _table_statements() -> tuple[str, ...]:
    return tuple(map(SqliteConnection.compiled, map(CreateTable, schema.metadata.sorted_tables)))


@cache
def _view_statements() -> tuple[str, ...]:
    compiled = SqliteConnection.compiled
    return tuple(f"CREATE VIEW {name} AS {compiled(sql)}" for name, sql in views().items())


def schema_version(path: Path) -> int | None:
    """Return the version of the schema of the store at `path`; None where there is no store.

    Asked through the store's own library: opening and closing a file by any other way drops the locks
    that this process holds on it.
    """
    if not path.is_file():
        return None
    try:
        # The marks are in the header; the tables of a file that is not a store may have no end.
        uri = sqlite_uri(path, "ro&immutable=1")
        with SqliteConnection(uri, str(path), reads_schema=False) as connection:
            if connection.number("PRAGMA application_id") != schema.APPLICATION_ID:
                return None
            return connection.number("PRAGMA user_version")
    except NsysconvError:
        return None


def check_store(path: Path, *, to_write: bool = False) -> None:
    """Raise InputError unless the file is a store that this program can read, or write to."""
    if not path.exists():
        raise InputError("no such file", where=str(path))
    make = "`nsysconv import FILE -o STORE` makes one; `nsysconv info FILE` tells what a file is."
    check_version(schema_version(path), path, "NEW.db", make, to_write=to_write)


def open_for_reading(path: Path) -> SqliteConnection:
    """Open a store for reading."""
    # Read-write where that is allowed: only then can SQLite roll back what a killed writer left.
    modes = ["rw", "ro"]
    if network_file_system(path) is not None and not lock_file(path).exists():
        # It may know no locks. Nobody writes, so none is needed.
        modes.append("ro&nolock=1")
    hold_descriptors()
    try:
        descriptor = shared_descriptor(path)
        connection = _opened(path, modes)
        connection.read_pages(descriptor, path)
    finally:
        release_descriptors()
    connection.execute("PRAGMA query_only=ON")
    version = connection.number("PRAGMA user_version")
    connection.lacking = schema.columns_since(version)
    later = {f"'{column.table.name}'" for column in connection.lacking if column.primary_key}
    named = f"SELECT 1 FROM sqlite_schema WHERE name IN ({', '.join(later)})"
    if later and connection.rows(named):
        connection.close()
        what = f"the store is damaged: it has a table that version {version} of the schema has not"
        raise DamagedError(what, where=str(path), hint="Import the original files again.")
    return connection


def _opened(path: Path, modes: Sequence[str]) -> SqliteConnection:
    for mode in modes[:-1]:
        with suppress(NsysconvError):
            return SqliteConnection(sqlite_uri(path, mode), str(path))
    return SqliteConnection(sqlite_uri(path, modes[-1]), str(path))


# Enough for the stores of a command; further ones SQLite alone reads. Most systems allow a process 1,024.
MOST_SHARED_FILES = 64
_MOST_FILES_OF_CHECKSUMS = 512

_descriptor_lock = Lock()
_descriptor_holders = 0
_shared_descriptors: dict[tuple[int, int], list[int]] = {}


def hold_descriptors() -> None:
    """Keep all shared descriptors open until `release_descriptors` was called as many times."""
    global _descriptor_holders
    with _descriptor_lock:
        _descriptor_holders += 1


def release_descriptors() -> None:
    """Undo one `hold_descriptors`; call it when the connection has closed the file."""
    global _descriptor_holders
    with _descriptor_lock:
        _descriptor_holders -= 1
        if not _descriptor_holders:
            for number in chain(*_shared_descriptors.values()):
                os.close(number)
            _shared_descriptors.clear()


def shared_descriptor(path: Path, most: int | None = None) -> int | None:
    """Return the shared descriptor for `path`; None where `most` others are open.

    Hold them before, and do not close it.
    """
    most = MOST_SHARED_FILES if most is None else most
    with _descriptor_lock, suppress(OSError):
        status = path.stat()
        descriptors = _shared_descriptors.get((status.st_dev, status.st_ino))
        if descriptors is None and len(_shared_descriptors) < most:
            number = page_reader.open_bytes(path)
            opened = os.fstat(number)
            # Another file may have taken the name meanwhile, one that is known.
            descriptors = _shared_descriptors.setdefault((opened.st_dev, opened.st_ino), [])
            descriptors.append(number)
        if descriptors is not None:
            return descriptors[0]
    return None


def is_open_on(number: int, path: Path) -> bool:
    """Return whether a descriptor is of the file that `path` names now."""
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except OSError:
        return False
