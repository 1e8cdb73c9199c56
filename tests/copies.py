"""Commands in a copy of the test's process: a new one would load all of nsysconv again."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from nsysconv.cli import main


def start(
    words: Sequence[str], folder: Path, streams: Sequence[int], *,
    without: Sequence[str] = (), before: Callable[[], None] = lambda: None, **environment: str,
) -> int:  # fmt: skip
    """Starts `nsysconv WORDS…` with stdin, stdout and stderr, and gives the copy's number.

    `before` is called in it, and variables of the environment are set, or removed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of newer Pythons, if there are threads
        pid = os.fork()
    if pid:
        return pid
    status: object = 70
    try:
        os.chdir(folder)
        for name in without:
            os.environ.pop(name, None)
        os.environ.update(environment)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, encoding="utf-8", errors="surrogateescape", closefd=False)
            for number, mode in enumerate("rww"))  # fmt: skip
        sys.argv = ["nsysconv", *words]
        before()
        main()
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0)


def ended(pid: int) -> int:
    """Waits for a copy and gives its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
