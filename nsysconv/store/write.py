"""Recordings into a store: all of one, or none of it.

How rows come into a database is said by `sqlite/writer.py` and `postgresql/writer.py`; what is the same
is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.facts import Fact, in_order
from nsysconv.notes import Note, merged
from nsysconv.store.connection import Connection
from nsysconv.store.database import Appeared, writers
from nsysconv.store.places import Place
from nsysconv.store.profiles import Origin, add_profile, remove_profile
from nsysconv.store.recording import Batch, Recording, SourceRows, Summary, take_batches
from nsysconv.store.runs import Belonging, Runs, member

# Rows changed by one statement: half a second, so that Ctrl-C is not kept waiting.
_ROWS_AT_ONCE = 500_000
# Between a file's identity and the part of it that is one recording.
_PART = "#"

Progress = Callable[[str, int], None]
"""Called with a table's name, or how far the source is read, and the number of rows just done."""


@dataclass(frozen=True)
class Imported:
    """What became of one recording. `row_counts` by table; `existing`: it was there already.

    `facts` it holds, and `missing` of those that its source may hold. `run_id` is its run.
    """

    profile_id: int
    run_id: int
    label: str
    existing: bool
    row_counts: dict[str, int]
    facts: tuple[Fact, ...]
    missing: tuple[Fact, ...]
    notes: tuple[Note, ...]


class _AlreadyThere(Exception):  # noqa: N818 - ends a transaction, is no error
    def __init__(self, imported: tuple[Imported, ...]) -> None:
        super().__init__(imported[0].label)
        self.imported = imported


@dataclass(frozen=True)
class Span:
    """Where the rows of a profile stand in an event table: ids from `first` to `last`."""

    first: int
    last: int


@dataclass(frozen=True)
class _Taken:
    """A recording whose rows are in the database, and that has no profile yet."""

    possible: frozenset[Fact]
    summary: Summary
    profile_id: int
    counts: dict[str, int]
    notes: list[Note]
    processes: list[dict[str, Any]]


class ProfileRows(ABC):
    """The rows of one new profile on their way into a database."""

    @abstractmethod
    def add(self, batch: Batch, progress: Progress) -> list[Note]:
        """Writes a batch; notes tell what of it had to be left out."""

    @abstractmethod
    def spans(self) -> dict[str, Span]:
        """Where the rows came to stand, by event table; tables without rows are left out."""


class Writer(ABC):
    """Adds files' recordings to an open store, those of a file in one transaction. Made by `writing`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._runs = Runs(connection)

    # -- what differs

    @abstractmethod
    def _attached(self, source: Path) -> AbstractContextManager[None]:
        """Makes the SQLite file readable from which SourceRows are selected."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]:
        """All or nothing of what is written meanwhile."""

    @abstractmethod
    def _profile_ids(self) -> Iterator[int]:
        """Numbers that no profile of the store has, asked for within a transaction."""

    @abstractmethod
    def _rows_of(self, profile_id: int) -> ProfileRows:
        """Takes the rows of a new profile."""

    @abstractmethod
    def _alone(self) -> None:
        """Waits until no other writer is where this one is: between here and the transaction's end."""

    # -- what is the same

    def find(self, identity: str) -> tuple[Imported, ...]:
        """What the store already holds under a file's identity."""
        profile = schema.profile
        of_file = sa.or_(
            profile.c.identity == identity,
            sa.func.substr(profile.c.identity, 1, len(identity) + 1) == identity + _PART,
        )
        rows = self._connection.rows(
            sa.select(profile.c.id, profile.c.run_id, profile.c.label)
            .where(of_file)
            .order_by(profile.c.id)
        )
        return tuple(
            Imported(
                int(str(row["id"])),
                int(str(row["run_id"])),
                str(row["label"]),
                True,
                self._row_counts(int(str(row["id"]))),
                (),
                (),
                (),
            )
            for row in rows
        )

    def identities(self) -> frozenset[str]:
        """The identities of all files that the store holds something of."""
        rows = self._connection.rows(sa.select(schema.profile.c.identity))
        return frozenset(str(row["identity"]).partition(_PART)[0] for row in rows)

    def add(
        self,
        recordings: Iterable[Recording],
        origin: Callable[[], Origin],
        progress: Progress,
        accept: Callable[[Sequence[Note]], None] = lambda notes: None,
        replacing: Sequence[int] = (),
    ) -> tuple[Imported, ...]:
        """Writes a file's recordings in one transaction, or finds that the store holds them already.

        `origin` is asked last: hashing the source's bytes may run while its rows are copied. `accept`
        sees the notes before anything is final and may raise. `replacing` are the ids of profiles whose
        place the recordings take, in the same transaction. Raises whatever it, the importer or the
        database raise; the store then holds nothing of the file.
        """
        waiting = iter(recordings)
        first = next(waiting)
        self._runs.forget()
        try:
            with ExitStack() as stack:
                if first.sqlite_source is not None:
                    stack.enter_context(self._attached(first.sqlite_source))
                stack.enter_context(self._transaction())
                homes = [self._removed(profile_id) for profile_id in replacing]
                # Rows take long, and other writers need not wait for them.
                taken = [
                    self._take_in(recording, profile_id, progress, accept)
                    for recording, profile_id in zip(
                        chain([first], waiting), self._profile_ids(), strict=False
                    )
                ]
                known = origin()
                self._alone()
                existing = self.find(known.identity)
                if existing:
                    raise _AlreadyThere(existing)
                home = homes[0] if homes else None
                imported = tuple(self._finish(each, known, home) for each in taken)
        except _AlreadyThere as there:
            self.met(there.imported, known.run)
            return there.imported
        self._runs.keep()
        return imported

    def met(self, existing: Sequence[Imported], belonging: Belonging | None) -> None:
        """Profiles that are there already belong with what is imported with them."""
        for profile in existing:
            self._runs.meet(profile.run_id, belonging)
        self._runs.keep()

    def _removed(self, profile_id: int) -> int | None:
        """Removes a profile; the run it was of, if that is still there."""
        run, profile = schema.run, schema.profile
        of = self._connection.number(sa.select(profile.c.run_id).where(profile.c.id == profile_id))
        remove_profile(self._connection, profile_id)
        still = self._connection.value(sa.select(run.c.id).where(run.c.id == of))
        return None if still is None else of

    def _take_in(
        self,
        recording: Recording,
        profile_id: int,
        progress: Progress,
        accept: Callable[[Sequence[Note]], None],
    ) -> _Taken:
        notes: list[Note] = []
        rows = self._rows_of(profile_id)
        processes: list[dict[str, Any]] = []
        totals = 0

        def take(batch: Batch) -> None:
            nonlocal totals
            notes.extend(rows.add(batch, progress))
            if not isinstance(batch, SourceRows) and batch.table == schema.aggregate.name:
                totals += batch.count
            if not isinstance(batch, SourceRows) and batch.table == schema.process.name:
                processes.extend(batch.rows.to_pylist())

        summary = take_batches(recording.batches, take)
        spans = rows.spans()
        if summary.late_ns:
            self._move(profile_id, spans, summary.late_ns)
        counts = self._write_extents(profile_id, spans, summary.constants)
        if totals:
            counts[schema.aggregate.name] = totals
        all_notes = merged([*summary.notes, *notes])
        accept(all_notes)
        return _Taken(recording.possible, summary, profile_id, counts, all_notes, processes)

    def _finish(self, taken: _Taken, origin: Origin, home: int | None) -> Imported:
        """Gives the rows a profile, and the profile its place in a run."""
        summary = taken.summary
        if summary.part:
            origin = replace(
                origin,
                identity=origin.identity + _PART + summary.part,
                label=f"{origin.label}-{summary.part}",
            )
        told = member(origin.source, taken.processes)
        place = self._runs.place(told, origin.run, home)
        notes = [*taken.notes, *([place.note] if place.note else [])]
        summary = replace(summary, notes=notes)
        label, run_id = add_profile(
            self._connection, taken.profile_id, taken.possible, summary, origin, place
        )
        self._runs.meet(run_id, origin.run)
        return Imported(
            taken.profile_id,
            run_id,
            label,
            False,
            taken.counts,
            tuple(in_order(summary.facts)),
            tuple(in_order(taken.possible - summary.facts)),
            tuple(notes),
        )

    def _move(self, profile_id: int, spans: Mapping[str, Span], by_ns: int) -> None:
        """Moves the times of all rows of a profile, whose zero turned out to be another."""
        for name, span in spans.items():
            table = schema.metadata.tables[name]
            for low in range(span.first, span.last + 1, _ROWS_AT_ONCE):
                high = min(low + _ROWS_AT_ONCE - 1, span.last)
                rows = (table.c.profile_id == profile_id) & table.c.id.between(low, high)
                if "dur_ns" in table.c:
                    # 0 and 0 are no time.
                    timeless = rows & (table.c.start_ns == -by_ns) & (table.c.dur_ns == 0)
                    none = {"start_ns": None, "dur_ns": None}
                    self._connection.execute(sa.update(table).where(timeless).values(none))
                moved = {"start_ns": table.c.start_ns + by_ns}
                self._connection.execute(sa.update(table).where(rows).values(moved))

    def _write_extents(
        self,
        profile_id: int,
        spans: Mapping[str, Span],
        constants: Mapping[str, Mapping[str, int]],
    ) -> dict[str, int]:
        counts = dict.fromkeys(schema.EVENT_TABLES, 0)
        for name, span in spans.items():
            counts[name] = span.last - span.first + 1
            self._connection.execute(
                sa.insert(schema.extent).values(
                    profile_id=profile_id,
                    table_name=name,
                    first_id=span.first,
                    last_id=span.last,
                    row_count=counts[name],
                    **constants.get(name, {}),
                )
            )
        return counts

    def _row_counts(self, profile_id: int) -> dict[str, int]:
        extent = schema.extent
        rows = self._connection.rows(
            sa.select(extent.c.table_name, extent.c.row_count).where(
                extent.c.profile_id == profile_id
            )
        )
        return {str(row["table_name"]): int(str(row["row_count"])) for row in rows}


@contextmanager
def writing(place: Place, appeared: Appeared | None = None) -> Iterator[Writer]:
    """A writer on the store at `place`, which is made if it does not exist.

    A new file appears under its name when the block ends, and not at all when it raises. Where a store
    has that name by then, `appeared` may do something with the new one. Raises UsageError or InputError
    where something else stands there, or where it cannot be written.
    """
    with writers(place).writing(place, appeared) as writer:
        yield writer
