"""Folders for what a command needs only while it runs, such as the copy of a source.

A process that is killed cannot remove its folder. So each is locked while it is in use, and whoever makes
one removes those of the same user that nobody has locked: the kernel drops a lock with its process, in
whatever container that was.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "nsysconv-private-"
_YOUNG_S = 60.0
"""A folder is made first and locked then: one so young is left alone."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder in TMPDIR (else /tmp) that nobody else can read, removed with all that is in it."""
    root = Path(tempfile.gettempdir())
    _sweep(root)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raises OSError where another process has locked it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _sweep(root: Path) -> None:
    for left in root.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            state = left.lstat()
            if state.st_uid == os.getuid() and time.time() - state.st_mtime > _YOUNG_S:
                with _locked(left):
                    shutil.rmtree(left, ignore_errors=True)
