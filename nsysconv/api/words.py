"""What the functions of the library share."""

from __future__ import annotations

import os
from collections.abc import Callable

StrPath = str | os.PathLike[str]
Say = Callable[[str], None]
"""Called with a line that a person may want to read while something runs."""


def silent(*_: object) -> None:
    """Says nothing."""
