"""Bounds of time and memory, of one command or of what it does in a process that does more."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SECONDS = 30
"""Bounds of one command."""
MEMORY_BYTES = 1 << 30
"""Most bytes that its processes may hold together."""
GROWN_BYTES = 700 << 20
"""The same without what a process holds that has loaded all of the program."""


class TooSlow(BaseException):  # no defect of an importer that it comes in
    """The time was over."""


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise TooSlow where the block takes longer, as soon as Python gets to it."""

    def stop(number: int, frame: object) -> None:
        raise TooSlow

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Seconds of the processor: others may be using it.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def peak(process: int | str = "self") -> int:
    """Return the most memory in bytes that a process has held; for this one, since `peak_reset`."""
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
        return int(found[1]) << 10 if found else 0
    return 0


def peak_reset() -> int:
    """Reset the peak memory of this process; return the bytes that it holds now."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak()
