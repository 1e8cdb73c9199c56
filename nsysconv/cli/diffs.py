"""The diff command: what changed, then whether a limit is exceeded."""

from __future__ import annotations

from collections.abc import Sequence

from nsysconv.api.diffing import DEFAULT, compare
from nsysconv.cli import output
from nsysconv.cli.memory import begin_work
from nsysconv.cli.say import say
from nsysconv.timeline.slices import Slice

_FOR_PEOPLE = ("text", "markdown")


def run(
    base: str,
    other: str,
    names: Sequence[str] | None,
    format_name: str | None,
    path: str | None,
    *,
    match: str | None,
    fail_on: Sequence[str],
    limit: int | None,
    part: Slice | None,
    step_range: str | None,
) -> int:
    """`nsysconv diff`. Returns the exit status."""
    # What is said of limits is one report more.
    count = len(names or DEFAULT) + bool(fail_on)
    destination = output.destination(format_name, path, count)
    begin_work()
    result = compare(
        base,
        other,
        names or None,
        match=match,
        fail_on=fail_on,
        limit=limit,
        slice=part,
        for_people=destination.format in _FOR_PEOPLE,
        step_range=step_range,
        say=say,
    )
    output.write(result.reports, destination)
    return result.exit_status
