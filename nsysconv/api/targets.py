"""Types of arguments of the library: targets, words and callbacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from nsysconv.store.location import Url

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
