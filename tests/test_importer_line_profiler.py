"""Profiles of line_profiler: those of scripts/fixtures_line_profiler.py, real ones, and damage."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL, claimed_by, profile_in_place, real
from fixtures_line_profiler import FILE, SECRET, pickled, printed
from importing import places as notes
from importing import refusal as error
from importing import written

from nsysconv import api
from nsysconv.facts import Fact
from nsysconv.importers import line_profiler
from nsysconv.importers.contract import No
from nsysconv.importers.probe import Probe

FOLDER = FIXTURES / "line_profiler"
LPROF, OLD, TEXT = (FOLDER / name for name in ("training.lprof", "training-2.lprof", "training.txt"))
REAL_FOLDER = REAL / "cpu_profilers"
# File, line, function, its first line, hits, ns.
TRAINING = [
    ("train.py", 4, "step", 3, 100, 300_000), ("train.py", 5, "step", 3, 100, 400_000),
    ("train.py", 11, "train", 10, 1, 2_000), ("train.py", 12, "train", 10, 101, 98_000),
    ("train.py", 13, "train", 10, 100, 900_000),
]  # fmt: skip

Line = tuple[Any, ...]


def lines(path: Path) -> list[Line]:
    with profile_in_place(path) as profile:
        names = {row["id"]: row["text"] for row in profile.rows("name")}
        return [
            (names[row["file_id"]], row["line"], names[row["function_id"]], row["function_line"],
             row["hits"], row["sum_ns"])
            for row in profile.rows("cpu_line")
        ]  # fmt: skip


@pytest.mark.parametrize("path", [LPROF, OLD, TEXT], ids=lambda path: path.name)
def test_lines_have_hits_and_times(path: Path) -> None:
    assert lines(path) == TRAINING
    assert notes(path) == {}


@pytest.mark.parametrize("path", [LPROF, TEXT], ids=lambda path: path.name)
def test_facts_and_what_is_not_recorded(path: Path) -> None:
    with profile_in_place(path) as profile:
        (row, *_) = profile.rows("cpu_line")
        assert set(profile.facts) == {Fact.CPU_LINES}
    assert row["includes_calls"] == 1
    others = ("python", "native", "system", "gpu", "alloc", "peak")
    absent = [name for name in row if name.startswith(others)]
    assert {row[name] for name in absent} == {None}
    assert len(absent) == 7


def test_a_log_with_two_profiles_is_two_recordings() -> None:
    """The second has a unit of 1 ms, in which 2 µs are 0.0 ms, and a line that is none.

    There, a line's share of the total says more than its time: 42.9 % of 0.7 ms, 0.2 % of 1 ms.
    """
    path = FOLDER / "odd.txt"
    with api.open(f"{path}@odd-1") as first, api.open(f"{path}@odd-2") as second:
        of_first = [(row["line"], row["sum_ns"]) for row in first.profile.rows("cpu_line")]
        of_second = [(row["line"], row["sum_ns"]) for row in second.profile.rows("cpu_line")]
        noted = [(note.slug, note.count, note.where) for note in second.notes]
    assert of_first == [(4, 300_000), (5, 400_000), (11, 2_000), (12, 98_000), (13, 900_000)]
    assert of_second == [(4, 300_300), (5, 399_700), (11, 2_000), (12, 98_000)]
    # Of 1 ms in total, 0.9 ms are missing: the table of `train` begins in line 42.
    assert noted == [("line-unreadable", 1, "line 47"), ("totals-incomplete", 1, "line 42")]


@pytest.mark.parametrize(("text", "ns"), [
    ("5e+06", 5_000_000_000), ("1678128.2", 1_678_128_200), ("12", 12_000), ("1e+30", None),
])  # fmt: skip
def test_spellings_of_times(text: str, ns: int | None, tmp_path: Path) -> None:
    made = printed().replace("       900.0      9.0", f"{text:>12}      9.0")
    found = lines(written(tmp_path, made))
    assert [line[-1] for line in found if line[1] == 13] == ([] if ns is None else [ns])


@pytest.mark.parametrize(("unit", "times"), [("1", ("0.0", "0.1")), ("0.001", ("7.6", "92.4"))])
def test_in_a_coarse_unit_shares_of_the_total_are_times(unit: str, times: Any, tmp_path: Path) -> None:
    """Of 0.1 s, 7.6 % are 7.6 ms. In ms, the time printed is as exact as the share, and is taken."""
    made = (
        f"Timer unit: {unit} s\n\nTotal time: 0.1 s\nFile: a.py\nFunction: f at line 1\n\n"
        "Line #      Hits         Time  Per Hit   % Time  Line Contents\n" + 62 * "=" + "\n"
        "     1                                           def f():\n"
        f"     2         1{times[0]:>13}      0.0      7.6      g()\n"
        f"     3         1{times[1]:>13}      0.0     92.4      h()\n"
    )
    path = written(tmp_path, made)
    assert [line[-1] for line in lines(path)] == [7_600_000, 92_400_000]
    with api.open(path) as profile:
        assert not profile.notes


def test_numbers_that_outgrow_their_columns(tmp_path: Path) -> None:
    """As versions before 4 print them: all that follows moves to the right."""
    made = printed().replace("       100        900.0      9.0", " 1234567890        900.0      9.0")
    assert [line[4] for line in lines(written(tmp_path, made)) if line[1] == 13] == [1_234_567_890]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_text_as_powershell_writes_it(encoding: str, tmp_path: Path) -> None:
    assert lines(written(tmp_path, printed().replace("\n", "\r\n").encode(encoding))) == TRAINING


def test_text_in_colors(tmp_path: Path) -> None:
    colored = printed().replace("Function: ", "\x1b[1mFunction: ").replace("    12 ", "\x1b[34m    12 ")
    assert lines(written(tmp_path, colored)) == TRAINING


def test_a_path_of_windows_loses_its_folders(tmp_path: Path) -> None:
    path = written(tmp_path, printed().replace(FILE, rf"C:\Users\{SECRET}\train.py"))
    assert lines(path) == TRAINING


def test_text_cut_in_a_row(tmp_path: Path) -> None:
    text = printed()
    cut = text[: text.index("900.0      9.0") + 3]
    path = written(tmp_path, cut)
    assert lines(path) == TRAINING[:-1]
    assert set(notes(path)) == {"trace-truncated", "totals-incomplete"}


def test_text_cut_between_rows(tmp_path: Path) -> None:
    """Without its last line, `train` has 100 of 1,000 µs."""
    text = printed()
    path = written(tmp_path, text[: text.index("    13 ")])
    assert lines(path) == TRAINING[:-1]
    assert notes(path) == {"totals-incomplete": (1, "line 17")}


def test_text_without_tables_is_refused_with_what_to_print(tmp_path: Path) -> None:
    text = "Timer unit: 1e-06 s\n\n  1.00 seconds - train.py:10 - train\n"
    with Probe(written(tmp_path, text)) as probe:
        answer = line_profiler.sniff(probe)
    assert isinstance(answer, No)
    assert answer.close
    assert "python -m line_profiler" in answer.hint


@pytest.mark.parametrize("length", [100, 200, -1])
def test_a_cut_pickle_is_refused(length: int, tmp_path: Path) -> None:
    content = LPROF.read_bytes()[:length]
    found = error(written(tmp_path, content))
    assert found.what == f"the line_profiler profile is cut off at byte {len(content)}"
    assert found.hint


@pytest.mark.parametrize("state", [
    {}, [], {"timings": [], "unit": 1e-9}, {"timings": {}, "unit": "s"},
    {"timings": {}, "unit": float("nan")},
])  # fmt: skip
def test_a_pickle_of_another_state_is_refused(state: Any, tmp_path: Path) -> None:
    assert error(written(tmp_path, pickled(state))).hint


@pytest.mark.parametrize("line", [
    (4, 1), (4, -1, 5), (4, 1, 0.5), ("4", 1, 5), None, (0, 1, 5), (4, 1, 1 << 60), (True, 1, [5]),
])  # fmt: skip
def test_lines_that_cannot_be_are_left_out(line: Any, tmp_path: Path) -> None:
    timings = {("a.py", 3, "f"): [line, (5, 2, 7)]}
    path = written(tmp_path, pickled({"timings": timings, "unit": 1e-9}))
    assert lines(path) == [("a.py", 5, "f", 3, 2, 7)]
    assert notes(path) == {"cell-unreadable": (1, "line 1 of function 1")}


def test_functions_that_are_none_are_left_out(tmp_path: Path) -> None:
    timings = {"f": [(1, 1, 1)], ("a.py", 3, 4): [(1, 1, 1)], ("a.py", 3, "f"): [(5, 2, 7)]}
    path = written(tmp_path, pickled({"timings": timings, "unit": 1e-9}))
    assert lines(path) == [("a.py", 5, "f", 3, 2, 7)]
    assert notes(path) == {"cell-unreadable": (2, "line 1 of function 1")}


def test_a_profile_without_lines_is_refused(tmp_path: Path) -> None:
    found = error(written(tmp_path, pickled({"timings": {}, "unit": 1e-9})))
    assert "@profile" in found.hint


class _Caller:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("place", ["timings", "unit", "more"])
@pytest.mark.parametrize("protocol", [2, 5])
def test_nothing_of_a_hostile_pickle_runs(place: str, protocol: int, tmp_path: Path) -> None:
    """It begins as a profile does, and has a call in it."""
    marker = tmp_path / "was run"
    state = {"timings": {("a.py", 3, "f"): [(5, 2, 7)]}, "unit": 1e-9, place: _Caller(str(marker))}
    content = pickled(state, protocol)
    at = content.index(pickle.STACK_GLOBAL, 60) if protocol == 5 else content.index(b"cposix")
    found = error(written(tmp_path, content))
    assert found.what == f"refused: its pickle has posix.mkdir at byte {at}"
    assert "Nothing of it was run" in found.hint
    assert not marker.exists()


@real
def test_the_real_pickle() -> None:
    path = REAL_FOLDER / "own__line_profiler_5.1.0.lprof"
    assert claimed_by(path) == ["line_profiler"]
    found = lines(path)
    assert len(found) == 13
    assert {line: hits for _, line, _, _, hits, _ in found if line in (14, 15, 22, 23)} == {
        14: 900_003, 15: 900_000, 22: 60_003, 23: 60_000}  # fmt: skip
    assert {line: ns for _, line, _, _, _, ns in found if line in (14, 33)} == {
        14: 601_286_428, 33: 2_532_343_057}  # fmt: skip


@real
@pytest.mark.parametrize(("name", "totals"), [
    ("own__line_profiler_5.1.0.lprof", (1_679_418_166, 557_822_348, 3_830_606_967)),
    ("own__line_profiler_5.1.0.txt", (1_679_418_100, 557_822_400, 3_830_607_100)),
])  # fmt: skip
def test_the_real_totals(name: str, totals: tuple[int, ...]) -> None:
    """Printed as 1.67942, 0.557822 and 3.83061 s. The text has times in tenths of a microsecond.

        squares   601,286,428 + 1,078,128,240 + 1,646 + 1,852
        build     7,816 + 26,579,869 + 531,222,385 + 12,278
        main      2,532,343,057 + 664,966,978 + 38,877 + 633,251,189 + 6,866

    Of the text 601,286.4 + 1,078,128.2 + 1.6 + 1.9 and so on.
    """
    found = lines(REAL_FOLDER / name)
    sums = [sum(line[-1] for line in found if line[2] == f) for f in ("squares", "build", "main")]
    assert sums == list(totals)
    assert notes(REAL_FOLDER / name) == {}
