"""The import command: progress while it runs, then what came in and what did not."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from nsysconv.api.importing import ImportResult, RunResult, import_targets
from nsysconv.api.inputs import missing_rank_lines, passed_lines, skipped_lines
from nsysconv.api.profile_file import Done, ImportOptions, Progress
from nsysconv.cli.runtime import begin_work, print_line, say
from nsysconv.errors import InputError, NsysconvError, UsageError
from nsysconv.names import escaped, escaped_lines
from nsysconv.notes import Note
from nsysconv.store.location import Location
from nsysconv.store.write import Imported

_SHOWN_AFTER_S = 1.0
# At most so many outcomes of a kind are shown one by one, and at most so many reasons with their
# counts.
_MOST_SHOWN = 20
_MOST_REASONS = 10


def import_(inputs: list[str], store: str | None, options: ImportOptions) -> int:
    """Run `nsysconv import`; return the exit status."""
    if options.workers is not None and options.workers < 1:
        raise UsageError(f"--jobs {options.workers}: at least one file is read at a time")
    begin_work()
    with _progress() as (progress, done):
        options = replace(options, progress=progress, done=done, say=say)
        result = import_targets(inputs, store, options)
    named = options.label is not None or bool(options.tags)
    _print_result(result, named=named)
    if result.errors or not any(file.imported for file in result.files):
        return InputError.exit_status
    return 0


def parse_tags(texts: Sequence[str]) -> dict[str, str]:
    """Return the tags that `--tag KEY=VALUE` gives. Raises UsageError for other texts, or a key twice."""
    tags: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign:
            hint = "For example: --tag commit=1f3a9c"
            raise UsageError(f"--tag {text!r} is not KEY=VALUE", hint=hint)
        if key in tags:
            raise UsageError(f"--tag {key} is given twice", hint="A profile has one value per key.")
        tags[key] = value
    return tags


@contextmanager
def _progress() -> Iterator[tuple[Progress, Done]]:
    # Progress is shown on stderr if that is a terminal, once an import takes more than a second.
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
        bar.update(task, description=escaped(": ".join(filter(None, (files, rows_text)))))

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


def _print_result(result: ImportResult, *, named: bool) -> None:
    # Few files are shown one by one; of many, the first are shown, and the rest are counted. `named`: a
    # label or tags were asked for.
    imported = [profile for file in result.files for profile in file.imported]
    is_several = len(result.files) + len(result.passed) + len(result.lost) > 1 or len(imported) > 1
    for profile in imported[:_MOST_SHOWN]:
        _print_profile(profile, result.store, named=named)
    _print_further(imported[_MOST_SHOWN:])
    named_errors = [file.error for file in result.files if file.error and not file.skipped]
    _say_errors(named_errors)
    skipped = [file.error for file in result.files if file.error and file.skipped]
    for line in skipped_lines(skipped):
        say(line)
    for line in passed_lines(result.passed):
        say(f"skipped: {line}")
    for line in missing_rank_lines(result.lost, alone=not imported):
        say(escaped(line))
    if is_several and imported:
        _print_summary(result, imported)
    if result.rank_from is not None:
        say(
            "No rank is known. If the number in the files' names is the rank, "
            f"import again with --replace --rank-from '{escaped(result.rank_from)}'"
        )
    if imported:
        _print_next_command(result, imported)


def _print_next_command(result: ImportResult, imported: Sequence[Imported]) -> None:
    store = shlex.quote(str(result.store))
    missing = [profile for profile in imported if profile.missing]
    if missing:
        kinds, rest = len(missing[0].missing), len(missing) - 1
        others = f", and of {rest:,} more {_plural('profile', rest)}" if rest else ""
        target = shlex.quote(f"{result.store}@{missing[0].label}")
        facts = f"{kinds} {_plural('kind', kinds)} of information"
        print_line(f"not recorded: {facts}{others}; see nsysconv info {target}")
    if result.is_one_run:
        print_line(f"now: nsysconv {store}")
    elif len(result.runs) == 1:
        run = shlex.quote(f"{result.store}@{result.runs[0].label}")
        print_line(f"now: nsysconv {run}")
    else:
        print_line(f"now: nsysconv runs {store}")


def _print_profile(imported: Imported, store: Location, *, named: bool) -> None:
    place = f"{store}@{imported.label}"
    if imported.existing:
        # If a label or tags were asked for, it must be plain that they were not taken.
        under = f" as {imported.label}" if named else ""
        advice = "; --replace gives new labels and tags" if named else ""
        print_line(f"{place}: already imported{under}, nothing changed{advice}")
        return
    rows = [f"{count:,} {name}" for name, count in imported.row_counts.items() if count]
    print_line(f"{place}: {', '.join(rows) if rows else 'no events'}")
    for note in imported.notes:
        print_line(_note(note))


def _note(note: Note) -> str:
    count = f" ({note.count:,})" if note.count > 1 else ""
    where = f", first at {note.where}" if note.where else ""
    return f"  {note.severity.value}: {note.text}{count}{where} [{note.slug}]"


def _print_further(rest: Sequence[Imported]) -> None:
    existing = sum(each.existing for each in rest)
    if existing < len(rest):
        rows = sum(sum(each.row_counts.values()) for each in rest if not each.existing)
        print_line(f"and {len(rest) - existing:,} more profiles: {rows:,} rows")
        for text in _most_frequent(note.slug for each in rest for note in each.notes):
            print_line(f"  with the note {text}")
    if existing:
        print_line(f"and {existing:,} more that were imported already")


def _say_errors(errors: Sequence[NsysconvError]) -> None:
    for error in errors[:_MOST_SHOWN]:
        say(f"nsysconv: {escaped_lines(str(error))}")
    rest = errors[_MOST_SHOWN:]
    if rest:
        say(f"nsysconv: {len(rest):,} more files")
        for text in _most_frequent(error.what for error in rest):
            say(f"  {escaped(text)}")


def _most_frequent(texts: Iterable[str]) -> Iterator[str]:
    counts = Counter(texts)
    for text, count in counts.most_common(_MOST_REASONS):
        yield f"{text} ({count:,})"
    if (rest := len(counts) - _MOST_REASONS) > 0:
        yield f"and {rest:,} others"


def _print_summary(result: ImportResult, imported: Sequence[Imported]) -> None:
    new = sum(not profile.existing for profile in imported)
    files = sum(not file.skipped for file in result.files)
    parts = [f"{new:,} {_plural('profile', new)} of {files:,} {_plural('file', files)}"]
    if result.errors:
        parts.append(f"{len(result.errors):,} not imported")
    if new < len(imported):
        parts.append(f"{len(imported) - new:,} already there")
    parts.append(f"{len(result.runs):,} {_plural('run', len(result.runs))}")
    print_line(f"{result.store}: {', '.join(parts)}")
    least = 1 if result.lost else 2
    ranked = [r for r in result.runs if r.census.ranks and len(r.census.profiles) >= least]
    for run in ranked[:_MOST_SHOWN]:
        for line in _run_lines(run):
            print_line(line)
    if (rest := len(ranked) - _MOST_SHOWN) > 0:
        print_line(f"and {rest:,} more runs; see nsysconv runs {result.store}")


def _run_lines(run: RunResult) -> list[str]:
    ranks, hosts = len(run.census.ranks), len(run.census.hosts)
    text = f"run {run.label}: {ranks:,} {_plural('rank', ranks)}"
    if hosts:
        text += f" on {hosts:,} {_plural('host', hosts)}"
    return [text, *map(_note, run.census.notes())]


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
