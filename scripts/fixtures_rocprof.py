"""Results of rocprof: a made-up program on one GPU, as databases and as the tables that it prints.

Times in ns since the first call:

    call                     from     to   Index   what it made on GPU 8
    hipMemcpy                   0   3000       1   4096 bytes to the device, 1000 to 2500
    hipLaunchKernel          3000   3500       2   saxpy, 1024 work-items in groups of 256, 4000 to 6000
    hipLaunchKernel          3500   4000       3   reduce, 100 work-items in groups of 64, 6000 to 7000
    hipMemcpyAsync           4000   4100       4   two copies on the device, 64 bytes, 7500 to 7800
    hipDeviceSynchronize     4100   9000       5
                                               a barrier, 7000 to 7500; a fill, 7800 to 7900

    kernels 3000 ns; copies 1500 + 300 ns; a fill of 100 ns; counters: SQ_WAVES 16, 2 and 1

Columns and words follow public files (MIT, Apache-2.0).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from fixture import Fixture

ZERO = 1_915_914_000_000_500
"""When the first call began, in ns since the machine started; no whole second."""
PID, GPU = 300, 8
SECRET = "SECRET-TOKEN"
SAXPY, REDUCE = "saxpy(float*, float) [clone .kd]", "_Z6reducePf.kd"
FILL = "__amd_rocclr_fillBufferAligned.kd"

_MAIN = (
    "Index", "KernelName", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds", "scr",
    "arch_vgpr", "accum_vgpr", "sgpr", "wave_size", "sig", "obj",
)  # fmt: skip
_TIMES = ("DispatchNs", "BeginNs", "EndNs", "CompleteNs", "DurationNs")
_OLD = tuple("vgpr" if name == "arch_vgpr" else name for name in _MAIN if name != "accum_vgpr")
COUNTERS = ("SQ_WAVES", "TCC_HIT[0]")
_V2 = (
    "Dispatch_ID", "GPU_ID", "Queue_ID", "PID", "TID", "Grid_Size", "Workgroup_Size", "LDS_Per_Workgroup",
    "Scratch_Per_Workitem", "Arch_VGPR", "Accum_VGPR", "SGPR", "Wave_Size", "Kernel_Name",
    "Start_Timestamp", "End_Timestamp", "Correlation_ID", "SQ_WAVES",
)  # fmt: skip
_CALL = ("BeginNs", "EndNs", "pid", "tid", "Name", "args", "Index", "Data", "__section", "__lane",
         "DurationNs")  # fmt: skip
_OP = ("BeginNs", "EndNs", "dev-id", "queue-id", "Name", "pid", "tid", "roctx-range", "stream-id",
       "Index", "Data", "__section", "__lane", "DurationNs")  # fmt: skip


def _kernels() -> list[dict[str, Any]]:
    rows = []
    for index, (name, grid, group, start, end, waves, hits) in enumerate((
        (SAXPY, 1024, 256, 4000, 6000, 16, 0.5),
        (REDUCE, 100, 64, 6000, 7000, 2, 1.5),
        (FILL, 64, 64, 7800, 7900, 1, 0.0),
    )):  # fmt: skip
        rows.append({
            "Index": index, "KernelName": name, "gpu-id": GPU, "queue-id": 0, "queue-index": index,
            "pid": PID, "tid": PID, "grd": grid, "wgr": group, "lds": 512, "scr": 0, "arch_vgpr": 16,
            "accum_vgpr": 4, "vgpr": 16, "sgpr": 32, "wave_size": 64, "sig": "0x0", "obj": f"0x{SECRET}",
            "DispatchNs": ZERO + start - 900, "BeginNs": ZERO + start, "EndNs": ZERO + end,
            "CompleteNs": ZERO + end + 10, "DurationNs": end - start, "SQ_WAVES": waves,
            "TCC_HIT[0]": hits,
        })  # fmt: skip
    return rows


def _v2_kernels() -> list[dict[str, Any]]:
    ours = dict(zip(_V2, ("Index", "gpu-id", "queue-id", "pid", "tid", "grd", "wgr", "lds", "scr",
                          "arch_vgpr", "accum_vgpr", "sgpr", "wave_size", "KernelName", "BeginNs",
                          "EndNs", "Index", "SQ_WAVES"), strict=True))  # fmt: skip
    return [{theirs: row[own] for theirs, own in ours.items()} for row in _kernels()]


def printed(
    columns: Sequence[str], rows: Sequence[dict[str, Any]], *, quotes: bool = True
) -> str:
    """Return a table as CSV, texts in quotes; `quotes`: those of the header, too."""
    header = [f'"{name}"' if quotes else name for name in columns]
    lines = [header, *([_cell(row[name]) for name in columns] for row in rows)]
    return "".join(f"{','.join(cells)}\n" for cells in lines)


def _cell(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def totals(*rows: tuple[str, int, int]) -> str:
    """Return a table of totals; means are cut to whole numbers, as rocprof does."""
    whole = sum(total for _, _, total in rows)
    return printed(("Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage"), [
        {"Name": name, "Calls": calls, "TotalDurationNs": total, "AverageNs": total // calls,
         "Percentage": 100 * total / whole}
        for name, calls, total in rows
    ])  # fmt: skip


def _results() -> str:
    return printed((*_MAIN, *_TIMES), _kernels())


TABLES: dict[str, tuple[Callable[[], str], str]] = {
    "results.csv": (_results, "three kernels with times"),
    "counters.csv": (lambda: printed((*_OLD, *COUNTERS), _kernels(), quotes=False),
                     "the same with counters, without times"),
    "counters-times.csv": (lambda: printed((*_MAIN, *_TIMES, *COUNTERS), _kernels()),
                           "with counters and times"),
    "v2.csv": (lambda: printed(_V2, _v2_kernels(), quotes=False), "as rocprofv2 prints them"),
    "results.stats.csv": (lambda: totals(("<barrier packet>", 1, 500), (SAXPY, 1, 2000),
                                         ("reduce(float*)", 2, 1001), (FILL, 1, 100)),
                          "totals of kernels, and of barriers"),
    "results.hip_stats.csv": (lambda: totals(("hipDeviceSynchronize", 1, 4900), ("hipMemcpy", 1, 3000),
                                             ("__hipPushCallConfiguration", 2, 1001)), "totals of calls"),
    "results.hsa_stats.csv": (lambda: totals(("hsa_signal_wait_scacquire", 3, 4000),
                                             ("hsa_queue_create", 1, 1000)), "totals of calls of HSA"),
    "results.copy_stats.csv": (lambda: totals(
        ("CopyHostToDevice", 1, 1500), ("CopyDeviceToDevice", 2, 300), ("FillBuffer", 1, 100)),
        "totals of copies"),
    "odd-cut.csv": (lambda: _results()[:-25], "cut off in its last line"),
    "odd-damaged.csv": (lambda: _results().replace(f"{ZERO + 6000}", "soon", 1).replace(
        str(ZERO + 7900), str(ZERO + 7000)) + "\0\0,what\n", "cells and lines of another kind"),
    "odd-header.csv": (lambda: _results().split("\n")[0] + "\n", "a header alone"),
    "odd-utf16.csv": (_results, "`results.csv` as PowerShell redirects it: UTF-16, CRLF"),
}  # fmt: skip


def _write_text(name: str, path: Path) -> None:
    text = TABLES[name][0]()
    if "utf16" in name:
        path.write_bytes(b"\xff\xfe" + text.replace("\n", "\r\n").encode("utf-16-le"))
    else:
        path.write_text(text, encoding="utf-8", newline="")


# -- databases

_TEXTS = frozenset({"KernelName", "Name", "args", "sig", "obj", "Data", "roctx-range"})
_COUNTED = frozenset(COUNTERS)


def _fill(
    sql: sqlite3.Connection, table: str, columns: Sequence[str], rows: Sequence[dict[str, Any]]
) -> None:
    kinds = ("TEXT" if c in _TEXTS else "REAL" if c in _COUNTED else "INTEGER" for c in columns)
    declared = ", ".join(f'"{c}" {kind}' for c, kind in zip(columns, kinds, strict=True))
    sql.execute(f"CREATE TABLE {table} ({declared})")
    marks = ", ".join("?" * len(columns))
    sql.executemany(f"INSERT INTO {table} VALUES ({marks})",
                    [[row.get(c) for c in columns] for row in rows])  # fmt: skip


def _with_kernels(sql: sqlite3.Connection, table: str = "KERN", more: Sequence[str] = _TIMES) -> None:
    # Names keep the quotes that they have in the printed table.
    rows = [{**row, "KernelName": f'"{row["KernelName"]}"'} for row in _kernels()]
    _fill(sql, table, (*_MAIN, *more), rows)


def _with_trace(sql: sqlite3.Connection) -> None:
    def row(start: int, end: int, name: str, index: int, **more: Any) -> dict[str, Any]:
        times = {"BeginNs": ZERO + start, "EndNs": ZERO + end, "DurationNs": end - start}
        own = {"pid": PID, "tid": PID, "Name": name, "Index": index, "Data": SECRET}
        return {**times, **own, "dev-id": GPU, "queue-id": 0, "stream-id": 0, "roctx-range": name, **more}

    _fill(sql, "HIP", _CALL, [
        row(0, 3000, "hipMemcpy", 1, args=f"dst(0x7f) path(/home/{SECRET}) sizeBytes(4096) kind(1)"),
        row(3000, 3500, "hipLaunchKernel", 2, args="numBlocks({4,1,1})"),
        row(3500, 4000, "hipLaunchKernel", 3),
        row(4000, 4100, "hipMemcpyAsync", 4, args="sizeBytes(64) kind(3) stream(0)"),
        row(4100, 9000, "hipDeviceSynchronize", 5),
    ])  # fmt: skip
    _fill(sql, "HSA", _CALL, [
        row(at, at + 50, name, index)
        for index, (at, name) in enumerate((
            (100, "hsa_amd_memory_async_copy"), (3100, "hsa_queue_create"),
            (4200, "hsa_signal_wait_scacquire")))
    ])  # fmt: skip
    _fill(sql, "OPS", _OP, [
        row(4000, 6000, SAXPY, 2), row(6000, 7000, REDUCE, 3), row(7000, 7500, "<barrier packet>", 0),
    ])  # fmt: skip
    _fill(sql, "COPY", _OP, [
        row(1000, 2500, "CopyHostToDevice", 1), row(7500, 7600, "CopyDeviceToDevice", 4),
        row(7600, 7800, "CopyDeviceToDevice", 4), row(7800, 7900, "FillBuffer", 0),
    ])  # fmt: skip
    _fill(sql, "rocTX", _CALL, [row(2000, 8000, "step", 0), row(2500, 2500, "epoch", 0)])


def _trace(sql: sqlite3.Connection) -> None:
    # Only traces were asked for: the table of kernels has two columns and no rows.
    _fill(sql, "KERN", _MAIN[:2], [])
    _with_trace(sql)


def _both(sql: sqlite3.Connection) -> None:
    _with_kernels(sql)
    _with_trace(sql)


def _damaged(sql: sqlite3.Connection) -> None:
    _trace(sql)
    for change in (
        "UPDATE OPS SET EndNs = BeginNs - 5 WHERE rowid = 1",
        f"UPDATE OPS SET BeginNs = {1 << 60}, EndNs = {(1 << 60) + 5} WHERE rowid = 2",
        "UPDATE COPY SET BeginNs = 'soon' WHERE rowid = 1",
        'UPDATE COPY SET "dev-id" = NULL WHERE rowid = 2',
        "UPDATE COPY SET BeginNs = 0, EndNs = 0 WHERE rowid = 3",
        "UPDATE COPY SET Name = 'CopySomewhere' WHERE rowid = 3",
        "UPDATE HIP SET Name = NULL WHERE rowid = 1",
        "UPDATE HIP SET pid = 'x' WHERE rowid = 2",
        "ALTER TABLE rocTX DROP COLUMN Name",
    ):
        sql.execute(change)


def _empty(sql: sqlite3.Connection) -> None:
    _fill(sql, "KERN", _MAIN[:2], [])


def _write_database(write: Callable[[sqlite3.Connection], None], path: Path) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as sql, sql:
        write(sql)


DATABASES: dict[str, tuple[Callable[[sqlite3.Connection], None], str]] = {
    "trace.db": (_trace, "kernels, copies, calls of HIP and HSA, ranges"),
    "kernels.db": (_with_kernels, "kernels alone, with times"),
    "counters.db": (partial(_with_kernels, more=COUNTERS), "kernels with counters, without times"),
    "odd-both.db": (_both, "the same kernels in two tables"),
    "odd-damaged.db": (_damaged, "cells of wrong types, impossible times, a missing column"),
    "odd-empty.db": (_empty, "a table without rows"),
    "odd-no-columns.db": (lambda sql: _fill(sql, "KERN", ("id",), []), "without columns: refused"),
    "odd-old.db": (partial(_with_kernels, table="A"), "kernels in a table A"),
}  # fmt: skip

ABOUT = """\
`rocprof/` holds databases and tables of rocprof, of a made-up program (`scripts/fixtures_rocprof.py`),
with secrets where arguments are. Columns and words follow public files. `odd-…` are damaged and rare.
"""
EXAMPLE = "rocprof/trace.db"
FILES = [
    *(Fixture(f"rocprof/{name}", holds, partial(_write_database, write),
              refused=name == "odd-no-columns.db")
      for name, (write, holds) in DATABASES.items()),
    *(Fixture(f"rocprof/{name}", holds, partial(_write_text, name))
      for name, (_, holds) in TABLES.items()),
]  # fmt: skip
