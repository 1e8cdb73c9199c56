"""What a process of its own does with pieces of a trace."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

from nsysconv.importers.kineto.decode import Decoder
from nsysconv.importers.kineto.piece import Piece, Vocabulary
from nsysconv.importers.kineto.trace import Span

Job = tuple[Span, int]
"""A piece of the file, and the zero its times count from."""


def decoding(path: Path, vocabulary: Vocabulary, python_functions: bool) -> Callable[[Job], Piece]:
    """What decodes pieces of the trace at `path`, for as long as the process runs."""
    decoder = Decoder(vocabulary, python_functions=python_functions)
    # Events hold no cycles; looking for some in millions of objects would cost a tenth of the time.
    gc.disable()
    file = path.open("rb")

    def decode(job: Job) -> Piece:
        span, zero = job
        return decoder.decode(span.read(file), span.place, zero)

    return decode
