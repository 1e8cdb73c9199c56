"""Files of rules that users write: TOML with a table `[[rule]]` for each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nsysconv.errors import UsageError
from nsysconv.regex import ESCAPE, regular_expression


def read_rules(path: str, what: str, form: str) -> list[Any]:
    """Return the rules of a user's file; raise UsageError if it cannot be read, or has none.

    `what` says what the rules are of, `form` how one is written.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, ValueError, RuntimeError) as error:  # not UTF-8, a NUL; `~` of no user
        what = f"rules of {what} cannot be read: {error}"
        raise UsageError(what, where=path, hint=f"Name a TOML file. {form}") from error
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = "Mend that. Patterns go in 'single' quotes."
        raise UsageError(f"no TOML: {error}", where=path, hint=hint) from error
    check_keys(content, {"rule"}, path, form)
    found = content.get("rule")
    if not isinstance(found, list) or not found:
        raise UsageError("no rules in it", where=path, hint=form)
    return found


def check_keys(table: Mapping[str, Any], known: set[str], place: str, form: str) -> None:
    """Raise UsageError if a table has a key that is not known."""
    unknown = sorted(set(table) - known)
    if unknown:
        hint = f"Known: {', '.join(sorted(known))}. {form}"
        raise UsageError(f"unknown key {unknown[0]!r}", where=place, hint=hint)


def compiled(pattern: Any, place: str) -> re.Pattern[str]:
    """Return a pattern as a regular expression; raise UsageError where that fails."""
    if not isinstance(pattern, str) or not pattern:
        what = f"{pattern!r} is not a regular expression: it is not text"
        raise UsageError(what, where=place, hint=ESCAPE)
    return regular_expression(pattern, where=place)
