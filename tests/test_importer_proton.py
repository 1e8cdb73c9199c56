"""Profiles of Proton: the tree of scripts/fixtures_proton.py, a real one, and damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, NO_REAL, REAL, claimed_by, profile_in_place, small_rows
from fixtures_proton import kernel, node
from importing import places as notes
from importing import written

from nsysconv import api
from nsysconv.errors import InputError
from nsysconv.facts import Fact

FOLDER = FIXTURES / "proton"
TRAINING, ODD = FOLDER / "training.hatchet", FOLDER / "odd.hatchet"
CUDA = REAL / "proton_json" / "triton-lang+triton__cuda.json"


def totals(path: Path) -> set[tuple[Any, ...]]:
    """Scope, kernel, device, count and sum of each total."""
    with profile_in_place(path) as profile:
        names = {row["id"]: row["text"] for row in profile.rows("name")}
        return {
            (names.get(row["range_name_id"]), names[row["name_id"]], row["device_id"], row["count"],
             row["sum_ns"])
            for row in profile.rows("aggregate")
        }  # fmt: skip


def test_kernels_are_totals_and_scopes_hold_parts_of_them() -> None:
    assert totals(TRAINING) == {
        (None, "matmul_kernel", 0, 4, 4500), (None, "add_kernel", 1, 2, 400),
        (None, "init_kernel", 0, 1, 100),
        ("train", "matmul_kernel", 0, 4, 4500), ("train", "add_kernel", 1, 2, 400),
        ("forward", "matmul_kernel", 0, 3, 3000), ("train.py:step@12", "matmul_kernel", 0, 1, 1500),
    }  # fmt: skip
    assert notes(TRAINING) == {}


def test_the_report_of_kernels_answers_from_totals() -> None:
    with api.open(TRAINING) as profile:
        found = profile.report("kernels").to_arrow().to_pydict()
    rows = zip(found["name"], found["kernel_count"], found["kernel_sum_ns"], strict=True)
    assert sorted(rows) == [("add_kernel", 2, 400), ("init_kernel", 1, 100), ("matmul_kernel", 4, 4500)]


def test_devices_and_facts() -> None:
    with profile_in_place(TRAINING) as profile:
        devices = small_rows(profile, "device")
        assert set(profile.facts) == {Fact.KERNEL_TOTALS, Fact.DEVICES}
    assert [(d["device_id"], d["sm_count"], d["compute_major"], d["compute_minor"]) for d in devices] == [
        (0, 132, 9, 0), (1, 132, 9, 0)]  # fmt: skip


def test_scopes_with_sums_and_odd_nodes_are_not_read() -> None:
    """A scope's own time may be that of its kernels once more."""
    assert totals(ODD) >= {(None, "add_kernel", 0, 1, 70), ("summed", "add_kernel", 0, 1, 70),
                           (None, "matmul_kernel", 0, 4, 4500)}  # fmt: skip
    assert not any("half" in row for row in totals(ODD))
    assert notes(ODD) == {"rows-not-read": (1, "summed"), "cell-unreadable": (2, "half")}


def test_a_kernel_may_hold_samples_of_its_instructions(tmp_path: Path) -> None:
    sampled = node("k", [node("k.py:k@3", num_samples=7)], count=2, **{"time (ns)": 9})
    assert totals(written(tmp_path, [node("ROOT", [sampled])])) == {(None, "k", None, 2, 9)}


def test_a_sum_around_scopes_without_one_is_no_kernel(tmp_path: Path) -> None:
    inner = node("inner", [kernel("k", 0, 1, 5)])
    path = written(tmp_path, [node("ROOT", [node("outer", [inner], count=1, **{"time (ns)": 5})])])
    assert (None, "k", 0, 1, 5) in totals(path)
    assert notes(path)["rows-not-read"] == (1, "outer")


def test_cycles_alone_are_refused_in_words(tmp_path: Path) -> None:
    path = written(tmp_path, [node("ROOT", [node("k", [node("load", cycles=1000)])])])
    with pytest.raises(InputError, match="no times of kernels"), profile_in_place(path):
        pass


def test_deep_trees(tmp_path: Path) -> None:
    deep: Any = kernel("k", 0, 1, 5)
    for _ in range(200):
        deep = node("scope", [deep])
    assert totals(written(tmp_path, [deep])) == {(None, "k", 0, 1, 5), ("scope", "k", 0, 1, 5)}


def test_trees_deeper_than_the_decoder_of_python_goes(tmp_path: Path) -> None:
    text = json.dumps(kernel('a "quoted" ]}{[,: \\name\\', 0, 1, 5))
    for _ in range(3000):
        text = f'{{"frame": {{"name": "scope"}}, "metrics": {{}}, "children": [{text}]}}'
    with pytest.raises(RecursionError):
        json.loads(text)
    name = 'a "quoted" ]}{[,: \\name\\'
    found = totals(written(tmp_path, f'[{text}, {{"CUDA": {{"0": {{"num_sms": 108}}}}}}]'))
    assert found == {(None, name, 0, 1, 5), ("scope", name, 0, 1, 5)}
    for damaged in (f"[{text[:-1]}", f"[{text}}}", f"[{text}]]"):
        with pytest.raises(InputError, match="not valid JSON"):
            api.open(written(tmp_path, damaged))


def test_without_descriptions_devices_have_numbers_only(tmp_path: Path) -> None:
    path = written(tmp_path, [node("ROOT", [kernel("k", 2, 1, 5)])])
    with profile_in_place(path) as profile:
        assert [row["device_id"] for row in small_rows(profile, "device")] == [2]
        assert set(profile.facts) == {Fact.KERNEL_TOTALS}


@pytest.mark.parametrize("content", [
    TRAINING.read_text()[:-40], '[{"frame": 1, "children": [], "metrics": {}}', "[" * 100_000,
])  # fmt: skip
def test_damage_is_refused_in_words(content: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught, profile_in_place(written(tmp_path, content)):
        pass
    assert caught.value.hint


@pytest.mark.skipif(not CUDA.exists(), reason=NO_REAL)
def test_the_vendors_example() -> None:
    assert claimed_by(CUDA) == ["proton"]
    assert totals(CUDA) == {(None, "foo0", 1, 10, 204_800), (None, "foo1", 0, 1, 204_800)}
    with profile_in_place(CUDA) as profile:
        devices = small_rows(profile, "device")
    assert [(d["sm_count"], d["compute_major"], d["compute_minor"]) for d in devices] == [
        (128, 8, 9), (132, 9, 0)]  # fmt: skip
