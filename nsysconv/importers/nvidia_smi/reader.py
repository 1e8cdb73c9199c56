"""Logs of nvidia-smi into recordings: a sample for every number of a row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nsysconv import codes, schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.nvidia_smi.columns import (
    LogClock,
    MetricColumn,
    SmiHeader,
    dmon_header,
    dmon_units,
    parse_header,
    zone_is_set,
)
from nsysconv.importers.printed.text import RejectedLines, refuse_quotations, utf8_files
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING, Column, Unit, build_table
from nsysconv.store.recording import (
    ArrowRows,
    Batches,
    ProfileAttributes,
    Recording,
    Summary,
    rows_of,
)

Array = np.ndarray
Cells = Sequence[str]

CHUNK_BYTES = 4 << 20
_INDEX = re.compile(r"[0-9]{1,6}$")
_SECOND = 1_000_000_000
_COLUMNS = (
    *(Column(name, Unit.ID, "") for name in ("start_ns", "device_id", "name_id", "kind", "unit")),
    Column("value_avg", Unit.REAL, ""),
)
_METRIC = codes.METRIC_KINDS.index("metric")
_METRICS, _UTC = frozenset({Fact.METRICS}), frozenset({Fact.UTC})


def read_recording(
    probe: Probe, possible: frozenset[Fact], advice: Mapping[Fact, str]
) -> Iterator[Recording]:
    """Yield the one recording of a log. Its batches raise InputError if it holds no sample."""
    with utf8_files([probe]) as (path,):
        yield Recording(_batches(_Log(path), probe, advice), possible=possible)


def _batches(log: _Log, probe: Probe, advice: Mapping[Fact, str]) -> Batches:
    yield from log.samples()
    if not log.names:
        raise InputError(
            "the log holds no sample",
            where=str(probe.origin),
            hint="nvidia-smi was stopped before its first row, or the GPU tells none of what was asked.",
        )
    refuse_quotations([probe], log.rows)
    yield rows_of(schema.device, list(log.devices.values()))
    yield rows_of(schema.name, [{"id": i, "text": text} for text, i in log.names.items()])
    return Summary(
        attributes=log.attributes(),
        facts=log.facts(),
        advice=advice,
        notes=(*probe.notes, *log.notes()),
        late_ns=log.late_ns(),
    )


@dataclass
class _CellTally:
    numbers: int = 0
    odd: int = 0  # neither numbers nor empty
    first_odd: str = ""


class _Log:
    # One log on its way to the store; all is complete when `samples` is used up.

    def __init__(self, path: Path) -> None:
        self.names: dict[str, int] = {}
        self.devices: dict[str, dict[str, Any]] = {}
        self.rows = 0  # with a time, or all if the log has no times
        self._path = path
        self._clock = LogClock()
        # Rows count from the zero, which the first time determines. The others are the first and the
        # last sample since then.
        self._zero: int | None = None
        self._first, self._end = 0, 0
        self._has_date = False
        self._driver: str | None = None
        self._rejected, self._too_far = RejectedLines(), RejectedLines()
        self._cut_line = 0
        # These are the GPUs by the index that they had last, and the numbers that are taken.
        self._by_index: dict[str, int] = {}
        self._taken: set[int] = set()
        self._next_free: dict[int, int] = {}
        self._last_row: Cells | None = None
        self._without_time = 0
        self._without_gpu = 0
        self._tallies: dict[str, _CellTally] = {}

    # -- from lines to rows

    def samples(self) -> Iterator[ArrowRows]:
        header: SmiHeader | None = None
        with self._path.open("rb") as file:
            line = 1
            while data := file.read(CHUNK_BYTES):
                data += file.readline()
                texts = data.decode("utf-8-sig", "replace").splitlines()
                is_cut = not data.endswith(b"\n")
                for first, table, rows in self._tables(texts, line, header, is_cut):
                    header = table
                    yield from self._row_samples(table, rows, first)
                line += len(texts)

    def _tables(
        self, texts: Sequence[str], line: int, header: SmiHeader | None, is_cut: bool
    ) -> Iterator[tuple[int, SmiHeader, list[Cells]]]:
        # Each result has the number of the first line of consecutive rows, their header, and the rows.
        # The last header comes again without rows, for the lines that follow.
        rows: list[Cells] = []
        first = line
        last = line + len(texts) - 1 if is_cut else None
        for number, text in enumerate(texts, line):
            cells = header.split(text) if header is not None else []
            if header is not None and number == last and _is_cut(cells, self._last_row, header):
                self._cut_line = number
                continue
            if header is not None and len(cells) == len(header.cells) and text[:1].isdigit():
                first = first if rows else number
                rows.append(cells)
                self._last_row = cells
                continue
            if rows and header is not None:
                yield first, header, rows
                rows = []
            if (new_header := parse_header(text)) is not None:
                header, self._last_row = new_header, None
            elif header is not None and header.is_dmon and (units := dmon_units(text)) is not None:
                header = dmon_header(header.cells, units)
            elif header is not None and len(cells) == len(header.cells):
                first = number
                rows.append(cells)
                self._last_row = cells
            elif header is not None and text.strip():
                self._rejected.add(number)
        if header is not None:
            yield first, header, rows

    # -- from rows to samples

    def _row_samples(
        self, header: SmiHeader, rows: Sequence[Cells], line: int
    ) -> Iterator[ArrowRows]:
        if not rows:
            return
        start = self._starts(header, rows)
        if header.times:
            far = (np.abs(start) >= schema.TIME_LIMIT_NS) & (start != MISSING)
            for row in np.flatnonzero(start == MISSING).tolist():
                self._rejected.add(line + row)
            for row in np.flatnonzero(far).tolist():
                self._too_far.add(line + row)
            valid = (start != MISSING) & ~far
            rows = [rows[row] for row in np.flatnonzero(valid).tolist()]
            start = start[valid]
            self._first = min(self._first, int(start.min(initial=0)))
            self._end = max(self._end, int(start.max(initial=0)))
        else:
            self._without_time += len(rows)
        if not rows:
            return
        self.rows += len(rows)
        columns = list(zip(*rows, strict=True))
        device = self._device_ids(header, columns)
        parts = [self._column_samples(metric, columns, start, device) for metric in header.metrics]
        data = {
            name: np.concatenate([part[name] for part in parts])
            for name in (column.name for column in _COLUMNS)
        } if parts else {}  # fmt: skip
        if parts and len(data["start_ns"]):
            yield ArrowRows("metric_sample", build_table(_COLUMNS, data), f"line {line:,}")

    def _starts(self, header: SmiHeader, rows: Sequence[Cells]) -> Array:
        # The result is when each row was sampled, in ns since zero, or MISSING if the row does not say.
        places, clock = header.times, self._clock
        if not places:
            return np.full(len(rows), MISSING)
        if not header.is_dmon:
            moments = [clock.stamp(row[places[0]]) for row in rows]
        elif not header.has_date:
            moments = [clock.time_of_day(row[places[0]].strip()) for row in rows]
        elif len(places) == 2:
            moments = [
                clock.date_time(row[places[0]].strip(), row[places[1]].strip()) for row in rows
            ]
        else:
            moments = [clock.date_time(row[places[0]].strip(), "00:00:00") for row in rows]
        if self._zero is None:
            first = next((moment for moment in moments if moment is not None), None)
            if first is not None:
                self._zero = first // _SECOND * _SECOND
                self._has_date = header.has_date
        zero = self._zero or 0
        return np.array([MISSING if m is None else m - zero for m in moments], np.int64)

    def _device_ids(self, header: SmiHeader, columns: Sequence[Cells]) -> Array:
        # Rows of one GPU have the same index, UUID and bus id; what identifies it for sure goes first.
        count = len(columns[0])
        index, uuid, bus_id = header.gpu
        column = next((place for place in (uuid, bus_id, index) if place is not None), None)
        if column is None:
            self._without_gpu += count
            return np.full(count, MISSING)
        ids = {
            key: self._device_id(header, columns, columns[column].index(key))
            for key in dict.fromkeys(columns[column])
        }
        if header.driver is not None and self._driver is None:
            self._driver = _cell_text(columns[header.driver][0])
        return np.array([ids[key] for key in columns[column]], np.int64)

    def _device_id(self, header: SmiHeader, columns: Sequence[Cells], row: int) -> int:
        # The number of a GPU is its index if that is printed and free, else the next free number.
        index, uuid, bus_id = (
            None if place is None else _cell_text(columns[place][row]) for place in header.gpu
        )
        identity = uuid or bus_id or index
        if identity is None:
            return MISSING
        if identity == index and index in self._by_index:
            return self._by_index[index]
        if identity not in self.devices:
            wanted = int(index) if index is not None and _INDEX.match(index) else 0
            number = self._next_free.get(wanted, wanted)
            while number in self._taken:
                number += 1
            self._next_free[wanted] = number + 1
            self._taken.add(number)
            place = header.gpu_name
            self.devices[identity] = {
                "device_id": number,
                "uuid": uuid,
                "bus_id": bus_id,
                "name": None if place is None else _cell_text(columns[place][row]),
            }
        device = int(self.devices[identity]["device_id"])
        if index is not None:
            # If later rows have nothing else, they are of the GPU that had this index last.
            self._by_index[index] = device
        return device

    def _column_samples(
        self, metric: MetricColumn, columns: Sequence[Cells], start: Array, device: Array
    ) -> dict[str, Array]:
        tally = self._tallies.setdefault(metric.full_name, _CellTally())
        texts = columns[metric.place]
        # Each text is parsed once.
        values: dict[str, tuple[int, float] | None] = {}
        odd = set()
        for text in dict.fromkeys(texts):
            try:
                values[text] = metric.value(text)
            except ValueError:
                values[text] = None
                odd.add(text)
        if odd:
            tally.odd += sum(text in odd for text in texts)
            tally.first_odd = tally.first_odd or next(text.strip() for text in texts if text in odd)
        is_number = np.array([values[text] is not None for text in texts], bool)
        numbers = [value for text in texts if (value := values[text]) is not None]
        tally.numbers += len(numbers)
        if numbers and metric.full_name not in self.names:
            self.names[metric.full_name] = len(self.names) + 1
        return {
            "start_ns": start[is_number],
            "device_id": device[is_number],
            "name_id": np.full(len(numbers), self.names.get(metric.full_name, 0), np.int64),
            "kind": np.full(len(numbers), _METRIC, np.int64),
            "unit": np.array([unit for unit, _ in numbers], np.int64),
            "value_avg": np.array([value for _, value in numbers], np.float64),
        }

    # -- what is known of the log as a whole

    def attributes(self) -> ProfileAttributes:
        zero = None if self._zero is None or not self._has_date else self._zero - self.late_ns()
        return ProfileAttributes(
            zero_utc_ns=zero,
            recording_ns=self._end + self.late_ns() or None,
            driver_version=self._driver,
        )

    def late_ns(self) -> int:
        # The result is the distance from the second of the earliest sample to the zero of rows. If
        # times lie further apart than a store can keep, no zero suits all of them.
        first = self._first // _SECOND * _SECOND
        # If times lie further apart than a store can keep, no zero suits all of them.
        return -first if self._end - first <= schema.TIME_LIMIT_NS else 0

    def facts(self) -> frozenset[Fact]:
        facts = {Fact.METRICS}
        if self._zero is not None and self._has_date:
            facts.add(Fact.UTC)
        if any(row["uuid"] or row["bus_id"] or row["name"] for row in self.devices.values()):
            facts.add(Fact.DEVICES)
        return frozenset(facts)

    def notes(self) -> Iterator[Note]:
        if self._zero is not None and self._has_date:
            is_set = zone_is_set()
            whose = "the zone that TZ names" if is_set else "this machine's zone"
            text = f"the log's times of day were read as {self._clock.zone}, {whose}"
            severity = Severity.INFO if is_set else Severity.APPROXIMATED
            yield Note("time-zone-assumed", severity, text, facts=_UTC)
        elif self._zero is not None:
            has_both = "`nvidia-smi dmon -o DT` has both"
            text = f"times without a date ({has_both}): distances are valid, the day is unknown"
            yield Note("no-time-base", Severity.INFO, text, facts=_UTC)
        no_time = "rows without a sample time: query `timestamp`, or use `nvidia-smi dmon -o DT`"
        no_gpu = "rows without a GPU: also query `index` or `uuid`"
        for slug, text, count in (
            ("sample-without-time", no_time, self._without_time),
            ("sample-without-gpu", no_gpu, self._without_gpu),
        ):
            if count:
                yield Note(slug, Severity.INFO, text, count, "", _METRICS)
        yield from self._cell_notes()
        for slug, text, lines in (
            ("line-unreadable", "lines that are not log rows", self._rejected),
            ("impossible-time", "rows more than 104 days from the first one", self._too_far),
        ):
            if lines.count:
                where = f"line {lines.first}"
                yield Note(slug, Severity.DROPPED, text, lines.count, where, _METRICS)
        if self._cut_line:
            text = "the log ends within a line, which was left out"
            where = f"line {self._cut_line}"
            yield Note("trace-truncated", Severity.DROPPED, text, 1, where, _METRICS)

    def _cell_notes(self) -> Iterator[Note]:
        odd = {name: tally for name, tally in self._tallies.items() if tally.odd}
        words = [name for name, tally in odd.items() if not tally.numbers]
        if words:
            text = f"columns of words, which were not read: {', '.join(words)}"
            yield Note("column-not-read", Severity.INFO, text, len(words), "", _METRICS)
        mixed = [(name, tally) for name, tally in odd.items() if tally.numbers]
        if mixed:
            name, first = mixed[0]
            count = sum(tally.odd for _, tally in mixed)
            text = "cells that are neither numbers nor a placeholder of nvidia-smi"
            where = f"{name}: {first.first_odd}"
            yield Note("cell-unreadable", Severity.DROPPED, text, count, where, _METRICS)


def _is_cut(cells: Cells, previous: Cells | None, header: SmiHeader) -> bool:
    # A last line without an end lacks cells, or a part of the unit that the line before has.
    if len(cells) < len(header.cells) or previous is None:
        return len(cells) < len(header.cells)
    unit, usual = (row[-1].strip().lstrip("-.0123456789") for row in (cells, previous))
    return unit != usual and usual.startswith(f" {unit.strip()}")


def _cell_text(text: str) -> str | None:
    text = text.strip()
    return None if not text or text == "-" or text.startswith("[") or text == "N/A" else text
