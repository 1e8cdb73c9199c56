"""Read profiles from a store: small tables as rows, event tables as numpy columns.

Most ids, and durations below two seconds, fit in 32 bits; many columns hold one value throughout. Memory
that a process touches for the first time is expensive (on virtual machines often more so than computing
with it), so a column takes more only when a value needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import InputError, UsageError, available_hint
from nsysconv.facts import Fact
from nsysconv.launch import cores
from nsysconv.notes import Note, Severity
from nsysconv.phases import phase
from nsysconv.report import MISSING, ProfileRef
from nsysconv.store.connection import Connection, TextColumn

# Fewer rows than this are read by one thread: opening a connection costs more.
_ROWS_PER_THREAD = 200_000
_MAX_THREADS = 8
# Read as int64 even where all values are small.
_WIDE = frozenset({"start_ns"})

Columns = dict[str, np.ndarray]
Row = dict[str, Any]


@dataclass(frozen=True)
class Extent:
    """The ids of a profile's rows in an event table, first to last, and its constant columns."""

    first_id: int
    last_id: int
    constants: Mapping[str, int] = field(default_factory=dict)


class Profile:
    """One profile of an open store, read-only. Columns are read once and kept; threads may share it.

    Attributes: `ref` and `attributes` (the profile's row), `facts` it holds, `missing` those that its
    source may hold and that it does not, `advice` for these, `notes`.
    """

    def __init__(
        self,
        store: Store,
        attributes: Row,
        facts: frozenset[Fact],
        missing: frozenset[Fact],
        advice: Mapping[Fact, str],
        notes: tuple[Note, ...],
    ) -> None:
        """Take what the store's small tables say of one profile."""
        self._store = store
        self.id = int(attributes["id"])
        self.attributes = attributes
        self.ref = ProfileRef(
            self.id, attributes["label"], attributes["source"], attributes["path"]
        )
        self.facts = facts
        self.missing = missing
        self.advice = advice
        self._notes = notes
        self._columns: dict[str, Columns] = {}
        # Of two threads that ask for columns of a table the second finds what the first has read.
        self._locks = {table: Lock() for table in schema.metadata.tables}

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return the notes of the import, and those that reading has added since."""
        return (*self._notes, *self._store.late_notes)

    def row_count(self, table: str) -> int:
        """Return the number of this profile's rows in an event table, as the import counted them."""
        return self._store.row_count(self.id, table)

    def first_id(self, table: str) -> int:
        """Return the id of this profile's first row in an event table; the others follow without gaps.

        A file read in place has the ids of a store that holds nothing but it.
        """
        return self._store.first_id(self.id, table)

    def columns(self, table: str, names: Sequence[str]) -> Columns:
        """Return integer columns of an event table as read-only arrays of equal length.

        An array is int64 where a value needs it, and int32 where none does; `start_ns` is always int64,
        so that adding to it cannot overflow. Null is MISSING. Rows come in the order of their ids.
        """
        with self._locks[table]:
            cached = self._columns.setdefault(table, {})
            uncached = [name for name in names if name not in cached]
            constants = self._store.constants(self.id, table)
            stored = [name for name in uncached if name not in constants]
            if uncached and not stored and not cached:
                stored = uncached
            if stored:
                with phase(f"read {table}"):
                    cached.update(self._store.read_columns(self.id, table, stored))
            length = len(next(iter(cached.values())))
            for name in uncached:
                if name not in cached:
                    cached[name] = np.broadcast_to(np.int64(constants[name]), length)
            return {name: cached[name] for name in names}

    def release(self, table: str, names: Iterable[str]) -> None:
        """Drop cached columns that others were made from; when asked for again they are read again."""
        with self._locks[table]:
            for name in names:
                self._columns.get(table, {}).pop(name, None)

    def forget(self) -> None:
        """Drop all cached columns."""
        self._columns.clear()

    def texts(self, table: str, column: str, prefix: str = "") -> TextColumn:
        """Return a text column of an event table, without nulls.

        Only texts that begin with `prefix`; upper and lower case may count as equal.
        """
        return self._store.read_texts(self.id, table, column, prefix)

    def constants(self, table: str) -> Mapping[str, int]:
        """Return the columns known to hold one value in all of this profile's rows of a table."""
        return self._store.constants(self.id, table)

    def batches(
        self, table: str, rows: int, names: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield this profile's rows of any table, `rows` at a time, in `columns`' order; cache nothing.

        All columns, or those of `names`, with the schema's names and types (int64, float64, string); null
        is null. For the table `run` it is the profile's run.
        """
        return self._store.batches(self.id, table, rows, names)

    def distinct(self, table: str, names: Sequence[str]) -> dict[str, set[int]]:
        """Return the distinct values of integer columns of any table, without null; cache nothing."""
        return self._store.distinct(self.id, table, names)

    def rows(self, table: str) -> list[Row]:
        """Return this profile's rows of a small table as dictionaries."""
        source = schema.metadata.tables[table]
        return self._store.rows(sa.select(source).where(source.c.profile_id == self.id))

    def names(self, ids: Iterable[int], *, plain: bool = False) -> dict[int, str]:
        """Return the texts of name ids.

        `[name ID]` for those that the source did not hold, `[no name]` for null. With `plain` an API
        function's documented name is preferred.
        """
        wanted = sorted({int(i) for i in ids})
        texts: dict[int, str] = {MISSING: "[no name]"}
        table = schema.name
        text = sa.func.coalesce(table.c.plain, table.c.text) if plain else table.c.text
        for low in range(0, len(wanted), 5_000):
            piece = wanted[low : low + 5_000]
            rows = self._store.rows(
                sa.select(table.c.id, text.label("text")).where(
                    table.c.profile_id == self.id, table.c.id.in_(piece)
                )
            )
            texts.update({int(row["id"]): str(row["text"]) for row in rows})
        return {i: texts.get(i, f"[name {i}]") for i in wanted}

    def names_from(self, prefix: str) -> dict[int, str]:
        """Return the names that begin with `prefix` by id; upper and lower case may count as equal."""
        table = schema.name
        asked = sa.select(table.c.id, table.c.text).where(
            table.c.profile_id == self.id, _begins(table.c.text, prefix)
        )
        return {int(row["id"]): str(row["text"]) for row in self._store.rows(asked)}

    def longest_name(self) -> int:
        """Return the length of the longest name in characters, 0 where there is none."""
        table = schema.name
        longest = sa.select(sa.func.max(sa.func.length(table.c.text)).label("longest"))
        (row,) = self._store.rows(longest.where(table.c.profile_id == self.id))
        return row["longest"] or 0


class Store:
    """An open store, read-only. Use as a context manager."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        """Read through connections that `connect` opens; the first one is opened now."""
        self._connect = connect
        self._connection = connect()
        self._lock = Lock()  # a connection is for one thread at a time
        self._extents: dict[int, dict[str, Extent]] = {}
        self.late_notes: list[Note] = []

    def __enter__(self) -> Store:
        """Return the open store."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the store."""
        self.close()

    def close(self) -> None:
        """Close the store's connection."""
        self._connection.close()

    def profiles(self) -> list[Profile]:
        """Return the profiles, in the order in which they were imported."""
        rows = self.rows(sa.select(schema.profile).order_by(schema.profile.c.id))
        return [self._profile(row) for row in rows]

    def profile(self, profile_id: int) -> Profile:
        """Return the profile with an id that exists."""
        statement = sa.select(schema.profile).where(schema.profile.c.id == profile_id)
        return self._profile(self.rows(statement)[0])

    def runs(self) -> list[Row]:
        """Return the rows of the table `run`."""
        return self.rows(sa.select(schema.run).order_by(schema.run.c.id))

    def rows(self, statement: sa.Select[Any]) -> list[Row]:
        """Return the rows of a small select as dictionaries."""
        with self._lock:
            return self._connection.rows(statement)

    def _profile(self, row: Row) -> Profile:
        fact = schema.profile_fact
        facts, missing, advice = set(), set(), {}
        for entry in self.rows(sa.select(fact).where(fact.c.profile_id == row["id"])):
            if entry["fact"] not in set(Fact):
                continue  # a later version's fact: nothing here asks for it
            if entry["held"]:
                facts.add(Fact(entry["fact"]))
                continue
            missing.add(Fact(entry["fact"]))
            if entry["advice"]:
                advice[Fact(entry["fact"])] = str(entry["advice"])
        table = schema.note
        notes = tuple(
            Note(
                n["slug"],
                Severity(n["severity"]),
                n["text"],
                n["count"],
                n["place"],
                frozenset(Fact(f) for f in n["facts"].split()),
            )
            for n in self.rows(
                sa.select(table).where(table.c.profile_id == row["id"]).order_by(table.c.id)
            )
        )
        return Profile(self, row, frozenset(facts), frozenset(missing), advice, notes)

    def extents(self, profile_id: int) -> dict[str, Extent]:
        """Return a profile's extents by table; cached."""
        if profile_id not in self._extents:
            self._extents[profile_id] = self.extents_now(profile_id)
        return self._extents[profile_id]

    def extents_now(self, profile_id: int) -> dict[str, Extent]:
        """Return a profile's extents by table as the database has them now."""
        table = schema.extent
        rows = self.rows(sa.select(table).where(table.c.profile_id == profile_id))
        return {
            str(row["table_name"]): Extent(
                row["first_id"],
                row["last_id"],
                {k: row[k] for k in ("pid", "device_id") if row[k] is not None},
            )
            for row in rows
        }

    def constants(self, profile_id: int, table: str) -> Mapping[str, int]:
        """Return the columns that hold one value in all rows of a profile, and need not be read."""
        extent = self.extents(profile_id).get(table)
        return extent.constants if extent is not None else {}

    def row_count(self, profile_id: int, table: str) -> int:
        """Return the number of a profile's rows in an event table."""
        extent = self.extents(profile_id).get(table)
        return 0 if extent is None else extent.last_id - extent.first_id + 1

    def first_id(self, profile_id: int, table: str) -> int:
        """Return the id of a profile's first row in an event table, 1 where it has none."""
        extent = self.extents(profile_id).get(table)
        return 1 if extent is None else extent.first_id

    def read_columns(self, profile_id: int, table: str, names: Sequence[str]) -> Columns:
        """Return integer columns of a profile's rows, read through several connections at once.

        Raises InputError where the table has more rows than its extent says.
        """
        extent = self.extents(profile_id).get(table)
        if extent is None:
            return {name: np.empty(0, np.int64) for name in names}
        pieces = split_extent(extent)
        source = schema.metadata.tables[table]
        columns = [source.c[name] for name in names]
        sizes = [piece.last_id - piece.first_id + 1 for piece in pieces]
        filling = [ColumnBuilder(sizes, np.int64 if name in _WIDE else np.int32) for name in names]

        def read(part: int, connection: Connection) -> None:
            piece = pieces[part]
            with closing(
                connection.columns(columns, profile_id, piece.first_id, piece.last_id)
            ) as batches:
                for batch in batches:
                    # Copied while it is in the cache; kept batches would cost memory twice.
                    for column, values in zip(filling, batch, strict=True):
                        column.parts[part].add(values)

        try:
            self._in_threads(read, len(pieces))
        except TooManyRowsError:
            raise self._damaged() from None
        return {name: column.finished() for name, column in zip(names, filling, strict=True)}

    def _damaged(self) -> InputError:
        return InputError(
            "the store is damaged: its tables have more rows than it says",
            where=self._connection.place,
            hint="Import the original files again.",
        )

    def read_texts(self, profile_id: int, table: str, column: str, prefix: str = "") -> TextColumn:
        """Return a text column of a profile's rows without nulls; only texts that begin with `prefix`."""
        extent = self.extents(profile_id).get(table)
        if extent is None:
            return TextColumn(np.empty(0, np.int64), np.empty(0, np.int32), [])
        pieces = split_extent(extent)
        source = schema.metadata.tables[table]
        text, texts = source.c[column], dict[int, TextColumn]()

        def read(part: int, connection: Connection) -> None:
            piece = pieces[part]
            condition = connection.within(source, profile_id, piece.first_id, piece.last_id)
            select = sa.select(source.c.id, text).where(condition, text.is_not(None))
            if prefix:
                select = select.where(_begins(text, prefix))
            texts[part] = connection.texts(select.order_by(source.c.id))

        self._in_threads(read, len(pieces))
        return TextColumn.joined([texts[part] for part in range(len(pieces))])

    def batches(
        self, profile_id: int, table: str, rows: int, names: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield a profile's rows of any table, all columns or those of `names`, `rows` at a time."""
        source = schema.metadata.tables[table]
        columns = [source.c[name] for name in (source.c.keys() if names is None else names)]
        condition = self._of_profile(profile_id, source)
        yield from self._stream(
            profile_id, source, lambda c: c.typed_batches(columns, condition, rows)
        )

    def distinct(self, profile_id: int, table: str, names: Sequence[str]) -> dict[str, set[int]]:
        """Return the distinct values of integer columns in a profile's rows, without null."""
        source = schema.metadata.tables[table]
        # SQLite's own DISTINCT takes four times as long.
        values_by_name: dict[str, set[int]] = {name: set() for name in names}
        statement = sa.select(*(source.c[name] for name in names)).where(
            self._of_profile(profile_id, source)
        )
        batches = self._stream(profile_id, source, lambda c: c.batches(statement, _ROWS_PER_THREAD))
        for batch in batches:
            for name, values in zip(names, batch.columns, strict=True):
                values_by_name[name].update(values.drop_null().unique().to_pylist())
        return values_by_name

    def _stream(
        self,
        profile_id: int,
        table: sa.Table,
        ask: Callable[[Connection], Iterator[pa.RecordBatch]],
    ) -> Iterator[pa.RecordBatch]:
        if table.name not in schema.EVENT_TABLES:
            with self._lock:
                small = list(ask(self._connection))
            yield from small
        elif table.name in self.extents(profile_id):
            # A connection of its own: whoever takes the batches may ask this store for other things.
            with self._connect() as connection:
                yield from ask(connection)

    def _of_profile(self, profile_id: int, table: sa.Table) -> sa.ColumnElement[bool]:
        if table is schema.profile:
            return table.c.id == profile_id
        if table is schema.run:
            own = sa.select(schema.profile.c.run_id).where(schema.profile.c.id == profile_id)
            return table.c.id == own.scalar_subquery()
        extent = self.extents(profile_id).get(table.name)
        if extent is None:
            return table.c.profile_id == profile_id
        return self._connection.within(table, profile_id, extent.first_id, extent.last_id)

    def _in_threads(self, read: Callable[[int, Connection], None], count: int) -> None:
        if count == 1:
            with self._lock:
                read(0, self._connection)
            return

        def work(number: int) -> None:
            with self._connect() as connection:
                read(number, connection)

        with ThreadPoolExecutor(max_workers=count) as pool:
            list(pool.map(work, range(count)))


def _begins(text: sa.ColumnElement[str], prefix: str) -> sa.ColumnElement[bool]:
    return text.startswith(prefix, autoescape=True)


def split_extent(extent: Extent) -> list[Extent]:
    """Return an extent cut into as many pieces as are worth reading at the same time."""
    rows = extent.last_id - extent.first_id + 1
    count = max(1, min(cores(), _MAX_THREADS, rows // _ROWS_PER_THREAD))
    edges = [extent.first_id + rows * i // count for i in range(count + 1)]
    return [Extent(low, high - 1) for low, high in pairwise(edges)]


def find_profile(store: Store, selector: str) -> Profile:
    """Return the profile with this label or, as `1`, this id.

    Raises UsageError, naming the profiles there are.
    """
    profiles = store.profiles()
    for profile in profiles:
        if selector in (profile.ref.label, str(profile.id)):
            return profile
    labels = {p.ref.label: f"{p.ref.label} (id {p.id})" for p in profiles}
    raise UsageError(
        f"no profile {selector!r} in the store",
        hint=available_hint(selector, labels, "`nsysconv runs` lists them all."),
    )


Array = np.ndarray


class TooManyRowsError(Exception):
    """More rows came than there are numbers for them."""


class ColumnPart:
    """Consecutive rows of a column, filled in order by one thread."""

    def __init__(self, room: Array) -> None:
        """Fill the preallocated array `room`."""
        self._given = self._room = room
        self._count = 0
        self._only: int | None = None  # the one value of all rows so far

    def add(self, values: Array) -> None:
        """Append int32 or int64 values, at least one. Raises TooManyRowsError where there is no room."""
        begin, self._count = self._count, self._count + len(values)
        if self._count > len(self._given):
            raise TooManyRowsError
        if begin == 0:
            self._only = int(values[0])
        if self._only is not None:
            if (values == self._only).all():
                return
            self._spell_out(begin)
        self._put(begin, values)

    def values(self) -> Array:
        """Return the values; where all are equal, a broadcast array."""
        if self._count and self._only is not None:
            return np.broadcast_to(np.int64(self._only), self._count)
        return self._room[: self._count]

    def fills_slice(self) -> bool:
        """Return whether the materialised values fill the preallocated slice exactly."""
        if self._only is not None:
            self._spell_out(self._count)
        return self._room is self._given and self._count == len(self._given)

    def _spell_out(self, count: int) -> None:
        if self._only is not None:
            self._put(0, np.full(count, self._only))
            self._only = None

    def _put(self, begin: int, values: Array) -> None:
        place = slice(begin, begin + len(values))
        self._room[place] = values
        narrowed = self._room.itemsize < values.itemsize
        if narrowed and not (self._room[place] == values).all():
            self._room = self._room.astype(np.int64)
            self._room[place] = values


class ColumnBuilder:
    """A column of as many rows as the sizes of its parts add up to, or fewer."""

    def __init__(self, sizes: Sequence[int], dtype: type[np.signedinteger]) -> None:
        """Allocate parts of these sizes; memory that is never written costs nothing."""
        # Memory that is asked for and never written costs nothing.
        self._whole = np.empty(sum(sizes), dtype)
        edges = np.cumsum([0, *sizes]).tolist()
        self.parts = [ColumnPart(self._whole[low:high]) for low, high in pairwise(edges)]

    def finished(self) -> Array:
        """Return the column: of the given type where all values fit, else int64."""
        pieces = [piece for part in self.parts if len(piece := part.values())]
        if not pieces:
            return self._whole[:0]
        if all(piece.strides == (0,) and piece[0] == pieces[0][0] for piece in pieces):
            return np.broadcast_to(pieces[0][0], sum(map(len, pieces)))
        # Every part is asked: one that holds a constant spells it out when it is.
        filled = [part.fills_slice() for part in self.parts]
        return self._whole if all(filled) else np.concatenate([p.values() for p in self.parts])
