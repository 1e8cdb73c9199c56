"""Connections to a SQLite source: read-only, kept for the next select, and none busy without end."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from nsysconv.refusals import open_files_failure, refusal_error

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
