"""How a new store gets its name: only when it is complete, and never in another file's place."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from nsysconv.errors import UsageError

_SUFFIX = ".partial"


def partial_name(path: Path) -> Path:
    """Where this process builds the store that will be `path`: beside it, hidden."""
    return path.with_name(f"{_prefix(path)}{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}")


def _prefix(path: Path) -> str:
    return f".{path.name}.{socket.gethostname()}-"


def publish(partial: Path, path: Path) -> None:
    """Gives a complete file its name, unless something took the name in the meantime."""
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(partial, path)
    except FileExistsError as error:
        raise UsageError(
            "the file appeared while it was being made",
            where=str(path),
            hint="Another import made it; name another with -o.",
        ) from error
    except OSError:
        # A file system without hard links: rename, which is atomic but replaces.
        if path.exists():
            raise UsageError("the file appeared while it was being made", where=str(path)) from None
        partial.rename(path)


def sweep(path: Path) -> None:
    """Removes what killed imports of this store left, on this host."""
    prefix = _prefix(path)
    for left in path.parent.glob(f"{_literal(prefix)}*.partial"):
        number, _, _ = left.name[len(prefix) :].partition("-")
        if number.isdigit() and not _alive(int(number)):
            with suppress(OSError):
                left.unlink()


def _literal(text: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
