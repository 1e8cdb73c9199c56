"""Write a large GPU trace of nvprof (`--print-gpu-trace`, CSV or text): a given one, repeated.

What it promises:

* the fewest whole copies of the rows that hold so many; banner, header and units are there once;
* starts are later by the extent of the trace from copy to copy, and correlation ids are others, in names
  and in their own column; everything else of a row is kept to the letter;
* one copy is the trace itself, but that text has all starts in ms, of as many digits as it needs;
* memory is that of the trace and of a copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

HEADERS = (b'"Start","Duration"', b"   Start  Duration")
UNITS = {b"s": Decimal(1), b"ms": Decimal("1e-3"), b"us": Decimal("1e-6"), b"ns": Decimal("1e-9")}
# Behind a kernel's name, and in a column of its own: the last one, which older logs lack.
_ID = re.compile(rb'(?<= \[)\d+(?=\]"?(?:,\d+)?\s*$)|(?<=",)\d+(?=\s*$)')
_CELL = re.compile(rb"([0-9.]+)([a-z]+)$")


@dataclass(frozen=True)
class Trace:
    """A trace in lines: what comes before the rows, the rows, and what comes behind them."""

    head: list[bytes]
    rows: list[bytes]
    tail: list[bytes]
    is_text: bool

    @classmethod
    def of(cls, path: Path) -> Trace:
        """Take a trace apart."""
        lines = path.read_bytes().splitlines(keepends=True)
        header = next(n for n, line in enumerate(lines) if line.startswith(HEADERS))
        is_text = lines[header].startswith(HEADERS[1])
        first = end = header + (1 if is_text else 2)
        # The last row may be cut.
        while end < len(lines) and lines[end].lstrip()[:1].isdigit() and lines[end].endswith(b"\n"):
            end += 1
        return cls(lines[:first], lines[first:end], lines[end:], is_text)

    def times(self, row: bytes) -> tuple[Decimal, Decimal, bytes]:
        """Return start and duration of a row in the unit of starts, and what is behind the start."""
        if self.is_text:
            cells = row.split(None, 1)[0], row.split(None, 2)[1]
            start, duration = (
                Decimal(found[1].decode()) * UNITS[found[2]] / UNITS[b"ms"] if found else Decimal(0)
                for found in map(_CELL.match, cells)
            )
            return start, duration, row[row.index(cells[0]) + len(cells[0]) :]
        start_unit, duration_unit = (UNITS[unit] for unit in self.head[-1].split(b",")[:2])
        first, second, _ = row.split(b",", 2)
        scale = duration_unit / start_unit
        return Decimal(first.decode()), Decimal(second.decode()) * scale, row[len(first) :]

    def steps(self) -> tuple[Decimal, int]:
        """Return by how much starts, in their unit, and ids grow from copy to copy."""
        times = [self.times(row)[:2] for row in self.rows]
        extent = max(start + duration for start, duration in times) - min(start for start, _ in times)
        ids = [int(number) for row in self.rows for number in _ID.findall(row)]
        return extent.quantize(times[0][0], ROUND_CEILING), max(ids, default=0) + 1

    def copy(self, number: int, extent: Decimal, ids: int) -> bytes:
        """Return one copy of the rows; copy 0 is the original."""
        rows = []
        for row in self.rows:
            start, _, rest = self.times(row)
            rest = _ID.sub(lambda found: b"%d" % (int(found[0]) + number * ids), rest)
            unit = "ms" if self.is_text else ""
            rows.append(f"{start + number * extent}{unit}".encode() + rest)
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
