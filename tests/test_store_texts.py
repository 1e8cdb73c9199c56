"""Texts of rows, read by several connections at once."""

from __future__ import annotations

import os

import pytest
from conftest import NSYS, Shelf, texts_in_order

from nsysconv.store.read import reading


def test_texts_of_several_pieces_are_those_of_one(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading(shelf.store(NSYS / "ranges-2021.sqlite")) as store:
        (profile,) = store.profiles()
        whole = profile.texts("range", "text")
        expected = texts_in_order(profile, "range", "text")
        monkeypatch.setattr("nsysconv.store.read._ROWS_PER_THREAD", 1)
        monkeypatch.setattr(os, "cpu_count", lambda: 3)
        parts = profile.texts("range", "text")
        assert len(whole.texts) > 1
        assert parts.ids.tolist() == whole.ids.tolist()
        assert texts_in_order(profile, "range", "text") == expected
        assert sorted(parts.texts) == sorted(whole.texts)
