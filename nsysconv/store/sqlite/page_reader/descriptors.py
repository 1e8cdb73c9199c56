"""Descriptors of files that SQLite has open, too.

By POSIX a process that closes *any* descriptor of a file gives up *all* its locks on that file, also
those that SQLite holds through another one. So what is opened here stays open for as long as this process
has a connection to any SQLite file; SQLite does the same with its own descriptors.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import Lock

# Enough for the stores of a command; further ones SQLite alone reads.
_MOST = 64

_lock = Lock()
_holders = 0
_open: dict[tuple[int, int], list[int]] = {}


def hold() -> None:
    """From now on no descriptor is closed, until as many have let go as hold."""
    global _holders
    with _lock:
        _holders += 1


def let_go() -> None:
    """To be called once for each `hold`, when nothing of it has a file open any more."""
    global _holders
    with _lock:
        _holders -= 1
        if not _holders:
            for number in chain(*_open.values()):
                os.close(number)
            _open.clear()


def shared_descriptor(path: Path) -> int | None:
    """Return the shared read-only descriptor for `path`, or None.

    Call it only between `hold` and `let_go`, and never close what it returns.
    """
    with _lock, suppress(OSError):
        found = path.stat()
        known = _open.get((found.st_dev, found.st_ino))
        if known is None and len(_open) < _MOST:
            number = os.open(path, os.O_RDONLY)
            about = os.fstat(number)
            # Another file may have taken the name meanwhile, one that is known.
            known = _open.setdefault((about.st_dev, about.st_ino), [])
            known.append(number)
        if known is not None:
            return known[0]
    return None


def is_of(number: int, path: Path) -> bool:
    """Whether a descriptor is of the file that stands at `path` now."""
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except OSError:
        return False
