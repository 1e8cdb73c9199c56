"""Files that are made to be large or odd in one way: nsys exports and traces."""

from __future__ import annotations

import json
import math
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seeds import FIXTURES
from truth import Printed, Truth

_TEMPLATE = FIXTURES / "nsys" / "basic-3.25.0.sqlite"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
RANGES = "NVTX_EVENTS"
_EVENTS = (KERNELS, CALLS, COPIES, RANGES, "CUPTI_ACTIVITY_KIND_MEMSET", "PROFILER_OVERHEAD",
           "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_OVERHEAD")  # fmt: skip
PUSH_POP = 59
PID = 4242
_FIRST_TEXT = 1000
_HEADER = 100

Cells = Mapping[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """A file that was made: its name and bytes, what is special about it, what must be read from it."""

    name: str
    content: bytes
    done: tuple[str, ...]
    truths: tuple[Truth | Printed, ...] = ()


def about(random_: random.Random, low: int, high: int) -> int:
    """Return a number of any order of magnitude between these."""
    return round(math.exp(random_.uniform(math.log(low), math.log(high))))


def process(pid: int = PID) -> int:
    """Return a process as nsys numbers it."""
    return 1 << 48 | pid << 24


@dataclass(frozen=True)
class Layout:
    """The layout of a database in pages, and the declarations of its tables of events."""

    page_bytes: int = 4096
    reserved: int = 0
    declared: Callable[[str, list[str]], str] | None = None


class Export:
    """An nsys export as it grows: the fixture's session, other events."""

    def __init__(self, layout: Layout | None = None) -> None:
        """Copy the fixture that the export begins with."""
        layout = layout or Layout()
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "made.sqlite"
        self._path.write_bytes(_empty(layout))
        self.sql = sqlite3.connect(self._path, isolation_level=None)
        self.sql.execute("PRAGMA synchronous = OFF")
        self._texts: dict[str, int] = {}
        self._rows: dict[str, Row] = {}
        with closing(sqlite3.connect(_TEMPLATE)) as template:
            template.row_factory = sqlite3.Row
            for name, statement in template.execute(
                "SELECT name, sql FROM sqlite_master"
            ).fetchall():
                rows = [dict(row) for row in template.execute(f"SELECT * FROM {name}")]
                if name in _EVENTS:
                    self._rows[name] = rows[0]
                    if layout.declared is not None:
                        statement = layout.declared(name, list(rows[0]))
                    rows = []
                self.sql.execute(statement)
                self._insert(name, rows)

    def text(self, text: str) -> int:
        """Return the number of a text, as tables refer to it."""
        return self._texts.setdefault(text, _FIRST_TEXT + len(self._texts))

    def add(self, table: str, rows: Iterable[Cells]) -> None:
        """Add rows; cells that are not given are as in the fixture."""
        self._insert(table, [{**self._rows[table], **row} for row in rows])

    def ranges(self, ranges: Iterable[tuple[int, int, str]], tid: int = PID) -> None:
        """Add push/pop ranges of a thread: start, end, text."""
        self.add(RANGES, ({"start": start, "end": end, "eventType": PUSH_POP, "text": text,
                           "globalTid": process() | tid} for start, end, text in ranges))  # fmt: skip

    def _insert(self, table: str, rows: Sequence[Cells]) -> None:
        if not rows:
            return
        names = list(rows[0])
        self.sql.execute("BEGIN")
        self.sql.executemany(
            f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
            (tuple(row.values()) for row in rows),
        )
        self.sql.execute("COMMIT")

    def bytes(self, *, wal: bool = False) -> bytes:
        """Close the file. `wal`: its header says that it has been written through a log."""
        self._insert("StringIds", [{"id": n, "value": text} for text, n in self._texts.items()])
        end = max(
            self.sql.execute(f"SELECT coalesce(max(end), 0) FROM {name}").fetchone()[0]
            for name in (KERNELS, CALLS, COPIES, RANGES)
        )
        self.sql.execute(
            "UPDATE ANALYSIS_DETAILS SET duration = :end, stopTime = startTime + :end", {"end": end}
        )
        if wal:
            self.sql.execute("PRAGMA journal_mode = WAL")
        self.sql.close()
        content = self._path.read_bytes()
        self._folder.cleanup()
        return content


def _empty(layout: Layout) -> bytes:
    with closing(sqlite3.connect(":memory:")) as sql:
        sql.execute(f"PRAGMA page_size = {layout.page_bytes}")
        sql.execute("CREATE TABLE a (b)")
        sql.execute("DROP TABLE a")
        sql.execute("VACUUM")
        content = bytearray(sql.serialize())
    content[20] = layout.reserved
    usable = (layout.page_bytes - layout.reserved) % 65_536
    content[_HEADER + 5 : _HEADER + 7] = usable.to_bytes(2, "big")  # where cells begin
    return bytes(content)


def kernel(export: Export, start: int, end: int, name: str, **cells: Any) -> Row:
    """Return a row of KERNELS."""
    text = export.text(name)
    return {"start": start, "end": end, "demangledName": text, "shortName": text, "mangledName": text,
            "correlationId": 0, "globalPid": process(), **cells}  # fmt: skip


def call(
    export: Export, start: int, end: int, correlation: int, tid: int = PID, pid: int = PID
) -> Row:
    """Return a row of CALLS."""
    return {"start": start, "end": end, "correlationId": correlation, "globalTid": process(pid) | tid,
            "nameId": export.text("cudaLaunchKernel_v7000")}  # fmt: skip


def counted(**rows: int) -> tuple[Truth, ...]:
    """Return the truths that tables of the store have so many rows."""
    return tuple(
        Truth(f"SELECT count(*) FROM {table}", ((count,),), f"rows of {table}")
        for table, count in rows.items()
    )


def times_of(table: str, rows: Sequence[Cells]) -> Truth:
    """Return the truth that a table has these starts and ends, in any order."""
    total = sum(row["end"] - row["start"] for row in rows)
    starts = [row["start"] for row in rows]
    first = min(starts)
    # Times in a store begin at the recording's zero.
    return Truth(
        f"SELECT count(*), sum(dur_ns), sum(start_ns - {first}) FROM {table}",
        ((len(rows), total, sum(start - first for start in starts)),),
        f"rows and times of {table}",
    )


# -- traces

_ZERO_US = 36_288_000_000


def event(category: str, name: str, start: int, end: int, **cells: Any) -> Row:
    """Return a whole event of a trace; times are in ns."""
    return {"ph": "X", "cat": category, "name": name, "pid": PID, "tid": PID,
            "ts": _us(start), "dur": _us(end - start, 0), **cells}  # fmt: skip


def gpu_event(
    name: str, start: int, end: int, correlation: int, device: int = 0, stream: int = 7
) -> Row:
    """Return a kernel event."""
    args = {"device": device, "context": 1, "stream": stream, "correlation": correlation,
            "grid": [1, 1, 1], "block": [32, 1, 1]}  # fmt: skip
    return event("kernel", name, start, end, pid=device, tid=stream, args=args)


def launch(start: int, end: int, correlation: int, tid: int = PID) -> Row:
    """Return a call event that launches the kernel of this correlation."""
    return event("cuda_runtime", "cudaLaunchKernel", start, end, tid=tid,
                 args={"correlation": correlation})  # fmt: skip


def trace(events: Sequence[Row]) -> bytes:
    """Return the trace of these events."""
    head = {"schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms",
            "baseTimeNanoseconds": 1767189312000000000, "traceEvents": []}  # fmt: skip
    lines = ",\n".join(json.dumps(each) for each in events)
    return json.dumps(head)[:-2].encode() + f"\n{lines}\n]}}".encode()


def _us(ns: int, zero: int = _ZERO_US) -> float:
    return (zero * 1000 + ns) / 1000
