"""Errors as JSON, for programs that asked for JSON: one document, the last line of stderr."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from nsysconv.errors import NsysconvError

_OF_FORMAT = re.compile(r"(?:-f|--format)=?json")
# Up to what cannot be a part of a command: the end of its line, `;`, or the backtick that ends it.
_COMMAND = re.compile(r"nsysconv [^`;\n]+")
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


def wanted(arguments: Sequence[str]) -> bool:
    """Return whether these arguments of a command line ask for JSON; what comes after `--` does not."""
    ours = list(arguments)
    ours = ours[: ours.index("--")] if "--" in ours else ours
    return any(
        _OF_FORMAT.fullmatch(word) or (word in ("-f", "--format") and after == "json")
        for word, after in pairwise([*ours, ""])
    )


def document(error: BaseException, text: str, status: int) -> dict[str, Any]:
    """Return an error as the field `error` of a document; `text` is its words for people.

    `slug` is the kind of error, `next` the commands that its hint names.
    """
    what, hint = text.strip().removeprefix("nsysconv: ").rpartition("\nError: ")[2], ""
    following = []
    if isinstance(error, NsysconvError):
        what, _, hint = what.partition("\n")
        following = [command.strip().rstrip(".") for command in _COMMAND.findall(hint)]
    elif context := getattr(error, "ctx", None):
        following = [f"{context.command_path} --help"]
    return {
        "error": {
            "slug": slug(error),
            "text": what,
            "hint": hint,
            "next": following,
            "exit_status": status,
        }
    }


def slug(error: BaseException) -> str:
    """Return the kind of an error: usage, input, not-recorded, …; what is not foreseen is internal."""
    if isinstance(error, NsysconvError):
        return _WORD.sub("-", type(error).__name__.removesuffix("Error")).lower()
    if hasattr(error, "exit_code"):
        return "usage"
    return "system" if isinstance(error, OSError | MemoryError) else "internal"


def line(error: BaseException, text: str, status: int) -> str:
    """Return the document on one line."""
    return json.dumps(document(error, text, status))
