"""A look at an input file: what importers sniff and read from. The file is never changed.

Of a SQLite file it gives tables, columns and read-only selects with a time limit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from nsysconv.errors import InputError
from nsysconv.launch import cores
from nsysconv.names import escaped
from nsysconv.notes import Note, Severity
from nsysconv.refusals import is_systemwide, open_files_failure, reason_of, refusal_error
from nsysconv.store.filesystem import private_folder
from nsysconv.store.sqlite import page_reader
from nsysconv.threads import Threads

T = TypeVar("T")

MIN_ROWS_FOR_PAGES = page_reader.WORTH_ROWS
"""`Probe.read_columns` is faster than a select only for tables of this many rows."""

_SQLITE_MAGIC = b"SQLite format 3\0"
_HEAD_BYTES = 1 << 16
_ALL_IDS = (-(1 << 63), (1 << 63) - 1)
# What is read beside the copying of rows is to take little memory.
_BYTES_AT_ONCE = 1 << 19
# The encoding of texts as the header of a SQLite file names it; 0 in one without tables.
_UTF_8 = (0, 1)
# SQLite writes down every plain table with these words, whatever words made it.
_IS_PLAIN = "type='table' AND sql LIKE 'CREATE TABLE %'"

# A select may scan all of a source. What takes longer than this is damage, such as pages that refer to
# each other.
SELECT_SECONDS = 10.0
_SECONDS_PER_MEGABYTE = 1.0
_WATCHDOG_SECONDS = 0.25


@dataclass(frozen=True)
class SourceTable:
    """A plain table of a SQLite source and its columns."""

    name: str
    columns: tuple[str, ...]
    row_id: str | None
    """The name of its row number in SQL; None for a table without row numbers."""
    root: int
    """The page on which its tree begins."""
    stored_columns: Mapping[str, int]
    """The places in a row of those columns whose whole numbers can be read from the pages."""


class Probe:
    """One input file: its first bytes and, for SQLite, its tables and read-only selects.

    A SQLite file with a hot `-wal` or `-journal` is copied into a private folder first, with a note in
    `notes`. `origin` is the file that the user named, if `path` was made from it. Use as a context
    manager: its end waits for background work and removes the copy. `threads` (None: one per core)
    bounds what `submit` runs at once.
    """

    def __init__(
        self, path: Path, origin: Path | None = None, *, threads: int | None = None
    ) -> None:
        """Read the first bytes of the file. Raises InputError if it cannot be read."""
        self.path = path
        self.origin = origin or path
        self.notes: list[Note] = []
        self._resources = ExitStack()
        self._executor = Threads(threads or cores())
        try:
            state = path.stat()
            if not stat.S_ISREG(state.st_mode):
                kind = "a folder" if stat.S_ISDIR(state.st_mode) else "not a regular file"
                hint = (
                    ""
                    if kind == "a folder"
                    else "Save it to a file first: it is read more than once."
                )
                raise InputError(kind, where=str(path), hint=hint)
            with path.open("rb") as file:
                self.head = file.read(_HEAD_BYTES)
            self.size = state.st_size
        except OSError as error:
            if is_systemwide(error):
                raise refusal_error(error, str(path)) from error
            raise InputError(error.strerror or "cannot be read", where=str(path)) from error
        self.is_sqlite = self.head.startswith(_SQLITE_MAGIC)

    def __enter__(self) -> Probe:
        """Return the probe."""
        return self

    def __exit__(self, *failure: Any) -> None:
        """Wait for background work, close the file and remove its copy."""
        if failure[0] is not None and "_connections" in self.__dict__:
            self._connections.interrupt()
        self._executor.__exit__(*failure)
        self._resources.close()

    def submit(self, work: Callable[..., T], *arguments: object) -> Future[T]:
        """Run a function in the background, in the order of calls."""
        return self._executor.submit(work, *arguments)

    @cached_property
    def readable(self) -> Path:
        """Return the file to read: the input itself, or its copy if a hot journal is beside it.

        Raises InputError if it cannot be copied.
        """
        # SQLite keeps them beside the file itself, not beside a link to it.
        real = self.path.resolve()
        journals = [real.with_name(real.name + ending) for ending in ("-wal", "-journal")]
        hot = [journal for journal in journals if _size(journal)]
        if not hot:
            return self.path
        endings = [journal.name[len(real.name) :] for journal in hot]
        copy = self._copy(f"{hot[0].name} lies beside it", dict(zip(endings, hot, strict=True)))
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        text = "read from a temporary copy with its journal applied"
        self.notes.append(Note("source-copied", Severity.INFO, text, where=hot[0].name))
        return copy

    def _copy(self, cause: str, journals: Mapping[str, Path]) -> Path:
        copy = self._resources.enter_context(private_folder()) / "source.sqlite"
        try:
            for ending, path in {"": self.path, **journals}.items():
                shutil.copyfile(path, f"{copy}{ending}")
        except OSError as error:
            raise InputError(
                f"it has to be copied, for {cause}, and cannot be: {reason_of(error)}",
                where=str(self.path),
                hint="Name a folder with more room: TMPDIR=/path nsysconv …",
            ) from error
        return copy

    def copied_with(self, statement: str) -> Probe:
        """Return a probe of a temporary copy on which the statement of SQL was run.

        Raises InputError if the file cannot be copied.
        """
        readable = Probe(self.readable, self.origin)
        copy = self._resources.enter_context(readable)._copy("a table is missing", {})
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute(statement)
        probe = self._resources.enter_context(Probe(copy, self.origin))
        probe.notes = self.notes
        return probe

    def sha256(self) -> str:
        """Return the SHA-256 of the file that the user named, or of its copy with the journal applied."""
        path = self.origin if self.readable == self.path else self.readable
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    # -- SQLite

    @cached_property
    def damage(self) -> str:
        """Return why a file that begins like SQLite cannot be read as such, or ""."""
        if not self.is_sqlite:
            return ""
        page_size = int.from_bytes(self.head[16:18], "big") or 0
        page_size = 65_536 if page_size == 1 else page_size
        pages = int.from_bytes(self.head[28:32], "big")
        if page_size * pages > self.size:
            return (
                f"the file is cut off: its header says {page_size * pages:,} bytes, "
                f"it has {self.size:,}"
            )
        if page_size and self.size % page_size:
            return f"the file is cut off: {self.size:,} bytes are no whole number of pages"
        try:
            _ = self._plain_tables
        except SelectTimeoutError as error:
            return str(error)
        except (sqlite3.Error, UnicodeDecodeError) as error:  # some names are no text
            # SQLite's message may repeat bytes of the file.
            return f"SQLite cannot read it: {escaped(str(error))}"
        if int.from_bytes(self.head[56:60], "big") not in _UTF_8:
            # Stores are UTF-8, and SQLite attaches databases to each other only if their encodings agree.
            return "its texts are not in UTF-8, as profilers write them: another program has rewritten it"
        return ""

    @cached_property
    def tables(self) -> dict[str, SourceTable]:
        """Return plain tables by name, without views and virtual tables; none if the file is damaged."""
        if not self.is_sqlite or self.damage:
            return {}
        return self._plain_tables

    @cached_property
    def view_names(self) -> tuple[str, ...]:
        """Return the names of views and virtual tables; none if the file is damaged."""
        if not self.is_sqlite or self.damage:
            return ()
        sql = (
            "SELECT name FROM sqlite_master WHERE type='view' "
            f"OR (type='table' AND NOT ({_IS_PLAIN}))"
        )
        return tuple(row[0] for row in self.select(sql))

    @cached_property
    def _plain_tables(self) -> dict[str, SourceTable]:
        with self._connections.connection() as connection:
            tables = connection.execute(
                f"SELECT name, rootpage FROM sqlite_master WHERE {_IS_PLAIN}"
            ).fetchall()
            return {name: _source_table(connection, name, root) for name, root in tables}

    def select(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a read-only select. Safe in threads. Raises InputError as `iterate`."""
        return list(self.iterate(sql, parameters))

    def iterate(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a read-only select, for results that may be large. Safe in threads.

        Raises InputError if the file is damaged or the select takes too long.
        """
        try:
            with self._connections.connection() as connection:
                for count, row in enumerate(connection.execute(sql, parameters)):
                    # No row takes less than a byte: pages refer to each other.
                    if count > self._readable_bytes:
                        raise sqlite3.DatabaseError("more rows than bytes")
                    yield row
        except SelectTimeoutError as error:
            hint = "Export it again, or copy it to a faster disk."
            raise InputError(str(error), where=str(self.path), hint=hint) from error
        except sqlite3.Error as error:
            reason = f"SQLite cannot read it: {escaped(str(error))}"
            hint = "The file is damaged or incomplete; export or copy it again."
            raise InputError(reason, where=str(self.path), hint=hint) from error
        except MemoryError as error:
            # Mostly memory is not missing: a damaged cell can claim any size.
            reason = "there is no memory for the size that one of its cells claims"
            hint = "Export or copy it again; or, if it is whole, raise the limit of memory."
            where = str(self.path)
            raise InputError(f"SQLite cannot read it: {reason}", where=where, hint=hint) from error

    @cached_property
    def _readable_bytes(self) -> int:
        # If the rows of a file are still in its journal, this is the size of the copy that includes
        # them.
        return _size(self.readable)

    @cached_property
    def _connections(self) -> ConnectionPool:
        return self._resources.enter_context(closing(ConnectionPool(self.readable, self.size)))

    def read_columns(
        self, table: str, names: Sequence[str]
    ) -> Generator[tuple[int, list[np.ndarray]]]:
        """Yield columns of whole numbers of all rows straight from the pages, a batch at a time.

        Null is MISSING. Each batch comes with the row number that follows; if that is not beyond the
        table's last one at the end, SQLite has to be asked for the rest. Safe in threads.
        """
        source = self.tables[table]
        if not source.stored_columns.keys() >= set(names):
            return
        try:
            descriptor = os.open(self.readable, os.O_RDONLY)
        except OSError:
            return
        try:
            places = [source.stored_columns[name] for name in names]
            yield from page_reader.read(descriptor, source.root, places, *_ALL_IDS, _BYTES_AT_ONCE)
        finally:
            # Closing a file drops this process's locks on it, but there are none on a source: SQLite has
            # it open as immutable.
            os.close(descriptor)


def _source_table(connection: sqlite3.Connection, name: str, root: int) -> SourceTable:
    listed = connection.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
    columns = tuple(column for _, column, *_, computed in listed if not computed)
    stored = {
        column: place
        for place, (_, column, declared, _, _, key, _) in enumerate(listed)
        if page_reader.are_stored_as_read(declared, is_key=bool(key))
    }
    row_id = _row_id(connection, name, {row[1].lower() for row in listed})
    return SourceTable(name, columns, row_id, root, stored if len(columns) == len(listed) else {})


def _row_id(connection: sqlite3.Connection, table: str, columns: Collection[str]) -> str | None:
    for name in ("rowid", "_rowid_", "oid"):
        if name not in columns:
            try:
                connection.execute(f"SELECT {name} FROM {quoted(table)} LIMIT 0")
            except sqlite3.OperationalError:
                return None
            return name
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # not there, or its name is longer than any can be
        return 0


def quoted(name: str) -> str:
    """Return a name of SQL in quotes."""
    return '"' + name.replace('"', '""') + '"'


# -- connections


class SelectTimeoutError(Exception):
    """A select was given up; the message says after how long, and why that may be."""


class ConnectionPool:
    """Read-only connections to one file, kept for the next select; to be closed by its owner."""

    def __init__(self, path: Path, size: int) -> None:
        """Open no connection yet; the `size` of the file in bytes gives the time limit of a select."""
        # The file is opened as immutable, so that SQLite writes nothing beside it and takes no locks.
        self._path = path
        self._uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
        self._seconds = SELECT_SECONDS + size / 1e6 * _SECONDS_PER_MEGABYTE
        self._idle: list[sqlite3.Connection] = []
        self._deadlines: dict[sqlite3.Connection, float] = {}
        # Reentrant: the garbage collector may end a forgotten select while this thread holds it.
        self._lock = threading.RLock()
        self._closed = threading.Event()
        # The time limit needs a thread, because SQLite does not call its progress handler while it
        # counts rows.
        self._watchdog = threading.Thread(target=self._interrupt_late, daemon=True)
        self._watchdog.start()

    def close(self) -> None:
        """Close idle connections now, and the others as soon as they come back."""
        with self._lock:
            self._closed.set()
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Give a connection for one thread and one select, or a few short ones.

        Raises SelectTimeoutError if that takes longer than any file of this size can.
        """
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        connection = idle or self._connect()
        with self._lock:
            self._deadlines[connection] = time.monotonic() + self._seconds
        done = False
        try:
            if idle is None:
                connection.execute("PRAGMA trusted_schema=OFF")
                connection.execute("PRAGMA cache_size=-256")  # tables are read from end to end
            yield connection
            done = True
        except sqlite3.OperationalError as error:
            # Python's own errors of this kind have no code.
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise SelectTimeoutError(
                    f"a look at the file did not come to an end in {self._seconds:,.0f} s: it is damaged "
                    "(its pages may go round in a circle), or its disk is very slow"
                ) from error
            raise
        finally:
            with self._lock:
                del self._deadlines[connection]
                if reusable := done and not self._closed.is_set():
                    self._idle.append(connection)
            if not reusable:
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
        except sqlite3.OperationalError as error:
            if (failure := open_files_failure()) is not None:
                raise refusal_error(failure, str(self._path)) from error
            raise
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        return connection

    def interrupt(self, now: float = float("inf")) -> None:
        """End the selects whose time is over at the moment `now`, by default all."""
        with self._lock:
            for connection, deadline in list(self._deadlines.items()):
                if now > deadline:
                    connection.interrupt()

    def _interrupt_late(self) -> None:
        while not self._closed.wait(_WATCHDOG_SECONDS):
            self.interrupt(time.monotonic())
