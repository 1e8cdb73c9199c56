"""Files of limits: `limits = ["overview.kernel_sum_ns:3%"]`, `step_range = "step *"` and the like."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nsysconv.errors import InputError, UsageError, available_hint

_LIMITS = "limits"
_FILE_HINT = 'Write, for example: limits = ["overview.kernel_sum_ns:3%"]'
# A profile that is named by mistake is not read to its end.
_LARGEST_BYTES = 1_000_000

# Where Python's reader of TOML says that it stopped.
_PLACE = re.compile(r"\s*\(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
# Comments and texts are taken whole, so that a sign within them is taken for no other.
_TOKEN = re.compile(
    r"#[^\n]*"
    r'|(?P<text>"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\]|\\.)*"|\'[^\']*\')'
    r"|(?P<bracket>[\[\]])",
    re.DOTALL,
)


@dataclass(frozen=True)
class LimitsFile:
    """A file of limits as text, not parsed yet.

    `limits` are the texts of limits as `--fail-on` takes them, each with its place, as in
    `limits.toml:4`; `options` the values of other options of a comparison, by name.
    """

    limits: tuple[tuple[str, str], ...]
    options: Mapping[str, str | bool]


def read_limits_file(path: str | Path, options: Mapping[str, type]) -> LimitsFile:
    """Read a file of limits, and of these options of a comparison, which are a text or true or false.

    Raises InputError for what is not TOML, UsageError for its content.
    """
    try:
        text = _text(Path(path))
        values = _parsed_toml(text)
        for key in values:
            if key not in (_LIMITS, *options):
                raise UsageError(f"no key {key!r}", hint=available_hint(key, (_LIMITS, *options)))
        limits = _listed_limits(values)
        for name, kind in options.items():
            if not isinstance(values.get(name, kind()), kind):
                wanted, example = ("true or false", "true") if kind is bool else ("a string", '"…"')
                what = f"{name} is not {wanted} but {_kind(values[name])}"
                raise UsageError(
                    what, hint=f"Write {name} = {example}, as for --{name.replace('_', '-')}"
                )
    except (InputError, UsageError) as error:
        error.where = f"{path}{error.where}"
        raise
    places = [f"{Path(path).name}:{line}" for line in _lines_of_listed_texts(text)]
    of_options = {name: kind(values[name]) for name, kind in options.items() if name in values}
    return LimitsFile(tuple(zip(limits, places, strict=True)), of_options)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
    except FileNotFoundError as error:
        raise InputError("no such file") from error
    except (OSError, ValueError) as error:
        # A name with a NUL in it is a ValueError.
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot be read: {why}") from error
    if len(content) > _LARGEST_BYTES:
        raise InputError("too long for a file of limits", hint=_FILE_HINT)
    try:
        # Some editors begin a file with a byte order mark, which TOML does not know.
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError("not TOML: not UTF-8", where=f":{line}", hint=_FILE_HINT) from error


def _parsed_toml(text: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        place = _PLACE.search(str(error))
        what = _PLACE.sub("", str(error))
        line = place and (place["line"] or text.count("\n") + 1)
        where = f":{line}" if line else ""
        raise InputError(f"not TOML: {what}", where=where, hint=_FILE_HINT) from error
    except RecursionError as error:
        raise InputError("not TOML: nested too deeply", hint=_FILE_HINT) from error


def _listed_limits(values: Mapping[str, object]) -> list[str]:
    listed = values.get("limits")
    if listed is None or listed == []:
        raise UsageError("no limits", hint=_FILE_HINT)
    if not isinstance(listed, list):
        raise UsageError(f"limits is not a list but {_kind(listed)}", hint=_FILE_HINT)
    for number, each in enumerate(listed, 1):
        if not isinstance(each, str):
            what = f"limit {number} of {len(listed)} is not a string but {_kind(each)}"
            raise UsageError(what, hint=_FILE_HINT)
    return listed


def _kind(value: object) -> str:
    kinds = {str: "a text", bool: "true or false", dict: "a table", list: "a list"}
    return kinds.get(type(value), f"{value}")


def _lines_of_listed_texts(text: str) -> Iterator[int]:
    # Where the texts in brackets begin: in a file of limits nothing else is in brackets. Python's reader
    # of TOML gives no lines.
    line, counted_to, depth = 1, 0, 0
    for token in _TOKEN.finditer(text):
        if token["bracket"]:
            depth += 1 if token["bracket"] == "[" else -1
        elif token["text"] and depth:
            line += text.count("\n", counted_to, token.start())
            counted_to = token.start()
            yield line
