"""Damaged, trimmed and foreign files: what users pass, and what a hostile one would.

Each maker writes one file. Most start from the `basic` workload's export and change it by SQL, so
the answers of `basic` hold for everything the change does not touch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from scenarios import WORKLOADS
from write_nsys import changed_database, write_nsys

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"

Maker = Callable[[Path], None]


def _changed(sql: str, age: str = "3.17.2") -> Maker:

    def make(path: Path) -> None:
        write_nsys(WORKLOADS["basic"], path, age)
        with changed_database(path) as connection:
            connection.executescript(sql)
            connection.execute("VACUUM")

    return make


def _database(sql: str) -> Maker:

    def make(path: Path) -> None:
        path.unlink(missing_ok=True)
        with changed_database(path) as connection:
            connection.executescript("PRAGMA page_size = 1024;" + sql)

    return make


def _bytes(content: bytes) -> Maker:
    def make(path: Path) -> None:
        path.write_bytes(content)

    return make


def _truncated(path: Path) -> None:
    write_nsys(WORKLOADS["basic"], path, "3.25.0")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _noise(count: int) -> bytes:
    blocks = (hashlib.sha256(b"%d" % number).digest() for number in range(count // 32))
    return b"".join(blocks)


LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4665a5ea423c2713d436b5ee50593a9640e0018c1550b5a0002f74190d6caea8\n"
    b"size 12345678\n"
)
FOREIGN = """
PRAGMA application_id = 252006675;
CREATE TABLE bookmark (id INTEGER PRIMARY KEY, title TEXT, url TEXT);
INSERT INTO bookmark (title, url) VALUES ('SQLite', 'https://sqlite.org/');
"""
# Zero-affinity text stays text in an INTEGER column; so do blobs and fractions.
BAD_CELLS = f"""
UPDATE {KERNEL} SET start = 'n/a' WHERE correlationId = 105;
UPDATE {KERNEL} SET end = x'00ff' WHERE correlationId = 107;
UPDATE {KERNEL} SET gridX = 'wide' WHERE correlationId = 116;
UPDATE {MEMCPY} SET bytes = 'many' WHERE correlationId = 103;
UPDATE {MEMCPY} SET bytes = 1000.5 WHERE correlationId = 104;
UPDATE {RUNTIME} SET end = '12_000 ns' WHERE correlationId = 119;
UPDATE NVTX_EVENTS SET start = 'soon' WHERE text = 'saxpy step';
UPDATE StringIds SET value = x'fffe00' WHERE value = 'stencil';
"""
NO_STRINGS = f"""
UPDATE {KERNEL} SET demangledName = 900001, shortName = 900002, mangledName = 900003
    WHERE correlationId IN (105, 109);
UPDATE {KERNEL} SET demangledName = 900004 WHERE correlationId = 110;
UPDATE {RUNTIME} SET nameId = 900005 WHERE correlationId = 120;
UPDATE NVTX_EVENTS SET textId = 900006 WHERE textId IS NOT NULL AND domainId = 1;
"""
DURATIONS = f"""
UPDATE {KERNEL} SET end = start - 500 WHERE correlationId = 105;
UPDATE {KERNEL} SET end = 4611686018427387904 WHERE correlationId = 116;
UPDATE {MEMCPY} SET start = -9223372036854775808 WHERE correlationId = 103;
UPDATE {RUNTIME} SET end = start - 1 WHERE correlationId = 119;
UPDATE NVTX_EVENTS SET end = 9223372036854775807 WHERE text = 'iteration 1';
"""
# As a traced `--cudabacktrace` shows: one row of class 67 around each call, of the same id.
BACKTRACES = f"""
INSERT INTO StringIds SELECT 800000 + min(id), substr(value, 1, instr(value, '_v') - 1)
    FROM StringIds WHERE value IN ('cudaMemcpy_v3020', 'cudaLaunchKernel_v7000') GROUP BY value;
INSERT INTO {RUNTIME}
    SELECT start - 100, end + 100, 67, globalTid, correlationId, 800000 + nameId, 0, correlationId
    FROM {RUNTIME} WHERE 800000 + nameId IN (SELECT id FROM StringIds);
"""
TRIMMED = f"""
ALTER TABLE {MEMCPY} RENAME TO old_copies;
CREATE TABLE {MEMCPY} AS SELECT start, end, deviceId, contextId, streamId, correlationId, bytes,
    copyKind, srcKind, dstKind FROM old_copies;
DROP TABLE old_copies;
ALTER TABLE {RUNTIME} RENAME TO old_calls;
CREATE TABLE {RUNTIME} AS SELECT start, end, globalTid, correlationId, nameId, returnValue
    FROM old_calls;
DROP TABLE old_calls;
"""
VIEWS = f"""
ALTER TABLE {KERNEL} RENAME TO hidden_kernels;
CREATE VIEW {KERNEL} AS SELECT * FROM hidden_kernels;
CREATE TABLE trap (text TEXT);
CREATE TRIGGER on_call AFTER INSERT ON {RUNTIME}
    BEGIN INSERT INTO trap VALUES ('the source was written to'); END;
CREATE TRIGGER on_string AFTER UPDATE ON StringIds BEGIN DELETE FROM {RUNTIME}; END;
"""
# Whoever counts or reads these rows never comes back.
ENDLESS = f"""
DROP TABLE {MEMSET};
CREATE VIEW {MEMSET} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT i AS start, i AS end, 0 AS deviceId, 1 AS contextId, 7 AS streamId,
    0 AS correlationId, 281546145660928 AS globalPid, 0 AS value, 1 AS bytes, 2 AS memKind FROM n;
"""
ZERO_TIMES = f"UPDATE {KERNEL} SET start = 0, end = 0 WHERE correlationId IN (105, 110);"
CLOCKS = "".join(
    f"UPDATE {table} SET start = start + 300000000000, end = end + 300000000000;"
    for table in (KERNEL, MEMCPY, MEMSET)
)
# 109 (72-74 us) now reaches into the next call of the thread, 110 (130-132 us).
CROSSING = f"UPDATE {RUNTIME} SET end = 131000 WHERE correlationId = 109;"
SHARED_IDS = f"""
UPDATE {RUNTIME} SET correlationId = 107 WHERE correlationId = 108;
INSERT INTO StringIds VALUES (800000, 'cuMemcpyDtoH_v2');
INSERT INTO {RUNTIME} SELECT start - 500, end + 500, 1, globalTid, correlationId, 800000, 0, NULL
    FROM {RUNTIME} WHERE correlationId = 112;
"""
EXTRA = f"""
ALTER TABLE {RUNTIME} ADD COLUMN name TEXT;
UPDATE {RUNTIME} SET name = (SELECT value FROM StringIds WHERE id = nameId);
ALTER TABLE {KERNEL} ADD COLUMN "odd ""name" TEXT;
CREATE TABLE "MY NOTES; DROP TABLE" (note TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_FUTURE (start INTEGER NOT NULL, end INTEGER NOT NULL);
INSERT INTO CUPTI_ACTIVITY_KIND_FUTURE VALUES (1, 2);
CREATE INDEX by_correlation ON {KERNEL} (correlationId);
"""
FUTURE = """
UPDATE META_DATA_EXPORT SET value = '4.0.0' WHERE name = 'EXPORT_SCHEMA_VERSION';
UPDATE META_DATA_EXPORT SET value = '4' WHERE name = 'EXPORT_SCHEMA_VERSION_MAJOR';
UPDATE META_DATA_EXPORT SET value = '0' WHERE name LIKE 'EXPORT_SCHEMA_VERSION_MI%';
"""

# file: (maker, what it holds).
ODD: dict[str, tuple[Maker, str]] = {
    "lfs-pointer.sqlite": (_bytes(LFS_POINTER), "a Git LFS pointer instead of the file"),
    "empty.sqlite": (_bytes(b""), "no bytes at all"),
    "truncated.sqlite": (_truncated, "the first half of the `basic` export of schema 3.25.0"),
    "foreign.sqlite": (_database(FOREIGN), "an SQLite database of another program"),
    "report.nsys-rep": (
        _bytes(b"made-up binary report\0" + _noise(2048)),
        "bytes in place of a report that was never exported",
    ),
    "bad-cells.sqlite": (
        _changed(BAD_CELLS),
        "text, blobs and fractions in integer columns of 7 rows (kernels 105 107 116, copies 103 "
        "104, call 119, range `saxpy step`), a blob as the string `stencil`",
    ),
    "ids-without-strings.sqlite": (
        _changed(NO_STRINGS),
        "names that are not in StringIds: kernels 105 109 (all three), 110 (demangled), call 120, "
        "range `load`",
    ),
    "odd-durations.sqlite": (
        _changed(DURATIONS),
        "kernel 105 and call 119 end before they start, kernel 116 ends at 2^62, copy 103 starts "
        "at -2^63, range `iteration 1` ends at 2^63-1",
    ),
    "backtrace-rows.sqlite": (
        _changed(BACKTRACES, "2.9.1"),
        "rows of event class 67 around cudaMemcpy and cudaLaunchKernel calls, with their ids; "
        "answers as `basic`",
    ),
    "trimmed.sqlite": (
        _changed(TRIMMED),
        "copies without globalPid, calls without eventClass; one process, so the process is known",
    ),
    "views-and-triggers.sqlite": (
        _changed(VIEWS), "the kernel table is a view; triggers on two tables; answers as `basic`",
    ),
    "endless-view.sqlite": (
        _changed(ENDLESS), "the memset table is a view with endlessly many rows",
    ),
    "zero-times.sqlite": (
        _changed(ZERO_TIMES), "kernels 105 and 110 start and end at 0: no time recorded",
    ),
    "clocks-disagree.sqlite": (
        _changed(CLOCKS), "all GPU work is 5 minutes later than its API calls",
    ),
    "crossing-calls.sqlite": (
        _changed(CROSSING), "call 109 ends inside the next call of its thread, 110",
    ),
    "shared-ids.sqlite": (
        _changed(SHARED_IDS),
        "calls that share an id: 107 with its inner driver call; 112 with a driver call around it",
    ),
    "extra-columns.sqlite": (
        _changed(EXTRA),
        "columns, tables and an index that nsys does not write; answers as `basic`",
    ),
    "future-schema.sqlite": (
        _changed(FUTURE, "3.28.1"), "schema 4.0.0, which does not exist; tables as in 3.28.1",
    ),
}  # fmt: skip
