"""Make docs/example.ipynb: run its cells, and write them down with what they show.

    python scripts/make_notebook.py            run the cells and write the notebook
    python scripts/make_notebook.py --check    exit 1 if other cells, or other outputs, would be written

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
from collections.abc import Iterator, Sequence
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

CELLS = (
    Cell(
        "markdown",
        """# nsysconv in a notebook

A training step takes 70 ms, and the GPU is not busy all the time. Why, and what helps?

The profile is an example, a made-up training of 20 steps as Nsight Systems exports it;
`python ../scripts/write_examples.py . train.sqlite faster.sqlite` writes it beside this notebook. Any
profile does: a report of Nsight Systems exported to SQLite, a database or a log of nvprof, a trace of
PyTorch, or a store that `nsysconv import` made.""",
    ),
    Cell(
        "code",
        """import nsysconv

profile = nsysconv.open("train.sqlite")
profile.report("summary")""",
    ),
    Cell(
        "markdown",
        """A report shows itself: the last line of a cell is enough. What has to be said with the numbers
is below them. A quarter of the time the GPU waits for the host, or does nothing but copy. Why?""",
    ),
    Cell("code", """profile.report("findings")"""),
    Cell("markdown", "`.plot()` draws a report that has something to draw. When was the GPU busy?"),
    Cell("code", """profile.report("utilization_over_time:bins=100").plot()"""),
    Cell("markdown", "With options of a report, as on the command line: the time of each step."),
    Cell("code", """profile.report("steps", step_range="step *").plot()"""),
    Cell(
        "markdown",
        """Any report can look at less. Inside one step, what did the host do while the GPU was idle?""",
    ),
    Cell(
        "code",
        """step = nsysconv.Slice(step="7", step_range="step *")
profile.report("idle_host", slice=step, limit=5)""",
    ),
    Cell(
        "markdown",
        """So it is the batch, which the training loads itself. For questions that no report has, the
events are there as an Arrow table, of a file as of a store: times are integers of ns, names are beside
their ids. How much do small kernels matter?""",
    ),
    Cell(
        "code",
        """kernels = profile.events("kernel", ["name", "dur_ns"]).to_pandas()
kernels["short"] = kernels["dur_ns"] < 10_000
kernels.groupby("short")["dur_ns"].agg(["count", "sum"])""",
    ),
    Cell(
        "markdown",
        """More than half of the kernels are that short, and take 2.5 % of the time of all: their launches
cost more than they do. And as SQL, on the tables and views of a store: from which memory are copies?""",
    ),
    Cell(
        "code",
        """profile.sql(\"\"\"
    select direction, src_kind, count(*) as copies, sum(bytes) as bytes, sum(dur_ns) as ns
    from v_memcpy group by 1, 2
\"\"\")""",
    ),
    Cell(
        "markdown",
        """Three changes follow: batches loaded by other processes, into pinned memory, and an optimizer
that launches few kernels in place of many short ones. The same training was profiled with them.""",
    ),
    Cell(
        "code",
        """profile.close()
result = nsysconv.compare("train.sqlite", "faster.sqlite", for_people=True)
result.reports[0]""",
    ),
    Cell("markdown", "The answer:"),
    Cell("code", "print(result.answer)"),
)

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


def difference(stored: dict[str, Any], cells: Sequence[Cell]) -> str | None:
    """Return what of a stored notebook differs from what these cells make, pictures aside; or None."""
    found = [Cell(cell["cell_type"], "".join(cell["source"])) for cell in stored["cells"]]
    if tuple(found) != tuple(cells):
        return "other cells"
    pairs = zip(stored["cells"], notebook()["cells"], strict=True)
    if any(_without_pictures(old) != _without_pictures(new) for old, new in pairs):
        return "other outputs"
    return None


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
        stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
        has = difference(stored, CELLS)
        if has is None:
            return 0
        print(f"{NOTEBOOK.name} has {has}: run `make notebook`", file=sys.stderr)
        return 1
    text = json.dumps(notebook(), indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
