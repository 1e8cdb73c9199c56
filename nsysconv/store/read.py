"""Read profiles from a store: small tables as rows, event tables as numpy columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from threading import Lock, RLock
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv import codes, schema
from nsysconv.errors import InputError, InUseError, UsageError, available_hint
from nsysconv.facts import Fact
from nsysconv.launch import cores
from nsysconv.notes import Note, Severity
from nsysconv.phases import phase
from nsysconv.report import MISSING, ProfileRef, values_of
from nsysconv.store.columns import ColumnBuilder, TooManyRowsError
from nsysconv.store.connection import WHOLE, Connection, NumberedTexts, Row, TextColumn, TextPart
from nsysconv.store.text_tests import TextTest
from nsysconv.threads import Threads

# Fewer rows than this are read by one thread: opening a connection costs more.
ROWS_PER_THREAD = 200_000
_MAX_THREADS = 8
# A block has at most so many rows; each costs some queries.
ROWS_OF_BLOCK = 1 << 18
# Up to so many names are queried by id; for more, all names are read.
MANY_NAMES = 5_000
# These columns are int64 even if all values are small.
_WIDE = frozenset({"start_ns"})
_TIMES = ("start_ns", "dur_ns")
_IMPLAUSIBLE = ("table_name", "reason", "position")
# A dozen reports ask for these few rows, and each time costs a query.
_OFTEN_ASKED = ("device", "process")

MOST_BYTES = 1 << 50
"""A pebibyte: no memory is as large."""
SIZES: Mapping[str, Mapping[str, int]] = {
    **{table: {"bytes": 0} for table in ("memcpy", "memset", "unified_memory_event")},
    "memory_event": {"bytes": -MOST_BYTES, "allocated_bytes": 0, "reserved_bytes": 0},
}
"""The columns with sizes, by event table, and the least that each can be."""

Array = np.ndarray
Columns = dict[str, np.ndarray]
Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Extent:
    """The ids of a profile's rows in an event table, first to last, and its constant columns."""

    first_id: int
    last_id: int
    constants: Mapping[str, int] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """Return the number of rows."""
        return self.last_id - self.first_id + 1


_NO_ROWS = Extent(1, 0)


@dataclass(frozen=True)
class Examination:
    """What is not believed of a profile: rows by event table whose times, or `sizes`, are none; `lost`,
    API calls whose work was not recorded, or is not believed; `notes` on all that.

    Rows are in order, and numbered from 0 by their places among the profile's rows of the table.
    """

    rows: Mapping[str, np.ndarray] = field(default_factory=dict)
    lost: np.ndarray = field(default_factory=partial(np.empty, 0, np.int64))
    notes: tuple[Note, ...] = ()
    sizes: Mapping[str, np.ndarray] = field(default_factory=dict)


_NOTHING_FOUND = Examination()
TIME, WORK, SIZE = range(len(codes.DOUBTS))
_KNOWN_FACTS = frozenset(Fact)
# Small tables that are read when a profile is opened.
_OPENED_WITH = (schema.profile_fact.name, schema.note.name, schema.extent.name)


class Profile:
    """One profile of an open store, read-only. Columns are read once and kept; threads may share it.

    Attributes: `ref` and `attributes` (the profile's row), `facts` it holds, `missing` those that its
    source may hold and that it does not, `advice` for these, `notes`; `extents` by table, as they were
    when it was opened.
    """

    HAS_ALL_ROWS: ClassVar[bool] = True
    """Whether an event table holds as many rows as its extent says; of a file read in place, at most."""

    def __init__(
        self, store: Store, attributes: Row, small: Mapping[str, list[Row]] | None = None
    ) -> None:
        """Read what the store's small tables say of the profile with this row.

        `small` has its rows of the tables of `_OPENED_WITH`, where they are read already.
        """
        self._store = store
        self._rows: dict[str, list[Row]] = {}
        self.id = int(attributes["id"])
        self.attributes = attributes
        self.ref = ProfileRef(
            self.id, attributes["label"], attributes["source"], attributes["path"]
        )
        small = {name: self.rows(name) for name in _OPENED_WITH} if small is None else small
        # A store of a later version may have facts that this version does not know, and does not need.
        facts = [row for row in small[schema.profile_fact.name] if row["fact"] in _KNOWN_FACTS]
        self.facts = frozenset(Fact(row["fact"]) for row in facts if row["held"])
        self.missing = frozenset(Fact(row["fact"]) for row in facts if not row["held"])
        self.advice: Mapping[Fact, str] = {
            Fact(row["fact"]): row["advice"] for row in facts if not row["held"] and row["advice"]
        }
        self._notes = tuple(
            Note(
                row["slug"],
                Severity(row["severity"]),
                row["text"],
                row["count"],
                row["place"],
                frozenset(map(Fact, row["facts"].split())),
                row["of"] or 0,
            )
            for row in small[schema.note.name]
        )
        self.extents: Mapping[str, Extent] = _extents(small[schema.extent.name])
        self.late_notes: list[Note] = []
        self.examine: Callable[[Profile], Examination] | None = None
        """Looks for what cannot be believed, where no import has done so; called with the profile."""
        self._examination: Examination | None = None
        self._examining = RLock()
        self._columns: dict[str, Columns] = {}
        self._names: dict[bool, dict[int, str]] = {}
        # If two threads ask for columns of a table, the second waits and finds what the first has read.
        self._locks = {table: Lock() for table in schema.metadata.tables}

    @property
    def session_ns(self) -> int | None:
        """Return when the profiler's session ended, counted from the zero, with which it began.

        None: the source does not say when the session was, and the zero is a whole second.
        """
        begun, ended = (self.attributes[f"recording_{name}ns"] for name in ("start_", ""))
        return None if begun is None else ended

    def count_in_store(self) -> int:
        """Return how many profiles its store holds."""
        (row,) = self._store.rows(sa.select(sa.func.count(schema.profile.c.id).label("count")))
        return int(row["count"])

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return the notes of the import, and those that reading has added since."""
        doubts = self.examination.notes  # which reads rows, of which some may be left out
        return (*self._notes, *self.late_notes, *doubts)

    @property
    def examination(self) -> Examination:
        """Return what is not believed of the profile, as found at its import, or else now, once."""
        with self._examining:
            if self._examination is None:
                self._examination = _NOTHING_FOUND  # it sees what was recorded
                try:
                    if self.attributes["examined"]:
                        found = self._found_at_import()
                    else:
                        found = self.examine(self) if self.examine else _NOTHING_FOUND
                except BaseException:
                    self._examination = None
                    raise
                for table in found.rows.keys() | found.sizes.keys():
                    self.release(table, (*_TIMES, *SIZES.get(table, ())))
                self._examination = found
            return self._examination

    def _found_at_import(self) -> Examination:
        found: dict[tuple[str, int], list[Array]] = {}
        for batch in self.batches(schema.implausible.name, ROWS_OF_BLOCK, _IMPLAUSIBLE):
            table = np.array(batch.column(0).to_pylist())
            reason, place = map(values_of, batch.columns[1:])
            for key in {*zip(table.tolist(), reason.tolist(), strict=True)}:
                mine = (table == key[0]) & (reason == key[1])
                found.setdefault(key, []).append(place[mine] - 1)
        rows = {key: np.sort(np.concatenate(places)) for key, places in found.items()}
        lost = rows.pop(("api_call", WORK), np.empty(0, np.int64))
        times, sizes = ({t: at for (t, why), at in rows.items() if why == r} for r in (TIME, SIZE))
        return Examination(times, lost, sizes=sizes)

    def current_extents(self) -> dict[str, Extent]:
        """Return the extents by table as the database has them now."""
        return _extents(self.rows(schema.extent.name))

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise InUseError at the end of the block if another process has replaced the profile."""
        try:
            yield
        except Exception:
            self._require_unchanged()  # or else the failure may be nothing but this
            raise
        self._require_unchanged()

    def _require_unchanged(self) -> None:
        if self.current_extents() != self.extents:
            raise InUseError(
                "another process has replaced the profile while it was read",
                where=f"{self._store.place}@{self.ref.label}",
                hint="Run the command again.",
            )

    def row_count(self, table: str) -> int:
        """Return the number of this profile's rows in an event table, as the import counted them."""
        return self.extents.get(table, _NO_ROWS).row_count

    def first_id(self, table: str) -> int:
        """Return the id of this profile's first row in an event table; the others follow without gaps.

        A file read in place has the ids of a store that holds nothing but it.
        """
        return self.extents.get(table, _NO_ROWS).first_id

    def constants(self, table: str) -> Mapping[str, int]:
        """Return the columns known to hold one value in all of this profile's rows of a table."""
        return {**self._store.lacking(table), **self.extents.get(table, _NO_ROWS).constants}

    def columns(self, table: str, names: Sequence[str]) -> Columns:
        """Return integer columns of an event table as read-only arrays of equal length.

        An array is int64 where a value needs it, and int32 where none does; `start_ns` is always int64,
        so that adding to it cannot overflow. Null is MISSING. Rows come in the order of their ids.
        """
        unbelieved = {name: self.examination.rows.get(table) for name in _TIMES}
        unbelieved |= dict.fromkeys(SIZES.get(table, ()), self.examination.sizes.get(table))
        with self._locks[table]:
            cached = self._columns.setdefault(table, {})
            uncached = [name for name in names if name not in cached]
            constants = self.constants(table)
            stored = [name for name in uncached if name not in constants]
            if uncached and not stored and not cached:
                stored = uncached
            if stored:
                with phase(f"read {table}"):
                    cached.update(self._read_columns(table, stored))
                for name in (n for n in stored if unbelieved.get(n) is not None):
                    cached[name] = cached[name].astype(np.int64)
                    cached[name][unbelieved[name]] = MISSING
            length = len(next(iter(cached.values())))
            for name in set(uncached) - cached.keys():
                cached[name] = np.broadcast_to(np.int64(constants[name]), length)
            return {name: cached[name] for name in names}

    def blocks(self, table: str, names: Sequence[str]) -> Iterator[Columns]:
        """Yield int64 columns of an event table that has rows, some rows at a time; cache none.

        They are the cached ones, or as they were recorded.
        """
        cached, constants = self._columns.get(table, {}), self.constants(table)
        if cached.keys() >= set(names):
            for low in range(0, len(cached[names[0]]), ROWS_OF_BLOCK):
                some = slice(low, low + ROWS_OF_BLOCK)
                yield {n: cached[n][some].astype(np.int64, copy=False) for n in names}
            return
        extent = self.extents[table]
        stored = [name for name in names if name not in constants] or [names[0]]
        columns = [schema.metadata.tables[table].c[name] for name in stored]
        with self._store.connect() as connection:
            for low in range(extent.first_id, extent.last_id + 1, ROWS_OF_BLOCK):
                high = min(low + ROWS_OF_BLOCK - 1, extent.last_id)
                for values in connection.columns(columns, self.id, low, high):
                    found = dict(zip(stored, values, strict=True))
                    for name in set(names) - found.keys():
                        found[name] = np.broadcast_to(np.int64(constants[name]), len(values[0]))
                    yield {n: found[n].astype(np.int64, copy=False) for n in names}

    def release(self, table: str, names: Iterable[str]) -> None:
        """Drop cached columns that others were made from; when asked for again they are read again."""
        with self._locks[table]:
            for name in names:
                self._columns.get(table, {}).pop(name, None)

    def forget(self) -> None:
        """Drop all cached columns and names."""
        self._columns.clear()
        self._names.clear()

    def texts(
        self, table: str, column: str, fits: TextTest | None = None, part: TextPart = WHOLE
    ) -> TextColumn:
        """Return parts of texts, of those that a condition (store/text_tests.py) fits."""
        if table not in self.extents:
            return TextColumn(np.empty(0, np.int64), np.empty(0, np.int32), [])
        source = schema.metadata.tables[table]
        text = source.c[column]

        def read(connection: Connection, piece: Extent) -> TextColumn:
            found, (first, last) = NumberedTexts(part), (piece.first_id, piece.last_id)
            if fits is None:
                first = connection.texts_without_query(found, text, first, last)
            fitting = text.is_not(None) if fits is None else fits(text)
            condition = connection.within(source, self.id, first, last) & fitting
            select = sa.select(source.c.id, text).where(condition).order_by(source.c.id)
            return connection.texts(select, found)

        return TextColumn.joined(self._store.map(read, split_extent(self.extents[table])))

    def batches(
        self, table: str, rows: int, names: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield this profile's rows of any table, `rows` at a time, in `columns`' order; cache nothing.

        All columns, or those of `names`, with the schema's names and types (int64, float64, string); null
        is null. For the table `run` it is the profile's run.
        """
        source = schema.metadata.tables[table]
        columns = [source.c[name] for name in (source.c.keys() if names is None else names)]
        yield from self._stream(
            source, lambda c, condition: c.typed_batches(columns, condition, rows)
        )

    def distinct(self, table: str, names: Sequence[str]) -> dict[str, set[int]]:
        """Return the distinct values of integer columns of any table, without null; cache nothing."""
        source = schema.metadata.tables[table]
        # SQLite's own DISTINCT takes four times as long.
        values_by_name: dict[str, set[int]] = {name: set() for name in names}
        select = sa.select(*(source.c[name] for name in names))
        batches = self._stream(
            source, lambda c, condition: c.batches(select.where(condition), ROWS_PER_THREAD)
        )
        for batch in batches:
            for name, values in zip(names, batch.columns, strict=True):
                values_by_name[name].update(values.drop_null().unique().to_pylist())
        return values_by_name

    def rows(self, table: str) -> list[Row]:
        """Return this profile's rows of a small table as dictionaries, which nobody changes.

        An older store may lack the table.
        """
        if table in self._rows:
            return self._rows[table]
        if not self._store.has_table(table):
            return []
        source = schema.metadata.tables[table]
        own = sa.select(source).where(self._own_rows(source))
        rows = self._store.rows(own.order_by(*source.primary_key.columns))
        if table in _OFTEN_ASKED:
            self._rows[table] = rows
        return rows

    def names(self, ids: Iterable[int], *, plain: bool = False) -> dict[int, str]:
        """Return the texts of name ids.

        `[name ID]` for those that the source did not hold, `[no name]` for null. With `plain` an API
        function's documented name is preferred.
        """
        wanted = sorted(set(ids.tolist() if isinstance(ids, np.ndarray) else map(int, ids)))
        texts = self._names.get(plain)
        if texts is None:
            table = schema.name
            text = sa.func.coalesce(table.c.plain, table.c.text) if plain else table.c.text
            select = sa.select(table.c.id, text.label("text")).where(table.c.profile_id == self.id)
            if len(wanted) <= MANY_NAMES:
                rows = self._store.rows(select.where(table.c.id.in_(wanted)))
                texts = {int(row["id"]): str(row["text"]) for row in rows}
            else:
                # Kept, for many reports ask for as many.
                (found,) = self._store.map(lambda connection, _: connection.texts(select), [None])
                each = map(found.texts.__getitem__, found.numbers.tolist())
                texts = self._names[plain] = dict(zip(found.ids.tolist(), each, strict=True))
        named = dict(zip(wanted, map(texts.get, wanted), strict=True))
        lost = [i for i, text in named.items() if text is None]
        others = {i: "[no name]" if i == MISSING else f"[name {i}]" for i in lost}
        return named | others

    def names_that(self, fits: TextTest) -> dict[int, str]:
        """Return the names that a condition (store/text_tests.py) fits, by id."""
        table = schema.name
        own = sa.select(table.c.id, table.c.text).where(table.c.profile_id == self.id)
        rows = self._store.rows(own.where(fits(table.c.text)))
        return {int(row["id"]): str(row["text"]) for row in rows}

    def longest_name(self) -> int:
        """Return the length of the longest name in characters, 0 where there is none."""
        table = schema.name
        longest = sa.select(sa.func.max(sa.func.length(table.c.text)).label("longest"))
        (row,) = self._store.rows(longest.where(table.c.profile_id == self.id))
        return row["longest"] or 0

    def _read_columns(self, table: str, names: Sequence[str]) -> Columns:
        if table not in self.extents:
            return {name: np.empty(0, np.int64) for name in names}
        pieces = split_extent(self.extents[table])
        source = schema.metadata.tables[table]
        columns = [source.c[name] for name in names]
        sizes = [piece.row_count for piece in pieces]
        filling = [ColumnBuilder(sizes, np.int64 if name in _WIDE else np.int32) for name in names]

        def read(connection: Connection, part: int) -> None:
            ids = pieces[part].first_id, pieces[part].last_id
            with closing(connection.columns(columns, self.id, *ids)) as batches:
                for batch in batches:
                    # Copied while it is in the cache: to keep batches would take twice the memory.
                    for column, values in zip(filling, batch, strict=True):
                        column.parts[part].add(values)

        try:
            self._store.map(read, range(len(pieces)))
        except TooManyRowsError:
            raise self._damaged() from None
        read_columns = {n: column.finished() for n, column in zip(names, filling, strict=True)}
        if self.HAS_ALL_ROWS and any(len(each) != sum(sizes) for each in read_columns.values()):
            self._require_unchanged()
            raise self._damaged()
        return read_columns

    def _damaged(self) -> InputError:
        return InputError(
            "the store is damaged: its tables have more or fewer rows than it says",
            where=self._store.place,
            hint="Run the command again, in case another process has just replaced the profile; then "
            "import the original files again.",
        )

    def _stream(
        self,
        table: sa.Table,
        ask: Callable[[Connection, sa.ColumnElement[bool]], Iterator[pa.RecordBatch]],
    ) -> Iterator[pa.RecordBatch]:
        if not self._store.has_table(table.name):
            return
        if table.name not in schema.EVENT_TABLES:
            (few,) = self._store.map(lambda c, own: list(ask(c, own)), [self._own_rows(table)])
            yield from few
        elif table.name in self.extents:
            # The rows need their own connection, because the caller may query this store between
            # batches.
            extent = self.extents[table.name]
            with self._store.connect() as connection:
                ids = extent.first_id, extent.last_id
                yield from ask(connection, connection.within(table, self.id, *ids))

    def _own_rows(self, table: sa.Table) -> sa.ColumnElement[bool]:
        column, value = {
            schema.profile.name: ("id", self.id),
            schema.run.name: ("id", self.attributes["run_id"]),
        }.get(table.name, ("profile_id", self.id))
        own: sa.ColumnElement[bool] = table.c[column] == value
        return own


class Store(AbstractContextManager["Store"]):
    """An open store, read-only. Use as a context manager."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        """Read through connections that `connect` opens; the first one is opened now."""
        self.connect = connect
        self._connection = connect()
        self.place = self._connection.place
        self.lock = Lock()  # a connection is for one thread at a time

    def __exit__(self, *exception: object) -> None:
        """Close the store."""
        self._connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read small tables in the block as of one moment, even if another process writes meanwhile."""
        with self._connection.transaction(self._connection.SNAPSHOT):
            yield

    def profiles(self) -> list[Profile]:
        """Return the profiles, in the order in which they were imported."""
        rows = self.rows(sa.select(schema.profile).order_by(schema.profile.c.id))
        if len(rows) < 2:
            return [Profile(self, row) for row in rows]
        # There may be thousands: each table is asked once for all of them.
        of_all: dict[str, dict[int, list[Row]]] = {name: {} for name in _OPENED_WITH}
        for name, of_each in of_all.items():
            table = schema.metadata.tables[name]
            select = sa.select(table).order_by(*table.primary_key.columns)
            for row in self.rows(select) if self.has_table(name) else ():
                of_each.setdefault(row["profile_id"], []).append(row)
        return [
            Profile(self, row, {name: each.get(row["id"], []) for name, each in of_all.items()})
            for row in rows
        ]

    def profile(self, profile_id: int) -> Profile:
        """Return the profile with an id; raise InUseError if another process has removed it."""
        for row in self.rows(sa.select(schema.profile).where(schema.profile.c.id == profile_id)):
            return Profile(self, row)
        raise InUseError("another process has removed the profile", where=str(self.place))

    def runs(self) -> list[Row]:
        """Return the rows of the table `run`."""
        return self.rows(sa.select(schema.run).order_by(schema.run.c.id))

    def lacking(self, table: str) -> Mapping[str, int]:
        """Return the columns that a table of an older version does not have, with null for each."""
        return {c.name: MISSING for c in self._connection.lacking if c.table.name == table}

    def has_table(self, table: str) -> bool:
        """Return whether the store, which may be of an older version, has a small table."""
        key = schema.metadata.tables[table].primary_key.columns
        return self._connection.lacking.isdisjoint(key)

    def rows(self, statement: sa.Select[Any]) -> list[Row]:
        """Return the rows of a small select as dictionaries."""
        with self.lock:
            return self._connection.rows(statement)

    def map(
        self, read: Callable[[Connection, Part], Result], parts: Sequence[Part]
    ) -> list[Result]:
        """Return what `read` makes of each part, several at once by connections of their own."""
        if len(parts) == 1:
            with self.lock:
                return [read(self._connection, parts[0])]

        def work(part: Part) -> Result:
            with self.connect() as connection:
                return read(connection, part)

        with Threads(len(parts)) as pool:
            return list(pool.map(work, parts))


def _extents(rows: Iterable[Row]) -> dict[str, Extent]:
    found = {}
    for row in rows:
        known = {name: row[name] for name in ("pid", "device_id") if row[name] is not None}
        found[row["table_name"]] = Extent(row["first_id"], row["last_id"], known)
    return found


def split_extent(extent: Extent) -> list[Extent]:
    """Return an extent cut into as many pieces as are worth reading at the same time."""
    rows = extent.row_count
    count = max(1, min(cores(), _MAX_THREADS, rows // ROWS_PER_THREAD))
    edges = [extent.first_id + rows * i // count for i in range(count + 1)]
    return [Extent(low, high - 1) for low, high in pairwise(edges)]


def find_profile(store: Store, selector: str) -> Profile:
    """Return the profile with this label or id (`1`). Raises UsageError with those there are."""
    of_profile = schema.profile.c
    known = store.rows(sa.select(of_profile.id, of_profile.label).order_by(of_profile.id))
    for row in known:
        if selector in (row["label"], str(row["id"])):
            return store.profile(row["id"])
    labels = {row["label"]: f"{row['label']} (id {row['id']})" for row in known}
    raise UsageError(
        f"no profile {selector!r} in the store",
        hint=available_hint(selector, labels, "`nsysconv runs` lists them all."),
    )
