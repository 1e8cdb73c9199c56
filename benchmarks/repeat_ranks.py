"""Write exports of Nsight Systems, one per rank of a job: the first process of a given one, repeated.

What it promises:

* each is a repeated export (`repeat_export.py`), `rank<N>.sqlite`, of that process alone;
* the environment that was captured names rank, local rank (8 a host), world size and job; each host has
  a name of its own, and their clocks are a microsecond apart;
* ranks have the same rows, but one, number ranks // 3, comes late to its collectives; all end as before.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import repeat_export

RANKS_PER_HOST = 8
JOB = 4711
CLOCK_NS = 1_000
LATE = f"""UPDATE {repeat_export.KERNELS} SET start = start + (end - start) / 2
           WHERE shortName IN (SELECT id FROM StringIds WHERE value LIKE 'nccl%')"""


def straggler(ranks: int) -> int:
    """Return the rank that is late."""
    return ranks // 3


def keep_first_process(path: Path) -> None:
    """Remove the rows of all processes but the first."""
    with closing(sqlite3.connect(path)) as connection, connection:
        ((kept,),) = connection.execute(f"SELECT min(globalPid) FROM {repeat_export.KERNELS}")
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            for column in columns & {"globalPid", "globalTid"}:
                # The lower 24 bits are the thread's.
                connection.execute(f"DELETE FROM {table} WHERE {column} >> 24 != ?", (kept >> 24,))


def add_place(path: Path, rank: int, ranks: int) -> None:
    """Add the process's host and rank, and set the start of its session by its host's clock."""
    host, local = divmod(rank, RANKS_PER_HOST)
    variables = {"SLURM_JOB_ID": JOB, "SLURM_STEP_ID": 0, "SLURM_PROCID": rank, "SLURM_LOCALID": local,
                 "SLURM_NODEID": host, "SLURM_STEP_NUM_TASKS": ranks, "SLURM_NTASKS": ranks}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM META_DATA_CAPTURE WHERE name LIKE '%:ENVIRONMENT_VARIABLE'")
        connection.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)",
                               [("PROCESS_0:ENVIRONMENT_VARIABLE", f"{name}={value}")
                                for name, value in variables.items()])  # fmt: skip
        connection.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name = 'Hostname'",
                           (f"node{host:04d}",))
        connection.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + ?",
                           (host * CLOCK_NS,))
        if rank == straggler(ranks):
            connection.execute(LATE)


def generate(folder: Path, source: Path, ranks: int, kernels: int) -> None:
    """Write the exports of all ranks, with at least so many kernels each."""
    folder.mkdir(parents=True, exist_ok=True)
    first, alone = folder / "rank0000.sqlite", folder / "alone"
    shutil.copyfile(source, alone)
    keep_first_process(alone)
    repeat_export.generate(first, alone, kernels)
    alone.unlink()
    for rank in reversed(range(ranks)):
        path = folder / f"rank{rank:04d}.sqlite"
        if path != first:
            shutil.copyfile(first, path)
        add_place(path, rank, ranks)
