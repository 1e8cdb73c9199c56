"""Run a command of nsysconv in this process, for tests and for the pages of docs/."""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from nsysconv.cli import main

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_USAGE_WIDTH = 120


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit status, stdout, stderr."""

    status: int
    out: str
    err: str


class Terminal(io.StringIO):
    """Look like a terminal."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


@contextlib.contextmanager
def _process_kept() -> Iterator[None]:
    """Put back what a command changes of its process, for it ends with the command."""
    enabled = gc.isenabled()
    try:
        with mock.patch.object(gc, "freeze"):
            yield
    finally:
        if enabled:
            gc.enable()
        atexit.unregister(signal.signal)


def run(*arguments: str | Path, cwd: Path, width: int | None = None) -> Outcome:
    """Run `nsysconv ARGUMENTS…` in this process; `width`: on a terminal so wide, colors removed."""
    out, err = io.StringIO() if width is None else Terminal(), io.StringIO()
    status: object = 0
    with (
        _process_kept(),
        contextlib.chdir(cwd),
        mock.patch.object(sys, "argv", ["nsysconv", *map(str, arguments)]),
        mock.patch.dict(os.environ, COLUMNS=str(width or _USAGE_WIDTH)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code
    assert isinstance(status, int), status
    return Outcome(status, _ESCAPE.sub("", out.getvalue()), err.getvalue())
