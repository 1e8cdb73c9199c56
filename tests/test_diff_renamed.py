"""Kernels that got another name are set against each other before a limit on rows speaks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, real
from diff_asking import ask, sides
from diff_workloads import SOURCES, Launch, run_of
from golden_cases import run
from machine import SAXPY
from small_store import Kernel, Memcpy, Range, Row, write
from workload import Function, Workload

from nsysconv import api

EXACT = {"run_noise": "0%"}


def training(**kernels: int) -> list[Row]:
    """Ten steps of 1 ms, each with kernels of these lengths in us, one after the other."""
    rows: list[Row] = []
    for step in range(10):
        at = step * 1_000_000
        rows.append(Range(at, at + 900_000, f"ProfilerStep#{step}"))
        for name, length in kernels.items():
            rows.append(Kernel(at, at + length * 1000, name=name))
            at += length * 1000
    return rows


def judged(folder: Path, base: list[Row], other: list[Row], *limits: str) -> dict[str, Any]:
    """What is said of each limit: its state, and what may have been renamed."""
    for name, rows in (("base", base), ("other", other)):
        (folder / f"{name}.db").unlink(missing_ok=True)
        write(folder / f"{name}.db", *rows)
    result = api.compare(folder / "base.db", folder / "other.db", ["kernels"], fail_on=limits, **EXACT)
    return {row["limit"]: (row["state"], row["renamed"]) for row in result.reports[-1].rows()}


SUM, EACH = "kernels.kernel_sum_ns:3%", "kernels.per_step_ns:5%"


def test_kernels_that_are_numbered_anew_are_set_against_each_other(tmp_path: Path) -> None:
    """300 us in base only, 303 in other only: 1 % more."""
    base = training(gemm=100, triton_red_fused_norm_4=300)
    other = training(gemm=100, triton_red_fused_norm_5=303)
    renamed = "triton_red_fused_norm_4 → triton_red_fused_norm_5"
    limits = (SUM, EACH,
              "kernels[/norm/].kernel_sum_ns:3%", "kernels.avg_ns:3%", "kernels.kernel_count:0")
    assert judged(tmp_path, base, other, *limits) == dict.fromkeys(limits, ("within", renamed))
    # Of that name alone there is nothing to set it against.
    alone = "kernels[/norm_5/].kernel_sum_ns:3%"
    assert judged(tmp_path, base, other, alone) == {alone: ("exceeded", None)}


def test_what_became_slower_under_another_name_exceeds_as_before(tmp_path: Path) -> None:
    """300 us became 330: 10 % more."""
    base, other = training(gemm=100, gemm_a=300), training(gemm=100, gemm_v2=330)
    assert judged(tmp_path, base, other, SUM) == {SUM: ("exceeded", None)}
    result = api.compare(tmp_path / "base.db", tmp_path / "other.db", fail_on=[SUM], **EXACT)
    (row,) = result.reports[-1].rows()
    assert (row["row"], row["base"], row["other"]) == ("gemm_v2", "0 ns", "3.30 ms")
    loose = "kernels.kernel_sum_ns:11%"
    assert judged(tmp_path, base, other, loose) == {loose: ("within", "gemm_a → gemm_v2")}


def test_several_kernels_of_a_category_are_one_sum(tmp_path: Path) -> None:
    """100 + 200 us of two kernels became 140 + 100 + 60 of three."""
    base = training(gemm_a=100, gemm_b=200, relu=50)
    other = training(gemm_c=140, gemm_d=100, gemm_e=60, relu=50)
    names = "gemm_b, gemm_a → gemm_c, gemm_d and 1 more"
    assert judged(tmp_path, base, other, SUM, EACH) == {SUM: ("within", names), EACH: ("within", names)}
    # A mean of several kernels is that of none of them.
    mean = "kernels.avg_ns:3%"
    assert judged(tmp_path, base, other, mean) == {mean: ("inconclusive", None)}


def test_a_kernel_of_another_category_is_a_new_one(tmp_path: Path) -> None:
    """The matrix product is gone; a softmax of the same length is new."""
    base, other = training(relu=100, gemm=200), training(relu=100, softmax=200)
    assert judged(tmp_path, base, other, SUM) == {SUM: ("exceeded", None)}


def test_a_kernel_of_another_rank_is_a_new_one(tmp_path: Path) -> None:
    """Rank 0 had it, rank 1 has another one now."""
    for name, works in (("base", ("gemm_a", "gemm")), ("other", ("gemm", "gemm_b"))):
        for rank, work in enumerate(works):
            rows = training(**{"gemm": 100, work: 200})
            write(tmp_path / f"{name}.db", *rows, ranks={1: rank}, label=f"rank {rank}", run=name)
    result = api.compare(tmp_path / "base.db", tmp_path / "other.db", fail_on=[SUM], **EXACT)
    (row,) = result.reports[-1].rows()
    assert (row["state"], row["row"], row["renamed"]) == ("exceeded", "gemm_b", None)


def test_other_tables_are_one_sum(tmp_path: Path) -> None:
    """Copies from pageable memory are from pinned memory now, as many bytes."""
    limit = "transfers.memcpy_sum_ns:3%"
    base = [*training(gemm=100), Memcpy(100_000, 150_000, src="Pageable")]
    other = [*training(gemm=100), Memcpy(100_000, 150_000, src="Pinned")]
    (state, renamed) = judged(tmp_path, base, other, limit)[limit]
    assert (state, "Pageable" in renamed) == ("within", True)


@pytest.mark.parametrize("source", SOURCES)
def test_of_every_source(source: str, tmp_path: Path) -> None:
    """A kernel under another name, of a sixth of the time."""

    def works(name: str, *lengths: int) -> Workload:
        other = Function(name, name, name, name)
        return run_of([[Launch(SAXPY, 500_000), Launch(other, length)] for length in lengths])

    pair = sides(tmp_path, [works("norm_4", *[100_000] * 5)], [works("norm_5", *[101_000] * 5)],
                 (source, source))  # fmt: skip
    (row,) = ask(pair, limits=["kernels.kernel_sum_ns:3%"], **EXACT).limits.values()
    assert (row["state"], row["renamed"]) == ("within", "norm_4 → norm_5")


def test_the_comment_names_the_renamed(tmp_path: Path) -> None:
    judged(tmp_path, training(gemm=300, relu=9), training(gemm_v2=300, relu=9), SUM)
    outcome = run("diff", "base.db", "other.db", "--fail-on", SUM, "--run-noise", "0%",
                  "-f", "markdown", "--brief", cwd=tmp_path)  # fmt: skip
    assert outcome.status == 0
    assert "within: 1 of 1 limits; renamed? `gemm → gemm_v2`" in outcome.out


@pytest.mark.parametrize("source", SOURCES)
def test_a_recording_against_itself_is_within_every_limit(source: str, tmp_path: Path) -> None:
    """Though one run per side shows nothing of how runs differ."""
    path = SOURCES[source](run_of([[Launch(SAXPY, 500_000)]] * 2), tmp_path)
    limits = ["kernels.avg_ns:0%", "kernels.kernel_sum_ns:0%", "kernels.med_ns:0%",
              "overview.idle_pct:0pp"]  # fmt: skip
    copy = Path(f"{path.with_name('copy')}{path.suffix}")
    shutil.copyfile(path, copy)
    api.import_files([path], tmp_path / "base.db")
    for base, other in ((path, path), (path, copy), (tmp_path / "base.db", tmp_path / "base.db")):
        assert api.compare(base, other, fail_on=limits).exit_status == 0


@real
@pytest.mark.parametrize("name", ["b76_base.json", "b61.sqlite"])
def test_a_real_recording_against_itself(name: str) -> None:
    path = REAL / "bug_reports" / name
    limits = ["kernels.avg_ns:0%", "overview.idle_pct:0pp"]
    assert api.compare(path, path, fail_on=limits).exit_status == 0
