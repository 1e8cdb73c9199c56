"""Metrics and events that hardware counters measured in kernels: rows of `metric_sample`.

A row of the database is one counter in one launch, or in one instance (such as an SM) of a launch. It
has the counter's number, and of a metric eight bytes whose meaning depends on the counter. As printed
tables do, each counter becomes one row per kernel and device.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from nsysconv import codes, schema
from nsysconv.facts import Fact
from nsysconv.importers.nvprof_database.names import MAX_TEXT_ID
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import as_whole_number, has_columns, has_rows, in_lists
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import ArrowRows, rows_of

Row = dict[str, Any]
NameOfKernel = Callable[[int], int]

METRICS = ("CUPTI_ACTIVITY_KIND_METRIC", "CUPTI_ACTIVITY_KIND_METRIC_INSTANCE")
EVENTS = ("CUPTI_ACTIVITY_KIND_EVENT", "CUPTI_ACTIVITY_KIND_EVENT_INSTANCE")
SOURCES = (*METRICS, *EVENTS)
"""Tables of counters: of whole launches, and of their instances."""
_INSTANCES = (METRICS[1], EVENTS[1])
_COLUMNS = ("id", "value", "correlationId")

_METRIC, _EVENT = range(len(codes.METRIC_KINDS))
_UNITS = {
    "real": "number",
    "whole": "number",
    "signed": "number",
    "percent": "%",
    "rate": "bytes/s",
    "level": "level",
}
_BYTES = 8
_OVERFLOWED, _INVALID = 1, 2
"""Bits of a metric's flags."""
_OVERFLOW, _NO_VALUE = (1 << 64) - 1, (1 << 64) - 2
"""Values of an event."""
_MOST_USED = 10
# Smaller than this, eight bytes are a whole number: as a real, they would be next to nothing.
_SMALLEST_REAL = 1 << 52
_FACTS = frozenset({Fact.METRICS})


@cache
def _known() -> Mapping[tuple[int, int], tuple[str, str]]:
    # Kind and number to name and what a value is; made by scripts/make_counter_names.py.
    text = Path(__file__).with_name("counter_names.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {
        (codes.METRIC_KINDS.index(kind), int(number)): (name, value)
        for kind, number, name, value in rows
    }


def counter_name(kind: int, number: int) -> str:
    """Return the name of a metric or event, or its number in brackets if it is not known."""
    known = _known().get((kind, number))
    return known[0] if known else f"[{codes.METRIC_KINDS[kind]} {number}]"


def metric_value(cell: bytes, meaning: str | None) -> float | None:
    """Return the number in the eight bytes of a metric; None: it has none.

    `meaning` is what the table of names says; None for a metric that is not there.
    """
    whole = int.from_bytes(cell, "little")
    if meaning == "level":
        # The other four bytes are not written.
        level = whole & 0xFFFFFFFF
        return float(level) if level <= _MOST_USED else None
    if meaning == "signed":
        return float(int.from_bytes(cell, "little", signed=True))
    if meaning in ("whole", "rate") or (meaning is None and whole < _SMALLEST_REAL):
        return float(whole)
    (real,) = struct.unpack("<d", cell)
    return float(real) if math.isfinite(real) else None


@dataclass
class _Values:
    count: int = 0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    launches: int = 0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.least = min(self.least, value)
        self.most = max(self.most, value)


# Kind, number, device and the kernel's name as the file numbers it.
_Key = tuple[int, int, int | None, int | None]


@dataclass
class Counters:
    """Reads the counters of one database; `kernels` are its tables of kernels that are read."""

    probe: Probe
    kernels: tuple[str, ...]
    names: dict[tuple[int, int], int] = field(default_factory=dict)
    """Kind and number of each counter -> its place among the names of counters."""
    _notes: dict[str, int] = field(default_factory=dict)
    _of_instances: set[tuple[int, int]] = field(default_factory=set)
    _unlinked: int = 0

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the tables of counters with rows that can be read."""
        return tuple(
            table
            for table in SOURCES
            if has_columns(self.probe, table, *_COLUMNS) and has_rows(self.probe, table)
        )

    def rows(
        self, pid: int | None, name_base: int, kernel_name: NameOfKernel
    ) -> Iterator[ArrowRows]:
        """Yield the rows; the names of counters get ids from `name_base` on."""
        found: dict[_Key, _Values] = {}
        for table in self.sources:
            measured = self._measured(table)
            # Values of whole launches say more than those of their instances.
            new = {key: values for key, values in measured.items() if key not in found}
            if table in _INSTANCES:
                self._of_instances.update(key[:2] for key in new)
            found.update(new)
        self._unlinked = sum(key[2] is None for key in found)
        for keys in in_lists(found):
            rows = [self._row(key, found[key], pid, name_base, kernel_name) for key in keys]
            yield rows_of(schema.metric_sample, rows)
        for counters in in_lists(self.names.items()):
            rows = [
                {"id": name_base + place, "text": counter_name(*counter), "plain": None}
                for counter, place in counters
            ]
            yield rows_of(schema.name, rows)

    def _measured(self, table: str) -> dict[_Key, _Values]:
        kind = _METRIC if table in METRICS else _EVENT
        found: dict[_Key, _Values] = {}
        last: dict[_Key, object] = {}
        flags = "flags" if kind == _METRIC and has_columns(self.probe, table, "flags") else "0"
        launch = self._launches()
        rows = self.probe.iterate(
            f"""SELECT m.id, m.value, {flags}, m.correlationId, launch.device, launch.name
            FROM {table} AS m LEFT JOIN ({launch}) AS launch
            ON launch.correlation = m.correlationId ORDER BY m.correlationId"""
        )
        for cell, value, flag, correlation, device, name in rows:
            number = as_whole_number(cell)
            if number is None:
                self._count("unread")
                continue
            key = (kind, number, _id(device), _id(name))
            values = found.setdefault(key, _Values())
            if last.get(key, self) != correlation:
                last[key] = correlation
                values.launches += 1
            measured = self._value(kind, number, value, flag)
            if measured is not None:
                values.add(measured)
        return found

    def _launches(self) -> str:
        # One row per launch: a kernel that ran several times may have several. 0 is no launch.
        selects = [
            f"SELECT correlationId AS correlation, deviceId AS device, name FROM {table} "
            "WHERE correlationId <> 0"
            for table in self.kernels
            if has_columns(self.probe, table, "correlationId", "deviceId", "name")
        ]
        if not selects:
            return "SELECT NULL AS correlation, NULL AS device, NULL AS name"
        union = " UNION ALL ".join(selects)
        return (
            f"SELECT correlation, max(device) AS device, name FROM ({union}) GROUP BY correlation"
        )

    def _value(self, kind: int, number: int, cell: object, flag: object) -> float | None:
        # None, counted for the notes, for what is no number.
        value: float | None = None
        flags = flag if isinstance(flag, int) else 0
        overflowed = bool(flags & _OVERFLOWED)
        if kind == _EVENT:
            whole = as_whole_number(cell)
            unsigned = _NO_VALUE if whole is None else whole % (1 << 64)
            overflowed = unsigned == _OVERFLOW
            value = None if unsigned == _NO_VALUE else float(unsigned)
        elif isinstance(cell, bytes) and len(cell) == _BYTES and not flags & _INVALID:
            known = _known().get((kind, number))
            value = metric_value(cell, known[1] if known else None)
        if overflowed or value is None:
            self._count("overflow" if overflowed else "unread")
            return None
        return value

    def _count(self, what: str) -> None:
        self._notes[what] = self._notes.get(what, 0) + 1

    def _row(
        self,
        key: _Key,
        values: _Values,
        pid: int | None,
        name_base: int,
        kernel_name: NameOfKernel,
    ) -> Row:
        kind, number, device, name = key
        place = self.names.setdefault((kind, number), len(self.names))
        known = _known().get((kind, number))
        unit = _UNITS[known[1]] if known else "number" if kind == _EVENT else None
        has_value = values.count > 0
        is_name = name is not None and 0 < name <= MAX_TEXT_ID
        return {
            "pid": pid,
            "device_id": device,
            "name_id": name_base + place,
            "kernel_name_id": kernel_name(name) if is_name and name is not None else None,
            "kind": kind,
            "unit": None if unit is None else codes.METRIC_UNITS.index(unit),
            "execution_count": values.launches,
            "value_min": values.least if has_value else None,
            "value_max": values.most if has_value else None,
            "value_avg": values.total / values.count if has_value else None,
            "value_sum": values.total if has_value and kind == _EVENT else None,
        }

    def notes(self) -> Iterator[Note]:
        """Yield what was left out or is not known; after the rows."""
        if count := self._notes.get("overflow"):
            text = "values too large for the counters are not recorded"
            yield Note("counter-overflow", Severity.DROPPED, text, count, facts=_FACTS)
        if count := self._notes.get("unread"):
            text = "unreadable values of metrics and events are not recorded"
            yield Note("cell-unreadable", Severity.DROPPED, text, count, facts=_FACTS)
        if unknown := [counter for counter in self.names if counter not in _known()]:
            text = "metrics and events with unknown numbers are shown by these, without a unit"
            yield Note("unknown-code", Severity.APPROXIMATED, text, len(unknown), facts=_FACTS)
        if self._of_instances:
            text = "values of some metrics and events are of parts of the GPU, such as one SM, not of all"
            count = len(self._of_instances)
            yield Note("counters-by-part", Severity.INFO, text, count, facts=_FACTS)
        if self._unlinked:
            text = "metrics and events of launches that the file lacks: their kernel is not known"
            yield Note("counters-without-kernel", Severity.INFO, text, self._unlinked, facts=_FACTS)


def _id(cell: object) -> int | None:
    return cell if isinstance(cell, int) and 0 <= cell <= MAX_TEXT_ID else None
