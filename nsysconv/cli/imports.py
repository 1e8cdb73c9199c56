"""The import command: progress while it runs, then what came in and what did not."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nsysconv.api.importing import Done, import_files
from nsysconv.api.intake import Progress
from nsysconv.cli import import_lines
from nsysconv.cli.memory import begin_work
from nsysconv.cli.say import say, tell
from nsysconv.errors import InputError, UsageError
from nsysconv.names import escaped

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
    import_lines.write(result, tell, say, named=label is not None or bool(kept))
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
