"""Numbers and texts straight from the pages of SQLite files, many rows at a time (docs/decisions/0018).

SQLite hands out a row's values one by one, each in two calls that take a lock; a large report asks for
sixty million. Nothing is written here, and what is not expected is left to SQLite, which goes on at the
row where this ended. The rest of nsysconv uses what this module names, and nothing below it.
"""

from nsysconv.store.sqlite.page_reader.checksums import checksums
from nsysconv.store.sqlite.page_reader.pages import (
    ID,
    Texts,
    UnreadableError,
    open_bytes,
    read,
    read_at,
)
from nsysconv.store.sqlite.page_reader.selects import columns_read, evaluator

__all__ = [
    "ID",
    "WORTH_ROWS",
    "Texts",
    "UnreadableError",
    "are_stored_as_read",
    "are_texts",
    "checksums",
    "columns_read",
    "evaluator",
    "open_bytes",
    "read",
    "read_at",
]

WORTH_ROWS = 10_000
"""Fewer rows SQLite has read before it is known where they are."""


def are_stored_as_read(declared: str, *, is_key: bool) -> bool:
    """Return whether whole numbers in a column of this declared type are stored as SQLite reads them.

    What is declared real is stored as whole numbers where it can be, and a row's id is not stored twice.
    """
    return "INT" in declared.upper() and not is_key


def are_texts(declared: str) -> bool:
    """Return whether what is written into a column of this declared type becomes a text."""
    return declared.upper() == "TEXT"
