"""What one piece of a trace holds, as workers hand it over. Nothing heavy is imported here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

MISSING = -(1 << 63)
"""No value, in a column of int64."""
BEYOND = MISSING + 1
"""A time that is a number, and more than an int64 holds."""

OPERATOR, PYTHON_FUNCTION = 0, 1
"""Kinds of rows of the table of operators."""

ACCELERATOR = "accelerator "
"""How the counts of an accelerator's events begin; what such events are called follows."""

FURTHER_ARRAY = "further array"
"""How arrays of events are counted that follow another in its object."""

CELL_BYTES = 8
"""How long a packed cell is."""

NAMES = frozenset({"name_id", "shapes_id", "types_id", "dtype_id", "group_id", "group_ranks_id"})
"""Columns that hold places in a list of names."""


class TimeUnit(Enum):
    """How times are packed: nanoseconds and whole microseconds as int64, microseconds as double."""

    NS = "ns"
    WHOLE_US = "whole us"
    US = "us"


Times = list[tuple[TimeUnit, bytes]]
"""A column of times in several parts, each as it was spelled."""


@dataclass
class Cells:
    """`count` rows of one table as their events tell them.

    `columns`: packed int64, null as MISSING, and a single one where all rows have the same; those of
    NAMES hold places in the piece's names. `dur` is empty for rows that last no time. `begins`: how
    many rows stood before each batch of events, and at which byte of the trace that batch begins.
    """

    count: int
    start: Times
    dur: Times
    columns: dict[str, bytes]
    begins: list[tuple[int, int]]


@dataclass
class Piece:
    """What a piece of a trace holds.

    `tables`: rows by table. `names`: the texts that columns of names point to. `processes_seen`: the
    processes with rows, in the order in which they came first. `last_process`: the one that came last;
    rows of a GPU that begin the next piece are its. `threads` and `process_names`: names by (pid, tid)
    and by pid. `ranks`: by pid. `sizes`: bytes that API calls told of their copies, by
    (pid, correlation). `sm_counts`: by device. `left_out_starts`: when events began that are rows on
    request only. `counts` and `first`: how many of what was noted, and at which byte first.
    `has_fractions`: times are not all whole microseconds.
    """

    tables: dict[str, Cells] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    processes_seen: list[int] = field(default_factory=list)
    last_process: int = MISSING
    threads: dict[tuple[int, ...], str] = field(default_factory=dict)
    process_names: dict[int, str] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    sizes: dict[tuple[int, int], int] = field(default_factory=dict)
    sm_counts: dict[int, int] = field(default_factory=dict)
    left_out_starts: Times = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)
    event_count: int = 0
    has_fractions: bool = False

    def note(self, what: str, count: int, place: int) -> None:
        """Counts something, and remembers the first byte where it was met."""
        if count:
            self.counts[what] += count
            self.first[what] = min(place, self.first.get(what, place))
