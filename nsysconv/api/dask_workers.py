"""The workers of a Dask cluster: one that runs already, or one of this machine for as long as it takes.

Pieces of work go out as they can be started, and their results come back in order.
`python -m nsysconv.api.dask_workers COUNT FOLDER` is a cluster of this machine, until its input ends. It
is a process of its own because Dask starts workers by running the caller's own script again in each.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar
from uuid import uuid4

from nsysconv import __version__
from nsysconv.errors import InputError, UsageError
from nsysconv.processes import ProcessDiedError, kill_group, pickled_outcome
from nsysconv.store.location import check_no_secret

Item = TypeVar("Item")
Result = TypeVar("Result")

Files = Callable[[Item], Iterable[Path]]
"""Returns the files that work on an item reads: those that exist here must exist on the worker."""
Answer = tuple[Result | None, Exception | None]

ANSWER_S = 15
"""A scheduler that takes longer to answer is given up."""
WORKERLESS_S = 120
"""A cluster that has had no worker for this long is given up."""
_LOOK_S = 5
"""Seconds between two looks at a cluster's workers."""
_AHEAD = 4
"""Results that may wait for an earlier one, per piece at work at a time."""


class Dask:
    """The workers of a cluster. A piece whose worker dies is done again by another."""

    def __init__(self, client: Any, where: str, stack: ExitStack) -> None:
        """Wait for the first workers. What they start ends with the stack; `where` is for messages."""
        self.client = client
        self.where = where
        self._stack = stack
        self._count = 0
        self._asked = self._had_workers = time.monotonic()
        while not self._count:
            self.look()
            if not self._count:
                time.sleep(0.1)

    @property
    def count(self) -> int:
        """Return how many pieces are worked on at a time, as far as is known now; workers come and go."""
        if time.monotonic() - self._asked > _LOOK_S:
            self.look()
        return max(1, self._count)

    def look(self) -> None:
        """Ask for the workers; raise UsageError without an answer, or if there were none for long."""
        try:
            threads = self.client.sync(self.client.scheduler.ncores, callback_timeout=ANSWER_S)
        except (OSError, TimeoutError, RuntimeError, CancelledError) as error:
            raise self.gone() from error
        self._asked = time.monotonic()
        self._count = sum(threads.values())
        if self._count:
            self._had_workers = self._asked
        elif self._asked - self._had_workers > WORKERLESS_S:
            raise UsageError(
                f"the Dask cluster has had no worker for {WORKERLESS_S} s",
                where=self.where,
                hint="Start some: dask worker SCHEDULER --nthreads 1 --no-dashboard",
            )

    def gone(self) -> UsageError:
        """Return the error that the scheduler is gone."""
        return UsageError(
            "the Dask scheduler does not answer any more",
            where=self.where,
            hint="Start it again, with its workers, and then this command.",
        )

    def map(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        lost: Callable[[Item], Result] | None = None,
        files: Files[Item] | None = None,
    ) -> Iterator[Result]:
        """Yield the result of `work` for each item, as `Workers.map` does."""
        results = self._results(_Pieces(self, work, files), items, lost)
        self._stack.callback(results.close)
        return results

    def _results(
        self,
        pieces: _Pieces[Item, Result],
        items: Sequence[Item],
        lost: Callable[[Item], Result] | None,
    ) -> Generator[Result]:
        waiting: deque[tuple[Item, Any]] = deque()

        def come(enough: Callable[[], bool]) -> Iterator[Result]:
            while waiting and not enough():
                if waiting[0][1].done():
                    yield self._result(pieces, *waiting.popleft(), lost)
                else:
                    pieces.wait()

        def room() -> bool:
            # Workers get no more pieces than they can run: if a piece kills its worker, Dask also
            # blames the pieces that wait behind it.
            return pieces.running() < self.count and len(waiting) < self.count * _AHEAD

        for item in items:
            yield from come(room)
            waiting.append((item, pieces.begin(item)))
        yield from come(lambda: False)

    def _result(
        self,
        pieces: _Pieces[Item, Result],
        item: Item,
        future: Any,
        lost: Callable[[Item], Result] | None,
    ) -> Result:
        answer = pieces.answer(future)
        if answer is None:
            # Another piece on the same worker may have killed it, so this one is tried once more,
            # alone.
            while pieces.running():
                pieces.wait()
            future = pieces.begin(item)
            pieces.wait()
            answer = pieces.answer(future)
        if answer is None:
            if lost is None:
                raise ProcessDiedError
            return lost(item)
        result, error = answer
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


class _Pieces(Generic[Item, Result]):
    # A cluster does these pieces of one kind of work.
    def __init__(
        self, cluster: Dask, work: Callable[[Item], Result], files: Files[Item] | None
    ) -> None:
        self._cluster = cluster
        self._work = work
        self._files = files
        self._running = 0
        self._ended: SimpleQueue[Any] = SimpleQueue()

    def begin(self, item: Item) -> Any:
        # Returns Dask's future of the pickled answer.
        read = [str(path) for path in self._files(item) if path.exists()] if self._files else []
        call = partial(_checked, self._work, item, read, __version__)
        try:
            future = self._cluster.client.submit(
                pickle.loads,
                pickle.dumps(_Call(pickled_outcome, (call,))),
                key=f"nsysconv-{uuid4().hex}",
            )
        except (OSError, RuntimeError, CancelledError) as error:  # the connection is closed
            raise self._cluster.gone() from error
        self._running += 1
        # The callback keeps no reference to the future, which would keep the result on the cluster.
        future.add_done_callback(lambda _: self._ended.put(None))
        return future

    def running(self) -> int:
        with suppress(Empty):
            while True:
                self._ended.get_nowait()
                self._running -= 1
        return self._running

    def wait(self) -> None:
        while True:
            with suppress(Empty):
                self._ended.get(timeout=_LOOK_S)
                self._running -= 1
                return
            self._cluster.look()

    def answer(self, future: Any) -> Answer[Result] | None:
        # The piece has ended. The answer is None if its worker died at each attempt.
        from distributed.scheduler import KilledWorker

        while True:
            try:
                return pickle.loads(future.result(timeout=ANSWER_S))  # type: ignore[no-any-return]
            except KilledWorker:
                return None
            except TimeoutError:  # lost with its worker, and made again
                self._cluster.look()
            except CancelledError as error:
                raise self._cluster.gone() from error
            except Exception as error:  # not the work's: those are answers
                raise UsageError(
                    f"a Dask worker cannot do this work: {type(error).__name__}: {error}",
                    where=self._cluster.where,
                    hint=f"Workers need the same nsysconv ({__version__}) in their environment.",
                ) from error


@dataclass(frozen=True)
class _Call:
    # Unpickling it makes the call, and gives what that returns. A worker without nsysconv would end
    # itself over a task of unknown functions; unpickling is a function that it knows, and fails.

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.function, self.arguments


def _checked(
    work: Callable[[Item], Result], item: Item, read: Sequence[str], version: str
) -> Result:
    # Runs on a worker. `read` are files that exist where the work comes from.
    if version != __version__:
        raise UsageError(
            f"a Dask worker on {socket.gethostname()} has nsysconv {__version__}, this is {version}",
            hint="Start workers in an environment with the same nsysconv.",
        )
    for path in read:
        if not Path(path).exists():
            raise InputError(
                f"not there for the Dask worker on {socket.gethostname()}",
                where=path,
                hint="Workers need the same files under the same names: put them on a file system "
                "that all hosts share.",
            )
    return work(item)


_LOGGERS = ("distributed", "distributed.client", "distributed.comm", "tornado")


@contextmanager
def dask_workers(where: str, local_count: int | None = None) -> Iterator[Dask]:
    """Connect to the workers of a cluster; raise UsageError if that is not possible.

    `where` is the address of its scheduler, or the path of its scheduler file. With `local_count` so
    many workers are started on this machine, in a cluster that nobody else can connect to.
    """
    check_no_secret(where, "the address of a Dask scheduler")
    with ExitStack() as stack:
        if local_count is None:
            _check_installed("distributed")
            address, security = _address(where), None
        else:
            _check_installed("distributed", "cryptography")
            where = "local"
            address, security = _start_cluster(local_count, stack)
        stack.enter_context(_silenced_loggers())
        client = stack.enter_context(_client(where, address, security))
        yield Dask(client, where, stack)


def _address(where: str) -> str:
    # The address need not be that of a running scheduler. An address that cannot be parsed raises
    # UsageError.
    from distributed import Security
    from distributed.comm.addressing import parse_address, parse_host_port
    from distributed.comm.registry import get_backend

    address: Any = where
    try:
        if Path(where).is_file():
            address = json.loads(Path(where).read_text(encoding="utf-8"))["address"]
        # The address is checked here, because a client with an invalid one fails half made and waits
        # for itself at the end.
        scheme, place = parse_address(address)
        get_backend(scheme)
        parse_host_port(place)
        if scheme in ("tls", "wss") and not Security().get_connection_args("client")["ssl_context"]:
            raise ValueError("it speaks TLS, and Dask is configured with no keys for that")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"no Dask scheduler: {error}",
            where=where,
            hint="Name its address (tcp://HOST:8786) or its scheduler file.",
        ) from error
    return str(address)


def _start_cluster(count: int, stack: ExitStack) -> tuple[str, Any]:
    # The result is the cluster's address and keys. The cluster runs as long as the stack is open.
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nsysconv-dask-"))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(count), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a terminal's Ctrl-C is for us to act on
    )
    stack.callback(_kill_session, process)
    assert process.stdout is not None
    try:
        address, security = pickle.load(process.stdout)
    except EOFError as error:
        raise UsageError("no Dask cluster could be started here", where="local") from error
    return address, security


def _check_installed(*modules: str) -> None:
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"Dask is not installed: {error}", hint="pip install 'nsysconv[dask]'"
        ) from error


def _client(where: str, address: str, security: Any) -> Any:
    from distributed import Client

    try:
        return Client(address, security=security, timeout=ANSWER_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"no Dask scheduler answers: {error}",
            where=where,
            hint="Start one: dask scheduler --scheduler-file FILE. Its Dask must be of about the "
            "release of this one.",
        ) from error


@contextmanager
def _silenced_loggers() -> Iterator[None]:
    # Dask's messages are not needed, because this module raises errors of its own for those that
    # matter.
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    try:
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    # A session is the process and all that it has started.
    kill_group(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()


def main() -> None:
    """Run a cluster on this machine; write its address and keys to stdout; end with stdin."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what workers print must not stand in the pipe
    import dask
    from distributed import LocalCluster

    dask.config.set(
        {
            "distributed.scheduler.http.routes": [],
            "distributed.worker.http.routes": [],
            "distributed.worker.profile.enabled": False,
            "logging": {"distributed": "critical"},
            "temporary-directory": sys.argv[2],
        }
    )
    with (
        LocalCluster(
            n_workers=int(sys.argv[1]),
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            security=True,  # keys of its own: others on this machine can reach the port, too
            memory_limit=None,
            silence_logs=logging.CRITICAL,
            local_directory=sys.argv[2],
        ) as cluster,
        answer,
    ):
        pickle.dump((cluster.scheduler_address, cluster.security), answer)
        answer.flush()
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
