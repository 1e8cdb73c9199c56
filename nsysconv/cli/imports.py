"""The import command: progress while it runs, then what came in and what did not."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from nsysconv.api.importing import ImportResult, RunResult, import_targets
from nsysconv.api.inputs import missing_rank_lines
from nsysconv.api.profile_file import Done, FileResult, ImportOptions, Progress
from nsysconv.cli.runtime import begin_work, print_line, say
from nsysconv.errors import InputError, NsysconvError, UsageError
from nsysconv.facts import Fact
from nsysconv.names import escaped, escaped_lines
from nsysconv.notes import Note
from nsysconv.store.location import Location
from nsysconv.store.write import Imported

_SHOWN_AFTER_S = 1.0
# So many outcomes of a kind are shown one by one, and so many reasons with their counts.
_MOST_SHOWN = 20
_MOST_REASONS = 10

Print = Callable[[str], None]


def import_(inputs: list[str], store: str | None, options: ImportOptions) -> int:
    """Run `nsysconv import`; return the exit status."""
    if options.jobs is not None and options.jobs < 1:
        raise UsageError(f"--jobs {options.jobs}: one file at least is read at a time")
    begin_work()
    with _progress() as (progress, done):
        options = replace(options, progress=progress, done=done, say=say)
        result = import_targets(inputs, store, options)
    named = options.label is not None or bool(options.tags)
    _print_result(result, print_line, say, named=named)
    if result.errors or not any(file.imported for file in result.files):
        return InputError.exit_status
    return 0


def parse_tags(texts: Sequence[str]) -> dict[str, str]:
    """Return the tags that `--tag KEY=VALUE` gives. Raises UsageError for other texts, or a key twice."""
    tags: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign:
            raise UsageError(
                f"--tag {text!r} is not KEY=VALUE", hint="For example: --tag commit=1f3a9c"
            )
        if key in tags:
            raise UsageError(f"--tag {key} is given twice", hint="A profile has one value per key.")
        tags[key] = value
    return tags


@contextmanager
def _progress() -> Iterator[tuple[Progress, Done]]:
    # On stderr, if that is a terminal, once an import takes more than a second.
    if not sys.stderr.isatty():
        yield (lambda path, table, rows: None), (lambda number, count: None)
        return
    from rich import progress as rich_progress
    from rich.console import Console

    bar = rich_progress.Progress(
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("")
    start, is_shown, row_count = time.monotonic(), False, 0
    files, rows_text = "", ""

    def show() -> None:
        nonlocal is_shown
        if not is_shown and time.monotonic() - start > _SHOWN_AFTER_S:
            bar.start()
            is_shown = True
        bar.update(
            task, description=escaped(": ".join(part for part in (files, rows_text) if part))
        )

    def advance(path: Path, table: str, rows: int) -> None:
        nonlocal row_count, rows_text
        row_count += rows
        rows_text = f"{path.name}: {table}, {row_count:,} rows"
        show()

    def done(number: int, count: int) -> None:
        nonlocal files
        files = f"{number:,} of {count:,} files" if count > 1 else ""
        show()

    try:
        yield advance, done
    finally:
        if is_shown:
            bar.stop()


# -- what came in, and what did not


def _print_result(result: ImportResult, out: Print, err: Print, *, named: bool) -> None:
    # Of few files each is shown, of many the first, and how many there were. `named`: a label or tags
    # were asked for.
    imported = [profile for file in result.files for profile in file.imported]
    is_several = len(result.files) + len(result.passed) + len(result.lost) > 1 or len(imported) > 1
    for profile in imported[:_MOST_SHOWN]:
        _print_profile(profile, result.store, out, named=named)
    _print_further(imported[_MOST_SHOWN:], out)
    _print_errors([file for file in result.files if not file.skipped], "nsysconv: ", str, err)
    skipped = [file for file in result.files if file.skipped]
    _print_errors(skipped, "skipped: ", lambda error: error.brief, err)
    if any(file.error and file.error.hint for file in skipped):
        err("`nsysconv info FILE` says more of a file that was skipped.")
    for file in result.passed[:_MOST_SHOWN]:
        err(escaped(f"not read: {file.path}: {file.reason}"))
    if len(result.passed) > _MOST_SHOWN:
        rest = len(result.passed) - _MOST_SHOWN
        err(f"and {rest:,} more recordings that are there in another form")
    for line in missing_rank_lines(result.lost, alone=not imported):
        err(escaped(line))
    if is_several and imported:
        _print_summary(result, imported, out)
    if result.rank_from is not None:
        err(
            "No rank is known. If the number in the files' names is the rank, "
            f"import again with --replace --rank-from '{escaped(result.rank_from)}'"
        )
    if imported:
        _print_next_command(result, imported, out)


def _print_next_command(result: ImportResult, imported: Sequence[Imported], out: Print) -> None:
    store = shlex.quote(str(result.store))
    missing = [profile for profile in imported if profile.missing]
    if missing:
        rest = len(missing) - 1
        others = f", and of {rest:,} more {_plural('profile', rest)}" if rest else ""
        target = shlex.quote(f"{result.store}@{missing[0].label}")
        out(f"not recorded: {_facts(missing[0].missing)}{others}; see nsysconv info {target}")
    if result.is_one_run:
        out(f"now: nsysconv report {store}")
    elif len(result.runs) == 1:
        out(f"now: nsysconv report {shlex.quote(f'{result.store}@{result.runs[0].label}')}")
    else:
        out(f"now: nsysconv runs {store}")


def _print_profile(imported: Imported, store: Location, out: Print, *, named: bool) -> None:
    if imported.existing:
        # If a label or tags were asked for, it must be plain that they were not taken.
        under = f" as {imported.label}" if named else ""
        advice = "; --replace gives new labels and tags" if named else ""
        out(f"{store}@{imported.label}: already imported{under}, nothing changed{advice}")
        return
    rows = [f"{count:,} {name}" for name, count in imported.row_counts.items() if count]
    out(f"{store}@{imported.label}: {', '.join(rows) if rows else 'no events'}")
    for note in imported.notes:
        out(_note(note))


def _note(note: Note) -> str:
    count = f" ({note.count:,})" if note.count > 1 else ""
    where = f", first at {note.where}" if note.where else ""
    return f"  {note.severity.value}: {note.text}{count}{where} [{note.slug}]"


def _facts(missing: Sequence[Fact]) -> str:
    count = len(missing)
    return f"{count} {_plural('kind', count)} of information"


def _print_further(rest: Sequence[Imported], out: Print) -> None:
    existing = sum(each.existing for each in rest)
    if existing < len(rest):
        rows = sum(sum(each.row_counts.values()) for each in rest if not each.existing)
        out(f"and {len(rest) - existing:,} more profiles: {rows:,} rows")
        notes = Counter(note.slug for each in rest for note in each.notes)
        for text in _most_frequent(notes):
            out(f"  with the note {text}")
    if existing:
        out(f"and {existing:,} more that were imported already")


def _print_errors(
    files: Sequence[FileResult], prefix: str, text_of: Callable[[NsysconvError], str], err: Print
) -> None:
    errors = [file.error for file in files if file.error]
    for error in errors[:_MOST_SHOWN]:
        err(f"{prefix}{escaped_lines(text_of(error))}")
    rest = errors[_MOST_SHOWN:]
    if rest:
        err(f"{prefix}{len(rest):,} more files")
        for text in _most_frequent(Counter(error.what for error in rest)):
            err(f"  {escaped(text)}")


def _most_frequent(counts: Counter[str]) -> Iterator[str]:
    for text, count in counts.most_common(_MOST_REASONS):
        yield f"{text} ({count:,})"
    rest = len(counts) - _MOST_REASONS
    if rest > 0:
        yield f"and {rest:,} others"


def _print_summary(result: ImportResult, imported: Sequence[Imported], out: Print) -> None:
    new = sum(not profile.existing for profile in imported)
    parts = [f"{new:,} {_plural('profile', new)} of {_files(result)}"]
    if new < len(imported):
        parts.append(f"{len(imported) - new:,} already there")
    parts.append(f"{len(result.runs):,} {_plural('run', len(result.runs))}")
    out(f"{result.store}: {', '.join(parts)}")
    least = 1 if result.lost else 2
    ranked = [r for r in result.runs if r.census.ranks and len(r.census.profiles) >= least]
    for run in ranked[:_MOST_SHOWN]:
        for line in _run_lines(run):
            out(line)
    if len(ranked) > _MOST_SHOWN:
        out(f"and {len(ranked) - _MOST_SHOWN:,} more runs; see nsysconv runs {result.store}")


def _run_lines(run: RunResult) -> list[str]:
    ranks, hosts = len(run.census.ranks), len(run.census.hosts)
    text = f"run {run.label}: {ranks:,} {_plural('rank', ranks)}"
    if hosts:
        text += f" on {hosts:,} {_plural('host', hosts)}"
    return [text, *map(_note, run.census.notes())]


def _files(result: ImportResult) -> str:
    count = sum(bool(file.imported) for file in result.files)
    return f"{count:,} {_plural('file', count)}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
