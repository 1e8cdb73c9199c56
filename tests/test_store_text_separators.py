"""Texts of rows, many at once and one by one, and parts of them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small_store import Range, opened

from nsysconv.store import connection
from nsysconv.store.connection import WHOLE, TextPart
from nsysconv.timeline.range_names import SEPARATORS, SIZES, split_name

PIECES = st.sampled_from(["aten::mm", "é", ",", " ", "op_id = ", "7", "\n", *SEPARATORS])
TEXTS = st.lists(st.lists(PIECES, max_size=6).map("".join), min_size=1, max_size=8)


def _beginning(text: str) -> str:
    """Up to the end of the first separator."""
    found = [(text.find(each), each) for each in SEPARATORS if each in text]
    return text[: min(found)[0] + len(min(found)[1])] if found else text


def _argument(text: str) -> str:
    """What follows the first of these, nothing without it."""
    return _beginning(text[text.find(SIZES) + len(SIZES) :]) if SIZES in text else ""


PARTS = {
    WHOLE: str, TextPart(SEPARATORS): _beginning, TextPart(SEPARATORS, SIZES): _argument,
    TextPart(after=SIZES): lambda text: text.partition(SIZES)[2],
}  # fmt: skip


@pytest.mark.parametrize("in_python", [0, 1000], ids=["many", "few"])
@given(TEXTS)
@example(["aten::mm, seq = 1, op_id = 2", "aten::mm, op_id = 3", "aten::mm", "x, y, sizes = []", ""])
@example(["mm, sizes = [[1], [2]], input_op_ids = 3", ", sizes = , sizes = 4", "mm, sizes =", " 5"])
def test_parts_of_texts(in_python: int, texts: list[str]) -> None:
    rows = [Range(number, number + 1, text) for number, text in enumerate(texts)]
    with pytest.MonkeyPatch.context() as patch, opened(*rows) as profile:
        patch.setattr(connection, "FEW_TEXTS", in_python)
        for part, slow in PARTS.items():
            found = profile.timeline.profile.texts("range", "text", part=part)
            assert [found.texts[number] for number in found.numbers] == list(map(slow, texts))
            assert len(set(found.texts)) == len(found.texts)
            assert (found.ids[1:] > found.ids[:-1]).all()


@given(TEXTS)
def test_what_is_up_to_the_first_separator_has_the_same_name(texts: list[str]) -> None:
    for text in texts:
        whole, cut = split_name(text), split_name(_beginning(text))
        assert (whole.name, whole.has_arguments) == (cut.name, cut.has_arguments)
