"""Connections to a SQLite source: read-only, kept for the next select, and none busy without end."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from nsysconv.cores import cores
from nsysconv.errors import InputError
from nsysconv.names import escaped
from nsysconv.notes import Note, Severity
from nsysconv.refusals import is_systemwide, open_files_failure, reason_of, refusal_error
from nsysconv.store.filesystem import private_folder
from nsysconv.store.sqlite import page_reader

# A select may scan all of a source; what takes longer is a trap, such as pages that name each other.
_SELECT_SECONDS = 10.0
_SECONDS_PER_MEGABYTE = 1.0
_LOOK_SECONDS = 0.25


class EndlessError(Exception):
    """A select was given up; its text says after how long, and why that may be."""


class Connections:
    """Connections to one file of `size` bytes. To be closed when nothing reads any more."""

    def __init__(self, path: Path, size: int) -> None:
        # Immutable: SQLite writes nothing beside the file, and takes no locks.
        self._path = path
        self._uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro&immutable=1"
        self._seconds = _SELECT_SECONDS + size / 1e6 * _SECONDS_PER_MEGABYTE
        self._idle: list[sqlite3.Connection] = []
        self._ends: dict[sqlite3.Connection, float] = {}
        # Reentrant: the collector of garbage may end a forgotten select while this is held.
        self._lock = threading.RLock()
        self._closed = threading.Event()
        # From outside, because SQLite counts rows without a look at its handler of progress.
        self._watch = threading.Thread(target=self._interrupt_late, daemon=True)
        self._watch.start()

    def close(self) -> None:
        """Closes those that nobody uses, the others as soon as they come back."""
        with self._lock:
            self._closed.set()
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self._watch.join()

    @contextmanager
    def one(self) -> Iterator[sqlite3.Connection]:
        """A connection for one thread and one select, or a few short ones.

        Raises EndlessError where that takes longer than any file of this size can.
        """
        idle = self._taken()
        connection = idle or self._connect()
        with self._lock:
            self._ends[connection] = time.monotonic() + self._seconds
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
                raise EndlessError(
                    f"a look at the file did not come to an end in {self._seconds:,.0f} s: it is damaged "
                    "(its pages may go round in a circle), or its disk is very slow"
                ) from error
            raise
        finally:
            with self._lock:
                del self._ends[connection]
                if kept := done and not self._closed.is_set():
                    self._idle.append(connection)
            if not kept:
                connection.close()

    def _taken(self) -> sqlite3.Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
        except sqlite3.OperationalError as error:
            if (few := open_files_failure()) is not None:
                raise refusal_error(few, str(self._path)) from error
            raise
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        return connection

    def _interrupt_late(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            now = time.monotonic()
            with self._lock:
                for connection, end in list(self._ends.items()):
                    if now > end:
                        connection.interrupt()


T = TypeVar("T")

WORTH_ROWS = page_reader.WORTH_ROWS
"""`Probe.columns` pays from so many rows on."""

_SQLITE_MAGIC = b"SQLite format 3\0"
_HEAD_BYTES = 1 << 16
_ALL_IDS = (-(1 << 63), (1 << 63) - 1)
# The encoding of texts as the header of a SQLite file names it; 0 in one without tables.
_UTF_8 = (0, 1)
# SQLite writes down every plain table with these words, whatever words made it.
_IS_PLAIN = "type='table' AND sql LIKE 'CREATE TABLE %'"


@dataclass(frozen=True)
class SourceTable:
    """A plain table of a SQLite source and its columns."""

    name: str
    columns: tuple[str, ...]
    row_id: str | None
    """How SQL names its row number; None for a table without row numbers."""
    root: int
    """The page on which its tree begins."""
    plain: Mapping[str, int]
    """Where in its rows the columns stand whose whole numbers can be read from the pages."""


class Probe:
    """One input file: head bytes and, for SQLite, tables and read-only selects.

    A SQLite file with a hot `-wal` or `-journal` is copied into a private folder first; `notes` says so.
    `origin` is the file that the user named, where `path` was made from it. Use as a context manager;
    leaving it ends what runs in the background and removes the copy. `threads` (None: one per core)
    bounds what `beside` runs at once.
    """

    def __init__(
        self, path: Path, origin: Path | None = None, *, threads: int | None = None
    ) -> None:
        self.path = path
        self.origin = origin or path
        self.notes: list[Note] = []
        self._leaving = ExitStack()
        self._spare = ThreadPoolExecutor(threads or cores())
        try:
            state = path.stat()
            if not stat.S_ISREG(state.st_mode):
                kind = "a folder" if stat.S_ISDIR(state.st_mode) else "no regular file"
                raise InputError(kind, where=str(path))
            with path.open("rb") as file:
                self.head = file.read(_HEAD_BYTES)
            self.size = state.st_size
        except OSError as error:
            if is_systemwide(error):
                raise refusal_error(error, str(path)) from error
            raise InputError(error.strerror or "cannot be read", where=str(path)) from error
        self.is_sqlite = self.head.startswith(_SQLITE_MAGIC)

    def __enter__(self) -> Probe:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._spare.shutdown(wait=True, cancel_futures=True)
        self._leaving.close()

    def beside(self, work: Callable[..., T], *arguments: object) -> Future[T]:
        """Runs a function in the background, in its turn."""
        return self._spare.submit(work, *arguments)

    @cached_property
    def readable(self) -> Path:
        """The file to read: the input itself, or its copy where a hot journal lay beside it."""
        # SQLite keeps them beside the file itself, not beside a link to it.
        real = self.path.resolve()
        hot = [side for end in ("-wal", "-journal") if _size(side := _beside(real, end))]
        if not hot:
            return self.path
        copy = self._leaving.enter_context(private_folder()) / "source.sqlite"
        try:
            shutil.copyfile(self.path, copy)
            for side in hot:
                shutil.copyfile(side, str(copy) + side.name[len(real.name) :])
        except OSError as error:
            raise InputError(
                f"it has to be copied, for {hot[0].name} lies beside it, and cannot be: "
                f"{reason_of(error)}",
                where=str(self.path),
                hint="Name a folder with more room: TMPDIR=/path nsysconv …",
            ) from error
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        self.notes.append(
            Note(
                "source-copied",
                Severity.INFO,
                "read from a temporary copy with its journal applied",
                where=hot[0].name,
            )
        )
        return copy

    @cached_property
    def damage(self) -> str:
        """Why the file cannot be read as SQLite although it begins like one; empty if it can."""
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
            self._tables_of_file()
        except EndlessError as error:
            return str(error)
        except (sqlite3.Error, UnicodeDecodeError) as error:  # some names are no text
            # What SQLite says may repeat what stands in the file.
            return f"SQLite cannot read it: {escaped(str(error))}"
        if int.from_bytes(self.head[56:60], "big") not in _UTF_8:
            # Stores are UTF-8, and SQLite reads databases beside each other only where they agree.
            return "its texts are not in UTF-8, as profilers write them: another program has rewritten it"
        return ""

    @cached_property
    def tables(self) -> dict[str, SourceTable]:
        """Plain tables by name; views and virtual tables are left out. Empty where damaged."""
        if not self.is_sqlite or self.damage:
            return {}
        return {table.name: table for table in self._tables_of_file()}

    @cached_property
    def not_tables(self) -> tuple[str, ...]:
        """Names of views and virtual tables."""
        if not self.is_sqlite or self.damage:
            return ()
        sql = (
            "SELECT name FROM sqlite_master WHERE type='view' "
            f"OR (type='table' AND NOT ({_IS_PLAIN}))"
        )
        return tuple(row[0] for row in self.select(sql))

    def _tables_of_file(self) -> list[SourceTable]:
        with self._connections.one() as connection:
            found = connection.execute(
                f"SELECT name, rootpage FROM sqlite_master WHERE {_IS_PLAIN}"
            ).fetchall()
            return [_table(connection, name, root) for name, root in found]

    def columns(self, table: str, names: Sequence[str]) -> Generator[tuple[int, list[np.ndarray]]]:
        """Yield columns of whole numbers of all rows straight from the pages, a batch at a time.

        Null is MISSING. Each batch comes with the row number that follows; where that is not beyond the
        table's last one at the end, SQLite has to be asked for the rest. Safe in threads.
        """
        source = self.tables[table]
        if not source.plain.keys() >= set(names):
            return
        try:
            descriptor = os.open(self.readable, os.O_RDONLY)
        except OSError:
            return
        try:
            places = [source.plain[name] for name in names]
            yield from page_reader.read(descriptor, source.root, places, *_ALL_IDS)
        finally:
            # Nobody holds locks on a source, which this would drop: SQLite has it open as immutable.
            os.close(descriptor)

    def select(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a read-only select on the source. Safe in threads."""
        return list(self.iterate(sql, parameters))

    def iterate(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """As `select`, row by row, for results that may be large."""
        try:
            with self._connections.one() as connection:
                yield from connection.execute(sql, parameters)
        except EndlessError as error:
            raise InputError(
                str(error),
                where=str(self.path),
                hint="Export it again, or copy it to a faster disk.",
            ) from error
        except sqlite3.Error as error:
            raise InputError(
                f"SQLite cannot read it: {escaped(str(error))}",
                where=str(self.path),
                hint="The file is damaged or incomplete; export or copy it again.",
            ) from error
        except MemoryError as error:
            # Mostly it is no memory that is missing: a damaged cell can say that it is of any size.
            raise InputError(
                "SQLite cannot read it: there is no memory for the size that one of its cells claims",
                where=str(self.path),
                hint="Export or copy it again; or, if it is whole, raise the limit of memory.",
            ) from error

    @cached_property
    def _connections(self) -> Connections:
        return self._leaving.enter_context(closing(Connections(self.readable, self.size)))

    def sha256(self) -> str:
        """SHA-256 of the bytes of the file that the user named, its journal applied where it was hot."""
        path = self.origin if self.readable == self.path else self.readable
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _table(connection: sqlite3.Connection, name: str, root: int) -> SourceTable:
    shown = connection.execute(f"PRAGMA table_info({_quoted(name)})")
    columns = tuple(row[1] for row in shown)
    # Computed columns are only in the longer list.
    every = connection.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
    plain = {
        column: place
        for place, (_, column, declared, _, _, key, _) in enumerate(every)
        if page_reader.are_stored_as_read(declared, is_key=bool(key))
    }
    computed = any(row[6] for row in every)
    row_id = _row_id(connection, name, {row[1].lower() for row in every})
    return SourceTable(name, columns, row_id, root, {} if computed else plain)


def _row_id(connection: sqlite3.Connection, table: str, columns: Collection[str]) -> str | None:
    """A name of the row number that is no column's; None where the table has none."""
    for name in ("rowid", "_rowid_", "oid"):
        if name not in columns:
            try:
                connection.execute(f"SELECT {name} FROM {_quoted(table)} LIMIT 0")
            except sqlite3.OperationalError:
                return None
            return name
    return None


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _size(path: Path) -> int:
    """The size of a file; 0 where there is none, or none can be: names have a greatest length."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
