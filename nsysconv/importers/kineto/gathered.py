"""One recording's rows on their way to the store, and who appears in them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nsysconv.importers.kineto.cells import MISSING
from nsysconv.importers.kineto.piece import NAMES, Columns
from nsysconv.report import Column, build_table
from nsysconv.store.recording import ArrowRows
from nsysconv.units import Unit

GPU_TABLES = ("kernel", "memcpy", "memset")
"""Tables of GPU operations."""


class Gathered:
    """Numbers the names of one recording and remembers its processes, threads, devices and streams."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.api_names: set[int] = set()
        self.pids: set[int] = set()
        self.threads: set[tuple[int, ...]] = set()
        self.devices: set[int] = set()
        self.streams: set[tuple[int, ...]] = set()
        self.rows: Counter[str] = Counter()
        self.end_ns = 0

    def take(self, table: str, columns: Columns, names: list[str], done: str) -> ArrowRows:
        """Rows with names as places in `names`, as rows of the store."""
        columns = {
            name: self._numbered(values, names) if name in NAMES else values
            for name, values in columns.items()
        }
        self.rows[table] += len(columns["start_ns"])
        self._remember(table, columns)
        kinds = [Column(name, Unit.ID, "") for name in columns]
        return ArrowRows(table, build_table(kinds, columns), done)

    def _numbered(self, places: np.ndarray, names: list[str]) -> np.ndarray:
        """Places in a piece's names as ids of ours; only names that a row refers to get one."""
        places = np.where(places == MISSING, len(names), places)
        used = np.zeros(len(names) + 1, bool)
        used[places] = True
        ids = np.full(len(names) + 1, MISSING)  # the last is no name
        for place in np.flatnonzero(used[:-1]).tolist():
            ids[place] = self.names.setdefault(names[place], len(self.names) + 1)
        result: np.ndarray = ids[places]
        return result

    def _remember(self, table: str, columns: Columns) -> None:
        pid = columns["pid"]
        if "tid" in columns:
            self.threads.update(_distinct(pid, columns["tid"]))
        self.pids.update(p for (p,) in _distinct(pid))
        if table in GPU_TABLES:
            self.devices.update(d for (d,) in _distinct(columns["device_id"]))
            self.streams.update(_distinct(pid, columns["context_id"], columns["stream_id"]))
        if table == "api_call":
            self.api_names.update(n for (n,) in _distinct(columns["name_id"]))
        start = columns["start_ns"]
        end = start + np.maximum(columns["dur_ns"], 0) if "dur_ns" in columns else start
        end = end[start != MISSING]
        if len(end):
            self.end_ns = max(self.end_ns, int(end.max()))


def _distinct(*columns: np.ndarray) -> set[tuple[int, ...]]:
    """The distinct rows of columns, those with a null left out."""
    # Most rows say the same as the one before them, and making Python's numbers of all takes longer.
    differs = np.ones(len(columns[0]), bool)
    differs[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    found = set(zip(*(column[differs].tolist() for column in columns), strict=True))
    return {row for row in found if MISSING not in row}
