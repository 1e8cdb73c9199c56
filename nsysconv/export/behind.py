"""Work done by another thread, in order, while what is to be done next is prepared."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

_MOST_WAITING = 2


class Behind:
    """Does one piece of work after the other in a thread of its own. Use as a context manager.

    Who gives work waits where some is waiting already, so that memory stays bounded. What work raises is
    raised by a later `do`, or at the end.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def do(self, work: Callable[[], None]) -> None:
        """Has work done, after all that was given before."""
        while len(self._waiting) >= _MOST_WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(work))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while self._waiting and error is None:
                self._waiting.popleft().result()
        finally:
            self._pool.shutdown(cancel_futures=True)
