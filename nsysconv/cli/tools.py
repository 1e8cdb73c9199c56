"""Commands as tools for agents: which, their arguments as JSON Schema, and one call on one folder.

A tool is a command with some of its flags, as they are declared for the command line, and its answer is
the command's own: brief JSON. Tools read files in the folder and nothing else, write nothing there, and
start no other program.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysconv import cli, queries
from nsysconv.cli.flags import ANSWER
from nsysconv.errors import UsageError
from nsysconv.names import shorten
from nsysconv.store.location import globbed, is_address, redacted_target, split_target

MOST_SENT, MOST_RETURNED = 10_000, 100_000
"""The most characters of all arguments of a call, and of its answer."""
_MOST_FILES = 10_000
_LONGEST_SHOWN = 60
_BESIDE = ("", "-wal", "-shm", "-journal")

_PART = ("time", "range", "step", "skip_first", "phase", "steady", "devices", "ranks", "name")


@dataclass(frozen=True)
class _Tool:
    # A command, which of its parameters an agent has, and which of these are paths.
    command: str
    parameters: tuple[str, ...]
    paths: tuple[str, ...] = ("target",)
    flags: tuple[str, ...] = ("--format=json", "--brief")


TOOLS = {
    "answer": _Tool(ANSWER, ("target", "ignore", "step", "skip_first", "steady", "devices")),
    "info": _Tool("info", ("target", "limit")),
    "report": _Tool("report", ("target", "reports", "limit", "split", "by", *_PART)),
    "why": _Tool("why", ("target", "event", "step_range")),
    "find": _Tool("find", ("target", "pattern", "limit", *_PART[:-1])),
    "diff": _Tool(
        "diff",
        ("base", "other", "reports", "limit", "match", "fail_on", "step", "skip_first", "steady"),
        ("base", "other"),
    ),
    "sql": _Tool("sql", ("target", "query", "limit")),
    "schema": _Tool("schema", ("report",), (), ()),
}
"""The tools by name: each is a command, of which an agent has some of the flags."""


# -- tools as they are declared


def _command(name: str) -> Any:  # typer's commands have no public type
    import typer

    from nsysconv.cli.app import app

    return typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]


def _parameters(tool: str) -> dict[str, Any]:
    declared = {param.name: param for param in _command(TOOLS[tool].command).params}
    return {name: declared[name] for name in TOOLS[tool].parameters}


def description(tool: str) -> str:
    """Return what a tool does: the help of its command, and the reports there are."""
    text = str(_command(TOOLS[tool].command).help)
    if tool == "report":
        groups: dict[str, list[str]] = {}
        for name in queries.OWN:
            groups.setdefault(queries.ENTRIES[name].about, []).append(name)
        text += "".join(f"\n{about}: {', '.join(names)}" for about, names in groups.items())
    return text


def input_schema(tool: str) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments."""
    parameters = _parameters(tool)
    required = [name for name, param in parameters.items() if param.required or name == "target"]
    return {
        "type": "object",
        "properties": {name: _property(param) for name, param in parameters.items()},
        "required": required,
        "additionalProperties": False,
    }


def _property(param: Any) -> dict[str, Any]:
    kinds = {"int": "integer", "int range": "integer", "boolean": "boolean"}
    schema: dict[str, Any] = {"type": kinds.get(param.type.name, "string")}
    if choices := getattr(param.type, "choices", None):
        schema["enum"] = [str(getattr(choice, "value", choice)) for choice in choices]
    if param.multiple or param.nargs == -1:
        schema = {"type": "array", "items": schema}
    return {**schema, "description": param.help}


# -- one call


def answer_to(folder: Path, tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the answer of a tool, and whether it is an error, which is JSON, too.

    The folder is the current one meanwhile, and no other program is found.
    """
    out, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        _no_programs(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        try:
            words = command_line(tool, arguments)
            _command(TOOLS[tool].command).main(words, prog_name="nsysconv", standalone_mode=False)
            if out.tell() > MOST_RETURNED:
                what = f"the answer has {out.tell():,} characters, more than {MOST_RETURNED:,}"
                raise UsageError(what, hint="Ask for fewer rows: limit.")
        except Exception as error:
            cli.say_error(error, as_json=True)
            return errors.getvalue().strip().splitlines()[-1], True
    return out.getvalue().strip(), False


@contextlib.contextmanager
def _no_programs() -> Iterator[None]:
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = ""
    try:
        yield
    finally:
        os.environ["PATH"] = before


def command_line(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the words of a call, in the current folder. Raises UsageError for what is not allowed."""
    if tool not in TOOLS:
        raise UsageError(f"no tool {tool!r}", hint=f"There are: {', '.join(TOOLS)}")
    parameters = _parameters(tool)
    if unknown := sorted(arguments.keys() - parameters.keys()):
        hint = f"Arguments of {tool}: {', '.join(parameters)}"
        raise UsageError(f"no argument {unknown[0]!r}", hint=hint)
    if sum(len(str(value)) for value in arguments.values()) > MOST_SENT:
        raise UsageError(f"the arguments have more than {MOST_SENT:,} characters")
    flags, words = list(TOOLS[tool].flags), []
    for name, param in parameters.items():  # in the order of the command's own arguments
        given = arguments.get(name)
        values = list(given) if isinstance(given, list | tuple) else [given]
        texts = [str(value) for value in values if value is not None]
        if name in TOOLS[tool].paths:
            _check_paths(texts)
        if name in ("reports", "report"):
            _check_paths([text.partition("=")[2] for text in texts if "=" in text])
        is_boolean = param.type.name == "boolean"
        if any(isinstance(each, dict | list) for each in values) or (
            is_boolean and given not in (None, True, False)
        ):
            hint = f"Its type is {_property(param)['type']}."
            raise UsageError(f"{name} is {shorten(repr(given), _LONGEST_SHOWN)}", hint=hint)
        if param.param_type_name == "argument":
            words += texts
        elif is_boolean:
            flags += [param.opts[0]] if given else []
        else:
            flags += [f"{param.opts[0]}={text}" for text in texts]
    return [*flags, "--", *words]


def _check_paths(texts: Sequence[str]) -> None:
    # The value of an option may be another word, which is taken for a path in the folder.
    for text in texts:
        place = None if is_address(text) or "\0" in text else split_target(text)[0]
        where, hint = redacted_target(text), "Name a path in the folder."
        outside = UsageError("outside of the folder", where=where, hint=hint)
        if not isinstance(place, Path) or ".." in place.parts:
            raise outside
        if not place.absolute().is_relative_to(Path.cwd()):
            raise outside
        for path in globbed(place) or [place]:
            if not all(_is_inside(each) for each in _files(path)):
                raise outside


def _files(path: Path) -> Iterator[Path]:
    # The path, what lies beside it that SQLite would open, and in a folder all that is below it.
    yield from (path.with_name(path.name + suffix) for suffix in _BESIDE if path.name)
    if path.is_dir():
        for count, each in enumerate(path.rglob("*")):
            if count == _MOST_FILES:
                raise UsageError(f"more than {_MOST_FILES:,} files", where=str(path))
            yield each


def _is_inside(path: Path) -> bool:
    # What does not exist is refused by the command, in its own words.
    if not os.path.lexists(path):
        return True
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # links in a circle
        return False
    mode = real.stat().st_mode if real.exists() else 0
    is_plain = not mode or stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return is_plain and real.is_relative_to(Path.cwd().resolve())
