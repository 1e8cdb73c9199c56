"""The library as people call it: numbers or texts, one or several, slices without a Slice, plain rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_store import Kernel, Range, opened

import nsysconv
from nsysconv import api
from nsysconv.api import Percent, Slice
from nsysconv.errors import InputError, NsysconvError, UsageError

ROWS = (*(Range(10 * i, 10 * i + 10, f"ProfilerStep#{i}") for i in range(4)),
        *(Kernel(10 * i, 10 * i + 5 + i, name=f"k{i}", device=i % 2) for i in range(4)))  # fmt: skip


@pytest.mark.parametrize(("natural", "strict"), [
    ({"step": 3}, {"step": "3"}),
    ({"step": np.int64(3)}, {"step": "3"}),
    ({"devices": 1}, {"devices": (1,)}),
    ({"devices": "1"}, {"devices": (1,)}),
    ({"devices": np.array([0, 1])}, {"devices": (0, 1)}),
    ({"ranks": range(2)}, {"ranks": (0, 1)}),
    ({"skip_first": "2"}, {"skip_first": 2}),
    ({"name": re.compile("k[12]")}, {"name": "k[12]"}),
    ({"time": "10ns:1.5us"}, {"time": (10, 1500)}),
    ({"time": "10%:"}, {"time": (Percent(10), None)}),
    ({"time": ("5ns", 20)}, {"time": (5, 20)}),
    ({"time": [None, "50%"]}, {"time": (None, Percent(50))}),
])  # fmt: skip
def test_what_people_write_is_taken(natural: dict[str, Any], strict: dict[str, Any]) -> None:
    assert Slice(**natural) == Slice(**strict)


@pytest.mark.parametrize("wrong", [
    {"step": 2.5}, {"step": [1]}, {"step": True}, {"devices": "x"}, {"devices": 1.5}, {"devices": [None]},
    {"skip_first": "two"}, {"projected": "yes", "step": 1}, {"time": 5}, {"time": "5"},
    {"time": (1, 2, 3)}, {"time": ":"}, {"time": ("a", 2)}, {"name": 3.5}, {"range": ["a"]},
    {"time": (1.5, 2)},
])  # fmt: skip
def test_a_wrong_value_is_our_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        Slice(**wrong)
    assert error.value.hint


def test_a_report_takes_what_a_slice_takes() -> None:
    with opened(*ROWS) as profile:
        for options in ({"step": 2}, {"slice": Slice(step="2")}):
            assert [row["name"] for row in profile.report("kernels", **options)] == ["k2"]
        assert [row["name"] for row in profile.report("kernels", name="k[13]", devices=1)] == ["k3", "k1"]
        (first, *_) = profile.reports(["kernels"], time="0:12ns")
        assert {row["name"] for row in first} == {"k0", "k1"}


@pytest.mark.parametrize(("options", "what", "hint"), [
    ({"stepp": 2}, "no keyword 'stepp'", "Did you mean step"),
    ({"slice": Slice(step=1), "step": 2}, "a slice, and step beside it", "Slice(step"),
])  # fmt: skip
def test_mistakes_in_keywords(options: dict[str, Any], what: str, hint: str) -> None:
    with opened(*ROWS) as profile, pytest.raises(UsageError) as error:
        profile.report("kernels", **options)
    assert what in error.value.what
    assert hint in error.value.hint


@pytest.mark.parametrize("limit", [2, "2", np.int64(2)])
def test_numbers_are_texts_too(limit: Any) -> None:
    with opened(*ROWS) as profile:
        assert len(profile.report("kernels", limit=limit)) == 2


WRONG: list[Any] = [3, 2.5, None, True, b"x", ["x"], {}, object()]


@pytest.mark.parametrize("wrong", WRONG, ids=[type(each).__name__ for each in WRONG])
def test_arguments_that_cannot_be_meant_are_our_errors(wrong: Any, tmp_path: Path) -> None:
    def calls(profile: nsysconv.OpenProfile) -> dict[str, Callable[[], Any]]:
        return {
            "report": lambda: profile.report(wrong), "find": lambda: profile.find(wrong),
            "why": lambda: profile.why(wrong),
            "open": lambda: nsysconv.open(wrong), "info": lambda: nsysconv.info(wrong),
            "compare": lambda: nsysconv.compare(wrong, tmp_path),
            "import": lambda: nsysconv.import_files([wrong], tmp_path / "job.db"),
            "join": lambda: nsysconv.open(__file__, join=[wrong]),
            "slice": lambda: profile.report("kernels", slice=wrong or "0:1ns"),
            "limit": lambda: profile.report("kernels", limit=wrong if type(wrong) is float else "x"),
        }  # fmt: skip

    with opened(*ROWS) as profile:
        for name, call in calls(profile).items():
            with pytest.raises(NsysconvError) as error:
                call()
            assert error.value.what, name


def test_a_path_is_a_word_too(tmp_path: Path) -> None:
    """Of several words, one is as good as several, also if it is a path."""
    with pytest.raises(InputError, match=r"missing\.csv: no such file"):
        nsysconv.open(__file__, join=tmp_path / "missing.csv")


def test_a_text_that_no_path_can_be(tmp_path: Path) -> None:
    for call in (nsysconv.open, nsysconv.import_files, lambda path: nsysconv.compare(path, tmp_path)):
        with pytest.raises(UsageError, match="is no path"):
            call("a\0b")


def test_results_are_collections_of_rows() -> None:
    with opened(*ROWS) as profile:
        found, none = profile.report("kernels"), profile.report("transfers")
    assert len(found) == 4
    assert list(found) == found.rows()
    assert found.to_polars()["kernel_sum_ns"].to_list() == found.to_arrow()["kernel_sum_ns"].to_pylist()
    assert len(none) == 0
    assert bool(none), "an answer without rows is one"


def test_a_comparison_takes_it_too(tmp_path: Any) -> None:
    with opened(*ROWS):
        pass
    with pytest.raises(UsageError, match="no keyword 'steps'"):
        api.compare(tmp_path, tmp_path, steps=3)


def test_a_picture_goes_into_axes_of_ones_own() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    left, right = figure.subplots(1, 2)
    with opened(*ROWS) as profile:
        assert profile.report("kernels").plot(ax=right) is figure
        assert len(right.patches) == 4
        assert not left.patches
        with pytest.raises(UsageError, match="2 panels, and ax is one place"):
            profile.report("kernels", split="device").plot(ax=left)


def test_the_answer_is_laid_out_in_a_notebook() -> None:
    with opened(*ROWS) as profile:
        (lines,) = profile.report("summary").texts
        shown = profile.report("summary")._repr_html_()
    assert "\n".join(lines.lines) in shown.replace("&lt;", "<").replace("&gt;", ">").partition("<pre")[2]


def test_views_have_ends_and_ranks() -> None:
    """Kernel 3 is [30, 38), a process of rank 7."""
    with opened(*ROWS, ranks={1: 7}) as profile:
        query = "select end_ns, rank from {} where name = 'k3'"
        for view in ("v_kernel", "v_gpu_op"):
            assert list(profile.sql(query.format(view))) == [{"end_ns": 38, "rank": 7}]
