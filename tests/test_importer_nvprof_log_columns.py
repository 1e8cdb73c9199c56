"""Traces of text in columns: rows that are parsed at once against the same rows, one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nsysconv.importers.nvprof_log.columns import PrintedRows
from nsysconv.importers.nvprof_log.survey import LogSurvey
from nsysconv.importers.nvprof_log.trace import TraceReader
from nsysconv.importers.printed.trace import TraceCells
from nsysconv.importers.probe import Probe
from nsysconv.report import MISSING

COLUMNS = {"Start": "Start", "Duration": "Duration", "Grid Size": "Grid Size",
           "Regs*": "Registers Per Thread", "SSMem*": "Static SMem", "Size": "Size",
           "Throughput": "Throughput", "SrcMemType": "SrcMemType", "Device": "Device",
           "Stream": "Stream", "Name": "Name"}  # fmt: skip
HEADER = f"   {'  '.join(COLUMNS)}\n"
USUAL = ["13.000us", "2.0000us", "(64 1 1)", "24", "0B", "-", "-", "-", "Tesla T4 (0)", "7", "k [105]"]
TIMES = st.one_of(
    st.sampled_from(["-", "7", "3e-05s", "1,5us", "-1.0us", "2min", "4294967296us", "1.000000001s",
                     "999999999.999999999s", "1234567890us", ".5us", "2 us", "1.0µs"]),
    st.builds("{}.{:04}{}".format, st.integers(0, 999), st.integers(0, 9999),
              st.sampled_from(["ns", "us", "ms", "s"])),
)  # fmt: skip
SIZES = st.sampled_from(["-", "0B", "3.9062KB", "1.8626GB/s", "99999999.5TB", "7XB", "5.0%", "", "1e3KB"])
TRIPLES = st.sampled_from(["-", "(64 1 1)", "(1 1)", "(1 2 99999999999999999999)", "64"])
WORDS = st.sampled_from(["-", "7", "Tesla T4 (0)", "Pageable", "é", 'a "b"', "c,d"])
NAMES = st.sampled_from(["saxpy [105]", "f<int>(T1, T2)", "[CUDA memcpy HtoD]", "[CUDA memset]", "-",
                         "é [3]", 'q"uo"te', '"', "a\tb", "two  words [4]",
                         "[Unified Memory GPU page faults]", "k\x1c",
                         "Tesla T4 (1)  [Unified Memory Memcpy DtoD]"])  # fmt: skip
ROWS = st.tuples(TIMES, TIMES, TRIPLES, st.sampled_from(["24", "-", "x"]), SIZES, SIZES, SIZES,
                 WORDS, WORDS, WORDS, NAMES)  # fmt: skip
LINES = st.one_of(
    st.just(USUAL).map("  ".join),
    st.builds(str.join, st.sampled_from(["  ", "    ", "  ", " ", "\t\t"]), ROWS),
    st.sampled_from(["", "   ", "7", "1  2  3", " 5.0us  some words of the program"]),
)
ENDS = st.sampled_from(["\n", "\n", "  \n", "\r\n", "\r"])


def _rows(cells: TraceCells) -> Counter[tuple[Any, ...]]:
    """The rows of cells in any order, what a column lacks left out."""
    rows: list[list[Any]] = [[] for _ in range(cells.count)]
    numbers = range(cells.count)
    for role, values in sorted(cells.quantities.items()):
        steps = cells.step(role, slice(None))
        for number in numbers:
            if values[number] == values[number]:
                rows[number].append((role, float(values[number]), float(steps[number])))
    for role, values in sorted(cells.integers.items()):
        for number in numbers:
            if values[number] != MISSING:
                rows[number].append((role, int(values[number])))
    for role, texts in sorted(cells.texts.items()):
        for number in numbers:
            if texts.codes[number] >= 0:
                rows[number].append((role, texts.values[texts.codes[number]]))
    return Counter(map(tuple, rows))


def _read(path: Path) -> tuple[Counter[tuple[Any, ...]], int, int, int]:
    """Rows of all traces with the coarsest steps, and what was rejected: how many lines, first, last."""
    rows: Counter[tuple[Any, ...]] = Counter()
    steps: Counter[tuple[Any, ...]] = Counter()
    with Probe(path, threads=1) as probe:
        ((table,),) = (run.tables for run in LogSurvey(path).runs)
        reader = TraceReader(probe, path, table)
        for cells, _ in reader.cells():
            rows.update(_rows(cells))
            steps |= Counter({(role, "step"): float(max(step)) for role, step in cells.steps.items()})
    return rows | steps, reader.rejected.count, reader.rejected.first, reader.rejected.last


def _one_by_one(self: PrintedRows, data: bytes) -> None:
    """Stand for a table that cannot be made CSV."""


def _changed(**cells: str) -> tuple[str, str]:
    """A usual row with other cells."""
    return "  ".join(cells.get(name, cell) for name, cell in zip(COLUMNS, USUAL, strict=True)), "\n"


ROW = _changed()


@given(st.lists(st.tuples(LINES, ENDS), max_size=12))
@example([ROW, ROW, ("7", "\n"), ("3us", "\n"), ROW])
@example([ROW, _changed(Name='q"uo"te'), ROW])
@example([ROW, _changed(Name="Tesla T4 (1)  [Unified Memory Memcpy DtoD]")])
@example([ROW, _changed(Duration="167760436.273878287us")])
@example([ROW, _changed(Size="99999999.5TB")])
@example([ROW, _changed(Size="7")])
@example([ROW, _changed(Duration="-"), _changed(Start="-")])
@example([ROW, (_changed()[0], "\r"), ROW])
@example([ROW, ("1" + "\t" * 22 + "k", "\n")])
def test_rows_parsed_at_once_are_those_of_one_by_one(lines: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "log"
        path.write_text(HEADER + "".join(line + end for line, end in lines), "utf-8", newline="")
        found = _read(path)
        patch.setattr(PrintedRows, "csv", _one_by_one)
        assert found == _read(path)


def test_usual_rows_and_odd_ones_among_them_are_parsed_at_once() -> None:
    """Without this, the test above could compare one by one with one by one."""
    usual = "  ".join(USUAL)
    odd = usual.replace("13.000us", "1.3e1us")
    cells = "13|000|us|2|0000|us|64|1|1|24|0||B|||||||-|Tesla T4 (0)|7|k [105]".replace("|", "\t")
    text = PrintedRows(tuple(COLUMNS.values()))
    found = text.csv(f"{usual}\n{odd}\n {usual}  \r\n".encode())
    assert found == f"{cells}\n{odd}\n{cells}\n".encode()
