"""A trace being decoded: its pieces in order, as processes beside each other finish them.

Nothing heavy is imported here: a command begins with this while it loads what it needs itself.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from nsysconv.errors import InputError
from nsysconv.importers.begun import Begun
from nsysconv.importers.kineto import beside
from nsysconv.importers.kineto.piece import Piece
from nsysconv.importers.kineto.trace import Span, Trace, begins_soon, is_laid_out, is_packed
from nsysconv.importers.kineto.worker import decoding, in_process
from nsysconv.processes import Processes

# So many pieces of a plain file are decoded before anybody asks for them: what the processes do while a
# command loads. Of a packed one they would be read here, and wait in memory.
_AHEAD = 64


class Decoding:
    """Decodes one trace in `count` processes, or in this one where that is 0, until it is closed.

    `trace` is the file that is read. The processes begin at once; `copied` as for Processes.
    """

    def __init__(
        self, path: Path, count: int, *, python_functions: bool, copied: bool = False
    ) -> None:
        self.trace = Trace(path)
        self._pieces: Iterator[Piece]
        at_once = _is_large(path) and is_laid_out(path)
        if at_once and copied:
            # Once, instead of in each of its processes.
            importlib.import_module(f"{__package__}.alike")
        with ExitStack() as stack:
            if count:
                processes = Processes[Span, Piece](
                    count, in_process, path, python_functions, at_once, copied=copied
                )
                workers = stack.enter_context(processes)
                ahead = None if is_packed(path) else _AHEAD
                self._pieces = workers.map(self.trace.pieces(), ahead=ahead)
            else:
                file = stack.enter_context(path.open("rb"))
                decode = decoding(file, python_functions=python_functions, at_once=at_once)
                self._pieces = map(decode, self.trace.pieces())
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Ends the processes, whatever they are at."""
        self._stack.close()

    def pieces(self) -> Iterator[Piece]:
        """The pieces, once; raises EndedEarly where a process did so."""
        return self._pieces


def _is_large(path: Path) -> bool:
    with path.open("rb") as file:
        return beside.is_large(os.fstat(file.fileno()).st_size, file.read(len(beside.GZIP)))


_begun: Begun[Decoding] = Begun()


def begin(path: Path, count: int, *, python_functions: bool) -> None:
    """Begins to decode what looks like a trace, for who asks for that decoding later.

    Where it cannot be read nothing is begun: who reads it will say why.
    """

    def decoding() -> Decoding:
        return Decoding(path, count, python_functions=python_functions, copied=True)

    with suppress(InputError, OSError):
        if begins_soon(path):
            _begun.begin(path, count, python_functions, work=decoding)


def decoding_of(path: Path, count: int, *, python_functions: bool) -> Decoding:
    """The decoding of a trace that was begun, or a new one."""
    begun = _begun.take(path, count, python_functions)
    return begun or Decoding(path, count, python_functions=python_functions)


def end() -> None:
    """Ends the decodings that nobody asked for."""
    _begun.end()
