"""Totals of traces whose rows cannot be placed in time: their starts are cut to whole seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from nsysconv import schema
from nsysconv.importers.nsys_stats.cells import Cells
from nsysconv.importers.nsys_stats.figures import TotalsRow
from nsysconv.importers.nsys_stats.gathered import memory_operation
from nsysconv.importers.nsys_stats.trace import API_CALL, KERNEL, UNKNOWN, kinds_of
from nsysconv.importers.printed.quantities import ValueRange
from nsysconv.importers.printed.trace import Array, TraceTally, used_codes

_WHAT = {API_CALL: "api_call", KERNEL: "kernel"}


@dataclass
class _Sum:
    """What rows of one name add up to: numbers between `low` and `high`, and how many had one."""

    count: int = 0
    total: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    least: ValueRange | None = None
    greatest: ValueRange | None = None

    def add(self, values: Array, step: float) -> None:
        """Adds numbers in ns or bytes that are spelled in such steps; a step of 1 is exact."""
        half = Fraction(step) / 2 if step > 1 else Fraction(0)
        # Python's integers: sums of many may be larger than those of numpy.
        total = sum(np.rint(values).astype(np.int64).tolist())
        low, high = self.total
        self.count += len(values)
        self.total = (low + total - half * len(values), high + total + half * len(values))
        least, greatest = (
            ValueRange(value - half, value + half)
            for value in (Fraction(int(np.rint(v))) for v in (values.min(), values.max()))
        )
        if self.least is None or least.low < self.least.low:
            self.least = least
        if self.greatest is None or greatest.high > self.greatest.high:
            self.greatest = greatest

    def figures(self, name: str) -> TotalsRow:
        """The same as a row of a table."""
        told = {"total": ValueRange(*self.total)}
        if self.least is not None and self.greatest is not None:
            told |= {"min": self.least, "max": self.greatest}
        return TotalsRow(0, name, "", "", self.count, told)


@dataclass
class TraceTotals:
    """How often and how long, by name. `rows` counts those that lost their place in time."""

    tally: TraceTally
    rows: int = 0
    _times: dict[str, dict[str, _Sum]] = field(default_factory=dict)
    _sizes: dict[str, _Sum] = field(default_factory=dict)

    def add(self, cells: Cells, steps: Mapping[str, float], *, only_calls: bool) -> None:
        """Adds rows of a trace; `only_calls`: it holds API calls and nothing else."""
        for what in ("api_call",) if only_calls else ("kernel", "memory"):
            self._times.setdefault(what, {})
        names = cells.texts["name"]
        kind = kinds_of(cells, only_calls=only_calls)
        dur = cells.quantities["dur"]
        unknown, negative, far = kind == UNKNOWN, dur < 0, dur > schema.TIME_LIMIT_NS
        self.tally.counts["unknown operation"] += int(np.count_nonzero(unknown))
        self.tally.counts["negative duration"] += int(np.count_nonzero(negative & ~unknown))
        self.tally.counts["impossible time"] += int(np.count_nonzero(far & ~unknown))
        kept = np.flatnonzero(~(unknown | negative | far))
        self.rows += len(kept)
        for place, rows in _by_name(names.place, kept, len(names.known)):
            name = names.known[place]
            what = _WHAT.get(int(kind[rows[0]]), "memory")
            times = self._times.setdefault(what, {}).setdefault(name, _Sum())
            times.add(dur[rows], steps.get("dur", 1.0))
            if what == "memory" and "bytes" in cells.quantities:
                size = cells.quantities["bytes"][rows]
                size = size[~np.isnan(size)]
                if len(size):
                    self._sizes.setdefault(name, _Sum()).add(size, steps.get("bytes", 1.0))

    def figures(self) -> dict[str, list[tuple[TotalsRow, TotalsRow | None]]]:
        """Rows by kind: times, and sizes where all rows of a name tell one."""
        return {
            what: [(times.figures(name), self._size(name, times.count)) for name, times in found.items()]
            for what, found in self._times.items()
        }  # fmt: skip

    def _size(self, name: str, count: int) -> TotalsRow | None:
        size = self._sizes.get(name) if memory_operation(name) else None
        return size.figures(name) if size is not None and size.count == count else None


def _by_name(place: Array, rows: Array, count: int) -> list[tuple[int, Array]]:
    """The rows of each name, by its place."""
    of_rows = place[rows]
    order = np.argsort(of_rows, kind="stable")
    names = used_codes(of_rows, count)
    edges = np.searchsorted(of_rows[order], names)
    return list(zip(names, np.split(rows[order], edges[1:]), strict=True)) if names else []
