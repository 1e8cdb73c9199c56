"""Profiles that are no run, or have no GPU work: what is said of them, and how they are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FIXTURES
from run_command import run
from small_store import PID, Call, Kernel, Range, write

import nsysconv
from nsysconv.facts import Fact

KERNELS = {0: 400_000, 1: 1_000_000}


def two(tmp_path: Path, names: dict[int, str | None], *, ranked: bool = True) -> Path:
    """A folder with a store of two profiles of one run, whose second one computes for longer."""
    store = tmp_path / "two.db"
    for rank, end in KERNELS.items():
        name = names[rank]
        write(
            store, Kernel(0, end), Range(0, 1_000_000, "all"), label=f"p{rank}", run="both",
            ranks={PID: rank} if ranked else None, gpus={0: {"name": name}},
        )  # fmt: skip
    return store


@pytest.mark.parametrize(("names", "is_run"), [
    ({0: "A100", 1: "A100"}, True), ({0: "A100", 1: "H100"}, False),
    # A name that is not recorded is no other name.
    ({0: "A100", 1: None}, True),
])  # fmt: skip
def test_checks_on_ranks_need_gpus_that_may_be_of_one_run(
    names: dict[int, str | None], is_run: bool, tmp_path: Path
) -> None:
    (report,) = nsysconv.report_on(two(tmp_path, names), "findings")
    assert ("rank_imbalance" in {row["rule"] for row in report.rows()}) == is_run
    said = run("two.db", cwd=tmp_path).out
    assert ("not known to be ranks of one run" not in said) == is_run


def test_profiles_without_ranks_have_their_names(tmp_path: Path) -> None:
    two(tmp_path, {0: "A100", 1: "A100"}, ranked=False)
    lines = run("two.db", cwd=tmp_path).out.splitlines()
    place = lines.index("2 profiles that are not known to be ranks of one run:")
    assert [line.split(maxsplit=1)[1] for line in lines[place + 1 : place + 3]] == [
        "p0: busy for 40.0 % of 1.00 ms, A100", "p1: busy for 100.0 % of 1.00 ms, A100"]  # fmt: skip


def test_recordings_of_one_rank_are_no_ranks(tmp_path: Path) -> None:
    for name, end in (("one", 400_000), ("two", 1_000_000)):
        rows = Kernel(0, end), Kernel(1_900_000, 2_000_000), Range(0, 2_000_000, "all")
        write(tmp_path / "runs.db", *rows, label=name, run="both", ranks={PID: 1})
    said = run("runs.db", cwd=tmp_path).out
    assert "2 profiles that are not known to be ranks of one run:" in said
    assert "one: busy for 25.0 % of 2.00 ms" in said
    assert "(one, GPU 0; on 2 GPUs)" in said
    assert "rank 1" not in said


def on_host(path: Path, end: int) -> None:
    """A profile without a GPU: a range of so many ns, and a call in it."""
    holds = {Fact.API_CALLS, Fact.THREADS, Fact.RANGES}
    write(path, Range(0, end, "load"), Call(10, 20, name="cudaGetDeviceCount"), holds=holds)


def test_the_hosts_own_time_is_said_and_compared(tmp_path: Path) -> None:
    on_host(tmp_path / "a.db", 1000)
    on_host(tmp_path / "b.db", 3000)
    lines = run("a.db", cwd=tmp_path).out.splitlines()
    assert lines[0] == "a.db has no timed GPU work. Where the host's time went:"
    assert "     1.00 µs  100.0 %  load" in lines
    compared = nsysconv.compare(tmp_path / "a.db", tmp_path / "b.db")
    ranges = next(each for each in compared.reports if each.name == "diff_ranges")
    (row,) = ranges.rows()
    assert (row["path"], row["base_range_sum_ns"], row["other_range_sum_ns"]) == ("load", 1000, 3000)
    assert compared.answer.startswith("inconclusive: ")


def test_a_recording_without_a_gpu_is_the_same_as_itself() -> None:
    trace = FIXTURES / "kineto" / "no_gpu-2.13.json"
    assert nsysconv.compare(trace, trace).answer == "same: both sides are the same recording"
