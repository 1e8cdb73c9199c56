"""Files of limits: `limits = ["overview.kernel_sum_ns:3%"]`, `run_noise = "0.3%"` and the like."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nsysconv.errors import InputError, UsageError, available_hint

_KEYS = ("limits", "run_noise", "inconclusive")
_TO_INCONCLUSIVE = ("fail", "pass")
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
    `limits.toml:4`. The others are the texts of the options of these names, None where it has none.
    """

    limits: tuple[tuple[str, str], ...]
    run_noise: str | None
    inconclusive: str | None


def read_limits_file(path: str | Path) -> LimitsFile:
    """Read a file of limits; raise InputError for one that is not TOML, UsageError for its content."""
    try:
        text = _text(Path(path))
        values = _parsed_toml(text)
        for key in values:
            if key not in _KEYS:
                raise UsageError(f"no key {key!r}", hint=available_hint(key, _KEYS))
        limits = _listed_limits(values)
        noise, inconclusive = (_option(values, key) for key in ("run_noise", "inconclusive"))
        if inconclusive is not None and inconclusive not in _TO_INCONCLUSIVE:
            hint = available_hint(inconclusive, _TO_INCONCLUSIVE)
            raise UsageError(f"inconclusive = {inconclusive!r}", hint=hint)
    except (InputError, UsageError) as error:
        error.where = f"{path}{error.where}"
        raise
    places = [f"{Path(path).name}:{line}" for line in _lines_of_listed_texts(text)]
    return LimitsFile(tuple(zip(limits, places, strict=True)), noise, inconclusive)


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


def _option(values: Mapping[str, object], key: str) -> str | None:
    value = values.get(key)
    if value is None or isinstance(value, str):
        return value
    example = {"run_noise": '"0.3%"', "inconclusive": '"pass"'}[key]
    raise UsageError(f"{key} is not a string but {_kind(value)}", hint=f"Write {key} = {example}")


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
