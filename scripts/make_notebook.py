"""Make docs/example.ipynb: run its cells, and write them down with what they show.

    python scripts/make_notebook.py            run the cells and write the notebook
    python scripts/make_notebook.py --check    exit 1 if the notebook has other cells

The cells run in this process, in docs/, as a notebook there would. What a cell's last line gives is
shown the way notebooks do: as a picture, as HTML and as text. No cell has a number and none leaves a
path of this machine behind, so that the same cells make the same notebook; pictures depend on the
release of matplotlib, which is why `--check` leaves outputs alone.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
NOTEBOOK = DOCS / "example.ipynb"


@dataclass(frozen=True)
class Cell:
    """A cell: a kind (`markdown` or `code`) and its text."""

    kind: str
    text: str


CELLS = (
    Cell(
        "markdown",
        """# nsysconv in a notebook

The profile is a test profile of the repository, a training step that is made up; any profile does:
a report of Nsight Systems exported to SQLite, a database or a log of nvprof, a trace of PyTorch, or a
store that `nsysconv import` made.""",
    ),
    Cell(
        "code",
        """import nsysconv

profile = nsysconv.open("../tests/fixtures/kineto/training-2.13.json")
profile.report("kernels")""",
    ),
    Cell(
        "markdown",
        """A report shows itself. The last line of a cell is enough, and what has to be said with the
numbers is below them. `.plot()` draws it, where there is something to draw.""",
    ),
    Cell("code", """profile.report("kernels").plot()"""),
    Cell("markdown", "When was the GPU busy? With options of a report, as on the command line:"),
    Cell("code", """profile.report("utilization_over_time:bins=40").plot()"""),
    Cell("markdown", "Why was it idle? By the length of the gaps, and whose they were:"),
    Cell("code", """profile.report("idle_summary").plot()"""),
    Cell("markdown", "Where did the time of the steps go?"),
    Cell(
        "code",
        """steps = profile.report("steps")
steps.plot()""",
    ),
    Cell(
        "markdown",
        """The rows are there as Arrow (`to_arrow()`), as pandas (`to_pandas()`), and as dictionaries.
Integers stay integers, nanoseconds and bytes, and what was not recorded is null.""",
    ),
    Cell(
        "code",
        """frame = steps.to_pandas()
frame[["step", "dur_ns", "kernel_ns", "communication_ns", "other_ns"]]""",
    ),
    Cell(
        "code",
        """for row in profile.report("overview").rows():
    print(f"device {row['device_id']}: {row['busy_ns']} of {row['window_ns']} ns busy")""",
    ),
    Cell("markdown", "A part of the profile: any report can look at less."),
    Cell(
        "code",
        """profile.report("kernels", slice=nsysconv.Slice(time=(0, 50_000)))""",
    ),
    Cell("markdown", "What a profile did not record is said, and not shown as 0:"),
    Cell(
        "code",
        """from nsysconv.errors import NotRecorded

try:
    profile.report("osrt_sum")
except NotRecorded as error:
    print(error)""",
    ),
    Cell("code", "profile.close()"),
)

# Objects at a place in memory have another one next time.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def run(cell: Cell, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Return runs a code cell in these names and gives what a notebook would show below it."""
    tree = ast.parse(cell.text)
    last = tree.body[-1]
    tail = None
    if isinstance(last, ast.Expr):
        tail = compile(ast.Expression(last.value), "<cell>", "eval")
        del tree.body[-1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.chdir(DOCS):
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
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    for number, cell in enumerate(CELLS):
        made: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": _lines(cell.text),
        }
        if cell.kind == "code":
            made |= {"execution_count": None, "outputs": run(cell, names)}
        cells.append(dict(sorted(made.items())))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def cells_of(path: Path) -> tuple[Cell, ...]:
    """Return the cells of a notebook, without what they show."""
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return tuple(Cell(cell["cell_type"], "".join(cell["source"])) for cell in found)


def main() -> int:
    """Write or check the notebook."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare the cells, write nothing")
    if parser.parse_args().check:
        if NOTEBOOK.exists() and cells_of(NOTEBOOK) == CELLS:
            return 0
        print(f"{NOTEBOOK.name} has other cells: run `make notebook`", file=sys.stderr)
        return 1
    text = json.dumps(notebook(), indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
