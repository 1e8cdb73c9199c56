"""Rows into a SQLite store.

A new store grows under a temporary name and appears under its own only when complete; an existing one
gets everything in one transaction. A killed import leaves the store as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path

import pyarrow as pa
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
from nsysconv.store.filesystem import (
    follow_links,
    lock_for_adding,
    network_file_system,
    publish,
    require_folder,
)
from nsysconv.store.read import Extent
from nsysconv.store.recording import SOURCE, SourceRows, with_profile_id
from nsysconv.store.sqlite.connection import (
    PAGE_SIZE,
    DamagedError,
    SqliteConnection,
    check_store,
    create_schema,
    open_for_reading,
    schema_version,
    shared_descriptor,
    sqlite_uri,
)
from nsysconv.store.write import ProfileRows, Progress, Writer

_READ_BYTES = 1 << 20


class UnwrittenError(UsageError):
    """SQLite could not write, or not read, and nobody knows why."""


class ChangingConnection(SqliteConnection):
    """A connection to a file that is written to. SQLite does not say why a write failed; this does."""

    _file: Path | None = None

    def __init__(self, file: Path, mode: str, place: Path) -> None:
        """Open the file; `mode` is that of `sqlite_uri`, `place` what errors call it."""
        super().__init__(sqlite_uri(file, mode), str(place))
        self._file = file  # until now nothing was written

    def translated(self, error: BaseException) -> NsysconvError:
        """Return the error to raise for what SQLite said, with the reason of a write that failed."""
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
    """Raise InputError where it is the source that the disk refuses to read."""
    try:
        with source.open("rb") as file:
            while file.read(_READ_BYTES):
                pass
    except OSError as error:
        raise InputError(f"it cannot be read: {reason_of(error)}", where=str(source)) from error


def _journal(file: Path) -> Path:
    real = file.resolve()
    return real.with_name(f"{real.name}-journal")


class SqliteWriter(Writer):
    """A writer to a SQLite store, which excludes other writers meanwhile."""

    _connection: SqliteConnection

    def __init__(self, connection: SqliteConnection, path: Path) -> None:
        """Write to the store at `path`, through a connection to it."""
        super().__init__(connection, partial(open_for_reading, path))
        self._path = path

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
        try:
            return bool(self._connection.value(f"PRAGMA {database}.quick_check(1)") == "ok")
        except DamagedError:
            return False

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # The commit waits for readers, and not for ever.
        with self._connection.transaction("BEGIN IMMEDIATE"):
            self._set_strict(strict=True)
            yield
            self._set_strict(strict=False)

    def _set_strict(self, *, strict: bool) -> None:
        # SQLite then refuses cells of a wrong type; a check of every cell in SQL costs as much as
        # copying. STRICT is a word in the table's definition and nothing in its rows, but SQLite
        # before 3.37 cannot open a file that has it. So it is there only inside this transaction
        # (docs/decisions/0008).
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

    def give_back_space(self) -> int:
        """Have SQLite write the file anew where it has free pages; a kill leaves it as it was.

        Killed between its end and the cut of the file, it leaves pages behind the last one.
        """
        count, free, size = (
            self._connection.number(f"PRAGMA {name}")
            for name in ("page_count", "freelist_count", "page_size")
        )
        before = self._path.stat().st_size
        if not free and before <= count * size:
            return 0
        self._connection.execute("VACUUM")
        return before - self._path.stat().st_size


class _Adding(SqliteWriter):
    """Writes to a store that was there before: what a failed transaction has written is taken back."""

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
        # SQLite leaves this to whoever looks at the file next. It needs no room on the disk: the
        # old bytes are written to where they were.
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


def _opened(path: Path) -> ChangingConnection:
    try:
        return ChangingConnection(path, "rw", path)
    except InputError:
        kind = network_file_system(path)
        if kind is None:
            raise
        raise UsageError(
            f"nothing can be added to a store on this file system ({kind}): SQLite cannot lock it",
            where=str(path),
            hint="Import everything at once into a new store, or into PostgreSQL.",
        ) from None


@contextmanager
def write_file(
    path: Path, on_name_taken: Callable[[Path, Path], None] | None
) -> Iterator[SqliteWriter]:
    """Open a writer on the store at `path`, as `location.writing` does."""
    follow_links(path)
    sweep(path)
    if path.exists():
        check_store(path, to_write=True)
        with lock_for_adding(path), _opened(path) as connection:
            connection.read_pages(shared_descriptor(path), path)
            yield _Adding(connection, path)
        return
    if path.is_symlink():
        raise UsageError(
            "a link to a file that does not exist",
            where=str(path),
            hint="Remove it, or name the file that is to be made.",
        )
    require_folder(path)
    with building(path) as new_file:
        # Nobody else knows the name: no locks, which some network file systems do not have.
        with ChangingConnection(new_file, "rwc&nolock=1", path) as connection:
            # What a crash leaves is not a store, so nothing need be flushed on the way. It is, once,
            # before it gets its name.
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA journal_mode=MEMORY")
            connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
            create_schema(connection)
            # Closing it drops no lock: there is none.
            with new_file.open("rb") as file:
                connection.read_pages(file.fileno(), new_file)
                yield SqliteWriter(connection, new_file)
        try:
            publish(new_file, path)
        except InUseError:
            if on_name_taken is None or schema_version(path) is None:
                raise
            on_name_taken(new_file, path)
        except OSError as error:
            raise refusal_error(error, str(path)) from error


# SQLite prints these if a table does not admit a row.
_REFUSED = ("constraint failed", "cannot store")

# A statement copies so many source rows in half a second, which limits the delay of Ctrl-C and of
# progress.
ROWS_AT_ONCE = 500_000


class SqliteRows(ProfileRows):
    """The database numbers the rows; those of a profile are contiguous (docs/decisions/0004)."""

    def __init__(self, connection: SqliteConnection, profile_id: int) -> None:
        """Give the rows of the new profile numbers behind the last ones of each table."""
        super().__init__(connection, profile_id)
        self._before = self._last_ids()

    def spans(self) -> dict[str, Extent]:
        """Return by event table the ids of the profile's rows; tables without rows are left out."""
        last = self._last_ids()
        return {
            name: Extent(before + 1, last[name])
            for name, before in self._before.items()
            if last[name] > before
        }

    def _is_refusal(self, error: InputError) -> bool:
        return any(words in str(error) for words in _REFUSED)

    def _ingest(self, name: str, rows: pa.Table) -> None:
        self._connection.ingest(name, with_profile_id(rows, self._profile_id))

    def _copy(self, batch: SourceRows, progress: Progress) -> None:
        table = schema.metadata.tables[batch.table]
        names = ["profile_id", *(c.name for c in batch.select.selected_columns)]
        rows = batch.select.with_only_columns(
            sa.literal_column(str(self._profile_id)), *batch.select.selected_columns
        )
        if batch.sparse:
            self._connection.execute(sa.insert(table).from_select(names, rows))
            return
        for low in range(batch.first, batch.last + 1, ROWS_AT_ONCE):
            high = min(low + ROWS_AT_ONCE - 1, batch.last)
            piece = rows.where(
                batch.row_id.between(sa.literal_column(str(low)), sa.literal_column(str(high)))
            )
            self._connection.execute(sa.insert(table).from_select(names, piece))
            progress(batch.table, high - low + 1)

    def _last_ids(self) -> dict[str, int]:
        (ids,) = self._connection.rows(_select_last_ids())
        return ids


@cache
def _select_last_ids() -> str:
    last_ids = (
        sa.select(sa.func.coalesce(sa.func.max(schema.metadata.tables[name].c.id), 0))
        .scalar_subquery()
        .label(name)
        for name in schema.EVENT_TABLES
    )
    return SqliteConnection.compiled(sa.select(*last_ids))
