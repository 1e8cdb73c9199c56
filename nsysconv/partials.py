"""Temporary files and folders beside the path that they are built for; their names hold the builder.

A process number is valid in one PID namespace only, so the name holds the namespace, too. Whether a
process of another container lives cannot be asked, so its files are kept for an hour.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SUFFIX = ".partial"
# A killed import leaves a journal beside what it built; scripts/nsysconv-rank.sh writes no namespace.
_MAKER = re.compile(rf"(?:(\d+)-)?(\d{{1,9}})(?:-[0-9a-f]+)?{re.escape(_SUFFIX)}(?:-journal)?")
# File names have at most 255 bytes, and a temporary name adds a prefix and a suffix.
_LONG_NAME_BYTES = 100
OLD_S = 3600.0
_IN_PROGRESS: set[str] = set()
"""Names under which this process is building something."""


@contextmanager
def building(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to build that file or folder; remove what is left of it."""
    partial = path.with_name(
        f"{_prefix(path)}{pid_namespace()}-{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
    )
    _IN_PROGRESS.add(partial.name)
    try:
        yield partial
    finally:
        _remove(partial)
        _IN_PROGRESS.discard(partial.name)


def sweep(path: Path) -> None:
    """Remove what killed processes of this host left of building `path`."""
    prefix = _prefix(path)
    for left in path.parent.glob(f"{glob.escape(prefix)}*{_SUFFIX}*"):
        _remove_left(left, left.name[len(prefix) :])


def sweep_folder(folder: Path) -> None:
    """Remove what killed processes of this host left of building anything in a folder."""
    host = re.compile(rf"\..*\.{re.escape(socket.gethostname())}-(.*)", re.DOTALL)
    with suppress(OSError):
        for left in folder.iterdir():
            if match := host.fullmatch(left.name):
                _remove_left(left, match[1])


def pid_namespace() -> int:
    """Return the number of this process's PID namespace; 0 where the system has none."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def alive(pid: int) -> bool | None:
    """Return whether this PID namespace has a process of this number, anybody's; None: not known."""
    if os.name == "nt":  # what asks elsewhere would send Ctrl-C
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _prefix(path: Path) -> str:
    name = path.name
    if len(os.fsencode(name)) > _LONG_NAME_BYTES:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}.{socket.gethostname()}-"


def _remove_left(left: Path, maker: str) -> None:
    match = _MAKER.fullmatch(maker)
    if match is not None and left.name.removesuffix("-journal") not in _IN_PROGRESS:
        namespace, pid = match.groups()
        lives: bool | None = None
        if namespace == str(pid_namespace()):
            # A dead process may have had our number: what this process builds is in _IN_PROGRESS.
            lives = int(pid) != os.getpid() and alive(int(pid))
        is_old = time.time() - _last_changed(left) > OLD_S
        if is_old if lives is None else not lives:
            _remove(left)


def _last_changed(path: Path) -> float:
    changed = 0.0
    for entry in (path, *path.rglob("*")):
        with suppress(OSError):
            # lstat: a link's status changes when it is made, its target's does not.
            changed = max(changed, entry.lstat().st_ctime)
    return changed or time.time()


def _remove(partial: Path) -> None:
    # Entry by entry, because shutil.rmtree opens a descriptor per folder and few may be left.
    if not partial.is_dir() or partial.is_symlink():
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        return
    with suppress(OSError):
        for entry in partial.iterdir():
            _remove(entry)
    with suppress(OSError):
        partial.rmdir()
