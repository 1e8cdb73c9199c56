"""Changes of one kind each, planted into whole runs: what is said of every column, limit and run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import slow_intervals as slow
from conftest import REAL, few, real
from diff_asking import (
    SUM,
    WITH_STEPS,
    WITH_UUID,
    Pair,
    ask,
    interval,
    near,
    of_lengths,
    of_steps,
    pairs,
    pairs_with_steps,
    sides,
    states,
)
from diff_workloads import CHANGES, LATE_NS, SOURCES, Copy, Launch, run_of, training
from machine import APPLY, REDUCE, SAXPY
from slow_intervals import FIVE_MORE, HUNDRED, REPEATED
from workload import Workload

from nsysconv import api

pytestmark = pytest.mark.usefixtures("demangled")

# Noise of runs: parts in a thousand, mean 0.
NOISE = (4, -5, 2, -3, 2)


def longer(length: int, per_mille: int) -> int:
    return length * (1000 + per_mille) // 1000


# -- what is counted, and not measured


@pytest.mark.parametrize("source", few(WITH_STEPS, 2))
def test_more_launches_are_counted(source: str, tmp_path: Path) -> None:
    """Every fourth of 20 steps launches six kernels, not five, each as long as before.

    The sum is 1.05 times the mean's interval, which is that of the floor.
    """
    launch = Launch(SAXPY, 50_000)
    base = run_of([[launch] * 5] * 20)
    other = run_of([[launch] * (6 if i % 4 == 0 else 5) for i in range(20)])
    runs = sides(tmp_path, [base], [other], (source, source))
    half = 1.96 * math.sqrt(2) * (0.01 if source in WITH_UUID else 0.03)
    expected = 1.05 * math.exp(-half), 1.05 * math.exp(half)
    wanted = {
        "kernels.kernel_count:3%": "exceeded", "kernels.kernel_count:4": "exceeded",
        "kernels.kernel_count:5": "within", "kernels.kernel_count:5%": "within",
        "kernels.kernel_sum_ns:3%": slow.state(expected, 5.0, 3),
        "kernels.avg_ns:3%": "within" if source in WITH_UUID else "inconclusive",
    }  # fmt: skip
    said = ask(runs, ("kernels",), wanted)
    row = said.row("kernels")
    assert (row["base_kernel_count"], row["other_kernel_count"]) == (100, 105)
    assert (row["by_count_kernel_sum_ns"], row["by_mean_kernel_sum_ns"]) == (5 * 50_000, 0)
    assert row["verdict_kernel_count"] == "worse"
    assert source not in WITH_UUID or expected == pytest.approx((1.0213, 1.0795), abs=5e-5)
    assert (interval(row), row["verdict"]) == (near(expected), slow.verdict(expected))
    assert said.states == wanted
    # Fewer are no change for the worse.
    said = ask((runs[1], runs[0]), ("kernels",), ["kernels.kernel_count:0%"])
    assert said.row("kernels")["verdict_kernel_count"] == "better"
    assert said.states == {"kernels.kernel_count:0%": "within"}


def test_counts_of_repeats_are_noise_where_these_disagree(tmp_path: Path) -> None:
    def runs(*counts: int) -> list[Workload]:
        return [run_of([[Launch(SAXPY, 50_000)] * count]) for count in counts]

    limit = "kernels.kernel_count:3%"
    said = ask(sides(tmp_path / "a", runs(100, 100, 100), runs(105, 105, 105)), ("kernels",), [limit])
    assert said.row("kernels")["verdict_kernel_count"] == "worse"
    assert said.states == {limit: "exceeded"}
    low, _ = slow.difference_of_repeats([95, 100, 105], [98, 105, 112])
    assert low < 0
    said = ask(sides(tmp_path / "b", runs(95, 100, 105), runs(98, 105, 112)), ("kernels",), [limit])
    assert said.row("kernels")["verdict_kernel_count"] == "~"
    assert said.states == {limit: "inconclusive"}


@pairs_with_steps
def test_more_copies(pair: Pair, tmp_path: Path) -> None:
    """Five for three. Bytes are exact; of the time there is one value per side, more than 8.7 % up."""
    work = [*[Copy(10_000)] * 3, Launch(SAXPY, 50_000)]
    base, other = run_of([work] * 20), run_of([[*[Copy(10_000)] * 2, *work]] * 20)
    wanted = {
        "overview.memcpy_sum_ns:3%": "exceeded", "overview.memcpy_count:3%": "exceeded",
        "transfers.bytes_sum:66%": "exceeded", "transfers.bytes_sum:67%": "within",
    }  # fmt: skip
    said = ask(sides(tmp_path, [base], [other], pair), ("transfers", "overview"), wanted)
    assert said.row("transfers")["verdict_bytes_sum"] == "worse"
    row = said.row("overview")
    assert (row["verdict_memcpy_sum_ns"], row["verdict_memcpy_count"]) == ("worse", "worse")
    assert said.states == wanted


# -- each column by itself


def host_later(folder: Path, pair: Pair, noise: Sequence[int] = NOISE[:3]) -> Pair:
    """20 steps, of which the other side begins each 300 us later; kernels vary alike on both sides."""

    def run(per_mille: int, between_ns: int) -> Workload:
        step = [Launch(SAXPY, longer(200_000, per_mille)), Launch(REDUCE, longer(100_000, per_mille))]
        return run_of([step] * 20, between_ns=between_ns)

    base, other = ([run(each, between) for each in noise] for between in (10_000, 310_000))
    return sides(folder, base, other, pair)


@pairs_with_steps
def test_time_between_steps_is_in_the_window_and_in_their_period_alone(
    pair: Pair, tmp_path: Path
) -> None:
    wanted = {
        "steps.between_ns:3%": "exceeded", "steps.period_ns:3%": "exceeded",
        "steps.avg_ns:3%": "within", "steps.dur_ns:3%": "within",
        "overview.window_ns:3%": "exceeded", "overview.idle_ns:3%": "exceeded",
        "overview.idle_pct:1pp": "exceeded", f"{SUM}:3%": "within",
        "overview.kernel_union_ns:3%": "within", "kernels.avg_ns:3%": "within",
    }  # fmt: skip
    said = ask(host_later(tmp_path, pair), ("overview", "kernels", "steps"), wanted)
    assert said.result.answer.startswith("slower")
    row = said.row("overview")
    assert row["basis"] == "repeats"
    worse = ("verdict_window_ns", "verdict_idle_ns", "verdict_idle_pct")
    assert [row[name] for name in worse] == ["worse"] * 3
    assert (row["verdict"], row["verdict_kernel_union_ns"]) == ("same", "same")
    # All that is left to say of kernels is that they are as they were.
    assert [each for each in said.rows["kernels"] if each["diff_kernel_sum_ns"]] == []
    assert said.states == wanted
    row = said.row("steps")
    assert (row["verdict_between_ns"], row["verdict_period_ns"]) == ("worse", "worse")
    assert (row["diff_between_ns"], row["verdict_avg_ns"]) == (19 * 300_000, "same")


def test_a_change_below_three_percent_is_the_same(tmp_path: Path) -> None:
    """Kernels are 0.5 % longer, give or take 0.5; the window is twice as long."""

    def run(per_mille: int, between_ns: int) -> Workload:
        return run_of([[Launch(SAXPY, longer(200_000, per_mille))]] * 20, between_ns=between_ns)

    base = [run(each, 10_000) for each in NOISE]
    other = [run(each + 5, 310_000) for each in NOISE]
    expected = slow.repeats([1000 + each for each in NOISE], [1005 + each for each in NOISE])
    assert expected[0] < 1 < expected[1]
    assert slow.verdict(expected) == "same"
    row = ask(sides(tmp_path, base, other), ("overview",)).row("overview")
    assert (row["verdict"], row["verdict_window_ns"]) == ("same", "worse")
    assert interval(row) == near(expected)


@pairs
def test_time_between_steps_of_one_run_a_side(pair: Pair, tmp_path: Path) -> None:
    """The window is nearly twice as long, far beyond 32 %; of idle time one run shows nothing."""
    wanted = {"overview.window_ns:3%": "exceeded", "overview.idle_pct:1pp": "inconclusive"}
    said = ask(host_later(tmp_path, pair, [0]), ("overview",), wanted)
    row = said.row("overview")
    assert (row["verdict_window_ns"], row["verdict_idle_pct"]) == ("worse", "~")
    assert said.states == wanted


@pairs
def test_one_new_gap(pair: Pair, tmp_path: Path) -> None:
    """500 us in 10 ms: of one run per side this may be how runs differ, of three alike it cannot."""
    assert LATE_NS == 500_000
    limits = ("overview.window_ns:3%", "overview.window_ns:100us")
    one = sides(tmp_path / "one", [training()], [training(CHANGES["waiting"])], pair)
    assert states(one, limits) == dict.fromkeys(limits, "inconclusive")
    three = sides(tmp_path / "three", [training()] * 3, [training(CHANGES["waiting"])] * 3, pair)
    assert states(three, limits) == dict.fromkeys(limits, "exceeded")


# -- other numbers of steps


@pytest.mark.parametrize(
    ("steps", "basis"), few([((20, 10), "single run"), ((40, 20), "within run")], 1)
)
@pairs_with_steps
def test_half_the_steps_each_slower(
    pair: Pair, steps: tuple[int, int], basis: str, tmp_path: Path
) -> None:
    """35 % less in sum, and 30 % more in each step."""
    runs = sides(tmp_path, of_steps([10.0] * steps[0]), of_steps([13.0] * steps[1]), pair)
    sums = (SUM, "overview.window_ns", "kernels.kernel_sum_ns", "kernels.kernel_count",
            "steps.dur_ns", "api_vs_kernel.api_sum_ns")  # fmt: skip
    means = ("kernels.per_step_ns", "kernels.avg_ns", "steps.avg_ns")
    wanted = {f"{name}:3%": "inconclusive" for name in sums}
    wanted["kernels.kernel_count:3%"] = "within"  # it is exact, and fewer
    wanted |= {f"{name}:3%": "exceeded" for name in means}
    said = ask(runs, ("kernels", "overview"), wanted)
    assert said.states == wanted
    assert "steps.avg_ns" in said.limits[f"{SUM}:3%"]["reason"]
    assert said.result.answer.startswith("slower")
    row = said.row("kernels")
    assert (row["basis"], row["verdict"], row["verdict_kernel_sum_ns"]) == (basis, "worse", None)
    half = 1.96 * math.sqrt(2) * (0.01 if basis == "within run" and "kineto" not in pair else 0.03)
    for measure in ("per_step_ns", "avg_ns"):
        assert row[f"verdict_{measure}"] == "worse"
        expected = 1.3 * math.exp(-half), 1.3 * math.exp(half)
        assert interval(row, measure) == pytest.approx(expected, abs=5e-4)
    row = said.row("overview")
    of_sums = ("verdict", "verdict_window_ns", "verdict_kernel_count", "verdict_kernel_union_ns")
    assert [row[name] for name in of_sums] == [None] * 4


def test_half_the_steps_each_as_long_are_not_faster(tmp_path: Path) -> None:
    runs = sides(tmp_path, of_steps([10.0] * 40), of_steps([10.0] * 20))
    assert not ask(runs).result.answer.startswith("faster")


def test_repeats_with_other_numbers_of_steps(tmp_path: Path) -> None:
    by_run = [[start + 0.01 * run for run in range(4)] for start in (10, 11)]
    base, other = ([of_steps([each] * count)[0] for each in values]
                   for values, count in zip(by_run, (12, 8), strict=True))  # fmt: skip
    wanted = {"kernels.kernel_sum_ns:3%": "inconclusive", "kernels.per_step_ns:3%": "exceeded",
              "kernels.per_step_ns:12%": "within"}  # fmt: skip
    said = ask(sides(tmp_path, base, other), ("kernels",), wanted)
    row = said.row("kernels")
    judged = row["verdict"], row["verdict_per_step_ns"], row["verdict_kernel_sum_ns"]
    assert (row["basis"], *judged) == ("repeats", "worse", "worse", None)
    assert interval(row, "per_step_ns") == near(slow.repeats(*by_run))
    assert said.states == wanted


@pytest.mark.parametrize(
    ("pair",), few([(("nvprof log", "nsys"),), (("kineto", "nvprof log"),)], 1), ids="-".join
)
def test_a_whole_profile_is_no_step(pair: Pair, tmp_path: Path) -> None:
    """One side has no annotation, and so nothing that could be compared with the other's steps."""
    runs = sides(tmp_path, of_steps([10.0] * 20), of_steps([9.0] * 20), pair)
    limits = ("steps.dur_ns:3%", "steps.avg_ns:3%", "kernels.per_step_ns:3%")
    said = ask(runs, ("steps", "kernels"), limits)
    assert said.states == dict.fromkeys(limits, "inconclusive")
    judged = {value for row in said.rows.get("steps", []) for name, value in row.items()
              if name.startswith("verdict")}  # fmt: skip
    assert judged <= {None}
    # Each kernel has one value per side: 0.9 * 1.087 is less than 1.
    assert said.row("kernels")["verdict_avg_ns"] == "better"


# -- differences and zero


@pairs
def test_percentages_differ_by_points(pair: Pair, tmp_path: Path) -> None:
    """8.0 8.4 8.2 against 9.9 10.3 10.4 %: 2.00 points more, 1.452 to 2.548."""
    base, other = (8.0, 8.4, 8.2), (9.9, 10.3, 10.4)
    assert slow.difference_of_repeats(base, other) == pytest.approx((1.452, 2.548), abs=5e-4)

    def run(idle_pct: float) -> Workload:
        """Two kernels with so much of a window of 10 ms between them; 3 us are for the second's call."""
        idle = round(10_000_000 * idle_pct / 100)
        busy = (10_000_000 - idle) // 2
        first = Launch(SAXPY, busy, then_idle_ns=idle - 3_000)
        return run_of([[first, Launch(SAXPY, 10_000_000 - idle - busy)]], annotated=False)

    runs = sides(tmp_path, [run(each) for each in base], [run(each) for each in other], pair)
    wanted = {
        "overview.idle_pct:1pp": "exceeded", "overview.idle_pct:1.9pp": "exceeded",
        "overview.idle_pct:2.1pp": "inconclusive", "overview.idle_pct:2.5pp": "inconclusive",
        "overview.idle_pct:2.6pp": "within",
    }  # fmt: skip
    said = ask(runs, ("overview",), wanted)
    row = said.row("overview")
    assert row["diff_idle_pct"] == pytest.approx(2.0)
    assert row["verdict_idle_pct"] == "worse"
    assert said.states == wanted


@pairs_with_steps
def test_what_comes_from_nothing_has_no_ratio(pair: Pair, tmp_path: Path) -> None:
    """0 0 0 against 3 5 4 ms: 4 ms more, 1.516 to 6.484."""
    assert slow.difference_of_repeats([0, 0, 0], [3, 5, 4]) == pytest.approx((1.516, 6.484), abs=5e-4)
    work = [Launch(SAXPY, 10_000_000)]
    other = [run_of([[*work, Launch(APPLY, ms * 1_000_000)]]) for ms in (3, 5, 4)]
    limit = "kernels[/apply/].kernel_sum_ns"
    wanted = {
        f"{limit}:3%": "exceeded", f"{limit}:300%": "exceeded", f"{limit}:3.9ms": "exceeded",
        f"{limit}:4.1ms": "inconclusive", f"{limit}:6.4ms": "inconclusive", f"{limit}:6.5ms": "within",
    }  # fmt: skip
    said = ask(sides(tmp_path, [run_of([work])] * 3, other, pair), ("kernels",), wanted)
    row = said.row("kernels", "apply")
    assert (row["where"], row["diff_kernel_sum_ns"]) == ("only in other", 4_000_000)
    assert (row["ratio_kernel_sum"], *interval(row)) == (None, None, None)
    assert row["verdict"] == "worse"
    assert said.states == wanted


# -- other sources, other orders


@pytest.mark.parametrize("source", few(SOURCES, 2))
def test_the_same_rows_in_another_order_are_no_change(source: str, tmp_path: Path) -> None:
    """Deviations that are added up in another order differ in their last digits."""
    run = run_of([[Launch(SAXPY, 1_000 + 7 * i % 501) for i in range(60)]])
    events = run.events
    turned = replace(
        run, events=replace(events, kernels=events.kernels[::-1], calls=events.calls[::-1])
    )
    runs = sides(tmp_path, [run], [turned], (source, source))
    said = ask(runs, ("overview", "kernels", "api_vs_kernel", "steps"))
    assert said.rows == {"overview": [], "kernels": [], "api_vs_kernel": [], "steps": []}


# -- unequal work where no step tells it


@pairs
def test_less_work_in_the_same_time_is_not_better(pair: Pair, tmp_path: Path) -> None:
    """Two cuts of 0.3 s, one with a tenth fewer kernels, each as long."""

    def run(launches: int) -> Workload:
        apart = 300_000_000 // (launches - 1)
        work = [Launch(SAXPY, 800_000, then_idle_ns=apart - 800_000 - 3_000)] * launches
        return run_of([work], annotated=False)

    limit = f"{SUM}:3%"
    said = ask(sides(tmp_path, [run(300)], [run(270)], pair), ("overview",), [limit])
    row = said.row("overview")
    assert row["ratio_kernel_sum"] == pytest.approx(0.9)
    assert row["ratio_window"] == pytest.approx(1.0, abs=1e-3)
    assert "better" not in [value for name, value in row.items() if name.startswith("verdict")]
    assert said.states == {limit: "inconclusive"}
    assert "work" in said.limits[limit]["reason"]
    assert not said.result.answer.startswith("faster")


@real
def test_two_cuts_of_a_training_run_are_not_faster() -> None:
    """300 ms each, before and after a change that made kernels shorter and the GPU wait."""
    before, after = (
        str(REAL / "nsys_sqlite" / f"GindaChen+nsys-ai__mfu_2gpu_{when}.sqlite")
        for when in ("before", "after")
    )
    limit = f"{SUM}:3%"
    said = ask((before, after), ("overview",), [limit])
    assert len(said.rows["overview"]) == 2
    for row in said.rows["overview"]:
        judged = {name: value for name, value in row.items() if name.startswith("verdict")}
        assert len(judged) > 4
        assert "better" not in judged.values(), judged
    assert (said.states, said.result.exit_status) == ({limit: "inconclusive"}, 4)
    assert "lost more" in said.limits[limit]["reason"]  # launches at the edges of the cuts
    assert not said.result.answer.startswith("faster")


# -- the answer, and what comes first


@pytest.mark.parametrize(
    ("base", "other", "word"),
    few([
        (HUNDRED, FIVE_MORE, "slower"), (FIVE_MORE, HUNDRED, "faster"),
        (HUNDRED, [101.0, 99.0, 100.0, 102.0, 100.0], "same"), ([100], [104], "inconclusive"),
        (HUNDRED, REPEATED["R5"][1], "inconclusive"), ([100], [120], "slower"),
    ], 2),
)  # fmt: skip
def test_the_answer(base: Sequence[float], other: Sequence[float], word: str, tmp_path: Path) -> None:
    runs = sides(tmp_path, of_lengths(base), of_lengths(other))
    found = api.compare(*runs)
    assert found.answer.startswith(word)
    assert "\n" not in found.answer
    names = [report.name.removeprefix("diff_") for report in found.reports]
    assert names[:2] == ["account", "contributors"]
