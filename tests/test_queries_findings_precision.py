"""Precision, attention, first steps and small grids: what the cases and examples do not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, real
from findings_cases import parse
from small_store import Kernel, asked
from test_queries_findings import ask, cannot_look, row_of

import nsysconv
from nsysconv.present.answer import shown_findings
from nsysconv.queries.findings.precision import (
    FEW_DOUBLES_NAMES,
    LAYOUT_NAMES,
    computes_in_double,
)
from nsysconv.report import Unit, human

TUTORIAL = REAL / (
    "kineto/sidnb13+torch-profiling-tutorial__dcb0aa1a78e7_4399.1752181589621105859.pt.trace.json"
)
RECORDED = Path(__file__).parent / "recorded"
H100 = {"sm_count": 132, "compute_major": 9, "compute_minor": 0}


def finding(lines: str, rule: str) -> dict[str, Any] | None:
    return row_of(ask(parse(f"{lines}\n→ {rule} says nothing")), rule)


# -- the walk of a tutorial: its author saw these four in his trace


@real
@pytest.mark.skipif(not TUTORIAL.exists(), reason="the tutorial's trace is not there")
def test_what_the_author_of_a_tutorial_saw_in_his_trace() -> None:
    """Launch-bound and small; attention in three kernels; TF32; a slow first step (1.182 ms to 0.814)."""
    (report,) = nsysconv.report_on(TUTORIAL, "findings")
    rows = {row["rule"]: row for row in report.rows()}
    assert {"launch_bound", "warm_up"} <= {row["rule"] for row in shown_findings(report.rows())}
    assert "larger batches" in rows["launch_bound"]["advice"]
    # 18 + 18 launches of GEMMs take 233 µs of 390, 116.5 could go; 3 × (7 + 5 + 6) µs are attention.
    assert rows["tf32_matmul"]["saving_ns"] == 116_500
    assert rows["unfused_attention"]["cost_ns"] == 54_000
    assert " 3 times" in rows["unfused_attention"]["finding"]
    assert rows["warm_up"]["saving_ns"] == 368_000
    assert "longer by 345.00 µs in host code outside API calls" in rows["warm_up"]["finding"]
    text = "\n".join(line for text in report.texts for line in text.lines)
    assert all(word in text for word in ("launch_bound", "warm_up", "tf32_matmul", "unfused_attention"))


# -- names


@pytest.mark.parametrize(("name", "fits"), [
    ("saxpy(double *, double *, double *, double, int)", True),
    ("void StencilKernel<double>(double*, double*, int)", True),
    ("ampere_dgemm_64x64_nn", True), ("cutlass_80_tensorop_d884gemm_128x64_16x3_nn_align1", True),
    ("sm80_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize64x64x8", True),
    ("void adam<float>(float*, float const*, double, double)", False),
    ("void cub::DeviceMergeSortMergeKernel<double>(double*)", False),
    ("transpose_NCHW2CNHW_V2_2D_WG_off64", False), ("ampere_sgemm_128x64_nn", False),
])  # fmt: skip
def test_what_runs_in_double_precision(name: str, fits: bool) -> None:
    assert computes_in_double(name) == fits


@pytest.mark.parametrize(("model", "fits"), [
    ("GeForce GTX 1080 Ti", True), ("NVIDIA GeForce RTX 3090", True), ("Tesla T4", True),
    ("NVIDIA L4", True), ("NVIDIA A10G", True), ("Quadro RTX 6000", True), ("Tesla P40", True),
    ("NVIDIA A100-SXM4-80GB", False), ("Tesla V100-SXM2-32GB", False), ("Tesla P100-PCIE-16GB", False),
    ("NVIDIA H100 80GB HBM3", False), ("GeForce GTX TITAN Black", False), ("NVIDIA A30", False),
])  # fmt: skip
def test_which_models_have_few_units_in_double_precision(model: str, fits: bool) -> None:
    assert bool(FEW_DOUBLES_NAMES.search(model)) == fits


@pytest.mark.parametrize(("name", "fits"), [
    ("void cudnn::ops::nchwToNhwcKernel<float, float>(float const*)", True),
    ("void cudnn::ops::nhwcToNchwKernel<float, float>(float const*)", True),
    ("void nhwcToFoldedNhwcKernel<half>()", False), ("transpose_NCHW2CNHW_V2", True),
    ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_nhwckrsc_nchw_tilesize128x128", False),
])  # fmt: skip
def test_what_changes_a_layout(name: str, fits: bool) -> None:
    assert bool(LAYOUT_NAMES.search(name)) == fits


def test_what_contiguous_launches_changes_a_layout() -> None:
    """60 of 1000: a copy in clone in contiguous; the copy of 100 in aten::to may change the type."""
    row = finding(
        """
        operator aten::contiguous [0, 20)
        operator aten::clone [1, 19)
        operator aten::copy_ [2, 18)
        call cudaLaunchKernel [5, 10) #1
        kernel direct_copy_kernel [10, 70) #1
        operator aten::to [30, 50)
        operator aten::copy_ [31, 49)
        call cudaLaunchKernel [35, 40) #2
        kernel direct_copy_kernel [70, 170) #2
        kernel conv [170, 1010)
        """,
        "layout_conversions",
    )
    assert row["cost_ns"] == 60_000


REORDERED = """
    range MyModule [0, 45)
    operator aten::linear [0, 40)
    operator aten::reshape [1, 30)
    operator aten::clone [2, 20)
    operator aten::copy_ [3, 18) shapes=[{shape},{shape}] types=["float","float"] strides=[{to},{of}]
    call cudaLaunchKernel [4, 6) #1
    kernel direct_copy_kernel [50, 250) #1
    kernel gemm [250, 1000)
"""


@pytest.mark.parametrize(("shape", "to", "of", "advice"), [
    ("[2,3,4,5]", "[60,20,5,1]", "[60,1,15,3]", "channels_last"),
    ("[2,3,4,5]", "[60,1,15,3]", "[60,20,5,1]", "channels_last"),
    ("[1,3,4,5]", "[60,20,5,1]", "[60,1,15,3]", "channels_last"),
    ("[2,3,4]", "[12,4,1]", "[12,1,3]", "before a GEMM"), ("[3,4]", "[4,1]", "[1,3]", "before a GEMM"),
    ("[2,3,4,5]", "[60,20,5,1]", "[60,5,10,1]", "one order of dimensions"),
    ("[2,3,4]", "[12,4,1]", "[4,8,1]", "one order of dimensions"),
])  # fmt: skip
def test_a_copy_into_another_order_names_who_needs_it_and_what_avoids_it(
    shape: str, to: str, of: str, advice: str
) -> None:
    row = finding(REORDERED.format(shape=shape, to=to, of=of), "layout_conversions")
    assert row["cost_ns"] == 200_000
    spelled = [text.replace(",", ", ") for text in (shape, of)]
    assert (
        "; 200.00 µs of it in aten::reshape of aten::linear, "
        f"whose input {spelled[0]} has strides {spelled[1]}." in row["finding"]
    )
    assert advice in row["advice"]


def test_copies_into_another_order_are_named_if_they_are_half_of_the_time() -> None:
    lines = REORDERED.format(shape="[3,4]", to="[4,1]", of="[1,3]")
    assert "aten::reshape" not in str(
        finding(lines + "kernel nchwToNhwcKernel [1000, 1201)", "layout_conversions")
    )
    assert "aten::reshape" in str(
        finding(lines + "kernel nchwToNhwcKernel [1000, 1200)", "layout_conversions")
    )


@pytest.mark.parametrize(
    "strides", ["[[4,1]]", "[[4,1],[1]]", "[[4,1],1]", "{}", "[[4,1],[1,null]]", "oops"]
)
def test_odd_strides_are_no_layout(strides: str) -> None:
    lines = f"""
        operator aten::copy_ [3, 18) shapes=[[3,4],[3,4]] types=["float","float"] strides={strides}
        call cudaLaunchKernel [4, 6) #1
        kernel direct_copy_kernel [50, 250) #1
        kernel gemm [250, 1000)
    """
    assert finding(lines, "layout_conversions") is None


def test_recorded_copies_into_another_order_add_up_in_place_and_in_a_store(tmp_path: Path) -> None:
    """By shapes, strides and types of each aten::copy_ in the JSON: 1485.726 µs of kernels."""
    trace = RECORDED / "uneven_ranks-rank1.json.gz"
    nsysconv.import_files([trace], tmp_path / "a.db")
    for target in (trace, tmp_path / "a.db"):
        (report,) = nsysconv.report_on(target, "findings")
        row = row_of(report, "layout_conversions")
        assert row["cost_ns"] == 1_485_726
        assert (
            "602.21 µs of it in aten::reshape of ViewBackward0, whose input [128, 256, 3, 256] "
            "has strides [65536, 256, 8388608, 1]." in row["finding"]
        )


# -- attention without operators: batches are in the grid


def attention(first: int, last: int, between: str = "masked_fill_elementwise_kernel") -> Any:
    kernels = (
        Kernel(0, 50_000, name="sm80_gemm", grid=(2, 1, first)),
        Kernel(50_000, 60_000, name=between, grid=(64, 1, 1)),
        Kernel(60_000, 70_000, name="softmax_warp_forward", grid=(64, 1, 1)),
        # Another stream has nothing to do with it.
        Kernel(62_000, 66_000, name="layer_norm", grid=(64, 1, 1), stream=9),
        Kernel(70_000, 100_000, name="sm80_gemm", grid=(2, 1, last)),
        Kernel(100_000, 1_000_000, name="relu"),
    )
    return row_of(asked("findings", *kernels), "unfused_attention")


def test_attention_is_seen_by_the_grids_of_kernels() -> None:
    row = attention(128, 128)
    assert row["cost_ns"] == 100_000
    assert "1 time," in row["finding"]


@pytest.mark.parametrize("case", [(128, 64), (1, 1), (128, 128, "layer_norm_kernel")])
def test_what_is_no_attention_by_the_grids_of_kernels(case: Any) -> None:
    assert attention(*case) is None


# -- the first step


def test_the_parts_of_a_slow_first_step() -> None:
    """Steps of 100, 50 and 50: 40 more of a kernel that is tried out, 10 more of cudaMalloc."""
    row = finding(
        """
        range step1 [0, 100)
        range step2 [100, 150)
        range step3 [150, 200)
        call cudaLaunchKernel [0, 2) #1
        kernel trial [2, 42) #1
        call cudaMalloc [45, 55)
        call cudaLaunchKernel [60, 62) #2
        kernel gemm [62, 100) #2
        call cudaLaunchKernel [100, 102) #3
        kernel gemm [112, 150) #3
        call cudaLaunchKernel [150, 152) #4
        kernel gemm [162, 200) #4
        """.replace("step", "ProfilerStep#"),
        "warm_up",
    )
    # 40 of the trial and 20 that are idle: no more than 100 - 50.
    assert (row["value"], row["saving_ns"]) == (2.0, 50_000)
    assert row["finding"].endswith(
        f"it is longer by {human(40_000, Unit.NS)} in kernels that no later step runs, "
        f"{human(10_000, Unit.NS)} allocating memory."
    )


# -- larger batches


def launch_bound(blocks: int, gpu: Any = H100) -> dict[str, Any]:
    lines = f"""
        operator aten::mm [0, 1)
        call cudaLaunchKernel [0, 5) #1 ×10 every 20
        kernel relu blocks={blocks} threads=256 [5, 10) #1 ×10 every 20
        """
    case = parse(f"{lines}\n→ launch_bound saves 135")
    case.gpu = gpu
    row = row_of(ask(case), "launch_bound")
    assert row is not None
    return row


@pytest.mark.parametrize(("blocks", "advised"), [(131, True), (132, False), (4000, False)])
def test_larger_batches_are_advised_only_if_kernels_are_too_small(blocks: int, advised: bool) -> None:
    """Registers are not recorded, so what an SM holds is not known: one block each fills it."""
    assert ("larger batches" in launch_bound(blocks)["advice"]) == advised


def test_without_sizes_of_the_gpu_larger_batches_are_not_advised() -> None:
    assert "larger batches" not in launch_bound(1, gpu={})["advice"]


@pytest.mark.parametrize(("gap", "count", "advised"), [(900, 6, True), (1100, 6, False)])
def test_larger_batches_do_not_help_where_few_long_gaps_are_the_cost(
    gap: int, count: int, advised: bool
) -> None:
    """Kernels of one block and 100 µs; the host computes for `gap` µs between them."""
    every = 100 + gap
    case = parse(f"""
        operator aten::mm [0, 1)
        call cudaLaunchKernel [0, 5) #1 ×{count} every {every}
        kernel relu blocks=1 threads=256 [5, 105) #1 ×{count} every {every}
        → host_bound saves {(count - 1) * (gap - 5)}
        """)
    case.gpu = H100
    row = row_of(ask(case), "host_bound")
    assert ("larger batches" in row["advice"]) == advised


def test_what_comes_once_has_no_time_per_step() -> None:
    """Three steps: a module is loaded in one of them, each waits for the host."""
    case = parse("""
        range step 1 [0, 1000)
        range step 2 [1000, 2000)
        range step 3 [2000, 6000)
        call cudaLaunchKernel [0, 5) #1 ×3 every 1000
        kernel gemm [5, 505) #1 ×3 every 1000
        call cuModuleLoadData [2600, 5900)
        call cudaLaunchKernel [5900, 5905) #4
        kernel relu [5905, 6000) #4
        → module_loading saves 3300
        """)
    report = ask(case)
    loading, host = (row_of(report, rule) for rule in ("module_loading", "host_bound"))
    assert (loading["saving_ns"], loading["per_step_ns"]) == (3_300_000, None)
    assert host["per_step_ns"] == host["saving_ns"] // 3


@pytest.mark.parametrize(("last", "per_step"), [(1100, 2_300_000 // 3), (1300, None)])
def test_one_gap_of_most_of_the_time_has_no_time_per_step(last: int, per_step: int | None) -> None:
    """Three steps, and four kernels: the GPU waits 600 µs for the host twice, and then `last`."""
    case = parse(f"""
        range step 1 [0, 1100)
        range step 2 [1100, 2200)
        range step 3 [2200, 5000)
        call cudaLaunchKernel [0, 5) #1 ×3 every 1100
        kernel gemm [5, 500) #1 ×3 every 1100
        call cudaLaunchKernel [{2700 + last}, {2705 + last}) #4
        kernel gemm [{2705 + last}, {3200 + last}) #4
        → host_bound saves {1200 + last}
        """)
    row = row_of(ask(case), "host_bound")
    assert (row["saving_ns"], row["per_step_ns"]) == (1_000 * case.time, per_step)


def test_no_other_advice_is_for_larger_batches_without_evidence() -> None:
    from nsysconv.queries.findings.contract import words

    saying = {
        rule for rule, each in words().items()
        if any("larger batches" in text.lower() for text in each.advice.values())
    }  # fmt: skip
    assert saying == {"low_parallelism"}  # which found kernels with few blocks


def test_a_model_tells_where_no_capability_is_recorded() -> None:
    case = parse("kernel dgemm [0, 1000)\n→ double_precision costs 1000")
    case.gpu = {"name": "GeForce GTX 1080 Ti"}
    row = row_of(ask(case), "double_precision")
    assert row["cost_ns"] == 1_000_000


def test_what_comes_once_in_the_only_step_is_its_time_per_step() -> None:
    """Of one step, all of its gap."""
    case = parse("""
        range ProfilerStep#1 [0, 2000)
        call cudaLaunchKernel [0, 5) #1
        kernel gemm [5, 500) #1
        call cudaLaunchKernel [1100, 1105) #2
        kernel gemm [1105, 1600) #2
        → host_bound saves 600
        """)
    row = row_of(ask(case), "host_bound")
    assert row["per_step_ns"] == row["saving_ns"] == 600_000


# -- rules on operators: what they count as whose, beside the examples and what nearly has them


_SGEMM = """
gpu major=8 minor=0
kernel ampere_sgemm_128x64_nn [0, 40)
kernel relu [40, 700)
"""


# The copy ends at 110 and the host in the wait for it; the next kernel starts at 150.
def _waited(operator: str) -> str:
    return f"""
        call cudaLaunchKernel [0, 5) #1
        kernel loss [5, 100) #1
        {operator}
        call cudaMemcpyAsync [12, 14) #2
        copy DtoH bytes=4 [100, 110) #2
        call cudaStreamSynchronize [14, 115)
        call cudaLaunchKernel [140, 145) #3
        kernel next [150, 300) #3
    """


@pytest.mark.parametrize(("operators", "named"), [
    ("operator aten::to [10, 120)\noperator aten::_to_copy [11, 119)\noperator aten::copy_ [12, 118)",
     "aten::to"),
    ("operator aten::is_nonzero [10, 120)\noperator aten::item [11, 119)", "aten::is_nonzero"),
    ("range aten::item, op_id = 7 [10, 120)", "aten::item"),
    ("operator aten::nonzero.out [10, 120)", "aten::nonzero"),
])  # fmt: skip
def test_a_wait_is_of_the_outermost_operator_that_reads_a_value(operators: str, named: str) -> None:
    row = finding(_waited(operators), "host_sync")
    assert row["saving_ns"] == 40_000
    assert f"({named})" in str(row["finding"])
    assert (row["before"], row["after"]) == ("[memcpy]", "next")


@pytest.mark.parametrize("operators", [
    "operator aten::copy_ [10, 120)",
    "operator aten::item [10, 120) thread=9",
])  # fmt: skip
def test_a_wait_in_no_operator_that_reads_a_value(operators: str) -> None:
    assert finding(_waited(operators), "host_sync") is None


@pytest.mark.parametrize(("first", "found"), [
    ("volta_fp16_s884gemm_fp16_128x64", True), ("volta_scudnn_128x64", False),
])  # fmt: skip
def test_an_operator_of_any_name_is_eligible_once_it_launches_a_product_on_tensor_cores(
    first: str, found: bool
) -> None:
    """100 of 1000 µs on Tensor Cores and 900 without: 90 % of one compiled function's kernels."""
    row = finding(
        f"""
        gpu major=7 minor=0
        operator CompiledFunction [0, 10)
        call cudaLaunchKernel [2, 3) #1
        kernel {first} [5, 105) #1
        call cudaLaunchKernel [4, 5) #2
        kernel volta_sgemm_128x64_nn [105, 1005) #2
        """,
        "tensor_cores_unused",
    )
    assert (row is not None and row["value"] == 90) is found


def test_what_another_thread_launches_meanwhile_is_not_of_zero_grad() -> None:
    lines = """
        operator Optimizer.zero_grad#SGD.zero_grad [0, 100)
        call cudaMemsetAsync [0, 2) #1 ×4 every 10 thread=9
        set [5, 7) #1 ×4 every 10
        call cudaLaunchKernel [100, 105) #9 {thread}
        kernel gemm [105, 1000) #9
    """
    assert finding(lines.format(thread=""), "zero_grad") is None
    assert finding(lines.format(thread="thread=9"), "zero_grad") is None


def test_a_step_is_of_the_optimizer_that_it_names() -> None:
    lines = """
        range Optimizer.step#AdamW.step, op_id = 3 [0, 300)
        range Optimizer.step#AdamW.step, op_id = 9 [300, 700)
        call cudaLaunchKernel [0, 2) #1 ×21 every 10
        kernel mul [10, 12) #1 ×21 every 10
        call cudaLaunchKernel [300, 302) #101 ×25 every 10
        kernel mul [310, 312) #101 ×25 every 10
    """
    row = finding(lines, "optimizer_single_tensor")
    # From 10 to 212, and from 310 to 552.
    assert (row["value"], row["saving_ns"]) == (23, 444_000)
    assert str(row["finding"]).startswith("AdamW updates one tensor at a time: 23 kernels each in 2 ")


@pytest.mark.parametrize("other", ["ncclDevKernel_AllReduce", "relu"])
def test_all_kernel_time_is_that_of_communication_too(other: str) -> None:
    # 40 of 700 are 5.7 %, and 4 % of 1000; 70 of 1030 are 6.8 %.
    assert finding(_SGEMM, "fp32_matmul") is not None
    assert finding(_SGEMM + f"kernel {other} [700, 1000)", "fp32_matmul") is None
    row = finding(f"{_SGEMM}kernel ampere_sgemm_128x64_nn [1000, 1030)\nkernel {other} [700, 1000)",
                  "fp32_matmul")  # fmt: skip
    assert row["value"] == pytest.approx(100 * 70 / 1030)


@pytest.mark.parametrize("name", ["sm80_xmma_gemm_f16f16", "cutlass_80_tensorop_f16", "ampere_h16816"])
def test_kernels_show_what_a_gpu_can(name: str) -> None:
    lines = "kernel volta_sgemm_64x64_nn [0, 500)\nkernel {} [500, 1000)"
    assert finding(lines.format(name), "fp32_matmul") is not None
    assert finding(lines.format("volta_h884"), "fp32_matmul") is None


def test_a_bias_may_have_any_size() -> None:
    lines = """
        operator aten::addmm [0, 10) shapes=[[1],[64,512],[512,{last}]] types=["c10::BFloat16","c10::BFloat16","c10::BFloat16"]
        call cudaLaunchKernel [2, 5) #1
        kernel nvjet_tst_64x64 [5, 205) #1
    """  # noqa: E501
    assert finding(lines.format(last=512), "matmul_alignment") is None
    assert finding(lines.format(last=516), "matmul_alignment") is not None


def test_a_program_that_is_not_pytorchs_lacks_no_operators() -> None:
    lines = """
        without ranges operators
        call cudaLaunchKernel [0, 5) #1
        kernel {} [5, 100) #1
        → host_sync says nothing
    """
    assert not cannot_look(ask(parse(lines.format("stencil"))), "host_sync")
    assert cannot_look(ask(parse(lines.format("at::native::add"))), "host_sync")
