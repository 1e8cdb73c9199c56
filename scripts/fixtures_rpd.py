"""RPD recordings: a made-up program on one GPU, as rocmProfileData writes it in schemas 2 and 3.

Times in ns since the first call; the machine had been up for more than 104 days, which is 2^53 ns.

    call                     from     to   what it made on GPU 2, queue 0
    hipMemcpy                   0   3000   4096 bytes to the device, 1000 to 2500
    hipLaunchKernel          3000   3500   saxpy, 4 blocks of 256, 4000 to 6000
    hipLaunchKernel          3500   4000   reduce, 1 block of 64, 6000 to 7000
    hipGraphLaunch           7000   9000   three tasks of scale, 9000 to 9100, 9100 to 9300, 9300 to 9600
    hipMemcpyAsync           9600   9700   512 bytes to the host, 10000 to 10400
    hipMemsetAsync           9700   9800   a fill, 10400 to 10500
    hipMemcpyAsync           9800   9900   two copies within the device, 64 bytes together, 10500 to 10800
    hipDeviceSynchronize    10000  11000

    kernels 3600 ns in 5; copies 1500 + 400 + 300 ns in 4, of them 4608 bytes known; a fill of 100 ns

Tables, columns and words follow public recordings (MIT) and the schema of rocmProfileData.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from fixture import Fixture

ZERO = 9_300_000_000_000_250
"""When the first call began, in ns since the machine started: beyond 2^53, and no whole second."""
SESSION = 1 << 32
PID, OTHER_THREAD, GPU = 4711, 4712, 2
SECRET = "SECRET-TOKEN"

_SCHEMA_2 = """
CREATE TABLE rocpd_metadata (id integer NOT NULL PRIMARY KEY, tag varchar(4096), value varchar(4096));
CREATE TABLE rocpd_string (id integer NOT NULL PRIMARY KEY, string varchar(4096) NOT NULL);
CREATE TABLE rocpd_api (id integer NOT NULL PRIMARY KEY, pid integer NOT NULL, tid integer NOT NULL,
    start integer NOT NULL, "end" integer NOT NULL, apiName_id integer NOT NULL,
    args_id integer NOT NULL);
CREATE TABLE rocpd_op (id integer NOT NULL PRIMARY KEY, gpuId integer NOT NULL, queueId integer NOT NULL,
    sequenceId integer NOT NULL, completionSignal varchar(18) NOT NULL, start integer NOT NULL,
    "end" integer NOT NULL, description_id integer NOT NULL, opType_id integer NOT NULL);
"""
_SCHEMA_3 = """
CREATE TABLE rocpd_metadata (id integer NOT NULL PRIMARY KEY, tag varchar(4096), value varchar(4096));
CREATE TABLE rocpd_string (id integer NOT NULL PRIMARY KEY, string varchar(4096) NOT NULL);
CREATE TABLE rocpd_ustring (id integer NOT NULL PRIMARY KEY, string varchar(4096) NOT NULL);
CREATE TABLE rocpd_api (id integer NOT NULL PRIMARY KEY, pid integer NOT NULL, tid integer NOT NULL,
    start integer NOT NULL, "end" integer NOT NULL, apiName_id bigint NOT NULL,
    category_id bigint NOT NULL, domain_id bigint NOT NULL, args_id bigint NOT NULL);
CREATE TABLE rocpd_op (id integer NOT NULL PRIMARY KEY, gpuId integer NOT NULL, queueId integer NOT NULL,
    sequenceId integer NOT NULL, start integer NOT NULL, "end" integer NOT NULL,
    description_id bigint NOT NULL, opType_id bigint NOT NULL);
CREATE TABLE rocpd_counter (id integer NOT NULL PRIMARY KEY, value real NOT NULL, op_id bigint NOT NULL,
    name_id bigint NOT NULL);
"""
_BOTH = """
CREATE TABLE rocpd_api_ops (id integer NOT NULL PRIMARY KEY, api_id bigint NOT NULL,
    op_id bigint NOT NULL);
CREATE TABLE rocpd_kernelapi (api_ptr_id integer NOT NULL PRIMARY KEY, stream varchar(18) NOT NULL,
    gridX integer NOT NULL, gridY integer NOT NULL, gridZ integer NOT NULL, workgroupX integer NOT NULL,
    workgroupY integer NOT NULL, workgroupZ integer NOT NULL, groupSegmentSize integer NOT NULL,
    privateSegmentSize integer NOT NULL, codeObject_id integer, kernelName_id integer NOT NULL);
CREATE TABLE rocpd_copyapi (api_ptr_id integer NOT NULL PRIMARY KEY, stream varchar(18) NOT NULL,
    size integer NOT NULL, width integer NOT NULL, height integer NOT NULL, kind integer NOT NULL,
    dst varchar(18) NOT NULL, src varchar(18) NOT NULL, dstDevice integer NOT NULL,
    srcDevice integer NOT NULL, sync bool NOT NULL, pinned bool NOT NULL);
CREATE TABLE rocpd_monitor (id integer NOT NULL PRIMARY KEY, deviceType varchar(16) NOT NULL,
    deviceId integer NOT NULL, monitorType varchar(16) NOT NULL, start integer NOT NULL,
    "end" integer NOT NULL, value varchar(255) NOT NULL);
"""
SAXPY = "saxpy(float*, float)"
REDUCE = "_Z6reducePf"


class Rpd:
    """A recording that is being written; numbers of strings and rows are assigned as they come."""

    def __init__(self, path: Path, version: int) -> None:
        """Make the tables of a schema."""
        path.unlink(missing_ok=True)
        self.sql = sqlite3.connect(path)
        self.sql.executescript((_SCHEMA_2 if version == 2 else _SCHEMA_3) + _BOTH)
        self._version = version
        self._next = dict.fromkeys(("rocpd_api", "rocpd_op"), SESSION)
        self._strings: dict[tuple[str, str], int] = {}
        self._add("rocpd_metadata", None, "schema_version", str(version))
        self._add("rocpd_metadata", None, "command", f"./train --token {SECRET}")
        self.string("")
        self.string(f"HOME=/home/{SECRET}")

    def _add(self, table: str, *cells: object) -> None:
        self.sql.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(cells))})", cells)

    def string(self, text: str, table: str = "rocpd_string") -> int:
        """Return the number of a text, in this table."""
        if (table, text) not in self._strings:
            number = 1 + sum(its_table == table for its_table, _ in self._strings)
            self._strings[table, text] = number
            self._add(table, number, text)
        return self._strings[table, text]

    def call(
        self, name: str, start: int, end: int, args: str = "", *,
        tid: int = PID, domain: str = "hip", category: str = "",
    ) -> int:  # fmt: skip
        """Add a row of rocpd_api and return its number."""
        self._next["rocpd_api"] += 1
        times = (PID, tid, ZERO + start, ZERO + end, self.string(name))
        if self._version == 2:
            more: tuple[int, ...] = (self.string(args),)
        else:
            own = self.string(args, "rocpd_ustring")
            more = (self.string(category), self.string(domain), own)
        self._add("rocpd_api", self._next["rocpd_api"], *times, *more)
        return self._next["rocpd_api"]

    def op(self, kind: str, start: int, end: int, call: int | None, description: str = "") -> None:
        """Add an operation that a call made."""
        self._next["rocpd_op"] += 1
        signal = ("",) if self._version == 2 else ()
        times = (ZERO + start, ZERO + end, self.string(description), self.string(kind))
        self._add("rocpd_op", self._next["rocpd_op"], GPU, 0, 0, *signal, *times)
        if call is not None:
            self._add("rocpd_api_ops", None, call, self._next["rocpd_op"])

    def kernel_call(self, call: int, blocks: int, threads: int, name: str) -> None:
        """Add how a call launched a kernel."""
        sizes = (blocks, 1, 1, threads, 1, 1, 0, 0)
        self._add("rocpd_kernelapi", call, "0x0", *sizes, "", self.string(name))

    def copy_call(self, call: int, size: int, kind: int) -> None:
        """Add what a call copied; where to and from are swapped, as real ones are."""
        where = ("0x7f59c1260000", "0x7f5562b2a800")
        self._add("rocpd_copyapi", call, "0x0", size, "", "", kind, *where, 0, 0, 0, 0)


def _recording(rpd: Rpd) -> None:
    secret = f"dst = 0x7f59c1260000 | path = /home/{SECRET}"
    call = rpd.call("hipMemcpy", 0, 3000, secret)
    rpd.copy_call(call, 4096, 1)
    rpd.op("CopyHostToDevice", 1000, 2500, call)
    for name, start, blocks, threads, ran in (
        (SAXPY, 3000, 4, 256, (4000, 6000)),
        (REDUCE, 3500, 1, 64, (6000, 7000)),
    ):
        call = rpd.call("hipLaunchKernel", start, start + 500)
        rpd.kernel_call(call, blocks, threads, name)
        rpd.op("KernelExecution", *ran, call, f"{name}.kd" if name == REDUCE else name)
    call = rpd.call("hipGraphLaunch", 7000, 9000, "graphExec = 0x24922d90 | stream = 0x0")
    for start, end in ((9000, 9100), (9100, 9300), (9300, 9600)):
        rpd.op("Task", start, end, call, "scale(float*) [clone .kd]")
    call = rpd.call("hipMemcpyAsync", 9600, 9700)
    rpd.copy_call(call, 512, 2)
    rpd.op("CopyDeviceToHost", 10000, 10400, call)
    rpd.op("FillBuffer", 10400, 10500, rpd.call("hipMemsetAsync", 9700, 9800))
    call = rpd.call("hipMemcpyAsync", 9800, 9900)
    rpd.copy_call(call, 64, 3)
    rpd.op("CopyDeviceToDevice", 10500, 10600, call)
    rpd.op("CopyDeviceToDevice", 10600, 10800, call)
    rpd.call("hipDeviceSynchronize", 10000, 11000)
    rpd.call("UserMarker", 2000, 9000, "step 1", domain="roctx", category="range")
    rpd.call("UserMarker", 2500, 2500, "epoch", tid=OTHER_THREAD, domain="roctx", category="mark")
    rpd.call("ApiTable::writeRows", 11000, 11500, "count=4096", domain="rpd_tracer", tid=OTHER_THREAD)
    for start, value in ((0, "1700"), (5000, "800")):
        cells = ("gpu", 0, "sclk", ZERO + start, ZERO + start + 5000, value)
        rpd._add("rocpd_monitor", None, *cells)


def _schema_2(path: Path) -> None:
    rpd = Rpd(path, 2)
    with closing(rpd.sql), rpd.sql:
        _recording(rpd)
        rpd.call("UserMarker", 2900, 4200, "aten::mm")
        rpd.call("run_to_completion", 100, 10900, "generate")


def _schema_3(path: Path) -> None:
    rpd = Rpd(path, 3)
    with closing(rpd.sql), rpd.sql:
        _recording(rpd)
        arguments = f'{{"path": "/home/{SECRET}"}}'
        rpd.call("aten::mm", 2900, 4200, arguments, domain="torch", category="function")
        rpd.call("ProfilerStep#1", 2000, 9500, domain="torch", category="user_scope")
        rpd.call("miopenConvolutionForward", 3000, 4000, arguments, domain="miopen",
                 category="function")  # fmt: skip
        rpd.op("Barrier", 10800, 10900, rpd.call("hipStreamWaitEvent", 9900, 9950))
        rpd._add("rocpd_counter", None, 7.5, SESSION + 2, rpd.string("SQ_WAVES"))


def _damaged(path: Path) -> None:
    _schema_2(path)
    with closing(sqlite3.connect(path)) as sql, sql:
        for change in (
            f"UPDATE rocpd_op SET start = 'soon' WHERE id = {SESSION + 2}",
            f'UPDATE rocpd_op SET "end" = start - 1 WHERE id = {SESSION + 3}',
            f"UPDATE rocpd_op SET start = {1 << 60}, \"end\" = {(1 << 60) + 5} WHERE id = {SESSION + 4}",
            f'UPDATE rocpd_op SET start = 0, "end" = 0 WHERE id = {SESSION + 5}',
            f"UPDATE rocpd_op SET gpuId = 'x' WHERE id = {SESSION + 6}",
            f"UPDATE rocpd_op SET opType_id = 999 WHERE id = {SESSION + 7}",
            f"UPDATE rocpd_copyapi SET size = 'big' WHERE api_ptr_id = {SESSION + 1}",
            f"UPDATE rocpd_api SET apiName_id = 999 WHERE id = {SESSION + 8}",
            f"UPDATE rocpd_api SET pid = 'x' WHERE id = {SESSION + 4}",
            f"INSERT INTO rocpd_api_ops VALUES (NULL, {SESSION + 8}, {SESSION + 1})",
        ):
            sql.execute(change)


def _without(table: str, rows: bool = False) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        _schema_2(path)
        with closing(sqlite3.connect(path)) as sql, sql:
            sql.execute(f"DELETE FROM {table}" if rows else f"DROP TABLE {table}")

    return write


def _empty(path: Path) -> None:
    with closing(Rpd(path, 2).sql) as sql:
        sql.commit()


ABOUT = """\
`rpd/` holds recordings of rocmProfileData of a made-up program (`scripts/fixtures_rpd.py`), with secrets
where arguments, paths and command lines are. Tables, columns and words follow public recordings and the
project's schema. `odd-…` are damaged and incomplete ones.
"""
EXAMPLE = "rpd/schema-2.rpd"
FILES = [
    Fixture("rpd/schema-2.rpd", "kernels, copies, a graph, calls, markers; schema 2", _schema_2),
    Fixture("rpd/schema-3.rpd", "the same in schema 3, with domains and a barrier", _schema_3),
    Fixture("rpd/odd-damaged.rpd", "cells of wrong types, impossible times", _damaged),
    Fixture("rpd/odd-empty.rpd", "tables without rows", _empty),
    Fixture("rpd/odd-no-copies.rpd", "without the table of copies", _without("rocpd_copyapi")),
    Fixture("rpd/odd-no-operations.rpd", "calls alone", _without("rocpd_op", rows=True)),
    Fixture(
        "rpd/odd-no-strings.rpd",
        "without its texts: refused",
        _without("rocpd_string"),
        refused=True,
    ),
]
