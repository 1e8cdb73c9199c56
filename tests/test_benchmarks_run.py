"""The benchmarks run all their sides, say which bars hold, and the page is what they found."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import inputs
import jobs_diff
import jobs_export
import jobs_imports
import jobs_kineto
import jobs_nsys
import jobs_operators
import jobs_ranks
import jobs_steps
import measure
import page
import peers
import pytest
import run
from conftest import few
from results import Bar, Group, Job, Measured, Run

THEIRS = Measured("theirs", [Run(8.0, 8.0, 900.0), Run(10.0, 10.0, 800.0), Run(12.0, 12.0, 700.0)])
OURS = Measured("ours", [Run(1.0, 1.5, 80.0, 2.5), Run(2.0, 2.5, 90.0, 2.0)])
JOB = Job("job", 5.0, "M rows", [OURS, THEIRS])


def once(sides: Sequence[measure.Side], runs: int) -> list[Measured]:
    return [Measured(side.name, [measure.run_once(side)]) for side in sides]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what the jobs make; no peers, and every side once."""
    jobs = (jobs_diff, jobs_export, jobs_imports, jobs_kineto, jobs_nsys, jobs_operators, jobs_ranks,
            jobs_steps)  # fmt: skip
    for module in (inputs, peers, *jobs):
        monkeypatch.setattr(module, "DATA", tmp_path)
    for module in jobs:
        monkeypatch.setattr(module, "in_turn", once)
    peers.version.cache_clear()
    return tmp_path


NOWHERE = Path("no-such-folder")
# How each group is run on fixtures, how many jobs it has, and the inputs that stay.
SMALL: dict[str, tuple[Callable[[], Group], int, list[str]]] = {
    "nsys": (lambda: jobs_nsys.run(NOWHERE, [20], 1, "setting"), 4 + 4 + 5 + 4,
             ["basic-3.25.0-20", "cpu_side-3.28.1-20", "graphs-3.24.0-20"]),
    "kineto": (lambda: jobs_kineto.run(NOWHERE, 1, 2, 1, "setting"), 9,
               ["odd-compact-1", *["odd-reprinted-1"] * 2, "training-1.9-1", "training-2.13-1",
                *["training-2.5-1"] * 2, "training-2.5-1-metadata", "training-2.5-2"]),
    "operators": (lambda: jobs_operators.run(NOWHERE, 2, 1, 1, "setting"), 3,
                  ["odd-reprinted-1", "training-2.13-1", "training-2.5-2"]),
    "nvprof": (lambda: jobs_imports.run("nvprof", NOWHERE, 200, 1, "setting"), 1,
               ["basic-gpu-trace-200"]),
    "nvprof_text": (lambda: jobs_imports.run("nvprof_text", NOWHERE, 200, 1, "setting"), 1,
                    ["basic-gpu-trace-200"]),
    "rocpd": (lambda: jobs_imports.run("rocpd", NOWHERE, 20, 1, "setting"), 1, ["basic-3-20"]),
    "steps": (lambda: jobs_steps.run(NOWHERE, 20, 1, "setting"), 2, ["basic-3.25.0-20"]),
    "xplane": (lambda: jobs_imports.run("xplane", NOWHERE, 1, 1, "setting"), 1, ["training.xplane-1"]),
    "diff": (lambda: jobs_diff.run(NOWHERE, 20, 1, "setting"), 2, ["basic-3.24.0-20", "basic-3.25.0-20"]),
    "export": (lambda: jobs_export.run(NOWHERE, 20, 10, 1, "setting"), 7,
               ["graphs-3.24.0-10", "graphs-3.24.0-20"]),
}  # fmt: skip


@pytest.mark.parametrize("name", few(SMALL, 0))
def test_all_sides_run_and_only_the_input_stays(name: str, data: Path) -> None:
    go, jobs, files = SMALL[name]
    group = go()
    assert len({job.title for job in group.jobs}) == len(group.jobs) == jobs
    assert all(len(job.sides) > 1 for job in group.jobs if "as fast" in str(job.bars))
    assert sorted(path.name.rpartition("-")[0] for path in data.iterdir()) == files
    took_its_place = any("a fixture took its place" in reason for reason in group.skipped)
    assert took_its_place is (name != "nvprof_text")  # whose fixture is all there is
    kept = json.dumps(group.to_json())
    assert json.dumps(Group.from_json(json.loads(kept)).to_json()) == kept


@pytest.mark.system
def test_all_sides_of_many_ranks(data: Path) -> None:
    group = jobs_ranks.run(NOWHERE, 2, 400, 1, "setting")
    unit = "ranks of 0.0004 M kernels"
    several = [jobs_ranks.ONE, jobs_ranks.TWO, "Dask with 1 worker", "Dask with 2 workers"]
    assert [(job.title, [side.name for side in job.sides]) for job in group.jobs] == [
        (f"import of ranks, 1 {unit}", ["nsysconv import", jobs_ranks.COPY]),
        (f"rank_summary, 1 {unit}", ["nsysconv report", jobs_ranks.SUMS]),
        (f"import of ranks, 2 {unit}", ["nsysconv import", jobs_ranks.COPY]),
        (f"rank_summary, 2 {unit}", ["nsysconv report", jobs_ranks.SUMS]),
        (f"import of ranks by several, 2 {unit}", several),
        (f"rank_summary by several, 2 {unit}", several),
    ]
    assert [path.name for path in data.iterdir()] == [jobs_ranks.large(NOWHERE, 2, 400, []).name]


@pytest.mark.parametrize(
    ("bar", "value", "holds", "text"),
    [
        # Medians: ours 1.5 s, theirs 10 s; the most memory is 90 MB, the most written 2.5 MB.
        (Bar("times", 0.15, "theirs"), 0.15, True, "≤ 0.15 × the time of theirs"),
        (Bar("times", 0.1, "theirs"), 0.15, False, "≤ 0.1 × the time of theirs"),
        (Bar("as fast", 6, "theirs"), 10 / 1.5, True, "≥ 6 × as fast as theirs"),
        (Bar("as fast", 7, "theirs"), 10 / 1.5, False, "≥ 7 × as fast as theirs"),
        (Bar("s", 1.5), 1.5, True, "≤ 1.5 s"),
        (Bar("MB", 89), 90, False, "≤ 89 MB"),
        (Bar("MB written", 3), 2.5, True, "≤ 3 MB written"),
    ],
)
def test_bars_compare_ratios_with_their_limits(bar: Bar, value: float, holds: bool, text: str) -> None:
    assert bar.measured(JOB) == pytest.approx(value)
    assert bar.holds(bar.measured(JOB) or 0.0) is holds
    assert str(bar) == text


def test_bars_over_layouts_are_held_against_their_median_and_the_least() -> None:
    """Theirs takes 10 s; ours 1, 2 and 5 s: 10, 5 and 2 times as fast. One job has ours alone."""
    def job(name: str, seconds: float) -> Job:
        return Job(name, 5.0, "MB", [Measured("ours", [Run(seconds, seconds, 90.0)]), THEIRS])

    median, least = Bar("as fast, median", 5, "theirs", "why"), Bar("as fast, least", 3, "theirs", "why")
    alone = Job("alone", 5.0, "MB", [OURS])
    jobs = [job("A", 1), job("B", 2), job("C", 5), alone]
    group = Group("Title", "setting", jobs, across=[median, least, Bar("as fast, least", 1, "nobody")])
    assert group.verdicts() == [("Title, 3 layouts", median, 5.0), ("Title, 3 layouts", least, 2.0)]
    assert Group.from_json(json.loads(json.dumps(group.to_json()))).verdicts() == group.verdicts()
    text = page.document([group], "## Why\n", {})
    assert "| Title, 3 layouts | median ≥ 5 × as fast as theirs | 5.0 × | holds |" in text
    missed = "| Title, 3 layouts | least ≥ 3 × as fast as theirs | 2.0 × | **missed**: [why](#why) |"
    assert missed in text
    assert "| C, 5 MB | 5.00 s | one run | 90 MB | 10.00 s | 2.0 |" in text
    assert "* theirs: median over 3 layouts 5.0 × (range 2.0 to 10.0)" in text
    assert "| alone, 5 MB | ours | 1.50 s |" in text
    assert page.unexplained([group], "## Other") == [
        "Title, 3 layouts: least ≥ 3 × as fast as theirs (2.0 ×)"]  # fmt: skip


def test_the_page_is_what_was_measured() -> None:
    plots = {group.title: f"images/performance-{name}.svg"
             for name, group in zip(run.measured(), run.kept(), strict=True)
             if (run.DOCS / f"images/performance-{name}.svg").exists()}  # fmt: skip
    assert (run.DOCS / "performance.md").read_text(encoding="utf-8") == run.document(plots)


def test_every_bar_that_is_missed_has_its_reason() -> None:
    notes = (measure.HERE / "notes.md").read_text(encoding="utf-8")
    assert page.unexplained(run.kept(), notes) == []
