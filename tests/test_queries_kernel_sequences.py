"""Sequences of kernels: by hand, by a slow version, and what they have to say of real files."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from conftest import REAL, examples, few, real
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Memset, Operator, answers, asked

import nsysconv

Row = dict[str, Any]
ADD, NORM, GEMM = "elementwise_add", "layer_norm_kernel", "ampere_sgemm_128x64_nn"
# docs/definitions/kernels.md, Sequences of kernels.
TIMES = ((ADD, 0, 10), (NORM, 12, 20), (GEMM, 20, 50), (ADD, 50, 60), (NORM, 63, 70), (GEMM, 70, 99))


def rows_of(*events: Any, spec: str = "kernel_sequences") -> list[Row]:
    return answers(spec, *events)


def kernels(*times: tuple[str, int, int], **where: Any) -> list[Kernel]:
    return [Kernel(start, end, name=name, **where) for name, start, end in times]


def launched(*times: tuple[str, int, int], calls: tuple[tuple[str, int], ...]) -> list[Any]:
    """Kernels with the calls that launched them: operators, and how many kernels each launched."""
    events: list[Any] = []
    rest = list(enumerate(times, 1))
    for place, (operator, count) in enumerate(calls):
        at = 10_000 + 100 * place
        events.append(Operator(at, at + 90, operator))
        for number, (name, start, end) in rest[:count]:
            events += [Call(at + number, at + number + 1, number),
                       Kernel(50_000 + start, 50_000 + end, number, name=name)]  # fmt: skip
        rest = rest[count:]
    return events


def test_the_example_of_the_documentation() -> None:
    (row,) = rows_of(*kernels(*TIMES))
    assert (row["operators"], row["kernels"], row["length"]) == (None, f"{ADD}, {NORM}", 2)
    assert (row["sequence_count"], row["kernel_sum_ns"], row["gap_sum_ns"]) == (2, 35, 5)
    assert row["kernel_pct"] == pytest.approx(100 * 35 / (35 + 30 + 29))


def test_operators_are_named_and_those_in_a_row_once() -> None:
    names = (ADD, ADD, NORM, GEMM) * 2
    times = tuple((name, 10 * place, 10 * place + 5) for place, name in enumerate(names))
    calls = (("aten::add", 1), ("aten::add", 1), ("aten::norm", 1), ("aten::mm", 1))
    (row,) = rows_of(*launched(*times, calls=calls * 2))
    assert row["operators"] == "aten::add ×2, aten::norm"
    assert row["kernels"] == f"{ADD} ×2, {NORM}"


def test_kernels_of_one_call_are_no_sequence() -> None:
    product = ("aten::mm", 1)
    assert rows_of(*launched(*TIMES, calls=(("aten::norm", 2), product) * 2)) == []
    assert rows_of(*launched(*TIMES, calls=(("aten::norm", 1), ("aten::norm", 1), product) * 2)) != []


@pytest.mark.parametrize("between", [
    Memset(11, 12, stream=7), Kernel(11, 12, name="ncclKernel_AllReduce"), Kernel(11, 12, name=GEMM),
])  # fmt: skip
def test_another_operation_ends_a_sequence(between: Any) -> None:
    """Of the two sequences one is parted; on another stream it is not."""
    assert rows_of(*kernels(*TIMES), between) == []
    assert len(rows_of(*kernels(*TIMES), between._replace(stream=8))) == 1


def test_a_long_gap_ends_a_sequence() -> None:
    for gap, expected in ((1_000_000, 1), (1_000_001, 0)):
        later = [(name, start + 2_000_000, end + 2_000_000) for name, start, end in TIMES[:2]]
        apart = [(ADD, 0, 10), (NORM, 10 + gap, 20 + gap), (GEMM, 1_500_000, 1_600_000), *later]
        assert len(rows_of(*kernels(*apart))) == expected


def test_streams_and_devices_are_apart() -> None:
    assert rows_of(*kernels(*TIMES[:2]), *kernels(*TIMES[:2], device=1)) == []
    assert len(rows_of(*kernels(*TIMES[:2]), *kernels(*TIMES[:2], stream=8))) == 1
    assert [row["device_id"] for row in rows_of(*kernels(*TIMES), *kernels(*TIMES, device=1))] == [0, 1]
    assert rows_of(Kernel(0, 10, name=ADD), Kernel(12, 20, name=NORM, stream=8)) == []


def test_those_that_ran_once_on_request() -> None:
    once = kernels(*TIMES[:2])
    assert rows_of(*once) == []
    assert [row["sequence_count"] for row in rows_of(*once, spec="kernel_sequences:least=1")] == [1]


def test_very_long_ones_are_counted_in_a_note() -> None:
    for length, expected in ((100, [100]), (101, [])):
        times = [(ADD, 10 * place, 10 * place + 5) for place in range(length)]
        again = [(name, start + 5000, end + 5000) for name, start, end in times]
        report = asked("kernel_sequences", *kernels(*times, (GEMM, 4000, 4500), *again))
        assert [row["length"] for row in report.rows()] == expected
        assert [n.count for n in report.notes if n.slug == "sequences-too-long"] == [2] * (not expected)


NAMES = {"a": ADD, "n": NORM, "g": GEMM}


PLANTED = st.tuples(st.sampled_from("aang"), st.integers(0, 3), st.integers(0, 9), st.integers(0, 1))


@examples(100)
@given(st.lists(PLANTED, max_size=14))
def test_a_slow_version_agrees(planted: list[tuple[str, int, int, int]]) -> None:
    """Kernels of two streams, each after the one before on its stream."""
    at = [0, 0]
    streams: list[list[tuple[str, int, int]]] = [[], []]
    for letter, gap, time, stream in planted:
        start = at[stream] + gap
        at[stream] = start + time + 1
        streams[stream].append((NAMES[letter], start, at[stream]))
    expected: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for each in streams:
        run: list[tuple[str, int, int]] = []
        for kernel in [*each, (GEMM, 0, 0)]:
            if kernel[0] != GEMM:
                run.append(kernel)
                continue
            if len(run) > 1:
                row = expected[" ".join(name for name, _, _ in run)]
                row[0] += 1
                row[1] += sum(end - start for _, start, end in run)
                row[2] += sum(b[1] - a[2] for a, b in pairwise(run))
            run = []
    events = [each for number, times in enumerate(streams) for each in kernels(*times, stream=number + 1)]
    found = {}
    for row in rows_of(*events, spec="kernel_sequences:least=1") if events else []:
        names: list[str] = []
        for part in row["kernels"].split(", "):
            name, _, times = part.partition(" ×")
            names += [name] * int(times or 1)
        assert row["length"] == len(names)
        found[" ".join(names)] = [row["sequence_count"], row["kernel_sum_ns"], row["gap_sum_ns"]]
    assert found == dict(expected)


# -- real files. What has to be found was written down from their time lines: sequences of operators that
# kernels made for them replace.

HAS = {
    "kineto/AMD-AGI+TraceLens__0702619a.Falconsai_nsfw_image_detection__1016002.json.gz":
        ("aten::add, aten::native_layer_norm", 24),
    "kineto/AMD-AGI+TraceLens__737b43a1.gaunernst_bert-small-uncased__1016001.json.gz":
        ("aten::add, aten::native_layer_norm", 8),
    # RMSNorm in steps, twice.
    "nsys_sqlite/GindaChen+nsys-ai__mfu_2gpu_before.sqlite":
        ("aten::copy_, aten::pow, aten::mean, aten::add, aten::rsqrt, aten::mul, aten::copy_", 16),
    # A rotary embedding and a copy; batch norm, addition and ReLU.
    "kineto/AMD-AGI+TraceLens__eager_trace.json.gz": ("_C::rotary_embedding, aten::copy_", 36),
    "kineto/IBM+kineto-spyre__worker0.1623212756351.pt.trace.json.gz":
        ("aten::add, aten::cudnn_batch_norm, aten::add_, aten::clamp_min", 42),
}  # fmt: skip
HAS_NONE = (  # kernels made by hand, one product after the other, one convolution
    "nsys_sqlite/kmcho2019+Rodinia_3.1_Gaussian__report3.sqlite",
    "nsys_sqlite/hpcgroup+pipit__perlmutter-cloverleaf-cuda.sqlite",
    "kineto/AMD-AGI+TraceLens__trace.json.gz",
    "kineto/amd+HPCTrainingExamples__replay_trace.json",
)


@real
@pytest.mark.parametrize("path", few(HAS, 2), ids=lambda name: name[-40:])
def test_what_real_files_have(path: str) -> None:
    (report,) = nsysconv.report_on(REAL / path, "kernel_sequences")
    begin, times = HAS[path]
    rows = [row for row in report.rows() if (row["operators"] or "").startswith(begin)]
    counted = [row["sequence_count"] for row in rows]
    assert times in counted
    for row in report.rows():
        assert not re.search("gemm|nccl|conv|flash|foreach|multi_tensor", row["kernels"]), row["kernels"]


@real
@pytest.mark.parametrize("path", few(HAS_NONE, 1), ids=lambda name: name[-40:])
def test_what_real_files_have_not(path: str) -> None:
    (report,) = nsysconv.report_on(REAL / path, "kernel_sequences")
    assert report.rows() == []
