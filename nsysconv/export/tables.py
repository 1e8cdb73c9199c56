"""The tables of profiles as files of Arrow rows, for the formats that hold tables.

A folder has a file per table; of several profiles a folder per table, cut by run and, where one of them
has a rank, by rank, in the way of Hive: `kernel/run=LABEL/rank=0/part-1.parquet`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nsysconv import schema
from nsysconv.errors import UsageError, available_hint
from nsysconv.export.contract import Options, Written
from nsysconv.notes import Severity, merged
from nsysconv.phases import phase
from nsysconv.report import array_of
from nsysconv.store.connection import arrow_field, prefetched
from nsysconv.store.read import Profile
from nsysconv.store.write import tags_of
from nsysconv.timeline.timeline import Timeline

ROWS_AT_ONCE = 1 << 17
"""Rows that are in memory at a time, and in one row group of a file."""

_RUN, _NOTE, _TAG = schema.run.name, schema.note.name, schema.profile_tag.name
# Events first: reading them may add notes on rows that are left out.
_OF_STORES = (
    *(schema.extent.name, schema.checksum.name),
    *(schema.implausible.name, schema.kept_report.name),
)
_TABLES = (
    *schema.EVENT_TABLES,
    *(
        table.name
        for table in schema.metadata.sorted_tables
        if table.name not in (*schema.EVENT_TABLES, *_OF_STORES, _NOTE)
    ),
    _NOTE,
)
# Readers of Hive's partitioned folders take this for null.
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
    counts = dict.fromkeys(schema.COUNTED_TABLES, 0)
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
                count = _write_table(timeline, table, options, folder / name, open_file)
            if table in counts:
                counts[table] += count
        runs.add(profile.attributes["run_id"])
        notes += [*profile.notes, *(() if timeline.is_whole else timeline.op_notes)]
        timeline.forget()
    losses = merged(note for note in notes if note.severity is not Severity.INFO)
    return Written(counts, tuple(losses))


def _write_table(
    timeline: Timeline, table: str, options: Options, path: Path, open_file: OpenFile
) -> int:
    rows_schema, batches = _rows(timeline, table, names=options.names)
    count, writer = 0, None
    with ExitStack() as stack:
        for batch in stack.enter_context(closing(batches)):
            if writer is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = stack.enter_context(open_file(path, rows_schema))
            writer.write_batch(batch)
            count += len(batch)
    return count


def event_table(timeline: Timeline, table: str, wanted: Sequence[str] | None) -> pa.Table:
    """Return the rows of an event table that belong to the slice, as `write` puts them into files.

    `wanted` are columns, None for all. Raises UsageError for one that is not there.
    """
    if wanted is not None:
        known = _column_names(table, names=True)
        if unknown := next((name for name in wanted if name not in known), None):
            what, every = f"no column {unknown!r} of {table}", "docs/schema.md has them."
            raise UsageError(what, hint=available_hint(unknown, known, every))
    rows_schema, batches = _rows(timeline, table, names=True, wanted=wanted)
    with closing(batches), phase(f"read {table}"):
        found = pa.Table.from_batches(batches, rows_schema)
    return found if wanted is None else found.select(list(wanted))


def _rows(
    timeline: Timeline, table: str, *, names: bool, wanted: Sequence[str] | None = None
) -> tuple[pa.Schema, Generator[pa.RecordBatch]]:
    # The result is the schema of a table's rows, and the rows of the slice in batches of at most
    # ROWS_AT_ONCE.
    columns = list(_columns(timeline.profile, table, names=names, wanted=wanted))
    comment = schema.metadata.tables[table].comment or ""
    metadata = {"comment": comment, "schema_version": str(schema.SCHEMA_VERSION)}
    ids = None
    if table in schema.EVENT_TABLES and not timeline.is_whole:
        metadata["slice"] = json.dumps(timeline.slice_description)
        ids = timeline.columns(table, ("id",))["id"]
    rows_schema = pa.schema([column.field for column in columns], metadata=metadata)
    needed = {"id", *(source for column in columns for source in column.sources)}
    sources = [each.name for each in schema.metadata.tables[table].c if each.name in needed]

    def batches() -> Generator[pa.RecordBatch]:
        with closing(prefetched(timeline.profile.batches(table, ROWS_AT_ONCE, sources))) as read:
            for batch in read:
                rows = batch if ids is None else _with_ids(batch, ids)
                if len(rows):
                    arrays = [column.values(rows) for column in columns]
                    yield pa.RecordBatch.from_arrays(arrays, schema=rows_schema)

    return rows_schema, batches()


def _partition(timeline: Timeline, table: str, has_ranks: bool) -> str:
    (run,) = timeline.profile.batches(_RUN, 1)
    folder = f"run={quote(run.column('label')[0].as_py(), safe=' ')}"
    if not has_ranks or table == _RUN or "rank" in schema.metadata.tables[table].c:
        return folder
    ranks = set(timeline.whole.ranks.values())
    return f"{folder}/rank={next(iter(ranks)) if len(ranks) == 1 else _NO_RANK}"


@dataclass(frozen=True)
class _Column:
    # This is a column of a file. `values` makes it from a batch that has the columns `sources`.
    field: pa.Field
    sources: tuple[str, ...]
    values: Callable[[pa.RecordBatch], pa.Array]


def _with_ids(batch: pa.RecordBatch, ids: np.ndarray) -> pa.RecordBatch:
    column = batch.column("id")
    low, high = column[0].as_py(), column[-1].as_py()
    ids = ids[np.searchsorted(ids, low) : np.searchsorted(ids, high, side="right")]
    return batch.filter(pc.is_in(column, value_set=array_of(ids, "int")))


def _columns(
    profile: Profile, table: str, *, names: bool, wanted: Sequence[str] | None
) -> Iterator[_Column]:
    # The columns are those of `wanted` in the table's order, or all if it is None.
    columns = schema.metadata.tables[table].columns
    beside = _texts_beside(table) if names else {}
    shown = set(_column_names(table, names=names) if wanted is None else wanted)
    ids = [
        column.name
        for column in columns
        if schema.is_name_id(column) and beside.get(column.name) in shown
    ]
    used = profile.distinct(table, ids) if ids else {}
    for column in columns:
        name = column.name
        if name in shown:
            yield _Column(arrow_field(column), (name,), methodcaller("column", name))
        if beside.get(name) not in shown:
            continue
        if name in used:
            texts = profile.names(used[name], plain=table == schema.api_call.name)
        else:
            texts = dict(enumerate(column.info["codes"]))
        resolved = _resolved(beside[name], name, texts)
        yield _or_own_text(resolved) if table == schema.range_.name and name in used else resolved


def _column_names(table: str, *, names: bool) -> list[str]:
    beside = _texts_beside(table) if names else {}
    return [*schema.metadata.tables[table].c.keys(), *beside.values()]


def _texts_beside(table: str) -> dict[str, str]:
    # The result has, by column of ids or codes, the name of the column with their texts.
    found = {}
    for column in schema.metadata.tables[table].columns:
        if column.info.get("codes"):
            found[column.name] = f"{column.name}_name"
        elif schema.is_name_id(column):
            found[column.name] = column.name.removesuffix("_id")
    return found


def _resolved(name: str, source: str, texts: dict[int, str]) -> _Column:
    numbers, dictionary = array_of(list(texts), "int"), array_of(list(texts.values()), "text")
    kind = pa.dictionary(pa.int32(), pa.string())
    metadata = {"comment": f"What `{source}` stands for."}

    def values(batch: pa.RecordBatch) -> pa.Array:
        indices = pc.index_in(batch.column(source), value_set=numbers)
        return pa.DictionaryArray.from_arrays(indices, dictionary)

    return _Column(pa.field(name, kind, True, metadata), (source,), values)


def _or_own_text(registered: _Column) -> _Column:
    # The column is not dictionary-encoded, because each row may have another text.
    metadata = {"comment": "Its message: what `name_id` stands for, or `text`."}

    def values(batch: pa.RecordBatch) -> pa.Array:
        return pc.coalesce(registered.values(batch).dictionary_decode(), batch.column("text"))

    field = pa.field(registered.field.name, pa.string(), True, metadata)
    return _Column(field, (*registered.sources, "text"), values)
