"""One recording's rows on their way to the store, and who appears in them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nsysconv.importers.kineto.arrays import Columns
from nsysconv.importers.kineto.piece import MISSING, NAMES, OPERATOR
from nsysconv.store.recording import ArrayRows

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
        self.end_ns: int | None = None

    def take(self, table: str, columns: Columns, names: list[str], done: str) -> ArrayRows:
        """Rows with names as places in `names`, as rows of the store."""
        columns = dict(columns)
        for column in [name for name in columns if name in NAMES]:
            columns[column], numbers = self._numbered(columns[column], names)
            if (table, column) == ("api_call", "name_id"):
                self.api_names.update(numbers)
        self.rows[table] += len(columns["start_ns"])
        self._remember(table, columns)
        return ArrayRows(table, columns, done)

    def _numbered(self, places: np.ndarray, names: list[str]) -> tuple[np.ndarray, set[int]]:
        """Places in a piece's names as ids of ours, and which: only names that rows refer to get one."""
        if (places == MISSING).all():
            return places, set()
        places = np.where(places == MISSING, len(names), places)
        used = np.zeros(len(names) + 1, bool)
        used[places] = True
        ids = np.full(len(names) + 1, MISSING)  # the last is no name
        known = np.flatnonzero(used[:-1])
        numbers = [self.names.setdefault(names[p], len(self.names) + 1) for p in known.tolist()]
        ids[known] = numbers
        return ids[places], set(numbers)

    def _remember(self, table: str, columns: Columns) -> None:
        pid = columns["pid"]
        if "tid" in columns:
            self.threads.update(_distinct(pid, columns["tid"]))
        self.pids.update(p for (p,) in _distinct(pid))
        if table in GPU_TABLES:
            self.devices.update(d for (d,) in _distinct(columns["device_id"]))
            self.streams.update(_distinct(pid, columns["context_id"], columns["stream_id"]))
        if table == "operator":
            # What is read on request has no say: a recording ends whatever of it is asked for.
            columns = {
                name: values[columns["kind"] == OPERATOR] for name, values in columns.items()
            }
        start = columns["start_ns"]
        end = start + np.maximum(columns["dur_ns"], 0) if "dur_ns" in columns else start
        end = end[start != MISSING]
        if len(end):
            last = int(end.max())
            self.end_ns = last if self.end_ns is None else max(self.end_ns, last)


def _distinct(*columns: np.ndarray) -> set[tuple[int, ...]]:
    """The distinct rows of columns, those with a null left out."""
    # Most rows say the same as the one before them, and making Python's numbers of all takes longer.
    differs = np.zeros(len(columns[0]), bool)
    differs[:1] = True
    for column in columns:
        if column.strides != (0,):  # those are alike in all rows
            differs[1:] |= column[1:] != column[:-1]
    found = set(zip(*(column[differs].tolist() for column in columns), strict=True))
    return {row for row in found if MISSING not in row}
