"""The tables of profiles as files of Arrow rows, for the formats that hold tables.

A folder has a file per table; of several profiles a folder per table, cut by run and, where one of them
has a rank, by rank, in the way of Hive: `kernel/run=LABEL/rank=0/part-1.parquet`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from operator import methodcaller
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
from nsysconv.report import array_of
from nsysconv.store.connection import arrow_field, prefetched
from nsysconv.store.read import Profile
from nsysconv.store.write import tags_of
from nsysconv.timeline.timeline import Timeline

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
    columns = list(_columns(timeline.profile, table, names=options.names))
    comment = schema.metadata.tables[table].comment or ""
    metadata = {"comment": comment, "schema_version": str(schema.SCHEMA_VERSION)}
    ids = None
    if table in schema.EVENT_TABLES and not timeline.is_whole:
        metadata["slice"] = json.dumps(timeline.slice_description)
        ids = timeline.columns(table, ("id",))["id"]
    file_schema = pa.schema([field for field, _ in columns], metadata=metadata)
    count, writer = 0, None
    with ExitStack() as stack:
        batches = prefetched(timeline.profile.batches(table, ROWS_AT_ONCE))
        for batch in stack.enter_context(closing(batches)):
            rows = batch if ids is None else _with_ids(batch, ids)
            if not len(rows):
                continue
            if writer is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = stack.enter_context(open_file(path, file_schema))
            arrays = [values(rows) for _, values in columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=file_schema))
            count += len(rows)
    return count


def _partition(timeline: Timeline, table: str, has_ranks: bool) -> str:
    (run,) = timeline.profile.batches(_RUN, 1)
    folder = f"run={quote(run.column('label')[0].as_py(), safe=' ')}"
    if not has_ranks or table == _RUN or "rank" in schema.metadata.tables[table].c:
        return folder
    ranks = set(timeline.whole.ranks.values())
    return f"{folder}/rank={next(iter(ranks)) if len(ranks) == 1 else _NO_RANK}"


# A column of a file: its field, and the function that makes its values from a batch of the table.
_Column = tuple[pa.Field, Callable[[pa.RecordBatch], pa.Array]]


def _with_ids(batch: pa.RecordBatch, ids: np.ndarray) -> pa.RecordBatch:
    column = batch.column("id")
    low, high = column[0].as_py(), column[-1].as_py()
    ids = ids[np.searchsorted(ids, low) : np.searchsorted(ids, high, side="right")]
    return batch.filter(pc.is_in(column, value_set=array_of(ids, "int")))


def _columns(profile: Profile, table: str, *, names: bool) -> Iterator[_Column]:
    columns = schema.metadata.tables[table].columns
    ids = [column.name for column in columns if names and schema.is_name_id(column)]
    used = profile.distinct(table, ids) if ids else {}
    for column in columns:
        yield arrow_field(column), methodcaller("column", column.name)
        # Behind ids and codes a column of their texts.
        if names and column.info.get("codes"):
            texts = dict(enumerate(column.info["codes"]))
            yield _resolved(f"{column.name}_name", column.name, texts)
        elif column.name in used:
            texts = profile.names(used[column.name], plain=table == schema.api_call.name)
            resolved = _resolved(column.name.removesuffix("_id"), column.name, texts)
            yield _or_own_text(resolved) if table == schema.range_.name else resolved


def _resolved(name: str, source: str, texts: dict[int, str]) -> _Column:
    numbers, dictionary = array_of(list(texts), "int"), array_of(list(texts.values()), "text")
    kind = pa.dictionary(pa.int32(), pa.string())
    metadata = {"comment": f"What `{source}` stands for."}

    def values(batch: pa.RecordBatch) -> pa.Array:
        indices = pc.index_in(batch.column(source), value_set=numbers)
        return pa.DictionaryArray.from_arrays(indices, dictionary)

    return pa.field(name, kind, True, metadata), values


def _or_own_text(registered: _Column) -> _Column:
    field, registered_names = registered
    # No dictionary: each row may have another text.
    metadata = {"comment": "Its message: what `name_id` stands for, or `text`."}

    def values(batch: pa.RecordBatch) -> pa.Array:
        return pc.coalesce(registered_names(batch).dictionary_decode(), batch.column("text"))

    return pa.field(field.name, pa.string(), True, metadata), values
