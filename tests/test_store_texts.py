"""Texts of rows, read by several connections at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import NSYS, Shelf, texts_in_order
from hypothesis import example, given
from hypothesis import strategies as st

from nsysconv.store.location import reading
from nsysconv.store.sqlite.connection import SqliteConnection, sqlite_uri

CELLS = st.lists(st.text(st.characters(codec="utf-8"), max_size=4) | st.binary(max_size=4), max_size=9)


def test_texts_of_several_pieces_are_those_of_one(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    with reading(shelf.store(NSYS / "ranges-2021.sqlite")) as store:
        (profile,) = store.profiles()
        whole = profile.texts("range", "text")
        expected = texts_in_order(profile, "range", "text")
        monkeypatch.setattr("nsysconv.store.read.ROWS_PER_THREAD", 1)
        monkeypatch.setattr("nsysconv.store.read.cores", lambda: 3)
        parts = profile.texts("range", "text")
        assert len(whole.texts) > 1
        assert parts.ids.tolist() == whole.ids.tolist()
        assert texts_in_order(profile, "range", "text") == expected
        assert sorted(parts.texts) == sorted(whole.texts)


@given(CELLS)
@example(["a", "b", "", "a", "longer than a word", b"\xff", "é"] * 500)
def test_texts_are_told_apart(cells: list[str | bytes]) -> None:
    """Also those that are not UTF-8, which SQLite does not check; of several batches as of one."""
    raw = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
    rows = ", ".join(f"({row}, CAST(x'{cell.hex()}' AS TEXT))" for row, cell in enumerate(raw))
    asked = f"SELECT column1, column2 FROM (VALUES {rows or '(0, NULL)'}) WHERE column2 IS NOT NULL"
    with SqliteConnection(sqlite_uri(Path("texts"), "memory"), "memory") as connection:
        found = connection.texts(asked)
    assert found.ids.tolist() == list(range(len(raw)))
    told = [found.texts[number] for number in found.numbers.tolist()]
    assert told == [cell.decode("utf-8", "replace") for cell in raw]
