"""Rows of traces as columns of cells: many at once where nvprof wrote them, else one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import csv

from nsysconv.importers.nvprof_log.headers import NvprofHeader
from nsysconv.importers.nvprof_log.quantities import UNITS, measured, step_of
from nsysconv.importers.nvprof_log.survey import PrintedTable
from nsysconv.importers.printed import text
from nsysconv.importers.printed.quantities import parse_digits
from nsysconv.importers.printed.trace import Array, EncodedTexts, encode_texts
from nsysconv.report import MISSING, values_of

QUANTITIES = ("Start", "Duration", "Static SMem", "Dynamic SMem", "Size", "Throughput")
"""Columns of numbers with units."""
INTEGERS = (
    "Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z", "Registers Per Thread",
    "Correlation_ID",
)  # fmt: skip
"""Columns of whole numbers."""
_TRIPLES = {
    "Grid Size": ("Grid X", "Grid Y", "Grid Z"),
    "Block Size": ("Block X", "Block Y", "Block Z"),
}
_TRIPLE = re.compile(r"\((\d+) (\d+) (\d+)\)$")
_NOTHING = ("", "-")
_GAP = re.compile(r"\s{2,}")
# At the end of a kernel's name stands the number that it shares with its launch.
_NUMBERED = re.compile(r"^(.*) \[(\d{1,10})\]$", re.DOTALL)
_MIGRATION_BEHIND = re.compile(r"\s{2,}\[Unified Memory ")
_MOST_DIGITS = 10
# What is cut into cells at once: fits into a processor's cache, where it takes half the time.
_BLOCK_BYTES = 1 << 20
_SAMPLE_LINES = 200
_USUAL_STEP = 1e-6
_COMMON_SIGNS = frozenset("0123456789.")


@dataclass(frozen=True)
class Cells:
    """Rows by column, as nvprof's CSV calls the columns; absent ones are left out.

    `quantities` are in ns, bytes and bytes per second, NaN where a cell is empty, and `steps` how far
    apart values are that are spelled differently. `integers` have MISSING for an empty cell. The number
    at the end of a kernel's name is taken off it: `numbered`. `units` are the columns' own.
    """

    count: int
    quantities: Mapping[str, Array]
    steps: Mapping[str, Array]
    integers: Mapping[str, Array]
    texts: Mapping[str, EncodedTexts]
    numbered: Array
    units: Mapping[str, str]


def row_of(line: str, header: NvprofHeader) -> dict[str, str] | None:
    """The cells of a line by column; None where it does not have the header's columns."""
    columns = header.columns
    if header.delimiter:
        cells = text.csv_cells(line, header.delimiter)
        if cells is None:
            return None
    else:
        cells = _GAP.split(line.strip(), len(columns) - 1)
        if _MIGRATION_BEHIND.search(cells[-1]):
            cells = _GAP.split(line.strip(), len(columns))
    if len(cells) == len(columns) + 1 and "Unified Memory" in columns:
        # A migration between devices names both, in one cell more than the header has.
        del cells[columns.index("Device")]
    if len(cells) != len(columns):
        return None
    row = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
    for name, parts in _TRIPLES.items():
        triple = _TRIPLE.match(row.pop(name, ""))
        if triple:
            row.update(zip(parts, triple.groups(), strict=True))
    return {name: cell for name, cell in row.items() if cell not in _NOTHING}


def is_row(row: Mapping[str, str], block: PrintedTable) -> bool:
    """Whether the cells say when, how long and what."""
    units = dict(zip(block.header.columns, block.units, strict=False))
    return "Name" in row and all(
        measured(row[name], units.get(name, "")) is not None
        if name in row
        else name == "Duration"  # faults have none
        for name in ("Start", "Duration")
    )


class CellReader:
    """How one table spells its cells."""

    def __init__(self, block: PrintedTable) -> None:
        self._header = block.header
        self._units = dict(zip(block.header.columns, block.units, strict=False))
        self._steps: dict[str, float] = {}

    def many(self, data: bytes, odd: list[str]) -> Cells | None:
        """The rows of a piece of CSV at once; `odd` gets those with more or fewer cells.

        None where a cell is not what nvprof writes there.
        """
        columns = self._header.columns
        kinds: dict[str, pa.DataType] = {name: pa.string() for name in columns}
        kinds |= {name: pa.float64() for name in QUANTITIES if name in columns}
        kinds |= {name: pa.int64() for name in INTEGERS if name in columns}
        for name in set(columns) - {"Name", *QUANTITIES, *INTEGERS}:
            kinds[name] = pa.dictionary(pa.int32(), pa.string())

        def refuse(row: csv.InvalidRow) -> str:
            odd.append(row.text)
            return "skip"

        try:
            table = csv.read_csv(
                pa.BufferReader(data),
                csv.ReadOptions(
                    use_threads=False, column_names=columns, block_size=_BLOCK_BYTES
                ),
                csv.ParseOptions(
                    delimiter=self._header.delimiter, invalid_row_handler=refuse
                ),
                csv.ConvertOptions(
                    column_types=kinds, null_values=list(_NOTHING), strings_can_be_null=True,
                    check_utf8=False,
                ),
            )  # fmt: skip
        except pa.ArrowInvalid:
            odd.clear()
            return None
        if not self._regular(table):
            odd.clear()
            return None
        return self._of_table(table)

    def _regular(self, table: pa.Table) -> bool:
        """Whether all rows say when and what, in units that are known."""
        if table["Start"].null_count or table["Name"].null_count:
            return False
        for name in QUANTITIES:
            told = name in table.column_names and table[name].null_count < table.num_rows
            if told and self._units.get(name) not in UNITS:
                return False
        return True

    @property
    def has_to_learn(self) -> bool:
        """Whether `learn_steps` wants to see the rows that come next."""
        return bool(self._header.delimiter) and not self._steps

    def learn_steps(self, sample: bytes) -> None:
        """What the last digit of a column's cells is worth: of those with a decimal sign the most.

        Only the first lines teach: nvprof spells all alike, with six decimals. Fewer are of an editor.
        """
        for line in sample.split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]:
            row = row_of(line.decode("utf-8", "replace").rstrip("\r"), self._header) or {}
            for name in QUANTITIES:
                cell = row.get(name, "")
                found = step_of(cell) if "." in cell and set(cell) <= _COMMON_SIGNS else None
                if found is not None and self._units.get(name) in UNITS:
                    step = float(found) * UNITS[self._units[name]]
                    self._steps[name] = max(step, self._steps.get(name, 0.0))

    def _of_table(self, table: pa.Table) -> Cells:
        quantities, steps, integers, texts = {}, {}, {}, {}
        count = table.num_rows
        for name in table.column_names:
            column = table[name].combine_chunks()
            if name in QUANTITIES:
                values = values_of(column, np.nan)
                quantities[name] = values * UNITS.get(self._units.get(name, ""), 1)
                usual = UNITS.get(self._units.get(name, ""), 1) * _USUAL_STEP
                steps[name] = np.broadcast_to(np.float64(self._steps.get(name, usual)), count)
            elif name in INTEGERS:
                integers[name] = values_of(column)
            elif name == "Name":
                texts[name], numbered = without_numbers(column)
            else:
                texts[name] = _encoded(column)
        return Cells(count, quantities, steps, integers, texts, numbered, self._units)

    def one_by_one(self, rows: Iterable[Mapping[str, str]]) -> Cells:
        """The same of rows that are cut into cells, whatever units and separators they have."""
        found = list(rows)
        # That no row has a device says that all are API calls.
        columns = {name for row in found for name in row} | {"Device"}
        quantities, steps = {}, {}
        for name in columns & set(QUANTITIES):
            told = [
                measured(row.get(name, ""), self._units.get(name, "")) or (np.nan, 0.0)
                for row in found
            ]
            pairs = np.array(told, np.float64).reshape(-1, 2)
            quantities[name], steps[name] = pairs[:, 0], pairs[:, 1]
        integers = {
            name: np.array([_whole(row.get(name)) for row in found], np.int64)
            for name in columns & set(INTEGERS)
        }
        names = [without_number(row["Name"]) for row in found]
        numbered = [MISSING if number is None else number for _, number in names]
        texts = {
            name: encode_texts([row.get(name) for row in found])
            for name in columns - {"Name", *QUANTITIES, *INTEGERS}
        }
        texts["Name"] = encode_texts([name for name, _ in names])
        return Cells(
            len(found),
            quantities,
            steps,
            integers,
            texts,
            np.array(numbered, np.int64),
            self._units,
        )


def without_number(name: str) -> tuple[str, int | None]:
    """A name without the ` [n]` at its end, and the n; None where it has none."""
    match = _NUMBERED.match(name)
    return (match.group(1), int(match.group(2))) if match else (name, None)


def without_numbers(names: pa.StringArray) -> tuple[EncodedTexts, Array]:
    """The same of a column without nulls; MISSING for names that have no number.

    Digits are read from the names' bytes, all names at once, from the last one on: to look for them with
    a regular expression takes as long as all the rest.
    """
    _, offsets, data = names.buffers()
    edges = np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names) + 1]
    text = np.frombuffer(data or b"\0", np.uint8)
    is_long = np.diff(edges) >= len(" [0]")
    rows = np.flatnonzero(is_long & (text[edges[1:] - 1] == ord("]")))
    digit, number = edges[rows + 1] - 2, np.zeros(len(rows), np.int64)
    for power in range(_MOST_DIGITS):
        value = text[digit] - np.uint8(ord("0"))
        number += np.where(value < 10, value, 0) * np.int64(10**power)
        digit -= value < 10
    # Where a name is all digits, this has read what stands before it.
    found = (text[digit] == ord("[")) & (text[digit - 1] == ord(" ")) & (digit > edges[rows])
    found &= digit < edges[rows + 1] - 2
    rows, ends = rows[found], edges[1:].copy()
    ends[rows] = digit[found] - 1
    numbered = np.full(len(names), MISSING)
    numbered[rows] = number[found]
    # Names and what was taken off them by turns; of these two, only names are texts.
    by_turns = np.append(np.stack([edges[:-1], ends], axis=1).ravel(), edges[-1])
    every_other = np.full(len(names) // 4 + 1, 0b01010101, np.uint8)
    texts = pa.StringArray.from_buffers(
        2 * len(names), pa.py_buffer(by_turns), data, pa.py_buffer(every_other)
    )
    both = _encoded(texts.dictionary_encode())
    return EncodedTexts(both.place[::2], both.known), numbered


def _encoded(column: pa.DictionaryArray) -> EncodedTexts:
    return EncodedTexts(values_of(column.indices, -1), column.dictionary.to_pylist())


def _whole(cell: str | None) -> int:
    number = None if cell is None else parse_digits(cell)
    return MISSING if number is None else number
