"""Rules on operators: what they count as whose, beside the examples and what nearly has them."""

from __future__ import annotations

import pytest
from findings_cases import parse
from test_queries_findings import ask, cannot_look, row_of

_SGEMM = """
gpu major=8 minor=0
kernel ampere_sgemm_128x64_nn [0, 40)
kernel relu [40, 700)
"""


def finding(lines: str, rule: str) -> dict[str, object] | None:
    return row_of(ask(parse(f"{lines}\n→ {rule} says nothing")), rule)


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
    assert row is not None
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
    assert row is not None
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
    assert row is not None
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
