"""Which run a profile is of: the profiles of one execution find each other here, whenever they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.store.connection import Connection

RANK_REPEATED = "rank-repeated"
"""The slug of the note that a profile's run holds another recording of its rank."""


@dataclass(frozen=True)
class Belonging:
    """What an import says of a profile's run, beside the ranks and the job of its processes.

    `name` is the run that the user names. `together` is what the profiles of one folder, or of one list
    of files, have in common, and `label` what a run of them is called. `unit` is what the profiles of a
    run in another store have in common, and `ranks` are the ranks of all of these.
    """

    name: str | None = None
    together: str | None = None
    label: str | None = None
    unit: str | None = None
    ranks: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Member:
    """What a profile, or a run's profiles, tell: the importer, and what the processes know."""

    sources: frozenset[str]
    ranks: frozenset[int] = frozenset()
    world_sizes: frozenset[int] = frozenset()
    job: str | None = None
    """The job of all processes; None where they know of none, or of several."""

    def may_join(self, run: Member) -> bool:
        """Whether it can be of one execution with those in a run."""
        one_size = (
            not run.world_sizes or not self.world_sizes or run.world_sizes == self.world_sizes
        )
        # Without a job only being there together speaks for it.
        alike = run.job == self.job and (self.job is not None or run.sources == self.sources)
        return bool(run.ranks) and not run.ranks & self.ranks and one_size and alike


@dataclass(frozen=True)
class Place:
    """A profile's place in a run: that of `run_id`, or None: a new one, of that `job`.

    `label` is what the run is called once it holds several profiles, and before if it is `named`; until
    then it has the profile's own label. `note` tells of a recording of the same rank in another run.
    """

    run_id: int | None
    job: str | None = None
    label: str | None = None
    named: bool = False
    note: Note | None = None


class Runs:
    """The runs of a store that is being written to, and those that this import has met."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._met: dict[str, list[int]] = {}
        self._meeting: list[tuple[str, int]] = []

    def place(self, member: Member, belonging: Belonging | None, home: int | None = None) -> Place:
        """Where a profile belongs; `home` is the run of what it replaces.

        Without a `belonging` it is alone.
        """
        job = member.job
        if belonging is None:
            return Place(None, job)
        if belonging.name is not None:
            return Place(self._named(belonging.name), job, belonging.name, named=True)
        if belonging.unit is not None and belonging.unit in self._met:
            return Place(self._met[belonging.unit][-1], job)
        member = replace(member, ranks=member.ranks | belonging.ranks)
        if home is not None and not self._run(home).ranks & member.ranks:
            return Place(home, job)
        own = belonging.unit is not None
        label = belonging.label if job is None or own else job.replace(" ", "-")
        there: list[int] = []
        if member.ranks and job is not None:
            there = self._of_job(job)
        elif member.ranks and belonging.together is not None:
            there = self._known(belonging.together)
        note = None
        for run_id in there:
            run = self._run(run_id)
            if member.may_join(run):
                return Place(run_id, job, label)
            taken = run.ranks & member.ranks
            if taken and note is None:
                note = _repeated(taken, self._label(run_id))
        return Place(None, job, label, own, note)

    def meet(self, run_id: int, belonging: Belonging | None) -> None:
        """A profile of this import is of that run. Undone by `forget` unless `keep` is called before."""
        if belonging is None:
            return
        for key in (belonging.together, belonging.unit):
            if key is not None:
                self._meeting.append((key, run_id))

    def keep(self) -> None:
        """What was met stands in the store now."""
        for key, run_id in self._meeting:
            known = self._met.setdefault(key, [])
            if run_id not in known:
                known.append(run_id)
        self._meeting.clear()

    def _known(self, key: str) -> list[int]:
        """The runs that were met under a key; those of the same file, too, which is still written."""
        every = [*self._met.get(key, ()), *(run for met, run in self._meeting if met == key)]
        return list(dict.fromkeys(every))

    def forget(self) -> None:
        """What was met since the last time is not in the store."""
        self._meeting.clear()

    def _named(self, name: str) -> int | None:
        run = schema.run
        found = self._connection.value(sa.select(run.c.id).where(run.c.label == name))
        return None if found is None else int(str(found))

    def _label(self, run_id: int) -> str:
        run = schema.run
        return str(self._connection.value(sa.select(run.c.label).where(run.c.id == run_id)))

    def _of_job(self, job: str) -> list[int]:
        run = schema.run
        rows = self._connection.rows(sa.select(run.c.id).where(run.c.job == job).order_by(run.c.id))
        return [int(str(row["id"])) for row in rows]

    def _run(self, run_id: int) -> Member:
        """What the profiles of a run tell."""
        profile, process, run = schema.profile, schema.process, schema.run
        rows = self._connection.rows(
            sa.select(run.c.job, profile.c.source, process.c.rank, process.c.world_size)
            .select_from(run)
            .join(profile, profile.c.run_id == run.c.id)
            .join(process, process.c.profile_id == profile.c.id)
            .where(run.c.id == run_id, process.c.rank.is_not(None))
            .distinct()
        )
        return Member(
            frozenset(str(row["source"]) for row in rows),
            _numbers(row["rank"] for row in rows),
            _numbers(row["world_size"] for row in rows),
            next((str(row["job"]) for row in rows if row["job"] is not None), None),
        )


def member(source: str, processes: Iterable[Mapping[str, object]]) -> Member:
    """What the processes of a profile tell."""
    rows = list(processes)
    jobs = {str(row["job"]) for row in rows if row.get("job")}
    return Member(
        frozenset({source}),
        _numbers(row.get("rank") for row in rows),
        _numbers(row.get("world_size") for row in rows),
        jobs.pop() if len(jobs) == 1 else None,
    )


def _numbers(values: Iterable[object]) -> frozenset[int]:
    return frozenset(int(str(value)) for value in values if value is not None)


def _repeated(ranks: frozenset[int], label: str) -> Note:
    shown = ", ".join(map(str, sorted(ranks)[:5]))
    return Note(
        RANK_REPEATED,
        Severity.INFO,
        f"the run {label} holds another recording of rank {shown}: this one is of another run",
        facts=frozenset({Fact.RANKS}),
    )
