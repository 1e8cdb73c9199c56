"""Write recordings into a store: all of a file, or nothing.

How rows come into a database is in `sqlite/writer.py` and `postgresql.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import InputError, NsysconvError, StrictError
from nsysconv.facts import Fact, in_order
from nsysconv.notes import Note, Severity, merged
from nsysconv.report import array_of
from nsysconv.store import checksums
from nsysconv.store.connection import Connection
from nsysconv.store.kept_reports import Lacking
from nsysconv.store.read import SIZE, TIME, WORK, Examination, Extent, Profile, Store
from nsysconv.store.recording import Batch, Recording, SourceRows, Summary, own_rows, take_batches
from nsysconv.store.runs import RunAssignment, RunMembership, Runs, collect_rank_info

# A statement changes so many rows in half a second, which limits the delay of Ctrl-C.
_ROWS_AT_ONCE = 500_000
# Between a file's identity and the part of it that is one recording.
_PART = "#"

Progress = Callable[[str, int], None]
"""Called with a table's name, or how far the source is read, and the number of rows just done."""


@dataclass(frozen=True)
class Imported:
    """The result of one recording. `row_counts` by table; `existing`: it was there already.

    `facts` it holds, and `missing` of those that its source may hold. `run_id` is its run.
    """

    profile_id: int
    run_id: int
    label: str
    existing: bool
    row_counts: dict[str, int]
    facts: tuple[Fact, ...] = ()
    missing: tuple[Fact, ...] = ()
    notes: tuple[Note, ...] = ()


class _AlreadyThere(Exception):  # noqa: N818 - ends a transaction, is no error
    def __init__(self, imported: tuple[Imported, ...]) -> None:
        super().__init__(imported[0].label)
        self.imported = imported


@dataclass(frozen=True)
class _WrittenRows:
    possible: frozenset[Fact]
    summary: Summary
    profile_id: int
    counts: dict[str, int]
    processes: list[dict[str, Any]]


class ProfileRows(ABC):
    """The rows of one new profile on their way into a database."""

    def __init__(self, connection: Connection, profile_id: int) -> None:
        """Write rows of the profile with this id through this connection."""
        self._connection = connection
        self._profile_id = profile_id

    def add(self, batch: Batch, progress: Progress) -> list[Note]:
        """Write a batch; return notes on rows that had to be left out."""
        if not isinstance(batch, SourceRows):
            if batch.count:
                self._ingest(batch.table, batch.rows)
            if batch.done:
                progress(batch.done, batch.count)
            return []
        notes: list[Note] = []
        self._connection.execute("SAVEPOINT batch")
        try:
            self._copy(batch, progress)
        except InputError as error:
            if not self._is_refusal(error):
                raise
            self._connection.execute("ROLLBACK TO batch")
            guarded, notes = batch.guarded()
            self._copy(guarded, lambda table, rows: None)
        self._connection.execute("RELEASE batch")
        return notes

    @abstractmethod
    def spans(self) -> dict[str, Extent]:
        """Return by event table the ids of the profile's rows; tables without rows are left out."""

    @abstractmethod
    def _ingest(self, name: str, rows: pa.Table) -> None: ...

    @abstractmethod
    def _copy(self, batch: SourceRows, progress: Progress) -> None: ...

    def _is_refusal(self, error: InputError) -> bool:
        """Return whether a row was refused, for a wrong type or an impossible time."""
        return True


class Writer(ABC):
    """Adds files' recordings to an open store, those of a file in one transaction. Made by `writing`."""

    def __init__(self, connection: Connection, connect: Callable[[], Connection]) -> None:
        """Write through this connection; `connect` opens others, to read what is written."""
        self._connection = connection
        self._connect = connect
        self._runs = Runs(connection)

    # -- what differs

    @abstractmethod
    def _attached(self, source: Path) -> AbstractContextManager[None]:
        """Make the SQLite file readable that SourceRows are selected from."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]:
        """Write all or nothing within the block."""

    @abstractmethod
    def _profile_ids(self) -> Iterator[int]:
        """Yield numbers that no profile of the store has, within a transaction."""

    @abstractmethod
    def _rows_of(self, profile_id: int) -> ProfileRows:
        """Return what writes the rows of a new profile."""

    @abstractmethod
    def _alone(self) -> None:
        """Wait until no other writer is between this call and its transaction's end."""

    # -- what is the same

    def find(self, identity: str) -> tuple[Imported, ...]:
        """Return the profiles that the store holds under a file's identity."""
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
            Imported(row["id"], row["run_id"], row["label"], True, self._row_counts(row["id"]))
            for row in rows
        )

    def identities(self) -> frozenset[str]:
        """Return the identities of all files that the store holds profiles of."""
        rows = self._connection.rows(sa.select(schema.profile.c.identity))
        return frozenset(row["identity"].partition(_PART)[0] for row in rows)

    def add(
        self,
        recordings: Iterable[Recording],
        origin: Origin,
        progress: Progress,
        replacing: Sequence[int] = (),
        *,
        strict: bool = False,
    ) -> tuple[Imported, ...]:
        """Write a file's recordings in one transaction, or find that the store holds them already.

        `replacing` are the ids of profiles that the recordings take the place of, in the same
        transaction. Raises StrictError, if it is `strict`, for what is dropped or approximated, and
        whatever the importer or the database raise; the store then holds nothing of the file.
        """
        remaining = iter(recordings)
        first = next(remaining)
        self._runs.forget()
        try:
            with ExitStack() as stack:
                if first.sqlite_source is not None:
                    stack.enter_context(self._attached(first.sqlite_source))
                stack.enter_context(self._transaction())
                replaced_run = self._removed(replacing)
                # Rows take long, and other writers need not wait for them.
                written = [
                    self._take_in(recording, profile_id, progress, strict)
                    for recording, profile_id in zip(
                        chain([first], remaining), self._profile_ids(), strict=False
                    )
                ]
                self._alone()
                existing = self.find(origin.identity)
                if existing:
                    raise _AlreadyThere(existing)
                imported = tuple(
                    self._finish(recording_rows, origin, replaced_run) for recording_rows in written
                )
        except _AlreadyThere as rollback:
            self.met(rollback.imported, origin.run)
            return rollback.imported
        self._runs.keep()
        return imported

    def examine(
        self, look: Callable[[Profile], Examination], profiles: Sequence[int]
    ) -> dict[int, tuple[Note, ...]]:
        """Examine those of the profiles that have not been examined, and keep what cannot be believed.

        Call this when profiles are added, and before checksums are kept. Returns the notes by profile;
        raises what `look` raises. A profile that is not examined here is examined when it is read.
        """
        notes: dict[int, tuple[Note, ...]] = {}
        ids = self._unexamined(profiles)
        if not ids:
            return notes
        with Store(self._connect) as store:
            for number in ids:
                profile = store.profile(number)
                found = look(profile)
                profile.forget()
                with self._transaction():
                    self._alone()
                    if self._unexamined([number]):
                        add_examination(self._connection, number, found)
                        # Another import may have kept some since the profile was added.
                        checksums.forget(self._connection, schema.profile.c.id == number)
                        notes[number] = found.notes
        return notes

    def keep_reports(
        self, lacking: Lacking, compute: Callable[[Store, int], Mapping[str, str]]
    ) -> None:
        """Keep the reports that `compute` returns of profiles that lack them; checksums come later."""
        with Store(self._connect) as store:
            found = {n: compute(store, n) for n in lacking.profiles(self._connection)}
        if any(found.values()):
            with self._transaction():
                self._alone()
                for number in found.keys() & lacking.profiles(self._connection):
                    checksums.forget(self._connection, schema.profile.c.id == number)
                    lacking.add(self._connection, number, found[number])

    def remove(self, profiles: Sequence[int]) -> None:
        """Delete profiles, and runs that have no other."""
        with self._transaction():
            self._alone()
            self._removed(profiles)

    def forget(self, identities: Mapping[int, str]) -> frozenset[int]:
        """Delete profiles, by id with their identities, and runs that have no other; return what is gone.

        What another process has replaced meanwhile stays.
        """
        profile = schema.profile.c
        with self._transaction():
            self._alone()
            rows = self._connection.rows(sa.select(profile.id, profile.identity))
            same = {row["id"] for row in rows if identities.get(row["id"]) == row["identity"]}
            self._removed(sorted(same))
        return frozenset(same)

    @abstractmethod
    def give_back_space(self) -> int:
        """Give back the space of deleted rows; return the bytes by which a file became smaller."""

    def _unexamined(self, profiles: Sequence[int]) -> list[int]:
        profile = schema.profile.c
        of_these = profile.id.in_(list(profiles)) & profile.examined.is_(None)
        rows = self._connection.rows(sa.select(profile.id).where(of_these).order_by(profile.id))
        return [row["id"] for row in rows]

    def keep_checksums(self) -> str:
        """Keep checksums of profiles that have none: those added here, and what a killed import left.

        Call it when all is added. Returns why that was not possible, or "": the next import tries again.
        """
        try:
            if checksums.profiles_without(self._connection):
                with self._transaction():
                    checksums.keep(self._connection, self._alone)
        except NsysconvError as error:
            return error.what
        return ""

    def _removed(self, profiles: Iterable[int]) -> int | None:
        # The result is the run of the removed profiles; None if none with other profiles is left.
        left = remove_profiles(self._connection, list(profiles))
        return left[0] if left else None

    def met(self, existing: Sequence[Imported], belonging: RunMembership | None) -> None:
        """Remember the runs of profiles that the store holds already, for those imported with them."""
        for profile in existing:
            self._runs.meet(profile.run_id, belonging)
        self._runs.keep()

    def _take_in(
        self,
        recording: Recording,
        profile_id: int,
        progress: Progress,
        strict: bool,
    ) -> _WrittenRows:
        notes: list[Note] = []
        rows = self._rows_of(profile_id)
        processes: list[dict[str, Any]] = []
        small = Counter[str]()

        def take(batch: Batch) -> None:
            notes.extend(rows.add(batch, progress))
            if isinstance(batch, SourceRows):
                return
            if batch.table in schema.COUNTED_TABLES and batch.table not in schema.EVENT_TABLES:
                small[batch.table] += batch.count
            if batch.table == schema.process.name:
                processes.extend(batch.rows.to_pylist())

        summary = take_batches(recording.batches, take)
        spans = rows.spans()
        if summary.late_ns:
            self._move(profile_id, spans, summary.late_ns)
        add_extents(self._connection, profile_id, spans, summary.constants)
        counts = dict.fromkeys(schema.EVENT_TABLES, 0)
        counts |= {name: span.row_count for name, span in spans.items()}
        counts |= {name: count for name, count in small.items() if count}
        summary = replace(summary, notes=merged([*summary.notes, *notes]))
        if strict:
            require_exact(summary.notes)
        return _WrittenRows(recording.possible, summary, profile_id, counts, processes)

    def _finish(self, taken: _WrittenRows, origin: Origin, home: int | None) -> Imported:
        summary, source_identity = taken.summary, origin.identity
        if summary.part:
            origin = replace(
                origin,
                identity=origin.identity + _PART + summary.part,
                label=f"{origin.label}-{summary.part}",
            )
        ranks = collect_rank_info(origin.source, taken.processes)
        if summary.one_run and origin.run is not None and not ranks.ranks:
            unit = replace(origin.run, unit=f"file {source_identity}")
            origin = replace(origin, run=unit)
        recorded = taken.profile_id, summary.attributes.zero_utc_ns
        run = self._runs.place(ranks, origin.run, home, recorded)
        if run.note:
            # The note comes before all others, whether the profile has been examined or will be.
            summary = replace(summary, notes=[run.note, *summary.notes])
        label, run_id = add_profile(
            self._connection, taken.profile_id, taken.possible, summary, origin, run
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
            tuple(summary.notes),
        )

    def _move(self, profile_id: int, spans: Mapping[str, Extent], by_ns: int) -> None:
        for name, span in spans.items():
            table = schema.metadata.tables[name]
            for low in range(span.first_id, span.last_id + 1, _ROWS_AT_ONCE):
                high = min(low + _ROWS_AT_ONCE - 1, span.last_id)
                rows = (table.c.profile_id == profile_id) & table.c.id.between(low, high)
                if "dur_ns" in table.c:
                    # 0 and 0 are no time.
                    timeless = rows & (table.c.start_ns == -by_ns) & (table.c.dur_ns == 0)
                    none = {"start_ns": None, "dur_ns": None}
                    self._connection.execute(sa.update(table).where(timeless).values(none))
                moved = {"start_ns": table.c.start_ns + by_ns}
                self._connection.execute(sa.update(table).where(rows).values(moved))

    def _row_counts(self, profile_id: int) -> dict[str, int]:
        extent = schema.extent.c
        asked = sa.select(extent.table_name, extent.row_count)
        rows = self._connection.rows(asked.where(extent.profile_id == profile_id))
        return {row["table_name"]: row["row_count"] for row in rows}


@dataclass(frozen=True)
class Origin:
    """The origin of a recording: `source` the importer's name, `identity` what makes it the same.

    `label` and `tags` are what the user calls it and wants kept with it, `run` says which run it is of;
    they are not part of its identity.
    """

    label: str
    source: str
    path: str
    sha256: str
    identity: str
    tags: Mapping[str, str] = field(default_factory=dict)
    run: RunMembership | None = None


def require_exact(notes: Iterable[Note]) -> None:
    """Raise StrictError if one of these notes says that something was dropped or approximated."""
    doubtful = [note for note in notes if note.severity is not Severity.INFO]
    if doubtful:
        texts = "\n".join(f"  {note.slug}: {note.text} ({note.count})" for note in doubtful)
        raise StrictError(
            "not imported, because --strict allows nothing dropped or approximated", hint=texts
        )


def add_extents(
    connection: Connection,
    profile_id: int,
    extents: Mapping[str, Extent],
    constants: Mapping[str, Mapping[str, int]],
) -> None:
    """Write where a profile's rows are in event tables, and their constant columns."""
    rows: list[dict[str, Any]] = []
    for name, extent in extents.items():
        ids = {"first_id": extent.first_id, "last_id": extent.last_id}
        count = {"row_count": extent.row_count}
        rows.append({"table_name": name, **ids, **count, **constants.get(name, {})})
    connection.ingest(schema.extent.name, own_rows(schema.extent, profile_id, rows))


def add_examination(connection: Connection, profile_id: int, found: Examination) -> None:
    """Write what is not believed of a profile."""
    doubts = [(table, TIME, rows) for table, rows in found.rows.items()]
    doubts += [(table, SIZE, rows) for table, rows in found.sizes.items()]
    for table, reason, rows in (*doubts, ("api_call", WORK, found.lost)):
        if not len(rows):
            continue
        numbers = {
            "profile_id": np.full(len(rows), profile_id),
            "position": rows + 1,
            "reason": np.full(len(rows), reason),
        }
        cells = [array_of([table] * len(rows), "text")]
        cells += [array_of(values, "int") for values in numbers.values()]
        names = ["table_name", *numbers]
        connection.ingest(schema.implausible.name, pa.Table.from_arrays(cells, names=names))
    for note in found.notes:
        connection.insert(schema.note, profile_id=profile_id, **note_row(note))
    own = schema.profile.c.id == profile_id
    connection.execute(sa.update(schema.profile).where(own).values(examined=1))


def tags_of(profile: Profile) -> dict[str, str]:
    """Return a profile's tags, ordered by key."""
    rows = profile.rows(schema.profile_tag.name)
    return dict(sorted((row["key"], row["value"]) for row in rows))


def remove_profiles(connection: Connection, ids: Sequence[int]) -> list[int]:
    """Delete profiles with their rows, and runs that have no other; return the runs that remain."""
    if not ids:
        return []
    # One statement per table: no index finds the rows of a profile, so each reads the whole table.
    for table in schema.metadata.sorted_tables:
        if "profile_id" in table.c:
            connection.execute(sa.delete(table).where(table.c.profile_id.in_(ids)))
    profile, run = schema.profile.c, schema.run.c
    of_these = sa.select(profile.id, profile.run_id).where(profile.id.in_(ids))
    run_of = {row["id"]: row["run_id"] for row in connection.rows(of_these)}
    connection.execute(sa.delete(schema.profile).where(profile.id.in_(ids)))
    runs = list(dict.fromkeys(run_of[number] for number in ids if number in run_of))
    rows = connection.rows(sa.select(profile.run_id).where(profile.run_id.in_(runs)).distinct())
    left = {row["run_id"] for row in rows}
    empty = [number for number in runs if number not in left]
    connection.execute(sa.delete(schema.run).where(run.id.in_(empty)))
    return [number for number in runs if number in left]


def add_profile(
    connection: Connection,
    profile_id: int,
    possible: frozenset[Fact],
    summary: Summary,
    origin: Origin,
    place: RunAssignment,
) -> tuple[str, int]:
    """Write what is known of a profile beside its rows; return its unique label and run's id."""
    label, run_id = _storable(origin.label), place.run_id
    if run_id is None:
        label, run_id = _new_run(connection, label, place)
    else:
        label = _free(connection, label, schema.profile)
        _rename(connection, run_id, place.label)
    connection.insert(
        schema.profile,
        id=profile_id,
        run_id=run_id,
        label=label,
        identity=origin.identity,
        source=origin.source,
        path=_storable(origin.path),
        sha256=origin.sha256,
        **asdict(summary.attributes),
    )
    for key, value in origin.tags.items():
        connection.insert(schema.profile_tag, profile_id=profile_id, key=key, value=value)
    facts = [
        {
            "fact": fact.value,
            "held": int(fact in summary.facts),
            "advice": summary.advice.get(fact),
        }
        for fact in in_order(possible | summary.facts | summary.advice.keys())
    ]
    connection.ingest(schema.profile_fact.name, own_rows(schema.profile_fact, profile_id, facts))
    for note in summary.notes:
        connection.insert(schema.note, profile_id=profile_id, **note_row(note))
    return label, run_id


def _new_run(connection: Connection, label: str, place: RunAssignment) -> tuple[str, int]:
    run = schema.run
    run_id = connection.number(sa.select(sa.func.coalesce(sa.func.max(run.c.id), 0) + 1))
    if place.named:
        label = _free(connection, label, schema.profile)
        of_run = _free(connection, _storable(place.label or label), run)
    else:
        label = of_run = _free(connection, label, schema.profile, run)
    connection.insert(run, id=run_id, label=of_run, job=place.job)
    return label, run_id


def _rename(connection: Connection, run_id: int, label: str | None) -> None:
    run = schema.run
    labels = _profiles_of(connection, run_id)
    old = connection.value(sa.select(run.c.label).where(run.c.id == run_id))
    if label is not None and labels == [old]:
        new = _free(connection, _storable(label), run)
        checksums.forget(connection, schema.profile.c.run_id == run_id)
        connection.execute(sa.update(run).where(run.c.id == run_id).values(label=new))


def _profiles_of(connection: Connection, run_id: int) -> list[str]:
    profile = schema.profile
    few = sa.select(profile.c.label).where(profile.c.run_id == run_id).limit(2)
    return [row["label"] for row in connection.rows(few)]


def note_row(note: Note) -> dict[str, object]:
    """Return a note as a row of its table, without the ids of row and profile."""
    return {
        "slug": note.slug,
        "severity": note.severity.value,
        "count": note.count,
        "of": note.of or None,
        "place": note.where,
        "text": note.text,
        "facts": " ".join(f.value for f in in_order(note.facts)),
    }


def _free(connection: Connection, wanted: str, *tables: sa.Table) -> str:
    # The first free number behind it, unless labels in between were removed. Searched by bisection:
    # thousands of files may have one name.

    def is_free(label: str) -> bool:
        same = [sa.select(t.c.label).where(t.c.label == label) for t in tables]
        return not any(connection.rows(select) for select in same)

    if is_free(wanted):
        return wanted
    taken, free = 1, 2
    while not is_free(f"{wanted}-{free}"):
        taken, free = free, free * 2
    while free - taken > 1:
        middle = (taken + free) // 2
        if is_free(f"{wanted}-{middle}"):
            free = middle
        else:
            taken = middle
    return f"{wanted}-{free}"


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
