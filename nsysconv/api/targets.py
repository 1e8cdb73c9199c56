"""Types of arguments of the library: targets, words and callbacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from nsysconv import arguments
from nsysconv.arguments import one_or_several, path
from nsysconv.store.location import Url

StrPath = str | os.PathLike[str]
Target = StrPath | Url
"""A path or address of a store or a profile file, with `@WORD` behind it for a part of it."""


class Files(str):
    """Several files as one target, as the shell lists those that match a pattern."""

    __slots__ = ("paths",)
    paths: tuple[Path, ...]

    def __new__(cls, paths: Iterable[StrPath]) -> Files:
        """Make a target of these files, called after the first."""
        files = tuple(map(Path, paths))
        target = super().__new__(cls, files[0])
        target.paths = files
        return target


class Joined(Files):
    """Several files, or profiles of stores, that are one profile; `names` as they were given."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    def __new__(cls, paths: Iterable[StrPath]) -> Joined:
        """Make a target of these, called after the first."""
        names = tuple(os.fspath(path) for path in paths)
        target = str.__new__(cls, names[0])
        target.paths, target.names = tuple(map(Path, names)), names
        return target


Say = Callable[[str], None]
"""Called with a line that a person may want to read while something runs."""

Words = str | Iterable[str]
"""Words, or one."""


def with_joined(target: Target, join: Target | Iterable[Target]) -> Target:
    """Return a target with the files that are joined to it; without such, itself."""
    others = [join] if isinstance(join, Url) else [*one_or_several(join)]
    names = (each.secret if isinstance(each, Url) else path(each) for each in (target, *others))
    return Joined(names) if others else target


def several(words: Words) -> tuple[str, ...]:
    """Return the words as a tuple; a text alone is one word, and not its letters."""
    return arguments.words("words", words)


def silent(*_: object) -> None:
    """Do nothing, in place of a callback that nobody asked for."""
