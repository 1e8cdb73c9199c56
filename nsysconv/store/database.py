"""Which database is behind a place, and whether a store of ours is there."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.store.places import Place, Url

if TYPE_CHECKING:
    import pyarrow as pa

    from nsysconv.store.connection import Connection
    from nsysconv.store.write import Writer


Appeared = Callable[[Path, Path], None]
"""Called with a complete new store and its place, where another was made there meanwhile."""


class Engine(Protocol):
    """What a package offers that keeps stores in one kind of database. A place is one of its kind."""

    def schema_version(self, place: Any) -> int | None:
        """The version of the schema of the store there; None where there is no store."""

    def open_for_reading(self, place: Any) -> Connection:
        """A connection to the store there, that changes nothing."""

    def ask(self, place: Any, sql: str) -> pa.Table:
        """The rows of a user's query on the store there, whole numbers as int64, others as float64.

        Raises UsageError where it is wrong or would change something.
        """


class Writers(Protocol):
    """What the module `writer` of such a package offers."""

    def writing(self, place: Any, appeared: Appeared | None) -> AbstractContextManager[Writer]:
        """A writer on the store there, which is made if it does not exist."""


def engine(place: Place) -> Engine:
    """What keeps the stores of such places. Loaded when asked for: few need both kinds."""
    return cast(Engine, importlib.import_module(f"{_package(place)}.engine"))


def writers(place: Place) -> Writers:
    """What writes the stores of such places. Loaded when asked for: most commands only read."""
    return cast(Writers, importlib.import_module(f"{_package(place)}.writer"))


def _package(place: Place) -> str:
    return f"nsysconv.store.{'postgresql' if isinstance(place, Url) else 'sqlite'}"


def is_store(place: Place) -> bool:
    """Whether a store of ours, of any version, is there. Raises UsageError where that cannot be asked."""
    return engine(place).schema_version(place) is not None


def require_store(place: Place) -> None:
    """Raises unless a store is there of the version that this program reads and writes."""
    if isinstance(place, Path) and not place.exists():
        raise InputError("no such file", where=str(place))
    version = engine(place).schema_version(place)
    if version is None:
        raise InputError(
            "not an nsysconv store",
            where=str(place),
            hint=f"`nsysconv import FILE -o {place}` makes one."
            if isinstance(place, Url)
            else "`nsysconv import FILE -o STORE` makes one; `nsysconv info FILE` tells what a file is.",
        )
    check_version(version, place)


def check_version(version: int, place: Place) -> None:
    """Raises for a store of another version of the schema."""
    if version != schema.SCHEMA_VERSION:
        newer = version > schema.SCHEMA_VERSION
        anew = "NEW.db" if isinstance(place, Path) else "ANOTHER-DATABASE"
        raise InputError(
            f"the store has schema version {version}, this nsysconv reads {schema.SCHEMA_VERSION}",
            where=str(place),
            hint="Upgrade it: pip install --upgrade nsysconv"
            if newer
            else f"Import the original files again into a new store: nsysconv import FILE… -o {anew}",
        )
