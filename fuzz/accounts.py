"""Numbers of rows in a file, counted by other means than the importers'; None if that is unknown."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysconv.importers.kineto.events import CATEGORIES
from nsysconv.importers.nsys_sqlite import tables as nsys
from nsysconv.importers.nsys_sqlite.cpus import TABLES as CPU_TABLES
from nsysconv.importers.nvprof_database import tables as nvprof

_STEPS = 50_000_000


@dataclass(frozen=True)
class Account:
    """The number of rows of the source tables `sources` that become rows of our tables `ours`."""

    ours: frozenset[str]
    sources: frozenset[str]
    rows: int


def of_database(importer: str, path: Path, *, included: bool = False) -> list[Account] | None:
    """Return how many rows are in the plain tables that an importer of databases reads.

    `included`: also in those that are read only where their rows are asked for.
    """
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as sql:
            sql.set_progress_handler(lambda: True, _STEPS)
            sql.text_factory = bytes
            return _accounts(importer, sql, included)
    except sqlite3.Error:
        return None


def _accounts(importer: str, sql: sqlite3.Connection, included: bool) -> list[Account]:
    plain = {
        name.decode("utf-8", "replace")
        for (name,) in sql.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        )
        if isinstance(name, bytes)
    }
    maps = nsys.MAPPINGS if importer == "nsys_sqlite" else nvprof.MAPPINGS
    groups: list[tuple[set[str], set[str]]] = []
    for mapping in maps:
        if mapping.source not in plain or (mapping.source in nsys.ON_REQUEST and not included):
            continue
        if mapping.source in CPU_TABLES:  # only rows of processes that other tables name are read
            continue
        ours, sources = {mapping.target}, {mapping.source}
        for group in [g for g in groups if g[0] & ours or g[1] & sources]:
            groups.remove(group)
            ours |= group[0]
            sources |= group[1]
        groups.append((ours, sources))
    return [
        Account(frozenset(ours), frozenset(sources), sum(_count(importer, sql, s) for s in sources))
        for ours, sources in groups
    ]


def _count(importer: str, sql: sqlite3.Connection, table: str) -> int:
    columns = {
        row[1].decode("utf-8", "replace") for row in sql.execute(f"PRAGMA table_info({table})")
    }
    where = _events(importer, table, columns)
    if table == nsys.MPI_WAITS:
        # A call that waits for several requests is a row for each of them.
        same = [c for c in ("start", "end", "globalTid", "textId") if c in columns]
        return len(
            sql.execute(f"SELECT DISTINCT {', '.join(same)} FROM {table} WHERE {where}").fetchall()
        )
    return int(sql.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0])


def _events(importer: str, table: str, columns: set[str]) -> str:
    if importer == "nsys_sqlite":
        if table == nsys.NVTX and "eventType" in columns:
            # Domains, categories and names of threads are no events.
            return "eventType IS NULL OR eventType NOT IN (33, 39, 75) "
        if "eventClass" in columns:
            markers = ", ".join(map(str, nsys.MARKER_CLASSES))
            return f"eventClass IS NULL OR eventClass NOT IN ({markers})"
    elif table == nvprof.MARKER and "flags" in columns:
        return "flags IS NOT 4"  # ends of ranges
    elif table == nvprof.UNIFIED_MEMORY and "counterKind" in columns:
        return f"counterKind IN ({', '.join(map(str, nvprof.MIGRATIONS))})"
    return "1"


def of_trace(text: bytes, *, included: bool = False) -> int | None:
    """Return the number of whole GPU and call events in a valid trace; None for an invalid trace.

    `included`: count Python's functions, too.
    """
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(
            text.decode("utf-8-sig"), parse_constant=_refuse, object_pairs_hook=_pairs
        )
    events = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(events, list):
        return None
    others = ("instant",) if included else ("python", "instant")
    known = {key for key, kind in CATEGORIES.items() if kind not in others}
    count: int = sum(
        isinstance(event, dict)
        and event.get("ph") == "X"
        and str(event.get("cat")).lower() in known
        for event in events
    )
    return count


def _refuse(word: str) -> None:
    raise ValueError(word)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)
