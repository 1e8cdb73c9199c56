"""Who is there of a run: its ranks, those that are missing or there twice, its hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.store.read import Store

_SHOWN = 10

Member = tuple[str, Sequence[Mapping[str, Any]]]
"""A profile: its label and the rows of its processes."""


@dataclass(frozen=True)
class Census:
    """The ranks of a run's profiles. `ranks`: rank -> labels of the profiles that hold it."""

    profiles: tuple[str, ...]
    ranks: Mapping[int, tuple[str, ...]]
    unranked: tuple[str, ...]
    hosts: tuple[str, ...]
    jobs: tuple[str, ...]
    world_sizes: tuple[int, ...]

    @property
    def world_size(self) -> int:
        """How many ranks there were, as far as they tell; at least those that are there."""
        return max((*self.world_sizes, *(rank + 1 for rank in self.ranks)), default=0)

    @property
    def missing_count(self) -> int:
        """How many ranks of the run left no profile here."""
        return self.world_size - len(self.ranks) if self.ranks else 0

    @property
    def clashing(self) -> tuple[int, ...]:
        """The ranks that several profiles hold."""
        return tuple(rank for rank, labels in sorted(self.ranks.items()) if len(labels) > 1)

    def missing(self) -> list[tuple[int, int]]:
        """The ranks that are not there, from first to last of each hole."""
        if not self.ranks:
            return []
        edges = [-1, *sorted(self.ranks), self.world_size]
        return [(low + 1, high - 1) for low, high in pairwise(edges) if high - low > 1]

    def notes(self) -> list[Note]:
        """What a reader of a table over these ranks has to know."""
        if not self.ranks:
            return []
        found = []
        if self.missing_count:
            text = f"of {self.world_size:,} ranks {len(self.ranks):,} are there; missing: "
            text += spans(self.missing())
            found.append(_note("ranks-missing", text, self.missing_count))
        if self.clashing:
            text = "several profiles hold the same rank: " + spans(in_rows(self.clashing))
            found.append(_note("rank-repeated", text, len(self.clashing)))
        if self.unranked:
            text = f"profiles without a rank in a run of ranks, the first {self.unranked[0]}"
            found.append(_note("rank-unknown", text, len(self.unranked)))
        if len(self.world_sizes) > 1:
            text = f"the ranks tell different numbers of ranks: {_listed(self.world_sizes)}"
            found.append(_note("world-sizes-differ", text))
        if len(self.jobs) > 1:
            found.append(
                _note("jobs-differ", f"the ranks are of several jobs: {_listed(self.jobs)}")
            )
        return found


def census(members: Iterable[Member]) -> Census:
    """Counts what the processes of a run's profiles tell."""
    profiles, unranked = [], []
    ranks: dict[int, list[str]] = {}
    hosts: set[str] = set()
    jobs: set[str] = set()
    world_sizes: set[int] = set()
    for label, processes in members:
        profiles.append(label)
        own = {int(row["rank"]) for row in processes if row["rank"] is not None}
        if not own:
            unranked.append(label)
        for rank in own:
            ranks.setdefault(rank, []).append(label)
        hosts |= {row["host"] for row in processes if row["host"]}
        jobs |= {row["job"] for row in processes if row["job"]}
        world_sizes |= {int(row["world_size"]) for row in processes if row["world_size"]}
    return Census(
        tuple(profiles),
        {rank: tuple(labels) for rank, labels in sorted(ranks.items())},
        tuple(unranked),
        tuple(sorted(hosts)),
        tuple(sorted(jobs)),
        tuple(sorted(world_sizes)),
    )


def censuses(store: Store) -> dict[int, Census]:
    """The census of every run of a store, by `run.id`."""
    runs: dict[int, list[Member]] = {}
    for run_id, member in _members(store).values():
        runs.setdefault(run_id, []).append(member)
    return {run_id: census(members) for run_id, members in runs.items()}


def censuses_of_profiles(store: Store) -> dict[int, Census]:
    """What each profile's processes tell, by `profile.id`."""
    return {number: census([member]) for number, (_, member) in _members(store).items()}


def _members(store: Store) -> dict[int, tuple[int, Member]]:
    """The run and the processes of every profile, by `profile.id`."""
    profile, process = schema.profile, schema.process
    columns = (process.c.rank, process.c.host, process.c.job, process.c.world_size)
    rows = store.rows(
        sa.select(profile.c.id, profile.c.run_id, profile.c.label, *columns)
        .outerjoin_from(profile, process, process.c.profile_id == profile.c.id)
        .order_by(profile.c.id)
    )
    found: dict[int, tuple[int, tuple[str, list[Mapping[str, Any]]]]] = {}
    for row in rows:
        fresh = int(row["run_id"]), (str(row["label"]), list[Mapping[str, Any]]())
        found.setdefault(int(row["id"]), fresh)[1][1].append(row)
    return dict(found)


def in_rows(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as first and last of each row of them without a gap."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def spans(parts: Iterable[tuple[int, int]]) -> str:
    """Numbers in words: `0, 3-7 and 12 more`; the first few."""
    every = list(parts)
    words = [str(low) if low == high else f"{low}-{high}" for low, high in every[:_SHOWN]]
    rest = sum(high - low + 1 for low, high in every[_SHOWN:])
    return ", ".join(words) + (f" and {rest:,} more" if rest else "")


def _listed(values: Sequence[object]) -> str:
    rest = len(values) - _SHOWN
    return ", ".join(map(str, values[:_SHOWN])) + (f" and {rest:,} more" if rest > 0 else "")


def _note(slug: str, text: str, count: int = 1) -> Note:
    return Note(slug, Severity.INFO, text, count, facts=frozenset({Fact.RANKS}))
