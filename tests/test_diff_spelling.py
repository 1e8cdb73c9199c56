"""Names of two sides as one: HIP's functions and CUDA's, GPUs of other makers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from conftest import REAL, real

import nsysconv
from nsysconv.diff import names
from nsysconv.diff.names import Match
from nsysconv.diff.rows import RowPair, template_argument_notes
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.vendors import vendors_differ

H100 = REAL / "kineto/AMD-AGI+TraceLens__0702619a.Falconsai_nsfw_image_detection__1016002.json.gz"
MI300X = REAL / "kineto/AMD-AGI+TraceLens__Falconsai_nsfw_image_detection__1016002.json.gz"


def side(*devices: str | None) -> list[Timeline]:
    profile = SimpleNamespace(rows=lambda table: [{"name": name} for name in devices])
    return [cast(Timeline, SimpleNamespace(profile=profile))]


@pytest.mark.parametrize(
    ("base", "other", "differ"),
    [
        (["NVIDIA H100 80GB HBM3"], ["AMD Instinct MI300X VF"], True),
        (["Tesla V100-SXM2-16GB"], ["gfx90a"], True),
        (["Intel(R) Data Center GPU Max 1550"], ["AMD Radeon RX 7900"], True),
        (["Tesla V100-SXM2-16GB"], ["NVIDIA A100-SXM4-40GB"], False),
        (["NVIDIA A100"], [None], False),
        (["NVIDIA A100"], [], False),
        (["NVIDIA A100", "AMD Instinct MI210"], ["AMD Instinct MI210"], False),
    ],
)
def test_makers(base: list[str | None], other: list[str | None], differ: bool) -> None:
    assert vendors_differ(side(*base), side(*other)) is differ
    assert vendors_differ(side(*other), side(*base)) is differ


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("hipMemcpyAsync", "cudaMemcpyAsync"),
        ("cudaMemcpyAsync", "cudaMemcpyAsync"),
        ("hippocampus", "hippocampus"),
        ("shipIt", "shipIt"),
        ("cuLaunchKernel", "cuLaunchKernel"),
    ],
)
def test_functions_of_hip(name: str, key: str) -> None:
    assert names.call_name_key()(name) == key


@real
def test_gpus_of_other_makers_are_compared_by_what_both_have() -> None:
    found: dict[str, Any] = {each.name: each for each in nsysconv.compare(H100, MI300X).reports}
    names = list(found)
    assert names.index("diff_kernel_categories") == names.index("diff_kernels") - 1
    calls = {row["name"]: row for row in found["diff_api_vs_kernel"].rows()}
    launches = calls["cudaLaunchKernel"]
    assert (launches["where"], launches["other_name"]) == ("both", "hipLaunchKernel")
    assert (launches["base_call_count"], launches["other_call_count"]) == (81, 65)
    rows = found["diff_kernels"].rows()
    alone = [row for row in rows if row["where"] != "both"]
    assert len(alone) > 20
    assert {row["verdict"] for row in alone} == {None}
    # Of another GPU no sum is better or worse; a launch may be.
    both = [row for row in rows if row["where"] == "both"]
    assert {row["verdict_kernel_sum_ns"] for row in both} == {None}
    assert None not in {row["verdict_avg_ns"] for row in both}


@real
def test_gpus_of_one_maker_are_compared_as_ever() -> None:
    names = [each.name for each in nsysconv.compare(H100, H100).reports]
    assert "diff_kernel_categories" not in names


def kernel_rows(*rows: tuple[str, str]) -> list[RowPair]:
    found = []
    for where, name in rows:
        row: dict[str, Any] = {"name": name}
        base, other = (row if where != "only in other" else {}, row if where != "only in base" else {})
        found.append(RowPair((name,), where, base, other, {}, {}, {}, lambda _: None, frozenset()))
    return found


def test_kernels_with_other_template_arguments_are_pointed_out() -> None:
    rows = kernel_rows(
        ("only in base", "void gemm<128, 64>(float*)"), ("only in base", "void gemm<64, 64>(float*)"),
        ("only in other", "void gemm<256, 64>(float*)"), ("both", "void relu<4>(float*)"),
        ("only in base", "softmax"), ("only in other", "layer_norm"),
    )  # fmt: skip
    (note,) = template_argument_notes(rows)
    assert (note.slug, note.count, note.where) == ("template-arguments-differ", 3, "gemm")
    assert "--match name" in note.text
    assert template_argument_notes(kernel_rows(("only in base", "a"), ("only in other", "b"))) == []
    assert template_argument_notes(kernel_rows(("both", "f<1>"), ("only in other", "f<2>"))) == []


NAMES = {1: "void f<1>(int)", 2: "_Z1fILi1EEvi", 3: "void f<2>(int)", 4: "_Z1fILi2EEvi"}


def of_both() -> list[Timeline]:
    """A side with names and symbols of two kernels; of a third row neither is known."""
    ids = {"name_id": np.array([1, 3, 1, MISSING]), "mangled_name_id": np.array([2, 4, 2, MISSING])}
    profile = SimpleNamespace(
        notes=(), columns=lambda table, names: ids, names=lambda asked: {i: NAMES[i] for i in asked}
    )
    return [cast(Timeline, SimpleNamespace(profile=profile))]


def of_symbols() -> list[Timeline]:
    none = {name: np.array([2]) for name in ("name_id", "mangled_name_id")}
    notes = (Note("symbols-only", Severity.INFO, "kernels are shown by their symbols", 2),)
    profile = SimpleNamespace(
        notes=notes, columns=lambda table, names: none, names=lambda asked: {i: NAMES[i] for i in asked}
    )
    return [cast(Timeline, SimpleNamespace(profile=profile))]


@pytest.mark.parametrize("match", ["exact", "signature", "name"])
def test_a_symbol_is_the_name_that_the_other_side_has_for_it(match: Match) -> None:
    for timeline in (*of_symbols(), *of_both()):
        assert names.names_by_symbol(timeline) in ({}, {NAMES[2]: NAMES[1], NAMES[4]: NAMES[3]})
        key = names.kernel_name_key(names.names_by_symbol(of_both()[0]), match)
        assert key(NAMES[2]) == key(NAMES[1])
        assert key(NAMES[4]) == key(NAMES[3])
        assert (key(NAMES[2]) == key(NAMES[3])) is (match == "name")
        assert key("_Z1gv") == "_Z1gv"


def test_symbols_are_not_looked_for_where_both_sides_have_names_or_none() -> None:
    assert names.symbols_only_notes(of_both(), of_both()) == []
    assert names.symbols_only_notes(of_symbols(), of_symbols()) == []
    (note,) = names.symbols_only_notes(of_both(), of_symbols())
    assert (note.text[:7], note.count) == ("other: ", 2)
