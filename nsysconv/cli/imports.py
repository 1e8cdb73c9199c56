"""The import command: progress while it runs, then what came in and what did not."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nsysconv.api.importing import Done, ImportResult, RunResult, import_files
from nsysconv.api.inputs import missing_rank_lines
from nsysconv.api.profile_file import FileResult, Progress
from nsysconv.cli.runtime import begin_work, say, tell
from nsysconv.errors import InputError, NsysconvError, UsageError
from nsysconv.facts import Fact
from nsysconv.names import escaped, escaped_lines
from nsysconv.notes import Note
from nsysconv.store.location import Location
from nsysconv.store.write import Imported

_SHOWN_AFTER_S = 1.0


def run(
    inputs: list[str],
    store: str | None,
    include: list[str],
    *,
    join: bool,
    label: str | None,
    tags: Sequence[str],
    run: str | None,
    rank_from: str | None,
    replace: bool,
    strict: bool,
    jobs: int | None,
    dask: str | None,
) -> int:
    """`nsysconv import`. Returns the exit status. Raises UsageError for `tags` that are no KEY=VALUE."""
    kept = _tags(tags)
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: one file at least is read at a time")
    begin_work()
    with _progress() as (progress, done):
        result = import_files(
            inputs,
            store,
            include=include,
            join=join,
            label=label,
            tags=kept,
            run=run,
            rank_from=rank_from,
            replace=replace,
            strict=strict,
            jobs=jobs,
            dask=dask,
            progress=progress,
            done=done,
            say=say,
        )
    write(result, tell, say, named=label is not None or bool(kept))
    if result.errors or not any(file.imported for file in result.files):
        return InputError.exit_status
    return 0


def _tags(given: Sequence[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for text in given:
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
    """Rows copied and files done so far, on stderr, once an import takes more than a second; none off a
    terminal.
    """
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
    began, shown, total = time.monotonic(), False, 0
    files, what = "", ""

    def show() -> None:
        nonlocal shown
        if not shown and time.monotonic() - began > _SHOWN_AFTER_S:
            bar.start()
            shown = True
        bar.update(task, description=escaped(": ".join(part for part in (files, what) if part)))

    def advance(path: Path, table: str, rows: int) -> None:
        nonlocal total, what
        total += rows
        what = f"{path.name}: {table}, {total:,} rows"
        show()

    def done(number: int, count: int) -> None:
        nonlocal files
        files = f"{number:,} of {count:,} files" if count > 1 else ""
        show()

    try:
        yield advance, done
    finally:
        if shown:
            bar.stop()


# Of a kind of outcome so many are told one by one.
_SHOWN = 20
_REASONS_SHOWN = 10

Say = Callable[[str], None]


def write(result: ImportResult, tell: Say, say: Say, *, named: bool) -> None:
    """What came in, by `tell`; what did not, by `say`. `named`: a label or tags were asked for."""
    came = [each for file in result.files for each in file.imported]
    several = len(result.files) + len(result.passed) + len(result.lost) > 1 or len(came) > 1
    shown = 0
    for file in result.files:
        for each in file.imported:
            shown += 1
            if shown <= _SHOWN:
                _profile(each, result.store, tell, named=named)
    _further(came[_SHOWN:], tell)
    _failed([file for file in result.files if not file.skipped], "nsysconv: ", str, say)
    skipped = [file for file in result.files if file.skipped]
    _failed(skipped, "skipped: ", lambda error: error.brief, say)
    if any(file.error and file.error.hint for file in skipped):
        say("`nsysconv info FILE` says more of a file that was skipped.")
    _listed_lines(
        [f"not read: {each.path}: {each.reason}" for each in result.passed],
        "recordings that are there in another form",
        say,
    )
    for line in missing_rank_lines(result.lost, alone=not came):
        say(escaped(line))
    if several and came:
        _summary(result, came, tell)
    if result.rank_from is not None:
        say(
            "No rank is known. If the number in the files' names is the rank, "
            f"import again with --replace --rank-from '{escaped(result.rank_from)}'"
        )
    if came:
        _next(result, came, tell)


def _next(result: ImportResult, came: Sequence[Imported], tell: Say) -> None:
    """What to do now: how to learn what was not recorded, and the next command."""
    store = shlex.quote(str(result.store))
    missing = [each for each in came if each.missing]
    if missing:
        rest = len(missing) - 1
        others = f", and of {rest:,} more {_plural('profile', rest)}" if rest else ""
        target = shlex.quote(f"{result.store}@{missing[0].label}")
        tell(f"not recorded: {_facts(missing[0].missing)}{others}; see nsysconv info {target}")
    if result.is_one_run:
        tell(f"now: nsysconv report {store}")
    elif len(result.runs) == 1:
        tell(f"now: nsysconv report {shlex.quote(f'{result.store}@{result.runs[0].label}')}")
    else:
        tell(f"now: nsysconv runs {store}")


def _profile(imported: Imported, store: Location, tell: Say, *, named: bool) -> None:
    """What became of a recording. `named`: a label or tags were asked for it."""
    if imported.existing:
        # The label and tags asked for may be others: then it must be plain that they were not taken.
        under = f" as {imported.label}" if named else ""
        advice = "; --replace gives new labels and tags" if named else ""
        tell(f"{store}@{imported.label}: already imported{under}, nothing changed{advice}")
        return
    rows = [f"{count:,} {name}" for name, count in imported.row_counts.items() if count]
    tell(f"{store}@{imported.label}: {', '.join(rows) if rows else 'no events'}")
    for note in imported.notes:
        tell(_note(note))


def _note(note: Note) -> str:
    count = f" ({note.count:,})" if note.count > 1 else ""
    where = f", first at {note.where}" if note.where else ""
    return f"  {note.severity.value}: {note.text}{count}{where} [{note.slug}]"


def _facts(missing: Sequence[Fact]) -> str:
    count = len(missing)
    return f"{count} {_plural('kind', count)} of information"


def _further(rest: Sequence[Imported], tell: Say) -> None:
    """Profiles that are not told one by one."""
    if not rest:
        return
    there = sum(each.existing for each in rest)
    if there < len(rest):
        rows = sum(sum(each.row_counts.values()) for each in rest if not each.existing)
        tell(f"and {len(rest) - there:,} more profiles: {rows:,} rows")
        notes = Counter(note.slug for each in rest for note in each.notes)
        for text in _counted(notes):
            tell(f"  with the note {text}")
    if there:
        tell(f"and {there:,} more that were imported already")


def _failed(
    files: Sequence[FileResult], prefix: str, spelled: Callable[[NsysconvError], str], say: Say
) -> None:
    errors = [file.error for file in files if file.error]
    for error in errors[:_SHOWN]:
        say(f"{prefix}{escaped_lines(spelled(error))}")
    rest = errors[_SHOWN:]
    if rest:
        say(f"{prefix}{len(rest):,} more files")
        for text in _counted(Counter(error.what for error in rest)):
            say(f"  {escaped(text)}")


def _listed_lines(lines: Sequence[str], what: str, say: Say) -> None:
    for line in lines[:_SHOWN]:
        say(escaped(line))
    if len(lines) > _SHOWN:
        say(f"and {len(lines) - _SHOWN:,} more {what}")


def _counted(counts: Counter[str]) -> Iterable[str]:
    """The most frequent, with their numbers."""
    for text, count in counts.most_common(_REASONS_SHOWN):
        yield f"{text} ({count:,})"
    rest = len(counts) - _REASONS_SHOWN
    if rest > 0:
        yield f"and {rest:,} others"


def _summary(result: ImportResult, came: Sequence[Imported], tell: Say) -> None:
    """How much it was altogether, and who is there of each run of ranks."""
    new = sum(not each.existing for each in came)
    parts = [f"{new:,} {_plural('profile', new)} of {_files(result)}"]
    if new < len(came):
        parts.append(f"{len(came) - new:,} already there")
    parts.append(f"{len(result.runs):,} {_plural('run', len(result.runs))}")
    tell(f"{result.store}: {', '.join(parts)}")
    least = 1 if result.lost else 2
    ranked = [r for r in result.runs if r.census.ranks and len(r.census.profiles) >= least]
    for run in ranked[:_SHOWN]:
        for line in _run(run):
            tell(line)
    if len(ranked) > _SHOWN:
        tell(f"and {len(ranked) - _SHOWN:,} more runs; see nsysconv runs {result.store}")


def _run(run: RunResult) -> list[str]:
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
