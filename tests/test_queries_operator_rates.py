"""Rates of operators, utilization of steps: by hand, by a slow version, and as TraceLens has them."""

from __future__ import annotations

import ast
import csv
import json
from itertools import count
from math import prod
from statistics import median
from typing import Any

import pytest
from conftest import REAL, examples, few, name_of, real
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Memset, Operator, Range, opened

import nsysconv
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.notes import Note
from nsysconv.timeline.operator_calls import without_lists_of_tensors
from nsysconv.timeline.slices import Slice

Row = dict[str, Any]
HALVES = '["c10::Half", "c10::Half", "c10::Half"]'
ADDMM = "[[8], [4, 16], [16, 8]]"  # 1024 operations, 464 bytes
ADD = "[[10, 10], [10, 10]]"  # 100 operations, 600 bytes


def asked(*events: Any, spec: str = "operators:rates", part: Slice | None = None,
          without: Any = ()) -> tuple[list[Row], dict[str, Note]]:  # fmt: skip
    with opened(*events, without=without) as profile:
        report = profile.report(spec, slice=part)
    return report.rows(), {note.slug: note for note in report.notes}


def calls(*times: int, name: str = "aten::add", shapes: str | None = ADD, types: str | None = HALVES,
          kernel: str = "kernel") -> list[Any]:  # fmt: skip
    """Calls of an operator, one after the other, each with a kernel of so many ns."""
    rows: list[Any] = []
    for number, time in enumerate(times, 1):
        at = 1000 * number
        rows += [Operator(at, at + 20, name, shapes=shapes, types=types), Call(at + 5, at + 10, number),
                 Kernel(at + 30, at + 30 + time, number, name=kernel)]  # fmt: skip
    return rows


# -- by hand


def test_the_example_of_the_documentation() -> None:
    peaks = "peak_flop_per_s=10e9:peak_bytes_per_s=2e9"
    (row,), notes = asked(
        *calls(200, name="aten::addmm", shapes=ADDMM), spec=f"operators:rates:{peaks}"
    )
    assert (row["name"], row["shapes"], row["types"]) == ("aten::addmm", ADDMM, "Half")
    assert (row["flop_sum"], row["operand_bytes_sum"], row["device_union_sum_ns"]) == (1024, 464, 200)
    assert row["flop_per_s"] == row["flop_per_s_med"] == pytest.approx(5.12e9)
    assert row["operand_throughput_bytes_per_s"] == pytest.approx(2.32e9)
    assert row["flop_per_byte"] == pytest.approx(1024 / 464)
    assert (row["peak_flop_pct"], row["peak_bytes_pct"]) == pytest.approx((51.2, 116))
    # 116 % of the memory's peak, and 51 % of the other.
    assert (notes["rate-above-peak"].count, notes["rate-above-peak"].of) == (1, 1)
    assert "peak_bytes_per_s" in notes["rate-above-peak"].text


def test_the_median_of_calls_is_beside_the_rate_of_sums() -> None:
    (row,), _ = asked(*calls(10, 20, 70))
    assert row["flop_per_s"] == pytest.approx(3e9)
    assert row["flop_per_s_med"] == pytest.approx(5e9)
    (row,), _ = asked(*calls(10, 20))  # of two it is the mean of both
    assert row["flop_per_s_med"] == pytest.approx(7.5e9)
    assert (row["peak_flop_pct"], row["peak_bytes_pct"]) == (None, None)


def test_the_time_of_a_call_is_the_union_of_what_it_launched_and_what_operators_in_it_did() -> None:
    """A memory set [100, 120), a kernel of an operator inside [110, 150): 50 ns."""
    rows, _ = asked(
        Operator(0, 50, "aten::mm", shapes="[[2, 3], [3, 5]]"), Call(5, 8, 1), Memset(100, 120, 1),
        Operator(10, 40, "aten::as_strided"), Call(15, 20, 2), Kernel(110, 150, 2),
        Operator(200, 210, "aten::relu"), Call(201, 202, 3), Kernel(300, 310, 3),
    )  # fmt: skip
    (row,) = rows
    assert (row["name"], row["device_union_sum_ns"]) == ("aten::mm", 50)
    assert row["flop_per_s"] == pytest.approx(60e9 / 50)
    # Without types there are no bytes.
    assert (row["types"], row["operand_bytes_sum"], row["flop_per_byte"]) == (None, None, None)
    assert row["operand_throughput_bytes_per_s"] is None


def test_calls_on_several_devices_have_no_rate() -> None:
    events = [*calls(10), Call(1006, 1007, 9), Kernel(1100, 1110, 9, device=1)]
    (row,), _ = asked(*events)
    assert (row["flop_sum"], row["device_union_sum_ns"]) == (100, 0)
    assert (row["flop_per_s"], row["flop_per_s_med"]) == (None, None)


def test_types_are_apart() -> None:
    """Calls of one name and shapes, in two types: of one type it is said once."""
    rows, _ = asked(*calls(10), *calls(10, 20, types='["float", "c10::Half", "Scalar"]')[3:])
    assert {row["types"]: row["call_count"] for row in rows} == {"Half": 1, "float, Half": 1}


def test_rows_are_ordered_by_the_time_of_rates() -> None:
    """Also where an operator inside launched the work."""
    rows, _ = asked(*calls(10), *calls(5, 30, name="aten::mul")[3:],
                    Operator(2002, 2015, "aten::copy_"))  # fmt: skip
    assert [row["name"] for row in rows] == ["aten::mul", "aten::add"]
    rows, _ = asked(*calls(10), *calls(5, 30, name="aten::mul")[3:], spec="operators")
    assert {row["name"]: row["flop_per_s"] for row in rows} == {
        "aten::mul": pytest.approx(100e9 / 30), "aten::add": pytest.approx(1e10)}  # fmt: skip


def test_kernels_that_no_rate_counts_are_noted() -> None:
    """A product with shapes, one without, and one of no operator; what is no product does not matter."""
    product = "ampere_fp16_s16816gemm_fp16_64x64_tn"
    events = [
        *calls(10, name="aten::mm", shapes="[[2, 3], [3, 5]]", kernel=product),
        *calls(10, 10, name="aten::mm", shapes=None, kernel=product)[3:],
        Kernel(5000, 5010, name=product), Kernel(6000, 6010, name="elementwise"),
    ]  # fmt: skip
    rows, notes = asked(*events)
    assert [row["call_count"] for row in rows] == [1]
    assert (notes["operations-unknown"].count, notes["operations-unknown"].of) == (2, 3)
    _, notes = asked(*events[:3])
    assert "operations-unknown" not in notes


def test_without_links_there_are_bytes_and_no_rates() -> None:
    (row,), _ = asked(*calls(10), without=[Fact.API_LINKS])
    assert (row["operand_bytes_sum"], row["flop_per_byte"]) == (600, pytest.approx(1 / 6))
    assert (row["device_union_sum_ns"], row["flop_per_s"], row["flop_per_s_med"]) == (None, None, None)


def test_a_slice_has_the_rates_of_its_calls() -> None:
    rows, _ = asked(*calls(10, 20, 70), part=Slice(time=(1900, 2900)))
    assert [(row["call_count"], row["device_union_sum_ns"]) for row in rows] == [(1, 20)]


def test_without_shapes_rates_are_not_recorded() -> None:
    with pytest.raises(NotRecorded, match="shapes"):
        asked(Operator(0, 10, "aten::mm"))


# -- by a slow version

SHAPES = {"[[2, 3], [3, 5]]": (60, 62), "[[4, 3], [3, 5]]": (120, 94), "[[2, 3], [4, 5]]": None}


WORK = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=3)


@examples(100)
@given(st.lists(st.tuples(st.sampled_from(sorted(SHAPES)), st.booleans(), WORK), max_size=8))
def test_a_slow_version_agrees(planted: list[tuple[str, bool, list[tuple[int, int]]]]) -> None:
    """Calls of products with some kernels each, half of them with types."""
    events: list[Any] = [Operator(5, 10, "aten::relu", shapes="[[1]]")]
    number = count(1)
    expected: dict[tuple[str, str | None], list[int]] = {}
    for place, (shapes, typed, kernels) in enumerate(planted, 1):
        at = 100 * place
        types = '["c10::Half", "c10::Half"]' if typed else None
        events.append(Operator(at, at + 50, "aten::mm", shapes=shapes, types=types))
        for which, (start, time) in enumerate(kernels):
            correlation = next(number)
            events.append(Call(at + 10 * which, at + 10 * which + 5, correlation))
            events.append(Kernel(at + start, at + start + time, correlation, stream=which))
        if SHAPES[shapes]:
            covered = {t for start, time in kernels for t in range(start, start + time)}
            expected.setdefault((shapes, "Half" if typed else None), []).append(len(covered))
    rows, _ = asked(*events)
    found = {(row["shapes"], row["types"]): row for row in rows}
    assert found.keys() == expected.keys()
    for key, times in expected.items():
        flop, size = SHAPES[key[0]] or (0, 0)
        row, timed = found[key], [time for time in times if time]
        assert row["device_union_sum_ns"] == sum(times)
        assert row["operand_bytes_sum"] == (size * len(times) if key[1] else None)
        rates = [1e9 * flop / time for time in timed]
        assert row["flop_per_s_med"] == (pytest.approx(median(rates)) if timed else None)
        rate = len(timed) * flop * 1e9 / sum(times) if timed else None
        assert row["flop_per_s"] == (rate and pytest.approx(rate))


# -- of steps

PRODUCT = "ampere_sgemm_128x64_nn"
# 1000 and 600 operations begin in the first step, which ends with its last kernel at 200; then 60.
STEPS = (
    Range(0, 100, "ProfilerStep#1"), Range(110, 300, "ProfilerStep#2"),
    Operator(10, 20, "aten::mm", shapes="[[10, 5], [5, 10]]"), Call(12, 14, 1),
    Kernel(30, 60, 1, name=PRODUCT),
    Operator(90, 120, "aten::mm", shapes="[[10, 3], [3, 10]]", tid=99), Call(95, 98, 2, tid=99),
    Kernel(150, 200, 2, name=PRODUCT),
    Operator(210, 220, "aten::mm", shapes="[[2, 3], [3, 5]]"), Call(212, 214, 3),
    Kernel(230, 260, 3, name=PRODUCT),
)  # fmt: skip
PEAK = "steps:peak_flop_per_s=40e9"
FIGURES = ("step", "dur_ns", "flop_sum", "flop_per_s", "mfu_pct")


def figures(*events: Any, spec: str = PEAK, part: Slice | None = None) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in FIGURES) for row in asked(*events, spec=spec, part=part)[0]]


def test_the_utilisation_of_the_documentation() -> None:
    assert figures(*STEPS) == [
        ("ProfilerStep#1", 200, 1600, pytest.approx(8e9), pytest.approx(20)),
        ("ProfilerStep#2", 100, 60, pytest.approx(0.6e9), pytest.approx(1.5)),
    ]
    assert {row[2:] for row in figures(*STEPS, spec="steps")} == {(None, None, None)}
    # One of another process counts there.
    other = Operator(15, 18, "aten::mm", shapes="[[9, 9], [9, 9]]", pid=2)
    assert [row[2] for row in figures(*STEPS, other)] == [1600, 60]


def test_a_step_with_work_that_no_formula_counts_has_no_utilization() -> None:
    events = (*STEPS, Call(250, 255, 4), Kernel(270, 280, 4, name=PRODUCT))
    rows, notes = asked(*events, spec=PEAK)
    assert [row["flop_sum"] for row in rows] == [1600, 60]
    assert [row["mfu_pct"] for row in rows] == [pytest.approx(20), None]
    assert (notes["operations-unknown"].count, notes["operations-unknown"].of) == (1, 4)
    # Nor has one whose work ran on no GPU.
    host = [each for each in STEPS if not isinstance(each, Kernel)]
    assert figures(*host)[0][2:] == (1600, pytest.approx(16e9), None)


def test_a_step_that_a_slice_cuts_has_no_utilization() -> None:
    rows = figures(*STEPS, part=Slice(time=(0, 250)))
    assert [row[2] for row in rows] == [1600, None]


def test_without_operations_the_reason_is_said() -> None:
    rows, notes = asked(Range(0, 100, "ProfilerStep#1"), Call(5, 10, 1), Kernel(20, 30, 1, name=PRODUCT),
                        spec=PEAK)  # fmt: skip
    assert [row["mfu_pct"] for row in rows] == [None]
    assert notes["operations-unknown"].text.startswith("no step has a known operation count")


def test_a_whole_profile_has_one_utilisation_and_the_time_between_steps_none() -> None:
    unannotated = STEPS[2:]
    (row,) = figures(*unannotated)
    assert row[1:3] == (250, 1660)
    apart = (STEPS[0], STEPS[1]._replace(start=205), *STEPS[2:])
    assert [row[2:] for row in figures(*apart)][-1] == (None, None, None)


# -- as TraceLens has them

TRACELENS = REAL / "pytorch_gold" / "tracelens"
TRACES = {
    "h100_gaunernst_bert-small-uncased__1016001": "737b43a1.gaunernst_bert-small-uncased__1016001",
    "h100_Falconsai_nsfw_image_detection__1016002": "0702619a.Falconsai_nsfw_image_detection__1016002",
    "mi300_Falconsai_nsfw_image_detection__1016002": "Falconsai_nsfw_image_detection__1016002",
}


@real
@pytest.mark.parametrize("folder", few(TRACES, 2), ids=name_of)
def test_bytes_and_rates_of_tracelens(folder: str) -> None:
    """Products and attention: bytes in 2^20 exactly, rates within 1e-4. They count adding a bias, M·N."""
    path = REAL / "kineto" / f"AMD-AGI+TraceLens__{TRACES[folder]}.json.gz"
    (report,) = nsysconv.report_on(path, "operators:rates")
    found = {(row["name"], row["shapes"]): row for row in report.rows()}
    compared = 0
    for kind in ("GEMM", "SDPA_fwd"):
        with (TRACELENS / folder / f"{kind}.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                dims = [list(each) for each in ast.literal_eval(row["Input Dims_first"])]
                mine = found[row["name"], without_lists_of_tensors(json.dumps(dims))]
                calls_of, biased = int(row["name_count"]), row.get("param: bias") == "True"
                bias = int(row["param: M"]) * int(row["param: N"]) if biased else 0
                flop = mine["flop_sum"] // calls_of
                assert flop + bias == round(1e9 * float(row["GFLOPS_first"]))
                assert mine["operand_bytes_sum"] == calls_of * float(row["Data Moved (MB)_first"]) * 2**20
                ratio = (flop + bias) / flop
                assert ratio * mine["flop_per_byte"] == pytest.approx(float(row["FLOPS/Byte_first"]))
                assert ratio * mine["flop_per_s_med"] == pytest.approx(
                    1e12 * float(row["TFLOPS/s_median"]), rel=1e-4)  # fmt: skip
                time = float(row["Kernel Time (µs)_sum"]) * 1e3
                assert mine["device_union_sum_ns"] == pytest.approx(time, rel=1e-4)
                assert mine["operand_throughput_bytes_per_s"] == pytest.approx(
                    1e9 * mine["operand_bytes_sum"] / time, rel=1e-4)  # fmt: skip
                compared += 1
    assert compared >= 5


@real
def test_bytes_of_a_convolution_of_tracelens() -> None:
    """They have the outermost call, without a bias; here is the innermost, MIOpen's with its bias."""
    for folder, bias in (("h100_Falconsai", 0), ("mi300_Falconsai", 768)):
        (name,) = [each for each in TRACES if each.startswith(folder)]
        with (TRACELENS / name / "CONV_fwd.csv").open(encoding="utf-8") as file:
            (row,) = csv.DictReader(file)
        path = REAL / "kineto" / f"AMD-AGI+TraceLens__{TRACES[name]}.json.gz"
        (report,) = nsysconv.report_on(path, "operators:rates")
        (mine,) = [each for each in report.rows() if each["name"].endswith("_convolution")]
        assert mine["flop_sum"] == round(1e9 * float(row["GFLOPS_first"]))
        assert mine["operand_bytes_sum"] == float(row["Data Moved (MB)_first"]) * 2**20 + 2 * bias
        assert prod(ast.literal_eval(row["param: filter_shape"])) == 768 * 3 * 16 * 16
