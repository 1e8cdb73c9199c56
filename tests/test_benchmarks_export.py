"""The benchmark of `nsysconv export` runs all its sides and leaves nothing but its input."""

from __future__ import annotations

from pathlib import Path

import jobs_export
import jobs_nsys
import pytest


def test_all_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_export, "DATA", tmp_path)
    monkeypatch.setattr(jobs_nsys, "DATA", tmp_path)
    group = jobs_export.run(2000, 1, "setting")
    peers = [jobs_export.PEER] * 3 + [jobs_export.LOOP] * 2
    assert [(result.baseline, len(result.ours)) for result in group.results] == [
        (peer, 1) for peer in peers
    ]
    # Traces are of a fifth of the kernels.
    assert {path.name for path in tmp_path.iterdir()} == {"nsys-2000.sqlite", "nsys-400.sqlite"}
