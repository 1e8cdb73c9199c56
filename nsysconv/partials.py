"""What is being built: hidden, beside the place that it is for, under a name that says who is at it.

A process number counts in one namespace only, so the name has that, too: whether a process of another
container lives cannot be asked, and what it builds is left alone for an hour.
"""

from __future__ import annotations

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
# No name has more than 255 bytes, and what is built under another beside it needs room for more.
_LONG_NAME_BYTES = 100
_OLD_S = 3600.0
_IN_PROGRESS: set[str] = set()
"""Names under which this process is building something."""


@contextmanager
def building(path: Path) -> Iterator[Path]:
    """The place to build the file or folder that will be `path`; whatever is left there is removed."""
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
    """Removes what killed processes of this host were building for this path."""
    prefix = _prefix(path)
    for left in path.parent.glob(f"{_literal(prefix)}*{_SUFFIX}*"):
        _remove_left(left, left.name[len(prefix) :])


def sweep_folder(folder: Path) -> None:
    """Removes what killed processes of this host were building for any path in a folder."""
    host = re.compile(rf"\..*\.{re.escape(socket.gethostname())}-(.*)", re.DOTALL)
    with suppress(OSError):
        for left in folder.iterdir():
            if match := host.fullmatch(left.name):
                _remove_left(left, match[1])


def pid_namespace() -> int:
    """The number of the namespace in which this process has its number; 0 where there are none."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def alive(pid: int) -> bool:
    """Whether this namespace has a process of this number, whoever's it is."""
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
    """Removes it if nobody is at it any more; `maker` is the end of its name."""
    match = _MAKER.fullmatch(maker)
    if match is not None and left.name.removesuffix("-journal") not in _IN_PROGRESS:
        namespace, pid = match.groups()
        if namespace == str(pid_namespace()):
            # Another run can have had our number: what is ours and alive is in progress.
            is_left = int(pid) == os.getpid() or not alive(int(pid))
        else:
            is_left = time.time() - _last_changed(left) > _OLD_S
        if is_left:
            _remove(left)


def _last_changed(path: Path) -> float:
    """When last something was written there. A link's status is changed when it is made."""
    changed = 0.0
    for each in (path, *path.rglob("*")):
        with suppress(OSError):
            changed = max(changed, each.lstat().st_ctime)
    return changed or time.time()


def _remove(partial: Path) -> None:
    """Removes as much as can be, also where hardly another file may be open."""
    if not partial.is_dir() or partial.is_symlink():
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        return
    with suppress(OSError):
        for each in partial.iterdir():
            _remove(each)
    with suppress(OSError):
        partial.rmdir()


def _literal(text: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)
