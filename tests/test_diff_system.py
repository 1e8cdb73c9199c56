"""What only one side says of threads is no change between the sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_store import Call, Kernel, OsrtCall, Range, Row, Switch, write

from nsysconv import api
from nsysconv.facts import Fact

MS = 1_000_000
# The host is late by 9 ms, of which it is in a range for 2, in getc for 5 and on a CPU for 1.
LATE: list[Row] = [
    Call(0, MS // 2, 1), Kernel(MS, 2 * MS, 1), Range(2 * MS, 4 * MS, "load"),
    OsrtCall(4 * MS, 9 * MS, "getc"), Switch(9 * MS, 1), Switch(10 * MS, 0),
    Call(11 * MS, 11 * MS + 5, 2), Kernel(12 * MS, 13 * MS, 2),
]  # fmt: skip
# As late, without getc, and a ms longer in the range.
OTHER = [
    row._replace(end=5 * MS) if isinstance(row, Range) else row
    for row in LATE if not isinstance(row, OsrtCall)
]  # fmt: skip


def host(folder: Path, base: set[Fact], other: set[Fact], rows: list[Row]) -> list[tuple[Any, ...]]:
    """The rows of idle time by activity, without facts on either side."""
    for name, each, without in (("base", LATE, base), ("other", rows, other)):
        write(folder / f"{name}.db", *each, without=without)
    found = api.compare(folder / "base.db", folder / "other.db", ["idle_host"])
    (report,) = (each for each in found.reports if each.name.endswith("idle_host"))
    names = ("activity", "name", "base_host_sum_ns", "other_host_sum_ns")
    return sorted(tuple(row[name] for name in names) for row in report.rows())


@pytest.mark.parametrize("lacking", [{Fact.OSRT_CALLS}, {Fact.OSRT_CALLS, Fact.SCHEDULING}])
def test_what_one_side_lacks_is_outside_on_both(tmp_path: Path, lacking: set[Fact]) -> None:
    rows = host(tmp_path, set(), lacking, OTHER)
    assert rows == [
        ("outside", "[nothing recorded]", 7 * MS, 6 * MS), ("range", "load", 2 * MS, 3 * MS),
    ]  # fmt: skip


def test_what_both_have_is_compared(tmp_path: Path) -> None:
    rows = host(tmp_path, set(), set(), OTHER)
    assert ("os_call", "getc", 5 * MS, 0) in rows
    assert ("outside", "[nothing recorded]", MS, 5 * MS) in rows  # but for [running], 1 on both sides
