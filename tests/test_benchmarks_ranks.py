"""The generated ranks of a job keep what they promise; their benchmark runs all its sides."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import generate_ranks
import pytest

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


def test_the_same_arguments_give_the_same_rows(folder: Path, tmp_path: Path) -> None:
    generate_ranks.generate(tmp_path, RANKS, KERNELS, seed=1)
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"rank{rank:04d}.sqlite" for rank in range(RANKS)]
    assert [_dump(tmp_path / name) for name in names] == [_dump(folder / name) for name in names]


def test_ranks_have_different_rows(folder: Path) -> None:
    assert len({tuple(_dump(path)) for path in folder.iterdir()}) == RANKS


def test_what_reports_find_is_what_was_made(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    result = nsysconv.import_files([folder], store, workers=1)
    (run,) = result.runs
    assert run.label == "slurm-4711.0"
    assert sorted(run.census.ranks) == list(range(RANKS))
    summary, late = nsysconv.report_on(store, ["rank_summary", "stragglers"], by="rank", workers=1)
    ranks = [row for row in summary.table.to_pylist() if row["over_ranks"] is None]
    assert [row["kernel_count"] for row in ranks] == [KERNELS] * RANKS
    rows = late.table.to_pylist()
    assert [row["collective_count"] for row in rows] == [KERNELS // 100] * RANKS
    assert max(rows, key=lambda row: row["last_count"])["rank"] == generate_ranks.straggler(RANKS)
