"""Lines of an answer on stdout, and beside it on stderr; control characters are made visible."""

from __future__ import annotations

import sys

from nsysconv.cli.streams import reader_may_go
from nsysconv.names import escaped, escaped_lines


def tell(text: str) -> None:
    """A line of the answer."""
    with reader_may_go():
        sys.stdout.write(escaped(text) + "\n")


def say(text: str) -> None:
    """Lines beside the answer, none for an empty text."""
    if text:
        print(escaped_lines(text), file=sys.stderr)  # noqa: T201
