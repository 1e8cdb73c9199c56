"""The standard streams: closed, full, or read by a program that has gone."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nsysconv.refusals import reason_of


class OutputLost(Exception):  # noqa: N818 - says what became of it
    """Stdout took no more. No OSError: the library of the command line has its own ways with those."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(f"stdout: {reason_of(reason)}")
        self.reader_gone = reason.errno == errno.EPIPE


class _Output(io.FileIO):
    """A standard stream's file. Once it took no more, what is written goes nowhere."""

    _lost = False

    def write(self, data: Any) -> int:
        if self._lost:
            return memoryview(data).nbytes
        try:
            # None: the stream is another program's, too, and was made not to wait.
            while (written := super().write(data)) is None:
                select.select((), (self,), ())
        except OSError as error:
            self._lost = True
            return self._ended(error, memoryview(data).nbytes)
        return written

    def _ended(self, error: OSError, size: int) -> int:
        return size  # nobody can be told


class _Stdout(_Output):
    """As any, but it has to be told once."""

    def _ended(self, error: OSError, size: int) -> int:
        raise OutputLost(error) from error


def prepare() -> None:
    """Makes the standard streams safe to use. Called once, before anything is opened.

    A stream that was closed (`>&-`) becomes the null device: otherwise the next file to be opened would
    get its number. Stdout raises OutputLost; neither raises anything else, and what a stream cannot
    encode is spelled out.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    if sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _safe(sys.stdout, _Stdout)
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _safe(sys.stderr, _Output)


def _safe(stream: io.TextIOWrapper, kind: type[_Output]) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering or stream.write_through,
    )


@contextmanager
def reader_may_go() -> Iterator[None]:
    """Ends the block early where stdout's reader has gone (`| head`): it has what it wanted."""
    try:
        yield
    except OutputLost as lost:
        if not lost.reader_gone:
            raise
