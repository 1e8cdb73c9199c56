"""Worker processes, each fed through a pipe.

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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import IO, Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_LENGTH_BYTES = 8


class ProcessDiedError(Exception):
    """A worker process died before it returned its result: it was killed, or the memory ran out."""


class _Process(subprocess.Popen[bytes]):
    def kill(self) -> None:
        # With the group goes what it started. Once it was waited for, its number may be another's.
        if self.returncode is None:
            kill_group(self)


def _start() -> _Process:
    # Ctrl-C reaches all processes of a terminal. This process ends the workers by closing their pipes;
    # they inherit a blocked SIGINT, because they could not ignore it before Python has started. With -P
    # nothing is imported from the current folder, which may hold anything.
    command, pipe = [sys.executable, "-P", "-m", __name__], subprocess.PIPE
    if not hasattr(signal, "pthread_sigmask"):  # Windows sends Ctrl-C to groups
        group: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        return _Process(command, stdin=pipe, stdout=pipe, creationflags=group)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        return _Process(command, stdin=pipe, stdout=pipe, process_group=0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a group, with its group; on Windows, which has none, it alone."""
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            subprocess.Popen.kill(process)


class Processes(Generic[Item, Result]):
    """A pool of `count` worker processes that turn items into results. Use it as a context manager.

    Each worker calls `make(*arguments)` once for the function that turns one item into one result.
    `make`, its arguments, items and results are pickled; `make` is found by its module and name.
    """

    def __init__(
        self, count: int, make: Callable[..., Callable[[Item], Result]], *arguments: Any
    ) -> None:
        """Start `count` workers, which call `make(*arguments)` for the function that does the work."""
        self._count = count
        self._begin = pickle.dumps((make, arguments))
        self._free: SimpleQueue[_Process] = SimpleQueue()
        self._ended = False
        self._processes: list[_Process] = []
        for _ in range(count):
            self._free.put(self._next())
        self._threads = ThreadPoolExecutor(count)

    def __enter__(self) -> Processes[Item, Result]:
        """Return the pool."""
        return self

    def __exit__(self, *error: object) -> None:
        """Kill all workers and what they started, and wait for them."""
        # In this order: no thread takes up a further item when its process is killed. Idle processes
        # would end by themselves, but run a garbage collection over all they have loaded first.
        self._ended = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()
        self._threads.shutdown(wait=True)
        for process in self._processes:
            _close(process)

    def map(
        self, items: Iterable[Item], lost: Callable[[Item], Result] | None = None
    ) -> Iterator[Result]:
        """Yield the results of the items, in their order.

        One item more than there are workers is submitted ahead of the result that is asked for, the
        first of them at once. An error that the work raises is raised here. If a worker dies a new one
        takes its place, and the item's result is `lost(item)`; without `lost`, ProcessDiedError is
        raised.
        """
        begun = (self._threads.submit(self._result, item, lost) for item in items)
        waiting = deque(islice(begun, self._count + 1))

        def results() -> Iterator[Result]:
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(islice(begun, 1))

        return results()

    def _next(self) -> _Process:
        process = _start()
        self._processes.append(process)
        with contextlib.suppress(OSError):  # it has died; its first item finds out
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
            _close(process)
            process = self._next()
        self._free.put(process)
        if answer is None and lost is not None and not self._ended:
            return lost(item)
        if answer is None:
            raise ProcessDiedError
        result, error = pickle.loads(answer)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]


def _close(process: _Process) -> None:
    process.kill()  # also kills what it has started, if it ended by itself
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
    """Run the worker's side: the first message holds `make` and its arguments, the others items."""
    # Programs that the work starts inherit neither: what they print must not mix with results, and while
    # they hold the pipe nobody sees that this process has ended.
    nothing = os.open(os.devnull, os.O_RDWR)  # becomes stderr where that was closed
    # The process that reads the results may be killed: what is written then, as the pipe is closed, too,
    # is lost.
    with (
        contextlib.suppress(BrokenPipeError),
        os.fdopen(os.dup(0), "rb") as items,
        os.fdopen(os.dup(1), "wb") as results,
    ):
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        if (begin := _received(items)) is not None:
            make, arguments = pickle.loads(begin)
            _serve(make(*arguments), items, results)


def _serve(work: Callable[[Any], Any], items: IO[bytes], results: IO[bytes]) -> None:
    while (item := _received(items)) is not None:
        # The list is the only reference: popping it frees the message once it is unpickled.
        waiting = [item]
        del item
        _send(results, pickled_outcome(partial(_unpickled_work, work, waiting)))


def _unpickled_work(work: Callable[[Any], Any], waiting: list[bytes]) -> Any:
    return work(pickle.loads(waiting.pop()))


def pickled_outcome(work: Callable[[], Any]) -> bytes:
    """Return the pickled outcome of `work`: (result, None), or (None, error) if it raised."""
    try:
        return pickle.dumps((work(), None), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        error.add_note(f"In a process on {socket.gethostname()}:\n{traceback.format_exc()}")
        return pickle.dumps((None, error), protocol=pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
