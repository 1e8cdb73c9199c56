"""What a query module offers, and what all of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from nsysconv.facts import Fact
from nsysconv.notes import Note
from nsysconv.report import Column, Picture, ProfileRef
from nsysconv.timeline.steps import STEP_RANGE
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

Array = np.ndarray
Data = Mapping[str, Sequence[Any] | Array]


@dataclass(frozen=True)
class Request:
    """What is asked of a query beside the time line, which is cut to a slice before the query sees it.

    `limit` (0: none) lets a query skip the work for rows that will not be shown; others may ignore it.
    `by_step`: a row per step, from those queries that can. `step_range` names the steps' annotation,
    `*` standing for anything (None: as steps are usually called). `options` has a value for each of
    the query's OPTIONS.
    """

    limit: int = 0
    idle_kinds: tuple[str, ...] = ("no_op",)
    kernel_names: str = "demangled"
    by_step: bool = False
    step_range: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def step_pattern(self) -> str:
        """What steps are called: as somebody asked for, else as usually."""
        return STEP_RANGE if self.step_range is None else self.step_range


@dataclass(frozen=True)
class Option:
    """A choice that one report has: `REPORT:NAME=VALUE`, or `REPORT:NAME` where the default is False.

    The default's type is the value's; None stands for a text that nobody gave.
    """

    name: str
    default: bool | int | float | str | None
    doc: str


@dataclass(frozen=True)
class Answer:
    """What a query says beside its rows: how many there are in all, where only the first are given
    (`row_count` None: these are all), and caveats that only computing them tells. Of `unused`, facts of
    the query's USES, nothing in this answer is made: notes on them have no place below it.
    """

    data: Data
    row_count: int | None = None
    notes: tuple[Note, ...] = ()
    unused: frozenset[Fact] = frozenset()


class Query(Protocol):
    """One report: a module with these names; and a PICTURE or ANY_OF, if there is one (see `picture_of`
    and `any_of`)."""

    TITLE: str
    """What the report shows, for people."""
    NEEDS: frozenset[Fact]
    """Facts without which there is no report."""
    USES: frozenset[Fact]
    """Further facts whose columns are null, or whose notes apply, where they are missing."""
    TOTALS: frozenset[Fact]
    """Totals that answer for the whole profile, as far as they go, where NEEDS are not recorded."""
    OPTIONS: tuple[Option, ...]
    """The choices that only this report has."""
    COLUMNS: tuple[Column, ...]
    """The columns, in order."""

    @staticmethod
    def compute(timeline: Timeline, request: Request) -> Data | Answer:
        """The columns' values by name, all of one length, in the report's order.

        Of a large profile another report may be made at the same time from the same time line.
        """


class Gathering(Protocol):
    """Takes in what the profiles of a run give to a report, one after the other."""

    def add(self, ref: ProfileRef, part: Any) -> None:
        """Takes in one profile's part."""

    def answer(self) -> Answer:
        """The values of all columns, also of `profile`. Asked for once, after the last part."""


class QueryOverRanks(Query, Protocol):
    """A report on all profiles of a run together. Its `compute` gives what one part alone makes."""

    @staticmethod
    def part(timeline: Timeline, request: Request) -> Any:
        """What one profile gives to it: small, and of a kind that can be pickled."""

    @staticmethod
    def gathering(request: Request) -> Gathering:
        """What takes the parts in."""


def alone(gathering: Gathering, timeline: Timeline, part: Any) -> Answer:
    """What the part of one profile makes by itself."""
    gathering.add(timeline.profile.ref, part)
    return gathering.answer()


def any_of(query: Query) -> frozenset[Fact]:
    """The facts of which one is enough: the module's ANY_OF, which most have not."""
    facts: frozenset[Fact] = getattr(query, "ANY_OF", frozenset())
    return facts


def picture_of(query: Query) -> Picture | None:
    """What a query's report is best drawn as: its module's PICTURE, which most have not."""
    picture: Picture | None = getattr(query, "PICTURE", None)
    return picture


PROFILE = Column("profile", Unit.TEXT, "Label of the profile.", key=True)
RANK = Column(
    "rank",
    Unit.ID,
    "Rank of the only ranked process behind the row; null: none or several.",
    key=True,
)
DEVICE = Column("device_id", Unit.ID, "The device, as the profile numbers it.", key=True)

WINDOW = (
    "The window is the slice, or the time from the device's first to its last GPU operation "
    "(migrations do not extend it)."
)


def ranks_by_group(timeline: Timeline, pids: Array, groups: Array, count: int) -> list[int | None]:
    """Per group number the rank of the only ranked process among its members' pids, else None."""
    ranks = timeline.ranks
    if not ranks or not count:
        return [None] * count
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    for pid, rank in ranks.items():
        mine = groups[pids == pid]
        low[mine] = np.minimum(low[mine], rank)
        high[mine] = np.maximum(high[mine], rank)
    return [
        int(h) if h >= 0 and h == lo else None
        for lo, h in zip(low.tolist(), high.tolist(), strict=True)
    ]
