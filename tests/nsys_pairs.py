"""Reports of Nsight Systems beside NVIDIA's own exports of the same runs: what differs, row by row.

    python tests/nsys_pairs.py        a line per pair: which tables of `--to nsys-sqlite` differ, and how
"""

from __future__ import annotations

import csv
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

if __name__ == "__main__":
    _ROOT = Path(__file__).resolve().parent.parent
    sys.path[:0] = [str(_ROOT), str(_ROOT / "scripts")]

from conftest import REAL

import nsysconv
from nsysconv.importers.nsys_sqlite.capture import _OPTIONS

Rows = Counter[tuple[Any, ...]]

FOLDER = REAL / "nsys_rep"

_OP = "globalPid correlationId streamId contextId deviceId greenContextId"
_CALL = "start end globalTid correlationId eventClass nameId"
COMPARED = {
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "COMPOSITE_EVENTS": "start globalTid cpu threadState cpuCycles",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": f"{_OP} eventId timestamp eventSyncId",
    "CUPTI_ACTIVITY_KIND_KERNEL":
        f"start end {_OP} demangledName shortName mangledName launchType cacheConfig registersPerThread "
        "gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory "
        "localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId "
        "sharedMemoryLimitConfig",
    "CUPTI_ACTIVITY_KIND_MEMCPY":
        f"start end {_OP} bytes copyKind srcKind dstKind srcDeviceId srcContextId dstDeviceId "
        "dstContextId graphNodeId migrationCause virtualAddress copyCount",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"start end {_OP} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": f"{_CALL} overheadType",
    "CUPTI_ACTIVITY_KIND_RUNTIME": f"{_CALL} returnValue",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION":
        f"start end {_OP} syncType eventId deprecatedSyncType eventSyncId",
    "DIAGNOSTIC_EVENT": "timestamp globalPid timestampType source severity text",
    "META_DATA_CAPTURE": "name value",
    "NVTX_EVENTS":
        "start end globalTid eventType rangeId category color text endGlobalTid textId domainId",
    "OSRT_API": f"{_CALL} returnValue nestingLevel",
    "PROCESSES": "globalPid pid name",
    "PROFILER_OVERHEAD": "start end globalTid correlationId nameId returnValue overheadType",
    "SCHED_EVENTS": "start globalTid cpu isSchedIn threadState",
    "StringIds": "id value",
    "TARGET_INFO_CUDA_CONTEXT_INFO":
        "contextId nullStreamId hwId vmId processId deviceId parentContextId isGreenContext "
        "numMultiprocessors",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid numMultiprocessors",
    "TARGET_INFO_CUDA_GPU": "",
    "TARGET_INFO_CUDA_NULL_STREAM": "streamId contextId hwId vmId processId deviceId",
    "TARGET_INFO_CUDA_STREAM": "streamId contextId hwId vmId processId priority flag",
    "TARGET_INFO_GPU": "",
    "TARGET_INFO_NVTX_CUDA_STREAM": "streamId contextId name hwId vmId processId deviceId",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs systemClockNs",
    "TARGET_INFO_SYSTEM_ENV": "globalVid name nameEnum value",
    "ThreadNames": "globalTid nameId priority",
}  # fmt: skip
"""Table -> the columns that are compared where NVIDIA's export has them; "": all that it has."""

_NEVER = frozenset({"ProcessStreams"})  # what the program printed
_READ = {"CAPTURE_EVENT_TYPE", "CUDA_GRAPH_TRACE_OPTIONS:MODE", *_OPTIONS}
_ALLOWED = {
    "TARGET_INFO_SYSTEM_ENV": {"TargetInstallDir", "NvDriverVersion", "CudaDriverVersion", "Hostname"},
    "META_DATA_CAPTURE": _READ | {f"PROCESS_0:{name}" for name in _READ},
}
"""Table of names and values -> the names that are compared; others are not to be copied."""

_MISSING = "(no such column)"
_EXAMPLES = 3


@dataclass(frozen=True)
class Pair:
    """A report, the export of the same run (None: there is none), and the build that recorded it."""

    report: Path
    export: Path | None
    build: str

    def __str__(self) -> str:
        """Name it in the ids of tests."""
        return f"{self.build}-{self.report.stem}"


@dataclass(frozen=True)
class Difference:
    """How many rows of a table only one of two exports has, and some of them."""

    only_ours: int
    only_theirs: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        """Say how many."""
        return f"+{self.only_ours} -{self.only_theirs}"


def _listed() -> Iterator[Pair]:
    table = FOLDER / "PROVENANCE_nsys_rep.tsv"
    if table.exists():
        with table.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                report = FOLDER / row["file"]
                export = report.with_suffix(".sqlite")
                if report.exists():  # those without a licence are not everywhere
                    yield Pair(report, export if export.exists() else None, row["build"])


def by_age(pairs: Iterator[Pair]) -> list[Pair]:
    """Pairs, the oldest build first."""
    return sorted(pairs, key=lambda p: ([int(n) for n in p.build.split(".")], p.report.name))


REPORTS = by_age(_listed()) or [Pair(FOLDER / "missing", None, "0")]
PAIRS = [pair for pair in REPORTS if pair.export] or REPORTS


# -- tables


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A database, read only."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        yield connection


def tables_of(connection: sqlite3.Connection) -> set[str]:
    """The names of its tables."""
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]


def _rows(connection: sqlite3.Connection, table: str, columns: list[str]) -> Rows:
    present = set(_columns(connection, table))
    if not present:
        return Counter()
    shown = ", ".join(f'"{name}"' if name in present else f"'{_MISSING}'" for name in columns)
    # Bytes, not texts: a program's names can be in any encoding.
    connection.text_factory = bytes
    rows = Counter(tuple(row) for row in connection.execute(f'SELECT {shown} FROM "{table}"'))
    connection.text_factory = str
    return rows


def differences(ours: Path, theirs: Path) -> dict[str, Difference]:
    """The tables in which an export of nsysconv's is not NVIDIA's of the same run."""
    with opened(ours) as own, opened(theirs) as other:
        found = {table: _difference(own, other, table) for table in COMPARED}
        found |= {
            table: Difference(own.execute(f"SELECT count(*) FROM {table}").fetchone()[0], 0, ())
            for table in _NEVER & tables_of(own)
        }
    return {table: each for table, each in found.items() if each.only_ours or each.only_theirs}


def _difference(own: sqlite3.Connection, other: sqlite3.Connection, table: str) -> Difference:
    # A younger column is compared where NVIDIA's export has it; where it has no such table, all are.
    wanted = COMPARED[table].split()
    columns = _columns(other, table) or _columns(own, table)
    columns = [name for name in columns if name in wanted or not wanted]
    ours, theirs = (_rows(each, table, columns) for each in (own, other))
    if table in _ALLOWED and columns:
        ours, theirs = (_allowed(rows, columns, _ALLOWED[table]) for rows in (ours, theirs))
    if table == "StringIds":
        both = {row[0] for row in ours} & {row[0] for row in theirs}
        ours, theirs = (_with_ids(rows, both) for rows in (ours, theirs))
    if table == "ANALYSIS_DETAILS":
        ours, theirs = (_rounded(rows, columns) for rows in (ours, theirs))
    only_ours, only_theirs = ours - theirs, theirs - ours
    some = [f"{mark} {dict(zip(columns, row, strict=True))}"
            for mark, rows in (("+", only_ours), ("-", only_theirs))
            for row in sorted(rows, key=repr)[:_EXAMPLES]]  # fmt: skip
    return Difference(only_ours.total(), only_theirs.total(), tuple(some))


def _allowed(rows: Rows, columns: list[str], names: set[str]) -> Rows:
    at = columns.index("name")
    return Counter({row: n for row, n in rows.items() if row[at].decode() in names})


def _with_ids(rows: Rows, ids: set[Any]) -> Rows:
    return Counter({row: n for row, n in rows.items() if row[0] in ids})


def _rounded(rows: Rows, columns: list[str]) -> Rows:
    # NVIDIA's export rounds the end as a double does, and takes the duration from that.
    found: Rows = Counter()
    for row, count in rows.items():
        cells = dict(zip(columns, row, strict=True))
        cells["duration"] = float(cells["startTime"] + cells["duration"])
        cells["stopTime"] = float(cells["stopTime"])
        found[tuple(cells.values())] += count
    return found


def exported(report: Path, folder: Path) -> Path:
    """A report as `nsysconv export --to nsys-sqlite` writes it."""
    made = folder / f"{report.stem}.ours.sqlite"
    if not made.exists():
        nsysconv.export_profiles(report, "nsys-sqlite", made)
    return made


_SESSION = ("ANALYSIS_DETAILS", "META_DATA_CAPTURE")
_LATER = (
    "EXPORT_META_DATA", "META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME", "TARGET_INFO_SYSTEM_ENV",
    "PROCESSES", "DIAGNOSTIC_EVENT", "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_CUDA_CONTEXT_INFO",
)  # fmt: skip


def completed(theirs: Path, ours: Path, made: Path) -> Path:
    """NVIDIA's export with what its age does not tell of the session, which the report tells.

    The tables of the session and its options are ours in any age: `differences` compares them, by what
    NVIDIA rounds and what is not copied. The events and all that names them stay NVIDIA's.
    """
    shutil.copyfile(theirs, made)
    made.chmod(0o600)
    with closing(sqlite3.connect(made)) as connection:
        connection.execute("ATTACH ? AS ours", (str(ours),))
        known = tables_of(connection)
        here = {name for (name,) in connection.execute("SELECT name FROM ours.sqlite_master")}
        # Both are one table, by its name of this age and of another.
        is_named = not known.isdisjoint(("EXPORT_META_DATA", "META_DATA_EXPORT"))
        for table in here & {*_SESSION, *_LATER}:
            if table in known and table not in _SESSION:
                continue
            if is_named and table in ("EXPORT_META_DATA", "META_DATA_EXPORT"):
                continue
            connection.execute(f"DROP TABLE IF EXISTS main.{table}")
            connection.execute(f"CREATE TABLE main.{table} AS SELECT * FROM ours.{table}")
        connection.commit()
    return made


# -- the table of all pairs


def main() -> int:
    """Print what differs, pair by pair."""
    status = 0
    with TemporaryDirectory() as folder:
        for pair in PAIRS:
            if pair.export is None:
                print("the pairs are not here")
                return 1
            try:
                found = differences(exported(pair.report, Path(folder)), pair.export)
            except nsysconv.errors.NsysconvError as error:
                found, status = {}, 1
                print(f"{pair}\n    {error}")
                continue
            print(f"{pair}  {', '.join(f'{name} {each}' for name, each in found.items()) or 'equal'}")
            for name, each in found.items():
                status = 1
                if "-v" in sys.argv:
                    print(*(f"    {name} {line}" for line in each.examples), sep="\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
