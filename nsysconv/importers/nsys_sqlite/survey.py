"""What has to be known of an export before its rows can be copied: who appears in it.

The distinct rows of the identifying columns of each event table (a handful among millions) give
processes, threads, device ordinals and the names that rows refer to. They come from SQLite's
`SELECT DISTINCT`, in the background of the copying, or, of a file that is read in place, straight from
the pages of large tables, in one go for all that is asked of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nsysconv.cache import cached_property
from nsysconv.importers import directives
from nsysconv.importers.nsys_sqlite import cpu_side, gpu_metrics, memory, tables
from nsysconv.importers.probe import WORTH_ROWS, Probe
from nsysconv.importers.sqlite_columns import as_whole, row_numbers, row_range
from nsysconv.report import MISSING

# Row numbers with more holes than this are no measure of the work.
_SPARSE = 8
# Per source table the sets of columns whose distinct rows name processes, threads, devices and names.
# Two narrow sets are cheaper for SQLite than one wide one, and only the first has to be known before rows
# are copied.
_IDENTIFYING: dict[str, tuple[tuple[str, ...], ...]] = {
    tables.KERNEL: (("globalPid", "deviceId"), tables.NAMES_OF_KERNELS),
    tables.MEMCPY: (
        ("globalPid", "deviceId", "copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId"),
    ),
    tables.MEMSET: (("globalPid", "deviceId", "memKind"),),
    tables.GRAPH_TRACE: (("globalPid", "deviceId"),),
    tables.SYNCS: (("globalPid", "deviceId"),),
    tables.RUNTIME: (("globalTid", "eventClass", "nameId"),),
    tables.GRAPH_NODES: (("globalTid", "nameId"),),
    tables.NVTX: (("globalTid", "eventType", "textId"),),
    tables.PROFILER_OVERHEAD: (("globalTid", "nameId"),),
    tables.CUPTI_OVERHEAD: (("globalTid", "nameId"),),
    memory.USAGE: (("globalPid", "deviceId", "memKind", "memoryOperationType"),),
    memory.CPU_FAULTS: (("globalPid",), ("CpuInstruction", "module", "sourceFile")),
    memory.GPU_FAULTS: (("globalPid", "deviceId", "faultAccessType"),),
    **dict.fromkeys(cpu_side.MPI, (("globalTid", "textId"),)),
    **{source: (("globalTid", *directives.identifying(source)),) for source in cpu_side.OPENACC},
    **dict.fromkeys(
        (cpu_side.OSRT, *cpu_side.LIBRARIES, *cpu_side.OPENMP),
        (("globalTid", "eventClass", "nameId"),),
    ),
    gpu_metrics.SAMPLES: (("typeId", "metricId"),),
}
_PATH_COLUMNS = frozenset({"module", "sourceFile"})
_NAMES_OF_KERNELS = frozenset(tables.NAMES_OF_KERNELS)
_NAME_COLUMNS = _PATH_COLUMNS | _NAMES_OF_KERNELS | {"nameId", "textId", "CpuInstruction"}
_GPU_WORK = (tables.KERNEL, tables.MEMCPY, tables.MEMSET, tables.GRAPH_TRACE)
_GPU_TABLES = (*_GPU_WORK, tables.SYNCS, memory.USAGE, memory.GPU_FAULTS)
_PTOP = 10
_IDS = frozenset({"globalPid", "globalTid", "deviceId"})
_SORTING = frozenset({"eventClass", "eventType"})
_CODES = frozenset(
    {"copyKind", "srcKind", "dstKind", "memKind", "memoryOperationType", "faultAccessType"}
)


@dataclass
class Found:
    """The identities that the surveyed tables mention."""

    pids: set[int] = field(default_factory=set)
    gpu_op_pids: set[int] = field(default_factory=set)
    threads: set[tuple[int, int]] = field(default_factory=set)
    virtual_machines: set[int] = field(default_factory=set)
    ordinals: set[tuple[int | None, int]] = field(default_factory=set)
    """(pid, CUDA ordinal); pid None where the table does not name the process."""
    op_ordinals: set[tuple[int | None, int]] = field(default_factory=set)
    """Those of them that ran GPU operations; others were only waited for."""
    name_ids: set[int] = field(default_factory=set)
    api_name_ids: set[int] = field(default_factory=set)
    full_name_ids: set[int | None] = field(default_factory=set)
    """Those of kernels' full names; None where a kernel has only others."""
    path_ids: set[int] = field(default_factory=set)
    """Those of them that are names of files, which may stand in folders."""
    constructs: set[directives.Construct] = field(default_factory=set)
    crowded: set[str] = field(default_factory=set)
    """Source tables with more constructs than can be."""
    metrics: set[tuple[int, int]] = field(default_factory=set)
    """(typeId, metricId) of samples."""
    event_classes: set[tuple[str, int]] = field(default_factory=set)
    """(source table, class), also of rows that are not imported."""
    codes: set[tuple[str, str, int]] = field(default_factory=set)
    """(source table, column, code)."""
    anonymous: set[str] = field(default_factory=set)
    """Source tables with rows that name no process or no device."""
    unsorted: set[str] = field(default_factory=set)
    """Source tables with rows that do not say what kind of event they are."""
    range_kinds: set[int] = field(default_factory=set)
    """Event types of NVTX, also of rows that are not imported."""
    suspects: set[str] = field(default_factory=set)
    """Source tables with ids that are no numbers, or name no process."""

    def merge(self, other: Found) -> None:
        """Adds what another table mentions."""
        for name in vars(self):
            getattr(self, name).update(getattr(other, name))


class Survey:
    """The scans of a file's event tables, running or done. Its methods wait for what they are asked."""

    def __init__(self, probe: Probe, sources: Iterable[str], *, from_pages: bool) -> None:
        """`from_pages`: large tables are searched without SQLite. That takes half the work, but Python's
        lock: where rows are copied meanwhile, SQLite on another core is in nobody's way.
        """
        self.sources = tuple(sources)
        scans = [
            (level, source, columns)
            for source in self.sources
            for level, columns in enumerate(_IDENTIFYING[source])
        ]
        # The GPU tables first: what waits first is a kernel's device.
        scans.sort(key=lambda scan: (scan[0], scan[1] not in _GPU_TABLES))
        rows = {source: _Rows(probe, source, from_pages=from_pages) for source in self.sources}
        self._rows = rows
        self._numbers = {
            source: probe.beside(rows[source].numbers)
            for source in self.sources
            if probe.tables[source].row_id is not None
        }
        self._running: list[tuple[int, str, Future[Found]]] = [
            (level, source, probe.beside(_scan, rows[source], columns))
            for level, source, columns in scans
        ]

    def devices_of(self, sources: Iterable[str]) -> Found:
        """The processes and devices that these GPU tables mention."""
        wanted = set(sources)
        return _merged(
            scan for level, source, scan in self._running if level == 0 and source in wanted
        )

    def everything(self) -> Found:
        """What all tables mention. Raises InputError as `is_sparse`."""
        for numbers in self._numbers.values():
            numbers.result()
        return _merged(scan for _, _, scan in self._running)

    def of(self, source: str) -> Found:
        """What one table mentions."""
        return _merged(scan for _, name, scan in self._running if name == source)

    def suspects(self, source: str) -> bool:
        """Whether processes, threads or devices of this table are no numbers."""
        # Names that are none are refused when they are copied: no reason to wait for their scan.
        return source in self.devices_of([source]).suspects

    def row_range(self, source: str) -> tuple[int | None, int | None]:
        """The first and last row number of a table that has them; None: it is empty."""
        return self._rows[source].range

    def row_numbers(self, source: str) -> tuple[int | None, int | None, int]:
        """As `sqlite_source.row_numbers`; all rows are counted for it."""
        return self._numbers[source].result()

    def is_sparse(self, source: str) -> bool:
        """Whether the row numbers of a table have large holes. Raises InputError as `row_numbers`."""
        first, last, count = self.row_numbers(source)
        return first is not None and last is not None and last - first > _SPARSE * count

    @property
    def gpu_sources(self) -> tuple[str, ...]:
        """The tables that name devices."""
        return tuple(name for name in _GPU_TABLES if name in self.sources)

    def close(self) -> None:
        """Ends the scans that have not begun."""
        for numbers in self._numbers.values():
            numbers.cancel()
        for _, _, scan in self._running:
            scan.cancel()


def _merged(scans: Iterable[Future[Found]]) -> Found:
    result = Found()
    for scan in scans:
        result.merge(scan.result())
    return result


@dataclass(frozen=True)
class _Told:
    """What the pages of a table tell of it."""

    numbers: tuple[int, int, int]
    """Its first and last row number, and how many rows it has."""
    combinations: list[Combination]
    """The distinct rows of its identifying columns."""


class _Rows:
    """The rows of one table. Threads may share it."""

    def __init__(self, probe: Probe, source: str, *, from_pages: bool) -> None:
        self.source = source
        self._probe = probe
        self._from_pages = from_pages and probe.tables[source].row_id is not None

    def present(self, wanted: Iterable[str]) -> list[str]:
        """Those of these columns that the table has."""
        return [name for name in wanted if name in self._probe.tables[self.source].columns]

    def distinct(self, columns: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        """The distinct rows of some identifying columns."""
        if self._told is None:
            return self._probe.iterate(f"SELECT DISTINCT {', '.join(columns)} FROM {self.source}")
        places = [self._identifying.index(name) for name in columns]
        return dict.fromkeys(tuple(row[at] for at in places) for row in self._told.combinations)

    @property
    def range(self) -> tuple[int | None, int | None]:
        """Its first and last row number; None: it is empty."""
        return row_range(self._probe, self._probe.tables[self.source])

    def numbers(self) -> tuple[int | None, int | None, int]:
        """As `sqlite_source.row_numbers`."""
        if self._told is None:
            return row_numbers(self._probe, self._probe.tables[self.source])
        return self._told.numbers

    @property
    def _identifying(self) -> list[str]:
        return self.present(name for columns in _IDENTIFYING[self.source] for name in columns)

    @cached_property
    def _told(self) -> _Told | None:
        """All that is asked of a table, from one go over its pages; None where SQLite has to be asked."""
        if not self._from_pages or not self._identifying:
            return None
        first, last = self.range
        if first is None or last is None or last - first < WORTH_ROWS:
            return None
        count, following, distinct = 0, first, Distinct()
        with closing(self._probe.columns(self.source, self._identifying)) as batches:
            for following, columns in batches:  # noqa: B007
                count += len(columns[0])
                if not distinct.add(columns):
                    return None
        # Where pages end early, or SQLite does not see the same tree, it has to be asked.
        if following <= last or count > last - first + 1:
            return None
        return _Told((first, last, count), distinct.combinations())


def _scan(rows: _Rows, wanted: tuple[str, ...]) -> Found:
    source, columns = rows.source, rows.present(wanted)
    found = Found()
    if not columns:
        return found
    for values in rows.distinct(columns):
        cells = zip(columns, map(as_whole, values), strict=True)
        row = {name: value for name, value in cells if value is not None}
        if any(
            n in _SORTING and not isinstance(v, int) for n, v in zip(columns, values, strict=True)
        ):
            found.unsorted.add(source)
        if any(v is not None and not isinstance(v, int) for v in values):
            found.suspects.add(source)
        if any(v is None and n in _IDS for n, v in zip(columns, values, strict=True)):
            found.anonymous.add(source)
        found.codes.update((source, n, v) for n, v in row.items() if n in _CODES)
        if "eventType" in row:
            found.range_kinds.add(row["eventType"])
        if "eventClass" in row:
            found.event_classes.add((source, row["eventClass"]))
        if not _is_imported(source, row):
            continue
        _note_process(found, source, row)
        _note_names(found, source, row)
        _note_ordinals(found, source, row)
        if "metricId" in row and "typeId" in row:
            found.metrics.add((row["typeId"], row["metricId"]))
        if source in cpu_side.OPENACC:
            _note_construct(found, source, row)
    return found


def _is_imported(source: str, row: dict[str, int]) -> bool:
    # Ranges are event types 33 to 75 of one table; domains and categories are no events of a process.
    if source == tables.NVTX:
        return row.get("eventType") in tables.RANGE_KINDS
    classes = tables.CLASSES.get(source)
    return not classes or "eventClass" not in row or row["eventClass"] in classes


def _note_construct(found: Found, source: str, row: dict[str, int]) -> None:
    construct = directives.construct(source, row)
    if construct is not None:
        if len(found.constructs) < directives.MOST:
            found.constructs.add(construct)
        else:
            found.crowded.add(source)


def _note_process(found: Found, source: str, row: dict[str, int]) -> None:
    for column in ("globalTid", "globalPid"):
        if column in row:
            pid = _process_of(row[column])
            if pid is None:
                found.suspects.add(source)
                continue
            found.pids.add(pid)
            found.virtual_machines.add(row[column] >> 48)
            if column == "globalTid":
                found.threads.add((pid, row[column] & 0xFFFFFF))
            elif source in _GPU_WORK:
                found.gpu_op_pids.add(pid)


def _process_of(global_id: int) -> int | None:
    """The process of a global id; 0 names none."""
    return global_id >> 24 & 0xFFFFFF or None


def _note_names(found: Found, source: str, row: dict[str, int]) -> None:
    if source == tables.RUNTIME:
        found.api_name_ids.update(row[c] for c in ("nameId",) if c in row)
    if not _NAMES_OF_KERNELS.isdisjoint(row):
        found.full_name_ids.add(row.get("demangledName"))
    found.name_ids.update(value for column, value in row.items() if column in _NAME_COLUMNS)
    found.path_ids.update(value for column, value in row.items() if column in _PATH_COLUMNS)


def _note_ordinals(found: Found, source: str, row: dict[str, int]) -> None:
    pid = _process_of(row["globalPid"]) if "globalPid" in row else None
    if source in _GPU_TABLES and "deviceId" in row:
        # A synchronisation of a whole context names no device of its own.
        if source not in _GPU_WORK and row["deviceId"] == 0xFFFFFFFF:
            return
        found.ordinals.add((pid, row["deviceId"]))
        if source in _GPU_WORK:
            found.op_ordinals.add((pid, row["deviceId"]))
        if row.get("copyKind") == _PTOP:
            found.ordinals.update((pid, row[c]) for c in ("srcDeviceId", "dstDeviceId") if c in row)


Array = np.ndarray
Columns = Sequence[Array]
Combination = tuple[int | None, ...]

# With many more, rows push each other out of their buckets, and SQLite is as quick.
_MOST = 10_000
_BUCKET_BITS = 14
# Odd, so that no two numbers have one product.
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


class Distinct:
    """Each combination of values that a row has, once, in the order in which they come."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, ...], None] = {}
        # Two that push each other out of the first, row after row, hardly meet again in the second.
        self._recent = [_Recent(factor) for factor in _FACTORS]

    def add(self, columns: Columns) -> bool:
        """Look at more rows: whole numbers, MISSING for null; at least one column, all of one length.

        Returns False where there are too many combinations to find them this way.
        """
        for recent in self._recent:
            columns = recent.others(columns)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self._found.update(dict.fromkeys(rows))
        return len(self._found) <= _MOST

    def combinations(self) -> list[Combination]:
        """Those found until now; null is None."""
        return [tuple(None if cell == MISSING else cell for cell in row) for row in self._found]


class _Recent:
    """Of the combinations that fall into one of many buckets, the last that came."""

    def __init__(self, factor: int) -> None:
        self._factor = np.uint64(factor)
        self._held: list[Array] = []

    def others(self, columns: Columns) -> Columns:
        """The rows that are not held; of these, the last in each bucket is held from now on. So whatever
        is held has been handed on before.
        """
        buckets = self._buckets(columns)
        others = np.zeros(len(buckets), bool)
        if not self._held and len(buckets):
            # Each bucket holds something from the beginning on: the first row, which is handed on.
            self._held = [np.full(1 << _BUCKET_BITS, column[0], np.int64) for column in columns]
            others[0] = True
        for column, held in zip(columns, self._held, strict=False):
            others |= held.take(buckets) != column
        at = np.flatnonzero(others)
        columns = [column[at] for column in columns]
        for column, held in zip(columns, self._held, strict=False):
            held[buckets[at]] = column
        return columns

    def _buckets(self, columns: Columns) -> Array:
        """The bucket of each row: the upper bits of a number in which all of its cells are mixed."""
        mixed = np.zeros(len(columns[0]), np.uint64)
        for column in columns:
            mixed ^= column.astype(np.int64).view(np.uint64)
            mixed *= self._factor
        mixed >>= np.uint64(64 - _BUCKET_BITS)
        return mixed.view(np.int64)
