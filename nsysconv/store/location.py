"""The location of a store, a file or the address of a PostgreSQL database, and how it is opened there.

No secret of an address is shown, whatever it is an address of. What keeps the stores of a location is
loaded when it is needed: `--help` opens none, most commands only read, and few need both kinds of
database.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from nsysconv.arguments import path as path_text
from nsysconv.errors import UsageError

_GLOB_CHARACTERS = frozenset("*?[")

if TYPE_CHECKING:
    import pyarrow as pa

    from nsysconv.store.read import Store
    from nsysconv.store.user_sql import FindSteps
    from nsysconv.store.write import Writer

# -- addresses

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
    with a driver. Where it `is_doubtful` nothing of it is shown: names may be pieces of a password.
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
    """Return whether a text is not a path: it looks like an address, or has a password in it."""
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


# -- locations

Location = Path | Url


def parse_location(target: str | os.PathLike[str] | Url) -> Location:
    """Return the location that a text names. Raises UsageError for an address that cannot be read."""
    if isinstance(target, Url):
        return target
    text = path_text(target)
    return Url(text) if is_address(text) else Path(text)


def local_path(path: str | os.PathLike[str] | Url) -> Path:
    """Return the path that a text names. Raises UsageError for an address, also of PostgreSQL."""
    if is_address(str(path)):
        raise UsageError("an address, where a path is needed", where=redacted_target(path))
    return Path(str(path))


def split_target(target: str | os.PathLike[str] | Url) -> tuple[Location, str | None]:
    """Split LOCATION[@WORD] into the location and the word, None where there is none.

    The word selects something in the store. An existing path wins over `@`, and a pattern that one file
    matches is that file. Raises as `parse_location`.
    """
    if isinstance(target, Url):
        return target, None
    text = path_text(target)
    if is_address(text):
        return split_url(text)
    if (match := only_match(target)) is not None:
        return match, None
    if "@" not in text or Path(text).exists():
        return Path(text), None
    path, _, word = text.rpartition("@")
    return Path(path_text(path)), word


def globbed(target: str | os.PathLike[str] | Url) -> list[Path] | None:
    """Return the files that a pattern matches, sorted; None for what is no pattern, or exists."""
    if isinstance(target, Url):
        return None
    text = path_text(target)
    if is_address(text) or not _GLOB_CHARACTERS & set(text):
        return None
    with suppress(OSError, ValueError):
        if Path(text).exists():
            return None
    # pathlib knows relative patterns only.
    matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207
    return [path for path in map(Path, matches) if not path.is_dir()]


def only_match(target: str | os.PathLike[str] | Url) -> Path | None:
    """Return the only file that a pattern matches; None for no pattern, and for several files."""
    matches = globbed(target) or []
    return matches[0] if len(matches) == 1 else None


def redacted_target(target: str | os.PathLike[str] | Url) -> str:
    """Return a target without passwords, for messages; its scheme where it cannot be read."""
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


def ask(location: Location, sql: str, find_steps: FindSteps = lambda tables: ()) -> pa.Table:
    """Return the rows of a user's query on a store: int64, float64 and texts. Nothing is changed.

    `find_steps` is called if the query names the step of events.
    Raises UsageError, in the database's words, where the query is wrong or would change something; and
    as `require_store`.
    """
    require_store(location)
    sql = str(sql)  # as SQLAlchemy's statements are written
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise UsageError("the query is no text: it has bytes that are not UTF-8") from None
    if not sql.strip():
        raise UsageError("the query is empty", hint="docs/schema.md describes tables and views.")
    from nsysconv.store.user_sql import statements_before

    if isinstance(location, Url):
        from nsysconv.store import postgresql

        return postgresql.run_query(location, sql, statements_before(sql, find_steps))
    from nsysconv.store.sqlite import user_query

    return user_query.run_query(location, sql, statements_before(sql, find_steps, "main."))
