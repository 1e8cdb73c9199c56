"""Write below the commands of a page what they print.

python scripts/docs_console.py            run the commands of all pages, and write what they print
python scripts/docs_console.py --check    exit 1, and show what is no longer so

A page shows commands in blocks named `console`, each after `$ `, with its output below. They run in a
folder with the examples of `write_examples.py`, one page after the other in a folder of its own. A
command that ends with another status than 0 shows its messages, too, and is followed by `$ echo $?`. A
line of the output that is `…` is in place of any lines: it stays where it is. Blocks named `pycon` are
Python, run in the same folder.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import doctest
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_command import run
from write_examples import write_examples

from nsysconv.errors import NsysconvError

ROOT = Path(__file__).parent.parent
TERMINAL = 110
CUT = "…"

_BLOCK = re.compile(r"^```(console|pycon)\n(.*?)^```$", re.M | re.S)


def pages() -> list[Path]:
    """Return the pages that have commands or Python in them."""
    every = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    return [page for page in every if _BLOCK.search(page.read_text("utf-8"))]


def fits(shown: str, actual: str) -> bool:
    """Return whether an output is as shown, with any lines in place of `…`."""
    lines = "".join(
        r"(?:.*\n)*" if line == CUT else re.escape(line) + r"\n" for line in shown.splitlines()
    )
    return re.fullmatch(lines, actual) is not None


def renewed(shown: str, actual: str) -> str:
    """Return the output as a page is to show it: what it leaves out by `…` is left out again.

    A run of lines between two `…` becomes the lines of the new output that begin with the most similar
    one, as many as before.
    """
    if CUT not in shown.splitlines():
        return actual
    if fits(shown, actual):
        return shown
    lines = actual.splitlines()
    result: list[str] = []
    at = 0
    parts = _parts(shown.splitlines())
    for number, part in enumerate(parts):
        if number:
            result.append(CUT)
        if number and number == len(parts) - 1:
            at = max(at, len(lines) - len(part))
        elif number and part:
            at = _most_similar(part[0], lines, at)
        result += lines[at : at + len(part)]
        at += len(part)
    return "".join(f"{line}\n" for line in result)


def _parts(lines: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in lines:
        if line == CUT:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _most_similar(line: str, lines: Sequence[str], start: int) -> int:
    def likeness(place: int) -> float:
        return difflib.SequenceMatcher(None, line, lines[place], autojunk=False).ratio()

    return max(range(start, len(lines)), key=likeness, default=start)


@dataclass
class Shell:
    """A folder in which the commands of a page run, one after the other."""

    folder: Path
    status: int = 0
    names: dict[str, Any] = field(default_factory=dict)

    def output(self, command: str) -> str:
        """Return what a command prints, without blanks at the ends of lines."""
        words = shlex.split(command)
        if words == ["echo", "$?"]:
            return f"{self.status}\n"
        if words[0] != "nsysconv":
            raise ValueError(f"$ {command}: pages run nsysconv alone")
        outcome = run(*words[1:], cwd=self.folder, width=TERMINAL)
        self.status = outcome.status
        text = outcome.out + (outcome.err if outcome.status else "")
        return re.sub(r"[ \t]+$", "", text, flags=re.M)

    def value(self, source: str) -> str:
        """Return what Python shows after a statement, of an error its last lines."""
        printed = io.StringIO()
        code = compile(ast.Interactive(ast.parse(source).body), "<page>", "single")
        with contextlib.redirect_stdout(printed), contextlib.chdir(self.folder):
            try:
                exec(code, self.names)
            except NsysconvError as error:
                kind = type(error)
                print("Traceback (most recent call last):", "...", sep="\n")
                print(f"{kind.__module__}.{kind.__qualname__}: {error}")
        return printed.getvalue()


def with_outputs(text: str, shell: Shell) -> str:
    """Return the text of a page with what its commands print now."""
    kinds: dict[str, Callable[[str, Shell], Iterator[str]]] = {"console": _console, "pycon": _python}

    def block(found: re.Match[str]) -> str:
        return f"```{found[1]}\n{''.join(kinds[found[1]](found[2], shell))}```"

    return _BLOCK.sub(block, text)


def _console(block: str, shell: Shell) -> Iterator[str]:
    pieces = re.split(r"^\$ ", block, flags=re.M)[1:]
    for number, piece in enumerate(pieces):
        command, _, shown = piece.partition("\n")
        yield f"$ {command}\n"
        yield renewed(shown, shell.output(command))
        following = pieces[number + 1] if number + 1 < len(pieces) else ""
        if shell.status and not following.startswith("echo $?") and command != "echo $?":
            raise ValueError(f"$ {command}\nended with status {shell.status}, which is not shown")


def _python(block: str, shell: Shell) -> Iterator[str]:
    for example in doctest.DocTestParser().get_examples(block):
        first, *rest = example.source.splitlines()
        yield f">>> {first}\n"
        yield from (f"... {line}".rstrip() + "\n" for line in rest)
        yield renewed(example.want, shell.value(example.source))
    # Doctest takes the end of a block for output where no empty line is before it.
    yield "\n" if block.endswith("\n\n") else ""


@contextlib.contextmanager
def examples() -> Iterator[Path]:
    """Write the examples to a folder that is removed in the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_examples(folder)
        yield folder


@contextlib.contextmanager
def shell_in(files: Path) -> Iterator[Shell]:
    """Give a page its folder, with the examples in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        shutil.copytree(files, folder, copy_function=os.link)
        yield Shell(folder)


@contextlib.contextmanager
def named(page: Path) -> Iterator[None]:
    """Have errors name the page."""
    try:
        yield
    except Exception as error:
        error.add_note(f"on {page}")
        raise


def main() -> int:
    """Write or check; returns the exit status."""
    parser = argparse.ArgumentParser(description="write below commands of pages what they print")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    parser.add_argument("page", type=Path, nargs="*", help="these pages only")
    asked = parser.parse_args()
    stale = 0
    with examples() as files:
        for page in asked.page or pages():
            text = page.read_text("utf-8")
            with shell_in(files) as shell, named(page):
                new = with_outputs(text, shell)
            if new != text and asked.check:
                stale += 1
                sys.stdout.writelines(difflib.unified_diff(
                    text.splitlines(True), new.splitlines(True), str(page), "printed now"))  # fmt: skip
            elif new != text:
                page.write_text(new, "utf-8")
    if asked.check:
        print("pages show other outputs: run `make docs`" if stale else "all outputs are as shown")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
