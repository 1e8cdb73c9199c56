"""Measure how far a command walks: modules and functions entered, and the deepest stack.

    python scripts/measure_walks.py [-v | --json | --climbs]

Run an import, a report and a diff of small fixtures in this process and print a line for each; with
`-v` also the deepest stack and the modules, with `--json` everything, calls in their order included.
Only functions of the package count; class bodies, comprehensions and generator expressions do not.

With `--climbs`, follow what the commands `import` and `diff` are asked, the files and the options,
through the modules of cli/, api/ and diff/: a function gets it if one of its arguments is it, is a part
of it, or is made of that. A climb is a function that gets it for the first time in a module that it had
left to another one before.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, fields, is_dataclass
from inspect import CO_NEWLOCALS
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

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


Followable = TypeVar("Followable", bound="Walk | Followed")


@contextmanager
def followed(walk: Followable) -> Iterator[Followable]:
    """Follow all threads of this process; yield the walk, which is complete when the block ends."""

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
    return follow(Walk(), *arguments)


def follow(walk: Followable, *arguments: str) -> Followable:
    """Run a command line in this process; return the walk when it is made. Raise as `walk_of`."""
    from nsysconv.cli import main

    before, sys.argv = sys.argv, ["nsysconv", *arguments]
    status: object = 0
    try:
        with redirect_stdout(StringIO()), followed(walk):
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


@dataclass
class Followed:
    """A value on its way: `function` gets it first, as `argument`; `path`: the functions that get it."""

    function: str
    argument: str
    path: list[str] = field(default_factory=list)
    _parts: list[Any] = field(default_factory=list)

    def enter(self, frame: FrameType) -> None:
        """Record a call if it is handed the value; remember its parts at the first one."""
        code = frame.f_code
        if not _is_function(code) or not _name(code).startswith(_CENTRE):
            return
        count = code.co_argcount + code.co_kwonlyargcount
        # To read a field of it, or ask it for one, is not to hand it on.
        named = [name for name in code.co_varnames[:count] if name != "self"]
        given = [frame.f_locals[name] for name in named if name in frame.f_locals]
        if not self._parts and _name(code) == self.function:
            value = frame.f_locals[self.argument]
            self._parts = [value, *(part for part in _inside(value) if _is_own(part))]
        if _name(code) not in self.path and any(self._is_in(each) for each in given):
            self.path.append(_name(code))

    def _is_in(self, value: Any, depth: int = 3) -> bool:
        if any(_same(value, part) for part in self._parts):
            return True
        return depth > 0 and any(self._is_in(each, depth - 1) for each in _inside(value))

    @property
    def climbs(self) -> list[str]:
        """Return the functions at which the value is back in a module that it had left."""
        modules = [function.partition(":")[0] for function in self.path]
        return [
            function for place, function in enumerate(self.path)
            if modules[place] in modules[:place] and modules[place] != modules[place - 1]
        ]  # fmt: skip


_CENTRE = ("cli/", "api/", "diff/")


def _inside(value: Any) -> Iterator[Any]:
    if is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, each.name, None) for each in fields(value))
    elif isinstance(value, (list, tuple)):
        yield from value[:100]


def _is_own(part: Any) -> bool:
    # Words such as "exact" are everywhere; paths, patterns and limits are those of the command.
    return (isinstance(part, (str, Path, tuple)) and len(str(part)) > 8) or is_dataclass(part)


def _same(value: Any, part: Any) -> bool:
    # Options are replaced by others of their kind, texts become paths.
    if is_dataclass(part):
        return type(value) is type(part)
    if isinstance(part, str):
        return isinstance(value, (str, Path)) and str(value) == part
    return value is part


def climbs(folder: Path) -> dict[str, Followed]:
    """Return what became of the files of an import and of the options of a diff."""
    asked = ["--time", "0%:100%", "--step-range", "iteration *", "--run-noise", "0.523%",
             "--fail-on", "kernels.kernel_sum_ns:1000%", "--inconclusive", "pass"]  # fmt: skip
    return {
        "import_:inputs": follow(Followed("cli/imports.py:import_", "inputs"),
                                 "import", str(BASIC), "-o", str(folder / "followed.db")),
        "diff:options": follow(Followed("cli/commands.py:diff", "options"),
                               "diff", str(OLDER), str(BASIC), "overview", *asked),
    }  # fmt: skip


def main() -> None:
    """Print the walks of the three commands."""
    with tempfile.TemporaryDirectory() as folder:
        if "--climbs" in sys.argv:
            for name, found in climbs(Path(folder)).items():
                print(f"{name}: {len(found.climbs)} climbs")
                print("\n".join(f"    {'^' if f in found.climbs else ' '} {f}" for f in found.path))
            return
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
