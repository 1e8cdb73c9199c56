"""Odd surroundings: narrow and wide terminals, old locales, names that are not UTF-8, large folders."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import pty
import re
import resource
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import copies
import pytest
from conftest import CHILD_ENVIRONMENT, few, import_file
from golden_cases import run
from rich.cells import cell_len

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
NAME = "caf\u00e9\udcff.sqlite"
"""In UTF-8 but for its last byte: what a file of another locale has become."""


# -- terminals


@dataclass(frozen=True)
class Shown:
    """What a terminal got."""

    status: int
    text: str


def on_terminal(words: Sequence[str], folder: Path, columns: int, **environment: str) -> Shown:
    """Runs nsysconv on a terminal so wide; stdin, stdout and stderr are it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    pid = copies.start(words, folder, [theirs] * 3, without=("COLUMNS", "NO_COLOR"),
                       **{"TERM": "xterm-256color", **environment})  # fmt: skip
    os.close(theirs)
    read = b""
    with contextlib.suppress(OSError):  # so the kernel says that the last of them has closed it
        while piece := os.read(ours, 1 << 16):
            read += piece
    os.close(ours)
    return Shown(copies.ended(pid), read.decode().replace("\r\n", "\n"))


@pytest.mark.parametrize(("columns", "variables"), few([
    (200, {"NO_COLOR": ""}), (40, {}), (79, {}), (300, {}),
], 1), ids=str)  # fmt: skip
def test_a_terminal_is_filled_in_color_and_never_more(
    folder: Path, columns: int, variables: dict[str, str]
) -> None:
    shown = on_terminal(("report", "report1.sqlite", "core"), folder, columns, **variables)
    assert (shown.status, "\x1b" in shown.text) == (0, True)
    widest = max(cell_len(line) for line in _ESCAPE.sub("", shown.text).splitlines())
    assert columns / 2 < widest <= columns


@pytest.mark.parametrize("columns", few([0, 1, 39], 1))
def test_an_invalid_terminal_width_is_ignored(folder: Path, columns: int) -> None:
    """0 is what terminals say that do not know; narrower than 40 nothing could be read."""
    shown = on_terminal(("report", "report1.sqlite", "kernels"), folder, columns)
    lines = _ESCAPE.sub("", shown.text).splitlines()
    assert shown.status == 0
    assert max(cell_len(line) for line in lines) <= (80 if columns == 0 else 40)


@pytest.mark.parametrize("words", [
    ("report",), ("info",), ("report", "--list"), ("diff", "report1.sqlite"),
], ids=" ".join)  # fmt: skip
@pytest.mark.parametrize("columns", few((*range(40, 100, 7), 127, 128, 255, 256, 400), 1))
def test_every_width_has_room_for_every_answer(
    folder: Path, words: tuple[str, ...], columns: int
) -> None:
    outcome = run(words[0], *words[1:], "report1.sqlite", cwd=folder, width=columns)
    assert outcome.status == 0
    for line in outcome.out.splitlines():
        # Commands to be copied are not broken: a shell takes them as one line.
        is_command = any(word in line for word in ("nsys profile", "--", "nsysconv "))
        assert cell_len(line) <= columns or is_command, line


@pytest.mark.parametrize("variables", few([{"TERM": "dumb"}, {"NO_COLOR": "1"}], 1), ids=str)
def test_columns_win_over_the_terminal_and_escape_sequences_are_for_those_that_want_them(
    folder: Path, variables: dict[str, str]
) -> None:
    shown = on_terminal(
        ("report", "report1.sqlite", "kernels"), folder, 200, COLUMNS="60", **variables
    )
    assert (shown.status, "\x1b" in shown.text) == (0, False)
    assert max(map(cell_len, shown.text.splitlines())) <= 60


# -- locales and names


LOCALES = {
    "C, without UTF-8": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "C, as it is": {"LC_ALL": "C"},
    "POSIX, without UTF-8": {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "one that is not there": {"LC_ALL": "xx_XX.KOI8-R", "LANG": "xx_XX.KOI8-R"},
}


STORE = NAME.removesuffix(".sqlite") + ".db"
# By command: the files that it makes.
ASKED: dict[tuple[str, ...], set[str]] = {
    ("import", NAME): {STORE},
    ("report", NAME, "kernels"): set(),
    ("report", NAME, "kernels", "-f", "json"): set(),
    ("info", NAME): set(),
    ("runs", STORE): set(),
    ("sql", STORE, "select label from profile"): set(),
    ("export", NAME, "--to", "chrome"): {NAME.removesuffix(".sqlite") + ".json"},
    ("report", STORE, "kernels", "-o", f"{NAME}.html"): {f"{NAME}.html"},
    ("diff", NAME, STORE, "kernels"): set(),
}


@pytest.mark.parametrize(
    ("locale", "words"),
    few(itertools.product(LOCALES, ASKED), 1),
    ids=lambda each: each if isinstance(each, str) else each[0],
)
def test_file_names_of_any_bytes_work_in_any_locale(
    folder: Path, locale: str, words: tuple[str, ...]
) -> None:
    """What cannot be shown is spelled out, and files have their names."""
    (folder / "report1.sqlite").rename(folder / NAME)
    if STORE in words:
        import_file(folder / NAME, folder / STORE)
    before = {path.name for path in folder.iterdir()}
    done = subprocess.run(
        [sys.executable, "-m", "nsysconv", *words], cwd=folder, capture_output=True, check=False,
        env={**CHILD_ENVIRONMENT, **LOCALES[locale]},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    shown = done.stdout.decode("latin-1" if locale == "latin-1" else "utf-8")
    if "json" in words:
        assert json.loads(shown)
    if words[0] not in ("diff", "export") and "-o" not in words:
        assert "caf" in shown
    assert {path.name for path in folder.iterdir()} - before == ASKED[words]


# -- folders


def test_a_folder_of_many_other_files_is_refused_in_few_lines(folder: Path) -> None:
    """Of a job's folder most is not for nsysconv; no file stays open, and one answer is for all."""
    for number in range(120):
        (folder / f"out{number}.log").write_bytes(b"" if number % 2 else b"step 1\n")

    def limit() -> None:
        os.closerange(3, 1 << 12)  # what the tests have open
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        pid = copies.start(("import", ".", "-o", "job.db"), folder,
                           [out.fileno(), out.fileno(), err.fileno()], before=limit)  # fmt: skip
        status = copies.ended(pid)
        out.seek(0), err.seek(0)
        told, said = out.read(), err.read()
    assert status == 0, said
    assert "the file is empty (60)" in said
    assert said.count("skipped: ") == 1
    assert "job.db: 1 profile of 1 file, 1 run" in told.splitlines()
