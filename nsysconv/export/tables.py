"""The tables of profiles as files of Arrow rows, for the formats that hold tables.

A folder has a file per table; of several profiles a folder per table, cut by run and, where one of them
has a rank, by rank, in the way of Hive: `kernel/run=LABEL/rank=0/part-1.parquet`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nsysconv import schema
from nsysconv.export.contract import Options, Written
from nsysconv.notes import Severity, merged
from nsysconv.phases import phase
from nsysconv.report import Column, build_table
from nsysconv.store.connection import arrow_field, prefetched
from nsysconv.store.read import Profile
from nsysconv.store.write import tags_of
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

ROWS_AT_ONCE = 1 << 17
"""Rows that are in memory at a time, and in one row group of a file."""

_RUN, _NOTE, _TAG = schema.run.name, schema.note.name, schema.profile_tag.name
# Events first: reading them may add notes on rows that are left out. Extents have no meaning outside a
# store.
_TABLES = (
    *schema.EVENT_TABLES,
    *(
        table.name
        for table in schema.metadata.sorted_tables
        if table.name not in (*schema.EVENT_TABLES, schema.extent.name, _NOTE)
    ),
    _NOTE,
)
_COUNTED = (*schema.EVENT_TABLES, schema.aggregate.name)
# What readers of Hive's folders take for null.
_NO_RANK = "__HIVE_DEFAULT_PARTITION__"


OpenFile = Callable[[Path, pa.Schema], AbstractContextManager[Any]]
"""Opens a file for rows of a schema: an Arrow writer with `write_batch`."""


def write(
    timelines: Sequence[Timeline], folder: Path, options: Options, ending: str, open_file: OpenFile
) -> Written:
    """Write the tables of these profiles into the new `folder`, into files that `open_file` opens.

    A table without rows has no file. Return the numbers of rows of events and totals, and notes on what
    was dropped or approximated.
    """
    folder.mkdir()
    counts = dict.fromkeys(_COUNTED, 0)
    notes, runs = [], set()
    has_ranks = any(timeline.whole.ranks for timeline in timelines)
    for timeline in timelines:
        profile = timeline.profile
        for table in _TABLES:
            if table == _RUN and profile.attributes["run_id"] in runs:
                continue  # several profiles of one run: its row is there
            if table == _TAG and not tags_of(profile):
                continue
            name = f"{table}{ending}"
            if len(timelines) > 1:
                name = f"{table}/{_partition(timeline, table, has_ranks)}/part-{profile.id}{ending}"
            with phase(f"export {table}"):
                count = _write_table(_TableRows(timeline, table, options), folder / name, open_file)
            if table in counts:
                counts[table] += count
        runs.add(profile.attributes["run_id"])
        notes += [*profile.notes, *(() if timeline.is_whole else timeline.op_notes)]
        timeline.forget()
    losses = merged(note for note in notes if note.severity is not Severity.INFO)
    return Written(counts, tuple(losses))


def _write_table(rows: _TableRows, path: Path, open_file: OpenFile) -> int:
    count = 0
    with ExitStack() as stack:
        writer = None
        for batch in stack.enter_context(closing(rows.batches())):
            if writer is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = stack.enter_context(open_file(path, rows.schema))
            writer.write_batch(batch)
            count += len(batch)
    return count


def _partition(timeline: Timeline, table: str, has_ranks: bool) -> str:
    """Return the folders of run and rank; without rank for a table that has ranks in its rows."""
    (run,) = timeline.profile.batches(_RUN, 1)
    folder = f"run={quote(run.column('label')[0].as_py(), safe=' ')}"
    if not has_ranks or table == _RUN or "rank" in schema.metadata.tables[table].c:
        return folder
    ranks = set(timeline.whole.ranks.values())
    return f"{folder}/rank={next(iter(ranks)) if len(ranks) == 1 else _NO_RANK}"


@dataclass(frozen=True)
class _ExportColumn:
    """A column of a file: its field, and the function that makes its values from a batch of the table."""

    field: pa.Field
    values: Callable[[pa.RecordBatch], pa.Array]


class _TableRows:
    """The rows of one table of one profile, or of its slice."""

    def __init__(self, timeline: Timeline, table: str, options: Options) -> None:
        self._timeline = timeline
        self._table = table
        self._columns = list(_columns(timeline.profile, table, names=options.names))
        comment = schema.metadata.tables[table].comment or ""
        metadata = {"comment": comment, "schema_version": str(schema.SCHEMA_VERSION)}
        self._cut = table in schema.EVENT_TABLES and not timeline.is_whole
        if self._cut:
            metadata["slice"] = json.dumps(timeline.slice_description)
        self.schema = pa.schema([column.field for column in self._columns], metadata=metadata)

    def batches(self) -> Generator[pa.RecordBatch]:
        """Yield the rows, at most ROWS_AT_ONCE at a time."""
        name, timeline = self._table, self._timeline
        ids = timeline.columns(name, ("id",))["id"] if self._cut else None
        for batch in prefetched(timeline.profile.batches(name, ROWS_AT_ONCE)):
            rows = batch if ids is None else _with_ids(batch, ids)
            if len(rows):
                arrays = [column.values(rows) for column in self._columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _with_ids(batch: pa.RecordBatch, ids: np.ndarray) -> pa.RecordBatch:
    """Return the rows whose ids are among `ids`, which are in order."""
    column = batch.column("id")
    low, high = column[0].as_py(), column[-1].as_py()
    ids = ids[np.searchsorted(ids, low) : np.searchsorted(ids, high, side="right")]
    wanted = build_table([Column("id", Unit.ID, "")], {"id": ids}).column(0)
    return batch.filter(pc.is_in(column, value_set=wanted.combine_chunks()))


def _columns(profile: Profile, table: str, *, names: bool) -> Iterator[_ExportColumn]:
    """Yield the table's columns; with `names`, a column of texts behind each of ids or codes."""
    columns = schema.metadata.tables[table].columns
    ids = [column.name for column in columns if names and schema.is_name_id(column)]
    used = profile.distinct(table, ids) if ids else {}
    for column in columns:
        yield _ExportColumn(arrow_field(column), partial(_unchanged, column.name))
        if names and column.info.get("codes"):
            texts = dict(enumerate(column.info["codes"]))
            yield _resolved(f"{column.name}_name", column.name, texts)
        elif column.name in used:
            texts = profile.names(used[column.name], plain=table == schema.api_call.name)
            resolved = _resolved(column.name.removesuffix("_id"), column.name, texts)
            yield _or_own_text(resolved) if table == schema.range_.name else resolved


def _unchanged(name: str, batch: pa.RecordBatch) -> pa.Array:
    return batch.column(name)


def _resolved(name: str, source: str, texts: dict[int, str]) -> _ExportColumn:
    """Return a column of the texts of the numbers in the column `source`, null where there is none."""
    columns = [Column("number", Unit.ID, ""), Column("text", Unit.TEXT, "")]
    table = build_table(columns, {"number": list(texts), "text": list(texts.values())})
    numbers, dictionary = (column.combine_chunks() for column in table.columns)
    kind = pa.dictionary(pa.int32(), pa.string())
    metadata = {"comment": f"What `{source}` stands for."}

    def values(batch: pa.RecordBatch) -> pa.Array:
        indices = pc.index_in(batch.column(source), value_set=numbers)
        return pa.DictionaryArray.from_arrays(indices, dictionary)

    return _ExportColumn(pa.field(name, kind, True, metadata), values)


def _or_own_text(registered: _ExportColumn) -> _ExportColumn:
    """Return names of ranges: the registered one, else the row's own text."""
    # No dictionary: each row may have another text.
    metadata = {"comment": "Its message: what `name_id` stands for, or `text`."}

    def values(batch: pa.RecordBatch) -> pa.Array:
        return pc.coalesce(registered.values(batch).dictionary_decode(), batch.column("text"))

    return _ExportColumn(pa.field(registered.field.name, pa.string(), True, metadata), values)
