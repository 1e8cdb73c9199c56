"""Logs into recordings: a sample for every number of a row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nsysconv import codes, schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.nvidia_smi import remarks
from nsysconv.importers.nvidia_smi.clock import Clock, zone_is_told
from nsysconv.importers.nvidia_smi.headers import Header, Metric, dmon, header_of, units_of
from nsysconv.importers.printed.encoding import in_utf8
from nsysconv.importers.printed.lines import Refused
from nsysconv.importers.printed.quoted import refuse_quoted
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note
from nsysconv.report import MISSING, Column, build_table
from nsysconv.store.recording import (
    ArrowRows,
    Batches,
    ProfileAttributes,
    Recording,
    Summary,
    rows_of,
)
from nsysconv.units import Unit

Array = np.ndarray
Cells = Sequence[str]

_PIECE_BYTES = 4 << 20
_INDEX = re.compile(r"[0-9]{1,6}$")
_SECOND = 1_000_000_000
_COLUMNS = (
    *(Column(name, Unit.ID, "") for name in ("start_ns", "device_id", "name_id", "kind", "unit")),
    Column("value_avg", Unit.REAL, ""),
)
_METRIC = codes.METRIC_KINDS.index("metric")


def recording(
    probe: Probe, possible: frozenset[Fact], advice: Mapping[Fact, str]
) -> Iterator[Recording]:
    """The one recording of a log. Raises InputError where it holds no sample."""
    with in_utf8([probe]) as (path,):
        log = _Log(path)
        yield Recording(_batches(log, probe, advice), possible=possible)


def _batches(log: _Log, probe: Probe, advice: Mapping[Fact, str]) -> Batches:
    yield from log.samples()
    if not log.names:
        raise InputError(
            "the log holds no sample",
            where=str(probe.origin),
            hint="nvidia-smi was stopped before its first row, or the GPU tells none of what was asked.",
        )
    refuse_quoted([probe], log.rows)
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
class _Told:
    """What the cells of a column were: how many numbers, and how many neither numbers nor nothing."""

    numbers: int = 0
    odd: int = 0
    first: str = ""


@dataclass
class _Log:
    """One log on its way to the store; all but `path` is complete when `samples` is used up.

    `rows` have a time, where the log has times.
    """

    path: Path
    names: dict[str, int] = field(default_factory=dict)
    devices: dict[Any, dict[str, Any]] = field(default_factory=dict)
    rows: int = 0

    def __post_init__(self) -> None:
        self._clock = Clock()
        # What rows count from while they are read, and the first and last sample since then.
        self._zero: int | None = None
        self._first, self._end = 0, 0
        self._has_date = False
        self._driver: str | None = None
        self._refused, self._far = Refused(), Refused()
        self._cut = 0
        self._indexed: dict[str, int] = {}
        self._taken: set[int] = set()
        self._next_free: dict[int, int] = {}
        self._before: Cells | None = None
        self._untimed = 0
        self._of_some_gpu = 0
        self._told: dict[str, _Told] = {}

    def samples(self) -> Iterator[ArrowRows]:
        """The samples, a few megabytes of the log at a time."""
        header: Header | None = None
        with self.path.open("rb") as file:
            line = 1
            while data := file.read(_PIECE_BYTES):
                data += file.readline()
                texts = data.decode("utf-8-sig", "replace").splitlines()
                at_end = not data.endswith(b"\n")
                for first, table, rows in self._tables(texts, line, header, at_end):
                    header = table
                    yield from self._of_rows(table, rows, first)
                line += len(texts)

    def _tables(
        self, texts: Sequence[str], line: int, header: Header | None, at_end: bool
    ) -> Iterator[tuple[int, Header, list[Cells]]]:
        """Rows that follow each other, the number of the first line, and the header they are under.

        The last header comes once more, without rows, for the lines that follow these.
        """
        rows: list[Cells] = []
        first = line
        last = line + len(texts) - 1 if at_end else None
        for number, text in enumerate(texts, line):
            cells = header.split(text) if header is not None else []
            if header is not None and number == last and _is_cut(cells, self._before, header):
                self._cut = number
                continue
            if header is not None and len(cells) == len(header.cells) and text[:1].isdigit():
                first = first if rows else number
                rows.append(cells)
                self._before = cells
                continue
            if rows and header is not None:
                yield first, header, rows
                rows = []
            if (found := header_of(text)) is not None:
                header, self._before = found, None
            elif header is not None and header.is_dmon and (units := units_of(text)) is not None:
                header = dmon(header.cells, units)
            elif header is not None and len(cells) == len(header.cells):
                first = number
                rows.append(cells)
                self._before = cells
            elif header is not None and text.strip():
                self._refused.add(number)
        if header is not None:
            yield first, header, rows

    def _of_rows(self, header: Header, rows: Sequence[Cells], line: int) -> Iterator[ArrowRows]:
        if not rows:
            return
        start = self._starts(header, rows)
        if header.times:
            for place in np.flatnonzero(start == MISSING).tolist():
                self._refused.add(line + place)
            for place in np.flatnonzero(np.abs(start) >= schema.TIME_LIMIT_NS).tolist():
                if start[place] != MISSING:
                    self._far.add(line + place)
            kept = np.abs(start) < schema.TIME_LIMIT_NS
            kept &= start != MISSING
            rows = [rows[place] for place in np.flatnonzero(kept).tolist()]
            start = start[kept]
            self._first = min(self._first, int(start.min(initial=0)))
            self._end = max(self._end, int(start.max(initial=0)))
        else:
            self._untimed += len(rows)
        if not rows:
            return
        self.rows += len(rows)
        columns = list(zip(*rows, strict=True))
        device = self._devices(header, columns)
        parts = [self._samples(metric, columns, start, device) for metric in header.metrics]
        data = {
            name: np.concatenate([part[name] for part in parts])
            for name in (column.name for column in _COLUMNS)
        } if parts else {}  # fmt: skip
        if parts and len(data["start_ns"]):
            yield ArrowRows("metric_sample", build_table(_COLUMNS, data), f"line {line:,}")

    def _starts(self, header: Header, rows: Sequence[Cells]) -> Array:
        """When each row was sampled, since zero; MISSING where it does not tell."""
        places, clock = header.times, self._clock
        if not places:
            return np.full(len(rows), MISSING)
        if not header.is_dmon:
            moments = [clock.stamp(row[places[0]]) for row in rows]
        elif not header.has_date:
            moments = [clock.time(row[places[0]].strip()) for row in rows]
        elif len(places) == 2:
            moments = [
                clock.date_time(row[places[0]].strip(), row[places[1]].strip()) for row in rows
            ]
        else:
            moments = [clock.date_time(row[places[0]].strip(), "00:00:00") for row in rows]
        if self._zero is None:
            known = next((moment for moment in moments if moment is not None), None)
            if known is not None:
                self._zero = known // _SECOND * _SECOND
                self._has_date = header.has_date
        zero = self._zero or 0
        return np.array([MISSING if m is None else m - zero for m in moments], np.int64)

    def _devices(self, header: Header, columns: Sequence[Cells]) -> Array:
        """The device of each row; rows of one GPU tell the same index, UUID and bus id."""
        count = len(columns[0])
        places = [place for place in header.gpu if place is not None]
        if not places:
            self._of_some_gpu += count
            return np.full(count, MISSING)
        # What tells GPUs apart for sure, first; what only numbers them, last.
        index, uuid, bus_id = header.gpu
        by = next(place for place in (uuid, bus_id, index) if place is not None)
        found = {}
        for key in dict.fromkeys(columns[by]):
            found[key] = self._device(header, columns, by, key)
        if header.driver is not None and self._driver is None:
            self._driver = _told(columns[header.driver][0])
        return np.array([found[key] for key in columns[by]], np.int64)

    def _device(self, header: Header, columns: Sequence[Cells], by: int, key: str) -> int:
        """The number of a GPU: its index where that is told and free, else the next free one."""
        row = columns[by].index(key)
        index, uuid, bus_id = (
            None if place is None else _told(columns[place][row]) for place in header.gpu
        )
        identity = uuid or bus_id or index
        if identity is None:
            return MISSING
        if identity == index and index in self._indexed:
            return self._indexed[index]
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
                "name": None if place is None else _told(columns[place][row]),
            }
        device = int(self.devices[identity]["device_id"])
        if index is not None:
            # Where nothing else is told later on, it is the GPU that had this number last.
            self._indexed[index] = device
        return device

    def _samples(
        self, metric: Metric, columns: Sequence[Cells], start: Array, device: Array
    ) -> dict[str, Array]:
        """The samples of one column."""
        told = self._told.setdefault(metric.full_name, _Told())
        texts = columns[metric.place]
        values: dict[str, tuple[int, float] | None] = {}
        odd = set()
        for text in dict.fromkeys(texts):
            try:
                values[text] = metric.value(text)
            except ValueError:
                values[text] = None
                odd.add(text)
        if odd:
            told.odd += sum(text in odd for text in texts)
            told.first = told.first or next(text.strip() for text in texts if text in odd)
        kept = np.array([values[text] is not None for text in texts], bool)
        found = [value for text in texts if (value := values[text]) is not None]
        told.numbers += len(found)
        if found and metric.full_name not in self.names:
            self.names[metric.full_name] = len(self.names) + 1
        return {
            "start_ns": start[kept],
            "device_id": device[kept],
            "name_id": np.full(len(found), self.names.get(metric.full_name, 0), np.int64),
            "kind": np.full(len(found), _METRIC, np.int64),
            "unit": np.array([unit for unit, _ in found], np.int64),
            "value_avg": np.array([value for _, value in found], np.float64),
        }

    def attributes(self) -> ProfileAttributes:
        """What is known of the log as a whole."""
        zero = None if self._zero is None or not self._has_date else self._zero - self.late_ns()
        return ProfileAttributes(
            zero_utc_ns=zero,
            recording_ns=self._end + self.late_ns() or None,
            driver_version=self._driver,
        )

    def late_ns(self) -> int:
        """How much later than the second of the first sample the moment is that rows count from."""
        first = self._first // _SECOND * _SECOND
        # Of times further apart than a store keeps, no zero is right for all.
        return -first if self._end - first <= schema.TIME_LIMIT_NS else 0

    def facts(self) -> frozenset[Fact]:
        """What the log holds."""
        found = {Fact.METRICS}
        if self._zero is not None and self._has_date:
            found.add(Fact.UTC)
        if any(row["uuid"] or row["bus_id"] or row["name"] for row in self.devices.values()):
            found.add(Fact.DEVICES)
        return frozenset(found)

    def notes(self) -> Iterator[Note]:
        """What there is to say of it."""
        if self._zero is not None:
            zone = remarks.zone(self._clock.zone, told=zone_is_told())
            yield zone if self._has_date else remarks.no_date()
        if self._untimed:
            yield remarks.untimed(self._untimed)
        if self._of_some_gpu:
            yield remarks.of_some_gpu(self._of_some_gpu)
        words = [name for name, told in self._told.items() if told.odd and not told.numbers]
        if words:
            yield remarks.not_numbers(words)
        odd = {name: told for name, told in self._told.items() if told.odd and told.numbers}
        if odd:
            name, first = next(iter(odd.items()))
            count = sum(told.odd for told in odd.values())
            yield remarks.odd_cells(count, f"{name}: {first.first}")
        if self._refused.count:
            yield remarks.no_rows(self._refused.count, self._refused.first)
        if self._far.count:
            yield remarks.too_far(self._far.count, self._far.first)
        if self._cut:
            yield remarks.cut_off(self._cut)


def _is_cut(cells: Cells, before: Cells | None, header: Header) -> bool:
    """Whether a last line that does not end lacks cells, or the unit that the line before has."""
    if len(cells) < len(header.cells) or before is None:
        return len(cells) < len(header.cells)
    end, usual = (row[-1].strip().lstrip("-.0123456789") for row in (cells, before))
    return end != usual and usual.startswith(f" {end.strip()}")


def _told(text: str) -> str | None:
    """What a cell tells; None for what stands for nothing."""
    text = text.strip()
    return None if not text or text == "-" or text.startswith("[") or text == "N/A" else text
