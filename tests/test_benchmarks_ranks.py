"""The generated ranks of a job keep what they promise; their benchmark runs all its sides."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import generate_ranks
import jobs_ranks
import pytest
from measure import run_once

import nsysconv

RANKS, KERNELS = 4, 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("job")
    generate_ranks.generate(path, RANKS, KERNELS, seed=1)
    return path


def _dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_same_arguments_same_rows(folder: Path, tmp_path: Path) -> None:
    generate_ranks.generate(tmp_path, RANKS, KERNELS, seed=1)
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"rank{rank:04d}.sqlite" for rank in range(RANKS)]
    assert [_dump(tmp_path / name) for name in names] == [_dump(folder / name) for name in names]


def test_ranks_differ(folder: Path) -> None:
    assert len({tuple(_dump(path)) for path in folder.iterdir()}) == RANKS


def test_what_reports_find_is_what_was_made(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    result = nsysconv.import_files([folder], store, jobs=1)
    (run,) = result.runs
    assert run.label == "slurm-4711.0"
    assert sorted(run.census.ranks) == list(range(RANKS))
    summary, late = nsysconv.report_on(store, ["rank_summary", "stragglers"], by="rank", workers=1)
    ranks = [row for row in summary.table.to_pylist() if row["over_ranks"] is None]
    assert [row["kernel_count"] for row in ranks] == [KERNELS] * RANKS
    rows = late.table.to_pylist()
    assert [row["collective_count"] for row in rows] == [KERNELS // 100] * RANKS
    assert max(rows, key=lambda row: row["last_count"])["rank"] == generate_ranks.straggler(RANKS)


@pytest.mark.system
def test_all_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_ranks, "DATA", tmp_path)
    monkeypatch.setattr(
        jobs_ranks, "in_turn", lambda sides, runs: {side.name: [run_once(side)] for side in sides}
    )
    group = jobs_ranks.run(2, 400, 1, "setting")
    assert [(result.job, result.baseline) for result in group.results] == [
        ("import, 1 × 0.0004 M kernels", jobs_ranks.COPY),
        ("rank_summary, 1 × 0.0004 M kernels", jobs_ranks.SUMS),
        ("import, 2 × 0.0004 M kernels", jobs_ranks.COPY),
        ("rank_summary, 2 × 0.0004 M kernels", jobs_ranks.SUMS),
        ("import, two processes, 2 × 0.0004 M kernels", "one process"),
        ("import, Dask with 2 workers¹, 2 × 0.0004 M kernels", "Dask with 1 worker¹"),
        ("rank_summary, two processes, 2 × 0.0004 M kernels", "one process"),
        ("rank_summary, Dask with 2 workers¹, 2 × 0.0004 M kernels", "Dask with 1 worker¹"),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["ranks-2x400"]
