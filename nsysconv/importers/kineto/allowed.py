"""What is kept of call stacks and of values of inputs, which may hold anything (docs/decisions/0007).

Worker processes import this module: nothing that it imports loads numpy, Arrow or SQLAlchemy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from nsysconv.names import public_path

# The profiler writes calls in these forms: `folder/file.py(12): function`, `nn.Module: Linear_0`,
# `<built-in method mm of type object at 0x7f00>`.
_CALL = re.compile(r"(?P<path>[^\t\n\"<>|*?]+\.py)\((?P<line>\d+)\): (?P<function><?[\w.]+>?)")
_BUILT_IN = re.compile(r"<built-in (?:method|function) [\w.]+(?: of [\w.]+)?")
_MODULE = re.compile(r"nn\.Module: \w+")

# The work of these operators depends on more than the shapes of their inputs.
_WITH_VALUES = re.compile(
    r"aten::(?:_?convolution|(?:cudnn|miopen)_convolution|conv_?(?:transpose)?[123]d|convolution_backward"
    r"|\w*(?:dot_product|flash|efficient)\w*attention\w*)(?:\.\w+)?"
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_CACHED = 1 << 14

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What is raised for text that is not JSON, or whose bytes are no text."""


@lru_cache(_CACHED)
def allowed_stack(text: bytes) -> str | None:
    """Return a call stack, JSON text, with the entries that are of a known form, None for no such text.

    Of absolute paths those of installed packages begin with the package, of others the file's name is
    left. Entries end with `;`, as the profiler has them.
    """
    stack = _decoded(text)
    if not isinstance(stack, str):
        return None
    return "".join(f"{entry};" for entry in _entries(stack)) or None


def _entries(stack: str) -> Iterator[str]:
    for entry in stack.split(";"):
        if call := _CALL.fullmatch(entry):
            yield f"{public_path(call['path'])}({call['line']}): {call['function']}"
        elif built_in := _BUILT_IN.match(entry):
            yield f"{built_in.group()}>"
        elif _MODULE.fullmatch(entry):
            yield entry


def has_values(operator: Any) -> bool:
    """Return whether the values of this operator's inputs are kept."""
    return isinstance(operator, str) and _has_values(operator)


@lru_cache(_CACHED)
def _has_values(operator: str) -> bool:
    return _WITH_VALUES.fullmatch(operator) is not None


@lru_cache(_CACHED)
def allowed_values(text: bytes) -> str | None:
    """Return the values of inputs, JSON text, as numbers, truths and lists of these; None for others.

    A value that is no such thing is null; so are tensors, whose values are not recorded.
    """
    values = _decoded(text)
    return json.dumps(list(map(_value, values))) if isinstance(values, list) else None


def _value(text: Any) -> Any:
    if not isinstance(text, str):
        return None
    if text.startswith("[") and text.endswith("]"):
        values = [_number(part.strip()) for part in text[1:-1].split(",") if part.strip()]
        return None if None in values else values
    return _number(text)


def _number(text: str) -> int | float | bool | None:
    if text in ("True", "False"):
        return text == "True"
    return _decoded(text.encode()) if _NUMBER.fullmatch(text) else None


def _decoded(text: bytes) -> Any:
    # Text that is not JSON becomes None; bytes that are not UTF-8 are replaced.
    try:
        return msgspec.json.decode(text.decode("utf-8", "replace"))
    except UNREADABLE:
        return None
