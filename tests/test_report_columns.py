"""Columns of reports and rows between Arrow and numpy, both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysconv.queries import REPORTS, query
from nsysconv.report import MISSING, Column, Unit, build_table, values_of
from nsysconv.timeline.arrays import distinct

INTEGERS = st.lists(st.none() | st.integers(MISSING + 1, 2**63 - 1), max_size=20)


@given(INTEGERS, st.integers(0, 20), st.integers(0, 20))
def test_integers_survive_arrow_and_back(cells: list[int | None], start: int, length: int) -> None:
    """Also of a part of a column, which shares the whole column's buffers."""
    column = build_table([Column("n", Unit.COUNT, "")], {"n": cells}).column(0).combine_chunks()
    found = values_of(column.slice(start, length))
    assert found.dtype == np.int64
    assert found.tolist() == [MISSING if n is None else n for n in cells[start : start + length]]


def test_nulls_become_the_given_value() -> None:
    floats = pa.array([1.5, None, 2.0])
    assert np.array_equal(values_of(floats, np.nan), [1.5, np.nan, 2.0], equal_nan=True)
    places = pa.array([3, None, 0], pa.int32())
    assert values_of(places, -1).tolist() == [3, -1, 0]
    assert values_of(places, -1).dtype == np.int32
    assert values_of(pa.array([], pa.float64()), np.nan).dtype == np.float64


@given(st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), max_size=40))
def test_distinct_values_are_those_of_numpy(values: list[int]) -> None:
    array = np.array(values, np.int64)
    assert distinct(array).tolist() == np.unique(array).tolist()


@pytest.mark.parametrize("report", REPORTS)
def test_columns_of_quantities_have_their_unit_in_their_name(report: str) -> None:
    units = {Unit.NS: "_ns", Unit.BYTES: "bytes", Unit.PCT: "_pct"}
    for column in query(report).every_column:
        unit = units.get(column.unit, "")
        assert unit in column.name, f"call it {column.name}{unit} (CONTRIBUTING.md, Rules for names)"


def test_counts_and_sums_add_up_over_rows() -> None:
    def adds(name: str, unit: Unit, **how: Any) -> bool:
        return Column(name, unit, "", **how).adds_up

    assert adds("kernel_count", Unit.COUNT)
    assert adds("sum_ns", Unit.NS, adds=True)
    assert adds("sum_ns", Unit.NS, counted_by="kernel_count")
    assert not adds("window_ns", Unit.NS)
    assert not adds("queue_length_max", Unit.COUNT)
    assert not adds("bytes_min", Unit.BYTES, counted_by="memcpy_count")
    assert adds("minor_count", Unit.COUNT)
