"""The process that runs a user's query on a SQLite file: docs/decisions/0021.

It loads Python's `sqlite3`, whose authorizer limits what a statement may do, and nothing else of weight.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from types import NoneType
from typing import Any, NamedTuple

_ROWS = 8192
BUSY_S = 5.0
_LOOK_S = 0.5

# Each describes or lists tables; with an argument, too, it sets nothing.
_PRAGMAS = frozenset({"table_info", "table_xinfo", "table_list"})
_LISTS = frozenset({"sqlite_master", "sqlite_schema"})
# One runs code of a library, the other takes addresses of functions.
_FUNCTIONS_WITH_EFFECTS = frozenset({"load_extension", "fts3_tokenizer"})

# What goes wrong with the file or the system, whatever the query is.
_FAILURES = "BUSY CANTOPEN CORRUPT FULL IOERR LOCKED NOMEM NOTADB PERM PROTOCOL READONLY"
_NOT_THE_QUERY = frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in _FAILURES.split())


class Cells(NamedTuple):
    """A column: types, a 1 for each null, and values; numbers are an array with 0 for null."""

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


def answering(
    uri: str, tables: Collection[str], parent: int, before: Sequence[str] = ()
) -> Callable[[str], Rows | None]:
    """Return a function that gives the rows of a query on a file, some per call, at last None.

    It reads these tables and views and the list of them; statements that run `before` are not limited.
    The process ends with its `parent`.
    """
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    readable = frozenset(name.lower() for name in tables) | _LISTS
    answers: list[Iterator[Rows]] = []

    def next_rows(sql: str) -> Rows | None:
        if not answers:
            answers.append(_answer(uri, readable, sql, before))
        return next(answers[0], None)

    return next_rows


def _end_with(parent: int) -> None:
    # One that was killed could not end this process, and a query may have no end.
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)


def _answer(uri: str, readable: Collection[str], sql: str, before: Sequence[str]) -> Iterator[Rows]:
    denials: list[tuple[str, str]] = []

    def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        denial = _denial(action, first or "", second or "", readable)
        if denial is None:
            return sqlite3.SQLITE_OK
        denials.append(denial)
        return sqlite3.SQLITE_DENY

    try:
        with closing(
            sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
        ) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            for ours in ("PRAGMA trusted_schema=OFF", "PRAGMA temp_store=MEMORY", *before):
                connection.execute(ours)
            connection.set_authorizer(authorize)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            yield from _rows_of(connection.execute(sql))
    # A text that cannot be decoded, as a query or as a name in the file, is a ValueError.
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        if denials:
            raise Denied(*denials[0]) from None
        # Python's own errors have no code.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        failed = FileFailed if code & 0xFF in _NOT_THE_QUERY else QueryFailed
        raise failed(str(error)) from None


def _rows_of(cursor: sqlite3.Cursor) -> Iterator[Rows]:
    rows = cursor.fetchmany(_ROWS)
    if cursor.description is None:
        raise QueryFailed("there is no statement in it")
    names = [column[0] for column in cursor.description]
    if not rows:
        yield Rows(names, [_cells(())] * len(names))
    while rows:
        yield Rows(names, [_cells(values) for values in zip(*rows, strict=True)])
        rows = cursor.fetchmany(_ROWS)


def _denial(
    action: int, first: str, second: str, readable: Collection[str]
) -> tuple[str, str] | None:
    match action:
        case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_RECURSIVE:
            return None
        case sqlite3.SQLITE_READ:
            # Without a column it is the number of rows; tables that the query itself makes are
            # read so, too.
            return ("read", first) if second and first.lower() not in readable else None
        case sqlite3.SQLITE_FUNCTION:
            return ("function", second) if second.lower() in _FUNCTIONS_WITH_EFFECTS else None
        case sqlite3.SQLITE_PRAGMA if first.lower() in _PRAGMAS:
            return None
    return "change", ""


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
