"""Metrics and events in a database of nvprof: what `--metrics` and `--events` with `-o` leave, made up.

Kernels ran one after the other. Each has the counters below in every launch, by CUPTI's numbers for a
GPU of compute capability 6.
"""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

from scenarios import WORKLOADS
from write_nvprof_database import write_nvprof_database

_PREFIX = "CUPTI_ACTIVITY_KIND_"
# What a timeline has, and a run that measures has not.
_TIMELINE = ("CONCURRENT_KERNEL", "RUNTIME", "DRIVER", "MEMCPY", "MEMSET", "OVERHEAD", "SYNCHRONIZATION",
             "MARKER", "MARKER_DATA")  # fmt: skip

OCCUPANCY, ISSUED, DRAM, SINGLE, LOADED, LOADS, STALLED = (
    19_923_062, 19_923_060, 19_923_005, 19_923_072, 19_922_972, 19_922_960, 19_923_009,
)  # fmt: skip
"""achieved_occupancy, issue_slot_utilization, dram_utilization, single_precision_fu_utilization,
gld_throughput, gld_transactions, stall_memory_dependency."""
WARPS, CYCLES = 83_886_152, 83_886_182
"""Events: warps_launched, active_cycles."""
UNKNOWN = 999


def real(value: float) -> bytes:
    """Return a metric's value that is a real number or a percentage."""
    return struct.pack("<d", value)


def whole(value: int) -> bytes:
    """Return a metric's value that is a count or a rate."""
    return struct.pack("<Q", value)


def level(value: int) -> bytes:
    """Return a metric's value that is a level of use: four bytes, and four that were there before."""
    return struct.pack("<I", value) + b"SECR"


def metrics(launch: int) -> list[tuple[int, bytes, int]]:
    """Return number, value and flags of the metrics of the n-th launch."""
    return [
        (OCCUPANCY, real(launch / 16), 0),
        (ISSUED, real(10.0 * launch), 0),
        (DRAM, level(min(launch, 10)), 0),
        (SINGLE, level(1), 0),
        (LOADED, whole(launch << 30), 0),
        # The counter overflowed once, and once nothing came of it.
        (LOADS, whole(1000 * launch), {2: 1, 3: 2}.get(launch, 0)),
        (STALLED, real(25.5), 0),
        (UNKNOWN, real(0.5), 0),
    ]


def events(launch: int) -> list[tuple[int, int]]:
    """Return number and value of the events of the n-th launch; -1 is a counter that overflowed."""
    return [(WARPS, 100 * launch), (CYCLES, -1 if launch == 1 else 7)]


def write_counters(path: Path) -> None:
    """Write the database to `path`. Kernels are numbered from 1 in the order of their starts."""
    workload = WORKLOADS["basic"]
    write_nvprof_database(workload, workload.processes[0], path, "12")
    connection = sqlite3.connect(path)
    try:
        connection.execute(
            f"INSERT INTO {_PREFIX}KERNEL SELECT * FROM {_PREFIX}CONCURRENT_KERNEL ORDER BY start"
        )
        for table in _TIMELINE:
            connection.execute(f"DELETE FROM {_PREFIX}{table}")
        launches = [number for (number,) in connection.execute(
            f"SELECT correlationId FROM {_PREFIX}KERNEL ORDER BY start")]  # fmt: skip
        for place, correlation in enumerate(launches, 1):
            connection.executemany(
                f"INSERT INTO {_PREFIX}METRIC (id, value, correlationId, flags) VALUES (?, ?, ?, ?)",
                [(number, value, correlation, flags) for number, value, flags in metrics(place)],
            )
            connection.executemany(
                f"INSERT INTO {_PREFIX}EVENT (id, value, domain, correlationId) VALUES (?, ?, 1, ?)",
                [(number, value, correlation) for number, value in events(place)],
            )
        connection.commit()
        connection.execute("VACUUM")
    finally:
        connection.close()
