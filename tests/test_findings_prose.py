"""Sentences of findings on real files: none is cut, whatever names are in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import REAL_FILES, REAL_TRACES, few, real

import nsysconv
from nsysconv.errors import InputError, NotRecorded

# Names may be shortened in their middle. A cut sentence ends in the sign, or has it between words.
CUT = re.compile(r"(?:^|\s)…|…(?:\s|$|\.$)")


@real
@pytest.mark.parametrize("path", few([*REAL_FILES, *REAL_TRACES], 3), ids=lambda path: path.name)
def test_no_sentence_is_cut(path: Path) -> None:
    try:
        profile = nsysconv.open(path)
    except InputError:
        pytest.skip("it is refused")
    with profile:
        try:
            rows = profile.report("findings", limit=0).rows()
        except NotRecorded:
            pytest.skip("it has nothing that findings are about")
    texts = [row[name] or "" for row in rows for name in ("finding", "advice")]
    assert [text for text in texts if CUT.search(text)] == []


@pytest.mark.parametrize(("text", "is_cut"), [
    ("One kernel takes 52 %: flash_fwd<Flash…0, 1>, 3 s.", False), ("The GPU waited for …", True),
    ("It was … of 3 s", True), ("it was idle for…", True), ("it was idle for….", True),
])  # fmt: skip
def test_what_a_cut_sentence_looks_like(text: str, is_cut: bool) -> None:
    assert bool(CUT.search(text)) is is_cut
