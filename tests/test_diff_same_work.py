"""Whether both sides did the same work, by grids, bytes, shapes and batches, and what has a verdict."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, by_turns, few, real
from diff_asking import ask, sides
from diff_workloads import SOURCES, STEP_NS, STEPS, Copy, Launch, run_of, training
from emit_nvtx import with_ranges
from golden_cases import run
from kineto_framework import Framework
from kineto_framework import Operator as TracedOperator
from machine import REDUCE, SAXPY, STENCIL
from small_store import Call, Kernel, Memcpy, Operator, Range, Row, opened, write
from workload import Workload
from write_kineto import write_kineto
from write_nsys import write_nsys

from nsysconv import api
from nsysconv.diff import same_work
from nsysconv.diff.same_work import (
    BLOCKS,
    BYTES,
    INPUTS,
    TOKENS,
    Amount,
    Amounts,
    grows_with_work,
    size_differences,
    sizes_note,
    sizes_of,
)
from nsysconv.queries import OWN, query

Sizes = Mapping[str, Amounts]
PER_ONE = (1.0, 1.0)


def sizes(**kinds: Mapping[Hashable, tuple[int, int, int]]) -> Sizes:
    """Amounts (times, size, weight) by kind and name."""
    words = (BLOCKS, BYTES, INPUTS, TOKENS)
    return {kind: {name: Amount(*of) for name, of in kinds.get(kind, {}).items()} for kind in words}


def said(base: Sizes, other: Sizes, per: tuple[float, float] = PER_ONE) -> list[tuple[str, bool]]:
    """What differs in three words, and whether it shows other work."""
    return [(each.short, each.is_other_work) for each in size_differences(base, other, per)]


def of_kernels(*blocks: int, times: int = 10, us: int = 100) -> Sizes:
    """Kernels k0, k1, … of so many blocks in all of their launches, each of the same time."""
    return sizes(blocks={f"k{i}": (times, each, us) for i, each in enumerate(blocks)})


def of_bytes(**directions: tuple[int, int]) -> dict[str, Amount]:
    """Copies and bytes by direction."""
    return {name: Amount(times, size, size) for name, (times, size) in directions.items()}


# -- what differs, and what of it shows other work

FACTOR = 128
SMALL = of_kernels(100, 100, 100)
LARGE = of_kernels(*[100 * FACTOR] * 3)
# The first of five kernels has nearly all of their time.
LONG_FIRST = sizes(blocks={f"k{i}": (10, 100, 9000 if i == 0 else 100) for i in range(5)})


def with_bytes(blocks: Sizes, **directions: tuple[int, int]) -> Sizes:
    return {**blocks, BYTES: of_bytes(**directions)}


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        pytest.param(SMALL, SMALL, [], id="nothing"),
        pytest.param(SMALL, LARGE, [("kernel blocks ×128", True)], id="all grids"),
        pytest.param(of_kernels(1000, 1000, 1000), of_kernels(1009, 1009, 1009), [], id="by 0.9 %"),
        pytest.param(of_kernels(1000, 1000, 1000), of_kernels(1011, 1011, 1011),
                     [("kernel blocks ×1.01", True)], id="by more than 1 %"),
        # 3 of 5 with 3/5 of the time are most, 2 of 4 are not, nor is one of five with nearly all of it.
        pytest.param(of_kernels(*[100] * 5), of_kernels(200, 200, 200, 100, 100),
                     [("kernel blocks ×2", True)], id="three of five"),
        pytest.param(of_kernels(*[100] * 4), of_kernels(200, 200, 100, 100),
                     [("kernel blocks ×2", False)], id="two of four"),
        pytest.param(LONG_FIRST, of_kernels(400, 100, 100, 100, 100), [("kernel blocks ×4", False)],
                     id="one tuned"),
        pytest.param(LONG_FIRST, of_kernels(100, 400, 400, 400, 400), [("kernel blocks ×4", False)],
                     id="four short ones"),
        # Of two larger ones and three smaller ones these are said, and are most.
        pytest.param(of_kernels(*[100] * 5), of_kernels(200, 200, 50, 50, 50),
                     [("kernel blocks ×0.5", True)], id="most the other way"),
        pytest.param(of_kernels(*[100] * 4), of_kernels(200, 200, 50, 50),
                     [("kernel blocks ×0.5", False)], id="half of them either way"),
        # Kernels of one side only say nothing of the size.
        pytest.param(of_kernels(100), sizes(blocks={"k": (10, 12800, 100)}), [], id="other names"),
        # A quarter of the blocks, four times as often, is the same; twice as often is less.
        pytest.param(of_kernels(400, 400, 400), of_kernels(400, 400, 400, times=40), [], id="in four"),
        pytest.param(of_kernels(400, 400, 400), of_kernels(200, 200, 200, times=20),
                     [("kernel blocks ×0.5", True)], id="in two, of which one is left out"),
        # Fewer than three kernels: a tuned one, unless bytes grew, or nothing is known of these.
        pytest.param(of_kernels(100, 100), of_kernels(200, 200), [("kernel blocks ×2", True)],
                     id="two, no copies"),
        pytest.param(with_bytes(of_kernels(100, 100), HtoD=(10, 1000)),
                     with_bytes(of_kernels(200, 200), HtoD=(10, 1000)),
                     [("kernel blocks ×2", False)], id="two, equal bytes"),
        pytest.param(with_bytes(of_kernels(100, 100), HtoD=(10, 1000)),
                     with_bytes(of_kernels(200, 200), HtoD=(10, 2000)),
                     [("kernel blocks ×2", True), ("HtoD bytes ×2", True)], id="two, and bytes"),
        pytest.param(with_bytes(SMALL, HtoD=(10, 1000)), with_bytes(LARGE, HtoD=(10, 1000)),
                     [("kernel blocks ×128", True)], id="three, equal bytes"),
        # Half the bytes of half the copies.
        pytest.param(with_bytes(SMALL, HtoD=(10, 1000), DtoH=(10, 1000)),
                     with_bytes(SMALL, HtoD=(5, 500), DtoH=(5, 500)), [], id="copies left out"),
        pytest.param(with_bytes(SMALL, HtoD=(10, 1000)), with_bytes(SMALL, HtoD=(5, 2000)), [],
                     id="fewer and larger copies"),
        # In and out alike. To 10 % of each other is alike.
        pytest.param(with_bytes(SMALL, HtoD=(10, 1000), DtoH=(10, 100)),
                     with_bytes(SMALL, HtoD=(10, 128_000), DtoH=(10, 12_800)),
                     [("HtoD bytes ×128", True), ("DtoH bytes ×128", True)], id="bytes both ways"),
        pytest.param(with_bytes(SMALL, HtoD=(10, 1000), DtoH=(10, 100)),
                     with_bytes(SMALL, HtoD=(10, 2000), DtoH=(10, 218)),
                     [("HtoD bytes ×2", True), ("DtoH bytes ×2.18", True)], id="nearly alike"),
        pytest.param(with_bytes(SMALL, HtoD=(10, 1000), DtoH=(10, 100)),
                     with_bytes(SMALL, HtoD=(10, 2000), DtoH=(10, 222)),
                     [("HtoD bytes ×2", False), ("DtoH bytes ×2.22", False)], id="unlike"),
        pytest.param(with_bytes(SMALL, HtoD=(10, 1000), DtoH=(10, 100)),
                     with_bytes(SMALL, HtoD=(10, 500), DtoH=(10, 100)),
                     [("HtoD bytes ×0.5", False)], id="one way in half precision"),
        pytest.param(with_bytes(SMALL, HtoD=(10, 1000), DtoH=(10, 9)),
                     with_bytes(SMALL, HtoD=(10, 500), DtoH=(10, 9)),
                     [("HtoD bytes ×0.5", False)], id="and a loss that is read back"),
        pytest.param(with_bytes(SMALL, HtoD=(10, 1000), DtoD=(10, 1000), DtoH=(10, 9)),
                     with_bytes(SMALL, HtoD=(10, 2000), DtoD=(10, 2000), DtoH=(10, 9)),
                     [("HtoD bytes ×2", True), ("DtoD bytes ×2", True)], id="all but the loss"),
        # Nothing is known of grids: bytes alone decide, by their weight.
        pytest.param(with_bytes(sizes(), HtoD=(10, 1000), DtoH=(10, 100)),
                     with_bytes(sizes(), HtoD=(10, 500), DtoH=(10, 100)),
                     [("HtoD bytes ×0.5", True)], id="bytes, no grids"),
        pytest.param(sizes(inputs={"mm": (10, 100, 100), "add": (10, 10, 10)}),
                     sizes(inputs={"mm": (10, 200, 200), "add": (10, 20, 20)}),
                     [("operator inputs ×2", True)], id="inputs"),
        pytest.param(sizes(inputs={"mm": (10, 100, 100), "add": (10, 10, 10)}),
                     sizes(inputs={"mm": (10, 200, 200), "add": (10, 10, 10)}),
                     [("operator inputs ×2", False)], id="inputs of one of two"),
    ],
)  # fmt: skip
def test_sizes_that_differ(base: Sizes, other: Sizes, expected: list[tuple[str, bool]]) -> None:
    assert said(base, other) == expected


def test_sizes_are_those_of_a_step() -> None:
    """Ten steps, and twenty of the same: twice the launches, blocks and bytes. Or of twice the blocks."""
    base = with_bytes(of_kernels(100, 100, 100), HtoD=(10, 1000), DtoH=(10, 1000))
    same = with_bytes(of_kernels(200, 200, 200, times=20), HtoD=(20, 2000), DtoH=(20, 2000))
    double = with_bytes(of_kernels(400, 400, 400, times=20), HtoD=(20, 4000), DtoH=(20, 4000))
    assert said(base, same, (10, 20)) == []
    expected = [("kernel blocks ×2", True), ("HtoD bytes ×2", True), ("DtoH bytes ×2", True)]
    assert said(base, double, (10, 20)) == expected


def test_what_shows_other_work_is_said_first() -> None:
    """3 of 3 annotations, with the tuned kernel of three before them."""
    base, other = (
        {**of_kernels(blocks, 10, 10), TOKENS: {("step", "bs"): Amount(10, batches, 10)}}
        for blocks, batches in ((30, 40), (60, 5120))
    )
    found = size_differences(base, other, (10, 10))
    assert [(each.text, each.is_other_work) for each in found] == [
        ("batch sizes in annotations 4 → 512 (×128) in 1 of 1 annotations", True),
        ("kernel blocks 3 → 6 (×2) in 1 of 3 kernels", False),
    ]
    (note,) = sizes_note(found)
    assert note.text == f"sizes: {found[0].text}; {found[1].text}"
    assert sizes_note([]) == []


def test_more_blocks_of_fewer_threads_are_the_same_work() -> None:
    """100 blocks of 256 threads in each launch became 200 of 128, or of 256."""

    def launched(blocks: int, threads: int) -> Sizes:
        amount = Amount(10, 10 * blocks, 100, 10 * blocks * threads)
        return {**sizes(), BLOCKS: {f"k{i}": amount for i in range(3)}}

    assert said(launched(100, 256), launched(200, 128)) == []
    assert said(launched(100, 256), launched(200, 256)) == [("kernel blocks ×2", True)]
    # Of one side they are not known.
    assert said(launched(100, 256), launched(200, 0)) == [("kernel blocks ×2", True)]


# -- what a profile ran


def sizes_in(*rows: Row) -> Sizes:
    with opened(*rows) as profile:
        return {**sizes(), **sizes_of(profile.timeline)}


def test_blocks_are_those_of_known_grids() -> None:
    """2 * 3 * 4 + 1 blocks in two launches, 10 + 30 ns."""
    rows = [
        Kernel(0, 10, name="gemm", grid=(2, 3, 4)),
        Kernel(10, 40, name="gemm", grid=(1, 1, 1)),
        Kernel(50, 60, name="gemm"),
        Kernel(60, 70, name="old"),
    ]
    assert sizes_in(*rows) == sizes(blocks={"gemm": (2, 25, 40)})
    known = sizes_in(*(row._replace(block=(32, 4, 1)) for row in rows))
    assert known[BLOCKS] == {"gemm": Amount(2, 25, 40, 25 * 32 * 4)}


@pytest.mark.parametrize("kind", ["operators", "ranges"])
def test_inputs_are_elements_of_all_tensors(kind: str) -> None:
    """Twice 2 * 3 + 3 * 4 elements of a product, once 4 * 5 + 1 of a sum; lists and scalars have none."""

    def ran(name: str, shapes: str, number: int) -> Row:
        if kind == "operators":
            return Operator(number, number + 1, name, shapes=shapes)
        return Range(number, number + 1, f"{name}, op_id = {number}, sizes = {shapes}")

    rows = [
        ran("aten::mm", "[[2, 3], [3, 4]]", 1),
        ran("aten::mm", "[[2, 3], [3, 4]]", 2),
        ran("aten::add", "[[4, 5], [], [1]]", 3),
        ran("aten::cat", "[[[2, 3], [4]]]", 4),
        ran("aten::odd", "[[2, 3", 5),
        ran("aten::none", "[]", 6),
    ]
    assert sizes_in(*rows) == sizes(inputs={"aten::mm": (2, 36, 36), "aten::add": (1, 21, 21)})


def batches_in(texts: list[str]) -> Sizes:
    """The batches that annotations say."""
    return {**sizes(), TOKENS: same_work.tokens_in(Counter(texts).items())}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["step[DECODE bs=4 toks=4]", "step[DECODE bs=512 toks=512]"], {"bs": 516, "toks": 516}),
        (["batch_size: 32", "batch_size: 64"], {"batch_size": 96}),
        (["Batch = 8, seq_len=1024"], {"batch": 8, "seq_len": 1024}),
        (["execute_context_1(512)_generation_0"],
         {"context": 1, "context tokens": 512, "generation": 0}),
        (["execute_context_1(512)_generation_3(7)", "execute_context_2(64)_generation_1(1)"],
         {"context": 3, "context tokens": 576, "generation": 4, "generation tokens": 8}),
        (["decode[num_seqs=4]", "decode[num_seqs=8]"], {"num_seqs": 12}),
        (['{"micro_batch_size": 8}', '{"micro_batch_size": 16}'], {"micro_batch_size": 24}),
        (["bsz=2, n_tokens: 128, prompt len=9, batch-size=7"],
         {"bsz": 2, "n_tokens": 128, "prompt len": 9, "batch-size": 7}),
        (["B=4, S=128"], {"b": 4, "s": 128}),
        # Consecutive numbers say which batch it is, and a number without a sign unless it never changes.
        (["batch 4", "batch 4", "batch 4"], {"batch": 12}),
        (["batch 4", "batch 4"], {}),
        (["batch 4", "batch 4", "batch 8"], {}),
        (["b=4"], {}),
        (["batch: 7", "batch: 9", "batch: 8"], {}),
        (["batch: 7", "batch: 9", "batch: 10"], {"batch": 26}),
        (["batch: 7", "batch: 7", "batch: 8"], {"batch": 22}),
        # As people and frameworks spell them.
        # B2 and B200 are names of a model and of a GPU.
        (["per_device_train_batch_size=4", "fwd_bs8", "EfficientNet-B2", "B200"] * 3,
         {"train_batch_size": 12, "bs": 24}),
        (["numTokens=3, max_seq_len: 9", "num_scheduled_tokens=5, GBS=2"],
         {"numtokens": 3, "seq_len": 9, "tokens": 5, "gbs": 2}),
        (["_forward_step 5: 2 ctx reqs, 1,024 ctx tokens, 30 gen reqs"],
         {"ctx reqs": 2, "ctx tokens": 1024, "gen reqs": 30}),
        (["execute_9_context_1(sq512sk512)_generation_8(sq8sk40)"],
         {"context": 1, "context tokens": 512, "generation": 8, "generation tokens": 8}),
        (["forward 4x3x8", "shape=(2, 5)", "dims: [3,4]"], {"shape": 96 + 10 + 12}),
        (["batch of 4"] * 3, {"batch": 12}),
        (["bs -> 4", "bs: '8'", "isl=128"], {"bs": 12, "isl": 128}),
        (["forward_b4_s128", "b2 h8 s64", "fwd b8s16"], {"b": 14, "s": 208, "h": 8}),
        (["gemm [M=8, N=4, K=2]", "conv n=8 c=3"], {"m": 8, "n": 12, "k": 2, "c": 3}),
        (["forwardAsync ctx 1, gen 4", "execute_new_1_cached_3"],
         {"ctx": 1, "gen": 4, "new": 1, "cached": 3}),
        (["prefill S=128", "bert_seq64", "pp512"] * 3, {"s": 384, "seq": 192, "pp": 1536}),
        (["seq_len=4k", "maxSeqLen=512", "kv_len=7"], {"seq_len": 4096, "seqlen": 512, "len": 7}),
        (["train_micro_batch_size_per_gpu: 4"], {"train_micro_batch_size_per_gpu": 4}),
        (["f(bf16[8,2])", "torch.Size([4, 8])", "512×4", "input_ids=(2, 3)"],
         {"shape": 16 + 32 + 2048 + 6}),
        # Rates, times, shares, one of so many, tiles, and what waits.
        (["55 samples per second", "9 tokens/s", "batch: 4.5 ms", "batch: 12 ms", "batch: 45%", "bs=3/8",
          "batch: 3 of 8", "tile 128x64", "gemm_64x64_tn", "BLOCK_M=64", "queue_len=3", "S=0.5",
          "mma m16n8k16", "Llama-7B", "s2 b2"] * 3, {}),
        (["tokens: 12,345/s", "tokens=1,024.5", "batch 1,234/5,000"] * 3, {}),
        # What comes before a word is its number, unless one follows behind a sign.
        (["step 7 tokens=128", "step 8 tokens: 128", "9 tokens: prefill"], {"tokens": 265}),
        # Each token is another one; so is each batch, in every epoch, and every fifth one.
        (["batch: 1", "batch: 2", "batch: 3"] * 2, {}),
        (["batch: 0", "batch: 5", "batch: 10"], {}),
        (["len: 8", "len: 16", "len: 24"], {"len": 48}),
        (["layer L=0", "layer L=1"] * 3, {}),
        (["5 tokens", "6 tokens", "7 tokens"], {}),
        (["0x1F", "a 12 b", "seq = 7, op_id = 9", "layer 3x", "f<1, 2>(3)"], {}),
        (["context_12x", "ProfilerStep#7", "absent=4", "bs=", f"bs={'9' * 16}"], {}),
    ],
)  # fmt: skip
def test_batches_are_read_from_annotations(texts: list[str], expected: dict[str, int]) -> None:
    found = batches_in(texts)[TOKENS]
    of_word: Counter[str] = Counter()
    for (_, word), amount in found.items():  # type: ignore[misc]
        of_word[word] += amount.size
        assert amount.times == amount.weight
    assert of_word == Counter(expected)


@pytest.mark.parametrize(
    ("base", "other", "expected"),
    [
        ("step[DECODE bs=4 toks=4]", "step[DECODE bs=512 toks=512]", True),
        ("step[bs=4 toks=4]", "step[bs=4 toks=512]", True),
        ("execute_context_1(512)_generation_0", "execute_context_128(512)_generation_0", True),
        ("execute_context_1(512)_generation_0(0)", "execute_context_1(65536)_generation_0(0)", True),
        ("step 4", "step 512", None),
        ("batch 4", "batch 512", True),
        ("num_tokens: 512", "num_tokens: 1,024", True),
        ("forward 4x3x224x224", "forward 8x3x224x224", True),
        ("forward_b4_s128", "forward_b4_s1024", True),
        ("B=4, S=128", "B=4, S=512", True),
        ("ctx 1, gen 4", "ctx 1, gen 64", True),
        ("gemm_s2", "gemm_s4", None),
        # One number is larger, the other smaller: that says nothing.
        ("step[bs=4 seq_len=512]", "step[bs=8 seq_len=256]", False),
    ],
)
def test_a_batch_is_larger_where_one_of_its_numbers_is(
    base: str, other: str, expected: bool | None
) -> None:
    """None: nothing differs."""
    found = said(*(batches_in([text] * 3) for text in (base, other)))
    assert [is_other for _, is_other in found] == ([] if expected is None else [expected])


def test_long_names_are_not_read_to_their_end() -> None:
    """They took minutes: names come from whoever wrote the profile."""
    for text in ("num_n_", "input_", "B=4 ", "b4 ", "ctx 1 "):
        found = sizes_in(Range(0, 1, text * 40_000), Range(1, 2, text * 40_000 + "5"))[TOKENS]
        assert len(found) <= 4


def test_which_columns_grow_with_work() -> None:
    grow = {f"{name}.{c.name}" for name in OWN for c in query(name).columns if grows_with_work(c)}
    assert grow >= {
        "overview.window_ns", "overview.kernel_sum_ns", "overview.kernel_union_ns",
        "overview.kernel_count", "transfers.bytes_sum", "idle_summary.gap_sum_ns",
    }  # fmt: skip
    assert not grow & {
        "kernels.avg_ns", "kernels.med_ns", "kernels.max_ns", "kernels.min_ns", "kernels.kernel_pct",
        "overview.idle_pct", "transfers.bytes_max", "transfers.throughput_bytes_per_s",
    }  # fmt: skip


# -- through the door


def steps(
    count: int = 10, *, blocks: int = 16, size: int = 1000, text: str = "ProfilerStep#{}", us: int = 50
) -> list[Row]:
    """Steps of 1 ms, each with a copy either way and three kernels of these blocks and us."""
    rows: list[Row] = []
    for step in range(count):
        at, number = step * 1_000_000, 10 * step
        rows.append(Range(at, at + 900_000, text.format(step)))
        for i, name in enumerate(("gemm", "norm", "relu")):
            begin = at + i * 200_000
            rows.append(Call(begin, begin + 2_000, number + i + 1))
            rows.append(Kernel(begin + 5_000, begin + 5_000 + us * 1000, number + i + 1, name=name,
                               grid=(blocks, 1, 1)))  # fmt: skip
        for i, (way, src, dst) in enumerate((("HtoD", "Pinned", "Device"), ("DtoH", "Device", "Pinned"))):
            begin = at + 600_000 + i * 100_000
            rows.append(Call(begin, begin + 2_000, number + i + 5, name="cudaMemcpyAsync"))
            rows.append(Memcpy(begin + 5_000, begin + 55_000, number + i + 5, direction=way, bytes=size,
                               src=src, dst=dst))  # fmt: skip
    return rows


EVERY = ("overview", "kernels", "kernel_categories", "transfers", "api_vs_kernel", "launch_stats",
         "steps", "idle_summary", "gpu_utilization")  # fmt: skip
TIMES = ("overview.window_ns:3%", "overview.kernel_sum_ns:3%", "kernels.avg_ns:3%",
         "kernels.per_step_ns:3%", "steps.avg_ns:3%", "steps.period_ns:3%", "transfers.memcpy_sum_ns:3%",
         "api_vs_kernel.per_step_ns:3%", "overview.idle_pct:5pp")  # fmt: skip
COUNTS = ("kernels.kernel_count:0%", "transfers.bytes_sum:0%", "transfers.memcpy_count:0")


def compared(folder: Path, base: list[Row], other: list[Row], limits: Any = (), **more: Any) -> Any:
    """What is said of stores of these rows; `more` is what `write` is given for the other side."""
    for name, rows, options in (("base", base, {}), ("other", other, more)):
        (folder / f"{name}.db").unlink(missing_ok=True)
        write(folder / f"{name}.db", *rows, **options)
    return api.compare(folder / "base.db", folder / "other.db", EVERY, fail_on=limits)


def states(result: Any) -> dict[str, str]:
    return {row["limit"]: row["state"] for row in result.reports[-1].rows()}


def verdicts(result: Any) -> set[str | None]:
    """All that is said in columns of verdicts."""
    rows = [row for report in result.reports if report.table is not None for row in report.rows()]
    return {value for row in rows for name, value in row.items() if name.startswith("verdict")}


LARGER = {
    "grids": {"blocks": 16 * FACTOR},
    "bytes": {"size": 1000 * FACTOR},
    "batch": {"text": "step[bs=512]"},
}
SAID = {"grids": "kernel blocks", "bytes": "HtoD bytes", "batch": "batch sizes in annotations"}


@pytest.mark.parametrize(("what", "way"), by_turns(LARGER, ["grows", "shrinks"], 2))
def test_work_of_another_size_is_not_compared(what: str, way: str, tmp_path: Path) -> None:
    """It took 4 % longer, or less: nobody knows what that would be of the same work."""
    small = steps(us=50, **({"text": "step[bs=4]"} if what == "batch" else {}))
    pair = [small, steps(us=52, **LARGER[what])]
    base, other = pair if way == "grows" else pair[::-1]
    result = compared(tmp_path, base, other, [*TIMES, *COUNTS])
    ratio = "×128" if way == "grows" else "×0.00781"
    reason = f"different workloads ({SAID[what]} {ratio}"
    assert result.answer.startswith(f"inconclusive: {reason}")
    assert result.headline.rows()[0]["unlike"].startswith(SAID[what])
    assert verdicts(result) == {None}
    found = states(result)
    assert {found[limit] for limit in TIMES} == {"inconclusive"}
    # What is counted is judged: bytes that are more are too many, and fewer are not.
    more_bytes = what == "bytes" and way == "grows"
    of_bytes_sum = "exceeded" if more_bytes else "within"
    assert [found[limit] for limit in COUNTS] == ["within", of_bytes_sum, "within"]
    assert result.exit_status == (1 if more_bytes else 4)
    row = next(row for row in result.reports[-1].rows() if row["limit"] == TIMES[0])
    assert row["reason"].startswith(f"different workloads: {SAID[what]} {ratio}")
    assert row["reason"].endswith("; record both sides with one size")
    assert row["needs_runs"] is None


def test_several_runs_of_another_size_are_not_compared(tmp_path: Path) -> None:
    for name, blocks in (("base", 16), ("other", 16 * FACTOR)):
        for run_of_side in range(3):
            write(tmp_path / f"{name}.db", *steps(3, blocks=blocks, us=50 + run_of_side),
                  label=f"run {run_of_side}")  # fmt: skip
    result = api.compare(tmp_path / "base.db", tmp_path / "other.db", ["overview"],
                         fail_on=[*TIMES, *COUNTS])  # fmt: skip
    found = states(result)
    assert {found[limit] for limit in TIMES} == {"inconclusive"}
    assert {found[limit] for limit in COUNTS} == {"within"}


def test_a_rank_that_is_missing_on_a_shared_gpu_passes_nothing(tmp_path: Path) -> None:
    for name, ranks in (("base", (0, 1)), ("other", (0,))):
        for rank in ranks:
            write(tmp_path / f"{name}.db", *steps(3), run="run", label=f"rank {rank}", ranks={1: rank},
                  gpus={0: {"uuid": "a"}})  # fmt: skip
    pair, limits = (tmp_path / "base.db", tmp_path / "other.db"), [*TIMES, *COUNTS]
    result = api.compare(*pair, ["overview"], fail_on=limits, inconclusive="pass")
    assert states(result) == dict.fromkeys(limits, "inconclusive")
    assert result.answer.startswith("inconclusive: one side, or a rank of it, has no GPU work")
    assert result.exit_status == 4


def test_one_size_that_differs_is_a_note(tmp_path: Path) -> None:
    """Copies in half the bytes one way: times are judged as ever."""
    base = steps(us=50)
    other = [row._replace(bytes=500) if isinstance(row, Memcpy) and row.direction == "HtoD" else row
             for row in steps(us=60)]  # fmt: skip
    result = compared(tmp_path, base, other, TIMES[1:2])
    assert states(result) == {TIMES[1]: "exceeded"}
    notes = [note for report in result.reports for note in report.notes]
    texts = {note.text for note in notes if note.slug == "sizes-differ"}
    assert texts == {"sizes: HtoD bytes 1.00 kB → 500 B (×0.5)"}


@pytest.mark.parametrize(("other", "extra"), by_turns(["steps", "gpu"], [0, 1], 2))
def test_counts_are_judged_whatever_else_differs(other: str, extra: int, tmp_path: Path) -> None:
    """Of another number of steps, or on another GPU, where sums of times are not judged."""
    changed = steps(11 if other == "steps" else 10)
    if extra:
        changed += [Memcpy(860_000, 870_000, 9, bytes=10_000_000, src="Pinned")]
    gpus = {"gpus": {0: {"name": "another GPU"}}} if other == "gpu" else {}
    result = compared(tmp_path, steps(), changed, [*TIMES[1:2], "transfers.bytes_sum:50%"], **gpus)
    assert [*states(result).values()] == ["inconclusive", "exceeded" if extra else "within"]
    assert result.exit_status == (1 if extra else 4)


@pytest.mark.parametrize("blocks", [16, 16 * FACTOR])
def test_no_copies_are_no_bytes(blocks: int, tmp_path: Path) -> None:
    """0 is no more than 0, and as counts are, that is judged of other work, too."""
    base, other = (
        [row for row in steps(blocks=each) if not isinstance(row, Memcpy)] for each in (16, blocks)
    )
    result = compared(tmp_path, base, other, ["transfers.bytes_sum:0%", "transfers.memcpy_sum_ns:3%"])
    by_limit = {row["limit"]: row for row in result.reports[-1].rows()}
    assert by_limit["transfers.bytes_sum:0%"]["state"] == "within"
    assert by_limit["transfers.bytes_sum:0%"]["reason"].endswith(": 0 on both")
    assert by_limit["transfers.memcpy_sum_ns:3%"]["state"] == "inconclusive"


# -- of every source


def scaled(workload: Workload, factor: int = FACTOR) -> Workload:
    """The same with larger grids and copies, in the same time."""
    events = workload.events
    return replace(workload, events=replace(
        events,
        kernels=tuple(replace(k, grid=(k.grid[0] * factor, *k.grid[1:])) for k in events.kernels),
        memcpys=tuple(replace(m, bytes=m.bytes * factor) for m in events.memcpys),
    ))  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_of_every_source_that_has_grids(source: str, tmp_path: Path) -> None:
    limits = ["overview.window_ns:3%", "kernels.avg_ns:3%", "kernels.kernel_count:0"]
    small = run_of([[Copy(8_000), *[Launch(f, 40_000) for f in (SAXPY, REDUCE, STENCIL)]]] * 3)
    found = ask(sides(tmp_path, [small], [scaled(small)], (source, source)), limits=limits)
    assert [*found.states.values()] == ["inconclusive", "inconclusive", "within"]
    assert found.result.answer.startswith("inconclusive: different workloads (kernel blocks ×128")


def framework(batch: int) -> Framework:
    """Two operators in each step, with a first dimension of `batch`."""
    thread, made = training().threads[0], []
    for step in range(STEPS):
        at = 10_000 + step * STEP_NS
        for i, name in enumerate(("aten::mm", "aten::add")):
            begin = at + 1_000 * i
            made.append(TracedOperator(thread, name, begin, begin + 500, f"[[{batch}, 64], [64, 8]]",
                                       '["float", "float"]'))  # fmt: skip
    return Framework(tuple(made))


def _as_trace(batch: int, path: Path) -> Path:
    workload = training()
    write_kineto(workload, workload.processes[0], path / "run.json", "2.13", framework(batch))
    return path / "run.json"


def _as_ranges(batch: int, path: Path) -> Path:
    write_nsys(with_ranges(training(), framework(batch)), path / "run.sqlite", "3.25.0")
    return path / "run.sqlite"


@pytest.mark.parametrize("written", [_as_trace, _as_ranges], ids=["Kineto", "emit_nvtx"])
def test_inputs_of_other_shapes(written: Callable[[int, Path], Path], tmp_path: Path) -> None:
    """4 * 64 + 64 * 8 = 768 elements became 512 * 64 + 64 * 8 = 33,280, 43.3 times as many."""
    files = []
    for name, batch in (("base", 4), ("other", 512)):
        (tmp_path / name).mkdir()
        files.append(written(batch, tmp_path / name))
    result = api.compare(*files, ["overview"], fail_on=["overview.window_ns:3%"])
    assert result.answer.startswith("inconclusive: different workloads (operator inputs ×43.3); ")
    assert result.exit_status == 4


# -- a real one

TRACE = REAL / "kineto" / "IBM+kineto-spyre__worker0.1623143566756.pt.trace.json.gz"


def _scaled_shapes(shapes: Any) -> Any:
    # Only the first dimension, that of the batch.
    return [[each[0] * FACTOR, *each[1:]] if each and isinstance(each[0], int) else each
            for each in shapes]  # fmt: skip


def _scaled_event(event: dict[str, Any]) -> None:
    arguments = event.get("args", {})
    if event.get("cat") == "Kernel":
        arguments["grid"] = [arguments["grid"][0] * FACTOR, *arguments["grid"][1:]]
    if event.get("cat") in ("Memcpy", "Memset"):
        arguments["bytes"] *= FACTOR
    if "Input Dims" in arguments:
        arguments["Input Dims"] = _scaled_shapes(arguments["Input Dims"])


@real
@pytest.mark.parametrize(
    ("base", "other"), few([("small.json", "large.json"), ("large.json", "small.json")], 0)
)
def test_a_real_trace_of_a_batch_128_times_as_large(base: str, other: str, tmp_path: Path) -> None:
    with gzip.open(TRACE, "rt", encoding="utf-8") as file:
        trace = json.load(file)
    (tmp_path / "small.json").write_text(json.dumps(trace), encoding="utf-8")
    for event in trace["traceEvents"]:
        _scaled_event(event)
    (tmp_path / "large.json").write_text(json.dumps(trace), encoding="utf-8")
    outcome = run("diff", base, other, "--fail-on", "overview.window_ns:3%", cwd=tmp_path)
    assert outcome.status == 4
    assert outcome.out.startswith("INCONCLUSIVE: different workloads (")
