"""Refusals by the system (a full disk, a quota, a limit): their words, and which one it was."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from pathlib import Path

from nsysconv.errors import UsageError
from nsysconv.launch import file_size_limit
from nsysconv.partials import building

_REFUSALS = {
    errno.ENOSPC: ("the disk is full", "Free some space; nothing was changed."),
    errno.EDQUOT: (
        "over quota: its disk holds all that this user or project may have there",
        "Free some space, or have the quota raised; nothing was changed.",
    ),
    errno.EFBIG: (
        "a limit on file size: no file may become so large",
        "Raise it (ulimit -f), or take another file system; nothing was changed.",
    ),
    errno.EMFILE: ("too few files may be open", "Raise the limit: ulimit -n 1024."),
    errno.ENFILE: ("too many files are open on this machine", "Try again when others are done."),
}
"""Refusals that have nothing to do with the file: what to say, and what to do."""

_NO_MEMORY = ("can't start new thread", "failed to map segment", "annot allocate memory")
_WRITTEN_BYTES = 1 << 16
_OPENED_FILES = 8


def is_systemwide(error: OSError) -> bool:
    """Return whether the system would have refused any other file, too (full disk, quota, limits)."""
    return error.errno in _REFUSALS


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the system has no memory left, as threads and libraries say it."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY)


def reason_of(error: OSError) -> str:
    """Return why the system refused, in words."""
    return _REFUSALS.get(error.errno or 0, (error.strerror or str(error), ""))[0]


def refusal_error(error: OSError, where: str, hint: str = "") -> UsageError:
    """Return the error for what could not be written; `hint` is for reasons without one of their own."""
    what, hint = _REFUSALS.get(error.errno or 0, (f"cannot be written: {reason_of(error)}", hint))
    return UsageError(what, where=where, hint=hint)


def write_failure(path: Path, *others: Path) -> OSError | None:
    """Return why a write to one of these files failed, None if the cause cannot be found any more.

    It writes to another file beside the first: closing a file drops all locks that this process holds
    on it. What failed may be undone by now, and with it any cause but a limit.
    """
    size = max((file.stat().st_size for file in (path, *others) if file.exists()), default=0)
    try:
        with building(path) as trial:
            descriptor = os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.lseek(descriptor, size, os.SEEK_SET)
                os.write(descriptor, bytes(_WRITTEN_BYTES))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        return error
    return file_too_large() if file_size_limit() is not None else None


def exceeds_size_limit(path: Path) -> bool:
    """Return whether the file is larger than this process may write files."""
    limit = file_size_limit()
    return limit is not None and path.stat().st_size > limit


def file_too_large() -> OSError:
    """Return the system's error for a file that would become larger than any may."""
    return OSError(errno.EFBIG, os.strerror(errno.EFBIG))


def open_files_failure() -> OSError | None:
    """Return the system's error if a few more files cannot be opened, None if they can."""
    with ExitStack() as opened:
        for _ in range(_OPENED_FILES):
            try:
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
            except OSError as error:
                return error
    return None
