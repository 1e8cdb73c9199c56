"""Records that are laid out alike for many rows, and then otherwise: their values are SQLite's."""

from __future__ import annotations

import random
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_page_reader import expected, new_database, opened, read, table, taken

from nsysconv.report import MISSING
from nsysconv.store.sqlite.page_reader import ID
from nsysconv.store.sqlite.page_reader.pages import UnreadableError, repeated

# A value of each length that records have, and both without bytes.
VALUES = [None, 0, 1, -5, 300, -70_000, 2**30, -(2**40), 2**60]
SIZES = st.sampled_from([512, 4096, 65_536])


def parts(content: bytes, root: int, places: list[int]) -> list[list[np.ndarray]]:
    with opened(content) as pages:
        return [columns for _, columns in pages.rows(root, places, 1, 1 << 40)]


@settings(deadline=None)
@given(
    runs=st.lists(
        st.tuples(st.lists(st.sampled_from(VALUES), min_size=9, max_size=9), st.integers(1, 300)),
        min_size=1,
        max_size=9,
    ),
    size=SIZES,
    places=st.lists(st.integers(0, 8), min_size=1, unique=True),
)
def test_runs_of_rows_of_one_layout(
    runs: list[tuple[list[int | None], int]], size: int, places: list[int]
) -> None:
    rows = [row for row, count in runs for _ in range(count)]
    content, root, found = table(size, ", ".join(f"c{n} INTEGER" for n in range(9)), rows)
    assert read(content, root, places) == (expected(found, places), True)


@pytest.mark.parametrize(("count", "apart"), [(1, 1), (2, 2), (4, 4), (5, 1)])
def test_a_few_long_runs_are_read_one_after_the_other(count: int, apart: int) -> None:
    """Each as fast as if there were no other, and what is one value in it as one value."""
    rows = [(n, VALUES[3 + run]) for run in range(count) for n in range(10, 120)]
    content, root, _ = table(65_536, "a INTEGER, b INTEGER", rows)
    found = parts(content, root, [1])
    assert len(found) == apart
    assert [column.strides == (0,) for (column,) in found] == [apart == count] * apart
    assert np.concatenate([column for (column,) in found]).tolist() == [row[1] for row in rows]


@pytest.mark.parametrize("places", [[0, 1], [98, 99], [0, 30, 31, 32, 33, 99], [50]])
def test_records_longer_than_what_is_taken_of_them_at_once(places: list[int]) -> None:
    draw = random.Random(1)
    rows = [[draw.randrange(2**55, 2**62) for _ in range(100)] for _ in range(200)]
    content, root, found = table(4096, ", ".join(f"c{n} INTEGER" for n in range(100)), rows)
    assert read(content, root, places) == (expected(found, places), True)


def test_a_column_of_one_length_behind_one_of_several() -> None:
    rows = [(VALUES[n % 5 + 2], n + 70_000, n + 300) for n in range(500)]
    content, root, found = table(4096, "a INTEGER, b INTEGER, c INTEGER", rows)
    assert read(content, root, [1, 2]) == (expected(found, [1, 2]), True)


def test_records_longer_than_the_first_one() -> None:
    """So much is taken of all as the first one has; in the second run a column stands behind that."""
    rows = [[0] * 60 + [7, -7]] * 100 + [[2**60] * 60 + [7, -7]] * 100
    content, root, found = table(65_536, ", ".join(f"c{n} INTEGER" for n in range(62)), rows)
    assert read(content, root, [60, 61]) == (expected(found, [60, 61]), True)


@pytest.mark.parametrize("first", ["with", "without"])
def test_runs_of_rows_without_a_column_that_was_added(first: str) -> None:
    """Where it would stand are others' values."""
    with closing(new_database(65_536)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?)", [(2304,)] * 100)  # 09 00, as type: 1
        connection.execute("ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 5")
        sign = "<" if first == "with" else ">"
        connection.execute(f"UPDATE t SET b = 7 WHERE rowid {sign} 50")
        content, root, found = taken(connection)
    assert read(content, root, [0]) == (expected(found, [0]), True)
    with pytest.raises(UnreadableError):
        parts(content, root, [1])


def test_one_value_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        repeated(7, 3)[0] = 8


def test_headers_of_several_sizes() -> None:
    """A text that is not read makes the header longer, and values stand further behind."""
    rows = [(n, -n, "x" * (200 * (n % 2))) for n in range(1000)]
    content, root, found = table(4096, "a INTEGER, b INTEGER, c TEXT", rows)
    assert read(content, root, [0, 1]) == (expected(found, [0, 1]), True)


def test_the_number_that_stands_for_null_is_left_to_sqlite() -> None:
    content, root, _ = table(4096, "a INTEGER", [(MISSING,)] * 100)
    with pytest.raises(UnreadableError):
        parts(content, root, [0])


@pytest.mark.parametrize("value", [1.5, "word", "x" * 70])
@pytest.mark.parametrize("ours", [True, False], ids=["wanted", "before a wanted one"])
def test_what_is_no_number_is_left_to_sqlite(value: float | str, ours: bool) -> None:
    """Of all rows alike; what is not wanted is stepped over."""
    rows = [(value, n) for n in range(100)]
    content, root, found = table(4096, "a, b INTEGER", rows)
    if ours:
        with pytest.raises(UnreadableError):
            parts(content, root, [0 if ours else 1])
    else:
        assert read(content, root, [1]) == (expected(found, [1]), True)


def test_ids_alone() -> None:
    content, root, _ = table(4096, "a TEXT", [("x" * 200,)] * 50)
    assert [ids.tolist() for (ids,) in parts(content, root, [ID])] == [list(range(1, 51))]
