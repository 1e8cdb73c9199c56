"""Whole profiles to another format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from nsysconv.api.open_profile import open_all
from nsysconv.api.targets import Say, StrPath, Target, silent
from nsysconv.errors import NsysconvError, UsageError
from nsysconv.export import OF_REPORTS, REPORTS_ARE_TABLES, THERE_ARE, exporter, format_for
from nsysconv.export.contract import Options, Written
from nsysconv.importers import detection
from nsysconv.importers.probe import Probe
from nsysconv.names import file_name
from nsysconv.notes import merged
from nsysconv.partials import building, sweep
from nsysconv.phases import phase
from nsysconv.refusals import refusal_error
from nsysconv.store.filesystem import publish, require_folder
from nsysconv.store.location import Url, local_path, split_target
from nsysconv.timeline.sliced import sliced
from nsysconv.timeline.slices import Slice


@dataclass(frozen=True)
class Exported:
    """The result of an export: the file or folder, and what is in it."""

    path: Path
    written: Written


def export_profiles(
    target: Target,
    to: str | None = None,
    path: StrPath | None = None,
    *,
    slice: Slice | None = None,  # noqa: A002 - what it is
    names: bool = True,
    say: Say = silent,
) -> Exported:
    """Write the profiles of a target to another format.

    `target` is a store (all its profiles; `job.db@LABEL`, `@ID`, `@rank=N` some of them) or a profile
    file, which is read in place; for nsys-sqlite it is a report of Nsight Systems. `to` is the format, by
    default the one that the suffix of `path` names. Without `path` it is STEM with the format's usual
    ending, in the current folder. `slice` says what of each profile is written, None all of it. `names`
    puts texts beside ids of names and codes in tables. The file or folder appears when it is complete.
    Raises UsageError where something has its name already, where no format is given, and where the
    format cannot hold what is asked for; InputError where the target cannot be read.
    """
    to, made = _destination(target, to, path)
    source, selector = split_target(target)
    if to == OF_REPORTS:
        if slice is not None or selector is not None:
            hint = "Write the whole report; a slice is taken when it is read."
            raise UsageError("nsys-sqlite takes no part of a report", hint=hint)
        return _export_report(source, made, say)
    with ExitStack() as stack, phase("export"):
        profiles = open_all(source, selector, stack, say)
        timelines = [profile.timeline for profile in profiles]
        if slice is not None:
            timelines = [sliced(timeline, slice) for timeline in timelines]
        partial = stack.enter_context(_being_made(made))
        with ExitStack() as until_written:
            for profile in profiles:
                until_written.enter_context(profile.profile.unchanged())
            written = exporter(to).export(timelines, partial, Options(names, made.suffix == ".gz"))
    cut = merged(note for timeline in timelines for note in timeline.slice_notes)
    return Exported(made, replace(written, notes=(*cut, *written.notes)))


def _export_report(source: Path | Url, made: Path, say: Say) -> Exported:
    # The result is what nsys itself exports, for programs that read that.
    if isinstance(source, Url):
        raise _not_a_report(str(source), "a store")
    with Probe(source) as probe:
        if not detection.is_report(probe):
            raise _not_a_report(str(source), "a SQLite file" if probe.is_sqlite else "another file")
    with phase("export"), _being_made(made) as partial, detection.refusing_defects(source):
        try:
            tables = detection.export_report(source, partial, say)
        except NsysconvError as error:
            error.where = str(made) if error.where == str(partial) else error.where
            raise
    return Exported(made, Written(tables.counts, tables.notes))


@contextmanager
def _being_made(made: Path) -> Iterator[Path]:
    # The file has the yielded name until the block ends, and is then renamed to `made`.
    sweep(made)
    with building(made) as partial:
        try:
            yield partial
            publish(partial, made)
        except OSError as error:
            hint = "Nothing was left there. Name another place with -o."
            raise refusal_error(error, str(made), hint) from error


def _not_a_report(where: str, what: str) -> UsageError:
    return UsageError(
        f"only a report of Nsight Systems can be written as nsys-sqlite, and this is {what}",
        where=where,
        hint="To the formats of nsysconv: --to parquet, --to arrow.",
    )


def _destination(target: Target, to: str | None, path: StrPath | None) -> tuple[str, Path]:
    # The result is the format and the path. UsageError is raised if the format is not clear or the path
    # is taken.
    made = None if path is None else local_path(path)
    to = format_for(made) if to is None and made is not None else to
    if to is None:
        raise UsageError("export to what?", hint=f"--to FORMAT. {THERE_ARE} {REPORTS_ARE_TABLES}")
    suffixes = (".sqlite",) if to == OF_REPORTS else exporter(to).SUFFIXES
    made = made or _default_path(target, to, suffixes)
    if made.exists() or made.is_symlink():
        hint = "Name another with -o, or remove it."
        raise UsageError("it exists already", where=str(made), hint=hint)
    require_folder(made)
    return to, made


def _default_path(target: Target, to: str, suffixes: tuple[str, ...]) -> Path:
    source, selector = split_target(target)
    if isinstance(source, Url):
        name = source.database
    else:
        name = source.resolve().name if source.is_dir() else detection.profile_label(source)
    stem = name + ("" if selector is None else f"-{selector}")
    ending = suffixes[0] if suffixes else f"_{to}"
    # A label may hold what a file's name cannot.
    return Path(file_name(stem).replace("=", "") + ending)
