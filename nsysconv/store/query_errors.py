"""What is said of a user's query that cannot be run, whatever the database."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from nsysconv import schema
from nsysconv.errors import UsageError
from nsysconv.store.views import views

ONLY_SELECTS = "only selects on tables and views are run: a store is changed by imports alone"

# In the words of SQLite, or its Python module, and of PostgreSQL.
_SEVERAL = re.compile("one statement at a time|multiple commands into a prepared statement")
_NO_TABLE = re.compile(r'no such table: (?:\w+\.)?(\w+)|relation "(?:\w+\.)?(\w+)" does not exist')
_NO_COLUMN = re.compile(
    r'no such column: "?(?:\w+\.)*(\w+)|column "?(?:\w+\.)*(\w+)"? does not exist'
)
_WORD = re.compile(r"\w+")


def misunderstood(database: str, words: str, sql: str, listing: str) -> UsageError:
    """The database's words, with names that are close to one it does not know.

    `listing` says how to list tables and views there.
    """
    if _SEVERAL.search(words):
        return UsageError("there are several statements: only one select is run at a time")
    near = _near(words, sql)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return UsageError(f"{database} cannot run the query: {words}", hint=f"{meant}{listing}")


def _near(words: str, sql: str) -> list[str]:
    """Names of tables and views, or of columns, that are close to the one that is not there."""
    columns = {name: list(table.columns.keys()) for name, table in schema.metadata.tables.items()}
    columns |= {name: list(view.selected_columns.keys()) for name, view in views().items()}
    if table := _NO_TABLE.search(words):
        return _close(table, columns)
    if column := _NO_COLUMN.search(words):
        mentioned = columns.keys() & {word.lower() for word in _WORD.findall(sql)}
        return _close(column, (name for table in mentioned or columns for name in columns[table]))
    return []


def _close(match: re.Match[str], names: Iterable[str]) -> list[str]:
    name = next(group for group in match.groups() if group)
    return get_close_matches(name.lower(), sorted(set(names)))
