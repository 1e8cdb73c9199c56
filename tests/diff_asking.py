"""Runs of chosen lengths as files of any source, and what a diff of two such sides says."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import cache
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import scratch, with_slow
from diff_workloads import SOURCES, Launch, run_of
from machine import SAXPY
from slow_intervals import Interval
from workload import Workload

from nsysconv import api

Row = dict[str, Any]
Pair = tuple[str, str]
STATUS = {"within": 0, "exceeded": 1, "inconclusive": 4}

WITH_UUID = ("nsys", "nvprof database")
"""Files of these say which GPU it was by its UUID, so that two runs are known to be of the same one."""
WITH_STEPS = ("nsys", "kineto", "nvprof database")
"""A log of nvprof knows no ranges, and so no steps."""
SUM, AVG = "overview.kernel_sum_ns", "kernels[/saxpy/].avg_ns"

_turns = count(2, 5)


def _pairs(sources: Sequence[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Tries each test with a pair of sources, another one than the test before it."""

    def decorated(test: Callable[..., Any]) -> Callable[..., Any]:
        every = [*product(sources, sources)]
        chosen = next(_turns) % len(every)
        cases = with_slow(((pair,), place == chosen) for place, pair in enumerate(every))
        return pytest.mark.parametrize(("pair",), cases, ids="-".join)(test)

    return decorated


pairs, pairs_with_steps = _pairs([*SOURCES]), _pairs(WITH_STEPS)


class Said(NamedTuple):
    """What a diff says: its rows by report, what it says of each limit, and all of it."""

    rows: dict[str, list[Row]]
    limits: dict[str, Row]
    result: Any

    @property
    def states(self) -> dict[str, str]:
        return {limit: row["state"] for limit, row in self.limits.items()}

    def row(self, report: str, name: str = "") -> Row:
        """The only row of a report, or the only one of that name."""
        (row,) = [row for row in self.rows[report] if name in row.get("name", "")]
        return row


def ask(pair: Pair, reports: Sequence[str] = (), limits: Iterable[str] = (), **options: Any) -> Said:
    """Compares two sides. On the way: the exit status is that of the worst state of all limits."""
    result = api.compare(*pair, list(reports) or ["overview"], fail_on=list(limits), **options)
    found = {report.name.removeprefix("diff_"): report.rows() for report in result.reports
             if report.table is not None}  # fmt: skip
    by_limit = {row["limit"]: row for row in found.pop("limits", [])}
    states = {row["state"] for row in by_limit.values()}
    worst = next((s for s in ("exceeded", "inconclusive") if s in states), "within")
    passes = worst == "inconclusive" and options.get("inconclusive") == "pass"
    assert result.exit_status == (0 if passes else STATUS[worst])
    return Said(found, by_limit, result)


def states(pair: Pair, limits: Iterable[str], **options: Any) -> dict[str, str]:
    """What is said of each limit."""
    return ask(pair, (), limits, **options).states


def interval(row: Row, measure: str | None = None) -> Interval:
    """The interval of the ratio of the main measure, or of another one."""
    # Ratios have no unit, and their columns none in the name.
    tail = f"_{measure.removesuffix('_ns')}" if measure else ""
    return row[f"ratio_low{tail}"], row[f"ratio_high{tail}"]


def near(expected: Interval) -> Any:
    """Equal but for rounding of lengths to ns, and of what was printed of the interval."""
    return pytest.approx(expected, abs=2e-5)


# -- sides


def sides(
    folder: Path, base: Iterable[Workload], other: Iterable[Workload], pair: Pair = ("nsys", "nsys")
) -> Pair:
    """Two folders with a file of each run, of a source each."""
    for name, source, runs in zip(("base", "other"), pair, (base, other), strict=True):
        for number, run in enumerate(runs):
            place = folder / name / f"{number:02}"
            place.mkdir(parents=True)
            _make_unlike(Path(shutil.copy(_written(source, run), place)), number)
    return str(folder / "base"), str(folder / "other")


@cache
def _written(source: str, run: Workload) -> Path:
    return SOURCES[source](run, scratch())


def _make_unlike(file: Path, number: int) -> None:
    # Runs of equal values are no copies of one file, which would be read once.
    if file.read_bytes()[:6] == b"SQLite":
        with closing(sqlite3.connect(file)) as database:
            database.execute(f"PRAGMA user_version = {number}")
    else:
        with file.open("ab") as text:
            text.write(b"\n" * number)


def of_lengths(values: Iterable[float]) -> list[Workload]:
    """A run of one kernel for each value, in units of 20 us."""
    return [run_of([[Launch(SAXPY, round(value * 20_000))]], annotated=False) for value in values]


def of_steps(values: Sequence[float], *, unit: int = 100_000) -> list[Workload]:
    """One run, with a kernel of so many units (of 100 us) in each step."""
    return [run_of([[Launch(SAXPY, round(value * unit))] for value in values])]
