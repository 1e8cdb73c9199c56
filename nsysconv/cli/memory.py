"""How the process gets and gives back memory."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Mapping

from nsysconv.errors import UsageError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -3, -4, -8
_KEEP_BYTES = (1 << 31) - 1  # the largest number that mallopt takes
_LARGE_BYTES = 10 << 20
_LIBRARIES_BYTES, _THREAD_BYTES = 480 << 20, 16 << 20


def keep_freed_memory() -> None:
    """Makes the C library reuse freed arrays rather than return them to the kernel.

    A report makes and drops arrays of 40 MB by the dozen; glibc gives each back at once and gets zeroed
    pages for the next, which took a quarter of a large report's time. Where there is no glibc, nothing
    happens. To be called before threads start.
    """
    _set_options({_M_MMAP_MAX: 0})


def keep_small_freed_memory() -> None:
    """Makes the C library reuse freed arrays of less than 10 MB, and return larger ones to the kernel.

    For what makes large arrays of many sizes: an export makes few, a diff those of one profile after the
    other. Where they went, holes would stay that nothing fits in. The rest as for `keep_freed_memory`.
    """
    _set_options({_M_MMAP_THRESHOLD: _LARGE_BYTES})


def _set_options(options: Mapping[int, int]) -> None:
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    # What a thread of its own arena frees, no other could reuse.
    for option, value in {**options, _M_ARENA_MAX: 1, _M_TRIM_THRESHOLD: _KEEP_BYTES}.items():
        mallopt(option, value)


def check_addresses() -> None:
    """Raises UsageError where addresses are limited (`ulimit -v`) to less than the libraries take.

    Some of them crash there before they can say why. numpy has a thread for each core, and each thread a
    stack. Measured on two cores: they crash below 440 MB.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = _LIBRARIES_BYTES + (os.cpu_count() or 1) * _THREAD_BYTES
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise UsageError(
            f"not enough memory: the limit of addresses is {limit >> 20} MB, and libraries alone take "
            f"{needed >> 20} MB",
            hint="Raise the limit (ulimit -v).",
        )
