"""Decoding a trace: its pieces in order, in worker processes where the trace is large.

Worker processes import this module, and nothing heavy with it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from nsysconv.cores import cores
from nsysconv.importers.kineto.decode import Decoder
from nsysconv.importers.kineto.piece import Piece
from nsysconv.importers.kineto.trace import GZIP, Span, Trace
from nsysconv.processes import Processes

# Below this, starting processes takes longer than decoding.
_ALONE_BYTES = 24 << 20
_INFLATION = 10
_MOST_WORKERS = 8

Decode = Callable[[Span], Piece]


def worker_count(size: int, head: bytes, most: int | None = None) -> int:
    """Return how many worker processes decode a trace of `size` bytes that begins with `head`.

    0: it is decoded in this process. `most`: how many processes there may be; None: one per core.
    """
    most = most or min(cores(), _MOST_WORKERS)
    inflated = size * (_INFLATION if head.startswith(GZIP) else 1)
    return most if inflated >= _ALONE_BYTES and most > 1 else 0


@contextmanager
def decoded(trace: Trace, workers: int, *, python_functions: bool) -> Iterator[Iterator[Piece]]:
    """Yield the pieces of a trace, decoded by so many worker processes or, for 0, by this one.

    Leaving the context ends the processes. Raises EndedEarly where one of them did.
    """
    if workers:
        with Processes[Span, Piece](workers, _worker, trace.path, python_functions) as processes:
            yield processes.map(trace.pieces())
    else:
        with trace.path.open("rb") as file:
            yield map(_decode(file, python_functions=python_functions), trace.pieces())


def _decode(file: BufferedReader, *, python_functions: bool) -> Decode:
    decoder = Decoder(python_functions=python_functions)
    return lambda span: decoder.decode(span.read(file), span.place)


def _worker(path: Path, python_functions: bool) -> Decode:
    """Return what decodes the trace at `path` for as long as a worker process runs."""
    # Events hold no cycles; looking for some in millions of objects would cost a tenth of the time.
    gc.disable()
    return _decode(path.open("rb"), python_functions=python_functions)
