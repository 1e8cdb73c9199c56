"""Work in processes of their own, each fed through a pipe.

`python -m nsysconv.processes` reads items from stdin and writes results to stdout until its input ends.
Plain processes rather than `multiprocessing`, which runs the caller's own script again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_LENGTH_BYTES = 8


class ProcessDiedError(Exception):
    """A process ended before it gave its result: it was killed, or the memory ran out."""


class _Process(subprocess.Popen[bytes]):
    """A process that begins with nothing; what it starts is in its group, and ends with it."""

    def __init__(self) -> None:
        super().__init__(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )

    def kill(self) -> None:
        """Ends the group. Its number is no other's only as long as it was not waited for."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def _started() -> _Process:
    # Ctrl-C comes to all processes of a terminal. This one ends them, by closing their pipes; they
    # inherit that it is blocked, for they could not ignore it before Python has started.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        return _Process()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Processes(Generic[Item, Result]):
    """`count` processes that turn items into results. Use as a context manager.

    In each of them `make(*arguments)` gives the function that does so. All of these, items and results
    are pickled; `make` is found by its module and name.
    """

    def __init__(
        self, count: int, make: Callable[..., Callable[[Item], Result]], *arguments: Any
    ) -> None:
        self._count = count
        self._begin = pickle.dumps((make, arguments))
        self._free: SimpleQueue[_Process] = SimpleQueue()
        self._ended = False
        self._processes: list[_Process] = []
        for _ in range(count):
            self._free.put(self._next())
        self._threads = ThreadPoolExecutor(count)

    def __enter__(self) -> Processes[Item, Result]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # In this order: no thread takes up a further item when its process is killed. Idle processes
        # would end by themselves, but first look through all that they had loaded.
        self._ended = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()
        self._threads.shutdown(wait=True)
        for process in self._processes:
            _closed(process)

    def map(
        self, items: Iterable[Item], lost: Callable[[Item], Result] | None = None
    ) -> Iterator[Result]:
        """The results of the items, in their order.

        One item more than there are processes is taken ahead of the result that is asked for, the first
        of them at once. What an item's work raises is raised here. Where its process ends early a new
        one takes its place; the item's result is then `lost(item)`, and without `lost` EndedEarly is
        raised.
        """
        begun = (self._threads.submit(self._result, item, lost) for item in items)
        waiting = deque(islice(begun, self._count + 1))
        return self._results(waiting, begun)

    @staticmethod
    def _results(
        waiting: deque[Future[Result]], begun: Iterator[Future[Result]]
    ) -> Iterator[Result]:
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(islice(begun, 1))

    def _next(self) -> _Process:
        """A process that knows how to do the work."""
        process = _started()
        self._processes.append(process)
        with contextlib.suppress(OSError):  # it has ended; the first item will tell
            _send(process.stdin, self._begin)
        return process

    def _result(self, item: Item, lost: Callable[[Item], Result] | None) -> Result:
        message = pickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL)
        process = self._free.get()
        try:
            _send(process.stdin, message)
            answer = _received(process.stdout)
        except OSError:  # its end of the pipe is closed
            answer = None
        if answer is None and not self._ended:
            _closed(process)
            process = self._next()
        self._free.put(process)
        if answer is None and lost is not None and not self._ended:
            return lost(item)
        return _opened(answer)  # type: ignore[no-any-return]


def _opened(answer: bytes | None) -> Any:
    """The result that a process has sent."""
    if answer is None:
        raise ProcessDiedError
    result, error = pickle.loads(answer)
    if error is not None:
        raise error
    return result


def _closed(process: _Process) -> None:
    process.kill()  # or what it has started, where it has ended itself
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


def _send(pipe: IO[bytes] | None, message: bytes) -> None:
    assert pipe is not None
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "little"))
    pipe.write(message)
    pipe.flush()


def _received(pipe: IO[bytes] | None) -> bytes | None:
    assert pipe is not None
    head = pipe.read(_LENGTH_BYTES)
    length = int.from_bytes(head, "little")
    message = pipe.read(length) if len(head) == _LENGTH_BYTES else b""
    return message if head and len(message) == length else None


def main() -> None:
    """The process's side: the first message says how results are made, each further one is an item."""
    # Programs that work starts inherit neither: what they print must not stand between results, and as
    # long as they held the pipe nobody would see that this process has ended.
    nothing = os.open(os.devnull, os.O_RDWR)  # becomes stderr where that was closed
    with os.fdopen(os.dup(0), "rb") as items, os.fdopen(os.dup(1), "wb") as results:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        _serve(items, results)


def _serve(items: IO[bytes], results: IO[bytes]) -> None:
    begin = _received(items)
    if begin is None:
        return
    make, arguments = pickle.loads(begin)
    work = make(*arguments)
    with contextlib.suppress(BrokenPipeError):
        while (item := _received(items)) is not None:
            # Nobody else holds it: it is forgotten when it has been unpacked.
            waiting = [item]
            del item
            _send(results, pickled_outcome(partial(_with, work, waiting)))


def _with(work: Callable[[Any], Any], waiting: list[bytes]) -> Any:
    return work(pickle.loads(waiting.pop()))


def pickled_outcome(work: Callable[[], Any]) -> bytes:
    """What work gives, to be sent: its result and None, or None and the error."""
    try:
        return pickle.dumps((work(), None), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        error.add_note(f"In a process on {socket.gethostname()}:\n{traceback.format_exc()}")
        return pickle.dumps((None, error), protocol=pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
