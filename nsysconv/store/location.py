"""The location of a store, a SQLite file or a PostgreSQL database, and how it is opened there.

What keeps the stores of a location is loaded when it is needed: `--help` opens none, most commands only
read, and few need both kinds of database.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysconv.errors import UsageError
from nsysconv.store.address import Url, is_address, split_url

if TYPE_CHECKING:
    import pyarrow as pa

    from nsysconv.store.read import Store
    from nsysconv.store.write import Writer

Location = Path | Url


def parse_location(target: str | os.PathLike[str] | Url) -> Location:
    """Return the location that a text names. Raises UsageError for an address that cannot be read."""
    if isinstance(target, Url):
        return target
    text = os.fspath(target)
    return Url(text) if is_address(text) else Path(target)


def local_path(path: str | os.PathLike[str] | Url) -> Path:
    """Return the path that a text names. Raises UsageError for an address, also of PostgreSQL."""
    if is_address(str(path)):
        raise UsageError("an address, where a path is needed", where=redacted_target(path))
    return Path(str(path))


def split_target(target: str | os.PathLike[str] | Url) -> tuple[Location, str | None]:
    """Split LOCATION[@WORD] into the location and the word, None where there is none.

    The word selects something in the store. An existing path wins over `@`. Raises as `parse_location`.
    """
    if isinstance(target, Url):
        return target, None
    text = os.fspath(target)
    if is_address(text):
        return split_url(text)
    if "@" not in text or Path(text).exists():
        return Path(target), None
    path, _, word = text.rpartition("@")
    return Path(path), word


def redacted_target(target: str | os.PathLike[str] | Url) -> str:
    """Return a target without passwords, for messages; of one that cannot be read its scheme."""
    try:
        location, word = split_target(target)
    except UsageError as error:
        return error.where
    # Behind a password it may be the rest of it: PostgreSQL's own library takes a @ there.
    shown = "***" if str(location).endswith("***") else word
    return str(location) if word is None else f"{location}@{shown}"


def is_new(location: Location) -> bool:
    """Return whether nothing can be there yet: no file. A database has to be asked."""
    return isinstance(location, Path) and not location.exists()


def _connections(location: Location) -> Any:  # a module: both have the same functions
    if isinstance(location, Url):
        from nsysconv.store import postgresql

        return postgresql
    from nsysconv.store.sqlite import connection

    return connection


def is_store(location: Location) -> bool:
    """Return whether a store, of any version, is there. Raises UsageError where that cannot be asked."""
    return _connections(location).schema_version(location) is not None


def require_store(location: Location) -> None:
    """Raise InputError unless a store is there that this program can read."""
    _connections(location).check_store(location)


@contextmanager
def reading(location: Location) -> Iterator[Store]:
    """Open the store at `location` read-only. Raises as `require_store`."""
    require_store(location)
    from nsysconv.store.read import Store

    with Store(partial(_connections(location).open_for_reading, location)) as store:
        yield store


@contextmanager
def writing(
    location: Location, on_name_taken: Callable[[Path, Path], None] | None = None
) -> Iterator[Writer]:
    """Open a writer on the store at `location`, which is made if it does not exist.

    A new file appears under its name when the block ends, and not at all when it raises. Where a store
    has that name by then, `on_name_taken` is called with the new one and the name. Raises UsageError or
    InputError where something else is there, or where it cannot be written.
    """
    if isinstance(location, Url):
        from nsysconv.store import postgresql

        with postgresql.write_database(location) as writer:
            yield writer
    else:
        from nsysconv.store.sqlite.writer import write_file

        with write_file(location, on_name_taken) as writer:
            yield writer


def ask(location: Location, sql: str) -> pa.Table:
    """Return the rows of a user's query on a store: int64, float64 and texts. Nothing is changed.

    Raises UsageError, in the database's words, where the query is wrong or would change something; and
    as `require_store`.
    """
    require_store(location)
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise UsageError("the query is no text: it has bytes that are not UTF-8") from None
    if not sql.strip():
        raise UsageError("the query is empty", hint="docs/schema.md describes tables and views.")
    if isinstance(location, Url):
        from nsysconv.store import postgresql

        return postgresql.run_query(location, sql)
    from nsysconv.store.sqlite import user_query

    return user_query.run_query(location, sql)
