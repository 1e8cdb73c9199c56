"""Decodes pieces of a trace in processes of their own, each fed through a pipe.

`python -m nsysconv.importers.kineto.worker` reads jobs from stdin and writes pieces to stdout until its
input ends. Plain processes rather than `multiprocessing`: that runs the caller's own script again.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import IO

from nsysconv.importers.kineto.decode import Decoder
from nsysconv.importers.kineto.piece import Piece, Vocabulary

_LENGTH_BYTES = 8
Job = tuple[bytes, int]
"""A text of whole events and the byte of the trace where it stands."""


class Workers:
    """Processes that decode. Use as a context manager."""

    def __init__(
        self, count: int, vocabulary: Vocabulary, zero: int, *, python_functions: bool
    ) -> None:
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(count)
        ]
        for process in self._processes:
            _send(process.stdin, pickle.dumps((vocabulary, zero, python_functions)))
            self._free.put(process)
        self._threads = ThreadPoolExecutor(count)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            for process in self._processes:
                process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            process.wait()

    def decoded(self, jobs: Iterable[Job]) -> Iterator[Piece]:
        """The pieces of the jobs, in their order; a few are read ahead."""
        waiting: deque[Future[Piece]] = deque()
        for job in jobs:
            waiting.append(self._threads.submit(self._decode, job))
            if len(waiting) > len(self._processes):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _decode(self, job: Job) -> Piece:
        process = self._free.get()
        try:
            text, place = job
            _send(process.stdin, place.to_bytes(_LENGTH_BYTES, "little") + text)
            answer = _received(process.stdout)
        finally:
            self._free.put(process)
        if answer is None:
            raise ChildProcessError("a worker process ended; it may have run out of memory")
        piece = pickle.loads(answer)
        assert isinstance(piece, Piece)
        return piece


def _send(pipe: IO[bytes] | None, message: bytes) -> None:
    assert pipe is not None
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "little"))
    pipe.write(message)
    pipe.flush()


def _received(pipe: IO[bytes] | None) -> bytes | None:
    assert pipe is not None
    length = pipe.read(_LENGTH_BYTES)
    return pipe.read(int.from_bytes(length, "little")) if len(length) == _LENGTH_BYTES else None


def main() -> None:
    """The worker's side: the first message is what decoders are made of, each further one a job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us by closing the pipe
    jobs, answers = sys.stdin.buffer, sys.stdout.buffer
    asked = _received(jobs)
    if asked is None:
        return
    vocabulary, zero, python_functions = pickle.loads(asked)
    decoder = Decoder(vocabulary, python_functions=python_functions)
    # Events hold no cycles; looking for some in millions of objects would cost a tenth of the time.
    gc.disable()
    with contextlib.suppress(BrokenPipeError):
        while (job := _received(jobs)) is not None:
            place = int.from_bytes(job[:_LENGTH_BYTES], "little")
            piece = decoder.decode(memoryview(job)[_LENGTH_BYTES:], place, zero)
            _send(answers, pickle.dumps(piece, protocol=pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main()
