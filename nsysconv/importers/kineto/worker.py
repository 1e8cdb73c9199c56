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
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO

from nsysconv.errors import InputError
from nsysconv.importers.kineto.decode import Decoder
from nsysconv.importers.kineto.piece import Piece, Vocabulary
from nsysconv.importers.kineto.trace import Span

_LENGTH_BYTES = 8


class Workers:
    """Processes that decode pieces of the trace at `path`. Use as a context manager."""

    def __init__(
        self, count: int, path: Path, vocabulary: Vocabulary, *, python_functions: bool
    ) -> None:
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(count)
        ]
        for process in self._processes:
            with contextlib.suppress(OSError):  # it has ended; the first job will tell
                _send(process.stdin, pickle.dumps((path, vocabulary, python_functions)))
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

    def decoded(self, spans: Iterable[Span], zero: int) -> Iterator[Piece]:
        """The pieces of the spans, in their order; a few are read ahead. `zero` as for Decoder."""
        waiting: deque[Future[Piece]] = deque()
        for span in spans:
            waiting.append(self._threads.submit(self._decode, span, zero))
            if len(waiting) > len(self._processes):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _decode(self, span: Span, zero: int) -> Piece:
        process = self._free.get()
        try:
            _send(process.stdin, pickle.dumps((span, zero), protocol=pickle.HIGHEST_PROTOCOL))
            answer = _received(process.stdout)
        except OSError:  # its end of the pipe is closed
            answer = None
        finally:
            self._free.put(process)
        if answer is None:
            raise InputError(
                "a process that read the trace ended early",
                hint="It was killed, or the memory ran out; nothing was imported.",
            )
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
    head = pipe.read(_LENGTH_BYTES)
    length = int.from_bytes(head, "little")
    message = pipe.read(length) if len(head) == _LENGTH_BYTES else b""
    return message if head and len(message) == length else None


def main() -> None:
    """The worker's side: the first message is what decoders are made of, each further one a job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us by closing the pipe
    jobs, answers = sys.stdin.buffer, sys.stdout.buffer
    asked = _received(jobs)
    if asked is None:
        return
    path, vocabulary, python_functions = pickle.loads(asked)
    decoder = Decoder(vocabulary, python_functions=python_functions)
    # Events hold no cycles; looking for some in millions of objects would cost a tenth of the time.
    gc.disable()
    with contextlib.suppress(BrokenPipeError), path.open("rb") as file:
        while (job := _received(jobs)) is not None:
            span, zero = pickle.loads(job)
            piece = decoder.decode(span.read(file), span.place, zero)
            _send(answers, pickle.dumps(piece, protocol=pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main()
