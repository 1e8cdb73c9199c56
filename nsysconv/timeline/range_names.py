"""Names of ranges and operators, and what of them says only which of many it is.

The store keeps names as they were recorded; queries that group by names ask here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nsysconv.timeline.arrays import take
from nsysconv.timeline.events import Spans

GROUPED, EXACT = "grouped", "exact"
RANGE_NAMES = (GROUPED, EXACT)
"""Ways to show names of ranges and operators: by the groups of `group_name`, or as recorded."""

SEPARATORS = (", seq = ", ", stashed seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = ")
"""Before the arguments that `torch.autograd.profiler.emit_nvtx` appends to a name, in its order."""

SEQUENCE, SIZES = SEPARATORS[0], SEPARATORS[3]
"""Before the number that a forward operator and its backward share, and before the sizes of inputs."""

_FIRST = re.compile("|".join(map(re.escape, SEPARATORS)))


class RangeName(NamedTuple):
    """A name of a range without arguments, and whether it had some."""

    name: str
    has_arguments: bool


def split_name(text: str) -> RangeName:
    """Return a name's parts; other text than `emit_nvtx` writes is all name."""
    name = without_arguments(text)
    return RangeName(name, name is not text)


def without_arguments(text: str) -> str:
    """Return what is before the first argument: the text itself where there is none."""
    first = _FIRST.search(text) if ", " in text else None
    return text if first is None else text[: first.start()]


def argument(text: str, separator: str) -> str | None:
    """Return the argument that follows a separator, None where there is none."""
    _, found, rest = text.partition(separator)
    return without_arguments(rest) if found else None


@cache
def _rules(overloads: bool) -> tuple[tuple[str, re.Pattern[str], str], ...]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple(
        (rule["holds"], re.compile(rule["pattern"]), rule["becomes"])
        for rule in tomllib.loads(text)["rule"]
        if not (overloads and rule.get("of_overloads"))
    )


def group_name(text: str, *, overloads: bool = False) -> str:
    """Return the name by which a range or an operator is grouped; `overloads`: with its overload."""
    name = without_arguments(text)
    for held, pattern, becomes in _rules(overloads):
        if held in name:
            name = pattern.sub(becomes, name)
    return name


def group_spans(spans: Spans, group: Callable[[str], str] = group_name) -> Spans:
    """Return the spans, named by their groups; those of one group are of one number."""
    numbers: dict[str, int] = {}
    merged = np.array(
        [numbers.setdefault(group(text), len(numbers)) for text in spans.names], np.int32
    )
    if len(numbers) == len(spans.names):
        return replace(spans, names=tuple(numbers))
    return replace(spans, name=take(merged, spans.name), names=tuple(numbers))
