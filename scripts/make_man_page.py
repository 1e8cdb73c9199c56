"""Write man/nsysconv.1, the manual page, from what docs/cli.md is made of: the help texts.

python scripts/make_man_page.py            write it
python scripts/make_man_page.py --check    exit 1 if it is out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from docs_cli import cli_page

from nsysconv import __version__

PAGE = Path(__file__).parent.parent / "man" / "nsysconv.1"

_COMMAND = "## nsysconv "
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`([^`]*)`")
# What ends a table's cell; a bar that is text has a backslash before it.
_BAR = re.compile(r"(?<!\\)\|")

_HEAD = r"""
.\" Written by scripts/make_man_page.py from the help texts. Do not edit; run `make docs`.
.TH NSYSCONV 1 "" "nsysconv {version}" "User Commands"
.SH NAME
nsysconv \- import GPU profiles into one SQL schema, and report on them
.SH SYNOPSIS
.B nsysconv
.I TARGET
.RI [ options ]
.br
.B nsysconv
.I command
.RI [ arguments ]
.RI [ options ]
.SH DESCRIPTION
A profile of any source (Nsight Systems, PyTorch, nvprof and others) is asked the same questions.
.B nsysconv
.I TARGET
says where the time went; the commands below do the rest.
"""
_FOOT = r"""
.SH SEE ALSO
.BR nsys (1),
.BR sqlite3 (1)
"""


def man_page() -> str:
    """Return the whole page as roff."""
    lines = [*_HEAD.format(version=__version__).strip().splitlines()]
    lines += _without_empty_paragraphs(_roff(list(cli_page())))
    lines += _FOOT.strip().splitlines()
    return "\n".join(lines) + "\n"


def _roff(lines: list[str]) -> Iterator[str]:
    # The few forms of Markdown that cli_page uses: headings, tables of two columns, set-in lines, text.
    in_commands = False
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if line.startswith(_COMMAND):
            if not in_commands:
                yield ".SH COMMANDS"
            in_commands = True
            name = line.removeprefix("## ")
            yield f".SS {_text(name)}"
        elif line.startswith("## "):
            yield f".SH {_text(line.removeprefix('## ').upper())}"
        elif line.startswith("    "):
            block = [line]
            while place < len(lines) and (lines[place].startswith("    ") or not lines[place]):
                block.append(lines[place])
                place += 1
            yield from (".PP", ".nf", ".RS", *map(_text, _trimmed(block)), ".RE", ".fi")
        elif line.startswith("|"):
            # The header, and the line below it, are for tables.
            place += 1
            while place < len(lines) and lines[place].startswith("|"):
                term, meaning = (each.strip() for each in _BAR.split(lines[place])[1:3])
                yield from (".TP", _text(term), _text(meaning))
                place += 1
        elif line and not line.startswith("# "):
            yield from (".PP", _text(line))


def _without_empty_paragraphs(lines: Iterable[str]) -> Iterator[str]:
    # A heading begins a paragraph.
    before = ""
    for line in lines:
        if line != ".PP" or not before.startswith((".SH", ".SS")):
            yield line
        before = line


def _trimmed(block: list[str]) -> list[str]:
    while not block[-1]:
        block.pop()
    return [line.removeprefix("    ") for line in block]


def _text(markdown: str) -> str:
    text = _LINK.sub(r"\1", markdown).replace(r"\|", "|").replace("\\", r"\e")
    text = text.replace("-", r"\-")
    text = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in text)
    text = _CODE.sub(r"\\fB\1\\fR", text)
    # What begins a line of requests.
    return rf"\&{text}" if text.startswith((".", "'", " ")) else text


def main() -> int:
    """Write or check; return the exit status."""
    parser = argparse.ArgumentParser(description="write the manual page")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    if not parser.parse_args().check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(man_page(), "utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text("utf-8") != man_page():
        print("man/nsysconv.1 is out of date; run: make docs")
        return 1
    print("the manual page is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
