"""The first line of a comparison, whether the sides did the same work, and what disturbed their runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nsysconv.diff import same_work
from nsysconv.diff.change import (
    STEP,
    WINDOW,
    Answer,
    Change,
    outlier_run_notes,
    run_order_notes,
    slow_step_notes,
)
from nsysconv.diff.rows import RowPair
from nsysconv.notes import Note, Severity
from nsysconv.present.tables import headline
from nsysconv.report import Unit

HALF = 0.08316
ONE = Change((100_000,), (120_000,), "single run", HALF, 0.03)


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        # 1.2 / 1.0867 and 1.2 x 1.0867.
        (Answer(WINDOW, ONE, (1, 1)),
         "slower: GPU active window 100.00 µs → 120.00 µs (+20.0 %); 1 run vs. 1 run, "
         "95 % interval +10.4 to +30.4 %, assuming 3 % run-to-run noise"),
        (Answer(WINDOW, Change((100_000,), (105_000,), "single run", HALF, 0.03), (1, 1)),
         "inconclusive: GPU active window 100.00 µs → 105.00 µs (+5.0 %); 1 run per side cannot show "
         "changes below 12 %: record 3 runs per side"),
        # 2.78 x 0.82 sqrt(2 / 3) = 1.9 % either way, 1.4 times that; 1 % noise shows 3 % with 4 runs.
        (Answer(STEP, Change((100, 101, 99), (101, 102, 100), "repeats"), (3, 3)),
         "inconclusive: step period 100 ns → 101 ns (+1.0 %); 3 vs. 3 runs cannot show changes below 3.2 "
         "%: record 4 runs per side"),
        # Twenty runs with 2.05 % and new ones: (2.064 + 0.857) x 2.05 % x sqrt(1/20 + 1/6) = 2.79 %.
        (Answer(STEP, Change((98, 102) * 10, (101,), "repeats"), (20, 1)),
         "inconclusive: step period 100 ns → 101 ns (+1.0 %); 20 vs. 1 runs cannot show changes below "
         "6.3 %: record 6 new runs"),
        # R1 of the definitions: 1.03298 to 1.06691.
        (Answer(STEP, Change((100, 101, 99, 100, 102), (105, 106, 104, 105, 107), "repeats"), (5, 5)),
         "slower: step period 100 ns → 105 ns (+5.0 %); 5 runs vs. 5 runs, "
         "95 % interval +3.3 to +6.7 %"),
        (Answer(STEP, Change((100,) * 3, (100,) * 3, "repeats"), (3, 3)),
         "same: step period 100 ns → 100 ns (+0.0 %); 3 runs vs. 3 runs, "
         "95 % interval +0.0 to +0.0 %"),
        # Whoever did other work is no slower; a step of it may be.
        (Answer(WINDOW, ONE, (1, 1), ["10 % fewer launches"]),
         "inconclusive: different workloads (10 % fewer launches); GPU active window 100.00 µs → "
         "120.00 µs (+20.0 %); 1 run vs. 1 run"),
        (Answer(STEP, ONE, (1, 1), ["kernel blocks ×128"], is_other_size=True),
         "inconclusive: different workloads (kernel blocks ×128); step period 100.00 µs → 120.00 µs "
         "(+20.0 %); 1 run vs. 1 run"),
        (Answer(STEP, ONE, (1, 1), ["steps: 20 against 10"]),
         "slower: step period 100.00 µs → 120.00 µs (+20.0 %); 1 run vs. 1 run, 95 % interval "
         "+10.4 to +30.4 %, assuming 3 % run-to-run noise; different workloads (steps: 20 against 10), "
         "compared per step"),
        (Answer(WINDOW, ONE, (1, 1), failure="one side has no GPU work"),
         "inconclusive: one side has no GPU work"),
        (Answer(WINDOW, ONE, (1, 1), identical=True),
         "same: both sides are the same recording"),
        (Answer(WINDOW, None, (1, 1), ["runs on other GPUs"], identical=True),
         "same: both sides are the same recording"),
        (Answer(WINDOW, ONE, (1, 1), failure="one profile is truncated", identical=True),
         "inconclusive: one profile is truncated"),
        (Answer(WINDOW, None, (2, 1)),
         "inconclusive: GPU operation times are not recorded on both sides; 2 runs vs. 1 run"),
    ],
)  # fmt: skip
def test_the_first_line(answer: Answer, line: str) -> None:
    assert answer.line == line
    (row,) = answer.report().rows()
    assert row["answer"] == line.partition(":")[0]
    assert (row["base_runs"], row["other_runs"]) == answer.runs


@pytest.mark.parametrize(("answer", "gate", "title"), [
    (Answer(WINDOW, ONE, (1, 1)), "FAIL", "FAIL: slower: GPU active window 100.00 µs → "),
    (Answer(WINDOW, None, (1, 1)), "PASS",
     "PASS: limits hold; inconclusive: GPU operation times are not recorded"),
    (Answer(WINDOW, ONE, (1, 1)), "PASS", "PASS: limits hold; slower: GPU active window 100.00 µs → "),
    (Answer(WINDOW, ONE, (1, 1)), "INCONCLUSIVE", "INCONCLUSIVE: limits undecided; slower: GPU active "),
    (Answer(WINDOW, None, (1, 1)), "INCONCLUSIVE", "INCONCLUSIVE: GPU operation times are not recorded"),
    (Answer(WINDOW, ONE, (1, 1), identical=True), "PASS",
     "PASS: same: both sides are the same recording: it cannot test the gate"),
    (Answer(WINDOW, ONE, (1, 1), identical=True), None, "same: both sides are the same recording"),
])  # fmt: skip
def test_what_the_limits_come_to_is_said_first(answer: Answer, gate: str | None, title: str) -> None:
    report = answer.report(["within"], gate)
    assert report.title.startswith(title)
    assert report.rows()[0]["gate"] == gate


def test_the_answer_counts_limits() -> None:
    states: Any = ["exceeded", "within", "within", "inconclusive"]
    report = Answer(WINDOW, ONE, (1, 1)).report(states)
    (row,) = report.rows()
    counts = row["limits_exceeded"], row["limits_within"], row["limits_inconclusive"]
    assert counts == (1, 2, 1)
    assert headline(report).texts[0].lines == ("limits: 1 exceeded, 2 within, 1 inconclusive",)
    (row,) = Answer(WINDOW, ONE, (1, 1)).report().rows()
    assert row["limits_exceeded"] is None


# -- the same work


def kernels(*rows: tuple[int, int, int]) -> list[RowPair]:
    """Kernels by launches of base, launches of other, and base's time."""
    return [
        RowPair((i,), "both" if before and after else "only in base" if before else "only in other",
                 {}, {}, {"kernel_count": before, "kernel_sum_ns": spent},
                 {"kernel_count": after, "kernel_sum_ns": 0}, {}, lambda _: None, frozenset())
        for i, (before, after, spent) in enumerate(rows)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(100, 90, 10), (100, 90, 10), (100, 100, 10)], "6.7 % fewer launches, of most kernels"),
        ([(100, 110, 10), (100, 110, 10), (100, 100, 10)], "6.7 % more launches, of most kernels"),
        # One of two kernels, or two that take little, is a change of the program.
        ([(100, 90, 20), (100, 100, 10)], None),
        ([(100, 90, 10), (100, 90, 10), (100, 100, 21)], None),
        # In both directions, or by a hundredth.
        ([(100, 90, 10), (100, 110, 10)], None),
        ([(100, 99, 10), (100, 99, 10)], None),
        ([(100, 98, 10), (100, 98, 10)], "2.0 % fewer launches, of most kernels"),
        # Kernels of one side are no part of what both launched.
        ([(100, 0, 10), (100, 0, 10), (100, 100, 10)], None),
        ([], None),
    ],
)
def test_other_launches(rows: list[tuple[int, int, int]], said: str | None) -> None:
    assert same_work.launch_count_difference(kernels(*rows)) == said


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        # Of base's time 49 of 100 is of kernels that both sides run.
        ([(10, 10, 49), (10, 0, 51)], 49),
        ([(10, 10, 50), (10, 0, 50)], None),
        ([(10, 0, 50), (0, 10, 0)], 0),
        ([], None),
    ],
)
def test_other_kernels(rows: list[tuple[int, int, int]], share: int | None) -> None:
    said = f"only {share} % of the kernel time is of kernels that both sides run"
    assert same_work.kernel_mix_difference(kernels(*rows)) == (None if share is None else said)


def test_what_is_unlike() -> None:
    notes = [Note(slug, Severity.INFO, slug) for slug in
             ("steps-differ", "gpu-differs", "capture-options-differ", "window-differs")]  # fmt: skip
    found = same_work.work_differences(notes, have_steps=False)
    assert found == ["gpu-differs", "capture-options-differ"]
    assert same_work.work_differences(notes, have_steps=True)[0] == "steps-differ"


# -- disturbances


def test_runs_far_from_the_others() -> None:
    names = ["a", "b", "c", "d", "e"]
    (note,) = outlier_run_notes("base", [100, 101, 99, 100, 112], names)
    assert note.text == "base: outlier runs, e by +12.0 %"
    assert (note.slug, note.count, note.of) == ("run-outlier", 1, 5)
    # Five times 1.4826 times the usual distance of 1, which is 7.4; 3 % where runs hardly differ.
    assert not list(outlier_run_notes("base", [100, 101, 99, 101, 107], names))
    assert not list(outlier_run_notes("base", [100, 100, 100, 100, 102], names))
    assert list(outlier_run_notes("base", [100, 100, 100, 100, 104], names))
    assert not list(outlier_run_notes("base", [100, 100, 150], names[:3]))


def runs(*starts: int | None) -> list[list[int | None]]:
    return [[start] for start in starts]


def test_runs_that_were_not_recorded_in_turns() -> None:
    (note,) = run_order_notes(runs(1, 2), runs(3, 4))
    assert (note.slug, "base first" in note.text) == ("runs-not-in-turns", True)
    (note,) = run_order_notes(runs(5, 6), runs(3, 4))
    assert "the new side first" in note.text
    assert not list(run_order_notes(runs(1, 3), runs(2, 4)))
    assert not list(run_order_notes(runs(1), runs(3, 4)))
    assert not list(run_order_notes(runs(1, None), runs(3, 4)))


def test_slow_steps() -> None:
    usual = np.tile([100, 101, 99, 100], 10)
    assert not list(slow_step_notes("base", usual))
    first = usual.copy()
    first[:3] = 150
    (note,) = slow_step_notes("base", first)
    assert (note.slug, note.count, note.of) == ("slow-first-steps", 3, 40)
    assert "--skip-first 3" in note.text
    checkpoints = usual.copy()
    checkpoints[9::10] = 300
    (note,) = slow_step_notes("base", checkpoints)
    # 4 x 300 of 36 x 100 + 4 x 300.
    assert (note.slug, note.count) == ("slow-steps", 4)
    assert "25 % of total step time" in note.text
    assert not list(slow_step_notes("base", np.full(40, 100)))


def test_an_interval_that_has_hardly_an_end() -> None:
    """Two runs that differ a thousandfold: what is 95 % of that is not a number to read."""
    change = Change((1, 1000), (1, 1000), "repeats")
    assert change.interval_words(Unit.NS) == "-100.0 … over +10,000 %, 2:2 runs"
