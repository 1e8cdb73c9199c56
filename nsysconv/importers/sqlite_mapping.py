"""Rows out of the event tables of a SQLite source, also where some of their cells are damaged.

Each importer of SQLite files states its tables as mappings. A mapping gives one plain select, fast and
without checks. Where the schema refuses a row of it, or a survey has seen odd cells, the select is made
again with guards, which leave such rows out and count them in notes.

Databases of nvprof and exports of Nsight Systems both hold CUPTI's activity records: what has the same
columns in both is stated here once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Self, TypeVar

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.importers import directives
from nsysconv.importers.contract import lost_gpu_work
from nsysconv.importers.event_records import EventRecords
from nsysconv.importers.probe import Probe, SourceTable
from nsysconv.importers.sqlite_columns import (
    TIME_LIMIT,
    Expression,
    SourceColumns,
    count_rows,
    has_columns,
    has_rows,
    is_sparse,
    row_numbers,
    whole_number_sql,
)
from nsysconv.names import WORK, called
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import SourceRows

CUPTI_DEVICE_COLUMNS = {
    "sm_count": "numMultiprocessors",
    "compute_major": "computeCapabilityMajor",
    "compute_minor": "computeCapabilityMinor",
    "memory_bytes": "globalMemorySize",
    "max_warps_per_sm": "maxWarpsPerMultiprocessor",
    "max_blocks_per_sm": "maxBlocksPerMultiprocessor",
    "max_registers_per_sm": "maxRegistersPerMultiprocessor",
    "max_shared_bytes_per_sm": "maxSharedMemoryPerMultiprocessor",
    "threads_per_warp": "numThreadsPerWarp",
}
"""Our column of `device` -> CUPTI's; not those that CUPTI has in other units (CUPTI_RATES)."""
CUPTI_RATES = {
    "memory_bandwidth_bytes_per_s": "globalMemoryBandwidth",
    "sm_clock_hz": "coreClockRate",
}
"""Our column of `device` -> CUPTI's: in kB/s and kHz."""
# In kB/s and kHz: beyond these are rates of other units, and those that nobody measured.
_MOST = {"memory_bandwidth_bytes_per_s": 1 << 40, "sm_clock_hz": 10_000_000}


def in_base_units(row: Mapping[str, Any]) -> dict[str, int]:
    """Return the rates of a device, by our column, in bytes/s and Hz; implausible ones are left out.

    `row` has them as CUPTI does, in kB/s and kHz.
    """
    found = {name: row.get(name) for name in CUPTI_RATES}
    return {
        name: value * 1000
        for name, value in found.items()
        if isinstance(value, int) and 0 < value < _MOST[name]
    }


LAUNCH_COLUMNS = {
    **{f"grid_{axis}": f"grid{axis.upper()}" for axis in "xyz"},
    **{f"block_{axis}": f"block{axis.upper()}" for axis in "xyz"},
    "registers_per_thread": "registersPerThread",
    "static_shared_bytes": "staticSharedMemory",
    "dynamic_shared_bytes": "dynamicSharedMemory",
    "local_bytes_per_thread": "localMemoryPerThread",
}
"""Our column of `kernel` -> CUPTI's: how a kernel was launched."""


@dataclass(frozen=True)
class Clock:
    """The zero of a source's times: `zero` is subtracted from each of them.

    `zero_utc_ns` is the time of day of our zero, `recording_ns` how long the recording is; None:
    the source does not say.
    """

    zero: int
    zero_utc_ns: int | None
    recording_ns: int | None
    notes: tuple[Note, ...] = ()


@dataclass
class SurveyedIds:
    """Ids and codes that the rows of event tables mention; each importer adds its own kinds."""

    threads: set[tuple[int, int]] = field(default_factory=set)
    """(pid, tid)."""
    codes: set[tuple[str, str, int]] = field(default_factory=set)
    """(source table, column, code)."""
    suspects: set[str] = field(default_factory=set)
    """Source tables with cells that would go wrong unnoticed: ids that are not numbers, and the like."""
    constructs: set[directives.Construct] = field(default_factory=set)
    overfull: set[str] = field(default_factory=set)
    """Source tables with more constructs than are named."""

    def merge(self, other: Self) -> None:
        """Add what another table mentions."""
        for name in vars(self):
            getattr(self, name).update(getattr(other, name))

    def add_construct(self, source: str, row: Mapping[str, Any]) -> None:
        """Add the construct of a surveyed row, if it names one and there are not too many already."""
        construct = directives.construct_of(source, row)
        if construct is None:
            return
        if len(self.constructs) < directives.MAX_CONSTRUCTS:
            self.constructs.add(construct)
        else:
            self.overfull.add(source)


# -- mappings


@dataclass(frozen=True, kw_only=True)
class MappingContext:
    """Decisions of the survey of a file for a mapping; each importer adds its own.

    `zero` is subtracted from every time. `construct_ids`: name ids of constructs of OpenACC and OpenMP.
    `records`: those of the events that waits are for, where the file has them.
    `careful`: look for rows without a time and for ids that cannot be, which takes time.
    """

    zero: int
    construct_ids: directives.ConstructIds = field(default_factory=dict)
    records: EventRecords | None = None
    careful: bool = False


ContextT = TypeVar("ContextT", bound=MappingContext)


@dataclass(frozen=True)
class TableMapping(Generic[ContextT]):
    """A mapping of one source table to one of our event tables.

    `columns` gives an expression for each of our columns, `where` a filter, `join` the table or what it
    is joined with, under the name `alias`. Without its `needs` a table is not read.
    `start` and `end` are the columns of times, the same one for rows that are of a moment.
    `classes`: the values of `eventClass` that are meant; `events`: the rows that are meant, as SQL.
    `reals`: columns whose numbers need not be whole. `own_fact`: the fact of these rows, if it is not
    that of our table.
    """

    target: str
    source: str
    columns: Callable[[SourceColumns, ContextT], dict[str, Expression]]
    needs: frozenset[str] = frozenset({"start", "end"})
    where: Callable[[SourceColumns, ContextT], Expression | None] = lambda c, context: None
    join: Callable[[SourceColumns, ContextT], sa.FromClause] = lambda c, context: c.table
    alias: str = ""
    start: str = "start"
    end: str = "end"
    classes: frozenset[int] = frozenset()
    events: str = "1"
    reals: frozenset[str] = frozenset()
    own_fact: Fact | None = None

    @property
    def fact(self) -> Fact:
        """Return the fact that a profile holds if these rows were recorded."""
        return self.own_fact or schema.EVENT_TABLES[self.target]

    def is_joined(self, source: SourceTable, context: ContextT) -> bool:
        """Return whether the rows of this table are joined with others."""
        columns = SourceColumns(source, alias=self.alias)
        return self.join(columns, context) is not columns.table

    def select(self, columns: SourceColumns, context: ContextT) -> sa.Select[Any]:
        """Return the rows as a select over the attached source, columns named as ours."""
        expressions = self.columns(columns, context)
        labeled = [expression.label(name) for name, expression in expressions.items()]
        rows = sa.select(*labeled).select_from(self.join(columns, context))
        if self.classes and "eventClass" in columns:
            rows = rows.where(columns["eventClass"].in_(sorted(self.classes)))
        where = self.where(columns, context)
        return rows if where is None else rows.where(where)


def unreadable_reason(probe: Probe, mapping: TableMapping[Any]) -> str:
    """Return why a table of the file cannot be read, or "" if it can."""
    source = probe.tables[mapping.source]
    missing = sorted(mapping.needs - set(source.columns))
    if missing:
        return f"has no column {', '.join(missing)} and was not read"
    return "" if source.row_id is not None else "has no row numbers and was not read"


def unread_note(source: str, reason: str, facts: Iterable[Fact]) -> Note:
    """Return the note that a source table was not read, so that `facts` are not recorded."""
    text = f"{source} {reason}"
    return Note("not-a-table", Severity.DROPPED, text, 1, source, frozenset(facts))


# -- columns that CUPTI's records have in both databases


def interval(
    c: SourceColumns, start_ns: Expression, context: MappingContext
) -> dict[str, Expression]:
    """Return when a row began, which is `start_ns`, and how long it took."""
    start, end = c["start"], c["end"]
    values = {"start_ns": start_ns, "dur_ns": end - start}
    if not context.careful:
        return values
    # A row that starts and ends at 0 has no time. The test makes copying a sixth slower, and the
    # schema's checks refuse such rows, so it is made only where they did.
    timeless = (start == 0) & (end == 0)
    return {name: sa.case((timeless, sa.null()), else_=value) for name, value in values.items()}


def peer_device(c: SourceColumns) -> Expression:
    """Return the device at the other end of a copy between devices."""
    return sa.case((c["srcDeviceId"] == c["deviceId"], c["dstDeviceId"]), else_=c["srcDeviceId"])


def unrecorded_gpu_work(
    probe: Probe, source: str, column: str, call_names: Mapping[int, str]
) -> Note | None:
    """Return a note if a call succeeded that must have given GPU work; for files without any.

    `call_names`: what the numbers in this column of a table of API calls stand for.
    """
    gives_work = called(*WORK)
    working = {n: name for n, name in call_names.items() if gives_work(name)}
    if not working or source not in probe.tables:
        return None
    succeeded = "returnValue = 0" if has_columns(probe, source, "returnValue") else "1"
    numbers = ", ".join(map(str, working))
    rows = probe.select(
        f"SELECT {column} FROM {source} WHERE {column} IN ({numbers}) AND {succeeded} LIMIT 1"
    )
    if not rows:
        return None
    return lost_gpu_work(working[rows[0][0]])


def with_records(c: SourceColumns, context: MappingContext) -> sa.FromClause:
    """Return a table of waits, with the record of the event that each is for where that is known."""
    return c.table if context.records is None else context.records.join(c)


def record_columns(context: MappingContext) -> dict[str, Expression]:
    """Return the columns of `sync` that say which record a wait is for; none where that is not known."""
    return {} if context.records is None else context.records.columns


# -- rows, plain and guarded


@dataclass(frozen=True)
class CellChecks:
    """The cells of a source's event tables that guards look at.

    `required`: rows without a whole number there cannot be placed in time, process or device and are
    left out; other cells that hold no number become null. `not_numbers`: columns that hold something
    else by right.
    """

    required: frozenset[str]
    not_numbers: frozenset[str] = frozenset()


def source_rows(
    probe: Probe,
    mapping: TableMapping[ContextT],
    context: ContextT,
    checks: CellChecks,
    numbers: tuple[int, int],
    *,
    sparse: bool,
) -> SourceRows:
    """Return the rows of a mapping, to be selected from the source between two row numbers."""
    source = probe.tables[mapping.source]
    # A table that is joined with nothing needs no other name, and may be read from pages.
    is_joined = mapping.is_joined(source, context)
    columns = SourceColumns(source, alias=mapping.alias if is_joined else "")
    rows = SourceRows(
        table=mapping.target,
        select=mapping.select(columns, context),
        row_id=columns.row_id,
        first=numbers[0],
        last=numbers[1],
        guarded=lambda: guarded_rows(probe, rows, mapping, context, columns, checks),
        sparse=sparse,
    )
    return rows


def event_rows(
    probe: Probe,
    mapping: TableMapping[ContextT],
    context: ContextT,
    checks: CellChecks,
    *,
    is_suspect: bool,
) -> tuple[SourceRows | None, list[Note]]:
    """Return all rows of a mapping (None: its table is empty), and notes if it `is_suspect`.

    Arithmetic on cells that a survey found odd would go unnoticed, so those rows are guarded at once.
    """
    first, last, count = row_numbers(probe, probe.tables[mapping.source])
    if first is None or last is None:
        return None, []
    sparse = is_sparse(first, last, count)
    rows = source_rows(probe, mapping, context, checks, (first, last), sparse=sparse)
    if not is_suspect:
        return rows, []
    sound, left_out = rows.guarded()
    return replace(sound, guarded=lambda: (sound, [])), left_out


def guarded_rows(
    probe: Probe,
    rows: SourceRows,
    mapping: TableMapping[ContextT],
    context: ContextT,
    columns: SourceColumns,
    checks: CellChecks,
) -> tuple[SourceRows, list[Note]]:
    """Return the rows without those that the schema does not admit, and notes that count them.

    `columns` are those of the plain select and know which it used.
    """
    guard = _Guard(probe, mapping)
    damaged = guard.check_types(columns.used, checks)
    guard.check_times(columns, context.zero)
    whole = SourceColumns(columns.source, damaged, columns.alias)
    select = mapping.select(whole, replace(context, careful=True))
    for condition in guard.conditions:
        select = select.where(condition(whole))
    return replace(rows, select=select), guard.notes


class _Guard:
    def __init__(self, probe: Probe, mapping: TableMapping[Any]) -> None:
        self._probe = probe
        self._mapping = mapping
        self.conditions: list[Callable[[SourceColumns], sa.ColumnElement[bool]]] = []
        self.notes: list[Note] = []

    def check_types(self, names: Iterable[str], checks: CellChecks) -> frozenset[str]:
        # The result is the columns with cells of a wrong type. Notes are made of cells that are not
        # whole numbers either.
        table, damaged = self._mapping.source, set()
        for name in sorted(set(names) - checks.not_numbers):
            real = name in self._mapping.reals
            types = "'integer', 'real', 'null'" if real else "'integer', 'null'"
            odd = f"typeof({name}) NOT IN ({types})"
            if not has_rows(self._probe, table, odd):
                continue
            if not real:
                damaged.add(name)
            bad = odd if real else f"{odd} AND {whole_number_sql(name)} IS NULL"
            if name in checks.required:
                text = f"rows whose {name} is not a whole number were left out"
                if self._note_rows("wrong-type", text, bad):
                    self.conditions.append(partial(_is_null_or_whole, name))
            else:
                number = "number" if real else "whole number"
                text = f"cells of {name} without a {number} are not recorded"
                self._note_rows("wrong-type", text, bad)
        return frozenset(damaged)

    def check_times(self, columns: SourceColumns, zero: int) -> None:
        start = self._mapping.start
        end = self._mapping.end if self._mapping.end in columns else start
        began, ended = whole_number_sql(start), whole_number_sql(end)
        if end != start and self._note_rows(
            "negative-duration",
            "rows that end before they start were left out",
            f"{ended} < {began}",
        ):
            self.conditions.append(
                lambda c: c[start].is_(None) | c[end].is_(None) | (c[end] >= c[start])
            )
        low, high = zero - TIME_LIMIT, zero + TIME_LIMIT
        # 0 and 0 is no time, which is not an impossible one.
        if self._note_rows(
            "impossible-time",
            "rows more than 104 days away from the recording's zero were left out",
            f"NOT ({began} BETWEEN {low} AND {high} "
            f"AND coalesce({ended}, {began}) BETWEEN {low} AND {high} "
            f"AND coalesce({ended} - {began}, 0) <= {TIME_LIMIT}) "
            f"AND NOT coalesce({began} = 0 AND {ended} = 0, 0)",
        ):
            self.conditions.append(
                lambda c: (
                    c[start].is_(None)
                    | (
                        c[start].between(low, high)
                        & sa.func.coalesce(c[end], c[start]).between(low, high)
                        & (sa.func.coalesce(c[end] - c[start], 0) <= TIME_LIMIT)
                    )
                    | ((c[start] == 0) & (c[end] == 0))
                )
            )

    def _note_rows(self, slug: str, text: str, bad: str) -> bool:
        table = self._mapping.source
        count, where = count_rows(self._probe, table, f"({self._mapping.events}) AND ({bad})")
        if count:
            facts = frozenset({self._mapping.fact})
            self.notes.append(Note(slug, Severity.DROPPED, f"{table}: {text}", count, where, facts))
        return bool(count)


def _is_null_or_whole(name: str, c: SourceColumns) -> sa.ColumnElement[bool]:
    return c.table.c[name].is_(None) | c[name].is_not(None)
