"""Survey of an export before its rows are copied: the processes, threads and devices in it.

The distinct rows of the identifying columns of each event table (a handful among millions) give
processes, threads, device ordinals and the names that rows refer to. They come straight from the pages of
large tables, in one pass for all that the survey needs of each, and from SQLite's `SELECT DISTINCT` where
that cannot be; in the background of the copying.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nsysconv.importers import directives
from nsysconv.importers.nsys_sqlite import cpus, export_context, tables
from nsysconv.importers.probe import MIN_ROWS_FOR_PAGES, Probe
from nsysconv.importers.sqlite_columns import (
    as_whole_number,
    has_columns,
    has_rows,
    is_sparse,
    row_numbers,
    row_range,
)
from nsysconv.importers.sqlite_mapping import SurveyedIds
from nsysconv.report import MISSING
from nsysconv.threads import cached_property

# Each source table has sets of columns whose distinct rows name processes, threads, devices and names.
# Two narrow sets are cheaper for SQLite than one wide one, and only the first must be known before rows
# are copied.
_IDENTIFYING: dict[str, tuple[tuple[str, ...], ...]] = {
    tables.KERNEL: (("globalPid", "deviceId"), tables.NAMES_OF_KERNELS),
    tables.MEMCPY: (
        ("globalPid", "deviceId", "copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId"),
    ),
    tables.MEMSET: (("globalPid", "deviceId", "memKind"),),
    tables.GRAPH_TRACE: (("globalPid", "deviceId"),),
    tables.GRAPH_NODES: (("globalTid", "nameId"),),
    tables.SYNCS: (("globalPid", "deviceId"),),
    tables.MEMORY_USAGE: (("globalPid", "deviceId", "memKind", "memoryOperationType"),),
    tables.CPU_FAULTS: (("globalPid",), ("CpuInstruction", "module", "sourceFile")),
    tables.GPU_FAULTS: (("globalPid", "deviceId", "faultAccessType"),),
    tables.METRICS: (("typeId", "metricId"),),
    tables.RUNTIME: (("globalTid", "eventClass", "nameId"),),
    tables.NVTX: (("globalTid", "eventType", "textId"),),
    tables.PROFILER_OVERHEAD: (("globalTid", "nameId"),),
    tables.CUPTI_OVERHEAD: (("globalTid", "nameId"),),
    **dict.fromkeys(tables.MPI, (("globalTid", "textId"),)),
    **{source: (("globalTid", *directives.IDENTIFYING[source]),) for source in tables.OPENACC},
    **dict.fromkeys(
        (tables.OSRT, *tables.LIBRARIES, *tables.OPENMP), (("globalTid", "eventClass", "nameId"),)
    ),
    **dict.fromkeys(cpus.TABLES, (("globalTid",),)),
}
_PATH_COLUMNS = frozenset({"module", "sourceFile"})
_NAMES_OF_KERNELS = frozenset(tables.NAMES_OF_KERNELS)
_NAME_COLUMNS = _PATH_COLUMNS | _NAMES_OF_KERNELS | {"nameId", "textId", "CpuInstruction"}
_OWNER_COLUMNS = frozenset({"globalPid", "globalTid", "deviceId"})
_CLASS_COLUMNS = frozenset({"eventClass", "eventType"})
_CODE_COLUMNS = frozenset(
    {"copyKind", "srcKind", "dstKind", "memKind", "memoryOperationType", "faultAccessType"}
)


@dataclass
class Identities(SurveyedIds):
    """The identities that the surveyed tables mention."""

    pids: set[int] = field(default_factory=set)
    gpu_pids: set[int] = field(default_factory=set)
    """Those of them that ran GPU operations."""
    virtual_machines: set[int] = field(default_factory=set)
    ordinals: set[tuple[int | None, int]] = field(default_factory=set)
    """(pid, CUDA ordinal); pid None if the table does not name the process."""
    op_ordinals: set[tuple[int | None, int]] = field(default_factory=set)
    """Those of them that ran GPU operations; others were only waited for."""
    name_ids: set[int] = field(default_factory=set)
    api_name_ids: set[int] = field(default_factory=set)
    full_name_ids: set[int | None] = field(default_factory=set)
    """Those of kernels' full names; None if a kernel has only others."""
    path_ids: set[int] = field(default_factory=set)
    """Those of names that are paths of files."""
    metrics: set[tuple[int, int]] = field(default_factory=set)
    """(typeId, metricId) of samples."""
    event_classes: set[tuple[str, int]] = field(default_factory=set)
    """(source table, class), also of rows that are not imported."""
    range_kinds: set[int] = field(default_factory=set)
    """Event types of NVTX, also of rows that are not imported."""
    anonymous: set[str] = field(default_factory=set)
    """Source tables with rows that name no process or no device."""
    unclassified: set[str] = field(default_factory=set)
    """Source tables with rows that do not say what kind of event they are."""


class ExportSurvey:
    """The scans of a file's event tables, running or done. Each method waits for those that it needs."""

    def __init__(self, probe: Probe, sources: Iterable[str]) -> None:
        """Start the scans."""
        self.sources = tuple(sources)
        scans = [
            (level, source, columns)
            for source in self.sources
            for level, columns in enumerate(_IDENTIFYING[source])
        ]
        # The GPU tables come first, because copying needs the devices of kernels before anything else.
        scans.sort(key=lambda scan: (scan[0], scan[1] not in tables.GPU_TABLES))
        self._rows = {source: _DistinctRows(probe, source) for source in self.sources}
        self._numbers = {
            source: probe.submit(self._rows[source].numbers)
            for source in self.sources
            if probe.tables[source].row_id is not None
        }
        self._scans: list[tuple[int, str, Future[Identities]]] = [
            (level, source, probe.submit(_scan, self._rows[source], columns))
            for level, source, columns in scans
        ]

    def devices_of(self, sources: Iterable[str]) -> Identities:
        """Return the processes and devices that these GPU tables mention."""
        wanted = set(sources)
        return _merged(
            scan for level, source, scan in self._scans if level == 0 and source in wanted
        )

    def all_tables(self) -> Identities:
        """Return what all tables mention; no processes that only tables of CPUs mention.

        Raises InputError as `is_sparse`.
        """
        for numbers in self._numbers.values():
            numbers.result()
        ids, of_cpus = (
            _merged(scan for _, source, scan in self._scans if (source in cpus.TABLES) == which)
            for which in (False, True)
        )
        # A table of CPUs may hold all processes of the machine.
        ids.threads.update(thread for thread in of_cpus.threads if thread[0] in ids.pids)
        return ids

    def of_table(self, source: str) -> Identities:
        """Return what one table mentions."""
        return _merged(scan for _, name, scan in self._scans if name == source)

    def is_suspect(self, source: str) -> bool:
        """Return whether processes, threads or devices of this table are no numbers."""
        # Names that are not numbers are refused when they are copied: no reason to wait for their scan.
        return source in self.devices_of([source]).suspects

    def row_numbers(self, source: str) -> tuple[int | None, int | None, int]:
        """Return and raise as `sqlite_columns.row_numbers`; waits until all rows are counted."""
        return self._numbers[source].result()

    def is_sparse(self, source: str) -> bool:
        """Return whether the row numbers of a table have large holes. Raises as `row_numbers`."""
        return is_sparse(*self.row_numbers(source))

    def close(self) -> None:
        """Cancel the scans that have not begun."""
        for numbers in self._numbers.values():
            numbers.cancel()
        for _, _, scan in self._scans:
            scan.cancel()


def _merged(scans: Iterable[Future[Identities]]) -> Identities:
    result = Identities()
    for scan in scans:
        result.merge(scan.result())
    return result


# -- one scan


def _scan(rows: _DistinctRows, wanted: tuple[str, ...]) -> Identities:
    source, columns = rows.source, rows.present(wanted)
    ids = Identities()
    if not columns:
        return ids
    for values in rows.distinct(columns):
        _note_types(ids, source, columns, values)
        cells = zip(columns, map(as_whole_number, values), strict=True)
        row = {name: value for name, value in cells if value is not None}
        ids.codes.update((source, n, v) for n, v in row.items() if n in _CODE_COLUMNS)
        if "eventType" in row:
            ids.range_kinds.add(row["eventType"])
        if "eventClass" in row:
            ids.event_classes.add((source, row["eventClass"]))
        if not _is_imported(source, row):
            continue
        _note_process(ids, source, row)
        _note_names(ids, source, row)
        _note_ordinals(ids, source, row)
        if "metricId" in row and "typeId" in row:
            ids.metrics.add((row["typeId"], row["metricId"]))
        if source in tables.OPENACC:
            ids.add_construct(source, row)
    return ids


def _note_types(
    ids: Identities, source: str, columns: Sequence[str], values: Sequence[object]
) -> None:
    for name, value in zip(columns, values, strict=True):
        if not isinstance(value, int):
            if name in _CLASS_COLUMNS:
                ids.unclassified.add(source)
            if value is not None:
                ids.suspects.add(source)
            elif name in _OWNER_COLUMNS:
                ids.anonymous.add(source)


def _is_imported(source: str, row: dict[str, int]) -> bool:
    # Ranges are some event types of one table; domains and categories are no events of a process.
    if source == tables.NVTX:
        return row.get("eventType") in tables.RANGE_KINDS
    classes = tables.CLASSES.get(source)
    return not classes or "eventClass" not in row or row["eventClass"] in classes


def _note_process(ids: Identities, source: str, row: dict[str, int]) -> None:
    for column in ("globalTid", "globalPid"):
        if column in row:
            pid = export_context.process_of(row[column])
            if pid is None:
                ids.suspects.add(source)
                continue
            ids.pids.add(pid)
            ids.virtual_machines.add(row[column] >> 48)
            if column == "globalTid":
                ids.threads.add(export_context.thread_of(row[column]))
            elif source in tables.GPU_WORK:
                ids.gpu_pids.add(pid)


def _note_names(ids: Identities, source: str, row: dict[str, int]) -> None:
    if source == tables.RUNTIME and "nameId" in row:
        ids.api_name_ids.add(row["nameId"])
    if not _NAMES_OF_KERNELS.isdisjoint(row):
        ids.full_name_ids.add(row.get("demangledName"))
    ids.name_ids.update(value for column, value in row.items() if column in _NAME_COLUMNS)
    ids.path_ids.update(value for column, value in row.items() if column in _PATH_COLUMNS)


def _note_ordinals(ids: Identities, source: str, row: dict[str, int]) -> None:
    if source not in tables.GPU_TABLES or "deviceId" not in row:
        return
    pid = export_context.process_of(row["globalPid"]) if "globalPid" in row else None
    is_work = source in tables.GPU_WORK
    # A synchronization of a whole context names no device of its own.
    if not is_work and row["deviceId"] == tables.NO_DEVICE:
        return
    ids.ordinals.add((pid, row["deviceId"]))
    if is_work:
        ids.op_ordinals.add((pid, row["deviceId"]))
    if row.get("copyKind") == tables.PTOP:
        ids.ordinals.update((pid, row[c]) for c in ("srcDeviceId", "dstDeviceId") if c in row)


def is_balanced(probe: Probe) -> bool:
    """Return whether the running sum of all allocations and releases is the memory in use.

    It is if every release of device memory gives back a block as it was allocated, and none is allocated
    twice.
    """
    needed = ("memKind", "memoryOperationType", "bytes", "address", "deviceId", "globalPid")
    if not has_columns(probe, tables.MEMORY_USAGE, "start", *needed):
        return False
    row_id = probe.tables[tables.MEMORY_USAGE].row_id
    if row_id is None:
        return False
    kinds = ", ".join(map(str, tables.DEVICE_KINDS))
    blocks = (
        "(SELECT memoryOperationType AS operation, bytes, "
        "lag(memoryOperationType) OVER block AS operation_before, lag(bytes) OVER block AS bytes_before "
        f"FROM {tables.MEMORY_USAGE} WHERE memKind IN ({kinds}) "
        f"WINDOW block AS (PARTITION BY globalPid, deviceId, address ORDER BY start, {row_id}))"
    )
    odd = (
        f"CASE operation WHEN {tables.ALLOCATION} THEN operation_before IS {tables.ALLOCATION} "
        f"OR typeof(bytes) <> 'integer' WHEN {tables.RELEASE} THEN operation_before IS NOT "
        f"{tables.ALLOCATION} OR bytes_before IS NOT bytes ELSE 1 END"
    )
    return not has_rows(probe, blocks, odd)


# -- distinct rows of a table


@dataclass(frozen=True)
class _PageScan:
    first_last_count: tuple[int, int, int]
    combinations: list[Combination]


class _DistinctRows:
    # This holds the distinct rows and the row numbers of one table. Threads may share it.

    def __init__(self, probe: Probe, source: str) -> None:
        self.source = source
        self._probe = probe

    def present(self, wanted: Iterable[str]) -> list[str]:
        return [name for name in wanted if name in self._probe.tables[self.source].columns]

    def distinct(self, columns: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        if self._page_scan is None:
            return self._probe.iterate(f"SELECT DISTINCT {', '.join(columns)} FROM {self.source}")
        places = [self._identifying.index(name) for name in columns]
        rows = (tuple(row[at] for at in places) for row in self._page_scan.combinations)
        return dict.fromkeys(rows)

    def numbers(self) -> tuple[int | None, int | None, int]:
        if self._page_scan is None:
            return row_numbers(self._probe, self._probe.tables[self.source])
        return self._page_scan.first_last_count

    @property
    def _identifying(self) -> list[str]:
        return self.present(name for columns in _IDENTIFYING[self.source] for name in columns)

    @cached_property
    def _page_scan(self) -> _PageScan | None:
        # The result is None if SQLite has to read the table.
        if self._probe.tables[self.source].row_id is None or not self._identifying:
            return None
        first, last = row_range(self._probe, self._probe.tables[self.source])
        if first is None or last is None or last - first < MIN_ROWS_FOR_PAGES:
            return None
        count, following, combinations = 0, first, Combinations()
        with closing(self._probe.read_columns(self.source, self._identifying)) as batches:
            for following, columns in batches:  # noqa: B007
                count += len(columns[0])
                if not combinations.add(columns):
                    return None
        # The pages ended early, or they give another tree than SQLite's.
        if following <= last or count > last - first + 1:
            return None
        return _PageScan((first, last, count), combinations.rows())


# -- distinct combinations of numbers, where millions of rows hold a handful of them

Array = np.ndarray
Combination = tuple[int | None, ...]

# With many more, rows push each other out of their buckets, and SQLite is as quick.
MAX_COMBINATIONS = 10_000
BUCKET_BITS = 14
# The factors are odd, so that no two numbers have the same product.
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


class Combinations:
    """Collects each combination of values that a row has, once, in the order in which they come."""

    def __init__(self) -> None:
        """Begin with no rows."""
        self._rows: dict[tuple[int, ...], None] = {}
        # Two rows that push each other out of the first cache hardly meet again in the second.
        self._caches = [_RecentRows(factor) for factor in _FACTORS]

    def add(self, columns: Sequence[Array]) -> bool:
        """Add rows as whole numbers, MISSING for null: at least one column, all of one length.

        Return False if there are too many combinations to find them this way.
        """
        for cache in self._caches:
            columns = cache.misses(columns)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self._rows.update(dict.fromkeys(rows))
        return len(self._rows) <= MAX_COMBINATIONS

    def rows(self) -> list[Combination]:
        """Return the combinations so far; null is None."""
        return [tuple(None if cell == MISSING else cell for cell in row) for row in self._rows]


class _RecentRows:
    # A cache of rows in many buckets, each with the last row that fell into it.

    def __init__(self, factor: int) -> None:
        self._factor = np.uint64(factor)
        self._cached: list[Array] = []

    def misses(self, columns: Sequence[Array]) -> Sequence[Array]:
        # The result has the rows that are not cached. The last of them in each bucket is then cached,
        # so a cached row has been returned before.
        buckets = self._buckets(columns)
        missed = np.zeros(len(buckets), bool)
        if not self._cached and len(buckets):
            # No bucket is ever empty: all begin with the first row, which is returned.
            self._cached = [np.full(1 << BUCKET_BITS, column[0], np.int64) for column in columns]
            missed[0] = True
        for column, cached in zip(columns, self._cached, strict=False):
            missed |= cached.take(buckets) != column
        at = np.flatnonzero(missed)
        columns = [column[at] for column in columns]
        for column, cached in zip(columns, self._cached, strict=False):
            cached[buckets[at]] = column
        return columns

    def _buckets(self, columns: Sequence[Array]) -> Array:
        # Multiplicative hashing over all cells of a row; the product's upper bits are the mixed ones.
        mixed = np.zeros(len(columns[0]), np.uint64)
        for column in columns:
            mixed ^= column.astype(np.int64).view(np.uint64)
            mixed *= self._factor
        mixed >>= np.uint64(64 - BUCKET_BITS)
        return mixed.view(np.int64)
