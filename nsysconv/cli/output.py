"""Where an answer goes: stdout, a file or a folder; and what is said beside it on stderr."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nsysconv import render
from nsysconv.cli.say import say
from nsysconv.cli.streams import reader_may_go
from nsysconv.errors import UsageError
from nsysconv.phases import phase
from nsysconv.refusals import refusal_error
from nsysconv.render.contract import Options, Render
from nsysconv.report import Report
from nsysconv.store.filesystem import check_folder, followed, replace
from nsysconv.store.location import split_target

_NARROWEST = 40
_SQLITE_MAGIC = b"SQLite format 3\0"


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

    @property
    def is_page(self) -> bool:
        """Whether it is one page that has room for everything."""
        return self.format == "html" and not self.is_folder


def destination(format_name: str | None, output: str | None, count: int = 1) -> Destination:
    """What -f and -o mean together, for so many reports. To be asked before they are made.

    Raises UsageError for a suffix that names no format, for a format that has no room for so many, for a
    link that is not followed, and where there is no folder for the file.
    """
    name, path = format_name, None
    if output is not None:
        path = Path(output)
        followed(path)
        if path.is_dir() or output.endswith("/"):
            return Destination(name or "csv", path, True)
        check_folder(path)
        name = name or render.format_for(path)
    name = name or "text"
    render.check_count(name, count)
    return Destination(name, path, False)


def write(reports: Sequence[Report], to: Destination, source: str | None = None) -> None:
    """Renders the reports. Notes go to stderr where the format has no place for them.

    `source` is what was asked, where the reports do not name the profiles that they are of: none of these
    is replaced.
    """
    files = {profile.path for report in reports for profile in report.profiles}
    files |= set() if source is None else {source, str(split_target(source)[0])}
    draw = render.renderer(to.format)
    with phase("render"):
        if to.path is None:
            with reader_may_go():
                draw(reports, sys.stdout, _options())
                sys.stdout.flush()
        elif to.is_folder:
            to.path.mkdir(parents=True, exist_ok=True)
            for each in reports:
                name = each.name.replace(":", "_") + render.suffix(to.format)
                _write_file(draw, [each], to.path / name, files)
        else:
            _write_file(draw, reports, to.path, files)
    for shown in [[each] for each in reports] if to.is_folder else [reports]:
        if render.notes_beside(to.format, shown):
            from nsysconv.render.text import notes_text

            for each in shown:
                say(notes_text(each).rstrip("\n"))


def _write_file(draw: Render, reports: Sequence[Report], path: Path, files: Iterable[str]) -> None:
    _refuse_to_replace_data(files, path)
    try:
        replace(path, lambda file: draw(reports, file, Options()))
    except OSError as error:
        raise refusal_error(error, str(path)) from error


def _refuse_to_replace_data(files: Iterable[str], path: Path) -> None:
    """A slip such as `report trace.json -o trace.json` must not cost the profile, or a store."""
    if not path.is_file():
        return
    with suppress(OSError), path.open("rb") as file:
        is_data = file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
        for profile in files:
            with suppress(OSError):
                is_data = is_data or path.samefile(profile)
        if is_data:
            raise UsageError(
                "a profile or a database is not replaced by a report",
                where=str(path),
                hint="Name another file with -o.",
            )


def _options() -> Options:
    if not sys.stdout.isatty():
        return Options()
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    # https://no-color.org; a dumb terminal would show the sequences themselves.
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Options(width=width, color=not plain)


def say_missing(reports: Sequence[Report]) -> None:
    """Names on stderr the reports that the profile cannot answer."""
    for each in reports:
        say(f"{each.name}: not recorded: {', '.join(each.not_recorded)}")
