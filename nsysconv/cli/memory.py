"""How the process gets and gives back memory."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys

from nsysconv.cores import cores
from nsysconv.errors import UsageError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_KEEP_BYTES = (1 << 31) - 1  # the largest number that mallopt takes
_LARGE_BYTES = 10 << 20
_LIBRARIES_BYTES, _THREAD_BYTES = 480 << 20, 16 << 20


def begin_work() -> None:
    """To be called once a command is loaded, before it starts threads.

    Garbage is looked for from now on, where that had to wait, and not in what is loaded.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Makes the C library reuse freed arrays of less than 10 MB, and return larger ones to the kernel.

    Blocks of arrays are made and dropped by the thousand; glibc would give many back at once and get
    zeroed pages for the next. Of arrays that are as long as a table there are few, of many sizes: where
    they went, holes would stay that nothing fits in. Where there is no glibc, nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    # What a thread of its own arena frees, no other could reuse.
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)


def check_addresses() -> None:
    """Raises UsageError where addresses are limited (`ulimit -v`) to less than the libraries take.

    Some of them crash there before they can say why. Measured with two threads of numpy's own library:
    they crash below 440 MB.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = _LIBRARIES_BYTES + _threads_of_numpy() * _THREAD_BYTES
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise UsageError(
            f"not enough memory: the limit of addresses is {limit >> 20} MB, and libraries alone take "
            f"{needed >> 20} MB",
            hint="Raise the limit (ulimit -v).",
        )


def _threads_of_numpy() -> int:
    """How many the library that multiplies its matrices starts as it is loaded."""
    asked = os.environ.get("OPENBLAS_NUM_THREADS", "")
    return min(int(asked), cores()) if asked.isdecimal() and int(asked) > 0 else cores()
