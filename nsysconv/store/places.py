"""Where a store is: a SQLite file, or a PostgreSQL database by its address."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

SCHEMES = ("postgresql", "postgres")
"""What the address of a database begins with."""


@dataclass(frozen=True)
class Url:
    """The address of a database. As text it has no password in it, so it can be shown."""

    secret: str
    """The address as it was given."""

    def __str__(self) -> str:
        parts = urlsplit(self.secret)
        if parts.password is None:
            return self.secret
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"{quote(parts.username or '')}:***@{host}"))

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"


Place = Path | Url


def place(target: str | os.PathLike[str] | Url) -> Place:
    """The place that a text names."""
    if isinstance(target, Url):
        return target
    text = os.fspath(target)
    # A Path makes one slash of two.
    return Url(text) if text.startswith(tuple(f"{s}://" for s in SCHEMES)) else Path(target)


def split(target: str | os.PathLike[str] | Url) -> tuple[Place, str | None]:
    """PLACE[@WORD]: the place and what to take of it. An existing path wins over `@`.

    In an address `@` stands before the host, too: the word is behind the name of the database.
    """
    where = place(target)
    if isinstance(where, Url):
        head, _, database = where.secret.rpartition("/")
        name, sign, word = database.partition("@")
        return (Url(f"{head}/{name}"), word) if sign else (where, None)
    text = str(target)
    if "@" not in text or where.exists():
        return where, None
    path, _, word = text.rpartition("@")
    return Path(path), word
