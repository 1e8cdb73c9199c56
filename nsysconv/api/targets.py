"""What the functions of the library share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from nsysconv.store.address import Url

StrPath = str | os.PathLike[str]
Target = StrPath | Url
"""What names a store or a profile file, with `@WORD` behind it where it is a part of one."""
Say = Callable[[str], None]
"""Called with a line that a person may want to read while something runs."""


Words = str | Iterable[str]
"""Words, or one."""


def several(words: Words) -> tuple[str, ...]:
    """The words; a text alone is one, and not its letters."""
    return (words,) if isinstance(words, str) else tuple(words)


def silent(*_: object) -> None:
    """Says nothing."""
