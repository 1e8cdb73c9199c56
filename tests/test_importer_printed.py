"""What the importers of printed tables share, by hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from nsysconv import api, schema
from nsysconv.errors import InputError
from nsysconv.importers.printed import lines as printed_lines
from nsysconv.importers.printed.lines import LogLines, RowSpan, add_spans, read_span
from nsysconv.importers.printed.text import RejectedLines
from nsysconv.importers.printed.trace import TraceTally, encode_texts, map_texts, rounded
from nsysconv.report import MISSING

NAN = np.nan


def refused(*lines: int) -> RejectedLines:
    found = RejectedLines()
    for line in lines:
        found.add(line)
    return found


def test_refused_lines_may_come_in_any_order() -> None:
    found = refused(7, 3, 9)
    assert (found.count, found.first, found.last) == (3, 3, 9)


@pytest.mark.parametrize(
    ("lines", "unfinished", "expected"),
    [
        ((), 9, []),
        ((3, 9), None, [("line-unreadable", 2, "line 3")]),
        ((3, 9), 12, [("line-unreadable", 2, "line 3")]),
        ((3, 9), 9, [("trace-truncated", 1, "line 9"), ("line-unreadable", 1, "line 3")]),
        ((9,), 9, [("trace-truncated", 1, "line 9")]),
    ],
)
def test_a_rejected_line_at_the_end_of_the_file_was_cut(
    lines: tuple[int, ...], unfinished: int | None, expected: list[tuple[str, int, str]]
) -> None:
    notes = refused(*lines).notes(unfinished)
    assert [(note.slug, note.count, note.where) for note in notes] == expected


def test_times_that_cannot_be() -> None:
    """A row each: good; no start; too far; negative; neither start nor duration; no event."""
    far = float(schema.TIME_LIMIT_NS) * 2
    start = np.array([10.4, NAN, far, 30.0, 0.0, NAN])
    dur = np.array([5.6, 1.0, 1.0, -1.0, 0.0, 1.0])
    tally = TraceTally()
    columns, kept = tally.times(start, dur, event=np.array([True] * 5 + [False]))
    assert kept.tolist() == [True, False, False, False, True, True]
    assert columns["start_ns"][kept][:2].tolist() == [10, MISSING]
    assert columns["dur_ns"][kept][:2].tolist() == [6, MISSING]
    assert tally.counts == {"no time": 1, "impossible time": 1, "negative duration": 1}
    assert tally.time_rows == 2


def test_bytes_between_bounds() -> None:
    """Only 12 lies in [11.6, 12.4]; of [11.5, 14.5] 12, 13 and 14: the middle, in steps of 3; none."""
    tally = TraceTally()
    size = np.array([12.0, 13.0, NAN])
    found = tally.bytes(size, np.array([11.6, 11.5, NAN]), np.array([12.4, 14.5, NAN]))
    assert found.tolist() == [12, 13, MISSING]
    assert (tally.rounded, tally.bytes_step) == (1, 3.0)


def test_texts_are_mapped_once_each_and_unused_ones_never() -> None:
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    texts = encode_texts(["aa", None, "b", "aa", "unused"])
    assert map_texts(texts, np.array([0, 1, 2, 3]), length).tolist() == [2, MISSING, 1, 2]
    assert asked == ["aa", "b"]
    assert map_texts(None, np.array([0, 1]), length).tolist() == [MISSING, MISSING]


def test_whole_numbers() -> None:
    assert rounded(np.array([1.4, NAN, 2.6])).tolist() == [1, MISSING, 3]


def test_pieces_say_where_they_begin(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"head\n1,a\n2,b\nother\n3,c")
    lines, spans, other = LogLines(path), list[RowSpan](), re.compile(rb"\n[^0-9]")
    others = [(lines.line, line) for line in lines if not add_spans(spans, lines.rows(other))]
    assert others == [(1, b"head\n"), (4, b"other\n")]
    assert spans == [RowSpan(5, 13, 2), RowSpan(19, 22, 5)]
    assert [read_span(path, span) for span in spans] == [b"1,a\n2,b\n", b"3,c"]
    assert read_span(path, spans[0], 3) == b"1,a"
    assert lines.unfinished == 5


@pytest.mark.parametrize("length", [1, 99, 100, 101, 350])
def test_a_long_line_is_one_whatever_is_read_of_it(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of 50 bytes, and of the line in which one ends 50 more."""
    monkeypatch.setattr(printed_lines, "CHUNK_BYTES", 50)
    monkeypatch.setattr(printed_lines, "LONGEST_LINE", 50)
    path = tmp_path / "log"
    path.write_bytes(b"x" * length + b"\nnext\n")
    lines = LogLines(path)
    found = [(lines.line, line) for line in lines]
    assert [number for number, _ in found] == [1, 2]
    assert found[0][1] == (b"x" * length + b"\n")[:100]
    assert found[1][1] == b"next\n"
    assert lines.unfinished is None


# Header, units where there are any, and a row, of one table of each importer.
TABLES = {
    "nsys_stats": (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n",
        "100.0,200,1,200.0,200.0,200,200,0.0,saxpy\n",
    ),
    "nvprof_log": (
        '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,ms,ms,ms,\n',
        '"GPU activities",100.0,0.2,1,0.2,0.2,0.2,"saxpy(int)"\n',
    ),
    "nvidia_smi": (
        "timestamp, index, utilization.gpu [%]\n",
        "2024/05/17 10:00:00.100, 0, 7 %\n",
    ),
}
PROSE = "How to profile\n\nThe tool prints\n\n"


def imported(text: str, folder: Path) -> str:
    """The source of what a text holds."""
    (folder / "text").write_text(text)
    with api.open(folder / "text") as profile:
        return profile.profile.ref.source


@pytest.mark.parametrize("name", TABLES)
def test_a_header_alone_is_no_profile(name: str, tmp_path: Path) -> None:
    header, _ = TABLES[name]
    for text in (PROSE + header, f"{PROSE}```\n{header}```\n"):
        with pytest.raises(InputError, match=r"no row that can be read|no sample"):
            imported(text, tmp_path)


@pytest.mark.parametrize("name", TABLES)
def test_one_row_in_a_document_is_an_example(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="quotes the header of a table"):
        imported(f"{PROSE}```\n{''.join(TABLES[name])}```\n", tmp_path)


@pytest.mark.parametrize("name", TABLES)
def test_one_row_in_a_log_is_a_profile(name: str, tmp_path: Path) -> None:
    assert imported(PROSE + "".join(TABLES[name]), tmp_path) == name


@pytest.mark.parametrize("name", TABLES)
def test_several_rows_in_a_document_are_a_profile(name: str, tmp_path: Path) -> None:
    header, row = TABLES[name]
    text = f"{PROSE}```\n{header}{row}{row.replace('saxpy', 'reduce')}```\n"
    assert imported(text, tmp_path) == name


def test_the_readme_is_no_profile() -> None:
    with pytest.raises(InputError), api.open(ROOT / "README.md"):
        pass
