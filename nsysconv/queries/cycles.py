"""Cycles: recordings that one process left one after the other, as a schedule of a profiler repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.report import Column, ProfileRef, Unit

_RANKS = frozenset({Fact.RANKS})
_ADDED = (Unit.NS, Unit.COUNT, Unit.BYTES)


@dataclass(frozen=True)
class Session:
    """Whose recording a profile is, and when: its processes (host, rank, pid), and when its first and its
    last event began (ns since 1970).
    """

    processes: frozenset[tuple[str | None, int | None, int]]
    start: int
    end: int

    @property
    def hosts(self) -> frozenset[str | None]:
        """Return where its processes ran."""
        return frozenset(host for host, _, _ in self.processes)


@dataclass(frozen=True)
class Member(ProfileRef):
    """A profile of a run; `session`: None where nothing says whose recording it is, or when it was."""

    session: Session | None = None

    @property
    def processes(self) -> frozenset[Any]:
        """Return the processes of its session; none where these are not known."""
        return self.session.processes if self.session else frozenset()


@dataclass(frozen=True)
class Cycles:
    """By label of a profile: which cycle of its run it is of, from 0, and its process's first profile."""

    numbers: Mapping[str, int]
    first: Mapping[str, str]

    def count(self, label: str) -> int:
        """Return how many profiles the process has whose first this is."""
        return sum(first == label for first in self.first.values())

    def by_process(
        self, rows: Iterable[Mapping[str, Any]], *keys: str
    ) -> list[list[dict[str, Any]]]:
        """Return rows by process and `keys`, with the label of its first cycle as their `profile`."""
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in rows:
            first = self.first[row["profile"]]
            key = (first, *(row.get(name) for name in keys))
            groups.setdefault(key, []).append({**row, "profile": first})
        return [*groups.values()]

    def notes(self) -> list[Note]:
        """Return a note on the processes with several cycles, or none."""
        counts = [n for label in dict.fromkeys(self.first.values()) if (n := self.count(label)) > 1]
        if not counts:
            return []
        each = "-".join(f"{count:,}" for count in dict.fromkeys((min(counts), max(counts))))
        text = f"processes recorded in {each} consecutive cycles each: each process is one rank"
        return [Note("rank-cycles", Severity.INFO, text, len(counts), facts=_RANKS)]


def are_ranks(profiles: Sequence[ProfileRef], found: Iterable[tuple[str, int | None]]) -> bool:
    """Return whether all have a rank, and each rank is of one process, whatever cycles that has.

    `found` are labels of these profiles with the rank that each recorded.
    """
    first = cycles_of(profiles).first
    who = {(first[label], rank) for label, rank in found}
    ranks = {rank for _, rank in who}
    return None not in ranks and len(ranks) == len(who)


def cycles_of(profiles: Sequence[ProfileRef]) -> Cycles:
    """Return the cycles of a run's profiles: all are of the first where no process has several."""
    first = {ref.label: ref.label for ref in profiles}
    numbers = dict.fromkeys(first, 0)
    of_process: dict[frozenset[Any], list[tuple[Session, str]]] = {}
    for ref in profiles:
        if isinstance(ref, Member) and ref.session is not None:
            of_process.setdefault(ref.session.processes, []).append((ref.session, ref.label))
    for sessions in of_process.values():
        sessions.sort(key=lambda each: (each[0].start, each[1]))
        if all(one.end < other.start for (one, _), (other, _) in pairwise(sessions)):
            first |= {label: sessions[0][1] for _, label in sessions}
    if len(set(first.values())) == len(first):
        return Cycles(numbers, first)
    cycles = _together(sorted(of_process.values(), key=lambda each: each[0][0].start))
    hosts = {session.hosts for each in of_process.values() for session, _ in each}
    counts = {len(each) for each in of_process.values()}
    if len(hosts) > len(counts) == 1 and all(
        len({session.hosts for session, _ in cycle}) == 1 for cycle in cycles
    ):
        # Clocks of hosts are too far apart to say which cycles were at one time: their order does.
        cycles = [list(cycle) for cycle in zip(*of_process.values(), strict=True)]
    for number, cycle in enumerate(cycles):
        numbers |= {label: number for _, label in cycle}
    return Cycles(numbers, first)


def _together(of_process: list[list[tuple[Session, str]]]) -> list[list[tuple[Session, str]]]:
    # Cycles in the order of time: each process's next is of the one that it shares most time with.
    cycles: list[list[tuple[Session, str]]] = []
    for each in sorted((each for own in of_process for each in own), key=lambda one: one[0].start):
        session = each[0]

        def shared(cycle: list[tuple[Session, str]], session: Session = session) -> int:
            if any(other.processes == session.processes for other, _ in cycle):
                return -1
            end = max(other.end for other, _ in cycle)
            return min(session.end, end) - session.start

        best = max(cycles, key=shared, default=None)
        if best is None or shared(best) < 0:
            cycles.append([each])
        else:
            best.append(each)
    return cycles


def added_up(rows: Sequence[dict[str, Any]], columns: Iterable[Column]) -> dict[str, Any]:
    """Return the rows of one process's cycles as one: times, counts and bytes added, else the first's."""
    whole = dict(rows[0])
    for column in columns:
        values = [value for row in rows if (value := row.get(column.name)) is not None]
        if column.unit in _ADDED and values and len(rows) > 1:
            whole[column.name] = sum(values)
    return whole
