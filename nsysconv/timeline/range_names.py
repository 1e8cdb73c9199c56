"""Names of ranges and operators, and what of them says only which of many it is.

The store keeps names as they were recorded; queries that group by names ask here.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

_SEPARATORS = (", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = ")
"""Before the arguments that `torch.autograd.profiler.emit_nvtx` appends to a name, in its order."""

_FIRST = re.compile("|".join(map(re.escape, _SEPARATORS)))
_WHOLE = re.compile(r"\d{1,18}")


class RangeName(NamedTuple):
    """A name of a range without arguments, and what `seq` and `sizes` are among these, None for none."""

    name: str
    sequence: int | None
    sizes: str | None
    has_arguments: bool


def split_name(text: str) -> RangeName:
    """Return a name's parts; other text than `emit_nvtx` writes is all name."""
    first = _FIRST.search(text) if ", " in text else None
    if first is None:
        return RangeName(text, None, None, False)
    sequence = _argument(text, ", seq = ")
    number = int(sequence) if sequence and _WHOLE.fullmatch(sequence) else None
    return RangeName(text[: first.start()], number, _argument(text, ", sizes = "), True)


def _argument(text: str, separator: str) -> str | None:
    _, found, rest = text.partition(separator)
    if not found:
        return None
    end = _FIRST.search(rest)
    return rest[: end.start()] if end else rest


@cache
def _rules() -> tuple[tuple[re.Pattern[str], str], ...]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple(
        (re.compile(rule["pattern"]), rule["becomes"]) for rule in tomllib.loads(text)["rule"]
    )


def group_name(text: str) -> str:
    """Return the name by which a range or an operator is grouped with others."""
    return _grouped(split_name(text).name)


@lru_cache(maxsize=1 << 16)
def _grouped(name: str) -> str:
    for pattern, becomes in _rules():
        name = pattern.sub(becomes, name)
    return name
