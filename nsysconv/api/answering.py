"""The answer on a target: where the time went, what holds it back, and what to ask next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nsysconv import queries
from nsysconv.api.open_profile import ReportOptions, SeveralChoicesError, ShownReport, shown_report
from nsysconv.api.profile_info import reports
from nsysconv.api.reporting import report_target
from nsysconv.api.targets import Say, Target, silent
from nsysconv.names import cut_off
from nsysconv.report import Column, Report, Said, Unit, report_table
from nsysconv.store.location import redacted_target

_WIDTH = 98
_LONGEST_TARGET = 24
_MOST_CHOICES = 18


def answer(
    target: Target,
    options: ReportOptions,
    *,
    dask: str | None = None,
    jobs: int | None = None,
    say: Say = silent,
) -> list[ShownReport]:
    """Return the answer on a profile or a run for people: a few lines each, at most 25 in all.

    `options.names` are ignored. Raises as `report_target`.
    """
    command = _command(target)
    asked = replace(options, names=answer_specs(options), for_people=True)
    made = report_target(target, asked, dask=dask, jobs=jobs, say=say)
    summary, findings = made
    if not summary.row_count and not findings.row_count:
        return [_words("nothing", _without_work(target, command, say))]
    shown = [replace(each, notes=(), advice=()) for each in made if each.said]
    return [*shown, _words("next", _next(made, command))]


def choices(several: SeveralChoicesError, target: Target) -> list[ShownReport]:
    """Return the answer on a target that holds several runs: their names."""
    return [_words("several", _choices(several, _command(target)))]


def _command(target: Target) -> str:
    # As it would be typed, unless a line has no room for it.
    typed = shlex.quote(redacted_target(target))
    return typed if len(typed) <= _LONGEST_TARGET else "TARGET"


def answer_specs(options: ReportOptions) -> tuple[str, ...]:
    """Return the reports of an answer, as they are asked for."""
    ignored = f":ignore={','.join(options.ignore)}" if options.ignore else ""
    return tuple(f"{name}{ignored}" if name == "findings" else name for name in queries.ANSWER)


def _choices(several: SeveralChoicesError, command: str) -> Iterator[str]:
    yield f"It holds several, and an answer is of one: nsysconv {command}@NAME"
    yield from (cut_off(f"   {choice}", _WIDTH) for choice in several.choices[:_MOST_CHOICES])
    if len(several.choices) > _MOST_CHOICES:
        yield f"   and more: nsysconv runs {command}"


def _next(made: Sequence[Report], command: str) -> Iterator[str]:
    yield f"→ a table: nsysconv report {command} NAME (core: all usual ones; --list: their names)"
    notes = {note.slug: note.text for each in made for note in each.notes}
    said = [notes.pop(slug) for slug in ("rules-ignored", "rules-cannot-look") if slug in notes]
    said += [f"notes: {', '.join(notes)}"] if notes else []
    yield cut_off("; ".join((f"a page: nsysconv {command} --open", *said)), _WIDTH)


def _without_work(target: Target, command: str, say: Say) -> Iterator[str]:
    listed = reports(target, say=say).rows()
    answered = [row["report"] for row in listed if row["answered"] == "yes"]
    yield f"{command} holds no GPU work that has a time, and no totals of it."
    if answered:
        yield cut_off(f"It answers: nsysconv report {command} {' '.join(answered)}", _WIDTH)
    yield f"What is recorded, what is not, and how to record it: nsysconv info {command}"


def _words(name: str, lines: Iterable[str]) -> ShownReport:
    column = Column("line", Unit.TEXT, "A line of it.", said=True)
    lines = tuple(lines)
    table = report_table((column,), {"line": lines})
    return shown_report(
        Report(
            name, "", (column,), table, row_count=len(lines), said=(Said("", lines, laid_out=True),)
        )
    )
