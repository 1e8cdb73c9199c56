"""What runs are assumed to differ by: kernels little, the host more, waits by nobody knows what."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import few
from diff_asking import of_steps, sides

from nsysconv import compare
from nsysconv.diff.noise import HOST_COLUMNS, HOST_RUN_NOISE, RunNoise, waits_for_the_host
from nsysconv.diff.rows import ALL_STEPS
from nsysconv.queries.registry import query
from nsysconv.timeline.account import CLASSES, Account, TimeSpan

RECORDED = Path(__file__).parent / "recorded"
SAME = [RECORDED / f"same-run{i}.json.gz" for i in (3, 0, 4)]
# What is said of three processes of one program. The step takes 11.2, 9.3 and 7.5 ms, as fast as the host
# is: three runs do not show that it is no change.
LIMITS = {
    "overview.kernel_count:0": "within", "transfers.bytes_sum:0%": "within",
    "overview.kernel_sum_ns:3%": "within", "steps.period_ns:3%": "inconclusive",
    "overview.window_ns:3%": "inconclusive",
}  # fmt: skip


def idle(**parts: int) -> Account:
    times = dict.fromkeys(CLASSES, 0) | {f"idle_{name}": value for name, value in parts.items()}
    return Account(0, None, TimeSpan(0, 1000), times, (), frozenset())


def test_columns_that_the_host_makes_exist() -> None:
    for report, makers in HOST_COLUMNS.items():
        columns = {column.name for column in query(report).columns}
        columns |= {column.name for column in ALL_STEPS} if report == "steps" else set()
        named = [name for names in makers.values() for name in names]
        assert columns.issuperset(named), report
        assert len({*named}) == len(named), report


@pytest.mark.parametrize(
    ("column", "by_step", "expected"),
    [
        ("overview.kernel_sum_ns", True, 0.01),
        ("overview.kernel_sum_ns", False, 0.03),
        ("api_vs_kernel.api_sum_ns", True, 0.1),
        ("api_vs_kernel.kernel_sum_ns", False, 0.03),
        ("steps.period_ns", True, 0.2),
        ("overview.window_ns", False, 0.2),
        ("overview.idle_pct", False, None),
        ("idle_summary.gap_count", False, None),
        ("no report.made_up", False, 0.03),
    ],
)
def test_noise_is_that_of_who_makes_a_column(column: str, by_step: bool, expected: float | None) -> None:
    noise = RunNoise(stepped=0.01, single=0.03, host=0.1, span=0.2)
    assert noise.of(*column.split("."), by_step=by_step) == expected
    assert RunNoise.known(0.004).of(*column.split("."), by_step=by_step) == 0.004


def test_steps_vary_as_the_gpu_does_where_it_does_not_wait_for_the_host() -> None:
    assert RunNoise(stepped=0.01, single=0.03).of("steps", "period_ns", by_step=True) == 0.01
    assert not waits_for_the_host([idle(host=60, launch=30, unknown=10), idle(queue=900, end=100)])
    assert waits_for_the_host([idle(), idle(host=60, launch=30, unknown=11)])


@pytest.mark.parametrize(("base", "other"), few(pairwise(SAME), 1))
def test_one_program_in_three_processes_is_not_slower(base: Path, other: Path) -> None:
    """Its host ran at other speeds: 11.2, 9.3 and 7.5 ms a step; kernels took 137.2 ms in all of them."""
    found = compare(base, other)
    assert found.answer.startswith("inconclusive: step period")
    # 1.96 x 0.1 x sqrt(2) either way, and 1.4 times that, and the noise of steps.
    assert "1 run per side cannot show changes below" in found.answer
    assert found.headline.rows()[0]["smallest_visible_pct"] > 100 * 2.7 * HOST_RUN_NOISE
    reports = {report.name: report for report in found.reports}
    for name in ("diff_idle_host", "diff_idle_summary", "diff_steps", "diff_overview"):
        assert {row["verdict"] for row in reports[name].rows()} <= {"~", "same"}, name


ONE_AND_TWO = [(alone, "034".replace(alone, "")) for alone in "034"]


@pytest.mark.parametrize(("base", "other"), few([*ONE_AND_TWO, *(pair[::-1] for pair in ONE_AND_TWO)], 1))
def test_one_run_and_two_of_a_program_differ_in_nothing(base: str, other: str) -> None:
    files = (str(RECORDED / f"same-run[{runs}].json.gz") for runs in (base, other))
    limits = compare(*files, reports=["overview"], fail_on=LIMITS).reports[-1]
    assert {row["limit"]: row["state"] for row in limits.rows()} == LIMITS


def test_by_default_it_is_said_which_noise_would_have_to_be_ruled_out(tmp_path: Path) -> None:
    """Of 2 % in 200 steps that vary by 2 %."""
    random = np.random.default_rng(7)
    runs = (factor * (1 + 0.02 * random.normal(size=200)) for factor in (1, 1.02))
    pair = sides(tmp_path, *map(of_steps, runs))
    answer = compare(*pair, ["steps"]).answer
    assert answer.startswith("inconclusive")
    noise = float(answer.partition("run-to-run noise of ")[2].partition(" %")[0])
    # At what is said it is found, and not with a little more.
    for known, word in ((f"{noise}%", "slower"), (f"{noise + 0.02:.2f}%", "inconclusive")):
        assert compare(*pair, ["steps"], run_noise=known).answer.startswith(word)
