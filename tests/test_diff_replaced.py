"""What replaces is set against what it replaces before a limit speaks; what waits has no known noise."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, few, real
from diff_asking import ask, sides
from diff_workloads import SOURCES, Launch, run_of
from golden_cases import run
from machine import SAXPY
from small_store import Call, Kernel, Memcpy, Range, Row, write
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


def said(folder: Path, base: list[Row], other: list[Row], *limits: str) -> dict[str, Row]:
    """The rows on these limits."""
    for name, rows in (("base", base), ("other", other)):
        (folder / f"{name}.db").unlink(missing_ok=True)
        write(folder / f"{name}.db", *rows)
    result = api.compare(folder / "base.db", folder / "other.db", ["kernels"], fail_on=limits, **EXACT)
    return {row["limit"]: row for row in result.reports[-1].rows()}


def judged(folder: Path, base: list[Row], other: list[Row], *limits: str) -> dict[str, Any]:
    """What is said of each limit: its state, and what may have been renamed."""
    found = said(folder, base, other, *limits)
    return {limit: (row["state"], row["renamed"]) for limit, row in found.items()}


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
    loose = "kernels.kernel_sum_ns:11%"
    found = said(tmp_path, base, other, SUM, loose)
    row = found[SUM]
    assert (row["state"], row["renamed"]) == ("exceeded", None)
    assert (row["row"], row["base"], row["other"]) == ("gemm_v2", "0 ns", "3.30 ms")
    assert (found[loose]["state"], found[loose]["renamed"]) == ("within", "gemm_a → gemm_v2")


def test_several_kernels_of_a_category_are_one_sum(tmp_path: Path) -> None:
    """100 + 200 us of two kernels became 140 + 100 + 60 of three."""
    base = training(gemm_a=100, gemm_b=200, relu=50)
    other = training(gemm_c=140, gemm_d=100, gemm_e=60, relu=50)
    names = "gemm_b, gemm_a → gemm_c, gemm_d and 1 more"
    assert judged(tmp_path, base, other, SUM, EACH) == {SUM: ("within", names), EACH: ("within", names)}
    # A mean of several kernels is that of none of them.
    mean = "kernels.avg_ns:3%"
    assert judged(tmp_path, base, other, mean) == {mean: ("inconclusive", None)}


def test_calls_that_differ_are_of_no_one_recording(tmp_path: Path) -> None:
    """Though kernels, copies and the window are equal to the ns: allocations take 30 % longer."""
    for name, length in (("base", 20_000), ("other", 26_000)):
        calls = [Call(10_000 + 50_000 * i, 10_000 + 50_000 * i + length, 100 + i, name="cudaMalloc")
                 for i in range(10)]  # fmt: skip
        write(tmp_path / f"{name}.db", *training(gemm=100), *calls)
    limit = "api_vs_kernel[/cudaMalloc/].api_sum_ns:5%"
    result = api.compare(tmp_path / "base.db", tmp_path / "other.db", fail_on=[limit], **EXACT)
    assert result.exit_status == 1
    assert "same recording" not in result.answer


def test_a_pattern_chooses_a_row_by_either_spelling(tmp_path: Path) -> None:
    """An A100's calls are CUDA's, an MI300X's HIP's; both are one row."""
    for name, prefix, gpu in (("base", "cuda", "NVIDIA A100"), ("other", "hip", "AMD Instinct MI300X")):
        calls = [Call(1000 * i, 1000 * i + 500, 100 + i, name=f"{prefix}Malloc")
                 for i in range(10 if name == "base" else 12)]  # fmt: skip
        write(tmp_path / f"{name}.db", *training(gemm=100), *calls, gpus={0: {"name": gpu}})
    limits = [f"api_vs_kernel[/{prefix}Malloc/].call_count:0" for prefix in ("cuda", "hip")]
    result = api.compare(tmp_path / "base.db", tmp_path / "other.db", ["kernels"], fail_on=limits)
    found = [(row["state"], row["row"]) for row in result.reports[-1].rows()]
    assert found == [("exceeded", "runtime cudaMalloc"), ("exceeded", "runtime hipMalloc")]


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
    result = api.compare(tmp_path / "base.db", tmp_path / "other.db", ["kernels"], fail_on=[SUM], **EXACT)
    (row,) = result.reports[-1].rows()
    assert (row["state"], row["row"], row["renamed"]) == ("exceeded", "gemm_b", None)


# -- copies and calls


def copying(*copies: tuple[str, int, int], call: str = "cudaMemcpyAsync", call_us: int = 2) -> list[Row]:
    """A kernel, and copies to the device: of which memory, how many bytes, and how many us they take."""
    rows: list[Row] = [Kernel(0, 50_000, name="gemm", grid=(16, 1, 1))]
    for number, (memory, size, length) in enumerate(copies, 1):
        at = number * 100_000
        rows.append(Call(at, at + 1000 * call_us, number, name=call))
        rows.append(Memcpy(at + 5_000, at + 5_000 + 1000 * length, number, bytes=size, src=memory))
    return rows


BYTES, COPIES = "transfers.bytes_sum:0%", "transfers.memcpy_count:0"
COPY_TIME = "transfers.memcpy_sum_ns:3%"
PINNED = "HtoD Pageable Device → HtoD Pinned Device"


@pytest.mark.parametrize(
    ("other", "expected"),
    few([
        # As many bytes, in less time; in half the time; in 4 % more time; of 1 % more bytes; once more.
        ([("Pinned", 1000, 20)] * 10, {BYTES: "within", COPY_TIME: "within", COPIES: "within"}),
        ([("Pinned", 1000, 10)] * 10, {BYTES: "within", COPY_TIME: "within", COPIES: "within"}),
        ([("Pinned", 1000, 21)] * 10, {BYTES: "within", COPY_TIME: "exceeded", COPIES: "within"}),
        ([("Pinned", 1010, 10)] * 10, {BYTES: "exceeded", COPY_TIME: "within", COPIES: "within"}),
        ([("Pinned", 1000, 10)] * 11, {BYTES: "exceeded", COPY_TIME: "within", COPIES: "exceeded"}),
        # Nine of ten, and five of ten, are.
        ([("Pageable", 1000, 20), *[("Pinned", 1000, 20)] * 9],
         {BYTES: "within", COPY_TIME: "within", COPIES: "within"}),
        ([*[("Pageable", 1000, 20)] * 5, *[("Pinned", 1000, 20)] * 5],
         {BYTES: "within", COPY_TIME: "within", COPIES: "within"}),
        ([("Pageable", 1000, 20), *[("Pinned", 1120, 20)] * 9],
         {BYTES: "exceeded", COPY_TIME: "within", COPIES: "within"}),
    ], 5),
)  # fmt: skip
def test_pinned_for_pageable(
    other: list[tuple[str, int, int]], expected: dict[str, str], tmp_path: Path
) -> None:
    """Ten copies of 1000 bytes from pageable memory, 20 us each, are from pinned memory now."""
    base = copying(*[("Pageable", 1000, 20)] * 10)
    found = said(tmp_path, base, copying(*other), *expected)
    assert {limit: row["state"] for limit, row in found.items()} == expected
    renamed = {limit: PINNED if state == "within" else None for limit, state in expected.items()}
    assert {limit: row["renamed"] for limit, row in found.items()} == renamed


def test_copies_the_other_way_are_others(tmp_path: Path) -> None:
    base, other = copying(("Pinned", 1000, 20)), copying(("Pinned", 1000, 20))
    other = [row._replace(direction="DtoH") if isinstance(row, Memcpy) else row for row in other]
    found = said(tmp_path, base, other, BYTES)[BYTES]
    assert (found["state"], found["renamed"]) == ("exceeded", None)


@pytest.mark.parametrize(
    ("base", "other", "us", "state"),
    few([
        ("cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2", 20, "within"),
        ("cudaMemcpy", "cudaMemcpyAsync", 20, "within"),
        ("cudaMemcpy", "cudaMemcpyAsync", 21, "exceeded"),
        ("cudaMalloc", "cudaMallocAsync", 20, "within"),
        ("cudaLaunchKernel", "cudaGraphLaunch", 20, "within"),
        ("cudaMemcpy", "cudaMalloc", 20, "exceeded"),
    ], 3),
)
def test_calls_of_one_role(base: str, other: str, us: int, state: str, tmp_path: Path) -> None:
    """Ten calls of 20 us each."""
    limits = ("api_vs_kernel.api_sum_ns:3%", "launch_stats.api_sum_ns:3%", "api_vs_kernel.call_count:0")
    copies = [("Pinned", 1000, 20)] * 10
    rows = copying(*copies, call=base, call_us=20), copying(*copies, call=other, call_us=us)
    found = said(tmp_path, *rows, *limits)
    assert {found[limit]["state"] for limit in limits[:2]} == {state}
    if us == 20:
        assert found[limits[2]]["state"] == state
    if state == "within":
        renamed = f"runtime {base} → runtime {other.removesuffix('_v2')}"
        assert found[limits[0]]["renamed"] == renamed


# -- kernels into one


def counted(**kernels: tuple[int, int]) -> list[Row]:
    """Ten steps, each with so many launches of kernels that take so many us each."""
    rows: list[Row] = []
    for step in range(10):
        at = step * 1_000_000
        rows.append(Range(at, at + 900_000, f"ProfilerStep#{step}"))
        for name, (count, length) in kernels.items():
            for _ in range(count):
                rows.append(Kernel(at, at + length * 1000, name=name))
                at += length * 1000
    return rows


FUSED_FROM = {"relu": (2, 50), "softmax": (2, 100)}


@pytest.mark.parametrize(
    ("other", "state", "exceeding"),
    few([
        # Four launches of 300 us together became one, or two, of 300 or of 310 us; or three, or four.
        ({"gemm_fused": (1, 300)}, "within", None),
        ({"gemm_fused": (2, 150)}, "within", None),
        ({"gemm_fused": (1, 310)}, "exceeded", "gemm_fused: +3.10 ms"),
        ({"gemm_fused": (3, 100)}, "exceeded", "gemm_fused: +3.00 ms"),
        ({"gemm_fused": (4, 75)}, "exceeded", "gemm_fused: +3.00 ms"),
        # Four were split into nine of 297 us, or of 315.
        ({"gemm_a": (3, 33), "pool": (6, 33)}, "within", None),
        ({"gemm_a": (3, 35), "pool": (6, 35)}, "exceeded", "pool: +2.10 ms; gemm_a: +1.05 ms"),
        # Of those fused some are left: what is gone alone counts.
        ({"softmax": (2, 100), "gemm_fused": (1, 100)}, "within", None),
        ({"softmax": (2, 100), "gemm_fused": (2, 50)}, "exceeded", "gemm_fused: +1.00 ms"),
    ], 5),
)
def test_kernels_that_are_fused_into_one_of_another_category(
    other: dict[str, tuple[int, int]], state: str, exceeding: str | None, tmp_path: Path
) -> None:
    row = said(tmp_path, counted(norm=(1, 100), **FUSED_FROM), counted(norm=(1, 100), **other), SUM)[SUM]
    assert (row["state"], row["exceeding"]) == (state, exceeding)
    assert (row["renamed"] is not None) == (state == "within")


def test_communication_is_fused_with_nothing_that_computes(tmp_path: Path) -> None:
    """Two reductions became one kernel of another category, and communication another operation."""
    base = counted(norm=(1, 100), relu=(2, 150), ncclDevKernel_AllReduce=(2, 100))
    other = counted(norm=(1, 100), gemm_fused=(1, 300), ncclDevKernel_ReduceScatter=(1, 200))
    row = said(tmp_path, base, other, SUM)[SUM]
    assert row["renamed"] == (
        "relu → gemm_fused; ncclDevKernel_AllReduce → ncclDevKernel_ReduceScatter"
    )
    # Of one run per side nothing is known of its part, however equal.
    api_said = api.compare(tmp_path / "base.db", tmp_path / "other.db", ["kernels"], fail_on=[SUM])
    assert api_said.exit_status == 4


@pytest.mark.parametrize(("base", "other", "annotated"), few([
    (1, 3, True), (5, 2, True), (3, 1, False), (2, 5, False)], 2))  # fmt: skip
def test_sides_of_unequal_numbers_of_runs(
    base: int, other: int, annotated: bool, tmp_path: Path
) -> None:
    """A new kernel hides the one that is 20 % slower no more than where sides have as many runs."""
    sides = (("base", base, {"gemm": 300, "gemm_a": 20}),
             ("other", other, {"gemm": 300, "gemm_a": 24, "gemm_new": 2}))  # fmt: skip
    for name, runs, kernels in sides:
        for number in range(runs):
            rows = [row for row in training(**kernels) if annotated or not isinstance(row, Range)]
            write(tmp_path / f"{name}.db", *rows, Call(number, number + 1, 9, name="cudaFree"),
                  label=f"run {number}")  # fmt: skip
    result = api.compare(tmp_path / "base.db", tmp_path / "other.db", ["kernels"], fail_on=[SUM])
    (row,) = result.reports[-1].rows()
    assert (row["state"], row["renamed"]) == ("exceeded", None)
    assert row["exceeding"] == "gemm_new: +20.00 µs; gemm_a: +40.00 µs (+20.00 %)"


def test_of_one_category_stands_before_all(tmp_path: Path) -> None:
    """The products took each other's place within 3 %; the reductions were fused into more than that."""
    base = counted(gemm_a=(1, 100), softmax=(4, 50))
    other = counted(gemm_b=(1, 101), softmax_v2=(1, 300))
    row = said(tmp_path, base, other, SUM)[SUM]
    assert (row["state"], row["exceeding"]) == ("exceeded", "softmax_v2: +3.00 ms")
    assert row["renamed"] == "gemm_a → gemm_b"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"gemm_a": 110, "gemm_b": 190}, "all of gemm: 0 ns, within"),
        ({"gemm_a": 110, "gemm_b": 200}, "all of gemm: +100.00 µs (+3.33 %), exceeded"),
    ],
)
def test_the_reason_says_what_all_of_the_category_do(
    other: dict[str, int], words: str, tmp_path: Path
) -> None:
    """One product took 10 us of 100 more, and another one as much less, or not."""
    base = training(gemm_a=100, gemm_b=200, relu=50)
    row = said(tmp_path, base, training(**other, relu=50), SUM)[SUM]
    assert (row["state"], row["row"]) == ("exceeded", "gemm_a")
    assert row["reason"].endswith(f"; {words}")


def test_of_a_category_of_one_there_is_nothing_more_to_be_said(tmp_path: Path) -> None:
    base, other = training(gemm=100, relu=50), training(gemm=100, relu=60)
    alone = said(tmp_path, base, other, SUM)[SUM]
    assert (alone["row"], "all of" in alone["reason"]) == ("relu", False)


# -- what waits


NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def waiting(percent: int, *, run: int = 0, loading: int = 0) -> list[Row]:
    """25 steps: a kernel that computes, one that communicates, and a pageable copy.

    The last two take so much longer, and by so many us as the run's number. `loading`: so many us of the
    first step are the loading of code.
    """
    rows: list[Row] = []
    for step in range(25):
        at, number = step * 1_000_000, 10 * step
        rows.append(Range(at, at + 990_000, f"ProfilerStep#{step}"))
        of_ours = 1000 * (200 * (100 + percent) // 100 + run)
        rows += [
            Call(at, at + 1_000, number + 1),
            Kernel(at + 5_000, at + 505_000, number + 1, name="gemm"),
            Call(at + 2_000, at + 3_000, number + 2),
            Kernel(at + 510_000, at + 510_000 + of_ours, number + 2, name=NCCL),
            Call(at + 4_000, at + 5_000, number + 3, name="cudaMemcpyAsync"),
            Memcpy(at + 740_000, at + 740_000 + of_ours, number + 3),
        ]
    if loading:
        rows.append(Call(10_000, 10_000 + 1000 * loading, 9_999, layer="driver", name="cuModuleLoadData"))
    return rows


WAITING = (f"kernels[/{NCCL}/].kernel_sum_ns:3%", f"kernels[/{NCCL}/].per_step_ns:3%",
           "transfers.memcpy_sum_ns:3%", "transfers.per_step_ns:3%", "overview.kernel_sum_ns:3%",
           "overview.memcpy_sum_ns:3%")  # fmt: skip
GPUS = {"gpus": {0: {"uuid": "GPU-1"}}}


def of_runs(folder: Path, base: list[list[Row]], other: list[list[Row]], *limits: str) -> dict[str, str]:
    for name, runs in (("base", base), ("other", other)):
        (folder / f"{name}.db").unlink(missing_ok=True)
        for number, rows in enumerate(runs):
            write(folder / f"{name}.db", *rows, label=f"run {number}", **GPUS)
    result = api.compare(folder / "base.db", folder / "other.db", ["kernels"], fail_on=limits)
    return {row["limit"]: row["state"] for row in result.reports[-1].rows()}


@pytest.mark.parametrize("percent", [-50, 0, 12])
def test_of_what_waits_one_run_per_side_shows_nothing(percent: int, tmp_path: Path) -> None:
    """Communication waits for other ranks, copies of pageable memory for the host: by how much varies."""
    computing = "kernels[/gemm/].kernel_sum_ns:3%"
    found = of_runs(tmp_path, [waiting(0)], [waiting(percent, run=1)], *WAITING, computing)
    assert found == {**dict.fromkeys(WAITING, "inconclusive"), computing: "within"}


@pytest.mark.parametrize(("percent", "state"), [(0, "within"), (12, "exceeded")])
def test_of_what_waits_three_runs_per_side_show_how_it_varies(
    percent: int, state: str, tmp_path: Path
) -> None:
    """200, 201 and 202 us."""
    base, other = ([waiting(more, run=run) for run in range(3)] for more in (0, percent))
    assert of_runs(tmp_path, base, other, *WAITING) == dict.fromkeys(WAITING, state)


WINDOWS = ("overview.window_ns:100%", "comm_overlap.window_ns:100%")


def loading(length: int, run: int) -> list[Row]:
    return [row for row in waiting(0, run=run, loading=length) if not isinstance(row, Memcpy)]


@pytest.mark.parametrize(("base", "other"), [(0, 5_000), (5_000, 0), (5_000, 5_000)])
def test_of_a_window_full_of_loading_one_run_shows_nothing(base: int, other: int, tmp_path: Path) -> None:
    """5 of 25 ms are the loading of code on a side, more than a tenth: no limit is known to hold."""
    found = of_runs(tmp_path, [loading(base, 0)], [loading(other, 1)], *WINDOWS)
    assert found == dict.fromkeys(WINDOWS, "inconclusive")


@pytest.mark.parametrize(("length", "runs"), [(5_000, 3), (2_000, 1)], ids=["several", "less"])
def test_a_window_of_several_runs_or_with_less_loading_is_known(
    length: int, runs: int, tmp_path: Path
) -> None:
    base, other = ([loading(length, side + run) for run in range(runs)] for side in (0, 1))
    assert of_runs(tmp_path, base, other, *WINDOWS) == dict.fromkeys(WINDOWS, "within")


@pytest.mark.parametrize("source", few(SOURCES, 2))
def test_of_every_source(source: str, tmp_path: Path) -> None:
    """A kernel under another name, of a sixth of the time."""

    def works(name: str, *lengths: int) -> Workload:
        other = Function(name, name, name, name)
        return run_of([[Launch(SAXPY, 500_000), Launch(other, length)] for length in lengths])

    pair = sides(tmp_path, [works("norm_4", *[100_000] * 5)], [works("norm_5", *[101_000] * 5)],
                 (source, source))  # fmt: skip
    (row,) = ask(pair, limits=["kernels.kernel_sum_ns:3%"], **EXACT).limits.values()
    assert (row["state"], row["renamed"]) == ("within", "norm_4 → norm_5")


def test_contributors_that_replace_each_other_are_one(tmp_path: Path) -> None:
    """The product has another name and is 10 us longer; what is slower is the other kernel, by 60 us."""
    for name, kernels in (("base", {"gemm": 300, "relu": 50}), ("other", {"gemm_v2": 310, "relu": 110})):
        rows = [row._replace(end=row.end + 90_000) if isinstance(row, Range) and name == "other" else row
                for row in training(**kernels)]  # fmt: skip
        write(tmp_path / f"{name}.db", *rows)
    result = api.compare(tmp_path / "base.db", tmp_path / "other.db", ["contributors"], **EXACT)
    found = [(row["name"], row["change_ns"], row["why"]) for row in result.reports[0].rows()
             if row["kind"] == "kernel"]  # fmt: skip
    assert found == [("relu", 60_000, "each launch 2.2 times as long"),
                     ("gemm → gemm_v2", 10_000, "each launch 3.3 % longer")]  # fmt: skip



def commented(folder: Path, *limits: str) -> str:
    """The comment above its fold."""
    asked = [word for limit in limits for word in ("--fail-on", limit)]
    outcome = run("diff", "base.db", "other.db", "kernels", *asked, "--run-noise", "0%",
                  "-f", "markdown", "--brief", cwd=folder)  # fmt: skip
    return outcome.out.partition("<details>")[0]


def test_the_comment_says_what_the_category_came_to(tmp_path: Path) -> None:
    judged(tmp_path, training(gemm=300, relu=9), training(gemm_v2=330, relu=9), SUM)
    comment = commented(tmp_path, SUM)
    (line,) = [line for line in comment.splitlines() if "gemm_v2" in line and "exceeded" in line]
    assert "`gemm_v2`: +3.30 ms, " in line
    assert line.endswith("; all of gemm: +300.00 µs (+10.00 %), exceeded")


def test_the_comment_names_a_pattern_that_matches_nothing(tmp_path: Path) -> None:
    """It may be misspelled; a report without rows is not."""
    judged(tmp_path, training(gemm=300), training(gemm=301), SUM)
    comment = commented(tmp_path, "kernels[/gemmm/].kernel_count:0", "transfers.bytes_sum:0%")
    line = "* within: 2 of 2 limits; no row matches `kernels[/gemmm/].kernel_count:0`"
    assert line in comment.splitlines()
    assert "no row" not in commented(tmp_path, "transfers.bytes_sum:0%")
    judged(tmp_path, training(gemm=300, relu=9), training(gemm_v2=300, relu=9), SUM)
    assert "within: 1 of 1 limits; renamed? `gemm → gemm_v2`" in commented(tmp_path, SUM)
    comment = commented(tmp_path, "kernels[/gemm$/].kernel_sum_ns:5%", "kernels[/relu/].kernel_count:0")
    line = "* within: 2 of 2 limits; no row of other matches `kernels[/gemm$/].kernel_sum_ns:5%`"
    assert line in comment.splitlines()


def test_the_comment_names_the_rank(tmp_path: Path) -> None:
    """The third of three is slower, and the kernels of all of them have one name."""
    for name in ("base", "other"):
        for rank in range(3):
            rows = training(gemm=100 + (10 if name == "other" and rank == 2 else 0))
            write(tmp_path / f"{name}.db", *rows, ranks={1: rank}, label=f"rank {rank}", run=name)
    comment = commented(tmp_path, SUM, "overview.kernel_sum_ns:3%")
    assert f"**exceeded**: `{SUM}`, `gemm`, rank 2: " in comment
    assert "**exceeded**: `overview.kernel_sum_ns:3%`, rank 2: " in comment


def test_the_comment_says_once_what_differs(tmp_path: Path) -> None:
    """The heading has the steps."""
    judged(tmp_path, training(gemm=100), training(gemm=100)[:-4], SUM)
    comment = commented(tmp_path, SUM)
    assert "different workloads (steps per process: 10 vs. 8)" in comment
    assert "steps-differ" not in comment


@pytest.mark.parametrize("source", few(SOURCES, 1))
def test_a_recording_against_itself_is_within_every_limit(source: str, tmp_path: Path) -> None:
    """Though one run per side shows nothing of how runs differ."""
    path = SOURCES[source](run_of([[Launch(SAXPY, 500_000)]] * 2), tmp_path)
    limits = ["kernels.avg_ns:0%", "kernels.kernel_sum_ns:0%", "kernels.med_ns:0%",
              "overview.idle_pct:0pp"]  # fmt: skip
    copy = Path(f"{path.with_name('copy')}{path.suffix}")
    shutil.copyfile(path, copy)
    api.import_files([path], tmp_path / "base.db")
    for base, other in ((path, path), (path, copy), (tmp_path / "base.db", tmp_path / "base.db")):
        # A limit that is given twice is one.
        result = api.compare(base, other, ["kernels"], fail_on=[*limits, limits[0]])
        found = [(row["limit"], row["state"]) for row in result.reports[-1].rows()]
        assert found == [(limit, "within") for limit in limits]


@real
@pytest.mark.parametrize("name", ["b76_base.json", "b61.sqlite"])
def test_a_real_recording_against_itself(name: str) -> None:
    path = REAL / "bug_reports" / name
    limits = ["kernels.avg_ns:0%", "overview.idle_pct:0pp"]
    assert api.compare(path, path, ["kernels"], fail_on=limits).exit_status == 0
