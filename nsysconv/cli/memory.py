"""How the process gets and gives back memory."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_KEEP_BYTES = (1 << 31) - 1  # the largest number that mallopt takes


def keep_freed_memory() -> None:
    """Makes the C library reuse freed arrays rather than return them to the kernel.

    A report makes and drops arrays of 40 MB by the dozen; glibc gives each back at once and gets zeroed
    pages for the next, which took a quarter of a large report's time. Where there is no glibc, nothing
    happens. To be called before threads start.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_MAX, 0)
    # What a thread of its own arena frees, no other could reuse.
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)
