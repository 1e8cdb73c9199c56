"""Where an answer goes: stdout, a file or a folder; and what is said beside it on stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysconv import render
from nsysconv.errors import UsageError
from nsysconv.phases import phase
from nsysconv.render.contract import Options
from nsysconv.report import Report

_NARROWEST = 40


@dataclass(frozen=True)
class Destination:
    """The format and, unless stdout, the file or folder."""

    format: str
    path: Path | None
    is_folder: bool

    @property
    def for_people(self) -> bool:
        """Whether rows are to be read rather than parsed."""
        return self.format == "text"


def destination(format_name: str | None, path: Path | None) -> Destination:
    """What -f and -o mean together. Raises UsageError for a suffix that names no format."""
    if path is None:
        return Destination(format_name or "text", None, False)
    is_folder = (
        path.is_dir() or str(path).endswith("/") or (format_name is not None and not path.suffix)
    )
    if is_folder:
        return Destination(format_name or "csv", path, True)
    return Destination(format_name or render.format_for(path), path, False)


def write(reports: Sequence[Report], to: Destination) -> None:
    """Renders the reports. Notes go to stderr where the format has no place for them."""
    draw = render.renderer(to.format)
    with phase("render"):
        if to.is_folder and to.path is not None:
            to.path.mkdir(parents=True, exist_ok=True)
            for each in reports:
                name = each.name + render.suffix(to.format)
                with (to.path / name).open("w", encoding="utf-8", newline="") as file:
                    draw([each], file, Options())
        elif to.path is not None:
            if not to.path.parent.is_dir():
                raise UsageError("the folder does not exist", where=str(to.path.parent))
            with to.path.open("w", encoding="utf-8", newline="") as file:
                draw(reports, file, Options())
        else:
            draw(reports, sys.stdout, _options())
            sys.stdout.flush()
    if to.format in ("csv", "tsv"):
        from nsysconv.render.text import notes_text

        for each in reports:
            say(notes_text(each))


def _options() -> Options:
    if not sys.stdout.isatty():
        return Options()
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    return Options(width=width, color=True)


def say(text: str) -> None:
    """A line on stderr; nothing for an empty text."""
    if text:
        print(text, file=sys.stderr)  # noqa: T201


def say_missing(reports: Sequence[Report]) -> None:
    """Names on stderr the reports that the profile cannot answer."""
    for each in reports:
        say(f"{each.name}: not recorded: {', '.join(each.not_recorded)}")
