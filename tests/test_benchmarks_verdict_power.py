"""The simulated verdicts: what counts as which answer, what fails, and that the page is whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import verdict_power as power

from nsysconv.diff import gate
from nsysconv.diff.change import change_of
from nsysconv.diff.noise import runs_ratio_interval
from nsysconv.report import Column, Unit

CASE = "white 2 %, 5:5"


@pytest.fixture(scope="module")
def few() -> dict[str, power.Rates]:
    return power.simulated(40)


def as_expected() -> dict[str, power.Rates]:
    """Rates that meet every bar, and are the expected ones where some are."""
    good = dict.fromkeys(power.RATES, 0.04) | {power.EXCEEDED: 0.0}
    good |= dict.fromkeys((power.WITHIN, power.EXCEEDED_5, power.EXCEEDED_10), 1.0)
    return {case.name: good | dict(power.expected_of(case.name)) for case in power.CASES}


def test_what_is_as_expected_does_not_fail() -> None:
    known = {f"{case}: {rate}" for case, rate in power.MISSED}
    assert not power.unexpected(as_expected())
    assert known <= {f"{bar.case}: {bar.rate}" for bar in power.bars()}


@pytest.mark.parametrize(
    ("rate", "value", "words"),
    [
        (power.WITHIN, 0.54, "within at 0 0.540, expected 0.500"),
        (power.HALF, 0.0325, "half 0.033, expected 0.029"),
        (power.FALSELY_WITHIN, 0.055, "within at +3 % 0.055, has to be at most 0.05"),
        (power.EXCEEDED, 0.036, "exceeded at 0 0.036, expected 0.005"),
        (power.DIFFERS, 0.029, "differs at 0 0.029, has to be at least 0.03 and at most 0.07"),
        (power.EXCEEDED_10, 0.975, "exceeded at +10 % 0.975, has to be at least 0.98"),
    ],
)
def test_what_is_off_is_named(rate: str, value: float, words: str) -> None:
    found = as_expected()
    found[CASE] = {**found[CASE], rate: value}
    assert f"{CASE}: {words}" in power.unexpected(found)


def test_the_page_holds_every_case(few: dict[str, power.Rates]) -> None:
    """And is that of the documentation, but for the figures."""
    text = power.page(few, power.PAIRS)
    recorded = power.PAGE.read_text(encoding="utf-8")
    for case in power.CASES:
        assert text.count(f"\n| {case.name} | ") >= 1
        assert recorded.count(f"\n| {case.name} | ") >= 1
    pieces = (power.HEAD, power.REPEATS_TEXT, power.ONE_RUN_TEXT, power.BARS_TEXT, power.OTHERWISE_TEXT)
    for piece in pieces:
        assert piece in recorded, "run: make verdict-power"


def test_an_unexpected_rate_fails_after_the_page_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of five pairs a case hardly a rate is the expected one."""
    words = ["verdict_power.py", "--pairs", "5", "--page", str(tmp_path / "page.md")]
    monkeypatch.setattr("sys.argv", words)
    assert power.main() == 1
    captured = capsys.readouterr()
    assert ", expected " in captured.err
    assert (tmp_path / "page.md").read_text(encoding="utf-8") in captured.out


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
