"""Whole outcomes of commands are as kept in tests/golden; `make golden` rewrites them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from golden_cases import CASES, GOLDEN, transcript

# A date, a temporary or absolute path, or a process's private file would differ from run to run.
# Of days only that on which the fixtures were recorded.
CHANGING = re.compile(
    r"/tmp/|/home/|/root/|/Users/|\.partial|\b(?!2026-01-01\b)20\d\d-\d\d-\d\d\b"
)


@pytest.mark.parametrize("name", CASES)
def test_command_prints_the_golden_output(name: str, tmp_path: Path) -> None:
    expected = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert transcript(CASES[name], tmp_path) == expected, "if that is meant: make golden"


def test_no_golden_file_is_unused() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {f"{name}.txt" for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_golden_outputs_hold_no_ids_paths_or_dates(name: str) -> None:
    text = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert CHANGING.search(text) is None
    assert "Traceback" not in text
    assert "SECRET-" not in text
