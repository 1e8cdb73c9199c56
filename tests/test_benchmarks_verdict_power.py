"""The simulated verdicts: what counts as which answer, what fails, and that the page is whole."""

from __future__ import annotations

import numpy as np
import pytest
import simulated_gate
import verdict_power as power
from simulated_gate import KERNEL, SAME, Found, Planted, Simulated, Unchanged

from nsysconv.diff import gate
from nsysconv.diff.change import change_of
from nsysconv.diff.noise import runs_ratio_interval
from nsysconv.report import Column, Unit


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


def rate(planted: Planted, spread: float = 0.01) -> Found:
    return Found(spread, planted, exceeded=1, named=1, none=0)


def whole() -> Simulated:
    """Rates of whole comparisons that are as they have to be."""
    shares = {"within": 0.9, "exceeded": 0.0, "inconclusive": 0.1}
    spreads = simulated_gate.SPREADS
    unchanged = [Unchanged(spread, limit, shares) for spread in spreads for limit in SAME]
    found = [rate(planted, spread) for spread in spreads for planted in simulated_gate.PLANTED]
    return Simulated(unchanged, dict.fromkeys(spreads, 0.0), found, (100, 20))


def test_a_whole_comparison_finds_what_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_gate, "PLANTED", (Planted(KERNEL, 1.3),))
    monkeypatch.setattr(simulated_gate, "SPREADS", (0.01,))
    result = simulated_gate.simulated(1, 1)
    assert [(each.exceeded, each.named, each.none) for each in result.found] == [(1, 1, 0)]
    assert [each.shares["within"] for each in result.unchanged] == [1, 1, 1]
    bad = simulated_gate.unexpected(whole(), {0.01: 1.1, 0.02: 0.9})
    assert bad == [f"{limit}, ±1 %: within 0.90, the interval 1.10" for limit in SAME]


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
