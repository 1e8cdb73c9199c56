"""Profiles of Scalene: shares of the run time by source line, memory, use of the GPU.

What the numbers mean, and where the traps are: docs/formats/scalene.md.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nsysconv.facts import Fact
from nsysconv.importers.contract import No, Options, Yes

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Batches, Recording

NAME = "scalene"
VERSION = 1
TITLE = "Scalene profile"
GUARANTEED = frozenset({Fact.CPU_LINES})
POSSIBLE = frozenset({Fact.UTC})
JOINS = False
INCLUDABLE: Mapping[str, str] = {}
_TIMELINE = (
    "Scalene samples source lines. For a GPU timeline, use `nsys profile …` or torch.profiler."
)
ADVICE: Mapping[Fact, str] = {
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, Fact.API_CALLS, Fact.RANGES), _TIMELINE),
    Fact.UTC: "Record with Scalene 1.5.40 or later.",
}

_SIGN = re.compile(rb'\{\s*"(?:alloc_samples|elapsed_time_sec)"\s*:')
_MIB = 1 << 20
_NS = 1_000_000_000
# Columns of times, and the shares of the run time that they are.
_TIMES = {
    "python_ns": "n_cpu_percent_python",
    "native_ns": "n_cpu_percent_c",
    "system_ns": "n_sys_percent",
}
_MEMORY = {"alloc_bytes": "n_malloc_mb", "peak_bytes": "n_peak_mb"}
# A profile is text of a few hundred bytes a line.
_MOST_BYTES = 1 << 28
_LONGEST_S, _LAST_S = 1 << 23, 1 << 33
_HINT = "Record it again: scalene run PROGRAM; before version 2, scalene --json PROGRAM"


def sniff(probe: Probe) -> Yes | No:
    """Accept a JSON object that begins with a key of Scalene's."""
    if _SIGN.match(probe.head.removeprefix(b"\xef\xbb\xbf").lstrip()):
        return Yes(alone=True)
    return No("it is no JSON object that begins as Scalene's do")


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of a file."""
    from nsysconv.store.recording import Recording

    yield Recording(_batches(probes[0]), possible=GUARANTEED | POSSIBLE)


def _batches(probe: Probe) -> Batches:
    from nsysconv.errors import InputError
    from nsysconv.importers.source_lines import LineRows
    from nsysconv.notes import Note, Severity
    from nsysconv.store.recording import ProfileAttributes, Summary

    profile, where = _parsed(probe), str(probe.origin)
    files = profile.get("files")
    elapsed = _number(profile.get("elapsed_time_sec"))
    if not isinstance(files, dict) or not elapsed or elapsed > _LONGEST_S:
        what = "the Scalene profile is damaged: it lacks its files or its run time"
        raise InputError(what, where=where, hint=_HINT)
    lines = LineRows()
    for number, (file, content) in enumerate(files.items()):
        listed = content.get("lines") if isinstance(content, dict) else None
        functions = _functions(content) if isinstance(listed, list) else {}
        for place, line in enumerate(listed if isinstance(listed, list) else ()):
            at = f"files[{number}].lines[{place}]"
            if isinstance(line, dict):
                first = line.get("start_function_line")
                function, first = functions.get(first if _is_line(first) else 0, (None, None))
                values = _values(line, profile, elapsed) | {"function_line": first}
                lines.add(file, line.get("lineno"), function, at, **values)
            else:
                lines.left_out.append(at)
    if not lines.rows:
        what = "the Scalene profile has no source line: the program may have been too short"
        raise InputError(what, where=where, hint="Record a run of a few seconds.")
    yield from lines.batches()
    begin = _number(profile.get("start_time_absolute"))
    zero = round(begin * _NS) if begin and begin < _LAST_S else None
    attributes = ProfileAttributes(zero_utc_ns=zero, recording_ns=round(elapsed * _NS))
    text = "times are shares of samples, multiplied by the run time"
    sampled = Note("times-from-samples", Severity.INFO, text, facts=GUARANTEED)
    facts = GUARANTEED | (frozenset() if zero is None else {Fact.UTC})
    return Summary(attributes, facts, ADVICE, (*probe.notes, sampled, *lines.notes()))


def _parsed(probe: Probe) -> dict[str, Any]:
    from nsysconv.errors import InputError

    with probe.readable.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    try:
        if len(content) > _MOST_BYTES:
            raise InputError(
                f"the Scalene profile has more than {_MOST_BYTES // _MIB} MiB",
                where=str(probe.origin),
                hint="Profile fewer files: scalene --profile-only NAMES",
            )
        text = content.decode("utf-8-sig", "replace")
        found = json.loads(text, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        what = "the Scalene profile is cut off or damaged: not valid JSON"
        raise InputError(what, where=str(probe.origin), hint=_HINT) from None
    return found if isinstance(found, dict) else {}


def _values(
    line: Mapping[str, Any], profile: Mapping[str, Any], elapsed: Decimal
) -> dict[str, Any]:
    shares = {name: _number(line.get(key)) for name, key in _TIMES.items()}
    times = {name: _scaled(share, elapsed * _NS / 100) for name, share in shares.items()}
    known = [time for time in times.values() if time is not None]
    # A line without all of its shares is damaged: -1 leaves it out.
    sum_ns = sum(known) if len(known) == len(times) else -1
    values: dict[str, Any] = {**times, "sum_ns": sum_ns, "includes_calls": 0}
    if profile.get("memory") is True:
        values |= {c: _scaled(_number(line.get(key)), _MIB) for c, key in _MEMORY.items()}
    if profile.get("gpu") is True:
        share = _number(line.get("n_gpu_percent"))
        values["gpu_pct"] = None if share is None else float(share)
        values["gpu_peak_bytes"] = _scaled(_number(line.get("n_gpu_peak_memory_mb")), _MIB)
    return values


def _functions(content: Mapping[str, Any]) -> dict[Any, tuple[str, int]]:
    # The name and first line of each function by its line of `def`, which its lines have. The list of
    # functions, which has names, begins each at its first decorator instead, and lacks those without
    # samples.
    named = sorted(
        (function["lineno"], function["line"])
        for function in _dictionaries(content.get("functions"))
        if _is_line(function.get("lineno")) and isinstance(function.get("line"), str)
    )
    inside = sorted(
        (line["lineno"], line["start_function_line"])
        for line in _dictionaries(content["lines"])
        if _is_line(line.get("lineno")) and _is_line(line.get("start_function_line"))
    )
    found: dict[Any, tuple[str, int]] = {}
    for first in {first for _, first in inside}:
        place = bisect_right(named, first, key=lambda each: each[0])
        if place:
            begin, name = named[place - 1]
            # From its decorators on, no line belongs to another function.
            own = bisect_left(inside, begin, key=lambda each: each[0])
            if own < len(inside) and inside[own][0] >= first:
                found[first] = name, begin
    return found


def _dictionaries(values: Any) -> list[dict[str, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _is_line(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = Decimal(value)
    return number if number.is_finite() and 0 <= number < Decimal(1 << 53) else None


def _scaled(value: Decimal | None, factor: Decimal | int) -> int | None:
    return None if value is None else round(value * factor)
