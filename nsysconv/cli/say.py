"""Lines beside the answer, on stderr."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """A line on stderr; nothing for an empty text."""
    if text:
        print(text, file=sys.stderr)  # noqa: T201
