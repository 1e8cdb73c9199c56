"""Limits of this process, where the system knows any: not on Windows."""

from __future__ import annotations

import os

try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]


def file_size_limit() -> int | None:
    """Return the size in bytes that no file may exceed that this process writes; None: any."""
    return None if resource is None else _limit(resource.RLIMIT_FSIZE)


def address_limit() -> int | None:
    """Return the size in bytes of the addresses that this process may use; None: all."""
    return None if resource is None else _limit(resource.RLIMIT_AS)


def limit_memory(share: float) -> None:
    """Let this process have no more than a share of the machine's memory, where that can be said."""
    if resource is not None:
        most = int(share * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _limit(which: int) -> int | None:
    limit = resource.getrlimit(which)[0]
    return None if limit == resource.RLIM_INFINITY else limit
