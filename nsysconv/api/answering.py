"""The answer on a target: where the time went, what holds it back, and what to ask next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from nsysconv import queries
from nsysconv.api.open_profile import SeveralChoicesError
from nsysconv.api.options import ReportOptions
from nsysconv.api.profile_info import reports
from nsysconv.api.reporting import report_target
from nsysconv.api.shown_report import ShownReport
from nsysconv.api.targets import Say, Target, silent
from nsysconv.document import Section, Text
from nsysconv.names import cut_off
from nsysconv.notes import Note, Severity
from nsysconv.report import Report
from nsysconv.store.location import Url, is_store, redacted_target, split_target

_WIDTH, _MOST_LINES = 98, 25
_LONGEST_TARGET, _LONGEST_LABELLED = 24, 60
_MOST_METRICS = 12
_MOST_CHOICES = 18
_LOST = "gpu-activity-missing"
_RULES_NOTED = ("rules-ignored", "rules-cannot-look")
# As many findings have a number in the answer.
_NUMBERED = 3
# What is left of a line beside the number of other notes.
_ROOM = _WIDTH - len("; notes: 99")


@dataclass(frozen=True)
class Answer:
    """The answer for people, and all notes on what it was made of, of which its lines have a few."""

    reports: list[ShownReport]
    notes: tuple[Note, ...]


def answer(target: Target, options: ReportOptions, say: Say = silent) -> Answer:
    """Return the answer on a profile or a run for people: a few lines each, at most 25 in all.

    `options.names` are ignored. Raises as `report_target`.
    """
    asked = replace(options, names=queries.ANSWER, for_people=True)
    made = report_target(target, asked, say)
    notes = tuple(note for each in made for note in each.notes)
    return Answer(_answer(target, options, made, say), notes)


def _answer(
    target: Target, options: ReportOptions, made: Sequence[ShownReport], say: Say
) -> list[ShownReport]:
    command = _command(target)
    summary, findings = made
    notes = {note.slug: note for each in made for note in each.notes}
    lost = notes.pop(_LOST, None)
    doubts = [note for note in notes.values() if note.severity is not Severity.INFO]
    # What is missing or not exact is said before anything that rests on it.
    caveat = [_doubt(doubts)] if doubts else list(_partly(notes))
    caveat = [*(_lost_work(lost) if lost else ()), *caveat]
    rows = summary.rows() if summary.table is not None else []
    if options.part is not None and not findings.row_count and not any(map(_has_work, rows)):
        return [_words("nothing", [*caveat, *_without_work_in_part(command)])]
    if not rows and not findings.row_count:
        answered = _answered(target, say)
        if "metrics" in answered:
            return _on_metrics(target, options, answered, made, say)
        return [_words("nothing", [*caveat, *_without_work(command, answered)])]
    shown = [replace(each, notes=(), advice=()) for each in made if each.texts]
    if shown:
        first = shown[0].texts[0]
        shown[0] = replace(shown[0], texts=(replace(first, lines=(*caveat, *first.lines)),))
    room = _MOST_LINES - sum(map(_height, shown))
    why, others = _why(findings, target), _further_events(findings)
    return [*shown, _words("next", _next(notes, command, why, others, room))]


def _has_work(row: Mapping[str, Any]) -> bool:
    return bool(row["busy_ns"] or row["kernel_count"])


def choices(several: SeveralChoicesError, target: Target) -> list[ShownReport]:
    """Return the answer on a target that holds several runs: their names."""
    return [_words("several", _choices(several, _command(target)))]


def _command(target: Target) -> str:
    # As it would be typed, unless a line has no room for it.
    typed = shlex.quote(redacted_target(target))
    return typed if len(typed) <= _LONGEST_TARGET else "TARGET"


def _choices(several: SeveralChoicesError, command: str) -> Iterator[str]:
    yield f"It holds several, and an answer is of one: nsysconv {command}@NAME"
    yield from (cut_off(f"   {choice}", _WIDTH) for choice in several.choices[:_MOST_CHOICES])
    if len(several.choices) > _MOST_CHOICES:
        yield f"   and more: nsysconv runs {command}"


def _partly(notes: Mapping[str, Note]) -> Iterator[str]:
    # What is exact, and of less than it seems to be.
    from nsysconv.queries.findings.report import LEFT_OUT

    if "rules-cannot-look" in notes and LEFT_OUT in notes["rules-cannot-look"].text:
        yield "! Others than the operations of this slice ran at its time, too: that counts as idle here."
    elif "ranks-missing" in notes:
        yield cut_off(f"! {notes['ranks-missing'].text}", _WIDTH)


def _doubt(doubts: Sequence[Note]) -> str:
    # The weightiest one in words: what is missing before what is not exact.
    worst = min(doubts, key=lambda note: note.severity is not Severity.DROPPED)
    more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
    return cut_off(f"! {worst.severity.value}: {worst.text}", _WIDTH - len(more)) + more


def _why(findings: Report, target: Target) -> str | None:
    # How to ask about the first event that a finding has; of a run by the profile's label, rank or file.
    row = next((row for row in findings.rows() if row["event"] is not None), None)
    if row is None:
        return None
    where, selector = split_target(target)
    folder = where if isinstance(where, Path) and where.is_dir() else None
    # A slice by numbers may be of one profile of several.
    is_one = len(findings.profiles) == 1 and (findings.slice is None or selector is not None)
    several = len(findings.profiles) > 1
    if is_one or not (folder or several or isinstance(where, Url) or is_store(where)):
        ways, otherwise = [redacted_target(target)], "TARGET"
    elif folder is not None:
        # The file, but of stores, which remember the files that were imported.
        of = next(ref for ref in findings.profiles if ref.label == row["profile"])
        ways = [of.path] if Path(of.path).is_relative_to(folder) else []
        otherwise = "FILE"
    else:
        store = redacted_target(where)
        ways = [f"{store}@{row['profile']}"]
        ways += [] if row["rank"] is None else [f"{store}@rank={row['rank']}"]
        otherwise = "TARGET@LABEL"
    typed = map(shlex.quote, ways)
    command = next((each for each in typed if len(each) <= _LONGEST_LABELLED), otherwise)
    return f"nsysconv why {command} {row['event']}"


def _height(shown: Section) -> int:
    # With its title and the line before the next.
    lines = [line for text in shown.texts for line in text.lines]
    return 2 + sum(1 if len(line) <= _WIDTH else 2 for line in lines)


def _further_events(findings: Report) -> list[str]:
    # Those of the findings after the first that has one, by their numbers; of one profile.
    if len(findings.profiles) > 1:
        return []
    events = [(number, row["event"]) for number, row in enumerate(findings.rows(), 1)]
    return [f"{number}: {event}" for number, event in events if event is not None][1:_NUMBERED]


def _next(
    notes: Mapping[str, Note], command: str, why: str | None, further: Sequence[str], room: int
) -> Iterator[str]:
    # How to go on, in two lines or three, and in fewer where there is not that much room.
    ignored, blind = map(notes.get, _RULES_NOTED)
    said = [ignored.text] if ignored else []
    if why is not None and room > 1:
        line = f"→ why: {why}"
        for other in further:
            line = f"{line}; {other}" if len(f"{line}; {other}") <= _ROOM else line
        yield _line(line)
        room, why = room - 1, None
    if room < 2:
        names = "--list: names; findings: with all notes"
        tables = f"nsysconv report {command} NAME"
        if why is not None and len(f"→ {why}; {tables}") > _WIDTH:
            why, tables = f"nsysconv why TARGET {why.split()[-1]}", "nsysconv report TARGET NAME"
        yield _line(
            *([f"→ {why}; {tables}"] if why else [f"→ {tables} ({names})"]), "--open: a page", *said
        )
        return
    yield _line(
        f"→ a table: nsysconv report {command} NAME (--list: names)",
        "a page: add --open",
    )
    if blind is not None:
        look_up = f"rules that cannot look: nsysconv report {command} findings"
        # Half of a reason says nothing.
        said.append(blind.text if len("; ".join((*said, blind.text))) <= _ROOM else look_up)
    others = [slug for slug in notes if slug not in _RULES_NOTED]
    if others:
        named = f"notes: {', '.join(others)}"
        fits = len("; ".join((*said, named))) <= _WIDTH
        said.append(named if fits else f"notes: {len(others):,}")
    if said:
        yield _line(*said)


def _line(*parts: str) -> str:
    return cut_off("; ".join(parts), _WIDTH)


def _without_work_in_part(command: str) -> Iterator[str]:
    yield f"No GPU work is in the part of {command} that was asked for."
    yield f"Without the flags that choose a part: nsysconv {command}"


def _answered(target: Target, say: Say) -> list[str]:
    listed = reports(target, say=say).rows()
    answered = [row["report"] for row in listed if row["answered"] == "yes"]
    return [name for name in answered if name not in queries.ANSWER]


def _on_metrics(
    target: Target,
    options: ReportOptions,
    answered: Sequence[str],
    made: Sequence[Report],
    say: Say,
) -> list[ShownReport]:
    # All there is to say of a profile without a time line.
    limit = _MOST_METRICS if options.limit is None else options.limit
    asked = replace(options, names=("metrics",), for_people=True, limit=limit)
    (metrics,) = report_target(target, asked, say)
    command = _command(target)
    what = f"{command} holds metrics of hardware counters, and no time line of GPU work."
    lacking = [name for name in queries.CORE if name not in answered]
    advice = next((line for each in made for line in each.advice), "")
    need = f"{len(lacking)} core reports need a time line: {', '.join(lacking)}. {advice}".rstrip()
    shown = _brief_table(metrics, command)
    return [_words("nothing", [what]), shown, _words("next", [need])]


def _brief_table(report: ShownReport, command: str) -> ShownReport:
    # As wide as a line, also where there is no terminal; its notes by name.
    columns, room = [], _WIDTH
    for column, values in zip(report.columns, report.by_column(), strict=True):
        room -= max(len(column.name), *(len(str(value)) for value in values)) + len("  ")
        if column.key or room > 0:
            columns.append(column)
    left_out, lines = (
        len(report.columns) - len(columns),
        [*report.texts[0].lines] if report.texts else [],
    )
    more = [f"{left_out} columns more"] if left_out else []
    more += [f"notes: {', '.join(note.slug for note in report.notes)}"] if report.notes else []
    lines.append(_line(f"→ all of it: nsysconv report {command} metrics", *more))
    table = None if report.table is None else report.table.select([c.name for c in columns])
    texts = (Text("", tuple(lines), laid_out=True),)
    return replace(report, columns=tuple(columns), table=table, texts=texts, notes=())


def _lost_work(note: Note) -> Iterator[str]:
    yield cut_off(f"! {note.text}: the profiler lost it.", _WIDTH)
    yield "  It may lack permissions, run in WSL, have been killed, or not support the driver."


def _without_work(command: str, answered: Sequence[str]) -> Iterator[str]:
    yield f"{command} holds no GPU work that has a time, and no totals of it."
    if answered:
        yield _names_that_fit(f"It answers: nsysconv report {command}", answered)
    yield f"What is recorded, what is not, and how to record it: nsysconv info {command}"


def _names_that_fit(line: str, names: Sequence[str]) -> str:
    # As many as make a command that can be typed; the others are named by `--list`.
    for name in names:
        if len(line) + len(name) + 1 > _WIDTH:
            break
        line += f" {name}"
    return line


def _words(name: str, lines: Iterable[str]) -> ShownReport:
    texts = (Text("", tuple(lines), laid_out=True),)
    return ShownReport(name, "", (), pa.table({}), texts=texts)
