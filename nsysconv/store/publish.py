"""How a new store or export gets its name: only when it is complete, and never in another's place."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from nsysconv.errors import InUseError, UsageError
from nsysconv.partials import building, sweep

_MAX_LINKS = 40


def check_folder(path: Path) -> None:
    """Raises UsageError where there is no folder for the file or folder that will be `path`."""
    if not path.parent.is_dir():
        raise UsageError(
            "the folder does not exist",
            where=str(path.parent),
            hint=f"Make it first: mkdir -p {shlex.quote(str(path.parent))}",
        )


def publish(partial: Path, path: Path) -> None:
    """Gives a complete file or folder its name.

    Raises InUseError where something took the name in the meantime, and OSError.
    """
    if partial.is_dir():
        _publish_folder(partial, path)
        return
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(partial, path)
    except FileExistsError:
        raise _appeared("file", path) from None
    except OSError:
        # A file system without hard links: rename, which is atomic but replaces.
        if path.exists():
            raise _appeared("file", path) from None
        partial.rename(path)


def _appeared(what: str, path: Path) -> InUseError:
    return InUseError(
        f"the {what} appeared while it was being made",
        where=str(path),
        hint="Something else made it; name another with -o.",
    )


def replace(path: Path, write: Callable[[TextIO], object]) -> None:
    """Has a text file written all at once: what stood under its name stays until the new one is complete.

    A link stays one, and what is no regular file, such as a pipe, is written to. Raises OSError, and
    UsageError for a link that is not followed.
    """
    real = followed(path)
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
            if mode is not None:
                os.fchmod(descriptor, mode)  # while there is nothing to be read
            write(file)
        partial.replace(real)


def followed(path: Path) -> Path:
    """Where a path leads whose last part may be a link, or a link to one.

    Raises UsageError for a link of somebody else in a sticky folder that everybody may write to, such as
    /tmp: it may have been put there to have another file replaced. The kernel refuses them as well where
    `fs.protected_symlinks` is set, but is not asked for what gets its name by renaming.
    """
    real = path
    for _ in range(_MAX_LINKS):
        if not real.is_symlink():
            return real
        folder = real.parent.stat()
        open_to_all = stat.S_ISVTX | stat.S_IWOTH
        if folder.st_mode & open_to_all == open_to_all and real.lstat().st_uid not in (
            os.geteuid(),
            folder.st_uid,
        ):
            raise UsageError(
                "a link of another user in a folder that everybody may write to",
                where=str(real),
                hint="Name the file that it leads to, if that is the one you mean.",
            )
        real = real.parent / real.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _publish_folder(partial: Path, path: Path) -> None:
    try:
        # Folders have no links. Renaming is atomic, and takes no place but that of an empty folder.
        partial.rename(path)
    except OSError as error:
        if not path.exists():
            raise
        raise _appeared("folder", path) from error
