"""The profiler's own line: where its options end and the program begins, and where its output goes.

Nothing of a line is ever changed but the values of options that name the output.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from nsysconv.errors import CaptureError


@dataclass(frozen=True)
class Profiler:
    """A profiler's command and what its options take.

    `words` come before the options, `valued` take a value, `flags` none. `outputs` name files that it
    writes, the first the report; `overwrite` is the option that allows it to replace them; `suffixes`
    are those a report may have, the first of which the profiler adds itself where `adds_suffix`.
    """

    name: str
    words: tuple[str, ...]
    valued: frozenset[str]
    flags: frozenset[str]
    outputs: tuple[tuple[str, ...], ...]
    overwrite: tuple[str, ...]
    suffixes: tuple[str, ...]
    adds_suffix: bool
    default_name: str


_TABLES = tomllib.loads(Path(__file__).with_name("profilers.toml").read_text(encoding="utf-8"))


def _profiler_of(name: str) -> Profiler:
    table = _TABLES[name]

    def options(kind: str) -> frozenset[str]:
        return frozenset(o if o.startswith("-") else f"--{o}" for o in table[kind].split())

    return Profiler(
        name,
        tuple(table["words"]),
        options("valued"),
        options("flags"),
        tuple(map(tuple, table["outputs"])),
        tuple(table["overwrite"]),
        tuple(table["suffixes"]),
        table["adds_suffix"],
        table["default_name"],
    )


NSYS, NVPROF = _profiler_of("nsys"), _profiler_of("nvprof")
_PROFILERS = {profiler.name: profiler for profiler in (NSYS, NVPROF)}
_TRUE = ("true", "yes", "1")


@dataclass(frozen=True)
class Output:
    """A value that names an output: `arguments[index]` is `head` + `value`; `kind` 0: a report."""

    index: int
    head: str
    value: str
    kind: int = 0


@dataclass(frozen=True)
class Line:
    """A profiler's line, taken apart. `program_at` is the index of the program in `arguments`."""

    profiler: Profiler
    arguments: tuple[str, ...]
    program_at: int
    outputs: tuple[Output, ...]
    overwrites: bool

    @property
    def program(self) -> tuple[str, ...]:
        """Return the program and its arguments, as they are run where nothing is profiled."""
        return self.arguments[self.program_at :]

    def with_outputs(self, values: Sequence[str]) -> tuple[str, ...]:
        """Return the line with other values for its outputs, or with an output where it has none."""
        if not self.outputs:
            (value,) = values
            options_at = 1 + len(self.profiler.words)
            before, after = self.arguments[:options_at], self.arguments[options_at:]
            return (*before, self.profiler.outputs[0][0], value, *after)
        line = list(self.arguments)
        for output, value in zip(self.outputs, values, strict=True):
            line[output.index] = output.head + value
        return tuple(line)


def parse(arguments: Sequence[str], program: str | None = None) -> Line:
    """Parse a line: `nsys profile … PROGRAM …` or `nvprof … PROGRAM …`.

    `program` is the argument where the program's command starts, for lines with unknown options.
    Raises CaptureError for other commands, and where it is unknown where the program begins.
    """
    profiler = _profiler(arguments)
    line = tuple(arguments)
    start = 1 + len(profiler.words)
    end = len(line) if program is None else _marked(line, start, program)
    outputs: list[Output] = []
    overwrites = False
    index = start
    while index < end:
        argument = line[index]
        if argument == "--" or not argument.startswith("-") or argument == "-":
            if program is None:
                index += argument == "--"
                break
            index += 1  # the value of an option that is not known
            continue
        name, head, value = _split(argument)
        taken = 1
        if head is None:
            if name in profiler.valued and index + 1 < end:
                taken, head, value = 2, "", line[index + 1]
            elif name not in profiler.flags | profiler.valued and program is None:
                raise _unknown(profiler, line, index)
        for kind, names in enumerate(profiler.outputs):
            if name in names and head is not None:
                outputs.append(Output(index + taken - 1, head, value, kind))
        if name in profiler.overwrite:
            overwrites = name in profiler.flags or value.lower() in _TRUE
        index += taken
    if program is not None:
        index = end
    if index >= len(line):
        raise CaptureError(
            f"there is no program in this line of {profiler.name}",
            hint=f"For example: nsysconv profile -- {_example(profiler)}",
        )
    return Line(profiler, line, index, tuple(outputs), overwrites)


def _profiler(arguments: Sequence[str]) -> Profiler:
    name = PurePath(arguments[0]).name if arguments else ""
    profiler = _PROFILERS.get(name)
    if profiler is None or tuple(arguments[1 : 1 + len(profiler.words)]) != profiler.words:
        shown = " ".join(arguments[: 2 if profiler else 1])
        raise CaptureError(
            f"not a line of a profiler: {shown!r}" if shown else "no command is given",
            hint="Put your own line behind --: nsysconv profile -- "
            + " or -- ".join(_example(known) for known in _PROFILERS.values()),
        )
    return profiler


def _example(profiler: Profiler) -> str:
    return " ".join((profiler.name, *profiler.words, "-o train ./train --epochs 2"))


def _marked(arguments: Sequence[str], start: int, program: str) -> int:
    if program not in arguments[start:]:
        raise CaptureError(
            f"--program {program!r} is not an argument of the line",
            hint="Write it as it stands in the line.",
        )
    return arguments.index(program, start)


def _split(argument: str) -> tuple[str, str | None, str]:
    if argument.startswith("--"):
        name, sign, value = argument.partition("=")
        return name, (name + sign if sign else None), value
    name, rest = argument[:2], argument[2:]
    if not rest:
        return name, None, ""
    sign = "=" if rest.startswith("=") else ""
    return name, name + sign, rest[len(sign) :]


def _unknown(profiler: Profiler, arguments: Sequence[str], index: int) -> CaptureError:
    option = arguments[index]
    ways = [f"{option}=VALUE if it takes a value"] if option.startswith("--") else []
    ways.append("--program WORD before the -- otherwise, WORD being the program as in the line")
    return CaptureError(
        f"the option {option} of {profiler.name} is not known here: "
        "where the program begins cannot be told",
        hint=f"Write {', or '.join(ways)}.",
    )
