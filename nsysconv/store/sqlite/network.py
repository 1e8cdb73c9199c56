"""Stores on network file systems, where SQLite's own locks may hold on one host only, or not at all.

Lustre that is mounted with `localflock`, old NFS and others let two hosts write at once, which destroys a
SQLite file. A file that is made with O_EXCL is one host's alone everywhere, so who adds to a store there
makes one beside it first. A new store needs none: it grows under a name that nobody else uses.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nsysconv.errors import InUseError, UsageError
from nsysconv.partials import alive, pid_namespace

_TYPES = re.compile(
    r"nfs\d?|lustre|gpfs|beegfs\w*|fhgfs|cifs|smb\w*|ceph|panfs|wekafs|afs|openafs|9p|glusterfs|pvfs2"
    r"|orangefs|dvs|gfs2|ocfs2|fuse\.(sshfs|ceph[\w-]*|glusterfs|dfuse|s3fs|gpfs|beegfs|mfs|lizardfs)"
)
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_WAIT_S = 5.0
_POLL_S = 0.1


def file_system(path: Path, mounts: str | None = None) -> str | None:
    """The type of the network file system that a path is on; None: it is on none, or it cannot be told.

    `mounts` is the text of /proc/self/mountinfo.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    whole = path.resolve()
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, _, behind = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 6 or not behind:
            continue
        point = Path(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        # What is mounted later at the same place hides what was there.
        if whole.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), behind.split(" ")[0]
    return kind if _TYPES.fullmatch(kind) else None


def lock_file(store: Path) -> Path:
    """The file beside a store that says who adds to it."""
    real = store.resolve()
    return real.with_name(f".{real.name}.lock")


def is_added_to(store: Path) -> bool:
    """Whether somebody says that he adds to a store on a network file system."""
    return lock_file(store).exists()


@contextmanager
def alone(store: Path, wait_s: float | None = None) -> Iterator[None]:
    """Keeps others from adding to a store on a network file system meanwhile; elsewhere SQLite does.

    What a killed process of this host left is taken over. Raises InUseError with who adds to it, if one
    does for so long.
    """
    if file_system(store) is None:
        yield
        return
    lock = lock_file(store)
    deadline = time.monotonic() + (_WAIT_S if wait_s is None else wait_s)
    while not _made(lock):
        holder = _read(lock)
        if _is_gone(holder) and _removed(lock, holder):
            continue
        if time.monotonic() > deadline:
            raise InUseError(
                f"the store is in use by process {holder.pid} on {holder.host}",
                where=str(store),
                hint="Wait until it is done, then try again. If no such process runs there, it was "
                f"killed: remove what it left: rm {lock}*",
            )
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Holder:
    """A process: its host, its number, and the container in which the number counts."""

    host: str = "another host"
    pid: str = "unknown"
    space: str = ""


def _ourselves() -> _Holder:
    return _Holder(socket.gethostname(), str(os.getpid()), str(pid_namespace()))


def _made(lock: Path) -> bool:
    """Whether the file could be made, which one process at a time can."""
    own = _ourselves()
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(
            f"the folder cannot be written: {error.strerror}",
            where=str(lock.parent),
            hint="To add to a store on a network file system, a file has to be made beside it.",
        ) from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{own.host} {own.pid} {own.space}")
    return True


def _read(lock: Path) -> _Holder:
    try:
        words = lock.read_text(encoding="utf-8", errors="replace").split(" ")
    except OSError:
        return _Holder()
    # It is empty for a moment after it was made.
    return _Holder(*words) if len(words) == 3 else _Holder()


def _is_gone(holder: _Holder) -> bool:
    """Whether a holder was a process of this host that does not run any more."""
    own = _ourselves()
    if (holder.host, holder.space) != (own.host, own.space) or not holder.pid.isdigit():
        return False
    return not alive(int(holder.pid))


def _removed(lock: Path, holder: _Holder) -> bool:
    """Removes what a killed process left. Of several who want to, one does."""
    claim = lock.with_name(f"{lock.name}.stale")
    if not _made(claim):
        return False
    try:
        # Another may have removed it before, and made its own.
        if _read(lock) == holder:
            lock.unlink(missing_ok=True)
        return True
    finally:
        claim.unlink(missing_ok=True)
