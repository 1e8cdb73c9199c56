"""Texts of rows, many at once and one by one, whole and up to a separator."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small_store import Range, opened

from nsysconv.store import connection
from nsysconv.timeline.range_names import SEPARATORS, split_name

PIECES = st.sampled_from(["aten::mm", "é", ",", " ", "op_id = ", "7", "\n", *SEPARATORS])
TEXTS = st.lists(st.lists(PIECES, max_size=6).map("".join), min_size=1, max_size=8)


def _beginning(text: str) -> str:
    """Up to the end of the first separator."""
    found = [(text.find(each), each) for each in SEPARATORS if each in text]
    return text[: min(found)[0] + len(min(found)[1])] if found else text


@pytest.mark.parametrize("in_python", [0, 1000], ids=["many", "few"])
@given(TEXTS)
@example(["aten::mm, seq = 1, op_id = 2", "aten::mm, op_id = 3", "aten::mm", "x, y, sizes = []", ""])
def test_texts_up_to_the_first_separator(in_python: int, texts: list[str]) -> None:
    rows = [Range(number, number + 1, text) for number, text in enumerate(texts)]
    with pytest.MonkeyPatch.context() as patch, opened(*rows) as profile:
        patch.setattr(connection, "_FEW_TEXTS", in_python)
        for separators, wanted in (((), texts), (SEPARATORS, list(map(_beginning, texts)))):
            found = profile.timeline.profile.texts("range", "text", separators=separators)
            assert [found.texts[number] for number in found.numbers] == wanted
            assert len(set(found.texts)) == len(found.texts)
            assert (found.ids[1:] > found.ids[:-1]).all()


@given(TEXTS)
def test_what_is_up_to_the_first_separator_has_the_same_name(texts: list[str]) -> None:
    for text in texts:
        whole, cut = split_name(text), split_name(_beginning(text))
        assert (whole.name, whole.has_arguments) == (cut.name, cut.has_arguments)
