"""metrics_over_time: samples in equal parts of the time, by hand and by a slow version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from hypothesis import given
from hypothesis import strategies as st
from small_store import Kernel, Metric, Row, answers, picked, write

import nsysconv
from nsysconv import api
from nsysconv.api import html_report

SHOWN = ("metric", "bin", "start_ns", "dur_ns", "sample_count", "value_avg", "value_min", "value_max")


def over_time(bins: str, *rows: Row, **options: Any) -> list[tuple[Any, ...]]:
    found = answers(f"metrics_over_time:{bins}", *rows, **options)
    return [tuple(row[name] for name in SHOWN) for row in found]


def sampled(name: str, *samples: tuple[int, float]) -> list[Row]:
    return [Metric(name, None, value, start=at) for at, value in samples]


def test_samples_of_a_bin() -> None:
    """From 0 to 20: 10 ns each. In the second bin of `busy` nothing was sampled."""
    rows = (*sampled("power", (0, 50), (9, 70), (10, 90)), *sampled("busy", (5, 1), (19, 0)))
    assert over_time("bins=2", *rows) == [
        ("busy", 0, 0, 10, 1, 1, 1, 1),
        ("busy", 1, 10, 10, 1, 0, 0, 0),
        ("power", 0, 0, 10, 2, 60, 50, 70),
        ("power", 1, 10, 10, 1, 90, 90, 90),
    ]
    assert [row[:2] for row in over_time("bins=4", *rows)] == [
        ("busy", 1), ("busy", 3), ("power", 0), ("power", 1), ("power", 2)]  # fmt: skip


def test_the_time_is_that_of_the_samples_of_the_events_or_the_slice() -> None:
    rows = (Kernel(100, 200), *sampled("power", (0, 50), (100, 70), (199, 90), (300, 10)))
    assert over_time("bins=1", *rows) == [("power", 0, 0, 301, 4, 55, 10, 90)]
    assert over_time("bins=1:window=events", *rows) == [("power", 0, 100, 100, 2, 80, 70, 90)]
    assert over_time("bins=1", *rows, time=(50, 150)) == [("power", 0, 50, 100, 1, 70, 70, 70)]


def test_metrics_of_kernels_have_no_time() -> None:
    rows = (Kernel(0, 10, name="k"), Metric("ipc", "k", 2.0), *sampled("power", (3, 50)))
    assert [row[0] for row in over_time("bins=1", *rows)] == ["power"]
    assert over_time("bins=1", Kernel(0, 10, name="k"), Metric("ipc", "k", 2.0)) == []


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(-9, 99)),
        min_size=1, max_size=25,
    ),
    st.integers(1, 70),
)  # fmt: skip
def test_a_slow_version_agrees(samples: list[tuple[str, int, int]], bins: int) -> None:
    rows = [Metric(name, None, float(value), start=at) for name, at, value in samples]
    found = over_time(f"bins={bins}", *rows)
    assert sum(row[4] for row in found) == len(samples)
    for name, _, start, dur, count, mean, low, high in found:
        mine = [value for of, at, value in samples if of == name and start <= at < start + dur]
        assert (count, low, high) == (len(mine), min(mine), max(mine))
        assert mean == pytest.approx(sum(mine) / len(mine))


@pytest.mark.parametrize("file", ["nvidia_smi/query.csv", "nsys/cpu_side-3.28.1.sqlite"])
def test_of_real_samples_each_is_in_one_bin(file: str) -> None:
    names = ["metrics", "metrics_over_time:bins=7"]
    whole, parts = nsysconv.report_on(FIXTURES / file, names, include=["metrics"])
    for row in whole.rows():
        keys = ("device_id", "metric")
        mine = [part for part in parts.rows() if picked(part, *keys) == picked(row, *keys)]
        assert sum(part["sample_count"] for part in mine) == row["sample_count"]
        assert min(part["value_min"] for part in mine) == row["value_min"]
        assert max(part["value_max"] for part in mine) == row["value_max"]


def test_bins_are_few_where_metrics_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = range(0, 4000, 10)
    sampled = [Metric(f"m{i}", None, 1.0, start=start) for i in range(4) for start in starts]
    write(tmp_path / "m.db", Kernel(0, 4000), *sampled)

    def rows() -> int:
        (report,) = (r for r in api.page(tmp_path / "m.db") if r.name.startswith("metrics_over_time"))
        return report.row_count

    assert rows() == 4 * 400
    monkeypatch.setattr(html_report, "MOST_SAMPLED", 200)
    assert rows() == 4 * 50
