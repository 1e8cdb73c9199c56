"""Files of limits: what `--limits FILE` reads, so that a project keeps its limits beside its code.

run_noise = "0.3%"        # optional, as --run-noise
cannot_tell = "pass"      # optional, as --cannot-tell
limits = ["overview.kernel_sum_ns:3%", "kernels[/gemm/].avg_ns:2%"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nsysconv.errors import InputError, UsageError, available_hint

_KEYS = ("limits", "run_noise", "cannot_tell")
_CANNOT_TELL = ("fail", "pass")
_EXAMPLE = 'limits = ["overview.kernel_sum_ns:3%"]'
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
    """What a file of limits says, not yet understood.

    `limits` are the texts of limits as `--fail-on` takes them, each with its place, as in
    `limits.toml:4`. The others are the texts of the options of these names, None where it has none.
    """

    limits: tuple[tuple[str, str], ...]
    run_noise: str | None
    cannot_tell: str | None


def read_limits_file(path: str | Path) -> LimitsFile:
    """Read a file of limits.

    Raises InputError where it cannot be read or is not TOML, UsageError for keys and values that no
    file of limits has.
    """
    text = _text(Path(path))
    values = _parsed(text, str(path))
    unknown = next((key for key in values if key not in _KEYS), None)
    if unknown is not None:
        raise UsageError(
            f"no key {unknown!r}", where=str(path), hint=available_hint(unknown, _KEYS)
        )
    limits = _limits(values, str(path))
    noise, cannot_tell = (_option(values, key, str(path)) for key in ("run_noise", "cannot_tell"))
    if cannot_tell is not None and cannot_tell not in _CANNOT_TELL:
        raise UsageError(
            f"cannot_tell = {cannot_tell!r}",
            where=str(path),
            hint=available_hint(cannot_tell, _CANNOT_TELL),
        )
    name = Path(path).name
    places = [f"{name}:{line}" for line in _lines_of_listed_texts(text)]
    return LimitsFile(tuple(zip(limits, places, strict=True)), noise, cannot_tell)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
    except FileNotFoundError as error:
        raise InputError("no such file", where=str(path)) from error
    except (OSError, ValueError) as error:
        # A name with a NUL in it is a ValueError.
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot be read: {why}", where=str(path)) from error
    if len(content) > _LARGEST_BYTES:
        raise InputError("too long for a file of limits", where=str(path), hint=_hint())
    try:
        # Some editors begin a file with a byte order mark, which TOML does not know.
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError("not TOML: not UTF-8", where=f"{path}:{line}", hint=_hint()) from error


def _parsed(text: str, path: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        place = _PLACE.search(str(error))
        what = _PLACE.sub("", str(error))
        line = place and (place["line"] or text.count("\n") + 1)
        where = f"{path}:{line}" if line else path
        raise InputError(f"not TOML: {what}", where=where, hint=_hint()) from error
    except RecursionError as error:
        raise InputError("not TOML: nested too deeply", where=path, hint=_hint()) from error


def _limits(values: Mapping[str, object], path: str) -> list[str]:
    listed = values.get("limits")
    if listed is None or listed == []:
        raise UsageError("no limits", where=path, hint=_hint())
    if not isinstance(listed, list):
        raise UsageError(f"limits is no list but {_kind(listed)}", where=path, hint=_hint())
    texts = [each for each in listed if isinstance(each, str)]
    if len(texts) < len(listed):
        number, wrong = next((n, v) for n, v in enumerate(listed, 1) if not isinstance(v, str))
        what = f"limit {number} of {len(listed)} is no text but {_kind(wrong)}"
        raise UsageError(what, where=path, hint=_hint())
    return texts


def _option(values: Mapping[str, object], key: str, path: str) -> str | None:
    value = values.get(key)
    if value is None or isinstance(value, str):
        return value
    example = {"run_noise": '"0.3%"', "cannot_tell": '"pass"'}[key]
    raise UsageError(
        f"{key} is no text but {_kind(value)}", where=path, hint=f"Write {key} = {example}"
    )


def _kind(value: object) -> str:
    kinds = {str: "a text", bool: "true or false", dict: "a table", list: "a list"}
    return kinds.get(type(value), f"{value}")


def _hint() -> str:
    return f"Write, for example: {_EXAMPLE}"


def _lines_of_listed_texts(text: str) -> Iterator[int]:
    """Yield the lines where the texts in brackets begin, in a file of limits.

    In such a file nothing but the limits is in brackets. Python's reader of TOML gives no lines.
    """
    line, counted_to, depth = 1, 0, 0
    for token in _TOKEN.finditer(text):
        if token["bracket"]:
            depth += 1 if token["bracket"] == "[" else -1
        elif token["text"] and depth:
            line += text.count("\n", counted_to, token.start())
            counted_to = token.start()
            yield line
