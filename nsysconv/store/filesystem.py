"""Files of stores and exports: names given at the end, temporary folders, locks on network file systems.

Something new gets its name only when it is complete, and never in another's place.

A process that is killed cannot remove its temporary folder. So each is locked while it is in use, and
whoever makes one removes those of the same user that nobody has locked: the system drops a lock with its
process, in whatever container that was.

On network file systems SQLite's own locks may hold on one host only, or not at all: Lustre mounted with
`localflock`, old NFS and others let two hosts write at once, which destroys a SQLite file. A file that is
made with O_EXCL is one host's alone everywhere, so who adds to a store there makes one beside it first. A
new store needs none: it grows under a name that nobody else uses.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TextIO

from nsysconv.errors import InUseError, UsageError
from nsysconv.partials import alive, building, pid_namespace, sweep

_MAX_LINKS = 40


def require_folder(path: Path) -> None:
    """Raise UsageError unless the folder of the future file or folder `path` exists."""
    if not path.parent.is_dir():
        raise UsageError(
            "the folder does not exist",
            where=str(path.parent),
            hint=f"Make it first: mkdir -p {shlex.quote(str(path.parent))}",
        )


def publish(partial: Path, path: Path) -> None:
    """Give a complete file or folder its name. Raises OSError, and InUseError for one taken."""
    if partial.is_dir():
        try:
            # Folders have no links. Renaming is atomic, and takes no place but that of an empty
            # folder.
            partial.rename(path)
        except OSError as error:
            if not path.exists():
                raise
            raise _appeared("folder", path) from error
        return
    flush(partial)
    try:
        path.hardlink_to(partial)
    except FileExistsError:
        raise _appeared("file", path) from None
    except (OSError, NotImplementedError):
        # A file system without hard links, or a system, which pathlib says by the second error: rename,
        # which is atomic but replaces.
        if path.exists():
            raise _appeared("file", path) from None
        partial.rename(path)


def flush(path: Path) -> None:
    """Have the system write a file to its disk. Raises OSError."""
    # Some systems flush only what may be written to.
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _appeared(kind: str, path: Path) -> InUseError:
    return InUseError(
        f"the {kind} appeared while it was being made",
        where=str(path),
        hint="Something else made it; name another with -o.",
    )


def write_atomically(path: Path, write: Callable[[TextIO], object]) -> None:
    """Write a text file atomically: until it is complete the old one keeps its name.

    A link stays a link, and what is no regular file, such as a pipe, is written to. Raises OSError, and
    UsageError for a link that is not followed.
    """
    real = follow_links(path)
    if real.exists() and not real.is_file():
        with path.open("w", encoding="utf-8", newline="") as file:
            write(file)
        return
    sweep(real)
    with building(real) as partial:
        mode = stat.S_IMODE(real.stat().st_mode) if real.exists() else None
        descriptor = os.open(
            partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode
        )
        with open(descriptor, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)  # while there is nothing to be read
            write(file)
        partial.replace(real)


def follow_links(path: Path) -> Path:
    """Return the path that a link, or a chain of links, leads to.

    Raises UsageError for a link of another user in a sticky folder that everybody may write to, such as
    /tmp: it may have been put there to have another file replaced. The kernel refuses them as well where
    `fs.protected_symlinks` is set, but is not asked when a file gets its name by renaming.
    """
    real = path
    for _ in range(_MAX_LINKS):
        if not real.is_symlink():
            return real
        folder = real.parent.stat()
        open_to_all = stat.S_ISVTX | stat.S_IWOTH
        trusted = _own(real.lstat()) or real.lstat().st_uid == folder.st_uid
        if folder.st_mode & open_to_all == open_to_all and not trusted:
            raise UsageError(
                "a link of another user in a folder that everybody may write to",
                where=str(real),
                hint="Name the file that it leads to, if that is the one you mean.",
            )
        real = real.parent / real.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _own(state: os.stat_result) -> bool:
    # Windows has no numbers of users: a temporary folder there is one user's alone.
    return not hasattr(os, "geteuid") or state.st_uid == os.geteuid()


_PREFIX = "nsysconv-private-"
_LOCK = ".lock"
_YOUNG_S = 60.0
"""A folder is made first and locked then: one so young is left alone."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder in TMPDIR (else /tmp) that only this user can read; remove it at the end.

    A lock in it says that it is in use.
    """
    root = Path(tempfile.gettempdir())
    _sweep(root)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path) -> AbstractContextManager[object]:
    # Raises an OSError where another has it.
    from filelock import FileLock

    return FileLock(folder / _LOCK, timeout=0)


def _sweep(root: Path) -> None:
    for left in root.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            state = left.lstat()
            is_old = time.time() - state.st_mtime > _YOUNG_S
            if stat.S_ISDIR(state.st_mode) and _own(state) and is_old:
                with _locked(left):
                    shutil.rmtree(left, ignore_errors=True)
                # Where a file in use cannot be removed, the lock was left.
                shutil.rmtree(left, ignore_errors=True)


_TYPES = re.compile(
    r"nfs\d?|lustre|gpfs|beegfs\w*|fhgfs|cifs|smb\w*|ceph|panfs|wekafs|afs|openafs|9p|glusterfs|pvfs2"
    r"|orangefs|dvs|gfs2|ocfs2|fuse\.(sshfs|ceph[\w-]*|glusterfs|dfuse|s3fs|gpfs|beegfs|mfs|lizardfs)"
)
MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
WAIT_S = 5.0
_POLL_S = 0.1


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """Return the type of a path's network file system, None also where it cannot be found out."""
    if mounts is None:
        try:
            mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
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
    """Return the path of the lock file beside a store."""
    real = store.resolve()
    return real.with_name(f".{real.name}.lock")


@contextmanager
def lock_for_adding(store: Path, wait_s: float | None = None) -> Iterator[None]:
    """Keep other processes from adding to a store on a network file system; elsewhere SQLite does.

    The lock of a killed process of this host is taken over. Raises InUseError, naming the process that
    adds to it, where the lock is not free within `wait_s` seconds.
    """
    if network_file_system(store) is None:
        yield
        return
    lock = lock_file(store)
    deadline = time.monotonic() + (WAIT_S if wait_s is None else wait_s)
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


class _Holder(NamedTuple):
    host: str = "another host"
    pid: str = "unknown"
    namespace: str = ""  # in which the number of the process counts


def _ourselves() -> _Holder:
    return _Holder(socket.gethostname(), str(os.getpid()), str(pid_namespace()))


def _made(lock: Path) -> bool:
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
        file.write(" ".join(_ourselves()))
    return True


def _read(lock: Path) -> _Holder:
    try:
        words = lock.read_text(encoding="utf-8", errors="replace").split(" ")
    except OSError:
        return _Holder()
    # It is empty for a moment after it was made.
    return _Holder(*words) if len(words) == 3 else _Holder()


def _is_gone(holder: _Holder) -> bool:
    own = _ourselves()
    is_here = (holder.host, holder.namespace) == (own.host, own.namespace)
    return is_here and holder.pid.isdigit() and alive(int(holder.pid)) is False


def _removed(lock: Path, holder: _Holder) -> bool:
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
