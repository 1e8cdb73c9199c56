"""Arguments of the library as people write them: numbers or texts, one or several.

What cannot be meant is a UsageError.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from numbers import Integral
from typing import Any

from nsysconv.errors import UsageError


def text(name: str, value: Any) -> str:
    """Return a text: of a path, a regular expression or a whole number, how it is written."""
    if isinstance(value, re.Pattern):
        value = value.pattern
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, Integral) and str(value) not in ("True", "False"):
        return str(value)
    if not isinstance(value, str):
        raise UsageError(f"{name}={value!r} is no text", hint=f"For example: {name}='3'")
    return value


def whole_number(name: str, value: Any) -> int:
    """Return a whole number, which may be written as a text."""
    written = str(value)
    if isinstance(value, bool) or re.fullmatch(r"-?\d{1,18}", written) is None:
        raise UsageError(f"{name}={value!r} is no whole number", hint=f"For example: {name}=3")
    return int(written)


def flag(name: str, value: Any) -> bool:
    """Return a truth."""
    # numpy's are written so, too; it is not imported for them.
    if isinstance(value, str) or str(value) not in ("True", "False"):
        raise UsageError(f"{name}={value!r} is neither true nor false", hint=f"{name}=True")
    return bool(value)


def one_or_several(value: Any) -> Iterable[Any]:
    """Return the values of an iterable; a text, a path and what is no iterable are one value."""
    is_one = isinstance(value, (str, bytes, os.PathLike)) or not isinstance(value, Iterable)
    return (value,) if is_one else value


def words(name: str, value: Any) -> tuple[str, ...]:
    """Return texts, of which one is as good as several."""
    return tuple(text(name, each) for each in one_or_several(value))


def path(value: Any) -> str:
    """Return a path, or an address, as a text."""
    with_text = isinstance(value, (str, os.PathLike))
    written = os.fspath(value) if with_text else None
    if not isinstance(written, str) or "\0" in written:
        raise UsageError(f"{value!r} is no path", hint="A text or a pathlib.Path names one file.")
    if not written:
        hint = "A variable may be empty; . names the current folder."
        raise UsageError("'' is no path", hint=hint)
    return written


_NORMAL: Mapping[Any, Callable[[str, Any], Any]] = {
    "str": text,
    "int": whole_number,
    "bool": flag,
    "Words": words,
}
_OR_NONE = " | None"


def normalize(options: Any, more: Mapping[str, Callable[[str, Any], Any]] = {}) -> None:
    """Set the fields of a dataclass to what was meant, by their type as it is written, or as `more` says.

    Fields of other types stay as they are. Raises UsageError for what cannot be meant.
    """
    normal = {**_NORMAL, **more}
    for field in fields(options):
        value, kind = getattr(options, field.name), str(field.type)
        may_miss = kind.endswith(_OR_NONE)
        change = normal.get(kind.removesuffix(_OR_NONE))
        if change is not None and not (may_miss and value is None):
            object.__setattr__(options, field.name, change(field.name, value))
