"""Values by run and by step of known size: verdicts, intervals and limits that follow from them.

What is expected is in `slow_intervals.py`, computed there without the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean

import pytest
import slow_intervals as slow
from conftest import few
from diff_asking import (
    AVG,
    SUM,
    WITH_STEPS,
    WITH_UUID,
    Pair,
    Said,
    ask,
    interval,
    near,
    of_lengths,
    of_steps,
    pairs,
    sides,
)
from diff_workloads import SOURCES, Launch, run_of
from machine import SAXPY
from slow_intervals import BY_STEP, FIVE_MORE, HUNDRED, REPEATED, p, q
from workload import Workload

from nsysconv import api
from nsysconv.errors import UsageError

pytestmark = pytest.mark.usefixtures("demangled")


# -- repeats


@pytest.mark.parametrize(
    ("name", "pair"), few(list(product(REPEATED, product(SOURCES, SOURCES))), 1), ids=str
)
def test_repeats(name: str, pair: Pair, tmp_path: Path) -> None:
    base, other, expected, state = REPEATED[name]
    runs = sides(tmp_path, of_lengths(base), of_lengths(other), pair)
    wanted = dict.fromkeys((f"{SUM}:3%", f"{AVG}:3%", "overview.window_ns:3%"), state)
    said = ask(runs, ("overview", "kernels"), wanted)
    for report in ("overview", "kernels"):
        row = said.row(report)
        assert interval(row) == near(expected), report
        assert (row["basis"], row["verdict"]) == ("repeats", slow.verdict(expected))
    assert said.states == wanted


# R1: 3.30 to 6.69 % worse, 4.98 % by the means; 66.7 to 133.3 us, 100 us by the means.
OF_R1 = {
    f"{SUM}:0%": "exceeded", f"{SUM}:3%": "exceeded", f"{SUM}:4.9%": "exceeded",
    f"{SUM}:5.1%": "inconclusive", f"{SUM}:6.6%": "inconclusive", f"{SUM}:6.7%": "within",
    f"{SUM}:50us": "exceeded", f"{SUM}:99us": "exceeded", f"{SUM}:101us": "inconclusive",
    f"{SUM}:133us": "inconclusive", f"{SUM}:134us": "within",
}  # fmt: skip


@pytest.fixture(scope="module")
def r1(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """What is said of R1."""
    runs = sides(tmp_path_factory.mktemp("r1"), of_lengths(HUNDRED), of_lengths(FIVE_MORE))
    return ask(runs, ("kernels", "overview"), OF_R1)


def test_every_measure_has_its_own_verdict_and_interval(r1: Said) -> None:
    expected = REPEATED["R1"][2]
    for report, measures in (("kernels", ("avg_ns", "max_ns", "min_ns", "med_ns")),
                             ("overview", ("window_ns", "kernel_union_ns"))):  # fmt: skip
        row = r1.row(report)
        for measure in measures:
            assert row[f"verdict_{measure}"] == "worse", measure
            assert interval(row, measure) == near(expected), measure
        assert row["verdict_kernel_count"] == "same"


def test_a_change_for_the_better_is_the_same_turned_round(tmp_path: Path) -> None:
    runs = sides(tmp_path, of_lengths(FIVE_MORE), of_lengths(HUNDRED))
    wanted = {f"{SUM}:0%": "within", f"{SUM}:3%": "within"}
    said = ask(runs, ("overview",), wanted)
    low, high = REPEATED["R1"][2]
    row = said.row("overview")
    assert (row["verdict"], interval(row)) == ("better", near((1 / high, 1 / low)))
    assert said.states == wanted


def test_what_exceeds_is_worse_for_certain_and_beyond_by_the_best_estimate(r1: Said) -> None:
    assert mean(FIVE_MORE) / mean(HUNDRED) == pytest.approx(1.0498, abs=1e-4)
    units = slow.difference_of_repeats(HUNDRED, FIVE_MORE)
    assert units == pytest.approx((66.7 / 20, 133.3 / 20), abs=0.005)
    assert r1.states == OF_R1


@pytest.mark.parametrize("unit", ["3%", "50us"])
def test_a_limit_shows_its_interval_and_why(unit: str, r1: Said) -> None:
    row = r1.limits[f"{SUM}:{unit}"]
    low, high = ("3.3", "6.7") if unit == "3%" else ("66.7", "133.3")
    shown = row["interval"].replace("66.6", "66.7").replace("133.2", "133.3")
    assert low in shown, row
    assert high in shown, row
    assert row["reason"]


def test_one_run_that_is_longer_in_one_kernel_is_no_change(tmp_path: Path) -> None:
    """All kernels 1 % longer, and one kernel of one run 30 us: the mean of maxima is 16 % up."""

    def run(per_mille: int, late_ns: int = 0) -> Workload:
        lengths = [40_000] * 19 + [40_000 + late_ns]
        return run_of([[Launch(SAXPY, each * (1000 + per_mille) // 1000) for each in lengths]])

    noise = (4, -5, 2, -3, 2)
    longest = [
        [40_000 * (1000 + each) // 1000 for each in noise],
        [(70_000 if i == 2 else 40_000) * (1010 + each) // 1000 for i, each in enumerate(noise)],
    ]
    expected = slow.repeats(*longest)
    assert expected[0] < 1 < 1.10 < mean(longest[1]) / mean(longest[0])
    base = [run(each) for each in noise]
    other = [run(each + 10, 30_000 if number == 2 else 0) for number, each in enumerate(noise)]
    limit = "kernels.max_ns:10%"
    said = ask(sides(tmp_path, base, other), ("kernels",), [limit])
    row = said.row("kernels")
    assert (row["verdict_max_ns"], interval(row, "max_ns")) == ("~", near(expected))
    assert said.states == {limit: "inconclusive"}


# -- one run per side


@pairs
def test_two_values_show_nothing_below_nine_percent(pair: Pair, tmp_path: Path) -> None:
    runs = sides(tmp_path, of_lengths([100]), of_lengths([104]), pair)
    wanted = {f"{SUM}:3%": "inconclusive", f"{SUM}:14%": "within"}
    said = ask(runs, ("overview",), wanted)
    row = said.row("overview")
    assert (row["basis"], row["verdict"]) == ("single run", "~")
    assert interval(row) == pytest.approx((1.04 / 1.087, 1.04 * 1.087), abs=5e-4)
    assert interval(row) == pytest.approx(slow.single(100, 104), abs=5e-4)
    assert said.states == wanted


def test_what_cannot_be_told_fails_or_passes(tmp_path: Path) -> None:
    runs = sides(tmp_path, of_lengths([100]), of_lengths([104]))
    limit = f"{SUM}:3%"
    for options, status in (({}, 4), ({"inconclusive": "pass"}, 0)):
        said = ask(runs, (), [limit], **options)
        assert (said.states, said.result.exit_status) == ({limit: "inconclusive"}, status)
    with pytest.raises(UsageError, match="pass"):
        api.compare(*runs, fail_on=[limit], inconclusive="ignore")


def test_two_values_far_apart_differ(tmp_path: Path) -> None:
    """1.1 / 1.087 is beyond 1, and 1.1 * 1.087 is 1.195."""
    runs = sides(tmp_path, of_lengths([100]), of_lengths([110]))
    wanted = {f"{SUM}:3%": "exceeded", f"{SUM}:11%": "inconclusive", f"{SUM}:20%": "within"}
    said = ask(runs, ("overview",), wanted)
    assert said.row("overview")["verdict"] == "worse"
    assert said.states == wanted
    # What is exceeded is not let pass with what cannot be told.
    assert ask(runs, (), wanted, inconclusive="pass").result.exit_status == 1


def test_who_knows_how_runs_differ_sees_more(tmp_path: Path) -> None:
    runs = sides(tmp_path, of_lengths([100]), of_lengths([104]))
    limit = f"{SUM}:3%"
    for noise, verdict, state in (("0.3%", "worse", "exceeded"), ("3%", "~", "inconclusive")):
        said = ask(runs, ("overview",), [limit], run_noise=noise)
        row = said.row("overview")
        expected = slow.single(100, 104, float(noise.rstrip("%")) / 100)
        assert (row["verdict"], interval(row)) == (verdict, pytest.approx(expected, abs=5e-4))
        assert said.states == {limit: state}


@pytest.mark.parametrize("word", ["much", "-1%", "3ms", "", "0.3%%"])
def test_run_noise_that_is_no_share(word: str, tmp_path: Path) -> None:
    runs = sides(tmp_path, of_lengths([100]), of_lengths([104]))
    with pytest.raises(UsageError, match=r"0\.3%"):
        api.compare(*runs, run_noise=word)


def test_extremes_of_one_run_a_side_have_no_interval(tmp_path: Path) -> None:
    runs = sides(tmp_path, of_steps([10.0] * 40), of_steps([13.0] * 40))
    limit = "kernels.max_ns:3%"
    said = ask(runs, ("kernels",), [limit])
    row = said.row("kernels")
    assert row["verdict"] == "worse"
    for measure in ("max_ns", "min_ns", "med_ns"):
        assert row[f"verdict_{measure}"] == "~", measure
        assert interval(row, measure) == (None, None), measure
    assert said.states == {limit: "inconclusive"}


@pytest.mark.parametrize(
    ("name", "pair"), few(list(product(BY_STEP, product(WITH_STEPS, WITH_STEPS))), 2), ids=str
)
def test_steps_of_one_run_a_side(name: str, pair: Pair, tmp_path: Path) -> None:
    base, other, expected, _ = BY_STEP[name]
    runs = sides(tmp_path, of_steps(base), of_steps(other), pair)
    change = 100 * (mean(other) / mean(base) - 1)
    floor = 0.01 if {*pair} <= {*WITH_UUID} else 0.03
    same_number = len(base) == len(other)
    assert slow.within(base, other, 0.01) == near(expected)
    for options, known in (({}, floor), ({"run_noise": "0.3%"}, 0.003)):
        found = slow.within(base, other, known)
        state, verdict = slow.state(found, change, 3), slow.verdict(found)
        wanted = {
            "kernels.per_step_ns:3%": state, f"{AVG}:3%": state,
            f"{SUM}:3%": state if same_number else "inconclusive",
        }  # fmt: skip
        said = ask(runs, ("kernels", "overview"), wanted, **options)
        row = said.row("kernels")
        assert row["basis"] == "within run"
        for measure in ("per_step_ns", "avg_ns"):
            assert interval(row, measure) == near(found), measure
            assert row[f"verdict_{measure}"] == verdict
        # Of other numbers of steps, rows are judged by what a step takes, where a column says that.
        assert (row["verdict"], interval(row)) == (verdict, near(found))
        row = said.row("overview")
        assert row["verdict"] == (verdict if same_number else None)
        assert interval(row) == (near(found) if same_number else (None, None))
        assert said.states == wanted


def of_step_lengths(values: Sequence[float]) -> list[Workload]:
    """One run whose steps last so many units of 100 us; kernels are the same in all of them."""
    lengths = [round(value * 100_000) for value in values]
    return [run_of([[Launch(SAXPY, 5_000)]] * len(values), step_ns=lengths)]


@pytest.mark.parametrize(("name", "source"), few(list(product(BY_STEP, ("nsys", "kineto"))), 2))
def test_lengths_of_steps_themselves(name: str, source: str, tmp_path: Path) -> None:
    """The host is as slow as that."""
    base, other, expected, state = BY_STEP[name]
    runs = sides(tmp_path, of_step_lengths(base), of_step_lengths(other), (source, source))
    same_number = len(base) == len(other)
    wanted = {"steps.avg_ns:3%": state, "steps.dur_ns:3%": state if same_number else "inconclusive"}
    said = ask(runs, ("steps",), wanted, run_noise="1%")
    row = said.row("steps")
    assert (row["basis"], row["verdict_dur_ns"] is None) == ("within run", not same_number)
    assert interval(row, "avg_ns") == near(expected)
    assert row["verdict_avg_ns"] == slow.verdict(expected)
    assert said.states == wanted


@pytest.mark.parametrize("name", few(BY_STEP, 2))
def test_the_usual_step(name: str, tmp_path: Path) -> None:
    base, other, _, _ = BY_STEP[name]
    expected = slow.trimmed_within(base, other, 0.01)
    change = 100 * (slow.trimmed(other) / slow.trimmed(base) - 1)
    wanted = {"steps.trimmed_ns:3%": slow.state(expected, change, 3)}
    runs = sides(tmp_path, of_step_lengths(base), of_step_lengths(other))
    said = ask(runs, ("steps",), wanted, run_noise="1%")
    row = said.row("steps")
    assert interval(row, "trimmed_ns") == near(expected)
    assert row["verdict_trimmed_ns"] == slow.verdict(expected)
    assert said.states == wanted


@pytest.mark.parametrize("name", few(BY_STEP, 2))
def test_calls_by_step(name: str, tmp_path: Path) -> None:
    """The driver is as slow as that; kernels are the same in all steps."""
    base, other, expected, state = BY_STEP[name]
    runs = sides(
        tmp_path,
        *([run_of([[Launch(SAXPY, 5_000, call_ns=round(value * 100_000))] for value in each])]
          for each in (base, other)),
    )  # fmt: skip
    same_number = len(base) == len(other)
    limit = "api_vs_kernel[/LaunchKernel/]"
    wanted = {f"{limit}.per_step_ns:3%": state,
              f"{limit}.api_sum_ns:3%": state if same_number else "inconclusive"}  # fmt: skip
    said = ask(runs, ("api_vs_kernel",), wanted, run_noise="1%")
    row = said.row("api_vs_kernel", "cudaLaunchKernel")
    assert row["basis"] == "within run"
    assert interval(row, "per_step_ns") == near(expected)
    assert said.states == wanted


def test_of_nineteen_steps_nothing_is_computed(tmp_path: Path) -> None:
    """One value is left of each side: 8.7 % to either way, whatever the steps look like."""
    base, other = slow.by(10, p(19, 0.02)), slow.by(10, q(19, 0.02))
    limit = f"{SUM}:3%"
    said = ask(sides(tmp_path, of_steps(base), of_steps(other)), ("overview",), [limit])
    row = said.row("overview")
    assert (row["basis"], row["verdict"]) == ("single run", "~")
    assert interval(row) == pytest.approx(slow.single(mean(base), mean(other)), abs=5e-4)
    assert said.states == {limit: "inconclusive"}
