"""The made-up training of README and tutorials: what was put into it is what the answer names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import write_examples
from example_training import Training, train
from run_command import run
from write_examples import EXAMPLES
from write_nsys import write_nsys

import nsysconv


def findings(training: Training, path: Path) -> dict[str, float]:
    """Each finding's bound in percent, by rule."""
    ((workload, _),) = train(training)
    write_nsys(workload, path, "3.25.0")
    with nsysconv.open(path) as profile:
        return {row["rule"]: row["share_pct"] for row in profile.report("findings").rows()}


def test_what_holds_the_training_back_is_found(tmp_path: Path) -> None:
    found = findings(Training("train", steps=2), tmp_path / "slow.sqlite")
    better = Training("train", steps=2, loader_us=900, pinned=True, fused_optimizer=True)
    left = findings(better, tmp_path / "faster.sqlite")
    for rule in ("host_bound", "pageable_copies"):
        assert found[rule] > 5 > left.get(rule, 0), rule
    # It waits once a step, and meanwhile the GPU runs what had been launched.
    assert "sync_each_kernel" not in found


def test_the_late_rank_is_the_one_that_others_wait_for(tmp_path: Path) -> None:
    for rank, (workload, _) in enumerate(train(Training("r", steps=2, ranks=3, late_rank=1))):
        write_nsys(workload, tmp_path / f"rank{rank}.sqlite", "3.25.0")
    outcome = run("report", ".", "stragglers", "-f", "json", cwd=tmp_path)
    rows = json.loads(outcome.out)["reports"][0]["rows"]
    assert max(rows, key=lambda row: row["late_sum_ns"])["rank"] == 1


@pytest.mark.parametrize(("names", "written"), [((), tuple(EXAMPLES)), (("old.nvvp",), ("old.nvvp",))])
def test_a_folder_alone_asks_for_all_examples(
    names: tuple[str, ...], written: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(write_examples, "write_examples", lambda folder, *names: asked.append(names))
    monkeypatch.setattr("sys.argv", ["write_examples.py", str(tmp_path / "new"), *names])
    write_examples.main()
    assert (asked, (tmp_path / "new").is_dir()) == ([written], True)
