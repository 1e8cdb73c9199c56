"""Recordings into a store: all of one, or none of it.

A new store grows under a temporary name and appears under its own only when complete; an existing one
gets everything in one transaction. A killed import leaves the store as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import InputError, UsageError
from nsysconv.facts import Fact, in_order
from nsysconv.notes import Note, merged
from nsysconv.report import Column, build_table
from nsysconv.store.connection import Connection, sqlite_uri
from nsysconv.store.database import PAGE_SIZE, attach_source, compiled, create_schema, require_store
from nsysconv.store.profiles import Origin, add_profile, remove_profile
from nsysconv.store.publish import building, publish, sweep
from nsysconv.store.recording import SOURCE, ArrowRows, Batch, Recording, SourceRows
from nsysconv.units import Unit

# Source rows copied by one statement: half a second, so that Ctrl-C and progress are not kept waiting.
_ROWS_AT_ONCE = 500_000

# Between a file's identity and the part of it that is one recording.
_PART = "#"

Progress = Callable[[str, int], None]
"""Called with a table's name, or how far the source is read, and the number of rows just done."""


@dataclass(frozen=True)
class Imported:
    """What became of one recording. `row_counts` by table; `existing`: it was there already.

    `facts` it holds, and `missing` of those that its source may hold.
    """

    profile_id: int
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


class Writer:
    """Adds files' recordings to an open store, those of a file in one transaction. Made by `writing`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, identity: str) -> tuple[Imported, ...]:
        """What the store already holds under a file's identity."""
        profile = schema.profile
        of_file = sa.or_(
            profile.c.identity == identity,
            sa.func.substr(profile.c.identity, 1, len(identity) + 1) == identity + _PART,
        )
        rows = self._connection.rows(
            compiled(sa.select(profile.c.id, profile.c.label).where(of_file))
        )
        return tuple(
            Imported(
                int(str(row["id"])),
                str(row["label"]),
                True,
                self._row_counts(int(str(row["id"]))),
                (),
                (),
                (),
            )
            for row in rows
        )

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
        source = first.sqlite_source
        if source is not None:
            attach_source(self._connection, source, SOURCE)
        try:
            with _transaction(self._connection):
                for profile_id in replacing:
                    remove_profile(self._connection, profile_id)
                return tuple(
                    self._add(recording, origin, progress, accept)
                    for recording in chain([first], waiting)
                )
        except _AlreadyThere as there:
            return there.imported
        finally:
            if source is not None:
                self._connection.execute(f"DETACH {SOURCE}")

    def _add(
        self,
        recording: Recording,
        origin: Callable[[], Origin],
        progress: Progress,
        accept: Callable[[Sequence[Note]], None],
    ) -> Imported:
        profile_id = int(
            str(
                self._connection.value(
                    compiled(sa.select(sa.func.coalesce(sa.func.max(schema.profile.c.id), 0) + 1))
                )
            )
        )
        notes: list[Note] = []
        before = {name: self._last_id(name) for name in schema.EVENT_TABLES}
        constants: dict[str, list[Callable[[], Mapping[str, int]]]] = {}
        totals = 0
        with _closed(recording.batches) as batches:
            for batch in batches:
                notes += self._write(batch, profile_id, progress)
                if isinstance(batch, ArrowRows) and batch.table == schema.aggregate.name:
                    totals += batch.rows.num_rows
                ask = batch.constants if isinstance(batch, SourceRows) else dict
                constants.setdefault(batch.table, []).append(ask)
        counts = self._write_extents(profile_id, before, constants)
        if totals:
            counts[schema.aggregate.name] = totals
        facts, all_notes = recording.facts(), merged([*recording.notes, *notes])
        accept(all_notes)
        known = origin()
        if not recording.part:
            existing = self.find(known.identity)
            if existing:
                raise _AlreadyThere(existing)
        else:
            known = replace(
                known,
                identity=known.identity + _PART + recording.part,
                label=f"{known.label}-{recording.part}",
            )
        label = add_profile(self._connection, recording, known, profile_id, facts, all_notes)
        return Imported(
            profile_id,
            label,
            False,
            counts,
            tuple(in_order(facts)),
            tuple(in_order(recording.possible - facts)),
            tuple(all_notes),
        )

    def _write(self, batch: Batch, profile_id: int, progress: Progress) -> list[Note]:
        if not isinstance(batch, SourceRows):
            if batch.rows.num_rows:
                self._ingest(batch.table, batch.rows, profile_id)
            if batch.done:
                progress(batch.done, batch.rows.num_rows)
            return []
        self._connection.execute("SAVEPOINT batch")
        try:
            self._copy(batch, profile_id, progress)
        except InputError as error:
            if "INTEGRITY" not in str(error):
                raise
            # The database refused a row: a wrong type or an impossible time. Copy with guards.
            self._connection.execute("ROLLBACK TO batch")
            careful, notes = batch.guarded()
            self._copy(careful, profile_id, lambda table, rows: None)
        else:
            notes = []
        self._connection.execute("RELEASE batch")
        return notes

    def _copy(self, batch: SourceRows, profile_id: int, progress: Progress) -> None:
        table = schema.metadata.tables[batch.table]
        names = ["profile_id", *(c.name for c in batch.select.selected_columns)]
        rows = batch.select.with_only_columns(
            sa.literal_column(str(profile_id)), *batch.select.selected_columns
        )
        if batch.sparse:
            self._connection.execute(compiled(sa.insert(table).from_select(names, rows)))
            return
        for low in range(batch.first, batch.last + 1, _ROWS_AT_ONCE):
            high = min(low + _ROWS_AT_ONCE - 1, batch.last)
            piece = rows.where(
                batch.row_id.between(sa.literal_column(str(low)), sa.literal_column(str(high)))
            )
            self._connection.execute(compiled(sa.insert(table).from_select(names, piece)))
            progress(batch.table, high - low + 1)

    def _ingest(self, table: str, rows: pa.Table, profile_id: int) -> None:
        columns = [Column("profile_id", Unit.ID, "")]
        ids = build_table(columns, {"profile_id": np.full(rows.num_rows, profile_id)})
        self._connection.ingest(table, rows.append_column("profile_id", ids.column(0)))

    def _last_id(self, name: str) -> int:
        table = schema.metadata.tables[name]
        return int(
            str(
                self._connection.value(
                    compiled(sa.select(sa.func.coalesce(sa.func.max(table.c.id), 0)))
                )
            )
        )

    def _write_extents(
        self,
        profile_id: int,
        before: dict[str, int],
        constants: Mapping[str, list[Callable[[], Mapping[str, int]]]],
    ) -> dict[str, int]:
        counts = {}
        for name, last_before in before.items():
            last = self._last_id(name)
            counts[name] = last - last_before
            if last > last_before:
                self._connection.execute(
                    compiled(
                        sa.insert(schema.extent).values(
                            profile_id=profile_id,
                            table_name=name,
                            first_id=last_before + 1,
                            last_id=last,
                            row_count=last - last_before,
                            **common(constants.get(name, [])),
                        )
                    )
                )
        return counts

    def _row_counts(self, profile_id: int) -> dict[str, int]:
        extent = schema.extent
        rows = self._connection.rows(
            compiled(
                sa.select(extent.c.table_name, extent.c.row_count).where(
                    extent.c.profile_id == profile_id
                )
            )
        )
        return {str(row["table_name"]): int(str(row["row_count"])) for row in rows}


def common(constants: Iterable[Callable[[], Mapping[str, int]]]) -> dict[str, int]:
    """The constants that all batches of a table share."""
    known = [ask() for ask in constants]
    return {k: v for k, v in known[0].items() if all(o.get(k) == v for o in known)} if known else {}


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """A writer on the store at `path`, which is made if it does not exist.

    A new store appears under its name when the block ends, and not at all when it raises. Raises
    UsageError or InputError where something else stands under the name.
    """
    sweep(path)
    if path.exists():
        require_store(path)
        with Connection(sqlite_uri(path, "rw"), str(path)) as connection:
            yield Writer(connection)
        return
    if not path.parent.is_dir():
        raise UsageError(
            "the folder does not exist",
            where=str(path.parent),
            hint=f"Make it first: mkdir -p {path.parent}",
        )
    with building(path) as partial:
        with Connection(sqlite_uri(partial, "rwc"), str(path)) as connection:
            # Nobody else sees the file yet: what a crash leaves is not a store, so nothing need be
            # flushed on the way. It is, once, before it gets its name.
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA journal_mode=MEMORY")
            connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
            create_schema(connection)
            yield Writer(connection)
        publish(partial, path)


@contextmanager
def _closed(batches: Iterator[Batch]) -> Iterator[Iterator[Batch]]:
    """Ends a generator that was not used up: it may hold processes and files."""
    try:
        yield batches
    finally:
        if isinstance(batches, Generator):
            batches.close()


@contextmanager
def _transaction(connection: Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        _set_strict(connection, strict=True)
        yield
        _set_strict(connection, strict=False)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _set_strict(connection: Connection, *, strict: bool) -> None:
    """Makes the event tables STRICT while rows come in: SQLite then refuses cells of a wrong type.

    STRICT is a word in the table's definition and nothing in its rows, but SQLite before 3.37 cannot
    open a file that has it. So it stands there only inside this transaction (docs/decisions/0008); a
    check of every cell in SQL costs as much as copying the rows.
    """
    sql = "sql || ' STRICT'" if strict else "substr(sql, 1, length(sql) - length(' STRICT'))"
    names = ", ".join(f"'{name}'" for name in schema.EVENT_TABLES)
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute(
        f"UPDATE sqlite_master SET sql = {sql} WHERE type = 'table' AND name IN ({names})"
    )
    connection.execute("PRAGMA writable_schema=RESET")
