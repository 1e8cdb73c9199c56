"""A profile's tables as files of Arrow rows, for the formats that hold tables.

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
from typing import Protocol
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
"""Rows that are in memory at a time, and in one piece of a file."""

_RUN, _NOTE, _TAG = schema.run.name, schema.note.name, schema.profile_tag.name
# Events first: what reading them leaves out is told in the notes. Where rows stand in a store is nobody's
# business outside it.
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


class RowWriter(Protocol):
    """An open file that takes rows."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Appends rows."""


OpenFile = Callable[[Path, pa.Schema], AbstractContextManager[RowWriter]]


def write(
    timelines: Sequence[Timeline], folder: Path, options: Options, ending: str, open_file: OpenFile
) -> Written:
    """Writes the tables of these profiles into the new `folder`, into files that `open_file` opens.

    A table without rows has no file. The counts are rows of events and of totals; the notes are what had
    to be dropped or approximated.
    """
    folder.mkdir()
    counts = dict.fromkeys(_COUNTED, 0)
    notes, runs = [], set()
    ranked = any(timeline.whole.ranks for timeline in timelines)
    for timeline in timelines:
        profile = timeline.profile
        for table in _TABLES:
            if table == _RUN and profile.attributes["run_id"] in runs:
                continue  # several profiles of one run: its row is there
            if table == _TAG and not tags_of(profile):
                continue
            name = f"{table}{ending}"
            if len(timelines) > 1:
                name = f"{table}/{_part(timeline, table, ranked)}/part-{profile.id}{ending}"
            with phase(f"export {table}"):
                count = _write_table(_Rows(timeline, table, options), folder / name, open_file)
            if table in counts:
                counts[table] += count
        runs.add(profile.attributes["run_id"])
        notes += [*profile.notes, *(() if timeline.is_whole else timeline.op_notes)]
        timeline.forget()
    doubts = merged(note for note in notes if note.severity is not Severity.INFO)
    return Written(counts, tuple(doubts))


def _write_table(rows: _Rows, path: Path, open_file: OpenFile) -> int:
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


def _part(timeline: Timeline, table: str, ranked: bool) -> str:
    """The folders that tell run and rank. A table that tells ranks itself is not cut by them."""
    (run,) = timeline.profile.batches(_RUN, 1)
    part = f"run={quote(run.column('label')[0].as_py(), safe=' ')}"
    if not ranked or table == _RUN or "rank" in schema.metadata.tables[table].c:
        return part
    ranks = set(timeline.whole.ranks.values())
    return f"{part}/rank={next(iter(ranks)) if len(ranks) == 1 else _NO_RANK}"


@dataclass(frozen=True)
class _Written:
    """A column as it is written: its field, and what it is made of a batch of the table."""

    field: pa.Field
    values: Callable[[pa.RecordBatch], pa.Array]


class _Rows:
    """The rows of one table of one profile, or of its slice."""

    def __init__(self, timeline: Timeline, table: str, options: Options) -> None:
        self._timeline = timeline
        self._table = table
        self._columns = list(_columns(timeline.profile, table, names=options.names))
        comment = schema.metadata.tables[table].comment or ""
        about = {"comment": comment, "schema_version": str(schema.SCHEMA_VERSION)}
        self._cut = table in schema.EVENT_TABLES and not timeline.is_whole
        if self._cut:
            about["slice"] = json.dumps(timeline.described)
        self.schema = pa.schema([column.field for column in self._columns], metadata=about)

    def batches(self) -> Generator[pa.RecordBatch]:
        """The rows, at most ROWS_AT_ONCE at a time."""
        name, timeline = self._table, self._timeline
        kept = timeline.columns(name, ("id",))["id"] if self._cut else None
        for batch in prefetched(timeline.profile.batches(name, ROWS_AT_ONCE)):
            chosen = batch if kept is None else _chosen(batch, kept)
            if len(chosen):
                arrays = [column.values(chosen) for column in self._columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _chosen(batch: pa.RecordBatch, kept: np.ndarray) -> pa.RecordBatch:
    """The rows whose ids are among `kept`, which are in order."""
    ids = batch.column("id")
    low, high = ids[0].as_py(), ids[-1].as_py()
    here = kept[np.searchsorted(kept, low) : np.searchsorted(kept, high, side="right")]
    wanted = build_table([Column("id", Unit.ID, "")], {"id": here}).column(0)
    return batch.filter(pc.is_in(ids, value_set=wanted.combine_chunks()))


def _columns(profile: Profile, table: str, *, names: bool) -> Iterator[_Written]:
    """The table's columns; with `names`, beside each that stands for texts another that holds them."""
    columns = schema.metadata.tables[table].columns
    ids = [column.name for column in columns if names and schema.is_name_id(column)]
    used = profile.distinct(table, ids) if ids else {}
    for column in columns:
        yield _Written(arrow_field(column), partial(_as_it_is, column.name))
        if names and column.info.get("codes"):
            words = dict(enumerate(column.info["codes"]))
            yield _resolved(f"{column.name}_name", column.name, words)
        elif column.name in used:
            texts = profile.names(used[column.name], plain=table == schema.api_call.name)
            resolved = _resolved(column.name.removesuffix("_id"), column.name, texts)
            yield _or_text(resolved) if table == schema.range_.name else resolved


def _as_it_is(name: str, batch: pa.RecordBatch) -> pa.Array:
    return batch.column(name)


def _resolved(name: str, of: str, texts: dict[int, str]) -> _Written:
    """A column of the texts that another's numbers stand for; null where there is none."""
    both = [Column("number", Unit.ID, ""), Column("text", Unit.TEXT, "")]
    known = build_table(both, {"number": list(texts), "text": list(texts.values())})
    numbers, words = (part.combine_chunks() for part in known.columns)
    kind = pa.dictionary(pa.int32(), pa.string())
    about = {"comment": f"What `{of}` stands for."}

    def values(batch: pa.RecordBatch) -> pa.Array:
        places = pc.index_in(batch.column(of), value_set=numbers)
        return pa.DictionaryArray.from_arrays(places, words)

    return _Written(pa.field(name, kind, True, about), values)


def _or_text(registered: _Written) -> _Written:
    """Names of ranges: of those that were not registered their own text, which may differ in each row."""
    about = {"comment": "Its message: what `name_id` stands for, or `text`."}

    def values(batch: pa.RecordBatch) -> pa.Array:
        return pc.coalesce(registered.values(batch).dictionary_decode(), batch.column("text"))

    return _Written(pa.field(registered.field.name, pa.string(), True, about), values)
