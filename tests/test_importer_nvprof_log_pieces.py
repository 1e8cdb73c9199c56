"""Where the rows of a trace stand in a log, and numbers at the ends of names: each against a version that
goes line by line, or name by name.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nsysconv.importers.nvprof_log import survey
from nsysconv.importers.nvprof_log.totals import split_number
from nsysconv.importers.nvprof_log.trace import split_numbers
from nsysconv.importers.printed import lines as printed_lines
from nsysconv.report import MISSING

CSV = b'"Start","Duration","Grid X","Name"\nms,us,,\n'
TEXT = b"   Start  Duration  Name\n"
CSV_LINES = (b"1.5,2.0,4,k\n", b"7,,,\n", b"x,y,z,\n", b"some words\n", b"\n", b" 1,2,3\n",
             b"9" * 60 + b"\n")  # fmt: skip
TEXT_LINES = (b"1.5ms  2.0us  f\n", b"  2.5ms  2.0us  f\n", b"some words\n", b"\n", b"x  y  z\n")


def _is_row(line: bytes, *, in_csv: bool) -> bool:
    """What a trace holds: lines that begin like a row, and in CSV those with more than two cells."""
    if in_csv:
        return line[:1].isdigit() or line.count(b",") >= 2
    return line[:1].isdigit() or line[:1] == b" "


@pytest.mark.parametrize("in_csv", [True, False], ids=["CSV", "text"])
@given(
    choices=st.lists(st.integers(0, 6), max_size=40),
    chunk=st.integers(1, 80),
    piece=st.integers(1, 150),
    ended=st.booleans(),
)
def test_rows_of_a_trace_are_found_whatever_is_read_at_once(
    choices: list[int], chunk: int, piece: int, ended: bool, in_csv: bool
) -> None:
    header, kinds = (CSV, CSV_LINES) if in_csv else (TEXT, TEXT_LINES)
    lines = [kinds[choice % len(kinds)] for choice in choices]
    content = header + b"".join(lines)
    content = content if ended or not lines else content[:-1]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(printed_lines, "CHUNK_BYTES", chunk)
        patch.setattr(printed_lines, "PIECE_BYTES", piece)
        path = Path(folder) / "log"
        path.write_bytes(content)
        ((table,),) = (run.tables for run in survey.LogSurvey(path).runs)
    found = [
        (span.line + number, line)
        for span in table.spans
        for number, line in enumerate(content[span.start : span.end].splitlines(keepends=True))
    ]
    first = header.count(b"\n") + 1
    assert found == [
        (number, line)
        for number, line in enumerate(content[len(header) :].splitlines(keepends=True), first)
        if _is_row(line, in_csv=in_csv)
    ]


def test_pieces_of_a_trace_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 12 bytes, five of which are read at once: two times five are no more than 125 bytes."""
    monkeypatch.setattr(printed_lines, "CHUNK_BYTES", 50)
    monkeypatch.setattr(printed_lines, "PIECE_BYTES", 125)
    log = tmp_path / "log"
    log.write_bytes(CSV + b"1.5,2.0,4,k\n" * 50)
    ((table,),) = (run.tables for run in survey.LogSurvey(log).runs)
    lengths = [span.end - span.start for span in table.spans]
    assert sum(lengths) == 600
    assert max(lengths) in range(100, 126)


PARTS = st.sampled_from(["k", "f(x)", " ", "[", "]", "7", "12345678901", "é", " [3]", " [1234567890]"])


@given(st.lists(st.lists(PARTS, min_size=1, max_size=6).map("".join), min_size=1), st.integers(0, 2))
@example(["1]", "5", "k [7]", "]", " [2]", "[2]", "k []", "k [12345678901]", "kk[7]"], 0)
@example(["]"], 0)
@example(["k ", "[77]"], 0)
@example(["1111]"], 0)
@example(["[1", "1111]", " [", "2]"], 0)
def test_numbers_are_taken_off_names(names: list[str], skipped: int) -> None:
    column = pa.array(names, pa.string())[skipped:]
    texts, numbered = split_numbers(column)
    wanted = [split_number(name) for name in names[skipped:]]
    assert [texts.values[code] for code in texts.codes] == [name for name, _ in wanted]
    assert numbered.tolist() == [MISSING if number is None else number for _, number in wanted]
    assert len(set(texts.values)) == len(texts.values)


def test_names_that_differ_in_their_number_alone_are_one() -> None:
    texts, numbered = split_numbers(pa.array(["k [1]", "k [22]", "k", "m [1]"]))
    assert list(texts.values) == ["k", "m"]
    assert texts.codes.tolist() == [0, 0, 0, 1]
    assert numbered.tolist() == [1, 22, MISSING, 1]
