"""The import command: progress while it runs, then what came in and what did not."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from nsysconv.api.importing import Progress, import_files
from nsysconv.cli.say import say
from nsysconv.errors import InputError, UsageError
from nsysconv.facts import Fact
from nsysconv.names import visible
from nsysconv.store.write import Imported

_SHOWN_AFTER_S = 1.0
_FACTS_SHOWN = 4


def run(
    inputs: list[Path],
    store: Path | None,
    include: list[str],
    *,
    join: bool,
    label: str | None,
    tags: Sequence[str],
    replace: bool,
    strict: bool,
) -> int:
    """`nsysconv import`. Returns the exit status. Raises UsageError for `tags` that are no KEY=VALUE."""
    kept = _tags(tags)
    with _progress() as progress:
        result = import_files(
            inputs,
            store,
            include=include,
            join=join,
            label=label,
            tags=kept,
            replace=replace,
            strict=strict,
            progress=progress,
            say=say,
        )
    for file in result.files:
        for imported in file.imported:
            _show(imported, result.store, sys.stdout, named=label is not None or bool(kept))
        if file.error is not None:
            prefix = "skipped: " if file.skipped else "nsysconv: "
            say(f"{prefix}{visible_lines(str(file.error))}")
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


def _show(imported: Imported, store: Path, out: TextIO, *, named: bool) -> None:
    """What became of a recording. `named`: a label or tags were asked for it."""

    def line(text: str = "") -> None:
        out.write(text + "\n")

    if imported.existing:
        # The label and tags asked for may be others: then it must be plain that they were not taken.
        under = f" as {imported.label}" if named else ""
        advice = "; --replace gives new labels and tags" if named else ""
        line(f"{store}@{imported.label}: already imported{under}, nothing changed{advice}")
        return
    rows = [f"{count:,} {name}" for name, count in imported.row_counts.items() if count]
    line(f"{store}@{imported.label}: {', '.join(rows) if rows else 'no events'}")
    if imported.missing:
        line(f"  not recorded: {_listed(imported.missing, f'{store}@{imported.label}')}")
    for note in imported.notes:
        count = f" ({note.count:,})" if note.count > 1 else ""
        where = f", first at {note.where}" if note.where else ""
        line(f"  {note.severity.value}: {visible(note.text)}{count}{where} [{note.slug}]")


def _listed(missing: Sequence[Fact], target: str) -> str:
    """The first few facts, which most reports ask for, and where the others are listed."""
    shown = ", ".join(fact.label for fact in missing[:_FACTS_SHOWN])
    rest = len(missing) - _FACTS_SHOWN
    return shown if rest <= 0 else f"{shown} and {rest} more; see nsysconv info {target}"


def visible_lines(text: str) -> str:
    """As names.visible, line breaks kept."""
    return "\n".join(visible(line) for line in text.split("\n"))


@contextmanager
def _progress() -> Iterator[Progress]:
    """Rows copied so far, on stderr, once an import takes more than a second; none off a terminal."""
    if not sys.stderr.isatty():
        yield lambda path, table, rows: None
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

    def advance(path: Path, table: str, rows: int) -> None:
        nonlocal shown, total
        total += rows
        if not shown and time.monotonic() - began > _SHOWN_AFTER_S:
            bar.start()
            shown = True
        bar.update(task, description=visible(f"{path.name}: {table}, {total:,} rows"))

    try:
        yield advance
    finally:
        if shown:
            bar.stop()
