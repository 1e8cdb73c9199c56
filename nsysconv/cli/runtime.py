"""How the process gets and gives back memory."""

from __future__ import annotations

import _thread
import atexit
import ctypes
import errno
import gc
import io
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from nsysconv.cores import cores
from nsysconv.errors import UsageError
from nsysconv.names import escaped, escaped_lines
from nsysconv.refusals import reason_of

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


_ENDING = tuple(
    number
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if (number := getattr(signal, name, None)) is not None
)
_SAME_S = 1.0
"""Signals within this are one: terminals, `timeout` and batch systems send several at once."""

_AGAIN_S = 0.02


class Ended(BaseException):
    """A signal to end has come. No Exception: nothing but the end of the program may take it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_status(self) -> int:
        """What a shell says of a program that such a signal has ended."""
        return 128 + self.number


@contextmanager
def ending() -> Iterator[None]:
    """Within the block a signal to end raises Ended in the main thread. Ignored ones stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    last = -_SAME_S

    def take(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SAME_S:
            last = now
            raise Ended(signal.Signals(number))

    def unraisable(what: sys.UnraisableHookArgs) -> None:
        # It came where nothing can be raised, such as while an object was being freed: once more,
        # a little later, for here nothing can be raised either.
        nonlocal last
        if isinstance(what.exc_value, Ended):
            last = -_SAME_S
            again = threading.Timer(_AGAIN_S, _thread.interrupt_main, (what.exc_value.number,))
            again.daemon = True
            again.start()
        else:
            hook(what)

    # When the interpreter ends the command has been done: there is nothing to break off.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    hook = sys.unraisablehook
    heard = [n for n in _ENDING if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, take) for number in heard}
    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


class OutputLost(Exception):  # noqa: N818 - says what became of it
    """Stdout took no more. No OSError: the library of the command line has its own ways with those."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(f"stdout: {reason_of(reason)}")
        self.reader_gone = reason.errno == errno.EPIPE


class _Output(io.FileIO):
    """A standard stream's file. Once it took no more, what is written goes nowhere."""

    _lost = False

    def write(self, data: Any) -> int:
        if self._lost:
            return memoryview(data).nbytes
        try:
            # None: the stream is another program's, too, and was made not to wait.
            while (written := super().write(data)) is None:
                select.select((), (self,), ())
        except OSError as error:
            self._lost = True
            return self._ended(error, memoryview(data).nbytes)
        return written

    def _ended(self, error: OSError, size: int) -> int:
        return size  # nobody can be told


class _Stdout(_Output):
    """As any, but it has to be told once."""

    def _ended(self, error: OSError, size: int) -> int:
        raise OutputLost(error) from error


def prepare() -> None:
    """Makes the standard streams safe to use. Called once, before anything is opened.

    A stream that was closed (`>&-`) becomes the null device: otherwise the next file to be opened would
    get its number. Stdout raises OutputLost; neither raises anything else, and what a stream cannot
    encode is spelled out.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    if sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _safe(sys.stdout, _Stdout)
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _safe(sys.stderr, _Output)


def _safe(stream: io.TextIOWrapper, kind: type[_Output]) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,
    )


@contextmanager
def reader_may_go() -> Iterator[None]:
    """Ends the block early where stdout's reader has gone (`| head`): it has what it wanted."""
    try:
        yield
    except OutputLost as lost:
        if not lost.reader_gone:
            raise


def tell(text: str) -> None:
    """A line of the answer."""
    with reader_may_go():
        sys.stdout.write(escaped(text) + "\n")


def say(text: str) -> None:
    """Lines beside the answer, none for an empty text."""
    if text:
        print(escaped_lines(text), file=sys.stderr)  # noqa: T201
