"""A decoded chunk of a trace: columns as arrays of 64-bit numbers, and what else its events say.

Worker processes decode, and start faster the less they import: the arrays are Python's own, not numpy's.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from struct import error as StructError  # noqa: N812 - is a class
from struct import pack
from typing import Any, TypeAlias

Integers: TypeAlias = "array[int]"
"""A column of int64."""
Times: TypeAlias = "list[array[Any]]"
"""A column of times in consecutive parts: integers are nanoseconds, doubles microseconds."""

MISSING = -(1 << 63)
"""No value, in a column of int64."""
BEYOND = MISSING + 1
"""A time that is a number, and more than an int64 holds."""

OPERATOR, PYTHON_FUNCTION = 0, 1
"""Kinds of rows of the table of operators."""

NAME_COLUMNS = frozenset(
    {
        *("name_id", "shapes_id", "types_id", "arguments_id", "stack_id", "strides_id"),
        *("dtype_id", "group_id", "group_ranks_id", "annotation_id"),
    }
)
"""Columns that hold indices into a list of names."""

TEXT_KEY, LANE_KEY = 1 << 60, 1 << 61
"""From the first on the number of a process or thread is the key of a text (`Chunk.texts`), from the
second on that of a rest which texts of processes share; numbers of a system are smaller.
"""

ACCELERATOR = "accelerator "
"""Prefix of the keys under which events of other accelerators are counted; their category follows."""
FURTHER_ARRAY = "further array"
"""Key under which further arrays of events in the same object are counted."""

_LIMIT = 1 << 63
_NS_PER_US = 1000
_LONGEST_NS = 1 << 53  # schema.TIME_LIMIT_NS, which worker processes do not import
# Below this many microseconds (a hundred days) the double nearest to a time with three decimals lies
# closer to it than to any other such time: half its spacing is less than half a nanosecond.
_EXACT_US = float(1 << 43)
_MOST_DIGITS = 20
# A number in a text is, in this order: the whole text; a number behind the word for it; one that
# neither touches letters nor follows a word (`rank 0`); any other. A number in brackets comes after all
# others.
_WHOLE = re.compile(r"\s*(-?\d+)\s*")
_NAMED = re.compile(r"(?i)(?<![a-z])(?:pid|process|tid|thread|stream)[\s_:=#-]*?(-?\d+)")
_ALONE = re.compile(r"(?<![\w.-])-?\d+(?![A-Za-z0-9.])|(?<![A-Za-z0-9.])\d+(?![A-Za-z0-9.])")
_BEHIND_WORD = re.compile(r"[A-Za-z][\s_:=#-]*$")
_WORDS = re.compile(r"(?i)(?!(?:pid|process|tid|thread|stream)\b)\b\w[\w.-]*")
_BRACKETS = re.compile(r"\[[^]]*\]|\([^)]*\)|\{[^}]*\}")
_ANY = re.compile(r"-?\d+")
# Every event has the texts of its thread or stream, so they are cached.
_CACHED_TEXTS = 1024


@dataclass
class PackedRows:
    """`count` rows of one table, with what their events say.

    `columns`: int64, null as MISSING; a single value where all rows have the same. NAME_COLUMNS index the
    chunk's names. `durations` is empty for rows without a duration. `batches`: for each batch of events,
    and for rows whose times are odd, the number of rows before it, and its offset in the trace.
    """

    count: int
    starts: Times
    durations: Times
    columns: dict[str, Integers]
    batches: list[tuple[int, int]]


@dataclass(frozen=True)
class TextId:
    """The number of a process or thread that is spelled as a text, and the rest of it: its name."""

    number: int
    rest: str

    @property
    def name(self) -> str:
        """Return the rest as a name: without brackets and separators around it."""
        return " ".join(_WORDS.findall(self.rest.replace("_", " ")))


@dataclass
class Chunk:
    """The decoded content of one chunk of a trace.

    `tables`: rows by table. `names`: the texts that NAME_COLUMNS index. `pids`: the processes with
    rows, in the order of their first. `last_pid`: the process of the last row; rows of a GPU at the
    beginning of the next chunk belong to it. `thread_names`, `process_names`, `ranks`: by (pid, tid)
    and by pid. `copy_bytes`: sizes that API calls give for their copies, by (pid, correlation).
    `sm_counts`: by device. `left_out_starts`: starts of events that become rows on request only.
    `texts`: numbers of processes and threads that are spelled with more than digits, by their keys;
    `lanes`: by the key of each rest the process with it that was named last.
    `counts` and `first_offsets`: how many of each kind were noted, and the offset of the first.
    `has_fractions`: not all times are whole microseconds.
    """

    tables: dict[str, PackedRows] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    last_pid: int = MISSING
    thread_names: dict[tuple[int, ...], str] = field(default_factory=dict)
    process_names: dict[int, str] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    copy_bytes: dict[tuple[int, int], int] = field(default_factory=dict)
    sm_counts: dict[int, int] = field(default_factory=dict)
    left_out_starts: Times = field(default_factory=list)
    texts: dict[int, TextId] = field(default_factory=dict)
    lanes: dict[int, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    first_offsets: dict[str, int] = field(default_factory=dict)
    event_count: int = 0
    has_fractions: bool = False

    def note(self, key: str, count: int, offset: int) -> None:
        """Add `count` to what is noted under `key`, and keep the least offset in the trace."""
        if count:
            self.counts[key] += count
            self.first_offsets[key] = min(offset, self.first_offsets.get(key, offset))

    def add_findings(self, later: Chunk) -> None:
        """Add what a later chunk of the trace says beside its rows."""
        self.thread_names.update(later.thread_names)
        self.process_names.update(later.process_names)
        self.ranks.update(later.ranks)
        self.texts.update(later.texts)
        self.lanes.update(later.lanes)
        self.copy_bytes.update(later.copy_bytes)
        self.sm_counts = {**later.sm_counts, **self.sm_counts}
        self.counts.update(later.counts)
        self.first_offsets = {**later.first_offsets, **self.first_offsets}
        self.event_count += later.event_count
        self.has_fractions = self.has_fractions or later.has_fractions


def constant(value: int, count: int) -> Integers:
    """Return a column that holds one value in every row."""
    return array("q", [value]) * count


def integers(values: Sequence[Any]) -> Integers:
    """Return values of any type as int64; what is no whole number in any spelling becomes MISSING."""
    # Nearly all columns are whole numbers throughout or null throughout: an array refuses the first
    # value of another type, in C, and only then values are looked at one by one.
    column = _try_array("q", values)
    if column is None and (missing := values.count(None)):
        if missing == len(values):
            return constant(MISSING, missing)
        column = _try_array("q", [MISSING if value is None else value for value in values])
    return array("q", parse_integers(values)) if column is None else column


def parse_integers(values: Sequence[Any]) -> list[int]:
    """Return values of any type as integers, MISSING for what is no whole number in any spelling."""
    return list(map(_parse_integer, values))


def ids(values: Sequence[Any], texts: dict[int, TextId]) -> Integers:
    """Return numbers of processes or threads as int64, as `parse_id` makes them."""
    if str not in set(map(type, values)):
        return integers(values)
    return array("q", [parse_id(value, texts) for value in values])


def parse_id(value: Any, texts: dict[int, TextId]) -> int:
    """Return a process's or thread's number; the key of one with a name beside it, put into `texts`.

    MISSING for what has no number.
    """
    parted = part_text(value) if isinstance(value, str) else None
    if parted is None or not parted.rest:
        return _parse_integer(value)
    key = TEXT_KEY + _hash(f"{parted.number} {parted.rest}")
    texts[key] = parted
    return key


def lane_of(text: TextId | None, texts: dict[int, TextId]) -> int | None:
    """Return the key of all processes whose texts have the rest of this one, put into `texts`.

    None if it has no rest.
    """
    if text is None or not text.rest:
        return None
    key = LANE_KEY + _hash(text.rest)
    texts[key] = TextId(0, text.rest)
    return key


@lru_cache(_CACHED_TEXTS)
def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=7).digest())


def first_integers(*choices: Callable[[], Sequence[Any]]) -> Integers:
    """Return per row the first whole number of several choices; each is only called if one is missing."""
    numbers = integers(choices[0]())
    for choice in choices[1:]:
        if MISSING not in numbers:
            break
        others = zip(numbers, integers(choice()), strict=True)
        numbers = array("q", [other if own == MISSING else own for own, other in others])
    return numbers


def triples(values: Sequence[Any]) -> list[Integers]:
    """Return lists of three numbers as three columns; MISSING for what is no such list."""
    nothing = [None] * 3
    if set(map(type, values)) != {list} or set(map(len, values)) != {3}:
        values = [v if isinstance(v, list) and len(v) == 3 else nothing for v in values]
    numbers = integers(list(chain.from_iterable(values)))
    return [numbers[place::3] for place in range(3)]


def exact_times(values: Sequence[Any], spelled: Callable[[], Sequence[bytes]]) -> Times:
    """Return microseconds such that nanoseconds are exact.

    MISSING for what is no number, BEYOND for what is too large. `spelled` returns the values' text; it is
    only called where doubles do not hold them exactly.
    """
    # true is 1 here, and in JSON is no number.
    if values and not isinstance(values[0], bool):
        whole = _try_array("q", values)
        if whole is not None:
            times = _try_array("q", [us * _NS_PER_US for us in whole])
            if times is not None:
                return [times]
        else:
            times = _try_array("d", values)
            if times is not None and -_EXACT_US < min(values) <= max(values) < _EXACT_US:
                return [times]
    return [array("q", map(_parse_time, spelled()))]


def first_odd_rows(*columns: Times) -> list[int]:
    """Return the rows, in order, that are the first with a time that may not be kept, for each reason."""
    reasons = []
    for times in filter(None, columns):
        values = times[0]
        longest = _LONGEST_NS if values.typecode == "q" else _LONGEST_NS // _NS_PER_US
        first, low, high = values[0], min(values), max(values)
        if low < 0 or high - low > longest:
            reasons.append([
                (v == MISSING, v == BEYOND, v < 0, v > longest, abs(v - first) > longest) for v in values
            ])  # fmt: skip
    found: dict[object, int] = {}
    for row, reason in enumerate(zip(*reasons, strict=True)):
        found.setdefault(reason, row)
    return sorted(found.values())


def _try_array(code: str, values: Sequence[Any]) -> array[Any] | None:
    # The array is of int64 ("q") or doubles ("d"); the result is None if a value has another type.
    # Packing takes half as long as filling an array value by value.
    try:
        return array(code, pack(f"{len(values)}{code}", *values))
    except (StructError, OverflowError):
        return None


def _parse_integer(value: Any) -> int:
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    elif isinstance(value, str):
        value = _number_in(value)
    return value if isinstance(value, int) and -_LIMIT < value < _LIMIT else MISSING


def _number_in(text: str) -> int | None:
    parted = part_text(text)
    return parted.number if parted else None


@lru_cache(_CACHED_TEXTS)
def part_text(text: str) -> TextId | None:
    """Return the number in a text and what is around it; None where it has none.

    Old releases wrote "stream 7" and "thread 25738 (python)", programs that merge traces of ranks write
    "[TP00] 83", "83_rank0" and the like.
    """
    match = _WHOLE.fullmatch(text) or _NAMED.search(text) or _free_number(text)
    if match is None:
        return None
    group = match.re.groups
    digits, (low, high) = match.group(group), match.span(group)
    if len(digits) > _MOST_DIGITS:
        return None
    return TextId(int(digits), (text[:low] + text[high:]).strip())


def _free_number(text: str) -> re.Match[str] | None:
    # Brackets are blanked, not cut, so that places stay.
    outside = _BRACKETS.sub(lambda match: " " * len(match.group()), text)
    for searched in (outside, text):
        alone = list(_ALONE.finditer(searched))
        free = [each for each in alone if not _BEHIND_WORD.search(searched[: each.start()])]
        if found := free or alone or list(_ANY.finditer(searched))[-1:]:
            # Numbers of processes are larger than ranks; among equal numbers the first is used.
            return max(found, key=lambda each: int(each.group()))
    return None


def _parse_time(text: bytes) -> int:
    try:
        number = Decimal(text.decode().strip('"'))
        if not number.is_finite():
            return MISSING
        # As a whole number, 1e999999999 would fill the memory.
        if number.adjusted() >= _MOST_DIGITS:
            return BEYOND
        nearest = int((number * _NS_PER_US).to_integral_value())
    except (ArithmeticError, ValueError):
        return MISSING
    return nearest if BEYOND < nearest < _LIMIT else BEYOND
