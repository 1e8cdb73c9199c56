"""Run the cells of docs/example.ipynb, and write down what they show.

    python scripts/make_notebook.py            run the cells and write the notebook
    python scripts/make_notebook.py --check    exit 1 if other outputs would be written

The cells run in this process, in a folder with the example profiles that they open. What a cell's last
line gives is shown the way notebooks do: as a picture, as HTML and as text. No cell has a number and none
leaves a path of this machine behind, so that the same cells make the same notebook; pictures depend on
the release of matplotlib, which is why `--check` leaves these alone.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import copy
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from write_examples import write_examples

DOCS = Path(__file__).parent.parent / "docs"
NOTEBOOK = DOCS / "example.ipynb"


@dataclass(frozen=True)
class Cell:
    """A cell: a kind (`markdown` or `code`) and its text."""

    kind: str
    text: str


PROFILES = ("train.sqlite", "faster.sqlite")
"""The example profiles that the cells open."""

CELLS = tuple(
    Cell(cell["cell_type"], "".join(cell["source"]))
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
)
"""Those of the notebook as it is: they are edited there."""

# Objects at a place in memory have another one next time.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def run(cell: Cell, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a code cell in these names and return what a notebook would show below it."""
    tree = ast.parse(cell.text)
    last = tree.body[-1]
    tail = None
    if isinstance(last, ast.Expr):
        tail = compile(ast.Expression(last.value), "<cell>", "eval")
        del tree.body[-1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        value = eval(tail, names) if tail is not None else None
    shown: list[dict[str, Any]] = []
    if printed.getvalue():
        text = _lines(printed.getvalue())
        shown.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        shown.append(_result(value))
    return shown


def _result(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode("ascii") + "\n"
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = _lines(value._repr_html_())
        # Beside HTML nobody sees the text, which is long.
        data["text/plain"] = [f"<{type(value).__name__}>"]
    data.setdefault("text/plain", _lines(_ADDRESS.sub("", repr(value))))
    return {"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def notebook() -> dict[str, Any]:
    """Return the notebook in the layout of Jupyter, version 4.5, with all cells run."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_examples(Path(folder), *PROFILES)
        cells = list(_run_cells())
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _run_cells() -> Iterator[dict[str, Any]]:
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(CELLS):
        made: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": _lines(cell.text),
        }
        if cell.kind == "code":
            made |= {"execution_count": None, "outputs": run(cell, names)}
        yield dict(sorted(made.items()))


def differs(stored: dict[str, Any]) -> bool:
    """Return whether a stored notebook shows anything but what its cells make, pictures aside."""
    pairs = zip(stored["cells"], notebook()["cells"], strict=True)
    return any(_without_pictures(old) != _without_pictures(new) for old, new in pairs)


def _without_pictures(cell: dict[str, Any]) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = copy.deepcopy(cell.get("outputs", []))
    for output in outputs:
        output.get("data", {}).pop("image/png", None)
    return outputs


def main() -> int:
    """Write or check the notebook."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if parser.parse_args().check:
        if not differs(json.loads(NOTEBOOK.read_text(encoding="utf-8"))):
            return 0
        print(f"{NOTEBOOK.name} has other outputs: run `make notebook`", file=sys.stderr)
        return 1
    text = json.dumps(notebook(), indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
