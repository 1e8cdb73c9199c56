"""The address of a PostgreSQL database, and what looks like an address: no secret of it is shown.

Apart, so that it can be read before the driver is loaded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import unquote

from nsysconv.errors import UsageError

# As PostgreSQL's own library reads it: the user ends at the first `@`, unless a `/` comes before. Names
# with other signs are refused: they may be the rest of a password.
_HOST = r"(?:\[[\w:.%-]*\]|[\w.%~-]*)(?::\d*)?"
_OPTION = re.compile(r"([\w%]+)=([^&@]*)")
_ADDRESS = re.compile(
    r"postgresql://(?:(?P<user>[^:@/\s]*)(?P<password>:[^@/]*)?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?P<database>/[^?@/:;=&\s]*)?"
    rf"(?P<options>\?(?:{_OPTION.pattern}(?:&{_OPTION.pattern})*)?)?"
)
_SCHEME = re.compile(r"^postgres(?:ql)?(?:\+\w+)?://", re.IGNORECASE)
# A scheme has more letters than a drive. In STORE@KEY=https://… the address is the value of a tag.
_BEGIN = re.compile(r"\s*[a-z][\w+.-]+:/|[^@]*://", re.IGNORECASE)
_SECRET = re.compile(
    r"(?::/|postgres[\w+]*(?::|//))[^@]*:[^@]*@|https?://[^/@]+@"
    r"|[?&][\w.-]*(?:token|secret|key|sig)[\w.-]*="
    r"|(?:^|[?&;,=\s])[\w.-]*(?:pass(?:word|wd|phrase|file)|pwd)[\w.-]*\s*=",
    re.IGNORECASE,
)
_HIDDEN = "***"


@dataclass(frozen=True)
class Url:
    """The address of a database. As text it has no password in it, so it can be shown.

    `secret` is the address as PostgreSQL's own library takes it; its scheme may be given in any case and
    with a driver. Nothing is shown of one that `is_doubtful`: names may be pieces of a password.
    """

    secret: str
    is_doubtful: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        """Raise UsageError where it cannot be read; the error does not show it."""
        object.__setattr__(self, "secret", _SCHEME.sub("postgresql://", self.secret.strip()))
        _ = self._parts

    @cached_property
    def _parts(self) -> dict[str, str]:
        match = _ADDRESS.fullmatch(self.secret)
        if match is None:
            raise UsageError(
                "cannot be read as the address of a database",
                where=re.sub(r"(?s)^([\w+.-]+:/*)?.*", rf"\1{_HIDDEN}", self.secret),
                hint="Known are those of PostgreSQL: postgresql://USER@HOST:PORT/DATABASE. In names and "
                "passwords / is written %2F, @ is %40, : is %3A. A file is named by its path alone.",
            )
        return match.groupdict("")

    @property
    def database(self) -> str:
        """Return the name of the database, `postgresql` where the address has none."""
        return unquote(self._parts["database"].removeprefix("/")) or "postgresql"

    def __str__(self) -> str:
        """Return the address with *** in place of passwords."""
        if self.is_doubtful:
            return f"postgresql://{_HIDDEN}"
        parts = {name: _shown(part) for name, part in self._parts.items() if name != "options"}
        user = parts["user"] + (f":{_HIDDEN}" if parts["password"] else "")
        options = _OPTION.sub(_shown_option, self._parts["options"])
        at = "@" if user else ""
        return f"postgresql://{user}{at}{parts['hosts']}{parts['database']}{options}"

    def __repr__(self) -> str:
        """Return the same as an expression."""
        return f"Url({str(self)!r})"

    def hide(self, text: str) -> str:
        """Return a text, such as a driver's error, without the passwords of the address."""
        return hide(text, self.secret, str(self))


def _shown(part: str) -> str:
    # What has an encoded sign in it may be a whole USER:PASSWORD@HOST, or a setting in `options`.
    return _HIDDEN if re.search("%3a|%40", part, re.I) or _SECRET.search(unquote(part)) else part


def _shown_option(match: re.Match[str]) -> str:
    return f"{match[1]}={_HIDDEN if 'pass' in unquote(match[1]).lower() else _shown(match[2])}"


def split_url(text: str) -> tuple[Url, str | None]:
    """Split ADDRESS[@WORD], the word behind the database's name. Raises UsageError as Url."""
    text = _SCHEME.sub("postgresql://", text.strip())
    match = _ADDRESS.match(text)
    if match is None or not (match["database"] or match["options"]):
        return Url(text), None
    url, sign, word = match[0], text[match.end() : match.end() + 1], text[match.end() + 1 :]
    if sign != "@" or _SECRET.search(unquote(f":/{word}")):
        return Url(text), None
    # What looks like a label may be a host and a database, behind a password with @ and / in it.
    is_path = "/" in word and url.count(":") > 1 and not re.match(r"[\w.-]+=", word)
    return Url(url, is_path), word


def is_address(text: str) -> bool:
    """Return whether a text is no path: it looks like an address of any kind, or has a password in it."""
    return bool(_BEGIN.match(text) or _SECRET.search(unquote(text)))


def check_no_secret(text: str, what: str) -> None:
    """Raise UsageError, which shows `what` it is and not the text, if that has a password in it."""
    if _SECRET.search(unquote(text)):
        raise UsageError(f"{what} has a password in it", hint="Leave the password out.")


def hide(text: str, address: str, shown: str) -> str:
    """Return a text, such as a traceback, without what an address of any kind hides; it is `shown` so."""
    text = text.replace(address, shown)
    # What is between the user's name and each @, and the values of options.
    rest = re.sub("(?s)^(?:.*?:/+)?(?:[^:@]*:)?", "", address)
    parts = [rest[: at.start()] for at in re.finditer("@", rest)] + re.findall("=([^&;]*)", address)
    parts += re.split("[/@:?]", rest) if shown == "postgresql://***" else []
    for secret in sorted({*parts, *map(unquote, parts)} - {""}, key=len, reverse=True):
        signs = (re.escape(c) if c.isprintable() else r"(?:\s|\\\w+)" for c in secret)
        pattern = rf"(?<!\w){''.join(signs)}(?!\w)"
        if not re.search(pattern, shown):
            text = re.sub(pattern, _HIDDEN, text)
    return text
