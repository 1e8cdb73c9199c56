"""What is asked of a trace before anything is loaded: how many processes decode it. Nothing heavy is
imported here.
"""

from __future__ import annotations

from nsysconv.cores import cores

GZIP = b"\x1f\x8b"
PYTHON_FUNCTIONS = "python_functions"
"""The word for rows that are imported on request."""

# Below this, starting processes takes longer than decoding.
_ALONE_BYTES = 24 << 20
_INFLATION = 10
_MOST = 8


def count(size: int, head: bytes, asked: int | None = None) -> int:
    """So many for a trace of `size` bytes that begins with `head`; 0: it is decoded without any.

    `asked`: how many there may be; None: one per core.
    """
    content = size * (_INFLATION if head.startswith(GZIP) else 1)
    most = asked or min(cores(), _MOST)
    return most if content >= _ALONE_BYTES and most > 1 else 0
