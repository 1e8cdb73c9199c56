"""What one piece of a trace holds, as workers hand it over."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray
Columns = dict[str, Array]

NAMES = frozenset({"name_id", "shapes_id", "types_id", "dtype_id", "group_id", "group_ranks_id"})
"""Columns that hold places in a list of names."""


@dataclass(frozen=True)
class Vocabulary:
    """Codes of the words that copies are described with: direction and kind of memory."""

    directions: tuple[str, ...]
    memory_kinds: tuple[str, ...]


@dataclass
class Piece:
    """What a piece of a trace holds.

    `tables`: columns by table. `names`: the texts that columns of names point to. `processes_seen`: the
    processes with rows, in order. `threads` and `process_names`: names by (pid, tid) and by pid.
    `sizes`: bytes that API calls told of their copies, by (pid, correlation). `sm_counts`: by device.
    `counts` and `first`: how many of what was noted, and at which byte first. `has_fractions`: times
    are not all whole microseconds.
    """

    tables: dict[str, Columns] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    processes_seen: list[int] = field(default_factory=list)
    threads: dict[tuple[int, ...], str] = field(default_factory=dict)
    process_names: dict[int, str] = field(default_factory=dict)
    sizes: dict[tuple[int, int], int] = field(default_factory=dict)
    sm_counts: dict[int, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    event_count: int = 0
    has_fractions: bool = False

    def note(self, what: str, count: int, place: int) -> None:
        """Counts something, and remembers the first byte where it was met."""
        if count:
            self.counts[what] += count
            self.first.setdefault(what, place)
