"""What is asked of a trace before anything is loaded: how many processes decode it. Nothing heavy is
imported here.
"""

from __future__ import annotations

from nsysconv.cores import cores

GZIP = b"\x1f\x8b"
PYTHON_FUNCTIONS = "python_functions"
"""The word for rows that are imported on request."""

# Below this, starting processes takes longer than decoding, and loading Arrow's functions longer than
# they save.
_ALONE_BYTES = 24 << 20
_INFLATION = 10
_MOST = 8


def count(size: int, head: bytes, asked: int | None = None) -> int:
    """So many for a trace of `size` bytes that begins with `head`; 0: it is decoded without any.

    `asked`: how many there may be; None: one per core.
    """
    most = asked or min(cores(), _MOST)
    return most if is_large(size, head) and most > 1 else 0


def is_large(size: int, head: bytes) -> bool:
    """Whether what takes a while to load for a trace of `size` bytes that begins with `head` pays."""
    return size * (_INFLATION if head.startswith(GZIP) else 1) >= _ALONE_BYTES
