"""The values that an importer hands over: a recording, its attributes, facts and rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv.facts import Fact
from nsysconv.notes import Note
from nsysconv.report import Kind, Unit, array_of


@dataclass(frozen=True)
class SourceRows:
    """Rows of an event table, to be selected from the source's own SQLite file.

    `select` names its columns as ours and reads from the schema SOURCE; `row_id` is the source row's
    number, which cuts the work into pieces and numbers the rows of a view: from `first` to `last`.
    `sparse`: the numbers have large holes, and are not a measure of the work. `guarded` makes the
    same rows without those that the schema does not admit, and notes that count them; call it only
    where the plain rows were refused or are suspect, because checking costs a scan.
    """

    table: str
    select: sa.Select[Any]
    row_id: sa.ColumnElement[int]
    first: int
    last: int
    guarded: Callable[[], tuple[SourceRows, list[Note]]]
    sparse: bool = False


@dataclass(frozen=True)
class ArrowRows:
    """Rows of any table as Arrow, columns named as ours; `done` says how far the source is read."""

    table: str
    rows: pa.Table
    done: str = ""

    @property
    def count(self) -> int:
        """Return the number of rows."""
        count: int = self.rows.num_rows
        return count


@dataclass(frozen=True)
class ArrayRows:
    """Rows of any table as arrays of int64, null is MISSING; otherwise as ArrowRows."""

    table: str
    columns: Mapping[str, np.ndarray]
    done: str = ""

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values())))

    @property
    def rows(self) -> pa.Table:
        """Return the rows as an Arrow table, made anew each time."""
        arrays = [array_of(values, "int") for values in self.columns.values()]
        return pa.Table.from_arrays(arrays, names=list(self.columns))


Batch = SourceRows | ArrowRows | ArrayRows

_KINDS: Mapping[Unit, Kind] = {Unit.TEXT: "text", Unit.REAL: "float"}

SOURCE = "source"
"""The schema name under which a store attaches the source's SQLite file."""


@dataclass(frozen=True)
class ProfileAttributes:
    """The attributes of a recording as a whole; None = the source does not say."""

    tool_version: str | None = None
    format_version: str | None = None
    zero_utc_ns: int | None = None
    recording_start_ns: int | None = None
    recording_ns: int | None = None
    driver_version: str | None = None
    host: str | None = None
    graph_mode: str | None = None
    examined: int | None = None
    """1: what cannot be believed of it is known, and among its rows."""
    step_range: str | None = None
    """Name of the ranges that the program annotated as its steps, `*` standing for anything."""


@dataclass(frozen=True)
class Summary:
    """The summary of a recording, complete once all its rows have been read."""

    attributes: ProfileAttributes
    facts: frozenset[Fact]
    """Facts that the recording holds."""
    advice: Mapping[Fact, str] = field(default_factory=dict)
    """Advice by missing fact: how to record it."""
    notes: Sequence[Note] = ()
    part: str = ""
    """Names the recording where its file holds several."""
    gpu_pids: frozenset[int] = frozenset()
    """Processes with GPU operations; empty where the source cannot say."""
    late_ns: int = 0
    """Time in ns from the profile's zero to the moment from which the rows' times count."""
    constants: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By event table: columns that hold one value in every row."""
    one_run: bool = False
    """True if all recordings of the file are of one execution, whether or not they know their ranks."""
    suspects: frozenset[str] = frozenset()
    """Event tables some of whose SourceRows hold ids that are not numbers."""


Batches = Generator[Batch, None, Summary]
"""The rows of a recording; the generator returns the summary when it is used up."""


@dataclass(frozen=True)
class Recording:
    """One profile as an importer gives it: what is known of it before its rows are read, and these."""

    batches: Batches
    sqlite_source: Path | None = None
    """The file that SourceRows are selected from."""
    possible: frozenset[Fact] = frozenset(Fact)
    """Facts that a file of this source may hold; only these are reported as not recorded."""
    one_of_several: bool = False
    """True if the file is known to hold other recordings, too."""


def take_batches(batches: Batches, take: Callable[[Batch], None]) -> Summary:
    """Pass every batch to `take`, close the generator in any case, and return its summary."""
    # Closed also where `take` raises: a generator may hold processes and files.
    with closing(batches):
        while True:
            try:
                batch = next(batches)
            except StopIteration as end:
                summary: Summary = end.value
                return summary
            take(batch)


def mapped_batches(batches: Batches, change: Callable[[Batch], Batch | None]) -> Batches:
    """Yield what `change` makes of each batch, nothing where that is None; return the summary."""
    with closing(batches):
        while True:
            try:
                batch = next(batches)
            except StopIteration as end:
                summary: Summary = end.value
                return summary
            changed = change(batch)
            if changed is not None:
                yield changed


def shared_constants(batches: Iterable[tuple[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Return by table the constants that all its batches share, each given as its table and its own."""
    shared: dict[str, dict[str, int]] = {}
    for table, constants in batches:
        others = shared.get(table, constants)
        shared[table] = {k: v for k, v in constants.items() if others.get(k) == v}
    return shared


def rows_of(table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> ArrowRows:
    """Return rows of a small table as Arrow, with the columns and types that the schema declares."""
    columns = [c for c in table.c if c.name != "profile_id" and any(c.name in row for row in rows)]
    arrays = [cells_of(column, rows) for column in columns]
    return ArrowRows(table.name, pa.Table.from_arrays(arrays, names=[c.name for c in columns]))


def cells_of(column: sa.Column[Any], rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    """Return a column of rows given as dictionaries; absent cells are null."""
    kind = _KINDS.get(column.info["unit"], "int")
    return array_of([row.get(column.name) for row in rows], kind)


def with_profile_id(rows: pa.Table, profile_id: int) -> pa.Table:
    """Return the rows with a further column `profile_id`."""
    ids = array_of(np.full(rows.num_rows, profile_id), "int")
    return rows.append_column("profile_id", ids)


def own_rows(table: sa.Table, profile_id: int, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a profile's rows of a small table: to ingest, as SQL of dozens of rows is slow to write."""
    return with_profile_id(rows_of(table, rows).rows, profile_id)
