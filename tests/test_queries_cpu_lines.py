"""The report `cpu_lines` on profiles whose numbers are in their scripts, and the answer on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from golden_cases import run

import nsysconv
from nsysconv import api

NESTED = FIXTURES / "line_profiler" / "training.lprof"
SAMPLED = FIXTURES / "scalene" / "training.json"


def report(path: Path) -> list[dict[str, Any]]:
    (found,) = api.report_on(path, ["cpu_lines"], limit=0)
    return found.rows()


def picked(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in ("line", *columns)) for row in report(path)]


def test_lines_that_include_calls_have_shares_of_their_function_alone() -> None:
    """step 300 + 400 = 700 µs, train 2 + 98 + 900 = 1,000 µs, in which step's are."""
    assert picked(NESTED, "host_sum_ns", "hit_count", "host_avg_ns", "program_pct") == [
        (13, 900_000, 100, 9_000, None), (5, 400_000, 100, 4_000, None), (4, 300_000, 100, 3_000, None),
        (12, 98_000, 101, 98_000 / 101, None), (11, 2_000, 1, 2_000, None),
    ]  # fmt: skip
    shares = dict(picked(NESTED, "function_pct"))
    assert shares == pytest.approx({13: 90, 5: 400 / 7, 4: 300 / 7, 12: 9.8, 11: 0.2})


def test_lines_without_their_calls_have_shares_of_the_program() -> None:
    """Of 10 s. Of lines without a function, the share of it is not known."""
    assert picked(SAMPLED, "host_sum_ns", "program_pct", "function_pct", "hit_count", "host_avg_ns") == [
        (5, 4_000_000_000, 40, 100, None, None), (9, 3_500_000_000, 35, None, None, None),
        (12, 1_500_000_000, 15, None, None, None), (2, 1_000_000_000, 10, 100, None, None),
    ]  # fmt: skip


def test_memory_and_the_use_of_the_gpu() -> None:
    columns = ("gpu_pct", "alloc_bytes", "peak_bytes", "gpu_peak_bytes", "system_ns")
    assert picked(SAMPLED, *columns)[:2] == [
        (5, 75.0, 2 << 20, 1 << 20, 512 << 20, 1_000_000_000), (9, 25.0, 0, 0, 0, 3_000_000_000),
    ]  # fmt: skip
    assert picked(NESTED, *columns)[0][1:] == (None,) * 5


def test_a_part_of_the_recording_has_no_lines() -> None:
    (found,) = api.report_on(SAMPLED, ["cpu_lines"], slice=nsysconv.Slice((0, 1_000_000_000)))
    assert found.table is None
    assert found.not_recorded == ("which lines ran in a part of the recording",)


def test_the_answer_names_the_lines_with_most_time_and_what_to_record_next(tmp_path: Path) -> None:
    found = run(str(NESTED), cwd=tmp_path).out
    assert "900.00 µs   90.0 %  train.py:13 in train  × 100" in found
    assert "lines do not add up" in found
    assert "cpu_lines" in found
    assert "nsys profile" in found


def test_the_answer_shows_the_use_of_the_gpu(tmp_path: Path) -> None:
    found = run(str(SAMPLED), cwd=tmp_path).out
    assert "4.00 s   40.0 %  train.py:5 in step  GPU 75 %" in found
    assert "do not add up" not in found
