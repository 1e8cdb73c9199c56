"""The answer on a target: where the time went, the bottlenecks, and what to ask next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nsysconv import queries
from nsysconv.api.open_profile import SeveralChoicesError, shown_section
from nsysconv.api.open_profile import open as open_profile
from nsysconv.api.options import ReportOptions
from nsysconv.api.profile_info import reports
from nsysconv.api.reporting import report_target
from nsysconv.api.shown_report import ShownReport
from nsysconv.api.targets import Joined, Say, Target, silent
from nsysconv.document import Section
from nsysconv.errors import NsysconvError
from nsysconv.notes import Note, Severity
from nsysconv.present import answer as present
from nsysconv.present import memory_answer, without_gpu
from nsysconv.report import Report
from nsysconv.store.location import Url, globbed, is_store, redacted_target, split_target

_LONGEST_LABELLED = 60
_MOST_METRICS = 12


@dataclass(frozen=True)
class Answer:
    """The reports of the answer for people, and all notes on their data; the lines show a few."""

    reports: list[ShownReport]
    notes: tuple[Note, ...]


def answer(target: Target, options: ReportOptions, say: Say = silent) -> Answer:
    """Return the answer on a profile or a run for people: a few lines each, at most 25 in total.

    `options.names` are ignored. Raises as `report_target`.
    """
    asked = replace(options, names=queries.ANSWER, for_people=True)
    made = report_target(target, asked, say)
    notes = tuple(note for each in made for note in each.notes)
    # Each further report reads the same files, of which all is said.
    shown = _answer(target, options, made)
    return Answer([shown_section(section) for section in shown], notes)


def choices(several: SeveralChoicesError, target: Target) -> list[ShownReport]:
    """Return the answer on a target that holds several runs: their names."""
    sections = present.choices(several.choices, _command(target))
    return [shown_section(section) for section in sections]


def _answer(target: Target, options: ReportOptions, made: Sequence[ShownReport]) -> list[Section]:
    command = _command(target)
    summary, findings = made
    rows = summary.rows() if summary.table is not None else []
    if options.part is not None and not findings.row_count and not any(map(present.has_work, rows)):
        return without_gpu.without_work(made, command, None)
    if not any(row["span_ns"] for row in rows) and (limits := _limits(target, options)):
        return without_gpu.of_kernels(made, limits, command)
    if rows or findings.row_count:
        return present.document(made, command, _why(findings, target))
    # One call, since each reads the file again.
    names = (without_gpu.COPIES, *without_gpu.HOST, *memory_answer.REPORTS)
    asked = replace(options, names=names, for_people=False, limit=0)
    tried = report_target(target, asked)
    on_memory = [each for each in tried if each.name in memory_answer.REPORTS]
    did = [each for each in tried if each.row_count and each not in on_memory]
    if not did and on_memory[0].row_count:
        return memory_answer.on_memory([*made, *on_memory], on_memory, command)
    answered = _answered(target)
    wanted = [name for name in (without_gpu.COPIES, *without_gpu.HOST) if name in answered]
    did = [each for each in did if each.name in wanted]
    copies = next((each for each in did if each.name == without_gpu.COPIES), None)
    host = [each for each in did if each is not copies]
    noted = [replace(made[0], notes=(*made[0].notes, *_doubts(target))), *made[1:]]
    if copies is not None or set(without_gpu.HOST) & set(wanted):
        return without_gpu.without_kernels(noted, host, copies, command, answered)
    if "cpu_lines" in answered:
        asked = replace(options, names=("cpu_lines",), for_people=False, limit=0)
        (lines,) = report_target(target, asked)
        return without_gpu.on_lines(noted, lines, command)
    if "metrics" not in answered:
        return without_gpu.without_work(noted, command, answered)
    # A profile without a time line has metrics, and no other report can be made of it.
    limit = _MOST_METRICS if options.limit is None else options.limit
    asked = replace(options, names=("metrics",), for_people=True, limit=limit)
    (metrics,) = report_target(target, asked)
    lacking = [name for name in queries.CORE if name not in answered]
    advice = next((line for each in made for line in each.advice), "")
    return without_gpu.on_metrics(metrics, command, lacking, advice)


def _limits(target: Target, options: ReportOptions) -> ShownReport | None:
    # What limits each kernel, of a profile without a time line in which metrics say so.
    asked = replace(options, names=("kernel_limits",), for_people=False, limit=0)
    (limits,) = report_target(target, asked)
    return limits if any(row["limit"] for row in limits.rows()) else None


def _doubts(target: Target) -> list[Note]:
    # What is wrong with a file whose reports of GPU work, which would say it, are not there, and what the
    # profiler said of it.
    try:
        with open_profile(target) as opened:
            return [
                note
                for note in opened.notes
                if note.severity is not Severity.INFO or note.slug == without_gpu.DIAGNOSTIC
            ]
    except NsysconvError:
        return []  # several profiles


def _command(target: Target) -> str:
    names = target.names if isinstance(target, Joined) else (target,)
    typed = " ".join(shlex.quote(redacted_target(name)) for name in names)
    return f"{typed} --join" if isinstance(target, Joined) else typed


def _why(findings: Report, target: Target) -> str | None:
    # The result is the command that explains the first event of the findings. In a run it names the
    # profile by label, rank or file.
    shown = present.shown_findings(findings.rows())
    row = next((row for row in shown if present.event_of(row) is not None), None)
    if row is None:
        return None
    if isinstance(target, Joined):
        return f"nsysconv why {_command(target)} {present.event_of(row)}"
    where, selector = split_target(target)
    folder = where if isinstance(where, Path) and where.is_dir() else None
    matches = [] if folder is not None or isinstance(where, Url) else globbed(where) or []
    # If the slice has numbers, only one profile of several may have it.
    is_one = len(findings.profiles) == 1 and (findings.slice is None or selector is not None)
    several = len(findings.profiles) > 1
    if len(matches) > 1 and several:
        of = next(ref for ref in findings.profiles if ref.label == row["profile"])
        ways = [of.path]
    elif is_one or not (folder or several or isinstance(where, Url) or is_store(where)):
        ways = [redacted_target(target)]
    elif folder is not None:
        # The command names the file. A profile in a store has the path of the file that was imported,
        # which may lie elsewhere.
        of = next(ref for ref in findings.profiles if ref.label == row["profile"])
        ways = [of.path if Path(of.path).is_relative_to(folder) else "FILE"]
    else:
        store = redacted_target(where)
        of = next(ref for ref in findings.profiles if ref.label == row["profile"])
        ways = [f"{store}@{row['profile']}"]
        ways += [] if row["rank"] is None else [f"{store}@rank={row['rank']}"]
        ways.append(f"{store}@{of.id}")
    # The last way is the shortest, and none is too long to be typed.
    typed = [*map(shlex.quote, ways)]
    command = next((each for each in typed if len(each) <= _LONGEST_LABELLED), typed[-1])
    return f"nsysconv why {command} {present.event_of(row)}"


def _answered(target: Target) -> list[str]:
    listed = reports(target).rows()
    answered = [row["report"] for row in listed if row.get("answered") == "yes"]
    return [name for name in answered if name not in queries.ANSWER]
