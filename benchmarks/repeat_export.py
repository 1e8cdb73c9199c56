"""Write a large Nsight Systems export (SQLite): a given one, repeated.

What it promises:

* the fewest whole copies that hold so many kernels; tables and indexes are those of the export;
* rows of tables with times are there once a copy, later by the extent of the export from copy to copy;
  names, devices, settings and diagnostics are there once;
* correlations, keys and other ids that link rows are others in each copy; 0, which means no id, null,
  names, threads, streams, graph nodes and handles of events are kept;
* so are the numbers of operators in texts of PyTorch's `emit_nvtx`, as in a program that ran longer;
* the session ends later by as much as the last copy, so that no event lies outside of it.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

TIMES = ("start", "end", "timestamp")
IDS = ("correlationId", "rangeId", "eventSyncId", "id")
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
# Parts of samples, which have their times in another table.
PARTS = ("SAMPLING_CALLCHAINS",)
TEXT, OPERATOR = "text", ", op_id = "
# What the profiler says about itself.
ONCE = ("DIAGNOSTIC_EVENT",)
# NVTX: names of categories and domains.
NAMING = {"NVTX_EVENTS": "WHERE eventType NOT IN (33, 75)"}
Tables = dict[str, dict[str, bool]]
"""The columns of tables, and whether each is a key."""
COPIES = "WITH RECURSIVE copies(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM copies WHERE k < {0})"


def event_tables(connection: sqlite3.Connection) -> Tables:
    """Return the tables that are repeated."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    columns = {
        name: {row[1]: row[5] > 0 for row in connection.execute(f"PRAGMA table_info({name})")}
        for (name,) in names
    }
    return {
        name: found for name, found in columns.items()
        if name in PARTS or ({"start", "timestamp"} & found.keys() and name not in ONCE)
    }  # fmt: skip


def steps(connection: sqlite3.Connection, tables: Tables) -> dict[str, int]:
    """Return what each column grows by from copy to copy, if it does."""
    def ask(function: str, *names: str, which: dict[str, str] = NAMING) -> int:
        found = [connection.execute(f'SELECT {function}("{column}") FROM {table} {which.get(table, "")}')
                 for table, columns in tables.items() for column in columns if column in names]
        values = [value for (value,) in (each.fetchone() for each in found) if value is not None]
        return max(values, default=0) if function == "max" else min(values, default=0)

    extent = ask("max", *TIMES) - ask("min", *TIMES) + 1
    keys = {name for columns in tables.values() for name, is_key in columns.items() if is_key}
    # Rows that are not repeated have keys, too.
    after = {name: ask("max", name, which={}) + 1 for name in (*IDS, *keys)}
    return {**dict.fromkeys(TIMES, extent), **after}


def _uri(path: Path, mode: str) -> str:
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def generate(target: Path, source: Path, kernels: int) -> int:
    """Write the export; returns how many copies it has."""
    shutil.copyfile(source, target)
    with closing(sqlite3.connect(_uri(target, "rw"), isolation_level=None, uri=True)) as connection:
        connection.execute("ATTACH ? AS original", (_uri(source, "ro&immutable=1"),))
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-65536"):
            connection.execute(f"PRAGMA {pragma}")
        tables = event_tables(connection)
        step = steps(connection, tables)
        ((held,),) = connection.execute(f"SELECT count(*) FROM {KERNELS}")
        copies: int = -(-kernels // held)
        connection.execute("BEGIN")
        for table, columns in tables.items() if copies > 1 else ():
            values = ", ".join(
                f'iif("{column}" > 0, "{column}" + k * {step[column]}, "{column}")' if column in IDS
                else f'"{column}" + k * {step[column]}' if column in TIMES or is_key
                else f"replace({column}, '{OPERATOR}', '{OPERATOR}' || k)" if column == TEXT
                else f'"{column}"'
                for column, is_key in columns.items()
            )  # fmt: skip
            connection.execute(
                f"{COPIES.format(copies - 1)} INSERT INTO main.{table} SELECT {values} "
                f"FROM copies CROSS JOIN original.{table} {NAMING.get(table, '')}")  # fmt: skip
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'ANALYSIS_DETAILS'").fetchone():
            later = (copies - 1) * step["start"]
            longer = f"duration = duration + {later}, stopTime = stopTime + {later}"
            connection.execute(f"UPDATE ANALYSIS_DETAILS SET {longer}")
        connection.execute("COMMIT")
    return copies
