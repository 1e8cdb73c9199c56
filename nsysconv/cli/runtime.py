"""The process that a command runs in: garbage, threads and memory, signals, the standard streams."""

from __future__ import annotations

import _thread
import atexit
import ctypes
import errno
import gc
import io
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from nsysconv.errors import UsageError
from nsysconv.launch import address_limit, cores
from nsysconv.names import escaped, escaped_lines
from nsysconv.refusals import reason_of

# -- how it runs

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_KEEP_BYTES = (1 << 31) - 1  # the largest number that mallopt takes
_LARGE_BYTES = 6 << 20
_LIBRARIES_BYTES, _THREAD_BYTES = 480 << 20, 16 << 20


def configure() -> None:
    """Set what is to hold for the whole command. Call it before anything large is loaded.

    Tried without effect on the CPU time of reports and imports, and dropped: fewer collections of garbage
    while a command works, shorter turns of threads.
    """
    # What is loaded stays: looking through it for garbage, here and as the process ends (`main`), takes
    # 14 % of the CPU time of an import of 300,000 kernels, 20 % of a report on them and more of a short
    # command. `begin_work` turns the collector on again.
    gc.disable()
    # Nothing here multiplies matrices. The threads that numpy's library for it would start, one per core,
    # take addresses (`check_addresses`), and 2 % of the CPU time of a short report on two cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What Arrow frees, numpy can take. With an allocator of its own an export of five million kernels as
    # Parquet takes 17 % more memory, and one of a million as a Chrome trace 22 %.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def begin_work() -> None:
    """Turn on the garbage collector, but for what is loaded; call it before threads are started."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    # Freed arrays of less than 6 MB are reused, larger ones return to the kernel. Blocks of arrays are
    # made and dropped by the thousand; glibc would give many back at once and get zeroed pages for the
    # next. Of arrays that are as long as a table there are few, of many sizes: where they went, holes
    # would stay that nothing fits in. A report on 300,000 kernels has 35 % fewer page faults so. Without
    # glibc, nothing happens.
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    # What a thread of its own arena frees, no other could reuse.
    mallopt(_M_ARENA_MAX, 1)
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)


def check_addresses() -> None:
    """Raise UsageError if addresses are limited (`ulimit -v`) to less than the libraries take.

    Some of them crash then before they can say why: with two threads of numpy's own library below 440 MB.
    """
    limit = address_limit()
    needed = _LIBRARIES_BYTES + _threads_of_numpy() * _THREAD_BYTES
    if limit is not None and limit < needed:
        raise UsageError(
            f"not enough memory: the limit of addresses is {limit >> 20} MB, and libraries alone take "
            f"{needed >> 20} MB",
            hint="Raise the limit (ulimit -v).",
        )


def _threads_of_numpy() -> int:
    # The library that multiplies its matrices starts them as it is loaded.
    count = os.environ.get("OPENBLAS_NUM_THREADS", "")
    return min(int(count), cores()) if count.isdecimal() and int(count) > 0 else cores()


# -- signals

# Not every system has each of them.
ENDING_SIGNALS = tuple(
    number
    for number in signal.Signals
    if number.name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
)
_SAME_SIGNAL_S = 1.0
"""Signals that come within this count as one: terminals, `timeout` and batch systems send several."""
_RAISE_AGAIN_S = 0.02


class Interrupted(BaseException):
    """A signal to end has come. Not an Exception: nothing but the end of the program may catch it."""

    def __init__(self, number: signal.Signals) -> None:
        """Keep the signal's number."""
        super().__init__(number)
        self.number = number

    @property
    def exit_status(self) -> int:
        """Return the status that a shell gives a program which this signal has ended."""
        return 128 + self.number


@contextmanager
def signals_raise() -> Iterator[None]:
    """Raise Interrupted in the main thread on a signal to end, within the block; ignored ones stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    last = -_SAME_SIGNAL_S

    def raise_interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SAME_SIGNAL_S:
            last = now
            raise Interrupted(signal.Signals(number))

    def raise_later(args: sys.UnraisableHookArgs) -> None:
        # The signal came where nothing can be raised, such as while an object was being freed. Nothing
        # can be raised here either, so it is sent again a little later.
        nonlocal last
        if isinstance(args.exc_value, Interrupted):
            last = -_SAME_SIGNAL_S
            again = threading.Timer(
                _RAISE_AGAIN_S, _thread.interrupt_main, (args.exc_value.number,)
            )
            again.daemon = True
            again.start()
        else:
            hook(args)

    # When the interpreter exits the command is done: there is nothing left to interrupt.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    hook = sys.unraisablehook
    handled = [n for n in ENDING_SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, raise_interrupted) for number in handled}
    sys.unraisablehook = raise_later
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


# -- the standard streams


class OutputLost(Exception):  # noqa: N818 - says what became of it
    """Stdout took no more. Not an OSError: typer would handle that in its own way."""

    exit_status = UsageError.exit_status

    def __init__(self, reason: OSError) -> None:
        """Keep whether the reader has gone, which is not a failure."""
        super().__init__(f"stdout: {reason_of(reason)}")
        self.reader_gone = reason.errno == errno.EPIPE


class _Output(io.FileIO):
    _is_lost = False

    def write(self, data: Any) -> int:
        if self._is_lost:
            return memoryview(data).nbytes
        try:
            # `write` returns None if a program that shares the stream has made it non-blocking.
            while (written := super().write(data)) is None:
                select.select((), (self,), ())
        except OSError as error:
            self._is_lost = True
            return self._after_failure(error, memoryview(data).nbytes)
        return written

    def _after_failure(self, error: OSError, size: int) -> int:
        return size  # of stderr: there is nowhere left to report it


class _Stdout(_Output):
    def _after_failure(self, error: OSError, size: int) -> int:
        raise OutputLost(error) from error


def secure_streams() -> None:
    """Make the standard streams safe to use. Call it once, before anything is opened.

    A stream that was closed (`>&-`) becomes the null device: otherwise the next file to be opened would
    get its number. Stdout raises OutputLost when it takes no more, stderr drops what is written then;
    neither raises anything else. Characters that a stream cannot encode are written as escapes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    if sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = secured(sys.stdout, _Stdout)
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = secured(sys.stderr)


def secured(stream: io.TextIOWrapper, kind: type[_Output] = _Output) -> io.TextIOWrapper:
    """Return a standard stream that is safe to use, in the place of this one."""
    if not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        # The console of Windows takes characters, and bytes only in its own code page.
        stream.reconfigure(errors="backslashreplace")
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,
    )


@contextmanager
def reader_may_go() -> Iterator[None]:
    """End the block early when stdout's reader has gone (`| head`): it has what it wanted."""
    try:
        yield
    except OutputLost as lost:
        if not lost.reader_gone:
            raise


def print_line(text: str) -> None:
    """Print a line of the answer on stdout, control characters escaped."""
    with reader_may_go():
        sys.stdout.write(escaped(text) + "\n")


def say(text: str) -> None:
    """Print lines beside the answer on stderr, control characters escaped; nothing for an empty text."""
    if text:
        print(escaped_lines(text), file=sys.stderr)  # noqa: T201
