"""Profiles of Scalene: those of scripts/fixtures_scalene.py, real ones, and damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL, by_turns, claimed_by, profile_in_place, real
from fixtures_scalene import line, profile
from importing import places as notes
from importing import refusal, written

from nsysconv.facts import Fact

TRAINING, OLD = (FIXTURES / "scalene" / f"{name}.json" for name in ("training", "old"))
REAL_FOLDER = REAL / "cpu_profilers"
OWN, OF_GPU = (
    REAL_FOLDER / name
    for name in ("own__scalene_2.4.0.json", "plasma-umass+scalene__gpu_profile.json")
)
MIB = 1 << 20
S = 1_000_000_000


def rows(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    """File, line, function and these columns."""
    with profile_in_place(path) as found:
        names = {row["id"]: row["text"] for row in found.rows("name")}
        return [
            (names[row["file_id"]], row["line"], names.get(row["function_id"]),
             *(row[column] for column in columns))
            for row in found.rows("cpu_line")
        ]  # fmt: skip


def test_times_are_shares_of_ten_seconds() -> None:
    assert rows(TRAINING, "sum_ns", "python_ns", "native_ns", "system_ns") == [
        ("train.py", 3, None, 0, 0, 0, 0),
        ("train.py", 4, "step", 0, 0, 0, 0),
        ("train.py", 5, "step", 4 * S, 1 * S, 2 * S, 1 * S),
        ("train.py", 8, None, 0, 0, 0, 0),  # its function has no sample
        ("train.py", 9, None, 35 * S // 10, 5 * S // 10, 0, 3 * S),
        ("train.py", 12, None, 15 * S // 10, 15 * S // 10, 0, 0),
        ("loader/data.py", 1, "batches", 0, 0, 0, 0),
        ("loader/data.py", 2, "batches", 1 * S, 0, 1 * S, 0),
    ]
    assert notes(TRAINING) == {"times-from-samples": (1, "")}


def test_memory_and_gpu() -> None:
    columns = ("gpu_pct", "alloc_bytes", "peak_bytes", "gpu_peak_bytes", "hits", "includes_calls")
    found = {(row[0], row[1]): row[3:] for row in rows(TRAINING, *columns)}
    assert found["train.py", 5] == (75.0, 2 * MIB, MIB, 512 * MIB, None, 0)
    assert found["train.py", 9] == (25.0, 0, 0, 0, None, 0)


def test_facts_and_times_of_day() -> None:
    with profile_in_place(TRAINING) as found:
        assert set(found.facts) == {Fact.CPU_LINES, Fact.UTC}
        assert found.attributes["zero_utc_ns"] == 1_767_225_600_500_000_000
        assert found.attributes["recording_ns"] == 10 * S
    with profile_in_place(OLD) as found:
        assert set(found.facts) == {Fact.CPU_LINES}


def test_what_was_not_looked_at_is_null_and_damage_is_left_out() -> None:
    """In 2 s, 60 % and 40 %. A share below 0, none, line 0, and a text are no lines."""
    columns = ("sum_ns", "gpu_pct", "alloc_bytes", "peak_bytes", "gpu_peak_bytes")
    assert rows(OLD, *columns) == [
        ("train.py", 5, None, 12 * S // 10, None, None, None, None),
        ("train.py", 6, None, 8 * S // 10, None, None, None, None),
    ]
    assert notes(OLD)["cell-unreadable"] == (4, "files[0].lines[2]")


def test_a_profile_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert rows(written(tmp_path, "\ufeff" + TRAINING.read_text())) == rows(TRAINING)


@pytest.mark.parametrize(("key", "value"), by_turns(
    ["lineno", "n_sys_percent", "start_function_line", "n_gpu_percent"],
    [None, "1", [], {}, True, -1, 1e300], 3,
))  # fmt: skip
def test_values_of_another_kind(key: str, value: Any, tmp_path: Path) -> None:
    """Line and time have to be there; without the others, they are null."""
    made = profile()
    files = list(made["files"].values())
    files[0]["lines"][2][key] = value
    path = written(tmp_path, made)
    is_left_out = key in ("lineno", "n_sys_percent")
    assert (5 in [row[1] for row in rows(path) if row[0] == "train.py"]) is not is_left_out
    assert ("cell-unreadable" in notes(path)) is is_left_out


@pytest.mark.parametrize("content", [
    TRAINING.read_text()[:-40], '{"elapsed_time_sec": 1, "files"', '{"alloc_samples": ' + "[" * 100_000,
    '{"elapsed_time_sec": 1}', '{"elapsed_time_sec": 0, "files": {}}',
    '{"elapsed_time_sec": 1, "files": []}',
    '{"elapsed_time_sec": NaN, "files": {}}', '{"elapsed_time_sec": 1, "files": {}}',
    '{"elapsed_time_sec": 1, "files": {"a.py": 3, "b.py": {"lines": [7]}}}',
    '{"elapsed_time_sec": 1e999999, "files": {"a.py": {"lines": []}}}',
])  # fmt: skip
def test_damage_is_refused_in_words(content: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    assert claimed_by(path) == ["scalene"]
    assert refusal(path).hint


def test_functions_inside_others(tmp_path: Path) -> None:
    """Lines 6 to 7 are of `inner`, whose decorator is in line 5; `outer` goes on in line 8."""
    lines = [line(i, 10, 0, 0, function) for i, function in ((4, 4), (5, 4), (6, 6), (7, 6), (8, 4))]
    functions = [{"line": "outer", "lineno": 4}]
    made = {"elapsed_time_sec": 1, "files": {"a.py": {"functions": functions, "lines": lines}}}
    found = [(row[1], row[2]) for row in rows(written(tmp_path, made))]
    assert found == [(4, "outer"), (5, "outer"), (6, None), (7, None), (8, "outer")]


@real
def test_the_real_profile() -> None:
    """Of 2.178997278 s, line 36 has 1.9172 + 0.0018 + 48.4907 = 50.4096 %."""
    assert claimed_by(OWN) == ["scalene"]
    found = rows(OWN, "sum_ns", "gpu_pct", "alloc_bytes")
    assert len(found) == 42
    assert abs(sum(row[3] for row in found) - 2_178_997_278) <= 3 * 42
    (line_36,) = (row for row in found if row[1] == 36)
    assert line_36[:3] == ("work.py", 36, "main")
    assert line_36[3] == pytest.approx(0.504096 * 2_178_997_278, rel=1e-5)
    assert {row[4:] for row in found} == {(None, None)}
    assert {row[1]: row[2] for row in found if row[1] in (11, 15, 23, 28, 42)} == {
        11: None, 15: "squares", 23: "build", 28: None, 42: None}  # fmt: skip


@real
def test_the_real_profile_with_a_gpu() -> None:
    """Of 69.176158905 s; 2015.003 MiB were allocated in line 10, which has all of the GPU's use."""
    assert claimed_by(OF_GPU) == ["scalene"]
    found = rows(OF_GPU, "sum_ns", "gpu_pct", "alloc_bytes", "gpu_peak_bytes")
    assert len(found) == 5
    assert abs(sum(row[3] for row in found) - 69_176_158_905) <= 15
    (line_10,) = (row for row in found if row[1] == 10)
    assert line_10[4:] == (100.0, round(2015.003113746643 * MIB), 0)
    assert sum(row[4] for row in found) == 100.0
