"""Columns filled in parts: what comes out is what went in, in as little memory as holds it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsysconv.report import MISSING
from nsysconv.store.columns import ColumnBuilder

BATCH = st.lists(
    st.one_of(
        st.just(7), st.integers(-5, 5), st.sampled_from([MISSING, 2**31, -(2**31), 2**31 - 1])),
    min_size=1, max_size=4,
)  # fmt: skip


def filled(parts: list[list[list[int]]], room: int, dtype: type[np.signedinteger]) -> np.ndarray:
    sizes = [sum(map(len, batches)) + room for batches in parts]
    column = ColumnBuilder(sizes, dtype)
    for part, batches in zip(column.parts, parts, strict=True):
        for batch in batches:
            part.add(np.array(batch, np.int64))
    return column.finished()


@given(st.lists(st.lists(BATCH, max_size=4), min_size=1, max_size=3), st.integers(0, 2),
       st.sampled_from([np.int32, np.int64]))  # fmt: skip
def test_a_column_is_what_was_added(
    parts: list[list[list[int]]], room: int, dtype: type[np.signedinteger]
) -> None:
    """Whatever the values, the parts, and the rows for which there was room but that never came."""
    expected = [value for batches in parts for batch in batches for value in batch]
    assert filled(parts, room, dtype).tolist() == expected


def test_small_values_take_four_bytes() -> None:
    assert filled([[[1, 2]], [[3, 3]]], 0, np.int32).dtype == np.int32


def test_one_large_value_makes_the_column_wide() -> None:
    assert filled([[[1, 2]], [[3, 2**31]]], 0, np.int32).dtype == np.int64


def test_one_value_everywhere_takes_the_memory_of_one() -> None:
    column = filled([[[9, 9], [9]], [[9]]], 0, np.int32)
    assert (column.tolist(), column.strides) == ([9, 9, 9, 9], (0,))
