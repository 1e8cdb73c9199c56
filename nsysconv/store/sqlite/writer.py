"""Rows into a SQLite store.

A new store grows under a temporary name and appears under its own only when complete; an existing one
gets everything in one transaction. A killed import leaves the store as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import InputError, InUseError, NsysconvError, UsageError
from nsysconv.partials import building, sweep
from nsysconv.refusals import (
    exceeds_size_limit,
    file_too_large,
    reason_of,
    refusal_error,
    write_failure,
)
from nsysconv.store.database import Appeared, is_store, require_store
from nsysconv.store.publish import check_folder, followed, publish
from nsysconv.store.recording import SOURCE
from nsysconv.store.sqlite.connection import (
    PAGE_SIZE,
    DamagedError,
    SqliteConnection,
    create_schema,
    sqlite_uri,
)
from nsysconv.store.sqlite.network import alone, file_system
from nsysconv.store.sqlite.rows import SqliteRows
from nsysconv.store.write import ProfileRows, Writer

_READ_BYTES = 1 << 20


class UnwrittenError(UsageError):
    """SQLite could not write, or not read, and nobody knows why."""


class _Changing(SqliteConnection):
    """A connection to a file that is written to. SQLite does not say why a write failed; this does."""

    _file: Path | None = None

    def __init__(self, file: Path, mode: str, place: Path) -> None:
        super().__init__(sqlite_uri(file, mode), str(place))
        self._file = file  # until now nothing was written

    def translated(self, error: BaseException) -> NsysconvError:
        """As for any connection."""
        if self._file is None or "disk I/O error" not in str(error):
            return super().translated(error)
        reason = write_failure(self._file, _journal(self._file))
        if reason is not None:
            return refusal_error(reason, self.place)
        return UnwrittenError(
            "the system refused to write it, SQLite says: disk I/O error",
            where=self.place,
            hint="Look for a quota (quota -s) and for errors of the disk (dmesg); nothing was changed.",
        )


def _require_readable(source: Path) -> None:
    """Raises InputError where it is the source that the disk refuses to read."""
    try:
        with source.open("rb") as file:
            while file.read(_READ_BYTES):
                pass
    except OSError as error:
        raise InputError(f"it cannot be read: {reason_of(error)}", where=str(source)) from error


def _journal(file: Path) -> Path:
    """Where SQLite keeps what a transaction has overwritten: not beside a link to the file."""
    real = file.resolve()
    return real.with_name(f"{real.name}-journal")


class SqliteWriter(Writer):
    """Writes to a SQLite store; nobody else can meanwhile."""

    _connection: SqliteConnection

    @contextmanager
    def _attached(self, source: Path) -> Iterator[None]:
        self._connection.attach_source(source, SOURCE)
        try:
            yield
        except DamagedError as error:
            # SQLite does not say which of the two files it met the damage in.
            if not self._is_sound(SOURCE):
                error.where = str(source)
            raise
        except UnwrittenError:
            _require_readable(source)
            raise
        finally:
            self._connection.execute(f"DETACH {SOURCE}")

    def _is_sound(self, database: str) -> bool:
        """Reads all of an attached database to see whether SQLite can."""
        try:
            return self._connection.value(f"PRAGMA {database}.quick_check(1)") == "ok"
        except DamagedError:
            return False

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._set_strict(strict=True)
            yield
            self._set_strict(strict=False)
            self._connection.execute("COMMIT")  # which waits for readers, and not for ever
        except BaseException:
            with suppress(NsysconvError):  # a signal came when all was done
                self._connection.execute("ROLLBACK")
            raise

    def _set_strict(self, *, strict: bool) -> None:
        """Makes the event tables STRICT while rows come in: SQLite then refuses cells of a wrong type.

        STRICT is a word in the table's definition and nothing in its rows, but SQLite before 3.37 cannot
        open a file that has it. So it stands there only inside this transaction (docs/decisions/0008); a
        check of every cell in SQL costs as much as copying the rows.
        """
        sql = "sql || ' STRICT'" if strict else "substr(sql, 1, length(sql) - length(' STRICT'))"
        names = ", ".join(f"'{name}'" for name in schema.EVENT_TABLES)
        self._connection.execute("PRAGMA writable_schema=ON")
        self._connection.execute(
            f"UPDATE sqlite_master SET sql = {sql} WHERE type = 'table' AND name IN ({names})"
        )
        self._connection.execute("PRAGMA writable_schema=RESET")

    def _profile_ids(self) -> Iterator[int]:
        last = sa.select(sa.func.coalesce(sa.func.max(schema.profile.c.id), 0))
        yield from count(self._connection.number(last) + 1)

    def _rows_of(self, profile_id: int) -> ProfileRows:
        return SqliteRows(self._connection, profile_id)

    def _alone(self) -> None:
        pass  # since the transaction began


class _Adding(SqliteWriter):
    """Writes to a store that was there before: what a failed transaction has written is taken back."""

    def __init__(self, connection: SqliteConnection, path: Path) -> None:
        super().__init__(connection)
        self._path = path

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if exceeds_size_limit(self._path):  # and could not be taken back
            raise refusal_error(file_too_large(), str(self._path))
        try:
            with super()._transaction():
                yield
        except BaseException:
            self._take_back()
            raise

    def _take_back(self) -> None:
        """After a write that failed SQLite leaves this to whoever looks at the file next. It needs no
        room: what was there is written to where it was.
        """
        journal = _journal(self._path)
        if not journal.exists():
            return
        try:
            self._connection.number("SELECT count(*) FROM sqlite_schema")
        except InUseError:
            pass  # somebody else writes there, who has looked first
        except NsysconvError as error:
            raise UsageError(
                f"not all was written, and what was cannot be taken back now: {error.what}",
                where=str(self._path),
                hint=f"Keep {journal.name} beside it: without it the store is damaged. Once the cause is "
                "gone, the next nsysconv that may write there takes it back.",
            ) from error


def _opened(path: Path) -> _Changing:
    """A connection to add to a store. Raises UsageError also where the file system knows no locks."""
    try:
        return _Changing(path, "rw", path)
    except InputError:
        kind = file_system(path)
        if kind is None:
            raise
        raise UsageError(
            f"nothing can be added to a store on this file system ({kind}): SQLite cannot lock it",
            where=str(path),
            hint="Import everything at once into a new store, or into PostgreSQL.",
        ) from None


@contextmanager
def writing(path: Path, appeared: Appeared | None) -> Iterator[SqliteWriter]:
    """A writer on the store at `path`, as `write.writing`."""
    followed(path)
    sweep(path)
    if path.exists():
        require_store(path)
        with alone(path), _opened(path) as connection:
            yield _Adding(connection, path)
        return
    if path.is_symlink():
        raise UsageError(
            "a link to a file that does not exist",
            where=str(path),
            hint="Remove it, or name the file that is to be made.",
        )
    check_folder(path)
    with building(path) as partial:
        # Nobody else knows the name: no locks, which some network file systems do not have.
        with _Changing(partial, "rwc&nolock=1", path) as connection:
            # What a crash leaves is not a store, so nothing need be flushed on the way. It is, once,
            # before it gets its name.
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA journal_mode=MEMORY")
            connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
            create_schema(connection)
            yield SqliteWriter(connection)
        try:
            publish(partial, path)
        except InUseError:
            if appeared is None or not is_store(path):
                raise
            appeared(partial, path)
        except OSError as error:
            raise refusal_error(error, str(path)) from error
