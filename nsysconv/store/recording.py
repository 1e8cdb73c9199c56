"""What an importer hands over: one recording, its attributes, facts and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from nsysconv.facts import Fact
from nsysconv.notes import Note
from nsysconv.report import Column, build_table
from nsysconv.units import Unit


@dataclass(frozen=True)
class SourceRows:
    """Rows of an event table that stand in the source's own SQLite file.

    `select` names its columns as ours and reads from the schema SOURCE; `row_id` is the source row's
    number, which cuts the work into pieces and numbers the rows of a view: from `first` to `last`.
    `sparse`: whether the numbers have large holes, so that they are no measure of the work; to be asked
    before SQLite reads all rows, because rows may have to be counted for it: it raises InputError where a
    file is so damaged that they come round again. `guarded` gives the same rows without those that the
    schema does not admit, and notes that count them; it is asked only where the plain rows were refused
    or are `suspect`, because checking costs a scan. `constants` are columns known to hold one value in
    every row; asked once all batches are written.
    """

    table: str
    select: sa.Select[Any]
    row_id: sa.ColumnElement[int]
    first: int
    last: int
    guarded: Callable[[], tuple[SourceRows, list[Note]]]
    sparse: Callable[[], bool] = lambda: False
    suspect: Callable[[], bool] = lambda: False
    constants: Callable[[], Mapping[str, int]] = dict


@dataclass(frozen=True)
class ArrowRows:
    """Rows of any table as Arrow, columns named as ours (`profile_id` is the store's).

    `done` tells people how far the source is read.
    """

    table: str
    rows: pa.Table
    done: str = ""

    @property
    def count(self) -> int:
        """How many rows."""
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
        """How many rows."""
        return len(next(iter(self.columns.values())))

    @property
    def rows(self) -> pa.Table:
        """The same as Arrow, made anew each time."""
        return build_table([Column(name, Unit.ID, "") for name in self.columns], self.columns)


Batch = SourceRows | ArrowRows | ArrayRows

SOURCE = "source"
"""The schema name under which a store attaches the source's SQLite file."""


@dataclass(frozen=True)
class ProfileAttributes:
    """What is known of a recording as a whole; None = the source does not say."""

    tool_version: str | None = None
    format_version: str | None = None
    zero_utc_ns: int | None = None
    recording_ns: int | None = None
    driver_version: str | None = None
    host: str | None = None
    graph_mode: str | None = None


@dataclass(frozen=True)
class Recording:
    """One profile as an importer gives it.

    `batches` is consumed once; `attributes`, `facts`, `notes` and `late_ns` are complete only then.
    `facts` tells what the recording holds; `advice`, for a missing fact, how to record it.
    `sqlite_source` is the file that SourceRows read from. `part` names the recording where its file
    holds several, which is known once all of them have been used up.
    """

    attributes: Callable[[], ProfileAttributes]
    facts: Callable[[], frozenset[Fact]]
    advice: Mapping[Fact, str]
    notes: Sequence[Note]
    batches: Iterator[Batch]
    sqlite_source: Path | None = None
    part: Callable[[], str] = lambda: ""
    possible: frozenset[Fact] = frozenset(Fact)
    """What a file of this source may hold; what is not recorded is told of these."""
    working: Callable[[], Set[int]] = frozenset
    """Processes with GPU operations, complete with the rows of processes; none: it cannot be told."""
    late_ns: Callable[[], int] = int
    """How much later than the profile's zero the moment is from which the rows' times count."""


def rows_of(table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> ArrowRows:
    """Small tables' rows as Arrow, with the columns and types that the schema declares."""
    names = [c.name for c in table.columns if c.name not in ("profile_id",)]
    columns = [Column(n, _unit(table, n), "") for n in names if any(n in row for row in rows)]
    data = {c.name: [row.get(c.name) for row in rows] for c in columns}
    return ArrowRows(table.name, build_table(columns, data))


def _unit(table: sa.Table, name: str) -> Unit:
    # Whole numbers are whole numbers here, bytes per second too.
    unit: Unit = table.columns[name].info["unit"]
    return unit if unit in (Unit.TEXT, Unit.REAL) else Unit.ID
