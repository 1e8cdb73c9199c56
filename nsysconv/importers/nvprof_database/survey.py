"""What has to be known of a database before its rows can be copied: who appears in it, and when.

One `SELECT DISTINCT` over each group of identifying columns gives processes, threads, devices and the
names that rows refer to, and one scan of each table the extremes of its times. The scans run side by
side; `sqlite3` releases the interpreter lock while it works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from nsysconv.importers import directives
from nsysconv.importers.nvprof_database import markers, objects, tables
from nsysconv.importers.nvprof_database.name_ids import HIGHEST_CALL, HIGHEST_TEXT
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import as_whole
from nsysconv.report import MISSING

_UNSIGNED = 0xFFFFFFFF
# Per source table the groups of columns that are looked at together: narrow ones are cheaper.
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
        source: (("cuProcessId", "cuThreadId"), directives.identifying(source))
        for source in directives.SOURCES
    },
}
_CODES = frozenset({"copyKind", "srcKind", "dstKind", "memoryKind", "overheadKind"})

Row = dict[str, Any]


@dataclass
class Found:
    """The identities that the surveyed tables mention."""

    call_pids: set[int] = field(default_factory=set)
    """Processes that called the API."""
    other_pids: set[int] = field(default_factory=set)
    """Processes of ranges, migrations, overhead and directives."""
    threads: set[tuple[int, int]] = field(default_factory=set)
    ordinals: set[int] = field(default_factory=set)
    """Devices that ran GPU operations, or were the other end of a copy."""
    op_ordinals: set[int] = field(default_factory=set)
    symbol_ids: set[int] = field(default_factory=set)
    text_ids: set[int] = field(default_factory=set)
    """Texts of ranges."""
    domains: set[tuple[int, int]] = field(default_factory=set)
    """(pid, id of the domain's name)."""
    calls: set[tuple[int, int]] = field(default_factory=set)
    """(layer, number of the function)."""
    codes: set[tuple[str, str, int]] = field(default_factory=set)
    """(table, column, code)."""
    suspects: set[str] = field(default_factory=set)
    """Source tables with cells of a wrong type, ids that cannot be, or rows without a time."""
    constructs: set[directives.Construct] = field(default_factory=set)
    crowded: set[str] = field(default_factory=set)
    """Source tables with more constructs than are named."""
    impossible_names: set[tuple[str, str]] = field(default_factory=set)
    """(table, column) with ids of names that cannot be."""
    placeless: set[str] = field(default_factory=set)
    """Source tables whose objects name the process 0."""

    @property
    def pids(self) -> set[int]:
        """All processes with events."""
        return self.call_pids | self.other_pids

    def merge(self, other: Found) -> None:
        """Adds what another table mentions."""
        for name in vars(self):
            getattr(self, name).update(getattr(other, name))


@dataclass(frozen=True)
class Times:
    """A table's smallest and largest time, where they are whole numbers above 0."""

    count: int
    first: int | None
    last: int | None
    middle: int | None
    """The time of a row in its middle."""
    sound: bool
    """No time of it is of a wrong type, 0 or below."""


@dataclass(frozen=True)
class Survey:
    """All that was found, and the times of each table with rows."""

    found: Found
    times: dict[str, Times]


def survey(probe: Probe, sources: Iterable[str]) -> Survey:
    """Scans these tables of a file."""
    sources = tuple(sources)
    times: dict[str, Future[Times]] = {s: probe.beside(_times, probe, s) for s in sources}
    scans: list[Future[Found]] = [
        probe.beside(_scan, probe, source, columns)
        for source in sources
        for columns in _IDENTIFYING[source]
    ]
    found = Found()
    for scan in scans:
        found.merge(scan.result())
    known = {source: future.result() for source, future in times.items()}
    found.suspects.update(source for source, at in known.items() if not at.sound)
    return Survey(found, {source: at for source, at in known.items() if at.count})


def times_of(source: str) -> tuple[str, str]:
    """The columns that say when something began and ended."""
    return ("timestamp", "timestamp") if source == tables.MARKER else ("start", "end")


def _times(probe: Probe, source: str) -> Times:
    start, end = times_of(source)
    if not {start, end} <= set(probe.tables[source].columns):
        return Times(0, None, None, None, True)
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
    return Times(count, first, last, middle, sound)


def _scan(probe: Probe, source: str, wanted: tuple[str, ...]) -> Found:
    columns = [name for name in wanted if name in probe.tables[source].columns]
    found = Found()
    if not columns:
        return found
    for values in probe.iterate(f"SELECT DISTINCT {', '.join(columns)} FROM {source}"):
        row = dict(zip(columns, values, strict=True))
        for name, value in row.items():
            wanted_type = bytes if name == "objectId" else int
            if value is not None and (not isinstance(value, wanted_type) or value == MISSING):
                found.suspects.add(source)
                row[name] = as_whole(value) if wanted_type is int else None
        found.codes.update((source, n, v) for n, v in row.items() if n in _CODES and v is not None)
        _NOTED.get(source, _note_op)(found, source, row)
        _note_name(found, source, row)
    return found


def _note_call(found: Found, source: str, row: Row) -> None:
    pid, tid, number = row.get("processId"), row.get("threadId"), row.get("cbid")
    if pid:
        found.call_pids.add(pid)
        if tid is not None:
            found.threads.add((pid, tid & _UNSIGNED))
    if number is not None:
        if 0 <= number <= HIGHEST_CALL:
            found.calls.add((tables.LAYERS[source], number))
        else:
            _note_impossible(found, source, "cbid")


def _note_op(found: Found, source: str, row: Row) -> None:
    ordinal = row.get("deviceId")
    if "deviceId" in row and ordinal is None:
        found.suspects.add(source)
    if ordinal is not None:
        found.op_ordinals.add(ordinal)
        ends = (ordinal, row.get("srcDeviceId"), row.get("dstDeviceId"))
        found.ordinals.update(end for end in ends if end is not None)


def _note_migration(found: Found, source: str, row: Row) -> None:
    kind = row.get("counterKind")
    if kind not in tables.MIGRATIONS:
        return
    if row.get("processId"):
        found.other_pids.add(row["processId"])
    device = row.get("srcId" if tables.MIGRATIONS[kind] == 2 else "dstId")
    if device is not None:
        found.op_ordinals.add(device)
        found.ordinals.add(device)


def _note_object(found: Found, source: str, row: Row) -> None:
    if source == tables.MARKER and not (row.get("flags") or 0) & (markers.MARK | markers.BEGIN):
        return
    kind, blob = row.get("objectKind"), row.get("objectId")
    if kind not in (objects.PROCESS, objects.THREAD) or not blob:
        return
    numbers = objects.numbers_of(blob, 2 if kind == objects.THREAD else 1)
    if numbers is None:
        return
    pid = numbers[0]
    if not pid:
        found.placeless.add(source)
        return
    found.other_pids.add(pid)
    if kind == objects.THREAD:
        found.threads.add((pid, numbers[1]))
    if row.get("domain"):
        found.domains.add((pid, row["domain"]))


def _note_name(found: Found, source: str, row: Row) -> None:
    text = row.get("name")
    if not text:
        return
    if 0 < text <= HIGHEST_TEXT:
        ids = found.text_ids if source == tables.MARKER else found.symbol_ids
        ids.add(text)
    else:
        _note_impossible(found, source, "name")


def _note_impossible(found: Found, source: str, column: str) -> None:
    found.suspects.add(source)
    found.impossible_names.add((source, column))


def _note_nothing(found: Found, source: str, row: Row) -> None:
    """Synchronisations name nobody: only the types of their cells matter."""


def _note_directive(found: Found, source: str, row: Row) -> None:
    pid, tid = row.get("cuProcessId"), row.get("cuThreadId")
    if pid:
        found.other_pids.add(pid)
        if tid is not None and tid & _UNSIGNED:
            found.threads.add((pid, tid & _UNSIGNED))
    elif pid == 0:
        found.placeless.add(source)
    construct = directives.construct(source, row)
    if construct is not None:
        if len(found.constructs) < directives.MOST:
            found.constructs.add(construct)
        else:
            found.crowded.add(source)


_NOTED: dict[str, Callable[[Found, str, Row], None]] = {
    tables.RUNTIME: _note_call,
    tables.DRIVER: _note_call,
    tables.UNIFIED_MEMORY: _note_migration,
    tables.SYNCS: _note_nothing,
    tables.MARKER: _note_object,
    tables.OVERHEAD: _note_object,
    **dict.fromkeys(directives.SOURCES, _note_directive),
}
