"""Where a store is: a SQLite file, or a PostgreSQL database by its address."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from nsysconv.errors import UsageError

# As PostgreSQL's own library reads it: the user ends at the first `@`, unless a `/` comes before.
_HOST = r"(?:\[[^\]]*\]|[^\[\]:,/?@]*)(?::\d*)?"
_ADDRESS = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)"
    r"(?:(?P<user>[^:@/]*)(?P<password>:[^@/]*)?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?P<database>/[^?@/]*)?"
    r"(?P<options>\?[^@]*)?"
)
_OPTION = re.compile(r"([^?&=]*)=([^&]*)")
_HIDDEN = "***"


@dataclass(frozen=True)
class Url:
    """The address of a database. As text it has no password in it, so it can be shown.

    Raises UsageError where it cannot be read; the error does not show it.
    """

    secret: str
    """The address as it was given."""

    def __post_init__(self) -> None:
        if _ADDRESS.fullmatch(self.secret) is None:
            raise UsageError(
                "cannot be read as the address of a database",
                where=self.secret.partition("://")[0] + "://" + _HIDDEN,
                hint="postgresql://USER@HOST:PORT/DATABASE. In names and passwords / is written %2F, "
                "@ is %40, : is %3A.",
            )

    @cached_property
    def _parts(self) -> dict[str, str]:
        match = _ADDRESS.fullmatch(self.secret)
        assert match is not None
        return match.groupdict("")

    @property
    def database(self) -> str:
        """The name of the database; `postgresql` where the address has none."""
        return unquote(self._parts["database"].removeprefix("/")) or "postgresql"

    def __str__(self) -> str:
        parts = self._parts
        user = parts["user"] + (f":{_HIDDEN}" if parts["password"] else "")
        options = _OPTION.sub(_shown_option, parts["options"])
        at = "@" if user else ""
        return f"{parts['scheme']}{user}{at}{parts['hosts']}{parts['database']}{options}"

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    def hide(self, text: str) -> str:
        """A text of somebody else's, such as an error, without the passwords of the address."""
        passwords = [self._parts["password"].removeprefix(":")]
        passwords += [
            value for key, value in _OPTION.findall(self._parts["options"]) if _is_secret(key)
        ]
        text = text.replace(self.secret, str(self))
        for password in sorted({*passwords, *map(unquote, passwords)}, key=len, reverse=True):
            if password and password not in str(self):
                text = text.replace(password, _HIDDEN)
        return text


def _is_secret(option: str) -> bool:
    return "password" in unquote(option)


def _shown_option(match: re.Match[str]) -> str:
    return f"{match[1]}={_HIDDEN if _is_secret(match[1]) else match[2]}"


Place = Path | Url


def _is_url(text: str) -> bool:
    return text.startswith(("postgresql://", "postgres://"))


def place(target: str | os.PathLike[str] | Url) -> Place:
    """The place that a text names."""
    if isinstance(target, Url):
        return target
    text = os.fspath(target)
    # A Path makes one slash of two.
    return Url(text) if _is_url(text) else Path(target)


def split(target: str | os.PathLike[str] | Url) -> tuple[Place, str | None]:
    """PLACE[@WORD]: the place and what to take of it. An existing path wins over `@`.

    In an address `@` stands before the host, too: the word is behind the name of the database.
    """
    if isinstance(target, Url):
        return target, None
    text = os.fspath(target)
    if _is_url(text):
        match = _ADDRESS.match(text)
        if match is None or not (match["database"] or match["options"]):
            return Url(text), None
        sign, word = text[match.end() : match.end() + 1], text[match.end() + 1 :]
        return (Url(match[0]), word) if sign == "@" else (Url(text), None)
    if "@" not in text or Path(text).exists():
        return Path(target), None
    path, _, word = text.rpartition("@")
    return Path(path), word


def shown(target: str | os.PathLike[str] | Url) -> str:
    """The target as it can be shown to anybody."""
    where, word = split(target)
    return str(where) if word is None else f"{where}@{word}"


def is_new(where: Place) -> bool:
    """Whether nothing can be there yet. A database is asked what it holds."""
    return isinstance(where, Path) and not where.exists()
