"""Measure how far a command walks: modules and functions entered, and the deepest stack.

`python scripts/measure_walks.py` runs an import, a report and a diff of small fixtures in this process
and prints a line for each. Only functions of the package count; class bodies, comprehensions and
generator expressions do not.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(ROOT / "nsysconv")
BASIC = ROOT / "tests" / "fixtures" / "nsys" / "basic-3.25.0.sqlite"
OLDER = ROOT / "tests" / "fixtures" / "nsys" / "basic-3.24.14.sqlite"

_NOT_FUNCTIONS = frozenset({"<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


@dataclass
class Walk:
    """Hold what a command entered: functions as (file, name), and its deepest stack."""

    functions: set[tuple[str, str]] = field(default_factory=set)
    deepest: int = 0
    stack: list[str] = field(default_factory=list)

    @property
    def modules(self) -> set[str]:
        """Return the files of the package in which a function ran."""
        return {file for file, _ in self.functions}

    def enter(self, frame: FrameType) -> None:
        """Count a function that is called, and the functions of the package below it."""
        code = frame.f_code
        if not _is_function(code):
            return
        self.functions.add((code.co_filename[len(PACKAGE) + 1 :], code.co_qualname))
        names = []
        below: FrameType | None = frame
        while below is not None:
            if _is_function(below.f_code):
                names.append(f"{Path(below.f_code.co_filename).stem}.{below.f_code.co_qualname}")
            below = below.f_back
        if len(names) > self.deepest:
            self.deepest, self.stack = len(names), names[::-1]


def _is_function(code: CodeType) -> bool:
    return (
        code.co_filename.startswith(PACKAGE)
        and code.co_name not in _NOT_FUNCTIONS
        # A class body runs once, without the flag that functions have for their local names.
        and bool(code.co_flags & 2)
    )


@contextmanager
def followed() -> Iterator[Walk]:
    """Follow all threads of this process; yield the walk, which is complete when the block ends."""
    walk = Walk()

    def hook(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            walk.enter(frame)

    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def walk_of(*arguments: str) -> Walk:
    """Run a command line in this process; return its walk. Raise RuntimeError if the command fails."""
    from nsysconv import cli

    before, sys.argv = sys.argv, ["nsysconv", *arguments]
    status: object = 0
    try:
        with redirect_stdout(StringIO()), followed() as walk:
            try:
                cli.main()
            except SystemExit as end:
                status = end.code
    finally:
        sys.argv = before
    if status not in (0, None):
        raise RuntimeError(f"nsysconv {' '.join(arguments)} ended with {status}")
    return walk


def commands(folder: Path) -> dict[str, Callable[[], Walk]]:
    """Return the three commands, to be run in this order: the report reads what the import made."""
    store = folder / "store.db"
    return {
        "import": lambda: walk_of("import", str(BASIC), "-o", str(store)),
        "report": lambda: walk_of("report", str(store), "idle_gaps"),
        "diff": lambda: walk_of("diff", str(OLDER), str(BASIC)),
    }


def main() -> None:
    """Print modules, functions and the deepest stack of each command; with `-v` that stack."""
    with tempfile.TemporaryDirectory() as folder:
        for name, run in commands(Path(folder)).items():
            walk = run()
            print(
                f"{name:<8}{len(walk.modules):>4} modules {len(walk.functions):>5} functions"
                f" {walk.deepest:>4} deep"
            )
            if "-v" in sys.argv:
                print("\n".join(f"    {line}" for line in walk.stack))
                print("\n".join(f"    . {line}" for line in sorted(walk.modules)))


if __name__ == "__main__":
    main()
