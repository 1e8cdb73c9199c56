"""Limits that the system sets to this process; none where it knows no such limits (Windows)."""

from __future__ import annotations

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


def _limit(which: int) -> int | None:
    limit = resource.getrlimit(which)[0]
    return None if limit == resource.RLIM_INFINITY else limit
