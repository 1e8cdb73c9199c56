"""Columns of traces: their roles and types, and rows of text in columns made CSV, to be parsed at once.

In text each cell has a unit of its own. One pattern per table takes its rows apart, and a cell with a
unit becomes three of CSV: digits, decimals, unit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nsysconv.importers.nvprof_log.survey import LARGEST, UNITS
from nsysconv.importers.printed.trace import (
    QUANTITIES,
    Array,
    TraceCells,
    encoded_column,
    table_cells,
)
from nsysconv.report import MISSING, values_of

ROLES = {
    **{
        name: name.lower()
        for name in ("Start", "Throughput", "Device", "Context", "Stream", "Name")
    },
    **{f"{name} {axis}": f"{name}_{axis}".lower() for name in ("Grid", "Block") for axis in "XYZ"},
    "Duration": "dur",
    "Registers Per Thread": "registers",
    "Static SMem": "static",
    "Dynamic SMem": "dynamic",
    "Size": "bytes",
    "SrcMemType": "src_kind",
    "DstMemType": "dst_kind",
    "Src Dev": "src_device",
    "Dst Dev": "dst_device",
    "Correlation_ID": "correlation",
    "Unified Memory": "migrated",
    "Virtual Address": "address",
}
"""Columns of CSV -> their roles; in text, grid and block are one column each."""
TRIPLES = {
    f"{name} Size": [f"{name}_{axis}".lower() for axis in "XYZ"] for name in ("Grid", "Block")
}
INTEGERS = (*chain(*TRIPLES.values()), "registers", "correlation")
_TEXT = pa.dictionary(pa.int32(), pa.string())
_TYPES = {
    **dict.fromkeys(QUANTITIES, pa.float64()),
    **dict.fromkeys(INTEGERS, pa.int64()),
    "name": pa.string(),
}


def csv_types(columns: Sequence[str]) -> dict[str, pa.DataType]:
    """Return the types of columns of CSV by their roles."""
    return {role: _TYPES.get(role, _TEXT) for role in (ROLES.get(name, name) for name in columns)}


# -- text in columns

DELIMITER = "\t"
_DIGITS = rb"(\d{1,18})"
_UNITS = b"|".join(re.escape(unit.encode()) for unit in sorted(UNITS, key=len, reverse=True))
# Cells as nvprof writes them, in ASCII. Rows with another one stay as they are, and so do those whose
# last cell is two: a migration's name may stand behind that of a device.
_QUANTITY = rb"(?:(\d{1,9})(?:\.(\d{1,9}))?(%b)?|-)" % _UNITS
_TRIPLE = rb"(?:\(%b %b %b\)|-)" % (_DIGITS, _DIGITS, _DIGITS)
_INTEGER = rb"(?:%b|-)" % _DIGITS
_WORDS = rb"([!-~]+(?: [!-~]+)*)"
_NAME = rb"(?!.*  \[Unified Memory )([!-~](?:[ -~]*[!-~])?)"
_DECIMALS, _UNIT = "decimals", "unit"
# Up to here a double holds all digits. A unit is a power of ten or of two: powers of ten are set off
# against decimals, so that only one product or quotient is rounded.
_MOST_EXACT = 1 << 53
_POWERS = np.array([float(10**power) for power in range(10)])
_TENS = {
    unit: len(str(scale)) - 1 if str(scale).strip("0") == "1" else 0
    for unit, scale in UNITS.items()
}


class PrintedRows:
    """The rows of a table of text in columns, as CSV.

    `types` are those of the CSV's columns, which has no quotes and is separated by DELIMITER.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        """Prepare the pattern of a row."""
        self.types: dict[str, pa.DataType] = {}
        cells = []
        for place, column in enumerate(columns, 1):
            role = ROLES.get(column, column)
            if role in QUANTITIES:
                cell = _QUANTITY
                types = {
                    role: pa.int64(),
                    f"{role} {_DECIMALS}": pa.string(),
                    f"{role} {_UNIT}": _TEXT,
                }
            elif column in TRIPLES:
                cell, types = _TRIPLE, dict.fromkeys(TRIPLES[column], pa.int64())
            elif role in INTEGERS:
                cell, types = _INTEGER, {role: pa.int64()}
            else:
                cell = _NAME if role == "name" and place == len(columns) else _WORDS
                types = {role: _TYPES.get(role, _TEXT)}
            cells.append(cell)
            self.types.update(types)
        self._row = re.compile(rb"^ *%b *$" % rb" {2,}".join(cells), re.MULTILINE)
        self._quantities = [role for role in QUANTITIES if role in self.types]

    def csv(self, data: bytes) -> bytes | None:
        """Return rows as CSV, other lines as they are; None where one of those may be taken for a row."""
        separator = DELIMITER.encode()
        data = data.replace(b"\r\n", b"\n")
        if separator in data or b"\r" in data:
            return None
        return self._row.sub(lambda row: separator.join(row.groups(b"")), data)

    def cells(self, table: pa.Table) -> TraceCells | None:
        """Return the rows of CSV without their names; None if a double may not hold a quantity."""
        values: dict[str, Array] = {}
        steps: dict[str, Array | float] = {}
        used = []
        for role in self._quantities:
            columns = [role, f"{role} {_DECIMALS}", f"{role} {_UNIT}"]
            used += columns
            whole, decimals, units = (table[name].combine_chunks() for name in columns)
            places = values_of(pc.binary_length(decimals), 0)
            digits = values_of(whole, 0) * _POWERS[places] + values_of(decimals.cast(pa.int64()), 0)
            encoded = encoded_column(units)
            tens = np.array([*(_TENS[unit] for unit in encoded.values), 0])[encoded.codes] - places
            twos = [*(UNITS[unit] // 10 ** _TENS[unit] for unit in encoded.values), 1]
            more = np.array(twos, np.float64)[encoded.codes] * _POWERS[np.maximum(tens, 0)]
            less = _POWERS[np.maximum(-tens, 0)]
            value, step = digits * more / less, more / less
            if digits.max(initial=0) >= _MOST_EXACT or value.max(initial=0) >= LARGEST:
                return None
            is_number = values_of(whole) != MISSING
            values[role] = np.where(is_number, value, np.nan)
            steps[role] = np.where(is_number, step, 0.0)
        rest = table_cells(table.drop_columns(used), {}, {}, {})
        return replace(rest, quantities=values, steps=steps)
