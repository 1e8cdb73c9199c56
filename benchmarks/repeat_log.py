"""Write a large GPU trace of nvprof (`--print-gpu-trace --csv`): a given one, repeated.

What it promises:

* the fewest whole copies of the rows that hold so many; banner, header and units are there once;
* starts are later by the extent of the trace from copy to copy, and correlation ids are others, in names
  and in their own column; everything else of a row is kept to the letter;
* one copy is the trace itself; memory is that of the trace and of a copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

HEADER = b'"Start","Duration"'
UNITS = {b"s": Decimal(1), b"ms": Decimal("1e-3"), b"us": Decimal("1e-6"), b"ns": Decimal("1e-9")}
# Behind a kernel's name, and in a column of its own: the last one, which older logs lack.
_ID = re.compile(rb'(?<= \[)\d+(?=\]"(?:,\d+)?\s*$)|(?<=",)\d+(?=\s*$)')


@dataclass(frozen=True)
class Trace:
    """A trace in lines: what comes before the rows, the rows, and what comes behind them."""

    head: list[bytes]
    rows: list[bytes]
    tail: list[bytes]

    @classmethod
    def of(cls, path: Path) -> Trace:
        """Take a trace apart."""
        lines = path.read_bytes().splitlines(keepends=True)
        first = next(n for n, line in enumerate(lines) if line.startswith(HEADER)) + 2
        end = first
        # The last row may be cut.
        while end < len(lines) and lines[end][:1].isdigit() and lines[end].endswith(b"\n"):
            end += 1
        return cls(lines[:first], lines[first:end], lines[end:])

    def steps(self) -> tuple[Decimal, int]:
        """Return by how much starts, in their unit, and ids grow from copy to copy."""
        start_unit, duration_unit = (UNITS[unit] for unit in self.head[-1].split(b",")[:2])
        cells = [[Decimal(cell.decode()) for cell in row.split(b",")[:2]] for row in self.rows]
        end = max(start + duration * duration_unit / start_unit for start, duration in cells)
        extent = (end - min(start for start, _ in cells)).quantize(cells[0][0], ROUND_CEILING)
        ids = [int(number) for row in self.rows for number in _ID.findall(row)]
        return extent, max(ids, default=0) + 1

    def copy(self, number: int, extent: Decimal, ids: int) -> bytes:
        """Return one copy of the rows; copy 0 is the original."""
        rows = []
        for row in self.rows:
            start, rest = row.split(b",", 1)
            rest = _ID.sub(lambda found: b"%d" % (int(found[0]) + number * ids), rest)
            rows.append(str(Decimal(start.decode()) + number * extent).encode() + b"," + rest)
        return b"".join(rows)


def generate(target: Path, source: Path, rows: int) -> int:
    """Write the trace; return how many copies it has."""
    trace = Trace.of(source)
    copies = -(-rows // len(trace.rows))
    extent, ids = trace.steps()
    with target.open("wb") as out:
        out.writelines(trace.head)
        for number in range(copies):
            out.write(trace.copy(number, extent, ids))
        out.writelines(trace.tail)
    return copies
