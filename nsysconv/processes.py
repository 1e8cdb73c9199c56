"""Work in processes of their own, each fed through a pipe.

`python -m nsysconv.processes [MODULE]...` loads the modules, then reads items from stdin and writes
results to stdout until its input ends.
Plain processes rather than `multiprocessing`: that runs the caller's own script again.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
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
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_LENGTH_BYTES = 8

_ahead: list[subprocess.Popen[bytes]] = []


class EndedEarly(Exception):  # noqa: N818 - says what became of a process
    """A process ended before it gave its result: it was killed, or the memory ran out."""


def start_ahead(count: int, module: str) -> None:
    """Has as many processes, with this module loaded, at hand for those who ask for `Processes` later.

    They wait for that. Those that nobody asks for end with this one.
    """
    if not _ahead:
        atexit.register(_dismiss)
    _ahead.extend(_started(module) for _ in range(count - len(_ahead)))


def _from_ahead() -> subprocess.Popen[bytes] | None:
    """One that is at hand and still runs."""
    while _ahead:
        process = _ahead.pop()
        if process.poll() is None:
            return process
        _closed(process)
    return None


def _dismiss() -> None:
    """Ends the processes that nobody asked for."""
    while _ahead:
        process = _ahead.pop()
        process.kill()
        _closed(process)


def _started(*modules: str) -> subprocess.Popen[bytes]:
    # Ctrl-C comes to all processes of a terminal. This one ends them, by closing their pipes; they
    # inherit that it is blocked, for they could not ignore it before Python has started.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
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
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
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
        if kind is not None:
            self._kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        # They are idle; by themselves they would first look through all that they had loaded.
        self._kill()
        for process in self._processes:
            _closed(process)

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()

    def map(
        self, items: Iterable[Item], lost: Callable[[Item], Result] | None = None
    ) -> Iterator[Result]:
        """The results of the items, in their order; a few items are taken ahead.

        What an item's work raises is raised here. Where its process ends early a new one takes its
        place; the item's result is then `lost(item)`, and without `lost` EndedEarly is raised.
        """
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(self._threads.submit(self._result, item, lost))
            if len(waiting) > self._count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _next(self) -> subprocess.Popen[bytes]:
        """A process that knows how to do the work."""
        process = _from_ahead() or _started()
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
        if answer is None:
            _closed(process)
            process = self._next()
        self._free.put(process)
        if answer is None:
            if lost is None:
                raise EndedEarly
            return lost(item)
        result, error = pickle.loads(answer)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]


def _closed(process: subprocess.Popen[bytes]) -> None:
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
    items, results = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what anything prints must not stand between results
    for module in sys.argv[1:]:
        importlib.import_module(module)
    begin = _received(items)
    if begin is None:
        return
    make, arguments = pickle.loads(begin)
    work = make(*arguments)
    with contextlib.suppress(BrokenPipeError):
        while (item := _received(items)) is not None:
            _send(results, answered(partial(_with, work, item)))


def _with(work: Callable[[Any], Any], item: bytes) -> Any:
    return work(pickle.loads(item))


def answered(work: Callable[[], Any]) -> bytes:
    """What work gives, to be sent: its result and None, or None and the error."""
    try:
        return pickle.dumps((work(), None), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        error.add_note(f"In a process on {socket.gethostname()}:\n{traceback.format_exc()}")
        return pickle.dumps((None, error), protocol=pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
