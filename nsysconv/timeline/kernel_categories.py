"""Kinds of kernels, and whether they use Tensor Cores, derived from their names by rules.

The rules are in kernel_categories.toml, which users can put their own before, and tensor_cores.toml,
beside this module. They say how they are written.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nsysconv.codes import COMMUNICATION
from nsysconv.errors import UsageError
from nsysconv.names import shorten, without_parameters
from nsysconv.report import MISSING, values_of
from nsysconv.timeline.arrays import Array, among, blocks, distinct, factorize, take
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.rule_files import check_keys, compiled, read_rules
from nsysconv.timeline.timeline import Timeline, cached, cached_whole, cached_whole_small
from nsysconv.timeline.vendors import is_of_amd

OTHER = "other"
"""The category of what no rule fits."""

# Fewer names are looked at one by one before Arrow is loaded.
MANY_NAMES = 10_000
# Letters, digits, and signs that mean the same everywhere; groups of plain kind, no possessive counts.
_PLAIN = re.compile(
    r"(?!.*(?:\(\?|[*+?]\+))(?:[\w:,<>= ().*+?^|]|\[\^?[\w-]+\]|\\[bdw.])+", re.ASCII
)

# A pattern may look at a name many times over, and no function's name is as long.
_LONGEST = 20_000

_FORM = "A rule is `[[rule]]` with `category = \"…\"` and `patterns = ['…', …]`."


@dataclass(frozen=True)
class Rules:
    """Categories in the order in which they are tried, each with patterns of which a name holds one."""

    ordered: tuple[tuple[str, tuple[re.Pattern[str], ...]], ...]

    def category(self, name: str) -> str:
        """Return the category of a kernel by its demangled name; of a very long one, by both its ends."""
        name = shorten(name, _LONGEST).lower()
        for category, patterns in self.ordered:
            if any(pattern.search(name) for pattern in patterns):
                return category
        return OTHER

    def categories(self, names: Sequence[str]) -> list[str]:
        """Return the category of each name, as `category` does; of many names fast."""
        if len(names) < MANY_NAMES:
            return list(map(self.category, names))
        result = np.full(len(names), OTHER, object)
        plain = np.array([name.isascii() and name.isprintable() for name in names], bool)
        result[~plain] = [self.category(names[i]) for i in np.flatnonzero(~plain).tolist()]
        rest = np.flatnonzero(plain)
        texts = pa.array([shorten(names[i], _LONGEST).lower() for i in rest.tolist()], pa.string())
        every = [pattern for _, patterns in self.ordered for pattern in patterns]
        for category, patterns in (("", every), *self.ordered):
            mine = _holding(texts, patterns)
            if category:
                result[rest[mine]] = category
            left = ~mine if category else mine  # what holds none of all patterns stays as it is
            rest, texts = rest[left], texts.filter(pa.array(left))
        return list(result)


def _holding(texts: pa.Array, patterns: Sequence[re.Pattern[str]]) -> Array:
    # The texts are printable ASCII. The mask is true where one contains a pattern. Arrow searches all
    # texts at once, with those patterns whose syntax has the same meaning in Arrow and in Python.
    import pyarrow.compute as pc

    found = np.zeros(len(texts), bool)
    plain = [
        each
        for each in patterns
        if _PLAIN.fullmatch(each.pattern) and not each.flags & re.IGNORECASE
    ]
    if plain:
        joined = "|".join(each.pattern for each in plain)
        found |= pc.match_substring_regex(texts, joined).to_numpy(zero_copy_only=False)
    for pattern in set(patterns) - set(plain):
        found |= np.array([bool(pattern.search(text)) for text in texts.to_pylist()], bool)
    return found


@cache
def _own_rules(file: str) -> Rules:
    """Return the rules of a TOML file beside this module."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return Rules(tuple(map(_rule, tomllib.loads(text)["rule"])))


def _rules_of(path: str) -> Rules:
    """Return the rules of a user's file. Raises UsageError for one that cannot be read, or has none."""
    found = read_rules(path, "kernel categories", _FORM)
    for place, rule in enumerate(found, 1):
        _check(rule, f"{path}, rule {place}")
    return Rules(tuple(map(_rule, found)))


def _check(rule: Any, place: str) -> None:
    if not isinstance(rule, dict):
        raise UsageError("no table", where=place, hint=_FORM)
    check_keys(rule, {"category", "patterns"}, place, _FORM)
    category, patterns = rule.get("category"), rule.get("patterns")
    if not isinstance(category, str) or not category:
        raise UsageError("no category", where=place, hint=_FORM)
    if not isinstance(patterns, list) or not patterns:
        raise UsageError(f"no patterns for {category}", where=place, hint=_FORM)
    for which, pattern in enumerate(patterns, 1):
        compiled(pattern, f"{place}, pattern {which}")


def _rule(rule: dict[str, Any]) -> tuple[str, tuple[re.Pattern[str], ...]]:
    # Names are looked at in lower case, where a pattern in lower case is found sooner.
    return rule["category"], tuple(
        re.compile(pattern, 0 if pattern == pattern.lower() else re.IGNORECASE)
        for pattern in rule["patterns"]
    )


def rules(path: str | None = None) -> Rules:
    """Return our rules, those of a file before them; raise UsageError for a file without rules."""
    own = _own_rules("kernel_categories.toml")
    return own if path is None else Rules(_rules_of(path).ordered + own.ordered)


@cached_whole
def categories(timeline: Timeline, path: str | None = None) -> tuple[Array, list[str]]:
    """Return per row of the kernels' table the number of its category, and the categories by number.

    `path`: a file of rules that go before ours. A kernel whose name is not recorded is `other`.
    """
    place, names = kernel_names(timeline)
    numbers = {OTHER: 0}
    each = rules(path).categories([name or "" for name in names])
    by_number = [
        0 if name is None else numbers.setdefault(category, len(numbers))
        for name, category in zip(names, each, strict=True)
    ]
    return take(np.array(by_number, np.int16), place), list(numbers)


@cached
def communicates(timeline: Timeline, path: str | None = None) -> Array:
    """Return which GPU operations are kernels that communicate, by their names, as a mask."""
    ops = timeline.ops
    category, names = categories(timeline, path)
    result = np.zeros(len(ops), bool)
    if COMMUNICATION in names:
        wanted = names.index(COMMUNICATION)
        for block in blocks(len(ops)):
            kernels = np.flatnonzero(ops.kind[block] == OpKind.KERNEL)
            result[block][kernels] = category.take(ops.row[block].take(kernels)) == wanted
    return result


@cached_whole
def kernel_name_ids(timeline: Timeline) -> tuple[Array, Array]:
    """Return per row of the kernels' table a number of its name, and the ids of names by number."""
    name_id = timeline.profile.columns("kernel", ("name_id",))["name_id"]
    place, (ids,) = factorize(name_id)
    return place, ids


@cached_whole
def kernel_names(timeline: Timeline) -> tuple[Array, list[str | None]]:
    """Return per row of the kernels' table a number of its name, and the names by number.

    A name that is not recorded is None.
    """
    place, ids = kernel_name_ids(timeline)
    texts = timeline.profile.names(ids[ids != MISSING])
    return place, [texts.get(i) for i in ids.tolist()]


# -- Tensor Cores

ANSWERS = ("no", "yes", "unknown")
"""Whether a kernel uses Tensor Cores, by number."""

NO, YES, UNKNOWN = range(3)

_TENSOR_CORES = "tensor_cores.toml"
# A counter's value is its greatest over the executions of the kernel, else its mean.
_VALUES = ("value_max", "value_avg")
_ROWS_AT_ONCE = 1 << 16


@cache
def _of_tensor_cores() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(_TENSOR_CORES).read_text(encoding="utf-8"))


@cache
def eligible() -> frozenset[str]:
    """Return the names of the operators whose work could run on Tensor Cores."""
    return frozenset(_of_tensor_cores()["operators"]["eligible"])


def tensor_cores_by_name(names: Sequence[str]) -> list[str]:
    """Return whether kernels of each name use Tensor Cores, as the name says: no, yes, unknown."""
    # Types of parameters say what it is given (`cudnnConvolutionStruct`), and not what it does.
    said = _own_rules(_TENSOR_CORES).categories(list(map(without_parameters, names)))
    return [answer if answer in ANSWERS else ANSWERS[NO] for answer in said]


def uses_tensor_cores(timeline: Timeline, names: Sequence[str]) -> list[str]:
    """Return whether kernels of each name use Tensor Cores: no, yes, unknown.

    Hardware counters decide where they were measured in kernels of that name, else the name. That a name
    says nothing of AMD's matrix cores is no sign that they are not used.
    """
    measured, said = _measured(timeline), tensor_cores_by_name(names)
    if is_of_amd(timeline):
        said = [ANSWERS[UNKNOWN] if answer == ANSWERS[NO] else answer for answer in said]
    return [measured.get(name) or answer for name, answer in zip(names, said, strict=True)]


@cached_whole
def tensor_core_use(timeline: Timeline) -> Array:
    """Return per row of the kernels' table the place of its answer in ANSWERS."""
    place, names = kernel_names(timeline)
    answers = uses_tensor_cores(timeline, [name or "" for name in names])
    numbers = [
        UNKNOWN if name is None else ANSWERS.index(answer)
        for name, answer in zip(names, answers, strict=True)
    ]
    return take(np.array(numbers, np.int8), place)


@cached_whole_small
def _measured(timeline: Timeline) -> dict[str, str]:
    # "yes" or "no" by kernels' names, where counters of their use were measured.
    profile = timeline.profile
    if not profile.row_count("metric_sample"):
        return {}
    columns = profile.columns("metric_sample", ("name_id", "kernel_name_id"))
    names = profile.names(distinct(columns["name_id"]))
    counter = re.compile("|".join(_of_tensor_cores()["counters"]["patterns"]), re.IGNORECASE)
    wanted = np.array([i for i, text in names.items() if counter.fullmatch(text)], np.int64)
    kernels = columns["kernel_name_id"]
    rows = np.flatnonzero(among(columns["name_id"], wanted) & (kernels != MISSING))
    if not len(rows):
        return {}
    parts = [
        [values_of(batch.column(name), np.nan).astype(np.float64) for name in _VALUES]
        for batch in profile.batches("metric_sample", _ROWS_AT_ONCE, _VALUES)
    ]
    largest = np.fmax(*(np.concatenate(column)[rows] for column in zip(*parts, strict=True)))
    texts = profile.names(distinct(kernels[rows]))
    result: dict[str, str] = {}
    for kernel, value in zip(kernels[rows].tolist(), largest.tolist(), strict=True):
        name = texts[kernel]
        result[name] = ANSWERS[YES] if value > 0 else result.get(name, ANSWERS[NO])
    return result
