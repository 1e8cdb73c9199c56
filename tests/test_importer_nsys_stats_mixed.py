"""Messages that stand between the rows of a table of nsys: the rows below them are read."""

from __future__ import annotations

from collections.abc import Callable

import nsys_stats_tables as reports
import pytest
from conftest import by_turns, event_rows, few
from importing import only_note as note
from importing import read, slugs, totals_of
from nsys_stats_tables import AGES, Rows
from scenarios import WORKLOADS
from write_nsys_stats import column, csv_, table

from nsysconv.notes import Severity

KERNELS = reports.kernels(AGES["2025"], WORKLOADS["basic"])
CALLS = reports.api(AGES["2025"], WORKLOADS["basic"])
TRACE = reports.gpu_trace(AGES["2025"], WORKLOADS["basic"])
SKIPPED = "SKIPPED: /home/SECRET/report1.sqlite does not contain {}.\n"
NVTX, NO_COPIES = SKIPPED.format("NV Tools Extension (NVTX) data"), SKIPPED.format("GPU memory data")
every_layout = pytest.mark.parametrize("layout", [column, table, csv_])


def mixed(layout: Callable[[Rows], str], message: str, rows: Rows = KERNELS, *, behind: int = 2) -> str:
    """A table with a message behind its first rows."""
    lines = layout(rows).splitlines(keepends=True)
    header = next(i for i, line in enumerate(lines) if "Name" in line)
    at = header + (1 if layout is csv_ else 2) + behind
    return "".join((*lines[:at], message, *lines[at:]))


@every_layout
@pytest.mark.parametrize(("message", "count"), few([
    (NVTX + NO_COPIES * 2, 3), (NVTX, 1), ("Traceback (most recent call last):\n  in main\n", 2),
    ("WARNING: the report is old.\n", 1),
], 2))  # fmt: skip
def test_a_message_between_rows_does_not_end_the_table(
    layout: Callable[[Rows], str], message: str, count: int
) -> None:
    with read(mixed(layout, message)) as found, read(layout(KERNELS)) as whole:
        assert totals_of(found) == totals_of(whole)
        foreign = note(found, "foreign-lines")
        place = 2 + (3 if layout is column else 2 if layout is csv_ else 4)
        assert (foreign.severity, foreign.count, foreign.where) == (
            Severity.INFO, count, f"line {place}")  # fmt: skip
        assert "totals-incomplete" not in slugs(found)


def test_a_message_with_an_empty_line_does_not_end_the_table() -> None:
    text = mixed(column, "WARNING: CPU sampling not supported, disabling.\nTry 'nsys status'.\n\n")
    with read(text) as found, read(column(KERNELS)) as whole:
        assert totals_of(found) == totals_of(whole)
        assert note(found, "foreign-lines").count == 2


def test_numbers_behind_an_empty_line_are_no_rows() -> None:
    with read(column(KERNELS) + "\n 12.5  3  items  4  left\n 7\n") as found:
        assert len(totals_of(found)) == len(KERNELS.cells)
        assert slugs(found) == {"processes-merged"}


def test_lines_after_the_last_row_are_no_part_of_the_table() -> None:
    with read(column(KERNELS) + NVTX + "done\n") as found:
        assert slugs(found) == {"processes-merged"}


def test_a_message_between_rows_counts() -> None:
    """Kernels are told of, so that of copies there were none."""
    with read(mixed(column, NO_COPIES)) as found:
        assert {fact.value for fact in found.facts} == {"kernel_totals", "memory_totals"}


@pytest.mark.parametrize("layout", [column, csv_])
def test_a_table_goes_on_until_another_begins(layout: Callable[[Rows], str]) -> None:
    text = mixed(layout, NVTX) + mixed(layout, NVTX, CALLS)
    with read(text) as found, read(layout(KERNELS) + "\n" + layout(CALLS)) as whole:
        assert totals_of(found) == totals_of(whole)
        assert note(found, "foreign-lines").count == 2


@pytest.mark.parametrize(("cut", "behind"), by_turns([4, 30, 75, 87, 95, -1], ["", NO_COPIES], 2))
def test_a_row_that_a_message_tears_apart_is_put_together(cut: int, behind: str) -> None:
    """stderr is written at once, and stdout when its buffer is full, in the middle of a line."""
    lines = column(KERNELS).splitlines(keepends=True)
    torn = lines[3][:cut] + NVTX + behind + lines[3][cut:]
    with read("".join((*lines[:3], torn, *lines[4:]))) as found, read("".join(lines)) as whole:
        assert totals_of(found) == totals_of(whole)
        assert not any("SECRET" in row["name"] for row in totals_of(found))
        assert "line-unreadable" not in slugs(found)


def test_half_a_row_is_left_out() -> None:
    """Its other half is missing; the rows below are whole."""
    lines = column(KERNELS).splitlines(keepends=True)
    with read("".join((*lines[:3], lines[3][:30] + NVTX, *lines[4:]))) as found:
        assert len(totals_of(found)) == len(KERNELS.cells) - 1
        assert note(found, "line-unreadable").count == 1


@every_layout
def test_a_message_between_rows_of_a_trace(layout: Callable[[Rows], str]) -> None:
    with read(mixed(layout, NVTX, TRACE)) as found, read(layout(TRACE)) as whole:
        for kind in ("kernel", "memcpy", "memset"):
            assert event_rows(found, kind) == event_rows(whole, kind) != []
        assert note(found, "foreign-lines").count == 1
