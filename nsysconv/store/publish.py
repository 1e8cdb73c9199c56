"""How a new store or export gets its name: only when it is complete, and never in another's place."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nsysconv.errors import InUseError, UsageError

_SUFFIX = ".partial"
_JOURNAL = "-journal"
_LEFTOVER = re.compile(rf"(\d{{1,9}})(?:-[0-9a-f]+)?{re.escape(_SUFFIX)}(?:{_JOURNAL})?")
# No name has more than 255 bytes, and what is built under another beside it needs room for more.
_LONG_NAME_BYTES = 100
_IN_PROGRESS: set[str] = set()
"""Names that this process is building stores under."""


def partial_name(path: Path) -> Path:
    """A place beside `path`, hidden, where this process can build it."""
    return path.with_name(f"{_prefix(path)}{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}")


@contextmanager
def building(path: Path) -> Iterator[Path]:
    """The place to build the file or folder that will be `path`; whatever is left there is removed."""
    partial = partial_name(path)
    _IN_PROGRESS.add(partial.name)
    try:
        yield partial
    finally:
        _remove(partial)
        _IN_PROGRESS.discard(partial.name)


def _prefix(path: Path) -> str:
    name = path.name
    if len(os.fsencode(name)) > _LONG_NAME_BYTES:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}.{socket.gethostname()}-"


def check_folder(path: Path) -> None:
    """Raises UsageError where there is no folder for the file or folder that will be `path`."""
    if not path.parent.is_dir():
        raise UsageError(
            "the folder does not exist",
            where=str(path.parent),
            hint=f"Make it first: mkdir -p {shlex.quote(str(path.parent))}",
        )


def publish(partial: Path, path: Path) -> None:
    """Gives a complete file or folder its name, unless something took the name in the meantime."""
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
    except FileExistsError as error:
        raise InUseError(
            "the file appeared while it was being made",
            where=str(path),
            hint="Another nsysconv made it; name another with -o.",
        ) from error
    except OSError:
        # A file system without hard links: rename, which is atomic but replaces.
        if path.exists():
            raise InUseError("the file appeared while it was being made", where=str(path)) from None
        partial.rename(path)


def replace(path: Path, text: str) -> None:
    """Writes a text file all at once: what stood under its name stays until the new one is complete.

    A link stays one, and what is no regular file, such as a pipe, is written to. Raises OSError.
    """
    real = Path(os.path.realpath(path))
    if real.exists() and not real.is_file():
        path.write_text(text, encoding="utf-8", newline="")
        return
    sweep(real)
    with building(real) as partial:
        partial.write_text(text, encoding="utf-8", newline="")
        if real.exists():
            partial.chmod(real.stat().st_mode & 0o7777)
        partial.replace(real)


def _publish_folder(partial: Path, path: Path) -> None:
    try:
        # Folders have no links. Renaming is atomic, and takes no place but that of an empty folder.
        partial.rename(path)
    except OSError as error:
        if not path.exists():
            raise
        raise UsageError("the folder appeared while it was being made", where=str(path)) from error


def _remove(partial: Path) -> None:
    if partial.is_dir() and not partial.is_symlink():
        shutil.rmtree(partial, ignore_errors=True)
    else:
        partial.unlink(missing_ok=True)


def sweep(path: Path) -> None:
    """Removes what killed imports of this store, or exports to this path, left on this host."""
    prefix = _prefix(path)
    for left in path.parent.glob(f"{_literal(prefix)}*{_SUFFIX}*"):
        match = _LEFTOVER.fullmatch(left.name[len(prefix) :])
        if match is None or left.name.removesuffix(_JOURNAL) in _IN_PROGRESS:
            continue
        # In a container every run can have our number: what is ours and alive is in progress.
        number = int(match.group(1))
        if number == os.getpid() or not alive(number):
            with suppress(OSError):
                _remove(left)


def _literal(text: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def alive(pid: int) -> bool:
    """Whether a process of this number is there, whoever's it is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
