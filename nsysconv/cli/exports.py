"""The export command: what was written, and what has to be said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nsysconv.api.exporting import export_profiles
from nsysconv.cli.memory import begin_work
from nsysconv.cli.say import say, tell
from nsysconv.errors import UsageError
from nsysconv.timeline.slices import Slice


def run(
    target: str,
    to: str | None,
    path: Path | None,
    *,
    names: bool,
    part: Slice | None,
    step_range: str | None,
) -> int:
    """`nsysconv export`. Returns the exit status."""
    if step_range is not None:
        if part is None:
            raise UsageError(
                "--step-range without steps", hint="Name some: --step 5, --skip-first 3"
            )
        part = replace(part, step_range=step_range)
    begin_work()
    made = export_profiles(target, to, path, slice=part, names=names, say=say)
    rows = [f"{count:,} {name}" for name, count in made.written.counts.items() if count]
    tell(f"{made.path}: {', '.join(rows) if rows else 'no events'}")
    for note in made.written.notes:
        count = f" ({note.count:,})" if note.count > 1 else ""
        say(f"{note.severity.value}: {note.text}{count} [{note.slug}]")
    return 0
