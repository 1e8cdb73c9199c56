"""Survey of a database before its rows are copied: who appears in it, and when.

One `SELECT DISTINCT` over each group of identifying columns gives processes, threads, devices and the
names that rows refer to, and one scan of each table the extremes of its times. The scans run in several
threads: `sqlite3` releases the interpreter lock while it works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

from nsysconv.importers import directives
from nsysconv.importers.nvprof_database import tables
from nsysconv.importers.nvprof_database.names import MAX_CALL, MAX_TEXT_ID
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import TIME_LIMIT, as_whole_number
from nsysconv.importers.sqlite_mapping import Clock, SurveyedIds
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING

_UNSIGNED = 0xFFFFFFFF
# Each source table has groups of columns that are scanned together. Narrow groups are cheaper.
_IDENTIFYING: dict[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys((tables.RUNTIME, tables.DRIVER), (("processId", "threadId"), ("cbid",))),
    **dict.fromkeys(tables.KERNELS, (("deviceId",), ("name",))),
    tables.MEMCPY: (("deviceId", "copyKind", "srcKind", "dstKind"),),
    tables.PEER_COPY: (
        ("deviceId", "copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId"),
    ),
    tables.MEMSET: (("deviceId", "memoryKind"),),
    tables.UNIFIED_MEMORY: (("processId", "counterKind", "srcId", "dstId"),),
    tables.SYNCS: (("streamId", "cudaEventId", "type"),),
    tables.MARKER: (("flags", "objectKind", "objectId", "domain"), ("name",)),
    tables.OVERHEAD: (("overheadKind", "objectKind", "objectId"),),
    **{
        source: (("cuProcessId", "cuThreadId"), identifying)
        for source, identifying in directives.IDENTIFYING.items()
    },
}
_CODE_COLUMNS = frozenset({"copyKind", "srcKind", "dstKind", "memoryKind", "overheadKind"})
_TIMES = {
    mapping.source: (mapping.start, mapping.end) for mapping in tables.MAPPINGS
} | dict.fromkeys(directives.SOURCES, ("start", "end"))

Row = dict[str, Any]


@dataclass
class Identities(SurveyedIds):
    """The identities that the surveyed tables mention."""

    call_pids: set[int] = field(default_factory=set)
    """Processes that called the API."""
    other_pids: set[int] = field(default_factory=set)
    """Processes of ranges, migrations, overhead and directives."""
    ordinals: set[int] = field(default_factory=set)
    """Devices that ran GPU operations, or were the other end of a copy."""
    op_ordinals: set[int] = field(default_factory=set)
    """Those of them that ran GPU operations."""
    symbol_ids: set[int] = field(default_factory=set)
    """Texts of kernels."""
    text_ids: set[int] = field(default_factory=set)
    """Texts of ranges."""
    domains: set[tuple[int, int]] = field(default_factory=set)
    """(pid, id of the domain's name)."""
    calls: set[tuple[int, int]] = field(default_factory=set)
    """(layer, number of the function)."""
    impossible_names: set[tuple[str, str]] = field(default_factory=set)
    """(table, column) with ids of names that cannot be."""
    process_zero: set[str] = field(default_factory=set)
    """Source tables whose rows name the process 0."""

    @property
    def pids(self) -> set[int]:
        """Return all processes with events."""
        return self.call_pids | self.other_pids


@dataclass(frozen=True)
class TimeRange:
    """The number of a table's events, and their times as far as these are whole numbers above 0."""

    count: int
    first: int | None
    last: int | None
    middle: int | None
    """The time of a row in the table's middle."""
    sound: bool
    """True if all times are whole numbers above 0."""


@dataclass(frozen=True)
class DatabaseSurvey:
    """All that the scans found, and the times of each table with rows."""

    ids: Identities
    times: dict[str, TimeRange]


def survey(probe: Probe, sources: Iterable[str]) -> DatabaseSurvey:
    """Scan these tables of a file."""
    sources = tuple(sources)
    times = {source: probe.submit(_time_range, probe, source) for source in sources}
    scans: list[Future[Identities]] = [
        probe.submit(_scan, probe, source, columns)
        for source in sources
        for columns in _IDENTIFYING[source]
    ]
    ids = Identities()
    for scan in scans:
        ids.merge(scan.result())
    ranges = {source: future.result() for source, future in times.items()}
    ids.suspects.update(source for source, times in ranges.items() if not times.sound)
    return DatabaseSurvey(ids, {source: times for source, times in ranges.items() if times.count})


# -- times


def _time_range(probe: Probe, source: str) -> TimeRange:
    start, end = _TIMES[source]
    if not {start, end} <= set(probe.tables[source].columns):
        return TimeRange(0, None, None, None, True)
    events = f"{source} WHERE {tables.EVENTS.get(source, '1')}"
    count, *extremes = probe.select(
        f"SELECT count(*), min({start}), max({start}), min({end}), max({end}) FROM {events}"
    )[0]
    sound = not count or all(isinstance(value, int) and value > 0 for value in extremes)
    if sound:
        first, last = (extremes[0], extremes[3]) if count else (None, None)
    else:
        first, last = probe.select(
            f"SELECT min(CASE WHEN typeof({start}) = 'integer' AND {start} > 0 THEN {start} END), "
            f"max(CASE WHEN typeof({end}) = 'integer' AND {end} > 0 THEN {end} END) FROM {events}"
        )[0]
    rows = probe.select(f"SELECT {start} FROM {events} LIMIT 1 OFFSET {count // 2}")
    middle = rows[0][0] if rows and isinstance(rows[0][0], int) and rows[0][0] > 0 else None
    return TimeRange(count, first, last, middle, sound)


_NANOSECONDS = 1_000_000_000
# September 2001. No machine runs for 31 years.
_TIMES_OF_DAY = 10**18
_NO_BASE = Note("no-time-base", Severity.INFO, "times count from an unrecorded moment")


def read_clock(times: Mapping[str, TimeRange]) -> Clock:
    """Return the clock of a file, by the times of its tables.

    nvprof writes nanoseconds, most often since 1970, else (Windows, analysis captures) since a moment of
    the machine that the file does not name. Either way they are shown from the whole second at or before
    the first event.

    One damaged cell must not move the zero away from all others: what is further from the middle of the
    rows than a recording can last does not count.
    """
    middles = [table.middle for table in times.values() if table.middle is not None]
    if not middles:
        return Clock(0, None, None)
    anchor = median_low(middles)
    near = range(anchor - TIME_LIMIT, anchor + TIME_LIMIT)
    firsts = [t.first for t in times.values() if t.first is not None and t.first in near]
    lasts = [t.last for t in times.values() if t.last is not None and t.last in near]
    zero = min([*firsts, anchor]) // _NANOSECONDS * _NANOSECONDS
    recording = max([*lasts, anchor]) - zero
    if zero > _TIMES_OF_DAY:
        return Clock(zero, zero, recording)
    return Clock(zero, None, recording, (_NO_BASE,))


# -- identities


def _scan(probe: Probe, source: str, wanted: tuple[str, ...]) -> Identities:
    columns = [name for name in wanted if name in probe.tables[source].columns]
    ids = Identities()
    if not columns:
        return ids
    note_row = _NOTE_ROW.get(source, _note_operation)
    for values in probe.iterate(f"SELECT DISTINCT {', '.join(columns)} FROM {source}"):
        row = dict(zip(columns, values, strict=True))
        for name, value in row.items():
            wanted_type = bytes if name == "objectId" else int
            if value is not None and (not isinstance(value, wanted_type) or value == MISSING):
                ids.suspects.add(source)
                row[name] = as_whole_number(value) if wanted_type is int else None
        ids.codes.update(
            (source, n, v) for n, v in row.items() if n in _CODE_COLUMNS and v is not None
        )
        note_row(ids, source, row)
        _note_name(ids, source, row)
    return ids


def _note_call(ids: Identities, source: str, row: Row) -> None:
    pid, tid, number = row.get("processId"), row.get("threadId"), row.get("cbid")
    if pid:
        ids.call_pids.add(pid)
        if tid is not None:
            ids.threads.add((pid, tid & _UNSIGNED))
    if number is not None:
        if 0 <= number <= MAX_CALL:
            ids.calls.add((tables.LAYERS[source], number))
        else:
            _note_impossible_name(ids, source, "cbid")


def _note_operation(ids: Identities, source: str, row: Row) -> None:
    ordinal = row.get("deviceId")
    if "deviceId" in row and ordinal is None:
        ids.suspects.add(source)
    if ordinal is not None:
        ids.op_ordinals.add(ordinal)
        ends = (ordinal, row.get("srcDeviceId"), row.get("dstDeviceId"))
        ids.ordinals.update(end for end in ends if end is not None)


def _note_migration(ids: Identities, source: str, row: Row) -> None:
    kind = row.get("counterKind")
    if kind not in tables.MIGRATIONS:
        return
    if row.get("processId"):
        ids.other_pids.add(row["processId"])
    device = row.get("srcId" if kind == tables.DTOH else "dstId")
    if device is not None:
        ids.op_ordinals.add(device)
        ids.ordinals.add(device)


def _note_object(ids: Identities, source: str, row: Row) -> None:
    if source == tables.MARKER and not (row.get("flags") or 0) & (tables.MARK | tables.BEGIN):
        return
    kind, blob = row.get("objectKind"), row.get("objectId")
    if kind not in (tables.PROCESS_OBJECT, tables.THREAD_OBJECT) or not blob:
        return
    numbers = tables.object_numbers(blob, 2 if kind == tables.THREAD_OBJECT else 1)
    if numbers is None:
        return
    pid = numbers[0]
    if not pid:
        ids.process_zero.add(source)
        return
    ids.other_pids.add(pid)
    if kind == tables.THREAD_OBJECT:
        ids.threads.add((pid, numbers[1]))
    if row.get("domain"):
        ids.domains.add((pid, row["domain"]))


def _note_directive(ids: Identities, source: str, row: Row) -> None:
    pid, tid = row.get("cuProcessId"), row.get("cuThreadId")
    if pid:
        ids.other_pids.add(pid)
        if tid is not None and tid & _UNSIGNED:
            ids.threads.add((pid, tid & _UNSIGNED))
    elif pid == 0:
        ids.process_zero.add(source)
    ids.add_construct(source, row)


def _note_name(ids: Identities, source: str, row: Row) -> None:
    text_id = row.get("name")
    if not text_id:
        return
    if 0 < text_id <= MAX_TEXT_ID:
        (ids.text_ids if source == tables.MARKER else ids.symbol_ids).add(text_id)
    else:
        _note_impossible_name(ids, source, "name")


def _note_impossible_name(ids: Identities, source: str, column: str) -> None:
    ids.suspects.add(source)
    ids.impossible_names.add((source, column))


_NOTE_ROW: dict[str, Callable[[Identities, str, Row], None]] = {
    tables.RUNTIME: _note_call,
    tables.DRIVER: _note_call,
    tables.UNIFIED_MEMORY: _note_migration,
    # Synchronizations name nobody: only the types of their cells matter.
    tables.SYNCS: lambda ids, source, row: None,
    tables.MARKER: _note_object,
    tables.OVERHEAD: _note_object,
    **dict.fromkeys(directives.SOURCES, _note_directive),
}
