"""Rows of traces as columns of cells: many at once where nsys wrote CSV, else one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from nsysconv.importers.nsys_stats.numbers import (
    CellKind,
    NumberFormat,
    SpelledNumber,
    number_format,
)
from nsysconv.importers.nsys_stats.objects import JsonRows
from nsysconv.importers.nsys_stats.survey import PrintedTable
from nsysconv.importers.nsys_stats.tables import SIZES, TIMES, Layout
from nsysconv.importers.printed.text import RejectedLines, span_chunks
from nsysconv.importers.printed.trace import Array, EncodedTexts, encode_texts
from nsysconv.report import MISSING, values_of

INTEGERS = (
    "correlation", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers",
    "context", "green_context", "stream", "result", "pid", "tid",
)  # fmt: skip
"""Columns of whole numbers."""
QUANTITIES = ("start", "dur", "bytes", "throughput", "static", "dynamic")
"""Columns of numbers with units."""
_PIECE_ROWS = 1 << 16
_BLOCK_BYTES = 1 << 20
_SAMPLE_ROWS = 1000
_NOTHING = ("", "-")
_MOST_DIGITS = 19
_SECOND = 10**9


@dataclass(frozen=True)
class Cells:
    """Rows by column, absent columns left out.

    `quantities` are in ns, bytes and bytes per second, NaN where a cell is empty; `integers` have
    MISSING there.
    """

    count: int
    quantities: Mapping[str, Array]
    integers: Mapping[str, Array]
    texts: Mapping[str, EncodedTexts]


@dataclass
class TraceReader:
    """Reads the rows of one trace in pieces; `refused` is complete once all are read.

    `steps` says per quantity how far apart two spellings are, in ns, bytes or bytes per second;
    `ambiguous` counts cells that nothing tells how to read, `no_numbers` those that are no numbers.
    `is_cut` tells, once rows are read, whether their decimals are cut and starts tell whole seconds only.
    """

    path: Path
    block: PrintedTable
    refused: RejectedLines = field(default_factory=RejectedLines)
    steps: dict[str, float] = field(default_factory=dict)
    ambiguous: int = 0
    no_numbers: int = 0
    is_cut: bool = False
    _spelling: NumberFormat = field(default_factory=lambda: number_format(()))

    def cells(self) -> Iterator[tuple[Cells, int]]:
        """Rows, and how far they are read in bytes."""
        self._learn()
        if self.block.header.form is Layout.JSON:
            yield from self._of_objects()
            return
        for data, start, line in span_chunks(self.path, self.block.spans):
            found = self._many(data) if self.block.header.delimiter in (",", ";") else None
            if found is None:
                found = self._cut(data, line)
            if found.count:
                yield found, start + len(data)

    # -- many at once

    def _many(self, data: bytes) -> Cells | None:
        """The rows of a piece of CSV; None where a cell or a row is not what nsys writes there."""
        columns = [column.role for column in self.block.header.columns]
        kinds: dict[str, pa.DataType] = {}
        for role in columns:
            if role in INTEGERS or (role in QUANTITIES and self._scale(role) == 1):
                kinds[role] = pa.int64()
            elif role in QUANTITIES:
                kinds[role] = pa.float64()
            else:
                kinds[role] = pa.dictionary(pa.int32(), pa.string())
        try:
            table = csv.read_csv(
                pa.BufferReader(data),
                csv.ReadOptions(use_threads=False, column_names=columns, block_size=_BLOCK_BYTES),
                csv.ParseOptions(delimiter=self.block.header.delimiter),
                csv.ConvertOptions(
                    column_types=kinds, null_values=list(_NOTHING), strings_can_be_null=True
                ),
            )
        except pa.ArrowInvalid:
            return None
        if any(table[role].null_count for role in ("start", "name")):
            return None
        quantities, integers, texts = {}, {}, {}
        for role in columns:
            column = table[role].combine_chunks()
            if role in QUANTITIES:
                values = values_of(pc.cast(column, pa.float64()), np.nan)
                quantities[role] = values * self._scale(role)
            elif role in INTEGERS:
                integers[role] = values_of(column)
            else:
                place = values_of(column.indices, -1)
                texts[role] = EncodedTexts(place, column.dictionary.to_pylist())
        return Cells(table.num_rows, quantities, integers, texts)

    def _scale(self, role: str) -> int:
        return self._scales[role]

    @cached_property
    def _scales(self) -> dict[str, int]:
        return {role: self._scale_of(role) for role in (*QUANTITIES, *INTEGERS)}

    def _scale_of(self, role: str) -> int:
        if role in INTEGERS:
            return 1
        place = self.block.header.place(role)
        unit = self.block.header.columns[place].unit if place is not None else ""
        if role in ("start", "dur"):
            return TIMES.get(unit, 1)
        return SIZES.get(unit.removesuffix("/s").replace("Bps", "B"), 1)

    def _learn(self) -> None:
        """How numbers are spelled, and how many decimals they have; only the first rows teach."""
        roles = self._roles
        sample = islice((row for row in self._first_rows() if len(row) == len(roles)), _SAMPLE_ROWS)
        rows = [dict(zip(roles, row, strict=True)) for row in sample]
        told = [(row[role], self._holds(role)) for row in rows for role in (*QUANTITIES, *INTEGERS)
                if role in row]  # fmt: skip
        has_points = self.block.header.form in (Layout.DELIMITED, Layout.JSON)
        self._spelling = number_format(told, has_points=has_points)
        numbers = {
            role: [number for row in rows
                   if (number := self._spelling.number(row[role], self._holds(role))) is not None]
            for role in QUANTITIES if role in roles
        }  # fmt: skip
        self.is_cut = self._tells_cut(numbers)
        for role, found in numbers.items():
            # What is in another unit has three decimals, which ends of 0 may hide.
            decimals = [0 if self._scale(role) == 1 else 3]
            decimals += [number.decimals for number in found]
            self.steps[role] = self._scale(role) / (1 if self.is_cut else 10 ** max(decimals))

    def _tells_cut(self, numbers: Mapping[str, Sequence[SpelledNumber]]) -> bool:
        """Whether decimals are cut: of no row they are anything but 0, though starts are in seconds."""
        decimals = [number for found in numbers.values() for number in found if number.decimals]
        return (
            self._spelling.has_commas
            and self._scale("start") == _SECOND
            and any(number.decimals for number in numbers.get("start", ()))
            and all(number.value.denominator == 1 for number in decimals)
        )

    def _first_rows(self) -> Iterator[Sequence[str]]:
        if self.block.header.form is Layout.JSON:
            for span in self.block.spans:
                yield from (list(row.values()) for row in JsonRows(self.path, span.start))
            return
        for data, _, _ in span_chunks(self.path, self.block.spans):
            for line in data.split(b"\n", _SAMPLE_ROWS)[:_SAMPLE_ROWS]:
                yield self.block.cells(line.decode("utf-8", "replace").rstrip("\r")) or ()

    @property
    def _roles(self) -> list[str]:
        return [column.role for column in self.block.header.columns]

    def _holds(self, role: str) -> CellKind:
        if role in INTEGERS or self._scale(role) == 1:
            return CellKind.WHOLE
        return CellKind.ANY if role in ("start", "dur") else CellKind.THOUSANDTHS

    # -- one by one

    def _cut(self, data: bytes, line: int) -> Cells:
        """The rows of a piece, cell by cell; lines that are none are refused."""
        rows: list[Mapping[str, str]] = []
        lines = []
        for number, raw in enumerate(data.split(b"\n"), line):
            text = raw.decode("utf-8", "replace").rstrip("\r")
            if not text.strip():
                continue
            cells = self.block.cells(text)
            if cells is None:
                self.refused.add(number)
            else:
                rows.append(dict(zip(self._roles, (cell.strip() for cell in cells), strict=True)))
                lines.append(number)
        return self._one_by_one(rows, lines)

    def _of_objects(self) -> Iterator[tuple[Cells, int]]:
        for span in self.block.spans:
            rows: list[Mapping[str, str]] = []
            for row in JsonRows(self.path, span.start):
                if len(row) == len(self._roles):
                    rows.append(dict(zip(self._roles, row.values(), strict=True)))
                else:
                    self.refused.add(span.line)
                if len(rows) == _PIECE_ROWS:
                    yield self._one_by_one(rows, [span.line] * len(rows)), span.end
                    rows = []
            if rows:
                yield self._one_by_one(rows, [span.line] * len(rows)), span.end

    def _one_by_one(self, rows: Sequence[Mapping[str, str]], lines: Sequence[int]) -> Cells:
        """Rows that are cut into cells; those that do not say when, how long and what are refused."""
        columns = {role: [row.get(role, "") for row in rows] for role in self._roles}
        quantities = {
            role: np.array(self._numbers(columns[role], role, np.nan), np.float64)
            for role in QUANTITIES
            if role in columns
        }
        kept = ~np.isnan(quantities["start"]) & ~np.isnan(quantities["dur"])
        kept &= np.array([bool(name) for name in columns["name"]], bool)
        for number in np.flatnonzero(~kept).tolist():
            self.refused.add(lines[number])
        return Cells(
            int(kept.sum()),
            {role: values[kept] for role, values in quantities.items()},
            {
                role: np.array(self._numbers(column, role, MISSING), np.int64)[kept]
                for role, column in columns.items()
                if role in INTEGERS
            },
            {
                role: _texts(column, kept)
                for role, column in columns.items()
                if role not in (*QUANTITIES, *INTEGERS) and not role.startswith("other ")
            },
        )

    def _numbers(self, column: Sequence[str], role: str, nothing: float) -> list[float]:
        """The numbers of a column in ns, bytes or as they are; each text is looked at once."""
        known = {text: self._number(text, role) for text in dict.fromkeys(column)}
        odd = {text for text, value in known.items() if value is None and text not in _NOTHING}
        if odd:
            ambiguous = {text for text in odd if self._is_ambiguous(text, role)}
            self.ambiguous += sum(text in ambiguous for text in column)
            self.no_numbers += sum(text in odd - ambiguous for text in column)
        found = (known[text] for text in column)
        return [nothing if value is None else value for value in found]

    def _number(self, text: str, role: str) -> float | None:
        scale = self._scales[role]
        if text.isdecimal() and text.isascii() and len(text) < _MOST_DIGITS:
            return int(text) * scale
        number = self._spelling.number(text, self._holds(role))
        if number is None:
            return None
        value = number.value * scale
        if self.is_cut and number.decimals:
            value = number.cut(scale).middle
        return int(value) if role in INTEGERS else float(value)

    def _is_ambiguous(self, text: str, role: str) -> bool:
        return self._spelling.is_ambiguous(text, self._holds(role))


def _texts(values: Iterable[str], kept: Array) -> EncodedTexts:
    found = encode_texts(None if value in _NOTHING else value for value in values)
    return EncodedTexts(found.place[kept], found.known)
