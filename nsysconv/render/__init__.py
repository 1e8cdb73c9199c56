"""Reports to text, CSV, TSV, JSON, Markdown or HTML: one module per format, one contract."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO, cast

from nsysconv.document import Section
from nsysconv.errors import UsageError
from nsysconv.render.contract import Options, Render, RendererModule, check_single

__all__ = [
    "FORMATS",
    "WIDTH_ELSEWHERE",
    "Options",
    "Render",
    "check_count",
    "format_for",
    "holds_one",
    "lacks_notes",
    "renderer",
    "suffix",
    "width_of",
]

# Each is the name of a module of this package.
FORMATS = ("text", "csv", "tsv", "json", "markdown", "html", "column")

_ONE_REPORT = ("csv", "tsv")
_NO_ROOM_FOR_NOTES = (*_ONE_REPORT, "column")

NARROWEST = 40
"""The cells that a line of text has at least."""
WIDTH_ELSEWHERE = 120
"""The width of text that is read elsewhere: in a log, a mail, a pager."""


def width_of(stream: TextIO, elsewhere: int = WIDTH_ELSEWHERE) -> int:
    """Return the width for text on a stream: its terminal's; else $COLUMNS; else `elsewhere`."""
    if stream.isatty():
        return max(shutil.get_terminal_size().columns, NARROWEST)
    # As shells say it, whoever reads what is written to a pipe.
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return max(int(columns), NARROWEST)
    return elsewhere


def renderer(name: str) -> Render:
    """Return the function that writes reports in this format; its module is imported only now."""
    return _module(name).render


def suffix(name: str) -> str:
    """Return how the names of files in this format end, with the dot."""
    return _module(name).SUFFIX


def check_count(name: str, reports: Sequence[object]) -> None:
    """Raise UsageError where this format does not hold so many reports, as writing them would."""
    if holds_one(name):
        check_single(reports, name)


def holds_one(name: str) -> bool:
    """Return whether this format holds one report only."""
    return name in _ONE_REPORT


def lacks_notes(name: str, reports: Sequence[Section]) -> bool:
    """Return whether these reports in this format have no place for notes."""
    if name == "json":
        from nsysconv.render.json import is_printed

        return is_printed(reports)
    return name in _NO_ROOM_FOR_NOTES


def format_for(path: Path) -> str:
    """Return the format that a file of this name is written in. Raises UsageError for other suffixes."""
    wanted = path.suffix.lower()
    for name in FORMATS:
        if suffix(name) == wanted:
            return name
    known = ", ".join(dict.fromkeys(suffix(name) for name in FORMATS))
    what = f"no format is known for the suffix {wanted!r}" if wanted else "no suffix"
    hint = f"Use one of {known}, or give --format."
    if wanted in _OF_EXPORTS:
        hint = f"{hint} `nsysconv export TARGET --to {wanted[1:]}` writes all events as tables."
    raise UsageError(what, where=str(path), hint=hint)


# Suffixes of tables of events, for which reports have no format.
_OF_EXPORTS = (".parquet", ".arrow")


def _module(name: str) -> RendererModule:
    if name not in FORMATS:
        raise UsageError(f"no output format {name!r}", hint=f"Known: {', '.join(FORMATS)}.")
    # What a module holds is beyond mypy; tests/test_render.py holds each against the protocol.
    return cast(RendererModule, importlib.import_module(f"{__name__}.{name}"))
