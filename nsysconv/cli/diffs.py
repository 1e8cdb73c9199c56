"""The diff command: what changed, then whether a limit is exceeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nsysconv import render
from nsysconv.api.diffing import DEFAULT, DiffResult, compare
from nsysconv.cli import output
from nsysconv.cli.memory import begin_work
from nsysconv.cli.say import say
from nsysconv.notes import Note
from nsysconv.report import Report
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
    limits: str | None,
    run_noise: str | None,
    cannot_tell: str | None,
    limit: int | None,
    part: Slice | None,
    step_range: str | None,
) -> int:
    """`nsysconv diff`. Returns the exit status."""
    # What is said of limits is one report more.
    count = len(names or DEFAULT) + bool(fail_on or limits)
    destination = output.destination(format_name, path, count)
    for_people = destination.format in _FOR_PEOPLE
    begin_work()
    result = compare(
        base,
        other,
        names or None,
        match=match,
        fail_on=fail_on,
        limits=limits,
        run_noise=run_noise,
        cannot_tell=cannot_tell,
        limit=limit,
        slice=part,
        for_people=for_people,
        step_range=step_range,
        say=say,
    )
    reports = _in_reading_order(result)
    if render.holds_one(destination.format) and not destination.is_folder:
        say(result.answer)
        reports = list(result.reports)
    elif for_people and not destination.is_folder:
        reports = _noted_once(reports)
    output.write(reports, destination)
    return result.exit_status


def _noted_once(reports: Sequence[Report]) -> list[Report]:
    """The reports with each note below the first that bears it: most are on what all are made of."""
    shown: set[Note] = set()
    result = []
    for report in reports:
        notes = tuple(note for note in report.notes if note not in shown)
        shown.update(notes)
        result.append(replace(report, notes=notes))
    return result


def _in_reading_order(result: DiffResult) -> list[Report]:
    """The answer, what is said of limits, then what explains it."""
    limits = [report for report in result.reports if report.name == "limits"]
    return [result.headline, *limits, *(each for each in result.reports if each not in limits)]
