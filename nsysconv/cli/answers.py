"""Commands that answer questions: report, info, runs, sql."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from nsysconv import api
from nsysconv.cli import output
from nsysconv.cli.memory import keep_freed_memory
from nsysconv.cli.say import say
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.notes import Severity
from nsysconv.report import Report

_TIME = re.compile(r"(-?\d+(?:\.\d+)?)(ns|us|µs|ms|s)?")
_NS = {"ns": 0, "us": 3, "µs": 3, "ms": 6, "s": 9, None: 0}


def report(
    target: str,
    names: Sequence[str] | None,
    format_name: str | None,
    path: str | None,
    *,
    limit: int | None,
    time: str | None,
    idle: Sequence[str],
    kernel_names: str,
    by: str | None,
    step_range: str | None,
    strict: bool,
) -> int:
    """`nsysconv report`. Returns the exit status."""
    destination = output.destination(format_name, path)
    keep_freed_memory()
    with api.open(target, say=say) as profile:
        found = profile.reports(
            names or None,
            for_people=destination.for_people,
            limit=limit,
            time=_slice(time),
            idle=idle,
            kernel_names=kernel_names,
            by=by,
            step_range=step_range,
        )
        output.write(found, destination)
    missing = [each for each in found if each.table is None]
    if names and missing:
        return NotRecorded.exit_status
    if not destination.for_people:
        output.say_missing(missing)
    return _strict_status(found) if strict else 0


def _strict_status(reports: Sequence[Report]) -> int:
    doubts = {
        note.slug for each in reports for note in each.notes if note.severity is not Severity.INFO
    }
    if doubts:
        say(f"--strict: dropped or approximated: {', '.join(sorted(doubts))}")
    return 3 if doubts else 0


def info(target: str, format_name: str | None, path: str | None) -> int:
    """`nsysconv info`. Returns the exit status."""
    output.write(api.info(target, say=say), output.destination(format_name, path))
    return 0


def runs(store: Path, format_name: str | None, path: str | None) -> int:
    """`nsysconv runs`. Returns the exit status."""
    output.write([api.runs(store)], output.destination(format_name, path))
    return 0


def sql(store: Path, query: str, format_name: str | None, path: str | None, limit: int) -> int:
    """`nsysconv sql`. Returns the exit status."""
    output.write([api.sql(store, query).limited(limit)], output.destination(format_name, path))
    return 0


def _slice(text: str | None) -> tuple[int, int] | None:
    """START/END with units as nanoseconds; decimals are exact."""
    if text is None:
        return None
    ends = text.split("/")
    if len(ends) != 2:
        raise UsageError(f"--time {text!r} is not START/END", hint="For example: --time 1.5s/2s")
    start, end = (_nanoseconds(part) for part in ends)
    return start, end


def _nanoseconds(text: str) -> int:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no time", hint="A number with ns, us, ms or s: 1500us, 1.5s")
    number, unit = match.groups()
    whole, _, decimals = number.partition(".")
    places = _NS[unit]
    digits = decimals[:places].ljust(places, "0")
    sign = -1 if whole.startswith("-") else 1
    value: int = sign * (int(whole.lstrip("-") or 0) * 10**places + int(digits or 0))
    return value
