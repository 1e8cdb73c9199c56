"""A report of two calls and one kernel, which docs/formats/nsys-rep.md takes apart byte by byte."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from write_nsys_rep import write_report

BUILD = "2026.1.1.204"
_PID = 4242
_PROCESS = 1 << 48 | _PID << 24
_THREAD = _PROCESS | _PID
# Launched at 1 ms, runs for 20 µs; the host waits for it.
_TABLES: dict[str, list[dict[str, Any]]] = {
    "StringIds": [
        {"id": number, "value": text}
        for number, text in enumerate(
            ("train", "cudaLaunchKernel_v7000", "cudaDeviceSynchronize_v3020", "saxpy",
             "saxpy(int, float, float *)", "_Z5saxpyifPf")
        )
    ],
    "ThreadNames": [{"nameId": 0, "priority": 0, "globalTid": _THREAD}],
    "ANALYSIS_DETAILS": [{"globalVid": 1 << 48, "startTime": 5_000_000_000, "stopTime": 5_002_000_000}],
    "META_DATA_CAPTURE": [
        {"name": "CAPTURE_EVENT_TYPE", "value": "Cuda"},
        {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": "API_TOKEN=0123-secret"},
    ],
    "TARGET_INFO_GPU": [
        {"id": 0, "name": "NVIDIA A100-SXM4-40GB", "busLocation": "0000:07:00.0", "smCount": 108}
    ],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        {"start": start, "end": end, "eventClass": 0, "globalTid": _THREAD, "correlationId": correlation,
         "nameId": name, "returnValue": 0}
        for start, end, correlation, name in ((1_000_000, 1_005_000, 1, 1), (1_006_000, 1_029_000, 2, 2))
    ],
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        {"start": 1_008_000, "end": 1_028_000, "deviceId": 0, "contextId": 1, "streamId": 7,
         "correlationId": 1, "globalPid": _PROCESS, "demangledName": 4, "shortName": 3, "mangledName": 5,
         "gridX": 4096, "gridY": 1, "gridZ": 1, "blockX": 256, "blockY": 1, "blockZ": 1,
         "registersPerThread": 16}
    ],
}  # fmt: skip


def write_two_calls(report: Path) -> None:
    """Write the report; the same bytes each time."""
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder) / "two-calls.sqlite"
        write_export(export)
        write_report(export, report, build=BUILD)


def write_export(path: Path) -> None:
    """Write the tables that the report is made of."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, rows in _TABLES.items():
            columns = list(rows[0])
            connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            places = ", ".join("?" * len(columns))
            cells = [tuple(row.values()) for row in rows]
            connection.executemany(f"INSERT INTO {table} VALUES ({places})", cells)
