"""kernel_categories, and the rules that say which kernel is of which category."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import REAL_FILES, REAL_TRACES, few, name_of, real
from small_store import TOTALS, Graph, Kernel, Memcpy, Row, Total, answers

import nsysconv
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.timeline.kernel_categories import OTHER, rules

GEMM, NORM = "ampere_sgemm_128x64_tn", "void layer_norm_kernel<float>(float*)"


def by_category(*rows: Row, **options: Any) -> dict[str, dict[str, Any]]:
    """The rows of kernel_categories by category."""
    return {row["category"]: row for row in answers("kernel_categories", *rows, **options)}


# -- the report


def test_counts_sums_and_unions() -> None:
    rows = (Kernel(0, 30, name=GEMM), Kernel(20, 50, stream=8, name=GEMM), Kernel(60, 80, name=NORM),
            Kernel(80, 100, name="my_own"))  # fmt: skip
    found = by_category(*rows)
    assert {name: (row["kernel_count"], row["kernel_sum_ns"], row["kernel_union_ns"],
                   row["kernel_pct"]) for name, row in found.items()} == {
        "gemm": (2, 60, 50, 60.0), "normalization": (1, 20, 20, 20.0), "other": (1, 20, 20, 20.0),
    }  # fmt: skip
    assert list(found) == ["gemm", "normalization", "other"]


def test_top_name_is_the_one_with_most_time() -> None:
    rows = (Kernel(0, 10, name="sgemm_a"), Kernel(10, 18, name="sgemm_a"), Kernel(20, 37, name="sgemm_b"))
    row = by_category(*rows)["gemm"]
    assert (row["name_count"], row["top_name"]) == (2, "sgemm_a")


def test_each_kernel_says_of_which_kind_it_is() -> None:
    rows = (Kernel(0, 30, name=GEMM), Kernel(30, 50, name=NORM))
    assert [row["category"] for row in answers("kernels", *rows)] == ["gemm", "normalization"]
    total = Total("kernel", 1, 10, 10, 10, name=GEMM)
    assert [row["category"] for row in answers("kernels", total, holds=TOTALS)] == ["gemm"]


def test_a_short_name_is_of_the_kind_that_all_its_kernels_are_of() -> None:
    rows = (Kernel(0, 30, name=GEMM, short="k"), Kernel(30, 50, name=NORM, short="k"),
            Kernel(50, 60, name=GEMM, short="g"))  # fmt: skip
    rows = answers("kernels", *rows, kernel_names="short")
    found = {row["name"]: row["category"] for row in rows}
    assert found == {"k": None, "g": "gemm"}


def test_copies_and_graphs_are_no_kernels() -> None:
    assert by_category(Memcpy(0, 10), Graph(10, 20), Kernel(20, 30, name=GEMM)).keys() == {"gemm"}


def test_a_slice_takes_whole_kernels_and_clips_their_union() -> None:
    rows = (Kernel(0, 100, name=GEMM), Kernel(100, 200, name=GEMM), Kernel(300, 400, name=NORM))
    (row,) = answers("kernel_categories", *rows, time=(150, 300))
    assert (row["kernel_count"], row["kernel_sum_ns"], row["kernel_union_ns"]) == (1, 100, 50)


def test_a_kernel_without_time_is_counted() -> None:
    row = by_category(Kernel(None, None, name=GEMM))["gemm"]
    assert (row["kernel_count"], row["kernel_sum_ns"], row["kernel_union_ns"]) == (1, None, None)


def test_totals_answer_as_far_as_they_go() -> None:
    rows = (Total("kernel", 3, 60, 10, 30, name="sgemm_a"),
            Total("kernel", 1, 30, 30, 30, name="sgemm_b"),
            Total("kernel", 2, 10, 5, 5, name=NORM))  # fmt: skip
    found = by_category(*rows, holds=TOTALS)
    assert {name: (row["kernel_count"], row["kernel_sum_ns"], row["kernel_pct"], row["kernel_union_ns"],
                   row["name_count"], row["top_name"]) for name, row in found.items()} == {
        "gemm": (4, 90, 90.0, None, 2, "sgemm_a"),
        "normalization": (2, 10, 10.0, None, 1, NORM),
    }  # fmt: skip


# -- rules


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16>(…)", "communication"),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)", "attention"),
        ("attn_fwd", "attention"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(AttentionKernel<float>::Params)", "attention"),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "convolution"),
        ("turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_interior_nhwc_tn_v1", "convolution"),
        ("ampere_bf16_s16816cudnn_bf16_128x64_ldg8_relu_medium_nhwc_tn_v1", "convolution"),
        ("trt_volta_h884cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1", "convolution"),
        ("volta_int8x4_icudnn_int8x4_128x32_relu_xregs_small_nn_v1", "convolution"),
        ("maxwell_fp16_hcudnn_fp16_128x64_relu_interior_nn_v1", "convolution"),
        ("turing_int8_i8816cudnn_int8_256x128_ldg16_relu_singleBuffer_small_nt_v1", "convolution"),
        ("void cudnn::ops::nchwToNhwcKernel<__half>(__half*)", "copy"),
        ("void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<4>(int, int)", "communication"),
        ("kuserbuffers_pushsendrecv(int, int, int)", "communication"),
        ("userbuffers_fp16_sum_inplace_gpu_mc_ag", "communication"),
        ("void implicit_convolve_sgemm<float, float, 1024, 6, 7>(int, int)", "convolution"),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_execute_kernel_cudnn_train", "convolution"),
        ("miopenSp3AsmConv_v30_3_1_gfx9_fp16_dot2_edc_f3x2_stride1", "convolution"),
        ("ampere_sgemm_128x64_tn", "gemm"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", "gemm"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64", "gemm"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nt_align1>(Params)", "gemm"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(int)", "normalization"),
        ("triton_per_fused_add_addmm_native_layer_norm_view_14", "normalization"),
        ("triton_poi_fused_add_addmm_gelu_2", "elementwise"),
        ("triton_red_fused_sum_3", "reduction"),
        ("triton_tem_fused_mm_7", "gemm"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 7>(float*)", "softmax"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, MeanOps>>(T3)", "reduction"),
        ("void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>(int)", "elementwise"),
        ("void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda(…)>(int)", "copy"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 1>(float*)", "copy"),
        ("void fbgemm_gpu::permute_2D_data_kernel<false, int>(int)", "copy"),
        ("void at::native::vectorized_gather_kernel<16, long>(char*)", "indexing"),
        ("void cub::DeviceRadixSortOnesweepKernel<Policy800, false>(int*)", "sort"),
        ("Fan2(float *, float *, float *, int, int, int)", OTHER),
        ("", OTHER),
    ],
)  # fmt: skip
def test_category_of_a_name(name: str, category: str) -> None:
    assert rules().category(name) == category


def written(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_rules_of_ones_own_go_first_and_ours_follow(tmp_path: Path) -> None:
    mine = rules(written(tmp_path, "[[rule]]\ncategory = 'stencil'\npatterns = ['^fan', 'sgemm_a']"))
    assert [mine.category(name) for name in ("Fan2(float*)", "sgemm_a", "sgemm_b", "xFan")] == [
        "stencil", "stencil", "gemm", OTHER]  # fmt: skip


def test_catch_all_user_rule_overrides_built_in_rules(tmp_path: Path) -> None:
    path = written(tmp_path, "[[rule]]\ncategory = 'other'\npatterns = ['.*']")
    assert rules(path).category(GEMM) == OTHER


@pytest.mark.parametrize("pattern", ["Stencil", "stencil", "[R-T]tencil", r"\Stencil"])
def test_rules_of_ones_own_are_looked_for_in_upper_and_lower_case(pattern: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f"[[rule]]\ncategory = 'stencil'\npatterns = ['{pattern}']\n")
    for name in ("my_stencil_2", "MY_STENCIL_2", "MyStencil2"):
        assert rules(str(path)).category(name) == "stencil"


def test_of_a_very_long_name_both_ends_are_looked_at() -> None:
    names = [name.ljust(60_000, "_").rjust(60_020, "_") for name in ("gemm", "nothing")]
    assert [rules().category(name) for name in (*names, names[1] + "gemm")] == ["gemm", "other", "gemm"]


def test_the_report_takes_a_file_of_rules(tmp_path: Path) -> None:
    folder = tmp_path / "a:b=c"  # signs that separate options
    folder.mkdir()
    path = written(folder, "[[rule]]\ncategory = 'mine'\npatterns = ['gemm']")
    (row,) = answers(f"kernel_categories:rules={path}", Kernel(0, 10, name=GEMM))
    assert row["category"] == "mine"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("[[rule]", "mine.toml: no TOML: ", "Mend that"),
        ("", "mine.toml: no rules in it", "[[rule]]"),
        ("rule = 3", "mine.toml: no rules in it", "[[rule]]"),
        ("rule = [3]", "mine.toml, rule 1: no table", "[[rule]]"),
        ("[[rules]]\ncategory = 'a'", "mine.toml: unknown key 'rules'", "Known: rule."),
        ("[[rule]]\npatterns = ['a']", "mine.toml, rule 1: no category", "category = "),
        ("[[rule]]\ncategory = 3\npatterns = ['a']", "mine.toml, rule 1: no category", "category"),
        ("[[rule]]\ncategory = 'a'", "mine.toml, rule 1: no patterns for a", "patterns = "),
        ("[[rule]]\ncategory = 'a'\npatterns = 'b'", "rule 1: no patterns for a", "patterns"),
        ("[[rule]]\ncategory = 'a'\npattern = ['b']", "rule 1: unknown key 'pattern'", "category, p"),
        ("[[rule]]\ncategory = 'a'\npatterns = ['b', 'c(']",
         "mine.toml, rule 1, pattern 2: 'c(' is not a regular expression: missing )", "Escape"),
        ("[[rule]]\ncategory = 'a'\npatterns = [3]", "pattern 1: 3 is not a regular expr", "Escape"),
        ("[[rule]]\ncategory = 'a'\npatterns = ['']", "pattern 1: '' is not a regular expr", "Escape"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, what: str, hint: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        rules(path)
    assert what in str(caught.value)
    assert caught.value.where.startswith(path)
    assert hint in caught.value.hint


@pytest.mark.parametrize("name", ["missing.toml", ".", "~no-user-of-this-name/mine.toml", "a\0b"])
def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        rules(name)


def test_a_file_of_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"# \xff")
    with pytest.raises(UsageError, match="cannot be read"):
        rules(str(path))


# Programs whose kernels do what only they do: nobody can tell from their names.
OF_THEIR_OWN = {
    "0x822a5b87+test-cuda__report1.sqlite",
    "MosesChuka+EasyCUDA__37a6839b.nsys_easy.sqlite",
    "bwyogatama+Mordred-Deprecated__95afc3a6.report1.sqlite",
    "hpcgroup+pipit__perlmutter-cloverleaf-cuda.sqlite",
    "hpcgroup+pipit__saxpy-mpi-cuda_nsys_perlmutter0.sqlite",
    "kmcho2019+Rodinia_3.1_Gaussian__report3.sqlite",
    "morluto+flameox__nsight-2025.5.2.sqlite",
    "tomarriott+GTLS__report1.sqlite",
}


@real
@pytest.mark.parametrize(
    "path",
    few([path for path in (*REAL_TRACES, *REAL_FILES) if path.name not in OF_THEIR_OWN], 2),
    ids=name_of,
)  # fmt: skip
def test_kernels_of_frameworks_are_categorized(path: Path) -> None:
    with nsysconv.open(path) as profile:
        try:
            rows = profile.report("kernel_categories").rows()
        except NotRecorded:
            return
    other = sum(row["kernel_pct"] for row in rows if row["category"] == OTHER)
    assert other < 0.2
