"""Operators by the source lines that their call stacks name (docs/definitions/launches.md)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import factorize, sums
from nsysconv.timeline.operator_calls import FUNCTION, node_of_ops, operator_calls
from nsysconv.timeline.operator_stacks import SEPARATOR, stacks
from nsysconv.timeline.timeline import Timeline

# An entry as profilers write it: `train.py(9): main`, `$train.py:9 main`.
_ENTRY = re.compile(r"\$?(?P<file>.+\.pyw?)[(:](?P<line>\d+)\)?:? (?P<function>\S+)")
# Comprehensions and the like, `<listcomp>`, have names of their own, and lines of a function.
_INSIDE = "<"
_SLASHES = re.compile(r"[\\/]+(?:\.[\\/]+)*")


class Line(NamedTuple):
    """A source line; its function's name and first line are None where they are not recorded."""

    file: str
    line: int
    function: str | None
    first_line: int | None


@dataclass
class LineOperators:
    """The operators of a line, by name; `level` is what stacks name: the "line", or its "function".

    `device_ns` are of the GPU operations that they launched themselves, `host_ns` their own times. Work
    that a Python function launched without an operator has the name "".
    """

    level: str
    device_ns: Counter[str] = field(default_factory=Counter)
    host_ns: Counter[str] = field(default_factory=Counter)


def line_operators(
    timeline: Timeline, lines: Sequence[Line], includes_calls: bool
) -> dict[int, LineOperators] | None:
    """Return the operators of the lines that have some, by place; None without any call stack.

    `includes_calls`: those of the functions that a line calls are the line's, too.
    """
    calls = operator_calls(timeline, False, True)
    number, texts = stacks(timeline, calls, 0)
    if not texts:
        return None
    # A call without a stack has that of the call around it.
    stack = np.append(number, MISSING)[calls.innermost(number != MISSING)]
    node = node_of_ops(timeline, calls, calls.rows)
    launched = np.flatnonzero(node >= 0)
    durations = (timeline.ops.end - timeline.ops.start)[launched]
    device = sums(node[launched], durations, len(stack))
    is_function = calls.spans.kind == FUNCTION
    rows = calls.rows[~is_function[calls.rows] | (device[calls.rows] > 0)]
    group, keys = factorize(*(each[rows] for each in (calls.spans.name, stack, is_function)))
    totals = [sums(group, each[rows], len(keys[0])) for each in (device, calls.self_ns)]
    names = calls.spans.names
    entries = [_parsed(text) for text in texts]
    own = {name: _parsed(names[name]) for name in keys[0][keys[2] > 0].tolist()}
    files = {entry.file for each in (*entries, *own.values()) for entry in each}
    lines_of = _LinesByEntry(lines, files, includes_calls)
    found: dict[int, LineOperators] = {}
    for name, place, is_own, device_ns, host_ns in zip(
        *(each.tolist() for each in (*keys, *totals)), strict=True
    ):
        above = entries[place] if place != MISSING else []
        text = "" if is_own else names[name]
        for at, level in lines_of.stack([*own[name], *above] if is_own else above).items():
            line = found.setdefault(at, LineOperators(level))
            line.device_ns[text] += device_ns
            line.host_ns[text] += host_ns
    return found


class _Entry(NamedTuple):
    file: str
    line: int
    function: str


def _parsed(stack: str) -> list[_Entry]:
    found = (_ENTRY.fullmatch(entry) for entry in stack.split(SEPARATOR))
    return [_Entry(e["file"], int(e["line"]), e["function"]) for e in found if e]


class _LinesByEntry:
    # Finds the lines that entries of stacks name.
    def __init__(self, lines: Sequence[Line], files: set[str], includes_calls: bool) -> None:
        self._files = same_files(files, {line.file for line in lines})
        self._most = None if includes_calls else 1
        self._of: Mapping[object, list[tuple[int, str]]] = defaultdict(list)
        for place, (file, line, function, first_line) in enumerate(lines):
            name = function and function.rpartition(".")[2]
            for each in {name, name and _INSIDE}:
                self._of[file, line, each].append((place, "line"))
            if first_line is not None:
                self._of[file, -first_line, name].append((place, "function"))

    def stack(self, stack: Iterable[_Entry]) -> dict[int, str]:
        # The result has by place of a line what is named. Where lines are without the calls in them, only
        # the innermost entry counts that has lines.
        named = [each for each in map(self._named, stack) if each]
        return dict(each for of_entry in named[: self._most] for each in of_entry)

    def _named(self, entry: _Entry) -> list[tuple[int, str]]:
        # Profilers write the first line of a function or the one that runs.
        file, (_, line, name) = self._files.get(entry.file), entry
        inside = _INSIDE if name.startswith("<") else name
        keys = ((file, -line, name), (file, line, inside), (file, line, None))
        return next((self._of[key] for key in keys if key in self._of), [])


def same_files(files: set[str], others: set[str]) -> dict[str, str]:
    """Return by file that of `others` with the same path, as far as the shorter one goes.

    The same whole path counts before the longest such end. A file that fits several equally
    well is left out.
    """
    by_name = defaultdict(list)
    for other in others:
        by_name[_path(other)[-1]].append(other)
    fits: dict[tuple[str, bool], list[tuple[int, str]]] = defaultdict(list)
    for file in files:
        for other in by_name[_path(file)[-1]]:
            (short, long) = sorted((_path(file), _path(other)), key=len)
            if long[-len(short) :] == short:
                fit = len(short) + (short == long)
                fits[file, False].append((fit, other))
                fits[other, True].append((fit, file))
    best = {key: _only_best(each) for key, each in fits.items()}
    return {
        file: other
        for (file, is_other), other in best.items()
        if not is_other and other is not None and best[other, True] == file
    }


def _path(file: str) -> list[str]:
    return _SLASHES.split(file.removeprefix("./"))


def _only_best(fits: list[tuple[int, str]]) -> str | None:
    most = max(fit for fit, _ in fits)
    best = [file for fit, file in fits if fit == most]
    return best[0] if len(best) == 1 else None
