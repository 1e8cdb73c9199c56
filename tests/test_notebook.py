"""The example notebook: its cells run, show what it shows, and it holds nothing of a machine."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from make_notebook import CELLS, DOCS, NOTEBOOK, differs


def stored() -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return notebook


def outputs() -> list[dict[str, Any]]:
    return [output for cell in stored()["cells"] for output in cell.get("outputs", ())]


@pytest.mark.slow
def test_the_notebook_is_what_its_cells_make() -> None:
    """`make check` holds this, too."""
    assert not differs(stored()), "run `make notebook`"


def test_the_notebook_shows_pictures_and_tables_and_ends_with_an_answer() -> None:
    kinds = [kind for output in outputs() for kind in output.get("data", ())]
    assert kinds.count("image/png") == sum(".plot()" in c.text for c in CELLS if c.kind == "code") > 0
    assert "text/html" in kinds
    assert "".join(outputs()[-1]["text"]).startswith("faster: step period 69.65 ms → 51.18 ms")


def test_the_notebook_holds_no_path_date_or_machine() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert '"execution_count": null' in text
    assert not re.search(r'"execution_count": \d', text)
    shown = [value for output in outputs() for kind, value in output.get("data", {}).items()
             if kind != "image/png"]  # fmt: skip
    words = json.dumps([shown, [output.get("text") for output in outputs()]])
    assert str(DOCS.parent.resolve()) not in words
    assert not re.search(r"/home/|/root/|/tmp/|0x[0-9a-f]{6}", words)
