"""Texts out of a file's pages: they are what SQLite says, or SQLite is to be asked."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import NSYS, examples, import_file
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch
from test_page_reader import BATCH_BYTES, hurt, opened, table, tree

import nsysconv
from nsysconv.report import MISSING
from nsysconv.store.connection import NumberedTexts, TextPart
from nsysconv.store.sqlite import page_reader
from nsysconv.store.sqlite.page_reader import ID, Texts
from nsysconv.store.sqlite.page_reader.pages import UnreadableError
from nsysconv.store.text_tests import begins

# Two with one sign at the beginning, one of more than eight bytes, and one in which another stands.
SEPARATORS = [", seq = ", ", stashed seq = ", " | ", "= =", "é"]
WORDS = ["aten::view", "a", " ", "é", "=", ",", " |", "\0", "x" * 57, "y" * 9000, *SEPARATORS]
PIECES = st.lists(st.sampled_from(WORDS), max_size=5).map("".join)
# Not to be read as texts: real numbers stay what they are, and blobs.
INTEGERS = st.integers(-(2**63), 2**63 - 1)
ODD = st.sampled_from([bytes(3), bytes(70)])


def cut(text: str, separators: Sequence[str], after: str) -> str:
    """What follows `after`, up to the end of the first separator; at one place, of the first listed."""
    text = text.partition(after)[2] if after else text
    found = [(text.find(each), n, each) for n, each in enumerate(separators) if each in text]
    if not found:
        return text
    at, _, each = min(found)
    return text[: at + len(each)]


def read(
    content: bytes, root: int, place: int, separators: Sequence[str] = (), after: str = ""
) -> tuple[list[str | None], list[int], bool]:
    """The texts, the ids, and whether all of the rows came."""
    found, ids, numbers = NumberedTexts(), list[int](), list[int]()
    whole = True
    with opened(content) as file:
        signs = [separator.encode() for separator in separators]
        column = Texts(place, found.numbers_of_bytes, signs, after.encode())
        try:
            for _, (some, values) in file.rows(root, [ID, column], -(2**63), 2**63 - 1):
                ids += some.tolist()
                numbers += values.tolist()
        except UnreadableError:
            whole = False
    texts = found.column().texts
    return [None if n == MISSING else texts[n] for n in numbers], ids, whole


RECIPES = st.builds(
    SimpleNamespace,
    rows=st.lists(st.tuples(st.none() | PIECES, PIECES | ODD | st.none() | INTEGERS, PIECES),
                  min_size=1, max_size=60),
    repeats=st.sampled_from([1, 3, 40]),
    size=st.sampled_from([512, 4096, 65_536]),
    separators=st.lists(st.sampled_from(SEPARATORS), unique=True),
    after=st.sampled_from(["", *SEPARATORS]),
    few=st.sampled_from([0, 1 << 16]),
    batch=st.sampled_from([1, 1 << 19]),
)  # fmt: skip


@examples(150)
@given(RECIPES)
def test_texts_are_sqlites_or_sqlite_is_asked(recipe: Any) -> None:
    """Asked where a record goes on on another page, or where there is something else."""
    rows = recipe.rows * recipe.repeats
    content, root, found = table(recipe.size, "a TEXT, b TEXT, c TEXT", rows)
    with MonkeyPatch.context() as patch:
        patch.setattr(BATCH_BYTES, recipe.batch)
        patch.setattr("nsysconv.store.connection.FEW_TEXTS", recipe.few)
        for place in range(3):
            texts, ids, whole = read(content, root, place, recipe.separators, recipe.after)
            wanted = [found[id_][place] for id_ in ids]
            assert texts == [
                None if text is None else cut(text, recipe.separators, recipe.after)
                for text in wanted
            ]
            fits = all(sum(len(str(v).encode()) + 4 for v in row if v) < 400 for row in rows)
            odd = any(isinstance(row[place], bytes) for row in rows)
            assert whole or odd or not fits
            assert not (whole and odd)
            if whole:
                assert ids == [*found]


def test_the_first_separator_of_a_text_is_not_one_of_the_next_text() -> None:
    rows = [("one",), (", seq = 1",), ("two, se",), ("q = 2",), ("three, seq =",), (" ",)]
    content, root, _ = table(512, "a TEXT", rows)
    found = read(content, root, 0, [", seq = "])[0]
    assert found == ["one", ", seq = ", "two, se", "q = 2", "three, seq =", " "]


def test_a_separator_does_not_reach_into_the_next_record() -> None:
    """Cells are written from the end of a page: behind a text are the size and the id of an older row."""
    content, root, _ = table(512, "a TEXT", [("yy",), ("abx",)])
    assert b"abx\x04\x01" in content
    assert read(content, root, 0, ["x\x04\x01"])[0] == ["yy", "abx"]


# A type of two bytes in a header of two; a text that is longer than its record; texts of 8185 bytes each
# before a number.
@pytest.mark.parametrize(("cell", "place"), [
    (bytes([60, 1, 2, 129, 1, *[65] * 58]), 0), (bytes([4, 1, 2, 41, 65, 65]), 0),
    (bytes([127, 1, 126, *[255, 127] * 62, 6]), 62),
])  # fmt: skip
def test_a_record_that_cannot_be_has_no_text(cell: bytes, place: int, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(BATCH_BYTES, 1)
    content, root, _ = table(1024, "a", [(1,)])
    page = bytes([13, 0, 0, 0, 1, 0, 0, 0]) + (1024 - len(cell)).to_bytes(2, "big")
    content = content[: (root - 1) * 1024] + page.ljust(1024 - len(cell), b"\0") + cell
    found = NumberedTexts()
    with opened(content) as file, pytest.raises(UnreadableError):
        wanted = place if place else Texts(0, found.numbers_of_bytes)
        list(file.rows(root, [wanted], 1, 9))
    assert found.column().texts == []


@pytest.mark.parametrize("few", [0, 1 << 16], ids=["many", "few"])
def test_pages_on_which_all_is_null(few: int, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(BATCH_BYTES, 1)
    monkeypatch.setattr("nsysconv.store.connection.FEW_TEXTS", few)
    rows: list[tuple[str | None]] = [("one",), ("two",), *[(None,)] * 500, ("one",)]
    content, root, _ = table(512, "a TEXT", rows)
    texts = [text for (text,) in rows]
    for separators, after in (((), ""), (("o",), ""), (("w",), "t")):
        wanted = [text and cut(text, separators, after) for text in texts]
        assert read(content, root, 0, separators, after) == (wanted, [*range(1, 504)], True)


def test_texts_behind_those_whose_types_take_two_bytes() -> None:
    rows = [("x" * n, f"row {n}", "y" * (130 - n), n) for n in range(131)]
    content, root, _ = table(4096, "a TEXT, b TEXT, c TEXT, d INTEGER", rows)
    for place in range(3):
        assert read(content, root, place) == ([row[place] for row in rows], [*range(1, 132)], True)
    with opened(content) as file:
        found = [values for _, (values,) in file.rows(root, [3], 1, 200)]
    assert np.concatenate(found).tolist() == [*range(131)]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_texts_of_another_encoding_are_left_to_sqlite(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA encoding='{encoding}'")
        connection.execute("CREATE TABLE t (a TEXT)")
        connection.execute("INSERT INTO t VALUES ('word')")
        connection.commit()
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema")
    expected = (["word"], [1], True) if encoding == "UTF-8" else ([], [], False)
    assert read(path.read_bytes(), root, 0) == expected


@examples(300)
@given(st.integers(0, 2**32), st.sampled_from([512, 4096]))
def test_damage_ends_in_an_end(seed: int, size: int) -> None:
    draw = random.Random(seed)
    rows = [("w" * (n % 120), None if n % 9 == 0 else f"{n}, seq = {n}") for n in range(900)]
    content, root, _ = table(size, "a TEXT, b TEXT", rows)
    damaged = bytearray(content)
    hurt(damaged, size, tree(content, size, root), draw)
    texts, ids, _ = read(bytes(damaged), root, draw.choice([0, 1]), [", seq = "])
    assert len(texts) == len(ids) == len({*ids})


# -- in stores and in files


@pytest.fixture
def from_pages(monkeypatch: MonkeyPatch) -> list[int]:
    """The ids that follow batches of texts from pages."""
    seen: list[int] = []
    before = page_reader.read

    def read(descriptor: int, root: int, places: Sequence[Any], *about: int) -> Any:
        for batch in before(descriptor, root, places, *about):
            if any(isinstance(place, Texts) for place in places):
                seen.append(batch[0])
            yield batch

    monkeypatch.setattr(page_reader, "read", read)
    monkeypatch.setattr(page_reader, "WORTH_ROWS", 0)
    monkeypatch.setattr("nsysconv.store.sqlite.connection.MOST_SHARED_FILES", 10_000)
    return seen


@pytest.mark.parametrize("source", ["basic-3.25.0.sqlite", "operators-3.0.0.sqlite"])
@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "in place"])
def test_texts_of_ranges_are_those_of_a_select(
    source: str, is_stored: bool, tmp_path: Path, from_pages: list[int]
) -> None:
    path = NSYS / source
    if is_stored:
        path = tmp_path / "store.db"
        import_file(NSYS / source, path)
    with nsysconv.open(path) as opened:
        profile = opened.timeline.profile
        found = profile.texts("range", "text", part=TextPart(("=",)))
        assert from_pages
        from_pages.clear()
        with MonkeyPatch.context() as patch:
            patch.setattr(page_reader, "WORTH_ROWS", 1 << 60)
            asked = profile.texts("range", "text", part=TextPart(("=",)))
        assert not from_pages
    assert found.ids.tolist() == asked.ids.tolist() != []
    assert [found.texts[n] for n in found.numbers] == [asked.texts[n] for n in asked.numbers]


@pytest.mark.parametrize("declared", ["TEXT", "INTEGER", "BLOB"])
def test_texts_of_a_column_of_another_type_are_asked_of_sqlite(
    declared: str, tmp_path: Path, from_pages: list[int]
) -> None:
    """Where it may hold numbers, these are texts, and not the places of some."""
    path = tmp_path / "source.sqlite"
    with closing(sqlite3.connect(NSYS / "basic-3.25.0.sqlite")) as connection:
        connection.execute(f"VACUUM INTO '{path}'")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, ' TEXT', ?) WHERE name = 'NVTX_EVENTS'",
            (f" {declared}",),
        )
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE NVTX_EVENTS SET text = 1 WHERE text IS NOT NULL AND textId IS NULL")
        connection.commit()
    with nsysconv.open(path) as opened:
        found = opened.timeline.profile.texts("range", "text")
    assert bool(from_pages) is (declared == "TEXT")
    assert [*{found.texts[n] for n in found.numbers.tolist()}] == ["1"]


def test_texts_with_a_condition_are_asked_of_sqlite(tmp_path: Path, from_pages: list[int]) -> None:
    store = tmp_path / "store.db"
    import_file(NSYS / "basic-3.25.0.sqlite", store)
    with nsysconv.open(store) as opened:
        opened.timeline.profile.texts("range", "text", begins("s"))
    assert not from_pages


def test_where_pages_stop_sqlite_goes_on_with_the_same_numbers(
    tmp_path: Path, from_pages: list[int], monkeypatch: MonkeyPatch
) -> None:
    """Behind a row whose text goes on on another page."""
    store = tmp_path / "store.db"
    import_file(NSYS / "basic-3.25.0.sqlite", store)
    rows = [f"text {n % 7}" if n != 3000 else "x" * 20_000 for n in range(1, 6001)]
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("DELETE FROM range")
        connection.executemany(
            "INSERT INTO range (id, profile_id, start_ns, dur_ns, text) VALUES (?, 1, 5, 1, ?)",
            enumerate(rows, 1),
        )
        connection.execute(
            "UPDATE extent SET first_id = 1, last_id = 6000, row_count = 6000 "
            "WHERE table_name = 'range'"
        )
        connection.commit()
    monkeypatch.setattr(BATCH_BYTES, 1)
    with nsysconv.open(store) as opened:
        found = opened.timeline.profile.texts("range", "text")
    assert 1 < from_pages[-1] <= 3000
    assert found.ids.tolist() == [*range(1, 6001)]
    assert [found.texts[n] for n in found.numbers.tolist()] == rows
    assert len(found.texts) == 8
    assert found.numbers.dtype == np.int32
