"""Signals that ask the process to end become an exception, so that nothing is left behind."""

from __future__ import annotations

import _thread
import atexit
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
