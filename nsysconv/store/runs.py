"""Runs: which one a profile belongs to, and which ranks of it are there.

The profiles of one execution are brought together here, in whatever order they are imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.store.connection import Connection
from nsysconv.store.read import Store

RANK_REPEATED = "rank-repeated"
"""The slug of the note that a profile's run holds another recording of its rank."""


_OF_PROCESS = ("rank", "world_size", "host")


@dataclass(frozen=True)
class RunMembership:
    """The run of a profile as the import gives it, beside the ranks and the job of its processes.

    `name` is the run that the user named. `together` is what the profiles of one folder, or of one list
    of files, have in common, and `label` what a run of them is called. `unit` is what the profiles of a
    run in another store have in common, and `ranks` are the ranks of all of these.
    """

    name: str | None = None
    together: str | None = None
    label: str | None = None
    unit: str | None = None
    ranks: frozenset[int] = frozenset()


@dataclass(frozen=True)
class RankInfo:
    """The importers and the processes' ranks of a profile, or of a run's profiles."""

    sources: frozenset[str]
    ranks: frozenset[int] = frozenset()
    world_sizes: frozenset[int] = frozenset()
    job: str | None = None
    """The job of all processes; None where they know of none, or of several."""
    hosts: frozenset[str] = frozenset()
    """Where its ranked processes ran, as far as they say."""

    def may_join(self, run: RankInfo) -> bool:
        """Return whether a profile with this information can be of the execution `run`."""
        one_size = (
            not run.world_sizes or not self.world_sizes or run.world_sizes == self.world_sizes
        )
        # Without a job, only common sources show that the profiles belong together.
        alike = run.job == self.job and (self.job is not None or run.sources == self.sources)
        return bool(run.ranks) and not run.ranks & self.ranks and one_size and alike


@dataclass(frozen=True)
class RunAssignment:
    """A profile's place in a run: that of `run_id`, or None: a new one, of that `job`.

    `label` is what the run is called once it holds several profiles, and before if it is `named`; until
    then it has the profile's own label. `note` reports a recording of the same rank in another run.
    """

    run_id: int | None
    job: str | None = None
    label: str | None = None
    named: bool = False
    note: Note | None = None


class Runs:
    """The runs of a store that is being written to, and those that this import has met."""

    def __init__(self, connection: Connection) -> None:
        """Look up and remember runs through this connection."""
        self._connection = connection
        self._met: dict[str, list[int]] = {}
        self._meeting: list[tuple[str, int]] = []

    def place(
        self,
        member: RankInfo,
        belonging: RunMembership | None,
        home: int | None = None,
        recorded: tuple[int, int | None] | None = None,
    ) -> RunAssignment:
        """Return a profile's run, one of its own without membership; `home`: a replaced one's.

        `recorded` are the id under which the profile's events are there, and its zero's time of day: of
        several runs that it could be of, it is of the one that began when it did.
        """
        job = member.job
        if belonging is None:
            return RunAssignment(None, job)
        if belonging.name is not None:
            return RunAssignment(self._named(belonging.name), job, belonging.name, named=True)
        if belonging.unit is not None and (known := self._known(belonging.unit)):
            return RunAssignment(known[-1], job)
        member = replace(member, ranks=member.ranks | belonging.ranks)
        if home is not None and not self._run(home).ranks & member.ranks:
            return RunAssignment(home, job)
        own = belonging.unit is not None
        label = belonging.label if job is None or own else job.replace(" ", "-")
        candidates: list[int] = []
        if member.ranks and job is not None:
            candidates = self._of_job(job)
        elif member.ranks and belonging.together is not None:
            candidates = self._known(belonging.together)
        runs = {run_id: self._run(run_id) for run_id in candidates}
        fitting = [run_id for run_id, run in runs.items() if member.may_join(run)]
        if len(runs) > 1 and fitting and recorded is not None:
            fitting = self._at_the_time(fitting, runs, member, *recorded)
        if fitting:
            return RunAssignment(fitting[0], job, label)
        taken = ((run_id, run.ranks & member.ranks) for run_id, run in runs.items())
        note = next((_repeated(each, self._label(run_id)) for run_id, each in taken if each), None)
        return RunAssignment(None, job, label, own, note)

    def _at_the_time(
        self,
        fitting: list[int],
        runs: Mapping[int, RankInfo],
        member: RankInfo,
        profile_id: int,
        zero: int | None,
    ) -> list[int]:
        # Several runs of the same ranks are cycles, or starts of the program: the one that began when
        # this profile did. If none did by the same clock, it is of none; by others nobody knows.
        begin = self._begin(profile_id, zero)
        ranked = [run_id for run_id, run in runs.items() if run.ranks]
        begins = {run_id: known for run_id in ranked if (known := self._begin_of_run(run_id))}
        if begin is None or not 1 < len(begins) == len(ranked):
            return fitting
        apart = min(other - one for one, other in pairwise(sorted(begins.values())))
        nearest = min(fitting, key=lambda run_id: abs(begins[run_id] - begin))
        if 2 * abs(begins[nearest] - begin) <= apart:
            return [nearest]
        return [run_id for run_id in fitting if not runs[run_id].hosts & member.hosts]

    def _begin_of_run(self, run_id: int) -> int | None:
        profile = schema.profile.c
        of_run = sa.select(profile.id, profile.zero_utc_ns).where(profile.run_id == run_id)
        first, *_ = self._connection.rows(of_run.order_by(profile.id).limit(1))
        return self._begin(first["id"], first["zero_utc_ns"])

    def _begin(self, profile_id: int, zero: int | None) -> int | None:
        # The result is roughly the time of day of the first event: that of the first row of a table.
        for table in (schema.api_call, schema.kernel):
            own = schema.extent.c.profile_id == profile_id, schema.extent.c.table_name == table.name
            first = self._connection.value(sa.select(schema.extent.c.first_id).where(*own))
            row = table.c.profile_id == profile_id, table.c.id == first
            start = first and self._connection.value(sa.select(table.c.start_ns).where(*row))
            if start is not None and zero is not None:
                return int(zero + start)
        return None

    def meet(self, run_id: int, belonging: RunMembership | None) -> None:
        """Remember that a profile of this import is of a run; pending until `keep` or `forget`."""
        if belonging is None:
            return
        for key in (belonging.together, belonging.unit):
            if key is not None:
                self._meeting.append((key, run_id))

    def keep(self) -> None:
        """Mark pending runs as committed."""
        for key, run_id in self._meeting:
            runs = self._met.setdefault(key, [])
            if run_id not in runs:
                runs.append(run_id)
        self._meeting.clear()

    def _known(self, key: str) -> list[int]:
        every = [*self._met.get(key, ()), *(run for met, run in self._meeting if met == key)]
        return list(dict.fromkeys(every))

    def forget(self) -> None:
        """Drop pending runs: what was written since the last commit is not in the store."""
        self._meeting.clear()

    def _named(self, name: str) -> int | None:
        run = schema.run
        run_id: int | None = self._connection.value(sa.select(run.c.id).where(run.c.label == name))
        return run_id

    def _label(self, run_id: int) -> str:
        run = schema.run
        return str(self._connection.value(sa.select(run.c.label).where(run.c.id == run_id)))

    def _of_job(self, job: str) -> list[int]:
        run = schema.run
        rows = self._connection.rows(sa.select(run.c.id).where(run.c.job == job).order_by(run.c.id))
        return [row["id"] for row in rows]

    def _run(self, run_id: int) -> RankInfo:
        profile, process, run = schema.profile, schema.process, schema.run
        rows = self._connection.rows(
            sa.select(run.c.job, profile.c.source, *map(process.c.get, _OF_PROCESS))
            .select_from(run)
            .join(profile, profile.c.run_id == run.c.id)
            .join(process, process.c.profile_id == profile.c.id)
            .where(run.c.id == run_id, process.c.rank.is_not(None))
            .distinct()
        )
        return RankInfo(
            frozenset(row["source"] for row in rows),
            _numbers(row["rank"] for row in rows),
            _numbers(row["world_size"] for row in rows),
            next((row["job"] for row in rows if row["job"] is not None), None),
            frozenset(row["host"] for row in rows if row["host"]),
        )


def collect_rank_info(source: str, processes: Iterable[Mapping[str, Any]]) -> RankInfo:
    """Return what the processes of a profile say of its ranks and job."""
    rows = list(processes)
    jobs = {row["job"] for row in rows if row.get("job")}
    return RankInfo(
        frozenset({source}),
        _numbers(row.get("rank") for row in rows),
        _numbers(row.get("world_size") for row in rows),
        jobs.pop() if len(jobs) == 1 else None,
        frozenset(row["host"] for row in rows if row.get("host") and row.get("rank") is not None),
    )


def _numbers(values: Iterable[int | None]) -> frozenset[int]:
    return frozenset(value for value in values if value is not None)


def _repeated(ranks: frozenset[int], label: str) -> Note:
    shown = ", ".join(map(str, sorted(ranks)[:5]))
    return Note(
        RANK_REPEATED,
        Severity.INFO,
        f"the run {label} has another recording of rank {shown}: this one belongs to another run",
        facts=frozenset({Fact.RANKS}),
    )


_SHOWN = 10

ProfileProcesses = tuple[str, Sequence[Mapping[str, Any]]]
"""A profile: its label and the rows of its processes."""


@dataclass(frozen=True)
class RankCoverage:
    """The ranks of a run's profiles. `ranks`: rank -> labels of the profiles that hold it."""

    profiles: tuple[str, ...]
    ranks: Mapping[int, tuple[str, ...]]
    unranked: tuple[str, ...]
    hosts: tuple[str, ...]
    jobs: tuple[str, ...]
    world_sizes: tuple[int, ...]

    @property
    def world_size(self) -> int:
        """Return the number of ranks that the run had: what the ranks say, at least those there."""
        return max((*self.world_sizes, *(rank + 1 for rank in self.ranks)), default=0)

    @property
    def missing_count(self) -> int:
        """Return the number of ranks of the run without a profile here."""
        return self.world_size - len(self.ranks) if self.ranks else 0

    @property
    def clashing(self) -> tuple[int, ...]:
        """Return the ranks that several profiles hold."""
        return tuple(rank for rank, labels in sorted(self.ranks.items()) if len(labels) > 1)

    def missing(self) -> list[tuple[int, int]]:
        """Return the missing ranks, as first and last of each gap."""
        if not self.ranks:
            return []
        edges = [-1, *sorted(self.ranks), self.world_size]
        return [(low + 1, high - 1) for low, high in pairwise(edges) if high - low > 1]

    def notes(self) -> list[Note]:
        """Return the notes that belong under a table over these ranks."""
        if not self.ranks:
            return []
        notes = []
        if self.missing_count:
            text = f"{len(self.ranks):,} of {self.world_size:,} ranks are there; missing: "
            text += ranges_as_text(self.missing())
            notes.append(_note("ranks-missing", text, self.missing_count))
        if self.clashing:
            text = "several profiles have the same rank: " + ranges_as_text(
                contiguous_ranges(self.clashing)
            )
            notes.append(_note("rank-repeated", text, len(self.clashing)))
        if self.unranked:
            text = f"profiles without a rank in a multi-rank run, the first {self.unranked[0]}"
            notes.append(_note("rank-unknown", text, len(self.unranked)))
        if len(self.world_sizes) > 1:
            text = f"the ranks record different numbers of ranks: {_listed(self.world_sizes)}"
            notes.append(_note("world-sizes-differ", text))
        if len(self.jobs) > 1:
            notes.append(
                _note("jobs-differ", f"the ranks come from several jobs: {_listed(self.jobs)}")
            )
        return notes


def rank_coverage(members: Iterable[ProfileProcesses]) -> RankCoverage:
    """Count the ranks, hosts, jobs and world sizes that the processes of some profiles name."""
    members = list(members)
    ranks: dict[int, list[str]] = {}
    unranked = []
    for label, processes in members:
        own = {row["rank"] for row in processes if row["rank"] is not None}
        for rank in own:
            ranks.setdefault(rank, []).append(label)
        if not own:
            unranked.append(label)
    rows = [row for _, processes in members for row in processes]
    hosts, jobs, world_sizes = (
        tuple(sorted({row[column] for row in rows if row[column]}))
        for column in ("host", "job", "world_size")
    )
    return RankCoverage(
        tuple(label for label, _ in members),
        {rank: tuple(labels) for rank, labels in sorted(ranks.items())},
        tuple(unranked),
        hosts,
        jobs,
        world_sizes,
    )


def coverage_by_run(store: Store) -> dict[int, RankCoverage]:
    """Return the rank coverage of every run of a store, by `run.id`."""
    runs: dict[int, list[ProfileProcesses]] = {}
    for run_id, member in _members(store).values():
        runs.setdefault(run_id, []).append(member)
    return {run_id: rank_coverage(members) for run_id, members in runs.items()}


def coverage_by_profile(store: Store) -> dict[int, RankCoverage]:
    """Return the rank coverage of every single profile, by `profile.id`."""
    return {number: rank_coverage([member]) for number, (_, member) in _members(store).items()}


def _members(store: Store) -> dict[int, tuple[int, ProfileProcesses]]:
    profile, process = schema.profile, schema.process
    columns = (process.c.rank, process.c.host, process.c.job, process.c.world_size)
    rows = store.rows(
        sa.select(profile.c.id, profile.c.run_id, profile.c.label, *columns)
        .outerjoin_from(profile, process, process.c.profile_id == profile.c.id)
        .order_by(profile.c.id)
    )
    members: dict[int, tuple[int, ProfileProcesses]] = {}
    for profile_id, group in groupby(rows, itemgetter("id")):
        own = list(group)
        members[profile_id] = own[0]["run_id"], (own[0]["label"], own)
    return members


def contiguous_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers as first and last of each sequence of them without a gap."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


def ranges_as_text(parts: Iterable[tuple[int, int]]) -> str:
    """Return ranges of numbers as text, the first few: `0, 3-7 and 12 more`."""
    ranges = list(parts)
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in ranges[:_SHOWN]]
    rest = sum(high - low + 1 for low, high in ranges[_SHOWN:])
    return ", ".join(texts) + (f" and {rest:,} more" if rest else "")


def _listed(values: Sequence[object]) -> str:
    rest = len(values) - _SHOWN
    return ", ".join(map(str, values[:_SHOWN])) + (f" and {rest:,} more" if rest > 0 else "")


def _note(slug: str, text: str, count: int = 1) -> Note:
    return Note(slug, Severity.INFO, text, count, facts=frozenset({Fact.RANKS}))


def tagged_profiles(store: Store, key: str, value: str) -> set[int]:
    """Return the ids of the profiles that have this tag."""
    tag = schema.profile_tag.c
    chosen = sa.select(tag.profile_id).where(tag.key == key, tag.value == value)
    return {row["profile_id"] for row in store.rows(chosen)}


def profiles_of_rank(store: Store, rank: str) -> set[int]:
    """Return the ids of the profiles that have a process of this rank, given as text."""
    process = schema.process.c
    ranks = store.rows(sa.select(process.profile_id, process.rank).where(process.rank.is_not(None)))
    return {row["profile_id"] for row in ranks if str(row["rank"]) == rank}
