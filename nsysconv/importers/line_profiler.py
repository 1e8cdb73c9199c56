"""Profiles of line_profiler: `.lprof`, which `kernprof -l` writes, and the text that prints one.

What the numbers mean, and where the traps are: docs/formats/line_profiler.md. An `.lprof` is a Python
pickle: it is read as data, and nothing of it is run (`pickles.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

from nsysconv.facts import Fact
from nsysconv.importers.contract import MAX_RECORDINGS, No, Options, Yes, too_many_recordings_error

if TYPE_CHECKING:
    from pathlib import Path

    from nsysconv.importers.probe import Probe
    from nsysconv.importers.source_lines import LineRows
    from nsysconv.notes import Note
    from nsysconv.store.recording import Batches, Recording

NAME = "line_profiler"
VERSION = 1
TITLE = "line_profiler profile"
GUARANTEED = frozenset({Fact.CPU_LINES})
POSSIBLE: frozenset[Fact] = frozenset()
JOINS = False
INCLUDABLE: Mapping[str, str] = {}
_TIMELINE = (
    "line_profiler times source lines. For a GPU timeline, use `nsys profile …` or torch.profiler."
)
ADVICE: Mapping[Fact, str] = dict.fromkeys(
    (Fact.KERNELS, Fact.MEMCPYS, Fact.API_CALLS, Fact.RANGES), _TIMELINE
)

# The module of the class that is pickled: before version 4, in 4, and later.
_MODULES = ("_line_profiler", "line_profiler._line_profiler", "line_profiler.line_profiler")
_PICKLE = re.compile(rb"\x80[\x02-\x05].{0,80}?line_profiler.{0,80}?LineStats", re.DOTALL)
_UNIT = re.compile(
    rb"^(?:\xef\xbb\xbf)?(?:\x1b\[[\d;]*m)*Timer unit: +([\d.]+(?:e[+-]?\d{1,3})?) s\b",
    re.MULTILINE,
)
_HEADER = re.compile(
    rb"^[^\n]{0,40}?Line # +Hits +Time +Per Hit +% Time +Line Contents", re.MULTILINE
)
_WORDS, _LONGEST_SIGN = b"Timer unit:", 256
_COLOR = re.compile(r"\x1b\[[\d;]*m")
_ABOVE = re.compile(
    r"Total time: (?P<total>[\d.]+(?:e[+-]?\d{1,3})?) s\s*"
    r"|File: (?P<file>.*\S)|Function: (?P<function>.+) at line (?P<line>\d{1,9})\s*"
)
_RULE = re.compile(r"=+\s*")
_NUMBER = re.compile(r" *\d{1,9}(?= |$)")
_VALUE = r" +(\d[\d.]*(?:e[+-]?\d{1,3})?)(?= |$)"
_TIMED = re.compile(_VALUE * 4)
# A line takes some twenty bytes.
_MOST_BYTES = 1 << 24
_NS = 1_000_000_000
_HINT = "Record it again: kernprof -l PROGRAM"


def sniff(probe: Probe) -> Yes | No:
    """Accept a pickle of line_profiler's class, and text with a timer unit and a table of lines."""
    if _PICKLE.match(probe.head):
        return Yes(alone=True)
    if probe.is_sqlite:
        return No("it is a SQLite database")
    from nsysconv.importers.printed.text import text_chunks

    has_unit = False
    for text in text_chunks(probe, _LONGEST_SIGN):
        # Logs of other programs are gigabytes.
        has_unit = has_unit or (_WORDS in text and _UNIT.search(text) is not None)
        if has_unit and _HEADER.search(text):
            return Yes()
    if has_unit:
        reason = "line_profiler output without a table of lines"
        return No(reason, close=True, hint="Print it with details: python -m line_profiler FILE")
    return No("it is no pickle of line_profiler, and no text with its tables")


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the recording of an `.lprof`, or one for each profile that a text prints."""
    from nsysconv.store.recording import Recording

    (probe,) = probes
    if _PICKLE.match(probe.head):
        yield Recording(_batches(partial(_add_pickle, probe), probe), possible=GUARANTEED)
        return
    from nsysconv.importers.printed.text import utf8_files

    with utf8_files(probes) as (path,):
        spans = _profiles(path)
    if len(spans) > MAX_RECORDINGS:
        raise too_many_recordings_error(str(probe.origin))
    for number, span in enumerate(spans, 1):
        part = str(number) if len(spans) > 1 else ""
        batches = _batches(partial(_add_text, probe, span), probe, part)
        yield Recording(batches, possible=GUARANTEED, one_of_several=bool(part))


def _batches(add: Callable[[LineRows], list[Note]], probe: Probe, part: str = "") -> Batches:
    from nsysconv.errors import InputError
    from nsysconv.importers.source_lines import LineRows
    from nsysconv.store.recording import ProfileAttributes, Summary

    lines = LineRows()
    notes = add(lines)
    if not lines.rows:
        raise InputError(
            "the line_profiler profile has no timed line",
            where=str(probe.origin),
            hint="Mark functions with @profile, and record it again: kernprof -l PROGRAM",
        )
    yield from lines.batches()
    notes = [*probe.notes, *notes, *lines.notes()]
    return Summary(ProfileAttributes(), GUARANTEED, ADVICE, notes, part=part)


# -- the pickle


def _add_pickle(probe: Probe, lines: LineRows) -> list[Note]:
    timings, unit = _content(probe)
    for number, (function, listed) in enumerate(timings.items()):
        file, first, name = (
            function if isinstance(function, tuple) and len(function) == 3 else [None] * 3
        )
        for place, line in enumerate(listed if isinstance(listed, list | tuple) else [None]):
            at = f"line {place + 1} of function {number + 1}"
            if not isinstance(file, str) or not isinstance(name, str) or not _is_numbers(line):
                lines.left_out.append(at)
                continue
            values = {"function_line": first, "hits": line[1], "sum_ns": _in_ns(line[2], unit)}
            lines.add(file, line[0], name, at, includes_calls=1, **values)
    return []


def _content(probe: Probe) -> tuple[Mapping[Any, Any], Decimal]:
    # The lines by function, and the seconds of a tick.
    from nsysconv.errors import InputError
    from nsysconv.importers.pickles import PickleRefusedError, Record, load

    where = str(probe.origin)
    with probe.readable.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        what = f"the line_profiler profile has more than {_MOST_BYTES >> 20} MiB"
        raise InputError(
            what, where=where, hint="Import what it prints: python -m line_profiler FILE"
        )
    try:
        found = load(content, {(module, "LineStats"): Record for module in _MODULES})
    except PickleRefusedError as error:
        if error.is_cut:
            what = f"the line_profiler profile is cut off at byte {error.at:,}"
            raise InputError(what, where=where, hint=_HINT) from None
        raise InputError(
            f"refused: its pickle has {error}",
            where=where,
            hint="Nothing of it was run. Profiles of line_profiler have plain numbers and names only.",
        ) from None
    state = vars(found) if isinstance(found, Record) else {}
    timings, unit = state.get("timings"), state.get("unit")
    if not isinstance(timings, dict) or not isinstance(unit, float | int) or not 0 < unit <= 1:
        what = "the line_profiler profile is damaged: it lacks its timings or its unit"
        raise InputError(what, where=where, hint=_HINT)
    return timings, Decimal(repr(unit))


def _is_numbers(line: object) -> TypeGuard[Sequence[int]]:
    # The line, how often it ran, and its ticks.
    return (
        isinstance(line, tuple | list)
        and len(line) == 3
        and all(isinstance(value, int) and 0 <= value < 1 << 63 for value in line)
    )


def _in_ns(time: int | Decimal, unit: Decimal) -> int:
    return round(time * unit * _NS)


# -- the text


@dataclass
class _Function:
    # What is printed above a table, and the sum of the table's lines.
    total_ns: int | None = None
    file: str | None = None
    name: str | None = None
    line: int = 0
    sum_ns: int = 0
    rows: int = 0
    at: int = 0

    def learn(self, above: re.Match[str]) -> None:
        self.file = above["file"] or self.file
        self.name = above["function"] or self.name
        self.line = int(above["line"] or self.line)

    def time_of(self, time: Decimal, pct: Decimal, unit: Decimal) -> int:
        # A line's share of the total says more than a time in a coarse unit.
        is_coarse = self.total_ns is not None and self._step_ns(unit) < unit * _NS / 10
        return round(pct * (self.total_ns or 0) / 100) if is_coarse else _in_ns(time, unit)

    def lacks(self, unit: Decimal) -> bool:
        # Totals, and long times, are rounded to six digits.
        if self.total_ns is None:
            return False
        rounding = self.total_ns // 50_000 + math.ceil(self._step_ns(unit) * (self.rows + 1))
        return abs(self.total_ns - self.sum_ns) > rounding

    def _step_ns(self, unit: Decimal) -> Decimal:
        # Times are rounded to a tenth of a unit, and shares to a tenth of a percent.
        step = unit * _NS / 10
        return min(step, Decimal(self.total_ns) / 1000) if self.total_ns else step


def _profiles(path: Path) -> list[tuple[int, int]]:
    # The bytes of each profile: from its timer unit to the next one's. Those without tables are logs'.
    from nsysconv.importers.printed.lines import LogLines

    spans: list[list[int]] = []
    lines = LogLines(path)
    for line in lines:
        if _UNIT.match(line):
            spans.append([lines.start, lines.end, 0])
        elif spans:
            spans[-1][1] = lines.end
            spans[-1][2] |= _HEADER.match(line) is not None
    return [(start, end) for start, end, has_table in spans if has_table]


def _add_text(probe: Probe, span: tuple[int, int], rows: LineRows) -> list[Note]:
    from nsysconv.importers.printed.text import utf8_files

    with utf8_files([probe]) as (path,):
        return _add_lines(path, span, rows)


def _add_lines(path: Path, span: tuple[int, int], rows: LineRows) -> list[Note]:
    from nsysconv.importers.printed.lines import LogLines
    from nsysconv.importers.printed.text import RejectedLines

    rejected, functions = RejectedLines(), [_Function()]
    unit, hits_end = Decimal(0), 0
    lines = LogLines(path)
    for data in lines:
        if lines.start < span[0]:
            continue
        if lines.start >= span[1]:
            break
        text = _COLOR.sub("", data.decode("utf-8", "replace")).rstrip("\r\n")
        if found := _UNIT.match(data):
            unit = _decimal(found[1].decode()) or Decimal(0)
        elif _HEADER.match(data):
            hits_end, functions[-1].at = text.index("Hits") + len("Hits"), lines.line
        elif above := _ABOVE.match(text):
            if above["total"]:
                functions.append(
                    _Function(_in_ns(_decimal(above["total"]) or Decimal(0), Decimal(1)))
                )
            functions[-1].learn(above)
            hits_end = 0
        elif not text.strip():
            hits_end = 0
        elif hits_end and not _add_line(text, hits_end, unit, functions[-1], rows):
            rejected.add(lines.line)
    unfinished = lines.unfinished if lines.start < span[1] else None
    lacking = [each.at for each in functions if each.at and each.lacks(unit)]
    return [*rejected.notes(unfinished), *_lacking(lacking)]


def _add_line(text: str, hits_end: int, unit: Decimal, function: _Function, rows: LineRows) -> bool:
    # Whether the table may have such a line. Source text, which follows, may begin with digits.
    number = _NUMBER.match(text)
    if number is None and _RULE.fullmatch(text):
        return True
    if number is None or function.file is None or function.name is None:
        return False
    if not text[number.end() : hits_end].strip():
        return True  # it was not timed
    cells = _TIMED.match(text, number.end())
    hits, time, pct = (_decimal(cells[i]) if cells else None for i in (1, 2, 4))
    if hits is None or time is None or pct is None:
        return False
    sum_ns = function.time_of(time, pct, unit)
    function.sum_ns, function.rows = function.sum_ns + sum_ns, function.rows + 1
    rows.add(
        function.file, int(number[0]), function.name, f"line {number[0].strip()} of {function.name}",
        function_line=function.line, hits=int(hits), sum_ns=sum_ns, includes_calls=1,
    )  # fmt: skip
    return True


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _lacking(lines: list[int]) -> Iterator[Note]:
    from nsysconv.importers.printed.text import line_notes
    from nsysconv.notes import Severity

    text = "functions whose lines do not add up to their total time: lines are missing"
    yield from line_notes("totals-incomplete", Severity.DROPPED, text, lines, GUARANTEED)
