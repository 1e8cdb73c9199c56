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
