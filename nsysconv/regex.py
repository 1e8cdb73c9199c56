"""Regular expressions that somebody typed, on the command line or in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nsysconv.errors import UsageError

ESCAPE = r"Escape ( [ * + ? with \ to mean the sign itself: \( or \[."
_ONE_REPEAT = "Repeat once: (a+)+ is a+, and (a*|b)+ is (a|b)*."


def regular_expression(
    text: str, shown: str = "", *, where: str = "", hint: str = ESCAPE
) -> re.Pattern[str]:
    """Compile a regular expression; raise UsageError if it has a mistake, or is too large.

    So it does for a repeat of a repeat, such as `(a+)+`, which may take twice as long for each further
    character. `shown` is how it was typed, by default the text in quotes, and `where` in which file.
    """
    try:
        if not isinstance(getattr(text, "pattern", text), str):
            raise UsageError(f"{text!r} is no text", where=where, hint="Write it in quotes.")
        compiled = re.compile(text)
        # Python's own parser has no public name, and no types.
        parsed = re._parser.parse(compiled.pattern, compiled.flags)  # type: ignore[attr-defined]
        if _repeats_a_repeat(parsed):
            what = f"{shown or repr(text)} may take forever: it repeats a repeat"
            raise UsageError(what, where=where, hint=_ONE_REPEAT)
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        what = f"{shown or repr(text)} is not a regular expression: {error}"
        raise UsageError(what, where=where, hint=hint) from None
    return compiled


# -- expressions as they are parsed: pairs of an operator and its arguments

_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")
_GIVE_NOTHING_BACK = ("POSSESSIVE_REPEAT", "ATOMIC_GROUP", "ASSERT", "ASSERT_NOT")
_MANY = 10


def _repeats_a_repeat(parsed: Any) -> bool:
    return any(
        (_is_repeat(operator, arguments) and _may_be_a_repeat(arguments[-1]))
        or any(map(_repeats_a_repeat, _parts(arguments)))
        for operator, arguments in parsed
    )


def _is_repeat(operator: Any, arguments: Any) -> bool:
    return str(operator) in _REPEATS and int(arguments[1]) >= _MANY


def _may_be_a_repeat(parsed: Any) -> bool:
    # Whether a repeat in it may be all of it, if what is beside it is empty.
    for place, (operator, arguments) in enumerate(parsed):
        is_more = parsed[:place].getwidth()[0] or parsed[place + 1 :].getwidth()[0]
        if is_more or str(operator) in _GIVE_NOTHING_BACK:
            continue
        if _is_repeat(operator, arguments) or any(map(_may_be_a_repeat, _parts(arguments))):
            return True
    return False


def _parts(arguments: Any) -> Iterator[Any]:
    # What an operator is applied to lies anywhere in its arguments.
    if hasattr(arguments, "getwidth"):
        yield arguments
    elif isinstance(arguments, tuple | list):
        for each in arguments:
            yield from _parts(each)
