"""Rows of traces: cells as columns, and what is left out or rounded on the way to ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nsysconv import codes, schema
from nsysconv.report import MISSING

Array = np.ndarray
Columns = dict[str, Array]

_UNKNOWN_MEMORY = codes.MEMORY_KINDS.index("Unknown")
# More than a double tells apart from its neighbours, times what two spellings of one size may differ by.
SLACK = 1e-12


@dataclass(frozen=True)
class EncodedTexts:
    """A column of texts: per row the place of its own in `known`, -1 for none."""

    place: Array
    known: Sequence[str]


def encode_texts(values: Iterable[str | None]) -> EncodedTexts:
    """A column of texts, given row by row; None: none."""
    known: dict[str, int] = {}
    place = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
    return EncodedTexts(np.array(place, np.int64), list(known))


def map_texts(texts: EncodedTexts | None, rows: Array, number: Callable[[str], int]) -> Array:
    """What a function makes of the texts of these rows, MISSING of none; `texts` None: no such column.

    It is asked of each text once, and of unused ones never.
    """
    if texts is None:
        return np.full(len(rows), MISSING)
    place = texts.place[rows]
    result = np.full(len(texts.known) + 1, MISSING)  # the last is no text
    for each in used_codes(place, len(texts.known)):
        result[each] = number(texts.known[each])
    found: Array = result[place]
    return found


def used_codes(place: Array, count: int) -> list[int]:
    """Which places occur, in order; -1 is none."""
    occurs = np.zeros(count + 1, bool)
    occurs[place] = True
    found: list[int] = np.flatnonzero(occurs[:-1]).tolist()
    return found


def rounded(values: Array) -> Array:
    """The nearest integers; MISSING for NaN."""
    told = ~np.isnan(values)
    return np.where(told, np.rint(np.where(told, values, 0)).astype(np.int64), MISSING)


@dataclass
class TraceTally:
    """What was left out, guessed or rounded in the rows of one recording's traces.

    `counts` are rows by what is wrong with them. `time_step`, `bytes_step`: how far apart the values are
    that are spelled differently, in ns and bytes, at the worst; `time_rows`: rows with a time;
    `rounded`: copies whose bytes are not known to the byte.
    """

    counts: Counter[str] = field(default_factory=Counter)
    time_step: float = 0.0
    bytes_step: float = 0.0
    time_rows: int = 0
    rounded: int = 0

    def times(self, start: Array, dur: Array, event: Array) -> tuple[Columns, Array]:
        """The columns of times, and which rows can be placed in time.

        `start` and `dur` are in ns, NaN for none; `event` tells the rows that will be read.
        """
        start, dur = np.rint(start), np.rint(dur)
        unplaced = event & (np.isnan(start) | np.isnan(dur))
        far = event & ((np.abs(start) > schema.TIME_LIMIT_NS) | (dur > schema.TIME_LIMIT_NS))
        negative = event & (dur < 0)
        self.counts["no time"] += int(np.count_nonzero(unplaced))
        self.counts["impossible time"] += int(np.count_nonzero(far))
        self.counts["negative duration"] += int(np.count_nonzero(negative))
        kept = ~(unplaced | far | negative)
        self.time_rows += int(np.count_nonzero(event & kept))
        with np.errstate(invalid="ignore"):
            columns = {"start_ns": start.astype(np.int64), "dur_ns": dur.astype(np.int64)}
        # A start and a duration of 0 are no time.
        timeless = (columns["start_ns"] == 0) & (columns["dur_ns"] == 0)
        return {name: np.where(timeless, MISSING, v) for name, v in columns.items()}, kept

    def bytes(self, size: Array, low: Array, high: Array) -> Array:
        """Bytes that lie between two bounds: the integer in the middle, of what is spelled `size`."""
        slack = np.abs(size) * SLACK + SLACK
        first, last = np.ceil(low - slack), np.floor(high + slack)
        inexact = (last > first) & ~np.isnan(size)
        if inexact.any():
            self.rounded += int(np.count_nonzero(inexact))
            self.bytes_step = max(self.bytes_step, float((high - low)[inexact].max()))
        middle = np.where(first <= last, np.floor((first + last) / 2), (low + high) / 2)
        return rounded(np.maximum(middle, 0))

    def memory_kind(self, text: str) -> int:
        """The code of codes.MEMORY_KINDS for a word."""
        if text not in codes.MEMORY_KINDS:
            self.counts["unknown memory"] += 1
            return _UNKNOWN_MEMORY
        return codes.MEMORY_KINDS.index(text)
