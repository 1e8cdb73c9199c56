"""Regular expressions that somebody typed, on the command line or in a file."""

from __future__ import annotations

import re

from nsysconv.errors import UsageError

ESCAPE = r"Escape ( [ * + ? with \ to mean the sign itself: \( or \[."


def regular_expression(
    text: str, shown: str = "", *, where: str = "", hint: str = ESCAPE
) -> re.Pattern[str]:
    """Compile a regular expression; raise UsageError if it has a mistake, or is too large.

    `shown` is how it was typed, by default the text in quotes, and `where` in which file.
    """
    try:
        if not isinstance(getattr(text, "pattern", text), str):
            raise UsageError(f"{text!r} is no text", where=where, hint="Write it in quotes.")
        return re.compile(text)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        what = f"{shown or repr(text)} is not a regular expression: {error}"
        raise UsageError(what, where=where, hint=hint) from None
