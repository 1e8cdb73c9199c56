"""Measure how far a command walks: modules and functions entered, and the deepest stack.

    python scripts/measure_walks.py [-v | --json]

Run an import, a report and a diff of small fixtures in this process and print a line for each; with
`-v` also the deepest stack and the modules, with `--json` everything, calls in their order included.
Only functions of the package count; class bodies, comprehensions and generator expressions do not.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from inspect import CO_NEWLOCALS
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
    """The functions that a command entered, as `file.py:function`, in order, and its deepest stack."""

    calls: list[str] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)

    @property
    def functions(self) -> set[str]:
        """Return the functions entered."""
        return set(self.calls)

    @property
    def modules(self) -> set[str]:
        """Return the files of the package in which a function was entered."""
        return {function.partition(":")[0] for function in self.calls}

    def enter(self, frame: FrameType) -> None:
        """Record a call, and the stack of package functions if it is the deepest so far."""
        if not _is_function(frame.f_code):
            return
        self.calls.append(_name(frame.f_code))
        stack = []
        caller: FrameType | None = frame
        while caller is not None:
            if _is_function(caller.f_code):
                stack.append(_name(caller.f_code))
            caller = caller.f_back
        if len(stack) > len(self.stack):
            self.stack = stack[::-1]


def _is_function(code: CodeType) -> bool:
    return (
        code.co_filename.startswith(PACKAGE)
        and code.co_name not in _NOT_FUNCTIONS
        # The body of a class is code, too, without local names of its own.
        and bool(code.co_flags & CO_NEWLOCALS)
    )


def _name(code: CodeType) -> str:
    return f"{code.co_filename[len(PACKAGE) + 1 :]}:{code.co_qualname}"


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
    from nsysconv.cli import main

    before, sys.argv = sys.argv, ["nsysconv", *arguments]
    status: object = 0
    try:
        with redirect_stdout(StringIO()), followed() as walk:
            try:
                main()
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
    """Print the walks of the three commands."""
    with tempfile.TemporaryDirectory() as folder:
        walks = {name: run() for name, run in commands(Path(folder)).items()}
    if "--json" in sys.argv:
        print(json.dumps({n: {"calls": w.calls, "stack": w.stack} for n, w in walks.items()}))
        return
    for name, walk in walks.items():
        print(
            f"{name:<8}{len(walk.modules):>4} modules {len(walk.functions):>5} functions"
            f" {len(walk.stack):>4} deep"
        )
        if "-v" in sys.argv:
            print("\n".join(f"    {function}" for function in walk.stack))
            print("\n".join(f"    . {module}" for module in sorted(walk.modules)))


if __name__ == "__main__":
    main()
