"""Reports of Nsight Systems beside NVIDIA's own exports of the same runs: what differs, row by row.

    python tests/nsys_pairs.py        a line per pair: which tables of `--to nsys-sqlite` differ, and how
"""

from __future__ import annotations

import csv
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
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
from nsysconv.importers.nsys_sqlite.capture import OPTIONS

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
_MUST_BE_READ = {f"{prefix}{name}" for prefix in ("", "PROCESS_0:")
                 for name in ("CAPTURE_EVENT_TYPE", "CUDA_GRAPH_TRACE_OPTIONS:MODE",
                              "OS_RUNTIME_OPTIONS:DURATION_THRESHOLD_NS")}  # fmt: skip
_READ = {"CAPTURE_EVENT_TYPE", "CUDA_GRAPH_TRACE_OPTIONS:MODE", *OPTIONS}
_ALLOWED = {
    "TARGET_INFO_SYSTEM_ENV": {"TargetInstallDir", "NvDriverVersion", "CudaDriverVersion", "Hostname"},
    "META_DATA_CAPTURE": _READ | {f"PROCESS_0:{name}" for name in _READ},
}
"""Table of names and values -> the names that are compared; others are not to be copied, and some options
are not found in reports."""

# Table or column -> the build since which NVIDIA's exports have it; nsysconv's have it of any report.
_SINCE = {
    "ANALYSIS_DETAILS": "2022.1", "CUPTI_ACTIVITY_KIND_OVERHEAD": "2025.5.2",
    "DIAGNOSTIC_EVENT": "2024.5", "EXPORT_META_DATA": "2022.1",
    "META_DATA_CAPTURE": "2023.3", "META_DATA_EXPORT": "2023.3", "PROCESSES": "2022.1",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "2023.4", "TARGET_INFO_CUDA_DEVICE": "2025.1",
    "TARGET_INFO_GPU.uuid": "2021.2", "TARGET_INFO_SESSION_START_TIME": "2021.3",
    "TARGET_INFO_SYSTEM_ENV": "2021.3",
}  # fmt: skip
# NVIDIA's older name of a table or column -> that of later exports, which is nsysconv's.
_TODAY = {
    "TARGET_INFO_CUDA_NULL_STREAM": "TARGET_INFO_CUDA_CONTEXT_INFO",
    "TARGET_INFO_CUDA_NULL_STREAM.streamId": "nullStreamId",
    "TARGET_INFO_GPU.deviceId": "id",
}

_MISSING = "(no such column)"
_HELD_OUT = b"(not copied: it may hold paths)"
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
                if report.exists():  # those without a license are not everywhere
                    yield Pair(report, export if export.exists() else None, row["build"])


def _age(build: str) -> list[int]:
    return [int(number) for number in build.split(".")]


def by_age(pairs: Iterator[Pair]) -> list[Pair]:
    """Pairs, the oldest build first."""
    return sorted(pairs, key=lambda pair: (_age(pair.build), pair.report.name))


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


def _rows(connection: sqlite3.Connection, table: str, columns: Mapping[str, str]) -> Rows:
    # `columns`: of each, today's name.
    present = set(_columns(connection, table))
    if not present:
        return Counter()
    named = {name: name if name in present else later for name, later in columns.items()}
    shown = ", ".join(f'"{n}"' if n in present else f"'{_MISSING}'" for n in named.values())
    # Bytes, not texts: a program's names can be in any encoding.
    connection.text_factory = bytes
    rows = Counter(tuple(row) for row in connection.execute(f'SELECT {shown} FROM "{table}"'))
    connection.text_factory = str
    return rows


def differences(ours: Path, theirs: Path, build: str) -> dict[str, Difference]:
    """The tables in which an export of nsysconv's is not NVIDIA's of the same run, of that build."""
    with opened(ours) as own, opened(theirs) as other:
        tables = [name for name in COMPARED if not is_later(name, build)]
        found = {table: _difference(own, other, table) for table in tables}
        found |= {
            table: Difference(own.execute(f"SELECT count(*) FROM {table}").fetchone()[0], 0, ())
            for table in _NEVER & tables_of(own)
        }
    return {table: each for table, each in found.items() if each.only_ours or each.only_theirs}


def is_later(name: str, build: str) -> bool:
    """Whether NVIDIA's exports of a build have no such table (TABLE.COLUMN: column) yet."""
    return name in _SINCE and _age(build) < _age(_SINCE[name])


def _difference(own: sqlite3.Connection, other: sqlite3.Connection, table: str) -> Difference:
    # A younger column is compared where NVIDIA's export has it; where it has no such table, all are.
    wanted, here = COMPARED[table].split(), table
    names = _columns(other, table)
    if names:
        here = _TODAY.get(table, table) if table not in tables_of(own) else table
    else:
        names = _columns(own, table)
    names = [name for name in names if name in wanted or not wanted]
    columns = {name: _TODAY.get(f"{table}.{name}", name) for name in names}
    ours, theirs = _rows(own, here, columns), _rows(other, table, columns)
    if names:
        ours, theirs = _comparable(table, ours, theirs, names)
    only_ours, only_theirs = ours - theirs, theirs - ours
    some = [f"{mark} {dict(zip(names, row, strict=True))}"
            for mark, rows in (("+", only_ours), ("-", only_theirs))
            for row in sorted(rows, key=repr)[:_EXAMPLES]]  # fmt: skip
    return Difference(only_ours.total(), only_theirs.total(), tuple(some))


def _comparable(table: str, ours: Rows, theirs: Rows, names: list[str]) -> tuple[Rows, Rows]:
    if table in _ALLOWED:
        ours, theirs = (_allowed(rows, names, _ALLOWED[table]) for rows in (ours, theirs))
    if table == "StringIds":
        both = {row[0] for row in ours} & {row[0] for row in theirs}
        ours, theirs = (_with_ids(rows, both) for rows in (ours, theirs))
    if table == "ANALYSIS_DETAILS":
        ours, theirs = (_rounded(rows, names) for rows in (ours, theirs))
    if table == "META_DATA_CAPTURE":
        known = _MUST_BE_READ | {row[0].decode() for row in ours}
        theirs = _allowed(theirs, names, known)
    if table == "PROCESSES":
        ours, theirs = (_without_folders(rows, names.index("name")) for rows in (ours, theirs))
    if table == "DIAGNOSTIC_EVENT":
        theirs = _held_out(theirs, names.index("text"), ours)
    return ours, theirs


def _without_folders(rows: Rows, at: int) -> Rows:
    found: Rows = Counter()
    for row, count in rows.items():
        found[(*row[:at], row[at] and row[at].rpartition(b"/")[2], *row[at + 1 :])] += count
    return found


def _held_out(theirs: Rows, at: int, ours: Rows) -> Rows:
    # Texts that may hold paths are not copied: which these are, other tests say.
    texts = {row[at] for row in ours}
    found: Rows = Counter()
    for row, count in theirs.items():
        found[row if row[at] in texts else (*row[:at], _HELD_OUT, *row[at + 1 :])] += count
    return found


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


_SESSION = {"ANALYSIS_DETAILS", "META_DATA_CAPTURE"}
_EXPORTERS = {"EXPORT_META_DATA", "META_DATA_EXPORT"}


def completed(theirs: Path, ours: Path, build: str, made: Path) -> Path:
    """NVIDIA's export of a build with what its age does not tell of the session, and the report tells.

    The tables of the session and its options are ours in any age: `differences` compares them, by what
    NVIDIA rounds and what is not copied. The events and all that names them stay NVIDIA's.
    """
    shutil.copyfile(theirs, made)
    made.chmod(0o600)
    with closing(sqlite3.connect(made)) as connection:
        connection.execute("ATTACH ? AS ours", (str(ours),))
        here = {name for (name,) in connection.execute("SELECT name FROM ours.sqlite_master")}
        later = {name for name in _SINCE if is_later(name, build)}
        if tables_of(connection) & _EXPORTERS:
            later -= _EXPORTERS  # it is one table, by its name of that age and of another
        for table in here & (_SESSION | later):
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
                found = differences(exported(pair.report, Path(folder)), pair.export, pair.build)
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
