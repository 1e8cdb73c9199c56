"""One program recorded in three processes, whose host ran at other speeds: no limit is exceeded."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import few

from nsysconv import compare

RECORDED = Path(__file__).parent / "recorded"
RUNS = "034"
LIMITS = (
    "overview.kernel_count:0",
    "transfers.bytes_sum:0%",
    "overview.kernel_sum_ns:3%",
    "steps.period_ns:3%",
    "overview.window_ns:3%",
)
# The step takes 11.2, 9.3 and 7.5 ms, for the host's speed: three runs do not show that it is no change.
EXPECTED = ("within", "within", "within", "inconclusive", "inconclusive")


def _files(runs: str) -> str:
    return str(RECORDED / f"same-run[{runs}].json.gz")


SIDES = [(alone, "".join(run for run in RUNS if run != alone)) for alone in RUNS]


@pytest.mark.parametrize(("base", "other"), few([*SIDES, *(pair[::-1] for pair in SIDES)], 1))
def test_one_run_and_two_of_a_program_differ_in_nothing(base: str, other: str) -> None:
    limits = compare(_files(base), _files(other), reports=["overview"], fail_on=LIMITS).reports[-1]
    states = [(row["limit"], row["state"]) for row in limits.rows()]
    assert states == [*zip(LIMITS, EXPECTED, strict=True)]
