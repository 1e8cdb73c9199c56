"""Commands that answer questions: report, info, runs, sql."""

from __future__ import annotations

from collections.abc import Sequence

from nsysconv import api
from nsysconv.cli import output
from nsysconv.cli.memory import begin_work
from nsysconv.cli.say import say
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.notes import Severity
from nsysconv.queries import CORE, ROWS_FOR_PEOPLE
from nsysconv.report import Report
from nsysconv.timeline.slices import Slice

_INFO_COUNT = 2  # what it is, and what it can answer


def report(
    target: str | None,
    names: Sequence[str] | None,
    format_name: str | None,
    path: str | None,
    *,
    limit: int | None,
    part: Slice | None,
    idle: Sequence[str],
    kernel_names: str,
    by: str | None,
    step_range: str | None,
    strict: bool,
    jobs: int | None,
    dask: str | None,
    include: Sequence[str],
) -> int:
    """`nsysconv report`. Returns the exit status."""
    if target is None:
        raise UsageError(
            "report on what?", hint="nsysconv report TARGET [REPORT]...; --list names reports."
        )
    destination = output.destination(format_name, path, len(names or CORE))
    begin_work()
    found: Sequence[Report]
    if destination.is_page:
        if jobs is not None or dask is not None:
            raise UsageError("a page is made by this process alone", hint="Omit --jobs and --dask.")
        found = api.page(
            target,
            names or None,
            limit=limit,
            slice=part,
            idle=idle,
            kernel_names=kernel_names,
            by=by,
            step_range=step_range,
            include=include,
            say=say,
        )
    else:
        found = api.report_on(
            target,
            names or None,
            for_people=destination.for_people,
            limit=limit,
            slice=part,
            idle=idle,
            kernel_names=kernel_names,
            by=by,
            step_range=step_range,
            dask=dask,
            workers=jobs,
            include=include,
            say=say,
        )
    output.write(found, destination)
    missing = [each for each in found if each.table is None]
    if names and missing:
        return NotRecorded.exit_status
    if not destination.for_people and not destination.is_page:
        output.say_missing(missing)
    return _strict_status(found) if strict else 0


def listed(
    target: str | None, names: Sequence[str] | None, format_name: str | None, path: str | None
) -> int:
    """`nsysconv report --list`. Returns the exit status."""
    destination = output.destination(format_name, path)
    output.write([api.reports(target, names or None, say=say)], destination, target)
    return 0


def _strict_status(reports: Sequence[Report]) -> int:
    doubts = {
        note.slug for each in reports for note in each.notes if note.severity is not Severity.INFO
    }
    if doubts:
        say(f"--strict: dropped or approximated: {', '.join(sorted(doubts))}")
    return 3 if doubts else 0


def info(target: str, format_name: str | None, path: str | None, limit: int | None) -> int:
    """`nsysconv info`. Returns the exit status."""
    destination = output.destination(format_name, path, _INFO_COUNT)
    begin_work()
    rows = (ROWS_FOR_PEOPLE if destination.for_people else 0) if limit is None else limit
    output.write(api.info(target, limit=rows, say=say), destination, target)
    return 0


def runs(store: str, format_name: str | None, path: str | None) -> int:
    """`nsysconv runs`. Returns the exit status."""
    destination = output.destination(format_name, path)
    begin_work()
    output.write([api.runs(store)], destination)
    return 0


def sql(target: str, query: str, format_name: str | None, path: str | None, limit: int) -> int:
    """`nsysconv sql`. Returns the exit status."""
    destination = output.destination(format_name, path)
    begin_work()
    output.write([api.sql(target, query, say=say).limited(limit)], destination, target)
    return 0
