"""The gate where a recording lost kernels or has a stalled stamp: never within, never exceeded."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from conftest import few, scratch
from diff_workloads import SOURCES, training
from golden_cases import run
from workload import Events

LIMITS = (
    "kernels.kernel_sum_ns:3%", "kernels.per_step_ns:3%", "steps.avg_ns:3%", "overview.window_ns:3%",
    "api_vs_kernel.api_sum_ns:3%",
)  # fmt: skip


def third_lost(events: Events) -> Events:
    """A third of the kernels, anywhere."""
    kept = random.Random(7).sample(events.kernels, 2 * len(events.kernels) // 3)
    return replace(events, kernels=tuple(sorted(kept, key=lambda kernel: kernel.start_ns)))


def first_lost(events: Events) -> Events:
    """The first kernels of the session."""
    return replace(events, kernels=events.kernels[5:])


def stalled(events: Events) -> Events:
    """The stamp of one end came two seconds late."""
    kernels = list(events.kernels)
    kernels[90] = replace(kernels[90], end_ns=kernels[90].end_ns + 2_000_000_000)
    return replace(events, kernels=tuple(kernels))


FAULTS: dict[str, Callable[[Events], Events] | None] = {
    "third lost": third_lost, "first lost": first_lost, "stalled": stalled,
}  # fmt: skip


@cache
def written(source: str, fault: str | None, number: int = 0) -> Path:
    """The recording of a run; of one number the kernels are all so many ns longer."""

    def change(events: Events) -> Events:
        events = replace(
            events, kernels=tuple(replace(k, end_ns=k.end_ns + number) for k in events.kernels)
        )
        plant = FAULTS[fault] if fault else None
        return plant(events) if plant else events

    return SOURCES[source](training(change), scratch())


CASES = [
    (source, fault, runs) for source in ("nsys", "kineto", "nvprof database") for fault in FAULTS
    for runs in (1, 5)
]  # fmt: skip


@pytest.mark.parametrize(("source", "fault", "runs"), few(CASES, 1))
def test_what_one_side_lost_is_no_verdict(source: str, fault: str, runs: int, tmp_path: Path) -> None:
    for number in range(runs):
        # One of several with a fault is enough.
        pair = written(source, None, number), written(source, None if number else fault, number)
        for side, path in zip(("base", "other"), pair, strict=True):
            shutil.copyfile(path, tmp_path / f"{side}-{number}{path.suffix}")
    suffix = written(source, None, 0).suffix
    sides = [f"{side}-*{suffix}" for side in ("base", "other")]
    words = [word for limit in LIMITS for word in ("--fail-on", limit)]
    for pair in (sides, sides[::-1]):
        outcome = run("diff", *pair, *words, cwd=tmp_path)
        assert outcome.status == 4, outcome.out
        assert "exceeded" not in outcome.out.split("Limits\n")[1].split("\n\n")[0]
        assert "one side lost more recorded events" in outcome.out


def test_without_a_fault_the_same_limits_hold(tmp_path: Path) -> None:
    pair = [str(written("nsys", None, number)) for number in (0, 1)]
    words = [word for limit in LIMITS for word in ("--fail-on", limit)]
    outcome = run("diff", *pair, *words, "--run-noise", "0.1%", cwd=tmp_path)
    assert (outcome.status, "lost more" in outcome.out) == (0, False)


@pytest.mark.parametrize("source", few(["nsys", "nvprof database"], 1))
def test_launches_that_failed_are_no_improvement(source: str, tmp_path: Path) -> None:
    """12 of 200 launches returned an error: the kernels take 6 % less."""

    def failed(events: Events) -> Events:
        gone = {kernel.correlation_id for kernel in events.kernels[10:22]}
        return replace(
            events,
            kernels=tuple(k for k in events.kernels if k.correlation_id not in gone),
            calls=tuple(
                replace(c, result=701) if c.correlation_id in gone else c for c in events.calls
            ),
        )

    pair = []
    for side, change in (("base", lambda events: events), ("other", failed)):
        (tmp_path / side).mkdir()
        pair.append(str(SOURCES[source](training(change), tmp_path / side)))
    limit = ("--fail-on", LIMITS[0], "--run-noise", "0.1%")
    outcome = run("diff", *pair, *limit, cwd=tmp_path)
    assert outcome.status == 4, outcome.out
    assert "more launches of other failed" in outcome.out
    # Where the failures are gone, the kernels do take longer.
    assert run("diff", *pair[::-1], *limit, cwd=tmp_path).status == 1
