"""The commands: one call of the library each, and its reports rendered to where -f and -o say."""

from __future__ import annotations

import itertools
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysconv import api, queries, render
from nsysconv.api.options import PartOptions
from nsysconv.api.targets import Files, Joined
from nsysconv.cli.runtime import begin_work, print_line, reader_may_go, say
from nsysconv.document import Section
from nsysconv.errors import InputError, NotRecorded, StrictError, UsageError
from nsysconv.importers.detection import is_recording
from nsysconv.names import file_name
from nsysconv.notes import Note, Severity
from nsysconv.phases import phase
from nsysconv.refusals import refusal_error
from nsysconv.render import brief_rows
from nsysconv.render.contract import Options, Render
from nsysconv.store.filesystem import follow_links, require_folder, write_atomically
from nsysconv.store.location import local_path, split_target
from nsysconv.timeline.slices import Slice

if TYPE_CHECKING:
    from nsysconv.api.options import DiffOptions, ReportOptions

_DIFF_FORMATS_FOR_PEOPLE = ("text", "markdown")
_LIST_WIDTH = 80

# -- the commands


def answer(
    target: str,
    options: ReportOptions,
    format_name: str | None,
    output: str | None,
    *,
    brief: bool,
) -> int:
    """Run `nsysconv TARGET`; return the exit status."""
    from nsysconv.api.answering import Answer, answer, choices
    from nsysconv.api.open_profile import SeveralChoicesError
    from nsysconv.api.reporting import report_target

    destination = parse_destination(format_name, output)
    is_brief = brief_form(brief, destination) is not None
    if render.holds_one(destination.format) and not destination.is_folder:
        hint = (
            f"One of them: nsysconv report {target} summary -f {destination.format}; all: -o DIR/"
        )
        raise UsageError(f"{destination.format} holds one report, and the answer is two", hint=hint)
    if destination.is_page:
        return report(target, options, format_name, output)
    begin_work()
    if destination.for_people:
        try:
            answered = answer(target, options, say)
        except SeveralChoicesError as several:
            answered = Answer(choices(several, target), ())
        write(answered.reports, destination, target)
        return _status(answered.notes)
    asked = replace(options, names=queries.ANSWER)
    reports = report_target(target, asked, say)
    if is_brief:
        from nsysconv.render import brief as brief_json

        if not any(row.get("span_ns") for row in reports[0]) and not len(reports[1]):
            # What people see has lines on what else was recorded.
            reports = [*reports, *answer(target, options).reports]
        write(reports, destination, target, draw=brief_json.render)
    else:
        write(reports, destination, target)
    return _status(_notes(reports))


def open_page(
    target: str, options: ReportOptions, format_name: str | None, output: str | None
) -> int:
    """Run `nsysconv TARGET --open`: write the page and show it; return the exit status.

    Without an output it is a file in the current folder, called after the target; what is there under
    that name is replaced, and that is said.
    """
    if format_name not in (None, "html"):
        raise UsageError(f"--open with -f {format_name}", hint="A page is HTML.")
    default = f"{Path(str(split_target(target)[0])).name or 'profile'}.html"
    name = default if output is None else output
    path = Path(name).absolute()
    replaced = " (in place of an older file)" if path.exists() else ""
    status = report(target, replace(options, workers=None, dask=None), "html", name)
    if shows_windows():
        import webbrowser

        if webbrowser.open(path.as_uri()):
            print_line(f"{path}: opened{replaced}")
            return status
    print_line(f"{path}{replaced}")
    print_line(f"There is no display here. On your own machine: scp {platform.node()}:{path} .")
    return status


def shows_windows() -> bool:
    """Return whether a browser's window can be shown here."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or bool(has_display)


def with_files(
    target: str, words: Iterable[str] | None, reports: Iterable[str] = ()
) -> tuple[str, list[str]]:
    """Return the target with the files after it, as a shell lists those of a pattern, and the rest.

    A word that names one of these reports is no file, whatever lies in the folder: `core`.
    """
    words, named = list(words or ()), frozenset(reports)
    is_more = (word.partition(":")[0] not in named and _is_file(word) for word in words)
    count = sum(1 for _ in itertools.takewhile(bool, is_more)) if _is_file(target) else 0
    files = words[:count]
    return (Files([target, *files]) if files else target), words[len(files) :]


def joined_target(
    target: str, words: Iterable[str] | None, reports: Iterable[str] = ()
) -> tuple[str, list[str]]:
    """Return the target and the files, or profiles of stores, after it as one profile, and the rest."""
    named, words = frozenset(reports), list(words or ())
    # A word may look like the name of a missing file, which reading then reports.
    is_more = (
        word.partition(":")[0] not in named
        and (_is_file(str(split_target(word)[0])) or bool({".", os.sep} & {*word}))
        for word in words
    )
    count = sum(1 for _ in itertools.takewhile(bool, is_more))
    if not count:
        hint = (
            "A timeline, and metrics of its kernels or source lines: run.sqlite metrics.csv --join"
        )
        raise UsageError("--join joins the files after the first one", where=target, hint=hint)
    return Joined([target, *words[:count]]), words[count:]


def joined_alone(target: str, words: Iterable[str] | None) -> str:
    """Return the target and these files as one profile. Raises UsageError for a word that is no file."""
    joined, rest = joined_target(target, words)
    if rest:
        raise UsageError(f"{rest[0]}: no such file to join", where=target)
    return joined


def answered_target(target: str, more: Sequence[str]) -> str:
    """Return the target of an answer: files that a shell listed are one. Raises UsageError for others."""
    from nsysconv.api.inputs import find_inputs

    target, rest = with_files(target, more)
    # Two profiles are rather compared; two files of one recording, or a report and its export, are not.
    files = target.paths if isinstance(target, Files) else ()
    if rest or (len(files) == 2 and len(find_inputs(files).read) == 2):
        words, is_file = " ".join(more), Path(more[0].partition("@")[0]).exists()
        hint = f"Try: nsysconv {'diff' if is_file else 'report'} {target} {words}"
        raise UsageError(f"{words}: only one target is answered", hint=hint)
    return target


def _is_file(word: str) -> bool:
    # What is too long for a name, or no name at all, is an error to this or that system.
    with suppress(OSError, ValueError):
        return Path(word).is_file()
    return False


def sides(
    base: str, other: str, words: Sequence[str], reports: Iterable[str]
) -> tuple[str, str, list[str]]:
    """Return both sides of a comparison and the rest of the words; a shell may have listed their files.

    The files of a side are in one folder, or have names that differ in numbers alone. Raises UsageError
    where it is not clear where the other side begins.
    """
    first, rest = with_files(base, [other, *words], reports)
    if len(rest) >= len(words) + 1 or not isinstance(first, Files):
        return base, other, list(words)
    if len(first.paths) == 2:
        return base, other, rest
    by_folder, by_name = (
        [Files(group) for _, group in itertools.groupby(first.paths, key)]
        for key in (lambda path: path.parent, lambda path: re.sub(r"[0-9]+", "0", path.name))
    )
    for found in (by_folder, by_name):
        if len(found) == 2:
            return found[0], found[1], rest
    hint = "Quote the patterns: nsysconv diff 'base/*.sqlite' 'other/*.sqlite'"
    raise UsageError(f"{len(first.paths)} files: which are of which side?", hint=hint)


def report(
    target: str | None,
    options: ReportOptions,
    format_name: str | None,
    output: str | None,
    *,
    strict: bool = False,
    wide: bool = False,
    brief: bool = False,
) -> int:
    """Run `nsysconv report`; return the exit status."""
    from nsysconv.api.answering import answer
    from nsysconv.api.reporting import report_target

    if target is not None and not isinstance(target, Joined):
        reports_and_groups = (*queries.REPORTS, *queries.GROUPS)
        target, names_left = with_files(target, options.names, reports_and_groups)
        options = replace(options, names=names_left or None)
    if target is None:
        hint = "nsysconv report TARGET [REPORT]...; --list names reports."
        raise UsageError("report on what?", hint=hint)
    if target in queries.REPORTS and not Path(target).exists():
        words = " ".join((*(options.names or ("TARGET",)), target))
        hint = f"The target comes first: nsysconv report {words}"
        raise UsageError(f"report on what? {target} is a report", hint=hint)
    is_named = bool(options.names)
    names = queries.expanded(options.names or queries.DEFAULT)
    with _naming(target):
        destination = parse_destination(format_name, output, names)
    draw = brief_form(brief, destination, options.limit)
    begin_work()
    reports: Sequence[Section]
    if destination.is_page:
        from nsysconv.api.html_report import page_of

        reports = page_of(target, replace(options, names=names if is_named else None), say)
    elif not is_named and destination.for_people:
        answered = answer(target, options, say)
        write(answered.reports, destination, target, wide=wide)
        return _status(answered.notes, strict=strict)
    else:
        wanted = replace(options, names=names, for_people=destination.for_people)
        reports = report_target(target, wanted, say)
    write(reports, destination, target, draw=draw, wide=wide)
    status = _status(_notes(reports), strict=strict)
    missing = [each for each in reports if each.table is None]
    # A group's reports that cannot be made are no failure, so only reports named by themselves count.
    named = (name for name in options.names or () if name not in queries.GROUPS)
    asked = {queries.parse_spec(name).name for name in named}
    if not status and any(queries.parse_spec(each.name).name in asked for each in missing):
        return NotRecorded.exit_status
    if not destination.for_people and not destination.is_page:
        for each in missing:
            say(f"{each.name}: not recorded: {', '.join(each.not_recorded)}")
    return status


@contextmanager
def _naming(target: str) -> Iterator[None]:
    # Commands in the hint of a wrong call are to be copied as they are.
    try:
        yield
    except UsageError as error:
        error.hint = error.hint.replace("TARGET", shlex.quote(str(target)))
        raise


def _notes(reports: Sequence[Section]) -> list[Note]:
    return [note for each in reports for note in each.notes]


def _status(notes: Sequence[Note], *, strict: bool = False) -> int:
    # The readable profiles are shown. The status says whether a file of the folder could not be read.
    from nsysconv.api.inputs import UNREAD

    doubts = {note.slug for note in notes if note.severity is not Severity.INFO}
    if strict and doubts:
        say(f"--strict: dropped or approximated: {', '.join(sorted(doubts))}")
        return StrictError.exit_status
    return InputError.exit_status if UNREAD in doubts else 0


def diff(
    base: str,
    other: str,
    options: DiffOptions,
    format_name: str | None,
    output: str | None,
    *,
    brief: bool,
    wide: bool,
) -> int:
    """Run `nsysconv diff`; return the exit status."""
    from nsysconv.api.diffing import COMPARABLE, DEFAULT, compare_targets

    base, other, words = sides(base, other, list(options.reports or ()), COMPARABLE)
    options = replace(options, reports=words or None)
    # The verdicts on limits are a further report.
    names = list(options.reports or DEFAULT)
    if options.fail_on or options.limits:
        names.append("limits")
    destination = parse_destination(format_name, output, names)
    if brief and (destination.format not in ("markdown", "json") or destination.is_folder):
        what = "--brief is a form of Markdown and of JSON"
        raise UsageError(what, hint="Add -f markdown or -f json.")
    for_people = destination.format in _DIFF_FORMATS_FOR_PEOPLE
    begin_work()
    for_page = destination.format == "html" and not destination.is_folder
    options = replace(options, for_people=for_people, for_page=for_page)
    result = compare_targets(base, other, options, say)
    # The answer comes first, then the verdicts on limits, then the reports that explain the answer.
    limits = [each for each in result.reports if each.name == "limits"]
    others = [each for each in result.reports if each not in limits]
    of_limits = [each.briefly() for each in limits] if destination.format == "text" else limits
    reports: list[Section] = [result.headline, *of_limits, *others]
    if render.holds_one(destination.format) and not destination.is_folder:
        say(result.answer)
        reports = list(result.reports)
    elif for_people and not destination.is_folder and destination.format != "text":
        reports = _with_notes_once(reports)
    if brief and destination.format == "json":
        reports = [result.headline, *limits, *others]
        write(reports, destination, draw=brief_form(brief, destination, options.limit))
    elif brief:
        from nsysconv.render import comment

        write(reports, destination, draw=comment.render)
    else:
        write(reports, destination, wide=wide)
    return result.exit_status


def _with_notes_once(reports: Sequence[Section]) -> list[Section]:
    # Most notes are on what all reports are made of: each comes below the first that has it.
    shown: set[Note] = set()
    result = []
    for each in reports:
        result.append(replace(each, notes=tuple(n for n in each.notes if n not in shown)))
        shown.update(each.notes)
    return result


def export(
    target: str,
    to: str | None,
    output: Path | None,
    *,
    names: bool,
    part: Mapping[str, Any],
) -> int:
    """Run `nsysconv export`; return the exit status."""
    asked = PartOptions(**part_keywords(**part))
    if asked.slice is None and (asked.step_rule or asked.grammar):
        flag = next(name for name in _STEPS if getattr(asked, name)).replace("_", "-")
        hint = "Name some: --step 5, --skip-first 3"
        raise UsageError(f"--{flag} without steps", hint=hint)
    begin_work()
    with _naming(target):
        exported = api.export_profiles(target, to, output, slice=asked.part, names=names, say=say)
    rows = [f"{count:,} {name}" for name, count in exported.written.counts.items() if count]
    print_line(f"{exported.path}: {', '.join(rows) if rows else 'no events'}")
    for note in exported.written.notes:
        count = f" ({note.count:,})" if note.count > 1 else ""
        say(f"{note.severity.value}: {note.text}{count} [{note.slug}]")
    return 0


# -- which part of a profile


_STEPS = ("step_range", "step_kernel", "step_graph", "grammar")


def part_keywords(**flags: Any) -> dict[str, Any]:
    """Return what the flags of a slice say, as keywords of options. Raises UsageError."""
    steps = {name: flags.pop(name) for name in _STEPS}
    return {"slice": parse_slice(**flags), **steps}


def parse_slice(time: str | None = None, **flags: Any) -> Slice | None:
    """Return the slice of flags that are called as its fields, None for the whole. Raises UsageError."""
    given = {"time": time, **flags}
    part = Slice(**{name: value for name, value in given.items() if value is not None})
    return None if part.is_whole else part


# -- where reports go

_SQLITE_MAGIC = b"SQLite format 3\0"


@dataclass(frozen=True)
class Destination:
    """The format and, unless it is stdout, the file or folder."""

    format: str
    path: Path | None
    is_folder: bool

    @property
    def for_people(self) -> bool:
        """Return whether rows are to be read rather than parsed."""
        return self.format == "text"

    @property
    def is_page(self) -> bool:
        """Return whether it is one page that has room for everything."""
        return self.format == "html" and not self.is_folder


def parse_destination(
    format_name: str | None, output: str | None, names: Sequence[str] = ("",)
) -> Destination:
    """Return what -f and -o mean together, for reports of these names. Call it before they are made.

    Raises UsageError for a suffix that names no format, a format that has no room for so many, a link
    that is not followed, and a file whose folder does not exist.
    """
    name, path = format_name, None
    if output is not None:
        if not output:
            raise UsageError("-o names no file", hint="A file, or a folder with / at its end.")
        path = local_path(output)
        follow_links(path)
        if path.is_dir() or output.endswith("/"):
            return Destination(name or "csv", path, True)
        require_folder(path)
        name = name or render.format_for(path)
    name = name or "text"
    render.check_count(name, names)
    return Destination(name, path, False)


def brief_form(wanted: bool, destination: Destination, limit: int | None = None) -> Render | None:
    """Return what draws brief tables, if they are wanted: of at most 4 kB, unless a limit asks for more.

    Raises UsageError for another format than JSON.
    """
    if not wanted:
        return None
    if destination.format != "json" or destination.is_folder:
        raise UsageError("--brief is a form of JSON", hint="Add -f json.")
    return brief_rows.render if limit is None else brief_rows.render_all


def write(
    reports: Sequence[Section],
    to: Destination,
    source: str | None = None,
    *,
    draw: Render | None = None,
    wide: bool = False,
    elsewhere: int = render.WIDTH_ELSEWHERE,
) -> None:
    """Render the reports. Notes go to stderr if the format has no place for them.

    `draw` takes the place of the format's own function; `wide`: no text is shortened to a width, which
    is `elsewhere` without a terminal.

    `source` is the target, if the reports do not name the profiles that they are of: neither it nor they
    are replaced.
    """
    inputs = {profile.path for each in reports for profile in each.profiles}
    if source is not None:
        inputs |= {source, str(split_target(source)[0])}
    draw = draw or render.renderer(to.format)
    with phase("render"):
        if to.path is None:
            with reader_may_go():
                draw(reports, sys.stdout, _terminal_options(wide, elsewhere))
                sys.stdout.flush()
        elif to.is_folder:
            to.path.mkdir(parents=True, exist_ok=True)
            for each in reports:
                name = file_name(each.name) + render.suffix(to.format)
                _write_file(draw, [each], to.path / name, inputs, wide)
        else:
            _write_file(draw, reports, to.path, inputs, wide)
    for shown in [[each] for each in reports] if to.is_folder else [reports]:
        if render.lacks_notes(to.format, shown):
            from nsysconv.render.text import notes_text

            for each in shown:
                say(notes_text(each).rstrip("\n"))


def _write_file(
    draw: Render, reports: Sequence[Section], path: Path, inputs: Iterable[str], wide: bool
) -> None:
    _check_replaceable(path, inputs)
    options = Options(width=None if wide else render.WIDTH_ELSEWHERE)
    try:
        write_atomically(path, lambda file: draw(reports, file, options))
    except OSError as error:
        raise refusal_error(error, str(path)) from error


def _check_replaceable(path: Path, inputs: Iterable[str]) -> None:
    # A slip such as `report trace.json -o trace.json` must not cost the profile, or a store.
    if not path.is_file():
        return
    with suppress(OSError), path.open("rb") as file:
        is_data = file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC
        for profile in inputs:
            with suppress(OSError):
                is_data = is_data or path.samefile(profile)
        if is_data or is_recording(path):
            what = "a profile or a database is not replaced by a report"
            raise UsageError(what, where=str(path), hint="Name another file with -o.")


def _terminal_options(wide: bool, elsewhere: int) -> Options:
    width = None if wide else render.width_of(sys.stdout, elsewhere)
    if not sys.stdout.isatty():
        return Options(width)
    # https://no-color.org; a dumb terminal would show the sequences themselves.
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Options(width, color=not plain)
