"""What a process of its own does with pieces of a trace."""

from __future__ import annotations

import gc
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path

from nsysconv.importers.kineto.decode import Decoder
from nsysconv.importers.kineto.piece import Piece
from nsysconv.importers.kineto.trace import Span, Texts

Decode = Callable[[Span], Piece]


def decoding(file: BufferedReader, *, python_functions: bool, at_once: bool) -> Decode:
    """What decodes pieces of a trace; one after the other, because each piece's text takes the place of
    that before it. `at_once` as for Decoder.
    """
    decoder, texts = Decoder(python_functions=python_functions, at_once=at_once), Texts(file)

    def decode(span: Span) -> Piece:
        return decoder.decode(texts.read(span), span.place)

    return decode


def in_process(path: Path, python_functions: bool, at_once: bool) -> Decode:
    """The same of the trace at `path`, for as long as the process runs."""
    # Events hold no cycles; looking for some in millions of objects would cost a tenth of the time.
    gc.disable()
    return decoding(path.open("rb"), python_functions=python_functions, at_once=at_once)
