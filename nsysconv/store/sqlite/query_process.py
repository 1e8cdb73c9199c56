"""The process that runs a user's query on a SQLite file: docs/decisions/0021.

It loads Python's `sqlite3`, whose authorizer limits what a statement may do, and nothing else of weight.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from array import array
from collections.abc import Callable, Collection
from types import NoneType
from typing import Any, NamedTuple

_ROWS = 8192
_BUSY_S = 5.0
_LOOK_S = 0.5

# Each describes or lists tables; with an argument, too, it sets nothing.
_PRAGMAS = frozenset({"table_info", "table_xinfo", "table_list"})
_LISTS = frozenset({"sqlite_master", "sqlite_schema"})
# One runs code of a library, the other takes addresses of functions.
_FUNCTIONS_WITH_EFFECTS = frozenset({"load_extension", "fts3_tokenizer"})

# What goes wrong with the file or the system, whatever the query is.
_NOT_THE_QUERY = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


class Cells(NamedTuple):
    """One column of rows that come together: the types of its values, a 1 for each null, the values.

    Whole numbers and reals without others among them are an array, with 0 for null.
    """

    kinds: frozenset[type]
    nulls: bytes
    values: array[int] | array[float] | list[Any]


class Rows(NamedTuple):
    """Some of the rows that answer a query, by columns."""

    names: list[str]
    columns: list[Cells]


class FileFailed(Exception):  # noqa: N818 - says what failed
    """SQLite cannot read the file; in its words."""


class QueryFailed(Exception):  # noqa: N818
    """SQLite cannot run the query; in its words."""


class Denied(Exception):  # noqa: N818
    """The query would do what it may not: the kind, `read`, `function` or another, and the name."""


def answering(uri: str, tables: Collection[str], parent: int) -> Callable[[str], Rows | None]:
    """Return a function that gives the rows of a query on the file at a URI, some per call.

    After the last ones it gives None.

    The query may read these tables and views, and the list of them. The process ends when it is no longer
    a child of the process `parent`.
    """
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    asked = _RunningQuery(uri, frozenset(name.lower() for name in tables) | _LISTS)
    return asked.next_rows


def _end_with(parent: int) -> None:
    # One that was killed could not end this process, and a query may have no end.
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)


class _RunningQuery:
    """A query and how far it was answered."""

    def __init__(self, uri: str, readable: Collection[str]) -> None:
        self._uri = uri
        self._readable = readable
        self._denied: tuple[str, str] | None = None
        self._cursor: sqlite3.Cursor | None = None

    def next_rows(self, sql: str) -> Rows | None:
        try:
            if self._cursor is None:
                self._cursor = self._connected().execute(sql)
                return self._rows(self._cursor.fetchmany(_ROWS))
            rows = self._cursor.fetchmany(_ROWS)
            return self._rows(rows) if rows else None
        # A text that is no text, as a query or as a name in the file, is a ValueError.
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            if self._denied is not None:
                raise Denied(*self._denied) from None
            # Python's own errors have no code.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            raise (FileFailed if code & 0xFF in _NOT_THE_QUERY else QueryFailed)(
                str(error)
            ) from None

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._uri, uri=True, timeout=_BUSY_S, isolation_level=None)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.set_authorizer(self._authorized)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        return connection

    def _authorized(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        by: str | None,
    ) -> int:
        match action:
            case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_RECURSIVE:
                return sqlite3.SQLITE_OK
            case sqlite3.SQLITE_READ:
                # Without a column it is the number of rows; tables that the query itself makes are
                # read so, too.
                denied = bool(second) and (first or "").lower() not in self._readable
                denial = ("read", first or "")
            case sqlite3.SQLITE_FUNCTION:
                denied = (second or "").lower() in _FUNCTIONS_WITH_EFFECTS
                denial = ("function", second or "")
            case sqlite3.SQLITE_PRAGMA:
                denied, denial = (first or "").lower() not in _PRAGMAS, ("change", "")
            case _:
                denied, denial = True, ("change", "")
        if not denied:
            return sqlite3.SQLITE_OK
        self._denied = self._denied or denial
        return sqlite3.SQLITE_DENY

    def _rows(self, rows: list[tuple[Any, ...]]) -> Rows:
        assert self._cursor is not None
        if self._cursor.description is None:
            raise QueryFailed("there is no statement in it")
        names = [column[0] for column in self._cursor.description]
        columns = zip(*rows, strict=True) if rows else ((),) * len(names)
        return Rows(names, [_cells(column) for column in columns])


def _cells(values: tuple[Any, ...]) -> Cells:
    kinds = frozenset(map(type, values))
    nulls = bytes(len(values))
    if bytes in kinds:
        # Texts are texts; bytes are written as SQL does.
        values = tuple(f"X'{v.hex().upper()}'" if type(v) is bytes else v for v in values)
        kinds = kinds - {bytes} | {str}
    if NoneType in kinds:
        kinds -= {NoneType}
        nulls = bytes(value is None for value in values)
        if len(kinds) < 2 and str not in kinds:
            values = tuple(0 if value is None else value for value in values)
    if kinds <= {int}:
        return Cells(kinds, nulls, array("q", values))
    return Cells(kinds, nulls, array("d", values) if kinds == {float} else list(values))
