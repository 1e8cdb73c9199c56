"""What numpy makes of a select over whole numbers is what SQLite makes of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from nsysconv.report import MISSING
from nsysconv.store.sqlite.page_reader import columns_read, evaluator
from nsysconv.store.sqlite.page_reader.pages import repeated
from nsysconv.store.sqlite.page_reader.selects import truth, value

TABLE = sa.table("t", *(sa.column(name, sa.BigInteger) for name in "abc"))
A, B, C = TABLE.c.a, TABLE.c.b, TABLE.c.c

cells = st.one_of(
    st.none(), st.integers(-3, 12), st.sampled_from([2**31 - 1, 2**31, -(2**31) - 1, 2**56 + 5])
)
tables = st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=8)
numbers = st.recursive(
    st.one_of(
        st.sampled_from([A, B, C, sa.null(), sa.literal_column("7")]),
        st.integers(-2, 12).map(sa.literal),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, st.integers(0, 40)).map(lambda p: p[0].op(">>")(p[1])),
        st.tuples(inner, st.sampled_from([1, 0xFFFFFF, 0xFFFFFFFF])).map(lambda p: p[0].op("&")(p[1])),
        st.tuples(inner, inner).map(lambda p: sa.func.coalesce(*p)),
        st.tuples(inner, inner).map(lambda p: sa.func.nullif(*p)),
        st.tuples(st.deferred(lambda: conditions), inner, inner).map(
            lambda p: sa.case((p[0], p[1]), else_=p[2])),
        st.tuples(st.deferred(lambda: conditions), inner).map(lambda p: sa.case(p)),
        st.tuples(inner, inner).map(lambda p: sa.case({1: p[0], 2: 5}, value=p[1])),
    ),
    max_leaves=5,
)  # fmt: skip
few = st.lists(st.integers(-2, 12), min_size=1, max_size=3)
conditions: st.SearchStrategy[Any] = st.one_of(
    st.tuples(numbers, numbers).map(lambda p: p[0] == p[1]),
    st.tuples(numbers, numbers).map(lambda p: p[0] != p[1]),
    st.tuples(numbers, st.integers(-2, 3), st.integers(-2, 12)).map(lambda p: p[0].between(*p[1:])),
    st.tuples(numbers, few).map(lambda p: p[0].in_(p[1])),
    st.tuples(numbers, few).map(lambda p: p[0].not_in(p[1])),
    numbers.map(lambda e: e.is_(None)),
    numbers.map(lambda e: e.is_not(None)),
    st.tuples(numbers, numbers).map(lambda p: (p[0] == 0) & (p[1] == 0)),
    st.tuples(numbers, numbers).map(lambda p: (p[0] == 1) | p[1].is_(None)),
)


def asked(rows: list[tuple[int | None, ...]], select: sa.Select[Any]) -> list[Any]:
    """What SQLite answers."""
    text = str(select.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        return [row[0] for row in connection.execute(text)]


def columns(rows: list[tuple[int | None, ...]]) -> dict[str, np.ndarray]:
    """The columns as pages give them: narrow where all values fit, one value where all are equal."""
    found = {}
    for name, cells_ in zip("abc", zip(*rows, strict=True), strict=True):
        wide = np.array([MISSING if cell is None else cell for cell in cells_], np.int64)
        narrow = wide.astype(np.int32)
        found[name] = narrow if (narrow == wide).all() else wide
        if (wide == wide[0]).all():
            found[name] = repeated(int(wide[0]), len(wide))
    return found


@given(tables, numbers)
def test_numbers_are_those_of_sqlite(rows: list[tuple[int | None, ...]], wanted: Any) -> None:
    found = np.broadcast_to(value(wanted)(columns(rows)), len(rows))
    expected = asked(rows, sa.select(wanted).select_from(TABLE))
    assert [None if v == MISSING else v for v in found.tolist()] == expected


@given(tables, conditions)
def test_conditions_hold_where_sqlite_says_so(rows: list[tuple[int | None, ...]], wanted: Any) -> None:
    found = np.broadcast_to(truth(wanted)(columns(rows)), len(rows))
    numbered = [(place, *row) for place, row in enumerate(rows)]
    text = str(wanted.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (place INTEGER, a INTEGER, b INTEGER, c INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", numbered)
        expected = {row[0] for row in connection.execute(f"SELECT place FROM t WHERE {text}")}
    assert set(np.flatnonzero(found).tolist()) == expected


def test_the_columns_that_are_read_are_named_once() -> None:
    assert columns_read([A - B, sa.case((B == 1, sa.literal_column("7"))), sa.null()]) == ["a", "b"]


def worked_out(
    wanted: list[Any], where: Any, rows: list[tuple[int | None, ...]]
) -> list[list[int]] | None:
    """The columns of the rows that are kept; None where SQLite has to be asked."""
    evaluate = evaluator(wanted, where)
    found = evaluate(np.arange(len(rows)), columns(rows)) if evaluate else None
    return None if found is None else [column.tolist() for column in found]


def test_columns_of_the_rows_that_are_kept() -> None:
    rows = [(1, 5, None), (2, 6, None), (2, 7, 1)]
    assert worked_out([None, B - A, sa.null()], A == 2, rows) == [[1, 2], [4, 5], [MISSING] * 2]
    assert worked_out([B], None, rows) == [[5, 6, 7]]


@pytest.mark.parametrize(
    "wanted",
    [
        sa.cast(A, sa.Text),
        A * 2,
        A.op("<<")(1),
        sa.func.abs(A),
        sa.literal_column("1.5"),
        sa.literal("text"),
        A == B,
    ],
)
def test_what_is_not_known_is_left_to_sqlite(wanted: Any) -> None:
    assert worked_out([wanted], None, [(1, 2, 3)]) is None


@pytest.mark.parametrize("wanted", [A < B, A.is_(B), A.in_(["x"]), A.in_([]), (A == 1) | (A < B)])
def test_conditions_that_are_not_known_are_left_to_sqlite(wanted: Any) -> None:
    assert worked_out([A], wanted, [(1, 2, 3)]) is None


@pytest.mark.parametrize("cell", [1 << 62 | 1, -(1 << 62) - 1])
def test_sums_that_may_become_reals_are_left_to_sqlite(cell: int) -> None:
    assert worked_out([A + B], None, [(cell, 1, None)]) is None
    assert worked_out([A.op("&")(255)], None, [(cell, 1, None)]) == [[cell & 255]]
