"""The sentence on top of the answer: what is larger outside the window is said; it is never missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_cases import run
from small_store import Call, Kernel, Total, write

from nsysconv.facts import Fact


def first_line(path: Path) -> str:
    """The sentence, on one line."""
    lines = run(path.name, cwd=path.parent, width=120).out.splitlines()
    start = next(i for i, line in enumerate(lines[1:], 1) if not line.startswith("!"))
    end = next(i for i in range(start + 1, len(lines)) if not lines[i].startswith("   "))
    return " ".join(line.strip() for line in lines[start:end])


def test_start_up_that_is_more_than_twice_as_large_is_said(tmp_path: Path) -> None:
    """Of 1000 µs until the first launch returned 700; the host then leaves the GPU idle for 90."""
    rows = [
        Call(0, 600_000, name="cudaMalloc"), Call(650_000, 700_000, correlation=1),
        Kernel(700_000, 800_000, correlation=1), Call(890_000, 900_000, correlation=2),
        Kernel(900_000, 1_000_000, correlation=2),
    ]  # fmt: skip
    write(tmp_path / "a.db", *rows)
    assert "the GPU waits for host code" in first_line(tmp_path / "a.db")
    assert first_line(tmp_path / "a.db").endswith("Start-up takes more: up to 70.0 %.")


@pytest.mark.parametrize(("dtoh", "htod", "words"), [
    (70_000, 0, "Most GPU time goes to DtoH copies: 70.0 % (70.00 µs)."),
    (40_000, 30_000, "The largest part of GPU time goes to DtoH copies: 40.0 % (40.00 µs)."),
])  # fmt: skip
def test_without_a_finding_the_largest_part_is_said(
    dtoh: int, htod: int, words: str, tmp_path: Path
) -> None:
    facts = {Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS}
    copies = [("DtoH", dtoh), ("HtoD", htod)]
    totals = [Total("memcpy", 1, time, direction=direction) for direction, time in copies if time]
    write(tmp_path / "t.db", Total("kernel", 1, 30_000, name="k"), *totals, holds=facts)
    assert first_line(tmp_path / "t.db") == words
