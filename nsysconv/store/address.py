"""The address of a PostgreSQL database. Apart, so that it can be read before the driver is loaded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
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

SCHEMES = ("postgresql://", "postgres://")
"""Schemes of the address of a database."""


@dataclass(frozen=True)
class Url:
    """The address of a database. As text it has no password in it, so it can be shown.

    `secret` is the address as it was given.
    """

    secret: str

    def __post_init__(self) -> None:
        """Raise UsageError where it cannot be read; the error does not show it."""
        _ = self._parts

    @cached_property
    def _parts(self) -> dict[str, str]:
        match = _ADDRESS.fullmatch(self.secret)
        if match is None:
            raise UsageError(
                "cannot be read as the address of a database",
                where=self.secret.partition("://")[0] + "://" + _HIDDEN,
                hint="postgresql://USER@HOST:PORT/DATABASE. In names and passwords / is written %2F, "
                "@ is %40, : is %3A.",
            )
        return match.groupdict("")

    @property
    def database(self) -> str:
        """Return the name of the database, `postgresql` where the address has none."""
        return unquote(self._parts["database"].removeprefix("/")) or "postgresql"

    def __str__(self) -> str:
        """Return the address with *** in place of passwords."""
        parts = self._parts
        user = parts["user"] + (f":{_HIDDEN}" if parts["password"] else "")
        options = _OPTION.sub(_shown_option, parts["options"])
        at = "@" if user else ""
        return f"{parts['scheme']}{user}{at}{parts['hosts']}{parts['database']}{options}"

    def __repr__(self) -> str:
        """Return the same as an expression."""
        return f"Url({str(self)!r})"

    def hide(self, text: str) -> str:
        """Return a text, such as a driver's error, without the passwords of the address."""
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


def split_url(text: str) -> tuple[Url, str | None]:
    """Split ADDRESS[@WORD], the word behind the database's name. Raises UsageError as Url."""
    match = _ADDRESS.match(text)
    if match is None or not (match["database"] or match["options"]):
        return Url(text), None
    sign, word = text[match.end() : match.end() + 1], text[match.end() + 1 :]
    return (Url(match[0]), word) if sign == "@" else (Url(text), None)
