"""Times and numbers of traces, exact however they are spelled."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysconv.importers.kineto.arrays import nanoseconds
from nsysconv.importers.kineto.packed import (
    BEYOND,
    MISSING,
    exact_times,
    first_integers,
    integers,
    triples,
)


def refuse() -> list[bytes]:
    raise AssertionError("read from the text although doubles hold it")


def read(texts: list[str]) -> list[int]:
    """The texts as the importer reads them: as JSON numbers, and from the text where needed."""
    values = [json.loads(text) for text in texts]
    return nanoseconds(exact_times(values, lambda: [text.encode() for text in texts])).tolist()


WITH_DECIMALS = st.integers(0, (1 << 43) * 1000 - 1).map(lambda ns: f"{ns // 1000}.{ns % 1000:03d}")
TIME_OF_DAY = st.integers(10**18, 4 * 10**18).map(lambda ns: f"{ns // 1000}.{ns % 1000:03d}")
# Of a machine that runs for longer than doubles distinguish nanoseconds.
LONG_UPTIME = st.integers((1 << 43) * 1000, 10**18).map(lambda ns: f"{ns // 1000}.{ns % 1000:03d}")
MICROSECONDS = st.integers(-(10**6), 4 * 10**15).map(str)
TIMES = st.one_of(WITH_DECIMALS, LONG_UPTIME, TIME_OF_DAY, MICROSECONDS)


@given(st.lists(TIMES, min_size=1, max_size=20))
def test_times_are_exact_to_the_nanosecond(texts: list[str]) -> None:
    assert read(texts) == [int(Decimal(text) * 1000) for text in texts]


@given(st.lists(WITH_DECIMALS, min_size=1, max_size=20))
def test_relative_times_are_exact_as_doubles(texts: list[str]) -> None:
    found = nanoseconds(exact_times([float(text) for text in texts], refuse))
    assert found.tolist() == [int(Decimal(text) * 1000) for text in texts]


def test_a_time_whose_double_is_off_is_read_from_its_text() -> None:
    """1711964723456789.123 us: the nearest double is 123 ns less."""
    assert float("1711964723456789.123") == 1711964723456789.0
    assert read(["1711964723456789.123"]) == [1711964723456789123]


@pytest.mark.parametrize(
    ("text", "found"),
    [(b"null", MISSING), (b'"12.5"', 12_500), (b'"x"', MISSING), (b"1e400", BEYOND),
     (b"18446744073709549616", BEYOND), (b"-1e30", BEYOND), (b"1e999999999", BEYOND),
     (b"nan", MISSING), (b"-3.001", -3001), (b"1.0006", 1001)],
)  # fmt: skip
def test_odd_times(text: bytes, found: int) -> None:
    assert nanoseconds(exact_times([object()], lambda: [text])).tolist() == [found]


@pytest.mark.parametrize(
    ("value", "found"),
    [(7, 7), ("7", 7), ("stream 7", 7), ("thread 25738 (python)", 25738), (7.0, 7), (7.5, MISSING),
     (None, MISSING), ([1], MISSING), ({}, MISSING), ("", MISSING), (2**64, MISSING), ("-1", -1)],
)  # fmt: skip
def test_whole_numbers_of_any_spelling(value: object, found: int) -> None:
    assert list(integers([value, 1])) == [found, 1]
    assert list(integers([value])) == [found]
    assert list(first_integers(lambda: [value, 1], lambda: [5, 5])) == [
        5 if found == MISSING else found, 1]


def test_triples_of_any_shape() -> None:
    x, y, z = triples([[1, 2, 3], None, [1, 2], [1, 2, 3, 4], ["4", 5, 6]])
    assert np.stack((x, y, z), axis=1).tolist() == [
        [1, 2, 3], [MISSING] * 3, [MISSING] * 3, [MISSING] * 3, [4, 5, 6]]  # fmt: skip


def test_triples_whose_numbers_are_written_with_decimals() -> None:
    found = triples([[1.0, 2, 3], [1.5, 2, 3]])
    assert np.stack(found, axis=1).tolist() == [[1, 2, 3], [MISSING, 2, 3]]
