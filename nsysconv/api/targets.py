"""Types of arguments of the library: targets, words and callbacks; places that do not exist."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from nsysconv.errors import InputError, UsageError
from nsysconv.store.location import Location, Url, is_store

StrPath = str | os.PathLike[str]
Target = StrPath | Url
"""A path or address of a store or a profile file, with `@WORD` behind it for a part of it."""
Say = Callable[[str], None]
"""Called with a line that a person may want to read while something runs."""

Words = str | Iterable[str]
"""Words, or one."""


def several(words: Words) -> tuple[str, ...]:
    """Return the words as a tuple; a text alone is one word, and not its letters."""
    return (words,) if isinstance(words, str) else tuple(words)


def silent(*_: object) -> None:
    """Do nothing, in place of a callback that nobody asked for."""


def check_existing(places: Iterable[Location]) -> None:
    """Raise one InputError that names all files and folders that do not exist."""
    missing = [str(each) for each in places if isinstance(each, Path) and not _exists(each)]
    if missing:
        others = "\n".join(f"{path}: no such file" for path in missing[1:])
        raise InputError("no such file", where=missing[0], hint=others)


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # the error is raised again when the file is read
    return True


def profile_path(place: Location) -> Path | None:
    """Return a file that may be a profile, None for a store; raise for a folder or no file."""
    if isinstance(place, Url) or is_store(place):
        return None
    if not place.exists():
        raise InputError("no such file", where=str(place))
    if place.is_dir():
        hint = f"Import it first: nsysconv import {place} -o STORE.db"
        raise UsageError("a folder", where=str(place), hint=hint)
    return place
