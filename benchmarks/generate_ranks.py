"""Write made-up Nsight Systems exports, one per rank of a job, for benchmarks.

    python benchmarks/generate_ranks.py FOLDER --ranks 64 --kernels 100000 [--seed 1]

Each is an export as `generate_nsys.py` writes it, `rank<N>.sqlite`, of a process of its own. Beyond that:

* the environment that was captured names rank, local rank (8 a host), world size and job;
* every session began at another time, up to 5 ms apart, and hosts' clocks are up to 20 us off;
* one kernel in 100 is an all-reduce on a stream of its own. The k-th ends on all ranks within 2 us; ranks
  come up to 120 us before the last, and that is mostly the straggler, number ranks // 3;
* kernels lie elsewhere and are named in other shares on each rank; exactly `--kernels` of them;
* same arguments, same rows.
"""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path

import generate_nsys
import numpy as np
import training_job as job

RANKS_PER_HOST = 8
JOB = 4711
COLLECTIVE_SHARE = 100
COLLECTIVE_STREAM, COLLECTIVE_TID = 7, 4999
FIRST_NS, PERIOD_NS = 1_002_000_000, 350_000
WAIT_NS, LATE_NS, WORK_NS = 50_000, 70_000, 20_000
OWN_NAMES = {"ncclDev": "ownDev", "AllReduce": "Reduction", "AllGather": "Gathering",
             "ReduceScatter": "ReductionTwo"}  # fmt: skip
NAME = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def straggler(ranks: int) -> int:
    """Return the rank that is late most of the time."""
    return ranks // 3


def schedule(ranks: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return when each rank comes to each collective and when it leaves it, in ns of the job's time:
    (ranks, count) each.
    """
    rng = np.random.default_rng(seed)
    begin = FIRST_NS + PERIOD_NS * np.arange(count)
    came = begin + rng.integers(0, WAIT_NS, (ranks, count))
    came[straggler(ranks)] += np.where(rng.random(count) < 0.9, LATE_NS, 0)
    left = came.max(axis=0) + WORK_NS + rng.integers(0, 2_000, (ranks, count))
    return came, left


def clock(ranks: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return per rank, in ns: the start of its session in the job's time, and the error of its clock."""
    rng = np.random.default_rng(seed + 1)
    began = rng.integers(0, 5_000_000, ranks)
    hosts = rng.integers(-20_000, 20_000, -(-ranks // RANKS_PER_HOST))
    return began, hosts[np.arange(ranks) // RANKS_PER_HOST]


def add_collectives(connection: sqlite3.Connection, came: np.ndarray, left: np.ndarray) -> None:
    """Add the all-reduces of a rank and the calls that launched them, on a thread of its own."""
    ((pid, device, context),) = connection.execute(
        "SELECT DISTINCT globalPid, deviceId, contextId FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1")
    ((last_id,),) = connection.execute("SELECT max(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME")
    ((text,),) = connection.execute("SELECT max(id) FROM StringIds")
    ((call,),) = connection.execute(
        "SELECT id FROM StringIds WHERE value = ?", (job.API_NAMES[job.LAUNCH],))
    # A single rank's own, which no other takes part in: no collectives.
    for word, other in OWN_NAMES.items():
        connection.execute("UPDATE StringIds SET value = replace(value, ?, ?)", (word, other))
    long = f"{NAME}(ncclDevKernelArgsStorage<(unsigned long)4096>)"
    mangled = f"_Z{len(NAME)}{NAME}24ncclDevKernelArgsStorageILm4096EE"
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)",
                           [(text + 1, long), (text + 2, NAME), (text + 3, mangled)])
    ids = last_id + 1 + np.arange(len(came))
    columns = {
        "start": "?", "end": "?", "deviceId": device, "contextId": context, "streamId": COLLECTIVE_STREAM,
        "correlationId": "?", "globalPid": pid, "demangledName": text + 1, "shortName": text + 2,
        "mangledName": text + 3, "registersPerThread": 96, "gridX": 16, "gridY": 1, "gridZ": 1,
        "blockX": 512, "blockY": 1, "blockZ": 1, "staticSharedMemory": 0, "dynamicSharedMemory": 0,
        "localMemoryPerThread": 0, "localMemoryTotal": 0, "gridId": 0,
        "tensorSizeMinusOneElements": "'[]'",
    }  # fmt: skip
    connection.executemany(
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL ({', '.join(columns)}) "
        f"VALUES ({', '.join(map(str, columns.values()))})",
        zip(came.tolist(), left.tolist(), ids.tolist(), strict=True))
    connection.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME "
        "(start, end, eventClass, globalTid, correlationId, nameId, returnValue) "
        f"VALUES (?, ?, 0, {pid | COLLECTIVE_TID}, ?, {call}, 0)",
        zip((came - 6_000).tolist(), (came - 3_000).tolist(), ids.tolist(), strict=True))


def add_place(connection: sqlite3.Connection, rank: int, ranks: int, zero_utc_ns: int) -> None:
    """Add the process's host and rank, and the start of its session by its host's clock."""
    host, local = divmod(rank, RANKS_PER_HOST)
    variables = {"SLURM_JOB_ID": JOB, "SLURM_STEP_ID": 0, "SLURM_PROCID": rank, "SLURM_LOCALID": local,
                 "SLURM_NODEID": host, "SLURM_STEP_NUM_TASKS": ranks, "SLURM_NTASKS": ranks}
    connection.executemany("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', ?)",
                           [(f"{name}={value}",) for name, value in variables.items()])
    connection.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name = 'Hostname'",
                       (f"node{host:04d}",))
    connection.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = ?", (zero_utc_ns,))
    uuid = f"00000000-0000-4000-8000-{rank:012d}"
    for table in ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE"):
        connection.execute(f"UPDATE {table} SET uuid = ?", (uuid,))


def generate(folder: Path, ranks: int, kernels: int, seed: int) -> None:
    """Write the exports of all ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    count = kernels // COLLECTIVE_SHARE
    came, left = schedule(ranks, count, seed)
    began, off = clock(ranks, seed)
    for rank in range(ranks):
        path = folder / f"rank{rank:04d}.sqlite"
        generate_nsys.generate(path, kernels - count, seed * 100_000 + rank, 1, 1)
        with closing(sqlite3.connect(path)) as connection, connection:
            add_collectives(connection, came[rank] - began[rank], left[rank] - began[rank])
            add_place(connection, rank, ranks, generate_nsys.UTC_NS + int(began[rank] + off[rank]))


def main() -> None:
    """Read the command line, write the files."""
    parser = argparse.ArgumentParser(description="write made-up Nsight Systems exports of one job")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--kernels", type=int, default=100_000, help="of each rank")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generate(options.folder, options.ranks, options.kernels, options.seed)


if __name__ == "__main__":
    main()
