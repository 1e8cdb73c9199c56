"""The simulated verdicts: what counts as which answer, what fails, and that the page is whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import simulated_gate
import verdict_power as power
from simulated_gate import KERNEL, SAME, TWICE, Found, Planted, Simulated, Unchanged

from nsysconv.diff import gate
from nsysconv.diff.change import change_of
from nsysconv.diff.noise import runs_ratio_interval
from nsysconv.report import Column, Unit
from nsysconv.store.recording import ArrayRows


@pytest.fixture(scope="module")
def few() -> dict[str, power.Rates]:
    return power.simulated(40)


def test_the_page_holds_every_case(few: dict[str, power.Rates]) -> None:
    """And is that of the documentation, but for the figures."""
    text = power.page(few, power.PAIRS, whole())
    recorded = power.PAGE.read_text(encoding="utf-8")
    for case in power.CASES:
        assert text.count(f"\n| {case.name} | ") >= 1
        assert recorded.count(f"\n| {case.name} | ") >= 1
    for limit in SAME:
        assert text.count(f"\n| `{limit}` | ") == recorded.count(f"\n| `{limit}` | ") == 2
    for planted in simulated_gate.PLANTED:
        words = f"\n| {rate(planted).words} | `"
        assert text.count(words) == recorded.count(words) == 2
    pieces = (power.HEAD, power.REPEATS_TEXT, power.ONE_RUN_TEXT, power.BARS_TEXT, power.OTHERWISE_TEXT)
    for piece in (*pieces, simulated_gate.TEXT, simulated_gate.FOUND_TEXT):
        assert piece in recorded, "run: make verdict-power"


# -- whole comparisons


def rate(planted: Planted, exceeded: float = 1.0, named: float = 1.0, spread: float = 0.01) -> Found:
    return Found(spread, planted, exceeded, named, 1 - named)


def whole(
    within: float = 0.9, exceeded: float = 0.0, certain: float = 0.0, more: tuple[Found, ...] = ()
) -> Simulated:
    """Rates of everything: those that are given, and of what is planted good ones before `more`."""
    shares = {"within": within, "exceeded": exceeded, "inconclusive": 1 - within - exceeded}
    spreads, every = simulated_gate.SPREADS, simulated_gate.PLANTED
    unchanged = [Unchanged(spread, limit, shares) for spread in spreads for limit in SAME]
    good = [rate(planted, spread=spread) for spread in spreads for planted in every]
    return Simulated(unchanged, dict.fromkeys(spreads, certain), [*good, *more], (100, 20))


INTERVAL = {0.01: 0.9, 0.02: 0.9}


def test_whole_comparisons_that_are_as_they_have_to_be_do_not_fail() -> None:
    """What is too small to be seen may be missed."""
    small = rate(Planted(KERNEL, 1.05), 0.1, 0.1)
    assert not simulated_gate.unexpected(whole(0.76, 0.01, 0.05, (small,)), INTERVAL)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (whole(exceeded=0.02), "steps.period_ns:3%, ±1 %: exceeded 0.02"),
        (whole(0.74), "overview.kernel_sum_ns:3%, ±2 %: within 0.74, the interval 0.90"),
        (whole(certain=0.06), "nothing changed, ±2 %: certain 0.06"),
        (whole(more=(rate(Planted(KERNEL, 1.1), 0.9),)), "one kernel, +10 %, ±1 %: exceeded 0.90"),
        (whole(more=(rate(Planted(TWICE), named=0.9),)), "every 10th kernel twice, ±1 %: named 0.90"),
    ],
)
def test_whole_comparisons_that_are_off_are_named(
    result: Simulated, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert words in simulated_gate.unexpected(result, INTERVAL)
    what, _, how = words.rpartition(": ")
    monkeypatch.setattr(simulated_gate, "MISSED", {what: "it is known"})
    assert words not in simulated_gate.unexpected(result, INTERVAL)
    assert f"| {what} | {how} | it is known |" in [*simulated_gate.section(result, INTERVAL)]


def rows_of(planted: Planted) -> dict[str, dict[str, np.ndarray]]:
    """What a run did, by table."""
    made = simulated_gate.batches(np.random.default_rng(7), 0.01, planted)
    return {batch.table: dict(batch.columns) for batch in made if isinstance(batch, ArrayRows)}


@pytest.mark.parametrize(
    ("what", "table", "per_step"),
    [
        (simulated_gate.KERNEL, "kernel", 1),
        (simulated_gate.COPIES, "memcpy", 3),
        (simulated_gate.ALLOCATIONS, "api_call", 6),
        (simulated_gate.GAP, "range", 1),
    ],
)
def test_one_thing_is_planted(what: str, table: str, per_step: int) -> None:
    """Of the same random numbers nothing else on the GPU takes longer, but what waits does."""
    before, after = rows_of(Planted()), rows_of(Planted(what, 1.3))
    longer = {name: after[name]["dur_ns"] / before[name]["dur_ns"] for name in before}
    assert (np.abs(longer[table] - 1.3) < 0.001).sum() == per_step * simulated_gate.STEPS
    others = np.concatenate([longer[name] for name in ("kernel", "memcpy") if name != table])
    assert np.abs(others - 1).max() < 0.001


def test_kernels_are_launched_twice() -> None:
    launched = [rows_of(planted)["kernel"]["dur_ns"] for planted in (Planted(), Planted(TWICE))]
    assert [*map(len, launched)] == [800, 880]


def test_a_whole_comparison_finds_what_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_gate, "PLANTED", (Planted(KERNEL, 1.3), Planted(TWICE)))
    monkeypatch.setattr(simulated_gate, "SPREADS", (0.01,))
    numbers = []

    def recorded(random: np.random.Generator, *rest: Any) -> Any:
        numbers.append(random.bit_generator.state["state"]["state"])
        return batches(random, *rest)

    batches = simulated_gate.batches
    monkeypatch.setattr(simulated_gate, "batches", recorded)
    result = simulated_gate.simulated(2, 1)
    assert [(each.exceeded, each.named, each.none) for each in result.found] == [(1, 1, 0)] * 2
    assert [each.shares["within"] for each in result.unchanged] == [1, 1, 1]
    # The same random numbers each time, and of each run others.
    first, numbers[:] = [*numbers], []
    assert simulated_gate.simulated(2, 1) == result
    assert numbers == first
    assert len({*first}) == len(first) == 10 + 2 * 5


def judged(base: tuple[float, ...], other: tuple[float, ...], half: float | None = None) -> str:
    """What the gate says of these values by run, under the limit that is simulated."""
    column = Column("time_ns", Unit.NS, "A time.", better="less", real=True)
    change = change_of(column, base, other, noise=0.01, half_width=half)
    assert change is not None
    limit = gate.Limit("made", None, column.name, 3, "share", "made.time_ns:3%")
    return gate.judge_limit(limit, column, [gate.LimitRow("", *change.means, change)]).state


@pytest.mark.parametrize("slower", [0.0, 0.03, 0.05])
def test_the_gate_answers_as_simulated(slower: float) -> None:
    """Repeats one by one, and one run per side with the half that its steps have."""
    random = np.random.default_rng(3)
    runs = [1000 + 20 * random.standard_normal((2, 5)) for _ in range(150)]
    pairs = [(tuple(base), tuple(other * (1 + slower))) for base, other in runs]
    intervals = [runs_ratio_interval(base, other) for base, other in pairs]
    found = power.Intervals(
        np.array([i.low for i in intervals if i]),
        np.array([i.high for i in intervals if i]),
        np.array([np.mean(other) / np.mean(base) for base, other in pairs]),
    )
    states = [judged(base, other) for base, other in pairs]
    assert states.count("exceeded") / 150 == pytest.approx(found.exceeded())
    assert states.count("within") / 150 == pytest.approx(found.within())
    ratios, halves = 1 + slower + 0.02 * random.standard_normal(150), random.uniform(0.01, 0.05, 150)
    found = power.Intervals(ratios * np.exp(-halves), ratios * np.exp(halves), ratios)
    states = [judged((1000.0,), (1000.0 * r,), h) for r, h in zip(ratios, halves, strict=True)]
    assert states.count("exceeded") / 150 == pytest.approx(found.exceeded())
    assert states.count("within") / 150 == pytest.approx(found.within())
    assert len(set(states)) > 1
