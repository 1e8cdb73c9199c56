"""Signals to end while reports are brought home: kept for later, but where work may be broken off."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from nsysconv.capture.running import ENDING


class BrokenOff(BaseException):
    """A signal to end has come. No Exception: nothing but what asked for it may take it."""


class Interruptions:
    """Holds signals to end for as long as its block runs. `came` says whether there was one."""

    def __init__(self, came: bool = False) -> None:
        self.came = came
        self._breaking = False

    def __enter__(self) -> Interruptions:
        numbers = [n for n in ENDING if signal.getsignal(n) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._take) for number in numbers}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """What runs in this block is broken off by a signal: BrokenOff is raised, once."""
        if self.came:
            raise BrokenOff
        self._breaking = True
        try:
            yield
        finally:
            self._breaking = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        if self._breaking:
            self._breaking = False
            raise BrokenOff
