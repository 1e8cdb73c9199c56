"""The benchmark of `nsysconv diff` runs without its peer, and starts the peer without its caches."""

from __future__ import annotations

import sys
from pathlib import Path

import jobs_diff
import measure
import pytest


def test_without_the_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_diff, "DATA", tmp_path)
    group = jobs_diff.run(2000, 1, str(tmp_path / "no-python"), "setting")
    assert [(result.baseline, len(result.ours)) for result in group.results] == [("", 1), ("", 1)]
    assert [reason.split(":")[0] for reason in group.skipped] == ["nsys-ai"]
    kept = {jobs_diff.generated(2000, seed) for seed in jobs_diff.SEEDS}
    assert set(tmp_path.iterdir()) == kept
    assert len({path.read_bytes() for path in kept}) == len(jobs_diff.SEEDS)


def test_folders_are_gone_before_a_run(tmp_path: Path) -> None:
    cache, lock = jobs_diff.caches([tmp_path / "run.sqlite"])
    cache.mkdir()
    (cache / "kernels.parquet").touch()
    lock.touch()
    code = f"import os, sys; sys.exit(bool(os.listdir({str(tmp_path)!r})))"
    measure.run_once(measure.Side("peer", [sys.executable, "-c", code], (cache, lock)))
    assert list(tmp_path.iterdir()) == []
