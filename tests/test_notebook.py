"""The example notebook: its cells are its script's, they run, and it holds nothing of a machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import make_notebook
import pytest
from make_notebook import CELLS, DOCS, NOTEBOOK, Cell, cells_of, run


def outputs() -> list[dict[str, Any]]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [output for cell in cells for output in cell.get("outputs", ())]


def test_the_notebook_has_the_cells_of_its_script() -> None:
    assert cells_of(NOTEBOOK) == CELLS


def test_the_code_runs_as_plain_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(DOCS)
    code = "\n".join(cell.text for cell in CELLS if cell.kind == "code")
    exec(compile(code, "example", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == (
        "device 0: 60000 of 89000 ns busy\n"
        "osrt_sum: not recorded in this profile: calls of the operating system's runtime libraries\n"
    )


def test_the_stored_notebook_holds_outputs() -> None:
    kinds = [kind for output in outputs() for kind in output.get("data", ())]
    assert kinds.count("image/png") == sum(".plot()" in c.text for c in CELLS if c.kind == "code")
    assert "text/html" in kinds
    assert any("60000 of 89000" in "".join(output.get("text", ())) for output in outputs())


def test_the_notebook_holds_no_path_date_or_machine() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert '"execution_count": null' in text
    assert not re.search(r'"execution_count": \d', text)
    shown = [value for output in outputs() for kind, value in output.get("data", {}).items()
             if kind != "image/png"]  # fmt: skip
    words = json.dumps([shown, [output.get("text") for output in outputs()]])
    assert str(DOCS.parent.resolve()) not in words
    assert not re.search(r"/home/|/root/|/tmp/|0x[0-9a-f]{6}", words)


def test_a_cell_shows_its_last_value_and_its_output() -> None:
    names: dict[str, Any] = {}
    assert run(Cell("code", "a = 2\nprint(a)"), names) == [
        {"name": "stdout", "output_type": "stream", "text": ["2\n"]}]  # fmt: skip
    (result,) = run(Cell("code", "a + 1"), names)
    assert result["data"] == {"text/plain": ["3"]}
    assert run(Cell("code", "None"), names) == []


def test_changed_cells_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "example.ipynb"
    copy.write_text(NOTEBOOK.read_text(encoding="utf-8").replace("bins=40", "bins=41"))
    monkeypatch.setattr(make_notebook, "NOTEBOOK", copy)
    monkeypatch.setattr("sys.argv", ["make_notebook.py", "--check"])
    assert make_notebook.main() == 1
    assert "run `make notebook`" in capsys.readouterr().err
